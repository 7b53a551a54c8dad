//! A HelmChart as it is read: whose it is, which release it stands for, what it waits for.
//!
//! Owns the annotations of HelmCharts and the mapping of the spec to the engine's options. Pure.

use std::time::Duration;

use serde::Deserialize as _;
use serde_json::Value;

use super::k3s_api::{HelmChartConfigSpec, HelmChartSpec};
use api_types::GoDuration;
use windlass_cluster::{ObjectMeta, Validation};
use windlass_controller::{Dependencies, ImageAnnotations, ReconcileError, is_dns_label};
use windlass_engine::record::Storage;
use windlass_engine::{
    Adoption, ApplyChoice, CrdPolicy, Disposition, DriftPolicy, Duplicates, Mode, MovedCrds, ObjectOptions,
    OwnershipOptions, ReleaseId, ReleaseOptions, RevisionOptions,
};

/// Annotation of charts that no controller manages.
pub(crate) const UNMANAGED: &str = "helmcharts.helm.cattle.io/unmanaged";
/// Annotation that names the controller of a chart.
pub(crate) const MANAGED_BY: &str = "helmcharts.cattle.io/managed-by";
/// Annotation: HelmCharts that must be ready before, `NAME` or `NAMESPACE/NAME`, separated by commas.
pub(crate) const DEPENDS_ON: &str = "windlass.dev/depends-on";
/// The longest list of these.
const MAX_DEPENDENCIES: usize = 100;
/// The longest address, version and path of a value, in bytes.
const MAX_TEXT: usize = 2048;
/// The longest name of a release, as Helm's.
const MAX_RELEASE_NAME: usize = 53;
/// Time limit of a wait, unless the chart has one.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Failed tries after which condition Failed is true, unless the chart says otherwise: as k3s.
const BACK_OFF_LIMIT: u32 = 1000;

/// Whose a HelmChart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Management {
    /// Ours, as its annotation says.
    Ours,
    /// Nobody has claimed it.
    Unclaimed,
    /// Nobody's: it says so, or names no chart.
    Unmanaged,
    /// Another controller's.
    Other,
}

/// What happens to a release whose newest revision has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    #[default]
    Reinstall,
    Abort,
    Retry,
}

/// A HelmChart as it is read.
pub struct ManagedChart {
    /// Its namespace.
    pub(crate) namespace: String,
    /// Its name, which is the release's.
    pub(crate) name: String,
    pub(crate) generation: i64,
    pub(crate) management: Management,
    pub(crate) is_deleting: bool,
    pub(crate) depends_on: Vec<String>,
    /// Whether its status says that it is ready.
    pub(crate) shows_ready: bool,
    /// What its annotations say of the images in its values.
    pub(crate) images: ImageAnnotations,
    spec: Result<HelmChartSpec, String>,
}

impl ManagedChart {
    /// Reads an object. `manager`: the name in [`MANAGED_BY`] that stands for this process.
    pub(crate) fn read(object: &Value, manager: &str) -> Self {
        let meta = ObjectMeta::of(object);
        let namespace = meta.namespace().unwrap_or_default();
        let spec = match &object["spec"] {
            Value::Null => Ok(HelmChartSpec::default()),
            spec => HelmChartSpec::deserialize(spec).map_err(|e| format!("spec: {e}")),
        };
        let names_chart =
            spec.as_ref().map_or(true, |spec| !(spec.chart.is_empty() && spec.chart_content.is_empty()));
        let management = match meta.annotation(MANAGED_BY) {
            _ if meta.annotation(UNMANAGED).is_some() || !names_chart => Management::Unmanaged,
            Some(name) if name == manager => Management::Ours,
            Some(_) => Management::Other,
            None => Management::Unclaimed,
        };
        Self {
            namespace: namespace.to_owned(),
            name: meta.name().to_owned(),
            generation: meta.generation(),
            management,
            is_deleting: meta.is_deleting(),
            depends_on: dependency_keys(meta.annotation(DEPENDS_ON).unwrap_or_default(), namespace),
            shows_ready: shows_ready(object),
            images: ImageAnnotations::of(meta),
            spec,
        }
    }

