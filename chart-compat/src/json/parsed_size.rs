//! What a JSON text takes once it is parsed, before it is. Pure.

/// The memory of an object with members, in bytes: a node of its map.
const OBJECT: u64 = 640;
/// The memory of each further value, in bytes.
const VALUE: u64 = 64;

/// The most memory that a JSON document takes once it is parsed into values, counted as its bytes come: a map of one member has a hundred
/// times the bytes of its text. Characters of texts count themselves only.
#[derive(Clone, Debug, Default)]
pub struct ParsedSize {
    /// Of the document itself, in bytes.
    pub bytes: u64,
    /// Of it and of its values, in bytes.
    pub parsed: u64,
    in_text: bool,
    escaped: bool,
    opened: bool,
}

impl ParsedSize {
    /// The size of a whole document.
    #[must_use]
    pub fn of(json: &[u8]) -> Self {
        let mut size = Self::default();
        size.add(json);
        size
    }

    /// Counts the next bytes of a document.
    pub fn add(&mut self, json: &[u8]) {
        self.bytes += json.len() as u64;
        self.parsed += json.len() as u64;
        for byte in json {
            // An object has members if something else than its end follows.
            if std::mem::take(&mut self.opened) && *byte != b'}' {
                self.parsed += OBJECT;
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' => self.opened = true,
                b',' | b'[' | b':' => self.parsed += VALUE,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_count_themselves_and_values_what_they_take() {
        for (json, size) in [
            ("{}", 2),
            (r#"{"a": "{[,:\"{,"}"#, 17 + OBJECT + VALUE),
            (r#"[{"a":1},{"a":[]}]"#, 18 + 2 * OBJECT + 5 * VALUE),
        ] {
            let whole = ParsedSize::of(json.as_bytes());
            let mut pieces = ParsedSize::default();
            json.as_bytes().iter().for_each(|byte| pieces.add(&[*byte]));
            assert_eq!((whole.parsed, pieces.parsed), (size, size), "{json}");
            assert_eq!(whole.bytes, json.len() as u64);
        }
    }
}
