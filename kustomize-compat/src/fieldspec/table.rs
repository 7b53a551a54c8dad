//! The form of the built-in tables.
//!
//! Owns rows; the rows themselves are generated.

/// A field of a kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    pub(super) create: bool,
}

/// What fields name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reference {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) referrers: &'static [Row],
}

pub(super) const fn row(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    path: &'static str,
    create: bool,
) -> Row {
    Row { group, version, kind, path, create }
}
