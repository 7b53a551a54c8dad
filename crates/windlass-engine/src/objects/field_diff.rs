//! The differences of two objects, field by field, without values of secrets. Pure.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use windlass_base::hex::hex;

/// Words in the names of values that are hidden.
const SECRET_WORDS: [&str; 9] =
    ["password", "passwd", "passphrase", "secret", "token", "credential", "apikey", "privatekey", "auth"];
/// The same, for whole names or parts of names.
const SECRET_PARTS: [&str; 5] = ["pw", "pwd", "pass", "psk", "dsn"];

/// Most bytes of all paths of one comparison: a long key above many fields is repeated in each of their paths.
const MAX_PATH_BYTES: usize = 2 << 20;
/// The longest path of a field whose own fields are listed.
const MAX_PATH: usize = 16 << 10;
/// Beginning of the path of the change, without values, that stands for the fields past [`MAX_PATH_BYTES`].
pub(crate) const FURTHER_FIELDS: &str = "(further fields)";

/// Most bytes of a value that is kept for people.
const LONGEST_VALUE: usize = 200;

/// A field that differs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// `spec.template.spec.containers[name=main].image`.
    pub path: String,
    /// Absent: the field is added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Absent: the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The values are hidden.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub sensitive: bool,
}

/// The object without fields that change at every write, and without its status.
pub(crate) fn without_runtime_fields(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in
            ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"]
        {
            metadata.remove(field);
        }
    }
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
    }
    object
}

/// The differing fields of two objects, in order of their paths. [`FURTHER_FIELDS`] stands for those that are not listed.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut diff = Diff::default();
    diff.compare(Some(before), Some(after), &String::new);
    if diff.is_full()
        && let Some(further) = diff.found.last_mut()
    {
        // Changes are compared with those of a saved plan.
        further.path = format!("{FURTHER_FIELDS} {}", digest(&(before, after)));
    }
    diff.found
}

/// The fields found so far, and the bytes of their paths: each path repeats the keys above it, which can be long.
#[derive(Default)]
struct Diff {
    found: Vec<FieldChange>,
    path_bytes: usize,
}

impl Diff {
    fn is_full(&self) -> bool {
        self.path_bytes > MAX_PATH_BYTES
    }

    fn push(&mut self, path: String, before: Option<Value>, after: Option<Value>) {
        if self.is_full() {
            return;
        }
        self.path_bytes += path.len();
        let (path, before, after) = match self.is_full() {
            true => (FURTHER_FIELDS.to_owned(), None, None),
            false => (path, before, after),
        };
        self.found.push(FieldChange { path, before, after, sensitive: false });
    }

