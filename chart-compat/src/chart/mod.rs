//! Charts: from archive or directory bytes to metadata, values, templates and subcharts, ready to render.
//!
//! Owns Helm's loader, `.helmignore`, metadata, values coalescing and dependency processing. Never accesses a file system: the
//! caller passes bytes.

mod alias_tree;
mod archive;
mod coalesce;
mod dependencies;
mod error;
mod ignore;
mod imports;
mod load;
mod metadata;
mod path_match;
mod preparation;
mod serialize;
mod values;

pub use archive::{MAX_CHART_BYTES, MAX_ENTRIES, MAX_FILE_BYTES_HELM3, read_archive, read_archive_with};
pub use coalesce::coalesce_values;
pub(crate) use coalesce::{coalesce_tables, coalesce_values_within};
pub(crate) use dependencies::process_dependencies_within;
pub use dependencies::{OtherVersion, other_versions, process_dependencies};
pub use error::Error;
pub use ignore::Rules;
pub use load::{Chart, Crd, File, load_files, load_files_as_v2};
pub use metadata::{Dependency, Maintainer, Metadata};
pub use path_match::matches;
pub(crate) use preparation::Preparation;
pub use values::{ValuesLines, merge_maps, read_values, read_values_within};

/// Takes the warnings that Helm prints on stderr: one line each, without a line end.
pub type Warn<'w> = &'w mut dyn FnMut(String);
