//! A set of secrets: which texts are secret, and how they are masked in a text.
//!
//! Knows JSON, the form of Secrets and the marks in schemas, nothing else. Who reads and who masks is `super`'s.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The replacement of a secret in a message.
const MASK: &str = "***";
/// The shortest text that is masked, in bytes: shorter ones are parts of ordinary words.
const SHORTEST: usize = 8;
/// The longest one. Of a longer text only the beginning is stored, and masked with the rest of its line; a longer text of several
/// lines is masked line by line.
const LONGEST: usize = 1 << 20;
/// The stored bytes of a longer text.
const BEGINNING: usize = 4 << 10;
/// Stands for a text that may have secrets which are not stored.
const HIDDEN: &str = "*** (the text is hidden: the secrets that were read have more than 8 MiB)";
/// Most bytes of stored secrets, in all their forms.
const MAX_BYTES: usize = 8 << 20;
/// Most of them that are of no namespace, while objects of namespaces take the rest.
const MAX_OWN_BYTES: usize = MAX_BYTES / 4 * 3;
/// What an entry of the tables costs beside its text, in bytes.
const ENTRY_BYTES: usize = 128;
/// Most bytes that one call compares with secrets: a text that needs more is masked from there to its end.
const MAX_COMPARED: usize = 64 << 20;
/// How deep the marks of a schema are followed.
const MAX_DEPTH: usize = 64;
/// Most pairs of a schema and a value that are visited for marks: beyond, all values are secret.
const MAX_VISITS: usize = 1 << 18;

/// Texts that are secret, found by their first bytes.
#[derive(Default)]
struct Texts {
    by_start: HashMap<[u8; SHORTEST], VecDeque<Arc<str>>>,
    /// Each with the namespaces that it counts for: those of the Secrets that have it; empty for others.
    known: HashMap<Arc<str>, Vec<Arc<str>>>,
    /// Those of them that are beginnings of longer texts.
    beginnings: HashSet<Arc<str>>,
    shares: BTreeMap<Arc<str>, Share>,
    bytes: usize,
    /// What does not fit hides every text; otherwise the oldest of the largest share are dropped.
    keeps_all: bool,
    overflowed: bool,
}

/// The texts of one namespace.
#[derive(Default)]
struct Share {
    /// In the order of their reads.
    oldest: VecDeque<Arc<str>>,
    bytes: usize,
}

/// Masks secrets in texts.
#[derive(Default)]
pub struct Redactor {
    texts: RwLock<Texts>,
}

impl Redactor {
    /// One that drops no secret: if there are too many, all of a text is masked.
    pub(super) fn bounded() -> Self {
        Self { texts: RwLock::new(Texts { keeps_all: true, ..Texts::default() }) }
    }

    /// Adds a secret text: verbatim, each line, as base64, and as JSON and logs quote it.
    pub fn add(&self, text: &str) {
        self.add_for(text, "");
    }

    /// Adds a text of a Secret of a namespace.
    fn add_for(&self, text: &str, namespace: &str) {
        if text.trim().len() < SHORTEST {
            return;
        }
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        // Where nothing is dropped it does not matter whose a text is.
        let namespace = if texts.keeps_all { "" } else { namespace };
        if texts.is_known(text.trim(), namespace) {
            return;
        }
        let lines = text.lines().filter(|_| text.trim().contains('\n'));
        for part in std::iter::once(text).chain(lines) {
            let part = part.trim();
            for form in [part.to_owned(), STANDARD.encode(part), quoted(part), quoted(&quoted(part))] {
                texts.insert(form, namespace);
            }
        }
        texts.insert(STANDARD.encode(text), namespace);
    }

    /// Adds every text and number in a value.
    pub fn add_all(&self, value: &Value) {
        self.add_all_for(value, "");
    }

