//! Chart hooks: objects that run at an event of a release and are not part of its manifest.
//!
//! As Helm: by weight, then name, one after the other; Jobs and Pods are awaited. The record names a hook before it
//! runs.

use crate::{
    context::Context,
    error::{EngineError, Result},
    execute::{
        apply::await_gone,
        client_write,
        readiness::status_wait,
        rejection::{Attempt, Rejection},
    },
    objects::{
        desired_objects::{self, DocumentError},
        ownership,
    },
    progress::operation_progress::{OperationProgress, ProgressReporter},
    record::{HookRun, RecordStore, RecordedHook, StoredRecord, now},
    request::{
        ApplyMethod, HookDeletePolicy, HookEvent, HookOutputLogPolicy, ReleaseId, ReleaseOptions,
        SanitizeRules,
    },
};
use serde_json::Value;
use std::time::Duration;
use windlass_cluster::{
    ApplyOptions, Cluster, DeleteOptions, Deleted, Gvk, ObjectMeta, ObjectRef, ObservedMeta, Propagation,
    Validation,
};

const MANAGER: &str = "windlass-hook";
const LARGEST_LOG: usize = 256 << 10;

/// Runs hooks of one release.
pub(crate) struct HookRunner<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) store: RecordStore<'a>,
    pub(crate) id: &'a ReleaseId,
    pub(crate) timeout: Duration,
    pub(crate) rules: SanitizeRules,
    /// How their objects are written: by the client only where there is none yet.
    pub(crate) method: ApplyMethod,
    pub(crate) progress: ProgressReporter<'a>,
}

/// Indexes of an event's hooks, in the order in which they run.
pub(crate) fn of_event(hooks: &[RecordedHook], event: HookEvent) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..hooks.len()).filter(|i| hooks[*i].events.contains(&event)).collect();
    chosen.sort_by(|a, b| {
        let (a, b) = (&hooks[*a], &hooks[*b]);
        a.weight.cmp(&b.weight).then_with(|| a.name.cmp(&b.name))
    });
    chosen
}

fn uid_of(object: &Value) -> String {
    ObjectMeta::of(object).uid().to_owned()
}

fn has_policy(hook: &RecordedHook, policy: HookDeletePolicy) -> bool {
    if hook.delete_policies.is_empty() {
        return policy == HookDeletePolicy::BeforeHookCreation;
    }
    hook.delete_policies.contains(&policy)
}

impl<'a> HookRunner<'a> {
    pub(crate) fn new(
        context: &'a Context,
        id: &'a ReleaseId,
        options: &ReleaseOptions,
        method: ApplyMethod,
    ) -> Self {
        Self {
            cluster: &context.cluster,
            store: context.store(),
            id,
            timeout: options.timeout,
            rules: options.sanitize_rules(),
            method,
            progress: context.progress_of(id),
        }
    }

    /// Runs the hooks of an event. `objects` are the parsed documents of the record's hooks, in their order.
    pub(crate) async fn run(
        &self,
        event: HookEvent,
        stored: &mut StoredRecord,
        objects: &[Value],
    ) -> Result<()> {
        if stored.record.extension.hooks_done.contains(&event) {
            return Ok(());
        }
        let chosen = of_event(&stored.record.hooks, event);
        self.run_all(event, &chosen, stored, objects).await?;
        if !chosen.is_empty() {
            stored.record.extension.hooks_done.push(event);
        }
        Ok(())
    }

    /// Runs selected hooks, then applies their delete policies.
    async fn run_all(
        &self,
        event: HookEvent,
        chosen: &[usize],
        stored: &mut StoredRecord,
        objects: &[Value],
    ) -> Result<()> {
        let result = self.run_chosen(event, chosen, stored, objects).await;
        let cleaned = self.clean_after(&result, chosen, &stored.record.hooks, objects).await;
        match result {
            Ok(()) => cleaned,
            Err((_, error)) => Err(EngineError::Hooks { event, source: Box::new(error) }),
        }
    }

