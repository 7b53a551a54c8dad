//! Go's durations: parsing and rounding. `time` formats them.

use super::time::quote;

/// Nanoseconds of each unit, by unit name.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The largest magnitude: that of the smallest `int64`.
const LIMIT: u64 = 1 << 63;

/// Parses a duration into nanoseconds, e.g. `1h15m30.918s` (`time.ParseDuration`).
///
/// # Errors
/// Go's error text, e.g. `time: missing unit in duration "15"`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub fn parse(text: &str) -> Result<i64, String> {
    let error = |what: &str| Err(format!("time: {what} {}", quote(text.as_bytes())));
    let invalid = || error("invalid duration");
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return invalid();
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
        let after = &rest[whole..];
        let (fraction, after) = match after.strip_prefix('.') {
            Some(f) => f.split_at(f.bytes().take_while(u8::is_ascii_digit).count()),
            None => ("", after),
        };
        if whole == 0 && fraction.is_empty() {
            return invalid();
        }
        let value = match rest[..whole].parse::<u64>() {
            Ok(v) if v <= LIMIT => v,
            Err(_) if whole == 0 => 0,
            _ => return invalid(),
        };
        let name_len = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let (name, next) = after.split_at(name_len);
        if name.is_empty() {
            return error("missing unit in duration");
        }
        let Some((_, unit)) = UNITS.iter().find(|u| u.0 == name) else {
            return error(&format!("unknown unit {} in duration", quote(name.as_bytes())));
        };
        let Some(mut nanos) = value.checked_mul(*unit).filter(|n| *n <= LIMIT) else { return invalid() };
        // Digits that do not fit into an `int64` are ignored.
        let (mut part, mut scale) = (0u64, 1f64);
        for digit in fraction.bytes().map(|b| u64::from(b - b'0')) {
            match part.checked_mul(10).and_then(|p| p.checked_add(digit)).filter(|p| *p < LIMIT) {
                Some(p) => part = p,
                None => break,
            }
            scale *= 10.0;
        }
        nanos += (part as f64 * (*unit as f64 / scale)) as u64;
        total = match total.checked_add(nanos).filter(|t| nanos <= LIMIT && *t <= LIMIT) {
            Some(t) => t,
            None => return invalid(),
        };
        rest = next;
    }
    if negative {
        return Ok(0i64.wrapping_sub_unsigned(total));
    }
    i64::try_from(total).map_or_else(|_| invalid(), Ok)
}

/// The nearest multiple of `unit`; a half is rounded away from zero (`Duration.Round`).
#[must_use]
pub fn round(nanos: i64, unit: i64) -> i64 {
    if unit <= 0 {
        return nanos;
    }
    let rest = nanos % unit;
    let down = nanos - rest;
    if rest.unsigned_abs() < unit.unsigned_abs() - rest.unsigned_abs() {
        down
    } else {
        down.saturating_add(if nanos < 0 { -unit } else { unit })
    }
}

/// The next multiple of `unit` towards zero (`Duration.Truncate`).
#[must_use]
pub fn truncate(nanos: i64, unit: i64) -> i64 {
    if unit <= 0 { nanos } else { nanos - nanos % unit }
}
