//! The lexer of templates (`text/template/parse/lex.go`).

use super::ast::Span;
use crate::go::fmt::decode;
use crate::go::{strconv, unicode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Bool,
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    Dot,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

/// A token: its kind and the span of its text. The message of an error token is in the [`Lexer`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) span: Span,
}

pub(super) struct Lexer<'t> {
    text: &'t [u8],
    pos: usize,
    start: usize,
    inside: bool,
    parens: usize,
    /// The message of the error token, which is always the last token.
    pub(super) error: Option<String>,
}

const END: char = '\0';

fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || if c.is_ascii() { c.is_ascii_alphanumeric() } else { c.is_alphabetic() || c.is_numeric() }
}

/// ASCII letters, digits and underscore.
static WORD: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_';
        byte += 1;
    }
    table
};

fn keyword(word: &[u8]) -> Option<Kind> {
    Some(match word {
        b"block" => Kind::Block,
        b"break" => Kind::Break,
        b"continue" => Kind::Continue,
        b"define" => Kind::Define,
        b"else" => Kind::Else,
        b"end" => Kind::End,
        b"if" => Kind::If,
        b"nil" => Kind::Nil,
        b"range" => Kind::Range,
        b"template" => Kind::Template,
        b"with" => Kind::With,
        _ => return None,
    })
}

fn trim_end(s: &[u8]) -> usize {
    s.iter().rposition(|&c| !is_space(c)).map_or(0, |n| n + 1)
}

