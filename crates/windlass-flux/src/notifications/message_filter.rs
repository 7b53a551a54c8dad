//! The regular expressions of Alerts, compiled.
//!
//! Owns their bounds, and which of them are kept: each is compiled once, as long as all together take little memory. All of it blocks.
//! Knows no event but its message.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
/// The memory of all compiled expressions of an Alert, in bytes: at least that of one.
const MAX_COMPILED: usize = 4 * MAX_SIZE;
/// What a search for an expression may keep beside it, in bytes.
const MAX_SEARCH: usize = 2 * MAX_SIZE;
/// The memory of all filters that are kept, in bytes.
const MAX_KEPT: usize = 64 << 20;
/// The most that is searched in a message, over all expressions of an Alert: bytes of an expression, compiled, times bytes of the message.
/// Some seconds, at worst, and a search cannot be interrupted.
const MAX_SEARCHED: usize = 16 << 30;
/// Reason of Events that say what is wrong with an Alert.
const INVALID: &str = "InvalidConfig";

/// An expression, or why it does not compile.
type Compiled = Result<Regexp, FluxError>;

/// The expressions of an Alert.
pub(super) struct MessageFilter {
    /// Those that include and those that exclude; else why nothing passes.
    lists: Result<[Vec<(String, Compiled)>; 2], FluxError>,
    /// What is wrong with the lists themselves.
    problems: Vec<Problem>,
}

impl MessageFilter {
    /// Whether an Alert has expressions at all.
    pub(super) fn is_needed(spec: &AlertSpec) -> bool {
        !spec.inclusion_list.is_empty() || !spec.exclusion_list.is_empty()
    }

    /// Compiles the expressions of an Alert, which takes time. None of them is left out where they are too large together: what should
    /// not be sent would be sent.
    pub(super) fn compile(spec: &AlertSpec) -> Self {
        let (mut problems, mut left) = (Vec::new(), MAX_COMPILED);
        let lists =
            compile_list(&spec.inclusion_list, "inclusion", &mut left, &mut problems).and_then(|inclusion| {
                let exclusion = compile_list(&spec.exclusion_list, "exclusion", &mut left, &mut problems)?;
                Ok([inclusion, exclusion])
            });
        Self { lists, problems }
    }

    /// Whether it lets a message pass. What is wrong with the Alert is added to `problems`.
    pub(super) fn admits(&self, message: &str, problems: &mut Vec<Problem>) -> bool {
        problems.extend(self.problems.iter().cloned());
        self.look_at(message, problems).unwrap_or_else(|error| {
            problems.push((INVALID, format!("an event is not sent: {error}")));
            false
        })
    }

    fn look_at(&self, message: &str, problems: &mut Vec<Problem>) -> Result<bool, FluxError> {
        let [inclusion, exclusion] = self.lists.as_ref().map_err(Clone::clone)?;
        let mut search = Search { message, left: MAX_SEARCHED };
        Ok((inclusion.is_empty() || search.any_matches(inclusion, "inclusion", problems)?)
            && !search.any_matches(exclusion, "exclusion", problems)?)
    }

    fn memory(&self) -> usize {
        let all = self.lists.iter().flatten().flatten();
        all.map(|(text, compiled)| {
            text.len()
                + compiled.as_ref().map_or(0, |regex| regex.memory() + MAX_SEARCH.min(16 * regex.memory()))
        })
        .sum()
    }
}

/// Compiles a list until its expressions take more than is left.
fn compile_list(
    all: &[String],
    name: &str,
    left: &mut usize,
    problems: &mut Vec<Problem>,
) -> Result<Vec<(String, Compiled)>, FluxError> {
    if all.len() > MAX_EXPRESSIONS {
        let text =
            format!("spec.{name}List has more than {MAX_EXPRESSIONS} expressions: the others are ignored");
        problems.push((INVALID, text));
    }
    let mut list = Vec::new();
    for (at, expression) in all.iter().take(MAX_EXPRESSIONS).enumerate() {
        let (shown, compiled) = compile_one(expression);
        if let Ok(regex) = &compiled {
            *left = left.checked_sub(regex.memory()).ok_or_else(|| {
                format!(
                    "with spec.{name}List[{at}] the expressions take more than {} MiB, compiled: have fewer, or repeat less in them",
                    MAX_COMPILED >> 20
                )
            })?;
        }
        list.push((shown, compiled));
    }
    Ok(list)
}

