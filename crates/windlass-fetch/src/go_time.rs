//! Times as Go writes them into indexes and locks.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Now (`time.RFC3339Nano`).
pub(super) fn now() -> String {
    rfc3339(&Zoned::now())
}

/// A Unix time in UTC; `None` beyond the year 9999.
pub(super) fn at(seconds: u64) -> Option<String> {
    let at = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    Some(rfc3339(&at.to_zoned(TimeZone::UTC)))
}

fn rfc3339(at: &Zoned) -> String {
    let zone = if at.offset().is_zero() { "Z".to_owned() } else { at.strftime("%:z").to_string() };
    let fraction = match at.subsec_nanosecond() {
        0 => String::new(),
        n => format!(".{n:09}").trim_end_matches('0').to_owned(),
    };
    format!("{}{fraction}{zone}", at.strftime("%Y-%m-%dT%H:%M:%S"))
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_written_as_go_writes_them() {
        for (at, want) in [
            ("2026-01-02T03:04:05.678+00:00[UTC]", "2026-01-02T03:04:05.678Z"),
            ("2026-01-02T03:04:05+02:00[+02:00]", "2026-01-02T03:04:05+02:00"),
        ] {
            assert_eq!(rfc3339(&at.parse().unwrap()), want);
        }
    }
}
