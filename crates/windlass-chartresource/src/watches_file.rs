//! operator-sdk's `watches.yaml`: kinds, each with the chart that its objects are releases of.
//!
//! Owns the form of the file. Reads no file and no environment itself: both are passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use api_types::{GoDuration, LabelSelector};
use chart_compat::data::Data;
use chart_compat::yaml;
use serde::Deserialize;

use super::kind_settings::{KindSettings, owner_name};
use super::override_values::OverrideValues;
use windlass_cluster::Gvk;
use windlass_render::to_json;

/// The shortest period: a shorter one would keep the operator busy with objects that did not change.
const SHORTEST: Duration = Duration::from_secs(1);
/// The most kinds of a file: each has watches of its own.
const MAX_KINDS: usize = 1000;

/// A kind of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedKind {
    /// How its objects are reconciled.
    pub settings: KindSettings,
    /// Directory or package of its chart, relative to the working directory.
    pub chart: PathBuf,
}

/// The kinds of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WatchesFile {
    /// In the order of the file.
    pub kinds: Vec<WatchedKind>,
    /// Fields that have no effect.
    pub ignored: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    #[serde(default)]
    group: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    chart: PathBuf,
    watch_dependent_resources: Option<bool>,
    override_values: Option<BTreeMap<String, String>>,
    selector: Option<LabelSelector>,
    reconcile_period: Option<GoDuration>,
    dry_run_option: Option<String>,
    max_concurrent_reconciles: Option<usize>,
}

impl WatchesFile {
    /// Reads a file. `period`: how often objects of kinds are reconciled for which the file does not say it. `variable`: an environment
    /// variable, `None` if it is not set.
    ///
    /// # Errors
    /// It is not in the form; the text names the entry and the field.
    pub fn parse(
        text: &str,
        period: Duration,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let list = yaml::from_slice_list(text.as_bytes()).map_err(|error| error.to_string())?;
        if list.is_empty() {
            return Err("it has no entries: name at least one kind with its chart".to_owned());
        }
        if list.len() > MAX_KINDS {
            return Err(format!("it has {} entries: at most {MAX_KINDS} are possible", list.len()));
        }
        let mut out = Self::default();
        let mut known = BTreeSet::new();
        for (at, entry) in list.iter().enumerate() {
            let failed = |error: String| format!("entry {}{}: {error}", at + 1, named(entry));
            let entry: Entry =
                serde_json::from_value(to_json(entry)).map_err(|error| failed(error.to_string()))?;
            if let Some(option) = &entry.dry_run_option {
                check_dry_run(option).map_err(failed)?;
                out.ignored.push(failed(format!(
                    "dryRunOption: {option:?} has no effect: a digest decides about upgrades, and `lookup` always reads the cluster"
                )));
            }
            let kind = watched_kind(entry, period, &variable).map_err(failed)?;
            let Gvk { group, kind: name, .. } = &kind.settings.gvk;
            // Two versions of a kind are the same objects.
            if !known.insert((group.clone(), name.clone())) {
                return Err(failed("the kind is there twice: remove one of the entries".to_owned()));
            }
            out.kinds.push(kind);
        }
        Ok(out)
    }
}

/// The kind of an entry, for errors.
fn named(entry: &Data) -> String {
    let text = |key: &str| entry.get(key).and_then(Data::as_str).unwrap_or_default();
    match (text("kind"), text("group")) {
        ("", "") => String::new(),
        (kind, group) => format!(" ({kind} of {group})"),
    }
}

fn check_dry_run(option: &str) -> Result<(), String> {
    match option {
        "server" | "client" => Ok(()),
        other => Err(format!("dryRunOption: {other:?} is neither server nor client")),
    }
}

