//! stub
use crate::go::Object;
use crate::template::Func;
/// groups
pub const GROUPS: &[&[Func]] = &[];
/// x
pub const HELM4_ONLY: &[Func] = &[];
/// x
pub const VALUES_METHODS: &[Func] = &[];
/// x
pub const FILES_METHODS: &[Func] = &[];
/// methods
pub fn object_method(_: &Object<'_>, _: &[u8]) -> Option<&'static Func> {
    None
}
