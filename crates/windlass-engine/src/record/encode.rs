//! Encodes records as Secrets and ConfigMaps, and decodes them. Pure.
//!
//! `data.release` is base64 of base64 of gzip of JSON; very old records are not gzipped.

use crate::record::{Record, RecordError, RecordExtension, SYSTEM_LABELS};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use chart_compat::json::ParsedSize;
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::{
    io::{Read as _, Write as _},
    time::{SystemTime, UNIX_EPOCH},
};
use windlass_base::bounded_json;
use windlass_base::hex::hex;
use windlass_base::machine::memory_limit;
use windlass_cluster::ObjectMeta;

/// A Secret's data may take 1 MiB.
const LARGEST: usize = 1_048_576;
/// Least and most of what the records of a release may take, in bytes; between them it is an eighth of the process's memory, as text and
/// what is parsed of it are there at a time. The least is more than what fits a Secret honestly packed.
const UNPACKED: (u64, u64) = (16 << 20, 256 << 20);
const MEMORY: &str = "windlass";
/// The beginning of a manifest that is stored in parts.
const STUB: &str = "---\n# Source: windlass/too-large-for-helm.yaml";
/// What is unpacked at once, in bytes.
const PIECE: usize = 64 << 10;
/// Size of a part.
const PART: usize = 1_000_000;
/// Packed, that is the manifest of some hundred thousand objects.
const MOST_PARTS: usize = 64;

/// Name of the Secret of a revision.
pub fn secret_name(release: &str, revision: u64) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// What the records of one release may take that are read together: one may take all of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordRoom {
    /// Bytes, unpacked and parsed.
    all: u64,
    /// Those that are left.
    left: u64,
}

impl RecordRoom {
    /// That of this process.
    pub(crate) fn of_process() -> Self {
        Self::new((memory_limit() / 8).clamp(UNPACKED.0, UNPACKED.1))
    }

    fn new(all: u64) -> Self {
        Self { all, left: all }
    }

    /// The most parts of a record: packed, no more than it may take unpacked.
    pub(crate) fn most_parts(&self) -> usize {
        usize::try_from(self.all.div_ceil(PART as u64)).unwrap_or(MOST_PARTS).min(MOST_PARTS)
    }

    /// The error for a record that takes more than is left.
    pub(crate) fn exceeded(&self, name: &str) -> RecordError {
        RecordError::TooManyBytes { name: name.to_owned(), bytes: self.all }
    }

    /// Whether a record of this JSON cannot be read again.
    fn is_exceeded_by(&self, json: &[u8]) -> bool {
        // What is parsed takes up to so many times its text.
        if (json.len() as u64) < self.all / 64 {
            return false;
        }
        let size = ParsedSize::of(json);
        size.bytes.max(size.parsed) > self.all
    }
}

/// Why a record is not unpacked.
enum UnpackError {
    Damaged(String),
    /// It takes more than is left.
    TooLarge,
}

impl UnpackError {
    fn of(self, name: &str, room: &RecordRoom) -> RecordError {
        match self {
            Self::Damaged(reason) => RecordError::Decode { name: name.to_owned(), reason },
            Self::TooLarge => room.exceeded(name),
        }
    }
}

/// The form of a storage's objects: their kind, and how their data are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordForm {
    Secret,
    ConfigMap,
}

impl RecordForm {
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Secret => "Secret",
            Self::ConfigMap => "ConfigMap",
        }
    }

    /// Text as an entry of `data`.
    fn entry(self, text: &[u8]) -> Value {
        match self {
            Self::Secret => STANDARD.encode(text).into(),
            Self::ConfigMap => String::from_utf8_lossy(text).into_owned().into(),
        }
    }

    /// An entry of `data` as text.
    fn text(self, entry: &Value) -> Option<Vec<u8>> {
        let text = entry.as_str()?;
        match self {
            Self::Secret => STANDARD.decode(text).ok(),
            Self::ConfigMap => Some(text.as_bytes().to_vec()),
        }
    }
}

/// An encoded record: the object that Helm reads, and the parts of a large one.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) head: Value,
    /// Texts of the parts, in order; none unless the head refers to them.
    pub(crate) parts: Vec<String>,
    /// The record's extension as the head has it.
    pub(crate) extension: RecordExtension,
}

/// The Secret of a record that fits one. `stamp` names the label of the time: `createdAt` or `modifiedAt`.
pub fn encode_secret(record: &Record, stamp: &str) -> Result<Value, RecordError> {
    Ok(encode(record, stamp, RecordForm::Secret)?.head)
}

