//! Manifests as addon-operator's post-renderer writes them, for the checksum that it knows a release by.
//!
//! Its `PostRenderer.Run` reads each manifest into nodes (kyaml), sets labels and writes the nodes: texts keep their order,
//! quotes and spellings, but indentation, blank lines and the form of the labels are the writer's. Owns that form for what
//! templates write commonly: block maps and lists, scalars on one line, literal blocks. What is written otherwise (comments
//! within, folded texts, anchors, flow collections with something in them) has no form here, and that is said.

use std::collections::BTreeMap;

use serde_json::Value;

/// Indentation of what stands below a key.
const STEP: usize = 2;

/// One manifest: where it came from, its text, and what the text says.
pub(super) struct Source<'a> {
    /// The template's path.
    pub(super) source: &'a str,
    /// As the template wrote it.
    pub(super) text: &'a str,
    /// Null if it says nothing.
    pub(super) object: &'a Value,
}

/// All manifests of a release with labels on every object, in the peer's form; `None` if one has no form here.
#[must_use]
pub(super) fn labelled(manifests: &[Source<'_>], labels: &BTreeMap<String, String>) -> Option<String> {
    let mut out = Vec::new();
    for manifest in manifests {
        if manifest.object.is_null() {
            return None;
        }
        let own = &manifest.object["metadata"]["labels"];
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for (name, value) in own.as_object().into_iter().flatten() {
            all.insert(name.clone(), value.as_str()?.to_owned());
        }
        all.extend(labels.iter().map(|(name, value)| (name.clone(), value.clone())));
        out.push(format!("# Source: {}\n{}", manifest.source, document(manifest.text, &all)?));
    }
    Some(out.join("---\n"))
}

/// What a level of a document is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Map,
    List,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    kind: Kind,
    /// The column that it stands in, and the one that it is written in.
    column: usize,
    written: usize,
}

/// Writes one document.
struct Writer<'l> {
    labels: &'l BTreeMap<String, String>,
    levels: Vec<Level>,
    /// Keys on the way to the current entry, one for each level that is a map.
    keys: Vec<String>,
    out: String,
    /// The labels are written.
    labelled: bool,
    /// What stands below the labels that were there is left out: the column of their key.
    skipped: Option<usize>,
}

fn document(text: &str, labels: &BTreeMap<String, String>) -> Option<String> {
    let mut writer = Writer {
        labels,
        levels: Vec::new(),
        keys: Vec::new(),
        out: String::new(),
        labelled: false,
        skipped: None,
    };
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let content = line.trim_start_matches(' ');
        if content.trim_end().is_empty() {
            continue;
        }
        if content.starts_with(['#', '\t', '%', '?', '&', '*', '!', '"', '\'', '{', '[', '|', '>'])
            || content.starts_with("---")
        {
            return None;
        }
        let column = line.len() - content.len();
        let block = writer.line(column, content.trim_end())?;
        let Some(block) = block else { continue };
        let mut body = Vec::new();
        while let Some(next) = lines.peek() {
            let indent = next.len() - next.trim_start_matches(' ').len();
            if !next.trim().is_empty() && indent <= block.column {
                break;
            }
            body.extend(lines.next());
        }
        writer.block(&block, &body)?;
    }
    writer.leave();
    writer.labelled.then_some(writer.out)
}

/// A literal block that begins.
struct Block {
    /// The column of what it belongs to, and how deep its lines are written.
    column: usize,
    written: usize,
}