    /// Applies the delete policies after hooks ran. After a failure, deletions that fail are only logged.
    pub(crate) async fn clean_after(
        &self,
        result: &Result<(), (usize, EngineError)>,
        chosen: &[usize],
        hooks: &[RecordedHook],
        objects: &[Value],
    ) -> Result<()> {
        match result {
            Ok(()) => {
                for index in chosen.iter().rev() {
                    self.delete_by(HookDeletePolicy::HookSucceeded, &hooks[*index], &objects[*index]).await?;
                }
            }
            Err((failed, _)) => {
                let failed = *failed;
                let mut deletions = Ok(());
                if let Some(place) = chosen.iter().position(|index| *index == failed) {
                    deletions =
                        self.delete_by(HookDeletePolicy::HookFailed, &hooks[failed], &objects[failed]).await;
                    for index in &chosen[..place] {
                        let deletion = self
                            .delete_by(HookDeletePolicy::HookSucceeded, &hooks[*index], &objects[*index])
                            .await;
                        deletions = deletions.and(deletion);
                    }
                }
                if let Err(error) = deletions {
                    tracing::warn!(release = %self.id, %error, "cannot delete a hook's object");
                }
            }
        }
        Ok(())
    }

    /// Deletes the objects of hooks, whatever their policies; returns those that could not be deleted.
    pub(crate) async fn delete_all(&self, hooks: &[(String, Value)]) -> Vec<String> {
        let mut errors = Vec::new();
        for (path, object) in hooks.iter().filter(|(_, object)| !ObjectMeta::of(object).name().is_empty()) {
            let hook = RecordedHook {
                path: path.clone(),
                kind: object["kind"].as_str().unwrap_or_default().to_owned(),
                ..RecordedHook::default()
            };
            // The default policy of a hook without one.
            let deleted = self.delete_by(HookDeletePolicy::BeforeHookCreation, &hook, object).await;
            errors.extend(deleted.err().map(|error| error.to_string()));
        }
        errors
    }

    /// Deletes the hook objects of an abandoned operation, where a policy would have deleted them at the hook's end.
    pub(crate) async fn clean_up(&self, hooks: &[RecordedHook], objects: &[Value]) -> Result<()> {
        for (hook, object) in
            hooks.iter().zip(objects).filter(|(hook, _)| !hook.last_run.started_at.is_empty())
        {
            for policy in [HookDeletePolicy::HookSucceeded, HookDeletePolicy::HookFailed] {
                self.delete_by(policy, hook, object).await?;
            }
        }
        Ok(())
    }

    /// Runs selected hooks, also those that ran before; an error names the hook.
    pub(crate) async fn run_chosen(
        &self,
        event: HookEvent,
        chosen: &[usize],
        stored: &mut StoredRecord,
        objects: &[Value],
    ) -> Result<(), (usize, EngineError)> {
        let store = self.store;
        for &index in chosen {
            let at = |error: EngineError| (index, error);
            let object = &objects[index];
            self.delete_by(HookDeletePolicy::BeforeHookCreation, &stored.record.hooks[index], object)
                .await
                .map_err(at)?;
            stored.record.hooks[index].last_run =
                HookRun { started_at: now(), completed_at: String::new(), phase: "Running".into() };
            store.update(stored).await.map_err(|e| at(e.into()))?;
            let hook = &mut stored.record.hooks[index];
            self.progress.report(&OperationProgress::Hook { event, kind: &hook.kind, name: &hook.name });
            let result = self.run_one(hook, object).await;
            let policy = if result.is_ok() {
                HookOutputLogPolicy::HookSucceeded
            } else {
                HookOutputLogPolicy::HookFailed
            };
            if hook.output_log_policies.contains(&policy)
                && let Err(error) = self.show_logs(hook, object).await
            {
                tracing::warn!(release = %self.id, hook = hook.name, %error, "the hook's log cannot be read");
            }
            hook.last_run.completed_at = now();
            hook.last_run.phase = if result.is_ok() { "Succeeded" } else { "Failed" }.into();
            result.map_err(at)?;
        }
        Ok(())
    }

