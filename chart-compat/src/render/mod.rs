//! Rendering: a loaded chart and values in, manifests, hooks, CRDs and notes out.
//!
//! Owns Helm's render context, its own template functions, its error frames and the sorting of the rendered text. All
//! that a render may ask of the outside goes through [`World`].

mod capabilities;
mod checksum;
mod context;
mod engine;
mod error;
mod functions;
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

/// What the release is called and where in its life it stands.
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

/// How to render.
#[derive(Clone, Debug)]
pub struct Options {
    /// The release.
    pub release: Release,
    /// What the cluster can do.
    pub capabilities: Capabilities,
    /// Skip `values.schema.json`.
    pub skip_schema_validation: bool,
    /// Put the notes of subcharts into the notes too.
    pub subchart_notes: bool,
    /// Bounds of the render.
    pub limits: Limits,
}

/// What came out, immutable.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The chart that was rendered, its dependencies processed.
    pub chart: Metadata,
    /// Plain manifests in install order.
    pub manifests: Vec<Manifest>,
    /// Hooks, ordered by kind.
    pub hooks: Vec<Hook>,
    /// Files below `crds/`, the chart's own first.
    pub crds: Vec<Crd>,
    /// The rendered `NOTES.txt`.
    pub notes: String,
    /// The values that the templates saw.
    pub values: Map,
    /// Whether a template read `.Release.IsInstall`, `.Release.IsUpgrade` or `.Release.Revision`: if none did, this is
    /// what every other revision comes out as, too.
    pub reads_revision: bool,
}

/// Statically: what crosses the crate's border can go to any thread.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<CompiledChart>();
    shared::<Rendered>();
    shared::<Options>();
    shared::<crate::data::Data>();
};
