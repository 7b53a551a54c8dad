//! What a module's chart gives, at the revision that it is for.
//!
//! A chart may look at `.Release.IsInstall`, `.Release.IsUpgrade` and `.Release.Revision`. What is released is what the chart gives
//! at the revision that is made of it, as with Helm; and as long as the chart still gives what the newest revision was made of, that
//! stays. Owns the choice between the two; whoever carries it out is the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chart_compat::data::{Data, Map};
use chart_compat::render::{self, Capabilities, CompiledChart, Release, Rendered};

use super::{CHECKSUM_LABEL, Error, Inputs, Shared};
use crate::redact;
use crate::release::record::{Record, ReleaseStatus};
use crate::release::{ChartRecord, History, RenderedRelease};
use crate::render::replay::{Memory, Replayed, store};
use crate::render::{self as rendering, ClusterLookup, Deadline, Lookup, SystemWorld, replay};

/// What is to be released.
pub(super) struct Form {
    pub(super) rendered: RenderedRelease,
    /// The checksum by which addon-operator knows the module.
    pub(super) checksum: String,
    pub(super) chart: ChartRecord,
    /// What the chart makes by chance, if it is to be kept.
    pub(super) memory: Option<Memory>,
    /// Certificates that were made anew.
    pub(super) renewed: Vec<String>,
    pub(super) inputs: Inputs,
    /// The past of the release, if the chart looks at it.
    pub(super) past: Option<History>,
}

/// The place of a revision in its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) revision: u64,
    pub(crate) is_upgrade: bool,
}

impl At {
    /// As addon-operator renders for its checksum, at every revision.
    pub(crate) const PEERS: Self = Self { revision: 1, is_upgrade: true };
    /// A first revision.
    pub(crate) const FIRST: Self = Self { revision: 1, is_upgrade: false };

    /// Where a revision stands that exists.
    fn of(record: &Record) -> Self {
        let info = &record.info;
        match record.version == 1 || info.first_deployed == info.last_deployed {
            true => Self::FIRST,
            false => Self { revision: record.version, is_upgrade: true },
        }
    }

    /// Where the revision behind these stands. After an uninstall the release begins anew: templates are told of a first revision,
    /// whatever its number (`Install.Run`).
    fn next(newest: Option<&Record>) -> Self {
        match newest.filter(|record| record.info.status != ReleaseStatus::Uninstalled) {
            None => Self::FIRST,
            Some(newest) => Self { revision: newest.version + 1, is_upgrade: true },
        }
    }

    /// A release as its templates see it.
    pub(crate) fn release(self, name: &str, namespace: &str) -> Release {
        Release {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            revision: i64::try_from(self.revision).unwrap_or(i64::MAX),
            is_upgrade: self.is_upgrade,
        }
    }
}

/// Lookups after which a template's error may quote a Secret.
struct NotingSecrets(ClusterLookup);

impl Lookup for NotingSecrets {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String> {
        let found = self.0.lookup(api_version, kind, namespace, name)?;
        if kind == "Secret" {
            redact::process().add_secret(&rendering::to_json(&found));
        }
        Ok(found)
    }
}

/// A module that is rendered, perhaps several times.
struct Renders<'a> {
    shared: &'a Shared,
    module: &'a str,
    chart: &'a Arc<CompiledChart>,
    values: &'a Arc<Map>,
    capabilities: Capabilities,
    /// What the last render made by chance, if that was not known before.
    memory: Option<Memory>,
    renewed: Vec<String>,
    inputs: Inputs,
    /// Warnings that were told already: several renders give the same ones.
    told: BTreeSet<String>,
    /// When all renders of this run have to end.
    deadline: Deadline,
}

/// One render.
struct One {
    rendered: RenderedRelease,
    checksum: String,
    chart: ChartRecord,
    /// Another revision may come out otherwise.
    reads_revision: bool,
}

