//! Schemas of values, of every draft, also broken ones.

use serde_json::{Map, Value, json};

use super::text;
use crate::choices::Choices;

/// How deep schemas lie within each other.
const DEPTH: usize = 3;

/// What `$schema` may say; nothing most often.
const DRAFTS: &[&str] = &[
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-04/schema#",
    "http://json-schema.org/draft-06/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2020-12/schema#",
    "http://json-schema.org/schema",
    "#",
    "draft-07",
];

/// Names of properties, and keys of values.
const NAMES: &[&str] =
    &["x", "a", "b", "a/b", "c~d", "e f", "", "1", "é", "'q'", "$ref", "\"d\"", "longName"];

/// Where `$ref` may point. Nothing outside: what there is there is not Helm's to say.
const REFS: &[&str] = &[
    "#/$defs/p",
    "#/definitions/p",
    "#",
    "#/$defs/q",
    "#/definitions/q",
    "#/properties/x",
    "#/properties/a~1b",
    "#/properties/c~0d",
    "#/properties/e%20f",
    "#/$defs/none",
    "#/allOf/0",
    "#/items",
    "#/title",
    "#p",
    "#q",
    "p.json",
    "p.json#",
    "p.json#/properties/a",
    "p.json#p",
    "urn:p",
    "urn:p#/properties/x",
    "urn:none",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-07/schema#/definitions/positiveInteger",
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/meta/applicator",
    "#/",
    "#/$defs",
    "#/x/y",
    "#%",
    "%",
    "",
    "file:///values.schema.json#/$defs/p",
    "#/$defs/p/properties/a",
    "#/properties",
    "#/$defs/p/allOf/1",
];

/// A schema in JSON.
pub(crate) fn schema(c: &mut Choices) -> Vec<u8> {
    let mut root = Map::new();
    if c.one_in(2) {
        root.insert("$schema".to_owned(), if c.one_in(60) { odd(c) } else { draft(c).into() });
    }
    let mut properties = Map::new();
    for _ in 0..=c.below(2) {
        let name = if c.one_in(4) { c.of(NAMES) } else { "x" };
        properties.insert(name.to_owned(), part(c, DEPTH));
    }
    root.insert("properties".to_owned(), properties.into());
    for definitions in ["$defs", "definitions"] {
        if c.one_in(3) {
            let mut all = Map::new();
            for name in ["p", "q"] {
                if c.one_in(2) {
                    all.insert(name.to_owned(), part(c, DEPTH - 1));
                }
            }
            root.insert(definitions.to_owned(), all.into());
        }
    }
    if c.one_in(4) {
        keyword(c, &mut root, DEPTH - 1);
    }
    if c.one_in(30) {
        root.insert("$id".to_owned(), id(c));
    }
    // What a schema refers to outside itself is there, or asked for by a name that Helm looks for nowhere.
    let outside = c.one_in(8);
    if outside {
        root.insert("allOf".to_owned(), json!([{"$id": "file:///p.json", "id": "file:///p.json", "$defs": {"p": part(c, 1)}, "definitions": {"p": part(c, 1)}, "properties": {"a": part(c, 1)}}, true]));
    }
    let whole = if c.one_in(200) { part(c, 1) } else { Value::Object(root) };
    let text = whole.to_string();
    let text = if outside { text } else { text.replace("p.json", "urn:p") }.into_bytes();
    // A damaged URL would be one of the network.
    let local = !text.windows(3).any(|w| w == b"://");
    if local && c.one_in(100) {
        text::mutate(c, text, &["$ref", "{", "}", "[", "]", ",", ":", "\"", "1", "null", " x"])
    } else {
        text
    }
}

/// Values that may or may not be as a schema wants them.
pub(crate) fn values(c: &mut Choices) -> Value {
    let mut all = Map::new();
    for _ in 0..=c.below(2) {
        let name = if c.one_in(3) { c.of(NAMES) } else { "x" };
        all.insert(name.to_owned(), instance(c, DEPTH));
    }
    all.into()
}

fn draft(c: &mut Choices) -> &'static str {
    if c.one_in(20) { c.of(DRAFTS) } else { c.of(&DRAFTS[..5]) }
}

fn id(c: &mut Choices) -> Value {
    c.of(&["p.json", "urn:p", "#p", "urn:p#q", "a b", "%", "", "file:///values.schema.json", "#"]).into()
}

fn part(c: &mut Choices, depth: usize) -> Value {
    if c.one_in(25) {
        return c.of(&[true, false]).into();
    }
    if c.one_in(400) {
        return odd(c);
    }
    let mut all = Map::new();
    for _ in 0..=c.below(3) {
        keyword(c, &mut all, depth);
    }
    all.into()
}

/// What is nowhere right.
fn odd(c: &mut Choices) -> Value {
    match c.below(7) {
        0 => json!("#text"),
        1 => json!(1),
        2 => Value::Null,
        3 => json!([]),
        4 => json!(-1.5),
        5 => json!([1, "a"]),
        _ => json!({}),
    }
}

