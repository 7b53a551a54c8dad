//! Path patterns of gobwas/glob, the library of `.Files.Glob`: `*` and `?` do not match slashes, `**` does.

/// A parsed pattern.
pub struct Glob(Vec<Node>);

enum Node {
    Char(char),
    /// `?`: any character except a slash.
    One,
    /// `*`: any text without a slash.
    Any,
    /// `**`: any text.
    Super,
    /// `[abc]` or `[a-z]`, and whether the set is negated.
    Set(Vec<(char, char)>, bool),
    /// `{a,b}`
    Either(Vec<Vec<Node>>),
}

/// Maximal work of one match, in steps; beyond it there is no match. Nested alternatives can multiply.
const MAX_STEPS: usize = 1 << 20;

impl Glob {
    /// Parses a pattern; `None` if gobwas rejects it.
    ///
    /// ```
    /// use chart_compat::go::glob::Glob;
    ///
    /// let glob = Glob::parse("conf/{a,b}*.yaml").unwrap();
    /// assert!(glob.matches("conf/apps.yaml") && !glob.matches("conf/apps/x.yaml"));
    /// assert!(Glob::parse("[").is_none());
    /// ```
    #[must_use]
    pub fn parse(pattern: &str) -> Option<Self> {
        // The library stops at NUL, and reads U+FFFD as invalid UTF-8.
        let chars: Vec<char> = pattern.chars().take_while(|c| *c != '\0').collect();
        if chars.contains(&char::REPLACEMENT_CHARACTER) {
            return None;
        }
        sequence(&chars, &mut 0, 0).map(Self)
    }

    /// Whether the pattern matches the whole of `text`.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        if let Some((prefix, suffix)) = self.around_super() {
            // As in the library, prefix and suffix can overlap.
            return text.starts_with(&prefix) && text.ends_with(&suffix);
        }
        let text: Vec<char> = text.chars().collect();
        let mut steps = 0;
        let nodes: Vec<&Node> = self.0.iter().collect();
        matches(&nodes, &text, &mut steps)
    }
}

impl Glob {
    /// The literals before and after `**`, if the pattern has no other nodes.
    fn around_super(&self) -> Option<(String, String)> {
        let literal = |nodes: &[Node]| -> Option<String> {
            let chars = nodes.iter().map(|n| if let Node::Char(c) = n { Some(*c) } else { None });
            chars.collect::<Option<String>>().filter(|s| !s.is_empty())
        };
        let at = self.0.iter().position(|n| matches!(n, Node::Super))?;
        Some((literal(&self.0[..at])?, literal(&self.0[at + 1..])?))
    }
}

/// Parses up to the end of the pattern; in braces, up to a comma or the closing brace.
fn sequence(p: &[char], at: &mut usize, depth: usize) -> Option<Vec<Node>> {
    if depth > 100 {
        return None;
    }
    let mut nodes = Vec::new();
    while let Some(c) = p.get(*at) {
        match c {
            ',' | '}' if depth > 0 => break,
            '*' => {
                *at += 1;
                let double = p.get(*at) == Some(&'*');
                if double {
                    *at += 1;
                }
                nodes.push(if double { Node::Super } else { Node::Any });
                continue;
            }
            '?' => nodes.push(Node::One),
            '[' => {
                nodes.push(set(p, at)?);
                continue;
            }
            '{' => {
                let mut branches = Vec::new();
                loop {
                    *at += 1;
                    branches.push(sequence(p, at, depth + 1)?);
                    match p.get(*at) {
                        Some(',') => {}
                        // The end of the pattern closes open braces.
                        _ => break,
                    }
                }
                nodes.push(Node::Either(branches));
            }
            '\\' => {
                *at += 1;
                // A trailing backslash is ignored.
                nodes.extend(p.get(*at).map(|c| Node::Char(*c)));
            }
            c => nodes.push(Node::Char(*c)),
        }
        *at += 1;
    }
    Some(nodes)
}

/// A set in brackets: as in gobwas, either one range or a list of characters.
fn set(p: &[char], at: &mut usize) -> Option<Node> {
    *at += 1;
    let negated = p.get(*at) == Some(&'!');
    if negated {
        *at += 1;
    }
    if let (Some(low), Some('-')) = (p.get(*at), p.get(*at + 1)) {
        let high = p.get(*at + 2)?;
        let closed = p.get(*at + 3) == Some(&']');
        *at += 4;
        return (closed && low <= high).then(|| Node::Set(vec![(*low, *high)], negated));
    }
    let mut chars = Vec::new();
    loop {
        match p.get(*at)? {
            ']' => break,
            '\\' => {
                *at += 1;
                chars.push(*p.get(*at)?);
            }
            c => chars.push(*c),
        }
        *at += 1;
    }
    *at += 1;
    if chars.is_empty() {
        return None;
    }
    Some(Node::Set(chars.into_iter().map(|c| (c, c)).collect(), negated))
}

fn matches(nodes: &[&Node], text: &[char], steps: &mut usize) -> bool {
    *steps += 1;
    if *steps > MAX_STEPS {
        return false;
    }
    let Some((node, rest)) = nodes.split_first() else { return text.is_empty() };
    match node {
        Node::Any | Node::Super => {
            let crosses = matches!(node, Node::Super);
            let reach = if crosses { text.len() } else { text.iter().take_while(|c| **c != '/').count() };
            (0..=reach).any(|n| matches(rest, &text[n..], steps))
        }
        Node::Either(branches) => branches.iter().any(|branch| {
            let all: Vec<&Node> = branch.iter().chain(rest.iter().copied()).collect();
            matches(&all, text, steps)
        }),
        _ => match text.split_first() {
            Some((c, after)) => one(node, *c) && matches(rest, after, steps),
            None => false,
        },
    }
}

fn one(node: &Node, c: char) -> bool {
    match node {
        Node::Char(wanted) => *wanted == c,
        Node::One => c != '/',
        Node::Set(ranges, negated) => ranges.iter().any(|r| (r.0..=r.1).contains(&c)) != *negated,
        Node::Any | Node::Super | Node::Either(_) => false,
    }
}