/// An expression with its text, as far as messages show it.
fn compile_one(expression: &str) -> (String, Compiled) {
    let compiled = match expression.len() {
        0..=MAX_EXPRESSION => compile_within(expression.as_bytes(), MAX_SIZE).map_err(FluxError::from),
        _ => Err(format!("it has more than {MAX_EXPRESSION} bytes").into()),
    };
    (expression.chars().take(200).collect(), compiled)
}

/// The searches in one message.
struct Search<'m> {
    message: &'m str,
    /// What they may still take.
    left: usize,
}

impl Search<'_> {
    /// Whether one expression of a list matches. One that is wrong matches nothing.
    fn any_matches(
        &mut self,
        list: &[(String, Compiled)],
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<bool, FluxError> {
        for (at, (shown, compiled)) in list.iter().enumerate() {
            match compiled {
                Ok(regex) => {
                    self.count(regex).map_err(|e| FluxError::within(format!("spec.{name}List[{at}]"), e))?;
                    if regex.is_match(self.message.as_bytes()) {
                        return Ok(true);
                    }
                }
                Err(error) => {
                    problems.push((INVALID, format!("failed to compile {name} regex: {shown}: {error}")));
                }
            }
        }
        Ok(false)
    }

    /// Counts a search before it begins.
    fn count(&mut self, regex: &Regexp) -> Result<(), FluxError> {
        // One that is costly for no text takes no time that counts.
        if !regex.is_costly(usize::MAX) {
            return Ok(());
        }
        let (memory, length) = (regex.memory(), self.message.len());
        self.left = self.left.checked_sub(memory.saturating_mul(length)).ok_or_else(|| {
            format!(
                "the regular expression of {} KiB, compiled, and those before it are too large for a message of {length} bytes: repeat \
                 less in them",
                memory >> 10
            )
        })?;
        Ok(())
    }
}

/// The filters of Alerts, each with the lists that it was compiled from.
pub(super) struct MessageFilters(Mutex<KeptFilters>);

struct KeptFilters {
    filters: BTreeMap<ObjectRef, KeptFilter>,
    memory: usize,
    /// The most memory.
    most: usize,
}

struct KeptFilter {
    lists: [Vec<String>; 2],
    filter: Arc<MessageFilter>,
    memory: usize,
}

impl Default for MessageFilters {
    fn default() -> Self {
        Self::within(MAX_KEPT)
    }
}

impl MessageFilters {
    fn within(most: usize) -> Self {
        Self(Mutex::new(KeptFilters { filters: BTreeMap::new(), memory: 0, most }))
    }

    fn lock(&self) -> MutexGuard<'_, KeptFilters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The filter of an Alert. One that is not known is compiled now.
    pub(super) fn of(&self, name: &ObjectRef, spec: &AlertSpec) -> Arc<MessageFilter> {
        let lists = [spec.inclusion_list.clone(), spec.exclusion_list.clone()];
        let known = self.lock().known(name, &lists);
        known.unwrap_or_else(|| {
            let filter = Arc::new(MessageFilter::compile(spec));
            self.lock().keep(name, lists, &filter);
            filter
        })
    }

    /// Forgets the filter of an Alert that is gone.
    pub(super) fn forget(&self, name: &ObjectRef) {
        self.lock().forget(name);
    }
}

impl KeptFilters {
    fn known(&self, name: &ObjectRef, lists: &[Vec<String>; 2]) -> Option<Arc<MessageFilter>> {
        let kept = self.filters.get(name).filter(|kept| kept.lists == *lists);
        kept.map(|kept| Arc::clone(&kept.filter))
    }

    /// Keeps a filter in place of others. One that has no place even alone is not kept.
    fn keep(&mut self, name: &ObjectRef, lists: [Vec<String>; 2], filter: &Arc<MessageFilter>) {
        self.forget(name);
        let memory = filter.memory() + lists.iter().flatten().map(String::len).sum::<usize>();
        if memory > self.most {
            return;
        }
        while self.memory + memory > self.most
            && let Some((_, other)) = self.filters.pop_first()
        {
            self.memory -= other.memory;
        }
        self.memory += memory;
        self.filters.insert(name.clone(), KeptFilter { lists, filter: Arc::clone(filter), memory });
    }

