//! Waits until an object was reconciled.

use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;

use super::super::Failure;
use super::{condition, text};
use windlass_cluster::{Cluster, ObjectEvent, ObjectMeta, ObjectRef};

/// Reasons of Ready that end without the object's own change: others have to become ready.
const PREREQUISITES: [&str; 2] = ["DependencyNotReady", "SourceNotReady"];

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until<'a> {
    /// A request to reconcile, by its token, was handled.
    Handled(&'a str),
    /// This generation was reconciled.
    Generation(i64),
}

/// How far an object is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Not yet; the text says what it does.
    Pending(String),
    Ready,
    Failed(String),
}

/// How far an object is, by its status.
pub(super) fn progress(object: &Value, until: Until<'_>) -> Progress {
    let status = &object["status"];
    let begun = match until {
        Until::Handled(token) => status["lastHandledReconcileAt"] == token,
        Until::Generation(generation) => {
            status["observedGeneration"].as_i64().is_some_and(|observed| observed >= generation)
                || condition(object, "Ready")
                    .is_some_and(|ready| ready["observedGeneration"].as_i64() >= Some(generation))
        }
    };
    if !begun {
        return Progress::Pending("the controller has not handled the request".to_owned());
    }
    let message = |condition: &Value| text(&condition["message"]).to_owned();
    let ready = condition(object, "Ready");
    if let Some(stalled) = condition(object, "Stalled").filter(|c| c["status"] == "True") {
        // Ready says what failed, Stalled only that it is not tried again.
        return Progress::Failed(message(ready.filter(|c| c["status"] == "False").unwrap_or(stalled)));
    }
    let Some(ready) = ready else {
        return Progress::Pending("it has no condition Ready yet".to_owned());
    };
    let reconciling = condition(object, "Reconciling").filter(|c| c["status"] == "True");
    // A pass has ended when it waits for its next try.
    let busy = reconciling.is_some_and(|c| c["reason"] != "ProgressingWithRetry");
    let observed = status["observedGeneration"] == ObjectMeta::of(object).generation();
    match text(&ready["status"]) {
        "True" if observed && !busy => Progress::Ready,
        "False" if !busy && !PREREQUISITES.contains(&text(&ready["reason"])) => {
            Progress::Failed(message(ready))
        }
        _ => Progress::Pending(reconciling.filter(|_| busy).map_or_else(|| message(ready), message)),
    }
}

/// Waits until an object is ready or has failed; returns it when it is ready.
///
/// # Errors
/// The reconciliation failed, took too long, or the object was deleted.
pub(super) async fn wait(
    cluster: &Cluster,
    object: &ObjectRef,
    until: Until<'_>,
    timeout: Duration,
) -> Result<Value, Failure> {
    let kind = &object.gvk.kind;
    let mut last = "it was not seen".to_owned();
    let follow = async {
        let mut events = cluster
            .follow(&object.gvk, object.namespace.as_deref(), &object.name)
            .await
            .map_err(|e| e.to_string())?;
        while let Some(event) = events.next().await {
            match event.map_err(|e| e.to_string())? {
                ObjectEvent::Present(found) => match progress(&found, until) {
                    Progress::Ready => return Ok(found),
                    Progress::Failed(why) => return Err(format!("{kind} reconciliation failed: '{why}'")),
                    Progress::Pending(what) => last = what,
                },
                ObjectEvent::Gone(_) => return Err(format!("{object} was deleted")),
                ObjectEvent::Listing | ObjectEvent::Listed => {}
            }
        }
        Err(format!("the watch of {object} ended"))
    };
    match tokio::time::timeout(timeout, follow).await {
        Ok(result) => result,
        Err(_) => Err(format!(
            "{kind} reconciliation did not end within {}s: {last}; wait longer with --timeout",
            timeout.as_secs()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(handled: &str, observed: i64, conditions: &[(&str, &str, &str)]) -> Value {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, reason)| {
                json!({"type": kind, "status": status, "reason": reason, "message": format!("{kind} {reason}")})
            })
            .collect();
        json!({
            "metadata": {"generation": 2},
            "status": {"lastHandledReconcileAt": handled, "observedGeneration": observed, "conditions": conditions},
        })
    }

    #[test]
    fn a_request_ends_with_the_pass_that_handled_it() {
        let ready = ("Ready", "True", "UpgradeSucceeded");
        let failed = ("Ready", "False", "UpgradeFailed");
        let pending = |text: &str| Progress::Pending(text.to_owned());
        let failure = |text: &str| Progress::Failed(text.to_owned());
        let unseen = "the controller has not handled the request";
        let rows: [(Value, Progress); 10] = [
            (object("old", 2, &[ready]), pending(unseen)),
            (object("t", 2, &[ready]), Progress::Ready),
            // The spec was changed meanwhile.
            (object("t", 1, &[ready]), pending("Ready UpgradeSucceeded")),
            (object("t", 2, &[]), pending("it has no condition Ready yet")),
            (
                object("t", 2, &[("Reconciling", "True", "Progressing"), failed]),
                pending("Reconciling Progressing"),
            ),
            (
                object("t", 1, &[("Reconciling", "True", "ProgressingWithRetry"), failed]),
                failure("Ready UpgradeFailed"),
            ),
            (
                object("t", 2, &[("Stalled", "True", "RetriesExceeded"), failed]),
                failure("Ready UpgradeFailed"),
            ),
            (
                object("t", 2, &[("Ready", "False", "DependencyNotReady")]),
                pending("Ready DependencyNotReady"),
            ),
            (
                object(
                    "t",
                    1,
                    &[("Ready", "False", "SourceNotReady"), ("Reconciling", "True", "ProgressingWithRetry")],
                ),
                pending("Ready SourceNotReady"),
            ),
            (object("t", 2, &[("Ready", "Unknown", "Progressing")]), pending("Ready Progressing")),
        ];
        for (object, expected) in rows {
            assert_eq!(progress(&object, Until::Handled("t")), expected, "{object}");
        }
    }

    #[test]
    fn a_resumed_object_is_ready_in_its_generation() {
        let ready = ("Ready", "True", "UpgradeSucceeded");
        assert_eq!(progress(&object("", 2, &[ready]), Until::Generation(2)), Progress::Ready);
        assert!(matches!(progress(&object("", 1, &[ready]), Until::Generation(2)), Progress::Pending(_)));
        let mut failed = object("", 1, &[("Ready", "False", "UpgradeFailed")]);
        // What failed before the change says nothing of it.
        assert!(matches!(progress(&failed, Until::Generation(2)), Progress::Pending(_)));
        failed["status"]["conditions"][0]["observedGeneration"] = json!(2);
        assert!(matches!(progress(&failed, Until::Generation(2)), Progress::Failed(_)));
    }
}
