//! What a user can do about a failure of the engine, appended to its text: the only table that maps the engine's errors to advice.
//!
//! The engine's own texts have facts alone. Which flags decide a planned change, the command line knows.

use std::borrow::Cow;

use windlass_engine::EngineError;
use windlass_engine::record::RecordError;

/// Whose failure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintsFor {
    /// A command's, which has flags.
    CommandLine,
    /// The operator's, which has no flags for a single release.
    Operator,
}

/// The text of an engine's failure, each hint once at the end.
#[must_use]
pub fn engine_text(error: &EngineError, reader: HintsFor) -> String {
    error.text_with(|leaf| hint(leaf, reader))
}

fn hint(error: &EngineError, reader: HintsFor) -> Option<Cow<'static, str>> {
    let (command_line, operator) = match error {
        EngineError::HalfUninstalled { name, .. } => {
            let text = format!(
                "; \"uninstall {name}\" finishes that, \"upgrade --install {name}\" brings the release back"
            );
            return (reader == HintsFor::CommandLine).then(|| text.into());
        }
        EngineError::Pending { .. } => {
            (", or at once with --break-lock", ", or at once with the command line's --break-lock")
        }
        EngineError::Held { .. } => (
            "; wait for it, or take over with --break-lock",
            "; wait for it, or take over with the command line's --break-lock",
        ),
        EngineError::Immutable { .. } => (
            "\n  (--recreate-immutable deletes it and creates it again)",
            "\n  (delete the object, and the operator creates it again)",
        ),
        EngineError::Conflict { .. } => {
            ("\n  (--force-conflicts takes them, --leave-to-owner PATH leaves them)", "")
        }
        EngineError::Record(RecordError::ReadOnly) => ("; unset HELM_DRIVER=memory or use --dry-run", ""),
        _ => return None,
    };
    let text = match reader {
        HintsFor::CommandLine => command_line,
        HintsFor::Operator => operator,
    };
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_appended_once() {
        let held = || EngineError::Held { lease: "windlass-web".into(), by: "someone".into() };
        let several = EngineError::Several(vec![held(), held(), EngineError::NotFound]);
        let text = engine_text(&several, HintsFor::Operator);
        assert!(text.ends_with(
            "; release: not found; wait for it, or take over with the command line's --break-lock"
        ));
        assert_eq!(text.matches("--break-lock").count(), 1, "{text}");
        assert_eq!(engine_text(&EngineError::NotFound, HintsFor::Operator), "release: not found");
    }
}
