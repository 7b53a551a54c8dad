//! What the lines of an everyday text are handed to.
//!
//! Owns the two takers, one that only checks and one that hands values on, and how scalars of several lines become text; knows
//! neither columns nor levels.

use std::borrow::Cow;

use super::Kind;
use crate::yaml::resolve::{Resolved, resolve};
use crate::yaml::sink::{Key, Sink};

/// Takes collections, keys and scalars in the order of the text. Nothing is what a taker says of what has no JSON form.
pub(super) trait Take {
    /// Whether values matter, not only the form.
    const VALUES: bool;
    /// A collection starts.
    fn begin(&mut self, kind: Kind);
    /// The innermost collection ends.
    fn end(&mut self, kind: Kind);
    /// A key.
    fn key(&mut self, text: &str, quoted: bool) -> Option<()>;
    /// A plain scalar of one line.
    fn plain(&mut self, text: &str) -> Option<()>;
    /// What is text whatever it looks like.
    fn text(&mut self, text: Cow<'_, str>);
    /// A value that is not there.
    fn null(&mut self);

    /// What lies between quotes on one line.
    fn quoted(&mut self, quote: u8, inner: &str) {
        if Self::VALUES {
            self.text(match quote {
                b'\'' if inner.contains("''") => inner.replace("''", "'").into(),
                b'"' if inner.contains('\\') => unescaped(inner).into(),
                _ => inner.into(),
            });
        }
    }
}

/// A text without its escapes, which are those that `closing` knows.
fn unescaped(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.extend(match c {
            '\\' => chars.next().map(|c| match c {
                'n' => '\n',
                't' => '\t',
                other => other,
            }),
            other => Some(other),
        });
    }
    text
}

/// Takes nothing.
pub(super) struct Skip;

impl Take for Skip {
    const VALUES: bool = false;

    fn begin(&mut self, _: Kind) {}

    fn end(&mut self, _: Kind) {}

    fn key(&mut self, _: &str, _: bool) -> Option<()> {
        Some(())
    }

    fn plain(&mut self, _: &str) -> Option<()> {
        Some(())
    }

    fn text(&mut self, _: Cow<'_, str>) {}

    fn null(&mut self) {}
}

/// Hands everything to a sink.
pub(super) struct Values<'s, S>(pub(super) &'s mut S);

impl<S: Sink> Take for Values<'_, S> {
    const VALUES: bool = true;

    fn begin(&mut self, kind: Kind) {
        match kind {
            Kind::Map => self.0.begin_map(),
            Kind::Seq => self.0.begin_list(),
        }
    }

    fn end(&mut self, kind: Kind) {
        match kind {
            Kind::Map => self.0.end_map(),
            Kind::Seq => self.0.end_list(),
        }
    }

    fn key(&mut self, text: &str, quoted: bool) -> Option<()> {
        let meaning = if quoted { Resolved::Str } else { resolve(text) };
        self.0.key(match meaning {
            Resolved::Str | Resolved::Timestamp => Key::Str(text.into()),
            Resolved::Bool(value) => Key::Bool(value),
            Resolved::Int(value) => Key::Int(value),
            Resolved::Float(value) if value.is_finite() => Key::Float(value),
            _ => return None,
        });
        Some(())
    }

    fn plain(&mut self, text: &str) -> Option<()> {
        match resolve(text) {
            Resolved::Null => self.0.null(),
            Resolved::Bool(value) => self.0.bool(value),
            Resolved::Int(value) => self.0.int(value),
            Resolved::Uint(value) => self.0.uint(value),
            Resolved::Float(value) if value.is_finite() => self.0.float(value),
            Resolved::Float(_) => return None,
            Resolved::Timestamp | Resolved::Str => self.0.string(text.into()),
        }
        Some(())
    }

    fn text(&mut self, text: Cow<'_, str>) {
        self.0.string(text);
    }

    fn null(&mut self) {
        self.0.null();
    }
}

/// A plain scalar of several lines: a line break is a space, and so many empty lines are so many line breaks.
pub(super) fn folded<'t>(first: &str, more: &[&str]) -> Cow<'t, str> {
    let mut text = first.to_owned();
    let mut empty = 0;
    for line in more {
        if line.is_empty() {
            empty += 1;
            continue;
        }
        match empty {
            0 => text.push(' '),
            n => text.extend(std::iter::repeat_n('\n', n)),
        }
        empty = 0;
        text.push_str(line);
    }
    text.into()
}

/// A block scalar: the column of its text, once it is known, and, where values matter, its lines.
#[derive(Default)]
pub(super) struct Block<'t> {
    pub(super) column: Option<usize>,
    /// The most spaces in a line before the text.
    widest: usize,
    lines: Vec<&'t str>,
}

impl<'t> Block<'t> {
    /// The first line of text; false if it stands less deep than spaces before it, or starts with a tab.
    pub(super) fn begin(&mut self, column: usize, first: &'t str, values: bool) -> bool {
        self.column = Some(column);
        self.push(first, values);
        column >= self.widest && !first.starts_with('\t')
    }

    pub(super) fn push(&mut self, line: &'t str, values: bool) {
        if values {
            self.lines.push(line);
        }
    }

    /// A line of so many spaces; false if they are a part of the text, which is left to the reader.
    pub(super) fn blank(&mut self, size: usize, values: bool) -> bool {
        self.push("", values);
        match self.column {
            Some(column) => !values || size <= column,
            None => {
                self.widest = self.widest.max(size);
                true
            }
        }
    }

    /// The text, with line breaks as the header wants them; a folded scalar with lines that stand deeper is left to the reader.
    pub(super) fn text(mut self, header: &str) -> Option<String> {
        let all = self.lines.len();
        while self.lines.last().is_some_and(|l| l.is_empty()) {
            self.lines.pop();
        }
        let mut text = match header.as_bytes().first()? {
            b'|' => self.lines.join("\n"),
            _ if self.lines.iter().any(|l| l.starts_with([' ', '\t'])) => return None,
            _ => {
                let empty = self.lines.iter().take_while(|l| l.is_empty()).count();
                let (first, more) = self.lines.get(empty..)?.split_first().unwrap_or((&"", &[]));
                "\n".repeat(empty) + &folded(first, more)
            }
        };
        match header.as_bytes().get(1) {
            Some(b'-') => {}
            Some(_) => text.extend(std::iter::repeat_n('\n', 1 + all - self.lines.len())),
            None if self.lines.is_empty() => {}
            None => text.push('\n'),
        }
        // Where no text is, only line breaks that are to be kept count.
        (self.column.is_some() || header.len() == 1 || header.ends_with('-')).then_some(text)
    }
}
