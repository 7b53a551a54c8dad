//! Charts of a few kilobytes that take gigabytes or hours between their loading and the first template: each ends in an error that
//! names the chart, the value and the bound.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use chart_compat::chart::{Chart, File, load_files};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Options, Release, Rendered};
use chart_compat::template::Limits;
use chart_compat::values::strvals;
use chart_compat::yaml::Room;

mod still_world;

use still_world::StillWorld;

fn file(name: &str, text: &str) -> File {
    File::new(name.to_owned(), text.as_bytes().to_vec())
}

fn metadata(name: &str, rest: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n{rest}")
}

fn render_chart(chart: Chart, limits: Limits, time: Duration) -> Result<Rendered, String> {
    let options = Options {
        release: Release { name: "r".to_owned(), namespace: "n".to_owned(), revision: 1, is_upgrade: false },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits,
    };
    let world = StillWorld(Some(Instant::now() + time));
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    compiled.render(&Map::new(), &options, &world, &mut |_| {}).map_err(|e| e.to_string())
}

/// Renders within so many MiB.
fn render(files: Vec<File>, mib: usize) -> Result<Rendered, String> {
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).map_err(|e| e.to_string())?;
    render_chart(chart, Limits::within(mib << 20), Duration::from_secs(600))
}

fn told(files: Vec<File>, mib: usize) -> String {
    match render(files, mib) {
        Ok(_) => "no error".to_owned(),
        Err(error) => error,
    }
}

/// Charts within each other, each with as many aliases of the next.
fn aliases(levels: usize, each: usize) -> Vec<File> {
    let mut files = vec![file("templates/a.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")];
    let mut path = String::new();
    for level in 0..levels {
        let mut rest = String::new();
        if level + 1 < levels {
            rest.push_str("dependencies:\n");
            for n in 0..each {
                writeln!(rest, "- {{name: s{}, version: 1.0.0, repository: \"\", alias: a{n}}}", level + 1)
                    .unwrap();
            }
        }
        files.push(file(&format!("{path}Chart.yaml"), &metadata(&format!("s{level}"), &rest)));
        write!(path, "charts/s{}/", level + 1).unwrap();
    }
    files
}

#[test]
fn aliases_copy_so_many_charts() {
    // 1 + 5 + 25 + 125 charts.
    assert_eq!(render(aliases(4, 5), 64).unwrap().manifests.len(), 1);
    let error = told(aliases(7, 10), 512);
    assert!(error.contains("dependencies copy more than 10000 charts"), "{error}");
    assert!(error.starts_with("chart a0.a0"), "{error}");
}

#[test]
fn aliases_copy_so_many_files() {
    let mut files = aliases(2, 900);
    files.extend((0..2_000).map(|n| file(&format!("charts/s1/f{n}"), "")));
    let error = told(files, 64);
    assert!(error.contains("chart s0: a") && error.contains("more than 64 MiB"), "{error}");
}

/// A chart with subcharts within each other, named as dependencies or not, and these values.
fn nest(levels: usize, values: &str, declared: bool) -> Vec<File> {
    let mut files = vec![file("templates/a.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n")];
    let mut path = String::new();
    for level in 0..levels {
        let names = declared && level + 1 < levels;
        let rest = if names { "dependencies: [{name: s, version: 1.0.0, repository: \"\"}]\n" } else { "" };
        let name = if level == 0 { "root" } else { "s" };
        files.push(file(&format!("{path}Chart.yaml"), &metadata(name, rest)));
        path.push_str("charts/s/");
    }
    files.push(file("values.yaml", values));
    files
}

#[test]
fn copies_of_values_take_so_much_memory() {
    let list = |items: usize| format!("global: {{x: [{}]}}\n", vec!["{a: 0}"; items].join(","));
    let keys = |count: usize| (0..count).map(|n| format!("key{n}: 0\n")).collect::<String>();
    let text = |length: usize| format!("text: {}\n", "x".repeat(length));
    for (values, many, declared) in [
        (list(100), list(20_000), false),
        (list(100), list(20_000), true),
        (keys(100), keys(40_000), true),
        (text(100), text(3 << 20), true),
    ] {
        assert_eq!(render(nest(49, &values, declared), 64).unwrap().manifests.len(), 1);
        let error = told(nest(49, &many, declared), 64);
        assert!(error.starts_with("chart ") || error.contains("root"), "{error}");
        assert!(error.contains("more than 64 MiB"), "{error}");
    }
}