/// The objects of a record.
///
/// A record that is too large is stored without the chart's files, templates and schema, which only `helm get` and a
/// new rendering need. If that is not enough, manifest, values and chart are stored in parts, and the head's manifest
/// is one object of a kind that no cluster serves: Helm lists such a release and refuses to act on it.
pub(crate) fn encode(record: &Record, stamp: &str, form: RecordForm) -> Result<Encoded, RecordError> {
    let name = secret_name(&record.name, record.version);
    let mut extension = RecordExtension {
        parts: 0,
        parts_digest: String::new(),
        parts_of: String::new(),
        ..record.extension.clone()
    };
    let (mut packed, mut exceeds) = pack(record, &name)?;
    let mut parts = Vec::new();
    if packed.len() > LARGEST || exceeds {
        let mut smaller = record.clone();
        if let Some(chart) = smaller.chart.as_object_mut() {
            for part in ["files", "templates", "schema"] {
                chart.remove(part);
            }
        }
        (packed, exceeds) = pack(&smaller, &name)?;
        tracing::debug!(name, "the record is too large for the whole chart");
        if exceeds {
            return Err(RecordRoom::of_process().exceeded(&name));
        }
        if packed.len() > LARGEST {
            let (heavy, _) = pack(&Heavy::take(&mut smaller), &name)?;
            let pieces = heavy.as_bytes().chunks(PART);
            parts = pieces.map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
            extension.parts = parts.len();
            extension.parts_digest = digest(&heavy);
            extension.parts_of.clone_from(&name);
            smaller.manifest = stub(&record.name, &extension);
            (packed, _) = pack(&smaller, &name)?;
        }
    }
    let mut data = Map::new();
    if extension != RecordExtension::default() {
        let mut text = serde_json::to_vec(&extension).map_err(|e| failed(&name, &e))?;
        // The applied hashes can be computed again; the record, and where its parts are, cannot.
        if packed.len() + text.len() > LARGEST {
            extension.applied.clear();
            text = serde_json::to_vec(&extension).map_err(|e| failed(&name, &e))?;
        }
        if packed.len() + text.len() <= LARGEST {
            data.insert(MEMORY.into(), form.entry(&text));
        } else if !parts.is_empty() {
            return Err(RecordError::TooLarge { name, bytes: packed.len() + text.len() });
        }
    }
    if packed.len() > LARGEST || parts.len() > MOST_PARTS {
        let bytes = packed.len() + parts.iter().map(String::len).sum::<usize>();
        return Err(RecordError::TooLarge { name, bytes });
    }
    data.insert("release".into(), form.entry(packed.as_bytes()));
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
    let mut head = json!({
        "apiVersion": "v1", "kind": form.kind(),
        "metadata": {"name": name, "namespace": record.namespace, "labels": labels},
        "data": data,
    });
    if form == RecordForm::Secret {
        head["type"] = "helm.sh/release.v1".into();
    }
    Ok(Encoded { head, parts, extension })
}

/// Whether a record has at most so many bytes as JSON. No more than these are counted.
pub(crate) fn fits(record: &Record, bytes: u64) -> bool {
    let length = bounded_json::length_within(record, bytes);
    length.is_some_and(|length| bounded_json::length_within(&record.extension, bytes - length).is_some())
}

/// The content that is moved out of a record that is too large.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Heavy {
    chart: Value,
    config: Value,
    manifest: String,
}

impl Heavy {
    /// Moves it out of a record; leaves what Helm needs to list the release.
    fn take(record: &mut Record) -> Self {
        let metadata = record.chart["metadata"].clone();
        Self {
            chart: std::mem::replace(&mut record.chart, json!({ "metadata": metadata })),
            config: record.config.take(),
            manifest: std::mem::take(&mut record.manifest),
        }
    }
}

/// The stub in place of a manifest that is stored in parts. Helm keeps it through all operations, so that it names
/// the parts.
fn stub(release: &str, extension: &RecordExtension) -> String {
    format!(
        "{STUB}\n# The manifest of this revision is larger than a Secret. It lies beside this one; Helm cannot read it: \
         use\n# windlass for this release.\napiVersion: windlass.dev/v1\nkind: ReleaseTooLargeForHelm\nmetadata:\n  name: \
         {release}\nrecord: {}\nparts: {}\ndigest: {}\n",
        extension.parts_of, extension.parts, extension.parts_digest
    )
}

