//! Streams of manifests with comments wherever charts put them.

use super::text::mutate;
use crate::choices::Choices;

const SCALARS: &[&str] = &[
    "a",
    "1",
    "\"q\"",
    "'s'",
    "true",
    "\"1\"",
    "null",
    "~",
    "",
    "a b",
    "yes",
    "\"yes\"",
    "n",
    "on",
    "1.5",
    "0x1F",
    "'it''s'",
    "\"a\\nb\"",
    "\"a\\tb\"",
    "a#b",
    "http://x:80/y",
    "\"{{ x }}\"",
    "'a\n    b'",
    "\"a\n    b\"",
    "a\n    b",
    "!!str 1",
    "!local x",
    "&x a",
    "2001-01-01",
    "'2001-01-01'",
    "é",
    "\"\\u00e9\"",
    "\"\\u2028\"",
    "-1",
    "1e3",
    "\"a: b\"",
    "'- a'",
    "\"#\"",
    "' a '",
    "!!binary aGk=",
    "0o17",
    "<<",
    "12:30:45",
    "\"\"",
    "''",
];
const KEYS: &[&str] = &[
    "a",
    "b",
    "name",
    "n",
    "y",
    "on",
    "\"q k\"",
    "'s'",
    "1",
    "key.with/slash",
    "labels",
    "heritage",
    "&k c",
    "\"a: b\"",
    "? d\n",
    "é",
];
const COMMENTS: &[&str] =
    &["# c", "#c", "#", "## c ##", "# Source: x", "#  two\n# lines", "# a\n\n# b", "# a\n#\n# b", "# é"];
const PIECES: &[&str] = &[
    "\n", "# c\n", "  # c\n", "\n\n", "- ", "  ", " ", "---\n", ": ", "[", "]", "{", "}", ",", "'", "\"",
    "#", " # c", "&a ", "*a", "|\n", ">-\n", "\t", "? ", "...\n", "<<: *x\n", "!!str ", "\r\n",
];

/// A stream.
pub(crate) fn stream(c: &mut Choices) -> Vec<u8> {
    let mut out = String::new();
    if c.one_in(6) {
        out += c.of(&["---\n", "# c\n", "\n", "# c\n\n", "--- # c\n", "# Source: x\n---\n", "---\n# c\n"]);
    }
    for n in 0..=[0, 0, 0, 1, 2][c.below(5)] {
        if n > 0 {
            out += c.of(&[
                "---\n",
                "---\n# c\n",
                "--- # c\n",
                "\n---\n",
                "---\n\n# c\n\n",
                "# c\n---\n",
                "--- a\n",
                "---x\n",
            ]);
        }
        object(c, &mut out);
    }
    if c.one_in(6) {
        out += c.of(&["# end", "# end\n", "\n# end\n", "\n\n", "---\n", "...\n", "\n# end\n\n# end\n"]);
    }
    if c.one_in(6) {
        let damaged = mutate(c, out.into_bytes(), PIECES);
        return String::from_utf8_lossy(&damaged).into_owned().into_bytes();
    }
    out.into_bytes()
}

fn object(c: &mut Choices, out: &mut String) {
    if c.one_in(12) {
        *out += c.of(&[
            "# nothing\n",
            "a\n",
            "- a\n",
            "null\n",
            "{}\n",
            "[]\n",
            "kind: List\nitems:\n- a: 1\n# c\n- b: 2\n",
        ]);
        return;
    }
    *out += c.of(&["kind: A\n", "apiVersion: v1\nkind: A\n", "kind: A # c\n", "# c\nkind: A\n", ""]);
    if !c.one_in(4) {
        metadata(c, out);
    }
    for _ in 0..c.below(3) {
        entry(c, out, 0, 4);
    }
}

fn metadata(c: &mut Choices, out: &mut String) {
    *out += c.of(&[
        "metadata:\n  name: a\n",
        "metadata: {name: a}\n",
        "metadata:\n",
        "metadata: {}\n",
        "metadata: # c\n  name: a # c\n",
        "metadata: a\n",
        "metadata: {name: a, labels: {a: b}}\n",
        "metadata: &z\n  name: a\n",
    ]);
    if !out.ends_with("  name: a\n") {
        return;
    }
    for field in ["labels", "annotations"] {
        match c.below(6) {
            0 | 1 => *out += &format!("  {field}:\n"),
            2 => {
                *out += &format!(
                    "  {field}: {}\n",
                    c.of(&["{}", "{a: b}", "null", "[]", "{b: \"1\", a: yes}", "a"])
                );
            }
            3 => *out += &format!("  {field}: # c\n"),
            _ => continue,
        }
        if out.ends_with(":\n") || out.ends_with("# c\n") {
            for _ in 0..c.below(4) {
                comment(c, out, 4);
                *out += c.of(&[
                    "    b: a\n",
                    "    heritage: \"b\"\n",
                    "    on: 'true'\n",
                    "    config.kubernetes.io/index: '3'\n",
                    "    c: 1 # c\n",
                    "    config.kubernetes.io/path: x\n",
                    "    a: &y b\n",
                ]);
            }
            comment(c, out, 4);
        }
    }
}

