//! Writes to objects and to their subresources (`status`, `scale`), with patches of the caller.

use super::{
    api_client::{Cluster, JSON},
    error::Result,
    object_api::escape,
    object_ref::ObjectRef,
};
use http::Method;
use serde_json::Value;

/// The form of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// RFC 6902.
    Json,
    /// Kubernetes' own, for built-in kinds.
    Strategic,
}

impl PatchKind {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Merge => "application/merge-patch+json",
            Self::Json => "application/json-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
        }
    }
}

impl Cluster {
    async fn part_path(&self, object: &ObjectRef, part: &str, manager: &str) -> Result<String> {
        let mut path = self.object_path(object).await?;
        if !part.is_empty() {
            path.push('/');
            path.push_str(&escape(part));
        }
        Ok(format!("{path}?fieldManager={}", escape(manager)))
    }

    /// Patches an object, or a subresource if `part` is not empty; returns it.
    pub async fn patch_subresource(
        &self,
        object: &ObjectRef,
        part: &str,
        kind: PatchKind,
        patch: &Value,
        manager: &str,
    ) -> Result<Value> {
        let path = self.part_path(object, part, manager).await?;
        self.write(Method::PATCH, &path, kind.content_type(), patch).await
    }

    /// Replaces a subresource; with a resource version in the body, only if nobody changed the object since.
    pub async fn replace_subresource(
        &self,
        object: &ObjectRef,
        part: &str,
        body: &Value,
        manager: &str,
    ) -> Result<Value> {
        let path = self.part_path(object, part, manager).await?;
        self.write(Method::PUT, &path, JSON, body).await
    }

    /// Creates a subresource, such as an eviction or a binding.
    pub async fn create_subresource(
        &self,
        object: &ObjectRef,
        part: &str,
        body: &Value,
        manager: &str,
    ) -> Result<Value> {
        let path = self.part_path(object, part, manager).await?;
        self.write(Method::POST, &path, JSON, body).await
    }
}