    fn add_all_for(&self, value: &Value, namespace: &str) {
        match value {
            Value::String(text) => self.add_for(text, namespace),
            Value::Number(number) => {
                self.add_for(&number.to_string(), namespace);
                if let Some(number) = number.as_f64() {
                    self.add_for(&exponential(number), namespace);
                    self.add_for(&grouped(number), namespace);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| self.add_all_for(value, namespace)),
            Value::Object(map) => map.values().for_each(|value| self.add_all_for(value, namespace)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds the data of an object that is a Secret, or a list of Secrets. They count for their namespaces: whoever fills the set with
    /// Secrets of one pushes out no others.
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

    /// Adds the values that a JSON schema marks `writeOnly: true` or `x-sensitive: true`. A value of another type than the
    /// schema's is a secret too. References within the schema are followed, others are not.
    pub fn add_marked(&self, schema: &Value, value: &Value) {
        let mut left = MAX_VISITS;
        self.add_marked_at(schema, schema, value, 0, &mut left);
        if left == 0 {
            self.add_all(value);
        }
    }

    /// `left`: how many pairs may still be visited.
    fn add_marked_at(&self, root: &Value, schema: &Value, value: &Value, depth: usize, left: &mut usize) {
        if depth == MAX_DEPTH || *left == 0 {
            return;
        }
        *left -= 1;
        let mut below =
            |schema: &Value, value: &Value| self.add_marked_at(root, schema, value, depth + 1, left);
        if schema["writeOnly"] == true || schema["x-sensitive"] == true {
            return self.add_all(value);
        }
        let reference = schema["$ref"].as_str().and_then(|text| text.strip_prefix('#'));
        if let Some(schema) = reference.and_then(|pointer| root.pointer(pointer)) {
            below(schema, value);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            schema[key].as_array().into_iter().flatten().for_each(|schema| below(schema, value));
        }
        match value {
            Value::Object(map) => {
                // Every pattern counts as one that matches: one value too many is masked.
                let patterns = schema["patternProperties"].as_object();
                for (key, value) in map {
                    below(schema["properties"].get(key).unwrap_or(&schema["additionalProperties"]), value);
                    patterns.into_iter().flatten().for_each(|(_, schema)| below(schema, value));
                }
            }
            Value::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    let items = &schema["items"];
                    below(items.get(index).unwrap_or(items), value);
                }
            }
            _ => {}
        }
    }

    fn add_data(&self, secret: &Value) {
        let namespace = secret["metadata"]["namespace"].as_str().unwrap_or_default();
        self.add_all_for(&secret["stringData"], namespace);
        self.add_all_for(&secret["data"], namespace);
        for value in secret["data"].as_object().into_iter().flat_map(|data| data.values()) {
            let decoded = value.as_str().and_then(|text| STANDARD.decode(text.trim()).ok());
            if let Some(text) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                self.add_for(&text, namespace);
            }
        }
    }

    /// The text with each secret masked, the longest where several begin. In a line that names a secret, parts of it are masked too:
    /// an error that quotes a value often quotes a part of it again.
    #[must_use]
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let texts = self.texts.read().unwrap_or_else(PoisonError::into_inner);
        if texts.overflowed {
            return Cow::Borrowed(HIDDEN);
        }
        if texts.known.is_empty() {
            return Cow::Borrowed(text);
        }
        let bytes = text.as_bytes();
        let (mut masked, mut copied, mut at) = (String::new(), 0, 0);
        let mut compared = 0;
        // The secrets, each with the end of its mask.
        let mut named: Vec<(usize, &str)> = Vec::new();
        while let Some(start) = bytes.get(at..).and_then(|rest| rest.first_chunk::<SHORTEST>()) {
            let found = texts.by_start.get(start).into_iter().flatten();
            let begins = |secret: &&Arc<str>| {
                let equal = secret.bytes().zip(&bytes[at..]).take_while(|(a, b)| a == *b).count();
                compared += equal;
                equal == secret.len()
            };
            match found.filter(begins).max_by_key(|secret| secret.len()) {
                Some(secret) => {
                    masked.push_str(&text[copied..at]);
                    masked.push_str(MASK);
                    at += secret.len();
                    if texts.beginnings.contains(secret) {
                        at += text[at..].find('\n').unwrap_or(text.len() - at);
                    }
                    copied = at;
                    named.push((masked.len(), secret));
                }
                None => at += 1,
            }
            if compared > MAX_COMPARED {
                masked.push_str(&text[copied..text.floor_char_boundary(at.max(copied))]);
                masked.push_str(MASK);
                copied = text.len();
                break;
            }
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        masked.push_str(&text[copied..]);
        Cow::Owned(mask_named_parts(&masked, &named))
    }
}

impl Texts {
    /// Whether a text is there that counts for the namespace.
    fn is_known(&self, text: &str, namespace: &str) -> bool {
        self.known.get(text).is_some_and(|owners| owners.iter().any(|owner| **owner == *namespace))
    }

