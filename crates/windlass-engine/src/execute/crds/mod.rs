//! The CRDs of a chart's `crds/`: applied before everything else, awaited, never deleted, never marked as the release's. And what a
//! change of any CRD, also of one among the templates, may not take away.

pub(crate) mod departure;

use crate::{
    context::Context,
    deadline::Deadline,
    error::{EngineError, Result},
    execute::{
        readiness::status_wait,
        rejection::{Attempt, Rejection},
    },
    objects::{
        crd_files,
        data_loss::{self, Loss},
        desired_objects::{self, DesiredObject, is_crd, is_crd_kind, kinds_of_crd},
        ownership,
    },
    plan::Plan,
    request::{Adoption, CrdFile, CrdPolicy, CrdRules, ReleaseId, SanitizeRules},
};
use serde_json::Value;
use std::{
    borrow::Cow,
    fmt,
    time::{Duration, Instant},
};
use windlass_cluster::{
    ApplyOptions, Cluster, Gvk, ObjectMeta, ObjectRef, ObservedMeta, PatchKind, Validation,
};

/// Schemas have keys of documentation generators, which server-side apply rejects and Helm's create drops.
const SANITIZE_RULES: SanitizeRules = SanitizeRules { duplicates: false, unknown: true };
/// Helm's timeout for CRDs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Refuses files with other objects than CRDs: those would be applied before the release's ownership checks, and
/// never deleted.
///
/// # Errors
/// Names the first such object and its file.
pub fn require_crds(files: &[CrdFile]) -> Result<()> {
    for file in files {
        for object in file.objects.iter().filter(|o| !o.is_null()) {
            let gvk = Gvk::of(object);
            if !gvk.as_ref().is_some_and(is_crd_kind) {
                let name = ObjectMeta::of(object).name();
                let kind = gvk.map_or_else(|| "an object without apiVersion and kind".to_owned(), |g| g.kind);
                return Err(EngineError::NotCrd {
                    path: file.name.clone(),
                    object: format!("{kind} {name:?}"),
                });
            }
        }
    }
    Ok(())
}

/// Applies the `crds/` of a release, unless the deadline passes first.
pub(crate) async fn install(
    context: &Context,
    deadline: &Deadline,
    id: &ReleaseId,
    files: &[CrdFile],
    rules: CrdRules,
) -> Result<Vec<ObjectRef>> {
    let installer = CrdInstaller { cluster: &context.crd_client, manager: context.manager(), id, rules };
    tokio::select! {
        biased;
        error = deadline.given_up() => Err(error),
        done = installer.install(files) => {
            if done.is_ok() && rules.policy != CrdPolicy::Skip {
                context.state.mark_crds_present(&crd_files::names(files));
            }
            done
        }
    }
}

/// Applies the `crds/` of one release.
struct CrdInstaller<'a> {
    cluster: &'a Cluster,
    manager: &'a str,
    id: &'a ReleaseId,
    rules: CrdRules,
}

