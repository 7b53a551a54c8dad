//! Times of the week in which images may be rolled out. Pure.

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

/// The most windows of a workload.
const MAX_WINDOWS: usize = 20;
const DAYS: [(&str, Weekday); 7] = [
    ("Mon", Weekday::Monday),
    ("Tue", Weekday::Tuesday),
    ("Wed", Weekday::Wednesday),
    ("Thu", Weekday::Thursday),
    ("Fri", Weekday::Friday),
    ("Sat", Weekday::Saturday),
    ("Sun", Weekday::Sunday),
];

/// `Mon-Fri 08:00-17:00 Europe/Berlin`.
#[derive(Clone, Debug)]
struct Window {
    /// By the order of [`DAYS`].
    days: [bool; 7],
    from: Time,
    until: Time,
    zone: TimeZone,
}

/// The windows of a workload; none: always.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeWindows(Vec<Window>);

impl TimeWindows {
    /// Reads windows that `;` separates: days or `*`, times, and a time zone, which is UTC where none is named. A window that ends before it
    /// begins ends on the next day.
    ///
    /// # Errors
    /// A window cannot be read; the text names it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(';').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.len() > MAX_WINDOWS {
            return Err(format!("it has more than {MAX_WINDOWS} windows"));
        }
        let window = |part: &&str| {
            Window::parse(part)
                .ok_or_else(|| format!("{part:?} is no window such as \"Mon-Fri 08:00-17:00 Europe/Berlin\""))
        };
        parts.iter().map(window).collect::<Result<_, _>>().map(Self)
    }

    /// Whether one is open.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        self.0.is_empty()
            || self.0.iter().any(|window| window.span(now).any(|(from, to)| from <= now && now < to))
    }

    /// When the next one opens.
    pub(crate) fn opens(&self, now: Timestamp) -> Option<Timestamp> {
        let starts = self.0.iter().flat_map(|window| window.span(now)).map(|(from, _)| from);
        starts.filter(|from| *from > now).min()
    }
}

impl Window {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_ascii_whitespace();
        let (days, times, zone) = (words.next()?, words.next()?, words.next());
        if words.next().is_some() {
            return None;
        }
        let zone = match zone {
            Some(name) => TimeZone::get(name).ok()?,
            None => TimeZone::UTC,
        };
        let (from, until) = times.split_once('-')?;
        let time = |text: &str| Time::strptime("%H:%M", text).ok();
        let (from, until) = (time(from)?, time(until)?);
        (from != until).then_some(Self { days: days_of(days)?, from, until, zone })
    }

    /// The windows of this week: from the day before to a week ahead.
    fn span(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let today = now.to_zoned(self.zone.clone()).date();
        (-1..=7).filter_map(move |ahead: i32| {
            let day = today.checked_add(ahead.days()).ok()?;
            let at = DAYS.iter().position(|(_, weekday)| *weekday == day.weekday())?;
            let end = if self.until > self.from { day } else { day.tomorrow().ok()? };
            let moment = |day: jiff::civil::Date, time: Time| {
                Some(day.to_datetime(time).to_zoned(self.zone.clone()).ok()?.timestamp())
            };
            self.days[at].then_some((moment(day, self.from)?, moment(end, self.until)?))
        })
    }
}

/// `Mon-Fri`, `Sat,Sun`, `*`.
fn days_of(text: &str) -> Option<[bool; 7]> {
    if text == "*" {
        return Some([true; 7]);
    }
    let day = |name: &str| DAYS.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut at, last) = (day(first)?, day(last)?);
        days[at] = true;
        while at != last {
            at = (at + 1) % 7;
            days[at] = true;
        }
    }
    Some(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_open_and_close_in_their_zone() {
        // 2026-01-05 is a Monday.
        for (windows, now, open, opens) in [
            ("", "2026-01-05T12:00:00Z", true, None),
            ("Mon-Fri 08:00-17:00", "2026-01-05T08:00:00Z", true, Some("2026-01-06T08:00:00Z")),
            ("Mon-Fri 08:00-17:00", "2026-01-05T17:00:00Z", false, Some("2026-01-06T08:00:00Z")),
            ("Mon-Fri 08:00-17:00", "2026-01-10T09:00:00Z", false, Some("2026-01-12T08:00:00Z")),
            ("Mon 08:00-17:00 Europe/Berlin", "2026-01-05T07:30:00Z", true, Some("2026-01-12T07:00:00Z")),
            ("* 22:00-04:00", "2026-01-05T03:00:00Z", true, Some("2026-01-05T22:00:00Z")),
            (
                "Sat,Sun 00:00-12:00; Wed 10:00-11:00",
                "2026-01-05T10:00:00Z",
                false,
                Some("2026-01-07T10:00:00Z"),
            ),
            ("Sat-Mon 10:00-11:00", "2026-01-05T10:59:59Z", true, Some("2026-01-10T10:00:00Z")),
        ] {
            let parsed = TimeWindows::parse(windows).unwrap();
            let now: Timestamp = now.parse().unwrap();
            assert_eq!(parsed.is_open(now), open, "{windows} {now}");
            assert_eq!(parsed.opens(now).map(|at| at.to_string()).as_deref(), opens, "{windows} {now}");
        }
        for bad in [
            "Mon",
            "Mon 8-17",
            "Mon 08:00-25:00",
            "Day 08:00-09:00",
            "Mon 08:00-08:00",
            "Mon 08:00-09:00 Mars/Sea",
            "* 08:00-09:00 UTC x",
        ] {
            assert!(TimeWindows::parse(bad).unwrap_err().contains("is no window"), "{bad}");
        }
    }
}
