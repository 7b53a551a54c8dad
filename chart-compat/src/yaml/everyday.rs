//! The everyday form of YAML, recognized line by line.
//!
//! Owns a check that only ever says yes: a text that passes is YAML that every reader accepts and that has a JSON form. So of a
//! manifest of a megabyte only the lines of its head need to be read in earnest, and a chart's values are taken from their lines
//! without tokens and events. It knows mappings and sequences in block form, flow collections and quoted scalars of one line, block
//! scalars and plain scalars that go on; whatever else a text holds, the real reader decides.

mod flow;
mod taker;
#[cfg(test)]
mod tests;

use taker::{Block, Skip, Take, Values, folded};

use super::sink::Sink;

/// Texts beyond this size are left to the reader and its bounds.
const MAX_BYTES: usize = 16 << 20;

/// How deep a text may nest: less than any reader bounds.
const MAX_DEPTH: usize = 100;

/// How long a key may be; YAML bounds keys at 1,024 characters.
const MAX_KEY: usize = 256;

/// How long a key may be that starts with a digit: one that is no number, or one that fits.
const MAX_DIGITS: usize = 18;

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
enum Open<'t> {
    /// Nothing: the next line is a sibling or ends levels.
    No,
    /// A value, which may stand on the next line.
    Value,
    /// A plain scalar, which may go on: its first line.
    Plain(&'t str),
    /// A quoted scalar, which goes on.
    Quoted(u8),
    /// A block scalar, whose lines follow: what it says of its last line breaks.
    Block(&'t str),
}

struct Lines<'t, T> {
    take: T,
    /// Whether the document has said where it starts.
    started: bool,
    levels: Vec<Level>,
    open: Open<'t>,
    /// The lines on which a plain scalar goes on, empty ones too.
    more: Vec<&'t str>,
    /// A block scalar, from its second line on.
    block: Option<Block<'t>>,
}

/// The lines of the top-level keys that `wanted` names, with all that belongs to them, if the whole text has the everyday form.
pub(super) fn fields(text: &[u8], wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut keeps = false;
    walk(text, Skip, |key, line| {
        if let Some(key) = key {
            keeps = wanted(key.as_bytes());
        }
        if keeps {
            out.extend_from_slice(line.as_bytes());
        }
    })?;
    Some(out)
}

/// Hands a mapping's values to the sink if the whole text has the everyday form; else what the sink got means nothing.
pub(super) fn read<S: Sink>(text: &[u8], sink: &mut S) -> Option<()> {
    walk(text, Values(sink), |_, _| ())
}

/// Goes through the lines; `each` gets the top-level key that a line starts with, and the line with its end.
fn walk<'t, T: Take>(bytes: &'t [u8], take: T, mut each: impl FnMut(Option<&'t str>, &'t str)) -> Option<()> {
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let text = everyday_text(bytes)?;
    let mut lines = Lines {
        take,
        started: false,
        levels: Vec::with_capacity(16),
        open: Open::No,
        more: Vec::new(),
        block: None,
    };
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', &bytes[at..]).map_or(text.len(), |n| at + n);
        let key = lines.line(&text[at..end])?;
        let next = text.len().min(end + 1);
        each(key, &text[at..next]);
        at = next;
    }
    // A last line without an end is kept as it is by block scalars.
    let cut = T::VALUES && !text.ends_with('\n') && lines.block.is_some();
    if cut || lines.levels.is_empty() {
        return None;
    }
    lines.close()?;
    while let Some(level) = lines.levels.pop() {
        lines.take.end(level.kind);
    }
    Some(())
}

/// The text, if every character is one that YAML takes for just itself: no control characters but line feeds and tabs, none of the
/// rarer line breaks.
fn everyday_text(bytes: &[u8]) -> Option<&str> {
    // Written so that it runs on many bytes at once.
    let odd =
        bytes.iter().fold(false, |odd, c| odd | (*c < b' ' && *c != b'\n' && *c != b'\t') | (*c == 0x7f));
    if odd {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    // Beyond ASCII: U+0085, U+2028 and U+2029 are line breaks, others are no characters of YAML.
    let everyday = bytes.is_ascii()
        || text.chars().all(|c| {
            c.is_ascii()
                || matches!(c, '\u{a0}'..='\u{2027}' | '\u{202a}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}' | '\u{10000}'..)
        });
    everyday.then_some(text)
}

fn spaces(text: &str) -> usize {
    text.bytes().take_while(|c| *c == b' ').count()
}

/// Whether nothing follows but a comment, which has a space before it.
fn is_done(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(' ') && matches!(rest.as_bytes().get(spaces(rest)), None | Some(b'#'))
}

/// A key.
#[derive(Clone, Copy)]
struct Key<'t> {
    text: &'t str,
    quoted: bool,
}

/// Which bytes a plain key may hold.
static KEY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
        byte += 1;
    }
    table
};

