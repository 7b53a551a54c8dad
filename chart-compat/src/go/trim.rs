//! Trimming of byte strings that need not be valid UTF-8 (`strings.TrimSpace` and similar functions).

use super::fmt;

fn last_rune(s: &[u8]) -> (char, usize) {
    for n in 1..=s.len().min(4) {
        let (c, size) = fmt::decode(&s[s.len() - n..]);
        if size == n && (n > 1 || c.is_ascii()) {
            return (c, size);
        }
    }
    (char::REPLACEMENT_CHARACTER, usize::from(!s.is_empty()))
}

/// `strings.TrimLeftFunc`
pub(crate) fn start(mut s: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    loop {
        let (c, size) = fmt::decode(s);
        if size == 0 || !cut(c) {
            return s;
        }
        s = &s[size..];
    }
}

/// `strings.TrimFunc`
pub(crate) fn runes(s: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    let mut s = start(s, &cut);
    loop {
        let (c, size) = last_rune(s);
        if size == 0 || !cut(c) {
            return s;
        }
        s = &s[..s.len() - size];
    }
}

/// `strings.TrimSpace`
pub(crate) fn space(s: &[u8]) -> &[u8] {
    runes(s, char::is_whitespace)
}

/// `strings.TrimLeftFunc` with `unicode.IsSpace`
pub(crate) fn start_space(s: &[u8]) -> &[u8] {
    start(s, char::is_whitespace)
}