    /// The spec.
    ///
    /// # Errors
    /// A field has a value of the wrong type.
    pub(crate) fn spec(&self) -> Result<&HelmChartSpec, ReconcileError> {
        self.spec.as_ref().map_err(|text| ReconcileError::Config(text.clone()))
    }

    /// The spec of a chart that can be deployed.
    ///
    /// # Errors
    /// As [`Self::spec`]; the name is too long for a release; a field has none of its values. The text says what to write.
    pub(crate) fn checked_spec(&self) -> Result<&HelmChartSpec, ReconcileError> {
        let spec = self.spec()?;
        if self.name.len() > MAX_RELEASE_NAME {
            return Err(ReconcileError::Config(format!(
                "metadata.name has {} characters, and the release of the same name may have {MAX_RELEASE_NAME}: create the \
                 HelmChart under a shorter name",
                self.name.len()
            )));
        }
        if self.depends_on.len() > MAX_DEPENDENCIES {
            return Err(ReconcileError::Config(format!(
                "annotation {DEPENDS_ON}: it names more than {MAX_DEPENDENCIES} HelmCharts: name those that others do not wait for already"
            )));
        }
        check(spec)?;
        Ok(spec)
    }

    /// `NAMESPACE/NAME`.
    pub(crate) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The release. Its namespace is the object's own where the spec cannot be read.
    pub(crate) fn release(&self) -> ReleaseId {
        let target = self.spec.as_ref().map(|spec| spec.target_namespace.as_str()).unwrap_or_default();
        ReleaseId::new(if target.is_empty() { &self.namespace } else { target }, &self.name)
    }

    /// Whether there can be a release of this name in this namespace: other ones were never deployed, and need no uninstall.
    pub(crate) fn can_have_release(&self) -> bool {
        let ReleaseId { namespace, name } = self.release();
        is_dns_label(&namespace) && name.len() <= MAX_RELEASE_NAME
    }

    /// Where the records of the release are; the operator's choice where the spec says nothing.
    pub(crate) fn storage(&self) -> Option<Storage> {
        match self.spec.as_ref().map(|spec| spec.driver.as_str()) {
            Ok("secret" | "secrets") => Some(Storage::Secrets),
            Ok("configmap" | "configmaps") => Some(Storage::ConfigMaps),
            _ => None,
        }
    }

    /// Charts that must be ready before.
    pub(crate) fn dependencies(&self) -> Dependencies {
        self.depends_on.iter().map(|key| (key.clone(), None)).collect()
    }

    /// Failed tries in a row after which the chart counts as failed.
    pub(crate) fn back_off_limit(&self) -> u32 {
        self.spec.as_ref().ok().and_then(|spec| spec.back_off_limit).unwrap_or(BACK_OFF_LIMIT)
    }

    /// Fields that have no effect here, by name.
    pub(crate) fn fields_without_effect(&self) -> Vec<&'static str> {
        let Ok(spec) = &self.spec else { return Vec::new() };
        let fields = [
            ("spec.jobImage", !spec.job_image.is_empty()),
            ("spec.podSecurityContext", !spec.pod_security_context.is_empty()),
            ("spec.securityContext", !spec.security_context.is_empty()),
        ];
        fields.into_iter().filter_map(|(name, set)| set.then_some(name)).collect()
    }
}

/// Keys of the objects that an annotation names, and one that is too many if there are more.
fn dependency_keys(text: &str, namespace: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty()).take(MAX_DEPENDENCIES + 1);
    names
        .map(|name| if name.contains('/') { name.to_owned() } else { format!("{namespace}/{name}") })
        .collect()
}

/// Whether condition Ready is true, and of this generation where that is known.
fn shows_ready(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    ready.any(|ready| {
        let generation = &ready["observedGeneration"];
        ready["status"] == "True"
            && (generation.is_null() || *generation == ObjectMeta::of(object).generation())
    })
}

