//! From tokens to events: the YAML grammar, as go-yaml v2's parser implements it.
//!
//! Owns the parser states and the messages of parse errors. Knows neither the meaning of scalars nor the destination of values.

use std::borrow::Cow;

use super::error::Error;
use super::input::Input;
use super::scan::{Kind, Notes, Scanner};

/// A parser event.
#[derive(Debug)]
pub(super) enum Event<'a> {
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias { name: Cow<'a, str>, line: u32 },
    Scalar { value: Cow<'a, str>, style: Style, props: Props<'a> },
    ListStart(Props<'a>),
    ListEnd,
    MapStart(Props<'a>),
    MapEnd,
}

/// The properties of a node.
#[derive(Debug, Default)]
pub(super) struct Props<'a> {
    pub(super) anchor: Option<Cow<'a, str>>,
    /// The zero-based line of the node's start.
    pub(super) line: u32,
}

/// The parts of a scalar's style that decide its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) tag: Tag,
    /// Whether the scalar is plain without a tag, or has the tag `!`.
    pub(super) implicit: bool,
}

/// The tags that the decoder distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tag {
    None,
    Null,
    Bool,
    Str,
    Int,
    Float,
    Timestamp,
    Binary,
    Merge,
    /// Any other tag; it has no effect.
    Other,
}

impl Tag {
    fn of(text: &str) -> Self {
        match text.strip_prefix("tag:yaml.org,2002:") {
            Some("null") => Self::Null,
            Some("bool") => Self::Bool,
            Some("str") => Self::Str,
            Some("int") => Self::Int,
            Some("float") => Self::Float,
            Some("timestamp") => Self::Timestamp,
            Some("binary") => Self::Binary,
            Some("merge") => Self::Merge,
            _ => Self::Other,
        }
    }
}

/// The presentation of an event in the text, needed only to write it again.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) notes: Notes,
    /// The tag in its long form; empty if there is none.
    pub(super) tag: String,
    /// Whether a list or map is in flow style.
    pub(super) flow: bool,
    /// The first byte of a quoted or block scalar: its quote or block indicator.
    pub(super) first: u8,
}

/// The state of a parser that keeps presentation.
#[derive(Default)]
struct Looks {
    /// The comments of consumed tokens that no event has received yet.
    pending: Notes,
    /// The head comment of a list or map that is a list item; not the head of its first entry.
    stem: Option<String>,
    /// The presentation of the last event.
    event: Look,
    /// An error of a lookahead for comments; it takes precedence over later errors.
    failed: Option<Error>,
}

/// The parser's next expectation.
#[derive(Clone, Copy)]
enum State {
    StreamStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirst,
    BlockSequence,
    IndentlessSequence,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequence,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirst,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

/// The position of a node, which decides its possible kinds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Flow,
    Block,
    /// A block mapping's key or value, where a sequence can start without indentation.
    BlockOrIndentless,
}

/// The YAML parser.
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// The start lines of the open collections.
    lines: Vec<u32>,
    /// The `%TAG` directives: handle and prefix.
    handles: Vec<(String, String)>,
    /// The presentation of events, if it is kept.
    looks: Option<Box<Looks>>,
}

impl<'a> Parser<'a> {
    /// A parser at the start of the input.
    pub(super) fn new(input: &'a Input<'_>) -> Self {
        Self {
            scanner: Scanner::new(input),
            state: State::StreamStart,
            states: Vec::with_capacity(16),
            lines: Vec::with_capacity(16),
            handles: Vec::new(),
            looks: None,
        }
    }

    /// A parser that keeps comments, tags and styles, as go-yaml v3 does.
    pub(super) fn with_looks(input: &'a Input<'_>) -> Self {
        let plain = Self::new(input);
        Self { scanner: plain.scanner.keep_comments(), looks: Some(Box::default()), ..plain }
    }

    /// Attaches the pending comments to the event (`yaml_parser_set_event_comments`).
    #[inline]
    fn note(&mut self) {
        if let Some(looks) = &mut self.looks {
            looks.event.notes = std::mem::take(&mut looks.pending);
            looks.stem = None;
        }
    }

    /// Attaches the stem comment to the start event of a list or map.
    #[inline]
    fn note_stem(&mut self) {
        if let Some(looks) = &mut self.looks {
            looks.event.notes.head = looks.stem.take().unwrap_or_default();
        }
    }

