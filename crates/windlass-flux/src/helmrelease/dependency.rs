//! Dependencies of a HelmRelease, and whether one is ready.

use std::collections::BTreeSet;

use serde_json::Value;

use flux_api::helm_release::{Dependency, HelmReleaseSpec};
use windlass_base::cel_expression;
use windlass_controller::ReconcileError;
use windlass_engine::Disposition;

fn all(object: &Value) -> Vec<(String, Dependency)> {
    let own = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let list = HelmReleaseSpec::read(&object["spec"]).map(|spec| spec.depends_on).unwrap_or_default();
    let key = |dependency: &Dependency| {
        format!("{}/{}", dependency.namespace.as_deref().unwrap_or(own), dependency.name)
    };
    list.into_iter().map(|dependency| (key(&dependency), dependency)).collect()
}

/// The dependencies, as `NAMESPACE/NAME`.
pub(super) fn keys(object: &Value) -> BTreeSet<String> {
    all(object).into_iter().map(|(key, _)| key).collect()
}

/// Refuses expressions about objects of other namespaces: they can ask for any field of those, one bit at a time. Whether such an object
/// is ready may be known.
///
/// # Errors
/// There is one.
pub(super) fn check_namespaces(object: &Value) -> Result<(), ReconcileError> {
    let own = object["metadata"]["namespace"].as_str();
    let foreign = |dependency: &Dependency| {
        dependency.ready_expr.is_some()
            && dependency.namespace.as_deref().is_some_and(|other| Some(other) != own)
    };
    let Some((key, _)) = all(object).into_iter().find(|(_, dependency)| foreign(dependency)) else {
        return Ok(());
    };
    Err(ReconcileError::Reason {
        reason: "AccessDenied",
        text: format!(
            "can't evaluate the readyExpr of 'HelmRelease/{key}', cross-namespace references have been blocked"
        ),
        disposition: Disposition::Stall,
    })
}

/// The expression of an object that says whether a dependency is ready, and the dependency as `NAMESPACE/NAME`.
pub(super) fn expression_for(object: &Value, other: &Value) -> Option<(String, String)> {
    let text = |field: &str| other["metadata"][field].as_str().unwrap_or_default();
    let key = format!("{}/{}", text("namespace"), text("name"));
    let declared = all(object).into_iter().find(|(name, _)| *name == key);
    declared.and_then(|(_, dependency)| dependency.ready_expr).map(|expression| (expression, key))
}

/// Whether the expression for a dependency is true, evaluated off the runtime's threads. Without one it is.
///
/// # Errors
/// The expression is not CEL, or does not give a boolean.
pub(super) async fn fits_expression(object: &Value, other: &Value) -> Result<bool, ReconcileError> {
    let Some((expression, key)) = expression_for(object, other) else { return Ok(true) };
    let (own, dependency) = (object.clone(), other.clone());
    let evaluated = cel_expression::off_runtime(move || {
        cel_expression::is_true(&expression, &[("self", &own), ("dep", &dependency)])
            .map_err(|why| format!("spec.dependsOn: readyExpr {expression:?} of {key}: {why}"))
    });
    evaluated.await.map_err(|text| ReconcileError::Reason {
        reason: "InvalidCELExpression",
        text,
        disposition: Disposition::Stall,
    })
}

/// Whether a dependency is ready without an expression: by its condition Ready of its newest generation.
pub(super) fn is_ready(other: &Value) -> bool {
    let conditions = other["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let ready = conditions.iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    ready && other["status"]["observedGeneration"] == other["metadata"]["generation"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_stay_in_their_namespace() {
        let object = |namespace: &str, expr: Option<&str>| {
            json!({
                "metadata": {"namespace": "a", "name": "web"},
                "spec": {"dependsOn": [{"name": "db", "namespace": namespace, "readyExpr": expr}]},
            })
        };
        for (namespace, expr, allowed) in
            [("a", Some("true"), true), ("b", None, true), ("b", Some("true"), false)]
        {
            assert_eq!(check_namespaces(&object(namespace, expr)).is_ok(), allowed, "{namespace} {expr:?}");
        }
    }

    #[tokio::test]
    async fn readiness_is_the_condition_or_the_expression() {
        let object = |expr: Option<&str>| {
            json!({
                "metadata": {"namespace": "a", "name": "web"},
                "spec": {"dependsOn": [{"name": "db", "namespace": "b", "readyExpr": expr}]},
            })
        };
        let other = |generation: i64, status: &str| {
            json!({
                "metadata": {"namespace": "b", "name": "db", "generation": generation, "labels": {"v": "1"}},
                "status": {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": status}]},
            })
        };
        assert_eq!(keys(&object(None)), BTreeSet::from(["b/db".to_owned()]));
        for (expr, other, expected) in [
            (None, other(1, "True"), Some(true)),
            (None, other(2, "True"), Some(false)),
            (None, other(1, "False"), Some(false)),
            (None, json!({"metadata": {"namespace": "b", "name": "db"}}), Some(false)),
            (
                Some("dep.metadata.labels.v == '1' && self.metadata.name == 'web'"),
                other(2, "False"),
                Some(true),
            ),
            (Some("dep.status.none == '1'"), other(1, "True"), Some(false)),
            (Some("dep.metadata.name"), other(1, "True"), None),
            (Some("dep."), other(1, "True"), None),
        ] {
            let object = object(expr);
            let found = match expression_for(&object, &other) {
                Some(_) => fits_expression(&object, &other).await.ok(),
                None => Some(is_ready(&other)),
            };
            assert_eq!(found, expected, "{expr:?}");
            assert_eq!(expression_for(&object, &other).is_some(), expr.is_some());
        }
    }
}
