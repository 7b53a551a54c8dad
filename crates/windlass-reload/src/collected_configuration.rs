//! Configuration that is collected from the namespace into a directory of a workload's containers. Pure.
//!
//! A ConfigMap or Secret names collections by an annotation, and a workload names the directory of a collection. The collection is a
//! projected volume of the workload's Pod template, under a field manager of its own: a release that applies the workload keeps it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_cluster::ObjectMeta;

use super::followed_objects::WorkloadKind;
use super::pod_references::{Configuration, ConfigurationKind};

/// Annotation of a ConfigMap or Secret: the collections that it is part of, separated by commas.
const COLLECTION: &str = "windlass.dev/collection";
/// Annotation of a workload or of its Pod template: `COLLECTION=/DIRECTORY` or `COLLECTION=/DIRECTORY@CONTAINER`, separated by commas.
const COLLECTED: &str = "windlass.dev/collected-configuration";
/// How the volumes are named.
const VOLUME: &str = "windlass-collected-";
/// The longest name of a collection: the name of its volume has 63 characters.
const MAX_NAME: usize = 63 - VOLUME.len();
/// The most collections of an object, or of a workload.
const MAX_COLLECTIONS: usize = 20;
/// The most objects of a collection in a namespace: the first ones by kind and name.
const MAX_MEMBERS: usize = 100;
/// The longest directory, in bytes.
const MAX_DIRECTORY: usize = 1024;

/// The collections that an object of configuration is part of. Words that can be none are left out: no workload can ask for them.
pub(crate) fn collections_of(meta: ObjectMeta<'_>) -> BTreeSet<String> {
    let words = meta.annotation(COLLECTION).unwrap_or_default().split(',').map(str::trim);
    words.filter(|word| is_collection(word)).take(MAX_COLLECTIONS).map(str::to_owned).collect()
}

/// A directory of a workload's containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectionRequest {
    /// What is in it.
    pub(crate) collection: String,
    directory: String,
    /// The only container that has it; `None`: all.
    container: Option<String>,
}

/// Reads what a workload asks for, and says what of it cannot be used. `pod`: the spec of its Pod template.
pub(crate) fn collection_requests(
    kind: WorkloadKind,
    meta: ObjectMeta<'_>,
    template_meta: ObjectMeta<'_>,
    (containers, pod): (&[String], &Value),
) -> (Vec<CollectionRequest>, Vec<String>) {
    let (mut requests, mut errors) = (Vec::<CollectionRequest>::new(), Vec::new());
    let Some(text) = meta.annotation(COLLECTED).or_else(|| template_meta.annotation(COLLECTED)) else {
        return (requests, errors);
    };
    if matches!(kind, WorkloadKind::Job | WorkloadKind::Rollout) {
        errors.push(format!("{COLLECTED} is for Deployments, StatefulSets, DaemonSets and CronJobs"));
        return (requests, errors);
    }
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.len() > MAX_COLLECTIONS {
        errors.push(format!(
            "{COLLECTED} names {} collections: at most {MAX_COLLECTIONS} are taken",
            parts.len()
        ));
    }
    for part in parts.into_iter().take(MAX_COLLECTIONS) {
        match read_request(part, containers) {
            Ok(request) if requests.iter().any(|other| other.overlaps(&request)) => {
                errors.push(format!("{COLLECTED}: {part:?}: another collection has this directory"));
            }
            // Two field managers would take the mount from each other, and roll out each time.
            Ok(request) if request.is_taken(pod) => {
                errors.push(format!("{COLLECTED}: {part:?}: another volume is mounted at this directory"));
            }
            Ok(request) => requests.push(request),
            Err(error) => errors.push(format!("{COLLECTED}: {part:?}: {error}")),
        }
    }
    (requests, errors)
}

impl CollectionRequest {
    /// Whether a volume that is no collection is mounted at the directory.
    fn is_taken(&self, pod: &Value) -> bool {
        let is_asked = |container: &&Value| {
            self.container.as_ref().is_none_or(|only| container["name"].as_str() == Some(only))
        };
        let mounts = items(&pod["containers"]).filter(is_asked).flat_map(|one| items(&one["volumeMounts"]));
        mounts.into_iter().any(|mount| {
            let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
            text(&mount["mountPath"]).trim_end_matches('/') == self.directory
                && !text(&mount["name"]).starts_with(VOLUME)
        })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let both = self.container.is_none() || other.container.is_none() || self.container == other.container;
        self.directory == other.directory && both
    }
}

