//! Numeric constants of templates (`parse.newNumber`) and Go's string literals (`strconv.Unquote`).

use super::ast::Number;
use crate::go::fmt::decode;

/// A decimal number of up to nine digits. A leading zero is excluded: Go reads it as octal.
pub(super) fn small(text: &[u8]) -> Option<u32> {
    let digits = (1..=9).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    let plain = digits && (text.len() == 1 || text.first() != Some(&b'0'));
    plain.then(|| text.iter().fold(0, |all, digit| all * 10 + u32::from(digit - b'0')))
}

/// The digits without underscores and base prefix, and the base.
fn radix(text: &str) -> (String, u32) {
    let (prefix, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (2, 16),
        [b'0', b'o' | b'O', ..] => (2, 8),
        [b'0', b'b' | b'B', ..] => (2, 2),
        [b'0', _, ..] => (1, 8),
        _ => (0, 10),
    };
    (text[prefix..].replace('_', ""), base)
}

fn underscores_ok(text: &str) -> bool {
    let b = text.as_bytes();
    let based = b.len() > 1 && b[0] == b'0';
    b.iter().enumerate().filter(|(_, c)| **c == b'_').all(|(i, _)| {
        let before = i > 0 && (b[i - 1].is_ascii_hexdigit() || based && i == 2);
        before && b.get(i + 1).is_some_and(u8::is_ascii_hexdigit)
    })
}

fn parse_uint(text: &str) -> Option<u64> {
    let (digits, base) = radix(text);
    (underscores_ok(text) && !digits.starts_with(['+', '-']))
        .then(|| u64::from_str_radix(&digits, base).ok())
        .flatten()
}

fn parse_int(text: &str) -> Option<i64> {
    match text.as_bytes().first() {
        Some(b'-') => {
            let n = parse_uint(&text[1..])?;
            if n == 1 << 63 { Some(i64::MIN) } else { i64::try_from(n).ok().map(|n| -n) }
        }
        Some(b'+') => parse_uint(&text[1..]).and_then(|n| i64::try_from(n).ok()),
        _ => parse_uint(text).and_then(|n| i64::try_from(n).ok()),
    }
}

fn parse_hex_float(text: &str) -> Option<f64> {
    let (sign, body) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    let body = body.strip_prefix("0x").or_else(|| body.strip_prefix("0X"))?;
    let (mantissa, exp) = body.split_once(['p', 'P'])?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut value = 0.0f64;
    for d in whole.chars().chain(fraction.chars()).filter(|c| *c != '_') {
        value = value * 16.0 + f64::from(d.to_digit(16)?);
    }
    let exp: i32 = exp.parse().ok()?;
    let shift = exp - 4 * i32::try_from(fraction.chars().filter(|c| *c != '_').count()).ok()?;
    Some(sign * value * 2f64.powi(shift))
}

fn parse_float(text: &str) -> Option<f64> {
    if text.contains(['x', 'X']) {
        return parse_hex_float(text);
    }
    if !underscores_ok(text) && text.contains('_') {
        return None;
    }
    let plain = text.replace('_', "");
    let rest = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    if !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    plain.parse().ok()
}

/// Real and imaginary part of a constant without its `i`, e.g. `1`, `1+2`, `-1.5e3-2`.
fn complex(text: &str) -> Option<(f64, f64)> {
    let sign = text.char_indices().skip(1).filter(|(i, c)| {
        matches!(c, '+' | '-') && !matches!(text.as_bytes()[i - 1], b'e' | b'E' | b'p' | b'P')
    });
    match sign.last() {
        Some((i, _)) => Some((parse_float(&text[..i])?, parse_float(&text[i..])?)),
        None => Some((0.0, parse_float(text)?)),
    }
}

