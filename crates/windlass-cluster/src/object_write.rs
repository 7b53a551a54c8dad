//! Creates, patches and replaces objects on behalf of a field manager, as client-side apply does: with the server's warnings, and as a
//! dry run too.

use super::{
    api_client::{ApiCall, Cluster, JSON},
    error::Result,
    object_api::{Applied, METADATA, Validation, escape},
    object_ref::ObjectRef,
    subresource::PatchKind,
};
use http::Method;
use serde_json::Value;

/// How an object is written.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions<'a> {
    pub manager: &'a str,
    pub validation: Validation,
    pub dry_run: bool,
    /// Returns the whole object, not only its metadata.
    pub whole: bool,
}

impl WriteOptions<'_> {
    fn query(&self) -> String {
        let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
        let validation = self.validation.as_str();
        format!("?fieldManager={}&fieldValidation={validation}{dry_run}", escape(self.manager))
    }
}

impl Cluster {
    /// Creates an object.
    ///
    /// # Errors
    /// One exists with this name, or the server rejects it.
    pub async fn create_object(
        &self,
        object: &ObjectRef,
        body: &Value,
        options: WriteOptions<'_>,
    ) -> Result<Applied> {
        let path = self.path(&object.gvk, object.namespace.as_deref(), None).await?;
        self.send_object(Method::POST, path, JSON, body, options).await
    }

    /// Patches an object.
    ///
    /// # Errors
    /// There is none with this name, or the server rejects the patch.
    pub async fn patch_object(
        &self,
        object: &ObjectRef,
        kind: PatchKind,
        patch: &Value,
        options: WriteOptions<'_>,
    ) -> Result<Applied> {
        let path = self.object_path(object).await?;
        self.send_object(Method::PATCH, path, kind.content_type(), patch, options).await
    }

    /// Replaces an object; with a resource version in it, only if nobody changed it since.
    ///
    /// # Errors
    /// There is none with this name, it was changed, or the server rejects it.
    pub async fn replace_object(
        &self,
        object: &ObjectRef,
        body: &Value,
        options: WriteOptions<'_>,
    ) -> Result<Applied> {
        let path = self.object_path(object).await?;
        self.send_object(Method::PUT, path, JSON, body, options).await
    }

    async fn send_object(
        &self,
        method: Method,
        mut path: String,
        content_type: &str,
        body: &Value,
        options: WriteOptions<'_>,
    ) -> Result<Applied> {
        path.push_str(&options.query());
        let accept = if options.whole { JSON } else { METADATA };
        let body = body.to_string().into_bytes();
        let answer = self.call(ApiCall { method, path: &path, accept, content_type, body }).await?;
        Ok(Applied { object: answer.value, warnings: answer.warnings })
    }
}
