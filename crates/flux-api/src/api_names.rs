//! Names that several of Flux's controllers have in common: API versions, annotations, the finalizer.

/// API version of the sources.
pub const SOURCES: &str = "source.toolkit.fluxcd.io/v1";
/// The finalizer of every kind.
pub const FINALIZER: &str = "finalizers.fluxcd.io";
/// The annotation that asks for a pass.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
/// The annotation that asks for a release action.
pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// The annotation that resets the counts of failures.
pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";
