//! The head of a manifest, as Helm decodes it first: version, kind, name and annotations.
//!
//! Owns the decoding of Helm's `SimpleHead`, which accepts numbers and booleans for string fields, without decoding the rest of
//! the document. Knows nothing of the meaning of fields.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::error::Error;
use super::room::Room;
use super::sink::{DataBuilder, Key, Sink};
use crate::data::{Data, Map};
use crate::go::strconv::format_float_32;

/// The head of a manifest. A field that is absent or null is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// Whether there is a `metadata` that is not null.
    pub has_metadata: bool,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.namespace`, which Helm's `SimpleHead` does not have. Empty if it is not a scalar.
    pub namespace: String,
    /// `metadata.annotations`, ordered by key.
    pub annotations: Vec<(String, String)>,
}

impl Head {
    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let found = self.annotations.binary_search_by(|a| a.0.as_str().cmp(key)).ok()?;
        self.annotations.get(found).map(|a| a.1.as_str())
    }
}

/// Decodes a manifest's head as sigs' `Unmarshal` does into Helm's `SimpleHead`. Checks the whole first document.
///
/// # Errors
/// If the text is not valid YAML, has no JSON form, or a field of the head has the wrong type.
pub fn head(text: &[u8]) -> Result<Head, Error> {
    head_within(text, &Room::default())
}

/// The head of one of several manifests that share room.
pub(crate) fn head_within(text: &[u8], room: &Room) -> Result<Head, Error> {
    let mut sink = HeadSink::default();
    if super::read::read(text, &mut sink, false, room).map_err(Error::while_converting)?.not_finite {
        check_numbers(text).map_err(Error::while_converting)?;
    }
    sink.finish()
}

/// The error for a manifest that is not valid UTF-8: go-yaml's, or our own if go-yaml accepts it, because no API server does.
pub(crate) fn refuse_bytes(text: &[u8]) -> Error {
    match head(text) {
        Err(e) => e,
        Ok(_) => Error::shape(
            "the manifest is no UTF-8: write it so that what the template gives is text".to_owned(),
        ),
    }
}

/// Fails if a number that JSON does not support is outside the string fields of the head.
fn check_numbers(text: &[u8]) -> Result<(), Error> {
    let blank = |map: &mut Map, field: &str| {
        map.iter_mut()
            .filter(|(key, value)| is_field(key, field) && matches!(value, Data::Float(_)))
            .for_each(|(_, value)| *value = Data::Null);
    };
    let mut builder = DataBuilder::new();
    super::read::read(text, &mut builder, false, &Room::default())?;
    let mut data = builder.finish();
    if let Data::Map(top) = &mut data {
        blank(top, "apiVersion");
        blank(top, "kind");
        for (_, metadata) in top.iter_mut().filter(|(key, _)| is_field(key, "metadata")) {
            let Data::Map(metadata) = metadata else { continue };
            blank(metadata, "name");
            for (_, annotations) in metadata.iter_mut().filter(|(key, _)| is_field(key, "annotations")) {
                let Data::Map(annotations) = annotations else { continue };
                annotations.retain(|_, value| !matches!(value, Data::Float(_)));
            }
        }
    }
    super::check_finite(&data)
}

/// A value, reduced to what the head needs.
#[derive(Debug)]
enum Value {
    Null,
    /// A scalar: its text, for fields of type string, and its JSON type, for error messages.
    Text(String, &'static str),
    List,
    Map(Option<BTreeMap<String, Value>>),
}

/// The level of a container in the document. Entries of `Below` are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    Top,
    Metadata,
    Annotations,
    Below,
}

/// An open container.
#[derive(Debug)]
struct Open {
    depth: Depth,
    entries: Option<BTreeMap<String, Value>>,
    key: String,
    /// Whether the current key's value is kept.
    wanted: bool,
}

#[derive(Debug, Default)]
struct HeadSink {
    open: Vec<Open>,
    root: Option<Value>,
}

const FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];
const METADATA_FIELDS: [&str; 2] = ["name", "annotations"];
/// The type of `metadata` in Go's error messages.
const METADATA_TYPE: &str =
    r#"struct { Name string "json:\"name\""; Annotations map[string]string "json:\"annotations\"" }"#;

/// Whether Go's JSON decoder matches the key to the field, which ignores letter case.
fn is_field(key: &str, field: &str) -> bool {
    key == field
        || key.chars().count() == field.len()
            && key.chars().zip(field.chars()).all(|(k, f)| match k {
                '\u{17F}' => f == 's',
                '\u{212A}' => f == 'k',
                k => k.eq_ignore_ascii_case(&f),
            })
}

impl HeadSink {
    #[inline]
    fn scalar(&mut self, kind: &'static str, text: impl FnOnce() -> Option<String>) {
        let value = || text().map_or(Value::Null, |text| Value::Text(text, kind));
        match self.open.last_mut() {
            None => self.root = Some(value()),
            Some(open) if open.wanted => put(open, value()),
            Some(_) => {}
        }
    }

    fn begin(&mut self, map: bool) {
        let depth = match self.open.last() {
            None if map => Depth::Top,
            Some(open) if map && open.wanted => match open.depth {
                Depth::Top if is_field(&open.key, "metadata") => Depth::Metadata,
                Depth::Metadata if is_field(&open.key, "annotations") => Depth::Annotations,
                _ => Depth::Below,
            },
            _ => Depth::Below,
        };
        let entries = (depth != Depth::Below).then(BTreeMap::new);
        self.open.push(Open { depth, entries, key: String::new(), wanted: false });
    }

    fn end(&mut self, map: bool) {
        let Some(closed) = self.open.pop() else { return };
        let value = || if map { Value::Map(closed.entries) } else { Value::List };
        match self.open.last_mut() {
            None => self.root = Some(value()),
            Some(open) if open.wanted => put(open, value()),
            Some(_) => {}
        }
    }

    fn finish(self) -> Result<Head, Error> {
        let mut head = Head::default();
        let fail = |value: &str, target: &str| {
            Err(Error::unmarshal(format!("json: cannot unmarshal {value} into Go {target}")))
        };
        let top = match self.root {
            None | Some(Value::Null) => return Ok(head),
            Some(Value::Map(entries)) => entries.unwrap_or_default(),
            Some(Value::List) => return fail("array", "value of type util.SimpleHead"),
            Some(Value::Text(_, kind)) => return fail(kind, "value of type util.SimpleHead"),
        };
        // Go's decoder continues after a wrong type, but reports only the first. Keys are in JSON's order.
        for (key, value) in top {
            if is_field(&key, "metadata") {
                match value {
                    Value::Null => {
                        head.has_metadata = false;
                        head.name.clear();
                        head.namespace.clear();
                        head.annotations.clear();
                    }
                    Value::Map(entries) => {
                        head.has_metadata = true;
                        metadata(&mut head, entries.unwrap_or_default())?;
                    }
                    Value::List => {
                        return fail(
                            "array",
                            &format!("struct field SimpleHead.metadata of type {METADATA_TYPE}"),
                        );
                    }
                    Value::Text(_, kind) => {
                        return fail(
                            kind,
                            &format!("struct field SimpleHead.metadata of type {METADATA_TYPE}"),
                        );
                    }
                }
                continue;
            }
            let (field, name) = if is_field(&key, "kind") {
                (&mut head.kind, "kind")
            } else {
                (&mut head.api_version, "apiVersion")
            };
            match value {
                Value::Null => {}
                Value::Text(text, _) => *field = text,
                Value::List => {
                    return fail("array", &format!("struct field SimpleHead.{name} of type string"));
                }
                Value::Map(_) => {
                    return fail("object", &format!("struct field SimpleHead.{name} of type string"));
                }
            }
        }
        Ok(head)
    }
}

/// Sets the fields of `metadata`.
fn metadata(head: &mut Head, entries: BTreeMap<String, Value>) -> Result<(), Error> {
    let fail = |value: &str, field: &str| {
        Err(Error::unmarshal(format!("json: cannot unmarshal {value} into Go struct field {field}")))
    };
    for (key, value) in entries {
        if key == "namespace" {
            if let Value::Text(text, _) = value {
                head.namespace = text;
            }
        } else if is_field(&key, "name") {
            match value {
                Value::Null => {}
                Value::Text(text, _) => head.name = text,
                Value::List => return fail("array", ".metadata.name of type string"),
                Value::Map(_) => return fail("object", ".metadata.name of type string"),
            }
        } else {
            match value {
                Value::Null => head.annotations.clear(),
                Value::Text(_, kind) => return fail(kind, ".metadata.annotations of type map[string]string"),
                Value::List => return fail("array", ".metadata.annotations of type map[string]string"),
                Value::Map(entries) => {
                    let mut all: BTreeMap<String, String> =
                        std::mem::take(&mut head.annotations).into_iter().collect();
                    for (key, value) in entries.unwrap_or_default() {
                        match value {
                            Value::Null => all.insert(key, String::new()),
                            Value::Text(text, _) => all.insert(key, text),
                            Value::List => return fail("array", ".metadata.annotations of type string"),
                            Value::Map(_) => return fail("object", ".metadata.annotations of type string"),
                        };
                    }
                    head.annotations = all.into_iter().collect();
                }
            }
        }
    }
    Ok(())
}

fn put(open: &mut Open, value: Value) {
    if let Some(entries) = &mut open.entries {
        entries.insert(std::mem::take(&mut open.key), value);
    }
}

impl Sink for HeadSink {
    fn null(&mut self) {
        self.scalar("null", || None);
    }

    fn bool(&mut self, value: bool) {
        self.scalar("bool", || Some(value.to_string()));
    }

    fn int(&mut self, value: i64) {
        self.scalar("number", || Some(value.to_string()));
    }

    fn uint(&mut self, value: u64) {
        self.scalar("number", || Some(value.to_string()));
    }

    fn float(&mut self, value: f64) {
        self.scalar("number", || Some(format_float_32(value)));
    }

    fn string(&mut self, text: Cow<'_, str>) {
        self.scalar("string", || Some(text.into_owned()));
    }

    fn begin_list(&mut self) {
        self.begin(false);
    }

    fn end_list(&mut self) {
        self.end(false);
    }

    fn begin_map(&mut self) {
        self.begin(true);
    }

    fn key(&mut self, key: Key<'_>) {
        let Some(open) = self.open.last_mut() else { return };
        if open.depth == Depth::Below {
            return;
        }
        let text = key.into_text();
        open.wanted = match open.depth {
            Depth::Top => FIELDS.iter().any(|field| is_field(&text, field)),
            Depth::Metadata => {
                text == "namespace" || METADATA_FIELDS.iter().any(|field| is_field(&text, field))
            }
            Depth::Annotations => true,
            Depth::Below => false,
        };
        if open.wanted {
            open.key = text.into_owned();
        }
    }

    fn end_map(&mut self) {
        self.end(true);
    }
}
