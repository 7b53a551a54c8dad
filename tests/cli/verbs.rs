//! Verbs and flags: what ours prints beside what real Helm prints, of the same release and after the same deeds.

use super::{chart, control_plane, fails, run, windlass};
use serde_json::Value;
use std::path::Path;
use windlass_testing::{ControlPlane, Error};

/// What Helm 4 prints, or fails with.
fn helm(cp: &ControlPlane, args: &[&str]) -> Result<String, String> {
    cp.helm4(args).map_err(|e| match e {
        // Helm's log lines come first.
        Error::Command { stderr, .. } => {
            let lines = stderr.lines().filter(|l| !l.starts_with("level=") && !l.starts_with("Flag "));
            lines.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    })
}

fn ours(args: &[&str]) -> Result<String, String> {
    let out = run(args);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let lines = text(out.stderr);
    let lines: Vec<&str> =
        lines.lines().filter(|l| !l.starts_with("level=") && !l.starts_with("Flag ")).collect();
    if out.status.success() { Ok(text(out.stdout)) } else { Err(lines.join("\n")) }
}

/// Without the version of a list of Pods: the cluster moves on.
fn steady(text: &str) -> String {
    let mut parts = text.split("\"kind\":\"PodList\",\"metadata\":{");
    let first = parts.next().unwrap().to_owned();
    let json = parts.fold(first, |all, rest| all + rest.split_once('}').unwrap().1);
    let lines: Vec<&str> = json.lines().collect();
    let version = |i: &usize| i.checked_sub(2).is_some_and(|p| lines[p].ends_with("kind: PodList"));
    let kept = (0..lines.len()).filter(|i| !version(i)).map(|i| lines[i]);
    kept.collect::<Vec<_>>().join("\n")
}

/// Both with the same arguments: the same answer, and the same success.
fn same(cp: &ControlPlane, ns: &str, args: &[&str]) -> Result<String, String> {
    let args: Vec<&str> = args.iter().copied().chain(["-n", ns]).collect();
    let steadied = |answer: Result<String, String>| answer.map(|text| steady(&text));
    let (theirs, mine) = (steadied(helm(cp, &args)), steadied(ours(&args)));
    assert_eq!(mine, theirs, "{args:?}");
    mine
}

fn add_template(chart: &Path, name: &str, text: &str) {
    std::fs::write(chart.join("templates").join(name), text).unwrap();
}

const WORKLOAD: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec:\n  replicas: 2\n  \
    selector: {matchLabels: {app: \"{{ .Release.Name }}\"}}\n  template:\n    metadata: {labels: {app: \"{{ .Release.Name }}\"}}\n    \
    spec: {containers: [{name: main, image: x}]}\n";
const TESTS: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: \"{{ .Release.Name }}-b\", annotations: {helm.sh/hook: test}}\nspec: \
    {template: {spec: {restartPolicy: Never, containers: [{name: main, image: j}]}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: \
    {name: \"{{ .Release.Name }}-a\", annotations: {helm.sh/hook: test, helm.sh/hook-delete-policy: hook-succeeded}}\n";
const TOLD: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: told}\ndata:\n  revision: \"{{ .Release.Revision }}\"\n  \
    install: \"{{ .Release.IsInstall }} {{ .Release.IsUpgrade }}\"\n";
const KEPT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}-kept\", annotations: {helm.sh/resource-policy: \
    keep}}\n";

/// Sections of resources in order of their names, without ages: Helm's order is random, and time passes.
fn settled(status: &str) -> String {
    let Some((head, rest)) = status.split_once("RESOURCES:\n") else { return status.to_owned() };
    let (body, tail) = rest.split_once("\n\n\n").unwrap();
    let mut sections: Vec<String> = body
        .split("\n\n")
        .map(|section| {
            let lines = section.lines().map(|line| {
                let age = line.rsplit(' ').next().unwrap();
                if age.ends_with('s') { line.strip_suffix(age).unwrap() } else { line }
            });
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
    sections.sort();
    format!("{head}RESOURCES:\n{}\n\n\n{tail}", sections.join("\n\n"))
}

#[test]
fn what_is_said_of_a_release_is_helms_to_the_byte() {
    let cp = control_plane();
    let ns = cp.namespace("said").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    add_template(dir.path(), "workload.yaml", WORKLOAD);
    add_template(dir.path(), "tests.yaml", TESTS);
    windlass(&[
        "install",
        "one",
        path,
        "-n",
        n,
        "-l",
        "team=a,tier=x",
        "--description",
        "first of all",
        "--wait",
    ]);
    windlass(&[
        "upgrade",
        "one",
        path,
        "-n",
        n,
        "--set",
        "size=2,extra=null,deep.er=1",
        "-l",
        "tier=null,k=v",
    ]);
    windlass(&["rollback", "one", "1", "-n", n, "--wait"]);
    windlass(&["upgrade", "one", path, "-n", n, "--set", "size=3", "--wait"]);
    windlass(&["install", "two", path, "-n", n]);
    cp.helm3(["install", "three", path, "-n", n]).unwrap();
    for question in [
        &["list"][..],
        &["list", "-q"],
        &["list", "-r", "-o", "json"],
        &["list", "-m", "1"],
        &["list", "--offset", "1", "-q"],
        &["list", "-f", "^t[hw]", "-o", "yaml"],
        &["list", "-f", "["],
        &["list", "-l", "k=v"],
        &["list", "-l", "k!=v", "-q"],
        &["list", "-l", "name in (two)", "-q"],
        &["list", "--superseded"],
        &["list", "--deployed", "--failed", "-q", "-o", "json"],
        &["list", "--pending"],
        &["list", "--no-headers"],
        &["list", "--time-format", "02 Jan 06"],
        &["history", "one"],
        &["history", "one", "--max", "2"],
        &["history", "one", "--show-rollback-revision"],
        &["history", "one", "-o", "json"],
        &["history", "one", "-o", "yaml", "--max", "1"],
        &["history", "none"],
        &["get", "all", "one"],
        &["get", "all", "one", "--revision", "2"],
        &["get", "all", "three"],
        &["get", "hooks", "one"],
        &["get", "notes", "one"],
        &["get", "manifest", "one"],
        &["get", "values", "one"],
        &["get", "values", "one", "--revision", "2", "-o", "json"],
        &["get", "values", "one", "-a", "--revision", "2", "-o", "yaml"],
        &["get", "metadata", "one"],
        &["get", "metadata", "one", "-o", "json"],
        &["get", "metadata", "three", "-o", "yaml"],
        &["get", "metadata", "three"],
        &["get", "metadata", "none"],
        &["status", "none"],
        &["status", "one", "--revision", "77"],
        &["status", "one", "-o", "json"],
        &["status", "one", "-o", "yaml"],
        &["rollback", "one", "77"],
        &["rollback", "one", "many"],
        &["rollback", "none"],
        &["test", "none"],
        &["uninstall", "none"],
        &["uninstall", "none", "--ignore-not-found"],
        &["install", "one", path],
        &["upgrade", "none", path],
        &["upgrade", "one", path, "--force", "--force-conflicts"],
        &["install", "x", path, "--hide-secret"],
    ] {
        // A question that answers itself in the one way and the other.
        drop(same(cp, n, question));
    }
    // By the time of day; Helm's own `-d` compares the seconds of the minute only.
    assert_eq!(windlass(&["list", "-d", "-q", "-n", n]), "one\ntwo\nthree\n");
    assert_eq!(windlass(&["list", "-d", "-r", "-q", "-n", n]), "three\ntwo\none\n");
    let status = |name: &str| {
        let args = ["status", name, "-n", n];
        assert_eq!(settled(&windlass(&args)), settled(&cp.helm4(args).unwrap()));
        windlass(&args)
    };
    let ready = ["rollout", "status", "deployment/one", "-n", n, "--timeout=120s"];
    cp.kubectl(ready).unwrap();
    let shown = status("one");
    assert!(shown.contains("==> v1/Pod(related)\nNAME") && shown.contains("2/2     2"), "{shown}");
    status("three");
    // Helm 3 has its own idea of what is worth saying.
    let args = ["status", "one", "-n", n];
    let mine = windlass(&[&args[..], &["--compat", "helm3"]].concat());
    assert_eq!(mine, cp.helm3(args).unwrap());
}

#[test]
fn values_of_the_last_revision_count_as_helm_counts_them() {
    let cp = control_plane();
    let ns = cp.namespace("reuse").unwrap();
    let n = ns.name();
    let old = chart();
    let new = chart();
    std::fs::write(old.path().join("values.yaml"), "size: 1\ndeep: {a: 1, b: 2, gone: 3}\nonly_old: x\n")
        .unwrap();
    std::fs::write(new.path().join("values.yaml"), "size: 5\ndeep: {a: 9, b: 9, c: 9}\nonly_new: y\n")
        .unwrap();
    let (old, new) = (old.path().to_str().unwrap(), new.path().to_str().unwrap());
    let cases: [&[&str]; 7] = [
        &[],
        &["--set", "size=7"],
        &["--reuse-values"],
        &["--reuse-values", "--set", "deep.a=null,deep.d=1"],
        &["--reset-then-reuse-values", "--set", "deep.b=4"],
        &["--reset-values", "--reuse-values"],
        &["--reset-values"],
    ];
    for (i, flags) in cases.iter().enumerate() {
        let (a, b) = (format!("a{i}"), format!("b{i}"));
        let first = ["--set", "deep.a=5,extra=1,nothing=null"];
        windlass(&[&["install", &a, old, "-n", n], &first[..]].concat());
        cp.helm4([&["install", &b, old, "-n", n], &first[..]].concat()).unwrap();
        windlass(&[&["upgrade", &a, new, "-n", n], *flags].concat());
        cp.helm4([&["upgrade", &b, new, "-n", n], *flags].concat()).unwrap();
        for all in [&[][..], &["-a"]] {
            let values = |name: &str| cp.helm4([&["get", "values", name, "-n", n], all].concat()).unwrap();
            assert_eq!(values(&a), values(&b), "{flags:?} {all:?}");
        }
    }
}

#[test]
fn values_of_a_failed_upgrade_are_not_reused() {
    let cp = control_plane();
    let spaces = [cp.namespace("failed-mine").unwrap(), cp.namespace("failed-theirs").unwrap()];
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: \"{{ .Release.Name }}-s\"}\n\
        spec: {ports: [{port: {{ .Values.port | default 80 }}}]}\n";
    add_template(dir.path(), "service.yaml", service);
    let both = |args: &[&str]| {
        let [mine, theirs] = [&spaces[0], &spaces[1]].map(|ns| [args, &["-n", ns.name()]].concat());
        let (mine, theirs) = (ours(&mine).is_ok(), helm(cp, &theirs).is_ok());
        assert_eq!(mine, theirs, "{args:?}");
        mine
    };
    let values = |release: &str| {
        let [mine, theirs] = [&spaces[0], &spaces[1]]
            .map(|ns| cp.helm4(["get", "values", release, "-n", ns.name(), "-o", "json"]).unwrap());
        assert_eq!(mine, theirs);
        serde_json::from_str::<Value>(&mine).unwrap()
    };
    assert!(both(&["install", "r", path, "--set", "size=2"]));
    let cases: [(&[&str], Value); 4] = [
        (&[], serde_json::json!({"size": 2})),
        (&["--reuse-values", "--set", "a=1"], serde_json::json!({"size": 2, "a": 1})),
        (&["--reset-then-reuse-values", "--set", "b=1"], serde_json::json!({"size": 2, "a": 1, "b": 1})),
        (&["--reset-values", "--set", "size=4"], serde_json::json!({"size": 4})),
    ];
    for (flags, wanted) in cases {
        for wrong in ["size=3,port=700000", "size=5,port=700001"] {
            assert!(!both(&["upgrade", "r", path, "--set", wrong]));
        }
        let plan = [&["plan", "r", path, "-n", spaces[0].name()], flags].concat();
        let out = run(&plan);
        assert!(out.status.success(), "{plan:?}: {}", String::from_utf8_lossy(&out.stderr));
        assert!(both(&[&["upgrade", "r", path], flags].concat()));
        assert_eq!(values("r"), wanted, "{flags:?}");
    }
    // Without a deployed revision, they are those of the newest.
    assert!(!both(&["install", "never", path, "--set", "size=3,port=700000"]));
    assert!(!both(&["upgrade", "never", path, "--set", "size=4,port=700000"]));
    assert!(both(&["upgrade", "never", path, "--reuse-values", "--set", "port=81"]));
    assert_eq!(values("never"), serde_json::json!({"size": 4, "port": 81}));
}

#[test]
fn rollback_test_and_uninstall_leave_what_helm_leaves() {
    let cp = control_plane();
    let spaces = [cp.namespace("mine").unwrap(), cp.namespace("theirs").unwrap()];
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    add_template(dir.path(), "tests.yaml", TESTS);
    add_template(dir.path(), "kept.yaml", KEPT);
    add_template(dir.path(), "told.yaml", TOLD);
    let steps: [&[&str]; 14] = [
        &["install", "r", path, "--hide-notes", "-l", "team=a"],
        &["upgrade", "r", path, "--set", "size=2", "--history-max", "3"],
        &["test", "r", "--filter", "name=r-a"],
        &["test", "r", "--filter", "!name=r-b"],
        &["test", "r"],
        &["rollback", "r", "1", "--description", "back"],
        &["rollback", "r"],
        &["upgrade", "r", path, "--history-max", "3", "--dry-run=server"],
        &["uninstall", "r", "--dry-run"],
        &["uninstall", "r", "--keep-history", "--description", "enough"],
        &["list", "-q"],
        &["upgrade", "-i", "r", path],
        &["uninstall", "r", "--keep-history"],
        &["install", "r", path, "--replace"],
    ];
    let unstamped = |text: &str, ns: &str| -> Vec<String> {
        let timed = ["LAST DEPLOYED", "Last Started", "Last Completed"];
        let plain = text.lines().filter(|l| !timed.iter().any(|t| l.starts_with(t)));
        plain.map(|l| l.replace(ns, "NS")).collect()
    };
    for step in steps {
        let [mine, theirs] = [0, 1].map(|i| {
            let ns = spaces[i].name();
            let args: Vec<&str> = step.iter().copied().chain(["-n", ns]).collect();
            let text = if i == 0 { ours(&args) } else { helm(cp, &args) };
            text.map(|text| unstamped(&text, ns)).map_err(|text| text.replace(ns, "NS"))
        });
        assert_eq!(mine, theirs, "{step:?}");
        let records = [0, 1].map(|i| {
            let ns = spaces[i].name();
            let list = cp.kubectl([
                "get", "configmap,job,service,secret", "-n", ns, "-o",
                "jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.labels.status} {.metadata.labels.team}{\"\\n\"}{end}",
            ]);
            list.unwrap()
        });
        assert_eq!(records[0], records[1], "after {step:?}");
        let history = [0, 1].map(|i| {
            let text = cp.helm4(["history", "r", "-n", spaces[i].name(), "-o", "json"]).unwrap();
            let mut rows: Vec<Value> = serde_json::from_str(&text).unwrap();
            rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("updated")));
            rows
        });
        assert_eq!(history[0], history[1], "after {step:?}");
        let manifests = [0, 1].map(|i| cp.helm4(["get", "manifest", "r", "-n", spaces[i].name()]).unwrap());
        assert_eq!(manifests[0], manifests[1], "after {step:?}");
    }
    let n = spaces[0].name();
    let left = || cp.kubectl(["get", "job,configmap", "-n", n, "-o", "name"]).unwrap();
    assert!(left().contains("job.batch/r-b"), "{}", left());
    windlass(&["uninstall", "r", "-n", n, "--wait", "--cascade", "foreground", "--delete-hooks"]);
    assert!(!left().contains("job.batch/r-b"), "{}", left());
    assert!(left().contains("configmap/r-kept"), "{}", left());
}

#[test]
fn failures_are_undone_when_asked() {
    let cp = control_plane();
    let ns = cp.namespace("undo").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    add_template(
        dir.path(),
        "more.yaml",
        "{{ if .Values.bad }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: \
         bad}\nspec: {ports: [{port: 99999}]}\n{{ end }}\n",
    );
    let bad = ["--set", "bad=true"];
    let text = fails(&[&["install", "r", path, "-n", n, "--rollback-on-failure"], &bad[..]].concat());
    assert!(text.contains("INSTALLATION FAILED: ") && text.contains("has been uninstalled"), "{text}");
    assert_eq!(fails(&["history", "r", "-n", n]), "Error: release: not found\n");
    windlass(&["install", "r", path, "-n", n]);
    let text = fails(&[&["upgrade", "r", path, "-n", n, "--atomic"], &bad[..]].concat());
    assert!(text.contains("Flag --atomic has been deprecated"), "{text}");
    assert!(text.contains("UPGRADE FAILED: ") && text.contains("has been rolled back"), "{text}");
    let history = windlass(&["history", "r", "-n", n]);
    assert!(history.contains("failed") && history.contains("Rollback to 1"), "{history}");
    let text = fails(&[&["upgrade", "r", path, "-n", n, "--cleanup-on-fail"], &bad[..]].concat());
    assert!(text.contains("99999"), "{text}");
    let left = cp.kubectl(["get", "configmap", "-n", n, "-o", "name"]).unwrap();
    assert!(!left.contains("/more"), "{left}");
}

#[test]
fn drivers_are_helms() {
    let cp = control_plane();
    let ns = cp.namespace("driver").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let with = |driver: &str, args: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(args).env("KUBECONFIG", cp.kubeconfig()).env("HELM_NAMESPACE", n).env("TZ", "UTC");
        let out = command.env("HELM_DRIVER", driver).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        if out.status.success() { Ok(text(out.stdout)) } else { Err(text(out.stderr)) }
    };
    let helm = |args: &[&str]| {
        let mut command = cp.command(windlass_testing::Tool::Helm4).unwrap();
        let out =
            command.args(args).env("HELM_DRIVER", "configmap").env("HELM_NAMESPACE", n).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    with("configmaps", &["install", "r", path]).unwrap();
    helm(&["upgrade", "r", path, "--set", "size=2"]);
    with("configmap", &["rollback", "r"]).unwrap();
    for question in [&["list"][..], &["history", "r"], &["get", "all", "r"], &["get", "metadata", "r"]] {
        assert_eq!(with("configmap", question).unwrap(), helm(question), "{question:?}");
    }
    assert_eq!(with("secret", &["history", "r"]).unwrap_err(), "Error: release: not found\n");
    let secrets = cp.kubectl(["get", "secrets", "-n", n, "-o", "name"]).unwrap();
    assert!(!secrets.contains("sh.helm"), "{secrets}");
    helm(&["uninstall", "r"]);
    let sql = with("sql", &["list"]).unwrap_err();
    assert!(sql.contains("HELM_DRIVER=sql") && sql.contains("secret or configmap"), "{sql}");
    assert_eq!(with("paper", &["list"]).unwrap_err(), "level=INFO msg=\"unknown driver \\\"paper\\\"\"\n");
    let refused = with("memory", &["install", "r", path]).unwrap_err();
    assert!(refused.contains("HELM_DRIVER=memory"), "{refused}");
    let left = cp.kubectl(["get", "configmap", "-n", n, "-o", "name"]).unwrap();
    assert!(!left.contains("/r"), "nothing was installed: {left}");
}

#[test]
fn shells_are_told_how_to_complete() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let script = windlass(&["completion", shell]);
        assert!(script.contains("rollback") && script.contains("reuse-values"), "{shell}");
    }
}

