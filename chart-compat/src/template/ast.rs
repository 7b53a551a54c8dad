//! The parsed template, and how Go prints its nodes in error messages.

use smallvec::SmallVec;

use super::func::Func;
use crate::go::prefix;

/// Byte offset in a template's text.
pub(super) type Pos = u32;

/// A stretch of a template's text: what nodes hold instead of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: Pos,
    pub(super) end: Pos,
}

impl Span {
    /// Offsets beyond 4 GiB stand at its end: no text comes near.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let pos = |n| Pos::try_from(n).unwrap_or(Pos::MAX);
        Self { start: pos(start), end: pos(end) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The bytes that it stands for.
    pub(super) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// The same, printed.
    pub(super) fn show(self, text: &[u8]) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.of(text))
    }
}

/// The name of a field: letters and digits, so always UTF-8.
#[derive(Clone, Copy)]
pub(super) struct Name {
    span: Span,
    /// Of the name, so that maps need not make it for each look.
    pub(super) prefix: u64,
}

impl Name {
    pub(super) fn new(span: Span, text: &[u8]) -> Self {
        Self { span, prefix: prefix(span.of(text)) }
    }

    /// The name as a key.
    pub(super) fn key(self, text: &[u8]) -> &[u8] {
        self.span.of(text)
    }

    /// The name as text.
    pub(super) fn of(self, text: &[u8]) -> &str {
        std::str::from_utf8(self.span.of(text)).unwrap_or_default()
    }
}

/// One parsed template: a file or a `define`.
pub struct Template {
    pub(super) name: Box<str>,
    /// The file that the text stood in.
    pub(super) file: Box<str>,
    /// The whole text of the file, for positions.
    pub(super) text: bytes::Bytes,
    pub(super) root: Box<[Node]>,
    /// How many variables can be live at once, `$` included.
    pub(super) slots: usize,
    pub(super) blank: bool,
    /// Whether this is a whole file, not a `define` in one nor a text given to `tpl`.
    pub(super) whole: bool,
}

impl Template {
    /// The name under which it is found.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Line from 1 and column from 0, in bytes, as Go counts them.
    pub(super) fn position(&self, pos: Pos) -> (usize, usize) {
        let before = &self.text[..(pos as usize).min(self.text.len())];
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let column = match memchr::memrchr(b'\n', before) {
            Some(n) => before.len() - n - 1,
            None => before.len(),
        };
        (line, column)
    }
}

pub(super) enum Node {
    Text(Span),
    Action(Pipe),
    If(Box<Control>),
    With(Box<Control>),
    Range(Box<Control>),
    Template(Box<Call>),
    Break(Pos),
    Continue(Pos),
}

/// A `{{template}}`: boxed, since it would make every node larger.
pub(super) struct Call {
    pub(super) pos: Pos,
    pub(super) name: Box<str>,
    pub(super) pipe: Option<Pipe>,
}

pub(super) struct Control {
    pub(super) pos: Pos,
    pub(super) pipe: Pipe,
    pub(super) list: Box<[Node]>,
    pub(super) otherwise: Option<Box<[Node]>>,
}

pub(super) struct Pipe {
    pub(super) pos: Pos,
    pub(super) decl: Box<[Decl]>,
    pub(super) assign: bool,
    pub(super) cmds: SmallVec<[Command; 1]>,
}

pub(super) struct Decl {
    pub(super) name: Span,
    /// `None` for an assignment to a variable that does not exist: Go finds that out when it runs.
    pub(super) slot: Option<u32>,
}

pub(super) struct Command {
    pub(super) args: Box<[Arg]>,
}

pub(super) struct Arg {
    pub(super) pos: Pos,
    pub(super) term: Term,
}

