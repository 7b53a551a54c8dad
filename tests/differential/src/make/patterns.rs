//! Regular expressions and globs.

use super::text::{mutate, quoted, text};
use crate::choices::Choices;

const ATOMS: &[&str] = &[
    "a",
    "b",
    ".",
    "x",
    "1",
    "\\d",
    "\\w",
    "\\s",
    "[a-z]",
    "[^a]",
    "(a)",
    "(b|c)",
    "^",
    "$",
    "\\b",
    "\\B",
    "\\A",
    "\\z",
    "\\D",
    "\\W",
    "\\S",
    "[[:alpha:]]",
    "[[:^digit:]]",
    "\\pL",
    "\\p{Greek}",
    "\\PN",
    "\\x41",
    "\\x{e9}",
    "\\Qa.b\\E",
    "(?i)A",
    "(?:ab)",
    "(?P<n>a)",
    "(?<m>b)",
    "(?s).",
    "(?m)^",
    "(?U)a+",
    "\\.",
    "é",
    "日",
    "ſ",
    "[é-ü]",
    "[\\d-x]",
    "\\n",
    "\\t",
    "\\C",
    "\\Z",
    "(?=a)",
    "\\1",
    "(?P=n)",
    "[z-a]",
    "[",
    "(",
    ")",
    "]",
    "{",
    "}",
    "\\",
    "(?",
    "[]a]",
    "[^]a]",
    "\\07",
    "\\a",
    "\\_",
    "\\-",
    "(?i-s:a)",
    "(?-i)",
    "\\p{^Lu}",
    "\\pX",
    "[a\\]]",
    "()",
    "(|a)",
    "[[:word:]]",
    "[[:foo:]]",
    "[a&&b]",
    "\\cA",
    "(?x)a b",
    "[\\w-]",
    "(?i)[k]",
    "(?i)ß",
    "\\p{L}",
    "\\p{Any}",
    "\\h",
    "\\e",
    "\\u0041",
    "\\x",
    "\\x{110000}",
    "[a-\\d]",
    "\\8",
    "(?#c)",
    "(?P<n>a)(?P<n>b)",
    "(?P<é>a)",
];
const REPEATS: &[&str] = &[
    "", "", "", "", "", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{2,}", "{0}", "{,2}", "**",
    "{1001}", "{2,1}", "{20}", "{1}{2}", "*+", "{a}", "{1,2}?",
];
const TEXTS: &[&str] = &[
    "abc",
    "",
    "a",
    "aab-axxb",
    "foo bar 12",
    "a\nb",
    "ÀÉé",
    "日本",
    "xyzzy 123 a.b",
    "AaBb",
    "  ",
    "k K ſ S",
    "a,b,,c",
    "\u{a0}",
    "1.2.3",
    "ab\r\ncd",
];
const REPLACEMENTS: &[&str] = &[
    "X", "$1", "${1}W", "$1W", "$n", "${n}", "$0", "$$", "$", "${", "${1", "$2", "\\1", "", "$é", "${}",
    "$1$2", "<$0>", "$01", "${01}",
];

fn pattern(c: &mut Choices) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=c.below(4) {
        if c.one_in(12) {
            out.push(b'|');
        }
        let atom = if c.one_in(3) { c.of(ATOMS) } else { c.of(&ATOMS[..24]) };
        if c.one_in(6) {
            out.push(b'(');
            out.extend(atom.bytes());
            out.extend(pattern(c));
            out.push(b')');
        } else {
            out.extend(atom.bytes());
        }
        out.extend(c.of(REPEATS).bytes());
        if out.len() > 60 {
            break;
        }
    }
    if c.one_in(12) { mutate(c, out, ATOMS) } else { out }
}

/// A template that uses an expression in one way.
pub(crate) fn regexp_template(c: &mut Choices) -> Vec<u8> {
    let pattern = quoted(&pattern(c));
    let subject = if c.one_in(4) { text(c) } else { c.of(TEXTS).as_bytes().to_vec() };
    let subject = quoted(&subject);
    let must = if c.one_in(2) { "Regex" } else { "mustRegex" };
    let must = if must == "Regex" { "regex" } else { must };
    let n = c.of(&["-1", "0", "1", "2", "3"]);
    let replacement = quoted(c.of(REPLACEMENTS).as_bytes());
    let call = match c.below(6) {
        0 => [format!("{must}Match ").as_bytes(), &pattern, b" ", &subject].concat(),
        1 => [format!("{must}Find ").as_bytes(), &pattern, b" ", &subject].concat(),
        2 => [format!("{must}FindAll ").as_bytes(), &pattern, b" ", &subject, b" ", n.as_bytes()].concat(),
        3 => [format!("{must}ReplaceAll ").as_bytes(), &pattern, b" ", &subject, b" ", &replacement].concat(),
        4 => [format!("{must}ReplaceAllLiteral ").as_bytes(), &pattern, b" ", &subject, b" ", &replacement]
            .concat(),
        _ => [format!("{must}Split ").as_bytes(), &pattern, b" ", &subject, b" ", n.as_bytes()].concat(),
    };
    [b"{{ ", &call[..], b" | toJson }}"].concat()
}

/// Not among them: an empty alternative, braces left open, and stars that meet. The library answers those by accident.
const GLOBS: &[&str] = &[
    "a",
    "*",
    "?",
    "a.txt",
    "conf/",
    "*.txt",
    "conf/*",
    "conf/**",
    "**.txt",
    "{a,b}",
    "{a.txt,conf/b.yaml}",
    "[a-c]",
    "[!a]",
    "[abc]",
    "/",
    "deep",
    "\\*",
    "\\[x\\]",
    "[x]",
    "}",
    "[",
    "]",
    ",",
    "-",
    "!",
    "**/*.json",
    "*/*",
    "bin/data",
    "{{a,b},c}",
    "[a-]",
    "[]",
    "[!]",
    "[^a]",
    "e",
    "t",
    "x",
    ".",
    "empty",
    "?.txt",
    "\\{y\\}",
    "er/",
    "c.json",
    "[!a-c]",
    "[z-a]",
    "{a.txt,b.yaml}",
    "conf/{b,c}.yaml",
];

/// A template that lists files by a glob.
pub(crate) fn glob_template(c: &mut Choices) -> Vec<u8> {
    let mut glob = c.of(GLOBS).as_bytes().to_vec();
    while c.one_in(2) && glob.len() < 30 {
        let next = c.of(GLOBS).as_bytes();
        if !(glob.ends_with(b"*") && next.starts_with(b"*")) {
            glob.extend(next);
        }
    }
    let glob = quoted(&glob);
    match c.below(5) {
        0..=2 => [b"{{ range $k, $v := .Files.Glob ", &glob[..], b" }}{{ $k }},{{ end }}"].concat(),
        3 => [b"{{ (.Files.Glob ", &glob[..], b").AsConfig }}"].concat(),
        _ => {
            [b"{{ (.Files.Glob ", &glob[..], b").AsSecrets }}|{{ len (.Files.Glob ", &glob, b") }}"].concat()
        }
    }
}