/// Parses a number token. The error is the text after Go's position prefix.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(super) fn number(text: &str, char_constant: bool) -> Result<Number, String> {
    let mut n = Number { int: None, uint: None, float: None, complex: None, text: text.into() };
    if char_constant {
        let inner = &text.as_bytes()[1..text.len() - 1];
        let runes = unquote_body(inner, b'\'').and_then(|b| String::from_utf8(b).ok());
        let mut chars = runes.as_deref().unwrap_or("").chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) => {
                let code = u32::from(c);
                n.int = Some(i64::from(code));
                n.uint = Some(u64::from(code));
                n.float = Some(f64::from(code));
                return Ok(n);
            }
            _ => return Err(format!("malformed character constant: {text}")),
        }
    }
    if let Some(parts) = text.strip_suffix('i') {
        let (re, im) = complex(parts).ok_or_else(|| {
            format!("illegal number syntax: {}", crate::go::strconv::quote(text.as_bytes()))
        })?;
        n.complex = Some((re, im));
        if im == 0.0 {
            n.float = Some(re);
        }
        return Ok(n);
    }
    n.uint = parse_uint(text);
    n.int = parse_int(text);
    if n.int == Some(0) {
        n.uint = Some(0);
    }
    if let Some(i) = n.int {
        n.float = Some(i as f64);
    } else if let Some(u) = n.uint {
        n.float = Some(u as f64);
    } else if let Some(f) = parse_float(text) {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {}", crate::go::strconv::quote(text.as_bytes())));
        }
        n.float = Some(f);
        if f.trunc() == f && f.abs() < 9.3e18 {
            n.int = Some(f as i64);
            n.uint = (f >= 0.0).then_some(f as u64);
        }
    }
    if n.int.is_none() && n.uint.is_none() && n.float.is_none() {
        return Err(format!("illegal number syntax: {}", crate::go::strconv::quote(text.as_bytes())));
    }
    Ok(n)
}

/// The value of a quoted or raw string token; `None` is Go's "invalid syntax".
pub(super) fn unquote(token: &[u8]) -> Option<Vec<u8>> {
    let inner = &token[1..token.len() - 1];
    if token[0] == b'`' {
        return Some(inner.iter().copied().filter(|c| *c != b'\r').collect());
    }
    unquote_body(inner, b'"')
}

fn unquote_body(s: &[u8], quote: u8) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(s.len());
    let mut i = 0;
    while i < s.len() {
        let c = s[i];
        i += 1;
        if c != b'\\' {
            if c == quote || c == b'\n' {
                return None;
            }
            // Runes are copied one by one; each byte that is not valid UTF-8 becomes U+FFFD.
            let (rune, size) = decode(&s[i - 1..]);
            out.extend_from_slice(rune.encode_utf8(&mut [0; 4]).as_bytes());
            i += size - 1;
            continue;
        }
        let e = *s.get(i)?;
        i += 1;
        let mut digits = |n: usize, base: u32| -> Option<u32> {
            let text = std::str::from_utf8(s.get(i..i + n)?).ok()?;
            i += n;
            text.bytes()
                .all(|c| char::from(c).is_digit(base))
                .then(|| u32::from_str_radix(text, base).ok())?
        };
        match e {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'\\' => out.push(b'\\'),
            b'\'' | b'"' if e == quote => out.push(e),
            b'x' => out.push(u8::try_from(digits(2, 16)?).ok()?),
            b'u' => out.extend_from_slice(char::from_u32(digits(4, 16)?)?.to_string().as_bytes()),
            b'U' => out.extend_from_slice(char::from_u32(digits(8, 16)?)?.to_string().as_bytes()),
            b'0'..=b'7' => {
                let rest = digits(2, 8)?;
                out.push(u8::try_from(u32::from(e - b'0') * 64 + rest).ok()?);
            }
            _ => return None,
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_numbers_are_what_they_are_the_long_way() {
        for text in ["0", "7", "10", "65536", "999999999"] {
            let value = small(text.as_bytes()).unwrap();
            let n = number(text, false).unwrap();
            assert_eq!((n.int, n.float), (Some(i64::from(value)), Some(f64::from(value))), "{text}");
        }
        for text in ["", "00", "010", "-1", "+1", "1_0", "1.0", "1e3", "0x1", "1i", "'a'", "1000000000"] {
            assert_eq!(small(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_become_one_rune_each_unless_the_string_is_raw_or_escapes_them() {
        let table: [(&[u8], &[u8]); 4] = [
            (b"\"a\xff\xfeb\"", "a\u{fffd}\u{fffd}b".as_bytes()),
            (b"\"\xc3\xa9\xe2\x80\\n\"", "é\u{fffd}\u{fffd}\n".as_bytes()),
            (b"\"\\xff\"", b"\xff"),
            (b"`a\xff\r`", b"a\xff"),
        ];
        for (token, want) in table {
            assert_eq!(unquote(token).as_deref(), Some(want), "{token:?}");
        }
    }
}
