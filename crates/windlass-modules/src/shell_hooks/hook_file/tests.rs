//! Files that hold hooks, well-behaved and otherwise, and how often they are asked.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::*;
use crate::shell_hooks::{About, HookEnvironment, HookSet, Input, Moment};

const ONE: &str = r#"{"version":"v1","hooks":[{"metadata":{"name":"one"},"beforeHelm":5}]}"#;

/// A directory of hooks whose files note how they are called.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A script; a plain hook fails at `hook`.
    fn script(&self, name: &str, body: &str) -> &Self {
        let path = self.0.path().join("hooks").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let calls = self.0.path().join("calls");
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{body}\n", calls.display());
        fs::write(path.with_extension("tmp.txt"), text).unwrap();
        fs::set_permissions(path.with_extension("tmp.txt"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(path.with_extension("tmp.txt"), path).unwrap();
        self
    }

    /// A batch program that prints this document, and runs the other text.
    fn batch(&self, name: &str, document: &str, run: &str) -> &Self {
        let body = format!(
            "case \"$1 $2\" in\n'hook config') cat <<'END'\n{document}\nEND\n;;\n'hook '*) {run}\n;;\n*) exit 1;;\nesac"
        );
        self.script(name, &body)
    }

    /// All calls; files are asked side by side, so they are sorted.
    fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.0.path().join("calls")).unwrap_or_default();
        let mut calls: Vec<String> = text.lines().map(|line| line.trim_end().to_owned()).collect();
        calls.sort();
        calls
    }

    async fn load(&self, limit: Duration) -> Result<HookSet, HookError> {
        self.load_known(limit, &ConfigCache::default(), 0).await
    }

    async fn load_known(
        &self,
        limit: Duration,
        configs: &ConfigCache,
        files: u64,
    ) -> Result<HookSet, HookError> {
        let directory = self.0.path().join("hooks");
        let owner = ("mod", "010-mod/hooks/");
        HookSet::load_cached(&directory, owner, (Scope::Module, limit), (configs, files))
            .await
            .map(|(set, _)| set)
    }

    async fn refused(&self) -> String {
        let Err(error) = self.load(CONFIG_TIMEOUT).await else { panic!("it is loaded") };
        error.to_string()
    }

    fn around(&self) -> HookEnvironment {
        let (scratch, kubeconfig) = (self.0.path().join("tmp"), Some("/given/kubeconfig".into()));
        HookEnvironment { scratch, kubeconfig, ..HookEnvironment::default() }
    }
}

fn names(set: &HookSet) -> Vec<&str> {
    set.hooks().iter().map(|hook| hook.name.as_str()).collect()
}

#[tokio::test]
async fn a_plain_hook_gets_no_call_that_it_does_not_know() {
    let dir = Directory::new();
    dir.script("plain", "[ \"$1\" = --config ] && { echo 'onStartup: 1'; exit; }");
    dir.script("sub/with.sh", "echo bad >&2; exit 1");
    let error = dir.refused().await;
    assert_eq!(error, "hook 010-mod/hooks/sub/with.sh: --config: exit status 1: bad");
    dir.script("sub/with.sh", "echo '{configVersion: v1}'").script("wrong", "echo 'onStart: 1'");
    let error = dir.refused().await;
    assert!(error.starts_with("hook 010-mod/hooks/wrong: --config: onStart: no such key"), "{error}");
    let calls = dir.calls();
    assert!(calls.len() >= 5 && calls.iter().all(|call| call.ends_with(" --config")), "{calls:?}");
}

