//! JSON of others, read within what it may take once it is parsed.
//!
//! Owns the bound. A text is measured before anything is allocated for it: `[{"":0},{"":0}]` takes a hundred times its bytes.

use std::io;

use chart_compat::json::ParsedSize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::machine::input_limit;

/// What a document may take where its reader sets no other bound: an answer of a server, a manifest of an image.
const DOCUMENT: u64 = 32 << 20;

/// What each document of a stream takes besides: no sign of its text tells of it.
const OF_STREAM: u64 = 64;

/// Why a document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The most bytes that it may take.
    #[error("its values take more than {} MiB once they are read", .0 >> 20)]
    TooLarge(u64),
    /// It is not JSON, or not of the wanted shape.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
}

impl JsonError {
    /// The line of a document that is malformed, from 1; 0 for one that is too large.
    #[must_use]
    pub fn line(&self) -> usize {
        match self {
            Self::TooLarge(_) => 0,
            Self::Malformed(error) => error.line(),
        }
    }

    /// The column in that line, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        match self {
            Self::TooLarge(_) => 0,
            Self::Malformed(error) => error.column(),
        }
    }
}

/// Reads a document that takes at most 32 MiB once it is read.
///
/// # Errors
/// It takes more, is not JSON, or has another shape.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, JsonError> {
    from_slice_within(json, DOCUMENT)
}

/// Reads a document that takes at most `limit` bytes once it is read, and no more than one input may take.
///
/// # Errors
/// As [`from_slice`].
pub fn from_slice_within<T: DeserializeOwned>(json: &[u8], limit: u64) -> Result<T, JsonError> {
    let limit = limit.min(input_limit());
    if ParsedSize::of(json).parsed > limit {
        return Err(JsonError::TooLarge(limit));
    }
    #[expect(clippy::disallowed_methods, reason = "within the limit")]
    Ok(serde_json::from_slice(json)?)
}

/// Reads the documents of a stream, one after the other. Together they take at most 32 MiB once they are read.
///
/// # Errors
/// They take more. One that is not JSON, or has another shape, is an error in its place, and so is the one with which they take more.
pub fn documents<T: DeserializeOwned>(
    json: &[u8],
) -> Result<impl Iterator<Item = Result<T, JsonError>>, JsonError> {
    let limit = DOCUMENT.min(input_limit());
    let mut parsed = ParsedSize::of(json).parsed;
    if parsed > limit {
        return Err(JsonError::TooLarge(limit));
    }
    let documents = serde_json::Deserializer::from_slice(json).into_iter::<T>();
    Ok(documents.map(move |document| {
        parsed += OF_STREAM;
        if parsed > limit {
            return Err(JsonError::TooLarge(limit));
        }
        Ok(document?)
    }))
}

/// What a value takes: its text, and that once it is read. Nothing is allocated to know it.
#[must_use]
pub fn size(value: &Value) -> ParsedSize {
    let mut counter = Counter { size: ParsedSize::default(), most: u64::MAX };
    // A value has texts for keys, and counting never fails.
    drop(serde_json::to_writer(&mut counter, value));
    counter.size
}

/// The bytes of a value as JSON; `None`: it has more than `most`, and is not read further.
pub fn length_within(value: &impl Serialize, most: u64) -> Option<u64> {
    let mut counter = Counter { size: ParsedSize::default(), most };
    serde_json::to_writer(&mut counter, value).ok()?;
    Some(counter.size.bytes)
}

/// Counts what is written, up to a number of bytes.
struct Counter {
    size: ParsedSize,
    most: u64,
}

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size.add(bytes);
        match self.size.bytes > self.most {
            true => Err(io::ErrorKind::FileTooLarge.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_count_before_they_are_made() {
        let items = |count: usize| format!("[{}]", vec![r#"{"":0}"#; count].join(","));
        assert!(from_slice::<Value>(items(40_000).as_bytes()).is_ok());
        let told = from_slice::<Value>(items(50_000).as_bytes()).unwrap_err();
        assert_eq!(told.to_string(), "its values take more than 32 MiB once they are read");
        let text = format!("[\"{}\"]", "{[,:".repeat(2_000_000));
        assert!(from_slice::<Value>(text.as_bytes()).is_ok(), "texts count themselves");
        assert!(from_slice_within::<Value>(text.as_bytes(), 1 << 20).is_err());
        let told = from_slice::<Value>(b"[1,\nx]").unwrap_err();
        assert_eq!((told.line(), told.to_string()), (2, "expected value at line 2 column 1".to_owned()));
    }

    #[test]
    fn the_documents_of_a_stream_count_together() {
        let all =
            |text: &str| documents::<Value>(text.as_bytes())?.collect::<Result<Vec<Value>, JsonError>>();
        assert_eq!(all("{\"a\":1}\n[2] 3").unwrap(), [json!({"a": 1}), json!([2]), json!(3)]);
        assert!(all("").unwrap().is_empty());
        assert!(all(&r#"{"a":1}"#.repeat(40_000)).is_ok());
        assert!(matches!(all(&r#"{"a":1}"#.repeat(50_000)), Err(JsonError::TooLarge(_))));
        // Plain values take memory that nothing in their text tells of.
        assert!(matches!(all(&"0 ".repeat(1_000_000)), Err(JsonError::TooLarge(_))));
        assert_eq!(all("1\n{").unwrap_err().line(), 2);
    }

    #[test]
    fn a_value_is_measured_as_its_text_is() {
        let value = json!({"a": [1, {"b": "c,[{"}], "d": {}});
        let (text, size) = (value.to_string(), size(&value));
        assert_eq!((size.bytes, size.parsed), (text.len() as u64, ParsedSize::of(text.as_bytes()).parsed));
    }
}
