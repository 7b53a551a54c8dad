//! One operation at a time on a release: the Lease, its holder, and the policy for pending records of others.
//!
//! Owns who may write to a release now. Knows nothing of what an operation does to the release's objects.

pub(crate) mod holder_identity;
pub(crate) mod lock_policy;
pub(crate) mod release_lease;
