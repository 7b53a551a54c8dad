//! Lines and the values that they set in an empty tree. Expectations were recorded from Helm 4.3.1.

use super::*;

type Parse = fn(&mut Map, &str) -> Result<(), Error>;

/// The values that a line sets, as JSON, or the error.
fn parsed(parse: Parse, base: &str, line: &str) -> String {
    let mut values = json::from_slice_map(base.as_bytes()).unwrap();
    match parse(&mut values, line) {
        Ok(()) => json::to_string(&Data::Map(values)).unwrap(),
        Err(error) => error.to_string(),
    }
}

fn check(parse: Parse, cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        assert_eq!(parsed(parse, "{}", line), *expected, "{line}");
    }
}

#[test]
fn set_follows_the_grammar() {
    check(
        parse_into,
        &[
            ("a=1", "{\"a\":1}"),
            ("a=1.5", "{\"a\":\"1.5\"}"),
            ("a=01", "{\"a\":\"01\"}"),
            ("a=0", "{\"a\":0}"),
            ("a=+1", "{\"a\":1}"),
            ("a=-1", "{\"a\":-1}"),
            ("a=true", "{\"a\":true}"),
            ("a=False", "{\"a\":false}"),
            ("a=NULL", "{\"a\":null}"),
            ("a=", "{\"a\":\"\"}"),
            ("a", "key \"a\" has no value"),
            ("a,", "key \"a\" has no value (cannot end with ,)"),
            ("a=1,", "{\"a\":1}"),
            ("=1", "{}"),
            (".a=1", "{}"),
            ("a..b=1", "key map \"a\" has no value"),
            ("a.b.c=x,a.b.d=y", "{\"a\":{\"b\":{\"c\":\"x\",\"d\":\"y\"}}}"),
            ("a\\.b=c\\,d", "{\"a.b\":\"c,d\"}"),
            ("a=\\t", "{\"a\":\"t\"}"),
            ("a=b=c", "{\"a\":\"b=c\"}"),
            ("a= x ", "{\"a\":\" x \"}"),
            ("a={1,b, c,null}", "{\"a\":[1,\"b\",\" c\",null]}"),
            ("a={}", "{\"a\":[\"\"]}"),
            ("a={1", "list must terminate with '}'"),
            ("a={1}b=2", "{\"a\":[1],\"b\":2}"),
            ("a={{1,2},3}", "key \"3}\" has no value"),
            ("a[1]=x", "{\"a\":[null,\"x\"]}"),
            ("a[0][1]=x", "{\"a\":[[null,\"x\"]]}"),
            ("a[0].b=x,a[0].c=y", "{\"a\":[{\"b\":\"x\",\"c\":\"y\"}]}"),
            ("a[0]", "{\"a\":[]}"),
            ("a[-1]=x", "negative -1 index not allowed"),
            ("a[x]=1", "error parsing index: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("a[70000]=1", "index of 70000 is greater than maximum supported index of 65536"),
            ("a[0", "{}"),
            ("a[0]x=1", "unexpected data at end of array index: ['x']"),
            (
                "a=1,a.b=2",
                "unable to parse key: interface conversion: interface {} is int64, not map[string]interface {}",
            ),
            (
                "a=1,a[0]=2",
                "unable to parse key: interface conversion: interface {} is int64, not []interface {}",
            ),
            ("a={1,2},a[1]=3", "{\"a\":[1,3]}"),
            ("a[0]=1,a[0].b=2", "{\"a\":[{\"b\":2}]}"),
            (
                "a=9223372036854775807,b=9223372036854775808",
                "{\"a\":9223372036854775807,\"b\":\"9223372036854775808\"}",
            ),
            ("é=ü", "{\"é\":\"ü\"}"),
            (
                "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.b=1",
                "value name nested level is greater than maximum supported nested level of 30",
            ),
        ],
    );
}

#[test]
fn set_string_follows_the_grammar() {
    check(
        parse_into_string,
        &[
            ("a=1", "{\"a\":\"1\"}"),
            ("a=null,b=", "{\"a\":\"null\",\"b\":\"\"}"),
            ("a={1,x}", "{\"a\":[\"1\",\"x\"]}"),
            ("a[1]=1", "{\"a\":[null,\"1\"]}"),
        ],
    );
}

#[test]
fn set_json_follows_the_grammar() {
    check(
        parse_json,
        &[
            ("a=1", "{\"a\":1}"),
            ("a={\"b\":[1,2]},c=3", "{\"a\":{\"b\":[1,2]},\"c\":3}"),
            ("a=", "{\"a\":null}"),
            ("a= ,b=1", "{\"a\":null,\"b\":1}"),
            ("a=\"x\" , b=null", "{\" b\":null,\"a\":\"x\"}"),
            ("a=1e3", "{\"a\":1000}"),
            ("a={\"b\":1", "unexpected EOF"),
            ("a=x", "invalid character 'x' looking for beginning of value"),
            ("a[1]={\"k\":true}", "{\"a\":[null,{\"k\":true}]}"),
            ("a=[1,2] b=3", "{\"a\":[1,2],\"b\":3}"),
            ("a=1e400", "json: cannot unmarshal number 1e400 into Go value of type float64"),
        ],
    );
}

#[test]
fn set_literal_follows_the_grammar() {
    check(
        parse_literal,
        &[
            ("a=1", "{\"a\":\"1\"}"),
            ("a=x,b={1}\\n", "{\"a\":\"x,b={1}\\\\n\"}"),
            ("a.b=c=d", "{\"a\":{\"b\":\"c=d\"}}"),
            ("a[1].b=x", "{\"a\":[null,{\"b\":\"x\"}]}"),
            ("a\\.b=c", "{\"a\\\\\":{\"b\":\"c\"}}"),
            ("a", "key \"a\" has no value"),
            ("a=", "{\"a\":\"\"}"),
            ("a[0]x=1", "unexpected data at end of array index: ['x']"),
        ],
    );
}

#[test]
fn set_works_on_what_is_there() {
    let base = r#"{"a":[1,{"b":3}],"s":"x","m":{"n":null}}"#;
    for (line, expected) in [
        ("a[1].b=4", r#"{"a":[1,{"b":4}],"m":{"n":null},"s":"x"}"#),
        ("a[0].b=4", r#"{"a":[{"b":4},{"b":3}],"m":{"n":null},"s":"x"}"#),
        ("m.o=1", r#"{"a":[1,{"b":3}],"m":{"n":null,"o":1},"s":"x"}"#),
        (
            "s.t=1",
            "unable to parse key: interface conversion: interface {} is string, not map[string]interface {}",
        ),
        (
            "m.n.o=1",
            "unable to parse key: interface conversion: interface {} is nil, not map[string]interface {}",
        ),
        (
            "m[0]=1",
            "unable to parse key: interface conversion: interface {} is map[string]interface {}, not []interface {}",
        ),
    ] {
        assert_eq!(parsed(parse_into, base, line), expected, "{line}");
    }
}

#[test]
fn set_file_asks_for_each_value() {
    let mut values = Map::new();
    let mut read = |path: &str| {
        if path == "gone" { Err(format!("no {path}")) } else { Ok(Data::from(format!("({path})"))) }
    };
    parse_file(&mut values, "a=x,b={y,z}", &mut read).unwrap();
    let error = parse_file(&mut values, "c=gone", &mut read).unwrap_err();
    assert_eq!(error.to_string(), "no gone");
    assert_eq!(json::to_string(&Data::Map(values)).unwrap(), r#"{"a":"(x)","b":["(y)","(z)"],"c":null}"#);
}

#[test]
fn brackets_are_bounded() {
    let line = format!("a{}=1", "[0]".repeat(100_000));
    assert!(parsed(parse_into, "{}", &line).starts_with("index nested level is greater"));
    assert!(parsed(parse_literal, "{}", &line).starts_with("index nested level is greater"));
}
