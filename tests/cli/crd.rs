//! CustomResourceDefinitions of charts: a real API server takes them, and objects with what they require.

use std::path::Path;
use std::time::Duration;

use super::{chart, control_plane, fails, run, windlass};
use chart_compat::profile::Profile;
use serde_json::{Value, json};
use windlass_charts::{DefinitionOptions, KindNames, define};
use windlass_testing::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// Waits until definitions are established. New ones have no conditions yet, which `kubectl wait` takes for an error.
pub(crate) fn wait_established(names: &[&str]) {
    let cp = control_plane();
    for name in names {
        wait_until(&format!("{name} is established"), LIMIT, || {
            let live = cp.get(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"))?;
            let mut conditions = live["status"]["conditions"].as_array().into_iter().flatten();
            Ok(conditions.any(|c| c["type"] == "Established" && c["status"] == "True").then_some(()))
        })
        .unwrap();
    }
}

/// Applies the definition of a chart under a group of its own, and its example. Gives the resource.
fn established(chart: &str, group: &str, namespace: &str) -> String {
    let cp = control_plane();
    let crd = windlass(&["crd", chart, "--group", group]);
    let made = cp.kubectl_with(["apply", "--server-side", "-o", "json", "-f", "-"], &crd);
    let made: Value = serde_json::from_str(&made.unwrap_or_else(|e| panic!("{chart}: {e}"))).unwrap();
    let name = made["metadata"]["name"].as_str().unwrap().to_owned();
    wait_established(&[&name]);
    let live = cp.find(&["crd", &name]).unwrap().unwrap();
    let refused =
        live["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "NonStructuralSchema");
    assert!(refused.is_none(), "{chart}: {refused:?}");
    let example = windlass(&["crd", chart, "--group", group, "--example"]);
    cp.kubectl_with(["create", "-n", namespace, "-f", "-"], &example)
        .unwrap_or_else(|e| panic!("{chart}: {e}\n{example}"));
    name
}

#[test]
fn definitions_of_charts_are_established() {
    let cp = control_plane();
    let ns = cp.namespace("chartcrd").unwrap();
    let n = ns.name();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/charts");
    for name in ["actions", "aliases", "maps", "schema", "scopes"] {
        let path = fixtures.join(name).join("chart");
        let crd = established(path.to_str().unwrap(), &format!("{name}.{n}.example.com"), n);
        cp.kubectl(["delete", "crd", &crd]).unwrap();
    }
}

/// What a definition accepts, keeps and refuses, with an overlay.
#[test]
fn objects_of_a_charts_kind_are_checked() {
    let cp = control_plane();
    let ns = cp.namespace("chartkind").unwrap();
    let n = ns.name();
    let dir = chart();
    let path = dir.path().to_str().unwrap();
    let schema = json!({"type": "object", "required": ["image"], "properties": {
        "image": {"type": "object", "required": ["tag"], "properties": {"tag": {"type": "string", "pattern": "^v"}}},
        "port": {"type": ["integer", "string"]}, "mode": {"oneOf": [{"const": "a"}, {"const": "b"}]}}});
    std::fs::write(dir.path().join("values.schema.json"), schema.to_string()).unwrap();
    let overlay = dir.path().join("overlay.txt");
    std::fs::write(
        &overlay,
        "properties: {image: {properties: {pullSecret: {type: string, minLength: 1}}}}\n",
    )
    .unwrap();
    let group = format!("{n}.example.com");
    let flags = ["crd", path, "--group", &group, "--kind", "LibertyApp", "--api-version", "v1", "--overlay"];
    let flags = [&flags[..], &[overlay.to_str().unwrap()]].concat();
    let out = run(&flags);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let crd = String::from_utf8(out.stdout).unwrap();
    cp.kubectl_with(["apply", "--server-side", "-f", "-"], &crd).unwrap();
    let name = format!("libertyapps.{group}");
    wait_established(&[&name]);
    let create = |name: &str, spec: &Value| {
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "LibertyApp",
            "metadata": {"name": name, "namespace": n}, "spec": spec});
        cp.kubectl_with(["create", "-o", "json", "-f", "-"], &object.to_string()).map_err(|e| e.to_string())
    };
    let good = json!({"image": {"tag": "v1", "pullSecret": "mine", "other": {"kept": true}}, "port": "http", "mode": "a",
        "unknown": [1, null]});
    let made: Value = serde_json::from_str(&create("good", &good).unwrap()).unwrap();
    assert_eq!(made["spec"], good);
    for (spec, text) in [
        (json!({}), "spec.image: Required value"),
        (json!({"image": {"tag": 1}}), "spec.image.tag"),
        (json!({"image": {"tag": "1"}}), "spec.image.tag"),
        (json!({"image": {"tag": "v1", "pullSecret": ""}}), "spec.image.pullSecret"),
        (json!({"image": {"tag": "v1"}, "mode": "c"}), "spec.mode"),
        (json!({"image": {"tag": "v1"}, "port": true}), "spec.port"),
    ] {
        let error = create("bad", &spec).unwrap_err();
        assert!(error.contains(text), "{spec}: {error}");
    }
    cp.kubectl(["delete", "crd", &name]).unwrap();
    std::fs::write(&overlay, "properties: {image: {typ: string}}\n").unwrap();
    let error = fails(&flags);
    assert!(
        error.contains("overlay.txt: properties.image.typ: a CustomResourceDefinition has no such keyword"),
        "{error}"
    );
    let error = fails(&["crd", path, "--group", "apps.k8s.io"]);
    assert!(error.contains("--group \"apps.k8s.io\": "), "{error}");
}

