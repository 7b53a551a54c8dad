//! Go's time layouts: the reference time `Mon Jan 2 15:04:05 MST 2006`, written in the desired format.

use super::object::Time;
use super::time::{Civil, days_from_civil, quote};
use super::zone::Zone;

/// The layout of times in Go's JSON.
pub(crate) const RFC3339_NANO: &str = "2006-01-02T15:04:05.999999999Z07:00";

/// Month names; their first three letters are the short names.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Weekday names from Sunday; their first three letters are the short names.
pub(crate) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The padding of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pad {
    None,
    Space,
    Zero,
}

/// An element of a layout.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    Year { long: bool },
    MonthName { long: bool },
    Month(Pad),
    WeekDay { long: bool },
    Day(Pad),
    YearDay(Pad),
    Hour,
    Hour12(Pad),
    Minute(Pad),
    Second(Pad),
    Half { upper: bool },
    Offset { zulu: bool, colon: bool, minutes: bool, seconds: bool },
    ZoneName,
    Fraction { digits: usize, all: bool, comma: bool },
}

/// The literal text before the next element, the element with its text, and the rest of the layout.
type Next<'l> = (&'l [u8], Option<(Piece, &'l [u8])>, &'l [u8]);

const OFFSETS: [(&str, bool, bool, bool); 5] = [
    // text after the sign, colon, minutes, seconds; a text precedes its own prefixes
    ("070000", false, true, true),
    ("07:00:00", true, true, true),
    ("0700", false, true, false),
    ("07:00", true, true, false),
    ("07", false, false, false),
];

/// The element at the start of `s` and its length (one step of `nextStdChunk`).
fn piece(s: &[u8]) -> Option<(Piece, usize)> {
    let name = |text: &str| s.starts_with(text.as_bytes());
    // `Jan` is not a month if another lower-case letter follows, as in `Janet`.
    let short = |text: &str| name(text) && !s.get(3).is_some_and(u8::is_ascii_lowercase);
    let offset = |zulu: bool| {
        let (text, colon, minutes, seconds) =
            OFFSETS.into_iter().find(|o| s[1..].starts_with(o.0.as_bytes()))?;
        Some((Piece::Offset { zulu, colon, minutes, seconds }, 1 + text.len()))
    };
    match s.first()? {
        b'J' if name("January") => Some((Piece::MonthName { long: true }, 7)),
        b'J' if short("Jan") => Some((Piece::MonthName { long: false }, 3)),
        b'M' if name("Monday") => Some((Piece::WeekDay { long: true }, 6)),
        b'M' if short("Mon") => Some((Piece::WeekDay { long: false }, 3)),
        b'M' if name("MST") => Some((Piece::ZoneName, 3)),
        b'0' => match s.get(1)? {
            b'1' => Some((Piece::Month(Pad::Zero), 2)),
            b'2' => Some((Piece::Day(Pad::Zero), 2)),
            b'3' => Some((Piece::Hour12(Pad::Zero), 2)),
            b'4' => Some((Piece::Minute(Pad::Zero), 2)),
            b'5' => Some((Piece::Second(Pad::Zero), 2)),
            b'6' => Some((Piece::Year { long: false }, 2)),
            b'0' if name("002") => Some((Piece::YearDay(Pad::Zero), 3)),
            _ => None,
        },
        b'1' if name("15") => Some((Piece::Hour, 2)),
        b'1' => Some((Piece::Month(Pad::None), 1)),
        b'2' if name("2006") => Some((Piece::Year { long: true }, 4)),
        b'2' => Some((Piece::Day(Pad::None), 1)),
        b'_' if name("_2") && !name("_2006") => Some((Piece::Day(Pad::Space), 2)),
        b'_' if name("__2") => Some((Piece::YearDay(Pad::Space), 3)),
        b'3' => Some((Piece::Hour12(Pad::None), 1)),
        b'4' => Some((Piece::Minute(Pad::None), 1)),
        b'5' => Some((Piece::Second(Pad::None), 1)),
        b'P' if name("PM") => Some((Piece::Half { upper: true }, 2)),
        b'p' if name("pm") => Some((Piece::Half { upper: false }, 2)),
        b'-' => offset(false),
        b'Z' => offset(true),
        separator @ (b'.' | b',') => {
            let digit = *s.get(1).filter(|d| matches!(d, b'0' | b'9'))?;
            let digits = s[1..].iter().take_while(|b| **b == digit).count();
            if s.get(1 + digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            Some((Piece::Fraction { digits, all: digit == b'0', comma: *separator == b',' }, 1 + digits))
        }
        _ => None,
    }
}

fn next(layout: &[u8]) -> Next<'_> {
    for i in 0..layout.len() {
        if let Some((piece, n)) = piece(&layout[i..]) {
            return (&layout[..i], Some((piece, &layout[i..i + n])), &layout[i + n..]);
        }
    }
    (layout, None, &[])
}

