//! The metrics file of a run: JSON documents, each one operation on a metric. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use windlass_base::bounded_json;
use windlass_controller::serve::hook_metrics::{Action, Operation};

/// A metrics file that cannot be used: none of it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("metrics file{}: {text}", .number.map_or_else(String::new, |number| format!(", document {number}")))]
pub struct MetricsError {
    /// The document; `None`: the whole file.
    number: Option<usize>,
    text: String,
}

/// Parses a metrics file. Operations without a group get `group`: in addon-operator the hook's name since 2022, so
/// that counters restart in each run; without it they accumulate.
///
/// # Errors
/// A document is not a JSON map, or lacks a field that its action needs; or they take more than 32 MiB once they are read.
pub fn parse(text: &str, group: Option<&str>) -> Result<Vec<Operation>, MetricsError> {
    let mut operations = Vec::new();
    let documents = bounded_json::documents::<Value>(text.as_bytes());
    let documents = documents.map_err(|e| MetricsError { number: None, text: e.to_string() })?;
    for (index, document) in documents.enumerate() {
        let fail = |text: String| MetricsError { number: Some(index + 1), text };
        let document = document.map_err(|e| fail(e.to_string()))?;
        operations.push(operation(&document, group).map_err(fail)?);
    }
    Ok(operations)
}

fn operation(document: &Value, group: Option<&str>) -> Result<Operation, String> {
    let Some(map) = document.as_object() else { return Err("it is not a map".to_owned()) };
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Err(format!("{key}: {other} is not a string")),
    };
    let number = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| format!("{key}: {value} is not a number")),
    };
    let name = text("name")?;
    let mut group = Some(text("group")?).filter(|g| !g.is_empty()).or(group.map(str::to_owned));
    let (add, set) = (number("add")?, number("set")?);
    let (action, value) = match (add, set) {
        (Some(_), Some(_)) => return Err("add and set exclude each other".to_owned()),
        (Some(value), None) => ("add".to_owned(), Some(value)),
        (None, Some(value)) => ("set".to_owned(), Some(value)),
        (None, None) => (text("action")?, number("value")?),
    };
    let value = value.ok_or_else(|| format!("action {action} of metric {name:?} needs a value"));
    let action = match action.as_str() {
        "add" => Action::Add(value?),
        "set" => Action::Set(value?),
        "observe" => {
            if text("group")?.is_empty() {
                // Only the group that was given by default: a histogram cannot have one.
                group = None;
            }
            if group.is_some() {
                return Err(format!("action observe of metric {name:?} cannot have a group"));
            }
            Action::Observe(value?, buckets(map.get("buckets"), &name)?)
        }
        "expire" if group.is_some() => Action::Expire,
        "expire" => return Err("action expire needs a group".to_owned()),
        "" => return Err(format!("metric {name:?} has none of action, add and set")),
        other => return Err(format!("metric {name:?}: there is no action {other:?}")),
    };
    if name.is_empty() && action != Action::Expire {
        return Err("name is missing".to_owned());
    }
    if !name.is_empty() && !is_name(&name) {
        return Err(format!("{name:?} is not a name of a metric"));
    }
    Ok(Operation { name, group, labels: labels(map.get("labels"))?, action })
}

fn buckets(value: Option<&Value>, name: &str) -> Result<Vec<f64>, String> {
    let list = value.and_then(Value::as_array);
    let list = list.ok_or_else(|| format!("action observe of metric {name:?} needs buckets"))?;
    let numbers = list.iter().map(|v| v.as_f64().ok_or_else(|| format!("buckets: {v} is not a number")));
    let mut buckets: Vec<f64> = numbers.collect::<Result<_, _>>()?;
    buckets.sort_by(f64::total_cmp);
    buckets.dedup();
    Ok(buckets)
}

fn labels(value: Option<&Value>) -> Result<BTreeMap<String, String>, String> {
    let Some(value) = value.filter(|v| !v.is_null()) else { return Ok(BTreeMap::new()) };
    let map = value.as_object().ok_or("labels: no map")?;
    let label = |(name, value): (&String, &Value)| {
        let text = value.as_str().ok_or_else(|| format!("labels: the value of {name:?} is not a string"))?;
        let good = is_name(name) && !name.contains(':') && !name.starts_with("__");
        if good {
            Ok((name.clone(), text.to_owned()))
        } else {
            Err(format!("labels: {name:?} is not a name of a label"))
        }
    };
    map.iter().map(label).collect()
}

/// Whether Prometheus takes it: letters, digits, `_` and `:`, and no digit in front.
fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_and_what_it_lacks() {
        let ok = [
            (r#"{"name":"a","add":1.5}"#, Action::Add(1.5), None),
            (r#"{"name":"a","action":"add","value":2,"group":"g"}"#, Action::Add(2.0), Some("g")),
            (r#"{"name":"a","set":3,"labels":{"x":"y"}}"#, Action::Set(3.0), None),
            (r#"{"action":"expire","group":"g"}"#, Action::Expire, Some("g")),
            (
                r#"{"name":"a","action":"observe","value":2,"buckets":[2,1,2]}"#,
                Action::Observe(2.0, vec![1.0, 2.0]),
                None,
            ),
        ];
        for (text, action, group) in ok {
            let read = parse(text, None).unwrap();
            assert_eq!((&read[0].action, read[0].group.as_deref()), (&action, group), "{text}");
        }
        let bad = [
            (r#"{"name":"a"}"#, "none of action, add and set"),
            (r#"{"add":1}"#, "name is missing"),
            (r#"{"name":"a","add":1,"set":2}"#, "exclude each other"),
            (r#"{"name":"a","action":"set"}"#, "action set of metric \"a\" needs a value"),
            (r#"{"name":"a","action":"observe","value":1}"#, "needs buckets"),
            (r#"{"name":"a","action":"observe","value":1,"buckets":[1],"group":"g"}"#, "cannot have a group"),
            (r#"{"name":"a","action":"expire"}"#, "needs a group"),
            (r#"{"name":"a","action":"drop","value":1}"#, "there is no action \"drop\""),
            (r#"{"name":"a-b","add":1}"#, "\"a-b\" is not a name of a metric"),
            (r#"{"name":"a","add":1,"labels":{"x":1}}"#, "the value of \"x\" is not a string"),
            (r#"{"name":"a","add":"1"}"#, "add: \"1\" is not a number"),
            ("[1]", "it is not a map"),
            ("{\"name\":\"a\",\"add\":1}\n{\"name\":", "document 2: EOF"),
        ];
        for (text, part) in bad {
            let error = parse(text, None).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let many = r#"{"name":"a","add":1}"#.repeat(50_000);
        let error = parse(&many, None).unwrap_err().to_string();
        assert_eq!(error, "metrics file: its values take more than 32 MiB once they are read");
    }

    #[test]
    fn the_peers_default_group_is_a_switch() {
        let text =
            "{\"name\":\"a\",\"add\":1}\n{\"name\":\"h\",\"action\":\"observe\",\"value\":1,\"buckets\":[1]}";
        let groups = |group| -> Vec<Option<String>> {
            parse(text, group).unwrap().into_iter().map(|o| o.group).collect()
        };
        assert_eq!(groups(None), [None, None]);
        assert_eq!(groups(Some("hook.sh")), [Some("hook.sh".to_owned()), None]);
    }
}
