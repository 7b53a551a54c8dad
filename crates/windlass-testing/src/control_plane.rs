//! Starts a control plane and says when it is ready: etcd, API server, controller manager, scheduler, and kwok with
//! one node. It owns their flags and their order; the processes themselves are the business of `processes`.

use std::fs::Permissions;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use std::{env, fs, io};

use rustix::process::{Signal, kill_process};

use crate::audit::AuditLog;
use crate::processes::Processes;
use crate::progress::say;
use crate::tools::kwok_stages;
use crate::{Error, Result, Tool, files, wait_until};

/// Far more than a busy machine takes; a start that needs longer has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test wants other than the usual.
#[derive(Debug, Clone)]
pub struct Options {
    /// Further arguments of kube-apiserver; they override ours.
    pub apiserver_args: Vec<String>,
    /// Run the controller manager and the scheduler. Without them a Deployment makes no Pods, a deleted owner leaves
    /// its objects behind, and a namespace has no service account.
    pub controllers: bool,
    /// Run kwok and make one node.
    pub nodes: bool,
    /// Stage files of the test's own, beside those that make nodes and Pods ready.
    pub kwok_stages: Vec<PathBuf>,
    /// Further arguments of kwok.
    pub kwok_args: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            apiserver_args: Vec::new(),
            controllers: true,
            nodes: true,
            kwok_stages: Vec::new(),
            kwok_args: Vec::new(),
        }
    }
}

/// A cluster to test on. Dropping it takes it away, unless it is the user's.
#[derive(Debug)]
pub struct ControlPlane {
    kubeconfig: PathBuf,
    /// Whether a controller manager runs, so that namespaces get their service account.
    pub(crate) controllers: bool,
    /// None: the cluster is the user's.
    pub(crate) audit: Option<AuditLog>,
    pub(crate) processes: Processes,
}

/// The cluster that all tests of this process share, started by the first that asks; it goes when the process ends.
///
/// `WINDLASS_TEST_KUBECONFIG` names a cluster to be used instead. Plain `KUBECONFIG` does not: it is set on many machines,
/// and tests must not run on a production cluster by accident.
pub fn shared() -> Result<&'static ControlPlane, &'static Error> {
    static SHARED: OnceLock<Result<ControlPlane>> = OnceLock::new();
    SHARED.get_or_init(ControlPlane::of_environment).as_ref()
}

/// The same, for a test that cannot do without.
///
/// # Panics
/// There is none.
#[allow(clippy::panic, reason = "helpers of tests fail like the tests")]
pub fn control_plane() -> &'static ControlPlane {
    shared().unwrap_or_else(|error| panic!("a control plane: {error}"))
}

impl ControlPlane {
    /// The cluster that `WINDLASS_TEST_KUBECONFIG` names, or else a new one.
    pub fn of_environment() -> Result<Self> {
        match env::var_os("WINDLASS_TEST_KUBECONFIG").filter(|value| !value.is_empty()) {
            Some(kubeconfig) => {
                say(format_args!("using the cluster of {}", kubeconfig.display()));
                Self::existing(kubeconfig.into())
            }
            None => Self::start(),
        }
    }

    /// Starts a control plane with controllers and one node, and waits until Pods can be made.
    pub fn start() -> Result<Self> {
        Self::start_with(&Options::default())
    }

