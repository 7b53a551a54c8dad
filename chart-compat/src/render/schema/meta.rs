//! The metaschemas of all drafts.
//!
//! Defined as tables of keywords and shapes, grouped as in the drafts, because messages about an invalid schema show
//! the structure of its metaschema.

use std::sync::{Arc, LazyLock};

use super::compile::{Id, Program};
use super::draft::Draft;
use super::json::Json;
use crate::json::first_tree;

/// Keywords of drafts 4, 6 and 7; those not in all of them with their drafts.
const OLD: &[(&str, &str)] = &[
    (
        "4 6 7",
        "$schema=uri title=string description=string default=any maximum=number minimum=number maxLength=count \
         minLength=count0 pattern=regex items=schema-or-list maxItems=count minItems=count0 uniqueItems=bool \
         maxProperties=count minProperties=count0 required=strings definitions=schemas properties=schemas \
         dependencies=dependencies enum=some-unique type=types format=string allOf=list anyOf=list oneOf=list not=schema",
    ),
    (
        "4",
        "id=string $ref=string multipleOf=positive exclusiveMaximum=bool exclusiveMinimum=bool \
         additionalItems=bool-or-schema additionalProperties=bool-or-schema patternProperties=schemas",
    ),
    (
        "6 7",
        "$id=uri-reference $ref=uri-reference multipleOf=positive exclusiveMaximum=number exclusiveMinimum=number \
         additionalItems=schema contains=schema additionalProperties=schema propertyNames=schema const=any",
    ),
    ("6", "patternProperties=schemas"),
    (
        "7",
        "patternProperties=patterns $comment=string readOnly=bool writeOnly=bool examples=array contentMediaType=string \
         contentEncoding=string if=schema then=schema else=schema",
    ),
];

const APPLICATORS: &str = "contains=schema additionalProperties=schema properties=schemas patternProperties=patterns \
     dependentSchemas=schemas propertyNames=schema if=schema then=schema else=schema allOf=list anyOf=list oneOf=list \
     not=schema";
const VALIDATION: &str = "multipleOf=positive maximum=number exclusiveMaximum=number minimum=number exclusiveMinimum=number \
     maxLength=count minLength=count0 pattern=regex maxItems=count minItems=count0 uniqueItems=bool maxContains=count \
     minContains=count maxProperties=count minProperties=count0 required=strings dependentRequired=strings-map const=any \
     enum=array type=types";
const META_DATA: &str =
    "title=string description=string default=any deprecated=bool readOnly=bool writeOnly=bool examples=array";

/// The vocabularies of the later drafts by name, in the order in which they are checked.
fn vocabularies(draft: Draft) -> Vec<(&'static str, String)> {
    let [core, applicators, unevaluated] = if draft == Draft::D2019 {
        [
            "$id=id $schema=uri $anchor=anchor-2019 $ref=uri-reference $recursiveRef=uri-reference \
             $recursiveAnchor=bool $vocabulary=vocabulary $comment=string $defs=schemas",
            "additionalItems=schema unevaluatedItems=schema items=schema-or-list unevaluatedProperties=schema",
            "",
        ]
    } else {
        [
            "$id=id $schema=uri $ref=uri-reference $anchor=anchor $dynamicRef=uri-reference $dynamicAnchor=anchor \
             $vocabulary=vocabulary $comment=string $defs=schemas",
            "prefixItems=list items=schema",
            "unevaluatedItems=schema unevaluatedProperties=schema",
        ]
    };
    let mut out = vec![("core", core.to_owned()), ("applicator", format!("{applicators} {APPLICATORS}"))];
    if !unevaluated.is_empty() {
        out.push(("unevaluated", unevaluated.to_owned()));
    }
    let format = if draft == Draft::D2019 { "format" } else { "format-annotation" };
    let content = "contentEncoding=string contentMediaType=string contentSchema=schema";
    let rest = [
        ("validation", VALIDATION),
        ("meta-data", META_DATA),
        (format, "format=string"),
        ("content", content),
    ];
    out.extend(rest.map(|(name, keywords)| (name, keywords.to_owned())));
    out
}