fn parts(c: &mut Choices, depth: usize) -> Value {
    if c.one_in(60) {
        return json!([]);
    }
    (0..=c.below(3)).map(|_| part(c, depth)).collect()
}

fn table(c: &mut Choices, depth: usize) -> Value {
    (0..=c.below(3)).map(|_| (c.of(NAMES).to_owned(), part(c, depth))).collect::<Map<_, _>>().into()
}

fn names(c: &mut Choices) -> Value {
    let mut all: Vec<&str> = (0..c.below(4)).map(|_| c.of(NAMES)).collect();
    if !c.one_in(20) {
        all.sort_unstable();
        all.dedup();
    }
    all.into()
}

fn type_name(c: &mut Choices) -> &'static str {
    c.of(&["object", "string", "number", "integer", "boolean", "array", "null"])
}

fn count(c: &mut Choices) -> Value {
    if c.one_in(30) {
        json!(1.5)
    } else {
        c.of(&[json!(1), json!(0), json!(2), json!(3), json!(2.0)].each_ref()).clone()
    }
}

fn number(c: &mut Choices) -> Value {
    c.of(&[
        json!(1),
        json!(3),
        json!(0),
        json!(-2),
        json!(0.5),
        json!(0.1),
        json!(1e20),
        json!(1e-7),
        json!(10),
        json!(3.0),
    ]
    .each_ref())
        .clone()
}

const PATTERNS: &[&str] = &[
    "^a", "^x", "b$", "^[a-z]+$", "\\d+", "^$", ".*", "é", "a{2,}", "^.{3}$", "\\p{L}", "\\w", "[", "(?=a)",
    "(?i)A", "\\/", "a|b", "(", "\\z", "^\\S*$", "'", "\"", "%",
];

const FORMATS: &[&str] = &[
    "date-time",
    "date",
    "time",
    "duration",
    "email",
    "idn-email",
    "hostname",
    "idn-hostname",
    "ipv4",
    "ipv6",
    "uri",
    "uri-reference",
    "iri",
    "iri-reference",
    "uri-template",
    "uuid",
    "json-pointer",
    "relative-json-pointer",
    "regex",
    "period",
    "semver",
    "unknown",
    "",
];

fn keyword(c: &mut Choices, all: &mut Map<String, Value>, depth: usize) {
    let deep = depth > 0;
    let (key, value) = match c.below(if deep { 62 } else { 34 }) {
        0..=3 => ("type", type_name(c).into()),
        4 | 5 => (
            "type",
            match c.below(20) {
                0 => json!("#text"),
                1 => json!([]),
                2 => json!(["string", "string"]),
                3 => json!(["string", 1]),
                _ => json!([type_name(c), type_name(c), type_name(c)][..=c.below(3)]),
            },
        ),
        6 | 7 => ("const", instance(c, 1)),
        8 | 9 => ("enum", (0..=c.below(3)).map(|_| instance(c, 1)).collect()),
        10 => ("multipleOf", number(c)),
        11 => ("maximum", number(c)),
        12 => ("minimum", number(c)),
        13 => ("exclusiveMaximum", if c.one_in(4) { c.one_in(2).into() } else { number(c) }),
        14 => ("exclusiveMinimum", if c.one_in(4) { c.one_in(2).into() } else { number(c) }),
        15 => ("maxLength", count(c)),
        16 => ("minLength", count(c)),
        17 | 18 => ("pattern", c.of(PATTERNS).into()),
        19 | 20 => ("format", c.of(FORMATS).into()),
        21 => ("maxItems", count(c)),
        22 => ("minItems", count(c)),
        23 => ("uniqueItems", (!c.one_in(4)).into()),
        24 => ("maxProperties", count(c)),
        25 => ("minProperties", count(c)),
        26 | 27 => ("required", names(c)),
        28 => ("dependentRequired", json!({ c.of(NAMES): names(c) })),
        29..=31 => {
            let known = if c.one_in(4) { REFS } else { &REFS[..7] };
            ("$ref", c.of(known).into())
        }
        32 => match c.below(12) {
            0 => ("$anchor", c.of(&["p", "q", "1", "a b"]).into()),
            1 => ("$dynamicAnchor", c.of(&["p", "q", ""]).into()),
            2 => ("$dynamicRef", c.of(&["#p", "#q", "#", "#/$defs/p"]).into()),
            3 => ("$recursiveRef", "#".into()),
            4 => ("$recursiveAnchor", c.of(&[true, false]).into()),
            5 => ("$id", id(c)),
            6 => ("id", id(c)),
            7 => ("$schema", draft(c).into()),
            8 => ("$vocabulary", json!({"https://json-schema.org/draft/2020-12/vocab/core": true})),
            9 => ("$comment", "text".into()),
            10 => ("$recursiveRef", c.of(REFS).into()),
            _ => ("nullable", true.into()),
        },
        33 => match c.below(8) {
            0 => ("title", "t".into()),
            1 => ("description", "d".into()),
            2 => ("default", instance(c, 1)),
            3 => ("examples", json!([instance(c, 1)])),
            4 => ("contentEncoding", "base64".into()),
            5 => ("contentMediaType", "application/json".into()),
            6 => ("readOnly", true.into()),
            _ => {
                let any = c.of(KEYWORDS);
                (any, odd(c))
            }
        },
        34..=36 => ("properties", table(c, depth - 1)),
        37 | 38 => (
            "patternProperties",
            (0..=c.below(2))
                .map(|_| (c.of(PATTERNS).to_owned(), part(c, depth - 1)))
                .collect::<Map<_, _>>()
                .into(),
        ),
        39 | 40 => ("additionalProperties", if c.one_in(2) { false.into() } else { part(c, depth - 1) }),
        41 => ("propertyNames", part(c, depth - 1)),
        42 => ("unevaluatedProperties", if c.one_in(2) { false.into() } else { part(c, depth - 1) }),
        43 => {
            ("dependencies", json!({ c.of(NAMES): if c.one_in(2) { names(c) } else { part(c, depth - 1) } }))
        }
        44 => ("dependentSchemas", table(c, depth - 1)),
        45..=47 => ("items", if c.one_in(3) { parts(c, depth - 1) } else { part(c, depth - 1) }),
        48 => ("prefixItems", parts(c, depth - 1)),
        49 => ("additionalItems", if c.one_in(2) { false.into() } else { part(c, depth - 1) }),
        50 => ("contains", part(c, depth - 1)),
        51 => (c.of(&["minContains", "maxContains"]), count(c)),
        52 => ("unevaluatedItems", if c.one_in(2) { false.into() } else { part(c, depth - 1) }),
        53 | 54 => ("allOf", parts(c, depth - 1)),
        55 | 56 => ("anyOf", parts(c, depth - 1)),
        57 | 58 => ("oneOf", parts(c, depth - 1)),
        59 => ("not", part(c, depth - 1)),
        60 => {
            all.insert("if".to_owned(), part(c, depth - 1));
            ("then", part(c, depth - 1))
        }
        _ => {
            if !c.one_in(5) {
                all.insert("if".to_owned(), part(c, depth - 1));
            }
            ("else", part(c, depth - 1))
        }
    };
    all.insert(key.to_owned(), value);
}

