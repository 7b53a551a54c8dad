//! sprig's template functions, for templates that are not charts.
//!
//! Owns which functions sprig itself has, among those that charts can call. A caller adds its own to them.

use crate::go::{Arena, Value};
use crate::render;
use crate::sprig;
use crate::template::{BUILTINS, Func, Funcs};

pub use crate::sprig::within_memory;

/// Functions of charts that Helm adds to sprig's.
const OF_HELM: &[&str] = &[
    "fromJsonArray",
    "fromToml",
    "fromYaml",
    "fromYamlArray",
    "mustToToml",
    "toToml",
    "toYaml",
    "toYamlPretty",
];

/// The table of Go's built-in functions, sprig's, and `own`, which replace those of the same name.
///
/// `env`, `expandenv` and `getHostByName` access the outside: whoever wants them brings them.
#[must_use]
pub fn with_sprig(own: &[&'static [Func]]) -> Funcs {
    let mut groups: Vec<&'static [Func]> = vec![BUILTINS];
    groups.extend(sprig::GROUPS);
    groups.extend(own);
    let replaced: Vec<&str> = own.iter().flat_map(|group| group.iter()).map(|f| f.name).collect();
    let absent: Vec<&str> = OF_HELM.iter().copied().filter(|name| !replaced.contains(name)).collect();
    Funcs::new(&groups, render::functions::method, "map[string]interface {}").without(&absent)
}

/// A value as go-yaml v3 writes it with an indentation of 2.
///
/// # Errors
/// The value has no representation in YAML.
pub fn yaml_v3<'a>(arena: &'a Arena, value: Value<'a>) -> Result<String, String> {
    sprig::yaml_v3(arena, value)
}
