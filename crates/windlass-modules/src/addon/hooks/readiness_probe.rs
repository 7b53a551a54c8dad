//! Probes of modules' readiness: when they run, and what their answers mean.
//!
//! A probe runs from the first release of its module in this process on, at once and then on its schedule, until the module is off or its
//! hooks are others. The loop hears of answers that are new.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinSet;

use super::module_hooks::ModuleHooks;
use super::{Change, Hooks};
use crate::addon::status::DECKHOUSE_GROUP;
use crate::shell_hooks::apply_operations::apply_operations;
use crate::shell_hooks::binding_context::{Context, ContextKind, Include, Snapshots};
use crate::shell_hooks::operations::{Operation, Patch};
use crate::shell_hooks::{About, HookError, Input, Output, ReadinessProbe, next_tick};
use windlass_base::redact;

/// The binding of a probe in its context.
const BINDING: &str = "schedule";
/// The queue that its log lines name.
const QUEUE: &str = "readiness";
/// The condition that the library's probe writes.
const CONDITION: &str = "IsReady";
/// How the library's probe, a foreign program, says that the module's object cannot be read.
const NO_OBJECT: &str = "get module resource";
/// How often a probe that runs before its module's object is written is tried again, and when.
const EARLY_TRIES: u32 = 5;
const EARLY_PAUSE: Duration = Duration::from_secs(1);

/// What a probe said last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::addon) struct Readiness {
    pub(in crate::addon) ready: bool,
    /// Why it is not.
    pub(in crate::addon) message: String,
}

impl Readiness {
    fn new(ready: bool, message: &str) -> Self {
        Self { ready, message: message.to_owned() }
    }
}

impl Hooks {
    /// Whether the loaded hooks of a module have a probe.
    pub(in crate::addon) fn has_probe(&self, module: &str) -> bool {
        self.module(module).is_some_and(|known| known.set.get().is_some_and(|set| set.readiness().is_some()))
    }

    /// Starts the probe of a module whose release is deployed, unless it runs already.
    pub(super) fn start_probe(self: &Arc<Self>, module: &Arc<ModuleHooks>) {
        let Some(probe) = module.set.get().and_then(|set| set.readiness()).cloned() else { return };
        let mut running = module.probe.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return;
        }
        let (hooks, owner) = (Arc::downgrade(self), Arc::downgrade(module));
        let mut tasks = JoinSet::new();
        tasks.spawn(redact::own(async move {
            let mut early = EARLY_TRIES;
            let mut last: Option<Readiness> = None;
            loop {
                {
                    let (Some(hooks), Some(owner)) = (hooks.upgrade(), owner.upgrade()) else { return };
                    let found = hooks.probe(&owner, &probe).await;
                    if found.message.contains(NO_OBJECT) && hooks.keeps_deckhouse_modules && early > 0 {
                        early -= 1;
                        tokio::time::sleep(EARLY_PAUSE).await;
                        continue;
                    }
                    early = 0;
                    if last.as_ref() != Some(&found) {
                        hooks.report_readiness(&owner.name, &found);
                        last = Some(found);
                    }
                }
                if next_tick(&probe.cron, Timestamp::now()).await.is_none() {
                    return;
                }
            }
        }));
        *running = Some(tasks);
    }

    fn report_readiness(&self, module: &str, found: &Readiness) {
        match found.ready {
            true => tracing::info!(module, "its readiness probe says that it is ready"),
            false => {
                tracing::warn!(module, "its readiness probe says that it is not ready: {}", found.message);
            }
        }
        self.tell(Change { module: module.to_owned(), readiness: Some(found.clone()), ..Change::default() });
    }

    /// Runs a probe once. Its results are applied as those of every hook.
    async fn probe(&self, module: &ModuleHooks, probe: &ReadinessProbe) -> Readiness {
        let hook = &probe.hook;
        let context = Context {
            binding: BINDING.to_owned(),
            group: Some("main".to_owned()),
            include: Include::Nothing,
            what: ContextKind::Schedule,
        };
        let input = {
            let store = self.store();
            Input {
                contexts: vec![context],
                snapshots: Snapshots::new(),
                config_values: store.values.config_for_hook(&module.key),
                values: store.values.for_hook(&module.key, &store.enabled),
            }
        };
        hook.turn().await;
        let about = About { binding: BINDING, queue: QUEUE, event: 0 };
        match hook.run(&self.around, &input, &about).await {
            Err(error) => {
                if let HookError::Run { status_patches, .. } = &error
                    && let Err(text) = apply_operations(&module.actor(), status_patches).await
                {
                    tracing::warn!(module = module.name, hook = hook.name, "{text}");
                }
                Readiness::new(false, &self.with_missing_flag(error.in_short()))
            }
            Ok(output) => self.take_probe(module, probe, output, &input.config_values).await,
        }
    }

    async fn take_probe(
        &self,
        module: &ModuleHooks,
        probe: &ReadinessProbe,
        output: Output,
        seen: &Value,
    ) -> Readiness {
        let hook = &probe.hook;
        let (task, found) = (output.task, verdict(&output.operations));
        // A probe that writes a status all the time must not make deletions by others look like its own.
        let deletes = output.operations.iter().any(|o| matches!(o, Operation::Delete { .. }));
        let _running = deletes.then(|| self.running(&module.name));
        let owner = (module.name.as_str(), module.key.as_str());
        match self.take(owner, (hook, &module.actor()), output, seen, true).await {
            Ok(_) => found,
            Err(text) => {
                hook.refused(task, &text);
                Readiness::new(false, &text)
            }
        }
    }

    /// The message of a probe with the flag that it needs.
    fn with_missing_flag(&self, message: String) -> String {
        if !message.contains(NO_OBJECT) || self.keeps_deckhouse_modules {
            return message;
        }
        format!(
            "{message}; the probe reads modules.{DECKHOUSE_GROUP}: --module-status={DECKHOUSE_GROUP} keeps them"
        )
    }
}