/// A chart that imports the values of its subchart.
fn importing(imports: &str, exported: &str) -> Vec<File> {
    let rest = format!(
        "dependencies:\n- {{name: s, version: 1.0.0, repository: \"\", import-values: [{imports}]}}\n"
    );
    vec![
        file("Chart.yaml", &metadata("root", &rest)),
        file("templates/a.yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n"),
        file("charts/s/Chart.yaml", &metadata("s", "")),
        file("charts/s/values.yaml", exported),
    ]
}

#[test]
fn paths_of_imports_have_so_many_parts() {
    let path = |parts: usize| vec!["a"; parts].join(".");
    let import = |child: &str, parent: &str| format!("{{child: {child}, parent: {parent}}}");
    let values = "d: {x: 1}\n";
    assert_eq!(render(importing(&import("d", &path(500)), values), 64).unwrap().manifests.len(), 1);
    for imports in [import("d", &path(60_000)), import("d", &path(501))] {
        let error = told(importing(&imports, values), 64);
        assert!(error.starts_with("chart root: import-values: the path a.a."), "{error}");
        assert!(error.contains("more than 500 parts"), "{error}");
    }
}

#[test]
fn what_is_imported_again_and_again_has_a_depth() {
    let path = vec!["a"; 400].join(".");
    let mut files = vec![file("templates/a.yaml", "a: 1\n")];
    let mut at = String::new();
    for level in 0..40 {
        let child = if level == 38 { "d" } else { "a" };
        let rest = format!(
            "dependencies:\n- {{name: s{}, version: 1.0.0, repository: \"\", import-values: [{{child: {child}, parent: {path}}}]}}\n",
            level + 1
        );
        files.push(file(
            &format!("{at}Chart.yaml"),
            &metadata(&format!("s{level}"), if level < 39 { &rest } else { "" }),
        ));
        if level == 39 {
            files.push(file(&format!("{at}values.yaml"), "d: {x: 1}\n"));
        }
        write!(at, "charts/s{}/", level + 1).unwrap();
    }
    let error = told(files, 64);
    assert!(error.contains("import-values: the imported values are nested deeper than 1000"), "{error}");
}

#[test]
fn imports_are_so_many_and_take_so_much() {
    let list = format!("exports: {{d: {{l: [{}]}}}}\n", vec!["{a: 0}"; 5_000].join(","));
    assert_eq!(render(importing("d, d", &list), 64).unwrap().manifests.len(), 1);
    let error = told(importing(&vec!["d"; 1_001].join(","), &list), 64);
    assert_eq!(error, "chart root: s: import-values has 1001 entries, more than 1000");
    let error = told(importing(&vec!["d"; 1_000].join(","), &list), 64);
    assert!(error.contains("chart root: ") && error.contains("more than 64 MiB"), "{error}");
}

#[test]
fn the_preparation_of_a_chart_has_a_deadline() {
    let list = format!("exports: {{d: {{l: [{}]}}}}\n", vec!["0"; 20_000].join(","));
    let files = importing(&vec!["d"; 1_000].join(","), &list);
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
    let error = render_chart(chart, Limits::default(), Duration::ZERO).unwrap_err();
    assert!(error.contains("render stopped: its time is over"), "{error}");
}

#[test]
fn keys_of_toml_have_so_many_parts() {
    let deep = "{{ $x := repeat 16000 \"a.\" }}";
    let template = |text: &str| {
        vec![
            file("Chart.yaml", &metadata("root", "")),
            file("templates/a.yaml", &format!("{deep}kind: ConfigMap\nsaid: {text}\n")),
        ]
    };
    let ask = |text: &str| {
        let rendered =
            render(template(&format!("{{{{ (fromToml ({text})).Error | quote }}}}")), 256).unwrap();
        rendered.manifests[0].text.clone()
    };
    for text in [
        "printf \"%sx = 1\" $x",
        "printf \"[%sx]\" $x",
        "printf \"[[%sx]]\" $x",
        "printf \"y = {%sx = 1}\" $x",
        "printf \"y = [{%sx = 1}]\" $x",
    ] {
        let said = ask(text);
        assert!(
            said.contains("values are nested deeper than 1000"),
            "{text}: {}",
            &said[..said.len().min(300)]
        );
    }
    // Parts of headers, keys and tables within each other count together.
    let sum =
        "printf \"[%sx]\\n%sx = {%sx = 1}\" (repeat 400 \"a.\") (repeat 400 \"a.\") (repeat 400 \"a.\")";
    assert!(ask(sum).contains("values are nested deeper than 1000"));
    let fits = ask("printf \"[%sx]\\n%sx = 1\" (repeat 400 \"a.\") (repeat 400 \"a.\")");
    assert!(!fits.contains("deeper"), "{fits}");
}

