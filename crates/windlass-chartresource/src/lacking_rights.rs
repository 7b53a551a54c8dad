//! The rights that the account of an object has not: all of them in one condition, where the API server forbade one request.
//!
//! Owns when they are asked for, and how the account and the command are named. The comparison is [`windlass_controller`]'s.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chart_objects::ChartObjects;
use super::chart_rollout::Turn;
use super::object_status::Step;
use super::values_object::ChartObject;
use windlass_controller::{
    FrontEnd as _, MissingRights, ReconcileError, ReconcilePass, ReleaseSpec, RightSet, account_of,
    crd_files, missing_rights, missing_rights_error, user_lacks,
};
use windlass_engine::{ReleaseId, ReleaseOptions};

/// What the API server says where the operator may not act as an account: its answer has no other sign of it.
const MAY_NOT_IMPERSONATE: [&str; 2] = [" is forbidden: User ", " cannot impersonate resource "];

impl ChartObjects {
    /// The error of a pass; where the API server forbade something and rights are missing, one that lists them all.
    pub(crate) async fn with_missing_rights(
        &self,
        pass: &ReconcilePass,
        object: &ChartObject,
        error: ReconcileError,
    ) -> ReconcileError {
        if !error.is_forbidden() {
            return error;
        }
        // No request on the account's behalf gets through, not even the one for its rights.
        let text = error.to_string();
        if MAY_NOT_IMPERSONATE.iter().all(|part| text.contains(part)) {
            self.enter(&object.key(), Step::Client);
            return error;
        }
        match self.missing_rights(pass, object).await {
            Ok(Some(missing)) => missing,
            // A quota or an admission plugin forbade it.
            Ok(None) => error,
            Err(failure) => {
                tracing::debug!(object = %pass.reference, "its missing rights cannot be told: {failure}");
                error
            }
        }
    }

    /// The error that lists the rights which the object's account has not for its release; `None`: it has them all.
    ///
    /// # Errors
    /// The chart cannot be rendered, or the API server does not answer.
    pub(crate) async fn missing_rights(
        &self,
        pass: &ReconcilePass,
        object: &ChartObject,
    ) -> Result<Option<ReconcileError>, ReconcileError> {
        let runner = pass.runner(self, object)?;
        let client = runner.engine().cluster();
        let Some(namespace) = object.namespace.as_deref() else { return Ok(None) };
        let (Turn::Deploy(chart) | Turn::Wait(Some(chart))) =
            self.kind.turn(&object.key(), object.status.candidate())
        else {
            return Ok(None);
        };
        let mut values = self.values_of(object);
        self.set_images(object, Some(&chart), &mut values);
        let values = values.map_err(|(_, error)| *error)?;
        let named = self.pull_secret_of(object, Some(&chart), &values).map_err(ReconcileError::Config)?;
        let claimant = self.claimant(object, chart.name());
        let name =
            self.known_release(object).map(str::to_owned).or_else(|| claimant.names().into_iter().next());
        let spec = ReleaseSpec {
            id: ReleaseId::new(namespace, &name.unwrap_or_default()),
            chart: Arc::clone(&chart.chart),
            values: Arc::new(values),
            skip_schema_validation: false,
            crds: crd_files(&chart.chart.chart().crds(), &[], &BTreeMap::new())?,
            owner: self.settings().name.clone(),
            cause: String::new(),
            description: None,
            record_labels: BTreeMap::new(),
            checksum_label: None,
            post_render: None,
            options: ReleaseOptions::default(),
        };
        let mut missing = runner.missing_rights(spec).await?;
        if named.is_some() {
            let mut account = RightSet::default();
            account.add_to(Some(namespace), "", "serviceaccounts", Some("default"), &["get", "patch"]);
            missing.extend(missing_rights(client, &account).await?);
        }
        if missing.is_empty() {
            return Ok(None);
        }
        let target = self.target(object)?;
        let user = client.own_user().await?;
        let flags = self.kind_flags(client).await?;
        let own = account_of(&user);
        let text = match target.service_account(namespace).or(own) {
            Some(account) => MissingRights {
                missing: &missing,
                account,
                operator_kind: target.service_account(namespace).is_none().then_some(&flags[..]),
                chart: &chart.arguments,
                namespace,
                pull_secrets: named.is_some(),
            }
            .to_string(),
            None => user_lacks(&user, &missing),
        };
        self.enter(&object.key(), Step::Rights);
        Ok(Some(missing_rights_error(text)))
    }

    /// The flags of `windlass rbac` for the kind.
    async fn kind_flags(
        &self,
        client: &windlass_cluster::Cluster,
    ) -> Result<Vec<(&'static str, String)>, ReconcileError> {
        let gvk = &self.settings().gvk;
        let kinds = client.kinds().await?;
        let plural = kinds.get(gvk).map(|served| ("--plural", served.plural.clone()));
        let names = [("--group", gvk.group.clone()), ("--kind", gvk.kind.clone())];
        Ok(names.into_iter().chain(plural).collect())
    }
}
