//! Reading releases: list, history, one revision; and running a release's tests, which reads and runs what is recorded.

use super::{
    engine::Engine,
    error::{EngineError, Result},
    hooks::of_event,
    observe,
    record::{Record, Store},
    request::{HookEvent, ReleaseId},
};
use std::time::Duration;

impl Engine {
    /// Newest record of each release, in a namespace or everywhere. `labels` narrows the choice.
    pub async fn list(&self, namespace: Option<&str>, labels: &str) -> Result<Vec<Record>> {
        let mut newest: Vec<Record> = Vec::new();
        for stored in Store::new(&self.cluster).list(namespace, labels).await? {
            let record = stored.record;
            match newest.last_mut() {
                Some(last) if last.name == record.name && last.namespace == record.namespace => {
                    *last = record;
                }
                _ => newest.push(record),
            }
        }
        Ok(newest)
    }

    /// All records of a release, oldest first.
    pub async fn history(&self, id: &ReleaseId) -> Result<Vec<Record>> {
        let records =
            Store::new(&self.cluster).list(Some(&id.namespace), &format!("name={}", id.name)).await?;
        if records.is_empty() {
            Err(EngineError::NotFound)
        } else {
            Ok(records.into_iter().map(|s| s.record).collect())
        }
    }

    /// One record of a release; revision 0 is the newest.
    pub async fn get(&self, id: &ReleaseId, revision: u64) -> Result<Record> {
        if revision == 0 {
            return self.history(id).await?.pop().ok_or(EngineError::NotFound);
        }
        let found = Store::new(&self.cluster).get(id, revision).await?;
        found.map(|s| s.record).ok_or(EngineError::NotFound)
    }

    /// Runs the test hooks of the newest revision, all or those that are named, and records how they went.
    pub async fn test(&self, id: &ReleaseId, only: &[String], timeout: Duration) -> Result<Record> {
        let _busy = self.state.busy(id).await;
        let mut stored =
            observe::records(&self.cluster, id).await?.records.pop().ok_or(EngineError::NotFound)?;
        let rendered = self.rendered_of(&stored.record)?;
        let objects: Vec<_> = rendered.hooks.into_iter().map(|hook| hook.object).collect();
        let hooks = &stored.record.hooks;
        let mut chosen = of_event(hooks, HookEvent::Test);
        chosen.retain(|index| only.is_empty() || only.contains(&hooks[*index].name));
        let runner = self.hook_runner(id, timeout);
        let result = runner.run_all(HookEvent::Test, &chosen, &mut stored, &objects).await;
        Store::new(&self.cluster).update(&mut stored).await?;
        self.state.with(id, |known| known.record_version.clone_from(&stored.resource_version));
        result.map(|()| stored.record)
    }
}
