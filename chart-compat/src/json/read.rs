//! The JSON decoder.

use crate::data::{Data, Map};
use crate::go::strconv::{parse_float, quote_byte};

/// Maximal nesting of values. Go allows 10,000, but walking such a tree needs more stack than a thread has.
const MAX_DEPTH: usize = 1_000;

/// A decoding error, with the text of Go's `encoding/json`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A character is not allowed at its position.
    #[error("invalid character {} {context}", quote_byte(*.byte))]
    Character {
        /// The character's first byte.
        byte: u8,
        /// The position, in Go's words.
        context: &'static str,
        /// The byte offset in the text.
        offset: usize,
    },
    /// The text ends too early.
    #[error("unexpected end of JSON input")]
    End,
    /// A stream ends within a value.
    #[error("unexpected EOF")]
    UnexpectedEof,
    /// A stream ends before a value.
    #[error("EOF")]
    Eof,
    /// A value does not have the requested type.
    #[error("json: cannot unmarshal {value} into Go value of type {target}")]
    Type {
        /// The kind of the value.
        value: String,
        /// The requested Go type.
        target: &'static str,
    },
}

/// Go's `json.Unmarshal` into an `interface{}`: every number is a float.
///
/// # Errors
/// If the text is not a JSON value, or contains a number out of range.
pub fn from_slice(text: &[u8]) -> Result<Data, Error> {
    let (value, overflow) = whole(text)?;
    overflow.map_or(Ok(value), Err)
}

/// Go's `json.Unmarshal` into a `map[string]interface{}`; null becomes an empty map.
///
/// # Errors
/// If the text is not a JSON object, or contains a number out of range.
pub fn from_slice_map(text: &[u8]) -> Result<Map, Error> {
    match whole(text)? {
        (Data::Map(_), Some(overflow)) => Err(overflow),
        (Data::Map(map), None) => Ok(map),
        (Data::Null, None) => Ok(Map::new()),
        (other, _) => Err(wrong_type(&other, "map[string]interface {}")),
    }
}

/// Go's `json.Unmarshal` into an `[]interface{}`; null becomes an empty list.
///
/// # Errors
/// If the text is not a JSON array, or contains a number out of range.
pub fn from_slice_list(text: &[u8]) -> Result<Vec<Data>, Error> {
    match whole(text)? {
        (Data::List(_), Some(overflow)) => Err(overflow),
        (Data::List(list), None) => Ok(list),
        (Data::Null, None) => Ok(Vec::new()),
        (other, _) => Err(wrong_type(&other, "[]interface {}")),
    }
}

/// The type that JSON is decoded into.
pub(crate) trait Tree: Sized {
    fn null() -> Self;
    fn bool(value: bool) -> Self;
    /// A number from its literal. `Err` is the placeholder of a number out of range.
    fn number(literal: &str) -> Result<Self, Self>;
    fn string(text: String) -> Self;
    fn list(items: Vec<Self>) -> Self;
    /// Of two entries with one key the later one wins.
    fn map(entries: Vec<(String, Self)>) -> Self;
}

impl Tree for Data {
    fn null() -> Self {
        Self::Null
    }

    fn bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn number(literal: &str) -> Result<Self, Self> {
        // Of a number out of range only the kind matters.
        parse_float(literal).map(Self::Float).map_err(|_| Self::Float(0.0))
    }

