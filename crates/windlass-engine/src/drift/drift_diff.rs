//! The differences of drifted objects, field by field, with the managers that made them.
//!
//! A suspicion costs nothing and may be wrong; a comparison costs a read and a dry run for each suspect, by which the
//! server accounts for defaults and webhooks. Knows nothing of corrections.

use crate::{
    context::Context,
    dry_run::DryRun,
    execute::client_write::Originals,
    objects::{
        desired_objects::DesiredObject,
        field_conflicts::Conflict,
        field_diff::{self, FieldChange, hide},
    },
    outcome::object_drift::{Drift, DriftedField},
    plan::{
        PlanStep,
        preview::{ChangeVerb, PlannedChange},
        revision_input::RevisionInput,
    },
    request::ReleaseOptions,
};
use std::collections::BTreeMap;

/// Most drifted fields of one object, and bytes of their paths: the drift of all objects of a release is kept until it is reported.
const MAX_FIELDS: usize = 20;
const MAX_PATH_BYTES: usize = 16 << 10;

/// The differences of a suspect; `None`: nothing relevant.
pub(crate) async fn of(
    context: &Context,
    input: &RevisionInput<'_>,
    target: &DesiredObject,
    step: &PlanStep,
) -> Option<Drift> {
    let drift = |deleted, (fields, further_fields)| {
        let object = target.object.clone();
        Some(Drift { object, deleted, fields, further_fields, corrected: false, known: false })
    };
    let nothing = || (Vec::new(), 0);
    if step.before.is_none() {
        return drift(true, nothing());
    }
    // Fields that Helm wrote and its manifest lacks are left by Helm: our first revision removes them.
    let ours = step.before.as_ref().is_none_or(|seen| seen.applied.is_some());
    let dry_run = DryRun { context, input };
    match dry_run.object(target, step, ours, Originals::Same).await {
        Ok(change) => match change.verb {
            ChangeVerb::Create => drift(true, nothing()),
            ChangeVerb::Unchanged => None,
            // A plan shows all of it.
            _ => drift(false, drifted_fields(change, !input.options.dry_run)),
        },
        Err(error) => {
            tracing::debug!(object = %target.object, %error, "cannot compare a suspect");
            drift(false, nothing())
        }
    }
}

/// The changed fields with their owners, and how many others there are. `bounded`: not more than people read.
fn drifted_fields(mut change: PlannedChange, bounded: bool) -> (Vec<DriftedField>, usize) {
    let mut fields = std::mem::take(&mut change.fields);
    // A conflict that the server rejects cannot be compared.
    let is_compared = !fields.is_empty();
    if !is_compared {
        let path = |conflict: &Conflict| conflict.field.clone();
        let unknown = |path| FieldChange { path, before: None, after: None, sensitive: false };
        fields = change.conflicts.iter().map(path).map(unknown).collect();
    }
    let others = if bounded { field_diff::truncate(&mut fields, MAX_FIELDS, MAX_PATH_BYTES) } else { 0 };
    field_diff::mask(&change.kind, &mut fields);
    // The result goes to logs and Events: passwords are hidden in all objects.
    fields.iter_mut().filter(|field| !field.sensitive).for_each(hide);
    if bounded {
        fields.iter_mut().for_each(field_diff::shorten_values);
    }
    let owners = FieldOwners::of(&change.conflicts);
    let manager = |(at, field): (usize, &FieldChange)| match is_compared {
        true => owners.of_field(&plain(&field.path)).or(change.writer.as_deref()),
        false => change.conflicts.get(at).map(|conflict| conflict.manager.as_str()),
    };
    let managers: Vec<Option<String>> =
        fields.iter().enumerate().map(manager).map(|manager| manager.map(str::to_owned)).collect();
    let owned = fields.into_iter().zip(managers).map(|(change, manager)| DriftedField { change, manager });
    (owned.collect(), others)
}

/// The managers of conflicting fields, by their normalized paths.
struct FieldOwners<'c>(BTreeMap<String, &'c str>);

impl<'c> FieldOwners<'c> {
    fn of(conflicts: &'c [Conflict]) -> Self {
        let owner = |conflict: &'c Conflict| (plain(&conflict.field), conflict.manager.as_str());
        // Of several managers of a field the first is named.
        Self(conflicts.iter().rev().map(owner).collect())
    }

