//! The parser of Go's dialect (`regexp/syntax`, flags `Perl`). Its output is the engine's syntax tree.
//!
//! Errors have Go's texts and quote the same part of the pattern.

use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Hir, Look, Repetition};

use super::class;

/// Maximal nesting of groups (`maxHeight`).
const MAX_DEPTH: usize = 1000;
/// The maximal count in braces, and the maximal product of nested counts.
const MAX_REPEAT: u32 = 1000;

#[derive(Clone, Copy)]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_newline: bool,
    lazy: bool,
}

/// An open group.
struct Group {
    alternatives: Vec<Hir>,
    /// The parts of the current alternative, each with the product of its nested counts.
    parts: Vec<(Hir, u32)>,
    /// The largest such product in the previous alternatives.
    count: u32,
    /// The index of a capturing group.
    capture: Option<u32>,
    /// The flags to restore when the group closes.
    flags: Flags,
}

impl Group {
    fn new(capture: Option<u32>, flags: Flags) -> Self {
        Self { alternatives: Vec::new(), parts: Vec::new(), count: 1, capture, flags }
    }

    fn end_alternative(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        self.count = parts.iter().map(|p| p.1).fold(self.count, u32::max);
        self.alternatives.push(Hir::concat(parts.into_iter().map(|p| p.0).collect()));
    }

    fn close(mut self) -> (Hir, u32) {
        self.end_alternative();
        let body = Hir::alternation(self.alternatives);
        let hir = match self.capture {
            Some(index) => Hir::capture(Capture { index, name: None, sub: Box::new(body) }),
            None => body,
        };
        (hir, self.count)
    }
}

struct Parser<'p> {
    pattern: &'p str,
    flags: Flags,
    groups: Vec<Group>,
    current: Group,
    /// Group names by index. Unlike the engine, Go allows duplicate names.
    names: Vec<Option<Box<str>>>,
}

type Parsed<T> = Result<T, String>;

fn error<T>(what: &str, piece: &str) -> Parsed<T> {
    Err(format!("error parsing regexp: {what}: `{piece}`"))
}

/// The part of `from` before its suffix `rest`.
fn before<'p>(from: &'p str, rest: &str) -> &'p str {
    &from[..from.len() - rest.len()]
}

/// Parses a pattern into its tree and its group names.
pub(super) fn parse(pattern: &str) -> Parsed<(Hir, Vec<Option<Box<str>>>)> {
    let flags = Flags { fold: false, multi_line: false, dot_newline: false, lazy: false };
    let mut p =
        Parser { pattern, flags, groups: Vec::new(), current: Group::new(Some(0), flags), names: vec![None] };
    // The start of the directly preceding repetition: another one is an error.
    let mut last_repeat = None;
    let mut t = pattern;
    while !t.is_empty() {
        let (rest, repeats) = p.step(t, last_repeat)?;
        last_repeat = repeats.then_some(t);
        t = rest;
    }
    if !p.groups.is_empty() {
        return error("missing closing )", pattern);
    }
    Ok((p.current.close().0, p.names))
}

