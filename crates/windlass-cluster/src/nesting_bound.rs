//! A bound on how deeply the API server's answers are nested.
//!
//! The API server stores objects that are nested deeper than serde_json reads (127 levels). One of them would make the list of its
//! kind unreadable: who may write one object would end the work on those of everybody else. Owns what stands in the place of values
//! that are too deep; who acts on such an object is the caller's.

use bytes::Bytes;
use http::{Response, header};
use http_body_util::BodyExt;
use serde_json::Value;

/// The deepest level of an answer that is kept. Lists and events of watches take two of them.
pub const MAX_NESTING: usize = 120;
/// Stands in the place of a value that is nested deeper; a 0 in that of each that follows close by, so that an answer does not grow.
const OMITTED: &str = "windlass.dev/nested-too-deeply";

/// Whether values of an object were left out because they were nested too deeply.
#[must_use]
pub fn has_omitted_values(object: &Value) -> bool {
    match object {
        Value::String(text) => text == OMITTED,
        Value::Array(items) => items.iter().any(has_omitted_values),
        Value::Object(fields) => fields.values().any(has_omitted_values),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// An answer whose JSON is not nested deeper than the bound.
pub(super) fn bounded<B: BodyExt<Data = Bytes>>(
    response: Response<B>,
) -> Response<impl BodyExt<Data = Bytes, Error = B::Error>> {
    let content_type = response.headers().get(header::CONTENT_TYPE);
    let is_json = content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    let mut filter = NestingFilter::default();
    response.map(|body| {
        body.map_frame(move |frame| frame.map_data(|data| if is_json { filter.filter(data) } else { data }))
    })
}

/// Leaves out what is nested too deeply in a stream of JSON, in chunks of any size.
#[derive(Default)]
struct NestingFilter {
    depth: usize,
    in_string: bool,
    after_backslash: bool,
    /// Whether the values around have the mark.
    marked: bool,
}

impl NestingFilter {
    fn filter(&mut self, chunk: Bytes) -> Bytes {
        let mut out = Vec::new();
        // Where what is kept and not copied yet begins.
        let mut kept = (self.depth <= MAX_NESTING).then_some(0);
        for (at, byte) in chunk.iter().enumerate() {
            match byte {
                _ if self.after_backslash => self.after_backslash = false,
                b'\\' if self.in_string => self.after_backslash = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => {
                    self.depth += 1;
                    if self.depth == MAX_NESTING + 1
                        && let Some(begin) = kept.take()
                    {
                        out.extend_from_slice(&chunk[begin..at]);
                        match std::mem::replace(&mut self.marked, true) {
                            false => out.extend_from_slice(format!("\"{OMITTED}\"").as_bytes()),
                            true => out.push(b'0'),
                        }
                    }
                }
                b'}' | b']' => {
                    if self.depth == MAX_NESTING + 1 {
                        kept = Some(at + 1);
                    }
                    self.depth = self.depth.saturating_sub(1);
                    // The next mark comes after more brackets than it has characters.
                    self.marked &= self.depth > MAX_NESTING - OMITTED.len() / 2;
                }
                _ => {}
            }
        }
        match kept {
            Some(0) => chunk,
            Some(begin) => {
                out.extend_from_slice(&chunk[begin..]);
                out.into()
            }
            None => out.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filtered(text: &str, size: usize) -> String {
        let mut filter = NestingFilter::default();
        let chunks = text.as_bytes().chunks(size);
        let bytes: Vec<u8> =
            chunks.flat_map(|chunk| filter.filter(Bytes::copy_from_slice(chunk)).to_vec()).collect();
        String::from_utf8(bytes).unwrap()
    }

    /// A value below so many lists.
    fn nested(levels: usize, value: &str) -> String {
        "[".repeat(levels) + value + &"]".repeat(levels)
    }

    #[test]
    fn what_is_too_deep_is_left_out_and_the_rest_stays() {
        let fits = nested(MAX_NESTING, r#""a\"[{""#);
        let deep =
            format!(r#"{{"a": {}, "b": "]}}\\", "c": {}}}"#, nested(100_000, r#"{"x": "]"}"#), "[1, {}]");
        for size in [1, 2, 3, 7, 64, 1 << 20] {
            assert_eq!(filtered(&fits, size), fits, "{size}");
            let read: Value = serde_json::from_str(&filtered(&deep, size)).unwrap();
            assert!(has_omitted_values(&read["a"]) && !has_omitted_values(&read["c"]), "{size}");
            assert_eq!((&read["b"], &read["c"]), (&json!("]}\\"), &json!([1, {}])), "{size}");
        }
    }

    #[test]
    fn an_answer_does_not_grow_with_what_is_left_out() {
        let list = |items: &str| format!(r#"{{"items":[{{"a":{items}}},{{"a":{items}}}]}}"#);
        let many = list(&nested(MAX_NESTING, &vec!["[]"; 10_000].join(",")));
        let found = filtered(&many, 1_000);
        assert!(found.len() < many.len(), "{} of {}", found.len(), many.len());
        let read: Value = serde_json::from_str(&found).unwrap();
        assert!(read["items"].as_array().unwrap().iter().all(has_omitted_values), "each object has the mark");
        // Managed fields are as deep as the values that they are about, and are not kept.
        let both = format!(r#"{{"managedFields":{0},"spec":{{"values":{0}}}}}"#, nested(500, "1"));
        let read: Value = serde_json::from_str(&filtered(&both, 1_000)).unwrap();
        assert!(has_omitted_values(&read["spec"]) && has_omitted_values(&read["managedFields"]));
    }

    #[test]
    fn events_after_a_deep_one_are_as_they_were() {
        let line =
            |name: &str, value: &str| format!(r#"{{"type":"ADDED","object":{{"n":"{name}","v":{value}}}}}"#);
        let stream = [line("deep", &nested(500, "1")), line("flat", "1")].join("\n");
        let lines: Vec<Value> =
            filtered(&stream, 10).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert!(has_omitted_values(&lines[0]));
        assert_eq!(lines[1]["object"], json!({"n": "flat", "v": 1}));
    }
}
