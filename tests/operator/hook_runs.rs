//! What surrounds a run of a hook: its lines of JSON in the log, its files, and who waits for it.

use serde_json::{Value, json};

use crate::hooks::{shows_size, start};
use crate::support::{Modules, Operator, control_plane, object, wait_for};

fn started(namespace: &str, modules: &Modules, more: &[&str], variables: &[(&str, &str)]) -> Operator {
    let cp = control_plane();
    let hooks = modules.path().join("global-hooks");
    let mut arguments = vec!["--global-hooks-dir", hooks.to_str().unwrap()];
    arguments.extend(more);
    let kubeconfig = cp.kubeconfig().to_string_lossy().into_owned();
    let search = std::env::var("PATH").unwrap_or_default();
    let mut all = vec![("PATH", search.as_str())];
    all.extend(variables);
    Operator::spawn_in(&kubeconfig, namespace, &modules.path().join("modules"), &arguments, &all)
}

#[test]
fn lines_of_json_are_passed_on_where_that_is_asked_for() {
    let ns = control_plane().namespace("proxy-json").unwrap();
    let modules = Modules::new();
    let said = r#"{"level":"error","msg":"from within","time":"2020-01-02T03:04:05Z","hook":"its own","n":{"a":[1]}}"#;
    let lines =
        format!("echo '{said}'\necho '{said}' >&2\necho 'plain {{words}}'\necho '{{no json'\nnote done");
    modules.hook("global-hooks/says", "configVersion: v1\nonStartup: 1", &lines);
    modules.write("modules/values.yaml", "");
    let lines = |variables: &[(&str, &str)]| -> Vec<Value> {
        let operator = started(ns.name(), &modules, &[], variables);
        operator.wait_note("says done");
        operator.wait_converged();
        let all: Vec<Value> = operator.log().lines().map(|l| serde_json::from_str(l).expect(l)).collect();
        operator.stop();
        all.into_iter().filter(|l| l["binding"] == "onStartup" && l["output"].is_string()).collect()
    };
    let passed = lines(&[("LOG_PROXY_HOOK_JSON", "true")]);
    let (whole, plain): (Vec<&Value>, Vec<&Value>) = passed.iter().partition(|l| !l["msg"].is_null());
    assert_eq!(whole.len(), 2, "{passed:?}");
    let mut outputs: Vec<&Value> = whole.iter().map(|l| &l["output"]).collect();
    outputs.sort_by_key(|o| o.to_string());
    assert_eq!(outputs, ["stderr", "stdout"]);
    for line in whole {
        let mut line = line.clone();
        let fields = line.as_object_mut().unwrap();
        fields.remove("output");
        // Numbers of the run: they differ, and are there.
        let numbers = [fields.remove("task.id"), fields.remove("event.id")];
        assert!(numbers.iter().all(|n| n.as_ref().is_some_and(Value::is_u64)), "{numbers:?}");
        // What the hook said stays as it is, and what is known of the hook stands beside it.
        let expected = json!({"level": "error", "msg": "from within", "time": "2020-01-02T03:04:05Z", "hook": "its own",
            "n": {"a": [1]}, "module": "", "hook.type": "global", "binding": "onStartup", "queue": "main", "proxyJsonLog": true});
        assert_eq!(line, expected);
    }
    let words: Vec<&Value> = plain.iter().map(|l| &l["message"]).collect();
    assert_eq!(words, [&json!("plain {words}"), &json!("{no json")], "{passed:?}");

    // Otherwise they are lines of ours, with the hook's level and text, and its fields under names of their own.
    let own = lines(&[("LOG_PROXY_HOOK_JSON", "false")]);
    let said: Vec<&Value> = own.iter().filter(|l| l["message"] == "from within").collect();
    assert_eq!((said.len(), own.len()), (2, 4), "{own:?}");
    for line in said {
        let shown =
            json!([line["level"], line["hook"], line["hook_hook"], line["hook_n"], line["proxyJsonLog"]]);
        assert_eq!(shown, json!(["ERROR", "says", "its own", {"a": [1]}, null]), "{line}");
    }
}

