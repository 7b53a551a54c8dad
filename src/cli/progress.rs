//! Progress of an operation: warnings and, as in Helm, logs of hooks; waits only if requested or on a terminal.
//!
//! On a terminal one block is redrawn for each change; otherwise each change is a line.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::termios::tcgetwinsize;

use self::board::Board;
use super::flags::Globals;
use super::{failure, tell};
use windlass_engine::{OperationProgress, ProgressListener};

mod board;

/// A listener that writes to stderr.
pub(super) fn listener(globals: &Globals) -> ProgressListener {
    let live = failure::explains(globals);
    if live && std::io::stderr().is_terminal() {
        let board = Mutex::new(Board::default());
        return Arc::new(move |_, step| {
            let mut board = board.lock().unwrap_or_else(PoisonError::into_inner);
            let (width, height) = size();
            let text = board.step(step, width, height);
            // Errors of the terminal are ignored.
            drop(std::io::stderr().lock().write_all(text.as_bytes()));
        });
    }
    Arc::new(move |_, step| match step {
        OperationProgress::HookLog { text, .. } => tell(text.trim_end_matches('\n')),
        OperationProgress::Warning(text) => tell(&format!("level=WARN msg={text:?}")),
        OperationProgress::Hook { event, kind, name } if live => {
            tell(&format!("{event} hook: {kind} {name}"));
        }
        OperationProgress::Waiting { object, reason } if live => {
            tell(&format!("waiting for {object}: {reason}"));
        }
        OperationProgress::Ready(object) if live => tell(&format!("{object} is ready")),
        // Without a terminal this is reported only at the end, if the wait failed.
        OperationProgress::Diagnosis { object, lines } => {
            for line in *lines {
                tell(&format!("  {object}: {line}"));
            }
        }
        _ => {}
    })
}

/// Columns and rows of the terminal, if known.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(std::io::stderr()).ok();
    let or = |told: Option<u16>, otherwise| told.filter(|n| *n > 0).map_or(otherwise, usize::from);
    (or(size.map(|s| s.ws_col), 80), or(size.map(|s| s.ws_row), 24))
}
