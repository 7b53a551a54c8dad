//! Later renders of whole charts: what a chart makes by chance stays, from render to render and over an edit of every template; and
//! what is kept of a render is what a render from nothing gives, whatever value is edited.
//!
//! The fixture charts always run; the charts of a corpus beside the project run in `make corpus`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail like the tests"
)]

use std::fs;
use std::path::{Path, PathBuf};

use chart_compat::chart::{Chart, read_values};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{
    Capabilities, CompiledChart, KubeVersion, Options, Release, Rendered, ShowOnly, template_output,
};
use chart_compat::template::Limits;
use chart_compat::world::{KeyKind, Timestamp, World};
use serde_json::Value;
use windlass_render::SystemWorld;
use windlass_render::replay::{self, GeneratedValues};

/// What stands before each template of an edited chart: other lines, another call of chance, no other text.
const EDIT: &str = "{{/* edited\nby hand */}}{{ $edited := randAlphaNum 131 }}";

/// The real world at a time of our choice.
struct At(i64, SystemWorld<'static>);

impl World for At {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: self.0, nanos: 0 }
    }
    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }
    fn random(&self, bytes: &mut [u8]) {
        self.1.random(bytes);
    }
    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        // RSA keys take their time, and which kind it is changes nothing here.
        let _ = kind;
        self.1.make_key(KeyKind::EcdsaP256)
    }
    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        self.1.public_key(pkcs8)
    }
    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
        self.1.sign(pkcs8, message)
    }
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String> {
        self.1.lookup(api_version, kind, namespace, name)
    }
    fn resolve(&self, host: &str) -> String {
        self.1.resolve(host)
    }
}

/// A world in which chance always gives the same.
struct Even(SystemWorld<'static>);

impl World for Even {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: TIMES[0], nanos: 0 }
    }
    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }
    fn random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }
    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Data, String> {
        self.0.lookup(api_version, kind, namespace, name)
    }
    fn resolve(&self, host: &str) -> String {
        self.0.resolve(host)
    }
}

/// A chart and all that it is rendered with.
struct Case {
    name: String,
    chart: Chart,
    values: Map,
    options: Options,
}

