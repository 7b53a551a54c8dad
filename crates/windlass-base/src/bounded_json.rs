//! JSON of others, read within what it may take once it is parsed.
//!
//! Owns the bound. A text is measured before anything is allocated for it: `[{"":0},{"":0}]` takes a hundred times its bytes.

use chart_compat::json::ParsedSize;
use serde::de::DeserializeOwned;

use crate::machine::input_limit;

/// What a document may take where its reader sets no other bound: an answer of a server, a manifest of an image.
const DOCUMENT: u64 = 32 << 20;

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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

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
}
