//! Types of Flux's API that a HelmRelease is made of, with the field names of the JSON.

pub mod duration;
pub mod helm_release;
pub mod helm_release_status;

pub use duration::GoDuration;
