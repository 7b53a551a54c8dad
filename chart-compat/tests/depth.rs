//! Hostile depth in each reader and walker: an error or a result, and never the end of the stack.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::panic)]

use chart_compat::chart::{File, load_files};
use chart_compat::data::{Data, Map};
use chart_compat::path::Path;
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Options, Release, Schema};
use chart_compat::template::Limits;
use chart_compat::values::strvals;
use chart_compat::{json, kyaml, yaml};

mod still_world;

use still_world::StillWorld;

/// Runs on a stack as small as those of the threads that readers run on.
fn small<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, run).unwrap();
        thread.join().unwrap()
    })
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

fn render(template: &str) -> Result<(), String> {
    let files = vec![
        File::new("Chart.yaml".to_owned(), b"apiVersion: v2\nname: a\nversion: 0.1.0\n".to_vec()),
        File::new("templates/a.yaml".to_owned(), template.as_bytes().to_vec()),
    ];
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).map_err(|e| e.to_string())?;
    let options = Options {
        release: Release { name: "r".to_owned(), namespace: "n".to_owned(), revision: 1, is_upgrade: false },
        capabilities: Capabilities::default(),
        skip_schema_validation: true,
        subchart_notes: false,
        limits: Limits::within(256 << 20),
    };
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let rendered = compiled.render(&Map::new(), &options, &StillWorld(None), &mut |_| {});
    rendered.map(drop).map_err(|e| e.to_string())
}

#[test]
fn readers_refuse_hostile_depth() {
    const DEPTH: usize = 20_000;
    type Reader = fn(&str) -> Result<(), String>;
    fn told<T, E: ToString>(read: Result<T, E>) -> Result<(), String> {
        read.map(drop).map_err(|e| e.to_string())
    }
    let yaml_texts = || {
        [
            nested("[", "", "]", DEPTH),
            nested("{a: ", "", "}", DEPTH),
            "- ".repeat(DEPTH),
            nested("? ", "a", "", DEPTH),
            nested("&a [", "", "]", DEPTH),
        ]
    };
    let readers: [(Reader, Vec<String>); 9] = [
        (|t| told(yaml::from_slice(t.as_bytes())), yaml_texts().into()),
        (|t| told(yaml::head(t.as_bytes())), yaml_texts().into()),
        (|t| told(yaml::tree::read_all(t)), yaml_texts().into()),
        (|t| told(kyaml::read_resolved(t, &yaml::Room::default())), yaml_texts().into()),
        (
            |t| told(json::from_slice(t.as_bytes())),
            vec![nested("[", "", "]", DEPTH), nested("{\"a\":", "1", "}", DEPTH)],
        ),
        (
            |t| told(strvals::parse_into(&mut Map::new(), t)),
            vec![format!("{}=1", vec!["a"; DEPTH].join(".")), format!("a{}=1", "[0]".repeat(DEPTH))],
        ),
        (
            |t| told(strvals::parse_json(&mut Map::new(), t)),
            vec![format!("a={}", nested("[", "", "]", DEPTH)), format!("a{}=1", "[0]".repeat(DEPTH))],
        ),
        (
            |t| told(Schema::read(t.as_bytes()).map(drop)),
            vec![nested("{\"not\":", "{}", "}", DEPTH), nested("{\"items\":", "{}", "}", DEPTH)],
        ),
        (
            render,
            vec![
                nested("{{ if 1 }}", "x", "{{ end }}", DEPTH * 5),
                format!("{{{{ fromYaml \"{}\" | toYaml | fail }}}}", nested("{a: ", "", "}", DEPTH)),
                format!("{{{{ fromToml \"a = {}\" | toYaml | fail }}}}", nested("[", "", "]", DEPTH)),
                format!("{{{{ regexMatch \"{}\" \"a\" }}}}", nested("(", "a", ")", DEPTH)),
            ],
        ),
    ];
    for (at, (read, texts)) in readers.iter().enumerate() {
        for text in texts {
            let outcome = small(|| read(text));
            assert!(outcome.is_err(), "reader {at}: {}", &text[..40]);
        }
    }
    // Whether it is refused is not the question here.
    small(|| drop(Path::parse(&vec!["a"; DEPTH].join("."))));
    small(|| drop(render(&format!("{{{{ {} }}}}", nested("(", "1", ")", DEPTH)))));
}

/// What the readers allow is walked by every walker.
#[test]
fn allowed_depth_is_walked() {
    small(|| {
        let values = yaml::from_slice_map(nested("{a: ", "1", "}", 1_000).as_bytes()).unwrap();
        let mut merged = values.clone();
        chart_compat::chart::merge_maps(&mut merged, values);
        let data = Data::Map(merged);
        assert!(json::to_string(&data).is_ok() && yaml::to_string(&data).is_ok());
        let schema = Schema::read(
            br##"{"definitions": {"a": {"properties": {"a": {"$ref": "#/definitions/a"}}}}, "$ref": "#/definitions/a"}"##,
        );
        assert!(schema.unwrap().check(&data).is_ok());
    });
}

#[test]
fn functions_walk_values_of_any_depth() {
    let deep = "{{ $d := dict \"k\" 1 }}{{ $l := list 1 }}{{ range 11000 }}{{ $d = dict \"a\" $d }}{{ $l = list $l }}{{ end }}";
    for call in [
        "toYaml $d",
        "toYamlPretty $d",
        "toJson $d",
        "toPrettyJson $d",
        "toRawJson $d",
        "toToml $d",
        "print $d",
        "print $l",
        "printf \"%v %#v\" $d $l",
        "quote $d",
        "toString $l",
        "html $d",
        "cat $d $l",
        "deepCopy $d",
        "merge (dict) $d",
        "merge (deepCopy $d) $d",
        "mergeOverwrite (dict \"a\" (dict)) $d",
        "deepEqual $d (deepCopy $d)",
        "deepEqual $l (deepCopy $l)",
        "has $l (list $l)",
        "uniq (list $l $l)",
        "without (list $l $d) $d",
        "join \",\" (list $d)",
        "sortAlpha (list $d)",
        "tpl \"{{ toYaml . }}\" $d",
        "index $d \"a\" \"a\"",
        "len $d",
        "coalesce $d",
        "typeOf $d",
    ] {
        // Whether it fails is not the question here.
        small(|| drop(render(&format!("{deep}{{{{ $x := {call} }}}}"))));
    }
}
