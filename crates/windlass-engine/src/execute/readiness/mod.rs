//! Whether objects are ready, by their status, and waiting until they are.
//!
//! The rules are pure: those of kstatus, those of Helm 3, and those that an object's annotations state. Only `status_wait` reads the
//! cluster. Knows nothing of plans, records and hooks.

pub(crate) mod health_checks;
pub(crate) mod kstatus;
pub(crate) mod legacy_ready;
pub(crate) mod ready_when;
pub(crate) mod status_wait;
