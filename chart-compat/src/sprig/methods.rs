//! Template-callable methods of versions, times and durations.

use super::args::{bytes, fail, int, text};
use super::dates::{ZERO, added, as_time, between, in_zone, local};
use crate::go::object::{Enum, Time, Version};
use crate::go::time::{days_from_civil, duration_string, time_string};
use crate::go::zone::Zone;
use crate::go::{Object, Value, duration, fmt, layout, semver};
use crate::template::{Error, Exec, Func, Type};

use super::args::Out;
use Type::{Any, Duration as Span, Int, String as Str, Time as Date};

/// The methods of an object.
pub(super) fn of(object: &Object<'_>) -> &'static [Func] {
    match object {
        Object::Version(_) => VERSION,
        Object::Time(_) => TIME,
        Object::Duration(_) => DURATION,
        Object::Enum(_) => ENUM,
        Object::Struct(_) | Object::ApiVersions(_) | Object::Files(_) | Object::Complex(..) => &[],
    }
}

const SEMVER: Type = Type::Struct("*semver.Version");

fn version<'a>(v: Value<'a>) -> Version<'a> {
    match v {
        Value::Object(Object::Version(v)) => *v,
        _ => Version {
            major: 0,
            minor: 0,
            patch: 0,
            prerelease: "",
            metadata: "",
            original: "",
            by_value: false,
        },
    }
}

fn order(a: &[Value<'_>]) -> std::cmp::Ordering {
    semver::compare(&version(a[0]), &version(a[1]))
}

const VERSION: &[Func] = &[
    Func::new("Major", &[Any], |_, a| Ok(Value::Uint64(version(a[0]).major))),
    Func::new("Minor", &[Any], |_, a| Ok(Value::Uint64(version(a[0]).minor))),
    Func::new("Patch", &[Any], |_, a| Ok(Value::Uint64(version(a[0]).patch))),
    Func::new("Prerelease", &[Any], |_, a| Ok(Value::Str(version(a[0]).prerelease.as_bytes()))),
    Func::new("Metadata", &[Any], |_, a| Ok(Value::Str(version(a[0]).metadata.as_bytes()))),
    Func::new("Original", &[Any], |_, a| Ok(Value::Str(version(a[0]).original.as_bytes()))),
    Func::new("String", &[Any], |x, a| Ok(Value::str(x.arena, fmt::version_string(&version(a[0]))))),
    Func::new("Compare", &[Any, SEMVER], |_, a| Ok(Value::Int(order(a) as i64))),
    Func::new("Equal", &[Any, SEMVER], |_, a| Ok(Value::Bool(order(a).is_eq()))),
    Func::new("LessThan", &[Any, SEMVER], |_, a| Ok(Value::Bool(order(a).is_lt()))),
    Func::new("LessThanEqual", &[Any, SEMVER], |_, a| Ok(Value::Bool(order(a).is_le()))),
    Func::new("GreaterThan", &[Any, SEMVER], |_, a| Ok(Value::Bool(order(a).is_gt()))),
    Func::new("GreaterThanEqual", &[Any, SEMVER], |_, a| Ok(Value::Bool(order(a).is_ge()))),
    Func::new("IncPatch", &[Any], |x, a| {
        let v = version(a[0]);
        // The patch release of a prerelease is its own release.
        let patch = if v.prerelease.is_empty() { above(v.patch, "patch")? } else { v.patch };
        Ok(incremented(x, &v, v.major, v.minor, patch))
    }),
    Func::new("IncMinor", &[Any], |x, a| {
        let v = version(a[0]);
        Ok(incremented(x, &v, v.major, above(v.minor, "minor")?, 0))
    }),
    Func::new("IncMajor", &[Any], |x, a| {
        let v = version(a[0]);
        Ok(incremented(x, &v, above(v.major, "major")?, 0, 0))
    }),
];

fn above(number: u64, name: &str) -> Result<u64, Error> {
    number.checked_add(1).ok_or_else(|| Error::new(format!("{name} version increment would overflow uint64")))
}

/// The version with new numbers, without prerelease and metadata. Its original text keeps a leading `v`.
fn incremented<'a>(x: &Exec<'a>, from: &Version<'_>, major: u64, minor: u64, patch: u64) -> Value<'a> {
    let v = if from.original.starts_with('v') { "v" } else { "" };
    let original = x.arena.alloc_str(&format!("{v}{major}.{minor}.{patch}"));
    let version = Version { major, minor, patch, prerelease: "", metadata: "", original, by_value: true };
    Value::object(x.arena, Object::Version(version))
}

fn time<'a>(v: Value<'a>) -> Time<'a> {
    as_time(v).unwrap_or(ZERO)
}