#[tokio::test]
async fn hooks_of_a_program_have_names_and_an_order() {
    let dir = Directory::new();
    let document = json!({"version": "v1", "hooks": [
        {"metadata": {"name": "z"}, "beforeHelm": 5},
        {"metadata": {"name": "a"}, "beforeHelm": 5},
        {"metadata": {"name": "a"}, "beforeHelm": 1},
    ], "readiness": {"schedule": [{"crontab": "*/15 * * * * *"}]}, "has_settings_check": true});
    dir.batch("go/batch", &document.to_string(), "").script("plain", "echo 'beforeHelm: 5'");
    let set = dir.load(CONFIG_TIMEOUT).await.unwrap();
    let at: Vec<String> = set.at(Moment::BeforeHelm).iter().map(|hook| hook.name.clone()).collect();
    let program = "010-mod/hooks/go/batch";
    // Of equal order by the index, not by the name.
    let ordered = [":a:2", ":z:0", ":a:1"].map(|end| format!("{program}{end}"));
    assert_eq!(at, [&ordered[..], &["010-mod/hooks/plain".to_owned()]].concat());
    assert_eq!(names(&set)[3], format!("{program}-readiness"));
    assert_eq!((set.readiness().unwrap().hook.name.as_str(), set.checks().len()), (names(&set)[3], 1));
    assert!(
        set.notes()[0].starts_with("hook 010-mod/hooks/go/batch: hook config: hooks 1, 2 have the same name")
    );
    assert_eq!(
        dir.calls(),
        ["go/batch --config", "go/batch hook config", "plain --config"].map(|call| { call.to_owned() })
    );
    let (directory, configs) = (dir.0.path().join("hooks"), ConfigCache::default());
    let global = HookSet::load_cached(&directory, ("", ""), (Scope::Global, CONFIG_TIMEOUT), (&configs, 0));
    // Its plain hook is none of global hooks.
    assert!(global.await.is_err());
    fs::remove_file(directory.join("plain")).unwrap();
    let global = HookSet::load_cached(&directory, ("", ""), (Scope::Global, CONFIG_TIMEOUT), (&configs, 0));
    let (set, _) = global.await.unwrap();
    assert_eq!(names(&set), ["go/batch-z-0", "go/batch-a-1", "go/batch-a-2"]);
    assert_eq!(set.at(Moment::BeforeAll)[0].name, "go/batch-a-2");
}

#[tokio::test]
async fn a_run_gets_its_index_and_variables_and_gives_its_message() {
    let dir = Directory::new();
    let run = r#"echo "$3 $MODULE_NAME [$APPLICATION_NAME$APPLICATION_NAMESPACE] $KUBECONFIG $LOG_LEVEL" > "$VALUES_JSON_PATCH_PATH"
case "$3" in
1) echo '{"level":"warn","msg":"trying"}' >&2; echo '{"message":"execute: no such zone","code":7}' >&2; echo >&2; exit 1;;
2) echo '{"message":"execute: first"}' >&2; echo 'and a line of the runtime' >&2; exit 2;;
3) exit 1;;
4) echo 'panic: no map' >&2; exit 2;;
esac"#;
    let hook = |name: &str| json!({"metadata": {"name": name}, "onStartup": 1, "logLevel": "debug"});
    let document = json!({"version": "v1", "hooks": [hook("a"), hook("b"), hook("c"), hook("d"), hook("e")]});
    dir.batch("batch", &document.to_string(), run);
    let set = dir.load(CONFIG_TIMEOUT).await.unwrap();
    let about = About { binding: "onStartup", queue: "main", event: 1 };
    let around = dir.around();
    let output = set.hooks()[0].run(&around, &Input::default(), &about).await.unwrap();
    assert_eq!(output.values_patch, "0 mod [] /given/kubeconfig debug\n");
    for (index, message) in [
        (1, "exit status 1: execute: no such zone"),
        (2, "exit status 2: execute: first"),
        (
            3,
            "exit status 1: it printed no error; LOG_LEVEL=info in the operator's environment shows the log of its library",
        ),
        (4, "exit status 2: panic: no map"),
    ] {
        let hook = &set.hooks()[index];
        let error = hook.run(&around, &Input::default(), &about).await.unwrap_err();
        assert_eq!(error.to_string(), format!("hook {}: {message}", hook.name));
    }
    // Another program stands there now: by this index it would run another hook.
    dir.batch("batch", ONE, "exit 9");
    let error = set.hooks()[4].run(&around, &Input::default(), &about).await.unwrap_err();
    assert!(error.to_string().contains("its program has changed since it was asked"), "{error}");
    assert_eq!(dir.calls().iter().filter(|call| *call == "batch hook run 4").count(), 1, "not again");
}