#[test]
fn indexes_fill_lists_up_with_so_much() {
    let lists = |count: usize| (0..count).map(|n| format!("a{n}[65535]=x")).collect::<Vec<_>>();
    let refused = |error: strvals::Error| {
        assert!(error.is_of_room());
        assert_eq!(
            error.to_string(),
            "index of 65535: lists that indexes fill up take more than 32 MiB in all"
        );
    };
    type Parse = fn(&mut Map, &str) -> Result<(), strvals::Error>;
    let readers: [Parse; 3] = [strvals::parse_into, strvals::parse_into_string, strvals::parse_json];
    for (number, parse) in readers.into_iter().enumerate() {
        let line = |count| lists(count).join(",").replace('x', if number == 2 { "1" } else { "x" });
        assert!(parse(&mut Map::new(), &line(16)).is_ok());
        refused(parse(&mut Map::new(), &line(40)).unwrap_err());
    }
    let deep = format!("a{}=x", "[65535]".repeat(40));
    refused(strvals::parse_literal(&mut Map::new(), &deep).unwrap_err());
    refused(strvals::parse_file(&mut Map::new(), &lists(40).join(","), &mut |_| Ok(Data::Null)).unwrap_err());
    // Lines that one caller merges share room.
    type ParseWithin = fn(&mut Map, &str, &Room) -> Result<(), strvals::Error>;
    for parse in [
        strvals::parse_into_within as ParseWithin,
        strvals::parse_into_string_within,
        strvals::parse_literal_within,
        |values, line, room| strvals::parse_file_within(values, line, &mut |_| Ok(Data::Null), room),
    ] {
        let (room, mut values) = (Room::default(), Map::new());
        let outcomes: Vec<_> = lists(40).iter().map(|line| parse(&mut values, line, &room)).collect();
        assert!(outcomes[..16].iter().all(Result::is_ok));
        refused(outcomes.into_iter().next_back().unwrap().unwrap_err());
    }
}

/// A packaged chart of one large file beside `Chart.yaml`.
fn package(name: &str, size: usize) -> Vec<u8> {
    let gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(gz);
    for (path, text) in [("Chart.yaml", metadata(name, "").into_bytes()), ("zeros", vec![0; size])] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{name}/{path}"), &text[..]).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn archives_in_a_chart_share_a_bound() {
    let chart = |count: usize, size: usize| {
        let mut files = vec![file("Chart.yaml", &metadata("root", ""))];
        let packed = |n: usize| File::new(format!("charts/s{n:02}.tgz"), package(&format!("s{n:02}"), size));
        files.extend((0..count).map(packed));
        load_files(files, Profile::Helm4, &mut |_| {}).map(|chart| chart.dependencies.len())
    };
    assert_eq!(chart(30, 1 << 10).unwrap(), 30);
    let error = chart(4, 30 << 20).unwrap_err().to_string();
    let bound = "decompressed chart is larger than the maximum size 104857600";
    assert_eq!(error, format!("error unpacking subchart s03.tgz in root: {bound}"));
}

#[test]
fn syntax_trees_take_so_much_memory() {
    let chart = |actions: usize| {
        let text = format!("kind: ConfigMap\n{{{{ if false }}}}{}{{{{ end }}}}", "{{.a}}".repeat(actions));
        vec![file("Chart.yaml", &metadata("root", "")), file("templates/a.yaml", &text)]
    };
    assert_eq!(render(chart(10_000), 64).unwrap().manifests.len(), 1);
    let error = told(chart(500_000), 64);
    let told_of =
        "render stopped: root/templates/a.yaml: the syntax trees of all templates take more than 64 MiB";
    assert_eq!(error, told_of);
    // A text in many pieces.
    let mut pieces = chart(1);
    pieces.extend((0..100).map(|n| file(&format!("templates/b{n}.yaml"), &"{{- .a -}}".repeat(5_000))));
    assert!(told(pieces, 64).contains("the syntax trees of all templates take more than 64 MiB"));
}

