//! `Alert`, `notification.toolkit.fluxcd.io/v1beta3`: which events go to which provider. It has no status.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{CrossNamespaceObjectReference, LocalObjectReference, is_default};

/// Which events, and where they go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AlertSpec {
    /// The Provider that gets the events.
    pub provider_ref: LocalObjectReference,
    /// Least severity of an event; `info` is all of them.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["info", "error"], "x-default" = "info"))]
    pub event_severity: String,
    /// The objects whose events are sent.
    pub event_sources: Vec<CrossNamespaceObjectReference>,
    /// Regular expressions of Go: only events whose message matches one are sent.
    #[serde(skip_serializing_if = "is_default")]
    pub inclusion_list: Vec<String>,
    /// Metadata to add to events. A key that an event has already stays as it is.
    #[serde(skip_serializing_if = "is_default")]
    pub event_metadata: BTreeMap<String, String>,
    /// Regular expressions of Go: events whose message matches one are not sent.
    #[serde(skip_serializing_if = "is_default")]
    pub exclusion_list: Vec<String>,
    /// What the events mean, and for which cluster. Deprecated: use `eventMetadata`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(length(max = 255))]
    pub summary: String,
    /// Send nothing.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
}
