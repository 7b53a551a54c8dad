//! `windlass flux` and `windlass plan --helmrelease` on a live release.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use windlass_testing::wait_until;

use super::support::{LIMIT, Running, chart, condition, digest};

/// A Secret that shows the `size`, too.
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: \"{{ .Release.Name }}\"}\nstringData: {size: \"secret-{{ .Values.size }}\"}\n";

impl Running {
    /// A command of the binary in the test's namespace.
    pub(crate) fn run(&self, words: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(words.split_whitespace())
            .args(["-n", self.ns.name()])
            .env("KUBECONFIG", self.cp.kubeconfig())
            .env("TZ", "UTC")
            .output()
            .unwrap()
    }

    /// Exit status, standard output and standard error.
    pub(crate) fn answer(&self, words: &str) -> (i32, String, String) {
        let done = self.run(words);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (done.status.code().unwrap(), text(done.stdout), text(done.stderr))
    }

    /// Standard output of a command that must end with this status.
    pub(crate) fn output(&self, status: i32, words: &str) -> String {
        let (found, out, err) = self.answer(words);
        assert_eq!(found, status, "{words}\n{out}\n{err}");
        out
    }

    /// Standard error of the same.
    pub(crate) fn said(&self, status: i32, words: &str) -> String {
        let (found, out, err) = self.answer(words);
        assert_eq!(found, status, "{words}\n{out}\n{err}");
        err
    }
}