    fn string(text: String) -> Self {
        Self::String(text)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(entries: Vec<(String, Self)>) -> Self {
        Self::Map(entries.into_iter().collect())
    }
}

/// The only value of a text, and the error of its first number out of range.
fn whole(text: &[u8]) -> Result<(Data, Option<Error>), Error> {
    let mut reader = Reader::new(text);
    let value = reader.value(0)?;
    reader.skip_space();
    match reader.peek() {
        Some(byte) => Err(reader.refuse(byte, "after top-level value")),
        None => Ok((value, reader.overflow)),
    }
}

/// Go's `json.Decoder.Decode`: the first value of the text, and the offset of its end.
///
/// # Errors
/// If the text does not begin with a JSON value.
pub fn first_value(text: &[u8]) -> Result<(Data, usize), Error> {
    first_tree(text)
}

/// Like [`first_value`], into any tree.
pub(crate) fn first_tree<T: Tree>(text: &[u8]) -> Result<(T, usize), Error> {
    let mut reader = Reader { stream: true, ..Reader::new(text) };
    reader.skip_space();
    if reader.peek().is_none() {
        return Err(Error::Eof);
    }
    match reader.value(0) {
        Ok(value) => reader.overflow.map_or(Ok((value, reader.at)), Err),
        Err(Error::End) => Err(Error::UnexpectedEof),
        Err(error) => Err(error),
    }
}

/// The error of Go's decoder when a value does not fit the target type.
pub(crate) fn wrong_type(value: &Data, target: &'static str) -> Error {
    Error::Type { value: type_name(value).to_owned(), target }
}

/// The name of the value's kind in Go's errors.
pub(crate) fn type_name(value: &Data) -> &'static str {
    match value {
        Data::Null => "null",
        Data::Bool(_) => "bool",
        Data::Int(_) | Data::Float(_) => "number",
        Data::String(_) => "string",
        Data::List(_) => "array",
        Data::Map(_) => "object",
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    /// Whether the text is the start of a stream, so its end is not an invalid character.
    stream: bool,
    /// The error of the first number out of range. It is returned only if the text is valid JSON.
    overflow: Option<Error>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, stream: false, overflow: None }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn refuse(&self, byte: u8, context: &'static str) -> Error {
        Error::Character { byte, context, offset: self.at }
    }

    /// The next byte. At the end of a text that is not a stream, Go reports an invalid space.
    fn next_byte(&self, context: &'static str) -> Result<u8, Error> {
        match self.peek() {
            Some(byte) => Ok(byte),
            None if self.stream => Err(Error::End),
            None => Err(self.refuse(b' ', context)),
        }
    }

    /// The next byte after white space; the end of the text is an error.
    fn next_mark(&mut self) -> Result<u8, Error> {
        self.skip_space();
        self.peek().ok_or(Error::End)
    }

    fn value<T: Tree>(&mut self, depth: usize) -> Result<T, Error> {
        match self.next_mark()? {
            open @ (b'{' | b'[') if depth >= MAX_DEPTH => Err(self.refuse(open, "exceeded max depth")),
            b'{' => self.map(depth + 1),
            b'[' => self.list(depth + 1),
            b'"' => self.string().map(T::string),
            b't' => self.literal("true", T::bool(true)),
            b'f' => self.literal("false", T::bool(false)),
            b'n' => self.literal("null", T::null()),
            b'-' | b'0'..=b'9' => self.number(),
            byte => Err(self.refuse(byte, "looking for beginning of value")),
        }
    }

