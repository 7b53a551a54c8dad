//! Texts: plausible words, odd ones, and their literals in Go's syntax.

use crate::choices::Choices;

const WORDS: &[&str] = &[
    "a",
    "",
    "b",
    "foo",
    "a-b",
    "web",
    "1",
    "0",
    "-1",
    "1.5",
    "true",
    "null",
    "nginx:1.25",
    "a b",
    "x=y",
    "FooBar",
    "foo_bar",
    "a.b.c",
    "/p/q.txt",
    "app.kubernetes.io/name",
    "10Gi",
    "0x1F",
    "010",
    "1e3",
    "yes",
    "~",
    "- a",
    "a: b",
    "# c",
    "{a}",
    "[a]",
    "\"q\"",
    "it's",
    "a\nb",
    "a\n",
    "\n",
    " a ",
    "  ",
    "\t",
    "a\r\nb",
    "<&>",
    "$1",
    "%d",
    "{{ . }}",
    "héé",
    "✓",
    "ß",
    "İ",
    "ǆ",
    "日本語",
    "😀",
    "e\u{301}",
    "\u{a0}",
    "\u{2028}",
    "\u{feff}",
    "\u{85}",
    "\0",
    "\u{7f}",
    "aGVsbG8=",
    "1.2.3",
    "90s",
    "1h30m",
    "2024-02-29",
    "https://u:p@h:80/p?q=1#f",
    "hello world, how are you today",
    "12:30:45",
    "1_000",
    "0o17",
    "+1",
    ".5",
    "1.",
    "Inf",
    "NaN",
    "9223372036854775808",
    "2001-01-01",
    "=",
    "<<",
    "!x",
    "&x",
    "*x",
    "?",
    "-",
    "---",
    "...",
    "@",
    "`",
    "|",
    ">",
    "%",
    ",",
    ":",
    "a:",
    "a #b",
    "a#b",
    "'",
    "\\",
    "\\n",
    "ſ",
    "K",
    "Straße",
    "ÀÉÎ",
    "éa",
    "HTTPServer",
    "one two-three_four",
    "ﬁ",
    "\u{200d}",
    "\u{1b}",
    "A1b2",
    "ABc",
    "iPhone",
];

/// A text: a word, or some of them together.
pub(crate) fn text(c: &mut Choices) -> Vec<u8> {
    let mut out = c.of(WORDS).as_bytes().to_vec();
    while c.one_in(4) {
        if c.one_in(12) {
            out.extend([c.of(&[0xFFu8, 0x80, 0xC3, 0xED, 0xF0])]);
        } else {
            out.extend(c.of(WORDS).as_bytes());
        }
        if out.len() > 400 {
            break;
        }
    }
    out
}

/// A text that is UTF-8.
pub(crate) fn unicode(c: &mut Choices) -> String {
    String::from_utf8_lossy(&text(c)).into_owned()
}

/// The text as a string literal of Go.
pub(crate) fn literal(c: &mut Choices, text: &[u8]) -> Vec<u8> {
    let raw = !text.contains(&b'`') && !text.contains(&b'\r');
    if raw && c.one_in(8) {
        return [b"`", text, b"`"].concat();
    }
    quoted(text)
}

/// The text in double quotes, escaped.
pub(crate) fn quoted(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'"'];
    for b in text {
        match b {
            b'"' | b'\\' => out.extend([b'\\', *b]),
            b'\n' => out.extend(b"\\n"),
            b if *b < 0x20 || *b >= 0x7f && std::str::from_utf8(text).is_err() => {
                out.extend(format!("\\x{b:02x}").bytes());
            }
            b => out.push(*b),
        }
    }
    out.push(b'"');
    out
}

/// Damages a text: bytes go, come, double or change place.
pub(crate) fn mutate(c: &mut Choices, mut text: Vec<u8>, pieces: &[&str]) -> Vec<u8> {
    for _ in 0..=c.below(3) {
        let at = c.below(text.len() + 1);
        match c.below(5) {
            0 => {
                let end = text.len().min(at + 1 + c.below(4));
                text.drain(at..end);
            }
            1 => drop(text.splice(at..at, c.of(pieces).bytes())),
            2 => {
                let end = text.len().min(at + 1 + c.below(12));
                let again = text[at..end].to_vec();
                drop(text.splice(at..at, again));
            }
            3 => text.truncate(at),
            _ => {
                if let Some(b) = text.get_mut(at) {
                    *b = c.of(b" \n\t:-{}[]\"'#&*!|>%@,.?=()$\\/\xFF\x00\xC3a0");
                }
            }
        }
    }
    text
}
