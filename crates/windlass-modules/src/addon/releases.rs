//! Releases of modules: from a module and its values to a release spec, and what addon-operator's records say of them.
//!
//! Owns the engine options of modules and the labels by which addon-operator and this operator know a release.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chart_compat::chart::Crd;
use chart_compat::data::Map;
use chart_compat::render::CompiledChart;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::checksum::module_checksum;
use windlass_base::hex::hex;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef, PatchKind, Validation};
use windlass_controller::{
    AllReleaseSettings, Done, EventNote, EventRecorder, PostRender, ReconcileError as Error, ReleaseRunner,
    ReleaseSpec, ReleaseTarget, crd_files, drift_policy_of,
};
use windlass_engine::record::{OWNER_LABEL, RecordHead};
use windlass_engine::{
    Adoption, CrdFile, CrdPolicy, DriftMode, DriftPolicy, Duplicates, Engine, Mode, MovedCrds, ObjectOptions,
    OwnershipOptions, ReleaseId, ReleaseOptions, ReleaseRequest, RevisionOptions, UninstallRequest,
};
use windlass_render::add_labels;

/// Label of a record: the checksum of its manifests, by which addon-operator knows whether there is something to do. It does
/// nothing with a release that has none.
const CHECKSUM_LABEL: &str = "moduleChecksum";
/// Label of a record: whether the release's objects are left as they are.
const MAINTENANCE_LABEL: &str = "maintenance.deckhouse.io/no-resource-reconciliation";

/// The longest value of a label.
const LONGEST_LABEL: usize = 63;

/// What all modules of an operator share, and where the release of one of them is.
#[derive(Clone)]
pub struct Releases {
    pub(crate) runner: ReleaseRunner,
    pub(crate) events: EventRecorder,
    pub namespace: String,
    /// Mark of this operator's releases.
    pub(crate) owner: String,
    pub(crate) history_max: usize,
    pub(crate) timeout: Duration,
    pub(crate) drift: DriftPolicy,
    /// Labels of every object of a release.
    pub(crate) labels: Arc<BTreeMap<String, String>>,
    /// Beginnings of names of files in `crds/` that are skipped.
    pub(crate) crd_filters: Arc<Vec<String>>,
    /// Which existing objects modules take over.
    pub(crate) adoption: Adoption,
    /// Drift is not corrected, and records say so.
    pub(crate) held: bool,
    /// What charts say of the images of their workloads.
    settings: AllReleaseSettings,
    /// Where the release is and on whose behalf.
    target: ReleaseTarget,
}

impl Releases {
    pub fn new(runner: ReleaseRunner, events: EventRecorder, options: &super::Options) -> Self {
        Self {
            runner,
            events,
            namespace: options.namespace.clone(),
            owner: options.config_map.clone(),
            history_max: options.releases.history_max,
            timeout: options.releases.timeout,
            drift: options.releases.drift.clone(),
            labels: Arc::new(options.releases.extra_labels.clone()),
            crd_filters: Arc::new(options.releases.crd_filters.clone()),
            adoption: options.releases.adoption,
            held: false,
            settings: AllReleaseSettings::default(),
            target: ReleaseTarget::default(),
        }
    }

    /// The same, with settings of releases that other controllers of the process follow.
    pub(crate) fn with_settings(self, settings: AllReleaseSettings) -> Self {
        Self { settings, ..self }
    }

    pub fn engine(&self) -> &Engine {
        self.runner.engine()
    }

    /// The marks of this operator's releases, in its own namespace and in others.
    pub(crate) fn owners(&self) -> BTreeSet<String> {
        BTreeSet::from([self.owner.clone(), self.owner_elsewhere()])
    }

    fn options(&self, drift: DriftPolicy) -> ReleaseOptions {
        ReleaseOptions {
            drift: if self.held { DriftPolicy { mode: DriftMode::Off, ..drift } } else { drift },
            mode: Mode::UpgradeInstall,
            revisions: RevisionOptions {
                skip_unchanged: true,
                max: self.history_max,
                ..RevisionOptions::default()
            },
            crds: CrdPolicy::Apply,
            timeout: self.timeout,
            ownership: OwnershipOptions {
                adoption: self.adoption,
                force_conflicts: true,
                ..OwnershipOptions::default()
            },
            objects: ObjectOptions {
                validation: Validation::Warn,
                duplicates: Duplicates::KeepLast,
                moved_crds: MovedCrds::Keep,
                ..ObjectOptions::default()
            },
            ..ReleaseOptions::default()
        }
    }