#[test]
fn copies_of_a_chart_share_syntax_trees() {
    let mut files = aliases(2, 200);
    let partial = format!("{{{{ define \"x\" }}}}{}{{{{ end }}}}", "{{.a}}".repeat(5_000));
    files.push(file("charts/s1/templates/_helpers.tpl", &partial));
    files.push(file("charts/s1/templates/b.yaml", "kind: ConfigMap\nname: {{ .Template.Name }}\n"));
    let rendered = render(files, 16).unwrap();
    assert_eq!(rendered.manifests.len(), 201);
    assert!(rendered.manifests.iter().any(|m| m.text.contains("name: s0/charts/a7/templates/b.yaml")));
    // Their names take memory, too.
    let mut files = aliases(2, 900);
    files.push(file("charts/s1/templates/_helpers.tpl", "{{define \"x\"}}{{end}}"));
    let defines: String = (0..2_000).map(|n| format!("{{{{define \"d{n}\"}}}}{{{{end}}}}")).collect();
    files.push(file("charts/s1/templates/_more.tpl", &defines));
    assert!(told(files, 64).contains("the syntax trees of all templates take more than 64 MiB"));
}

#[test]
fn many_definitions_take_linear_time() {
    let defines: String = (0..200_000).map(|n| format!("{{{{define \"d{n}\"}}}}{{{{end}}}}")).collect();
    let files = vec![file("Chart.yaml", &metadata("root", "")), file("templates/_a.tpl", &defines)];
    let before = Instant::now();
    assert!(render(files, 1024).is_ok());
    // Seconds where this was built without optimization; two minutes if each looks at those before it.
    assert!(before.elapsed() < Duration::from_secs(60), "{:?}", before.elapsed());
}

#[test]
fn enumerations_count_by_their_length() {
    let numbers = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let chart = |count: usize, values: &str| {
        let schema = format!("{{\"properties\":{{\"l\":{{\"items\":{{\"enum\":[{}]}}}}}}}}", numbers(count));
        vec![
            file("Chart.yaml", &metadata("root", "")),
            file("values.yaml", &format!("l: [{values}]\n")),
            file("values.schema.json", &schema),
            file("templates/a.yaml", "kind: ConfigMap\n"),
        ]
    };
    assert_eq!(render(chart(500, &numbers(500)), 64).unwrap().manifests.len(), 1);
    let bound = "root:\nthe values need more than 2000000 steps to check: simplify the schema";
    let error = told(chart(10_000, &numbers(10_000)), 64);
    assert!(error.contains(bound), "{error}");
    // The error texts of invalid values count, too.
    let error = told(chart(10_000, &vec!["x"; 10_000].join(",")), 64);
    assert!(error.contains(bound), "{}", &error[..error.len().min(300)]);
}

#[test]
fn schemas_are_checked_until_the_deadline() {
    let subchart = |n: usize| {
        let schema = format!("{{\"properties\":{{\"a\":{{\"const\":{n}}}}}}}");
        [
            file(&format!("charts/s{n}/Chart.yaml"), &metadata(&format!("s{n}"), "")),
            file(&format!("charts/s{n}/values.schema.json"), &schema),
        ]
    };
    let mut files = vec![file("Chart.yaml", &metadata("root", ""))];
    files.extend((0..10).flat_map(subchart));
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
    let error = render_chart(chart, Limits::default(), Duration::ZERO).unwrap_err();
    assert!(error.contains("s0:\nrender stopped: its time is over"), "{error}");
    assert!(!error.contains("s1:"), "{error}");
}

/// The error of a template in a chart, within so many MiB.
fn template_error(text: &str, mib: usize) -> String {
    let text = format!("kind: ConfigMap\nsaid: {text}\n");
    told(vec![file("Chart.yaml", &metadata("root", "")), file("templates/a.yaml", &text)], mib)
}

