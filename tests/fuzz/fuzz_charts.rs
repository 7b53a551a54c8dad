//! Nothing in a chart or in `watches.yaml` makes an operator of chart resources panic, hang or eat the machine; and of what a chart
//! holds, a definition is made whose schema the API server takes.

use std::time::Duration;

use chart_compat::chart::{Chart, File, load_files};
use chart_compat::profile::Profile;
use serde_json::json;
use windlass_chartresource::WatchesFile;
use windlass_charts::{DefinitionOptions, KindNames, Overlay, Switches, define, violations};
use windlass_differential::Family;

use super::{ends, fuzz, texts};

/// A chart of one file beside `Chart.yaml`; `None` if it is not a chart.
fn chart(file: &str, text: &[u8]) -> Option<Chart> {
    let files = vec![
        File::new("Chart.yaml".to_owned(), b"apiVersion: v2\nname: web\nversion: 1.2.3\n".to_vec()),
        File::new(file.to_owned(), text.to_vec()),
    ];
    load_files(files, Profile::Helm4, &mut |_| {}).ok()
}

fn names() -> KindNames {
    KindNames::new("web", None, None, None, None).unwrap()
}

/// Makes the definition of a chart, and holds its schema to the rules of the API server.
fn assert_definable(chart: &Chart, overlay: Option<Overlay>) {
    let Ok(definition) = define(chart, &DefinitionOptions { names: names(), overlay }) else { return };
    let schema = &definition.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let broken = violations(&schema["properties"]["spec"]);
    assert!(broken.is_empty(), "{broken:?}: {schema}");
}

#[test]
fn definitions_of_charts() {
    let mut seeds = texts("charts", &|path| path.ends_with("values.yaml"));
    seeds.push(
        b"# -- Replicas\nreplicas: 1 # @schema type:integer\n## @param image.tag [string] Tag\nimage: {tag: x}\n# @schema\n# enum: [a, b]\n# \
          @schema\nmode: a\nlist: [{a: 1}, {a: x}]\n"
            .to_vec(),
    );
    fuzz("definitions from values", &seeds, &[Family::Yaml], |text| {
        if let Some(chart) = chart("values.yaml", text) {
            assert_definable(&chart, None);
        }
    });
    let mut seeds = texts("charts", &|path| path.ends_with("values.schema.json"));
    seeds.push(
        json!({
            "$defs": {"a": {"type": ["string", "null"], "pattern": "^a+$"}, "b": {"allOf": [{"$ref": "#/$defs/a"}, {"minLength": 1}]}},
            "type": "object", "required": ["x"], "additionalProperties": false,
            "properties": {
                "x": {"$ref": "#/$defs/b"}, "y": {"oneOf": [{"type": "integer"}, {"type": "string"}]}, "z": {"not": {"const": 1}},
                "l": {"type": "array", "items": {"properties": {"p": {"enum": [1, "a", null]}}}, "uniqueItems": true},
                "m": {"type": "object", "patternProperties": {"^a": {}}, "additionalProperties": {"type": "number", "multipleOf": 0.5}},
            },
        })
        .to_string()
        .into_bytes(),
    );
    fuzz("definitions from schemas", &seeds, &[], |text| {
        if let Some(chart) = chart("values.schema.json", text) {
            assert_definable(&chart, None);
        }
    });
    let overlay = b"properties:\n  image:\n    properties:\n      pullSecret: {type: string, description: Secret}\n    required: [pullSecret]\n  x: null\n";
    let plain = chart("values.yaml", b"image: {tag: x}\nx: 1\n").unwrap();
    fuzz("overlays of schemas", &[overlay.to_vec()], &[Family::Yaml], |text| {
        if let Ok(overlay) = Overlay::read("overlay.yaml", text) {
            assert_definable(&plain, Some(overlay));
        }
    });
}

#[test]
fn switches_of_charts() {
    let seeds =
        texts("charts", &|path| ends(path, "tpl") || path.parent().is_some_and(|d| d.ends_with("templates")));
    fuzz("value switches", &seeds, &[Family::Template], |text| {
        let Some(chart) = chart("templates/a.yaml", text) else { return };
        let Ok(switches) = Switches::of(&chart, &json!({}), Profile::Helm4) else { return };
        drop(switches.counts());
    });
}

#[test]
fn watches_files() {
    let seeds = [
        "- {group: web.example.com, version: v1, kind: Web, chart: charts/web}\n",
        "- group: web.example.com\n  version: v1\n  kind: Web\n  chart: web.tgz\n  watchDependentResources: false\n  overrideValues: {image.name: \
         $IMAGE, b: '{{ \"x\" | upper }}', c: $$, 'd[0]': '${IMAGE}'}\n  selector: {matchLabels: {a: b}, matchExpressions: [{key: c, operator: \
         Exists}]}\n  reconcilePeriod: 5m30s\n  dryRunOption: server\n  maxConcurrentReconciles: 3\n",
    ];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect();
    fuzz("watches files", &seeds, &[Family::Yaml], |text| {
        let text = String::from_utf8_lossy(text);
        let variable = |name: &str| (name == "IMAGE").then(|| "web:1".to_owned());
        drop(WatchesFile::parse(&text, Duration::from_secs(60), variable));
    });
}
