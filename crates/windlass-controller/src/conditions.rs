//! Conditions in the form of Kubernetes' API conventions.
//!
//! Owns when a transition time changes. Which conditions there are is the front end's.

use serde_json::{Value, json};

use windlass_base::redact;

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
