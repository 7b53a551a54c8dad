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

/// The differences of a suspect; `None`: nothing relevant.
pub(crate) async fn of(
    context: &Context,
    input: &RevisionInput<'_>,
    target: &DesiredObject,
    step: &PlanStep,
) -> Option<Drift> {
    let drift = |deleted, fields| {
        Some(Drift { object: target.object.clone(), deleted, fields, corrected: false, known: false })
    };
    if step.before.is_none() {
        return drift(true, Vec::new());
    }
    // Fields that Helm wrote and its manifest lacks are left by Helm: our first revision removes them.
    let ours = step.before.as_ref().is_none_or(|seen| seen.applied.is_some());
    let dry_run = DryRun { context, input };
    match dry_run.object(target, step, ours, Originals::Same).await {
        Ok(change) => match change.verb {
            ChangeVerb::Create => drift(true, Vec::new()),
            ChangeVerb::Unchanged => None,
            _ => drift(false, drifted_fields(change)),
        },
        Err(error) => {
            tracing::debug!(object = %target.object, %error, "cannot compare a suspect");
            drift(false, Vec::new())
        }
    }
}

/// The changed fields with their owners.
fn drifted_fields(mut change: PlannedChange) -> Vec<DriftedField> {
    field_diff::mask(&change.kind, &mut change.fields);
    // The result goes to logs and Events: passwords are hidden in all objects.
    change.fields.iter_mut().filter(|field| !field.sensitive).for_each(hide);
    let owner = |path: &str| {
        let path = plain(path);
        let meets = |field: &str| {
            let field = plain(field);
            let below = |a: &str, b: &str| {
                a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
            };
            below(&path, &field) || below(&field, &path)
        };
        let owned = change.conflicts.iter().find(|conflict| meets(&conflict.field));
        owned.map(|conflict| conflict.manager.clone()).or_else(|| change.writer.clone())
    };
    let mut found: Vec<DriftedField> = change
        .fields
        .iter()
        .map(|field| DriftedField { change: field.clone(), manager: owner(&field.path) })
        .collect();
    if found.is_empty() {
        // A conflict that the server rejects cannot be compared.
        found.extend(change.conflicts.iter().map(|conflict| DriftedField {
            change: FieldChange { path: conflict.field.clone(), before: None, after: None, sensitive: false },
            manager: Some(conflict.manager.clone()),
        }));
    }
    found
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

    #[test]
    fn fields_have_owners() {
        let conflict = |field: &str, manager: &str| crate::objects::field_conflicts::Conflict {
            field: field.into(),
            manager: manager.into(),
        };
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
        let drift =
            Drift { object, deleted: false, fields: drifted_fields(change), corrected: true, known: false };
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
        let fields = drifted_fields(change);
        let text = Drift { object, deleted: false, fields, corrected: false, known: false }.to_string();
        assert!(!text.contains("c2VjcmV0") && text.ends_with("; and 12 more"), "{text}");
    }
}
