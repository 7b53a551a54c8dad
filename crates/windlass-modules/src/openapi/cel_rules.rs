//! Rules in CEL that a schema adds to itself: `x-deckhouse-validations`.
//!
//! As addon-operator has them: rules of the properties come before those of the whole, a rule that asks for a key that is not
//! there says nothing, and one that names `oldSelf` is about changes: without an old value it says nothing.

use cel::{Context, ExecutionError, Program};
use serde_json::Value;

use windlass_base::cel_expression::add_matches;

/// Where rules stand in a schema.
const KEY: &str = "x-deckhouse-validations";
/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 16 << 10;

/// One rule and the properties that lead to what it is about.
pub(super) struct Rule {
    path: Vec<String>,
    expression: String,
    message: String,
    program: Program,
    of_change: bool,
}

/// Reads the rules of a schema and of its properties, the innermost first.
///
/// # Errors
/// A rule without expression or message, or an expression that is not CEL.
pub(super) fn read(schema: &Value) -> Result<Vec<Rule>, String> {
    let mut rules = Vec::new();
    collect(schema, &mut Vec::new(), &mut rules)?;
    Ok(rules)
}

fn collect(schema: &Value, path: &mut Vec<String>, rules: &mut Vec<Rule>) -> Result<(), String> {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        path.push(name.clone());
        collect(property, path, rules)?;
        path.pop();
    }
    let at = || if path.is_empty() { KEY.to_owned() } else { format!("{KEY} of {}", path.join(".")) };
    let list = match schema.get(KEY) {
        None => return Ok(()),
        Some(Value::Array(list)) => list,
        Some(_) => return Err(format!("{}: not a list of {{expression, message}}", at())),
    };
    for rule in list {
        let text = |key: &str| rule[key].as_str().filter(|t| !t.is_empty());
        let expression = text("expression").ok_or_else(|| format!("{}: a rule has no expression", at()))?;
        let message = text("message").ok_or_else(|| format!("{}: a rule has no message", at()))?;
        if expression.len() > MAX_EXPRESSION {
            return Err(format!("{}: an expression of more than {MAX_EXPRESSION} bytes", at()));
        }
        let program = Program::compile(expression)
            .map_err(|e| format!("{}: {expression:?} is not a CEL expression: {e}", at()))?;
        let of_change = program.references().has_variable("oldSelf");
        rules.push(Rule {
            path: path.clone(),
            expression: expression.to_owned(),
            message: message.to_owned(),
            program,
            of_change,
        });
    }
    Ok(())
}

/// What the rules have against a section of values; `old` is what it was before, if it was.
pub(super) fn check(rules: &[Rule], key: &str, section: &Value, old: Option<&Value>) -> Vec<String> {
    rules
        .iter()
        .filter_map(|rule| rule.check(section, old).map(|text| format!("{}: {text}", rule.at(key))))
        .collect()
}

impl Rule {
    fn at(&self, key: &str) -> String {
        std::iter::once(key).chain(self.path.iter().map(String::as_str)).collect::<Vec<_>>().join(".")
    }

    fn find<'v>(&self, section: &'v Value) -> Option<&'v Value> {
        self.path.iter().try_fold(section, |at, key| at.get(key))
    }

    fn check(&self, section: &Value, old: Option<&Value>) -> Option<String> {
        let own = self.find(section)?;
        let old = old.and_then(|old| self.find(old));
        if self.of_change && old.is_none() {
            return None;
        }
        let failed = |why: &dyn std::fmt::Display| Some(format!("rule {:?} failed: {why}", self.expression));
        let mut context = Context::default();
        if let Err(e) = add_matches(&mut context) {
            return failed(&e);
        }
        for (name, value) in [("self", Some(own)), ("oldSelf", old)] {
            if let Some(Err(e)) = value.map(|value| context.add_variable(name, floats(value))) {
                return failed(&e);
            }
        }
        match self.program.execute(&context) {
            Ok(cel::Value::Bool(true)) | Err(ExecutionError::NoSuchKey(_)) => None,
            Ok(cel::Value::Bool(false)) => Some(self.message.clone()),
            Ok(_) => failed(&"it is neither true nor false"),
            Err(e) => failed(&e),
        }
    }
}

/// Values as addon-operator hands them to CEL: every number a double.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(n) => n.as_f64().map_or(Value::Null, Value::from),
        Value::Array(list) => list.iter().map(floats).collect(),
        Value::Object(map) => map.iter().map(|(k, v)| (k.clone(), floats(v))).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(schema: &Value, section: &Value, old: Option<&Value>) -> Vec<String> {
        check(&read(schema).unwrap(), "web", section, old)
    }

    #[test]
    fn rules_of_the_whole_and_of_properties() {
        let schema = json!({
            KEY: [
                {"expression": "self.replicas >= 1 && self.replicas <= 5", "message": "1 to 5 replicas"},
                {"expression": "self.replicas == 3 || self.name.startsWith('a')", "message": "odd"},
                {"expression": "!has(self.size) || self.size in ['s', 'm']", "message": "unknown size"},
                {"expression": "self.nowhere == 1", "message": "never said"},
            ],
            "properties": {"hosts": {KEY: [
                {"expression": "self.all(h, h.endsWith('.test'))", "message": "hosts end in .test"},
                {"expression": "self.all(h, h.matches('^[a-z.]+$'))", "message": "hosts have letters only"},
            ]}},
        });
        let table = [
            (json!({"replicas": 3, "name": "x", "hosts": ["a.test"]}), vec![]),
            (json!({"replicas": 9, "name": "x"}), vec!["web: 1 to 5 replicas", "web: odd"]),
            (json!({"replicas": 1, "name": "a", "size": "xl"}), vec!["web: unknown size"]),
            (json!({"replicas": 3, "hosts": ["a.example"]}), vec!["web.hosts: hosts end in .test"]),
            (json!({"replicas": 3, "hosts": ["a1.test"]}), vec!["web.hosts: hosts have letters only"]),
        ];
        for (section, want) in table {
            assert_eq!(messages(&schema, &section, None), want, "{section}");
        }
    }

    #[test]
    fn rules_of_changes_need_an_old_value() {
        let schema = json!({"properties": {"disk": {KEY: [{"expression": "self >= oldSelf", "message": "a disk never shrinks"}]}}});
        let new = json!({"disk": 5});
        assert_eq!(messages(&schema, &new, None), [""; 0]);
        assert_eq!(messages(&schema, &new, Some(&json!({}))), [""; 0]);
        assert_eq!(messages(&schema, &new, Some(&json!({"disk": 5}))), [""; 0]);
        assert_eq!(messages(&schema, &new, Some(&json!({"disk": 6}))), ["web.disk: a disk never shrinks"]);
    }

    #[test]
    fn what_is_wrong_with_a_rule() {
        let table = [
            (json!({KEY: {}}), "not a list"),
            (json!({KEY: [{"message": "m"}]}), "a rule has no expression"),
            (
                json!({"properties": {"a": {KEY: [{"expression": "true"}]}}}),
                "x-deckhouse-validations of a: a rule has no message",
            ),
            (json!({KEY: [{"expression": "self.", "message": "m"}]}), "is not a CEL expression"),
        ];
        for (schema, part) in table {
            let Err(error) = read(&schema) else { panic!("{schema} was read") };
            assert!(error.contains(part), "{error}");
        }
        let schema = json!({KEY: [{"expression": "self.a", "message": "m"}]});
        assert_eq!(
            messages(&schema, &json!({"a": 1}), None),
            ["web: rule \"self.a\" failed: it is neither true nor false"]
        );
    }
}
