//! Date functions. The [`World`](crate::world::World) provides the clock and the local zone.

use super::args::{Out, bytes, fail};
use super::random::remembered;
use crate::go::layout::{self, Place};
use crate::go::object::Time;
use crate::go::zone::Zone;
use crate::go::{Arena, Object, Value, duration, strconv, time};
use crate::template::{Error, Exec, Func, Type};

use Type::{Any, String as Str, Time as Date};

pub(super) const FUNCS: &[Func] = &[
    Func::new("now", &[], |x, _| Ok(Value::object(x.arena, Object::Time(now(x)?)))),
    Func::new("ago", &[Any], ago),
    Func::new("date", &[Str, Any], |x, a| date_in_zone(x, bytes(a[0]), a[1], b"Local")),
    Func::new("date_in_zone", &[Str, Any, Str], |x, a| date_in_zone(x, bytes(a[0]), a[1], bytes(a[2]))),
    Func::new("dateInZone", &[Str, Any, Str], |x, a| date_in_zone(x, bytes(a[0]), a[1], bytes(a[2]))),
    Func::new("htmlDate", &[Any], |x, a| date_in_zone(x, b"2006-01-02", a[0], b"Local")),
    Func::new("htmlDateInZone", &[Any, Str], |x, a| date_in_zone(x, b"2006-01-02", a[0], bytes(a[1]))),
    Func::new("date_modify", &[Str, Date], |x, a| Ok(modified(x, a).unwrap_or(a[1]))),
    Func::new("dateModify", &[Str, Date], |x, a| Ok(modified(x, a).unwrap_or(a[1]))),
    Func::new("must_date_modify", &[Str, Date], modified),
    Func::new("mustDateModify", &[Str, Date], modified),
    Func::new("toDate", &[Str, Str], |x, a| {
        let arena = x.arena;
        Ok(parsed(x, a).unwrap_or_else(|_| Value::object(arena, Object::Time(ZERO))))
    }),
    Func::new("mustToDate", &[Str, Str], parsed),
    Func::new("unixEpoch", &[Date], |x, a| {
        let seconds = as_time(a[0]).map_or(0, |t| t.seconds);
        Ok(Value::str(x.arena, seconds.to_string()))
    }),
    Func::new("duration", &[Any], |x, a| {
        let seconds = match a[0] {
            Value::Str(s) => {
                let text = std::str::from_utf8(s).unwrap_or_default();
                match strconv::parse_int(text, 10) {
                    Ok(n) => n,
                    Err(strconv::NumError::Range) if text.starts_with('-') => i64::MIN,
                    Err(strconv::NumError::Range) => i64::MAX,
                    Err(strconv::NumError::Syntax) => 0,
                }
            }
            Value::Int64(n) => n,
            _ => 0,
        };
        Ok(Value::str(x.arena, time::duration_string(seconds.wrapping_mul(1_000_000_000))))
    }),
    Func::new("durationRound", &[Any], duration_round),
];

/// Go's zero time, in year 1.
pub(super) const ZERO: Time<'static> =
    Time { seconds: -62_135_596_800, nanos: 0, offset: 0, abbreviation: "UTC", zone: "UTC" };

pub(super) fn as_time<'a>(v: Value<'a>) -> Option<Time<'a>> {
    match v {
        Value::Object(Object::Time(t)) => Some(*t),
        _ => None,
    }
}

/// The zone named `name`; `Local` is the world's. `None` if the time zone database has no such zone.
pub(super) fn zone(x: &Exec<'_>, name: &[u8]) -> Option<Zone> {
    match std::str::from_utf8(name).ok()? {
        "Local" => Some(local(x)),
        name => Zone::named(name),
    }
}

/// The world's local zone; UTC if the time zone database does not have it.
pub(super) fn local(x: &Exec<'_>) -> Zone {
    Zone::named(&x.world().local_zone()).unwrap_or_else(Zone::utc)
}

/// A point in time, in a zone.
pub(super) fn in_zone<'a>(arena: &'a Arena, seconds: i64, nanos: u32, zone: &Zone) -> Time<'a> {
    let offset = zone.at(seconds);
    Time {
        seconds,
        nanos,
        offset: offset.seconds,
        abbreviation: arena.alloc_str(&offset.abbreviation),
        zone: arena.alloc_str(zone.name()),
    }
}

