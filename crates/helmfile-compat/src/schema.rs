//! Types of the fields of a state file.
//!
//! Owns the kinds of types, the names of fields as the code writes them, and the lookup of a field, with the nearest name for one that
//! does not exist. The tables are in
//! `state_fields`.

use std::fmt;

use chart_compat::explain::nearest;

use super::state_fields;

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum Type {
    /// `string`
    Text,
    /// `bool`
    Bool,
    /// `int`
    Int,
    /// `float64`
    Float,
    /// `time.Duration`
    Duration,
    /// `any`
    Any,
    /// A slice.
    List(&'static Type),
    /// A map with text keys.
    Map(&'static Type),
    /// A structure.
    Struct(&'static Struct),
    /// A pointer: absent, or shared by everything that was merged from it.
    Pointer(&'static Type),
    /// A list of `state.Inherit`; a single one is accepted.
    Inherits,
    /// A list of names, or one.
    DefaultInherits,
    /// An entry of `helmfiles`: a path, or a map.
    SubHelmfile,
}

/// A structure.
#[derive(Debug)]
pub struct Struct {
    /// Its Go type, for errors.
    pub go: &'static str,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

/// A field of a structure.
#[derive(Debug)]
pub struct Field {
    /// The key in YAML.
    pub key: &'static str,
    /// The type.
    pub ty: Type,
    /// Whether an empty value is left out.
    pub omit_empty: bool,
}

/// A field that is left out when empty.
pub const fn field(key: &'static str, ty: Type) -> Field {
    Field { key, ty, omit_empty: true }
}

/// A field that is always written.
pub const fn always(key: &'static str, ty: Type) -> Field {
    Field { key, ty, omit_empty: false }
}

/// The name of a field: one that no structure has does not compile. Made by [`key!`](crate::key).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(&'static str);

impl Key {
    /// The key of this name.
    ///
    /// # Panics
    /// No structure has such a field: an error of the compiler, since keys are constants.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        assert!(is_field(name), "no structure of a state file has a field of this name");
        Self(name)
    }

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The key of a field, checked by the compiler.
#[macro_export]
macro_rules! key {
    ($name:literal) => {
        const { $crate::schema::Key::new($name) }
    };
}

const fn is_field(name: &str) -> bool {
    let mut structs = state_fields::ALL.as_slice();
    while let [of, rest @ ..] = structs {
        let mut fields = of.fields;
        while let [field, rest @ ..] = fields {
            if is_same(field.key.as_bytes(), name.as_bytes()) {
                return true;
            }
            fields = rest;
        }
        structs = rest;
    }
    false
}

const fn is_same(mut a: &[u8], mut b: &[u8]) -> bool {
    loop {
        match (a, b) {
            ([], []) => return true,
            ([x, rest_a @ ..], [y, rest_b @ ..]) if *x == *y => (a, b) = (rest_a, rest_b),
            _ => return false,
        }
    }
}

impl Struct {
    /// The index of a field.
    #[must_use]
    pub fn index(&self, key: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.key == key)
    }

    /// The field whose name is nearest to `key`, if one is near enough to be meant.
    #[must_use]
    pub fn nearest(&self, key: &str) -> Option<&'static str> {
        nearest(key, self.fields.iter().map(|field| field.key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::state_fields::{RELEASE, STATE};

    #[test]
    fn the_nearest_field_is_found() {
        assert_eq!(STATE.nearest("release"), Some("releases"));
        assert_eq!(STATE.nearest("enviroments"), Some("environments"));
        assert_eq!(RELEASE.nearest("createnamespace"), Some("createNamespace"));
        assert_eq!(RELEASE.nearest("replicaCount"), None);
    }
}
