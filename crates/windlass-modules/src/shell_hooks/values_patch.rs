//! Patches of values that hooks write: streams of JSON Patch operations, which are stored and applied.
//!
//! Knows JSON, and of modules only the name of their section. Mirrors addon-operator's `values_patch.go`: only `add`
//! and `remove` exist, the last operation of a path is the one that is kept, one of a parent drops those below it.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_base::bounded_json;

/// A stream may hold this many operations.
const MAX_OPERATIONS: usize = 100_000;
/// A path may have this many steps.
const MAX_STEPS: usize = 128;

/// What an operation does at its path.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    Add(Value),
    Remove,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
struct Operation {
    /// As written, a JSON pointer.
    path: String,
    action: Action,
}

/// Operations in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch(Vec<Operation>);

/// Whose patch it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root<'k> {
    /// Of a global hook: `global`, and the flags `…Enabled` of modules.
    Global,
    /// Of a hook of the module with this key.
    Module(&'k str),
}

impl Root<'_> {
    fn allows(self, key: &str) -> bool {
        match self {
            Self::Global => key == "global" || key.len() > "Enabled".len() && key.ends_with("Enabled"),
            Self::Module(own) => key == own,
        }
    }

    fn allowed(self) -> String {
        match self {
            Self::Global => "a global hook may change /global and /<module>Enabled".to_owned(),
            Self::Module(own) => format!("a hook of this module may change /{own} alone"),
        }
    }
}

impl Patch {
    /// Reads a stream of JSON documents, each an operation or a list of operations.
    ///
    /// # Errors
    /// What is wrong with which operation, and what to write instead. No value is shown: it may be secret.
    pub fn read(bytes: &[u8], root: Root<'_>) -> Result<Self, String> {
        let mut patch = Self::default();
        let broken = |e: bounded_json::JsonError| format!("no stream of JSON: {e}");
        for document in bounded_json::documents::<Value>(bytes).map_err(broken)? {
            let document = document.map_err(broken)?;
            let operations = match document {
                Value::Array(list) => list,
                other => vec![other],
            };
            for operation in operations {
                let number = patch.0.len() + 1;
                if number > MAX_OPERATIONS {
                    return Err(format!("more than {MAX_OPERATIONS} operations"));
                }
                let read = read_operation(operation, root).map_err(|e| format!("operation {number}: {e}"))?;
                patch.0.push(read);
            }
        }
        Ok(patch)
    }

