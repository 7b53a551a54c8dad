//! Bindings that the API server calls: admission and conversion.

use serde_json::Value;

use super::fields::Fields;
use super::{Common, ConfigError, v1};

/// A validating or mutating binding.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    pub common: Common,
    /// `Fail` or `Ignore`; `None`: as the operator says.
    pub failure_policy: Option<&'static str>,
    /// `None` or `NoneOnDryRun`.
    pub side_effects: &'static str,
    pub timeout_seconds: i64,
    /// Selectors, conditions and rules, as the API's webhook objects take them.
    pub object_selector: Option<Value>,
    pub namespace_selector: Option<Value>,
    pub match_conditions: Vec<Value>,
    pub rules: Vec<Value>,
}

/// A binding that converts custom resources between versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversion {
    pub common: Common,
    /// Name of the CRD.
    pub crd: String,
    /// Steps that the hook can do, from version to version, each with or without its group.
    pub steps: Vec<(String, String)>,
}

/// The longest that an API server waits for a webhook.
const MAX_TIMEOUT: i64 = 30;

pub(super) fn admissions(fields: &mut Fields<'_>, key: &'static str) -> Result<Vec<Admission>, ConfigError> {
    let mut found = Vec::new();
    for mut item in fields.maps(key)? {
        let name = item.wanted("name")?;
        if name.split('.').count() < 3 || name.split('.').any(str::is_empty) {
            let text = format!("{name:?} has fewer than three parts; write e.g. check.example.com");
            return item.fail("name", text);
        }
        let timeout = item.whole("timeoutSeconds")?.unwrap_or(10);
        if !(1..=MAX_TIMEOUT).contains(&timeout) {
            return item.fail("timeoutSeconds", format!("{timeout} is not between 1 and {MAX_TIMEOUT}"));
        }
        let object_selector = selector(&mut item, "labelSelector")?;
        let namespace_selector = match item.map("namespace")? {
            None => None,
            Some(mut namespace) => {
                let selector = selector(&mut namespace, "labelSelector")?;
                namespace.finish()?;
                selector
            }
        };
        found.push(Admission {
            common: v1::common(&mut item, &name)?,
            failure_policy: item.word("failurePolicy", &["Fail", "Ignore"])?,
            side_effects: item.word("sideEffects", &["None", "NoneOnDryRun"])?.unwrap_or("None"),
            timeout_seconds: timeout,
            object_selector,
            namespace_selector,
            match_conditions: conditions(&mut item)?,
            rules: rules(&mut item)?,
        });
        item.finish()?;
    }
    Ok(found)
}

/// A label selector that goes on to the API server as it is, once it has proved to be one.
fn selector(fields: &mut Fields<'_>, key: &'static str) -> Result<Option<Value>, ConfigError> {
    super::selectors::labels(fields, key)?;
    Ok(fields.any(key).cloned())
}

fn conditions(item: &mut Fields<'_>) -> Result<Vec<Value>, ConfigError> {
    let mut found = Vec::new();
    for mut condition in item.maps("matchConditions")? {
        let (name, expression) = (condition.wanted("name")?, condition.wanted("expression")?);
        found.push(serde_json::json!({"name": name, "expression": expression}));
    }
    Ok(found)
}

fn rules(item: &mut Fields<'_>) -> Result<Vec<Value>, ConfigError> {
    let mut found = Vec::new();
    for mut rule in item.maps("rules")? {
        let mut object = serde_json::Map::new();
        for key in ["apiGroups", "apiVersions", "resources"] {
            match rule.texts(key)? {
                Some(texts) if !texts.is_empty() => drop(object.insert(key.to_owned(), texts.into())),
                _ => return rule.fail(key, "it is missing"),
            }
        }
        let known = ["CREATE", "UPDATE", "DELETE", "CONNECT", "*"];
        match rule.words("operations", &known)? {
            Some(words) if !words.is_empty() => drop(object.insert("operations".to_owned(), words.into())),
            _ => return rule.fail("operations", "it is missing"),
        }
        if let Some(scope) = rule.word("scope", &["Cluster", "Namespaced", "*"])? {
            object.insert("scope".to_owned(), scope.into());
        }
        rule.finish()?;
        found.push(Value::Object(object));
    }
    Ok(found)
}

pub(super) fn conversions(fields: &mut Fields<'_>) -> Result<Vec<Conversion>, ConfigError> {
    let mut found = Vec::new();
    for mut item in fields.maps("kubernetesCustomResourceConversion")? {
        let name = item.wanted("name")?;
        let mut steps = Vec::new();
        for mut step in item.maps("conversions")? {
            steps.push((step.wanted("fromVersion")?, step.wanted("toVersion")?));
            step.finish()?;
        }
        if steps.is_empty() {
            return item.fail("conversions", "it is missing");
        }
        found.push(Conversion { common: v1::common(&mut item, &name)?, crd: item.wanted("crdName")?, steps });
        item.finish()?;
    }
    Ok(found)
}
