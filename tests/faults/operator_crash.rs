//! An operator of HelmReleases, of HelmCharts, of a chart's kind or of a ChartResource and its kind that is killed at any request, before
//! or after the server carried it out; then the next one.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use windlass_testing::{ControlPlane, control_plane, wait_until};

use crate::{
    Chance,
    life::look,
    number,
    proxy::{Fault, Operator, Proxy},
};

const LIMIT: Duration = Duration::from_secs(60);
/// Requests of a start, before the first object is reconciled, at least.
const START: usize = 8;

/// A ConfigMap that shows its size; with the size `bad` the API server rejects it.
const TEMPLATE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: life-size}\ndata:\n{{- if eq .Values.size \"bad\" }}\n  version: {a: 1}\n\
                        {{- else }}\n  version: \"{{ .Values.size }}\"\n{{- end }}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: \
                        life-web}\nspec: {ports: [{port: 80}]}\n";

/// The values of a step, Ready after it, and the records.
type Step = (&'static str, &'static str, &'static [&'static str]);

/// Install, upgrade, an upgrade that fails and is rolled back, deletion.
const OF_HELM_RELEASE: &[Step] = &[
    ("1", "True InstallSucceeded", &["1:deployed"]),
    ("2", "True UpgradeSucceeded", &["1:superseded", "2:deployed"]),
    ("bad", "False RollbackSucceeded", &["1:superseded", "2:superseded", "3:failed", "4:deployed"]),
    ("", "", &[]),
];
/// Install, upgrade, deletion. What follows from an upgrade that fails depends on how often it was tried.
const OF_HELM_CHART: &[Step] =
    &[("1", "", &["1:deployed"]), ("2", "", &["1:superseded", "2:deployed"]), ("", "", &[])];
/// The same.
const OF_CHART_OBJECT: &[Step] =
    &[("1", "True", &["1:deployed"]), ("2", "True", &["1:superseded", "2:deployed"]), ("", "", &[])];

/// The same of a kind that is registered before, and dropped with its object.
const OF_CHART_RESOURCE: &[Step] = &[
    (REGISTER, "True", &[]),
    ("1", "True", &["1:deployed"]),
    ("2", "True", &["1:superseded", "2:deployed"]),
    ("", "", &[]),
];
/// In place of values: the kind is registered.
const REGISTER: &str = "register";
/// The definition of the kind that a ChartResource registers.
const REGISTERED: &str = "lives.registered.example.com";

/// Whose objects go through their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrontEnd {
    HelmReleases,
    HelmCharts,
    Charts,
    ChartResources,
}

impl FrontEnd {
    fn steps(self) -> &'static [Step] {
        match self {
            Self::HelmReleases => OF_HELM_RELEASE,
            Self::HelmCharts => OF_HELM_CHART,
            Self::Charts => OF_CHART_OBJECT,
            Self::ChartResources => OF_CHART_RESOURCE,
        }
    }

    /// The resource of the object that a step is about.
    fn resource(self, step: usize) -> &'static str {
        match self {
            // It goes after its objects.
            Self::ChartResources if ["", REGISTER].contains(&self.steps()[step].0) => {
                "chartresources.windlass.dev"
            }
            Self::ChartResources => REGISTERED,
            Self::HelmReleases => "helmreleases.helm.toolkit.fluxcd.io",
            Self::HelmCharts => "helmcharts.helm.cattle.io",
            Self::Charts => "lives.crash.example.com",
        }
    }
}

fn package() -> Vec<u8> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (path, text) in [
        ("Chart.yaml", "apiVersion: v2\nname: life\nversion: 1.0.0\n"),
        ("values.yaml", "size: one\n"),
        ("templates/all.yaml", TEMPLATE),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("life/{path}"), text.as_bytes()).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

/// Answers every request with the same bytes.
fn serve(content: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read_exact(&mut byte).is_ok() {
                head.extend(byte);
            }
            let answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", content.len());
            // Whoever asked may have been killed.
            drop(stream.write_all(answer.as_bytes()).and_then(|()| stream.write_all(&content)));
        }
    });
    address
}