    /// The same for a module with a target of its own.
    pub fn at(&self, target: &ReleaseTarget) -> Result<Self, Error> {
        let mut own = Self { target: target.clone(), ..self.clone() };
        if let Some(namespace) = target.namespace.as_ref().filter(|n| **n != self.namespace) {
            own.namespace.clone_from(namespace);
            own.owner = self.owner_elsewhere();
        }
        own.runner = own.runner.acting_for(target, &own.namespace)?;
        Ok(own)
    }

    /// The mark of this operator's releases in other namespaces than its own: a label's value.
    fn owner_elsewhere(&self) -> String {
        let text = format!("{}.{}", self.namespace, self.owner);
        if text.len() <= LONGEST_LABEL {
            return text;
        }
        let end = hex(&Sha256::digest(&text)[..8]);
        let start: String = text.chars().take(LONGEST_LABEL - 1 - end.len()).collect();
        format!("{}.{end}", start.trim_end_matches(['.', '-', '_']))
    }

    pub(crate) fn id(&self, module: &str) -> ReleaseId {
        ReleaseId::new(&self.namespace, module)
    }

    /// Renders a module, a chart and its CRDs, with its values and reconciles its release.
    pub(crate) async fn run(
        &self,
        module: &str,
        (chart, crds): (Arc<CompiledChart>, &[Crd]),
        values: Arc<Map>,
        cause: String,
    ) -> Result<Done, Error> {
        let object = self.object(module);
        let annotations = chart.chart().metadata.annotations.clone().unwrap_or_default();
        self.settings.note_chart(&object, &annotations, self.target.clone());
        let spec = ReleaseSpec { cause, ..self.spec(module, (chart, crds), values)? };
        let done = self.runner.run(spec).await?;
        self.settings.note_deployed(&object, &self.id(module));
        Ok(done)
    }

    /// What stands for a module where its settings are noted.
    fn object(&self, module: &str) -> ObjectRef {
        ObjectRef::new(Gvk::new("windlass.dev/v1alpha1", "Module"), Some(&self.namespace), module)
    }

