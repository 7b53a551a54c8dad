//! The front end of HelmCharts: what is watched, and whose objects are whose.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::chart_download::ChartClients;
use super::chart_status::{StatusOf, event_of};
use super::k3s_api::{API_VERSION, CHART_KIND, CONFIG_KIND};
use super::managed_chart::{DEPENDS_ON, MANAGED_BY, ManagedChart, Management, UNMANAGED};
use super::release_owners::ReleaseOwners;
use windlass_cluster::{Gvk, ObjectRef};
use windlass_controller::{
    AccountName, Dependencies, EventNote, FrontEnd, ReconcileError, ReconcilePass, Reconciled, ReleaseRunner,
    ReleaseTarget, Report,
};
use windlass_engine::{DriftPolicy, ReleaseId, ReleaseKey};

/// The name of the front end, which is in the labels of its records.
pub const NAME: &str = "helmcharts";

/// The name in the annotation of charts that k3s manages.
pub const DEFAULT_MANAGER: &str = "helm-controller";

/// When a failed release is made anew under the failure policy `reinstall`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReinstallMode {
    /// Objects whose immutable fields change are created anew, and records that cannot be read are deleted, once a change. Everything
    /// else is retried.
    #[default]
    AsNeeded,
    /// As k3s: a release whose newest revision has failed is uninstalled first.
    AsK3s,
}

impl std::str::FromStr for ReinstallMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "as-needed" => Ok(Self::AsNeeded),
            "as-k3s" => Ok(Self::AsK3s),
            _ => Err(format!("{text:?} is not a mode: as-needed or as-k3s")),
        }
    }
}

/// Options of all HelmCharts of a process.
#[derive(Clone, Debug, Default)]
pub struct HelmChartOptions {
    /// The name in the annotation `helmcharts.cattle.io/managed-by` that stands for this process.
    pub managed_by: String,
    /// The ServiceAccount, in the namespace of each object, that its release is deployed as; `None`: the operator's rights.
    pub default_service_account: Option<AccountName>,
    /// Whether charts may be at addresses of this machine and of its cloud's metadata service.
    pub allow_local_addresses: bool,
    /// URL of the repository of charts named `stable/NAME`.
    pub stable_repository: String,
    /// What happens to drift.
    pub drift: DriftPolicy,
    /// When a failed release is made anew.
    pub reinstall: ReinstallMode,
    /// Whether the definition of the kind has our fields of the status ([`crate::crds::keeps_own_status`]).
    pub keeps_own_status: bool,
}

/// The front end.
pub struct HelmCharts {
    pub(crate) options: HelmChartOptions,
    pub(crate) clients: ChartClients,
    pub(crate) owners: ReleaseOwners,
    /// The change for which a release was made anew last, by the key of the object.
    reinstalled: Mutex<BTreeMap<String, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HelmCharts {
    /// The front end.
    #[must_use]
    pub fn new(options: HelmChartOptions) -> Self {
        Self {
            clients: ChartClients::new(options.allow_local_addresses),
            options,
            owners: ReleaseOwners::default(),
            reinstalled: Mutex::default(),
        }
    }

    /// The HelmChartConfig of a HelmChart.
    pub(crate) fn config_of(chart: &ManagedChart) -> ObjectRef {
        ObjectRef::new(Gvk::new(API_VERSION, CONFIG_KIND), Some(&chart.namespace), &chart.name)
    }

    /// The runner for the release of an object: where its records are, and on whose behalf they are read and written.
    pub(crate) fn placed(&self, mut runner: ReleaseRunner, chart: &ManagedChart) -> ReleaseRunner {
        let release = chart.release();
        if release.namespace != chart.namespace {
            runner = runner.with_storage_namespace(&release.namespace, true);
        }
        match chart.storage() {
            Some(storage) => runner.with_storage(storage),
            None => runner,
        }
    }

    /// Whether a release may be made anew for a change; true once.
    pub(crate) fn may_reinstall(&self, chart: &ManagedChart, change: &str) -> bool {
        let before = lock(&self.reinstalled).insert(chart.key(), change.to_owned());
        before.as_deref() != Some(change)
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, key: &str) {
        self.owners.forget(key);
        lock(&self.reinstalled).remove(key);
    }
}

impl FrontEnd for HelmCharts {
    type Object = ManagedChart;

