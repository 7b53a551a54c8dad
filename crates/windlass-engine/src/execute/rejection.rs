//! What follows from the API server's rejection of a write: decided once, for applies, hooks and dry runs. Pure.
//!
//! Owns after which rejections an object is sent again, and with which fields; which of them mean that it has to be created anew; and the
//! error of the others. Sends nothing.

use crate::{
    error::EngineError,
    execute::{
        autoscaler::{self, Scaled},
        sanitize::{Sanitized, sanitize},
    },
    objects::{
        desired_objects::DesiredObject,
        field_conflicts::{self, Conflict},
        followed_images,
    },
    request::{ReleaseOptions, SanitizeRules},
};
use serde_json::Value;
use std::{borrow::Cow, collections::HashSet, time::Duration};
use windlass_cluster::{ClusterError, Folded, ObjectMeta, ObjectRef};

/// Attempts of a write that another write interferes with. A conflict may be left, then forced, then be invalid.
pub(crate) const TRIES: u32 = 4;
/// Most conflicting fields of one object that are left to their owners: each is looked up in the object's lists.
const MAX_LEFT: usize = 500;

/// A write that is repeated until the API server accepts it, or until no further attempt can succeed.
pub(crate) struct Attempt<'a> {
    pub(crate) body: Cow<'a, Value>,
    /// Fields of other managers are taken over.
    pub(crate) force: bool,
    /// Fields are left to their owners.
    pub(crate) left: bool,
    number: u32,
}

/// What follows from a rejection.
#[derive(Debug, PartialEq)]
pub(crate) enum Rejection {
    /// Fields belong to other managers: see [`Attempt::settle`].
    Conflict,
    /// Another write interferes: the same is sent again after a pause.
    Settling(Duration),
    /// Fields were removed from the body: it is sent again. The warning.
    Sanitized(String),
    /// Immutable fields differ: only another object can have them.
    Immutable,
    Final,
}

impl<'a> Attempt<'a> {
    pub(crate) fn new(body: &'a Value) -> Self {
        Self { body: Cow::Borrowed(body), force: false, left: false, number: 1 }
    }

    /// Begins another attempt, if there is one left.
    pub(crate) fn again(&mut self) -> bool {
        let more = self.number < TRIES;
        self.number += u32::from(more);
        more
    }

    /// What follows from a rejection.
    pub(crate) fn rejected(&mut self, error: &ClusterError, rules: SanitizeRules) -> Rejection {
        let pause = Duration::from_millis(50 << self.number);
        if self.number >= TRIES {
            return Rejection::Final;
        }
        if !error.is_apply_conflict()
            && !error.is_settling()
            && let Some(Sanitized { body, warning }) = sanitize(rules, &self.body, error)
        {
            // Each time something is removed: it ends by itself, and does not count as an attempt.
            self.body = Cow::Owned(body);
            return Rejection::Sanitized(warning);
        }
        self.number += 1;
        if error.is_apply_conflict() {
            Rejection::Conflict
        } else if error.is_settling() {
            Rejection::Settling(pause)
        } else if is_immutable(error) {
            Rejection::Immutable
        } else {
            Rejection::Final
        }
    }

    /// Applies the conflict policy: fields are left to their owners, or taken over. `live`: the object's metadata, as far as it is known.
    /// `false`: the write fails.
    pub(crate) fn settle(
        &mut self,
        conflicts: &[Conflict],
        live: &Value,
        object: &ObjectRef,
        options: &ReleaseOptions,
        scaled: &Scaled,
    ) -> bool {
        let kept: HashSet<String> = followed_images::kept(live, &self.body).into_iter().collect();
        let rules = &options.ownership.leave_to_owner;
        let rules: Vec<&str> = field_conflicts::paths_of(rules, object).collect();
        let (left, taken): (Vec<_>, Vec<_>) = conflicts.iter().partition(|c| {
            kept.contains(&c.field)
                || field_conflicts::is_covered(&rules, &c.field)
                || options.ownership.force_conflicts
                    && field_conflicts::is_injected(&self.body, object, &c.field)
        });
        let forces = options.ownership.force_conflicts || followed_images::are_all(&taken);
        if left.len() > MAX_LEFT {
            return false;
        }
        let mut settled = self.body.clone().into_owned();
        for conflict in &left {
            field_conflicts::remove(&mut settled, &conflict.field);
        }
        let left = if taken.is_empty() {
            if settled == *self.body {
                return false;
            }
            true
        } else if !forces || self.force {
            return false;
        } else {
            let entries = ObjectMeta::of(live).managed_fields();
            let sent = autoscaler::without_scaled(&settled, conflicts, entries, scaled);
            let left = !left.is_empty() || sent != settled;
            (settled, self.force) = (sent, true);
            left
        };
        self.body = Cow::Owned(settled);
        self.left |= left;
        true
    }
}

