//! What a pass over an object of a chart's kind, or over a ChartResource, would do now. Writes nothing.

use serde_json::Value;

use super::chart_objects::ChartObjects;
use super::chart_resources::{self, ChartResourceOptions};
use super::kind_chart::KindChart;
use super::kind_settings::KindSettings;
use super::loaded_chart::LoadedChart;
use super::object_deployment::Deployment;
use super::release_choice::Ownership;
use windlass_cluster::{Cluster, Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{FrontEnd as _, ReconcileError, References, ReleaseRunner};
use windlass_engine::Preview;

/// What a plan is made of.
pub struct ObjectPlanInputs<'p> {
    /// Acts as the operator.
    pub runner: &'p ReleaseRunner,
    /// The object.
    pub object: &'p Value,
    /// Whether ServiceAccounts are impersonated.
    pub impersonates: bool,
}

/// What a pass over an object would do.
pub enum PlannedObject {
    /// Nothing. The text says why.
    NotManaged(String),
    /// Its release stays, or changes as the preview says.
    Release {
        preview: Box<Preview>,
        /// What a user of operator-sdk does not expect.
        notes: Vec<String>,
    },
}

impl ChartObjects {
    /// Plans a pass.
    ///
    /// # Errors
    /// As a pass.
    pub async fn plan(&self, inputs: ObjectPlanInputs<'_>) -> Result<PlannedObject, ReconcileError> {
        let ObjectPlanInputs { runner, object: live, impersonates } = inputs;
        let mut object = self.read(live);
        if ObjectMeta::of(live).is_deleting() {
            return Ok(PlannedObject::NotManaged("it is being deleted".to_owned()));
        }
        if self.is_suspended(&object) {
            return Ok(PlannedObject::NotManaged("it is suspended".to_owned()));
        }
        let Some(namespace) = object.namespace.clone() else {
            let text =
                format!("{} is cluster-scoped, and a release is in a namespace", self.settings().gvk.kind);
            return Err(ReconcileError::Config(text));
        };
        let runner = match impersonates {
            true => runner.acting_for(&self.target(&object)?, &namespace)?,
            false => runner.clone(),
        };
        let runner = runner.for_object(&ObjectMeta::of(live).reference(self.kind()));
        // A plan takes no turn in the rollout: it is made for all objects.
        let chart = match self.kind.chart() {
            KindChart::Loaded(chart) => chart,
            KindChart::Missing(missing) => return Err(ReconcileError::Chart(missing.why.to_string())),
        };
        let mut values = self.values_of(&object);
        self.set_images(&object, Some(&chart), &mut values);
        let values = values.map_err(|(_, error)| *error)?;
        let secret = self.pull_secret_of(&object, Some(&chart), &values).map_err(ReconcileError::Config)?;
        let mut notes = Vec::new();
        if let Some(name) = &secret {
            notes.push(self.pull_secret_note(&runner, &namespace, name).await?);
        }
        object.status.pull_secret = secret;
        let claimant = self.claimant(&object, chart.name());
        let known = self.known_release(&object);
        let release = claimant.choose(runner.engine(), &namespace, known, &self.busy_releases()).await?;
        if release.id.name != object.name {
            notes.push(format!(
                "its release is called {}: {} belongs to others",
                release.id.name, object.name
            ));
        }
        if release.ownership == Ownership::Unmarked {
            notes.push(format!(
                "release {} is taken over: its next revision has the marks of this operator",
                release.id
            ));
        }
        let labels = claimant.labels();
        let deployment = Deployment {
            settings: self.settings(),
            object: &object,
            runner: &runner,
            release: &release,
            labels,
        };
        let request = runner.preview(deployment.spec(&chart, values).await?).await?;
        let preview = Box::new(runner.engine().plan(&request).await?);
        Ok(PlannedObject::Release { preview, notes })
    }

    async fn pull_secret_note(
        &self,
        runner: &ReleaseRunner,
        namespace: &str,
        name: &str,
    ) -> Result<String, ReconcileError> {
        let reference = ObjectRef::new(Gvk::new("v1", "Secret"), Some(namespace), name);
        Ok(match runner.engine().cluster().get_metadata(&reference).await? {
            Some(_) => format!("the ServiceAccount default gets the pull secret {name}"),
            None => format!("it waits for the pull secret {name}, which does not exist"),
        })
    }
}

/// A kind that a ChartResource registers.
pub struct PlannedKind {
    /// How its objects are reconciled.
    pub settings: KindSettings,
    /// Its chart.
    pub chart: LoadedChart,
    /// Whether its definition is there already.
    pub is_registered: bool,
}

/// Plans a pass over a ChartResource. Reads its Secret with `client`, and downloads its chart.
///
/// # Errors
/// As a pass.
pub async fn plan_kind(
    client: &Cluster,
    options: &ChartResourceOptions,
    resource: &Value,
) -> Result<PlannedKind, ReconcileError> {
    chart_resources::plan(client, options, resource, &mut References::new()).await
}
