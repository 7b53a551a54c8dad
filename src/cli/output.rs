//! Tables, JSON and YAML as Helm prints them, and common fields of a record.

use chart_compat::go::layout;
use chart_compat::go::object::Time;
use jiff::fmt::temporal::Pieces;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Serialize;

use super::Failure;
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_render::from_json;

/// Output format of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// A table
    #[default]
    Table,
    /// JSON in one line
    Json,
    /// YAML
    Yaml,
}

/// A value as JSON or YAML with a final line feed. JSON keeps the order of a struct's fields.
pub(super) fn structured(value: &impl Serialize, format: Format) -> Result<String, Failure> {
    let result = match format {
        Format::Yaml => serde_json::to_value(value)
            .map_err(|e| e.to_string())
            .and_then(|v| chart_compat::yaml::to_string(&from_json(&v)).map_err(|e| e.to_string())),
        Format::Json | Format::Table => {
            let mut text = serde_json::to_string(value).map_err(|e| e.to_string())?;
            text.push('\n');
            Ok(text)
        }
    };
    result.map_err(|e| format!("cannot print: {e}"))
}

/// Rows with padded cells and a tab between columns, like Helm's tables. Without rows, an empty line.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|s| line_width(s)).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| fit(cell, *width));
        out.push_str(&cells.collect::<Vec<_>>().join("\t"));
        out.push('\n');
    }
    if rows.is_empty() { "\n".to_owned() } else { out }
}

/// How a text is shown on a terminal: the codes that begin and end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style(u8, u8);

impl Style {
    pub(super) const HEAD: Self = Self(1, 22);
    pub(super) const NAMESPACE: Self = Self(36, 0);
    const GOOD: Self = Self(32, 0);
    const BAD: Self = Self(31, 0);
    const UNDERWAY: Self = Self(33, 0);

    pub(super) fn of_status(status: ReleaseStatus) -> Option<Self> {
        match status {
            ReleaseStatus::Deployed => Some(Self::GOOD),
            ReleaseStatus::Failed | ReleaseStatus::Unknown => Some(Self::BAD),
            ReleaseStatus::Uninstalling => Some(Self::UNDERWAY),
            status if status.is_pending() => Some(Self::UNDERWAY),
            _ => None,
        }
    }
}

/// A text in a style, where colours are shown.
pub(super) fn painted(text: &str, style: Option<Style>, paints: bool) -> String {
    match style.filter(|_| paints) {
        Some(Style(begin, end)) => format!("\x1b[{begin}m{text}\x1b[{end}m"),
        None => text.to_owned(),
    }
}

/// Number of characters that are seen of a line: without the codes of [`painted`].
fn seen_width(line: &str) -> usize {
    let mut pieces = line.split("\x1b[");
    let first = pieces.next().unwrap_or_default().chars().count();
    first
        + pieces.map(|piece| piece.split_once('m').map_or(0, |(_, rest)| rest.chars().count())).sum::<usize>()
}

/// The longest line of a cell.
fn line_width(cell: &str) -> usize {
    cell.split('\n').map(seen_width).max().unwrap_or(0)
}

/// A cell, padded. One with several lines is cut at the width of its longest line, as in Helm's tables (uitable's `Resize`).
fn fit(cell: &str, width: usize) -> String {
    let seen = seen_width(cell);
    if seen <= width {
        return format!("{cell}{}", " ".repeat(width - seen));
    }
    let kept: String = cell.chars().take(width.saturating_sub(3).max(1)).collect();
    format!("{:<width$}", format!("{kept}..."))
}

/// A record's time with its own offset, and the name of its zone, as Go has it after reading it: the local zone's, if that has the
/// offset at the time.
struct RecordedTime {
    at: Zoned,
    zone: String,
}

impl RecordedTime {
    fn read(text: &str) -> Option<Self> {
        let at: Timestamp = text.parse().ok()?;
        if text.ends_with(['Z', 'z']) {
            return Some(Self { at: at.to_zoned(TimeZone::UTC), zone: "UTC".to_owned() });
        }
        let offset = Pieces::parse(text).ok()?.to_numeric_offset()?;
        let local = at.to_zoned(TimeZone::system());
        let (at, zone) = match local.offset() == offset {
            true => (local.clone(), local.strftime("%Z").to_string()),
            false => {
                let fixed = at.to_zoned(TimeZone::fixed(offset));
                (fixed.clone(), fixed.strftime("%z").to_string())
            }
        };
        Some(Self { at, zone })
    }
}

