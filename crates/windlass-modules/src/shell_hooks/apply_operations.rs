//! Applies the object operations of hooks to the cluster.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use super::operations::{Exists, Operation, OperationTarget, Patch};
use windlass_cluster::{
    Cluster, ClusterError, DeleteOptions, Deleted, Gvk, ObjectEvent, ObjectMeta, ObjectRef, PatchKind,
    Propagation,
};

/// Field manager of what hooks write.
pub const MANAGER: &str = "windlass-hook";

/// How long a deletion in the foreground is waited for, as addon-operator waits.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// How often a write is tried that others are faster with.
const CONFLICT_TRIES: u32 = 10;

/// Applies all operations, each even if others fail; the error lists the failures, one a line.
///
/// # Errors
/// What could not be done, and why.
pub async fn apply_operations(cluster: &Cluster, operations: &[Operation]) -> Result<(), String> {
    let mut failed = Vec::new();
    for operation in operations {
        if let Err(error) = one(cluster, operation).await {
            failed.push(format!("{}: {error}", describe_operation(operation)));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn describe_operation(operation: &Operation) -> String {
    let object = |kind: &str, namespace: &str, name: &str| {
        let slash = if namespace.is_empty() { "" } else { "/" };
        format!("{kind} {namespace}{slash}{name}")
    };
    let target = |t: &OperationTarget| object(&t.kind, &t.namespace, &t.name);
    match operation {
        Operation::Create { object: new, .. } => {
            let text = |path: &str| new.pointer(path).and_then(Value::as_str).unwrap_or_default();
            let name = Some(text("/metadata/name")).filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| text("/metadata/generateName"));
            format!("create {}", object(text("/kind"), text("/metadata/namespace"), name))
        }
        Operation::Delete { target: t, .. } => format!("delete {}", target(t)),
        Operation::Patch { target: t, .. } => format!("patch {}", target(t)),
    }
}

async fn one(cluster: &Cluster, operation: &Operation) -> Result<(), String> {
    let text = |e: ClusterError| e.to_string();
    match operation {
        Operation::Create { object, subresource, exists } => {
            create(cluster, object, subresource, *exists).await.map_err(text)
        }
        Operation::Delete { target, propagation } => {
            delete(cluster, target, *propagation).await.map_err(text)
        }
        Operation::Patch { target, patch, ignore_missing, .. } => {
            match self::patch(cluster, target, patch).await {
                Err(PatchError::Cluster(e)) if *ignore_missing && e.is_not_found() => Ok(()),
                other => other.map_err(|e| e.to_string()),
            }
        }
    }
}

async fn create(
    cluster: &Cluster,
    body: &Value,
    subresource: &str,
    exists: Exists,
) -> Result<(), ClusterError> {
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let gvk = Gvk::new(text("/apiVersion"), text("/kind"));
    let namespace = Some(text("/metadata/namespace")).filter(|n| !n.is_empty());
    let object = ObjectRef::new(gvk, namespace, text("/metadata/name"));
    let created = if subresource.is_empty() {
        cluster.create(&object, body, MANAGER).await
    } else {
        cluster.create_subresource(&object, subresource, body, MANAGER).await
    };
    match created {
        Ok(_) => Ok(()),
        Err(e) if e.is_already_exists() && exists == Exists::Ignore => Ok(()),
        Err(e) if e.is_already_exists() && exists == Exists::Replace => {
            let fresh = |live: Value| {
                let mut body = body.clone();
                body["metadata"]["resourceVersion"] = ObjectMeta::of(&live).resource_version().into();
                Ok(Some(body))
            };
            replace(cluster, &object, subresource, fresh).await.map_err(|e| match e {
                PatchError::Cluster(e) => e,
                PatchError::Filter(reason) => ClusterError::Answer { path: object.to_string(), reason },
            })
        }
        Err(e) => Err(e),
    }
}

#[derive(Debug, thiserror::Error)]
enum PatchError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("{0}")]
    Filter(String),
}

