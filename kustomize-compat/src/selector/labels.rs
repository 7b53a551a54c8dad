//! Kubernetes label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1`.
//!
//! Owns the grammar of `labels.Parse` and its rules for keys and values.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::resource::build_steps::note;

/// A parsed selector; an empty one matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

impl Test {
    /// How many values it compares.
    fn len(&self) -> usize {
        match self {
            Self::In(values) | Self::NotIn(values) => values.len(),
            _ => 0,
        }
    }
}

/// The longest name and value, in bytes.
const MAX_NAME: usize = 63;
/// The longest prefix of a key, in bytes.
const MAX_PREFIX: usize = 253;

impl LabelSelector {
    /// Parses a selector.
    ///
    /// # Errors
    /// It is not valid.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = Parser { tokens: tokens(text), at: 0 };
        let mut requirements = Vec::new();
        loop {
            match parser.peek() {
                "" => break,
                "!" => {
                    parser.next();
                    let key = parser.key()?;
                    requirements.push(Requirement { key, test: Test::Missing });
                }
                _ => {
                    let requirement = parser.requirement();
                    requirements.push(requirement.map_err(|e| e.within("unable to parse requirement"))?);
                }
            }
            match parser.next().as_str() {
                "" => break,
                "," if is_word(parser.peek()) || parser.peek() == "!" => {}
                "," => return Err(unexpected(parser.peek(), "identifier after ','")),
                other => return Err(unexpected(other, "',' or 'end of string'")),
            }
        }
        Ok(Self(requirements))
    }

    /// Whether it has no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels fulfil all requirements.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|Requirement { key, test }| {
            let value = labels.get(key);
            note(1 + test.len() / 4);
            let number = || value.and_then(|v| v.parse::<i64>().ok());
            match test {
                Test::Exists => value.is_some(),
                Test::Missing => value.is_none(),
                Test::In(values) => value.is_some_and(|v| values.contains(v)),
                Test::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
                Test::Greater(bound) => number().is_some_and(|n| n > *bound),
                Test::Less(bound) => number().is_some_and(|n| n < *bound),
            }
        })
    }
}

fn unexpected(found: &str, expected: &str) -> Error {
    Error::Selector(format!("found '{found}', expected: {expected}"))
}

/// Operators and words of a selector.
fn tokens(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '(' | ')' | ',' => 1,
            '!' | '=' | '<' | '>' => {
                let operators = ["==", "!="];
                if operators.iter().any(|o| rest.starts_with(o)) { 2 } else { 1 }
            }
            _ => rest.find([' ', '\t', '\r', '\n', '(', ')', ',', '!', '=', '<', '>']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        out.push(token.to_owned());
        rest = after.trim_start();
    }
    out
}

fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(['(', ')', ',', '!', '=', '<', '>'])
}

struct Parser {
    tokens: Vec<String>,
    at: usize,
}

impl Parser {
    /// The next token; empty at the end.
    fn peek(&self) -> &str {
        self.tokens.get(self.at).map_or("", String::as_str)
    }

    fn next(&mut self) -> String {
        let token = self.peek().to_owned();
        self.at += 1;
        token
    }

    fn key(&mut self) -> Result<String, Error> {
        let key = self.next();
        if !is_word(&key) {
            return Err(unexpected(&key, "identifier"));
        }
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("", &key));
        let prefix_ok = !key.contains('/')
            || !prefix.is_empty()
                && prefix.len() <= MAX_PREFIX
                && prefix.split('.').all(|part| {
                    is_name(part, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == '-')
                });
        if name.is_empty() || !prefix_ok || !is_value(name) {
            return Err(Error::Selector(format!("invalid label key {key:?}")));
        }
        Ok(key)
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let key = self.key()?;
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement { key, test: Test::Exists });
        }
        let operator = self.next();
        let test = match operator.as_str() {
            "=" | "==" => Test::In(vec![self.value(&key)?]),
            "!=" => Test::NotIn(vec![self.value(&key)?]),
            "in" => Test::In(self.values(&key)?),
            "notin" => Test::NotIn(self.values(&key)?),
            "<" | ">" => {
                let bound = self.value(&key)?.parse::<i64>().map_err(|_| {
                    Error::Selector("for 'Gt', 'Lt' operators, the value must be an integer".to_owned())
                })?;
                if operator == "<" { Test::Less(bound) } else { Test::Greater(bound) }
            }
            other => return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
        };
        Ok(Requirement { key, test })
    }

    /// One value, which may be empty.
    fn value(&mut self, key: &str) -> Result<String, Error> {
        if matches!(self.peek(), "" | ",") {
            return Ok(String::new());
        }
        let value = self.next();
        if !is_word(&value) {
            return Err(unexpected(&value, "identifier"));
        }
        checked_value(value, key)
    }

    /// Values in parentheses.
    fn values(&mut self, key: &str) -> Result<Vec<String>, Error> {
        let open = self.next();
        if open != "(" {
            return Err(Error::Selector(format!("found '{open}' expected: '('")));
        }
        let mut out = Vec::new();
        loop {
            let value = if is_word(self.peek()) { self.next() } else { String::new() };
            out.push(checked_value(value, key)?);
            match self.next().as_str() {
                "," => {}
                ")" => return Ok(out),
                other => return Err(unexpected(other, "',' or ')'")),
            }
        }
    }
}

fn checked_value(value: String, key: &str) -> Result<String, Error> {
    if value.is_empty() || is_value(&value) {
        return Ok(value);
    }
    Err(Error::Selector(format!("invalid label value: {value:?}: at key: {key:?}")))
}

fn is_value(text: &str) -> bool {
    text.len() <= MAX_NAME && is_name(text, |c| c.is_ascii_alphanumeric(), |c| matches!(c, '-' | '_' | '.'))
}

/// Whether a text begins and ends with `outer` characters and has `inner` ones between them.
fn is_name(text: &str, outer: impl Fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.starts_with(&outer) && text.ends_with(&outer) && text.chars().all(|c| outer(c) || inner(c))
}

#[cfg(test)]
mod tests {
    use super::LabelSelector;

    #[test]
    fn selectors_match_as_those_of_kubernetes() {
        let labels = [("app", "web"), ("n", "5"), ("x/y", "z"), ("e", "")];
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let table = [
            ("", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app=web", true),
            ("app == web,n=5", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (web, db)", true),
            ("app notin (web)", false),
            ("other notin (web)", true),
            ("n>4,n<6", true),
            ("n>5", false),
            ("app>1", false),
            ("x/y=z", true),
            ("e=", true),
            ("e in (,a)", true),
        ];
        for (text, expected) in table {
            assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for text in
            ["a=b=c", "in (a)", "a in b", "a,", ",a", "a/b/c=d", "-a=b", "a=-b", "n>x", "a in (b", "(a)"]
        {
            assert!(LabelSelector::parse(text).is_err(), "{text}");
        }
    }
}
