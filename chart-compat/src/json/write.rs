//! The JSON encoder.

use std::fmt::Write;

use crate::go::strconv::format_json_float;

/// A number that JSON does not support, by its name in Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: unsupported value: {0}")]
pub struct Unsupported(pub &'static str);

/// Writes JSON to a string. Call the methods in the order of the document; in a map, call `key` before each value. Go sorts keys
/// by their bytes; the caller passes them in that order.
pub struct Writer<'o> {
    out: &'o mut String,
    html: bool,
    indent: bool,
    /// For each open container, whether it has an entry.
    open: Vec<bool>,
    after_key: bool,
}

/// A byte that a string must escape.
const ESCAPE: u8 = 1;
/// A byte that only HTML must escape.
const HTML: u8 = 2;
/// The first byte of U+2028 and U+2029, which are line breaks in JavaScript but not in JSON.
const SEPARATOR: u8 = 4;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = ESCAPE;
        i += 1;
    }
    table[b'"' as usize] = ESCAPE;
    table[b'\\' as usize] = ESCAPE;
    table[b'<' as usize] = HTML;
    table[b'>' as usize] = HTML;
    table[b'&' as usize] = HTML;
    table[0xE2] = SEPARATOR;
    table
}

impl<'o> Writer<'o> {
    /// An encoder like `json.Marshal`.
    pub fn new(out: &'o mut String) -> Self {
        Self { out, html: true, indent: false, open: Vec::new(), after_key: false }
    }

    /// Disables HTML escapes.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.html = false;
        self
    }

    /// Enables an indentation of two spaces.
    #[must_use]
    pub fn indented(mut self) -> Self {
        self.indent = true;
        self
    }

    /// Writes a null.
    pub fn null(&mut self) {
        self.before_value();
        self.out.push_str("null");
    }

    /// Writes a boolean.
    pub fn bool(&mut self, value: bool) {
        self.before_value();
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// Writes an integer.
    pub fn int(&mut self, value: i64) {
        self.before_value();
        self.display(value);
    }

    /// Writes an integer beyond `i64`.
    pub fn uint(&mut self, value: u64) {
        self.before_value();
        self.display(value);
    }

    /// Writes a floating-point number.
    ///
    /// # Errors
    /// If the number is infinite or NaN.
    pub fn float(&mut self, value: f64) -> Result<(), Unsupported> {
        self.before_value();
        match value {
            v if v.is_finite() => format_json_float(v, self.out),
            v if v.is_nan() => return Err(Unsupported("NaN")),
            v if v > 0.0 => return Err(Unsupported("+Inf")),
            _ => return Err(Unsupported("-Inf")),
        }
        Ok(())
    }

    /// Writes a string.
    pub fn string(&mut self, text: &str) {
        self.before_value();
        self.quoted(text);
    }

    /// Writes a string that may not be valid UTF-8. Each invalid byte becomes an escaped U+FFFD, as in Go.
    pub fn bytes(&mut self, text: &[u8]) {
        self.before_value();
        self.out.push('"');
        for chunk in text.utf8_chunks() {
            self.escaped(chunk.valid());
            for _ in chunk.invalid() {
                self.out.push_str("\\ufffd");
            }
        }
        self.out.push('"');
    }

    /// Starts a list.
    pub fn begin_list(&mut self) {
        self.begin('[');
    }

    /// Ends the innermost list.
    pub fn end_list(&mut self) {
        self.end(']');
    }

    /// Starts a map.
    pub fn begin_map(&mut self) {
        self.begin('{');
    }

    /// Ends the innermost map.
    pub fn end_map(&mut self) {
        self.end('}');
    }

    /// Writes the key of the next value.
    pub fn key(&mut self, key: &str) {
        self.before_entry();
        self.quoted(key);
        self.out.push(':');
        if self.indent {
            self.out.push(' ');
        }
        self.after_key = true;
    }

    fn begin(&mut self, bracket: char) {
        self.before_value();
        self.out.push(bracket);
        self.open.push(false);
    }

    fn end(&mut self, bracket: char) {
        if self.open.pop() == Some(true) {
            self.new_line();
        }
        self.out.push(bracket);
    }

    fn before_value(&mut self) {
        if self.after_key {
            self.after_key = false;
        } else {
            self.before_entry();
        }
    }

    fn before_entry(&mut self) {
        let Some(filled) = self.open.last_mut() else { return };
        if *filled {
            self.out.push(',');
        }
        *filled = true;
        self.new_line();
    }

    fn new_line(&mut self) {
        if self.indent {
            self.out.push('\n');
            for _ in 0..self.open.len() {
                self.out.push_str("  ");
            }
        }
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let written = write!(self.out, "{value}");
        debug_assert!(written.is_ok());
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        self.escaped(text);
        self.out.push('"');
    }

    fn escaped(&mut self, text: &str) {
        let stops = if self.html { ESCAPE | HTML | SEPARATOR } else { ESCAPE | SEPARATOR };
        let bytes = text.as_bytes();
        let mut from = 0;
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if CLASS[byte as usize] & stops == 0 {
                at += 1;
                continue;
            }
            let (width, escape) = match byte {
                b'"' => (1, "\\\""),
                b'\\' => (1, "\\\\"),
                b'\x08' => (1, "\\b"),
                b'\x0C' => (1, "\\f"),
                b'\n' => (1, "\\n"),
                b'\r' => (1, "\\r"),
                b'\t' => (1, "\\t"),
                b'<' => (1, "\\u003c"),
                b'>' => (1, "\\u003e"),
                b'&' => (1, "\\u0026"),
                0xE2 => match bytes.get(at + 1..at + 3) {
                    Some([0x80, 0xA8]) => (3, "\\u2028"),
                    Some([0x80, 0xA9]) => (3, "\\u2029"),
                    _ => {
                        at += 1;
                        continue;
                    }
                },
                _ => (1, ""),
            };
            self.out.push_str(text.get(from..at).unwrap_or_default());
            self.out.push_str(escape);
            if escape.is_empty() {
                self.display(format_args!("\\u{byte:04x}"));
            }
            at += width;
            from = at;
        }
        self.out.push_str(text.get(from..).unwrap_or_default());
    }
}
