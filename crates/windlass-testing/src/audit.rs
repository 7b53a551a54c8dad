//! What was asked of the API server: its audit log, read from a mark onwards.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::{ControlPlane, Error, Result, wait_until};

/// A request that the API server has answered. The components' own reads are not logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; for paths that are no
    /// resource, the HTTP method in lower case.
    pub verb: String,
    /// Who it was done as.
    pub user: String,
    pub user_agent: String,
    /// Path and query.
    pub uri: String,
    /// The next five are empty where they do not apply.
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub dry_run: bool,
    /// HTTP status.
    pub code: u16,
}

impl AuditEvent {
    /// Whether it changed something, or tried to: not a read and not a dry run.
    pub fn is_write(&self) -> bool {
        const WRITES: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
        WRITES.contains(&self.verb.as_str()) && !self.dry_run
    }
}

/// A moment in the audit log: all requests answered before it are older.
#[derive(Debug, Clone, Copy)]
pub struct AuditMark(u64);

impl AuditMark {
    /// The start of the cluster.
    pub const BEGINNING: AuditMark = AuditMark(0);
}

#[derive(Debug)]
pub(crate) struct AuditLog {
    path: PathBuf,
    barriers: AtomicU64,
    /// Where the last barrier seen ends: a new one cannot stand before it.
    seen: AtomicU64,
}

impl AuditLog {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, barriers: AtomicU64::new(0), seen: AtomicU64::new(0) }
    }
}

impl ControlPlane {
    /// The present moment.
    pub fn audit_mark(&self) -> Result<AuditMark> {
        let seen = self.audit.as_ref().ok_or(Error::NoAudit)?.seen.load(Ordering::Relaxed);
        let (_, end) = self.read(AuditMark(seen))?;
        Ok(end)
    }

    /// All requests answered since `mark`.
    pub fn audit_since(&self, mark: AuditMark) -> Result<Vec<AuditEvent>> {
        self.read(mark).map(|(events, _)| events)
    }

    /// The tests' own write requests since `mark`: not those of controller manager, scheduler, kwok and API server.
    pub fn writes_since(&self, mark: AuditMark) -> Result<Vec<AuditEvent>> {
        let mut events = self.audit_since(mark)?;
        events.retain(|event| event.is_write() && !is_component(&event.user));
        Ok(events)
    }

    /// The events from `mark` to now, and now.
    fn read(&self, mark: AuditMark) -> Result<(Vec<AuditEvent>, AuditMark)> {
        let log = self.audit.as_ref().ok_or(Error::NoAudit)?;
        // A request of our own shows how far the log has come: what was answered before it was sent stands before it.
        let number = log.barriers.fetch_add(1, Ordering::Relaxed);
        let barrier = format!("/livez/ping?windlass-audit-barrier={number}");
        self.kubectl(["get", "--raw", &barrier])?;
        wait_until("the audit log has the last request", Duration::from_secs(10), || {
            log.events(mark, &barrier)
        })
    }
}

fn is_component(user: &str) -> bool {
    user.starts_with("system:") && !user.starts_with("system:serviceaccount:")
}

impl AuditLog {
    /// The events from `mark` to the barrier; none if it is not in the log yet.
    fn events(&self, mark: AuditMark, barrier: &str) -> Result<Option<(Vec<AuditEvent>, AuditMark)>> {
        let failed = |source| Error::io("read", &self.path)(source);
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        file.seek(SeekFrom::Start(mark.0)).map_err(failed)?;
        let mut reader = BufReader::new(file);
        let (mut events, mut position) = (Vec::new(), mark.0);
        loop {
            let mut line = String::new();
            position += reader.read_line(&mut line).map_err(failed)? as u64;
            // Nothing more, or a line that is being written.
            if !line.ends_with('\n') {
                return Ok(None);
            }
            let event = parse(line)?;
            if event.uri == barrier {
                self.seen.fetch_max(position, Ordering::Relaxed);
                return Ok(Some((events, AuditMark(position))));
            }
            if !event.uri.contains("windlass-audit-barrier=") {
                events.push(event);
            }
        }
    }
}

fn parse(line: String) -> Result<AuditEvent> {
    let event: Logged = serde_json::from_str(&line).map_err(|source| Error::Json {
        what: "line of the audit log",
        text: line,
        source,
    })?;
    let object = event.object_ref;
    Ok(AuditEvent {
        verb: event.verb,
        user: event.impersonated_user.unwrap_or(event.user).username,
        user_agent: event.user_agent,
        dry_run: event.request_uri.contains("dryRun=") || !event.request_object.dry_run.is_empty(),
        uri: event.request_uri,
        group: object.api_group,
        resource: object.resource,
        subresource: object.subresource,
        namespace: object.namespace,
        name: object.name,
        code: event.response_status.code,
    })
}

/// `Event` of audit.k8s.io/v1, as much as we read of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Logged {
    verb: String,
    user: User,
    impersonated_user: Option<User>,
    #[serde(default)]
    user_agent: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    object_ref: ObjectRef,
    #[serde(default)]
    request_object: DeleteOptions,
    #[serde(default)]
    response_status: Status,
}

/// The body of a deletion: no other is logged.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct DeleteOptions {
    dry_run: Vec<String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    api_group: String,
    resource: String,
    subresource: String,
    namespace: String,
    name: String,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    code: u16,
}

#[cfg(test)]
mod tests {
    use super::{AuditEvent, is_component, parse};

    fn event(verb: &str, uri: &str, body: &str) -> AuditEvent {
        let line = format!(
            r#"{{"verb":"{verb}","requestURI":"{uri}","user":{{"username":"admin"}},"impersonatedUser":
            {{"username":"jane"}},"requestObject":{body},"objectRef":{{"resource":"pods","apiVersion":"v1"}},"responseStatus":{{"code":200}}}}"#
        );
        parse(line).unwrap()
    }

    #[test]
    fn writes_are_told_from_reads_and_dry_runs() {
        assert!(event("patch", "/api/v1/namespaces/a/pods/b?fieldManager=helm", "{}").is_write());
        assert!(!event("patch", "/api/v1/namespaces/a/pods/b?dryRun=All&fieldManager=helm", "{}").is_write());
        assert!(!event("delete", "/api/v1/namespaces/a/pods/b", r#"{"dryRun":["All"]}"#).is_write());
        assert!(event("delete", "/api/v1/namespaces/a/pods/b", r#"{"dryRun":[]}"#).is_write());
        assert!(!event("list", "/api/v1/pods", "{}").is_write());
    }

    #[test]
    fn an_impersonated_user_is_the_user() {
        let event = event("create", "/api/v1/pods", "{}");
        assert_eq!((event.user.as_str(), event.resource.as_str(), event.code), ("jane", "pods", 200));
        assert!(!is_component("system:serviceaccount:a:b"));
        assert!(is_component("system:kube-scheduler"));
    }
}
