//! From characters to tokens, as go-yaml v2's scanner does it.
//!
//! Owns indentation, simple keys and the token queue; submodules scan scalars and properties. Knows no grammar: the parser
//! decides which tokens may follow each other.
//!
//! The `:` after a mapping's key identifies it, so tokens stay in the queue while the first of them can still become a key.

mod block;
mod comments;
mod plain;
mod property;
mod quoted;
mod token;

use std::borrow::Cow;
use std::collections::VecDeque;

pub(super) use comments::Notes;
pub(super) use token::{Kind, Mark, Token};

use super::error::Error;
use super::input::Input;
use comments::Comments;

/// Maximal nesting of indentation or brackets in go-yaml.
const MAX_DEPTH: usize = 10_000;
/// Maximal distance between the start of a simple key and its `:`, in characters.
const MAX_KEY: usize = 1024;

/// A position where a key without `?` can have started.
#[derive(Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    /// Whether the indentation requires a key here; anything else is an error.
    required: bool,
    /// Whether the scanner waits for it. Like go-yaml, it does not wait for a closed empty flow collection.
    awaited: bool,
    token: usize,
    mark: Mark,
}

/// The scanner's state.
pub(super) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    bad: Option<&'static str>,
    ascii: bool,
    odd_breaks: bool,
    pos: usize,
    line: u32,
    line_start: usize,
    tokens: VecDeque<Token<'a>>,
    /// The number of tokens taken from the queue.
    taken: usize,
    /// Whether the first token of the queue is final.
    ready: bool,
    started: bool,
    indent: i32,
    indents: Vec<i32>,
    flow_level: usize,
    key_allowed: bool,
    /// The possible simple key of each flow level.
    keys: Vec<SimpleKey>,
    /// The comments, if they are kept.
    comments: Option<Box<Comments>>,
}

impl<'a> Scanner<'a> {
    /// A scanner at the start of the input.
    pub(super) fn new(input: &'a Input<'_>) -> Self {
        let text: &'a str = &input.text;
        Self {
            text,
            bytes: text.as_bytes(),
            bad: input.bad,
            ascii: text.is_ascii(),
            odd_breaks: input.odd_breaks,
            pos: 0,
            line: 0,
            line_start: 0,
            tokens: VecDeque::with_capacity(16),
            taken: 0,
            ready: false,
            started: false,
            indent: -1,
            indents: Vec::with_capacity(16),
            flow_level: 0,
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            comments: None,
        }
    }

    /// A scanner that keeps comments.
    pub(super) fn keep_comments(mut self) -> Self {
        self.comments = Some(Box::default());
        self
    }

