//! The interface between the renderer and the engine: converts a chart and values to a [`RenderedRelease`].
//!
//! Owns the renderer's access to the process's clock, randomness and cluster. Does not know front ends.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bounds;
mod convert;
mod finished_manifests;
pub mod kustomize;
mod labels;
mod name_template;
mod owner_references;
pub mod post_renderers;
pub mod recorded_values;
mod render_permit;
mod render_request;
pub mod replay;
mod secrets;
mod self_reference;
mod world;

pub use bounds::{Deadline, RenderBounds, bound_input};
pub use convert::{chart_record, check_size, crds, object_data, parse_manifest, release, to_json};
pub use finished_manifests::{contains_namespace, finished_chart, finished_release};
pub use labels::{add_labels, label_crds};
pub use name_template::release_name;
pub use owner_references::{ObjectOwner, add_owner};
pub use render_permit::RenderPermit;
pub use render_request::RenderRequest;
pub use secrets::{note_document, note_secrets, note_values};
pub use self_reference::refuse_itself;
pub use world::{ClusterLookup, Documents, Lookup, SystemWorld};
pub use world::{lookup_digest, lookup_object, lookup_opaque};

pub use convert::from_json;
