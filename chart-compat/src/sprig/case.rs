//! Letter case: upper, lower, title, and the cases of identifiers.
//!
//! Go maps a character to one character (`ß` has no upper case), Rust to several: a mapping to several is ignored here.

use super::args::{Out, bytes, runes};
use crate::go::classes::{is_lower, is_number, is_punct, is_title, is_upper};
use crate::go::unicode::{is_digit, is_letter};
use crate::go::{Arena, Value};
use crate::template::{Exec, Func, Type};

use Type::String as Str;

pub(super) const FUNCS: &[Func] = &[
    Func::new("upper", &[Str], |x, a| {
        Ok(map_runes(x.arena, bytes(a[0]), |b| !b.is_ascii_lowercase(), to_upper))
    }),
    Func::new("lower", &[Str], |x, a| {
        Ok(map_runes(x.arena, bytes(a[0]), |b| !b.is_ascii_uppercase(), to_lower))
    }),
    Func::new("title", &[Str], title),
    Func::new("untitle", &[Str], untitle),
    Func::new("swapcase", &[Str], swapcase),
    Func::new("snakecase", &[Str], |x, a| Ok(Value::str(x.arena, separated(bytes(a[0]), '_')))),
    Func::new("kebabcase", &[Str], |x, a| Ok(Value::str(x.arena, separated(bytes(a[0]), '-')))),
    Func::new("camelcase", &[Str], |x, a| Ok(Value::str(x.arena, pascal(bytes(a[0]))))),
];

fn only(mut mapped: impl Iterator<Item = char>, c: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

/// `unicode.ToUpper`
fn to_upper(c: char) -> char {
    only(c.to_uppercase(), c)
}

/// `unicode.ToLower`
fn to_lower(c: char) -> char {
    if c == 'İ' { 'i' } else { only(c.to_lowercase(), c) }
}

/// `unicode.ToTitle`: the upper case, except for digraphs and Georgian.
fn to_title(c: char) -> char {
    match u32::from(c) {
        0x1C4..=0x1C6 => 'ǅ',
        0x1C7..=0x1C9 => 'ǈ',
        0x1CA..=0x1CC => 'ǋ',
        0x1F1..=0x1F3 => 'ǲ',
        0x10D0..=0x10FF => c,
        _ => to_upper(c),
    }
}

/// Maps runes. `same` tests for ASCII bytes that `map` does not change; a string of only such bytes is not copied.
fn map_runes<'a>(arena: &'a Arena, s: &'a [u8], same: fn(&u8) -> bool, map: fn(char) -> char) -> Value<'a> {
    if s.iter().all(|b| b.is_ascii() && same(b)) {
        return Value::Str(s);
    }
    Value::str(arena, runes(s).map(map).collect::<String>())
}

/// `strings.Title`
fn title<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let mut before = ' ';
    let out: String = runes(bytes(a[0]))
        .map(|c| {
            let separated = match before {
                b if b.is_ascii() => !b.is_ascii_alphanumeric() && b != '_',
                b => !is_letter(b) && !is_digit(b) && b.is_whitespace(),
            };
            before = c;
            if separated { to_title(c) } else { c }
        })
        .collect();
    Ok(Value::str(x.arena, out))
}

fn untitle<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let mut next = true;
    let out: String = runes(bytes(a[0]))
        .map(|c| {
            if c.is_whitespace() {
                next = true;
                c
            } else if std::mem::take(&mut next) {
                to_lower(c)
            } else {
                c
            }
        })
        .collect();
    Ok(Value::str(x.arena, out))
}

fn swapcase<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let mut blank = true;
    let out: String = runes(bytes(a[0]))
        .map(|c| {
            if is_upper(c) || is_title(c) {
                blank = false;
                to_lower(c)
            } else if is_lower(c) {
                if std::mem::take(&mut blank) { to_title(c) } else { to_upper(c) }
            } else {
                blank = c.is_whitespace();
                c
            }
        })
        .collect();
    Ok(Value::str(x.arena, out))
}

fn is_connector(c: char) -> bool {
    c == '-' || c == '_' || c.is_whitespace()
}

/// xstrings' `ToPascalCase`
fn pascal(s: &[u8]) -> String {
    let mut out = String::with_capacity(s.len());
    let mut rest = runes(s).peekable();
    let mut upper = false;
    let mut current = None;
    // Leading connectors are kept.
    for c in rest.by_ref() {
        if is_connector(c) {
            out.push(c);
            current = None;
        } else {
            upper = is_upper(c);
            current = Some(to_upper(c));
            break;
        }
    }
    let Some(mut current) = current else {
        // xstrings repeats the last character of a string of only connectors.
        return out.chars().last().map_or_else(String::new, |c| format!("{out}{c}"));
    };
    for c in rest {
        let before = current;
        current = c;
        if is_connector(c) && is_connector(before) {
            out.push(before);
        } else if is_connector(before) {
            upper = is_upper(c);
            current = to_upper(c);
        } else {
            if upper {
                if is_upper(c) {
                    current = to_lower(c);
                } else {
                    upper = false;
                }
            }
            out.push(before);
        }
    }
    out.push(current);
    out
}

