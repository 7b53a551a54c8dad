//! A namespace with a controller that rolls out workloads: for newer images, or for changed configuration.

use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use windlass_cluster::{Cluster, ClusterError, ConnectOptions};
use windlass_controller::serve::State;
use windlass_controller::{ContextOptions, ControllerContext};
use windlass_testing::{ControlPlane, Namespace, shared, wait_until};

use super::LIMIT;

/// A running controller.
type ControllerTask = tokio::task::JoinHandle<Result<(), ClusterError>>;

/// The options of such a controller.
pub(crate) trait FollowerOptions: Clone + Send + 'static {
    /// Runs it until `stop` resolves.
    fn run(
        self,
        context: ControllerContext,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = Result<(), ClusterError>> + Send + 'static;
}

/// A namespace, with its controller while that runs.
pub(crate) struct Followed<O> {
    pub(crate) cp: &'static ControlPlane,
    pub(crate) ns: Namespace<'static>,
    pub(crate) client: Cluster,
    pub(crate) options: O,
    /// What it shares with other controllers of the process; `None`: it runs alone.
    pub(crate) context: Option<ControllerContext>,
    process: Option<(watch::Sender<bool>, ControllerTask)>,
}

impl<O: FollowerOptions> Followed<O> {
    /// A namespace; `options`: those of the controller for a namespace.
    pub(crate) async fn new(prefix: &'static str, options: impl FnOnce(&str) -> O) -> Self {
        let cp = tokio::task::spawn_blocking(|| shared().unwrap()).await.unwrap();
        let ns = cp.namespace(prefix).unwrap();
        let kubeconfig = Some(cp.kubeconfig().to_owned());
        let client =
            Cluster::connect(&ConnectOptions { kubeconfig, ..ConnectOptions::default() }).await.unwrap();
        let options = options(ns.name());
        Self { cp, ns, client, options, context: None, process: None }
    }

    pub(crate) fn start(&mut self) {
        let state = Arc::new(State::new("test_"));
        let alone = || ControllerContext::new(self.client.clone(), &ContextOptions::default(), state);
        let context = self.context.clone().unwrap_or_else(alone);
        let stop = watch::Sender::new(false);
        let mut stopped = stop.subscribe();
        let stopping = async move { drop(stopped.wait_for(|stop| *stop).await) };
        self.process = Some((stop, tokio::spawn(self.options.clone().run(context, stopping))));
    }

    pub(crate) async fn stop(&mut self) {
        if let Some((stop, task)) = self.process.take() {
            stop.send_replace(true);
            task.await.unwrap().unwrap();
        }
    }

    pub(crate) fn apply(&self, object: &Value) {
        let apply = ["apply", "--server-side", "--force-conflicts", "-n", self.ns.name(), "-f", "-"];
        self.cp.kubectl_with(apply, &object.to_string()).unwrap();
    }

    /// Waits until a Deployment is there.
    pub(crate) fn wait_for_deployment(&self, name: &str) {
        let get = ["get", "deployment", name, "-n", self.ns.name(), "--ignore-not-found", "-o", "name"];
        let found = || Ok((!self.cp.kubectl(get).unwrap().is_empty()).then_some(()));
        wait_until(&format!("deployment {name} is there"), LIMIT, found).unwrap();
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        let get = ["get", kind, name, "-n", self.ns.name(), "-o", "json", "--show-managed-fields"];
        serde_json::from_str(&self.cp.kubectl(get).unwrap()).unwrap()
    }

    /// Waits until an object is as a test wants it, and returns it.
    pub(crate) fn until(&self, kind: &str, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let found = || {
            let found = self.get(kind, name);
            Ok(is(&found).then_some(found))
        };
        match wait_until(&format!("{kind} {name}: {what}"), LIMIT, found) {
            Ok(found) => found,
            Err(error) => panic!("{error}: {}\n{}", self.get(kind, name), self.events()),
        }
    }

    pub(crate) fn events(&self) -> String {
        let path = "jsonpath={range .items[*]}{.involvedObject.name} {.reason}: {.message}{'\\n'}{end}";
        self.cp.kubectl(["get", "events", "-n", self.ns.name(), "-o", path]).unwrap()
    }

    pub(crate) fn wait_event(&self, text: &str) {
        let found = || Ok(self.events().contains(text).then_some(()));
        if let Err(error) = wait_until(&format!("an Event says {text:?}"), LIMIT, found) {
            panic!("{error}: {}", self.events());
        }
    }

    /// A command of the binary in the test's namespace.
    pub(crate) fn run(&self, words: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words.split_whitespace())
            .args(["-n", self.ns.name()])
            .env("KUBECONFIG", self.cp.kubeconfig())
            .output()
            .unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}
