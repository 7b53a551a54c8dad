//! One run of a hook and the application of its results, in addon-operator's order: metrics, objects, config values, values.

use std::sync::atomic::Ordering;

use serde_json::Value;

use super::module_hooks::ModuleHooks;
use super::write_back::ConfigPatch;
use super::{Change, Hooks};
use crate::addon::values::{GLOBAL, Patched};
use crate::shell_hooks::apply_operations::apply_operations;
use crate::shell_hooks::binding_context;
use crate::shell_hooks::config::MAIN_QUEUE;
use crate::shell_hooks::operations::Operation;
use crate::shell_hooks::queues::Run;
use crate::shell_hooks::values_patch::Root;
use crate::shell_hooks::webhooks::Answer;
use crate::shell_hooks::{About, Hook, HookError, HookSet, Input, Scope, run_metrics};
use windlass_base::redact;
use windlass_cluster::Cluster;

impl Hooks {
    /// A run from a queue: the operator's loop is notified of its changes.
    pub(super) async fn run_queued(&self, run: Run) -> Result<(), String> {
        let Scope::Module = run.hook.scope else { return self.run_queued_global(run).await };
        let Some(module) = self.module(&run.hook.module) else { return Ok(()) };
        let Some(set) = module.set.get() else { return Ok(()) };
        // The module's own run and its hooks in the main queue take turns; other queues do not.
        let _turn = if run.queue == MAIN_QUEUE { Some(module.turn.lock().await) } else { None };
        self.execute(set, Some(&module), &run, true).await.map(|_| ())
    }

    async fn run_queued_global(&self, run: Run) -> Result<(), String> {
        let Some(set) = self.global_set() else { return Ok(()) };
        let _turn = if run.queue == MAIN_QUEUE { self.global_turn().await } else { None };
        self.execute(&set, None, &run, true).await.map(|_| ())
    }

    /// A run that the API server waits for. Bypasses the module's queue: queuing behind the run that triggered the webhook would
    /// deadlock. Runs are as concurrent as those of hooks with queues of their own: a run gets a snapshot of the values, and its
    /// patches are applied together, under the lock of the values.
    pub(super) async fn run_asked(&self, run: Run) -> Result<Answer, String> {
        let gone = || "its module is off".to_owned();
        if run.hook.scope == Scope::Global {
            let set = self.global_set().ok_or_else(gone)?;
            return self.perform(&set, None, &run, true, None).await.map(|(_, answer)| answer);
        }
        let module = self.module(&run.hook.module).ok_or_else(gone)?;
        let set = module.set.get().ok_or_else(gone)?;
        self.perform(set, Some(&module), &run, true, None).await.map(|(_, answer)| answer)
    }

    /// Runs a hook; tells the loop what changed, and that it must act on it if `reload`. Gives what changed.
    ///
    /// # Errors
    /// The run failed or its results are invalid; it must run again.
    pub(super) async fn execute(
        &self,
        set: &HookSet,
        module: Option<&ModuleHooks>,
        run: &Run,
        reload: bool,
    ) -> Result<Patched, String> {
        let name = module.map_or("", |m| m.name.as_str());
        // The API server may ask all the time: runs for it do not make a module quiet.
        let _quiet = self.running(name);
        self.perform(set, module, run, reload, module).await.map(|(patched, _)| patched)
    }

