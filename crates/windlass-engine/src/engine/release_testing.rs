//! Runs a release's tests: the test hooks of its newest revision.

use crate::{
    context::Context,
    engine::Engine,
    error::{EngineError, Result},
    execute::chart_hooks::{HookRunner, of_event},
    operation,
    record::{Record, RecordedHook, StoredRecord},
    request::{ApplyMethod, Duplicates, HookEvent, ObjectOptions, ReleaseId, ReleaseOptions},
};
use serde_json::Value;
use std::time::Duration;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef};

/// Enough for people, and a limit for what a Pod may send.
const LARGEST_LOG: usize = 16 << 20;

/// A request to run tests.
#[derive(Debug, Clone, Default)]
pub struct TestRequest {
    pub id: ReleaseId,
    /// Only hooks with these names; empty: all.
    pub only: Vec<String>,
    /// No hooks with these names.
    pub not: Vec<String>,
    /// Limit of each hook.
    pub timeout: Duration,
    /// Limit of the whole run.
    pub deadline: Option<Duration>,
    /// Takes the lock over from a live holder.
    pub break_lock: bool,
    /// Reads the output of the test Pods' containers before the Pods are deleted.
    pub logs: bool,
}

/// The result of the tests.
#[derive(Debug)]
pub struct Tested {
    /// The revision, with the last run of each hook.
    pub record: Record,
    /// The test that failed.
    pub failure: Option<EngineError>,
    /// Output of the test Pods' containers.
    pub logs: Vec<PodLog>,
    /// Logs that could not be read.
    pub log_errors: Vec<String>,
}

/// Output of a container.
#[derive(Debug)]
pub struct PodLog {
    pub pod: String,
    pub container: String,
    pub text: String,
}

impl TestRequest {
    fn takes(&self, hook: &RecordedHook) -> bool {
        !self.not.contains(&hook.name) && (self.only.is_empty() || self.only.contains(&hook.name))
    }
}

impl Engine {
    /// Runs the test hooks of the newest revision, all or selected ones, and records their runs.
    pub async fn test(&self, request: &TestRequest) -> Result<Tested> {
        let context = &self.context;
        operation::run(context, &request.id, request.deadline, |operation| {
            Box::pin(async move {
                let deadline = operation.deadline.clone();
                let observed = async {
                    operation.observe_newest().await?;
                    let newest = operation.history.records.pop().ok_or(EngineError::NotFound)?;
                    operation.acquire_lock(request.break_lock, Some(&newest)).await?;
                    Ok::<_, EngineError>(newest)
                };
                let newest = tokio::select! {
                    observed = observed => observed?,
                    error = deadline.given_up() => return Err(error),
                };
                operation.bounded(run_hooks(context, request, newest)).await
            })
        })
        .await
    }
}

async fn run_hooks(context: &Context, request: &TestRequest, mut stored: StoredRecord) -> Result<Tested> {
    let id = &request.id;
    let rendered = context.parser.rendered_of(&stored.record)?;
    // As Helm stores them: skipped ones come first.
    let (taken, passed): (Vec<_>, Vec<_>) = std::mem::take(&mut stored.record.hooks)
        .into_iter()
        .zip(rendered.hooks.into_iter().map(|hook| hook.object))
        .partition(|(hook, _)| request.takes(hook));
    let skipped = passed.len();
    let (hooks, objects): (Vec<_>, Vec<_>) = passed.into_iter().chain(taken).unzip();
    stored.record.hooks = hooks;
    let mut chosen = of_event(&stored.record.hooks, HookEvent::Test);
    chosen.retain(|index| *index >= skipped);
    let options = ReleaseOptions {
        timeout: request.timeout,
        objects: ObjectOptions { duplicates: Duplicates::KeepLast, ..ObjectOptions::default() },
        ..ReleaseOptions::default()
    };
    let method = ApplyMethod::of_record(&stored.record.apply_method);
    let runner = HookRunner::new(context, id, &options, method);
    let result = runner.run_chosen(HookEvent::Test, &chosen, &mut stored, &objects).await;
    context.store().update(&mut stored).await?;
    context.state.with(&context.key(id), |known| known.record_version.clone_from(&stored.resource_version));
    let mut tested = Tested { record: stored.record, failure: None, logs: vec![], log_errors: vec![] };
    if request.logs {
        for index in &chosen {
            let hook = &tested.record.hooks[*index];
            if hook.kind == "Pod" {
                let name = hook.name.clone();
                read_logs(&context.cluster, id, &name, &objects[*index], &mut tested).await;
            }
        }
    }
    let cleaned = runner.clean_after(&result, &chosen, &tested.record.hooks, &objects).await;
    tested.failure = result.err().map(|(_, error)| error).or(cleaned.err());
    Ok(tested)
}

async fn read_logs(cluster: &Cluster, id: &ReleaseId, pod: &str, object: &Value, tested: &mut Tested) {
    let namespace = ObjectMeta::of(object).namespace().unwrap_or(&id.namespace);
    let reference = ObjectRef::new(Gvk::new("v1", "Pod"), Some(namespace), pod);
    let live: Result<Option<Value>, ClusterError> = cluster.get(&reference).await;
    let live = match live {
        Ok(Some(live)) => live,
        Ok(None) => {
            tested.log_errors.push(format!("unable to get pod {pod}: pods {pod:?} not found"));
            return;
        }
        Err(error) => {
            tested.log_errors.push(format!("unable to get pod {pod}: {error}"));
            return;
        }
    };
    for list in ["initContainers", "containers"] {
        let containers = live["spec"][list].as_array().map_or(&[][..], Vec::as_slice);
        for container in containers.iter().filter_map(|c| c["name"].as_str()) {
            match cluster.pod_log(namespace, pod, container, LARGEST_LOG).await {
                Ok(text) => {
                    let (pod, container) = (pod.to_owned(), container.to_owned());
                    tested.logs.push(PodLog { pod, container, text });
                }
                Err(error) => tested
                    .log_errors
                    .push(format!("unable to get logs for pod {pod}, container {container}: {error}")),
            }
        }
    }
}
