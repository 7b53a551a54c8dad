//! Which objects may be deleted and created again for an immutable field: not those whose data would be lost.

use crate::{
    error::Result,
    execute::crds,
    objects::{
        data_loss::{self, ALLOW},
        desired_objects::is_crd,
        ownership,
    },
};
use serde_json::Value;
use windlass_cluster::{Cluster, ObjectMeta, ObjectRef};

/// Core kinds whose deletion deletes data of others.
const HOLDERS: [&str; 3] = ["PersistentVolumeClaim", "PersistentVolume", "Namespace"];

/// Whether the deletion of an object deletes data.
pub(crate) fn holds_data(object: &ObjectRef) -> bool {
    object.gvk.group.is_empty() && HOLDERS.contains(&object.gvk.kind.as_str()) || is_crd(object)
}

/// Why a live object may not be recreated; `None` if it may.
pub(crate) async fn refusal(
    cluster: &Cluster,
    object: &ObjectRef,
    live: &Value,
    wanted: &Value,
) -> Result<Option<String>> {
    let may = may_be_deleted(object, live, wanted);
    if may.is_ok() && is_crd(object) && !allows(live, wanted) {
        let what = match crds::objects(cluster, live).await? {
            Some(objects) if objects.count == 0 => return Ok(None),
            Some(objects) => format!("the {objects} objects of its kind would be deleted with it"),
            None => "no version of it is served, and objects that cannot be read may be deleted with it"
                .to_owned(),
        };
        return Ok(Some(needs_permission(&what)));
    }
    Ok(may.err())
}

/// The object's own policy.
fn may_be_deleted(object: &ObjectRef, live: &Value, wanted: &Value) -> Result<(), String> {
    let keeps = |o: &Value| ownership::is_kept(ObjectMeta::of(o).annotation("helm.sh/resource-policy"));
    if keeps(live) || keeps(wanted) {
        return Err("its helm.sh/resource-policy is keep; have a revision without that annotation first, or delete the object yourself"
            .to_owned());
    }
    if holds_data(object) && !is_crd(object) && !allows(live, wanted) {
        return Err(needs_permission("its data would be deleted with it"));
    }
    Ok(())
}

fn allows(live: &Value, wanted: &Value) -> bool {
    data_loss::allows(live) || data_loss::allows(wanted)
}

fn needs_permission(what: &str) -> String {
    format!("{what}; save what is needed, then allow it with the object's annotation {ALLOW}: \"true\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::Gvk;

    #[test]
    fn data_goes_only_where_an_object_says_so() {
        let with = |name: &str, value: &str| json!({"metadata": {"annotations": {name: value}}});
        let (keep, allowed) = (with("helm.sh/resource-policy", " Keep"), with(ALLOW, "true"));
        let mut both = keep.clone();
        both["metadata"]["annotations"][ALLOW] = "true".into();
        let none = json!({});
        let table = [
            ("v1", "ConfigMap", &none, &none, ""),
            ("v1", "ConfigMap", &keep, &none, "its helm.sh/resource-policy is keep"),
            ("v1", "ConfigMap", &none, &keep, "its helm.sh/resource-policy is keep"),
            ("v1", "PersistentVolumeClaim", &none, &none, "its data would be deleted"),
            ("v1", "PersistentVolumeClaim", &allowed, &none, ""),
            ("v1", "PersistentVolumeClaim", &none, &allowed, ""),
            ("v1", "PersistentVolumeClaim", &both, &none, "its helm.sh/resource-policy is keep"),
            ("v1", "PersistentVolume", &none, &none, "its data would be deleted"),
            ("v1", "Namespace", &none, &none, "its data would be deleted"),
            ("example.com/v1", "Namespace", &none, &none, ""),
        ];
        for (version, kind, live, wanted, expected) in table {
            let object = ObjectRef::new(Gvk::new(version, kind), Some("ns"), "x");
            let found = may_be_deleted(&object, live, wanted).err().unwrap_or_default();
            assert!(
                found.starts_with(expected) && found.is_empty() == expected.is_empty(),
                "{kind} {live} {wanted}: {found}"
            );
        }
    }
}
