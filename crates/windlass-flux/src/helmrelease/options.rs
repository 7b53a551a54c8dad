//! What a HelmRelease's spec means for the engine: timeouts, options, post-renderers, drift rules. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chart_compat::render::{PostRenderStrategy, Rendered};

use super::super::error::FluxError;
use super::digest;
use super::release_state::Action;
use flux_api::GoDuration;
use flux_api::helm_release::{self as api, HelmReleaseSpec};
use windlass_base::cel_expression;
use windlass_cluster::{Propagation, Validation};
use windlass_controller::{PostRender, ReconcileError, jittered};
use windlass_engine::{
    Adoption, ApplyChoice, CrdPolicy, Disposition, Drift, DriftMode, DriftPolicy, Duplicates, FailureOptions,
    HealthCheck, Immutable, Mode, MovedCrds, ObjectOptions, OwnershipOptions, ReleaseOptions,
    RevisionOptions, Wait, WaitRules,
};
use windlass_render::RenderBounds;
use windlass_render::post_renderers::{
    CommonMetadata, Image, KustomizePostRenderer, Patch, PostRenderError, PostRenderHint, PostRenderers,
    Selector,
};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
const DEFAULT_HISTORY: usize = 5;
/// No object is reconciled more often by itself, whatever its spec says.
const MIN_INTERVAL: Duration = Duration::from_secs(1);
pub(super) fn timeout_of(spec: &HelmReleaseSpec, own: Option<&GoDuration>) -> Duration {
    own.or(spec.timeout.as_ref()).map_or(DEFAULT_TIMEOUT, GoDuration::get)
}

pub(super) fn install_timeout(spec: &HelmReleaseSpec) -> Duration {
    timeout_of(spec, spec.install.timeout.as_ref())
}

pub(super) fn upgrade_timeout(spec: &HelmReleaseSpec) -> Duration {
    timeout_of(spec, spec.upgrade.timeout.as_ref())
}

/// The interval with jitter.
pub(super) fn interval(spec: &HelmReleaseSpec) -> Duration {
    jittered(spec.interval.as_ref().map_or(DEFAULT_TIMEOUT, GoDuration::get).max(MIN_INTERVAL))
}

pub(super) fn propagation(text: Option<&str>) -> Propagation {
    match text {
        Some("foreground") => Propagation::Foreground,
        Some("orphan") => Propagation::Orphan,
        _ => Propagation::Background,
    }
}

/// Digest of the post-renderers; empty without any.
pub(super) fn post_renderers_digest(spec: &HelmReleaseSpec) -> String {
    spec.post_renderers.as_ref().map(digest::of_spec).unwrap_or_default()
}

/// Digest of the common metadata; empty without any.
pub(super) fn common_metadata_digest(spec: &HelmReleaseSpec) -> String {
    spec.common_metadata.as_ref().map(digest::of_spec).unwrap_or_default()
}

/// What changes the rendered objects: post-renderers, common metadata, labels of the origin.
///
/// # Errors
/// A selector or a strategy that is not valid.
pub(super) fn post_render(
    spec: &HelmReleaseSpec,
    origin: BTreeMap<String, String>,
) -> Result<PostRender, ReconcileError> {
    let wrong = |text: String| ReconcileError::Config(format!("spec.postRenderers: {text}"));
    let mut kustomize = Vec::new();
    for one in spec.post_renderers.iter().flatten().filter_map(|renderer| renderer.kustomize.as_ref()) {
        let patches = one
            .patches
            .iter()
            .map(|patch| Patch { text: patch.patch.clone(), target: patch.target.as_ref().map(selector) });
        let image = |image: &api::Image| Image {
            name: image.name.clone(),
            new_name: image.new_name.clone(),
            new_tag: image.new_tag.clone(),
            digest: image.digest.clone(),
        };
        kustomize.push(KustomizePostRenderer {
            patches: patches.collect(),
            images: one.images.iter().map(image).collect(),
        });
    }
    let strategy = match spec.post_render_strategy.as_deref() {
        None | Some("combined") => PostRenderStrategy::Combined,
        Some("nohooks") => PostRenderStrategy::NoHooks,
        Some("separate") => PostRenderStrategy::Separate,
        Some(other) => return Err(wrong(format!("strategy {other:?} is not nohooks, combined or separate"))),
    };
    let some = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    let renderers = PostRenderers {
        kustomize,
        common_metadata: spec.common_metadata.as_ref().map(|common| CommonMetadata {
            labels: some(&common.labels),
            annotations: some(&common.annotations),
        }),
        origin_labels: Some(origin),
        strategy,
    };
    Ok(Arc::new(move |mut rendered: Rendered, bounds: &RenderBounds| {
        let failed = |error| ReconcileError::Chart(post_render_text(error));
        renderers.apply(&mut rendered).map_err(failed)?;
        Ok((windlass_render::release(&rendered, bounds)?, String::new()))
    }))
}

