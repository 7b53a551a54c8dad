//! Go's regular expressions: the dialect, and how Go finds, replaces and splits.
//!
//! Owns the dialect's parser and the loops over single matches. The `regex` engine does the matching; like Go's, it is
//! leftmost-first and runs in linear time.

mod class;
mod parse;

use std::borrow::Cow;
use std::sync::Arc;

use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::{Input, Span};

use super::strconv;

/// A compiled pattern.
pub struct Regexp {
    regex: Regex,
    names: Vec<Option<Box<str>>>,
    /// Whether the pattern is empty.
    empty: bool,
}

/// Maximal memory of the automaton of one pattern, in bytes.
const MAX_SIZE: usize = 32 << 20;

/// A search whose automaton is smaller takes no time that counts, however long the text is, in bytes.
const SMALL: usize = 16 << 10;
/// The largest product of a larger automaton and a text, in bytes: the engine may look at each state for each byte, some seconds in all, and
/// a search cannot be interrupted.
const MAX_SEARCH: usize = 64 << 30;

/// Compiles a pattern (`regexp.Compile`).
///
/// # Errors
/// Go's error text, e.g. ``error parsing regexp: missing closing ): `a(` ``.
pub fn compile(pattern: &[u8]) -> Result<Arc<Regexp>, String> {
    Regexp::new(pattern, MAX_SIZE).map(Arc::new)
}

/// Compiles a pattern whose automaton has at most so many bytes, for callers that bound the time: what [`Regexp::memory`] tells is
/// up to four times as much. Searches keep as much again.
///
/// # Errors
/// As [`compile`].
pub fn compile_within(pattern: &[u8], size: usize) -> Result<Regexp, String> {
    Regexp::new(pattern, size)
}

/// The panic text of `regexp.MustCompile`; `error` is the error of [`compile`].
#[must_use]
pub fn must_compile_panic(pattern: &[u8], error: &str) -> String {
    let shown = match std::str::from_utf8(pattern) {
        Ok(p) if strconv::can_backquote(p) => format!("`{p}`"),
        _ => strconv::quote(pattern),
    };
    format!("regexp: Compile({shown}): {error}")
}

/// Escapes the special characters of patterns (`regexp.QuoteMeta`).
#[must_use]
pub fn quote_meta(s: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(s.len());
    for b in s {
        if br"\.+*?()|[]{}^$".contains(b) {
            out.push(b'\\');
        }
        out.push(*b);
    }
    out
}

/// Go's error for a pattern that is not valid UTF-8 at `at`: an earlier error takes precedence.
fn invalid_utf8(pattern: &[u8], at: usize) -> String {
    const EARLIER: [&str; 6] = [
        "missing argument to repetition operator",
        "invalid nested repetition operator",
        "invalid repeat count",
        "invalid character class range",
        "invalid escape sequence",
        "invalid or unsupported Perl syntax",
    ];
    let (valid, rest) = pattern.split_at(at);
    let lossy = |piece| String::from_utf8_lossy(piece).into_owned();
    // Go checks the name of a class before the encoding.
    if let Some(open) = memchr::memmem::rfind(valid, b"[[:")
        && let Some(end) = memchr::memmem::find(&pattern[open..], b":]")
        && open + end > at
    {
        let class = lossy(&pattern[open + 1..open + end + 2]);
        return format!("error parsing regexp: invalid character class range: `{class}`");
    }
    // Go checks a group's name separately, and shows only the name.
    let group = [&b"(?P<"[..], b"(?<"].iter().find_map(|mark| {
        let name = memchr::memmem::rfind(valid, mark)? + mark.len();
        (!valid[name..].contains(&b'>')).then_some(&pattern[name..])
    });
    if let Some(name) = group
        && let Some(end) = memchr::memchr(b'>', name)
    {
        return format!("error parsing regexp: invalid UTF-8: `{}`", lossy(&name[..end]));
    }
    let before = std::str::from_utf8(valid).ok().and_then(|text| parse::parse(text).err());
    if before.as_ref().is_some_and(|e| e.contains("unexpected )")) {
        return format!("error parsing regexp: unexpected ): `{}`", lossy(pattern));
    }
    // An error at the end of the valid part is due to the cut there, except for repetition operators, which are complete.
    let inside = |e: &String| {
        if e.contains("repetition") {
            return true;
        }
        let piece = e.split_once('`').map_or("", |(_, piece)| piece.trim_end_matches('`'));
        !valid.ends_with(piece.as_bytes())
    };
    before
        .filter(|e| EARLIER.iter().any(|known| e.contains(known)) && inside(e))
        .unwrap_or_else(|| format!("error parsing regexp: invalid UTF-8: `{}`", lossy(rest)))
}

