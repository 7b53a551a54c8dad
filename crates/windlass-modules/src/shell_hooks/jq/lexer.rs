//! The text of a filter as tokens: enough to tell functions from fields, keys and text. Pure.
//!
//! Owns that reading alone; what a filter means the interpreter knows.

/// A piece of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A function or a keyword.
    Word(String),
    /// `.name`.
    Field(String),
    /// `$name`.
    Var(String),
    /// `@name`.
    Format(String),
    /// A name as the key of an object.
    Key(String),
    Number(String),
    /// A text; filters within it follow.
    Text(String),
    /// Any other character but blanks.
    Sign(char),
}

/// The pieces of a filter in order; those within a text stand behind it.
pub(super) fn lexed(filter: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    read(filter, &mut tokens);
    tokens
}

fn read(filter: &str, tokens: &mut Vec<Token>) {
    let mut open: Vec<char> = Vec::new();
    let mut rest = filter;
    while let Some(first) = rest.chars().next() {
        let word =
            |text: &str| text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
        let after = &rest[first.len_utf8()..];
        let is_name = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        match first {
            '"' => {
                let (text, within, length) = text(after);
                tokens.push(Token::Text(text));
                within.iter().for_each(|filter| read(filter, tokens));
                rest = &after[length..];
                continue;
            }
            '#' => {
                rest = after.find('\n').map_or("", |end| &after[end..]);
                continue;
            }
            '.' | '$' | '@' if is_name(after) => {
                let (name, left) = after.split_at(word(after));
                let name = name.to_owned();
                tokens.push(match first {
                    '.' => Token::Field(name),
                    '$' => Token::Var(name),
                    _ => Token::Format(name),
                });
                rest = left;
                continue;
            }
            _ if is_name(rest) => {
                let (name, left) = rest.split_at(word(rest));
                let key = open.last() == Some(&'{') && matches!(tokens.last(), Some(Token::Sign('{' | ',')));
                let name = name.to_owned();
                tokens.push(if key { Token::Key(name) } else { Token::Word(name) });
                rest = left;
                continue;
            }
            '0'..='9' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
                tokens.push(Token::Number(rest[..end].to_owned()));
                rest = &rest[end..];
                continue;
            }
            '(' | '[' | '{' => open.push(first),
            ')' | ']' | '}' => drop(open.pop()),
            _ => {}
        }
        if !first.is_whitespace() {
            tokens.push(Token::Sign(first));
        }
        rest = after;
    }
}

/// A text that begins here: what it says but for the filters within, these, and where it ends, its quote included.
fn text(rest: &str) -> (String, Vec<&str>, usize) {
    let (mut said, mut within) = (String::new(), Vec::new());
    let mut at = 0;
    while let Some(c) = rest[at..].chars().next() {
        at += c.len_utf8();
        match c {
            '"' => return (said, within, at),
            '\\' if rest[at..].starts_with('(') => {
                let end = at + 1 + closing(&rest[at + 1..]);
                within.push(&rest[at + 1..end]);
                at = (end + 1).min(rest.len());
            }
            '\\' => {
                said.push(c);
                if let Some(escaped) = rest[at..].chars().next() {
                    said.push(escaped);
                    at += escaped.len_utf8();
                }
            }
            other => said.push(other),
        }
    }
    (said, within, rest.len())
}

/// Where the bracket closes that a filter within a text stands in.
fn closing(filter: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while let Some(c) = filter[at..].chars().next() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            '"' => {
                at += 1 + text(&filter[at + 1..]).2;
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    filter.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_fields_keys_and_text() {
        let words = |filter: &str| -> Vec<String> {
            lexed(filter)
                .into_iter()
                .filter_map(|t| if let Token::Word(word) = t { Some(word) } else { None })
                .collect()
        };
        assert_eq!(words(".debug | .a.debug"), [""; 0]);
        assert_eq!(words("{debug, tojson: tonumber, a: (.b, keys)}"), ["tonumber", "keys"]);
        assert_eq!(
            words("\"debug \\\" \\(.a | tojson | \"x\\(keys)\")\" | length # debug"),
            ["tojson", "keys", "length"]
        );
        assert_eq!(words("$debug, @base64, debug"), ["debug"]);
        assert_eq!(words("[limit(3; .[])] | map(.x % 2)"), ["limit", "map"]);
        // What is cut off in the middle ends there.
        assert_eq!(words("map(\"a\\(first"), ["map", "first"]);
        assert_eq!(words("\"\\"), [""; 0]);
        assert_eq!(
            lexed(".[1.5] ä"),
            [
                Token::Sign('.'),
                Token::Sign('['),
                Token::Number("1.5".to_owned()),
                Token::Sign(']'),
                Token::Sign('ä'),
            ]
        );
    }
}
