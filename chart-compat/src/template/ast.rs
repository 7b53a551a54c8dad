//! The parsed template, and how Go prints its nodes in error messages.

use std::sync::Arc;

use super::func::Func;

/// Byte offset in a template's text.
pub(super) type Pos = u32;

/// A byte range of a template's text. Nodes hold spans instead of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: Pos,
    pub(super) end: Pos,
}

impl Span {
    /// Offsets beyond 4 GiB saturate; no template is that long.
    pub(super) fn new(start: usize, end: usize) -> Self {
        let pos = |n| Pos::try_from(n).unwrap_or(Pos::MAX);
        Self { start: pos(start), end: pos(end) }
    }

    pub(super) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The bytes of the range.
    pub(super) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// The bytes of the range as UTF-8, with replacement characters.
    pub(super) fn show(self, text: &[u8]) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.of(text))
    }
}

/// A chain of fields, `.a.b`. The span covers the whole chain, because fields follow each other directly.
#[derive(Clone, Copy)]
pub(super) struct Fields(pub(super) Span);

impl Fields {
    pub(super) fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The names as bytes. They consist of letters and digits, so they are always UTF-8.
    pub(super) fn names(self, text: &[u8]) -> impl Iterator<Item = &[u8]> {
        // The split starts with an empty part before the first dot.
        self.0.of(text).split(|b| *b == b'.').skip(1)
    }

    /// The names as strings.
    pub(super) fn texts(self, text: &[u8]) -> impl Iterator<Item = &str> {
        self.names(text).map(name_text)
    }
}

/// The name of a field as a string.
pub(super) fn name_text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

/// One parsed template: a file or a `define`. A clone shares its syntax tree.
#[derive(Clone)]
pub struct Template {
    pub(super) name: Box<str>,
    /// The file that contains the text.
    pub(super) file: Arc<str>,
    /// The whole text of the file, for positions.
    pub(super) text: bytes::Bytes,
    pub(super) root: Arc<[Node]>,
    /// The maximal number of variables in scope at once, `$` included.
    pub(super) slots: usize,
    pub(super) blank: bool,
    /// Whether this is a whole file, not a `define` in a file or a text given to `tpl`.
    pub(super) whole: bool,
}

impl Template {
    /// The name that `{{template}}` and `include` find it under.
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

/// A `{{template}}`. Boxed in `Node`, which it would enlarge.
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
    pub(super) assign: bool,
    /// The variables that it sets. Boxed because most pipelines set none.
    sets: Option<Box<Sets>>,
    /// The arguments of all its commands.
    pub(super) args: Box<[Arg]>,
}

struct Sets(Box<[Decl]>);

impl Pipe {
    pub(super) fn new(pos: Pos, assign: bool, decl: Vec<Decl>, args: Box<[Arg]>) -> Self {
        let sets = (!decl.is_empty()).then(|| Box::new(Sets(decl.into_boxed_slice())));
        Self { pos, assign, sets, args }
    }

    /// The variables that it sets.
    pub(super) fn decl(&self) -> &[Decl] {
        self.sets.as_ref().map_or(&[], |sets| &sets.0)
    }

    pub(super) fn commands(&self) -> impl Iterator<Item = &[Arg]> {
        commands(&self.args)
    }
}

/// Splits the arguments of a pipeline into its commands. Each has at least one argument.
pub(super) fn commands(args: &[Arg]) -> impl Iterator<Item = &[Arg]> {
    args.chunk_by(|_, next| !next.first)
}

pub(super) struct Decl {
    pub(super) name: Span,
    /// `None` for an assignment to an undeclared variable: Go reports it at execution.
    pub(super) slot: Option<u32>,
}

pub(super) struct Arg {
    pub(super) pos: Pos,
    /// Whether this is the first argument of a command.
    pub(super) first: bool,
    pub(super) term: Term,
}

pub(super) enum Term {
    Bool(bool),
    Dot,
    Nil,
    Number(Box<Number>),
    /// A number of at most nine decimal digits, the most common kind.
    Small {
        text: Span,
        value: u32,
    },
    /// A string constant. `text` is its unquoted value; `None` if that equals the text between the quotes.
    String {
        quoted: Span,
        text: Option<Box<Unquoted>>,
    },
    Field(Fields),
    /// A variable with its fields. The fields begin at the end of `name` and end at `end`.
    Variable {
        name: Span,
        slot: u32,
        end: Pos,
    },
    /// A declared variable that has no value here, e.g. in its own pipeline: Go reports it at execution.
    Unset {
        name: Span,
        end: Pos,
    },
    Chain {
        node: Box<Arg>,
        fields: Fields,
    },
    Function(&'static Func),
    Pipe(Box<Pipe>),
}

/// The unquoted value of a string constant.
pub(super) struct Unquoted(pub(super) Box<[u8]>);

/// A numeric constant and the kinds that it fits (`parse.NumberNode`).
pub(super) struct Number {
    pub(super) int: Option<i64>,
    pub(super) uint: Option<u64>,
    pub(super) float: Option<f64>,
    /// Real and imaginary part of an imaginary or complex constant.
    pub(super) complex: Option<(f64, f64)>,
    pub(super) text: Box<str>,
}

impl Term {
    /// The value of a string constant.
    pub(super) fn string<'t>(quoted: Span, own: Option<&'t Unquoted>, text: &'t [u8]) -> &'t [u8] {
        match own {
            Some(own) => &own.0,
            None => Span { start: quoted.start + 1, end: quoted.end.saturating_sub(1) }.of(text),
        }
    }

    /// A numeric constant as integer and as float, each if it fits.
    pub(super) fn number(&self) -> Option<(Option<i64>, Option<f64>)> {
        match self {
            Self::Number(n) => Some((n.int, n.float)),
            Self::Small { value, .. } => Some((Some(i64::from(*value)), Some(f64::from(*value)))),
            _ => None,
        }
    }

    /// The fields of a variable.
    pub(super) fn behind(name: Span, end: Pos) -> Fields {
        Fields(Span { start: name.end, end })
    }
}

// Each `write` prints a node as Go does; `text` is the text of the node's template.

impl Arg {
    pub(super) fn write(&self, out: &mut String, text: &[u8]) {
        match &self.term {
            Term::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Term::Dot => out.push('.'),
            Term::Nil => out.push_str("nil"),
            Term::Number(n) => out.push_str(&n.text),
            Term::Small { text: digits, .. } => out.push_str(&digits.show(text)),
            Term::String { quoted, .. } => out.push_str(&quoted.show(text)),
            Term::Field(fields) => out.push_str(&fields.0.show(text)),
            Term::Unset { name, end } | Term::Variable { name, end, .. } => {
                out.push_str(&Span { start: name.start, end: *end }.show(text));
            }
            Term::Chain { node, fields } => {
                if let Term::Pipe(p) = &node.term {
                    out.push('(');
                    p.write(out, text);
                    out.push(')');
                } else {
                    node.write(out, text);
                }
                out.push_str(&fields.0.show(text));
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

pub(super) fn write_command(args: &[Arg], out: &mut String, text: &[u8]) {
    for (i, arg) in args.iter().enumerate() {
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

impl Pipe {
    pub(super) fn write(&self, out: &mut String, text: &[u8]) {
        for (i, decl) in self.decl().iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&decl.name.show(text));
        }
        if !self.decl().is_empty() {
            out.push_str(if self.assign { " = " } else { " := " });
        }
        for (i, command) in self.commands().enumerate() {
            if i > 0 {
                out.push_str(" | ");
            }
            write_command(command, out, text);
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
