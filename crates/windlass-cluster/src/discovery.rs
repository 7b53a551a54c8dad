//! Which kinds the cluster serves, under which resource name and scope.
//!
//! Read lazily through aggregated discovery (two requests for everything), kept until someone asks for a fresh one or
//! for a kind that is not there. In a process with a [kind watch](super::kind_watch) it is also read after each change of a
//! definition. Whoever waits for a kind subscribes to the changes.

use super::{
    api_client::{ApiCall, Cluster},
    error::{ClusterError, Result},
    object_ref::Gvk,
};
use serde::Deserialize;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};
use tokio::sync::{Notify, watch};

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
    application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
const LIST: &str = "APIGroupDiscoveryList";
/// A missing kind is looked up again no sooner than this.
const MISS_PAUSE: Duration = Duration::from_secs(1);
/// A server is upgraded now and then; many charts are rendered meanwhile.
const VERSION_KEPT: Duration = Duration::from_secs(30);

/// A served kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedResource {
    pub plural: String,
    pub namespaced: bool,
    /// It can be listed and watched.
    pub watchable: bool,
    /// Other names that users type, in lower case: the singular and short names.
    pub aliases: Vec<String>,
}

/// Everything that the cluster serves, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedKinds {
    resources: BTreeMap<Gvk, ServedResource>,
    /// The same kinds in the order in which the server prefers them.
    preferred: Vec<Gvk>,
    group_versions: BTreeSet<String>,
    /// Groups whose server did not answer: what they serve is not known.
    pub stale: Vec<String>,
}

impl ServedKinds {
    pub fn get(&self, gvk: &Gvk) -> Option<&ServedResource> {
        self.resources.get(gvk)
    }

    /// The kind for a kind, plural, singular or short name in any case; of several the one that the server prefers.
    /// An empty API version means any.
    pub fn find(&self, api_version: &str, name: &str) -> Option<&Gvk> {
        let name = name.to_lowercase();
        self.preferred.iter().find(|gvk| {
            let resource = &self.resources[*gvk];
            (api_version.is_empty() || gvk.api_version() == api_version)
                && (gvk.kind.to_lowercase() == name
                    || resource.plural == name
                    || resource.aliases.contains(&name))
        })
    }

    /// The served version of a kind that is not served in this version: of the same group, or of the group that
    /// replaced `extensions`. `None` if it is served, removed, or unknown because its server is down.
    pub fn successor(&self, gvk: &Gvk) -> Option<&Gvk> {
        const SUCCESSORS: [&str; 3] = ["apps", "networking.k8s.io", "policy"];
        if self.resources.contains_key(gvk) || self.stale.contains(&gvk.api_version()) {
            return None;
        }
        let heir =
            |group: &str| group == gvk.group || gvk.group == "extensions" && SUCCESSORS.contains(&group);
        self.preferred.iter().find(|other| other.kind == gvk.kind && heir(&other.group))
    }

    /// `group/version` and `group/version/Kind` of all that is served: Helm's `.Capabilities.APIVersions`.
    pub fn api_versions(&self) -> Vec<String> {
        let kinds = self.resources.keys().map(|gvk| format!("{}/{}", gvk.api_version(), gvk.kind));
        let mut all: Vec<String> = self.group_versions.iter().cloned().chain(kinds).collect();
        all.sort_unstable();
        all
    }
}

#[derive(Default)]
pub(crate) struct Discovery {
    version: tokio::sync::Mutex<Option<(Instant, Value)>>,
    known: RwLock<Option<(Instant, Arc<ServedKinds>)>>,
    /// One refresh at a time; the others take its result.
    refreshing: tokio::sync::Mutex<()>,
    /// Number of reads that found other kinds than the read before.
    changes: watch::Sender<u64>,
    /// A definition of kinds was created, changed or deleted.
    pub(super) definitions: Notify,
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: GroupMeta,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Deserialize, Default)]
struct GroupMeta {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
    #[serde(default)]
    freshness: String,
    #[serde(default)]
    resources: Vec<GroupResource>,
}

#[derive(Deserialize)]
struct GroupResource {
    resource: String,
    #[serde(default, rename = "responseKind")]
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default, rename = "singularResource")]
    singular: String,
    #[serde(default, rename = "shortNames")]
    short_names: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

