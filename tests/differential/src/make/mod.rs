//! Generators of questions. Each puts its simplest alternative first, so that fewer choices make simpler questions.

pub(crate) mod charts;
pub(crate) mod formats;
mod functions;
pub(crate) mod manifests;
pub(crate) mod patterns;
pub(crate) mod schema;
pub(crate) mod set;
pub(crate) mod template;
mod text;
pub(crate) mod tree;
pub(crate) mod versions;
pub(crate) mod yaml;

use crate::choices::Choices;

/// A text with some of its bytes gone, doubled or changed, and marks of every language in it.
pub fn damaged(c: &mut Choices, text: Vec<u8>) -> Vec<u8> {
    text::mutate(c, text, MARKS)
}

const MARKS: &[&str] = &[
    "{{",
    "}}",
    "{{ end }}",
    "{{ define \"a\" }}",
    "{{ template \"a\" . }}",
    "{{ range 9 }}",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "'",
    ": ",
    "- ",
    "\n",
    "&a ",
    "*a",
    "<<: ",
    "!!",
    "| \n",
    ">-\n",
    "---\n",
    "\t",
    "\\",
    "\\u",
    "0x",
    "1e9",
    "-1",
    "999999999",
    "=",
    ",",
    ".",
    "..",
    "/",
    "\0",
    "\u{feff}",
    "*",
    "+",
    "?",
    "{1000}",
    "$ref",
    "#",
    "|",
    "\"$ref\": \"#\"",
    "~",
    "^",
    "%",
    "`",
];
