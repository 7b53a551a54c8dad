//! The rules of the conversion, a table each.

use chart_compat::chart::{Chart, File, load_files};
use chart_compat::profile::Profile;
use serde_json::{Value, json};

use crate::structural_schema::structural;
use crate::{Definition, DefinitionOptions, KindNames, Overlay, define, violations};

const OPEN: &str = "x-kubernetes-preserve-unknown-fields";

/// The structural schema, and the paths of warnings.
fn converted(schema: &Value, defaults: &Value) -> (Value, Vec<String>) {
    let mut warnings = Vec::new();
    let out = Value::Object(structural(schema, Some(defaults), "$", &mut warnings));
    assert_eq!(violations(&out), [], "{schema}\n{out}");
    (out, warnings.into_iter().map(|warning| warning.path).collect())
}

/// Schemas of one field `a`, what they become, and whether there is a warning.
fn fields(table: &[(Value, Value, bool)]) {
    for (schema, expected, warned) in table {
        let (out, paths) = converted(&json!({"properties": {"a": schema}}), &json!({}));
        assert_eq!(out["properties"]["a"], *expected, "{schema}");
        assert_eq!(!paths.is_empty(), *warned, "{schema}: {paths:?}");
        assert!(paths.iter().all(|path| path.starts_with("$.a")), "{paths:?}");
    }
}

fn chart(files: &[(&str, &str)]) -> Chart {
    let file = |(name, text): &(&str, &str)| File::new((*name).to_owned(), text.as_bytes().to_vec());
    load_files(files.iter().map(file).collect(), Profile::Helm4, &mut |_| {}).unwrap()
}

fn definition(files: &[(&str, &str)], overlay: Option<&str>) -> Definition {
    let chart = chart(files);
    let names = KindNames::new(chart.name(), None, None, None, None).unwrap();
    let overlay = overlay.map(|text| Overlay::read("edits.yaml", text.as_bytes()).unwrap());
    define(&chart, &DefinitionOptions { names, overlay }).unwrap()
}

fn spec(definition: &Definition) -> &Value {
    &definition.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
}

const CHART: (&str, &str) = ("Chart.yaml", "apiVersion: v2\nname: liberty\nversion: 1.0.0\n");

#[test]
fn scalars_are_converted() {
    fields(&[
        (
            json!({"type": "string", "minLength": 1.0, "default": "x", "examples": ["y"], "title": "T"}),
            json!({"type": "string", "minLength": 1, "description": "T"}),
            false,
        ),
        (json!({"type": ["string", "null"]}), json!({"type": "string", "nullable": true}), false),
        (json!({"type": ["integer", "string"]}), json!({"x-kubernetes-int-or-string": true}), false),
        (
            json!({"type": ["integer", "string", "null"]}),
            json!({"x-kubernetes-int-or-string": true, "nullable": true}),
            false,
        ),
        (json!({"type": ["integer", "number"]}), json!({"type": "number"}), false),
        (json!({"type": ["object", "string"]}), json!({OPEN: true}), true),
        (json!({"const": "x"}), json!({"type": "string", "enum": ["x"]}), false),
        (
            json!({"enum": ["a", "a", null]}),
            json!({"type": "string", "nullable": true, "enum": ["a", null]}),
            false,
        ),
        (
            json!({"type": "integer", "exclusiveMinimum": 3}),
            json!({"type": "integer", "minimum": 3, "exclusiveMinimum": true}),
            false,
        ),
        (
            json!({"type": "integer", "minimum": 5, "exclusiveMinimum": 3}),
            json!({"type": "integer", "minimum": 5}),
            false,
        ),
        (
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            json!({"type": "integer", "maximum": 5, "exclusiveMaximum": true}),
            false,
        ),
        (json!({"type": "string", "pattern": "^a(?=b)"}), json!({"type": "string"}), true),
        (json!({"type": "string", "format": "semver"}), json!({"type": "string", "format": "semver"}), false),
        (json!({"type": "string", "contentEncoding": "base64"}), json!({"type": "string"}), true),
        (json!({"type": "int"}), json!({OPEN: true}), true),
        (json!({}), json!({OPEN: true}), false),
        (json!(true), json!({OPEN: true}), false),
        (json!(false), json!({OPEN: true}), true),
    ]);
}

