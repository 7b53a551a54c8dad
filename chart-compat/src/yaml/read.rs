//! Decodes one document: from events to values.
//!
//! Owns anchors, aliases and their replay, and the nodes that must be complete before they can be decoded. `decode` interprets a
//! node.
//!
//! Values are built while the text is scanned. Only anchored nodes, merge lists and collections used as keys are recorded.

use std::borrow::Cow;
use std::collections::HashMap;

use super::decode::{Decoder, Position};
use super::error::Error;
use super::go_syntax::GoSyntax;
use super::input::Input;
use super::parse::{Event, Parser, Style};
use super::room::Room;
use super::sink::{Key, Sink};

/// A recorded node, or the end of one.
enum Entry<'a> {
    Scalar {
        value: Cow<'a, str>,
        style: Style,
        line: u32,
    },
    Alias {
        target: usize,
        name: Cow<'a, str>,
        line: u32,
    },
    /// A list or map. `end` is the index after its entries, 0 while it is open.
    Open {
        list: bool,
        line: u32,
        end: usize,
    },
    Close,
}

/// Why a node is recorded before it is decoded.
enum Capture {
    /// A collection is used as a key. That is an error, whose message shows the collection.
    Key,
    /// The value of a key that JSON does not support. That is an error, whose message shows the value.
    OddValue(Key<'static>),
    /// A merge key's list, which is decoded from the last item to the first.
    Merge,
}

/// The recorded nodes.
#[derive(Default)]
struct Tape<'a> {
    entries: Vec<Entry<'a>>,
    /// The collections that are still open, by index.
    open: Vec<usize>,
    /// Whether the current node must be recorded.
    recording: bool,
}

/// A range of the tape that is being replayed.
struct Cursor {
    at: usize,
    end: usize,
    alias: bool,
}

/// The result of reading a document.
pub(super) struct Outcome {
    /// Whether the document contains a number that JSON does not support.
    pub(super) not_finite: bool,
}

/// Reads the first document into the sink, within the room.
pub(super) fn read<S: Sink>(text: &[u8], sink: &mut S, strict: bool, room: &Room) -> Result<Outcome, Error> {
    let input = Input::new(text);
    let mut parser = Parser::new(&input);
    let mut reader = Reader {
        decoder: Decoder::new(sink, strict, room),
        tape: Tape::default(),
        anchors: HashMap::new(),
        cursors: Vec::new(),
        capture: None,
        shape: None,
        quiet: false,
    };
    loop {
        match parser.next().map_err(|e| e.within(text))? {
            Event::DocumentStart => reader.decoder.count(),
            Event::DocumentEnd | Event::StreamEnd => break,
            event => reader.event(event)?,
        }
    }
    let Reader { decoder, shape, .. } = reader;
    match (decoder.fault, shape) {
        (Some(error), _) => Err(error),
        (None, _) if !decoder.duplicates.is_empty() => Err(Error::duplicates(decoder.duplicates)),
        (None, Some((_, _, error))) => Err(error),
        (None, None) => Ok(Outcome { not_finite: decoder.not_finite }),
    }
}

struct Reader<'a, 's, S> {
    decoder: Decoder<'s, S>,
    tape: Tape<'a>,
    /// The tape index of each anchored node.
    anchors: HashMap<Cow<'a, str>, usize>,
    /// The active replays, the innermost last.
    cursors: Vec<Cursor>,
    /// The reason of the current capture, its start on the tape, and the number of collections open at that point.
    capture: Option<(Capture, usize, usize)>,
    /// The error for a key without a JSON form, with the depth of its map and the key.
    shape: Option<(usize, Key<'static>, Error)>,
    /// Whether such errors are ignored, because the document is only printed.
    quiet: bool,
}

impl<'a, S: Sink> Reader<'a, '_, S> {
    #[inline]
    fn event(&mut self, event: Event<'a>) -> Result<(), Error> {
        match event {
            Event::Scalar { value, style, props } => {
                self.anchor(props.anchor);
                if self.tape.recording || self.decoder.odd_key.is_some() {
                    self.kept(Entry::Scalar { value, style, line: props.line });
                } else if self.decoder.fault.is_none() {
                    self.decoder.scalar(value, style, props.line);
                }
            }
            Event::ListStart(props) => {
                self.anchor(props.anchor);
                self.open(true, props.line);
            }
            Event::MapStart(props) => {
                self.anchor(props.anchor);
                self.open(false, props.line);
            }
            Event::ListEnd | Event::MapEnd => {
                if self.tape.recording {
                    self.kept(Entry::Close);
                } else if self.decoder.fault.is_none() {
                    self.decoder.close();
                }
            }
            Event::Alias { name, line } => {
                let Some(&target) = self.anchors.get(&name) else {
                    return Err(Error::plain(line + 1, format!("unknown anchor '{name}' referenced")));
                };
                self.kept(Entry::Alias { target, name, line });
            }
            Event::DocumentStart | Event::DocumentEnd | Event::StreamEnd => {}
        }
        Ok(())
    }