fn nanos(v: Value<'_>) -> i64 {
    match v {
        Value::Object(Object::Duration(d)) => *d,
        other => int(other),
    }
}

fn span<'a>(x: &Exec<'a>, nanos: i64) -> Out<'a> {
    Ok(Value::object(x.arena, Object::Duration(nanos)))
}

fn date<'a>(x: &Exec<'a>, t: Time<'a>) -> Out<'a> {
    Ok(Value::object(x.arena, Object::Time(t)))
}

fn named<'a>(
    x: &Exec<'a>,
    type_name: &'static str,
    value: u32,
    names: &[&'static str],
    first: u32,
) -> Out<'a> {
    let text = usize::try_from(value - first).ok().and_then(|i| names.get(i)).copied().unwrap_or_default();
    Ok(Value::object(x.arena, Object::Enum(Enum { type_name, value: i64::from(value), text })))
}

fn unix_nanos(t: &Time<'_>) -> i64 {
    t.seconds.wrapping_mul(1_000_000_000).wrapping_add(i64::from(t.nanos))
}

/// Nanoseconds since the last multiple of `unit`. Like `Round` and `Truncate`, it counts from year 1.
fn past_multiple(t: &Time<'_>, unit: i64) -> i64 {
    let total = (i128::from(t.seconds) - i128::from(ZERO.seconds)) * 1_000_000_000 + i128::from(t.nanos);
    i64::try_from(total.rem_euclid(i128::from(unit))).unwrap_or(0)
}

const TIME: &[Func] = &[
    Func::new("Format", &[Any, Str], |x, a| {
        Ok(Value::str(x.arena, layout::format(&time(a[0]), bytes(a[1]))))
    }),
    Func::new("String", &[Any], |x, a| Ok(Value::str(x.arena, time_string(&time(a[0]))))),
    Func::new("Unix", &[Any], |_, a| Ok(Value::Int64(time(a[0]).seconds))),
    Func::new("UnixMilli", &[Any], |_, a| {
        let t = time(a[0]);
        Ok(Value::Int64(t.seconds.wrapping_mul(1000).wrapping_add(i64::from(t.nanos / 1_000_000))))
    }),
    Func::new("UnixMicro", &[Any], |_, a| {
        let t = time(a[0]);
        Ok(Value::Int64(t.seconds.wrapping_mul(1_000_000).wrapping_add(i64::from(t.nanos / 1000))))
    }),
    Func::new("UnixNano", &[Any], |_, a| Ok(Value::Int64(unix_nanos(&time(a[0]))))),
    Func::new("Year", &[Any], |_, a| Ok(Value::Int(time(a[0]).civil().year))),
    Func::new("Month", &[Any], |x, a| named(x, "time.Month", time(a[0]).civil().month, &layout::MONTHS, 1)),
    Func::new("Day", &[Any], |_, a| Ok(Value::Int(i64::from(time(a[0]).civil().day)))),
    Func::new("YearDay", &[Any], |_, a| Ok(Value::Int(i64::from(time(a[0]).civil().yearday)))),
    Func::new("Weekday", &[Any], |x, a| {
        named(x, "time.Weekday", time(a[0]).civil().weekday, &layout::DAYS, 0)
    }),
    Func::new("Hour", &[Any], |_, a| Ok(Value::Int(i64::from(time(a[0]).civil().hour)))),
    Func::new("Minute", &[Any], |_, a| Ok(Value::Int(i64::from(time(a[0]).civil().minute)))),
    Func::new("Second", &[Any], |_, a| Ok(Value::Int(i64::from(time(a[0]).civil().second)))),
    Func::new("Nanosecond", &[Any], |_, a| Ok(Value::Int(i64::from(time(a[0]).nanos)))),
    Func::new("IsZero", &[Any], |_, a| {
        let t = time(a[0]);
        Ok(Value::Bool(t.seconds == ZERO.seconds && t.nanos == 0))
    }),
    Func::new("UTC", &[Any], |x, a| {
        let t = time(a[0]);
        date(x, in_zone(x.arena, t.seconds, t.nanos, &Zone::utc()))
    }),
    Func::new("Local", &[Any], |x, a| {
        let t = time(a[0]);
        date(x, in_zone(x.arena, t.seconds, t.nanos, &local(x)))
    }),
    Func::new("Add", &[Any, Span], |x, a| date(x, added(x.arena, &time(a[0]), nanos(a[1])))),
    Func::new("Sub", &[Any, Date], |x, a| span(x, between(&time(a[0]), &time(a[1])))),
    Func::new("AddDate", &[Any, Int, Int, Int], add_date),
    Func::new("Before", &[Any, Date], |_, a| Ok(Value::Bool(moment(a[0]) < moment(a[1])))),
    Func::new("After", &[Any, Date], |_, a| Ok(Value::Bool(moment(a[0]) > moment(a[1])))),
    Func::new("Equal", &[Any, Date], |_, a| Ok(Value::Bool(moment(a[0]) == moment(a[1])))),
    Func::new("Compare", &[Any, Date], |_, a| Ok(Value::Int(moment(a[0]).cmp(&moment(a[1])) as i64))),
    Func::new("Truncate", &[Any, Span], |x, a| {
        let (t, unit) = (time(a[0]), nanos(a[1]));
        let back = if unit > 0 { past_multiple(&t, unit) } else { 0 };
        date(x, added(x.arena, &t, -back))
    }),
    Func::new("Round", &[Any, Span], |x, a| {
        let (t, unit) = (time(a[0]), nanos(a[1]));
        let past = if unit > 0 { past_multiple(&t, unit) } else { 0 };
        let by = if past < unit - past { -past } else { (unit - past).max(0) };
        date(x, added(x.arena, &t, by))
    }),
];

