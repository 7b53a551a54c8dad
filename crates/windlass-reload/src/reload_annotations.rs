//! What a workload asks for with Reloader's annotations, and what an object of configuration does. Pure.
//!
//! The annotations, and which of them win, are those of Reloader 1.4: those of the workload, and where it has none of them, those of its
//! Pod template.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use chart_compat::go::{duration, regexp};
use windlass_cluster::ObjectMeta;

use super::pod_references::{Configuration, ConfigurationKind};

/// The most names or patterns of an annotation.
const MAX_PATTERNS: usize = 100;
/// The most of them that are regular expressions.
const MAX_EXPRESSIONS: usize = 20;
/// The longest pattern, in bytes: as the longest name of an object.
const MAX_PATTERN: usize = 253;
/// The largest automaton of a pattern, in bytes: the operator searches with it for each object of a namespace.
const MAX_AUTOMATON: usize = 16 << 10;
/// The most memory of a workload's regular expressions, in bytes. They are kept as long as the workload, and searches keep as much again.
const MAX_AUTOMATA: usize = 128 << 10;
/// Follow all that the Pods use.
const AUTO: &str = "reloader.stakater.com/auto";
/// Follow what the Pods use and what has [`MATCH`].
const SEARCH: &str = "reloader.stakater.com/search";
/// Of configuration: workloads with [`SEARCH`] follow it.
const MATCH: &str = "reloader.stakater.com/match";
/// Of configuration: nobody follows it.
const IGNORE: &str = "reloader.stakater.com/ignore";
/// How a Rollout of Argo is rolled out.
const ROLLOUT_STRATEGY: &str = "reloader.stakater.com/rollout-strategy";
/// How long a Deployment is paused after a change.
const PAUSE_PERIOD: &str = "deployment.reloader.stakater.com/pause-period";

impl ConfigurationKind {
    /// Annotations of the kind: follow all that is used, follow these by name, do not follow these.
    fn annotations(self) -> [&'static str; 3] {
        match self {
            Self::ConfigMap => [
                "configmap.reloader.stakater.com/auto",
                "configmap.reloader.stakater.com/reload",
                "configmaps.exclude.reloader.stakater.com/reload",
            ],
            Self::Secret => [
                "secret.reloader.stakater.com/auto",
                "secret.reloader.stakater.com/reload",
                "secrets.exclude.reloader.stakater.com/reload",
            ],
            Self::SecretProviderClass => [
                "secretproviderclass.reloader.stakater.com/auto",
                "secretproviderclass.reloader.stakater.com/reload",
                "secretproviderclasses.exclude.reloader.stakater.com/reload",
            ],
        }
    }
}

/// How a Rollout of Argo is rolled out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RolloutStrategy {
    /// By a change of its Pod template.
    #[default]
    Rollout,
    /// By `spec.restartAt`.
    Restart,
}

/// Whether the whole of a kind is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Auto {
    /// No annotation says it.
    #[default]
    Unset,
    On,
    Off,
}

/// A name, or a regular expression for whole names.
#[derive(Clone)]
struct Pattern {
    text: String,
    /// `None` for a name.
    expression: Option<Arc<regexp::Regexp>>,
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Pattern {
    fn read(text: &str) -> Result<Self, String> {
        // Reloader does not group the pattern: `a|b` is `^a` or `b$`. That matches more than is meant, so it is grouped here.
        let expression = match is_name(text) {
            true => None,
            false => {
                Some(Arc::new(regexp::compile_within(format!("^(?:{text})$").as_bytes(), MAX_AUTOMATON)?))
            }
        };
        Ok(Self { text: text.to_owned(), expression })
    }

    fn matches(&self, name: &str) -> bool {
        match &self.expression {
            None => self.text == name,
            Some(expression) => expression.is_match(name.as_bytes()),
        }
    }
}

/// What a workload asks for one kind of configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct KindRequest {
    auto: Auto,
    search: bool,
    named: Vec<Pattern>,
    excluded: BTreeSet<String>,
}

/// What a workload asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReloadRequest {
    /// By the order of [`ConfigurationKind::ALL`].
    kinds: [KindRequest; 3],
    /// How a Rollout is rolled out.
    pub(crate) strategy: RolloutStrategy,
    /// How long a Deployment is paused after a change.
    pub(crate) pause: Option<Duration>,
    /// Annotations that cannot be used; the texts name them with their values.
    pub(crate) errors: Vec<String>,
    /// Memory of the regular expressions, in bytes.
    automata: usize,
}