#[test]
fn what_a_call_makes_is_reserved_before() {
    for text in [
        "{{ $s := repeat 2000000 \"a\" }}{{ len (printf (repeat 200 \"%[1]s\") $s) }}",
        "{{ $k := repeat 10000 \"k\" }}{{ $d := dict \"v\" 1 }}{{ range until 900 }}{{ $d = dict \"a\" 1 $k $d }}{{ end }}{{ len (mustToToml $d) }}",
        "{{ $s := repeat 2000000 (b64dec \"AQ==\") }}{{ $l := list $s $s $s $s }}{{ len (toJson (list $l $l)) }}",
        "{{ $s := repeat 1000000 \"a\\n\" }}{{ $d := dict \"a\" $s }}{{ range until 100 }}{{ $d = dict \"a\" $d }}{{ end }}{{ len (toYaml $d) }}",
        "{{ $s := repeat 4000000 (b64dec \"/w==\") }}{{ regexMatch \"z\" $s }}",
    ] {
        let error = template_error(text, 64);
        assert!(error.contains("MiB"), "{text}: {error}");
    }
    let printed = template_error("{{ len (printf (repeat 20 \"%[1]s\") (repeat 1000 \"a\")) }}", 64);
    assert_eq!(printed, "no error");
}

#[test]
fn errors_of_includes_repeat_so_much_of_their_names() {
    let name = "n".repeat(50_000);
    let include = format!("{{{{ include \"{name}\" . }}}}");
    let error = template_error(&format!("{{{{ define \"{name}\" }}}}{include}{{{{ end }}}}{include}"), 512);
    assert!(error.contains("nnn...") && error.len() < 8 << 20, "{} bytes: {:.1000}", error.len(), error);
}

#[test]
fn reading_texts_counts_as_work() {
    let text =
        "{{ $s := repeat 20000000 \"a\" }}{{ range until 100000 }}{{ $_ := contains \"b\" $s }}{{ end }}";
    let files =
        vec![file("Chart.yaml", &metadata("root", "")), file("templates/a.yaml", &format!("said: {text}\n"))];
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
    let error = render_chart(chart, Limits::default(), Duration::from_secs(1)).unwrap_err();
    assert!(error.contains("render stopped: "), "{error}");
}

/// Each of these took minutes before.
#[test]
fn functions_of_long_texts_take_linear_time() {
    for text in [
        "{{ len (trimAll (print (repeat 400000 \"a\") \"b\") (repeat 400000 \"b\")) }}",
        "{{ len (split \"\" (repeat 400000 \"a\")) }}",
        "{{ len (printf (repeat 400000 \"%[\")) }}",
    ] {
        assert_eq!(template_error(text, 2048), "no error", "{text}");
    }
}

#[test]
fn values_are_written_to_a_depth() {
    for function in ["mustToJson", "mustToYaml", "mustToRawJson"] {
        let text = format!(
            "{{{{ $d := dict }}}}{{{{ range until 40000 }}}}{{{{ $d = dict \"a\" $d }}}}{{{{ end }}}}{{{{ len ({function} $d) }}}}"
        );
        let error = template_error(&text, 2048);
        assert!(error.contains("nested deeper than 10000"), "{function}: {error}");
    }
}

/// Each search in a text may read all that is left of it: between the searches of one call the caller is asked, and may refuse.
#[test]
fn single_calls_ask_for_the_deadline() {
    let regexp = chart_compat::go::regexp::compile(b"a.*z|a").unwrap();
    let text = [b'a'; 100];
    type Before<'b> = &'b mut dyn FnMut(usize) -> Result<(), String>;
    type Call<'c> = &'c dyn Fn(Before<'_>) -> Option<String>;
    let table: [(&str, Call<'_>); 4] = [
        ("find", &|before| regexp.try_find_all(&text, -1, &mut |left| before(left)).err()),
        ("split", &|before| regexp.split(&text, -1, &mut |left| before(left)).err()),
        ("replace", &|before| regexp.replace_all(&text, b"b", 1000, &mut |left| before(left)).err()),
        ("literal", &|before| regexp.replace_all_literal(&text, b"b", 1000, &mut |left| before(left)).err()),
    ];
    for (what, call) in table {
        let mut left = Vec::new();
        let none = call(&mut |bytes| {
            left.push(bytes);
            Ok(())
        });
        assert_eq!((none, left), (None, (0..=100).rev().collect()), "{what}");
        let refused = call(&mut |bytes| if bytes < 98 { Err(bytes.to_string()) } else { Ok(()) });
        assert_eq!(refused.as_deref(), Some("97"), "{what}");
    }
}