    #[inline]
    fn note_flow(&mut self) {
        if let Some(looks) = &mut self.looks {
            looks.event.flow = true;
        }
        self.note();
    }

    /// The next event with its presentation, for a parser created by `with_looks`.
    pub(super) fn next_with_look(&mut self) -> Result<(Event<'a>, Look), Error> {
        let event = self.next()?;
        let Some(looks) = self.looks.as_mut() else { return Ok((event, Look::default())) };
        match looks.failed.take() {
            Some(error) => Err(error),
            None => Ok((event, std::mem::take(&mut looks.event))),
        }
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Result<Event<'a>, Error> {
        match self.state {
            State::StreamStart => {
                self.scanner.peek()?;
                self.scanner.skip_token();
                self.document_start(true)
            }
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(Place::Block),
            State::BlockSequenceFirst => {
                self.open()?;
                self.block_sequence()
            }
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::BlockMappingFirst => {
                self.open()?;
                self.block_mapping_key()
            }
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst => {
                self.open()?;
                self.flow_sequence(true)
            }
            State::FlowSequence => self.flow_sequence(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => {
                self.peek()?;
                self.state = State::FlowSequence;
                Ok(Event::MapEnd)
            }
            State::FlowMappingFirst => {
                self.open()?;
                self.flow_mapping_key(true)
            }
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let line = self.peek()?.1;
                self.empty(State::FlowMappingKey, line)
            }
            State::End => Ok(Event::StreamEnd),
        }
    }

    /// The kind of the next token, and its start line.
    #[inline]
    fn peek(&mut self) -> Result<(Kind, u32), Error> {
        let token = self.scanner.peek()?;
        let (kind, mark) = (token.kind, token.mark);
        if let Some(looks) = &mut self.looks {
            self.scanner.unfold(kind, mark.pos, &mut looks.pending);
        }
        Ok((kind, mark.line))
    }

    /// Skips the next token. Returns its end line.
    #[inline]
    fn step(&mut self) -> Result<u32, Error> {
        let line = self.scanner.peek()?.end_line;
        self.scanner.skip_token();
        Ok(line)
    }

    /// Skips the token that opens a collection.
    fn open(&mut self) -> Result<(), Error> {
        let (_, line) = self.peek()?;
        self.lines.push(line);
        self.scanner.skip_token();
        Ok(())
    }

    /// Skips the dash of an item. If the item is a list or map, a head comment before the dash belongs to the whole item
    /// (`yaml_parser_split_stem_comment`).
    fn step_item(&mut self) -> Result<u32, Error> {
        let stem = self.looks.as_ref().map_or(0, |looks| looks.pending.head.len());
        let end = self.step()?;
        if stem == 0 {
            return Ok(end);
        }
        // go-yaml continues after an error here, and reports the next error, if any.
        let next = self.peek();
        if let Some(looks) = &mut self.looks {
            match next {
                Ok((Kind::BlockSequenceStart | Kind::BlockMappingStart, _)) => {
                    let rest = looks.pending.head.get(stem + 1..).unwrap_or_default().to_owned();
                    looks.pending.head.truncate(stem);
                    looks.stem = Some(std::mem::replace(&mut looks.pending.head, rest));
                }
                Ok(_) => {}
                Err(e) => looks.failed = Some(e),
            }
        }
        Ok(end)
    }

    /// Skips the token that closes a collection.
    fn close(&mut self, event: Event<'a>) -> Event<'a> {
        self.lines.pop();
        self.scanner.skip_token();
        self.pop();
        event
    }

    fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    fn fail<T>(&self, line: u32, problem: &'static str) -> Result<T, Error> {
        Err(Error::parser(line, self.lines.last().copied().unwrap_or(0), problem))
    }

    /// Emits an empty scalar and sets the next state.
    #[allow(clippy::unnecessary_wraps)]
    fn empty(&mut self, state: State, line: u32) -> Result<Event<'a>, Error> {
        self.state = state;
        Ok(Event::Scalar {
            value: Cow::Borrowed(""),
            style: Style { tag: Tag::None, implicit: true },
            props: Props { anchor: None, line },
        })
    }

