//! What HelmCharts are made of: the layers of their values, when those may come, and inputs that are hostile.

use serde_json::{Value, json};
use windlass_testing::wait_until;

use super::LIMIT;
use super::helmcharts::{Running, chart, content};

/// The keys `k1` to `k7` from this one on, with the number of the layer.
fn layer(from: usize) -> Value {
    (from..=7)
        .map(|key| (format!("k{key}"), Value::from(from.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn secret(running: &Running, name: &str, values: &Value) {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": running.ns.name()},
        "stringData": {"values": values.to_string(), "more": "{}"},
    });
    running.cp.kubectl_with(["apply", "-f", "-"], &object.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_may_come_first_and_each_layer_has_its_place() {
    let mut running = Running::started().await;
    let package = content(&chart("1.0.0", &[]));
    secret(&running, "of-chart", &layer(3));
    secret(&running, "of-config", &layer(6));
    secret(&running, "ignored", &json!({"ignored": "1"}));
    let keys = json!(["values", "more"]);
    running.apply(
        "HelmChartConfig",
        "web",
        &json!({}),
        &json!({
            "valuesContent": layer(4).to_string(), "values": layer(5),
            "valuesSecrets": [{"name": "of-config", "keys": keys}],
        }),
    );
    running.chart(
        "web",
        &json!({
            "chartContent": package,
            "valuesContent": layer(1).to_string(), "values": layer(2),
            "valuesSecrets": [
                {"name": "of-chart", "keys": keys},
                {"name": "ignored", "keys": keys, "ignoreUpdates": true},
            ],
            "set": layer(7),
        }),
    );
    running.wait_revision("web", 1);
    let all = || -> Value {
        serde_json::from_str(&running.get("configmap", "web", "{.data.all}")).unwrap_or_default()
    };
    let mut expected: Value = (1..=7)
        .map(|key| (format!("k{key}"), Value::from(key.to_string())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    expected["ignored"] = "1".into();
    expected["size"] = "one".into();
    assert_eq!(all(), expected);
    // A Secret of the configuration is watched, one that ignores updates is not.
    secret(&running, "ignored", &json!({"ignored": "2"}));
    running.chart("other", &json!({"chartContent": package}));
    running.wait_revision("other", 1);
    assert_eq!(all(), expected);
    expected["new"] = "x".into();
    expected["ignored"] = "2".into();
    let mut changed = layer(6);
    changed["new"] = "x".into();
    secret(&running, "of-config", &changed);
    running.wait_revision("web", 2);
    assert_eq!(all(), expected);
    // Policies of the configuration go before those of the chart, and without it the chart's hold again.
    running.apply("HelmChartConfig", "stop", &json!({}), &json!({"failurePolicy": "abort"}));
    running
        .chart("stop", &json!({"chartContent": package, "failurePolicy": "retry", "set": {"size": "bad"}}));
    running.wait_ready("stop", "False Aborted");
    running.kubectl("delete helmchartconfig stop");
    running.wait_ready("stop", "False ReleaseFailed");
    running.stop().await;
}

/// A text of YAML that is nested so deeply.
/// A value of a Secret is no line of it.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_shown_by_no_status_and_no_event() {
    let mut running = Running::started().await;
    let fails = "{{ fail (printf \"cannot use the password %s\" .Values.pw) }}";
    let package = content(&chart("1.0.0", &[("templates/more.yaml", fails)]));
    secret(&running, "login", &json!({"pw": "wonderland-rabbit-secret"}));
    let from = json!([{"name": "login", "keys": ["values", "more"]}]);
    running.chart("web", &json!({"chartContent": package, "valuesSecrets": from}));
    running.wait_ready("web", "False RenderFailed");
    let said = || {
        let all = [
            running.get("helmchart", "web", "{.status}"),
            running.kubectl("get events -o jsonpath={.items[*].message}"),
        ];
        Ok(all.iter().all(|text| text.contains("cannot use the password ***")).then(|| all.concat()))
    };
    let all = wait_until("status and Event say why", LIMIT, said).unwrap();
    assert!(!all.contains("wonderland-rabbit-secret"), "{all}");
    running.stop().await;
}

fn deep(levels: usize) -> String {
    format!("a: {}1{}", "[".repeat(levels), "]".repeat(levels))
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_specs_are_named_and_harm_no_other() {
    let mut running = Running::started().await;
    let n = running.ns.name().to_owned();
    let package = chart("1.0.0", &[]);
    let good = content(&package);
    let itself = format!(
        "apiVersion: helm.cattle.io/v1\nkind: HelmChart\nmetadata: {{name: itself, namespace: {n}}}\nspec: {{chartContent: x, set: {{size: \"{{{{ .Release.Revision }}}}\"}}}}\n"
    );
    let circle = "{{ define \"a\" }}{{ include \"b\" . }}{{ end }}{{ define \"b\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}";
    let with = |more: Value| {
        let mut spec = json!({"chartContent": good});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    let values = |text: &str| with(json!({"valuesContent": text}));
    let template =
        |text: &str| json!({"chartContent": content(&chart("1.0.0", &[("templates/more.yaml", text)]))});
    let keys = json!(["x"]);
    let rows = [
        (
            "truncated",
            json!({"chartContent": content(&package[..package.len() - 20])}),
            "ChartInvalid",
            "spec.chart: ",
        ),
        ("half", json!({"chartContent": &good[..good.len() / 2 - 1]}), "", "spec.chart"),
        ("blank", json!({"chartContent": " "}), "ChartInvalid", "spec.chart: "),
        ("deep", values(&deep(20_000)), "ValuesInvalid", "spec.valuesContent: "),
        ("text", values("just text"), "ValuesInvalid", "spec.valuesContent: "),
        ("cut", values("a: {b: [1, 2"), "ValuesInvalid", "spec.valuesContent: "),
        ("circle", template(circle), "RenderFailed", "nested reference name: "),
        ("itself", template(&itself), "ChartInvalid", "web/templates/more.yaml has the object "),
        (
            "index",
            with(json!({"set": {"a[99999999999]": 1}})),
            "ValuesInvalid",
            "spec.set: \"a[99999999999]\": ",
        ),
        ("dots", with(json!({"set": {"a.".repeat(400): 1}})), "ValuesInvalid", "spec.set: "),
        (
            "login",
            with(json!({"authSecret": {"name": "../../kube-system/secrets/x"}})),
            "",
            "spec.authSecret: ",
        ),
        (
            "docker",
            with(json!({"dockerRegistrySecret": {"name": ""}})),
            "ConfigInvalid",
            "spec.dockerRegistrySecret: ",
        ),
        ("map", with(json!({"repoCAConfigMap": {"name": ""}})), "ConfigInvalid", "spec.repoCAConfigMap: "),
        (
            "mappath",
            with(json!({"repoCAConfigMap": {"name": "../kube-root-ca.crt"}})),
            "",
            "spec.repoCAConfigMap: ",
        ),
        (
            "nameless",
            with(json!({"valuesSecrets": [{"name": "", "keys": keys}]})),
            "ConfigInvalid",
            "spec.valuesSecrets[0]: ",
        ),
        ("spaces", json!({"chart": " ", "repo": " "}), "", "spec.chart"),
        ("scheme", json!({"chart": "web", "repo": "file:///etc"}), "", "spec.chart"),
        ("range", json!({"chart": "https://127.0.0.1:1/web.tgz", "version": ">>>"}), "", "spec.chart"),
        ("namespace", with(json!({"targetNamespace": "UPPER"})), "ConfigInvalid", "spec.targetNamespace: "),
    ];
    for (name, spec, ..) in &rows {
        running.chart(name, spec);
    }
    let long = "x".repeat(200);
    running.chart(&long, &with(json!({})));
    // One that waits for itself, and two that wait for each other.
    for (name, on) in [("self", "self"), ("one", "two"), ("two", "one")] {
        running.apply("HelmChart", name, &json!({"windlass.dev/depends-on": on}), &with(json!({})));
    }
    running.chart("good", &with(json!({})));
    running.wait_revision("good", 1);
    for (name, _, reason, part) in &rows {
        let ready = || running.condition(name, "Ready");
        running.wait(name, || ready().starts_with(&format!("False {reason}")));
        let message = running.message(name);
        assert!(message.contains(part) && message.len() < 2000, "{name}: {}: {message}", ready());
        assert!(running.size(name).is_empty(), "{name}");
    }
    running.wait_ready(&long, "False ConfigInvalid");
    assert!(
        running.message(&long).starts_with("metadata.name has 200 characters, "),
        "{}",
        running.message(&long)
    );
    for name in ["self", "one", "two"] {
        running.wait_ready(name, "False ConfigInvalid");
        assert!(running.message(name).contains("depends on itself"), "{name}");
    }
    // All can be deleted, and nothing of them is left.
    running.kubectl("delete helmchart --all");
    assert_eq!(running.kubectl("get secrets,configmaps -l owner=helm -o name"), "");
    running.stop().await;
}