/// Reads a stub, if the manifest is one.
fn read_stub(manifest: &str, extension: &mut RecordExtension) {
    if !manifest.starts_with(STUB) {
        return;
    }
    let field =
        |name: &str| manifest.lines().find_map(|l| l.strip_prefix(name)).unwrap_or_default().to_owned();
    extension.parts = field("parts: ").parse().unwrap_or_default();
    extension.parts_digest = field("digest: ");
    extension.parts_of = field("record: ");
}

/// Restores the content of parts into a record. `false`: the parts are not whole.
pub(crate) fn join_parts(
    record: &mut Record,
    parts: &[String],
    room: &mut RecordRoom,
) -> Result<bool, RecordError> {
    let packed = parts.concat();
    if digest(&packed) != record.extension.parts_digest {
        return Ok(false);
    }
    let json = match unpack(packed.as_bytes(), room) {
        Ok(json) => json,
        Err(UnpackError::TooLarge) => return Err(room.exceeded(&record.extension.parts_of)),
        Err(UnpackError::Damaged(_)) => return Ok(false),
    };
    drop(packed);
    #[expect(clippy::disallowed_methods, reason = "within the limit of a record")]
    let Ok(heavy) = serde_json::from_slice::<Heavy>(&json) else { return Ok(false) };
    record.chart = heavy.chart;
    record.config = heavy.config;
    record.manifest = heavy.manifest;
    Ok(true)
}

/// One part of a record, owned by its head.
pub(crate) fn encode_part(head: &Value, number: usize, text: &str, form: RecordForm) -> Value {
    let meta = ObjectMeta::of(head);
    let name = part_name(meta.name(), number);
    let owner = json!({"apiVersion": "v1", "kind": form.kind(), "name": meta.name(), "uid": meta.uid()});
    let mut part = json!({
        "apiVersion": "v1", "kind": form.kind(),
        "metadata": {"name": name, "namespace": meta.namespace(), "ownerReferences": [owner]},
        "data": {"part": form.entry(text.as_bytes())},
    });
    if form == RecordForm::Secret {
        part["type"] = "windlass.dev/release-part".into();
    }
    part
}

/// Text of a part.
pub(crate) fn decode_part(part: &Value, form: RecordForm) -> Option<String> {
    String::from_utf8(form.text(&part["data"]["part"])?).ok()
}

/// The name of a part, by the head's name.
pub(crate) fn part_name(head: &str, number: usize) -> String {
    format!("{}.{number}", head.replacen("sh.helm", "windlass", 1))
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn failed(name: &str, error: &dyn std::fmt::Display) -> RecordError {
    RecordError::Decode { name: name.to_owned(), reason: error.to_string() }
}

/// base64 of gzip of JSON; and whether it could not be read again.
fn pack(record: &impl Serialize, name: &str) -> Result<(String, bool), RecordError> {
    let json = serde_json::to_vec(record).map_err(|e| failed(name, &e))?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&json).map_err(|e| failed(name, &e))?;
    let packed = STANDARD.encode(gzip.finish().map_err(|e| failed(name, &e))?);
    Ok((packed, RecordRoom::of_process().is_exceeded_by(&json)))
}

/// JSON of base64 of gzip of it; very old records are not gzipped. Takes the room for it.
fn unpack(text: &[u8], room: &mut RecordRoom) -> Result<Vec<u8>, UnpackError> {
    let packed = STANDARD.decode(text.trim_ascii());
    let packed = packed.map_err(|_| UnpackError::Damaged("data.release is not base64 twice".to_owned()))?;
    let (json, size) = match packed.starts_with(&[0x1f, 0x8b, 0x08]) {
        true => inflate(&packed, room.left)?,
        false => {
            let size = ParsedSize::of(&packed);
            (packed, size)
        }
    };
    let left = room.left.checked_sub(size.bytes.max(size.parsed));
    room.left = left.ok_or(UnpackError::TooLarge)?;
    Ok(json)
}

/// What a record unpacks to. It is measured piece by piece before it takes memory: one that is too large costs none.
fn inflate(packed: &[u8], limit: u64) -> Result<(Vec<u8>, ParsedSize), UnpackError> {
    let damaged = |error: std::io::Error| UnpackError::Damaged(error.to_string());
    let (mut size, mut piece) = (ParsedSize::default(), vec![0; PIECE]);
    let mut reader = GzDecoder::new(packed);
    loop {
        let read = reader.read(&mut piece).map_err(damaged)?;
        if read == 0 {
            break;
        }
        size.add(&piece[..read]);
        if size.bytes.max(size.parsed) > limit {
            return Err(UnpackError::TooLarge);
        }
    }
    let mut json = Vec::with_capacity(usize::try_from(size.bytes).unwrap_or(0));
    #[expect(clippy::disallowed_methods, reason = "measured above")]
    GzDecoder::new(packed).read_to_end(&mut json).map_err(damaged)?;
    Ok((json, size))
}

