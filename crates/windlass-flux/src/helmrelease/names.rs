//! Names that follow from a HelmRelease: its release, where it is stored, its HelmChart. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::digest::sha256;
use super::object::HelmReleaseObject;
use flux_api::GoDuration;
use flux_api::helm_release::{ChartTemplate, HelmReleaseSpec};
use windlass_cluster::{ObjectMeta, ObjectRef};
use windlass_engine::ReleaseId;

/// Longest name of a release.
const MAX_NAME: usize = 53;
/// Characters of the digest in a shortened name.
const HASH: usize = 12;

/// The release: `[TARGET-]NAME` in the target namespace, unless the spec names it.
pub(super) fn release_id(namespace: &str, name: &str, spec: &HelmReleaseSpec) -> ReleaseId {
    let name = match (&spec.release_name, &spec.target_namespace) {
        (Some(own), _) if !own.is_empty() => own.clone(),
        (_, Some(target)) if !target.is_empty() => format!("{target}-{name}"),
        _ => name.to_owned(),
    };
    let target = spec.target_namespace.as_deref().filter(|target| !target.is_empty());
    ReleaseId::new(target.unwrap_or(namespace), &shorten(&name))
}

/// Where the records are: the HelmRelease's namespace, unless the spec names another.
pub(super) fn storage_namespace(namespace: &str, spec: &HelmReleaseSpec) -> String {
    spec.storage_namespace.as_deref().filter(|storage| !storage.is_empty()).unwrap_or(namespace).to_owned()
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

/// The labels that helm-controller puts on what it makes for a HelmRelease.
pub(super) fn origin_labels(object: &HelmReleaseObject) -> BTreeMap<String, String> {
    let label = |field: &str, value: &str| (format!("helm.toolkit.fluxcd.io/{field}"), value.to_owned());
    BTreeMap::from([label("name", &object.name), label("namespace", &object.namespace)])
}

/// Whether a HelmChart belongs to a HelmRelease: its origin labels name it.
pub(super) fn is_chart_of(chart: &Value, object: &HelmReleaseObject) -> bool {
    let meta = ObjectMeta::of(chart);
    origin_labels(object).iter().all(|(name, value)| meta.label(name) == Some(value))
}

/// The HelmChart of a template.
pub(super) fn helm_chart(
    object: &HelmReleaseObject,
    spec: &HelmReleaseSpec,
    template: &ChartTemplate,
    name: &ObjectRef,
) -> Value {
    let mut labels = template.metadata.labels.clone();
    labels.extend(origin_labels(object));
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
        for (spec, expected, storage) in [
            (json!({}), "apps/podinfo", "apps"),
            (json!({"targetNamespace": "prod"}), "prod/prod-podinfo", "apps"),
            (json!({"targetNamespace": "prod", "releaseName": "x"}), "prod/x", "apps"),
            (json!({"releaseName": "x", "storageNamespace": "s"}), "apps/x", "s"),
        ] {
            let spec: HelmReleaseSpec = serde_json::from_value(spec).unwrap();
            assert_eq!(release_id("apps", "podinfo", &spec).to_string(), expected);
            assert_eq!(storage_namespace("apps", &spec), storage);
        }
        let long = "a".repeat(60);
        let short = shorten(&long);
        assert_eq!((short.len(), &short[..41]), (53, format!("{}-", "a".repeat(40)).as_str()));
    }
}
