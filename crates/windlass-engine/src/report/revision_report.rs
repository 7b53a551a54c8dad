//! Why each revision was created: its recorded cause, and its differences from the revision before.

use crate::{
    error::{EngineError, Result},
    objects::field_diff::{self, FieldChange, hide},
    plan::preview::ChangeVerb,
    record::{Record, ReleaseStatus},
    report::release_records::ReleaseRecords,
    request::{ReleaseId, RenderedRelease},
};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use windlass_cluster::ObjectMeta;

/// The cause and the differences of a revision.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RevisionReport {
    pub revision: u64,
    pub status: &'static str,
    pub updated: String,
    pub description: String,
    /// The recorded cause; empty if Helm created the revision, or rewrote its record.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
    /// The revision that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<u64>,
    /// The revision that it is compared with, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<u64>,
    /// Name and version of the chart, where they changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chart: Option<(String, String)>,
    /// Changed values of the user; what looks like a secret is hidden.
    pub values: Vec<FieldChange>,
    pub objects: Vec<ManifestChange>,
}

/// A changed object of the manifest.
#[derive(Debug, Clone, Serialize)]
pub struct ManifestChange {
    pub verb: ChangeVerb,
    pub kind: String,
    pub name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

impl ReleaseRecords<'_> {
    /// Reports one revision, or all; oldest first.
    pub async fn explain(&self, id: &ReleaseId, revision: Option<u64>) -> Result<Vec<RevisionReport>> {
        let store = self.context.store();
        let revisions: Vec<u64> = store.history(id).await?.iter().map(|r| r.revision).collect();
        if revisions.is_empty() {
            return Err(EngineError::NotFound);
        }
        if let Some(wanted) = revision.filter(|wanted| !revisions.contains(wanted)) {
            return Err(EngineError::NoRevision(wanted));
        }
        let mut reports = Vec::new();
        let mut before: Option<(Record, RenderedRelease)> = None;
        for (place, number) in revisions.iter().enumerate() {
            let next = revisions.get(place + 1).copied();
            let needed = revision.is_none_or(|wanted| wanted == *number || Some(wanted) == next);
            let found = if needed { store.get(id, *number).await? } else { None };
            // Deleted since it was listed, or not needed.
            let Some(found) = found else { continue };
            let record = found.record;
            let rendered = self.context.parser.rendered_of(&record)?;
            if revision.is_none_or(|wanted| wanted == *number) {
                reports.push(report(&record, &rendered, before.as_ref()));
            }
            before = Some((record, rendered));
        }
        Ok(reports)
    }
}

fn report(
    record: &Record,
    rendered: &RenderedRelease,
    before: Option<&(Record, RenderedRelease)>,
) -> RevisionReport {
    // An uninstalled revision is not a base for a comparison.
    let before = before.filter(|(old, _)| old.info.status != ReleaseStatus::Uninstalled);
    let chart = |r: &Record| {
        let text = |name: &str| r.chart_metadata()[name].as_str().unwrap_or("?").to_owned();
        format!("{}-{}", text("name"), text("version"))
    };
    let info = &record.info;
    let mut why = RevisionReport {
        revision: record.version,
        status: info.status.as_str(),
        updated: info.last_deployed.clone(),
        description: info.description.clone(),
        cause: record.extension.cause.clone(),
        rollback_to: Some(info.rollback_revision).filter(|revision| *revision > 0),
        since: before.map(|(old, _)| old.version),
        chart: None,
        values: Vec::new(),
        objects: Vec::new(),
    };
    let Some((old, old_rendered)) = before else { return why };
    why.chart = Some((chart(old), chart(record))).filter(|(a, b)| a != b);
    why.values = value_changes(&old.config, &record.config);
    why.objects = objects(old_rendered, rendered);
    why
}

