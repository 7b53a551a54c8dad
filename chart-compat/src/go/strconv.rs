//! Numbers and quoted text as Go's `strconv` parses and formats them.
//!
//! Owns conversions between text and numbers, and Go's quoting. Knows no format that contains them.

mod float;
mod int;
mod quote;

pub use float::format_float;
pub(crate) use float::{Shortest, format_float_32, format_json_float, parse_float};
pub(crate) use int::{parse_int, parse_uint};
pub use quote::quote;
pub(crate) use quote::{can_backquote, quote_byte, quote_rune, quote_to_ascii};

/// A number parse error (Go's `strconv.ErrSyntax` and `strconv.ErrRange`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NumError {
    /// The text is not a number.
    #[error("invalid syntax")]
    Syntax,
    /// The number does not fit the type.
    #[error("value out of range")]
    Range,
}

/// A boolean (`strconv.ParseBool`); `None` for another text.
#[must_use]
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

/// Whether each underscore is between digits, or between a base prefix and a digit, as Go's literals require.
fn underscores_ok(text: &[u8]) -> bool {
    let body = match text {
        [b'+' | b'-', rest @ ..] => rest,
        all => all,
    };
    let (mut last, digits, hex) = match body {
        [b'0', b'b' | b'B' | b'o' | b'O', rest @ ..] => (b'0', rest, false),
        [b'0', b'x' | b'X', rest @ ..] => (b'0', rest, true),
        all => (b'^', all, false),
    };
    for &b in digits {
        let class = match b {
            b'0'..=b'9' => b'0',
            b'a'..=b'f' | b'A'..=b'F' if hex => b'0',
            b'_' if last == b'0' => b'_',
            b'_' => return false,
            _ if last == b'_' => return false,
            _ => b'!',
        };
        last = class;
    }
    last != b'_'
}

#[cfg(test)]
mod tests;