    fn insert(&mut self, mut text: String, namespace: &str) {
        let long = text.len() > LONGEST;
        if long {
            if text.contains('\n') {
                return;
            }
            text.truncate(text.floor_char_boundary(BEGINNING));
        }
        if self.is_known(&text, namespace) {
            return;
        }
        let Some(start) = text.as_bytes().first_chunk::<SHORTEST>().copied() else { return };
        let size = text.len() + ENTRY_BYTES;
        if self.keeps_all && self.bytes + size > MAX_BYTES {
            self.overflowed = true;
            return;
        }
        let text: Arc<str> = match self.known.get_key_value(text.as_str()) {
            Some((known, _)) => Arc::clone(known),
            None => text.into(),
        };
        let owner = match self.shares.get_key_value(namespace) {
            Some((owner, _)) => Arc::clone(owner),
            None => namespace.into(),
        };
        let share = self.shares.entry(Arc::clone(&owner)).or_default();
        share.bytes += size;
        share.oldest.push_back(Arc::clone(&text));
        self.bytes += size;
        if long {
            self.beginnings.insert(Arc::clone(&text));
        }
        let owners = self.known.entry(Arc::clone(&text)).or_default();
        if owners.is_empty() {
            self.by_start.entry(start).or_default().push_back(text);
        }
        owners.push(owner);
        while self.bytes > MAX_BYTES && self.drop_oldest() {}
    }

    /// Drops the oldest text of the largest share of a namespace, or of what is of none, if that has more than its part. `false`: there
    /// is nothing to drop.
    fn drop_oldest(&mut self) -> bool {
        let own = self.shares.get("").map_or(0, |share| share.bytes);
        let namespaces = self.shares.iter().filter(|(name, _)| !name.is_empty());
        let largest = namespaces.max_by_key(|(_, share)| share.bytes).map(|(name, _)| Arc::clone(name));
        let owner = largest.filter(|_| own <= MAX_OWN_BYTES).unwrap_or_default();
        let Some(share) = self.shares.get_mut(&owner) else { return false };
        let Some(text) = share.oldest.pop_front() else { return false };
        let size = text.len() + ENTRY_BYTES;
        share.bytes -= size;
        self.bytes -= size;
        if share.oldest.is_empty() {
            self.shares.remove(&owner);
        }
        let Some(owners) = self.known.get_mut(&text) else { return true };
        owners.retain(|other| *other != owner);
        if owners.is_empty() {
            self.forget(&text);
        }
        true
    }

    /// Forgets a text that counts for nobody any more.
    fn forget(&mut self, text: &Arc<str>) {
        self.known.remove(text);
        self.beginnings.remove(text);
        let Some(start) = text.as_bytes().first_chunk::<SHORTEST>() else { return };
        if let Some(list) = self.by_start.get_mut(start) {
            // The oldest is among the first.
            if let Some(place) = list.iter().position(|other| Arc::ptr_eq(other, text)) {
                list.remove(place);
            }
            if list.is_empty() {
                self.by_start.remove(start);
            }
        }
    }
}

/// Masks in each line the parts of the secrets whose masks are there, given with their ends.
fn mask_named_parts(text: &str, named: &[(usize, &str)]) -> String {
    let (mut masked, mut rest, mut end) = (String::with_capacity(text.len()), named, 0);
    for line in text.split_inclusive('\n') {
        end += line.len();
        let here = rest.iter().take_while(|(mask, _)| *mask <= end).count();
        let parts: HashSet<&[u8]> =
            rest[..here].iter().flat_map(|(_, secret)| secret.as_bytes().windows(SHORTEST)).collect();
        rest = &rest[here..];
        mask_parts(line, &parts, &mut masked);
    }
    masked
}

/// Appends a line with each run masked whose every [`SHORTEST`] bytes are one of `parts`.
fn mask_parts(line: &str, parts: &HashSet<&[u8]>, masked: &mut String) {
    let (mut copied, mut at) = (0, 0);
    while !parts.is_empty()
        && let Some(run) = line.as_bytes().get(at..at + SHORTEST)
    {
        if !parts.contains(run) {
            at += 1;
            continue;
        }
        let more = line.as_bytes()[at + 1..].windows(SHORTEST).take_while(|run| parts.contains(run)).count();
        let end = line.ceil_char_boundary(at + SHORTEST + more);
        masked.push_str(&line[copied..line.floor_char_boundary(at).max(copied)]);
        masked.push_str(MASK);
        (copied, at) = (end, end);
    }
    masked.push_str(&line[copied..]);
}

/// A number as Go's `%v` prints a float of many digits: `7.31e+11`.
fn exponential(number: f64) -> String {
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent:0>2}"),
        _ => text,
    }
}

