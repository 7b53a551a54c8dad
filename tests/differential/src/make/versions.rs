//! Versions and ranges.

use super::text::{mutate, quoted};
use crate::choices::Choices;

const NUMBERS: &[&str] = &[
    "1",
    "0",
    "2",
    "10",
    "3",
    "01",
    "20",
    "x",
    "*",
    "18446744073709551615",
    "18446744073709551616",
    "",
    "a",
];
const PRERELEASES: &[&str] = &[
    "-0",
    "-alpha",
    "-rc.1",
    "-alpha.1",
    "-1",
    "-a.b.c",
    "-rc.10",
    "-01",
    "-",
    "-a..b",
    "-gke.100",
    "-alpha-1",
    "-A",
    "--",
    "-é",
    "-x.7.z.92",
];
const OPERATORS: &[&str] = &[
    "", ">=", ">", "<", "<=", "=", "!=", "^", "~", "~>", "=>", "=<", "==", ">= ", " >", "^ ", "~ ", "<>",
    "!", "v", ">=v", "><",
];
const PIECES: &[&str] = &[" ", ",", "||", "-", ".", "v", "x", "*", ">=", "+", "1", " - "];

fn version(c: &mut Choices, out: &mut String) {
    if c.one_in(6) {
        out.push('v');
    }
    for n in 0..c.of(&[3, 3, 3, 2, 1, 4]) {
        if n > 0 {
            out.push('.');
        }
        *out += if c.one_in(12) { c.of(NUMBERS) } else { c.of(&NUMBERS[..5]) };
    }
    if c.one_in(4) {
        *out += c.of(PRERELEASES);
    }
    if c.one_in(8) {
        *out += c.of(&["+b1", "+", "+a.b", "+01", "+é", "+a-b", "+a..b", "+a+b"]);
    }
}

fn range(c: &mut Choices) -> String {
    let mut out = String::new();
    for n in 0..=c.below(3) {
        if n > 0 {
            out += c.of(&[" ", ", ", " || ", ",", "||", " - ", "  ", " ,", "|", "-"]);
        }
        out += c.of(OPERATORS);
        if c.one_in(10) {
            out += c.of(&["*", "x", "1.x", "1.2.x", "1.*", "X", "", "1.x.2", "*.1"]);
        } else {
            version(c, &mut out);
        }
    }
    out
}

/// A template about a range and a version.
pub(crate) fn template(c: &mut Choices) -> Vec<u8> {
    let (mut one, mut two) = (String::new(), String::new());
    version(c, &mut one);
    let mut range = range(c).into_bytes();
    if c.one_in(10) {
        range = mutate(c, range, PIECES);
    }
    let (range, quoted_one) = (quoted(&range), quoted(one.as_bytes()));
    match c.below(4) {
        0 | 1 => [b"{{ semverCompare ", &range[..], b" ", &quoted_one, b" }}"].concat(),
        2 => [
            b"{{ $v := semver ",
            &quoted_one[..],
            b" }}{{ $v }}|{{ $v.Major }}|{{ $v.Minor }}|{{ $v.Patch }}|{{ $v.Prerelease }}|{{ $v.Metadata }}|{{ $v.Original }}\
              |{{ $v.IncMajor }}|{{ $v.IncMinor }}|{{ $v.IncPatch }}|{{ toJson $v }}|{{ printf `%v %s %q %T` $v $v $v $v }}",
        ]
        .concat(),
        _ => {
            version(c, &mut two);
            let quoted_two = quoted(two.as_bytes());
            let method = c.of(&["Compare", "LessThan", "GreaterThan", "Equal", "LessThanEqual", "GreaterThanEqual"]);
            let method = format!(").{method} (semver ").into_bytes();
            [b"{{ (semver ", &quoted_one[..], &method, &quoted_two, b") }}"].concat()
        }
    }
}
