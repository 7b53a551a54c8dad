//! Label selectors, as specs of custom resources have them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which objects are chosen, by their labels: all conditions must hold. An empty one chooses all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct LabelSelector {
    /// Labels with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelRequirement {
    /// The label.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: String,
    /// Values for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// The selector as the API takes it in a query, such as `app=x,tier in (a,b),!old`.
    ///
    /// # Errors
    /// An operator that there is not, or values where none, or no values where some must be; the text names the field.
    pub fn to_query(&self) -> Result<String, String> {
        let mut parts: Vec<String> =
            self.match_labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
        for (at, LabelRequirement { key, operator, values }) in self.match_expressions.iter().enumerate() {
            let wrong = |field: &str, why: &str| Err(format!("matchExpressions[{at}].{field}: {why}"));
            if key.is_empty() {
                return wrong("key", "it is empty: name a label");
            }
            let all = values.join(",");
            parts.push(match (operator.as_str(), values.is_empty()) {
                ("In", false) => format!("{key} in ({all})"),
                ("NotIn", false) => format!("{key} notin ({all})"),
                ("In" | "NotIn", true) => return wrong("values", "it needs at least one value"),
                ("Exists", true) => key.clone(),
                ("DoesNotExist", true) => format!("!{key}"),
                ("Exists" | "DoesNotExist", false) => return wrong("values", "the operator takes no values"),
                (other, _) => {
                    return wrong(
                        "operator",
                        &format!("{other:?} is none of In, NotIn, Exists and DoesNotExist"),
                    );
                }
            });
        }
        Ok(parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_become_queries() {
        let query = |text: &str| serde_json::from_str::<LabelSelector>(text).unwrap().to_query();
        for (text, expected) in [
            ("{}", Ok("")),
            (r#"{"matchLabels":{"b":"2","a":"1"}}"#, Ok("a=1,b=2")),
            (
                r#"{"matchLabels":{"a":"1"},"matchExpressions":[
                    {"key":"t","operator":"In","values":["x","y"]},{"key":"u","operator":"NotIn","values":["z"]},
                    {"key":"v","operator":"Exists"},{"key":"w","operator":"DoesNotExist"}]}"#,
                Ok("a=1,t in (x,y),u notin (z),v,!w"),
            ),
            (
                r#"{"matchExpressions":[{"key":"a","operator":"Is"}]}"#,
                Err("matchExpressions[0].operator: \"Is\" is none of In, NotIn, Exists and DoesNotExist"),
            ),
            (
                r#"{"matchExpressions":[{"key":"a","operator":"In"}]}"#,
                Err("matchExpressions[0].values: it needs at least one value"),
            ),
            (
                r#"{"matchExpressions":[{"key":"a","operator":"Exists","values":["x"]}]}"#,
                Err("matchExpressions[0].values: the operator takes no values"),
            ),
            (
                r#"{"matchExpressions":[{"key":"","operator":"Exists"}]}"#,
                Err("matchExpressions[0].key: it is empty: name a label"),
            ),
        ] {
            assert_eq!(query(text), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
