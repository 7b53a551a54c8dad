//! `Chart.lock`: the resolved dependencies, and the digest that ties it to `Chart.yaml`.

use chart_compat::chart::{Dependency, Metadata};
use chart_compat::data::{Data, Map};
use chart_compat::json::{Writer, write_data};
use chart_compat::profile::Profile;
use chart_compat::yaml;
use sha2::{Digest as _, Sha256};
use windlass_base::hex::hex;

/// A lock file.
#[derive(Clone, Debug, Default)]
pub struct Lock {
    /// When it was generated, RFC 3339.
    pub generated: String,
    /// The digest of the declared and the resolved dependencies.
    pub digest: String,
    /// Each dependency at one version.
    pub dependencies: Vec<Dependency>,
}

/// Why a lock file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// A field has the wrong type, in Go's words.
    #[error("{0}")]
    Field(String),
    /// A dependency is empty.
    #[error("dependencies must not contain empty or null nodes")]
    NullDependency,
}

impl Lock {
    /// Parses the loaded file.
    ///
    /// # Errors
    /// A field has the wrong type, in Go's words.
    pub fn read(data: &Data) -> Result<Self, LockError> {
        let text = |key: &str| data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned();
        let mut metadata = Metadata::default();
        if let Some(list) = data.get("dependencies") {
            let map: Map = [("dependencies".to_owned(), list.clone())].into();
            metadata.read(&map, Profile::Helm4).map_err(LockError::Field)?;
        }
        let dependencies = metadata.dependencies.unwrap_or_default();
        if dependencies.iter().any(|d| d.is_null) {
            return Err(LockError::NullDependency);
        }
        Ok(Self { generated: text("generated"), digest: text("digest"), dependencies })
    }

    /// The file's text.
    ///
    /// # Errors
    /// A value of a dependency cannot be written as YAML.
    pub fn text(&self) -> Result<String, yaml::WriteError> {
        let entries = [
            ("dependencies", Data::List(self.dependencies.iter().map(Dependency::data).collect())),
            ("digest", self.digest.as_str().into()),
            ("generated", self.generated.as_str().into()),
        ];
        let map: Map = entries.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        yaml::to_string(&map.into())
    }
}

/// The digest of declared and locked dependencies (`resolver.HashReq`).
#[must_use]
pub fn digest(declared: &[Dependency], locked: &[Dependency]) -> String {
    sum(|w| {
        w.begin_list();
        for list in [declared, locked] {
            write_list(w, list);
        }
        w.end_list();
    })
}

/// The digest that Helm 2 wrote (`resolver.HashV2Req`).
#[must_use]
pub fn digest_v2(declared: &[Dependency]) -> String {
    sum(|w| {
        w.begin_map();
        w.key("dependencies");
        write_list(w, declared);
        w.end_map();
    })
}

fn sum(write: impl FnOnce(&mut Writer<'_>)) -> String {
    let mut text = String::new();
    write(&mut Writer::new(&mut text));
    format!("sha256:{}", hex(&Sha256::digest(text.as_bytes())))
}

fn write_list(w: &mut Writer<'_>, list: &[Dependency]) {
    w.begin_list();
    for d in list {
        write_dependency(w, d);
    }
    w.end_list();
}

/// In the order of the fields of Go's struct, which the digest depends on.
fn write_dependency(w: &mut Writer<'_>, d: &Dependency) {
    let text = |w: &mut Writer<'_>, key: &str, text: &str, always: bool| {
        if always || !text.is_empty() {
            w.key(key);
            w.string(text);
        }
    };
    w.begin_map();
    text(w, "name", &d.name, true);
    text(w, "version", &d.version, false);
    text(w, "repository", &d.repository, true);
    text(w, "condition", &d.condition, false);
    if let Some(tags) = d.tags.as_ref().filter(|tags| !tags.is_empty()) {
        w.key("tags");
        w.begin_list();
        tags.iter().for_each(|t| w.string(t));
        w.end_list();
    }
    if d.enabled {
        w.key("enabled");
        w.bool(true);
    }
    if let Some(imports) = d.import_values.as_ref().filter(|imports| !imports.is_empty()) {
        w.key("import-values");
        // Go reads their numbers as floats. None of them can be infinite: they come from a document in JSON.
        drop(write_data(w, &Data::List(imports.clone()).with_float_numbers()));
    }
    text(w, "alias", &d.alias, false);
    w.end_map();
}
