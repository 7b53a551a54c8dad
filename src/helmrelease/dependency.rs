//! Dependencies of a HelmRelease, and whether one is ready. Pure.

use std::collections::BTreeSet;

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};
use cel::{Context, IdedExpr, Program};
use serde_json::Value;

use crate::controller::ReconcileError;
use crate::flux_api::helm_release::{Dependency, HelmReleaseSpec};
use crate::release::Disposition;

/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 2 << 10;
/// Stack for one expression, in bytes: parser and evaluation recurse for each operator of a chain. Measured: 2 MiB overflow.
const STACK: usize = 64 << 20;
/// The most nested brackets of an expression: the parser recurses, and its own bound lets 1,000 overflow the stack.
const MAX_BRACKETS: usize = 64;
/// The most steps of an expression. A tenant writes it and the lists that it loops over, and nothing can interrupt it.
const MAX_STEPS: usize = 1_000_000;

fn all(object: &Value) -> Vec<(String, Dependency)> {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let list = HelmReleaseSpec::read(&object["spec"]).map(|spec| spec.depends_on).unwrap_or_default();
    let key = |dependency: &Dependency| {
        format!("{}/{}", dependency.namespace.as_deref().unwrap_or(own), dependency.name)
    };
    list.into_iter().map(|dependency| (key(&dependency), dependency)).collect()
}

/// The dependencies, as `NAMESPACE/NAME`.
pub(super) fn keys(object: &Value) -> BTreeSet<String> {
    all(object).into_iter().map(|(key, _)| key).collect()
}