    /// The same; a failure of a run that may fail is logged, and counts as done.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub(super) async fn execute_allowed(
        &self,
        set: &HookSet,
        module: Option<&ModuleHooks>,
        run: &Run,
        reload: bool,
    ) -> Result<Patched, String> {
        let done = self.execute(set, module, run, reload).await;
        // One that was killed for the sake of its module has not been tried.
        let left = module.is_some_and(|module| *module.left.borrow());
        match done {
            Err(text) if run.allow_failure && !left => {
                let module = module.map_or("", |m| m.name.as_str());
                tracing::warn!(module, hook = run.hook.name, "failed (allowFailure): {text}");
                Ok(Patched::default())
            }
            done => done,
        }
    }

    /// Runs a hook, and gives what it has to say to the API server besides what it changed. The hook is killed where hooks of
    /// the module that it `leaves` with are.
    async fn perform(
        &self,
        set: &HookSet,
        module: Option<&ModuleHooks>,
        run: &Run,
        reload: bool,
        leaves: Option<&ModuleHooks>,
    ) -> Result<(Patched, Answer), String> {
        let hook = &run.hook;
        let key = module.map_or(GLOBAL, |m| m.key.as_str());
        let name = module.map_or("", |m| m.name.as_str());
        let actor = module.map_or_else(|| self.cluster.clone(), ModuleHooks::actor);
        let needed = binding_context::needed(&run.contexts, &hook.config);
        let snapshots = set.snapshots(hook, &needed, &run.contexts);
        // Contexts share their objects and reviews with those of the run.
        let contexts = binding_context::compact(run.contexts.clone());
        let input = {
            let store = self.store();
            let config_values = store.values.config_for_hook(key);
            Input { contexts, snapshots, config_values, values: store.values.for_hook(key, &store.enabled) }
        };
        let binding = input.contexts.first().map_or(run.kind, |c| c.binding.as_str());
        run_metrics::count_wait(&self.state.measures, run, binding);
        let activation =
            if self.state.converged.load(Ordering::Acquire) { run.kind } else { "OperatorStartup" };
        let count = |usage, worked| {
            run_metrics::count(&self.state.measures, (hook, binding, activation), run, usage, worked);
        };
        let about = About { binding, queue: &run.queue, event: run.event };
        let left = async {
            match leaves {
                Some(module) => module.is_left().await,
                None => std::future::pending().await,
            }
        };
        let output = tokio::select! {
            output = hook.run(&self.around, &input, &about) => output,
            // Its processes end with the run.
            () = left => {
                count(None, false);
                let text = "killed: its files have changed, or its module is switched off";
                return Err(format!("hook {}: {text}", hook.name));
            }
        };
        let result = match output {
            Err(error) => {
                let usage = match &error {
                    HookError::Run { reason, status_patches, .. } => {
                        if let Err(text) = apply_operations(&actor, status_patches).await {
                            tracing::warn!(module = name, hook = hook.name, "{text}");
                        }
                        reason.usage()
                    }
                    _ => None,
                };
                count(usage, false);
                return Err(error.to_string());
            }
            Ok(mut output) => {
                let (task, usage) = (output.task, output.usage);
                let answer = Answer {
                    admission: std::mem::take(&mut output.admission),
                    conversion: std::mem::take(&mut output.conversion),
                };
                // What it does to objects is not drift.
                let _quiet = (!output.operations.is_empty()).then(|| self.running(name));
                let done = self.take((name, key), (hook, &actor), output, &input.config_values, reload).await;
                count(Some(usage), done.is_ok());
                if let Err(text) = &done {
                    hook.refused(task, text);
                }
                done.map(|patched| (patched, answer))
            }
        };
        result.map_err(|text| format!("hook {}: {text}", hook.name))
    }

    pub(super) async fn take(
        &self,
        (name, key): (&str, &str),
        (hook, actor): (&Hook, &Cluster),
        output: crate::shell_hooks::Output,
        seen: &Value,
        reload: bool,
    ) -> Result<Patched, String> {
        let labels = [("hook", hook.name.as_str()), ("module", name)];
        let labels = if name.is_empty() { &labels[..1] } else { &labels[..] };
        for text in self.state.hook_metrics.apply(&output.metrics, labels) {
            tracing::warn!(module = name, hook = hook.name, "{text}");
        }
        for operation in &output.operations {
            if let Operation::Create { object, .. } = operation {
                redact::add_secret(object);
            }
        }
        apply_operations(actor, &output.operations).await?;
        let root = if name.is_empty() { Root::Global } else { Root::Module(key) };
        let mut patched = Patched::default();
        if !output.config_values_patch.trim().is_empty() {
            let written =
                ConfigPatch { module: name, root, patch: output.config_values_patch.as_bytes(), seen };
            patched = self.write_back(&written, reload).await?;
        }
        if !output.values_patch.trim().is_empty() {
            let more = self.store().values.patch(root, output.values_patch.as_bytes())?;
            patched.values |= more.values;
            patched.flags |= more.flags;
            if more.values || more.flags {
                let change = Change {
                    module: name.to_owned(),
                    flags: more.flags,
                    reload: reload && more.values,
                    ..Change::default()
                };
                self.tell(change);
            }
        }
        Ok(patched)
    }
}
