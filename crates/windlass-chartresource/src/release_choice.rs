//! The name of an object's release, and whose a release is.
//!
//! Owns the rule by which two kinds never share a release: an object takes the release of its own name if that is its own or nobody's,
//! else one whose name has a digest of the kind, which stays the same.

use std::collections::BTreeMap;

use super::kind_settings::{bounded, with_digest};
use windlass_cluster::Gvk;
use windlass_controller::{BusyRelease, BusyReleases, ReconcileError};
use windlass_engine::record::{Record, RecordHead, ReleaseStatus};
use windlass_engine::{Disposition, Engine, ReleaseId};

/// Longest name of a release, as Helm has it.
const MAX_RELEASE: usize = 53;
/// Longest value of a label.
const MAX_LABEL: usize = 63;
/// Label of records: the name of the object that a release belongs to.
const OWNER_NAME: &str = "windlass.dev/owner-name";

/// Whose a release is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// There is no release.
    Absent,
    /// The object's.
    Own,
    /// It has no mark and is of the same chart: made by operator-sdk or Helm for this object. Its next revision gets the marks.
    Unmarked,
    /// Another object's, another operator's, or of another chart; the text names it.
    Foreign(String),
}

/// An object that looks for its release.
pub(crate) struct Claimant<'c> {
    /// The owner of the kind's releases.
    pub(crate) owner: &'c str,
    pub(crate) gvk: &'c Gvk,
    /// The object's name.
    pub(crate) name: &'c str,
    /// The name of the kind's chart.
    pub(crate) chart: &'c str,
}

impl Claimant<'_> {
    /// The names that its release may have, the preferred one first.
    pub(crate) fn names(&self) -> Vec<String> {
        let of = format!("{}.{}/{}", self.gvk.kind, self.gvk.group, self.name);
        let own = Some(self.name.to_owned()).filter(|name| name.len() <= MAX_RELEASE);
        own.into_iter().chain([with_digest(self.name, &of, MAX_RELEASE)]).collect()
    }

    /// Labels of its records.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        BTreeMap::from([(OWNER_NAME.to_owned(), bounded(self.name, MAX_LABEL))])
    }

    /// Whose a release is, by its newest record.
    pub(crate) fn ownership(&self, release: &str, newest: Option<&Record>) -> Ownership {
        let Some(record) = newest.filter(|newest| newest.info.status != ReleaseStatus::Uninstalled) else {
            return Ownership::Absent;
        };
        let Some(owner) = record.owner() else {
            let chart = record.chart["metadata"]["name"].as_str().unwrap_or_default();
            // A status may name any release: without a mark only one of the object's name can be its own.
            return match chart == self.chart && self.names().iter().any(|own| own == release) {
                true => Ownership::Unmarked,
                false => Ownership::Foreign(format!("nobody: it is a release of the chart {chart:?}")),
            };
        };
        self.marked(owner, &record.labels)
    }

    /// Whose a release is, by the labels of a record that cannot be read. One without a mark may be of any chart.
    pub(crate) fn ownership_by_labels(&self, head: &RecordHead) -> Ownership {
        match head.owner() {
            Some(owner) => self.marked(owner, &head.labels),
            None => Ownership::Unmarked,
        }
    }

    fn marked(&self, owner: &str, labels: &BTreeMap<String, String>) -> Ownership {
        let name = labels.get(OWNER_NAME).map(String::as_str).unwrap_or_default();
        match (owner == self.owner, name == bounded(self.name, MAX_LABEL)) {
            (true, true) => Ownership::Own,
            (true, false) => Ownership::Foreign(format!("{} {name:?}", self.gvk.kind)),
            (false, _) => Ownership::Foreign(format!("{owner} {name:?}")),
        }
    }
}

/// The release of an object, on which its pass works.
pub(crate) struct ChosenRelease {
    pub(crate) id: ReleaseId,
    pub(crate) ownership: Ownership,
    /// Its newest record, if there is one.
    pub(crate) newest: Option<Record>,
    _busy: BusyRelease,
}