fn options() -> Options {
    Options {
        release: Release {
            name: "demo".to_owned(),
            namespace: "fixtures".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: true,
        limits: Limits::default(),
    }
}

/// How many values of a chart are edited.
const EDITS: usize = 16;

/// Two days; certificates of some weeks need no renewal between them.
const TIMES: [i64; 2] = [1_700_000_000, 1_700_100_000];

fn text(rendered: &Rendered) -> String {
    let all = ShowOnly { patterns: &[] };
    let out = template_output(rendered, true, |_| true, &all, Profile::Helm4).unwrap();
    String::from_utf8(out).unwrap() + &rendered.notes
}

impl Case {
    fn compiled(&self) -> CompiledChart {
        CompiledChart::new(self.chart.clone(), Profile::Helm4)
    }

    /// A render without a memory; nothing if the case is one of a failure.
    fn fresh(&self, time: i64) -> Option<String> {
        let world = At(time, SystemWorld::default());
        let done = self.compiled().render(&self.values, &self.options, &world, &mut |_| {});
        done.ok().map(|r| text(&r))
    }

    /// A render with a memory, which takes in what is new.
    fn replayed(&self, chart: &CompiledChart, time: i64, memory: &mut GeneratedValues) -> String {
        let known = memory.clone();
        let (load, world) = (move || Ok(known.clone()), At(time, SystemWorld::default()));
        let done = replay::render(chart, &self.values, &self.options, &world, &load, &mut |_| {})
            .unwrap_or_else(|e| panic!("{}: {e}", self.name));
        if let Some(new) = done.memory {
            *memory = new;
        }
        text(&done.rendered)
    }

    fn edited(&self) -> CompiledChart {
        fn edit(chart: &mut Chart) {
            for template in &mut chart.templates {
                template.data = [EDIT.as_bytes(), &template.data[..]].concat().into();
            }
            chart.dependencies.iter_mut().for_each(edit);
        }
        let mut chart = self.chart.clone();
        edit(&mut chart);
        CompiledChart::new(chart, Profile::Helm4)
    }

    /// Whether the chart makes anything by chance or from the clock. What it makes must stay; the clock moves with an edit.
    fn check(&self) -> bool {
        let [now, later] = TIMES;
        let Some(first) = self.fresh(now) else { return false };
        if self.fresh(later).as_ref() == Some(&first) {
            return false;
        }
        let (chart, mut memory) = (self.compiled(), GeneratedValues::default());
        let first = self.replayed(&chart, now, &mut memory);
        assert_eq!(self.replayed(&chart, later, &mut memory), first, "{}: rendered later", self.name);
        let edited = self.replayed(&self.edited(), now, &mut memory);
        assert_eq!(edited, first, "{}: rendered from an edited chart", self.name);
        assert_eq!(self.replayed(&chart, now, &mut memory), first, "{}: the edit taken back", self.name);
        true
    }
}

/// The paths of all single values, in order.
fn leaves(values: &Map) -> Vec<Vec<String>> {
    let each = |(key, value): (&String, &Data)| match value {
        Data::Map(inner) => leaves(inner).into_iter().map(|p| [vec![key.clone()], p].concat()).collect(),
        _ => vec![vec![key.clone()]],
    };
    values.iter().flat_map(each).collect()
}

/// The values with the one at a path changed, as someone who tries things would; `all`: what it is.
fn edited(values: &Map, all: &Map, path: &[String]) -> Map {
    let Some((key, rest)) = path.split_first() else { return values.clone() };
    let (mut values, empty) = (values.clone(), Map::new());
    let inner = |map: &Map| match map.get(key) {
        Some(Data::Map(inner)) => inner.clone(),
        _ => empty.clone(),
    };
    let value = match all.get(key) {
        _ if !rest.is_empty() => Data::Map(edited(&inner(&values), &inner(all), rest)),
        Some(Data::Bool(b)) => Data::Bool(!b),
        Some(Data::Int(i)) => Data::Int(i + 1),
        Some(Data::Float(f)) => Data::Float(f + 0.5),
        Some(Data::String(s)) => Data::String(format!("{s}x")),
        Some(Data::List(items)) => Data::List(items.iter().skip(1).cloned().collect()),
        _ => Data::String("edited".to_owned()),
    };
    values.insert(key.clone(), value);
    values
}

impl Case {
    /// Edits single values, one after the other, and compares a chart that keeps with one that does not; gives how often.
    fn keeps(&self, edits: usize) -> usize {
        let world = Even(SystemWorld::default());
        let render = |chart: &CompiledChart, values: &Map| {
            chart.render(values, &self.options, &world, &mut |_| {}).map_err(|e| e.to_string())
        };
        let kept = self.compiled();
        let Ok(first) = render(&kept, &self.values) else { return 0 };
        let paths = leaves(&first.values);
        let mut values = self.values.clone();
        for n in 0..edits {
            let Some(path) = paths.get(n * paths.len() / edits) else { return n };
            let next = edited(&values, &first.values, path);
            let [mine, fresh] = [&kept, &self.compiled()].map(|chart| render(chart, &next).map(|r| text(&r)));
            assert!(mine == fresh, "{}: {path:?} edited:\n{mine:?}\n{fresh:?}", self.name);
            // Every other edit stays, unless nothing can be rendered with it.
            if n % 2 == 0 && fresh.is_ok() {
                values = next;
            }
        }
        edits
    }
}

/// Names in a directory, in order; none if it is not there.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn values(path: &Path) -> Map {
    fs::read(path).ok().and_then(|text| read_values(&text, Profile::Helm4).ok()).unwrap_or_default()
}

