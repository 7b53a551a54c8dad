//! Values that a module's ConfigMap keys refer to, for explanations.
//!
//! Owns which values an explanation contains: of values from Secrets only the names.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map};
use chart_compat::yaml::Room;
use serde_json::Value;

use windlass_cluster::{Cluster, ObjectMeta};
use windlass_controller::ValuesReference;
use windlass_modules::addon::config::REFERENCES_SUFFIX;
use windlass_render::lookup_object;

/// The values of one reference, as an explanation contains them.
pub struct ReferredValues {
    /// The object and its key, and the key of the ConfigMap with the reference.
    pub name: String,
    /// The values; those of a Secret are hidden.
    pub values: Map,
}

/// The replacement of hidden values.
const HIDDEN: &str = "(hidden)";

/// Hides all values, but keeps their names.
fn hide(value: &mut Data) {
    match value {
        Data::Map(map) => map.values_mut().for_each(hide),
        other => *other = Data::String(HIDDEN.to_owned()),
    }
}

/// The values that sections of a ConfigMap refer to, by section, in ascending precedence.
///
/// # Errors
/// A list of references is invalid, or an object cannot be read or contains no values. The operator then uses the last valid
/// values, which only it knows.
pub async fn referred_values(
    cluster: &Cluster,
    config_map: &Value,
    sections: &[&str],
) -> Result<BTreeMap<String, Vec<ReferredValues>>, String> {
    let namespace = ObjectMeta::of(config_map).namespace().unwrap_or_default();
    let mut all = BTreeMap::new();
    let room = Room::default();
    for section in sections {
        let key = format!("{section}{REFERENCES_SUFFIX}");
        let Some(text) = config_map["data"][&key].as_str() else { continue };
        let failed = |e: String| format!("ConfigMap key {key}: {e}");
        let mut list = Vec::new();
        for reference in ValuesReference::list(text).map_err(failed)? {
            let object = lookup_object(cluster, &reference.query(namespace))
                .await
                .map_err(|e| failed(format!("{} {}: {e}", reference.kind, reference.name)))?;
            let mut values = Map::new();
            reference.merge_into(object.as_ref(), &mut values, &room).map_err(failed)?;
            if reference.kind == "Secret" {
                values.values_mut().for_each(hide);
            }
            let ValuesReference { kind, name, values_key, .. } = &reference;
            list.push(ReferredValues {
                name: format!("{kind} {namespace}/{name} key {values_key} ({key})"),
                values,
            });
        }
        all.insert((*section).to_owned(), list);
    }
    Ok(all)
}
