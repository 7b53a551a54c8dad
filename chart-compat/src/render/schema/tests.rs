//! Values and schemas with Helm's error texts, and the parts of the messages.

use std::sync::Arc;

use super::compile::{MAX_PATTERN_MEMORY, Program};
use super::decimal::Decimal;
use super::draft::Draft;
use super::external_documents::ExternalDocuments;
use super::json::Json;
use super::{Compiled, Schemas, check, meta, show, uri, validate};
use crate::chart::{Chart, File, load_files};
use crate::data::Map;
use crate::go::regexp;
use crate::json::from_slice;
use crate::profile::Profile;
use crate::world::Still;

/// The error of values under a schema; empty if they are valid. The fast check accepts only what the validator accepts.
fn error_text(schema: &str, values: &str) -> String {
    let data = from_slice(values.as_bytes()).unwrap();
    let compiled = match Compiled::read(schema.as_bytes()) {
        Ok(compiled) => compiled,
        Err(e) => return e,
    };
    let checked = match compiled.program(&super::nowhere) {
        Ok(program) => check::value(&program, &Json::from_data(&data), &|| None).map_err(|unmet| unmet.text),
        Err(text) => Err(text),
    };
    if let Some(fast) = &compiled.fast {
        assert!(compiled.program(&super::nowhere).is_ok(), "taken for well formed: {schema}");
        assert!(checked.is_ok() || !fast.accepts(&data), "accepted: {schema}\n{values}");
    }
    checked.err().unwrap_or_default()
}

