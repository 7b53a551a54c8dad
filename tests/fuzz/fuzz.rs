//! Nothing that comes from outside makes a reader panic, hang or eat the machine.
//!
//! Inputs are generated, or fixtures that were damaged. A test run takes a few hundred of each target at random. `make fuzz` lets
//! libFuzzer look for inputs that reach new code, in a process of its own for each target, and `make fuzz-coverage` says which lines all of
//! them together reached (`fuzz.py`). The process has 256 MiB: who wants more ends it. What a target was given last lies in `target/fuzz`
//! then. What was found once is in `fixtures/fuzz`, and every run begins with it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

mod fuzz_charts;
mod fuzz_helmfile;
mod fuzz_kustomize;
mod fuzz_operator;
mod fuzz_repositories;
mod fuzz_sources;

use std::env;
use std::fs;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bolero::check;
use chart_compat::chart::{File, Rules, load_files, read_archive};
use chart_compat::data::Map;
use chart_compat::go::{duration, glob::Glob, regexp, semver, url};
use chart_compat::template::Limits;
use chart_compat::values::strvals;
use chart_compat::{json, kyaml, render, yaml};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use windlass_differential::choices::Choices;
use windlass_differential::{Case, Family, Kind, damaged, ours};

/// Inputs of each target in a test run.
const INPUTS: usize = 300;
/// What one input may take, in a build without optimization beside other builds.
const INPUT_LIMIT: Duration = Duration::from_secs(20);
/// Memory that the whole process may write to, in bytes.
const MEMORY: u64 = 256 << 20;
/// Bounds of a render that a template of a few kilobytes cannot need.
const LIMITS: Limits = Limits { depth: 2000, memory: 32 << 20, steps: 100_000, output: 8 << 20 };

/// Longest input of libFuzzer, in bytes: it begins with the seeds, of which most are shorter.
const LONGEST: usize = 16 << 10;
/// The only target of this process: libFuzzer takes one, and never returns. Empty: targets say their names, and nothing runs.
const TARGET: &str = "FUZZ_TARGET";
/// A directory of inputs: libFuzzer begins with the seeds there.
const CORPUS: &str = "FUZZ_CORPUS";
/// A directory of inputs of which the target gets each once, and no others.
const REPLAY: &str = "FUZZ_REPLAY";

/// One target at a time: the memory is that of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Gives the process the memory of a small Pod, and its readers the shares that they take of that.
fn limit_memory() {
    static LIMITED: Once = Once::new();
    LIMITED.call_once(|| {
        let limit = Rlimit { current: Some(MEMORY), ..getrlimit(Resource::Data) };
        setrlimit(Resource::Data, limit).unwrap();
        windlass_render::bound_input();
    });
}

/// Where the input of a target lies while it runs, for when nothing of this process is left to tell it.
fn last_input(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../fuzz");
    fs::create_dir_all(&directory).unwrap();
    directory.join(file_name(name))
}

fn file_name(target: &str) -> String {
    target.replace([' ', ','], "-")
}

/// What was found once.
fn found(name: &str) -> Vec<Vec<u8>> {
    let directory = fixtures().join("fuzz").join(file_name(name));
    if directory.is_dir() {
        files(&directory, &|_| true).into_iter().map(|(_, text)| text).collect()
    } else {
        Vec::new()
    }
}

/// Whether this process is for a target.
fn is_wanted(name: &str) -> bool {
    let Ok(wanted) = env::var(TARGET) else { return true };
    if wanted.is_empty() {
        let test = thread::current();
        let told = format!("{}\t{name}", test.name().unwrap_or_default());
        // `fuzz.py` reads it.
        drop(writeln!(io::stderr(), "{told}"));
    }
    wanted == name
}

/// Writes seeds as inputs that are the bytes behind the first one.
fn write_seeds(directory: &str, seeds: &[Vec<u8>]) {
    for (n, seed) in seeds.iter().enumerate().filter(|(_, seed)| seed.len() < LONGEST) {
        fs::write(Path::new(directory).join(format!("seed-{n}")), [b"\0", &seed[..]].concat()).unwrap();
    }
}

