//! Readiness by rules in CEL for kinds, as Flux's `healthCheckExprs`.

use crate::{execute::readiness::kstatus::Readiness, request::HealthCheck};
use serde_json::Value;
use windlass_base::cel_expression::{is_true, off_runtime};
use windlass_cluster::{Gvk, ObjectMeta};

/// Fields of an object that expressions name.
const FIELDS: [&str; 5] = ["metadata", "spec", "status", "apiVersion", "kind"];

/// The rule for a kind: of its group, and of its kind if the rule names one.
pub(crate) fn rule_for<'r>(rules: &'r [HealthCheck], gvk: &Gvk) -> Option<&'r HealthCheck> {
    rules.iter().find(|rule| {
        let group = rule.api_version.split_once('/').map_or("", |(group, _)| group);
        group == gvk.group && (rule.kind.is_empty() || rule.kind == gvk.kind)
    })
}

/// The result of a rule, found off the runtime's threads.
pub(crate) async fn judge(rule: &HealthCheck, object: &Value) -> Readiness {
    let (rule, object) = (rule.clone(), object.clone());
    off_runtime(move || evaluate(&rule, &object))
        .await
        .unwrap_or_else(|why| Readiness::Waiting(format!("its health check cannot be evaluated: {why}")))
}

/// The result of a rule. An object whose controller has not seen its generation is not ready yet.
fn evaluate(rule: &HealthCheck, object: &Value) -> Result<Readiness, String> {
    let observed = object["status"]["observedGeneration"].as_i64();
    if observed.is_some_and(|observed| observed < ObjectMeta::of(object).generation()) {
        return Ok(Readiness::Waiting("the newest generation has not been observed".to_owned()));
    }
    // A field that the object does not have yet is empty: the expression names no wrong variable.
    let absent = Value::Object(serde_json::Map::new());
    let field = |field| if object[field].is_null() { &absent } else { &object[field] };
    let variables = FIELDS.map(|name| (name, field(name)));
    let holds = |expression: &Option<String>| match expression {
        Some(expression) => is_true(expression, &variables),
        None => Ok(false),
    };
    if holds(&rule.in_progress)? {
        return Ok(Readiness::Waiting("in progress by its health check".to_owned()));
    }
    if holds(&rule.failed)? {
        return Ok(Readiness::Failed("failed by its health check".to_owned()));
    }
    Ok(match is_true(&rule.current, &variables)? {
        true => Readiness::Ready,
        false => Readiness::Waiting("not yet current by its health check".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule() -> HealthCheck {
        HealthCheck {
            api_version: "example.com/v1".to_owned(),
            kind: "Thing".to_owned(),
            current: "status.phase == 'Ready'".to_owned(),
            in_progress: Some("status.phase == 'Pending'".to_owned()),
            failed: Some("status.phase == 'Failed'".to_owned()),
        }
    }

    #[test]
    fn rules_are_for_groups_and_kinds() {
        let any = HealthCheck { kind: String::new(), ..rule() };
        for (rule, group, kind, expected) in [
            (rule(), "example.com/v2", "Thing", true),
            (rule(), "example.com/v1", "Other", false),
            (any.clone(), "example.com/v1", "Other", true),
            (any, "v1", "Other", false),
        ] {
            assert_eq!(rule_for(&[rule], &Gvk::new(group, kind)).is_some(), expected, "{group} {kind}");
        }
    }

    #[tokio::test]
    async fn states_follow_from_expressions() {
        let object = |phase: Value, observed: i64| json!({"metadata": {"generation": 2}, "status": {"phase": phase, "observedGeneration": observed}});
        for (object, expected) in [
            (object(json!("Ready"), 2), "ready"),
            (object(json!("Ready"), 1), "waiting"),
            (object(json!("Pending"), 2), "waiting"),
            (object(json!("Failed"), 2), "failed"),
            (object(Value::Null, 2), "waiting"),
            (json!({"metadata": {"generation": 1}}), "waiting"),
        ] {
            let word = match judge(&rule(), &object).await {
                Readiness::Ready => "ready",
                Readiness::Waiting(_) => "waiting",
                Readiness::Failed(_) => "failed",
            };
            assert_eq!(word, expected, "{object}");
        }
        let wrong = HealthCheck { current: "status.phase".to_owned(), ..rule() };
        let Readiness::Waiting(why) = judge(&wrong, &object(json!("Ready"), 2)).await else { panic!() };
        assert_eq!(why, "its health check cannot be evaluated: it is neither true nor false");
    }
}