/// Refuses what is not supported, and texts that are none of the values of their field.
///
/// # Errors
/// The text names the field and says what it takes.
fn check(spec: &HelmChartSpec) -> Result<(), ReconcileError> {
    if !matches!(spec.helm_version.as_str(), "" | "v3") {
        return Err(ReconcileError::Reason {
            reason: UNSUPPORTED_VERSION,
            text: format!("Only Helm v3 charts are supported: spec.helmVersion is {:?}", spec.helm_version),
            disposition: Disposition::Stall,
        });
    }
    // They stand in messages.
    for (field, text) in
        [("spec.chart", &spec.chart), ("spec.repo", &spec.repo), ("spec.version", &spec.version)]
    {
        if text.len() > MAX_TEXT {
            let text = format!("{field} has {} characters: no more than {MAX_TEXT} are read", text.len());
            return Err(ReconcileError::Config(text));
        }
    }
    if spec.set.keys().any(|path| path.len() > MAX_TEXT) {
        let text = format!("spec.set: a path has more than {MAX_TEXT} characters");
        return Err(ReconcileError::Config(text));
    }
    if !spec.target_namespace.is_empty() && !is_dns_label(&spec.target_namespace) {
        let shown: String = spec.target_namespace.chars().take(63).collect();
        return Err(ReconcileError::Config(format!(
            "spec.targetNamespace: {shown:?} is not the name of a namespace"
        )));
    }
    one_of("spec.driver", &spec.driver, &["secret", "secrets", "configmap", "configmaps"])
}

/// Reason of charts of another Helm.
pub(crate) const UNSUPPORTED_VERSION: &str = "UnsupportedVersion";

fn one_of(field: &str, text: &str, known: &[&str]) -> Result<(), ReconcileError> {
    match text.is_empty() || known.contains(&text) {
        true => Ok(()),
        false => Err(ReconcileError::Config(format!("{field}: {text:?} is none of {}", known.join(", ")))),
    }
}

/// The policy for failures: that of the configuration before that of the chart.
///
/// # Errors
/// It is unknown.
pub(crate) fn failure_policy(
    spec: &HelmChartSpec,
    config: &HelmChartConfigSpec,
) -> Result<FailurePolicy, ReconcileError> {
    let text = if config.failure_policy.is_empty() { &spec.failure_policy } else { &config.failure_policy };
    one_of("failurePolicy", text, &["reinstall", "abort", "retry"])?;
    Ok(match text.as_str() {
        "abort" => FailurePolicy::Abort,
        "retry" => FailurePolicy::Retry,
        _ => FailurePolicy::Reinstall,
    })
}

/// Time limit of each wait.
pub(crate) fn timeout(spec: &HelmChartSpec) -> Duration {
    spec.timeout.as_ref().map(GoDuration::get).filter(|time| !time.is_zero()).unwrap_or(TIMEOUT)
}

