//! The end of a HelmChart: its release is uninstalled.
//!
//! Owns what becomes of a release that is not uninstalled as a whole: the object stays until its objects are gone, and ends with an Event
//! where records tell nothing.

use super::chart_status::note;
use super::helm_charts::HelmCharts;
use super::managed_chart::{ManagedChart, Management, timeout};
use super::record_marks::RecordMark;
use windlass_cluster::{Gvk, ObjectMeta, ObjectRef};
use windlass_controller::{EventType, FrontEnd as _, ReconcileError, ReconcilePass, ReleaseRunner};
use windlass_engine::record::RecordHead;
use windlass_engine::{Disposition, EngineError, UninstallRequest, Uninstalled};

/// The uninstall of the release of an object.
pub(crate) fn uninstall_request(chart: &ManagedChart) -> UninstallRequest {
    let limit = chart.spec().map_or_else(|_| timeout(&Default::default()), timeout);
    UninstallRequest {
        ignore_not_found: true,
        wait: true,
        keep_incomplete: true,
        timeout: limit,
        ..UninstallRequest::new(chart.release())
    }
}

/// Refuses an uninstall that left objects: its next try goes on.
///
/// # Errors
/// The text has what is left, and why.
pub(crate) fn check_complete(done: &Uninstalled) -> Result<(), ReconcileError> {
    match done.incomplete {
        false => Ok(()),
        true => Err(ReconcileError::Reason {
            reason: "UninstallIncomplete",
            text: done.errors.join("; "),
            disposition: Disposition::Retry,
        }),
    }
}

impl HelmCharts {
    /// Uninstalls the release of a deleted object, unless its namespace is deleted with it.
    ///
    /// # Errors
    /// A request fails, or objects of the release are left: the object stays.
    pub(crate) async fn run_uninstall(
        &self,
        pass: &ReconcilePass,
        chart: &ManagedChart,
    ) -> Result<(), ReconcileError> {
        if chart.management == Management::Unmanaged || !chart.can_have_release() {
            return Ok(());
        }
        let namespace = ObjectRef::new(Gvk::new("v1", "Namespace"), None, &chart.namespace);
        let namespace = pass.client().get(&namespace).await?;
        if namespace.is_none_or(|namespace| ObjectMeta::of(&namespace).is_deleting()) {
            tracing::info!(object = %pass.reference, "not uninstalled: the namespace is deleted");
        } else {
            let runner = self.release_runner(pass, chart, &chart.release())?;
            let _busy = self.owners.begin(&chart.release())?;
            self.uninstall_own(pass, chart, &runner).await?;
        }
        self.forget(&chart.key());
        Ok(())
    }

    /// Uninstalls the release if its newest record is not another owner's. Records that cannot be read do not hold up the object: those of
    /// its own are deleted, and others stay.
    async fn uninstall_own(
        &self,
        pass: &ReconcilePass,
        chart: &ManagedChart,
        runner: &ReleaseRunner,
    ) -> Result<(), ReconcileError> {
        let (id, mark) = (chart.release(), RecordMark::of(self.name(), chart));
        // By its labels: it may be one that cannot be read.
        let Some(newest) = runner.engine().records().heads_of(&id).await?.pop() else { return Ok(()) };
        if let Some(owner) = mark.other_owner(&newest.labels, newest.status) {
            tracing::info!(object = %pass.reference, owner, "not uninstalled: the release belongs to another owner");
            return Ok(());
        }
        let is_own = |head: &RecordHead| mark.is_on(&head.labels);
        let done = pass.uninstall_readable(runner, &uninstall_request(chart), is_own).await?;
        self.note_uninstalled(pass, &done)
    }

    fn note_uninstalled(&self, pass: &ReconcilePass, done: &Uninstalled) -> Result<(), ReconcileError> {
        check_complete(done)?;
        if !done.errors.is_empty() {
            pass.record_event(note(EventType::Warning, "UninstallFailed", done.errors.join("; ")));
        }
        tracing::info!(object = %pass.reference, deleted = done.deleted.len(), "uninstalled");
        Ok(())
    }
}

/// Why a record that cannot be read is left as it is.
pub(crate) fn foreign(unreadable: &EngineError) -> String {
    format!("{unreadable}, and it is not marked as this HelmChart's: delete it if nobody needs it")
}
