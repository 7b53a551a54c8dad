//! What a pass over a HelmChart would do now, and what differs from k3s' helm-controller. Writes nothing.

use serde_json::Value;

use super::helm_charts::HelmCharts;
use super::k3s_api::HelmChartSpec;
use super::managed_chart::{MANAGED_BY, ManagedChart, Management, UNSUPPORTED_VERSION};
use windlass_cluster::ObjectMeta;
use windlass_controller::{FrontEnd as _, ReconcileError, References, ReleaseRunner};
use windlass_engine::Preview;

/// What a plan is made of.
pub struct ChartPlanInputs<'p> {
    /// Acts as the operator.
    pub runner: &'p ReleaseRunner,
    /// The HelmChart.
    pub object: &'p Value,
    /// Its HelmChartConfig, if there is one.
    pub config: Option<&'p Value>,
    /// Whether ServiceAccounts are impersonated.
    pub impersonates: bool,
}

/// What a pass would do.
pub enum PlannedChart {
    /// Nothing: the object is not managed here. The text says why.
    NotManaged(String),
    /// Its release stays, or changes as the preview says.
    Release(Box<Preview>),
}

impl HelmCharts {
    /// Plans a pass.
    ///
    /// # Errors
    /// As a pass.
    pub async fn plan(&self, inputs: ChartPlanInputs<'_>) -> Result<PlannedChart, ReconcileError> {
        let ChartPlanInputs { runner, object, config, impersonates } = inputs;
        let chart = self.read(object);
        if let Some(why) = not_managed(&chart, object) {
            return Ok(PlannedChart::NotManaged(why));
        }
        let own = match impersonates {
            true => runner.acting_for(&self.target(&chart)?, &chart.release().namespace)?,
            false => runner.clone(),
        };
        let own = self.placed(own, &chart).for_object(&ObjectMeta::of(object).reference(self.kind()));
        let prepared = self.prepare(&chart, config, &own, &mut References::new()).await?;
        let request = own.preview(prepared.spec).await?;
        Ok(PlannedChart::Release(Box::new(own.engine().plan(&request).await?)))
    }
}

/// Why an object is not managed here.
fn not_managed(chart: &ManagedChart, object: &Value) -> Option<String> {
    let manager = || ObjectMeta::of(object).annotation(MANAGED_BY).unwrap_or_default().to_owned();
    match chart.management {
        _ if chart.is_deleting => Some("it is being deleted".to_owned()),
        Management::Ours | Management::Unclaimed => None,
        Management::Unmanaged => Some("it says that nobody manages it, or names no chart".to_owned()),
        Management::Other => Some(format!("{} manages it (annotation {MANAGED_BY})", manager())),
    }
}

/// A difference from k3s' helm-controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChartDifference {
    /// The object does not work here.
    pub refused: bool,
    pub text: String,
}

/// What of a HelmChart works differently here. `manager`: the operator's `--managed-by`.
#[must_use]
pub fn differences(object: &Value, manager: &str) -> Vec<ChartDifference> {
    let chart = ManagedChart::read(object, manager);
    if not_managed(&chart, object).is_some() {
        return Vec::new();
    }
    let spec = match chart.checked_spec() {
        Ok(spec) => spec,
        Err(error) => {
            // k3s refuses it, too.
            let refused = error.reason() != UNSUPPORTED_VERSION;
            return vec![ChartDifference { refused, text: error.to_string() }];
        }
    };
    let ignored = chart.fields_without_effect().into_iter();
    let ignored = ignored.map(|field| format!("{field}: no effect, since there is no Job"));
    let differs = ignored.chain(of_spec(spec).into_iter().map(str::to_owned));
    differs.map(|text| ChartDifference { refused: false, text }).collect()
}

fn of_spec(spec: &HelmChartSpec) -> Vec<&'static str> {
    let mut found = Vec::new();
    if spec.back_off_limit.is_some() {
        found.push("spec.backOffLimit: condition Failed is true after as many tries, and tries go on");
    }
    if spec.failure_policy.is_empty() || spec.failure_policy == "reinstall" {
        found.push(
            "spec.failurePolicy: reinstall creates objects anew that cannot be changed, and uninstalls nothing; \
             --failure-policy-reinstall=as-k3s uninstalls the release first",
        );
    }
    if spec.chart.starts_with("stable/") && spec.repo.is_empty() {
        found.push("spec.chart: the stable repository is closed: name another one in spec.repo");
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn differences_are_those_of_managed_charts() {
        let of = |annotations: Value, spec: Value| {
            let metadata = json!({"name": "web", "namespace": "apps", "annotations": annotations});
            let found = differences(&json!({"metadata": metadata, "spec": spec}), "helm-controller");
            found.into_iter().map(|one| format!("{} {}", one.refused, one.text)).collect::<Vec<_>>()
        };
        let web = json!({"chart": "web", "repo": "https://h", "failurePolicy": "retry"});
        assert!(of(json!({}), web.clone()).is_empty());
        let mut more = web;
        more["jobImage"] = "x".into();
        more["backOffLimit"] = 3.into();
        let found = of(json!({}), more.clone());
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("false spec.jobImage: no effect"), "{found:?}");
        assert!(of(json!({MANAGED_BY: "other"}), more).is_empty());
        let found = of(json!({}), json!({"chart": "web", "driver": "sql"}));
        assert!(found.len() == 1 && found[0].starts_with("true spec.driver"), "{found:?}");
        let found = of(json!({}), json!({"chart": "web", "helmVersion": "v2"}));
        assert!(found.len() == 1 && found[0].starts_with("false Only Helm v3"), "{found:?}");
    }
}