/// Parses an `APIGroupDiscoveryList`; `None` for another kind. Parses no generic tree, which would be the largest
/// value in memory.
fn read(kinds: &mut ServedKinds, answer: &str) -> Option<()> {
    let list: GroupList = serde_json::from_str(answer).ok().filter(|l: &GroupList| l.kind == LIST)?;
    for group in list.items {
        for version in group.versions {
            let gvk = |kind: &str| Gvk {
                group: group.metadata.name.clone(),
                version: version.version.clone(),
                kind: kind.to_owned(),
            };
            let api_version = gvk("").api_version();
            if version.freshness == "Stale" {
                kinds.stale.push(api_version.clone());
            }
            kinds.group_versions.insert(api_version);
            for resource in version.resources {
                let Some(kind) = resource.response_kind.filter(|k| !k.kind.is_empty()) else { continue };
                let watchable = ["list", "watch"].iter().all(|verb| resource.verbs.iter().any(|v| v == verb));
                let namespaced = resource.scope == "Namespaced";
                let mut aliases = resource.short_names;
                aliases.extend(Some(resource.singular).filter(|s| !s.is_empty()));
                let served = ServedResource { plural: resource.resource, namespaced, watchable, aliases };
                let gvk = gvk(&kind.kind);
                if !kinds.resources.contains_key(&gvk) {
                    kinds.preferred.push(gvk.clone());
                    kinds.resources.insert(gvk, served);
                }
            }
        }
    }
    Some(())
}

/// A read since then is new enough to say that a kind is missing.
fn miss_pause() -> Instant {
    Instant::now().checked_sub(MISS_PAUSE).unwrap_or_else(Instant::now)
}

impl Cluster {
    /// All served kinds as they were last read. Whoever needs certain kinds asks [`Self::kinds_with`].
    pub async fn kinds(&self) -> Result<Arc<ServedKinds>> {
        match self.known() {
            Some((_, kinds)) => Ok(kinds),
            None => self.read_kinds(None).await,
        }
    }

    /// Reads all served kinds again, unless that happened after `since`.
    pub async fn refresh_kinds(&self, since: Instant) -> Result<Arc<ServedKinds>> {
        self.read_kinds(Some(since)).await
    }

    /// `since`: an older read does not count.
    async fn read_kinds(&self, since: Option<Instant>) -> Result<Arc<ServedKinds>> {
        let _alone = self.discovery().refreshing.lock().await;
        if let Some((read_at, kinds)) = self.known()
            && since.is_none_or(|since| read_at >= since)
        {
            return Ok(kinds);
        }
        let started = Instant::now();
        let mut kinds = ServedKinds::default();
        let fetch = async |path| self.call_text(&ApiCall { accept: ACCEPT, ..ApiCall::get(path) }).await;
        let ((core, _), (groups, _)) = tokio::try_join!(fetch("/api"), fetch("/apis"))?;
        for (path, answer) in [("/api", core), ("/apis", groups)] {
            read(&mut kinds, &answer).ok_or_else(|| ClusterError::Answer {
                path: path.into(),
                reason: "no aggregated discovery: Kubernetes 1.27 or newer is needed".into(),
            })?;
        }
        let kinds = Arc::new(kinds);
        let mut known = self.discovery().known.write().unwrap_or_else(PoisonError::into_inner);
        let before = known.replace((started, Arc::clone(&kinds)));
        drop(known);
        if before.is_some_and(|(_, before)| before != kinds) {
            self.discovery().changes.send_modify(|changes| *changes += 1);
        }
        Ok(kinds)
    }

    /// All served kinds. Read again, at most once a second, if one of those that are needed is missing.
    ///
    /// # Errors
    /// Discovery cannot be read.
    pub async fn kinds_with(&self, needed: impl IntoIterator<Item = Gvk>) -> Result<Arc<ServedKinds>> {
        let kinds = self.kinds().await?;
        if needed.into_iter().all(|gvk| kinds.get(&gvk).is_some()) {
            return Ok(kinds);
        }
        self.refresh_kinds(miss_pause()).await
    }

    /// All served kinds, as they were a second ago at most.
    ///
    /// # Errors
    /// Discovery cannot be read.
    pub async fn current_kinds(&self) -> Result<Arc<ServedKinds>> {
        self.refresh_kinds(miss_pause()).await
    }

