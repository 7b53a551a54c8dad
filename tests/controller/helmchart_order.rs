//! Which HelmCharts come first, and which ones `doctor` looks at.

use serde_json::json;

use super::helmcharts::{Running, chart, content};

#[tokio::test(flavor = "multi_thread")]
async fn charts_for_the_bootstrap_come_first() {
    let mut running = Running::prepare().await;
    running.concurrency = 1;
    let package = content(&chart("1.0.0", &[]));
    let ours = json!({"helmcharts.cattle.io/managed-by": "helm-controller"});
    let names = ["a", "b", "c", "d", "x-network", "y-cloud"];
    for name in names {
        let spec = json!({"chartContent": package, "bootstrap": name.contains('-')});
        running.apply("HelmChart", name, &ours, &spec);
    }
    let mark = running.cp.audit_mark().unwrap();
    running.start().await;
    for name in names {
        running.wait_revision(name, 1);
    }
    let writes = running.cp.writes_since(mark).unwrap();
    let created: Vec<&str> = writes
        .iter()
        .filter(|e| e.namespace == running.ns.name() && e.resource == "secrets" && e.verb == "create")
        .filter_map(|e| e.name.strip_prefix("sh.helm.release.v1.")?.strip_suffix(".v1"))
        .collect();
    assert_eq!(created.len(), names.len(), "{created:?}");
    // One may have begun before the others were known.
    let begun = created.iter().take_while(|name| !name.contains('-')).count();
    assert!(begun <= 1 && created[begun..begun + 2] == ["x-network", "y-cloud"], "{created:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_do_not_wait_until_a_chart_for_the_bootstrap_is_ready() {
    let mut running = Running::prepare().await;
    running.concurrency = 1;
    // Its nodes are ready once it runs.
    let network = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: network}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      nodeSelector: {windlass.dev/none: x}\n      containers: [{name: c, image: i}]\n";
    let package = content(&chart("1.0.0", &[("templates/network.yaml", network)]));
    running.chart("network", &json!({"chartContent": package, "bootstrap": true}));
    running.chart("web", &json!({"chartContent": content(&chart("1.0.0", &[]))}));
    running.start().await;
    running.wait_ready("network", "Unknown Progressing");
    running.wait_revision("web", 1);
    assert_eq!(running.condition("network", "Ready"), "Unknown Progressing");
    assert!(
        running.message("network").contains("its objects are not ready yet"),
        "{}",
        running.message("network")
    );
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_looks_at_one_namespace_or_all() {
    let running = Running::prepare().await;
    let other = running.cp.namespace("hc-other").unwrap();
    let package = content(&chart("1.0.0", &[]));
    running.chart("here", &json!({"chartContent": package}));
    let there = json!({
        "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
        "metadata": {"name": "there", "namespace": other.name()}, "spec": {"chartContent": package},
    });
    running.cp.kubectl_with(["apply", "--server-side", "-f", "-"], &there.to_string()).unwrap();
    let shown = |flags: &str| {
        let out = running.run(&format!("doctor helmcharts {flags}"));
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
    };
    let (here, there) = (format!("{}/here", running.ns.name()), format!("{}/there", other.name()));
    let text = shown("");
    assert!(text.contains(&here) && !text.contains(&there), "{text}");
    let text = shown("--all-namespaces");
    assert!(text.contains(&here) && text.contains(&there), "{text}");
}
