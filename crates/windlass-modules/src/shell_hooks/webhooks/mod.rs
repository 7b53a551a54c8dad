//! Webhooks of hooks: the server that the API server calls, and its registration.
//!
//! Owns which hooks are asked (those whose owner has come up), the servers with their certificates, and the objects that send
//! the API server to them. How a hook is run is the caller's: no module and no value is known here.
//!
//! An owner's entries come with [`Webhooks::enter`] and go with [`Webhooks::leave`]. Until an owner that is on has come up,
//! its entries of an earlier process stay: what they forbid stays forbidden while we start. A CRD keeps saying that we convert
//! it: to take that back would show objects of one version as another.

mod certificates;
mod configurations;
mod conversion_path;
mod endpoints;
mod handler;
mod registration;
mod registration_preview;
mod review;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures::future::BoxFuture;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use super::Hook;
use super::process::OutputFile;
use super::queues::Run;
use windlass_base::backoff;
use windlass_base::redact;
use windlass_cluster::Cluster;
use windlass_controller::serve::State;

pub use certificates::Files;
use configurations::{Kind, WebhookEndpoint};
pub use conversion_path::{chain, same_version};
pub use registration_preview::{PlannedRegistration, preview_registration};
use server::ListeningServer;
pub use server::Server;

/// Runs of hooks for webhooks at once: of one owner, and of all. More wait, within the time that the API server waits.
const AT_ONCE_OF_OWNER: usize = 8;
const AT_ONCE: usize = 32;

/// How webhooks are served.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether they are at all.
    pub enabled: bool,
    /// What serves them.
    pub server: Server,
    /// What serves conversions, if it is another one.
    pub conversion: Option<Server>,
    /// Where the API server finds us instead of behind a Service, e.g. `https://10.0.0.7:9651`; port 0 stands for the one that
    /// is listened on.
    pub url: Option<String>,
    /// Services for admission and for conversion, in our namespace, and their port.
    pub service: String,
    pub conversion_service: String,
    pub service_port: u16,
    /// Our address, if several operators run and the Services must point to the leader.
    pub leader_at: Option<IpAddr>,
    /// Name of the webhook configurations, to which `-hooks` is added; empty: `windlass-NAMESPACE`.
    pub configuration: String,
    /// `Fail` or `Ignore`, for bindings that do not say.
    pub failure_policy: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            enabled: true,
            server: Server::default(),
            conversion: None,
            url: None,
            service: "windlass-webhooks".to_owned(),
            conversion_service: "windlass-webhooks".to_owned(),
            service_port: 443,
            leader_at: None,
            configuration: String::new(),
            failure_policy: "Fail".to_owned(),
        }
    }
}

/// What a hook wrote for the API server: its files, which are read once there is memory for them.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub admission: OutputFile,
    pub conversion: OutputFile,
}

/// Runs a hook once; an error is for the log.
pub type Runner = Arc<dyn Fn(Run) -> BoxFuture<'static, Result<Answer, String>> + Send + Sync>;

/// All webhooks of an operator.
pub struct Webhooks {
    cluster: Cluster,
    namespace: String,
    options: Options,
    runner: Runner,
    state: Arc<State>,
    live: Mutex<Live>,
    open: tokio::sync::Mutex<Vec<ListeningServer>>,
    webhook_endpoint: Mutex<Option<WebhookEndpoint>>,
    /// Something that we keep may not be as it should.
    changed: Arc<Notify>,
    /// One writer of our objects at a time.
    writing: tokio::sync::Mutex<()>,
    tasks: Mutex<JoinSet<()>>,
    followed: Mutex<BTreeSet<String>>,
    room: Arc<Semaphore>,
}

/// Owners whose hooks are called.
#[derive(Default)]
struct Live {
    /// Hooks with webhooks, by owner; owners without any are here too, once they have come up.
    owners: BTreeMap<String, Vec<Arc<Hook>>>,
    /// Owners that were here, or whose module is off.
    left: BTreeSet<String>,
    /// Owners that are on, once that is known.
    expected: Option<BTreeSet<String>>,
    rooms: BTreeMap<String, Arc<Semaphore>>,
}

