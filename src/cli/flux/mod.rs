//! `windlass flux`: the daily verbs of Flux's command line for HelmReleases and their sources.
//!
//! Owns texts, tables and waits. Writes only what the verbs of `flux` write: annotations that ask for a reconciliation, and
//! `spec.suspend`.

mod diff;
mod events;
mod export;
mod get;
mod get_watch;
mod kinds;
mod reconcile;
mod suspend;
mod trace;
mod tree;
mod wait;

use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::flags::Globals;
use super::{Connected, Failure, tell};
use windlass_cluster::{Cluster, ObjectRef};

/// Field manager of what these verbs write.
const MANAGER: &str = "windlass";
/// Where Flux is installed by default, and which namespace its command line works in.
const FLUX_NAMESPACE: &str = "flux-system";
/// Exit status of `diff` if something differs.
const DIFFERS: u8 = 2;

/// Subcommands of `flux`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// List HelmReleases and sources; those that are not ready come first
    Get(get::Args),
    /// Request a reconciliation, wait for it and show its result
    Reconcile(reconcile::Args),
    /// Suspend the reconciliation of objects
    Suspend(suspend::SuspendArgs),
    /// Resume the reconciliation of objects, and wait until they are ready
    Resume(suspend::ResumeArgs),
    /// List Events of HelmReleases and sources
    Events(events::Args),
    /// Print objects without status, to be applied elsewhere
    Export(export::Args),
    /// Print the objects of a release
    Tree(tree::Args),
    /// Print which HelmRelease, chart and source an object comes from
    Trace(trace::Args),
    /// Compare live objects with the stored revision; exit status 2 if something differs
    Diff(diff::Args),
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<ExitCode, Failure> {
    let done = |()| ExitCode::SUCCESS;
    match command {
        Command::Get(args) => get::run(globals, args).map(done),
        Command::Reconcile(args) => reconcile::run(globals, args).map(done),
        Command::Suspend(args) => suspend::suspend(globals, args).map(done),
        Command::Resume(args) => suspend::resume(globals, args).map(done),
        Command::Events(args) => events::run(globals, args).map(done),
        Command::Export(args) => export::run(globals, args).map(done),
        Command::Tree(args) => tree::run(globals, args).map(done),
        Command::Trace(args) => trace::run(globals, args).map(done),
        Command::Diff(args) => diff::run(globals, args)
            .map(|differs| if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS }),
    }
}

/// Flags of verbs that wait.
#[derive(clap::Args)]
struct Waiting {
    /// How long to wait
    #[arg(long, default_value = "5m", value_parser = super::flags::duration)]
    timeout: Duration,
}

/// The namespace that a verb works in: `--namespace`, else as `flux` chooses it.
fn namespace_of(globals: &Globals, connected: &Connected) -> String {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    match &globals.namespace {
        Some(namespace) => namespace.clone(),
        None if variable("FLUX_NS_FOLLOW_KUBE_CONTEXT").is_some() => connected.namespace.clone(),
        None => variable("FLUX_SYSTEM_NAMESPACE").unwrap_or_else(|| FLUX_NAMESPACE.to_owned()),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A condition of an object.
fn condition<'a>(object: &'a Value, condition_type: &str) -> Option<&'a Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == condition_type)
}

/// The revision that an object has: of its newest release, else that of its artifact.
fn revision(object: &Value) -> &str {
    let status = &object["status"];
    [&status["history"][0]["chartVersion"], &status["lastAttemptedRevision"], &status["artifact"]["revision"]]
        .into_iter()
        .map(text)
        .find(|revision| !revision.is_empty())
        .unwrap_or_default()
}

/// A text with each digest and commit cut to 8 digits, as `flux` prints them.
fn shortened_hex(text: &str) -> String {
    const LONG: std::ops::RangeInclusive<usize> = 40..=128;
    const SHORT: usize = 8;
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '_')) {
        let end = word.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(word.len());
        let (digits, rest) = word.split_at(end);
        let is_hex =
            LONG.contains(&digits.len()) && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        out.push_str(if is_hex { &digits[..SHORT] } else { digits });
        out.push_str(rest);
    }
    out
}

/// An object that must exist.
async fn read(cluster: &Cluster, object: &ObjectRef) -> Result<Value, Failure> {
    let found = cluster.get(object).await.map_err(|e| e.to_string())?;
    found.ok_or_else(|| {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        format!("{} object '{}' not found in {namespace:?} namespace", object.gvk.kind, object.name)
    })
}

/// Prints a step to standard error, with flux's mark.
fn step(mark: &str, line: &str) {
    tell(&format!("{mark} {line}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_cut() {
        let long = "0123456789abcdef".repeat(4);
        for (text, expected) in [
            (format!("6.0@sha256:{long}"), "6.0@sha256:01234567".to_owned()),
            (format!("a '{long}', b"), "a '01234567', b".to_owned()),
            (format!("x{long}"), format!("x{long}")),
            ("abcdef".to_owned(), "abcdef".to_owned()),
            (String::new(), String::new()),
        ] {
            assert_eq!(shortened_hex(&text), expected);
        }
    }
}
