//! Expressions in CEL that tenants write: bounded in size, nesting, steps, stack and memory.
//!
//! Owns the bounds, and the functions that Flux's controllers have: the standard ones, and those of cel-go's extensions for strings,
//! base64, sets and optional values. Knows no object.

mod declarations;
mod evaluation_cost;
mod pattern;

use std::sync::{Arc, LazyLock};

use cel::extractors::This;
use cel::objects::OptionalValue;
use cel::{Context, Env, Program, extensions};
use serde_json::Value;

use self::declarations::undeclared;
use self::evaluation_cost::Budget;
pub use self::pattern::add_matches;

/// The longest expression, in bytes.
const MAX_EXPRESSION: usize = 2 << 10;
/// Stack for one expression, in bytes: parser and evaluation recurse for each operator of a chain. Measured: 2 MiB overflow.
const STACK: usize = 64 << 20;
/// The most nested brackets of an expression: the parser recurses, and its own bound lets 1,000 overflow the stack.
const MAX_BRACKETS: usize = 64;
/// What an expression may take: a tenant writes it and the lists that it loops over, and nothing can interrupt it.
const BUDGET: Budget = Budget { steps: 1_000_000, made: 64 << 20 };

/// The environment of all expressions; `None` if its functions clash, which a test rules out.
static ENVIRONMENT: LazyLock<Option<Arc<Env>>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    env.add_extension(extensions::strings).ok()?;
    env.add_extension(extensions::encoders).ok()?;
    Some(Arc::new(env))
});

/// Evaluates off the threads that wait: an expression takes up to some tenths of a second.
///
/// # Errors
/// Those of the evaluation.
pub async fn off_runtime<T: Send + 'static, E: From<String> + Send + 'static>(
    evaluation: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    let evaluated = tokio::task::spawn_blocking(evaluation).await;
    evaluated.unwrap_or_else(|e| Err(format!("the evaluation ended early: {e}").into()))
}

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

/// Variables of several evaluations, which are converted once for all of them.
pub struct SharedVariables {
    values: Vec<(&'static str, Value)>,
    context: Context<'static, 'static>,
}

impl SharedVariables {
    /// How many times as much as the values take: they, and two forms of CEL, of which one is made of the other, while they are converted.
    /// The maps of CEL are larger than those of JSON.
    pub const CONVERTED: usize = 5;
    /// And afterwards: they, and one form.
    pub const KEPT: usize = 3;

