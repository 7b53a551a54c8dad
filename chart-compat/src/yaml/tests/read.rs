//! Decoded values. Expectations were recorded from sigs.k8s.io/yaml 1.6.0 with go-yaml v2 2.4.4.

use super::*;

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(read(text), *expected, "{text:?}");
    }
}

#[test]
fn plain_scalars() {
    check(&[
        ("y", "true"),
        ("Yes", "true"),
        ("yES", r#""yES""#),
        ("on", "true"),
        ("OFF", "false"),
        ("n", "false"),
        ("true", "true"),
        ("tRUE", r#""tRUE""#),
        ("~", "null"),
        ("null", "null"),
        ("nULL", r#""nULL""#),
        ("", "null"),
        ("0", "0"),
        ("-0", "0"),
        ("+1", "1"),
        ("0x1F", "31"),
        ("0X1f", "31"),
        ("0o17", "15"),
        ("0o8", r#""0o8""#),
        ("017", "15"),
        ("08", "8"),
        ("0b11", "3"),
        ("0b+1", "1"),
        ("-0b1", "-1"),
        ("-0b-1", r#""-0b-1""#),
        ("1_000", "1000"),
        ("_1", r#""_1""#),
        ("1_", "1"),
        ("9223372036854775807", "9223372036854776000"),
        ("9223372036854775808", "9223372036854776000"),
        ("18446744073709551615", "18446744073709552000"),
        ("18446744073709551616", "18446744073709552000"),
        ("-9223372036854775809", "-9223372036854776000"),
        ("1.", "1"),
        (".5", "0.5"),
        ("1.5e3", "1500"),
        ("1e3", "1000"),
        ("1e", r#""1e""#),
        ("1e400", r#""1e400""#),
        ("-1e400", r#""-1e400""#),
        (".5_0", "0.5"),
        ("1_0.5", "10.5"),
        ("0x1.8p1", r#""0x1.8p1""#),
        ("nan", r#""nan""#),
        ("Infinity", r#""Infinity""#),
        ("12:30", r#""12:30""#),
        ("12:30:45", r#""12:30:45""#),
        ("1.2.3", r#""1.2.3""#),
        ("1,000", r#""1,000""#),
        ("<<", r#""\u003c\u003c""#),
        ("=", r#""=""#),
        ("2001-01-01", r#""2001-01-01""#),
        ("2001-1-1", r#""2001-1-1""#),
        ("2001-02-30", r#""2001-02-30""#),
        ("2001-01-01T00:00:00Z", r#""2001-01-01T00:00:00Z""#),
        ("2001-01-01 10:20:30", r#""2001-01-01 10:20:30""#),
        ("-a", r#""-a""#),
        ("- a", r#"["a"]"#),
        ("a:b", r#""a:b""#),
        ("a: b", r#"{"a":"b"}"#),
        ("a #b", r#""a""#),
        ("a#b", r#""a#b""#),
        ("#a", "null"),
        ("-0.0", "-0"),
        ("1e-7", "1e-7"),
        ("123456789012345678901234567890", "1.2345678901234568e+29"),
    ]);
}

#[test]
fn tagged_scalars() {
    check(&[
        ("!!str 12", r#""12""#),
        ("!!int 12", "12"),
        (r#"!!int "0x1F""#, "31"),
        ("!!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("!!int 1.5", "yaml: cannot decode !!float `1.5` as a !!int"),
        ("!!float 1", "1"),
        ("!!float x", "yaml: cannot decode !!str `x` as a !!float"),
        ("!!float 18446744073709551615", "yaml: cannot decode !!int `18446744073709551615` as a !!float"),
        ("!!bool yes", "true"),
        ("!!bool 1", "yaml: cannot decode !!int `1` as a !!bool"),
        (r#"!!null """#, "null"),
        ("!!null x", "yaml: cannot decode !!str `x` as a !!null"),
        ("!!timestamp 2001-01-01", r#""2001-01-01""#),
        ("!!timestamp x", "yaml: cannot decode !!str `x` as a !!timestamp"),
        ("!!binary aGk=", r#""hi""#),
        ("!!binary /w==", r#""�""#),
        ("!!binary aGk", "yaml: !!binary value contains invalid base64 data"),
        ("!!binary \"a\n Gk=\"", "yaml: !!binary value contains invalid base64 data"),
        ("!foo 12", r#""12""#),
        ("! 12", r#""12""#),
        ("!!map x", r#""x""#),
        ("!!str", r#""""#),
        ("!!int", "yaml: cannot decode !!null `` as a !!int"),
        ("!<tag:yaml.org,2002:int> 7", "7"),
        ("!e!x 1", "yaml: found undefined tag handle"),
        ("%TAG !e! tag:yaml.org,2002:\n---\n!e!str 1", r#""1""#),
        ("&a !!str 1", r#""1""#),
        ("!!str &a 1", r#""1""#),
        (r#""12""#, r#""12""#),
        ("'yes'", r#""yes""#),
    ]);
}

#[test]
fn documents() {
    check(&[
        ("a: 1\na: 2", r#"{"a":2}"#),
        ("a: &x {b: 1}\nc: *x", r#"{"a":{"b":1},"c":{"b":1}}"#),
        ("a: &x 1\n*x : b", r#"{"1":"b","a":1}"#),
        ("b: &b {x: 1, y: 2}\nc:\n  y: 3\n  <<: *b", r#"{"b":{"true":2,"x":1},"c":{"true":2,"x":1}}"#),
        ("b: &b {x: 1, y: 2}\nc:\n  <<: *b\n  y: 3", r#"{"b":{"true":2,"x":1},"c":{"true":3,"x":1}}"#),
        (
            "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}",
            r#"{"a":{"x":1},"b":{"true":2,"x":2},"c":{"true":2,"x":1}}"#,
        ),
        ("<<: {a: {<<: {b: 1}}}", r#"{"a":{"b":1}}"#),
        (r#""<<": {a: 1}"#, r#"{"\u003c\u003c":{"a":1}}"#),
        ("<<: []", "{}"),
        ("&a a: *a", r#"{"a":"a"}"#),
        ("a: &a [1]\nb: &a [2]\nc: *a", r#"{"a":[1],"b":[2],"c":[2]}"#),
        (
            "yes: 1\n1: 2\n1.50: 3\n.inf: 4\n0x10: 5\n2001-01-01: 6",
            r#"{".inf":4,"1":2,"1.5":3,"16":5,"2001-01-01":6,"true":1}"#,
        ),
        (
            "a:\n- b\n-  c: 1\n   d: 2\n- - x\n  - y\n-\n- ~",
            r#"{"a":["b",{"c":1,"d":2},["x",true],null,null]}"#,
        ),
        ("a: {b: [c, {d: e}], f}", r#"{"a":{"b":["c",{"d":"e"}],"f":null}}"#),
        ("[a: 1, ? b : c, ? d]", r#"[{"a":1},{"b":"c"},{"d":null}]"#),
        ("{a, b: , ? c}", r#"{"a":null,"b":null,"c":null}"#),
        ("? a\n: b\n? c", r#"{"a":"b","c":null}"#),
        ("? |\n  a\n: - b", r#"{"a\n":["b"]}"#),
        ("a:b: c", r#"{"a:b":"c"}"#),
        ("a: b # c\n# d\n", r#"{"a":"b"}"#),
        ("--- a\n...\nb", r#""a""#),
        ("---\na: 1\n---\nb: [", r#"{"a":1}"#),
        ("a: 1\n...\n}", r#"{"a":1}"#),
        ("%YAML 1.1\n---\na", r#""a""#),
        ("# only a comment\n", "null"),
        ("", "null"),
        ("---\n", "null"),
        ("---\n...\n", "null"),
        ("a: 'it''s'\nb: \"x\\ty\\x41\\u00e9\\U0001F600\\\n   z\"", r#"{"a":"it's","b":"x\tyAé😀z"}"#),
        ("a: \"one\n  two\n\n  three\"", r#"{"a":"one two\nthree"}"#),
        ("a: 'one\n  two\n\n\n  three '", r#"{"a":"one two\n\nthree "}"#),
        ("a: one\n  two\n\n  three\nb: 1", r#"{"a":"one two\nthree","b":1}"#),
        (
            "a: |\n  x\n   y\n\n  z\n\nb: >\n  x\n  y\n\n  z\n   w\n  v\n",
            r#"{"a":"x\n y\n\nz\n","b":"x y\nz\n w\nv\n"}"#,
        ),
        ("a: |-\n  x\n\nb: |+\n  x\n\nc: >-\n  x\n", r#"{"a":"x","b":"x\n\n","c":"x"}"#),
        ("a: |2\n   x\n  y\n", r#"{"a":" x\ny\n"}"#),
        ("a: |\n\n\n  x\n", r#"{"a":"\n\nx\n"}"#),
        ("a: |\n", r#"{"a":""}"#),
        ("- |\n x\n- >1\n  y", r#"["x\n"," y"]"#),
        ("\"\ta\"", r#""\ta""#),
        ("a:\t1", r#"{"a":1}"#),
        ("a: \tb", r#"{"a":"b"}"#),
        ("- \t-", "yaml: found character that cannot start any token"),
        ("\u{feff}a: 1", r#"{"a":1}"#),
        ("a: \u{2028}b\u{2029}c", "yaml: line 3: could not find expected ':'"),
        ("a: x\r\nb: |\r\n  y\r\n  z\r\n", r#"{"a":"x","b":"y\nz\n"}"#),
        ("a: \"x\u{85} y\"", r#"{"a":"x y"}"#),
        ("a: x\u{2028}  y", r#"{"a":"x\u2028y"}"#),
        ("é: {ü: 1}\n", r#"{"é":{"ü":1}}"#),
        (r#"{"a":"\/\u00e9\ud7ff"}"#, "yaml: found unknown escape character"),
        ("[1,2,]", "[1,2]"),
        ("{a: 1,}", r#"{"a":1}"#),
        ("a: [\n1,\n  2\n]", r#"{"a":[1,2]}"#),
        ("a: {b\n: c}", "yaml: line 1: did not find expected ',' or '}'"),
        ("- a\n- b: c\n  d: e", r#"["a",{"b":"c","d":"e"}]"#),
        ("- a: 1\n  b:\n  - x\n  c: 2", r#"[{"a":1,"b":["x"],"c":2}]"#),
        ("a: !!str\nb: &x\nc: *x", r#"{"a":"","b":null,"c":null}"#),
        ("a: -\n", "yaml: block sequence entries are not allowed in this context"),
        ("k: [a, -, b]", r#"{"k":["a","-","b"]}"#),
        ("{? : 1}", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        ("{: 1}", "yaml: did not find expected node content"),
        ("[: 1]", "yaml: did not find expected node content"),
        ("[? ]", "yaml: line 1: did not find expected ',' or ']'"),
        ("{a: }", r#"{"a":null}"#),
        ("a: {}\nb: []", r#"{"a":{},"b":[]}"#),
        ("x: \"a\\  \n  b\"", r#"{"x":"a  b"}"#),
    ]);
}

fn check_strict(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let read = match from_slice_strict(text.as_bytes()) {
            Ok(data) => json::to_string(&data).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, *expected, "{text:?}");
    }
}

#[test]
fn strict_reading_tells_every_duplicate() {
    check_strict(&[
        ("a: 1\na: 2", "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map"),
        (
            "a: 1\nb:\n  c: 1\n  c:\n    2\na: 3",
            "yaml: unmarshal errors:\n  line 5: key \"c\" already set in map\n  line 6: key \"a\" already set in map",
        ),
        ("{a: 1, a: 2}", "yaml: unmarshal errors:\n  line 1: key \"a\" already set in map"),
        ("1: a\n\"1\": b\n1: c", "yaml: unmarshal errors:\n  line 3: key 1 already set in map"),
        ("yes: 1\ny: 2", "yaml: unmarshal errors:\n  line 2: key true already set in map"),
        ("~: 1\n~: 2", "yaml: unmarshal errors:\n  line 2: key <nil> already set in map"),
        (
            "b: &b {x: 1}\nc: {x: 2, <<: *b}",
            "yaml: unmarshal errors:\n  line 1: key \"x\" already set in map",
        ),
        (
            "b: &b {x: 1}\nc: {<<: *b, x: 2}",
            "yaml: unmarshal errors:\n  line 2: key \"x\" already set in map",
        ),
        ("a: 1\na: [", "yaml: line 2: did not find expected node content"),
        ("- {a: 1}\n- {a: 1}", r#"[{"a":1},{"a":1}]"#),
    ]);
}

fn check_map(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let read = match from_slice_map(text.as_bytes()) {
            Ok(map) => json::to_string(&Data::Map(map)).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, *expected, "{text:?}");
    }
}

#[test]
fn maps_are_asked_for_as_in_go() {
    check_map(&[
        ("a: 1", r#"{"a":1}"#),
        ("", "{}"),
        (
            "[1]",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            "x",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type map[string]interface {}",
        ),
        (
            "1",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type map[string]interface {}",
        ),
        (
            "true",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal bool into Go value of type map[string]interface {}",
        ),
        ("~", "{}"),
        ("a: b: c", "error converting YAML to JSON: yaml: mapping values are not allowed in this context"),
        (
            "{~: 1}",
            "error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>, value: 1",
        ),
        ("a: .inf", "error converting YAML to JSON: json: unsupported value: +Inf"),
        (
            "- a",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ]);
}

fn check_list(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let read = match from_slice_list(text.as_bytes()) {
            Ok(list) => json::to_string(&Data::List(list)).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, *expected, "{text:?}");
    }
}

#[test]
fn lists_are_asked_for_as_in_go() {
    check_list(&[
        (
            "a: 1",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go value of type []interface {}",
        ),
        ("", "[]"),
        ("[1]", "[1]"),
        (
            "x",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type []interface {}",
        ),
        (
            "1",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type []interface {}",
        ),
        (
            "true",
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal bool into Go value of type []interface {}",
        ),
        ("~", "[]"),
        ("a: b: c", "error converting YAML to JSON: yaml: mapping values are not allowed in this context"),
        (
            "{~: 1}",
            "error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>, value: 1",
        ),
        ("a: .inf", "error converting YAML to JSON: json: unsupported value: +Inf"),
        ("- a", r#"["a"]"#),
    ]);
}

#[test]
fn integers_stay_integers() {
    let data = from_slice(b"[1, 1.0, 9007199254740993]").unwrap();
    assert_eq!(data, Data::List(vec![Data::Int(1), Data::Float(1.0), Data::Int(9_007_199_254_740_993)]));
    let floats = from_slice_list(b"[1]").unwrap();
    assert_eq!(floats, [Data::Float(1.0)]);
}
