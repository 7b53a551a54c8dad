//! How fields of built-in kinds are merged: the strategies and merge keys of Kubernetes' Go types.
//!
//! Owns `merge_schema.txt`, which `make fixtures` writes, and its form: `kind VERSION KIND TYPE`, and `type TYPE NAME FIELD…` with the fields
//! that hold objects or lists as `NAME=SHAPE!STRATEGIES/KEY`. A shape is a type, `{` for a map, `[` for a list, `[TYPE` for one of objects.

use super::MergeError;
use std::collections::HashMap;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Tables> = LazyLock::new(|| Tables::parse(include_str!("merge_schema.txt")));

#[derive(Default)]
struct Tables {
    kinds: HashMap<(&'static str, &'static str), usize>,
    types: Vec<Type>,
}

struct Type {
    name: &'static str,
    fields: Vec<(&'static str, Field)>,
}

/// How a field is merged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    /// The place of its value, or of the items of its list.
    pub(super) inner: Place,
    is_list: bool,
    /// Replaced or merged; neither for the default of its shape.
    pub(super) strategy: Strategy,
    /// The patch names the fields that stay.
    pub(super) retain_keys: bool,
    /// The field by which items are merged; empty for scalars.
    pub(super) key: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strategy {
    Default,
    Merge,
    Replace,
}

/// A place in the schema.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// An object of this type.
    Type(usize),
    /// A map, or a scalar: nothing is known below it.
    Open,
}

impl Tables {
    fn parse(text: &'static str) -> Self {
        let mut tables = Self::default();
        for line in text.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("kind"), Some(version), Some(kind)) => {
                    let number = words.next().and_then(|number| number.parse().ok());
                    tables.kinds.extend(number.map(|number| ((version, kind), number)));
                }
                (Some("type"), Some(_), Some(name)) => {
                    tables.types.push(Type { name, fields: words.filter_map(field).collect() });
                }
                _ => {}
            }
        }
        tables
    }
}

fn field(text: &'static str) -> Option<(&'static str, Field)> {
    let (name, rest) = text.split_once('=')?;
    let (rest, key) = rest.split_once('/').unwrap_or((rest, ""));
    let (shape, strategies) = rest.split_once('!').unwrap_or((rest, ""));
    let number = shape.strip_prefix('[').unwrap_or(shape);
    let has = |name: &str| strategies.split(',').any(|strategy| strategy == name);
    let strategy = match (has("merge"), has("replace")) {
        (true, _) => Strategy::Merge,
        (_, true) => Strategy::Replace,
        _ => Strategy::Default,
    };
    let inner = number.parse().map_or(Place::Open, Place::Type);
    Some((
        name,
        Field { inner, is_list: shape.starts_with('['), strategy, retain_keys: has("retainKeys"), key },
    ))
}

/// The place of a kind's objects; `None` if the kind is not built in.
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<Place> {
    let kinds: &HashMap<(&str, &str), usize> = &SCHEMA.kinds;
    kinds.get(&(api_version, kind)).map(|number| Place::Type(*number))
}

impl Place {
    fn field(self, name: &str) -> Result<Field, MergeError> {
        let unknown = |type_name| MergeError::UnknownField { type_name, field: name.to_owned() };
        let Self::Type(number) = self else { return Err(unknown("a map of texts")) };
        let Some(of) = SCHEMA.types.get(number) else { return Err(unknown("an unknown type")) };
        let exact = of.fields.iter().find(|(known, _)| *known == name);
        let found = exact.or_else(|| of.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)));
        found.map(|(_, field)| *field).ok_or_else(|| unknown(of.name))
    }

    /// The field that holds an object.
    pub(super) fn object(self, name: &str) -> Result<Field, MergeError> {
        self.field(name)
    }

    /// The field that holds a list.
    pub(super) fn list(self, name: &str) -> Result<Field, MergeError> {
        let found = self.field(name)?;
        if found.is_list {
            return Ok(found);
        }
        Err(MergeError::UnknownField { type_name: "the kind", field: name.to_owned() })
    }
}
