//! What a signal leaves, and how the next try goes on from there.

use super::{chart, control_plane, windlass};
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ENDLESS: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: endless, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\"}}\nspec: \
    {containers: [{name: main, image: x}]}\n";

#[test]
fn the_end_is_marked_or_repaired() {
    let cp = control_plane();
    let ns = cp.namespace("signal").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    std::fs::write(dir.path().join("templates/endless.yaml"), ENDLESS).unwrap();
    let status = || {
        cp.kubectl([
            "get",
            "secrets",
            "-n",
            n,
            "-l",
            "owner=helm",
            "-o",
            "jsonpath={.items[*].metadata.labels.status}",
        ])
    };
    // A hook that never ends: the process is in the midst of its work.
    let stopped_by = |args: &[&str], signal: Signal| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(args)
            .args(["r", path, "-n", n])
            .env("KUBECONFIG", cp.kubeconfig())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !cp.kubectl(["get", "pod", "-n", n, "-o", "name"]).unwrap().contains("endless") {
            assert!(Instant::now() < deadline, "the hook did not start");
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text).unwrap();
        cp.kubectl(["delete", "pod", "endless", "-n", n, "--grace-period=0", "--force"]).unwrap();
        (status.code(), text)
    };
    let leases = || cp.kubectl(["get", "leases", "-n", n, "-o", "name"]).unwrap();
    let (code, text) = stopped_by(&["install"], Signal::TERM);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Error: INSTALLATION FAILED: context canceled"), "{text}");
    assert_eq!((status().unwrap().as_str(), leases().as_str()), ("failed", ""));

    // A first install that failed is replaced, by the same command; one that was killed is finished.
    let (code, _) = stopped_by(&["install"], Signal::KILL);
    assert_eq!(code, None);
    assert_eq!(status().unwrap(), "failed pending-install");
    assert!(leases().contains("windlass-r"), "nobody let it go");
    let start = Instant::now();
    windlass(&["install", "r", path, "-n", n, "--no-hooks"]);
    assert!(start.elapsed() < Duration::from_secs(5), "its holder is gone: no wait for the Lease");
    assert_eq!((status().unwrap().as_str(), leases().as_str()), ("failed deployed", ""));

    let (_, text) = stopped_by(&["upgrade", "--rollback-on-failure"], Signal::INT);
    assert!(text.contains("has been rolled back"), "{text}");
    let why = windlass(&["why", "r", "-n", n]);
    assert!(why.contains("cause: windlass install") && why.contains("cause: undoes revision"), "{why}");
    windlass(&["upgrade", "r", path, "-n", n, "--no-hooks", "--set", "size=7,dbPassword=hidden-thing"]);
    let why = windlass(&["why", "r", "-n", n, "-o", "yaml"]);
    assert!(why.contains("path: size") && why.contains("path: data.size"), "{why}");
    assert!(!why.contains("hidden-thing"), "{why}");
}
