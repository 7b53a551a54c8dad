//! `windlass flux reconcile`: asks a controller for a reconciliation by annotations, waits for it and shows its result.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::flags::Globals;
use super::super::{Failure, with_engine};
use super::kinds::{self, FluxKind, Selection};
use super::wait::{Until, wait};
use super::{MANAGER, Waiting, namespace_of, read, revision, step, text};
use flux_api::api_names::{FORCE_AT, REQUESTED_AT, RESET_AT};
use windlass_cluster::{Cluster, ObjectMeta, ObjectRef, PatchKind};

/// Flags of `reconcile`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// `helmrelease NAME` or `source helm|chart|oci|git|bucket NAME`
    #[arg(required = true, num_args = 2..=3, value_names = ["KIND", "NAME"])]
    objects: Vec<String>,
    /// HelmReleases only: reconcile the source first
    #[arg(long)]
    with_source: bool,
    /// HelmReleases only: make a release action even if nothing has changed
    #[arg(long)]
    force: bool,
    /// HelmReleases only: reset the counts of failures, so that retries begin anew
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    waiting: Waiting,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let (kind, name) = Selection::parse_one(&args.objects)?;
    let name = name.ok_or_else(|| format!("name a {}", kind.kind))?;
    let only = [("--with-source", args.with_source), ("--force", args.force), ("--reset", args.reset)];
    if let Some((flag, _)) = only.iter().find(|(_, given)| *given && kind.is_source()) {
        return Err(format!("{flag} is for HelmReleases, not for a {}", kind.kind));
    }
    with_engine(globals, async |s| {
        let (namespace, cluster) = (namespace_of(globals, &s), s.engine.cluster());
        let object = kind.object(&namespace, &name);
        let live = read(cluster, &object).await?;
        refuse(&object, &live)?;
        if args.with_source {
            for source in sources(cluster, &live).await? {
                let live = read(cluster, &source).await?;
                if is_static(&live) {
                    continue;
                }
                refuse(&source, &live)?;
                reconcile(cluster, &source, &[REQUESTED_AT], args).await?;
            }
        }
        let mut annotations = vec![REQUESTED_AT];
        annotations.extend(args.force.then_some(FORCE_AT));
        annotations.extend(args.reset.then_some(RESET_AT));
        reconcile(cluster, &object, &annotations, args).await
    })
}

/// Whether no controller reconciles the object: it is only read.
fn is_static(object: &Value) -> bool {
    object["kind"] == "ExternalArtifact"
        || object["kind"] == "HelmRepository" && object["spec"]["type"] == "oci"
}

fn refuse(object: &ObjectRef, live: &Value) -> Result<(), Failure> {
    if live["spec"]["suspend"] == true {
        return Err(format!("{object} is suspended; resume it first"));
    }
    if is_static(live) {
        return Err(format!("{object} is static: there is nothing to reconcile"));
    }
    Ok(())
}

/// The sources of a HelmRelease, in the order in which its chart is made.
async fn sources(cluster: &Cluster, release: &Value) -> Result<Vec<ObjectRef>, Failure> {
    let own = ObjectMeta::of(release).namespace().unwrap_or_default();
    let reference = |value: &Value, default: &str| -> Result<ObjectRef, Failure> {
        let kind: &FluxKind = kinds::named(text(&value["kind"]))?;
        let namespace = value["namespace"].as_str().unwrap_or(default);
        Ok(kind.object(namespace, text(&value["name"])))
    };
    let template = &release["spec"]["chart"]["spec"]["sourceRef"];
    let chart = match text(&release["status"]["helmChart"]).split_once('/') {
        Some((namespace, name)) => Some(kinds::named("HelmChart")?.object(namespace, name)),
        None => None,
    };
    if !template.is_null() {
        return Ok([reference(template, own)?].into_iter().chain(chart).collect());
    }
    let source = reference(&release["spec"]["chartRef"], own)?;
    if source.gvk.kind != "HelmChart" {
        return Ok(vec![source]);
    }
    let chart = read(cluster, &source).await?;
    let namespace = source.namespace.clone().unwrap_or_default();
    Ok(vec![reference(&chart["spec"]["sourceRef"], &namespace)?, source])
}

/// Reconciles one object.
async fn reconcile(
    cluster: &Cluster,
    object: &ObjectRef,
    annotations: &[&str],
    args: &Args,
) -> Result<(), Failure> {
    let kind = &object.gvk.kind;
    let namespace = object.namespace.as_deref().unwrap_or_default();
    step("►", &format!("annotating {kind} {} in {namespace} namespace", object.name));
    let token = Timestamp::now().to_string();
    let all: serde_json::Map<String, Value> =
        annotations.iter().map(|name| ((*name).to_owned(), token.as_str().into())).collect();
    let patch = json!({"metadata": {"annotations": all}});
    cluster
        .patch_subresource(object, "", PatchKind::Merge, &patch, MANAGER)
        .await
        .map_err(|e| format!("{object}: {e}"))?;
    step("✔", &format!("{kind} annotated"));
    step("◎", &format!("waiting for {kind} reconciliation"));
    let live = wait(cluster, object, Until::Handled(&token), args.waiting.timeout).await?;
    let done = if kind == "HelmRelease" { "applied" } else { "fetched" };
    step("✔", &format!("{done} revision {}", revision(&live)));
    Ok(())
}