impl CrdInstaller<'_> {
    /// Writes the CRDs by the policy, and waits until their kinds are served; returns those that were written.
    async fn install(&self, files: &[CrdFile]) -> Result<Vec<ObjectRef>> {
        require_crds(files)?;
        let mut written = Vec::new();
        let mut bodies = Vec::new();
        for file in files {
            for object in file.objects.iter().filter(|o| !o.is_null()) {
                let wrap = |source| EngineError::Crd { file: file.name.clone(), source: Box::new(source) };
                if let Some(reference) = self.install_one(file, object).await.map_err(wrap)? {
                    written.push(reference);
                    bodies.push(object.clone());
                }
            }
        }
        for reference in &written {
            status_wait::one_ready(self.cluster, reference, TIMEOUT, None).await?;
        }
        await_served(self.cluster, &bodies, TIMEOUT).await?;
        Ok(written)
    }

    async fn install_one(&self, file: &CrdFile, object: &Value) -> Result<Option<ObjectRef>> {
        let (cluster, manager) = (self.cluster, self.manager);
        let kinds = cluster.kinds().await?;
        let reference = desired_objects::reference(&file.name, object, "default", |gvk| {
            kinds.get(gvk).map(|r| r.namespaced)
        })?;
        let wrap = |source| EngineError::object("applying", &reference, &file.name, source);
        match self.rules.policy {
            CrdPolicy::Skip => Ok(None),
            CrdPolicy::Create | CrdPolicy::CreateMissing => {
                if cluster.get_metadata(&reference).await.map_err(wrap)?.is_some() {
                    return Ok(None);
                }
                match cluster.create(&reference, object, manager).await {
                    Ok(_) => Ok(Some(reference)),
                    Err(e) if e.is_already_exists() => Ok(None),
                    Err(e) => Err(wrap(e)),
                }
            }
            CrdPolicy::Apply => {
                let live = cluster.get(&reference).await.map_err(wrap)?.unwrap_or_default();
                self.check_ownership(&live, &reference)?;
                let options = ApplyOptions {
                    manager,
                    force: true,
                    validation: Validation::Warn,
                    dry_run: false,
                    whole: false,
                };
                apply(cluster, &live, object, &reference, options).await.map_err(|error| match error {
                    EngineError::Cluster(source) => wrap(source),
                    other => other,
                })?;
                Ok(Some(reference))
            }
        }
    }

    /// Refuses a CRD that another release has among its templates. CRDs of `crds/` have no owner and are shared.
    fn check_ownership(&self, live: &Value, reference: &ObjectRef) -> Result<()> {
        let adoption = match self.rules.adoption {
            Adoption::Marked => Adoption::Unowned,
            other => other,
        };
        match ownership::refusal(&ObservedMeta::of(live, self.manager), self.id, adoption) {
            None => Ok(()),
            Some(reason) => {
                let (operation, object) = ("crds/", reference.to_string());
                Err(EngineError::Ownership { operation, object, reason, others: Vec::new() })
            }
        }
    }
}

/// A CRD without the conversion strategy `None`, if the live one has a webhook: that was added later, and the server
/// rejects both together.
fn leave_conversion<'o>(live: &Value, mut object: Cow<'o, Value>) -> Cow<'o, Value> {
    let strategy = |crd: &Value| crd["spec"]["conversion"]["strategy"].as_str().map(str::to_owned);
    if strategy(live).as_deref() == Some("Webhook")
        && strategy(&object).as_deref() == Some("None")
        && let Some(spec) = object.to_mut()["spec"].as_object_mut()
    {
        spec.remove("conversion");
    }
    object
}

/// Applies a CRD over the live one (null if there is none), unless objects would lose data; returns the server's
/// answer.
pub(crate) async fn apply(
    cluster: &Cluster,
    live: &Value,
    object: &Value,
    reference: &ObjectRef,
    options: ApplyOptions<'_>,
) -> Result<Value> {
    let mut object = Cow::Borrowed(object);
    if !live.is_null() {
        check_losses(cluster, live, &object, reference).await?;
        object = leave_conversion(live, object);
        let retired = data_loss::retired(live, &object);
        if !retired.is_empty() {
            let between = retire(cluster, live, &object, reference, retired, options).await?;
            // In a dry run the result is computed with the removed versions still present.
            if let Some(between) = between.filter(|_| options.dry_run) {
                return Ok(between);
            }
        }
    }
    apply_sanitized(cluster, &object, reference, options).await
}

/// Applies a CRD without the fields that the server does not know.
async fn apply_sanitized(
    cluster: &Cluster,
    object: &Value,
    reference: &ObjectRef,
    options: ApplyOptions<'_>,
) -> Result<Value> {
    let mut attempt = Attempt::new(object);
    loop {
        let error = match cluster.apply(reference, &attempt.body, options).await {
            Ok(applied) => return Ok(applied.object),
            Err(error) => error,
        };
        let Rejection::Sanitized(warning) = attempt.rejected(&error, SANITIZE_RULES) else {
            return Err(error.into());
        };
        if !options.dry_run {
            tracing::warn!(crd = reference.name, "{warning}");
        }
    }
}

