//! Reads and writes single objects and lists of them.

use super::{
    api_client::{ApiCall, Cluster, JSON},
    error::{ClusterError, Result},
    list_pages::{self, ListPage, ListQuery, Page, PageSize},
    managed_fields::{self, Folded},
    object_meta::ObjectMeta,
    object_ref::{Gvk, ObjectRef},
};
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// How the server treats unknown fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Validation {
    Strict,
    #[default]
    Warn,
    Ignore,
}

impl Validation {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Strict => "Strict",
            Self::Warn => "Warn",
            Self::Ignore => "Ignore",
        }
    }
}

/// How an object is applied.
#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions<'a> {
    pub manager: &'a str,
    /// Takes fields of other managers over.
    pub force: bool,
    pub validation: Validation,
    pub dry_run: bool,
    /// Returns the whole object, not only its metadata.
    pub whole: bool,
}

/// The answer to an apply: the object (or its metadata) and the server's warnings.
#[derive(Debug, Clone)]
pub struct Applied {
    pub object: Value,
    pub warnings: Vec<String>,
}

/// What happens to the objects that a deleted one owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Propagation {
    #[default]
    Background,
    Foreground,
    Orphan,
}

/// How an object is deleted.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeleteOptions<'a> {
    pub propagation: Propagation,
    /// Deletes only the object with this UID.
    pub uid: Option<&'a str>,
    /// Deletes only this resource version.
    pub version: Option<&'a str>,
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Yes,
    /// The object did not exist.
    Absent,
    /// An object with this name exists, with another UID.
    Another,
}

/// A page of a list, with the token of the next one.
#[derive(Debug, Clone)]
pub struct Listed {
    pub items: Vec<Value>,
    pub next: Option<String>,
}

