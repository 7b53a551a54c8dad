//! Record ↔ Secret. Pure.
//!
//! `data.release` is base64 of base64 of gzip of JSON; very old records are not gzipped.

use super::{Memory, Record, RecordError, SYSTEM_LABELS};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde_json::{Map, Value, json};
use std::{
    io::{Read as _, Write as _},
    time::{SystemTime, UNIX_EPOCH},
};

/// A Secret's data may take 1 MiB.
const LARGEST: usize = 1_048_576;
/// A record unpacked: far beyond what fits a Secret honestly packed.
const LARGEST_UNPACKED: u64 = 256 << 20;
const MEMORY: &str = "windlass";

/// Name of the Secret of a revision.
pub fn secret_name(release: &str, revision: u64) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// The Secret of a record. `stamp` names the label of the time: `createdAt` or `modifiedAt`.
///
/// A record that is too large for a Secret goes without what only `helm get` and a new rendering would want of the
/// chart: its files, templates and schema. The manifest stays whole.
pub fn encode_secret(record: &Record, stamp: &str) -> Result<Value, RecordError> {
    let name = secret_name(&record.name, record.version);
    let mut packed = pack(record, &name)?;
    if packed.len() > LARGEST {
        let mut smaller = record.clone();
        if let Some(chart) = smaller.chart.as_object_mut() {
            for part in ["files", "templates", "schema"] {
                chart.remove(part);
            }
        }
        packed = pack(&smaller, &name)?;
        tracing::debug!(name, "the record is too large for the whole chart");
    }
    let mut data = Map::new();
    if record.memory != Memory::default() {
        let memory = serde_json::to_vec(&record.memory).map_err(|e| failed(&name, &e))?;
        // What we remember can be found out again; the record cannot.
        if packed.len() + memory.len() <= LARGEST {
            data.insert(MEMORY.into(), STANDARD.encode(memory).into());
        }
    }
    if packed.len() > LARGEST {
        return Err(RecordError::TooLarge { name, bytes: packed.len() });
    }
    data.insert("release".into(), STANDARD.encode(packed).into());
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let mut labels: Map<String, Value> =
        record.labels.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    let own = [
        ("name", record.name.clone()),
        ("owner", "helm".to_owned()),
        ("status", record.info.status.to_string()),
        ("version", record.version.to_string()),
        (stamp, seconds.to_string()),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), Value::String(value))));
    Ok(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {"name": name, "namespace": record.namespace, "labels": labels},
        "data": data,
    }))
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> RecordError {
    RecordError::Decode { name: name.to_owned(), reason: error.to_string() }
}

/// base64 of gzip of JSON.
fn pack(record: &Record, name: &str) -> Result<String, RecordError> {
    let json = serde_json::to_vec(record).map_err(|e| failed(name, &e))?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&json).map_err(|e| failed(name, &e))?;
    Ok(STANDARD.encode(gzip.finish().map_err(|e| failed(name, &e))?))
}

/// The record of a Secret.
pub fn decode_secret(secret: &Value) -> Result<Record, RecordError> {
    let name = secret["metadata"]["name"].as_str().unwrap_or("without a name");
    let failed = |reason: &str| RecordError::Decode { name: name.into(), reason: reason.into() };
    let text = secret["data"]["release"].as_str().ok_or_else(|| failed("no data.release"))?;
    let inner = STANDARD.decode(text).map_err(|_| failed("data.release is not base64"))?;
    let packed =
        STANDARD.decode(inner.trim_ascii()).map_err(|_| failed("data.release is not base64 twice"))?;
    let json = if packed.starts_with(&[0x1f, 0x8b, 0x08]) {
        let mut json = Vec::new();
        let mut reader = GzDecoder::new(packed.as_slice()).take(LARGEST_UNPACKED);
        reader.read_to_end(&mut json).map_err(|e| failed(&e.to_string()))?;
        json
    } else {
        packed
    };
    let mut record: Record = serde_json::from_slice(&json).map_err(|e| failed(&e.to_string()))?;
    if let Some(labels) = secret["metadata"]["labels"].as_object() {
        let custom = labels.iter().filter(|(key, _)| !SYSTEM_LABELS.contains(&key.as_str()));
        record.labels = custom.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect();
    }
    // Records moved between namespaces by hand lie where they lie.
    if let Some(namespace) = secret["metadata"]["namespace"].as_str() {
        record.namespace = namespace.to_owned();
    }
    record.memory = secret["data"][MEMORY]
        .as_str()
        .and_then(|text| serde_json::from_slice(&STANDARD.decode(text).ok()?).ok())
        .unwrap_or_default();
    Ok(record)
}