/// Removes versions from the list of stored versions if there are no objects: the server rejects a CRD without a
/// stored version. Storage in them is turned off first, and objects are counted then.
async fn retire(
    cluster: &Cluster,
    live: &Value,
    object: &Value,
    reference: &ObjectRef,
    retired: Vec<Value>,
    options: ApplyOptions<'_>,
) -> Result<Option<Value>> {
    if !has_no_objects(cluster, live).await? {
        // It is not certain that nothing is lost: the server's error says what to do first.
        return Ok(None);
    }
    let names: Vec<Value> = retired.iter().map(|version| version["name"].clone()).collect();
    let mut between = object.clone();
    for mut version in retired {
        version["storage"] = false.into();
        if let Some(versions) = between["spec"]["versions"].as_array_mut() {
            versions.push(version);
        }
    }
    let applied = apply_sanitized(cluster, &between, reference, options).await?;
    if options.dry_run || !has_no_objects(cluster, live).await? {
        return Ok(Some(applied));
    }
    let stored = applied["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let left: Vec<Value> = stored.into_iter().filter(|name| !names.contains(name)).collect();
    let patch = serde_json::json!({"status": {"storedVersions": left}});
    cluster.patch_subresource(reference, "status", PatchKind::Merge, &patch, options.manager).await?;
    tracing::info!(crd = reference.name, versions = ?names, "there are no objects: removing stored versions");
    Ok(Some(applied))
}

/// Refuses losses of data by CRDs among the templates, before anything is written.
pub(crate) async fn check_templated(cluster: &Cluster, targets: &[DesiredObject], plan: &Plan) -> Result<()> {
    for step in plan.waves.values().flatten().filter(|step| step.before.is_some()) {
        let target = &targets[step.target];
        if !is_crd(&target.object) {
            continue;
        }
        let wrap = |source| EngineError::object("reading", &target.object, &target.path, source);
        if let Some(live) = cluster.get(&target.object).await.map_err(wrap)? {
            check_losses(cluster, &live, &target.body, &target.object).await?;
        }
    }
    Ok(())
}

/// Refuses a change that would drop data of existing objects; without such objects nothing can be lost.
pub(crate) async fn check_losses(
    cluster: &Cluster,
    live: &Value,
    new: &Value,
    crd: &ObjectRef,
) -> Result<()> {
    let losses = data_loss::losses(live, new);
    if losses.is_empty() || data_loss::allows(live) || data_loss::allows(new) {
        return Ok(());
    }
    let objects = match objects(cluster, live).await? {
        Some(objects) if objects.count > 0 => objects.to_string(),
        None if kinds_of_crd(live).is_empty() => return Err(unseen(crd, &losses)),
        _ => return Ok(()),
    };
    let losses = real(cluster, live, new, losses).await?;
    if losses.is_empty() {
        return Ok(());
    }
    Err(EngineError::CrdLoss { crd: crd.name.clone(), objects, losses: data_loss::summary(&losses) })
}

/// The error if objects may be stored that cannot be read.
fn unseen(crd: &ObjectRef, losses: &[Loss]) -> EngineError {
    let losses = format!(
        "{}; none of its versions is served: serve one to see its objects",
        data_loss::summary(losses)
    );
    EngineError::CrdLoss { crd: crd.name.clone(), objects: "unseen".to_owned(), losses }
}

/// The losses that affect existing objects: in versions that can be read, fields count only if an object has them.
async fn real(cluster: &Cluster, live: &Value, new: &Value, mut losses: Vec<Loss>) -> Result<Vec<Loss>> {
    let kinds = cluster.kinds().await?;
    for (gvk, _) in kinds_of_crd(live) {
        let is_of = |loss: &Loss| loss.dropped_in.as_deref() == Some(gvk.version.as_str());
        if kinds.get(&gvk).is_none() || !losses.iter().any(is_of) {
            continue;
        }
        let mut next = None;
        let used = loop {
            let page = cluster.list_page_of(&gvk, None, next.as_deref()).await?;
            if page.items.iter().any(|object| data_loss::drops(new, &gvk.version, object)) {
                break true;
            }
            next = page.next;
            if next.is_none() {
                break false;
            }
        };
        losses.retain(|loss| used || !is_of(loss));
    }
    Ok(losses)
}

/// The number of objects of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObjectCount {
    pub(crate) count: usize,
    /// There are more.
    pub(crate) at_least: bool,
}

