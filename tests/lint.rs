//! `windlass lint` beside what Helm 4 says of the same charts, and Helm 3 where `--compat` asks for it.
//!
//! Charts are the directories of `fixtures/lint` and some of `fixtures/charts`; each is linted with every set of flags below.
//! `make fixtures` writes what Helm answers to `fixtures/lint/recorded.txt`, and the test fails on a chart that is not there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use windlass_testing::Tool;

const RECORDED: &str = "fixtures/lint/recorded.txt";

const HELM3: &str = "--compat=helm3";

const FLAGS: [&str; 6] = ["", "--strict", "--quiet", "--with-subcharts", "--kube-version=1.20.0", HELM3];

/// Charts made for other tests that lint has something to say of, or nothing, for different reasons.
const OTHERS: [&str; 10] =
    ["blocks", "broken", "calls", "family", "files", "layers", "notes", "order", "schema", "unparsed"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn directories(path: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(path)).unwrap().map(|e| e.unwrap());
    let mut names: Vec<String> = entries
        .filter(|e| e.file_type().unwrap().is_dir())
        .map(|e| format!("{path}/{}", e.file_name().into_string().unwrap()))
        .collect();
    names.sort();
    names
}

/// The command lines that are compared.
fn cases() -> Vec<String> {
    let others = OTHERS.into_iter().map(|name| format!("fixtures/charts/{name}/chart"));
    let charts = directories("fixtures/lint").into_iter().chain(others);
    charts.flat_map(|chart| FLAGS.map(|flags| format!("{flags} {chart}").trim().to_owned())).collect()
}

/// Whether Helm 3 logs the line while it reads a chart and its values, or we do: ours has Helm 4's form. What templates made it
/// say while they were rendered is compared.
fn is_log(line: &str) -> bool {
    let (file, _) = line.split_once(':').unwrap_or((line, ""));
    file.ends_with(".go") && file != "engine.go" || line.starts_with("level=")
}

/// What a program answers: its output, its log lines and errors in order of text, its status.
fn run(program: &Path, arguments: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let is_ours = program == Path::new(env!("CARGO_BIN_EXE_windlass"));
    let output = Command::new(program)
        .arg("lint")
        .args(arguments.iter().filter(|a| is_ours || !a.starts_with("--compat")))
        .current_dir(root())
        .env_clear()
        .env("HOME", home.path())
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let errors = text(output.stderr);
    // Go ranges over maps in no order.
    let mut errors: Vec<&str> = errors.lines().collect();
    errors.sort_unstable();
    if arguments.contains(&"--compat=helm3") {
        errors.retain(|line| !is_log(line));
    }
    let all =
        format!("{}{}\nexit {}\n", text(output.stdout), errors.join("\n"), output.status.code().unwrap());
    all.replace(root().to_str().unwrap(), "ROOT")
}

fn recorded() -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join(RECORDED)).unwrap_or_default();
    let cases = text.split("=== lint ").skip(1).filter_map(|case| case.split_once('\n'));
    cases.map(|(arguments, answer)| (arguments.to_owned(), answer.to_owned())).collect()
}

#[test]
fn lint_says_what_helm_says() {
    let recorded = recorded();
    let (mut wrong, cases) = (Vec::new(), cases());
    for case in &cases {
        let mut arguments: Vec<&str> = case.split(' ').collect();
        arguments.push("--only-helm");
        let given = run(Path::new(env!("CARGO_BIN_EXE_windlass")), &arguments);
        match recorded.get(case) {
            None => wrong.push(format!("{case}: not recorded (make fixtures)")),
            Some(helm) if *helm != given => wrong.push(format!("{case}: Helm says\n{helm}and we\n{given}")),
            Some(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert_eq!(recorded.len(), cases.len(), "recorded answers whose charts are gone (make fixtures)");
}

/// Our own findings stand beside Helm's, never between them, and change no status: without them the output is what Helm prints.
#[test]
fn our_findings_can_be_told_apart() {
    let program = Path::new(env!("CARGO_BIN_EXE_windlass"));
    let (mut found, recorded) = (0, recorded());
    for case in cases().iter().filter(|c| !c.contains("--quiet")) {
        let arguments: Vec<&str> = case.split(' ').collect();
        let all = run(program, &arguments);
        let ours = |line: &&str| line.starts_with("[WINDLASS] ");
        found += all.lines().filter(ours).count();
        let rest: String = all.lines().filter(|l| !ours(l)).map(|l| format!("{l}\n")).collect();
        assert_eq!(Some(&rest), recorded.get(case), "{case}");
    }
    assert!(found > 5, "only {found} findings");
}

#[test]
#[ignore = "writes the recordings: make fixtures"]
fn record() {
    let (helm3, helm4) = (Tool::Helm3.path().unwrap(), Tool::Helm4.path().unwrap());
    let answer = |case: &String| {
        let helm = if case.contains(HELM3) { &helm3 } else { &helm4 };
        let answer = run(helm, &case.split(' ').collect::<Vec<_>>());
        format!("=== lint {case}\n{answer}")
    };
    let text: String = cases().iter().map(answer).collect();
    fs::write(root().join(RECORDED), text).unwrap();
}
