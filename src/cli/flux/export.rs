//! `windlass flux export`: objects as they can be applied elsewhere.

use serde_json::{Map, Value, json};

use super::super::flags::Globals;
use super::super::output::{Format, structured};
use super::super::{Failure, print, with_engine};
use super::kinds::Selection;
use super::{namespace_of, read};

/// Annotations that commands write; they do not belong to the desired state.
const TRANSIENT: [&str; 4] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "reconcile.fluxcd.io/requestedAt",
    "reconcile.fluxcd.io/forceAt",
    "reconcile.fluxcd.io/resetAt",
];

/// Flags of `export`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// `helmrelease NAME` or `source KIND NAME`
    #[arg(required = true, num_args = 1..=3, value_names = ["KIND", "NAME"])]
    objects: Vec<String>,
    /// All objects of the kind in the namespace
    #[arg(long)]
    all: bool,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let Selection { kinds, name } = Selection::parse(&args.objects)?;
    match (&name, args.all) {
        (Some(_), true) => return Err("give a name or --all, not both".to_owned()),
        (None, false) => return Err("give a name, or --all".to_owned()),
        _ => {}
    }
    let objects = with_engine(globals, async |s| {
        let (namespace, cluster) = (namespace_of(globals, &s), s.engine.cluster());
        let mut objects = Vec::new();
        for kind in &kinds {
            match &name {
                Some(name) => objects.push(read(cluster, &kind.object(&namespace, name)).await?),
                None => objects.extend(
                    cluster.list(&kind.gvk(), Some(&namespace), "").await.map_err(|e| e.to_string())?,
                ),
            }
        }
        if objects.is_empty() {
            return Err(format!("no objects found in {namespace:?} namespace"));
        }
        Ok(objects)
    })?;
    let mut out = String::new();
    for object in &objects {
        out.push_str(&format!("---\n{}\n", structured(&exported(object), Format::Yaml)?));
    }
    print(out.as_bytes())
}

/// An object without its status and without what the server and commands added.
fn exported(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut kept = Map::new();
    for field in ["name", "namespace", "labels"] {
        if !metadata[field].is_null() {
            kept.insert(field.to_owned(), metadata[field].clone());
        }
    }
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    let annotations: Map<String, Value> = annotations
        .filter(|(name, _)| !TRANSIENT.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !annotations.is_empty() {
        kept.insert("annotations".to_owned(), annotations.into());
    }
    json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": kept, "spec": object["spec"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_exported() {
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {
                "name": "web", "namespace": "apps", "uid": "u", "resourceVersion": "1", "generation": 2,
                "managedFields": [], "finalizers": ["finalizers.fluxcd.io"], "labels": {"a": "b"},
                "annotations": {"own": "x", "reconcile.fluxcd.io/requestedAt": "t"},
            },
            "spec": {"interval": "1h"}, "status": {"observedGeneration": 2},
        });
        let expected = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "apps", "labels": {"a": "b"}, "annotations": {"own": "x"}},
            "spec": {"interval": "1h"},
        });
        assert_eq!(exported(&object), expected);
        let mut bare = object;
        bare["metadata"]["annotations"].as_object_mut().unwrap().remove("own");
        assert!(exported(&bare)["metadata"]["annotations"].is_null());
    }
}
