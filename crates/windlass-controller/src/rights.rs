//! Rights by scope, and the role rules that grant them. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// The API group of roles.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// A resource of some rights: API group, resource with its subresource, and optional object name.
type Resource = (String, String, Option<String>);

/// The rights of one scope.
type Rights = BTreeMap<Resource, BTreeSet<String>>;

/// The content of a rule: API group, verbs and, if it is limited to some objects, their names.
type Grant<'r> = (&'r str, &'r BTreeSet<String>, Vec<&'r str>);

/// The scope of rights: a namespace, or `None` for the cluster.
pub type RightScope<'s> = Option<&'s str>;

/// Rights of one subject, by scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RightSet {
    rights: BTreeMap<Option<String>, Rights>,
    /// Verbs by path, for what is no resource.
    urls: BTreeMap<String, BTreeSet<String>>,
}

/// Verbs for one resource in one scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right<'r> {
    /// The namespace; `None` for the cluster.
    pub scope: RightScope<'r>,
    /// The API group; empty for the core group.
    pub group: &'r str,
    /// The resource in the plural, with its subresource.
    pub resource: &'r str,
    /// The only object that the right is for.
    pub name: Option<&'r str>,
    /// The verbs.
    pub verbs: &'r BTreeSet<String>,
}

impl std::fmt::Display for Right<'_> {
    /// `get, patch deployments.apps web in namespace shop`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verbs: Vec<&str> = self.verbs.iter().map(String::as_str).collect();
        let (resource, part) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        write!(f, "{} {resource}", verbs.join(", "))?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if !part.is_empty() {
            write!(f, "/{part}")?;
        }
        if let Some(name) = self.name {
            write!(f, " {name}")?;
        }
        match self.scope {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => write!(f, " in the cluster"),
        }
    }
}

impl RightSet {
    /// Adds rights to all objects of a resource.
    pub fn add(&mut self, scope: RightScope<'_>, group: &str, resource: &str, verbs: &[&str]) {
        self.add_to(scope, group, resource, None, verbs);
    }

    /// Adds rights to the object `name`, or to all objects without a name.
    pub fn add_to(
        &mut self,
        scope: RightScope<'_>,
        group: &str,
        resource: &str,
        name: Option<&str>,
        verbs: &[&str],
    ) {
        let key = (group.to_owned(), resource.to_owned(), name.map(str::to_owned));
        let own = self.rights.entry(scope.map(str::to_owned)).or_default().entry(key).or_default();
        own.extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }

    /// Adds what a rule of a role grants.
    pub fn add_rule(&mut self, scope: RightScope<'_>, rule: &Value) {
        let texts = |key: &str| -> Vec<&str> {
            rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let (verbs, names) = (texts("verbs"), texts("resourceNames"));
        for url in texts("nonResourceURLs").into_iter().filter(|_| scope.is_none()) {
            let own = self.urls.entry(url.to_owned()).or_default();
            own.extend(verbs.iter().map(|verb| (*verb).to_owned()));
        }
        for group in texts("apiGroups") {
            for resource in texts("resources") {
                if names.is_empty() {
                    self.add(scope, group, resource, &verbs);
                }
                for name in &names {
                    self.add_to(scope, group, resource, Some(name), &verbs);
                }
            }
        }
    }

    /// Adds all rights of another set.
    pub fn extend(&mut self, other: Self) {
        for (scope, rights) in other.rights {
            let own = self.rights.entry(scope).or_default();
            for (key, verbs) in rights {
                own.entry(key).or_default().extend(verbs);
            }
        }
        for (url, verbs) in other.urls {
            self.urls.entry(url).or_default().extend(verbs);
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rights.values().all(BTreeMap::is_empty) && self.urls.is_empty()
    }

    /// All rights to resources, those of the cluster first.
    pub fn iter(&self) -> impl Iterator<Item = Right<'_>> {
        self.rights.iter().flat_map(|(scope, rights)| {
            rights.iter().map(|((group, resource, name), verbs)| Right {
                scope: scope.as_deref(),
                group,
                resource,
                name: name.as_deref(),
                verbs,
            })
        })
    }

    /// All namespaces with rights.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.rights.keys().filter_map(Option::as_deref)
    }

    /// The rules of a role. Names of one resource with the same verbs are merged into one rule, and so are resources of one
    /// group.
    #[must_use]
    pub fn rules(&self, scope: RightScope<'_>) -> Vec<Value> {
        let none = Rights::new();
        let rights = self.rights.get(&scope.map(str::to_owned)).unwrap_or(&none);
        let mut names: BTreeMap<(&str, &str, &BTreeSet<String>), Vec<&str>> = BTreeMap::new();
        for ((group, resource, name), verbs) in rights {
            // A right to all objects makes rights to single objects superfluous.
            let all = rights.get(&(group.clone(), resource.clone(), None)).filter(|_| name.is_some());
            if all.is_none_or(|all| !verbs.is_subset(all)) {
                names.entry((group, resource, verbs)).or_default().extend(name.as_deref());
            }
        }
        let mut alike: BTreeMap<Grant<'_>, Vec<&str>> = BTreeMap::new();
        for ((group, resource, verbs), names) in names {
            alike.entry((group, verbs, names)).or_default().push(resource);
        }
        let rule = |((group, verbs, names), resources): (Grant<'_>, Vec<&str>)| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if !names.is_empty() {
                rule["resourceNames"] = json!(names);
            }
            rule
        };
        let mut urls: BTreeMap<&BTreeSet<String>, Vec<&str>> = BTreeMap::new();
        for (url, verbs) in self.urls.iter().filter(|_| scope.is_none()) {
            urls.entry(verbs).or_default().push(url);
        }
        let urls = urls.into_iter().map(|(verbs, urls)| json!({"nonResourceURLs": urls, "verbs": verbs}));
        alike.into_iter().map(rule).chain(urls).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_resources_with_the_same_verbs_share_a_rule() {
        let mut rights = RightSet::default();
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

    #[test]
    fn rules_of_roles_are_taken_apart_and_made_again() {
        let mut rights = RightSet::default();
        let rules = [
            json!({"apiGroups": ["", "apps"], "resources": ["pods", "deployments/scale"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]}),
            json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]}),
        ];
        rules.iter().for_each(|rule| rights.add_rule(None, rule));
        rules.iter().for_each(|rule| rights.add_rule(Some("ns"), rule));
        let both = [
            json!({"apiGroups": [""], "resources": ["deployments/scale", "pods"], "verbs": ["get"]}),
            json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"], "verbs": ["get"]}),
            json!({"apiGroups": ["apps"], "resources": ["deployments/scale", "pods"], "verbs": ["get"]}),
        ];
        assert_eq!(rights.rules(Some("ns")), both);
        assert_eq!(rights.rules(None)[..3], both);
        assert_eq!(rights.rules(None)[3..], [json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})]);
        let shown: Vec<String> = rights.iter().map(|right| right.to_string()).collect();
        assert!(shown.contains(&"get deployments.apps/scale in the cluster".to_owned()), "{shown:?}");
        assert!(shown.contains(&"get secrets a in namespace ns".to_owned()), "{shown:?}");
        assert!(!rights.is_empty() && RightSet::default().is_empty());
    }
}
