//! The HelmChart of a HelmRelease with `spec.chart`: applied, and deleted when it is not used any more or its HelmRelease goes.

use std::collections::{BTreeMap, BTreeSet};

use super::names;
use super::object::{HelmReleaseObject, status_of};
use flux_api::api_names::SOURCES;
use flux_api::helm_release::HelmReleaseSpec;
use windlass_cluster::{ApplyOptions, DeleteOptions, Gvk, ObjectMeta, ObjectRef, Propagation, Validation};
use windlass_controller::{EventNote, EventType, ReconcileError, ReconcilePass, contains};

/// Field manager of HelmCharts, as helm-controller's.
const MANAGER: &str = "helm-controller";

/// Applies the HelmChart of a template, and deletes one that is not used any more.
///
/// # Errors
/// A HelmChart of that name belongs to another object, or a request fails.
pub(super) async fn apply(
    pass: &mut ReconcilePass,
    object: &HelmReleaseObject,
    spec: &HelmReleaseSpec,
    chart: &ObjectRef,
) -> Result<(), ReconcileError> {
    let mut status = status_of(&pass.object);
    let namespace = chart.namespace.clone().unwrap_or_default();
    let wanted = spec.chart.as_ref().map(|_| format!("{namespace}/{}", chart.name)).unwrap_or_default();
    if !status.helm_chart.is_empty() && status.helm_chart != wanted {
        delete(pass, object, &status.helm_chart).await?;
        status.helm_chart.clear();
        pass.replace_status(&status).await?;
    }
    let Some(template) = &spec.chart else { return Ok(()) };
    let body = names::helm_chart(object, spec, template, chart);
    let live = pass.related.get(chart);
    if live.is_some_and(|live| !names::is_chart_of(live, object)) {
        let text = format!("HelmChart {wanted} belongs to another object: choose another name");
        return Err(ReconcileError::Config(text));
    }
    if !live.is_some_and(|live| contains(live, &body)) {
        let (reason, verb) = match live {
            Some(_) => ("HelmChartConfigured", "Configured"),
            None => ("HelmChartCreated", "Created"),
        };
        let options = ApplyOptions {
            manager: MANAGER,
            force: true,
            validation: Validation::Strict,
            dry_run: false,
            whole: false,
        };
        pass.client().apply(chart, &body, options).await?;
        let source = &template.spec.source_ref;
        let source = format!("{}/{namespace}/{}", source.kind, source.name);
        record(pass, reason, format!("{verb} HelmChart/{wanted} with SourceRef '{source}'"));
    }
    if status.helm_chart != wanted {
        status.helm_chart = wanted;
        pass.replace_status(&status).await?;
    }
    Ok(())
}

/// Deletes the HelmCharts of an object that goes: the one that its status names, and the one that its spec has, which a pass may have
/// created whose status was not written.
///
/// # Errors
/// A request fails.
pub(super) async fn delete_all(
    pass: &ReconcilePass,
    object: &HelmReleaseObject,
    spec: &HelmReleaseSpec,
) -> Result<(), ReconcileError> {
    let source = object.source(spec).filter(|_| spec.chart.is_some());
    let named = source.map(|chart| format!("{}/{}", chart.namespace.unwrap_or_default(), chart.name));
    let known = Some(status_of(&pass.object).helm_chart).filter(|known| !known.is_empty());
    let all: BTreeSet<String> = known.into_iter().chain(named).collect();
    for chart in &all {
        delete(pass, object, chart).await?;
    }
    Ok(())
}

/// Deletes a HelmChart, given as `NAMESPACE/NAME`. The name may come from a status, which others may write: what is not this object's
/// stays.
async fn delete(pass: &ReconcilePass, object: &HelmReleaseObject, name: &str) -> Result<(), ReconcileError> {
    let Some((namespace, own)) = name.split_once('/') else { return Ok(()) };
    let chart = ObjectRef::new(Gvk::new(SOURCES, "HelmChart"), Some(namespace), own);
    let live = pass.client().get(&chart).await?;
    let Some(live) = live.filter(|live| names::is_chart_of(live, object)) else { return Ok(()) };
    let uid = Some(ObjectMeta::of(&live).uid());
    let options = DeleteOptions { propagation: Propagation::Background, uid, version: None };
    match pass.client().delete(&chart, options).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
        Ok(_) => {
            record(pass, "HelmChartDeleted", format!("deleted HelmChart '{name}'"));
            Ok(())
        }
    }
}

fn record(pass: &ReconcilePass, reason: &'static str, note: String) {
    let (event_type, action, annotations) = (EventType::Trace, "Reconcile", BTreeMap::new());
    pass.record_event(EventNote { event_type, reason, action, note, annotations });
}
