//! Single-quoted and double-quoted scalars.

use std::borrow::Cow;

use super::plain::Breaks;
use super::{Mark, Scanner};
use crate::yaml::error::Error;

impl<'a> Scanner<'a> {
    /// Scans a quoted scalar. It is borrowed if it has one line and no escapes.
    pub(super) fn scan_quoted(&mut self, single: bool, start: Mark) -> Result<Cow<'a, str>, Error> {
        let quote = if single { b'\'' } else { b'"' };
        self.pos += 1;
        // The text from `from` on is not yet in `done`.
        let mut from = self.pos;
        let mut done: Option<String> = None;
        self.check_line(start)?;
        loop {
            self.pos = self.run_end(quote);
            self.need(2)?;
            let byte = self.byte(0);
            if byte == quote {
                let text = self.text.get(from..self.pos).unwrap_or_default();
                if single && self.byte(1) == b'\'' {
                    let done = done.get_or_insert_with(String::new);
                    done.push_str(text);
                    done.push('\'');
                    self.pos += 2;
                    from = self.pos;
                    continue;
                }
                self.pos += 1;
                return Ok(match done {
                    None => Cow::Borrowed(text),
                    Some(mut done) => {
                        done.push_str(text);
                        Cow::Owned(done)
                    }
                });
            }
            if byte == 0 {
                self.need(4)?;
                return Err(Error::scanner(self.line, start.line, "found unexpected end of stream"));
            }
            let text = self.text.get(from..self.pos).unwrap_or_default();
            let done = done.get_or_insert_with(String::new);
            if byte != b'\\' {
                done.push_str(text.trim_end_matches([' ', '\t']));
                let mut breaks = Breaks::default();
                self.skip_folded(&mut breaks)?;
                breaks.fold_into(done);
                self.check_line(start)?;
            } else if self.at_break(1) > 0 {
                self.need(3)?;
                done.push_str(text);
                self.pos += 1;
                self.skip_break();
                let mut breaks = Breaks::escaped();
                self.skip_folded(&mut breaks)?;
                breaks.fold_into(done);
                // A closing quote here ends the scalar before the line is checked.
                if self.byte(0) != quote {
                    self.check_line(start)?;
                }
            } else {
                done.push_str(text);
                let escaped = self.scan_escape(start)?;
                done.push(escaped);
            }
            from = self.pos;
        }
    }

    /// The end of the characters that need no processing, blanks included.
    #[inline]
    fn run_end(&self, quote: u8) -> usize {
        let mut at = self.pos;
        while let Some(&byte) = self.bytes.get(at) {
            let stop = match byte {
                b'\n' => true,
                b'\\' => quote == b'"',
                b'\r' | 0xC2 | 0xE2 => self.at_break(at - self.pos) > 0,
                other => other == quote,
            };
            if stop {
                break;
            }
            at += 1;
        }
        at
    }

    /// Fails if a line of a quoted scalar starts with a document marker.
    fn check_line(&self, start: Mark) -> Result<(), Error> {
        self.need(4)?;
        if self.at_document_indicator() {
            return Err(Error::scanner(self.line, start.line, "found unexpected document indicator"));
        }
        Ok(())
    }

    /// Skips line breaks and the blanks around them.
    fn skip_folded(&mut self, breaks: &mut Breaks) -> Result<(), Error> {
        loop {
            if self.at_break(0) > 0 {
                self.need(2)?;
                breaks.add(self.read_break());
            } else if matches!(self.byte(0), b' ' | b'\t') {
                self.pos += 1;
            } else {
                return Ok(());
            }
            self.need(1)?;
        }
    }

    /// Scans an escape sequence of a double-quoted scalar.
    fn scan_escape(&mut self, start: Mark) -> Result<char, Error> {
        let fail = |line, problem| Err(Error::scanner(line, start.line, problem));
        let plain = match self.byte(1) {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\x0B',
            b'f' => '\x0C',
            b'r' => '\r',
            b'e' => '\x1B',
            b' ' => ' ',
            b'"' => '"',
            b'\'' => '\'',
            b'\\' => '\\',
            b'N' => '\u{85}',
            b'_' => '\u{A0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            code @ (b'x' | b'u' | b'U') => {
                let digits = match code {
                    b'x' => 2,
                    b'u' => 4,
                    _ => 8,
                };
                self.pos += 2;
                self.need(digits)?;
                let mut value: u32 = 0;
                for i in 0..digits {
                    let Some(digit) = char::from(self.byte(i)).to_digit(16) else {
                        return fail(self.line, "did not find expected hexdecimal number");
                    };
                    value = value << 4 | digit;
                }
                let Some(c) = char::from_u32(value) else {
                    return fail(self.line, "found invalid Unicode character escape code");
                };
                self.pos += digits;
                return Ok(c);
            }
            _ => return fail(self.line, "found unknown escape character"),
        };
        self.pos += 2;
        Ok(plain)
    }
}
