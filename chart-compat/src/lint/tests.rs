//! Charts with findings that Helm does not report.

use super::{Entry, Options, Subject, findings};
use crate::chart::{Chart, File, load_files};
use crate::data::Map;
use crate::profile::Profile;
use crate::world::Still;

fn chart(files: &[(&str, &str)]) -> Chart {
    let metadata = ("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n");
    let all = std::iter::once(&metadata).filter(|m| !files.iter().any(|f| f.0 == m.0)).chain(files);
    load_files(
        all.map(|(n, t)| File::new((*n).to_owned(), t.as_bytes().to_vec())).collect(),
        Profile::Helm4,
        &mut |_| {},
    )
    .unwrap()
}

/// The findings, each as `file:line rule text`.
fn finding_lines(files: &[(&str, &str)]) -> Vec<String> {
    let chart = chart(files);
    let subject = Subject {
        directory: "/demo",
        metadata: b"".as_slice().into(),
        values: chart.values_text.clone(),
        schema: None,
        templates: Entry::Directory,
        crds: Entry::Missing,
        chart: Ok(&chart),
    };
    let options = Options {
        values: &Map::new(),
        namespace: "default",
        kube_version: None,
        skip_schema_validation: false,
        profile: Profile::Helm4,
        world: &Still { in_order: false },
    };
    let line = |line: Option<u32>| line.map_or("-".to_owned(), |l| l.to_string());
    findings(&subject, &options)
        .into_iter()
        .map(|f| format!("{}:{} {}: {}", f.file, line(f.line), f.rule, f.text))
        .collect()
}

/// The unread keys.
fn unread(values: &str, template: &str, more: &[(&str, &str)]) -> Vec<String> {
    let mut files = vec![("values.yaml", values), ("templates/a.txt", template)];
    files.extend(more);
    let found = finding_lines(&files);
    found
        .iter()
        .filter_map(|f| Some(f.split_once("unread-value: no template reads ")?.1.to_owned()))
        .collect()
}

#[test]
fn keys_that_nothing_reads_are_told() {
    let values = "a:\n  b: 1\n  c: {d: 2, e: 3}\nf: []\n";
    let table: [(&str, &[&str]); 18] = [
        ("", &["a", "f"]),
        ("{{ .Values.a.b }}", &["a.c", "f"]),
        ("{{ .Values.a.c.d }}{{ .Values.f }}", &["a.b", "a.c.e"]),
        ("{{ toYaml .Values.a }}", &["f"]),
        ("{{ toYaml .Values }}", &[]),
        ("{{ with .Values.a }}{{ .b }}{{ end }}{{ range .Values.f }}{{ . }}{{ end }}", &["a.c"]),
        ("{{ if .Values.a.c }}x{{ end }}{{ if .Values.a.b }}{{ end }}", &["a.c.d", "a.c.e", "f"]),
        ("{{ $v := .Values }}{{ $v.a.b }}{{ range $k, $x := $v.a.c }}{{ $x }}{{ end }}", &["f"]),
        ("{{ index .Values \"a\" \"b\" }}{{ index .Values.f 0 }}", &["a.c"]),
        ("{{ get .Values.a \"b\" }}{{ hasKey .Values \"f\" }}", &["a.c"]),
        ("{{ dig \"a\" \"c\" \"d\" 0 .Values }}", &["a.b", "a.c.e", "f"]),
        (
            "{{ define \"x\" }}{{ .ctx.Values.f }}{{ .v.b }}{{ end }}{{ include \"x\" (dict \"ctx\" $ \"v\" .Values.a) }}",
            &["a.c"],
        ),
        ("{{ define \"x\" }}{{ .Values.f }}{{ end }}{{ template \"x\" . }}", &["a"]),
        ("{{ define \"x\" }}{{ .Values.f }}{{ end }}", &["a", "f"]),
        ("{{ (default dict .Values.a).b }}{{ merge (dict) .Values.a.c | toYaml }}", &["f"]),
        ("{{ range $k := .Values }}{{ $k }}{{ end }}", &[]),
        ("{{ tpl \"{{ .x }}\" (dict \"x\" .Values.a \"c\" $) }}", &["f"]),
        ("{{ $d := dict }}{{ $_ := set $d \"k\" .Values.a }}{{ $d.k.b }}", &["a.c", "f"]),
    ];
    for (template, want) in table {
        assert_eq!(unread(values, template, &[]), want, "{template}");
    }
}

