//! What an expression takes, estimated from above before it is evaluated: steps, and bytes of the values that it makes.
//!
//! Owns how large the result of each operator and function can be. The variables are known: a path into one has the size of what is
//! there, and copies nothing. What is put into a list or taken out of a made value is copied. What loops is counted as often as the
//! list has items. The estimate itself takes no longer than the budget allows: it ends where the budget is exceeded, and looking through
//! a variable for its size counts, too.

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators};
use serde_json::Value;

use super::pattern;

/// What an item of a list or an entry of a map takes beside its value, in bytes: at least the size of the value's enum.
const ITEM: u64 = 64;
/// A number, a boolean or a time, in bytes.
const WORD: u64 = 16;
/// The longest text of a number, in bytes: a large one has 309 digits before the point, and `format` allows 100 behind it.
const NUMBER: u64 = 512;
/// How many bytes a function reads in the time of a step.
const READ: u64 = 64;
/// How many parts of a variable are looked at for its size in the time of a step.
const LOOKED_AT: u64 = 16;
/// The steps that take as long as compiling a byte of a regular expression. Measured: 45 µs for a class of letters without case.
const COMPILE: u64 = 250;
/// How many bytes of a compiled regular expression are made in the time of a step.
const COMPILED: u64 = 50;
/// Bytes of a text times bytes of a compiled regular expression that a search takes in the time of a step. Measured: 0.2 ns for one
/// such product where the automaton of the pattern has no end of states.
const SEARCHED: u64 = 1_600;

/// What an expression may take.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// The most steps.
    pub(super) steps: u64,
    /// The most bytes of the values that it makes.
    pub(super) made: u64,
}

/// How large a value can be.
#[derive(Clone, Copy, Default)]
struct Size {
    /// Bytes of the whole value.
    bytes: u64,
    /// Items of the list or map itself.
    length: u64,
    /// Bytes of the largest value inside.
    part: u64,
    /// Items of the longest list or map inside.
    part_length: u64,
}

/// A value before the evaluation.
#[derive(Clone, Copy)]
enum Estimate<'v> {
    /// A part of a variable.
    Known(&'v Value),
    /// A value that the expression makes.
    Made(Size),
}

/// An estimate for an expression.
pub(super) struct Cost<'e, 'v> {
    scope: Vec<(&'e str, Estimate<'v>)>,
    budget: Budget,
    /// How many steps it takes at most.
    steps: u64,
    /// How many bytes the values that it makes take at most, all together.
    made: u64,
}

/// Estimates what an expression takes.
///
/// # Errors
/// It exceeds the budget, calls a function that is not known, or has a regular expression that is not valid.
pub(super) fn estimate<'e, 'v>(
    expression: &'e IdedExpr,
    variables: &[(&'e str, &'v Value)],
    budget: Budget,
) -> Result<Cost<'e, 'v>, String> {
    let scope = variables.iter().map(|(name, value)| (*name, Estimate::Known(value))).collect();
    let mut cost = Cost { scope, budget, steps: 0, made: 0 };
    cost.visit(expression, 1)?;
    Ok(cost)
}

impl Size {
    fn text(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// The size of a value. `parts`: how many parts were looked at.
    fn of(value: &Value, parts: &mut u64) -> Self {
        *parts += 1;
        match value {
            Value::String(text) => Self::text(text.len() as u64),
            Value::Array(list) => {
                list.iter().fold(Self::default(), |all, item| all.with_item(Self::of(item, parts)))
            }
            Value::Object(map) => map.iter().fold(Self::default(), |all, (key, value)| {
                let key = key.len() as u64;
                let all = all.with_item(Self::of(value, parts));
                Self { bytes: all.bytes + key, part: all.part.max(key), ..all }
            }),
            _ => Self::text(WORD),
        }
    }

    /// A list or map with one more item.
    fn with_item(self, item: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(item.bytes).saturating_add(ITEM),
            length: self.length.saturating_add(1),
            part: self.part.max(item.bytes).max(item.part),
            part_length: self.part_length.max(item.length).max(item.part_length),
        }
    }