    /// The manager of the field, of the next field above it, or of the first below it.
    fn of_field(&self, path: &str) -> Option<&'c str> {
        if path.len() > MAX_PATH_BYTES {
            // Each part of it would be looked up.
            return None;
        }
        let ends: Vec<usize> = path.match_indices(['.', '[']).map(|(at, _)| at).collect();
        let above = ends.into_iter().chain([path.len()]).rev().find_map(|end| self.0.get(&path[..end]));
        let below = || {
            ['.', '['].into_iter().find_map(|separator| {
                let prefix = format!("{path}{separator}");
                let (field, manager) = self.0.range(prefix.clone()..).next()?;
                field.starts_with(&prefix).then_some(manager)
            })
        };
        above.or_else(below).copied()
    }
}

/// Normalizes a path: the server quotes names in selectors, we quote keys with dots.
fn plain(path: &str) -> String {
    let mut rest = path.trim_start_matches('.');
    let mut plain = String::with_capacity(rest.len());
    while let Some((before, after)) = rest.split_once("[\"") {
        let (key, after) = after.split_once("\"]").unwrap_or((after, ""));
        plain.push_str(before);
        plain.push('.');
        plain.push_str(key);
        rest = after;
    }
    plain.push_str(rest);
    plain.replace('"', "")
}

/// The options for a comparison: ignored fields are left to their owners.
pub(crate) fn tolerant(options: &ReleaseOptions) -> ReleaseOptions {
    let mut tolerant = options.clone();
    tolerant.ownership.leave_to_owner.extend(options.drift.ignore.iter().cloned());
    tolerant
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use windlass_cluster::{Gvk, ObjectRef};

    fn field(path: &str, before: Option<Value>, after: Option<Value>) -> FieldChange {
        FieldChange { path: path.into(), before, after, sensitive: false }
    }

    fn described(object: &ObjectRef, change: PlannedChange) -> Drift {
        let (fields, further_fields) = drifted_fields(change, true);
        let object = object.clone();
        Drift { object, deleted: false, fields, further_fields, corrected: false, known: false }
    }

    #[test]
    fn fields_have_owners() {
        let conflict = |field: &str, manager: &str| Conflict { field: field.into(), manager: manager.into() };
        let object = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("ns"), "web");
        let mut change = PlannedChange::new(ChangeVerb::Update, &object, "", "");
        change.writer = Some("last".into());
        change.fields = vec![
            field("spec.replicas", Some(json!(3)), Some(json!(2))),
            field("spec.template.spec.containers[name=main].image", Some(json!("y")), Some(json!("x"))),
            field("metadata.labels[\"a.b/c\"]", None, Some(json!("v"))),
            field("spec.paused", Some(json!(true)), None),
        ];
        change.conflicts = vec![
            conflict("spec.replicas", "kubectl-edit"),
            conflict("spec.template.spec.containers[name=\"main\"].image", "kubectl-set"),
            conflict(".metadata.labels.a.b/c", "labeller"),
        ];
        let drift = Drift { corrected: true, ..described(&object, change) };
        assert_eq!(
            drift.to_string(),
            "Deployment ns/web: spec.replicas is 3 instead of 2, by \"kubectl-edit\"; \
             spec.template.spec.containers[name=main].image is y instead of x, by \"kubectl-set\"; \
             metadata.labels[\"a.b/c\"] was removed, by \"labeller\"; spec.paused was added as true, by \"last\""
        );
    }

    #[test]
    fn what_is_told_is_bounded_and_no_secret() {
        let object = ObjectRef::new(Gvk::new("v1", "Secret"), Some("ns"), "s");
        let mut change = PlannedChange::new(ChangeVerb::Update, &object, "", "");
        change.fields =
            (0..20).map(|i| field(&format!("data.k{i}"), Some(json!("c2VjcmV0")), None)).collect();
        let text = described(&object, change).to_string();
        assert!(!text.contains("c2VjcmV0") && text.ends_with("; and 12 more"), "{text}");
        let long = Some(json!("y".repeat(1 << 20)));
        let mut change = PlannedChange::new(ChangeVerb::Update, &object, "", "");
        change.fields = (0..50).map(|i| field(&format!("spec.k{i}"), long.clone(), None)).collect();
        let drift = described(&object, change);
        let bytes: usize =
            drift.fields.iter().map(|f| f.change.before.as_ref().map_or(0, |v| v.to_string().len())).sum();
        assert!(bytes < 20 * 300, "{bytes}");
        assert!(drift.to_string().ends_with("; and 42 more"), "{drift}");
    }
}