fn watched_kind(
    entry: Entry,
    period: Duration,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<WatchedKind, String> {
    let Entry { group, version, kind, chart, .. } = entry;
    for (field, empty) in
        [("version", version.is_empty()), ("kind", kind.is_empty()), ("chart", chart.as_os_str().is_empty())]
    {
        if empty {
            return Err(format!("{field}: it is not set"));
        }
    }
    let overrides = entry.override_values.unwrap_or_default();
    let overrides =
        OverrideValues::of_texts(&overrides, variable).map_err(|error| format!("overrideValues: {error}"))?;
    let selector =
        entry.selector.unwrap_or_default().to_query().map_err(|error| format!("selector.{error}"))?;
    let reconcile_period = entry.reconcile_period.map_or(period, |own| own.get());
    if reconcile_period < SHORTEST {
        return Err(format!("reconcilePeriod: {reconcile_period:?} is shorter than {SHORTEST:?}"));
    }
    if entry.max_concurrent_reconciles == Some(0) {
        return Err("maxConcurrentReconciles: 0: nothing would be reconciled: write 1 or more".to_owned());
    }
    let gvk = Gvk { group, version, kind };
    let settings = KindSettings {
        name: owner_name(&gvk),
        gvk,
        overrides,
        selector,
        reconcile_period,
        watches_dependents: entry.watch_dependent_resources.unwrap_or(true),
        concurrency: entry.max_concurrent_reconciles,
        service_account: None,
        pull_secret_path: None,
        suspended: false,
    };
    Ok(WatchedKind { settings, chart })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn parse(text: &str) -> Result<WatchesFile, String> {
        WatchesFile::parse(text, MINUTE, |name| (name == "IMAGE").then(|| "web:1".to_owned()))
    }

    #[test]
    fn every_field_is_read() {
        let file = parse(
            r#"
- group: cache.example.com
  version: v1alpha1
  kind: Memcached
  chart: helm-charts/memcached
- version: v1
  group: web.example.com
  kind: Web
  chart: web.tgz
  watchDependentResources: false
  overrideValues: {image.name: $IMAGE}
  selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: Exists}]}
  reconcilePeriod: 5m30s
  dryRunOption: server
  maxConcurrentReconciles: 3
"#,
        )
        .unwrap();
        let [plain, full] = &file.kinds[..] else { panic!("{file:?}") };
        assert_eq!(plain.chart, PathBuf::from("helm-charts/memcached"));
        let of = |kind: &WatchedKind| {
            let own = &kind.settings;
            (
                own.name.clone(),
                own.selector.clone(),
                own.reconcile_period.as_secs(),
                own.watches_dependents,
                own.concurrency,
            )
        };
        assert_eq!(of(plain), ("memcached.cache.example.com".to_owned(), String::new(), 60, true, None));
        assert_eq!(of(full), ("web.web.example.com".to_owned(), "a=b,c".to_owned(), 330, false, Some(3)));
        assert_eq!(full.settings.overrides.shown(), [("image.name".to_owned(), "web:1".to_owned())]);
        assert_eq!(file.ignored.len(), 1);
        assert!(file.ignored[0].starts_with("entry 2 (Web of web.example.com): dryRunOption"), "{file:?}");
        let client = parse("- {version: v1, kind: K, chart: c, dryRunOption: client}").unwrap();
        assert_eq!((client.kinds.len(), client.ignored.len()), (1, 1));
    }

    #[test]
    fn errors_name_the_entry_and_the_field() {
        let head = "- {group: g.io, version: v1, kind: K, chart: c";
        for (text, part) in [
            ("[]".to_owned(), "it has no entries"),
            ("{}".to_owned(), ""),
            ("- {kind: K, chart: c}".to_owned(), "entry 1 (K of ): version: it is not set"),
            ("- {version: v1, chart: c}".to_owned(), "entry 1: kind: it is not set"),
            ("- {version: v1, kind: K}".to_owned(), "entry 1 (K of ): chart: it is not set"),
            (
                format!("{head}}}\n- {{group: g.io, version: v2, kind: K, chart: d}}"),
                "entry 2 (K of g.io): the kind is there twice",
            ),
            (format!("{head}, other: 1}}"), "entry 1 (K of g.io): unknown field `other`"),
            (
                format!("{head}, dryRunOption: both}}"),
                "entry 1 (K of g.io): dryRunOption: \"both\" is neither",
            ),
            (
                format!("{head}, reconcilePeriod: 0s}}"),
                "entry 1 (K of g.io): reconcilePeriod: 0ns is shorter",
            ),
            (format!("{head}, reconcilePeriod: soon}}"), "entry 1 (K of g.io): \"soon\" is not a duration"),
            (
                format!("{head}, maxConcurrentReconciles: 0}}"),
                "entry 1 (K of g.io): maxConcurrentReconciles: 0",
            ),
            (
                format!("{head}, overrideValues: {{a: $NONE}}}}"),
                "entry 1 (K of g.io): overrideValues: \"a\": the environment variable NONE",
            ),
            (
                format!("{head}, selector: {{matchExpressions: [{{key: a, operator: Is}}]}}}}"),
                "entry 1 (K of g.io): selector.matchExpressions[0].operator",
            ),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(part), "{text}: {error}");
        }
        let many = "- {version: v1, kind: K, chart: c}\n".repeat(MAX_KINDS + 1);
        assert!(parse(&many).unwrap_err().contains("at most 1000"));
    }
}
