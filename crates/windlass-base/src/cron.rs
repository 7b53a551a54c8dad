//! Times at which a schedule runs, as robfig/cron v2 reads and counts them. Pure: the caller says what time it is.
//!
//! Five fields, or six with seconds first; `@hourly` and its like; `@every 1h30m`; `TZ=Europe/Berlin` in front.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    text: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// Every so many seconds.
    Every(i64),
    Fields(Box<Fields>),
}

/// A bit for each value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    second: u64,
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    zone: TimeZone,
}

/// A crontab that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{crontab:?}: {reason}")]
pub struct CronError {
    crontab: String,
    reason: String,
}

/// Marks a field that had a star: then both day fields must hold, else one is enough.
const STAR: u64 = 1 << 63;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Least and greatest value of a field, and the names of its values from the least on.
struct Bounds {
    least: u32,
    greatest: u32,
    names: &'static [&'static str],
}

const SECOND: Bounds = Bounds { least: 0, greatest: 59, names: &[] };
const HOUR: Bounds = Bounds { least: 0, greatest: 23, names: &[] };
const DAY: Bounds = Bounds { least: 1, greatest: 31, names: &[] };
const MONTH: Bounds = Bounds { least: 1, greatest: 12, names: &MONTHS };
const WEEKDAY: Bounds = Bounds { least: 0, greatest: 6, names: &WEEKDAYS };

impl Cron {
    /// Reads a crontab. Without `TZ=` it means the machine's own time zone.
    ///
    /// # Errors
    /// It is none, or a time zone is not known.
    pub fn parse(text: &str) -> Result<Self, CronError> {
        let kind = parse(text).map_err(|reason| CronError { crontab: text.to_owned(), reason })?;
        Ok(Self { text: text.to_owned(), kind })
    }

    /// Reads a crontab with seconds first, whose last field, the weekday, may be left out, as robfig/cron v1 does. It means the machine's
    /// own time zone.
    ///
    /// # Errors
    /// It is none.
    pub fn parse_with_seconds(text: &str) -> Result<Self, CronError> {
        let fields = text.split_whitespace().count();
        let kind = match text {
            _ if text.starts_with("TZ=") => Err("a time zone is not read here".to_owned()),
            _ if text.starts_with('@') || fields == 6 => parse(text),
            _ if fields == 5 => parse(&format!("{text} *")),
            _ => Err(format!("it has {fields} fields, not 6 with seconds first (or 5, without the weekday)")),
        };
        let kind = kind.map_err(|reason| CronError { crontab: text.to_owned(), reason })?;
        Ok(Self { text: text.to_owned(), kind })
    }

    /// The crontab as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first time after `after`; `None` if there is none within five years.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            Kind::Every(seconds) => Timestamp::from_second(after.as_second() + seconds).ok(),
            Kind::Fields(fields) => fields.next(after),
        }
    }
}

fn parse(text: &str) -> Result<Kind, String> {
    let mut rest = text;
    let mut zone = None;
    if let Some(after) = text.strip_prefix("TZ=") {
        let (name, spec) = after.split_once(' ').ok_or("nothing follows the time zone")?;
        zone = Some(match name {
            "" => TimeZone::UTC,
            "Local" => TimeZone::system(),
            name => TimeZone::get(name).map_err(|_| format!("there is no time zone {name:?}"))?,
        });
        rest = spec.trim();
    }
    let zone = zone.unwrap_or_else(TimeZone::system);
    let all = |bounds: &Bounds| bits(bounds.least, bounds.greatest, 1) | STAR;
    let mut fields = Fields {
        second: 1,
        minute: 1,
        hour: 1,
        day: all(&DAY),
        month: all(&MONTH),
        weekday: all(&WEEKDAY),
        zone,
    };
    match rest {
        "@yearly" | "@annually" => (fields.day, fields.month) = (1 << DAY.least, 1 << MONTH.least),
        "@monthly" => fields.day = 1 << DAY.least,
        "@weekly" => fields.weekday = 1,
        "@daily" | "@midnight" => {}
        "@hourly" => fields.hour = all(&HOUR),
        _ => {
            if let Some(every) = rest.strip_prefix("@every ") {
                let nanoseconds = chart_compat::go::duration::parse(every)?;
                return Ok(Kind::Every((nanoseconds / 1_000_000_000).max(1)));
            }
            if rest.starts_with('@') {
                return Err(format!(
                    "{rest:?} is none of @yearly, @monthly, @weekly, @daily, @hourly, @every"
                ));
            }
            let words: Vec<&str> = rest.split_whitespace().collect();
            let words = match words.len() {
                5 => [&["0"], &words[..]].concat(),
                6 => words,
                n => return Err(format!("it has {n} fields, not 5 (or 6, with seconds first)")),
            };
            fields.second = field(words[0], &SECOND)?;
            fields.minute = field(words[1], &SECOND)?;
            fields.hour = field(words[2], &HOUR)?;
            fields.day = field(words[3], &DAY)?;
            fields.month = field(words[4], &MONTH)?;
            fields.weekday = field(words[5], &WEEKDAY)?;
        }
    }
    Ok(Kind::Fields(Box::new(fields)))
}

