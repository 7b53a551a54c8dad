//! Streams of whole objects, for those who wait for a condition. Transient failures are ridden out here.

use super::{
    api_client::Cluster,
    error::{ApiStatus, ClusterError, Result},
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

/// A watch that has worked before is refused for so long before that is an answer: a server that was just started says so
/// until it knows its users' rights.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after a watch broke.
const AGAIN: Duration = Duration::from_millis(200);

/// What a stream of objects tells.
#[derive(Debug, Clone)]
pub enum ObjectEvent {
    /// The object as it is now.
    Present(Value),
    /// The object as it last was; it exists no more.
    Gone(Value),
    /// All objects that exist are told from here on.
    Listing,
    /// All objects that exist were told since `Listing`; what was not, does not exist.
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

    /// Follows all objects that a label selector picks.
    pub async fn follow_labelled(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.follow_selected(gvk, namespace, labels, "").await
    }

    /// Follows all objects that a label and a field selector pick; an empty one picks all.
    pub async fn follow_selected(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.stream(gvk, namespace, labels, fields, true).await
    }

    /// The same, but that a missing right is told at once.
    pub(super) async fn follow_while_allowed(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        self.stream(gvk, namespace, labels, fields, false).await
    }

    /// `patient`: a missing right may be that of a server that was just started.
    async fn stream(
        &self,
        gvk: &Gvk,
        namespace: Option<&str>,
        labels: &str,
        fields: &str,
        patient: bool,
    ) -> Result<impl Stream<Item = Result<ObjectEvent>> + Unpin + use<>> {
        let selector = |text: &str| Some(text).filter(|t| !t.is_empty()).map(str::to_owned);
        let config = watcher::Config {
            label_selector: selector(labels),
            field_selector: selector(fields),
            ..watcher::Config::default()
        };
        let stream = watcher(self.api::<DynamicObject>(gvk, namespace).await?, config);
        let (api_version, kind) = (gvk.api_version(), gvk.kind.clone());
        let mut worked = false;
        let mut refused: Option<Instant> = None;
        let events = stream.filter_map(move |event| {
            let whole = |object: DynamicObject| {
                let mut value = serde_json::to_value(object).unwrap_or_default();
                // Items of a list come without these.
                value["apiVersion"] = api_version.as_str().into();
                value["kind"] = kind.as_str().into();
                value
            };
            let told = match event {
                Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                    Ok(ObjectEvent::Present(whole(object)))
                }
                Ok(watcher::Event::Delete(object)) => Ok(ObjectEvent::Gone(whole(object))),
                Ok(watcher::Event::Init) => Ok(ObjectEvent::Listing),
                Ok(watcher::Event::InitDone) => Ok(ObjectEvent::Listed),
                Err(error) => Err(error),
            };
            let told = match told {
                Ok(ObjectEvent::Listing) => Ok(ObjectEvent::Listing),
                Ok(event) => {
                    (worked, refused) = (true, None);
                    Ok(event)
                }
                Err(error) => {
                    let status = lasting(&error);
                    let since = status.as_ref().map(|_| *refused.get_or_insert_with(Instant::now));
                    let may_pass = worked && (patient || status.as_ref().is_some_and(|s| s.code != 403));
                    let passes = since.is_none_or(|since| may_pass && since.elapsed() < PATIENCE);
                    Err((error, status.filter(|_| !passes)))
                }
            };
            async move {
                match told {
                    Ok(event) => Some(Ok(event)),
                    Err((_, Some(status))) => Some(Err(ClusterError::Api(Box::new(status)))),
                    Err((error, None)) => {
                        tracing::debug!(%error, "watch interrupted");
                        tokio::time::sleep(AGAIN).await;
                        None
                    }
                }
            }
        });
        Ok(events.boxed())
    }
}

/// The server's answer, if a watch failed in a way that trying again will not mend.
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