/// What an object of configuration says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigurationMarks {
    /// Workloads that search follow it.
    pub(crate) matches: bool,
    /// Nobody follows it.
    pub(crate) ignored: bool,
}

impl ConfigurationMarks {
    /// The marks of an object.
    pub(crate) fn of(meta: ObjectMeta<'_>) -> Self {
        let is_true = |name| meta.annotation(name) == Some("true");
        Self { matches: is_true(MATCH), ignored: is_true(IGNORE) }
    }
}

impl ReloadRequest {
    /// What a workload asks for of each kind of configuration, by its own annotations, or where it has none of that kind, by those of its Pod
    /// template.
    pub(crate) fn of(workload: ObjectMeta<'_>, template: ObjectMeta<'_>) -> Self {
        let mut out = Self::default();
        for (at, kind) in ConfigurationKind::ALL.into_iter().enumerate() {
            let [typed, named, excluded] = kind.annotations();
            // Exclusions alone are no request, as with Reloader.
            let has_own = [AUTO, SEARCH, typed, named].iter().any(|name| workload.annotation(name).is_some());
            let source = if has_own { workload } else { template };
            let (auto, typed) = (out.auto(source, AUTO), out.auto(source, typed));
            out.kinds[at] = KindRequest {
                search: source.annotation(SEARCH) == Some("true"),
                auto: match (auto, typed) {
                    (Auto::On, _) | (_, Auto::On) => Auto::On,
                    (Auto::Unset, Auto::Unset) => Auto::Unset,
                    _ => Auto::Off,
                },
                named: out.patterns(source, named),
                excluded: list(workload.annotation(excluded)).map(str::to_owned).collect(),
            };
        }
        out.strategy = out.rollout_strategy(workload);
        out.pause = out.pause_period(workload);
        out
    }

    /// Whether nothing is followed, whatever there is. `all`: workloads without a request follow what they use.
    pub(crate) fn is_empty(&self, all: bool) -> bool {
        let idle = |kind: &KindRequest| {
            kind.named.is_empty()
                && !kind.search
                && !(kind.auto == Auto::On || all && kind.auto == Auto::Unset)
        };
        self.kinds.iter().all(idle)
    }

    /// Whether the workload follows an object. `used`: its Pods use it; `marks`: what the object says of itself, if there is one;
    /// `by_default`: whether a workload that does not say it follows what it uses.
    pub(crate) fn follows(
        &self,
        object: &Configuration,
        used: bool,
        marks: ConfigurationMarks,
        by_default: bool,
    ) -> bool {
        let request = &self.kinds[object.kind as usize];
        if marks.ignored || request.excluded.contains(&object.name) {
            return false;
        }
        let auto = match request.auto {
            Auto::On => true,
            Auto::Off => false,
            Auto::Unset => by_default,
        };
        (used && (auto || request.search && marks.matches)) || self.names(object)
    }

    /// Whether an annotation names the object.
    pub(crate) fn names(&self, object: &Configuration) -> bool {
        self.kinds[object.kind as usize].named.iter().any(|pattern| pattern.matches(&object.name))
    }

    /// Whether an annotation has regular expressions for names of the kind.
    pub(crate) fn has_expressions(&self, kind: ConfigurationKind) -> bool {
        self.kinds[kind as usize].named.iter().any(|pattern| pattern.expression.is_some())
    }

    /// Whether an object that was followed is followed while it is not there, and nothing says that it is a match.
    pub(crate) fn keeps(&self, object: &Configuration, used: bool) -> bool {
        let request = &self.kinds[object.kind as usize];
        !request.excluded.contains(&object.name) && (self.names(object) || used && request.search)
    }

    /// The names of an annotation that are names: those of objects that need not exist.
    pub(crate) fn plain_names(&self) -> impl Iterator<Item = Configuration> {
        ConfigurationKind::ALL.into_iter().zip(&self.kinds).flat_map(|(kind, request)| {
            let plain = request.named.iter().filter(|pattern| pattern.expression.is_none());
            plain.map(move |pattern| Configuration::new(kind, &pattern.text))
        })
    }

    fn auto(&mut self, source: ObjectMeta<'_>, name: &str) -> Auto {
        // Go's ParseBool.
        match source.annotation(name) {
            None | Some("") => Auto::Unset,
            Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Auto::On,
            Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Auto::Off,
            Some(other) => {
                let error = format!("{name}: {other:?} is neither true nor false");
                // The same annotation counts for each kind.
                if !self.errors.contains(&error) {
                    self.errors.push(error);
                }
                Auto::Off
            }
        }
    }