impl Claimant<'_> {
    /// Chooses the release of the object. `known`: the one of its names that its status has.
    ///
    /// # Errors
    /// All names belong to others, another pass works on one, or records cannot be read.
    pub(crate) async fn choose(
        &self,
        engine: &Engine,
        namespace: &str,
        known: Option<&str>,
        busy: &BusyReleases,
    ) -> Result<ChosenRelease, ReconcileError> {
        let names = self.names();
        let mut refused = Vec::new();
        // The name stays, also where the preferred one has become free.
        let others = names.iter().map(String::as_str).filter(|name| Some(*name) != known);
        for name in known.into_iter().chain(others) {
            let id = ReleaseId::new(namespace, name);
            let Some(busy) = busy.begin(&id) else {
                return Err(ReconcileError::Reason {
                    reason: "ErrorGettingReleaseState",
                    text: format!("a pass over an object of another kind works on release {id}"),
                    disposition: Disposition::Wait,
                });
            };
            let history = engine.history_of(&id).await?;
            let newest = history.newest().cloned();
            match self.ownership(name, newest.as_ref()) {
                Ownership::Foreign(owner) => refused.push(format!("release {id} belongs to {owner}")),
                ownership => return Ok(ChosenRelease { id, ownership, newest, _busy: busy }),
            }
        }
        let text = format!("{}: give the object another name", refused.join("; "));
        Err(ReconcileError::Config(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claimant<'c>(gvk: &'c Gvk, name: &'c str) -> Claimant<'c> {
        Claimant { owner: "cache.example.com", gvk, name, chart: "cache" }
    }

    fn record(owner: Option<&str>, name: &str, chart: &str, status: ReleaseStatus) -> Record {
        let mut record = Record { chart: json!({"metadata": {"name": chart}}), ..Record::default() };
        record.info.status = status;
        if let Some(owner) = owner {
            record.labels.insert("windlass.dev/owner".to_owned(), owner.to_owned());
            record.labels.insert(OWNER_NAME.to_owned(), name.to_owned());
        }
        record
    }

    #[test]
    fn names_are_the_objects_or_stay_the_same() {
        let (one, other) = (Gvk::new("a.io/v1", "Cache"), Gvk::new("a.io/v1", "Store"));
        let names = claimant(&one, "web").names();
        assert_eq!((names[0].as_str(), names.len()), ("web", 2));
        assert_eq!(
            claimant(&Gvk::new("a.io/v2", "Cache"), "web").names(),
            names,
            "a version is no other kind"
        );
        assert_ne!(claimant(&other, "web").names()[1], names[1]);
        let long = "a".repeat(200);
        let names = claimant(&one, &long).names();
        assert_eq!((names.len(), names[0].len()), (1, MAX_RELEASE));
        assert_ne!(claimant(&one, &"a".repeat(199)).names(), names);
    }

    #[test]
    fn a_release_is_of_one_object() {
        use ReleaseStatus::{Deployed, Uninstalled};
        let gvk = Gvk::new("a.io/v1", "Cache");
        let own = claimant(&gvk, "web");
        for (record, expected) in [
            (None, Ownership::Absent),
            (Some(record(Some("x"), "web", "cache", Uninstalled)), Ownership::Absent),
            (Some(record(Some("cache.example.com"), "web", "other", Deployed)), Ownership::Own),
            (Some(record(None, "", "cache", Deployed)), Ownership::Unmarked),
            (
                Some(record(None, "", "other", Deployed)),
                Ownership::Foreign("nobody: it is a release of the chart \"other\"".to_owned()),
            ),
            (
                Some(record(Some("store.example.com"), "web", "cache", Deployed)),
                Ownership::Foreign("store.example.com \"web\"".to_owned()),
            ),
            (
                Some(record(Some("cache.example.com"), "db", "cache", Deployed)),
                Ownership::Foreign("Cache \"db\"".to_owned()),
            ),
        ] {
            assert_eq!(own.ownership("web", record.as_ref()), expected);
        }
        let other = record(None, "", "cache", Deployed);
        assert!(matches!(own.ownership("victim", Some(&other)), Ownership::Foreign(_)));
    }
}
