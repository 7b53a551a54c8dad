//! Large charts render the same output on two threads as on one.

use std::fmt::Write as _;

use crate::chart::{File, load_files};
use crate::data::Map;
use crate::profile::Profile;
use crate::render::{
    Capabilities, CompiledChart, Error, Options, Release, Rendered, ShowOnly, template_output,
};
use crate::template::Limits;
use crate::world::Still;

fn file(name: &str, text: &str) -> File {
    File::new(name.to_owned(), text.as_bytes().to_vec())
}

/// Renders a chart, its templates in order on one thread or as they come on two.
fn rendered(files: Vec<File>, in_order: bool) -> Result<Rendered, Error> {
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
    CompiledChart::new(chart, Profile::Helm4).render(
        &Map::new(),
        &options(1),
        &Still { in_order },
        &mut |_| {},
    )
}

fn options(revision: i64) -> Options {
    Options {
        release: Release { name: "r".into(), namespace: "d".into(), revision, is_upgrade: revision > 1 },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: true,
        limits: Limits::default(),
    }
}

/// Manifests and notes as text.
fn printed(rendered: &Rendered) -> String {
    let all = ShowOnly { patterns: &[] };
    let text = template_output(rendered, false, |_| true, &all, Profile::Helm4).unwrap();
    format!("{}\nnotes: {}", String::from_utf8(text).unwrap(), rendered.notes)
}

/// What 200 templates print that show a counter in the values; `special` are the texts of some of them.
fn render(special: &[(usize, &str)], in_order: bool) -> Result<String, String> {
    let mut files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
        file("values.yaml", "num: 0\nlist: {a: 1}\n"),
        file("templates/NOTES.txt", "{{ .Values.num }}"),
    ];
    let filling = "# filling\n".repeat(100);
    for i in 0..200 {
        let own = special.iter().find(|s| s.0 == i).map_or("", |s| s.1);
        let mut text = String::new();
        write!(
            text,
            "{own}\nname: {{{{ .Template.Name }}}}\nn: {{{{ .Values.num }}}}\nkeys: {{{{ keys .Values.list }}}}\n{filling}"
        )
        .unwrap();
        files.push(file(&format!("templates/t{i:03}.yaml"), &text));
    }
    rendered(files, in_order).map(|rendered| printed(&rendered)).map_err(|e| e.to_string())
}

#[test]
fn what_a_template_changes_shows_in_later_ones_alone() {
    let set = r#"{{ $_ := set .Values "num" (add1 .Values.num) }}"#;
    let unset = r#"{{ $_ := unset .Values.list "a" }}"#;
    let own = r#"{{ $_ := set (dict "a" 1) "b" 2 }}{{ $_ := set (deepCopy .Values) "num" 7 }}"#;
    let fail = r#"{{ fail "enough" }}"#;
    let tables: [&[(usize, &str)]; 9] = [
        &[],
        &[(100, set)],
        &[(0, set), (199, set)],
        &[(198, set), (199, set), (197, set)],
        &[(50, set), (100, unset), (150, set)],
        &[(30, own), (60, own), (90, own)],
        &[(100, fail)],
        &[(20, fail), (180, fail)],
        &[(20, fail), (180, set), (100, "{{ if eq (int .Values.num) 1 }}{{ fail \"one\" }}{{ end }}")],
    ];
    for special in tables {
        let wanted = render(special, true);
        for _ in 0..20 {
            assert_eq!(render(special, false), wanted, "{special:?}");
        }
    }
    let counted = render(&[(100, set)], false).unwrap();
    // The later name is executed first.
    assert_eq!(counted.matches("\nn: 1\n").count(), 101);
    assert!(counted.ends_with("notes: 1"));
}

/// Renders a chart of one template with the given helpers.
fn one(helpers: &str, template: &str) -> String {
    let files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
        file("values.yaml", "num: 0\nlist: {a: 1}\ndeep: {er: {x: 1}}\n"),
        file("templates/_helpers.tpl", helpers),
        file("templates/NOTES.txt", template),
        file("templates/NOTES.txt/more/NOTES.txt", template),
    ];
    rendered(files, true).unwrap().notes
}

