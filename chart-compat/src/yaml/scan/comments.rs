//! Comments as go-yaml v3's scanner collects them: head, line and foot comments of a node.
//!
//! Owns the assignment of a comment before its node is known; the parser attaches comments to events. Only a scanner created with
//! `keep_comments` collects comments; others skip them.
//!
//! A comment belongs to the first token that starts at or after `token`. Columns of head and foot comments count from 1.

use super::{Kind, Mark, Scanner};
use crate::yaml::error::Error;

/// How many bytes of blanks and empty lines go-yaml looks ahead for a comment.
const AHEAD: usize = 512;

/// A comment of one or more lines.
#[derive(Default)]
struct Comment {
    /// The start of the white space before it.
    scan: Mark,
    /// It belongs to the first token that starts here or later.
    token: Mark,
    start: Mark,
    end: Mark,
    head: String,
    line: String,
    foot: String,
}

/// The comments of a text, in order.
#[derive(Default)]
pub(super) struct Comments {
    all: Vec<Comment>,
    /// The number of comments already attached to a token.
    taken: usize,
}

/// The comments of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::yaml) struct Notes {
    pub(in crate::yaml) head: String,
    pub(in crate::yaml) line: String,
    pub(in crate::yaml) foot: String,
}

impl Notes {
    fn add(to: &mut String, more: &str) {
        if more.is_empty() {
            return;
        }
        if !to.is_empty() {
            to.push('\n');
        }
        to.push_str(more);
    }
}

impl<'a> Scanner<'a> {
    /// Returns the comments of the next token (`yaml_parser_unfold_comments`).
    pub(in crate::yaml) fn unfold(&mut self, kind: Kind, at: usize, notes: &mut Notes) {
        let Some(comments) = &mut self.comments else { return };
        while let Some(comment) = comments.all.get_mut(comments.taken)
            && at >= comment.token.pos
            // The end of a block has no head comment: it belongs to the next token.
            && (comment.head.is_empty() || kind != Kind::BlockEnd)
        {
            Notes::add(&mut notes.head, &comment.head);
            Notes::add(&mut notes.foot, &comment.foot);
            Notes::add(&mut notes.line, &comment.line);
            *comment = Comment::default();
            comments.taken += 1;
        }
    }

    fn keep(&mut self, comment: Comment) {
        if let Some(comments) = &mut self.comments {
            comments.all.push(comment);
        }
    }

    /// The number of line breaks directly before the scanner, ignoring blanks.
    fn breaks_before(&self) -> usize {
        let before = self.bytes.get(..self.pos).unwrap_or_default();
        before.iter().rev().take_while(|b| matches!(b, b' ' | b'\t' | b'\n')).filter(|b| **b == b'\n').count()
    }

    /// Collects the comment in the rest of this line, if there is nothing else (`yaml_parser_scan_line_comment`).
    pub(super) fn scan_line_comment(&mut self, token: Mark) -> Result<(), Error> {
        if self.comments.is_none() || self.breaks_before() > 0 {
            return Ok(());
        }
        let blanks = (0..AHEAD).take_while(|&i| matches!(self.byte(i), b' ' | b'\t')).count();
        if blanks == AHEAD || self.byte(blanks) != b'#' {
            return Ok(());
        }
        self.pos += blanks;
        let start = self.mark();
        let line = self.comment_text();
        self.keep(Comment { token, start, line, ..Comment::default() });
        self.need(1)
    }

    /// Skips the rest of the line and returns it.
    fn comment_text(&mut self) -> String {
        let from = self.pos;
        self.skip_comment();
        self.text.get(from..self.pos).unwrap_or_default().to_owned()
    }

    /// A line comment after the first `-` of a sequence becomes the head comment of the item.
    pub(super) fn raise_line_comment(&mut self) {
        let mark = self.mark();
        let mut last = self.tokens.iter().rev().map(|t| t.kind);
        let (b, a) = (last.next(), last.next());
        if a != Some(Kind::BlockSequenceStart) || b != Some(Kind::BlockEntry) || self.at_break(0) > 0 {
            return;
        }
        let Some(comment) = self.comments.as_mut().and_then(|c| c.all.last_mut()) else { return };
        if !comment.line.is_empty() {
            comment.head = std::mem::take(&mut comment.line);
            if comment.start.line + 1 == mark.line {
                comment.token = mark;
            }
        }
    }

