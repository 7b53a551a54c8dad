//! Renders a chart at the revision that it is for.
//!
//! A chart may read `.Release.IsInstall`, `.Release.IsUpgrade` and `.Release.Revision`. A new revision is what the chart renders at
//! that revision, as with Helm; as long as the chart still renders what the newest revision was made of, that revision stays.
//! Owns the choice between the two. Writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chart_compat::render::{self, Capabilities, Release};

use super::error::ReconcileError;
use super::release_runner::{ReleaseRunner, ReleaseSpec, RenderInputs, capabilities};
use windlass_base::redact;
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{ChartRecord, History, RenderedRelease};
use windlass_render::replay::{GeneratedValues, Replayed, store};
use windlass_render::{self as rendering, ClusterLookup, Deadline, RenderRequest, refuse_itself, replay};

/// A chart rendered at the revision that is due.
pub(super) struct RenderedRevision {
    pub(super) rendered: RenderedRelease,
    /// What the post-render step returned.
    pub(super) checksum: String,
    pub(super) chart: ChartRecord,
    /// The generated values, if they must be stored.
    pub(super) memory: Option<GeneratedValues>,
    /// Certificates that were renewed.
    pub(super) renewed: Vec<String>,
    pub(super) inputs: RenderInputs,
    /// The history of the release, if the chart reads the revision.
    pub(super) past: Option<History>,
}

/// The revision that templates see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RevisionView {
    pub(crate) revision: u64,
    pub(crate) is_upgrade: bool,
}

impl RevisionView {
    /// Revision 1 as an upgrade. addon-operator renders at it for its checksum, whatever the revision.
    pub const CANONICAL: Self = Self { revision: 1, is_upgrade: true };
    /// A first revision.
    pub const FIRST: Self = Self { revision: 1, is_upgrade: false };

    /// The revision of a record.
    fn of(record: &Record) -> Self {
        let info = &record.info;
        match record.version == 1 || info.first_deployed == info.last_deployed {
            true => Self::FIRST,
            false => Self { revision: record.version, is_upgrade: true },
        }
    }

    /// The revision after the newest one. After an uninstall templates see a first revision, whatever its number
    /// (`Install.Run`).
    fn next(newest: Option<&Record>) -> Self {
        match newest.filter(|record| record.info.status != ReleaseStatus::Uninstalled) {
            None => Self::FIRST,
            Some(newest) => Self { revision: newest.version + 1, is_upgrade: true },
        }
    }

    /// A release as its templates see it.
    pub fn release(self, name: &str, namespace: &str) -> Release {
        Release {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: i64::try_from(self.revision).unwrap_or(i64::MAX),
            is_upgrade: self.is_upgrade,
        }
    }
}

/// The renders of one operation.
struct Renders<'a> {
    runner: &'a ReleaseRunner,
    spec: &'a ReleaseSpec,
    capabilities: Capabilities,
    /// What the last render generated, if that was not stored before.
    memory: Option<GeneratedValues>,
    renewed: Vec<String>,
    inputs: RenderInputs,
    /// Warnings that were logged already: several renders return the same ones.
    logged: BTreeSet<String>,
    /// When all renders of this operation have to end.
    deadline: Deadline,
}

/// One render.
struct One {
    rendered: RenderedRelease,
    checksum: String,
    chart: ChartRecord,
    /// Another revision may render differently.
    reads_revision: bool,
}

impl ReleaseRunner {
    /// Renders a release; what it generates is not stored yet.
    pub(super) async fn render_revision(
        &self,
        spec: &ReleaseSpec,
    ) -> Result<RenderedRevision, ReconcileError> {
        let mut renders = Renders {
            runner: self,
            spec,
            capabilities: capabilities(self.engine().cluster()).await?,
            memory: None,
            renewed: Vec::new(),
            inputs: RenderInputs::new(self.engine().cluster().clone()),
            logged: BTreeSet::new(),
            deadline: self.bounds.deadline(),
        };
        let result = renders.choose().await;
        match result {
            Ok((one, canonical, past)) => Ok(renders.finish(one, canonical, past)),
            Err(ReconcileError::Render { error, .. }) => {
                Err(ReconcileError::Render { error, inputs: Some(Box::new(renders.inputs)) })
            }
            Err(error) => Err(error),
        }
    }
}

