//! Collections in flow form that stand on one line.
//!
//! Owns lists and maps of quoted texts and words; knows neither lines nor columns. What is harder is left to the reader.

use super::taker::Take;
use super::{Kind, MAX_KEY, closing, spaces};

/// How deep they may nest.
const MAX_DEPTH: usize = 8;

/// Takes the collection that a text starts with; gives what follows it.
pub(super) fn value<'t, T: Take>(text: &'t str, take: &mut T) -> Option<&'t str> {
    item(text, take, 0)
}

fn item<'t, T: Take>(text: &'t str, take: &mut T, depth: usize) -> Option<&'t str> {
    if depth > MAX_DEPTH {
        return None;
    }
    match *text.as_bytes().first()? {
        b'[' => collection(text, take, Kind::Seq, depth),
        b'{' => collection(text, take, Kind::Map, depth),
        b'"' | b'\'' => {
            let (quote, own, rest) = quoted(text)?;
            take.quoted(quote, own);
            Some(rest)
        }
        _ => {
            let (own, rest) = word(text)?;
            take.plain(own)?;
            Some(rest)
        }
    }
}

fn collection<'t, T: Take>(text: &'t str, take: &mut T, kind: Kind, depth: usize) -> Option<&'t str> {
    let end = if kind == Kind::Seq { ']' } else { '}' };
    take.begin(kind);
    let mut rest = skipped(&text[1..]);
    if let Some(after) = rest.strip_prefix(end) {
        take.end(kind);
        return Some(after);
    }
    loop {
        if kind == Kind::Map {
            let (key, is_quoted, after) = match rest.as_bytes().first()? {
                b'"' | b'\'' => quoted(rest).map(|(_, own, after)| (own, true, after))?,
                _ => word(rest).map(|(own, after)| (own, false, after))?,
            };
            if !is_quoted
                && (key.eq_ignore_ascii_case("null") || !key.starts_with(|c: char| c.is_ascii_alphabetic()))
            {
                return None;
            }
            // Quotes and escapes in keys are rare.
            let odd = key.len() > MAX_KEY || key.contains(['\'', '\\']) || key == "<<";
            take.key(key, is_quoted).filter(|()| !odd)?;
            // Right behind a quote the colon needs no space, as in JSON.
            rest = skipped(after.strip_prefix(if is_quoted { ":" } else { ": " })?);
        }
        rest = skipped(item(rest, take, depth + 1)?);
        if let Some(after) = rest.strip_prefix(end) {
            take.end(kind);
            return Some(after);
        }
        rest = skipped(rest.strip_prefix(',')?);
    }
}

fn skipped(text: &str) -> &str {
    &text[spaces(text)..]
}

/// The quote, what lies between two of them, and what follows.
fn quoted(text: &str) -> Option<(u8, &str, &str)> {
    let quote = *text.as_bytes().first()?;
    let inner = &text[1..];
    let end = closing(quote, inner)??;
    Some((quote, &inner[..end], &inner[end + 1..]))
}

/// Letters and digits, and what stands between them in names, versions and paths.
fn word(text: &str) -> Option<(&str, &str)> {
    let is_word = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b'/');
    let size = text.bytes().take_while(|c| is_word(*c)).count();
    let starts = text.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/'));
    let ends = matches!(text.as_bytes().get(size), Some(b' ' | b',' | b']' | b'}' | b':'));
    (starts && ends).then(|| text.split_at(size))
}
