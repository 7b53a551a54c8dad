//! Go's values and the parts of its standard library whose exact behaviour charts can see.
//!
//! The lowest layer of the crate: it knows no template, no chart and no text format beyond Go's own printing.

mod arena;
pub mod classes;
pub mod duration;
pub mod fmt;
pub mod glob;
pub mod layout;
pub mod object;
pub mod path;
pub mod regexp;
pub mod semver;
pub mod slog;
pub mod strconv;
pub mod time;
pub mod unicode;
pub mod url;
pub mod value;
pub mod zone;

pub use arena::Arena;
pub use object::Object;
pub use value::{Elem, List, Map, MapKind, Value, prefix};