impl Renders<'_> {
    /// The render at the revision that is due, the checksum of the canonical one if that is another, and the history if it was read.
    async fn choose(&mut self) -> Result<(One, Option<String>, Option<History>), ReconcileError> {
        let (runner, spec) = (self.runner, self.spec);
        let canonical = match self.at(RevisionView::CANONICAL).await {
            Ok(one) if !one.reads_revision => return Ok((one, None, None)),
            Ok(one) => Some(one.checksum),
            // A chart that refuses to be an upgrade can be installed.
            Err(ReconcileError::Render { .. }) => None,
            Err(error) => return Err(error),
        };
        let past = runner.engine().history_of(&spec.id).await?;
        let newest = past.newest();
        let mut unchanged = None;
        if let Some(newest) = newest.filter(|record| record.info.status != ReleaseStatus::Uninstalled) {
            match self.at(RevisionView::of(newest)).await {
                Ok(one)
                    if has_checksum(newest, spec.checksum_label, canonical.as_deref(), &one)
                        && runner.engine().has_same_state(newest, &one.rendered) =>
                {
                    unchanged = Some(one);
                }
                Ok(_) | Err(ReconcileError::Render { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let one = match unchanged {
            Some(one) => one,
            None => self.at(RevisionView::next(newest)).await?,
        };
        Ok((one, canonical, Some(past)))
    }
}

/// Whether a record's checksum is that of what the chart renders now: what it renders as an install may be the same while an
/// upgrade would differ. A record made when the chart could not be an upgrade has the checksum of its own revision.
fn has_checksum(newest: &Record, label: Option<&str>, canonical: Option<&str>, one: &One) -> bool {
    match (label.and_then(|label| newest.labels.get(label)), canonical) {
        (Some(known), Some(canonical)) => known == canonical || *known == one.checksum,
        _ => true,
    }
}

impl Renders<'_> {
    async fn at(&mut self, view: RevisionView) -> Result<One, ReconcileError> {
        let Self { runner, spec, .. } = *self;
        let id = spec.id.clone();
        let options = render::Options {
            release: view.release(&id.name, &id.namespace),
            capabilities: self.capabilities.clone(),
            skip_schema_validation: spec.skip_schema_validation,
            subchart_notes: false,
            limits: runner.bounds.limits(),
        };
        let lookup = ClusterLookup::new(runner.engine().cluster().clone());
        let (chart, user) = (Arc::clone(&spec.chart), Arc::clone(&spec.values));
        let (post_render, generated) = (spec.post_render.clone(), self.memory.clone());
        let memories = runner.engine().record_client().clone();
        let storage = runner.engine().storage_namespace_of(&self.spec.id).to_owned();
        let runtime = tokio::runtime::Handle::current();
        let (bounds, deadline, documents) = (runner.bounds, self.deadline, runner.documents.clone());
        let object = runner.object.clone();
        // Parallel renders share the memory that the process has.
        let permit = Arc::clone(&runner.renders).acquire_owned().await;
        let work = move || {
            let _permit = permit;
            let request = RenderRequest {
                cluster: Some(&lookup),
                documents: documents.as_deref(),
                ..RenderRequest::new(&chart, &user, &options, deadline)
            };
            let mut warnings = Vec::new();
            let load = || match &generated {
                Some(memory) => Ok(memory.clone()),
                None => runtime.block_on(store::load(&memories, &storage, &id.name)),
            };
            let mut failed_lookups = BTreeMap::new();
            let mut render = || -> Result<_, ReconcileError> {
                let done = request.replay(&load, &mut |text| warnings.push(text));
                let done = done.map_err(|error| match error {
                    replay::Error::Render { error, lookups } => {
                        failed_lookups = lookups;
                        ReconcileError::Render { error, inputs: None }
                    }
                    other @ replay::Error::GeneratedValues(_) => ReconcileError::Replay(other.to_string()),
                })?;
                let Replayed { rendered, memory, renewed, renew_at, lookups } = done;
                let reads_revision = rendered.reads_revision;
                let (rendered, checksum) = match &post_render {
                    Some(post_render) => {
                        // A post-renderer parses all manifests.
                        rendering::check_size(&rendered, &bounds)?;
                        post_render(rendered, &bounds)?
                    }
                    None => (rendering::release(&rendered, &bounds)?, String::new()),
                };
                if let Some(object) = &object {
                    refuse_itself(&rendered, object, &id.namespace).map_err(ReconcileError::Chart)?;
                }
                let chart = rendering::chart_record(chart.chart());
                Ok((One { rendered, checksum, chart, reads_revision }, memory, renewed, renew_at, lookups))
            };
            (render(), warnings, failed_lookups)
        };
        let done = redact::spawn_blocking(work).await;
        let (done, warnings, failed_lookups) = done.map_err(|e| ReconcileError::Task(e.to_string()))?;
        self.inputs.lookups.extend(failed_lookups);
        for text in warnings {
            if self.logged.insert(text.clone()) {
                tracing::warn!(release = %spec.id, "{text}");
            }
        }
        let (one, memory, renewed, renew_at, lookups) = done?;
        self.memory = memory.or(self.memory.take());
        self.renewed.extend(renewed);
        self.inputs.renew_at = renew_at;
        self.inputs.lookups.extend(lookups);
        Ok(one)
    }

    fn finish(self, one: One, canonical: Option<String>, past: Option<History>) -> RenderedRevision {
        let One { rendered, checksum, chart, .. } = one;
        let Self { memory, renewed, inputs, .. } = self;
        let checksum = canonical.unwrap_or(checksum);
        RenderedRevision { rendered, checksum, chart, memory, renewed, inputs, past }
    }
}
