//! The everyday form of a manifest, recognized line by line.
//!
//! Owns a check that only ever says yes: a text that passes is YAML that every reader accepts and that has a JSON form, so that of a
//! manifest of a megabyte only the lines of its head need to be read in earnest. It knows mappings and sequences in block form,
//! one-line scalars, block scalars and plain scalars that go on; whatever else a text holds, the real reader decides.

#[cfg(test)]
mod tests;

/// Texts beyond this size are left to the reader and its bounds.
const MAX_BYTES: usize = 16 << 20;

/// How deep a text may nest: less than any reader bounds.
const MAX_DEPTH: usize = 100;

/// How long a key may be; YAML bounds keys at 1,024 characters.
const MAX_KEY: usize = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    Seq,
}

/// An open block collection: the column of its keys or dashes.
#[derive(Clone, Copy)]
struct Level {
    column: usize,
    kind: Kind,
}

/// What the line before left open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    /// Nothing: the next line is a sibling or ends levels.
    No,
    /// A value, which may stand on the next line.
    Value,
    /// A plain scalar, which may go on.
    Plain,
    /// A block scalar, whose lines follow.
    Block,
}

struct Lines {
    levels: Vec<Level>,
    open: Open,
    /// The column of a block scalar's text, once it is known.
    block: Option<usize>,
}

/// The lines of the top-level keys that `wanted` names, with all that belongs to them, if the whole text has the everyday form.
pub(super) fn fields(text: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    if text.len() > MAX_BYTES || !is_everyday_text(text) {
        return None;
    }
    let mut lines = Lines { levels: Vec::with_capacity(16), open: Open::No, block: None };
    let mut out = Vec::new();
    let (mut keeps, mut at) = (false, 0);
    while at < text.len() {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n);
        if let Some(key) = lines.line(&text[at..end])? {
            keeps = wanted(key);
        }
        let next = text.len().min(end + 1);
        if keeps {
            out.extend_from_slice(&text[at..next]);
        }
        at = next;
    }
    (!lines.levels.is_empty()).then_some(out)
}

/// Whether every character is one that YAML takes for just itself: no control characters but line feeds and tabs, none of the rarer
/// line breaks.
fn is_everyday_text(text: &[u8]) -> bool {
    // Written so that it runs on many bytes at once.
    let odd =
        text.iter().fold(false, |odd, c| odd | (*c < b' ' && *c != b'\n' && *c != b'\t') | (*c == 0x7f));
    if odd {
        return false;
    }
    if text.is_ascii() {
        return true;
    }
    // Beyond ASCII: U+0085, U+2028 and U+2029 are line breaks, others are no characters of YAML.
    std::str::from_utf8(text).is_ok_and(|text| {
        text.chars().all(|c| {
            c.is_ascii()
                || matches!(c, '\u{a1}'..='\u{2027}' | '\u{202a}'..='\u{d7ff}' | '\u{10000}'..='\u{1ffff}')
        })
    })
}

fn spaces(line: &[u8]) -> usize {
    line.iter().take_while(|c| **c == b' ').count()
}

/// A key at the start of a text, and what follows its colon, without spaces.
fn key(text: &[u8]) -> Option<(&[u8], usize)> {
    if !text.first()?.is_ascii_alphabetic() {
        return None;
    }
    let is_key = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.' | b'/');
    let size = text.iter().take_while(|c| is_key(c)).count();
    let key = &text[..size];
    if text.get(size) != Some(&b':') || size > MAX_KEY || key.eq_ignore_ascii_case(b"null") {
        return None;
    }
    match text.get(size + 1) {
        None => Some((key, size + 1)),
        Some(b' ') => Some((key, size + 1 + spaces(&text[size + 1..]))),
        Some(_) => None,
    }
}

/// Whether a plain scalar holds nothing that ends it or makes it a key.
fn is_plain_text(text: &[u8]) -> bool {
    !text.ends_with(b":")
        && memchr::memchr_iter(b':', text).all(|n| !matches!(text[n + 1], b' ' | b'\t'))
        && memchr::memchr_iter(b'#', text).all(|n| n > 0 && !matches!(text[n - 1], b' ' | b'\t'))
}

