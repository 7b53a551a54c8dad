//! Who the client is and what it may do, as the API server answers.
//!
//! Owns the three reviews. Which rights are asked for is the caller's.

use super::{
    api_client::Cluster,
    error::Result,
    object_ref::{Gvk, ObjectRef},
};
use serde_json::{Value, json};

/// Field manager of the reviews, which are never stored.
const MANAGER: &str = "windlass-status";

/// One right that is asked for: a verb for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessQuery<'a> {
    /// The namespace; `None` for the cluster, and so for all namespaces.
    pub namespace: Option<&'a str>,
    pub group: &'a str,
    /// The resource in the plural, with its subresource.
    pub resource: &'a str,
    /// `None`: all objects.
    pub name: Option<&'a str>,
    pub verb: &'a str,
}

impl Cluster {
    /// The rules for resources that authorizers list for this client in a namespace. A server may not list all of them: what is absent is
    /// not forbidden.
    pub async fn rules_in(&self, namespace: &str) -> Result<Vec<Value>> {
        let answer = self.review("SelfSubjectRulesReview", &json!({"namespace": namespace})).await?;
        Ok(answer["status"]["resourceRules"].as_array().cloned().unwrap_or_default())
    }

    /// Whether this client has a right.
    pub async fn has_right(&self, query: AccessQuery<'_>) -> Result<bool> {
        let (resource, part) = query.resource.split_once('/').unwrap_or((query.resource, ""));
        let attributes = json!({
            "namespace": query.namespace.unwrap_or_default(),
            "group": query.group,
            "resource": resource,
            "subresource": part,
            "name": query.name.unwrap_or_default(),
            "verb": query.verb,
        });
        let answer =
            self.review("SelfSubjectAccessReview", &json!({"resourceAttributes": attributes})).await?;
        Ok(answer["status"]["allowed"] == true)
    }

    /// The name of this client's user, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub async fn own_user(&self) -> Result<String> {
        let gvk = Gvk::new("authentication.k8s.io/v1", "SelfSubjectReview");
        let body = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind});
        let answer = self.create(&ObjectRef::new(gvk, None, ""), &body, MANAGER).await?;
        Ok(answer["status"]["userInfo"]["username"].as_str().unwrap_or_default().to_owned())
    }

    async fn review(&self, kind: &str, spec: &Value) -> Result<Value> {
        let gvk = Gvk::new("authorization.k8s.io/v1", kind);
        let body = json!({"apiVersion": gvk.api_version(), "kind": kind, "spec": spec});
        self.create(&ObjectRef::new(gvk, None, ""), &body, MANAGER).await
    }
}