impl Regexp {
    /// Memory of the compiled pattern in bytes, without search caches.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.regex.memory_usage()
    }

    /// Whether a search of a text of so many bytes may take longer than one without interruption should.
    #[must_use]
    pub fn is_costly(&self, bytes: usize) -> bool {
        let memory = self.memory();
        memory > SMALL && memory.saturating_mul(bytes) > MAX_SEARCH
    }

    fn new(pattern: &[u8], size: usize) -> Result<Self, String> {
        let bad =
            |what: &str| format!("error parsing regexp: {what}: `{}`", String::from_utf8_lossy(pattern));
        let text = std::str::from_utf8(pattern).map_err(|e| invalid_utf8(pattern, e.valid_up_to()))?;
        let config = Regex::config().nfa_size_limit(Some(size)).hybrid_cache_capacity(size.min(4 << 20));
        let (regex, names) = stacker::maybe_grow(512 * 1024, 8 * 1024 * 1024, || {
            let (hir, names) = parse::parse(text)?;
            // After parsing, only the size can be an error.
            let regex = Regex::builder().configure(config).build_from_hir(&hir);
            Ok::<_, String>((regex.map_err(|_| bad("expression too large"))?, names))
        })?;
        Ok(Self { regex, names, empty: pattern.is_empty() })
    }

    /// Whether the pattern matches somewhere (`MatchString`).
    #[must_use]
    pub fn is_match(&self, s: &[u8]) -> bool {
        self.regex.is_match(&*Subject::new(s).text)
    }

    /// The first match (`FindString`).
    #[must_use]
    pub fn find<'s>(&self, s: &'s [u8]) -> Option<&'s [u8]> {
        let subject = Subject::new(s);
        self.regex.find(&*subject.text).map(|m| &s[subject.span(m.span()).range()])
    }

    /// Up to `n` matches; all if `n` is negative (`FindAllStringIndex`), where no one is asked between the searches.
    #[must_use]
    pub fn find_all(&self, s: &[u8], n: i64) -> Vec<Span> {
        let Ok(found) = self.try_find_all(s, n, &mut |_| Ok::<_, std::convert::Infallible>(()));
        found
    }

    /// Up to `n` matches; all if `n` is negative (`FindAllStringIndex`). An empty match directly after another match is skipped.
    ///
    /// Each search may read all that is left of the text, so `before` gets the number of those bytes before it.
    ///
    /// # Errors
    /// That of `before`.
    pub fn try_find_all<E>(
        &self,
        s: &[u8],
        n: i64,
        before: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Vec<Span>, E> {
        let subject = Subject::new(s);
        let text = &*subject.text;
        let limit = usize::try_from(n).unwrap_or(usize::MAX);
        let mut found = Vec::new();
        let mut at = 0;
        let mut last_end = None;
        while found.len() < limit && at <= text.len() {
            before(text.len() - at)?;
            let Some(m) = self.regex.search(&Input::new(text).range(at..)) else { break };
            let accept = !m.is_empty() || Some(m.start()) != last_end;
            at = if m.is_empty() { m.end() + width(text, m.end()) } else { m.end() };
            last_end = Some(m.end());
            if accept {
                found.push(subject.span(m.span()));
            }
        }
        Ok(found)
    }

    /// Replaces all matches with the output of `replacement` (`replaceAll`), which receives the captures.
    fn replace<E>(
        &self,
        s: &[u8],
        room: usize,
        before: &mut impl FnMut(usize) -> Result<(), E>,
        mut replacement: impl FnMut(&mut Vec<u8>, &Captures, &Subject),
    ) -> Result<Option<Vec<u8>>, E> {
        let subject = Subject::new(s);
        let text = &*subject.text;
        let mut out = Vec::with_capacity(s.len());
        let mut captures = self.regex.create_captures();
        let (mut at, mut last_end) = (0, 0);
        while at <= text.len() {
            before(text.len() - at)?;
            self.regex.search_captures(&Input::new(text).range(at..), &mut captures);
            let Some(m) = captures.get_match() else { break };
            out.extend_from_slice(&s[subject.place(last_end)..subject.place(m.start())]);
            if m.end() > last_end || m.start() == 0 {
                replacement(&mut out, &captures, &subject);
            }
            if out.len() > room {
                return Ok(None);
            }
            last_end = m.end();
            at = if m.end() > at { m.end() } else { at + width(text, at) };
        }
        out.extend_from_slice(&s[subject.place(last_end)..]);
        Ok(Some(out))
    }

    /// `ReplaceAllString`: `$1`, `${1}` and `$name` in the replacement refer to groups. `None` if the result exceeds `room`
    /// bytes.
    ///
    /// # Errors
    /// That of `before`, which is called as for [`Regexp::try_find_all`].
    pub fn replace_all<E>(
        &self,
        s: &[u8],
        replacement: &[u8],
        room: usize,
        before: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<Vec<u8>>, E> {
        self.replace(s, room, before, |out, captures, subject| {
            self.expand(out, room, replacement, s, captures, subject);
        })
    }

    /// `ReplaceAllLiteralString`; `None` as for [`Regexp::replace_all`].
    ///
    /// # Errors
    /// That of `before`, which is called as for [`Regexp::try_find_all`].
    pub fn replace_all_literal<E>(
        &self,
        s: &[u8],
        replacement: &[u8],
        room: usize,
        before: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<Vec<u8>>, E> {
        self.replace(s, room, before, |out, _, _| out.extend_from_slice(replacement))
    }

    fn expand(
        &self,
        out: &mut Vec<u8>,
        room: usize,
        mut template: &[u8],
        s: &[u8],
        captures: &Captures,
        subject: &Subject,
    ) {
        while let Some(n) = memchr::memchr(b'$', template).filter(|_| out.len() <= room) {
            out.extend_from_slice(&template[..n]);
            template = &template[n + 1..];
            if template.first() == Some(&b'$') {
                out.push(b'$');
                template = &template[1..];
                continue;
            }
            let Some((name, rest)) = group_name(template) else {
                out.push(b'$');
                continue;
            };
            template = rest;
            let span = if name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'))
            {
                name.parse().ok().and_then(|i| captures.get_group(i))
            } else {
                let named = self.names.iter().enumerate().filter(|n| n.1.as_deref() == Some(name));
                named.into_iter().find_map(|(i, _)| captures.get_group(i))
            };
            if let Some(span) = span {
                out.extend_from_slice(&s[subject.span(span).range()]);
            }
        }
        out.extend_from_slice(template);
    }

    /// `Split`
    ///
    /// # Errors
    /// That of `before`, which is called as for [`Regexp::try_find_all`].
    #[allow(clippy::cast_possible_wrap)]
    pub fn split<'s, E>(
        &self,
        s: &'s [u8],
        n: i64,
        before: &mut impl FnMut(usize) -> Result<(), E>,
    ) -> Result<Option<Vec<&'s [u8]>>, E> {
        if n == 0 {
            return Ok(None);
        }
        if !self.empty && s.is_empty() {
            return Ok(Some(vec![s]));
        }
        let mut parts = Vec::new();
        let (mut begin, mut end) = (0, 0);
        for m in self.try_find_all(s, n, before)? {
            if n > 0 && parts.len() as i64 == n - 1 {
                break;
            }
            end = m.start;
            if m.end != 0 {
                parts.push(&s[begin..end]);
            }
            begin = m.end;
        }
        if end != s.len() {
            parts.push(&s[begin..]);
        }
        Ok(Some(parts))
    }
}