    /// Collects the comments up to the next token: foot comments of the previous node and the head comment of the next
    /// (`yaml_parser_scan_comments`).
    pub(super) fn scan_comments(&mut self, mut scan: Mark) -> Result<(), Error> {
        let mut tokens = self.tokens.iter().rev();
        let last = tokens.next().map_or((Kind::StreamStart, Mark::default()), |t| (t.kind, t.mark));
        let (kind, mut token) = match (last.0, tokens.next()) {
            (Kind::FlowEntry, Some(before)) => (before.kind, before.mark),
            _ => last,
        };
        let breaks = self.breaks_before();
        let next_indent = self.indent.max(0);
        let mut first_empty = breaks <= 1;
        let mut recent_empty = false;
        // The last line on which a comment is a foot comment of the node above it.
        let foot_line = (scan.line > 0).then(|| {
            let above = (self.line as usize + 1).saturating_sub(breaks);
            above + usize::from(breaks == 0 && self.column() > 1)
        });
        let (mut line, mut column) = (self.line, self.column());
        let mut start = Mark::default();
        let mut text = String::new();
        let mut ahead = 0;
        while ahead < AHEAD {
            column += 1;
            let byte = self.byte(ahead);
            if matches!(byte, b' ' | b'\t') {
                ahead += 1;
                continue;
            }
            let here = Mark { pos: self.pos + ahead, line, column };
            let closes = self.flow_level > 0 && matches!(byte, b']' | b'}');
            let width = self.at_break(ahead);
            let dedented = start.column - 1 < next_indent;
            if closes || byte == 0 || width > 0 {
                if closes || !recent_empty {
                    let below = Some(start.line as usize) == foot_line && kind != Kind::Value;
                    if closes || first_empty && (below || dedented) {
                        if !text.is_empty() {
                            // A comment with less indentation does not belong to the previous token.
                            let about = if dedented { start } else { token };
                            self.keep_foot(scan, about, start, here, &mut text);
                            (scan, token) = (here, here);
                        }
                    } else if !text.is_empty() && byte != 0 {
                        text.push('\n');
                    }
                }
                if width == 0 {
                    break;
                }
                (first_empty, recent_empty) = (false, true);
                column = 0;
                line += 1;
                ahead += 1;
                continue;
            }
            if !text.is_empty() && column - 1 < next_indent && column != start.column {
                self.keep_foot(scan, token, start, here, &mut text);
                (scan, token) = (here, here);
            }
            if byte != b'#' {
                break;
            }
            if text.is_empty() {
                start = here;
            } else {
                text.push('\n');
            }
            recent_empty = false;
            while self.pos < here.pos {
                if self.at_break(0) > 0 {
                    self.skip_break();
                } else {
                    self.pos += 1;
                }
            }
            text.push_str(&self.comment_text());
            self.need(1)?;
            // The line break of this line does not make an empty line.
            ahead = 1;
            column = 0;
            line = self.line;
        }
        if !text.is_empty() {
            let end = Mark { pos: (self.pos + ahead).saturating_sub(1), line, column };
            self.keep(Comment { scan, token: start, start, end, head: text, ..Comment::default() });
        }
        Ok(())
    }

    fn keep_foot(&mut self, scan: Mark, token: Mark, start: Mark, end: Mark, text: &mut String) {
        self.keep(Comment { scan, token, start, end, foot: std::mem::take(text), ..Comment::default() });
    }

    /// The position of a block's end: before the comments with the block's indentation, which are foot comments inside it.
    pub(super) fn block_end(&self, mut mark: Mark) -> Mark {
        let Some(comments) = &self.comments else { return mark };
        let mut stop = mark.pos;
        for comment in comments.all.iter().rev() {
            if comment.end.pos < stop {
                break;
            }
            if comment.start.column == self.indent + 1 {
                mark = comment.start;
            }
            stop = comment.scan.pos;
        }
        mark
    }
}
