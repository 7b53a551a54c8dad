//! Records that name their own namespace although the release's objects are in another one, and their repair.
//!
//! The namespace in a record is the release's: Helm and helm-controller write it, list it, and act in it. Owns how a wrong one is
//! recognized. Changes nothing else in a record, and no object.

use crate::{
    error::{EngineError, Result},
    objects::{desired_objects, ownership},
    observe::observed_objects,
    record::{Record, ReleaseStatus, StoredRecord, secret_name},
    report::release_records::ReleaseRecords,
    request::ReleaseId,
};
use serde_json::Value;
use std::{collections::BTreeMap, fmt};
use windlass_cluster::{ObjectMeta, ObjectRef};

/// Live objects that are read as evidence.
const MOST_LIVE: usize = 5;

/// A record that names the namespace that it is stored in, and not the one that its release acts in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MisnamedRecord {
    /// Namespace of the record's object, which the record names as the release's.
    pub stored_in: String,
    pub release: String,
    pub revision: u64,
    /// Namespace that the release acts in.
    pub actual: String,
    pub evidence: Evidence,
}

/// How it is known where a release acts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The record lists the objects that were applied.
    Applied,
    /// Another revision names it.
    Revision(u64),
    /// A live object's annotation `meta.helm.sh/release-namespace`.
    Live(String),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("its objects were applied there"),
            Self::Revision(revision) => write!(f, "revision {revision} names it"),
            Self::Live(object) => write!(f, "the annotations of {object} name it"),
        }
    }
}

impl fmt::Display for MisnamedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = secret_name(&self.release, self.revision);
        let Self { stored_in, actual, evidence, .. } = self;
        write!(
            f,
            "{stored_in}/{name}: names the namespace {stored_in}, and the release is in {actual}: {evidence}"
        )
    }
}

/// The observed namespace of one revision.
struct Known {
    revision: u64,
    status: ReleaseStatus,
    recorded: String,
    /// Where its objects without a namespace were applied.
    applied: Option<String>,
}

/// The namespace in which a record's objects without a namespace of their own were applied, by its list of applied objects.
fn applied_in(objects: &[Value], applied: &BTreeMap<String, u64>) -> Option<String> {
    let own =
        objects.iter().flat_map(desired_objects::items).filter(|o| ObjectMeta::of(o).namespace().is_none());
    let mut own = own.filter_map(|o| Some((o["kind"].as_str()?, ObjectMeta::of(o).name())));
    own.find_map(|(kind, name)| {
        applied.keys().find_map(|key| {
            let mut parts = key.split('/').skip(1);
            let (found, namespace, named) = (parts.next()?, parts.next()?, parts.next()?);
            (found == kind && named == name && !namespace.is_empty()).then(|| namespace.to_owned())
        })
    })
}

/// Where a revision acted, if other than it names: by its own list of applied objects, or by the nearest revision with which it shares
/// one life of the release. `rows`: all revisions, oldest first.
fn actual(rows: &[Known], at: usize, stored_in: &str) -> Option<(String, Evidence)> {
    let row = rows.get(at)?;
    if row.recorded != stored_in {
        return None;
    }
    if let Some(applied) = &row.applied {
        return (applied != stored_in).then(|| (applied.clone(), Evidence::Applied));
    }
    if row.status == ReleaseStatus::Uninstalled {
        return None;
    }
    let ended = |row: &&Known| row.status != ReleaseStatus::Uninstalled;
    let later = rows.iter().skip(at + 1).take_while(ended);
    let earlier = rows.iter().take(at).rev().take_while(ended);
    let names = |row: &Known| {
        let namespace = row.applied.as_deref().unwrap_or(&row.recorded);
        (namespace != stored_in).then(|| (namespace.to_owned(), Evidence::Revision(row.revision)))
    };
    later.chain(earlier).find_map(names)
}

