//! `compare` beside both real Helms, and beside one that lies.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use windlass_testing::{Tool, write_file};

use super::{chart, control_plane, run, windlass};

fn compare(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_windlass"))
        .arg("compare")
        .args(args)
        .env_remove("KUBECONFIG")
        .env("HOME", home.path())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fixture(name: &str) -> String {
    format!("{}/fixtures/charts/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A helm whose templates go through a line of shell.
fn altered(dir: &Path, name: &str, helm: &Path, filter: &str) -> String {
    let path = dir.join(name);
    let helm = helm.display();
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in\n  version) exec {helm} \"$@\";;\nesac\nout=$({helm} \"$@\"; echo x) || exit 1\nprintf %s \
         \"${{out%x}}\" | {filter}\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn both_helms_are_told_apart_and_equal() {
    for (tool, profile) in [(Tool::Helm4, "helm4"), (Tool::Helm3, "helm3")] {
        let helm = tool.path().unwrap();
        let out = compare(&[
            &fixture("order"),
            &fixture("codecs/chart"),
            &fixture("broken"),
            "--helm",
            helm.to_str().unwrap(),
            "-o",
            "json",
        ]);
        assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
        let report: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(report["profile"], profile);
        assert_eq!((&report["compared"], &report["differing"]), (&3.into(), &0.into()));
    }
}

#[test]
fn test_values_are_found_and_chance_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let chart = chart();
    let ci = chart.path().join("ci");
    std::fs::create_dir(&ci).unwrap();
    std::fs::write(ci.join("big-values.yaml"), "size: 9\n").unwrap();
    std::fs::write(ci.join("README.md"), "").unwrap();
    std::fs::write(chart.path().join("templates/chance.yaml"), "a: {{ randAlphaNum 20 }}\nb: {{ uuidv4 }}\n")
        .unwrap();
    let helm = Tool::Helm4.path().unwrap();
    let out = compare(&[chart.path().to_str().unwrap(), "--helm", helm.to_str().unwrap()]);
    let table = text(&out.stdout);
    assert!(out.status.success(), "{table}{}", text(&out.stderr));
    assert_eq!(
        table.matches("equal but for 2 lines that helm itself prints differently each time").count(),
        2,
        "{table}"
    );
    assert!(table.contains("ci/big-values.yaml") && !table.contains("README"), "{table}");
    assert!(table.contains("2 of 2 equal, 2 of them but for lines"), "{table}");
    // Nothing that can be compared is lost in the mask.
    let lying = altered(dir.path(), "helm", &helm, "sed 's/^b:/c:/'");
    let out = compare(&[chart.path().to_str().unwrap(), "--helm", &lying]);
    assert!(!out.status.success(), "{}", text(&out.stdout));
}

#[test]
fn one_byte_is_a_difference() {
    let dir = tempfile::tempdir().unwrap();
    let chart = chart();
    for (tool, name) in [(Tool::Helm4, "helm-4"), (Tool::Helm3, "helm-3")] {
        let lying = altered(dir.path(), name, &tool.path().unwrap(), "sed 's/port: 80/port: 81/'");
        let out = compare(&[chart.path().to_str().unwrap(), "--helm", &lying]);
        let table = text(&out.stdout);
        assert_eq!(out.status.code(), Some(1), "{table}");
        assert!(table.contains("DIFFERS: 1 line"), "{table}");
        assert!(table.contains("-spec: {ports: [{port: 81}]}\n+spec: {ports: [{port: 80}]}\n"), "{table}");
        assert_eq!(text(&out.stderr), "Error: 1 of 1 differ\n");
    }
    // A space at the end of a line is one, too, and so is a failure that only one of both has.
    for (filter, what) in
        [("sed 's/kind: Service$/kind: Service /'", "DIFFERS: 1 line"), ("false", "DIFFERS: helm fails")]
    {
        let lying = altered(dir.path(), "other", &Tool::Helm4.path().unwrap(), filter);
        let out = compare(&[chart.path().to_str().unwrap(), "--helm", &lying]);
        let told = text(&out.stdout) + &text(&out.stderr);
        // A helm that fails on everything cannot be asked what it assumes.
        assert!(
            !out.status.success() && (told.contains(what) || told.contains("cannot render a chart")),
            "{told}"
        );
    }
}

#[test]
fn a_helm_that_is_none_is_told() {
    let chart = chart();
    let path = chart.path().to_str().unwrap();
    for (helm, part) in [("/nowhere/helm", "cannot be run"), ("true", "neither Helm 3 nor Helm 4")] {
        let out = compare(&[path, "--helm", helm]);
        assert!(!out.status.success() && text(&out.stderr).contains(part), "{}", text(&out.stderr));
        assert!(text(&out.stderr).contains("--helm PATH"), "{}", text(&out.stderr));
    }
    let out = compare(&[path, "--helm", Tool::Helm3.path().unwrap().to_str().unwrap(), "--compat", "helm4"]);
    assert!(!out.status.success() && text(&out.stderr).contains("not the helm4 of --compat"));
    let empty = tempfile::tempdir().unwrap();
    let out = compare(&[empty.path().to_str().unwrap()]);
    assert!(text(&out.stderr).contains("no chart at or below"), "{}", text(&out.stderr));
    assert!(compare(&[]).status.code() != Some(0));
}

#[test]
fn releases_are_compared_and_nothing_is_written() {
    let cp = control_plane();
    let ns = cp.namespace("compare").unwrap();
    let dir = chart();
    let write = |path: &str, text: &str| write_file(dir.path().join(path), text);
    write(
        "templates/secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}\"}\nstringData:\n  word: {{ .Values.word | quote }}\n",
    );
    write("values.yaml", "size: 1\nword: plain\n");
    let path = dir.path().to_str().unwrap();
    windlass(&["install", "ours", path, "-n", ns.name(), "--set", "word=hunter2"]);
    cp.helm4(["install", "theirs", path, "-n", ns.name(), "--set", "word=hunter2"]).unwrap();
    cp.helm3(["install", "older", path, "-n", ns.name()]).unwrap();
    write("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 0.1.0\n");
    write("charts/sub/templates/x.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sub}\n");
    windlass(&["install", "family", path, "-n", ns.name()]);

    let mark = cp.audit_mark().unwrap();
    let helm = Tool::Helm4.path().unwrap();
    let helm = helm.to_str().unwrap();
    let out = run(&["compare", "--releases", "-n", ns.name(), "--helm", helm]);
    let table = text(&out.stdout);
    assert!(out.status.success(), "{table}{}", text(&out.stderr));
    assert!(table.contains("3 of 3 equal; 1 not compared"), "{table}");
    assert_eq!(table.matches("as recorded").count(), 3, "{table}");
    assert!(table.contains("the chart has subcharts, which Helm's records leave out"), "{table}");
    let writes = cp.writes_since(mark).unwrap();
    assert!(writes.iter().all(|e| e.namespace != ns.name()), "{writes:?}");

    // What Secrets hold is not shown.
    let scratch = tempfile::tempdir().unwrap();
    let lying = altered(scratch.path(), "helm", &Tool::Helm4.path().unwrap(), "sed 's/hunter2/hunter3/'");
    let out = run(&["compare", "--releases", "-n", ns.name(), "--helm", &lying, "--full"]);
    let table = text(&out.stdout);
    assert!(!out.status.success() && table.contains("-  word: (hidden)\n+  word: (hidden)\n"), "{table}");
    assert!(!table.contains("hunter"), "{table}");
}
