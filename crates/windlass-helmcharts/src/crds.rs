//! The CustomResourceDefinitions of HelmCharts and HelmChartConfigs, for clusters that k3s does not serve them in.

use serde_json::{Value, json};

use super::k3s_api::{CHART_KIND, CONFIG_KIND, HelmChartConfigSpec, HelmChartSpec, HelmChartStatus};
use api_types::openapi_schema;

/// Names of the definitions.
pub const NAMES: [&str; 2] = ["helmcharts.helm.cattle.io", "helmchartconfigs.helm.cattle.io"];

/// Both definitions.
#[must_use]
pub fn all() -> Vec<Value> {
    let condition = |name: &str, field: &str| format!(r#".status.conditions[?(@.type=="{name}")].{field}"#);
    let columns = json!([
        {"name": "Repo", "type": "string", "jsonPath": ".spec.repo"},
        {"name": "Chart", "type": "string", "jsonPath": ".spec.chart"},
        {"name": "Version", "type": "string", "jsonPath": ".spec.version"},
        {"name": "TargetNamespace", "type": "string", "jsonPath": ".spec.targetNamespace"},
        {"name": "Bootstrap", "type": "boolean", "jsonPath": ".spec.bootstrap"},
        {"name": "Failed", "type": "string", "jsonPath": condition("Failed", "status")},
        {"name": "Ready", "type": "string", "jsonPath": condition("Ready", "status")},
        {"name": "Job", "type": "string", "jsonPath": ".status.jobName", "priority": 10},
    ]);
    let mut chart = definition(
        ("helmcharts", CHART_KIND, "hc"),
        "A chart that is kept deployed.",
        [
            ("spec", openapi_schema::of::<HelmChartSpec>()),
            ("status", openapi_schema::of::<HelmChartStatus>()),
        ],
    );
    let version = &mut chart["spec"]["versions"][0];
    version["additionalPrinterColumns"] = columns;
    version["subresources"] = json!({"status": {}});
    let config = definition(
        ("helmchartconfigs", CONFIG_KIND, "hcc"),
        "What is configured beside the HelmChart of the same name.",
        [("spec", openapi_schema::of::<HelmChartConfigSpec>())],
    );
    vec![chart, config]
}

fn definition<const N: usize>(
    (plural, kind, short): (&str, &str, &str),
    about: &str,
    fields: [(&str, Value); N],
) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.helm.cattle.io")},
        "spec": {
            "group": "helm.cattle.io",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
                "shortNames": [short],
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": openapi_schema::of_object(about, fields)},
            }],
        },
    })
}

/// Whether a definition of HelmCharts keeps the fields of the status that k3s' own does not have.
#[must_use]
pub fn keeps_own_status(definition: &Value) -> bool {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let mut served = versions.filter(|version| version["name"] == "v1");
    served.any(|version| {
        let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
        let fields = &status["properties"];
        status["x-kubernetes-preserve-unknown-fields"] == true
            || fields["observedGeneration"].is_object()
                && fields["conditions"]["items"]["properties"]["lastTransitionTime"].is_object()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_have_the_fields_of_the_types() {
        let all = all();
        let names: Vec<&str> = all.iter().filter_map(|crd| crd["metadata"]["name"].as_str()).collect();
        assert_eq!(names, NAMES);
        let short = |crd: &Value| crd["spec"]["names"]["shortNames"].clone();
        assert_eq!([short(&all[0]), short(&all[1])], [json!(["hc"]), json!(["hcc"])]);
        // k3s' own, and whether the chart is ready.
        let columns = all[0]["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap();
        let columns: Vec<_> =
            columns.iter().map(|one| (one["name"].as_str().unwrap(), &one["priority"])).collect();
        let (none, ten) = (&Value::Null, &json!(10));
        let shown = ["Repo", "Chart", "Version", "TargetNamespace", "Bootstrap", "Failed", "Ready"];
        assert_eq!(columns[..7], shown.map(|name| (name, none)));
        assert_eq!(columns[7..], [("Job", ten)]);
        let properties =
            |crd: &Value| crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].clone();
        let spec = &properties(&all[0])["spec"];
        let fields = &spec["properties"];
        assert_eq!(fields["set"]["additionalProperties"]["x-kubernetes-int-or-string"], true);
        assert_eq!(fields["values"]["x-kubernetes-preserve-unknown-fields"], true);
        for name in
            ["repoCA", "repoCAConfigMap", "insecureSkipTLSVerify", "plainHTTP", "backOffLimit", "driver"]
        {
            assert!(fields[name].is_object(), "{name}");
        }
        assert_eq!(spec["x-kubernetes-validations"][0]["optionalOldSelf"], true);
        assert!(properties(&all[1])["spec"]["properties"]["valuesSecrets"].is_object());
        assert!(keeps_own_status(&all[0]) && !keeps_own_status(&all[1]));
    }

    #[test]
    fn the_status_of_k3s_has_no_fields_of_ours() {
        let version = |status: Value| json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"status": status}}}}]}});
        let condition = json!({"type": "array", "items": {"properties": {"type": {}, "status": {}, "reason": {}, "message": {}}}});
        let theirs =
            json!({"type": "object", "properties": {"jobName": {"type": "string"}, "conditions": condition}});
        assert!(!keeps_own_status(&version(theirs)));
        assert!(keeps_own_status(&version(json!({"x-kubernetes-preserve-unknown-fields": true}))));
        assert!(!keeps_own_status(&Value::Null));
    }
}
