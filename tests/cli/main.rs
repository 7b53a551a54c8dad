//! The command line on a real control plane, its output beside real Helm's.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod chart_rights;
mod client_apply;
mod compare;
mod crd;
mod crds;
mod doctor;
mod drop_in;
mod flags;
mod flux;
mod flux_verbs;
mod helmfile;
mod helmfile_secrets;
mod hook_logs;
mod init;
mod kustomize;
mod matrix;
mod matrix_corpus;
mod plan;
mod progress;
mod race;
mod replicas;
mod rights;
mod signals;
mod templates;
mod texts;
#[path = "../engine/tls.rs"]
mod tls;
mod verbs;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use windlass_testing::{control_plane, write_file};

/// Charts that install without webhooks, API services or CRDs.
const CHARTS: [&str; 7] = [
    "kube-state-metrics-8.4.0",
    "reloader-2.2.16",
    "coredns-1.46.2",
    "prometheus-blackbox-exporter-11.17.2",
    "oauth2-proxy-10.7.0",
    "opensearch-dashboards-3.6.0",
    "redis-23.1.1",
];

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(args)
        .env("KUBECONFIG", control_plane().kubeconfig())
        .env("TZ", "UTC")
        .output()
        .unwrap()
}

/// Standard output of a command that must succeed.
fn windlass(args: &[&str]) -> String {
    let out = run(args);
    assert!(out.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// Standard error of a command that must fail.
fn fails(args: &[&str]) -> String {
    let out = run(args);
    assert!(!out.status.success(), "{args:?} must fail\n{}", String::from_utf8_lossy(&out.stdout));
    String::from_utf8(out.stderr).unwrap()
}

fn chart() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| write_file(dir.path().join(path), text);
    write("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.2.3\nappVersion: \"9\"\n");
    write("values.yaml", "size: 1\n");
    write(
        "templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {size: \"{{ .Values.size }}\", \
         revision: \"{{ .Release.Revision }}\"}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}\"}\n\
         spec: {ports: [{port: 80}]}\n",
    );
    write("templates/NOTES.txt", "Size is {{ .Values.size }}.\n");
    dir
}

#[test]
fn a_release_lives_its_life_and_helm_sees_the_same() {
    let cp = control_plane();
    let ns = cp.namespace("cli").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let out = windlass(&["install", "one", path, "-n", n]);
    assert!(out.contains("STATUS: deployed\nREVISION: 1\n"), "{out}");
    assert!(out.ends_with("NOTES:\nSize is 1.\n"), "{out}");
    let again = fails(&["install", "one", path, "-n", n]);
    assert_eq!(
        again.trim(),
        "level=ERROR msg=\"release name check failed\" error=\"cannot reuse a name that is still in use\"\nError: \
         INSTALLATION FAILED: release name check failed: cannot reuse a name that is still in use"
    );
    let out = windlass(&["upgrade", "one", path, "-n", n, "--set", "size=2"]);
    assert!(out.starts_with("Release \"one\" has been upgraded. Happy Helming!\n"), "{out}");
    let out = windlass(&["upgrade", "--install", "two", path, "-n", n]);
    assert!(out.starts_with("Release \"two\" does not exist. Installing it now.\n"), "{out}");
    // Every answer of ours beside Helm's to the same question.
    let questions: [&[&str]; 14] = [
        &["list"],
        &["list", "-o", "json"],
        &["list", "-o", "yaml"],
        &["list", "-q"],
        &["history", "one"],
        &["history", "one", "-o", "json"],
        &["history", "one", "-o", "yaml"],
        &["get", "manifest", "one"],
        &["get", "manifest", "one", "--revision", "1"],
        &["get", "values", "one"],
        &["get", "values", "one", "-o", "json"],
        &["get", "values", "two"],
        &["get", "values", "-a", "one"],
        &["get", "notes", "one"],
    ];
    for question in questions {
        let args: Vec<&str> = question.iter().copied().chain(["-n", n]).collect();
        let mine: Vec<&str> = args.iter().map(|a| if *a == "-q" { "--short" } else { a }).collect();
        assert_eq!(windlass(&mine), cp.helm4(&args).unwrap(), "{question:?}");
    }
    for question in [&["status", "nope"][..], &["history", "nope"], &["get", "values", "nope"]] {
        let args: Vec<&str> = question.iter().copied().chain(["-n", n]).collect();
        assert_eq!(fails(&args), "Error: release: not found\n");
    }
    assert_eq!(
        fails(&["upgrade", "nope", path, "-n", n]),
        "Error: UPGRADE FAILED: \"nope\" has no deployed releases\n"
    );
    assert_eq!(windlass(&["uninstall", "one", "-n", n]), "release \"one\" uninstalled\n");
    assert_eq!(
        fails(&["uninstall", "one", "-n", n]),
        "Error: uninstall: Release not loaded: one: release: not found\n"
    );
    let left = cp.kubectl(["get", "configmap,service", "-n", n, "-o", "name"]).unwrap();
    assert!(!left.contains("/one"), "{left}");
    assert!(left.contains("configmap/two"), "{left}");
    // Helm goes on where we were.
    cp.helm4(["upgrade", "two", path, "-n", n, "--set", "size=5"]).unwrap();
    cp.helm3(["rollback", "two", "1", "-n", n]).unwrap();
    assert_eq!(windlass(&["history", "two", "-n", n, "-o", "json"]).matches("\"revision\"").count(), 3);
}

#[test]
fn dry_runs_write_nothing() {
    let cp = control_plane();
    let ns = cp.namespace("dry").unwrap();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let mark = cp.audit_mark().unwrap();
    for form in ["--dry-run", "--dry-run=server"] {
        let out = windlass(&["install", "x", path, "-n", ns.name(), form]);
        assert!(out.contains("STATUS: pending-install") && out.contains("kind: Service"), "{out}");
    }
    let writes = cp.writes_since(mark).unwrap();
    assert!(writes.iter().all(|e| e.namespace != ns.name()), "{writes:?}");
}

#[test]
fn replay_keeps_chance_when_asked_and_only_then() {
    let cp = control_plane();
    let ns = cp.namespace("chance").unwrap();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: pw}\nstringData: {pw: \"{{ randAlphaNum 20 }}\"}\n";
    std::fs::write(dir.path().join("templates/secret.yaml"), secret).unwrap();
    let password = || -> Value {
        let path = format!("/api/v1/namespaces/{}/secrets/pw", ns.name());
        cp.get(&path).unwrap()["data"]["pw"].clone()
    };
    windlass(&["install", "x", path, "-n", ns.name(), "--replay"]);
    let first = password();
    windlass(&["upgrade", "x", path, "-n", ns.name(), "--replay", "--set", "size=2"]);
    assert_eq!(password(), first);
    let shown = windlass(&["template", "x", path, "-n", ns.name(), "--replay", "--dry-run=server"]);
    use base64::Engine as _;
    let plain = base64::engine::general_purpose::STANDARD.decode(first.as_str().unwrap()).unwrap();
    assert!(shown.contains(&String::from_utf8(plain).unwrap()), "template replays it");
    windlass(&["upgrade", "x", path, "-n", ns.name()]);
    assert_ne!(password(), first, "as Helm does it");
    windlass(&["uninstall", "x", "-n", ns.name()]);
    let left = cp.kubectl(["get", "secrets", "-n", ns.name(), "-o", "name"]).unwrap();
    assert!(!left.contains("replay"), "{left}");
    let text = fails(&["template", "x", path, "--replay"]);
    assert!(text.contains("add --dry-run=server"), "{text}");
}

#[test]
fn namespaces_are_made_when_asked() {
    let cp = control_plane();
    let ns = cp.namespace("made").unwrap();
    let name = format!("{}-new", ns.name());
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let text = fails(&["install", "x", path, "-n", &name]);
    assert!(text.contains("not found"), "{text}");
    windlass(&["install", "x", path, "-n", &name, "--create-namespace", "--wait"]);
    let labels: Value = cp.get(&format!("/api/v1/namespaces/{name}")).unwrap();
    assert_eq!(labels["metadata"]["labels"]["name"], name.as_str());
    windlass(&["uninstall", "x", "-n", &name]);
    cp.kubectl(["delete", "namespace", &name, "--wait=false"]).unwrap();
}

#[test]
fn bad_charts_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.tgz");
    std::fs::write(&bad, "not gzip").unwrap();
    let cases = [
        ("./nowhere", "path \"./nowhere\" not found"),
        ("no-such-repo/chart", "repo no-such-repo not found"),
        (bad.to_str().unwrap(), "does not appear to be a gzipped archive"),
        (dir.path().to_str().unwrap(), "Chart.yaml file is missing"),
    ];
    for (reference, part) in cases {
        let text = fails(&["template", "x", reference]);
        assert!(text.contains(part), "{reference}: {text}");
    }
}

