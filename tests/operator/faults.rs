//! What befalls an operator: hooks that do not come back, a ConfigMap that breaks again and again, servers and leaders that die.

use std::time::{Duration, Instant};

use windlass_testing::{ControlPlane, Tool};

use crate::support::{Modules, Operator, control_plane, history, object, wait_for};

const BEFORE: &str = "configVersion: v1\nbeforeHelm: 1";

#[test]
fn a_hook_without_a_timeout_holds_up_others_for_so_long_and_no_longer() {
    let cp = control_plane();
    let ns = cp.namespace("hung-hook").unwrap();
    let modules = Modules::new();
    modules.small("010-stuck").small("020-next").small("030-last").enable(&["stuck", "next", "last"]);
    let release = modules.path().join("go-on");
    let wait = format!("note begun; until [[ -e {} ]]; do sleep 0.2; done; note ended", release.display());
    modules.hook("010-stuck/hooks/stuck", BEFORE, &wait);
    let operator = Operator::start_with(cp, ns.name(), modules.path(), &["--hook-unblock-after", "2s"]);
    let begun = operator.wait_note("stuck begun");
    let next =
        wait_for("the next one gets its turn", || object(cp, ns.name(), "configmap", "next").is_some());
    println!("begun after {begun:?}, passed over {next:?} later");
    assert!(next > Duration::from_secs(1), "it was waited for: {next:?}");
    operator.wait_converged();
    operator.wait_log(&["\"module\":\"stuck\"", "later modules no longer wait for it"]);
    assert!(object(cp, ns.name(), "configmap", "last").is_some());
    assert!(object(cp, ns.name(), "configmap", "stuck").is_none());
    // It comes back after all.
    std::fs::write(&release, "").unwrap();
    operator.wait_note("stuck ended");
    wait_for("its release is there", || object(cp, ns.name(), "configmap", "stuck").is_some());
    operator.stop();
}

#[test]
fn what_a_hook_leaves_behind_ends_with_it() {
    let cp = control_plane();
    let ns = cp.namespace("daemons").unwrap();
    let modules = Modules::new();
    modules.small("010-forks").small("020-next").enable(&["forks", "next"]);
    let fork = "for i in 1 2 3 4 5; do (trap '' HUP TERM; sleep 600) & note pid $!; done";
    modules.hook("010-forks/hooks/forks", BEFORE, fork);
    let (operator, took) = Operator::converged(cp, ns.name(), modules.path());
    assert!(object(cp, ns.name(), "configmap", "next").is_some());
    let pids: Vec<String> =
        operator.notes().iter().filter_map(|n| n.strip_prefix("forks pid ").map(str::to_owned)).collect();
    assert_eq!(pids.len(), 5);
    let alive = || {
        let running = |pid: &&String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        pids.iter().filter(running).count()
    };
    wait_for("what it left behind is gone", || alive() == 0);
    println!("{} daemons ended, converged in {took:?}", pids.len());
    operator.stop();
}

#[test]
fn a_configmap_broken_and_repaired_a_hundred_times() {
    let cp = control_plane();
    let ns = cp.namespace("hundred").unwrap();
    let modules = Modules::new();
    modules.small("010-alpha").small("020-beta").enable(&["alpha", "beta"]);
    let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
    let shown = || {
        let live = object(cp, ns.name(), "configmap", "alpha")?;
        live["data"]["size"].as_str().map(str::to_owned)
    };
    let part = |alpha: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: addon-operator}}\ndata: {{alpha: '{alpha}', beta: 'size: 7'}}\n"
        )
    };
    let started = Instant::now();
    for quarter in 1..=4 {
        // Two hundred writes, a kubectl for fifty of them.
        let pair = |i: u32| format!("---\n{}---\n{}", part("size: [broken"), part(&format!("size: {i}")));
        let text: String = (quarter * 25 - 24..=quarter * 25).map(pair).collect();
        cp.kubectl_with(["apply", "-n", ns.name(), "-f", "-"], &text).unwrap();
        let want = (quarter * 25).to_string();
        wait_for("the repaired value arrives", || shown() == Some(want.clone()));
    }
    let took = started.elapsed();
    let log = operator.log();
    let told = log.lines().filter(|l| l.contains("\"key\":\"alpha\"") && l.contains("WARN")).count();
    let revisions = history(cp, ns.name(), "beta");
    println!(
        "100 times broken and repaired in {took:?}: told {told} times, beta has {} revisions",
        revisions.len()
    );
    assert!(told > 0, "{}", operator.log_end());
    assert_eq!(revisions.last(), Some(&(2, "deployed".to_owned())), "beta has changed once");
    assert_eq!(history(cp, ns.name(), "alpha").last().map(|r| r.1.clone()).as_deref(), Some("deployed"));
    operator.stop();
}