impl Cluster {
    pub(super) async fn path(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> Result<String> {
        // Escaped or not, these would make another path: of the namespace, of the kind, or of all objects.
        let bad_name = name.filter(|name| matches!(*name, "" | "." | ".."));
        if let Some(bad) = bad_name.or(namespace.filter(|namespace| matches!(*namespace, "." | ".."))) {
            return Err(ClusterError::Name { kind: gvk.kind.clone(), name: bad.to_owned() });
        }
        let resource = self.resource(gvk).await?;
        let mut path = if gvk.group.is_empty() { "/api/".to_owned() } else { "/apis/".to_owned() };
        path.push_str(&gvk.api_version());
        if let Some(namespace) = namespace.filter(|_| resource.namespaced) {
            path.push_str("/namespaces/");
            path.push_str(&escape(namespace));
        }
        path.push('/');
        path.push_str(&resource.plural);
        if let Some(name) = name {
            path.push('/');
            path.push_str(&escape(name));
        }
        Ok(path)
    }

    pub(super) async fn object_path(&self, object: &ObjectRef) -> Result<String> {
        self.path(&object.gvk, object.namespace.as_deref(), Some(&object.name)).await
    }

    /// The object, or `None` if there is none.
    pub async fn get(&self, object: &ObjectRef) -> Result<Option<Value>> {
        let path = self.object_path(object).await?;
        found(self.call(ApiCall::get(&path)).await)
    }

    /// The object as the server's table for people: one row.
    pub async fn get_table(&self, object: &ObjectRef) -> Result<Option<Value>> {
        let path = self.object_path(object).await?;
        found(self.call(ApiCall { accept: TABLE, ..ApiCall::get(&path) }).await)
    }

    /// The objects of a kind that a label selector selects, as the server's table: at most 500 rows.
    pub async fn list_table(&self, gvk: &Gvk, namespace: Option<&str>, labels: &str) -> Result<Value> {
        let path = self.path(gvk, namespace, None).await?;
        let url = format!("{path}?limit={}&labelSelector={}", list_pages::MOST, escape(labels));
        Ok(self.call(ApiCall { accept: TABLE, ..ApiCall::get(&url) }).await?.value)
    }

    /// The objects of a kind that a label selector selects, as the server's list: at most 500, and fewer where these are large.
    pub async fn list_object(&self, gvk: &Gvk, namespace: Option<&str>, labels: &str) -> Result<Value> {
        let path = self.path(gvk, namespace, None).await?;
        Ok(self.list_next(ListQuery { path: &path, labels, accept: JSON }, None).await?.into_list())
    }

    /// The object's metadata only.
    pub async fn get_metadata(&self, object: &ObjectRef) -> Result<Option<Value>> {
        let path = self.object_path(object).await?;
        found(self.call(ApiCall { accept: METADATA, ..ApiCall::get(&path) }).await)
    }

    /// All objects of a kind that a label selector selects (empty: all).
    pub async fn list(&self, gvk: &Gvk, namespace: Option<&str>, labels: &str) -> Result<Vec<Value>> {
        self.list_since(gvk, namespace, labels, None).await
    }

    /// The same, of this resource version of the kind or later; `None`: of the newest state. A version that the
    /// server does not reach in time is an error.
    pub async fn list_since(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        since: Option<u64>,
    ) -> Result<Vec<Value>> {
        self.list_all(gvk, namespace, labels, JSON, since).await
    }

    /// The metadata of all objects of a kind that a label selector selects.
    pub async fn list_metadata(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<Vec<Value>> {
        self.list_metadata_since(gvk, namespace, labels, None).await
    }

    /// The same, of this resource version of the kind or later, as [`Cluster::list_since`].
    pub async fn list_metadata_since(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        since: Option<u64>,
    ) -> Result<Vec<Value>> {
        self.list_all(gvk, namespace, labels, METADATA_LIST, since).await
    }

    /// One page of at most 500, the first or the one after a token: a bounded read.
    pub async fn list_metadata_page(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        after: Option<&str>,
    ) -> Result<Listed> {
        self.page(gvk, namespace, METADATA_LIST, after).await
    }

    /// At most 500 whole objects, and fewer where these are large: the first ones, or those after a token.
    pub async fn list_page_of(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        after: Option<&str>,
    ) -> Result<Listed> {
        self.page(gvk, namespace, JSON, after).await
    }

    async fn page(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        accept: &str,
        after: Option<&str>,
    ) -> Result<Listed> {
        let path = self.path(gvk, namespace, None).await?;
        let ListPage { items, next, .. } =
            self.list_next(ListQuery { path: &path, labels: "", accept }, after).await?;
        Ok(Listed { items, next })
    }

    async fn list_all(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        accept: &str,
        since: Option<u64>,
    ) -> Result<Vec<Value>> {
        let path = self.path(gvk, namespace, None).await?;
        let query = ListQuery { path: &path, labels, accept };
        let mut size = PageSize::first(accept, self.limits().list_room());
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let page = Page::of(next.as_deref(), since);
            let ListPage { items, next: token, .. } =
                self.list_page(query, page, list_pages::MOST, &mut size).await?;
            all.extend(items);
            if token.is_none() {
                return Ok(all);
            }
            next = token;
        }
    }

    /// Server-side apply: creates or changes the object so that it has the fields of `body`.
    pub async fn apply(
        &self,
        object: &ObjectRef,
        body: &Value,
        options: ApplyOptions<'_>,
    ) -> Result<Applied> {
        let mut path = self.object_path(object).await?;
        path.push_str("?fieldManager=");
        path.push_str(&escape(options.manager));
        path.push_str("&fieldValidation=");
        path.push_str(options.validation.as_str());
        if options.force {
            path.push_str("&force=true");
        }
        if options.dry_run {
            path.push_str("&dryRun=All");
        }
        let accept = if options.whole { JSON } else { METADATA };
        let content_type = "application/apply-patch+yaml";
        let body = body.to_string().into_bytes();
        let answer =
            self.call(ApiCall { method: Method::PATCH, path: &path, accept, content_type, body }).await?;
        Ok(Applied { object: answer.value, warnings: answer.warnings })
    }

    /// Sends an object or a patch; returns the object.
    pub(super) async fn write(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value> {
        let body = body.to_string().into_bytes();
        Ok(self.call(ApiCall { method, path, accept: JSON, content_type, body }).await?.value)
    }

    /// Creates an object; returns it.
    pub async fn create(&self, object: &ObjectRef, body: &Value, manager: &str) -> Result<Value> {
        let path = self.path(&object.gvk, object.namespace.as_deref(), None).await?;
        let path = format!("{path}?fieldManager={}", escape(manager));
        self.write(Method::POST, &path, JSON, body).await
    }

    /// Replaces an object; with a resource version in it, only if nobody changed it since.
    pub async fn replace(&self, object: &ObjectRef, body: &Value, manager: &str) -> Result<Value> {
        let path = self.object_path(object).await?;
        let path = format!("{path}?fieldManager={}", escape(manager));
        self.write(Method::PUT, &path, JSON, body).await
    }

    /// The result of a replace by a dry run: with the server's defaults and webhooks.
    pub async fn replace_dry_run(&self, object: &ObjectRef, body: &Value, manager: &str) -> Result<Value> {
        let path = self.object_path(object).await?;
        let path = format!("{path}?fieldManager={}&dryRun=All", escape(manager));
        self.write(Method::PUT, &path, JSON, body).await
    }

    /// Deletes an object.
    pub async fn delete(&self, object: &ObjectRef, options: DeleteOptions<'_>) -> Result<Deleted> {
        let path = self.object_path(object).await?;
        let policy = match options.propagation {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        };
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy});
        if let Some(uid) = options.uid {
            body["preconditions"]["uid"] = uid.into();
        }
        if let Some(version) = options.version {
            body["preconditions"]["resourceVersion"] = version.into();
        }
        let conditional = options.uid.is_some() || options.version.is_some();
        let body = body.to_string().into_bytes();
        let call =
            ApiCall { method: Method::DELETE, path: &path, accept: METADATA, content_type: JSON, body };
        match self.call(call).await {
            Ok(_) => Ok(Deleted::Yes),
            Err(e) if e.is_not_found() => Ok(Deleted::Absent),
            Err(e) if conditional && e.is_conflict() => Ok(Deleted::Another),
            Err(e) => Err(e),
        }
    }

