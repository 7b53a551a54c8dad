//! The rights for a release of a HelmChart that its account has not: all of them in one condition.
//!
//! Owns when they are asked for, and how the chart is named. The comparison is [`windlass_controller`]'s.

use serde_json::Value;

use super::helm_charts::HelmCharts;
use super::managed_chart::ManagedChart;
use windlass_controller::{
    ChartArguments, FrontEnd as _, MISSING_RIGHTS, MissingRights, ReconcileError, ReleaseRunner, ReleaseSpec,
    account_of, missing_rights_error, user_lacks,
};

impl HelmCharts {
    /// Refuses another try, and so another revision, while rights are missing that the last one failed for. `object`: as it is.
    ///
    /// # Errors
    /// Rights are still missing, or the API server does not answer.
    pub(crate) async fn check_rights(
        &self,
        object: &Value,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
        spec: &ReleaseSpec,
    ) -> Result<(), ReconcileError> {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        if !conditions.any(|one| one["type"] == "Ready" && one["reason"] == MISSING_RIGHTS) {
            return Ok(());
        }
        self.missing_rights(chart, runner, spec.clone()).await?.map_or(Ok(()), Err)
    }

    /// The error of a pass; where the API server forbade something and rights are missing, one that lists them all.
    pub(crate) async fn with_missing_rights(
        &self,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
        spec: ReleaseSpec,
        error: ReconcileError,
    ) -> ReconcileError {
        if !error.is_forbidden() {
            return error;
        }
        match self.missing_rights(chart, runner, spec).await {
            Ok(Some(missing)) => missing,
            // A quota or an admission plugin forbade it.
            Ok(None) => error,
            Err(failure) => {
                tracing::debug!(object = chart.key(), "its missing rights are not known: {failure}");
                error
            }
        }
    }

    async fn missing_rights(
        &self,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
        spec: ReleaseSpec,
    ) -> Result<Option<ReconcileError>, ReconcileError> {
        let release = spec.id.clone();
        let missing = runner.missing_rights(spec).await?;
        if missing.is_empty() {
            return Ok(None);
        }
        let target = self.target(chart)?;
        let user = runner.engine().cluster().own_user().await?;
        let Some(account) = target.service_account(&chart.namespace).or(account_of(&user)) else {
            return Ok(Some(missing_rights_error(user_lacks(&user, &missing))));
        };
        let (arguments, is_content) = arguments_of(chart)?;
        let message = MissingRights {
            missing: &missing,
            account,
            // Those of the operator for the kind itself are those of `windlass rbac --controllers=helmcharts`.
            operator_kind: None,
            chart: &arguments,
            namespace: &release.namespace,
            pull_secrets: false,
        };
        let where_from = match is_content {
            true => format!(" ({} is spec.chartContent, decoded)", arguments.chart),
            false => String::new(),
        };
        Ok(Some(missing_rights_error(format!("{message}{where_from}"))))
    }
}

/// The chart as commands take it, and whether that is a file with the package in the object.
fn arguments_of(chart: &ManagedChart) -> Result<(ChartArguments, bool), ReconcileError> {
    let spec = chart.spec()?;
    if !spec.chart_content.is_empty() {
        let chart = format!("{}.tgz", chart.name);
        return Ok((ChartArguments { chart, ..ChartArguments::default() }, true));
    }
    Ok((ChartArguments::without_login(&spec.chart, &spec.repo, &spec.version), false))
}