/// The charts that replay what they make by chance, of these cases.
fn replaying(cases: impl Iterator<Item = Case>) -> Vec<String> {
    let mut found = Vec::new();
    for case in cases {
        if case.check() {
            found.push(case.name);
        }
    }
    found
}

/// A chart of nothing but chance.
fn chance() -> Case {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/replay/chart");
    let chart = windlass_fetch::load(&path, Profile::Helm4).unwrap().chart;
    Case { name: "chance".to_owned(), chart, values: Map::new(), options: options() }
}

#[test]
fn fixture_charts_keep_what_they_made() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/charts");
    let cases = names(&root).into_iter().filter_map(|name| {
        let chart = windlass_fetch::load(&root.join(&name).join("chart"), Profile::Helm4).ok()?.chart;
        Some(Case { name, chart, values: Map::new(), options: options() })
    });
    let found = replaying(cases.chain([chance()]));
    assert!(found.contains(&"chance".to_owned()), "{found:?}");
}

#[test]
fn a_chart_without_memory_does_not_keep_them() {
    // What the other tests rely on: without a memory this very chart comes out different.
    let case = chance();
    let (first, second) = (case.fresh(TIMES[0]).unwrap(), case.fresh(TIMES[0]).unwrap());
    let same: Vec<&str> = first.lines().zip(second.lines()).filter(|(a, b)| a == b).map(|(a, _)| a).collect();
    let made = first.lines().count() - same.len();
    assert!(made >= 10, "{made} lines differ:\n{first}");
}

/// The cases of the corpus beside the project that `wanted` picks by name and command.
fn corpus(wanted: impl Fn(&str, &Value) -> bool) -> Vec<Case> {
    let corpus: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus");
    let mut cases = Vec::new();
    for chart in names(&corpus.join("cases")) {
        for case in names(&corpus.join("cases").join(&chart)) {
            let path = corpus.join("cases").join(&chart).join(&case);
            let cmd: Value = serde_json::from_slice(&fs::read(path.join("cmd.json")).unwrap()).unwrap();
            if !wanted(&case, &cmd) {
                continue;
            }
            let word = |key: &str| cmd[key].as_str().unwrap().to_owned();
            let loaded = windlass_fetch::load(&corpus.join(word("chart")), Profile::Helm4).unwrap().chart;
            let mut options = options();
            options.capabilities.kube_version = KubeVersion::parse(&word("kubeVersion")).unwrap();
            let versions = cmd["apiVersions"].as_array().into_iter().flatten();
            options.capabilities.api_versions.extend(versions.map(|v| v.as_str().unwrap().to_owned()));
            options.release = Release {
                name: word("release"),
                namespace: word("namespace"),
                revision: 1,
                is_upgrade: cmd["isUpgrade"] == true,
            };
            let values = values(&path.join("values.yaml"));
            cases.push(Case { name: format!("{chart}/{case}"), chart: loaded, values, options });
        }
    }
    cases
}

#[test]
#[ignore = "needs the chart corpus: make corpus"]
fn corpus_charts_keep_what_they_made() {
    // The corpus says which cases print what is made by chance or from the clock.
    let cases = corpus(|_, cmd| cmd["masked"] == true);
    let asked = cases.len();
    let found = replaying(cases.into_iter());
    println!("replay: {} of {asked} cases with chance come out the same, edited or not", found.len());
    assert_eq!(found.len(), asked, "{found:?}");
}

#[test]
#[ignore = "needs the chart corpus: make corpus"]
fn corpus_charts_give_what_they_would_from_nothing() {
    let cases = corpus(|case, cmd| case == "defaults" && cmd["expect"] == "ok");
    let edits: usize = cases.iter().map(|case| case.keeps(EDITS)).sum();
    println!("kept: {edits} edits of values of {} charts give what a render from nothing gives", cases.len());
    assert_eq!(edits == 0, cases.is_empty());
}
