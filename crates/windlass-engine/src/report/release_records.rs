//! Reading releases: list, history, one revision.

use crate::{
    context::Context,
    error::{EngineError, Result},
    objects::desired_objects,
    observe::observed_objects::kinds_for,
    record::{Record, RecordHead},
    request::{ReleaseId, ReleaseKey},
};
use windlass_cluster::{Gvk, ObjectRef};

/// The records of releases, as an engine stores them.
#[derive(Clone, Copy)]
pub struct ReleaseRecords<'a> {
    pub(crate) context: &'a Context,
}

impl<'a> ReleaseRecords<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        Self { context }
    }

    /// One revision of a release, if its record is stored.
    pub async fn record(&self, id: &ReleaseId, revision: u64) -> Result<Option<Record>> {
        Ok(self.context.store().get(id, revision).await?.map(|stored| stored.record))
    }

    /// The objects of a record's manifest, with their namespaces, in its order. Objects of kinds that are not served are left out.
    pub async fn objects_of(&self, record: &Record) -> Result<Vec<ObjectRef>> {
        let manifests = self.context.parser.manifests_of(record).collect::<Result<Vec<_>, _>>()?;
        let kinds = kinds_for(&self.context.cluster, manifests.iter().map(|m| &m.object), &[]).await?;
        let mut objects = Vec::new();
        for manifest in manifests {
            let namespaced = |gvk: &Gvk| kinds.get(gvk).map(|r| r.namespaced);
            if let Ok(object) =
                desired_objects::reference(&manifest.source, &manifest.object, &record.namespace, namespaced)
            {
                objects.push(object);
            }
        }
        Ok(objects)
    }

    /// Whether an object is one of a release: as this process has applied it last, or else as the newest record says. Marks on the object
    /// itself, which whoever writes it may set, are no proof, nor are records of this name in other namespaces than this engine's, nor any
    /// that are not in the release's own namespace: whoever writes Secrets there may write that the objects of another namespace are its.
    /// `None`: nothing is known of the release, and no record counts.
    ///
    /// # Errors
    /// The record cannot be read.
    pub async fn has_object(&self, id: &ReleaseId, object: &ObjectRef) -> Result<Option<bool>> {
        let release = self.context.key(id);
        if let Some(known) = self.context.state.has_object(&release, &object.key()) {
            return Ok(Some(known));
        }
        if !release.is_at_home() {
            return Ok(None);
        }
        let Some(newest) = self.newest(id).await? else { return Ok(None) };
        let key = object.key();
        Ok(Some(self.objects_of(&newest).await?.iter().any(|one| one.key() == key)))
    }

    /// Another release of the same name and namespace, with records elsewhere, that has applied objects in that namespace as far as this
    /// process knows: the owner of their objects would be the same, and each would take them from the other.
    #[must_use]
    pub fn rival_of(&self, id: &ReleaseId) -> Option<ReleaseKey> {
        self.context.state.rival_of(&self.context.key(id))
    }

    /// Newest revision of each release, in a namespace or everywhere, by namespace and name: their labels only.
    pub async fn heads(&self, namespace: Option<&str>) -> Result<Vec<RecordHead>> {
        let mut newest: Vec<RecordHead> = Vec::new();
        for head in self.context.store().heads(namespace, "").await? {
            match newest.last_mut() {
                // Ordered by revision: the later one stays.
                Some(last) if last.id == head.id => *last = head,
                _ => newest.push(head),
            }
        }
        Ok(newest)
    }

    /// All superseded revisions, in a namespace or everywhere: their labels only.
    pub async fn superseded(&self, namespace: Option<&str>) -> Result<Vec<RecordHead>> {
        Ok(self.context.store().heads(namespace, "status=superseded").await?)
    }

    /// Records of the chosen heads, in their order. `of`: the number of all heads.
    pub async fn read(
        &self,
        namespace: Option<&str>,
        heads: &[RecordHead],
        of: usize,
    ) -> Result<Vec<Record>> {
        Ok(self.context.store().read(namespace, heads, of).await?)
    }

    /// Newest record of each release, in a namespace or everywhere, by namespace and name.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Vec<Record>> {
        let heads = self.heads(namespace).await?;
        self.read(namespace, &heads, heads.len()).await
    }

    /// The last records of a release, at most `most`, oldest first; records stored in parts without those.
    pub async fn history(&self, id: &ReleaseId, most: usize) -> Result<Vec<Record>> {
        let store = self.context.store();
        let namespace = Some(store.namespace_of(id));
        let heads = self.heads_of(id).await?;
        if heads.is_empty() {
            return Err(EngineError::NotFound);
        }
        self.read(namespace, &heads[heads.len().saturating_sub(most)..], usize::MAX / 2).await
    }

    /// All revisions of a release, oldest first: their labels only, whether the records can be read or not.
    pub async fn heads_of(&self, id: &ReleaseId) -> Result<Vec<RecordHead>> {
        let store = self.context.store();
        Ok(store.heads(Some(store.namespace_of(id)), &format!("name={}", id.name)).await?)
    }

    /// One record of a release; revision 0 is the newest.
    pub async fn get(&self, id: &ReleaseId, revision: u64) -> Result<Record> {
        let revision = match revision {
            0 => self.context.store().history(id).await?.last().ok_or(EngineError::NotFound)?.revision,
            given => given,
        };
        let found = self.context.store().get(id, revision).await?;
        found.map(|s| s.record).ok_or(EngineError::NotFound)
    }

    /// The newest record of a release, if there is one.
    pub async fn newest(&self, id: &ReleaseId) -> Result<Option<Record>> {
        match self.get(id, 0).await {
            Ok(record) => Ok(Some(record)),
            Err(EngineError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Engine, EngineOptions, request::ReleaseId};
    use windlass_cluster::{Cluster, Gvk, ObjectRef};

    /// Whoever may write Secrets of one namespace may write records of releases in another one. No server answers here: a request would fail.
    #[tokio::test]
    async fn records_outside_of_the_releases_namespace_prove_nothing() {
        let cluster = Cluster::of_this_machine().unwrap();
        let parse = |_: &str| Err("no record is read".to_owned());
        let engine =
            Engine::new(cluster, parse, EngineOptions::once("test")).with_storage_namespace("evil", false);
        let web = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("shop"), "web");
        let found = engine.records().has_object(&ReleaseId::new("shop", "web"), &web).await;
        assert_eq!(found.unwrap(), None);
    }
}
