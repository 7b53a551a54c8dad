//! Merges of values: helmfile has two kinds, which differ in nulls, zero values and lists.
//!
//! Owns mergo's merge of maps, the layered merge of helmfile (`maputil.MergeMaps`), and assignments by path (`maputil.Set`). Does
//! not know where values come from.

use super::error::Error;
use super::value::{Map, Value};

/// How the layered merge treats two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// The upper list replaces the lower one, unless it holds a null: then item by item.
    Sparse,
    /// Item by item, as for `--state-values-set list[1]=x`.
    ByItem,
}

/// Merges `over` into `into` as mergo does with override: entries replace, nulls and zero values too; maps merge.
pub fn override_map(into: &mut Map, over: Map) {
    for (key, value) in over {
        match (into.get_mut(&key), value) {
            (Some(Value::Map(lower)), Value::Map(upper)) if !lower.is_empty() => override_map(lower, upper),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

/// The merge of two layers: a null in the upper one never replaces, and lists replace each other as `lists` says.
#[must_use]
pub fn layered(lower: &Map, upper: &Map, lists: Lists) -> Map {
    let mut out = lower.clone();
    for (key, value) in upper {
        let merged = match (out.get(key), value) {
            (Some(_), Value::Null) => continue,
            (Some(Value::Map(lower)), Value::Map(upper)) => Value::Map(layered(lower, upper, lists)),
            (Some(Value::List(lower)), Value::List(upper)) => Value::List(merged_list(lower, upper, lists)),
            (_, value) => value.clone(),
        };
        out.insert(key.clone(), merged);
    }
    out
}

fn merged_list(lower: &[Value], upper: &[Value], lists: Lists) -> Vec<Value> {
    if lists == Lists::Sparse && !upper.contains(&Value::Null) {
        return upper.to_vec();
    }
    let mut out = lower.to_vec();
    out.resize(lower.len().max(upper.len()), Value::Null);
    for (slot, value) in out.iter_mut().zip(upper) {
        match (&*slot, value) {
            (_, Value::Null) => {}
            (Value::Map(lower), Value::Map(upper)) => *slot = Value::Map(layered(lower, upper, lists)),
            (_, value) => *slot = value.clone(),
        }
    }
    out
}

/// Sets `KEY[.KEY…]=VALUE` pairs, separated by commas, in a map. `text`: values stay texts.
///
/// # Errors
/// An assignment that helmfile would panic on: without `=`, into something that is not a map or list, or at an absurd index.
pub fn assign(into: &mut Map, assignments: &str, text: bool) -> Result<(), Error> {
    for assignment in pieces(assignments, text) {
        let Some((path, value)) = assignment.split_once('=') else {
            return Err(Error::Invalid(format!("{assignment:?} is not an assignment: write KEY=VALUE")));
        };
        if value.starts_with('{') && !value.ends_with('}') {
            return Err(Error::Invalid(format!(
                "{assignment:?}: lists in braces do not work here; set {path}[0]=…, {path}[1]=…, or use --state-values-file"
            )));
        }
        set(into, &split_path(path), typed(value, text))
            .map_err(|reason| reason.within(format!("{assignment:?}")))?;
    }
    Ok(())
}

/// Splits assignments at commas. Among texts, a value in quotes may hold commas; the quotes belong to it.
fn pieces(assignments: &str, text: bool) -> Vec<&str> {
    if !text {
        return assignments.split(',').collect();
    }
    let mut out = Vec::new();
    let mut rest = assignments;
    while !rest.is_empty() {
        let value = rest.find('=').map_or(0, |at| at + 1);
        let quoted = rest.get(value..).filter(|value| value.starts_with(['\'', '"']));
        let close =
            quoted.and_then(|quoted| quoted.get(1..)?.find(['\'', '"'])).map_or(value, |at| value + at + 2);
        let end = rest.get(close..).and_then(|tail| tail.find(',')).map_or(rest.len(), |at| close + at);
        let (piece, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
        out.push(piece);
        rest = tail.get(1..).unwrap_or_default();
    }
    out
}

/// The maximal index in an assignment.
const MAX_INDEX: usize = 65_536;

fn set(into: &mut Map, keys: &[String], value: Value) -> Result<(), Error> {
    let Some((first, rest)) = keys.split_first() else {
        return Err(Error::Invalid("the key is empty".to_owned()));
    };
    let (key, index) = index_of(first)?;
    let slot = into.entry(key.clone()).or_insert_with(|| match index {
        Some(_) => Value::List(Vec::new()),
        None if rest.is_empty() => Value::Null,
        None => Value::Map(Map::new()),
    });
    let slot = match (index, slot) {
        (None, slot) => slot,
        (Some(index), Value::List(items)) => {
            if items.len() <= index {
                items.resize(index + 1, Value::Null);
            }
            items.get_mut(index).ok_or_else(|| Error::Invalid(format!("index {index} is too large")))?
        }
        (Some(_), other) => {
            return Err(Error::Invalid(format!("{key}: expected a list, got {}", other.go_type())));
        }
    };
    if rest.is_empty() {
        *slot = value;
        return Ok(());
    }
    if index.is_some() && *slot == Value::Null {
        *slot = Value::Map(Map::new());
    }
    match slot {
        Value::Map(map) => set(map, rest, value),
        other => Err(Error::Invalid(format!("{key}: expected a map, got {}", other.go_type()))),
    }
}

/// Splits `key[3]` into key and index.
fn index_of(key: &str) -> Result<(String, Option<usize>), Error> {
    let Some((name, index)) = key.strip_suffix(']').and_then(|key| key.split_once('[')) else {
        return Ok((key.to_owned(), None));
    };
    match index.trim().parse::<usize>() {
        Ok(index) if index <= MAX_INDEX => Ok((name.trim().to_owned(), Some(index))),
        _ => Err(Error::Invalid(format!("{index:?} is not an index between 0 and {MAX_INDEX}"))),
    }
}

/// The value of a text on the command line.
fn typed(value: &str, text: bool) -> Value {
    if text {
        return Value::String(value.to_owned());
    }
    if value.eq_ignore_ascii_case("true") {
        return Value::Bool(true);
    }
    if value.eq_ignore_ascii_case("false") {
        return Value::Bool(false);
    }
    if value.eq_ignore_ascii_case("null") {
        return Value::Null;
    }
    if value == "0" {
        return Value::Int(0);
    }
    match value.parse::<i64>() {
        Ok(n) if !value.starts_with('0') => Value::Int(n),
        _ => Value::String(value.to_owned()),
    }
}

/// Splits a path at its dots, except after a backslash.
fn split_path(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut escaped = false;
    for c in path.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            '.' if !escaped => parts.push(String::new()),
            c => {
                escaped = false;
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;

    fn map(text: &str) -> Map {
        document::map(text).unwrap()
    }

    #[test]
    fn mergo_overrides_with_nulls_and_zero_values() {
        let table = [
            ("a: 1\nb: 2", "a: 0\nc: 3", "a: 0\nb: 2\nc: 3"),
            ("a: {x: 1}", "a: null", "a: null"),
            ("a: {x: 1, y: [1, 2]}", "a: {y: [3]}", "a: {x: 1, y: [3]}"),
            ("a: text", "a: {x: 1}", "a: {x: 1}"),
            ("a: {x: 1}", "a: text", "a: text"),
        ];
        for (lower, upper, expected) in table {
            let mut merged = map(lower);
            override_map(&mut merged, map(upper));
            assert_eq!(merged, map(expected), "{lower} + {upper}");
        }
    }

    #[test]
    fn layers_keep_values_below_a_null() {
        let table = [
            ("a: 1", "a: null\nb: null", "a: 1\nb: null", Lists::Sparse),
            ("a: [1, 2, 3]", "a: [4]", "a: [4]", Lists::Sparse),
            ("a: [1, 2, 3]", "a: [null, 4]", "a: [1, 4, 3]", Lists::Sparse),
            ("a: [1, {x: 1}, 3]", "a: [4, {y: 2}]", "a: [4, {x: 1, y: 2}, 3]", Lists::ByItem),
        ];
        for (lower, upper, expected, lists) in table {
            assert_eq!(layered(&map(lower), &map(upper), lists), map(expected), "{lower} + {upper}");
        }
    }

    #[test]
    fn assignments_are_typed_and_refused_where_helmfile_panics() {
        let table = [
            ("a=1,b.c=true", Ok("a: 1\nb: {c: true}")),
            ("a=01,b=0,c=null", Ok("a: \"01\"\nb: 0\nc: null")),
            ("a[1].b=x", Ok("a: [null, {b: x}]")),
            (r"a\.b=x=y", Ok("a.b: x=y")),
            ("a", Err("\"a\" is not an assignment: write KEY=VALUE")),
            ("a={x},b=1", Ok("a: \"{x}\"\nb: 1")),
            (
                "a={x,y}",
                Err(
                    "\"a={x\": lists in braces do not work here; set a[0]=…, a[1]=…, or use --state-values-file",
                ),
            ),
            ("a=1,a.b=2", Err("\"a.b=2\": a: expected a map, got int")),
        ];
        for (text, expected) in table {
            let mut values = Map::new();
            let done = assign(&mut values, text, false).map(|()| values).map_err(|error| error.to_string());
            assert_eq!(done, expected.map(map).map_err(str::to_owned), "{text}");
        }
        let mut values = Map::new();
        assign(&mut values, "a='x,y',b=1", true).unwrap();
        assert_eq!(values, map("a: \"'x,y'\"\nb: \"1\""));
    }
}
