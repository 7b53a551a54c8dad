//! Fields of objects that transformers change: where they are, and which ones kustomize knows.
//!
//! Owns field specs, their visit in an object, paths in objects, and the configuration of transformers.

mod builtin;
mod config;
pub mod lookup;
pub mod path_match;
mod table;
mod visit;

use chart_compat::yaml::tree::MAX_DEPTH;

use crate::error::Error;
use crate::resource::{Gvk, build_steps};
pub use config::{BackReference, Config, List};
pub(crate) use config::{FIELD_SPEC, decode_specs};
pub(crate) use visit::set_entry;
pub use visit::{Create, set_scalar, visit, visit_all};

/// A field of the objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// The kind; empty parts fit all.
    pub gvk: Gvk,
    /// The path: names of fields with `/` between, and `[]` after that of a list.
    pub path: String,
    /// Whether missing fields are made.
    pub create: bool,
    parts: Vec<String>,
}

impl FieldSpec {
    /// A field of a kind.
    #[must_use]
    pub fn new(gvk: Gvk, path: &str, create: bool) -> Self {
        Self { gvk, path: path.to_owned(), create, parts: split(path, "/") }
    }

    /// A field of all kinds.
    #[must_use]
    pub fn of_all(path: &str, create: bool) -> Self {
        Self::new(Gvk::default(), path, create)
    }

    fn fits(&self, other: &Self) -> bool {
        self.gvk.is_selected(&other.gvk) && self.path == other.path
    }
}

/// Refuses a path that is longer than an object may be deep: a missing field of it would be made.
fn check_length(path: &[String]) -> Result<(), Error> {
    match path.len() {
        ..=MAX_DEPTH => Ok(()),
        count => Err(Error::Text(format!("a path of {count} parts; one has at most {MAX_DEPTH}"))),
    }
}

/// Splits a path; a delimiter after `\` belongs to a name.
#[must_use]
pub fn split(path: &str, delimiter: &str) -> Vec<String> {
    let mut parts: Vec<&str> = path.split(delimiter).collect();
    if parts.len() > 1 && parts.first().is_some_and(|part| part.is_empty()) {
        parts.remove(0);
    }
    let mut out: Vec<String> = Vec::with_capacity(parts.len());
    for part in parts {
        match out.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push_str(delimiter);
                last.push_str(part);
            }
            _ => out.push(part.to_owned()),
        }
    }
    out
}

/// Splits a path at dots; those in brackets belong to a part.
#[must_use]
pub fn split_dotted(path: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut parts = split(path, ".").into_iter();
    while let Some(part) = parts.next() {
        if !part.starts_with('[') || part.ends_with(']') {
            out.push(part);
            continue;
        }
        let mut bracketed = part;
        for next in parts.by_ref() {
            bracketed.push('.');
            bracketed.push_str(&next);
            if next.ends_with(']') {
                break;
            }
        }
        out.push(if bracketed.contains('=') {
            bracketed
        } else {
            bracketed.trim_matches(['[', ']']).to_owned()
        });
    }
    out
}

/// Adds a field to a list, unless one there fits it.
///
/// # Errors
/// The fields differ in whether they are made, or the build takes too many steps.
pub fn merge_one(list: &mut Vec<FieldSpec>, spec: &FieldSpec) -> Result<(), Error> {
    build_steps::count(list.len() / 8)?;
    match list.iter().find(|known| known.fits(spec)) {
        None => list.push(spec.clone()),
        Some(known) if known.create == spec.create => {}
        Some(_) => return Err(Error::text("conflicting fieldspecs")),
    }
    Ok(())
}

/// Adds fields to a list, unless ones there fit them.
///
/// # Errors
/// Fields differ in whether they are made.
pub fn merge_all(list: &mut Vec<FieldSpec>, specs: &[FieldSpec]) -> Result<(), Error> {
    specs.iter().try_for_each(|spec| merge_one(list, spec))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split() {
        let table: [(&str, &[&str]); 6] = [
            ("spec/template", &["spec", "template"]),
            ("/spec/a", &["spec", "a"]),
            (r"metadata/annotations/a.b\/c", &["metadata", "annotations", "a.b/c"]),
            ("spec/containers[]/image", &["spec", "containers[]", "image"]),
            ("", &[""]),
            ("/", &[""]),
        ];
        for (path, parts) in table {
            assert_eq!(split(path, "/"), parts, "{path}");
        }
        let table: [(&str, &[&str]); 4] = [
            ("spec.a.0", &["spec", "a", "0"]),
            (r"data.a\.b", &["data", "a.b"]),
            ("metadata.annotations.[config.io/x]", &["metadata", "annotations", "config.io/x"]),
            ("spec.[name=a.b].c", &["spec", "[name=a.b]", "c"]),
        ];
        for (path, parts) in table {
            assert_eq!(split_dotted(path), parts, "{path}");
        }
    }
}
