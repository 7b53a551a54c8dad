//! Scalars: the choice of style, and the output of each style.

use base64::Engine;

use super::analysis::{Analysis, analyze};
use super::{EmitError, Emitter, Layout, Role};
use crate::yaml::resolve::{Dialect, needs_quotes};

/// The column after which go-yaml v2 breaks a line at the next space.
const WIDTH: i32 = 80;
/// Maximal length of a key without `?`, in bytes.
const MAX_KEY: usize = 128;

impl Emitter<'_> {
    /// Writes a key and its colon.
    pub(super) fn scalar_key(&mut self, key: &str) {
        let analysis = analyze(key, self.layout);
        // The reader rejects keys of more than 1024 characters, and JSON can escape one character as six.
        if !self.verbatim && key.len() > MAX_KEY {
            self.error.get_or_insert(EmitError::Detour);
        }
        if key.len() <= MAX_KEY && !analysis.multiline {
            self.analyzed(key, Role::SimpleKey, analysis);
            self.write_indicator(":", false, false);
        } else {
            self.write_indicator("?", true, true);
            self.analyzed(key, Role::Value, analysis);
            self.write_indent(self.indent);
            self.write_indicator(":", true, true);
        }
    }

    /// Writes a string in the style that go-yaml chooses for it.
    pub(super) fn scalar(&mut self, text: &str, role: Role) {
        let analysis = analyze(text, self.layout);
        self.analyzed(text, role, analysis);
    }

    fn analyzed(&mut self, text: &str, role: Role, analysis: Analysis) {
        if analysis.unreadable && !self.verbatim {
            self.error.get_or_insert(EmitError::Detour);
        }
        let dialect = if self.layout == Layout::Pretty { Dialect::V3 } else { Dialect::V2 };
        if analysis.feeds {
            if analysis.block && role == Role::Value {
                self.write_literal(text);
            } else {
                self.write_double(text, role);
            }
        } else if self.quotes || needs_quotes(text, dialect) {
            self.write_double(text, role);
        } else if analysis.plain {
            self.write_plain_text(text, role);
        } else if analysis.single && !(analysis.multiline && role == Role::SimpleKey) {
            self.write_single(text, role);
        } else {
            self.write_double(text, role);
        }
    }

    /// Writes bytes that are not valid UTF-8 as base64, in lines of 70 characters.
    pub(super) fn binary(&mut self, bytes: &[u8]) {
        let packed = base64::engine::general_purpose::STANDARD.encode(bytes);
        self.write_indicator("!!binary", true, false);
        if packed.len() < 70 {
            return self.write_plain(&packed);
        }
        let mut text = String::with_capacity(packed.len() + packed.len() / 70 + 1);
        for line in packed.as_bytes().chunks(70) {
            text.extend(line.iter().map(|b| char::from(*b)));
            text.push('\n');
        }
        self.write_literal(&text);
    }

    /// Writes a short string that is known to be plain.
    pub(super) fn write_plain(&mut self, text: &str) {
        if !self.whitespace {
            self.put(' ');
        }
        self.copy(text);
        self.whitespace = false;
        self.indention = false;
    }

    fn copy(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += columns(text);
    }

    /// Whether a string can reach the column at which lines are folded.
    fn may_fold(&self, text: &str, role: Role) -> bool {
        role == Role::Value
            && self.layout == Layout::Sigs
            && text.len() + usize::try_from(self.column).unwrap_or(0) + 2 > 80
            && text.contains(' ')
    }

    fn write_plain_text(&mut self, text: &str, role: Role) {
        if !self.may_fold(text, role) {
            return self.write_plain(text);
        }
        if !self.whitespace {
            self.put(' ');
        }
        self.write_folded(text, |_, _, followed| !followed);
        self.whitespace = false;
        self.indention = false;
    }

    /// Writes words. Folds the line at single spaces after the line width. `breaks` receives the position of a space, the length
    /// of the text and whether another space follows; it returns whether the line can be folded there.
    fn write_folded(&mut self, text: &str, breaks: impl Fn(usize, usize, bool) -> bool) {
        let indent = self.scalar_indent();
        let mut after_space = false;
        let mut from = 0;
        for at in memchr::memchr_iter(b' ', text.as_bytes()) {
            if at > from {
                after_space = false;
                self.copy(text.get(from..at).unwrap_or_default());
                self.indention = false;
            }
            from = at + 1;
            let followed = text.as_bytes().get(at + 1) == Some(&b' ');
            if !after_space && self.column > WIDTH && breaks(at, text.len(), followed) {
                self.write_indent(indent);
            } else {
                self.put(' ');
            }
            after_space = true;
        }
        self.copy(text.get(from..).unwrap_or_default());
        self.indention = false;
    }

    fn write_single(&mut self, text: &str, role: Role) {
        self.write_indicator("'", true, false);
        let doubled;
        let text = if text.contains('\'') {
            doubled = text.replace('\'', "''");
            doubled.as_str()
        } else {
            text
        };
        if text.contains(['\n', '\u{2028}', '\u{2029}']) {
            self.write_single_lines(text, role);
        } else if self.may_fold(text, role) {
            self.write_folded(text, |at, len, followed| at > 0 && at + 1 < len && !followed);
        } else {
            self.copy(text);
        }
        self.write_indicator("'", false, false);
    }

    /// Writes the content of a single-quoted string that contains Unicode line or paragraph separators.
    fn write_single_lines(&mut self, text: &str, role: Role) {
        let indent = self.scalar_indent();
        let folds = role == Role::Value && self.layout == Layout::Sigs;
        let (mut after_space, mut after_break) = (false, false);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            match c {
                ' ' => {
                    let followed = matches!(chars.peek(), Some((_, ' ')));
                    let inside = at > 0 && at + 1 < text.len();
                    if folds && !after_space && self.column > WIDTH && inside && !followed {
                        self.write_indent(indent);
                    } else {
                        self.put(' ');
                    }
                    after_space = true;
                }
                '\u{2028}' | '\u{2029}' => {
                    self.out.push(c);
                    self.column = 0;
                    self.indention = true;
                    after_break = true;
                }
                c => {
                    if after_break {
                        self.write_indent(indent);
                    }
                    self.put(c);
                    self.indention = false;
                    (after_space, after_break) = (false, false);
                }
            }
        }
    }

    fn write_double(&mut self, text: &str, role: Role) {
        self.write_indicator("\"", true, false);
        let folds = role == Role::Value && self.layout == Layout::Sigs;
        let indent = self.scalar_indent();
        // If the string starts with a byte order mark, go-yaml treats every character as one.
        let all = text.starts_with('\u{FEFF}');
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if all || !stands_for_itself(c) {
                self.copy(&escape(c));
                after_space = false;
            } else if c == ' ' {
                if folds && !after_space && self.column > WIDTH && at > 0 && at + 1 < text.len() {
                    self.write_indent(indent);
                    if matches!(chars.peek(), Some((_, ' '))) {
                        self.put('\\');
                    }
                } else {
                    self.put(' ');
                }
                after_space = true;
            } else {
                self.put(c);
                after_space = false;
            }
        }
        self.write_indicator("\"", false, false);
    }

    fn write_literal(&mut self, text: &str) {
        let is_break = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
        self.write_indicator("|", true, false);
        if text.starts_with(' ') || text.starts_with(is_break) {
            self.write_indicator("2", false, false);
        }
        let mut end = text.chars().rev();
        let chomp = match (end.next().map(is_break), end.next().map(is_break)) {
            (Some(true), None | Some(true)) => "+",
            (Some(true), Some(false)) => "",
            _ => "-",
        };
        if !chomp.is_empty() {
            self.write_indicator(chomp, false, false);
        }
        self.put_break();
        self.indention = true;
        self.whitespace = true;
        let indent = self.scalar_indent();
        let mut rest = text;
        while !rest.is_empty() {
            let end = line_end(rest);
            let (line, tail) = rest.split_at(end);
            if !line.is_empty() {
                self.write_indent(indent);
                self.copy(line);
                self.indention = false;
            }
            let mut after = tail.chars();
            match after.next() {
                Some('\n') => {
                    self.put_break();
                    self.indention = true;
                }
                Some(c) => {
                    self.out.push(c);
                    self.column = 0;
                    self.indention = true;
                }
                None => {}
            }
            rest = after.as_str();
        }
    }
}

