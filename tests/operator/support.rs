//! An operator process, directories of modules, and looks at the cluster.

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;
pub(crate) use windlass_testing::control_plane;
use windlass_testing::{AuditEvent, AuditMark, ControlPlane, Error, wait_until, write_file};

/// The kind that tells of modules.
pub(crate) const MODULES: &str = "modules.windlass.dev";

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Webhooks on loopback: the API server of a test is there, too.
pub(crate) const ON_LOOPBACK: [&str; 6] = [
    "--webhook-listen-address",
    "127.0.0.1",
    "--webhook-listen-port",
    "0",
    "--webhook-url",
    "https://127.0.0.1:0",
];

/// A scratch directory of modules.
pub(crate) struct Modules {
    pub(crate) root: TempDir,
}

impl Modules {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().expect("a scratch directory") }
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> &Self {
        write_file(self.root.path().join(path), text);
        self
    }

    /// A module with one ConfigMap, a Service and a Deployment that show its values.
    pub(crate) fn small(&self, directory: &str) -> &Self {
        let name = directory.split_once('-').unwrap().1;
        self.write(
            &format!("{directory}/Chart.yaml"),
            &format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n"),
        );
        self.write(&format!("{directory}/values.yaml"), &format!("{name}:\n  size: 1\n"));
        let objects = [
            format!("data:\n  size: {{{{ .Values.{name}.size | toString | quote }}}}"),
            "spec:\n  selector: {app: x}\n  ports: [{port: 80}]".to_owned(),
            "spec:\n  replicas: 1\n  selector: {matchLabels: {app: x}}\n  template:\n    metadata: {labels: {app: x}}\n    \
             spec: {containers: [{name: a, image: b}]}"
                .to_owned(),
        ];
        for (kind, body) in ["v1/ConfigMap", "v1/Service", "apps/v1/Deployment"].iter().zip(objects) {
            let (api_version, kind) = kind.rsplit_once('/').unwrap();
            let text =
                format!("apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n{body}\n");
            self.write(&format!("{directory}/templates/{}.yaml", kind.to_lowercase()), &text);
        }
        self
    }

    /// A hook in bash: `config` is what it says on `--config`, `body` what it does. `note WORDS` tells of a run, and
    /// `context PATTERN` whether its contexts hold something.
    pub(crate) fn hook(&self, path: &str, config: &str, body: &str) -> &Self {
        let text = format!(
            "#!/bin/bash\nset -euo pipefail\nif [[ \"${{1:-}}\" == --config ]]; then cat <<'END'\n{config}\nEND\nexit; fi\n\
             note() {{ echo \"$(basename \"$0\") $*\" >> \"$(dirname \"$TMPDIR\")/notes\"; }}\n\
             context() {{ grep -qF -- \"$1\" \"$BINDING_CONTEXT_PATH\"; }}\n{body}\n"
        );
        self.write(path, &text);
        fs::set_permissions(self.root.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// Turns modules on, by their keys.
    pub(crate) fn enable(&self, keys: &[&str]) -> &Self {
        let text: String = keys.iter().map(|k| format!("{k}Enabled: true\n")).collect();
        self.write("values.yaml", &text)
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }
}

/// A running operator; it is killed when this goes.
pub(crate) struct Operator {
    child: Child,
    scratch: TempDir,
}

impl Operator {
    pub(crate) fn start(control_plane: &ControlPlane, namespace: &str, modules: &Path) -> Self {
        Self::start_with(control_plane, namespace, modules, &[])
    }

    /// As [`Operator::start`], with more arguments.
    pub(crate) fn start_with(
        control_plane: &ControlPlane,
        namespace: &str,
        modules: &Path,
        arguments: &[&str],
    ) -> Self {
        let search = std::env::var("PATH").unwrap_or_default();
        Self::spawn(&control_plane.kubeconfig().to_string_lossy(), namespace, modules, arguments, &search)
    }

    /// Starts it with a kubeconfig and a PATH of one's own.
    pub(crate) fn spawn(
        kubeconfig: &str,
        namespace: &str,
        modules: &Path,
        arguments: &[&str],
        search: &str,
    ) -> Self {
        Self::spawn_in(kubeconfig, namespace, modules, arguments, &[("PATH", search)])
    }

    /// Starts it with variables of the environment.
    pub(crate) fn spawn_in(
        kubeconfig: &str,
        namespace: &str,
        modules: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        Self::spawn_by(
            Command::new(env!("CARGO_BIN_EXE_windlass")),
            kubeconfig,
            namespace,
            modules,
            arguments,
            variables,
        )
    }

    /// Starts it by a command that becomes the operator, where it is not the program alone.
    pub(crate) fn spawn_by(
        mut command: Command,
        kubeconfig: &str,
        namespace: &str,
        modules: &Path,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let log = fs::File::create(scratch.path().join("log")).unwrap();
        let child = command
            .args(["operator", "--listen-address", "127.0.0.1", "--listen-port", "0", "--log-type", "json"])
            .args(["--namespace", namespace, "--modules-dir", modules.to_str().unwrap()])
            .arg("--address-file")
            .arg(scratch.path().join("address"))
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .envs(variables.iter().copied())
            .env("TMPDIR", scratch.path().join("tmp"))
            .env("DEBUG_UNIX_SOCKET", scratch.path().join("debug.socket"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the operator");
        Self { child, scratch }
    }

    /// As [`Operator::start`], and waits for the first converge; tells how long it took.
    pub(crate) fn converged(
        control_plane: &ControlPlane,
        namespace: &str,
        modules: &Path,
    ) -> (Self, Duration) {
        let started = Instant::now();
        let operator = Self::start(control_plane, namespace, modules);
        operator.wait_converged();
        (operator, started.elapsed())
    }

    /// The most memory that the process had at once, the pages of its program included, in KiB.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        self.memory_kib("VmHWM:")
    }

    /// The memory that the process has without the pages of files, in KiB.
    pub(crate) fn heap_kib(&self) -> u64 {
        self.memory_kib("RssAnon:")
    }

    fn memory_kib(&self, key: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub(crate) fn wait_converged(&self) {
        let ready = || Ok(self.get("/readyz").filter(|(status, _)| *status == 200).map(|_| ()));
        if let Err(e) = wait_until("the operator converges", LIMIT, ready) {
            panic!("{e}\n{}", self.log_end());
        }
    }

    /// Where the operator serves probes and metrics.
    pub(crate) fn address(&self) -> String {
        fs::read_to_string(self.scratch.path().join("address")).unwrap()
    }

    /// Status and body of a request to the operator's server; `None` while it does not listen.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        use std::io::{Read, Write};
        let address = fs::read_to_string(self.scratch.path().join("address")).ok()?;
        let mut stream = std::net::TcpStream::connect(address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        Some((status, text.split_once("\r\n\r\n")?.1.to_owned()))
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// The end of the log, for messages.
    pub(crate) fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }

    /// Waits until a line of the log has all of these parts.
    pub(crate) fn wait_log(&self, parts: &[&str]) {
        let found = || {
            let log = self.log();
            Ok(log.lines().any(|line| parts.iter().all(|p| line.contains(p))).then_some(()))
        };
        if let Err(e) = wait_until(&format!("a log line with {parts:?}"), LIMIT, found) {
            panic!("{e}\n{}", self.log_end());
        }
    }

    /// Makes a file that hooks see in `$(dirname "$TMPDIR")`.
    pub(crate) fn put(&self, name: &str) {
        fs::write(self.scratch.path().join(name), "").unwrap();
    }

    /// Takes such a file away.
    pub(crate) fn take(&self, name: &str) {
        fs::remove_file(self.scratch.path().join(name)).unwrap();
    }

    /// What hooks have noted, a line each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.scratch.path().join("notes")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Waits until a note is there.
    pub(crate) fn wait_note(&self, note: &str) -> Duration {
        let started = Instant::now();
        let found = || Ok(self.notes().iter().any(|n| n == note).then_some(()));
        if let Err(e) = wait_until(&format!("the note {note:?}"), LIMIT, found) {
            panic!("{e}\n{:?}\n{}", self.notes(), self.log_end());
        }
        started.elapsed()
    }

    /// Waits until it ends by itself, with an error.
    pub(crate) fn wait_failed(&mut self) {
        let ended = || Ok::<_, Error>(self.child.try_wait().unwrap());
        let status = wait_until("the operator ends", LIMIT, ended).unwrap_or_else(|e| panic!("{e}"));
        assert!(!status.success(), "{status}");
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end with SIGTERM; its exit status must be 0.
    pub(crate) fn stop(mut self) -> PathBuf {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}\n{}", self.log());
        self.scratch.path().to_owned()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.log_end());
        }
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// An object as JSON, or `None`.
pub(crate) fn object(control_plane: &ControlPlane, namespace: &str, kind: &str, name: &str) -> Option<Value> {
    control_plane.find(&[kind, name, "-n", namespace]).expect("kubectl")
}

/// A kubeconfig of the ServiceAccount `windlass` of a namespace, written beside the modules.
pub(crate) fn as_service_account(namespace: &str, modules: &Modules) -> PathBuf {
    let cp = control_plane();
    let token = cp.kubectl(["create", "token", "windlass", "-n", namespace]).unwrap();
    let admin = cp.kubectl(["config", "view", "--raw", "--minify", "--flatten", "-o", "json"]).unwrap();
    let mut config: Value = serde_json::from_str(&admin).unwrap();
    config["users"][0]["user"] = serde_json::json!({"token": token.trim()});
    let kubeconfig = modules.path().join("kubeconfig.txt");
    fs::write(&kubeconfig, config.to_string()).unwrap();
    kubeconfig
}

/// Whether a write is about the operator itself: a Lease, or what it says of its modules.
pub(crate) fn is_bookkeeping(event: &&AuditEvent) -> bool {
    event.resource == "leases" || event.group == "windlass.dev"
}

/// What our operators wrote in a namespace since then, but for what is about themselves.
pub(crate) fn writes_since(cp: &ControlPlane, namespace: &str, mark: AuditMark) -> Vec<AuditEvent> {
    let events = cp.audit_since(mark).unwrap().into_iter();
    let ours = events.filter(|e| e.user_agent.starts_with("windlass/") && e.namespace == namespace);
    ours.filter(|e| e.is_write() && !is_bookkeeping(&e)).collect()
}

/// Waits until a probe of an object holds.
pub(crate) fn wait_for(what: &str, mut probe: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    wait_until(what, LIMIT, || Ok::<_, Error>(probe().then_some(()))).unwrap_or_else(|e| panic!("{e}"));
    started.elapsed()
}

/// The status of a module as `kubectl` shows it.
pub(crate) fn status(namespace: &str, name: &str) -> Value {
    // The kind comes with the first operator.
    let found = control_plane().find(&[MODULES, name, "-n", namespace]).unwrap_or_default();
    found.map(|mut object| object["status"].take()).unwrap_or_default()
}

/// Revisions of a release with their states, as real Helm tells them.
pub(crate) fn history(control_plane: &ControlPlane, namespace: &str, name: &str) -> Vec<(u64, String)> {
    let text = control_plane.helm4(["history", name, "-n", namespace, "-o", "json"]).expect("helm history");
    let rows: Vec<Value> = serde_json::from_str(&text).unwrap();
    rows.iter().map(|r| (r["revision"].as_u64().unwrap(), r["status"].as_str().unwrap().to_owned())).collect()
}
