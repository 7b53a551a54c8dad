//! Streams of whole objects, for waits. Transient failures are retried here.

use super::{
    api_client::Cluster,
    error::{ApiStatus, ClusterError, Result},
    list_pages,
    object_ref::Gvk,
};
use futures::{Stream, StreamExt as _};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    runtime::watcher,
};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A watch that worked before may be refused for this long: a server that has just started does not know its users'
/// rights yet.
pub(super) const REFUSAL_GRACE: Duration = Duration::from_secs(30);
/// Pause after a broken watch.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// An event of a stream of objects.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// The object's current state.
    Present(Value),
    /// The last state of a deleted object.
    Gone(Value),
    /// The existing objects follow.
    Listing,
    /// All existing objects were sent since `Listing`; others do not exist.
    Listed,
}

impl Cluster {
    pub(super) async fn api<K>(&self, gvk: &Gvk, namespace: Option<&str>) -> Result<Api<K>>
    where
        K: kube::Resource<DynamicType = ApiResource, Scope = kube::core::DynamicResourceScope>,
    {
        let resource = self.resource(gvk).await?;
        let described = ApiResource {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            api_version: gvk.api_version(),
            kind: gvk.kind.clone(),
            plural: resource.plural,
        };
        let client = self.watch_client()?;
        Ok(match namespace.filter(|_| resource.namespaced) {
            Some(namespace) => Api::namespaced_with(client, namespace, &described),
            None => Api::all_with(client, &described),
        })
    }

    /// Follows one object by name.
    pub async fn follow(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.follow_selected(gvk, namespace, "", &format!("metadata.name={name}")).await
    }

    /// Follows all objects that a label selector selects.
    pub async fn follow_labelled(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.follow_selected(gvk, namespace, labels, "").await
    }

    /// Follows all objects that a label and a field selector select; an empty one selects all.
    pub async fn follow_selected(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.stream(gvk, namespace, labels, fields, true).await
    }

    /// The same, but a missing right is an error at once.
    pub(super) async fn follow_while_allowed(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.stream(gvk, namespace, labels, fields, false).await
    }

    /// `tolerate_refusals`: a missing right may be that of a server that has just started.
    async fn stream(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
        tolerate_refusals: bool,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        let stream = watcher(self.api::<DynamicObject>(gvk, namespace).await?, watch_config(labels, fields));
        let (api_version, kind) = (gvk.api_version(), gvk.kind.clone());
        let mut worked = false;
        let mut refused: Option<Instant> = None;
        let events = stream.filter_map(move |event| {
            let whole = |object: DynamicObject| {
                let mut value = serde_json::to_value(object).unwrap_or_default();
                // Items of a list lack these.
                value["apiVersion"] = api_version.as_str().into();
                value["kind"] = kind.as_str().into();
                value
            };
            let event = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    Ok(ObjectEvent::Present(whole(object)))
                }
                Ok(watcher::Event::Delete(object)) => Ok(ObjectEvent::Gone(whole(object))),
                Ok(watcher::Event::Init) => Ok(ObjectEvent::Listing),
                Ok(watcher::Event::InitDone) => Ok(ObjectEvent::Listed),
                Err(error) => Err(error),
            };
            let event = match event {
                Ok(ObjectEvent::Listing) => Ok(ObjectEvent::Listing),
                Ok(event) => {
                    (worked, refused) = (true, None);
                    Ok(event)
                }
                Err(error) => {
                    let status = lasting(&error);
                    let since = status.as_ref().map(|_| *refused.get_or_insert_with(Instant::now));
                    let may_pass =
                        worked && (tolerate_refusals || status.as_ref().is_some_and(|s| s.code != 403));
                    let passes = since.is_none_or(|since| may_pass && since.elapsed() < REFUSAL_GRACE);
                    Err((error, status.filter(|_| !passes)))
                }
            };
            async move {
                match event {
                    Ok(event) => Some(Ok(event)),
                    Err((_, Some(status))) => Some(Err(ClusterError::Api(Box::new(status)))),
                    Err((error, None)) => {
                        tracing::debug!(%error, "watch interrupted");
                        tokio::time::sleep(RETRY_PAUSE).await;
                        None
                    }
                }
            }
        });
        Ok(events.boxed())
    }
}

/// What is watched. The objects that exist are listed in small pages: they are whole ones.
fn watch_config(labels: &str, fields: &str) -> watcher::Config {
    let selector = |text: &str| Some(text).filter(|t| !t.is_empty()).map(str::to_owned);
    watcher::Config {
        label_selector: selector(labels),
        field_selector: selector(fields),
        page_size: u32::try_from(list_pages::WHOLE).ok(),
        ..watcher::Config::default()
    }
}

/// The server's answer, if a retry of a failed watch is useless.
pub(super) fn lasting(error: &watcher::Error) -> Option<ApiStatus> {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return None;
    };
    matches!(status.code, 400..=407 | 422).then(|| ApiStatus {
        code: status.code,
        reason: status.reason.clone(),
        message: status.message.clone(),
        ..ApiStatus::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_list_whole_objects_in_small_pages() {
        let config = watch_config("a=b", "");
        assert_eq!((config.page_size, config.label_selector.as_deref()), (Some(50), Some("a=b")));
        assert_eq!(config.field_selector, None);
    }
}
