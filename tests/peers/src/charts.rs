//! The table of renders: on the bench cases of a corpus, what inflating an archive and one scan take, a first render in a
//! process, later ones of the same chart with other values, and whole processes.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use chart_compat::chart::{load_files, read_archive, read_values};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{
    Capabilities, CompiledChart, KubeVersion, Options, Release, ShowOnly, template_output,
};
use chart_compat::template::Limits;
use serde_json::Value;

use crate::clock::per_turn;
use crate::engines::Nothing;

/// Runs of a whole process.
const RUNS: usize = 15;

/// A case of the corpus.
struct Case {
    archive: Vec<u8>,
    values: Map,
    options: Options,
    /// The arguments of `windlass template`.
    arguments: Vec<String>,
    crds: bool,
}

/// Prints the table for the cases that the corpus names in `BENCH.md`.
pub(crate) fn print(corpus: &Path, windlass: &Path) -> Result<(), Box<dyn Error>> {
    let list = fs::read_to_string(corpus.join("BENCH.md"))?;
    let mut out = io::stdout();
    writeln!(
        out,
        "| case | inflate and scan | first render | later render | first : later | process: floor | process: windlass | \
         windlass : floor |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )?;
    let rows =
        list.lines().skip_while(|l| !l.starts_with("| ---")).skip(1).take_while(|l| l.starts_with("| "));
    for name in rows.filter_map(|l| l.split('|').nth(1)) {
        let case = Case::read(corpus, name.trim())?;
        let inflating = per_turn(|turns| (0..turns).for_each(|_| _ = black_box(scan(&case.archive))));
        let (first, later) = case.renders();
        let archive = case.arguments.get(2).map(String::as_str).unwrap_or_default();
        let own = std::env::current_exe()?;
        let floor = process(&own, &["floor".to_owned(), archive.to_owned()])?;
        let whole = process(windlass, &case.arguments)?;
        let over = |a: Duration, b: Duration| format!("{:.1}", a.as_secs_f64() / b.as_secs_f64());
        let ms = |d: Duration| format!("{:.2} ms", d.as_secs_f64() * 1e3);
        let optional = |d: Option<Duration>| d.map_or_else(|| "–".to_owned(), ms);
        let ratio = first.zip(later).map_or_else(|| "–".to_owned(), |(f, l)| over(f, l));
        writeln!(
            out,
            "| {} | {} | {} | {} | {ratio} | {} | {} | {} |",
            name.trim(),
            ms(inflating),
            optional(first),
            optional(later),
            ms(floor),
            ms(whole),
            over(whole, floor)
        )?;
    }
    Ok(())
}

/// Inflates an archive and looks at every byte once; gives the number of lines.
fn scan(archive: &[u8]) -> usize {
    let mut bytes = Vec::new();
    // A damaged archive has few lines.
    drop(flate2::read::GzDecoder::new(archive).read_to_end(&mut bytes));
    memchr::memchr_iter(b'\n', &bytes).count()
}

/// The least that a process has to do: reads, inflates, scans, prints.
pub(crate) fn floor(archive: &Path) -> Result<(), Box<dyn Error>> {
    Ok(writeln!(io::stdout(), "{}", scan(&fs::read(archive)?))?)
}

/// The median of whole runs.
fn process(program: &Path, arguments: &[String]) -> Result<Duration, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let begin = Instant::now();
        let status =
            Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        times.push(begin.elapsed());
        if !status.success() {
            return Err(format!("{} {arguments:?}: {status}", program.display()).into());
        }
    }
    times.sort_unstable();
    Ok(times[RUNS / 2])
}

