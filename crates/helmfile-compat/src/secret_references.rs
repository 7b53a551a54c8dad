//! Secret references in values: `ref+PROVIDER://PATH?PARAMETERS#/FRAGMENT`.
//!
//! Owns how references are found in texts. The host resolves them.

use super::error::Error;
use super::host::Host;
use super::value::Value;

/// What every reference starts with, after an optional `secret`.
const PREFIX: &str = "ref+";
/// The maximal nesting of references.
const MAX_NESTING: usize = 10;

/// Replaces every reference in the texts of a value. `dir`: the folder that paths are relative to. A text that is one reference alone becomes the secret's value.
///
/// # Errors
/// A reference that cannot be resolved.
pub fn expand(host: &dyn Host, dir: &str, value: Value) -> Result<Value, Error> {
    match value {
        Value::String(text) => expand_text(host, dir, &text),
        Value::List(items) => {
            Ok(Value::List(items.into_iter().map(|item| expand(host, dir, item)).collect::<Result<_, _>>()?))
        }
        Value::Map(map) => {
            let entry = |(key, value)| Ok((key, expand(host, dir, value)?));
            Ok(Value::Map(map.into_iter().map(entry).collect::<Result<_, Error>>()?))
        }
        other => Ok(other),
    }
}

/// Whether a text holds a reference.
#[must_use]
pub fn has_reference(text: &str) -> bool {
    text.contains(PREFIX)
}

fn expand_text(host: &dyn Host, dir: &str, text: &str) -> Result<Value, Error> {
    let text = with_inner_resolved(host, dir, text.to_owned(), 0)?;
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(found) = next_reference(rest) {
        let secret = host.secret(found.reference, dir)?;
        if found.before.is_empty() && found.after.is_empty() && out.is_empty() {
            return Ok(secret);
        }
        out.push_str(found.before);
        out.push_str(&secret.go_text());
        rest = found.after;
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

/// Resolves references within references, the innermost first.
fn with_inner_resolved(host: &dyn Host, dir: &str, text: String, depth: usize) -> Result<String, Error> {
    if depth >= MAX_NESTING {
        return Err(Error::Invalid(format!("references are nested more than {MAX_NESTING} times")));
    }
    let starts: Vec<usize> = text.match_indices(PREFIX).map(|(at, _)| at).collect();
    for pair in starts.windows(2).rev() {
        let [outer, inner] = pair else { continue };
        let inner =
            if text.get(..*inner).is_some_and(|t| t.ends_with("secret")) { inner - 6 } else { *inner };
        let between = text.get(outer + PREFIX.len()..inner).unwrap_or_default();
        if between.contains([' ', '\n', '\r', '\t', '"', ',']) {
            continue;
        }
        let Some(found) = text.get(inner..).and_then(next_reference) else { continue };
        let secret = host.secret(found.reference, dir)?;
        if matches!(secret, Value::Null | Value::List(_) | Value::Map(_) | Value::AnyMap(_)) {
            return Err(Error::Invalid(
                "a reference within a reference resolved to no plain value".to_owned(),
            ));
        }
        let (before, after) = (text.get(..inner).unwrap_or_default(), found.after);
        let replaced = format!("{before}{}{}{after}", found.before, secret.go_text());
        return with_inner_resolved(host, dir, replaced, depth + 1);
    }
    Ok(text)
}

/// A reference in a text.
#[derive(Debug, PartialEq, Eq)]
struct Found<'t> {
    before: &'t str,
    /// The reference without its prefix.
    reference: &'t str,
    after: &'t str,
}

/// The first reference of a text, as the pattern `((secret)?ref)\+([^\+:]*://[^\+\n ]+[^\+\n ",])\+?` finds it.
fn next_reference(text: &str) -> Option<Found<'_>> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find(PREFIX).map(|at| from + at) {
        let body_at = at + PREFIX.len();
        let body = text.get(body_at..)?;
        let end = body.find(['+', '\n', ' ']).unwrap_or(body.len());
        let run = body.get(..end)?.trim_end_matches(['"', ',']);
        let path = run.split_once("://").filter(|(scheme, _)| !scheme.contains(':')).map(|(_, path)| path);
        if path.is_some_and(|path| path.chars().count() >= 2) {
            let close = body_at + run.len();
            let after = text.get(close..)?;
            let start = if text.get(..at)?.ends_with("secret") { at - "secret".len() } else { at };
            let after = after.strip_prefix('+').unwrap_or(after);
            return Some(Found { before: text.get(..start)?, reference: run, after });
        }
        from = body_at;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Found, next_reference};

    #[test]
    fn references_are_found_in_texts() {
        let table = [
            ("ref+echo://a/b", Some(("", "echo://a/b", ""))),
            ("secretref+file://a#/b", Some(("", "file://a#/b", ""))),
            ("x ref+echo://ab y", Some(("x ", "echo://ab", " y"))),
            ("a-ref+echo://bc+-d", Some(("a-", "echo://bc", "-d"))),
            ("\"ref+echo://bc\", more", Some(("\"", "echo://bc", "\", more"))),
            ("ref+echo://b", None),
            ("ref+ nothing", None),
            ("href+", None),
        ];
        for (text, expected) in table {
            let expected = expected.map(|(before, reference, after)| Found { before, reference, after });
            assert_eq!(next_reference(text), expected, "{text}");
        }
    }
}