/// A rune as Go's `%#U` prints it.
fn rune_name(c: Option<char>) -> String {
    match c {
        Some(c) if unicode::is_print(c) => format!("U+{:04X} '{c}'", u32::from(c)),
        Some(c) => format!("U+{:04X}", u32::from(c)),
        None => "U+FFFFFFFFFFFFFFFF".to_owned(),
    }
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, pos: 0, start: 0, inside: false, parens: 0, error: None }
    }

    fn rest(&self) -> &'t [u8] {
        &self.text[self.pos..]
    }

    /// The token from the start mark to the current position.
    fn emit(&mut self, kind: Kind) -> Token {
        let span = Span::new(self.start, self.pos);
        self.start = self.pos;
        Token { kind, span }
    }

    fn ignore(&mut self) {
        self.start = self.pos;
    }

    fn fail(&mut self, text: impl Into<String>) -> Token {
        self.error = Some(text.into());
        Token { kind: Kind::Error, span: Span::new(self.start, self.start) }
    }

    pub(super) fn next_token(&mut self) -> Token {
        if self.error.is_some() {
            return Token { kind: Kind::Eof, span: Span::new(self.start, self.start) };
        }
        if self.inside { self.inside_action() } else { self.text() }
    }

    /// The position of the next `{{`.
    fn find_left_delim(&self) -> Option<usize> {
        let rest = self.rest();
        let mut from = 0;
        loop {
            let n = from + memchr::memchr(b'{', &rest[from..])?;
            if rest.get(n + 1) == Some(&b'{') {
                return Some(n);
            }
            from = n + 1;
        }
    }

    fn text(&mut self) -> Token {
        loop {
            let Some(x) = self.find_left_delim() else {
                self.pos = self.text.len();
                return self.emit(if self.pos > self.start { Kind::Text } else { Kind::Eof });
            };
            let delim = self.pos + x;
            let after = &self.text[delim + 2..];
            let trim = after.len() >= 2 && after[0] == b'-' && is_space(after[1]);
            if x > 0 {
                let from = self.start;
                self.pos = if trim { from + trim_end(&self.text[from..delim]) } else { delim };
                let token = self.emit(Kind::Text);
                self.pos = delim;
                self.ignore();
                if !token.span.is_empty() {
                    return token;
                }
            }
            // The left delimiter, or a comment.
            let marker = if trim { 2 } else { 0 };
            if self.text[delim + 2 + marker..].starts_with(b"/*") {
                self.pos = delim + 2 + marker;
                self.ignore();
                match memchr::memmem::find(&self.text[self.pos + 2..], b"*/") {
                    None => {
                        self.pos += 2;
                        return self.fail("unclosed comment");
                    }
                    Some(n) => self.pos += 2 + n + 2,
                }
                let Some(trim) = self.at_right_delim() else {
                    return self.fail("comment ends before closing delimiter");
                };
                self.pos += if trim { 4 } else { 2 };
                if trim {
                    self.skip_spaces();
                }
                self.ignore();
                continue;
            }
            self.pos = delim + 2;
            let token = self.emit(Kind::LeftDelim);
            self.inside = true;
            self.pos += marker;
            self.ignore();
            self.parens = 0;
            return token;
        }
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.pos += rest.iter().position(|c| !is_space(*c)).unwrap_or(rest.len());
    }

    /// Whether a right delimiter starts here, and if so, whether it trims.
    fn at_right_delim(&self) -> Option<bool> {
        match self.rest() {
            [b'}', b'}', ..] => Some(false),
            [c, b'-', b'}', b'}', ..] if is_space(*c) => Some(true),
            _ => None,
        }
    }

    fn right_delim(&mut self, trim: bool) -> Token {
        if trim {
            self.pos += 2;
            self.ignore();
        }
        self.pos += 2;
        let token = self.emit(Kind::RightDelim);
        if trim {
            self.skip_spaces();
            self.ignore();
        }
        self.inside = false;
        token
    }

    fn peek(&self) -> Option<char> {
        (self.pos < self.text.len()).then(|| decode(self.rest()).0)
    }

    fn bump(&mut self) -> char {
        if self.pos >= self.text.len() {
            return END;
        }
        let (c, n) = decode(self.rest());
        self.pos += n;
        c
    }

    fn inside_action(&mut self) -> Token {
        if let Some(trim) = self.at_right_delim() {
            return if self.parens == 0 { self.right_delim(trim) } else { self.fail("unclosed left paren") };
        }
        let Some(&first) = self.text.get(self.pos) else { return self.fail("unclosed action") };
        let c = if first.is_ascii() { char::from(first) } else { decode(self.rest()).0 };
        match c {
            ' ' | '\t' | '\r' | '\n' => return self.space(),
            '"' => return self.quote(),
            '`' => return self.raw_quote(),
            '\'' => return self.char_constant(),
            '+' | '-' | '0'..='9' => return self.number(),
            '.' if self.text.get(self.pos + 1).is_some_and(u8::is_ascii_digit) => return self.number(),
            '.' if self.pos + 1 >= self.text.len() => return self.number(),
            _ if is_alphanumeric(c) => return self.identifier(),
            _ => {}
        }
        if first.is_ascii() {
            self.pos += 1;
        } else {
            self.bump();
        }
        match c {
            '=' => self.emit(Kind::Assign),
            ':' => {
                if self.bump() == '=' {
                    self.emit(Kind::Declare)
                } else {
                    self.fail("expected :=")
                }
            }
            '|' => self.emit(Kind::Pipe),
            '$' => self.field_or_variable(Kind::Variable),
            '.' => self.field_or_variable(Kind::Field),
            '(' => {
                self.parens += 1;
                self.emit(Kind::LeftParen)
            }
            ')' if self.parens == 0 => self.fail("unexpected right paren"),
            ')' => {
                self.parens -= 1;
                self.emit(Kind::RightParen)
            }
            '!'..='~' => self.emit(Kind::Char),
            _ => self.fail(format!("unrecognized character in action: {}", rune_name(Some(c)))),
        }
    }

    fn space(&mut self) -> Token {
        let from = self.pos;
        self.skip_spaces();
        if self.rest().starts_with(b"-}}") {
            self.pos -= 1;
            if self.pos == from {
                return self.right_delim(true);
            }
        }
        self.emit(Kind::Space)
    }

    fn at_terminator(&self) -> bool {
        match self.rest().first() {
            None => true,
            Some(b' ' | b'\t' | b'\r' | b'\n' | b'.' | b',' | b'|' | b':' | b')' | b'(') => true,
            Some(_) => self.rest().starts_with(b"}}"),
        }
    }

    fn word(&mut self) {
        loop {
            let rest = self.rest();
            self.pos += rest.iter().position(|c| !WORD[usize::from(*c)]).unwrap_or(rest.len());
            match self.text.get(self.pos) {
                Some(c) if !c.is_ascii() && self.peek().is_some_and(is_alphanumeric) => {
                    self.bump();
                }
                _ => return,
            }
        }
    }

    fn identifier(&mut self) -> Token {
        self.word();
        if !self.at_terminator() {
            let text = format!("bad character {}", rune_name(self.peek()));
            return self.fail(text);
        }
        let word = &self.text[self.start..self.pos];
        let kind = match word {
            b"true" | b"false" => Kind::Bool,
            _ => keyword(word).unwrap_or(Kind::Identifier),
        };
        self.emit(kind)
    }

    fn field_or_variable(&mut self, kind: Kind) -> Token {
        if self.at_terminator() {
            return self.emit(if kind == Kind::Variable { kind } else { Kind::Dot });
        }
        self.word();
        if !self.at_terminator() {
            let text = format!("bad character {}", rune_name(self.peek()));
            return self.fail(text);
        }
        self.emit(kind)
    }

    /// Fast path for an ASCII field directly after another field. `None`: not a field, or one that [`Self::next_token`] must
    /// read.
    pub(super) fn plain_field(&mut self) -> Option<Span> {
        let (dot, rest) = self.rest().split_first()?;
        let starts = rest.first().is_some_and(|c| WORD[usize::from(*c)] && !c.is_ascii_digit());
        if *dot != b'.' || !starts {
            return None;
        }
        let end = rest.iter().position(|c| !WORD[usize::from(*c)])?;
        if !matches!(rest[end], b' ' | b'.' | b')' | b'|') {
            return None;
        }
        self.pos += 1 + end;
        Some(self.emit(Kind::Field).span)
    }

    /// Advances past the closing quote; false if the line or the text ends first.
    fn quoted(&mut self, quote: u8) -> bool {
        self.pos += 1;
        while let Some(n) = memchr::memchr3(quote, b'\\', b'\n', self.rest()) {
            self.pos += n;
            match self.rest() {
                [b'\n', ..] | [b'\\'] | [b'\\', b'\n', ..] => return false,
                [b'\\', _, ..] => self.pos += 2,
                _ => {
                    self.pos += 1;
                    return true;
                }
            }
        }
        false
    }

    fn quote(&mut self) -> Token {
        if self.quoted(b'"') { self.emit(Kind::String) } else { self.fail("unterminated quoted string") }
    }

    fn char_constant(&mut self) -> Token {
        if self.quoted(b'\'') {
            self.emit(Kind::CharConstant)
        } else {
            self.fail("unterminated character constant")
        }
    }

    fn raw_quote(&mut self) -> Token {
        match memchr::memchr(b'`', &self.text[self.pos + 1..]) {
            None => self.fail("unterminated raw quoted string"),
            Some(n) => {
                self.pos += n + 2;
                self.emit(Kind::RawString)
            }
        }
    }

    fn number(&mut self) -> Token {
        let good = self.scan_number();
        let complex = good && matches!(self.rest().first(), Some(b'+' | b'-'));
        if !good || complex && (!self.scan_number() || self.text[self.pos - 1] != b'i') {
            let text = &self.text[self.start..self.pos];
            let text = format!("bad number syntax: {}", strconv::quote(text));
            return self.fail(text);
        }
        self.emit(if complex { Kind::Complex } else { Kind::Number })
    }

    fn accept(&mut self, valid: &[u8]) -> bool {
        let ok = self.rest().first().is_some_and(|c| valid.contains(c));
        self.pos += usize::from(ok);
        ok
    }

    fn scan_number(&mut self) -> bool {
        self.accept(b"+-");
        let (mut digits, mut exponent): (&[u8], &[u8]) = (b"0123456789_", b"eE");
        if self.accept(b"0") {
            if self.accept(b"xX") {
                (digits, exponent) = (b"0123456789abcdefABCDEF_", b"pP");
            } else if self.accept(b"oO") {
                (digits, exponent) = (b"01234567_", b"");
            } else if self.accept(b"bB") {
                (digits, exponent) = (b"01_", b"");
            }
        }
        while self.accept(digits) {}
        if self.accept(b".") {
            while self.accept(digits) {}
        }
        if self.accept(exponent) {
            self.accept(b"+-");
            while self.accept(b"0123456789_") {}
        }
        self.accept(b"i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }
}
