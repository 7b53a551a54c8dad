//! The formatting of names, values and numbers in messages of Helm's validator, which are in English.

use super::json::Json;
use crate::go::strconv::{self, Shortest};

/// Text in single quotes.
pub(super) fn quote(text: &str) -> String {
    let quoted = strconv::quote(text.as_bytes());
    let inner = &quoted[1..quoted.len() - 1];
    format!("'{}'", inner.replace("\\\"", "\"").replace('\'', "\\'"))
}

/// Names in single quotes, joined by commas.
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(quote).collect();
    names.join(", ")
}

/// A scalar value.
pub(super) fn value(value: &Json) -> String {
    match value {
        Json::Null => "<nil>".to_owned(),
        Json::Bool(b) => b.to_string(),
        Json::Number(n) => n.to_string(),
        Json::String(s) => quote(s),
        Json::List(_) | Json::Map(_) => "value".to_owned(),
    }
}

/// A count with a comma before every three digits.
pub(super) fn count(n: impl Into<i128>) -> String {
    let n = n.into();
    let digits = grouped(&n.unsigned_abs().to_string());
    if n < 0 { format!("-{digits}") } else { digits }
}

/// How many there are.
pub(super) fn length(n: usize) -> String {
    grouped(&n.to_string())
}

fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats a number: with commas if it is of moderate size, else with a power of ten in superscript, of two digits at least.
pub(super) fn number(literal: &str) -> String {
    let Ok(value) = strconv::parse_float(literal) else { return literal.to_owned() };
    if value == 0.0 {
        return "0".to_owned();
    }
    let exponent = Shortest::of(value).exponent();
    let mut plain = String::new();
    if (-4..6).contains(&exponent) {
        Shortest::of(value).write_decimal(&mut plain);
        let (sign, body) = plain.strip_prefix('-').map_or(("", plain.as_str()), |b| ("-", b));
        let (whole, fraction) = body.find('.').map_or((body, ""), |at| body.split_at(at));
        return format!("{sign}{}{fraction}", grouped(whole));
    }
    Shortest::of(value).write_scientific(&mut plain, 2);
    let (mantissa, power) = plain.split_once('e').unwrap_or((&plain, "0"));
    let raised: String = power
        .chars()
        .filter_map(|c| match c {
            '-' => Some('⁻'),
            '1' => Some('¹'),
            '2' => Some('²'),
            '3' => Some('³'),
            '0' | '4'..='9' => char::from_u32(u32::from('⁰') + u32::from(c) - u32::from('0')),
            _ => None,
        })
        .collect();
    format!("{mantissa}×10{raised}")
}
