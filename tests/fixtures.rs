//! The fixture charts and the ready-made modules, beside what real Helm printed for them.
//!
//! A case is a directory `fixtures/{charts,modules}/NAME/cases/CASE`. Its chart is `fixtures/charts/NAME/chart` or
//! `modules/NAME`; a file `chart.txt` leads to another one from there. `values.yaml` and the lines of `args.txt` are
//! optional; `only.txt` names the one Helm to be equal to. `make fixtures` writes `expected.PROFILE.yaml` (standard
//! output, if Helm succeeded), `expected.PROFILE.err` (standard error, if there was any; this directory is `ROOT`) and the list of what was
//! recorded, `fixtures/recorded.txt`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use chart_compat::profile::Profile;
use chart_compat::render::function_names;
use sha2::{Digest as _, Sha256};
use windlass_testing::Tool;

const LIST: &str = "fixtures/recorded.txt";

/// A Helm to be equal to, the flag value that says so, and the folder that pins it.
const HELMS: [(&str, Tool); 2] = [("helm4", Tool::Helm4), ("helm3", Tool::Helm3)];

struct Case {
    /// The case's directory, from the root.
    path: String,
    /// The directory of the fixture, for all that its cases share.
    fixture: String,
    chart: String,
}

/// What a command did.
#[derive(PartialEq, Eq)]
struct Outcome {
    /// Standard output; `None` for a failure.
    output: Option<String>,
    errors: String,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names in a directory, in order.
fn names(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(directory)).unwrap_or_else(|e| panic!("{directory}: {e}"));
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in ["charts", "modules"] {
        for name in names(&format!("fixtures/{kind}")) {
            let fixture = format!("fixtures/{kind}/{name}");
            for case in names(&format!("{fixture}/cases")) {
                let path = format!("{fixture}/cases/{case}");
                let mut chart =
                    if kind == "charts" { format!("{fixture}/chart") } else { format!("modules/{name}") };
                if let Some(other) = read(&format!("{path}/chart.txt")) {
                    chart = format!("{chart}/{}", other.trim());
                }
                cases.push(Case { path, fixture: fixture.clone(), chart });
            }
        }
    }
    cases
}

impl Case {
    fn arguments(&self) -> Vec<String> {
        let mut arguments =
            ["template", "demo", &self.chart, "--namespace", "fixtures"].map(str::to_owned).to_vec();
        let values = format!("{}/values.yaml", self.path);
        if root().join(&values).is_file() {
            arguments.extend(["--values".to_owned(), values]);
        }
        let own = read(&format!("{}/args.txt", self.path)).unwrap_or_default();
        arguments.extend(own.lines().map(str::to_owned));
        arguments
    }

    /// Names all that the recording depends on: the chart, the case and the Helm.
    fn digest(&self, tool: Tool) -> String {
        let mut files = Vec::new();
        let module = self.chart.strip_prefix("modules/").map(|_| self.chart.as_str());
        for directory in [Some(self.fixture.as_str()), module].into_iter().flatten() {
            collect(&root().join(directory), &mut files);
        }
        let cases = root().join(&self.fixture).join("cases");
        files.retain(|f| !f.starts_with(&cases) || f.starts_with(root().join(&self.path)));
        files.retain(|f| !f.file_name().unwrap().to_string_lossy().starts_with("expected."));
        let pin = if tool == Tool::Helm4 { "helm4" } else { "helm3" };
        files.push(root().join(format!("tests/tools/{pin}/go.mod")));

        let mut digest = Sha256::new();
        for argument in self.arguments() {
            digest.update(argument + "\0");
        }
        for file in files {
            // A link that leads nowhere counts as what it says.
            let target = || fs::read_link(&file).map(|to| to.into_os_string().into_encoded_bytes());
            let bytes = fs::read(&file).or_else(|_| target()).unwrap();
            let name = file.strip_prefix(root()).unwrap().to_string_lossy();
            digest.update(format!("{name}\0{}\0", bytes.len()));
            digest.update(bytes);
        }
        digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The Helms that the case is recorded from.
    fn helms(&self) -> impl Iterator<Item = (&'static str, Tool)> {
        let only = read(&format!("{}/only.txt", self.path));
        HELMS
            .into_iter()
            .filter(move |(profile, _)| only.as_deref().is_none_or(|only| only.trim() == *profile))
    }

    fn expected(&self, profile: &str) -> Outcome {
        let file = |end: &str| read(&format!("{}/expected.{profile}.{end}", self.path));
        Outcome { output: file("yaml"), errors: file("err").unwrap_or_default() }
    }

    fn record(&self, profile: &str, outcome: &Outcome) {
        let errors = Some(&outcome.errors).filter(|text| !text.is_empty());
        for (end, text) in [("yaml", outcome.output.as_ref()), ("err", errors)] {
            let path = root().join(format!("{}/expected.{profile}.{end}", self.path));
            match text {
                Some(text) => fs::write(&path, text).unwrap(),
                None if path.exists() => fs::remove_file(&path).unwrap(),
                None => {}
            }
        }
    }
}

/// All files below a directory, in order.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Runs a program from the root, with nothing of the user's environment: no cluster, no Helm home.
fn run(program: &Path, arguments: &[String], profile: &str) -> Outcome {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .env_clear()
        .env("HOME", home.path())
        .env("TZ", "UTC")
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    // Some messages name whole paths, which are others on each machine.
    let here = root().to_string_lossy();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&*here, "ROOT");
    let errors = told(&text(output.stderr), profile);
    Outcome { output: output.status.success().then(|| text(output.stdout)), errors }
}