impl Shared {
    /// Renders a module; what it makes by chance is not kept yet.
    pub(super) async fn form(
        &self,
        module: &str,
        chart: &Arc<CompiledChart>,
        values: &Arc<Map>,
    ) -> Result<Form, Error> {
        let mut renders = Renders {
            shared: self,
            module,
            chart,
            values,
            capabilities: super::capabilities(self.engine.cluster()).await?,
            memory: None,
            renewed: Vec::new(),
            inputs: Inputs { renew_at: None, lookups: BTreeMap::new() },
            told: BTreeSet::new(),
            deadline: self.bounds.deadline(),
        };
        let peers = match renders.at(At::PEERS).await {
            Ok(one) if !one.reads_revision => return Ok(renders.form(one, None, None)),
            Ok(one) => Some(one.checksum),
            // A chart that refuses to be an upgrade can be installed.
            Err(Error::Render(_)) => None,
            Err(error) => return Err(error),
        };
        let past = self.engine.history_of(&self.id(module)).await?;
        let newest = past.newest();
        let mut kept = None;
        if let Some(newest) = newest.filter(|record| record.info.status != ReleaseStatus::Uninstalled) {
            match renders.at(At::of(newest)).await {
                Ok(one)
                    if is_known(newest, peers.as_deref(), &one)
                        && self.engine.has_same_state(newest, &one.rendered) =>
                {
                    kept = Some(one);
                }
                Ok(_) | Err(Error::Render(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let one = match kept {
            Some(one) => one,
            None => renders.at(At::next(newest)).await?,
        };
        Ok(renders.form(one, peers, Some(past)))
    }
}

/// Whether a release was made of what the chart gives now, by its checksum: what the chart gives as an install may be the same
/// while an upgrade would be another one. One that was made when the chart could not be an upgrade bears the checksum of itself.
fn is_known(newest: &Record, peers: Option<&str>, one: &One) -> bool {
    match (newest.labels.get(CHECKSUM_LABEL), peers) {
        (Some(known), Some(peers)) => known == peers || *known == one.checksum,
        _ => true,
    }
}

impl Renders<'_> {
    async fn at(&mut self, at: At) -> Result<One, Error> {
        let Self { shared, module, .. } = *self;
        let options = render::Options {
            release: at.release(module, &shared.namespace),
            capabilities: self.capabilities.clone(),
            skip_schema_validation: false,
            subchart_notes: false,
            limits: shared.bounds.limits(),
        };
        let lookup = ClusterLookup::new(shared.engine.cluster().clone());
        let (chart, user) = (Arc::clone(self.chart), Arc::clone(self.values));
        let (name, labels, made) = (module.to_owned(), shared.labels.clone(), self.memory.clone());
        let (memories, namespace) = (shared.engine.operator_client().clone(), shared.namespace.clone());
        let runtime = tokio::runtime::Handle::current();
        let (bounds, deadline) = (shared.bounds, Some(self.deadline));
        // Renders that run at once share what the process has.
        let turn = Arc::clone(&shared.renders).acquire_owned().await;
        let work = move || {
            let _turn = turn;
            let lookup = NotingSecrets(lookup);
            let world = SystemWorld { cluster: Some(&lookup), deadline, ..Default::default() };
            let mut warnings = Vec::new();
            let load = || match &made {
                Some(memory) => Ok(memory.clone()),
                None => runtime.block_on(store::load(&memories, &namespace, &name)),
            };
            let mut render = || -> Result<_, Error> {
                let done =
                    replay::render(&chart, &user, &options, &world, &load, &mut |text| warnings.push(text))?;
                let mut rendered = rendering::release(&done.rendered, &bounds)?;
                let checksum = rendering::add_labels(&mut rendered, &labels).map_err(Error::Module)?;
                Ok((rendered, checksum, rendering::chart_record(chart.chart()), done))
            };
            (render(), warnings)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (done, warnings) = done.map_err(|e| Error::Task(e.to_string()))?;
        for text in warnings {
            if self.told.insert(text.clone()) {
                tracing::warn!(module, "{text}");
            }
        }
        let (rendered, checksum, chart, done) = done?;
        let Replayed { rendered: Rendered { reads_revision, .. }, memory, renewed, renew_at, lookups } = done;
        self.memory = memory.or(self.memory.take());
        self.renewed.extend(renewed);
        self.inputs.renew_at = renew_at;
        self.inputs.lookups.extend(lookups);
        Ok(One { rendered, checksum, chart, reads_revision })
    }

    fn form(self, one: One, peers: Option<String>, past: Option<History>) -> Form {
        let One { rendered, checksum, chart, .. } = one;
        let Self { memory, renewed, inputs, .. } = self;
        Form { rendered, checksum: peers.unwrap_or(checksum), chart, memory, renewed, inputs, past }
    }
}
