//! The objects that send the API server to us: webhook configurations, and CRDs whose objects hooks convert.
//!
//! Owns what they should be and writes them, server-side and with a field manager of its own; what others have put beside
//! our entries stays.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use futures::StreamExt as _;
use serde_json::Value;

use super::certificates::MANAGER;
use super::configurations::{
    self, Entries, Kind, WebhookEndpoint, configuration, entry, holds, is_ours, listed,
};
use super::{Live, Options, Webhooks, handler};
use crate::shell_hooks::Hook;
use windlass_base::backoff;
use windlass_cluster::{
    ApplyOptions, Cluster, ClusterError, DeleteOptions, ObjectMeta, ObjectRef, Propagation, Validation,
};

/// Why our objects are not as they should be.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {reason}")]
pub(super) struct RegistrationError {
    object: ObjectRef,
    reason: ClusterError,
}

impl From<RegistrationError> for String {
    fn from(error: RegistrationError) -> Self {
        error.to_string()
    }
}

/// What the names of our configurations begin with.
fn prefix(options: &Options, namespace: &str) -> String {
    match options.configuration.as_str() {
        "" => format!("windlass-{namespace}"),
        name => name.to_owned(),
    }
}

/// The name of our configurations.
pub(super) fn configuration_name(options: &Options, namespace: &str) -> String {
    format!("{}-hooks", prefix(options, namespace))
}

impl Webhooks {
    fn configuration_name(&self) -> String {
        configuration_name(&self.options, &self.namespace)
    }

    fn entries_of(
        &self,
        owner: &str,
        hooks: &[Arc<Hook>],
        kind: Kind,
        webhook_endpoint: &WebhookEndpoint,
    ) -> Entries {
        let bindings = hooks.iter().flat_map(|hook| handler::bindings(hook, kind));
        let entry = |b: &crate::shell_hooks::config::Admission| {
            (
                b.common.name.clone(),
                (owner.to_owned(), entry(kind, b, webhook_endpoint, &self.options.failure_policy)),
            )
        };
        bindings.map(entry).collect()
    }

    /// The entries of all who have come up.
    fn entries(&self, kind: Kind) -> Entries {
        let Some(webhook_endpoint) = self.webhook_endpoint() else { return Entries::new() };
        let live = self.live();
        live.owners
            .iter()
            .flat_map(|(owner, hooks)| self.entries_of(owner, hooks, kind, &webhook_endpoint))
            .collect()
    }

    /// Asks the API server whether it would take an owner's entries: one that it refuses must not cost others theirs.
    pub(super) async fn try_entries(&self, owner: &str, hooks: &[Arc<Hook>]) -> Result<(), String> {
        let Some(webhook_endpoint) = self.webhook_endpoint() else { return Ok(()) };
        for kind in Kind::ALL {
            let entries = self.entries_of(owner, hooks, kind, &webhook_endpoint);
            if entries.is_empty() {
                continue;
            }
            let object = kind.object(&format!("{}-check", prefix(&self.options, &self.namespace)));
            let body = configuration(&object, &entries);
            let dry = ApplyOptions { dry_run: true, ..options() };
            self.cluster.apply(&object, &body, dry).await.map_err(|e| format!("{}: {e}", kind.binding()))?;
        }
        Ok(())
    }

    /// Brings all our objects to what they should be.
    pub(super) async fn write(&self) -> Result<(), RegistrationError> {
        let _alone = self.writing.lock().await;
        for kind in Kind::ALL {
            let object = kind.object(&self.configuration_name());
            self.write_configuration(kind, &object)
                .await
                .map_err(|reason| RegistrationError { object, reason })?;
        }
        let Some(webhook_endpoint) = self.webhook_endpoint() else { return Ok(()) };
        for (object, way) in
            self.slices().into_iter().zip([&webhook_endpoint.admission, &webhook_endpoint.conversion])
        {
            self.lead_here(way).await.map_err(|reason| RegistrationError { object, reason })?;
        }
        let crds = crds(&self.live());
        for crd in crds {
            let object = configurations::crd(&crd);
            convert_by_us(&self.cluster, &object, &webhook_endpoint)
                .await
                .map_err(|reason| RegistrationError { object, reason })?;
        }
        Ok(())
    }

