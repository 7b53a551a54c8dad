//! A front end of custom resources in full: `ReleaseSample {chart, values}`.
//!
//! Shows what a front end has to bring: its kind, a mapping from an object to a release, and one from a report to a status.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chart_compat::chart::read_values;
use chart_compat::data::Map;
use chart_compat::profile::Profile;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_cluster::{Gvk, ObjectMeta, api_now};
use windlass_controller::{
    Condition, Dependencies, EventNote, EventType, FrontEnd, ReconcileError, ReconcilePass, Reconciled,
    ReleaseSpec, ReleaseTarget, Report, ValuesReference, crd_files, resolve_values, set_conditions,
};
use windlass_engine::{
    Mode, OwnershipOptions, ReleaseAction, ReleaseId, ReleaseKey, ReleaseOptions, RevisionOptions,
};

/// The definition of the kind.
pub(crate) const CRD: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: releasesamples.test.windlass.dev}
spec:
  group: test.windlass.dev
  names: {kind: ReleaseSample, plural: releasesamples, singular: releasesample}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [chart]
            properties:
              chart: {type: string}
              values: {type: object, x-kubernetes-preserve-unknown-fields: true}
              valuesFrom: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
              dependsOn: {type: array, items: {type: string}}
              serviceAccountName: {type: string}
              releaseName: {type: string}
              suspend: {type: boolean}
              interval: {type: integer}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

/// The front end. It has no state.
pub(crate) struct ReleaseSamples;

/// What an object asks for.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    chart: String,
    values: Option<Value>,
    values_from: Vec<Value>,
    depends_on: Vec<String>,
    service_account_name: Option<String>,
    release_name: Option<String>,
    suspend: bool,
    interval: Option<u64>,
}

/// An object as it is read.
pub(crate) struct ReleaseSample {
    namespace: String,
    name: String,
    generation: i64,
    spec: Spec,
}

impl ReleaseSample {
    fn release(&self) -> ReleaseId {
        ReleaseId::new(&self.namespace, self.spec.release_name.as_ref().unwrap_or(&self.name))
    }
}

impl FrontEnd for ReleaseSamples {
    type Object = ReleaseSample;

    fn read(&self, object: &Value) -> ReleaseSample {
        let meta = ObjectMeta::of(object);
        ReleaseSample {
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            generation: meta.generation(),
            // The API server has checked it.
            spec: Spec::deserialize(&object["spec"]).unwrap_or_default(),
        }
    }

    fn name(&self) -> &'static str {
        "releasesamples"
    }

    fn kind(&self) -> Gvk {
        Gvk::new("test.windlass.dev/v1", "ReleaseSample")
    }

    fn finalizer(&self) -> &'static str {
        "test.windlass.dev/release"
    }

    fn releases(&self, object: &ReleaseSample) -> BTreeSet<ReleaseKey> {
        [ReleaseKey::at_home(&object.release())].into()
    }

    fn target(&self, object: &ReleaseSample) -> Result<ReleaseTarget, ReconcileError> {
        // A tenant names accounts of its own namespace only.
        let account = object.spec.service_account_name.as_deref();
        ReleaseTarget::of_tenant(Some(&object.namespace), account, None)
    }

    fn dependencies(&self, object: &ReleaseSample) -> Dependencies {
        let names = object.spec.depends_on.iter();
        names.map(|name| (format!("{}/{name}", object.namespace), None)).collect()
    }

    fn is_suspended(&self, object: &ReleaseSample) -> bool {
        object.spec.suspend
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        object: &ReleaseSample,
    ) -> Result<Reconciled, ReconcileError> {
        pass.report_progress(self, object).await?;
        let (spec, id) = (&object.spec, object.release());
        let path = PathBuf::from(&spec.chart);
        let chart = tokio::task::spawn_blocking(move || {
            let chart = windlass_fetch::load(&path, Profile::Helm4).map_err(|e| e.to_string())?;
            Ok::<_, String>(Arc::new(chart.compile(Profile::Helm4)))
        });
        let chart = chart
            .await
            .map_err(|e| ReconcileError::Task(e.to_string()))?
            .map_err(|e| ReconcileError::Chart(format!("spec.chart: {e}")))?;
        let invalid = |what: &str, e: String| ReconcileError::Config(format!("spec.{what}: {e}"));
        let list = json!(spec.values_from).to_string();
        let references = ValuesReference::list(&list).map_err(|e| invalid("valuesFrom", e))?;
        let client = pass.runner(self, object)?.engine().cluster().clone();
        pass.set_reader(&client);
        let lists = BTreeMap::from([(String::new(), references)]);
        let mut resolved = resolve_values(&client, &id.namespace, &lists).await;
        pass.references.extend(resolved.seen);
        let mut values = resolved
            .lists
            .remove("")
            .unwrap_or_else(|| Ok(Map::new()))
            .map_err(|e| invalid("valuesFrom", e))?;
        if let Some(own) = &spec.values {
            let own = read_values(own.to_string().as_bytes(), Profile::Helm4);
            chart_compat::chart::merge_maps(&mut values, own.map_err(|e| invalid("values", e.to_string()))?);
        }
        let release = ReleaseSpec {
            skip_schema_validation: false,
            id,
            crds: crd_files(&chart.chart().crds(), &[], &BTreeMap::new())?,
            chart,
            values: Arc::new(values),
            owner: self.name().to_owned(),
            cause: format!("generation {} of ReleaseSample", object.generation),
            description: None,
            record_labels: BTreeMap::new(),
            checksum_label: None,
            post_render: None,
            options: ReleaseOptions {
                mode: Mode::UpgradeInstall,
                revisions: RevisionOptions { skip_unchanged: true, ..RevisionOptions::default() },
                ownership: OwnershipOptions { force_conflicts: true, ..OwnershipOptions::default() },
                ..ReleaseOptions::default()
            },
        };
        let interval = spec.interval.map(Duration::from_secs);
        pass.reconcile_release(self, object, release, interval).await
    }

    fn status(&self, object: &ReleaseSample, before: &Value, report: &Report<'_>) -> Value {
        let generation = object.generation;
        let (status, reason, message) = match report {
            Report::Progressing => (None, "Progressing", "the release is being reconciled".to_owned()),
            Report::Suspended => (None, "Suspended", "spec.suspend is true".to_owned()),
            Report::DependencyNotReady(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                (Some(false), "DependencyNotReady", format!("waits for {}", names.join(", ")))
            }
            Report::Released(outcome) => {
                (Some(true), "Released", format!("revision {} is deployed", outcome.revision))
            }
            Report::Failed { error, .. } => (Some(false), error.reason(), error.to_string()),
        };
        let ready = Condition { condition_type: "Ready", status, reason, message };
        let now = api_now();
        let before = &before["conditions"];
        let mut status = json!({
            "observedGeneration": generation,
            "conditions": set_conditions(before, &[ready], Some(generation), &now),
        });
        if let Report::Released(outcome) = report {
            status["revision"] = outcome.revision.into();
        }
        status
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        let (event_type, reason, note) = match report {
            Report::Released(outcome) if outcome.action != ReleaseAction::Unchanged => {
                (EventType::Normal, "Released", format!("revision {} is deployed", outcome.revision))
            }
            Report::Failed { error, .. } => (EventType::Warning, error.reason(), error.to_string()),
            _ => return None,
        };
        Some(EventNote { event_type, reason, action: "Reconcile", note, annotations: BTreeMap::new() })
    }
}
