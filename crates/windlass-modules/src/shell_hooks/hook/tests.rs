//! Hooks as programs: what they are given, and what becomes of their answers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;
use crate::shell_hooks::binding_context::{ContextKind, Include};
use crate::shell_hooks::process::End;
use crate::shell_hooks::{Moment, RunResult};

const ABOUT: About<'static> = About { binding: "onStartup", queue: "main", event: 1 };

struct TestHook {
    dir: tempfile::TempDir,
    around: HookEnvironment,
}

impl TestHook {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("tmp");
        let around = HookEnvironment { scratch, ..HookEnvironment::default() };
        Self { dir, around }
    }

    async fn load(&self, script: &str) -> Result<Hook, HookError> {
        let path = self.dir.path().join("hook.sh");
        fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let (name, scope) = ("hook.sh", Scope::Global);
        let source = HookSource { path: &path, name, module: "", scope, limit: CONFIG_TIMEOUT };
        source.ask().await.map(|file| source.parts(&file).hooks.remove(0))
    }

    async fn run(&self, script: &str) -> Result<Output, HookError> {
        let script = format!("[ \"$1\" = --config ] && {{ echo 'onStartup: 1'; exit; }}\n{script}");
        let hook = self.load(&script).await.unwrap();
        let input = Input {
            contexts: vec![Context::moment(Moment::OnStartup)],
            snapshots: Snapshots::new(),
            config_values: json!({"global": {"a": 1}}),
            values: json!({"global": {"a": 2}}),
        };
        hook.run(&self.around, &input, &ABOUT).await
    }
}

#[tokio::test]
async fn a_run_gets_its_files_and_answers_in_others() {
    let lab = TestHook::new();
    let output = lab
        .run(
            r#"
set -eu
grep -q '^\[{"binding":"onStartup"}\]$' "$BINDING_CONTEXT_PATH"
grep -q '"a":1' "$CONFIG_VALUES_PATH"
grep -q '"a":2' "$VALUES_PATH"
echo '{"op":"add"}' > "$VALUES_JSON_PATCH_PATH"
echo '{"op":"remove"}' > "$CONFIG_VALUES_JSON_PATCH_PATH"
echo '{"name":"m","add":1}' > "$METRICS_PATH"
echo '{"operation":"Delete","kind":"Pod","name":"p"}' > "$KUBERNETES_PATCH_PATH"
echo '{"allowed":true}' > "$VALIDATING_RESPONSE_PATH"
echo '{}' > "$CONVERSION_RESPONSE_PATH"
"#,
        )
        .await
        .unwrap();
    assert_eq!(output.values_patch, "{\"op\":\"add\"}\n");
    assert_eq!(output.config_values_patch, "{\"op\":\"remove\"}\n");
    assert_eq!((output.metrics.len(), output.operations.len()), (1, 1));
    let (admission, conversion) = (output.admission.read(99).unwrap(), output.conversion.read(99).unwrap());
    assert_eq!((admission.trim(), conversion.trim()), ("{\"allowed\":true}", "{}"));
    assert!(output.usage.max_rss_bytes > 0);
    drop(output);
    assert_eq!(fs::read_dir(&lab.around.scratch).unwrap().count(), 0, "the files are gone");
}

#[tokio::test]
async fn a_failed_run_answers_nothing_but_status_patches() {
    let lab = TestHook::new();
    let patch = |subresource: &str, ignore: bool| {
        json!({"operation": "MergePatch", "kind": "Pod", "name": "p", "mergePatch": {"a": 1}, "subresource": subresource,
            "ignoreHookError": ignore})
    };
    let (status, spec, plain) = (patch("/status", true), patch("", true), patch("/status", false));
    let script = format!("echo '{status}{spec}{plain}' > $KUBERNETES_PATCH_PATH; echo why >&2; exit 2");
    let error = lab.run(&script).await.unwrap_err();
    assert_eq!(error.to_string(), "hook hook.sh: exit status 2: why");
    assert!(matches!(error, HookError::Run { status_patches, .. } if status_patches.len() == 1));
}

