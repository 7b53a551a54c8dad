//! The parser of JSONPath templates (`client-go/util/jsonpath/parser.go`). Knows no data.

use chart_compat::data::Data;

/// A node of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// `range`, `end`, or an unknown word.
    Identifier(String),
    Field(String),
    Wildcard,
    /// `..`
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Node>>),
    /// Without an operator: true if the left side exists.
    Filter {
        left: Vec<Node>,
        operator: String,
        right: Vec<Node>,
    },
    /// The content of braces.
    List(Vec<Node>),
}

/// `[from:to:step]`. A single number selects one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    /// Whether `to` was not given and is `from` plus one.
    single: bool,
    step: Option<i64>,
}

impl Slice {
    /// The selected items; `None` if out of bounds.
    pub(super) fn of(&self, items: &[Data]) -> Option<Vec<Data>> {
        let size = i64::try_from(items.len()).ok()?;
        let mut from = self.from.unwrap_or(0);
        if from < 0 {
            from += size;
        }
        let mut to = self.to.unwrap_or(size);
        if to < 0 || to == 0 && self.single {
            to += size;
        }
        if from == to {
            return Some(Vec::new());
        }
        let step = self.step.unwrap_or(1);
        if from >= size || from < 0 || to > size || to < 0 || from > to || step <= 0 {
            return None;
        }
        let (from, to) = (usize::try_from(from).ok()?, usize::try_from(to).ok()?);
        Some(items[from..to].iter().step_by(usize::try_from(step).ok()?).cloned().collect())
    }
}

/// Parses a template into text and actions.
///
/// # Errors
/// client-go's error text.
pub(super) fn template(text: &str) -> Result<Vec<Node>, String> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(brace) = rest.find('{') {
        if brace > 0 {
            out.push(Node::Text(rest[..brace].to_owned()));
        }
        let mut parser = Parser { text: &rest[brace + 1..], at: 0 };
        out.push(Node::List(parser.action()?));
        rest = &rest[brace + 1 + parser.at..];
    }
    if !rest.is_empty() {
        out.push(Node::Text(rest.to_owned()));
    }
    Ok(out)
}

