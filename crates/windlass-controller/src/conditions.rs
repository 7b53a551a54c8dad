//! Conditions in the form of Kubernetes' API conventions.
//!
//! Owns when a transition time changes. Which conditions there are is the front end's.

use serde_json::{Value, json};

use super::front_end::Report;
use windlass_base::redact;
use windlass_engine::Disposition;

/// Longest message of a condition, in bytes.
const MAX_MESSAGE: usize = 1024;
/// What stands for the middle of a longer text.
const OMITTED: &str = " … ";

/// A text of at most so many bytes: of a longer one the middle is left out. Errors begin with the place, and end with the cause. The API server
/// counts the note of an Event in bytes, and a message by its schema in characters, which are never more.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = most / 4;
    let start = text.floor_char_boundary(most.saturating_sub(end + OMITTED.len()));
    let end = text.ceil_char_boundary(text.len() - end);
    [text.get(..start).unwrap_or_default(), OMITTED, text.get(end..).unwrap_or_default()].concat()
}

/// One condition of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// CamelCase name, such as `Ready`.
    pub condition_type: &'static str,
    /// `None`: unknown.
    pub status: Option<bool>,
    /// One CamelCase word that says why.
    pub reason: &'static str,
    /// The same for people. Secrets are masked here.
    pub message: String,
}

/// How far an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A pass runs or is repeated soon.
    Reconciling,
    /// Nothing is to be done before something changes, or the interval has elapsed.
    Settled,
    /// It cannot go on before something changes.
    Stalled,
}

/// What the conditions of an object say together: Ready, and kstatus' Reconciling and Stalled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyState {
    /// `None`: unknown.
    pub ready: Option<bool>,
    /// One CamelCase word that says why.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
    /// How far it is.
    pub phase: Phase,
}

impl ReadyState {
    /// An object that is as desired.
    #[must_use]
    pub fn ready(reason: &'static str, message: String) -> Self {
        Self { ready: Some(true), reason, message, phase: Phase::Settled }
    }

    /// What a report says of the object; `None` of a release and of dependencies, which say it of others. `progressing`: what is going on.
    #[must_use]
    pub fn of_report(report: &Report<'_>, progressing: &str) -> Option<Self> {
        let state = |ready, reason, message, phase| Some(Self { ready, reason, message, phase });
        match report {
            Report::Progressing => state(None, "Progressing", progressing.to_owned(), Phase::Reconciling),
            Report::Suspended => state(None, "Suspended", "spec.suspend is true".to_owned(), Phase::Settled),
            Report::Released(_) | Report::DependencyNotReady(_) => None,
            Report::Failed { error, .. } => {
                let stalls = error.disposition() == Disposition::Stall;
                let phase = if stalls { Phase::Stalled } else { Phase::Reconciling };
                state(Some(false), error.reason(), error.to_string(), phase)
            }
        }
    }

    /// The conditions Ready, Reconciling and Stalled.
    #[must_use]
    pub fn conditions(self) -> [Condition; 3] {
        let Self { ready, reason, message, phase } = self;
        let condition = |condition_type, status, reason, message| Condition {
            condition_type,
            status: Some(status),
            reason,
            message,
        };
        let (reconciling, stalled) = (phase == Phase::Reconciling, phase == Phase::Stalled);
        let why = if stalled { (reason, message.clone()) } else { ("Progressing", String::new()) };
        [
            Condition { condition_type: "Ready", status: ready, reason, message },
            condition(
                "Reconciling",
                reconciling,
                if reconciling { "Progressing" } else { "Settled" },
                String::new(),
            ),
            condition("Stalled", stalled, why.0, why.1),
        ]
    }
}