/// The kinds of words that xstrings distinguishes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punct,
    Other,
}

/// xstrings' `isAlphabet`: letters except Chinese characters.
fn is_alphabet(c: char) -> bool {
    is_letter(c)
        && !matches!(c, '\u{3400}'..='\u{4D85}' | '\u{4E00}'..='\u{9FCC}' | '\u{20000}'..='\u{2B81D}')
}

/// The next word's kind and end.
fn next_word(s: &[char]) -> (Word, usize) {
    let run = |from: usize, ok: &dyn Fn(char) -> bool| {
        from + s.iter().skip(from).take_while(|c| **c == char::REPLACEMENT_CHARACTER || ok(**c)).count()
    };
    let Some(first) = s.iter().position(|c| *c != char::REPLACEMENT_CHARACTER) else {
        return (Word::Invalid, s.len());
    };
    let c = s[first];
    let from = first + 1;
    let lower = |c: char| is_alphabet(c) && !is_upper(c);
    if is_connector(c) {
        (Word::Connector, run(from, &is_connector))
    } else if is_punct(c) {
        (Word::Punct, run(from, &is_punct))
    } else if is_upper(c) {
        let end = run(from, &is_upper);
        if end > from {
            // In `HTTPStatus` the last capital of the run belongs to the next word.
            let next = s.get(end).copied();
            return (Word::Upper, if next.is_some_and(is_alphabet) { end - 1 } else { end });
        }
        let end = if s.get(from).copied().is_some_and(is_alphabet) { run(from, &lower) } else { from };
        (Word::Upper, end)
    } else if is_alphabet(c) {
        (Word::Alphabet, run(from, &lower))
    } else if is_number(c) {
        (Word::Number, run(from, &is_number))
    } else {
        let other = |c: char| !(is_connector(c) || is_alphabet(c) || is_number(c) || is_punct(c));
        (Word::Other, run(from, &other))
    }
}

fn push_lower(out: &mut String, word: &[char], kind: Word, connector: char) {
    match kind {
        Word::Upper => out.extend(word.iter().map(|c| to_lower(*c))),
        Word::Connector => out.extend(word.iter().map(|_| connector)),
        _ => out.extend(word),
    }
}

/// xstrings' `ToSnakeCase` and `ToKebabCase`: the lower-case words, joined by `connector`.
fn separated(s: &[u8], connector: char) -> String {
    let all: Vec<char> = runes(s).collect();
    let mut out = String::with_capacity(s.len() + 4);
    let mut rest = &all[..];
    let take = |rest: &mut &[char]| -> (Word, Vec<char>) {
        let (kind, n) = if rest.is_empty() { (Word::Invalid, 0) } else { next_word(rest) };
        let (word, after) = rest.split_at(n);
        let word = word.to_vec();
        *rest = after;
        (kind, word)
    };
    let plain = |k: Word| k != Word::Connector && k != Word::Punct;
    let joins = |k: Word| k == Word::Alphabet || k == Word::Number;
    // `rest` borrows `all`; `take` only advances the slice.
    let (mut kind, mut word) = take(&mut rest);
    while !rest.is_empty() {
        if kind != Word::Connector {
            push_lower(&mut out, &word, kind, connector);
        }
        let (before, last) = (kind, word);
        (kind, word) = take(&mut rest);
        match before {
            Word::Number => {
                while joins(kind) {
                    push_lower(&mut out, &word, kind, connector);
                    (kind, word) = take(&mut rest);
                }
                if kind != Word::Invalid && plain(kind) {
                    out.push(connector);
                }
            }
            Word::Connector => push_lower(&mut out, &last, before, connector),
            Word::Punct => {}
            _ if kind != Word::Number => {
                if plain(kind) {
                    out.push(connector);
                }
            }
            _ if rest.is_empty() => {}
            _ => {
                let number = word;
                (kind, word) = take(&mut rest);
                if kind != Word::Alphabet {
                    // The number belongs to the preceding word: `Bld4Floor`.
                    push_lower(&mut out, &number, Word::Number, connector);
                    if plain(kind) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                push_lower(&mut out, &number, Word::Number, connector);
                while joins(kind) {
                    push_lower(&mut out, &word, kind, connector);
                    (kind, word) = take(&mut rest);
                }
                if kind != Word::Invalid && plain(kind) {
                    out.push(connector);
                }
            }
        }
    }
    push_lower(&mut out, &word, kind, connector);
    out
}
