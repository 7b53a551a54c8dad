//! Large charts give on two threads what they give on one.

use std::fmt::Write as _;

use crate::chart::{File, load_files};
use crate::data::{Data, Map};
use crate::profile::Profile;
use crate::render::{Capabilities, CompiledChart, Options, Release, ShowOnly, template_output};
use crate::template::Limits;
use crate::world::{KeyKind, Timestamp, World};

/// A world where nothing happens, in order or not.
struct Still {
    in_order: bool,
}

impl World for Still {
    fn now(&self) -> Timestamp {
        Timestamp { seconds: 0, nanos: 0 }
    }

    fn local_zone(&self) -> String {
        "UTC".to_owned()
    }

    fn random(&self, out: &mut [u8]) {
        out.fill(0);
    }

    fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> {
        Err("no keys here".to_owned())
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Ok(Data::Null)
    }

    fn resolve(&self, _: &str) -> String {
        String::new()
    }

    fn in_order(&self) -> bool {
        self.in_order
    }
}

/// What 200 templates print that show a counter in the values; `special` are the texts of some of them.
fn render(special: &[(usize, &str)], in_order: bool) -> Result<String, String> {
    let file = |name: &str, text: &str| File::new(name.to_owned(), text.as_bytes().to_vec());
    let mut files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\n"),
        file("values.yaml", "n: 0\nlist: {a: 1}\n"),
        file("templates/NOTES.txt", "{{ .Values.n }}"),
    ];
    let filling = "# filling\n".repeat(100);
    for i in 0..200 {
        let own = special.iter().find(|s| s.0 == i).map_or("", |s| s.1);
        let mut text = String::new();
        write!(
            text,
            "{own}\nname: {{{{ .Template.Name }}}}\nn: {{{{ .Values.n }}}}\nkeys: {{{{ keys .Values.list }}}}\n{filling}"
        )
        .unwrap();
        files.push(file(&format!("templates/t{i:03}.yaml"), &text));
    }
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    let options = Options {
        release: Release { name: "r".into(), namespace: "d".into(), revision: 1, is_upgrade: false },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let rendered = compiled.render(&Map::new(), &options, &Still { in_order }, &mut |_| {});
    let rendered = rendered.map_err(|e| e.to_string())?;
    let all = ShowOnly { patterns: &[] };
    let text = String::from_utf8(template_output(&rendered, false, |_| true, &all, Profile::Helm4).unwrap())
        .unwrap();
    Ok(format!("{text}\nnotes: {}", rendered.notes))
}

#[test]
fn what_a_template_changes_shows_in_later_ones_alone() {
    let set = r#"{{ $_ := set .Values "n" (add1 .Values.n) }}"#;
    let unset = r#"{{ $_ := unset .Values.list "a" }}"#;
    let own = r#"{{ $_ := set (dict "a" 1) "b" 2 }}{{ $_ := set (deepCopy .Values) "n" 7 }}"#;
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
        &[(20, fail), (180, set), (100, "{{ if eq (int .Values.n) 1 }}{{ fail \"one\" }}{{ end }}")],
    ];
    for special in tables {
        let wanted = render(special, true);
        for _ in 0..20 {
            assert_eq!(render(special, false), wanted, "{special:?}");
        }
    }
    let counted = render(&[(100, set)], false).unwrap();
    // The later name runs first.
    assert_eq!(counted.matches("\nn: 1\n").count(), 101);
    assert!(counted.ends_with("notes: 1"));
}
