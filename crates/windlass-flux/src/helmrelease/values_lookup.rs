//! The values of a HelmRelease: reads what `valuesFrom` refers to, and composes it with `values`.

use std::collections::BTreeMap;

use chart_compat::chart::read_values;
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use serde_json::Value;

use super::chart_artifact::failed;
use super::values::{ValuesSource, compose};
use flux_api::helm_release::{self as api, HelmReleaseSpec};
use windlass_cluster::Cluster;
use windlass_controller::{MissingText, ReconcileError, References, ValuesReference, check_values_kind};
use windlass_render::replay::{LookupQuery, answer_digest};
use windlass_render::{lookup_object, note_values};

/// The values of a HelmRelease in a namespace. `references` gets what was read, with digests, to be watched.
///
/// # Errors
/// A source is missing or has no values, or the values cannot be composed.
pub(super) async fn resolve(
    client: &Cluster,
    namespace: &str,
    spec: &HelmReleaseSpec,
    references: &mut References,
) -> Result<Map, ReconcileError> {
    let inline = match &spec.values {
        None | Some(Value::Null) => Map::new(),
        Some(values) => read_values(values.to_string().as_bytes(), Profile::Helm4)
            .map_err(|e| failed("ValuesError", format!("spec.values: {e}")))?,
    };
    let mut read: BTreeMap<LookupQuery, Option<Data>> = BTreeMap::new();
    let mut sources = Vec::new();
    for api::ValuesReference { kind, name, values_key, target_path, optional, literal } in &spec.values_from {
        let reference = ValuesReference {
            kind: kind.clone(),
            name: name.clone(),
            values_key: values_key.clone(),
            target_path: target_path.clone(),
            optional: *optional,
        };
        // The operator reads it: with any other kind a tenant would choose what.
        check_values_kind(kind).map_err(|e| failed("ValuesError", format!("spec.valuesFrom: {e}")))?;
        let query = reference.query(namespace);
        if !read.contains_key(&query) {
            let object = lookup_object(client, &query)
                .await
                .map_err(|e| failed("ValuesError", format!("{kind} {namespace}/{name}: {e}")))?;
            let empty = Data::Map(Map::new());
            references.insert(query.clone(), answer_digest(object.as_ref().unwrap_or(&empty)));
            read.insert(query.clone(), object);
        }
        let object = read.get(&query).and_then(Option::as_ref);
        let source = values_source(&reference, *literal, object, namespace)?;
        if kind == "Secret"
            && let Some(source) = source.as_ref().filter(|source| source.target_path.is_some())
        {
            note_secret(source);
        }
        sources.extend(source);
    }
    compose(&sources, &inline).map_err(|e| failed("ValuesError", e.into()))
}

/// Masks in messages what a path makes of a Secret's text: lists and texts without backslashes. What cannot be composed is an error of
/// all sources together, which quotes nothing of it.
fn note_secret(source: &ValuesSource) {
    if let Ok(values) = compose(std::slice::from_ref(source), &Map::new()) {
        note_values(&Data::Map(values));
    }
}

/// The text of a reference; `None` if it is absent and optional. Errors as helm-controller's.
fn values_source(
    reference: &ValuesReference,
    literal: bool,
    object: Option<&Data>,
    namespace: &str,
) -> Result<Option<ValuesSource>, ReconcileError> {
    let ValuesReference { kind, name, values_key, .. } = reference;
    let why = match reference.text_of(object) {
        Ok(text) => {
            return Ok(Some(ValuesSource {
                name: format!("{kind} {namespace}/{name}, key {values_key}"),
                text,
                target_path: reference.target_path.clone(),
                literal,
            }));
        }
        Err(MissingText::Object | MissingText::Key) if reference.optional => return Ok(None),
        Err(MissingText::Object) => "resource not found",
        Err(MissingText::Key) => "key not found",
        Err(MissingText::Base64 | MissingText::Utf8) => "not base64 of UTF-8 text",
    };
    let text = format!(
        "could not resolve {kind} chart values reference '{namespace}/{name}' with key '{values_key}': {why}"
    );
    Err(failed("ValuesError", text))
}
