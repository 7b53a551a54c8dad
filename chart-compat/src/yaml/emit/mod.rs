//! Writing YAML as go-yaml lays it out, one value after the other.
//!
//! Owns indentation, indicators and the place of every line break between nodes; how a scalar looks is decided in
//! `scalar`. It knows no value type: callers push their values, keys in the order they want.

mod analysis;
mod scalar;

pub(super) use analysis::Analysis;
pub(super) use scalar::{escape, stands_for_itself};

use crate::go::strconv::{Shortest, format_float};

/// Which emitter's layout is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// go-yaml v2 after a detour through JSON, which is sigs' `Marshal`.
    Sigs,
    /// go-yaml v3 with an indentation of 2, which is Helm's `toYamlPretty`.
    Pretty,
}

/// In which styles go-yaml v3 can write a text.
pub(super) fn analyze_pretty(text: &str) -> Analysis {
    analysis::analyze(text, Layout::Pretty)
}

/// Why a value could not be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// A number that JSON cannot hold: its name in Go.
    #[error("error marshaling into JSON: json: unsupported value: {0}")]
    Number(&'static str),
    /// A text that does not survive the detour through JSON unchanged: write the value as JSON, and that with
    /// `json_to_yaml`.
    #[error("a text changes on its way through JSON")]
    Detour,
}

/// Writes a document into a string.
///
/// Begin and end containers, and push scalars, in the order of the document; in a map, `key` before each value, with
/// keys sorted by `compare_keys` (`compare_keys_pretty` for the pretty layout). `finish` ends the document.
pub struct Emitter<'o> {
    out: &'o mut String,
    layout: Layout,
    levels: Vec<Level>,
    indent: i32,
    column: i32,
    /// Whether the last character was white space, or began the document.
    whitespace: bool,
    /// Whether the line holds nothing but indentation and indicators that count as such.
    indention: bool,
    error: Option<EmitError>,
    /// Whether texts that would change on the detour through JSON are written as they are.
    verbatim: bool,
}

/// A container that is open.
struct Level {
    list: bool,
    /// Whether it is a map's value.
    in_map: bool,
    started: bool,
    /// The indentation around it.
    outer: i32,
}

/// Where a scalar stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Value,
    /// A key that is followed by `:` on its line.
    SimpleKey,
}

impl<'o> Emitter<'o> {
    /// Writes as sigs' `Marshal` does, which is Helm's `toYaml`.
    pub fn new(out: &'o mut String) -> Self {
        Self::with_layout(out, Layout::Sigs)
    }

    /// Writes as Helm's `toYamlPretty` does.
    pub fn pretty(out: &'o mut String) -> Self {
        Self::with_layout(out, Layout::Pretty)
    }

    /// Writes what came back from a detour through JSON.
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
        }
    }

    /// Ends the document.
    ///
    /// # Errors
    /// If a value has no YAML form, or only one that the detour through JSON finds; the output is then worth nothing.
    pub fn finish(mut self) -> Result<(), EmitError> {
        self.write_indent(0);
        self.error.map_or(Ok(()), Err)
    }

    /// A list starts.
    pub fn begin_list(&mut self) {
        self.begin(true);
    }

    /// The innermost list ends.
    pub fn end_list(&mut self) {
        self.end("[]");
    }

    /// A map starts.
    pub fn begin_map(&mut self) {
        self.begin(false);
    }

    /// The innermost map ends.
    pub fn end_map(&mut self) {
        self.end("{}");
    }

    /// The key of the next value.
    pub fn key(&mut self, key: &str) {
        self.start();
        self.write_indent(self.indent);
        self.scalar_key(key);
    }

    /// A null.
    pub fn null(&mut self) {
        self.plain("null");
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.plain(if value { "true" } else { "false" });
    }

    /// An integer.
    pub fn int(&mut self, value: i64) {
        self.before_value();
        self.write_plain(&value.to_string());
    }

    /// An integer beyond `i64`.
    pub fn uint(&mut self, value: u64) {
        self.before_value();
        self.write_plain(&value.to_string());
    }

    /// A floating-point number. A whole one is written as the integer that JSON makes of it, except by `pretty`.
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

    /// A text.
    pub fn string(&mut self, text: &str) {
        self.before_value();
        self.scalar(text, Role::Value);
    }

    /// A text that may not be UTF-8: sigs' `Marshal` replaces what is none, `toYamlPretty` writes it as base64.
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

    fn plain(&mut self, text: &str) {
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

    /// Puts the innermost container's first entry on its way.
    fn start(&mut self) {
        let Some(level) = self.levels.last_mut() else { return };
        if level.started {
            return;
        }
        level.started = true;
        // v2 leaves a list where its key is, unless the list starts on a line of its own.
        let flush = level.list && level.in_map && !self.indention && self.layout == Layout::Sigs;
        self.indent = match self.indent {
            ..0 => 0,
            same if flush => same,
            outer => outer + 2,
        };
    }

    /// Writes what stands before a value: in a list its dash.
    #[inline]
    fn before_value(&mut self) {
        if self.levels.last().is_some_and(|level| level.list) {
            self.start();
            self.write_indent(self.indent);
            self.write_indicator("-", true, true);
        }
    }

    /// The indentation of a scalar's further lines.
    fn scalar_indent(&self) -> i32 {
        if self.indent < 0 { 2 } else { self.indent + 2 }
    }

    /// Begins a line at the indentation, unless this one has nothing on it.
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

/// A finite number as it comes back from JSON: go-yaml reads whole numbers as integers.
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