/// Charts whose definitions are created together: one request of kubectl for all of them.
const TOGETHER: usize = 20;

/// Definition and example of a chart of the corpus, with a kind of its own in one group.
fn definition_of(path: &Path, group: &str) -> (Value, Value) {
    let profile = Profile::default();
    let loaded = windlass_fetch::load(path, profile).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    // Several versions of a chart are several kinds.
    let file = path.file_name().unwrap().to_str().unwrap();
    let kind: String = file.chars().filter(char::is_ascii_alphanumeric).collect();
    let kind = format!("C{kind}");
    let names = KindNames::new(loaded.chart.name(), Some(group), None, Some(&kind), None).unwrap();
    let made = define(&loaded.chart, &DefinitionOptions { names, overlay: None });
    let made = made.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    (made.crd, made.example)
}

/// Real public charts, where the corpus is at hand: the API server takes their definitions, finds nothing wrong in the schemas, and
/// takes the examples.
#[test]
fn definitions_of_the_corpus_are_established() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/corpus/charts");
    let Ok(entries) = std::fs::read_dir(&corpus) else {
        println!("no chart corpus at ../shared/corpus: skipped");
        return;
    };
    let cp = control_plane();
    let ns = cp.namespace("corpuscrd").unwrap();
    let n = ns.name();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() > 50, "{}", paths.len());
    for (number, paths) in paths.chunks(TOGETHER).enumerate() {
        let group = format!("c{number}.{n}.example.com");
        let (crds, examples): (Vec<Value>, Vec<Value>) =
            paths.iter().map(|path| definition_of(path, &group)).unzip();
        // A stream, not a List, which kubectl would check with schemas of its own.
        let stream = |items: Vec<Value>| items.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let names: Vec<String> =
            crds.iter().map(|crd| crd["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        cp.kubectl_with(["create", "-f", "-"], &stream(crds)).unwrap();
        wait_established(&names);
        for crd in cp.list(&[&["crd"], &names[..]].concat()).unwrap() {
            let conditions = crd["status"]["conditions"].as_array().unwrap();
            let refused = conditions.iter().find(|c| c["type"] == "NonStructuralSchema");
            assert!(refused.is_none(), "{}: {refused:?}", crd["metadata"]["name"]);
        }
        cp.kubectl_with(["create", "-n", n, "-f", "-"], &stream(examples)).unwrap();
        cp.kubectl([&["delete", "crd", "--wait=false"], &names[..]].concat()).unwrap();
    }
}
