//! The origin of a template's dot. Only error messages need it, so it is searched after a failure.
//!
//! Go names the static type of a value in its messages. An element of a list or map has the type of its slot, `interface {}`; the
//! result of a pipeline has its own type.

use super::ast::{Arg, Control, Node, Pipe, Template, Term};

/// Whether dot at `at` is an item that a loop read from an `interface {}` slot. `loops` are the active loops, each with whether
/// its items have that type.
pub(super) fn dot_is_slot(template: &Template, at: &Arg, loops: &[(&Control, bool)]) -> bool {
    let mut around = Vec::new();
    let binder = within(&template.root, at, &mut around).then(|| around.iter().rev().find_map(Around::dot));
    binder.flatten().is_some_and(|binder| {
        let running = loops.iter().rev().find(|(control, _)| std::ptr::eq(*control, binder.control));
        binder.kind == Kind::Range && running.is_some_and(|(_, hands_out_slots)| *hands_out_slots)
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    If,
    With,
    Range,
}

/// A control structure that encloses a node.
struct Around<'t> {
    control: &'t Control,
    kind: Kind,
    /// Whether the node is in the main branch, not in `else`.
    main: bool,
}

impl Around<'_> {
    /// This structure, if it sets dot.
    fn dot(&self) -> Option<&Self> {
        (self.main && self.kind != Kind::If).then_some(self)
    }
}

/// Searches `at` in a list of nodes and collects the structures that enclose it, innermost last.
fn within<'t>(list: &'t [Node], at: &Arg, around: &mut Vec<Around<'t>>) -> bool {
    list.iter().any(|node| match node {
        Node::Text(_) | Node::Break(_) | Node::Continue(_) => false,
        Node::Action(pipe) => in_pipe(pipe, at),
        Node::Template(c) => c.pipe.as_ref().is_some_and(|p| in_pipe(p, at)),
        Node::If(c) => in_control(c, Kind::If, at, around),
        Node::With(c) => in_control(c, Kind::With, at, around),
        Node::Range(c) => in_control(c, Kind::Range, at, around),
    })
}

fn in_control<'t>(control: &'t Control, kind: Kind, at: &Arg, around: &mut Vec<Around<'t>>) -> bool {
    if in_pipe(&control.pipe, at) {
        return true;
    }
    for (main, list) in [(true, Some(&control.list)), (false, control.otherwise.as_ref())] {
        around.push(Around { control, kind, main });
        if list.is_some_and(|list| within(list, at, around)) {
            return true;
        }
        around.pop();
    }
    false
}

fn in_pipe(pipe: &Pipe, at: &Arg) -> bool {
    pipe.args.iter().any(|a| in_arg(a, at))
}

fn in_arg(arg: &Arg, at: &Arg) -> bool {
    std::ptr::eq(arg, at)
        || match &arg.term {
            Term::Pipe(p) => in_pipe(p, at),
            Term::Chain { node, .. } => in_arg(node, at),
            _ => false,
        }
}