/// Decodes the record of a Secret.
pub fn decode_secret(secret: &Value) -> Result<Record, RecordError> {
    decode(secret, RecordForm::Secret, &mut RecordRoom::of_process())
}

/// Decodes the record of a head, without its parts. `room`: what it may take.
pub(crate) fn decode(secret: &Value, form: RecordForm, room: &mut RecordRoom) -> Result<Record, RecordError> {
    let name = ObjectMeta::of(secret).name();
    let name = if name.is_empty() { "without a name" } else { name };
    let failed = |reason: &str| RecordError::Decode { name: name.into(), reason: reason.into() };
    let entry = &secret["data"]["release"];
    if entry.is_null() {
        return Err(failed("no data.release"));
    }
    let inner = form.text(entry).ok_or_else(|| failed("data.release is not base64"))?;
    let json = unpack(&inner, room).map_err(|e| e.of(name, room))?;
    drop(inner);
    #[expect(clippy::disallowed_methods, reason = "within the limit of a record")]
    let mut record: Record = serde_json::from_slice(&json).map_err(|e| failed(&e.to_string()))?;
    drop(json);
    if let Some(labels) = secret["metadata"]["labels"].as_object() {
        let custom = labels.iter().filter(|(key, _)| !SYSTEM_LABELS.contains(&key.as_str()));
        record.labels = custom.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect();
        let system = labels.iter().filter(|(key, _)| SYSTEM_LABELS.contains(&key.as_str()));
        record.system = system.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect();
    }
    // The namespace of the release stays as recorded: its objects may be in another one than its records.
    if record.namespace.is_empty() {
        ObjectMeta::of(secret).namespace().unwrap_or_default().clone_into(&mut record.namespace);
    }
    record.extension = form
        .text(&secret["data"][MEMORY])
        .and_then(|text| bounded_json::from_slice(&text).ok())
        .unwrap_or_default();
    read_stub(&record.manifest, &mut record.extension);
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
        super::{Info, ReleaseStatus},
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
                status: ReleaseStatus::PendingUpgrade,
                last_deployed: "2026-01-02T03:04:05Z".into(),
                ..Info::default()
            },
            labels: BTreeMap::from([("team".into(), "a".into())]),
            extension: RecordExtension {
                applied: BTreeMap::from([("/ConfigMap/shop/x".into(), u64::MAX)]),
                ..RecordExtension::default()
            },
            ..Record::default()
        }
    }

    #[test]
    fn a_record_fits_with_its_extension() {
        let bytes = serde_json::to_vec(&record()).unwrap().len()
            + serde_json::to_vec(&record().extension).unwrap().len();
        let bytes = bytes as u64;
        assert!(fits(&record(), bytes));
        assert!(!fits(&record(), bytes - 1));
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
        assert_eq!((back.labels, back.extension), (record().labels, record().extension));
    }

    #[test]
    fn a_record_unpacks_to_no_more_than_its_bound() {
        let gzipped = |length: usize| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
            gzip.write_all(&vec![b' '; length]).unwrap();
            gzip.finish().unwrap()
        };
        let length = |packed: &[u8], limit: u64| inflate(packed, limit).ok().map(|(json, _)| json.len());
        assert_eq!(length(&gzipped(1 << 20), 1 << 20), Some(1 << 20));
        assert_eq!(length(&gzipped((1 << 20) + 1), 2 << 20), Some((1 << 20) + 1));
        assert_eq!(length(&gzipped(1 << 20), (1 << 20) - 1), None);
        // Small texts of large values are refused before they are parsed; texts of a manifest are texts.
        let maps = format!("[{}0]", r#"{"a":1},"#.repeat(500_000));
        let told = unpack(STANDARD.encode(maps).as_bytes(), &mut RecordRoom::new(16 << 20));
        assert!(matches!(told, Err(UnpackError::TooLarge)));
    }

    #[test]
    fn the_records_of_a_release_have_a_bound_together() {
        let large = Record { manifest: "x".repeat(3 << 20), ..record() };
        let secret = encode_secret(&large, "createdAt").unwrap();
        let mut room = RecordRoom::new(8 << 20);
        let mut read = || decode(&secret, RecordForm::Secret, &mut room).map(drop);
        assert!(read().is_ok() && read().is_ok());
        let told = read().unwrap_err();
        assert!(!told.is_unreadable(), "it is not damaged: nothing deletes it");
        let told = told.to_string();
        assert!(
            told.starts_with("release record sh.helm.release.v1.web.v3: it takes more than 8388608 bytes"),
            "{told}"
        );
        // Parts take of the same room.
        let mut room = RecordRoom::new(2 << 20);
        let mut head = record();
        let (heavy, _) = pack(&Heavy { manifest: "x".repeat(3 << 20), ..Heavy::default() }, "r").unwrap();
        head.extension.parts_digest = digest(&heavy);
        let told = join_parts(&mut head, &[heavy], &mut room).unwrap_err();
        assert!(matches!(told, RecordError::TooManyBytes { bytes: 0x20_0000, .. }), "{told}");
    }

    #[test]
    fn what_could_not_be_read_again_is_not_written() {
        let room = RecordRoom::new(1 << 20);
        let json = |length: usize| format!("[{}0]", "0,".repeat(length)).into_bytes();
        assert!(!room.is_exceeded_by(&json(1_000)));
        assert!(room.is_exceeded_by(&json(400_000)), "it takes more once it is parsed");
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
        large.manifest = noise(2_500_000);
        for form in [RecordForm::Secret, RecordForm::ConfigMap] {
            let encoded = encode(&large, "createdAt", form).unwrap();
            assert_eq!((encoded.parts.len(), encoded.extension.parts), (3, 3));
            let mut rewritten = encoded.head.clone();
            rewritten["data"].as_object_mut().unwrap().remove(MEMORY);
            let mut head = decode(&rewritten, form, &mut RecordRoom::of_process()).unwrap();
            assert_eq!(
                (head.extension.parts, head.extension.parts_of.as_str()),
                (3, "sh.helm.release.v1.web.v3")
            );
            assert!(head.manifest.contains("kind: ReleaseTooLargeForHelm"), "{}", head.manifest);
            assert_eq!(head.chart, json!({"metadata": {"name": "web"}}));
            let part = |(number, text): (usize, &String)| {
                decode_part(&encode_part(&encoded.head, number, text, form), form).unwrap()
            };
            let parts: Vec<String> = encoded.parts.iter().enumerate().map(part).collect();
            let mut room = RecordRoom::of_process();
            assert!(!join_parts(&mut head, &parts[..2], &mut room).unwrap(), "a part is missing");
            assert!(join_parts(&mut head, &parts, &mut room).unwrap());
            assert_eq!(head.manifest, large.manifest);
        }
        assert_eq!(part_name("sh.helm.release.v1.web.v3", 0), "windlass.release.v1.web.v3.0");
    }

    #[test]
    fn config_maps_hold_the_same_text() {
        let secret = encode(&record(), "createdAt", RecordForm::Secret).unwrap().head;
        let map = encode(&record(), "createdAt", RecordForm::ConfigMap).unwrap().head;
        assert_eq!((&map["kind"], &map["type"]), (&json!("ConfigMap"), &Value::Null));
        let text = STANDARD.decode(secret["data"]["release"].as_str().unwrap()).unwrap();
        assert_eq!(map["data"]["release"].as_str().unwrap().as_bytes(), text);
        let back = decode(&map, RecordForm::ConfigMap, &mut RecordRoom::of_process()).unwrap();
        assert_eq!((back.extension, back.version), (record().extension, 3));
    }

    #[test]
    fn reads_what_helm_3_wrote() {
        let json = r#"{"name":"a","info":{"first_deployed":"2020-01-01T00:00:00Z","last_deployed":"","deleted":"",
            "status":"failed","resources":{"x":[]}},"version":1,"namespace":"n","config":null,
            "hooks":[{"name":"h","events":["test-success","pre-install","new-event"],"last_run":{"started_at":"","phase":""}}]}"#;
        let secret = |bytes: &[u8]| json!({"metadata": {"name": "s"}, "data": {"release": STANDARD.encode(STANDARD.encode(bytes))}});
        // Not gzipped, as before Helm 3.0.
        let record = decode_secret(&secret(json.as_bytes())).unwrap();
        assert_eq!((record.info.status, record.info.last_deployed.as_str()), (ReleaseStatus::Failed, ""));
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
