//! Data as Go's JSON decoder reads it into structs.
//!
//! Owns which keys a struct has (their case does not count), the types of their values, and Go's error texts.

use chart_compat::data::{Data, Map};

/// The type of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    /// A Go string.
    Text,
    /// A Go bool.
    Bool,
    /// A Go integer of this name.
    Int(&'static str),
    /// Anything.
    Any,
    /// A slice.
    List(&'static Type),
    /// A map by text.
    Map(&'static Type),
    /// A struct.
    Struct(&'static Struct),
    /// A pointer to a struct.
    Pointer(&'static Struct),
}

/// A Go struct.
#[derive(Debug)]
pub(crate) struct Struct {
    /// Its type's name.
    pub(crate) go: &'static str,
    /// Its keys.
    pub(crate) fields: &'static [(&'static str, Type)],
}

impl Type {
    fn go(self) -> String {
        match self {
            Self::Text => "string".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int(name) => name.to_owned(),
            Self::Any => "interface {}".to_owned(),
            Self::List(item) => format!("[]{}", item.go()),
            Self::Map(value) => format!("map[string]{}", value.go()),
            Self::Struct(of) | Self::Pointer(of) => of.go.to_owned(),
        }
    }
}

/// How a map is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As JSON, without unknown keys: a kustomization file.
    Json,
    /// As YAML, in which a number or boolean may stand for a text, without unknown keys.
    Strict,
    /// As YAML, with keys that do not count.
    Lenient,
}

/// Decodes a map into a struct: a map with the struct's own keys, without nulls.
///
/// # Errors
/// Go's text for the first value that does not fit.
pub(crate) fn decode(data: &Data, root: &'static Struct, mode: Mode) -> Result<Map, String> {
    let mut decoder = Decoder { within: root, mode, path: Vec::new(), failed: None };
    let decoded = decoder.value(data, Type::Struct(root));
    match (decoder.failed, decoded) {
        (Some(failed), _) => Err(failed),
        (None, Some(Data::Map(map))) => Ok(map),
        (None, _) => Ok(Map::new()),
    }
}

/// The keys of a map that a struct, or a struct in it, does not have: a sentence for each.
pub(crate) fn unknown_fields(data: &Data, root: &'static Struct) -> Vec<String> {
    let mut found = Vec::new();
    note_unknown(data, Type::Struct(root), "", &mut found);
    found
}

fn note_unknown(data: &Data, of: Type, path: &str, found: &mut Vec<String>) {
    match (of, data) {
        (Type::List(item), Data::List(items)) => {
            for (at, data) in items.iter().enumerate() {
                note_unknown(data, *item, &format!("{path}[{at}]"), found);
            }
        }
        (Type::Struct(of) | Type::Pointer(of), Data::Map(map)) => {
            for (key, value) in map {
                let full = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match of.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)) {
                    Some((_, of)) => note_unknown(value, *of, &full, found),
                    None => {
                        let known: Vec<&str> = of.fields.iter().map(|(name, _)| *name).collect();
                        found.push(format!("{full} is unknown: there are {}", known.join(", ")));
                    }
                }
            }
        }
        _ => {}
    }
}

struct Decoder {
    /// The struct that is read.
    within: &'static Struct,
    mode: Mode,
    path: Vec<&'static str>,
    /// The first error: Go goes on and reports it at the end.
    failed: Option<String>,
}

fn json_name(data: &Data) -> &'static str {
    match data {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
        Data::Map(_) => "object",
    }
}

impl Decoder {
    fn fail(&mut self, text: String) {
        self.failed.get_or_insert(text);
    }

    fn wrong(&mut self, data: &Data, wanted: Type) -> Option<Data> {
        let mut found = json_name(data).to_owned();
        if let (Data::Float(n), Type::Int(_)) = (data, wanted) {
            found = format!("number {}", chart_compat::go::format_float(*n));
        }
        let wanted = wanted.go();
        self.fail(match self.path.as_slice() {
            [] => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            path => {
                let name = self.within.go.rsplit('.').next().unwrap_or_default();
                let field = path.join(".");
                format!("json: cannot unmarshal {found} into Go struct field {name}.{field} of type {wanted}")
            }
        });
        None
    }

