//! The ledger of `chart-compat/README.md`: each known deviation from Helm, pinned by running real Helm and us side by side.
//!
//! A test here fails when Helm or we change what the ledger says. If a deviation is gone, its row goes with its test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use chart_compat::chart::{File, MAX_ENTRIES, load_files, read_archive};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Options, Release};
use chart_compat::template::Limits;
use windlass_render::SystemWorld;
use windlass_testing::{Tool, write_file};

/// How often Helm is asked where it decides by chance.
const TRIES: usize = 30;

type Files<'f> = &'f [(&'f str, &'f str)];

/// A chart on disk.
struct Chart(tempfile::TempDir);

impl Chart {
    /// A chart named `demo` of these files, in which a `Chart.yaml` among them counts.
    fn new(files: Files<'_>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let metadata = [("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n")];
        for (name, text) in metadata.iter().chain(files) {
            write_file(dir.path().join(name), text);
        }
        Self(dir)
    }

    /// What a command says: standard output and, after it, standard error.
    fn run(&self, program: &Path, words: &[&str], more: &[&str]) -> String {
        let mut command = Command::new(program);
        command.args(words).args(more).current_dir(self.0.path());
        let out =
            command.env("HOME", self.0.path()).env("TZ", "UTC").env_remove("KUBECONFIG").output().unwrap();
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    }

    fn helm4(&self, args: &[&str]) -> String {
        self.run(&Tool::Helm4.path().unwrap(), &["template", "demo", "."], args)
    }

    fn helm3(&self, args: &[&str]) -> String {
        self.run(&Tool::Helm3.path().unwrap(), &["template", "demo", "."], args)
    }

    fn ours(&self, args: &[&str]) -> String {
        self.run(&PathBuf::from(env!("CARGO_BIN_EXE_windlass")), &["template", "demo", "."], args)
    }

    fn ours3(&self, args: &[&str]) -> String {
        self.ours(&[&["--compat", "helm3"], args].concat())
    }
}

/// One template: both Helms answer one thing, we another.
fn pinned(template: &str, helm: &str, ours: &str) {
    pinned_with(&[("templates/a.yaml", template)], &[], helm, ours);
}

/// The same for a chart of files and more arguments.
fn pinned_with(files: Files<'_>, args: &[&str], helm: &str, ours: &str) {
    let chart = Chart::new(files);
    for said in [chart.helm4(args), chart.helm3(args)] {
        assert!(said.contains(helm), "Helm no longer says {helm:?}:\n{said}");
    }
    for said in [chart.ours(args), chart.ours3(args)] {
        assert!(said.contains(ours), "we no longer say {ours:?}:\n{said}");
        assert!(!said.contains(helm), "we say what Helm says: take the row out of the ledger\n{said}");
    }
}

/// Helm comes to many answers, we always to one.
fn steady(files: Files<'_>, args: &[&str], ours: &str) {
    let chart = Chart::new(files);
    let said = chart.ours(args);
    assert!(said.contains(ours), "we no longer say {ours:?}:\n{said}");
    assert_eq!(chart.ours(args), said);
    let wavers = (0..TRIES).any(|_| chart.helm4(args) != said);
    assert!(wavers, "in {TRIES} runs Helm said what we say: take the row out of the ledger\n{said}");
}