#[test]
fn other_readers_count() {
    // Through `tpl`, from texts in values and in files.
    assert_eq!(unread("a: 'x {{ .Values.b }}'\nb: 1\nc: 2\n", "{{ tpl .Values.a . }}", &[]), ["c"]);
    assert_eq!(unread("a: 1\n", "{{ tpl (.Files.Get \"x\") . }}", &[("x", "{{ .Values.a }}")]), [""; 0]);
    // Subcharts read the values below their names, and globals; conditions and tags are read.
    let sub = [
        (
            "Chart.yaml",
            "apiVersion: v2\nname: demo\nversion: 1.0.0\ndependencies:\n- {name: sub, version: 1.0.0, alias: twin, condition: use.twin}\n",
        ),
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("charts/sub/templates/a.txt", "{{ .Values.size }}{{ .Values.global.zone }}"),
    ];
    let values = "twin: {size: 1, lost: 2}\nglobal: {zone: a, gone: b}\nuse: {twin: true, not: 1}\ntags: {x: true}\nenabled: true\n";
    assert_eq!(unread(values, "", &sub), ["twin.lost", "global.gone", "use.not"].map(str::to_owned).to_vec());
}

#[test]
fn surprises_are_told_with_their_line() {
    let values = "big: 1000000\nswitch: yes\nport: \"80\"\nname: web\nkeys: {on: 1}\n";
    let template = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  labels: {x: {{ .Values.nothing }}}\nspec:\n  \
                    size: {{ .Values.big }}\n  port: {{ .Values.port }}\n  quoted: \"{{ .Values.port }}\"\n  name: {{ .Values.name }}\n  \
                    name: {{ .Values.switch }}\n---\nkind: Service\napiVersion: v1\nmetadata: {name: a}\nx: {{ toJson .Values.keys }}\n";
    let want = [
        "templates/a.yaml:5 no-value: .Values.nothing has no value: nothing is printed",
        "templates/a.yaml:7 exponent: .Values.big prints 1e+06; pass it through int64 or quote it in the values",
        "templates/a.yaml:8 unquoted-text: the text \"80\" of .Values.port is printed without quotes and read as a number",
        "templates/a.yaml:11 duplicate-key: spec.name is set twice in Service a (line 11 of the rendered file)",
        "templates/a.yaml:13 duplicate-object: Service a is made here and in templates/a.yaml",
        "values.yaml:2 yaml-boolean: yes without quotes is a boolean in YAML 1.1; write true or false, or quote it",
        "values.yaml:5 yaml-boolean: the key on without quotes is true in YAML 1.1; quote it",
    ];
    assert_eq!(finding_lines(&[("values.yaml", values), ("templates/a.yaml", template)]), want);
}

/// The findings of large numbers in a template, each as `file:line text`.
fn exponents(values: &str, template: &str, more: &[(&str, &str)]) -> Vec<String> {
    let mut files = vec![("values.yaml", values), ("templates/a.yaml", template)];
    files.extend(more);
    let found = finding_lines(&files);
    let only = |f: &String| {
        let (place, text) = f.split_once(" exponent: ")?;
        Some(format!(
            "{place} {}",
            text.trim_end_matches("; pass it through int64 or quote it in the values")
        ))
    };
    found.iter().filter_map(only).collect()
}