/// Where releases go through their lives.
struct Scene {
    front_end: FrontEnd,
    plane: &'static ControlPlane,
    proxy: Proxy,
    /// The chart, as the object of a HelmChart has it.
    content: String,
    /// `watches.yaml` and its chart.
    watches: tempfile::TempDir,
    source: Value,
    status: Value,
}

impl Scene {
    fn new(front_end: FrontEnd) -> Self {
        let plane = control_plane();
        let crds = match front_end {
            FrontEnd::HelmReleases => flux_api::crds::all(),
            FrontEnd::HelmCharts => windlass_helmcharts::crds::all(),
            FrontEnd::Charts => vec![kind_of_chart()],
            FrontEnd::ChartResources => vec![windlass_chartresource::chart_resource_definition::crd()],
        };
        for crd in crds {
            plane.establish(&crd).unwrap();
        }
        let content = package();
        let watches = tempfile::tempdir().unwrap();
        let chart = watches.path().join("life.tgz");
        std::fs::write(&chart, &content).unwrap();
        let file = json!([{"group": "crash.example.com", "version": "v1", "kind": "Life", "chart": chart}]);
        std::fs::write(watches.path().join("watches.yaml"), file.to_string()).unwrap();
        let encoded = STANDARD.encode(&content);
        let digest: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        let address = serve(content);
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": {"name": "life"},
            "spec": {"url": "oci://registry/life", "interval": "1h"},
        });
        let status = json!({"status": {"observedGeneration": 1, "artifact": {
            "url": format!("http://{address}/life.tgz"), "digest": format!("sha256:{digest}"), "revision": "1.0.0", "path": "life.tgz",
            "lastUpdateTime": "2026-01-01T00:00:00Z",
        }}});
        let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
        Self { front_end, plane, proxy, content: encoded, watches, source, status }
    }

    fn start(
        &self,
        ns: &str,
        script: impl Fn(usize, &str, &str) -> Option<Fault> + Send + Sync + 'static,
    ) -> Operator<'_> {
        let file = format!("--watches-file={}", self.watches.path().join("watches.yaml").display());
        let directory = format!("--charts-dir={}", self.watches.path().display());
        let own: &[&str] = match self.front_end {
            // Without the namespace of helm-controller there is nobody to elect.
            FrontEnd::HelmReleases => &[
                "--controllers=helmreleases",
                "--allow-local-sources",
                "--sources=flux",
                "--notifications=flux",
                "--helm-controller-namespace=none-such",
            ],
            FrontEnd::HelmCharts => &["--controllers=helmcharts"],
            FrontEnd::Charts => &["--controllers=charts", &file],
            FrontEnd::ChartResources => &["--controllers=charts", &directory],
        };
        let shared = [
            "operator",
            "--watch-all-namespaces=false",
            "--listen-address=127.0.0.1",
            "--listen-port=0",
            "--namespace",
            ns,
        ];
        self.proxy.start_operator(&[&shared[..], own].concat(), &[("RUNTIME_NAMESPACE", ns)], script)
    }

    /// Publishes the chart, where objects refer to it.
    fn publish(&self, ns: &str) {
        if self.front_end != FrontEnd::HelmReleases {
            return;
        }
        self.plane.kubectl_with(["apply", "-n", ns, "-f", "-"], &self.source.to_string()).unwrap();
        let status = self.status.to_string();
        let args = [
            "patch",
            "ocirepository",
            "life",
            "-n",
            ns,
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ];
        self.plane.kubectl(args).unwrap();
    }

    /// Asks for a step.
    fn ask(&self, ns: &str, step: usize) {
        let (size, ..) = self.front_end.steps()[step];
        if size.is_empty() {
            let mut all = vec![self.front_end.resource(step)];
            if self.front_end == FrontEnd::ChartResources {
                all.insert(0, REGISTERED);
            }
            for resource in all {
                self.plane.kubectl(["delete", resource, "life", "-n", ns, "--wait=false"]).unwrap();
            }
            return;
        }
        let (api_version, kind, spec) = match self.front_end {
            FrontEnd::HelmReleases => (
                "helm.toolkit.fluxcd.io/v2",
                "HelmRelease",
                json!({
                    "chartRef": {"kind": "OCIRepository", "name": "life"}, "interval": "1h", "timeout": "20s", "values": {"size": size},
                    "upgrade": {"remediation": {"retries": 0, "remediateLastFailure": true}},
                }),
            ),
            FrontEnd::HelmCharts => (
                "helm.cattle.io/v1",
                "HelmChart",
                json!({"chartContent": self.content, "set": {"size": size}}),
            ),
            FrontEnd::Charts => ("crash.example.com/v1", "Life", json!({"size": size})),
            FrontEnd::ChartResources if size == REGISTER => (
                "windlass.dev/v1alpha1",
                "ChartResource",
                json!({
                    "chart": {"name": "life.tgz"},
                    "kind": {"group": "registered.example.com", "version": "v1", "kind": "Life", "plural": "lives"},
                }),
            ),
            FrontEnd::ChartResources => ("registered.example.com/v1", "Life", json!({"size": size})),
        };
        let object =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "life"}, "spec": spec});
        // The annotation of a client-side apply would hold the whole chart.
        let apply = ["apply", "--server-side", "-n", ns, "-f", "-"];
        self.plane.kubectl_with(apply, &object.to_string()).unwrap();
    }

    /// Whether a step has come to its end, as the status tells.
    fn is_done(&self, ns: &str, step: usize) -> bool {
        let object =
            self.plane.find(&[self.front_end.resource(step), "life", "-n", ns]).unwrap().unwrap_or_default();
        let (size, ready, records) = self.front_end.steps()[step];
        if size.is_empty() {
            return object.is_null();
        }
        if ready.is_empty() {
            return look(self.plane, ns).history == records;
        }
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|condition| condition["type"] == "Ready");
        let found =
            found.map(|c| format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap()));
        object["status"]["observedGeneration"] == object["metadata"]["generation"]
            && found.is_some_and(|found| found == ready || found.split(' ').next() == Some(ready))
    }

    /// What is wrong after a step. `locked`: an operator was killed when only its lock was left to let go. That holds nobody up, and
    /// goes with the next operation.
    fn wrong(&self, ns: &str, step: usize, locked: bool) -> Option<String> {
        let (size, _, records) = self.front_end.steps()[step];
        // The lock goes in the background.
        let free = || Ok((locked || look(self.plane, ns).leases == 0).then_some(()));
        let settled = wait_until("no Lease", LIMIT, free);
        // So does what a server keeps until the last object of a kind is gone.
        let kind_is_gone = || Ok(self.plane.find(&["crd", REGISTERED])?.is_none().then_some(()));
        let life = look(self.plane, ns);
        let version = if size == "bad" { "2" } else { size };
        let objects = match version {
            "" | REGISTER => Vec::new(),
            version => vec![format!("ConfigMap/life-size {version}"), "Service/life-web".to_owned()],
        };
        let complaint = if settled.is_err() {
            "a Lease is left"
        } else if life.history != records {
            "other records"
        } else if life.objects != objects {
            "other objects"
        } else if size.is_empty() && wait_until("no kind", LIMIT, kind_is_gone).is_err() {
            "the kind is left"
        } else {
            return None;
        };
        Some(format!("{complaint}: {life:?}"))
    }
}

