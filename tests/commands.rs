//! Commands called as `helm` without a cluster, beside what real Helm answered: standard output, standard error and exit status.
//!
//! `fixtures/commands/cases.jsonl` has a command line and its environment in each line; each runs in a copy of `state`: releases in memory,
//! charts, repositories, kubeconfigs. `make fixtures` writes Helm's answers to `answers.jsonl`, in the same order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use chart_compat::go::regexp::{self, Regexp};
use serde::{Deserialize, Serialize};
use windlass_testing::Tool;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize, PartialEq, Eq)]
struct Answer {
    code: i32,
    out: String,
    err: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/commands")
}

fn lines<T: for<'de> Deserialize<'de>>(file: &str) -> Vec<T> {
    let text = fs::read_to_string(folder().join(file)).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{file}: {line}: {e}")))
        .collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            assert!(fs::copy(entry.path(), target).is_ok());
        }
    }
}

/// What of an answer is another each time.
struct Masks {
    ansi: std::sync::Arc<Regexp>,
    json: std::sync::Arc<Regexp>,
}

impl Masks {
    fn new() -> Self {
        let compile = |text: &str| regexp::compile(text.as_bytes()).unwrap();
        Self { ansi: compile(r"LAST DEPLOYED: [^\n]*"), json: compile(r#"_deployed":"[^"]*"#) }
    }

    /// Masks the time of a release that was just made.
    fn now(&self, text: &str) -> String {
        let replaced = |pattern: &Regexp, text: &str, by: &str| {
            let mut out = String::new();
            let mut at = 0;
            for found in pattern.find_all(text.as_bytes(), -1) {
                out.push_str(&text[at..found.start]);
                out.push_str(by);
                at = found.end;
            }
            out + &text[at..]
        };
        let text = replaced(&self.ansi, text, "LAST DEPLOYED: NOW");
        replaced(&self.json, &text, "_deployed\":\"NOW")
    }
}

/// Runs a program by the name `helm` as a stranger to this machine.
fn run(program: &Path, case: &Case, masks: &Masks) -> Answer {
    let home = tempfile::tempdir().unwrap();
    // A short name that is no part of another text.
    let place = home.path().canonicalize().unwrap().join("HOME");
    copy(&folder().join("state"), &place);
    let helm = place.join("helm");
    symlink(program, &helm).unwrap();
    let output = Command::new("./helm")
        .args(&case.args)
        .current_dir(&place)
        .env_clear()
        .env("HOME", &place)
        .env("TZ", "UTC")
        .env("HELM_DRIVER", "memory")
        .env("HELM_MEMORY_DRIVER_DATA", "releases.yaml")
        .envs(&case.env)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap().replace(place.to_str().unwrap(), "HOME");
        if case.args.first().is_some_and(|verb| verb == "install") { masks.now(&text) } else { text }
    };
    Answer { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn commands_answer_as_helm_answered() {
    let (cases, answers) = (lines::<Case>("cases.jsonl"), lines::<Answer>("answers.jsonl"));
    assert_eq!(cases.len(), answers.len(), "record the answers: make fixtures");
    let masks = Masks::new();
    let mut wrong = String::new();
    for (case, theirs) in cases.iter().zip(&answers) {
        let ours = run(Path::new(env!("CARGO_BIN_EXE_windlass")), case, &masks);
        if ours == *theirs {
            continue;
        }
        writeln!(wrong, "helm {:?} {:?}", case.args, case.env).unwrap();
        for (name, theirs, ours) in [("out", &theirs.out, &ours.out), ("err", &theirs.err, &ours.err)] {
            if theirs != ours {
                writeln!(wrong, "  {name} {theirs:?}\n      {ours:?}").unwrap();
            }
        }
        if theirs.code != ours.code {
            writeln!(wrong, "  code {} {}", theirs.code, ours.code).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// `make fixtures`.
#[test]
#[ignore = "writes fixtures"]
fn record() {
    let helm = Tool::Helm4.path().unwrap();
    let masks = Masks::new();
    let mut text = String::new();
    for case in lines::<Case>("cases.jsonl") {
        text += &serde_json::to_string(&run(&helm, &case, &masks)).unwrap();
        text.push('\n');
    }
    fs::write(folder().join("answers.jsonl"), text).unwrap();
}

/// Help is no error: a verb is not asked for.
#[test]
fn help_is_told_on_standard_output() {
    for args in
        [&[][..], &["help"], &["--help"], &["repo"], &["get"], &["help", "install"], &["registry", "nope"]]
    {
        let case = Case { args: args.iter().map(|arg| (*arg).to_owned()).collect(), env: BTreeMap::new() };
        let answer = run(Path::new(env!("CARGO_BIN_EXE_windlass")), &case, &Masks::new());
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "{args:?}");
        assert!(answer.out.contains("Usage:"), "{args:?} {}", answer.out);
    }
}
