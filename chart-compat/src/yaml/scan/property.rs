//! Anchors, aliases, tags and directives.

use std::borrow::Cow;

use super::{Kind, Mark, Scanner, Token};
use crate::yaml::error::Error;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl<'a> Scanner<'a> {
    pub(super) fn fetch_anchor(&mut self, kind: Kind) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark();
        self.pos += 1;
        let name = self.scan_word()?;
        let ends = matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`')
            || self.blank_or_end(0);
        if name.is_empty() || !ends {
            return Err(Error::scanner(
                self.line,
                mark.line,
                "did not find expected alphabetic or numeric character",
            ));
        }
        self.push(kind, mark, name, None);
        Ok(())
    }

    pub(super) fn fetch_tag(&mut self) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark();
        self.need(2)?;
        let (handle, suffix) = if self.byte(1) == b'<' {
            self.pos += 2;
            let suffix = self.scan_uri("", mark)?;
            if self.byte(0) != b'>' {
                return Err(Error::scanner(self.line, mark.line, "did not find the expected '>'"));
            }
            self.pos += 1;
            ("", suffix)
        } else {
            let handle = self.scan_handle(false, mark)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, self.scan_uri("", mark)?)
            } else {
                match self.scan_uri(handle, mark)? {
                    suffix if suffix.is_empty() => ("", "!".to_owned()),
                    suffix => ("!", suffix),
                }
            }
        };
        self.need(1)?;
        if !self.blank_or_end(0) {
            return Err(Error::scanner(
                self.line,
                mark.line,
                "did not find expected whitespace or line break",
            ));
        }
        self.push(Kind::Tag, mark, handle, Some(suffix.into()));
        Ok(())
    }

    pub(super) fn fetch_directive(&mut self) -> Result<(), Error> {
        let mark = self.mark();
        self.unroll_indent(-1, mark);
        self.remove_key()?;
        self.key_allowed = false;
        let fail = |line, problem| Err(Error::scanner(line, mark.line, problem));
        self.pos += 1;
        let name = self.scan_word()?;
        if name.is_empty() {
            return fail(self.line, "could not find expected directive name");
        }
        if !self.blank_or_end(0) {
            return fail(self.line, "found unexpected non-alphabetical character");
        }
        let (kind, value, suffix) = match name {
            "YAML" => {
                self.skip_blanks()?;
                let major = self.scan_version(mark)?;
                if self.byte(0) != b'.' {
                    return fail(self.line, "did not find expected digit or '.' character");
                }
                self.pos += 1;
                let minor = self.scan_version(mark)?;
                (Kind::VersionDirective, "", format!("{major}.{minor}"))
            }
            "TAG" => {
                self.skip_blanks()?;
                let handle = self.scan_handle(true, mark)?;
                self.need(1)?;
                if !matches!(self.byte(0), b' ' | b'\t') {
                    return fail(self.line, "did not find expected whitespace");
                }
                self.skip_blanks()?;
                let prefix = self.scan_uri("", mark)?;
                self.need(1)?;
                if !self.blank_or_end(0) {
                    return fail(self.line, "did not find expected whitespace or line break");
                }
                (Kind::TagDirective, handle, prefix)
            }
            _ => return fail(self.line, "found unknown directive name"),
        };
        let end_line = self.line;
        self.skip_blanks()?;
        if self.byte(0) == b'#' {
            self.skip_comment();
            self.need(1)?;
        }
        if self.pos < self.bytes.len() && self.at_break(0) == 0 {
            return fail(self.line, "did not find expected comment or line break");
        }
        if self.at_break(0) > 0 {
            self.need(2)?;
            self.skip_break();
        }
        self.push(kind, mark, value, Some(suffix.into()));
        if let Some(token) = self.tokens.back_mut() {
            token.end_line = end_line;
        }
        Ok(())
    }

    fn push(&mut self, kind: Kind, mark: Mark, value: &'a str, suffix: Option<Box<str>>) {
        let value = Cow::Borrowed(value);
        self.tokens.push_back(Token { kind, mark, end_line: self.line, value, suffix });
    }

    fn scan_word(&mut self) -> Result<&'a str, Error> {
        let from = self.pos;
        while is_word(self.byte(0)) {
            self.pos += 1;
        }
        self.need(1)?;
        Ok(self.text.get(from..self.pos).unwrap_or_default())
    }

    /// Scans a number of a `%YAML` directive.
    fn scan_version(&mut self, start: Mark) -> Result<u8, Error> {
        self.need(1)?;
        let from = self.pos;
        let mut value = 0;
        while self.byte(0).is_ascii_digit() {
            if self.pos - from == 2 {
                return Err(Error::scanner(self.line, start.line, "found extremely long version number"));
            }
            value = value * 10 + (self.byte(0) - b'0');
            self.pos += 1;
            self.need(1)?;
        }
        if self.pos == from {
            return Err(Error::scanner(self.line, start.line, "did not find expected version number"));
        }
        Ok(value)
    }

    /// Scans a tag handle: `!`, `!word!`, or `!word`, which is a whole tag.
    fn scan_handle(&mut self, directive: bool, start: Mark) -> Result<&'a str, Error> {
        self.need(1)?;
        if self.byte(0) != b'!' {
            return Err(Error::scanner(self.line, start.line, "did not find expected '!'"));
        }
        let from = self.pos;
        self.pos += 1;
        let word = self.scan_word()?;
        if self.byte(0) == b'!' {
            self.pos += 1;
        } else if directive && !word.is_empty() {
            return Err(Error::scanner(self.line, start.line, "did not find expected '!'"));
        }
        Ok(self.text.get(from..self.pos).unwrap_or_default())
    }

    /// Scans the URI of a tag; `head` is its part that was already read.
    fn scan_uri(&mut self, head: &str, start: Mark) -> Result<String, Error> {
        let mut bytes = head.get(1..).unwrap_or_default().as_bytes().to_vec();
        let mut any = !head.is_empty();
        self.need(1)?;
        while is_word(self.byte(0)) || b";/?:@&=+$,.!~*'()[]%".contains(&self.byte(0)) {
            if self.byte(0) == b'%' {
                self.scan_octets(&mut bytes, start)?;
            } else {
                bytes.push(self.byte(0));
                self.pos += 1;
            }
            self.need(1)?;
            any = true;
        }
        if !any {
            return Err(Error::scanner(self.line, start.line, "did not find expected tag URI"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Scans a `%XX` sequence that encodes one character.
    fn scan_octets(&mut self, out: &mut Vec<u8>, start: Mark) -> Result<(), Error> {
        let fail = |line, problem| Err(Error::scanner(line, start.line, problem));
        let mut left = None;
        while left != Some(0) {
            self.need(3)?;
            let hex = |ahead| char::from(self.byte(ahead)).to_digit(16).and_then(|d| u8::try_from(d).ok());
            let (b'%', Some(high), Some(low)) = (self.byte(0), hex(1), hex(2)) else {
                return fail(self.line, "did not find URI escaped octet");
            };
            let octet = high << 4 | low;
            left = Some(match (left, octet) {
                (Some(more), 0x80..=0xBF) => more - 1,
                (Some(_), _) => return fail(self.line, "found an incorrect trailing UTF-8 octet"),
                (None, 0..=0x7F) => 0,
                (None, 0xC0..=0xDF) => 1,
                (None, 0xE0..=0xEF) => 2,
                (None, 0xF0..=0xF7) => 3,
                (None, _) => return fail(self.line, "found an incorrect leading UTF-8 octet"),
            });
            out.push(octet);
            self.pos += 3;
        }
        Ok(())
    }
}
