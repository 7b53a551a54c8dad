//! YAML documents: well-formed ones by grammar, and damaged ones.

use super::text::{mutate, unicode};
use crate::choices::Choices;

const SCALARS: &[&str] = &[
    "a",
    "1",
    "\"q\"",
    "'s'",
    "true",
    "null",
    "~",
    "",
    "1.5",
    "0x1F",
    "0b101",
    "010",
    "0o17",
    "1_000",
    "1e3",
    "1E+5",
    ".5",
    "1.",
    "-1",
    "+1",
    "yes",
    "No",
    "on",
    "OFF",
    "y",
    "n",
    ".inf",
    "-.inf",
    ".nan",
    "2001-01-01",
    "2001-12-14t21:59:43.10-05:00",
    "2001-12-14 21:59:43",
    "1:30",
    "190:20:30",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e400",
    "a b",
    "a # c",
    "a#b",
    "a: b",
    "\"a\\nb\"",
    "\"\\u00e9\\x41\\U0001F600\"",
    "'it''s'",
    "\"a\n  b\n\n  c\"",
    "'a\n  b'",
    "a\n  b",
    "!!str 1",
    "!!int \"1\"",
    "!!float 1",
    "!!bool yes",
    "!!null x",
    "!!binary aGk=",
    "!!timestamp 2001-01-01",
    "!local x",
    "!<tag:yaml.org,2002:str> 5",
    "!!set {a, b}",
    "!!map {a: 1}",
    "!!seq [1]",
    "&x a",
    "*x",
    "&x",
    "é",
    "日本",
    "😀",
    "\"\\ud83d\\ude00\"",
    "\"\\z\"",
    "\u{feff}a",
    "a\u{85}b",
    "a\u{2028}b",
    "-",
    "- a",
    "?",
    "? a",
    "- - a",
    "[]",
    "{}",
    "[a, b]",
    "{a: 1, b: 2}",
    "[a, [b, {c: d}]]",
    "{a, b: }",
    "{\"a\":1}",
    "[a b, c: d]",
    "@a",
    "`a",
    "%a",
    "&",
    "*",
    "!",
    "|",
    ">",
    "<<",
    "=",
    "0.1",
    "1e-7",
    "123456789012345678901234567890",
    "0x",
    "0xFFFFFFFFFFFFFFFF",
    "-0x10",
    "0.0",
    "-0",
    "00",
    "08",
    "1__0",
    "_1",
    "12e03",
    "-2E+05",
    "null ",
    "Null",
    "NULL",
    "True",
    "TRUE",
    "tRue",
    "---",
    "...",
    "--- a",
    "a:b",
    "http://x:80/y",
    ":a",
    "a:",
];

const KEYS: &[&str] = &[
    "a",
    "b",
    "c",
    "1",
    "\"q k\"",
    "'s'",
    "true",
    "null",
    "~",
    "1.5",
    "<<",
    "y",
    "? a",
    "&k a",
    "*x",
    "[a]",
    "{a: 1}",
    "a b",
    "é",
    "0x10",
    "2001-01-01",
    "",
    "!!str 1",
    ".inf",
    "-1",
    "1e3",
    "key.with/slash",
    "? |\n  a\n",
    "=",
    "9223372036854775808",
    "010",
];

/// Pieces that a damaged document gets.
const PIECES: &[&str] = &[
    "\n",
    ": ",
    "- ",
    "  ",
    "\t",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "'",
    "#",
    " #",
    "&a ",
    "*a",
    "!!str ",
    "| \n",
    ">-\n",
    "---\n",
    "...\n",
    "%YAML 1.1\n",
    "? ",
    "<<: *a\n",
    "\r\n",
    "\u{feff}",
    "\u{0}",
    "\u{85}",
    "\\",
    "|2-\n",
    "%TAG ! tag:x,2000:\n---\n",
    "!e!a ",
    "\u{7f}",
    "😀",
];

/// A document.
pub(crate) fn document(c: &mut Choices) -> Vec<u8> {
    let mut out = String::new();
    if c.one_in(12) {
        out += c.of(&[
            "---\n",
            "# c\n",
            "%YAML 1.1\n---\n",
            "--- # c\n",
            "\u{feff}",
            "--- ",
            "%TAG !e! tag:e,2000:\n---\n",
            "\n\n",
            "...\n",
        ]);
    }
    node(c, &mut out, 0, 4);
    if c.one_in(12) {
        out += c.of(&["\n---\na: 1\n", "\n...\n", "# end", "\n\n\n", "\n--- x", "\n...\nb: 1", "\u{0}"]);
    }
    if c.one_in(4) { mutate(c, out.into_bytes(), PIECES) } else { out.into_bytes() }
}

