//! CRDs of a chart's `crds/`: before the render, for charts without a release, and those that were templates before.

use std::collections::BTreeMap;

use chart_compat::chart::Crd;
use serde_json::Value;

use super::error::ReconcileError;
use super::events::EventRecorder;
use super::release_runner::ReleaseRunner;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_engine::{
    CrdFile, CrdPolicy, CrdRules, KeptReason, ReleaseId, ReleaseOptions, ReleaseOutcome, require_crds,
};
use windlass_render as rendering;

/// The objects of `crds/`, labelled. Files whose names begin with one of `filters` are left out.
///
/// # Errors
/// A file is not valid YAML, or an object's labels are not a map.
pub fn crd_files(
    files: &[Crd],
    filters: &[String],
    labels: &BTreeMap<String, String>,
) -> Result<Vec<CrdFile>, ReconcileError> {
    let mut crds = rendering::crds(files)?;
    crds.retain(|file| {
        let name = file.name.rsplit('/').next().unwrap_or_default();
        !filters.iter().any(|prefix| name.starts_with(prefix.as_str()))
    });
    rendering::label_crds(&mut crds, labels).map_err(ReconcileError::Chart)?;
    Ok(crds)
}

impl ReleaseRunner {
    /// Applies CRDs if the API server does not serve one of their kinds yet.
    ///
    /// # Errors
    /// As [`windlass_engine::Engine::install_crds`].
    pub async fn ensure_kinds(
        &self,
        id: &ReleaseId,
        crds: &[CrdFile],
        options: &ReleaseOptions,
    ) -> Result<(), ReconcileError> {
        if crds.is_empty() {
            return Ok(());
        }
        let defined = crds.iter().flat_map(|f| &f.objects).flat_map(served_kinds);
        let kinds = self.engine().cluster().kinds_with(defined).await?;
        if crds.iter().flat_map(|f| &f.objects).flat_map(served_kinds).any(|gvk| kinds.get(&gvk).is_none()) {
            self.engine().install_crds(id, crds, rules(options)).await?;
        }
        Ok(())
    }

    /// Applies CRDs of a chart without a release and tracks them from here on. CRDs that are already equal are not written.
    ///
    /// # Errors
    /// A file holds something else than CRDs, or a write fails.
    pub async fn apply_crds(
        &self,
        id: &ReleaseId,
        owner: &str,
        mut crds: Vec<CrdFile>,
        options: &ReleaseOptions,
    ) -> Result<(), ReconcileError> {
        require_crds(&crds)?;
        self.engine().watch_crds_for(id, owner, &crds).await;
        for file in &mut crds {
            let mut left = Vec::new();
            for object in std::mem::take(&mut file.objects) {
                if !self.live_crd(&object).await?.1.is_some_and(|live| contains(&live, &object)) {
                    left.push(object);
                }
            }
            file.objects = left;
        }
        self.engine().install_crds(id, &crds, rules(options)).await?;
        Ok(())
    }

    /// What [`Self::apply_crds`] would write, in words.
    ///
    /// # Errors
    /// A change that it would refuse.
    pub async fn preview_crds(&self, files: &[CrdFile]) -> Result<Vec<String>, ReconcileError> {
        let mut lines = Vec::new();
        require_crds(files)?;
        for object in files.iter().flat_map(|file| &file.objects) {
            let (reference, live) = self.live_crd(object).await?;
            match live {
                None => lines.push(format!("{reference} would be created")),
                Some(live) if !contains(&live, object) => {
                    self.engine().check_crd(&live, object, &reference).await?;
                    lines.push(format!("{reference} would be changed"));
                }
                Some(_) => {}
            }
        }
        Ok(lines)
    }

    async fn live_crd(&self, object: &Value) -> Result<(ObjectRef, Option<Value>), ReconcileError> {
        let gvk = Gvk::of(object).unwrap_or_else(|| Gvk::new("", ""));
        let reference = ObjectRef::new(gvk, None, ObjectMeta::of(object).name());
        let live = self.engine().crd_client().get(&reference).await?;
        Ok((reference, live))
    }
}

/// Records a Warning on each CRD that an operation kept because the chart has it in `crds/` now.
pub fn report_kept_crds(recorder: &EventRecorder, outcome: &ReleaseOutcome) {
    for (crd, reason) in outcome.kept.iter().filter(|(_, reason)| *reason == KeptReason::InCrdsDir) {
        recorder.warn_object(crd, "Kept", format!("it left the release; {reason}"));
    }
}

fn rules(options: &ReleaseOptions) -> CrdRules {
    CrdRules { policy: CrdPolicy::Apply, adoption: options.ownership.adoption }
}

/// Whether an object contains every field of another one: the server adds fields and removes none.
pub fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().all(|(key, value)| whole.get(key).is_some_and(|whole| contains(whole, value)))
        }
        (whole, part) => whole == part,
    }
}

/// The kinds that a CRD defines, one for each version.
fn served_kinds(crd: &Value) -> Vec<Gvk> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
    let versions = spec["versions"].as_array().into_iter().flatten();
    versions.map(|v| Gvk { group: group.clone(), version: text(&v["name"]), kind: kind.clone() }).collect()
}
