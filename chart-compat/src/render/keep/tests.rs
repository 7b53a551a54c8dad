//! What is kept is what a render from nothing gives, whatever the values become; and little is run anew.

use std::collections::BTreeSet;

use super::{State, release};
use crate::chart::{File, load_files, read_values};
use crate::data::{Data, Map};
use crate::profile::Profile;
use crate::render::{Capabilities, CompiledChart, Options, Release, Rendered, ShowOnly, template_output};
use crate::template::Limits;
use crate::world::Still;

/// Templates by what they look at.
const TEMPLATES: [(&str, &str); 22] = [
    ("scalar", "{{ .Values.a.b.c }}"),
    ("dollar", "{{ with .Values.list }}{{ $.Values.a.b.d }}{{ end }}"),
    ("yaml", "{{ toYaml .Values.a | nindent 2 }}"),
    ("json", "{{ .Values.a.b | toJson }}"),
    ("range", "{{ range $k, $v := .Values.a.b }}{{ $k }},{{ end }}"),
    ("list", "{{ range .Values.list }}{{ .name }} {{ end }}"),
    ("truth", "{{ if .Values.empty }}yes{{ else }}no{{ end }}"),
    ("length", "{{ len .Values.a.b }}"),
    ("has", "{{ hasKey .Values.a \"new\" }}"),
    ("dig", "{{ dig \"b\" \"x\" \"none\" .Values.a }}"),
    ("default", "{{ .Values.a.missing | default \"none\" }}"),
    ("helper", "{{ include \"labels\" . }}"),
    ("called", "{{ include \"of\" (dict \"it\" .Values.a.b \"more\" .Values.e) }}"),
    ("tpl", "{{ tpl .Values.text . }}"),
    ("revision", "{{ .Release.Revision }} {{ .Release.IsUpgrade }}"),
    ("own", "{{ .Template.Name }} {{ .Values.e }}"),
    ("sub", "{{ .Values.sub.size }} {{ .Subcharts.sub.Values.color }}"),
    ("print", "{{ .Values.a }} {{ printf \"%v\" .Values.list }}"),
    (
        "copy",
        "{{ $c := deepCopy .Values.a }}{{ $_ := set $c \"b\" 1 }}{{ $c }}{{ merge (dict \"e\" 1) .Values.a.b }}",
    ),
    ("equal", "{{ eq .Values.e .Values.a.b.c }} {{ kindOf .Values.empty }} {{ empty .Values.empty }}"),
    ("world", "{{ now | date \"2006\" }}"),
    ("other", "{{ .Subcharts.sub.Template.Name }}"),
];

const VALUES: &str = "{a: {b: {c: 1, d: x}}, e: 2, empty: {}, list: [{name: p}, {name: q}], text: '{{ .Values.e }}', \
    sub: {size: 3, color: red}, global: {g: 1}}";

fn file(name: &str, text: &str) -> File {
    File::new(name.to_owned(), text.as_bytes().to_vec())
}

fn compiled(more: &[(&str, &str)]) -> CompiledChart {
    let mut files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
        file("values.yaml", VALUES),
        file(
            "templates/_helpers.tpl",
            "{{ define \"labels\" }}{{ .Values.e }} {{ .Release.Name }}{{ end }}{{ define \"of\" }}{{ .it.d }}{{ .more }}{{ end }}",
        ),
        file("templates/NOTES.txt", "{{ .Values.e }} notes"),
        file("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        file(
            "charts/sub/templates/in.yaml",
            "x: {{ .Values.size }} {{ .Values.global.g }} {{ .Values.none }}",
        ),
    ];
    // Enough of it to be worth keeping.
    let filling = format!("{{{{/* {} */}}}}\n", "filling ".repeat(500));
    for (name, text) in TEMPLATES.iter().chain(more) {
        files.push(file(&format!("templates/{name}.yaml"), &format!("{filling}out: |-\n  {text}\n")));
    }
    CompiledChart::new(load_files(files, Profile::Helm4, &mut drop).unwrap(), Profile::Helm4)
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

fn rendered(compiled: &CompiledChart, values: &Map, revision: i64) -> Rendered {
    let world = Still { in_order: revision % 2 == 0 };
    compiled.render(values, &options(revision), &world, &mut drop).unwrap()
}

fn text(rendered: &Rendered) -> String {
    let all = ShowOnly { patterns: &[] };
    let text = template_output(rendered, false, |_| true, &all, Profile::Helm4).unwrap();
    format!("{}\n{}", String::from_utf8(text).unwrap(), rendered.notes)
}

/// Values of a YAML text.
fn values(text: &str) -> Map {
    read_values(text.as_bytes(), Profile::Helm4).unwrap()
}

/// The templates that run for these values, by name.
fn stale(compiled: &CompiledChart, values: &Map, revision: i64) -> BTreeSet<String> {
    let all = rendered(&self::compiled(&[]), values, revision).values;
    let state = compiled.keep.0.lock().unwrap();
    let State::Kept(kept) = &*state else { panic!("nothing is kept") };
    let valid = kept.valid(&all, &release(&options(revision).release));
    let short = |name: &str| name.rsplit('/').next().unwrap().trim_end_matches(".yaml").to_owned();
    let names =
        TEMPLATES.iter().map(|(name, _)| (*name).to_owned()).chain(["in".to_owned(), "NOTES.txt".to_owned()]);
    let valid: BTreeSet<String> = valid.iter().map(|name| short(name)).collect();
    names.filter(|name| !valid.contains(name)).collect()
}