/// A node that begins where the text ends, its further lines indented.
fn node(c: &mut Choices, out: &mut String, indent: usize, depth: usize) {
    match c.below(if depth == 0 { 3 } else { 10 }) {
        0..=2 => scalar(c, out),
        3..=5 => mapping(c, out, indent, depth - 1),
        6 | 7 => sequence(c, out, indent, depth - 1),
        8 => block_scalar(c, out, indent),
        _ => flow(c, out, depth - 1),
    }
}

fn scalar(c: &mut Choices, out: &mut String) {
    if c.one_in(5) {
        let text = unicode(c);
        match c.below(3) {
            0 => *out += &text,
            1 => *out += &format!("'{}'", text.replace('\'', "''")),
            _ => *out += &format!("{text:?}"),
        }
    } else {
        *out += c.of(SCALARS);
    }
}

/// A line break with an indentation, rarely a wrong one.
fn line(c: &mut Choices, out: &mut String, indent: usize) {
    *out += c.of(&[
        "\n", "\n", "\n", "\n", "\n", "\n", "\n", "\n", "\n\n", "\n# c\n", " # c\n", "\r\n", "\n  \n", "\r",
    ]);
    let off = if c.one_in(40) { indent + 1 + c.below(2) } else { indent };
    out.extend(std::iter::repeat_n(' ', off));
}

fn mapping(c: &mut Choices, out: &mut String, indent: usize, depth: usize) {
    if out.ends_with(": ") || out.ends_with(' ') && !out.ends_with("- ") && !out.ends_with("  ") {
        line(c, out, indent);
    }
    for n in 0..=c.below(4) {
        if n > 0 {
            line(c, out, indent);
        }
        match c.below(12) {
            10 => *out += "<<: *x",
            11 => {
                *out += "<<: ";
                flow(c, out, 1);
            }
            _ => {
                if c.one_in(6) {
                    scalar(c, out);
                } else {
                    *out += c.of(KEYS);
                }
                *out += ": ";
                properties(c, out);
                let step = if c.one_in(10) { 0 } else { c.of(&[2, 4, 1]) };
                node(c, out, indent + step, depth);
            }
        }
    }
}

fn sequence(c: &mut Choices, out: &mut String, indent: usize, depth: usize) {
    if out.ends_with(": ") {
        line(c, out, indent);
    }
    for n in 0..=c.below(4) {
        if n > 0 {
            line(c, out, indent);
        }
        *out += "- ";
        properties(c, out);
        node(c, out, indent + 2, depth);
    }
}

fn properties(c: &mut Choices, out: &mut String) {
    match c.below(30) {
        26 => *out += "&x ",
        27 => *out += "&y ",
        28 => {
            *out += c.of(&[
                "!!str ",
                "!!int ",
                "!!map ",
                "!!float ",
                "!x ",
                "! ",
                "!!binary ",
                "!!bool ",
                "!!timestamp ",
                "!!null ",
            ]);
        }
        29 => *out += "*x",
        _ => {}
    }
}

fn block_scalar(c: &mut Choices, out: &mut String, indent: usize) {
    *out += c.of(&["|", ">", "|-", "|+", ">-", ">+", "|2", "|1-", ">+2", "|-2", "| # c", "|9", "|0", "|x"]);
    for _ in 0..c.below(5) {
        let step = c.of(&[2, 2, 3, 1, 4]);
        line(c, out, indent + step);
        *out += &unicode(c).replace('\n', " ");
    }
}

fn flow(c: &mut Choices, out: &mut String, depth: usize) {
    let map = c.one_in(2);
    out.push(if map { '{' } else { '[' });
    for n in 0..c.below(4) {
        if n > 0 {
            *out += c.of(&[", ", ",", ",\n  ", " , "]);
        }
        if map || c.one_in(6) {
            *out += c.of(KEYS);
            *out += c.of(&[": ", ":", " : ", ""]);
        }
        if depth > 0 && c.one_in(3) { flow(c, out, depth - 1) } else { scalar(c, out) }
    }
    out.push(if map { '}' } else { ']' });
}