    /// The next token, which stays in the queue.
    #[inline]
    pub(super) fn peek(&mut self) -> Result<&mut Token<'a>, Error> {
        if !self.ready {
            self.fetch_more()?;
        }
        match self.tokens.front_mut() {
            Some(token) => Ok(token),
            // `fetch_more` leaves a token or fails, so the queue is empty only after the end.
            None => Err(Error::plain(0, "attempted to go past the end of stream; corrupted value?")),
        }
    }

    /// The first byte of the token that `peek` returned.
    pub(super) fn first_byte(&self) -> u8 {
        let at = self.tokens.front().map_or(0, |token| token.mark.pos);
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Drops the token that `peek` returned.
    #[inline]
    pub(super) fn skip_token(&mut self) {
        self.ready = false;
        self.taken += 1;
        self.tokens.pop_front();
    }

    /// Takes the token that `peek` returned.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Token<'a>> {
        self.ready = false;
        self.taken += 1;
        self.tokens.pop_front()
    }

    fn fetch_more(&mut self) -> Result<(), Error> {
        // A comment can be assigned only two tokens later.
        let ahead = if self.comments.is_some() { 2 } else { 0 };
        while self.tokens.len() <= ahead || self.head_may_be_key()? {
            self.fetch_next()?;
        }
        self.ready = true;
        Ok(())
    }

    /// Whether the first token of the queue can still become a key.
    #[inline]
    fn head_may_be_key(&mut self) -> Result<bool, Error> {
        let head = self.taken;
        let first = if self.keys.len() == 1 { 0 } else { self.keys.partition_point(|k| k.token < head) };
        for level in first..self.keys.len() {
            match self.keys.get(level) {
                Some(key) if key.token == head && key.possible && key.awaited => {
                    return self.still_possible(level);
                }
                Some(key) if key.token == head => {}
                _ => break,
            }
        }
        Ok(false)
    }

    /// Whether the simple key of a flow level is still possible: on one line, and not too long.
    fn still_possible(&mut self, level: usize) -> Result<bool, Error> {
        let (pos, line, mark) = (self.pos, self.line, self.mark());
        let Some(key) = self.keys.get_mut(level) else { return Ok(false) };
        if !key.possible {
            return Ok(false);
        }
        let far = || {
            pos - key.mark.pos > MAX_KEY
                && self.text.get(key.mark.pos..pos).is_some_and(|t| t.chars().count() > MAX_KEY)
        };
        if key.mark.line < line || far() {
            if key.required {
                return Err(Error::scanner(mark.line, key.mark.line, "could not find expected ':'"));
            }
            key.possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    fn fetch_next(&mut self) -> Result<(), Error> {
        self.need(1)?;
        if !self.started {
            self.started = true;
            // go-yaml's reader strips one byte order mark, its scanner another.
            if self.text.starts_with('\u{FEFF}') {
                self.pos += 3;
            }
            let mark = self.mark();
            self.append(Kind::StreamStart, mark);
            return Ok(());
        }
        let scan = self.mark();
        self.skip_to_next_token()?;
        let mark = self.mark();
        self.unroll_indent(mark.column, scan);
        self.need(4)?;
        let Some(&byte) = self.bytes.get(self.pos) else { return self.fetch_stream_end() };
        if mark.column == 0 {
            match byte {
                b'%' => return self.fetch_directive(),
                b'-' if self.at_indicator(b'-') => return self.fetch_document(Kind::DocumentStart),
                b'.' if self.at_indicator(b'.') => return self.fetch_document(Kind::DocumentEnd),
                _ => {}
            }
        }
        if self.comments.is_none() {
            return self.fetch_content(byte);
        }
        // A comment after a colon or a comma belongs to the token before it.
        let about = match (self.tokens.back(), byte) {
            (Some(last), b':') if self.flow_level == 0 => last.mark,
            (Some(last), b',') if self.flow_level > 0 => last.mark,
            _ => mark,
        };
        self.fetch_content(byte)?;
        if self.tokens.back().is_some_and(|t| t.kind == Kind::BlockEntry) {
            return Ok(());
        }
        self.scan_line_comment(about)
    }

    /// Fetches a token that is neither a directive nor a document marker, by its first byte.
    #[inline]
    fn fetch_content(&mut self, byte: u8) -> Result<(), Error> {
        let flow = self.flow_level > 0;
        match byte {
            b'[' => self.fetch_flow_start(Kind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(Kind::FlowMappingStart),
            b']' => self.fetch_flow_end(Kind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(Kind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.blank_or_end(1) => self.fetch_block_entry(),
            b'?' if flow || self.blank_or_end(1) => self.fetch_key(),
            b':' if flow || self.blank_or_end(1) => self.fetch_value(),
            b'*' => self.fetch_anchor(Kind::Alias),
            b'&' => self.fetch_anchor(Kind::Anchor),
            b'!' => self.fetch_tag(),
            b'|' if !flow => self.fetch_block_scalar(true),
            b'>' if !flow => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted(true),
            b'"' => self.fetch_quoted(false),
            b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(Error::scanner(self.line, self.line, "found character that cannot start any token"))
            }
            _ => self.fetch_plain(),
        }
    }

    /// Skips blanks, comments and line breaks.
    fn skip_to_next_token(&mut self) -> Result<(), Error> {
        let scan = self.mark();
        loop {
            self.need(1)?;
            let tabs = self.flow_level > 0 || !self.key_allowed;
            loop {
                match self.byte(0) {
                    b' ' => self.pos += 1,
                    b'\t' if tabs => self.pos += 1,
                    _ => break,
                }
            }
            self.need(1)?;
            if self.comments.is_some() {
                self.raise_line_comment();
            }
            if self.byte(0) == b'#' {
                if self.comments.is_some() {
                    self.scan_comments(scan)?;
                } else {
                    self.skip_comment();
                }
                self.need(1)?;
            }
            if self.at_break(0) == 0 {
                return Ok(());
            }
            self.need(2)?;
            self.skip_break();
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    /// Moves to the end of the line.
    fn skip_comment(&mut self) {
        let rest = self.bytes.get(self.pos..).unwrap_or_default();
        let end = if self.odd_breaks {
            (0..rest.len()).find(|&i| self.at_break(i) > 0)
        } else {
            memchr::memchr(b'\n', rest)
        };
        self.pos += end.unwrap_or(rest.len());
    }

    /// Closes the blocks that are indented more than the column. `scan` is the start of the preceding white space.
    fn unroll_indent(&mut self, column: i32, scan: Mark) {
        if self.flow_level > 0 {
            return;
        }
        let mut mark = self.mark();
        if self.comments.is_some() {
            mark = Mark { pos: scan.pos.saturating_sub(1), ..scan };
        }
        while self.indent > column {
            mark = self.block_end(mark);
            self.append(Kind::BlockEnd, mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    /// Opens a block collection if the column is indented more. Its token is inserted before token `number`, or appended.
    fn roll_indent(&mut self, number: Option<usize>, kind: Kind, mark: Mark) -> Result<(), Error> {
        if self.flow_level > 0 || self.indent >= mark.column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = mark.column;
        if self.indents.len() > MAX_DEPTH {
            return Err(Error::scanner(self.line, self.line, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        match number {
            Some(number) => self.insert(number, kind, mark),
            None => self.append(kind, mark),
        }
        Ok(())
    }

    /// Records that a simple key can start here.
    fn save_key(&mut self) -> Result<(), Error> {
        if !self.key_allowed {
            return Ok(());
        }
        let mark = self.mark();
        let required = self.flow_level == 0 && self.indent == mark.column;
        let token = self.taken + self.tokens.len();
        self.remove_key()?;
        if let Some(last) = self.keys.last_mut() {
            *last = SimpleKey { possible: true, required, awaited: true, token, mark };
        }
        Ok(())
    }

    /// Discards the possible key of this flow level.
    fn remove_key(&mut self) -> Result<(), Error> {
        let line = self.line;
        if let Some(key) = self.keys.last_mut()
            && key.possible
        {
            if key.required {
                return Err(Error::scanner(line, key.mark.line, "could not find expected ':'"));
            }
            key.possible = false;
        }
        Ok(())
    }

    fn fetch_stream_end(&mut self) -> Result<(), Error> {
        if self.pos != self.line_start {
            self.line_start = self.pos;
            self.line += 1;
        }
        let mark = self.mark();
        self.unroll_indent(-1, mark);
        self.remove_key()?;
        self.key_allowed = false;
        self.append(Kind::StreamEnd, mark);
        Ok(())
    }

    fn fetch_document(&mut self, kind: Kind) -> Result<(), Error> {
        let mark = self.mark();
        self.unroll_indent(-1, mark);
        self.remove_key()?;
        self.key_allowed = false;
        self.pos += 3;
        self.append(kind, mark);
        Ok(())
    }

    fn fetch_flow_start(&mut self, kind: Kind) -> Result<(), Error> {
        self.save_key()?;
        let mark = self.mark();
        self.keys.push(SimpleKey { token: self.taken + self.tokens.len(), mark, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_DEPTH {
            return Err(Error::scanner(self.line, mark.line, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        self.key_allowed = true;
        self.single(kind, mark);
        Ok(())
    }

    fn fetch_flow_end(&mut self, kind: Kind) -> Result<(), Error> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            let closed = self.keys.pop();
            if let (Some(closed), Some(around)) = (closed, self.keys.last_mut())
                && closed.token == around.token
            {
                around.awaited = false;
            }
        }
        self.key_allowed = false;
        let mark = self.mark();
        self.single(kind, mark);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Result<(), Error> {
        self.remove_key()?;
        self.key_allowed = true;
        let mark = self.mark();
        self.single(Kind::FlowEntry, mark);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Result<(), Error> {
        let mark = self.mark();
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(Error::scanner(
                    self.line,
                    self.line,
                    "block sequence entries are not allowed in this context",
                ));
            }
            self.roll_indent(None, Kind::BlockSequenceStart, mark)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.single(Kind::BlockEntry, mark);
        Ok(())
    }

    fn fetch_key(&mut self) -> Result<(), Error> {
        let mark = self.mark();
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(Error::scanner(
                    self.line,
                    self.line,
                    "mapping keys are not allowed in this context",
                ));
            }
            self.roll_indent(None, Kind::BlockMappingStart, mark)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.single(Kind::Key, mark);
        Ok(())
    }

    fn fetch_value(&mut self) -> Result<(), Error> {
        let level = self.keys.len() - 1;
        let mark = self.mark();
        if self.still_possible(level)? {
            let key = self.keys.get(level).copied().unwrap_or_default();
            self.insert(key.token, Kind::Key, key.mark);
            self.roll_indent(Some(key.token), Kind::BlockMappingStart, key.mark)?;
            if let Some(key) = self.keys.get_mut(level) {
                key.possible = false;
            }
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return Err(Error::scanner(
                        self.line,
                        self.line,
                        "mapping values are not allowed in this context",
                    ));
                }
                self.roll_indent(None, Kind::BlockMappingStart, mark)?;
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.single(Kind::Value, mark);
        Ok(())
    }

    fn fetch_plain(&mut self) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark();
        let value = self.scan_plain(mark)?;
        self.scalar(true, mark, value);
        Ok(())
    }

    fn fetch_quoted(&mut self, single: bool) -> Result<(), Error> {
        self.save_key()?;
        self.key_allowed = false;
        let mark = self.mark();
        let value = self.scan_quoted(single, mark)?;
        self.scalar(false, mark, value);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Result<(), Error> {
        self.remove_key()?;
        self.key_allowed = true;
        let mark = self.mark();
        let value = self.scan_block(literal, mark)?;
        self.scalar(false, mark, value);
        Ok(())
    }

    /// Appends a token of one character and skips the character.
    fn single(&mut self, kind: Kind, mark: Mark) {
        self.pos += 1;
        self.append(kind, mark);
    }

    fn scalar(&mut self, plain: bool, mark: Mark, value: Cow<'a, str>) {
        let kind = if plain { Kind::Plain } else { Kind::Quoted };
        self.tokens.push_back(Token { kind, mark, end_line: self.line, value, suffix: None });
    }

    fn append(&mut self, kind: Kind, mark: Mark) {
        self.tokens.push_back(Token::new(kind, mark));
    }

    fn insert(&mut self, number: usize, kind: Kind, mark: Mark) {
        match number.checked_sub(self.taken) {
            Some(at) if at <= self.tokens.len() => self.tokens.insert(at, Token::new(kind, mark)),
            // The key is already taken from the queue, because nothing waited for it.
            _ => self.append(kind, mark),
        }
    }

    /// The scanner's position.
    #[inline]
    fn mark(&self) -> Mark {
        Mark { pos: self.pos, line: self.line, column: self.column() }
    }

    /// The number of characters before this one on its line. In a flow collection the column does not matter and lines can be
    /// long, so there it is the number of bytes.
    #[inline]
    fn column(&self) -> i32 {
        let width = if self.ascii || self.flow_level > 0 {
            self.pos - self.line_start
        } else {
            let line = self.bytes.get(self.line_start..self.pos).unwrap_or_default();
            line.iter().filter(|&&b| b & 0xC0 != 0x80).count()
        };
        i32::try_from(width).unwrap_or(i32::MAX)
    }

    /// The byte at offset `ahead`; 0 after the end, because no text contains NUL.
    #[inline]
    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.pos + ahead).copied().unwrap_or(0)
    }

    /// Fails if a lookahead of `count` characters makes go-yaml decode the piece with the invalid character.
    #[inline]
    fn need(&self, count: usize) -> Result<(), Error> {
        match self.bad {
            Some(problem) => self.need_good(count, problem),
            None => Ok(()),
        }
    }

    #[cold]
    fn need_good(&self, count: usize, problem: &'static str) -> Result<(), Error> {
        let left = self.text.get(self.pos..).unwrap_or_default().chars().take(count).count();
        if left < count { Err(Error::plain(self.line + 1, problem)) } else { Ok(()) }
    }

    /// The length of the line break at offset `ahead`; 0 if there is none.
    #[inline]
    fn at_break(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            b'\n' => 1,
            b'\r' | 0xC2 | 0xE2 if self.odd_breaks => self.odd_break(ahead),
            _ => 0,
        }
    }

    #[cold]
    fn odd_break(&self, ahead: usize) -> usize {
        match self.bytes.get(self.pos + ahead..).unwrap_or_default() {
            [b'\r', b'\n', ..] => 2,
            [b'\r', ..] => 1,
            [0xC2, 0x85, ..] => 2,
            [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
            _ => 0,
        }
    }

    /// Whether a blank, a line break or the end is at offset `ahead`.
    #[inline]
    fn blank_or_end(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t' | 0) || self.at_break(ahead) > 0
    }

    /// Whether `---` or `...` is here, followed by a blank. Valid only at the start of a line.
    fn at_indicator(&self, mark: u8) -> bool {
        self.byte(0) == mark && self.byte(1) == mark && self.byte(2) == mark && self.blank_or_end(3)
    }

    /// Whether the scanner is at a document marker at the start of a line.
    fn at_document_indicator(&self) -> bool {
        self.pos == self.line_start && (self.at_indicator(b'-') || self.at_indicator(b'.'))
    }

    /// Skips a line break, if there is one.
    fn skip_break(&mut self) {
        let width = self.at_break(0);
        if width > 0 {
            self.pos += width;
            self.line += 1;
            self.line_start = self.pos;
        }
    }

    /// Skips a line break and returns its value: Unicode separators stay, other line breaks become line feeds.
    fn read_break(&mut self) -> Option<char> {
        let read = match self.at_break(0) {
            0 => return None,
            3 => self.text.get(self.pos..).and_then(|rest| rest.chars().next()),
            _ => Some('\n'),
        };
        self.skip_break();
        read
    }
}