    /// Two values one after the other.
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            length: self.length.saturating_add(other.length),
            ..self.max(other)
        }
    }

    /// As large as the larger one in each respect.
    fn max(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.max(other.bytes),
            length: self.length.max(other.length),
            part: self.part.max(other.part),
            part_length: self.part_length.max(other.part_length),
        }
    }

    /// So many values one after the other.
    fn times(self, count: u64) -> Self {
        Self { bytes: self.bytes.saturating_mul(count), length: self.length.saturating_mul(count), ..self }
    }

    /// Any value inside.
    fn inside(self) -> Self {
        Self { bytes: self.part, length: self.part_length, ..self }
    }
}

impl<'e, 'v> Cost<'e, 'v> {
    /// Adds what an expression takes that is evaluated so many times, and estimates its result.
    fn visit(&mut self, expression: &'e IdedExpr, times: u64) -> Result<Estimate<'v>, String> {
        self.take(1, times)?;
        let size = match &expression.expr {
            Expr::Ident(name) => {
                let known = self.scope.iter().rev().find(|(known, _)| known == name);
                return Ok(known.map_or(Estimate::Made(Size::default()), |(_, found)| *found));
            }
            Expr::Select(select) => {
                let operand = self.visit(&select.operand, times)?;
                return self.field(operand, &select.field, times);
            }
            Expr::Literal(LiteralValue::String(text)) => Size::text(text.inner().len() as u64),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Size::text(bytes.inner().len() as u64),
            Expr::Literal(_) | Expr::Unspecified => Size::text(WORD),
            Expr::List(list) => self.collect(list.elements.iter(), times)?,
            Expr::Map(map) => self.entries(map.entries.iter().map(|entry| &entry.expr), times)?,
            Expr::Struct(one) => self.entries(one.entries.iter().map(|entry| &entry.expr), times)?,
            Expr::Comprehension(one) => self.repeat(one, times)?,
            Expr::Call(call) => return self.call(call, times),
        };
        Ok(Estimate::Made(size))
    }

    fn take(&mut self, steps: u64, times: u64) -> Result<(), String> {
        self.steps = self.steps.saturating_add(steps.saturating_mul(times));
        let most = self.budget.steps;
        if self.steps > most {
            return Err(format!(
                "estimated cost exceeds budget: it could take more than {most} steps; simplify the expression, or loop over and \
                 match fewer or shorter values"
            ));
        }
        Ok(())
    }

    fn make(&mut self, bytes: u64, times: u64) -> Result<(), String> {
        self.made = self.made.saturating_add(bytes.saturating_mul(times));
        let most = self.budget.made;
        if self.made > most {
            return Err(format!(
                "estimated cost exceeds budget: it could make values of more than {most} bytes; build fewer or shorter texts and lists"
            ));
        }
        Ok(())
    }

    /// The size of a value. Looking for that of a variable takes time now, however often the expression uses it.
    fn size(&mut self, value: Estimate<'v>) -> Result<Size, String> {
        match value {
            Estimate::Known(value) => {
                let mut parts = 0;
                let size = Size::of(value, &mut parts);
                self.take(parts / LOOKED_AT, 1)?;
                Ok(size)
            }
            Estimate::Made(size) => Ok(size),
        }
    }

    /// The size of a list or map, and that of any of its items or keys.
    fn range(&mut self, value: Estimate<'v>) -> Result<(Size, Size), String> {
        let Estimate::Known(Value::Array(list)) = value else {
            let size = self.size(value)?;
            return Ok((size, size.inside()));
        };
        let (mut whole, mut any, mut parts) = (Size::default(), Size::default(), 0);
        for item in list {
            let size = Size::of(item, &mut parts);
            (whole, any) = (whole.with_item(size), any.max(size));
        }
        self.take(parts / LOOKED_AT, 1)?;
        Ok((whole, any))
    }

    /// A field of a value.
    fn field(&mut self, value: Estimate<'v>, name: &str, times: u64) -> Result<Estimate<'v>, String> {
        match value {
            Estimate::Known(value) => Ok(Estimate::Known(&value[name])),
            Estimate::Made(size) => self.taken(size.inside(), times),
        }
    }

    /// A part of a value that the expression has made: it is copied.
    fn taken(&mut self, part: Size, times: u64) -> Result<Estimate<'v>, String> {
        self.make(part.bytes, times)?;
        Ok(Estimate::Made(part))
    }

    fn collect(&mut self, items: impl Iterator<Item = &'e IdedExpr>, times: u64) -> Result<Size, String> {
        let mut all = Size::default();
        for item in items {
            let item = self.visit(item, times)?;
            let size = self.size(item)?;
            self.make(size.bytes.saturating_add(ITEM), times)?;
            all = all.with_item(size);
        }
        Ok(all)
    }

    fn entries(&mut self, entries: impl Iterator<Item = &'e EntryExpr>, times: u64) -> Result<Size, String> {
        let parts = entries.flat_map(|entry| match entry {
            EntryExpr::StructField(field) => vec![&field.value],
            EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        });
        self.collect(parts, times)
    }

    /// A loop: `all`, `exists`, `exists_one`, `map` or `filter`. Each round adds to the result what the step makes of an empty one.
    fn repeat(&mut self, one: &'e ComprehensionExpr, times: u64) -> Result<Size, String> {
        let range = self.visit(&one.iter_range, times)?;
        let (range, item) = self.range(range)?;
        let start = self.visit(&one.accu_init, times)?;
        let start = self.size(start)?;
        let (rounds, item) = (range.length, Estimate::Made(item));
        self.take(rounds, times)?;
        // Each round has an item of its own.
        self.make(range.bytes, times)?;
        let repeated = times.saturating_mul(rounds);
        let outside = self.scope.len();
        self.scope.push((&one.iter_var, item));
        self.scope.extend(one.iter_var2.as_deref().map(|name| (name, item)));
        self.scope.push((&one.accu_var, Estimate::Made(Size::default())));
        self.visit(&one.loop_cond, repeated)?;
        let step = self.visit(&one.loop_step, repeated)?;
        let step = self.size(step)?;
        self.scope.truncate(outside);
        self.scope.push((&one.accu_var, Estimate::Made(start.plus(step.times(rounds)))));
        let result = self.visit(&one.result, times)?;
        self.scope.truncate(outside);
        self.size(result)
    }

    fn call(&mut self, call: &'e CallExpr, times: u64) -> Result<Estimate<'v>, String> {
        // What stands before a function of a namespace, such as `base64`, is not a variable, and has no size.
        let parts: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
        let estimates: Vec<Estimate<'v>> =
            parts.iter().map(|part| self.visit(part, times)).collect::<Result<_, _>>()?;
        let at = |index: usize| estimates.get(index).copied().unwrap_or(Estimate::Made(Size::default()));
        let name = call.func_name.as_str();
        // These give what they are given, or a part of it.
        match name {
            operators::CONDITIONAL => {
                let (this, that) = (self.size(at(1))?, self.size(at(2))?);
                return self.taken(this.max(that), times);
            }
            operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT => {
                if let Some(field) = literal(parts.get(1).copied()) {
                    return self.field(at(0), field, times);
                }
                let part = self.size(at(0))?.inside();
                return self.taken(part, times);
            }
            "value" | "dyn" => {
                let whole = self.size(at(0))?;
                self.make(whole.bytes, times)?;
                return Ok(at(0));
            }
            // They copy the whole list.
            "first" | "last" => {
                let list = self.size(at(0))?;
                self.make(list.bytes, times)?;
                return Ok(Estimate::Made(list.inside()));
            }
            _ => {}
        }
        let sizes: Vec<Size> =
            estimates.iter().map(|estimate| self.size(*estimate)).collect::<Result<_, _>>()?;
        let all = sizes.iter().fold(Size::default(), |all, size| all.plus(*size));
        let of = |index: usize| sizes.get(index).copied().unwrap_or_default();
        let text = |index: usize| literal(parts.get(index).copied());
        self.take(all.bytes / READ, times)?;
        if is_small(name) {
            match name {
                // Of `sets`: each item of one list is compared with each of the other one.
                "contains" | "equivalent" | "intersects" if parts.len() == 3 => {
                    let compared = of(2).length.saturating_add(of(2).bytes / READ);
                    self.take(of(1).length.saturating_mul(compared), times)?;
                    self.make(all.bytes, times)?;
                }
                "matches" => {
                    // Compiled now as well, if only to know how large it is.
                    self.take(of(1).bytes.saturating_mul(COMPILE), times.max(1))?;
                    let memory = match (text(1), at(1)) {
                        (Some(known), _) => pattern::memory(known)?,
                        (None, Estimate::Known(Value::String(known))) => pattern::memory(known)?,
                        (None, Estimate::Known(_)) => 0,
                        (None, Estimate::Made(_)) => pattern::MAX_MEMORY,
                    };
                    self.take(memory / COMPILED, times.max(1))?;
                    self.take(of(0).bytes.saturating_mul(memory) / SEARCHED, times)?;
                }
                _ => {}
            }
            return Ok(Estimate::Made(Size::text(WORD)));
        }
        let size = match name {
            // A namespace stands before `optional.of`: the sum has what is there.
            "of" | "ofNonZeroValue" | "none" | "or" | "orValue" | operators::ADD => all,
            "replace" => {
                let matches = occurrences(of(0).bytes, text(1));
                Size::text(of(0).bytes.saturating_add(matches.saturating_mul(of(2).bytes)))
            }
            "join" => Size::text(of(0).bytes.saturating_add(of(0).length.saturating_mul(of(1).bytes))),
            "format" => {
                let clauses = text(0).map_or(of(0).bytes, |text| text.matches('%').count() as u64);
                Size::text(
                    of(0)
                        .bytes
                        .saturating_add(of(1).bytes.saturating_mul(2))
                        .saturating_add(clauses.saturating_mul(NUMBER)),
                )
            }
            "split" => {
                let length = occurrences(of(0).bytes, text(1)).saturating_add(1);
                let bytes = of(0).bytes.saturating_add(length.saturating_mul(ITEM));
                Size { bytes, length, part: of(0).bytes, part_length: 0 }
            }
            "charAt" | "decode" | "lowerAscii" | "reverse" | "substring" | "trim" | "upperAscii" => {
                Size::text(all.bytes)
            }
            "bytes" | "string" => Size::text(all.bytes.saturating_add(NUMBER)),
            "encode" => Size::text(all.bytes.saturating_mul(2).saturating_add(WORD)),
            // Each byte may become an escape sequence.
            "quote" => Size::text(all.bytes.saturating_mul(8).saturating_add(WORD)),
            _ => return Err(format!("undeclared reference to '{name}'")),
        };
        self.taken(size, times)
    }
}

/// The text of a literal.
fn literal(expression: Option<&IdedExpr>) -> Option<&str> {
    match &expression?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}

/// How often a text can be in one of so many bytes; an empty one is between all of them.
fn occurrences(bytes: u64, text: Option<&str>) -> u64 {
    match text.map_or(0, str::len) {
        0 => bytes.saturating_add(1),
        length => bytes / length as u64,
    }
}

/// Whether a function or an operator gives a number, a boolean, a time or a type.
fn is_small(name: &str) -> bool {
    name != operators::ADD && name.starts_with(|c: char| !c.is_ascii_alphabetic())
        || name.starts_with("get")
        || [
            "bool",
            "contains",
            "double",
            "duration",
            "endsWith",
            "equivalent",
            "has",
            "hasValue",
            "indexOf",
            "int",
            "intersects",
            "lastIndexOf",
            "matches",
            "size",
            "startsWith",
            "timestamp",
            "type",
            "uint",
        ]
        .contains(&name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::compile;
    use super::*;

    fn of(expression: &str, value: &Value) -> (u64, u64) {
        let program = compile(expression).unwrap();
        let endless = Budget { steps: u64::MAX, made: u64::MAX };
        let cost = estimate(program.expression(), &[("v", value)], endless).unwrap();
        (cost.steps, cost.made)
    }

    #[test]
    fn what_loops_is_counted_as_often_as_there_are_items() {
        let value =
            json!({"list": vec!["abcd"; 100], "lists": vec![vec![1; 10]; 5], "text": "x".repeat(1000)});
        let steps = |expression: &str| of(expression, &value).0;
        let once = steps("v.text == 'a'");
        assert!(once < 30, "{once}");
        // Each round takes some ten steps: the condition, the comparison and the combination.
        for (expression, rounds) in [
            ("v.list.all(a, a == 'x')", 100),
            ("v.list.all(a, v.list.all(b, a == b))", 10_000),
            ("v.lists.all(a, a.all(b, b == 1))", 50),
            ("v.list.map(a, a).map(b, b).all(c, c == '')", 300),
        ] {
            let found = steps(expression);
            assert!((5 * rounds..=15 * rounds).contains(&found), "{expression}: {found}");
        }
        assert!(steps("v.list.all(a, a.matches('a'))") > 100 * COMPILE);
        assert!(steps("v.list.all(a, a.matches('a{9}'))") > 100 * "a{9}".len() as u64 * COMPILE);
        assert!(steps("v.list.all(a, a.matches(v.text))") > 100 * 1000 * COMPILE);
        assert!(steps("v.list.all(a, v.text.contains(a))") > 100 * 1000 / READ);
        assert!(steps("sets.contains(v.list, v.list)") > 100 * 100);
    }

    #[test]
    fn a_search_counts_by_text_and_pattern() {
        let value =
            json!({"list": vec!["abcd"; 100], "text": "x".repeat(1000), "pattern": "[ab]*a[ab]{100}c"});
        let steps = |expression: &str| of(expression, &value).0;
        let (short, long) =
            (steps("'x'.matches('[ab]*a[ab]{100}c')"), steps("v.text.matches('[ab]*a[ab]{100}c')"));
        // At least a byte for each of the hundred repetitions.
        assert!(long > short + 1000 * 100 / SEARCHED, "{long} {short}");
        assert!(steps("v.text.matches('[ab]*a[ab]{900}c')") > 5 * (long - short), "{long} {short}");
        // A pattern of a variable is known, too. One that is made may be as large as any.
        assert_eq!(steps("v.text.matches(v.pattern)").abs_diff(long), 1, "{long}");
        assert!(steps("v.list.all(a, 'x'.matches(a))") > 100 * pattern::MAX_MEMORY / COMPILED);
        assert!(steps("v.text.matches('a' + 'b')") > 1000 * pattern::MAX_MEMORY / SEARCHED);
    }

    #[test]
    fn the_estimate_ends_with_the_budget() {
        let value = json!({"list": vec![vec!["abcd"; 100]; 100]});
        // Each part looks through the variable for its size; it is evaluated for no item.
        let part = "(true ? v.list : v.list)[0] == v.list[1] && ";
        let expression = format!("[].all(a, {}true)", part.repeat(20));
        let program = compile(&expression).unwrap();
        let budget = Budget { steps: 10_000, made: u64::MAX };
        let error = estimate(program.expression(), &[("v", &value)], budget).err().unwrap();
        assert!(
            error.starts_with("estimated cost exceeds budget: it could take more than 10000 steps"),
            "{error}"
        );
        let program = compile("v.list.map(a, a)").unwrap();
        let budget = Budget { steps: 10_000, made: 100 };
        let error = estimate(program.expression(), &[("v", &value)], budget).err().unwrap();
        assert!(error.contains("values of more than 100 bytes"), "{error}");
    }

    #[test]
    fn results_are_no_larger_than_estimated() {
        let value = json!({
            "text": "x-".repeat(500), "list": vec!["abcd"; 100], "empty": "", "n": 1e300, "more": [["a", "b"], ["c"]],
        });
        for expression in [
            "v.text + v.text",
            "v.text.replace('x', v.text)",
            "v.text.replace('', v.text)",
            "v.list.join(v.text)",
            "v.text.split('-').join('---')",
            "v.text.split('').join(v.text)",
            "v.list.map(x, x + v.text).join()",
            "v.list.map(x, v.list.join('+')).join()",
            "v.list.filter(x, x != '').join(',')",
            "v.more.map(x, x.join()).join('-')",
            "'%s %d %.100f %x'.format([v.text, 1, v.n, v.text])",
            "'%s'.format([v.list])",
            "strings.quote(v.text)",
            "base64.encode(bytes(v.text))",
            "string(base64.decode('YWI='))",
            "v.text.upperAscii().reverse().substring(3)",
            "v.?none.orValue(v.text)",
            "v.list[0] + v['text'] + [v.text][0]",
            "true ? v.text : v.empty",
            "string(v.n) + string(1)",
        ] {
            let (_, made) = of(expression, &value);
            let text = super::super::text(expression, &[("v", &value)]).unwrap();
            assert!(
                text.len() as u64 <= made.max(1000),
                "{expression}: {} bytes, estimated {made}",
                text.len()
            );
        }
        // What only refers to a variable makes nothing.
        assert_eq!(of("v.list.all(x, x == v.text)", &value).1, of("v.list.all(x, x == v.empty)", &value).1);
    }
}
