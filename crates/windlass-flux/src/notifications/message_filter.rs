//! The regular expressions of Alerts, compiled.
//!
//! Owns their bounds, and which of them are kept: each is compiled once, as long as all together take little memory. Knows no event
//! but its message.

use std::collections::BTreeMap;
use std::sync::Arc;

use chart_compat::go::regexp::{Regexp, compile_within};

use super::super::error::FluxError;
use super::alert_matching::Problem;
use flux_api::alert::AlertSpec;
use windlass_cluster::ObjectRef;

/// Longest regular expression of an Alert, in bytes.
const MAX_EXPRESSION: usize = 2 << 10;
/// Most regular expressions of a list.
const MAX_EXPRESSIONS: usize = 64;
/// The largest automaton of an expression, in bytes.
const MAX_SIZE: usize = 1 << 20;
/// What a search for an expression may keep beside it, in bytes.
const MAX_SEARCH: usize = 2 * MAX_SIZE;
/// The memory of all filters that are kept, in bytes.
const MAX_KEPT: usize = 64 << 20;

/// An expression, or why it does not compile.
type Compiled = Result<Regexp, FluxError>;

/// The expressions of an Alert.
pub(super) struct MessageFilter {
    inclusion: Vec<(String, Compiled)>,
    exclusion: Vec<(String, Compiled)>,
    /// What is wrong with the lists themselves.
    problems: Vec<Problem>,
}

impl MessageFilter {
    /// Compiles the expressions of an Alert, which takes time.
    pub(super) fn compile(spec: &AlertSpec) -> Self {
        let mut problems = Vec::new();
        let mut list = |all: &[String], name: &str| -> Vec<(String, Compiled)> {
            if all.len() > MAX_EXPRESSIONS {
                let text = format!(
                    "spec.{name}List has more than {MAX_EXPRESSIONS} expressions: the others are ignored"
                );
                problems.push(("InvalidConfig", text));
            }
            all.iter().take(MAX_EXPRESSIONS).map(|expression| compiled(expression)).collect()
        };
        let (inclusion, exclusion) =
            (list(&spec.inclusion_list, "inclusion"), list(&spec.exclusion_list, "exclusion"));
        Self { inclusion, exclusion, problems }
    }

    /// Whether it lets a message pass. What is wrong with the Alert is added to `problems`.
    pub(super) fn admits(&self, message: &str, problems: &mut Vec<Problem>) -> bool {
        problems.extend(self.problems.iter().cloned());
        (self.inclusion.is_empty() || any_matches(&self.inclusion, "inclusion", message, problems))
            && !any_matches(&self.exclusion, "exclusion", message, problems)
    }

    fn memory(&self) -> usize {
        let all = self.inclusion.iter().chain(&self.exclusion);
        all.map(|(text, compiled)| {
            text.len()
                + compiled.as_ref().map_or(0, |regex| regex.memory() + MAX_SEARCH.min(16 * regex.memory()))
        })
        .sum()
    }
}

/// An expression with its text, as far as messages show it.
fn compiled(expression: &str) -> (String, Compiled) {
    let compiled = match expression.len() {
        0..=MAX_EXPRESSION => compile_within(expression.as_bytes(), MAX_SIZE).map_err(FluxError::from),
        _ => Err(format!("it has more than {MAX_EXPRESSION} bytes").into()),
    };
    (expression.chars().take(200).collect(), compiled)
}

/// Whether one expression of a list matches. One that is wrong matches nothing.
fn any_matches(list: &[(String, Compiled)], name: &str, message: &str, problems: &mut Vec<Problem>) -> bool {
    list.iter().any(|(shown, compiled)| match compiled {
        Ok(compiled) => compiled.is_match(message.as_bytes()),
        Err(error) => {
            problems.push(("InvalidConfig", format!("failed to compile {name} regex: {shown}: {error}")));
            false
        }
    })
}

/// The filters of Alerts, each with the lists that it was compiled from.
#[derive(Default)]
pub(super) struct MessageFilters {
    kept: BTreeMap<ObjectRef, Kept>,
    memory: usize,
}

struct Kept {
    lists: [Vec<String>; 2],
    filter: Arc<MessageFilter>,
    memory: usize,
}