    fn patterns(&mut self, source: ObjectMeta<'_>, name: &str) -> Vec<Pattern> {
        let (mut out, mut expressions) = (Vec::new(), 0);
        for pattern in list(source.annotation(name)) {
            if out.len() == MAX_PATTERNS {
                self.errors
                    .push(format!("{name}: it has more than {MAX_PATTERNS} names: the rest is not followed"));
                break;
            }
            if pattern.len() > MAX_PATTERN {
                self.errors.push(format!("{name}: a name is longer than {MAX_PATTERN} bytes"));
                continue;
            }
            match Pattern::read(pattern) {
                Ok(pattern) if pattern.expression.is_some() && expressions == MAX_EXPRESSIONS => {
                    self.errors.push(format!(
                        "{name}: {:?}: it has more than {MAX_EXPRESSIONS} regular expressions: this one is not followed",
                        pattern.text
                    ));
                }
                Ok(pattern) => {
                    let memory = pattern.expression.as_ref().map_or(0, |expression| expression.memory());
                    if self.automata + memory > MAX_AUTOMATA {
                        self.errors.push(format!(
                            "{name}: {:?}: the regular expressions of the workload take more than {} KiB: this one is not followed",
                            pattern.text,
                            MAX_AUTOMATA >> 10
                        ));
                        continue;
                    }
                    self.automata += memory;
                    expressions += usize::from(pattern.expression.is_some());
                    out.push(pattern);
                }
                Err(error) => self.errors.push(format!("{name}: {pattern:?}: {error}")),
            }
        }
        out
    }

    fn rollout_strategy(&mut self, workload: ObjectMeta<'_>) -> RolloutStrategy {
        match workload.annotation(ROLLOUT_STRATEGY) {
            None | Some("" | "rollout") => RolloutStrategy::Rollout,
            Some("restart") => RolloutStrategy::Restart,
            Some(other) => {
                self.errors.push(format!("{ROLLOUT_STRATEGY}: {other:?} is neither rollout nor restart"));
                RolloutStrategy::Rollout
            }
        }
    }

    fn pause_period(&mut self, workload: ObjectMeta<'_>) -> Option<Duration> {
        let text = workload.annotation(PAUSE_PERIOD)?;
        match duration::parse(text).map(u64::try_from) {
            Ok(Ok(nanoseconds)) if nanoseconds > 0 => Some(Duration::from_nanos(nanoseconds)),
            _ => {
                self.errors.push(format!("{PAUSE_PERIOD}: {text:?} is not a duration above 0, such as 5m"));
                None
            }
        }
    }
}

/// The parts of a list that commas separate.
fn list(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|part| !part.is_empty())
}

