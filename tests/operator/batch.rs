//! Batch programs: all hooks of a module in one file. The example is `fixtures/hooks/batch/program`; with `WINDLASS_BATCH_PROGRAM` the
//! tests of it run with the same program on the library itself (`make module-sdk`).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::hooks::{data, edit, shows_size, start};
use crate::support::{Modules, Operator, control_plane, object, status, wait_for};

/// The example program, or the one on the library.
fn program() -> PathBuf {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hooks/batch/program");
    std::env::var_os("WINDLASS_BATCH_PROGRAM").map_or(example, PathBuf::from)
}

/// A directory of modules with the example's module.
fn example() -> Modules {
    let modules = Modules::new();
    let shown = ["size", "before", "started", "limit"]
        .map(|key| format!("  {key}: {{{{ .Values.batch.{key} | default \"none\" | toString | quote }}}}\n"));
    modules
        .write("modules/values.yaml", "batchEnabled: true\n")
        .write("modules/010-batch/values.yaml", "batch: {}\n")
        .write(
            "modules/010-batch/templates/shown.yaml",
            &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: batch}}\ndata:\n{}", shown.concat()),
        )
        .write("modules/010-batch/hooks/README.md", "");
    fs::copy(program(), modules.path().join("modules/010-batch/hooks/program")).unwrap();
    modules
}

fn start_example(namespace: &str, modules: &Modules, arguments: &[&str]) -> Operator {
    let search = std::env::var("PATH").unwrap();
    let variables = [("PATH", search.as_str()), ("BATCH_NAMESPACE", namespace)];
    let kubeconfig = control_plane().kubeconfig().to_string_lossy().into_owned();
    let directory = modules.path().join("modules");
    Operator::spawn_in(&kubeconfig, namespace, &directory, arguments, &variables)
}

/// Sets the section of the example's module in the operator's ConfigMap.
fn configure(namespace: &str, section: &str) {
    edit(namespace, "addon-operator", "batch", section);
}

fn condition(namespace: &str, name: &str, kind: &str) -> Value {
    let status = status(namespace, name);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|c| c["type"] == kind).unwrap_or_default()
}

fn watched(namespace: &str, name: &str, size: &str) {
    let cp = control_plane();
    cp.kubectl(["create", "configmap", name, "-n", namespace, &format!("--from-literal=size={size}")])
        .unwrap();
    cp.kubectl(["label", "configmap", name, "-n", namespace, "batch=watched"]).unwrap();
}