    fn value(&mut self, data: &Data, wanted: Type) -> Option<Data> {
        match (wanted, data) {
            (_, Data::Null) => None,
            (Type::Any, _)
            | (Type::Text, Data::String(_))
            | (Type::Bool, Data::Bool(_))
            | (Type::Int(_), Data::Int(_)) => Some(data.clone()),
            (Type::Text, Data::Bool(_) | Data::Int(_) | Data::Float(_)) if self.mode != Mode::Json => {
                Some(Data::String(scalar_text(data)))
            }
            (Type::Int(_), Data::Float(n)) => whole(*n).map(Data::Int).or_else(|| self.wrong(data, wanted)),
            (Type::List(item), Data::List(items)) => {
                let empty = || match item {
                    Type::Text => Data::String(String::new()),
                    _ => Data::Null,
                };
                Some(Data::List(
                    items.iter().map(|data| self.value(data, *item).unwrap_or_else(empty)).collect(),
                ))
            }
            (Type::Map(value), Data::Map(map)) => {
                let entry = |(key, data): (&String, &Data)| {
                    let empty = || match value {
                        Type::Text => Data::String(String::new()),
                        _ => Data::Null,
                    };
                    (key.clone(), self.value(data, *value).unwrap_or_else(empty))
                };
                Some(Data::Map(map.iter().map(entry).collect()))
            }
            (Type::Struct(of) | Type::Pointer(of), Data::Map(map)) => Some(Data::Map(self.fields(map, of))),
            _ => self.wrong(data, wanted),
        }
    }

    fn fields(&mut self, map: &Map, of: &'static Struct) -> Map {
        let mut out = Map::new();
        let outer = std::mem::replace(&mut self.within, of);
        for (key, data) in map {
            let exact = of.fields.iter().find(|(name, _)| name == key);
            let Some((name, wanted)) =
                exact.or_else(|| of.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)))
            else {
                if self.mode != Mode::Lenient {
                    self.fail(format!("json: unknown field {}", chart_compat::go::quote(key.as_bytes())));
                }
                continue;
            };
            self.path.push(name);
            if let Some(value) = self.value(data, *wanted) {
                out.insert((*name).to_owned(), value);
            }
            self.path.pop();
        }
        self.within = outer;
        out
    }
}

/// A number or boolean as a text.
fn scalar_text(data: &Data) -> String {
    match data {
        Data::Bool(value) => value.to_string(),
        Data::Int(n) => n.to_string(),
        Data::Float(n) if n.fract() == 0.0 && n.abs() < 1e21 => format!("{n:.0}"),
        Data::Float(n) => chart_compat::go::format_float(*n),
        _ => String::new(),
    }
}

/// A whole number that a float is.
#[allow(clippy::cast_possible_truncation, reason = "the bounds are checked")]
fn whole(n: f64) -> Option<i64> {
    (n.fract() == 0.0 && n.abs() < 9e15).then_some(n as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    static INNER: Struct = Struct { go: "types.Inner", fields: &[("count", Type::Int("int64"))] };
    static OUTER: Struct = Struct {
        go: "types.Outer",
        fields: &[("names", Type::List(&Type::Text)), ("inner", Type::Struct(&INNER))],
    };

    #[test]
    fn keys_and_types_are_checked() {
        let decode = |text: &str| {
            decode(&chart_compat::yaml::from_slice(text.as_bytes()).unwrap(), &OUTER, Mode::Json)
        };
        let table = [
            ("NAMES: [a]", Ok(r#"{"names":["a"]}"#)),
            ("names: null\ninner: {count: 2.0}", Ok(r#"{"inner":{"count":2}}"#)),
            ("name: [a]", Err("json: unknown field \"name\"")),
            (
                "names: a",
                Err("json: cannot unmarshal string into Go struct field Outer.names of type []string"),
            ),
            (
                "inner: {count: a}",
                Err("json: cannot unmarshal string into Go struct field Inner.inner.count of type int64"),
            ),
            ("[a]", Err("json: cannot unmarshal array into Go value of type types.Outer")),
        ];
        for (text, expected) in table {
            let decoded = decode(text).map(|map| chart_compat::json::to_string(&Data::Map(map)).unwrap());
            assert_eq!(decoded, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