/// Feeds a target, and watches over it.
fn fuzz(name: &str, seeds: &[Vec<u8>], grammar: &[Family], target: impl Fn(&[u8])) {
    if !is_wanted(name) {
        return;
    }
    if let Ok(directory) = env::var(REPLAY) {
        for (_, bytes) in files(Path::new(&directory), &|_| true) {
            target(&input(&bytes, seeds, grammar));
        }
        return;
    }
    let longest = match env::var(CORPUS) {
        Ok(directory) => {
            write_seeds(&directory, seeds);
            LONGEST
        }
        Err(_) => 4096,
    };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    limit_memory();
    let last = last_input(name);
    let (count, slowest) = (AtomicU64::new(0), AtomicU64::new(0));
    for input in found(name) {
        target(&input);
    }
    // What a panic leaves behind is not looked at: it ends the test.
    let target = AssertUnwindSafe(target);
    check!().with_iterations(INPUTS).with_max_len(longest).for_each(|bytes: &[u8]| {
        let input = input(bytes, seeds, grammar);
        fs::write(&last, &input).unwrap();
        let begin = Instant::now();
        target(&input);
        let took = begin.elapsed();
        count.fetch_add(1, Ordering::Relaxed);
        slowest.fetch_max(u64::try_from(took.as_millis()).unwrap(), Ordering::Relaxed);
        assert!(took < INPUT_LIMIT, "{name}: {took:?} for {:?}", String::from_utf8_lossy(&input));
    });
    let (count, slowest) = (count.into_inner(), slowest.into_inner());
    let told = format!("{count} inputs, the slowest took {slowest} ms, {} MiB resident", resident());
    // Whether anybody reads it is no matter.
    drop(writeln!(io::stderr(), "{name}: {told}"));
}

/// One input: generated, damaged or made of any bytes.
fn input(bytes: &[u8], seeds: &[Vec<u8>], grammar: &[Family]) -> Vec<u8> {
    let Some((first, rest)) = bytes.split_first() else { return Vec::new() };
    let tape = rest.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.last().unwrap())).collect();
    let mut c = Choices::replayed(tape);
    match first % 8 {
        0 => rest.to_vec(),
        1..=3 if !grammar.is_empty() => c.of(grammar).make(&mut c).text,
        _ if seeds.is_empty() => rest.to_vec(),
        rounds => {
            let mut text = seeds[c.below(seeds.len())].clone();
            for _ in 0..rounds {
                text = damaged(&mut c, text);
            }
            text
        }
    }
}

/// Resident memory in MiB; 0 where the system does not tell.
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4 / 1024
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// All files below a directory of the fixtures that are wanted, in order.
fn files(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(files(&path, wanted));
        } else if path.is_file() && wanted(&path) {
            // A link that leads nowhere is a fixture of its own.
            found.push((path.to_string_lossy().into_owned(), fs::read(&path).unwrap()));
        }
    }
    found
}

fn texts(directory: &str, wanted: &dyn Fn(&Path) -> bool) -> Vec<Vec<u8>> {
    let texts: Vec<_> =
        files(&fixtures().join(directory), wanted).into_iter().map(|(_, text)| text).collect();
    assert!(!texts.is_empty(), "no seeds in {directory}");
    texts
}

