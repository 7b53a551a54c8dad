//! `windlass images` and `windlass approve`: the images that the operator follows, and approvals of newer ones.
//!
//! Reads what the operator has recorded on the workloads: no registry is asked, and no login is needed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::flags::Globals;
use super::output::{self, Format};
use super::{Connected, Failure, print, with_engine};
use windlass_cluster::{Cluster, Gvk, ObjectMeta, ObjectRef, PatchKind};
use windlass_images::rollout_record::{
    IMAGE_APPROVALS, RolloutRecord, approve as approved, read_approvals, read_image_record,
};
use windlass_images::{IMAGE_MANAGER, IMAGE_WORKLOAD_KINDS};

/// Kinds of objects in whose values images may be followed. Those of charts' kinds are found by their names only.
const RELEASE_KINDS: [(&str, &str); 2] =
    [("helm.toolkit.fluxcd.io/v2", "HelmRelease"), ("helm.cattle.io/v1", "HelmChart")];

/// Flags of `images`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The release; omitted: all workloads of the namespace
    release: Option<String>,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Flags of `approve`.
#[derive(clap::Args)]
pub(super) struct ApproveArgs {
    /// The workload, such as deployment/web, or the object of a release, such as helmrelease/web
    workload: String,
    /// The container, or the path of the value; omitted: all in which an image waits for approval
    #[arg(short, long)]
    container: Option<String>,
}

/// An image in `-o json`.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Row {
    workload: String,
    container: String,
    policy: String,
    requested: String,
    running: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    newer: Option<String>,
    state: String,
}

fn rows(workload: &str, object: &Value) -> Vec<Row> {
    let meta = ObjectMeta::of(object);
    let names = ["windlass.dev/image-policy", "keel.sh/policy"];
    let annotated = names.into_iter().find_map(|name| meta.annotation(name));
    let policy = annotated.or_else(|| meta.label(names[1]));
    let row = |(container, of): (String, windlass_images::rollout_record::ContainerRecord)| {
        let state = match (&of.waiting, &of.rollout) {
            (_, Some(rollout)) => format!("is rolled out since {:.0}", rollout.since),
            (Some(waiting), None) => waiting.reason.clone(),
            (None, None) => "nothing is newer".to_owned(),
        };
        Row {
            workload: workload.to_owned(),
            container,
            policy: policy.map_or(of.release_policy, str::to_owned),
            requested: of.requested,
            running: of.current.to_string(),
            newer: of.waiting.map(|waiting| waiting.image.to_string()),
            state,
        }
    };
    read_image_record(meta).into_iter().map(row).collect()
}

/// The workloads of a namespace, or of a release of it, that have a record.
async fn found(s: &Connected, release: Option<&str>) -> Result<Vec<Row>, Failure> {
    let mut all = Vec::new();
    for (api_version, kind) in IMAGE_WORKLOAD_KINDS {
        let gvk = Gvk::new(api_version, kind);
        let cluster = s.engine.operator_client();
        let objects = cluster.list(&gvk, Some(&s.namespace), "").await.map_err(|e| e.to_string())?;
        for object in objects {
            let meta = ObjectMeta::of(&object);
            let of = meta.annotation("meta.helm.sh/release-name");
            if release.is_none_or(|name| of == Some(name)) {
                all.extend(rows(&format!("{}/{}", kind.to_lowercase(), meta.name()), &object));
            }
        }
    }
    let cluster = s.engine.operator_client();
    let kinds = cluster.kinds().await.map_err(|e| e.to_string())?;
    for (api_version, kind) in RELEASE_KINDS {
        let gvk = Gvk::new(api_version, kind);
        if kinds.get(&gvk).is_none() {
            continue;
        }
        let objects = cluster.list(&gvk, Some(&s.namespace), "").await.map_err(|e| e.to_string())?;
        for object in objects {
            let name = ObjectMeta::of(&object).name();
            if release.is_none_or(|wanted| wanted == name) {
                all.extend(rows(&format!("{}/{name}", kind.to_lowercase()), &object));
            }
        }
    }
    Ok(all)
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let rows = with_engine(globals, async |s| found(&s, args.release.as_deref()).await)?;
    let text = match args.output {
        Format::Table => {
            let head = ["WORKLOAD", "CONTAINER", "POLICY", "RUNNING", "NEWER", "STATE"].map(str::to_owned);
            let mut table = vec![head.to_vec()];
            table.extend(rows.into_iter().map(|row| {
                let newer = row.newer.as_deref().map(shortened).unwrap_or_default();
                vec![row.workload, row.container, row.policy, shortened(&row.running), newer, row.state]
            }));
            output::table(&table)
        }
        format => output::structured(&rows, format)?,
    };
    print(text.as_bytes())
}

/// `TAG@sha256:` with twelve digits of the digest.
fn shortened(image: &str) -> String {
    match image.split_once("@sha256:") {
        Some((tag, digest)) => format!("{tag}@sha256:{}", digest.get(..12).unwrap_or(digest)),
        None => image.trim_end_matches('@').to_owned(),
    }
}

/// The workload that an argument names.
pub(super) fn workload_of(text: &str, namespace: &str) -> Result<ObjectRef, Failure> {
    let (kind, name) =
        text.split_once('/').ok_or_else(|| format!("{text:?}: write the workload as KIND/NAME"))?;
    let kinds = || IMAGE_WORKLOAD_KINDS.map(|(_, kind)| kind.to_lowercase()).join(", ");
    let gvk =
        kind_of(&IMAGE_WORKLOAD_KINDS, kind).ok_or_else(|| format!("{kind:?}: there are {}", kinds()))?;
    Ok(ObjectRef::new(gvk, Some(namespace), name))
}

