//! Nodes of a merge, shared by number.
//!
//! Owns storage and access by key; knows no merge.

use std::collections::HashMap;

use chart_compat::yaml::tree::{Kind, Node, Style};

use super::NodeId;
use crate::error::Error;
use crate::resource::node::{quote, scalar};
use crate::resource::shared::number;

/// The most nodes of a result: an item that is shared stands in it more than once.
const MAX_NODES: usize = 1_000_000;

/// A node whose content is numbers of others.
#[derive(Clone)]
pub(super) struct Shared {
    /// The node without its content.
    node: Node,
    /// What it holds, as [`Node::content`].
    pub(super) content: Vec<NodeId>,
    /// Whether a null stays in its map.
    persists: bool,
}

impl std::ops::Deref for Shared {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.node
    }
}

impl std::ops::DerefMut for Shared {
    fn deref_mut(&mut self) -> &mut Node {
        &mut self.node
    }
}

/// All nodes of a merge. Numbers come from the arena itself, so each is one of its nodes.
#[derive(Default)]
pub(super) struct Arena {
    nodes: Vec<Shared>,
    /// The nodes that stand at several places.
    marked: HashMap<String, NodeId>,
}

impl Arena {
    /// Copies a node and all that it holds into the arena.
    pub(super) fn insert(&mut self, node: &Node) -> NodeId {
        let mark = number(node).map(str::to_owned);
        if let Some(id) = mark.as_ref().and_then(|mark| self.marked.get(mark)) {
            return *id;
        }
        let content = node.content.iter().map(|child| self.insert(child)).collect();
        let id = self.push(Node { content: Vec::new(), ..shallow(node) });
        if let Some(mark) = mark {
            self.marked.insert(mark, id);
        }
        self.get_mut(id).content = content;
        id
    }

    /// Whether a node stands at several places of what was inserted.
    pub(super) fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Adds a node that holds nothing.
    pub(super) fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(Shared { node, content: Vec::new(), persists: false });
        self.nodes.len() - 1
    }

    /// A node with all that it holds.
    ///
    /// # Errors
    /// It holds more than [`MAX_NODES`] nodes.
    pub(super) fn extract(&self, id: NodeId) -> Result<Node, Error> {
        self.copy(id, &mut MAX_NODES.clone())
    }

    fn copy(&self, id: NodeId, room: &mut usize) -> Result<Node, Error> {
        let too_large = || Error::Patch(format!("the patched object has more than {MAX_NODES} nodes"));
        *room = room.checked_sub(1).ok_or_else(too_large)?;
        let shared = self.get(id);
        let content = shared.content.iter().map(|child| self.copy(*child, room)).collect::<Result<_, _>>()?;
        Ok(Node { content, ..shared.node.clone() })
    }

    pub(super) fn get(&self, id: NodeId) -> &Shared {
        &self.nodes[id]
    }

    pub(super) fn get_mut(&mut self, id: NodeId) -> &mut Shared {
        &mut self.nodes[id]
    }

    /// Marks a null that stays in its map.
    pub(super) fn persist(&mut self, id: NodeId) {
        self.get_mut(id).persists = true;
    }

    pub(super) fn persists(&self, id: NodeId) -> bool {
        self.get(id).persists
    }

    /// Makes a node a copy of another; both hold the same.
    pub(super) fn replace(&mut self, id: NodeId, with: NodeId) {
        let anchor = std::mem::take(&mut self.nodes[id].node.anchor);
        self.nodes[id] = self.nodes[with].clone();
        self.nodes[id].node.anchor = anchor;
    }

    fn place(&self, map: NodeId, key: &str) -> Option<usize> {
        let shared = self.get(map);
        if shared.kind != Kind::Map {
            return None;
        }
        let is_key = |pair: &[NodeId]| pair.first().is_some_and(|id| self.get(*id).value == key);
        shared.content.chunks_exact(2).position(is_key).map(|at| 2 * at)
    }

    /// The value of a map's key.
    pub(super) fn field(&self, map: NodeId, key: &str) -> Option<NodeId> {
        let at = self.place(map, key)?;
        self.get(map).content.get(at + 1).copied()
    }

    /// The keys of a map.
    pub(super) fn keys(&self, map: NodeId) -> Vec<String> {
        let shared = self.get(map);
        if shared.kind != Kind::Map {
            return Vec::new();
        }
        shared.content.iter().step_by(2).map(|id| self.get(*id).value.clone()).collect()
    }

    /// Removes a key of a map.
    pub(super) fn remove(&mut self, map: NodeId, key: &str) {
        if let Some(at) = self.place(map, key) {
            self.get_mut(map).content.drain(at..at + 2);
        }
    }

    /// How a key of a map is written.
    pub(super) fn key_style(&self, map: NodeId, key: &str) -> Style {
        let key = self.place(map, key).and_then(|at| self.get(map).content.get(at));
        key.map_or(Style::Plain, |id| self.get(*id).style)
    }

    /// Adds a key at a map's end.
    pub(super) fn append(&mut self, map: NodeId, key: &str, value: NodeId, style: Style) {
        let key = self.push(Node { style, ..scalar(key) });
        self.get_mut(map).content.extend([key, value]);
    }

    /// Quotes a text that YAML 1.1 would not read as one.
    pub(super) fn quote(&mut self, id: NodeId) {
        quote(self.get_mut(id));
    }
}

fn shallow(node: &Node) -> Node {
    Node {
        kind: node.kind,
        tag: node.tag.clone(),
        tagged: node.tagged,
        style: node.style,
        flow: node.flow,
        value: node.value.clone(),
        anchor: node.anchor.clone(),
        ..Node::default()
    }
}
