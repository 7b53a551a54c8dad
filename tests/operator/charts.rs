//! Real public charts as modules, where the corpus is at hand: every object is there, real Helm reads the records, and
//! a second start has nothing to do.

use crate::support::{Modules, Operator, control_plane, is_bookkeeping, object, wait_for};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use windlass_testing::{ControlPlane, write_file};

/// Charts without webhooks, API services or CRDs, whose renders do not change by themselves.
const PLAIN: [&str; 7] = [
    "kube-state-metrics",
    "reloader",
    "coredns",
    "prometheus-blackbox-exporter",
    "oauth2-proxy",
    "opensearch-dashboards",
    "promtail",
];

/// Charts with CRDs or API services: on a control plane of their own.
const INVASIVE: [&str; 3] = ["argo-rollouts", "metrics-server", "argo-events"];

fn corpus() -> Option<PathBuf> {
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus/charts");
    if charts.is_dir() {
        return Some(charts);
    }
    println!("no chart corpus at ../shared/corpus: skipped");
    None
}

/// Unpacks a chart of the corpus as a module; gives its values key.
fn unpack(corpus: &Path, modules: &Modules, number: usize, chart: &str) -> String {
    let prefix = format!("{chart}-");
    let entries = std::fs::read_dir(corpus).unwrap().map(|e| e.unwrap().path());
    let archive = entries
        .filter(|p| {
            let name = p.file_name().unwrap().to_string_lossy().into_owned();
            let version = name.strip_prefix(&prefix).unwrap_or_default();
            version.starts_with(|c: char| c.is_ascii_digit() || c == 'v')
        })
        .min()
        .unwrap_or_else(|| panic!("no chart {chart} in the corpus"));
    let directory = modules.path().join(format!("{number:03}-{chart}"));
    let files = chart_compat::chart::read_archive(
        &std::fs::read(archive).unwrap(),
        chart_compat::profile::Profile::Helm4,
    )
    .unwrap();
    for file in files {
        write_file(directory.join(&file.name), &file.data);
    }
    let mut key = String::new();
    for (i, word) in chart.split('-').enumerate() {
        let (first, rest) = word.split_at(1);
        key.push_str(&if i == 0 { first.to_owned() } else { first.to_uppercase() });
        key.push_str(rest);
    }
    key
}

/// Every object of a release, as its recorded manifest names it, with real Helm reading the record.
fn objects(cp: &ControlPlane, namespace: &str, release: &str) -> Vec<(String, String, String)> {
    let manifest = cp.helm4(["get", "manifest", release, "-n", namespace]).unwrap();
    let old = cp.helm3(["get", "manifest", release, "-n", namespace]).unwrap();
    assert_eq!(manifest, old, "both Helms read the same manifest of {release}");
    let docs = chart_compat::render::split_documents(&manifest);
    let parsed = docs.iter().map(|d| windlass_render::parse_manifest(d).unwrap()).filter(|o| !o.is_null());
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    parsed
        .map(|o| {
            let api_version = text(&o["apiVersion"]);
            let group = api_version.split_once('/').map_or("", |(g, _)| g);
            let kind = format!("{}.{group}", text(&o["kind"]).to_lowercase());
            let ns = o["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
            (kind.trim_end_matches('.').to_owned(), ns, text(&o["metadata"]["name"]))
        })
        .collect()
}

/// Names of the CustomResourceDefinitions in the `crds` folders of modules: no record holds them.
fn definitions(modules: &Path) -> BTreeSet<String> {
    let folders = std::fs::read_dir(modules).unwrap().map(|module| module.unwrap().path().join("crds"));
    let mut names = BTreeSet::new();
    for file in folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        for doc in chart_compat::render::split_documents(&text) {
            let object = windlass_render::parse_manifest(doc).unwrap();
            names.extend(object["metadata"]["name"].as_str().map(str::to_owned));
        }
    }
    names
}

fn check(cp: &ControlPlane, charts: &[&str]) {
    let Some(corpus) = corpus() else { return };
    let ns = cp.namespace("charts").unwrap();
    let modules = Modules::new();
    let keys: Vec<String> =
        charts.iter().enumerate().map(|(i, c)| unpack(&corpus, &modules, i + 1, c)).collect();
    modules.enable(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let (operator, took) = Operator::converged(cp, ns.name(), modules.path());
    println!("{} real charts converged in {took:?}", charts.len());
    let mut names = definitions(modules.path());
    let mut count = 0;
    for chart in charts {
        let listed = cp.helm4(["list", "-n", ns.name(), "-q"]).unwrap();
        assert!(listed.lines().any(|l| l == *chart), "{chart} is released: {listed}\n{}", operator.log());
        for (kind, namespace, name) in objects(cp, ns.name(), chart) {
            assert!(object(cp, &namespace, &kind, &name).is_some(), "{chart}: {kind} {namespace}/{name}");
            count += 1;
            names.insert(name);
        }
        for args in [&["history", chart][..], &["status", chart], &["get", "values", chart]] {
            cp.helm3(args.iter().copied().chain(["-n", ns.name()])).unwrap();
            cp.helm4(args.iter().copied().chain(["-n", ns.name()])).unwrap();
        }
    }
    println!("{count} objects of {} charts exist", charts.len());
    operator.stop();
    let mark = cp.audit_mark().unwrap();
    Operator::converged(cp, ns.name(), modules.path()).0.stop();
    let events = cp.audit_since(mark).unwrap();
    let ours: Vec<_> = events
        .iter()
        .filter(|e| e.user_agent.starts_with("windlass/") && e.is_write())
        .filter(|e| !is_bookkeeping(e))
        .collect();
    // Other tests write cluster-scoped objects at the same time.
    let ours: Vec<_> = ours
        .into_iter()
        .filter(|e| e.namespace == ns.name() || e.namespace.is_empty() && names.contains(&e.name))
        .collect();
    assert!(ours.is_empty(), "a second start writes nothing: {ours:?}");
}

#[test]
fn plain_charts() {
    check(control_plane(), &PLAIN);
}

#[test]
fn charts_with_crds_and_api_services() {
    if corpus().is_none() {
        return;
    }
    let own = ControlPlane::start().unwrap();
    check(&own, &INVASIVE);
    let Some(corpus) = corpus() else { return };
    // A custom resource that someone deletes is put back like any other object.
    let ns = own.namespace("custom").unwrap();
    let modules = Modules::new();
    modules.write("001-kinds/Chart.yaml", "apiVersion: v2\nname: kinds\nversion: 0.1.0\n");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("modules/010-tenants");
    let crd = std::fs::read_to_string(repository.join("crds/tenant.yaml")).unwrap();
    modules.write("001-kinds/crds/tenant.yaml", &crd);
    modules.write(
        "001-kinds/templates/one.yaml",
        "apiVersion: demo.windlass.dev/v1\nkind: Tenant\nmetadata: {name: one}\nspec: {pods: 1}\n",
    );
    modules.enable(&["kinds"]);
    drop(corpus);
    let (operator, _) = Operator::converged(&own, ns.name(), modules.path());
    let uid = object(&own, ns.name(), "tenant", "one").unwrap()["metadata"]["uid"].clone();
    own.kubectl(["delete", "tenant", "one", "-n", ns.name(), "--wait=false"]).unwrap();
    let took = wait_for("the custom resource comes back", || {
        object(&own, ns.name(), "tenant", "one").is_some_and(|o| o["metadata"]["uid"] != uid)
    });
    println!("custom resource back after {took:?}, the looking included");
    operator.stop();
}
