//! Conditions as Flux's controllers set them.
//!
//! Owns when a transition time changes: also with reason and message, unlike `set_conditions` of the operator runtime. Reconciling and
//! Stalled exclude each other. Which conditions there are is the controllers'.

use super::common::StatusCondition;

/// The object is as desired.
pub const READY: &str = "Ready";
/// The object is being reconciled, or will be again.
pub const RECONCILING: &str = "Reconciling";
/// The object is not reconciled any more until something changes.
pub const STALLED: &str = "Stalled";

/// Longest message, in characters.
const MAX_MESSAGE: usize = 20_000;

/// The state of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl Truth {
    fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

/// A condition by its type.
#[must_use]
pub fn get<'c>(all: &'c [StatusCondition], kind: &str) -> Option<&'c StatusCondition> {
    all.iter().find(|condition| condition.condition_type == kind)
}

/// Removes a condition.
pub fn delete(all: &mut Vec<StatusCondition>, kind: &str) {
    all.retain(|condition| condition.condition_type != kind);
}

/// Sets a condition: its reason and message, the generation that it is about, and the time in RFC 3339, which counts if status,
/// reason or message change. The caller has masked secrets in the message.
pub fn set(
    all: &mut Vec<StatusCondition>,
    kind: &str,
    status: Truth,
    (reason, message): (&str, &str),
    generation: i64,
    now: &str,
) {
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    let mut condition = StatusCondition {
        condition_type: kind.to_owned(),
        status: status.name().to_owned(),
        observed_generation: generation,
        last_transition_time: now.to_owned(),
        reason: reason.to_owned(),
        message,
    };
    if let Some(old) = get(all, kind)
        && (&old.status, &old.reason, &old.message)
            == (&condition.status, &condition.reason, &condition.message)
    {
        condition.last_transition_time.clone_from(&old.last_transition_time);
    }
    delete(all, kind);
    all.push(condition);
    match kind {
        RECONCILING => delete(all, STALLED),
        STALLED => delete(all, RECONCILING),
        _ => {}
    }
    // Ready first, for people.
    all.sort_by_key(|c| (c.condition_type != READY, c.condition_type.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transition_times_change_with_the_content() {
        let mut all = Vec::new();
        let mut at = |now: &str, reason| {
            set(&mut all, STALLED, Truth::True, (reason, "m"), 1, now);
            all[0].last_transition_time.clone()
        };
        assert_eq!((at("1", "A"), at("2", "A"), at("3", "B")), ("1".into(), "1".into(), "3".into()));
        set(&mut all, RECONCILING, Truth::True, ("Progressing", ""), 1, "4");
        assert!(get(&all, STALLED).is_none());
    }
}