/// Real public charts, where the corpus is at hand.
#[test]
fn real_charts_install_and_helm_reads_them() {
    let corpus: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus/charts");
    if !corpus.is_dir() {
        println!("no chart corpus at ../shared/corpus: skipped");
        return;
    }
    let cp = control_plane();
    let ns = cp.namespace("real").unwrap();
    for (i, chart) in CHARTS.iter().enumerate() {
        let name = format!("r{i}");
        let path = corpus.join(format!("{chart}.tgz"));
        windlass(&["install", &name, path.to_str().unwrap(), "-n", ns.name()]);
        let manifest = cp.helm4(["get", "manifest", &name, "-n", ns.name()]).unwrap();
        assert_eq!(manifest, cp.helm3(["get", "manifest", &name, "-n", ns.name()]).unwrap());
        let docs = chart_compat::render::split_documents(&manifest);
        let mut count = 0;
        for object in
            docs.iter().map(|d| windlass_render::parse_manifest(d).unwrap()).filter(|o| !o.is_null())
        {
            let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
            let group =
                text(&object["apiVersion"]).split_once('/').map_or(String::new(), |(g, _)| format!(".{g}"));
            let kind = format!("{}{group}", text(&object["kind"]).to_lowercase());
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or(ns.name()).to_owned();
            cp.kubectl(["get", &kind, &text(&object["metadata"]["name"]), "-n", &namespace]).unwrap();
            count += 1;
        }
        println!("{chart}: {count} objects");
        assert!(count > 0);
        cp.helm3(["status", &name, "-n", ns.name()]).unwrap();
        assert_eq!(
            windlass(&["uninstall", &name, "-n", ns.name()]),
            format!("release \"{name}\" uninstalled\n")
        );
    }
}
