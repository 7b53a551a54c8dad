//! What a batch program says on `hook config`: its hooks, a readiness probe, whether it checks settings.
//!
//! The form is that of the library `github.com/deckhouse/module-sdk` (`pkg/hook/dto.go`), mapped onto version 1 as addon-operator's
//! `batch_hook.go` maps it. Keys that are not known come from newer libraries: they are listed and ignored.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::fields::Fields;
use super::{Common, ConfigError, HookConfig, Kubernetes, Schedule, Settings, Version, v1};
use crate::shell_hooks::{Moment, Scope};
use windlass_base::bounded_json;
use windlass_base::cron::Cron;

/// The group of all bindings of a hook: its contexts hold the snapshots of all of them.
const GROUP: &str = "main";
/// Most keys that are not known and named.
const MAX_NOTES: usize = 20;
/// Longest part of the output in an error, in characters.
const MAX_SHOWN: usize = 200;

/// What is in a batch program.
#[derive(Clone, Debug, Default)]
pub struct BatchConfig {
    /// Its hooks; the place of a hook is its index in `hook run INDEX`.
    pub hooks: Vec<BatchHook>,
    /// The schedule of `hook ready`, if it has a readiness probe.
    pub readiness: Option<Probe>,
    /// It answers `hook check`.
    pub checks_settings: bool,
    /// What is ignored or odd, each text with its key.
    pub notes: Vec<String>,
}

/// A hook of a batch program.
#[derive(Clone, Debug)]
pub struct BatchHook {
    /// `metadata.name`; several hooks of a program may have the same.
    pub name: String,
    pub config: HookConfig,
}

/// When the readiness of a module is probed.
#[derive(Clone, Debug)]
pub struct Probe {
    pub cron: Cron,
    /// `LOG_LEVEL` of its runs, if it names one.
    pub log_level: Option<String>,
    /// How often and how long it may run.
    pub settings: Settings,
}

impl BatchConfig {
    /// Parses what a program printed.
    ///
    /// # Errors
    /// It is not one JSON document of a known version, or a hook in it cannot be used.
    pub fn parse(text: &[u8], scope: Scope) -> Result<Self, ConfigError> {
        let document = document(text)?;
        let unknown = RefCell::default();
        let mut config = match &document {
            Value::Array(_) => {
                // The form before version v1 has hooks alone.
                let wrapped = serde_json::json!({"hooks": document});
                let mut fields = Fields::tolerant("", &wrapped, &unknown)?;
                let mut config = Self::default();
                config.read_hooks(&mut fields, scope)?;
                config
            }
            document => Self::read(Fields::tolerant("", document, &unknown)?, scope)?,
        };
        config.note_names();
        let ignored = |path: &String| format!("{path}: no such key is known here; it is ignored");
        let unknown = unknown.borrow();
        config.notes.extend(unknown.iter().take(MAX_NOTES).map(ignored));
        if let Some(more) = unknown.len().checked_sub(MAX_NOTES).filter(|more| *more > 0) {
            config.notes.push(format!("{more} more keys are not known here; they are ignored"));
        }
        Ok(config)
    }

    fn read(mut fields: Fields<'_>, scope: Scope) -> Result<Self, ConfigError> {
        match fields.text("version")?.as_deref() {
            Some("v1") => {}
            None => return fields.fail("version", "it is missing; v1 is known here"),
            Some(other) => {
                let text = format!(
                    "{other:?} is not known here, v1 is: the program was built with another module-sdk; build it with one that \
                     writes v1"
                );
                return fields.fail("version", text);
            }
        }
        let mut config = Self::default();
        config.read_hooks(&mut fields, scope)?;
        if let Some(mut probe) = fields.map("readiness")? {
            config.readiness = Some(config.probe(&mut probe)?);
            probe.finish()?;
            if scope == Scope::Global {
                config.readiness = None;
                let text = "global hooks are no module whose readiness is probed; it is ignored";
                config.notes.push(format!("readiness: {text}"));
            }
        }
        config.checks_settings = fields.flag("has_settings_check", false)?;
        fields.finish()?;
        Ok(config)
    }

