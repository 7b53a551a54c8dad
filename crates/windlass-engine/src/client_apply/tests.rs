//! The merges beside the answers of Kubernetes' libraries, which `make fixtures` records.

use super::*;
use serde::Deserialize;
use std::fmt::Write as _;

#[derive(Deserialize)]
struct Case {
    name: String,
    kind: String,
    original: Value,
    modified: Value,
    #[serde(default)]
    current: Value,
    #[serde(default)]
    patch: Value,
    #[serde(default)]
    failed: bool,
}

#[test]
fn patches_are_those_of_the_libraries() {
    let recorded = include_str!("../../../../fixtures/client-apply/recorded.jsonl");
    let (mut wrong, mut cases) = (String::new(), 0);
    for line in recorded.lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        cases += 1;
        let (gvk, custom) = match case.kind.split_once(' ') {
            Some((version, kind)) => (Gvk::new(version, kind), Custom::Manifests),
            None if case.kind == "*" => (Gvk::new("e.x/v1", "Thing"), Custom::All),
            None => (Gvk::new("e.x/v1", "Thing"), Custom::Manifests),
        };
        let states = States { original: &case.original, modified: &case.modified, current: &case.current };
        let found = match patch(&gvk, states, custom) {
            Ok(found) => Some(found.map_or_else(|| serde_json::json!({}), |patch| plain(&patch.body))),
            Err(_) => None,
        };
        let expected = (!case.failed).then(|| plain(&case.patch));
        if found != expected {
            writeln!(wrong, "{}:\n  {found:?}\nnot\n  {expected:?}\n  {line}", case.name).unwrap();
        }
    }
    assert!(cases > 200, "{cases}");
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn errors_name_field_and_type() {
    let object = |value: &str| serde_json::json!({"extra": {"a": value}});
    let (old, new) = (object("1"), object("2"));
    let states = States { original: &old, modified: &new, current: &old };
    let error = patch(&Gvk::new("v1", "ConfigMap"), states, Custom::Manifests).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfigMap has no field \"extra\" that holds an object or a list; remove it from the manifest"
    );
}
