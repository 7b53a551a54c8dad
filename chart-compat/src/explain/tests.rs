//! Explanations of errors in charts, and of the origin of values in layers.

use super::{Layers, Trace, render_report};
use crate::chart::{Chart, File, load_files, merge_maps, read_values};
use crate::data::Map;
use crate::path::Path;
use crate::profile::Profile;
use crate::render::{Capabilities, CompiledChart, Options, Release};
use crate::template::Limits;
use crate::values::strvals;
use crate::world::Still;

const METADATA: &str = "apiVersion: v2\nname: demo\nversion: 1.0.0\n";
const VALUES: &str =
    "image:\n  repository: nginx\n  tag: v1\nport: 80\nglobal: {region: west}\nsub:\n  size: 2\n";

fn chart(files: &[(&str, &str)]) -> Chart {
    let own = [("Chart.yaml", METADATA), ("values.yaml", VALUES)];
    let sub = [
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("charts/sub/values.yaml", "# sizes\nsize: 1\nname: own\nglobal: {region: east, zone: a}\n"),
    ];
    let all = own.iter().chain(&sub).filter(|f| !files.iter().any(|g| g.0 == f.0)).chain(files);
    let files = all.map(|(name, text)| File::new((*name).to_owned(), text.as_bytes().to_vec()));
    load_files(files.collect(), Profile::Helm4, &mut |_| {}).unwrap()
}

fn layers(file: &str, set: &str) -> Layers {
    let mut layers = Layers::default();
    let apply = |values: &mut Map| -> Result<(), crate::chart::Error> {
        merge_maps(values, read_values(file.as_bytes(), Profile::Helm4)?);
        Ok(())
    };
    layers.add("prod.yaml", true, Some(file.as_bytes()), apply).unwrap();
    if !set.is_empty() {
        layers.add("--set", false, None, |values| strvals::parse_into(values, set)).unwrap();
    }
    layers
}

