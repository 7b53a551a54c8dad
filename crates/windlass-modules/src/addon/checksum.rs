//! addon-operator's checksum of a release.
//!
//! Owns how addon-operator serializes and hashes manifests. Knows nothing of the records that hold the checksum.

use std::collections::BTreeMap;
use windlass_base::hex::hex;

use chart_compat::kyaml;
use chart_compat::yaml::Room;
use md5::{Digest as _, Md5};

/// The value of the label `moduleChecksum`: the MD5, in hexadecimal, of all manifests with addon-operator's labels
/// (`RunHelmInstall`), as its post-renderer (`PostRenderer.Run`) serializes them. `manifests` is the text before labels are added.
///
/// # Errors
/// A text that kyaml cannot read.
pub(super) fn module_checksum(manifests: &str, labels: &BTreeMap<String, String>) -> Result<String, String> {
    let digest = if labels.is_empty() {
        Md5::digest(manifests)
    } else {
        Md5::digest(kyaml::with_labels(manifests, labels, &Room::default()).map_err(|e| e.to_string())?)
    };
    Ok(hex(&digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_md5_of_the_labelled_manifests() {
        // RFC 1321 names the digest of the empty text.
        assert_eq!(module_checksum("", &BTreeMap::new()).unwrap(), "d41d8cd98f00b204e9800998ecf8427e");
        let labels = BTreeMap::from([("heritage".to_owned(), "addon-operator".to_owned())]);
        let labelled = "kind: A\nmetadata:\n  labels:\n    heritage: addon-operator\n";
        let plain = module_checksum(labelled, &BTreeMap::new());
        assert_eq!(module_checksum("kind: A\n", &labels), plain);
    }
}
