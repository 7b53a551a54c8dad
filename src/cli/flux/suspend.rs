//! `windlass flux suspend` and `windlass flux resume`.

use futures::future::join_all;
use serde_json::{Value, json};

use super::super::flags::Globals;
use super::super::{Failure, with_engine};
use super::kinds::{FluxKind, Selection};
use super::wait::{Until, wait};
use super::{MANAGER, Waiting, namespace_of, read, revision, step};
use windlass_cluster::{Cluster, ObjectMeta, ObjectRef, PatchKind};

/// Which objects.
#[derive(clap::Args)]
struct Objects {
    /// `helmrelease NAME` or `source KIND NAME`
    #[arg(required = true, num_args = 1..=3, value_names = ["KIND", "NAME"])]
    objects: Vec<String>,
    /// All objects of the kind in the namespace
    #[arg(long)]
    all: bool,
}

/// Flags of `suspend`.
#[derive(clap::Args)]
pub(in crate::cli) struct SuspendArgs {
    #[command(flatten)]
    objects: Objects,
}

/// Flags of `resume`.
#[derive(clap::Args)]
pub(in crate::cli) struct ResumeArgs {
    #[command(flatten)]
    objects: Objects,
    /// Wait until the objects are ready
    #[arg(long, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    wait: bool,
    #[command(flatten)]
    waiting: Waiting,
}

impl Objects {
    fn parse(&self) -> Result<(&'static FluxKind, Option<String>), Failure> {
        let (kind, name) = Selection::parse_one(&self.objects)?;
        match (&name, self.all) {
            (Some(_), true) => Err("give a name or --all, not both".to_owned()),
            (None, false) => Err(format!("name a {}, or give --all", kind.kind)),
            _ => Ok((kind, name)),
        }
    }
}

/// The selected objects.
async fn found(
    cluster: &Cluster,
    kind: &FluxKind,
    name: Option<&str>,
    namespace: &str,
) -> Result<Vec<ObjectRef>, Failure> {
    if let Some(name) = name {
        let object = kind.object(namespace, name);
        read(cluster, &object).await?;
        return Ok(vec![object]);
    }
    let listed = cluster.list(&kind.gvk(), Some(namespace), "").await.map_err(|e| e.to_string())?;
    if listed.is_empty() {
        return Err(format!("no {} objects found in {namespace:?} namespace", kind.kind));
    }
    Ok(listed.iter().map(|object| kind.object(namespace, ObjectMeta::of(object).name())).collect())
}

async fn set(cluster: &Cluster, object: &ObjectRef, suspend: bool) -> Result<Value, Failure> {
    let patch = json!({"spec": {"suspend": suspend}});
    let result = cluster.patch_subresource(object, "", PatchKind::Merge, &patch, MANAGER).await;
    result.map_err(|e| format!("{object}: {e}"))
}

pub(super) fn suspend(globals: &Globals, args: &SuspendArgs) -> Result<(), Failure> {
    let (kind, name) = args.objects.parse()?;
    let lower = kind.kind.to_lowercase();
    with_engine(globals, async |s| {
        let (namespace, cluster) = (namespace_of(globals, &s), s.engine.cluster());
        for object in found(cluster, kind, name.as_deref(), &namespace).await? {
            step("►", &format!("suspending {lower} {} in {namespace} namespace", object.name));
            set(cluster, &object, true).await?;
            step("✔", &format!("{lower} suspended"));
        }
        Ok(())
    })
}

pub(super) fn resume(globals: &Globals, args: &ResumeArgs) -> Result<(), Failure> {
    let (kind, name) = args.objects.parse()?;
    let lower = kind.kind.to_lowercase();
    with_engine(globals, async |s| {
        let (namespace, cluster) = (namespace_of(globals, &s), s.engine.cluster());
        let mut resumed = Vec::new();
        for object in found(cluster, kind, name.as_deref(), &namespace).await? {
            step("►", &format!("resuming {lower} {} in {namespace} namespace", object.name));
            let live = set(cluster, &object, false).await?;
            step("✔", &format!("{lower} resumed"));
            resumed.push((object, ObjectMeta::of(&live).generation()));
        }
        if !args.wait {
            return Ok(());
        }
        step("◎", &format!("waiting for {} reconciliation", kind.kind));
        let waits = resumed.iter().map(|(object, generation)| {
            wait(cluster, object, Until::Generation(*generation), args.waiting.timeout)
        });
        let mut failures = Vec::new();
        for ((object, _), result) in resumed.iter().zip(join_all(waits).await) {
            match result {
                Ok(live) => {
                    step("✔", &format!("{} {} reconciliation completed", kind.kind, object.name));
                    let done = if kind.is_source() { "fetched" } else { "applied" };
                    step("✔", &format!("{done} revision {}", revision(&live)));
                }
                Err(why) => failures.push(format!("{}: {why}", object.name)),
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures.join("\n")) }
    })
}
