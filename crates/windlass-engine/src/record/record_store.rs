//! Reads, creates, updates and deletes the objects that store records.

use crate::{
    record::{
        OWNER_LABEL, Record, RecordError, RecordExtension, ReleaseStatus, Revision,
        encode::{self, Encoded, RecordForm, RecordRoom, secret_name},
    },
    request::ReleaseId,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Mutex, MutexGuard};
use windlass_base::redact;
use windlass_cluster::{Cluster, ClusterError, DeleteOptions, Gvk, ObjectMeta, ObjectRef, Propagation};

/// Field manager of records.
const MANAGER: &str = "windlass";
const AT_ONCE: usize = 16;
/// Attempts of a write that another write interferes with.
const TRIES: u32 = 3;
/// Attempts to create a record while a quota is updated.
const SETTLING: u32 = 6;
/// Up to this many records are read one by one.
const SINGLY: usize = 32;

/// Records with up to this many bytes, packed, are decoded where they are read; with up to as many of JSON, they are encoded where they
/// are written.
const SMALL: usize = 256 << 10;

/// Large records are packed and unpacked one after the other: their texts are there at a time with what is parsed of them.
static LARGE: Mutex<()> = Mutex::const_new(());

/// Where records are stored: Helm's drivers.
#[derive(Debug, Clone, Default)]
pub enum Storage {
    #[default]
    Secrets,
    ConfigMaps,
    /// Given records, for reading only.
    Memory(Arc<Vec<Record>>),
}

impl Storage {
    fn form(&self) -> RecordForm {
        match self {
            Self::ConfigMaps => RecordForm::ConfigMap,
            Self::Secrets | Self::Memory(_) => RecordForm::Secret,
        }
    }

    /// The kind of the objects that hold records.
    pub fn gvk(&self) -> Gvk {
        Gvk::new("v1", self.form().kind())
    }

    /// The object that holds a revision.
    pub(crate) fn reference(&self, id: &ReleaseId, revision: u64) -> ObjectRef {
        ObjectRef::new(self.gvk(), Some(&id.namespace), &secret_name(&id.name, revision))
    }
}

/// The room of the records of each release, by namespace and name.
#[derive(Debug, Default)]
pub(crate) struct RecordRooms(BTreeMap<(String, String), RecordRoom>);

impl RecordRooms {
    fn of(&mut self, stored_in: &str, name: &str) -> &mut RecordRoom {
        self.0.entry((stored_in.to_owned(), name.to_owned())).or_insert_with(RecordRoom::of_process)
    }
}

/// A record that was decoded.
struct Decoded {
    /// Whether it is the newest of those of its release, or the deployed one: without it another one would pass for it.
    is_relevant: bool,
    record: Result<StoredRecord, RecordError>,
}

/// Whether a record of a release is more than history: it is the newest of them, or the deployed one.
pub(crate) fn is_relevant(revision: u64, status: ReleaseStatus, newest: u64) -> bool {
    revision == newest || status == ReleaseStatus::Deployed
}

/// Decodes objects, in their order; the relevant records of a release, and then newer ones, have its room before others.
fn decode_all(objects: Vec<Value>, form: RecordForm, rooms: &mut RecordRooms) -> Vec<Decoded> {
    let release = |object: &Value| {
        (namespace_in(object), ObjectMeta::of(object).label("name").unwrap_or_default().to_owned())
    };
    let mut newest: BTreeMap<(String, String), u64> = BTreeMap::new();
    for object in &objects {
        let number = revision_of(object).map_or(0, |revision| revision.revision);
        let known = newest.entry(release(object)).or_default();
        *known = number.max(*known);
    }
    let rank = |object: &Value| {
        let newest = newest.get(&release(object)).copied().unwrap_or_default();
        let revision = revision_of(object);
        let is_relevant = revision.as_ref().is_none_or(|one| is_relevant(one.revision, one.status, newest));
        (!is_relevant, Reverse(revision.map(|revision| revision.revision)))
    };
    let mut order: Vec<_> =
        objects.into_iter().enumerate().map(|(at, object)| (rank(&object), at, object)).collect();
    order.sort_by_key(|(rank, ..)| *rank);
    let mut decoded: Vec<(usize, Decoded)> = order
        .into_iter()
        .map(|((is_history, _), at, object)| {
            let (stored_in, name) = release(&object);
            let stored = |record| StoredRecord {
                record,
                stored_in: stored_in.clone(),
                resource_version: version_of(&object),
                uid: uid_of(&object),
            };
            let record = encode::decode(&object, form, rooms.of(&stored_in, &name)).map(stored);
            (at, Decoded { is_relevant: !is_history, record })
        })
        .collect();
    decoded.sort_by_key(|(at, _)| *at);
    decoded.into_iter().map(|(_, decoded)| decoded).collect()
}