impl<'p> Parser<'p> {
    /// Parses one item. Returns the rest, and whether the item was a repetition.
    fn step(&mut self, t: &'p str, last_repeat: Option<&'p str>) -> Parsed<(&'p str, bool)> {
        let first = t.as_bytes().first().copied().unwrap_or_default();
        let rest = t.get(1..).unwrap_or_default();
        match first {
            b'(' if rest.starts_with('?') => return Ok((self.perl_group(t)?, false)),
            b'(' => {
                self.open_capture(None)?;
            }
            b'|' => self.current.end_alternative(),
            b')' => {
                let Some(outer) = self.groups.pop() else {
                    return error("unexpected )", self.pattern);
                };
                let inner = std::mem::replace(&mut self.current, outer);
                self.flags = inner.flags;
                self.current.parts.push(inner.close());
            }
            b'^' => self.push(Hir::look(if self.flags.multi_line { Look::StartLF } else { Look::Start })),
            b'$' => self.push(Hir::look(if self.flags.multi_line { Look::EndLF } else { Look::End })),
            b'.' => {
                let mut any = ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]);
                if !self.flags.dot_newline {
                    any.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
                }
                self.push(Hir::class(Class::Unicode(any)));
            }
            b'[' => return Ok((self.class(t)?, false)),
            b'*' => return Ok((self.repeat(t, rest, (0, None), last_repeat)?, true)),
            b'+' => return Ok((self.repeat(t, rest, (1, None), last_repeat)?, true)),
            b'?' => return Ok((self.repeat(t, rest, (0, Some(1)), last_repeat)?, true)),
            b'{' => match counts(rest) {
                Some((min, max, rest)) => {
                    let ok = |n: u32| n <= MAX_REPEAT;
                    match min.filter(|m| ok(*m)).zip(Some(max)) {
                        Some((min, max)) if max.is_none_or(|m| ok(m) && min <= m) => {
                            return Ok((self.repeat(t, rest, (min, max), last_repeat)?, true));
                        }
                        _ => return error("invalid repeat count", before(t, rest)),
                    }
                }
                None => self.literal('{'),
            },
            b'\\' => return Ok((self.escape_item(t)?, false)),
            _ => {
                let c = t.chars().next().unwrap_or_default();
                self.literal(c);
                return Ok((&t[c.len_utf8()..], false));
            }
        }
        Ok((rest, false))
    }

    fn push(&mut self, hir: Hir) {
        self.current.parts.push((hir, 1));
    }

    fn push_class(&mut self, class: ClassUnicode) {
        self.push(Hir::class(Class::Unicode(class)));
    }

    fn literal(&mut self, c: char) {
        if self.flags.fold {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(c, c)]);
            class.case_fold_simple();
            self.push_class(class);
        } else {
            let mut buffer = [0; 4];
            self.push(Hir::literal(c.encode_utf8(&mut buffer).as_bytes()));
        }
    }

    fn open_capture(&mut self, name: Option<Box<str>>) -> Parsed<()> {
        let index = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name);
        self.open(Some(index))
    }

    fn open(&mut self, capture: Option<u32>) -> Parsed<()> {
        if self.groups.len() >= MAX_DEPTH {
            return error("expression nests too deeply", self.pattern);
        }
        let outer = std::mem::replace(&mut self.current, Group::new(capture, self.flags));
        self.groups.push(outer);
        Ok(())
    }

    /// Applies a repetition to the last item; `t` starts at the operator, `rest` after it.
    fn repeat(
        &mut self,
        t: &'p str,
        mut rest: &'p str,
        (min, max): (u32, Option<u32>),
        last_repeat: Option<&'p str>,
    ) -> Parsed<&'p str> {
        let mut greedy = !self.flags.lazy;
        if let Some(r) = rest.strip_prefix('?') {
            rest = r;
            greedy = !greedy;
        }
        if let Some(last) = last_repeat {
            return error("invalid nested repetition operator", before(last, rest));
        }
        let Some((sub, mut count)) = self.current.parts.pop() else {
            return error("missing argument to repetition operator", before(t, rest));
        };
        // Go limits the product of nested counts, because each repetition copies its operand.
        if min >= 2 || max.is_some_and(|m| m >= 2) {
            count = count.saturating_mul(max.unwrap_or(min).max(1));
            if count > MAX_REPEAT {
                return error("invalid repeat count", before(t, rest));
            }
        }
        let hir = Hir::repetition(Repetition { min, max, greedy, sub: Box::new(sub) });
        self.current.parts.push((hir, count));
        Ok(rest)
    }

    /// `(?…`: a named group, a non-capturing group, or flags.
    fn perl_group(&mut self, t: &'p str) -> Parsed<&'p str> {
        let named = t.strip_prefix("(?P<").or_else(|| t.strip_prefix("(?<")).filter(|n| !n.is_empty());
        if let Some(body) = named {
            let Some((name, rest)) = body.split_once('>') else {
                return error("invalid named capture", t);
            };
            let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
            if !valid {
                return error("invalid named capture", before(t, rest));
            }
            self.open_capture(Some(name.into()))?;
            return Ok(rest);
        }
        let mut flags = self.flags;
        let (mut on, mut seen) = (true, false);
        let mut rest = t.get(2..).unwrap_or_default();
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            match c {
                'i' => flags.fold = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_newline = on,
                'U' => flags.lazy = on,
                '-' if on => {
                    on = false;
                    seen = false;
                    continue;
                }
                ':' | ')' if on || seen => {
                    if c == ':' {
                        self.open(None)?;
                    }
                    self.flags = flags;
                    return Ok(rest);
                }
                _ => break,
            }
            seen = true;
        }
        error("invalid or unsupported Perl syntax", before(t, rest))
    }

    /// An item that starts with a backslash.
    fn escape_item(&mut self, t: &'p str) -> Parsed<&'p str> {
        let rest = t.get(2..).unwrap_or_default();
        match t.as_bytes().get(1) {
            Some(b'A') => self.push(Hir::look(Look::Start)),
            Some(b'z') => self.push(Hir::look(Look::End)),
            Some(b'b') => self.push(Hir::look(Look::WordAscii)),
            Some(b'B') => self.push(Hir::look(Look::WordAsciiNegate)),
            Some(b'C') => return error("invalid escape sequence", r"\C"),
            Some(b'Q') => {
                let (quoted, rest) = rest.split_once(r"\E").unwrap_or((rest, ""));
                for c in quoted.chars() {
                    self.literal(c);
                }
                return Ok(rest);
            }
            _ => {
                if let Some((class, rest)) = self.class_escape(t)? {
                    self.push_class(class);
                    return Ok(rest);
                }
                let (c, rest) = escape(t)?;
                self.literal(c);
                return Ok(rest);
            }
        }
        Ok(rest)
    }

    fn signed(&self, mut class: ClassUnicode, negate: bool) -> ClassUnicode {
        if self.flags.fold {
            class.case_fold_simple();
        }
        if negate {
            class.negate();
        }
        class
    }

    /// `\d`, `\pL`, `\p{Greek}` and similar escapes, inside and outside brackets.
    fn class_escape(&self, t: &'p str) -> Parsed<Option<(ClassUnicode, &'p str)>> {
        let Some(body) = t.strip_prefix('\\') else { return Ok(None) };
        let Some(letter) = body.chars().next() else { return Ok(None) };
        let rest = &body[letter.len_utf8()..];
        if let Some(class) = class::perl(letter.to_ascii_lowercase()) {
            return Ok(Some((self.signed(class, letter.is_ascii_uppercase()), rest)));
        }
        if !matches!(letter, 'p' | 'P') {
            return Ok(None);
        }
        let (name, after) = match rest.strip_prefix('{') {
            Some(inner) => match inner.split_once('}') {
                Some(parts) => parts,
                None => return error("invalid character class range", t),
            },
            None => {
                let size = rest.chars().next().map_or(0, char::len_utf8);
                rest.split_at(size)
            }
        };
        let (negate, name) = match name.strip_prefix('^') {
            Some(name) => (letter == 'p', name),
            None => (letter == 'P', name),
        };
        match class::unicode(name) {
            Some(class) => Ok(Some((self.signed(class, negate), after))),
            None => error("invalid character class range", before(t, after)),
        }
    }

    /// Parses a class in brackets.
    fn class(&mut self, s: &'p str) -> Parsed<&'p str> {
        let mut t = &s[1..];
        let negate = t.starts_with('^');
        if negate {
            t = &t[1..];
        }
        let mut class = ClassUnicode::empty();
        let mut first = true;
        while first || !t.starts_with(']') {
            first = false;
            if let Some(body) = t.strip_prefix("[:")
                && let Some((name, rest)) = body.split_once(":]")
            {
                let (inverted, plain) = name.strip_prefix('^').map_or((false, name), |n| (true, n));
                match class::posix(plain) {
                    Some(named) => class.union(&self.signed(named, inverted)),
                    None => return error("invalid character class range", before(t, rest)),
                }
                t = rest;
                continue;
            }
            if let Some((escaped, rest)) = self.class_escape(t)? {
                class.union(&escaped);
                t = rest;
                continue;
            }
            let (low, rest) = class_char(t, s)?;
            let (mut high, mut after) = (low, rest);
            if let Some(range) = rest.strip_prefix('-')
                && !range.is_empty()
                && !range.starts_with(']')
            {
                (high, after) = class_char(range, s)?;
                if high < low {
                    return error("invalid character class range", before(t, after));
                }
            }
            let range = ClassUnicode::new([ClassUnicodeRange::new(low, high)]);
            class.union(&self.signed(range, false));
            t = after;
        }
        if negate {
            class.negate();
        }
        self.push_class(class);
        Ok(&t[1..])
    }
}

/// Parses one character of a class.
fn class_char<'p>(t: &'p str, class: &'p str) -> Parsed<(char, &'p str)> {
    match t.chars().next() {
        None => error("missing closing ]", class),
        Some('\\') => escape(t),
        Some(c) => Ok((c, &t[c.len_utf8()..])),
    }
}

