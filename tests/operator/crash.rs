//! Killed in the middle of its work, the operator finishes it on the next start.

use crate::support::{LIMIT, Modules, Operator, control_plane, history, object};
use windlass_testing::wait_until;

#[test]
fn killed_in_mid_apply_it_converges_on_the_next_start() {
    let cp = control_plane();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    modules.write("001-alpha/templates/many.yaml", &parts(40));
    // How long it takes undisturbed tells where its middle lies.
    let calm = cp.namespace("calm").unwrap();
    let (operator, mut whole) = Operator::converged(cp, calm.name(), modules.path());
    operator.stop();
    let mut caught = 0;
    // Twelve kills spread over that time, and more until one fell between the record and its end.
    for round in 1u32..=60 {
        if round > 12 && caught > 0 {
            break;
        }
        let ns = cp.namespace("crash").unwrap();
        let mut operator = Operator::start(cp, ns.name(), modules.path());
        std::thread::sleep(whole * (round % 13) / 13);
        operator.kill();
        let before = records(ns.name());
        caught += usize::from(before.iter().any(|r| r.1.starts_with("pending")));
        // A machine does not keep its pace.
        if before.iter().any(|r| r.1 == "deployed") {
            whole = whole * 9 / 10;
        } else if before.is_empty() && round % 13 > 6 {
            whole = whole * 11 / 10;
        }
        let (operator, took) = Operator::converged(cp, ns.name(), modules.path());
        println!("round {round}: killed at {before:?}, converged again in {took:?}");
        assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())], "round {round}");
        for i in 0..40 {
            assert!(
                object(cp, ns.name(), "configmap", &format!("part-{i}")).is_some(),
                "round {round}: part-{i}"
            );
        }
        operator.stop();
    }
    assert!(caught > 0, "no round killed the operator in the middle");
}

#[test]
fn killed_in_mid_upgrade_or_uninstall_it_goes_on() {
    let cp = control_plane();
    for (what, status) in [("upgrade", "pending-upgrade"), ("uninstall", "uninstalling")] {
        // It may be through before it is seen to be at it.
        let caught = (2..12).any(|round| {
            let ns = cp.namespace("mid").unwrap();
            let modules = Modules::new();
            modules.small("001-alpha").enable(&["alpha"]);
            modules.write("001-alpha/templates/many.yaml", &parts(150));
            let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
            operator.stop();
            match what {
                "upgrade" => modules.write("001-alpha/values.yaml", &format!("alpha:\n  size: {round}\n")),
                _ => modules.enable(&[]),
            };
            let mut operator = Operator::start(cp, ns.name(), modules.path());
            let moved = || {
                let mut all = records(ns.name());
                let single = all.len() == 1;
                let newest = all.pop().map(|record| record.1);
                let before = newest.as_deref() == Some("deployed") && single;
                Ok((!before).then(|| newest.unwrap_or_default()))
            };
            let seen = wait_until(what, LIMIT, moved).unwrap();
            operator.kill();
            let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
            let objects =
                cp.kubectl(["get", "configmaps", "-n", ns.name(), "-o", "jsonpath={.items[*].data.size}"]);
            let sizes: Vec<String> = objects.unwrap().split_whitespace().map(str::to_owned).collect();
            let states: Vec<String> = records(ns.name()).into_iter().map(|record| record.1).collect();
            if what == "upgrade" {
                assert_eq!(states, ["superseded", "deployed"], "{seen}");
                assert_eq!(sizes, vec![round.to_string(); 151], "{seen}");
            } else {
                assert_eq!((states, sizes), (vec![], vec![]), "{seen}");
            }
            operator.stop();
            seen == status
        });
        assert!(caught, "no round killed the operator in the middle of an {what}");
    }
}

/// Many objects, so that there is a middle to be killed in.
fn parts(count: usize) -> String {
    let part = |i| {
        format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: part-{i}\ndata: {{size: {{{{ .Values.alpha.size | toString | quote }}}}}}\n"
        )
    };
    (0..count).map(part).collect()
}

fn records(namespace: &str) -> Vec<(String, String)> {
    let items = control_plane().list(&["secrets", "-n", namespace, "-l", "owner=helm"]).unwrap();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    items.iter().map(|s| (text(&s["metadata"]["name"]), text(&s["metadata"]["labels"]["status"]))).collect()
}
