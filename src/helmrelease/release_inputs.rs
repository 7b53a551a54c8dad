//! What a HelmRelease's release is made of, as a request to the runner.

use std::collections::BTreeMap;
use std::sync::Arc;

use chart_compat::data::Map;
use chart_compat::render::CompiledChart;
use serde_json::Value;

use super::actions::OWNER;
use super::options;
use super::release_state::Action;
use crate::controller::{ReconcileError, ReleaseSpec, crd_files};
use crate::flux_api::helm_release::HelmReleaseSpec;
use crate::release::ReleaseId;
use crate::render::RenderBounds;

/// What a release is made of.
pub(super) struct ReleaseInputs<'a> {
    pub(super) object: &'a Value,
    pub(super) spec: &'a HelmReleaseSpec,
    pub(super) id: &'a ReleaseId,
    pub(super) chart: &'a Arc<CompiledChart>,
    pub(super) values: &'a Map,
    pub(super) bounds: RenderBounds,
}

impl ReleaseInputs<'_> {
    /// What is asked of the runner.
    ///
    /// # Errors
    /// A post-renderer is invalid, or `crds/` of the chart.
    pub(super) fn release_spec(&self, action: Action, installs: bool) -> Result<ReleaseSpec, ReconcileError> {
        let origin = options::origin_labels(self.object);
        let metadata = &self.object["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default();
        Ok(ReleaseSpec {
            id: self.id.clone(),
            crds: crd_files(&self.chart.chart().crds(), &[], &origin)?,
            chart: Arc::clone(self.chart),
            values: Arc::new(self.values.clone()),
            skip_schema_validation: match installs {
                true => self.spec.install.disable_schema_validation,
                false => self.spec.upgrade.disable_schema_validation,
            },
            owner: OWNER.to_owned(),
            cause: format!(
                "generation {} of HelmRelease {}/{}",
                metadata["generation"].as_i64().unwrap_or_default(),
                text("namespace"),
                text("name")
            ),
            record_labels: BTreeMap::new(),
            checksum_label: None,
            post_render: Some(options::post_render(self.spec, origin, self.bounds)?),
            options: options::release_options(self.spec, action, installs),
        })
    }
}
