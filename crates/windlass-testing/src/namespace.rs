//! A namespace of one test's own, which keeps tests on a shared cluster apart.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::progress::say;
use crate::{ControlPlane, Error, Result, wait_until};

/// A namespace that no other test uses. On a cluster of the user's it is deleted when dropped; one of ours takes its
/// namespaces along.
#[derive(Debug)]
pub struct Namespace<'a> {
    name: String,
    cluster: &'a ControlPlane,
}

impl ControlPlane {
    /// Makes a namespace whose name begins with `prefix`, ready for Pods (it has its service account) where
    /// controllers run.
    pub fn namespace(&self, prefix: &str) -> Result<Namespace<'_>> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{count}", process::id());
        let object = format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#);
        self.kubectl_with(["create", "--raw", "/api/v1/namespaces", "-f", "-"], &object)?;
        let namespace = Namespace { name, cluster: self };
        if self.controllers {
            let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", namespace.name);
            let what = format!("service account in namespace {}", namespace.name);
            wait_until(&what, Duration::from_secs(30), || match self.kubectl(["get", "--raw", &account]) {
                Ok(_) => Ok(Some(())),
                Err(Error::Command { .. }) => Ok(None),
                Err(error) => Err(error),
            })?;
        }
        Ok(namespace)
    }
}

impl Namespace<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        if self.cluster.audit.is_none()
            && let Err(error) = self.cluster.kubectl(["delete", "namespace", &self.name, "--wait=false"])
        {
            say(format_args!("namespace {} is left behind: {error}", self.name));
        }
    }
}
