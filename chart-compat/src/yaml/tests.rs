//! Whole documents, decoded and encoded.

mod errors;
mod metadata_head;
mod read;
mod write;

use super::*;

/// The document as compact JSON with float numbers, or the error.
fn read(text: &str) -> String {
    match from_slice(text.as_bytes()) {
        Ok(data) => json::to_string(&data.with_float_numbers()).unwrap(),
        Err(error) => error.to_string(),
    }
}
