//! Recognition of the date and time formats that go-yaml reads with Go's `time.Parse`.
//!
//! Owns only the formats. The value is never needed, because a timestamp stays a string.

/// A date; or a date and time, separated by `T` or `t` with a zone, or by spaces without one.
pub(super) fn is_timestamp(text: &str) -> bool {
    let [a, b, c, d, b'-', rest @ ..] = text.as_bytes() else { return false };
    if ![a, b, c, d].iter().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let year = [a, b, c, d].iter().fold(0, |acc, digit| acc * 10 + u32::from(**digit - b'0'));
    date(rest, year).is_some_and(|rest| match rest {
        [] => true,
        [b'T' | b't', rest @ ..] => time(rest).is_some_and(zone),
        [b' ', ..] => {
            let spaces = rest.iter().take_while(|b| **b == b' ').count();
            time(rest.get(spaces..).unwrap_or_default()).is_some_and(<[u8]>::is_empty)
        }
        _ => false,
    })
}

/// Parses `M-D`. Returns the rest.
fn date(text: &[u8], year: u32) -> Option<&[u8]> {
    let (month, rest) = number(text)?;
    let (day, rest) = number(rest.strip_prefix(b"-")?)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    (1..=days).contains(&day).then_some(rest)
}

/// Parses `h:m:s` with optional decimals. Returns the rest.
fn time(text: &[u8]) -> Option<&[u8]> {
    let (hour, rest) = number(text)?;
    let (minute, rest) = number(rest.strip_prefix(b":")?)?;
    let (second, rest) = number(rest.strip_prefix(b":")?)?;
    if hour >= 24 || minute >= 60 || second >= 60 {
        return None;
    }
    Some(match rest {
        [b'.' | b',', digits @ ..] if digits.first().is_some_and(u8::is_ascii_digit) => {
            let end = digits.iter().position(|b| !b.is_ascii_digit()).unwrap_or(digits.len());
            digits.get(end..).unwrap_or_default()
        }
        other => other,
    })
}

/// Whether the text is `Z` or `+hh:mm`.
fn zone(text: &[u8]) -> bool {
    match text {
        b"Z" => true,
        [b'+' | b'-', a, b, b':', c, d] if [a, b, c, d].iter().all(|b| b.is_ascii_digit()) => {
            // Go accepts 24 hours and 60 minutes.
            (a - b'0') * 10 + (b - b'0') <= 24 && (c - b'0') * 10 + (d - b'0') <= 60
        }
        _ => false,
    }
}

/// Parses a number of one or two digits. Returns it and the rest.
fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let digit = |b: u8| u32::from(b - b'0');
    match text {
        [a, b, rest @ ..] if a.is_ascii_digit() && b.is_ascii_digit() => {
            Some((digit(*a) * 10 + digit(*b), rest))
        }
        [a, rest @ ..] if a.is_ascii_digit() => Some((digit(*a), rest)),
        _ => None,
    }
}