/// Differences of values; what looks like a secret is hidden.
pub fn value_changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let map =
        |value: &Value| if value.is_null() { Value::Object(serde_json::Map::new()) } else { value.clone() };
    let mut changes = field_diff::changes(&map(before), &map(after));
    changes.iter_mut().for_each(hide);
    changes
}

/// Differences of the objects of two manifests.
fn objects(old: &RenderedRelease, new: &RenderedRelease) -> Vec<ManifestChange> {
    type Key = (String, String, String, String);
    let index = |rendered: &RenderedRelease| -> BTreeMap<Key, Value> {
        let key = |o: &Value| {
            let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
            let group = text(&o["apiVersion"]);
            let group = group.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
            let meta = ObjectMeta::of(o);
            (text(&o["kind"]), meta.name().to_owned(), meta.namespace().unwrap_or_default().to_owned(), group)
        };
        let objects = rendered.objects().filter(|o| o.is_object());
        objects.map(|o| (key(o), o.clone())).collect()
    };
    let (old, new) = (index(old), index(new));
    let one =
        |verb, key: &Key, fields| ManifestChange { verb, kind: key.0.clone(), name: key.1.clone(), fields };
    let mut found = Vec::new();
    for (key, object) in &new {
        match old.get(key) {
            None => found.push(one(ChangeVerb::Create, key, Vec::new())),
            Some(before) if before != object => {
                let mut changes = field_diff::changes(before, object);
                field_diff::mask(&key.0, &mut changes);
                found.push(one(ChangeVerb::Update, key, changes));
            }
            Some(_) => {}
        }
    }
    found.extend(
        old.keys().filter(|key| !new.contains_key(*key)).map(|key| one(ChangeVerb::Delete, key, Vec::new())),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Manifest, record::RecordExtension};
    use serde_json::json;

    fn revision(version: u64, config: Value, objects: &[Value]) -> (Record, RenderedRelease) {
        let record = Record {
            version,
            config,
            chart: json!({"metadata": {"name": "c", "version": format!("1.0.{version}")}}),
            extension: RecordExtension { cause: "windlass upgrade".into(), ..RecordExtension::default() },
            ..Record::default()
        };
        let manifest = |o: &Value| Manifest { object: o.clone(), ..Manifest::default() };
        let rendered = RenderedRelease {
            manifests: objects.iter().map(manifest).collect(),
            ..RenderedRelease::default()
        };
        (record, rendered)
    }

    #[test]
    fn revisions_differ_by_chart_values_and_objects() {
        let object = |kind: &str, name: &str, data: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": data});
        let old = revision(
            1,
            json!({"replicas": 2, "dbPassword": "old-one"}),
            &[
                object("ConfigMap", "a", json!({"x": "1"})),
                object("Secret", "s", json!({"p": "T0xE"})),
                object("ConfigMap", "gone", json!({})),
            ],
        );
        let new = revision(
            2,
            json!({"replicas": 3, "dbPassword": "new-one", "auth": {"user": "u-name"}}),
            &[
                object("ConfigMap", "a", json!({"x": "2"})),
                object("Secret", "s", json!({"p": "TkVX"})),
                object("ConfigMap", "new", json!({})),
            ],
        );
        let why = report(&new.0, &new.1, Some(&old));
        let text = serde_json::to_string(&why).unwrap();
        for hidden in ["old-one", "new-one", "u-name", "T0xE", "TkVX"] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
        assert_eq!(why.chart, Some(("c-1.0.1".into(), "c-1.0.2".into())));
        let values: Vec<&str> = why.values.iter().map(|v| v.path.as_str()).collect();
        assert_eq!(values, ["auth", "dbPassword", "replicas"]);
        let objects: Vec<String> = why.objects.iter().map(|o| format!("{:?} {}", o.verb, o.name)).collect();
        assert_eq!(objects, ["Update a", "Create new", "Update s", "Delete gone"]);
        assert!(report(&old.0, &old.1, None).since.is_none());
    }
}