fn moment(v: Value<'_>) -> (i64, u32) {
    let t = time(v);
    (t.seconds, t.nanos)
}

/// The date plus years, months and days, normalized. The time of day in the time's own zone does not change.
fn add_date<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let t = time(a[0]);
    let c = t.civil();
    let months = (c.year.saturating_add(int(a[1])))
        .saturating_mul(12)
        .saturating_add(i64::from(c.month) - 1)
        .saturating_add(int(a[2]));
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12));
    if year.abs() > 1_000_000_000 {
        return fail(format!("AddDate: year {year} is out of range"));
    }
    let first = days_from_civil(year, u32::try_from(month).unwrap_or(0) + 1, 1);
    let day = first.saturating_add(i64::from(c.day) - 1).saturating_add(int(a[3]));
    let clock = i64::from((c.hour * 60 + c.minute) * 60 + c.second);
    let at = day.saturating_mul(86_400).saturating_add(clock);
    let moved = match Zone::named(t.zone).filter(|_| !t.zone.is_empty()) {
        Some(zone) => in_zone(x.arena, zone.moment(at), t.nanos, &zone),
        None => Time { seconds: at - i64::from(t.offset), ..t },
    };
    date(x, moved)
}

#[allow(clippy::cast_precision_loss)]
fn in_units(v: Value<'_>, unit: i64) -> f64 {
    // Like Go, convert whole units and the rest separately, to keep large durations exact.
    let n = nanos(v);
    (n / unit) as f64 + (n % unit) as f64 / unit as f64
}

/// Methods of durations. The conversion functions return the same results.
const DURATION: &[Func] = &[
    Func::new("String", &[Any], |x, a| Ok(Value::str(x.arena, duration_string(nanos(a[0]))))),
    Func::new("Seconds", &[Any], |_, a| Ok(Value::Float(in_units(a[0], 1_000_000_000)))),
    Func::new("Minutes", &[Any], |_, a| Ok(Value::Float(in_units(a[0], 60_000_000_000)))),
    Func::new("Hours", &[Any], |_, a| Ok(Value::Float(in_units(a[0], 3_600_000_000_000)))),
    Func::new("Milliseconds", &[Any], |_, a| Ok(Value::Int64(nanos(a[0]) / 1_000_000))),
    Func::new("Microseconds", &[Any], |_, a| Ok(Value::Int64(nanos(a[0]) / 1000))),
    Func::new("Nanoseconds", &[Any], |_, a| Ok(Value::Int64(nanos(a[0])))),
    Func::new("Abs", &[Any], |x, a| span(x, nanos(a[0]).saturating_abs())),
    Func::new("Round", &[Any, Span], |x, a| span(x, duration::round(nanos(a[0]), nanos(a[1])))),
    Func::new("Truncate", &[Any, Span], |x, a| span(x, duration::truncate(nanos(a[0]), nanos(a[1])))),
];

const ENUM: &[Func] = &[Func::new("String", &[Any], |_, a| {
    Ok(match a[0] {
        Value::Object(Object::Enum(e)) => Value::Str(e.text.as_bytes()),
        _ => Value::Nil,
    })
})];

/// Parses a version range. Fails at the first group that is not valid UTF-8.
fn range(text: &[u8]) -> Result<semver::Range, String> {
    if let Ok(text) = std::str::from_utf8(text) {
        return semver::Range::parse(text);
    }
    let mut rest = text;
    loop {
        let end = memchr::memmem::find(rest, b"||").unwrap_or(rest.len());
        let group = &rest[..end];
        match std::str::from_utf8(group) {
            Ok(group) => semver::Range::parse(group)?,
            Err(_) => return Err(format!("improper constraint: {}", crate::go::strconv::quote(group))),
        };
        rest = rest.get(end + 2..).unwrap_or_default();
    }
}

