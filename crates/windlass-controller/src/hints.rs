//! What an operator's user can do about a failure of the engine, appended to its text.
//!
//! The counterpart of the command line's hints: the operator has no flags for a single release. Knows no front end.

use std::borrow::Cow;

use windlass_engine::EngineError;

/// The text of an engine's failure, each hint once at the end.
pub(super) fn engine_text(error: &EngineError) -> String {
    error.text_with(|leaf| hint(leaf).map(Cow::Borrowed))
}

fn hint(error: &EngineError) -> Option<&'static str> {
    match error {
        EngineError::Pending { .. } => Some(", or at once with the command line's --break-lock"),
        EngineError::Held { .. } => Some("; wait for it, or take over with the command line's --break-lock"),
        EngineError::Immutable { .. } => Some("\n  (delete the object, and the operator creates it again)"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_appended_once() {
        let held = || EngineError::Held { lease: "windlass-web".into(), by: "someone".into() };
        let several = EngineError::Several(vec![held(), held(), EngineError::NotFound]);
        let text = engine_text(&several);
        assert!(text.ends_with(
            "; release: not found; wait for it, or take over with the command line's --break-lock"
        ));
        assert_eq!(text.matches("--break-lock").count(), 1, "{text}");
        assert_eq!(engine_text(&EngineError::NotFound), "release: not found");
    }
}
