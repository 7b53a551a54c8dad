//! The release engine on a real control plane, beside real Helm.
//!
//! Requests are made by hand: no chart is rendered here. Documents are JSON, which is YAML enough for Helm and spares
//! the engine's tests a YAML reader.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says by panicking what is wrong"
)]
#![allow(clippy::print_stdout, reason = "measurements are printed")]

mod bad_input;
mod crash;
mod crds;
mod drift;
mod figures;
mod helm;
mod hooks;
mod large;
mod lifecycle;
mod locks;
mod logs;
mod lost;
mod order;
mod ownership;
mod plan;
mod recreate;
mod removed;
mod support;
mod tls;
mod waits;
mod watch;
mod webhook;