/// A shape as a schema of draft 7, for any described draft.
fn shape(name: &str, draft: Draft) -> &'static str {
    match name {
        "string" => r#"{"type": "string"}"#,
        "bool" => r#"{"type": "boolean"}"#,
        "number" => r#"{"type": "number"}"#,
        "positive" => r#"{"type": "number", "exclusiveMinimum": 0}"#,
        "count" => r##"{"$ref": "#/definitions/nonNegativeInteger"}"##,
        "count0" => r##"{"$ref": "#/definitions/nonNegativeIntegerDefault0"}"##,
        "regex" => r#"{"type": "string", "format": "regex"}"#,
        "uri" => r#"{"type": "string", "format": "uri"}"#,
        "uri-reference" => r#"{"type": "string", "format": "uri-reference"}"#,
        "id" => r#"{"type": "string", "format": "uri-reference", "pattern": "^[^#]*#?$"}"#,
        "anchor" => r#"{"type": "string", "pattern": "^[A-Za-z_][-A-Za-z0-9._]*$"}"#,
        "anchor-2019" => r#"{"type": "string", "pattern": "^[A-Za-z][-A-Za-z0-9.:_]*$"}"#,
        "vocabulary" => {
            r#"{"type": "object", "propertyNames": {"type": "string", "format": "uri"},
                "additionalProperties": {"type": "boolean"}}"#
        }
        "schema" => r##"{"$ref": "#"}"##,
        "bool-or-schema" => r##"{"anyOf": [{"type": "boolean"}, {"$ref": "#"}]}"##,
        "schema-or-list" => r##"{"anyOf": [{"$ref": "#"}, {"$ref": "#/definitions/schemaArray"}]}"##,
        "list" => r##"{"$ref": "#/definitions/schemaArray"}"##,
        "schemas" => r##"{"type": "object", "additionalProperties": {"$ref": "#"}}"##,
        "patterns" => {
            r##"{"type": "object", "additionalProperties": {"$ref": "#"}, "propertyNames": {"format": "regex"}}"##
        }
        "dependencies" => {
            r##"{"type": "object",
                "additionalProperties": {"anyOf": [{"$ref": "#"}, {"$ref": "#/definitions/stringArray"}]}}"##
        }
        "strings" => r##"{"$ref": "#/definitions/stringArray"}"##,
        "strings-map" => {
            r##"{"type": "object", "additionalProperties": {"$ref": "#/definitions/stringArray"}}"##
        }
        "array" => r#"{"type": "array", "items": true}"#,
        "some-unique" if draft == Draft::D7 => {
            r#"{"type": "array", "items": true, "minItems": 1, "uniqueItems": true}"#
        }
        "some-unique" => r#"{"type": "array", "minItems": 1, "uniqueItems": true}"#,
        "types" => {
            r##"{"anyOf": [{"$ref": "#/definitions/simpleTypes"},
                {"type": "array", "items": {"$ref": "#/definitions/simpleTypes"}, "minItems": 1, "uniqueItems": true}]}"##
        }
        // The definitions that the shapes above refer to, with names that schemas may refer to, too.
        "definitions" if draft == Draft::D4 => {
            r##"{"nonNegativeInteger": {"type": "integer", "minimum": 0},
                "positiveInteger": {"$ref": "#/definitions/nonNegativeInteger"},
                "nonNegativeIntegerDefault0": {"allOf": [{"$ref": "#/definitions/nonNegativeInteger"}, {}]},
                "positiveIntegerDefault0": {"$ref": "#/definitions/nonNegativeIntegerDefault0"},
                "schemaArray": {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
                "simpleTypes": {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]},
                "stringArray": {"type": "array", "items": {"type": "string"}, "minItems": 1, "uniqueItems": true}}"##
        }
        "definitions" if draft < Draft::D2019 => {
            r##"{"nonNegativeInteger": {"type": "integer", "minimum": 0},
                "nonNegativeIntegerDefault0": {"allOf": [{"$ref": "#/definitions/nonNegativeInteger"}, {}]},
                "schemaArray": {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
                "simpleTypes": {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]},
                "stringArray": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}"##
        }
        "definitions" => {
            r##"{"nonNegativeInteger": {"type": "integer", "minimum": 0},
                "nonNegativeIntegerDefault0": {"$ref": "#/definitions/nonNegativeInteger"},
                "schemaArray": {"type": "array", "minItems": 1, "items": {"$ref": "#"}},
                "simpleTypes": {"enum": ["array", "boolean", "integer", "null", "number", "object", "string"]},
                "stringArray": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}"##
        }
        _ => "true",
    }
}