/// The documents of a stored manifest, each with the path of its template (from the `# Source:` line, else empty).
pub fn split_manifest(manifest: &str) -> Vec<(&str, &str)> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in manifest.split_inclusive('\n') {
        if line.starts_with("---") && line[3..].trim().is_empty() {
            documents.push(&manifest[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    documents.push(&manifest[start..]);
    let source = |document: &str| document.trim_start().strip_prefix("# Source: ").map_or(0, str::len);
    documents
        .into_iter()
        .filter(|document| !document.trim().is_empty())
        .map(|document| {
            let rest = &document[document.len() - source(document).min(document.len())..];
            let path = if rest.is_empty() { "" } else { rest.lines().next().unwrap_or("").trim() };
            (path, document)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Info, Status},
        *,
    };
    use std::collections::BTreeMap;

    fn record() -> Record {
        Record {
            name: "web".into(),
            namespace: "shop".into(),
            version: 3,
            manifest: "---\n# Source: web/templates/cm.yaml\nkind: ConfigMap\n".into(),
            info: Info {
                status: Status::PendingUpgrade,
                last_deployed: "2026-01-02T03:04:05Z".into(),
                ..Info::default()
            },
            labels: BTreeMap::from([("team".into(), "a".into())]),
            memory: Memory {
                applied: BTreeMap::from([("/ConfigMap/shop/x".into(), u64::MAX)]),
                ..Memory::default()
            },
            ..Record::default()
        }
    }

    #[test]
    fn secrets_are_helms() {
        let secret = encode_secret(&record(), "createdAt").unwrap();
        assert_eq!(secret["metadata"]["name"], "sh.helm.release.v1.web.v3");
        assert_eq!(secret["type"], "helm.sh/release.v1");
        let labels = &secret["metadata"]["labels"];
        assert_eq!(
            (&labels["name"], &labels["owner"], &labels["status"], &labels["version"], &labels["team"]),
            (&json!("web"), &json!("helm"), &json!("pending-upgrade"), &json!("3"), &json!("a"))
        );
        let back = decode_secret(&secret).unwrap();
        assert_eq!(serde_json::to_value(&back).unwrap(), serde_json::to_value(record()).unwrap());
        assert_eq!((back.labels, back.memory), (record().labels, record().memory));
    }

    #[test]
    fn a_large_chart_goes_without_its_files() {
        // Numbers of a linear congruential generator: text that gzip cannot shrink much.
        let mut seed = 1_u64;
        let mut noise = |length: usize| -> String {
            let mut next = || {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'!' + u8::try_from((seed >> 40) % 90).unwrap())
            };
            (0..length).map(|_| next()).collect()
        };
        let mut large = record();
        large.chart =
            json!({"metadata": {"name": "web"}, "files": [{"name": "f", "data": noise(1_500_000)}]});
        let back = decode_secret(&encode_secret(&large, "createdAt").unwrap()).unwrap();
        assert_eq!(back.chart, json!({"metadata": {"name": "web"}}));
        assert_eq!(back.manifest, large.manifest);
        large.manifest = noise(1_500_000);
        let error = encode_secret(&large, "createdAt").unwrap_err();
        assert!(matches!(error, RecordError::TooLarge { .. }), "{error}");
    }

    #[test]
    fn reads_what_helm_3_wrote() {
        let json = r#"{"name":"a","info":{"first_deployed":"2020-01-01T00:00:00Z","last_deployed":"","deleted":"",
            "status":"failed","resources":{"x":[]}},"version":1,"namespace":"n","config":null,
            "hooks":[{"name":"h","events":["test-success","pre-install","new-event"],"last_run":{"started_at":"","phase":""}}]}"#;
        let secret = |bytes: &[u8]| json!({"metadata": {"name": "s"}, "data": {"release": STANDARD.encode(STANDARD.encode(bytes))}});
        // Not gzipped, as before Helm 3.0.
        let record = decode_secret(&secret(json.as_bytes())).unwrap();
        assert_eq!((record.info.status, record.info.last_deployed.as_str()), (Status::Failed, ""));
        assert_eq!(record.hooks[0].events.len(), 2, "events that are not known are dropped");
        assert!(record.info.rest.contains_key("resources"), "fields that are not known are kept");
        let garbled = decode_secret(&secret(b"{")).unwrap_err();
        assert!(garbled.to_string().starts_with("release record s: "), "{garbled}");
    }

    #[test]
    fn splits_manifests() {
        let text = "---\n# Source: a/templates/x.yaml\nkind: A\n---\n# Source: a/templates/y.yaml\nkind: B\ndata: |\n  ---\n--- \nkind: C\n";
        let split = split_manifest(text);
        let paths: Vec<_> = split.iter().map(|(path, _)| *path).collect();
        assert_eq!(paths, ["a/templates/x.yaml", "a/templates/y.yaml", ""]);
        assert_eq!(split[2].1, "kind: C\n");
        assert!(split_manifest("").is_empty());
    }
}
