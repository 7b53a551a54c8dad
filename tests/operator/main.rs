//! The operator as its users run it: the real binary on a real control plane, judged with kubectl and real Helm.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod adoption;
mod bad_input;
mod batch;
mod bindings;
mod charts;
mod crash;
mod crds;
mod debug;
mod deploy;
mod drift;
mod effects;
mod enabled;
mod examples;
mod explain;
mod failing_fixtures;
mod faults;
mod forms;
mod hook_runs;
mod hooks;
mod leader;
mod logs;
mod maintenance;
mod memory_limit;
mod metrics;
mod module_files;
mod modules;
mod operations;
mod place;
mod pod_limits;
mod pod_limits_charts;
mod quiet;
mod race;
mod references;
mod reload;
mod render_bounds;
mod replay;
mod rights;
mod secrets;
mod shell_operator;
mod start;
mod status;
mod stuck;
mod support;
mod takeover;
mod webhook_limits;
mod webhooks;
mod write_back;