#[test]
fn a_byte_of_a_text_is_an_int() {
    pinned(r#"t: {{ kindOf (index "ab" 0) }}"#, "t: uint8", "t: int");
}

#[test]
fn keys_and_values_come_in_order() {
    let entries: String = (0..26).map(|n| format!("\"k{n:02}\" {n} ")).collect();
    let template = format!("t: {{{{ keys (dict {entries}) }}}}\nu: {{{{ values (dict {entries}) }}}}");
    steady(&[("templates/a.yaml", &template)], &[], "t: [k00 k01 k02 k03");
}

#[test]
fn keys_in_a_circle_have_one_order() {
    // go-yaml has 1a before 01, 01 before 9, and 9 before 1a: what its sort makes of them hangs on the order they come in.
    let keys = ["a1", "a01", "a", "1a", "9", "10", "a10", "a9", "A", "_", "1_", "01", "001", "1"];
    let entries: String = keys.iter().map(|k| format!("\"{k}\" 1 ")).collect();
    let template = format!("t: {{{{ toYaml (dict {entries}) | quote }}}}");
    steady(&[("templates/a.yaml", &template)], &[], r#"t: "_: 1\n\"1\": 1\n\"1_\": 1\n1a: 1\n"#);
}

#[test]
fn of_files_with_one_base_name_the_last_counts() {
    let template = "t: {{ (.Files.Glob \"*/x\").AsConfig | quote }}";
    let files = ["a/x", "b/x", "c/x", "d/x", "e/x", "f/x"].map(|name| (name, name));
    steady(&[&files[..], &[("templates/a.yaml", template)]].concat(), &[], "t: \"x: f/x\"");
}

#[test]
fn a_slice_ends_where_its_list_ends() {
    let template = "t: {{ slice (slice (list 1 2 3) 0 1) 0 3 }}";
    pinned(template, "t: [1 2 3]", "slice index out of bounds");
}

#[test]
fn addresses_are_not_made_up() {
    steady(&[("templates/a.yaml", r#"t: {{ printf "%v" (list .Capabilities) | quote }}"#)], &[], "[&{{v1.");
    steady(&[("templates/a.yaml", r#"t: {{ printf "%p" .Release | quote }}"#)], &[], "map[");
    pinned(
        r#"t: {{ printf "%d" (toDate "2006-01-02" "2020-01-01") | quote }}"#,
        r#"t: "{0 63713433600 "#,
        r#"t: "%!d(time.Time=2020-01-01 00:00:00 +0000 UTC)"#,
    );
}

#[test]
fn stars_that_meet_match_anything() {
    let template = r#"t: "{{ range $p, $_ := .Files.Glob "a***b" }}{{ $p }}{{ end }}""#;
    pinned_with(&[("templates/a.yaml", template), ("ab", "x")], &[], "t: \"\"", "t: \"ab\"");
}

#[test]
fn words_are_cut_from_text_that_is_utf8() {
    // The byte FF behind an `a`.
    pinned(r#"t: {{ b64dec "Yf8=" | snakecase | b64enc }}"#, "t: Yf8=", "t: Ye+/vQ==");
    pinned(r#"t: {{ b64dec "Yf8=" | kebabcase | b64enc }}"#, "t: Yf8=", "t: Ye+/vQ==");
}

#[test]
fn patterns_are_smaller() {
    pinned(r#"t: {{ mustRegexMatch "\\pL{1000}" "a" }}"#, "t: false", "expression too large");
}

#[test]
fn short_names_of_scripts_are_known() {
    pinned(r#"t: {{ mustRegexMatch "\\p{Grek}" "a" }}"#, "invalid character class range", "t: false");
}

#[test]
fn errors_of_patterns_show_what_is_no_utf8() {
    let template = r#"t: {{ mustRegexMatch (printf "\\p{%s}" (b64dec "/w==")) "a" }}"#;
    pinned(template, "invalid UTF-8: `\u{fffd}`", "invalid UTF-8: `\u{fffd}}`");
}

#[test]
fn toml_tells_of_the_outer_key() {
    pinned(r#"t: {{ (fromToml "z = {a = 1}\nz = {a = 1}").Error | quote }}"#, "Key 'z.a' has", "Key 'z' has");
}

#[test]
fn manifests_are_utf8() {
    pinned("t: 1\n...\n{{ b64dec \"6Q==\" }}", "t: 1\n...\n", "the manifest is no UTF-8");
    // What go-yaml refuses is refused in its words.
    let chart = Chart::new(&[("templates/a.yaml", "t: {{ b64dec \"6Q==\" }}")]);
    assert_eq!(chart.ours(&[]), chart.helm4(&[]));
}

#[test]
fn the_first_key_without_json_form_is_told_of() {
    let text = r#"t: {{ "~: [~: 1]\nb: {~: 2}" | fromYaml | toJson }}"#;
    steady(
        &[("templates/a.yaml", text)],
        &[],
        "value: []interface {}{map[interface {}]interface {}{interface {}(nil):1}}",
    );
}

#[test]
fn breaches_of_a_schema_come_in_order() {
    let schema = r#"{"additionalProperties": {"type": "string"}}"#;
    let files = [
        ("values.schema.json", schema),
        ("values.yaml", "{a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1, h: 1, i: 1}"),
    ];
    steady(&files, &[], "- at '/a': got number, want string\n- at '/b'");
}

#[test]
fn documents_nest_a_thousand_deep() {
    let deep = format!("{}{}", "[".repeat(1200), "]".repeat(1200));
    let yaml = "t: {{ .Files.Get \"deep\" | fromYamlArray | toJson | len }}";
    let json = "t: {{ .Files.Get \"deep\" | fromJsonArray | toJson | len }}";
    for template in [yaml, json] {
        pinned_with(&[("templates/a.yaml", template), ("deep", &deep)], &[], "t: 2400", "t: ");
    }
    let values = format!("d: {deep}");
    let files = [("templates/a.yaml", "t: {{ .Values.d | toJson | len }}"), ("v.yaml", &values)];
    pinned_with(&files, &["-f", "v.yaml"], "t: 2400", "exceeded max depth of 1000");
}

#[test]
fn a_map_that_contains_itself_is_printed_to_a_depth() {
    // Helm dies of it after some seconds and a gigabyte of stack, which is not asked of it in every run of the tests.
    let template = "{{ $d := dict }}{{ $_ := set $d \"self\" $d }}t: {{ $d | quote }}";
    let said = Chart::new(&[("templates/a.yaml", template)]).ours(&[]);
    assert!(said.contains("map[self:map[self:") && said.contains("map[...:...]"), "{said}");
}

fn file(name: &str, text: &str) -> File {
    File::new(name.to_owned(), text.as_bytes().to_vec())
}

/// Renders in process with other limits than ours.
fn render(template: &str, limits: Limits) -> Result<(), String> {
    render_file("templates/a.yaml", template, limits)
}

/// Renders a chart of one file in process.
fn render_file(name: &str, text: &str, limits: Limits) -> Result<(), String> {
    let files = vec![file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"), file(name, text)];
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).map_err(|e| e.to_string())?;
    let options = Options {
        release: Release {
            name: "demo".to_owned(),
            namespace: "default".to_owned(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits,
    };
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let rendered = compiled.render(&Map::new(), &options, &SystemWorld::default(), &mut |_| {});
    rendered.map(drop).map_err(|e| e.to_string())
}

#[test]
fn a_render_is_bounded() {
    let template = "t: {{ range 1000 }}{{ range 1000 }}xxxxxxxxxx{{ list 1 2 }}{{ end }}{{ end }}";
    let few = Limits::default();
    let bounds =
        [Limits { steps: 1000, ..few }, Limits { memory: 1 << 20, ..few }, Limits { output: 1 << 16, ..few }];
    for limits in bounds {
        let error = render(template, limits).unwrap_err();
        assert!(error.contains("render stopped: "), "{limits:?}: {error}");
    }
    assert_eq!(render("t: {{ range 10 }}x{{ end }}", few), Ok(()));
    // Calls that would take more memory than a render may are refused before they take it.
    let doubled = "{{ $d := dict \"a\" \"x\" }}{{ range 64 }}{{ $d = dict \"a\" $d \"b\" $d }}{{ end }}";
    let long = "{{ $s := repeat 1000000 \"x\" }}";
    let hostile = [
        "{{ repeat 1000000000000 \"x\" }}".to_owned(),
        "{{ indent 1000000000 \"x\" }}".to_owned(),
        "{{ until 100000000 }}".to_owned(),
        "{{ seq 1 100000000 }}".to_owned(),
        "{{ untilStep 0 100000000 1 }}".to_owned(),
        "{{ randAlpha 100000000 }}".to_owned(),
        "{{ printf \"%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d%999999d\" 1 2 3 4 5 6 7 8 9 }}".to_owned(),
        "{{ printf \"%*d%*d%*d%*d%*d%*d%*d%*d%*d\" 999999 1 999999 1 999999 1 999999 1 999999 1 999999 1 999999 1 999999 1 999999 1 }}"
            .to_owned(),
        format!("{long}{{{{ replace \"x\" (repeat 1000 \"y\") $s }}}}"),
        format!("{long}{{{{ regexReplaceAll \"x\" $s (repeat 1000 \"y\") }}}}"),
        format!("{long}{{{{ regexReplaceAll \"x+\" $s (repeat 1000 \"$0\") }}}}"),
        format!("{long}{{{{ regexReplaceAllLiteral \"x\" $s (repeat 1000 \"y\") }}}}"),
        format!("{long}{{{{ splitList \"\" $s }}}}"),
        format!("{long}{{{{ join $s (until 100) }}}}"),
        format!("{long}{{{{ wrapWith 1 (repeat 100 \"y\") $s }}}}"),
        "{{ fromYamlArray (printf \"[%s]\" (repeat 1000000 \"a,\")) }}".to_owned(),
        "{{ fromYaml (printf \"a: &a %s\\nb: [%s]\" (repeat 50000 \"x\") (repeat 2000 \"*a,\")) }}".to_owned(),
        "{{ fromYamlArray (printf \"[%s]\" (repeat 20000 \"{a: 1},\")) }}".to_owned(),
        format!("{doubled}{{{{ toYaml $d }}}}"),
        format!("{doubled}{{{{ toPrettyJson $d }}}}"),
        format!("{doubled}{{{{ toToml $d }}}}"),
        format!("{doubled}{{{{ $d }}}}"),
        format!("{doubled}{{{{ printf \"%v\" $d }}}}"),
        format!("{doubled}{{{{ quote $d }}}}"),
        format!("{doubled}{{{{ deepCopy $d }}}}"),
        format!("{doubled}{{{{ merge (dict) $d }}}}"),
        format!("{doubled}{{{{ deepEqual $d (deepCopy $d) }}}}"),
        format!("{doubled}{{{{ has $d (list $d) }}}}"),
        "{{ range $i := 1000000 }}{{ tpl (printf \"{{ %d }}\" $i) $ }}{{ end }}".to_owned(),
        "{{ $s := \"x\" }}{{ range 64 }}{{ $s = print $s $s }}{{ end }}".to_owned(),
        "{{ $l := list }}{{ range 10000000 }}{{ $l = append $l 1 }}{{ end }}".to_owned(),
    ];
    for template in hostile {
        let error = render(&template, Limits::within(8 << 20)).unwrap_err();
        assert!(error.contains("render stopped: its values take more than 8 MiB"), "{template}: {error}");
    }
    // So are calls that take the square of a list's length in time.
    let map = "{{ $NAME := dict }}{{ range $i := until 20000 }}{{ $_ := set $NAME (printf \"NAME%06d\" $i) 1 }}{{ end }}";
    let (a, b) = (map.replace("NAME", "a"), map.replace("NAME", "b"));
    let square =
        ["{{ uniq (chunk 1 (until 20000)) }}".to_owned(), format!("{a}{b}{{{{ $_ := merge $b $a }}}}")];
    for template in &square {
        let error = render(template, Limits { steps: 10_000_000, ..Limits::default() }).unwrap_err();
        assert!(error.contains("it executed more nodes"), "{template}: {error}");
    }
    let keys = "{{ range 1000 }}{{ htpasswd \"u\" \"p\" }}{{ end }}";
    let error = render(keys, Limits { steps: 10_000_000, ..Limits::default() }).unwrap_err();
    assert!(error.contains("it executed more nodes"), "password hashes count as what they cost: {error}");
}

#[test]
fn aliases_take_so_much_memory() {
    let values = format!("a: &a {}\nb: [{}]\n", "x".repeat(50_000), vec!["*a"; 1_000].join(", "));
    let files = [("values.yaml", values.as_str()), ("templates/a.yaml", "a: {{ len .Values.b }}")];
    let chart = Chart::new(&files);
    for said in [chart.helm4(&[]), chart.helm3(&[])] {
        assert!(said.contains("a: 1000"), "Helm no longer renders it:\n{}", &said[..said.len().min(1000)]);
    }
    for said in [chart.ours(&[]), chart.ours3(&[])] {
        assert!(said.contains("values.yaml") && said.contains("the aliases add more than 32 MiB"), "{said}");
    }
}

/// Both Helms render a chart, and we refuse it with these words.
#[track_caller]
fn is_refused(chart: &Chart, args: &[&str], rendered: &str, told: &str) {
    for said in [chart.helm4(args), chart.helm3(args)] {
        assert!(said.contains(rendered), "Helm no longer renders it:\n{}", &said[..said.len().min(1000)]);
    }
    for said in [chart.ours(args), chart.ours3(args)] {
        assert!(said.contains(told), "{}", &said[..said.len().min(1000)]);
    }
}

#[test]
fn dependencies_are_imported_and_copied_within_bounds() {
    let chart = |metadata: &str| {
        let metadata = format!("apiVersion: v2\nname: demo\nversion: 1.0.0\ndependencies:\n{metadata}");
        Chart::new(&[
            ("Chart.yaml", metadata.as_str()),
            ("templates/a.yaml", "a: 1000"),
            ("charts/sub/Chart.yaml", "apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
            ("charts/sub/values.yaml", "a: {x: 1}\n"),
        ])
    };
    let sub = "- name: sub\n  version: 1.0.0\n";
    let import = "  - {child: a, parent: b}\n".repeat(1_001);
    let many = chart(&format!("{sub}  import-values:\n{import}"));
    is_refused(&many, &[], "a: 1000", "import-values has 1001 entries, more than 1000");
    let long = chart(&format!("{sub}  import-values: [{{child: a, parent: {}}}]\n", ["b"; 501].join(".")));
    is_refused(&long, &[], "a: 1000", "more than 500");
    let aliases: String = (0..10_001).map(|n| format!("{sub}  alias: s{n}\n")).collect();
    is_refused(&chart(&aliases), &[], "a: 1000", "10000");
}

#[test]
fn errors_show_so_much_of_a_name() {
    let name = "n".repeat(3_000);
    let text = format!(
        "{{{{ define \"{name}\" }}}}{{{{ .Values.a.b }}}}{{{{ end }}}}{{{{ include \"{name}\" . }}}}"
    );
    let chart = Chart::new(&[("templates/a.yaml", text.as_str())]);
    is_refused(&chart, &[], &name, &format!("executing \"{}...\"", "n".repeat(2 << 10)));
}

#[test]
fn large_patterns_search_short_texts() {
    let pattern = format!("^x{}", "(?:[a-z0-9.-]?){1000}".repeat(50));
    let template = format!("a: {{{{ regexMatch {pattern:?} (repeat 100000 \"a1b\") }}}}");
    let told = "is too large for a text of 300000 bytes";
    is_refused(&Chart::new(&[("templates/a.yaml", template.as_str())]), &[], "a: false", told);
    let schema = format!(r#"{{"properties": {{"a": {{"not": {{"pattern": {pattern:?}}}}}}}}}"#);
    let values = format!("a: {}\n", "a1b".repeat(100_000));
    let files = [
        ("values.yaml", values.as_str()),
        ("values.schema.json", schema.as_str()),
        ("templates/a.yaml", "a: {{ len .Values.a }}"),
    ];
    is_refused(&Chart::new(&files), &[], "a: 300000", "is too large for a value of 300000 bytes");
}

#[test]
fn json_nests_ten_thousand_deep() {
    let text =
        "{{ $d := dict }}{{ range until 12000 }}{{ $d = dict \"a\" $d }}{{ end }}a: {{ len (toJson $d) }}";
    let chart = Chart::new(&[("templates/a.yaml", text)]);
    is_refused(&chart, &[], "a: 72002", "a: 0");
    let text = text.replace("toJson", "mustToJson");
    let chart = Chart::new(&[("templates/a.yaml", text.as_str())]);
    is_refused(&chart, &[], "a: 72002", "nested deeper than 10000");
}

#[test]
fn lists_are_filled_up_within_a_bound() {
    let chart = Chart::new(&[("templates/a.yaml", "a: {{ len .Values.k39 }}")]);
    let set: Vec<String> = (0..40).map(|n| format!("k{n}[65535]=1")).collect();
    is_refused(
        &chart,
        &["--set", &set.join(",")],
        "a: 65536",
        "lists that indexes fill up take more than 32 MiB",
    );
}

#[test]
fn a_schema_is_checked_in_so_many_steps() {
    let schema =
        format!(r#"{{"properties": {{"l": {{"items": {{"allOf": [{}]}}}}}}}}"#, ["{}"; 2_000].join(","));
    let values = format!("l: [{}]\n", ["1"; 1_001].join(","));
    let files = [
        ("values.yaml", values.as_str()),
        ("values.schema.json", schema.as_str()),
        ("templates/a.yaml", "a: {{ len .Values.l }}"),
    ];
    is_refused(&Chart::new(&files), &[], "a: 1001", "2000000");
}

#[test]
fn an_archive_has_so_many_files() {
    let mut archive =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for n in 0..=MAX_ENTRIES {
        let mut header = tar::Header::new_gnu();
        header.set_size(0);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("demo/{n}"), &[][..]).unwrap();
    }
    let bytes = archive.into_inner().unwrap().finish().unwrap();
    let error = read_archive(&bytes, Profile::Helm4).unwrap_err().to_string();
    assert!(error.contains("100000") || error.contains("100,000"), "{error}");
}

/// Subcharts that `Chart.yaml` does not name.
fn strangers(file: &str, text: &str) -> Vec<(String, String)> {
    let names = "abcdefghijkl".chars();
    let files = names.flat_map(|n| {
        let metadata = format!("apiVersion: v2\nname: {n}\nversion: 1.0.0\n");
        [
            (format!("charts/{n}/Chart.yaml"), metadata),
            (format!("charts/{n}/{file}"), text.replace("NAME", &n.to_string())),
        ]
    });
    files.collect()
}

#[test]
fn subcharts_load_in_order_of_name() {
    let files = strangers("crds/x.yaml", "kind: X\nname: NAME\n");
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let first = "---\n# Source: demo/charts/a/crds/x.yaml\nkind: X\nname: a\n\n---\n# Source: demo/charts/b/crds/x.yaml";
    steady(&files, &["--include-crds"], first);
}

#[test]
fn schemas_of_an_operator_refer_to_nothing_outside() {
    let cases = [
        ("http://127.0.0.1:1/s.json", "connection refused", "schemas are not fetched from the network"),
        (
            "file:///nowhere.json",
            "open /nowhere.json",
            "a schema may refer to nothing outside values.schema.json",
        ),
    ];
    for (url, helm, ours) in cases {
        let schema = format!("{{\"$ref\": \"{url}\"}}");
        let chart = Chart::new(&[("values.schema.json", &schema)]);
        // The command line asks, as Helm does.
        assert!(chart.helm4(&[]).contains(helm) && chart.ours(&[]).contains(helm), "{}", chart.ours(&[]));
        let error = render_file("values.schema.json", &schema, Limits::default()).unwrap_err();
        assert!(error.contains(ours), "{error}");
    }
}

#[test]
fn an_index_without_its_bracket_ends_in_nothing_under_helm3() {
    let chart = Chart::new(&[("templates/a.yaml", "t: {{ toJson .Values }}")]);
    let args = ["--set", "a[0=1"];
    assert!(chart.helm3(&args).contains("failed parsing --set data: error parsing index: EOF"));
    assert!(chart.ours3(&args).contains("t: {}"));
    assert_eq!(chart.helm4(&args), chart.ours(&args));
}

#[test]
fn log_lines_have_one_form() {
    // An imported number meets the subchart's table.
    let import = "apiVersion: v2\nname: demo\nversion: 1.0.0\ndependencies: [{name: a, version: '*', import-values: [x]}]\n";
    let chart = Chart::new(&[
        ("Chart.yaml", import),
        ("charts/a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
        ("charts/a/values.yaml", "exports: {x: {a: 1}}\n"),
    ]);
    let helm = chart.helm3(&[]);
    assert!(helm.contains("coalesce.go:"), "{helm}");
    let ours = chart.ours3(&[]);
    assert!(ours.contains("level=") && !ours.contains("coalesce.go:"), "{ours}");
}

#[test]
fn post_renderers_are_programs() {
    let chart = Chart::new(&[("templates/a.yaml", "t: 1")]);
    let args = ["--post-renderer", "cat"];
    assert!(chart.helm4(&args).contains("plugin: {Name:cat Type:postrenderer/v1} not found"));
    assert_eq!(chart.ours(&args), chart.ours(&[]));
    assert_eq!(chart.helm3(&args), chart.ours3(&args));
}

#[test]
fn debug_says_nothing_more() {
    let chart = Chart::new(&[("templates/a.yaml", "t: 1")]);
    assert!(chart.helm4(&["--debug"]).contains("level=DEBUG"));
    assert!(chart.helm3(&["--debug"]).contains("[debug]"));
    assert_eq!(chart.ours(&["--debug"]), chart.ours(&[]));
}

#[test]
fn wrong_flags_are_refused_in_other_words() {
    pinned_with(&[], &["--nope"], "Error: unknown flag: --nope", "unexpected argument '--nope' found");
}

#[test]
fn notes_of_subcharts_come_in_order_of_path() {
    let files = strangers("templates/NOTES.txt", "note NAME");
    let own = strangers("templates/NOTES.txt", "note NAME").into_iter().map(|(n, t)| file(&n, &t));
    let own = own.chain([file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n")]).collect();
    let chart = load_files(own, Profile::Helm4, &mut |_| {}).unwrap();
    let options = Options {
        release: Release {
            name: "demo".to_owned(),
            namespace: String::new(),
            revision: 1,
            is_upgrade: false,
        },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: true,
        limits: Limits::default(),
    };
    let values = Map::from([("unused".to_owned(), Data::Null)]);
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let rendered = compiled.render(&values, &options, &SystemWorld::default(), &mut |_| {}).unwrap();
    assert!(rendered.notes.starts_with("note a\nnote b\nnote c\n"), "{}", rendered.notes);
    let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
    let chart = Chart::new(&files);
    let args = ["install", "demo", ".", "--dry-run=client", "--render-subchart-notes"];
    let wavers = (0..TRIES).any(|_| {
        let said = chart.run(&Tool::Helm4.path().unwrap(), &args, &[]);
        assert!(said.contains("note a"), "{said}");
        !said.contains("note a\nnote b\nnote c\n")
    });
    assert!(wavers, "in {TRIES} runs Helm had our order");
}

#[test]
fn the_ledger_names_the_tests_and_no_others() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("chart-compat/README.md")).unwrap();
    let own = std::fs::read_to_string(root.join("tests/ledger.rs")).unwrap();
    // The last cell of each row is a test's name.
    let (_, ledger) = readme.split_once("\n## Ledger").unwrap();
    let rows = ledger.lines().filter_map(|l| l.strip_suffix("` |")?.rsplit_once("| `"));
    let told: BTreeSet<&str> = rows.map(|(_, name)| name).collect();
    let tests = own.split("#[test]\nfn ").skip(1).filter_map(|t| t.split('(').next());
    let tests: BTreeSet<&str> = tests.filter(|t| !t.starts_with("the_ledger")).collect();
    assert!(!tests.is_empty());
    assert_eq!(told, tests);
}
