//! The release engine on a real control plane, beside real Helm.
//!
//! Requests are made by hand: no chart is rendered here. Documents are JSON, which is YAML enough for Helm and spares
//! the engine's tests a YAML reader.

mod crash;
mod crds;
mod helm;
mod hooks;
mod lifecycle;
mod ownership;
mod support;
mod watch;
