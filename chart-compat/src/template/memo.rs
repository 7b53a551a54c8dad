//! Remembering what a template gave for a dot, so that the helpers of a chart, which are asked for the same labels again and
//! again, run once.
//!
//! Owns what was remembered and the proof that it still holds: a result is kept only if its execution asked nothing of the
//! world, did not look at which template is being rendered and changed no map that it was given; and it is given again only
//! while no map that existed then has changed since. Knows nothing of what templates do.

use std::cell::Cell;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::ast::Template;
use super::error::Error;
use super::exec::Exec;
use crate::go::value::Entry;
use crate::go::{Elem, Map, MapKind, Value};

/// The most entries or items of a dot that are compared one by one.
const FEW: usize = 16;

/// How deep templates may stand in each other for their results to be kept or given: far below Helm's bound, which depends on
/// where a template stands.
const NESTED: usize = 500;

/// Results by a hash of template and dot.
#[derive(Default)]
pub(super) struct Memo<'a> {
    kept: FxHashMap<u64, Vec<Kept<'a>>>,
    /// How many templates stand in each other now.
    nested: usize,
    /// The most since the innermost execution that may be kept began.
    deepest: usize,
    /// How many results were kept.
    count: usize,
    /// How often something was asked whose answer is not a matter of template and dot.
    asked: Cell<usize>,
}

impl Memo<'_> {
    /// What the results take beside their texts, which lie in the arena.
    pub(super) fn bytes(&self) -> usize {
        self.count * (size_of::<Kept<'_>>() + 64)
    }
}

struct Kept<'a> {
    template: &'a Template,
    dot: Dot<'a>,
    text: &'a [u8],
    /// How deep its own templates stood in each other.
    depth: usize,
    /// How many maps there were when it began, and how often any was changed until it ended.
    maps: usize,
    changes: u64,
}

/// What a template is executed on. Maps that templates share are the same if they are one; a small one made on the way, as
/// `dict` does for each call, if its entries are.
#[derive(Clone, Copy)]
enum Dot<'a> {
    Same(Value<'a>),
    Entries(MapKind, &'a [Entry<'a>]),
    Items(Elem, &'a [Value<'a>]),
}

impl<'a> Dot<'a> {
    /// Whether a template cannot tell it from `value`; `shared` says which maps templates share.
    fn is(self, shared: &dyn Fn(&'a Map<'a>) -> bool, value: Value<'a>) -> bool {
        match (self, value) {
            (Self::Entries(kind, own), Value::Map(m)) => {
                let entries = m.entries();
                let same = |(a, b): (&Entry<'a>, &Entry<'a>)| a.0 == b.0 && same(a.1, b.1);
                kind == m.kind()
                    && !shared(m)
                    && own.len() == entries.len()
                    && own.iter().zip(&*entries).all(same)
            }
            (Self::Items(elem, own), Value::List(l)) => {
                elem == l.elem
                    && own.len() == l.items.len()
                    && own.iter().zip(l.items).all(|(a, b)| same(*a, *b))
            }
            (Self::Same(own), value) => same(own, value),
            _ => false,
        }
    }
}

/// Whether two values are one, or equal where they cannot be told apart.
fn same(a: Value<'_>, b: Value<'_>) -> bool {
    match (a, b) {
        (Value::Nil, Value::Nil) | (Value::NilInterface, Value::NilInterface) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) | (Value::Int64(a), Value::Int64(b)) => a == b,
        (Value::Uint64(a), Value::Uint64(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::List(a), Value::List(b)) => std::ptr::addr_eq(a, b),
        (Value::Map(a), Value::Map(b)) => a.is(b) && a.kind() == b.kind(),
        (Value::Object(a), Value::Object(b)) => std::ptr::addr_eq(a, b),
        _ => false,
    }
}

fn hash(value: Value<'_>, to: &mut FxHasher) {
    std::mem::discriminant(&value).hash(to);
    match value {
        Value::Nil | Value::NilInterface | Value::Float(_) => {}
        Value::Bool(b) => b.hash(to),
        Value::Int(i) | Value::Int64(i) => i.hash(to),
        Value::Uint64(u) => u.hash(to),
        Value::Str(s) | Value::Bytes(s) => s.hash(to),
        Value::List(l) => std::ptr::from_ref(l).addr().hash(to),
        Value::Map(m) => m.number().hash(to),
        Value::Object(o) => std::ptr::from_ref(o).addr().hash(to),
    }
}