/// The list of conditions that replaces `before` (an object's `status.conditions`, or null). The transition time of a condition
/// is kept while its status is the same; conditions of other types are left as they are. `generation`: of the
/// object, if it has a spec. `now` is an RFC 3339 time.
#[must_use]
pub fn set_conditions(before: &Value, conditions: &[Condition], generation: Option<i64>, now: &str) -> Value {
    let mut list: Vec<Value> = before.as_array().cloned().unwrap_or_default();
    for condition in conditions {
        let status = match condition.status {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let message = shortened(&redact::mask(&condition.message), MAX_MESSAGE);
        let old = list.iter_mut().find(|c| c["type"] == condition.condition_type);
        let since = old
            .as_ref()
            .filter(|old| old["status"] == status)
            .and_then(|old| old["lastTransitionTime"].as_str())
            .unwrap_or(now);
        let mut new = json!({
            "type": condition.condition_type, "status": status, "reason": condition.reason, "message": message,
            "lastTransitionTime": since,
        });
        if let Some(generation) = generation {
            new["observedGeneration"] = generation.into();
        }
        match old {
            Some(old) => *old = new,
            None => list.push(new),
        }
    }
    list.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReconcileError;

    #[test]
    fn long_texts_keep_their_beginning_and_their_end() {
        let long = format!("beginning{}end", "ä".repeat(5000));
        for most in [100, 1024] {
            let found = shortened(&long, most);
            assert!((most - 2..=most).contains(&found.len()), "{}: {found}", found.len());
            assert!(
                found.starts_with("beginningä") && found.ends_with("äend") && found.contains(" … "),
                "{found}"
            );
        }
        for text in ["", "short", &"ä".repeat(512)] {
            assert_eq!(shortened(text, 1024), text);
        }
        assert_eq!(shortened("abcdefghijkl", 11), "abcd … kl");
    }

    #[test]
    fn a_failure_stalls_or_is_tried_again() {
        let retry_in = std::time::Duration::ZERO;
        for (error, ready, reconciling, stalled) in [
            (
                ReconcileError::Config("spec.a: wrong".to_owned()),
                "ConfigInvalid",
                false,
                Some("spec.a: wrong"),
            ),
            (ReconcileError::Task("ended".to_owned()), "TaskFailed", true, None),
        ] {
            let report = Report::Failed { error: &error, retry_in, failures: 1 };
            let [own, goes_on, ends] = ReadyState::of_report(&report, "").unwrap().conditions();
            assert_eq!((own.status, own.reason), (Some(false), ready));
            assert_eq!((goes_on.status, ends.status), (Some(reconciling), Some(stalled.is_some())));
            assert_eq!(ends.message, stalled.unwrap_or_default());
        }
        let [own, goes_on, ends] = ReadyState::ready("Applied", "done".to_owned()).conditions();
        assert_eq!((own.status, goes_on.status, ends.status), (Some(true), Some(false), Some(false)));
        assert_eq!((goes_on.reason, ends.reason), ("Settled", "Progressing"));
    }

    #[test]
    fn transition_times_change_with_the_status_only() {
        let ready =
            |status, reason| Condition { condition_type: "Ready", status, reason, message: String::new() };
        let first = set_conditions(&Value::Null, &[ready(None, "Progressing")], Some(1), "T1");
        let second = set_conditions(&first, &[ready(Some(true), "Released")], Some(1), "T2");
        let third = set_conditions(&second, &[ready(Some(true), "Unchanged")], Some(2), "T3");
        for (list, expected) in
            [(&first, ("Unknown", "T1", 1)), (&second, ("True", "T2", 1)), (&third, ("True", "T2", 2))]
        {
            let c = &list[0];
            assert_eq!(list.as_array().map(Vec::len), Some(1));
            assert_eq!((&c["status"], &c["lastTransitionTime"]), (&json!(expected.0), &json!(expected.1)));
            assert_eq!(c["observedGeneration"], expected.2);
        }
        let foreign = json!([{"type": "Other", "status": "True"}]);
        let list = set_conditions(&foreign, &[ready(Some(false), "ReleaseFailed")], Some(1), "T1");
        assert_eq!((&list[0], &list[1]["status"]), (&foreign[0], &json!("False")));
    }
}
