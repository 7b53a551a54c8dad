//! Checks before an operator runs: what it needs, what it would do, and what differs from addon-operator,
//! helm-controller, k3s and operator-sdk.
//!
//! Owns `windlass rbac`, `windlass doctor`, `windlass values explain` of modules and `operator --observe`, except for their flags
//! and output. Reads files and the cluster. Writes nothing.

mod chart_object_plans;
mod doctor;
mod helm_release_plans;
mod helmchart_plans;
mod object_findings;
mod observe;
mod rbac;
mod referred_values;
mod values_layers;

pub use chart_object_plans::{ChartObjectChecks, ChartObjectReport, chart_object_report};
pub use doctor::{Diagnosis, Weight, doctor};
pub use helm_release_plans::{
    HeldControllerLease, HelmReleaseChecks, HelmReleaseReport, PassFinding, PlannedHelmRelease,
    helm_release_report, plan_helm_releases,
};
pub use helmchart_plans::{HelmChartChecks, HelmChartReport, helmchart_report, plan_helmcharts};
pub use object_findings::{ObjectDiagnosis, PlannedRelease, ReleaseFinding};
pub use observe::{Finding, Observation, observe};
pub use rbac::{
    Added as AddedRules, ChartSubject, MatrixSize, Needs, chart_kind_needs, chart_needs,
    chart_operator_needs, config_map_source_needs, helm_release_needs, helmchart_needs, helmfile_needs,
    image_build_needs, image_needs, needs, notification_needs, pull_secret_needs, reload_needs,
};
pub use referred_values::{ReferredValues, referred_values};
pub use values_layers::layers;