/// The engine's options.
///
/// # Errors
/// A text is none of the values of its field.
pub(crate) fn release_options(
    spec: &HelmChartSpec,
    config: &HelmChartConfigSpec,
    drift: DriftPolicy,
) -> Result<ReleaseOptions, ReconcileError> {
    let server_side = if config.server_side.is_empty() { &spec.server_side } else { &config.server_side };
    one_of("serverSide", server_side, &["true", "false", "auto"])?;
    let apply = match server_side.as_str() {
        "true" => ApplyChoice::Server,
        "false" => ApplyChoice::Client,
        _ => ApplyChoice::Auto,
    };
    Ok(ReleaseOptions {
        mode: Mode::UpgradeInstall,
        apply,
        create_namespace: spec.create_namespace && !spec.target_namespace.is_empty(),
        crds: CrdPolicy::CreateMissing,
        timeout: timeout(spec),
        revisions: RevisionOptions { skip_unchanged: true, ..RevisionOptions::default() },
        ownership: OwnershipOptions {
            adoption: if spec.take_ownership { Adoption::Any } else { Adoption::Marked },
            // Drift cannot be corrected otherwise.
            force_conflicts: config.force_conflicts.or(spec.force_conflicts).unwrap_or(true),
            ..OwnershipOptions::default()
        },
        objects: ObjectOptions {
            duplicates: Duplicates::KeepLast,
            validation: Validation::Warn,
            moved_crds: MovedCrds::Keep,
            ..ObjectOptions::default()
        },
        drift,
        ..ReleaseOptions::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chart(annotations: &Value, spec: &Value) -> ManagedChart {
        let metadata =
            json!({"name": "web", "namespace": "kube-system", "generation": 2, "annotations": annotations});
        ManagedChart::read(&json!({"metadata": metadata, "spec": spec}), "helm-controller")
    }

    #[test]
    fn charts_are_managed_by_who_claimed_them() {
        let web = json!({"chart": "web"});
        for (annotations, spec, expected) in [
            (json!({}), &web, Management::Unclaimed),
            (json!({MANAGED_BY: "helm-controller"}), &web, Management::Ours),
            (json!({MANAGED_BY: "rke2"}), &web, Management::Other),
            (json!({MANAGED_BY: ""}), &web, Management::Other),
            (json!({MANAGED_BY: "helm-controller", UNMANAGED: ""}), &web, Management::Unmanaged),
            (json!({}), &json!({}), Management::Unmanaged),
            (json!({}), &json!({"chartContent": "x"}), Management::Unclaimed),
            // Its status says what is wrong.
            (json!({}), &json!({"chart": 5}), Management::Unclaimed),
        ] {
            assert_eq!(chart(&annotations, spec).management, expected, "{annotations} {spec}");
        }
    }

    #[test]
    fn releases_are_named_as_their_objects() {
        let release = |spec: Value| chart(&json!({}), &spec).release().to_string();
        assert_eq!(release(json!({"chart": "x"})), "kube-system/web");
        assert_eq!(release(json!({"chart": "x", "targetNamespace": "shop"})), "shop/web");
        assert_eq!(release(json!({"chart": "x", "targetNamespace": ""})), "kube-system/web");
        assert_eq!(release(json!({"chart": 1})), "kube-system/web");
        assert!(chart(&json!({}), &json!({"chart": "x"})).can_have_release());
        assert!(!chart(&json!({}), &json!({"chart": "x", "targetNamespace": "../x"})).can_have_release());
        let named = |length: usize| {
            let metadata = json!({"name": "x".repeat(length), "namespace": "apps"});
            let object = json!({"metadata": metadata, "spec": {"chart": "x"}});
            ManagedChart::read(&object, "helm-controller")
        };
        assert!(named(53).checked_spec().is_ok() && named(53).can_have_release());
        let error = named(54).checked_spec().unwrap_err().to_string();
        assert!(error.starts_with("metadata.name has 54 characters, ") && error.contains(" 53: "), "{error}");
        assert!(!named(54).can_have_release());
        let keys = chart(&json!({DEPENDS_ON: "cni, certs/manager,,"}), &json!({"chart": "x"})).depends_on;
        assert_eq!(keys, ["kube-system/cni", "certs/manager"]);
        let many = |count: usize| chart(&json!({DEPENDS_ON: "cni,".repeat(count)}), &json!({"chart": "x"}));
        assert!(many(100).checked_spec().is_ok());
        let error = many(100_000).checked_spec().unwrap_err().to_string();
        assert!(error.contains(DEPENDS_ON) && error.contains("more than 100 "), "{error}");
    }

    #[test]
    fn fields_of_the_job_have_no_effect_and_are_named() {
        let context = json!({"runAsUser": 0});
        for (spec, expected) in [
            (json!({}), &[][..]),
            (json!({"jobImage": "", "podSecurityContext": {}, "backOffLimit": 3, "bootstrap": true}), &[]),
            (json!({"jobImage": "rancher/klipper-helm:v0.9"}), &["spec.jobImage"]),
            (
                json!({"podSecurityContext": context, "securityContext": context}),
                &["spec.podSecurityContext", "spec.securityContext"],
            ),
        ] {
            assert_eq!(chart(&json!({}), &spec).fields_without_effect(), expected, "{spec}");
        }
        let limit = |spec: Value| chart(&json!({}), &spec).back_off_limit();
        assert_eq!(
            [limit(json!({})), limit(json!({"backOffLimit": 0})), limit(json!({"backOffLimit": 7}))],
            [1000, 0, 7]
        );
        let limit =
            |text: Value| timeout(&serde_json::from_value(json!({"timeout": text})).unwrap()).as_secs();
        assert_eq!([limit(Value::Null), limit("0s".into()), limit("15m0s".into())], [300, 300, 900]);
    }

    #[test]
    fn ready_is_of_this_generation() {
        let shows = |ready: Value| {
            let object = json!({"metadata": {"generation": 2}, "status": {"conditions": [ready]}});
            shows_ready(&object)
        };
        assert!(shows(json!({"type": "Ready", "status": "True"})));
        assert!(shows(json!({"type": "Ready", "status": "True", "observedGeneration": 2})));
        assert!(!shows(json!({"type": "Ready", "status": "True", "observedGeneration": 1})));
        assert!(!shows(json!({"type": "Ready", "status": "False"})));
        assert!(!shows(json!({"type": "JobCreated", "status": "True"})));
    }

    #[test]
    fn the_configuration_goes_before_the_chart() {
        let spec = |value: Value| serde_json::from_value::<HelmChartSpec>(value).unwrap();
        let config = |value: Value| serde_json::from_value::<HelmChartConfigSpec>(value).unwrap();
        let policy = |a: Value, b: Value| failure_policy(&spec(a), &config(b)).map_err(|e| e.to_string());
        assert_eq!(policy(json!({}), json!({})), Ok(FailurePolicy::Reinstall));
        assert_eq!(policy(json!({"failurePolicy": "abort"}), json!({})), Ok(FailurePolicy::Abort));
        let both = policy(json!({"failurePolicy": "abort"}), json!({"failurePolicy": "retry"}));
        assert_eq!(both, Ok(FailurePolicy::Retry));
        let error = policy(json!({"failurePolicy": "never"}), json!({})).unwrap_err();
        assert_eq!(error, "failurePolicy: \"never\" is none of reinstall, abort, retry");
        let options = |a: Value, b: Value| {
            let options = release_options(&spec(a), &config(b), DriftPolicy::default()).unwrap();
            (options.apply, options.ownership.force_conflicts, options.ownership.adoption)
        };
        assert_eq!(options(json!({}), json!({})), (ApplyChoice::Auto, true, Adoption::Marked));
        let chart = json!({"serverSide": "false", "forceConflicts": false, "takeOwnership": true});
        assert_eq!(options(chart.clone(), json!({})), (ApplyChoice::Client, false, Adoption::Any));
        let config = json!({"serverSide": "true", "forceConflicts": true});
        assert_eq!(options(chart, config), (ApplyChoice::Server, true, Adoption::Any));
    }

    #[test]
    fn other_helms_are_refused() {
        let refused = |value: Value| {
            check(&serde_json::from_value::<HelmChartSpec>(value).unwrap()).map_err(|e| e.to_string())
        };
        assert_eq!(refused(json!({})), Ok(()));
        assert_eq!(refused(json!({"helmVersion": "v3", "driver": "configmap"})), Ok(()));
        assert!(
            refused(json!({"helmVersion": "v2"}))
                .unwrap_err()
                .starts_with("Only Helm v3 charts are supported")
        );
        for spec in [json!({"chart": "x".repeat(3000)}), json!({"set": {"x".repeat(3000): 1}})] {
            let error = refused(spec).unwrap_err();
            assert!(error.contains("2048 ") && error.len() < 100, "{error}");
        }
        assert!(
            refused(json!({"driver": "sql"})).unwrap_err().starts_with("spec.driver: \"sql\" is none of")
        );
    }
}
