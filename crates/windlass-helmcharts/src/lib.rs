//! HelmCharts of k3s and RKE2 (`helm.cattle.io/v1`): the API of k3s' helm-controller on this project's engine.
//!
//! Owns what a HelmChart and its HelmChartConfig mean. A chart is rendered and applied by the operator itself: there is no Job, no Pod
//! and no image. Knows no manifest and no object of a release.
//!
//! - [`k3s_api`], [`crds`]: types and definitions of both kinds
//! - `managed_chart`: an object as it is read, whose it is, the engine's options
//! - `chart_address`, `chart_inputs`, `chart_download`: where the chart is, what gives access to it, the chart
//! - `layered_values`: values in their precedence
//! - `helm_charts`: the front end; `chart_pass`: one pass over one object; `chart_uninstall`: its end; `chart_status`: status and Events
//! - `absent_rights`: the rights that an account lacks for a release
//! - `record_marks`, `release_owners`: whose a release is, by its records and in this process
//! - `chart_plan`: what a pass would do, and what differs from k3s

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod absent_rights;
mod chart_address;
mod chart_download;
mod chart_inputs;
mod chart_pass;
mod chart_plan;

mod chart_status;
mod chart_uninstall;
pub mod crds;
mod helm_charts;
pub mod k3s_api;
mod layered_values;
mod managed_chart;
mod record_marks;
mod release_owners;

pub use chart_address::STABLE_REPOSITORY;
pub use chart_plan::{ChartDifference, ChartPlanInputs, PlannedChart, differences};
pub use helm_charts::{DEFAULT_MANAGER, HelmChartOptions, HelmCharts, NAME, ReinstallMode};
