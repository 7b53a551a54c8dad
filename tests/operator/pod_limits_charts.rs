//! The hostile charts and values of [`super::pod_limits`] in k3s' HelmCharts, in ChartResources, and in objects of their kinds.

use std::net::SocketAddr;

use serde_json::{Value, json};
use windlass_chartresource::chart_resource_definition::crd;
use windlass_helmcharts::crds;

use super::memory_limit::MemoryLimit;
use super::pod_limits::{
    DATA_SEGMENT_KIB, Files, MEMORY, Namespace, TEMPLATES, chart, charts, packed, start, texts,
};
use super::support::{Modules, Operator, control_plane};

const HELM_CHARTS: &str = "helmcharts.helm.cattle.io";
const CHART_RESOURCES: &str = "chartresources.windlass.dev";
/// The group of the kinds of this test.
const GROUP: &str = "pod-limits.example.com";

/// Charts by the files that a server has, and what was made of them.
struct ChartKinds<'a> {
    own: &'a Namespace<'a>,
    operator: &'a Operator,
    files: &'a Files,
    address: SocketAddr,
    /// How many objects had a hostile input.
    inputs: usize,
}

impl ChartKinds<'_> {
    /// The URL of a new file.
    fn url(&self, name: &str, bytes: Vec<u8>) -> String {
        self.files.put(name, bytes);
        format!("http://{}/{name}", self.address)
    }

    fn helm_chart(&self, name: &str, spec: &Value) {
        self.own.apply(&json!({
            "apiVersion": "helm.cattle.io/v1", "kind": "HelmChart", "metadata": {"name": name}, "spec": spec,
        }));
    }

    /// A ChartResource whose kind is named like itself.
    fn chart_resource(&self, name: &str, url: &str) -> String {
        let kind = kind_name(name);
        let resource = format!("{}s.{GROUP}", kind.to_lowercase());
        self.own.apply(&json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "ChartResource", "metadata": {"name": resource},
            "spec": {"chart": {"name": url}, "kind": {"group": GROUP, "kind": kind, "plural": format!("{}s", kind.to_lowercase())}},
        }));
        resource
    }

    fn object(&self, name: &str) {
        self.own.apply(&json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": kind_name(name), "metadata": {"name": name}, "spec": {},
        }));
    }

    fn wait(&mut self, resource: &str, names: &[String], status: &str) {
        self.own.wait_all(self.operator, resource, names, status);
        println!(
            "{resource}: {} KiB at most, {} KiB of its own now",
            self.operator.peak_memory_kib(),
            self.operator.heap_kib()
        );
        self.inputs += if status == "False" { names.len() } else { 0 };
    }

    /// HelmCharts whose chart, values or further configuration is hostile.
    fn helm_charts(&mut self) {
        let good = self.url("k3s-good.tgz", packed("chart/", &chart("demo", &[])));
        let mut names = Vec::new();
        for (name, bytes) in charts() {
            let (name, file) = (format!("k3s-{name}"), format!("k3s-{name}.tgz"));
            self.helm_chart(&name, &json!({"chart": self.url(&file, bytes), "timeout": "20s"}));
            names.push(name);
        }
        for (name, text) in texts() {
            let (values, config) = (format!("k3s-values-{name}"), format!("k3s-config-{name}"));
            self.helm_chart(&values, &json!({"chart": good, "valuesContent": text}));
            self.own.apply(&json!({
                "apiVersion": "helm.cattle.io/v1", "kind": "HelmChartConfig", "metadata": {"name": config},
                "spec": {"valuesContent": text},
            }));
            self.helm_chart(&config, &json!({"chart": good}));
            names.extend([values, config]);
        }
        self.wait(HELM_CHARTS, &names, "False");
        self.helm_chart("k3s-good", &json!({"chart": good}));
        self.wait(HELM_CHARTS, &["k3s-good".to_owned()], "True");
    }

    /// Kinds of hostile charts, and an object of each kind whose chart is hostile only when it is rendered.
    fn chart_resources(&mut self) {
        let is_late = |name: &str| {
            ["objects", "documents", "schema"].contains(&name)
                || TEMPLATES.iter().any(|(template, _)| name == format!("template-{template}"))
        };
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for (name, bytes) in charts() {
            let url = self.url(&format!("kind-{name}.tgz"), bytes);
            let resource = self.chart_resource(&name, &url);
            if is_late(&name) { late.push((name, resource)) } else { early.push(resource) }
        }
        self.wait(CHART_RESOURCES, &early, "False");
        let resources: Vec<_> = late.iter().map(|(_, resource)| resource.clone()).collect();
        self.wait(CHART_RESOURCES, &resources, "True");
        for (name, resource) in &late {
            self.object(name);
            self.wait(resource, std::slice::from_ref(name), "False");
        }
        let good = self.url("kind-good.tgz", packed("chart/", &chart("demo", &[])));
        let resource = self.chart_resource("good", &good);
        self.wait(CHART_RESOURCES, std::slice::from_ref(&resource), "True");
        self.object("good");
        self.wait(&resource, &["good".to_owned()], "True");
    }
}

/// A kind for a chart: `values-deep` is `PodValuesDeep`.
fn kind_name(chart: &str) -> String {
    let words = chart.split('-').map(|word| word[..1].to_uppercase() + &word[1..]);
    format!("Pod{}", words.collect::<String>())
}

#[test]
fn hostile_charts_cost_their_kind_or_object_an_error_at_the_memory_of_our_pod() {
    let cp = control_plane();
    let ns = cp.namespace("pod-charts").unwrap();
    let (own, files, modules) = (Namespace { cp, name: ns.name() }, Files::default(), Modules::new());
    let address = files.serve();
    let limit = MemoryLimit::new(MEMORY, DATA_SEGMENT_KIB);
    for definition in crds::all().into_iter().chain([crd()]) {
        cp.establish(&definition).unwrap();
    }
    let (operator, _storage) = start(&limit, &own, &modules, "helmcharts,charts");
    let mut kinds = ChartKinds { own: &own, operator: &operator, files: &files, address, inputs: 0 };
    kinds.helm_charts();
    kinds.chart_resources();
    let (peak, kept) = (operator.peak_memory_kib(), operator.heap_kib());
    println!(
        "{} inputs, {peak} KiB at most, code included; {kept} KiB of memory of its own at the end",
        kinds.inputs
    );
    assert!(kept << 10 < MEMORY / 4 * 3, "{kept} KiB are kept of what hostile inputs took");
    operator.stop();
    drop(limit);
}