    /// Starts a control plane as `options` ask.
    pub fn start_with(options: &Options) -> Result<Self> {
        const ATTEMPTS: u32 = 3;
        let mut attempt = 1;
        loop {
            match Self::attempt(options) {
                // A free port that we found may be taken before the component has it.
                Err(Error::Component { tail, component, .. })
                    if attempt < ATTEMPTS && tail.contains("address already in use") =>
                {
                    say(format_args!("another process took the port of {component}: starting again"));
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Uses a cluster that runs already. It is left as it is; only its audit log is out of reach.
    pub fn existing(kubeconfig: PathBuf) -> Result<Self> {
        Ok(Self { kubeconfig, controllers: true, audit: None, processes: Processes::new()? })
    }

    /// The kubeconfig of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory for what the cluster's users need to write; it goes with the cluster.
    pub fn directory(&self) -> &Path {
        self.processes.directory()
    }

    /// The log of a component, by the name of its program.
    pub fn log(&self, component: Tool) -> PathBuf {
        self.processes.log(component.name())
    }

    /// Kills a component outright and starts it again; it is not awaited.
    pub fn restart(&mut self, component: Tool) -> Result<()> {
        self.processes.restart(component.name())
    }

    /// Makes a component stand still for a while; answers at once.
    pub fn pause(&self, component: Tool, time: Duration) -> Result<()> {
        let pid = self.processes.pid(component.name())?;
        kill_process(pid, Signal::STOP).map_err(|errno| Error::Io {
            what: format!("stop {}", component.name()),
            source: errno.into(),
        })?;
        std::thread::spawn(move || {
            std::thread::sleep(time);
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::CONT).ok();
        });
        Ok(())
    }

    /// Waits until the API server answers.
    pub fn wait_ready(&self) -> Result<()> {
        wait_until("the API server is ready", PATIENCE, || self.succeeds(&["get", "--raw", "/readyz"]))
    }

    /// A directory for PATH that holds `helm` (version 4), `helm3` and `kubectl`. A Helm that is not built yet is a script that has
    /// the program `builder`, called with `tools` and the tool's name, build it first.
    pub fn bin_directory(&self, builder: &Path) -> Result<PathBuf> {
        let directory = self.directory().join("bin");
        fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
        Tool::Kubectl.path()?;
        for (name, tool) in [("helm", Tool::Helm4), ("helm3", Tool::Helm3), ("kubectl", Tool::Kubectl)] {
            let file = directory.join(name);
            let made = match tool.built()? {
                Some(binary) => symlink(binary, &file),
                None => fs::write(&file, files::builds_first(builder, tool))
                    .and_then(|()| fs::set_permissions(&file, Permissions::from_mode(0o755))),
            };
            match made {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::io("create", &file)(error));
                }
                _ => {}
            }
        }
        Ok(directory)
    }

    fn attempt(options: &Options) -> Result<Self> {
        let processes = Processes::new()?;
        let kubeconfig = processes.directory().join("kubeconfig");
        let audit = Some(AuditLog::new(processes.directory().join("audit.log")));
        let mut plane = Self { kubeconfig, controllers: options.controllers, audit, processes };

        let port = plane.start_apiserver(options)?;
        let certificate_path = plane.directory().join("certificates/apiserver.crt");
        let certificate = fs::read(&certificate_path).map_err(Error::io("read", &certificate_path))?;
        let write_kubeconfig = |name: &str, user: &str| {
            let path = plane.directory().join(name);
            fs::write(&path, files::kubeconfig(port, &certificate, user))
                .map_err(Error::io("write", &path))?;
            Ok::<_, Error>(format!("--kubeconfig={}", path.display()))
        };
        write_kubeconfig("kubeconfig", files::ADMIN)?;
        let manager = write_kubeconfig("controller-manager.kubeconfig", "system:kube-controller-manager")?;
        let scheduler = write_kubeconfig("scheduler.kubeconfig", "system:kube-scheduler")?;
        let kwok = write_kubeconfig("kwok.kubeconfig", "system:kwok")?;

        plane.wait_for("kube-apiserver", |plane| plane.succeeds(&["get", "--raw", "/readyz"]))?;
        if options.controllers {
            plane.start_controllers(manager, scheduler)?;
        }
        if options.nodes {
            plane.start_kwok(options, kwok)?;
            plane.kubectl_with(["create", "--raw", "/api/v1/nodes", "-f", "-"], files::NODE)?;
        }
        if options.controllers {
            let account = ["get", "--raw", "/api/v1/namespaces/default/serviceaccounts/default"];
            plane.wait_for("kube-controller-manager", |plane| plane.succeeds(&account))?;
        }
        if options.nodes {
            plane.wait_for("kwok", |plane| {
                plane.succeeds(&["wait", "node/fake", "--for=condition=Ready", "--timeout=1s"])
            })?;
        }
        Ok(plane)
    }

    /// Starts etcd and the API server; answers with the port of the latter once it is open.
    fn start_apiserver(&mut self, options: &Options) -> Result<u16> {
        let [client, peer, port] = free_ports()?;
        let at = |name: &str| self.directory().join(name).display().to_string();
        let etcd = vec![
            "--name=windlass".to_owned(),
            format!("--data-dir={}", at("etcd")),
            // Nobody reads it after a crash.
            "--unsafe-no-fsync".to_owned(),
            format!("--listen-client-urls=http://127.0.0.1:{client}"),
            format!("--advertise-client-urls=http://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=windlass=http://127.0.0.1:{peer}"),
        ];

        let (tokens, policy) = (at("tokens.csv"), at("audit-policy.yaml"));
        for (path, text) in [(&tokens, files::tokens()), (&policy, files::audit_policy())] {
            fs::write(path, text).map_err(Error::io("write", Path::new(path)))?;
        }
        let mut apiserver = vec![
            format!("--etcd-servers=http://127.0.0.1:{client}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--advertise-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            // The server makes its own certificate there; the key signs the tokens of service accounts as well.
            format!("--cert-dir={}", at("certificates")),
            format!("--service-account-signing-key-file={}", at("certificates/apiserver.key")),
            format!("--service-account-key-file={}", at("certificates/apiserver.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
            // It would write a loopback address into Endpoints, which is not valid.
            "--endpoint-reconciler-type=none".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={tokens}"),
            "--allow-privileged=true".to_owned(),
            format!("--audit-policy-file={policy}"),
            format!("--audit-log-path={}", at("audit.log")),
            // In megabytes. A rotation would end the order in which the log is read.
            "--audit-log-maxsize=100000".to_owned(),
        ];
        apiserver.extend_from_slice(&options.apiserver_args);

        // Side by side: the API server tries etcd until it answers.
        self.processes.spawn("etcd", &Tool::Etcd.path()?, &etcd)?;
        self.processes.spawn("kube-apiserver", &Tool::KubeApiserver.path()?, &apiserver)?;
        self.wait_for("kube-apiserver", |_| {
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(()))
        })?;
        Ok(port)
    }

    fn start_controllers(&mut self, manager: String, scheduler: String) -> Result<()> {
        let at = |name: &str| self.directory().join(name).display().to_string();
        // One of each, no port, and never a reason to slow a test down.
        let common =
            ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"];
        let common = common.map(str::to_owned);
        let mut arguments = vec![
            manager,
            format!("--service-account-private-key-file={}", at("certificates/apiserver.key")),
            format!("--root-ca-file={}", at("certificates/apiserver.crt")),
            // kwok's node sends no heartbeats; one that is taken for lost makes its pods unready, for good.
            "--node-monitor-grace-period=24h".to_owned(),
        ];
        arguments.extend_from_slice(&common);
        self.processes.spawn("kube-controller-manager", &Tool::KubeControllerManager.path()?, &arguments)?;

        let mut arguments = vec![scheduler];
        arguments.extend_from_slice(&common);
        self.processes.spawn("kube-scheduler", &Tool::KubeScheduler.path()?, &arguments)
    }

    fn start_kwok(&mut self, options: &Options, kubeconfig: String) -> Result<()> {
        let mut arguments =
            vec![kubeconfig, "--manage-all-nodes=true".to_owned(), "--cidr=10.244.0.1/16".to_owned()];
        for stage in kwok_stages()?.iter().chain(&options.kwok_stages) {
            arguments.push(format!("--config={}", stage.display()));
        }
        arguments.extend_from_slice(&options.kwok_args);
        self.processes.spawn("kwok", &Tool::Kwok.path()?, &arguments)
    }

    /// Polls until `ready`, a component has ended, or it took too long: then `component` is the one to look at.
    fn wait_for(
        &mut self,
        component: &'static str,
        ready: impl Fn(&Self) -> Result<Option<()>>,
    ) -> Result<()> {
        let result = wait_until(component, PATIENCE, || {
            self.processes.check()?;
            ready(self)
        });
        match result {
            Err(Error::Timeout { seconds, .. }) => Err(Error::component(
                component,
                format!("is not ready after {seconds} s"),
                &self.processes.log(component),
            )),
            result => result,
        }
    }

    /// A kubectl command as a condition: refused is "not yet".
    fn succeeds(&self, arguments: &[&str]) -> Result<Option<()>> {
        match self.kubectl(arguments) {
            Ok(_) => Ok(Some(())),
            Err(Error::Command { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Ports that nobody listens on, all held until the last is found so that they differ.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let find = || {
        let listeners =
            (0..N).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect::<io::Result<Vec<_>>>()?;
        let mut ports = [0; N];
        for (port, listener) in ports.iter_mut().zip(&listeners) {
            *port = listener.local_addr()?.port();
        }
        Ok(ports)
    };
    find().map_err(|source| Error::Io { what: "find a free port on 127.0.0.1".to_owned(), source })
}
