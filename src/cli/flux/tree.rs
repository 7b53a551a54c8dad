//! `windlass flux tree`: the objects of a release, from its record.

use serde::Serialize;
use serde_json::Value;

use super::super::flags::Globals;
use super::super::output::{Format, structured};
use super::super::{Failure, print, with_engine};
use super::kinds::Selection;
use super::{namespace_of, read, text};
use crate::cluster::ObjectRef;
use crate::helmrelease::StoredRelease;
use crate::release::{Engine, EngineError};

/// Flags of `tree`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// `helmrelease NAME`
    #[arg(required = true, num_args = 2, value_names = ["KIND", "NAME"])]
    objects: Vec<String>,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// An object and those below it, with the fields of `flux tree -o json`.
#[derive(Debug, Serialize)]
struct Tree {
    resource: Resource,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    resources: Vec<Tree>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Resource {
    namespace: String,
    name: String,
    group_kind: GroupKind,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct GroupKind {
    group: String,
    kind: String,
}

impl Tree {
    fn of(namespace: Option<&str>, name: &str, group: &str, kind: &str) -> Self {
        let resource = Resource {
            namespace: namespace.unwrap_or_default().to_owned(),
            name: name.to_owned(),
            group_kind: GroupKind { group: group.to_owned(), kind: kind.to_owned() },
        };
        Self { resource, resources: Vec::new() }
    }

    fn of_object(object: &ObjectRef) -> Self {
        Self::of(object.namespace.as_deref(), &object.name, &object.gvk.group, &object.gvk.kind)
    }

    fn title(&self) -> String {
        let Resource { namespace, name, group_kind } = &self.resource;
        match namespace.as_str() {
            "" => format!("{}/{name}", group_kind.kind),
            namespace => format!("{}/{namespace}/{name}", group_kind.kind),
        }
    }

    /// The tree as text.
    fn text(&self) -> String {
        let mut out = format!("{}\n", self.title());
        for (at, below) in self.resources.iter().enumerate() {
            let branch = if at + 1 == self.resources.len() { "└── " } else { "├── " };
            out.push_str(&format!("{branch}{}\n", below.title()));
        }
        out
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let (kind, name) = Selection::parse_one(&args.objects)?;
    let name = name.filter(|_| !kind.is_source()).ok_or("only HelmReleases have a tree of objects")?;
    let tree = with_engine(globals, async |s| {
        let reference = kind.object(&namespace_of(globals, &s), &name);
        let object = read(s.engine.cluster(), &reference).await?;
        let mut tree = Tree::of_object(&reference);
        tree.resources = objects(&s.engine, &object).await?;
        Ok(tree)
    })?;
    let out = match args.output {
        Format::Table => tree.text(),
        format => structured(&tree, format)?,
    };
    print(out.as_bytes())
}

/// The objects of the stored release, and the CRDs that the status shows beside them.
async fn objects(engine: &Engine, release: &Value) -> Result<Vec<Tree>, Failure> {
    let stored = StoredRelease::of(release).map_err(|e| e.to_string())?;
    let engine = engine.clone().with_storage_namespace(&stored.storage_namespace, false);
    let mut found: Vec<Tree> = match engine.get(&stored.id, stored.revision).await {
        Ok(record) => {
            let objects = engine.objects_of(&record).await.map_err(|e| e.to_string())?;
            objects.iter().map(Tree::of_object).collect()
        }
        // It failed before it was stored.
        Err(EngineError::NotFound) => Vec::new(),
        Err(error) => return Err(error.to_string()),
    };
    let entries = release["status"]["inventory"]["entries"].as_array().into_iter().flatten();
    let crd = |entry: &Value| {
        let name = text(&entry["id"]).strip_suffix("_apiextensions.k8s.io_CustomResourceDefinition")?;
        Some(name.trim_start_matches('_').to_owned())
    };
    for name in entries.filter_map(crd) {
        let crd = Tree::of(None, &name, "apiextensions.k8s.io", "CustomResourceDefinition");
        if !found.iter().any(|known| known.title() == crd.title()) {
            found.push(crd);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_printed_as_by_flux() {
        let mut tree = Tree::of(Some("apps"), "web", "helm.toolkit.fluxcd.io", "HelmRelease");
        tree.resources = vec![
            Tree::of(Some("apps"), "web", "", "Service"),
            Tree::of(None, "web", "rbac.authorization.k8s.io", "ClusterRole"),
        ];
        assert_eq!(tree.text(), "HelmRelease/apps/web\n├── Service/apps/web\n└── ClusterRole/web\n");
        assert_eq!(
            structured(&tree.resources[1], Format::Json).unwrap(),
            "{\"resource\":{\"Namespace\":\"\",\"Name\":\"web\",\"GroupKind\":{\"Group\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\"}}}\n"
        );
    }
}
