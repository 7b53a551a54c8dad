//! A HelmRelease as it is read: what names it, what it asks for once, and its spec.
//!
//! The only place that reads fields of the object but for its status, which passes write.

use serde_json::Value;

use super::super::error::FluxError;
use super::dependency;
use super::names;
use flux_api::api_names::{FORCE_AT, REQUESTED_AT, RESET_AT, SOURCES};
use flux_api::helm_release::HelmReleaseSpec;
use flux_api::helm_release_status::HelmReleaseStatus;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{ImageAnnotations, ReconcileError};
use windlass_engine::{ReleaseId, ReleaseKey};

/// A HelmRelease.
#[derive(Clone, Debug)]
pub struct HelmReleaseObject {
    pub(super) name: String,
    pub(super) namespace: String,
    /// Empty of an object that is in no cluster.
    pub(super) uid: String,
    pub(super) generation: i64,
    /// What its annotations ask for once.
    pub(super) requests: Requests,
    pub(super) suspended: bool,
    /// What its annotations say of the images in its values.
    pub(super) images: ImageAnnotations,
    /// Whether its condition Ready is true of its newest generation.
    pub(super) ready: bool,
    spec: Result<HelmReleaseSpec, FluxError>,
}

impl HelmReleaseObject {
    /// Reads an object.
    pub(super) fn read(object: &Value) -> Self {
        let meta = ObjectMeta::of(object);
        Self {
            name: meta.name().to_owned(),
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            uid: meta.uid().to_owned(),
            generation: meta.generation(),
            requests: Requests::of(meta),
            suspended: object["spec"]["suspend"] == true,
            images: ImageAnnotations::of(meta),
            ready: dependency::is_ready(object),
            spec: HelmReleaseSpec::read(&object["spec"]).map_err(|error| FluxError::within("spec", error)),
        }
    }

    /// The spec.
    ///
    /// # Errors
    /// A field has a value of the wrong type.
    pub(super) fn spec(&self) -> Result<&HelmReleaseSpec, ReconcileError> {
        self.spec.as_ref().map_err(|error| ReconcileError::Config(error.to_string()))
    }

    /// The release of its spec.
    pub(super) fn release_id(&self, spec: &HelmReleaseSpec) -> ReleaseId {
        names::release_id(&self.namespace, &self.name, spec)
    }

    /// Where the records of the release are.
    pub(super) fn storage_namespace(&self, spec: &HelmReleaseSpec) -> String {
        names::storage_namespace(&self.namespace, spec)
    }

    /// The release of its spec with the namespace of its records.
    pub(super) fn release_key(&self, spec: &HelmReleaseSpec) -> ReleaseKey {
        ReleaseKey::new(&self.release_id(spec), &self.storage_namespace(spec))
    }

    /// The source that has the chart: its kind and name.
    pub(super) fn source(&self, spec: &HelmReleaseSpec) -> Option<ObjectRef> {
        let own = self.namespace.as_str();
        if let Some(reference) = &spec.chart_ref {
            let version = reference.api_version.as_deref().unwrap_or(SOURCES);
            let namespace = reference.namespace.as_deref().unwrap_or(own);
            return Some(ObjectRef::new(
                Gvk::new(version, &reference.kind),
                Some(namespace),
                &reference.name,
            ));
        }
        let template = spec.chart.as_ref()?;
        let namespace = template.spec.source_ref.namespace.as_deref().unwrap_or(own);
        let name = format!("{own}-{}", self.name);
        Some(ObjectRef::new(Gvk::new(SOURCES, "HelmChart"), Some(namespace), &name))
    }
}

/// The status of an object.
pub(super) fn status_of(object: &Value) -> HelmReleaseStatus {
    read_status(&object["status"])
}

/// A status; what cannot be read was not written by a helm-controller of this version: it is written anew.
pub(super) fn read_status(status: &Value) -> HelmReleaseStatus {
    serde_json::from_value(status.clone()).unwrap_or_default()
}

/// Annotations that ask for something once.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    reconcile_at: String,
    force_at: String,
    reset_at: String,
}

impl Requests {
    fn of(meta: ObjectMeta<'_>) -> Self {
        let text = |name: &str| meta.annotation(name).unwrap_or_default().to_owned();
        Self { reconcile_at: text(REQUESTED_AT), force_at: text(FORCE_AT), reset_at: text(RESET_AT) }
    }

    /// Whether a release action is asked for that was not before.
    pub(super) fn forces(&self, status: &HelmReleaseStatus) -> bool {
        self.is_new(&self.force_at, &status.last_handled_force_at)
    }

    /// Whether the failures so far shall not count.
    pub(super) fn resets(&self, status: &HelmReleaseStatus) -> bool {
        self.is_new(&self.reset_at, &status.last_handled_reset_at)
    }

    /// Whether an annotation goes with the request to reconcile, and was not handled before.
    fn is_new(&self, asked: &str, handled: &str) -> bool {
        !asked.is_empty() && asked == self.reconcile_at && asked != handled
    }

    /// Notes in the status that they are handled.
    pub(super) fn note(&self, status: &mut HelmReleaseStatus) {
        let fields = [
            (&self.reconcile_at, &mut status.last_handled_reconcile_at),
            (&self.force_at, &mut status.last_handled_force_at),
            (&self.reset_at, &mut status.last_handled_reset_at),
        ];
        for (asked, handled) in fields {
            if !asked.is_empty() {
                handled.clone_from(asked);
            }
        }
    }
}