    /// Whether it does nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The keys of the roots that it touches, in order, each once.
    pub fn roots(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.0.iter().filter_map(|o| steps(&o.path).into_iter().next()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The operations below one root key.
    pub fn below(&self, root: &str) -> Self {
        let of_root = |o: &&Operation| steps(&o.path).first().is_some_and(|key| key == root);
        Self(self.0.iter().filter(of_root).cloned().collect())
    }

    /// Applies it to a document of roots. `strict` is how new patches are applied: what a `remove` names must be there.
    ///
    /// # Errors
    /// The path that leads nowhere.
    pub fn apply(&self, document: &mut Value, strict: bool) -> Result<(), String> {
        for operation in &self.0 {
            match (apply(document, operation), &operation.action) {
                (Err(_), Action::Remove) if !strict => {}
                (result, _) => result?,
            }
        }
        Ok(())
    }

    /// The first path at which this patch made of `before` something else in `after`, although `before` was not what the
    /// patch's author has `seen` there. Something appended to a list takes nothing away.
    pub fn overwrites(&self, seen: &Value, before: &Value, after: &Value) -> Option<&str> {
        let paths = self.0.iter().map(|o| o.path.as_str()).filter(|path| !path.ends_with("/-"));
        paths.into_iter().find(|path| {
            // An index says nothing without its list.
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let at = if before.pointer(parent).is_some_and(Value::is_array) { parent } else { path };
            let was = before.pointer(at);
            was != seen.pointer(at) && was != after.pointer(at)
        })
    }

    /// Adds newer operations and keeps of all what still counts, sorted by path.
    pub fn add(&mut self, newer: &Self) {
        let mut kept: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
        for operation in self.0.drain(..) {
            kept.entry(operation.path.clone()).or_default().push(operation);
        }
        for (i, operation) in newer.0.iter().enumerate() {
            let below = format!("{}/", operation.path);
            kept.retain(|path, _| !path.starts_with(&below));
            let same = kept.entry(operation.path.clone()).or_default();
            // The peer keeps but one of several appends to a list, and so loses entries of one and the same run.
            let appends =
                operation.path.ends_with("/-") && newer.0[..i].iter().any(|o| o.path == operation.path);
            if !appends {
                same.clear();
            }
            same.push(operation.clone());
        }
        self.0 = kept.into_values().flatten().collect();
    }

    /// The operations as JSON, as the debug endpoints show them.
    pub fn to_json(&self) -> Value {
        let shown = self.0.iter().map(|o| match &o.action {
            Action::Add(value) => serde_json::json!({"op": "add", "path": o.path, "value": value}),
            Action::Remove => serde_json::json!({"op": "remove", "path": o.path}),
        });
        Value::Array(shown.collect())
    }
}

fn read_operation(operation: Value, root: Root<'_>) -> Result<Operation, String> {
    let Value::Object(mut operation) = operation else {
        return Err("not an object like {\"op\": \"add\", \"path\": \"/…\", \"value\": …}".to_owned());
    };
    let op = operation.get("op").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(path) = operation.get("path").and_then(Value::as_str).map(str::to_owned) else {
        return Err(format!("{op:?} has no path"));
    };
    let parts = steps(&path);
    if !path.starts_with('/') || parts.len() > MAX_STEPS {
        return Err(format!("path {path:?} is not a JSON pointer like /{}", parts.join("/")));
    }
    let first = parts.first().map(String::as_str).unwrap_or_default();
    if !root.allows(first) {
        return Err(format!("path {path:?}: {}", root.allowed()));
    }
    let action = match op.as_str() {
        // The peer writes an operation without a value as null.
        "add" => Action::Add(operation.remove("value").unwrap_or(Value::Null)),
        "remove" => Action::Remove,
        other => return Err(format!("op {other:?} at {path:?} is not supported; use add or remove")),
    };
    Ok(Operation { path, action })
}

/// The keys of a JSON pointer.
fn steps(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|s| s.replace("~1", "/").replace("~0", "~")).collect()
}

fn apply(document: &mut Value, operation: &Operation) -> Result<(), String> {
    let steps = steps(&operation.path);
    let nowhere = |why: String| format!("path {:?} leads nowhere: {why}", operation.path);
    let (last, parents) = steps.split_last().ok_or_else(|| nowhere("it names no key".to_owned()))?;
    let mut at = document;
    for (depth, step) in parents.iter().enumerate() {
        let kind = kind(at);
        at = match at {
            Value::Object(map) => map.get_mut(step),
            Value::Array(list) => index(step, list.len()).and_then(|i| list.get_mut(i)),
            _ => None,
        }
        .ok_or_else(|| {
            nowhere(format!("there is {kind} at /{} without {step:?}", parents[..depth].join("/")))
        })?;
    }
    let kind = kind(at);
    let missing = || nowhere(format!("there is {kind} at /{} without {last:?}", parents.join("/")));
    match (at, &operation.action) {
        (Value::Object(map), Action::Add(value)) => {
            map.insert(last.clone(), value.clone());
        }
        (Value::Object(map), Action::Remove) => {
            map.remove(last).ok_or_else(missing)?;
        }
        (Value::Array(list), Action::Add(value)) if last == "-" => list.push(value.clone()),
        (Value::Array(list), Action::Add(value)) => {
            let at = index(last, list.len() + 1).ok_or_else(missing)?;
            list.insert(at, value.clone());
        }
        (Value::Array(list), Action::Remove) => {
            let at = index(last, list.len()).ok_or_else(missing)?;
            list.remove(at);
        }
        _ => return Err(missing()),
    }
    Ok(())
}

/// What a value is, for messages: never the value itself, which may be secret.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "a map",
        Value::Array(_) => "a list",
        Value::Null => "null",
        _ => "a plain value",
    }
}

