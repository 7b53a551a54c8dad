//! Trees of values.

use serde_json::{Map, Value, json};

use super::text::unicode;
use crate::choices::Choices;

const NUMBERS: &[&str] = &[
    "1",
    "0",
    "-1",
    "2",
    "3",
    "10",
    "255",
    "1.5",
    "0.1",
    "-0.5",
    "100000",
    "1000000",
    "12345678",
    "1e21",
    "1e20",
    "123456789012",
    "1e-7",
    "0.000001",
    "9007199254740993",
    "1e100",
    "4294967296",
    "-2147483649",
    "1e6",
    "33554432",
    "3.0",
    "0.30000000000000004",
];

/// A number as JSON.
pub(crate) fn number(c: &mut Choices) -> Value {
    serde_json::from_str(c.of(NUMBERS)).unwrap_or(Value::Null)
}

/// A tree.
pub(crate) fn tree(c: &mut Choices, depth: usize) -> Value {
    match c.below(if depth == 0 { 5 } else { 9 }) {
        0 | 1 => Value::String(unicode(c)),
        2 => number(c),
        3 => Value::Bool(c.one_in(2)),
        4 => Value::Null,
        5 | 6 => (0..c.below(4)).map(|_| tree(c, depth - 1)).collect(),
        _ => Value::Object(map(c, depth - 1)),
    }
}

fn map(c: &mut Choices, depth: usize) -> Map<String, Value> {
    (0..c.below(5)).map(|_| (unicode(c), tree(c, depth))).collect()
}

/// The values of a chart: a few that generators of templates know by name, and under `v` some tree.
///
/// Go's lists have room for a power of two; these fill it, for a slice that reaches behind the end finds what is there.
///
/// There is no null in a map above `v`: Helm drops those before a template sees them.
pub(crate) fn chart_values(c: &mut Choices) -> Value {
    json!({
        "s": "web", "e": "", "n": 3, "z": 0, "big": 12_345_678, "h": 0.5, "t": true, "f": false,
        "l": [3, 1, 2, 3], "names": ["c", "a", "b", "a"], "none": [], "m": {"a": 1, "b": "x", "c": {"d": [1, {"k": "v"}]}},
        "em": {}, "uni": "héé✓", "mixed": [1, "a", null, true, 1.5, {"k": "v"}, [], "b"],
        "pods": [{"name": "a", "ready": true}, {"name": "b", "ready": false}],
        "v": tree(c, 3),
    })
}

/// Values that a line of `--set` is applied to; integers among them, as an earlier `--set` leaves them.
pub(crate) fn existing(c: &mut Choices) -> Value {
    match c.below(4) {
        0 => json!({}),
        1 => json!({"a": 1, "b": {"c": "x"}, "l": [1, "x", null, {"k": 2.5}, [1]]}),
        2 => json!({"a": {"b": {"c": [[], [1, [2]]]}}, "": 1, "n": null, "b": {"": 2}}),
        _ => Value::Object(map(c, 2)),
    }
}
