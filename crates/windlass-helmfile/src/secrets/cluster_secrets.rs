//! `k8s`: Secrets and ConfigMaps, `v1/KIND/NAMESPACE/NAME[/KEY]`, with the connection of the run.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Document;
use super::secret_reference::Reference;
use crate::error::HelmfileError;
use helmfile_compat::value::{Map, Value};
use windlass_cluster::{Cluster, ConnectOptions, Gvk, ObjectRef};

/// The data of an object, or one key of it.
pub(super) async fn read(options: &ConnectOptions, reference: &Reference) -> Result<Document, HelmfileError> {
    let parts: Vec<&str> = reference.path.split('/').collect();
    let (kind, namespace, name, key) = match parts.as_slice() {
        ["v1", kind, namespace, name] => (*kind, *namespace, *name, None),
        ["v1", kind, namespace, name, key] if !key.is_empty() => (*kind, *namespace, *name, Some(*key)),
        _ => {
            return Err(HelmfileError::Secret(
                "the path has the form v1/KIND/NAMESPACE/NAME[/KEY]".to_owned(),
            ));
        }
    };
    if !matches!(kind, "Secret" | "ConfigMap") {
        return Err(HelmfileError::Secret(
            "there are references to the kinds Secret and ConfigMap".to_owned(),
        ));
    }
    reference.refuse("inCluster", "without a kubeconfig the service account of the Pod is used")?;
    let mut options = options.clone();
    if let Some(path) = reference.parameter("kubeConfigPath") {
        options.kubeconfig = Some(PathBuf::from(path));
    }
    if let Some(context) = reference.parameter("kubeContext") {
        options.context = Some(context);
    }
    let cluster = Cluster::connect(&options).await.map_err(HelmfileError::cause)?;
    let object = ObjectRef::new(Gvk::new("v1", kind), Some(namespace), name);
    let found = cluster.get(&object).await.map_err(HelmfileError::cause)?;
    let found = found.ok_or_else(|| HelmfileError::Secret(format!("{kind} {namespace}/{name} not found")))?;
    let found = found["data"].as_object();
    if let Some(key) = key {
        let value = found.and_then(|data| data.get(key));
        let value = value.ok_or_else(|| {
            HelmfileError::Secret(format!("key {key} does not exist in {namespace}/{name}"))
        })?;
        return text_of(kind, key, value).map(Document::Text);
    }
    let mut data = Map::new();
    for (key, value) in found.into_iter().flatten() {
        match text_of(kind, key, value) {
            Ok(text) => drop(data.insert(key.clone(), Value::String(text))),
            // Only the value that is asked for must be a text.
            Err(error) if reference.keys.first() == Some(key) => return Err(error),
            Err(_) => {}
        }
    }
    if !reference.keys.is_empty() {
        return Ok(Document::Map(data));
    }
    let json = data.into_iter().map(|(key, value)| (key, serde_json::Value::String(value.go_text())));
    Ok(Document::Text(serde_json::Value::Object(json.collect()).to_string()))
}

/// The text of a key of an object.
fn text_of(kind: &str, key: &str, value: &serde_json::Value) -> Result<String, HelmfileError> {
    let text = value.as_str().unwrap_or_default();
    if kind != "Secret" {
        return Ok(text.to_owned());
    }
    let bytes =
        STANDARD.decode(text).map_err(|_| HelmfileError::Secret(format!("the key {key} is not base64")))?;
    String::from_utf8(bytes).map_err(|_| HelmfileError::Secret(format!("the key {key} is not UTF-8 text")))
}
