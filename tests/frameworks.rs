//! The shell framework and the Python helper, as hooks use them, without a cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Files that a hook is given, by their variables.
const FILES: [&str; 9] = [
    "BINDING_CONTEXT_PATH",
    "VALUES_PATH",
    "CONFIG_VALUES_PATH",
    "VALUES_JSON_PATCH_PATH",
    "CONFIG_VALUES_JSON_PATCH_PATH",
    "METRICS_PATH",
    "KUBERNETES_PATCH_PATH",
    "ADMISSION_RESPONSE_PATH",
    "CONVERSION_RESPONSE_PATH",
];

/// Runs a hook on contexts, with our jq as the only one; gives the directory of its files, which are called as their
/// variables.
fn run(script: &str, interpreter: &str, contexts: &Value, arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("frameworks");
    let bin = dir.path().join("bin");
    fs::create_dir(&bin).unwrap();
    for program in ["bash", "tr", "dirname"] {
        let found = std::env::var_os("PATH").unwrap();
        let path = std::env::split_paths(&found).map(|d| d.join(program)).find(|p| p.is_file());
        if let Some(path) = path {
            std::os::unix::fs::symlink(path, bin.join(program)).unwrap();
        }
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_windlass"), bin.join("windlass")).unwrap();
    let hook = dir.path().join("hook");
    fs::write(&hook, script.replace("FRAMEWORKS", root.to_str().unwrap())).unwrap();
    for name in FILES {
        let content = match name {
            "BINDING_CONTEXT_PATH" => contexts.to_string(),
            "VALUES_PATH" => json!({"m": {"size": 2}}).to_string(),
            "CONFIG_VALUES_PATH" => json!({"m": {"size": 1}}).to_string(),
            _ => String::new(),
        };
        fs::write(dir.path().join(name), content).unwrap();
    }
    // Python is often a script that looks for the real one.
    let mut command = match interpreter {
        "bash" => Command::new(bin.join("bash")),
        other => Command::new(other),
    };
    if interpreter == "bash" {
        command.env("PATH", &bin);
    }
    let output = command
        .arg(&hook)
        .args(arguments)
        .env("PYTHONPATH", root.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(FILES.map(|name| (name, dir.path().join(name))))
        .output()
        .unwrap();
    (output, dir)
}

fn bash(functions: &str, contexts: &Value, arguments: &[&str]) -> Output {
    let script = format!("source FRAMEWORKS/shell_lib.sh\n{functions}\nhook::run \"$@\"\n");
    run(&script, "bash", contexts, arguments).0
}

fn printed(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    out.into_owned()
}

#[test]
fn each_context_has_its_first_handler() {
    let event = |e: &str| json!({"binding": "pods", "type": "Event", "watchEvent": e});
    let table = [
        ("__on_startup", json!({"binding": "onStartup"})),
        ("__on_kubernetes::pods::synchronization", json!({"binding": "pods", "type": "Synchronization"})),
        ("__on_kubernetes::pods::added", event("Added")),
        ("__on_kubernetes::pods::added_or_modified", event("Modified")),
        ("__on_kubernetes::pods::deleted", event("Deleted")),
        ("__on_kubernetes::nodes", json!({"binding": "nodes", "type": "Synchronization"})),
        ("__on_group::g", json!({"binding": "pods", "type": "Group", "groupName": "g"})),
        ("__on_schedule::often", json!({"binding": "often", "type": "Schedule"})),
        ("__on_validating::a.b.c", json!({"binding": "a.b.c", "type": "Validating"})),
        ("__on_mutating::a.b.c", json!({"binding": "a.b.c", "type": "Mutating"})),
        (
            "__on_conversion::up::stable.example.com.v1::v2",
            json!({"binding": "up", "type": "Conversion", "fromVersion": "stable.example.com/v1", "toVersion": "v2"}),
        ),
        ("__main__", json!({"binding": "beforeHelm"})),
    ];
    let functions: String =
        table.iter().map(|(name, _)| format!("{name}() {{ echo '{name}'; }}\n")).collect();
    let contexts: Value = table.iter().map(|(_, context)| context.clone()).collect();
    let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
    let output = bash(&functions, &contexts, &[]);
    assert_eq!(printed(&output).lines().collect::<Vec<_>>(), names);
}

#[test]
fn configuration_failures_and_missing_handlers() {
    // As with the peer, what stands after the call is for runs alone.
    let script = "source FRAMEWORKS/shell_lib.sh\n__config__() { echo 'configVersion: v1'; }\n__main__() { echo main; }\n\
                  hook::run \"$@\"\necho after\n";
    let after = |arguments: &[&str]| {
        printed(&run(script, "bash", &json!([{"binding": "s", "type": "Schedule"}]), arguments).0)
    };
    assert_eq!((after(&["--config"]), after(&[])), ("configVersion: v1\n".into(), "main\nafter\n".into()));
    let contexts = json!([{"binding": "s", "type": "Schedule"}]);
    let output = bash("__on_startup() { :; }", &contexts, &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && told.contains("none of the functions __on_schedule::s __main__"),
        "{told}"
    );
    let output = bash("__main__() { false; echo never; }", &contexts, &[]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty(), "{told}");
    assert!(told.contains("in __main__"), "{told}");
}

#[test]
fn paths_lead_to_values() {
    let context = json!([{"binding": "b", "a": {"x-y": [{"z": "found"}], "p.q/r": 1, "t": true, "f": false, "n": null}}]);
    let table = [
        ("context::get a.x-y.0.z", "found"),
        ("context::get 'a.\"p.q/r\"'", "1"),
        ("context::get \"a.'p.q/r'\"", "1"),
        ("context::get --required a.t", "true"),
        ("context::get a.absent.deeper", "null"),
        ("context::jq -r '.a.t, .binding'", "true\nb"),
        ("context::has a.n && echo yes", "yes"),
        ("context::has a.x-y.0 && ! context::has a.x-y.1 && ! context::has a.m && echo yes", "yes"),
        (
            "context::is_true a.t && context::is_false a.f && context::is_null a.n && ! context::is_true a.f && echo yes",
            "yes",
        ),
        ("context::get --required a.m 2>/dev/null || echo missing", "missing"),
        ("context::global::jq -r 'length, .[0].binding'", "1\nb"),
        ("echo $BINDING_CONTEXT_CURRENT_INDEX $BINDING_CONTEXT_CURRENT_BINDING", "0 b"),
    ];
    for (call, want) in table {
        let output = bash(&format!("__main__() {{ {call}; }}"), &context, &[]);
        assert_eq!(printed(&output).trim_end(), want, "{call}");
    }
}

#[test]
fn python_hooks() {
    let script = "import windlass_hook\n\ndef handle(context):\n    context.values_patch('add', '/m/x', context['binding'])\n\nwindlass_hook.run({'configVersion': 'v1', 'beforeHelm': 1}, handle)\n";
    let contexts = json!([{"binding": "beforeHelm"}, {"binding": "afterHelm"}]);
    let (output, files) = run(script, "python3", &contexts, &[]);
    printed(&output);
    let patch = fs::read_to_string(files.path().join("VALUES_JSON_PATCH_PATH")).unwrap();
    let told = |binding: &str| format!("{{\"op\": \"add\", \"path\": \"/m/x\", \"value\": \"{binding}\"}}\n");
    assert_eq!(patch, told("beforeHelm") + &told("afterHelm"), "it is called for each context");
    let (output, _) = run(script, "python3", &json!([]), &["--config"]);
    assert_eq!(printed(&output).trim(), r#"{"configVersion": "v1", "beforeHelm": 1}"#);
}

#[test]
fn all_that_a_python_hook_may_read_and_answer() {
    let script = "import windlass_hook

def handle(c):
    print(c.binding, c.type, c['extra'], c.get('extra'), c.get('none', 'nothing'), c.data['extra'])
    print(c.snapshots['pods'][0]['filterResult'], c.values()['m']['size'], c.config_values()['m']['size'])
    c.values_patch('remove', '/m/y')
    c.config_values_patch('add', '/m/z', [1])
    c.config_values_patch('add', '/m/null')
    c.metric('pods', set=3, labels={'zone': 'a'})
    c.kubernetes('Delete', kind='Pod', namespace='n', name='p')
    c.admit(False, 'no', warnings=['w'], patch='cA==')
    c.admit(True)
    c.converted([{'kind': 'K'}])

windlass_hook.run({}, handle)
";
    let snapshots = json!({"pods": [{"filterResult": "f"}]});
    let context = json!([{"binding": "b", "type": "Schedule", "extra": 7, "snapshots": snapshots}]);
    let (output, files) = run(script, "python3", &context, &[]);
    assert_eq!(printed(&output), "b Schedule 7 7 nothing 7\nf 2 1\n");
    let expected = [
        ("VALUES_JSON_PATCH_PATH", vec![json!({"op": "remove", "path": "/m/y"})]),
        (
            "CONFIG_VALUES_JSON_PATCH_PATH",
            vec![
                json!({"op": "add", "path": "/m/z", "value": [1]}),
                json!({"op": "add", "path": "/m/null", "value": null}),
            ],
        ),
        ("METRICS_PATH", vec![json!({"name": "pods", "set": 3, "labels": {"zone": "a"}})]),
        (
            "KUBERNETES_PATCH_PATH",
            vec![json!({"operation": "Delete", "kind": "Pod", "namespace": "n", "name": "p"})],
        ),
        (
            "ADMISSION_RESPONSE_PATH",
            vec![
                json!({"allowed": false, "message": "no", "warnings": ["w"], "patch": "cA=="}),
                json!({"allowed": true, "message": "", "warnings": []}),
            ],
        ),
        ("CONVERSION_RESPONSE_PATH", vec![json!({"convertedObjects": [{"kind": "K"}]})]),
    ];
    for (file, documents) in expected {
        let text = fs::read_to_string(files.path().join(file)).unwrap();
        let read: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(read, documents, "{file}");
    }
}