    fn read_hooks(&mut self, fields: &mut Fields<'_>, scope: Scope) -> Result<(), ConfigError> {
        for mut item in fields.maps("hooks")? {
            let hook = self.hook(&mut item, scope)?;
            self.hooks.push(hook);
            item.finish()?;
        }
        Ok(())
    }

    fn hook(&mut self, item: &mut Fields<'_>, scope: Scope) -> Result<BatchHook, ConfigError> {
        item.word("configVersion", &["v1"])?;
        let name = metadata(item)?;
        let mut config = HookConfig::empty(Version::V1);
        config.moments = self.moments(item, scope)?;
        config.allow_failure = item.flag("allowFailure", false)?;
        config.log_level = item.text("logLevel")?.filter(|level| !level.is_empty());
        if let Some(settings) = item.map("settings")? {
            config.settings = read_settings(settings)?;
        }
        for mut binding in item.maps("kubernetes")? {
            config.kubernetes.push(kubernetes(&mut binding, config.allow_failure)?);
            binding.finish()?;
        }
        for mut binding in item.maps("schedule")? {
            let common = common(&mut binding, "schedule", config.allow_failure)?;
            config.schedules.push(Schedule { common, cron: v1::cron(&mut binding)? });
            binding.finish()?;
        }
        v1::add_snapshots(&mut config).map_err(|e| ConfigError::new(&item.path(&e.path), e.text))?;
        Ok(BatchHook { name, config })
    }

    /// Its places at moments. In a global program `beforeHelm` and `afterHelm` are what runs before and after all modules.
    fn moments(&mut self, item: &mut Fields<'_>, scope: Scope) -> Result<BTreeMap<Moment, i64>, ConfigError> {
        let keys = [
            ("onStartup", Moment::OnStartup, Some(Moment::OnStartup)),
            ("beforeHelm", Moment::BeforeHelm, Some(Moment::BeforeAll)),
            ("afterHelm", Moment::AfterHelm, Some(Moment::AfterAll)),
            ("beforeDeleteHelm", Moment::BeforeDeleteHelm, None),
            ("afterDeleteHelm", Moment::AfterDeleteHelm, None),
        ];
        let mut moments = BTreeMap::new();
        for (key, of_module, global) in keys {
            let Some(order) = item.whole(key)? else { continue };
            let moment = if scope == Scope::Module { Some(of_module) } else { global };
            match moment {
                Some(moment) => drop(moments.insert(moment, order)),
                None => self.notes.push(format!(
                    "{}: global hooks do not run at the deletion of a module; it is ignored",
                    item.path(key)
                )),
            }
        }
        Ok(moments)
    }

    fn probe(&mut self, item: &mut Fields<'_>) -> Result<Probe, ConfigError> {
        item.word("configVersion", &["v1"])?;
        metadata(item)?;
        // A probe that fails is not ready, whatever it may.
        item.flag("allowFailure", false)?;
        let settings = item.map("settings")?.map(read_settings).transpose()?.unwrap_or_default();
        let log_level = item.text("logLevel")?.filter(|level| !level.is_empty());
        let mut schedules = item.maps("schedule")?;
        if schedules.len() > 1 {
            let text = "a probe has one schedule; the first one counts";
            self.notes.push(format!("{}: {text}", item.path("schedule")));
        }
        let Some(mut first) = (!schedules.is_empty()).then(|| schedules.swap_remove(0)) else {
            return item.fail("schedule", "it is missing: when the probe runs is not known");
        };
        common(&mut first, "schedule", false)?;
        let cron = v1::cron(&mut first)?;
        first.finish()?;
        Ok(Probe { cron, log_level, settings })
    }

    /// Notes hooks that share a name: users see them apart by their index alone.
    fn note_names(&mut self) {
        let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (index, hook) in self.hooks.iter().enumerate() {
            places.entry(&hook.name).or_default().push(index.to_string());
        }
        let shared = places.into_iter().filter(|(_, indexes)| indexes.len() > 1);
        let notes: Vec<String> = shared
            .map(|(name, indexes)| {
                format!(
                    "hooks {} have the same name {name:?}: the index at the end of their names tells them apart",
                    indexes.join(", ")
                )
            })
            .collect();
        self.notes.extend(notes);
    }
}