    /// Uninstalls a module's release. Returns how many objects were deleted.
    pub(crate) async fn uninstall(&self, module: &str) -> Result<usize, Error> {
        self.settings.forget(&self.object(module));
        let request = UninstallRequest {
            ignore_not_found: true,
            timeout: self.timeout,
            ..UninstallRequest::new(self.id(module))
        };
        let is_own = |head: &RecordHead| head.owner() == Some(&self.owner);
        let note = |event: EventNote| {
            tracing::warn!(module, "{}", event.note);
            let config_map = ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(&self.namespace), &self.owner);
            self.events.warn_object(&config_map, event.reason, format!("module {module}: {}", event.note));
        };
        Ok(self.runner.uninstall_readable(&request, is_own, note).await?.deleted.len())
    }

    /// What a run of the module would ask of the engine. Writes nothing.
    pub async fn preview(
        &self,
        module: &str,
        chart: (Arc<CompiledChart>, &[Crd]),
        values: Arc<Map>,
    ) -> Result<ReleaseRequest, Error> {
        self.runner.preview(self.spec(module, chart, values)?).await
    }

    fn spec(
        &self,
        module: &str,
        (chart, crds): (Arc<CompiledChart>, &[Crd]),
        values: Arc<Map>,
    ) -> Result<ReleaseSpec, Error> {
        let annotations = chart.chart().metadata.annotations.as_deref();
        let drift = drift_policy_of(&self.drift, annotations).map_err(Error::Chart)?;
        let labels = Arc::clone(&self.labels);
        let post_render: PostRender = Arc::new(move |rendered, bounds| {
            let mut release = windlass_render::release(&rendered, bounds)?;
            let checksum = module_checksum(&release.manifest_text, &labels).map_err(Error::Chart);
            add_labels(&mut release, &labels).map_err(Error::Chart)?;
            Ok((release, checksum?))
        });
        Ok(ReleaseSpec {
            skip_schema_validation: false,
            id: self.id(module),
            crds: self.crds_of(crds)?,
            chart,
            values,
            owner: self.owner.clone(),
            cause: String::new(),
            description: None,
            record_labels: BTreeMap::from([(MAINTENANCE_LABEL.to_owned(), self.held.to_string())]),
            checksum_label: Some(CHECKSUM_LABEL),
            post_render: Some(post_render),
            options: self.options(drift),
        })
    }

    fn crds_of(&self, files: &[Crd]) -> Result<Vec<CrdFile>, Error> {
        crd_files(files, &self.crd_filters, &self.labels)
    }

    /// Applies CRDs of a module if the API server does not serve one of their kinds yet.
    pub(crate) async fn ensure_kinds(&self, module: &str, files: &[Crd]) -> Result<(), Error> {
        let (crds, options) = (self.crds_of(files)?, self.options(self.drift.clone()));
        self.runner.ensure_kinds(&self.id(module), &crds, &options).await
    }

    /// Applies the CRDs of a module without a release.
    pub(crate) async fn apply_crds(&self, module: &str, files: &[Crd]) -> Result<(), Error> {
        let (crds, options) = (self.crds_of(files)?, self.options(self.drift.clone()));
        self.runner.apply_crds(&self.id(module), &self.owner, crds, &options).await
    }

    /// What [`Self::apply_crds`] would write, in words; a change that it would refuse is an error.
    pub async fn preview_crds(&self, files: &[Crd]) -> Result<Vec<String>, Error> {
        self.runner.preview_crds(&self.crds_of(files)?).await
    }

    /// Releases in the namespace that carry this operator's mark.
    pub async fn owned_releases(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        self.releases(&format!("{OWNER_LABEL}={}", self.owner)).await
    }

    /// This operator's releases in other namespaces.
    pub(crate) async fn owned_elsewhere(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        let labels = format!("owner=helm,{OWNER_LABEL}={}", self.owner_elsewhere());
        let engine = self.engine();
        match engine.operator_client().list_metadata(&engine.storage().gvk(), None, &labels).await {
            Ok(secrets) => Ok(ids(&secrets)),
            // Modules without a namespace of their own need no rights elsewhere.
            Err(e) if e.is_forbidden() => {
                tracing::debug!("releases in other namespaces are not listed: {e}");
                Ok(BTreeSet::new())
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Releases in the namespace that an addon-operator made and that have no owner yet.
    pub async fn inherited_releases(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        self.releases(&format!("{CHECKSUM_LABEL},!{OWNER_LABEL}")).await
    }

    /// Whether a module's release exists, whatever its owner.
    pub(crate) async fn exists(&self, module: &str) -> Result<bool, Error> {
        Ok(!self.releases(&format!("name={module}")).await?.is_empty())
    }

    /// Releases whose records say that their objects are left alone.
    pub(crate) async fn held_releases(&self) -> Result<BTreeSet<ReleaseId>, Error> {
        self.releases(&format!("{MAINTENANCE_LABEL}=true")).await
    }

    /// Says in the newest record of a release whether its objects are left alone. Returns whether there is a record. No revision
    /// is created for that: addon-operator, which creates one, reads the label alone.
    pub(crate) async fn mark_held(&self, module: &str, held: bool) -> Result<bool, Error> {
        let (gvk, labels) = (Gvk::new("v1", "Secret"), format!("owner=helm,name={module}"));
        let client = self.engine().operator_client();
        let records = client.list_metadata(&gvk, Some(&self.namespace), &labels).await?;
        let version =
            |r: &Value| ObjectMeta::of(r).label("version").and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
        let newest = records.iter().max_by_key(|r| version(r)).map(ObjectMeta::of);
        let Some(meta) = newest.filter(|m| m.label("status") != Some("uninstalled")) else {
            return Ok(false);
        };
        let desired = held.to_string();
        if meta.label(MAINTENANCE_LABEL) != Some(desired.as_str()) {
            let record = ObjectRef::new(gvk, Some(&self.namespace), meta.name());
            let patch = json!({"metadata": {"labels": {MAINTENANCE_LABEL: desired}}});
            client.patch_subresource(&record, "", PatchKind::Merge, &patch, "windlass").await?;
        }
        Ok(true)
    }

    async fn releases(&self, labels: &str) -> Result<BTreeSet<ReleaseId>, Error> {
        let (gvk, labels) = (self.engine().storage().gvk(), format!("owner=helm,{labels}"));
        Ok(ids(&self.engine().operator_client().list_metadata(&gvk, Some(&self.namespace), &labels).await?))
    }
}

/// The releases of records, without those that are uninstalled.
fn ids(secrets: &[Value]) -> BTreeSet<ReleaseId> {
    let metas = secrets.iter().map(ObjectMeta::of).filter(|m| m.label("status") != Some("uninstalled"));
    metas.filter_map(|m| Some(ReleaseId::new(m.namespace()?, m.label("name")?))).collect()
}

/// The operator's ConfigMap as an object reference.
pub fn config_map(namespace: &str, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("v1", "ConfigMap"), Some(namespace), name)
}
