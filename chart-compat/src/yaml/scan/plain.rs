//! Plain scalars.

use std::borrow::Cow;

use super::{Mark, Scanner};
use crate::yaml::error::Error;

/// Can end a word of a plain scalar: a blank, the start of a line break, or a colon.
const STOP: u8 = 1;
/// Ends a plain scalar in a flow collection.
const FLOW: u8 = 2;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let stop = [b' ', b'\t', b'\n', b'\r', 0xC2, 0xE2, b':'];
    let flow = [b',', b'?', b'[', b']', b'{', b'}'];
    let mut i = 0;
    while i < stop.len() {
        table[stop[i] as usize] = STOP;
        i += 1;
    }
    i = 0;
    while i < flow.len() {
        table[flow[i] as usize] = FLOW;
        i += 1;
    }
    table
}

impl<'a> Scanner<'a> {
    /// Scans a plain scalar. A single line is borrowed; several lines are folded into a new string.
    pub(super) fn scan_plain(&mut self, start: Mark) -> Result<Cow<'a, str>, Error> {
        let stops = if self.flow_level > 0 { STOP | FLOW } else { STOP };
        let indent = self.indent + 1;
        let mut folded: Option<String> = None;
        // The words since the last line break, which are not yet in `folded`.
        let (mut from, mut end) = (start.pos, start.pos);
        let mut broken = false;
        loop {
            self.need(4)?;
            if self.at_document_indicator() || self.byte(0) == b'#' {
                break;
            }
            let word = self.pos;
            self.pos = self.word_end(stops);
            if self.pos > word {
                broken = false;
                end = self.pos;
            }
            self.need(2)?;
            if !matches!(self.byte(0), b' ' | b'\t') && self.at_break(0) == 0 {
                break;
            }
            while matches!(self.byte(0), b' ' | b'\t') {
                self.pos += 1;
            }
            self.need(1)?;
            if self.at_break(0) == 0 {
                continue;
            }
            let mut breaks = Breaks::default();
            self.skip_breaks(indent, start, &mut breaks)?;
            broken = true;
            let column = self.column();
            if self.flow_level == 0 && column < indent {
                break;
            }
            // The line break is folded only if another word follows.
            if self.goes_on(stops) {
                let text = self.text.get(from..end).unwrap_or_default();
                let folded = folded.get_or_insert_with(String::new);
                folded.push_str(text);
                breaks.fold_into(folded);
                (from, end) = (self.pos, self.pos);
            }
        }
        if broken {
            self.key_allowed = true;
        }
        let text = self.text.get(from..end).unwrap_or_default();
        Ok(match folded {
            None => Cow::Borrowed(text),
            Some(mut folded) => {
                folded.push_str(text);
                Cow::Owned(folded)
            }
        })
    }

    /// Whether the scalar continues here.
    fn goes_on(&self, stops: u8) -> bool {
        !self.at_document_indicator() && self.byte(0) != b'#' && self.word_end(stops) > self.pos
    }

    /// The end of the characters that a plain scalar can contain.
    #[inline]
    fn word_end(&self, stops: u8) -> usize {
        let mut at = self.pos;
        while let Some(&byte) = self.bytes.get(at) {
            if CLASS[byte as usize] & stops != 0 && self.ends_word(at, byte) {
                break;
            }
            at += 1;
        }
        at
    }

    #[inline]
    fn ends_word(&self, at: usize, byte: u8) -> bool {
        let ahead = at - self.pos;
        match byte {
            b':' => self.blank_or_end(ahead + 1),
            b'\r' | 0xC2 | 0xE2 => self.at_break(ahead) > 0,
            _ => true,
        }
    }

    /// Skips line breaks and the blanks between them.
    fn skip_breaks(&mut self, indent: i32, start: Mark, breaks: &mut Breaks) -> Result<(), Error> {
        loop {
            if self.at_break(0) > 0 {
                self.need(2)?;
                breaks.add(self.read_break());
            } else {
                match self.byte(0) {
                    b' ' => self.pos += 1,
                    b'\t' if self.column() < indent => {
                        return Err(Error::scanner(
                            self.line,
                            start.line,
                            "found a tab character that violates indentation",
                        ));
                    }
                    b'\t' => self.pos += 1,
                    _ => return Ok(()),
                }
            }
            self.need(1)?;
        }
    }
}

/// Line breaks between two words of a scalar.
#[derive(Default)]
pub(super) struct Breaks {
    /// The first line break. NUL is an escaped line break, which is dropped.
    first: Option<char>,
    /// The further breaks.
    more: String,
}

impl Breaks {
    /// The state after an escaped line break.
    pub(super) fn escaped() -> Self {
        Self { first: Some('\0'), more: String::new() }
    }

    /// Adds a line break.
    pub(super) fn add(&mut self, read: Option<char>) {
        if self.first.is_none() {
            self.first = read;
        } else {
            self.more.extend(read);
        }
    }

    /// Folds the line breaks: a single line feed becomes a space; of several the first is dropped.
    pub(super) fn fold_into(&self, out: &mut String) {
        match self.first {
            Some('\n') if self.more.is_empty() => out.push(' '),
            Some('\n' | '\0') | None => out.push_str(&self.more),
            Some(other) => {
                out.push(other);
                out.push_str(&self.more);
            }
        }
    }
}
