//! Rules that the user adds for writes of hooks, which cannot be detected.
//!
//! Owns the format of the file. The meaning of a rule is Kubernetes'.

use std::collections::BTreeMap;
use std::path::Path;

use chart_compat::path::Step;
use chart_compat::yaml;
use serde_json::Value;

use windlass_base::bounded_read;
use windlass_render::parse_manifest;

/// Role rules, added to those that modules need.
#[derive(Debug, Default)]
pub struct Added {
    /// Rules in the operator's namespace.
    pub(super) rules: Vec<Value>,
    /// Rules in other namespaces, by namespace.
    pub(super) namespace_rules: BTreeMap<String, Vec<Value>>,
    /// Rules in the whole cluster.
    pub(super) cluster_rules: Vec<Value>,
}

impl Added {
    /// Adds the rules of a file: lists `rules` (in the operator's namespace) and `clusterRules` (in the whole cluster), and a map
    /// `namespaceRules` of lists by namespace.
    ///
    /// # Errors
    /// The file cannot be read or has another format. The error names file, line and value.
    pub fn read(&mut self, file: &Path) -> Result<(), String> {
        let text = bounded_read::read_text(file, bounded_read::MAX_TEXT)
            .map_err(|e| format!("{}: {e}; name a file with lists rules and clusterRules", file.display()))?;
        self.take(&text).map_err(|(line, text)| match line {
            Some(line) => format!("{}:{line}: {text}", file.display()),
            None => format!("{}: {text}", file.display()),
        })
    }

    fn take(&mut self, text: &str) -> Result<(), (Option<u32>, String)> {
        let lines =
            yaml::spanned(text.as_bytes()).map_err(|e| (e.line(), format!("yaml: {}", e.problem())))?;
        let document = parse_manifest(text).map_err(|e| (None, e))?;
        let Value::Object(document) = document else {
            let text =
                "rules are added by a map of lists rules (in the namespace) and clusterRules (everywhere)";
            return Err((None, text.to_owned()));
        };
        for (key, value) in document {
            let way = vec![Step::Key(key.clone())];
            match (key.as_str(), value) {
                ("rules", list) => self.rules.extend(rules(&lines, &key, &way, list, false)?),
                ("clusterRules", list) => self.cluster_rules.extend(rules(&lines, &key, &way, list, true)?),
                ("namespaceRules", Value::Object(by_namespace)) => {
                    for (namespace, list) in by_namespace {
                        let way = vec![Step::Key(key.clone()), Step::Key(namespace.clone())];
                        let name = format!("{key}.{namespace}");
                        let found = rules(&lines, &name, &way, list, false)?;
                        self.namespace_rules.entry(namespace).or_default().extend(found);
                    }
                }
                ("namespaceRules", other) => {
                    let text = format!("{key}: {other} is not a map of lists by namespace");
                    return Err((lines.line_of(&way), text));
                }
                _ => {
                    let text = format!(
                        "{key}: there are rules (in the namespace), namespaceRules (by namespace) and clusterRules (everywhere)"
                    );
                    return Err((lines.line_of(&way), text));
                }
            }
        }
        Ok(())
    }
}

/// The checked rules of a list; the error is line and text of the first invalid one. `way` is the path of the list.
fn rules(
    lines: &yaml::Node,
    name: &str,
    way: &[Step],
    list: Value,
    everywhere: bool,
) -> Result<Vec<Value>, (Option<u32>, String)> {
    let at = |more: &[Step]| lines.line_of(&[way, more].concat());
    let Value::Array(list) = list else {
        return Err((at(&[]), format!("{name}: {list} is not a list of rules")));
    };
    for (index, rule) in list.iter().enumerate() {
        check(rule, everywhere).map_err(|(word, text)| {
            let item = Step::Index(index);
            let line = word.and_then(|word| at(&[item.clone(), Step::Key(word)]));
            (line.or_else(|| at(&[item])), format!("{name}[{index}]: {text}"))
        })?;
    }
    Ok(list)
}

