//! The input of a revision: a request, or a record that is rolled back to; and the three ways to make one, in Helm's words. Pure.

use crate::{
    objects::{crd_files, desired_objects::Digest},
    record::{RecordedHook, ReleaseStatus, StoredRecord, recorded_manifests::RecordParser},
    request::{ApplyMethod, HookEvent, MovedCrds, ReleaseId, ReleaseOptions, RenderedRelease},
    state::{engine_state::CachedRelease, expected_object::ExpectedObject},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use windlass_cluster::{ObjectKey, ObjectMeta};

/// The input of a revision: a request, or a record that is rolled back to.
#[derive(Clone, Copy)]
pub(crate) struct RevisionInput<'a> {
    pub(crate) id: &'a ReleaseId,
    pub(crate) rendered: &'a RenderedRelease,
    pub(crate) chart: &'a Value,
    pub(crate) config: &'a Value,
    pub(crate) owner: Option<&'a str>,
    pub(crate) description: Option<&'a str>,
    pub(crate) labels: &'a BTreeMap<String, String>,
    /// The hooks of the revision that is repeated.
    pub(crate) old_hooks: &'a [RecordedHook],
    /// The cause that the caller gave.
    pub(crate) cause: &'a str,
    pub(crate) options: &'a ReleaseOptions,
    /// How objects are written.
    pub(crate) method: ApplyMethod,
    pub(crate) operation: RevisionOperation,
    pub(crate) state: Digest,
}

impl RevisionInput<'_> {
    /// Names of the CRDs that the chart has in `crds/`: those that were rendered with it, and those of its record, which is all that a
    /// rollback has. A record contains no subcharts.
    pub(crate) fn crds_dir(&self, parser: RecordParser) -> BTreeSet<String> {
        let mut names = crd_files::names(&self.rendered.crds);
        let files = self.chart["files"].as_array().into_iter().flatten();
        for file in files.filter(|file| file["name"].as_str().is_some_and(|name| name.starts_with("crds/"))) {
            let data = file["data"].as_str().and_then(|data| STANDARD.decode(data).ok()).unwrap_or_default();
            let text = String::from_utf8_lossy(&data);
            for document in text.split("\n---") {
                // A CRD that cannot be parsed was never applied.
                let object = (parser.0)(document).unwrap_or_default();
                if object["kind"] == "CustomResourceDefinition" {
                    let name = ObjectMeta::of(&object).name();
                    names.extend((!name.is_empty()).then(|| name.to_owned()));
                }
            }
        }
        names
    }

    /// The release as this revision leaves it.
    pub(crate) fn cached(
        &self,
        stored: &StoredRecord,
        expected: BTreeMap<ObjectKey, ExpectedObject>,
    ) -> CachedRelease {
        CachedRelease {
            revision: stored.record.version,
            record_version: stored.resource_version.clone(),
            has_successor: false,
            state: self.state,
            crds: crd_files::kept_digest(self.options.crds, &self.rendered.crds),
            checksum: self.rendered.checksum.clone(),
            drift: self.options.drift.mode,
            watches_status: self.options.watch_status,
            retains: !stored.record.extension.retained.is_empty(),
            expected,
        }
    }

    /// Names of the CRDs that stay although they left the manifest.
    pub(crate) fn kept_crds(&self, parser: RecordParser) -> BTreeSet<String> {
        match self.options.objects.moved_crds {
            MovedCrds::Delete => BTreeSet::new(),
            MovedCrds::Keep => self.crds_dir(parser),
        }
    }
}

/// The kind of revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RevisionOperation {
    Install,
    Upgrade,
    Rollback { to: u64 },
}

impl RevisionOperation {
    pub(crate) fn pre(self) -> HookEvent {
        match self {
            Self::Install => HookEvent::PreInstall,
            Self::Upgrade => HookEvent::PreUpgrade,
            Self::Rollback { .. } => HookEvent::PreRollback,
        }
    }

    pub(crate) fn post(self) -> HookEvent {
        match self {
            Self::Install => HookEvent::PostInstall,
            Self::Upgrade => HookEvent::PostUpgrade,
            Self::Rollback { .. } => HookEvent::PostRollback,
        }
    }

    /// What Helm calls the revision's manifest.
    pub(crate) fn manifest(self) -> &'static str {
        match self {
            Self::Install => "release",
            Self::Upgrade | Self::Rollback { .. } => "new release",
        }
    }

    pub(crate) fn pending(self) -> ReleaseStatus {
        match self {
            Self::Install => ReleaseStatus::PendingInstall,
            Self::Upgrade => ReleaseStatus::PendingUpgrade,
            Self::Rollback { .. } => ReleaseStatus::PendingRollback,
        }
    }

    pub(crate) fn underway(self) -> String {
        match self {
            Self::Install => "Initial install underway".to_owned(),
            Self::Upgrade => "Preparing upgrade".to_owned(),
            Self::Rollback { to } => format!("Rollback to {to}"),
        }
    }

    pub(crate) fn done(self) -> String {
        match self {
            Self::Install => "Install complete".to_owned(),
            Self::Upgrade => "Upgrade complete".to_owned(),
            Self::Rollback { to } => format!("Rollback to {to}"),
        }
    }

    pub(crate) fn failed(self, name: &str, error: &str) -> String {
        match self {
            Self::Install => format!("Release {name:?} failed: {error}"),
            Self::Upgrade => format!("Upgrade {name:?} failed: {error}"),
            Self::Rollback { .. } => format!("Rollback {name:?} failed: {error}"),
        }
    }

    /// Helm's word for it in the ownership error.
    pub(crate) fn continued(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade | Self::Rollback { .. } => "update",
        }
    }
}
