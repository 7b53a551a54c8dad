//! From nodes to values: what go-yaml v2's decoder makes of scalars, keys and merges.
//!
//! Owns where in a document a node stands, what tags do, the limits on depth and on aliases, and strict reading's
//! duplicates. It sees one node at a time: anchors and replays are the reader's business.

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine;

use super::error::Error;
use super::parse::{Style, Tag};
use super::resolve::{self, Dialect, Resolved};
use super::sink::{Key, Sink};

/// How deep values may nest. Go allows 10,000, for which walking a tree would need more stack than a thread has.
pub(super) const MAX_DEPTH: usize = 1_000;

/// Where a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The document, or an item of a list.
    Item,
    Key,
    Value,
    /// The value of a merge key.
    Merge,
    /// An item of a merge key's list, with how many follow it.
    MergeItem(usize),
}

/// A container that is open.
struct Frame {
    position: Position,
    list: bool,
    /// Its entries go to the map around it.
    merged: bool,
    strict: Option<Box<Strict>>,
}

/// What strict reading knows of an open map.
#[derive(Default)]
struct Strict {
    keys: HashSet<(u8, String)>,
    /// The key whose value is being read, if it was set before, and the value's line once that is known.
    duplicate: Option<(Option<u32>, String)>,
}

/// How much was decoded, and how much of it through aliases.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    nodes: usize,
    aliased: usize,
}

/// The decoder's state.
pub(super) struct Decoder<'s, S> {
    pub(super) sink: &'s mut S,
    frames: Vec<Frame>,
    strict: bool,
    pub(super) counts: Counts,
    pub(super) alias_depth: usize,
    /// What go-yaml's decoder fails with. Nothing is decoded after it, but the text is read on, as its errors go first.
    pub(super) fault: Option<Error>,
    pub(super) duplicates: Vec<(u32, String)>,
    /// Whether a number was seen that JSON cannot hold.
    pub(super) not_finite: bool,
    /// A key that JSON cannot hold, until its value is known.
    pub(super) odd_key: Option<Key<'static>>,
}

impl<'s, S: Sink> Decoder<'s, S> {
    pub(super) fn new(sink: &'s mut S, strict: bool) -> Self {
        Self {
            sink,
            frames: Vec::with_capacity(16),
            strict,
            counts: Counts::default(),
            alias_depth: 0,
            fault: None,
            duplicates: Vec::new(),
            not_finite: false,
            odd_key: None,
        }
    }

    /// Where the next node stands.
    #[inline]
    pub(super) fn position(&self) -> Position {
        self.frames.last().map_or(Position::Item, |frame| frame.position)
    }

    /// How many containers are open.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Counts a node, and fails if too much of the document comes out of aliases.
    #[inline]
    pub(super) fn count(&mut self) {
        self.counts.nodes += 1;
        if self.alias_depth > 0 {
            self.counts.aliased += 1;
            if self.counts.aliased > 100 && self.counts.nodes > 1000 && self.counts.excessive() {
                self.fail(0, "document contains excessive aliasing");
            }
        }
    }

    /// Notes a failure; the first one counts.
    pub(super) fn fail(&mut self, line: u32, problem: impl Into<Cow<'static, str>>) {
        if self.fault.is_none() {
            self.fault = Some(Error::plain(line, problem));
        }
    }

    pub(super) fn fail_merge(&mut self, line: u32) {
        self.fail(line + 1, "map merge requires map or sequence of maps as the value");
    }