    async fn run_one(&self, hook: &mut RecordedHook, object: &Value) -> Result<()> {
        let (reference, body, uid) = self.create(hook, object).await?;
        hook.created_uid = uid;
        let runs = matches!(
            (reference.gvk.group.as_str(), reference.gvk.kind.as_str()),
            ("batch", "Job") | ("", "Pod")
        );
        if body["kind"] == "CustomResourceDefinition" {
            status_wait::one_ready(self.cluster, &reference, self.timeout, Some(self.progress)).await?;
            crate::execute::crds::await_served(self.cluster, std::slice::from_ref(&body), self.timeout)
                .await?;
        }
        if !runs {
            return Ok(());
        }
        let result =
            status_wait::one_ready(self.cluster, &reference, self.timeout, Some(self.progress)).await;
        // Their log policies cover the rest.
        if result.is_err() && self.progress.diagnoses {
            status_wait::report_diagnosis(self.cluster, &reference, self.progress).await;
        }
        result
    }

    /// Reports the output of a Job's or Pod's containers.
    async fn show_logs(&self, hook: &RecordedHook, object: &Value) -> Result<()> {
        let namespace = ObjectMeta::of(object).namespace().unwrap_or(&self.id.namespace);
        let pod = Gvk::new("v1", "Pod");
        let pods = match hook.kind.as_str() {
            "Job" => self.cluster.list(&pod, Some(namespace), &format!("job-name={}", hook.name)).await?,
            "Pod" => self
                .cluster
                .get(&ObjectRef::new(pod, Some(namespace), &hook.name))
                .await?
                .into_iter()
                .collect(),
            _ => Vec::new(),
        };
        for pod in &pods {
            let name = ObjectMeta::of(pod).name();
            let containers = pod["spec"]["containers"].as_array().map_or(&[][..], Vec::as_slice);
            for container in containers.iter().filter_map(|c| c["name"].as_str()) {
                let text = self.cluster.pod_log(namespace, name, container, LARGEST_LOG).await?;
                self.progress.report(&OperationProgress::HookLog { pod: name, container, text: &text });
            }
        }
        Ok(())
    }

    /// Creates a hook's object; returns its reference, its body and its UID.
    async fn create(&self, hook: &RecordedHook, object: &Value) -> Result<(ObjectRef, Value, String)> {
        let failed =
            |object: &ObjectRef, source| EngineError::object("creating hook", object, &hook.path, source);
        let mut body = object.clone();
        let generated =
            object["metadata"]["name"].is_null() && object["metadata"]["generateName"].is_string();
        if generated {
            // The server generates the name: use a placeholder to resolve the rest.
            body["metadata"]["name"] = "generated".into();
        }
        let mut reference = self.reference(&hook.path, &body).await?;
        if let Some(namespace) = &reference.namespace {
            body["metadata"]["namespace"] = namespace.as_str().into();
        }
        if generated {
            if let Some(metadata) = body["metadata"].as_object_mut() {
                metadata.remove("name");
            }
            let created =
                self.cluster.create(&reference, &body, MANAGER).await.map_err(|e| failed(&reference, e))?;
            reference.name = ObjectMeta::of(&created).name().to_owned();
            return Ok((reference, body, uid_of(&created)));
        }
        let options = ApplyOptions {
            manager: MANAGER,
            force: true,
            validation: if self.rules.unknown { Validation::Warn } else { Validation::Strict },
            dry_run: false,
            whole: false,
        };
        let mut attempt = Attempt::new(&body);
        let applied = loop {
            let written = match self.method {
                ApplyMethod::Server => self.cluster.apply(&reference, &attempt.body, options).await,
                ApplyMethod::Client => {
                    let options = client_write::write_options(MANAGER, false);
                    self.cluster.create_object(&reference, &attempt.body, options).await
                }
            };
            let error = match written {
                Ok(applied) => break applied.object,
                Err(error) => error,
            };
            match attempt.rejected(&error, self.rules) {
                Rejection::Sanitized(warning) => {
                    tracing::warn!(release = %self.id, hook = hook.name, "{warning}");
                }
                Rejection::Settling(pause) => tokio::time::sleep(pause).await,
                Rejection::Conflict | Rejection::Immutable | Rejection::Final => {
                    return Err(failed(&reference, error));
                }
            }
        };
        let body = attempt.body.into_owned();
        Ok((reference, body, uid_of(&applied)))
    }