/// An index of a list; negative ones count from its end, as addon-operator's library has it.
fn index(step: &str, len: usize) -> Option<usize> {
    let number: i64 = step.parse().ok()?;
    let len = i64::try_from(len).ok()?;
    let at = if number < 0 { number + len } else { number };
    usize::try_from(at).ok().filter(|_| at < len)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: Root<'static> = Root::Module("web");

    fn read(text: &str) -> Patch {
        Patch::read(text.as_bytes(), OWN).unwrap()
    }

    #[test]
    fn streams_of_operations_and_lists_are_read() {
        let text = "{\"op\":\"add\",\"path\":\"/web/a\",\"value\":1}\n[{\"op\":\"remove\",\"path\":\"/web/b\"},{\"op\":\"add\",\"path\":\"/web/c\"}]";
        let shown = read(text).to_json();
        let want = json!([
            {"op": "add", "path": "/web/a", "value": 1},
            {"op": "remove", "path": "/web/b"},
            {"op": "add", "path": "/web/c", "value": null},
        ]);
        assert_eq!(shown, want);
        assert!(read(" \n").is_empty());
    }

    #[test]
    fn what_a_hook_may_not_do_is_told() {
        let table = [
            (
                OWN,
                r#"{"op":"replace","path":"/web/a","value":"s3cret"}"#,
                "operation 1: op \"replace\" at \"/web/a\" is not supported",
            ),
            (
                OWN,
                r#"[{"op":"add","path":"/web/a"},{"op":"add","path":"/db/a"}]"#,
                "operation 2: path \"/db/a\": a hook of this module may change /web alone",
            ),
            (OWN, r#"{"op":"add","path":"/global/a"}"#, "may change /web alone"),
            (OWN, r#"{"op":"add","path":"/webEnabled","value":true}"#, "may change /web alone"),
            (
                Root::Global,
                r#"{"op":"add","path":"/web/a"}"#,
                "a global hook may change /global and /<module>Enabled",
            ),
            (OWN, r#"{"op":"add","path":"web"}"#, "is not a JSON pointer"),
            (OWN, r#"{"op":"add"}"#, "has no path"),
            (OWN, "[1]", "operation 1: not an object"),
            (OWN, "{\"op\":\"add\"", "no stream of JSON: EOF"),
        ];
        for (root, text, part) in table {
            let error = Patch::read(text.as_bytes(), root).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
        let many = r#"[{"a":1}]"#.repeat(50_000);
        let error = Patch::read(many.as_bytes(), OWN).unwrap_err();
        assert_eq!(error, "no stream of JSON: its values take more than 32 MiB once they are read");
        let flags =
            Patch::read(br#"{"op":"add","path":"/webEnabled","value":"true"}"#, Root::Global).unwrap();
        assert_eq!(flags.roots(), ["webEnabled"]);
    }

    #[test]
    fn operations_are_applied_as_the_peers_library_does() {
        let table = [
            (json!({"web": {}}), r#"{"op":"add","path":"/web/a","value":1}"#, Ok(json!({"web": {"a": 1}}))),
            (json!({}), r#"{"op":"add","path":"/web","value":{"b":[]}}"#, Ok(json!({"web": {"b": []}}))),
            (
                json!({"web": {"l": [1]}}),
                r#"{"op":"add","path":"/web/l/-","value":2}"#,
                Ok(json!({"web": {"l": [1, 2]}})),
            ),
            (
                json!({"web": {"l": [1]}}),
                r#"{"op":"add","path":"/web/l/0","value":0}"#,
                Ok(json!({"web": {"l": [0, 1]}})),
            ),
            (
                json!({"web": {"l": [1, 2]}}),
                r#"{"op":"remove","path":"/web/l/-1"}"#,
                Ok(json!({"web": {"l": [1]}})),
            ),
            (json!({"web": {"a/b": 1}}), r#"{"op":"remove","path":"/web/a~1b"}"#, Ok(json!({"web": {}}))),
            (
                json!({"web": {}}),
                r#"{"op":"add","path":"/web/a/b","value":1}"#,
                Err("path \"/web/a/b\" leads nowhere: there is a map at /web without \"a\""),
            ),
            (
                json!({"web": {}}),
                r#"{"op":"remove","path":"/web/a"}"#,
                Err("path \"/web/a\" leads nowhere: there is a map at /web without \"a\""),
            ),
            (
                json!({"web": {"l": []}}),
                r#"{"op":"add","path":"/web/l/1","value":0}"#,
                Err("there is a list at /web/l without \"1\""),
            ),
            (
                json!({"web": {"a": "s3cret"}}),
                r#"{"op":"add","path":"/web/a/b","value":0}"#,
                Err("there is a plain value at /web/a without \"b\""),
            ),
        ];
        for (mut document, text, want) in table {
            match (read(text).apply(&mut document, true), want) {
                (Ok(()), Ok(want)) => assert_eq!(document, want, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (got, want) => panic!("{text}: {got:?} instead of {want:?}"),
            }
        }
        let mut document = json!({"web": {}});
        read(r#"{"op":"remove","path":"/web/a"}"#).apply(&mut document, false).unwrap();
        assert_eq!(document, json!({"web": {}}), "a kept removal of what is gone says nothing");
    }

    #[test]
    fn only_what_still_counts_is_kept() {
        let table: [(&[&str], Value); 5] = [
            (
                &[
                    r#"[{"op":"add","path":"/web/b","value":1},{"op":"add","path":"/web/a","value":1}]"#,
                    r#"{"op":"add","path":"/web/b","value":2}"#,
                ],
                json!([{"op": "add", "path": "/web/a", "value": 1}, {"op": "add", "path": "/web/b", "value": 2}]),
            ),
            (
                &[
                    r#"[{"op":"add","path":"/web/a","value":{}},{"op":"add","path":"/web/a/x","value":1}]"#,
                    r#"{"op":"add","path":"/web/a","value":{}}"#,
                ],
                json!([{"op": "add", "path": "/web/a", "value": {}}]),
            ),
            (
                &[r#"{"op":"add","path":"/web/a","value":1}"#, r#"{"op":"remove","path":"/web/a"}"#],
                json!([{"op": "remove", "path": "/web/a"}]),
            ),
            (
                &[r#"{"op":"add","path":"/web/ab","value":1}"#, r#"{"op":"remove","path":"/web/a"}"#],
                json!([{"op": "remove", "path": "/web/a"}, {"op": "add", "path": "/web/ab", "value": 1}]),
            ),
            (
                &[
                    r#"{"op":"add","path":"/web/l/-","value":0}"#,
                    r#"[{"op":"add","path":"/web/l/-","value":1},{"op":"add","path":"/web/l/-","value":2}]"#,
                ],
                json!([{"op": "add", "path": "/web/l/-", "value": 1}, {"op": "add", "path": "/web/l/-", "value": 2}]),
            ),
        ];
        for (streams, want) in table {
            let mut kept = Patch::default();
            streams.iter().for_each(|s| kept.add(&read(s)));
            assert_eq!(kept.to_json(), want, "{streams:?}");
        }
    }
}