    async fn write_configuration(&self, kind: Kind, object: &ObjectRef) -> Result<(), ClusterError> {
        let live = match self.cluster.get(object).await {
            Ok(live) => live,
            // Who has no webhooks of a kind needs no rights for them.
            Err(e) if e.is_forbidden() && self.entries(kind).is_empty() => return Ok(()),
            Err(e) => return Err(e),
        };
        let wanted = {
            let mut wanted: Entries = live.as_ref().map(listed).unwrap_or_default();
            {
                let known = self.live();
                wanted.retain(|_, (owner, _)| known.stays(owner));
            }
            wanted.extend(self.entries(kind));
            wanted
        };
        match live {
            None if wanted.is_empty() => Ok(()),
            Some(live) if wanted.is_empty() => {
                if is_ours(&live) {
                    let meta = ObjectMeta::of(&live);
                    let delete = DeleteOptions {
                        propagation: Propagation::Background,
                        uid: Some(meta.uid()),
                        version: Some(meta.resource_version()),
                    };
                    self.cluster.delete(object, delete).await?;
                    tracing::info!("{object} is deleted: no hook has webhooks of that kind any more");
                }
                Ok(())
            }
            live => {
                let body = configuration(object, &wanted);
                if !live.is_some_and(|l| holds(&l, &body)) {
                    self.cluster.apply(object, &body, options()).await?;
                    let names: Vec<&String> = wanted.keys().collect();
                    tracing::info!(webhooks = ?names, "{object} is written");
                }
                Ok(())
            }
        }
    }

    /// Watches what we write, to correct changes by others, and for CRDs that do not exist yet.
    pub(super) fn follow(self: &Arc<Self>) {
        let kinds = Kind::ALL.into_iter().filter(|kind| !self.entries(*kind).is_empty());
        let mut objects: Vec<ObjectRef> = kinds.map(|k| k.object(&self.configuration_name())).collect();
        objects.extend(crds(&self.live()).iter().map(|crd| configurations::crd(crd)));
        objects.extend(self.slices());
        for object in objects {
            let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
            if followed.insert(object.to_string()) {
                let (webhooks, cluster) = (Arc::downgrade(self), self.cluster.clone());
                self.spawn(async move {
                    let mut failures = 0;
                    loop {
                        let stream =
                            cluster.follow(&object.gvk, object.namespace.as_deref(), &object.name).await;
                        let error = match stream {
                            Err(error) => Some(error),
                            Ok(mut events) => loop {
                                match events.next().await {
                                    None => break None,
                                    Some(Err(error)) => break Some(error),
                                    Some(Ok(_)) => {
                                        let Some(webhooks) = webhooks.upgrade() else { return };
                                        webhooks.changed.notify_one();
                                        failures = 0;
                                    }
                                }
                            },
                        };
                        failures += 1;
                        if let Some(error) = error {
                            tracing::warn!("cannot watch {object}: {error}");
                        }
                        tokio::time::sleep(backoff::delay(failures)).await;
                    }
                });
            }
        }
    }
}

impl Live {
    /// Whether entries that an owner left in an earlier process stay: it is on, or may be, and has not come up yet.
    fn stays(&self, owner: &str) -> bool {
        let gone = self.left.contains(owner) || self.owners.contains_key(owner);
        !gone && self.expected.as_ref().is_none_or(|e| e.contains(owner))
    }
}

/// The CRDs whose objects hooks convert.
fn crds(live: &Live) -> BTreeSet<String> {
    let hooks = live.owners.values().flatten();
    hooks.flat_map(|h| h.config.conversions.iter().map(|c| c.crd.clone())).collect()
}

pub(super) fn options() -> ApplyOptions<'static> {
    ApplyOptions {
        manager: MANAGER,
        force: true,
        validation: Validation::Strict,
        dry_run: false,
        whole: false,
    }
}

/// Tells a CRD, if it is there, that we convert its objects.
async fn convert_by_us(
    cluster: &Cluster,
    object: &ObjectRef,
    webhook_endpoint: &WebhookEndpoint,
) -> Result<(), ClusterError> {
    let Some(live) = cluster.get(object).await? else { return Ok(()) };
    let patch: Value = configurations::conversion(object, webhook_endpoint);
    if holds(&live["spec"]["conversion"], &patch["spec"]["conversion"]) {
        return Ok(());
    }
    cluster.apply(object, &patch, options()).await?;
    tracing::info!("{object} is converted by hooks");
    Ok(())
}
