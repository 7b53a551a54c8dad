//! One object, its identity, and streams of objects.
//!
//! Owns reading and the fields of `metadata`; knows no transformer.

mod id;
pub mod node;
mod stream;
mod value;

pub use id::{Gvk, Id};
pub(crate) use stream::check_identity;
pub use stream::{check_unique, read};
pub(crate) use value::{Value, value_of};
pub use value::{from_data, to_data};

use chart_compat::yaml::tree::Node;

/// An object of a kustomization.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its fields, a map.
    pub node: Node,
    /// The identities that it had before, oldest first.
    pub former: Vec<Id>,
}

impl Resource {
    /// An object without former identities.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self { node, former: Vec::new() }
    }

    /// Its present identity.
    #[must_use]
    pub fn id(&self) -> Id {
        Id::of(&self.node)
    }

    /// Its first identity.
    #[must_use]
    pub fn original_id(&self) -> Id {
        self.former.first().cloned().unwrap_or_else(|| self.id())
    }

    /// Adds the present identity to the former ones.
    pub fn push_former_id(&mut self) {
        let mut id = self.id();
        id.namespace = id.effective_namespace().to_owned();
        self.former.push(id);
    }
}
