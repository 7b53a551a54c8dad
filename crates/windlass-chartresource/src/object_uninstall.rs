//! The end of an object of a chart's kind: its releases are uninstalled. The chart is not needed for it.

use std::time::Duration;

use super::chart_objects::ChartObjects;
use super::object_status::{ObjectState, Step};
use super::pull_secret::PullSecret;
use super::release_choice::{Claimant, Ownership};
use super::values_object::{self, ChartObject};
use windlass_cluster::{ClusterError, Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{FrontEnd as _, ReconcileError, ReconcilePass, ReleaseRunner};
use windlass_engine::record::RecordHead;
use windlass_engine::{Disposition, ReleaseId, UninstallRequest};

/// How long an uninstall waits for hooks and, where an annotation asks for it, for objects.
const UNINSTALL_TIMEOUT: Duration = Duration::from_secs(300);

impl ChartObjects {
    /// Uninstalls the releases of a deleted object.
    ///
    /// # Errors
    /// A request fails, or objects are left that were to be waited for. Not where the object's namespace is going away and has taken
    /// the account along that could delete anything: what is in the namespace goes with it.
    pub(crate) async fn run_uninstall(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartObject,
    ) -> Result<(), ReconcileError> {
        self.enter(&object.key(), Step::Uninstall);
        let Some(namespace) = object.namespace.as_deref() else { return Ok(()) };
        let Err(error) = self.uninstall_all(pass, object, namespace).await else { return Ok(()) };
        match self.lost_account(pass, object, namespace).await {
            Ok(Some(account)) => {
                tracing::warn!(
                    object = %pass.reference,
                    "not uninstalled, since its namespace is being deleted and ServiceAccount {account} is gone; objects of the \
                     release outside of the namespace stay: {error}"
                );
                Ok(())
            }
            Ok(None) => Err(error),
            Err(unknown) => {
                tracing::warn!(object = %pass.reference, "whether its ServiceAccount is gone is not known: {unknown}");
                Err(error)
            }
        }
    }

    async fn uninstall_all(
        &self,
        pass: &mut ReconcilePass,
        object: &ChartObject,
        namespace: &str,
    ) -> Result<(), ReconcileError> {
        let runner = pass.runner(self, object)?;
        let chart = self.chart_name();
        let claimant = self.claimant(object, &chart);
        let known = self.known_release(object);
        for name in claimant.names() {
            let id = ReleaseId::new(namespace, &name);
            let ownership = match runner.engine().records().newest(&id).await {
                Ok(newest) => claimant.ownership(&name, newest.as_ref()),
                Err(error) if error.is_unreadable_record() => {
                    let newest = runner.engine().records().heads_of(&id).await?.pop();
                    newest.map_or(Ownership::Absent, |newest| claimant.ownership_by_labels(&newest))
                }
                Err(error) => return Err(error.into()),
            };
            // The status, which others may write, is not a proof.
            let owns = match ownership {
                Ownership::Own => true,
                Ownership::Unmarked => known == Some(&name),
                Ownership::Absent | Ownership::Foreign(_) => false,
            };
            if owns {
                self.uninstall_release(pass, (object, &claimant), &runner, id).await?;
            }
        }
        // A status may have lost it, where the kind's schema does not know the field.
        let named = object.values().ok().and_then(|values| self.pull_secret_of(object, None, &values).ok());
        if object.status.pull_secret.is_some() || named.flatten().is_some() {
            let client = runner.engine().cluster();
            let own = PullSecret { client, gvk: &self.settings().gvk, namespace, object };
            own.remove().await.map_err(|(_, error)| *error)?;
        }
        Ok(())
    }

    /// The account that acts for an object, if it does not exist any more and its namespace is being deleted: nothing that acts as it
    /// can succeed from now on.
    async fn lost_account(
        &self,
        pass: &ReconcilePass,
        object: &ChartObject,
        namespace: &str,
    ) -> Result<Option<String>, ClusterError> {
        let Ok(target) = self.target(object) else { return Ok(None) };
        let Some((within, name)) = target.service_account(namespace) else { return Ok(None) };
        let reference = ObjectRef::new(Gvk::new("v1", "Namespace"), None, namespace);
        let live = pass.client().get(&reference).await?;
        if live.is_some_and(|live| !ObjectMeta::of(&live).is_deleting()) {
            return Ok(None);
        }
        let account = ObjectRef::new(Gvk::new("v1", "ServiceAccount"), Some(within), name);
        let is_gone = pass.client().get_metadata(&account).await?.is_none();
        Ok(is_gone.then(|| format!("{within}/{name}")))
    }

    async fn uninstall_release(
        &self,
        pass: &mut ReconcilePass,
        (object, claimant): (&ChartObject, &Claimant<'_>),
        runner: &ReleaseRunner,
        id: ReleaseId,
    ) -> Result<(), ReconcileError> {
        let wait = object.switch(values_object::UNINSTALL_WAIT, false);
        let request = UninstallRequest {
            ignore_not_found: true,
            run_hooks: !object.switch(values_object::UNINSTALL_WITHOUT_HOOKS, false),
            description: object.description(values_object::UNINSTALL_DESCRIPTION),
            timeout: UNINSTALL_TIMEOUT,
            wait,
            keep_incomplete: true,
            ..UninstallRequest::new(id)
        };
        if wait {
            let status =
                object.status.in_state(&pass.object["status"], object.generation, ObjectState::Uninstalling);
            pass.write_status(&status).await?;
        }
        let is_own = |head: &RecordHead| claimant.ownership_by_labels(head) == Ownership::Own;
        let done = pass.uninstall_readable(runner, &request, is_own).await?;
        if !done.errors.is_empty() {
            return Err(ReconcileError::Reason {
                reason: Step::Uninstall.reason(),
                text: done.errors.join("; "),
                disposition: Disposition::Retry,
            });
        }
        tracing::info!(object = %pass.reference, deleted = done.deleted.len(), "uninstalled");
        Ok(())
    }
}
