//! Quoted strings.

use std::fmt::Write;

use crate::go::unicode::is_print;

/// Go's `strconv.Quote`, which is also `fmt`'s `%q`: printable characters stay, invalid bytes become `\xNN`.
#[must_use]
pub fn quote(text: &[u8]) -> String {
    quoted(text, is_print)
}

/// Go's `strconv.QuoteToASCII`, which is also `fmt`'s `%+q`: only printable ASCII stays.
#[must_use]
pub(crate) fn quote_to_ascii(text: &[u8]) -> String {
    quoted(text, |c| c.is_ascii() && is_print(c))
}

/// Go's `strconv.QuoteRune`, which is also `fmt`'s `%q` of a rune: in single quotes.
#[must_use]
pub(crate) fn quote_rune(c: char) -> String {
    match c {
        '\'' => r"'\''".to_owned(),
        '"' => "'\"'".to_owned(),
        other => {
            let quoted = quote(other.to_string().as_bytes());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

/// The quoting of one byte in error texts of `encoding/json`: as a Latin-1 character in single quotes.
#[must_use]
pub(crate) fn quote_byte(byte: u8) -> String {
    quote_rune(char::from(byte))
}

/// Go's `strconv.CanBackquote`: whether a text can be written between backquotes.
#[must_use]
pub(crate) fn can_backquote(text: &str) -> bool {
    !text.chars().any(|c| c == '\u{feff}' || c == '`' || c == '\x7f' || c < ' ' && c != '\t')
}

fn quoted(text: &[u8], plain: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if plain(c) => out.push(c),
                '\x07' => out.push_str("\\a"),
                '\x08' => out.push_str("\\b"),
                '\x0C' => out.push_str("\\f"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\x0B' => out.push_str("\\v"),
                c => escape(u32::from(c), &mut out),
            }
        }
        for byte in chunk.invalid() {
            hex(&mut out, 'x', u32::from(*byte), 2);
        }
    }
    out.push('"');
    out
}

fn escape(code: u32, out: &mut String) {
    match code {
        0..0x20 | 0x7F => hex(out, 'x', code, 2),
        0x80..=0xFFFF => hex(out, 'u', code, 4),
        _ => hex(out, 'U', code, 8),
    }
}

fn hex(out: &mut String, kind: char, code: u32, width: usize) {
    // Writing to a string cannot fail.
    let written = write!(out, "\\{kind}{code:0width$x}");
    debug_assert!(written.is_ok());
}
