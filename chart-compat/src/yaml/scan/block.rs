//! Literal and folded block scalars.

use std::borrow::Cow;

use super::{Mark, Scanner};
use crate::yaml::error::Error;

/// The treatment of the final line breaks of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl<'a> Scanner<'a> {
    /// Scans a block scalar, starting at its `|` or `>`.
    pub(super) fn scan_block(&mut self, literal: bool, start: Mark) -> Result<Cow<'a, str>, Error> {
        self.pos += 1;
        let (chomp, increment) = self.scan_block_header(start)?;
        let mut indent = match increment {
            0 => 0,
            more if self.indent >= 0 => self.indent + more,
            more => more,
        };
        let mut out = String::new();
        let mut breaks = String::new();
        self.skip_block_breaks(&mut indent, &mut breaks, start)?;
        let mut last_break: Option<char> = None;
        let mut last_blank = false;
        while self.block_column() == indent && self.pos < self.bytes.len() {
            let blank = matches!(self.byte(0), b' ' | b'\t');
            // A single line feed between two lines that start with text is folded; further line feeds are kept.
            if !literal && !last_blank && !blank && last_break == Some('\n') {
                if breaks.is_empty() {
                    out.push(' ');
                }
            } else {
                out.extend(last_break);
            }
            out.push_str(&breaks);
            breaks.clear();
            last_blank = blank;
            out.push_str(self.rest_of_line());
            self.need(2)?;
            last_break = self.read_break();
            self.skip_block_breaks(&mut indent, &mut breaks, start)?;
        }
        if chomp != Chomp::Strip {
            out.extend(last_break);
        }
        if chomp == Chomp::Keep {
            out.push_str(&breaks);
        }
        Ok(Cow::Owned(out))
    }

    /// Scans the indicators after `|` or `>`, and the rest of that line.
    fn scan_block_header(&mut self, start: Mark) -> Result<(Chomp, i32), Error> {
        self.need(1)?;
        let mut chomp = Chomp::Clip;
        let mut increment = 0;
        let mut seen = (false, false);
        loop {
            match self.byte(0) {
                sign @ (b'+' | b'-') if !seen.0 => {
                    seen.0 = true;
                    chomp = if sign == b'+' { Chomp::Keep } else { Chomp::Strip };
                }
                b'0' if !seen.1 => {
                    return Err(Error::scanner(
                        self.line,
                        start.line,
                        "found an indentation indicator equal to 0",
                    ));
                }
                digit @ b'1'..=b'9' if !seen.1 => {
                    seen.1 = true;
                    increment = i32::from(digit - b'0');
                }
                _ => break,
            }
            self.pos += 1;
            self.need(1)?;
        }
        self.skip_blanks()?;
        if self.byte(0) == b'#' {
            self.scan_line_comment(start)?;
            self.skip_comment();
            self.need(1)?;
        }
        if self.pos < self.bytes.len() && self.at_break(0) == 0 {
            return Err(Error::scanner(self.line, start.line, "did not find expected comment or line break"));
        }
        if self.at_break(0) > 0 {
            self.need(2)?;
            self.skip_break();
        }
        Ok((chomp, increment))
    }

    /// Skips spaces and tabs.
    pub(super) fn skip_blanks(&mut self) -> Result<(), Error> {
        while matches!(self.byte(0), b' ' | b'\t') {
            self.pos += 1;
        }
        self.need(1)
    }

    /// Skips the rest of the line and returns it.
    fn rest_of_line(&mut self) -> &'a str {
        let from = self.pos;
        self.skip_comment();
        self.text.get(from..self.pos).unwrap_or_default()
    }

    /// Skips indentation and empty lines, and collects the line breaks. Determines the indentation if it is unknown.
    fn skip_block_breaks(&mut self, indent: &mut i32, breaks: &mut String, start: Mark) -> Result<(), Error> {
        let mut widest = 0;
        loop {
            self.need(1)?;
            while (*indent == 0 || self.block_column() < *indent) && self.byte(0) == b' ' {
                self.pos += 1;
            }
            self.need(1)?;
            widest = widest.max(self.block_column());
            if (*indent == 0 || self.block_column() < *indent) && self.byte(0) == b'\t' {
                return Err(Error::scanner(
                    self.line,
                    start.line,
                    "found a tab character where an indentation space is expected",
                ));
            }
            if self.at_break(0) == 0 {
                break;
            }
            self.need(2)?;
            breaks.extend(self.read_break());
        }
        if *indent == 0 {
            *indent = widest.max(self.indent + 1).max(1);
        }
        Ok(())
    }

    /// The column, valid only if the line has only spaces so far.
    #[inline]
    fn block_column(&self) -> i32 {
        i32::try_from(self.pos - self.line_start).unwrap_or(i32::MAX)
    }
}
