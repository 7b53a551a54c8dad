//! `formatdate` and `timeadd`: times in RFC 3339.
//!
//! Owns the verbs of formats, which are HCL's, and the units of durations, which are Go's. Knows no clock.

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{SignedDuration, fmt::strtime};

/// A time with the offset of its zone.
struct Moment {
    time: DateTime,
    offset: Offset,
}

impl Moment {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a time in RFC 3339");
        // RFC 3339 has neither weeks nor names of zones.
        let plain = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | ':' | '.' | 'T' | 'Z');
        let pieces = Pieces::parse(text).ok().filter(|_| text.chars().all(plain)).ok_or_else(wrong)?;
        let (time, offset) = pieces.time().zip(pieces.to_numeric_offset()).ok_or_else(wrong)?;
        Ok(Self { time: pieces.date().to_datetime(time), offset })
    }

    /// The offset as `+0200`, with what stands between hours and minutes; `utc` for none.
    fn zone(&self, between: &str, utc: Option<&str>) -> String {
        let seconds = self.offset.seconds();
        match utc {
            Some(utc) if seconds == 0 => utc.to_owned(),
            _ => {
                let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.unsigned_abs() / 60);
                format!("{sign}{:02}{between}{:02}", minutes / 60, minutes % 60)
            }
        }
    }

    /// The text of a verb; `None` if there is no such verb.
    fn verb(&self, verb: &str) -> Option<String> {
        let strftime = |format: &str| strtime::format(format, self.time).ok();
        match verb {
            "YYYY" => strftime("%Y"),
            "YY" => strftime("%y"),
            "MMMM" => strftime("%B"),
            "MMM" => strftime("%b"),
            "MM" => strftime("%m"),
            "M" => strftime("%-m"),
            "DD" => strftime("%d"),
            "D" => strftime("%-d"),
            "EEEE" => strftime("%A"),
            "EEE" => strftime("%a"),
            "HH" => strftime("%I"),
            "H" => strftime("%-I"),
            "hh" => strftime("%H"),
            "h" => strftime("%-H"),
            "AA" => strftime("%p").map(|text| text.to_uppercase()),
            "aa" => strftime("%p").map(|text| text.to_lowercase()),
            "mm" => strftime("%M"),
            "m" => strftime("%-M"),
            "ss" => strftime("%S"),
            "s" => strftime("%-S"),
            "ZZZZZ" => Some(self.zone(":", None)),
            "ZZZZ" => Some(self.zone("", None)),
            "ZZZ" => Some(self.zone("", Some("UTC"))),
            "Z" => Some(self.zone(":", Some("Z"))),
            _ => None,
        }
    }
}

/// The time in a format: verbs are runs of one letter; other letters stand in `'quotes'`.
pub(super) fn format_date(format: &str, time: &str) -> Result<String, String> {
    let moment = Moment::parse(time)?;
    let mut out = String::new();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let mut text = quoted;
            loop {
                let (part, after) = text.split_once('\'').ok_or_else(|| "a quote does not end".to_owned())?;
                out.push_str(part);
                rest = after;
                // Two quotes stand for one.
                let Some(more) = after.strip_prefix('\'') else { break };
                out.push('\'');
                text = more;
            }
            continue;
        }
        let end = rest.find(|c| c != first).unwrap_or(rest.len());
        let (run, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if first.is_ascii_alphabetic() {
            let unknown = || format!("{run:?} is not a verb of formatdate; put other letters into 'quotes'");
            out.push_str(&moment.verb(run).ok_or_else(unknown)?);
        } else {
            out.push_str(run);
        }
        rest = after;
    }
    Ok(out)
}

/// The time after a duration such as `1h30m`, in whole seconds.
pub(super) fn add_time(time: &str, duration: &str) -> Result<String, String> {
    let mut moment = Moment::parse(time)?;
    let later = moment.time.checked_add(parse_duration(duration)?);
    moment.time = later.map_err(|_| format!("{time} plus {duration} is outside of the range of times"))?;
    let text = strtime::format("%Y-%m-%dT%H:%M:%S", moment.time).map_err(|error| error.to_string())?;
    Ok(format!("{text}{}", moment.zone(":", Some("Z"))))
}

/// A duration as Go writes it.
fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("µs", 1e-6),
        ("μs", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let wrong = || format!("{text:?} is not a duration; the units are ns, us, ms, s, m and h");
    let (sign, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (if text.starts_with('-') { -1.0 } else { 1.0 }, rest),
        None => (1.0, text),
    };
    if rest == "0" {
        return Ok(SignedDuration::ZERO);
    }
    let mut seconds = 0.0;
    loop {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, after) = rest.split_at_checked(end).ok_or_else(wrong)?;
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let length = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(length).ok_or_else(wrong)?;
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        seconds += number * scale;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    SignedDuration::try_from_secs_f64(sign * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted() {
        for (format, want) in [
            ("DD MMM YYYY hh:mm ZZZ", "02 Jan 2018 23:12 UTC"),
            ("EEEE, DD-MMM-YY hh:mm:ss ZZZ", "Tuesday, 02-Jan-18 23:12:01 UTC"),
            ("EEE, DD MMM YYYY hh:mm:ss ZZZZ", "Tue, 02 Jan 2018 23:12:01 +0000"),
            ("MMM DD, YYYY", "Jan 02, 2018"),
            ("HH:mmaa", "11:12pm"),
            ("h'h'mm' o''clock'", "23h12 o'clock"),
            (
                "MMMM D H AA m s YYYY-MM-DD'T'hh:mm:ssZ ZZZZZ",
                "January 2 11 PM 12 1 2018-01-02T23:12:01Z +00:00",
            ),
        ] {
            assert_eq!(format_date(format, "2018-01-02T23:12:01Z").unwrap(), want, "{format}");
        }
        assert_eq!(format_date("hhZ ZZZ", "2018-01-02T23:12:01-05:30").unwrap(), "23-05:30 -0530");
        for (format, time) in [
            ("YYY", "2018-01-02T23:12:01Z"),
            ("'x", "2018-01-02T23:12:01Z"),
            ("YY", "2018-01-02"),
            ("YY", "2024-02-31T00:00:00Z"),
        ] {
            assert!(format_date(format, time).is_err(), "{format} {time}");
        }
    }

    #[test]
    fn durations_are_added() {
        for (time, duration, want) in [
            ("2017-11-22T00:00:00Z", "10m", "2017-11-22T00:10:00Z"),
            ("2017-11-22T00:00:00Z", "-1h30m", "2017-11-21T22:30:00Z"),
            ("2017-11-22T00:00:00+02:00", "1.5h", "2017-11-22T01:30:00+02:00"),
            ("2017-11-22T00:00:00Z", "1h0m1500ms", "2017-11-22T01:00:01Z"),
            ("2017-11-22T00:00:00Z", "0", "2017-11-22T00:00:00Z"),
        ] {
            assert_eq!(add_time(time, duration).unwrap(), want, "{time} {duration}");
        }
        for duration in ["", "1", "1d", "h", "1h2", "1..5h", "99999999999999999999h"] {
            assert!(add_time("2017-11-22T00:00:00Z", duration).is_err(), "{duration}");
        }
    }
}
