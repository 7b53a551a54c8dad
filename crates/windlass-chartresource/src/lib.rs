//! Kinds whose objects are releases of a chart: the spec of an object is the chart's values.
//!
//! Owns which kind stands for which chart, and the way from an object to its release and to its status. When a pass is due is
//! `controller`'s; the definition of a kind is `charts`'. Knows no manifest.
//!
//! - [`watches_file`]: operator-sdk's file of kinds; [`override_values`]: values that beat those of objects
//! - [`kind_settings`]: a kind; [`loaded_chart`]: its chart; `kind_chart`: that it has none at the moment
//! - [`chart_objects`]: the front end of the objects of a kind; `values_object`: an object as it is read
//! - `object_deployment`: an object's release; `object_uninstall`: its end; `rechecks`: what has to be looked at for readiness; `served_kind`, `chart_rollout`: which object gets another chart, and when
//! - `release_choice`: the name of an object's release, and whose a release is; `failed_attempts`: when retries end
//! - [`chart_resource_api`], [`chart_resource_definition`]: `ChartResource`; [`chart_resources`]: its front end
//! - `chart_sources`: its chart; `registered_kinds`: controllers that come and go with kinds
//! - [`object_plan`]: what passes would do, without a write
//! - `lacking_rights`: the rights that an object's account has not
//! - `pull_secret`: the Secret with which images of an object are pulled
//! - `object_status`: status and conditions of an object

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod chart_objects;
pub mod chart_resource_api;
pub mod chart_resource_definition;
pub mod chart_resources;
mod chart_rollout;
mod chart_sources;
mod failed_attempts;
mod kind_chart;
pub mod kind_settings;
mod lacking_rights;
pub mod loaded_chart;
mod object_deployment;
pub mod object_plan;
mod object_status;
mod object_uninstall;
pub mod override_values;
mod pull_secret;
mod rechecks;
mod registered_kinds;
mod release_choice;
mod served_kind;
mod values_object;
pub mod watches_file;

pub use chart_objects::{ChartObjects, ObjectOptions};
pub use chart_resources::ChartResourceOptions;
pub use chart_sources::ChartSources;
pub use kind_settings::KindSettings;
pub use loaded_chart::LoadedChart;
pub use override_values::OverrideValues;
pub use pull_secret::pull_secret_path;
pub use watches_file::{WatchedKind, WatchesFile};
