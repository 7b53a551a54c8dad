//! JSON log lines that contain the fields of a hook's log line as fields.
//!
//! `tracing` needs field names at compile time, so the fields of a hook's line arrive as one text.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// The field that contains the hook's fields.
const FIELD: &str = "hook_fields";

/// Formats like the inner format, with the fields of hooks inserted.
pub(super) struct Unfolded<F>(pub(super) F);

impl<S, N, F> FormatEvent<S, N> for Unfolded<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if event.metadata().fields().field(FIELD).is_none() {
            return self.0.format_event(context, writer, event);
        }
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match unfolded(&line) {
            Some(line) => writeln!(writer, "{line}"),
            None => writer.write_str(&line),
        }
    }
}

/// A line with the hook's fields inserted; `None` if it has none.
fn unfolded(line: &str) -> Option<Value> {
    let mut fields: Map<String, Value> = serde_json::from_str(line).ok()?;
    let told: Map<String, Value> = serde_json::from_str(fields.get(FIELD)?.as_str()?).ok()?;
    fields.remove(FIELD);
    for (key, value) in told {
        fields.entry(key).or_insert(value);
    }
    Some(fields.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_hooks_stand_beside_ours() {
        let line = r#"{"message":"m","hook":"h","hook_fields":"{\"hook_a\":1,\"hook_b\":{\"c\":[2]},\"hook\":\"x\"}"}"#;
        let expected = serde_json::json!({"message": "m", "hook": "h", "hook_a": 1, "hook_b": {"c": [2]}});
        assert_eq!(unfolded(line), Some(expected));
        assert_eq!(unfolded(r#"{"message":"m"}"#), None);
        assert_eq!(unfolded(r#"{"message":"m","hook_fields":"no JSON"}"#), None);
    }
}
