//! The rights that applying objects takes.
//!
//! Owns what follows from an object's kind, such as the rights that a role grants. Which resource a kind is, the caller knows: from
//! discovery, or without a cluster. Pure.

use serde_json::Value;

use super::rights::{RBAC_GROUP, RightScope, RightSet};
use windlass_cluster::{Gvk, ObjectMeta};

/// Verbs for the objects of a release.
pub const OBJECT_VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// Verbs for single objects by name.
pub const NAMED_VERBS: [&str; 4] = ["get", "update", "patch", "delete"];
/// Verbs that cannot be limited to names: a new object has no name yet, and a watch covers a whole kind.
pub const UNNAMED_VERBS: [&str; 3] = ["list", "watch", "create"];

/// An object that is applied, and its place in the API.
#[derive(Clone, Copy, Debug)]
pub struct PlacedObject<'o> {
    /// The object.
    pub object: &'o Value,
    /// Its resource: the plural.
    pub resource: &'o str,
    /// Its namespace; `None` for the cluster.
    pub scope: RightScope<'o>,
}

/// The rights to keep a release in a namespace: its records, its locks, and Events of its objects.
#[must_use]
pub fn record_rights(namespace: &str) -> RightSet {
    let mut rights = RightSet::default();
    let here = Some(namespace);
    rights.add(here, "", "secrets", &OBJECT_VERBS);
    rights.add(here, "coordination.k8s.io", "leases", &OBJECT_VERBS);
    for group in ["", "events.k8s.io"] {
        rights.add(here, group, "events", &["create", "patch"]);
    }
    rights
}

/// The rights to apply, watch and delete objects, all of one release.
///
/// Kubernetes lets nobody grant what he has not: the rights of the release's roles are among them. A role that is not of the release
/// is bound by its name (`bind`), and one that aggregates others is written by its name (`escalate`), because what these grant is not
/// in the release.
#[must_use]
pub fn object_rights(objects: &[PlacedObject<'_>]) -> RightSet {
    let mut rights = RightSet::default();
    for placed in objects {
        let Some(gvk) = Gvk::of(placed.object) else { continue };
        let name = Some(ObjectMeta::of(placed.object).name()).filter(|name| !name.is_empty());
        match (gvk.group.as_str(), placed.resource) {
            ("apiextensions.k8s.io", resource @ "customresourcedefinitions") => {
                rights.add(None, &gvk.group, resource, &UNNAMED_VERBS);
                rights.add_to(None, &gvk.group, resource, name, &NAMED_VERBS);
                // Old versions leave `status.storedVersions`.
                rights.add_to(None, &gvk.group, "customresourcedefinitions/status", name, &["patch"]);
                continue;
            }
            (RBAC_GROUP, "roles" | "clusterroles") => role_rights(&mut rights, placed, name),
            (RBAC_GROUP, "rolebindings" | "clusterrolebindings") => {
                binding_rights(&mut rights, placed, objects);
            }
            _ => {}
        }
        rights.add(placed.scope, &gvk.group, placed.resource, &OBJECT_VERBS);
    }
    rights
}

/// What a role grants.
fn role_rights(rights: &mut RightSet, placed: &PlacedObject<'_>, name: Option<&str>) {
    for rule in placed.object["rules"].as_array().into_iter().flatten() {
        rights.add_rule(placed.scope, rule);
    }
    if placed.object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
        rights.add_to(placed.scope, RBAC_GROUP, placed.resource, name, &["escalate"]);
    }
}

/// What a binding takes whose role is not among the objects.
fn binding_rights(rights: &mut RightSet, placed: &PlacedObject<'_>, objects: &[PlacedObject<'_>]) {
    let role = &placed.object["roleRef"];
    let (Some(kind), Some(name)) = (role["kind"].as_str(), role["name"].as_str()) else { return };
    let (resource, scope) = match kind {
        "ClusterRole" => ("clusterroles", None),
        _ => ("roles", placed.scope),
    };
    let own = objects.iter().any(|other| {
        other.resource == resource
            && other.scope == scope
            && other.object.get("aggregationRule").is_none_or(Value::is_null)
            && ObjectMeta::of(other.object).name() == name
    });
    if !own {
        rights.add_to(scope, RBAC_GROUP, resource, Some(name), &["bind"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(objects: &[(Value, &str, RightScope<'_>)]) -> Vec<String> {
        let placed: Vec<PlacedObject<'_>> = objects
            .iter()
            .map(|(object, resource, scope)| PlacedObject { object, resource, scope: *scope })
            .collect();
        object_rights(&placed).iter().map(|right| right.to_string()).collect()
    }

    fn object(api_version: &str, kind: &str, more: &Value) -> Value {
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    }

    const ALL: &str = "create, delete, get, list, patch, update, watch";

    #[test]
    fn who_writes_a_role_has_the_rights_that_it_grants() {
        let api = "rbac.authorization.k8s.io/v1";
        let rules = json!({"rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]}]});
        let role = |name: &str, kind: &str| json!({"roleRef": {"kind": kind, "name": name}});
        let bound = shown(&[
            (object(api, "Role", &rules), "roles", Some("ns")),
            (object(api, "RoleBinding", &role("a", "Role")), "rolebindings", Some("ns")),
        ]);
        assert_eq!(
            bound,
            [
                "get jobs.batch in namespace ns".to_owned(),
                format!("{ALL} rolebindings.{RBAC_GROUP} in namespace ns"),
                format!("{ALL} roles.{RBAC_GROUP} in namespace ns"),
            ]
        );
        let foreign =
            shown(&[(object(api, "RoleBinding", &role("view", "ClusterRole")), "rolebindings", Some("ns"))]);
        assert_eq!(foreign[0], format!("bind clusterroles.{RBAC_GROUP} view in the cluster"));
        let aggregated =
            object(api, "ClusterRole", &json!({"aggregationRule": {"clusterRoleSelectors": []}}));
        let binding = object(api, "ClusterRoleBinding", &role("a", "ClusterRole"));
        let aggregated = shown(&[(aggregated, "clusterroles", None), (binding, "clusterrolebindings", None)]);
        assert_eq!(aggregated[2], format!("bind, escalate clusterroles.{RBAC_GROUP} a in the cluster"));
    }

    #[test]
    fn definitions_are_written_by_their_names() {
        let crd = object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &json!({}));
        assert_eq!(
            shown(&[(crd, "customresourcedefinitions", None)]),
            [
                "create, list, watch customresourcedefinitions.apiextensions.k8s.io in the cluster",
                "delete, get, patch, update customresourcedefinitions.apiextensions.k8s.io a in the cluster",
                "patch customresourcedefinitions.apiextensions.k8s.io/status a in the cluster",
            ]
        );
    }

    #[test]
    fn other_objects_are_kept_where_they_are() {
        let config = object("v1", "ConfigMap", &json!({}));
        let namespace = object("v1", "Namespace", &json!({}));
        assert_eq!(
            shown(&[(config, "configmaps", Some("ns")), (namespace, "namespaces", None)]),
            [format!("{ALL} namespaces in the cluster"), format!("{ALL} configmaps in namespace ns")]
        );
        assert!(record_rights("ns").iter().all(|right| right.scope == Some("ns")));
    }
}