impl fmt::Display for ObjectCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, if self.at_least { " or more" } else { "" })
    }
}

/// Whether it is certain that a CRD's kind has no objects.
async fn has_no_objects(cluster: &Cluster, live: &Value) -> Result<bool> {
    Ok(objects(cluster, live).await?.is_some_and(|objects| objects.count == 0))
}

/// The number of objects of a CRD's kind; `None` if no version of it is served.
pub(crate) async fn objects(cluster: &Cluster, live: &Value) -> Result<Option<ObjectCount>> {
    let served = kinds_of_crd(live);
    // Another writer may have created it just now.
    let kinds = cluster.kinds_with(served.iter().map(|(gvk, _)| gvk.clone())).await?;
    for (gvk, _) in served {
        if kinds.get(&gvk).is_some() {
            let page = cluster.list_metadata_page(&gvk, None, None).await?;
            return Ok(Some(ObjectCount { count: page.items.len(), at_least: page.next.is_some() }));
        }
    }
    Ok(None)
}

/// Waits until the kinds of applied CRDs are served.
pub(crate) async fn await_applied<'t>(
    cluster: &Cluster,
    applied: impl Iterator<Item = &'t DesiredObject>,
    timeout: Duration,
) -> Result<()> {
    let mut bodies = Vec::new();
    for target in applied.filter(|target| is_crd(&target.object)) {
        status_wait::one_ready(cluster, &target.object, timeout, None).await?;
        bodies.push(target.body.clone());
    }
    await_served(cluster, &bodies, timeout).await
}

/// Waits until discovery shows the kinds of CRDs, which takes a moment after they are established.
pub(crate) async fn await_served(cluster: &Cluster, crds: &[Value], timeout: Duration) -> Result<()> {
    let wanted: Vec<_> = crds.iter().flat_map(kinds_of_crd).map(|(gvk, _)| gvk).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let deadline = Instant::now() + timeout;
    let mut pause = Duration::from_millis(20);
    loop {
        let kinds = cluster.kinds().await?;
        let Some(missing) = wanted.iter().find(|gvk| kinds.get(gvk).is_none()) else { return Ok(()) };
        if Instant::now() >= deadline {
            let what = format!("{} {} to be served", missing.api_version(), missing.kind);
            return Err(EngineError::Timeout { what, seconds: timeout.as_secs() });
        }
        if cluster.refresh_kinds(Instant::now()).await?.get(missing).is_none() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversion_that_came_later_stays() {
        let crd = |strategy: &str| json!({"spec": {"group": "g", "conversion": {"strategy": strategy}}});
        let none = json!({"spec": {"group": "g"}});
        let table = [
            (crd("Webhook"), crd("None"), none.clone()),
            (crd("None"), crd("None"), crd("None")),
            (none.clone(), crd("None"), crd("None")),
            (crd("Webhook"), crd("Webhook"), crd("Webhook")),
            (crd("Webhook"), none.clone(), none),
        ];
        for (live, object, sent) in table {
            assert_eq!(*leave_conversion(&live, Cow::Borrowed(&object)), sent, "{live} {object}");
        }
    }
}
