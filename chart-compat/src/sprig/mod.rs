//! The template functions of sprig 3.3 and Helm's conversions.
//!
//! One file for each family. They use values, the ports of Go's library in `go`, the JSON and YAML encoders, and the [`World`] of
//! [`Exec`] for clock, randomness and keys; they know no chart. Each function has the parameter types of Go's, which decide Go's
//! error texts. A panic in Go is an error with the panic's text here.
//!
//! [`Exec`]: crate::template::Exec
//! [`World`]: crate::world::World

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

pub use documents::within_memory;

use crate::go::Object;
use crate::template::Func;

/// A value as go-yaml v3 writes it with an indentation of 2.
pub(crate) fn yaml_v3<'a>(
    arena: &'a crate::go::Arena,
    value: crate::go::Value<'a>,
) -> Result<String, String> {
    encode::yaml_pretty(arena, value)
}

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

/// The functions that exist only in Helm 4, by family.
pub(crate) const HELM4_ONLY: &[&[Func]] = &[methods::HELM4, documents::HELM4, toml::HELM4];

/// Methods of `.Values`; the first argument is the receiver.
pub(crate) const VALUES_METHODS: &[Func] = files::VALUES;

/// Methods of `.Files`; the first argument is the receiver.
pub(crate) const FILES_METHODS: &[Func] = files::FILES;

/// The method named `name` of a version, time or duration; the first argument is the receiver.
#[must_use]
pub(crate) fn object_method(object: &Object<'_>, name: &[u8]) -> Option<&'static Func> {
    methods::of(object).iter().find(|f| f.name.as_bytes() == name)
}

#[cfg(test)]
mod tests;
