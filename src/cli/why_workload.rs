//! `windlass why KIND/NAME`: what has rolled a workload out, and why.
//!
//! Reads what exists: the records of images and of releases, the annotations of configuration, and the managed fields of the Pod template.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::flags::Globals;
use super::images::workload_of;
use super::output::{self, Format};
use super::{Connected, Failure, print, with_engine};
use windlass_cluster::{ObjectMeta, ObjectRef};
use windlass_controller::is_dns_label;
use windlass_engine::{ReleaseId, RevisionReport};
use windlass_images::IMAGE_MANAGER;
use windlass_images::rollout_record::read_image_record;
use windlass_reload::{COLLECTION_MANAGER, MANAGER as RELOAD_MANAGER, RELOADED_FROM};

/// Field managers of releases: what they have changed, the records say.
const RELEASE_MANAGERS: [&str; 3] = ["windlass", "helm", "helm-controller"];
/// `kubectl rollout restart` notes its time in the Pod template.
const RESTARTED_AT: &str = "kubectl.kubernetes.io/restartedAt";
/// The most lines of a workload.
const MAX_LINES: usize = 15;
/// The longest text of a change, in characters.
const MAX_DETAIL: usize = 500;
/// The longest name of a release or a namespace.
const MAX_NAME: usize = 253;
/// The most fields of a revision that are named.
const MAX_FIELDS: usize = 3;

/// A change of a workload's Pod template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct TemplateChange {
    /// `None`: nobody has noted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<Timestamp>,
    /// `image`, `configuration`, `release` or `manual`.
    cause: &'static str,
    detail: String,
}

/// What `-o json` prints.
#[derive(Debug, Serialize)]
struct WorkloadReport {
    workload: String,
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    /// Why its revisions are not among the changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The last one first.
    changes: Vec<TemplateChange>,
}

/// The changes of a Pod template that are known, the last one first.
fn changes(reference: &ObjectRef, object: &Value, revisions: &[RevisionReport]) -> Vec<TemplateChange> {
    let mut all: Vec<TemplateChange> = images(object).collect();
    all.extend(revisions.iter().filter_map(|revision| of_revision(reference, revision)));
    all.extend(managed(&reference.gvk.kind, object));
    all.sort_by_key(|change| std::cmp::Reverse(change.time));
    all.truncate(MAX_LINES);
    all.iter_mut().for_each(|change| change.detail = printable(&change.detail));
    all
}

/// Without control characters, and not too long: whoever writes the workload writes parts of it.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_DETAIL).collect()
}

fn images(object: &Value) -> impl Iterator<Item = TemplateChange> {
    let meta = ObjectMeta::of(object);
    let own = ["windlass.dev/image-policy", "keel.sh/policy"].into_iter();
    let own = own.clone().find_map(|name| meta.annotation(name)).or_else(|| meta.label("keel.sh/policy"));
    let own = own.map(str::to_owned);
    read_image_record(meta).into_iter().filter_map(move |(container, of)| {
        let last = of.last?;
        let why = match (last.took_back, own.as_deref()) {
            (true, _) => "the rollout before did not become ready".to_owned(),
            (false, Some(own)) => format!("policy {own}"),
            (false, None) => format!("policy {}", of.release_policy),
        };
        let detail = format!("container {container}: {} instead of {}: {why}", of.image, last.before);
        Some(TemplateChange { time: Some(last.at), cause: "image", detail })
    })
}

