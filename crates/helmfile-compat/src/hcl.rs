//! Values of environments in HCL.
//!
//! Owns the blocks that helmfile knows (`values`, `locals`), their references, the order of evaluation, and its bound: how many bytes
//! all values have, and all copies of them. The language itself is the crate's; its functions are in `functions`.

mod arithmetic;
mod cidr_functions;
mod csv_functions;
mod date_functions;
mod functions;
mod references;
mod rewritten_expression;
mod yaml_functions;

use std::collections::{BTreeMap, BTreeSet};

use chart_compat::memory;
use hcl::Expression;
use hcl::eval::{Context, Evaluate};
use references::References;

use super::value::{Map, Value};

/// The maximal size of all values of an evaluation, and of what one expression refers to, in bytes.
const MAX_VALUES: usize = 64 << 20;
/// The maximal size of all files of an evaluation, in bytes. What the crate makes of three of them takes some hundreds.
const MAX_TEXT: usize = 4 << 20;
/// How many bytes of memory a byte of a file may take.
const TREE: usize = 256;
/// The maximal depth of a value: expressions nest to a depth of their own, and put values of others into theirs.
const MAX_DEPTH: usize = 500;
/// The most bytes of values that are copied for the expressions that refer to them.
const MAX_COPIES: usize = 16 * MAX_VALUES;

/// What an evaluation has made.
#[derive(Default)]
struct Made {
    values: usize,
    copies: usize,
}

impl Made {
    fn value(&mut self, value: &hcl::Value) -> Result<(), String> {
        if depth(value) > MAX_DEPTH {
            return Err(format!("the value is deeper than {MAX_DEPTH}"));
        }
        self.values = self.values.saturating_add(size(value));
        match self.values <= most_values() {
            true => Ok(()),
            false => Err(format!("the values have more than {} MiB in all", most_values() >> 20)),
        }
    }

    /// The entries that an expression refers to by an accessor.
    fn referenced(
        &mut self,
        expression: &Expression,
        accessor: &str,
        all: &BTreeMap<String, hcl::Value>,
    ) -> Result<hcl::Value, String> {
        let References { names, whole, .. } = References::of(expression, accessor)?;
        let mut out = hcl::Map::new();
        let (mut sizes, mut references) = (0_usize, 0_usize);
        // An expression may refer to all of them, too.
        for (name, value) in all.iter().filter(|(name, _)| whole > 0 || names.contains_key(*name)) {
            let (size, times) = (size(value), names.get(name).copied().unwrap_or_default() + whole);
            sizes = sizes.saturating_add(size);
            references = references.saturating_add(size.saturating_mul(times));
            self.copies = self.copies.saturating_add(size);
            // All of them may be copied before anything looks at the result.
            if references > most_values() {
                let limit = most_values() >> 20;
                return Err(format!("the expression refers to more than {limit} MiB of values"));
            }
            self.within_copies()?;
            out.insert(name.clone(), value.clone());
        }
        // The crate copies all of them for each reference, and takes one out of the copy.
        let times = names.values().sum::<usize>() + whole;
        self.copies = self.copies.saturating_add(sizes.saturating_mul(times));
        self.within_copies()?;
        Ok(hcl::Value::Object(out))
    }

    fn within_copies(&self) -> Result<(), String> {
        match self.copies <= MAX_COPIES {
            true => Ok(()),
            false => {
                let limit = MAX_COPIES >> 20;
                Err(format!("the expressions refer to more than {limit} MiB of values in all"))
            }
        }
    }
}

/// A definition in a `values` or `locals` block.
struct Definition<'f> {
    file: &'f str,
    expression: Expression,
}