    /// Becomes different each time that a read finds other kinds than the one before.
    #[must_use]
    pub fn kind_changes(&self) -> watch::Receiver<u64> {
        self.discovery().changes.subscribe()
    }

    /// A definition of kinds was created, changed or deleted: a [kind watch](super::kind_watch) reads discovery again.
    pub fn note_definition_change(&self) {
        self.discovery().definitions.notify_one();
    }

    /// Whether the last read found a kind.
    #[must_use]
    pub fn is_known_to_serve(&self, gvk: &Gvk) -> bool {
        self.known().is_some_and(|(_, kinds)| kinds.get(gvk).is_some())
    }

    fn known(&self) -> Option<(Instant, Arc<ServedKinds>)> {
        self.discovery().known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The resource of a kind; refreshes discovery once if the kind is unknown.
    pub async fn resource(&self, gvk: &Gvk) -> Result<ServedResource> {
        if let Some(found) = self.kinds().await?.get(gvk) {
            return Ok(found.clone());
        }
        let kinds = self.refresh_kinds(miss_pause()).await?;
        kinds.get(gvk).cloned().ok_or_else(|| ClusterError::NoKind(Box::new(gvk.clone())))
    }

    /// The kind for a name; refreshes discovery once if there is none.
    pub async fn find_kind(&self, api_version: &str, name: &str) -> Result<Gvk> {
        if let Some(found) = self.kinds().await?.find(api_version, name) {
            return Ok(found.clone());
        }
        let kinds = self.refresh_kinds(miss_pause()).await?;
        let missing = || ClusterError::NoKind(Box::new(Gvk::new(api_version, name)));
        kinds.find(api_version, name).cloned().ok_or_else(missing)
    }

    /// The server's version, as `/version` gives it (`gitVersion`, `major`, `minor`): no older than half a minute.
    pub async fn version(&self) -> Result<Value> {
        let mut kept = self.discovery().version.lock().await;
        if let Some((_, version)) = kept.as_ref().filter(|(asked, _)| asked.elapsed() < VERSION_KEPT) {
            return Ok(version.clone());
        }
        let version = self.call(ApiCall::get("/version")).await?.value;
        *kept = Some((Instant::now(), version.clone()));
        Ok(version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_groups_versions_and_kinds() {
        let list = json!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                {"resource": "deployments", "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
                 "scope": "Namespaced", "verbs": ["list", "watch", "patch"], "singularResource": "deployment",
                 "shortNames": ["deploy"]}]}]},
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]}]});
        let mut kinds = ServedKinds::default();
        read(&mut kinds, &list.to_string()).unwrap();
        let deployment = kinds.get(&Gvk::new("apps/v1", "Deployment")).unwrap();
        assert_eq!(
            (deployment.plural.as_str(), deployment.namespaced, deployment.watchable),
            ("deployments", true, true)
        );
        assert_eq!(kinds.api_versions(), ["apps/v1", "apps/v1/Deployment", "metrics.k8s.io/v1beta1"]);
        assert_eq!(kinds.stale, ["metrics.k8s.io/v1beta1"]);
        let heir = |api_version: &str, kind: &str| kinds.successor(&Gvk::new(api_version, kind));
        let current = Gvk::new("apps/v1", "Deployment");
        for old in ["apps/v1beta2", "extensions/v1beta1"] {
            assert_eq!(heir(old, "Deployment"), Some(&current), "{old}");
        }
        for (none, kind) in [
            ("apps/v1", "Deployment"),
            ("example.com/v1", "Deployment"),
            ("apps/v1beta1", "Scale"),
            ("v1", "Pod"),
        ] {
            assert_eq!(heir(none, kind), None, "{none} {kind}");
        }
        for (api_version, name) in
            [("", "deploy"), ("apps/v1", "DEPLOYMENT"), ("", "Deployments"), ("", "deployment")]
        {
            assert_eq!(kinds.find(api_version, name), Some(&Gvk::new("apps/v1", "Deployment")), "{name}");
        }
        assert_eq!((kinds.find("v1", "deploy"), kinds.find("", "dep")), (None, None));
        assert!(read(&mut kinds, r#"{"kind": "APIGroupList", "groups": []}"#).is_none());
    }
}
