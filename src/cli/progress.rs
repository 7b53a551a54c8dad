//! What an operation tells while it runs: logs of hooks always, as Helm prints them; what is waited for where someone looks.

use std::sync::Arc;

use super::flags::Globals;
use super::{failure, tell};
use crate::release::{Progress, ProgressListener};

/// A listener that writes to stderr.
pub(super) fn listener(globals: &Globals) -> ProgressListener {
    let live = failure::explains(globals);
    Arc::new(move |_, step| match step {
        Progress::HookLog { text, .. } => tell(text.trim_end_matches('\n')),
        Progress::Waiting { object, reason } if live => tell(&format!("waiting for {object}: {reason}")),
        Progress::Ready(object) if live => tell(&format!("{object} is ready")),
        Progress::Diagnosis { object, lines } if live => {
            for line in *lines {
                tell(&format!("  {object}: {line}"));
            }
        }
        _ => {}
    })
}
