//! Where a template's dot or variable got its value: only an error message asks, so the template is searched then.
//!
//! Go names the static type of a value in its messages. What a loop hands out of a list or map still has the type of its slot,
//! `interface {}`; what a pipeline gave has its own.

use super::ast::{Arg, Control, Decl, Node, Pipe, Pos, Template, Term};

/// Functions whose result is a list or map of one type.
const TYPED: [&str; 11] = [
    "until",
    "untilStep",
    "split",
    "splitn",
    "splitList",
    "sortAlpha",
    "toStrings",
    "keys",
    "chunk",
    "regexFindAll",
    "regexSplit",
];

fn is_typed(function: &str) -> bool {
    let plain = function.strip_prefix("must").unwrap_or(function);
    TYPED.iter().any(|t| t.eq_ignore_ascii_case(plain))
}

/// Whether dot, where `at` stands, is what a loop found in a slot of any type; `counting` are the loops that count to a number.
pub(super) fn dot_is_slot(template: &Template, at: &Arg, counting: &[&Control]) -> bool {
    let mut around = Vec::new();
    within(&template.root, at, &mut around)
        && around.iter().rev().find_map(|a| a.dot()).is_some_and(|binder| binder.hands_out_slots(counting))
}

/// Whether the variable, where `at` stands, is what a loop found in a slot of any type: what stands last before it and sets the variable
/// is that loop. `counting` as above.
pub(super) fn variable_is_slot(template: &Template, at: &Arg, slot: usize, counting: &[&Control]) -> bool {
    let mut last = None;
    setter(&template.root, &Sought { before: at.pos, slot }, &mut last);
    last.is_some_and(|around: Around<'_>| around.hands_out_slots(counting))
}

/// What sets a variable before a place.
struct Sought {
    before: Pos,
    slot: usize,
}

impl Sought {
    /// As which of its variables a pipeline sets it.
    fn set_by(&self, pipe: &Pipe) -> Option<usize> {
        let is_it = |decl: &Decl| decl.slot.is_some_and(|s| s as usize == self.slot);
        pipe.decl.iter().rposition(is_it).filter(|_| pipe.pos < self.before)
    }
}

/// The last control structure in a list of nodes that sets the variable, unless something else does later.
fn setter<'t>(list: &'t [Node], sought: &Sought, last: &mut Option<Around<'t>>) {
    for node in list {
        let (control, kind) = match node {
            Node::Text(_) | Node::Break(_) | Node::Continue(_) | Node::Template(_) => continue,
            Node::Action(pipe) => {
                if sought.set_by(pipe).is_some() {
                    *last = None;
                }
                continue;
            }
            Node::If(control) => (control, Kind::If),
            Node::With(control) => (control, Kind::With),
            Node::Range(control) => (control, Kind::Range),
        };
        if let Some(n) = sought.set_by(&control.pipe) {
            // Of two variables a loop sets the first to the key.
            let item = n + 1 == control.pipe.decl.len();
            *last = item.then_some(Around { control, kind, main: true });
        }
        setter(&control.list, sought, last);
        setter(control.otherwise.as_deref().unwrap_or_default(), sought, last);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    If,
    With,
    Range,
}

/// A control structure around a place.
struct Around<'t> {
    control: &'t Control,
    kind: Kind,
    /// Whether the place is in the branch for a value, not in `else`.
    main: bool,
}

impl Around<'_> {
    /// Itself, if it sets dot.
    fn dot(&self) -> Option<&Self> {
        (self.main && self.kind != Kind::If).then_some(self)
    }

    fn hands_out_slots(&self, counting: &[&Control]) -> bool {
        let last = self.control.pipe.cmds.last().and_then(|c| c.args.first()).map(|a| &a.term);
        let typed = match last {
            Some(Term::Function(f)) => is_typed(f.name),
            Some(Term::Pipe(p)) => {
                let inner = p.cmds.last().and_then(|c| c.args.first()).map(|a| &a.term);
                matches!(inner, Some(Term::Function(f)) if is_typed(f.name))
            }
            _ => false,
        };
        let counts = || counting.iter().any(|c| std::ptr::eq(*c, self.control));
        self.kind == Kind::Range && !typed && !counts()
    }
}

/// Finds the place in a list of nodes and tells what is around it, the innermost last.
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
    pipe.cmds.iter().any(|c| c.args.iter().any(|a| in_arg(a, at)))
}

fn in_arg(arg: &Arg, at: &Arg) -> bool {
    std::ptr::eq(arg, at)
        || match &arg.term {
            Term::Pipe(p) => in_pipe(p, at),
            Term::Chain { node, .. } => in_arg(node, at),
            _ => false,
        }
}
