//! Tables, JSON and YAML as Helm prints them, and common fields of a record.

use chart_compat::go::layout;
use chart_compat::go::object::Time;
use jiff::Timestamp;
use serde::Serialize;

use super::Failure;
use crate::release::record::Record;
use crate::render::from_json;

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

/// Rows with padded cells and a tab between columns, like Helm's tables.
pub(super) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|c| rows.iter().filter_map(|r| r.get(c)).map(|s| line_width(s)).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{:<width$}", fit(cell, *width)));
        out.push_str(&cells.collect::<Vec<_>>().join("\t"));
        out.push('\n');
    }
    out
}

/// The longest line of a cell.
fn line_width(cell: &str) -> usize {
    cell.split('\n').map(|line| line.chars().count()).max().unwrap_or(0)
}

/// A cell with several lines is cut at the width of its longest line, as in Helm's tables (uitable's `Resize`).
fn fit(cell: &str, width: usize) -> std::borrow::Cow<'_, str> {
    if cell.chars().count() <= width {
        return cell.into();
    }
    let kept: String = cell.chars().take(width.saturating_sub(3).max(1)).collect();
    format!("{kept}...").into()
}

/// A record's time as Go's `time.Time.String` prints it, in the local zone.
pub(super) fn go_time(text: &str) -> String {
    let Ok(at) = text.parse::<Timestamp>() else { return text.to_owned() };
    let zoned = at.to_zoned(jiff::tz::TimeZone::system());
    let fraction = match at.subsec_nanosecond() {
        0 => String::new(),
        n => format!(".{n:09}").trim_end_matches('0').to_owned(),
    };
    format!("{}{fraction} {}", zoned.strftime("%Y-%m-%d %H:%M:%S"), zoned.strftime("%z %Z"))
}

/// A record's time as Go's `time.ANSIC`.
pub(super) fn ansi_time(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) => at.to_zoned(jiff::tz::TimeZone::system()).strftime("%a %b %e %H:%M:%S %Y").to_string(),
        // Go's zero time.
        Err(_) if text.is_empty() => "Mon Jan  1 00:00:00 0001".to_owned(),
        Err(_) => text.to_owned(),
    }
}

/// A record's time in a Go layout, in the local zone.
pub(super) fn formatted_time(text: &str, layout: &str) -> String {
    let Ok(at) = text.parse::<Timestamp>() else { return text.to_owned() };
    let zoned = at.to_zoned(jiff::tz::TimeZone::system());
    let time = Time {
        seconds: at.as_second(),
        nanos: u32::try_from(at.subsec_nanosecond()).unwrap_or_default(),
        offset: zoned.offset().seconds(),
        abbreviation: &zoned.strftime("%Z").to_string(),
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
    let meta = &record.chart["metadata"];
    match (meta["name"].as_str(), meta["version"].as_str()) {
        (Some(name), Some(version)) => format!("{name}-{version}"),
        _ => "MISSING".to_owned(),
    }
}

/// The app version of a record's chart.
pub(super) fn app_version(record: &Record) -> String {
    let meta = &record.chart["metadata"];
    if meta.is_null() {
        "MISSING".to_owned()
    } else {
        meta["appVersion"].as_str().unwrap_or_default().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{formatted_time, table, whole_seconds};

    #[test]
    fn times_by_gos_layouts() {
        let at = "2026-11-21T21:56:07.234122876Z";
        assert_eq!(formatted_time(at, "2006-01-02 .05"), "2026-11-21 .07");
        assert_eq!(whole_seconds(at), "2026-11-21T21:56:07Z");
        assert_eq!(whole_seconds("2026-11-21T21:56:07.2+02:00"), "2026-11-21T21:56:07+02:00");
    }

    #[test]
    fn columns_are_padded_and_tabbed() {
        let rows = [vec!["NAME".to_owned(), "X".to_owned()], vec!["a".to_owned(), "long".to_owned()]];
        assert_eq!(table(&rows), "NAME\tX   \na   \tlong\n");
    }
}