#[test]
fn the_api_server_dies_and_the_leader_dies_in_mid_converge() {
    let mut cp = ControlPlane::start().expect("a control plane of its own");
    let namespace = {
        let namespace = cp.namespace("dying").unwrap();
        let name = namespace.name().to_owned();
        std::mem::forget(namespace);
        name
    };
    let ns = namespace.as_str();
    let modules = Modules::new();
    let names: Vec<String> = (b'a'..b'i').map(|c| format!("m{}", char::from(c))).collect();
    for (i, name) in names.iter().enumerate() {
        modules.small(&format!("{:03}-{name}", i + 1));
        // What is deleted shortly after a hook of its module is not put right, so that the first one has none.
        if i == 0 {
            continue;
        }
        // The first process never gets beyond the fifth module.
        let body = if i == 4 {
            format!(
                "if [[ ! -e {0} ]]; then : > {0}; note held; sleep 600; fi",
                modules.path().join("held").display()
            )
        } else {
            "note ran".to_owned()
        };
        modules.hook(&format!("{:03}-{name}/hooks/{name}", i + 1), BEFORE, &body);
    }
    modules.enable(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let election = |name: &'static str| ["--leader-election", "--pod-name", name];
    let mut first = Operator::start_with(&cp, ns, modules.path(), &election("first"));
    first.wait_note("me held");
    let second = Operator::start_with(&cp, ns, modules.path(), &election("second"));
    second.wait_log(&["another process leads"]);
    let done = |cp: &ControlPlane| names.iter().filter(|n| object(cp, ns, "deployment", n).is_some()).count();
    let before = done(&cp);
    first.kill();
    let started = Instant::now();
    second.wait_log(&["this process leads"]);
    let led = started.elapsed();
    second.wait_converged();
    wait_for("all modules are there", || done(&cp) == names.len());
    println!(
        "killed with {before} of {} modules done; the next led after {led:?}, all done after {:?}",
        names.len(),
        started.elapsed()
    );
    assert_eq!(before, 4);
    for name in &names {
        assert_eq!(history(&cp, ns, name), [(1, "deployed".to_owned())], "{name}");
    }
    // Servers that are away for a while cost no leader its place, and do not stop a follower.
    second.stop();
    let operator = Operator::start_with(&cp, ns, modules.path(), &election("third"));
    operator.wait_converged();
    let follower = Operator::start_with(&cp, ns, modules.path(), &election("fourth"));
    follower.wait_log(&["another process leads", "\"leader\":\"third\""]);
    let lease = |cp: &ControlPlane| {
        let spec = object(cp, ns, "lease", "windlass-operator").unwrap()["spec"].clone();
        (spec["holderIdentity"].clone(), spec["leaseTransitions"].clone())
    };
    let before = lease(&cp);
    for round in 1..=3 {
        let started = Instant::now();
        cp.restart(Tool::KubeApiserver).unwrap();
        cp.wait_ready().unwrap();
        let up = started.elapsed();
        cp.kubectl(["delete", "service", "ma", "-n", ns]).unwrap();
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: addon-operator}}\ndata: {{mb: 'size: {round}0'}}\n"
        );
        cp.kubectl_with(["apply", "-n", ns, "-f", "-"], &text).unwrap();
        let wait = || wait_for("what was deleted is back", || object(&cp, ns, "service", "ma").is_some());
        let back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(wait));
        let back = back.unwrap_or_else(|_| panic!("round {round}: {}", operator.log_end()));
        let edited = wait_for("an edit arrives", || {
            object(&cp, ns, "configmap", "mb").is_some_and(|o| o["data"]["size"] == format!("{round}0"))
        });
        println!(
            "round {round}: the API server was back after {up:?}, the object after {back:?}, the edit after {edited:?}"
        );
    }
    // Longer than client-go's leaders endure.
    cp.pause(Tool::Etcd, Duration::from_secs(12)).unwrap();
    cp.kubectl(["delete", "service", "ma", "-n", ns]).unwrap();
    wait_for("the leader works", || object(&cp, ns, "service", "ma").is_some());
    assert_eq!(lease(&cp), before);
    for (who, process) in [("the leader", &operator), ("the follower", &follower)] {
        assert!(
            process.get("/readyz").is_some_and(|(status, _)| status == 200),
            "{who}: {}",
            process.log_end()
        );
        assert!(!process.log().contains("the Lease is lost"), "{who}: {}", process.log_end());
    }
    // And the follower still knows its turn.
    operator.stop();
    follower.wait_log(&["this process leads"]);
    follower.stop();
}

