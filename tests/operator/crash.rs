//! Killed in the middle of its work, the operator finishes it on the next start.

use crate::support::{LIMIT, Modules, Operator, control_plane, history};
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
    // Twelve kills spread over that time.
    for round in 1u32..=12 {
        let ns = cp.namespace("crash").unwrap();
        let mut operator = Operator::start(cp, ns.name(), modules.path());
        std::thread::sleep(whole * round / 13);
        operator.kill();
        let before = records(ns.name());
        // A machine does not keep its pace.
        if before.iter().any(|r| r.1 == "deployed") {
            whole = whole * 9 / 10;
        } else if before.is_empty() && round > 6 {
            whole = whole * 11 / 10;
        }
        let (operator, took) = Operator::converged(cp, ns.name(), modules.path());
        println!("round {round}: killed at {before:?}, converged again in {took:?}");
        assert_eq!(history(cp, ns.name(), "alpha"), [(1, "deployed".to_owned())], "round {round}");
        assert_eq!(sizes(ns.name()), vec!["1"; 41], "round {round}");
        operator.stop();
    }
}

#[test]
fn killed_in_mid_operation_it_goes_on() {
    let cp = control_plane();
    let operations =
        [("install", "pending-install"), ("upgrade", "pending-upgrade"), ("uninstall", "uninstalling")];
    for (what, status) in operations {
        // It may be through before it is seen to be at it.
        let caught = (2..12).any(|round| {
            let ns = cp.namespace("mid").unwrap();
            let modules = Modules::new();
            modules.small("001-alpha").enable(&["alpha"]);
            modules.write("001-alpha/templates/many.yaml", &parts(150));
            if what != "install" {
                Operator::converged(cp, ns.name(), modules.path()).0.stop();
            }
            match what {
                "install" => &modules,
                "upgrade" => modules.write("001-alpha/values.yaml", &format!("alpha:\n  size: {round}\n")),
                _ => modules.enable(&[]),
            };
            let first = records(ns.name());
            let mut operator = Operator::start(cp, ns.name(), modules.path());
            let moved = || {
                let now = records(ns.name());
                let newest = || now.last().map_or_else(String::new, |record| record.1.clone());
                Ok((now != first).then(newest))
            };
            let seen = wait_until(what, LIMIT, moved).unwrap();
            operator.kill();
            let (operator, _) = Operator::converged(cp, ns.name(), modules.path());
            let sizes = sizes(ns.name());
            let states: Vec<String> = records(ns.name()).into_iter().map(|record| record.1).collect();
            let (wanted, size, count) = match what {
                "install" => (&["deployed"][..], 1, 151),
                "upgrade" => (&["superseded", "deployed"][..], round, 151),
                _ => (&[][..], 0, 0),
            };
            assert_eq!(states, wanted, "{what} {seen}");
            assert_eq!(sizes, vec![size.to_string(); count], "{what} {seen}");
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

/// What each ConfigMap of a namespace has as its size.
fn sizes(namespace: &str) -> Vec<String> {
    let path = "jsonpath={.items[*].data.size}";
    let text = control_plane().kubectl(["get", "configmaps", "-n", namespace, "-o", path]).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

fn records(namespace: &str) -> Vec<(String, String)> {
    let items = control_plane().list(&["secrets", "-n", namespace, "-l", "owner=helm"]).unwrap();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    items.iter().map(|s| (text(&s["metadata"]["name"]), text(&s["metadata"]["labels"]["status"]))).collect()
}