    async fn reference(&self, path: &str, body: &Value) -> Result<ObjectRef> {
        let kinds = self.cluster.kinds_with(Gvk::of(body)).await?;
        let namespaced = |gvk: &Gvk| kinds.get(gvk).map(|r| r.namespaced);
        Ok(desired_objects::reference(path, body, &self.id.namespace, namespaced)?)
    }

    /// Deletes a hook's object if its policies ask for it at this event, and waits until it is deleted.
    async fn delete_by(&self, policy: HookDeletePolicy, hook: &RecordedHook, object: &Value) -> Result<()> {
        // Deleting a CRD would delete all its objects.
        let named = !ObjectMeta::of(object).name().is_empty();
        if hook.kind == "CustomResourceDefinition" || !named || !has_policy(hook, policy) {
            return Ok(());
        }
        let reference = match self.reference(&hook.path, object).await {
            Ok(reference) => reference,
            // A kind that is not served has no objects.
            Err(EngineError::Document(DocumentError::NoKind { .. })) => return Ok(()),
            Err(error) => return Err(error),
        };
        let wrap = |source| EngineError::object("deleting hook", &reference, &hook.path, source);
        let Some(live) = self.cluster.get_metadata(&reference).await.map_err(wrap)? else { return Ok(()) };
        let seen = ObservedMeta::of(&live, MANAGER);
        if let Some(owner) = ownership::other_release(&seen, self.id) {
            let (object, path) = (reference.to_string(), hook.path.clone());
            return Err(EngineError::HookTaken { object, path, owner });
        }
        // After its run a hook deletes the object that it created; before it, the object of an earlier run.
        let uid = match policy {
            HookDeletePolicy::HookSucceeded | HookDeletePolicy::HookFailed
                if !hook.created_uid.is_empty() =>
            {
                &hook.created_uid
            }
            _ => &seen.uid,
        };
        let options = DeleteOptions { propagation: Propagation::Background, uid: Some(uid), version: None };
        match self.cluster.delete(&reference, options).await.map_err(wrap)? {
            Deleted::Yes => {
                await_gone(self.cluster, &reference, self.timeout, self.progress).await.map_err(wrap)?;
            }
            Deleted::Another => {
                tracing::warn!(release = %self.id, hook = hook.name, "{reference} was replaced by someone else and is not deleted");
            }
            Deleted::Absent => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_weight_then_name() {
        let hook = |name: &str, weight, events: &[HookEvent]| RecordedHook {
            name: name.into(),
            weight,
            events: events.to_vec(),
            ..RecordedHook::default()
        };
        use HookEvent::{PostInstall, PreInstall};
        let hooks = [
            hook("b", 0, &[PreInstall]),
            hook("z", -5, &[PreInstall, PostInstall]),
            hook("x", -9, &[PostInstall]),
            hook("a", 0, &[PreInstall]),
        ];
        let names =
            |event| of_event(&hooks, event).iter().map(|i| hooks[*i].name.clone()).collect::<Vec<_>>();
        assert_eq!(names(PreInstall), ["z", "a", "b"]);
        assert_eq!(names(PostInstall), ["x", "z"]);
        assert!(names(HookEvent::PreDelete).is_empty());
    }

    #[test]
    fn the_default_policy_makes_room() {
        let mut hook = RecordedHook::default();
        assert!(has_policy(&hook, HookDeletePolicy::BeforeHookCreation));
        hook.delete_policies = vec![HookDeletePolicy::HookSucceeded];
        assert!(!has_policy(&hook, HookDeletePolicy::BeforeHookCreation));
        assert!(has_policy(&hook, HookDeletePolicy::HookSucceeded));
    }
}