/// Does work on large records, in its turn: not on a thread that requests of others wait for. Work that began keeps the turn to its end,
/// also if nobody waits for it any more.
async fn apart<T: Send + 'static>(
    turn: MutexGuard<'static, ()>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, String> {
    let working = redact::spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    working.await.map_err(|error| error.to_string())
}

/// The objects of a record. `stamp`: as in [`encode::encode`].
async fn encoded(record: &Record, stamp: &'static str, form: RecordForm) -> Result<Encoded, RecordError> {
    if encode::fits(record, SMALL as u64) {
        return encode::encode(record, stamp, form);
    }
    let turn = LARGE.lock().await;
    // Whoever stops waiting keeps the record. There is one copy at a time.
    let record = record.clone();
    let name = secret_name(&record.name, record.version);
    let encoding = apart(turn, move || encode::encode(&record, stamp, form)).await;
    encoding.map_err(|reason| RecordError::Decode { name, reason })?
}

/// A record with the resource version that it was read at.
#[derive(Debug, Clone)]
pub struct StoredRecord {
    pub record: Record,
    /// Namespace of the object; the release's own may be another.
    pub stored_in: String,
    pub resource_version: String,
    /// UID of the object.
    pub uid: String,
}

/// The newest resource version of records that this process wrote or observed.
#[derive(Debug, Default)]
pub struct Horizon(AtomicU64);

impl Horizon {
    /// Takes the version of a record; versions that are not numbers, which etcd does not produce, are ignored.
    pub fn note(&self, version: &str) {
        self.0.fetch_max(version.parse().unwrap_or_default(), Ordering::Relaxed);
    }

    /// Starts over: the cluster is older, as after a restore from a backup.
    fn forget(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The version, if there is one.
    fn version(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|version| *version > 0)
    }
}

/// The records of one cluster.
#[derive(Clone, Copy)]
pub struct RecordStore<'a> {
    cluster: &'a Cluster,
    storage: &'a Storage,
    horizon: &'a Horizon,
    /// Namespace of the records; `None`: of the release.
    namespace: Option<&'a str>,
    /// Lists are as new as the horizon, not the newest.
    as_seen: bool,
}

fn version_of(object: &Value) -> String {
    ObjectMeta::of(object).resource_version().to_owned()
}

fn namespace_in(object: &Value) -> String {
    ObjectMeta::of(object).namespace().unwrap_or_default().to_owned()
}

fn uid_of(object: &Value) -> String {
    ObjectMeta::of(object).uid().to_owned()
}

/// A revision, by its object's metadata.
pub(crate) fn revision_of(metadata: &Value) -> Option<Revision> {
    let meta = ObjectMeta::of(metadata);
    Some(Revision {
        revision: meta.label("version")?.parse().ok()?,
        status: ReleaseStatus::named(meta.label("status").unwrap_or_default()),
        resource_version: version_of(metadata),
    })
}

/// A revision as its object's labels show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHead {
    pub id: ReleaseId,
    pub revision: u64,
    pub status: ReleaseStatus,
    /// All labels, Helm's own included.
    pub labels: BTreeMap<String, String>,
}

impl RecordHead {
    /// The front end that the release belongs to, if its record is marked.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.labels.get(OWNER_LABEL).map(String::as_str)
    }

    fn of(object: &Value) -> Option<Self> {
        let revision = revision_of(object)?;
        let metadata = &object["metadata"];
        let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let labels: BTreeMap<String, String> =
            metadata["labels"].as_object()?.iter().filter_map(text).collect();
        Some(Self {
            id: ReleaseId::new(metadata["namespace"].as_str()?, labels.get("name")?),
            revision: revision.revision,
            status: revision.status,
            labels,
        })
    }

    fn of_record(record: &Record) -> Self {
        let labels = record.system.iter().chain(&record.labels);
        Self {
            id: ReleaseId::new(&record.namespace, &record.name),
            revision: record.version,
            status: record.info.status,
            labels: labels.map(|(name, value)| (name.clone(), value.clone())).collect(),
        }
    }
}

