//! One object, its identity, and streams of objects.
//!
//! Owns reading, the fields of `metadata` and what a build notes in annotations of its own; knows no transformer.

pub(crate) mod build_steps;
pub(crate) mod growth;
mod id;
mod list;
pub mod node;
mod notes;
pub(crate) mod shared;
mod stream;
mod value;

pub use build_steps::{MAX_STEPS, Steps};
pub(crate) use id::{FIRST, LAST};
pub use id::{Gvk, Id};
pub use list::Objects;
pub(crate) use notes::{Behavior, ORIGIN, TRANSFORMATIONS, is_internal};
pub(crate) use stream::check_identity;
pub(crate) use stream::read_within;
pub use stream::{check_unique, read};
pub(crate) use value::{Value, value_of};
pub use value::{from_data, to_data};

use chart_compat::yaml::tree::Node;

use crate::schema::Schemas;

/// An object of a kustomization.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Its fields, a map; a null once a patch has deleted it.
    pub node: Node,
    /// The names of the vars that read it.
    pub vars: Vec<String>,
    /// How many nodes of it are marked, since they may stand at several places.
    pub(crate) marked: usize,
    /// Whether one does.
    pub(crate) shares: bool,
}

impl Resource {
    /// An object that no var reads.
    #[must_use]
    pub fn new(node: Node) -> Self {
        Self { node, vars: Vec::new(), marked: 0, shares: false }
    }

    /// Its present identity.
    #[must_use]
    pub fn id(&self, schemas: &Schemas) -> Id {
        build_steps::note(8);
        Id::of(&self.node, schemas)
    }

    /// Its first identity.
    #[must_use]
    pub fn original_id(&self, schemas: &Schemas) -> Id {
        self.former_ids(schemas).into_iter().next().unwrap_or_else(|| self.id(schemas))
    }

    /// The keys of all its identities, the former ones first.
    #[must_use]
    pub fn all_ids(&self, schemas: &Schemas) -> Vec<Id> {
        let mut all = self.former_ids(schemas);
        all.push(self.id(schemas));
        all
    }

    /// Whether it holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        node::is_empty(&self.node)
    }
}
