//! Killed in the middle of its work, the operator finishes it on the next start.

use crate::support::{Modules, Operator, control_plane, history, object};

#[test]
fn killed_in_mid_apply_it_converges_on_the_next_start() {
    let cp = control_plane();
    let modules = Modules::new();
    modules.small("001-alpha").enable(&["alpha"]);
    // Many objects, so that there is a middle to be killed in.
    let objects: String = (0..40)
        .map(|i| format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: part-{i}\ndata: {{size: {{{{ .Values.alpha.size | toString | quote }}}}}}\n"))
        .collect();
    modules.write("001-alpha/templates/many.yaml", &objects);
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

fn records(namespace: &str) -> Vec<(String, String)> {
    let args = ["get", "secrets", "-n", namespace, "-l", "owner=helm", "-o", "json"];
    let list: serde_json::Value = serde_json::from_str(&control_plane().kubectl(args).unwrap()).unwrap();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap();
    items.iter().map(|s| (text(&s["metadata"]["name"]), text(&s["metadata"]["labels"]["status"]))).collect()
}