/// A selector for records: all, or those that further labels select.
fn selector(labels: &str) -> String {
    if labels.is_empty() { "owner=helm".to_owned() } else { format!("owner=helm,{labels}") }
}

impl<'a> RecordStore<'a> {
    pub fn new(cluster: &'a Cluster, storage: &'a Storage, horizon: &'a Horizon) -> Self {
        Self { cluster, storage, horizon, namespace: None, as_seen: false }
    }

    /// The same store, with the records of all releases in one namespace.
    #[must_use]
    pub fn in_namespace(self, namespace: Option<&'a str>) -> Self {
        Self { namespace, ..self }
    }

    /// Where the records of a release are.
    pub(crate) fn namespace_of<'b>(&'b self, id: &'b ReleaseId) -> &'b str {
        self.namespace.unwrap_or(&id.namespace)
    }

    /// The object that holds a revision.
    pub(crate) fn reference(&self, id: &ReleaseId, revision: u64) -> ObjectRef {
        self.storage.reference(&ReleaseId::new(self.namespace_of(id), &id.name), revision)
    }

    /// The same store, with lists that are only as new as the horizon, which spares the server's wait for its own
    /// cache. For callers that watch for later writes and check before they write.
    #[must_use]
    pub fn as_seen(self) -> Self {
        Self { as_seen: true, ..self }
    }

    /// Whether lists are as new as the horizon only.
    pub(crate) fn is_as_seen(&self) -> bool {
        self.since().is_some()
    }

    fn since(&self) -> Option<u64> {
        self.horizon.version().filter(|_| self.as_seen)
    }

    /// Lists records, or their metadata. After a restore from a backup the horizon is too new: the server waits for
    /// it once, and the horizon is reset.
    async fn listed(
        &self,
        namespace: Option<&str>,
        labels: &str,
        whole: bool,
    ) -> Result<Vec<Value>, ClusterError> {
        let gvk = self.storage.gvk();
        let mut since = self.since();
        loop {
            let listed = match whole {
                true => self.cluster.list_since(&gvk, namespace, labels, since).await,
                false => self.cluster.list_metadata_since(&gvk, namespace, labels, since).await,
            };
            match listed {
                Err(error) if since.is_some() && error.is_version_of_the_future() => {
                    self.horizon.forget();
                    since = None;
                }
                listed => return listed,
            }
        }
    }

    /// The records of objects, in their order.
    async fn decoded(
        &self,
        objects: Vec<Value>,
        rooms: &mut RecordRooms,
    ) -> Result<Vec<Decoded>, RecordError> {
        let form = self.storage.form();
        let length = |object: &Value| object["data"]["release"].as_str().map_or(0, str::len);
        if objects.iter().map(length).sum::<usize>() <= SMALL {
            return Ok(decode_all(objects, form, rooms));
        }
        let turn = LARGE.lock().await;
        let mut own = std::mem::take(rooms);
        let decoding = apart(turn, move || (decode_all(objects, form, &mut own), own)).await;
        let (decoded, own) =
            decoding.map_err(|reason| RecordError::Decode { name: "of a release".to_owned(), reason })?;
        *rooms = own;
        Ok(decoded)
    }

    /// All revisions of a release, oldest first, by metadata.
    pub async fn history(&self, id: &ReleaseId) -> Result<Vec<Revision>, RecordError> {
        let mut revisions: Vec<Revision> = if let Storage::Memory(records) = self.storage {
            let own = records.iter().filter(|r| r.name == id.name && r.namespace == id.namespace);
            let revision = |r: &Record| Revision {
                revision: r.version,
                status: r.info.status,
                resource_version: String::new(),
            };
            own.map(revision).collect()
        } else {
            let labels = format!("owner=helm,name={}", id.name);
            let listed = self.listed(Some(self.namespace_of(id)), &labels, false).await?;
            listed.iter().filter_map(revision_of).collect()
        };
        revisions.sort_by_key(|r| r.revision);
        Ok(revisions)
    }

