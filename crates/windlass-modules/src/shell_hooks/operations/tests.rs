//! Every operation on objects, and how wrong ones are refused.

use super::*;

fn operation_text(operation: &Operation) -> String {
    let target = |t: &OperationTarget| {
        format!("{}|{}|{}|{}|{}", t.api_version, t.kind, t.namespace, t.name, t.subresource)
    };
    match operation {
        Operation::Create { object, subresource, exists } => format!("{exists:?} {object} {subresource}"),
        Operation::Delete { target: t, propagation } => format!("{propagation:?} {}", target(t)),
        Operation::Patch { target: t, patch, ignore_missing, ignore_hook_error } => {
            let patch = match patch {
                Patch::Merge(v) => format!("merge {v}"),
                Patch::Json(v) => format!("json {v}"),
                Patch::Jq(f) => format!("jq {}", f.text()),
            };
            format!("{} {patch} {ignore_missing} {ignore_hook_error}", target(t))
        }
    }
}

#[test]
fn every_operation() {
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}"#;
    let target = r#""apiVersion":"v1","kind":"Pod","namespace":"n","name":"p""#;
    let table = [
        (format!(r#"{{"operation":"Create","object":{object}}}"#), format!("Fail {object} ")),
        (format!(r#"{{"operation":"CreateIfNotExists","object":{object}}}"#), format!("Ignore {object} ")),
        (
            format!(r#"{{"operation":"CreateOrUpdate","object":{object},"subresource":"/status"}}"#),
            format!("Replace {object} status"),
        ),
        (
            "operation: Create\nobject: |\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: c}\n"
                .to_owned(),
            format!("Fail {object} "),
        ),
        (format!(r#"{{"operation":"Delete",{target}}}"#), "Foreground v1|Pod|n|p|".to_owned()),
        (format!(r#"{{"operation":"DeleteInBackground",{target}}}"#), "Background v1|Pod|n|p|".to_owned()),
        (format!(r#"{{"operation":"DeleteNonCascading",{target}}}"#), "Orphan v1|Pod|n|p|".to_owned()),
        (
            format!(
                r#"{{"operation":"MergePatch",{target},"mergePatch":{{"a":null}},"ignoreMissingObject":true}}"#
            ),
            r#"v1|Pod|n|p| merge {"a":null} true false"#.to_owned(),
        ),
        (
            format!(
                r#"{{"operation":"MergePatch",{target},"mergePatch":"a: {{b: 1}}","subresource":"/status","ignoreHookError":true}}"#
            ),
            r#"v1|Pod|n|p|status merge {"a":{"b":1}} false true"#.to_owned(),
        ),
        (
            format!(r#"{{"operation":"JSONPatch",{target},"jsonPatch":[{{"op":"remove","path":"/a"}}]}}"#),
            r#"v1|Pod|n|p| json [{"op":"remove","path":"/a"}] false false"#.to_owned(),
        ),
        (
            r#"{"operation":"JQPatch","kind":"Pod","name":"p","jqFilter":".a = 1"}"#.to_owned(),
            "|Pod||p| jq .a = 1 false false".to_owned(),
        ),
    ];
    for (text, want) in table {
        let read = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(read.iter().map(operation_text).collect::<Vec<_>>(), [want], "{text}");
    }
}

#[test]
fn streams_of_documents() {
    let one = r#"{"operation":"Delete","kind":"Pod","name":"a"}"#;
    let yaml = "operation: Delete\nkind: Pod\nname: a\n";
    for (text, count) in [
        (String::new(), 0),
        (one.to_owned(), 1),
        (format!("{one}{one}\n{one}\n"), 3),
        (yaml.to_owned(), 1),
        (format!("---\n{yaml}---\n---\n{yaml}"), 2),
        (format!("{yaml}\n--- # more\n{yaml}"), 2),
        ("\n\n".to_owned(), 0),
    ] {
        assert_eq!(parse(&text).unwrap().len(), count, "{text}");
    }
}

#[test]
fn the_server_may_make_the_name() {
    for operation in ["Create", "CreateIfNotExists", "CreateOrUpdate"] {
        let object = "{apiVersion: v1, kind: X, metadata: {generateName: a-}}";
        let read = parse(&format!("{{operation: {operation}, object: {object}}}")).unwrap();
        assert!(matches!(read[..], [Operation::Create { .. }]), "{read:?}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_document() {
    for (text, part) in [
        ("{\"operation\":", "neither JSON (EOF"),
        ("[1]", "document 1: it is not a map"),
        (
            "operation: Delete\nkind: Pod\nname: a\n---\noperation: Remove\n",
            "document 2: there is no operation \"Remove\", but Create, ",
        ),
        ("kind: Pod", "operation: it is missing"),
        ("{operation: Delete, kind: Pod, name: a, force: true}", "there is no key \"force\""),
        ("{operation: Delete, kind: Pod}", "name: it is missing"),
        ("{operation: Create}", "object: it is missing"),
        ("{operation: Create, object: {kind: X}}", "object: apiVersion is missing"),
        (
            "{operation: Create, object: {apiVersion: v1, kind: X, metadata: {}}}",
            "object: metadata.name is missing",
        ),
        ("{operation: MergePatch, kind: Pod, name: a, mergePatch: [1]}", "mergePatch: [1] is not a map"),
        (
            "{operation: JSONPatch, kind: Pod, name: a, jsonPatch: []}",
            "jsonPatch: [] is not a list of operations",
        ),
        ("{operation: JSONPatch, kind: Pod, name: a, jsonPatch: [{op: add, path: /a}]}", "value is missing"),
        ("{operation: JSONPatch, kind: Pod, name: a, jsonPatch: [{path: /a}]}", "op is missing"),
        ("{operation: JQPatch, kind: Pod, name: a, jqFilter: '.['}", "jqFilter: expected"),
        (
            "{operation: MergePatch, kind: Pod, name: a, mergePatch: {}, ignoreMissingObject: 1}",
            "neither true nor false",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn what_takes_too_much_is_refused_before_it_is_read() {
    let many = r#"{"operation":"Delete","kind":"Pod","name":"a"}"#.repeat(50_000);
    let error = parse(&many).unwrap_err().to_string();
    assert_eq!(error, "operations file: its values take more than 32 MiB once they are read");
    // A text in YAML whose signs would be too many values in JSON.
    let text = ",".repeat(600_000);
    let head = "operation: Create\nobject:\n  apiVersion: v1\n  kind: X\n  metadata: {name: a}\n";
    let yaml = format!("{head}  data: |\n    {text}\n");
    assert_eq!(parse(&yaml).unwrap().len(), 1);
}