/// Evaluates files, in order: a later definition of a value merges into an earlier one.
///
/// # Errors
/// A file cannot be parsed, has another block, or a value refers to something that does not exist or to itself.
pub fn evaluate(files: &[(String, String)]) -> Result<Map, String> {
    let mut values: BTreeMap<String, Vec<Definition<'_>>> = BTreeMap::new();
    let mut locals: BTreeMap<&str, BTreeMap<String, hcl::Value>> = BTreeMap::new();
    let mut made = Made::default();
    functions::begin_evaluation();
    let (bytes, most) = (files.iter().map(|(_, text)| text.len()).sum::<usize>(), most_text());
    if bytes > most {
        return Err(format!("the files in HCL have {bytes} bytes; they may have {most} in all"));
    }
    for (file, text) in files {
        #[expect(clippy::disallowed_methods, reason = "what it makes is bounded here")]
        let body = hcl::parse(text).map_err(|error| format!("{file}: {error}"))?;
        let mut own: BTreeMap<String, Vec<Definition<'_>>> = BTreeMap::new();
        for structure in body {
            let block = match structure {
                hcl::Structure::Block(block) => block,
                hcl::Structure::Attribute(attribute) => {
                    return Err(format!(
                        "{file}: {} is outside of a block; put it into values {{ }} or locals {{ }}",
                        attribute.key.as_str()
                    ));
                }
            };
            let kind = block.identifier.as_str().to_owned();
            let into = match kind.as_str() {
                "values" => &mut values,
                "locals" => &mut own,
                other => {
                    return Err(format!("{file}: block {other} is not known; there are values and locals"));
                }
            };
            for attribute in block.body {
                let hcl::Structure::Attribute(attribute) = attribute else {
                    return Err(format!(
                        "{file}: block {kind} holds another block; it may hold attributes only"
                    ));
                };
                let definition = Definition { file, expression: attribute.expr };
                into.entry(attribute.key.as_str().to_owned()).or_default().push(definition);
            }
        }
        if let Some((name, _)) = own.iter().find(|(_, definitions)| definitions.len() > 1) {
            return Err(format!("{file}: local {name} is defined twice"));
        }
        let evaluated = in_order(&own, "local", &BTreeMap::new(), &mut made)?;
        locals.insert(file, evaluated);
    }
    let evaluated = in_order(&values, "hv", &locals, &mut made)?;
    evaluated.into_iter().map(|(name, value)| Ok((name, from_hcl(&value)?))).collect()
}

/// Evaluates definitions after those that they refer to under `accessor`.
fn in_order(
    definitions: &BTreeMap<String, Vec<Definition<'_>>>,
    accessor: &str,
    locals: &BTreeMap<&str, BTreeMap<String, hcl::Value>>,
    made: &mut Made,
) -> Result<BTreeMap<String, hcl::Value>, String> {
    let mut needs: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for (name, all) in definitions {
        let mut found = BTreeSet::new();
        for definition in all {
            let references = References::by_name(&definition.expression, accessor)
                .map_err(|error| format!("{}: {name}: {error}", definition.file))?;
            found.extend(references.names.into_keys());
        }
        if let Some(missing) = found.iter().find(|needed| !definitions.contains_key(*needed)) {
            return Err(format!("variables {name:?} depend(s) on undefined vars {missing:?}"));
        }
        needs.insert(name, found);
    }
    let mut done: BTreeMap<String, hcl::Value> = BTreeMap::new();
    while done.len() < definitions.len() {
        let ready: Vec<&String> = needs
            .iter()
            .filter(|(name, needs)| {
                !done.contains_key(**name) && needs.iter().all(|need| done.contains_key(need))
            })
            .map(|(name, _)| *name)
            .collect();
        if ready.is_empty() {
            let stuck: Vec<&str> =
                needs.keys().filter(|name| !done.contains_key(**name)).map(|name| name.as_str()).collect();
            return Err(format!(
                "error while building the DAG variable graph : cycle detected among {}",
                stuck.join(", ")
            ));
        }
        for name in ready {
            let mut value: Option<hcl::Value> = None;
            for definition in definitions.get(name).into_iter().flatten() {
                let (file, expression) = (definition.file, &definition.expression);
                let failed = |error: String| format!("variable {name} in {file}: {error}");
                let mut context = Context::new();
                functions::declare(&mut context);
                let known = made.referenced(expression, accessor, &done).map_err(failed)?;
                context.declare_var(accessor, known);
                let mut variables = vec![accessor];
                if let Some(own) = locals.get(file) {
                    context.declare_var("local", made.referenced(expression, "local", own).map_err(failed)?);
                    variables.push("local");
                }
                let evaluated = rewritten_expression::rewritten(expression, &variables)
                    .and_then(|expression| expression.evaluate(&context).map_err(|error| error.to_string()));
                let evaluated = evaluated.map_err(|error| {
                    format!("error when trying to evaluate variable {name} in {file}: {error}")
                })?;
                made.value(&evaluated).map_err(failed)?;
                value = Some(match value {
                    None => evaluated,
                    Some(lower) => merge(lower, evaluated)?,
                });
            }
            // `for` goes through an object in the order of its keys.
            done.insert(name.clone(), functions::sorted(value.unwrap_or_default()));
        }
    }
    Ok(done)
}

