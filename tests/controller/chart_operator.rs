//! The program itself with operator-sdk's file, flags and environment; and two of it, of which one is killed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use windlass_testing::wait_until;

use super::chart_objects::{GROUP, chart, control_plane};
use super::helmcharts;
use super::{LIMIT, write};

/// A running program; it ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A port that was free a moment ago.
fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[test]
fn the_program_takes_operator_sdks_flags_and_environment() {
    let cp = control_plane();
    let (ns, other) = (cp.namespace("program").unwrap(), cp.namespace("program").unwrap());
    let n = ns.name();
    let root = tempfile::tempdir().unwrap();
    chart(&root.path().join("helm-charts/cache"));
    let file = format!(
        "- group: {GROUP}\n  version: v1\n  kind: Cache\n  chart: helm-charts/cache\n  overrideValues: {{image.name: $RELATED_IMAGE}}\n"
    );
    write(root.path(), "watches.yaml", &file);
    let (metrics, probes) = (free_address(), free_address());
    let start = |flags: &[&str], log: Stdio| {
        Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args([
                "operator",
                "--controllers=charts",
                "--listen-port=0",
                "--debug-unix-socket",
                "debug.socket",
            ])
            .args(["--watch-label-selector", &format!("test={n}"), "-n", n])
            .args(["--leader-elect", "--leader-election-id=caches", "--leader-election-namespace", n])
            .args(flags)
            .current_dir(root.path())
            .env("KUBECONFIG", cp.kubeconfig())
            .env("WATCH_NAMESPACE", format!("{n},{}", other.name()))
            .env("RELATED_IMAGE", "cache:2")
            .stderr(log)
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    };
    // What it does not have is refused.
    let refused = start(&["--metrics-secure=true"], Stdio::piped()).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(
        !refused.status.success() && text.contains("--metrics-secure: metrics are served over HTTP"),
        "{text}"
    );

    let log = std::fs::File::create(root.path().join("log")).unwrap();
    let flags = [
        "--metrics-bind-address",
        &metrics,
        "--health-probe-bind-address",
        &probes,
        "--reconcile-period=1s",
        "--max-concurrent-reconciles=2",
        "--suppress-override-values",
        "--allow-local-sources",
        "--log-type=json",
    ];
    let program = Program(start(&flags, log.into()));
    for namespace in [n, other.name()] {
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Cache",
            "metadata": {"name": "web", "namespace": namespace, "labels": {"test": n}}, "spec": {"size": 6},
        });
        cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
        let path = "jsonpath={.data.size} {.data.image}";
        let data =
            || cp.kubectl(["get", "configmap", "web", "-n", namespace, "--ignore-not-found", "-o", path]);
        let what = "the object is a release with the image of the environment";
        wait_until(what, LIMIT, || Ok((data()? == "6 cache:2").then_some(()))).unwrap();
    }
    assert!(get(&metrics, "/metrics").contains("helm_operator_build_info{"));
    assert!(
        get(&probes, "/readyz").starts_with("HTTP/1.1 200")
            && get(&probes, "/healthz").starts_with("HTTP/1.1 200")
    );
    let holder =
        cp.kubectl(["get", "lease", "caches", "-n", n, "-o", "jsonpath={.spec.holderIdentity}"]).unwrap();
    assert!(holder.starts_with("windlass-"), "{holder}");
    let events = || {
        cp.kubectl([
            "get",
            "events",
            "-n",
            n,
            "-o",
            "jsonpath={.items[?(@.reason==\"OverrideValuesInUse\")].message}",
        ])
    };
    let event =
        wait_until("an Event of the override", LIMIT, || Ok(Some(events()?).filter(|text| !text.is_empty())));
    let event = event.unwrap();
    assert!(event.contains("image.name") && !event.contains("cache:2"), "{event}");
    drop(program);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_goes_on_within_its_lease_when_the_other_is_killed() {
    let (cp, running) = (control_plane(), helmcharts::Running::prepare().await);
    let n = running.ns.name();
    let root = tempfile::tempdir().unwrap();
    chart(&root.path().join("cache"));
    let file = format!("- {{group: {GROUP}, version: v1, kind: Cache, chart: cache}}\n");
    write(root.path(), "watches.yaml", &file);
    let start = |name: &str| {
        let socket = format!("--debug-unix-socket={name}.socket");
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(["operator", "--controllers=charts,helmcharts", "--watch-all-namespaces=false", "-n", n])
            .args(["--listen-address=127.0.0.1", "--listen-port=0", &socket, "--watches-file=watches.yaml"])
            .args(["--leader-elect", "--leader-election-id=replicas", "--pod-name", name])
            .current_dir(root.path())
            .env("KUBECONFIG", cp.kubeconfig())
            .env("RUNTIME_NAMESPACE", n)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(root.path().join(name)).unwrap());
        Program(command.spawn().unwrap())
    };
    let holder = || running.get("lease", "replicas", "{.spec.holderIdentity}");
    let package = helmcharts::content(&helmcharts::chart("1.0.0", &[]));
    let apply = |size: u32| {
        running.chart("k3s", &json!({"chartContent": package, "set": {"size": size}}));
        let object = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Cache",
            "metadata": {"name": "sdk", "namespace": n}, "spec": {"size": size},
        });
        cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
    };
    let sizes = || [running.size("k3s"), running.size("sdk")];
    let first = start("first");
    running.wait("the first leads", || holder() == "first");
    let _second = start("second");
    apply(1);
    running.wait("both are deployed", || sizes() == ["1", "1"]);
    drop(first);
    let began = std::time::Instant::now();
    apply(2);
    running.kubectl("delete configmap k3s sdk");
    running.wait("the second goes on", || sizes() == ["2", "2"]);
    let took = began.elapsed();
    println!("changes and drift after the leader was killed: {took:?}");
    assert_eq!(holder(), "second");
    // Its Lease is of 17 s.
    assert!(took.as_secs() < 30, "{took:?}");
    running.wait_revision("k3s", 2);
    for release in ["k3s", "sdk"] {
        assert_eq!(running.revisions(release), 2, "{release}");
    }
    running.kubectl(&format!("delete helmcharts/k3s caches.{GROUP}/sdk"));
    assert_eq!(sizes(), ["", ""]);
}