pub(crate) fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daily_verbs_of_flux_work_on_a_release() {
    let mut running = Running::prepare("verbs").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/secret.yaml", SECRET)]));
    running.start().await;
    running.release("web", &json!({"values": {"size": "two"}}));
    running.wait_ready("web", "True InstallSucceeded");
    running.release("zoo", &json!({"values": {"size": "bad"}}));
    running.wait("failed", |o| condition(o, "Stalled") == "True RetriesExceeded", "zoo");

    // What is not ready comes first.
    let table = running.output(0, "flux get hr");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split('\t').map(str::trim).collect()).collect();
    assert_eq!(rows[0], ["NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"]);
    assert_eq!(rows[1][..4], ["zoo", "1.0.0", "False", "False"], "{table}");
    assert_eq!(rows[2][..4], ["web", "1.0.0", "False", "True"], "{table}");
    assert_eq!(rows[2][4], format!("Helm install succeeded for release {ns}/web.v1 with chart demo@1.0.0"));
    let list = parsed(&running.output(0, "flux get helmreleases -o json --status-selector ready=false"));
    assert_eq!(
        (list.as_array().unwrap().len(), &list[0]["name"], &list[0]["reason"]),
        (1, &json!("zoo"), &json!("InstallFailed"))
    );
    // Kinds that the cluster does not have are left out of all.
    assert!(running.output(0, "flux get sources all").contains("ocirepository/demo\t1.0.0"));
    assert!(running.said(1, "flux get hr none").contains("HelmRelease object 'none' not found"));

    let said = running.said(0, "flux reconcile hr web");
    assert!(said.contains("✔ applied revision 1.0.0"), "{said}");
    let object = running.get("helmrelease", "web");
    let token = &object["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"];
    assert!(token.is_string() && object["status"]["lastHandledReconcileAt"] == *token, "{object:#}");
    running.said(0, "flux reconcile hr web --force");
    assert_eq!(running.get("helmrelease", "web")["status"]["history"][0]["version"], 2);
    let said = running.said(1, "flux reconcile helmrelease zoo --reset --timeout 1m");
    assert!(
        said.contains("Error: HelmRelease reconciliation failed: 'Helm upgrade failed for release"),
        "{said}"
    );
    assert!(running.said(1, "flux reconcile source oci none").contains("not found"));

    running.said(0, "flux suspend hr web");
    assert_eq!(running.get("helmrelease", "web")["spec"]["suspend"], true);
    assert!(running.said(1, "flux reconcile hr web").contains("is suspended; resume it first"));
    let said = running.said(0, "flux resume hr web");
    assert!(said.contains("✔ HelmRelease web reconciliation completed"), "{said}");
    assert_eq!(running.get("helmrelease", "web")["spec"]["suspend"], false);

    assert_eq!(
        running.output(0, "flux tree hr web"),
        format!("HelmRelease/{ns}/web\n├── Secret/{ns}/web\n└── ConfigMap/{ns}/web\n")
    );
    let tree = parsed(&running.output(0, "flux tree hr web -o json"));
    assert_eq!(tree["resources"][1]["resource"]["GroupKind"], json!({"Group": "", "Kind": "ConfigMap"}));
    let trace = running.output(0, "flux trace configmap web");
    for line in
        ["Object:        ConfigMap/web", "HelmRelease:   web", "Revision:      1.0.0", "OCIRepository: demo"]
    {
        assert!(trace.lines().any(|found| found == line), "{line}: {trace}");
    }
    assert!(running.said(1, "flux trace configmap kube-root-ca.crt").contains("object not managed by Flux"));
    let exported = running.output(0, "flux export hr web");
    let exported = windlass_render::parse_manifest(&exported).unwrap();
    let object = running.get("helmrelease", "web");
    assert_eq!(exported["spec"], object["spec"]);
    assert_eq!(exported["metadata"], json!({"name": "web", "namespace": ns}));
    let events = running.output(0, "flux events --for HelmRelease/web");
    assert!(events.contains("InstallSucceeded") && !events.contains("HelmRelease/zoo"), "{events}");

    assert!(running.output(0, "flux diff hr web").contains("all objects are as stored"));
    let patch = r#"{"data":{"size":"9"}}"#;
    running.cp.kubectl(["patch", "configmap", "web", "-n", &ns, "--type=merge", "-p", patch]).unwrap();
    let diff = running.output(2, "flux diff hr web");
    assert!(diff.contains(&format!("~ ConfigMap {ns}/web")), "{diff}");
    assert!(diff.contains(r#"data.size: "9" → "two""#), "{diff}");
    assert_eq!(running.get("configmap", "web")["data"]["size"], "9", "nothing is written");
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_helm_release_is_planned_before_it_is_merged() {
    let mut running = Running::prepare("planned").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/secret.yaml", SECRET)]));
    running.start().await;
    running.apply(&json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "values"}, "data": {"values.yaml": "size: two\n"},
    }));
    let from = json!([{"kind": "ConfigMap", "name": "values"}]);
    running.release("web", &json!({"valuesFrom": from}));
    running.wait_ready("web", "True InstallSucceeded");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.yaml");
    let write = |name: &str, spec: Value| {
        let mut whole = running.get("helmrelease", "web")["spec"].clone();
        for (key, value) in spec.as_object().unwrap() {
            whole[key] = value.clone();
        }
        let object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": name}, "spec": whole,
        });
        std::fs::write(&file, object.to_string()).unwrap();
    };
    let plan = format!("plan --helmrelease {ns}/web");
    let changed = format!("{plan} -f {}", file.display());

    let text = running.output(0, &plan);
    assert!(
        text.starts_with(&format!(
            "HelmRelease {ns}/web: none (revision 1 is as desired)\n  chart demo@1.0.0\n"
        )),
        "{text}"
    );
    // The spec of the file goes over what it refers to.
    write("web", json!({"values": {"size": "three"}, "commonMetadata": {"labels": {"team": "a"}}}));
    let mark = running.cp.audit_mark().unwrap();
    let found = parsed(&running.output(2, &format!("{changed} -o json")));
    let writes = running.cp.writes_since(mark).unwrap();
    assert!(writes.iter().all(|write| write.namespace != ns), "{writes:?}");
    assert_eq!((&found["changes"], &found["action"]), (&json!(true), &json!("upgrade")));
    assert_eq!(found["reason"], "changed: values, common metadata");
    let changes = found["plans"][0]["changes"].as_array().unwrap();
    let of = |kind: &str| changes.iter().find(|change| change["kind"] == kind).unwrap();
    let field = |change: &Value, path: &str| {
        change["fields"]
            .as_array()
            .unwrap()
            .iter()
            .find(|field| field["path"] == path)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(field(of("ConfigMap"), "data.size")["after"], "three");
    assert_eq!(field(of("ConfigMap"), "metadata.labels.team")["after"], "a");
    let secret = of("Secret").to_string();
    assert!(
        secret.contains("data.size") && !secret.contains("secret-") && !secret.contains("c2VjcmV0"),
        "{secret}"
    );
    let markdown = running.output(2, &format!("{changed} -o markdown"));
    assert!(
        markdown.contains(&format!("| update | `ConfigMap {ns}/web` |"))
            && markdown.contains("+ data.size: \"three\""),
        "{markdown}"
    );
    // What the API server or the chart refuses is an error.
    write("web", json!({"values": {"size": "bad"}}));
    assert!(running.said(1, &changed).contains("the server would refuse 1 object(s) of this plan"));
    write("web", json!({"kubeConfig": {"secretRef": {"name": "x"}}}));
    assert!(running.said(1, &changed).contains("the Secret does not exist"));
    write("other", json!({}));
    assert!(running.said(1, &changed).contains(&format!("no HelmRelease {ns}/web; there are: other")));
    // One that does not exist yet.
    let found =
        parsed(&running.output(2, &format!("plan --helmrelease {ns}/other -f {} -o json", file.display())));
    assert_eq!((&found["action"], &found["plans"][0]["revision"]), (&json!("install"), &json!(1)));
    // Another target.
    write("web", json!({"releaseName": "new"}));
    let found = parsed(&running.output(2, &format!("{changed} -o json")));
    assert_eq!(
        (&found["action"], &found["reason"]),
        (&json!("reinstall"), &json!("the release name has changed"))
    );
    assert_eq!(found["plans"].as_array().unwrap().len(), 2);

    // A failed release stays as it is until something changes.
    running.release("zoo", &json!({"values": {"size": "bad"}}));
    running.wait("failed", |o| condition(o, "Stalled") == "True RetriesExceeded", "zoo");
    let zoo = format!("plan --helmrelease {ns}/zoo");
    let text = running.output(0, &zoo);
    assert!(
        text.contains("zoo: stall (revision 1 failed)")
            && text.contains("note: it stays stalled: RetriesExceeded"),
        "{text}"
    );
    write("zoo", json!({"values": {"size": "good"}}));
    let text = running.output(2, &format!("{zoo} -f {}", file.display()));
    assert!(text.contains("zoo: upgrade (revision 1 failed)"), "{text}");
    running.cp.kubectl(["delete", "helmrelease", "zoo", "-n", &ns, "--timeout=30s"]).unwrap();

    // Drift is corrected without a revision.
    running
        .release("web", &json!({"valuesFrom": from, "driftDetection": {"mode": "enabled"}, "suspend": true}));
    let patch = r#"{"data":{"size":"9"}}"#;
    running.cp.kubectl(["patch", "configmap", "web", "-n", &ns, "--type=merge", "-p", patch]).unwrap();
    let text = running.output(2, &plan);
    assert!(text.contains("web: correct-drift (1 object has drifted)"), "{text}");
    assert!(text.contains(r#"data.size: "9" → "two""#), "{text}");

    // A new chart of the source, which the suspended release does not have yet.
    running.publish("demo", "1.1.0", chart("1.1.0", &[]));
    let text = running.output(2, &plan);
    assert!(text.contains("upgrade (changed: chart)\n  chart demo@1.0.0 → demo@1.1.0\n"), "{text}");
    assert!(text.contains("note: the HelmRelease is suspended"), "{text}");
    assert!(text.contains(&format!("- Secret {ns}/web")), "{text}");
    // A chart of one's own, before it is published.
    let own = dir.path().join("demo-2.0.0.tgz");
    std::fs::write(&own, chart("2.0.0", &[])).unwrap();
    assert!(running.output(2, &format!("{plan} --chart {}", own.display())).contains("→ demo@2.0.0"));
    assert_eq!(running.records(), ["deployed"]);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_that_is_not_in_the_cluster_yet_comes_from_its_repository() {
    let running = Running::prepare("fetched").await;
    let ns = running.ns.name().to_owned();
    let entry = |version: &str| json!({"apiVersion": "v2", "name": "demo", "version": version, "urls": [format!("demo-{version}.tgz")]});
    let index = json!({"apiVersion": "v1", "entries": {"demo": [entry("1.0.0"), entry("1.1.0")]}});
    running.artifacts.put("index.yaml", index.to_string().into_bytes());
    for version in ["1.0.0", "1.1.0"] {
        running.artifacts.put(&format!("demo-{version}.tgz"), chart(version, &[]));
    }
    running.apply(&json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "repo"},
        "spec": {"url": format!("http://{}", running.address), "interval": "1h"},
    }));
    let spec = |version: &str| {
        let reference = json!({"kind": "HelmRepository", "name": "repo"});
        json!({"chartRef": null, "chart": {"spec": {"chart": "demo", "version": version, "sourceRef": reference}}})
    };
    running.release("web", &spec("1.0.x"));
    let plan = format!("plan --helmrelease {ns}/web");
    let text = running.output(2, &plan);
    assert!(text.contains("install (the release does not exist)\n  chart demo@1.0.0\n"), "{text}");
    // The HelmChart of the same template has it, whatever its interval.
    let package = chart("1.0.1", &[]);
    running.artifacts.put("artifact.tgz", package.clone());
    let labels = json!({"helm.toolkit.fluxcd.io/name": "web", "helm.toolkit.fluxcd.io/namespace": ns});
    running.apply(&json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
        "metadata": {"name": format!("{ns}-web"), "labels": labels},
        "spec": {
            "chart": "demo", "version": "1.0.x", "interval": "5m", "reconcileStrategy": "ChartVersion",
            "sourceRef": {"kind": "HelmRepository", "name": "repo"},
        },
    }));
    let name = format!("{ns}-web");
    let generation = running.get("helmchart", &name)["metadata"]["generation"].clone();
    let url = format!("http://{}/artifact.tgz", running.address);
    let artifact = json!({
        "url": url, "digest": digest(&package), "revision": "1.0.1", "path": "artifact.tgz",
        "lastUpdateTime": "2026-01-02T03:04:05Z",
    });
    running.set_status("helmchart", &name, &json!({"observedGeneration": generation, "artifact": artifact}));
    assert!(running.output(2, &plan).contains("  chart demo@1.0.1\n"));
    // A changed template is fetched, and a source in the same file is noticed.
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("new.yaml");
    let mut release = running.get("helmrelease", "web");
    release["spec"]["chart"]["spec"]["version"] = json!("1.1.x");
    let source = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository", "metadata": {"name": "repo"},
        "spec": {"url": "http://elsewhere", "interval": "1h"},
    });
    std::fs::write(&file, format!("{release}\n---\n{source}\n")).unwrap();
    let text = running.output(2, &format!("{plan} -f {}", file.display()));
    assert!(text.contains("  chart demo@1.1.0\n"), "{text}");
    assert!(
        text.contains(&format!("note: HelmRepository {ns}/repo of the file differs from the live one")),
        "{text}"
    );
    release["spec"]["chart"]["spec"]["version"] = json!("9.x");
    std::fs::write(&file, release.to_string()).unwrap();
    let said = running.said(1, &format!("{plan} -f {}", file.display()));
    assert!(said.contains(&format!("HelmRepository {ns}/repo does not give it")), "{said}");
    assert!(said.trim_end().ends_with("; give the chart by --chart"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sources_are_reconciled_before_their_release() {
    let mut running = Running::prepare("with-source").await;
    running.publish("demo", "1.0.0", chart("1.0.0", &[]));
    running.start().await;
    running.release("web", &json!({}));
    running.wait_ready("web", "True InstallSucceeded");
    // Answers as source-controller does: a new artifact, then the token of the request.
    let answer = || {
        let asked = wait_until("asked", LIMIT, || {
            let source = running.get("ocirepository", "demo");
            let token = source["metadata"]["annotations"]["reconcile.fluxcd.io/requestedAt"].clone();
            Ok((token.is_string() && token != source["status"]["lastHandledReconcileAt"]).then_some(token))
        });
        running.publish("demo", "1.1.0", chart("1.1.0", &[]));
        let ready = json!([{
            "type": "Ready", "status": "True", "reason": "Succeeded", "message": "stored artifact",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }]);
        running.set_status(
            "ocirepository",
            "demo",
            &json!({"lastHandledReconcileAt": asked.unwrap(), "conditions": ready}),
        );
    };
    let said = std::thread::scope(|scope| {
        scope.spawn(answer);
        running.said(0, "flux reconcile hr web --with-source --timeout 1m")
    });
    let steps: Vec<&str> = said.lines().filter(|line| line.starts_with('✔')).collect();
    assert_eq!(
        steps,
        [
            "✔ OCIRepository annotated",
            "✔ fetched revision 1.1.0",
            "✔ HelmRelease annotated",
            "✔ applied revision 1.1.0"
        ]
    );
    running.end().await;
}

/// An address of this machine that other machines could use; `None` without a network.
pub(crate) fn own_address() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Sends nothing: only the route is chosen.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_of_services_are_read_through_the_api_server() {
    let Some(address) = own_address() else {
        eprintln!("no network: an API server reaches no Service on loopback");
        return;
    };
    let running = Running::prepare("proxied").await;
    let ns = running.ns.name().to_owned();
    let package = chart("1.0.0", &[]);
    running.artifacts.put("demo.tgz", package.clone());
    let server = running.artifacts.serve_at(address).await;
    running.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "artifacts"},
        "spec": {"ports": [{"name": "http", "port": 80, "targetPort": server.port()}]},
    }));
    // The API server connects to addresses of Pods only. No node takes this one: its status is the test's.
    running.apply(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "artifacts"},
        "spec": {"nodeSelector": {"no": "node"}, "containers": [{"name": "a", "image": "a"}]},
    }));
    let address = address.to_string();
    running.set_status("pod", "artifacts", &json!({"podIP": address, "podIPs": [{"ip": address}]}));
    running.apply(&json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "artifacts"},
        "subsets": [{
            "addresses": [{"ip": address, "targetRef": {"kind": "Pod", "name": "artifacts", "namespace": ns}}],
            "ports": [{"name": "http", "port": server.port()}],
        }],
    }));
    running.publish("demo", "1.0.0", package.clone());
    let url = format!("http://artifacts.{ns}.svc.cluster.local./demo.tgz");
    running.set_status("ocirepository", "demo", &json!({"artifact": {"url": url}}));
    running.release("web", &json!({}));
    let text = running.output(2, &format!("plan --helmrelease {ns}/web"));
    assert!(text.contains("  chart demo@1.0.0\n"), "{text}");
}