/// A time as Go's `time.Time.String` prints it.
fn go_text(at: &Zoned, zone: &str) -> String {
    let fraction = match at.subsec_nanosecond() {
        0 => String::new(),
        n => format!(".{n:09}").trim_end_matches('0').to_owned(),
    };
    format!("{}{fraction} {} {zone}", at.strftime("%Y-%m-%d %H:%M:%S"), at.strftime("%z"))
}

/// A record's time as Go's `time.Time.String` prints it.
pub(super) fn go_time(text: &str) -> String {
    RecordedTime::read(text).map_or_else(|| text.to_owned(), |time| go_text(&time.at, &time.zone))
}

/// The time of an object as Go's `time.Time.String` prints it: in the local zone.
pub(super) fn local_go_time(text: &str) -> String {
    let Ok(at) = text.parse::<Timestamp>() else { return text.to_owned() };
    let at = at.to_zoned(TimeZone::system());
    go_text(&at, &at.strftime("%Z").to_string())
}

/// A record's time as Go's `time.ANSIC`.
pub(super) fn ansi_time(text: &str) -> String {
    match RecordedTime::read(text) {
        Some(time) => time.at.strftime("%a %b %e %H:%M:%S %Y").to_string(),
        // Go's zero time.
        None if text.is_empty() => "Mon Jan  1 00:00:00 0001".to_owned(),
        None => text.to_owned(),
    }
}

/// A record's time in a Go layout.
pub(super) fn formatted_time(text: &str, layout: &str) -> String {
    let Some(RecordedTime { at, zone }) = RecordedTime::read(text) else { return text.to_owned() };
    let time = Time {
        seconds: at.timestamp().as_second(),
        nanos: u32::try_from(at.subsec_nanosecond()).unwrap_or_default(),
        offset: at.offset().seconds(),
        abbreviation: &zone,
        zone: "",
    };
    String::from_utf8_lossy(&layout::format(&time, layout.as_bytes())).into_owned()
}

/// A record's time without fractions of a second.
pub(super) fn whole_seconds(text: &str) -> String {
    match text.find('.') {
        Some(point) => {
            let zone =
                text[point + 1..].find(|c: char| !c.is_ascii_digit()).map_or("", |z| &text[point + 1 + z..]);
            format!("{}{zone}", &text[..point])
        }
        None if text.is_empty() => "0001-01-01T00:00:00Z".to_owned(),
        None => text.to_owned(),
    }
}

/// `name-version` of a record's chart.
pub(super) fn chart(record: &Record) -> String {
    let meta = record.chart_metadata();
    match (meta["name"].as_str(), meta["version"].as_str()) {
        (Some(name), Some(version)) => format!("{name}-{version}"),
        _ => "MISSING".to_owned(),
    }
}

/// The app version of a record's chart.
pub(super) fn app_version(record: &Record) -> String {
    let meta = record.chart_metadata();
    if meta.is_null() {
        "MISSING".to_owned()
    } else {
        meta["appVersion"].as_str().unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{Style, ansi_time, formatted_time, go_time, painted, table, whole_seconds};

    #[test]
    fn times_by_gos_layouts() {
        let at = "2026-11-21T21:56:07.234122876Z";
        assert_eq!(formatted_time(at, "2006-01-02 .05"), "2026-11-21 .07");
        assert_eq!(whole_seconds(at), "2026-11-21T21:56:07Z");
        assert_eq!(whole_seconds("2026-11-21T21:56:07.2+02:00"), "2026-11-21T21:56:07+02:00");
    }

    #[test]
    fn a_record_keeps_its_offset() {
        // In the zone of the record, whatever the local one is.
        let west = "2026-11-21T21:56:07.200-03:30";
        assert_eq!(go_time(west), "2026-11-21 21:56:07.2 -0330 -0330");
        assert_eq!(ansi_time(west), "Sat Nov 21 21:56:07 2026");
        assert_eq!(formatted_time(west, "15:04 -0700 MST"), "21:56 -0330 -0330");
        assert_eq!(go_time("2026-11-21T21:56:07Z"), "2026-11-21 21:56:07 +0000 UTC");
        assert_eq!(go_time("never"), "never");
        assert_eq!(ansi_time(""), "Mon Jan  1 00:00:00 0001");
    }

    #[test]
    fn columns_are_padded_and_tabbed() {
        let rows = [vec!["NAME".to_owned(), "X".to_owned()], vec!["a".to_owned(), "long".to_owned()]];
        assert_eq!(table(&rows), "NAME\tX   \na   \tlong\n");
        let head = painted("N", Some(Style::HEAD), true);
        let rows = [vec![head, "X".to_owned()], vec!["abc".to_owned(), painted("y", None, true)]];
        assert_eq!(table(&rows), "\x1b[1mN\x1b[22m  \tX\nabc\ty\n");
        assert_eq!(table(&[]), "\n");
    }
}