fn is_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn request(annotations: &Value, template: &Value) -> ReloadRequest {
        let workload = json!({"metadata": {"annotations": annotations}});
        let template = json!({"metadata": {"annotations": template}});
        ReloadRequest::of(ObjectMeta::of(&workload), ObjectMeta::of(&template))
    }

    /// Whether ConfigMap `app` is followed: used, used and marked as a match, not used.
    fn follows(annotations: &Value) -> [bool; 3] {
        let request = request(annotations, &Value::Null);
        assert_eq!(request.errors, [] as [String; 0], "{annotations}");
        let app = Configuration::new(ConfigurationKind::ConfigMap, "app");
        let marks = ConfigurationMarks::default();
        let matches = ConfigurationMarks { matches: true, ignored: false };
        let ignored = ConfigurationMarks { matches: true, ignored: true };
        assert!(!request.follows(&app, true, ignored, true));
        [
            request.follows(&app, true, marks, false),
            request.follows(&app, true, matches, false),
            request.follows(&app, false, matches, false),
        ]
    }

    #[test]
    fn each_annotation_has_its_effect() {
        for (annotations, followed) in [
            (json!({}), [false, false, false]),
            (json!({"reloader.stakater.com/auto": "true"}), [true, true, false]),
            (json!({"reloader.stakater.com/auto": "false"}), [false, false, false]),
            (json!({"configmap.reloader.stakater.com/auto": "true"}), [true, true, false]),
            (json!({"secret.reloader.stakater.com/auto": "true"}), [false, false, false]),
            (json!({"reloader.stakater.com/search": "true"}), [false, true, false]),
            (json!({"reloader.stakater.com/search": "yes"}), [false, false, false]),
            (json!({"configmap.reloader.stakater.com/reload": "other, app"}), [true, true, true]),
            (json!({"configmap.reloader.stakater.com/reload": "a.*"}), [true, true, true]),
            (json!({"configmap.reloader.stakater.com/reload": "pp"}), [false, false, false]),
            (json!({"configmap.reloader.stakater.com/reload": "x|p"}), [false, false, false]),
            (json!({"configmap.reloader.stakater.com/reload": ""}), [false, false, false]),
            (json!({"secret.reloader.stakater.com/reload": "app"}), [false, false, false]),
            (
                json!({"reloader.stakater.com/auto": "true", "configmaps.exclude.reloader.stakater.com/reload": "b, app"}),
                [false, false, false],
            ),
            (
                json!({"reloader.stakater.com/auto": "true", "secrets.exclude.reloader.stakater.com/reload": "app"}),
                [true, true, false],
            ),
        ] {
            assert_eq!(follows(&annotations), followed, "{annotations}");
        }
    }

    #[test]
    fn a_template_is_asked_where_the_workload_says_nothing() {
        let app = Configuration::new(ConfigurationKind::ConfigMap, "app");
        let auto = json!({"reloader.stakater.com/auto": "true"});
        let marks = ConfigurationMarks::default();
        let follows = |workload: &Value, template: &Value, by_default| {
            request(workload, template).follows(&app, true, marks, by_default)
        };
        assert!(follows(&Value::Null, &auto, false));
        assert!(!follows(&json!({"reloader.stakater.com/search": "true"}), &auto, false));
        assert!(follows(&json!({"secret.reloader.stakater.com/auto": "true"}), &auto, false));
        assert!(!follows(&json!({"configmap.reloader.stakater.com/auto": "false"}), &auto, false));
        assert!(follows(&Value::Null, &Value::Null, true));
        assert!(!follows(&json!({"reloader.stakater.com/auto": "false"}), &Value::Null, true));
        assert!(!follows(&json!({"configmap.reloader.stakater.com/auto": "false"}), &Value::Null, true));
        assert!(request(&Value::Null, &Value::Null).is_empty(false));
        assert!(!request(&Value::Null, &Value::Null).is_empty(true));
        assert!(request(&json!({"reloader.stakater.com/auto": "false"}), &auto).is_empty(true));
    }

    #[test]
    fn what_cannot_be_used_is_an_error_and_follows_nothing() {
        for (annotations, part) in [
            (json!({"reloader.stakater.com/auto": "yes"}), "auto: \"yes\" is neither true nor false"),
            (
                json!({"configmap.reloader.stakater.com/reload": "a("}),
                "configmap.reloader.stakater.com/reload: \"a(\": ",
            ),
            (json!({"configmap.reloader.stakater.com/reload": "a".repeat(300)}), "longer than 253 bytes"),
            (json!({"configmap.reloader.stakater.com/reload": "a,".repeat(200)}), "more than 100 names"),
            (
                json!({"configmap.reloader.stakater.com/reload": "a.,".repeat(21)}),
                "more than 20 regular expressions",
            ),
            (json!({"configmap.reloader.stakater.com/reload": "[\\pL\\pN]{900}"}), "reload: \"[\\\\pL"),
            (
                json!({"configmap.reloader.stakater.com/reload": "a.,".repeat(20), "secret.reloader.stakater.com/reload": "b.,c.,d.,e.,f."}),
                "\"f.\": the regular expressions of the workload take more than 128 KiB",
            ),
            (
                json!({"reloader.stakater.com/rollout-strategy": "no"}),
                "\"no\" is neither rollout nor restart",
            ),
            (
                json!({"deployment.reloader.stakater.com/pause-period": "soon"}),
                "\"soon\" is not a duration above 0",
            ),
            (
                json!({"deployment.reloader.stakater.com/pause-period": "-1s"}),
                "\"-1s\" is not a duration above 0",
            ),
        ] {
            let request = request(&annotations, &Value::Null);
            assert!(
                request.errors.len() == 1 && request.errors[0].contains(part),
                "{annotations}: {:?}",
                request.errors
            );
        }
        let full = request(
            &json!({"reloader.stakater.com/rollout-strategy": "restart", "deployment.reloader.stakater.com/pause-period": "1m30s",
                "secret.reloader.stakater.com/reload": "tls, db-.*"}),
            &Value::Null,
        );
        assert_eq!((full.strategy, full.pause), (RolloutStrategy::Restart, Some(Duration::from_secs(90))));
        let names: Vec<String> = full.plain_names().map(|name| name.to_string()).collect();
        assert_eq!(names, ["Secret/tls"]);
    }
}