/// A line of ours beside Helm's text: a comment.
fn is_hint(line: &str) -> bool {
    line.starts_with("# Warning: ")
}

/// What of standard error is compared: warnings and breaches of a schema come in no order, as Go ranges over maps, and are
/// sorted; warnings of Helm 3 tell lines of its source, so that of it only the final error counts.
fn told(errors: &str, profile: &str) -> String {
    let start = if profile == "helm3" { errors.find("Error: ").unwrap_or(errors.len()) } else { 0 };
    let (mut log, rest): (Vec<&str>, Vec<&str>) = errors[start..]
        .split_inclusive('\n')
        .filter(|line| !is_hint(line))
        .partition(|line| line.starts_with("level="));
    log.sort_unstable();
    let mut out = log.concat();
    // A breach is told in a line, and indented below it what led there.
    let mut breaches: Vec<String> = Vec::new();
    for line in rest {
        match breaches.last_mut() {
            Some(last) if line.starts_with("  ") => *last += line,
            _ if line.starts_with("- at ") => breaches.push(line.to_owned()),
            _ => {
                breaches.sort_unstable();
                out += &breaches.concat();
                breaches.clear();
                out += line;
            }
        }
    }
    breaches.sort_unstable();
    out + &breaches.concat()
}

/// What was recorded, by case and profile.
fn recorded() -> BTreeMap<String, String> {
    let list = read(LIST).unwrap_or_default();
    list.lines()
        .filter_map(|l| l.split_once(' '))
        .map(|(digest, case)| (case.to_owned(), digest.to_owned()))
        .collect()
}

fn difference(expected: &Outcome, given: &Outcome) -> String {
    let sides = [expected, given].map(|o| match &o.output {
        Some(output) => format!("{output}{}", o.errors),
        None => format!("(failed)\n{}", o.errors),
    });
    let [helm, ours] = &sides;
    let same = helm.lines().zip(ours.lines()).take_while(|(a, b)| a == b).count();
    let rest = |text: &str| {
        text.lines().skip(same).take(4).fold(String::new(), |all, line| all + "    " + line + "\n")
    };
    format!("  from line {}, Helm prints\n{}  and we\n{}", same + 1, rest(helm), rest(ours))
}

#[test]
fn charts_render_as_helm_renders_them() {
    let cases = cases();
    let runs: Vec<(&Case, &str)> =
        cases.iter().flat_map(|case| case.helms().map(move |(profile, _)| (case, profile))).collect();
    let compared = |(case, profile): &(&Case, &str)| {
        let mut arguments = case.arguments();
        arguments.extend(["--compat".to_owned(), (*profile).to_owned()]);
        let given = run(Path::new(env!("CARGO_BIN_EXE_windlass")), &arguments, profile);
        let expected = case.expected(profile);
        (expected != given).then(|| format!("{} as {profile}\n{}", case.path, difference(&expected, &given)))
    };
    // One part for each processor: a `windlass template` of a small chart uses one.
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let part = |part: &'_ [(&Case, &str)]| part.iter().filter_map(compared).collect::<Vec<String>>();
        let threads: Vec<_> =
            runs.chunks(runs.len().div_ceil(parts)).map(|runs| scope.spawn(move || part(runs))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), runs.len(), wrong.join("\n"));
}

#[test]
fn every_case_is_recorded() {
    let mut now = BTreeMap::new();
    for case in cases() {
        for (profile, tool) in case.helms() {
            now.insert(format!("{} {profile}", case.path), case.digest(tool));
        }
    }
    let then = recorded();
    let mut stale: Vec<&String> =
        now.iter().filter(|(k, v)| then.get(*k) != Some(v)).map(|(k, _)| k).collect();
    stale.extend(then.keys().filter(|k| !now.contains_key(*k)));
    assert!(stale.is_empty(), "new, changed or gone since the recording (make fixtures): {stale:#?}");
}

/// The words of a text that stand in actions and could be names of functions.
fn called(text: &str, words: &mut BTreeSet<String>) {
    for action in text.split("{{").skip(1) {
        let action = action.split("}}").next().unwrap_or_default();
        // Between quotes stands text; of an odd number of quotes the last part is outside.
        for code in action.split(['"', '`']).step_by(2) {
            let mut rest = code;
            while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || matches!(c, '.' | '$')) {
                let word = &rest[start..];
                let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$');
                let end = word.find(|c| !inner(c)).unwrap_or(word.len());
                words.insert(word[..end].to_owned());
                rest = &word[end..];
            }
        }
    }
}

#[test]
fn every_function_is_used_by_a_fixture() {
    let mut files = Vec::new();
    collect(&root().join("fixtures/charts"), &mut files);
    files.retain(|f| !f.file_name().unwrap().to_string_lossy().starts_with("expected."));
    let mut words = BTreeSet::new();
    for text in files.iter().filter_map(|f| fs::read_to_string(f).ok()) {
        called(&text, &mut words);
    }
    let all = [Profile::Helm4, Profile::Helm3].into_iter().flat_map(function_names);
    let unused: BTreeSet<&str> = all.filter(|name| !words.contains(*name)).collect();
    assert!(unused.is_empty(), "no fixture uses {unused:?}");
}

#[test]
#[ignore = "writes the recordings: make fixtures"]
fn record() {
    let mut list = String::new();
    for case in cases() {
        for (profile, tool) in case.helms() {
            case.record(profile, &run(&tool.path().unwrap(), &case.arguments(), profile));
            writeln!(list, "{} {} {profile}", case.digest(tool), case.path).unwrap();
        }
    }
    fs::write(root().join(LIST), list).unwrap();
}
