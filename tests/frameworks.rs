//! The shell framework and the Python helper, as hooks use them, without a cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Runs a hook on contexts, with our jq as the only one.
fn run(script: &str, interpreter: &str, contexts: &Value, arguments: &[&str]) -> (Output, String) {
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
    fs::write(dir.path().join("contexts"), contexts.to_string()).unwrap();
    fs::write(dir.path().join("patch"), "").unwrap();
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
        .env("BINDING_CONTEXT_PATH", dir.path().join("contexts"))
        .env("VALUES_JSON_PATCH_PATH", dir.path().join("patch"))
        .output()
        .unwrap();
    let patch = fs::read_to_string(dir.path().join("patch")).unwrap();
    (output, patch)
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
    let output = bash("__config__() { echo 'configVersion: v1'; }", &json!([]), &["--config"]);
    assert_eq!(printed(&output), "configVersion: v1\n");
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
    ];
    for (call, want) in table {
        let output = bash(&format!("__main__() {{ {call}; }}"), &context, &[]);
        assert_eq!(printed(&output).trim_end(), want, "{call}");
    }
}

#[test]
fn python_hooks() {
    let script = "import windlass_hook\n\ndef handle(context):\n    context.values_patch('add', '/m/x', context['binding'])\n    \
                  context.values_patch('remove', '/m/y')\n\nwindlass_hook.run({'configVersion': 'v1', 'beforeHelm': 1}, handle)\n";
    let (output, patch) = run(script, "python3", &json!([{"binding": "beforeHelm"}]), &[]);
    printed(&output);
    assert_eq!(
        patch,
        "{\"op\": \"add\", \"path\": \"/m/x\", \"value\": \"beforeHelm\"}\n{\"op\": \"remove\", \"path\": \"/m/y\"}\n"
    );
    let (output, _) = run(script, "python3", &json!([]), &["--config"]);
    assert_eq!(printed(&output).trim(), r#"{"configVersion": "v1", "beforeHelm": 1}"#);
}
