//! Go's values and the parts of its standard library whose exact behaviour charts can see.
//!
//! The lowest layer of the crate: it knows no template, no chart and no text format beyond Go's own printing.

pub mod fmt;
pub mod object;
pub mod semver;
pub mod strconv;
pub mod time;
pub mod unicode;
pub mod value;

pub use object::Object;
pub use value::{Arena, Elem, List, Map, MapKind, Value};