fn ends(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

#[test]
fn streams_of_manifests() {
    let seeds = texts("yaml/documents", &|_| true);
    fuzz("manifests", &seeds, &[Family::Manifests, Family::Yaml], |text| {
        let text = String::from_utf8_lossy(text);
        drop(kyaml::with_labels(&text, &[("a".to_owned(), "b".to_owned())].into(), &yaml::Room::default()));
        let Ok(written) =
            kyaml::read_numbered(&text, &yaml::Room::default()).and_then(|nodes| kyaml::write(&nodes))
        else {
            return;
        };
        drop(kyaml::read(&written));
    });
}

#[test]
fn yaml_documents() {
    let seeds = texts("yaml/documents", &|_| true);
    fuzz("yaml", &seeds, &[Family::Yaml], |text| {
        drop(yaml::from_slice_strict(text));
        drop(yaml::from_slice_map(text));
        drop(yaml::head(text));
        let Ok(data) = yaml::from_slice(text) else { return };
        drop(yaml::to_string_pretty(&data));
        let Ok(written) = yaml::to_string(&data) else { return };
        // Not always what was written: Go leaves a key `<<` bare too.
        drop(yaml::from_slice(written.as_bytes()));
    });
}

#[test]
fn json_texts() {
    let seeds = texts("yaml/documents", &|p| ends(p, "json"));
    fuzz("json", &seeds, &[], |text| {
        drop(json::first_value(text));
        let Ok(data) = json::from_slice(text) else { return };
        let written = json::to_string(&data).unwrap();
        assert_eq!(json::from_slice(written.as_bytes()).unwrap(), data);
        drop(json::to_string_pretty(&data));
    });
}

#[test]
fn toml_texts() {
    let seeds = [
        "a = 1\n[t]\nb = [1, 2.5, \"x\"]\n[[l]]\nc = {d = 2024-02-29T12:00:00Z}\n",
        "s = \"\"\"\nm \\\n  n\"\"\"\nq = '''\nx'''\n\"k.k\".z = inf\nd = 12:30:00.5\n",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|s| s.as_bytes().to_vec()).collect();
    fuzz("toml", &seeds, &[], |text| {
        let case = Case {
            kind: Kind::Template,
            text: b"{{ fromToml .Values.t | toToml }}".to_vec(),
            values: serde_json::json!({"t": String::from_utf8_lossy(text)}),
        };
        drop(ours::answer_within(&case, LIMITS));
    });
}

#[test]
fn templates() {
    let mut seeds =
        texts("charts", &|p| ends(p, "tpl") || p.parent().is_some_and(|d| d.ends_with("templates")));
    let probes = fs::read(fixtures().join("templates/probes.json")).unwrap();
    let probes: serde_json::Value = serde_json::from_slice(&probes).unwrap();
    for group in probes["groups"].as_array().unwrap() {
        seeds.extend(
            group["templates"].as_array().unwrap().iter().map(|t| t.as_str().unwrap().as_bytes().to_vec()),
        );
    }
    let values = Family::Template.make(&mut Choices::seeded(1)).values;
    fuzz(
        "template",
        &seeds,
        &[Family::Template, Family::Function, Family::Codec, Family::Printf, Family::Time],
        |text| {
            let case = Case { kind: Kind::Template, text: text.to_vec(), values: values.clone() };
            drop(ours::answer_within(&case, LIMITS));
        },
    );
}

#[test]
fn schemas() {
    let seeds = texts("charts", &|p| p.ends_with("values.schema.json"));
    let values = Family::Template.make(&mut Choices::seeded(1)).values;
    fuzz("schema", &seeds, &[], |text| drop(ours::validate(text, &values)));
}

#[test]
fn lines_of_set() {
    let seeds: Vec<Vec<u8>> =
        ["a.b[0]=1,c={x,y}", "a=[1,{\"b\":null}]"].iter().map(|s| s.as_bytes().to_vec()).collect();
    fuzz("strvals", &seeds, &[Family::Set], |text| {
        let line = String::from_utf8_lossy(text);
        let mut values = Map::new();
        drop(strvals::parse_into(&mut values, &line));
        drop(strvals::parse_into_string(&mut values, &line));
        drop(strvals::parse_json(&mut values, &line));
        drop(strvals::parse_literal(&mut values, &line));
        drop(json::to_string(&values.into()));
    });
}

#[test]
fn patterns() {
    let seeds: Vec<Vec<u8>> = [
        "(a|b)*c+?[[:alpha:]]{2,3}\\pL(?i:x)\\b",
        "{a,b*}/**/[!c-d]?",
        ">=1.2.x <2.0.0-0 || ~3.1",
        "https://u:p@h:8/p?q#f",
    ]
    .iter()
    .map(|s| s.as_bytes().to_vec())
    .collect();
    fuzz("patterns", &seeds, &[Family::Regexp, Family::Glob, Family::Semver, Family::Time], |text| {
        let subject = b"aab-axxb a.txt conf/b.yaml 1.2.3 \xC3\xA9 \xFF";
        if let Ok(pattern) = regexp::compile(text) {
            black_box(pattern.is_match(subject));
            black_box(pattern.find_all(subject, -1));
            black_box(pattern.replace_all(subject, b"${1}x$0", usize::MAX, &mut |_| Ok::<_, ()>(())).ok());
            drop(black_box(pattern.split(subject, -1, &mut |_| Ok::<_, ()>(())).ok()));
            // An expression on itself: longer texts.
            black_box(pattern.find_all(text, -1));
        }
        let told = String::from_utf8_lossy(text);
        if let Some(glob) = Glob::parse(&told) {
            black_box(glob.matches("conf/deep/er/a.txt"));
            black_box(glob.matches(&told));
        }
        drop(Rules::parse(&told).map(|rules| rules.ignores("templates/a.yaml", false)));
        if let (Ok(range), Ok(version)) = (semver::Range::parse(&told), semver::parse("1.2.3-rc.1")) {
            black_box(range.check(&version));
        }
        drop(semver::parse(&told));
        drop(duration::parse(&told));
        drop(url::Url::parse(text).map(|u| u.to_bytes()));
        drop(render::split_documents(&told));
    });
}

fn packed(tar: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(tar).unwrap();
    gzip.finish().unwrap()
}

/// The fixture charts as archives that were not compressed yet.
fn tars() -> Vec<Vec<u8>> {
    let mut tars = Vec::new();
    let mut charts: Vec<_> =
        fs::read_dir(fixtures().join("charts")).unwrap().map(|e| e.unwrap().path()).collect();
    charts.sort();
    for chart in charts.iter().map(|c| c.join("chart")).filter(|c| c.is_dir()) {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, text) in files(&chart, &|_| true) {
            let name = Path::new(&name).strip_prefix(&chart).unwrap().to_owned();
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, Path::new("chart").join(name), &text[..]).unwrap();
        }
        tars.push(tar.into_inner().unwrap());
    }
    tars
}

