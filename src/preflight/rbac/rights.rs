//! Rights by scope, and the role rules that grant them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The rights of one scope: verbs by API group, resource and optional object name.
pub(super) type Rights = BTreeMap<(String, String, Option<String>), BTreeSet<&'static str>>;

/// The content of a rule: API group, verbs and, if it is limited to some objects, their names.
type Grant<'r> = (&'r str, &'r BTreeSet<&'static str>, Vec<&'r str>);

/// The scope of rights: a namespace, or `None` for the cluster.
pub(super) type Scope<'s> = Option<&'s str>;

/// Rights by scope.
#[derive(Default)]
pub(super) struct Scoped {
    rights: BTreeMap<Option<String>, Rights>,
}

impl Scoped {
    pub(super) fn add(&mut self, scope: Scope<'_>, group: &str, resource: &str, verbs: &[&'static str]) {
        self.add_to(scope, group, resource, None, verbs);
    }

    /// Adds rights to the object `name`, or to all objects without a name.
    pub(super) fn add_to(
        &mut self,
        scope: Scope<'_>,
        group: &str,
        resource: &str,
        name: Option<&str>,
        verbs: &[&'static str],
    ) {
        let key = (group.to_owned(), resource.to_owned(), name.map(str::to_owned));
        self.rights.entry(scope.map(str::to_owned)).or_default().entry(key).or_default().extend(verbs);
    }

    /// Adds all rights of another set.
    pub(super) fn extend(&mut self, other: Self) {
        for (scope, rights) in other.rights {
            let own = self.rights.entry(scope).or_default();
            for (key, verbs) in rights {
                own.entry(key).or_default().extend(verbs);
            }
        }
    }

    /// All namespaces with rights.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.rights.keys().filter_map(Option::as_deref)
    }

    /// The rules of a role. Names of one resource with the same verbs are merged into one rule, and so are resources of one
    /// group.
    pub(super) fn rules(&self, scope: Scope<'_>) -> Vec<Value> {
        let Some(rights) = self.rights.get(&scope.map(str::to_owned)) else { return Vec::new() };
        let mut names: BTreeMap<(&str, &str, &BTreeSet<&'static str>), Vec<&str>> = BTreeMap::new();
        for ((group, resource, name), verbs) in rights {
            names.entry((group, resource, verbs)).or_default().extend(name.as_deref());
        }
        let mut alike: BTreeMap<Grant<'_>, Vec<&str>> = BTreeMap::new();
        for ((group, resource, verbs), names) in names {
            // A right to all objects makes rights to single objects superfluous.
            let all = rights.get(&(group.to_owned(), resource.to_owned(), None)) == Some(verbs);
            let names = if all { Vec::new() } else { names };
            alike.entry((group, verbs, names)).or_default().push(resource);
        }
        let rule = |((group, verbs, names), resources): (Grant<'_>, Vec<&str>)| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule
        };
        alike.into_iter().map(rule).collect()
    }

    /// The rights of a scope in a short form, for tests: `GROUP/RESOURCE [NAME] COUNT-OF-VERBS`.
    #[cfg(test)]
    pub(super) fn summary(&self, scope: Scope<'_>) -> Vec<String> {
        let rights = self.rights.get(&scope.map(str::to_owned));
        let shown = |((g, r, name), v): (&(String, String, Option<String>), &BTreeSet<&str>)| {
            format!("{g}/{r} {}{}", name.as_ref().map_or_else(String::new, |n| format!("{n} ")), v.len())
        };
        rights.into_iter().flatten().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_resources_with_the_same_verbs_share_a_rule() {
        let mut rights = Scoped::default();
        rights.add(Some("ns"), "", "pods", &["get"]);
        rights.add(Some("ns"), "", "services", &["get"]);
        for name in ["b", "a"] {
            rights.add_to(None, "g.test", "things", Some(name), &["get", "patch"]);
        }
        rights.add(None, "g.test", "things", &["create"]);
        // The name adds no right here.
        rights.add(None, "g.test", "others", &["get"]);
        rights.add_to(None, "g.test", "others", Some("a"), &["get"]);
        assert_eq!(
            rights.rules(Some("ns")),
            [json!({"apiGroups": [""], "resources": ["pods", "services"], "verbs": ["get"]})]
        );
        assert_eq!(
            rights.rules(None),
            [
                json!({"apiGroups": ["g.test"], "resources": ["things"], "verbs": ["create"]}),
                json!({"apiGroups": ["g.test"], "resources": ["others"], "verbs": ["get"]}),
                json!({"apiGroups": ["g.test"], "resources": ["things"], "verbs": ["get", "patch"], "resourceNames": ["a", "b"]}),
            ]
        );
        assert_eq!(rights.rules(Some("other")), [] as [Value; 0]);
    }
}
