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
use serde_json::{Value, json};
use windlass_cluster::Gvk;
use windlass_controller::{
    Condition, EventNote, EventType, FrontEnd, ReconcileError, ReconcilePass, Reconciled, ReleaseSpec,
    ReleaseTarget, Report, ValuesReference, crd_files, resolve_values, set_conditions,
};
use windlass_engine::{Mode, OwnershipOptions, ReleaseAction, ReleaseId, ReleaseOptions, RevisionOptions};

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

impl FrontEnd for ReleaseSamples {
    fn name(&self) -> &'static str {
        "releasesamples"
    }

    fn kind(&self) -> Gvk {
        Gvk::new("test.windlass.dev/v1", "ReleaseSample")
    }

    fn finalizer(&self) -> &'static str {
        "test.windlass.dev/release"
    }

    fn releases(&self, object: &Value) -> BTreeSet<ReleaseId> {
        [release_of(object)].into()
    }

    fn target(&self, object: &Value) -> Result<ReleaseTarget, ReconcileError> {
        // A tenant names accounts of its own namespace only.
        let namespace = object["metadata"]["namespace"].as_str();
        ReleaseTarget::of_tenant(namespace, object["spec"]["serviceAccountName"].as_str(), None)
    }

    fn dependencies(&self, object: &Value) -> BTreeSet<String> {
        let namespace = text(&object["metadata"]["namespace"]);
        let names = object["spec"]["dependsOn"].as_array().into_iter().flatten();
        names.map(|name| format!("{namespace}/{}", text(name))).collect()
    }

    fn is_suspended(&self, object: &Value) -> bool {
        object["spec"]["suspend"] == true
    }

    async fn reconcile(&self, pass: &mut ReconcilePass) -> Result<Reconciled, ReconcileError> {
        pass.report_progress(self).await?;
        let object = pass.object.clone();
        let spec = &object["spec"];
        let id = release_of(&object);
        let path = PathBuf::from(text(&spec["chart"]));
        let chart = tokio::task::spawn_blocking(move || {
            let chart = windlass_fetch::load(&path, Profile::Helm4).map_err(|e| e.to_string())?;
            Ok::<_, String>(Arc::new(chart.compile(Profile::Helm4)))
        });
        let chart = chart
            .await
            .map_err(|e| ReconcileError::Task(e.to_string()))?
            .map_err(|e| ReconcileError::Chart(format!("spec.chart: {e}")))?;
        let invalid = |what: &str, e: String| ReconcileError::Config(format!("spec.{what}: {e}"));
        let list =
            spec["valuesFrom"].as_array().map_or_else(|| "[]".to_owned(), |list| json!(list).to_string());
        let references = ValuesReference::list(&list).map_err(|e| invalid("valuesFrom", e))?;
        let client = pass.runner(self)?.engine().cluster().clone();
        pass.set_reader(&client);
        let lists = BTreeMap::from([(String::new(), references)]);
        let mut resolved = resolve_values(&client, &id.namespace, &lists).await;
        pass.references.extend(resolved.seen);
        let mut values = resolved
            .lists
            .remove("")
            .unwrap_or_else(|| Ok(Map::new()))
            .map_err(|e| invalid("valuesFrom", e))?;
        if spec["values"].is_object() {
            let own = read_values(spec["values"].to_string().as_bytes(), Profile::Helm4);
            chart_compat::chart::merge_maps(&mut values, own.map_err(|e| invalid("values", e.to_string()))?);
        }
        let release = ReleaseSpec {
            skip_schema_validation: false,
            id,
            crds: crd_files(&chart.chart().crds(), &[], &BTreeMap::new())?,
            chart,
            values: Arc::new(values),
            owner: self.name().to_owned(),
            cause: format!("generation {} of ReleaseSample", object["metadata"]["generation"]),
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
        let interval = spec["interval"].as_u64().map(Duration::from_secs);
        pass.reconcile_release(self, release, interval).await
    }

    fn status(&self, object: &Value, report: &Report<'_>) -> Value {
        let generation = object["metadata"]["generation"].as_i64().unwrap_or_default();
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
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let before = &object["status"]["conditions"];
        let mut status = json!({
            "observedGeneration": generation,
            "conditions": set_conditions(before, &[ready], Some(generation), &now),
        });
        if let Report::Released(outcome) = report {
            status["revision"] = outcome.revision.into();
        }
        status
    }

    fn event(&self, _object: &Value, report: &Report<'_>) -> Option<EventNote> {
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

fn release_of(object: &Value) -> ReleaseId {
    let name = object["spec"]["releaseName"].as_str().unwrap_or(text(&object["metadata"]["name"]));
    ReleaseId::new(text(&object["metadata"]["namespace"]), name)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