/// Reads an object and replaces it with what `change` makes of it; again if someone else was faster.
async fn replace(
    cluster: &Cluster,
    object: &ObjectRef,
    subresource: &str,
    change: impl Fn(Value) -> Result<Option<Value>, String>,
) -> Result<(), PatchError> {
    let mut tries = 0;
    loop {
        let Some(live) = cluster.get(object).await? else {
            let status = windlass_cluster::ApiStatus {
                code: 404,
                reason: "NotFound".to_owned(),
                message: format!("{object} not found"),
                ..Default::default()
            };
            return Err(ClusterError::Api(Box::new(status)).into());
        };
        let Some(body) = change(live).map_err(PatchError::Filter)? else { return Ok(()) };
        match cluster.replace_subresource(object, subresource, &body, MANAGER).await {
            Ok(_) => return Ok(()),
            Err(e) if e.is_conflict() && tries < CONFLICT_TRIES => tries += 1,
            Err(e) => return Err(e.into()),
        }
    }
}

async fn reference(cluster: &Cluster, target: &OperationTarget) -> Result<ObjectRef, ClusterError> {
    let gvk = cluster.find_kind(&target.api_version, &target.kind).await?;
    let namespace = Some(target.namespace.as_str()).filter(|n| !n.is_empty());
    Ok(ObjectRef::new(gvk, namespace, &target.name))
}

async fn patch(cluster: &Cluster, target: &OperationTarget, patch: &Patch) -> Result<(), PatchError> {
    let object = reference(cluster, target).await?;
    let part = &target.subresource;
    match patch {
        Patch::Merge(changes) => {
            cluster.patch_subresource(&object, part, PatchKind::Merge, changes, MANAGER).await?;
        }
        Patch::Json(steps) => {
            cluster.patch_subresource(&object, part, PatchKind::Json, steps, MANAGER).await?;
        }
        Patch::Jq(filter) => {
            let change = |live: Value| {
                let changed = filter.apply(&live).map_err(|e| e.to_string())?;
                if !changed.is_object() {
                    return Err("the filter makes no object".to_owned());
                }
                Ok((changed != live).then_some(changed))
            };
            replace(cluster, &object, part, change).await?;
        }
    }
    Ok(())
}

async fn delete(
    cluster: &Cluster,
    target: &OperationTarget,
    propagation: Propagation,
) -> Result<(), ClusterError> {
    let object = reference(cluster, target).await?;
    let options = DeleteOptions { propagation, ..DeleteOptions::default() };
    let deleted = cluster.delete(&object, options).await?;
    if propagation != Propagation::Foreground || deleted != Deleted::Yes {
        return Ok(());
    }
    let gone = async {
        let mut events = cluster.follow(&object.gvk, object.namespace.as_deref(), &object.name).await?;
        let mut there = false;
        while let Some(event) = events.next().await {
            match event? {
                ObjectEvent::Listing => there = false,
                ObjectEvent::Present(_) => there = true,
                ObjectEvent::Gone(_) => return Ok(()),
                ObjectEvent::Listed if !there => return Ok(()),
                ObjectEvent::Listed => {}
            }
        }
        Ok(())
    };
    match tokio::time::timeout(GONE_WITHIN, gone).await {
        Ok(ended) => ended,
        Err(_) => Err(ClusterError::WaitTimeout { what: format!("{object} to be gone") }),
    }
}

#[cfg(test)]
mod tests {
    use super::describe_operation;
    use crate::shell_hooks::operations::parse;

    #[test]
    fn operations_are_told_by_their_objects() {
        let cases = [
            (
                "{operation: Create, object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}}",
                "create Pod ns/p",
            ),
            (
                "{operation: Create, object: {apiVersion: v1, kind: Node, metadata: {name: a}}}",
                "create Node a",
            ),
            (
                "{operation: Create, object: {apiVersion: v1, kind: Pod, metadata: {generateName: p-, namespace: ns}}}",
                "create Pod ns/p-",
            ),
            ("{operation: Delete, kind: Pod, namespace: ns, name: p}", "delete Pod ns/p"),
            ("{operation: MergePatch, kind: Node, name: a, mergePatch: {a: 1}}", "patch Node a"),
        ];
        for (text, told_as) in cases {
            assert_eq!(describe_operation(&parse(text).unwrap()[0]), told_as);
        }
    }
}
