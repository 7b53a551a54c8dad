//! The functions of sprig 3.3 and Helm's conversions, as templates see them.
//!
//! One file for each family. They know values, Go's library in `go`, the text formats, and the world behind [`Exec`] for
//! the clock, chance and keys; they know no chart. Each has the Go function's parameter types, which decide Go's error texts;
//! what panics in Go is an error with the panic's text.
//!
//! [`Exec`]: crate::template::Exec

mod args;
mod base;
mod case;
pub(crate) mod crypto;
mod dates;
mod decimal;
mod dicts;
mod documents;
mod encode;
mod equal;
mod files;
mod hashes;
mod lists;
mod logic;
mod merge;
mod methods;
mod numbers;
mod paths;
mod random;
mod reflection;
mod regex;
mod strings;
mod toml;

use crate::go::Object;
use crate::template::Func;

/// The functions of both Helm versions, by family.
pub(crate) const GROUPS: &[&[Func]] = &[
    strings::FUNCS,
    case::FUNCS,
    lists::FUNCS,
    dicts::FUNCS,
    merge::FUNCS,
    logic::FUNCS,
    documents::FUNCS,
    numbers::FUNCS,
    base::FUNCS,
    reflection::FUNCS,
    equal::FUNCS,
    regex::FUNCS,
    methods::FUNCS,
    dates::FUNCS,
    hashes::FUNCS,
    random::FUNCS,
    crypto::FUNCS,
    paths::FUNCS,
    toml::FUNCS,
];

/// The functions that Helm 4 has and Helm 3 has not, by family.
pub(crate) const HELM4_ONLY: &[&[Func]] = &[methods::HELM4, documents::HELM4, toml::HELM4];

/// Methods of `.Values`; each takes the receiver first.
pub(crate) const VALUES_METHODS: &[Func] = files::VALUES;

/// Methods of `.Files`; each takes the receiver first.
pub(crate) const FILES_METHODS: &[Func] = files::FILES;

/// A method of a version, time or duration by name; it takes the receiver first.
#[must_use]
pub(crate) fn object_method(object: &Object<'_>, name: &[u8]) -> Option<&'static Func> {
    methods::of(object).iter().find(|f| f.name.as_bytes() == name)
}

#[cfg(test)]
mod tests;