    #[inline]
    fn anchor(&mut self, name: Option<Cow<'a, str>>) {
        if let Some(name) = name {
            self.tape.recording = true;
            self.anchors.insert(name, self.tape.entries.len());
        }
    }

    #[inline]
    fn open(&mut self, list: bool, line: u32) {
        let place = self.decoder.position();
        let odd =
            place == Position::Key || place == Position::Merge && list || self.decoder.odd_key.is_some();
        if odd || self.tape.recording {
            self.kept(Entry::Open { list, line, end: 0 });
        } else if self.decoder.fault.is_none() {
            self.decoder.open(list, line);
        }
    }

    /// Records a node, or decodes it if it need not be recorded.
    #[cold]
    fn kept(&mut self, entry: Entry<'a>) {
        // Nothing is decoded after an error; only the names of anchors still matter.
        if self.decoder.fault.is_some() {
            return;
        }
        if self.capture.is_none() {
            let place = self.decoder.position();
            let why = match &entry {
                Entry::Close => None,
                _ if place == Position::Value && self.decoder.odd_key.is_some() => {
                    self.decoder.odd_key.take().map(Capture::OddValue)
                }
                Entry::Open { .. } if place == Position::Key => Some(Capture::Key),
                Entry::Open { list: true, .. } if place == Position::Merge => Some(Capture::Merge),
                _ => None,
            };
            self.capture = why.map(|why| (why, self.tape.entries.len(), self.tape.open.len()));
        }
        let captured = self.capture.is_some();
        // Only an alias reaches this point without need to stay on the tape.
        let stays = captured || self.tape.recording;
        let at = self.tape.push(entry);
        if captured {
            self.tape.recording = true;
        } else {
            self.replay(at, at + 1);
        }
        if !stays {
            self.tape.entries.truncate(at);
        }
        if self.capture.as_ref().is_some_and(|(_, _, depth)| self.tape.open.len() == *depth)
            && let Some((why, at, _)) = self.capture.take()
        {
            self.captured(why, at);
        }
        if self.tape.open.is_empty() && self.capture.is_none() {
            self.tape.recording = false;
        }
    }

    /// Handles a captured node once it is complete.
    fn captured(&mut self, why: Capture, at: usize) {
        match why {
            Capture::Key => self.fail_key(at),
            Capture::Merge => {
                self.merge_items(at);
                self.run();
            }
            Capture::OddValue(key) => {
                self.fail_shape(key, at);
                self.decoder.value_line(self.tape.line(at));
                self.decoder.skip_value();
            }
        }
    }

    /// Fails because the collection at `at` is used as a key.
    fn fail_key(&mut self, at: usize) {
        let shown = self.show(at);
        let line = self.tape.line(at) + 1;
        self.decoder.fail(line, format!("invalid map key: {shown}"));
    }

    /// Records the error of a key that JSON does not support; `at` is its value.
    fn fail_shape(&mut self, key: Key<'static>, at: usize) {
        let depth = self.decoder.depth();
        // The error shows the last value of a key.
        if self.quiet || self.shape.as_ref().is_some_and(|(d, k, _)| *d != depth || *k != key) {
            return;
        }
        let value = self.show(at);
        let (kind, shown) = match &key {
            Key::Null => ("%!s(<nil>)", "<nil>".to_owned()),
            other => ("uint64", other.go_syntax()),
        };
        let error =
            Error::shape(format!("unsupported map key of type: {kind}, key: {shown}, value: {value}"));
        self.shape = Some((depth, key, error));
    }

    /// The node at `at` as Go's `%#v` prints it. A decoding error in it is an error of the document.
    fn show(&mut self, at: usize) -> String {
        let mut sink = GoSyntax::default();
        let mut inner = Reader {
            decoder: Decoder::new(&mut sink, false, self.decoder.room),
            tape: std::mem::take(&mut self.tape),
            anchors: HashMap::new(),
            cursors: Vec::new(),
            capture: None,
            shape: None,
            quiet: true,
        };
        inner.decoder.counts = self.decoder.counts;
        let end = inner.tape.end(at);
        inner.replay(at, end);
        self.decoder.counts = inner.decoder.counts;
        let fault = inner.decoder.fault.take();
        self.tape = inner.tape;
        if self.decoder.fault.is_none() {
            self.decoder.fault = fault;
        }
        sink.finish()
    }

