//! What is seen while something is waited for: one block on a terminal, lines elsewhere.

use super::{chart, control_plane};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

#[test]
fn waits_are_one_block_on_a_terminal_and_lines_elsewhere() {
    let cp = control_plane();
    let namespace = cp.namespace("progress").unwrap();
    let dir = chart();
    let stuck = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec:\n  selector: {matchLabels: {app: x}}\n  \
                 template:\n    metadata: {labels: {app: x}}\n    spec: {nodeSelector: {no: such-node}, containers: [{name: main, image: x}]}\n";
    std::fs::write(dir.path().join("templates/stuck.yaml"), stuck).unwrap();
    let install = |name: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args([
            "install",
            name,
            dir.path().to_str().unwrap(),
            "-n",
            namespace.name(),
            "--wait",
            "--timeout",
            "3s",
        ]);
        command.args(more).env("KUBECONFIG", cp.kubeconfig()).stdin(Stdio::null()).stdout(Stdio::null());
        command
    };
    let own = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&own).unwrap();
    unlockpt(&own).unwrap();
    let name = ptsname(&own, Vec::new()).unwrap().into_string().unwrap();
    let side = File::options().read(true).write(true).open(name).unwrap();
    let mut command = install("seen", &[]);
    let mut child = command.stderr(Stdio::from(side)).spawn().unwrap();
    // The other side must be ours alone no more, or the terminal never ends.
    drop(command);
    let mut shown = Vec::new();
    // A terminal whose other side is gone ends with an error.
    drop(File::from(own).read_to_end(&mut shown));
    assert!(!child.wait().unwrap().success());
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(shown.contains("waiting for 1 of 2:"), "{shown}");
    assert!(shown.contains(&format!("  Deployment {}/seen: Available: 0/1", namespace.name())), "{shown}");
    assert!(shown.contains("A\u{1b}[J") && shown.contains("Unschedulable"), "drawn anew: {shown:?}");
    let out = install("unseen", &["--explain-errors=always"]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(text.contains("waiting for Deployment ") && text.contains("Unschedulable"), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");
    let out = install("silent", &[]).output().unwrap();
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!text.contains("waiting for Deployment "), "as Helm: {text}");
    assert!(text.contains("Unschedulable"), "but why it failed is told: {text}");
}
