//! The operator's ConfigMap: global values, a section for each module, enable flags.
//!
//! Each key is read alone: one bad key is a problem to report, and the rest still applies.

use std::collections::{BTreeMap, BTreeSet};

use chart_compat::data::{Data, Map};
use chart_compat::yaml;
use serde_json::Value;

use super::module_name::ModuleName;
use super::values::GLOBAL;
use windlass_controller::ValuesReference;
use windlass_render::to_json;

/// Suffix of a key that refers to values elsewhere.
pub const REFERENCES_SUFFIX: &str = "ValuesFrom";

/// The content of the ConfigMap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// `global`
    pub global: Map,
    /// Values by module key: maps, or lists.
    pub sections: BTreeMap<String, Data>,
    /// What sections take from elsewhere, by module key or `global`.
    pub references: BTreeMap<String, Vec<ValuesReference>>,
    /// Enable flags by module key.
    pub enabled: BTreeMap<String, bool>,
    /// Keys of modules whose objects are left as they are.
    pub maintenance: BTreeSet<String>,
    /// Keys that could not be used.
    pub problems: Vec<Problem>,
}

/// A key of the ConfigMap that is wrong or means nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key.
    pub key: String,
    /// The module concerned, if there is one: its last valid values stay in force.
    pub module: Option<String>,
    /// What is wrong and what to do.
    pub text: String,
}

impl Problem {
    /// Whether it has an effect: an unknown key has none.
    #[must_use]
    pub fn matters(&self) -> bool {
        self.module.is_some() || self.concerns(GLOBAL)
    }

    /// Whether it keeps a section (a module's key or `global`) from being taken in.
    #[must_use]
    pub fn concerns(&self, section: &str) -> bool {
        self.key == section || self.key.strip_suffix(REFERENCES_SUFFIX) == Some(section)
    }
}

impl Config {
    /// Reads the ConfigMap's data; an absent ConfigMap is empty data.
    #[must_use]
    pub fn parse(data: &BTreeMap<String, String>, modules: &[ModuleName]) -> Self {
        let mut config = Self::default();
        for (key, text) in data {
            config.key(key, text, modules);
        }
        config
    }

    /// Reads the ConfigMap; one that does not exist is empty.
    #[must_use]
    pub fn of_object(object: Option<&Value>, modules: &[ModuleName]) -> Self {
        let data = object.and_then(|object| object["data"].as_object()).into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Self::parse(&data.map(|(key, value)| (key.clone(), text(value))).collect(), modules)
    }

    /// The section of a module or of the global values.
    #[must_use]
    pub fn section(&self, key: &str) -> Option<Value> {
        match key {
            GLOBAL => Some(to_json(&Data::Map(self.global.clone()))),
            key => self.sections.get(key).map(to_json),
        }
    }

    /// What sections refer to, as it was read; what cannot be read is a problem of its key.
    pub fn take_referred(&mut self, lists: BTreeMap<String, Result<Map, String>>) -> BTreeMap<String, Value> {
        let mut good = BTreeMap::new();
        for (section, values) in lists {
            match values {
                Ok(values) => drop(good.insert(section, to_json(&Data::Map(values)))),
                Err(text) => {
                    let key = format!("{section}{REFERENCES_SUFFIX}");
                    let text = format!("key {key}: {text}");
                    let module = Some(section).filter(|section| section != GLOBAL);
                    self.problems.push(Problem { key, module, text });
                }
            }
        }
        good
    }

    fn key(&mut self, key: &str, text: &str, modules: &[ModuleName]) {
        let mut problem = |module: Option<&str>, text: String| {
            self.problems.push(Problem { key: key.to_owned(), module: module.map(str::to_owned), text });
        };
        if let Some(module) = modules.iter().find(|m| m.enabled_key() == key) {
            match text.trim() {
                "true" => drop(self.enabled.insert(module.key.clone(), true)),
                "false" => drop(self.enabled.insert(module.key.clone(), false)),
                other => {
                    let shown: String = other.chars().take(40).collect();
                    problem(
                        Some(&module.key),
                        format!("key {key}: {shown:?} is neither \"true\" nor \"false\""),
                    );
                }
            }
            return;
        }
        if let Some(module) = modules.iter().find(|m| m.maintenance_key() == key) {
            match text.trim() {
                "" => {}
                "NoResourceReconciliation" | "noresourcereconciliation" => {
                    self.maintenance.insert(module.key.clone());
                }
                other => {
                    let shown: String = other.chars().take(40).collect();
                    let text =
                        format!("key {key}: {shown:?} is neither \"NoResourceReconciliation\" nor empty");
                    problem(Some(&module.key), text);
                }
            }
            return;
        }
        let module = modules.iter().find(|m| m.key == key);
        let base = key.strip_suffix(REFERENCES_SUFFIX).filter(|_| module.is_none());
        if let Some(base) = base.filter(|b| *b == "global" || modules.iter().any(|m| m.key == *b)) {
            match ValuesReference::list(text) {
                Ok(list) => drop(self.references.insert(base.to_owned(), list)),
                Err(e) => problem(Some(base).filter(|b| *b != "global"), format!("key {key}: {e}")),
            }
            return;
        }
        if key != "global" && module.is_none() {
            problem(None, unknown(key, modules));
            return;
        }
        match section(key, text) {
            Ok(Data::Map(values)) if key == GLOBAL => self.global = values,
            Ok(values) => drop(self.sections.insert(key.to_owned(), values)),
            Err(text) => problem(module.map(|m| m.key.as_str()), text),
        }
    }
}