#[test]
fn lists_and_maps_are_converted() {
    fields(&[
        (
            json!({"items": {"type": "string"}, "uniqueItems": true}),
            json!({"type": "array", "items": {"type": "string"}}),
            true,
        ),
        (json!({"type": "array"}), json!({"type": "array", "items": {OPEN: true}}), false),
        (
            json!({"type": "array", "items": [{"type": "string"}]}),
            json!({"type": "array", "items": {OPEN: true}}),
            true,
        ),
        (json!({"type": "array", "contains": {}}), json!({"type": "array", "items": {OPEN: true}}), true),
        (json!({"type": "object"}), json!({"type": "object", OPEN: true}), false),
        (
            json!({"additionalProperties": {"type": "string"}}),
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            false,
        ),
        (
            json!({"properties": {"b": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", "properties": {"b": {"type": "string"}}}),
            true,
        ),
        (
            json!({"properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
            json!({"type": "object", "properties": {"b": {"type": "string"}}, OPEN: true}),
            true,
        ),
        (
            json!({"patternProperties": {"^b": {"type": "string"}}, "additionalProperties": false}),
            json!({"type": "object", OPEN: true}),
            true,
        ),
        (
            json!({"type": "object", "required": ["b"], "additionalProperties": false}),
            json!({"type": "object", "required": ["b"], "properties": {"b": {OPEN: true}}}),
            true,
        ),
        (
            json!({"type": "object", "if": {"required": ["b"]}, "then": {"required": ["c"]}}),
            json!({"type": "object", OPEN: true}),
            true,
        ),
    ]);
}

#[test]
fn all_of_and_references_are_inlined() {
    let schema = |a: Value| {
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"a": a}, "definitions": {
            "port": {"type": "integer", "minimum": 1}, "node": {"type": "object", "properties": {"next": {"$ref": "#/definitions/node"}}}}})
    };
    let node = json!({"type": "object", OPEN: true, "properties": {"next": {OPEN: true}}});
    for (a, expected, paths) in [
        (
            json!({"$ref": "#/definitions/port", "maximum": 9}),
            json!({"type": "integer", "minimum": 1, "maximum": 9}),
            vec![],
        ),
        (
            json!({"allOf": [{"$ref": "#/definitions/port"}, {"minimum": 4}]}),
            json!({"type": "integer", "minimum": 4}),
            vec![],
        ),
        (
            json!({"allOf": [{"type": "string", "pattern": "a"}, {"pattern": "b"}]}),
            json!({"type": "string", "pattern": "a", "allOf": [{"pattern": "b"}]}),
            vec![],
        ),
        (
            json!({"allOf": [{"properties": {"x": {"type": "string"}}}, {"properties": {"x": {"minLength": 1}}}]}),
            json!({"type": "object", OPEN: true, "properties": {"x": {"type": "string", "minLength": 1}}}),
            vec![],
        ),
        (json!({"$ref": "#/definitions/node"}), node, vec!["$.a.next"]),
        (json!({"$ref": "https://example.com/other.json"}), json!({OPEN: true}), vec!["$.a"]),
        (json!({"type": "object", "$ref": "#/none"}), json!({"type": "object", OPEN: true}), vec!["$.a"]),
    ] {
        let (out, warned) = converted(&schema(a.clone()), &json!({}));
        assert_eq!(out["properties"]["a"], expected, "{a}");
        assert_eq!(warned, paths, "{a}");
    }
    let mut old = schema(json!({"$ref": "#/definitions/port", "maximum": 9}));
    old["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert_eq!(converted(&old, &json!({})).0["properties"]["a"], json!({"type": "integer", "minimum": 1}));
}

#[test]
fn alternatives_only_check() {
    fields(&[
        (
            json!({"oneOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"x-kubernetes-int-or-string": true}),
            false,
        ),
        (
            json!({"anyOf": [{"type": "null"}, {"type": "string", "minLength": 1}]}),
            json!({"type": "string", "minLength": 1, "nullable": true}),
            false,
        ),
        (
            json!({"type": "string", "oneOf": [{"pattern": "^a"}, {"pattern": "^b", "description": "B"}]}),
            json!({"type": "string", "oneOf": [{"pattern": "^a"}, {"pattern": "^b"}]}),
            false,
        ),
        (
            json!({"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}),
            json!({"x-kubernetes-int-or-string": true}),
            true,
        ),
        (
            json!({"type": "object", "anyOf": [{"required": ["x"]}, {"properties": {"y": {"type": "string", "enum": ["b"]}}}]}),
            json!({"type": "object", OPEN: true, "properties": {"y": {"type": "string"}},
                "anyOf": [{"required": ["x"]}, {"properties": {"y": {"enum": ["b"]}}}]}),
            false,
        ),
        (
            json!({"type": "object", "oneOf": [{"required": ["x"], "additionalProperties": false}, {"required": ["y"]}]}),
            json!({"type": "object", OPEN: true, "anyOf": [{"required": ["x"]}, {"required": ["y"]}]}),
            true,
        ),
        (
            json!({"type": "string", "not": {"enum": ["x"]}}),
            json!({"type": "string", "not": {"enum": ["x"]}}),
            false,
        ),
        (
            json!({"type": ["string", "object"], "not": {"type": "string", "minLength": 1}}),
            json!({OPEN: true}),
            true,
        ),
    ]);
}

#[test]
fn references_in_alternatives_that_lead_back_end() {
    let schema = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/a", "$defs": {
        "a": {"type": "object", "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]},
        "b": {"required": ["x"], "oneOf": [{"$ref": "#/$defs/b"}, {"required": ["y"]}], "not": {"$ref": "#/$defs/b"}}}});
    let (out, paths) = converted(&schema, &json!({}));
    assert_eq!(out["type"], "object");
    assert!(!paths.is_empty());
    // Thirty levels, each twice in the next one: two to the power of thirty nodes, were there no limit.
    let mut definitions = serde_json::Map::new();
    for level in 0..30 {
        let next = json!({"$ref": format!("#/$defs/l{}", level + 1)});
        definitions.insert(
            format!("l{level}"),
            json!({"properties": {"a": next, "b": next}, "anyOf": [next, {"required": ["z"]}]}),
        );
    }
    definitions.insert("l30".to_owned(), json!({"type": "string"}));
    let (_, paths) = converted(&json!({"$ref": "#/$defs/l0", "$defs": definitions}), &json!({}));
    assert!(!paths.is_empty());
}

#[test]
fn what_the_chart_sets_is_not_required() {
    let schema = json!({"type": "object", "required": ["image", "host"], "properties": {
        "image": {"type": "object", "minProperties": 2, "required": ["tag", "digest"], "properties": {"tag": {"type": "string"},
            "digest": {"type": "string"}}, "oneOf": [{"required": ["tag"]}, {"required": ["digest"]}]},
        "host": {"type": "string"}, "mode": {"enum": ["a", "b"]},
        "servers": {"additionalProperties": {"type": "object", "required": ["port", "name"]}}}});
    let defaults =
        json!({"image": {"tag": "1", "digest": null}, "mode": "a", "servers": {"main": {"port": 1}}});
    let (out, _) = converted(&schema, &defaults);
    assert_eq!(out["required"], json!(["host"]));
    let image = &out["properties"]["image"];
    assert_eq!((&image["required"], &image["nullable"]), (&json!(["digest"]), &json!(true)));
    assert!(
        image.get("minProperties").is_none() && image.get("oneOf").is_none() && image.get("anyOf").is_none(),
        "{image}"
    );
    assert_eq!(image["properties"]["tag"], json!({"type": "string", "nullable": true}));
    assert_eq!(
        out["properties"]["mode"],
        json!({"type": "string", "enum": ["a", "b", null], "nullable": true})
    );
    assert_eq!(out["properties"]["servers"]["additionalProperties"]["required"], json!(["name"]));
}

#[test]
fn a_schema_is_inferred_from_values_and_comments() {
    let values = "# -- (int) How many\n# Pods run\nreplicas: 1\nratio: 0.5\ndebug: false\n# The image.\nimage:\n  # -- Its tag\n  tag: latest\n\
        resources: {}\nempty: null\nhosts: []\nargs: [a, b]\nmixed: [a, 1]\nports:\n- name: http\n  port: 80\n- port: 81\n  host: x\n\
        # @schema\n# type: [string, null]\n# enum: [a, b]\n# @schema\n# -- The mode\nmode: a\n# @schema\n# required: true\n# @schema\nhost:\n";
    let made = definition(&[CHART, ("values.yaml", values)], None);
    let expected = json!({
        "replicas": {"type": "integer", "description": "How many Pods run", "nullable": true},
        "ratio": {"type": "number", "nullable": true},
        "debug": {"type": "boolean", "nullable": true},
        "image": {"type": "object", "description": "The image.", "nullable": true, OPEN: true,
            "properties": {"tag": {"type": "string", "description": "Its tag", "nullable": true}}},
        "resources": {"type": "object", "nullable": true, OPEN: true},
        "empty": {OPEN: true},
        "hosts": {"type": "array", "nullable": true, "items": {OPEN: true}},
        "args": {"type": "array", "nullable": true, "items": {"type": "string"}},
        "mixed": {"type": "array", "nullable": true, "items": {OPEN: true}},
        "ports": {"type": "array", "nullable": true, "items": {"type": "object", OPEN: true, "properties": {
            "name": {"type": "string"}, "port": {"type": "integer"}, "host": {"type": "string"}}}},
        "mode": {"type": "string", "nullable": true, "enum": ["a", "b", null], "description": "The mode"},
        "host": {OPEN: true},
    });
    assert_eq!(spec(&made)["properties"], expected);
    assert_eq!(spec(&made)["required"], json!(["host"]));
    assert_eq!(made.example["spec"], json!({"host": {}}));
    assert_eq!(made.warnings, []);
}

#[test]
fn subcharts_and_globals_are_a_part_of_the_spec() {
    let parent = "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {name: db, version: 1.0.0, repository: '', alias: store}\n";
    let files = [
        ("Chart.yaml", parent),
        ("values.yaml", "store: {size: 1Gi}\n"),
        ("charts/db/Chart.yaml", "apiVersion: v2\nname: db\nversion: 1.0.0\n"),
        ("charts/db/values.yaml", "port: 5432\n"),
        (
            "charts/db/values.schema.json",
            r#"{"type": "object", "required": ["user"], "properties": {"port": {"type": "integer"}, "user": {"type": "string"}}}"#,
        ),
    ];
    let made = definition(&files, None);
    let store = &spec(&made)["properties"]["store"];
    assert_eq!(store["properties"]["size"]["type"], "string");
    assert_eq!(store["properties"]["port"], json!({"type": "integer", "nullable": true}));
    assert_eq!((store.get("required"), &store["nullable"]), (None, &json!(true)));
    assert_eq!(spec(&made)["properties"]["global"][OPEN], true);
    let closed =
        r#"{"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": false}"#;
    let made = definition(&[&files[..], &[("values.schema.json", closed)]].concat(), None);
    let names: Vec<&String> = spec(&made)["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["a", "global", "store"]);
    assert_eq!(made.warnings.iter().map(|w| w.path.as_str()).collect::<Vec<_>>(), ["$"]);
}

#[test]
fn types_of_what_a_parent_sets_count() {
    let made = definition(
        &[
            CHART,
            ("values.yaml", "sub: {a: text}\n"),
            ("values.schema.json", "{}"),
            ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            ("charts/sub/values.yaml", "a: 1\nb: 1\n"),
        ],
        None,
    );
    let sub = &spec(&made)["properties"]["sub"]["properties"];
    assert_eq!((&sub["a"]["type"], &sub["b"]["type"]), (&json!("string"), &json!("integer")));
    assert_eq!(made.warnings, []);
}

#[test]
fn the_definition_has_names_columns_and_a_status() {
    let made = definition(
        &[CHART, ("values.yaml", "image: {tag: latest}\n")],
        Some("properties: {image: {properties: {pullSecret: {type: string}}}}"),
    );
    assert_eq!(made.crd["metadata"]["name"], "liberties.charts.windlass.dev");
    let version = &made.crd["spec"]["versions"][0];
    assert_eq!(version["subresources"], json!({"status": {}}));
    let columns = version["additionalPrinterColumns"].as_array().unwrap();
    assert_eq!(
        columns.iter().map(|c| c["name"].as_str().unwrap()).collect::<Vec<_>>(),
        ["Ready", "Revision", "Chart", "Age"]
    );
    assert_eq!(spec(&made)["properties"]["image"]["properties"]["pullSecret"], json!({"type": "string"}));
    assert_eq!(violations(&version["schema"]["openAPIV3Schema"]), []);
    let expected = json!({"apiVersion": "charts.windlass.dev/v1alpha1", "kind": "Liberty", "metadata": {"name": "example"}, "spec": {}});
    assert_eq!(made.example, expected);
}

#[test]
fn a_definition_stays_below_the_limit_of_the_api_server() {
    let (mut values, long) = (String::new(), "c".repeat(500));
    for number in 0..1200 {
        values.push_str(&format!(
            "# {}\nkey{number}: {{a: {{b: {{{long}: {{d: {{e: 1, f: 2, g: 3}}}}}}}}}}\n",
            "text ".repeat(50)
        ));
    }
    let made = definition(&[CHART, ("values.yaml", &values)], None);
    assert!(made.crd.to_string().len() <= 1 << 20);
    assert_eq!(made.warnings.len(), 2, "{:?}", made.warnings);
    assert_eq!(violations(spec(&made)), []);
    assert_eq!(spec(&made)["properties"].as_object().unwrap().len(), 1200);
}

#[test]
fn what_cannot_be_read_is_an_error_with_the_file() {
    let define = |files: &[(&str, &str)]| {
        let chart = chart(files);
        let names = KindNames::new(chart.name(), None, None, None, None).unwrap();
        define(&chart, &DefinitionOptions { names, overlay: None }).map(|_| ()).unwrap_err().to_string()
    };
    let error = define(&[CHART, ("values.schema.json", "{\"type\": }")]);
    assert!(
        error.starts_with("chart liberty: values.schema.json: expected value at line 1 column 10"),
        "{error}"
    );
}

/// On a stack as a worker has it. JSON may have 127 levels; references within each other have no such end.
#[test]
fn deep_schemas_and_values_are_bounded() {
    let nested = |open: &str, close: &str| {
        let levels = 126 / open.matches(['{', '[']).count();
        format!("{}{{}}{}", open.repeat(levels), close.repeat(levels))
    };
    let chain = |of: &dyn Fn(String) -> Value| {
        let link = |at: usize| (format!("d{at}"), of(format!("#/d{}", at + 1)));
        let mut all: serde_json::Map<String, Value> = (0..40_000).map(link).collect();
        all.insert("d40000".to_owned(), json!({}));
        all.insert("$ref".to_owned(), json!("#/d0"));
        Value::Object(all).to_string()
    };
    let schemas = [
        nested("{\"properties\": {\"a\": ", "}}"),
        nested("{\"items\": ", "}"),
        nested("{\"additionalProperties\": ", "}"),
        nested("{\"oneOf\": [{}, ", "]}"),
        nested("{\"not\": {\"properties\": {\"a\": ", "}}}"),
        chain(&|next| json!({"$ref": next})),
        chain(&|next| json!({"allOf": [{"allOf": [{"$ref": next}]}]})),
        chain(&|next| json!({"properties": {"a": {"$ref": next}}})),
        chain(&|next| json!({"oneOf": [{"$ref": next}, {"type": "string"}]})),
        chain(&|next| json!({"not": {"$ref": next}})),
    ];
    let values = [("[", "]"), ("{b: ", "}")].map(|(open, close)| {
        let levels = 120;
        format!("a: {}1{}\n", open.repeat(levels), close.repeat(levels))
    });
    let run = move || {
        for schema in &schemas {
            let files = [CHART, ("values.yaml", "a: 1\n"), ("values.schema.json", schema)];
            assert!(!definition(&files, None).warnings.is_empty(), "{}", &schema[..80]);
        }
        for text in &values {
            definition(&[CHART, ("values.yaml", text)], None);
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

#[test]
fn subcharts_with_their_aliases_are_so_many() {
    let mut files = Vec::new();
    let mut path = String::new();
    for level in 0..8 {
        let alias = |n| format!("- {{name: s{}, version: 1.0.0, repository: '', alias: a{n}}}\n", level + 1);
        let aliases: String = (0..if level < 7 { 10 } else { 0 }).map(alias).collect();
        let text = format!("apiVersion: v2\nname: s{level}\nversion: 1.0.0\ndependencies:\n{aliases}");
        files.push((format!("{path}Chart.yaml"), text));
        path.push_str(&format!("charts/s{}/", level + 1));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let names = KindNames::new("liberty", None, None, None, None).unwrap();
    let error = define(&chart(&files), &DefinitionOptions { names, overlay: None }).unwrap_err().to_string();
    assert!(error.contains("there are more than 10000 subcharts"), "{error}");
}
