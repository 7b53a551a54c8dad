//! Vars: values of fields that texts of the form `$(NAME)` stand for.
//!
//! Owns the values and the syntax of the texts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chart_compat::go::fmt::float;
use chart_compat::yaml::tree::{Kind, Node, Style};

use crate::error::Error;
use crate::fieldspec::lookup::lookup;
use crate::fieldspec::{FieldSpec, split_dotted, visit};
use crate::kustomization::Var;
use crate::resource::build_steps;
use crate::resource::growth;
use crate::resource::shared::sync;
use crate::resource::{Objects, Resource};
use crate::schema::Schemas;

/// The value of a var.
#[derive(Clone, Debug)]
enum Value {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A map or list, which replaces nothing.
    Other,
}

/// Notes which objects the vars of a kustomization read.
///
/// # Errors
/// A var fits more than one object, or the build takes too many steps.
pub fn mark(objects: &mut Objects, vars: &[Var], schemas: &Schemas) -> Result<(), Error> {
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    if !vars.is_empty() {
        for (at, object) in objects.items().iter().enumerate() {
            for id in object.all_ids(schemas) {
                let places = by_name.entry(id.name).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
        }
    }
    for var in vars {
        let target = &var.target;
        let wanted = crate::resource::Id::new(
            target.gvk.clone(),
            target.name.clone(),
            target.namespace.clone(),
            schemas,
        );
        let exact = !target.namespace.is_empty() || wanted.cluster_scoped;
        let fits = |object: &Resource| {
            !object.is_empty()
                && object
                    .all_ids(schemas)
                    .iter()
                    .any(|id| id.name == wanted.name && id.gvk == wanted.gvk && (!exact || id.same(&wanted)))
        };
        let mut found = Vec::new();
        for at in by_name.get(&wanted.name).into_iter().flatten().copied() {
            build_steps::count(1)?;
            if objects.items().get(at).is_some_and(fits) {
                found.push(at);
            }
        }
        if found.len() > 1 {
            let count = found.len();
            let text = format!(
                "found {count} resId matches for var {} (unable to disambiguate)",
                format_var(var, &var.written_path)
            );
            return Err(Error::Text(text));
        }
        if let Some(object) = found.first().and_then(|at| objects.contents_mut().get_mut(*at)) {
            object.vars.push(var.name.clone());
        }
    }
    Ok(())
}

/// A var as Go prints the struct.
fn format_var(var: &Var, path: &str) -> String {
    format!("{{{} {} {{{path}}}}}", var.name, var.target.gvk)
}

/// Replaces vars in the fields that may hold them. Returns the vars that stand nowhere.
///
/// # Errors
/// A var has no value, a field is of another form, or the build takes too many steps.
pub fn resolve(
    objects: &mut Objects,
    vars: &BTreeMap<String, Var>,
    fields: &[FieldSpec],
) -> Result<Vec<String>, Error> {
    let mut values = BTreeMap::new();
    // The first object of each var.
    let mut read: HashMap<&str, &Resource> = HashMap::new();
    for object in objects.items() {
        for name in &object.vars {
            read.entry(name).or_insert(object);
        }
    }
    for (name, var) in vars {
        let object = read.get(name.as_str());
        let object = object.ok_or_else(|| {
            let var = format_var(var, &var.field_path);
            Error::text(format!("var '{var}' cannot be mapped to a field in the set of known resources"))
        })?;
        let value = value_of(object, &var.field_path).ok_or_else(|| {
            let var = format_var(var, &var.field_path);
            Error::text(format!("field specified in var '{var}' not found in corresponding resource"))
        })?;
        values.insert(name.clone(), value);
    }
    if values.is_empty() {
        return Ok(Vec::new());
    }
    let mut used = BTreeSet::new();
    for object in objects.contents_mut() {
        for spec in fields {
            visit(spec, &mut object.node, None, &mut |node| set(node, &values, &mut used))?;
        }
        sync(object);
    }
    Ok(values.into_keys().filter(|name| !used.contains(name)).collect())
}

/// The field at a path with dots, and indices in brackets after names.
fn value_of(object: &Resource, path: &str) -> Option<Value> {
    let mut parts = Vec::new();
    for part in split_dotted(path) {
        match part.strip_suffix(']').and_then(|rest| rest.rsplit_once('[')) {
            Some((name, index)) if !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit()) => {
                if !name.is_empty() {
                    parts.push(name.to_owned());
                }
                parts.push(index.to_owned());
            }
            _ => parts.push(part),
        }
    }
    let node = lookup(&object.node, &parts).ok()??;
    if node.kind != Kind::Scalar {
        return Some(Value::Other);
    }
    let text = node.value.as_str();
    Some(match node.tag.as_str() {
        "!!int" => Value::Int(text.parse().ok()?),
        "!!float" => Value::Float(text.parse().ok()?),
        "!!bool" => Value::Bool(matches!(text, "true" | "True" | "TRUE" | "t" | "T" | "1")),
        _ => Value::Text(text.to_owned()),
    })
}

