//! A source as it is read: what all kinds have, and the spec of its kind.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::error::FluxError;
use super::index_fetch;
use super::source_kinds::SourceKind;
use super::source_status::SourceError;
use flux_api::GoDuration;
use flux_api::api_names::{REQUESTED_AT, SOURCES};
use flux_api::bucket_source::BucketSpec;
use flux_api::git_repository::GitRepositorySpec;
use flux_api::helm_chart::HelmChartSpec;
use flux_api::helm_repository::HelmRepositorySpec;
use flux_api::oci_repository::OciRepositorySpec;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};

/// A source.
pub struct SourceObject {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) generation: i64,
    /// The annotation that asks for a reconcile; empty if there is none.
    pub(super) requested_at: String,
    pub(super) suspended: bool,
    pub(super) interval: Option<Duration>,
    pub(super) timeout: Option<Duration>,
    spec: Result<SourceSpec, FluxError>,
}

/// The spec of a source.
pub(super) enum SourceSpec {
    Bucket(Box<BucketSpec>),
    GitRepository(Box<GitRepositorySpec>),
    HelmChart(Box<HelmChartSpec>),
    HelmRepository(Box<HelmRepositorySpec>),
    OciRepository(Box<OciRepositorySpec>),
}

fn of<T: DeserializeOwned>(spec: &Value) -> Result<Box<T>, serde_json::Error> {
    serde_json::from_value(spec.clone()).map(Box::new)
}

impl SourceSpec {
    fn read(kind: SourceKind, spec: &Value) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            SourceKind::Bucket => Self::Bucket(of(spec)?),
            SourceKind::GitRepository => Self::GitRepository(of(spec)?),
            SourceKind::HelmChart => Self::HelmChart(of(spec)?),
            SourceKind::HelmRepository => Self::HelmRepository(of(spec)?),
            SourceKind::OciRepository => Self::OciRepository(of(spec)?),
        })
    }
}

impl SourceObject {
    pub(super) fn read(kind: SourceKind, object: &Value) -> Self {
        let (meta, spec) = (ObjectMeta::of(object), &object["spec"]);
        // What a wrong spec does not keep from being known: when it is looked at again.
        let duration = |field: &str| {
            let read = spec[field].as_str().and_then(|text| text.parse::<GoDuration>().ok());
            read.map(|duration| duration.get())
        };
        Self {
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            generation: meta.generation(),
            requested_at: meta.annotation(REQUESTED_AT).unwrap_or_default().to_owned(),
            suspended: spec["suspend"] == true,
            interval: duration("interval"),
            timeout: duration("timeout"),
            spec: SourceSpec::read(kind, spec).map_err(|error| FluxError::within("spec", error)),
        }
    }

    /// The spec.
    ///
    /// # Errors
    /// A field has a value of the wrong type.
    pub(super) fn spec(&self) -> Result<&SourceSpec, SourceError> {
        self.spec.as_ref().map_err(|error| SourceError::fetch("InvalidSpec", error.to_string()).stalling())
    }

    /// Whether it has neither artifact nor status: a registry, from which charts are read directly.
    pub(super) fn is_static(&self) -> bool {
        matches!(&self.spec, Ok(SourceSpec::HelmRepository(spec)) if index_fetch::is_registry(spec))
    }

    /// The sources that it is made of.
    pub(super) fn sources(&self) -> Vec<ObjectRef> {
        let source = |kind: &str, name: &str| source_ref(kind, Some(&self.namespace), name);
        match &self.spec {
            Ok(SourceSpec::HelmChart(spec)) => vec![source(&spec.source_ref.kind, &spec.source_ref.name)],
            Ok(SourceSpec::GitRepository(spec)) => {
                let included = spec.include.iter();
                included.map(|include| source("GitRepository", &include.repository.name)).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// A source by its kind and name.
pub(super) fn source_ref(kind: &str, namespace: Option<&str>, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new(SOURCES, kind), namespace, name)
}