/// The document in the output of a program, past lines of its log.
fn document(text: &[u8]) -> Result<Value, ConfigError> {
    let mut found = None;
    let mut logged = None;
    let broken = |e: bounded_json::JsonError| {
        let shown: String = String::from_utf8_lossy(text).trim().chars().take(MAX_SHOWN).collect();
        ConfigError::new("", format!("it is not one JSON document: {e}; it begins with {shown:?}"))
    };
    for document in bounded_json::documents::<Value>(text).map_err(broken)? {
        let document = document.map_err(broken)?;
        if document["level"].is_string() && document["msg"].is_string() {
            logged = Some(document);
        } else if found.replace(document).is_some() {
            return Err(ConfigError::new(
                "",
                "it printed several JSON documents where one is wanted".to_owned(),
            ));
        }
    }
    let none = "it printed nothing where a JSON document with its hooks is wanted";
    match (found, logged) {
        (Some(document), _) => Ok(document),
        (None, Some(line)) => Err(ConfigError::new("", log_line(&line))),
        (None, None) => Err(ConfigError::new("", none.to_owned())),
    }
}

/// What a line of the program's log says of its failure.
fn log_line(line: &Value) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    match text("error") {
        "" => text("msg").to_owned(),
        error => format!("{}: {error}", text("msg")),
    }
}

/// The name in the metadata of a hook. Its path is that of the source.
fn metadata(item: &mut Fields<'_>) -> Result<String, ConfigError> {
    let Some(mut metadata) = item.map("metadata")? else { return Ok(String::new()) };
    let name = metadata.text("name")?.unwrap_or_default();
    metadata.text("path")?;
    metadata.finish()?;
    Ok(name)
}

/// `settings`: durations are Go's, whole numbers of nanoseconds.
fn read_settings(mut fields: Fields<'_>) -> Result<Settings, ConfigError> {
    let min_interval = match fields.any("executionMinInterval") {
        Some(Value::Number(_)) => {
            let nanoseconds = fields.whole("executionMinInterval")?.unwrap_or_default();
            let nanoseconds = u64::try_from(nanoseconds).unwrap_or_default();
            Some(Duration::from_nanos(nanoseconds)).filter(|interval| !interval.is_zero())
        }
        _ => v1::duration(&mut fields, "executionMinInterval")?,
    };
    let settings = Settings {
        min_interval,
        burst: v1::burst(&mut fields)?,
        timeout: None,
        schedules_on_startup: fields.flag("enableSchedulesOnStartup", false)?,
    };
    fields.finish()?;
    Ok(settings)
}

/// Name, snapshots and queue of a binding; it may fail if its hook may.
fn common(item: &mut Fields<'_>, absent: &str, allow_failure: bool) -> Result<Common, ConfigError> {
    let common = v1::common(item, absent)?;
    let allow_failure = allow_failure || common.allow_failure;
    Ok(Common { group: Some(GROUP.to_owned()), allow_failure, ..common })
}

