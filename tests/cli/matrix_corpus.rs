//! The same turns on charts that people use: each pair of steps by each pair of tools at least once.

use super::control_plane;
use super::matrix::{STEPS, TOOLS, Trace, differences, history, tool, wished};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Charts without chance in them, each with what the second and the third state set.
const CHARTS: [(&str, &str, &str); 6] = [
    ("kube-state-metrics-8.4.0", "replicas=2", "customLabels.team=x"),
    ("reloader-2.2.16", "reloader.logFormat=json", "reloader.deployment.labels.team=x"),
    ("coredns-1.46.2", "replicaCount=2", "podAnnotations.team=x"),
    ("prometheus-blackbox-exporter-11.17.2", "replicas=2", "pod.labels.team=x"),
    ("oauth2-proxy-10.7.0", "replicaCount=2", "podAnnotations.team=x"),
    ("opensearch-dashboards-3.6.0", "replicaCount=2", "podAnnotations.team=x"),
];
const NAMESPACED: &str = "configmap,secret,service,deployment,statefulset,daemonset,serviceaccount,role,rolebinding,ingress,\
    poddisruptionbudget,networkpolicy,horizontalpodautoscaler,job,cronjob";
const WIDE: &str = "clusterrole,clusterrolebinding";

/// A step and its tool.
type Turn = (usize, char);

/// Few sequences that have each pair of turns: always the one that adds the most.
fn pairwise() -> Vec<String> {
    let mut all = vec![String::new()];
    for _ in 0..STEPS {
        all = all.iter().flat_map(|s| TOOLS.map(|tool| format!("{s}{tool}"))).collect();
    }
    let pairs = |sequence: &str| -> BTreeSet<(Turn, Turn)> {
        let turns: Vec<Turn> = sequence.chars().enumerate().collect();
        turns.iter().flat_map(|a| turns.iter().filter(move |b| a.0 < b.0).map(move |b| (*a, *b))).collect()
    };
    let mut open: BTreeSet<(Turn, Turn)> = all.iter().flat_map(|s| pairs(s)).collect();
    let mut chosen = Vec::new();
    while !open.is_empty() {
        let best = all.iter().max_by_key(|s| pairs(s).intersection(&open).count()).unwrap();
        for pair in pairs(best) {
            open.remove(&pair);
        }
        chosen.push(best.clone());
    }
    chosen
}

fn live(ns: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for scope in [&["get", NAMESPACED, "-n", ns][..], &["get", WIDE]] {
        let args = scope.iter().copied().chain(["-l", "app.kubernetes.io/managed-by=Helm", "-o", "json"]);
        let list: Value = serde_json::from_str(&control_plane().kubectl(args).unwrap()).unwrap();
        for object in list["items"].as_array().unwrap() {
            let text = |v: &Value| v.as_str().unwrap().to_owned();
            let name = format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
            found.insert(name, wished(object, ns));
        }
    }
    found
}

fn trace(sequence: &str, chart: &Path, sets: [&str; 2], ns: &str) -> Trace {
    let chart = chart.to_str().unwrap();
    let steps: [&[&str]; STEPS] = [
        &["install", "m", chart],
        &["upgrade", "m", chart, "--set", sets[0]],
        &["rollback", "m", "1"],
        &["upgrade", "m", chart, "--set", sets[1]],
        &["uninstall", "m"],
    ];
    let mut trace = Trace { objects: Vec::new(), history: Vec::new() };
    for (i, (by, step)) in sequence.chars().zip(steps).enumerate() {
        let last = i + 1 == STEPS;
        if last {
            trace.history = TOOLS.iter().map(|by| history(*by, ns)).collect();
        }
        let args: Vec<&str> = step.iter().copied().chain(["-n", ns]).collect();
        tool(by, &args);
        let objects = live(ns);
        assert_eq!(objects.is_empty(), last, "{chart} {sequence} step {}: {objects:?}", i + 1);
        trace.objects.push(objects);
    }
    let changes = trace.objects[..STEPS - 1].windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(changes, STEPS - 2, "{chart}: {sets:?} must change something");
    trace
}

#[test]
fn every_pair_of_turns_is_taken() {
    let chosen = pairwise();
    assert!((9..=15).contains(&chosen.len()), "{chosen:?}");
}

#[test]
#[ignore = "takes a quarter of an hour: make matrix"]
fn pairwise_on_six_charts_of_the_corpus() {
    let corpus = PathBuf::from("../shared/corpus/charts");
    if !corpus.is_dir() {
        println!("no chart corpus at ../shared/corpus: skipped");
        return;
    }
    // One namespace and one after the other: names of wide objects and of checksums are the same each time.
    let namespace = control_plane().namespace("pairs").unwrap();
    let (mut found, mut ran) = (Vec::new(), 0);
    for (chart, second, third) in CHARTS {
        let path = corpus.join(format!("{chart}.tgz"));
        let mut traces: BTreeMap<String, Trace> = BTreeMap::new();
        for sequence in pairwise() {
            let reference = sequence.replace('w', "4");
            for one in [&sequence, &reference] {
                if !traces.contains_key(one) {
                    traces.insert(one.clone(), trace(one, &path, [second, third], namespace.name()));
                    ran += 1;
                }
            }
            if sequence != reference {
                let new = differences(&sequence, &traces[&sequence], &traces[&reference]);
                found.extend(new.into_iter().map(|d| format!("{chart}: {d}")));
            }
        }
        println!("{chart}: {} sequences, {} differences so far", traces.len(), found.len());
    }
    println!("{ran} sequences ran, {} differences", found.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
