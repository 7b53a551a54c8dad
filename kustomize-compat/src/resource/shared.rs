//! Nodes that stand at several places of an object.
//!
//! Owns what kustomize's labels and annotations leave behind: a transformer puts one node into all fields that lack it, so that a
//! later change of the one in `metadata` is one of the selector too. Here each place has a copy, marked by a number and by what it
//! was when the copies were equal.

use std::collections::HashMap;

use chart_compat::yaml::tree::Node;

use super::{Resource, build_steps};

/// No name of an anchor begins so.
const MARK: char = '~';

/// The number of a marked node.
pub(crate) fn number(node: &Node) -> Option<&str> {
    node.anchor.strip_prefix(MARK)?.split(' ').next()
}

fn mark(number: &str, node: &Node) -> String {
    format!("{MARK}{number} {} {}", node.tag, node.value)
}

/// Marks a node with a number.
pub(crate) fn set_number(node: &mut Node, number: usize) {
    node.anchor = mark(&number.to_string(), node);
}

/// A node without marks, for texts.
pub(crate) fn without_marks(node: &Node) -> Node {
    let mut node = node.clone();
    clear(&mut node);
    node
}

fn clear(node: &mut Node) {
    node.anchor.clear();
    node.content.iter_mut().for_each(clear);
}

/// Gives a marked node's change to all places where it stands.
pub(crate) fn sync(object: &mut Resource) {
    if !object.shares {
        return;
    }
    build_steps::note(build_steps::of_memory(object.node.memory()));
    let mut changed = HashMap::new();
    find(&object.node, &mut changed);
    if !changed.is_empty() {
        apply(&mut object.node, &changed);
    }
}

fn find(node: &Node, changed: &mut HashMap<String, Node>) {
    if let Some(number) = number(node)
        && node.anchor != mark(number, node)
    {
        let anchor = mark(number, node);
        changed.insert(number.to_owned(), Node { anchor, ..node.clone() });
    }
    node.content.iter().for_each(|child| find(child, changed));
}

fn apply(node: &mut Node, changed: &HashMap<String, Node>) {
    if let Some(new) = number(node).and_then(|number| changed.get(number)) {
        *node = new.clone();
        return;
    }
    node.content.iter_mut().for_each(|child| apply(child, changed));
}