fn kubernetes(item: &mut Fields<'_>, allow_failure: bool) -> Result<Kubernetes, ConfigError> {
    let common = common(item, "kubernetes", allow_failure)?;
    let events = match item.flag("executeHookOnEvent", true)? {
        true => v1::ALL_EVENTS.to_vec(),
        false => Vec::new(),
    };
    v1::watched(item, common, events, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell_hooks::config::{MAIN_QUEUE, Namespaces};

    fn read(text: &str, scope: Scope) -> BatchConfig {
        BatchConfig::parse(text.as_bytes(), scope).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn refused(text: &str) -> String {
        BatchConfig::parse(text.as_bytes(), Scope::Module).unwrap_err().to_string()
    }

    /// A program of one hook.
    fn one(fields: &str) -> String {
        let more = if fields.is_empty() { "" } else { "," };
        format!(
            r#"{{"version":"v1","hooks":[{{"configVersion":"v1","metadata":{{"name":"n","path":"p/"}}{more}{fields}}}]}}"#
        )
    }

    fn hook(fields: &str) -> HookConfig {
        let mut config = read(&one(fields), Scope::Module);
        assert_eq!(config.notes, Vec::<String>::new(), "{fields}");
        config.hooks.remove(0).config
    }

    #[test]
    fn moments_and_flags_of_a_hook() {
        let moments =
            r#""onStartup":1,"beforeHelm":2,"afterHelm":3,"beforeDeleteHelm":4,"afterDeleteHelm":5"#;
        let config = hook(&format!(r#"{moments},"allowFailure":true,"logLevel":"debug""#));
        let places: Vec<i64> = config.moments.values().copied().collect();
        assert_eq!((config.moments.len(), places), (5, vec![1, 2, 3, 4, 5]));
        assert!(config.allow_failure);
        assert_eq!(config.log_level.as_deref(), Some("debug"));
        let plain = hook("");
        assert!(plain.moments.is_empty() && !plain.allow_failure && plain.log_level.is_none());
        assert_eq!(plain.settings, Settings { burst: 1, ..Settings::default() });
        // Written as null where the author set nothing.
        assert!(
            hook(r#""onStartup":null,"schedule":null,"kubernetes":null,"settings":null"#).moments.is_empty()
        );
    }

    #[test]
    fn the_fields_of_schedules_and_settings() {
        let config = hook(
            r#""schedule":[{"name":"often","crontab":"*/5 * * * * *","queue":"/own"},{"crontab":"0 3 * * *"}],
            "settings":{"executionMinInterval":3000000000,"executionBurst":5,"enableSchedulesOnStartup":true}"#,
        );
        let [often, daily] = &config.schedules[..] else { panic!("{:?}", config.schedules) };
        assert_eq!((often.common.name.as_str(), often.common.queue.as_str()), ("often", "/own"));
        assert_eq!((daily.common.name.as_str(), daily.common.queue.as_str()), ("schedule", MAIN_QUEUE));
        assert_eq!(often.common.group.as_deref(), Some("main"));
        assert_eq!(
            config.settings,
            Settings {
                min_interval: Some(Duration::from_secs(3)),
                burst: 5,
                timeout: None,
                schedules_on_startup: true
            }
        );
        let config = hook(r#""settings":{"executionMinInterval":"2s","executionBurst":"3"}"#);
        assert_eq!((config.settings.min_interval, config.settings.burst), (Some(Duration::from_secs(2)), 3));
    }

    #[test]
    fn the_fields_of_watches() {
        let config = hook(
            r#""kubernetes":[{"name":"pods","apiVersion":"v1","kind":"Pod","nameSelector":{"matchNames":["a"]},
            "namespace":{"nameSelector":{"matchNames":["ns"]},"labelSelector":null},
            "labelSelector":{"matchLabels":{"app":"x"},"matchExpressions":[{"key":"old","operator":"DoesNotExist"}]},
            "fieldSelector":{"matchExpressions":[{"field":"spec.nodeName","operator":"Equals","value":"n"}]},
            "executeHookOnEvent":false,"executeHookOnSynchronization":false,"waitForSynchronization":false,
            "keepFullObjectsInMemory":true,"jqFilter":".metadata.name","allowFailure":true,"resynchronizationPeriod":"5m",
            "includeSnapshotsFrom":["nodes"],"queue":"q"},
            {"name":"nodes","kind":"Node","namespace":{"nameSelector":{"matchNames":null},"labelSelector":{"matchLabels":{"a":"b"}}}},
            {"kind":"Secret","nameSelector":{"matchNames":null},"executeHookOnEvent":true}],"schedule":[{"crontab":"@daily"}]"#,
        );
        let [pods, nodes, secrets] = &config.kubernetes[..] else { panic!("{:?}", config.kubernetes) };
        assert_eq!((pods.api_version.as_str(), pods.kind.as_str()), ("v1", "Pod"));
        assert_eq!((&pods.names[..], pods.labels.as_str()), (&["a".to_owned()][..], "app=x,!old"));
        assert_eq!(pods.fields, "spec.nodeName=n");
        assert_eq!(pods.namespaces, Namespaces::Named(vec!["ns".to_owned()]));
        assert!(pods.events.is_empty() && !pods.on_synchronization && !pods.wait_for_synchronization);
        assert!(pods.keep_objects && pods.filter.is_some() && pods.common.allow_failure);
        assert_eq!(pods.common.queue, "q");
        // What is not said.
        assert_eq!(nodes.events.len(), 3);
        assert!(nodes.on_synchronization && nodes.wait_for_synchronization && !nodes.keep_objects);
        assert_eq!(nodes.namespaces, Namespaces::Labelled("a=b".to_owned()));
        assert_eq!((secrets.common.name.as_str(), secrets.events.len()), ("kubernetes", 3));
        assert_eq!((&secrets.names[..], &secrets.namespaces), (&[][..], &Namespaces::All));
        // All bindings are of one group, so that each sees all snapshots.
        let all = ["nodes", "pods", "kubernetes"];
        assert_eq!(pods.common.snapshots, all);
        for common in [&nodes.common, &secrets.common, &config.schedules[0].common] {
            assert_eq!(common.group.as_deref(), Some("main"));
            assert_eq!(common.snapshots, ["pods", "nodes", "kubernetes"]);
        }
        // A hook that may fail may do so in all of its bindings.
        let config =
            hook(r#""allowFailure":true,"kubernetes":[{"kind":"Pod"}],"schedule":[{"crontab":"@daily"}]"#);
        assert!(config.kubernetes[0].common.allow_failure && config.schedules[0].common.allow_failure);
    }

    #[test]
    fn what_else_a_program_has() {
        let config = read(
            r#"{"version":"v1","hooks":[],"readiness":{"configVersion":"v1","metadata":{"name":"readiness","path":""},
            "schedule":[{"name":"m-moduleReadinessSchedule","crontab":"*/15 * * * * *"}]},"has_settings_check":true}"#,
            Scope::Module,
        );
        assert!(config.readiness.is_some() && config.checks_settings && config.hooks.is_empty());
        assert_eq!(config.notes, Vec::<String>::new());
        let bare =
            read(r#"[{"metadata":{"name":"a"},"onStartup":1},{"metadata":{"name":"b"}}]"#, Scope::Module);
        let names: Vec<&str> = bare.hooks.iter().map(|h| h.name.as_str()).collect();
        assert_eq!((names, bare.checks_settings, bare.readiness.is_none()), (vec!["a", "b"], false, true));
        // Lines of the log before the document are no part of it.
        let logged = format!("{}\n{}\n", r#"{"level":"warn","msg":"old"}"#, one(""));
        assert_eq!(read(&logged, Scope::Module).hooks.len(), 1);
    }

    #[test]
    fn a_global_program_has_moments_of_its_own() {
        let text = one(r#""onStartup":1,"beforeHelm":2,"afterHelm":3,"afterDeleteHelm":4"#);
        let config = read(&text, Scope::Global);
        let moments: Vec<_> = config.hooks[0].config.moments.clone().into_iter().collect();
        assert_eq!(moments, [(Moment::OnStartup, 1), (Moment::BeforeAll, 2), (Moment::AfterAll, 3)]);
        assert!(config.notes[0].starts_with("hooks[0].afterDeleteHelm: "), "{:?}", config.notes);
        let probe = r#"{"version":"v1","hooks":[],"readiness":{"schedule":[{"crontab":"@daily"}]}}"#;
        let config = read(probe, Scope::Global);
        assert!(config.readiness.is_none() && config.notes[0].starts_with("readiness: "), "{config:?}");
    }

    #[test]
    fn what_is_odd_is_noted_once_and_ignored() {
        let config = read(
            r#"{"version":"v1","new":1,"hooks":[
            {"metadata":{"name":"a","team":"x"},"color":"red","kubernetes":[{"kind":"Pod","depth":3,"namespace":{"regex":"x"}}]},
            {"metadata":{"name":"b"}},{"metadata":{"name":"a"}}],
            "readiness":{"schedule":[{"crontab":"@daily"},{"crontab":"@hourly"}]}}"#,
            Scope::Module,
        );
        let mut notes = config.notes.clone();
        notes.sort();
        let starts = [
            "hooks 0, 2 have the same name \"a\"",
            "hooks[0].color: ",
            "hooks[0].kubernetes[0].depth: ",
            "hooks[0].kubernetes[0].namespace.regex: ",
            "hooks[0].metadata.team: ",
            "new: ",
            "readiness.schedule: a probe has one schedule",
        ];
        assert_eq!(notes.len(), starts.len(), "{notes:#?}");
        for (note, start) in notes.iter().zip(starts) {
            assert!(note.starts_with(start), "{note}");
        }
        assert_eq!(config.hooks.len(), 3, "they are used all the same");
    }

    #[test]
    fn what_cannot_be_used_names_key_and_value() {
        let table = [
            (String::new(), "it printed nothing"),
            ("\n \n".to_owned(), "it printed nothing"),
            (
                "starting\n{}".to_owned(),
                "it is not one JSON document: expected value at line 1 column 1; it begins with \"starting",
            ),
            (r#"{"version":"v1","hooks":[{"#.to_owned(), "it is not one JSON document: EOF while parsing"),
            (format!("{0}{0}", one("")), "it printed several JSON documents"),
            (
                r#"{"level":"error","msg":"can not print configs","error":"no hooks registered","time":"T"}"#
                    .to_owned(),
                "can not print configs: no hooks registered",
            ),
            (r#"{"level":"fatal","msg":"panic recover"}"#.to_owned(), "panic recover"),
            (r#"{"hooks":[]}"#.to_owned(), "version: it is missing"),
            (r#"{"version":"v2","hooks":[]}"#.to_owned(), "version: \"v2\" is not known here, v1 is"),
            (r#"{"version":"v1","hooks":{}}"#.to_owned(), "hooks: {} where a list is wanted"),
            ("7".to_owned(), "7 where a map is wanted"),
            (r#"[7]"#.to_owned(), "hooks[0]: 7 where a map is wanted"),
            (one(r#""configVersion":"v3""#), "hooks[0].configVersion: \"v3\" is none of v1"),
            (one(r#""onStartup":"early""#), "hooks[0].onStartup: \"early\" where a whole number is wanted"),
            (one(r#""schedule":[{"crontab":"* *"}]"#), "hooks[0].schedule[0].crontab: "),
            (one(r#""schedule":[{}]"#), "hooks[0].schedule[0].crontab: it is missing"),
            (one(r#""kubernetes":[{}]"#), "hooks[0].kubernetes[0].kind: it is missing"),
            (
                one(r#""kubernetes":[{"kind":"Pod","executeHookOnEvent":["Added"]}]"#),
                "hooks[0].kubernetes[0].executeHookOnEvent: [\"Added\"] where true or false is wanted",
            ),
            (
                one(r#""kubernetes":[{"kind":"Pod","jqFilter":".a.["}]"#),
                "hooks[0].kubernetes[0].jqFilter: \".a.[\"",
            ),
            (
                one(r#""kubernetes":[{"kind":"Pod","includeSnapshotsFrom":["none"]}]"#),
                "hooks[0].kubernetes[0].includeSnapshotsFrom: there is no kubernetes binding",
            ),
            (one(r#""settings":{"executionBurst":"x"}"#), "hooks[0].settings.executionBurst: \"x\" is not"),
            (one(r#""allowFailure":"yes""#), "hooks[0].allowFailure: \"yes\" where true or false"),
            (
                r#"{"version":"v1","hooks":[],"readiness":{"metadata":{"name":"r"}}}"#.to_owned(),
                "readiness.schedule: it is missing",
            ),
            (
                r#"{"version":"v1","hooks":[],"has_settings_check":1}"#.to_owned(),
                "has_settings_check: 1 where true or false is wanted",
            ),
        ];
        for (text, part) in table {
            let error = refused(&text);
            assert!(error.starts_with(part), "{text}\n{error}");
        }
    }
}