/// A revision that has made the workload, or changed its Pod template.
fn of_revision(reference: &ObjectRef, revision: &RevisionReport) -> Option<TemplateChange> {
    let template = match reference.gvk.kind.as_str() {
        "CronJob" => "spec.jobTemplate",
        _ => "spec.template",
    };
    let own = revision
        .objects
        .iter()
        .find(|change| change.kind == reference.gvk.kind && change.name == reference.name);
    let mut what = match (own, revision.since) {
        (None, Some(_)) => return None,
        (None, None) => String::new(),
        (Some(change), _) if change.fields.is_empty() => String::new(),
        (Some(change), _) => {
            let paths: Vec<&str> = change
                .fields
                .iter()
                .map(|field| field.path.as_str())
                .filter(|path| path.starts_with(template))
                .collect();
            if paths.is_empty() {
                return None;
            }
            let more = paths.len().saturating_sub(MAX_FIELDS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!(": {}{more}", paths[..paths.len().min(MAX_FIELDS)].join(", "))
        }
    };
    if !revision.cause.is_empty() {
        what = format!("{what} ({})", revision.cause);
    }
    let detail = format!("revision {}, {}{what}", revision.revision, revision.status);
    Some(TemplateChange { time: revision.updated.parse().ok(), cause: "release", detail })
}

/// What field managers have of the Pod template, beside those whose changes are recorded.
fn managed(kind: &str, object: &Value) -> Vec<TemplateChange> {
    let field = if kind == "CronJob" { "f:jobTemplate" } else { "f:template" };
    let path = if kind == "CronJob" { "/spec/jobTemplate/metadata" } else { "/spec/template/metadata" };
    let annotation = |name: &str| object.pointer(path)?["annotations"][name].as_str();
    let has_images = images(object).next().is_some();
    let entries = ObjectMeta::of(object).managed_fields().iter();
    let owners = entries.filter(|entry| {
        entry["subresource"].as_str().unwrap_or_default().is_empty()
            && !entry["fieldsV1"]["f:spec"][field].is_null()
    });
    let change = |entry: &Value| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let mut time: Option<Timestamp> = entry["time"].as_str().and_then(|time| time.parse().ok());
        let (cause, detail) = match manager {
            IMAGE_MANAGER if has_images => return None,
            IMAGE_MANAGER => ("image", "a newer image".to_owned()),
            RELOAD_MANAGER => {
                let from = annotation(RELOADED_FROM).unwrap_or("configuration");
                ("configuration", format!("{from} has changed"))
            }
            COLLECTION_MANAGER => ("configuration", "its collections have other members".to_owned()),
            release if RELEASE_MANAGERS.contains(&release) => return None,
            other => match annotation(RESTARTED_AT) {
                Some(at) if other == "kubectl-rollout" || at.parse::<Timestamp>().ok() == time => {
                    time = at.parse().ok().or(time);
                    ("manual", format!("kubectl rollout restart, by the field manager {other}"))
                }
                _ => ("manual", format!("written by the field manager {other}")),
            },
        };
        Some(TemplateChange { time, cause, detail })
    };
    owners.filter_map(change).collect()
}

/// The release of a workload, as Helm marks it.
fn release_of(object: &Value) -> Option<ReleaseId> {
    let meta = ObjectMeta::of(object);
    let namespace = meta.annotation("meta.helm.sh/release-namespace")?;
    let name = meta.annotation("meta.helm.sh/release-name")?;
    // Anybody may write the annotations: what is not a name is asked for nowhere.
    let is_name = |text: &str| text.len() <= MAX_NAME && text.split('.').all(is_dns_label);
    (is_name(namespace) && is_name(name)).then(|| ReleaseId::new(namespace, name))
}

async fn report(s: &Connected, name: &str) -> Result<WorkloadReport, Failure> {
    let reference = workload_of(name, &s.namespace)?;
    let live = s.engine.operator_client().get(&reference).await.map_err(|e| e.to_string())?;
    let live = live.ok_or_else(|| format!("{name} not found in namespace {}", s.namespace))?;
    let release = release_of(&live);
    let (revisions, note) = match &release {
        // Those of a HelmRelease may be in another namespace: then the rest is reported.
        Some(id) => match s.engine.records().explain(id, None).await {
            Ok(revisions) => (revisions, None),
            Err(error) => (Vec::new(), Some(printable(&format!("its revisions are missing here: {error}")))),
        },
        None => (Vec::new(), None),
    };
    Ok(WorkloadReport {
        workload: name.to_owned(),
        namespace: s.namespace.clone(),
        release: release.map(|id| printable(&id.to_string())),
        note,
        changes: changes(&reference, &live, &revisions),
    })
}

fn text(report: &WorkloadReport) -> String {
    let of = report.release.as_ref().map(|release| format!(" of release {release}")).unwrap_or_default();
    let mut out = format!("{} in namespace {}{of}\n", report.workload, report.namespace);
    if let Some(note) = &report.note {
        out.push_str(&format!("{note}\n"));
    }
    match report.changes.first() {
        Some(last) => out.push_str(&format!("last change of its Pods: {}: {}\n\n", last.cause, last.detail)),
        None => out.push_str("nothing is known of changes of its Pods\n"),
    }
    let row = |change: &TemplateChange| {
        let time = change.time.map_or("-".to_owned(), |time| format!("{time:.0}"));
        vec![time, change.cause.to_owned(), change.detail.clone()]
    };
    if !report.changes.is_empty() {
        let head = ["TIME", "CAUSE", "DETAIL"].map(str::to_owned).to_vec();
        out.push_str(&output::table(&[vec![head], report.changes.iter().map(row).collect()].concat()));
    }
    out
}