    /// Lists a field, or those below it. The path is made only for fields that differ.
    fn compare(&mut self, before: Option<&Value>, after: Option<&Value>, path: &dyn Fn() -> String) {
        if self.is_full() || before == after {
            return;
        }
        let path = path();
        match (before, after) {
            // Each level below would have a path of this length.
            _ if path.len() > MAX_PATH => self.push(path, before.cloned(), after.cloned()),
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
                for key in keys {
                    self.compare(a.get(key), b.get(key), &|| join(&path, key));
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => match (names(a), names(b)) {
                (Some(old), Some(new)) => self.compare_named(&path, &old, &new),
                _ => {
                    for i in 0..a.len().max(b.len()) {
                        self.compare(a.get(i), b.get(i), &|| format!("{path}[{i}]"));
                    }
                }
            },
            _ => self.push(path, before.cloned(), after.cloned()),
        }
    }

    /// The differing fields of lists whose items have names; their order is one, if both have the same names.
    fn compare_named(&mut self, path: &str, old: &[(&str, &Value)], new: &[(&str, &Value)]) {
        let (olds, news): (HashMap<&str, &Value>, HashMap<&str, &Value>) =
            (old.iter().copied().collect(), new.iter().copied().collect());
        for (name, item) in old {
            self.compare(Some(item), news.get(name).copied(), &|| format!("{path}[name={name}]"));
        }
        for (name, item) in new.iter().filter(|(name, _)| !olds.contains_key(name)) {
            self.compare(None, Some(item), &|| format!("{path}[name={name}]"));
        }
        let same_names = old.len() == new.len() && old.iter().all(|(name, _)| news.contains_key(name));
        let order =
            |list: &[(&str, &Value)]| list.iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>();
        let (old, new) = (order(old), order(new));
        if same_names && old != new {
            self.push(format!("{path}[order]"), Some(json!(old)), Some(json!(new)));
        }
    }
}

/// Keeps the first `most` changes whose paths have at most `bytes` together, and returns how many others there were.
pub(crate) fn truncate(changes: &mut Vec<FieldChange>, most: usize, bytes: usize) -> usize {
    let mut left = bytes;
    let fits = |change: &FieldChange| {
        let rest = left.checked_sub(change.path.len());
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let kept = changes.iter().take(most).map(fits).take_while(|fits| *fits).count();
    let others = changes.len() - kept;
    changes.truncate(kept);
    others
}

/// Cuts values that are longer than people read.
pub(crate) fn shorten_values(change: &mut FieldChange) {
    for value in [&mut change.before, &mut change.after].into_iter().flatten() {
        let text = match &*value {
            Value::String(text) => text.as_str().into(),
            Value::Array(_) | Value::Object(_) => std::borrow::Cow::Owned(value.to_string()),
            Value::Null | Value::Bool(_) | Value::Number(_) => continue,
        };
        if text.len() > LONGEST_VALUE {
            *value = format!("{}…", &text[..text.floor_char_boundary(LONGEST_VALUE)]).into();
        }
    }
}

/// Quotes keys with dots or brackets.
fn join(path: &str, key: &str) -> String {
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_/$".contains(c));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// The items of a list by their names, if all names are unique.
fn names(list: &[Value]) -> Option<Vec<(&str, &Value)>> {
    let named: Option<Vec<(&str, &Value)>> =
        list.iter().map(|item| Some((item.as_object()?.get("name")?.as_str()?, item))).collect();
    let named = named?;
    let distinct: std::collections::BTreeSet<&str> = named.iter().map(|(name, _)| *name).collect();
    (distinct.len() == named.len()).then_some(named)
}

/// Replaces values of Secrets by their length and a digest for comparison.
pub(crate) fn mask(kind: &str, changes: &mut [FieldChange]) {
    if kind != "Secret" {
        return;
    }
    for change in changes {
        let path = &change.path;
        let secret = path.starts_with("data")
            || path.starts_with("stringData")
            || path.contains("last-applied-configuration");
        if secret {
            change.sensitive = true;
            for value in [&mut change.before, &mut change.after].into_iter().flatten() {
                *value = hidden(value);
            }
        }
    }
}

fn hidden(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(k, v)| (k.clone(), hidden(v))).collect::<Map<_, _>>())
        }
        Value::String(text) => format!("(hidden, {} bytes)", text.len()).into(),
        Value::Null => Value::Null,
        _ => "(hidden)".into(),
    }
}

/// A digest of a value's JSON.
pub(crate) fn digest(value: &impl Serialize) -> String {
    let text = serde_json::to_vec(value).unwrap_or_default();
    hex(&Sha256::digest(&text))
}

