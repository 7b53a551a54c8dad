//! The checksum of a render: equal for equal objects and hooks in any format.

use sha2::{Digest, Sha256};

use super::{Error, Manifest, Rendered};
use crate::json;
use crate::yaml;

fn canonical(m: &Manifest) -> Result<Option<String>, Error> {
    let data = yaml::from_slice(m.text.as_bytes()).map_err(|e| Error::yaml(&m.source, &m.text, &e))?;
    if data == crate::data::Data::Null {
        return Ok(None);
    }
    json::to_string(&data).map(Some).map_err(|e| Error::manifest(&m.source, &m.text, e.to_string()))
}

impl Rendered {
    /// The SHA-256, in hexadecimal, of all objects and hooks in canonical form: parsed, keys sorted, without comments and layout,
    /// independent of the order of objects.
    ///
    /// # Errors
    /// A document that is not YAML.
    pub fn checksum(&self) -> Result<String, Error> {
        let mut lines = Vec::with_capacity(self.manifests.len() + self.hooks.len());
        for m in &self.manifests {
            lines.extend(canonical(m)?);
        }
        for h in &self.hooks {
            if let Some(text) = canonical(&h.manifest)? {
                // Events, weight and policies are annotations, so the object's text contains them.
                lines.push(format!("hook {text}"));
            }
        }
        lines.sort_unstable();
        let mut hash = Sha256::new();
        for line in &lines {
            hash.update(line.as_bytes());
            hash.update(b"\n");
        }
        let mut out = String::with_capacity(64);
        for byte in hash.finalize() {
            out.push_str(&format!("{byte:02x}"));
        }
        Ok(out)
    }
}