impl ReleaseRecords<'_> {
    /// Records of a release that name the namespace that they are stored in, and not the release's. `candidate`: a namespace that the
    /// release may act in; it counts if a live object confirms it.
    ///
    /// # Errors
    /// Records that cannot be read.
    pub async fn misnamed_records(
        &self,
        stored_in: &str,
        release: &str,
        candidate: Option<&str>,
    ) -> Result<Vec<MisnamedRecord>> {
        let stored = self.context.store().list(Some(stored_in), &format!("name={release}")).await?;
        if stored.iter().all(|one| one.record.namespace != stored_in) {
            return Ok(Vec::new());
        }
        let rows: Vec<Known> = stored.iter().map(|one| self.known(one)).collect();
        let mut found = Vec::new();
        let mut confirmed = None;
        for (at, row) in rows.iter().enumerate() {
            let mut known = actual(&rows, at, stored_in);
            let open = row.recorded == stored_in
                && row.applied.is_none()
                && row.status != ReleaseStatus::Uninstalled;
            if let (None, true, Some(candidate), Some(one)) = (&known, open, candidate, stored.get(at)) {
                if confirmed.is_none() {
                    let id = ReleaseId::new(candidate, release);
                    confirmed = Some(self.live_object_of(&one.record, &id).await?);
                }
                let live = confirmed.clone().flatten().filter(|_| candidate != stored_in);
                known = live.map(|object| (candidate.to_owned(), Evidence::Live(object)));
            }
            found.extend(known.map(|(actual, evidence)| MisnamedRecord {
                stored_in: stored_in.to_owned(),
                release: release.to_owned(),
                revision: row.revision,
                actual,
                evidence,
            }));
        }
        Ok(found)
    }

    fn known(&self, stored: &StoredRecord) -> Known {
        let record = &stored.record;
        // A manifest that cannot be read says nothing.
        let objects: Vec<Value> = match record.namespace == stored.stored_in {
            true => self.context.parser.manifests_of(record).filter_map(|m| Some(m.ok()?.object)).collect(),
            false => Vec::new(),
        };
        Known {
            revision: record.version,
            status: record.info.status,
            recorded: record.namespace.clone(),
            applied: applied_in(&objects, &record.extension.applied),
        }
    }

    /// A live object of a record whose annotations name a release.
    async fn live_object_of(&self, record: &Record, id: &ReleaseId) -> Result<Option<String>> {
        let kinds = self.context.cluster.kinds().await?;
        let manifests: Vec<Value> =
            self.context.parser.manifests_of(record).filter_map(|m| Some(m.ok()?.object)).collect();
        let objects = manifests.iter().flat_map(desired_objects::items).filter_map(|object| {
            let namespaced = |gvk: &windlass_cluster::Gvk| kinds.get(gvk).map(|served| served.namespaced);
            desired_objects::reference("", object, &id.namespace, namespaced).ok()
        });
        let objects: Vec<ObjectRef> = objects.take(MOST_LIVE).collect();
        let manager = self.context.manager();
        let seen = observed_objects::objects(&self.context.cluster, None, manager, objects.iter()).await?;
        let own = |object: &&ObjectRef| {
            seen.get(&object.key())
                .and_then(Option::as_ref)
                .is_some_and(|live| ownership::check(live, id).is_ok())
        };
        Ok(objects.iter().find(own).map(ToString::to_string))
    }

    /// Writes the right namespace into a record. Returns the record as it was, and as it is.
    ///
    /// # Errors
    /// The record is gone, was changed since, or cannot be written.
    pub async fn rename_namespace(&self, wrong: &MisnamedRecord) -> Result<(Record, Record)> {
        let store = self.context.store().in_namespace(Some(&wrong.stored_in));
        let id = ReleaseId::new(&wrong.actual, &wrong.release);
        let mut stored =
            store.get(&id, wrong.revision).await?.ok_or(EngineError::NoRevision(wrong.revision))?;
        let before = stored.record.clone();
        stored.record.namespace.clone_from(&wrong.actual);
        store.update(&mut stored).await?;
        Ok((before, stored.record))
    }

    /// Names of the releases whose records are in a namespace or anywhere, with the namespace of their records.
    ///
    /// # Errors
    /// Records that cannot be listed.
    pub async fn stored_releases(&self, namespace: Option<&str>) -> Result<Vec<ReleaseId>> {
        let mut all: Vec<ReleaseId> = self.heads(namespace).await?.into_iter().map(|head| head.id).collect();
        all.dedup();
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_list_of_applied_objects_tells_where_a_release_acts() {
        let own = json!({"kind": "ConfigMap", "metadata": {"name": "web"}});
        let fixed = json!({"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "apps"}});
        let list = json!({"kind": "List", "items": [own]});
        let role = json!({"kind": "ClusterRole", "metadata": {"name": "web"}});
        for (objects, applied, expected) in [
            (vec![own.clone()], &["/ConfigMap/prod/web"][..], Some("prod")),
            (vec![fixed.clone(), list], &["/ConfigMap/apps/x", "/ConfigMap/prod/web"], Some("prod")),
            (
                vec![role, own.clone()],
                &["rbac.authorization.k8s.io/ClusterRole//web", "/ConfigMap/a/web"],
                Some("a"),
            ),
            (vec![fixed], &["/ConfigMap/apps/x"], None),
            (vec![own], &["/Secret/prod/web"], None),
        ] {
            let applied = applied.iter().map(|key| ((*key).to_owned(), 1)).collect();
            assert_eq!(applied_in(&objects, &applied).as_deref(), expected, "{objects:?}");
        }
    }

    #[test]
    fn revisions_of_one_life_tell_where_a_release_acts() {
        use ReleaseStatus::{Deployed, Failed, Superseded, Uninstalled};
        let row = |revision, status, recorded: &str, applied: Option<&str>| Known {
            revision,
            status,
            recorded: recorded.to_owned(),
            applied: applied.map(str::to_owned),
        };
        type Expected = Option<(&'static str, Evidence)>;
        let cases: Vec<(&str, Vec<Known>, usize, Expected)> = vec![
            ("right", vec![row(1, Deployed, "prod", None)], 0, None),
            ("alone", vec![row(1, Deployed, "apps", None)], 0, None),
            (
                "applied elsewhere",
                vec![row(1, Deployed, "apps", Some("prod"))],
                0,
                Some(("prod", Evidence::Applied)),
            ),
            (
                "applied here",
                vec![row(1, Superseded, "apps", Some("apps")), row(2, Deployed, "prod", None)],
                0,
                None,
            ),
            (
                "a later one is right",
                vec![
                    row(1, Superseded, "apps", None),
                    row(2, Failed, "apps", None),
                    row(3, Deployed, "prod", None),
                ],
                0,
                Some(("prod", Evidence::Revision(3))),
            ),
            (
                "an earlier one is right",
                vec![row(1, Superseded, "prod", None), row(2, Deployed, "apps", None)],
                1,
                Some(("prod", Evidence::Revision(1))),
            ),
            (
                "uninstalled in between",
                vec![
                    row(1, Superseded, "apps", None),
                    row(2, Uninstalled, "apps", None),
                    row(3, Deployed, "prod", None),
                ],
                0,
                None,
            ),
            (
                "the uninstalled one",
                vec![row(1, Uninstalled, "apps", None), row(2, Deployed, "prod", None)],
                0,
                None,
            ),
        ];
        for (what, rows, at, expected) in cases {
            let expected = expected.map(|(namespace, evidence)| (namespace.to_owned(), evidence));
            assert_eq!(actual(&rows, at, "apps"), expected, "{what}");
        }
    }
}