fn push_number(out: &mut Vec<u8>, n: i64, width: usize) {
    if n < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(format!("{:0width$}", n.unsigned_abs()).as_bytes());
}

fn padded(out: &mut Vec<u8>, n: u32, pad: Pad, width: usize) {
    let text = match pad {
        Pad::None => n.to_string(),
        Pad::Space => format!("{n:width$}"),
        Pad::Zero => format!("{n:0width$}"),
    };
    out.extend_from_slice(text.as_bytes());
}

/// Formats a time with a layout (`Time.Format`).
#[must_use]
pub fn format(t: &Time<'_>, layout: &[u8]) -> Vec<u8> {
    let c = t.civil();
    let mut out = Vec::with_capacity(layout.len() + 10);
    let mut rest = layout;
    loop {
        let (prefix, piece, suffix) = next(rest);
        out.extend_from_slice(prefix);
        let Some((piece, _)) = piece else { return out };
        write(&mut out, t, &c, piece);
        rest = suffix;
    }
}

fn write(out: &mut Vec<u8>, t: &Time<'_>, c: &Civil, piece: Piece) {
    let name = |all: &[&str], i: u32, long: bool| -> Vec<u8> {
        let full = all.get(usize::try_from(i).unwrap_or(0)).copied().unwrap_or_default();
        full.as_bytes()[..if long { full.len() } else { full.len().min(3) }].to_vec()
    };
    match piece {
        Piece::Year { long: false } => push_number(out, c.year.abs() % 100, 2),
        Piece::Year { long: true } => push_number(out, c.year, 4),
        Piece::MonthName { long } => out.extend(name(&MONTHS, c.month - 1, long)),
        Piece::Month(pad) => padded(out, c.month, pad, 2),
        Piece::WeekDay { long } => out.extend(name(&DAYS, c.weekday, long)),
        Piece::Day(pad) => padded(out, c.day, pad, 2),
        Piece::YearDay(pad) => padded(out, c.yearday, pad, 3),
        Piece::Hour => padded(out, c.hour, Pad::Zero, 2),
        Piece::Hour12(pad) => padded(out, (c.hour + 11) % 12 + 1, pad, 2),
        Piece::Minute(pad) => padded(out, c.minute, pad, 2),
        Piece::Second(pad) => padded(out, c.second, pad, 2),
        Piece::Half { upper } => out.extend_from_slice(match (c.hour >= 12, upper) {
            (true, true) => b"PM",
            (false, true) => b"AM",
            (true, false) => b"pm",
            (false, false) => b"am",
        }),
        Piece::Offset { zulu: true, .. } if t.offset == 0 => out.push(b'Z'),
        Piece::Offset { colon, minutes, seconds, .. } => {
            let size = t.offset.unsigned_abs();
            // Go takes the sign of the offset in minutes.
            out.push(if t.offset / 60 < 0 { b'-' } else { b'+' });
            padded(out, size / 3600, Pad::Zero, 2);
            if minutes {
                if colon {
                    out.push(b':');
                }
                padded(out, size / 60 % 60, Pad::Zero, 2);
            }
            if seconds {
                if colon {
                    out.push(b':');
                }
                padded(out, size % 60, Pad::Zero, 2);
            }
        }
        Piece::ZoneName if t.abbreviation.is_empty() => {
            let size = t.offset.unsigned_abs() / 60;
            out.push(if t.offset / 60 < 0 { b'-' } else { b'+' });
            padded(out, size / 60, Pad::Zero, 2);
            padded(out, size % 60, Pad::Zero, 2);
        }
        Piece::ZoneName => out.extend_from_slice(t.abbreviation.as_bytes()),
        Piece::Fraction { digits, all, comma } => {
            let text = format!("{:09}", t.nanos);
            let text = &text[..digits.min(9)];
            let text = if all { text } else { text.trim_end_matches('0') };
            if all || !text.is_empty() {
                out.push(if comma { b',' } else { b'.' });
                out.extend_from_slice(text.as_bytes());
                out.resize(out.len() + if all { digits.saturating_sub(9) } else { 0 }, b'0');
            }
        }
    }
}