/// Reads the text of a section: a map, or for a module a list.
pub(crate) fn section(key: &str, text: &str) -> Result<Data, String> {
    let error = match yaml::from_slice_map(text.as_bytes()) {
        Ok(values) => return Ok(Data::Map(values)),
        Err(error) => error,
    };
    if key != GLOBAL
        && let Ok(list) = yaml::from_slice_list(text.as_bytes())
    {
        return Ok(Data::List(list));
    }
    let line = error.line().map_or_else(String::new, |line| format!(" line {line}"));
    Err(format!("key {key}{line}: yaml: {}", error.problem()))
}

/// What to tell about a key that no module has, with the module that may have been meant.
fn unknown(key: &str, modules: &[ModuleName]) -> String {
    let flat = |s: &str| s.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
    let wanted = flat(key.strip_suffix("Enabled").unwrap_or(key));
    match modules.iter().find(|m| flat(&m.key) == wanted) {
        Some(m) if key.ends_with("Enabled") => {
            format!("key {key} belongs to no module; did you mean {}?", m.enabled_key())
        }
        Some(m) => format!("key {key} belongs to no module; did you mean {}?", m.key),
        None => format!("key {key} belongs to no module; it is ignored"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Vec<ModuleName> {
        ["001-web-site", "002-db"].iter().map(|d| ModuleName::parse(d, 1).unwrap()).collect()
    }

    fn parse(data: &[(&str, &str)]) -> Config {
        let data = data.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Config::parse(&data, &modules())
    }

    #[test]
    fn good_keys_are_read() {
        let c = parse(&[("global", "a: 1"), ("webSite", "x: {y: z}"), ("dbEnabled", "false")]);
        assert_eq!(c.problems, []);
        assert_eq!(c.enabled, BTreeMap::from([("db".to_owned(), false)]));
        assert!(matches!(&c.sections["webSite"], Data::Map(m) if m.contains_key("x")));
        assert_eq!(c.global.len(), 1);
        let c = parse(&[("webSite", "- a\n- b\n"), ("webSiteValuesFrom", "- {kind: Secret, name: s}")]);
        assert_eq!(c.problems, []);
        assert!(matches!(&c.sections["webSite"], Data::List(l) if l.len() == 2));
        assert_eq!(c.references["webSite"][0].name, "s");
    }

    #[test]
    fn maintenance_is_a_word_or_nothing() {
        let c = parse(&[("webSiteMaintenance", "NoResourceReconciliation"), ("dbMaintenance", "")]);
        assert_eq!((c.problems, c.maintenance), (vec![], BTreeSet::from(["webSite".to_owned()])));
    }

    #[test]
    fn a_bad_key_leaves_the_others_alone() {
        let table = [
            ("webSite", "a: b: c", Some("webSite"), "line 1"),
            ("webSite", "just text", Some("webSite"), "cannot unmarshal"),
            ("webSiteValuesFrom", "- {kind: Secret}", Some("webSite"), "entry 1: name is missing"),
            ("dbEnabled", "yes", Some("db"), "neither \"true\" nor \"false\""),
            ("dbMaintenance", "true", Some("db"), "neither \"NoResourceReconciliation\" nor empty"),
            ("web-site", "a: 1", None, "did you mean webSite?"),
            ("websiteEnabled", "true", None, "did you mean webSiteEnabled?"),
            ("other", "a: 1", None, "belongs to no module"),
        ];
        for (key, text, module, part) in table {
            let c = parse(&[(key, text), ("db", "size: 1")]);
            assert_eq!(c.problems.len(), 1, "{key}: {:?}", c.problems);
            assert_eq!(c.problems[0].module.as_deref(), module, "{key}");
            assert!(c.problems[0].text.contains(part), "{key}: {}", c.problems[0].text);
            assert!(matches!(&c.sections["db"], Data::Map(m) if m.len() == 1), "{key}");
        }
    }
}
