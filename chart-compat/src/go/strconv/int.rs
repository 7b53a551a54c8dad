//! Integers.

use super::{NumError, underscores_ok};

/// Go's `strconv.ParseInt(text, base, 64)`. Base 0 uses the base prefix and allows underscores.
///
/// # Errors
/// If the text is not an integer, or exceeds 64 bits.
pub(crate) fn parse_int(text: &str, base: u32) -> Result<i64, NumError> {
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let magnitude = parse_magnitude(digits, text, base)?;
    let value = i128::from(magnitude);
    i64::try_from(if negative { -value } else { value }).map_err(|_| NumError::Range)
}

/// Go's `strconv.ParseUint(text, base, 64)`. Base 0 uses the base prefix and allows underscores.
///
/// # Errors
/// If the text is not an integer without a sign, or exceeds 64 bits.
pub(crate) fn parse_uint(text: &str, base: u32) -> Result<u64, NumError> {
    parse_magnitude(text, text, base)
}

/// Parses the digits. `whole` is the text with its sign, for the check of underscores.
fn parse_magnitude(digits: &str, whole: &str, base: u32) -> Result<u64, NumError> {
    let (radix, body) = match (base, digits.as_bytes()) {
        (_, []) => return Err(NumError::Syntax),
        (0, [b'0', b'b' | b'B', _, ..]) => (2, &digits[2..]),
        (0, [b'0', b'o' | b'O', _, ..]) => (8, &digits[2..]),
        (0, [b'0', b'x' | b'X', _, ..]) => (16, &digits[2..]),
        (0, [b'0', ..]) => (8, &digits[1..]),
        (0, _) => (10, digits),
        (base, _) => (base, digits),
    };
    let mut value: u64 = 0;
    let mut underscores = false;
    for b in body.bytes() {
        if b == b'_' && base == 0 {
            underscores = true;
            continue;
        }
        let digit = char::from(b).to_digit(36).filter(|d| *d < radix).ok_or(NumError::Syntax)?;
        // Like Go, stop at an overflow and ignore the rest.
        let next = value.checked_mul(u64::from(radix)).and_then(|v| v.checked_add(u64::from(digit)));
        value = next.ok_or(NumError::Range)?;
    }
    if underscores && !underscores_ok(whole.as_bytes()) {
        return Err(NumError::Syntax);
    }
    Ok(value)
}
