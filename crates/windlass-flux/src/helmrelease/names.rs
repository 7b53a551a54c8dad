//! Names that follow from a HelmRelease: its release, where it is stored, its HelmChart. Pure.

use serde_json::{Value, json};

use super::digest::sha256;
use flux_api::GoDuration;
use flux_api::helm_release::{ChartTemplate, HelmReleaseSpec};
use windlass_cluster::ObjectRef;
use windlass_engine::ReleaseId;

/// Longest name of a release.
const MAX_NAME: usize = 53;
/// Characters of the digest in a shortened name.
const HASH: usize = 12;

/// The release: `[TARGET-]NAME` in the target namespace, unless the spec names it.
pub(super) fn release_id(metadata: &Value, spec: &HelmReleaseSpec) -> ReleaseId {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let name = match (&spec.release_name, &spec.target_namespace) {
        (Some(name), _) if !name.is_empty() => name.clone(),
        (_, Some(target)) if !target.is_empty() => format!("{target}-{}", text("name")),
        _ => text("name").to_owned(),
    };
    let target = spec.target_namespace.as_deref().filter(|target| !target.is_empty());
    ReleaseId::new(target.unwrap_or(text("namespace")), &shorten(&name))
}

/// Where the records are: the HelmRelease's namespace, unless the spec names another.
pub(super) fn storage_namespace(metadata: &Value, spec: &HelmReleaseSpec) -> String {
    let own = metadata["namespace"].as_str().unwrap_or_default();
    spec.storage_namespace.as_deref().filter(|storage| !storage.is_empty()).unwrap_or(own).to_owned()
}

/// A name that Helm accepts: longer ones end with a part of their digest.
fn shorten(name: &str) -> String {
    if name.len() <= MAX_NAME {
        return name.to_owned();
    }
    let digest = sha256(name.as_bytes());
    let hash = digest.trim_start_matches("sha256:").get(..HASH).unwrap_or_default();
    format!("{}-{hash}", name.get(..MAX_NAME - HASH - 1).unwrap_or_default())
}

/// Whether a HelmChart belongs to the HelmRelease with this metadata: its origin labels name it.
pub(super) fn is_chart_of(chart: &Value, metadata: &Value) -> bool {
    let labels = &chart["metadata"]["labels"];
    ["name", "namespace"]
        .iter()
        .all(|field| labels[format!("helm.toolkit.fluxcd.io/{field}")] == metadata[*field])
}

/// The HelmChart of a template.
pub(super) fn helm_chart(
    metadata: &Value,
    spec: &HelmReleaseSpec,
    template: &ChartTemplate,
    name: &ObjectRef,
) -> Value {
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    let mut labels = template.metadata.labels.clone();
    labels.insert("helm.toolkit.fluxcd.io/name".to_owned(), text("name").to_owned());
    labels.insert("helm.toolkit.fluxcd.io/namespace".to_owned(), text("namespace").to_owned());
    let source = &template.spec.source_ref;
    // In Go's form, as helm-controller writes it: another one is a difference for it.
    let interval = template.spec.interval.as_ref().or(spec.interval.as_ref());
    let mut body = json!({
        "chart": template.spec.chart,
        "version": template.spec.version.as_deref().unwrap_or("*"),
        "sourceRef": {"kind": source.kind, "name": source.name},
        "interval": interval.map_or_else(|| "1m0s".to_owned(), |interval| GoDuration::from(interval.get()).to_string()),
        "reconcileStrategy": template.spec.reconcile_strategy.as_deref().unwrap_or("ChartVersion"),
    });
    if let Some(version) = &source.api_version {
        body["sourceRef"]["apiVersion"] = version.as_str().into();
    }
    if !template.spec.values_files.is_empty() {
        body["valuesFiles"] = json!(template.spec.values_files);
    }
    if template.spec.ignore_missing_values_files {
        body["ignoreMissingValuesFiles"] = true.into();
    }
    if let Some(verify) = &template.spec.verify {
        body["verify"] = verify.clone();
    }
    let mut chart = json!({
        "apiVersion": name.gvk.api_version(),
        "kind": name.gvk.kind,
        "metadata": {"name": name.name, "namespace": name.namespace, "labels": labels},
        "spec": body,
    });
    if !template.metadata.annotations.is_empty() {
        chart["metadata"]["annotations"] = json!(template.metadata.annotations);
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_named_as_by_flux() {
        let metadata = json!({"name": "podinfo", "namespace": "apps"});
        for (spec, expected, storage) in [
            (json!({}), "apps/podinfo", "apps"),
            (json!({"targetNamespace": "prod"}), "prod/prod-podinfo", "apps"),
            (json!({"targetNamespace": "prod", "releaseName": "x"}), "prod/x", "apps"),
            (json!({"releaseName": "x", "storageNamespace": "s"}), "apps/x", "s"),
        ] {
            let spec: HelmReleaseSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(release_id(&metadata, &spec).to_string(), expected);
            assert_eq!(storage_namespace(&metadata, &spec), storage);
        }
        let long = "a".repeat(60);
        let short = shorten(&long);
        assert_eq!((short.len(), &short[..41]), (53, format!("{}-", "a".repeat(40)).as_str()));
    }
}
