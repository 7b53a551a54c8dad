//! Several operators, of which one works: hand-over, take-over, and who is ready meanwhile.

use crate::support::{Modules, Operator, control_plane, object, wait_for};

#[test]
fn one_leads_the_next_takes_its_place_and_no_third_writes() {
    let cp = control_plane();
    let ns = cp.namespace("leader").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    let start = |name: &str| {
        Operator::start_with(cp, ns.name(), modules.path(), &["--leader-election", "--pod-name", name])
    };
    let mut first = start("first");
    first.wait_converged();
    let second = start("second");
    second.wait_log(&["another process leads", "\"leader\":\"first\""]);
    wait_for("a follower is ready", || {
        second.get("/readyz") == Some((200, "ready to follow first\n".to_owned()))
    });
    let metric = |operator: &Operator, value: &str| {
        operator.get("/metrics").is_some_and(|m| m.1.contains(&format!("windlass_leader {value}")))
    };
    assert!(metric(&first, "1") && metric(&second, "0"));
    let holder =
        || object(cp, ns.name(), "lease", "windlass-operator").unwrap()["spec"]["holderIdentity"].clone();
    // Killed and started anew under its name, as a container that ran out of memory: it leads on at once.
    first.kill();
    let began = std::time::Instant::now();
    let mut first = start("first");
    first.wait_converged();
    println!("a leader that is started anew under its name has converged after {:?}", began.elapsed());
    assert_eq!(holder(), "first");
    assert!(metric(&first, "1") && metric(&second, "0") && !second.log().contains("this process leads"));
    // Killed for good: the next leads when the Lease has run out.
    first.kill();
    let took = wait_for("the second takes over", || holder() == "second");
    println!("a killed leader's place is taken after {took:?}");
    // Its Lease is of 17 s, and renewed every 2 s.
    let seconds = took.as_secs_f64();
    assert!((12.0..24.0).contains(&seconds), "{took:?}");
    second.wait_converged();
    cp.kubectl(["delete", "service", "alpha", "-n", ns.name()]).unwrap();
    wait_for("the new leader works", || object(cp, ns.name(), "service", "alpha").is_some());
    // Stopped: the next leads at once.
    let third = start("third");
    third.wait_log(&["another process leads", "\"leader\":\"second\""]);
    second.stop();
    assert_ne!(holder(), "second", "it let the Lease go before it ended");
    wait_for("the third takes over", || holder() == "third");
    // A Lease that is taken away ends its former leader.
    let patch = r#"{"spec":{"holderIdentity":"someone"}}"#;
    cp.kubectl(["patch", "lease", "windlass-operator", "-n", ns.name(), "--type=merge", "-p", patch])
        .unwrap();
    third.wait_log(&["the Lease is lost"]);
}