    /// One revision of a release, by metadata; `None` if no record has its name.
    pub(crate) async fn revision(
        &self,
        id: &ReleaseId,
        revision: u64,
    ) -> Result<Option<Revision>, RecordError> {
        if let Storage::Memory(_) = self.storage {
            return Ok(self.history(id).await?.into_iter().find(|r| r.revision == revision));
        }
        let found = self.cluster.get_metadata(&self.reference(id, revision)).await?;
        let own = |object: &Value| ObjectMeta::of(object).label("name") == Some(&id.name);
        Ok(found.filter(own).as_ref().and_then(revision_of))
    }

    /// Revisions that a label selector selects, in a namespace or everywhere, by metadata: ordered by namespace, name
    /// and revision.
    pub async fn heads(&self, namespace: Option<&str>, labels: &str) -> Result<Vec<RecordHead>, RecordError> {
        let mut heads: Vec<RecordHead> = if let Storage::Memory(_) = self.storage {
            self.list(namespace, labels)
                .await?
                .into_iter()
                .map(|stored| RecordHead::of_record(&stored.record))
                .collect()
        } else {
            let selector = selector(labels);
            let listed = self.cluster.list_metadata(&self.storage.gvk(), namespace, &selector).await?;
            listed.iter().filter_map(RecordHead::of).collect()
        };
        heads.sort_by(|a, b| (&a.id, a.revision).cmp(&(&b.id, b.revision)));
        Ok(heads)
    }