/// A HelmRelease as an object of a release.
const INNER: &str = "{{- if .Values.nested }}\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: inner}\nspec:\n  interval: 1h\n  \
                     chartRef: {kind: OCIRepository, name: demo}\n{{- end }}\n";

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_watched_and_trees_are_nested() {
    let mut running = Running::prepare("watched").await;
    let ns = running.ns.name().to_owned();
    running.publish("demo", "1.0.0", chart("1.0.0", &[("templates/inner.yaml", INNER)]));
    let mut watching = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["flux", "get", "hr", "--watch", "-n", &ns])
        .env("KUBECONFIG", running.cp.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    let shown = BufReader::new(watching.stdout.take().unwrap());
    std::thread::spawn(move || shown.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
    let mut seen: Vec<String> = vec![lines.recv_timeout(LIMIT).unwrap()];
    assert!(seen[0].starts_with("NAME"), "{seen:?}");
    running.start().await;
    running.release("outer", &json!({"values": {"nested": true}, "install": {"disableWait": true}}));
    let ready = |line: &str, name: &str| line.starts_with(name) && line.contains("Helm install succeeded");
    while !(seen.iter().any(|line| ready(line, "outer")) && seen.iter().any(|line| ready(line, "inner"))) {
        seen.push(lines.recv_timeout(LIMIT).unwrap_or_else(|e| panic!("{e}: {seen:#?}")));
    }
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "a row is shown when it changes: {seen:#?}");

    let tree = running.output(0, "flux tree hr outer");
    let expected = format!(
        "HelmRelease/{ns}/outer\n├── ConfigMap/{ns}/outer\n└── HelmRelease/{ns}/inner\n    └── ConfigMap/{ns}/inner\n"
    );
    assert_eq!(tree, expected);
    let (status, _, err) = running.answer("flux get hr -w -o json");
    assert!(status != 0 && err.contains("cannot be used with"), "{err}");
    running.cp.kubectl(["delete", "helmrelease", "outer", "-n", &ns, "--timeout=30s"]).unwrap();
    running.end().await;
}
