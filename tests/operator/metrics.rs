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

/// All names of addon-operator's and shell-operator's tables, each with whether this test's operator has something to count.
const NAMES: [(&str, bool); 58] = [
    ("live_ticks", true),
    ("config_values_errors_total", true),
    ("modules_discover_errors_total", true),
    ("binding_count", true),
    ("module_run_seconds", true),
    ("convergence_seconds", true),
    ("convergence_total", true),
    ("module_run_errors_total", true),
    ("module_delete_errors_total", false),
    ("modules_helm_release_redeployed_total", true),
    ("modules_absent_resources_total", true),
    ("module_helm_seconds", true),
    ("helm_operation_seconds", true),
    ("helm_fallback_total", false),
    ("mm_module_info", true),
    ("mm_module_enabled", true),
    ("mm_module_maintenance", false),
    ("module_hook_run_seconds", true),
    ("module_hook_run_user_cpu_seconds", true),
    ("module_hook_run_sys_cpu_seconds", true),
    ("module_hook_run_max_rss_bytes", true),
    ("module_hook_success_total", true),
    ("module_hook_errors_total", true),
    ("module_hook_allowed_errors_total", true),
    ("module_hook_run_success_total", true),
    ("module_hook_run_errors_total", true),
    ("module_hook_run_allowed_errors_total", true),
    ("global_hook_run_seconds", true),
    ("global_hook_run_user_cpu_seconds", true),
    ("global_hook_run_sys_cpu_seconds", true),
    ("global_hook_run_max_rss_bytes", true),
    ("global_hook_success_total", true),
    ("global_hook_errors_total", false),
    ("global_hook_allowed_errors_total", false),
    ("global_hook_run_success_total", true),
    ("global_hook_run_errors_total", false),
    ("global_hook_run_allowed_errors_total", false),
    ("tasks_queue_length", true),
    ("tasks_queue_head_info", false),
    ("task_wait_in_queue_seconds_total", true),
    ("kube_snapshot_objects", true),
    ("kube_jq_filter_duration_seconds", true),
    ("kube_event_duration_seconds", true),
    ("kubernetes_client_watch_errors_total", false),
    ("kubernetes_client_request_result_total", true),
    ("kubernetes_client_request_latency_seconds", true),
    ("binding_monitor_missing_total", false),
    ("factory_informer_dead_total", false),
    ("hook_run_seconds", true),
    ("hook_run_errors_total", true),
    ("hook_run_allowed_errors_total", true),
    ("hook_run_success_total", true),
    ("hook_run_user_cpu_seconds", true),
    ("hook_run_sys_cpu_seconds", true),
    ("hook_run_max_rss_bytes", true),
    ("hook_enable_kubernetes_bindings_seconds", true),
    ("hook_enable_kubernetes_bindings_errors_total", false),
    ("hook_enable_kubernetes_bindings_success", true),
];

