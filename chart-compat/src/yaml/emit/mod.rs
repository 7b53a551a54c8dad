//! A YAML emitter with go-yaml's layout.
//!
//! Owns indentation, indicators and the line breaks between nodes; `scalar` decides the style of a scalar. Knows no value type:
//! callers push their values, with keys in the order of their choice.

mod analysis;
mod scalar;

pub(super) use analysis::Analysis;
pub(super) use scalar::{escape, stands_for_itself};

use crate::go::strconv::{Shortest, format_float};

/// The layout of an emitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// sigs' `Marshal`: go-yaml v2 after a conversion to JSON.
    Sigs,
    /// Helm's `toYamlPretty`: go-yaml v3 with an indentation of 2.
    Pretty,
}

/// The styles in which go-yaml v3 can write a string.
pub(super) fn analyze_pretty(text: &str) -> Analysis {
    analysis::analyze(text, Layout::Pretty)
}

/// The reason why a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// A number that JSON does not support: its name in Go.
    #[error("error marshaling into JSON: json: unsupported value: {0}")]
    Number(&'static str),
    /// A string that the conversion through JSON changes. Encode the value as JSON and convert that with `json_to_yaml`.
    #[error("a text changes on its way through JSON")]
    Detour,
}

/// Writes a document into a string.
///
/// Call the methods in the order of the document. In a map, call `key` before each value, with keys sorted by `compare_keys`
/// (`compare_keys_pretty` for the pretty layout). `finish` ends the document.
pub struct Emitter<'o> {
    out: &'o mut String,
    layout: Layout,
    levels: Vec<Level>,
    indent: i32,
    column: i32,
    /// Whether the last character was white space, or the document is empty.
    whitespace: bool,
    /// Whether the line contains only indentation and indicators that count as indentation.
    indention: bool,
    error: Option<EmitError>,
    /// Whether strings that the conversion through JSON would change are written unchanged.
    verbatim: bool,
    /// Whether each string is in double quotes or a literal block.
    quotes: bool,
}

/// An open container.
struct Level {
    list: bool,
    /// Whether it is the value of a map entry.
    in_map: bool,
    started: bool,
    /// The indentation of the enclosing container.
    outer: i32,
}

/// The position of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Value,
    /// A key followed by `:` on the same line.
    SimpleKey,
}

impl<'o> Emitter<'o> {
    /// An emitter with the layout of sigs' `Marshal`, which is Helm's `toYaml`.
    pub fn new(out: &'o mut String) -> Self {
        Self::with_layout(out, Layout::Sigs)
    }

    /// An emitter with the layout of Helm's `toYamlPretty`.
    pub fn pretty(out: &'o mut String) -> Self {
        Self::with_layout(out, Layout::Pretty)
    }

    /// An emitter with the layout of go-cty-yaml: sigs', with each string in double quotes or, with line breaks, as a literal block.
    pub fn quoted(out: &'o mut String) -> Self {
        Self { verbatim: true, quotes: true, ..Self::with_layout(out, Layout::Sigs) }
    }

    /// An emitter for values that were already converted through JSON.
    pub(super) fn verbatim(out: &'o mut String) -> Self {
        Self { verbatim: true, ..Self::with_layout(out, Layout::Sigs) }
    }

    fn with_layout(out: &'o mut String, layout: Layout) -> Self {
        Self {
            out,
            layout,
            levels: Vec::with_capacity(16),
            indent: -1,
            column: 0,
            whitespace: true,
            indention: true,
            error: None,
            verbatim: layout == Layout::Pretty,
            quotes: false,
        }
    }

    /// Ends the document.
    ///
    /// # Errors
    /// If a value has no YAML representation, or the conversion through JSON changes it. The output is then invalid.
    pub fn finish(mut self) -> Result<(), EmitError> {
        self.write_indent(0);
        self.error.map_or(Ok(()), Err)
    }

    /// Starts a list.
    pub fn begin_list(&mut self) {
        self.begin(true);
    }

    /// Ends the innermost list.
    pub fn end_list(&mut self) {
        self.end("[]");
    }

    /// Starts a map.
    pub fn begin_map(&mut self) {
        self.begin(false);
    }

    /// Ends the innermost map.
    pub fn end_map(&mut self) {
        self.end("{}");
    }

    /// Writes the key of the next value.
    pub fn key(&mut self, key: &str) {
        self.start();
        self.write_indent(self.indent);
        self.scalar_key(key);
    }

    /// Writes the key of the next value unquoted: a number, boolean or null.
    pub fn plain_key(&mut self, text: &str) {
        self.start();
        self.write_indent(self.indent);
        self.write_plain(text);
        self.write_indicator(":", false, false);
    }

    /// Writes a null.
    pub fn null(&mut self) {
        self.plain("null");
    }

