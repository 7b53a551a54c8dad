//! The decoder: one pass over the text, with the library's error texts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::go::layout::{self, Place};
use crate::go::object::Time;
use crate::go::unicode::is_letter;
use crate::go::zone::Zone;
use crate::go::{Arena, Elem, Map, MapKind, Object, Value, strconv};

use super::super::dates::in_zone;
use super::write::push_key;

/// Zone names that mark a date or time without an offset, so that the encoder can recognize it.
pub(super) const LOCAL_DATETIME: &str = "datetime-local";
pub(super) const LOCAL_DATE: &str = "date-local";
pub(super) const LOCAL_TIME: &str = "time-local";

/// Maximal nesting of values and tables.
const MAX_DEPTH: usize = 1000;

enum Node<'a> {
    Value(Value<'a>),
    Table(Table<'a>),
    /// `[[name]]`
    Tables(Vec<Table<'a>>),
}

#[derive(Default)]
struct Table<'a> {
    entries: BTreeMap<String, Node<'a>>,
    /// Created by the header of a nested table only, so it can still be defined once.
    implicit: bool,
}

impl<'a> Table<'a> {
    fn into_value(self, arena: &'a Arena) -> Value<'a> {
        let map = Map::with_capacity(arena, MapKind::Any, self.entries.len());
        for (key, node) in self.entries {
            let value = match node {
                Node::Value(v) => v,
                Node::Table(t) => t.into_value(arena),
                Node::Tables(all) => {
                    let all: Vec<Value<'a>> = all.into_iter().map(|t| t.into_value(arena)).collect();
                    Value::typed_list(arena, Elem::Map, &all)
                }
            };
            map.insert(arena.alloc_slice_copy(key.as_bytes()), value);
        }
        Value::Map(map)
    }
}

struct Reader<'a, 't> {
    arena: &'a Arena,
    zone: &'t Zone,
    /// The input up to its first byte that is not valid UTF-8.
    text: &'t str,
    /// The first byte that is not valid UTF-8.
    broken: Option<u8>,
    at: usize,
    line: usize,
    /// The path of the current table, and of the keys being read within it.
    context: Vec<String>,
    /// The key whose value is being read.
    key: String,
    /// The line where the last key began.
    key_line: usize,
}

type Read<T> = Result<T, String>;

/// Decodes a document into a map.
///
/// # Errors
/// The library's text, e.g. `toml: line 1 (last key "a"): expected value but found '\n' instead`.
pub(super) fn from_toml<'a>(arena: &'a Arena, text: &[u8], zone: &Zone) -> Read<Value<'a>> {
    let (text, broken) = match text.utf8_chunks().next() {
        Some(first) => (first.valid(), first.invalid().first().copied()),
        None => ("", None),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.bytes().take(6).any(|b| b == 0) {
        return Err(
            "toml: line 1: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8"
                .into(),
        );
    }
    let mut reader = Reader {
        arena,
        zone,
        text,
        broken,
        at: 0,
        line: 1,
        context: Vec::new(),
        key: String::new(),
        key_line: 1,
    };
    let mut root = Table::default();
    while reader.item(&mut root)? {}
    if broken.is_some() {
        return reader.error("");
    }
    Ok(root.into_value(arena))
}

fn format_key(key: &[String]) -> String {
    let mut out = Vec::new();
    for (i, part) in key.iter().enumerate() {
        if i > 0 {
            out.push(b'.');
        }
        push_key(&mut out, part.as_bytes());
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn rune(c: char) -> String {
    strconv::quote_rune(c)
}

impl<'a> Reader<'a, '_> {
    fn error<T>(&self, message: &str) -> Read<T> {
        self.error_at(self.line, message)
    }

    fn error_at<T>(&self, mut line: usize, message: &str) -> Read<T> {
        let mut message = Cow::Borrowed(message);
        // At the end of `text` the error is the invalid byte that ended it.
        if let Some(byte) = self.broken.filter(|_| self.at >= self.text.len()) {
            (line, message) = (self.line, format!("invalid UTF-8 byte: 0x{byte:02x}").into());
        }
        let key = match (self.key.is_empty(), self.context.is_empty()) {
            (true, true) => String::new(),
            (true, false) => format_key(&self.context),
            (false, true) => self.key.clone(),
            (false, false) => format!("{}.{}", format_key(&self.context), self.key),
        };
        Err(if key.is_empty() {
            format!("toml: line {line}: {message}")
        } else {
            format!("toml: line {line} (last key {}): {message}", strconv::quote(key.as_bytes()))
        })
    }

    /// An error at the next character. At the end of the text, a final line feed belongs to the line it ends.
    fn unexpected<T>(&self, message: &str) -> Read<T> {
        let past = self.at >= self.text.len() && self.text.ends_with('\n');
        self.error_at(if past { self.line - 1 } else { self.line }, message)
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Read<Option<char>> {
        let Some(c) = self.peek() else { return Ok(None) };
        let lone = c == '\r' && !self.rest().starts_with("\r\n");
        if lone || c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r') {
            return self
                .error(&format!("TOML files cannot contain control characters: '0x{:02x}'", u32::from(c)));
        }
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
        Ok(Some(c))
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// Skips blanks, line breaks and comments.
    fn gaps(&mut self) -> Read<()> {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\n' | '\r') => {
                    self.bump()?;
                }
                Some('#') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Read<()> {
        while !matches!(self.peek(), None | Some('\n' | '\r')) {
            self.bump()?;
        }
        Ok(())
    }

    /// Reads one item; false at the end.
    fn item(&mut self, root: &mut Table<'a>) -> Read<bool> {
        self.gaps()?;
        match self.peek() {
            None => return Ok(false),
            Some('[') => self.header(root)?,
            Some(_) => {
                let path = self.key_path()?;
                let outer = self.context.clone();
                let value = self.keyed_value(&path, outer.len())?;
                self.put(root, &path, value, 0)?;
                self.context = outer;
                self.key.clear();
            }
        }
        self.blanks();
        match self.peek() {
            None => Ok(false),
            Some('#' | '\n') => Ok(true),
            Some('\r') => self.bump().map(|_| true),
            Some(c) => self.error(&format!(
                "expected a top-level item to end with a newline, comment, or EOF, but got {} instead",
                rune(c)
            )),
        }
    }

    fn header(&mut self, root: &mut Table<'a>) -> Read<()> {
        self.at += 1;
        let many = self.eat('[');
        let mut path = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                None | Some(']') => {
                    return self.error("unexpected end of table name (table names cannot be empty)");
                }
                Some('.') => return self.error("unexpected table separator (table names cannot be empty)"),
                Some(_) => {}
            }
            if path.is_empty() {
                self.key_line = self.line;
            }
            path.push(self.key_part()?);
            self.blanks();
            match self.bump()? {
                Some('.') => {}
                Some(']') => break,
                Some(c) => {
                    let got = rune(c);
                    return self
                        .error(&format!("expected '.' or ']' to end table name, but got {got} instead"));
                }
                None => {
                    let got = rune('\0');
                    return self.unexpected(&format!(
                        "expected '.' or ']' to end table name, but got {got} instead"
                    ));
                }
            }
        }
        if many {
            let next = self.bump()?;
            if next != Some(']') {
                let got = rune(next.unwrap_or('\0'));
                let text = format!("expected end of table array name delimiter ']', but got {got} instead");
                return if next.is_some() { self.error(&text) } else { self.unexpected(&text) };
            }
        }
        self.check_depth(path.len())?;
        self.open(root, path, many)
    }

    /// Each part of a key and of a header is a table within the one before.
    fn check_depth(&self, depth: usize) -> Read<()> {
        if depth > MAX_DEPTH {
            return self.error(&format!("values are nested deeper than {MAX_DEPTH}"));
        }
        Ok(())
    }

    /// Opens the table of a header. `many`: it is an item of an array of tables.
    fn open(&mut self, root: &mut Table<'a>, path: Vec<String>, many: bool) -> Read<()> {
        self.context.clear();
        self.key.clear();
        let Some((last, parents)) = path.split_last() else { return Ok(()) };
        let mut table = root;
        for (i, part) in parents.iter().enumerate() {
            let node = table
                .entries
                .entry(part.clone())
                .or_insert_with(|| Node::Table(Table { implicit: true, ..Table::default() }));
            table = match node {
                Node::Table(t) => t,
                Node::Tables(all) => match all.last_mut() {
                    Some(t) => t,
                    None => return Ok(()),
                },
                Node::Value(_) => {
                    let key = format_key(&path[..=i]);
                    return self
                        .error_at(self.key_line, &format!("Key '{key}' was already created as a hash."));
                }
            };
        }
        match (table.entries.get_mut(last), many) {
            (None, true) => {
                table.entries.insert(last.clone(), Node::Tables(vec![Table::default()]));
            }
            (None, false) => {
                table.entries.insert(last.clone(), Node::Table(Table::default()));
            }
            (Some(Node::Tables(all)), true) => all.push(Table::default()),
            (Some(Node::Table(t)), false) if t.implicit => t.implicit = false,
            (Some(_), many) => {
                self.context = parents.to_vec();
                let key = format_key(&path);
                return self.error_at(
                    self.key_line,
                    &if many {
                        format!("Key '{key}' was already created and cannot be used as an array.")
                    } else {
                        format!("Key '{key}' has already been defined.")
                    },
                );
            }
        }
        self.context = path;
        Ok(())
    }

    fn key_part(&mut self) -> Read<String> {
        match self.peek() {
            Some('"') => {
                self.at += 1;
                self.basic_string()
            }
            Some('\'') => {
                self.at += 1;
                self.raw_string()
            }
            _ => {
                let n = self
                    .rest()
                    .bytes()
                    .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
                    .count();
                let part = self.rest()[..n].to_owned();
                self.at += n;
                Ok(part)
            }
        }
    }

    /// Reads the parts of a key and its `=`.
    fn key_path(&mut self) -> Read<Vec<String>> {
        self.blanks();
        match self.peek() {
            None | Some('=') => return self.error("unexpected '=': key name appears blank"),
            Some('.') => return self.error("unexpected '.': keys cannot start with a '.'"),
            Some(_) => {}
        }
        self.key_line = self.line;
        let mut path = Vec::new();
        loop {
            self.blanks();
            path.push(self.key_part()?);
            self.blanks();
            match self.peek() {
                Some('.') => {
                    self.at += 1;
                    self.blanks();
                    match self.peek() {
                        None | Some('=') => return self.error("unexpected '='"),
                        Some('.') => return self.error("unexpected '.'"),
                        Some(_) => {}
                    }
                }
                Some('=') => {
                    self.at += 1;
                    return Ok(path);
                }
                None => return self.unexpected("unexpected EOF; expected key separator '='"),
                Some(c) => return self.error(&format!("expected '.' or '=', but got {} instead", rune(c))),
            }
        }
    }

    /// Reads the value of a key, which becomes the current key. `depth` is that of the table that holds the key.
    fn keyed_value(&mut self, path: &[String], depth: usize) -> Read<Node<'a>> {
        let (last, parents) = match path.split_last() {
            Some((last, parents)) => (last.clone(), parents.to_vec()),
            None => return Ok(Node::Value(Value::Nil)),
        };
        self.key = last;
        let depth = depth + parents.len();
        self.check_depth(depth)?;
        self.context.extend(parents);
        self.blanks();
        self.value(depth)
    }

    /// Sets the value of the current key. `root` is the table at `context[..above]`; the rest of the context includes the parents
    /// in `path`.
    fn put(&mut self, root: &mut Table<'a>, path: &[String], value: Node<'a>, above: usize) -> Read<()> {
        let mut table = root;
        let context = self.context[above..].to_vec();
        let dotted = context.len() - (path.len() - 1);
        for (i, part) in context.iter().enumerate() {
            let new = !table.entries.contains_key(part);
            let node = table.entries.entry(part.clone()).or_insert_with(|| Node::Table(Table::default()));
            table = match node {
                Node::Table(t) => {
                    if i >= dotted {
                        t.implicit = new;
                    }
                    t
                }
                Node::Tables(all) => match all.last_mut() {
                    Some(t) => t,
                    None => return Ok(()),
                },
                Node::Value(_) => {
                    let key = format_key(&self.context[..=above + i]);
                    return self.error_at(self.key_line, &format!("Key '{key}' has already been defined."));
                }
            };
        }
        if let Some(Node::Table(t)) = table.entries.get_mut(&self.key)
            && t.implicit
        {
            // The library takes the value for the definition of the implicit table, once.
            t.implicit = false;
            return Ok(());
        }
        if table.entries.contains_key(&self.key) {
            let key = format_key(&[&self.context[..], std::slice::from_ref(&self.key)].concat());
            return self.error_at(self.key_line, &format!("Key '{key}' has already been defined."));
        }
        table.entries.insert(self.key.clone(), value);
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Read<Node<'a>> {
        self.check_depth(depth)?;
        let value = match self.peek() {
            None => return self.unexpected("unexpected EOF; expected value"),
            Some('[') => {
                self.at += 1;
                stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.array(depth))?
            }
            Some('{') => {
                self.at += 1;
                let table = stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.inline_table(depth))?;
                return Ok(Node::Table(table));
            }
            Some('"') => {
                let text = if self.rest().starts_with("\"\"\"") {
                    self.at += 3;
                    self.multiline_string()?
                } else {
                    self.at += 1;
                    self.basic_string()?
                };
                Value::str(self.arena, text)
            }
            Some('\'') => {
                let text = if self.rest().starts_with("'''") {
                    self.at += 3;
                    self.raw_multiline_string()?
                } else {
                    self.at += 1;
                    self.raw_string()?
                };
                Value::str(self.arena, text)
            }
            Some('.') => return self.error("floats must start with a digit, not '.'"),
            Some('+' | '-') => self.signed_number()?,
            Some('0'..='9') => self.number_or_date()?,
            Some(c) if is_letter(c) => self.word()?,
            Some(c) => return self.error(&format!("expected value but found {} instead", rune(c))),
        };
        Ok(Node::Value(value))
    }

    fn word(&mut self) -> Read<Value<'a>> {
        for (word, value) in [("inf", Value::Float(f64::INFINITY)), ("nan", Value::Float(f64::NAN))] {
            if self.rest().starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        let word: String = self.rest().chars().take_while(|c| is_letter(*c)).collect();
        self.at += word.len();
        match &*word {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            _ => self.error(&format!("expected value but found {} instead", strconv::quote(word.as_bytes()))),
        }
    }

    fn array(&mut self, depth: usize) -> Read<Value<'a>> {
        let mut items = Vec::new();
        loop {
            self.gaps()?;
            match self.peek() {
                Some(',') => return self.error("unexpected comma"),
                Some(']') => break,
                _ => {}
            }
            items.push(match self.value(depth + 1)? {
                Node::Value(v) => v,
                Node::Table(t) => t.into_value(self.arena),
                Node::Tables(_) => Value::Nil,
            });
            self.gaps()?;
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => break,
                other => {
                    let got = other.map_or_else(|| "end of file".to_owned(), |c| format!("'{c}'"));
                    return self.unexpected(&format!(
                        "expected a comma (',') or array terminator (']'), but got {got}"
                    ));
                }
            }
        }
        self.at += 1;
        Ok(Value::list(self.arena, &items))
    }

    fn inline_table(&mut self, depth: usize) -> Read<Table<'a>> {
        let (outer, outer_key) = (self.context.clone(), self.key.clone());
        let mut table = Table::default();
        self.context.push(std::mem::take(&mut self.key));
        let inner = self.context.clone();
        loop {
            self.gaps()?;
            match self.peek() {
                Some(',') => return self.error("unexpected comma"),
                Some('}') => break,
                _ => {}
            }
            let path = self.key_path()?;
            let value = self.keyed_value(&path, depth + 1)?;
            self.put(&mut table, &path, value, inner.len())?;
            self.context.clone_from(&inner);
            self.gaps()?;
            match self.peek() {
                Some(',') => self.at += 1,
                Some('}') => break,
                other => {
                    let got = other.map_or_else(|| "end of file".to_owned(), |c| format!("'{c}'"));
                    return self.unexpected(&format!(
                        "expected a comma or an inline table terminator '}}', but got {got} instead"
                    ));
                }
            }
        }
        self.at += 1;
        self.context = outer;
        self.key = outer_key;
        Ok(table)
    }

    fn basic_string(&mut self) -> Read<String> {
        let mut out = String::new();
        loop {
            match self.peek() {
                None => return self.unexpected("unexpected EOF; expected '\"'"),
                Some('\n' | '\r') => return self.error("strings cannot contain newlines"),
                Some('"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some('\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                Some(_) => out.extend(self.bump()?),
            }
        }
    }

    fn raw_string(&mut self) -> Read<String> {
        let mut out = String::new();
        loop {
            match self.peek() {
                None => return self.unexpected("unexpected EOF; expected \"'\""),
                Some('\n' | '\r') => return self.error("strings cannot contain newlines"),
                Some('\'') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(_) => out.extend(self.bump()?),
            }
        }
    }

    fn first_newline(&mut self) {
        for start in ["\n", "\r\n"] {
            if self.rest().starts_with(start) {
                self.at += start.len();
                self.line += 1;
                return;
            }
        }
    }

    /// The number of consecutive `quote` characters here, up to six.
    fn quotes(&self, quote: char) -> usize {
        self.rest().chars().take(6).take_while(|c| *c == quote).count()
    }

    fn multiline_string(&mut self) -> Read<String> {
        let mut out = String::new();
        self.first_newline();
        loop {
            match self.peek() {
                None => return self.unexpected("unexpected EOF; expected '\"\"\"'"),
                Some('"') => match self.quotes('"') {
                    n @ 3..=5 => {
                        out.extend(std::iter::repeat_n('"', n - 3));
                        self.at += n;
                        return Ok(out);
                    }
                    6.. => return self.error("unexpected '\"\"\"\"\"\"'"),
                    n => {
                        out.extend(std::iter::repeat_n('"', n));
                        self.at += n;
                    }
                },
                Some('\\') => {
                    self.at += 1;
                    let blank =
                        self.rest().len() - self.rest().trim_start_matches([' ', '\t', '\r', '\n']).len();
                    if self.rest()[..blank].contains('\n') {
                        self.line += self.rest()[..blank].matches('\n').count();
                        self.at += blank;
                    } else {
                        self.escape(&mut out)?;
                    }
                }
                Some(_) => out.extend(self.bump()?),
            }
        }
    }

    fn raw_multiline_string(&mut self) -> Read<String> {
        let mut out = String::new();
        self.first_newline();
        loop {
            match self.peek() {
                None => return self.unexpected("unexpected EOF; expected \"'''\""),
                Some('\'') => match self.quotes('\'') {
                    n @ 3..=5 => {
                        out.extend(std::iter::repeat_n('\'', n - 3));
                        self.at += n;
                        return Ok(out);
                    }
                    6.. => return self.error("unexpected \"''''''\""),
                    n => {
                        out.extend(std::iter::repeat_n('\'', n));
                        self.at += n;
                    }
                },
                Some(_) => out.extend(self.bump()?),
            }
        }
    }

    /// Reads an escape sequence after its backslash.
    fn escape(&mut self, out: &mut String) -> Read<()> {
        let (width, name, words) = match self.bump()? {
            Some('b') => return self.escaped(out, '\x08'),
            Some('t') => return self.escaped(out, '\t'),
            Some('n') => return self.escaped(out, '\n'),
            Some('f') => return self.escaped(out, '\x0c'),
            Some('r') => return self.escaped(out, '\r'),
            Some('e') => return self.escaped(out, '\x1b'),
            Some(c @ ('"' | '\\')) => return self.escaped(out, c),
            Some(c @ (' ' | '\t')) => return self.error(&format!("invalid escape: '\\{c}'")),
            Some('x') => (2, 'x', "two"),
            Some('u') => (4, 'u', "four"),
            Some('U') => (8, 'U', "eight"),
            other => {
                let c = other.unwrap_or_default();
                return self.error(&format!("invalid escape in string '\\{c}'"));
            }
        };
        let start = self.at - 2;
        for _ in 0..width {
            if !self.bump()?.is_some_and(|c| c.is_ascii_hexdigit()) {
                let got = strconv::quote(self.text.get(start..self.at).unwrap_or_default().as_bytes());
                return self.error(&format!(
                    "expected {words} hexadecimal digits after '\\{name}', but got {got} instead"
                ));
            }
        }
        let digits = self.text.get(start + 2..self.at).unwrap_or_default();
        match u32::from_str_radix(digits, 16).ok().and_then(char::from_u32) {
            Some(c) => self.escaped(out, c),
            None => self.error(&format!("Escaped character '\\u{digits}' is not valid UTF-8.")),
        }
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    fn escaped(&self, out: &mut String, c: char) -> Read<()> {
        out.push(c);
        Ok(())
    }

    fn take(&mut self, ok: impl Fn(char) -> bool) -> String {
        let taken: String = self.rest().chars().take_while(|c| ok(*c)).collect();
        self.at += taken.len();
        taken
    }

    fn signed_number(&mut self) -> Read<Value<'a>> {
        let sign = self.bump()?.unwrap_or_default();
        let rest = self.rest();
        for (word, value) in [("inf", f64::INFINITY), ("nan", f64::NAN)] {
            if rest.starts_with(word) {
                self.at += 3;
                return Ok(Value::Float(if sign == '-' { -value } else { value }));
            }
        }
        match rest.chars().next() {
            Some(c @ ('i' | 'n')) => self.error(&format!("invalid float: '{sign}{c}'")),
            Some('0') if rest[1..].starts_with(['b', 'o', 'x']) => {
                self.error(&format!("cannot use sign with non-decimal numbers: '{sign}{}'", &rest[..2]))
            }
            Some('.') => self.error("floats must start with a digit, not '.'"),
            Some('0'..='9') => {
                let text = format!(
                    "{sign}{}",
                    self.take(|c| c.is_ascii_digit() || matches!(c, '_' | '.' | 'e' | 'E' | '+' | '-'))
                );
                self.number(&text)
            }
            Some(c) => self.error(&format!("expected a digit but got {}", rune(c))),
            None => self.unexpected(&format!("expected a digit but got {}", rune('\0'))),
        }
    }

    fn number_or_date(&mut self) -> Read<Value<'a>> {
        let rest = self.rest();
        for (prefix, radix, what) in
            [("0b", 2, "a binary"), ("0o", 8, "an octal"), ("0x", 16, "a hexadecimal")]
        {
            if let Some(digits) = rest.strip_prefix(prefix) {
                if !digits.starts_with(|c: char| c.is_digit(radix)) {
                    let c = digits.chars().next().unwrap_or_default();
                    return self.unexpected(&format!("not {what} number: '{prefix}{c}'"));
                }
                self.at += 2;
                let text = format!("{prefix}{}", self.take(|c| c == '_' || c.is_digit(radix)));
                return self.integer(&text);
            }
        }
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if matches!(rest.as_bytes().get(digits), Some(b'-' | b':')) {
            let text = self.take(|c| {
                c.is_ascii_digit() || matches!(c, '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+')
            });
            return self.datetime(text.trim());
        }
        let text = self.take(|c| c.is_ascii_digit() || matches!(c, '_' | '.' | 'e' | 'E' | '+' | '-'));
        self.number(&text)
    }

    fn number(&mut self, text: &str) -> Read<Value<'a>> {
        if !text.contains(['.', 'e', 'E']) {
            return self.integer(text);
        }
        let bad = |what: &str| format!("Invalid float {}: {what}", strconv::quote(text.as_bytes()));
        let parts: Vec<&str> = text.split(['.', 'e', 'E']).filter(|p| !p.is_empty()).collect();
        if !parts.iter().all(|p| underscores_ok(p)) {
            return self.error(&bad("underscores must be surrounded by digits"));
        }
        if parts.first().is_some_and(|p| leading_zero(p)) {
            return self.error(&bad("cannot have leading zeroes"));
        }
        let mut after = text.split('.').skip(1);
        if !after.all(|p| p.starts_with(|c: char| c.is_ascii_digit())) {
            return self.error(&bad("'.' must be followed by one or more digits"));
        }
        match strconv::parse_float(&text.replace('_', "")) {
            Ok(f) => Ok(Value::Float(f)),
            Err(strconv::NumError::Range) => self.error(&format!("{text} is out of range for float64")),
            Err(strconv::NumError::Syntax) => {
                self.error(&format!("Invalid float value: {}", strconv::quote(text.as_bytes())))
            }
        }
    }

    fn integer(&mut self, text: &str) -> Read<Value<'a>> {
        let bad = |what: &str| format!("Invalid integer {}: {what}", strconv::quote(text.as_bytes()));
        // As in the library, the letters of a base prefix count as digits.
        if !underscores_ok(text) {
            return self.error(&bad("underscores must be surrounded by digits"));
        }
        if leading_zero(text) {
            return self.error(&bad("cannot have leading zeroes"));
        }
        match strconv::parse_int(text, 0) {
            Ok(n) => Ok(Value::Int64(n)),
            Err(_) => self.error(&format!("{text} is out of range for int64")),
        }
    }

    fn datetime(&mut self, text: &str) -> Read<Value<'a>> {
        let text = text.replace('z', "Z").replace(['t', ' '], "T");
        let forms: [(&str, Option<&'static str>); 7] = [
            (layout::RFC3339_NANO, None),
            ("2006-01-02T15:04:05.999999999", Some(LOCAL_DATETIME)),
            ("2006-01-02", Some(LOCAL_DATE)),
            ("15:04:05.999999999", Some(LOCAL_TIME)),
            ("2006-01-02T15:04Z07:00", None),
            ("2006-01-02T15:04", Some(LOCAL_DATETIME)),
            ("15:04", Some(LOCAL_TIME)),
        ];
        let utc = Zone::utc();
        for (form, local) in forms {
            let zone = if local.is_some() { &utc } else { self.zone };
            let Ok(parsed) = layout::parse(form.as_bytes(), text.as_bytes(), zone) else { continue };
            if missing_zero(&text, form) {
                break;
            }
            let (seconds, nanos) = (parsed.seconds, parsed.nanos);
            let time = match (local, parsed.place) {
                // The library uses the machine's offset; the encoded value does not depend on it.
                (Some(name), _) => Time { seconds, nanos, offset: 0, abbreviation: name, zone: "" },
                (None, Place::Utc) => in_zone(self.arena, seconds, nanos, &utc),
                (None, Place::Local) => in_zone(self.arena, seconds, nanos, self.zone),
                (None, Place::Fixed(offset, _)) => {
                    Time { seconds, nanos, offset, abbreviation: "", zone: "" }
                }
            };
            return Ok(Value::object(self.arena, Object::Time(time)));
        }
        self.error(&format!("invalid datetime: {}", strconv::quote(text.as_bytes())))
    }
}

fn leading_zero(s: &str) -> bool {
    let b = s.as_bytes();
    match b {
        [b'0', b'b' | b'o' | b'x', ..] => false,
        [b'0', _, ..] => true,
        [b'+' | b'-', b'0', _, ..] => true,
        _ => false,
    }
}

/// Whether each underscore follows a digit, and the text ends with a digit.
fn underscores_ok(s: &str) -> bool {
    let mut accept = false;
    for c in s.chars() {
        if c == '_' && !accept {
            return false;
        }
        accept = c.is_ascii_hexdigit();
    }
    accept
}

/// Go accepts numbers without their leading zero. Then the separators are at other positions than in the layout.
fn missing_zero(text: &str, form: &str) -> bool {
    for (i, c) in form.bytes().enumerate() {
        if matches!(c, b'.' | b'Z') {
            return false;
        }
        if !c.is_ascii_digit() && text.as_bytes().get(i) != Some(&c) {
            return true;
        }
    }
    false
}
