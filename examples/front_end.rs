//! A front end of a hundred lines: keeps one chart released, and says what was done, by whom it was undone, and why.
//!
//!     cargo run --example front_end -- RELEASE CHART NAMESPACE [VALUES]
//!
//! All that it owns is where the chart and the values come from. Rendering is `chart-compat`'s; revisions, locks, drift and
//! Helm's records are the engine's. Ctrl-C ends it, and leaves the release as it is.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it talks to whoever tries it")]

use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, KubeVersion, Options as RenderOptions, Release};
use windlass::cluster::{Cluster, ConnectOptions};
use windlass::release::{
    Disposition, Engine, EngineOptions, Mode, ReleaseAction, ReleaseId, ReleaseOptions, ReleaseOutcome,
    ReleaseRequest,
};
use windlass::render::{
    ClusterLookup, RenderBounds, SystemWorld, chart_record, parse_manifest, release, to_json,
};

pub type Failure = Box<dyn Error + Send + Sync>;

/// From a chart on disk to a request: everything that a front end has to bring.
async fn request(
    cluster: &Cluster,
    id: &ReleaseId,
    path: PathBuf,
    values: Map,
) -> Result<ReleaseRequest, Failure> {
    let bounds = RenderBounds::default();
    let version = cluster.version().await?;
    let text = |key: &str| version[key].as_str().unwrap_or_default().to_owned();
    let options = RenderOptions {
        release: Release {
            name: id.name.clone(),
            namespace: id.namespace.clone(),
            revision: 1,
            is_upgrade: true,
        },
        capabilities: Capabilities {
            kube_version: KubeVersion::of_cluster(&text("gitVersion"), &text("major"), &text("minor")),
            api_versions: cluster.kinds().await?.api_versions(),
            ..Capabilities::default()
        },
        skip_schema_validation: false,
        subchart_notes: false,
        limits: bounds.limits(),
    };
    let lookup = ClusterLookup::new(cluster.clone());
    let config = to_json(&Data::Map(values.clone()));
    // Templates may look things up in the cluster, and wait for it: not on a thread that serves others.
    let (rendered, chart) = tokio::task::spawn_blocking(move || -> Result<_, Failure> {
        let chart = windlass::source::load(&path, Profile::Helm4)?.compile(Profile::Helm4);
        let deadline = Some(bounds.deadline());
        let world = SystemWorld { cluster: Some(&lookup), deadline, ..SystemWorld::default() };
        let rendered = chart.render(&values, &options, &world, &mut |warning| eprintln!("{warning}"))?;
        Ok((release(&rendered, &bounds)?, chart_record(chart.chart())))
    })
    .await??;
    Ok(ReleaseRequest {
        id: id.clone(),
        rendered: Arc::new(rendered),
        chart: Arc::new(chart),
        config,
        cause: "the example was started".to_owned(),
        // As operators want it: asked again and again until it holds, and no revision when nothing changed.
        options: ReleaseOptions {
            mode: Mode::UpgradeInstall,
            skip_unchanged: true,
            force_conflicts: true,
            ..ReleaseOptions::default()
        },
        ..ReleaseRequest::default()
    })
}

/// An outcome in a line for people.
fn told(outcome: &ReleaseOutcome) -> String {
    let drift: String = outcome.drift.iter().map(|drift| format!("\n  {drift}")).collect();
    match outcome.action {
        ReleaseAction::Unchanged => format!("revision {}: {}{drift}", outcome.revision, outcome.reason),
        action => format!(
            "{action:?}, revision {}: {} created, {} changed, {} deleted: {}{drift}",
            outcome.revision,
            outcome.created.len(),
            outcome.changed.len(),
            outcome.pruned.len(),
            outcome.reason
        ),
    }
}

/// Keeps a release as the words say: RELEASE CHART NAMESPACE [VALUES].
pub async fn keep(cluster: Cluster, words: &[String]) -> Result<(), Failure> {
    let [name, chart, namespace, values @ ..] = words else {
        return Err("give RELEASE CHART NAMESPACE and, perhaps, a file of values".into());
    };
    let id = ReleaseId::new(namespace, name);
    let values = match values.first() {
        Some(file) => chart_compat::chart::read_values(&std::fs::read(file)?, Profile::Helm4)?,
        None => Map::new(),
    };
    let engine = Engine::new(cluster.clone(), parse_manifest, EngineOptions::watching("example"));
    let request = request(&cluster, &id, chart.into(), values).await?;
    loop {
        match engine.reconcile(&request).await {
            Ok(outcome) => println!("{}", told(&outcome)),
            Err(error) if error.disposition() == Disposition::Stall => return Err(error.into()),
            Err(error) => {
                eprintln!("{error}; trying again");
                tokio::time::sleep(Duration::from_secs(5)).await;
                continue;
            }
        }
        let (_, reason) = engine.next_trigger().await;
        println!("a look is wanted: {reason}");
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    keep(Cluster::connect(&ConnectOptions::default()).await?, &words).await
}