impl MessageFilters {
    /// The filter of an Alert. One that is not known is compiled beside the runtime.
    pub(super) async fn of(&mut self, name: &ObjectRef, spec: &AlertSpec) -> Arc<MessageFilter> {
        let lists = [spec.inclusion_list.clone(), spec.exclusion_list.clone()];
        if let Some(kept) = self.kept.get(name).filter(|kept| kept.lists == lists) {
            return Arc::clone(&kept.filter);
        }
        self.forget(name);
        let of_task = spec.clone();
        let compiled = tokio::task::spawn_blocking(move || MessageFilter::compile(&of_task)).await;
        // The task neither panics nor is cancelled.
        let filter = Arc::new(compiled.unwrap_or_else(|_| MessageFilter::compile(spec)));
        let memory = filter.memory();
        while self.memory + memory > MAX_KEPT
            && let Some((_, other)) = self.kept.pop_first()
        {
            self.memory -= other.memory;
        }
        self.memory += memory;
        self.kept.insert(name.clone(), Kept { lists, filter: Arc::clone(&filter), memory });
        filter
    }

    /// Forgets the filter of an Alert that is gone.
    pub(super) fn forget(&mut self, name: &ObjectRef) {
        if let Some(kept) = self.kept.remove(name) {
            self.memory -= kept.memory;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use windlass_cluster::Gvk;

    fn alert(spec: &Value) -> AlertSpec {
        let mut whole = json!({"providerRef": {"name": "p"}, "eventSources": []});
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn lists_admit_messages() {
        for (spec, of_info, of_error) in [
            (json!({}), true, true),
            (json!({"inclusionList": ["^Helm (install|upgrade) succeeded$"]}), true, false),
            (json!({"inclusionList": ["nothing", "time.*out"]}), false, true),
            (json!({"exclusionList": ["(?i)TIMEOUT"]}), true, false),
            (json!({"inclusionList": ["Helm"], "exclusionList": ["succeeded"]}), false, true),
        ] {
            let (filter, mut problems) = (MessageFilter::compile(&alert(&spec)), Vec::new());
            assert_eq!(filter.admits("Helm install succeeded", &mut problems), of_info, "{spec}");
            assert_eq!(filter.admits("Helm install failed: timeout", &mut problems), of_error, "{spec}");
            assert_eq!(problems, []);
        }
    }

    #[test]
    fn wrong_expressions_match_nothing() {
        let long = "a".repeat(MAX_EXPRESSION + 1);
        for (spec, matched, problem) in [
            (
                json!({"inclusionList": ["("]}),
                false,
                "failed to compile inclusion regex: (: error parsing regexp",
            ),
            (json!({"inclusionList": ["(", "Helm"]}), true, "failed to compile inclusion regex: ("),
            (json!({"exclusionList": ["(?=a)"]}), true, "failed to compile exclusion regex: (?=a)"),
            (json!({"exclusionList": [long]}), true, "failed to compile exclusion regex: aaa"),
            // 1 MiB of automaton, and not the 32 of a chart.
            (
                json!({"inclusionList": [r"(\pL{100}){8}"]}),
                false,
                r"failed to compile inclusion regex: (\pL{100}){8}: error parsing regexp: expression too large",
            ),
            (
                json!({"exclusionList": vec!["x"; 65]}),
                true,
                "spec.exclusionList has more than 64 expressions",
            ),
        ] {
            let mut problems = Vec::new();
            let filter = MessageFilter::compile(&alert(&spec));
            assert_eq!(filter.admits("Helm install succeeded", &mut problems), matched, "{spec}");
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].0 == "InvalidConfig" && problems[0].1.starts_with(problem), "{problems:?}");
        }
    }

    #[tokio::test]
    async fn an_alert_is_compiled_once_and_what_is_kept_is_bounded() {
        let name = |at: usize| ObjectRef::new(Gvk::new("v1", "Alert"), Some("apps"), &format!("a{at}"));
        let mut filters = MessageFilters::default();
        let spec = |expression: &str| alert(&json!({"inclusionList": [expression]}));
        let first = filters.of(&name(0), &spec("a")).await;
        assert!(Arc::ptr_eq(&first, &filters.of(&name(0), &spec("a")).await));
        assert!(!Arc::ptr_eq(&first, &filters.of(&name(0), &spec("b")).await));
        for at in 0..40 {
            filters.of(&name(at), &spec(r"\pL{100}")).await;
            assert!(filters.memory <= MAX_KEPT);
        }
        assert!(filters.kept.len() > 1);
        for at in 0..40 {
            filters.forget(&name(at));
        }
        assert_eq!((filters.kept.len(), filters.memory), (0, 0));
    }
}
