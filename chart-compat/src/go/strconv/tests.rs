//! Numbers and quotes. Expectations were recorded from Go 1.26.

use super::*;

#[test]
fn integers() {
    let cases = [
        ("0", "0"),
        ("-0", "0"),
        ("+5", "5"),
        ("010", "8"),
        ("0x1F", "31"),
        ("-0x10", "-16"),
        ("0o17", "15"),
        ("0b101", "5"),
        ("0B1", "1"),
        ("1_000", "1000"),
        ("0x_1", "1"),
        ("0_7", "7"),
        ("1__0", "invalid syntax"),
        ("_1", "invalid syntax"),
        ("1_", "invalid syntax"),
        ("08", "invalid syntax"),
        ("0x", "invalid syntax"),
        ("0b2", "invalid syntax"),
        ("", "invalid syntax"),
        ("+", "invalid syntax"),
        ("-", "invalid syntax"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "value out of range"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "value out of range"),
        ("99999999999999999999x", "value out of range"),
        ("１", "invalid syntax"),
    ];
    for (text, expected) in cases {
        let shown = parse_int(text, 0).map_or_else(|error| error.to_string(), |value| value.to_string());
        assert_eq!(shown, expected, "{text:?}");
    }
    assert_eq!(parse_int("010", 10), Ok(10));
    assert_eq!(parse_int("1_0", 10), Err(NumError::Syntax));
    assert_eq!(parse_uint("18446744073709551615", 0), Ok(u64::MAX));
    assert_eq!(parse_uint("18446744073709551616", 0), Err(NumError::Range));
    assert_eq!(parse_uint("+1", 0), Err(NumError::Syntax));
}

/// Each number: `%v` of a `float64`, then formatted with 32 and with 64 bits.
#[test]
fn floats() {
    let cases = [
        ("0", "0 0 0"),
        ("-0", "-0 -0 -0"),
        ("1", "1 1 1"),
        ("1.50", "1.5 1.5 1.5"),
        ("1e6", "1e+06 1e+06 1e+06"),
        ("123456", "123456 123456 123456"),
        ("1234567", "1.234567e+06 1.234567e+06 1.234567e+06"),
        ("1e-4", "0.0001 0.0001 0.0001"),
        ("1e-5", "1e-05 1e-05 1e-05"),
        ("1e21", "1e+21 1e+21 1e+21"),
        ("1e308", "1e+308 +Inf 1e+308"),
        ("1e309", "value out of range"),
        ("-1e309", "value out of range"),
        ("5e-324", "5e-324 0 5e-324"),
        ("1e-400", "0 0 0"),
        ("0.1", "0.1 0.1 0.1"),
        (".5", "0.5 0.5 0.5"),
        ("5.", "5 5 5"),
        (".", "invalid syntax"),
        ("1e", "invalid syntax"),
        ("1_000", "1000 1000 1000"),
        ("1__0", "invalid syntax"),
        ("0x1p-2", "0.25 0.25 0.25"),
        ("0x1.8p1", "3 3 3"),
        ("0x.8p0", "0.5 0.5 0.5"),
        ("0x1", "invalid syntax"),
        ("0x1p", "invalid syntax"),
        ("0x1p1024", "value out of range"),
        ("0x1p-1074", "5e-324 0 5e-324"),
        ("0x1p-1075", "0 0 0"),
        ("0x1.8p-1074", "1e-323 0 1e-323"),
        ("0x1_0p0", "16 16 16"),
        ("-0X1P3", "-8 -8 -8"),
        ("inf", "+Inf +Inf +Inf"),
        ("-Infinity", "-Inf -Inf -Inf"),
        ("+INF", "+Inf +Inf +Inf"),
        ("nan", "NaN NaN NaN"),
        ("-nan", "invalid syntax"),
        ("infin", "invalid syntax"),
        ("1.7976931348623159e308", "value out of range"),
        ("653867101181780.25", "6.538671011817802e+14 6.538671e+14 6.538671011817802e+14"),
        ("588708010163381.25", "5.887080101633812e+14 5.88708e+14 5.887080101633812e+14"),
        ("16777217", "1.6777217e+07 1.6777216e+07 1.6777217e+07"),
        ("0x1fffffffffffff8p0", "1.4411518807585587e+17 1.4411519e+17 1.4411518807585587e+17"),
        ("0x1fffffffffffffcp0", "1.4411518807585587e+17 1.4411519e+17 1.4411518807585587e+17"),
        ("0x1.fffffffffffff8p1023", "value out of range"),
        ("0x1.fffffffffffff7p1023", "1.7976931348623157e+308 +Inf 1.7976931348623157e+308"),
        ("x", "invalid syntax"),
        ("1e5x", "invalid syntax"),
        ("1 ", "invalid syntax"),
    ];
    for (text, expected) in cases {
        let shown = match parse_float(text) {
            Ok(value) => {
                format!("{} {} {}", format_float(value), format_float_32(value), format_float(value))
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(shown, expected, "{text:?}");
    }
}

#[test]
fn quotes() {
    // Each text, followed by its `Quote` and its `QuoteToASCII`.
    let cases: &[(&[u8], &str)] = &[
(b"a\x22b\x5c", r#""a\"b\\""a\"b\\""#),
(b"it's", r#""it's""it's""#),
(b"\x00\x07\x08\x09\n\x0b\x0c\x0d\x1b\x7f", r#""\x00\a\b\t\n\v\f\r\x1b\x7f""\x00\a\b\t\n\v\f\r\x1b\x7f""#),
(b"\xc3\xa9\xc2\xa0\xc2\xad\xe2\x80\x8b\xe2\x80\xa8\xe6\x97\xa5\xf0\x9f\x98\x80\xef\xbb\xbf\xef\xbf\xbd\xf3\xa0\x80\x81\xee\x80\x80", r#""é\u00a0\u00ad\u200b\u2028日😀\ufeff�\U000e0001\ue000""\u00e9\u00a0\u00ad\u200b\u2028\u65e5\U0001f600\ufeff\ufffd\U000e0001\ue000""#),
(b"\xff\xc3(\xe2\x80", r#""\xff\xc3(\xe2\x80""\xff\xc3(\xe2\x80""#),
(b"", r#""""""#),
    ];
    for (text, expected) in cases {
        assert_eq!(quote(text) + &quote_to_ascii(text), *expected);
    }
    assert_eq!(quote_rune('\''), r"'\''");
    assert_eq!(quote_rune('"'), "'\"'");
    assert_eq!(quote_rune('\n'), r"'\n'");
    assert_eq!(quote_byte(0xE9), "'é'");
    assert_eq!(quote_byte(0x80), r"'\u0080'");
}
