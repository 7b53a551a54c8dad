//! What would be written for the webhooks of hooks. Writes nothing.
//!
//! Owns the comparison with what is there. Nothing is listened on for that, so that certificates, and ports that are chosen when
//! they are listened on, are not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::configurations::{self, Kind, WebhookEndpoint, entry, holds, listed};
use super::{Options, handler, registration, server};
use crate::shell_hooks::Hook;
use windlass_cluster::{Cluster, ClusterError};

/// Something that would be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRegistration {
    /// Whose hooks it is for: a module's; the global ones have the empty name.
    pub owner: String,
    pub text: String,
}

/// What an operator would write if these owners' hooks were to be asked. Entries of owners that are `unknown` stay.
///
/// # Errors
/// The cluster cannot be read.
pub async fn preview_registration(
    cluster: &Cluster,
    namespace: &str,
    options: &Options,
    owners: &BTreeMap<String, Vec<Arc<Hook>>>,
    unknown: &BTreeSet<String>,
) -> Result<Vec<PlannedRegistration>, ClusterError> {
    let port = |server: &super::Server| server.ports.first().copied().unwrap_or_default();
    let conversion = options.conversion.as_ref().unwrap_or(&options.server);
    let webhook_endpoint =
        server::webhook_endpoint(options, namespace, ("", port(&options.server)), ("", port(conversion)));
    let mut found = Vec::new();
    for kind in Kind::ALL {
        let object = kind.object(&registration::configuration_name(options, namespace));
        let mut wanted = BTreeMap::new();
        for (owner, hook) in hooks(options, owners) {
            for binding in handler::bindings(hook, kind) {
                let entry =
                    known(entry(kind, binding, &webhook_endpoint, &options.failure_policy), "clientConfig");
                wanted.insert(binding.common.name.clone(), (owner, entry));
            }
        }
        let live = match cluster.get(&object).await {
            Ok(live) => live.as_ref().map(listed).unwrap_or_default(),
            Err(e) if e.is_forbidden() && wanted.is_empty() => continue,
            Err(e) => return Err(e),
        };
        let mut tell =
            |owner: &str, text: String| found.push(PlannedRegistration { owner: owner.to_owned(), text });
        for (name, (owner, entry)) in &wanted {
            match live.get(name) {
                None => tell(owner, format!("webhook {name} would be added to {object}")),
                Some((before, live)) if before != owner || !holds(live, entry) => {
                    tell(owner, format!("webhook {name} of {object} would be changed"));
                }
                Some(_) => {}
            }
        }
        for (name, (owner, _)) in live {
            if !wanted.contains_key(&name) && !unknown.contains(&owner) {
                tell(&owner, format!("webhook {name} would be taken out of {object}"));
            }
        }
    }
    found.extend(conversions(cluster, &webhook_endpoint, options, owners).await?);
    Ok(found)
}

/// CRDs that would get a conversion stanza; absent ones get it when they are created.
async fn conversions(
    cluster: &Cluster,
    webhook_endpoint: &WebhookEndpoint,
    options: &Options,
    owners: &BTreeMap<String, Vec<Arc<Hook>>>,
) -> Result<Vec<PlannedRegistration>, ClusterError> {
    let mut crds: BTreeMap<&str, &str> = BTreeMap::new();
    for (owner, hook) in hooks(options, owners) {
        for conversion in &hook.config.conversions {
            crds.entry(&conversion.crd).or_insert(owner);
        }
    }
    let mut found = Vec::new();
    for (crd, owner) in crds {
        let object = configurations::crd(crd);
        let mut wanted = configurations::conversion(&object, webhook_endpoint);
        wanted["spec"]["conversion"]["webhook"] =
            known(wanted["spec"]["conversion"]["webhook"].take(), "clientConfig");
        let live = cluster.get(&object).await?;
        if live.is_some_and(|live| !holds(&live["spec"]["conversion"], &wanted["spec"]["conversion"])) {
            let text = format!("{object} would have its objects converted by hooks");
            found.push(PlannedRegistration { owner: owner.to_owned(), text });
        }
    }
    Ok(found)
}

/// All hooks that would be called, with their owners.
fn hooks<'o>(
    options: &Options,
    owners: &'o BTreeMap<String, Vec<Arc<Hook>>>,
) -> impl Iterator<Item = (&'o str, &'o Arc<Hook>)> {
    let all = owners.iter().filter(|_| options.enabled);
    all.flat_map(|(owner, hooks)| hooks.iter().map(move |hook| (owner.as_str(), hook)))
}

/// What of the way to a webhook is known before anything is listened on.
fn known(mut webhook: Value, key: &str) -> Value {
    if let Some(way) = webhook[key].as_object_mut() {
        way.remove("caBundle");
        if way.get("url").and_then(Value::as_str).is_some_and(|url| url.contains(":0/")) {
            way.remove("url");
        }
    }
    webhook
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_only_when_it_is_listened_on_is_left_out() {
        let of = |way: Value| {
            known(json!({"name": "a", "clientConfig": way}), "clientConfig")["clientConfig"].take()
        };
        assert_eq!(of(json!({"url": "https://127.0.0.1:0/hooks/a", "caBundle": "x"})), json!({}));
        let url = json!({"url": "https://127.0.0.1:9651/hooks/a"});
        assert_eq!(of(url.clone()), url);
        let service = json!({"service": {"name": "s", "path": "/hooks/a"}, "caBundle": "x"});
        assert_eq!(of(service), json!({"service": {"name": "s", "path": "/hooks/a"}}));
    }
}
