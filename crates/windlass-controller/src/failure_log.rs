//! What is logged and measured of passes that fail: one line an object and reason, and one line for a cause that many objects share.
//!
//! Owns which failures are news. Pure but for the log: the time is given. When a failed pass is repeated is said by the error
//! ([`ReconcileError::retry_delay`]); its condition and its Event are the front end's form of the same report.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::error::ReconcileError;
use windlass_base::redact::Masked;

/// The front end of modules, by its name.
pub const MODULES: &str = "modules";
/// Objects that fail for the same cause within this time share one line.
pub const WINDOW: Duration = Duration::from_secs(10);
/// So many of them get a line of their own.
pub const OWN_LINES: u32 = 3;
/// Objects whose reasons are remembered.
const MOST_OBJECTS: usize = 20_000;
/// Causes that are remembered; objects of any further one get lines of their own.
const MOST_CAUSES: usize = 1_000;
/// Characters by which reasons and causes differ: an error may quote anything.
const MOST_TEXT: usize = 1_024;
/// A shared cause that lasts is logged again after this time.
pub const REPEAT: Duration = Duration::from_mins(10);

/// A pass that failed.
pub struct PassFailure<'a> {
    /// Why.
    pub error: &'a ReconcileError,
    /// When it is tried again.
    pub retry_in: Duration,
    /// Failures in a row, with this one.
    pub failures: u32,
}

/// A cause, and who fails for it.
#[derive(Debug)]
struct Cause {
    since: Instant,
    /// Lines of single objects.
    lines: u32,
    /// Objects without a line of their own since the last summary.
    uncounted: Vec<String>,
}

/// What a failure is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The object fails for a new reason.
    Reason,
    /// The object fails for a new reason, which is that of other objects, too.
    Shared,
    /// The object has failed for this reason before.
    Known,
}

/// The failures of one front end.
#[derive(Debug, Default)]
pub struct FailureLog {
    /// By object: why it fails.
    reasons: BTreeMap<String, String>,
    /// By cause without the names of objects.
    causes: BTreeMap<String, Cause>,
}

impl FailureLog {
    /// Logs a failed pass of an object.
    pub fn note(&mut self, controller: &str, object: &str, failure: &PassFailure<'_>, now: Instant) {
        let PassFailure { error, retry_in, failures } = failure;
        let (reason, retry_in_s) = (error.reason(), retry_in.as_secs());
        let key = object;
        // Modules are no objects of the cluster; a field without a value is not logged.
        let (object, module) = if controller == MODULES { (None, Some(key)) } else { (Some(key), None) };
        let masked = Masked::for_log(&error.to_string());
        // One line, whatever the error quotes.
        let error_text = masked.as_str().replace('\n', "; ");
        let news = self.classify(key, (reason, &masked), now);
        match (news, error.is_wait()) {
            (News::Reason, true) => {
                tracing::info!(controller, object, module, reason, retry_in_s, "waiting: {error_text}");
            }
            (News::Reason, false) => {
                tracing::error!(
                    controller,
                    object,
                    module,
                    reason,
                    retry_in_s,
                    "reconcile failed: {error_text}"
                );
            }
            (News::Shared, _) | (News::Known, true) => {
                tracing::debug!(
                    controller,
                    object,
                    module,
                    reason,
                    retry_in_s,
                    "reconcile failed: {error_text}"
                );
            }
            (News::Known, false) => {
                tracing::info!(
                    controller,
                    object,
                    module,
                    reason,
                    retry_in_s,
                    failures,
                    "reconcile failed again for the same reason"
                );
            }
        }
    }

    /// Forgets the failures of an object whose pass succeeded, or that does not exist any more. Returns whether it failed before.
    pub fn clear(&mut self, object: &str) -> bool {
        self.reasons.remove(object).is_some()
    }

    /// What a failure of an object is to the log. Its text comes up again in a summary, where the secrets of its pass are not known.
    /// `reason`: what stands before the text, if anything.
    pub(super) fn classify(&mut self, object: &str, (reason, text): (&str, &Masked), now: Instant) -> News {
        let mark = if reason.is_empty() { "" } else { ": " };
        let reason = without_digits(&format!("{reason}{mark}{}", text.as_str().replace('\n', "; ")));
        if self.reasons.get(object) == Some(&reason) {
            return News::Known;
        }
        let cause = without_names(&reason, object);
        if self.reasons.len() >= MOST_OBJECTS {
            // Objects that are gone without a success: the others are news once more.
            self.reasons.clear();
        }
        self.reasons.insert(object.to_owned(), reason);
        self.causes
            .retain(|_, cause| now.duration_since(cause.since) < REPEAT || !cause.uncounted.is_empty());
        if self.causes.len() >= MOST_CAUSES && !self.causes.contains_key(&cause) {
            return News::Reason;
        }
        let cause = self.causes.entry(cause).or_insert(Cause { since: now, lines: 0, uncounted: Vec::new() });
        if cause.lines < OWN_LINES {
            cause.lines += 1;
            return News::Reason;
        }
        if cause.uncounted.is_empty() {
            // The next summary is due a window from here.
            cause.since = now;
        }
        cause.uncounted.push(object.to_owned());
        News::Shared
    }

    /// When the next summary is due.
    pub fn next_summary(&self) -> Option<Instant> {
        let counts = self.causes.values().filter(|cause| !cause.uncounted.is_empty());
        counts.map(|cause| cause.since + WINDOW).min()
    }

