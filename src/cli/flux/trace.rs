//! `windlass flux trace`: an object, its HelmRelease, the chart of that and the chart's source.

use serde_json::Value;

use super::super::flags::Globals;
use super::super::output::local_go_time;
use super::super::{Failure, print, with_engine};
use super::kinds;
use super::{condition, namespace_of, read, revision, text};
use windlass_cluster::{Cluster, Gvk, ObjectMeta, ObjectRef};

/// Most owners between an object and the one that a release contains.
const MOST_OWNERS: usize = 8;

/// Flags of `trace`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// `KIND NAME` or `KIND/NAME`, e.g. deployment web
    #[arg(required = true, num_args = 1..=2, value_names = ["KIND", "NAME"])]
    object: Vec<String>,
    /// API version of the kind, if several have it, e.g. apps/v1
    #[arg(long, default_value = "", hide_default_value = true)]
    api_version: String,
}

/// One part of the way: a title, and lines of name and value.
struct Section(Vec<(&'static str, String)>);

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let (kind, name) = match &args.object[..] {
        [kind, name] => (kind.as_str(), name.as_str()),
        [one] => one.split_once('/').ok_or("either KIND/NAME or KIND NAME is required")?,
        _ => return Err("either KIND/NAME or KIND NAME is required".to_owned()),
    };
    let sections = with_engine(globals, async |s| {
        let (namespace, cluster) = (namespace_of(globals, &s), s.engine.cluster());
        let gvk = cluster.find_kind(&args.api_version, kind).await.map_err(|e| e.to_string())?;
        let namespaced = cluster.resource(&gvk).await.map_err(|e| e.to_string())?.namespaced;
        let within = namespaced.then_some(namespace.as_str());
        let object = ObjectRef::new(gvk, within, name);
        trace(cluster, &object).await
    })?;
    print(report(&sections).as_bytes())
}

async fn trace(cluster: &Cluster, object: &ObjectRef) -> Result<Vec<Section>, Failure> {
    let live = read(cluster, object).await?;
    let release = match object.gvk.kind.as_str() {
        "HelmRelease" => object.clone(),
        _ => release_of(cluster, &live).await?.ok_or("object not managed by Flux")?,
    };
    let release = read(cluster, &release).await?;
    let mut sections = vec![of_object(object), of_release(&release)];
    let own = ObjectMeta::of(&release).namespace().unwrap_or_default().to_owned();
    let mut next = reference(&release["spec"]["chartRef"], &own)?;
    if next.is_none() {
        next = text(&release["status"]["helmChart"])
            .split_once('/')
            .map(|(namespace, name)| Ok::<_, Failure>(kinds::named("HelmChart")?.object(namespace, name)))
            .transpose()?;
    }
    if next.is_none() {
        next = reference(&release["spec"]["chart"]["spec"]["sourceRef"], &own)?;
    }
    while let Some(source) = next {
        let live = read(cluster, &source).await?;
        sections.push(of_source(&source, &live));
        let namespace = source.namespace.as_deref().unwrap_or_default();
        next = if source.gvk.kind == "HelmChart" {
            reference(&live["spec"]["sourceRef"], namespace)?
        } else {
            None
        };
    }
    Ok(sections)
}

/// The source that a reference names; `None` if it is empty.
fn reference(reference: &Value, own: &str) -> Result<Option<ObjectRef>, Failure> {
    if reference.is_null() {
        return Ok(None);
    }
    let kind = kinds::named(text(&reference["kind"]))?;
    let namespace = reference["namespace"].as_str().unwrap_or(own);
    Ok(Some(kind.object(namespace, text(&reference["name"]))))
}

/// The HelmRelease of an object, or of one of its owners: their labels name it.
async fn release_of(cluster: &Cluster, object: &Value) -> Result<Option<ObjectRef>, Failure> {
    let mut object = object.clone();
    for _ in 0..MOST_OWNERS {
        if let Some(release) = labelled(&object)? {
            return Ok(Some(release));
        }
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let controls = |owner: &&Value| owner["controller"] == true;
        let Some(owner) = owners.iter().find(controls).or(owners.first()) else { return Ok(None) };
        let gvk = Gvk::new(text(&owner["apiVersion"]), text(&owner["kind"]));
        let owner = ObjectRef::new(gvk, ObjectMeta::of(&object).namespace(), text(&owner["name"]));
        match cluster.get(&owner).await.map_err(|e| e.to_string())? {
            Some(found) => object = found,
            None => return Ok(None),
        }
    }
    Ok(None)
}

fn labelled(object: &Value) -> Result<Option<ObjectRef>, Failure> {
    let meta = ObjectMeta::of(object);
    let label = |field: &str| meta.label(&format!("helm.toolkit.fluxcd.io/{field}"));
    match (label("namespace"), label("name")) {
        (Some(namespace), Some(name)) => Ok(Some(kinds::named("HelmRelease")?.object(namespace, name))),
        _ => Ok(None),
    }
}

fn of_object(object: &ObjectRef) -> Section {
    let mut lines = vec![("Object", format!("{}/{}", object.gvk.kind, object.name))];
    lines.extend(object.namespace.clone().map(|namespace| ("Namespace", namespace)));
    lines.push(("Status", "Managed by Flux".to_owned()));
    Section(lines)
}

fn of_release(release: &Value) -> Section {
    let meta = ObjectMeta::of(release);
    let mut lines = vec![
        ("HelmRelease", meta.name().to_owned()),
        ("Namespace", meta.namespace().unwrap_or_default().to_owned()),
    ];
    lines.extend(release["spec"]["targetNamespace"].as_str().map(|target| ("Target", target.to_owned())));
    lines.push(("Revision", revision(release).to_owned()));
    lines.extend(status(release));
    Section(lines)
}

fn of_source(source: &ObjectRef, live: &Value) -> Section {
    let spec = &live["spec"];
    let kind = kinds::named(&source.gvk.kind).map_or("Source", |kind| kind.kind);
    let mut lines =
        vec![(kind, source.name.clone()), ("Namespace", source.namespace.clone().unwrap_or_default())];
    let reference = &spec["ref"];
    for (title, value) in [
        ("URL", &spec["url"]),
        ("Chart", &spec["chart"]),
        ("Version", &spec["version"]),
        ("Tag", &reference["tag"]),
        ("Semver", &reference["semver"]),
        ("Branch", &reference["branch"]),
        ("Digest", &reference["digest"]),
        ("Bucket", &spec["bucketName"]),
        ("Revision", &live["status"]["artifact"]["revision"]),
    ] {
        lines.extend(value.as_str().map(|value| (title, value.to_owned())));
    }
    lines.extend(status(live));
    Section(lines)
}

/// The lines of an object's state.
fn status(object: &Value) -> Vec<(&'static str, String)> {
    let Some(ready) = condition(object, "Ready") else {
        return vec![("Status", "Unknown".to_owned())];
    };
    let at = local_go_time(text(&ready["lastTransitionTime"]));
    let what =
        if ready["status"] == "False" { "Last reconciliation failed at" } else { "Last reconciled at" };
    let mut lines = vec![("Status", format!("{what} {at}"))];
    if object["spec"]["suspend"] == true {
        lines.push(("Suspended", "True".to_owned()));
    }
    lines.push(("Message", text(&ready["message"]).to_owned()));
    lines
}

/// The sections as text, all values in one column.
fn report(sections: &[Section]) -> String {
    let titles = sections.iter().flat_map(|Section(lines)| lines).map(|(title, _)| title.len());
    let width = titles.max().unwrap_or(0) + 2;
    let texts: Vec<String> = sections
        .iter()
        .map(|Section(lines)| {
            let line = |(title, value): &(&str, String)| format!("{:<width$}{value}\n", format!("{title}:"));
            lines.iter().map(line).collect()
        })
        .collect();
    format!("\n{}", texts.join("---\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_way_of_an_object_is_told_in_sections() {
        let release = json!({
            "metadata": {"name": "web", "namespace": "apps"}, "spec": {"targetNamespace": "prod", "suspend": true},
            "status": {
                "history": [{"chartVersion": "1.0.0"}],
                "conditions": [{"type": "Ready", "status": "False", "message": "boom", "lastTransitionTime": "x"}],
            },
        });
        let source =
            ObjectRef::new(Gvk::new("source.toolkit.fluxcd.io/v1", "OCIRepository"), Some("apps"), "demo");
        let live = json!({"spec": {"url": "oci://registry/demo", "ref": {"tag": "1.0.0"}}, "status": {"artifact": {"revision": "1.0.0@sha256:00"}}});
        let object = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some("prod"), "web");
        let found = report(&[of_object(&object), of_release(&release), of_source(&source, &live)]);
        let expected = "
Object:        ConfigMap/web
Namespace:     prod
Status:        Managed by Flux
---
HelmRelease:   web
Namespace:     apps
Target:        prod
Revision:      1.0.0
Status:        Last reconciliation failed at x
Suspended:     True
Message:       boom
---
OCIRepository: demo
Namespace:     apps
URL:           oci://registry/demo
Tag:           1.0.0
Revision:      1.0.0@sha256:00
Status:        Unknown
";
        assert_eq!(found, expected);
        let labels = json!({"metadata": {"labels": {"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": "apps"}}});
        assert_eq!(labelled(&labels).unwrap().unwrap().to_string(), "HelmRelease apps/web");
        assert!(labelled(&json!({})).unwrap().is_none());
    }
}