/// sprig's version functions.
pub(super) const FUNCS: &[Func] = &[
    Func::new("semver", &[Str], |x, a| {
        let v = x.arena.alloc_str(&text(a[0]));
        Ok(Value::object(x.arena, Object::Version(semver::parse(v).map_err(Error::new)?)))
    }),
    Func::new("semverCompare", &[Str, Str], |_, a| {
        let range = range(bytes(a[0])).map_err(Error::new)?;
        let v = text(a[1]);
        Ok(Value::Bool(range.check(&semver::parse(&v).map_err(Error::new)?)))
    }),
];

/// Helm 4's duration functions.
pub(super) const HELM4: &[Func] = &[
    Func::new("mustToDuration", &[Any], |x, a| {
        let d = as_duration(x, a[0]).map_err(Error::new)?;
        span(x, d)
    }),
    Func::new("durationSeconds", &[Any], |x, a| Ok(Value::Float(converted(x, a[0], 1_000_000_000)))),
    Func::new("durationMilliseconds", &[Any], |x, a| {
        Ok(Value::Int64(as_duration(x, a[0]).unwrap_or(0) / 1_000_000))
    }),
    Func::new("durationMicroseconds", &[Any], |x, a| {
        Ok(Value::Int64(as_duration(x, a[0]).unwrap_or(0) / 1000))
    }),
    Func::new("durationNanoseconds", &[Any], |x, a| Ok(Value::Int64(as_duration(x, a[0]).unwrap_or(0)))),
    Func::new("durationMinutes", &[Any], |x, a| Ok(Value::Float(converted(x, a[0], 60_000_000_000)))),
    Func::new("durationHours", &[Any], |x, a| Ok(Value::Float(converted(x, a[0], 3_600_000_000_000)))),
    Func::new("durationDays", &[Any], |x, a| Ok(Value::Float(converted(x, a[0], 3_600_000_000_000) / 24.0))),
    Func::new("durationWeeks", &[Any], |x, a| {
        Ok(Value::Float(converted(x, a[0], 3_600_000_000_000) / 24.0 / 7.0))
    }),
    Func::new("durationRoundTo", &[Any, Any], |x, a| to_multiple(x, a, duration::round)),
    Func::new("durationTruncateTo", &[Any, Any], |x, a| to_multiple(x, a, duration::truncate)),
];

fn converted(x: &Exec<'_>, v: Value<'_>, unit: i64) -> f64 {
    in_units(Value::Int64(as_duration(x, v).unwrap_or(0)), unit)
}

fn to_multiple<'a>(x: &mut Exec<'a>, a: &[Value<'a>], f: fn(i64, i64) -> i64) -> Out<'a> {
    let result = match (as_duration(x, a[0]), as_duration(x, a[1])) {
        (Err(_), _) => 0,
        (Ok(d), Err(_)) => d,
        (Ok(d), Ok(m)) => f(d, m),
    };
    span(x, result)
}

/// Helm's `asDuration`: a string with units, or a number of seconds.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn as_duration(x: &Exec<'_>, v: Value<'_>) -> Result<i64, String> {
    let whole =
        |n: i128| i64::try_from(n * 1_000_000_000).map_err(|_| format!("duration seconds overflow: {n}"));
    let float = |f: f64| {
        let shown = crate::go::strconv::format_float(f);
        if !f.is_finite() {
            return Err(format!("invalid duration seconds: {shown}"));
        }
        let nanos = f * 1e9;
        if f.abs() > i64::MAX as f64 / 1e9 || nanos.abs() > i64::MAX as f64 {
            return Err(format!("duration seconds overflow: {shown}"));
        }
        Ok(nanos as i64)
    };
    match v {
        Value::Object(Object::Duration(d)) => Ok(*d),
        Value::Str(s) => {
            let t = text(Value::Str(crate::go::trim::space(s)));
            if t.is_empty() {
                return Err("empty duration".to_owned());
            }
            if let Ok(d) = duration::parse(&t) {
                return Ok(d);
            }
            match crate::go::strconv::parse_float(&t) {
                Ok(f) => float(f),
                Err(_) => Err(format!("could not parse duration {}", crate::go::strconv::quote(s))),
            }
        }
        Value::Nil | Value::NilInterface => Err("invalid duration".to_owned()),
        Value::Int(n) | Value::Int64(n) => whole(i128::from(n)),
        Value::Uint64(n) => whole(i128::from(n)),
        Value::Object(Object::Enum(e)) => whole(i128::from(e.value)),
        Value::Float(f) => float(f),
        other => Err(format!("unsupported duration type {}", other.type_name(x.funcs.values_type))),
    }
}
