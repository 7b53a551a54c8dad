//! The peer's metrics as a scrape sees them.

use crate::support::{Modules, Operator, control_plane, object, wait_for};

#[test]
fn what_happens_is_counted_under_the_peers_names() {
    let cp = control_plane();
    let ns = cp.namespace("metrics").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-broken").small("003-gamma").enable(&["alpha", "broken", "gamma"]);
    modules.write("002-broken/templates/bad.yaml", "{{ fail \"no\" }}");
    let config = format!(
        "configVersion: v1\nonStartup: 1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [watched]}}, \
         namespace: {{nameSelector: {{matchNames: [{}]}}}}, jqFilter: .data.a, queue: own}}]",
        ns.name()
    );
    cp.kubectl(["create", "configmap", "watched", "-n", ns.name(), "--from-literal=a=1"]).unwrap();
    modules.hook("001-alpha/hooks/one", &config, "");
    let operator =
        Operator::start_with(cp, ns.name(), modules.path(), &["--prometheus-metrics-prefix", "mine_"]);
    operator.wait_converged();
    let value = |series: &str| -> Option<f64> {
        let text = operator.get("/metrics").unwrap().1;
        let line = text.lines().find_map(|l| l.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
        line.map(|n| n.parse().unwrap())
    };
    let hook = "hook=\"001-alpha/hooks/one\"";
    for (series, least) in [
        ("mine_live_ticks".to_owned(), 1.0),
        (format!("mine_binding_count{{module=\"alpha\",{hook}}}"), 2.0),
        ("mine_module_run_seconds_count{module=\"alpha\",activation=\"OperatorStartup\"}".to_owned(), 1.0),
        ("mine_module_helm_seconds_count{module=\"alpha\",activation=\"OperatorStartup\"}".to_owned(), 1.0),
        (
            "mine_helm_operation_seconds_count{module=\"alpha\",activation=\"OperatorStartup\",operation=\"template\"}"
                .to_owned(),
            1.0,
        ),
        ("mine_module_run_errors_total{module=\"broken\"}".to_owned(), 1.0),
        ("mine_convergence_total{activation=\"OperatorStartup\"}".to_owned(), 1.0),
        ("mine_mm_module_info{module=\"alpha\",enabled=\"true\",critical=\"true\"}".to_owned(), 1.0),
        ("mine_mm_module_enabled{module=\"alpha\",version=\"0.1.0\"}".to_owned(), 1.0),
        (
            format!("mine_kube_snapshot_objects{{module=\"alpha\",{hook},binding=\"maps\",queue=\"own\",kind=\"ConfigMap\"}}"),
            1.0,
        ),
        (
            format!(
                "mine_kube_jq_filter_duration_seconds_count{{module=\"alpha\",{hook},binding=\"maps\",queue=\"own\",kind=\"ConfigMap\"}}"
            ),
            1.0,
        ),
        (
            format!(
                "mine_module_hook_success_total{{module=\"alpha\",{hook},binding=\"onStartup\",queue=\"main\",activation=\"OperatorStartup\"}}"
            ),
            1.0,
        ),
        ("mine_tasks_queue_length{queue=\"main\"}".to_owned(), 0.0),
        ("mine_tasks_queue_length{queue=\"own\"}".to_owned(), 0.0),
        ("windlass_release_revision{module=\"alpha\"}".to_owned(), 1.0),
    ] {
        let found = value(&series);
        assert!(found.is_some_and(|n| n >= least), "{series}: {found:?}\n{}", operator.get("/metrics").unwrap().1);
    }
    cp.kubectl(["delete", "service", "gamma", "-n", ns.name()]).unwrap();
    wait_for("it is back", || object(cp, ns.name(), "service", "gamma").is_some());
    let absent = format!(
        "mine_modules_absent_resources_total{{module=\"gamma\",resource=\"{}/Service/gamma\"}}",
        ns.name()
    );
    wait_for("it is counted", || value(&absent) == Some(1.0));
    cp.kubectl(["create", "configmap", "addon-operator", "-n", ns.name(), "--from-literal=alpha=size: 2"])
        .unwrap();
    let changed = "mine_module_run_seconds_count{module=\"alpha\",activation=\"KubeConfigChanged\"}";
    wait_for("the run is counted", || value(changed) == Some(1.0));
    operator.stop();
}
