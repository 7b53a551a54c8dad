//! Expressions in CEL that tenants write: bounded in size, nesting, steps, stack and memory.
//!
//! Owns the bounds, and the functions that Flux's controllers have: the standard ones, and those of cel-go's extensions for strings,
//! base64, sets and optional values. Knows no object.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, LiteralValue};
use cel::extractors::This;
use cel::objects::OptionalValue;
use cel::{Context, Env, IdedExpr, Program, extensions};
use serde_json::Value;

/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 2 << 10;
/// Stack for one expression, in bytes: parser and evaluation recurse for each operator of a chain. Measured: 2 MiB overflow.
const STACK: usize = 64 << 20;
/// The most nested brackets of an expression: the parser recurses, and its own bound lets 1,000 overflow the stack.
const MAX_BRACKETS: usize = 64;
/// The most steps of an expression. A tenant writes it and the lists that it loops over, and nothing can interrupt it.
const MAX_STEPS: usize = 1_000_000;
/// The longest text that an expression may make, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// Functions that make long texts of short ones.
const MAKERS: [&str; 3] = ["replace", "join", "format"];
/// What stands before a function like a variable.
const NAMESPACES: [&str; 4] = ["base64", "optional", "sets", "strings"];
/// The functions beside operators.
const FUNCTIONS: [&str; 41] = [
    "base64.decode",
    "base64.encode",
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "first",
    "format",
    "has",
    "hasValue",
    "indexOf",
    "int",
    "join",
    "last",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "replace",
    "reverse",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "size",
    "split",
    "startsWith",
    "string",
    "strings.quote",
    "substring",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];

/// The environment of all expressions; `None` if its functions clash, which a test rules out.
static ENVIRONMENT: LazyLock<Option<Arc<Env>>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings).ok()?;
    env.add_extension(extensions::encoders).ok()?;
    Some(Arc::new(env))
});

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
/// It is not an expression, names a variable or function that does not exist, exceeds the bounds, or is neither true nor false.
pub fn is_true(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
    stacker::grow(STACK, || evaluate(expression, variables))
}

