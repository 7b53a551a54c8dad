//! Every fixture that fails, with a marker in each of its secrets: no output may show one.

mod cases;
mod mark;
mod module;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_testing::{ControlPlane, wait_until};

use cases::Case;
use mark::{IN_LOOKUP, MARKERS};

use crate::support::{MODULES, Modules, Operator};

/// How long the operator may take for hundreds of modules.
const LIMIT: Duration = Duration::from_secs(300);

/// What is installed here may reach beyond a namespace.
fn own_control_plane() -> &'static ControlPlane {
    static OWN: OnceLock<ControlPlane> = OnceLock::new();
    OWN.get_or_init(|| ControlPlane::start().expect("a control plane"))
}

/// A copy of `fixtures/` and `modules/`, and what fails there.
struct Fixtures {
    tree: TempDir,
    cases: Vec<Case>,
}

impl Fixtures {
    fn new() -> Self {
        let tree = tempfile::tempdir().unwrap();
        for directory in ["fixtures", "modules"] {
            copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &tree.path().join(directory));
        }
        let cases = cases::collect(tree.path());
        Self { tree, cases }
    }
}

/// Copies a directory, links as links.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in cases::names(from) {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from).unwrap(), &to).unwrap();
        } else if from.is_dir() {
            copy(&from, &to);
        } else {
            fs::copy(&from, &to).unwrap();
        }
    }
}

/// What the runs of many commands came to.
#[derive(Default)]
struct Runs {
    failed: usize,
    masked: usize,
    succeeded: Vec<String>,
    leaks: Vec<String>,
}

impl Runs {
    fn note(&mut self, name: &str, succeeded: bool, text: &str) {
        match succeeded {
            true => self.succeeded.push(name.to_owned()),
            false => self.failed += 1,
        }
        self.masked += usize::from(text.contains("***"));
        for line in text.lines().filter(|line| MARKERS.iter().any(|marker| line.contains(marker))) {
            self.leaks.push(format!("{name}: {line}"));
        }
    }
}

/// Runs a command for each case, some at once. What `template` prints to standard output when it succeeds is what was asked for.
fn run_all(fixtures: &Fixtures, words: impl Fn(&Case, usize) -> Option<Vec<String>> + Sync) -> Runs {
    let (runs, next) = (Mutex::new(Runs::default()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = fixtures.cases.get(number) else { return };
                    let Some(words) = words(case, number) else { continue };
                    let home = tempfile::tempdir().unwrap();
                    let out = Command::new(env!("CARGO_BIN_EXE_windlass"))
                        .args(&words)
                        .arg("--explain-errors")
                        .current_dir(fixtures.tree.path())
                        .env_clear()
                        .env("HOME", home.path())
                        .env("KUBECONFIG", own_control_plane().kubeconfig())
                        .output()
                        .unwrap();
                    let shown =
                        if words[0] == "template" && out.status.success() { Vec::new() } else { out.stdout };
                    let text = String::from_utf8_lossy(&[shown, out.stderr].concat()).into_owned();
                    runs.lock().unwrap().note(
                        &format!("{}: {}", case.name, words.join(" ")),
                        out.status.success(),
                        &text,
                    );
                }
            });
        }
    });
    runs.into_inner().unwrap()
}

fn words(words: &[&str], more: &[&[String]]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).chain(more.concat()).collect()
}

#[test]
fn values_that_a_schema_marks_are_in_no_output() {
    let fixtures = Fixtures::new();
    mark::values(fixtures.tree.path(), &fixtures.cases);
    let namespace = own_control_plane().namespace("failing-values").unwrap();
    let mut all = Vec::new();
    for profile in ["helm4", "helm3"] {
        all.push(run_all(&fixtures, |case, _| {
            let verb = ["template", "demo", &case.chart, "--compat", profile];
            Some(words(&verb, &[&case.values, &case.template]))
        }));
    }
    all.push(run_all(&fixtures, |case, _| Some(words(&["lint", &case.chart], &[&case.values]))));
    all.push(run_all(&fixtures, |case, number| {
        let verb =
            ["install", &format!("case-{number}"), &case.chart, "-n", namespace.name(), "--timeout", "1s"];
        case.template.is_empty().then(|| words(&verb, &[&case.values]))
    }));
    check(&all);
}

