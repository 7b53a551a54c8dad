//! Labels that a front end adds to every object of a release.
//!
//! Owns the rewriting of manifests. Does not know any label by name; leaves hooks unchanged, as Helm's post-renderers do.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chart_compat::kyaml;
use chart_compat::yaml::Room;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::convert::parse_manifest;
use windlass_base::hex::hex;
use windlass_engine::{CrdFile, RenderedRelease};

/// Adds labels to the manifests and CRDs of a release; they replace the chart's own values. The text of an object that changes
/// is serialized by kyaml.
///
/// # Errors
/// An object whose labels are not a map, named by its template, or a text that kyaml cannot parse.
pub fn add_labels(release: &mut RenderedRelease, labels: &BTreeMap<String, String>) -> Result<(), String> {
    if labels.is_empty() {
        return Ok(());
    }
    let mut changed = false;
    let room = Room::default();
    for manifest in &mut release.manifests {
        let failed = |reason: String| format!("{}: extra labels: {reason}", manifest.source);
        if manifest.object.is_null() || !label(&mut manifest.object, labels).map_err(failed)? {
            continue;
        }
        changed = true;
        // With the line break that ends it in the stream, which is then removed again: a block scalar at the end keeps its own.
        let text = kyaml::with_labels(&format!("{}\n", manifest.text), labels, &room)
            .map_err(|e| failed(e.to_string()))?;
        // As it will be decoded from the record: kyaml omits empty fields.
        manifest.object = parse_manifest(&text).map_err(failed)?;
        text.strip_suffix('\n').unwrap_or(&text).clone_into(&mut manifest.text);
    }
    if changed {
        let mut digest = Sha256::default();
        digest.update(&release.checksum);
        for (name, value) in labels {
            digest.update(format!("\n{name}={value}"));
        }
        release.checksum = hex(&digest.finalize());
        release.manifest_text.clear();
        for manifest in &release.manifests {
            let (source, text) = (&manifest.source, &manifest.text);
            write!(release.manifest_text, "---\n# Source: {source}\n{text}\n").map_err(|e| e.to_string())?;
        }
    }
    label_crds(&mut release.crds, labels)
}

/// Adds labels to the CRDs of a chart.
///
/// # Errors
/// As [`add_labels`].
pub fn label_crds(files: &mut [CrdFile], labels: &BTreeMap<String, String>) -> Result<(), String> {
    for file in files {
        for object in &mut file.objects {
            label(object, labels).map_err(|reason| format!("{}: extra labels: {reason}", file.name))?;
        }
    }
    Ok(())
}

/// Sets the labels; returns whether the object changed.
fn label(object: &mut Value, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let Some(object) = object.as_object_mut() else { return Err("it is not an object".to_owned()) };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return Err("its metadata is not a map".to_owned()) };
    let own = metadata.entry("labels").or_insert_with(|| json!({}));
    if own.is_null() {
        *own = json!({});
    }
    let Some(own) = own.as_object_mut() else { return Err("its metadata.labels is not a map".to_owned()) };
    let mut changed = false;
    for (name, value) in labels {
        if own.get(name).and_then(Value::as_str) != Some(value) {
            own.insert(name.clone(), Value::String(value.clone()));
            changed = true;
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::Manifest;

    fn release(texts: &[&str]) -> RenderedRelease {
        let manifest = |text: &&str| Manifest {
            source: "m/templates/a.yaml".to_owned(),
            text: (*text).to_owned(),
            object: parse_manifest(&format!("{text}\n")).unwrap(),
        };
        let manifests: Vec<Manifest> = texts.iter().map(manifest).collect();
        let manifest_text =
            manifests.iter().map(|m| format!("---\n# Source: {}\n{}\n", m.source, m.text)).collect();
        RenderedRelease { manifests, manifest_text, checksum: "c".to_owned(), ..RenderedRelease::default() }
    }

    #[test]
    fn every_object_gets_the_labels_and_they_win() {
        let labels = BTreeMap::from([("heritage".to_owned(), "addon-operator".to_owned())]);
        let mut r = release(&[
            "kind: A\nmetadata:\n  name: a",
            "kind: B\nmetadata:\n  name: b\n  labels: {heritage: Helm, x: \"1\"}",
            "kind: C\nmetadata:\n  labels:\n    heritage: addon-operator # as it is\n  name: c",
            "# nothing",
            "kind: D\ntext: |+\n  a\n",
            "kind: E\nmetadata:\n  labels:\n    heritage: Helm\ntext: |\n  a",
            "kind: F\nmetadata:\n  annotations:\n  name: f\n  labels: {}",
        ]);
        add_labels(&mut r, &labels).unwrap();
        let texts: Vec<&str> = r.manifests.iter().map(|m| m.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "kind: A\nmetadata:\n  name: a\n  labels:\n    heritage: addon-operator",
                "kind: B\nmetadata:\n  name: b\n  labels:\n    heritage: addon-operator\n    x: \"1\"",
                "kind: C\nmetadata:\n  labels:\n    heritage: addon-operator # as it is\n  name: c",
                "# nothing",
                "kind: D\ntext: |+\n  a\n\nmetadata:\n  labels:\n    heritage: addon-operator",
                "kind: E\nmetadata:\n  labels:\n    heritage: addon-operator\ntext: |\n  a",
                "kind: F\nmetadata:\n  name: f\n  labels:\n    heritage: addon-operator",
            ]
        );
        for manifest in r.manifests.iter().filter(|m| !m.object.is_null()) {
            assert_eq!(parse_manifest(&format!("{}\n", manifest.text)).unwrap(), manifest.object);
        }
        assert!(r.manifest_text.starts_with("---\n# Source: m/templates/a.yaml\nkind: A\n"));
        assert_ne!(r.checksum, "c");
        let mut none = release(&["kind: A"]);
        add_labels(&mut none, &BTreeMap::new()).unwrap();
        assert_eq!((none.manifests[0].text.as_str(), none.checksum.as_str()), ("kind: A", "c"));
        let wrong = add_labels(&mut release(&["metadata: {labels: [x]}"]), &labels).unwrap_err();
        assert_eq!(wrong, "m/templates/a.yaml: extra labels: its metadata.labels is not a map");
    }
}