impl Case {
    fn read(corpus: &Path, name: &str) -> Result<Self, Box<dyn Error>> {
        let directory = corpus.join("cases").join(name);
        let cmd: Value = serde_json::from_slice(&fs::read(directory.join("cmd.json"))?)?;
        let word = |key: &str| cmd[key].as_str().unwrap_or_default().to_owned();
        let archive = corpus.join(word("chart"));
        let values = directory.join("values.yaml");
        let shown = |path: &Path| path.display().to_string();
        let mut arguments = ["template".to_owned(), word("release"), shown(&archive)].to_vec();
        arguments.extend([
            "-n".to_owned(),
            word("namespace"),
            "--kube-version".to_owned(),
            word("kubeVersion"),
        ]);
        arguments.extend(["-f".to_owned(), shown(&values)]);
        let kube_version = KubeVersion::parse(&word("kubeVersion"))?;
        let mut capabilities = Capabilities { kube_version, ..Capabilities::default() };
        for version in cmd["apiVersions"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            arguments.extend(["-a".to_owned(), version.to_owned()]);
            capabilities.api_versions.push(version.to_owned());
        }
        let crds = cmd["includeCrds"] == true;
        arguments.extend(crds.then(|| "--include-crds".to_owned()));
        let is_upgrade = cmd["isUpgrade"] == true;
        arguments.extend(is_upgrade.then(|| "--is-upgrade".to_owned()));
        let options = Options {
            release: Release { name: word("release"), namespace: word("namespace"), revision: 1, is_upgrade },
            capabilities,
            skip_schema_validation: false,
            subchart_notes: false,
            limits: Limits::default(),
        };
        let values = read_values(&fs::read(values)?, Profile::Helm4)?;
        Ok(Self { archive: fs::read(archive)?, values, options, arguments, crds })
    }

    fn compiled(&self) -> Option<CompiledChart> {
        let files = read_archive(&self.archive, Profile::Helm4).ok()?;
        Some(CompiledChart::new(load_files(files, Profile::Helm4, &mut drop).ok()?, Profile::Helm4))
    }

    fn render(&self, chart: &CompiledChart, values: &Map) -> Option<usize> {
        let rendered = chart.render(values, &self.options, &Nothing, &mut drop).ok()?;
        let all = ShowOnly { patterns: &[] };
        template_output(&rendered, self.crds, |_| true, &all, Profile::Helm4).ok().map(|t| t.len())
    }

    /// The values with one number after the other changed, as far as the chart renders with that.
    fn edits(&self, chart: &CompiledChart) -> Vec<Map> {
        let rendered = chart.render(&self.values, &self.options, &Nothing, &mut drop);
        let all = rendered.map(|r| r.values).unwrap_or_default();
        let edits = numbers(&all).into_iter().map(|path| changed(&self.values, &all, &path));
        edits.filter(|values| self.render(chart, values).is_some()).collect()
    }

    /// From the archive's bytes to text, and again with a number of the values changed and the chart kept; nothing for a chart that needs more
    /// of the world than there is here.
    fn renders(&self) -> (Option<Duration>, Option<Duration>) {
        let Some(kept) = self.compiled() else { return (None, None) };
        if self.render(&kept, &self.values).is_none() {
            return (None, None);
        }
        let first = per_turn(|turns| {
            for _ in 0..turns {
                black_box(self.compiled().and_then(|c| self.render(&c, &self.values)));
            }
        });
        let edits = self.edits(&kept);
        if edits.is_empty() {
            return (Some(first), None);
        }
        let mut next = edits.iter().cycle();
        let later = per_turn(|turns| {
            for _ in 0..turns {
                black_box(next.next().and_then(|values| self.render(&kept, values)));
            }
        });
        (Some(first), Some(later))
    }
}

/// The paths of all numbers.
fn numbers(values: &Map) -> Vec<Vec<String>> {
    let each = |(key, value): (&String, &Data)| match value {
        Data::Map(inner) => {
            numbers(inner).into_iter().map(|path| [vec![key.clone()], path].concat()).collect()
        }
        Data::Int(_) | Data::Float(_) => vec![vec![key.clone()]],
        _ => Vec::new(),
    };
    values.iter().flat_map(each).collect()
}

/// `values` with the number at a path one greater than it is in `all`.
fn changed(values: &Map, all: &Map, path: &[String]) -> Map {
    let mut values = values.clone();
    let Some((key, rest)) = path.split_first() else { return values };
    let inner = |map: &Map| match map.get(key) {
        Some(Data::Map(inner)) => inner.clone(),
        _ => Map::new(),
    };
    let value = match all.get(key) {
        Some(Data::Int(n)) => Data::Int(n + 1),
        Some(Data::Float(n)) => Data::Float(n + 1.0),
        _ => Data::Map(changed(&inner(&values), &inner(all), rest)),
    };
    values.insert(key.clone(), value);
    values
}