#[test]
fn files_of_runs_stay_where_that_is_asked_for() {
    let ns = control_plane().namespace("keep-files").unwrap();
    let modules = Modules::new();
    let answer = r#"echo '[{"op":"add","path":"/global/zone","value":"west"}]' > "$VALUES_JSON_PATCH_PATH""#;
    modules.hook("global-hooks/writes", "configVersion: v1\nonStartup: 1\nafterAll: 1", answer);
    modules.write("modules/values.yaml", "");
    let kept = |value: &str| {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("files").to_str().unwrap().to_owned();
        let variables = [("DEBUG_KEEP_TMP_FILES", value), ("ADDON_OPERATOR_TMP_DIR", directory.as_str())];
        let operator = started(ns.name(), &modules, &[], &variables);
        operator.wait_converged();
        operator.stop();
        let runs = std::fs::read_dir(&directory).expect("the directory of files was made");
        let read = |run: &std::path::Path, file: &str| std::fs::read_to_string(run.join(file)).expect(file);
        let mut all: Vec<[String; 3]> = runs
            .map(|run| run.unwrap().path())
            .map(|run| ["binding-context.json", "values.json", "values-patch.json"].map(|f| read(&run, f)))
            .collect();
        all.sort();
        all
    };
    assert_eq!(kept("false"), Vec::<[String; 3]>::new());
    let kept = kept("yes");
    let [after, startup] = &kept[..] else { panic!("{kept:?}") };
    assert!(
        after[0].contains("\"binding\":\"afterAll\"") && after[1].contains("\"zone\":\"west\""),
        "{after:?}"
    );
    assert_eq!(startup[0], r#"[{"binding":"onStartup"}]"#);
    for run in [after, startup] {
        assert_eq!(run[2].trim(), r#"[{"op":"add","path":"/global/zone","value":"west"}]"#);
    }
}

#[test]
fn a_module_waits_for_synchronization_unless_it_is_told_not_to() {
    let cp = control_plane();
    let ns = cp.namespace("wait-sync").unwrap();
    let modules = Modules::new();
    let body = "if context Synchronization; then\n  note began; while [[ ! -e \"$(dirname \"$TMPDIR\")/go\" ]]; do sleep 0.05; done; note synchronized\n\
                else note helm; fi";
    for (name, more) in [
        ("waits", "queue: own"),
        ("told", "queue: own, waitForSynchronization: true"),
        ("goes", "queue: own, waitForSynchronization: false"),
        // In the main queue there is nothing but to wait.
        ("main", "waitForSynchronization: false"),
    ] {
        let directory = format!("modules/010-{name}");
        shows_size(&modules, &directory);
        let config = format!(
            "configVersion: v1\nbeforeHelm: 1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [none]}}, namespace: \
             {{nameSelector: {{matchNames: [{}]}}}}, {more}}}]",
            ns.name()
        );
        modules.hook(&format!("{directory}/hooks/{name}"), &config, body);
    }
    let flags = ["waits", "told", "goes", "main"].map(|name| format!("{name}Enabled: true\n")).concat();
    modules.write("modules/values.yaml", &flags);
    let operator = start(ns.name(), &modules, &[]);
    let there = |name: &str| object(cp, ns.name(), "configmap", name).is_some();
    for name in ["waits", "told", "goes", "main"] {
        operator.wait_note(&format!("{name} began"));
    }
    // Its hook has no end before `go` is there, which nobody has made yet.
    wait_for("the one that waits for nobody is released", || there("goes"));
    let of = |name: &str| -> Vec<String> {
        let notes = operator.notes();
        notes.iter().filter_map(|n| n.strip_prefix(&format!("{name} "))).map(str::to_owned).collect()
    };
    for name in ["waits", "told", "main"] {
        assert_eq!(of(name), ["began"], "{:?}", operator.notes());
        assert!(!there(name), "{name} waits for its hook");
    }
    let mut goes = of("goes");
    goes.sort();
    assert_eq!(goes, ["began", "helm"], "side by side: {:?}", operator.notes());
    operator.put("go");
    operator.wait_converged();
    wait_for("the hook of the other queue ends", || of("goes").len() == 3);
    assert_eq!(of("goes")[2], "synchronized");
    for name in ["waits", "told", "main"] {
        assert_eq!(of(name), ["began", "synchronized", "helm"], "{:?}", operator.notes());
        assert!(there(name), "{name} is released");
    }
    operator.stop();
}