/// What an object takes for each entry beside its key and value: a hash, the key's own fields, and a place in the index.
const ENTRY: usize = 64;

/// The bytes of a value in memory.
fn size(value: &hcl::Value) -> usize {
    let below = match value {
        hcl::Value::String(text) => text.len(),
        hcl::Value::Array(items) => items.iter().map(size).sum(),
        hcl::Value::Object(map) => map.iter().map(|(key, value)| ENTRY + key.len() + size(value)).sum(),
        hcl::Value::Null | hcl::Value::Bool(_) | hcl::Value::Number(_) => 0,
    };
    below + size_of::<hcl::Value>()
}

/// The most bytes of all values of an evaluation, where the machine has them.
fn most_values() -> usize {
    MAX_VALUES.min(memory::of_input())
}

fn depth(value: &hcl::Value) -> usize {
    let below = match value {
        hcl::Value::Array(items) => items.iter().map(depth).max(),
        hcl::Value::Object(map) => map.values().map(depth).max(),
        hcl::Value::String(_) | hcl::Value::Null | hcl::Value::Bool(_) | hcl::Value::Number(_) => None,
    };
    1 + below.unwrap_or_default()
}

/// The most bytes of all files of an evaluation, where the machine has the memory for what is made of them.
fn most_text() -> usize {
    MAX_TEXT.min(memory::of_input() / TREE)
}

/// Merges a later definition into an earlier one: objects merge, anything but null replaces.
fn merge(lower: hcl::Value, upper: hcl::Value) -> Result<hcl::Value, String> {
    match (lower, upper) {
        (lower, hcl::Value::Null) => Ok(lower),
        (hcl::Value::Object(mut lower), hcl::Value::Object(upper)) => {
            for (key, value) in upper {
                let merged = match lower.swap_remove(&key) {
                    Some(below) => merge(below, value)?,
                    None => value,
                };
                lower.insert(key, merged);
            }
            Ok(hcl::Value::Object(lower))
        }
        (_, upper) => Ok(upper),
    }
}