/// Without times, of deployment and of a chart's files.
fn untimed(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let times = ["first_deployed", "last_deployed", "modtime", "schemamodtime"];
            object.retain(|key, _| !times.contains(&key.as_str()));
            object.values_mut().for_each(untimed);
        }
        Value::Array(items) => items.iter_mut().for_each(untimed),
        _ => {}
    }
}

#[test]
fn what_is_made_is_told_to_programs_as_helm_tells_it() {
    let cp = control_plane();
    let spaces = [cp.namespace("mine").unwrap(), cp.namespace("theirs").unwrap()];
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    add_template(dir.path(), "tests.yaml", TESTS);
    for step in [
        &["install", "r", path, "-o", "json", "-l", "team=a"][..],
        &["upgrade", "r", path, "-o", "yaml", "--set", "size=2", "--description", "two"],
        &["upgrade", "r", path, "-o", "json", "--set", "size=3"],
        &["upgrade", "-i", "s", path, "-o", "json"],
        &["upgrade", "-i", "t", path, "-o", "yaml", "--dry-run=client"],
        &["get", "values", "r", "-a", "-o", "json"],
    ] {
        let [mine, theirs] = [0, 1].map(|i| {
            let ns = spaces[i].name();
            let args: Vec<&str> = step.iter().copied().chain(["-n", ns]).collect();
            let text = if i == 0 { ours(&args) } else { helm(cp, &args) };
            let text = text.unwrap().replace(ns, "NS");
            let timed = |line: &&str| !["_deployed:", "modtime:"].iter().any(|time| line.contains(time));
            match serde_json::from_str::<Value>(&text) {
                Ok(mut json) => {
                    untimed(&mut json);
                    json.to_string()
                }
                Err(_) => text.lines().filter(timed).collect::<Vec<_>>().join("\n"),
            }
        });
        assert_eq!(mine, theirs, "{step:?}");
    }
}