/// All that mean something, for what they cannot mean.
const KEYWORDS: &[&str] = &[
    "type",
    "enum",
    "multipleOf",
    "maximum",
    "minimum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
    "$ref",
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveRef",
    "$recursiveAnchor",
    "$id",
    "id",
    "$schema",
    "$vocabulary",
    "$comment",
    "title",
    "description",
    "examples",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "readOnly",
    "writeOnly",
    "deprecated",
    "properties",
    "patternProperties",
    "additionalProperties",
    "propertyNames",
    "unevaluatedProperties",
    "dependencies",
    "dependentSchemas",
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "$defs",
    "definitions",
];

const TEXTS: &[&str] = &[
    "a",
    "",
    "x",
    "abc",
    "aa",
    "é",
    "1",
    "12:30:00Z",
    "2020-02-30",
    "2020-02-29",
    "2020-01-01T00:00:00Z",
    "P1D",
    "P1Y2M",
    "a@b.c",
    "a@[127.0.0.1]",
    "example.com",
    "-a.b",
    "127.0.0.1",
    "1.2.3",
    "::1",
    "http://a/b?c#d",
    "a/b",
    "//a",
    "{a}",
    "a{b",
    "#/a",
    "/a~0",
    "/a~2",
    "1/a",
    "0#",
    "^a[",
    "00000000-0000-0000-0000-000000000000",
    "1.2.3-rc.1+b",
    "it's",
    "a\"b",
    "a\nb",
    "\u{7f}\u{1}",
    "\u{1F600}",
    "2020-01-01T23:59:60Z",
    "23:59:60+01:00",
    "PT1S",
    "P1W",
    "http://[::1]/",
    "http://a b",
    "xn--a",
    "[1]",
    "YWJj",
    "true",
    "null",
];

fn instance(c: &mut Choices, depth: usize) -> Value {
    match c.below(if depth > 0 { 14 } else { 9 }) {
        0..=2 => c.of(TEXTS).into(),
        3 | 4 => c.of(&[1, 0, 2, 3, -1, 10, 12_345_678]).into(),
        5 => c.of(&[1.5, 0.1, 0.3, 1e21, 1e-7, -0.5, 2.0, 1e6]).into(),
        6 => c.of(&[true, false]).into(),
        7 => Value::Null,
        8 => c.of(&[json!([]), json!({}), json!("a"), json!(["a"])].each_ref()).clone(),
        9..=11 => (0..c.below(4))
            .map(|_| (c.of(NAMES).to_owned(), instance(c, depth - 1)))
            .collect::<Map<_, _>>()
            .into(),
        _ => (0..c.below(4)).map(|_| instance(c, depth - 1)).collect(),
    }
}