fn read_request(text: &str, containers: &[String]) -> Result<CollectionRequest, String> {
    let (collection, place) =
        text.split_once('=').ok_or("write COLLECTION=/DIRECTORY or COLLECTION=/DIRECTORY@CONTAINER")?;
    let (directory, container) = match place.rsplit_once('@') {
        Some((directory, container)) => (directory, Some(container)),
        None => (place, None),
    };
    let directory = directory.trim_end_matches('/');
    if !is_collection(collection) {
        return Err(format!(
            "a collection's name has at most {MAX_NAME} of a-z, 0-9 and -, none of them - at an end"
        ));
    }
    if !is_directory(directory) {
        return Err(format!(
            "the directory is an absolute path of at most {MAX_DIRECTORY} bytes without : and .."
        ));
    }
    if let Some(absent) = container.filter(|name| containers.iter().all(|known| known != name)) {
        return Err(format!("no container is named {absent:?}: there are {}", containers.join(", ")));
    }
    Ok(CollectionRequest {
        collection: collection.to_owned(),
        directory: directory.to_owned(),
        container: container.map(str::to_owned),
    })
}

fn is_collection(name: &str) -> bool {
    let is_word = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    !name.is_empty() && name.len() <= MAX_NAME && is_word && !name.starts_with('-') && !name.ends_with('-')
}

fn is_directory(path: &str) -> bool {
    let has_parent = path.split('/').any(|part| part == "..");
    let is_plain = !path.contains(':') && !path.chars().any(char::is_control);
    path.len() > 1 && path.len() <= MAX_DIRECTORY && path.starts_with('/') && is_plain && !has_parent
}

/// The collected volumes of a Pod template, and where they are mounted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CollectedVolumes {
    /// The objects of each volume, in the order of its sources: later ones win where keys are equal.
    volumes: BTreeMap<String, Vec<Configuration>>,
    /// The volume of a container and a directory.
    mounts: BTreeMap<(String, String), String>,
}

impl CollectedVolumes {
    /// Those that a Pod spec has.
    pub(crate) fn of(pod: &Value) -> Self {
        let mut out = Self::default();
        for volume in items(&pod["volumes"]) {
            let Some(name) = volume["name"].as_str().filter(|name| name.starts_with(VOLUME)) else {
                continue;
            };
            let sources = items(&volume["projected"]["sources"]).filter_map(configuration).collect();
            out.volumes.insert(name.to_owned(), sources);
        }
        for container in items(&pod["containers"]) {
            for mount in items(&container["volumeMounts"]) {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let volume = text(&mount["name"]);
                if volume.starts_with(VOLUME) {
                    out.mounts.insert((text(&container["name"]), text(&mount["mountPath"])), volume);
                }
            }
        }
        out
    }

    /// Those that a workload is to have. `members`: the objects of a collection in the workload's namespace. `is_unreadable`: whether a
    /// kind cannot be read now; what is mounted of it stays.
    pub(crate) fn wanted(
        &self,
        requests: &[CollectionRequest],
        containers: &[String],
        members: impl Fn(&str) -> BTreeSet<Configuration>,
        is_unreadable: impl Fn(ConfigurationKind) -> bool,
    ) -> Self {
        let mut out = Self::default();
        for request in requests {
            let volume = format!("{VOLUME}{}", request.collection);
            let mut objects = members(&request.collection);
            let present = self.volumes.get(&volume).into_iter().flatten();
            objects.extend(present.filter(|object| is_unreadable(object.kind)).cloned());
            out.volumes.insert(volume.clone(), objects.into_iter().take(MAX_MEMBERS).collect());
            let only = |name: &&String| request.container.as_ref().is_none_or(|only| only == *name);
            for container in containers.iter().filter(only) {
                out.mounts.insert((container.clone(), request.directory.clone()), volume.clone());
            }
        }
        out
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.mounts.is_empty()
    }

    /// What is applied to a workload: all that the field manager has of it.
    pub(crate) fn applied(&self, kind: WorkloadKind) -> Value {
        let mut containers = BTreeMap::<&str, Vec<Value>>::new();
        for ((container, directory), volume) in &self.mounts {
            let mount = json!({"name": volume, "mountPath": directory, "readOnly": true});
            containers.entry(container).or_default().push(mount);
        }
        let containers =
            containers.iter().map(|(name, mounts)| json!({"name": name, "volumeMounts": mounts}));
        let volumes = self.volumes.iter().map(|(name, objects)| {
            let sources: Vec<Value> = objects.iter().map(source).collect();
            json!({"name": name, "projected": {"sources": sources}})
        });
        let pod = match self.is_empty() {
            true => return json!({}),
            false => {
                json!({"containers": containers.collect::<Vec<_>>(), "volumes": volumes.collect::<Vec<_>>()})
            }
        };
        let template = json!({"template": {"spec": pod}});
        match kind {
            WorkloadKind::CronJob => json!({"spec": {"jobTemplate": {"spec": template}}}),
            _ => json!({"spec": template}),
        }
    }

    /// Names for people: the objects of all collections.
    pub(crate) fn names(&self) -> Vec<Configuration> {
        let all: BTreeSet<&Configuration> = self.volumes.values().flatten().collect();
        all.into_iter().cloned().collect()
    }
}

