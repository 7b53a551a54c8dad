//! What templates looked up, watched: a module is rendered again when it changes.
//!
//! Owns the watches of one module's lookups. What becomes of a change is the operator's matter.

use std::collections::BTreeMap;
use std::time::Duration;

use chart_compat::data::{Data, Map};
use futures::StreamExt as _;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use crate::cluster::{Cluster, ClusterError, Gvk, ObjectEvent};
use crate::render::ask;
use crate::render::replay::{Question, answer_digest};

/// How many lookups of a module are watched; a chart that asks for more objects one by one is rendered again for the first ones.
const MAX_WATCHED: usize = 50;

/// Changes within this time are one: a list can change many times a second.
const PAUSE: Duration = Duration::from_millis(500);

/// After this time a watch that could not begin is tried again: its kind may exist by then.
const RETRY: Duration = Duration::from_secs(30);

/// The watches of one module; they end when this is dropped.
pub(super) struct Watch {
    _tasks: JoinSet<()>,
}

impl Watch {
    /// Sends `module` when an answer is no longer what its digest says.
    pub(super) fn start(
        cluster: &Cluster,
        module: &str,
        lookups: BTreeMap<Question, String>,
        outdated: &UnboundedSender<String>,
    ) -> Self {
        if lookups.len() > MAX_WATCHED {
            tracing::warn!(
                module,
                lookups = lookups.len(),
                watched = MAX_WATCHED,
                "not all lookups are watched"
            );
        }
        let mut tasks = JoinSet::new();
        for (question, digest) in lookups.into_iter().take(MAX_WATCHED) {
            let (cluster, module, outdated) = (cluster.clone(), module.to_owned(), outdated.clone());
            tasks.spawn(async move {
                until_changed(&cluster, &question, &digest).await;
                // Nobody listens when the operator stops.
                drop(outdated.send(module));
            });
        }
        Self { _tasks: tasks }
    }
}

/// Whether a lookup still finds what it found.
async fn is_current(cluster: &Cluster, question: &Question, digest: &str) -> Result<bool, ClusterError> {
    let answer = ask(cluster, question).await?.unwrap_or_else(|| Data::Map(Map::new()));
    Ok(answer_digest(&answer) == digest)
}

async fn until_changed(cluster: &Cluster, question: &Question, digest: &str) {
    loop {
        match follow(cluster, question, digest).await {
            Ok(()) => return,
            Err(error) => {
                let Question { api_version, kind, namespace, name } = question;
                tracing::debug!(
                    api_version,
                    kind,
                    namespace,
                    name,
                    "cannot watch what was looked up: {error}"
                );
            }
        }
        tokio::time::sleep(RETRY).await;
        if matches!(is_current(cluster, question, digest).await, Ok(false)) {
            return;
        }
    }
}

/// Returns when the answer is another one.
async fn follow(cluster: &Cluster, question: &Question, digest: &str) -> Result<(), ClusterError> {
    let gvk = Gvk::new(&question.api_version, &question.kind);
    let namespace = Some(question.namespace.as_str()).filter(|n| !n.is_empty());
    let mut events = if question.name.is_empty() {
        cluster.follow_labelled(&gvk, namespace, "").await?.boxed()
    } else {
        cluster.follow(&gvk, namespace, &question.name).await?.boxed()
    };
    let mut listing = false;
    while let Some(event) = events.next().await {
        // Objects of a first list come one by one, and its end tells that they are all there.
        match event? {
            ObjectEvent::Listing => listing = true,
            ObjectEvent::Listed => listing = false,
            ObjectEvent::Present(_) | ObjectEvent::Gone(_) => {}
        }
        if listing {
            continue;
        }
        if !is_current(cluster, question, digest).await? {
            return Ok(());
        }
        if question.name.is_empty() {
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