    fn map<T: Tree>(&mut self, depth: usize) -> Result<T, Error> {
        self.at += 1;
        let mut map = Vec::new();
        if self.next_mark()? == b'}' {
            self.at += 1;
            return Ok(T::map(map));
        }
        loop {
            match self.next_mark()? {
                b'"' => {}
                byte => return Err(self.refuse(byte, "looking for beginning of object key string")),
            }
            let key = self.string()?;
            match self.next_mark()? {
                b':' => self.at += 1,
                byte => return Err(self.refuse(byte, "after object key")),
            }
            let value = self.value(depth)?;
            map.push((key, value));
            match self.next_mark()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Ok(T::map(map));
                }
                byte => return Err(self.refuse(byte, "after object key:value pair")),
            }
        }
    }

    fn list<T: Tree>(&mut self, depth: usize) -> Result<T, Error> {
        self.at += 1;
        let mut list = Vec::new();
        if self.next_mark()? == b']' {
            self.at += 1;
            return Ok(T::list(list));
        }
        loop {
            list.push(self.value(depth)?);
            match self.next_mark()? {
                b',' => self.at += 1,
                b']' => {
                    self.at += 1;
                    return Ok(T::list(list));
                }
                byte => return Err(self.refuse(byte, "after array element")),
            }
        }
    }

    fn literal<T: Tree>(&mut self, word: &'static str, value: T) -> Result<T, Error> {
        for (i, wanted) in word.bytes().enumerate() {
            let context = match (word, i) {
                ("true", 1) => "in literal true (expecting 'r')",
                ("true", 2) => "in literal true (expecting 'u')",
                ("true", _) => "in literal true (expecting 'e')",
                ("false", 1) => "in literal false (expecting 'a')",
                ("false", 2) => "in literal false (expecting 'l')",
                ("false", 3) => "in literal false (expecting 's')",
                ("false", _) => "in literal false (expecting 'e')",
                (_, 1) => "in literal null (expecting 'u')",
                _ => "in literal null (expecting 'l')",
            };
            match self.next_byte(context)? {
                byte if byte == wanted => self.at += 1,
                byte => return Err(self.refuse(byte, context)),
            }
        }
        Ok(value)
    }

    /// Skips digits, at least one.
    fn digits(&mut self, context: &'static str) -> Result<(), Error> {
        match self.next_byte(context)? {
            b'0'..=b'9' => {}
            byte => return Err(self.refuse(byte, context)),
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    fn number<T: Tree>(&mut self) -> Result<T, Error> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let text = self.text.get(from..self.at).and_then(|t| std::str::from_utf8(t).ok()).unwrap_or_default();
        T::number(text).or_else(|stand_in| {
            let value = format!("number {text}");
            self.overflow.get_or_insert(Error::Type { value, target: "float64" });
            Ok(stand_in)
        })
    }

    fn string(&mut self) -> Result<String, Error> {
        self.at += 1;
        let mut done: Vec<u8> = Vec::new();
        let mut from = self.at;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            if let Some(n) = rest[..plain].iter().position(|byte| *byte < 0x20) {
                self.at += n;
                return Err(self.refuse(rest[n], "in string literal"));
            }
            self.at += plain;
            match self.peek() {
                None => return Err(Error::End),
                Some(b'"') => {
                    let tail = self.text.get(from..self.at).unwrap_or_default();
                    self.at += 1;
                    if done.is_empty() {
                        return Ok(super::replace_invalid(tail).into_owned());
                    }
                    done.extend_from_slice(tail);
                    return Ok(String::from_utf8(done)
                        .unwrap_or_else(|e| super::replace_invalid(e.as_bytes()).into_owned()));
                }
                // A backslash.
                Some(_) => {
                    done.extend_from_slice(self.text.get(from..self.at).unwrap_or_default());
                    self.at += 1;
                    let c = self.escape()?;
                    done.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                    from = self.at;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        let byte = self.next_byte("in string escape code")?;
        let plain = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\x08',
            b'f' => '\x0C',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                let first = self.unit()?;
                let pair = if (0xD800..0xDC00).contains(&first) { self.low_surrogate(first)? } else { None };
                // A single surrogate becomes U+FFFD.
                let code = pair.unwrap_or(first);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => return Err(self.refuse(byte, "in string escape code")),
        };
        self.at += 1;
        Ok(plain)
    }

    /// Parses the four digits of `\uXXXX`.
    fn unit(&mut self) -> Result<u32, Error> {
        let mut code = 0;
        for _ in 0..4 {
            let context = "in \\u hexadecimal character escape";
            let byte = self.next_byte(context)?;
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(self.refuse(byte, context));
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }

    /// Parses the second half of a surrogate pair, if it follows.
    fn low_surrogate(&mut self, high: u32) -> Result<Option<u32>, Error> {
        if self.text.get(self.at..self.at + 2) != Some(b"\\u") {
            return Ok(None);
        }
        let back = self.at;
        self.at += 2;
        let low = self.unit()?;
        if (0xDC00..0xE000).contains(&low) {
            return Ok(Some(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)));
        }
        self.at = back;
        Ok(None)
    }
}