/// A key at the start of a text, and where what follows its colon begins, without spaces.
fn key(text: &str) -> Option<(Key<'_>, usize)> {
    let bytes = text.as_bytes();
    let (key, size) = match *bytes.first()? {
        quote @ (b'"' | b'\'') => {
            let inner = text.get(1..)?;
            let end = memchr::memchr(quote, inner.as_bytes())?;
            let own = &inner[..end];
            // Escapes are left to the reader.
            if own.contains('\\') || own == "<<" || inner.as_bytes().get(end + 1) == Some(&quote) {
                return None;
            }
            (Key { text: own, quoted: true }, end + 2)
        }
        c if c.is_ascii_alphanumeric() || c == b'.' => {
            let size = bytes.iter().position(|c| !KEY[usize::from(*c)]).unwrap_or(bytes.len());
            (Key { text: &text[..size], quoted: false }, size)
        }
        _ => return None,
    };
    // Numbers that are too large have no JSON form as keys; null has none either, nor has what is no number.
    let odd = ["null", ".inf", ".nan"].iter().any(|word| key.text.eq_ignore_ascii_case(word))
        || !bytes[0].is_ascii_alphabetic() && size > MAX_DIGITS;
    if bytes.get(size) != Some(&b':') || size > MAX_KEY || !key.quoted && odd {
        return None;
    }
    match bytes.get(size + 1) {
        None => Some((key, size + 1)),
        Some(b' ') => Some((key, size + 1 + spaces(&text[size + 1..]))),
        Some(_) => None,
    }
}

/// Whether a plain scalar holds nothing that ends it or makes it a key.
fn is_plain_text(text: &str) -> bool {
    let text = text.as_bytes();
    !text.ends_with(b":")
        && memchr::memchr_iter(b':', text).all(|n| !matches!(text[n + 1], b' ' | b'\t'))
        && memchr::memchr_iter(b'#', text).all(|n| n > 0 && !matches!(text[n - 1], b' ' | b'\t'))
}

/// Where the quote that closes stands in what follows the one that opens, or nothing if it is on another line; not for rare escapes.
fn closing(quote: u8, inner: &str) -> Option<Option<usize>> {
    let bytes = inner.as_bytes();
    let mut from = 0;
    while let Some(n) = memchr::memchr2(quote, b'\\', &bytes[from..]) {
        let at = from + n;
        let next = bytes.get(at + 1).copied();
        from = match (bytes[at], quote) {
            (b'\\', b'"') if next.is_some_and(|c| matches!(c, b'\\' | b'"' | b'n' | b't')) => at + 2,
            (b'\\', b'"') => return None,
            (b'\\', _) => at + 1,
            (_, b'\'') if next == Some(quote) => at + 2,
            _ => return Some(Some(at)),
        };
    }
    Some(None)
}

