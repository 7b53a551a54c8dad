//! Secrets in messages: which texts are secret, and how they are masked.
//!
//! Owns the masking that logs, Events, statuses, diffs and error messages pass before they leave the process. Whoever
//! reads a secret adds it; whoever writes a message masks it. Knows JSON and the form of Secrets, nothing else.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{LazyLock, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The replacement of a secret in a message.
const MASK: &str = "***";
/// The shortest text that is masked, in bytes: shorter ones are parts of ordinary words.
const SHORTEST: usize = 8;
/// The longest one; a longer text is masked line by line.
const LONGEST: usize = 1 << 20;
/// Most bytes of stored secrets, in all their forms: the oldest are dropped.
const MAX_BYTES: usize = 8 << 20;

/// Texts that are secret, found by their first bytes.
#[derive(Default)]
struct Texts {
    by_start: HashMap<[u8; SHORTEST], Vec<String>>,
    known: HashSet<String>,
    oldest: VecDeque<String>,
    bytes: usize,
}

/// Masks secrets in texts.
#[derive(Default)]
pub struct Redactor {
    texts: RwLock<Texts>,
}

/// The redactor of the process, which has one log.
pub fn process() -> &'static Redactor {
    static PROCESS: LazyLock<Redactor> = LazyLock::new(Redactor::default);
    &PROCESS
}

impl Redactor {
    /// Adds a secret text: verbatim, each line, as base64, and as JSON and logs quote it.
    pub fn add(&self, text: &str) {
        if text.trim().len() < SHORTEST {
            return;
        }
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        if texts.known.contains(text.trim()) {
            return;
        }
        let lines = text.lines().filter(|_| text.trim().contains('\n'));
        for part in std::iter::once(text).chain(lines) {
            let part = part.trim();
            for form in [part.to_owned(), STANDARD.encode(part), quoted(part), quoted(&quoted(part))] {
                texts.insert(form);
            }
        }
        texts.insert(STANDARD.encode(text));
    }

    /// Adds every text and number in a value.
    pub fn add_all(&self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Number(number) => self.add(&number.to_string()),
            Value::Array(list) => list.iter().for_each(|value| self.add_all(value)),
            Value::Object(map) => map.values().for_each(|value| self.add_all(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds the data of an object that is a Secret, or a list of Secrets.
    pub fn add_secret(&self, object: &Value) {
        match object["kind"].as_str() {
            Some("Secret") => {}
            Some("SecretList" | "List") => {
                let items = object["items"].as_array().into_iter().flatten();
                // Items of a typed list have no kind.
                let untyped = object["kind"] == "SecretList";
                return items.for_each(
                    |item| {
                        if untyped { self.add_data(item) } else { self.add_secret(item) }
                    },
                );
            }
            _ => return,
        }
        self.add_data(object);
    }

    fn add_data(&self, secret: &Value) {
        self.add_all(&secret["stringData"]);
        self.add_all(&secret["data"]);
        for value in secret["data"].as_object().into_iter().flat_map(|data| data.values()) {
            let decoded = value.as_str().and_then(|text| STANDARD.decode(text.trim()).ok());
            if let Some(text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                self.add(&text);
            }
        }
    }

    /// The text with each secret masked, the longest where several begin.
    #[must_use]
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let texts = self.texts.read().unwrap_or_else(PoisonError::into_inner);
        if texts.known.is_empty() {
            return Cow::Borrowed(text);
        }
        let bytes = text.as_bytes();
        let (mut masked, mut copied, mut at) = (String::new(), 0, 0);
        while let Some(start) = bytes.get(at..).and_then(|rest| rest.first_chunk::<SHORTEST>()) {
            let here = &bytes[at..];
            let found = texts.by_start.get(start).into_iter().flatten();
            match found.filter(|secret| here.starts_with(secret.as_bytes())).map(String::len).max() {
                Some(length) => {
                    masked.push_str(&text[copied..at]);
                    masked.push_str(MASK);
                    at += length;
                    copied = at;
                }
                None => at += 1,
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        masked.push_str(&text[copied..]);
        Cow::Owned(masked)
    }
}

impl Texts {
    fn insert(&mut self, text: String) {
        if text.len() > LONGEST || self.known.contains(&text) {
            return;
        }
        let Some(start) = text.as_bytes().first_chunk::<SHORTEST>() else { return };
        self.bytes += text.len();
        self.by_start.entry(*start).or_default().push(text.clone());
        self.oldest.push_back(text.clone());
        self.known.insert(text);
        while self.bytes > MAX_BYTES {
            let Some(oldest) = self.oldest.pop_front() else { return };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, text: &str) {
        self.known.remove(text);
        self.bytes -= text.len();
        let Some(start) = text.as_bytes().first_chunk::<SHORTEST>() else { return };
        if let Some(list) = self.by_start.get_mut(start) {
            list.retain(|other| other != text);
            if list.is_empty() {
                self.by_start.remove(start);
            }
        }
    }
}

/// A text as JSON and Rust quote it, without the quotes.
fn quoted(text: &str) -> String {
    let json = Value::from(text).to_string();
    json.get(1..json.len() - 1).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_are_masked_in_every_form() {
        let redactor = Redactor::default();
        redactor.add("hunter2-secret");
        redactor.add("hunter2-secret-longer");
        redactor.add("with \"quotes\" and\nsecond line\n");
        redactor.add("short");
        redactor.add_all(&json!({"a": [123_456_789, true, {"b": "nested-secret"}]}));
        redactor.add_secret(&json!({"kind": "Secret", "data": {"a": "ZGVjb2RlZC1zZWNyZXQ="}, "stringData": {"b": "plain-secret"}}));
        redactor.add_secret(&json!({"kind": "ConfigMap", "data": {"a": "no-secret-at-all"}}));
        redactor
            .add_secret(&json!({"kind": "SecretList", "items": [{"data": {"a": "bGlzdGVkLXNlY3JldA=="}}]}));
        let table = [
            ("nothing here", "nothing here"),
            ("a hunter2-secret b hunter2-secret", "a *** b ***"),
            ("hunter2-secret-longer", "***"),
            ("ähunter2-secretä", "ä***ä"),
            ("aHVudGVyMi1zZWNyZXQ=", "***"),
            ("with \"quotes\" and\nsecond line", "***"),
            (r#"{"m":"with \"quotes\" and\nsecond line"}"#, r#"{"m":"***"}"#),
            (r#"{"m":"x=\"with \\\"quotes\\\" and\\nsecond line\""}"#, r#"{"m":"x=\"***\""}"#),
            ("only second line of it", "only *** of it"),
            ("a short one", "a short one"),
            ("got 123456789, nested-secret", "got ***, ***"),
            ("decoded-secret ZGVjb2RlZC1zZWNyZXQ= plain-secret", "*** *** ***"),
            ("no-secret-at-all", "no-secret-at-all"),
            ("listed-secret", "***"),
        ];
        for (text, expected) in table {
            assert_eq!(redactor.mask(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let redactor = Redactor::default();
        for i in 0..40 {
            redactor.add(&format!("{i:08}{}", "x".repeat(100_000)));
        }
        let texts = redactor.texts.read().unwrap();
        assert!(texts.bytes <= MAX_BYTES && texts.known.len() == texts.oldest.len(), "{}", texts.bytes);
        assert_eq!(texts.bytes, texts.known.iter().map(String::len).sum::<usize>());
        drop(texts);
        assert_eq!(redactor.mask(&format!("00000039{}", "x".repeat(100_000))), MASK);
        assert_ne!(redactor.mask(&format!("00000000{}", "x".repeat(100_000))), MASK, "the oldest went");
    }
}
