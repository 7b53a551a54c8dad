//! kubectl and both Helms, run against a control plane as a stranger to this machine: no environment, no Helm home.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{ControlPlane, Error, Result, Tool, wait_until};

impl ControlPlane {
    /// Runs kubectl as administrator; answers with what it printed.
    pub fn kubectl(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String> {
        run(self.command(Tool::Kubectl)?.args(arguments), "")
    }

    /// The same with text on standard input, for `-f -`.
    pub fn kubectl_with(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: &str,
    ) -> Result<String> {
        run(self.command(Tool::Kubectl)?.args(arguments), input)
    }

    /// Reads JSON from a path of the API such as `/api/v1/namespaces`.
    pub fn get(&self, path: &str) -> Result<Value> {
        let text = self.kubectl(["get", "--raw", path])?;
        json("answer of the API", text)
    }

    /// The object that `kubectl get` finds by these arguments; `None` if there is none.
    pub fn find(&self, arguments: &[&str]) -> Result<Option<Value>> {
        let text = self.kubectl(["get", "--ignore-not-found", "-o", "json"].iter().chain(arguments))?;
        if text.trim().is_empty() { Ok(None) } else { json("answer of kubectl", text).map(Some) }
    }

    /// The objects that `kubectl get` lists by these arguments.
    pub fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let mut list = self.find(arguments)?.unwrap_or_default();
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The revisions of Helm's releases with these labels, and their statuses, by the labels of their records.
    pub fn revisions(&self, namespace: &str, labels: &str) -> Result<Vec<(u64, String)>> {
        let records = self.list(&["secrets", "-n", namespace, "-l", labels])?;
        let text = |record: &Value, label: &str| {
            record["metadata"]["labels"][label].as_str().unwrap_or_default().to_owned()
        };
        let row = |record| (text(record, "version").parse().unwrap_or_default(), text(record, "status"));
        let mut rows: Vec<_> = records.iter().map(row).collect();
        rows.sort();
        Ok(rows)
    }

    /// Applies a CustomResourceDefinition, and waits until its kind is served.
    pub fn establish(&self, definition: &Value) -> Result<()> {
        self.kubectl_with(["apply", "--server-side", "-f", "-"], &definition.to_string())?;
        let name = format!("crd/{}", definition["metadata"]["name"].as_str().unwrap_or_default());
        // `kubectl wait` fails while there are no conditions.
        let path = "jsonpath={.status.conditions[?(@.type==\"Established\")].status}";
        wait_until(&format!("{name} is established"), Duration::from_secs(30), || {
            Ok((self.kubectl(["get", &name, "-o", path])? == "True").then_some(()))
        })
    }

    /// Runs Helm 4 as administrator; answers with what it printed.
    pub fn helm4(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String> {
        run(self.command(Tool::Helm4)?.args(arguments), "")
    }

    /// Runs Helm 3 as administrator; answers with what it printed.
    pub fn helm3(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String> {
        run(self.command(Tool::Helm3)?.args(arguments), "")
    }

    /// A tool set up for this cluster, for a test that wants more than its output.
    pub fn command(&self, tool: Tool) -> Result<Command> {
        let home =
            self.directory().join("home").join(if tool == Tool::Helm3 { "helm3" } else { tool.name() });
        fs::create_dir_all(&home).map_err(Error::io("create", &home))?;
        let mut command = Command::new(tool.path()?);
        command
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", &home)
            .env("TMPDIR", env::temp_dir())
            .env("HELM_CACHE_HOME", home.join("cache"))
            .env("HELM_CONFIG_HOME", home.join("config"))
            .env("HELM_DATA_HOME", home.join("data"))
            .env("KUBECONFIG", self.kubeconfig());
        Ok(command)
    }

    /// A kubeconfig of a user who is in `groups` and has no rights but those that RBAC gives them. The API server
    /// takes its word for it because the administrator vouches (impersonation), so it works on any cluster.
    pub fn kubeconfig_as(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        let text = self.kubectl(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"])?;
        let mut config = json("kubeconfig", text)?;
        config["users"][0]["user"]["as"] = json!(user);
        config["users"][0]["user"]["as-groups"] = json!(groups);
        let file = tempfile::Builder::new()
            .prefix("user-")
            .suffix(".kubeconfig")
            .tempfile_in(self.directory())
            .and_then(|mut file| {
                file.write_all(config.to_string().as_bytes())?;
                Ok(file.keep()?.1)
            });
        file.map_err(Error::io("write a kubeconfig to", self.directory()))
    }
}

fn json(what: &'static str, text: String) -> Result<Value> {
    serde_json::from_str(&text).map_err(|source| Error::Json { what, text, source })
}

fn run(command: &mut Command, input: &str) -> Result<String> {
    let program = Path::new(command.get_program());
    let failed = Error::io("run", program);
    let words: Vec<_> =
        program.file_name().into_iter().chain(command.get_args()).map(OsStr::to_string_lossy).collect();
    let words = words.join(" ");

    let Output { status, stdout, stderr } = feed(command, input).map_err(failed)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr).trim().to_owned();
    Err(Error::Command { command: words, status, stderr })
}

/// Writes and reads at once, lest both sides wait for each other.
fn feed(command: &mut Command, input: &str) -> std::io::Result<Output> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        // A program that does not read to the end is not at fault: its status tells.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
}