#[test]
fn messages_are_those_of_helm() {
    let (mut schema, mut values, mut lines) = ("", "", Vec::new());
    let (mut cases, mut wrong) = (0, Vec::new());
    for line in include_str!("cases.txt").lines() {
        if let Some(text) = line.strip_prefix("schema ") {
            schema = text;
        } else if let Some(text) = line.strip_prefix("values ") {
            values = text;
        } else if let Some(text) = line.strip_prefix('|') {
            lines.push(text.strip_prefix(' ').unwrap_or(text));
        } else if line.is_empty() && !schema.is_empty() {
            let (expected, got) = (lines.join("\n"), error_text(schema, values));
            if expected != got {
                wrong.push(format!("schema {schema}\nvalues {values}\nexpected:\n{expected}\ngot:\n{got}"));
            }
            cases += 1;
            (schema, lines) = ("", Vec::new());
        }
    }
    assert!(cases > 600, "only {cases} cases were read");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn common_schemas_are_checked_fast() {
    let schema = br##"{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["image"],
        "properties": {"image": {"$ref": "#/definitions/image"}, "replicas": {"type": ["integer", "null"], "minimum": 0}},
        "definitions": {"image": {"type": "object", "description": "tells a \"tag\"", "additionalProperties": false,
            "properties": {"tag": {"type": "string", "pattern": "^v[0-9.]+$", "enum": ["v1", "v2.0"]}}}}}"##;
    let compiled = Compiled::read(schema).unwrap();
    let accepts = |values: &str| compiled.accepts(&from_slice(values.as_bytes()).unwrap());
    assert!(accepts(r#"{"image": {"tag": "v2.0"}, "replicas": 3, "more": [1]}"#));
    assert!(accepts(r#"{"image": {}, "replicas": null}"#));
    for wrong in [
        r#"{"replicas": 3}"#,
        r#"{"image": {"tag": "v3"}}"#,
        r#"{"image": {"tags": "v1"}}"#,
        r#"{"image": {}, "replicas": -1}"#,
        r#"{"image": {}, "replicas": 1.5}"#,
        r#"{"image": []}"#,
    ] {
        assert!(!accepts(wrong), "{wrong}");
    }
    assert!(compiled.program.get().is_none());
}

#[test]
fn metaschemas_are_schemas() {
    for draft in Draft::ALL {
        let document = meta::document(draft);
        assert!(matches!(&*document, Json::Map(m) if m.contains_key("definitions")), "{draft:?}");
        // Their shapes are in draft 7, whatever draft they describe.
        let named =
            Program::new("file:///meta", &Arc::clone(&document), &ExternalDocuments::new(&super::nowhere));
        assert!(named.is_ok(), "{draft:?}: {:?}", named.err());
    }
    let (program, roots) = meta::program();
    for (draft, root) in Draft::ALL.into_iter().zip(roots) {
        assert_eq!(program.schemas[*root].location, format!("{}#", draft.url()));
    }
}

fn chart(files: &[(&str, &str)]) -> Chart {
    let files = files.iter().map(|(name, text)| File::new((*name).to_owned(), text.as_bytes().to_vec()));
    load_files(files.collect(), Profile::Helm4, &mut |w| panic!("{w}")).unwrap()
}

fn values(text: &str) -> Map {
    match from_slice(text.as_bytes()).unwrap() {
        crate::data::Data::Map(map) => map,
        other => panic!("{other:?} is no map"),
    }
}

#[test]
fn every_chart_is_checked_and_named() {
    const SCHEMA: &str = r#"{"properties": {"x": {"type": "string"}}}"#;
    let chart = chart(&[
        ("Chart.yaml", "{apiVersion: v2, name: root, version: 1.0.0}"),
        ("values.schema.json", SCHEMA),
        ("charts/a/Chart.yaml", "{apiVersion: v2, name: a, version: 1.0.0}"),
        ("charts/a/values.schema.json", SCHEMA),
        ("charts/b/Chart.yaml", "{apiVersion: v2, name: b, version: 1.0.0}"),
        ("charts/b/values.schema.json", r#"{"type": 1}"#),
    ]);
    let check = |text: &str| {
        let still = Still { in_order: false };
        let checked = validate(&chart, &values(text), &Schemas::default(), &still, &mut |w| panic!("{w}"));
        checked.err().map(|e| e.to_string())
    };
    let head = "values don't meet the specifications of the schema(s) in the following chart(s):\n";
    assert_eq!(check(r#"{"x": "s", "a": {}}"#), None);
    assert_eq!(
        check(r#"{"x": 1, "a": {"x": 2}}"#).unwrap(),
        format!("{head}root:\n- at '/x': got number, want string\na:\n- at '/x': got number, want string\n")
    );
    assert_eq!(
        check(r#"{"a": [1]}"#).unwrap(),
        format!("{head}a:\ninvalid type for values: expected object (map), got []interface {{}}\n")
    );
    let broken = check(r#"{"b": {}}"#).unwrap();
    let start = format!(
        "{head}b:\n\"file:///values.schema.json#\" is not valid against metaschema: jsonschema validation failed with \
         'https://json-schema.org/draft/2020-12/schema#'\n"
    );
    assert!(broken.starts_with(&start), "{broken}");
}

#[test]
fn what_is_not_in_the_file_is_told() {
    for (reference, error) in [
        (
            "https://example.com/a.json#/x",
            "failing loading \"https://example.com/a.json\": schemas are not fetched",
        ),
        ("other.json", "failing loading \"file:///other.json\": a schema may refer to nothing outside"),
        ("odd:thing", "failing loading \"odd:thing\": no URLLoader registered for \"odd:thing\""),
    ] {
        let text = error_text(&format!(r#"{{"$ref": "{reference}"}}"#), "{}");
        assert!(text.starts_with(error), "{text}");
    }
    // An unknown URN allows everything, as in Helm.
    assert_eq!(error_text(r#"{"$ref": "urn:example:thing"}"#, "{}"), "");
}

#[test]
fn a_check_ends() {
    // Each definition refers to the next one twice.
    let doubled: Vec<String> = (0..40)
        .map(|i| {
            format!(
                r##""d{i}": {{"allOf": [{{"$ref": "#/$defs/d{0}"}}, {{"$ref": "#/$defs/d{0}"}}]}}"##,
                i + 1
            )
        })
        .collect();
    let schema =
        format!(r##"{{"$defs": {{{}, "d40": true}}, "not": {{"$ref": "#/$defs/d0"}}}}"##, doubled.join(", "));
    assert!(error_text(&schema, "{}").starts_with("the values need more than"));
}

#[test]
fn a_chain_of_references_ends() {
    let chain = |count: usize| {
        let links: Vec<String> =
            (0..count).map(|i| format!(r##""d{i}": {{"$ref": "#/$defs/d{}"}}"##, i + 1)).collect();
        format!(
            r##"{{"$ref": "#/$defs/d0", "$defs": {{{}, "d{count}": {{"type": "string"}}}}}}"##,
            links.join(", ")
        )
    };
    let started = std::time::Instant::now();
    let told_of = error_text(&chain(40_000), "{}");
    assert!(told_of.starts_with("a schema applies more than 2500 others within each other"), "{told_of}");
    assert!(error_text(&chain(2_000), "{}").contains("got object, want string"));
    // As many resources, and as many documents.
    let named: Vec<String> = (0..20_000)
        .map(|i| format!(r##""d{i}": {{"$id": "http://x.test/{i}", "$ref": "http://x.test/{}"}}"##, i + 1))
        .collect();
    let schema =
        format!(r##"{{"$defs": {{{}, "d20000": {{"$id": "http://x.test/20000"}}}}}}"##, named.join(", "));
    assert_eq!(error_text(&schema, "{}"), "");
    let urns: Vec<String> = (0..20_000).map(|i| format!(r#"{{"$ref": "urn:example:{i}"}}"#)).collect();
    assert_eq!(error_text(&format!(r#"{{"allOf": [{}]}}"#, urns.join(", ")), "{}"), "");
    // Quadratic time would be minutes.
    assert!(started.elapsed() < std::time::Duration::from_secs(60));
}

#[test]
fn the_patterns_of_a_schema_have_a_bound_of_memory() {
    let schema = |count: usize| {
        let patterns: Vec<String> =
            (0..count).map(|i| format!(r#"{{"pattern": "\\pL{{{}}}"}}"#, 150 + i)).collect();
        format!(r#"{{"anyOf": [true, {}]}}"#, patterns.join(", "))
    };
    let memory = regexp::compile(br"\pL{150}").unwrap().memory();
    assert_eq!(error_text(&schema(1), "{}"), "");
    assert_eq!(
        error_text(&schema(1 + MAX_PATTERN_MEMORY / memory), "{}"),
        "the patterns of the schema take more than 64 MiB: simplify them"
    );
}

#[test]
fn numbers_are_shown_as_for_english_readers() {
    for (literal, shown) in [
        ("0", "0"),
        ("-0", "0"),
        ("1.0", "1"),
        ("1234", "1,234"),
        ("-1234.5", "-1,234.5"),
        ("999999", "999,999"),
        ("123456.7", "123,456.7"),
        ("1000000", "1×10⁰⁶"),
        ("1234567.891", "1.234567891×10⁰⁶"),
        ("-1234567", "-1.234567×10⁰⁶"),
        ("1e100", "1×10¹⁰⁰"),
        ("0.0001", "0.0001"),
        ("0.00001", "1×10⁻⁰⁵"),
    ] {
        assert_eq!(show::number(literal), shown, "{literal}");
    }
    assert_eq!([999, 1000, -1_234_567].map(show::count), ["999", "1,000", "-1,234,567"]);
    assert_eq!(show::quote("it's \"q\"\n"), r#"'it\'s "q"\n'"#);
}

#[test]
fn decimals_lose_nothing() {
    let number = |text: &str| Decimal::parse(text).unwrap();
    for (a, b) in [("1", "1.0"), ("1e3", "1000"), ("-0", "0"), ("0.10", "1E-1"), ("12300e-2", "123")] {
        assert_eq!(number(a), number(b), "{a} {b}");
    }
    for (less, more) in
        [("-2", "-1"), ("0.1", "0.11"), ("9", "10"), ("12345678901234567890", "12345678901234567891")]
    {
        assert!(number(less) < number(more), "{less} {more}");
    }
    for (value, of, is) in [
        ("0.3", "0.1", true),
        ("4.35", "0.01", true),
        ("1", "0.3", false),
        ("0", "7", true),
        ("1", "0", false),
    ] {
        assert_eq!(number(value).is_multiple_of(&number(of)), is, "{value} {of}");
    }
    for (text, count) in
        [("2.0", Some(2)), ("2.5", None), ("1e30", Some(i64::MAX)), ("-1e30", Some(i64::MIN))]
    {
        assert_eq!(number(text).as_count(), count, "{text}");
    }
    for text in ["NaN", "", "1e99999", "1e999999999999999999999", "x"] {
        assert_eq!(Decimal::parse(text), None, "{text}");
    }
}

#[test]
fn references_lead_where_the_standard_says() {
    let base = "http://a/b/c/d?q";
    for (reference, target) in [
        ("g", "http://a/b/c/g"),
        ("./g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"),
        ("//g", "http://g"),
        ("?y", "http://a/b/c/d?y"),
        ("", "http://a/b/c/d?q"),
        ("..", "http://a/b/"),
        ("../../../g", "http://a/g"),
        ("g/./h/../i", "http://a/b/c/g/i"),
        ("urn:x:y", "urn:x:y"),
    ] {
        assert_eq!(uri::join(base, reference).as_deref(), Ok(target), "{reference}");
    }
    for (base, reference, target) in [
        ("file:///values.schema.json", "x.json", "file:///x.json"),
        ("file:///values.schema.json", "a b", "file:///a%20b"),
        ("urn:a:b", "c", "urn:a:b"),
    ] {
        assert_eq!(uri::join(base, reference).as_deref(), Ok(target), "{reference}");
    }
    let error = uri::join(base, "%").err();
    assert_eq!(error.as_deref(), Some(r#"error in parsing "%": parse "%": invalid URL escape "%""#));
}
