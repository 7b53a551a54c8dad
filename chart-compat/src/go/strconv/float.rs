//! Floating-point numbers.

use std::fmt::{self, Write};

use super::{NumError, underscores_ok};

/// Go's `strconv.ParseFloat(text, 64)`: decimal and hexadecimal numbers, infinities and `nan`.
///
/// # Errors
/// If the text is not a number, or exceeds the largest `f64`.
pub(crate) fn parse_float(text: &str) -> Result<f64, NumError> {
    let body = text.strip_prefix(['+', '-']).unwrap_or(text);
    if body.len() > 1 && body.as_bytes().get(..2).is_some_and(|p| p.eq_ignore_ascii_case(b"0x")) {
        return parse_hex(text, body.get(2..).unwrap_or_default());
    }
    let without;
    let digits = if text.contains('_') {
        if !underscores_ok(text.as_bytes()) {
            return Err(NumError::Syntax);
        }
        without = text.replace('_', "");
        without.as_str()
    } else {
        text
    };
    // Rust's grammar of decimal numbers equals Go's; only overflow must be detected.
    let value: f64 = digits.parse().map_err(|_| NumError::Syntax)?;
    if value.is_infinite() && body.bytes().any(|b| b.is_ascii_digit()) {
        return Err(NumError::Range);
    }
    // Go does not allow a sign before `nan`.
    if value.is_nan() && body.len() != text.len() {
        return Err(NumError::Syntax);
    }
    Ok(value)
}

/// Parses the part of a hexadecimal number after `0x`, e.g. `0x1.8p-3`. The exponent is mandatory.
fn parse_hex(text: &str, body: &str) -> Result<f64, NumError> {
    if body.contains('_') && !underscores_ok(text.as_bytes()) {
        return Err(NumError::Syntax);
    }
    let (mantissa, exponent) = body.split_once(['p', 'P']).ok_or(NumError::Syntax)?;
    let mut bits: u64 = 0;
    let mut shift: i64 = 0;
    let (mut digits, mut point) = (0_usize, false);
    for b in mantissa.bytes() {
        match char::from(b).to_digit(16) {
            Some(digit) => {
                digits += 1;
                if bits >> 60 == 0 {
                    bits = bits << 4 | u64::from(digit);
                    shift -= if point { 4 } else { 0 };
                } else {
                    // Digits that do not fit only affect rounding.
                    bits |= u64::from(digit != 0);
                    shift += if point { 0 } else { 4 };
                }
            }
            None if b == b'_' => {}
            None if b == b'.' && !point => point = true,
            None => return Err(NumError::Syntax),
        }
    }
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits == 0 || power.is_empty() || !power.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return Err(NumError::Syntax);
    }
    let power = power
        .bytes()
        .filter(u8::is_ascii_digit)
        .fold(0_i64, |acc, b| (acc * 10 + i64::from(b - b'0')).min(100_000));
    shift += if exponent.starts_with('-') { -power } else { power };
    let value = scale(bits, shift).ok_or(NumError::Range)?;
    Ok(if text.starts_with('-') { -value } else { value })
}

/// `bits` times two to the power of `exponent`, rounded to even; `None` on overflow.
#[allow(clippy::cast_precision_loss)]
fn scale(bits: u64, exponent: i64) -> Option<f64> {
    if bits == 0 {
        return Some(0.0);
    }
    let top = exponent + 63 - i64::from(bits.leading_zeros());
    // The exponent of the lowest bit of the result.
    let low = (top - 52).max(-1074);
    let drop = low - exponent;
    let kept = match u32::try_from(drop) {
        Err(_) | Ok(0) => bits,
        Ok(65..) => 0,
        Ok(drop) => {
            let wide = u128::from(bits);
            let (half, rest) = (1_u128 << (drop - 1), wide & ((1_u128 << drop) - 1));
            let kept = u64::try_from(wide >> drop).unwrap_or(u64::MAX);
            kept + u64::from(rest > half || rest == half && kept & 1 == 1)
        }
    };
    let power = if drop > 0 { low } else { exponent };
    let value = if power < -1022 {
        kept as f64 * f64::from_bits(1 << (power + 1074))
    } else if power > 1023 {
        f64::INFINITY
    } else {
        kept as f64 * f64::from_bits(u64::try_from(power + 1023).unwrap_or(0) << 52)
    };
    value.is_finite().then_some(value)
}

/// The shortest decimal digits that parse as the number.
pub(crate) struct Shortest {
    negative: bool,
    text: Text,
    /// The position of the decimal point in the digits.
    point: i32,
}

/// A short text on the stack.
#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; 40],
    len: usize,
}