    /// Parses a node; the parser then continues in `state`.
    #[inline]
    fn node_then(&mut self, state: State, place: Place) -> Result<Event<'a>, Error> {
        self.states.push(state);
        self.node(place)
    }

    fn document_start(&mut self, implicit: bool) -> Result<Event<'a>, Error> {
        if !implicit {
            while self.peek()?.0 == Kind::DocumentEnd {
                self.scanner.skip_token();
            }
        }
        match self.peek()?.0 {
            Kind::StreamEnd => {
                self.scanner.skip_token();
                self.state = State::End;
                Ok(Event::StreamEnd)
            }
            Kind::VersionDirective | Kind::TagDirective | Kind::DocumentStart => self.explicit_document(),
            _ if implicit => {
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                if let Some(looks) = &mut self.looks {
                    looks.event.notes.head = take_head(&mut looks.pending.head);
                }
                Ok(Event::DocumentStart)
            }
            _ => self.explicit_document(),
        }
    }

    fn explicit_document(&mut self) -> Result<Event<'a>, Error> {
        self.directives()?;
        let (kind, line) = self.peek()?;
        if kind != Kind::DocumentStart {
            return Err(Error::parser(line, 0, "did not find expected <document start>"));
        }
        self.scanner.skip_token();
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        Ok(Event::DocumentStart)
    }

    fn directives(&mut self) -> Result<(), Error> {
        let mut versioned = false;
        loop {
            let (kind, line) = self.peek()?;
            match kind {
                Kind::VersionDirective if versioned => {
                    return Err(Error::parser(line, 0, "found duplicate %YAML directive"));
                }
                Kind::VersionDirective => {
                    versioned = true;
                    if self.scanner.peek()?.suffix.as_deref() != Some("1.1") {
                        return Err(Error::parser(line, 0, "found incompatible YAML document"));
                    }
                }
                Kind::TagDirective => {
                    let token = self.scanner.peek()?;
                    let handle = token.value.as_ref();
                    if self.handles.iter().any(|(known, _)| known == handle) {
                        return Err(Error::parser(line, 0, "found duplicate %TAG directive"));
                    }
                    let prefix = token.suffix.as_deref().unwrap_or_default();
                    self.handles.push((handle.to_owned(), prefix.to_owned()));
                }
                _ => return Ok(()),
            }
            self.scanner.skip_token();
        }
    }

    fn document_content(&mut self) -> Result<Event<'a>, Error> {
        let (kind, line) = self.peek()?;
        match kind {
            Kind::VersionDirective
            | Kind::TagDirective
            | Kind::DocumentStart
            | Kind::DocumentEnd
            | Kind::StreamEnd => {
                let state = self.states.pop().unwrap_or(State::End);
                self.empty(state, line)
            }
            _ => self.node(Place::Block),
        }
    }

    fn document_end(&mut self) -> Result<Event<'a>, Error> {
        if self.peek()?.0 == Kind::DocumentEnd {
            self.scanner.skip_token();
        }
        self.handles.clear();
        self.state = State::DocumentStart;
        self.note();
        if let Some(looks) = &mut self.looks
            && looks.event.notes.foot.is_empty()
        {
            looks.event.notes.foot = std::mem::take(&mut looks.event.notes.head);
        }
        Ok(Event::DocumentEnd)
    }

    fn node(&mut self, place: Place) -> Result<Event<'a>, Error> {
        let (mut kind, start) = self.peek()?;
        if kind == Kind::Alias {
            self.pop();
            self.note();
            let name = self.scanner.take().map(|token| token.value).unwrap_or_default();
            return Ok(Event::Alias { name, line: start });
        }
        let mut anchor = None;
        let mut tag = Tag::None;
        let mut nonspecific = false;
        if kind == Kind::Anchor {
            anchor = self.scanner.take().map(|token| token.value);
            kind = self.peek()?.0;
        }
        if kind == Kind::Tag {
            // go-yaml reports an undefined handle only after all properties are read.
            let read = self.tag(start);
            kind = self.peek()?.0;
            if kind == Kind::Anchor && anchor.is_none() {
                anchor = self.scanner.take().map(|token| token.value);
                kind = self.peek()?.0;
            }
            (tag, nonspecific) = read?;
        }
        let props = Props { anchor, line: start };
        match kind {
            Kind::BlockEntry if place == Place::BlockOrIndentless => {
                self.state = State::IndentlessSequence;
                Ok(Event::ListStart(props))
            }
            Kind::Plain | Kind::Quoted => {
                self.pop();
                self.note();
                if let Some(looks) = &mut self.looks
                    && kind == Kind::Quoted
                {
                    looks.event.first = self.scanner.first_byte();
                }
                let value = self.scanner.take().map(|token| token.value).unwrap_or_default();
                let implicit = nonspecific || tag == Tag::None && kind == Kind::Plain;
                Ok(Event::Scalar { value, style: Style { tag, implicit }, props })
            }
            Kind::FlowSequenceStart => {
                self.state = State::FlowSequenceFirst;
                self.note_flow();
                Ok(Event::ListStart(props))
            }
            Kind::FlowMappingStart => {
                self.state = State::FlowMappingFirst;
                self.note_flow();
                Ok(Event::MapStart(props))
            }
            Kind::BlockSequenceStart if place != Place::Flow => {
                self.state = State::BlockSequenceFirst;
                self.note_stem();
                Ok(Event::ListStart(props))
            }
            Kind::BlockMappingStart if place != Place::Flow => {
                self.state = State::BlockMappingFirst;
                self.note_stem();
                Ok(Event::MapStart(props))
            }
            _ if props.anchor.is_some() || tag != Tag::None => {
                self.pop();
                let style = Style { tag, implicit: tag == Tag::None };
                Ok(Event::Scalar { value: Cow::Borrowed(""), style, props })
            }
            _ => {
                let line = self.peek()?.1;
                Err(Error::parser(line, start, "did not find expected node content"))
            }
        }
    }

    /// Takes a tag token. Returns the tag, and whether it is the non-specific `!`.
    fn tag(&mut self, start: u32) -> Result<(Tag, bool), Error> {
        let Some(token) = self.scanner.take() else { return Ok((Tag::None, false)) };
        let suffix = token.suffix.as_deref().unwrap_or_default();
        let full = match token.value.as_ref() {
            "" => suffix.to_owned(),
            handle => {
                let own = self.handles.iter().find(|(known, _)| known == handle);
                let prefix = match (own, handle) {
                    (Some((_, prefix)), _) => prefix.as_str(),
                    (None, "!") => "!",
                    (None, "!!") => "tag:yaml.org,2002:",
                    (None, _) => "",
                };
                let known = !prefix.is_empty() || own.is_some() && !suffix.is_empty();
                if !known {
                    return Err(Error::parser(token.mark.line, start, "found undefined tag handle"));
                }
                format!("{prefix}{suffix}")
            }
        };
        let read = (Tag::of(&full), full == "!");
        if let Some(looks) = &mut self.looks {
            looks.event.tag = full;
        }
        Ok(read)
    }

    fn block_sequence(&mut self) -> Result<Event<'a>, Error> {
        let (kind, line) = self.peek()?;
        match kind {
            Kind::BlockEntry => {
                let end = self.step_item()?;
                match self.peek()?.0 {
                    Kind::BlockEntry | Kind::BlockEnd => self.empty(State::BlockSequence, end),
                    _ => self.node_then(State::BlockSequence, Place::Block),
                }
            }
            Kind::BlockEnd => Ok(self.close(Event::ListEnd)),
            _ => self.fail(line, "did not find expected '-' indicator"),
        }
    }

    fn indentless_sequence(&mut self) -> Result<Event<'a>, Error> {
        if self.peek()?.0 != Kind::BlockEntry {
            self.pop();
            return Ok(Event::ListEnd);
        }
        let end = self.step_item()?;
        match self.peek()?.0 {
            Kind::BlockEntry | Kind::Key | Kind::Value | Kind::BlockEnd => {
                self.empty(State::IndentlessSequence, end)
            }
            _ => self.node_then(State::IndentlessSequence, Place::Block),
        }
    }

    fn block_mapping_key(&mut self) -> Result<Event<'a>, Error> {
        let (kind, line) = self.peek()?;
        match kind {
            Kind::Key => {
                let end = self.step()?;
                match self.peek()?.0 {
                    Kind::Key | Kind::Value | Kind::BlockEnd => self.empty(State::BlockMappingValue, end),
                    _ => self.node_then(State::BlockMappingValue, Place::BlockOrIndentless),
                }
            }
            Kind::BlockEnd => {
                self.note();
                Ok(self.close(Event::MapEnd))
            }
            _ => self.fail(line, "did not find expected key"),
        }
    }

    fn block_mapping_value(&mut self) -> Result<Event<'a>, Error> {
        let (kind, line) = self.peek()?;
        if kind != Kind::Value {
            return self.empty(State::BlockMappingKey, line);
        }
        let end = self.step()?;
        match self.peek()?.0 {
            Kind::Key | Kind::Value | Kind::BlockEnd => self.empty(State::BlockMappingKey, end),
            _ => self.node_then(State::BlockMappingKey, Place::BlockOrIndentless),
        }
    }

    fn flow_sequence(&mut self, first: bool) -> Result<Event<'a>, Error> {
        let (mut kind, line) = self.peek()?;
        if kind != Kind::FlowSequenceEnd && !first {
            if kind != Kind::FlowEntry {
                return self.fail(line, "did not find expected ',' or ']'");
            }
            self.scanner.skip_token();
            kind = self.peek()?.0;
        }
        match kind {
            Kind::FlowSequenceEnd => {
                self.note();
                Ok(self.close(Event::ListEnd))
            }
            Kind::Key => {
                let (_, line) = self.peek()?;
                self.state = State::FlowPairKey;
                self.scanner.skip_token();
                if let Some(looks) = &mut self.looks {
                    looks.event.flow = true;
                }
                Ok(Event::MapStart(Props { anchor: None, line }))
            }
            _ => self.node_then(State::FlowSequence, Place::Flow),
        }
    }

    fn flow_pair_key(&mut self) -> Result<Event<'a>, Error> {
        match self.peek()?.0 {
            Kind::Value | Kind::FlowEntry | Kind::FlowSequenceEnd => {
                // As in go-yaml, the token is lost: the pair ends without a value.
                let line = self.step()?;
                self.empty(State::FlowPairValue, line)
            }
            _ => self.node_then(State::FlowPairValue, Place::Flow),
        }
    }

    fn flow_pair_value(&mut self) -> Result<Event<'a>, Error> {
        let (kind, line) = self.peek()?;
        if kind == Kind::Value {
            self.scanner.skip_token();
            if !matches!(self.peek()?.0, Kind::FlowEntry | Kind::FlowSequenceEnd) {
                return self.node_then(State::FlowPairEnd, Place::Flow);
            }
        }
        self.empty(State::FlowPairEnd, line)
    }

    fn flow_mapping_key(&mut self, first: bool) -> Result<Event<'a>, Error> {
        let (mut kind, line) = self.peek()?;
        if kind != Kind::FlowMappingEnd && !first {
            if kind != Kind::FlowEntry {
                return self.fail(line, "did not find expected ',' or '}'");
            }
            self.scanner.skip_token();
            kind = self.peek()?.0;
        }
        match kind {
            Kind::FlowMappingEnd => {
                self.note();
                Ok(self.close(Event::MapEnd))
            }
            Kind::Key => {
                self.scanner.skip_token();
                let (kind, line) = self.peek()?;
                match kind {
                    Kind::Value | Kind::FlowEntry | Kind::FlowMappingEnd => {
                        self.empty(State::FlowMappingValue, line)
                    }
                    _ => self.node_then(State::FlowMappingValue, Place::Flow),
                }
            }
            _ => self.node_then(State::FlowMappingEmptyValue, Place::Flow),
        }
    }

    fn flow_mapping_value(&mut self) -> Result<Event<'a>, Error> {
        let (kind, mut line) = self.peek()?;
        if kind == Kind::Value {
            self.scanner.skip_token();
            let (kind, next) = self.peek()?;
            if !matches!(kind, Kind::FlowEntry | Kind::FlowMappingEnd) {
                return self.node_then(State::FlowMappingKey, Place::Flow);
            }
            line = next;
        }
        self.empty(State::FlowMappingKey, line)
    }
}

/// Removes the comments above the last empty line from a head: they belong to the document (`yaml_parser_parse_document_start`).
fn take_head(head: &mut String) -> String {
    let bytes = head.as_bytes();
    let border = (1..bytes.len()).rev().find(|&i| {
        bytes.get(i) == Some(&b'\n') && (i + 1 == bytes.len() || bytes.get(i - 1) == Some(&b'\n'))
    });
    let Some(border) = border else { return String::new() };
    let rest = head.get(border + 1..).unwrap_or_default().to_owned();
    let own = if border + 1 == head.len() { border } else { border - 1 };
    head.truncate(own);
    std::mem::replace(head, rest)
}
