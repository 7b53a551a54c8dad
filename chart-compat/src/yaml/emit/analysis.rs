//! The possible styles of a string.
//!
//! Owns go-yaml's analysis of a scalar. Writes nothing.

use super::Layout;

/// The result of the analysis: the possible styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::yaml) struct Analysis {
    /// Contains a line break of any kind.
    pub(in crate::yaml) multiline: bool,
    /// Contains a line feed.
    pub(in crate::yaml) feeds: bool,
    pub(in crate::yaml) plain: bool,
    pub(in crate::yaml) single: bool,
    pub(in crate::yaml) block: bool,
    /// Contains a character that JSON allows but go-yaml's reader rejects.
    pub(in crate::yaml) unreadable: bool,
}

/// Classes of bytes. 0: the byte has no special meaning anywhere.
mod class {
    /// Has a special meaning only at the start.
    pub(super) const LEAD: u8 = 1;
    pub(super) const SPACE: u8 = 2;
    /// A colon or a hash, whose meaning depends on adjacent blanks.
    pub(super) const MARK: u8 = 4;
    /// The string needs a check by character.
    pub(super) const REST: u8 = 8;
}

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        if i < 0x20 || i >= 0x7F {
            table[i] = class::REST;
        }
        i += 1;
    }
    let lead = b",[]{}&*!|>'\"%@`?-.";
    i = 0;
    while i < lead.len() {
        table[lead[i] as usize] = class::LEAD;
        i += 1;
    }
    table[b':' as usize] = class::MARK;
    table[b'#' as usize] = class::MARK;
    table[b' ' as usize] = class::SPACE;
    table
}

/// Analyzes a string.
pub(super) fn analyze(text: &str, layout: Layout) -> Analysis {
    let bytes = text.as_bytes();
    let seen = bytes.iter().fold(0, |seen, &b| seen | CLASS[b as usize]);
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return Analysis {
            multiline: false,
            feeds: false,
            plain: true,
            single: true,
            block: false,
            unreadable: false,
        };
    };
    if seen & class::REST != 0 {
        return by_character(text, layout);
    }
    let plain = first != b' '
        && last != b' '
        && (CLASS[first as usize] & (class::LEAD | class::MARK) == 0 || !leads_wrong(bytes))
        && (seen & class::MARK == 0 || !marks_wrong(bytes));
    Analysis { multiline: false, feeds: false, plain, single: true, block: last != b' ', unreadable: false }
}

/// Whether the first characters rule out the plain style.
fn leads_wrong(bytes: &[u8]) -> bool {
    let blank_after = matches!(bytes.get(1), None | Some(b' ' | b'\t'));
    match bytes {
        [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..] => true,
        [b'-' | b'?' | b':', ..] => blank_after,
        [b'.', ..] => false,
        [
            b'#' | b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%'
            | b'@' | b'`',
            ..,
        ] => true,
        _ => false,
    }
}

/// Whether a colon before a blank or a hash after one rules out the plain style.
fn marks_wrong(bytes: &[u8]) -> bool {
    let blank = |b: u8| matches!(b, b' ' | b'\t');
    let mut before = b'x';
    bytes.iter().enumerate().any(|(i, &b)| {
        let wrong = match b {
            b':' => bytes.get(i + 1).is_none_or(|next| blank(*next)),
            b'#' => blank(before) || before == b'\n' || before == b'\r',
            _ => false,
        };
        before = b;
        wrong
    })
}

/// The complete analysis, by character.
fn by_character(text: &str, layout: Layout) -> Analysis {
    let mut special = false;
    let mut tabs = false;
    let mut breaks = false;
    let mut feeds = false;
    let mut unreadable = false;
    let (mut break_space, mut space_break) = (false, false);
    let (mut after_space, mut after_break) = (false, false);
    let mut hash_after_break = false;
    for c in text.chars() {
        match c {
            '\t' if layout == Layout::Pretty => tabs = true,
            '\n' | ' '..='~' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}' => {}
            '\u{7F}'..='\u{9F}' | '\u{FFFE}' | '\u{FFFF}' => (special, unreadable) = (true, true),
            _ => special = true,
        }
        let is_break = matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        hash_after_break |= c == '#' && after_break;
        break_space |= c == ' ' && after_break;
        space_break |= is_break && after_space;
        breaks |= is_break;
        feeds |= c == '\n';
        (after_space, after_break) = (c == ' ', is_break);
    }
    let is_break = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let bytes = text.as_bytes();
    let edges = text.starts_with(' ')
        || text.ends_with(' ')
        || text.starts_with(is_break)
        || text.ends_with(is_break);
    let wrong = leads_wrong(bytes) || marks_wrong(bytes) || hash_after_break;
    let quotable = !break_space && !space_break && !tabs && !special;
    Analysis {
        multiline: breaks,
        feeds,
        plain: quotable && !edges && !breaks && !wrong,
        single: quotable,
        block: !text.ends_with(' ') && !space_break && !special,
        unreadable,
    }
}