/// A list of ranges.
fn field(text: &str, bounds: &Bounds) -> Result<u64, String> {
    text.split(',').filter(|part| !part.is_empty()).try_fold(0, |set, part| Ok(set | range(part, bounds)?))
}

/// `*`, `?`, `4`, `1-5`, `mon-fri`, each with `/step` or without.
fn range(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let mut halves = text.split('/');
    let (span, step) = (halves.next().unwrap_or_default(), halves.next());
    if halves.next().is_some() {
        return Err(format!("too many slashes in {text:?}"));
    }
    let ends: Vec<&str> = span.split('-').collect();
    let (start, mut end, star) = if matches!(ends[0], "*" | "?") {
        (bounds.least, bounds.greatest, STAR)
    } else {
        let start = number(ends[0], bounds)?;
        match ends[..] {
            [_] => (start, start, 0),
            [_, end] => (start, number(end, bounds)?, 0),
            _ => return Err(format!("too many hyphens in {text:?}")),
        }
    };
    let step = match step {
        None => 1,
        Some(step) => {
            if ends.len() == 1 {
                end = bounds.greatest;
            }
            // Go's library counts forever with a step of 0.
            number(step, &SECOND).ok().filter(|n| *n > 0).ok_or(format!("no step of {step:?} in {text:?}"))?
        }
    };
    let Bounds { least, greatest, .. } = bounds;
    if start < *least || end > *greatest || start > end {
        return Err(format!("{text:?} is not a range within {least}-{greatest}"));
    }
    Ok(bits(start, end, step) | star)
}

fn number(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match (bounds.least..).zip(bounds.names).find(|(_, name)| **name == lower) {
        Some((number, _)) => Ok(number),
        None => text.parse().map_err(|_| format!("{text:?} is not a number")),
    }
}

fn bits(start: u32, end: u32, step: u32) -> u64 {
    (start..=end).step_by(step as usize).fold(0, |set, n| set | 1 << n)
}

fn has(set: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|v| set & (1 << v) != 0)
}

impl Fields {
    fn day_matches(&self, at: DateTime) -> bool {
        let day = has(self.day, at.day());
        let weekday = has(self.weekday, at.weekday().to_sunday_zero_offset());
        if (self.day | self.weekday) & STAR != 0 { day && weekday } else { day || weekday }
    }

    fn civil(&self, second: i64) -> Option<DateTime> {
        Some(self.zone.to_datetime(Timestamp::from_second(second).ok()?))
    }

    /// The second of a local time; one that a change of clocks skips or repeats is taken as Go's `time.Date` takes it.
    fn second_of(&self, local: DateTime) -> Option<i64> {
        let as_utc = local.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
        let offset =
            |second| Some(i64::from(self.zone.to_offset(Timestamp::from_second(second).ok()?).seconds()));
        let first = offset(as_utc)?;
        Some(as_utc - offset(as_utc - first)?)
    }

    /// Counts as addon-operator's library does, so that days on which clocks change come out the same: each field in turn is
    /// moved on until it fits, and where it wraps around, the larger ones are checked again.
    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let whole = after.as_second();
        // Before 1970 the second is rounded up already.
        let mut at = if after.subsec_nanosecond() < 0 { whole } else { whole + 1 };
        let last_year = self.civil(at)?.year() + 5;
        let mut moved = false;
        'wrap: loop {
            let mut local = self.civil(at)?;
            if local.year() > last_year {
                return None;
            }
            while !has(self.month, local.month()) {
                let first = if moved { local } else { local.date().first_of_month().at(0, 0, 0, 0) };
                moved = true;
                at = self.second_of(first.checked_add(jiff::Span::new().months(1)).ok()?)?;
                local = self.civil(at)?;
                if local.month() == 1 {
                    continue 'wrap;
                }
            }
            while !self.day_matches(local) {
                let start = if moved { local } else { local.date().at(0, 0, 0, 0) };
                moved = true;
                at = self.second_of(start.checked_add(jiff::Span::new().days(1)).ok()?)?;
                local = self.civil(at)?;
                if local.day() == 1 {
                    continue 'wrap;
                }
            }
            // The steps below are of absolute time, and so are their beginnings.
            for (set, unit) in [(self.hour, 3600), (self.minute, 60), (self.second, 1)] {
                loop {
                    let value = match unit {
                        3600 => local.hour(),
                        60 => local.minute(),
                        _ => local.second(),
                    };
                    if has(set, value) {
                        break;
                    }
                    if !moved {
                        moved = true;
                        at -= at.rem_euclid(unit);
                    }
                    at += unit;
                    local = self.civil(at)?;
                    let wrapped = match unit {
                        3600 => local.hour() == 0,
                        60 => local.minute() == 0,
                        _ => local.second() == 0,
                    };
                    if wrapped {
                        continue 'wrap;
                    }
                }
            }
            return Timestamp::from_second(at).ok();
        }
    }
}

#[cfg(test)]
mod tests;
