//! Texts as the peer's own records show them, and what has no form here.

use super::*;

fn written(text: &str) -> Option<String> {
    let labels = BTreeMap::from([("heritage".to_owned(), "addon-operator".to_owned())]);
    let object = crate::render::parse_manifest(text).unwrap();
    labelled(&[Source { source: "m/templates/a.yaml", text, object: &object }], &labels)
}

#[test]
fn labels_are_sorted_and_the_rest_keeps_its_order_and_quotes() {
    let text = "kind: Service\n\nmetadata:\n    labels:\n        b: \"1.16.0\"\n        a: 'true'\n        c: \"1\"\n    name:  \"x\"\n    annotations: {}\nspec:\n  ports:\n      - port: 80\n        name: 'http'\n\n      -   port: 81\n          list:\n          - a\n          - - b\n            - c\n  args: []\n  text: |\n      one\n\n        two\n  last: |-\n   x\n";
    let want = "# Source: m/templates/a.yaml\nkind: Service\nmetadata:\n  labels:\n    a: \"true\"\n    b: 1.16.0\n    c: \"1\"\n    heritage: addon-operator\n  name: \"x\"\n  annotations: {}\nspec:\n  ports:\n  - port: 80\n    name: 'http'\n  - port: 81\n    list:\n    - a\n    - - b\n      - c\n  args: []\n  text: |\n    one\n\n      two\n  last: |-\n    x\n";
    assert_eq!(written(text).as_deref(), Some(want));
}

#[test]
fn labels_that_were_not_there_come_last_in_metadata() {
    let body = "  labels:\n    heritage: addon-operator\n";
    assert_eq!(
        written("kind: A\nmetadata:\n  name: a\n").unwrap(),
        format!("# Source: m/templates/a.yaml\nkind: A\nmetadata:\n  name: a\n{body}")
    );
    assert_eq!(
        written("kind: A\nmetadata:\n  name: a\nspec:\n  template:\n    metadata:\n      labels: {a: b}\n"),
        None,
        "a flow collection"
    );
    assert_eq!(
        written("kind: A\nmetadata:\n  name: a\ndata:\n  metadata:\n    labels:\n      b: c\n").unwrap(),
        format!(
            "# Source: m/templates/a.yaml\nkind: A\nmetadata:\n  name: a\n{body}data:\n  metadata:\n    labels:\n      b: c\n"
        )
    );
}

#[test]
fn what_has_no_form_here_is_left_alone() {
    for rest in [
        "a: b # why",
        "# why\na: b",
        "a: >-\n  b",
        "a: |+\n  b\n",
        "a: &x b\nc: *x",
        "a: b\n  c",
        "a: \"b\\n\"",
        "a:\n  ? b",
        "a: |\n  b \n  c",
        "a:\n-\n  b: c",
        "a: {b: c}",
    ] {
        assert_eq!(written(&format!("kind: A\nmetadata:\n  name: a\n{rest}\n")), None, "{rest}");
    }
    assert_eq!(written("kind: A\nmetadata: {name: a}\n"), None);
    assert_eq!(written("kind: A\n"), None);
}

#[test]
fn texts_that_mean_nothing_else_have_no_quotes() {
    for plain in ["1.16.0", "a", "x-1", "Helm", "0.1.0-beta"] {
        assert!(is_plain_text(plain), "{plain}");
    }
    for quoted in ["1", "1.5", "true", "no", "", "null", "1e3", "2026-01-01", "0x1f", ".5"] {
        assert!(!is_plain_text(quoted), "{quoted}");
    }
}
