//! What a hook answers to a webhook call. Pure.
//!
//! Who reads an answer has memory for its values, which those of all requests share: they have no bound of their own here.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The answer to an admission review.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    pub allowed: bool,
    pub message: String,
    pub warnings: Vec<String>,
    /// A JSON patch in base64, as the API takes it.
    pub patch: Option<String>,
}

/// A response that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The hook wrote nothing.
    #[error("the response file is empty")]
    Empty,
    #[error("response file: {0}")]
    Wrong(String),
    /// The hook says why it cannot convert.
    #[error("{0}")]
    Refused(String),
}

fn object(text: &str) -> Result<Value, ResponseError> {
    if text.trim().is_empty() {
        return Err(ResponseError::Empty);
    }
    match serde_json::from_str(text) {
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(other) => Err(ResponseError::Wrong(format!("{other} is not a map"))),
        Err(e) => Err(ResponseError::Wrong(e.to_string())),
    }
}

/// Reads `ADMISSION_RESPONSE_PATH`.
///
/// # Errors
/// It is empty, not a JSON map, or has wrong types.
pub fn admitted(text: &str) -> Result<Admitted, ResponseError> {
    // Texts are taken out of it: no copy of a large patch is made.
    let mut value = object(text)?;
    let wrong =
        |key: &str, value: &Value| ResponseError::Wrong(format!("{key}: {value} is of the wrong type"));
    let warnings = match value["warnings"].take() {
        Value::Null => Vec::new(),
        Value::Array(items) => {
            let texts = items.into_iter().map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(wrong("warnings", &other)),
            });
            texts.collect::<Result<_, _>>()?
        }
        other => return Err(wrong("warnings", &other)),
    };
    let mut string = |key: &str| match value[key].take() {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        other => Err(wrong(key, &other)),
    };
    let patch = string("patch")?.filter(|p| !p.is_empty());
    if patch.as_ref().is_some_and(|p| STANDARD.decode(p).is_err()) {
        return Err(ResponseError::Wrong("patch: it is not base64".to_owned()));
    }
    let message = string("message")?.unwrap_or_default();
    let allowed = match &value["allowed"] {
        Value::Null => false,
        Value::Bool(allowed) => *allowed,
        other => return Err(wrong("allowed", other)),
    };
    Ok(Admitted { allowed, message, warnings, patch })
}

/// Reads `CONVERSION_RESPONSE_PATH`: as many objects as were given.
///
/// # Errors
/// It is empty or not a JSON map, the hook reports a failure, or the count differs.
pub fn converted(text: &str, wanted: usize) -> Result<Vec<Value>, ResponseError> {
    let mut value = object(text)?;
    if let Some(message) = value["failedMessage"].as_str().filter(|m| !m.is_empty()) {
        return Err(ResponseError::Refused(message.to_owned()));
    }
    match value["convertedObjects"].take() {
        Value::Array(objects) if objects.len() == wanted => Ok(objects),
        Value::Array(objects) => {
            Err(ResponseError::Wrong(format!("{} converted objects instead of {wanted}", objects.len())))
        }
        other => Err(ResponseError::Wrong(format!("convertedObjects: {other} is not a list"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn admission_answers() {
        let good = [
            (r#"{"allowed":true}"#, Admitted { allowed: true, ..Admitted::default() }),
            (
                r#"{"allowed":false,"message":"no","warnings":["w"]}"#,
                Admitted { message: "no".into(), warnings: vec!["w".into()], ..Admitted::default() },
            ),
            (
                r#"{"allowed":true,"patch":"W10="}"#,
                Admitted { allowed: true, patch: Some("W10=".into()), ..Admitted::default() },
            ),
            ("{}", Admitted::default()),
        ];
        for (text, want) in good {
            assert_eq!(admitted(text), Ok(want), "{text}");
        }
        for (text, part) in [
            (" ", "is empty"),
            ("[]", "[] is not a map"),
            (r#"{"allowed":"yes"}"#, "allowed: \"yes\" is of the wrong type"),
            (r#"{"warnings":"w"}"#, "warnings: \"w\" is of"),
            (r#"{"patch":"?"}"#, "not base64"),
            ("{\"allowed\":", "EOF"),
        ] {
            let error = admitted(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn conversion_answers() {
        assert_eq!(converted(r#"{"convertedObjects":[{"a":1}]}"#, 1), Ok(vec![json!({"a": 1})]));
        for (text, part) in [
            (r#"{"failedMessage":"cannot"}"#, "cannot"),
            (r#"{"convertedObjects":[]}"#, "0 converted objects instead of 1"),
            ("{}", "null is not a list"),
            ("", "is empty"),
        ] {
            let error = converted(text, 1).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
