//! `windlass flux tree`: the objects of a release, from its record, and those of the HelmReleases among them.

use std::collections::BTreeSet;

use futures::future::LocalBoxFuture;
use serde::Serialize;
use serde_json::Value;

use super::super::flags::Globals;
use super::super::output::{Format, structured};
use super::super::{Failure, print, with_engine};
use super::kinds::{KINDS, Selection};
use super::{namespace_of, read, text};
use windlass_cluster::ObjectRef;
use windlass_engine::{Engine, EngineError};
use windlass_flux::helmrelease::StoredRelease;

/// The most HelmReleases in a tree.
const MAX_RELEASES: usize = 1000;

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
        self.add_branches("", &mut out);
        out
    }

    fn add_branches(&self, indent: &str, out: &mut String) {
        for (at, below) in self.resources.iter().enumerate() {
            let last = at + 1 == self.resources.len();
            let (branch, further) = if last { ("└── ", "    ") } else { ("├── ", "│   ") };
            out.push_str(&format!("{indent}{branch}{}\n", below.title()));
            below.add_branches(&format!("{indent}{further}"), out);
        }
    }

    /// The HelmRelease that it stands for, if it is one.
    fn helm_release(&self) -> Option<ObjectRef> {
        let Resource { namespace, name, group_kind } = &self.resource;
        let kind = KINDS.iter().find(|kind| !kind.is_source())?;
        let own = kind.gvk();
        (group_kind.group == own.group && group_kind.kind == own.kind).then(|| kind.object(namespace, name))
    }
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let (kind, name) = Selection::parse_one(&args.objects)?;
    let name = name.filter(|_| !kind.is_source()).ok_or("only HelmReleases have a tree of objects")?;
    let tree = with_engine(globals, async |s| {
        let reference = kind.object(&namespace_of(globals, &s), &name);
        let object = read(s.engine.cluster(), &reference).await?;
        let mut tree = Tree::of_object(&reference);
        let mut seen = BTreeSet::from([reference]);
        grow(&s.engine, &mut tree, &object, &mut seen).await?;
        Ok(tree)
    })?;
    let out = match args.output {
        Format::Table => tree.text(),
        format => structured(&tree, format)?,
    };
    print(out.as_bytes())
}

/// Adds the objects of a release, and below the HelmReleases among them those of theirs.
fn grow<'a>(
    engine: &'a Engine,
    tree: &'a mut Tree,
    release: &'a Value,
    seen: &'a mut BTreeSet<ObjectRef>,
) -> LocalBoxFuture<'a, Result<(), Failure>> {
    Box::pin(async move {
        tree.resources = objects(engine, release).await?;
        for below in &mut tree.resources {
            let Some(reference) = below.helm_release().filter(|_| seen.len() < MAX_RELEASES) else {
                continue;
            };
            // A release that contains itself ends here; one that was deleted has no objects.
            if seen.insert(reference.clone())
                && let Some(nested) = engine.cluster().get(&reference).await.map_err(|e| e.to_string())?
            {
                grow(engine, below, &nested, seen).await?;
            }
        }
        Ok(())
    })
}

/// The objects of the stored release, and the CRDs that the status shows beside them.
async fn objects(engine: &Engine, release: &Value) -> Result<Vec<Tree>, Failure> {
    let stored = StoredRelease::of(release).map_err(|e| e.to_string())?;
    let engine = engine.clone().with_storage_namespace(&stored.storage_namespace, false);
    let mut found: Vec<Tree> = match engine.records().get(&stored.id, stored.revision).await {
        Ok(record) => {
            let objects = engine.records().objects_of(&record).await.map_err(|e| e.to_string())?;
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
        let release = || Tree::of(Some("apps"), "below", "helm.toolkit.fluxcd.io", "HelmRelease");
        let mut nested = release();
        nested.resources =
            vec![Tree::of(Some("apps"), "a", "", "Service"), Tree::of(Some("apps"), "b", "", "Secret")];
        let mut tree = release();
        tree.resources = vec![nested, Tree::of(Some("apps"), "c", "", "Secret")];
        assert_eq!(
            tree.text(),
            "HelmRelease/apps/below\n├── HelmRelease/apps/below\n│   ├── Service/apps/a\n│   └── Secret/apps/b\n└── Secret/apps/c\n"
        );
        assert!(tree.helm_release().is_some() && tree.resources[1].helm_release().is_none());
        let tree = Tree::of(None, "web", "rbac.authorization.k8s.io", "ClusterRole");
        assert_eq!(
            structured(&tree, Format::Json).unwrap(),
            "{\"resource\":{\"Namespace\":\"\",\"Name\":\"web\",\"GroupKind\":{\"Group\":\"rbac.authorization.k8s.io\",\"Kind\":\"ClusterRole\"}}}\n"
        );
    }
}