#[test]
fn why_tells_of_one_revision_and_to_programs() {
    let cp = control_plane();
    let ns = cp.namespace("why").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    windlass(&["install", "r", path, "-n", n]);
    windlass(&["upgrade", "r", path, "-n", n, "--set", "size=2"]);
    windlass(&["rollback", "r", "1", "-n", n]);
    let all = windlass(&["why", "r", "-n", n]);
    let two = windlass(&["why", "r", "2", "-n", n]);
    assert!(two.starts_with("revision 2 (superseded) ") && all.contains(&two), "{two}\n{all}");
    assert!(two.contains("  values:\n    + size: 2\n") && !two.contains("revision 3"), "{two}");
    let told = |args: &[&str]| -> Value {
        serde_json::from_str(&windlass(&[&["why", "r", "-n", n, "-o", "json"], args].concat())).unwrap()
    };
    let rows = told(&[]);
    let numbers: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["revision"]).collect();
    assert_eq!(numbers.len(), 3, "{rows}");
    let row = &told(&["3"])[0];
    assert_eq!((&row["revision"], &row["rollbackTo"]), (&3.into(), &1.into()), "{row}");
    let row = &told(&["2"])[0];
    assert_eq!((&row["values"][0]["path"], &row["values"][0]["after"]), (&"size".into(), &2.into()), "{row}");
    let fields = row["objects"][0]["fields"].as_array().unwrap();
    assert!(fields.iter().any(|f| f["path"] == "data.size" && f["after"] == "2"), "{row}");
    assert_eq!(fails(&["why", "r", "77", "-n", n]), "Error: release has no 77 version\n");
    assert_eq!(fails(&["why", "none", "-n", n]), "Error: release: not found\n");
}
