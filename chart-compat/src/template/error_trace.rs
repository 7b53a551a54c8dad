//! The context of an error: the values that the failing expression reads, and the callers of the template.
//!
//! Owns what is collected after a failure; nothing here runs in a successful render.

use super::ast::{Arg, Fields, Node, Pipe, Span, Term};
use super::error::{Error, Frame, Used};
use super::exec::{At, Exec};
use crate::go::{Map, Value};
use crate::path::{Path, Step};

/// The maximal number of recorded callers.
const MAX_CALLERS: usize = 64;
/// The maximal number of recorded values of an expression.
const MAX_USED: usize = 8;
/// The maximal number of values visited in the search for a map: a render can build trees of any size, and cycles.
const MAX_SEARCHED: usize = 200_000;
/// The maximal depth of the search for a map.
const MAX_SEARCH_DEPTH: usize = 60;

impl<'a> Exec<'a> {
    /// Adds context to an error of `node`.
    #[cold]
    pub(super) fn trace_error(&self, mut error: Error, node: &'a Node, dot: Value<'a>) -> Error {
        let fresh = error.frame().is_some_and(|f| !f.traced);
        if fresh {
            // In a chain of includes only the innermost error names the cause, and a search per include would be slow.
            let innermost = !error.chain().skip(1).any(|e| e.frame().is_some());
            let used = if innermost { self.used(dot) } else { Vec::new() };
            error.trace(used);
        } else if matches!(node, Node::Template(_)) && error.callers().len() < MAX_CALLERS {
            // Go's error does not mention `{{template}}` calls.
            let frame = Frame { traced: true, ..self.frame_at(At::Node(node)) };
            error.called_from(frame);
        }
        error
    }

    /// The values that the failing expression reads.
    fn used(&self, dot: Value<'a>) -> Vec<Used> {
        let mut used = Vec::new();
        match self.at {
            At::Arg(arg) => self.used_arg(arg, dot, &mut used),
            At::Command(args) => self.used_args(args, dot, &mut used),
            At::Pipe(pipe) => self.used_pipe(pipe, dot, &mut used),
            At::Node(node) => match node {
                Node::Action(pipe) => self.used_pipe(pipe, dot, &mut used),
                Node::If(c) | Node::With(c) | Node::Range(c) => self.used_pipe(&c.pipe, dot, &mut used),
                Node::Template(c) => {
                    if let Some(pipe) = &c.pipe {
                        self.used_pipe(pipe, dot, &mut used);
                    }
                }
                Node::Text(_) | Node::Break(_) | Node::Continue(_) => {}
            },
        }
        used.truncate(MAX_USED);
        used
    }

    fn used_pipe(&self, pipe: &Pipe, dot: Value<'a>, used: &mut Vec<Used>) {
        self.used_args(&pipe.args, dot, used);
    }

    fn used_args(&self, args: &[Arg], dot: Value<'a>, used: &mut Vec<Used>) {
        for arg in args {
            self.used_arg(arg, dot, used);
        }
    }

    fn used_arg(&self, arg: &Arg, dot: Value<'a>, used: &mut Vec<Used>) {
        let (base, fields) = match &arg.term {
            Term::Field(fields) => (dot, *fields),
            Term::Variable { name, slot, end } => {
                let value = self.vars.get(self.base + *slot as usize).copied().unwrap_or_default();
                (value, Term::behind(*name, *end))
            }
            Term::Dot => (dot, Fields(Span { start: 0, end: 0 })),
            Term::Pipe(pipe) => return self.used_pipe(pipe, dot, used),
            Term::Chain { node, .. } => return self.used_arg(node, dot, used),
            _ => return,
        };
        if used.len() < MAX_USED {
            let (path, present) = self.resolve(base, fields);
            used.push(Used { text: arg.text(&self.template.text), path, present });
        }
    }

    /// The path of a chain of fields in the render's data, and the number of its steps that exist.
    fn resolve(&self, base: Value<'a>, fields: Fields) -> (Option<Path>, usize) {
        let mut value = base;
        let mut path = self.locate(base);
        let mut present = path.as_ref().map_or(0, |p| p.0.len());
        let mut there = true;
        for name in fields.texts(&self.template.text) {
            value = match value {
                Value::Map(m) => m.get(name.as_bytes()).unwrap_or_default(),
                Value::Object(o) => o.field(name.as_bytes()).unwrap_or_default(),
                _ => Value::Nil,
            };
            there &= !value.is_nil();
            path = match (self.locate(value), path) {
                (Some(found), _) => Some(found),
                (None, Some(p)) => Some(p.key(name)),
                (None, None) => None,
            };
            if there {
                present = path.as_ref().map_or(0, |p| p.0.len());
            }
        }
        (path, present)
    }

    /// The path to a map from the render's root, by identity.
    fn locate(&self, value: Value<'a>) -> Option<Path> {
        let (Value::Map(wanted), Value::Map(root)) = (value, self.root) else { return None };
        if wanted.same(root) {
            return Some(Path::default());
        }
        let mut budget = MAX_SEARCHED;
        let mut way = Vec::new();
        // The same maps are also reachable through subcharts. Search the values first: users know a map by its path there.
        let values = [Step::Key("Values".to_owned())];
        if let Some(Value::Map(m)) = root.get(b"Values") {
            way.extend(values);
            if m.same(wanted) || search(Value::Map(m), wanted, &mut way, &mut budget) {
                return Some(Path(way));
            }
            way.clear();
        }
        search(Value::Map(root), wanted, &mut way, &mut budget).then_some(Path(way))
    }
}

/// Searches for a map below a value. If it is found, `way` is its path.
fn search(at: Value<'_>, wanted: &Map<'_>, way: &mut Vec<Step>, budget: &mut usize) -> bool {
    if way.len() >= MAX_SEARCH_DEPTH {
        return false;
    }
    let mut visit = |value: Value<'_>, step: &dyn Fn() -> Step| {
        let Some(left) = budget.checked_sub(1) else { return false };
        *budget = left;
        if !matches!(value, Value::Map(_) | Value::List(_)) {
            return false;
        }
        way.push(step());
        if matches!(value, Value::Map(m) if m.is(wanted)) || search(value, wanted, way, budget) {
            return true;
        }
        way.pop();
        false
    };
    match at {
        Value::Map(map) => map
            .entries()
            .iter()
            .any(|(k, v)| visit(*v, &|| Step::Key(String::from_utf8_lossy(k).into_owned()))),
        Value::List(list) => list.items.iter().enumerate().any(|(i, v)| visit(*v, &|| Step::Index(i))),
        _ => false,
    }
}
