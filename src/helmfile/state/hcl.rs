//! Values of environments in HCL.
//!
//! Owns the blocks that helmfile knows (`values`, `locals`), their references and the order of evaluation. The language itself is
//! the crate's; its functions are in `functions`.

mod cidr_functions;
mod csv_functions;
mod date_functions;
mod fallible_calls;
mod functions;
mod references;
mod yaml_functions;

use std::collections::{BTreeMap, BTreeSet};

use hcl::Expression;
use hcl::eval::{Context, Evaluate};

use super::value::{Map, Value};

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
    let mut locals: BTreeMap<&str, hcl::Value> = BTreeMap::new();
    for (file, text) in files {
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
        let evaluated = in_order(&own, "local", &BTreeMap::new())?;
        locals.insert(file, hcl::Value::Object(evaluated.into_iter().collect()));
    }
    let evaluated = in_order(&values, "hv", &locals)?;
    evaluated.into_iter().map(|(name, value)| Ok((name, from_hcl(&value)?))).collect()
}

/// Evaluates definitions after those that they refer to under `accessor`.
fn in_order(
    definitions: &BTreeMap<String, Vec<Definition<'_>>>,
    accessor: &str,
    locals: &BTreeMap<&str, hcl::Value>,
) -> Result<BTreeMap<String, hcl::Value>, String> {
    let mut needs: BTreeMap<&String, BTreeSet<String>> = BTreeMap::new();
    for (name, all) in definitions {
        let mut found = BTreeSet::new();
        for definition in all {
            references::collect(&definition.expression, accessor, &mut found)
                .map_err(|error| format!("{}: {name}: {error}", definition.file))?;
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
            let known = hcl::Value::Object(done.clone().into_iter().collect());
            let mut value: Option<hcl::Value> = None;
            for definition in definitions.get(name).into_iter().flatten() {
                let mut context = Context::new();
                functions::declare(&mut context);
                context.declare_var(accessor, known.clone());
                let mut variables = vec![accessor];
                if let Some(own) = locals.get(definition.file) {
                    context.declare_var("local", own.clone());
                    variables.push("local");
                }
                let evaluated = fallible_calls::deferred(&definition.expression, &variables)
                    .and_then(|expression| expression.evaluate(&context).map_err(|error| error.to_string()));
                let evaluated = evaluated.map_err(|error| {
                    format!("error when trying to evaluate variable {name} in {}: {error}", definition.file)
                })?;
                if size(&evaluated) > functions::MAX_TEXT {
                    return Err(format!(
                        "variable {name} in {} has more than {} MiB",
                        definition.file,
                        functions::MAX_TEXT >> 20
                    ));
                }
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

/// Bytes of the texts of a value, and one for each other value.
fn size(value: &hcl::Value) -> usize {
    match value {
        hcl::Value::String(text) => text.len() + 1,
        hcl::Value::Array(items) => items.iter().map(size).sum::<usize>() + 1,
        hcl::Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum::<usize>() + 1,
        hcl::Value::Null | hcl::Value::Bool(_) | hcl::Value::Number(_) => 1,
    }
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
            Value::Float(number.as_f64().ok_or_else(|| format!("{number} is too large"))?)
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