struct Parser<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Parser<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    /// Consumes characters while they match; returns them.
    fn pass(&mut self, mut wanted: impl FnMut(char) -> bool) -> &'t str {
        let rest = self.rest();
        let size = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.at += size;
        &rest[..size]
    }

    /// Parses the content of braces and the closing brace.
    fn action(&mut self) -> Result<Vec<Node>, String> {
        let mut out = Vec::new();
        loop {
            let rest = self.rest();
            if rest.starts_with('}') {
                self.at += 1;
                return Ok(out);
            }
            if rest.starts_with("[?(") {
                out.push(self.filter()?);
                continue;
            }
            if rest.starts_with("..") {
                if out.last() == Some(&Node::Recursive) {
                    return Err("invalid multiple recursive descent".to_owned());
                }
                self.at += 2;
                out.push(Node::Recursive);
                if self.rest().starts_with(|c: char| c == '_' || c.is_alphanumeric()) {
                    out.push(self.field());
                }
                continue;
            }
            let Some(c) = rest.chars().next().filter(|c| !matches!(c, '\r' | '\n')) else {
                return Err("unclosed action".to_owned());
            };
            match c {
                ' ' | '@' | '$' => self.at += 1,
                '[' => self.brackets(&mut out)?,
                '"' | '\'' => out.push(self.quoted(c)?),
                '.' => {
                    self.at += 1;
                    out.push(self.field());
                }
                c if matches!(c, '+' | '-') || c.is_ascii_digit() => out.push(self.number()?),
                c if c == '_' || c.is_alphanumeric() => {
                    out.push(match self.pass(|c| !ends(c)) {
                        "true" => Node::Bool(true),
                        "false" => Node::Bool(false),
                        name => Node::Identifier(name.to_owned()),
                    });
                }
                c => return Err(format!("unrecognized character in action: U+{:04X} '{c}'", u32::from(c))),
            }
        }
    }

    fn field(&mut self) -> Node {
        let mut escaped = false;
        let name = self.pass(|c| {
            let goes_on = escaped || !ends(c);
            escaped = c == '\\' && !escaped;
            goes_on
        });
        if name == "*" { Node::Wildcard } else { Node::Field(name.replace('\\', "")) }
    }

    fn number(&mut self) -> Result<Node, String> {
        let mut first = true;
        let text = self.pass(|c| {
            let sign = std::mem::take(&mut first) && matches!(c, '+' | '-');
            sign || c == '.' || c.is_ascii_digit()
        });
        let int = || text.parse().map(Node::Int);
        int().or_else(|_| text.parse().map(Node::Float)).map_err(|_| format!("cannot parse number {text}"))
    }

    fn quoted(&mut self, end: char) -> Result<Node, String> {
        self.at += 1;
        let inner = self.until(end).ok_or("unterminated quoted string")?;
        Ok(Node::Text(unquote(inner)))
    }

    /// Consumes the text up to an unescaped delimiter, which must be in the line, and the delimiter. Returns the text.
    fn until(&mut self, end: char) -> Option<&'t str> {
        let rest = self.rest();
        let mut before = '\0';
        for (n, c) in rest.char_indices() {
            match c {
                '\n' => return None,
                c if c == end && before != '\\' => {
                    self.at += n + c.len_utf8();
                    return Some(&rest[..n]);
                }
                c => before = c,
            }
        }
        None
    }

    /// Parses `[…]`: an index, a slice, a quoted key, or several of them.
    fn brackets(&mut self, out: &mut Vec<Node>) -> Result<(), String> {
        self.at += 1;
        let rest = self.rest();
        let size = rest.find([']', '\n']).filter(|n| rest[*n..].starts_with(']'));
        let inner = &rest[..size.ok_or("unterminated array")?];
        self.at += inner.len() + 1;
        if inner.contains(',') {
            let parse = |part: &str| {
                let mut nodes = Vec::new();
                bracket(part.trim_matches(' '), &mut nodes).map(|()| nodes)
            };
            out.push(Node::Union(inner.split(',').map(parse).collect::<Result<_, _>>()?));
            return Ok(());
        }
        bracket(inner, out)
    }

    /// Parses `[?(@.a == "b")]`.
    fn filter(&mut self) -> Result<Node, String> {
        self.at += 3;
        let rest = self.rest();
        let (mut quote, mut before, mut end) = (None, '\0', None);
        for (n, c) in rest.char_indices() {
            match (c, quote) {
                ('\n', _) => break,
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(q)) if c == q && before != '\\' => quote = None,
                (')', None) => {
                    end = Some(n);
                    break;
                }
                _ => {}
            }
            before = c;
        }
        let inner = &rest[..end.ok_or("unterminated filter")?];
        self.at += inner.len() + 1;
        if !self.rest().starts_with(']') {
            return Err("unclosed array expect ]".to_owned());
        }
        self.at += 1;
        let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
        let left_size = inner.find(is_operator).unwrap_or(inner.len());
        let (left, more) = inner.split_at(left_size);
        let right = more.trim_start_matches(is_operator);
        let operator = &more[..more.len() - right.len()];
        if left.is_empty() || right.is_empty() {
            return Ok(Node::Filter { left: side(inner)?, operator: String::new(), right: Vec::new() });
        }
        Ok(Node::Filter { left: side(left)?, operator: operator.to_owned(), right: side(right)? })
    }
}

/// Parses one side of a comparison, which is an action.
fn side(text: &str) -> Result<Vec<Node>, String> {
    let text = format!("{text}}}");
    Parser { text: &text, at: 0 }.action()
}

fn bracket(inner: &str, out: &mut Vec<Node>) -> Result<(), String> {
    if let Some(key) =
        inner.strip_prefix('\'').and_then(|i| i.strip_suffix('\'')).filter(|k| !k.contains('\''))
    {
        out.extend(side(&format!(".{key}"))?);
        return Ok(());
    }
    let invalid = || format!("invalid array index {inner}");
    let parts: Vec<&str> = if inner == "*" { vec!["", ""] } else { inner.split(':').collect() };
    if parts.len() > 3 {
        return Err(invalid());
    }
    let number = |part: Option<&&str>| match part {
        None | Some(&"") => Ok(None),
        Some(text) => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            let ok = digits.bytes().all(|c| c.is_ascii_digit());
            let number = ok.then(|| text.parse().ok()).flatten();
            number.map(Some).ok_or_else(invalid)
        }
    };
    let from = number(parts.first())?;
    let single = parts.len() == 1;
    let to = if single { Some(from.unwrap_or(0) + 1) } else { number(parts.get(1))? };
    out.push(Node::Slice(Slice { from, to, single, step: number(parts.get(2))? }));
    Ok(())
}

/// Characters that end a name.
fn ends(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// Resolves Go's escapes that templates use.
fn unquote(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}