/// What a probe that ended well says: the library's one fails in the status that it writes.
fn verdict(operations: &[Operation]) -> Readiness {
    let conditions = operations.iter().filter_map(|operation| match operation {
        Operation::Patch { target, patch: Patch::Merge(patch), .. }
            if target.kind == "Module" && target.api_version.starts_with(DECKHOUSE_GROUP) =>
        {
            patch["status"]["conditions"].as_array()
        }
        _ => None,
    });
    let written = conditions.flatten().rfind(|condition| condition["type"] == CONDITION);
    match written {
        Some(condition) if condition["status"] == "False" => {
            Readiness::new(false, condition["message"].as_str().unwrap_or("it gives no reason"))
        }
        _ => Readiness::new(true, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell_hooks::operations::parse;

    #[test]
    fn a_probe_that_ends_well_may_say_no_in_what_it_writes() {
        let patch = |api: &str, kind: &str, conditions: &str| {
            format!(
                r#"{{"operation":"MergePatch","apiVersion":"{api}","kind":"{kind}","name":"m","subresource":"/status",
                "mergePatch":{{"status":{{"phase":"Reconciling","conditions":{conditions}}}}}}}"#
            )
        };
        let no = r#"[{"type":"Other","status":"True"},{"type":"IsReady","status":"False","message":"2 of 3 Pods"}]"#;
        let table = [
            (String::new(), (true, "")),
            (patch("deckhouse.io/v1alpha1", "Module", no), (false, "2 of 3 Pods")),
            (patch("deckhouse.io/v1alpha1", "Module", r#"[{"type":"IsReady","status":"True"}]"#), (true, "")),
            (
                patch("deckhouse.io/v1alpha1", "Module", r#"[{"type":"IsReady","status":"False"}]"#),
                (false, "it gives no reason"),
            ),
            (patch("deckhouse.io/v1alpha1", "Release", no), (true, "")),
            (patch("example.com/v1", "Module", no), (true, "")),
            (r#"{"operation":"Delete","kind":"Pod","name":"p"}"#.to_owned(), (true, "")),
        ];
        for (text, (ready, message)) in table {
            assert_eq!(verdict(&parse(&text).unwrap()), Readiness::new(ready, message), "{text}");
        }
    }
}