#[test]
fn every_name_of_the_peers_is_there_and_counts() {
    let cp = control_plane();
    let ns = cp.namespace("names").unwrap();
    let modules = Modules::new();
    let config = |more: &str| {
        format!(
            "configVersion: v1\nkubernetes: [{{name: maps, kind: ConfigMap, nameSelector: {{matchNames: [watched]}}, namespace: \
             {{nameSelector: {{matchNames: [{}]}}}}, jqFilter: .data.a, queue: own}}]\n{more}",
            ns.name()
        )
    };
    let root = "alphaEnabled: true\nbrokenEnabled: true\ngammaEnabled: true\n";
    modules
        .small("modules/001-alpha")
        .hook("modules/001-alpha/hooks/watches", &config("onStartup: 1"), "")
        .hook(
            "modules/001-alpha/hooks/may",
            "configVersion: v1\nschedule: [{crontab: '* * * * * *', allowFailure: true, queue: may}]",
            "exit 1",
        )
        .hook(
            "modules/001-alpha/hooks/must",
            "configVersion: v1\nschedule: [{crontab: '* * * * * *', queue: must}]",
            "exit 1",
        )
        // A module whose hooks run all the time decides itself on what is deleted: this one has none.
        .small("modules/003-gamma")
        .small("modules/002-broken")
        .write("modules/002-broken/templates/bad.yaml", "{{ fail \"no\" }}")
        .write("modules/003-module-1/Chart.yaml", "")
        .write("modules/values.yaml", root)
        .hook("global/hooks/up", &config("onStartup: 1"), "");
    cp.kubectl(["create", "configmap", "watched", "-n", ns.name(), "--from-literal=a=1"]).unwrap();
    let broken = "--from-literal=nobody=a: 1";
    cp.kubectl(["create", "configmap", "addon-operator", "-n", ns.name(), broken]).unwrap();
    let global = modules.path().join("global").display().to_string();
    let operator = Operator::start_with(
        cp,
        ns.name(),
        &modules.path().join("modules"),
        &["--global-hooks-dir", &global, "--prometheus-metrics-prefix", "p_"],
    );
    operator.wait_converged();
    // For 2 s after a global hook a deletion may be its doing, and is left to the module's next run: a tick takes 10.
    let ticks = || {
        let text = operator.get("/metrics").unwrap().1;
        let value = text.lines().find_map(|l| l.strip_prefix("p_live_ticks ")?.trim().parse::<f64>().ok());
        value.unwrap_or_default()
    };
    let begun = ticks();
    wait_for("a tick after the hooks of the start", || ticks() > begun);
    cp.kubectl(["delete", "service", "gamma", "-n", ns.name()]).unwrap();
    wait_for("it is back", || object(cp, ns.name(), "service", "gamma").is_some());
    let missing = || {
        let text = operator.get("/metrics").unwrap().1;
        let has_series = |name: &str| {
            let full = format!("p_{name}");
            text.lines().any(|l| {
                let rest = l.strip_prefix(&full);
                rest.is_some_and(|r| ["{", " ", "_count{", "_count "].iter().any(|s| r.starts_with(s)))
            })
        };
        let is_missing = |(name, counts): &&(&str, bool)| {
            !text.contains(&format!("# TYPE p_{name} ")) || *counts && !has_series(name)
        };
        NAMES.iter().filter(is_missing).map(|(name, _)| *name).collect::<Vec<_>>()
    };
    let mut last = Vec::new();
    let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("all of them", || {
            last = missing();
            last.is_empty()
        })
    }));
    assert!(all.is_ok(), "missing: {last:?}\n{}", operator.get("/metrics").unwrap().1);
    let text = operator.get("/metrics").unwrap().1;
    let request = |parts: &[&str]| text.lines().any(|l| parts.iter().all(|p| l.contains(p)));
    assert!(request(&[
        "p_kubernetes_client_request_result_total{component=\"main\",code=\"200\",method=\"GET\",host=\""
    ]));
    let url = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}\"}";
    assert!(request(&[
        "p_kubernetes_client_request_latency_seconds_count{component=\"main\",verb=\"PATCH\",url=\"https://",
        url
    ]));
    assert!(!text.contains(ns.name()) || !request(&["kubernetes_client", ns.name()]), "no names in the ways");
    operator.stop();
}

#[test]
fn the_task_that_comes_first_is_told() {
    let cp = control_plane();
    let ns = cp.namespace("head").unwrap();
    let modules = Modules::new();
    modules.small("001-alpha").small("002-beta").enable(&["alpha", "beta"]);
    modules.hook("001-alpha/hooks/hangs", "configVersion: v1\nbeforeHelm: 1", "note hangs; sleep 600 & wait");
    let operator = Operator::start(cp, ns.name(), modules.path());
    operator.wait_note("hangs hangs");
    let head = "addon_operator_tasks_queue_head_info{queue=\"main\",module=\"alpha\",task_type=\"ModuleRun\",hook=\"\"} 1";
    wait_for("it is told", || operator.get("/metrics").unwrap().1.contains(head));
    operator.stop();
}