/// The error of a rejected apply that is not repeated. `exists`: the object existed before.
pub(crate) fn error_of(
    source: ClusterError,
    target: &DesiredObject,
    manager: &str,
    exists: bool,
) -> EngineError {
    let (object, path) = (target.object.to_string(), target.path.clone());
    let conflicts = field_conflicts::of(&source, manager, Folded::Helm);
    if is_immutable(&source) && exists {
        EngineError::Immutable { object, path, source }
    } else if conflicts.is_empty() {
        EngineError::Object { action: "applying", object, path, source }
    } else {
        EngineError::Conflict { object, path, conflicts, source: Box::new(source) }
    }
}

/// Whether a rejection is about immutable fields only: deleted and created again, the object would be accepted. There
/// is no code for it, only texts.
pub(crate) fn is_immutable(error: &ClusterError) -> bool {
    const WORDS: [&str; 8] = [
        "immutable",
        "may not change",
        "may not be changed",
        "Forbidden: updates to",
        "Forbidden: pod updates may not",
        "cannot change roleRef",
        "cannot be changed",
        "can not be unset",
    ];
    // The rejected value comes first and may contain anything.
    let complaint = |text: &str| match text.strip_prefix("Invalid value: ") {
        Some(rest) => rest.rsplit(": ").next().unwrap_or(rest).to_owned(),
        None => text.to_owned(),
    };
    let causes = error.causes();
    error.is_invalid()
        && !causes.is_empty()
        && causes.iter().all(|cause| {
            let complaint = complaint(&cause.message);
            WORDS.iter().any(|words| complaint.contains(words))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::{ApiStatus, Gvk, StatusCause};

    fn rejection(code: u16, message: &str, causes: &[(&str, &str)]) -> ClusterError {
        let mut status = ApiStatus { code, message: message.to_owned(), ..ApiStatus::default() };
        let cause = |(reason, message): &(&str, &str)| StatusCause {
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            ..StatusCause::default()
        };
        status.details.causes = causes.iter().map(cause).collect();
        ClusterError::Api(Box::new(status))
    }

    #[test]
    fn a_rejection_is_followed_by_few_attempts() {
        let body = json!({"spec": {"no": 1, "replicas": 2}});
        let rules = SanitizeRules { duplicates: false, unknown: true };
        let unknown = rejection(500, "(v1, Kind=Pod): .spec.no: field not declared in schema", &[]);
        let conflict = rejection(409, "conflict", &[("FieldManagerConflict", "conflict with \"m\"")]);
        let settling = rejection(409, "the object has been modified", &[]);
        let immutable = rejection(422, "", &[("FieldValueInvalid", "field is immutable")]);
        let mut attempt = Attempt::new(&body);
        assert!(matches!(attempt.rejected(&unknown, rules), Rejection::Sanitized(_)));
        assert_eq!(*attempt.body, json!({"spec": {"replicas": 2}}));
        assert_eq!(attempt.rejected(&conflict, rules), Rejection::Conflict);
        assert_eq!(attempt.rejected(&settling, rules), Rejection::Settling(Duration::from_millis(200)));
        assert_eq!(attempt.rejected(&immutable, rules), Rejection::Immutable);
        assert_eq!(attempt.rejected(&conflict, rules), Rejection::Final, "the fourth attempt is the last");
        assert!(!attempt.again());
    }

    #[test]
    fn a_conflict_is_left_to_its_owner_or_forced_once() {
        let body = json!({"spec": {"replicas": 2, "paused": true}});
        let object = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), "web");
        let conflict = |field: &str| Conflict { field: field.to_owned(), manager: "m".to_owned() };
        let conflicts = [conflict("spec.replicas"), conflict("spec.paused")];
        let mut options = ReleaseOptions::default();
        let settle = |attempt: &mut Attempt<'_>, conflicts: &[Conflict], options: &ReleaseOptions| {
            attempt.settle(conflicts, &Value::Null, &object, options, &Scaled::ByManifest)
        };
        assert!(!settle(&mut Attempt::new(&body), &conflicts, &options), "by default it fails");
        options.ownership.leave_to_owner = vec!["spec.replicas".to_owned()];
        let mut attempt = Attempt::new(&body);
        assert!(settle(&mut attempt, &conflicts[..1], &options));
        assert_eq!((&*attempt.body, attempt.force), (&json!({"spec": {"paused": true}}), false));
        assert!(attempt.left && !settle(&mut attempt, &conflicts[..1], &options), "nothing is left to leave");
        let many = vec![conflict("spec.replicas"); MAX_LEFT + 1];
        assert!(!settle(&mut Attempt::new(&body), &many, &options), "each is looked up");
        options.ownership.force_conflicts = true;
        assert!(settle(&mut attempt, &conflicts, &options) && attempt.force);
        assert!(!settle(&mut attempt, &conflicts, &options), "it was forced before");
    }

    #[test]
    fn an_image_that_was_rolled_out_stays_until_the_release_asks_for_another() {
        let body = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}});
        let fields = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {"f:image": {}}}}}}});
        let live = json!({"metadata": {
            "annotations": {followed_images::REQUESTED_IMAGES: r#"{"main":"web:1"}"#},
            "managedFields": [{"manager": followed_images::IMAGE_MANAGER, "fieldsV1": fields}],
        }});
        let object = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), "web");
        let conflict = |manager: &str| Conflict {
            field: "spec.template.spec.containers[name=\"main\"].image".to_owned(),
            manager: manager.to_owned(),
        };
        let ours = followed_images::IMAGE_MANAGER;
        for (image, manager, settled, force, left) in [
            ("web:1", ours, true, false, true),
            ("web:2", ours, true, true, false),
            ("web:2", "kubectl", false, false, false),
        ] {
            let body = body(image);
            let mut attempt = Attempt::new(&body);
            let options = ReleaseOptions::default();
            let found = attempt.settle(&[conflict(manager)], &live, &object, &options, &Scaled::ByManifest);
            assert_eq!((found, attempt.force, attempt.left), (settled, force, left), "{image} {manager}");
            let sent = &attempt.body["spec"]["template"]["spec"]["containers"][0]["image"];
            assert_eq!(sent.is_null(), left, "{image} {manager}");
        }
    }

    #[test]
    fn only_what_may_not_change_is_made_again() {
        let table: [(&[&str], bool); 9] = [
            (&[r#"Invalid value: {"matchLabels":{"app":"two"}}: field is immutable"#], true),
            (&[r#"Invalid value: ["10.0.0.9"]: may not change once set"#], true),
            (
                &["Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden"],
                true,
            ),
            (&[r#"Invalid value: {"kind":"Role","name":"b"}: cannot change roleRef"#], true),
            (&["Forbidden: spec is immutable after creation except resources.requests"], true),
            (&[r#"Invalid value: "immutable": must be a DNS label"#], false),
            (&["Invalid value: 70000: must be between 1 and 65535, inclusive"], false),
            (&["Invalid value: {}: field is immutable", "Required value"], false),
            (&[], false),
        ];
        for (messages, expected) in table {
            let causes: Vec<_> = messages.iter().map(|message| ("", *message)).collect();
            let rejected = rejection(422, "field is immutable", &causes);
            assert_eq!(is_immutable(&rejected), expected, "{messages:?}");
        }
    }
}
