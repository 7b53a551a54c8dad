//! The configuration that the containers of a Pod template use. Pure.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// The most references of a workload: more are not followed, and the workload's Event says so.
pub(crate) const MAX_REFERENCES: usize = 500;
/// The driver of volumes that a SecretProviderClass fills.
const SECRETS_DRIVER: &str = "secrets-store.csi.k8s.io";

/// A kind of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ConfigurationKind {
    /// A ConfigMap.
    ConfigMap,
    /// A Secret.
    Secret,
    /// A SecretProviderClass of the Secrets Store CSI driver.
    SecretProviderClass,
}

impl ConfigurationKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::SecretProviderClass];

    /// Its name in the Kubernetes API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::SecretProviderClass => "SecretProviderClass",
        }
    }
}

/// An object of configuration in the namespace of its workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Configuration {
    /// Its kind.
    pub(crate) kind: ConfigurationKind,
    /// Its name.
    pub(crate) name: String,
}

impl Configuration {
    /// An object by kind and name.
    pub(crate) fn new(kind: ConfigurationKind, name: &str) -> Self {
        Self { kind, name: name.to_owned() }
    }

    /// Reads what `Display` writes.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let kind = ConfigurationKind::ALL.into_iter().find(|known| known.name() == kind)?;
        Some(Self::new(kind, name))
    }
}

/// `ConfigMap/NAME`.
impl fmt::Display for Configuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
}

/// What the containers of a Pod spec use: volumes that one of them mounts, and variables. Init containers count; ephemeral ones, which no
/// template has, do not.
pub(crate) fn pod_references(spec: &Value) -> BTreeSet<Configuration> {
    let mut found = BTreeSet::new();
    let containers: Vec<&Value> =
        ["initContainers", "containers"].into_iter().flat_map(|field| items(&spec[field])).collect();
    let mounted: BTreeSet<&str> = containers
        .iter()
        .flat_map(|container| items(&container["volumeMounts"]))
        .filter_map(|mount| mount["name"].as_str())
        .collect();
    for volume in items(&spec["volumes"]) {
        if volume["name"].as_str().is_some_and(|name| mounted.contains(name)) {
            volume_references(volume, &mut found);
        }
    }
    for container in containers {
        for from in items(&container["envFrom"]) {
            add(&mut found, ConfigurationKind::ConfigMap, &from["configMapRef"]["name"]);
            add(&mut found, ConfigurationKind::Secret, &from["secretRef"]["name"]);
        }
        for variable in items(&container["env"]) {
            let from = &variable["valueFrom"];
            add(&mut found, ConfigurationKind::ConfigMap, &from["configMapKeyRef"]["name"]);
            add(&mut found, ConfigurationKind::Secret, &from["secretKeyRef"]["name"]);
        }
    }
    found
}

fn volume_references(volume: &Value, found: &mut BTreeSet<Configuration>) {
    add(found, ConfigurationKind::ConfigMap, &volume["configMap"]["name"]);
    add(found, ConfigurationKind::Secret, &volume["secret"]["secretName"]);
    for source in items(&volume["projected"]["sources"]) {
        add(found, ConfigurationKind::ConfigMap, &source["configMap"]["name"]);
        add(found, ConfigurationKind::Secret, &source["secret"]["name"]);
    }
    if volume["csi"]["driver"] == SECRETS_DRIVER {
        let class = &volume["csi"]["volumeAttributes"]["secretProviderClass"];
        add(found, ConfigurationKind::SecretProviderClass, class);
    }
}

fn add(found: &mut BTreeSet<Configuration>, kind: ConfigurationKind, name: &Value) {
    if let Some(name) = name.as_str().filter(|name| !name.is_empty()) {
        found.insert(Configuration::new(kind, name));
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_way_to_use_configuration_is_a_reference() {
        let spec = json!({
            "volumes": [
                {"name": "a", "configMap": {"name": "mounted"}},
                {"name": "b", "secret": {"secretName": "mounted"}},
                {"name": "c", "projected": {"sources": [
                    {"configMap": {"name": "projected"}}, {"secret": {"name": "projected"}}, {"serviceAccountToken": {"path": "t"}}]}},
                {"name": "d", "csi": {"driver": SECRETS_DRIVER, "volumeAttributes": {"secretProviderClass": "vault"}}},
                {"name": "e", "csi": {"driver": "other", "volumeAttributes": {"secretProviderClass": "other"}}},
                {"name": "f", "configMap": {"name": "not-mounted"}},
            ],
            "initContainers": [{"name": "i", "volumeMounts": [{"name": "a"}], "envFrom": [{"secretRef": {"name": "init"}}]}],
            "containers": [{
                "name": "m",
                "volumeMounts": [{"name": "b"}, {"name": "c"}, {"name": "d"}, {"name": "e"}],
                "envFrom": [{"configMapRef": {"name": "all"}}, {"configMapRef": {"name": ""}}],
                "env": [
                    {"name": "x", "value": "y"},
                    {"name": "k", "valueFrom": {"configMapKeyRef": {"name": "one", "key": "k"}}},
                    {"name": "s", "valueFrom": {"secretKeyRef": {"name": "one", "key": "k"}}},
                ],
            }],
        });
        let found: Vec<String> = pod_references(&spec).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "ConfigMap/all",
                "ConfigMap/mounted",
                "ConfigMap/one",
                "ConfigMap/projected",
                "Secret/init",
                "Secret/mounted",
                "Secret/one",
                "Secret/projected",
                "SecretProviderClass/vault"
            ]
        );
        for text in &found {
            assert_eq!(Configuration::parse(text).map(|parsed| parsed.to_string()).as_ref(), Some(text));
        }
        assert_eq!(pod_references(&Value::Null), BTreeSet::new());
        assert_eq!(Configuration::parse("Pod/a"), None);
    }
}
