//! The tokens that the scanner passes to the parser.

use std::borrow::Cow;

/// A position in the text.
#[derive(Clone, Copy, Default)]
pub(in crate::yaml) struct Mark {
    /// The byte offset.
    pub(in crate::yaml) pos: usize,
    /// The zero-based line.
    pub(in crate::yaml) line: u32,
    /// The zero-based column, in characters.
    pub(in crate::yaml) column: i32,
}

/// The kind of a token.
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
    /// An unquoted scalar.
    Plain,
    /// A quoted scalar, or a block scalar.
    Quoted,
}

/// One token.
pub(in crate::yaml) struct Token<'a> {
    pub(in crate::yaml) kind: Kind,
    /// Its start.
    pub(in crate::yaml) mark: Mark,
    /// The line of its end.
    pub(in crate::yaml) end_line: u32,
    /// A scalar's text, an anchor's name, or the handle of a tag or a `%TAG` directive.
    pub(in crate::yaml) value: Cow<'a, str>,
    /// A tag's suffix, the prefix of a `%TAG` directive, or the version of a `%YAML` directive.
    pub(in crate::yaml) suffix: Option<Box<str>>,
}

impl Token<'_> {
    /// A token without a value.
    pub(super) fn new(kind: Kind, mark: Mark) -> Self {
        Self { kind, mark, end_line: mark.line, value: Cow::Borrowed(""), suffix: None }
    }
}
