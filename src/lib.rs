//! Windlass renders and applies Helm charts without Helm.
//!
//! - [`cluster`]: the one door to a Kubernetes API server
//! - [`release`]: the release engine: observe, decide, plan, apply, record, watch

pub mod cluster;
pub mod release;
