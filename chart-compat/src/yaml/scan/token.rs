//! What the scanner hands to the parser.

use std::borrow::Cow;

/// A place in the text.
#[derive(Clone, Copy, Default)]
pub(in crate::yaml) struct Mark {
    /// The byte.
    pub(in crate::yaml) pos: usize,
    /// The line, from 0.
    pub(in crate::yaml) line: u32,
    /// The column, from 0, in characters.
    pub(in crate::yaml) column: i32,
}

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::yaml) enum Kind {
    StreamStart,
    StreamEnd,
    VersionDirective,
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    /// A scalar without quotes.
    Plain,
    /// A scalar with quotes, or a block scalar.
    Quoted,
}

/// One token.
pub(in crate::yaml) struct Token<'a> {
    pub(in crate::yaml) kind: Kind,
    /// Where it starts.
    pub(in crate::yaml) mark: Mark,
    /// The line on which it ends.
    pub(in crate::yaml) end_line: u32,
    /// A scalar's text, an anchor's name, a tag's or `%TAG` directive's handle.
    pub(in crate::yaml) value: Cow<'a, str>,
    /// A tag's suffix, a `%TAG` directive's prefix, a `%YAML` directive's version.
    pub(in crate::yaml) suffix: Option<Box<str>>,
}

impl Token<'_> {
    /// A token that is nothing but its kind.
    pub(super) fn new(kind: Kind, mark: Mark) -> Self {
        Self { kind, mark, end_line: mark.line, value: Cow::Borrowed(""), suffix: None }
    }
}
