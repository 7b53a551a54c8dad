//! Dependencies of a HelmRelease, and whether one is ready.

use serde_json::Value;

use super::object::HelmReleaseObject;
use flux_api::helm_release::Dependency;
use windlass_base::cel_expression;
use windlass_cluster::ObjectMeta;
use windlass_controller::{Dependencies, ReconcileError};
use windlass_engine::Disposition;

/// Most dependencies of one object: the controller looks at each whenever one of them changes.
const MAX_DEPENDENCIES: usize = 100;

/// A dependency as `NAMESPACE/NAME`.
pub(super) fn key_of(object: &HelmReleaseObject, dependency: &Dependency) -> String {
    format!("{}/{}", dependency.namespace.as_deref().unwrap_or(&object.namespace), dependency.name)
}

fn all(object: &HelmReleaseObject) -> &[Dependency] {
    object.spec().map_or(&[], |spec| &spec.depends_on)
}

/// The dependencies, as `NAMESPACE/NAME`, each with the expression that says whether it is ready. Of two for one object the first counts.
/// None if there are too many, which [`check_number`] refuses.
pub(super) fn declared(object: &HelmReleaseObject) -> Dependencies {
    let mut out = Dependencies::new();
    if all(object).len() > MAX_DEPENDENCIES {
        return out;
    }
    for dependency in all(object) {
        out.entry(key_of(object, dependency)).or_insert_with(|| dependency.ready_expr.clone());
    }
    out
}

/// Refuses more dependencies than the controller looks at.
///
/// # Errors
/// There are more than [`MAX_DEPENDENCIES`].
pub(super) fn check_number(object: &HelmReleaseObject) -> Result<(), ReconcileError> {
    match all(object).len() {
        found if found > MAX_DEPENDENCIES => Err(ReconcileError::Config(format!(
            "spec.dependsOn has {found} entries, and at most {MAX_DEPENDENCIES} are allowed: \
             depend on an object that depends on several of them"
        ))),
        _ => Ok(()),
    }
}

/// Refuses expressions about objects of other namespaces: they can ask for any field of those, one bit at a time. Whether such an object
/// is ready may be known.
///
/// # Errors
/// There is one.
pub(super) fn check_namespaces(object: &HelmReleaseObject) -> Result<(), ReconcileError> {
    let foreign = |dependency: &&Dependency| {
        dependency.ready_expr.is_some()
            && dependency.namespace.as_ref().is_some_and(|other| *other != object.namespace)
    };
    let Some(found) = all(object).iter().find(foreign) else { return Ok(()) };
    let key = key_of(object, found);
    Err(ReconcileError::Reason {
        reason: "AccessDenied",
        text: format!(
            "can't evaluate the readyExpr of 'HelmRelease/{key}', cross-namespace references have been blocked"
        ),
        disposition: Disposition::Stall,
    })
}

/// Whether the expression for a dependency is true, evaluated off the runtime's threads. `other`: its `NAMESPACE/NAME` and the object.
///
/// # Errors
/// The expression is not CEL, or does not give a boolean.
pub(super) async fn fits_expression(
    expression: &str,
    object: &Value,
    (key, other): (&str, &Value),
) -> Result<bool, ReconcileError> {
    let (expression, key) = (expression.to_owned(), key.to_owned());
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
    ready && other["status"]["observedGeneration"] == ObjectMeta::of(other).generation()
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
            let object = HelmReleaseObject::read(&object(namespace, expr));
            assert_eq!(check_namespaces(&object).is_ok(), allowed, "{namespace} {expr:?}");
        }
    }

    #[test]
    fn dependencies_are_counted() {
        let object = |count: usize| {
            let all: Vec<Value> = (0..count).map(|i| json!({"name": format!("n{i}")})).collect();
            HelmReleaseObject::read(
                &json!({"metadata": {"namespace": "a", "name": "web"}, "spec": {"dependsOn": all}}),
            )
        };
        let (most, more) = (object(MAX_DEPENDENCIES), object(MAX_DEPENDENCIES + 1));
        assert!(check_number(&most).is_ok() && declared(&most).len() == MAX_DEPENDENCIES);
        let told = check_number(&more).unwrap_err().to_string();
        assert!(told.contains("spec.dependsOn has 101 entries") && declared(&more).is_empty(), "{told}");
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
            let declared = declared(&HelmReleaseObject::read(&object));
            assert_eq!(declared.get("b/db").map(Option::as_deref), Some(expr));
            let found = match expr {
                Some(expr) => fits_expression(expr, &object, ("b/db", &other)).await.ok(),
                None => Some(is_ready(&other)),
            };
            assert_eq!(found, expected, "{expr:?}");
        }
    }
}
