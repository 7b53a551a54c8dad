//! The dry run of what precedes the objects: the namespace, and the chart's own CRDs.

use crate::{
    decide::Decision,
    dry_run::DryRun,
    error::{EngineError, Result},
    execute::crds,
    objects::{desired_objects, field_diff},
    plan::preview::{ChangeVerb, DecidingOption, PlannedChange},
    request::CrdPolicy,
};
use futures::future::join_all;
use serde_json::Value;
use std::collections::BTreeSet;
use windlass_cluster::{ApplyOptions, Gvk, ObjectMeta, ObjectRef, Validation};

impl DryRun<'_> {
    /// Plans the namespace and `crds/`.
    pub(crate) async fn prerequisites(&self, decision: &Decision) -> Result<Vec<PlannedChange>> {
        let (context, input) = (self.context, self.input);
        let mut changes = Vec::new();
        let namespace = ObjectRef::new(Gvk::new("v1", "Namespace"), None, &input.id.namespace);
        let own = input.rendered.manifests.iter().any(|m| {
            m.object["apiVersion"] == "v1"
                && m.object["kind"] == "Namespace"
                && ObjectMeta::of(&m.object).name() == input.id.namespace
        });
        if input.options.create_namespace && !own && context.cluster.get_metadata(&namespace).await?.is_none()
        {
            let created = PlannedChange::new(ChangeVerb::Create, &namespace, "", "it is not there");
            changes.push(PlannedChange { option: Some(DecidingOption::CreateNamespace), ..created });
        }
        if !input.options.crds.is_due(decision.installing) {
            return Ok(changes);
        }
        let kinds = context.crd_client.kinds().await?;
        for file in &input.rendered.crds {
            for object in file.objects.iter().filter(|o| !o.is_null()) {
                let reference = desired_objects::reference(&file.name, object, "default", |gvk| {
                    kinds.get(gvk).map(|r| r.namespaced)
                })?;
                let live = context.crd_client.get(&reference).await?;
                let change = |verb, reason: &str| PlannedChange::new(verb, &reference, &file.name, reason);
                changes.push(match (live, input.options.crds) {
                    (None, _) => change(ChangeVerb::Create, "it is not there"),
                    (Some(live), CrdPolicy::Apply) => {
                        self.preview_crd(&live, object, change(ChangeVerb::Update, "it differs")).await?
                    }
                    (Some(_), _) => {
                        change(ChangeVerb::Skip, "it is there already, and CRDs are not upgraded")
                    }
                });
            }
        }
        Ok(changes)
    }

    /// Blocks objects in namespaces that do not exist and are not part of the release: the server's dry run does not
    /// report them. A namespace that cannot be read counts as existing.
    pub(crate) async fn block_without_namespace(&self, changes: &mut [PlannedChange]) {
        let (context, input) = (self.context, self.input);
        let created = || changes.iter().filter(|c| c.verb == ChangeVerb::Create);
        let comes = |name: &str| {
            input.options.create_namespace && name == input.id.namespace
                || created().any(|c| c.api_version == "v1" && c.kind == "Namespace" && c.name == name)
        };
        let names: BTreeSet<String> =
            created().filter_map(|c| c.namespace.clone()).filter(|name| !comes(name)).collect();
        let looks = names.into_iter().map(async |name| {
            let object = ObjectRef::new(Gvk::new("v1", "Namespace"), None, &name);
            matches!(context.cluster.get_metadata(&object).await, Ok(None)).then_some(name)
        });
        let missing: Vec<String> = join_all(looks).await.into_iter().flatten().collect();
        for change in changes.iter_mut().filter(|c| c.verb == ChangeVerb::Create) {
            if let Some(name) = change.namespace.as_ref().filter(|name| missing.contains(name)) {
                change.verb = ChangeVerb::Blocked;
                change.reason = format!("namespaces {name:?} not found");
                change.option = (*name == input.id.namespace).then_some(DecidingOption::CreateNamespace);
            }
        }
    }

    /// Plans the update of a CRD, or reports why it would be refused.
    async fn preview_crd(
        &self,
        live: &Value,
        object: &Value,
        mut change: PlannedChange,
    ) -> Result<PlannedChange> {
        let gvk = Gvk::new(&change.api_version, &change.kind);
        let reference = ObjectRef::new(gvk, change.namespace.as_deref(), &change.name);
        let options = ApplyOptions {
            manager: self.context.manager(),
            force: true,
            validation: Validation::Warn,
            dry_run: true,
            whole: true,
        };
        match crds::apply(&self.context.crd_client, live, object, &reference, options).await {
            Ok(applied) => {
                change.fields = field_diff::changes(
                    &field_diff::without_runtime_fields(live.clone()),
                    &field_diff::without_runtime_fields(applied),
                );
                if change.fields.is_empty() {
                    change.verb = ChangeVerb::Unchanged;
                    "the server would change nothing".clone_into(&mut change.reason);
                }
            }
            Err(error @ EngineError::CrdLoss { .. }) => {
                change.verb = ChangeVerb::Blocked;
                change.reason = error.to_string();
            }
            Err(EngineError::Cluster(source)) if source.is_invalid() => {
                change.verb = ChangeVerb::Blocked;
                change.reason = source.to_string();
            }
            Err(other) => return Err(other),
        }
        Ok(change)
    }
}
