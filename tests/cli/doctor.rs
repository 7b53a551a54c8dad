//! `windlass doctor modules` as scripts see it: exit status, and what is printed in which form.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use windlass_testing::write_file;

/// Exit status, standard output and standard error.
fn doctor(modules: &Path, more: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["doctor", "modules"]).arg(modules).args(more).env("KUBECONFIG", "/nonexistent");
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (done.status.code(), text(done.stdout), text(done.stderr))
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    write_file(&path, text);
    if path.extension().is_some_and(|e| e == "sh") {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn hook(config: &str, body: &str) -> String {
    format!("#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{config}'; exit; fi\n{body}\n")
}

#[test]
fn what_breaks_fails_and_what_differs_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let modules = dir.path().join("modules");
    put(&modules, "010-web/templates/a.yaml", "kind: ConfigMap\n");
    assert_eq!(doctor(&modules, &[]), (Some(0), "nothing works otherwise here\n".into(), String::new()));
    let nothing = doctor(&modules, &["-o", "json"]);
    assert_eq!((nothing.0, nothing.1.trim(), &*nothing.2), (Some(0), "[]", ""));

    // What differs, or needs something, is told on standard output, and is no failure.
    put(&modules, "010-web/hooks/calls.sh", &hook("{configVersion: v1, beforeHelm: 1}", "kubectl get pods"));
    let hooks = dir.path().join("global-hooks");
    put(&hooks, "zone.sh", &hook("{configVersion: v1, onStartup: 1}", "grep enabledModules $VALUES_PATH"));
    let global = ["--global-hooks-dir", hooks.to_str().unwrap()];
    let (status, out, err) = doctor(&modules, &global);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    let lines: Vec<&str> = out.lines().collect();
    let calls = modules.join("010-web/hooks/calls.sh");
    let zone = hooks.join("zone.sh");
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].starts_with(&format!("differs: {}: global.enabledModules", zone.display())), "{out}");
    assert!(
        lines[1].starts_with(&format!("differs: module web: {}: it does not run when", calls.display())),
        "{out}"
    );
    assert!(
        lines[2].starts_with(&format!("needs: module web: {}: it calls kubectl", calls.display())),
        "{out}"
    );
    assert_eq!(lines[3], "3 thing(s) to know");

    // What breaks comes first, and the exit status tells of it; standard output stays for programs to read.
    put(&modules, "020-bad/hooks/bad.sh", &hook("{configVersion: v1, beforHelm: 1}", ""));
    let (status, out, err) = doctor(&modules, &[&global[..], &["-o", "json"]].concat());
    let found: Vec<Value> = serde_json::from_str(&out).unwrap();
    assert_eq!((status, err.trim()), (Some(1), "Error: 1 thing(s) do not work here"), "{out}");
    let short = |d: &Value| json!([d["weight"], d["module"]]);
    let expected = [["breaks", "bad"], ["differs", ""], ["differs", "web"], ["needs", "web"]];
    assert_eq!(found.iter().map(short).collect::<Vec<_>>(), expected.map(|e| json!(e)));
    assert_eq!(found[3]["path"], json!(calls));
    assert!(found[0]["text"].as_str().unwrap().contains("beforHelm: no such key"), "{out}");
    // The variables of the operator name the same.
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["doctor", "modules", "-o", "yaml"]).env("MODULES_DIR", &modules);
    let done = command.env("GLOBAL_HOOKS_DIR", &hooks).output().unwrap();
    let yaml = String::from_utf8(done.stdout).unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(yaml.matches("weight: ").count(), 4, "{yaml}");
}

#[test]
fn filters_that_may_come_out_otherwise_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let modules = dir.path().join("modules");
    let binding = |name: &str, filter: &str| format!("{{name: {name}, kind: Pod, jqFilter: \"{filter}\"}}");
    let config = |filters: &[(&str, &str)]| {
        let all: Vec<String> = filters.iter().map(|(name, filter)| binding(name, filter)).collect();
        format!("{{configVersion: v1, kubernetes: [{}]}}", all.join(", "))
    };
    let filters =
        [("plain", ".metadata.labels"), ("sum", ".data | keys_unsorted | tojson"), ("other", ".a % 2")];
    put(&modules, "010-web/hooks/watch.sh", &hook(&config(&filters), ""));
    let (status, out, err) = doctor(&modules, &[]);
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    let path = modules.join("010-web/hooks/watch.sh");
    let start = format!("differs: module web: {}: jqFilter of ", path.display());
    let told: Vec<&str> = out.lines().filter_map(|l| l.strip_prefix(&start)).collect();
    let expected =
        ["other: %: fractions count here", "sum: keys_unsorted: gojq has no such function", "sum: tojson: "];
    assert_eq!(told.len(), expected.len(), "{out}");
    for (line, part) in told.iter().zip(expected) {
        assert!(line.starts_with(part), "{out}");
    }
}

#[test]
fn a_directory_that_is_not_there_is_told() {
    let (status, out, err) = doctor(Path::new("/nonexistent/modules"), &[]);
    assert!(out.starts_with("breaks: modules directory /nonexistent/modules: No such file"), "{out}");
    assert_eq!((status, err.trim()), (Some(1), "Error: 1 thing(s) do not work here"));
}