/// A source of a projected volume. It is optional: an object that goes keeps no Pod from its start.
fn source(object: &Configuration) -> Value {
    let reference = json!({"name": object.name, "optional": true});
    match object.kind {
        ConfigurationKind::Secret => json!({"secret": reference}),
        _ => json!({"configMap": reference}),
    }
}

fn configuration(source: &Value) -> Option<Configuration> {
    let named = |field: &str, kind| Some(Configuration::new(kind, source[field]["name"].as_str()?));
    named("configMap", ConfigurationKind::ConfigMap).or_else(|| named("secret", ConfigurationKind::Secret))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn containers() -> Vec<String> {
        ["main", "sidecar"].map(str::to_owned).to_vec()
    }

    fn read(kind: WorkloadKind, annotation: &str) -> (Vec<CollectionRequest>, Vec<String>) {
        let object = json!({"metadata": {"annotations": {COLLECTED: annotation}}});
        let taken = json!({"name": "data", "mountPath": "/taken/"});
        let pod = json!({"containers": [{"name": "main", "volumeMounts": [taken]}, {"name": "sidecar"}]});
        let none = Value::Null;
        collection_requests(kind, ObjectMeta::of(&object), ObjectMeta::of(&none), (&containers(), &pod))
    }

    #[test]
    fn requests_are_read_and_errors_name_the_part() {
        let (requests, errors) =
            read(WorkloadKind::Deployment, "drop-ins=/config/configDropins, x=/x@main,x=/y");
        assert_eq!((requests.len(), errors), (3, vec![]));
        for (text, expected) in [
            ("a", "write COLLECTION=/DIRECTORY"),
            ("A=/a", "a collection's name"),
            ("a=config", "the directory is an absolute path"),
            ("a=/a/../b", "the directory is an absolute path"),
            ("a=/a:b", "the directory is an absolute path"),
            ("a=/", "the directory is an absolute path"),
            ("a=/a@other", "no container is named \"other\": there are main, sidecar"),
            ("a=/taken", "another volume is mounted at this directory"),
            ("a=/a/,b=/a", "\"b=/a\": another collection has this directory"),
            ("a=/a@main,b=/a", "\"b=/a\": another collection has this directory"),
        ] {
            let (_, errors) = read(WorkloadKind::Deployment, text);
            assert!(errors.len() == 1 && errors[0].contains(expected), "{text}: {errors:?}");
        }
        let apart = "a=/a@main,b=/a@sidecar,c=/taken@sidecar";
        assert_eq!(read(WorkloadKind::Deployment, apart).1, Vec::<String>::new());
        assert!(read(WorkloadKind::Job, "a=/a").1[0].contains("is for Deployments"));
        let many: Vec<String> = (0..30).map(|number| format!("a=/{number}")).collect();
        let (requests, errors) = read(WorkloadKind::Deployment, &many.join(","));
        assert_eq!((requests.len(), errors.len()), (MAX_COLLECTIONS, 1));
    }

    #[test]
    fn an_object_is_part_of_collections() {
        let object = json!({"metadata": {"annotations": {COLLECTION: "a, b,,C,-d,a"}}});
        let found: Vec<String> = collections_of(ObjectMeta::of(&object)).into_iter().collect();
        assert_eq!(found, ["a", "b"]);
    }

    #[test]
    fn what_is_applied_is_what_is_read_again() {
        let (requests, _) = read(WorkloadKind::Deployment, "a=/a,b=/b@main");
        let object = |text: &str| Configuration::parse(text).unwrap();
        let members = |collection: &str| match collection {
            "a" => BTreeSet::from([object("Secret/z"), object("ConfigMap/y"), object("ConfigMap/x")]),
            _ => BTreeSet::new(),
        };
        let wanted = CollectedVolumes::default().wanted(&requests, &containers(), members, |_| false);
        let applied = wanted.applied(WorkloadKind::Deployment);
        let pod = &applied["spec"]["template"]["spec"];
        assert_eq!(
            pod["volumes"][0],
            json!({"name": "windlass-collected-a", "projected": {"sources": [
                {"configMap": {"name": "x", "optional": true}}, {"configMap": {"name": "y", "optional": true}},
                {"secret": {"name": "z", "optional": true}}]}})
        );
        assert_eq!(pod["containers"][1]["volumeMounts"].as_array().map(Vec::len), Some(1));
        assert_eq!(CollectedVolumes::of(pod), wanted);
        let cron_job = wanted.applied(WorkloadKind::CronJob);
        assert_eq!(&cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"], pod);
        // A kind that cannot be read keeps what is mounted of it.
        let only_secrets = |kind| kind == ConfigurationKind::Secret;
        let kept = wanted.wanted(&requests, &containers(), |_| BTreeSet::new(), only_secrets);
        assert_eq!(kept.names(), [object("Secret/z")]);
        // Without a request nothing is left.
        let none = wanted.wanted(&[], &containers(), members, |_| false);
        assert!(none.is_empty() && none.applied(WorkloadKind::Deployment) == json!({}));
    }
}