impl Lines {
    /// Takes a line; gives its key if it is one of the top level.
    fn line<'t>(&mut self, line: &'t [u8]) -> Option<Option<&'t [u8]>> {
        let column = spaces(line);
        let text = &line[column..];
        if self.open == Open::Block {
            // What the collection around it has as column ends it, and so does any line that stands less deep.
            let parent = self.levels.last()?.column;
            match (self.block, text.is_empty()) {
                (None, true) if column > 0 => return None,
                (_, true) => return Some(None),
                (None, false) if column > parent => {
                    self.block = Some(column);
                    return (text[0] != b'\t').then_some(None);
                }
                (Some(own), false) if column >= own => return Some(None),
                (Some(_), false) if column > parent => return None,
                _ => {
                    self.open = Open::No;
                    self.block = None;
                }
            }
        }
        if memchr::memchr(b'\t', text).is_some() {
            return None;
        }
        let text = text.trim_ascii_end();
        if text.is_empty() {
            return Some(None);
        }
        if text[0] == b'#' {
            if self.open == Open::Plain {
                self.open = Open::No;
            }
            return Some(None);
        }
        if column == 0 && (text.starts_with(b"---") || text.starts_with(b"...")) {
            return None;
        }
        if self.open == Open::Plain && column > self.levels.last()?.column {
            let starts = text[0].is_ascii_alphanumeric()
                || matches!(text[0], b'(' | b'"' | b'\'' | b'`' | b'/' | b'<');
            return (starts && is_plain_text(text)).then_some(None);
        }
        self.node(column, text)
    }

    /// A line that begins with a key or a dash.
    fn node<'t>(&mut self, mut column: usize, mut text: &'t [u8]) -> Option<Option<&'t [u8]>> {
        let mut starts_line = true;
        let top = column == 0;
        loop {
            let dash = text[0] == b'-' && matches!(text.get(1), None | Some(b' '));
            let found = if dash { None } else { key(text) };
            let kind = if dash { Kind::Seq } else { Kind::Map };
            if !dash && found.is_none() {
                // A scalar as an item of a sequence, or what this check does not know.
                return if starts_line { None } else { self.scalar(text).map(|()| None) };
            }
            self.enter(column, kind, starts_line)?;
            let skip = match found {
                Some((_, skip)) => skip,
                None => 1 + spaces(&text[1..]),
            };
            let rest = &text[skip..];
            if rest.is_empty() || rest[0] == b'#' {
                // A comment after a dash or colon has a space before it.
                self.open = Open::Value;
                return Some(found.map(|f| f.0).filter(|_| top && starts_line));
            }
            if let Some((key, _)) = found {
                self.scalar(rest)?;
                return Some((top && starts_line).then_some(key));
            }
            column += skip;
            text = rest;
            starts_line = false;
        }
    }

    /// Comes to an entry of a collection at that column: one that is open, or a new one where a value is wanted.
    fn enter(&mut self, column: usize, kind: Kind, starts_line: bool) -> Option<()> {
        let level = Level { column, kind };
        let opens = match self.levels.last() {
            None => column == 0 && kind == Kind::Map,
            // What follows a dash on its line is its item.
            Some(_) if !starts_line => true,
            Some(last) if self.open == Open::Value => {
                column > last.column || column == last.column && last.kind == Kind::Map && kind == Kind::Seq
            }
            Some(_) => false,
        };
        self.open = Open::No;
        if opens {
            self.levels.push(level);
            return (self.levels.len() < MAX_DEPTH).then_some(());
        }
        while let Some(last) = self.levels.last() {
            if last.column == column && last.kind == kind {
                return Some(());
            }
            // A sequence may stand at the column of the key that it belongs to.
            if last.column < column || last.column == column && last.kind == Kind::Map {
                return None;
            }
            self.levels.pop();
        }
        None
    }

    /// A scalar that begins on this line, not empty.
    fn scalar(&mut self, text: &[u8]) -> Option<()> {
        self.open = Open::No;
        match text {
            b"|" | b"|-" | b"|+" | b">" | b">-" | b">+" => {
                self.open = Open::Block;
                return Some(());
            }
            b"[]" | b"{}" => return Some(()),
            _ => {}
        }
        match text[0] {
            quote @ (b'"' | b'\'') => {
                let inner = &text[1..];
                let end = memchr::memchr(quote, inner)?;
                let escapes = quote == b'"' && memchr::memchr(b'\\', &inner[..end]).is_some();
                (end + 1 == inner.len() && !escapes).then_some(())
            }
            c if c.is_ascii_alphanumeric() || matches!(c, b'/' | b'_' | b'$' | b'(' | b'^' | b'\\') => {
                self.open = Open::Plain;
                is_plain_text(text).then_some(())
            }
            b'-' | b'+' => {
                self.open = Open::Plain;
                // Infinities begin with a sign and a dot.
                let second = *text.get(1)?;
                ((second.is_ascii_alphanumeric() || second == b'-') && is_plain_text(text)).then_some(())
            }
            _ => None,
        }
    }
}