    fn forget(&mut self, name: &ObjectRef) {
        if let Some(kept) = self.filters.remove(name) {
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

    #[test]
    fn expressions_of_an_alert_have_one_bound_and_none_is_left_out() {
        let large = r"\pL{20}";
        for (spec, field) in [
            (json!({"exclusionList": vec![large; 64]}), "with spec.exclusionList["),
            (json!({"inclusionList": vec![large; 64], "exclusionList": ["x"]}), "with spec.inclusionList["),
            // Both lists take of the same.
            (json!({"inclusionList": [large], "exclusionList": vec![large; 63]}), "with spec.exclusionList["),
        ] {
            let (filter, mut problems) = (MessageFilter::compile(&alert(&spec)), Vec::new());
            assert!(!filter.admits("Helm install succeeded", &mut problems), "{spec}");
            assert_eq!(problems.len(), 1, "{problems:?}");
            let (reason, text) = &problems[0];
            assert_eq!(*reason, "InvalidConfig");
            assert!(text.starts_with(&format!("an event is not sent: {field}")), "{text}");
            assert!(text.contains("the expressions take more than 4 MiB, compiled"), "{text}");
            assert_eq!(filter.memory(), 0, "what was compiled is dropped");
        }
    }

    #[test]
    fn a_costly_search_does_not_begin_and_the_event_is_not_sent() {
        let mut problems = Vec::new();
        let mut refused = |spec: &Value, message: &str| {
            problems.clear();
            assert!(!MessageFilter::compile(&alert(spec)).admits(message, &mut problems), "{spec}");
            problems.iter().map(|(_, text)| text.clone()).collect::<Vec<_>>().join("; ")
        };
        // An exclusion that is not looked for does not let the event pass.
        let long = "1".repeat(4 << 20);
        let told = refused(&json!({"exclusionList": ["x", r"\pL{20}"]}), &long);
        assert!(told.starts_with("an event is not sent: spec.exclusionList[1]: the regular"), "{told}");
        assert_eq!(refused(&json!({"inclusionList": ["x"]}), &long), "", "a small one searches any text");
        // Each alone is not too much.
        let memory = compile_within(br"\pL{5}", MAX_SIZE).unwrap().memory();
        let message = "1".repeat(MAX_SEARCHED / (3 * memory));
        assert_eq!(refused(&json!({"inclusionList": vec![r"\pL{5}"; 3]}), &message), "");
        let told = refused(&json!({"inclusionList": vec![r"\pL{5}"; 4]}), &message);
        assert!(told.starts_with("an event is not sent: spec.inclusionList[3]: "), "{told}");
    }

    #[test]
    fn an_alert_is_compiled_once_and_what_is_kept_is_bounded() {
        let name = |at: usize| ObjectRef::new(Gvk::new("v1", "Alert"), Some("apps"), &format!("a{at}"));
        let spec = |expression: &str| alert(&json!({"inclusionList": [expression]}));
        let filters = MessageFilters::default();
        let first = filters.of(&name(0), &spec("a"));
        assert!(Arc::ptr_eq(&first, &filters.of(&name(0), &spec("a"))));
        assert!(!Arc::ptr_eq(&first, &filters.of(&name(0), &spec("b"))));
        for at in 0..40 {
            filters.of(&name(at), &spec(r"\pL{20}"));
            assert!(filters.lock().memory <= MAX_KEPT);
        }
        assert!(filters.lock().filters.len() > 1);
        for at in 0..40 {
            filters.forget(&name(at));
        }
        let kept = filters.lock();
        assert_eq!((kept.filters.len(), kept.memory), (0, 0));
    }

    #[test]
    fn a_filter_that_is_larger_than_all_that_is_kept_is_not_kept() {
        let name = |text: &str| ObjectRef::new(Gvk::new("v1", "Alert"), Some("apps"), text);
        let filters = MessageFilters::within(2 * MAX_EXPRESSION);
        // It does not compile, and counts with its text.
        let of_length = |length: usize| alert(&json!({"inclusionList": ["(".repeat(length)]}));
        filters.of(&name("small"), &of_length(10));
        filters.of(&name("large"), &of_length(2 * MAX_EXPRESSION));
        let kept = filters.lock();
        assert_eq!(kept.filters.keys().collect::<Vec<_>>(), [&name("small")]);
        assert_eq!(kept.memory, 20);
    }
}
