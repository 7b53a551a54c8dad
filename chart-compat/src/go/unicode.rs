//! Go's `unicode` classes that differ from Rust's.

#[rustfmt::skip]
#[path = "unicode_tables.rs"]
mod tables;

fn within(ranges: &[(u32, u32)], c: char) -> bool {
    let code = u32::from(c);
    let after = ranges.partition_point(|&(_, last)| last < code);
    ranges.get(after).is_some_and(|&(first, _)| first <= code)
}

/// Go's `unicode.IsLetter`.
#[must_use]
pub(crate) fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { within(tables::LETTER, c) }
}

/// Go's `unicode.IsDigit`: decimal digits of any script.
#[must_use]
pub(crate) fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { within(tables::DIGIT, c) }
}

/// Go's `strconv.IsPrint`: letters, marks, numbers, punctuation, symbols, and the ASCII space.
#[must_use]
pub(crate) fn is_print(c: char) -> bool {
    if c.is_ascii() { matches!(c, ' '..='~') } else { within(tables::PRINT, c) }
}