#[test]
fn secrets_that_templates_look_up_or_make_are_in_no_output() {
    let cp = own_control_plane();
    let namespace = cp.namespace("failing-objects").unwrap();
    let ns = ["-n", namespace.name()];
    secret(cp, namespace.name());
    let fixtures = Fixtures::new();
    mark::objects(fixtures.tree.path());
    let mut all = Vec::new();
    for verb in [&["template", "--dry-run=server"][..], &["upgrade", "--install", "--timeout=1s"], &["plan"]]
    {
        all.push(run_all(&fixtures, |case, number| {
            let is_template = verb[0] == "template";
            let keys = format!("--set=markedKeys={{{}}}", mark::keys(fixtures.tree.path(), case));
            let name = format!("case-{number}");
            let own = [verb, &[&name, &case.chart, &keys], &ns].concat();
            let more = if is_template { &case.template } else { &Vec::new() };
            (is_template || case.template.is_empty()).then(|| words(&own, &[&case.values, more]))
        }));
    }
    check(&all);
}

#[test]
fn nothing_that_the_operator_says_of_modules_that_fail_has_a_secret() {
    let cp = own_control_plane();
    let namespace = cp.namespace("failing-modules").unwrap();
    let ns = ["-n", namespace.name()];
    secret(cp, namespace.name());
    let fixtures = Fixtures::new();
    mark::objects(fixtures.tree.path());
    mark::values(fixtures.tree.path(), &fixtures.cases);
    let modules = Modules::new();
    let (mut names, mut config) = (Vec::new(), serde_json::Map::new());
    // A package is not a module.
    let is_module =
        |case: &&Case| case.template.is_empty() && fixtures.tree.path().join(&case.chart).is_dir();
    for case in fixtures.cases.iter().filter(is_module) {
        let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
        let number = names.len();
        let name: String =
            ["case".to_owned(), [676, 26, 1].map(|n| letter(number / n)).iter().collect()].concat();
        if let Some(text) = module::write_module(fixtures.tree.path(), case, &name, modules.path()) {
            config.insert(name.clone(), json!(text));
        }
        names.push(name);
    }
    modules.enable(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "addon-operator"}, "data": config});
    cp.kubectl_with(["create", "-f", "-"].iter().chain(&ns), &object.to_string()).unwrap();
    let socket = modules.path().join("socket");
    let arguments = ["--debug-unix-socket", socket.to_str().unwrap(), "--log-level", "debug"];
    let operator = Operator::start_with(cp, namespace.name(), modules.path(), &arguments);
    wait_until("every module was tried", LIMIT, || {
        Ok(operator.get("/readyz").filter(|(status, _)| *status == 200).map(|_| ()))
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", operator.log_end()));
    let statuses = || cp.list(&[&[MODULES], &ns[..]].concat()).unwrap();
    wait_until("every module has a status", LIMIT, || {
        let said = |m: &&Value| m["status"]["lastError"].is_string() || m["status"]["phase"] == "Ready";
        Ok((statuses().iter().filter(said).count() == names.len()).then_some(()))
    })
    .unwrap_or_else(|e| panic!("{e}\n{}", operator.log_end()));
    let kubectl = |kind: &str| cp.kubectl(["get", kind, "-o", "json"].iter().chain(&ns)).unwrap();
    let mut runs = Runs::default();
    for (from, text) in [("statuses", kubectl(MODULES)), ("Events", kubectl("events"))] {
        runs.note(from, false, &text);
    }
    for words in
        [&["queue", "main"][..], &["queue", "list", "-o", "json"], &["module", "list"], &["config", "list"]]
    {
        let windlass = Command::new(env!("CARGO_BIN_EXE_windlass"));
        let out = { windlass }.args(words).env("DEBUG_UNIX_SOCKET", &socket).output().unwrap();
        runs.note(&words.join(" "), false, &String::from_utf8_lossy(&[out.stdout, out.stderr].concat()));
    }
    runs.note("metrics", false, &operator.get("/metrics").unwrap().1);
    runs.note("progress", false, &operator.get("/status/converge").unwrap().1);
    let failed = statuses().iter().filter(|m| m["status"]["lastError"].is_string()).count();
    let log = operator.log();
    runs.note("log", false, &log);
    operator.stop();
    runs.failed = failed;
    runs.masked = log.lines().filter(|line| line.contains("***")).count();
    check(&[runs]);
}

fn secret(cp: &ControlPlane, namespace: &str) {
    let literal = format!("--from-literal=password={IN_LOOKUP}");
    cp.kubectl(["create", "secret", "generic", "existing", &literal, "-n", namespace]).unwrap();
}

/// Most of the runs fail, and many of them for a reason that quotes a secret.
fn check(all: &[Runs]) {
    for runs in all {
        let (failed, masked, succeeded) = (runs.failed, runs.masked, &runs.succeeded);
        assert!(
            failed > 400 && masked > 50,
            "{failed} failed, {masked} masked, these succeeded: {succeeded:#?}"
        );
    }
    let leaks: Vec<&String> = all.iter().flat_map(|runs| &runs.leaks).collect();
    assert!(leaks.is_empty(), "{} lines: {leaks:#?}", leaks.len());
}