/// The searched text. Like Go's engine, it has U+FFFD for each byte that is not valid UTF-8.
struct Subject<'s> {
    text: Cow<'s, [u8]>,
    /// Positions of replaced bytes in `text`; each is two bytes longer than the original.
    replaced: Vec<usize>,
}

impl<'s> Subject<'s> {
    fn new(s: &'s [u8]) -> Self {
        let mut subject = Self { text: Cow::Borrowed(s), replaced: Vec::new() };
        if std::str::from_utf8(s).is_err() {
            let mut text = Vec::with_capacity(s.len() + 16);
            let mut at = 0;
            while at < s.len() {
                let (c, size) = super::fmt::decode(&s[at..]);
                if c == char::REPLACEMENT_CHARACTER && size == 1 {
                    subject.replaced.push(text.len());
                }
                text.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                at += size;
            }
            subject.text = Cow::Owned(text);
        }
        subject
    }

    /// Converts a position in `text` to a position in the original.
    fn place(&self, at: usize) -> usize {
        at - 2 * self.replaced.partition_point(|r| *r < at)
    }

    fn span(&self, span: Span) -> Span {
        Span { start: self.place(span.start), end: self.place(span.end) }
    }
}

/// The length of the character at `at`, at least one.
fn width(s: &[u8], at: usize) -> usize {
    super::fmt::decode(s.get(at..).unwrap_or_default()).1.max(1)
}

/// The group name after `$`, with or without braces, and the rest. The name is the longest run of letters, digits and
/// underscores.
fn group_name(s: &[u8]) -> Option<(&str, &[u8])> {
    let braced = s.first() == Some(&b'{');
    let body = if braced { &s[1..] } else { s };
    let mut n = 0;
    while n < body.len() {
        let (c, size) = super::fmt::decode(&body[n..]);
        if !(c == '_' || super::unicode::is_letter(c) || super::unicode::is_digit(c)) {
            break;
        }
        n += size;
    }
    let name = std::str::from_utf8(&body[..n]).ok().filter(|n| !n.is_empty())?;
    let rest = &body[n..];
    if braced { Some((name, rest.strip_prefix(b"}")?)) } else { Some((name, rest)) }
}