/// The integer part of a number as messages about schemas print it: `731,000`.
fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.trunc());
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
            (
                "got 1.23456789e+08, at most 987,654,321, not 123,456,789",
                "got ***, at most 987,654,321, not ***",
            ),
            (
                "hunter2-secret is wrong at \"er2-secret\" and at \"secret\"",
                "*** is wrong at \"***\" and at \"secret\"",
            ),
            ("hunter2-secret\ner2-secret", "***\ner2-secret"),
        ];
        for (text, expected) in table {
            assert_eq!(redactor.mask(text), expected, "{text}");
        }
    }

    #[test]
    fn a_schema_marks_secrets() {
        let redactor = Redactor::default();
        let schema = json!({
            "$defs": {"token": {"writeOnly": true}},
            "properties": {
                "password": {"type": "string", "x-sensitive": true},
                "users": {"items": {"properties": {"token": {"$ref": "#/$defs/token"}, "name": {"type": "string"}}}},
                "pair": {"items": [{}, {"x-sensitive": true}]},
                "shown": {"x-sensitive": false},
                "keys": {"patternProperties": {"Key$": {"writeOnly": true}}},
                "loop": {"$ref": "#/properties/loop"},
                "either": {"oneOf": [{"type": "null"}, {"writeOnly": true}]},
            },
            "additionalProperties": {"properties": {"secret": {"x-sensitive": true}}},
        });
        let values = json!({
            "password": {"is": ["of-another-type"]},
            "users": [{"token": "token-of-ann", "name": "ann-with-a-name"}],
            "pair": ["first-of-the-pair", "second-of-the-pair"],
            "shown": "marked-as-open",
            "loop": "around-and-around",
            "either": "one-or-none",
            "keys": {"apiKey": "matches-the-pattern"},
            "other": {"secret": "below-others", "open": "nobody-minds"},
        });
        redactor.add_marked(&schema, &values);
        for secret in
            ["of-another-type", "token-of-ann", "one-or-none", "matches-the-pattern", "below-others"]
        {
            assert_eq!(redactor.mask(secret), MASK, "{secret}");
        }
        let open =
            ["ann-with-a-name", "first-of-the-pair", "marked-as-open", "around-and-around", "nobody-minds"];
        for open in open {
            assert_eq!(redactor.mask(open), open);
        }
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let redactor = Redactor::default();
        for i in 0..40 {
            redactor.add(&format!("{i:08}{}", "x".repeat(100_000)));
        }
        let texts = redactor.texts.read().unwrap();
        let queued: usize = texts.shares.values().map(|share| share.oldest.len()).sum();
        assert!(texts.bytes <= MAX_BYTES && texts.known.len() == queued, "{}", texts.bytes);
        assert_eq!(texts.bytes, texts.known.keys().map(|text| text.len() + ENTRY_BYTES).sum::<usize>());
        drop(texts);
        assert_eq!(redactor.mask(&format!("00000039{}", "x".repeat(100_000))), MASK);
        assert_ne!(redactor.mask(&format!("00000000{}", "x".repeat(100_000))), MASK, "the oldest went");
        for i in 0..MAX_BYTES / 64 {
            redactor.add(&format!("{i:08}"));
        }
        let texts = redactor.texts.read().unwrap();
        assert!(texts.known.len() <= MAX_BYTES / ENTRY_BYTES, "{}", texts.known.len());
    }

    #[test]
    fn secrets_of_one_namespace_push_out_no_others() {
        let redactor = Redactor::default();
        redactor.add("password-of-a-module");
        let secret = |namespace: &str, text: &str| {
            redactor.add_secret(
                &json!({"kind": "Secret", "metadata": {"namespace": namespace}, "stringData": {"a": text}}),
            );
        };
        secret("loud", "copied-to-another");
        secret("quiet", "copied-to-another");
        secret("quiet", "secret-of-another");
        secret("loud", "known-to-a-tenant-first");
        redactor.add("known-to-a-tenant-first");
        for i in 0..40 {
            secret("loud", &format!("{i:08}{}", "x".repeat(100_000)));
        }
        for text in
            ["password-of-a-module", "secret-of-another", "known-to-a-tenant-first", "copied-to-another"]
        {
            assert_eq!(redactor.mask(text), MASK, "{text}");
        }
        assert_ne!(redactor.mask(&format!("00000000{}", "x".repeat(100_000))), MASK, "the oldest went");
        for i in 0..40 {
            redactor.add(&format!("{i:08}{}", "y".repeat(100_000)));
        }
        assert_eq!(redactor.mask("secret-of-another"), MASK, "a quarter is for namespaces");
        let texts = redactor.texts.read().unwrap();
        assert!(texts.bytes <= MAX_BYTES && texts.shares[""].bytes < MAX_BYTES / 8 * 7);
        assert_eq!(texts.bytes, texts.shares.values().map(|share| share.bytes).sum::<usize>());
    }

    #[test]
    fn long_lines_are_masked_to_their_ends() {
        let redactor = Redactor::default();
        let long = format!("ä\"{}", "long-secret".repeat(LONGEST / 8));
        redactor.add_secret(&json!({"kind": "Secret", "data": {"a": STANDARD.encode(&long)}}));
        for form in [long.clone(), quoted(&long), STANDARD.encode(&long)] {
            assert_eq!(redactor.mask(&format!("a {form}\nb")), "a ***\nb", "{} bytes", form.len());
        }
        let several = format!("{}\nsecond-line", "first-line".repeat(LONGEST / 8));
        redactor.add(&several);
        assert_eq!(redactor.mask(&format!("a {several} b")), "a ***\n*** b");
        assert!(redactor.texts.read().unwrap().bytes < 1 << 20);
    }

    #[test]
    fn the_work_of_a_call_is_bounded() {
        // Each text would be compared with each secret nearly to its end, at each of its bytes.
        let redactor = Redactor::default();
        for end in 'b'..='m' {
            redactor.add(&format!("{}{end}", "a".repeat(200_000)));
        }
        let text = format!("{}ä", "a".repeat(1 << 20));
        assert!(redactor.mask(&text).ends_with(&format!("a{MASK}")));

        // Parts of each secret are looked for in the whole line.
        let redactor = Redactor::default();
        let secrets: Vec<String> = (0..1000).map(|i| format!("{i:04}{}", "-x".repeat(1000))).collect();
        secrets.iter().for_each(|secret| redactor.add(secret));
        let line = format!("{} open {}", secrets.join(" "), "-x".repeat(30_000));
        assert!(redactor.mask(&line).ends_with(&format!("{MASK} {MASK} open {MASK}")));

        // Each step doubles what is to be visited.
        let redactor = Redactor::default();
        let twice = json!({"$ref": "#/$defs/a"});
        let schema =
            json!({"$defs": {"a": {"allOf": [twice, twice], "writeOnly": false}}, "$ref": "#/$defs/a"});
        redactor.add_marked(&schema, &json!({"any": "all-of-it-is-secret"}));
        assert_eq!(redactor.mask("all-of-it-is-secret"), MASK, "not all marks could be found");
    }
}