/// Checks a rule as the API server does (`rbac/validation`); the error is the invalid key and the reason.
fn check(rule: &Value, everywhere: bool) -> Result<(), (Option<String>, String)> {
    let whole = |text: &str| (None, format!("{rule}: {text}"));
    let Value::Object(rule) = rule else {
        return Err(whole("a rule is a map with apiGroups, resources and verbs"));
    };
    for (key, value) in rule {
        let known = ["apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"];
        if !known.contains(&key.as_str()) {
            return Err((
                Some(key.clone()),
                format!("{key} is not a field of a rule; there are {}", known.join(", ")),
            ));
        }
        let texts = value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        if !texts {
            return Err((Some(key.clone()), format!("{key}: {value} is not a list of strings")));
        }
    }
    let has = |key: &str| rule.get(key).and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    if !has("verbs") {
        return Err(whole("verbs are missing"));
    }
    match (has("nonResourceURLs"), has("apiGroups") && has("resources")) {
        (true, _) if !everywhere => Err(whole("nonResourceURLs are for clusterRules")),
        (false, false) => Err(whole("apiGroups and resources are missing (the core group is \"\")")),
        (true, true) => Err(whole("a rule is for resources or for nonResourceURLs")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_taken_as_they_are() {
        let mut added = Added::default();
        let rule = "{apiGroups: [''], resources: [pods], verbs: [delete], resourceNames: [a]}";
        added
            .take(&format!("rules: [{rule}]\nclusterRules:\n- {{nonResourceURLs: [/x], verbs: [get]}}\n"))
            .unwrap();
        added.take(&format!("rules: [{rule}]\n")).unwrap();
        assert_eq!((added.rules.len(), added.cluster_rules.len()), (2, 1));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "rules:\n- pods\n").unwrap();
        let told = added.read(file.path()).unwrap_err();
        assert!(told.starts_with(&format!("{}:2: rules[0]: \"pods\"", file.path().display())), "{told}");
        assert_eq!(added.rules[0]["resourceNames"][0], "a");
        added.take(&format!("namespaceRules: {{other: [{rule}]}}\n")).unwrap();
        assert_eq!(added.namespace_rules["other"][0]["verbs"][0], "delete");
    }

    #[test]
    fn wrong_ones_are_told_with_line_and_value() {
        let rule = "apiGroups: [''], resources: [pods], verbs: [get]";
        let table = [
            ("- a\n".to_owned(), "", "rules are added by a map"),
            ("\nrule: []\n".to_owned(), "2", "rule: there are rules"),
            ("namespaceRules: [a]\n".to_owned(), "1", "namespaceRules: [\"a\"] is not a map"),
            ("namespaceRules:\n  a:\n  - pods\n".to_owned(), "3", "namespaceRules.a[0]: \"pods\""),
            ("rules: pods\n".to_owned(), "1", "rules: \"pods\" is not a list"),
            (format!("rules:\n- {{{rule}}}\n- pods\n"), "3", "rules[1]: \"pods\": a rule is a map"),
            (format!("rules:\n- {{{rule}, verb: [x]}}\n"), "2", "rules[0]: verb is not a field of a rule"),
            ("rules:\n- resources: pods\n".to_owned(), "2", "rules[0]: resources: \"pods\" is not a list"),
            ("rules:\n- resources: [pods]\n  apiGroups: ['']\n".to_owned(), "2", "verbs are missing"),
            ("rules:\n- resources: [pods]\n  verbs: [get]\n".to_owned(), "2", "apiGroups and resources"),
            ("rules:\n- {nonResourceURLs: [/x], verbs: [get]}\n".to_owned(), "2", "are for clusterRules"),
            (format!("clusterRules:\n- {{{rule}, nonResourceURLs: [/x]}}\n"), "2", "resources or for"),
            ("rules: [\n".to_owned(), "1", "yaml: did not find expected node content"),
        ];
        for (text, line, part) in table {
            let (at, told) = Added::default().take(&text).unwrap_err();
            assert_eq!(at.map_or_else(String::new, |l| l.to_string()), line, "{text}: {told}");
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}
