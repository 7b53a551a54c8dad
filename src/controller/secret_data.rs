//! Secrets that an object refers to, in its own namespace.
//!
//! Owns the reading: what is read is watched, and its values are masked in whatever the process says. What the keys mean is the
//! front end's.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::data::{Data, Map};

use super::error::ReconcileError;
use super::reconcile_pass::ReconcilePass;
use crate::redact;
use crate::render::lookup_object;
use crate::render::replay::{LookupQuery, answer_digest};

impl ReconcilePass {
    /// The data of a Secret in the object's namespace. `field`: where the object names it, for errors.
    ///
    /// # Errors
    /// It does not exist, or a value is not base64.
    pub async fn secret_data(
        &mut self,
        field: &str,
        name: &str,
    ) -> Result<BTreeMap<String, Vec<u8>>, ReconcileError> {
        let query = LookupQuery {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            namespace: self.reference.namespace.clone().unwrap_or_default(),
            name: name.to_owned(),
        };
        let wrong = |text: &str| ReconcileError::Config(format!("{field}: Secret {name:?} {text}"));
        let object = lookup_object(self.client(), &query)
            .await
            .map_err(|error| wrong(&format!("cannot be read: {error}")))?;
        let digest = answer_digest(object.as_ref().unwrap_or(&Data::Map(Map::new())));
        self.references.insert(query, digest);
        let object = object.ok_or_else(|| wrong("does not exist"))?;
        let mut data = BTreeMap::new();
        for (key, value) in object.get("data").and_then(Data::as_map).into_iter().flatten() {
            let bytes = STANDARD
                .decode(value.as_str().unwrap_or_default())
                .map_err(|_| wrong(&format!("has a key {key:?} that is not base64")))?;
            if let Ok(text) = std::str::from_utf8(&bytes) {
                redact::add(text);
            }
            data.insert(key.clone(), bytes);
        }
        Ok(data)
    }
}