#[test]
fn only_what_read_a_changed_value_runs_again() {
    let compiled = compiled(&[]);
    let plain = Map::new();
    for _ in 0..2 {
        rendered(&compiled, &plain, 1);
    }
    let always = ["other", "world"];
    let cases: [(&str, i64, &[&str]); 11] = [
        ("{}", 1, &[]),
        (
            "{a: {b: {c: 7}}}",
            1,
            &["called", "copy", "equal", "json", "length", "print", "range", "scalar", "yaml"],
        ),
        ("{a: {b: {d: y}}}", 1, &["called", "copy", "dollar", "json", "length", "print", "range", "yaml"]),
        ("{a: {b: {z: y}}}", 1, &["called", "copy", "json", "length", "print", "range", "yaml"]),
        ("{e: 5}", 1, &["NOTES.txt", "called", "equal", "helper", "own", "tpl"]),
        ("{a: {new: 1}}", 1, &["copy", "has", "print", "yaml"]),
        ("{list: [{name: z}, {name: q}]}", 1, &["dollar", "list", "print"]),
        ("{empty: {now: 1}}", 1, &["equal", "truth"]),
        ("{sub: {size: 9}}", 1, &["in", "sub"]),
        ("{unrelated: {key: 9}}", 1, &[]),
        ("{}", 2, &["revision"]),
    ];
    for (edit, revision, expected) in cases {
        let mut expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        expected.extend(always.map(str::to_owned));
        let found = stale(&compiled, &values(edit), revision);
        // `dict` copies nothing: what a helper reads of it is what it names.
        let named =
            |set: &BTreeSet<String>| set.iter().filter(|n| *n != "called").cloned().collect::<Vec<_>>();
        assert_eq!(named(&found), named(&expected), "{edit} {revision}");
    }
}

#[test]
fn gives_what_a_render_from_nothing_gives() {
    let kept = compiled(&[]);
    let edits = [
        "{a: {b: {c: 7}}}",
        "{a: {b: {d: y}}}",
        "{a: {b: null}}",
        "{a: {b: {z: 1}}}",
        "{a: {b: {c: {now: a map}}}}",
        "{a: {missing: 1}}",
        "{a: text}",
        "{a: null}",
        "{e: 5}",
        "{e: -0.0}",
        "{e: 0.0}",
        "{list: []}",
        "{list: [{name: z}, {name: q}]}",
        "{list: [one]}",
        "{empty: {now: 1}}",
        "{empty: []}",
        "{sub: {size: 9}}",
        "{sub: {color: blue, none: 1}}",
        "{sub: null}",
        "{global: {g: 2}}",
        "{text: '{{ .Values.a }}'}",
        "{text: plain}",
    ];
    let mut all = Map::new();
    let mut seed = 1_u64;
    let mut revision = 1;
    let mut failures = 0;
    for _ in 0..400 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = usize::try_from(seed >> 33).unwrap();
        match number % 8 {
            0 => all = Map::new(),
            1 => revision += 1,
            _ => all
                .extend(values(edits[number / 8 % edits.len()]).iter().map(|(k, v)| (k.clone(), v.clone()))),
        }
        let fresh = compiled(&[]);
        let render = |compiled: &CompiledChart| {
            let world = Still { in_order: revision % 2 == 0 };
            let rendered = compiled.render(&all, &options(revision), &world, &mut drop);
            rendered.map(|r| text(&r)).map_err(|e| e.to_string())
        };
        let expected = render(&fresh);
        failures += usize::from(expected.is_err());
        assert_eq!(render(&kept), expected, "{all:?}");
    }
    assert!((1..200).contains(&failures), "{failures}");
}

#[test]
fn nothing_is_kept_where_templates_change_what_they_share() {
    let change = ("change", "{{ if .Values.change }}{{ $_ := set .Values \"e\" (add1 .Values.e) }}{{ end }}");
    let kept = compiled(&[change]);
    for edit in ["{e: 3}", "{e: 4}", "{e: 4, change: true}", "{e: 5}", "{change: true}", "{e: 6}"] {
        let values = values(edit);
        let fresh = compiled(&[change]);
        assert_eq!(text(&rendered(&kept, &values, 1)), text(&rendered(&fresh, &values, 1)), "{edit}");
    }
    assert!(matches!(*kept.keep.0.lock().unwrap(), State::Never));
}

#[test]
fn a_render_that_fails_costs_nothing_of_what_is_kept() {
    let kept = compiled(&[("fails", "{{ if .Values.bad }}{{ fail \"bad\" }}{{ end }}")]);
    let good = Map::new();
    for _ in 0..2 {
        rendered(&kept, &good, 1);
    }
    let bad = Map::from([("bad".to_owned(), Data::Bool(true))]);
    assert!(kept.render(&bad, &options(1), &Still { in_order: false }, &mut drop).is_err());
    assert!(matches!(*kept.keep.0.lock().unwrap(), State::Kept(_)));
    assert_eq!(text(&rendered(&kept, &good, 1)), text(&rendered(&compiled(&[("fails", "")]), &good, 1)));
}

#[test]
fn what_another_revision_changes_is_told_where_it_is_read() {
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
                file("values.yaml", VALUES),
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
            // The third is what is kept of the second.
            for time in 1..=3 {
                let done = rendered(&compiled, &Map::new(), 2);
                assert_eq!(done.reads_revision, expected, "{text}, time {time}");
            }
            let differs = self::text(&rendered(&compiled, &Map::new(), 1))
                != self::text(&rendered(&compiled, &Map::new(), 2));
            assert_eq!(differs, expected, "{text}");
        }
    }
}
