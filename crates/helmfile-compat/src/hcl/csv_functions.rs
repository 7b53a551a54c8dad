//! `csvdecode`: rows of comma-separated values as objects.
//!
//! Owns the format as Go's `encoding/csv` reads it: empty lines do not count, a quote within an unquoted field is an error, and each row
//! has as many fields as the first.

use std::collections::BTreeSet;

use hcl::{Map, Value};

use super::functions;

/// The rows after the first, each an object by the names in the first.
///
/// # Errors
/// There is no row, a name comes twice, a row has another number of fields, quotes are wrong, or the rows are too large.
pub(super) fn decode(text: &str) -> Result<Value, String> {
    let mut rows = rows(text)?.into_iter();
    let names =
        rows.next().ok_or_else(|| "the line with the names of the columns is missing".to_owned())?.fields;
    // Each row repeats the names.
    let of_row = names.iter().map(|name| name.len() + size_of::<Value>()).sum::<usize>();
    functions::count_made(of_row.saturating_mul(rows.len()))?;
    let mut known = BTreeSet::new();
    if let Some(name) = names.iter().find(|name| !known.insert(*name)) {
        return Err(format!("there are two columns {name:?}"));
    }
    let objects = rows.map(|row| {
        if row.fields.len() != names.len() {
            return Err(format!("line {}: {} fields and {} names", row.line, row.fields.len(), names.len()));
        }
        let entries = names.iter().cloned().zip(row.fields.into_iter().map(Value::from));
        Ok(Value::Object(entries.collect::<Map<_, _>>()))
    });
    objects.collect()
}

#[derive(Default)]
struct Row {
    /// The number of its first line.
    line: usize,
    fields: Vec<String>,
}

/// Where a character stands.
#[derive(Clone, Copy)]
enum Place {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote within a quoted field: its end, or the first of two that stand for one.
    Quote,
}

fn rows(text: &str) -> Result<Vec<Row>, String> {
    let text = text.strip_suffix('\r').unwrap_or(text).replace("\r\n", "\n");
    let (mut rows, mut row, mut field) = (Vec::new(), Row { line: 1, ..Row::default() }, String::new());
    let (mut place, mut line) = (Place::FieldStart, 1);
    for c in text.chars() {
        let in_quotes = matches!(place, Place::Quoted);
        if c == '\n' {
            line += 1;
        }
        place = match (place, c) {
            (Place::FieldStart, '\n') if row.fields.is_empty() => {
                row.line = line;
                Place::FieldStart
            }
            (Place::FieldStart | Place::Quote, '"') => {
                if matches!(place, Place::Quote) {
                    field.push(c);
                }
                Place::Quoted
            }
            (Place::Quoted, '"') => Place::Quote,
            (_, ',') if !in_quotes => {
                row.fields.push(std::mem::take(&mut field));
                Place::FieldStart
            }
            (_, '\n') if !in_quotes => {
                row.fields.push(std::mem::take(&mut field));
                rows.push(std::mem::replace(&mut row, Row { line, ..Row::default() }));
                Place::FieldStart
            }
            (Place::Unquoted, '"') => return Err(format!("line {line}: a quote within an unquoted field")),
            (Place::Quote, _) => return Err(format!("line {line}: text after a quoted field")),
            (Place::Quoted, _) => {
                field.push(c);
                Place::Quoted
            }
            (Place::FieldStart | Place::Unquoted, _) => {
                field.push(c);
                Place::Unquoted
            }
        };
    }
    match place {
        Place::Quoted => return Err(format!("line {}: a quoted field has no end", row.line)),
        Place::FieldStart if row.fields.is_empty() => {}
        _ => {
            row.fields.push(field);
            rows.push(row);
        }
    }
    Ok(rows)
}
