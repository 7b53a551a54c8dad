//! Connections to the clusters of releases: one for each kubeconfig context of a run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cli::flags::Globals;
use crate::cli::{Connected, Failure, connect};
use helmfile_compat::Error;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use windlass_helmfile::release_options;

/// The connections that a run has made.
pub(super) struct Connections<'g> {
    globals: &'g Globals,
    /// By kubeconfig context; the current one has an empty name. A context that cannot be reached is not tried again.
    by_context: BTreeMap<String, Result<Arc<Connected>, Failure>>,
}

impl<'g> Connections<'g> {
    /// None yet. `globals`: how clusters are reached.
    pub(super) fn new(globals: &'g Globals) -> Self {
        Self { globals, by_context: BTreeMap::new() }
    }

    /// The cluster of a release, connected when a release first needs it.
    pub(super) async fn of(&mut self, state: &State, release: &Record) -> Result<Arc<Connected>, Error> {
        let context = release_options::kube_context(state, release);
        if let Some(known) = self.by_context.get(&context) {
            return known.clone().map_err(Error::Command);
        }
        let mut globals = self.globals.clone();
        if !context.is_empty() {
            globals.kube_context = Some(context.clone());
        }
        let connected = connect(&globals).await.map(Arc::new);
        self.by_context.insert(context, connected.clone());
        connected.map_err(Error::Command)
    }
}