fn load(archive: &[u8]) {
    if let Ok(files) = read_archive(archive, chart_compat::profile::Profile::Helm4) {
        drop(load_files(files, chart_compat::profile::Profile::Helm4, &mut |_| {}));
    }
}

#[test]
fn archives() {
    let tars = tars();
    // Damaged before they are compressed, which gets past the check sums, and after.
    fuzz("archive, inside", &tars, &[], |tar| load(&packed(tar)));
    let archives: Vec<Vec<u8>> = tars.iter().map(|tar| packed(tar)).collect();
    fuzz("archive, outside", &archives, &[], load);
}

#[test]
fn files_of_charts() {
    let seeds = texts("charts", &|p| {
        p.ends_with("Chart.yaml") || p.ends_with("values.yaml") || p.ends_with("Chart.lock")
    });
    fuzz("chart files", &seeds, &[Family::Yaml], |text| {
        for name in ["Chart.yaml", "requirements.yaml", "values.yaml", "Chart.lock", ".helmignore"] {
            let mut files = vec![File::new(name.to_owned(), text.to_vec())];
            if name != "Chart.yaml" {
                let chart = b"apiVersion: v1\nname: x\nversion: 1.2.3\n".to_vec();
                files.push(File::new("Chart.yaml".to_owned(), chart));
            }
            drop(load_files(files, chart_compat::profile::Profile::Helm4, &mut |_| {}));
        }
    });
}