    /// Folds entries of the object's managed fields into ours; `false` if there are none. `metadata` is the object's, as last read: a
    /// change since then is a conflict.
    pub async fn fold(
        &self,
        object: &ObjectRef,
        metadata: &Value,
        manager: &str,
        folded: Folded,
    ) -> Result<bool> {
        let meta = ObjectMeta::of(metadata);
        let fields = meta.managed_fields();
        if !managed_fields::needs_folding(fields, manager, folded) {
            return Ok(false);
        }
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managed_fields::fold_managers(fields, manager, folded)},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": meta.resource_version()},
        ]);
        let path = self.object_path(object).await?;
        let path = format!("{path}?fieldManager={}", escape(manager));
        let body = patch.to_string().into_bytes();
        let content_type = "application/json-patch+json";
        self.call(ApiCall { method: Method::PATCH, path: &path, accept: METADATA, content_type, body })
            .await?;
        Ok(true)
    }
}

fn found(answer: Result<super::api_client::ApiResponse>) -> Result<Option<Value>> {
    match answer {
        Ok(answer) => Ok(Some(answer.value)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Percent-encodes all but the unreserved characters of RFC 3986.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte as char),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_what_a_query_would_read() {
        assert_eq!(escape("owner=helm,name in (a)"), "owner%3Dhelm%2Cname%20in%20%28a%29");
        assert_eq!(escape("system:x-1.2_3~"), "system%3Ax-1.2_3~");
    }
}