pub(super) fn run(
    globals: &Globals,
    name: &str,
    revision: Option<u64>,
    format: Format,
) -> Result<(), Failure> {
    if let Some(revision) = revision {
        return Err(format!("revision {revision}: a workload has none; leave it out, or name the release"));
    }
    let report = with_engine(globals, async |s| report(&s, name).await)?;
    let text = match format {
        Format::Table => text(&report),
        format => output::structured(&report, format)?,
    };
    print(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::Gvk;
    use windlass_images::rollout_record::IMAGE_RECORD;

    fn entry(manager: &str, time: &str) -> Value {
        json!({"manager": manager, "time": time, "fieldsV1": {"f:spec": {"f:template": {}}}})
    }

    fn workload() -> Value {
        let record = json!({"main": {"image": "web:2@b", "releasePolicy": "all of HelmRelease n/web",
            "last": {"at": "2026-01-04T00:00:00Z", "before": "web:1"}}});
        let status = json!({"manager": "kube-controller-manager", "subresource": "status", "time": "2026-01-09T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:template": {}}}});
        json!({
            "metadata": {"annotations": {IMAGE_RECORD: record.to_string()}, "managedFields": [
                entry("windlass", "2026-01-01T00:00:00Z"), entry("windlass-images", "2026-01-04T01:00:00Z"),
                entry("windlass-reload", "2026-01-03T00:00:00Z"), entry("kubectl-edit", "2026-01-05T00:00:00Z"), status,
                {"manager": "kubectl-scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
            ]},
            "spec": {"template": {"metadata": {"annotations": {RELOADED_FROM: "ConfigMap/app"}}}},
        })
    }

    fn revision(number: u64, since: Option<u64>, fields: &[&str]) -> RevisionReport {
        let change = |path: &&str| windlass_engine::FieldChange {
            path: (*path).to_owned(),
            before: None,
            after: None,
            sensitive: false,
        };
        let objects = windlass_engine::ManifestChange {
            verb: windlass_engine::ChangeVerb::Update,
            kind: "Deployment".to_owned(),
            name: "web".to_owned(),
            fields: fields.iter().map(change).collect(),
        };
        RevisionReport {
            revision: number,
            status: "deployed",
            updated: format!("2026-01-0{number}T00:00:00Z"),
            description: String::new(),
            cause: "a cause".to_owned(),
            rollback_to: None,
            since,
            chart: None,
            values: Vec::new(),
            objects: if fields.is_empty() { Vec::new() } else { vec![objects] },
        }
    }

    #[test]
    fn the_last_change_of_the_pods_comes_first() {
        let reference = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("n"), "web");
        let image = "spec.template.spec.containers[name=main].image";
        let revisions = [
            revision(1, None, &[]),
            revision(2, Some(1), &[image, "spec.template.a", "spec.template.b", "spec.template.c"]),
            revision(6, Some(2), &["spec.replicas"]),
            revision(7, Some(6), &[]),
        ];
        let found = changes(&reference, &workload(), &revisions);
        let lines: Vec<(&str, &str)> =
            found.iter().map(|change| (change.cause, change.detail.as_str())).collect();
        let second =
            format!("revision 2, deployed: {image}, spec.template.a, spec.template.b and 1 more (a cause)");
        assert_eq!(
            lines,
            [
                ("manual", "written by the field manager kubectl-edit"),
                ("image", "container main: web:2@b instead of web:1: policy all of HelmRelease n/web"),
                ("configuration", "ConfigMap/app has changed"),
                ("release", second.as_str()),
                ("release", "revision 1, deployed (a cause)"),
            ]
        );
        let report = WorkloadReport {
            workload: "deployment/web".to_owned(),
            namespace: "n".to_owned(),
            release: None,
            note: None,
            changes: found,
        };
        let shown = text(&report);
        assert!(
            shown.starts_with("deployment/web in namespace n\nlast change of its Pods: manual: written by"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), 9, "{shown}");
    }

    #[test]
    fn what_others_write_does_not_reach_the_terminal_as_it_is() {
        let mut object = workload();
        let hostile = format!("\u{1b}[2J\nx{}", "y".repeat(1000));
        object["spec"]["template"]["metadata"]["annotations"][RELOADED_FROM] = hostile.into();
        let reference = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("n"), "web");
        let found = changes(&reference, &object, &[]);
        let configuration = found.iter().find(|change| change.cause == "configuration").unwrap();
        assert!(configuration.detail.starts_with(" [2J xyy"), "{}", configuration.detail);
        assert_eq!(configuration.detail.len(), MAX_DETAIL);
    }

    #[test]
    fn nothing_is_known_of_an_object_without_fields() {
        let reference = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("n"), "web");
        for object in [json!({}), json!({"metadata": {"managedFields": [1, {"manager": 1}, {}]}})] {
            assert_eq!(changes(&reference, &object, &[]), []);
        }
    }
}