/// Whether an expression is true of variables.
///
/// # Errors
/// As [`is_true`], and if it reads a field that does not exist.
pub fn holds(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
    match stacker::grow(STACK, || execute(expression, variables))? {
        Ok(cel::Value::Bool(holds)) => Ok(holds),
        Ok(_) => Err("it is neither true nor false".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The text that an expression makes of variables.
///
/// # Errors
/// As [`holds`], and if the result is not a string.
pub fn text(expression: &str, variables: &[(&str, &Value)]) -> Result<String, String> {
    match stacker::grow(STACK, || execute(expression, variables))? {
        Ok(cel::Value::String(text)) => Ok(text.to_string()),
        Ok(_) => Err("it is not a string".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether a text is an expression within the bounds, over these variables and functions that exist.
///
/// # Errors
/// Why it is none.
pub fn check_over(expression: &str, variables: &[&str]) -> Result<(), String> {
    stacker::grow(STACK, || {
        let program = compile(expression)?;
        let mut scope: Vec<&str> = variables.to_vec();
        undeclared(program.expression(), &mut scope)
            .map_or(Ok(()), |what| Err(format!("undeclared reference to '{what}'")))
    })
}

/// The first variable or function that does not exist.
fn undeclared<'e>(expression: &'e IdedExpr, scope: &mut Vec<&'e str>) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => (!scope.contains(&name.as_str())).then(|| name.clone()),
        Expr::Call(call) => {
            let namespace = call.target.as_deref().and_then(|target| match &target.expr {
                Expr::Ident(name)
                    if NAMESPACES.contains(&name.as_str()) && !scope.contains(&name.as_str()) =>
                {
                    Some(name)
                }
                _ => None,
            });
            let name = namespace
                .map_or_else(|| call.func_name.clone(), |space| format!("{space}.{}", call.func_name));
            let is_operator = name.starts_with(|c: char| !c.is_ascii_alphabetic());
            if !is_operator && !FUNCTIONS.contains(&name.as_str()) {
                return Some(name);
            }
            let target = call.target.as_deref().filter(|_| namespace.is_none());
            target.into_iter().chain(&call.args).find_map(|part| undeclared(part, scope))
        }
        Expr::Comprehension(one) => {
            let outside = undeclared(&one.iter_range, scope).or_else(|| undeclared(&one.accu_init, scope));
            let before = scope.len();
            scope.extend([one.iter_var.as_str(), one.accu_var.as_str()]);
            scope.extend(one.iter_var2.as_deref());
            let found = outside.or_else(|| {
                [&one.loop_cond, &one.loop_step, &one.result]
                    .into_iter()
                    .find_map(|part| undeclared(part, scope))
            });
            scope.truncate(before);
            found
        }
        Expr::List(list) => list.elements.iter().find_map(|part| undeclared(part, scope)),
        Expr::Map(map) => map.entries.iter().find_map(|part| undeclared_entry(part, scope)),
        Expr::Select(select) => undeclared(&select.operand, scope),
        Expr::Struct(one) => Some(one.type_name.clone()),
        Expr::Literal(_) | Expr::Unspecified => None,
    }
}

fn undeclared_entry<'e>(entry: &'e IdedEntryExpr, scope: &mut Vec<&'e str>) -> Option<String> {
    match &entry.expr {
        EntryExpr::StructField(field) => undeclared(&field.value, scope),
        EntryExpr::MapEntry(entry) => {
            undeclared(&entry.key, scope).or_else(|| undeclared(&entry.value, scope))
        }
    }
}

fn environment() -> Result<Arc<Env>, String> {
    ENVIRONMENT.clone().ok_or_else(|| "the functions of CEL clash".to_owned())
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
    environment()?.compile(expression).map_err(|e| e.to_string())
}

fn evaluate(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
    match execute(expression, variables)? {
        Ok(cel::Value::Bool(holds)) => Ok(holds),
        Ok(_) => Err("it is neither true nor false".to_owned()),
        // A field that is not there yet.
        Err(cel::ExecutionError::NoSuchKey(_)) => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

/// What an expression makes of variables, and how it ended.
type Executed = Result<cel::Value, cel::ExecutionError>;

fn execute(expression: &str, variables: &[(&str, &Value)]) -> Result<Executed, String> {
    let program = compile(expression)?;
    check_steps(&program, expression, variables)?;
    let mut context = Context::with_env(environment()?);
    let clash = |e: cel::DeclarationError| e.to_string();
    context
        .add_function("first", |This(list): This<Arc<Vec<cel::Value>>>| optional(list.first()))
        .map_err(clash)?;
    context
        .add_function("last", |This(list): This<Arc<Vec<cel::Value>>>| optional(list.last()))
        .map_err(clash)?;
    context.add_function("sets.contains", |all: List, some: List| contains(&all, &some)).map_err(clash)?;
    context
        .add_function("sets.equivalent", |a: List, b: List| contains(&a, &b) && contains(&b, &a))
        .map_err(clash)?;
    context
        .add_function("sets.intersects", |a: List, b: List| a.iter().any(|item| b.contains(item)))
        .map_err(clash)?;
    for (name, value) in variables {
        context.add_variable(*name, *value).map_err(|e| e.to_string())?;
    }
    Ok(program.execute(&context))
}

type List = Arc<Vec<cel::Value>>;

fn contains(all: &List, some: &List) -> bool {
    some.iter().all(|item| all.contains(item))
}

fn optional(item: Option<&cel::Value>) -> cel::Value {
    cel::Value::Opaque(Arc::new(
        item.map_or_else(OptionalValue::none, |item| OptionalValue::of(item.clone())),
    ))
}

/// Estimates from above what an expression takes.
fn check_steps(program: &Program, expression: &str, variables: &[(&str, &Value)]) -> Result<(), String> {
    let mut used = Used::default();
    used.visit(program.expression());
    let loops = nested_loops(program.expression());
    let text = variables.iter().map(|(_, value)| longest_text(value)).fold(expression.len(), usize::max);
    let mut longest = variables.iter().map(|(_, value)| longest(value)).fold(expression.len(), usize::max);
    if used.functions.contains("split") {
        longest = longest.max(text);
    }
    let sets = used.functions.iter().any(|name| ["contains", "equivalent", "intersects"].contains(name));
    let depth = loops + if sets && expression.contains("sets") { 2 } else { 0 };
    let steps = (0..depth).try_fold(expression.len(), |steps: usize, _| steps.checked_mul(longest));
    if depth > 0 && steps.is_none_or(|steps| steps > MAX_STEPS) {
        return Err(format!("it loops {depth} deep over up to {longest} items: that takes too long"));
    }
    if used.functions.iter().any(|name| MAKERS.contains(name)) {
        let loops = if loops > 0 { steps } else { Some(1) };
        let most = used
            .factors(text)
            .zip(loops)
            .and_then(|(factor, loops)| text.checked_mul(factor)?.checked_mul(loops));
        if most.is_none_or(|most| most > MAX_TEXT) {
            return Err(format!("it could make a text of more than {MAX_TEXT} bytes"));
        }
    }
    Ok(())
}

/// The functions of an expression, and by how much each of them can make a text longer.
#[derive(Default)]
struct Used<'e> {
    functions: BTreeSet<&'e str>,
    /// The length of the text that is put between or in place of others; `None`: that of any text.
    makers: Vec<Option<usize>>,
}

impl<'e> Used<'e> {
    fn visit(&mut self, expression: &'e IdedExpr) {
        if let Expr::Call(call) = &expression.expr {
            self.functions.insert(&call.func_name);
            if MAKERS.contains(&call.func_name.as_str()) {
                let put = match call.func_name.as_str() {
                    "replace" => call.args.get(1),
                    "join" => call.args.first(),
                    _ => None,
                };
                let length = put.and_then(|put| match &put.expr {
                    Expr::Literal(LiteralValue::String(text)) => Some(text.inner().len()),
                    _ => None,
                });
                let none = call.func_name == "join" && call.args.is_empty();
                self.makers.push(if none { Some(0) } else { length });
            }
        }
        children(expression, &mut |child| self.visit(child));
    }

    fn factors(&self, text: usize) -> Option<usize> {
        self.makers.iter().try_fold(1, |all: usize, put| all.checked_mul(put.unwrap_or(text) + 1))
    }
}

/// Visits the parts of an expression.
fn children<'e>(expression: &'e IdedExpr, visit: &mut dyn FnMut(&'e IdedExpr)) {
    let entries = |all: &'e [IdedEntryExpr], visit: &mut dyn FnMut(&'e IdedExpr)| {
        for entry in all {
            match &entry.expr {
                EntryExpr::StructField(field) => visit(&field.value),
                EntryExpr::MapEntry(entry) => [&entry.key, &entry.value].into_iter().for_each(&mut *visit),
            }
        }
    };
    match &expression.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).for_each(visit),
        Expr::Comprehension(one) => {
            [&one.iter_range, &one.accu_init, &one.loop_cond, &one.loop_step, &one.result]
                .into_iter()
                .for_each(visit);
        }
        Expr::List(list) => list.elements.iter().for_each(visit),
        Expr::Map(map) => entries(&map.entries, visit),
        Expr::Select(select) => visit(&select.operand),
        Expr::Struct(one) => entries(&one.entries, visit),
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => {}
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

/// Bytes of the longest text.
fn longest_text(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(longest_text).max().unwrap_or(0),
        Value::Object(map) => {
            map.iter().map(|(key, value)| key.len().max(longest_text(value))).max().unwrap_or(0)
        }
        _ => 0,
    }
}

/// How deep loops (`all`, `exists`, `map`, `filter`) are nested.
fn nested_loops(expression: &IdedExpr) -> usize {
    let mut inner = 0;
    children(expression, &mut |child| inner = inner.max(nested_loops(child)));
    inner + usize::from(matches!(expression.expr, Expr::Comprehension(_)))
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
    fn functions_are_those_of_flux() {
        let request = json!({"tag": "example.org/team/web:v1", "list": ["a", "b"], "n": 3});
        for (expression, expected) in [
            ("req.tag.split('/').last().value().split(':').first().value()", Ok("web")),
            ("(req.tag + '/X').lowerAscii().substring(0, 7)", Ok("example")),
            ("req.list.join('-') + string(req.n)", Ok("a-b3")),
            ("'%s-%d'.format([req.list[0], req.n])", Ok("a-3")),
            ("req.tag.replace('/', '.')", Ok("example.org.team.web:v1")),
            ("base64.encode(b'ab')", Ok("YWI=")),
            ("req.?none.orValue('x')", Ok("x")),
            ("has(req.none) ? req.none : 'y'", Ok("y")),
            ("req.list.map(x, x + x).join()", Ok("aabb")),
            ("sets.contains(req.list, ['b']) && !sets.contains(req.list, ['c']) ? 'in' : 'out'", Ok("in")),
            (
                "sets.equivalent(req.list, ['b', 'a', 'a']) && sets.intersects(req.list, ['b', 'z']) ? 'same' : ''",
                Ok("same"),
            ),
            ("req.none", Err("No such key: none")),
            ("[].first().value()", Err("")),
            ("req.n", Err("it is not a string")),
        ] {
            assert_eq!(check_over(expression, &["req"]), Ok(()), "{expression}");
            let found = text(expression, &[("req", &request)]);
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{expression}"),
                Err(why) => {
                    assert!(found.as_ref().is_err_and(|e| e.contains(why)), "{expression}: {found:?}");
                }
            }
        }
        for (expression, name) in [
            ("claims.a == 'b'", "claims"),
            ("req.tag.contain('a')", "contain"),
            ("req.list.all(x, y == x)", "y"),
            ("sets.unite(req.list, [])", "sets.unite"),
            ("req.list.all(x, x == 'a') && x == 'b'", "x"),
            ("now()", "now"),
        ] {
            let error = check_over(expression, &["req", "res"]).unwrap_err();
            assert_eq!(error, format!("undeclared reference to '{name}'"), "{expression}");
        }
        assert!(holds("req.none", &[("req", &request)]).is_err(), "unlike is_true");
        assert_eq!(holds("req.n == 3", &[("req", &request)]), Ok(true));
    }

    #[test]
    fn texts_are_bounded() {
        let request = json!({"tag": "a".repeat(2000), "list": ["x"]});
        let fails = |expression: &str| text(expression, &[("req", &request)]).unwrap_err();
        for expression in [
            "req.tag.replace('a', req.tag).replace('a', req.tag)",
            "req.tag.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', req.tag)",
            "'%s%s'.format([req.tag, '%s'.format([req.tag])])",
        ] {
            assert!(fails(expression).contains("could make a text of more than"), "{}", fails(expression));
        }
        assert!(
            fails("req.tag.split('').map(x, req.tag.split('').map(y, y).join()).join()")
                .contains("takes too long")
        );
        assert_eq!(text("req.tag.replace('a', 'b')", &[("req", &request)]).unwrap().len(), 2000);
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