#[test]
fn what_a_helper_gave_holds_until_something_changes() {
    let helpers = r#"
{{- define "n" }}{{ .Values.num }}{{ end }}
{{- define "deep" }}{{ .ctx.Values.deep.er.x }}{{ .own | join "," }}{{ end }}
{{- define "name" }}{{ base .Template.Name }}{{ .Template.Name | dir | base }}{{ end }}
{{- define "dot" }}{{ toYaml . | sha256sum | trunc 4 }}{{ end }}
{{- define "set" }}{{ $_ := set .Values "num" (add1 .Values.num) }}{{ .Values.num }}{{ end }}
{{- define "sets own" }}{{ $_ := set . "n" (add1 .n) }}{{ .n }}{{ end }}
{{- define "fresh" }}{{ $d := dict "n" 1 }}{{ $_ := set $d "n" 2 }}{{ $d.n }}{{ end }}
{{- define "kind" }}{{ kindOf . }}{{ . }}{{ end }}
{{- define "item" }}{{ (index . 0).x }}{{ index . 1 }}{{ end }}"#;
    let table = [
        // A change between two calls, by the caller, a helper, or deep below.
        (r#"{{ include "n" . }}{{ $_ := set .Values "num" 5 }}{{ include "n" . }}"#, "05"),
        (r#"{{ include "set" . }}{{ include "set" . }}{{ include "n" . }}{{ include "set" . }}"#, "1223"),
        (
            r#"{{ $d := dict "ctx" . "own" (list 1 2) }}{{ include "deep" $d }}{{ $_ := set .Values.deep.er "x" 3 }}{{ include "deep" $d }}"#,
            "11,231,2",
        ),
        (
            r#"{{ include "deep" (dict "ctx" . "own" (list 1)) }}{{ $_ := unset .Values.deep "er" }}{{ $_ := set .Values.deep "er" (dict "x" 7) }}{{ include "deep" (dict "ctx" . "own" (list 1)) }}"#,
            "1171",
        ),
        // A change of the dot itself.
        (r#"{{ $d := dict "n" 1 }}{{ include "sets own" $d }}{{ include "sets own" $d }}{{ $d.n }}"#, "233"),
        (r#"{{ range list 1 2 }}{{ include "sets own" (dict "n" 1) }}{{ end }}"#, "22"),
        // Values that are equal but not the same kind.
        (
            r#"{{ include "kind" 1 }}{{ include "kind" 1.0 }}{{ include "kind" "1" }}{{ include "kind" (int64 1) }}{{ include "kind" nil }}"#,
            "int1float641string1int641invalid",
        ),
        (
            r#"{{ include "kind" (list) }}{{ include "kind" (list 1) }}{{ include "kind" (list "1") }}"#,
            "slice[]slice[1]slice[1]",
        ),
        // Fresh maps with equal entries, and one that differs.
        (
            r#"{{ $a := dict "x" 1 }}{{ $b := dict "x" 2 }}{{ include "item" (list $a "p") }}{{ include "item" (list $b "p") }}{{ include "item" (list $a "p") }}{{ $_ := set $a "x" 3 }}{{ include "item" (list $a "p") }}"#,
            "1p2p1p3p",
        ),
        (r#"{{ include "fresh" . }}{{ include "fresh" . }}"#, "22"),
        (
            r#"{{ tpl "{{ .Values.num }}" . }}{{ $_ := set .Values "num" 4 }}{{ tpl "{{ .Values.num }}" . }}"#,
            "04",
        ),
        (
            r#"{{ tpl "{{ define \"n\" }}own{{ end }}{{ include \"n\" . }}" . }}{{ include "n" . }}{{ tpl "{{ include \"n\" . }}" . }}"#,
            "own00",
        ),
    ];
    for (template, wanted) in table {
        // Two files, so that each begins with what the other one left.
        let printed = one(helpers, &format!("{template};"));
        // The deeper one is executed first and printed last.
        let first = printed.split(';').nth(1).unwrap_or_default();
        assert_eq!(first.trim(), wanted, "{template} {printed:?}");
    }
    // Which file runs is no matter of the dot, nor is what the file is called when all of it is printed.
    let names = one(helpers, r#"{{ include "name" . }} {{ include "dot" . }};"#);
    let parts: Vec<&str> = names.split(';').map(str::trim).collect();
    assert_eq!(parts[0].split(' ').next(), Some("NOTES.txttemplates"));
    assert_eq!(parts[1].split(' ').next(), Some("NOTES.txtmore"));
    assert_ne!(parts[0].split(' ').next_back(), parts[1].split(' ').next_back());
}

#[test]
fn reads_of_the_revision_are_reported() {
    let cases = [
        ("plain {{ .Values.e }}", false),
        ("{{ .Release.Name }} {{ $.Release.Namespace }} {{ .Release.Service }}", false),
        ("{{ range .Values.list }}{{ $.Release.Name }}{{ end }}", false),
        ("{{ if .Release.IsInstall }}a{{ end }}", true),
        ("{{ with $ }}{{ if not .Release.IsUpgrade }}a{{ end }}{{ end }}", true),
        ("job-{{ .Release.Revision }}", true),
        ("{{ index .Release \"IsInstall\" }}", true),
        ("{{ get .Release (printf \"Is%s\" \"Upgrade\") }}", true),
        ("{{ toJson .Release }}", true),
        ("{{ toJson (omit . \"Template\" \"Files\") }}", true),
        ("{{ range $k, $v := .Release }}{{ $k }}={{ $v }} {{ end }}", true),
        ("{{ .Release }}", true),
        ("{{ tpl \"{{ .Release.Revision }}\" . }}", true),
        ("{{ template \"first\" . }}", true),
        ("{{ include \"first\" . }}{{ include \"first\" . }}", true),
        ("{{ (dict \"r\" .Release).r.IsInstall }}", true),
        ("{{ .Subcharts.sub.Release.Revision }}", true),
    ];
    for (text, expected) in cases {
        for filling in ["", &"filling ".repeat(20_000)] {
            let files = vec![
                file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
                file("values.yaml", "{e: 2, list: [{name: p}, {name: q}]}"),
                file("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
                file(
                    "templates/_first.tpl",
                    "{{ define \"first\" }}{{ ternary 1 2 .Release.IsInstall }}{{ end }}",
                ),
                file("templates/a.yaml", &format!("{{{{/* {filling} */}}}}\nout: |-\n  {text}\n")),
                file("templates/b.yaml", "out: {{ .Release.Name }}\n"),
            ];
            let chart = load_files(files, Profile::Helm4, &mut drop).unwrap();
            let compiled = CompiledChart::new(chart, Profile::Helm4);
            let render = |revision| {
                let rendered =
                    compiled.render(&Map::new(), &options(revision), &Still { in_order: false }, &mut drop);
                rendered.unwrap()
            };
            let (first, second) = (render(1), render(2));
            assert_eq!([first.reads_revision, second.reads_revision], [expected; 2], "{text}");
            assert_eq!(printed(&first) != printed(&second), expected, "{text}");
        }
    }
}