/// A parsed time.
pub(crate) struct Parsed {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Its zone.
    pub place: Place,
}

/// The zone of a parsed time.
pub(crate) enum Place {
    /// UTC
    Utc,
    /// The local zone.
    Local,
    /// An offset that differs from the local zone's, with the parsed abbreviation.
    Fixed(i32, String),
}

/// The reason why an element does not parse.
enum Bad {
    Text,
    Range(&'static str),
}

type Read<T> = Result<T, Bad>;

#[derive(Default)]
struct Fields {
    year: i64,
    month: Option<u32>,
    day: Option<u32>,
    yearday: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
    /// Whether PM (true) or AM was parsed.
    afternoon: Option<bool>,
    utc: bool,
    offset: Option<i32>,
    zone: String,
}

fn digit(s: &[u8], i: usize) -> Option<u32> {
    s.get(i).filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0'))
}

/// Parses one or two digits, or exactly two if `fixed` (`getnum`).
fn number(s: &mut &[u8], fixed: bool) -> Read<u32> {
    let (n, len) = match (digit(s, 0), digit(s, 1)) {
        (Some(a), Some(b)) => (a * 10 + b, 2),
        (Some(a), None) if !fixed => (a, 1),
        _ => return Err(Bad::Text),
    };
    *s = &s[len..];
    Ok(n)
}

fn name_index(s: &mut &[u8], names: &[&str], long: bool) -> Read<u32> {
    for (i, name) in (0..).zip(names) {
        let name = if long { name } else { &name[..3] };
        if s.len() >= name.len() && s[..name.len()].eq_ignore_ascii_case(name.as_bytes()) {
            *s = &s[name.len()..];
            return Ok(i);
        }
    }
    Err(Bad::Text)
}

fn in_range(n: u32, limit: u32, what: &'static str) -> Read<u32> {
    if n < limit { Ok(n) } else { Err(Bad::Range(what)) }
}

/// Parses a separator and digits, `len` bytes in all, as nanoseconds.
fn nanoseconds(s: &mut &[u8], len: usize) -> Read<u32> {
    if s.len() < len || !matches!(s.first(), Some(b'.' | b',')) {
        return Err(Bad::Text);
    }
    let digits = &s[1..len];
    let mut nanos = 0;
    for i in 0..9 {
        let value = match digits.get(i) {
            None => 0,
            Some(b) if b.is_ascii_digit() => u32::from(b - b'0'),
            Some(_) => return Err(Bad::Text),
        };
        nanos = nanos * 10 + value;
    }
    *s = &s[len..];
    Ok(nanos)
}

/// The length of the fraction at the start of `s`, separator included.
fn fraction(s: &[u8]) -> Option<usize> {
    let digits = s.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
    (matches!(s.first(), Some(b'.' | b',')) && digits > 0).then_some(1 + digits)
}

/// The length of the abbreviation at the start of `s` (`parseTimeZone`).
fn zone_name(s: &[u8]) -> Option<usize> {
    let signed = |s: &[u8]| -> usize {
        let digits = s.iter().skip(1).take_while(|b| b.is_ascii_digit()).count();
        let hours = std::str::from_utf8(s.get(1..=digits).unwrap_or_default()).unwrap_or_default();
        let ok = matches!(s.first(), Some(b'+' | b'-')) && hours.parse::<u64>().is_ok_and(|h| h <= 23);
        if ok { 1 + digits } else { 0 }
    };
    if s.len() < 3 {
        return None;
    }
    if s.starts_with(b"ChST") || s.starts_with(b"MeST") {
        return Some(4);
    }
    if s.starts_with(b"GMT") {
        return Some(3 + signed(&s[3..]));
    }
    if matches!(s[0], b'+' | b'-') {
        return Some(signed(s)).filter(|n| *n > 0);
    }
    match s.iter().take(6).take_while(|b| b.is_ascii_uppercase()).count() {
        5 if s[4] == b'T' => Some(5),
        4 if s[3] == b'T' || s.starts_with(b"WITA") => Some(4),
        3 => Some(3),
        _ => None,
    }
}

impl Fields {
    /// Parses one element; `after` is the rest of the layout.
    fn read(&mut self, piece: Piece, s: &mut &[u8], after: &[u8]) -> Read<()> {
        match piece {
            Piece::Year { long: false } => {
                // Two characters; the first can be a sign.
                let text = s.get(..2).and_then(|t| std::str::from_utf8(t).ok()).ok_or(Bad::Text)?;
                let year: i64 = text.parse().map_err(|_| Bad::Text)?;
                self.year = year + if year >= 69 { 1900 } else { 2000 };
                *s = &s[2..];
            }
            Piece::Year { long: true } => {
                let text = s.get(..4).filter(|t| t.iter().all(u8::is_ascii_digit)).ok_or(Bad::Text)?;
                self.year = text.iter().fold(0, |n, b| n * 10 + i64::from(b - b'0'));
                *s = &s[4..];
            }
            Piece::MonthName { long } => self.month = Some(name_index(s, &MONTHS, long)? + 1),
            Piece::Month(pad) => {
                let n = number(s, pad == Pad::Zero)?;
                if !(1..=12).contains(&n) {
                    return Err(Bad::Range("month"));
                }
                self.month = Some(n);
            }
            Piece::WeekDay { long } => {
                name_index(s, &DAYS, long)?;
            }
            Piece::Day(pad) => {
                if pad == Pad::Space {
                    *s = s.strip_prefix(b" ").unwrap_or(s);
                }
                self.day = Some(number(s, pad == Pad::Zero)?);
            }
            Piece::YearDay(pad) => {
                if pad == Pad::Space {
                    *s = s.strip_prefix(b" ").unwrap_or(s);
                    *s = s.strip_prefix(b" ").unwrap_or(s);
                }
                let n = (0..3).take_while(|i| digit(s, *i).is_some()).count();
                if n == 0 || pad == Pad::Zero && n != 3 {
                    return Err(Bad::Text);
                }
                self.yearday = Some(s[..n].iter().fold(0, |v, b| v * 10 + u32::from(b - b'0')));
                *s = &s[n..];
            }
            Piece::Hour => self.hour = in_range(number(s, false)?, 24, "hour")?,
            Piece::Hour12(pad) => self.hour = in_range(number(s, pad == Pad::Zero)?, 13, "hour")?,
            Piece::Minute(pad) => self.minute = in_range(number(s, pad == Pad::Zero)?, 60, "minute")?,
            Piece::Second(pad) => {
                self.second = in_range(number(s, pad == Pad::Zero)?, 60, "second")?;
                let wanted = matches!(next(after).1, Some((Piece::Fraction { .. }, _)));
                if let Some(len) = fraction(s).filter(|_| !wanted) {
                    self.nanos = nanoseconds(s, len)?;
                }
            }
            Piece::Half { upper } => {
                let text = s.get(..2).ok_or(Bad::Text)?;
                let (am, pm): (&[u8], &[u8]) = if upper { (b"AM", b"PM") } else { (b"am", b"pm") };
                self.afternoon = Some(if text == pm {
                    true
                } else if text == am {
                    false
                } else {
                    return Err(Bad::Text);
                });
                *s = &s[2..];
            }
            Piece::Offset { zulu: true, .. } if s.first() == Some(&b'Z') => {
                self.utc = true;
                *s = &s[1..];
            }
            Piece::Offset { colon, minutes, seconds, .. } => {
                // The sign is checked last, so a number out of range takes precedence.
                let parts = 1 + usize::from(minutes) + usize::from(seconds);
                let step = if colon { 3 } else { 2 };
                let size = 1 + 2 * parts + if colon { parts - 1 } else { 0 };
                let colons = |at: usize| !colon || at >= size || s.get(at) == Some(&b':');
                if s.len() < size || !colons(3) || !colons(6) {
                    return Err(Bad::Text);
                }
                let (text, rest) = s.split_at(size);
                let mut numbers = [0; 3];
                let mut read = true;
                for (i, value) in numbers.iter_mut().enumerate().take(parts) {
                    let mut digits = &text[1 + i * step..];
                    match number(&mut digits, true) {
                        Ok(n) if read => *value = n,
                        _ => read = false,
                    }
                }
                let [h, m, sec] = numbers;
                in_range(h, 25, "time zone offset hour")?;
                in_range(m, 61, "time zone offset minute")?;
                in_range(sec, 61, "time zone offset second")?;
                let sign = match text[0] {
                    b'+' if read => 1,
                    b'-' if read => -1,
                    _ => return Err(Bad::Text),
                };
                self.offset = Some(sign * i32::try_from((h * 60 + m) * 60 + sec).unwrap_or(0));
                *s = rest;
            }
            Piece::ZoneName if s.starts_with(b"UTC") => {
                self.utc = true;
                *s = &s[3..];
            }
            Piece::ZoneName => {
                let n = zone_name(s).ok_or(Bad::Text)?;
                self.zone = String::from_utf8_lossy(&s[..n]).into_owned();
                *s = &s[n..];
            }
            Piece::Fraction { digits, all: true, .. } => self.nanos = nanoseconds(s, 1 + digits)?,
            Piece::Fraction { .. } => {
                if let Some(len) = fraction(s) {
                    self.nanos = nanoseconds(s, len)?;
                }
            }
        }
        Ok(())
    }

