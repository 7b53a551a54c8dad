//! The uninstall of a release whose records cannot all be read, for an object or a module that is deleted.
//!
//! Owns what becomes of such records. Those of the owner are deleted unread, so that they hold up no deletion, and what the other ones
//! name is deleted as ever. Records of others stay, and so do their objects. Which records are the owner's is the front end's.

use std::collections::BTreeSet;

use windlass_engine::record::RecordHead;
use windlass_engine::{Disposition, EngineError, ReleaseId, UninstallRequest, Uninstalled};

use super::error::ReconcileError;
use super::events::{EventNote, EventType};
use super::release_runner::ReleaseRunner;

impl ReleaseRunner {
    /// Uninstalls a release as far as its records can be read. `is_own`: whether a record is the owner's, by its labels. `note` takes an
    /// Event for what could not be read, as soon as that is decided.
    ///
    /// # Errors
    /// As [`ReleaseRunner::uninstall`], but not for records that cannot be read.
    pub async fn uninstall_readable(
        &self,
        request: &UninstallRequest,
        is_own: impl Fn(&RecordHead) -> bool,
        mut note: impl FnMut(EventNote),
    ) -> Result<Uninstalled, ReconcileError> {
        let id = &request.id;
        // One that was deleted unread is still a release that was there.
        let request = UninstallRequest { ignore_not_found: true, ..request.clone() };
        let request = &request;
        let mut seen = BTreeSet::new();
        loop {
            let error = match self.uninstall(request).await {
                Err(ReconcileError::Engine(error)) if error.is_unreadable_record() => error,
                done => return done,
            };
            let deleted = self.engine().records().delete_unreadable(id, &is_own).await?;
            if deleted.is_empty() {
                note(warning("NotUninstalled", not_uninstalled(id, &error)));
                return Ok(Uninstalled::default());
            }
            // A finalizer keeps them: the next try goes on when it is gone.
            if deleted.iter().all(|revision| !seen.insert(*revision)) {
                let text = format!("{error}: the record is deleted, and stays for a finalizer: remove that");
                return Err(ReconcileError::Reason {
                    reason: "RecordHeld",
                    text,
                    disposition: Disposition::Retry,
                });
            }
            note(warning("DeletingRecords", deleted_unread(id, &deleted, &error)));
            // The release below may be another owner's: its objects are not ours to delete.
            let newest = self.engine().records().heads_of(id).await?.pop();
            if let Some(other) = newest.filter(|newest| !is_own(newest)) {
                note(warning("NotUninstalled", belongs_to_others(id, other.revision)));
                return Ok(Uninstalled::default());
            }
        }
    }
}

fn warning(reason: &'static str, text: String) -> EventNote {
    EventNote {
        event_type: EventType::Warning,
        reason,
        action: "Uninstall",
        note: text,
        annotations: Default::default(),
    }
}

fn not_uninstalled(id: &ReleaseId, error: &EngineError) -> String {
    format!(
        "release {id} is not uninstalled, its records and objects stay: {error}, and that record is not marked as the owner's: delete it \
         if nobody needs it"
    )
}

fn belongs_to_others(id: &ReleaseId, revision: u64) -> String {
    format!(
        "release {id} is not uninstalled, its other records and their objects stay: the record of revision {revision}, the newest that \
         is left, is not marked as the owner's: uninstall the release by hand if nobody needs it"
    )
}

fn deleted_unread(id: &ReleaseId, revisions: &[u64], error: &EngineError) -> String {
    let revisions: Vec<String> = revisions.iter().map(u64::to_string).collect();
    format!(
        "{error}: the records of revisions {} of release {id} are deleted unread, and objects that they alone name stay: look for \
         objects with the annotation meta.helm.sh/release-name: {}, and delete those that nobody needs",
        revisions.join(", "),
        id.name
    )
}
