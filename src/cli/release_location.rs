//! Where a release acts whose records are in the namespace of the command: `targetNamespace` of a HelmRelease is another.

use super::{Connected, Failure};
use windlass_engine::record::Record;
use windlass_engine::{Engine, History, ReleaseId};
use windlass_flux::helmrelease;

impl Connected {
    /// The engine and the identity of a release with records in the command's namespace.
    pub(super) async fn locate(&self, name: &str) -> Result<(Engine, ReleaseId), Failure> {
        let newest = self.engine.records().newest(&self.id(name)).await.map_err(|e| e.to_string())?;
        self.located_by(name, newest.as_ref()).await
    }

    async fn located_by(&self, name: &str, newest: Option<&Record>) -> Result<(Engine, ReleaseId), Failure> {
        let Some(newest) = newest else { return Ok((self.engine.clone(), self.id(name))) };
        let acts_in = helmrelease::acts_in(&self.engine, newest, &self.namespace).await;
        let acts_in = acts_in.map_err(|e| format!("cannot tell where {name:?} acts: {e}"))?;
        if acts_in == self.namespace {
            return Ok((self.engine.clone(), self.id(name)));
        }
        let engine = self.engine.clone().with_storage_namespace(&self.namespace, false);
        Ok((engine, ReleaseId::new(&acts_in, name)))
    }

    /// The same as a whole: the command goes on in the namespace of the release.
    pub(super) async fn located(mut self, name: &str) -> Result<Self, Failure> {
        let (engine, id) = self.locate(name).await?;
        self.engine = engine;
        self.namespace = id.namespace;
        Ok(self)
    }

    /// The same with the history that it read, for a command that renders by it.
    pub(super) async fn located_with_history(mut self, name: &str) -> Result<(Self, History), Failure> {
        let history = self.engine.history_of(&self.id(name)).await.map_err(|e| e.to_string())?;
        let (engine, id) = self.located_by(name, history.newest()).await?;
        self.engine = engine;
        self.namespace = id.namespace;
        Ok((self, history))
    }
}
