//! Expressions in CEL that tenants write: bounded in size, nesting, steps and stack.
//!
//! Owns the bounds; knows no object.

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};
use cel::{Context, IdedExpr, Program};
use serde_json::Value;

/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 2 << 10;
/// Stack for one expression, in bytes: parser and evaluation recurse for each operator of a chain. Measured: 2 MiB overflow.
const STACK: usize = 64 << 20;
/// The most nested brackets of an expression: the parser recurses, and its own bound lets 1,000 overflow the stack.
const MAX_BRACKETS: usize = 64;
/// The most steps of an expression. A tenant writes it and the lists that it loops over, and nothing can interrupt it.
const MAX_STEPS: usize = 1_000_000;

/// Whether a text is an expression within the bounds.
///
/// # Errors
/// Why it is none.
pub fn check(expression: &str) -> Result<(), String> {
    stacker::grow(STACK, || compile(expression).map(drop))
}

/// Whether an expression is true of variables. One that reads a field that does not exist is not.
///
/// # Errors
/// It is no expression, names a variable or function that does not exist, exceeds the bounds, or is neither true nor false.
pub fn is_true(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
    stacker::grow(STACK, || evaluate(expression, variables))
}

fn compile(expression: &str) -> Result<Program, String> {
    if expression.len() > MAX_EXPRESSION {
        return Err(format!("it has more than {MAX_EXPRESSION} bytes"));
    }
    if brackets(expression) > MAX_BRACKETS {
        return Err(format!(
            "it has more than {MAX_BRACKETS} nested brackets or operators in front of operands"
        ));
    }
    Program::compile(expression).map_err(|e| e.to_string())
}

fn evaluate(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
    let program = compile(expression)?;
    let loops = nested_loops(program.expression());
    let longest = variables.iter().map(|(_, value)| longest(value)).fold(expression.len(), usize::max);
    let steps = (0..loops).try_fold(expression.len(), |steps: usize, _| steps.checked_mul(longest));
    if loops > 0 && steps.is_none_or(|steps| steps > MAX_STEPS) {
        return Err(format!("it loops {loops} deep over up to {longest} items: that takes too long"));
    }
    let mut context = Context::default();
    for (name, value) in variables {
        context.add_variable(*name, *value).map_err(|e| e.to_string())?;
    }
    match program.execute(&context) {
        Ok(cel::Value::Bool(holds)) => Ok(holds),
        Ok(_) => Err("it is neither true nor false".to_owned()),
        // A field that is not there yet.
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
    fn what_is_not_there_is_not_true() {
        let object = json!({"status": {"phase": "Ready"}});
        for (expression, expected) in [
            ("status.phase == 'Ready'", Some(true)),
            ("status.none == 'Ready'", Some(false)),
            ("statsu.phase == 'Ready'", None),
            ("status.phase", None),
            ("status.", None),
        ] {
            assert_eq!(is_true(expression, &[("status", &object["status"])]).ok(), expected, "{expression}");
        }
        assert!(check("status.phase == 'x'").is_ok() && check("status.").is_err());
    }

    #[test]
    fn an_expression_is_bounded() {
        let object = json!({"list": vec![1; 3000]});
        let holds = |expr: &str| is_true(expr, &[("self", &object)]);
        let fails = |expr: &str| holds(expr).unwrap_err();
        assert!(holds("self.list.all(a, a == 1)").unwrap());
        let nested = "self.list.all(a, self.list.all(b, a == b))";
        assert!(fails(nested).contains("it loops 2 deep over up to 3000 items"), "{}", fails(nested));
        let deep = format!("{}true{}", "(".repeat(1000), ")".repeat(1000));
        for deep in [deep, format!("{}true", "!".repeat(1000))] {
            assert!(fails(&deep).contains("nested brackets"), "{}", fails(&deep));
        }
        // What nests to the left must not overflow either.
        for part in [".a", "+1", "||true", "==1", "*1", "[0]"] {
            let chain = format!("self{}", part.repeat(2000 / part.len()));
            drop(holds(&chain));
        }
        assert!(fails(&"x".repeat(5000)).contains("more than 2048 bytes"));
    }
}