/// The text of a failed post-render: helm-controller's, and what it leaves out.
fn post_render_text(error: PostRenderError) -> String {
    let PostRenderError { text, hint } = error;
    match hint {
        Some(PostRenderHint::HookAndManifest(object)) => format!(
            "{text}; {object} is both a hook and a manifest of the chart, and both are post-rendered together: \
             spec.postRenderStrategy: separate post-renders hooks by themselves, nohooks not at all"
        ),
        Some(PostRenderHint::Text(hint)) => format!("{text}; {hint}"),
        None => text,
    }
}

fn selector(selector: &api::Selector) -> Selector {
    Selector {
        group: selector.group.clone(),
        version: selector.version.clone(),
        kind: selector.kind.clone(),
        name: selector.name.clone(),
        namespace: selector.namespace.clone(),
        label_selector: selector.label_selector.clone(),
        annotation_selector: selector.annotation_selector.clone(),
    }
}

fn wait(disabled: bool, without_jobs: bool) -> Wait {
    match (disabled, without_jobs) {
        (true, _) => Wait::HooksOnly,
        (false, true) => Wait::Ready,
        (false, false) => Wait::ReadyAndJobs,
    }
}

fn wait_rules(spec: &HelmReleaseSpec) -> WaitRules {
    match spec.wait_strategy.as_ref().map(|strategy| strategy.name.as_str()) {
        Some("legacy") => WaitRules::Legacy,
        _ => WaitRules::Status,
    }
}

fn health_check(rule: &api::HealthCheckExpr) -> HealthCheck {
    HealthCheck {
        api_version: rule.api_version.clone(),
        kind: rule.kind.clone(),
        current: rule.current.clone(),
        in_progress: rule.in_progress.clone(),
        failed: rule.failed.clone(),
    }
}

/// Checks the expressions of health checks, before anything is done.
///
/// # Errors
/// One is no expression.
pub(super) async fn check_expressions(spec: &HelmReleaseSpec) -> Result<(), ReconcileError> {
    let rules = spec.health_check_exprs.clone();
    if rules.is_empty() {
        return Ok(());
    }
    cel_expression::off_runtime(move || check_rules(&rules)).await.map_err(|error: FluxError| {
        ReconcileError::Reason {
            reason: "InvalidCELExpression",
            text: error.into(),
            disposition: Disposition::Stall,
        }
    })
}

fn check_rules(rules: &[api::HealthCheckExpr]) -> Result<(), FluxError> {
    for (at, rule) in rules.iter().enumerate() {
        let all = [
            ("current", Some(&rule.current)),
            ("inProgress", rule.in_progress.as_ref()),
            ("failed", rule.failed.as_ref()),
        ];
        for (field, expression) in all {
            let Some(expression) = expression else { continue };
            cel_expression::check(expression)
                .map_err(|why| format!("spec.healthCheckExprs[{at}].{field}: {expression:?}: {why}"))?;
        }
    }
    Ok(())
}

fn crds(policy: Option<&str>) -> CrdPolicy {
    match policy {
        Some("Skip") => CrdPolicy::Skip,
        Some("CreateReplace") => CrdPolicy::Apply,
        _ => CrdPolicy::CreateMissing,
    }
}

/// Options that all actions share: objects are applied by force, without loss where their server refuses a field.
fn base(spec: &HelmReleaseSpec) -> ReleaseOptions {
    ReleaseOptions {
        wait_rules: wait_rules(spec),
        health_checks: spec.health_check_exprs.iter().map(health_check).collect(),
        revisions: RevisionOptions {
            max: spec.max_history.unwrap_or(DEFAULT_HISTORY),
            ..RevisionOptions::default()
        },
        ownership: OwnershipOptions { force_conflicts: true, ..OwnershipOptions::default() },
        objects: ObjectOptions {
            duplicates: Duplicates::KeepLast,
            validation: Validation::Warn,
            moved_crds: MovedCrds::Keep,
            ..ObjectOptions::default()
        },
        drift: DriftPolicy { mode: drift_mode(spec), ignore: Vec::new() },
        ..ReleaseOptions::default()
    }
}

/// What happens to drift.
pub(super) fn drift_mode(spec: &HelmReleaseSpec) -> DriftMode {
    match spec.drift_detection.mode.as_deref() {
        Some("enabled") => DriftMode::Correct,
        Some("warn") => DriftMode::Report,
        _ => DriftMode::Off,
    }
}

