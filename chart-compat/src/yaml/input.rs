//! From bytes to the characters that go-yaml's reader accepts.
//!
//! Owns encodings, the check for invalid characters, and the point at which one is reported. Knows no YAML.
//!
//! go-yaml decodes its input in pieces of 512 bytes while it scans, and reports an invalid character when it decodes the piece
//! that contains it. So the text before that piece is scanned first, and its errors take precedence.

use std::borrow::Cow;

/// The size of go-yaml's read buffer, in bytes.
const PIECE: usize = 512;

/// The text to scan, up to the piece that contains the first invalid character.
pub(super) struct Input<'a> {
    /// The text to scan.
    pub(super) text: Cow<'a, str>,
    /// The error of the piece after `text`, if any.
    pub(super) bad: Option<&'static str>,
    /// Whether the text contains line breaks other than line feeds.
    pub(super) odd_breaks: bool,
}

impl<'a> Input<'a> {
    /// Strips the byte order mark, decodes, and searches for the first character that YAML does not allow.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xFF, 0xFE, rest @ ..] => Self::utf16(rest, u16::from_le_bytes),
            [0xFE, 0xFF, rest @ ..] => Self::utf16(rest, u16::from_be_bytes),
            [0xEF, 0xBB, 0xBF, ..] => Self::utf8(bytes, 3),
            _ => Self::utf8(bytes, 0),
        }
    }

    fn utf8(bytes: &'a [u8], start: usize) -> Self {
        let body = bytes.get(start..).unwrap_or_default();
        let (valid, mut bad) = match std::str::from_utf8(body) {
            Ok(text) => (text, None),
            Err(error) => {
                let (good, rest) = body.split_at(error.valid_up_to());
                (std::str::from_utf8(good).unwrap_or_default(), Some(utf8_problem(rest)))
            }
        };
        let mut end = valid.len();
        if let Some(at) = first_control(valid) {
            (bad, end) = (Some("control characters are not allowed"), at);
        }
        if bad.is_some() {
            end = piece_start(bytes, start, start + end) - start;
        }
        let text = valid.get(..end).unwrap_or_default();
        Self { text: Cow::Borrowed(text), bad, odd_breaks: has_odd_breaks(text) }
    }

    fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Self {
        let mut text = String::with_capacity(bytes.len());
        let mut bad = None;
        let (pairs, odd) = bytes.as_chunks::<2>();
        let mut units = pairs.iter().map(|pair| unit(*pair));
        while let Some(high) = units.next() {
            let c = match high {
                0xDC00..=0xDFFF => Err("unexpected low surrogate area"),
                0xD800..=0xDBFF => match units.next() {
                    None => Err("incomplete UTF-16 surrogate pair"),
                    Some(low @ 0xDC00..=0xDFFF) => {
                        Ok(0x1_0000 + ((u32::from(high) & 0x3FF) << 10) + (u32::from(low) & 0x3FF))
                    }
                    Some(_) => Err("expected low surrogate area"),
                },
                other => Ok(u32::from(other)),
            };
            match c.map(char::from_u32) {
                Ok(Some(c)) if !is_control(c) => text.push(c),
                Ok(_) => bad = Some("control characters are not allowed"),
                Err(problem) => bad = Some(problem),
            }
            if bad.is_some() {
                break;
            }
        }
        if bad.is_none() && !odd.is_empty() {
            bad = Some("incomplete UTF-16 character");
        }
        let odd_breaks = has_odd_breaks(&text);
        Self { text: Cow::Owned(text), bad, odd_breaks }
    }
}

/// go-yaml's message for the bytes where UTF-8 becomes invalid.
fn utf8_problem(rest: &[u8]) -> &'static str {
    let (Some(width), Some(&lead)) = (width(rest), rest.first()) else {
        return "invalid leading UTF-8 octet";
    };
    let Some(tail) = rest.get(1..width) else {
        return "incomplete UTF-8 octet sequence";
    };
    if tail.iter().any(|b| b & 0xC0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    match (lead, tail.first()) {
        (0xC0 | 0xC1, _) | (0xE0, Some(0x80..=0x9F)) | (0xF0, Some(0x80..=0x8F)) => {
            "invalid length of a UTF-8 sequence"
        }
        _ => "invalid Unicode character",
    }
}

/// The length of a UTF-8 sequence according to its first byte.
fn width(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        0..=0x7F => Some(1),
        0xC0..=0xDF => Some(2),
        0xE0..=0xEF => Some(3),
        0xF0..=0xF7 => Some(4),
        _ => None,
    }
}

/// The start of the piece in which go-yaml finds the invalid character at `bad`.
fn piece_start(bytes: &[u8], start: usize, bad: usize) -> usize {
    let (mut from, mut end) = (start, PIECE);
    loop {
        let last = end.min(bytes.len());
        // A character that crosses the end of a piece belongs to the next piece.
        let cut = if bad < last { bad } else { last_character(bytes, last) };
        let whole = width(bytes.get(cut..).unwrap_or_default()).is_none_or(|w| cut + w <= last);
        match (bad < last, whole) {
            (true, true) => return from,
            (false, true) => from = last,
            (_, false) if cut == from || last == bytes.len() => return cut,
            (_, false) => from = cut,
        }
        end = from + PIECE;
    }
}

/// The start of the last character before `end`.
fn last_character(bytes: &[u8], end: usize) -> usize {
    let tail = bytes.get(..end).unwrap_or_default();
    tail.iter().rposition(|b| b & 0xC0 != 0x80).unwrap_or(end)
}

/// Whether go-yaml's reader rejects the character.
fn is_control(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// The position of the first character that go-yaml's reader rejects.
fn first_control(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut from = 0;
    for block in bytes.chunks(64) {
        // The compiler vectorizes this; only a suspicious block is checked by character.
        let suspicious = block
            .iter()
            .fold(0_u8, |acc, &b| acc | u8::from(b < 0x20 && b != b'\n') | u8::from(b == 0x7F) | (b & 0x80));
        if suspicious != 0 {
            let mut at = from;
            while at > 0 && !text.is_char_boundary(at) {
                at -= 1;
            }
            let tail = text.get(at..).unwrap_or_default();
            let end = from + block.len();
            for (i, c) in tail.char_indices() {
                if at + i >= end {
                    break;
                }
                if is_control(c) {
                    return Some(at + i);
                }
            }
        }
        from += block.len();
    }
    None
}

/// Whether the text contains a carriage return or a Unicode line break.
fn has_odd_breaks(text: &str) -> bool {
    let bytes = text.as_bytes();
    if memchr::memchr(b'\r', bytes).is_some() {
        return true;
    }
    !bytes.is_ascii()
        && memchr::memchr2_iter(0xC2, 0xE2, bytes)
            .any(|i| matches!(bytes.get(i..), Some([0xC2, 0x85, ..] | [0xE2, 0x80, 0xA8 | 0xA9, ..])))
}
