//! Constructs of a filter whose result may differ from gojq's, as far as its text shows. Pure.
//!
//! Owns the list of such constructs; `tests` hold it against what gojq answered. What depends on values alone is not seen here.

use super::lexer::{Token, lexed};

/// How a construct is seen.
enum Seen {
    /// By the name of a function.
    Function(&'static [&'static str]),
    /// By tokens that follow each other.
    Run(fn(&[Token]) -> bool),
}

/// Functions with flags for regular expressions.
const REGULAR: [&str; 8] = ["test", "match", "capture", "scan", "split", "splits", "sub", "gsub"];

/// Functions that the machine's library of mathematics answers.
const MATHEMATICS: [&str; 21] = [
    "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "gamma", "lgamma",
];

/// Constructs with what is otherwise; the first word is what `modules/MIGRATION.md` lists them by.
const DIFFERENCES: [(&str, Seen, &str); 20] = [
    (
        "keys_unsorted",
        Seen::Function(&["keys_unsorted"]),
        "gojq has no such function, and the filter is refused there",
    ),
    (
        "debug, stderr",
        Seen::Function(&["debug", "stderr"]),
        "gojq has them in its command only, and the filter is refused there",
    ),
    ("builtins", Seen::Function(&["builtins"]), "there is no such list here, and the filter fails"),
    (
        "{@base64 \"x\": 1}",
        Seen::Run(format_key),
        "a key with a format is taken here; gojq refuses the filter",
    ),
    ("?//", Seen::Run(alternatives), "destructuring alternatives are not known here"),
    ("%", Seen::Run(|t| sign(t, '%')), "fractions count here; gojq cuts both numbers to whole ones first"),
    ("exp, log, pow, sin, …", Seen::Function(&MATHEMATICS), "the last digit may be another one"),
    (
        "\"a\" * n",
        Seen::Run(repeats),
        "0 times a text is null here and the empty text with gojq; n must be whole here",
    ),
    (
        "test(re; \"x\")",
        Seen::Run(|t| flags(t, |flag| matches!(flag, Token::Text(text) if text.contains('x')))),
        "the flag x is taken here; gojq refuses it",
    ),
    (
        "test(re; null)",
        Seen::Run(|t| flags(t, |flag| *flag == Token::Word("null".to_owned()))),
        "flags must be a text here",
    ),
    (
        "match | .captures",
        Seen::Run(|t| calls(t, "match") && t.contains(&Token::Field("captures".to_owned()))),
        "captures that took no part are left out here; gojq has them with null",
    ),
    ("tonumber", Seen::Function(&["tonumber"]), "blanks around a number are taken here; gojq fails"),
    ("catch", Seen::Run(catches), "the words of errors are others"),
    ("has(0)", Seen::Run(has_number), "of an object it is false here; gojq fails"),
    (
        "from_entries",
        Seen::Function(&["from_entries"]),
        "the short names of keys and values (name, k, v) are taken here; gojq takes key and value alone",
    ),
    ("tojson", Seen::Function(&["tojson"]), "numbers with fractions are written otherwise within text"),
    ("infinite", Seen::Function(&["infinite"]), "infinity is written otherwise within text"),
    ("todate", Seen::Function(&["todate"]), "fractions of a second are kept here"),
    ("strptime", Seen::Function(&["strptime"]), "a time without a date comes out otherwise"),
    (
        "limit(-1; …), .[1.7]",
        Seen::Run(|t| negative_limit(t) || broken_index(t)),
        "a negative limit gives nothing here and fails with gojq; an index must be whole here",
    ),
];

/// What of a filter may come out otherwise than with gojq: a construct and what is otherwise.
#[must_use]
pub fn differences(filter: &str) -> Vec<(&'static str, &'static str)> {
    let tokens = lexed(filter);
    let seen = |how: &Seen| match how {
        Seen::Function(names) => names.iter().any(|name| calls(&tokens, name)),
        Seen::Run(is_there) => is_there(&tokens),
    };
    DIFFERENCES.iter().filter(|(_, how, _)| seen(how)).map(|(what, _, text)| (*what, *text)).collect()
}

/// What `differences` may name.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    DIFFERENCES.iter().map(|(what, _, _)| *what)
}

fn calls(tokens: &[Token], name: &str) -> bool {
    tokens.iter().any(|t| matches!(t, Token::Word(word) if word == name))
}

fn sign(tokens: &[Token], sign: char) -> bool {
    tokens.contains(&Token::Sign(sign))
}

fn format_key(tokens: &[Token]) -> bool {
    tokens
        .windows(4)
        .any(|t| matches!(t, [Token::Sign('{' | ','), Token::Format(_), Token::Text(_), Token::Sign(':')]))
}

fn alternatives(tokens: &[Token]) -> bool {
    tokens.windows(3).any(|t| *t == [Token::Sign('?'), Token::Sign('/'), Token::Sign('/')])
        && calls(tokens, "as")
}

fn repeats(tokens: &[Token]) -> bool {
    tokens
        .windows(2)
        .any(|t| matches!(t, [Token::Text(_), Token::Sign('*')] | [Token::Sign('*'), Token::Text(_)]))
}

/// Whether a function of regular expressions has a last argument of its own that is such.
fn flags(tokens: &[Token], is: impl Fn(&Token) -> bool) -> bool {
    REGULAR.iter().any(|name| calls(tokens, name))
        && tokens.windows(3).any(|t| t[0] == Token::Sign(';') && is(&t[1]) && t[2] == Token::Sign(')'))
}

fn catches(tokens: &[Token]) -> bool {
    calls(tokens, "catch")
}

fn has_number(tokens: &[Token]) -> bool {
    tokens
        .windows(3)
        .any(|t| matches!(t, [Token::Word(word), Token::Sign('('), Token::Number(_)] if word == "has"))
}

fn negative_limit(tokens: &[Token]) -> bool {
    tokens
        .windows(3)
        .any(|t| matches!(t, [Token::Word(word), Token::Sign('('), Token::Sign('-')] if word == "limit"))
}

fn broken_index(tokens: &[Token]) -> bool {
    tokens.windows(4).any(|t| {
        let index = matches!(t, [_, Token::Sign('['), Token::Number(n), Token::Sign(']')] if n.contains('.'));
        // `[1.7]` alone makes a list.
        index && matches!(t[0], Token::Sign('.' | ']' | ')' | '?') | Token::Field(_) | Token::Var(_))
    })
}