/// A comment on lines of its own, now and then, maybe with empty lines around it.
fn comment(c: &mut Choices, out: &mut String, indent: usize) {
    if !c.one_in(4) {
        return;
    }
    *out += c.of(&["", "", "", "\n", "\n\n", "  \n"]);
    let indent = if c.one_in(5) { c.below(7) } else { indent };
    for line in c.of(COMMENTS).lines() {
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
        }
        *out += line;
        out.push('\n');
    }
    *out += c.of(&["", "", "", "\n", "\n\n"]);
}

/// The end of a line, which may hold a comment.
fn end(c: &mut Choices, out: &mut String) {
    *out += c.of(&["\n", "\n", "\n", "\n", " # c\n", "  #c\n", " \n"]);
}

fn entry(c: &mut Choices, out: &mut String, indent: usize, depth: usize) {
    comment(c, out, indent);
    pad(out, indent);
    *out += c.of(KEYS);
    if out.ends_with('\n') {
        pad(out, indent);
    }
    out.push(':');
    // Further in, an alias could stand in what it names, which kyaml dies of.
    if indent == 0 && c.one_in(12) {
        *out += c.of(&[" *z\n", "\n  <<: *z\n  a: 1\n", "\n  b: 1\n  <<: [*z, {b: 2, c: 3}]\n", "\n- *z\n"]);
        return;
    }
    value(c, out, indent, depth, true);
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

/// What stands after a key or a dash.
fn value(c: &mut Choices, out: &mut String, indent: usize, depth: usize, of_key: bool) {
    match c.below(if depth == 0 { 4 } else { 12 }) {
        0..=2 => {
            out.push(' ');
            *out += c.of(SCALARS);
            end(c, out);
        }
        3 => block_scalar(c, out, indent),
        4 | 5 => {
            out.push(' ');
            flow(c, out, indent, depth - 1);
            end(c, out);
        }
        6..=8 => {
            let inner = indent + c.of(&[2, 2, 2, 4, 3]);
            if of_key || c.one_in(3) {
                *out += c.of(&["", "", " # c", " &z", " !t"]);
                out.push('\n');
            } else {
                pad(out, inner - indent - 1);
                *out += c.of(KEYS);
                if out.ends_with('\n') {
                    pad(out, inner);
                }
                out.push(':');
                value(c, out, inner, depth - 1, true);
            }
            for _ in 0..=c.below(3) {
                entry(c, out, inner, depth - 1);
            }
            comment(c, out, inner);
        }
        _ => {
            let inner = indent + if of_key { c.of(&[0, 0, 2, 4]) } else { 2 };
            if of_key || c.one_in(3) {
                *out += c.of(&["", "", " # c", " &z"]);
                out.push('\n');
            } else {
                *out += " -";
                value(c, out, inner, depth - 1, false);
            }
            for _ in 0..=c.below(3) {
                comment(c, out, inner);
                pad(out, inner);
                out.push('-');
                value(c, out, inner, depth - 1, false);
            }
            comment(c, out, inner);
        }
    }
}

fn block_scalar(c: &mut Choices, out: &mut String, indent: usize) {
    out.push(' ');
    *out += c.of(&["|", ">", "|-", "|+", ">-", ">+", "|2", "| # c", "> # c"]);
    out.push('\n');
    for _ in 0..=c.below(4) {
        match c.below(7) {
            0 => {}
            n => {
                pad(out, indent + if n == 6 { 4 } else { 2 });
                *out += c.of(&["text", "# no comment", "a: b", "two words", "\ttab", "trailing "]);
            }
        }
        out.push('\n');
    }
}

fn flow(c: &mut Choices, out: &mut String, indent: usize, depth: usize) {
    let list = c.one_in(2);
    out.push(if list { '[' } else { '{' });
    for n in 0..c.below(4) {
        if n > 0 {
            out.push(',');
            *out += c.of(&[" ", " ", "", " # c\n"]);
        }
        if out.ends_with('\n') || c.one_in(8) {
            if !out.ends_with('\n') {
                *out += c.of(&["\n", " # c\n", "\n# c\n"]);
            }
            pad(out, indent + 2);
        }
        if !list {
            *out += c.of(&["a: ", "b: ", "\"c\": ", "d", "? e : "]);
        }
        match c.below(if depth == 0 { 4 } else { 5 }) {
            4 => flow(c, out, indent, depth - 1),
            _ => *out += c.of(&["a", "1", "\"q\"", "'s'", "yes", "a b", "", "\"a, b\""]),
        }
    }
    if c.one_in(10) {
        *out += c.of(&["\n", " # c\n", ",", "\n  # c\n"]);
        if out.ends_with('\n') {
            pad(out, indent);
        }
    }
    out.push(if list { ']' } else { '}' });
}