    /// Logs the summaries that are due.
    pub fn summarize(&mut self, controller: &str, now: Instant) {
        for (text, objects) in self.due(now) {
            let (count, first) = (objects.len(), objects.first().map(String::as_str).unwrap_or_default());
            tracing::error!(controller, count, first, "more objects fail for the same reason: {text}");
        }
    }

    /// Takes out the objects of each cause whose summary is due.
    pub(super) fn due(&mut self, now: Instant) -> Vec<(String, Vec<String>)> {
        let due = self
            .causes
            .iter_mut()
            .filter(|(_, cause)| !cause.uncounted.is_empty() && cause.since + WINDOW <= now);
        due.map(|(text, cause)| (text.clone(), std::mem::take(&mut cause.uncounted))).collect()
    }
}

/// A text with its numbers made equal: versions and times differ from try to try.
fn without_digits(text: &str) -> String {
    let mut short = String::new();
    for c in text.chars().take(MOST_TEXT).map(|c| if c.is_ascii_digit() { '0' } else { c }) {
        if c != '0' || !short.ends_with('0') {
            short.push(c);
        }
    }
    short
}

/// A text without the namespace and the name of an object: what other objects may fail for, too.
fn without_names(text: &str, object: &str) -> String {
    let object = without_digits(object);
    // An object may be named with its kind in front.
    let named = object.rsplit(' ').next().unwrap_or(&object);
    let (namespace, name) = named.split_once('/').unwrap_or(("", named));
    let mut text = text.replace(named, "…").replace(&format!("{namespace}-{name}"), "…");
    for part in [name, namespace] {
        // A short name may be part of any word.
        if part.len() > 3 {
            text = text.replace(part, "…");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_base::redact::{self, SecretScope};

    fn classify(log: &mut FailureLog, object: &str, text: &str, now: Instant) -> News {
        log.classify(object, ("Failed", &Masked::for_log(text)), now)
    }

    #[test]
    fn a_summary_shows_no_secret_of_a_pass() {
        let mut log = FailureLog::default();
        let start = Instant::now();
        let error = ReconcileError::Config("the password hunter1-alice2-wonder is refused".to_owned());
        for i in 0..=OWN_LINES {
            let failure = PassFailure { error: &error, retry_in: WINDOW, failures: 1 };
            SecretScope::new().run(|| {
                redact::add("hunter1-alice2-wonder");
                log.note("helmreleases", &format!("apps/release-{i}"), &failure, start);
            });
        }
        let summaries = log.due(start + WINDOW);
        assert_eq!(summaries.len(), 1);
        assert!(summaries[0].0.ends_with("the password *** is refused"), "{summaries:?}");
    }

    #[test]
    fn an_objects_reason_is_news_once_and_again_after_another_one() {
        let mut log = FailureLog::default();
        let now = Instant::now();
        let mut note = |text: &str| classify(&mut log, "ns/web", text, now);
        assert_eq!(note("the gate is shut at 12:30:01"), News::Reason);
        assert_eq!(note("the gate is shut at 12:30:07"), News::Known, "numbers differ from try to try");
        assert_eq!(note("no matches for kind"), News::Reason);
        assert_eq!(note("the gate is shut at 12:31:00"), News::Reason);
        assert!(log.clear("ns/web") && !log.clear("ns/web"));
        assert_eq!(
            classify(&mut log, "ns/web", "no matches for kind", now),
            News::Reason,
            "it succeeded in between"
        );
    }

    #[test]
    fn what_is_remembered_of_texts_is_bounded() {
        let mut log = FailureLog::default();
        let now = Instant::now();
        let long = "x".repeat(MOST_TEXT);
        assert_eq!(classify(&mut log, "ns/web", &format!("{long}a"), now), News::Reason);
        assert_eq!(classify(&mut log, "ns/web", &format!("{long}b"), now), News::Known);
        for length in 1..2 * MOST_CAUSES {
            let text = format!("{}{}", "y".repeat(length / 40), "z".repeat(length % 40));
            assert_eq!(classify(&mut log, "ns/web", &text, now), News::Reason, "{length}");
        }
        assert_eq!((log.causes.len(), log.reasons.len()), (MOST_CAUSES, 1));
    }

    #[test]
    fn a_shared_cause_is_summed_up() {
        let mut log = FailureLog::default();
        let start = Instant::now();
        let text = |name: &str| format!("HelmChart 'apps/apps-{name}' is not ready: connection refused");
        for i in 0..530 {
            let name = format!("release-{i}");
            let news = classify(&mut log, &format!("apps/{name}"), &text(&name), start);
            assert_eq!(news, if i < OWN_LINES { News::Reason } else { News::Shared }, "{i}");
        }
        let due = log.next_summary().unwrap();
        assert_eq!((due, log.due(start).len()), (start + WINDOW, 0), "all of one moment are in one line");
        let summaries = log.due(due);
        assert_eq!(summaries.len(), 1);
        assert_eq!(summaries[0].1.len(), 527);
        assert_eq!(log.next_summary(), None);
        assert_eq!(classify(&mut log, "apps/release-5", &text("release-5"), due), News::Known);
        assert_eq!(classify(&mut log, "apps/other-one", "quota exceeded", due), News::Reason);
    }
}