    /// The date, from month and day or from the day of the year.
    fn date(&self) -> Result<(u32, u32), &'static str> {
        let (mut month, mut day) = (self.month, self.day);
        if let Some(yearday) = self.yearday {
            let last = if is_leap(self.year) { 366 } else { 365 };
            if !(1..=last).contains(&yearday) {
                return Err("day-of-year out of range");
            }
            let (mut m, mut d) = (1, yearday);
            while d > days_in(m, self.year) {
                d -= days_in(m, self.year);
                m += 1;
            }
            if month.is_some_and(|have| have != m) {
                return Err("day-of-year does not match month");
            }
            if day.is_some_and(|have| have != d) {
                return Err("day-of-year does not match day");
            }
            (month, day) = (Some(m), Some(d));
        }
        let (month, day) = (month.unwrap_or(1), day.unwrap_or(1));
        if day < 1 || day > days_in(month, self.year) {
            return Err("day out of range");
        }
        Ok((month, day))
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of days of a month.
fn days_in(month: u32, year: i64) -> u32 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Skips the literal text of a layout. A blank in it matches any number of blanks (`skip`).
fn skip<'v>(value: &'v [u8], prefix: &[u8]) -> Result<&'v [u8], &'v [u8]> {
    let (mut value, mut prefix) = (value, prefix);
    while let Some(wanted) = prefix.first() {
        if *wanted == b' ' {
            if value.first().is_some_and(|b| *b != b' ') {
                return Err(value);
            }
            prefix = prefix.trim_ascii_start_spaces();
            value = value.trim_ascii_start_spaces();
        } else if value.first() == Some(wanted) {
            prefix = &prefix[1..];
            value = &value[1..];
        } else {
            return Err(value);
        }
    }
    Ok(value)
}

trait Blanks {
    fn trim_ascii_start_spaces(&self) -> &Self;
}

impl Blanks for [u8] {
    fn trim_ascii_start_spaces(&self) -> &Self {
        &self[self.iter().take_while(|b| **b == b' ').count()..]
    }
}

/// Parses a time with a layout. A time without a zone is in `local` (`time.ParseInLocation`).
///
/// # Errors
/// Go's error text, e.g. `parsing time "x" as "2006": cannot parse "x" as "2006"`.
pub(crate) fn parse(layout: &[u8], value: &[u8], local: &Zone) -> Result<Parsed, String> {
    let cannot = |rest: &[u8], piece: &[u8]| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(value),
            quote(layout),
            quote(rest),
            quote(piece)
        )
    };
    let wrong = |what: &str| format!("parsing time {}: {what}", quote(value));
    let mut fields = Fields::default();
    let (mut layout_rest, mut rest) = (layout, value);
    loop {
        let (prefix, piece, suffix) = next(layout_rest);
        rest = skip(rest, prefix).map_err(|at| cannot(at, prefix))?;
        let Some((piece, text)) = piece else {
            if !rest.is_empty() {
                return Err(wrong(&format!("extra text: {}", quote(rest))));
            }
            break;
        };
        let hold = rest;
        fields.read(piece, &mut rest, suffix).map_err(|bad| match bad {
            Bad::Text => cannot(hold, text),
            Bad::Range(what) => wrong(&format!("{what} out of range")),
        })?;
        layout_rest = suffix;
    }
    match fields.afternoon {
        Some(true) if fields.hour < 12 => fields.hour += 12,
        Some(false) if fields.hour == 12 => fields.hour = 0,
        _ => {}
    }
    let (month, day) = fields.date().map_err(wrong)?;
    let clock = (fields.hour * 60 + fields.minute) * 60 + fields.second;
    let local_seconds = days_from_civil(fields.year, month, day) * 86_400 + i64::from(clock);
    let nanos = fields.nanos;
    let (seconds, place) = fields.place(local_seconds, local);
    Ok(Parsed { seconds, nanos, place })
}

impl Fields {
    /// The time and zone of a parsed date; `at` is the date in seconds as if it were UTC.
    fn place(self, at: i64, local: &Zone) -> (i64, Place) {
        if self.utc {
            return (at, Place::Utc);
        }
        if let Some(offset) = self.offset {
            let moment = at - i64::from(offset);
            let here = local.at(moment);
            let same = here.seconds == offset && (self.zone.is_empty() || here.abbreviation == self.zone);
            return (moment, if same { Place::Local } else { Place::Fixed(offset, self.zone) });
        }
        if self.zone.is_empty() {
            return (local.moment(at), Place::Local);
        }
        if let Some(offset) = local.offset_of(&self.zone, at) {
            return (at - i64::from(offset), Place::Local);
        }
        // An unknown abbreviation has no offset, except GMT with hours. As in Go, the seconds are those of UTC in either case.
        let hours = self.zone.strip_prefix("GMT").and_then(|h| h.parse::<i32>().ok()).unwrap_or(0);
        (at, Place::Fixed(hours * 3600, self.zone))
    }
}