#[test]
fn large_numbers_that_become_texts_are_told() {
    let values = "big: 1500000\nsmall: 999999\ntext: \"1500000\"\nlist: [1, 1500000]\nmap: {k: 1500000}\n";
    let table: [(&str, &[&str]); 31] = [
        ("{{ .Values.big }}", &[".Values.big"]),
        ("\"{{ .Values.big }}\"", &[".Values.big"]),
        ("{{ .Values.big | quote }}", &[".Values.big | quote"]),
        ("{{ quote .Values.big }}", &["quote .Values.big"]),
        ("{{- squote .Values.big -}}", &["squote .Values.big"]),
        ("{{ toString .Values.big | quote }}", &["toString .Values.big | quote"]),
        ("{{ printf \"%v\" .Values.big }}", &["printf \"%v\" .Values.big"]),
        ("{{ print .Values.big }}", &["print .Values.big"]),
        ("{{ printf \"%s\" .Values.big }}", &["printf \"%s\" .Values.big"]),
        ("{{ printf \"x-%v-y\" .Values.big | b64enc }}", &["printf \"x-%v-y\" .Values.big | b64enc"]),
        ("{{ join \",\" .Values.list }}", &["join \",\" .Values.list"]),
        ("{{ .Values.list | toStrings | join \",\" }}", &[".Values.list | toStrings | join \",\""]),
        ("{{ cat \"a\" .Values.big }}", &["cat \"a\" .Values.big"]),
        ("{{ .Values.none | default .Values.big | quote }}", &[".Values.none | default .Values.big | quote"]),
        ("{{ .Values.none | default .Values.big }}", &[".Values.none | default .Values.big"]),
        ("{{ coalesce .Values.none .Values.big | quote }}", &["coalesce .Values.none .Values.big | quote"]),
        ("{{ ternary .Values.big 1 true | quote }}", &["ternary .Values.big 1 true | quote"]),
        ("{{ with .Values.big }}{{ . | quote }}{{ end }}", &[". | quote"]),
        ("{{ range .Values.list }}{{ . }}{{ end }}", &["."]),
        ("{{ range $k, $v := .Values.map }}{{ $v | quote }}{{ end }}", &["$v | quote"]),
        ("{{ $v := .Values.big }}{{ toString $v | trunc 3 }}", &["toString $v | trunc 3"]),
        ("{{ .Values.list }}", &[".Values.list"]),
        ("{{ toToml .Values.map }}", &["toToml .Values.map"]),
        (
            "{{ if eq (toString .Values.big) \"1500000\" }}x{{ end }}",
            &["if eq (toString .Values.big) \"1500000\""],
        ),
        ("{{ html .Values.big }}", &["html .Values.big"]),
        ("{{ .Values.big | int64 | quote }}{{ int .Values.big }}{{ .Values.small | quote }}", &[]),
        ("{{ .Values.text | quote }}{{ toYaml .Values }}{{ toJson .Values }}", &[]),
        ("{{ printf \"%.0f\" .Values.big }}{{ printf \"%d\" (int64 .Values.big) }}", &[]),
        ("{{ printf \"%e\" .Values.big | quote }}", &[]),
        ("{{ add .Values.big 1 }}{{ eq .Values.big 1500000.0 }}{{ len .Values.list }}", &[]),
        ("{{ dict \"a\" .Values.big | toYaml }}{{ $_ := set .Values \"x\" .Values.big }}", &[]),
    ];
    for (action, want) in table {
        let template = format!("kind: A\nmetadata: {{name: a}}\nx: |\n  {action}\n");
        let want: Vec<String> =
            want.iter().map(|node| format!("templates/a.yaml:4 {node} prints 1.5e+06")).collect();
        assert_eq!(exponents(values, &template, &[]), want, "{action}");
    }
}

#[test]
fn large_numbers_are_told_where_they_become_texts() {
    let helpers = (
        "templates/_h.tpl",
        "{{ define \"x\" }}{{ . | quote }}{{ end }}\n{{ define \"y\" }}\n{{ .Values.big }}{{ end }}",
    );
    let values = "big: 1500000\nt: \"{{ .Values.big | quote }}\"\nsub: {big: 2500000}\n";
    let found = |action: &str| exponents(values, &format!("# {action}\n"), &[helpers]);
    assert_eq!(found("{{ include \"x\" .Values.big }}"), ["templates/_h.tpl:1 . | quote prints 1.5e+06"]);
    assert_eq!(found("{{ include \"y\" . | quote }}"), ["templates/_h.tpl:3 .Values.big prints 1.5e+06"]);
    assert_eq!(found("{{ template \"y\" . }}"), ["templates/_h.tpl:3 .Values.big prints 1.5e+06"]);
    assert_eq!(found("{{ tpl .Values.t . }}"), ["(text given to tpl):1 .Values.big | quote prints 1.5e+06"]);
    let sub = [
        ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        ("charts/sub/templates/a.yaml", "\n# {{ .Values.big | quote }}\n"),
    ];
    assert_eq!(
        exponents(values, "", &sub),
        ["charts/sub/templates/a.yaml:2 .Values.big | quote prints 2.5e+06"]
    );
    // A text of the chart itself is found in the manifest.
    assert_eq!(
        exponents(values, "kind: A\nmetadata: {name: a}\nx: 1e+07\ny: {{ .Values.big | quote }}\n", &[]),
        [
            "templates/a.yaml:3 x of A a is 1e+07 (line 3 of the rendered file)",
            "templates/a.yaml:4 .Values.big | quote prints 1.5e+06"
        ]
    );
}

