//! The schemas of one build.
//!
//! Owns which schema is in force: kustomize parses its own one late, and not at all when a user's is set before something asks for it.

use std::cell::{Cell, OnceCell};

use super::custom::Custom;
use super::{Schema, Source, is_cluster_scoped};
use crate::error::Error;

/// The versions of Kubernetes whose schema is built in.
const VERSIONS: [&str; 1] = ["v1.21.2"];

/// The schemas of one build.
#[derive(Debug, Default)]
pub struct Schemas {
    custom: OnceCell<Custom>,
    chosen: Cell<bool>,
    /// Something asked for a schema, and none was set since.
    parsed: Cell<bool>,
    /// The built-in schema will be parsed beside the user's.
    delayed: Cell<bool>,
    built_in: Cell<bool>,
    custom_parsed: Cell<bool>,
}

impl Schemas {
    /// Chooses the schema, as the field `openapi` of a kustomization does: the first choice of a build counts.
    ///
    /// # Errors
    /// A document that is no schema, a version that is not built in, or both a document and a version.
    pub fn choose(&self, version: Option<&str>, document: Option<&[u8]>) -> Result<(), Error> {
        if self.chosen.get() {
            return Ok(());
        }
        if let Some(document) = document {
            if version.is_some() {
                let text = "builtin version and custom schema provided, cannot use both";
                return Err(Error::Text(text.to_owned()));
            }
            let custom = Custom::parse(document)?;
            self.chosen.set(true);
            self.parsed.set(false);
            // The cell is empty: a schema is chosen once.
            self.custom.get_or_init(|| custom);
            return Ok(());
        }
        match version.filter(|version| !version.is_empty()) {
            None => Ok(()),
            Some(version) if VERSIONS.contains(&version) => {
                self.chosen.set(true);
                self.parsed.set(false);
                Ok(())
            }
            Some(_) => Err(Error::Text("the specified OpenAPI version is not built in".to_owned())),
        }
    }

    fn parse(&self) {
        if self.parsed.replace(true) {
            return;
        }
        if self.custom.get().is_some() {
            self.custom_parsed.set(true);
        } else {
            self.built_in.set(true);
        }
        if self.delayed.get() {
            self.built_in.set(true);
        }
    }

    /// Whether objects of a kind certainly have no namespace. Unknown kinds count as namespaced.
    #[must_use]
    pub fn is_cluster_scoped(&self, group: &str, version: &str, kind: &str) -> bool {
        let slash = if group.is_empty() { "" } else { "/" };
        let api_version = group.bytes().chain(slash.bytes()).chain(version.bytes());
        if is_cluster_scoped(&api_version, kind) {
            return true;
        }
        if self.custom.get().is_none() && self.delayed.get() {
            return false;
        }
        let api_version = format!("{group}{slash}{version}");
        if Schema::built_in(&api_version, kind).is_some() {
            return false;
        }
        let Some(custom) = self.custom.get() else {
            if !self.parsed.get() {
                self.delayed.set(true);
            }
            return false;
        };
        self.parse();
        custom.is_cluster_scoped(&api_version, kind)
    }

    /// The schema of a kind, if it has lists that are merged.
    #[must_use]
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<Schema<'_>> {
        self.parse();
        let custom = self.custom.get().filter(|_| self.custom_parsed.get());
        let custom = custom.and_then(|custom| custom.of_kind(api_version, kind, self.built_in.get()));
        let own = || Schema::built_in(api_version, kind).filter(|_| self.built_in.get());
        custom.map(|place| Schema(Source::Custom(place))).or_else(own)
    }
}