/// Whether a dependency is ready: by the expression for it, or else by its condition Ready of its newest generation.
///
/// # Errors
/// The expression is not CEL, or does not give a boolean.
pub(super) fn is_ready(object: &Value, other: &Value) -> Result<bool, ReconcileError> {
    let text = |field: &str| other["metadata"][field].as_str().unwrap_or_default();
    let key = format!("{}/{}", text("namespace"), text("name"));
    let declared = all(object).into_iter().find(|(name, _)| *name == key);
    if let Some(expression) = declared.and_then(|(_, dependency)| dependency.ready_expr) {
        let ready = stacker::grow(STACK, || evaluate(&expression, object, other));
        return ready.map_err(|why| ReconcileError::Reason {
            reason: "InvalidCELExpression",
            text: format!("spec.dependsOn: readyExpr {expression:?} of {key}: {why}"),
            disposition: Disposition::Stall,
        });
    }
    let conditions = other["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    Ok(ready && other["status"]["observedGeneration"] == other["metadata"]["generation"])
}

fn evaluate(expression: &str, object: &Value, other: &Value) -> Result<bool, String> {
    if expression.len() > MAX_EXPRESSION {
        return Err(format!("it has more than {MAX_EXPRESSION} bytes"));
    }
    if brackets(expression) > MAX_BRACKETS {
        return Err(format!(
            "it has more than {MAX_BRACKETS} nested brackets or operators in front of operands"
        ));
    }
    let program = Program::compile(expression).map_err(|e| e.to_string())?;
    let loops = nested_loops(program.expression());
    let longest = longest(object).max(longest(other)).max(expression.len());
    let steps = (0..loops).try_fold(expression.len(), |steps: usize, _| steps.checked_mul(longest));
    if loops > 0 && steps.is_none_or(|steps| steps > MAX_STEPS) {
        return Err(format!("it loops {loops} deep over up to {longest} items: that takes too long"));
    }
    let mut context = Context::default();
    for (name, value) in [("self", object), ("dep", other)] {
        context.add_variable(name, value).map_err(|e| e.to_string())?;
    }
    match program.execute(&context) {
        Ok(cel::Value::Bool(ready)) => Ok(ready),
        Ok(_) => Err("it is neither true nor false".to_owned()),
        // A field that is not there yet: not ready.
        Err(cel::ExecutionError::NoSuchKey(_)) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// How deep the brackets of a text are nested, with the operators that nest their operand; those in strings count too.
fn brackets(text: &str) -> usize {
    let (mut open, mut deepest, mut operators) = (0_usize, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'!' | b'-' | b'?' => operators += 1,
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest + operators
}

/// Items of the longest list or map: no function of CEL makes a list of a text.
fn longest(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(longest).fold(list.len(), usize::max),
        Value::Object(map) => map.values().map(longest).fold(map.len(), usize::max),
        _ => 0,
    }
}

/// How deep loops (`all`, `exists`, `map`, `filter`) are nested.
fn nested_loops(expression: &IdedExpr) -> usize {
    let entry = |entry: &IdedEntryExpr| match &entry.expr {
        EntryExpr::StructField(field) => nested_loops(&field.value),
        EntryExpr::MapEntry(entry) => nested_loops(&entry.key).max(nested_loops(&entry.value)),
    };
    let most = |list: &[IdedEntryExpr]| list.iter().map(entry).max().unwrap_or(0);
    match &expression.expr {
        Expr::Call(call) => {
            call.target.iter().map(|target| &**target).chain(&call.args).map(nested_loops).max().unwrap_or(0)
        }
        Expr::Comprehension(one) => {
            let inner = [&one.accu_init, &one.loop_cond, &one.loop_step, &one.result];
            1 + inner.into_iter().chain([&one.iter_range]).map(nested_loops).max().unwrap_or(0)
        }
        Expr::List(list) => list.elements.iter().map(nested_loops).max().unwrap_or(0),
        Expr::Map(map) => most(&map.entries),
        Expr::Select(select) => nested_loops(&select.operand),
        Expr::Struct(one) => most(&one.entries),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn readiness_is_the_condition_or_the_expression() {
        let object = |expr: Option<&str>| {
            json!({
                "metadata": {"namespace": "a", "name": "web"},
                "spec": {"dependsOn": [{"name": "db", "namespace": "b", "readyExpr": expr}]},
            })
        };
        let other = |generation: i64, status: &str| {
            json!({
                "metadata": {"namespace": "b", "name": "db", "generation": generation, "labels": {"v": "1"}},
                "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": status}]},
            })
        };
        assert_eq!(keys(&object(None)), BTreeSet::from(["b/db".to_owned()]));
        for (expr, other, expected) in [
            (None, other(1, "True"), Some(true)),
            (None, other(2, "True"), Some(false)),
            (None, other(1, "False"), Some(false)),
            (None, json!({"metadata": {"namespace": "b", "name": "db"}}), Some(false)),
            (
                Some("dep.metadata.labels.v == '1' && self.metadata.name == 'web'"),
                other(2, "False"),
                Some(true),
            ),
            (Some("dep.status.none == '1'"), other(1, "True"), Some(false)),
            (Some("dep.metadata.name"), other(1, "True"), None),
            (Some("dep."), other(1, "True"), None),
        ] {
            assert_eq!(is_ready(&object(expr), &other).ok(), expected, "{expr:?}");
        }
    }

    #[test]
    fn an_expression_is_bounded() {
        let object = |expr: &str| {
            json!({
                "metadata": {"namespace": "a", "name": "web"},
                "spec": {"dependsOn": [{"name": "db", "readyExpr": expr}], "values": {"list": vec![1; 3000]}},
            })
        };
        let other = json!({"metadata": {"namespace": "a", "name": "db"}});
        let fails = |expr: &str| is_ready(&object(expr), &other).unwrap_err().to_string();
        assert!(is_ready(&object("self.spec.values.list.all(a, a == 1)"), &other).unwrap());
        let nested = "self.spec.values.list.all(a, self.spec.values.list.all(b, a == b))";
        assert!(fails(nested).contains("it loops 2 deep over up to 3000 items"), "{}", fails(nested));
        let deep = format!("{}true{}", "(".repeat(1000), ")".repeat(1000));
        for deep in [deep, format!("{}true", "!".repeat(1000))] {
            assert!(fails(&deep).contains("nested brackets"), "{}", fails(&deep));
        }
        // What nests to the left must not overflow either.
        for part in [".a", "+1", "||true", "==1", "*1", "[0]"] {
            let chain = format!("self{}", part.repeat(2000 / part.len()));
            drop(is_ready(&object(&chain), &other));
        }
        assert!(fails(&"x".repeat(5000)).contains("more than 2048 bytes"));
    }
}