/// The end of the line: a line feed, or a Unicode separator.
fn line_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let feed = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    let line = text.get(..feed).unwrap_or_default();
    line.find(['\u{2028}', '\u{2029}']).unwrap_or(feed)
}

/// The escape sequence of a character in a double-quoted string.
pub(in crate::yaml) fn escape(c: char) -> String {
    let short = match c {
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0B' => 'v',
        '\x0C' => 'f',
        '\r' => 'r',
        '\x1B' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{A0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        c => {
            let code = u32::from(c);
            return match code {
                0..=0xFF => format!("\\x{code:02X}"),
                0x100..=0xFFFF => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{short}")
}

/// Whether a double-quoted string contains the character without an escape.
pub(in crate::yaml) fn stands_for_itself(c: char) -> bool {
    match c {
        '"' | '\\' | '\u{2028}' | '\u{2029}' => false,
        ' '..='~' | '\u{A0}'..='\u{D7FF}' | '\u{E000}'..='\u{FEFE}' | '\u{FF00}'..='\u{FFFD}' => true,
        _ => false,
    }
}

/// The width of a string: one column for each character.
fn columns(text: &str) -> i32 {
    let count = if text.is_ascii() { text.len() } else { text.chars().count() };
    i32::try_from(count).unwrap_or(i32::MAX)
}
