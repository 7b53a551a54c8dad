//! Applies the CRDs of all enabled modules before the first of them runs: a module may contain objects of another module's kinds.
//!
//! Creates missing kinds only. The run of a module updates its CRDs; a failure here repeats there, where it is reported and retried.

use std::time::Duration;

use chart_compat::chart::Crd;
use futures::StreamExt as _;

use super::Operator;
use super::converge::{Phase, Step};
use windlass_base::redact;
use windlass_controller::ReleaseTarget;

/// How many modules' CRDs are applied at a time.
const AT_ONCE: usize = 8;
/// How long the other modules wait for those of one module.
const WITHIN: Duration = Duration::from_secs(10);

impl Operator {
    /// It is known which modules must be enabled: asks for what changed, or with `all` for all of them, and lets them run when
    /// their CRDs are there.
    pub(super) fn begin_modules(&mut self, all: bool) {
        self.cycle.prepared = true;
        self.enqueue_changes(all);
        self.cycle.phase = Phase::Modules;
        let mut found: Vec<(String, ReleaseTarget, Vec<Crd>)> = Vec::new();
        for module in &self.modules.modules {
            let name = &module.name.name;
            let Some(wanted) = self.module_states.get_mut(name) else { continue };
            if !wanted.enabled || wanted.maintenance || std::mem::replace(&mut wanted.crds_known, true) {
                continue;
            }
            found.push((name.clone(), module.target.clone(), module.crds.clone()));
        }
        found.retain(|(.., crds)| !crds.is_empty());
        if found.is_empty() {
            return;
        }
        self.cycle.phase = Phase::Crds { all, again: false };
        let releases = self.releases.clone();
        self.cycle.steps.spawn(redact::own(async move {
            let one = |(name, target, crds): (String, ReleaseTarget, Vec<Crd>)| {
                // As the module's own ServiceAccount, if it has one.
                let releases = releases.at(&target);
                async move {
                    let made = async { releases?.ensure_kinds(&name, &crds).await };
                    match tokio::time::timeout(WITHIN, made).await {
                        Ok(Ok(_)) => {}
                        Ok(Err(error)) => tracing::warn!(module = name, "its CRDs: {error}"),
                        Err(_) => tracing::warn!(module = name, "its CRDs are not served after {WITHIN:?}"),
                    }
                }
            };
            futures::stream::iter(found.into_iter().map(one)).buffer_unordered(AT_ONCE).count().await;
            Step::Crds
        }));
    }
}