    /// A scalar at any position.
    #[inline]
    pub(super) fn scalar(&mut self, value: Cow<'_, str>, style: Style, line: u32) {
        match self.position() {
            Position::Key if value == "<<" && (style.implicit || style.tag == Tag::Merge) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.position = Position::Merge;
                }
            }
            Position::Key => self.key(value, style, line),
            Position::Item | Position::Value => {
                self.count();
                self.value_line(line);
                self.value(value, style, line);
                self.done();
            }
            Position::Merge | Position::MergeItem(_) => self.fail_merge(line),
        }
    }

    /// A scalar that is a key, and no merge key.
    #[inline]
    pub(super) fn key(&mut self, value: Cow<'_, str>, style: Style, line: u32) {
        self.count();
        let key = match self.resolve(&value, style, line) {
            Resolved::Str | Resolved::Timestamp => Key::Str(self.text(value, style, line)),
            Resolved::Int(value) => Key::Int(value),
            Resolved::Float(value) => Key::Float(value),
            Resolved::Bool(value) => Key::Bool(value),
            Resolved::Null => {
                self.odd_key = Some(Key::Null);
                Key::Null
            }
            Resolved::Uint(value) => {
                self.odd_key = Some(Key::Uint(value));
                Key::Uint(value)
            }
        };
        if self.strict {
            self.note_key(&key);
        }
        if let Some(frame) = self.frames.last_mut() {
            frame.position = Position::Value;
        }
        self.sink.key(key);
    }

    /// A list or map that starts at a position where it is a value or is merged.
    pub(super) fn open(&mut self, list: bool, line: u32) {
        let merged = match self.position() {
            Position::Merge | Position::MergeItem(_) if !list => true,
            Position::Merge | Position::MergeItem(_) => return self.fail_merge(line),
            _ => false,
        };
        self.count();
        self.value_line(line);
        if self.frames.len() >= MAX_DEPTH {
            return self.fail(line + 1, format!("exceeded max depth of {MAX_DEPTH}"));
        }
        match (list, merged) {
            (true, _) => self.sink.begin_list(),
            (false, false) => self.sink.begin_map(),
            (false, true) => {}
        }
        let strict = (self.strict && !list && !merged).then(Box::default);
        let position = if list { Position::Item } else { Position::Key };
        self.frames.push(Frame { position, list, merged, strict });
    }

    /// The innermost list or map ends.
    pub(super) fn close(&mut self) {
        match self.frames.pop() {
            Some(Frame { list: true, .. }) => self.sink.end_list(),
            Some(Frame { merged: false, .. }) => self.sink.end_map(),
            _ => {}
        }
        self.done();
    }

    /// The items of a merge key's list follow, the last of the text first.
    pub(super) fn expect_merge_items(&mut self, count: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.position = count.checked_sub(1).map_or(Position::Key, Position::MergeItem);
        }
    }

    /// A null instead of a value whose key was found to be impossible.
    pub(super) fn skip_value(&mut self) {
        self.sink.null();
        self.done();
    }

    /// Notes the line of a value, for strict reading's errors.
    #[inline]
    pub(super) fn value_line(&mut self, line: u32) {
        if self.strict
            && self.position() == Position::Value
            && let Some(strict) = self.strict_map()
            && let Some((at @ None, _)) = &mut strict.duplicate
        {
            *at = Some(line + 1);
        }
    }

    /// A node is complete: what comes next in the container around it?
    #[inline]
    fn done(&mut self) {
        let Some(frame) = self.frames.last_mut() else { return };
        match frame.position {
            Position::Item | Position::Key => {}
            Position::Value => {
                frame.position = Position::Key;
                if self.strict {
                    let duplicate = self.strict_map().and_then(|strict| strict.duplicate.take());
                    self.duplicates.extend(duplicate.map(|(line, text)| (line.unwrap_or(0), text)));
                }
            }
            Position::Merge | Position::MergeItem(0) => frame.position = Position::Key,
            Position::MergeItem(more) => frame.position = Position::MergeItem(more - 1),
        }
    }

    /// What strict reading knows of the map that the innermost frame fills.
    fn strict_map(&mut self) -> Option<&mut Strict> {
        self.frames.iter_mut().rev().find(|frame| !frame.merged)?.strict.as_deref_mut()
    }

    fn note_key(&mut self, key: &Key<'_>) {
        let kind = match key {
            Key::Str(_) => 0,
            Key::Int(_) => 1,
            Key::Uint(_) => 2,
            Key::Float(_) => 3,
            Key::Bool(_) => 4,
            Key::Null => 5,
        };
        let shown = if *key == Key::Null { "<nil>".to_owned() } else { key.go_syntax() };
        if let Some(strict) = self.strict_map() {
            let again = !strict.keys.insert((kind, shown.clone()));
            strict.duplicate = again.then(|| (None, format!("key {shown} already set in map")));
        }
    }

    #[inline]
    fn value(&mut self, value: Cow<'_, str>, style: Style, line: u32) {
        match self.resolve(&value, style, line) {
            Resolved::Str | Resolved::Timestamp => {
                let text = self.text(value, style, line);
                self.sink.string(text);
            }
            Resolved::Null => self.sink.null(),
            Resolved::Bool(value) => self.sink.bool(value),
            Resolved::Int(value) => self.sink.int(value),
            Resolved::Uint(value) => self.sink.uint(value),
            Resolved::Float(value) => {
                self.not_finite |= !value.is_finite();
                self.sink.float(value);
            }
        }
    }

    /// What the text means under its tag.
    #[inline]
    fn resolve(&mut self, value: &str, style: Style, line: u32) -> Resolved {
        match style.tag {
            Tag::None if style.implicit => resolve::resolve(value),
            Tag::None | Tag::Str | Tag::Binary | Tag::Merge | Tag::Other => Resolved::Str,
            tag => self.resolve_tagged(value, tag, line),
        }
    }

    #[cold]
    #[allow(clippy::cast_precision_loss)]
    fn resolve_tagged(&mut self, value: &str, tag: Tag, line: u32) -> Resolved {
        let found = match value.as_bytes().first() {
            Some(b'+' | b'-' | b'0'..=b'9') => resolve::number(value, tag == Tag::Timestamp, Dialect::V2),
            _ => resolve::resolve(value),
        };
        match (tag, found) {
            (Tag::Null, Resolved::Null)
            | (Tag::Bool, Resolved::Bool(_))
            | (Tag::Int, Resolved::Int(_) | Resolved::Uint(_))
            | (Tag::Float, Resolved::Float(_))
            | (Tag::Timestamp, Resolved::Timestamp) => found,
            (Tag::Float, Resolved::Int(value)) => Resolved::Float(value as f64),
            _ => {
                let found = match found {
                    Resolved::Null => "null",
                    Resolved::Bool(_) => "bool",
                    Resolved::Int(_) | Resolved::Uint(_) => "int",
                    Resolved::Float(_) => "float",
                    Resolved::Timestamp => "timestamp",
                    Resolved::Str => "str",
                };
                let wanted = match tag {
                    Tag::Null => "null",
                    Tag::Bool => "bool",
                    Tag::Int => "int",
                    Tag::Float => "float",
                    _ => "timestamp",
                };
                self.fail(line + 1, format!("cannot decode !!{found} `{value}` as a !!{wanted}"));
                Resolved::Str
            }
        }
    }

    /// The text of a string: itself, or what its base64 spells.
    #[inline]
    fn text<'t>(&mut self, value: Cow<'t, str>, style: Style, line: u32) -> Cow<'t, str> {
        if style.tag == Tag::Binary { Cow::Owned(self.binary(&value, line)) } else { value }
    }

    #[cold]
    fn binary(&mut self, value: &str, line: u32) -> String {
        let packed: Vec<u8> = value.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
        // Go does not mind what the unused bits of the last digit are.
        let lax = base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
        match base64::engine::GeneralPurpose::new(&base64::alphabet::STANDARD, lax).decode(packed) {
            Ok(bytes) => crate::json::replace_invalid(&bytes).into_owned(),
            Err(_) => {
                self.fail(line + 1, "!!binary value contains invalid base64 data");
                String::new()
            }
        }
    }
}

impl Counts {
    /// go-yaml's rule: up to 400,000 nodes 99 of 100 may come from aliases, from 4,000,000 on 10, and in between in
    /// proportion.
    #[allow(clippy::cast_precision_loss)]
    fn excessive(self) -> bool {
        const LOW: usize = 400_000;
        const HIGH: usize = 4_000_000;
        let allowed = match self.nodes {
            ..=LOW => 0.99,
            HIGH.. => 0.10,
            nodes => 0.99 - 0.89 * ((nodes - LOW) as f64 / (HIGH - LOW) as f64),
        };
        self.aliased as f64 / self.nodes as f64 > allowed
    }
}