impl<'a> Exec<'a> {
    /// What `run` makes of `template` and `dot`, copied into the arena; or what it made of them before.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn once(
        &mut self,
        template: &'a Template,
        dot: Value<'a>,
        run: impl FnOnce(&mut Self) -> Result<Vec<u8>, Error>,
    ) -> Result<Value<'a>, Error> {
        // A `tpl` text that defines something has other templates in reach.
        let plain = self.notices.is_none() && self.set().is_plain();
        let key = if plain { self.dot_hash(template, dot) } else { None };
        let Some(key) = key else { return self.nested(run) };
        if let Some(text) = self.kept(key, template, dot) {
            return Ok(Value::Str(text));
        }
        let (maps, changes, asked) = (self.arena.maps(), self.arena.changes(), self.asked());
        let deepest = std::mem::replace(&mut self.memo.deepest, self.memo.nested);
        let result = self.nested(run);
        let depth = self.memo.deepest - self.memo.nested;
        self.memo.deepest = self.memo.deepest.max(deepest);
        let value = result?;
        if let Value::Str(text) = value
            && asked == self.asked()
            && !self.arena.changed_since(changes, maps)
        {
            let dot = match dot {
                Value::Map(m) if !self.arena.is_shared(m.number()) => {
                    Dot::Entries(m.kind(), m.snapshot(self.arena))
                }
                Value::List(l) => Dot::Items(l.elem, l.items),
                other => Dot::Same(other),
            };
            let kept = Kept { template, dot, text, depth, maps, changes: self.arena.changes() };
            self.memo.count += 1;
            self.memo.kept.entry(key).or_default().push(kept);
        }
        Ok(value)
    }

    /// Says that what runs now may give something else for the same dot.
    pub fn note_chance(&self) {
        self.memo.asked.set(self.memo.asked.get() + 1);
    }

    fn nested(&mut self, run: impl FnOnce(&mut Self) -> Result<Vec<u8>, Error>) -> Result<Value<'a>, Error> {
        self.memo.nested += 1;
        self.memo.deepest = self.memo.deepest.max(self.memo.nested);
        let result = run(self);
        self.memo.nested -= 1;
        Ok(self.keep(result?))
    }

    fn asked(&self) -> usize {
        self.chances() + self.arena.volatile_reads()
    }

    /// How often something was asked that may have another answer the next time.
    #[must_use]
    pub fn chances(&self) -> usize {
        self.memo.asked.get()
    }

    /// A hash of template and dot; `None` if results for such a dot are not kept.
    fn dot_hash(&self, template: &Template, dot: Value<'a>) -> Option<u64> {
        let mut to = FxHasher::default();
        std::ptr::from_ref(template).addr().hash(&mut to);
        match dot {
            Value::Map(m) if !self.arena.is_shared(m.number()) => {
                let entries = m.entries();
                if entries.len() > FEW {
                    return None;
                }
                for (key, value) in &*entries {
                    key.hash(&mut to);
                    hash(*value, &mut to);
                }
            }
            Value::List(l) if l.nil || l.items.len() > FEW => return None,
            Value::List(l) => l.items.iter().for_each(|v| hash(*v, &mut to)),
            other => hash(other, &mut to),
        }
        Some(to.finish())
    }

    fn kept(&mut self, key: u64, template: &Template, dot: Value<'a>) -> Option<&'a [u8]> {
        let shared = |m: &'a Map<'a>| self.arena.is_shared(m.number());
        let all = self.memo.kept.get_mut(&key)?;
        all.retain(|k| !self.arena.changed_since(k.changes, k.maps));
        let found = all.iter().find(|k| std::ptr::addr_eq(k.template, template) && k.dot.is(&shared, dot))?;
        let depth = self.memo.nested + found.depth;
        (depth < NESTED).then(|| {
            self.memo.deepest = self.memo.deepest.max(depth);
            found.text
        })
    }
}
