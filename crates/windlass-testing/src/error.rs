//! The one error of this crate: its text is what a developer reads when a test cannot get its cluster.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::{fs, io};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a tool or a cluster is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(
        "the program `go` is not on PATH: the control plane is built from pinned sources. Install Go, \
         or point WINDLASS_TEST_KUBECONFIG at a cluster"
    )]
    GoMissing,

    #[error("this Go is too old to build the control plane: install the one named here\n{stderr}")]
    GoTooOld { stderr: String },

    #[error("`{command}` failed in {} ({status})\n{stderr}", directory.display())]
    Go { command: String, directory: PathBuf, status: ExitStatus, stderr: String },

    #[error("{component} {what}; the end of its log {}:\n{tail}", log.display())]
    Component { component: &'static str, what: String, log: PathBuf, tail: String },

    #[error("no {name} of ours runs in this cluster")]
    NoComponent { name: String },

    #[error("`{command}` failed ({status})\n{stderr}")]
    Command { command: String, status: ExitStatus, stderr: String },

    #[error("{what}: not within {seconds} s")]
    Timeout { what: String, seconds: f32 },

    #[error("{server} printed {line:?} instead of the address that it listens on: its own message is above")]
    NoAddress { server: &'static str, line: String },

    #[error("the cluster of WINDLASS_TEST_KUBECONFIG is not ours, so there is no audit log to read")]
    NoAudit,

    #[error("{what}: {text}")]
    Json { what: &'static str, text: String, source: serde_json::Error },

    #[error("cannot {what}")]
    Io { what: String, source: io::Error },
}

impl Error {
    /// For `map_err`: says what was being done to which path.
    pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
        let what = format!("{what} {}", path.display());
        move |source| Error::Io { what, source }
    }

    pub(crate) fn component(component: &'static str, what: impl Into<String>, log: &Path) -> Error {
        Error::Component { component, what: what.into(), log: log.to_owned(), tail: tail(log) }
    }
}

/// The last lines of a log, for an error text.
fn tail(log: &Path) -> String {
    const LINES: usize = 20;
    let bytes = match fs::read(log) {
        Ok(bytes) => bytes,
        Err(error) => return format!("(cannot be read: {error})"),
    };
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
