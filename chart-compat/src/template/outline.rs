//! A parsed template for static analysis.
//!
//! Owns a simple form that is independent of execution.

use super::ast::{Arg, Control, Fields, Node, Pipe, Template, Term};

/// A node of a template, without its text.
#[derive(Clone, Debug, PartialEq)]
pub enum Outline {
    /// `{{ pipeline }}`
    Action(Pipeline),
    /// `{{ if }}`, with its `else` branch.
    If(Pipeline, Vec<Outline>, Vec<Outline>),
    /// `{{ with }}`, with its `else` branch.
    With(Pipeline, Vec<Outline>, Vec<Outline>),
    /// `{{ range }}`, with its `else` branch.
    Range(Pipeline, Vec<Outline>, Vec<Outline>),
    /// `{{ template "name" pipeline }}`
    Template(String, Option<Pipeline>),
}

/// A chain of commands; each receives the result of the previous one as its last argument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    /// The variables that it sets, with their `$`.
    pub variables: Vec<String>,
    /// The commands; each has at least one expression.
    pub commands: Vec<Vec<Expr>>,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// `.`
    Dot,
    /// `.a.b`
    Field(Vec<String>),
    /// `$x.a.b`
    Variable(String, Vec<String>),
    /// `(…).a.b`
    Chain(Box<Expr>, Vec<String>),
    /// A string constant, unquoted.
    Text(String),
    /// A function.
    Function(&'static str),
    /// A pipeline in parentheses.
    Pipeline(Pipeline),
    /// A number, boolean or nil, or a variable without a value.
    Constant,
}

impl Template {
    /// The template's nodes, without its text.
    #[must_use]
    pub fn outline(&self) -> Vec<Outline> {
        list(&self.root, &self.text)
    }
}

fn list(nodes: &[Node], text: &[u8]) -> Vec<Outline> {
    let control = |c: &Control, make: fn(Pipeline, Vec<Outline>, Vec<Outline>) -> Outline| {
        let otherwise = c.otherwise.as_deref().map(|nodes| list(nodes, text)).unwrap_or_default();
        make(pipeline(&c.pipe, text), list(&c.list, text), otherwise)
    };
    let node = |node: &Node| {
        Some(match node {
            Node::Action(p) => Outline::Action(pipeline(p, text)),
            Node::If(c) => control(c, Outline::If),
            Node::With(c) => control(c, Outline::With),
            Node::Range(c) => control(c, Outline::Range),
            Node::Template(c) => {
                Outline::Template(c.name.to_string(), c.pipe.as_ref().map(|p| pipeline(p, text)))
            }
            Node::Text(_) | Node::Break(_) | Node::Continue(_) => return None,
        })
    };
    nodes.iter().filter_map(node).collect()
}

fn pipeline(p: &Pipe, text: &[u8]) -> Pipeline {
    Pipeline {
        variables: p.decl().iter().map(|d| d.name.show(text).into_owned()).collect(),
        commands: p.commands().map(|args| args.iter().map(|a| expr(a, text)).collect()).collect(),
    }
}

fn expr(arg: &Arg, text: &[u8]) -> Expr {
    let names = |fields: Fields| fields.texts(text).map(str::to_owned).collect();
    match &arg.term {
        Term::Dot => Expr::Dot,
        Term::Field(fields) => Expr::Field(names(*fields)),
        Term::Variable { name, end, .. } => {
            Expr::Variable(name.show(text).into_owned(), names(Term::behind(*name, *end)))
        }
        Term::Chain { node, fields } => Expr::Chain(Box::new(expr(node, text)), names(*fields)),
        Term::String { quoted, text: own } => {
            Expr::Text(String::from_utf8_lossy(Term::string(*quoted, own.as_deref(), text)).into_owned())
        }
        Term::Function(f) => Expr::Function(f.name),
        Term::Pipe(p) => Expr::Pipeline(pipeline(p, text)),
        Term::Bool(_) | Term::Nil | Term::Number(_) | Term::Small { .. } | Term::Unset { .. } => {
            Expr::Constant
        }
    }
}