/// Parses an escape of a single character.
fn escape(t: &str) -> Parsed<(char, &str)> {
    let mut rest = &t[1..];
    let next = |rest: &mut &str| -> Option<char> {
        let c = rest.chars().next()?;
        *rest = &rest[c.len_utf8()..];
        Some(c)
    };
    let Some(c) = next(&mut rest) else { return error("trailing backslash at end of expression", "") };
    let octal = |rest: &str| rest.chars().next().and_then(|c| c.to_digit(8));
    let found = match c {
        '0'..='7' if c == '0' || octal(rest).is_some() => {
            let mut code = u32::from(c) - u32::from('0');
            for _ in 0..2 {
                let Some(digit) = octal(rest) else { break };
                code = code * 8 + digit;
                rest = &rest[1..];
            }
            char::from_u32(code)
        }
        'x' => match next(&mut rest) {
            Some('{') => {
                let mut code: Option<u32> = None;
                loop {
                    match next(&mut rest) {
                        Some('}') => break code.and_then(char::from_u32),
                        Some(c) if c.is_ascii_hexdigit() => {
                            let value = code.unwrap_or(0) * 16 + c.to_digit(16).unwrap_or(0);
                            if value > 0x10_FFFF {
                                break None;
                            }
                            code = Some(value);
                        }
                        _ => break None,
                    }
                }
            }
            Some(high) => {
                let low = next(&mut rest).and_then(|c| c.to_digit(16));
                high.to_digit(16).zip(low).and_then(|(h, l)| char::from_u32(h * 16 + l))
            }
            None => None,
        },
        'a' => Some('\x07'),
        'f' => Some('\x0c'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'v' => Some('\x0b'),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
        _ => None,
    };
    match found {
        Some(c) => Ok((c, rest)),
        None => error("invalid escape sequence", before(t, rest)),
    }
}

/// Minimum and maximum of a count, and the rest after its closing brace.
type Counts<'p> = (Option<u32>, Option<u32>, &'p str);

/// Parses `3}`, `3,}` or `3,5}`. Without a minimum the brace is a literal. A number that is too large is `None`.
fn counts(t: &str) -> Option<Counts<'_>> {
    let number = |t: &'_ str| -> Option<(Option<u32>, usize)> {
        let n = t.bytes().take_while(u8::is_ascii_digit).count();
        if n == 0 || n > 1 && t.starts_with('0') {
            return None;
        }
        Some((t[..n].parse().ok(), n))
    };
    let (min, n) = number(t)?;
    let rest = &t[n..];
    let Some(second) = rest.strip_prefix(',') else {
        return Some((min, min, rest.strip_prefix('}')?));
    };
    if let Some(rest) = second.strip_prefix('}') {
        return Some((min, None, rest));
    }
    let (max, n) = number(second)?;
    let rest = second[n..].strip_prefix('}')?;
    Some((min.filter(|_| max.is_some()), max, rest))
}
