//! The environment of a state file: its name and the layers of its values.
//!
//! Owns the layers and their order. Does not load them.

use super::error::Error;
use super::merge::{Lists, layered};
use super::value::{Map, text_keys};

/// An environment (`environment.Environment`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    /// Its name.
    pub name: String,
    /// The kubeconfig context of its releases.
    pub kube_context: String,
    /// The values of the environment, and of `--state-values-file`.
    pub values: Map,
    /// The values of the state file's `values`, below all others.
    pub defaults: Map,
    /// The values of `--state-values-set`, above all others.
    pub overrides: Map,
}

impl Environment {
    /// An environment without values.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// This environment with another one above it.
    #[must_use]
    pub fn merged_with(&self, over: Option<&Self>) -> Self {
        let Some(over) = over else { return self.clone() };
        let text = |own: &String, over: &String| if over.is_empty() { own.clone() } else { over.clone() };
        Self {
            name: text(&self.name, &over.name),
            kube_context: text(&self.kube_context, &over.kube_context),
            values: layered(&self.values, &over.values, Lists::Sparse),
            defaults: layered(&self.defaults, &over.defaults, Lists::Sparse),
            overrides: layered(&self.overrides, &over.overrides, Lists::ByItem),
        }
    }

    /// All layers, merged: what templates see as `.Values`.
    ///
    /// # Errors
    /// A key that is not a string.
    pub fn merged_values(&self) -> Result<Map, Error> {
        let lower = layered(&self.defaults, &self.values, Lists::Sparse);
        text_keys(layered(&lower, &self.overrides, Lists::ByItem))
    }
}
