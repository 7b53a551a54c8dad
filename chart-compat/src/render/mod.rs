//! Rendering: converts a loaded chart and values to manifests, hooks, CRDs and notes.
//!
//! Owns Helm's render context, its own template functions, its error frames and the sorting of the rendered text. All
//! access of a render to the outside goes through [`World`].

mod capabilities;
mod checksum;
mod context;
mod engine;
mod error;
pub(crate) mod functions;
mod manifest;
mod order;
mod output;
mod post;
mod prefetch;
mod run;
mod schema;

pub use capabilities::{Capabilities, KubeVersion, default_api_versions};
pub use engine::{CompiledChart, function_names};
pub(crate) use engine::{Lenient, parse_template, render_leniently};
pub use error::{Breach, Error};
pub use manifest::{Hook, Manifest, split_documents};
pub use order::{INSTALL_ORDER, kind_rank};
pub use output::{
    ShowOnly, debug_output, manifest_text, release_name_error, template_output, template_output_of,
    template_pieces,
};
pub use post::PostRenderStrategy;
pub use prefetch::Prefetch;
pub use schema::Schema;
pub(crate) use schema::check_schema;

use crate::chart::{Crd, Metadata};
use crate::data::Map;
use crate::template::Limits;

/// The release's name, namespace, revision and operation.
#[derive(Clone, Debug)]
pub struct Release {
    /// `.Release.Name`
    pub name: String,
    /// `.Release.Namespace`
    pub namespace: String,
    /// `.Release.Revision`
    pub revision: i64,
    /// `.Release.IsUpgrade`; `.Release.IsInstall` is the opposite
    pub is_upgrade: bool,
}

/// Options of a render.
#[derive(Clone, Debug)]
pub struct Options {
    /// The release.
    pub release: Release,
    /// The capabilities of the cluster.
    pub capabilities: Capabilities,
    /// Skip `values.schema.json`.
    pub skip_schema_validation: bool,
    /// Include the notes of subcharts.
    pub subchart_notes: bool,
    /// Limits of the render.
    pub limits: Limits,
}

/// The output of a render, immutable.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// Metadata of the rendered chart after dependency processing.
    pub chart: Metadata,
    /// Plain manifests in install order.
    pub manifests: Vec<Manifest>,
    /// Hooks, ordered by kind.
    pub hooks: Vec<Hook>,
    /// Files below `crds/`, the chart's own first.
    pub crds: Vec<Crd>,
    /// The rendered `NOTES.txt`.
    pub notes: String,
    /// The values passed to the templates.
    pub values: Map,
    /// Whether a template read `.Release.IsInstall`, `.Release.IsUpgrade` or `.Release.Revision`. If none did, every other
    /// revision renders the same output.
    pub reads_revision: bool,
}

/// Compile-time check: public types can move to any thread.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<CompiledChart>();
    shared::<Rendered>();
    shared::<Options>();
    shared::<crate::data::Data>();
};