#[test]
fn schemas_of_subcharts_that_refuse_globals_are_told() {
    let told_of = |schema: &str| {
        let sub = [
            ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            ("charts/sub/values.yaml", "port: 80\n"),
            ("charts/sub/values.schema.json", schema),
        ];
        let found = finding_lines(&sub);
        found.into_iter().filter(|f| f.contains("schema-refuses-global")).collect::<Vec<_>>()
    };
    let want = "charts/sub/values.schema.json:- schema-refuses-global: it refuses global, which Helm adds to the values of every \
                subchart; allow it in properties";
    for (schema, refuses) in [
        (r#"{"properties": {"port": {}}, "additionalProperties": false}"#, true),
        (r#"{"additionalProperties": {"type": "integer"}}"#, true),
        (r#"{"properties": {"port": {}, "global": {}}, "additionalProperties": false}"#, false),
        (
            r#"{"properties": {"port": {}, "name": {}}, "required": ["name"], "additionalProperties": false}"#,
            true,
        ),
        (r#"{"properties": {"port": {}}}"#, false),
        (r#"{"required": ["global"]}"#, false),
    ] {
        let want: &[&str] = if refuses { &[want] } else { &[] };
        assert_eq!(told_of(schema), want, "{schema}");
    }
}

#[test]
fn nulls_that_delete_nothing_are_told() {
    let metadata = "apiVersion: v2\nname: demo\nversion: 1.0.0\ndependencies:\n- {name: sub, version: 1.0.0, condition: sub.enabled}\n";
    let values = "sub:\n  enabled: true\n  user: null\n  probe: null\nown: null\n";
    let nulls = |values: &str| {
        let files = [
            ("Chart.yaml", metadata),
            ("values.yaml", values),
            ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            ("charts/sub/values.yaml", "user: 1\nprobe:\n  path: /\nother: 2\n"),
        ];
        let found = finding_lines(&files).into_iter();
        found
            .filter_map(|f| f.split_once(" ignored-null: ").map(|(at, text)| format!("{at} {text}")))
            .collect::<Vec<_>>()
    };
    let restores =
        "Helm 4 restores the defaults of a subchart; a null of a values file (-f) or of --set deletes it";
    assert_eq!(
        nulls(values),
        [
            format!(
                "values.yaml:3 the null of demo/values.yaml:3 does not delete sub.user, which stays as demo/charts/sub/values.yaml:1 sets \
                 it: {restores}"
            ),
            format!(
                "values.yaml:4 the null of demo/values.yaml:4 does not delete sub.probe.path, which stays as \
                 demo/charts/sub/values.yaml:3 sets it: {restores}"
            ),
        ]
    );
    assert_eq!(nulls("sub: {enabled: true, user: 3}\nown: null\n"), [""; 0]);
}

#[test]
fn charts_of_other_versions_than_asked_for_are_told() {
    let found = |version: &str, alias: &str| {
        let metadata = format!(
            "apiVersion: v2\nname: demo\nversion: 1.0.0\ndependencies:\n- {{name: sub, version: {version:?}{alias}}}\n"
        );
        let sub = ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.9.0\n");
        let found = finding_lines(&[("Chart.yaml", &metadata), sub]).into_iter();
        found.filter(|f| f.contains("dependency-version")).collect::<Vec<_>>()
    };
    let remedy = "fetch the version with dependency update, or change it in Chart.yaml";
    assert_eq!(
        found("2.0.0", ", alias: sessions"),
        [format!(
            "Chart.yaml:- dependency-version: charts/sub has version 1.9.0 and Chart.yaml asks for 2.0.0: it is rendered as sub, and the \
             alias sessions, its values, and the condition, tags and import-values of the dependency are ignored; {remedy}"
        )]
    );
    assert_eq!(
        found("^2", ""),
        [format!(
            "Chart.yaml:- dependency-version: charts/sub has version 1.9.0 and Chart.yaml asks for ^2: the condition, tags and \
             import-values of the dependency are ignored; {remedy}"
        )]
    );
    assert_eq!(found("^1.5", ", alias: sessions"), [""; 0]);
}
