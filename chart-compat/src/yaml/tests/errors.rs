//! Errors. Expectations were recorded from sigs.k8s.io/yaml 1.6.0 with go-yaml v2 2.4.4.

use super::*;

fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(read(text), *expected, "{text:?}");
    }
}

#[test]
fn texts_are_go_yamls() {
    check(&[
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a:\n  b: 1\n c: 2", "yaml: line 2: did not find expected key"),
        ("a: 1\n b: 2", "yaml: line 2: mapping values are not allowed in this context"),
        ("- a\nb: 1", "yaml: line 1: did not find expected '-' indicator"),
        ("a: [1", "yaml: line 1: did not find expected ',' or ']'"),
        ("a: {b", "yaml: line 1: did not find expected ',' or '}'"),
        ("[1 2]", r#"["1 2"]"#),
        ("{a b}", r#"{"a b":null}"#),
        ("{a: 1 b: 2}", "yaml: did not find expected ',' or '}'"),
        ("a: ]", "yaml: did not find expected node content"),
        (r#"a: "x"#, "yaml: found unexpected end of stream"),
        ("a: 'x", "yaml: found unexpected end of stream"),
        ("a: 'x\n---\n'", "yaml: line 2: found unexpected document indicator"),
        ("\n\"\\q\"", "yaml: line 2: found unknown escape character"),
        (r#""\x4""#, "yaml: did not find expected hexdecimal number"),
        (r#""\ud800""#, "yaml: found invalid Unicode character escape code"),
        ("\n\n\"\\U00110000\"", "yaml: line 3: found invalid Unicode character escape code"),
        ("a\n\tb: 1", "yaml: line 2: mapping values are not allowed in this context"),
        ("a:\n\tb: 1", "yaml: line 2: found character that cannot start any token"),
        ("\tx", "yaml: found character that cannot start any token"),
        ("a: |\n \tx\n\n  y", "yaml: line 2: found a tab character where an indentation space is expected"),
        ("a: |0\n", "yaml: found an indentation indicator equal to 0"),
        ("a: |x\n", "yaml: did not find expected comment or line break"),
        ("a: @x", "yaml: found character that cannot start any token"),
        ("a: `x", "yaml: found character that cannot start any token"),
        ("a: %x", "yaml: found character that cannot start any token"),
        ("%x", "yaml: found unknown directive name"),
        ("%YAML 1.2\n---\n", "yaml: found incompatible YAML document"),
        ("%YAML 1.1\n%YAML 1.1\n---\n", "yaml: line 1: found duplicate %YAML directive"),
        ("%YAML 1\n---", "yaml: did not find expected digit or '.' character"),
        ("%YAML 111.1\n---\n", "yaml: found extremely long version number"),
        ("%FOO\n---\n", "yaml: found unknown directive name"),
        ("%TAG ! x\n%TAG ! y\n---\n", "yaml: line 1: found duplicate %TAG directive"),
        ("%TAG !e!\n", "yaml: did not find expected whitespace"),
        ("%TAG e x\n", "yaml: did not find expected '!'"),
        ("%YAML 1.1\na", "yaml: line 1: did not find expected <document start>"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("*", "yaml: did not find expected alphabetic or numeric character"),
        ("&", "yaml: did not find expected alphabetic or numeric character"),
        ("a: &x *x", "yaml: did not find expected key"),
        ("a: &!", "yaml: did not find expected alphabetic or numeric character"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("&x a: {<<: *x}", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: &x {<<: *x}", "yaml: anchor 'x' value contains itself"),
        ("!!int a: b", "yaml: cannot decode !!str `a` as a !!int"),
        ("!e!x a", "yaml: found undefined tag handle"),
        ("a: !<x", "yaml: did not find the expected '>'"),
        ("!a%zz b", "yaml: did not find URI escaped octet"),
        ("!a%ff b", "yaml: found an incorrect leading UTF-8 octet"),
        ("!a[ b", r#""b""#),
        ("!a{ b", "yaml: did not find expected whitespace or line break"),
        ("- a\n-b: 1", "yaml: line 1: did not find expected '-' indicator"),
        ("a\nb\nc: d", "yaml: line 3: mapping values are not allowed in this context"),
        ("a:\n- b\nc\n", "yaml: line 4: could not find expected ':'"),
        ("k: a\nx\ny: z", "yaml: line 3: could not find expected ':'"),
        ("? a\n? b\nc", "yaml: line 4: could not find expected ':'"),
        ("a: b\n: c\n- d", "yaml: line 1: did not find expected key"),
        ("- - a\n - b", "yaml: line 1: did not find expected '-' indicator"),
        ("key: - a", "yaml: block sequence entries are not allowed in this context"),
        ("a: ? b", "yaml: mapping keys are not allowed in this context"),
        (
            "x: {{ .Values.a }}",
            r#"yaml: invalid map key: map[interface {}]interface {}{".Values.a":interface {}(nil)}"#,
        ),
        ("{{ a }}: b", r#"yaml: invalid map key: map[interface {}]interface {}{"a":interface {}(nil)}"#),
        ("{[a]: b}", r#"yaml: invalid map key: []interface {}{"a"}"#),
        (
            "? {a: 1, b: [~, x]}\n: c",
            r#"yaml: invalid map key: map[interface {}]interface {}{"a":1, "b":[]interface {}{interface {}(nil), "x"}}"#,
        ),
        ("? [1, \"x\", 1.5, yes]\n: c", r#"yaml: invalid map key: []interface {}{1, "x", 1.5, true}"#),
        ("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"),
        (
            "null: {a: [~]}",
            r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: map[interface {}]interface {}{"a":[]interface {}{interface {}(nil)}}"#,
        ),
        (
            "18446744073709551615: x",
            r#"unsupported map key of type: uint64, key: 0xffffffffffffffff, value: "x""#,
        ),
        ("a: .nan", "json: unsupported value: NaN"),
        ("a: [1, -.inf]", "json: unsupported value: -Inf"),
        (".nan: 1", r#"{".nan":1}"#),
        ("<<: x", "yaml: map merge requires map or sequence of maps as the value"),
        ("<<: [[a]]", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: &a 1\n<<: *a", "yaml: map merge requires map or sequence of maps as the value"),
        ("<<: [{a: 1}, b]", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: \u{7}", "yaml: control characters are not allowed"),
        ("a\u{7f}", "yaml: control characters are not allowed"),
        ("\u{85}a: \u{80}", "yaml: control characters are not allowed"),
        (
            "k:\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n  x: 1\n\u{1}",
            "yaml: control characters are not allowed",
        ),
        (
            "}\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n# c\n\u{1}",
            "yaml: did not find expected node content",
        ),
        ("a: 1\n}", "yaml: line 1: did not find expected key"),
        ("a: 1\n,", "yaml: line 1: did not find expected key"),
        ("a: ,", "yaml: did not find expected node content"),
        ("...\na: b: c", "yaml: did not find expected node content"),
        (r#""a" b"#, r#""a""#),
        ("[a] b: c", "yaml: did not find expected key"),
        ("a: b\n\"c", "yaml: line 2: found unexpected end of stream"),
        ("-", "[null]"),
        ("--- -", "yaml: block sequence entries are not allowed in this context"),
        ("k: v\n- a", "yaml: line 1: did not find expected key"),
        ("  a: 1\nb: 2", r#"{"a":1}"#),
        ("a: {\n}\nb: c: d", "yaml: line 3: mapping values are not allowed in this context"),
        ("a: [\nb: [\n", "yaml: line 2: did not find expected node content"),
        (r#"a: "b" c"#, "yaml: did not find expected key"),
        ("a: |\n x\ny", "yaml: line 4: could not find expected ':'"),
        ("a:\n  - b\n - c", "yaml: line 2: did not find expected key"),
    ]);
}

#[test]
fn bytes_are_checked() {
    let cases: &[(&[u8], &str)] = &[
        (b"a: \xff", "yaml: invalid leading UTF-8 octet"),
        (b"a: \xc3", "yaml: incomplete UTF-8 octet sequence"),
        (b"a: \xc3(", "yaml: invalid trailing UTF-8 octet"),
        (b"a: \xc0\x80", "yaml: invalid length of a UTF-8 sequence"),
        (b"\xed\xa0\x80", "yaml: invalid Unicode character"),
        (b"a: \x80", "yaml: invalid leading UTF-8 octet"),
        (b"\xff\xfea\x00:\x00 \x001\x00", r#"{"a":1}"#),
        (b"\xfe\xff\x00a\x00:\x00 \xd8=\xde\x00", r#"{"a":"😀"}"#),
        (b"\xff\xfea\x00\x00\xd8x\x00", "yaml: expected low surrogate area"),
        (b"\xff\xfea\x00\x00\xdc", "yaml: unexpected low surrogate area"),
        (b"\xff\xfea", "yaml: incomplete UTF-16 character"),
        (b"\xff\xfe\x00\xd8", "yaml: incomplete UTF-16 surrogate pair"),
        (b"a: \x00", "yaml: control characters are not allowed"),
        (b"\xef\xbb\xbfa: 1", r#"{"a":1}"#),
    ];
    for (bytes, expected) in cases {
        let read = match from_slice(bytes) {
            Ok(data) => json::to_string(&data).unwrap(),
            Err(error) => error.to_string(),
        };
        assert_eq!(read, *expected, "{bytes:?}");
    }
}

/// An invalid byte is reported when its piece of 512 bytes is decoded; errors before that take precedence.
#[test]
fn bad_bytes_are_noticed_by_the_piece() {
    let text = |filling: usize| [b"x: ]\n#".as_slice(), &vec![b'#'; filling], b"\xff"].concat();
    let error = |filling| from_slice(&text(filling)).unwrap_err().to_string();
    assert_eq!(error(505), "yaml: invalid leading UTF-8 octet");
    assert_eq!(error(506), "yaml: did not find expected node content");
}

#[test]
fn true_lines_are_known() {
    let cases = [
        ("a: b: c", Some(1)),
        ("a:\n  b: 1\n c: 2", Some(3)),
        ("a: *x", Some(1)),
        ("a: .nan", None),
        ("a: [1", Some(1)),
        ("a: 1\nb: {\n", Some(2)),
        ("a: 1\nb: \"x", Some(2)),
    ];
    for (text, line) in cases {
        assert_eq!(from_slice(text.as_bytes()).unwrap_err().line(), line, "{text:?}");
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(from_slice(nested(1_000).as_bytes()).is_ok());
    for text in [nested(1_001), nested(9_999), "a: &a ".to_owned() + &nested(1_001)] {
        assert_eq!(read(&text), "yaml: exceeded max depth of 1000");
    }
    // The limits of the scanner are go-yaml's.
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
        assert_eq!(read(&text), "yaml: exceeded max depth of 10000");
    }
}

#[test]
fn aliases_are_bounded() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for i in 1..9 {
        text += &format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 9].join(", "));
    }
    assert_eq!(read(&text), "yaml: document contains excessive aliasing");
}

/// Few nodes, which go-yaml allows, and a gigabyte of text.
#[test]
fn what_aliases_copy_is_bounded() {
    const ALIASES: &str =
        "yaml: the aliases add more than 32 MiB to the document: repeat smaller values, or fewer of them";
    let text = "x".repeat(50_000);
    let hostile =
        |anchored: &str, list: &str| format!("a: &a {anchored}\nb: [{}]\n", vec![list; 2_000].join(", "));
    for document in [
        hostile(&text, "*a"),
        hostile(&format!("[{text}]"), "*a"),
        hostile(&format!("{{? {text} : 1}}"), "*a"),
        hostile(&format!("{{? {text} : 1}}"), "{<<: *a}"),
        hostile(&text, "{*a : 1}"),
        hostile(&format!("[{}]", vec!["{k: v}"; 25].join(", ")), "*a"),
        format!("- &a {text}\n- {{? [{}] : 1}}\n", vec!["*a"; 2_000].join(", ")),
    ] {
        let told = from_slice(document.as_bytes()).unwrap_err().to_string();
        assert_eq!(told, ALIASES, "{}", &document[..20]);
        let told = from_slice_strict(document.as_bytes()).unwrap_err().to_string();
        assert_eq!(told, ALIASES, "{}", &document[..20]);
        assert!(head(document.as_bytes()).unwrap_err().to_string().ends_with(ALIASES));
    }
    // Documents that are read together share what there is, and text without aliases takes none of it.
    let room = Room::default();
    let part = |count: usize| format!("a: &a {text}\nb: [{}]\n", vec!["*a"; count].join(", "));
    assert!(from_slice_within(part(400).as_bytes(), &room).is_ok());
    assert!(from_slice_within(format!("a: {}\n", "x".repeat(40 << 20)).as_bytes(), &room).is_ok());
    assert_eq!(room.exceeded(), None);
    assert!(from_slice_within(part(400).as_bytes(), &room).is_err());
    assert_eq!(room.exceeded(), Some(OutOfRoom::Aliases(32)));
    // With a bound for whole documents everything counts.
    for document in [format!("[{}]", "a, ".repeat(100)), "{a: 1}\n".to_owned(), part(10)] {
        let told = from_slice_within(document.as_bytes(), &Room::whole(700)).unwrap_err().to_string();
        assert_eq!(told, "yaml: the document takes more than 0 MiB of memory");
    }
}

/// Without an alias: a map of three bytes takes 700.
#[test]
fn what_nodes_take_is_bounded() {
    const TOLD: &str = "the document takes more than 8 MiB of memory";
    let maps = format!("[{}]", "{},".repeat(60_000));
    let pairs = "- a: 1\n".repeat(20_000);
    let room = || Room::of_nodes(8 << 20);
    for document in [&maps, &pairs] {
        let told = from_slice_within(document.as_bytes(), &room()).unwrap_err().to_string();
        assert!(told.ends_with(TOLD), "{told}");
        assert!(from_slice_map_within(document.as_bytes(), &room()).unwrap_err().to_string().contains(TOLD));
        let told = tree::read_all_within(document, &room()).unwrap_err().to_string();
        assert!(told.ends_with(TOLD), "{told}");
        let told = crate::kyaml::read_resolved(document, &room()).unwrap_err().to_string();
        assert!(told.ends_with(TOLD), "{told}");
        // Who keeps nothing may read all of it.
        assert!(count_nodes(document.as_bytes()) > 60_000);
    }
    // Documents that are read together share it.
    let (room, half) = (room(), "- a: 1\n".repeat(8_000));
    assert!(from_slice_within(half.as_bytes(), &room).is_ok());
    assert_eq!(room.exceeded(), None);
    assert!(from_slice_within(half.as_bytes(), &room).is_err());
    assert_eq!(room.exceeded(), Some(OutOfRoom::Whole(8)));
}

#[test]
fn long_lines_take_linear_time() {
    // With quadratic run time a text of a megabyte would not finish within the test run.
    let text = format!("{{\"é\": [{}]}}", "\"ü\", ".repeat(150_000));
    assert!(from_slice(text.as_bytes()).is_ok());
}