impl Text {
    fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len + s.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(s.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl Shortest {
    /// The digits of a finite `f64`.
    #[must_use]
    pub(crate) fn of(value: f64) -> Self {
        let mut digits = Self::read(value.is_sign_negative(), format_args!("{:e}", value.abs()));
        digits.settle_tie(|text| text.parse() == Ok(value.abs()), || format!("{:.767e}", value.abs()));
        digits
    }

    /// The digits of a finite `f32`.
    #[must_use]
    pub(crate) fn of_32(value: f32) -> Self {
        let mut digits = Self::read(value.is_sign_negative(), format_args!("{:e}", value.abs()));
        digits.settle_tie(|text| text.parse() == Ok(value.abs()), || format!("{:.112e}", value.abs()));
        digits
    }

    /// If two shortest forms are equally near, Rust uses the larger one, Go the one with an even last digit.
    fn settle_tie(&mut self, reads_back: impl FnOnce(&str) -> bool, exact: impl FnOnce() -> String) {
        let Some(&last) = self.text.as_bytes().last() else { return };
        if last.is_multiple_of(2) {
            return;
        }
        let mut lower = Self { negative: false, text: self.text, point: self.point };
        lower.text.bytes[lower.text.len - 1] -= 1;
        let mut text = String::new();
        lower.write_scientific(&mut text, 1);
        if !reads_back(&text) {
            return;
        }
        // The number is between the two forms. Check whether it is exactly half-way.
        let exact = exact();
        let digits = exact.bytes().take_while(|b| *b != b'e').filter(|b| *b != b'.');
        let tail: Vec<u8> = digits.skip(self.text.len).collect();
        if tail.first() == Some(&b'5') && tail.iter().skip(1).all(|b| *b == b'0') {
            self.text.bytes[self.text.len - 1] -= 1;
        }
    }

    fn read(negative: bool, scientific: fmt::Arguments<'_>) -> Self {
        let mut text = Text { bytes: [0; 40], len: 0 };
        // The text has at most 24 bytes.
        let written = text.write_fmt(scientific);
        debug_assert!(written.is_ok());
        let all = text.bytes;
        let all = all.get(..text.len).unwrap_or_default();
        let e = all.iter().position(|&b| b == b'e').unwrap_or(all.len());
        let power = std::str::from_utf8(all.get(e + 1..).unwrap_or_default()).unwrap_or_default();
        let point = power.parse::<i32>().unwrap_or(0) + 1;
        text.len = 0;
        for &b in all.get(..e).unwrap_or_default() {
            if b != b'.' {
                text.bytes[text.len] = b;
                text.len += 1;
            }
        }
        Self { negative, text, point }
    }

    /// The exponent of the first digit.
    #[must_use]
    pub(crate) fn exponent(&self) -> i32 {
        self.point - 1
    }

    /// Writes the number as Go's `%e` does, with at least `least` exponent digits.
    pub(crate) fn write_scientific(&self, out: &mut String, least: usize) {
        if self.negative {
            out.push('-');
        }
        let digits = self.text.as_bytes();
        for (i, &b) in digits.iter().enumerate() {
            if i == 1 {
                out.push('.');
            }
            out.push(char::from(b));
        }
        let exponent = self.exponent();
        out.push('e');
        out.push(if exponent < 0 { '-' } else { '+' });
        let text = exponent.unsigned_abs().to_string();
        out.extend(std::iter::repeat_n('0', least.saturating_sub(text.len())));
        out.push_str(&text);
    }

    /// Writes the number as Go's `%f` does, with all its decimals.
    pub(crate) fn write_decimal(&self, out: &mut String) {
        if self.negative {
            out.push('-');
        }
        let digits = self.text.as_bytes();
        let zeros = |n: i32| std::iter::repeat_n('0', usize::try_from(n).unwrap_or(0));
        let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
        if self.point <= 0 {
            out.push_str("0.");
            out.extend(zeros(-self.point));
            out.extend(digits.iter().map(|&b| char::from(b)));
        } else {
            for (i, &b) in (0..).zip(digits) {
                if i == self.point {
                    out.push('.');
                }
                out.push(char::from(b));
            }
            out.extend(zeros(self.point - count));
        }
    }

    /// Writes the number as Go's shortest `%g` does.
    fn write_general(&self, out: &mut String) {
        if self.exponent() < -4 || self.exponent() >= 6 {
            self.write_scientific(out, 2);
        } else {
            self.write_decimal(out);
        }
    }
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 64)`, which is also `fmt`'s `%v` of a `float64`. An exponent below -4, or of 6 and
/// more, uses the scientific format.
#[must_use]
pub fn format_float(value: f64) -> String {
    let mut out = String::new();
    if value.is_finite() {
        Shortest::of(value).write_general(&mut out);
    } else {
        out.push_str(not_finite(value));
    }
    out
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 32)`.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn format_float_32(value: f64) -> String {
    let mut out = String::new();
    let narrow = value as f32;
    if narrow.is_finite() {
        Shortest::of_32(narrow).write_general(&mut out);
    } else {
        out.push_str(not_finite(f64::from(narrow)));
    }
    out
}

fn not_finite(value: f64) -> &'static str {
    match value {
        v if v.is_nan() => "NaN",
        v if v > 0.0 => "+Inf",
        _ => "-Inf",
    }
}

/// Writes a finite number as Go's `encoding/json` does: `%f`, or `%e` below 1e-6 and from 1e21.
pub(crate) fn format_json_float(value: f64, out: &mut String) {
    let digits = Shortest::of(value);
    let size = value.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // Go removes the leading zero of a negative exponent; positive exponents have two digits here.
        digits.write_scientific(out, 1);
    } else {
        digits.write_decimal(out);
    }
}