/// The kind of a singular or plural name, in any case.
fn kind_of(kinds: &[(&str, &str)], name: &str) -> Option<Gvk> {
    let wanted = name.to_lowercase();
    let is_wanted = |known: &str| wanted == known || wanted == format!("{known}s");
    let found = kinds.iter().find(|(_, known)| is_wanted(&known.to_lowercase()))?;
    Some(Gvk::new(found.0, found.1))
}

/// The workload or the object of a release that an argument names.
async fn followed_of(client: &Cluster, text: &str, namespace: &str) -> Result<ObjectRef, Failure> {
    let Some((kind, name)) = text.split_once('/') else { return workload_of(text, namespace) };
    let known = kind_of(&IMAGE_WORKLOAD_KINDS, kind).or_else(|| kind_of(&RELEASE_KINDS, kind));
    let gvk = match known {
        Some(gvk) => gvk,
        None => client.find_kind("", kind).await.map_err(|e| format!("{text}: {e}"))?,
    };
    Ok(ObjectRef::new(gvk, Some(namespace), name))
}

/// The containers that are approved, with what waits in each.
fn chosen(record: &RolloutRecord, container: Option<&str>) -> Vec<(String, String)> {
    let waits = record.iter().filter_map(|(name, of)| {
        let waiting = of.waiting.as_ref().filter(|waiting| waiting.wants_approval)?;
        Some((name.clone(), waiting.image.to_string()))
    });
    waits.filter(|(name, _)| container.is_none_or(|wanted| wanted == name)).collect()
}

pub(super) fn approve(globals: &Globals, args: &ApproveArgs) -> Result<(), Failure> {
    let lines = with_engine(globals, async |s| {
        let client = s.engine.operator_client();
        let reference = followed_of(client, &args.workload, &s.namespace).await?;
        let live = client.get(&reference).await.map_err(|e| e.to_string())?;
        let live = live.ok_or_else(|| format!("{} not found in namespace {}", args.workload, s.namespace))?;
        let meta = ObjectMeta::of(&live);
        let record = read_image_record(meta);
        let chosen = chosen(&record, args.container.as_deref());
        if chosen.is_empty() {
            let place =
                args.container.as_ref().map(|name| format!(", container {name:?}")).unwrap_or_default();
            return Err(format!("{}{place}: no image waits for approval", args.workload));
        }
        let user = client.own_user().await.map_err(|e| e.to_string())?;
        let mut approvals = read_approvals(meta);
        for (container, _) in &chosen {
            approvals = approved(&record, approvals, container, &user)?;
        }
        let patch = patch_of(meta, &approvals);
        let written = client.patch_subresource(&reference, "", PatchKind::Merge, &patch, IMAGE_MANAGER).await;
        written.map_err(|e| e.to_string())?;
        // A value is named by its path.
        let is_workload = IMAGE_WORKLOAD_KINDS.iter().any(|(_, kind)| *kind == reference.gvk.kind);
        let noun = if is_workload { "container " } else { "" };
        let line = |(container, image)| {
            format!("{}, {noun}{container}: {image} approved by {user}\n", args.workload)
        };
        Ok(chosen.into_iter().map(line).collect::<String>())
    })?;
    print(lines.as_bytes())
}

fn patch_of(
    meta: ObjectMeta<'_>,
    approvals: &BTreeMap<String, windlass_images::rollout_record::Approval>,
) -> Value {
    json!({"metadata": {
        "uid": meta.uid(), "resourceVersion": meta.resource_version(),
        "annotations": {IMAGE_APPROVALS: json!(approvals).to_string()},
    }})
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_images::rollout_record::IMAGE_RECORD;

    #[test]
    fn a_row_tells_what_runs_and_what_waits() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let record = json!({"main": {
            "requested": "web:1", "image": "web:1", "current": {"tag": "1", "digest": digest},
            "waiting": {"image": {"tag": "2", "digest": digest}, "since": "2026-01-01T00:00:00Z", "reason": "it waits", "wantsApproval": true},
        }, "side": {"current": {"tag": "3", "digest": ""}, "rollout": {"since": "2026-01-01T00:00:00Z"}}});
        let object = json!({"metadata": {"labels": {"keel.sh/policy": "all"}, "annotations": {IMAGE_RECORD: record.to_string()}}});
        let rows = rows("deployment/web", &object);
        assert_eq!((rows[0].policy.as_str(), rows[0].state.as_str()), ("all", "it waits"));
        assert_eq!(shortened(rows[0].newer.as_deref().unwrap()), "2@sha256:aaaaaaaaaaaa");
        assert_eq!(
            (shortened(&rows[1].running).as_str(), rows[1].state.as_str()),
            ("3", "is rolled out since 2026-01-01T00:00:00Z")
        );
        let record = read_image_record(ObjectMeta::of(&object));
        assert_eq!(chosen(&record, None), [("main".to_owned(), format!("2@{digest}"))]);
        assert_eq!(chosen(&record, Some("side")), []);
    }

    #[test]
    fn workloads_are_named_as_kubectl_names_them() {
        for text in ["deployment/web", "Deployment/web", "deployments/web"] {
            assert_eq!(workload_of(text, "n").unwrap().gvk.kind, "Deployment", "{text}");
        }
        assert_eq!(workload_of("web", "n").unwrap_err(), "\"web\": write the workload as KIND/NAME");
        let error = workload_of("pod/web", "n").unwrap_err();
        assert_eq!(error, "\"pod\": there are deployment, statefulset, daemonset, cronjob");
    }
}