    /// Converts values by their names.
    ///
    /// # Errors
    /// They cannot be converted.
    pub fn new(values: Vec<(&'static str, Value)>) -> Result<Self, String> {
        let context = stacker::grow(STACK, || {
            let mut context = functions()?;
            let variables: Vec<_> = values.iter().map(|(name, value)| (*name, value)).collect();
            add_variables(&mut context, &variables)?;
            Ok::<_, String>(context)
        })?;
        Ok(Self { values, context })
    }

    /// Whether an expression is true of these variables and of others.
    ///
    /// # Errors
    /// As [`is_true`], and if it reads a field that does not exist.
    pub fn holds(&self, expression: &str, others: &[(&str, &Value)]) -> Result<bool, String> {
        match stacker::grow(STACK, || self.execute(expression, others))? {
            Ok(cel::Value::Bool(holds)) => Ok(holds),
            Ok(_) => Err("it is neither true nor false".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn execute(&self, expression: &str, others: &[(&str, &Value)]) -> Result<Executed, String> {
        let program = compile(expression)?;
        // The last one of a name counts, as in the inner one of two scopes.
        let mut variables: Vec<(&str, &Value)> =
            self.values.iter().map(|(name, value)| (*name, value)).collect();
        variables.extend_from_slice(others);
        evaluation_cost::estimate(program.expression(), &variables, BUDGET)?;
        let mut context = self.context.new_inner_scope();
        add_variables(&mut context, others)?;
        Ok(program.execute(&context))
    }
}

/// The text that an expression makes of variables.
///
/// # Errors
/// As [`is_true`], and if it reads a field that does not exist or the result is not a string.
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
    evaluation_cost::estimate(program.expression(), variables, BUDGET)?;
    let mut context = functions()?;
    add_variables(&mut context, variables)?;
    Ok(program.execute(&context))
}

/// A context with the functions of all expressions.
fn functions() -> Result<Context<'static, 'static>, String> {
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
    add_matches(&mut context).map_err(clash)?;
    Ok(context)
}

fn add_variables(context: &mut Context<'_, '_>, variables: &[(&str, &Value)]) -> Result<(), String> {
    for (name, value) in variables {
        context.add_variable(*name, *value).map_err(|e| e.to_string())?;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn holds(expression: &str, variables: &[(&str, &Value)]) -> Result<bool, String> {
        SharedVariables::new(Vec::new())?.holds(expression, variables)
    }

    #[test]
    fn shared_variables_are_converted_once_and_go_with_others() {
        let shared = SharedVariables::new(vec![("req", json!({"tag": "web"})), ("n", json!(3))]).unwrap();
        // What the context has is not looked up in the values.
        let only = SharedVariables { values: Vec::new(), ..shared };
        for (name, expected) in [("web", true), ("db", false)] {
            let object = json!({"name": name});
            let found = only.holds("req.tag == res.name && n == 3", &[("res", &object)]);
            assert_eq!(found, Ok(expected), "{name}");
        }
        assert!(only.holds("res.name == 'db'", &[]).is_err(), "another evaluation's");
        // Shared ones count like others.
        let large = SharedVariables::new(vec![("req", json!(vec![1; 3000]))]).unwrap();
        let error = large.holds("req.all(a, req.all(b, a == b))", &[]).unwrap_err();
        assert!(error.contains("more than 1000000 steps"), "{error}");
        let other = json!("other");
        assert_eq!(large.holds("req == 'other'", &[("req", &other)]), Ok(true), "the inner one");
    }

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
    fn times_are_those_of_go() {
        let request = json!({"at": "2026-03-01T10:20:30.5Z", "later": "2026-03-02T10:20:30Z"});
        for expression in [
            "timestamp(req.later) - timestamp(req.at) < duration('24h')",
            "timestamp(req.at) + duration('1h30m') > timestamp('2026-03-01T11:50:00Z')",
            "timestamp(req.at).getFullYear() == 2026 && timestamp(req.at).getMonth() == 2",
            "timestamp(req.at).getDayOfWeek() == 0 && timestamp(req.at).getHours('Asia/Tokyo') == 19",
            "string(timestamp(req.later)) == req.later && duration('90s').getMinutes() == 1",
        ] {
            assert_eq!(check_over(expression, &["req"]), Ok(()), "{expression}");
            assert_eq!(holds(expression, &[("req", &request)]), Ok(true), "{expression}");
        }
        assert!(holds("timestamp('tomorrow') > timestamp(req.at)", &[("req", &request)]).is_err());
    }

    #[test]
    fn values_are_bounded() {
        let request = json!({
            "tag": "a".repeat(2000), "text": "b".repeat(1 << 20), "list": vec!["x"; 1000], "words": vec!["y".repeat(100); 1000],
        });
        let fails = |expression: &str| text(expression, &[("req", &request)]).unwrap_err();
        for expression in [
            "req.tag.replace('a', req.tag).replace('a', req.tag)",
            "req.tag.replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa').replace('a', req.tag)",
            "'%s%s'.format([req.text.replace('b', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'), req.text.replace('b', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb')])",
            "req.list.map(x, req.text + x).join()",
            "req.list.map(x, req.words.join(x)).join()",
            "req.list.map(x, req.list.map(y, req.tag + req.tag)).map(z, z.join()).join()",
            "req.list.join(req.text)",
            "string(req.list.map(x, req.text).size())",
            "string(req.list.map(x, [req.words]).size())",
            "req.list.map(x, req.list.map(y, req.tag)[0])[0]",
            "req.text.split('').map(x, req.tag).join()",
            "req.words.map(x, x + x).map(x, req.words.join()).map(x, x + x).join()",
        ] {
            let error = fails(expression);
            assert!(
                error.contains("values of more than 67108864 bytes")
                    || error.contains("more than 1000000 steps"),
                "{error}"
            );
        }
        // A list of texts of one byte each takes far more than they.
        assert!(fails("req.text.split('')[0]").contains("values of more than 67108864 bytes"));
        assert_eq!(text("req.tag.replace('a', 'b')", &[("req", &request)]).unwrap().len(), 2000);
        assert_eq!(text("req.words.map(x, x + 'z').join('-')", &[("req", &request)]).unwrap().len(), 101_999);
    }

    #[test]
    fn regular_expressions_in_loops_are_bounded() {
        let object = json!({"list": vec!["x"; 1000], "few": vec!["x"; 15], "text": "ab".repeat(100_000)});
        let holds = |expression: &str| is_true(expression, &[("self", &object)]);
        assert!(
            holds("self.list.all(a, a.matches('(\\\\w{100}){10}'))").unwrap_err().contains("exceeds budget")
        );
        assert_eq!(holds("self.few.all(a, a.matches('^x$') && a.matches('^x{1,2}$'))"), Ok(true));
        assert_eq!(holds("matches(self.few[0], '^[xy]$')"), Ok(true));
        // A search of long texts for a pattern of many states takes a second and more.
        assert_eq!(holds("self.text.matches('a[ab]{2}b$')"), Ok(true));
        assert!(holds("self.text.matches('[ab]*a[ab]{500}c')").unwrap_err().contains("exceeds budget"));
        assert!(holds("self.few[0].matches('x(')").unwrap_err().contains("missing closing )"));
    }

    #[test]
    fn an_expression_is_bounded() {
        let object = json!({"list": vec![1; 3000]});
        let holds = |expr: &str| is_true(expr, &[("self", &object)]);
        let fails = |expr: &str| holds(expr).unwrap_err();
        assert!(holds("self.list.all(a, a == 1)").unwrap());
        let nested = "self.list.all(a, self.list.all(b, a == b))";
        assert!(fails(nested).contains("more than 1000000 steps"), "{}", fails(nested));
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