impl<'t, T: Take> Lines<'t, T> {
    /// Takes a line; gives its key if it is one of the top level.
    fn line(&mut self, line: &'t str) -> Option<Option<&'t str>> {
        let column = spaces(line);
        let text = &line[column..];
        if let Open::Block(_) = self.open {
            // What the collection around it has as column ends it, and so does any line that stands less deep.
            let parent = self.levels.last()?.column;
            let block = self.block.get_or_insert_default();
            match block.column {
                _ if text.is_empty() => return block.blank(column, T::VALUES).then_some(None),
                None if column > parent => return block.begin(column, text, T::VALUES).then_some(None),
                Some(own) if column >= own => {
                    block.push(&line[own..], T::VALUES);
                    return Some(None);
                }
                Some(_) if column > parent && !text.starts_with('#') => return None,
                _ => self.close()?,
            }
        }
        let comment = text.starts_with('#') && !matches!(self.open, Open::Quoted(_));
        if !comment && memchr::memchr(b'\t', text.as_bytes()).is_some() {
            return None;
        }
        let text = text.trim_ascii_end();
        if text.is_empty() {
            if T::VALUES && matches!(self.open, Open::Plain(_)) {
                self.more.push(text);
            }
            return Some(None);
        }
        if let Open::Quoted(quote) = self.open {
            return self.quoted_on(quote, column, text).map(|()| None);
        }
        if comment {
            if let Open::Plain(_) = self.open {
                self.close()?;
            }
            return Some(None);
        }
        if column == 0 && (text.starts_with("---") || text.starts_with("...")) {
            // A document may say where it starts, once: another one is another document.
            let starts = text == "---" && self.levels.is_empty() && !self.started;
            self.started = true;
            return starts.then_some(None);
        }
        if let Open::Plain(_) = self.open
            && column > self.levels.last()?.column
        {
            // A dash would be no item here, but whoever wrote it may have meant one.
            let item = text == "-" || text.starts_with("- ");
            if T::VALUES {
                self.more.push(text);
            }
            return (!item && is_plain_text(text)).then_some(None);
        }
        self.node(column, text)
    }

    /// Ends what the lines before left open.
    fn close(&mut self) -> Option<()> {
        while self.more.last().is_some_and(|l| l.is_empty()) {
            self.more.pop();
        }
        match std::mem::replace(&mut self.open, Open::No) {
            Open::No => {}
            Open::Value => self.take.null(),
            Open::Plain(text) if self.more.is_empty() => self.take.plain(text)?,
            Open::Plain(text) => {
                self.take.text(folded(text, &self.more));
                self.more.clear();
            }
            Open::Quoted(_) => return None,
            Open::Block(header) => {
                let block = self.block.take();
                if T::VALUES {
                    self.take.text(block?.text(header)?.into());
                }
            }
        }
        Some(())
    }

    /// A line that begins with a key or a dash, or a value that was to come.
    fn node(&mut self, mut column: usize, mut text: &'t str) -> Option<Option<&'t str>> {
        let mut starts_line = true;
        let top = column == 0;
        loop {
            let bytes = text.as_bytes();
            let dash = bytes[0] == b'-' && matches!(bytes.get(1), None | Some(b' '));
            let found = if dash { None } else { key(text) };
            let kind = if dash { Kind::Seq } else { Kind::Map };
            if !dash && found.is_none() {
                // A scalar as an item of a sequence or on a line of its own, or what this check does not know.
                let wanted = !starts_line || self.open == Open::Value && column > self.levels.last()?.column;
                return if wanted { self.scalar(text).map(|()| None) } else { None };
            }
            self.enter(column, kind, starts_line)?;
            let skip = match found {
                Some((key, skip)) => {
                    self.take.key(key.text, key.quoted)?;
                    skip
                }
                None => 1 + spaces(&text[1..]),
            };
            let rest = &text[skip..];
            let own = found.map(|f| f.0.text).filter(|_| top && starts_line);
            if rest.is_empty() || rest.starts_with('#') {
                // A comment after a dash or colon has a space before it.
                self.open = Open::Value;
                return Some(own);
            }
            if found.is_some() {
                self.scalar(rest)?;
                return Some(own);
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
            // Manifests are mappings.
            None => column == 0 && (kind == Kind::Map || T::VALUES),
            // What follows a dash on its line is its item.
            Some(_) if !starts_line => true,
            Some(last) if self.open == Open::Value => {
                column > last.column || column == last.column && last.kind == Kind::Map && kind == Kind::Seq
            }
            Some(_) => false,
        };
        if opens {
            self.open = Open::No;
            self.take.begin(kind);
            self.levels.push(level);
            return (self.levels.len() < MAX_DEPTH).then_some(());
        }
        self.close()?;
        while let Some(last) = self.levels.last() {
            if last.column == column && last.kind == kind {
                return Some(());
            }
            // A sequence may stand at the column of the key that it belongs to.
            if last.column < column || last.column == column && last.kind == Kind::Map {
                return None;
            }
            self.take.end(last.kind);
            self.levels.pop();
        }
        None
    }

    /// A value that begins on this line, not empty.
    fn scalar(&mut self, text: &'t str) -> Option<()> {
        self.open = Open::No;
        let bytes = text.as_bytes();
        match bytes[0] {
            b'|' | b'>' if matches!(text, "|" | "|-" | "|+" | ">" | ">-" | ">+") => {
                self.open = Open::Block(text);
                Some(())
            }
            b'[' | b'{' => is_done(flow::value(text, &mut self.take)?).then_some(()),
            quote @ (b'"' | b'\'') => {
                let inner = &text[1..];
                match closing(quote, inner)? {
                    Some(end) => {
                        self.take.quoted(quote, &inner[..end]);
                        is_done(&inner[end + 1..]).then_some(())
                    }
                    None => {
                        self.open = Open::Quoted(quote);
                        (!T::VALUES).then_some(())
                    }
                }
            }
            c => {
                if !starts_plain(c, bytes.get(1).copied()) && text != "~" {
                    return None;
                }
                // With a comment behind it a scalar does not go on.
                if let Some(end) = memchr::memmem::find(bytes, b" #") {
                    let own = text[..end].trim_ascii_end();
                    self.take.plain(own)?;
                    return is_plain_text(own).then_some(());
                }
                self.open = Open::Plain(text);
                is_plain_text(text).then_some(())
            }
        }
    }

    /// A line of a quoted scalar that began on an earlier one.
    fn quoted_on(&mut self, quote: u8, column: usize, text: &str) -> Option<()> {
        if column <= self.levels.last()?.column {
            return None;
        }
        if let Some(end) = closing(quote, text)? {
            self.open = Open::No;
            return is_done(&text[end + 1..]).then_some(());
        }
        Some(())
    }
}

/// Whether a plain scalar can start so, which is no sign of YAML's then.
fn starts_plain(first: u8, second: Option<u8>) -> bool {
    match first {
        b'/' | b'_' | b'$' | b'(' | b'^' | b'\\' => true,
        // Infinities begin with a sign and a dot.
        b'-' | b'+' => second.is_some_and(|c| c.is_ascii_alphanumeric() || c == b'-'),
        b'.' => second.is_none_or(|c| !matches!(c, b'i' | b'I' | b'n' | b'N')),
        b':' => second.is_some_and(|c| c.is_ascii_alphanumeric()),
        c => c.is_ascii_alphanumeric(),
    }
}