    /// Queues the items of a merge list for replay, the last one first.
    fn merge_items(&mut self, at: usize) {
        let end = self.tape.end(at);
        let mut item = at + 1;
        let mut count = 0;
        while item + 1 < end {
            let next = self.tape.end(item);
            self.cursors.push(Cursor { at: item, end: next, alias: false });
            item = next;
            count += 1;
        }
        self.decoder.expect_merge_items(count);
    }

    /// Replays a range of the tape.
    fn replay(&mut self, at: usize, end: usize) {
        self.cursors.push(Cursor { at, end, alias: false });
        self.run();
    }

    /// Decodes all queued replays.
    fn run(&mut self) {
        while self.decoder.fault.is_none() {
            let Some(cursor) = self.cursors.last_mut() else { return };
            if cursor.at == cursor.end {
                self.decoder.alias_depth -= usize::from(cursor.alias);
                self.cursors.pop();
                continue;
            }
            let at = cursor.at;
            cursor.at += 1;
            let rest = cursor.at < cursor.end;
            let place = self.decoder.position();
            match self.tape.entries.get(at) {
                None => return,
                Some(Entry::Close) => self.decoder.close(),
                Some(Entry::Scalar { value, style, line }) => {
                    self.decoder.scalar(Cow::Borrowed(value), *style, *line);
                }
                Some(&Entry::Open { list, line, .. }) => match place {
                    Position::Key => self.fail_key(at),
                    Position::Merge if list => {
                        cursor.at = self.tape.end(at);
                        self.merge_items(at);
                    }
                    _ => self.decoder.open(list, line),
                },
                Some(Entry::Alias { .. }) => self.alias(at),
            }
            // The value of an unsupported key is next on the tape, unless it is not scanned yet.
            if rest && let Some(key) = self.decoder.odd_key.take() {
                self.fail_shape(key, at + 1);
            }
        }
    }

    fn alias(&mut self, at: usize) {
        let Some(Entry::Alias { target, name, line }) = self.tape.entries.get(at) else { return };
        let (target, line) = (*target, *line);
        let place = self.decoder.position();
        let scalar = match self.tape.entries.get(target) {
            Some(Entry::Scalar { value, style, line }) => Some((value, *style, *line)),
            Some(Entry::Open { list: true, .. })
                if matches!(place, Position::Merge | Position::MergeItem(_)) =>
            {
                return self.decoder.fail_merge(line);
            }
            // The target is still open, or is replayed as part of itself.
            Some(Entry::Open { end, .. }) if *end == 0 || (target + 1..*end).contains(&at) => {
                return self.decoder.fail(line + 1, format!("anchor '{name}' value contains itself"));
            }
            Some(Entry::Open { .. }) => None,
            _ => return,
        };
        match (place, scalar) {
            (Position::Merge | Position::MergeItem(_), Some(_)) => return self.decoder.fail_merge(line),
            (Position::Key, None) => return self.fail_key(target),
            _ => {}
        }
        self.decoder.count();
        self.decoder.value_line(line);
        self.decoder.alias_depth += 1;
        if let (Position::Key, Some((value, style, line))) = (place, scalar) {
            self.decoder.key(Cow::Borrowed(value), style, line);
            self.decoder.alias_depth -= 1;
        } else {
            let end = self.tape.end(target);
            self.cursors.push(Cursor { at: target, end, alias: true });
        }
    }
}

impl<'a> Tape<'a> {
    fn push(&mut self, entry: Entry<'a>) -> usize {
        let at = self.entries.len();
        let is_open = matches!(entry, Entry::Open { .. });
        let is_close = matches!(entry, Entry::Close);
        self.entries.push(entry);
        if is_open {
            self.open.push(at);
        } else if is_close
            && let Some(opened) = self.open.pop()
            && let Some(Entry::Open { end, .. }) = self.entries.get_mut(opened)
        {
            *end = at + 1;
        }
        at
    }

    /// The line of the node at `at`.
    fn line(&self, at: usize) -> u32 {
        match self.entries.get(at) {
            Some(Entry::Open { line, .. } | Entry::Scalar { line, .. } | Entry::Alias { line, .. }) => *line,
            _ => 0,
        }
    }

    /// The index after the node at `at`.
    fn end(&self, at: usize) -> usize {
        match self.entries.get(at) {
            Some(Entry::Open { end, .. }) => *end,
            _ => at + 1,
        }
    }
}
