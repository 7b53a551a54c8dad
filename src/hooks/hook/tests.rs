//! Hooks as programs: what they are given, and what becomes of their answers.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;

const ABOUT: About<'static> = About { binding: "onStartup", queue: "main", event: 1 };

struct Lab {
    dir: tempfile::TempDir,
    around: Surroundings,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scratch = dir.path().join("tmp");
        let around = Surroundings {
            scratch,
            keep_files: false,
            timeout: None,
            group_metrics: false,
            proxy_json: false,
        };
        Self { dir, around }
    }

    async fn load(&self, script: &str) -> Result<Hook, HookError> {
        let path = self.dir.path().join("hook.sh");
        fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Hook::load(&path, "hook.sh", "", Scope::Global, CONFIG_TIMEOUT).await
    }

    async fn run(&self, script: &str) -> Result<Output, HookError> {
        let script = format!("[ \"$1\" = --config ] && {{ echo 'onStartup: 1'; exit; }}\n{script}");
        let hook = self.load(&script).await.unwrap();
        let input = Input {
            contexts: json!([{"binding": "onStartup"}]),
            config_values: json!({"global": {"a": 1}}),
            values: json!({"global": {"a": 2}}),
        };
        hook.run(&self.around, &input, &ABOUT).await
    }
}

#[tokio::test]
async fn a_run_gets_its_files_and_answers_in_others() {
    let lab = Lab::new();
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
    assert_eq!((output.admission.trim(), output.conversion.trim()), ("{\"allowed\":true}", "{}"));
    assert!(output.usage.max_rss_bytes > 0);
    assert_eq!(fs::read_dir(&lab.around.scratch).unwrap().count(), 0, "the files are gone");
}

#[tokio::test]
async fn a_failed_run_answers_nothing_but_status_patches() {
    let lab = Lab::new();
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
    let lab = Lab::new();
    for (variable, part) in
        [("METRICS_PATH", "metrics file, document 1"), ("KUBERNETES_PATCH_PATH", "operations file")]
    {
        let error = lab.run(&format!("printf '{{\"name\":' > ${variable}")).await.unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_used_names_the_hook() {
    let lab = Lab::new();
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
    let lab = Lab::new();
    let hook = lab
        .load("[ \"$1\" = --config ] && { echo 'configVersion: v1\nonStartup: 1\nsettings: {timeout: 200ms}'; exit; }\nsleep 100")
        .await
        .unwrap();
    let error = hook.run(&lab.around, &Input::default(), &ABOUT).await.unwrap_err();
    assert_eq!(error.to_string(), "hook hook.sh: killed after 0.2s, its timeout");
}