/// A value of HCL as a value of a state file.
fn from_hcl(value: &hcl::Value) -> Result<Value, String> {
    Ok(match value {
        hcl::Value::Null => Value::Null,
        hcl::Value::Bool(value) => Value::Bool(*value),
        // Numbers pass through JSON, where Go has floats only.
        hcl::Value::Number(number) => {
            // A division by zero is infinite in HCL, too, and JSON has no such number.
            let finite = number.as_f64().filter(|number| number.is_finite());
            Value::Float(finite.ok_or_else(|| format!("{number} is not a valid JSON number"))?)
        }
        hcl::Value::String(text) => Value::String(text.clone()),
        hcl::Value::Array(items) => Value::List(items.iter().map(from_hcl).collect::<Result<_, _>>()?),
        hcl::Value::Object(map) => Value::Map(
            map.iter()
                .map(|(key, value)| Ok((key.clone(), from_hcl(value)?)))
                .collect::<Result<_, String>>()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluated(text: &str) -> Result<Map, String> {
        evaluate(&[("values.hcl".to_owned(), text.to_owned())])
    }

    #[test]
    fn what_json_cannot_hold_is_refused() {
        let one = |text: &str| evaluated(&format!("values {{\n a = [{text}]\n}}\n"));
        for text in ["1 / 0", "-1 / 0", "1e308 * 10", "[for x in [0] : 1 / x]", "\"${1 / 0}\""] {
            let told = one(text).unwrap_err();
            assert!(told.contains("is not a valid JSON number"), "{text}: {told}");
        }
        assert!(one("0 / 0").unwrap_err().contains("can't divide zero by zero"));
        // Also in the arguments that are evaluated later.
        for (text, number) in [("5 % 0", 5.0), ("try(1 / 0, 7 % 0)", 7.0), ("try(try(2 % 0 + 1), 0)", 3.0)] {
            let values = one(text).unwrap();
            assert_eq!(values.get("a"), Some(&Value::List(vec![Value::Float(number)])), "{text}");
        }
        let chain = vec!["1"; 100].join(" + ");
        assert!(one(&format!("{chain}, try({chain})")).is_ok());
    }

    #[test]
    fn values_refer_to_each_other() {
        let text = "locals {\n a = 1\n}\nvalues {\n c = \"${hv.b}-${local.a}\"\n b = \"x\"\n d = local\n}\n";
        let values = evaluated(text).unwrap();
        assert_eq!(values.get("c"), Some(&Value::String("x-1".to_owned())));
        assert_eq!(values.get("d"), Some(&Value::Map(Map::from([("a".to_owned(), Value::Float(1.0))]))));
        assert!(evaluated("values {\n a = hv.a\n}\n").unwrap_err().contains("cycle"));
    }

    #[test]
    fn an_evaluation_is_bounded_in_all() {
        // 4 MiB, which is quicker than to parse as many.
        let big = format!("locals {{\n big = join(\"{}\", range(100000))\n}}\n", "0123456789".repeat(4));
        let values = |count: usize, expression: &str| {
            let lines: String = (0..count).map(|at| format!(" v{at} = {expression}\n")).collect();
            evaluated(&format!("{big}values {{\n{lines}}}\n"))
        };
        assert_eq!(values(10, "local.big").unwrap().len(), 10);
        assert!(values(16, "local.big").unwrap_err().contains("more than 64 MiB in all"));
        assert!(values(300, "local.big == 1").unwrap_err().contains("more than 1024 MiB of values"));
        let join = "join(local.big, [\"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\", \"\"]) == 1";
        assert_eq!(values(2, join).unwrap().len(), 2);
        assert!(values(9, join).unwrap_err().contains("functions make more than 256 MiB"));
        let join = "join(\"\", [local.big, local.big, local.big, local.big, local.big, local.big, local.big, local.big, \
                    local.big, local.big, local.big, local.big, local.big, local.big, local.big, local.big, local.big])";
        assert!(values(1, join).unwrap_err().contains("more than 64 MiB"));
        // Refused before any of it is made: 4 GiB.
        let list = format!("length([{}]) == 1", vec!["local.big"; 1000].join(", "));
        assert!(values(1, &list).unwrap_err().contains("refers to more than 64 MiB"));
        let object = format!(
            "keys({{{}}})",
            (0..17).map(|at| format!("k{at} = local")).collect::<Vec<_>>().join(", ")
        );
        assert!(values(1, &object).unwrap_err().contains("refers to more than 64 MiB"));
        for expression in ["try(local.big, 1) == 1", "length(setproduct([local.big, 1], [1, 2])) == 1"] {
            assert!(values(80, expression).unwrap_err().contains("functions make more than"), "{expression}");
        }
        // 100,000 rounds of as many: each loop counts.
        for expression in [
            "[for a in local.many : [for b in local.many : local.big]]",
            "length([for a in local.many : \"${local.big}\"]) == 1",
            &format!(
                "\"%{{ for a in local.many }}%{{ for b in local.many }}{}%{{ endfor }}%{{ endfor }}\" == 1",
                "x".repeat(4096)
            ),
            "\"%{ for a in local.many }${local.big}%{ endfor }\" == 1",
        ] {
            let text =
                format!("{big}locals {{\n many = range(100000)\n}}\nvalues {{\n v = {expression}\n}}\n");
            let told = evaluated(&text).unwrap_err();
            assert!(told.contains("functions make more than"), "{told}");
        }
        // The function makes next to nothing, and its arguments are copied in each round.
        let text = "locals {\n many = range(100000)\n}\nvalues {\n v = length([for a in local.many : contains(local.many, a)])\n}\n";
        assert!(evaluated(text).unwrap_err().contains("loops read more than 1024 MiB"));
        // Escapes grow with each call within a call.
        let nested = format!("{}\"\\\"\"{}", "try(".repeat(40), ")".repeat(40));
        assert!(values(1, &nested).unwrap_err().contains("too many calls in calls"));
        assert!(values(200, "length(range(100000))").unwrap_err().contains("functions make more than"));
    }

    #[test]
    fn files_are_bounded_in_all() {
        let file = |bytes: usize| ("a.hcl".to_owned(), format!("values {{\n}}\n# {}\n", "x".repeat(bytes)));
        assert!(evaluate(&[file(1 << 20)]).is_ok());
        let told = evaluate(&[file(3 << 20), file(1 << 20)]).unwrap_err();
        assert!(told.contains("they may have 4194304 in all"), "{told}");
    }

    /// Each ends in an error, on a stack of any thread.
    #[test]
    fn depth_is_bounded() {
        let text = |value: &str| format!("locals {{\n a = [1]\n}}\nvalues {{\n v = {value}\n}}\n");
        let splats = format!("local.a{}", "[*]".repeat(10_000));
        let names = format!("local.a{}", ".b".repeat(10_000));
        let within = format!("try({splats}, 1)");
        let parentheses = format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000));
        let directives = format!("\"{}x{}\"", "%{ if true }".repeat(10_000), "%{ endif }".repeat(10_000));
        let json = format!("jsondecode(\"{}{}\")", "[".repeat(10_000), "]".repeat(10_000));
        let yaml = format!("yamldecode(\"{}{}\")", "[".repeat(10_000), "]".repeat(10_000));
        for value in [splats, names, within, parentheses, directives, json, yaml] {
            assert!(evaluated(&text(&value)).is_err(), "{}", &value[..40]);
        }
        assert!(evaluated(&text(&format!("local.a{}", "[*]".repeat(100)))).is_ok());
        // Each value puts the one before it 50 levels deeper.
        let chain: String = (1..20)
            .map(|at| format!(" v{at} = {}hv.v{}{}\n", "[".repeat(50), at - 1, "]".repeat(50)))
            .collect();
        let told = evaluated(&format!("values {{\n v0 = 1\n{chain}}}\n")).unwrap_err();
        assert!(told.contains("the value is deeper than 500"), "{told}");
    }

    #[test]
    fn sets_take_linear_time() {
        let started = std::time::Instant::now();
        let text = "locals {\n a = range(100000)\n b = range(50000, 150000)\n}\nvalues {\n d = length(distinct(concat(local.a, \
                    local.b)))\n u = length(setunion(local.a, local.b))\n i = length(setintersection(local.a, local.b))\n s = \
                    length(setsubtract(local.a, local.b))\n o = distinct([{a = 1, b = [2]}, {b = [2], a = 1}, 1, 1.0, \"1\", null, \
                    null])\n}\n";
        let values = evaluated(text).unwrap();
        for (name, count) in [("d", 150_000.0), ("u", 150_000.0), ("i", 50_000.0), ("s", 50_000.0)] {
            assert_eq!(values.get(name), Some(&Value::Float(count)), "{name}");
        }
        let Some(Value::List(distinct)) = values.get("o") else { panic!("a list") };
        assert_eq!(distinct.len(), 4, "{distinct:?}");
        // Quadratic time would be minutes.
        assert!(started.elapsed() < std::time::Duration::from_secs(60));
    }
}