#[derive(Debug, Default)]
struct Counts {
    killed: usize,
    /// By what the killed process left.
    found: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

/// One life; in each step the operator is killed once.
fn live(scene: &Scene, lengths: &[usize], chance: &mut Chance, counts: &mut Counts) {
    let namespace = scene.plane.namespace("crash").unwrap();
    let ns = namespace.name();
    scene.publish(ns);
    for (step, length) in lengths.iter().enumerate() {
        scene.ask(ns, step);
        let point = 2 * START + chance.below(2 * (length - START));
        let kill = move |number: usize, _: &str, _: &str| {
            (number == point / 2).then_some(Fault::Kill { after: point % 2 == 1 })
        };
        let mut first = scene.start(ns, kill);
        let ended = || Ok((first.has_ended() || scene.is_done(ns, step)).then_some(()));
        let complain = |wrong: String| format!("step {step} killed at {point} of {length}: {wrong}");
        if wait_until("killed", LIMIT, ended).is_err() {
            counts.wrong.push(complain(format!("neither killed nor done: {}", first.log())));
            return;
        }
        let killed = first.has_ended();
        drop(first);
        // One that is done is stopped at once, too: before it let its lock go, perhaps.
        let dead = look(scene.plane, ns);
        let locked = dead.history == scene.front_end.steps()[step].2;
        if killed {
            counts.killed += 1;
            let left =
                dead.history.last().and_then(|row| row.split(':').nth(1)).unwrap_or("nothing").to_owned();
            *counts.found.entry(format!("{step} {left}")).or_default() += 1;
        }
        let next = scene.start(ns, |_, _, _| None);
        let done = wait_until("done", LIMIT, || Ok(scene.is_done(ns, step).then_some(())));
        let wrong = match done {
            Ok(()) => scene.wrong(ns, step, locked),
            Err(_) => Some(format!("not done: {:?}\n{}", look(scene.plane, ns), next.log())),
        };
        if let Some(wrong) = wrong {
            counts.wrong.push(complain(wrong));
            return;
        }
    }
}

/// How many requests an operator makes until each step is done, when nothing goes wrong.
fn lengths(scene: &Scene) -> Vec<usize> {
    let namespace = scene.plane.namespace("calm").unwrap();
    let ns = namespace.name();
    scene.publish(ns);
    let length = |step| {
        scene.ask(ns, step);
        let operator = scene.start(ns, |_, _, _| None);
        let done = wait_until("done", LIMIT, || Ok(scene.is_done(ns, step).then_some(())));
        assert!(done.is_ok(), "step {step}: {}", operator.log());
        assert_eq!(scene.wrong(ns, step, false), None, "step {step}: {:#?}", operator.asked());
        operator.asked().len()
    };
    (0..scene.front_end.steps().len()).map(length).collect()
}

/// The definition of the chart's kind.
fn kind_of_chart() -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "lives.crash.example.com"},
        "spec": {
            "group": "crash.example.com", "scope": "Namespaced",
            "names": {"kind": "Life", "listKind": "LifeList", "plural": "lives", "singular": "life"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
            }],
        },
    })
}