#[tokio::test]
async fn half_a_document_fails_the_run() {
    let lab = TestHook::new();
    for (variable, part) in
        [("METRICS_PATH", "metrics file, document 1"), ("KUBERNETES_PATCH_PATH", "operations file")]
    {
        let error = lab.run(&format!("printf '{{\"name\":' > ${variable}")).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_names_the_hook() {
    let lab = TestHook::new();
    for (script, part) in [
        ("echo 'configVersion: v1\nschedul: []'", "hook hook.sh: --config: schedul: no such key"),
        ("echo bad >&2; exit 1", "hook hook.sh: --config: exit status 1: bad"),
        ("echo 'a: b: c'", "hook hook.sh: --config: line 1: "),
    ] {
        let error = lab.load(script).await.unwrap_err().to_string();
        assert!(error.starts_with(part), "{error}");
    }
}

#[tokio::test]
async fn the_hooks_own_timeout_counts() {
    let lab = TestHook::new();
    let hook = lab
        .load("[ \"$1\" = --config ] && { echo 'configVersion: v1\nonStartup: 1\nsettings: {timeout: 200ms}'; exit; }\nsleep 100")
        .await
        .unwrap();
    let error = hook.run(&lab.around, &Input::default(), &ABOUT).await.unwrap_err();
    assert_eq!(error.to_string(), "hook hook.sh: killed after 0.2s, its timeout");
}

/// Contexts of schedules of these names.
fn ticks(names: &[&str]) -> Vec<Context> {
    let context = |name: &&str| Context {
        binding: (*name).to_owned(),
        group: None,
        include: Include::Nothing,
        what: ContextKind::Schedule,
    };
    names.iter().map(context).collect()
}

#[tokio::test]
async fn runs_are_remembered_with_what_they_used_and_printed() {
    let lab = TestHook::new();
    let script = r#"[ "$1" = --config ] && { echo 'configVersion: v1
onStartup: 1
settings: {timeout: 2s}'; exit; }
case $(cat "$BINDING_CONTEXT_PATH") in
*well*) echo out; echo '{"level":"info","msg":"json"}'; echo err >&2;;
*badly*) echo why >&2; exit 3;;
*killed*) kill -TERM $$;;
*late*) echo begun; i=0; while true; do i=$((i+1)); done;;
*garbled*) printf '{' > "$METRICS_PATH";;
esac"#;
    let hook = lab.load(script).await.unwrap();
    for binding in ["well", "badly", "killed", "late", "garbled"] {
        let input = Input { contexts: ticks(&[binding, "other", binding]), ..Input::default() };
        let done = hook.run(&lab.around, &input, &About { binding, queue: "own", event: 7 }).await;
        assert_eq!(done.is_ok(), binding == "well", "{done:?}");
    }
    let runs = hook.runs();
    let [well, badly, killed, late, garbled] = &runs[..] else { panic!("{runs:?}") };
    assert_eq!((well.bindings.join(","), well.queue.as_str(), well.event), ("well,other".into(), "own", 7));
    assert_eq!(well.stdout.text(), "out\n{\"level\":\"info\",\"msg\":\"json\"}\n");
    assert_eq!((well.stderr.text().as_str(), badly.stderr.text().as_str()), ("err\n", "why\n"));
    let ended = |run: &RunView| match run.outcome.clone() {
        RunResult::ProcessExit { end, timed_out, error, .. } => (end, timed_out, error.unwrap_or_default()),
        RunResult::Running => panic!("{run:?}"),
    };
    assert_eq!(ended(well), (Some(End::Status(0)), false, String::new()));
    assert_eq!(ended(badly), (Some(End::Status(3)), false, "exit status 3".to_owned()));
    assert_eq!(ended(killed), (Some(End::Signal(15)), false, "ended by signal 15".to_owned()));
    assert_eq!(ended(late), (None, true, "killed after 2s, its timeout".to_owned()));
    assert_eq!((late.stdout.text().as_str(), late.seconds() >= 2.0), ("begun\n", true));
    // It has used most of its time: what is killed is measured, too.
    let used = late.usage.unwrap();
    assert!(used.user + used.system > Duration::from_millis(100) && used.max_rss_bytes > 0, "{used:?}");
    let (end, _, error) = ended(garbled);
    assert!(end == Some(End::Status(0)) && error.contains("metrics file"), "{error}");
    hook.refused(well.task, "its patch leads nowhere");
    assert_eq!(ended(&hook.runs()[0]).2, "its patch leads nowhere");

    // One that is given up is reported as such.
    let input = Input { contexts: ticks(&["late"]), ..Input::default() };
    let run = hook.run(&lab.around, &input, &ABOUT);
    tokio::select! {
        done = run => panic!("{done:?}"),
        () = async { while hook.runs()[4].stdout.text().is_empty() { tokio::task::yield_now().await } } => {}
    }
    let (end, timed_out, error) = ended(&hook.runs()[4]);
    assert!(end.is_none() && !timed_out && error.starts_with("given up"), "{error}");
}

#[tokio::test]
async fn where_the_library_is_missing_it_is_told_where_it_is() {
    let lab = TestHook::new();
    let error =
        lab.load("echo 'hook.sh: line 2: /shell_lib.sh: No such file or directory' >&2\nexit 1").await;
    let HookError::AskConfig { reason, .. } = error.unwrap_err() else {
        panic!("it is the answer that fails")
    };
    let hint = missing_library(&reason, Path::new("/nonexistent"));
    assert!(hint.contains("image of Windlass") && hint.contains("/frameworks/shell"), "{hint}");
    assert_eq!(missing_library(&reason, lab.dir.path()), "", "what is there is not missing");
    let HookError::AskConfig { reason, .. } = lab.load("exit 1").await.unwrap_err() else {
        panic!("the same")
    };
    assert_eq!(missing_library(&reason, Path::new("/nonexistent")), "");
}