fn properties<'k>(keywords: impl Iterator<Item = &'k str>, draft: Draft) -> String {
    let entries: Vec<String> = keywords
        .flat_map(str::split_whitespace)
        .filter_map(|entry| entry.split_once('='))
        .map(|(keyword, name)| format!("{keyword:?}: {}", shape(name, draft)))
        .collect();
    format!("{{{}}}", entries.join(", "))
}

const EITHER: &str = r#""type": ["object", "boolean"]"#;

fn text(draft: Draft) -> String {
    let mut definitions = shape("definitions", draft).to_owned();
    let mut references = Vec::new();
    if draft >= Draft::D2019 {
        // A reference groups failures differently from an inlined schema.
        for (name, keywords) in vocabularies(draft) {
            let properties = properties([keywords.as_str()].into_iter(), draft);
            definitions.insert_str(1, &format!(r#""{name}": {{{EITHER}, "properties": {properties}}}, "#));
            references.push(format!(r##"{{"$ref": "#/definitions/{name}"}}"##));
        }
    }
    let old = |number| {
        let known = OLD.iter().filter(move |(drafts, _)| drafts.split(' ').any(|d| d == number));
        properties(known.map(|(_, keywords)| *keywords), draft)
    };
    let rest = match draft {
        Draft::D4 => format!(
            r#""type": "object", "properties": {},
               "dependencies": {{"exclusiveMaximum": ["maximum"], "exclusiveMinimum": ["minimum"]}}"#,
            old("4")
        ),
        Draft::D6 => format!(r#"{EITHER}, "properties": {}"#, old("6")),
        Draft::D7 => format!(r#"{EITHER}, "properties": {}"#, old("7")),
        Draft::D2019 | Draft::D2020 => {
            let former = match draft {
                Draft::D2019 => "definitions=schemas dependencies=dependencies",
                _ => {
                    "definitions=schemas dependencies=dependencies $recursiveAnchor=anchor $recursiveRef=uri-reference"
                }
            };
            let former = properties([former].into_iter(), draft);
            format!(r#""allOf": [{}], {EITHER}, "properties": {former}"#, references.join(", "))
        }
    };
    format!(r#"{{"definitions": {definitions}, {rest}}}"#)
}

/// The metaschema of a vocabulary as a document, if the URL is one.
pub(super) fn vocabulary(url: &str) -> Option<Arc<Json>> {
    let (_, place) =
        url.split_once("://json-schema.org/draft/").filter(|(scheme, _)| scheme.starts_with("http"))?;
    let (draft, name) = place.split_once("/meta/")?;
    let draft = Draft::ALL.into_iter().find(|d| d.url().ends_with(&format!("/draft/{draft}/schema")))?;
    let name = if name == "format-assertion" { "format-annotation" } else { name };
    let (_, keywords) = vocabularies(draft).into_iter().find(|(known, _)| *known == name)?;
    let properties = properties([keywords.as_str()].into_iter(), draft);
    let definitions = shape("definitions", draft);
    let text = format!(r#"{{"definitions": {definitions}, {EITHER}, "properties": {properties}}}"#);
    first_tree::<Json>(text.as_bytes()).ok().map(|(json, _)| Arc::new(json))
}

/// The metaschema of a draft as a document.
pub(super) fn document(draft: Draft) -> Arc<Json> {
    static DOCUMENTS: LazyLock<[Arc<Json>; 5]> = LazyLock::new(|| {
        Draft::ALL.map(|draft| {
            // A test reads every one of them.
            let read = first_tree::<Json>(text(draft).as_bytes());
            Arc::new(read.map_or(Json::Bool(true), |(json, _)| json))
        })
    });
    Arc::clone(&DOCUMENTS[draft as usize])
}

/// All compiled metaschemas, and the root of each.
pub(super) fn program() -> &'static (Program, [Id; 5]) {
    static PROGRAM: LazyLock<(Program, [Id; 5])> = LazyLock::new(Program::of_metaschemas);
    &PROGRAM
}