fn report(files: &[(&str, &str)], file: &str, set: &str) -> String {
    let chart = chart(files);
    let layers = layers(file, set);
    let release =
        Release { name: "x".to_owned(), namespace: "default".to_owned(), revision: 1, is_upgrade: false };
    let options = Options {
        release,
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let error =
        compiled.render(layers.values(), &options, &Still { in_order: false }, &mut |_| {}).unwrap_err();
    let trace = Trace::new(compiled.chart(), layers, Profile::Helm4).ok();
    render_report(&error, trace.as_ref()).unwrap().to_string()
}

/// The lines of a report about values.
fn notes(template: &str, file: &str, set: &str) -> Vec<String> {
    let text = report(&[("templates/a.yaml", template)], file, set);
    text.lines().filter_map(|l| l.trim_start().strip_prefix("= ")).map(str::to_owned).collect()
}

#[test]
fn a_failure_shows_its_line_and_who_included_it() {
    let helpers = "{{- define \"image\" -}}\n\timage: {{ .Values.image.repo.name }}\n{{- end }}\n\
                   {{- define \"outer\" }}{{ template \"image\" . }}{{ end }}";
    let page = "kind: X\nspec: {{ include \"outer\" . }}\n";
    let want = "error: nil pointer evaluating interface {}.name
 --> demo/templates/_h.tpl:2:12
  |
1 | {{- define \"image\" -}}
2 |  image: {{ .Values.image.repo.name }}
  |            ^^^^^^^^^^^^^^^^^^^^^^^ nil pointer evaluating interface {}.name
3 | {{- end }}
  = value: .Values.image.repo is not there: nobody sets it
  = help: did you mean .Values.image.repository? (demo/values.yaml:2)
  called from
 --> demo/templates/_h.tpl:4:25
  |
4 | {{- define \"outer\" }}{{ template \"image\" . }}{{ end }}
  |                         ^^^^^^^^^^^^^^^^^^
  called from
 --> demo/templates/a.yaml:2:10
  |
2 | spec: {{ include \"outer\" . }}
  |          ^^^^^^^^^^^^^^^^^
";
    assert_eq!(report(&[("templates/_h.tpl", helpers), ("templates/a.yaml", page)], "", ""), want);
}

#[test]
fn the_origin_of_the_value_is_told() {
    let table: [(&str, &str, &str, &[&str]); 9] = [
        (
            "{{ with .Values.image }}{{ .tga.x }}{{ end }}",
            "",
            "",
            &[
                "value: .tga.x is .Values.image.tga.x: .Values.image.tga is not there: nobody sets it",
                "help: did you mean .Values.image.tag? (demo/values.yaml:3)",
            ],
        ),
        (
            "{{ upper .Values.port }}",
            "\nport: 1",
            "",
            &["value: .Values.port is a number, set in prod.yaml:2"],
        ),
        (
            "{{ upper .Values.port }}",
            "port: x",
            "port=1",
            &["value: .Values.port is a number, set in --set port"],
        ),
        (
            "{{ .Values.port.x }}",
            "",
            "",
            &["value: .Values.port is a number (set in demo/values.yaml:4): it has no fields"],
        ),
        (
            "{{ .Values.image.tag.x }}",
            "image: {tag: null}",
            "",
            &["value: .Values.image.tag is null: prod.yaml:1 deletes it"],
        ),
        (
            "{{ required \"give one\" .Values.imag.tag }}",
            "",
            "",
            // `.Values.imag.tag` fails before `required` is called.
            &[
                "value: .Values.imag is not there: nobody sets it",
                "help: did you mean .Values.image.tag? (demo/values.yaml:3)",
            ],
        ),
        (
            "{{ define \"x\" }}{{ .v.y.z }}{{ end }}{{ include \"x\" (dict \"v\" .Values.sub) }}",
            "",
            "",
            &["value: .v.y.z is .Values.sub.y.z: .Values.sub.y is not there: nobody sets it"],
        ),
        (
            "{{ fromYaml .Values.port }}",
            "",
            "",
            &["value: .Values.port is a number, set in demo/values.yaml:4"],
        ),
        // A value that a template creates has no origin.
        ("{{ $d := dict \"a\" 1 }}{{ upper $d.a }}", "", "", &[]),
    ];
    for (template, file, set, want) in table {
        assert_eq!(notes(template, file, set), want, "{template}");
    }
}

#[test]
fn a_subchart_speaks_of_its_own_values() {
    let files = [("charts/sub/templates/a.yaml", "{{ upper .Values.size }}{{ upper .Values.siz }}")];
    let text = report(&files, "", "");
    assert!(text.contains("= value: .Values.size is a number, set in demo/values.yaml:7\n"), "{text}");
    assert!(text.contains("--> demo/charts/sub/templates/a.yaml:1:10\n"), "{text}");
}

#[test]
fn manifests_and_schemas_are_shown() {
    let text = report(&[("templates/a.yaml", "a: b\nc: {{ .Values.port }}\n  d: e\nf: g\n")], "", "");
    assert!(text.contains("2 | c: 80\n3 |   d: e\n  |   ^^^^ mapping values are not allowed"), "{text}");
    let secret = "kind: Secret\nx: {{ .Values.image.tag }}\n  hidden: e\n";
    let text = report(&[("templates/a.yaml", secret)], "", "");
    assert!(text.contains("3 |   hidden: …\n") && !text.contains("v1"), "{text}");
    let schema = "{\"properties\": {\"port\": {\"type\": \"string\"}}}";
    let text = report(&[("values.schema.json", schema)], "a: 1\nport: 8\n", "");
    assert!(text.contains("= value: .Values.port: got number, want string (set in prod.yaml:2)"), "{text}");
}

#[test]
fn what_helm_adds_is_told_from_what_users_set() {
    let schema = |text: &str| format!("{{\"type\": \"object\", {text}}}");
    let sizes = "\"properties\": {\"size\": {}, \"name\": {}}, \"additionalProperties\": false";
    let file = "demo/charts/sub/values.schema.json";
    let global = format!(
        "note: Helm adds global to the values of every subchart: {file} should allow it, as \"global\": {{\"type\": \"object\"}} in \
         properties"
    );
    let notes = |name: &str, text: &str, set: &str| -> Vec<String> {
        // No chart of these sets globals.
        let own = [
            ("values.yaml", "port: 80\nsub: {size: 2}\n"),
            ("charts/sub/values.yaml", "size: 1\nname: own\n"),
            (name, text),
        ];
        let shown = report(&own, "", set);
        shown.lines().filter_map(|l| Some(l.trim().strip_prefix("= ")?.to_owned())).collect()
    };
    let sub = "charts/sub/values.schema.json";
    assert_eq!(
        notes(sub, &schema(sizes), ""),
        ["value: .Values.sub: additional properties 'global' not allowed", &global]
    );
    assert_eq!(
        notes(sub, &schema(sizes), "sub.sise=81,sub.q=1"),
        [
            "value: .Values.sub: additional properties 'global', 'q', 'sise' not allowed",
            &global,
            "value: .Values.sub.q is set in --set sub.q",
            "value: .Values.sub.sise is set in --set sub.sise; did you mean size?"
        ]
    );
    let each = "\"properties\": {\"name\": {}}, \"additionalProperties\": {\"type\": \"integer\"}";
    assert_eq!(
        notes(sub, &schema(each), ""),
        ["value: .Values.sub.global: got object, want integer", &global]
    );
    let names = "\"propertyNames\": {\"maxLength\": 4}";
    let found = notes(sub, &schema(names), "");
    assert!(found.len() == 2 && found[1] == global, "{found:?}");
    let unevaluated = "\"properties\": {\"size\": {}, \"name\": {}}, \"unevaluatedProperties\": false";
    let found = notes(sub, &schema(unevaluated), "");
    assert!(found.len() == 2 && found[1] == global, "{found:?}");
    // The parent's own schema.
    let port = "\"properties\": {\"port\": {}}, \"additionalProperties\": false";
    assert_eq!(
        notes("values.schema.json", &schema(port), ""),
        [
            "value: .Values: additional properties 'sub' not allowed",
            "note: Helm adds the values of subchart sub to those of its parent: demo/values.schema.json should allow sub in properties"
        ]
    );
}

#[test]
fn values_are_explained_layer_by_layer() {
    let metadata = format!(
        "{METADATA}dependencies:\n  - {{name: sub, version: 1.0.0, import-values: [{{child: data, parent: taken}}]}}\n"
    );
    let sub = "# sizes\nsize: 1\nname: own\nglobal: {region: east, zone: a}\ndata: {x: 1}\n";
    let chart = chart(&[("Chart.yaml", &metadata), ("charts/sub/values.yaml", sub)]);
    let layers = layers("port: 1\nimage:\n  tag: v2\nsub: {name: null}\nl: [1, 2]\n", "image.tag=v3,l[1]=x");
    let trace = Trace::new(&chart, layers, Profile::Helm4).unwrap();
    let told = |path: &str| -> Vec<String> {
        let e = trace.explain(&Path::parse(path).unwrap());
        let mark = |wins| if wins { "*" } else { "" };
        e.settings.iter().map(|s| format!("{}{} {}", mark(s.wins), s.origin, s.path)).collect()
    };
    let table: [(&str, &[&str]); 10] = [
        ("port", &["*prod.yaml:1 port", "demo/values.yaml:4 port"]),
        ("image.tag", &["*--set image.tag", "prod.yaml:3 image.tag", "demo/values.yaml:3 image.tag"]),
        ("sub.size", &["*demo/values.yaml:7 sub.size", "demo/charts/sub/values.yaml:2 size"]),
        ("sub.name", &["*prod.yaml:4 sub.name", "demo/charts/sub/values.yaml:3 name"]),
        (
            "sub.global.region",
            &["*demo/values.yaml:5 global.region", "demo/charts/sub/values.yaml:4 global.region"],
        ),
        ("sub.global.zone", &["*demo/charts/sub/values.yaml:4 global.zone"]),
        ("taken.x", &["*demo/charts/sub/values.yaml:5 (import-values of demo) data.x"]),
        ("l[0]", &["*prod.yaml:5 l[0]"]),
        ("l[1]", &["*--set l[1]", "prod.yaml:5 l[1]"]),
        ("nothing", &[]),
    ];
    for (path, want) in table {
        assert_eq!(told(path), want, "{path}");
    }
    assert_eq!(trace.suggest(&Path::parse("image.tga").unwrap()).unwrap().to_string(), "image.tag");
    assert_eq!(trace.suggest(&Path::parse("repository").unwrap()).unwrap().to_string(), "image.repository");
}

#[test]
fn every_leaf_has_one_layer_that_counts() {
    let chart = chart(&[]);
    let trace =
        Trace::new(&chart, layers("image: {tag: 1, x: {}}\nsub: {size: null}\n", "a.b=1"), Profile::Helm4);
    let trace = trace.unwrap();
    let leaves = trace.leaves(&Path::default());
    assert!(leaves.len() > 8, "{leaves:?}");
    for leaf in leaves {
        let e = trace.explain(&leaf);
        assert_eq!(e.settings.iter().filter(|s| s.wins).count(), 1, "{leaf}: {e:?}");
    }
}