fn crash(front_end: FrontEnd, wanted: usize) -> Counts {
    let scene = Scene::new(front_end);
    let seed = number("SEED", 1);
    let lengths = lengths(&scene);
    let mut counts = Counts::default();
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // What goes wrong each time needs no more lives.
    while counts.killed < wanted && counts.wrong.len() < 5 {
        live(&scene, &lengths, &mut chance, &mut counts);
    }
    println!(
        "{front_end:?}: requests of install, upgrade, failed upgrade of a HelmRelease, deletion, starts included: {lengths:?}; seed {seed}"
    );
    println!("operators killed: {}; left behind: {:?}", counts.killed, counts.found);
    println!("did not converge, or released something twice: {}", counts.wrong.len());
    counts
}

#[test]
fn killed_at_a_dozen_points_and_followed_by_another() {
    let counts = crash(FrontEnd::HelmReleases, 12);
    assert!(counts.wrong.is_empty(), "{}", counts.wrong.join("\n"));
}

#[test]
fn killed_over_charts_of_objects_and_followed_by_another() {
    for front_end in [FrontEnd::HelmCharts, FrontEnd::Charts, FrontEnd::ChartResources] {
        let counts = crash(front_end, 3);
        assert!(counts.wrong.is_empty(), "{front_end:?}: {}", counts.wrong.join("\n"));
    }
}

#[test]
#[ignore = "takes minutes: make crash"]
fn killed_at_many_points_and_again() {
    let all = [FrontEnd::HelmReleases, FrontEnd::HelmCharts, FrontEnd::Charts, FrontEnd::ChartResources];
    for front_end in all {
        let counts = crash(front_end, number("N", 100).try_into().unwrap());
        assert!(counts.wrong.is_empty(), "{front_end:?}: {}", counts.wrong.join("\n"));
    }
}