impl Webhooks {
    /// Nothing is served and nothing written until an owner with webhooks enters, or all owners are known.
    #[must_use]
    pub fn new(
        cluster: Cluster,
        namespace: &str,
        options: Options,
        state: Arc<State>,
        runner: Runner,
    ) -> Arc<Self> {
        let webhooks = Arc::new(Self {
            cluster,
            namespace: namespace.to_owned(),
            options,
            runner,
            state,
            live: Mutex::default(),
            open: tokio::sync::Mutex::default(),
            webhook_endpoint: Mutex::default(),
            changed: Arc::default(),
            writing: tokio::sync::Mutex::default(),
            tasks: Mutex::default(),
            followed: Mutex::default(),
            room: Arc::new(Semaphore::new(AT_ONCE)),
        });
        webhooks.spawn(keep(Arc::downgrade(&webhooks), Arc::clone(&webhooks.changed)));
        webhooks
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn webhook_endpoint(&self) -> Option<WebhookEndpoint> {
        self.webhook_endpoint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts something that ends with this value.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(redact::own(task));
    }

    /// Starts to serve an owner's hooks; when this returns they are registered with the API server. An absent CRD gets its conversion
    /// webhook once it exists.
    ///
    /// # Errors
    /// A name is taken, the API server refuses an entry or cannot be reached, or we cannot listen: no hook of it is asked.
    pub async fn enter(self: &Arc<Self>, owner: &str, hooks: &[Arc<Hook>]) -> Result<(), String> {
        let has = |h: &&Arc<Hook>| {
            let config = &h.config;
            !(config.validating.is_empty() && config.mutating.is_empty() && config.conversions.is_empty())
        };
        let hooks: Vec<Arc<Hook>> = hooks.iter().filter(has).cloned().collect();
        let before = self.live().owners.get(owner).cloned();
        if before.as_ref().is_some_and(|b| same(b, &hooks)) {
            return Ok(());
        }
        if hooks.is_empty() || !self.options.enabled {
            for hook in &hooks {
                tracing::warn!(
                    module = owner,
                    hook = hook.name,
                    "webhooks are disabled: the hook is not called"
                );
            }
            self.put(owner, Vec::new());
            if before.is_some_and(|b| !b.is_empty()) || self.live().expected.is_some() {
                self.changed.notify_one();
            }
            return Ok(());
        }
        self.check_names(owner, &hooks)?;
        self.open().await?;
        self.try_entries(owner, &hooks).await?;
        self.put(owner, hooks);
        if let Err(error) = self.write().await {
            match before {
                Some(before) => self.put(owner, before),
                None => drop(self.live().owners.remove(owner)),
            }
            return Err(format!("webhooks: {error}"));
        }
        self.follow();
        Ok(())
    }

    fn put(&self, owner: &str, hooks: Vec<Arc<Hook>>) {
        let mut live = self.live();
        live.left.remove(owner);
        live.owners.insert(owner.to_owned(), hooks);
    }

    /// An owner is removed: when this returns, the API server no longer calls its hooks.
    ///
    /// # Errors
    /// The API server cannot be updated; the hooks are no longer called nevertheless.
    pub async fn leave(&self, owner: &str) -> Result<(), String> {
        {
            let mut live = self.live();
            live.owners.remove(owner);
            live.left.insert(owner.to_owned());
        }
        self.write().await.map_err(|e| format!("webhooks: {e}"))
    }

    /// All enabled owners are known: removes the entries of others, also those of an earlier process.
    pub fn settle(&self, owners: BTreeSet<String>) {
        let mut live = self.live();
        if live.expected.as_ref() != Some(&owners) {
            live.expected = Some(owners);
            self.changed.notify_one();
        }
    }

    /// Each name once for each kind: the API server would refuse all of them otherwise.
    fn check_names(&self, owner: &str, hooks: &[Arc<Hook>]) -> Result<(), String> {
        let live = self.live();
        let others = live.owners.iter().filter(|(name, _)| *name != owner).flat_map(|(_, hooks)| hooks);
        let mut taken: BTreeMap<String, &str> = BTreeMap::new();
        for (hook, ours) in others.map(|h| (h, false)).chain(hooks.iter().map(|h| (h, true))) {
            for kind in Kind::ALL {
                for binding in handler::bindings(hook, kind) {
                    let name = &binding.common.name;
                    let Some(first) = taken.insert(kind.path(name), &hook.name) else { continue };
                    if ours {
                        let kind = kind.binding();
                        return Err(format!(
                            "hook {}: {kind}: hook {first} has the name {name:?} already",
                            hook.name
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

fn same(a: &[Arc<Hook>], b: &[Arc<Hook>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Corrects our objects whenever something may have changed them.
async fn keep(webhooks: Weak<Webhooks>, changed: Arc<Notify>) {
    let mut failures = 0;
    loop {
        changed.notified().await;
        let Some(webhooks) = webhooks.upgrade() else { return };
        let result = webhooks.write().await;
        drop(webhooks);
        let Err(error) = result else {
            failures = 0;
            continue;
        };
        failures += 1;
        let pause = backoff::delay(failures);
        tracing::error!(retry_in_s = pause.as_secs_f32(), "webhooks: {error}");
        tokio::time::sleep(pause).await;
        changed.notify_one();
    }
}
