//! The call site of a generated value, in terms that survive an edit of the chart.
//!
//! Owns the file, context and loops around the running node; knows nothing of the generated values.

use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use super::ast::Template;
use super::exec::Exec;
use crate::go::{Value, fmt};
use crate::world::Call;

/// The place of the running node.
#[derive(Default)]
pub(super) struct Site<'a> {
    around: Around<'a>,
    /// Key and item of each `range` around it.
    loops: Vec<(Value<'a>, Value<'a>)>,
    /// How often each call was made in the file that runs.
    made: FxHashMap<[u8; 32], usize>,
}

/// What a template's caller gets back when it ends.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    file: Option<&'a Template>,
    context: Value<'a>,
    /// Where the loops of this file begin.
    loops: usize,
}

/// What was around a call of a template.
pub(super) struct Outer<'a> {
    around: Around<'a>,
    /// The counts of the file outside, if another one was entered.
    made: Option<FxHashMap<[u8; 32], usize>>,
}

impl<'a> Site<'a> {
    pub(super) fn enter(&mut self, template: &'a Template, dot: Value<'a>) -> Outer<'a> {
        let around = self.around;
        self.around.context = dot;
        let mut made = None;
        if template.whole {
            self.around.file = Some(template);
            self.around.loops = self.loops.len();
            made = Some(std::mem::take(&mut self.made));
        }
        Outer { around, made }
    }

    pub(super) fn leave(&mut self, outer: Outer<'a>) {
        self.around = outer.around;
        if let Some(made) = outer.made {
            self.made = made;
        }
    }

    pub(super) fn begin_loop(&mut self) -> usize {
        self.loops.push((Value::Nil, Value::Nil));
        self.loops.len() - 1
    }

    pub(super) fn turn(&mut self, level: usize, key: Value<'a>, item: Value<'a>) {
        // A loop that an error left early is still on the stack.
        self.loops.truncate(level + 1);
        if let Some(top) = self.loops.get_mut(level) {
            *top = (key, item);
        }
    }

    pub(super) fn end_loop(&mut self, level: usize) {
        self.loops.truncate(level);
    }
}

/// Longer keys of loops are replaced by their digest.
const MAX_KEY: usize = 100;

/// What tells one turn of a loop from the others: the key of a map, an item that is plain, the `name` of one that is a map, or
/// else its place.
fn turn_key<'a>(key: Value<'a>, item: Value<'a>) -> String {
    let plain = |v: Value<'_>| matches!(v, Value::Str(_) | Value::Float(_) | Value::Int64(_));
    let named = item.as_map().and_then(|m| m.get(b"name")).filter(|n| plain(*n));
    let told = match key {
        Value::Str(_) => key,
        _ if plain(item) => item,
        _ => named.unwrap_or(key),
    };
    let text = String::from_utf8_lossy(&fmt::sprint(told)).into_owned();
    if text.len() <= MAX_KEY { text.replace('/', "~") } else { digest(&[text.as_bytes()]) }
}

fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// A digest of texts, in hexadecimal.
fn digest(parts: &[&[u8]]) -> String {
    hash(parts.iter().copied()).iter().map(|b| format!("{b:02x}")).collect()
}

impl<'a> Exec<'a> {
    /// The name of a call that generates a value; `arguments` are the texts of its arguments.
    pub fn call_site(&mut self, function: &'a str, arguments: &[&[u8]], days: Option<i64>) -> Call<'a> {
        let around = self.site.around;
        let file = around.file.map_or("", |t| &*t.name);
        let turns = self.site.loops.get(around.loops..).unwrap_or_default();
        let loops: String = turns.iter().map(|(key, item)| turn_key(*key, *item) + "/").collect();
        let mut call = Call {
            function,
            arguments: digest(arguments),
            file,
            template: &self.template.name,
            context: context(around.context),
            loops,
            nth: 0,
            days,
        };
        let parts = [function, &call.arguments, call.template, &call.context, &call.loops];
        let count = self.site.made.entry(hash(parts.iter().map(|p| p.as_bytes()))).or_default();
        call.nth = *count;
        *count += 1;
        call
    }
}

/// A digest of the plain entries of a map.
fn context(dot: Value<'_>) -> String {
    let Some(map) = dot.as_map() else { return String::new() };
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for (key, value) in map.entries().iter() {
        if matches!(value, Value::Str(_) | Value::Bool(_) | Value::Int(_) | Value::Int64(_) | Value::Float(_))
        {
            parts.extend([key.to_vec(), fmt::sprint(*value)]);
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    digest(&parts)
}
