//! The digest of an object's data. Pure.
//!
//! It stands in an annotation of workloads, whose readers need not be able to read Secrets. So that nobody finds out a short password by
//! trying, the digest of a Secret is keyed with its UID, which only who can read the Secret learns: a Secret that is deleted and made again
//! counts as changed.

use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_base::hex::hex;
use windlass_cluster::ObjectMeta;

/// Characters of a digest.
const LENGTH: usize = 16;
/// Fields of ConfigMaps and Secrets that hold data.
const DATA: [&str; 2] = ["data", "binaryData"];

/// The digest of a ConfigMap's data.
pub(crate) fn config_map_digest(object: &Value) -> String {
    let mut digest = Sha256::new();
    feed(object, &DATA, &mut |bytes| digest.update(bytes));
    shortened(&digest.finalize())
}

/// The digest of a Secret's data.
pub(crate) fn secret_digest(object: &Value) -> String {
    // HMAC takes keys of any length.
    let Ok(mut digest) = Hmac::<Sha256>::new_from_slice(ObjectMeta::of(object).uid().as_bytes()) else {
        return String::new();
    };
    feed(object, &DATA, &mut |bytes| digest.update(bytes));
    shortened(&digest.finalize().into_bytes())
}

/// The digest of the versions that a SecretProviderClass has mounted, of the status of one Pod. The driver writes no data.
pub(crate) fn mounted_digest(pod_status: &Value) -> String {
    let mut objects: Vec<(&str, &str)> = pod_status["status"]["objects"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|object| Some((object["id"].as_str()?, object["version"].as_str()?)))
        .collect();
    objects.sort_unstable();
    let mut digest = Sha256::new();
    for text in objects.iter().flat_map(|(id, version)| [id, version]) {
        digest.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
        digest.update(text);
    }
    shortened(&digest.finalize())
}

/// Feeds keys and values, each with its length, so that no two objects look alike. Keys are in order.
fn feed(object: &Value, fields: &[&str], update: &mut impl FnMut(&[u8])) {
    for field in fields {
        let entries = object[*field].as_object();
        let mut entries: Vec<_> = entries.into_iter().flatten().collect();
        entries.sort_by_key(|(key, _)| key.as_str());
        for text in
            entries.into_iter().flat_map(|(key, value)| [key.as_str(), value.as_str().unwrap_or_default()])
        {
            update(&u64::try_from(text.len()).unwrap_or(u64::MAX).to_le_bytes());
            update(text.as_bytes());
        }
        update(field.as_bytes());
    }
}

fn shortened(digest: &[u8]) -> String {
    hex(digest).chars().take(LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_digest_changes_with_the_data_and_with_nothing_else() {
        let map = |data: Value, binary: Value, label: &str| json!({"metadata": {"uid": "u", "labels": {"a": label}}, "data": data, "binaryData": binary});
        let base = config_map_digest(&map(json!({"a": "1", "b": "2"}), Value::Null, "x"));
        assert_eq!(base.len(), LENGTH);
        assert_eq!(base, config_map_digest(&map(json!({"b": "2", "a": "1"}), json!({}), "y")));
        for (data, binary) in [
            (json!({"a": "1", "b": "3"}), Value::Null),
            (json!({"a": "1"}), Value::Null),
            (json!({"a": "1b", "": "2"}), Value::Null),
            (json!({"a": "1"}), json!({"b": "2"})),
            (Value::Null, json!({"a": "1", "b": "2"})),
        ] {
            assert_ne!(base, config_map_digest(&map(data.clone(), binary.clone(), "x")), "{data} {binary}");
        }
    }

    #[test]
    fn the_digest_of_a_secret_needs_its_uid() {
        let secret = |uid: &str| json!({"metadata": {"uid": uid}, "data": {"password": "MTIzNA=="}});
        assert_eq!(secret_digest(&secret("a")), secret_digest(&secret("a")));
        assert_ne!(secret_digest(&secret("a")), secret_digest(&secret("b")));
        assert_ne!(secret_digest(&secret("")), config_map_digest(&secret("")));
    }

    #[test]
    fn a_mounted_version_counts() {
        let status = |version: &str, pod: &str| json!({"status": {"podName": pod, "objects": [{"id": "b", "version": "1"}, {"id": "a", "version": version}]}});
        assert_eq!(mounted_digest(&status("1", "x")), mounted_digest(&status("1", "y")));
        assert_ne!(mounted_digest(&status("1", "x")), mounted_digest(&status("2", "x")));
    }
}