/// Options of an install or upgrade.
pub(super) fn release_options(spec: &HelmReleaseSpec, action: Action, installs: bool) -> ReleaseOptions {
    let resumes = action == Action::Resume;
    let own = base(spec);
    let adoption = |disabled| if disabled { Adoption::Marked } else { Adoption::Any };
    let validation = |disabled| if disabled { Validation::Ignore } else { Validation::Warn };
    if installs {
        let install = &spec.install;
        return ReleaseOptions {
            mode: if resumes { Mode::UpgradeInstall } else { Mode::Install },
            apply: match install.server_side_apply {
                Some(false) => ApplyChoice::Client,
                Some(true) | None => ApplyChoice::Server,
            },
            create_namespace: install.create_namespace && spec.target_namespace.is_some(),
            crds: crds(install.crds.as_deref()),
            run_hooks: !install.disable_hooks,
            wait: wait(install.disable_wait, install.disable_wait_for_jobs),
            timeout: install_timeout(spec),
            revisions: RevisionOptions { replace: install.replace, skip_unchanged: resumes, ..own.revisions },
            ownership: OwnershipOptions {
                adoption: adoption(install.disable_take_ownership),
                ..own.ownership
            },
            objects: ObjectOptions {
                validation: validation(install.disable_open_api_validation),
                ..own.objects
            },
            ..own
        };
    }
    let upgrade = &spec.upgrade;
    ReleaseOptions {
        mode: if resumes { Mode::UpgradeInstall } else { Mode::Upgrade },
        apply: apply_choice(upgrade.server_side_apply.as_deref()),
        crds: crds(upgrade.crds.as_deref()),
        run_hooks: !upgrade.disable_hooks,
        wait: wait(upgrade.disable_wait, upgrade.disable_wait_for_jobs),
        timeout: upgrade_timeout(spec),
        revisions: RevisionOptions { skip_unchanged: resumes, ..own.revisions },
        ownership: OwnershipOptions { adoption: adoption(upgrade.disable_take_ownership), ..own.ownership },
        objects: ObjectOptions {
            validation: validation(upgrade.disable_open_api_validation),
            immutable: immutable(upgrade.force),
            ..own.objects
        },
        failure: FailureOptions { cleanup: upgrade.cleanup_on_fail, ..FailureOptions::default() },
        ..own
    }
}

/// `force` replaces objects: those whose immutable fields change, since all others can be applied.
fn immutable(force: bool) -> Immutable {
    if force { Immutable::Recreate } else { Immutable::Fail }
}

fn apply_choice(mode: Option<&str>) -> ApplyChoice {
    match mode {
        Some("enabled") => ApplyChoice::Server,
        Some("disabled") => ApplyChoice::Client,
        _ => ApplyChoice::Auto,
    }
}

/// Options of a rollback.
pub(super) fn rollback_options(spec: &HelmReleaseSpec) -> ReleaseOptions {
    let rollback = &spec.rollback;
    let own = base(spec);
    ReleaseOptions {
        apply: apply_choice(rollback.server_side_apply.as_deref()),
        run_hooks: !rollback.disable_hooks,
        wait: wait(rollback.disable_wait, rollback.disable_wait_for_jobs),
        timeout: timeout_of(spec, rollback.timeout.as_ref()),
        ownership: OwnershipOptions { adoption: Adoption::Any, ..own.ownership },
        objects: ObjectOptions { immutable: immutable(rollback.force), ..own.objects },
        failure: FailureOptions { cleanup: rollback.cleanup_on_fail, ..FailureOptions::default() },
        ..own
    }
}

/// Options of a drift correction. `ignore`: the fields that are no drift, as the engine's rules have them.
pub(super) fn drift_options(spec: &HelmReleaseSpec, ignore: Vec<String>) -> ReleaseOptions {
    let own = base(spec);
    let own = ReleaseOptions { drift: DriftPolicy { ignore, ..own.drift }, ..own };
    ReleaseOptions {
        apply: ApplyChoice::Auto,
        timeout: timeout_of(spec, None),
        ownership: OwnershipOptions { adoption: Adoption::Any, ..own.ownership },
        ..own
    }
}

/// A drifted object in helm-controller's words.
pub(super) fn drift_line(drift: &Drift) -> String {
    let object = &drift.object;
    let namespace = object.namespace.as_deref().map_or(String::new(), |namespace| format!("{namespace}/"));
    let name = format!("{}/{namespace}{}", object.gvk.kind, object.name);
    if drift.fields.is_empty() && drift.further_fields == 0 {
        format!("{name} removed")
    } else {
        format!("{name} changed ({} fields)", drift.fields.len() + drift.further_fields)
    }
}