pub(super) enum Term {
    Bool(bool),
    Dot,
    Nil,
    Number(Box<Number>),
    /// A string as it is written; what it stands for, unless that is just what lies between its quotes.
    String {
        quoted: Span,
        text: Option<Box<[u8]>>,
    },
    Field(Box<[Name]>),
    Variable {
        name: Span,
        slot: u32,
        fields: Box<[Name]>,
    },
    /// A variable that is used where it is declared: Go finds out when it runs that it has no value yet.
    Unset {
        name: Span,
        fields: Box<[Name]>,
    },
    Chain {
        node: Box<Arg>,
        fields: Box<[Name]>,
    },
    Function(&'static Func),
    Pipe(Box<Pipe>),
}

/// A numeric constant and the kinds that it fits (`parse.NumberNode`).
pub(super) struct Number {
    pub(super) int: Option<i64>,
    pub(super) uint: Option<u64>,
    pub(super) float: Option<f64>,
    /// Real and imaginary part of an imaginary or complex constant.
    pub(super) complex: Option<(f64, f64)>,
    pub(super) text: Box<str>,
}

fn write_fields(out: &mut String, fields: &[Name], text: &[u8]) {
    for f in fields {
        out.push('.');
        out.push_str(f.of(text));
    }
}

impl Term {
    /// What a string constant stands for.
    pub(super) fn string<'t>(quoted: Span, own: Option<&'t [u8]>, text: &'t [u8]) -> &'t [u8] {
        match own {
            Some(own) => own,
            None => Span { start: quoted.start + 1, end: quoted.end.saturating_sub(1) }.of(text),
        }
    }
}

// Each `write` prints a node as Go does; `text` is that of the template it belongs to.

impl Arg {
    pub(super) fn write(&self, out: &mut String, text: &[u8]) {
        match &self.term {
            Term::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Term::Dot => out.push('.'),
            Term::Nil => out.push_str("nil"),
            Term::Number(n) => out.push_str(&n.text),
            Term::String { quoted, .. } => out.push_str(&quoted.show(text)),
            Term::Field(fields) => write_fields(out, fields, text),
            Term::Unset { name, fields } | Term::Variable { name, fields, .. } => {
                out.push_str(&name.show(text));
                write_fields(out, fields, text);
            }
            Term::Chain { node, fields } => {
                if let Term::Pipe(p) = &node.term {
                    out.push('(');
                    p.write(out, text);
                    out.push(')');
                } else {
                    node.write(out, text);
                }
                write_fields(out, fields, text);
            }
            Term::Function(f) => out.push_str(f.name),
            Term::Pipe(p) => p.write(out, text),
        }
    }

    pub(super) fn text(&self, text: &[u8]) -> String {
        let mut out = String::new();
        self.write(&mut out, text);
        out
    }
}

impl Command {
    pub(super) fn write(&self, out: &mut String, text: &[u8]) {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            if let Term::Pipe(p) = &arg.term {
                out.push('(');
                p.write(out, text);
                out.push(')');
            } else {
                arg.write(out, text);
            }
        }
    }
}

impl Pipe {
    pub(super) fn write(&self, out: &mut String, text: &[u8]) {
        for (i, decl) in self.decl.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&decl.name.show(text));
        }
        if !self.decl.is_empty() {
            out.push_str(if self.assign { " = " } else { " := " });
        }
        for (i, cmd) in self.cmds.iter().enumerate() {
            if i > 0 {
                out.push_str(" | ");
            }
            cmd.write(out, text);
        }
    }
}

fn write_list(out: &mut String, list: &[Node], text: &[u8]) {
    for node in list {
        node.write(out, text);
    }
}

impl Control {
    fn write(&self, out: &mut String, word: &str, text: &[u8]) {
        out.push_str("{{");
        out.push_str(word);
        out.push(' ');
        self.pipe.write(out, text);
        out.push_str("}}");
        write_list(out, &self.list, text);
        if let Some(list) = &self.otherwise {
            out.push_str("{{else}}");
            write_list(out, list, text);
        }
        out.push_str("{{end}}");
    }
}

impl Node {
    pub(super) fn pos(&self) -> Pos {
        match self {
            Self::Text(_) => 0,
            Self::Action(p) => p.pos,
            Self::If(c) | Self::With(c) | Self::Range(c) => c.pos,
            Self::Template(c) => c.pos,
            Self::Break(pos) | Self::Continue(pos) => *pos,
        }
    }

    pub(super) fn write(&self, out: &mut String, text: &[u8]) {
        match self {
            Self::Text(t) => out.push_str(&t.show(text)),
            Self::Action(p) => {
                out.push_str("{{");
                p.write(out, text);
                out.push_str("}}");
            }
            Self::If(c) => c.write(out, "if", text),
            Self::With(c) => c.write(out, "with", text),
            Self::Range(c) => c.write(out, "range", text),
            Self::Template(c) => {
                out.push_str("{{template ");
                out.push_str(&crate::go::strconv::quote(c.name.as_bytes()));
                if let Some(p) = &c.pipe {
                    out.push(' ');
                    p.write(out, text);
                }
                out.push_str("}}");
            }
            Self::Break(_) => out.push_str("{{break}}"),
            Self::Continue(_) => out.push_str("{{continue}}"),
        }
    }
}