#[tokio::test]
async fn a_program_that_cannot_be_used_says_why() {
    let flood = "head -c 100000000 /dev/zero | tr '\\0' x";
    let table = [
        // (what it does at hook config, the error)
        ("true", "it printed nothing where a JSON document with its hooks is wanted"),
        ("printf '{\"version\":\"v1\",\"hoo'", "it is not one JSON document: EOF while parsing"),
        (flood, "it printed more than 1048576 bytes"),
        ("echo 'starting up'", "it is not one JSON document: expected value"),
        (
            "echo '{\"level\":\"error\",\"msg\":\"can not print configs\",\"error\":\"no hooks registered\"}'; exit 1",
            "can not print configs: no hooks registered",
        ),
        ("exit 1", "exit status 1"),
        ("echo 'unknown command' >&2; exit 1", "exit status 1: unknown command"),
        ("echo '{\"version\":\"v9\",\"hooks\":[]}'", "version: \"v9\" is not known here, v1 is"),
        ("sleep 600", "killed after 1s, its timeout"),
        ("kill -9 $$", "ended by signal 9"),
    ];
    for (body, part) in table {
        let dir = Directory::new();
        // It answers `hook list`, which Windlass does not call.
        let text = format!(
            "case \"$1 $2\" in\n'hook list') echo 'Found 1 items:';;\n'hook config') {body};;\n*) exit 1;;\nesac"
        );
        dir.script("batch", &text);
        let limit = if body.starts_with("sleep") { Duration::from_secs(1) } else { CONFIG_TIMEOUT };
        let Err(error) = dir.load(limit).await else { panic!("{body}: it is loaded") };
        let error = error.to_string();
        let start = format!("hook 010-mod/hooks/batch: hook config: {part}");
        assert!(error.starts_with(&start), "{body}\n{error}\n{start}");
        assert_eq!(dir.calls(), ["batch --config", "batch hook config"]);
    }
    // A plain hook that fails says its own error, and not twice.
    for (body, expected) in [
        ("echo bad >&2; exit 1", "--config: exit status 1: bad"),
        (
            "[ $1 = --config ] && { echo bad >&2; exit 1; }; echo ran",
            "--config: exit status 1: bad; hook config: it is not one JSON document: expected value at line 1 column 1; it begins with \"ran\"",
        ),
    ] {
        let dir = Directory::new();
        dir.script("plain", body);
        assert_eq!(dir.refused().await, format!("hook 010-mod/hooks/plain: {expected}"));
    }
    let dir = Directory::new();
    let probe = r#"{"version":"v1","hooks":[],"readiness":{"schedule":[{"crontab":"@daily"}]}}"#;
    dir.batch("a", probe, "").batch("b", probe, "");
    let error = dir.refused().await;
    assert!(
        error.starts_with("hook 010-mod/hooks/b: it has a readiness probe, and so has 010-mod/hooks/a"),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_is_asked_once_for_each_of_its_states() {
    let dir = Directory::new();
    dir.batch("batch", ONE, "").script("plain", "echo 'onStartup: 1'");
    let configs = ConfigCache::default();
    let load = async |files: u64| dir.load_known(CONFIG_TIMEOUT, &configs, files).await.unwrap();
    let once = ["batch --config", "batch hook config", "plain --config"];
    for _ in 0..3 {
        assert_eq!(names(&load(1).await).len(), 2);
        assert_eq!(dir.calls(), once);
    }
    // A script may read the files beside it, which are others now.
    load(2).await;
    assert_eq!(dir.calls().len(), 6);
    dir.batch("batch", &ONE.replace("one", "two"), "");
    let set = load(2).await;
    assert_eq!(names(&set)[0], "010-mod/hooks/batch:two:0");
    let count = |call: &str| dir.calls().iter().filter(|c| *c == call).count();
    assert_eq!(once.map(count), [3, 3, 2]);
    // Several that want to know it at once wait for one answer.
    dir.script("slow", "sleep 0.3; echo 'onStartup: 1'");
    let loads: Vec<_> = (0..4).map(|_| load(2)).collect();
    futures::future::join_all(loads).await;
    assert_eq!(count("slow --config"), 1);
    // A failure is not kept.
    dir.script("slow", "exit 3");
    assert!(dir.load_known(CONFIG_TIMEOUT, &configs, 2).await.is_err());
    dir.script("slow", "echo 'onStartup: 1'");
    load(2).await;
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_asked_is_asked_again() {
    let dir = Directory::new();
    // It writes itself anew at its first call.
    let other =
        r#"if [ ! -e "$0.txt" ]; then touch "$0.txt"; echo '# more' >> "$0"; fi; echo 'onStartup: 1'"#;
    dir.script("changes", other);
    let set = dir.load(CONFIG_TIMEOUT).await.unwrap();
    assert_eq!((names(&set).len(), dir.calls().len()), (1, 2));
    let dir = Directory::new();
    dir.script("changes", r#"echo '# more' >> "$0"; echo 'onStartup: 1'"#);
    let error = dir.refused().await;
    assert!(error.contains("its file changes while it is asked for its hooks"), "{error}");
    assert_eq!(dir.calls().len(), TRIES as usize);
}

#[test]
fn native_programs_are_known_by_their_first_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let put = |text: &[u8]| {
        fs::write(dir.path().join("x"), text).unwrap();
        is_native(&dir.path().join("x"))
    };
    assert!(put(b"\x7fELF\x02\x01"));
    assert!(!put(b"#!/bin/sh") && !put(b"\x7fE") && !put(b""));
    assert!(!is_native(&dir.path().join("absent")));
}

#[tokio::test]
async fn a_check_gets_its_settings_and_is_understood() {
    let dir = Directory::new();
    let document = r#"{"version":"v1","hooks":[],"has_settings_check":true}"#;
    let run = r#"read -r text < "$SETTINGS_PATH"
case "$text" in
*fine*) echo '{"level":"info","msg":"looking"}' >&2; echo '{"valid":true,"message":"","warnings":null}' >&2; exit 1;;
*quiet*) exit 0;;
*old*) echo '{"valid":true,"warnings":["old is deprecated"]}' >&2; exit 1;;
*large*) echo '{"valid":false,"message":"too large"}' >&2; exit 1;;
*broken*) echo 'panic: x' >&2; exit 2;;
*hangs*) sleep 600;;
esac"#;
    dir.batch("batch", document, run);
    let set = dir.load(Duration::from_secs(2)).await.unwrap();
    let check = &set.checks()[0];
    let ask = async |word: &str| check.run(&dir.around(), &json!({"word": word})).await;
    let objection = async |word: &str| ask(word).await.unwrap();
    for word in ["fine", "quiet"] {
        assert_eq!(objection(word).await, crate::shell_hooks::CheckVerdict::default(), "{word}");
    }
    assert_eq!(objection("old").await.warnings, ["old is deprecated"]);
    assert_eq!(objection("large").await.objection.as_deref(), Some("too large"));
    let error = ask("broken").await.unwrap_err();
    assert_eq!(error, "hook 010-mod/hooks/batch: hook check: exit status 2: panic: x");
    let error = ask("hangs").await.unwrap_err();
    assert!(error.contains("killed after 2s"), "{error}");
}
