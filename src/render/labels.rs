//! Labels that a front end puts on every object of a release, and the checksum that addon-operator knows a release by.
//!
//! Owns the rewriting of manifests that takes; says nothing of which labels, and leaves hooks alone, as Helm's
//! post-renderers do.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use chart_compat::kyaml;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

use super::convert::parse_manifest;
use crate::release::{CrdFile, RenderedRelease};

/// Puts labels on every object of a release that is applied and kept, over what the chart says of the same labels
/// (addon-operator's `PostRenderer.Run`). Texts of objects that change by it are written as the peer writes them. Gives the
/// checksum by which addon-operator knows the release, `moduleChecksum`: the MD5, in hexadecimal, of all manifests as it writes
/// them (`RunHelmInstall`: of what Helm gives back, labels included).
///
/// # Errors
/// An object whose labels are no map, by the template that it came from, or a text that kyaml cannot read.
pub fn add_labels(
    release: &mut RenderedRelease,
    labels: &BTreeMap<String, String>,
) -> Result<String, String> {
    if labels.is_empty() {
        return Ok(hex(&Md5::digest(release.manifest_text.as_bytes())));
    }
    let labelled = |text: &str| kyaml::with_labels(text, labels).map_err(|e| e.to_string());
    let before = std::mem::take(&mut release.manifest_text);
    let mut changed = false;
    for manifest in &mut release.manifests {
        let failed = |reason: String| format!("{}: extra labels: {reason}", manifest.source);
        if manifest.object.is_null() || !label(&mut manifest.object, labels).map_err(failed)? {
            continue;
        }
        changed = true;
        // With the line break that it has among the others, and without it again: a block text at its end keeps its own.
        let text = labelled(&format!("{}\n", manifest.text)).map_err(failed)?;
        // As it will be read from the record: the peer's writer leaves out what is empty.
        manifest.object = parse_manifest(&text).map_err(failed)?;
        text.strip_suffix('\n').unwrap_or(&text).clone_into(&mut manifest.text);
    }
    if changed {
        let mut digest = sha2::Sha256::default();
        digest.update(&release.checksum);
        for (name, value) in labels {
            digest.update(format!("\n{name}={value}"));
        }
        release.checksum = hex(&digest.finalize());
        for manifest in &release.manifests {
            let (source, text) = (&manifest.source, &manifest.text);
            write!(release.manifest_text, "---\n# Source: {source}\n{text}\n").map_err(|e| e.to_string())?;
        }
    }
    label_crds(&mut release.crds, labels)?;
    let checksum = hex(&Md5::digest(labelled(&before)?.as_bytes()));
    if !changed {
        release.manifest_text = before;
    }
    Ok(checksum)
}

/// Puts the labels on the CRDs of a chart.
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

/// Sets the labels; gives whether that changed anything.
fn label(object: &mut Value, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let Some(object) = object.as_object_mut() else { return Err("it is no object".to_owned()) };
    let metadata = object.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return Err("its metadata is no map".to_owned()) };
    let own = metadata.entry("labels").or_insert_with(|| json!({}));
    if own.is_null() {
        *own = json!({});
    }
    let Some(own) = own.as_object_mut() else { return Err("its metadata.labels is no map".to_owned()) };
    let mut changed = false;
    for (name, value) in labels {
        if own.get(name).and_then(Value::as_str) != Some(value) {
            own.insert(name.clone(), Value::String(value.clone()));
            changed = true;
        }
    }
    Ok(changed)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::Manifest;

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
        assert_eq!(wrong, "m/templates/a.yaml: extra labels: its metadata.labels is no map");
    }

    #[test]
    fn the_checksum_is_md5() {
        // RFC 1321 names the digest of the empty text.
        let sum = add_labels(&mut RenderedRelease::default(), &BTreeMap::new()).unwrap();
        assert_eq!(sum, "d41d8cd98f00b204e9800998ecf8427e");
    }
}
