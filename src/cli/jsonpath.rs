//! kubectl's JSONPath templates on values: text, and `{…}` with paths, filters, quoted text and `range`.
//!
//! Owns the evaluation of a parsed template (`client-go/util/jsonpath`, configured as in `NewJSONPathPrinter`: a missing key ends
//! all output, without an error from Helm). [`parse`] parses templates. Entries of maps are ordered by key; in Go their order is
//! random.

mod parse;

use std::cmp::Ordering;

use chart_compat::data::Data;
use chart_compat::{go, json};

use self::parse::Node;

/// Maximal nesting and recursion of a template.
const DEEPEST: usize = 200;

/// Evaluates a template on data. Empty if the evaluation fails, as in `helm show values --jsonpath`.
///
/// # Errors
/// The template does not parse, in client-go's words.
pub(super) fn print(template: &str, data: &Data) -> Result<String, String> {
    let nodes = parse::template(template)?;
    let mut run = Run { nodes: &nodes };
    Ok(run
        .all(0, nodes.len(), data)
        .map(|results| results.iter().map(|r| line(r)).collect())
        .unwrap_or_default())
}

/// The evaluation failed.
struct Failed;

/// One evaluation of a template.
struct Run<'t> {
    nodes: &'t [Node],
}

impl Run<'_> {
    /// The results of a part of the template, one list for each action.
    fn all(&mut self, from: usize, to: usize, data: &Data) -> Result<Vec<Vec<Data>>, Failed> {
        let mut out = Vec::new();
        let mut at = from;
        while at < to {
            match range(&self.nodes[at]) {
                None => out.push(walk(std::slice::from_ref(data), &self.nodes[at], 0)?),
                Some(false) => return Err(Failed),
                Some(true) => {
                    let end = self.end_of(at + 1, to);
                    for item in walk(std::slice::from_ref(data), &self.nodes[at], 0)? {
                        out.extend(self.all(at + 1, end, &item)?);
                    }
                    at = end;
                }
            }
            at += 1;
        }
        Ok(out)
    }

    /// The end of the range that started before `at`. Without an `end` it is the end of the template.
    fn end_of(&self, at: usize, to: usize) -> usize {
        let mut depth = 0usize;
        for n in at..to {
            match range(&self.nodes[n]) {
                Some(true) => depth += 1,
                Some(false) if depth == 0 => return n,
                Some(false) => depth -= 1,
                None => {}
            }
        }
        to
    }
}

/// Whether an action starts (`range`, true) or ends (`end`, false) a range.
fn range(node: &Node) -> Option<bool> {
    let Node::List(list) = node else { return None };
    list.iter().find_map(|n| match n {
        Node::Identifier(name) if name == "range" => Some(true),
        Node::Identifier(name) if name == "end" => Some(false),
        _ => None,
    })
}

fn walk(input: &[Data], node: &Node, depth: usize) -> Result<Vec<Data>, Failed> {
    if depth > DEEPEST {
        return Err(Failed);
    }
    let each = |value: Data| Ok(input.iter().map(|_| value.clone()).collect());
    match node {
        Node::Text(text) => Ok(vec![Data::String(text.clone())]),
        Node::Int(n) => each(Data::Int(*n)),
        Node::Float(n) => each(Data::Float(*n)),
        Node::Bool(b) => each(Data::Bool(*b)),
        Node::List(nodes) => list(input, nodes, depth),
        Node::Identifier(name) if name == "range" => Ok(input.to_vec()),
        Node::Identifier(_) => Err(Failed),
        Node::Field(name) => {
            let found: Vec<Data> = input
                .iter()
                .filter_map(|value| match value {
                    Data::Map(map) => map.get(name).cloned(),
                    _ => None,
                })
                .collect();
            if found.is_empty() && !input.is_empty() { Err(Failed) } else { Ok(found) }
        }
        Node::Wildcard => Ok(input.iter().flat_map(children).collect()),
        Node::Recursive => Ok(recursive(input, depth)),
        Node::Slice(slice) => {
            let mut out = Vec::new();
            for value in input {
                match value {
                    Data::List(items) => out.extend(slice.of(items).ok_or(Failed)?),
                    Data::Null => {}
                    _ => return Err(Failed),
                }
            }
            Ok(out)
        }
        Node::Union(lists) => {
            let mut out = Vec::new();
            for nodes in lists {
                out.extend(list(input, nodes, depth)?);
            }
            Ok(out)
        }
        Node::Filter { left, operator, right } => {
            let mut out = Vec::new();
            for value in input {
                let Data::List(items) = value else { return Err(Failed) };
                for item in items {
                    if holds(item, left, operator, right, depth)? {
                        out.push(item.clone());
                    }
                }
            }
            Ok(out)
        }
    }
}

fn list(input: &[Data], nodes: &[Node], depth: usize) -> Result<Vec<Data>, Failed> {
    let mut now = input.to_vec();
    for node in nodes {
        now = walk(&now, node, depth + 1)?;
    }
    Ok(now)
}

fn children(value: &Data) -> Vec<Data> {
    match value {
        Data::Map(map) => map.values().cloned().collect(),
        Data::List(items) => items.clone(),
        // As in Go, a string's items are its bytes.
        Data::String(text) => text.bytes().map(|b| Data::Int(b.into())).collect(),
        _ => Vec::new(),
    }
}

/// Each value followed by its descendants.
fn recursive(input: &[Data], depth: usize) -> Vec<Data> {
    let mut out = Vec::new();
    for value in input {
        let inner = children(value);
        if !inner.is_empty() && depth < DEEPEST {
            out.push(value.clone());
            out.extend(recursive(&inner, depth + 1));
        }
    }
    out
}

fn holds(item: &Data, left: &[Node], operator: &str, right: &[Node], depth: usize) -> Result<bool, Failed> {
    let item = std::slice::from_ref(item);
    let lefts = list(item, left, depth);
    if operator.is_empty() {
        return Ok(lefts.is_ok_and(|l| !l.is_empty()));
    }
    let rights = list(item, right, depth);
    let (left, right) = match (&lefts?[..], &rights?[..]) {
        ([], _) | (_, []) => return Ok(false),
        ([left], [right]) => (left.clone(), right.clone()),
        _ => return Err(Failed),
    };
    let order = compare(&left, &right).ok_or(Failed)?;
    Ok(match operator {
        "<" => order == Ordering::Less,
        ">" => order == Ordering::Greater,
        "==" => order == Ordering::Equal,
        "!=" => order != Ordering::Equal,
        "<=" => order != Ordering::Greater,
        ">=" => order != Ordering::Less,
        _ => return Err(Failed),
    })
}

/// Compares values of one kind; Go does not compare integers with floats.
fn compare(left: &Data, right: &Data) -> Option<Ordering> {
    match (left, right) {
        (Data::Bool(a), Data::Bool(b)) => Some(a.cmp(b)),
        (Data::Int(a), Data::Int(b)) => Some(a.cmp(b)),
        (Data::Float(a), Data::Float(b)) => a.partial_cmp(b),
        (Data::String(a), Data::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

/// The results of one action, joined with spaces.
fn line(results: &[Data]) -> String {
    let text = |value: &Data| match value {
        Data::Null => "null".to_owned(),
        Data::Bool(b) => b.to_string(),
        Data::Int(n) => n.to_string(),
        Data::Float(n) => go::fmt::float(*n),
        Data::String(text) => text.clone(),
        other @ (Data::List(_) | Data::Map(_)) => json::to_string(other).unwrap_or_default(),
    };
    results.iter().map(text).collect::<Vec<_>>().join(" ")
}
