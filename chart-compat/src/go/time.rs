//! Go's durations and times as text (`time.Duration.String`, `time.Time.String`).
//!
//! Arithmetic on seconds and offsets. The caller provides the clock and the time zone database.

use super::object::Time;

/// A calendar date and time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Year; can be negative.
    pub year: i64,
    /// Month, 1 to 12.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
    /// Hour, 0 to 23.
    pub hour: u32,
    /// Minute.
    pub minute: u32,
    /// Second.
    pub second: u32,
    /// Day of the week, Sunday is 0.
    pub weekday: u32,
    /// Day of the year, from 1.
    pub yearday: u32,
}

/// Days since 1970-01-01 of a proleptic Gregorian date.
#[must_use]
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * i64::from((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

impl Time<'_> {
    /// The date and time of day in the time's own zone.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn civil(&self) -> Civil {
        let local = self.seconds.saturating_add(i64::from(self.offset));
        let (days, secs) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        let z = days + 719_468;
        let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
        let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
        let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
        let mp = (5 * doy + 2) / 153;
        let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
        let month = if mp < 10 { mp + 3 } else { mp - 9 } as u32;
        let year = yoe + era * 400 + i64::from(month <= 2);
        Civil {
            year,
            month,
            day,
            hour: (secs / 3600) as u32,
            minute: (secs % 3600 / 60) as u32,
            second: (secs % 60) as u32,
            weekday: (days + 4).rem_euclid(7) as u32,
            yearday: (days - days_from_civil(year, 1, 1) + 1) as u32,
        }
    }
}

/// `time.Time.String`: `2006-01-02 15:04:05.999999999 -0700 MST`.
#[must_use]
pub fn time_string(t: &Time<'_>) -> String {
    // The layout handles negative years and zones without a name.
    let text = super::layout::format(t, b"2006-01-02 15:04:05.999999999 -0700 MST");
    String::from_utf8_lossy(&text).into_owned()
}

/// `time.Duration.String`: `1h2m3.5s`, `1.5ms`, `0s`.
#[must_use]
pub fn duration_string(nanos: i64) -> String {
    let total = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let fraction = |value: u64, digits: usize| {
        let text = format!("{value:0digits$}");
        let text = text.trim_end_matches('0');
        if text.is_empty() { String::new() } else { format!(".{text}") }
    };
    match total {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{total}ns"),
        1_000..1_000_000 => format!("{sign}{}{}µs", total / 1_000, fraction(total % 1_000, 3)),
        1_000_000..1_000_000_000 => {
            format!("{sign}{}{}ms", total / 1_000_000, fraction(total % 1_000_000, 6))
        }
        _ => {
            let (secs, rest) = (total / 1_000_000_000, fraction(total % 1_000_000_000, 9));
            let (h, m, s) = (secs / 3600, secs % 3600 / 60, secs % 60);
            if h > 0 {
                format!("{sign}{h}h{m}m{s}{rest}s")
            } else if m > 0 {
                format!("{sign}{m}m{s}{rest}s")
            } else {
                format!("{sign}{s}{rest}s")
            }
        }
    }
}

/// The quoting of the package `time` in its errors: every byte that is not printable ASCII is escaped.
#[must_use]
pub fn quote(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for &b in text {
        match b {
            b'"' | b'\\' => out.extend(['\\', char::from(b)]),
            0x20..0x80 => out.push(char::from(b)),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}
