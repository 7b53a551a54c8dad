//! Writes of client-side apply: an object is created, patched, or replaced where that is asked for, as by Helm's client.
//!
//! Owns what a patch is made of, and which fields stay with others. Knows nothing of how patches are made (`client_apply`).

use crate::{
    client_apply::{self, Custom, Patch, States},
    error::{EngineError, Result},
    execute::{
        apply::{Applier, Written},
        autoscaler::{self, Scaled},
        rejection::{TRIES, is_immutable},
    },
    objects::{desired_objects::DesiredObject, field_conflicts, followed_images},
    plan::PlanStep,
    request::{ApplyMethod, ReleaseOptions},
};
use serde_json::Value;
use std::{collections::BTreeMap, time::Duration, time::Instant};
use windlass_cluster::{
    Applied, Cluster, ClusterError, ObjectKey, ObjectMeta, ObservedMeta, Validation, WriteOptions,
};

/// The objects as in the manifest before.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Originals<'a> {
    /// Of the revision before.
    Previous(&'a BTreeMap<ObjectKey, Value>),
    /// Those of the manifest itself: drift is corrected, of all kinds.
    Same,
}

/// A write of an existing object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Patch(Patch),
    Replace(Value),
}

impl Change {
    /// Sends the change.
    pub(crate) async fn send(
        &self,
        cluster: &Cluster,
        target: &DesiredObject,
        options: WriteOptions<'_>,
    ) -> Result<Applied, ClusterError> {
        match self {
            Self::Patch(patch) => {
                cluster.patch_object(&target.object, patch.kind, &patch.body, options).await
            }
            Self::Replace(body) => cluster.replace_object(&target.object, body, options).await,
        }
    }
}

/// How the client writes: what the kind does not have is dropped by the server, with a warning.
pub(crate) fn write_options(manager: &str, dry_run: bool) -> WriteOptions<'_> {
    WriteOptions { manager, validation: Validation::Warn, dry_run, whole: dry_run }
}

/// What to write of an existing object; `None`: it is as it should be.
///
/// # Errors
/// No patch can be made.
pub(crate) fn change(
    target: &DesiredObject,
    live: &Value,
    originals: Originals<'_>,
    options: &ReleaseOptions,
    scaled: &Scaled,
) -> Result<Option<Change>> {
    let mut modified = target.body.clone();
    if options.objects.immutable.recreates() {
        // Nobody has changed it since it was read.
        modified["metadata"]["resourceVersion"] = ObjectMeta::of(live).resource_version().into();
        return Ok(Some(Change::Replace(modified)));
    }
    let (original, custom) = match originals {
        Originals::Previous(known) => match known.get(&target.key) {
            Some(original) => (original, Custom::Manifests),
            // Taken over: it gets what the manifest has.
            None => (&target.body, Custom::All),
        },
        Originals::Same => (&target.body, Custom::All),
    };
    let mut original = original.clone();
    let rules = &options.ownership.leave_to_owner;
    for path in field_conflicts::paths_of(rules, &target.object) {
        if field_conflicts::get(live, path) != field_conflicts::get(&original, path) {
            // Others have changed it: the patch does not have it.
            field_conflicts::remove(&mut original, path);
            field_conflicts::remove(&mut modified, path);
        }
    }
    let kept = followed_images::kept(live, &modified);
    followed_images::without_kept(&mut original, &kept);
    followed_images::without_kept(&mut modified, &kept);
    let entries = ObjectMeta::of(live).managed_fields();
    original = autoscaler::without_scaled(&original, &[], entries, scaled);
    modified = autoscaler::without_scaled(&modified, &[], entries, scaled);
    let states = States { original: &original, modified: &modified, current: live };
    let patch = client_apply::patch(&target.object.gvk, states, custom);
    let unmergeable = |source| EngineError::Merge {
        object: target.object.to_string(),
        path: target.path.clone(),
        source: Box::new(source),
    };
    Ok(patch.map_err(unmergeable)?.map(Change::Patch))
}

impl Applier<'_> {
    /// Writes an object by what was in the manifest before, what is in it now, and what is in the cluster.
    pub(super) async fn write_as_client(
        &self,
        targets: &[DesiredObject],
        step: &PlanStep,
        originals: Originals<'_>,
    ) -> Result<Written> {
        let target = &targets[step.target];
        let object = &target.object;
        let options = write_options(self.manager, false);
        let mut exists = step.before.as_ref().is_some_and(|before| !before.deleting);
        let mut warnings = Vec::new();
        let mut tries = 0;
        loop {
            tries += 1;
            let live = if exists { self.cluster.get(object).await? } else { None };
            let mut changed = true;
            let sent = match &live {
                None => self.cluster.create_object(object, &target.body, options).await,
                Some(live) => {
                    let entries = ObjectMeta::of(live).managed_fields();
                    let scaled = self.scaled(targets, target, &[], entries, &mut warnings).await?;
                    match change(target, live, originals, self.options, &scaled)? {
                        Some(change) => change.send(self.cluster, target, options).await,
                        None => {
                            changed = false;
                            Ok(Applied { object: live.clone(), warnings: Vec::new() })
                        }
                    }
                }
            };
            let error = match sent {
                Ok(applied) => {
                    let after = ObservedMeta::of(&applied.object, self.manager);
                    if after.deleting && tries < TRIES {
                        self.await_gone(object).await?;
                        exists = false;
                        continue;
                    }
                    warnings.extend(applied.warnings);
                    let created = live.is_none();
                    let version = live.as_ref().map(|live| ObjectMeta::of(live).resource_version());
                    let same = version.is_some_and(|version| version == after.resource_version);
                    return Ok(Written {
                        target: step.target,
                        method: ApplyMethod::Client,
                        created,
                        changed: changed && !created && !same,
                        left: false,
                        after,
                        warnings,
                    });
                }
                Err(error) => error,
            };
            if tries >= TRIES {
                return Err(error.into());
            }
            if live.is_none() && error.is_already_exists() {
                exists = true;
            } else if live.is_some() && error.is_not_found() {
                // It went since it was read, or its kind did.
                self.cluster.refresh_kinds(Instant::now()).await?;
            } else if error.is_settling() || live.is_some() && error.is_conflict() {
                tokio::time::sleep(Duration::from_millis(50 << tries)).await;
            } else if live.is_some() && is_immutable(&error) {
                self.delete_for_another(target, error).await?;
            } else {
                return Err(error.into());
            }
        }
    }
}