    /// Whole records of revisions, in their order, without parts. Deleted and unreadable ones are left out. `of`: the
    /// number of all; most of them are read in one list.
    pub async fn read(
        &self,
        namespace: Option<&str>,
        heads: &[RecordHead],
        of: usize,
    ) -> Result<Vec<Record>, RecordError> {
        let mut listed: BTreeMap<(ReleaseId, u64), Record> = BTreeMap::new();
        if heads.len() > SINGLY && heads.len() * 2 > of {
            let old = heads.iter().all(|head| head.status == ReleaseStatus::Superseded);
            let labels = if old { "status=superseded" } else { "status!=superseded" };
            let all = self.list(namespace, labels).await?;
            listed.extend(
                all.into_iter()
                    .map(|s| ((ReleaseId::new(&s.stored_in, &s.record.name), s.record.version), s.record)),
            );
        }
        let reads: Vec<_> = heads
            .iter()
            .map(|head| (head, listed.remove(&(head.id.clone(), head.revision))))
            .map(|(head, listed)| async move {
                if listed.is_some() {
                    return Ok(listed);
                }
                match self.head(&head.id, head.revision).await {
                    Ok(found) => Ok(found.map(|stored| stored.record)),
                    Err(RecordError::Cluster(error)) => Err(RecordError::Cluster(error)),
                    Err(error) => {
                        tracing::warn!(%error, "release record left out");
                        Ok(None)
                    }
                }
            })
            .collect();
        let read: Vec<Option<Record>> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Whole records that a label selector selects, in a namespace or everywhere, without parts. Unreadable ones are
    /// logged and left out, as by Helm, as are failed ones of a release whose records take too much together. With a selector of one
    /// release it is an error that its newest or its deployed record takes too much.
    pub async fn list(
        &self,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<StoredRecord>, RecordError> {
        self.list_within(namespace, labels, &mut RecordRooms::default()).await
    }

    /// As [`Self::list`], within the rooms of earlier reads.
    pub(crate) async fn list_within(
        &self,
        namespace: Option<&str>,
        labels: &str,
        rooms: &mut RecordRooms,
    ) -> Result<Vec<StoredRecord>, RecordError> {
        let mut records = Vec::new();
        if let Storage::Memory(all) = self.storage {
            let wanted = |r: &&Record| {
                namespace.is_none_or(|n| n == r.namespace)
                    && labels.split(',').all(|label| match label.split_once('=') {
                        Some(("name", name)) => r.name == name,
                        Some(("status", status)) => r.info.status.as_str() == status,
                        Some(("status!", status)) => r.info.status.as_str() != status,
                        _ => true,
                    })
            };
            let stored = |r: &Record| StoredRecord {
                record: r.clone(),
                stored_in: r.namespace.clone(),
                resource_version: String::new(),
                uid: String::new(),
            };
            records.extend(all.iter().filter(wanted).map(stored));
        } else {
            let selector = selector(labels);
            let of_one = labels.contains("name=");
            for decoded in self.decoded(self.listed(namespace, &selector, true).await?, rooms).await? {
                match decoded.record {
                    Ok(record) => records.push(record),
                    Err(error @ RecordError::TooManyBytes { .. }) if of_one && decoded.is_relevant => {
                        return Err(error);
                    }
                    Err(error) => tracing::warn!(%error, "release record left out"),
                }
            }
        }
        records.sort_by(|a, b| {
            let order = |s: &StoredRecord| (s.stored_in.clone(), s.record.name.clone(), s.record.version);
            order(a).cmp(&order(b))
        });
        Ok(records)
    }

    async fn head(&self, id: &ReleaseId, revision: u64) -> Result<Option<StoredRecord>, RecordError> {
        self.head_within(id, revision, &mut RecordRooms::default()).await
    }

    /// One revision without its parts, within the rooms of earlier reads.
    pub(crate) async fn head_within(
        &self,
        id: &ReleaseId,
        revision: u64,
        rooms: &mut RecordRooms,
    ) -> Result<Option<StoredRecord>, RecordError> {
        if let Storage::Memory(_) = self.storage {
            let all = self.list(Some(self.namespace_of(id)), &format!("name={}", id.name)).await?;
            return Ok(all.into_iter().find(|s| s.record.version == revision));
        }
        match self.cluster.get(&self.reference(id, revision)).await? {
            Some(object) => {
                self.decoded(vec![object], rooms).await?.pop().map(|decoded| decoded.record).transpose()
            }
            None => Ok(None),
        }
    }

    /// One revision.
    pub async fn get(&self, id: &ReleaseId, revision: u64) -> Result<Option<StoredRecord>, RecordError> {
        let mut rooms = RecordRooms::default();
        let Some(mut stored) = self.head_within(id, revision, &mut rooms).await? else { return Ok(None) };
        self.complete(&mut stored, &mut rooms).await?;
        Ok(Some(stored))
    }

    /// Restores the parts of a record, within the rooms of earlier reads.
    pub(crate) async fn complete(
        &self,
        stored: &mut StoredRecord,
        rooms: &mut RecordRooms,
    ) -> Result<(), RecordError> {
        let StoredRecord { record, stored_in, .. } = stored;
        let head = record.extension.parts_of.clone();
        let form = self.storage.form();
        if record.extension.parts == 0 {
            return Ok(());
        }
        let room = rooms.of(stored_in, &record.name);
        if record.extension.parts > room.most_parts() {
            return Err(room.exceeded(&head));
        }
        let mut texts = Vec::new();
        for number in 0..record.extension.parts {
            let name = encode::part_name(&head, number);
            let object = ObjectRef::new(self.storage.gvk(), Some(stored_in), &name);
            let part = self.cluster.get(&object).await?;
            texts.extend(part.and_then(|part| encode::decode_part(&part, form)));
        }
        let turn = LARGE.lock().await;
        let (mut whole, mut left) = (record.clone(), *room);
        let joining = apart(turn, move || {
            let joined = encode::join_parts(&mut whole, &texts, &mut left);
            (joined, whole, left)
        });
        let (joined, whole, left) =
            joining.await.map_err(|reason| RecordError::Decode { name: head.clone(), reason })?;
        (*record, *room) = (whole, left);
        if joined? {
            return Ok(());
        }
        if record.info.status.is_pending() {
            // The head's writer crashed before it wrote the parts, and objects are applied after those.
            record.manifest.clear();
            return Ok(());
        }
        Err(RecordError::Parts(head))
    }

    fn writable(&self) -> Result<(), RecordError> {
        match self.storage {
            Storage::Memory(_) => Err(RecordError::ReadOnly),
            Storage::Secrets | Storage::ConfigMaps => Ok(()),
        }
    }

    async fn write_parts(&self, head: &Value, parts: &[String]) -> Result<(), RecordError> {
        let form = self.storage.form();
        for (number, text) in parts.iter().enumerate() {
            let part = encode::encode_part(head, number, text, form);
            let object = ObjectMeta::of(&part).reference(self.storage.gvk());
            match self.cluster.create(&object, &part, MANAGER).await {
                Err(e) if e.is_already_exists() => {
                    self.cluster.replace(&object, &part, MANAGER).await?;
                }
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }

    /// Creates a new revision; an existing one of that number is an error.
    pub async fn create(&self, mut record: Record) -> Result<StoredRecord, RecordError> {
        self.writable()?;
        let Encoded { mut head, parts, extension } =
            encoded(&record, "createdAt", self.storage.form()).await?;
        let id = ReleaseId::new(&record.namespace, &record.name);
        let object = self.reference(&id, record.version);
        head["metadata"]["namespace"] = self.namespace_of(&id).into();
        let mut tries = 0;
        let created = loop {
            tries += 1;
            match self.cluster.create(&object, &head, MANAGER).await {
                Err(e) if e.is_settling() && tries < SETTLING => {
                    tokio::time::sleep(Duration::from_millis(25 << tries)).await;
                }
                created => break created,
            }
        };
        match created {
            Ok(created) => {
                self.horizon.note(&version_of(&created));
                self.write_parts(&created, &parts).await?;
                record.extension = extension;
                Ok(StoredRecord {
                    record,
                    stored_in: namespace_in(&created),
                    resource_version: version_of(&created),
                    uid: uid_of(&created),
                })
            }
            Err(e) if e.is_already_exists() => Err(RecordError::Exists(object.name)),
            // The request may have succeeded without an answer: read what is stored.
            Err(e) if e.is_transient() => match self.head(&id, record.version).await {
                Ok(Some(found))
                    if found.record.extension == extension
                        && parts.is_empty()
                        && !extension.holder.is_empty() =>
                {
                    Ok(found)
                }
                Ok(_) | Err(_) => Err(e.into()),
            },
            Err(e) => Err(e.into()),
        }
    }

    /// Updates a revision, if nobody else did since it was read.
    pub async fn update(&self, stored: &mut StoredRecord) -> Result<(), RecordError> {
        self.writable()?;
        let record = &stored.record;
        let Encoded { mut head, parts, extension } =
            encoded(record, "modifiedAt", self.storage.form()).await?;
        head["metadata"]["resourceVersion"] = stored.resource_version.as_str().into();
        let id = ReleaseId::new(&stored.stored_in, &record.name);
        let object = self.storage.reference(&id, record.version);
        head["metadata"]["namespace"] = stored.stored_in.as_str().into();
        let place = |m: &RecordExtension| (m.parts_digest.clone(), m.parts_of.clone());
        let moved = place(&extension) != place(&record.extension);
        let mut tries = 0;
        loop {
            tries += 1;
            match self.cluster.replace(&object, &head, MANAGER).await {
                Ok(written) => {
                    if moved {
                        self.write_parts(&written, &parts).await?;
                    }
                    stored.resource_version = version_of(&written);
                    self.horizon.note(&stored.resource_version);
                    stored.record.extension = extension;
                    return Ok(());
                }
                Err(e) if e.is_conflict() => match self.in_namespace(None).get(&id, record.version).await? {
                    // Our own write, whose answer was lost, looks like another's.
                    Some(found) if same(&found.record, record) => {
                        stored.resource_version = found.resource_version;
                        return Ok(());
                    }
                    // Another object changed, such as a quota.
                    Some(found) if found.resource_version == stored.resource_version && tries < TRIES => {}
                    Some(_) | None => return Err(RecordError::Changed(object.name)),
                },
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Deletes a revision, if it exists. Its parts are deleted with it.
    pub async fn delete(&self, id: &ReleaseId, revision: u64) -> Result<(), RecordError> {
        self.writable()?;
        let options = DeleteOptions { propagation: Propagation::Background, ..DeleteOptions::default() };
        self.cluster.delete(&self.reference(id, revision), options).await?;
        Ok(())
    }
}

fn same(a: &Record, b: &Record) -> bool {
    a.info == b.info && a.extension == b.extension && a.manifest == b.manifest && a.hooks == b.hooks
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[tokio::test]
    async fn a_large_record_is_encoded_in_its_turn_and_a_small_one_at_once() {
        let small = Record { name: "web".to_owned(), version: 3, ..Record::default() };
        let large = Record { manifest: "a".repeat(SMALL), ..small.clone() };
        let head = |encoded: Result<Encoded, RecordError>| encoded.unwrap().head["metadata"]["name"].clone();
        let turn = LARGE.lock().await;
        let encoding = encoded(&small, "createdAt", RecordForm::Secret).now_or_never();
        assert_eq!(head(encoding.unwrap()), "sh.helm.release.v1.web.v3");
        let mut encoding = Box::pin(encoded(&large, "createdAt", RecordForm::Secret));
        assert!(encoding.as_mut().now_or_never().is_none(), "another large one has the turn");
        drop(turn);
        assert_eq!(head(encoding.await), "sh.helm.release.v1.web.v3");
    }
}
