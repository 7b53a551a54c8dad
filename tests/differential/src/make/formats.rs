//! Verbs of `printf`, and time: layouts, zones, durations.

use super::template::{Kind, expression};
use super::text::{quoted, unicode};
use crate::choices::Choices;

const VERBS: &[u8] = b"vdsqxTXtcbogeEfFgGUOw!%zi";
const FLAGS: &[&str] = &[
    "",
    "",
    "",
    "",
    "#",
    "+",
    "-",
    "0",
    " ",
    "5",
    "-8",
    "08",
    ".2",
    "10.3",
    "+.1",
    "#08",
    "*",
    ".*",
    "[1]",
    "[2]",
    "[3]*.[2]*[1]",
    "[x]",
    ".",
    ".0",
    "x ",
    "300",
    "+#",
];

/// A template with one `printf`, `print` or `println`.
pub(crate) fn printf_template(c: &mut Choices) -> Vec<u8> {
    let mut out = b"{{ ".to_vec();
    let count = c.below(4);
    match c.below(10) {
        8 => out.extend(b"print"),
        9 => out.extend(b"println"),
        _ => {
            let mut format = String::new();
            for _ in 0..=count.min(2) + c.below(2) {
                if c.one_in(4) {
                    format += &unicode(c);
                }
                format.push('%');
                format += c.of(FLAGS);
                format.push(char::from(c.of(VERBS)));
            }
            out.extend(b"printf ");
            out.extend(quoted(format.as_bytes()));
        }
    }
    for _ in 0..count {
        out.push(b' ');
        let kind = c.of(&[
            Kind::Int,
            Kind::Text,
            Kind::Float,
            Kind::Any,
            Kind::List,
            Kind::Map,
            Kind::Bool,
            Kind::Version,
        ]);
        out.extend(expression(c, kind, 1));
    }
    out.extend(b" }}");
    out
}

const LAYOUT: &[&str] = &[
    "2006",
    "-01",
    "-02",
    "T15",
    ":04",
    ":05",
    "Z07:00",
    "MST",
    "Jan",
    "January",
    "Mon",
    "Monday",
    "1",
    "2",
    "_2",
    "002",
    "__2",
    "3",
    "03",
    "PM",
    "pm",
    "4",
    "5",
    ".000",
    ".999999999",
    ",000",
    "-0700",
    "-07:00",
    "-07",
    "Z0700",
    "Z07",
    "06",
    "15",
    "-07:00:00",
    "Z070000",
    " ",
    "/",
    "at",
    ".00",
    ".9",
    "é",
    "2006-01-02",
    "15:04:05",
    "Janet",
    "Monda",
    "0",
    "01/02",
    "_2006",
    "Z07:00:00",
    "-070000",
];
const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kathmandu",
    "",
    "Local",
    "Nowhere/City",
    "Australia/Lord_Howe",
    "GMT",
    "Etc/GMT+5",
    "../x",
    "America/Sao_Paulo",
];
const SECONDS: &[&str] = &[
    "0",
    "1",
    "1700000000",
    "-1",
    "1711846800",
    "1729990800",
    "951782400",
    "4102444800",
    "-62135596800",
    "253402300800",
    "1582934400",
    "86399",
    "-2208988800",
    "99999999999",
];
const DURATIONS: &[&str] = &[
    "90s",
    "1h",
    "1h30m",
    "-1.5h",
    "0",
    "1us",
    "1µs",
    "1ns",
    "100ms",
    "1d",
    "1w",
    "",
    "h",
    "1",
    "+5m",
    "1h1h",
    ".5s",
    "1.s",
    "-",
    "9223372036854775807ns",
    "300000h",
    "1.123456789s",
    "36h5m10.5s",
    "8760h",
    "5s5",
    "1e3s",
    "0.1ns",
    "720h",
    "24h",
];
const DATES: &[&str] = &[
    "2024-02-29",
    "2023-02-29",
    "2024-1-2",
    "12:30:45",
    "2024-02-29T12:30:45Z",
    "2024-02-29T12:30:45.123+02:00",
    "Feb 29 2024",
    "Thu",
    "PM",
    "2024",
    "x",
    "",
    "24",
    "13",
    "29",
    "2024-02-29 25:00:00",
    "-0700",
    "CET",
    "GMT+3",
    "2024-060",
    "Thursday",
    "february",
    "3",
    "23:59:60",
    "12:30:45.5",
    "2024-13-01",
    "2024-00-10",
    "99",
];

fn layout(c: &mut Choices) -> String {
    if c.one_in(5) {
        return c
            .of(&[
                "2006-01-02",
                "2006-01-02T15:04:05Z07:00",
                "15:04:05",
                "Jan 2 2006",
                "Mon, 02 Jan 2006 15:04:05 MST",
                "2006-002",
                "02 Jan 06 15:04 -0700",
            ])
            .to_owned();
    }
    (0..=c.below(5)).map(|_| c.of(LAYOUT)).collect()
}

/// A template about one moment or duration.
pub(crate) fn time_template(c: &mut Choices) -> Vec<u8> {
    let layout = layout(c);
    let (shown, zone, seconds) = (quoted(layout.as_bytes()), quoted(c.of(ZONES).as_bytes()), c.of(SECONDS));
    let (shown, zone) = (String::from_utf8_lossy(&shown), String::from_utf8_lossy(&zone));
    let span = String::from_utf8_lossy(&quoted(c.of(DURATIONS).as_bytes())).into_owned();
    let other = String::from_utf8_lossy(&quoted(c.of(DURATIONS).as_bytes())).into_owned();
    let text = match c.below(7) {
        0 | 1 => format!("{{{{ dateInZone {shown} (int64 {seconds}) {zone} }}}}"),
        2 => {
            // What a layout writes is what it is most likely to read.
            format!("{{{{ mustToDate {shown} (dateInZone {shown} (int64 {seconds}) {zone}) }}}}")
        }
        3 => {
            let date = String::from_utf8_lossy(&quoted(c.of(DATES).as_bytes())).into_owned();
            format!("{{{{ mustToDate {shown} {date} }}}}")
        }
        4 => {
            let function = c.of(&[
                "duration",
                "durationRound",
                "durationSeconds",
                "durationMilliseconds",
                "durationMicroseconds",
                "durationNanoseconds",
                "durationMinutes",
                "durationHours",
                "durationDays",
                "durationWeeks",
                "mustToDuration",
            ]);
            format!("{{{{ {function} {span} }}}}")
        }
        5 => {
            let function = c.of(&["durationRoundTo", "durationTruncateTo"]);
            format!("{{{{ {function} {span} {other} }}}}")
        }
        _ => {
            let method = c.of(&[
                "Year",
                "Month",
                "Day",
                "Weekday",
                "YearDay",
                "Hour",
                "Minute",
                "Second",
                "Nanosecond",
                "Unix",
                "UnixNano",
                "UnixMilli",
                "UTC",
                "IsZero",
                "String",
                "Format \"2006\"",
                "AddDate 1 2 3",
                "Add (mustToDuration \"1h\")",
                "Truncate (mustToDuration \"1h\")",
            ]);
            format!("{{{{ (mustDateModify {span} (toDate \"2006-01-02\" \"2024-02-29\")).{method} }}}}")
        }
    };
    text.into_bytes()
}
