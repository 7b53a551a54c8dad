//! The hash that names of generated objects end with.
//!
//! Owns what is hashed, and the alphabet.

use chart_compat::data::{Data, Map};
use chart_compat::json;
use chart_compat::yaml::tree::Kind;
use sha2::{Digest as _, Sha256};

use crate::error::Error;
use crate::resource::{Resource, to_data};

/// The hash of an object's contents.
///
/// # Errors
/// The object is neither a ConfigMap nor a Secret, or has no form in JSON.
pub fn hash(object: &Resource) -> Result<String, Error> {
    let kind = object.node.get("kind").map_or("", |k| k.value.as_str());
    let fields: &[&str] = match kind {
        "ConfigMap" => &["data", "binaryData"],
        "Secret" => &["type", "data", "stringData"],
        other => {
            // kustomize hashes the positions of the fields in its intermediate texts.
            return Err(Error::text(format!("a hash of the contents of a {other} is not supported")));
        }
    };
    // The name has no part in it: kustomize looks it up under a key that no object has.
    let mut map = Map::from([("kind".to_owned(), Data::from(kind)), ("name".to_owned(), Data::from(""))]);
    for field in fields {
        let value = value(object, field)?;
        let optional = matches!(*field, "binaryData" | "stringData");
        if !optional || matches!(value, Data::Map(_)) {
            map.insert((*field).to_owned(), value);
        }
    }
    let text = json::to_string(&Data::Map(map)).map_err(|e| Error::Json(e.0.to_owned()))?;
    let hex: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let encode = |c| match c {
        '0' => 'g',
        '1' => 'h',
        '3' => 'k',
        'a' => 'm',
        'e' => 't',
        c => c,
    };
    Ok(hex.chars().take(10).map(encode).collect())
}

fn value(object: &Resource, field: &str) -> Result<Data, Error> {
    Ok(match object.node.get(field) {
        None => Data::from(""),
        Some(node) if node.kind == Kind::Scalar => Data::String(node.value.clone()),
        Some(node) => to_data(node)?,
    })
}