impl Writer<'_> {
    /// Writes a line that is no part of a block; gives the block that begins with it.
    fn line(&mut self, column: usize, content: &str) -> Option<Option<Block>> {
        let (mut column, mut content) = (column, content);
        let mut prefix = String::new();
        while let Some(rest) = content.strip_prefix('-').filter(|r| r.is_empty() || r.starts_with(' ')) {
            let written = self.enter(Kind::List, column)?;
            self.start(&mut prefix, written);
            prefix.push_str("- ");
            let rest_trimmed = rest.trim_start_matches(' ');
            column += content.len() - rest_trimmed.len();
            content = rest_trimmed;
            if content.is_empty() {
                // An entry that goes on in the next line.
                return None;
            }
        }
        match entry(content) {
            Some((key, value)) => {
                let written = self.enter(Kind::Map, column)?;
                self.start(&mut prefix, written);
                self.keys.push(key.to_owned());
                if self.keys == ["metadata", "labels"] {
                    return self.own_labels(column, written, value).map(|()| None);
                }
                if self.skipped.is_some() {
                    return Some(None);
                }
                self.value(&format!("{prefix}{key}:"), value, column, written)
            }
            // Text that stands alone belongs to a list.
            None if prefix.is_empty() => None,
            None if self.skipped.is_some() => Some(None),
            None => {
                let level = self.levels.last()?;
                let (column, written) = (level.column, level.written);
                self.value(prefix.trim_end(), content, column, written)
            }
        }
    }

    /// Puts the indentation before the first part of a line.
    fn start(&self, prefix: &mut String, written: usize) {
        if prefix.is_empty() {
            prefix.push_str(&" ".repeat(written));
        }
    }

    /// Goes to the level of a column; gives where it is written. What lies deeper has ended.
    fn enter(&mut self, kind: Kind, column: usize) -> Option<usize> {
        self.leave_below(column, kind);
        let found = self.levels.last().copied();
        match found {
            Some(level) if level.column == column && level.kind == kind => {
                if kind == Kind::Map {
                    self.keys.pop();
                }
                Some(level.written)
            }
            // A list in the column of its key.
            Some(level) if level.column == column && kind == Kind::List && level.kind == Kind::Map => {
                Some(self.push(kind, column, level.written))
            }
            Some(level) if level.column < column => {
                let compact = kind == Kind::List && level.kind == Kind::Map;
                Some(self.push(kind, column, if compact { level.written } else { level.written + STEP }))
            }
            None if column == 0 && kind == Kind::Map => Some(self.push(kind, 0, 0)),
            _ => None,
        }
    }

    fn push(&mut self, kind: Kind, column: usize, written: usize) -> usize {
        self.levels.push(Level { kind, column, written });
        written
    }

    /// Ends levels that a line of this column and kind lies outside of.
    fn leave_below(&mut self, column: usize, kind: Kind) {
        while let Some(level) = self.levels.last() {
            let inside =
                level.column < column || level.column == column && (level.kind == kind || kind == Kind::List);
            if inside {
                break;
            }
            self.pop();
        }
        if self.skipped.is_some_and(|labels| column <= labels) {
            self.skipped = None;
        }
    }

    fn pop(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        if level.kind == Kind::Map {
            self.keys.pop();
            // The map of metadata ends without labels: they come last in it.
            if self.keys == ["metadata"] && self.levels.len() == 1 && !self.labelled {
                self.write_labels(level.written);
            }
        }
    }

    /// Ends the document.
    fn leave(&mut self) {
        while !self.levels.is_empty() {
            self.pop();
        }
    }

    /// The labels that are there make room for all of them.
    fn own_labels(&mut self, column: usize, written: usize, value: &str) -> Option<()> {
        if self.labelled || !["", "{}"].contains(&value) {
            return None;
        }
        self.write_labels(written);
        self.skipped = Some(column);
        Some(())
    }

    fn write_labels(&mut self, written: usize) {
        let indent = " ".repeat(written);
        self.out.push_str(&format!("{indent}labels:\n"));
        for (name, value) in self.labels {
            let value = if is_plain_text(value) { value.clone() } else { format!("{value:?}") };
            self.out.push_str(&format!("{indent}{}{name}: {value}\n", " ".repeat(STEP)));
        }
        self.labelled = true;
    }

    /// Writes a key or dash with its value on one line.
    fn value(&mut self, start: &str, value: &str, column: usize, written: usize) -> Option<Option<Block>> {
        if value.is_empty() {
            self.out.push_str(&format!("{start}\n"));
            return Some(None);
        }
        if ["|", "|-"].contains(&value) {
            self.out.push_str(&format!("{start} {value}\n"));
            return Some(Some(Block { column, written: written + STEP }));
        }
        if !is_simple(value) {
            return None;
        }
        self.out.push_str(&format!("{start} {value}\n"));
        Some(None)
    }

    /// Writes the lines of a literal block.
    fn block(&mut self, block: &Block, body: &[&str]) -> Option<()> {
        let blank = |line: &&&str| line.trim().is_empty();
        let first = body.iter().find(|l| !blank(l))?;
        let indent = first.len() - first.trim_start_matches(' ').len();
        // Before the first text blank lines are part of it, and a block that begins with spaces says how deep it is.
        if blank(&body.first()?) {
            return None;
        }
        let last = body.iter().rposition(|l| !blank(&l))?;
        for line in body.get(..=last)? {
            if line.trim().is_empty() {
                // Spaces on it would be part of the text.
                if line.len() > indent {
                    return None;
                }
                self.out.push('\n');
                continue;
            }
            let text = line.get(indent..)?;
            if line.get(..indent)?.trim() != "" || text.ends_with([' ', '\t']) {
                return None;
            }
            self.out.push_str(&format!("{}{text}\n", " ".repeat(block.written)));
        }
        Some(())
    }
}

/// Key and value of an entry of a map; the value is empty if it follows below.
fn entry(content: &str) -> Option<(&str, &str)> {
    let ends = |at: &usize| matches!(content.as_bytes().get(at + 1), None | Some(b' '));
    let colon = content.match_indices(':').map(|m| m.0).find(ends)?;
    let (key, value) = (content.get(..colon)?, content.get(colon + 1..)?.trim());
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    (!key.is_empty() && !key.starts_with('-') && key.chars().all(plain)).then_some((key, value))
}

/// Whether a value is written as it stands: one scalar, or an empty collection.
fn is_simple(value: &str) -> bool {
    if ["{}", "[]"].contains(&value) {
        return true;
    }
    if value.chars().any(|c| c.is_control() || !c.is_ascii())
        || value.contains(" #")
        || value.contains(": ") && !value.starts_with(['"', '\''])
    {
        return false;
    }
    match value.chars().next() {
        // What is escaped may be escaped otherwise.
        Some('"') => {
            value.len() > 1 && value.ends_with('"') && !value[1..value.len() - 1].contains(['"', '\\'])
        }
        Some('\'') => {
            let inner = value.get(1..value.len().saturating_sub(1)).unwrap_or_default();
            value.len() > 1 && value.ends_with('\'') && !inner.replace("''", "").contains('\'')
        }
        Some('{' | '[' | '&' | '*' | '!' | '|' | '>' | '%' | '@' | '`' | '#') | None => false,
        Some(_) => !value.ends_with(':'),
    }
}

/// Whether a text is written without quotes: it says nothing else so.
fn is_plain_text(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let number = value.parse::<f64>().is_ok()
        || value.starts_with(['.', '-', '+'])
        || value.starts_with("0x")
        || value.starts_with("0o")
        || value.starts_with("0b");
    let digits = value.chars().all(|c| c.is_ascii_digit() || "_-.eE".contains(c))
        && !value.matches('.').count().gt(&1);
    let word =
        ["", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE"].contains(&value);
    let old_word = ["y", "n", "yes", "no", "on", "off"].contains(&value.to_lowercase().as_str());
    value.chars().all(plain) && !number && !digits && !word && !old_word
}

#[cfg(test)]
mod tests;