/// A time plus seconds and nanoseconds, in its own zone.
pub(super) fn moved<'a>(arena: &'a Arena, t: &Time<'a>, seconds: i64, nanos: i64) -> Time<'a> {
    let total = i64::from(t.nanos) + nanos;
    let seconds = t.seconds.saturating_add(seconds).saturating_add(total.div_euclid(1_000_000_000));
    let nanos = u32::try_from(total.rem_euclid(1_000_000_000)).unwrap_or(0);
    match Zone::named(t.zone).filter(|_| !t.zone.is_empty()) {
        Some(zone) => in_zone(arena, seconds, nanos, &zone),
        None => Time { seconds, nanos, ..*t },
    }
}

/// A duration added to a time.
pub(super) fn added<'a>(arena: &'a Arena, t: &Time<'a>, nanos: i64) -> Time<'a> {
    moved(arena, t, nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// Nanoseconds from `b` to `a`, saturating at the limits of a duration (`Time.Sub`).
pub(super) fn between(a: &Time<'_>, b: &Time<'_>) -> i64 {
    let nanos = (i128::from(a.seconds) - i128::from(b.seconds)) * 1_000_000_000
        + (i128::from(a.nanos) - i128::from(b.nanos));
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The current time in the local zone.
pub(super) fn now<'a>(x: &mut Exec<'a>) -> Result<Time<'a>, Error> {
    let text = remembered(x, "now", &[], |world| {
        let t = world.now();
        format!("{}.{:09}", t.seconds, t.nanos).into_bytes()
    });
    let text = String::from_utf8_lossy(&text);
    let parts = text.split_once('.').and_then(|(s, n)| Some((s.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((seconds, nanos)) => Ok(in_zone(x.arena, seconds, nanos, &local(x))),
        None => fail(format!("now: the remembered answer is no time: {text}")),
    }
}

/// sprig's date argument: a time, or integer seconds since 1970. Any other value means now.
fn moment<'a>(x: &mut Exec<'a>, v: Value<'a>) -> Result<Time<'a>, Error> {
    match v {
        Value::Object(Object::Time(t)) => Ok(*t),
        Value::Int(seconds) | Value::Int64(seconds) => Ok(in_zone(x.arena, seconds, 0, &local(x))),
        _ => now(x),
    }
}

fn date_in_zone<'a>(x: &mut Exec<'a>, layout: &[u8], date: Value<'a>, name: &[u8]) -> Out<'a> {
    let t = moment(x, date)?;
    let zone = zone(x, name).unwrap_or_else(Zone::utc);
    let t = in_zone(x.arena, t.seconds, t.nanos, &zone);
    Ok(Value::str(x.arena, layout::format(&t, layout)))
}

fn modified<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let by = duration::parse(&super::args::text(a[0])).map_err(Error::new)?;
    let t = as_time(a[1]).unwrap_or(ZERO);
    Ok(Value::object(x.arena, Object::Time(added(x.arena, &t, by))))
}

fn parsed<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let local = local(x);
    let parsed = layout::parse(bytes(a[0]), bytes(a[1]), &local).map_err(Error::new)?;
    let (seconds, nanos) = (parsed.seconds, parsed.nanos);
    let t = match parsed.place {
        Place::Utc => in_zone(x.arena, seconds, nanos, &Zone::utc()),
        Place::Local => in_zone(x.arena, seconds, nanos, &local),
        Place::Fixed(offset, name) => {
            Time { seconds, nanos, offset, abbreviation: x.arena.alloc_str(&name), zone: "" }
        }
    };
    Ok(Value::object(x.arena, Object::Time(t)))
}

fn ago<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let t = moment(x, a[0])?;
    let since = duration::round(between(&now(x)?, &t), 1_000_000_000);
    Ok(Value::str(x.arena, time::duration_string(since)))
}

fn duration_round<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let nanos = match a[0] {
        Value::Str(s) => duration::parse(&super::args::go_text(s)).unwrap_or(0),
        Value::Int64(n) => n,
        Value::Object(Object::Time(t)) => between(&now(x)?, t),
        _ => 0,
    };
    const HOUR: u64 = 3_600_000_000_000;
    let size = nanos.unsigned_abs();
    let units = [
        (HOUR * 24 * 365, "y"),
        (HOUR * 24 * 30, "mo"),
        (HOUR * 24, "d"),
        (HOUR, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
    ];
    let found = units.iter().find(|u| size > u.0);
    Ok(Value::str(
        x.arena,
        found.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", size / unit)),
    ))
}