#[test]
fn a_module_whose_render_failed_runs_again_when_what_it_looked_up_changes() {
    let cp = control_plane();
    let ns = cp.namespace("looked-up").unwrap();
    let modules = Modules::new();
    modules.small("010-asks").small("020-next").enable(&["asks", "next"]);
    let template = "{{ if not (lookup \"v1\" \"ConfigMap\" .Release.Namespace \"wanted\") }}{{ fail \"wanted is missing\" }}{{ end }}";
    modules.write("010-asks/templates/check.yaml", template);
    let operator = Operator::start(cp, ns.name(), modules.path());
    operator.wait_log(&["\"module\":\"asks\"", "wanted is missing"]);
    operator.wait_log(&["converged except for modules that failed", "asks"]);
    assert!(object(cp, ns.name(), "configmap", "asks").is_none());
    cp.kubectl(["create", "configmap", "wanted", "-n", ns.name()]).unwrap();
    // By itself it would be tried again after five minutes.
    wait_for("the module is released", || object(cp, ns.name(), "configmap", "asks").is_some());
    operator.wait_log(&["\"module\":\"asks\"", "reconciled after failures"]);
    operator.stop();
}

#[test]
fn a_module_runs_as_soon_as_the_hook_that_it_waits_for_has_succeeded() {
    let cp = control_plane();
    let ns = cp.namespace("hook-recovers").unwrap();
    let modules = Modules::new();
    modules.small("010-waits").enable(&["waits"]);
    let go = modules.path().join("go");
    let config = "configVersion: v1\nkubernetes: [{name: all, apiVersion: v1, kind: ConfigMap, queue: discover, namespace: {nameSelector: \
                  {matchNames: [NAMESPACE]}}, labelSelector: {matchLabels: {discover: me}}}]"
        .replace("NAMESPACE", ns.name());
    modules.hook("010-waits/hooks/discover", &config, &format!("note ran; [[ -e {} ]]", go.display()));
    let operator = Operator::start(cp, ns.name(), modules.path());
    // The module's own pause is longer than that of the hook by now.
    operator.wait_log(&["\"module\":\"waits\"", "\"failures\":4"]);
    std::fs::write(&go, "").unwrap();
    operator.wait_log(&["\"module\":\"waits\"", "the hook that it waited for has succeeded"]);
    wait_for("the module is released", || object(cp, ns.name(), "configmap", "waits").is_some());
    operator.stop();
}
