//! Go's values and the parts of its standard library whose exact behaviour charts can see.
//!
//! The lowest layer of the crate: it knows no template, no chart and no text format beyond Go's own printing.

mod arena;
pub(crate) mod classes;
pub mod duration;
pub mod fmt;
pub mod glob;
pub mod layout;
pub mod object;
pub(crate) mod path;
pub mod regexp;
pub mod semver;
pub mod slog;
pub(crate) mod strconv;
pub mod time;
pub(crate) mod trim;
pub(crate) mod unicode;
pub mod url;
pub mod value;
pub(crate) mod zone;

pub use arena::Arena;
pub use object::Object;
pub use strconv::{format_float, quote};
pub use value::{Elem, List, Map, MapKind, Value, prefix};