/// A batch program in bash: `config` is what it says on `hook config`; `run` gets the index as `$3`.
fn batch(modules: &Modules, path: &str, config: &str, run: &str) {
    let text = format!(
        "#!/bin/bash\nnote() {{ echo \"$(basename \"$0\") $*\" >> \"$(dirname \"$TMPDIR\")/notes\"; }}\n\
         fail() {{ echo \"{{\\\"message\\\":\\\"execute: $*\\\"}}\" >&2; exit 1; }}\n\
         case \"$1 $2\" in\n'hook config') cat <<'END'\n{config}\nEND\n;;\n'hook run'|'hook ready'|'hook check') {run}\n;;\n*) exit 1;;\nesac\n"
    );
    modules.write(path, &text);
    fs::set_permissions(modules.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_example_runs_as_a_module() {
    let cp = control_plane();
    let ns = cp.namespace("batch").unwrap();
    let modules = example();
    watched(ns.name(), "one", "3");
    configure(ns.name(), "zone: west");
    let operator = start_example(ns.name(), &modules, &[]);
    operator.wait_converged();
    let shown = |key: &str| data(ns.name(), "batch", key).unwrap_or_default();
    assert_eq!(
        (shown("size"), shown("before"), shown("started")),
        ("3".into(), "west".into(), "batch".into())
    );
    // An event runs its hook, whose value renders the module again.
    watched(ns.name(), "two", "4");
    wait_for("the other object counts", || shown("size") == "7");
    wait_for("the schedule runs", || {
        let metrics = operator.get("/metrics/hooks").unwrap().1;
        metrics.lines().any(|l| {
            let count = l.starts_with("batch_ticks_total").then(|| l.rsplit(' ').next()).flatten();
            count.is_some_and(|n| n.parse::<f64>().unwrap() >= 2.0)
        })
    });
    // The error is the message, not the last line of the log.
    configure(ns.name(), "zone: nowhere");
    wait_for("the status has the message", || {
        let status = status(ns.name(), "batch");
        let error = status["lastError"].as_str().unwrap_or_default().to_owned();
        status["phase"] == "Failed"
            && error.contains("exit status 1: execute: ")
            && error.ends_with("no such zone")
    });
    configure(ns.name(), "zone: east");
    wait_for("it works again", || shown("before") == "east");
    assert_eq!(
        operator.notes().iter().filter(|n| *n == "asked").count(),
        1,
        "asked once: {:?}",
        operator.notes()
    );
    operator.stop();
}

#[test]
fn readiness_is_probed_and_kept_where_the_library_reads_it() {
    let cp = control_plane();
    let ns = cp.namespace("batch-ready").unwrap();
    let modules = example();
    configure(ns.name(), "zone: west");
    let operator = start_example(ns.name(), &modules, &["--module-status=deckhouse.io"]);
    operator.wait_converged();
    let ready = || condition(ns.name(), "batch", "Ready");
    let kept =
        || object(cp, "", "modules.deckhouse.io", "batch").map(|o| o["status"].clone()).unwrap_or_default();
    let is_ready = || {
        let conditions = kept()["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|c| c["type"] == "IsReady").unwrap_or_default()
    };
    wait_for("it is ready", || ready()["status"] == "True" && kept()["phase"] == "Ready");
    assert_eq!(is_ready()["status"], "True", "{}", kept());
    configure(ns.name(), "waits: Pods\nzone: west");
    wait_for("it is not ready, and why", || {
        ready()["status"] == "False"
            && ready()["message"].as_str().unwrap().contains("waiting for Pods")
            && ready()["reason"] == "ReadinessProbeFailed"
    });
    wait_for("the library's object says so, too", || {
        kept()["phase"] == "Reconciling"
            && is_ready()["status"] == "False"
            && is_ready()["message"].as_str().unwrap().contains("waiting for Pods")
    });
    assert_eq!(status(ns.name(), "batch")["phase"], "NotReady");
    assert_eq!(operator.get("/readyz").unwrap().0, 200, "the operator is ready whatever its modules are");
    configure(ns.name(), "zone: west");
    wait_for("it is ready again", || ready()["status"] == "True" && is_ready()["status"] == "True");
    edit(ns.name(), "addon-operator", "batchEnabled", "false");
    wait_for("it is off", || kept()["phase"] == "Available");
    operator.stop();
    cp.kubectl(["delete", "modules.deckhouse.io", "batch"]).unwrap();
}

#[test]
fn objects_of_another_operator_are_left_alone() {
    let cp = control_plane();
    let ns = cp.namespace("batch-foreign").unwrap();
    let crd = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["crds", "modules", "--group", "deckhouse.io"])
        .output()
        .unwrap();
    let crd = String::from_utf8(crd.stdout).unwrap();
    cp.kubectl_with(["apply", "--server-side", "-f", "-"], &crd).unwrap();
    cp.kubectl(["wait", "--for=condition=Established", "crd/modules.deckhouse.io", "--timeout=30s"]).unwrap();
    let foreign = "apiVersion: deckhouse.io/v1alpha1\nkind: Module\nmetadata: {name: foreign}\n";
    cp.kubectl_with(["create", "-f", "-"], foreign).unwrap();
    let modules = Modules::new();
    modules.write("modules/values.yaml", "ownEnabled: true\nforeignEnabled: true\n");
    modules.small("modules/010-own").small("modules/020-foreign");
    let operator =
        start_example(ns.name(), &modules, &["--module-status=deckhouse.io", "--modules-scan-interval=1s"]);
    operator.wait_log(&["\"level\":\"WARN\"", "modules.deckhouse.io foreign is another operator's"]);
    let reported = || object(cp, ns.name(), "modules.windlass.dev", "foreign").is_some();
    wait_for("its module is reported", reported);
    fs::remove_dir_all(modules.path().join("modules/020-foreign")).unwrap();
    wait_for("its module is gone", || !reported());
    // What is written after that is written after the deletions.
    edit(ns.name(), "addon-operator", "ownEnabled", "false");
    let kept = |name: &str| object(cp, "", "modules.deckhouse.io", name);
    wait_for("the other one is off", || kept("own").is_some_and(|own| own["status"]["phase"] == "Available"));
    let left = kept("foreign").expect("the object of another operator");
    assert!(left["status"].is_null(), "{left}");
    operator.stop();
    cp.kubectl(["delete", "modules.deckhouse.io", "own", "foreign"]).unwrap();
}

#[test]
fn settings_are_checked_before_they_are_taken() {
    let cp = control_plane();
    let ns = cp.namespace("batch-check").unwrap();
    let modules = example();
    // Another hook of the module writes its settings when it is asked to.
    modules.hook(
        "modules/010-batch/hooks/writes.sh",
        &format!(
            "configVersion: v1\nkubernetes: [{{name: asks, kind: ConfigMap, nameSelector: {{matchNames: [asks]}}, namespace: \
             {{nameSelector: {{matchNames: [{}]}}}}, jqFilter: .data.limit, queue: own}}]",
            ns.name()
        ),
        "limit=$(grep -o '\"filterResult\":\"[0-9]*\"' \"$BINDING_CONTEXT_PATH\" | tail -1 | cut -d'\"' -f4 || true)\n\
         if [[ -n $limit ]]; then echo \"{\\\"op\\\":\\\"add\\\",\\\"path\\\":\\\"/batch/limit\\\",\\\"value\\\":$limit}\" > \"$CONFIG_VALUES_JSON_PATCH_PATH\"; fi",
    );
    configure(ns.name(), "limit: 5");
    let operator = start_example(ns.name(), &modules, &[]);
    operator.wait_converged();
    let limit = || data(ns.name(), "batch", "limit").unwrap_or_default();
    assert_eq!(limit(), "5", "{}", operator.log_end());
    configure(ns.name(), "limit: 12");
    operator.wait_log(&[
        "\"level\":\"WARN\"",
        "key batch: limit must be at most 9 (by hook check, 010-batch/hooks/program)",
    ]);
    wait_for("an Event tells it", || {
        let events = cp.kubectl(["get", "events", "-n", ns.name(), "-o", "json"]).unwrap();
        events.contains("InvalidConfigKey") && events.contains("limit must be at most 9")
    });
    wait_for("the status tells it", || {
        let applied = condition(ns.name(), "batch", "ConfigApplied");
        applied["status"] == "False"
            && applied["message"].as_str().unwrap().contains("limit must be at most 9")
    });
    assert_eq!(limit(), "5", "the last good section stays in force");
    // A warning is no objection, and is reported once.
    configure(ns.name(), "limit: 8");
    wait_for("it is taken", || limit() == "8");
    wait_for("the status is as it was", || {
        condition(ns.name(), "batch", "ConfigApplied")["status"] == "True"
    });
    configure(ns.name(), "limit: 7");
    wait_for("another one is taken", || limit() == "7");
    configure(ns.name(), "limit: 8");
    wait_for("it is taken again", || limit() == "8");
    let warned = |log: String| log.lines().filter(|l| l.contains("limit 8 is deprecated")).count();
    assert_eq!(warned(operator.log()), 1);
    // What a hook writes is checked, too.
    cp.kubectl(["create", "configmap", "asks", "-n", ns.name(), "--from-literal=limit=11"]).unwrap();
    operator.wait_log(&["writes.sh", "config values: limit must be at most 9"]);
    assert!(data(ns.name(), "addon-operator", "batch").unwrap().contains("limit: 8"));
    edit(ns.name(), "asks", "limit", "6");
    wait_for("a good one is written", || limit() == "6");
    assert!(data(ns.name(), "addon-operator", "batch").unwrap().contains("limit: 6"));
    operator.stop();
    // With a section that was never good the module does not run.
    cp.kubectl(["delete", "configmap", "asks", "-n", ns.name()]).unwrap();
    configure(ns.name(), "limit: 99");
    let operator = start_example(ns.name(), &modules, &[]);
    wait_for("the module says why it does not run", || {
        let status = status(ns.name(), "batch");
        status["reason"] == "ConfigInvalid"
            && status["lastError"].as_str().unwrap().contains("limit must be at most 9")
    });
    assert_eq!(limit(), "6");
    configure(ns.name(), "limit: 4");
    wait_for("a good section is taken", || limit() == "4");
    operator.stop();
}

#[test]
fn a_program_that_is_bad_costs_its_module_alone() {
    let ns = control_plane().namespace("batch-bad").unwrap();
    let modules = Modules::new();
    let probe = r#"{"version":"v1","hooks":[],"readiness":{"schedule":[{"crontab":"@daily"}]}}"#;
    let one = r#"{"version":"v1","hooks":[{"metadata":{"name":"one"},"beforeHelm":1}]}"#;
    let twins = r#"{"version":"v1","new":1,"hooks":[{"metadata":{"name":"one"},"beforeHelm":1},{"metadata":{"name":"one"},"beforeHelm":2}]}"#;
    let table = [
        ("half", r#"{"version":"v1","hoo"#, "true", "it is not one JSON document"),
        ("nothing", "", "true", "it printed nothing"),
        ("logs", r#"{"level":"error","msg":"no","error":"reason"}"#, "true", "hook config: no: reason"),
        ("version", r#"{"version":"v7","hooks":[]}"#, "true", "\\\"v7\\\" is not known here"),
        ("fails", one, "fail first", "exit status 1: execute: first"),
        ("mute", one, "exit 3", "exit status 3: it printed no error"),
        ("hangs", one, "sleep 600 & wait", "killed after 1s, its timeout"),
    ];
    let mut flags = String::new();
    for (name, config, run, _) in &table {
        shows_size(&modules, &format!("modules/010-{name}"));
        batch(&modules, &format!("modules/010-{name}/hooks/program"), config, run);
        flags.push_str(&format!("{name}Enabled: true\n"));
    }
    for (name, config, run) in [("probes", probe, "true"), ("twins", twins, "note \"$3\"")] {
        shows_size(&modules, &format!("modules/020-{name}"));
        batch(&modules, &format!("modules/020-{name}/hooks/first"), config, run);
        flags.push_str(&format!("{name}Enabled: true\n"));
    }
    batch(&modules, "modules/020-probes/hooks/second", probe, "true");
    for (name, body) in [
        ("floods", "head -c 100000000 /dev/zero | tr '\\0' x"),
        ("waits", "sleep 600 & wait"),
        ("lists", "exit 1"),
    ] {
        shows_size(&modules, &format!("modules/030-{name}"));
        let text = format!(
            "#!/bin/bash\ncase \"$*\" in\n'hook list') echo 'Found 1 items:';;\n'hook config') {body};;\n*) exit 1;;\nesac\n"
        );
        modules.write(&format!("modules/030-{name}/hooks/program"), &text);
        let path = modules.path().join(format!("modules/030-{name}/hooks/program"));
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        flags.push_str(&format!("{name}Enabled: true\n"));
    }
    shows_size(&modules, "modules/090-good");
    modules.write("modules/values.yaml", &format!("{flags}goodEnabled: true\n"));
    let operator = start(ns.name(), &modules, &["--hook-timeout", "1s", "--hook-unblock-after", "2s"]);
    operator.wait_converged();
    let there = |name: &str| data(ns.name(), name, "size").is_some();
    assert!(there("good") && there("twins"), "{}", operator.log_end());
    for (name, _, _, part) in &table {
        operator.wait_log(&[&format!("\"module\":\"{name}\""), part]);
        assert!(!there(name), "{name}");
    }
    for (name, part) in [
        ("probes", "it has a readiness probe, and so has 020-probes/hooks/first"),
        ("floods", "it printed more than 1048576 bytes"),
        ("waits", "hook config: killed after"),
        ("lists", "hook config: exit status 1"),
        // It works, and what is odd is logged once.
        ("twins", "have the same name \\\"one\\\""),
        ("twins", "new: no such key is known here; it is ignored"),
    ] {
        operator.wait_log(&[&format!("\"module\":\"{name}\""), part]);
    }
    assert_eq!(operator.log().lines().filter(|l| l.contains("new: no such key")).count(), 1);
    assert_eq!(operator.notes(), ["first 0", "first 1"], "in the order of their numbers");
    operator.stop();
}

#[test]
fn what_the_library_says_and_addon_operator_does_not_read_counts() {
    let ns = control_plane().namespace("batch-flags").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-flags");
    let config = r#"{"version":"v1","hooks":[
        {"metadata":{"name":"early"},"schedule":[{"name":"early","crontab":"* * * * * *","queue":"/early"}],
         "settings":{"enableSchedulesOnStartup":true}},
        {"metadata":{"name":"waits"},"onStartup":1},
        {"metadata":{"name":"may"},"beforeHelm":1,"afterHelm":1,"allowFailure":true}]}"#;
    // The hook of the start waits for a tick of the schedule.
    let run = "note \"$3\"\ncase \"$3\" in\n1) while ! grep -q 'program 0' \"$(dirname \"$TMPDIR\")/notes\"; do sleep 0.1; done;;\n2) fail it may;;\nesac";
    batch(&modules, "modules/010-flags/hooks/program", config, run);
    let global = r#"[{"metadata":{"name":"all"},"onStartup":1,"beforeHelm":1,"afterHelm":1}]"#;
    batch(&modules, "global-hooks/world", global, "note \"$(cat \"$BINDING_CONTEXT_PATH\") $MODULE_NAME\"");
    modules.write("modules/values.yaml", "flagsEnabled: true\n");
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("socket");
    let operator = start(ns.name(), &modules, &["--debug-unix-socket", socket.to_str().unwrap()]);
    operator.wait_converged();
    assert!(data(ns.name(), "flags", "size").is_some(), "{}", operator.log_end());
    operator.wait_log(&["\"module\":\"flags\"", "failed (allowFailure)", "execute: it may"]);
    let world: Vec<String> = operator.notes().into_iter().filter(|n| n.starts_with("world")).collect();
    let expected = [
        r#"world [{"binding":"onStartup"}] global"#,
        r#"world [{"binding":"beforeAll","snapshots":{}}] global"#,
        r#"world [{"binding":"afterAll","snapshots":{}}] global"#,
    ];
    assert_eq!(world, expected);
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let done = command.args(arguments).env("DEBUG_UNIX_SOCKET", &socket).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let hooks: Vec<String> = serde_json::from_str(&ask(&["hook", "list", "-o", "json"])).unwrap();
    let program = "010-flags/hooks/program";
    let names = ["early:0", "waits:1", "may:2"].map(|name| format!("{program}:{name}"));
    assert_eq!(hooks, [&["world-all-0".to_owned()][..], &names].concat());
    let runs: Value = serde_json::from_str(&ask(&["hook", "runs", &names[2], "-o", "json"])).unwrap();
    assert!(runs.to_string().contains(r#""bindings":["beforeHelm"]"#), "{runs}");
    wait_for("its queue is shown", || ask(&["queue", "list", "-e", "-o", "json"]).contains("flags//early"));
    // Another program with fewer hooks takes its place: no index of the old one is run any more.
    let less = r#"{"version":"v1","hooks":[{"metadata":{"name":"only"},"beforeHelm":1}]}"#;
    batch(&modules, "modules/010-flags/hooks/program", less, "note \"new $3\"");
    operator.wait_note("program new 0");
    wait_for("the old hooks are gone", || {
        let hooks: Vec<String> = serde_json::from_str(&ask(&["hook", "list", "-o", "json"])).unwrap();
        hooks == ["world-all-0".to_owned(), format!("{program}:only:0")]
    });
    assert!(!operator.notes().iter().any(|n| n.starts_with("program new") && n != "program new 0"));
    operator.stop();
}

#[test]
fn a_probe_that_lacks_the_librarys_object_names_the_flag() {
    let ns = control_plane().namespace("batch-flag").unwrap();
    let modules = Modules::new();
    shows_size(&modules, "modules/010-probed");
    let config = r#"{"version":"v1","hooks":[],"readiness":{"schedule":[{"crontab":"* * * * * *"}]}}"#;
    let run = "fail 'get module resource: modules.deckhouse.io \\\"probed\\\" not found'";
    batch(&modules, "modules/010-probed/hooks/program", config, run);
    shows_size(&modules, "modules/020-hangs");
    batch(&modules, "modules/020-hangs/hooks/program", config, "sleep 600");
    modules.write("modules/values.yaml", "probedEnabled: true\nhangsEnabled: true\n");
    let operator = start(ns.name(), &modules, &[]);
    operator.wait_converged();
    wait_for("the status names the flag", || {
        let ready = condition(ns.name(), "probed", "Ready");
        ready["status"] == "False"
            && ready["message"].as_str().unwrap().contains("--module-status=deckhouse.io keeps them")
    });
    assert!(data(ns.name(), "probed", "size").is_some() && data(ns.name(), "hangs", "size").is_some());
    let said = operator.log().lines().filter(|l| l.contains("says that it is not ready")).count();
    assert_eq!(said, 1, "a probe is logged when it says something else");
    operator.stop();
}