type Values = BTreeMap<String, Value>;

/// The longest text that vars make.
const MAX_TEXT: usize = 16 << 20;

fn set(node: &mut Node, values: &Values, used: &mut BTreeSet<String>) -> Result<(), Error> {
    if node.is_null() {
        return Ok(());
    }
    match node.kind {
        Kind::Scalar => {
            if is_text(node) {
                replace(node, values, used)
            } else {
                Ok(())
            }
        }
        Kind::Map => {
            for pair in node.content.chunks_exact_mut(2) {
                let [key, value] = pair else { continue };
                if !is_text(key) {
                    let (value, tag) = (&key.value, &key.tag);
                    return Err(Error::text(format!("invalid map key: value='{value}', tag='{tag}'")));
                }
                if is_text(value) {
                    replace(value, values, used)?;
                }
            }
            Ok(())
        }
        Kind::List => node.content.iter_mut().try_for_each(|item| {
            if !is_text(item) {
                return Err(Error::text("invalid value type expect a string"));
            }
            replace(item, values, used)
        }),
        Kind::Document | Kind::Alias => Err(Error::text("invalid type encountered")),
    }
}

fn is_text(node: &Node) -> bool {
    node.kind == Kind::Scalar && matches!(node.tag.as_str(), "" | "!!str")
}

fn replace(node: &mut Node, values: &Values, used: &mut BTreeSet<String>) -> Result<(), Error> {
    build_steps::count(1 + build_steps::of_text(&node.value))?;
    let (text, tag) = match expand(&node.value, values, used) {
        Value::Text(text) => (text, "!!str"),
        Value::Int(n) => (n.to_string(), "!!int"),
        Value::Float(n) => (n.to_string(), "!!float"),
        Value::Bool(value) => (value.to_string(), "!!bool"),
        Value::Other => return Ok(()),
    };
    if text.len() > MAX_TEXT {
        return Err(Error::text(format!("vars make a text of more than {MAX_TEXT} bytes")));
    }
    growth::change(node.value.len(), text.len())?;
    node.value = text;
    tag.clone_into(&mut node.tag);
    node.style = Style::Plain;
    node.tagged = false;
    Ok(())
}

/// Replaces `$(NAME)`; `$$` stands for `$`. A text that is one var alone becomes its value.
fn expand(text: &str, values: &Values, used: &mut BTreeSet<String>) -> Value {
    let mut out = String::new();
    let mut rest = text;
    let last_bracket = text.rfind(')').unwrap_or(0);
    // A text that is too long is refused by the caller.
    while let Some(at) = rest.find('$').filter(|_| out.len() <= MAX_TEXT) {
        let (before, after) = rest.split_at(at);
        let after = after.strip_prefix('$').unwrap_or_default();
        if after.is_empty() {
            break;
        }
        out.push_str(before);
        if let Some(inner) = after.strip_prefix('(') {
            let closed = text.len() - inner.len() <= last_bracket;
            let Some((name, behind)) = closed.then(|| inner.split_once(')')).flatten() else {
                out.push_str("$(");
                rest = inner;
                continue;
            };
            let value = values.get(name).filter(|value| !matches!(value, Value::Other));
            if let Some(value) = value {
                used.insert(name.to_owned());
                if text == format!("$({name})") {
                    return value.clone();
                }
            }
            match value {
                Some(Value::Text(value)) => out.push_str(value),
                Some(Value::Int(n)) => out.push_str(&n.to_string()),
                Some(Value::Float(n)) => out.push_str(&float(*n)),
                Some(Value::Bool(value)) => out.push_str(&value.to_string()),
                Some(Value::Other) | None => out.push_str(&format!("$({name})")),
            }
            rest = behind;
        } else if let Some(behind) = after.strip_prefix('$') {
            out.push('$');
            rest = behind;
        } else {
            // Go takes the byte that follows for a character.
            out.push('$');
            let next = after.bytes().next().map_or('\0', char::from);
            let len = after.chars().next().map_or(0, char::len_utf8);
            if len == 1 {
                out.push(next);
            } else {
                out.push_str(after.get(..len).unwrap_or_default());
            }
            rest = after.get(len..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    Value::Text(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_expanded() {
        let values =
            Values::from([("A".to_owned(), Value::Text("x".to_owned())), ("N".to_owned(), Value::Int(3))]);
        for (text, expected) in [
            ("$(A)-$(N)", "x-3"),
            ("$$(A)", "$(A)"),
            ("$(B)$(A", "$(B)$(A"),
            ("$A $", "$A $"),
            ("a$$$(A)", "a$x"),
        ] {
            let Value::Text(got) = expand(text, &values, &mut BTreeSet::new()) else { panic!("{text}") };
            assert_eq!(got, expected, "{text}");
        }
        assert!(matches!(expand("$(N)", &values, &mut BTreeSet::new()), Value::Int(3)));
    }
}
