//! Dates and times of YAML, as go-yaml v3 decodes and writes them.
//!
//! Owns the four forms that go-yaml accepts and their text in RFC 3339. Does not know clocks or time zones by name.

/// A point in time with the offset of its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Days since 1970-01-01, in the zone.
    days: i64,
    /// Seconds of the day, in the zone.
    second: u32,
    /// Nanoseconds of the second.
    nanos: u32,
    /// Minutes east of UTC.
    offset: i32,
}

impl Timestamp {
    /// Parses a text that go-yaml v3 resolves to a timestamp; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = match text.find(['T', 't', ' ']) {
            Some(at) => text.split_at_checked(at)?,
            None => (text, ""),
        };
        let mut parts = date.splitn(3, '-');
        let mut next = || parts.next()?.parse::<i64>().ok();
        let (year, month, day) = (next()?, next()?, next()?);
        if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        let days = days_from_civil(year, month, day);
        // No date has a day that its month lacks.
        if civil_from_days(days) != (year, month, day) {
            return None;
        }
        let clock = rest.trim_start_matches(['T', 't', ' ']);
        if clock.is_empty() {
            return Some(Self { days, second: 0, nanos: 0, offset: 0 });
        }
        let (clock, offset) = zone(clock)?;
        let mut parts = clock.splitn(3, ':');
        let hour: u32 = parts.next()?.parse().ok()?;
        let minute: u32 = parts.next()?.parse().ok()?;
        let seconds = parts.next()?;
        let (whole, fraction) = seconds.split_once(['.', ',']).unwrap_or((seconds, ""));
        let whole: u32 = whole.parse().ok()?;
        if hour > 23 || minute > 59 || whole > 59 {
            return None;
        }
        let digits: String = fraction.chars().chain("000000000".chars()).take(9).collect();
        Some(Self { days, second: hour * 3600 + minute * 60 + whole, nanos: digits.parse().ok()?, offset })
    }

    /// The time without its fraction of a second.
    #[must_use]
    pub fn whole_seconds(self) -> Self {
        Self { nanos: 0, ..self }
    }

    /// The text in RFC 3339, with the digits of a second that are not zero.
    #[must_use]
    pub fn text(&self) -> String {
        let zone = match self.offset {
            0 => "Z".to_owned(),
            minutes => self.zone_text(minutes, ":"),
        };
        format!("{}T{}{zone}", self.date(), self.clock())
    }

    /// The text that Go prints for the time.
    #[must_use]
    pub fn go_text(&self) -> String {
        let zone = match self.offset {
            0 => "+0000 UTC".to_owned(),
            minutes => {
                let zone = self.zone_text(minutes, "");
                format!("{zone} {zone}")
            }
        };
        format!("{} {} {zone}", self.date(), self.clock())
    }

    /// Seconds since 1970-01-01T00:00:00Z, nanoseconds, and seconds east of UTC.
    #[must_use]
    pub fn parts(&self) -> (i64, u32, i32) {
        let local = self.days * 86_400 + i64::from(self.second);
        (local - i64::from(self.offset) * 60, self.nanos, self.offset * 60)
    }

    fn date(&self) -> String {
        let (year, month, day) = civil_from_days(self.days);
        format!("{year:04}-{month:02}-{day:02}")
    }

    fn clock(&self) -> String {
        let (hour, minute, second) = (self.second / 3600, self.second / 60 % 60, self.second % 60);
        let mut text = format!("{hour:02}:{minute:02}:{second:02}");
        if self.nanos > 0 {
            let fraction = format!("{:09}", self.nanos);
            text.push('.');
            text.push_str(fraction.trim_end_matches('0'));
        }
        text
    }

    fn zone_text(self, minutes: i32, colon: &str) -> String {
        let sign = if minutes < 0 { '-' } else { '+' };
        let size = minutes.abs();
        format!("{sign}{:02}{colon}{:02}", size / 60, size % 60)
    }
}

/// Splits the zone from a clock: the clock, and minutes east of UTC.
fn zone(text: &str) -> Option<(&str, i32)> {
    if let Some(clock) = text.strip_suffix('Z') {
        return Some((clock, 0));
    }
    let Some(at) = text.rfind(['+', '-']) else { return Some((text.trim_end(), 0)) };
    let (clock, zone) = text.split_at_checked(at)?;
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let size = hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?;
    Some((clock, if zone.starts_with('-') { -size } else { size }))
}

/// Days since 1970-01-01 of a date in the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The date of a number of days since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn timestamps_are_written_in_rfc_3339() {
        let table = [
            ("2020-01-02", "2020-01-02T00:00:00Z", "2020-01-02 00:00:00 +0000 UTC"),
            ("2020-1-2T3:4:5Z", "2020-01-02T03:04:05Z", "2020-01-02 03:04:05 +0000 UTC"),
            ("2024-02-29 13:14:15.250", "2024-02-29T13:14:15.25Z", "2024-02-29 13:14:15.25 +0000 UTC"),
            ("1969-12-31t23:59:59-05:30", "1969-12-31T23:59:59-05:30", "1969-12-31 23:59:59 -0530 -0530"),
        ];
        for (text, rfc3339, shown) in table {
            let time = Timestamp::parse(text).unwrap();
            assert_eq!((time.text().as_str(), time.go_text().as_str()), (rfc3339, shown), "{text}");
        }
        assert_eq!(Timestamp::parse("1970-01-01T01:00:00+01:00").unwrap().parts(), (0, 0, 3600));
        for text in ["no", "2024-02-30", "2024-02-31T00:00:00Z", "2023-02-29", "2024-04-31"] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
