//! A kind whose objects are releases of a chart, and how they are reconciled.
//!
//! Owns the settings that operator-sdk's file and a `ChartResource` have in common. Where they come from is the others'.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

use super::override_values::OverrideValues;
use windlass_cluster::Gvk;
use windlass_controller::ControllerOptions;

/// Longest value of a label.
const MAX_LABEL: usize = 63;
/// Hexadecimal digits of a digest that stand for what a name had to leave out.
const DIGITS: usize = 8;

/// How the objects of a kind are reconciled.
#[derive(Clone, Debug, PartialEq)]
pub struct KindSettings {
    /// Name in logs and metrics, and the owner of the kind's releases.
    pub name: String,
    /// The kind.
    pub gvk: Gvk,
    /// Values over those of objects.
    pub overrides: OverrideValues,
    /// Label selector of the objects, as a query; an empty one selects all.
    pub selector: String,
    /// How often an object is reconciled if nothing changes, unless its annotation says otherwise.
    pub reconcile_period: Duration,
    /// Whether the objects of releases are watched; else drift is corrected at the period only.
    pub watches_dependents: bool,
    /// Objects reconciled at a time; `None`: as many as by the operator's flag.
    pub concurrency: Option<usize>,
    /// ServiceAccount of an object's namespace; `None`: the operator's default.
    pub service_account: Option<String>,
    /// Path of the value that names an object's pull secret, with dots; `None`: only its annotation does.
    pub pull_secret_path: Option<String>,
    /// Whether the objects are left alone.
    pub suspended: bool,
}

impl KindSettings {
    /// The options of the kind's controller, where those of all kinds are `shared`.
    #[must_use]
    pub fn controller(&self, shared: &ControllerOptions) -> ControllerOptions {
        let selectors = [shared.selector.as_str(), &self.selector];
        let selectors: Vec<&str> = selectors.into_iter().filter(|selector| !selector.is_empty()).collect();
        ControllerOptions {
            selector: selectors.join(","),
            concurrency: self.concurrency.unwrap_or(shared.concurrency),
            ..shared.clone()
        }
    }
}

/// `KIND.GROUP` in lower case, as a label's value.
#[must_use]
pub fn owner_name(gvk: &Gvk) -> String {
    let kind = gvk.kind.to_lowercase();
    let whole = if gvk.group.is_empty() { kind } else { format!("{kind}.{}", gvk.group) };
    bounded(&whole, MAX_LABEL)
}

/// A name of at most so many characters: a longer one ends in a digest of the whole.
pub(crate) fn bounded(name: &str, most: usize) -> String {
    match name.len() <= most {
        true => name.to_owned(),
        false => with_digest(name, name, most),
    }
}

/// The beginning of a name, with a digest of `of` at its end.
pub(crate) fn with_digest(name: &str, of: &str, most: usize) -> String {
    let digest: String =
        Sha256::digest(of).iter().map(|byte| format!("{byte:02x}")).take(DIGITS / 2).collect();
    let start: String = name.chars().take(most - 1 - DIGITS).collect();
    format!("{}-{digest}", start.trim_end_matches(['.', '-', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_selects_among_the_objects_of_the_process() {
        let kind = |selector: &str, concurrency| KindSettings {
            name: String::new(),
            gvk: Gvk::new("g.io/v1", "K"),
            overrides: OverrideValues::default(),
            selector: selector.to_owned(),
            reconcile_period: Duration::from_secs(60),
            watches_dependents: true,
            concurrency,
            service_account: None,
            pull_secret_path: None,
            suspended: false,
        };
        let shared = |selector: &str| ControllerOptions {
            namespace: Some("shop".to_owned()),
            selector: selector.to_owned(),
            concurrency: 8,
            ..ControllerOptions::default()
        };
        for (own, all, expected) in [("", "", ""), ("a=b", "", "a=b"), ("", "c", "c"), ("a=b", "c", "c,a=b")]
        {
            let made = kind(own, None).controller(&shared(all));
            assert_eq!((made.selector.as_str(), made.concurrency), (expected, 8));
            assert_eq!(made.namespace.as_deref(), Some("shop"));
        }
        assert_eq!(kind("", Some(3)).controller(&shared("")).concurrency, 3);
    }

    #[test]
    fn names_fit_into_labels() {
        let of = |group: &str, kind: &str| {
            owner_name(&Gvk { group: group.into(), version: "v1".into(), kind: kind.into() })
        };
        assert_eq!(of("cache.example.com", "Memcached"), "memcached.cache.example.com");
        assert_eq!(of("", "Memcached"), "memcached");
        let (one, other) = (of(&"a".repeat(70), "K"), of(&"a".repeat(71), "K"));
        assert_eq!((one.len(), other.len()), (MAX_LABEL, MAX_LABEL));
        assert_ne!(one, other);
        assert_eq!(with_digest("web.", "x", 53), with_digest("web", "x", 53));
        assert_eq!(with_digest("web", "x", 53).len(), "web-".len() + DIGITS);
    }
}