/// Hides values whose name, or the name of a part, looks like a secret's.
pub(crate) fn hide(change: &mut FieldChange) {
    let secret = |text: &str| {
        let small = text.to_lowercase();
        let mut parts = small.split(|c: char| !c.is_ascii_alphanumeric());
        let plain = small.replace(['_', '-'], "");
        parts.any(|part| SECRET_PARTS.contains(&part)) || SECRET_WORDS.iter().any(|word| plain.contains(word))
    };
    let within =
        |value: &Option<Value>| value.as_ref().is_some_and(|v| !v.is_string() && secret(&v.to_string()));
    if secret(&change.path) || within(&change.before) || within(&change.after) {
        change.sensitive = true;
        for value in [&mut change.before, &mut change.after].into_iter().flatten() {
            *value = Value::String("(hidden)".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_paths() {
        let before = json!({"a": 1, "same": [1], "m": {"x.y": 1}, "l": [1, 2],
            "c": [{"name": "one", "v": 1}, {"name": "two"}], "t": "text"});
        let after = json!({"a": 2, "same": [1], "m": {"x.y": 2, "n": {}}, "l": [1], "c": [{"name": "two", "w": 1}, {"name": "three"}],
            "t": {"k": 1}});
        let lines: Vec<String> = changes(&before, &after)
            .iter()
            .map(|c| {
                let side = |v: &Option<Value>| v.as_ref().map_or("-".to_owned(), Value::to_string);
                format!("{} {} {}", c.path, side(&c.before), side(&c.after))
            })
            .collect();
        assert_eq!(
            lines,
            [
                "a 1 2",
                "c[name=one] {\"name\":\"one\",\"v\":1} -",
                "c[name=two].w - 1",
                "c[name=three] - {\"name\":\"three\"}",
                "l[1] 2 -",
                "m.n - {}",
                "m[\"x.y\"] 1 2",
                "t \"text\" {\"k\":1}",
            ]
        );
        let swapped = changes(&json!([{"name": "a"}, {"name": "b"}]), &json!([{"name": "b"}, {"name": "a"}]));
        assert_eq!(swapped[0].path, "[order]");
    }

    #[test]
    fn long_lists_of_names_are_compared() {
        let list = |from: usize, to: usize, text: &str| -> Value {
            let item = |i: usize| json!({"name": format!("n{i}"), "v": text});
            (from..to).rev().map(item).collect()
        };
        let found = changes(&list(0, 20_000, "a"), &list(1, 20_001, "b"));
        assert_eq!(found.len(), 20_001);
        assert_eq!((found[0].path.as_str(), &found[0].after), ("[name=n19999].v", &Some(json!("b"))));
        assert_eq!((found[19_999].path.as_str(), &found[19_999].after), ("[name=n0]", &None));
        assert_eq!((found[20_000].path.as_str(), &found[20_000].before), ("[name=n20000]", &None));
        let mut turned = list(0, 20_000, "a");
        turned.as_array_mut().unwrap().reverse();
        let found = changes(&list(0, 20_000, "a"), &turned);
        assert_eq!(found.iter().map(|change| change.path.as_str()).collect::<Vec<_>>(), ["[order]"]);
    }

    #[test]
    fn long_keys_above_many_fields_are_bounded() {
        let object = |value: usize| -> Value {
            let below: Map<String, Value> = (0..20_000).map(|i| (format!("k{i}"), json!(value))).collect();
            json!({"x".repeat(10_000): below, "z": value})
        };
        let found = changes(&object(1), &object(2));
        assert!(found.iter().map(|change| change.path.len()).sum::<usize>() <= MAX_PATH_BYTES);
        let last = found.last().unwrap();
        assert!(last.path.starts_with(FURTHER_FIELDS) && last.before.is_none() && last.after.is_none());
        assert_ne!(found, changes(&object(1), &object(3)), "a plan of other fields is another one");
        assert_eq!(changes(&object(1), &object(1)), []);
        let long = |value: usize| json!({"x".repeat(500_000): {"a": value, "b": value}});
        let found = changes(&long(1), &long(2));
        assert_eq!((found.len(), &found[0].before), (1, &Some(json!({"a": 1, "b": 1}))));
        let mut few = changes(&json!({"a": 1, "b": 1, "c": 1}), &json!({"a": 2, "b": 2, "c": 2}));
        assert_eq!((truncate(&mut few, 3, 3), few.len()), (0, 3));
        assert_eq!((truncate(&mut few.clone(), 1, 3), truncate(&mut few, 3, 2)), (2, 1));
        assert_eq!(few.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn secrets_are_not_told() {
        let (before, after) =
            (json!({"data": {"a": "QQ=="}}), json!({"data": {"a": "QUJD", "b": "x"}, "type": "t"}));
        let mut found = changes(&before, &after);
        mask("Secret", &mut found);
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("QQ==") && !text.contains("QUJD") && !text.contains("\"x\""), "{text}");
        assert!(text.contains("\"after\":\"t\""), "{text}");
        let mut whole = changes(&json!({}), &after);
        mask("Secret", &mut whole);
        assert_eq!(whole[0].after, Some(json!({"a": "(hidden, 4 bytes)", "b": "(hidden, 1 bytes)"})));
        let mut plain = changes(&before, &after);
        mask("ConfigMap", &mut plain);
        assert_eq!(plain, changes(&before, &after));
    }
}