    fn read(&self, object: &Value) -> ManagedChart {
        ManagedChart::read(object, &self.options.managed_by)
    }

    fn name(&self) -> &'static str {
        NAME
    }

    fn kind(&self) -> Gvk {
        Gvk::new(API_VERSION, CHART_KIND)
    }

    /// k3s' own, so that either controller removes it.
    fn finalizer(&self) -> &'static str {
        "wrangler.cattle.io/on-helm-chart-remove"
    }

    /// An object that nobody manages yet gets it with the claim.
    fn needs_finalizer(&self, chart: &ManagedChart) -> bool {
        chart.management != Management::Unclaimed
    }

    fn trigger_annotations(&self) -> &[&str] {
        &["windlass.dev/requested-at", MANAGED_BY, UNMANAGED, DEPENDS_ON]
    }

    /// What the object has deployed: until then it keeps nobody from it, and afterwards the record's mark does.
    fn releases(&self, chart: &ManagedChart) -> BTreeSet<ReleaseKey> {
        let ours = matches!(chart.management, Management::Ours | Management::Unclaimed);
        let release = chart.release();
        let deployed = ours && self.owners.has(&release, &chart.key());
        deployed.then(|| ReleaseKey::at_home(&release)).into_iter().collect()
    }

    fn note_gone(&self, key: &str) {
        self.forget(key);
    }

    fn next_request(&self) -> impl Future<Output = String> + Send {
        self.owners.next_request()
    }

    fn target(&self, chart: &ManagedChart) -> Result<ReleaseTarget, ReconcileError> {
        let default = self.options.default_service_account.as_ref();
        ReleaseTarget::of_tenant(Some(&chart.namespace), None, default)
    }

    fn dependencies(&self, chart: &ManagedChart) -> Dependencies {
        chart.dependencies()
    }

    fn shows_ready(&self, chart: &ManagedChart) -> Option<bool> {
        Some(chart.shows_ready)
    }

    fn release_runner(
        &self,
        pass: &ReconcilePass,
        chart: &ManagedChart,
        _release: &ReleaseId,
    ) -> Result<ReleaseRunner, ReconcileError> {
        Ok(self.placed(pass.runner(self, chart)?, chart))
    }

    fn related_kinds(&self) -> Vec<Gvk> {
        vec![Gvk::new(API_VERSION, CONFIG_KIND)]
    }

    fn related(&self, chart: &ManagedChart) -> BTreeSet<ObjectRef> {
        [Self::config_of(chart)].into()
    }

    /// The cluster may need charts for its bootstrap before all others.
    fn order(&self, chart: &ManagedChart) -> u32 {
        u32::from(!chart.spec().is_ok_and(|spec| spec.bootstrap))
    }

    /// One that nobody manages is let go when it is deleted.
    fn belongs_elsewhere(&self, chart: &ManagedChart) -> bool {
        match chart.management {
            Management::Ours | Management::Unclaimed => false,
            Management::Unmanaged => !chart.is_deleting,
            Management::Other => true,
        }
    }

    /// A pass that fails before the release is touched returns an error; one that fails after it does not.
    fn keeps_state_on_error(&self) -> bool {
        true
    }

    async fn reconcile(
        &self,
        pass: &mut ReconcilePass,
        chart: &ManagedChart,
    ) -> Result<Reconciled, ReconcileError> {
        self.run_pass(pass, chart).await
    }

    async fn uninstall(&self, pass: &mut ReconcilePass, chart: &ManagedChart) -> Result<(), ReconcileError> {
        self.run_uninstall(pass, chart).await
    }

    fn status(&self, chart: &ManagedChart, before: &Value, report: &Report<'_>) -> Value {
        StatusOf { chart, before, keeps_own: self.options.keeps_own_status }.of(report)
    }

    fn event(&self, report: &Report<'_>) -> Option<EventNote> {
        event_of(report)
    }
}
