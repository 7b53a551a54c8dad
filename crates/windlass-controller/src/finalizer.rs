//! Finalizers: an object stays until its release is uninstalled.

use serde_json::{Value, json};

use super::STATUS_MANAGER;
use windlass_cluster::{Cluster, ClusterError, ObjectMeta, ObjectRef, PatchKind};

/// Whether an object has a finalizer.
#[must_use]
pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    ObjectMeta::of(object).finalizers().any(|f| f == finalizer)
}

/// Adds a finalizer to an object unless it has it. Returns the object as it is then.
///
/// # Errors
/// The object was changed meanwhile, or the write fails.
pub(super) async fn add_finalizer(
    client: &Cluster,
    reference: &ObjectRef,
    object: &Value,
    finalizer: &str,
) -> Result<Value, ClusterError> {
    if has_finalizer(object, finalizer) {
        return Ok(object.clone());
    }
    let finalizers: Vec<&str> = ObjectMeta::of(object).finalizers().chain([finalizer]).collect();
    write(client, reference, object, &finalizers).await
}

/// Removes finalizers from an object; one that is gone already is fine.
///
/// # Errors
/// The object was changed meanwhile, or the write fails.
pub(super) async fn remove_finalizer(
    client: &Cluster,
    reference: &ObjectRef,
    object: &Value,
    removed: impl Fn(&str) -> bool,
) -> Result<(), ClusterError> {
    let finalizers: Vec<&str> = ObjectMeta::of(object).finalizers().filter(|f| !removed(f)).collect();
    match write(client, reference, object, &finalizers).await {
        Err(e) if e.is_not_found() => Ok(()),
        result => result.map(drop),
    }
}

/// Writes the list, unless the object was changed since.
async fn write(
    client: &Cluster,
    reference: &ObjectRef,
    object: &Value,
    finalizers: &[&str],
) -> Result<Value, ClusterError> {
    let version = ObjectMeta::of(object).resource_version();
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
    client.patch_subresource(reference, "", PatchKind::Merge, &patch, STATUS_MANAGER).await
}