    /// Writes a boolean.
    pub fn bool(&mut self, value: bool) {
        self.plain(if value { "true" } else { "false" });
    }

    /// Writes an integer.
    pub fn int(&mut self, value: i64) {
        self.before_value();
        self.write_plain(&value.to_string());
    }

    /// Writes an integer beyond `i64`.
    pub fn uint(&mut self, value: u64) {
        self.before_value();
        self.write_plain(&value.to_string());
    }

    /// Writes a floating-point number. A whole number is written as an integer, as JSON does, except by `pretty`.
    pub fn float(&mut self, value: f64) {
        self.before_value();
        let text = match self.layout {
            Layout::Pretty => match format_float(value).as_str() {
                "NaN" => ".nan".to_owned(),
                "+Inf" => ".inf".to_owned(),
                "-Inf" => "-.inf".to_owned(),
                number => number.to_owned(),
            },
            Layout::Sigs if !value.is_finite() => {
                let name = if value.is_nan() {
                    "NaN"
                } else if value > 0.0 {
                    "+Inf"
                } else {
                    "-Inf"
                };
                self.error.get_or_insert(EmitError::Number(name));
                String::new()
            }
            Layout::Sigs => number_through_json(value),
        };
        self.write_plain(&text);
    }

    /// Writes a date and time, in RFC 3339.
    pub fn timestamp(&mut self, text: &str) {
        self.plain(text);
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.before_value();
        self.scalar(text, Role::Value);
    }

    /// Writes a string that may not be valid UTF-8: sigs' `Marshal` replaces invalid bytes, `toYamlPretty` writes base64.
    pub fn bytes(&mut self, text: &[u8]) {
        match (std::str::from_utf8(text), self.layout) {
            (Ok(text), _) => self.string(text),
            (Err(_), Layout::Sigs) => self.string(&crate::json::replace_invalid(text)),
            (Err(_), Layout::Pretty) => {
                self.before_value();
                self.binary(text);
            }
        }
    }

    /// Writes a scalar that is known to be plain.
    pub fn plain(&mut self, text: &str) {
        self.before_value();
        self.write_plain(text);
    }

    fn begin(&mut self, list: bool) {
        let in_map = self.levels.last().is_some_and(|level| !level.list);
        self.before_value();
        self.levels.push(Level { list, in_map, started: false, outer: self.indent });
    }

    fn end(&mut self, empty: &str) {
        if let Some(level) = self.levels.pop() {
            self.indent = level.outer;
            if !level.started {
                self.write_indicator(empty, true, false);
            }
        }
    }

    /// Prepares the first entry of the innermost container.
    fn start(&mut self) {
        let Some(level) = self.levels.last_mut() else { return };
        if level.started {
            return;
        }
        level.started = true;
        // v2 does not indent a list in a map, unless the list starts on a new line.
        let flush = level.list && level.in_map && !self.indention && self.layout == Layout::Sigs;
        self.indent = match self.indent {
            ..0 => 0,
            same if flush => same,
            outer => outer + 2,
        };
    }

    /// Writes the dash of a list item, if the value is one.
    #[inline]
    fn before_value(&mut self) {
        if self.levels.last().is_some_and(|level| level.list) {
            self.start();
            self.write_indent(self.indent);
            self.write_indicator("-", true, true);
        }
    }

    /// The indentation of the continuation lines of a scalar.
    fn scalar_indent(&self) -> i32 {
        if self.indent < 0 { 2 } else { self.indent + 2 }
    }

    /// Starts a new indented line, unless the current line is empty.
    fn write_indent(&mut self, indent: i32) {
        let indent = indent.max(0);
        if !self.indention || self.column > indent || self.column == indent && !self.whitespace {
            self.put_break();
        }
        const SPACES: &str = "                                                                ";
        while self.column < indent {
            let width = usize::try_from(indent - self.column).unwrap_or(0).min(SPACES.len());
            self.out.push_str(SPACES.get(..width).unwrap_or_default());
            self.column += i32::try_from(width).unwrap_or(0);
        }
        self.whitespace = true;
        if self.layout == Layout::Sigs {
            self.indention = true;
        }
    }

    fn put_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
        if self.layout == Layout::Pretty {
            self.indention = true;
        }
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    #[inline]
    fn write_indicator(&mut self, indicator: &str, need_whitespace: bool, indention: bool) {
        if need_whitespace && !self.whitespace {
            self.put(' ');
        }
        self.out.push_str(indicator);
        self.column += i32::try_from(indicator.len()).unwrap_or(0);
        self.whitespace = false;
        self.indention &= indention;
    }
}

/// A finite number after the conversion through JSON: go-yaml reads whole numbers as integers.
fn number_through_json(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if value.fract() == 0.0 && size < 1e21 {
        let mut text = String::new();
        Shortest::of(value).write_decimal(&mut text);
        if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
            return text;
        }
    }
    format_float(value)
}
