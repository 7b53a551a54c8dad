//! The parsed template, and how Go prints its nodes in error messages.

use super::func::Func;

/// Byte offset in a template's text.
pub(super) type Pos = u32;

/// One parsed template: a file or a `define`.
pub struct Template {
    pub(super) name: Box<str>,
    /// The file that the text stood in.
    pub(super) file: Box<str>,
    /// The whole text of the file, for positions.
    pub(super) text: std::sync::Arc<[u8]>,
    pub(super) root: Vec<Node>,
    /// How many variables can be live at once, `$` included.
    pub(super) slots: usize,
    pub(super) blank: bool,
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
    Text(Box<[u8]>),
    Action(Pipe),
    If(Box<Control>),
    With(Box<Control>),
    Range(Box<Control>),
    Template { pos: Pos, name: Box<str>, pipe: Option<Pipe> },
    Break(Pos),
    Continue(Pos),
}

pub(super) struct Control {
    pub(super) pos: Pos,
    pub(super) pipe: Pipe,
    pub(super) list: Vec<Node>,
    pub(super) otherwise: Option<Vec<Node>>,
}

pub(super) struct Pipe {
    pub(super) pos: Pos,
    pub(super) decl: Vec<Decl>,
    pub(super) assign: bool,
    pub(super) cmds: Vec<Command>,
}

pub(super) struct Decl {
    pub(super) name: Box<str>,
    /// `None` for an assignment to a variable that does not exist: Go finds that out when it runs.
    pub(super) slot: Option<usize>,
}

pub(super) struct Command {
    pub(super) args: Vec<Arg>,
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
    String {
        quoted: Box<str>,
        text: Box<[u8]>,
    },
    Field(Box<[Box<str>]>),
    Variable {
        name: Box<str>,
        slot: usize,
        fields: Box<[Box<str>]>,
    },
    /// A variable that is used where it is declared: Go finds out when it runs that it has no value yet.
    Unset(Box<str>),
    Chain {
        node: Box<Arg>,
        fields: Box<[Box<str>]>,
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

fn write_fields(out: &mut String, fields: &[Box<str>]) {
    for f in fields {
        out.push('.');
        out.push_str(f);
    }
}

impl Arg {
    pub(super) fn write(&self, out: &mut String) {
        match &self.term {
            Term::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Term::Dot => out.push('.'),
            Term::Nil => out.push_str("nil"),
            Term::Number(n) => out.push_str(&n.text),
            Term::String { quoted, .. } => out.push_str(quoted),
            Term::Field(fields) => write_fields(out, fields),
            Term::Unset(name) => out.push_str(name),
            Term::Variable { name, fields, .. } => {
                out.push_str(name);
                write_fields(out, fields);
            }
            Term::Chain { node, fields } => {
                if let Term::Pipe(p) = &node.term {
                    out.push('(');
                    p.write(out);
                    out.push(')');
                } else {
                    node.write(out);
                }
                write_fields(out, fields);
            }
            Term::Function(f) => out.push_str(f.name),
            Term::Pipe(p) => p.write(out),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }
}

impl Command {
    pub(super) fn write(&self, out: &mut String) {
        for (i, arg) in self.args.iter().enumerate() {
            if i > 0 {
                out.push(' ');
            }
            if let Term::Pipe(p) = &arg.term {
                out.push('(');
                p.write(out);
                out.push(')');
            } else {
                arg.write(out);
            }
        }
    }
}

impl Pipe {
    pub(super) fn write(&self, out: &mut String) {
        for (i, decl) in self.decl.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            out.push_str(&decl.name);
        }
        if !self.decl.is_empty() {
            out.push_str(if self.assign { " = " } else { " := " });
        }
        for (i, cmd) in self.cmds.iter().enumerate() {
            if i > 0 {
                out.push_str(" | ");
            }
            cmd.write(out);
        }
    }
}

fn write_list(out: &mut String, list: &[Node]) {
    for node in list {
        node.write(out);
    }
}

impl Control {
    fn write(&self, out: &mut String, word: &str) {
        out.push_str("{{");
        out.push_str(word);
        out.push(' ');
        self.pipe.write(out);
        out.push_str("}}");
        write_list(out, &self.list);
        if let Some(list) = &self.otherwise {
            out.push_str("{{else}}");
            write_list(out, list);
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
            Self::Template { pos, .. } | Self::Break(pos) | Self::Continue(pos) => *pos,
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Self::Text(t) => out.push_str(&String::from_utf8_lossy(t)),
            Self::Action(p) => {
                out.push_str("{{");
                p.write(out);
                out.push_str("}}");
            }
            Self::If(c) => c.write(out, "if"),
            Self::With(c) => c.write(out, "with"),
            Self::Range(c) => c.write(out, "range"),
            Self::Template { name, pipe, .. } => {
                out.push_str("{{template ");
                out.push_str(&crate::go::strconv::quote(name.as_bytes()));
                if let Some(p) = pipe {
                    out.push(' ');
                    p.write(out);
                }
                out.push_str("}}");
            }
            Self::Break(_) => out.push_str("{{break}}"),
            Self::Continue(_) => out.push_str("{{continue}}"),
        }
    }
}
