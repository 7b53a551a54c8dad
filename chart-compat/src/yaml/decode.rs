//! From nodes to values: scalars, keys and merges as go-yaml v2's decoder treats them.
//!
//! Owns the position of a node in the document, tags, the limits on depth and aliases, and duplicate keys in strict mode. Sees
//! one node at a time: `read` owns anchors and replays.

use std::borrow::Cow;
use std::collections::HashSet;

use base64::Engine;

use super::error::Error;
use super::parse::{Style, Tag};
use super::resolve::{self, Dialect, Resolved};
use super::room::{self, Room};
use super::sink::{Key, Sink};

/// Maximal nesting of values. Go allows 10,000, but walking such a tree needs more stack than a thread has.
pub(super) const MAX_DEPTH: usize = 1_000;

/// The position of a node in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The document, or a list item.
    Item,
    Key,
    Value,
    /// The value of a merge key.
    Merge,
    /// An item of a merge key's list, with the number of items after it.
    MergeItem(usize),
}

/// An open container.
struct Frame {
    position: Position,
    list: bool,
    /// Whether this map is a merge: its entries go to the enclosing map.
    merged: bool,
    strict: Option<Box<Strict>>,
}

/// Strict mode's state of an open map.
#[derive(Default)]
struct Strict {
    keys: HashSet<(u8, String)>,
    /// The current key if it is a duplicate, and the line of its value once known.
    duplicate: Option<(Option<u32>, String)>,
}

/// The number of decoded nodes, and of those decoded through aliases.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    nodes: usize,
    aliased: usize,
}

/// The decoder's state.
pub(super) struct Decoder<'s, S> {
    pub(super) sink: &'s mut S,
    pub(super) room: &'s Room,
    frames: Vec<Frame>,
    strict: bool,
    pub(super) counts: Counts,
    pub(super) alias_depth: usize,
    /// The error of go-yaml's decoder. Nothing is decoded after it, but scanning continues: syntax errors take precedence.
    pub(super) fault: Option<Error>,
    pub(super) duplicates: Vec<(u32, String)>,
    /// Whether the document contains a number that JSON does not support.
    pub(super) not_finite: bool,
    /// A key that JSON does not support, until its value is known.
    pub(super) odd_key: Option<Key<'static>>,
}

impl<'s, S: Sink> Decoder<'s, S> {
    pub(super) fn new(sink: &'s mut S, strict: bool, room: &'s Room) -> Self {
        Self {
            sink,
            room,
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

    /// The position of the next node.
    #[inline]
    pub(super) fn position(&self) -> Position {
        self.frames.last().map_or(Position::Item, |frame| frame.position)
    }

    /// The number of open containers.
    pub(super) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// Counts a node. Fails if aliases produce too much of the document.
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

    /// Takes memory for a node, which is not added if there is none left.
    #[inline]
    fn charge(&mut self, bytes: usize, line: u32) -> bool {
        let taken = match self.alias_depth {
            // What a sink drops again takes nothing.
            0 if !S::KEEPS => return true,
            0 => self.room.take_node(bytes),
            _ => self.room.take(bytes),
        };
        taken.map_err(|error| self.fail(line + 1, error.to_string())).is_ok()
    }

    /// Records an error, unless there is one already.
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

    /// A scalar key that is not a merge key.
    #[inline]
    pub(super) fn key(&mut self, value: Cow<'_, str>, style: Style, line: u32) {
        self.count();
        if !self.charge(room::of_text(&value), line) {
            return;
        }
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

    /// Starts a list or map that is a value or is merged.
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
        if !merged && !self.charge(room::of_collection(list), line) {
            return;
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

    /// Ends the innermost list or map.
    pub(super) fn close(&mut self) {
        match self.frames.pop() {
            Some(Frame { list: true, .. }) => self.sink.end_list(),
            Some(Frame { merged: false, .. }) => self.sink.end_map(),
            _ => {}
        }
        self.done();
    }

    /// Expects the items of a merge key's list, in reverse order of the text.
    pub(super) fn expect_merge_items(&mut self, count: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.position = count.checked_sub(1).map_or(Position::Key, Position::MergeItem);
        }
    }

    /// Replaces the value of an unsupported key with null.
    pub(super) fn skip_value(&mut self) {
        self.sink.null();
        self.done();
    }

    /// Records the line of a value, for errors in strict mode.
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

    /// Completes a node: updates the position in the enclosing container.
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

    /// Strict mode's state of the map that receives the entries of the innermost frame.
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
        if !self.charge(room::of_text(&value), line) {
            return;
        }
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

    /// The value of a scalar under its tag.
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

    /// A string's value: the text, or the decoded base64 of `!!binary`.
    #[inline]
    fn text<'t>(&mut self, value: Cow<'t, str>, style: Style, line: u32) -> Cow<'t, str> {
        if style.tag == Tag::Binary { Cow::Owned(self.binary(&value, line)) } else { value }
    }

    #[cold]
    fn binary(&mut self, value: &str, line: u32) -> String {
        let packed: Vec<u8> = value.bytes().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
        // Go ignores the unused bits of the last digit.
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
    /// go-yaml's rule: up to 400,000 nodes, 99% may come from aliases; from 4,000,000 nodes, 10%; in between the limit falls
    /// linearly.
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
