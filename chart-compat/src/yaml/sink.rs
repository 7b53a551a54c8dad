//! The receiver of a document's values.
//!
//! Owns the trait and the sink that builds a `Data` tree. Knows nothing of text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::data::Data;
use crate::go::strconv::{format_float_32, quote};

/// Receives a document's values in the order of the text, to build any kind of tree, or none.
///
/// A map can receive a key several times, because of duplicates or merges: the last value wins. If reading fails, the received
/// values are meaningless.
pub trait Sink {
    /// Whether it keeps all values, which take memory then.
    const KEEPS: bool = false;

    /// A null.
    fn null(&mut self);
    /// A boolean.
    fn bool(&mut self, value: bool);
    /// An integer.
    fn int(&mut self, value: i64);
    /// An integer beyond `i64`.
    fn uint(&mut self, value: u64);
    /// A floating-point number. One that JSON does not support is an error at the end of the document.
    fn float(&mut self, value: f64);
    /// A string.
    fn string(&mut self, text: Cow<'_, str>);
    /// A sequence starts.
    fn begin_list(&mut self);
    /// The innermost sequence ends.
    fn end_list(&mut self);
    /// A mapping starts.
    fn begin_map(&mut self);
    /// The key of the next value.
    fn key(&mut self, key: Key<'_>);
    /// The innermost mapping ends.
    fn end_map(&mut self);
}

/// The key of a mapping. YAML allows more than strings.
#[derive(Clone, Debug, PartialEq)]
pub enum Key<'k> {
    /// A string.
    Str(Cow<'k, str>),
    /// An integer.
    Int(i64),
    /// An integer beyond `i64`: an error at the end of the document.
    Uint(u64),
    /// A floating-point number.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A null: an error at the end of the document.
    Null,
}

impl<'k> Key<'k> {
    /// The key as sigs' conversion to JSON prints it.
    #[must_use]
    pub fn into_text(self) -> Cow<'k, str> {
        match self {
            Self::Str(text) => text,
            Self::Int(value) => Cow::Owned(value.to_string()),
            Self::Uint(value) => Cow::Owned(value.to_string()),
            Self::Float(value) => Cow::Owned(match format_float_32(value).as_str() {
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                "NaN" => ".nan".to_owned(),
                number => number.to_owned(),
            }),
            Self::Bool(true) => Cow::Borrowed("true"),
            Self::Bool(false) => Cow::Borrowed("false"),
            Self::Null => Cow::Borrowed("null"),
        }
    }

    /// The key as Go's `%#v` prints it.
    pub(super) fn go_syntax(&self) -> String {
        match self {
            Self::Str(text) => quote(text.as_bytes()),
            Self::Int(value) => value.to_string(),
            Self::Uint(value) => format!("0x{value:x}"),
            Self::Float(value) => crate::go::strconv::format_float(*value),
            Self::Bool(value) => value.to_string(),
            Self::Null => "interface {}(nil)".to_owned(),
        }
    }
}

/// Builds a `Data` tree.
#[derive(Debug, Default)]
pub struct DataBuilder {
    root: Data,
    open: Vec<Open>,
    floats: bool,
}

/// An open container.
#[derive(Debug)]
enum Open {
    List(Vec<Data>),
    Map(BTreeMap<String, Data>, Option<String>),
}

impl DataBuilder {
    /// A builder that keeps integers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A builder that converts every number to a float, as Go's `json.Unmarshal` into `interface{}` does.
    #[must_use]
    pub fn with_float_numbers() -> Self {
        Self { floats: true, ..Self::default() }
    }

    /// The finished tree; null if nothing was read.
    #[must_use]
    pub fn finish(self) -> Data {
        self.root
    }

    fn put(&mut self, value: Data) {
        match self.open.last_mut() {
            Some(Open::List(list)) => list.push(value),
            Some(Open::Map(map, key)) => {
                if let Some(key) = key.take() {
                    map.insert(key, value);
                }
            }
            None => self.root = value,
        }
    }

    fn close(&mut self) {
        let value = match self.open.pop() {
            Some(Open::List(list)) => Data::List(list),
            Some(Open::Map(map, _)) => Data::Map(map.into()),
            None => return,
        };
        self.put(value);
    }
}

#[allow(clippy::cast_precision_loss)]
impl Sink for DataBuilder {
    const KEEPS: bool = true;

    fn null(&mut self) {
        self.put(Data::Null);
    }

    fn bool(&mut self, value: bool) {
        self.put(Data::Bool(value));
    }

    fn int(&mut self, value: i64) {
        self.put(if self.floats { Data::Float(value as f64) } else { Data::Int(value) });
    }

    fn uint(&mut self, value: u64) {
        self.put(Data::Float(value as f64));
    }

    fn float(&mut self, value: f64) {
        self.put(Data::Float(value));
    }

    fn string(&mut self, text: Cow<'_, str>) {
        self.put(Data::String(text.into_owned()));
    }

    fn begin_list(&mut self) {
        self.open.push(Open::List(Vec::new()));
    }

    fn end_list(&mut self) {
        self.close();
    }

    fn begin_map(&mut self) {
        self.open.push(Open::Map(BTreeMap::new(), None));
    }

    fn key(&mut self, key: Key<'_>) {
        if let Some(Open::Map(_, pending)) = self.open.last_mut() {
            *pending = Some(key.into_text().into_owned());
        }
    }

    fn end_map(&mut self) {
        self.close();
    }
}
