//! Lines of `--set` and its kin.

use super::text::{mutate, unicode};
use super::tree;
use crate::choices::Choices;
use crate::family::Way;

const NAMES: &[&str] = &[
    "a", "b", "c", "l", "n", "", "a\\.b", "é", "k\\=", "a b", "x\\[0", "\\", "true", "1", "a-b/c", "{a}",
    "日",
];
const VALUES: &[&str] = &[
    "1",
    "x",
    "",
    "true",
    "null",
    "0",
    "00",
    "1.5",
    "-3",
    "1e3",
    "{a,b}",
    "{}",
    "{",
    "{a",
    "a\\,b",
    "{a,{b}}",
    "{a\\,b,1,null}",
    "False",
    "NULL",
    "0x1F",
    "9223372036854775808",
    "é",
    " x ",
    "{ a , b }",
    "\"q\"",
    "a=b",
    "a.b",
    "[1]",
    "\\",
    "{}x",
    "{a}b",
    "+1",
    "1_0",
    "trUE",
    "ſ",
];
const JSON: &[&str] = &[
    "1",
    "\"x\"",
    "{}",
    "[]",
    "null",
    "true",
    "{\"a\":1}",
    "[1,2.5,\"x\"]",
    "",
    " ",
    "{",
    "[1",
    "tru",
    "x",
    "1x",
    "1 2",
    "-",
    "01",
    "1e999",
    "\"\\ud800\"",
    "\"\\x\"",
    "{\"a\":1,\"a\":2}",
    "{a:1}",
    "[1,]",
    "{\"a\":}",
    "{\"a\":1,}",
    "1.0",
    "1e2",
    "123456789012345678901",
    "\"é\"",
    "nul",
    "nulll",
    "{\"a\" 1}",
    "[1 2]",
    "\"a\nb\"",
    "\"",
    "{}{}",
    "[]x",
    "-0",
    ".5",
    "{\"a\":{\"b\":null}}",
    "{1:2}",
    "'x'",
    "\t1",
];
const PIECES: &[&str] = &[
    "=", ",", ".", "[", "]", "{", "}", "[0]", "[1]", "\\", "a", "[-1]", "[x]", "..", "==", ",,", " ", "\"",
    "[70000]", "null",
];

/// A line for a way of reading it.
pub(crate) fn line(c: &mut Choices, way: Way) -> Vec<u8> {
    let mut out = String::new();
    for n in 0..=c.below(3) {
        if n > 0 {
            out += c.of(&[",", ",", ",", ", ", ",,"]);
        }
        name(c, &mut out);
        if !c.one_in(15) {
            out.push('=');
        }
        match way {
            Way::Json if c.one_in(4) => out += &tree::tree(c, 2).to_string(),
            Way::Json => out += c.of(JSON),
            _ if c.one_in(6) => out += &unicode(c),
            _ => out += c.of(VALUES),
        }
    }
    if c.one_in(6) {
        let text = mutate(c, out.into_bytes(), PIECES);
        // A command line of ours is UTF-8.
        return String::from_utf8_lossy(&text).into_owned().into_bytes();
    }
    out.into_bytes()
}

fn name(c: &mut Choices, out: &mut String) {
    *out += c.of(NAMES);
    while c.one_in(3) {
        match c.below(4) {
            0 | 1 => {
                out.push('.');
                *out += c.of(NAMES);
            }
            2 => *out += c.of(&["[0]", "[1]", "[2]", "[3]", "[4]", "[10]"]),
            _ => {
                *out += c.of(&[
                    "[0].a", "[]", "[-1]", "[x]", "[0]x", "[99999]", "[0][1]", "[ 1]", "[+1]", "[0", "[1e3]",
                    "[01]",
                ]);
            }
        }
    }
}
