//! Webhook configurations and their entries, and the conversion stanza of CRDs. Pure.
//!
//! Paths and names are addon-operator's (`admission.createWebhookPath`, `string_helper.SafeURLString`), but mutating webhooks have
//! paths of their own, so that one of each kind may bear the same name.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::shell_hooks::config::Admission;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};

/// Annotation of a configuration: whose each entry is, a JSON map of names to modules; the global hooks' are empty.
const OWNERS: &str = "windlass.dev/webhook-owners";
/// Label of what is ours to delete.
const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "windlass");

/// The kind of an admission webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Validating,
    Mutating,
}

impl Kind {
    /// Both of them.
    pub(super) const ALL: [Self; 2] = [Self::Validating, Self::Mutating];

    /// The binding's key in configurations of hooks.
    #[must_use]
    pub(super) fn binding(self) -> &'static str {
        match self {
            Self::Validating => "kubernetesValidating",
            Self::Mutating => "kubernetesMutating",
        }
    }

    /// The object that lists webhooks of this kind.
    #[must_use]
    pub(super) fn object(self, name: &str) -> ObjectRef {
        let kind = match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        };
        ObjectRef::new(Gvk::new("admissionregistration.k8s.io/v1", kind), None, name)
    }

    /// Where the API server calls a webhook of this kind.
    #[must_use]
    pub(super) fn path(self, name: &str) -> String {
        match self {
            Self::Validating => format!("/hooks/{}", safe(name)),
            Self::Mutating => format!("/mutating/{}", safe(name)),
        }
    }
}

/// A name as part of a path: lower case, what is no letter, digit, slash or dash becomes one dash, and one stands before
/// each capital.
#[must_use]
pub(super) fn safe(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut put = |c: char| {
        if c != '-' || !out.ends_with('-') {
            out.push(c);
        }
    };
    for c in name.chars() {
        match c {
            'A'..='Z' => {
                put('-');
                put(c.to_ascii_lowercase());
            }
            'a'..='z' | '0'..='9' | '/' => put(c),
            _ => put('-'),
        }
    }
    out
}

/// How the API server reaches us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookEndpoint {
    pub(super) admission: EndpointConfig,
    pub(super) conversion: EndpointConfig,
}

/// How it reaches one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EndpointConfig {
    pub(super) reach: ClientConfigTarget,
    /// Certificates of authorities, in PEM: one of them signed ours.
    pub(super) authority: String,
    /// The port that we listen on.
    pub(super) port: u16,
}

/// How the API server reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClientConfigTarget {
    /// Through a Service of a namespace.
    Service { namespace: String, name: String, port: u16 },
    /// At an address, e.g. `https://127.0.0.1:9651`.
    Url(String),
}

impl EndpointConfig {
    /// `clientConfig` of a webhook at a path.
    fn client_config(&self, path: &str) -> Value {
        use base64::Engine as _;
        let bundle = base64::engine::general_purpose::STANDARD.encode(&self.authority);
        match &self.reach {
            ClientConfigTarget::Service { namespace, name, port } => json!({
                "service": {"namespace": namespace, "name": name, "port": port, "path": path}, "caBundle": bundle,
            }),
            ClientConfigTarget::Url(base) => json!({"url": format!("{base}{path}"), "caBundle": bundle}),
        }
    }
}

/// The entry of a binding; `policy` is what happens if we cannot be asked, where the binding says nothing of it.
#[must_use]
pub(super) fn entry(
    kind: Kind,
    binding: &Admission,
    webhook_endpoint: &WebhookEndpoint,
    policy: &str,
) -> Value {
    let name = &binding.common.name;
    let mut entry = json!({
        "name": name,
        "clientConfig": webhook_endpoint.admission.client_config(&kind.path(name)),
        "rules": binding.rules,
        "matchPolicy": "Equivalent",
        "failurePolicy": binding.failure_policy.unwrap_or(policy),
        "sideEffects": binding.side_effects,
        "timeoutSeconds": binding.timeout_seconds,
        "admissionReviewVersions": ["v1"],
    });
    if let Some(selector) = &binding.object_selector {
        entry["objectSelector"] = selector.clone();
    }
    if let Some(selector) = &binding.namespace_selector {
        entry["namespaceSelector"] = selector.clone();
    }
    if !binding.match_conditions.is_empty() {
        entry["matchConditions"] = binding.match_conditions.clone().into();
    }
    entry
}

/// Entries by name, each with its owner.
pub(super) type Entries = BTreeMap<String, (String, Value)>;

/// A configuration with all its entries.
#[must_use]
pub(super) fn configuration(object: &ObjectRef, entries: &Entries) -> Value {
    let owners: Map<String, Value> =
        entries.iter().map(|(name, (owner, _))| (name.clone(), owner.clone().into())).collect();
    let webhooks: Vec<&Value> = entries.values().map(|(_, entry)| entry).collect();
    json!({
        "apiVersion": object.gvk.api_version(),
        "kind": object.gvk.kind,
        "metadata": {
            "name": object.name,
            "labels": {MANAGED.0: MANAGED.1},
            "annotations": {OWNERS: Value::Object(owners).to_string()},
        },
        "webhooks": webhooks,
    })
}

/// What a live configuration of ours lists, each entry with its owner. What someone else has put into it is left out.
#[must_use]
pub(super) fn listed(live: &Value) -> Entries {
    let owners = ObjectMeta::of(live).annotation(OWNERS).unwrap_or_default();
    let owners: BTreeMap<String, String> = serde_json::from_str(owners).unwrap_or_default();
    let entries = live["webhooks"].as_array().into_iter().flatten();
    let ours = entries.filter_map(|entry| {
        let name = entry["name"].as_str()?;
        Some((name.to_owned(), (owners.get(name)?.clone(), entry.clone())))
    });
    ours.collect()
}

/// Whether a live configuration is ours to delete.
#[must_use]
pub(super) fn is_ours(live: &Value) -> bool {
    ObjectMeta::of(live).label(MANAGED.0) == Some(MANAGED.1)
}

/// What is applied to a CRD so that we convert its objects.
#[must_use]
pub(super) fn conversion(crd: &ObjectRef, webhook_endpoint: &WebhookEndpoint) -> Value {
    let client = webhook_endpoint.conversion.client_config(&format!("/{}", crd.name));
    json!({
        "apiVersion": crd.gvk.api_version(),
        "kind": crd.gvk.kind,
        "metadata": {"name": crd.name},
        "spec": {"conversion": {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }},
    })
}

/// A CRD by name.
#[must_use]
pub(super) fn crd(name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("apiextensions.k8s.io/v1", "CustomResourceDefinition"), None, name)
}

/// Whether all that is wanted is there. Lists are compared whole; of maps, what is wanted of them.
#[must_use]
pub(super) fn holds(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, value)| live.get(key).is_some_and(|l| holds(l, value)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(l, w)| holds(l, w))
        }
        _ => live == wanted,
    }
}

#[cfg(test)]
mod tests;
