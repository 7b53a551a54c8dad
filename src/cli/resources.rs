//! Tables of live objects, printed like kubectl and Helm from the server's responses.

use serde_json::Value;

use windlass_engine::Resources;

/// Minimal width of a column, and padding after its widest cell (`printers.GetNewTabWriter`).
const LEAST: usize = 6;
const ROOM: usize = 3;

/// The resource sections of `helm status`, ordered by version and kind. Helm's own order is random.
pub(super) fn tables(resources: &Resources) -> String {
    let mut out = String::new();
    // The title row is printed again when the columns change.
    let mut last = Value::Null;
    for (kind, tables) in resources {
        out.push_str(&format!("==> {kind}\n"));
        for table in tables {
            let columns = &table["columnDefinitions"];
            let titled = *columns != last && columns.as_array().is_some_and(|c| !c.is_empty());
            let definitions = if titled { columns } else { &last };
            out.push_str(&one(definitions, &table["rows"], titled));
            if titled {
                last = columns.clone();
            }
        }
        out.push('\n');
    }
    out
}

fn one(columns: &Value, rows: &Value, titled: bool) -> String {
    let empty = Vec::new();
    let columns = columns.as_array().unwrap_or(&empty);
    let shown: Vec<usize> =
        (0..columns.len()).filter(|c| columns[*c]["priority"].as_i64().unwrap_or(0) == 0).collect();
    let title = |column: &usize| columns[*column]["name"].as_str().unwrap_or_default().to_uppercase();
    let mut lines: Vec<Vec<String>> = Vec::new();
    if titled {
        lines.push(shown.iter().map(title).collect());
    }
    for row in rows.as_array().unwrap_or(&empty) {
        let cells = row["cells"].as_array().unwrap_or(&empty);
        lines.push(shown.iter().map(|c| cells.get(*c).map(cell).unwrap_or_default()).collect());
    }
    let mut widths = vec![LEAST; shown.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count() + ROOM);
        }
    }
    let mut out = String::new();
    for line in lines {
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            if i + 1 == line.len() {
                out.push_str(cell);
            } else {
                out.push_str(&format!("{cell:<width$}"));
            }
        }
        out.push('\n');
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        // Print only the first line.
        Value::String(text) => match text.find(['\n', '\r', '\u{c}']) {
            Some(end) => format!("{}...", &text[..end]),
            None => text.clone(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_at_least_six_wide_and_three_apart() {
        let columns =
            json!([{"name": "Name"}, {"name": "Data"}, {"name": "IP", "priority": 1}, {"name": "Age"}]);
        let table = |name: &str, data: Value| json!({"columnDefinitions": columns, "rows": [{"cells": [name, data, "x", "2s"]}]});
        let resources = Resources::from([(
            "v1/ConfigMap".to_owned(),
            vec![table("one", json!(2)), table("one-two", json!("a\nb")), table("n", Value::Null)],
        )]);
        assert_eq!(
            tables(&resources),
            "==> v1/ConfigMap\nNAME   DATA   AGE\none    2      2s\none-two   a...   2s\nn           2s\n\n"
        );
    }
}
