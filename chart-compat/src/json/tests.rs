//! Decoding and encoding. Expectations were recorded from Go 1.26's `encoding/json`.

use super::*;
use crate::data::Map;

#[test]
fn reading() {
    let cases = [
        ("", "unexpected end of JSON input"),
        ("-", "invalid character ' ' in numeric literal"),
        ("1", "1"),
        ("01", "invalid character '1' after top-level value"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1.5", "1.5"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("1e+", "invalid character ' ' in exponent of numeric literal"),
        ("1e5", "100000"),
        ("1e400", "json: cannot unmarshal number 1e400 into Go value of type float64"),
        ("[1e400]", "json: cannot unmarshal number 1e400 into Go value of type float64"),
        ("-0", "-0"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("true", "true"),
        ("trux", "invalid character 'x' in literal true (expecting 'e')"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
        ("falsx", "invalid character 'x' in literal false (expecting 'e')"),
        (r#""a"#, "unexpected end of JSON input"),
        (r#""a\"#, "invalid character ' ' in string escape code"),
        (r#""\x""#, "invalid character 'x' in string escape code"),
        (r#""\u12"#, r"invalid character ' ' in \u hexadecimal character escape"),
        (r#""\u12x4""#, r"invalid character 'x' in \u hexadecimal character escape"),
        (r#""\ud800""#, r#""�""#),
        (r#""\ud83d\ude00""#, r#""😀""#),
        (r#""\ud800\u0041""#, r#""�A""#),
        (r#""\udc00""#, r#""�""#),
        ("\"\t\"", r"invalid character '\t' in string literal"),
        ("[", "unexpected end of JSON input"),
        ("[1", "unexpected end of JSON input"),
        ("[1 2]", "invalid character '2' after array element"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("[,]", "invalid character ',' looking for beginning of value"),
        ("{", "unexpected end of JSON input"),
        (r#"{"a""#, "unexpected end of JSON input"),
        (r#"{"a" 1}"#, "invalid character '1' after object key"),
        (r#"{"a":"#, "unexpected end of JSON input"),
        (r#"{"a":1"#, "unexpected end of JSON input"),
        (r#"{"a":1 "b"}"#, r#"invalid character '"' after object key:value pair"#),
        (r#"{"a":1,}"#, "invalid character '}' looking for beginning of object key string"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("x", "invalid character 'x' looking for beginning of value"),
        ("'a'", r"invalid character '\'' looking for beginning of value"),
        (r#"""#, "unexpected end of JSON input"),
        ("1 2", "invalid character '2' after top-level value"),
        ("[] x", "invalid character 'x' after top-level value"),
        (r#" [ 1 , { "a" : null } ] "#, r#"[1,{"a":null}]"#),
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        ("é", "invalid character 'Ã' looking for beginning of value"),
        (r#"{"b":1,"a":"\/"}"#, r#"{"a":"/","b":1}"#),
    ];
    for (text, expected) in cases {
        let read = match from_slice(text.as_bytes()) {
            Ok(data) => to_string(&data).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{text:?}");
    }
}

#[test]
fn reading_maps() {
    let cases = [
        (r#"{"a":1}"#, r#"{"a":1}"#),
        ("null", "{}"),
        ("[]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("1", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        ("1e400", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
        (r#""x""#, "json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ("true", "json: cannot unmarshal bool into Go value of type map[string]interface {}"),
        (r#"{"a":1e400}"#, "json: cannot unmarshal number 1e400 into Go value of type float64"),
        ("{", "unexpected end of JSON input"),
    ];
    for (text, expected) in cases {
        let read = match from_slice_map(text.as_bytes()) {
            Ok(map) => to_string(&Data::Map(map)).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, expected, "{text:?}");
    }
}

#[test]
fn reading_lists() {
    assert_eq!(from_slice_list(b"[1]"), Ok(vec![Data::Float(1.0)]));
    let error = from_slice_list(b"{}").unwrap_err();
    assert_eq!(error.to_string(), "json: cannot unmarshal object into Go value of type []interface {}");
}

#[test]
fn the_first_value_of_a_stream() {
    assert_eq!(first_value(b" 1,x"), Ok((Data::Float(1.0), 2)));
    assert_eq!(
        first_value(b"{\"a\":[]} x"),
        Ok((Data::Map(Map::from([("a".to_owned(), Data::List(vec![]))])), 8))
    );
    assert_eq!(first_value(b"1x"), Ok((Data::Float(1.0), 1)));
    assert_eq!(first_value(b"[1"), Err(Error::UnexpectedEof));
    assert_eq!(first_value(b"-"), Err(Error::UnexpectedEof));
    assert_eq!(first_value(b" "), Err(Error::Eof));
}

#[test]
fn invalid_bytes_are_replaced_one_by_one() {
    assert_eq!(from_slice(b"\"a\xff\xe2\x80b\""), Ok(Data::from("a\u{fffd}\u{fffd}\u{fffd}b")));
    let mut out = String::new();
    Writer::new(&mut out).bytes(b"a\xff\xe2\x80b");
    assert_eq!(out, r#""a\ufffd\ufffd\ufffdb""#);
}

#[test]
fn depth_is_bounded() {
    assert!(from_slice(format!("{}{}", "[".repeat(1_000), "]".repeat(1_000)).as_bytes()).is_ok());
    let error = from_slice("[".repeat(100_000).as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "invalid character '[' exceeded max depth");
}

#[test]
fn writing() {
    let data =
        from_slice(r#"{"b":[1,{"c":"<a>& \u2028\u0001\b\f\n\"\\"},[],{}],"a":null}"#.as_bytes()).unwrap();
    assert_eq!(
        to_string(&data).unwrap(),
        r#"{"a":null,"b":[1,{"c":"\u003ca\u003e\u0026 \u2028\u0001\b\f\n\"\\"},[],{}]}"#
    );
    assert_eq!(
        to_string_raw(&data).unwrap(),
        r#"{"a":null,"b":[1,{"c":"<a>& \u2028\u0001\b\f\n\"\\"},[],{}]}"#
    );
    let indented =
        "{\n  \"a\": null,\n  \"b\": [\n    1,\n    {\n      \"c\": \"x\"\n    },\n    [],\n    {}\n  ]\n}";
    let data = from_slice(indented.as_bytes()).unwrap();
    assert_eq!(to_string_pretty(&data).unwrap(), indented);
}

#[test]
fn writing_numbers() {
    for (value, text) in [
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.5e300, "1.5e+300"),
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (1.5e-10, "1.5e-10"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (100.0, "100"),
        (123456789.123, "123456789.123"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
    ] {
        assert_eq!(to_string(&Data::Float(value)).unwrap(), text);
    }
    assert_eq!(to_string(&Data::Int(i64::MIN)).unwrap(), i64::MIN.to_string());
    let error = to_string(&Data::List(vec![Data::Float(f64::NAN)])).unwrap_err();
    assert_eq!(error.to_string(), "json: unsupported value: NaN");
}
