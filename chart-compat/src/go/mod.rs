//! Go's values, and the parts of its standard library whose exact behavior charts can observe.
//!
//! The lowest layer of the crate. Knows neither templates nor charts, and no text format except Go's own printing.

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
pub use strconv::{format_float, parse_bool, quote};
pub use value::{Elem, List, Map, MapKind, Value, prefix};
