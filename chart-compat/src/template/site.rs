//! The call site of a generated value, identified so that edits of the chart do not change it.
//!
//! Owns the file, context and loops of the running node. Knows nothing of the generated values.

use rustc_hash::FxHashMap;
use sha2::{Digest as _, Sha256};

use super::ast::Template;
use super::exec::Exec;
use crate::go::{Value, fmt};
use crate::world::Call;

/// The call site of the running node.
#[derive(Default)]
pub(super) struct Site<'a> {
    around: Around<'a>,
    /// Key and item of each enclosing `range`.
    loops: Vec<(Value<'a>, Value<'a>)>,
    /// The number of calls made in the current file, by digest.
    made: FxHashMap<[u8; 32], usize>,
}

/// The part that is restored when a template ends.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    file: Option<&'a Template>,
    context: Value<'a>,
    /// The index in `loops` of this file's first loop.
    loops: usize,
}

/// The saved state of a template's caller.
pub(super) struct Outer<'a> {
    around: Around<'a>,
    /// The call counts of the caller's file, if the template is another file.
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
        // A loop that ended with an error is still on the stack.
        self.loops.truncate(level + 1);
        if let Some(top) = self.loops.get_mut(level) {
            *top = (key, item);
        }
    }

    pub(super) fn end_loop(&mut self, level: usize) {
        self.loops.truncate(level);
    }
}

/// Longer loop keys are replaced by their digest.
const MAX_KEY: usize = 100;

/// Identifies an iteration of a loop: by the key of a map, a scalar item, the `name` of a map item, or else by index.
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

/// A hexadecimal digest of texts.
fn digest(parts: &[&[u8]]) -> String {
    hash(parts.iter().copied()).iter().map(|b| format!("{b:02x}")).collect()
}

impl<'a> Exec<'a> {
    /// The call site of a function that generates a value; `arguments` are the texts of its arguments.
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

/// A digest of the scalar entries of a map.
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
