//! From trees to text, as go-yaml v3's encoder lays them out for kyaml.
//!
//! Owns indentation, indicators, and the place of every comment and line break; how a scalar looks is decided in
//! `scalar`. What `emitterc.go` does in states between events is done here on the way through the tree: a node starts,
//! the comments in its line follow, and only then what it holds.

use super::{Kind, Node, Style};

/// How long a key without `?` may be, in bytes.
const MAX_KEY: usize = 128;

/// Writes documents one after the other.
pub struct Writer {
    pub(super) out: String,
    documents: usize,
    pub(super) indent: i32,
    pub(super) column: i32,
    pub(super) whitespace: bool,
    /// Whether the line holds nothing but indentation and indicators that count as such.
    pub(super) indention: bool,
    /// The indentation of a foot that was just written: an empty line goes before what follows it there.
    foot_indent: i32,
    pub(super) flow_level: usize,
    waiting: Waiting,
}

/// Comments that are yet to be written.
#[derive(Default)]
struct Waiting {
    head: String,
    line: String,
    foot: String,
    /// The foot of a key, which comes when all of its value is written.
    tail: String,
    /// That in the line of a key, which goes behind its value.
    key_line: String,
}

/// What a node is in the collection around it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The root of a document, or an item of a list in brackets.
    Other,
    /// An item of a list of dashes.
    Item,
    /// A key that is followed by `:` on its line.
    SimpleKey,
    /// A key after `?`, or a value.
    Entry,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// A writer at the start of a text.
    #[must_use]
    pub fn new() -> Self {
        Self {
            out: String::new(),
            documents: 0,
            indent: -1,
            column: 0,
            whitespace: true,
            indention: true,
            foot_indent: -1,
            flow_level: 0,
            waiting: Waiting::default(),
        }
    }

    /// What was written.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }

    /// Writes a document, or a node as one; all but the first begin with `---`.
    pub fn document(&mut self, node: &Node) {
        let (root, head, foot) = match node.kind {
            Kind::Document => (node.content.first(), node.head.as_str(), node.foot.as_str()),
            _ => (Some(node), "", ""),
        };
        let Some(root) = root else { return };
        wait(&mut self.waiting.head, head);
        if self.documents > 0 {
            self.write_indent();
            self.indicator("---", true, false, false);
            self.write_indent();
        }
        self.documents += 1;
        if !self.waiting.head.is_empty() {
            self.write_head();
            self.put_break();
        }
        self.load(root, "", true);
        self.write_head();
        self.node(root, Role::Other);
        wait(&mut self.waiting.foot, foot);
        // The foot of a document stands apart.
        self.foot_indent = 0;
        self.write_foot();
        self.foot_indent = -1;
        self.write_indent();
    }

    /// The comments with which a node starts wait to be written (`yaml_emitter_analyze_event`).
    fn load(&mut self, node: &Node, tail: &str, foot: bool) {
        wait(&mut self.waiting.head, &node.head);
        // Those of a list or map come with its end.
        if matches!(node.kind, Kind::Scalar | Kind::Alias) {
            wait(&mut self.waiting.line, &node.line);
            if foot {
                wait(&mut self.waiting.foot, &node.foot);
            }
        }
        if matches!(node.kind, Kind::Scalar | Kind::Map) {
            wait(&mut self.waiting.tail, tail);
        }
    }

    fn load_end(&mut self, node: &Node, tail: &str) {
        wait(&mut self.waiting.line, &node.line);
        wait(&mut self.waiting.foot, &node.foot);
        wait(&mut self.waiting.tail, tail);
    }

    /// Whether a comment waits that ends the line of an entry in brackets.
    fn trails(&self) -> bool {
        let Waiting { line, foot, tail, .. } = &self.waiting;
        !line.is_empty() || !foot.is_empty() || !tail.is_empty()
    }

    /// Writes a node, and the comments in its line and at its foot.
    fn node(&mut self, node: &Node, role: Role) {
        self.start(node, role);
        self.write_line(false);
        self.write_foot();
        self.body(node, role);
    }

    /// An entry in brackets: comments behind it push its comma before them. Tells whether that was so.
    fn flow_node(&mut self, node: &Node, role: Role) -> bool {
        let trails = self.trails();
        self.start(node, role);
        if self.trails() {
            self.indicator(",", false, false, false);
        }
        self.write_line(false);
        self.write_foot();
        self.body(node, role);
        trails
    }

    /// Writes a scalar or an alias, or what stands before a list or map.
    fn start(&mut self, node: &Node, role: Role) {
        if node.kind == Kind::Alias {
            self.indicator("*", true, false, false);
            self.word(&node.value);
            return;
        }
        if !node.anchor.is_empty() {
            self.indicator("&", true, false, false);
            self.word(&node.anchor);
        }
        if let Some(tag) = tag(node) {
            self.write_tag(&tag);
        }
        if node.kind == Kind::Scalar {
            let outer = self.deeper(true, role == Role::Item, false);
            self.scalar(node, role);
            self.indent = outer;
        }
    }

    /// Writes what a list or map holds.
    fn body(&mut self, node: &Node, role: Role) {
        let flow = self.flow_level > 0 || node.flow || node.content.is_empty();
        match (node.kind, flow) {
            (Kind::List, true) => self.flow_list(node, role),
            (Kind::List, false) => self.list(node, role),
            (Kind::Map, true) => self.flow_map(node, role),
            (Kind::Map, false) => self.map(node, role),
            _ => {}
        }
    }

    fn list(&mut self, node: &Node, role: Role) {
        let value = matches!(role, Role::SimpleKey | Role::Entry);
        let compact = value && (self.column == 0 || !self.indention);
        let outer = self.deeper(false, role == Role::Item, compact);
        for item in &node.content {
            self.load(item, "", true);
            self.write_head();
            self.write_indent();
            self.indicator("-", true, false, true);
            self.node(item, Role::Item);
        }
        self.load_end(node, "");
        self.indent = outer;
    }

    fn map(&mut self, node: &Node, role: Role) {
        let outer = self.deeper(false, role == Role::Item, false);
        let mut tail = "";
        for pair in node.content.chunks_exact(2) {
            let [key, value] = pair else { continue };
            self.load(key, tail, false);
            tail = &key.foot;
            self.write_head();
            self.write_indent();
            if !self.waiting.line.is_empty() {
                self.waiting.key_line = std::mem::take(&mut self.waiting.line);
            }
            let simple = is_simple_key(key);
            self.key(key, simple, true);
            self.load(value, "", true);
            if simple {
                self.indicator(":", false, false, false);
            } else {
                self.write_indent();
                self.indicator(":", true, false, true);
            }
            self.place_key_line(value);
            self.node(value, Role::Entry);
        }
        self.load_end(node, tail);
        self.write_head();
        self.indent = outer;
    }

    /// Writes a key, after `?` if it is none that fits before a colon.
    fn key(&mut self, key: &Node, simple: bool, block: bool) {
        let role = if simple { Role::SimpleKey } else { Role::Entry };
        if !simple {
            self.indicator("?", true, false, block);
        }
        self.start(key, role);
        self.body(key, role);
    }

    /// The comment in a key's line goes behind its value, or before the block that follows.
    fn place_key_line(&mut self, value: &Node) {
        if self.waiting.key_line.is_empty() {
            return;
        }
        match value.kind {
            Kind::Scalar if self.waiting.line.is_empty() => {
                self.waiting.line = std::mem::take(&mut self.waiting.key_line);
            }
            Kind::List | Kind::Map if !value.flow => {
                std::mem::swap(&mut self.waiting.line, &mut self.waiting.key_line);
                self.write_line(false);
                std::mem::swap(&mut self.waiting.line, &mut self.waiting.key_line);
            }
            _ => {}
        }
    }

    fn flow_list(&mut self, node: &Node, role: Role) {
        self.indicator("[", true, true, false);
        let outer = self.deeper(true, role == Role::Item, false);
        self.flow_level += 1;
        let mut comma = false;
        for item in &node.content {
            self.load(item, "", true);
            self.flow_entry(comma);
            comma = !self.flow_node(item, Role::Other);
        }
        self.load_end(node, "");
        self.flow_level -= 1;
        self.indent = outer;
        if self.column == 0 {
            self.write_indent();
        }
        self.indicator("]", false, false, false);
        self.write_line(false);
        self.write_foot();
    }

    fn flow_map(&mut self, node: &Node, role: Role) {
        self.indicator("{", true, true, false);
        let outer = self.deeper(true, role == Role::Item, false);
        self.flow_level += 1;
        let mut comma = false;
        let mut tail = "";
        for pair in node.content.chunks_exact(2) {
            let [key, value] = pair else { continue };
            self.load(key, tail, false);
            tail = &key.foot;
            self.flow_entry(comma);
            let simple = is_simple_key(key);
            self.key(key, simple, false);
            self.load(value, "", true);
            self.indicator(":", !simple, false, false);
            comma = !self.flow_node(value, Role::Entry);
        }
        self.load_end(node, tail);
        let Waiting { head, foot, tail, .. } = &self.waiting;
        if comma && !(head.is_empty() && foot.is_empty() && tail.is_empty()) {
            self.indicator(",", false, false, false);
        }
        self.write_head();
        self.flow_level -= 1;
        self.indent = outer;
        self.indicator("}", false, false, false);
        self.write_line(false);
        self.write_foot();
    }

    /// What stands before an entry in brackets.
    fn flow_entry(&mut self, comma: bool) {
        if comma {
            self.indicator(",", false, false, false);
        }
        self.write_head();
        if self.column == 0 {
            self.write_indent();
        }
    }

    /// Sets the indentation of what a node holds; tells that around it (`yaml_emitter_increase_indent_compact`).
    fn deeper(&mut self, flow: bool, in_item: bool, compact: bool) -> i32 {
        let outer = self.indent;
        self.indent = match outer {
            ..0 if flow => 2,
            ..0 => 0,
            _ if in_item => outer + 2,
            _ if compact => 2 * ((outer + 2) / 2) - 2,
            _ => 2 * ((outer + 2) / 2),
        };
        outer
    }

    fn write_head(&mut self) {
        if !self.waiting.tail.is_empty() {
            self.write_indent();
            let tail = std::mem::take(&mut self.waiting.tail);
            self.comment(&tail);
            self.foot_indent = self.indent.max(0);
        }
        if !self.waiting.head.is_empty() {
            self.write_indent();
            let head = std::mem::take(&mut self.waiting.head);
            self.comment(&head);
        }
    }

    /// Writes the comment in the line; `ends`: the line ends here in any case.
    pub(super) fn write_line(&mut self, ends: bool) {
        if self.waiting.line.is_empty() {
            if ends {
                self.put_break();
            }
            return;
        }
        if !self.whitespace {
            self.put(' ');
        }
        let line = std::mem::take(&mut self.waiting.line);
        self.comment(&line);
    }

    fn write_foot(&mut self) {
        if !self.waiting.foot.is_empty() {
            self.write_indent();
            let foot = std::mem::take(&mut self.waiting.foot);
            self.comment(&foot);
            self.foot_indent = self.indent.max(0);
        }
    }

    fn comment(&mut self, text: &str) {
        let (mut breaks, mut pound) = (false, false);
        for c in text.chars() {
            if is_break(c) {
                self.copy_break(c);
                (breaks, pound) = (true, false);
                continue;
            }
            if breaks {
                self.write_indent();
            }
            if !pound {
                pound = true;
                if c != '#' {
                    self.put('#');
                    self.put(' ');
                }
            }
            self.put(c);
            self.indention = false;
            breaks = false;
        }
        if !breaks {
            self.put_break();
        }
        self.whitespace = true;
    }

    /// Begins a line at the indentation, unless this one has nothing on it.
    pub(super) fn write_indent(&mut self) {
        let indent = self.indent.max(0);
        if !self.indention || self.column > indent || self.column == indent && !self.whitespace {
            self.put_break();
        }
        if self.foot_indent == indent {
            self.put_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.whitespace = true;
        self.foot_indent = -1;
    }

    pub(super) fn indicator(&mut self, text: &str, apart: bool, whitespace: bool, indention: bool) {
        if apart && !self.whitespace {
            self.put(' ');
        }
        self.copy(text);
        self.whitespace = whitespace;
        self.indention &= indention;
    }

    fn word(&mut self, text: &str) {
        self.copy(text);
        (self.whitespace, self.indention) = (false, false);
    }

    fn write_tag(&mut self, tag: &str) {
        let handle = ["!!", "!"].into_iter().find(|handle| tag.starts_with(handle));
        if let Some(handle) = handle {
            if !self.whitespace {
                self.put(' ');
            }
            self.copy(handle);
            self.copy(&escaped(tag.get(handle.len()..).unwrap_or_default()));
        } else {
            self.indicator("!<", true, false, false);
            self.copy(&escaped(tag));
            self.indicator(">", false, false, false);
        }
        (self.whitespace, self.indention) = (false, false);
    }

    pub(super) fn put(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    pub(super) fn copy(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += i32::try_from(text.chars().count()).unwrap_or(i32::MAX);
    }

    pub(super) fn put_break(&mut self) {
        self.copy_break('\n');
    }

    pub(super) fn copy_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
        self.indention = true;
    }
}

/// A comment waits, if there is one.
fn wait(place: &mut String, comment: &str) {
    if !comment.is_empty() {
        comment.clone_into(place);
    }
}

/// Whether a character ends a line.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The tag that is written with a node: what its text or kind does not say already.
fn tag(node: &Node) -> Option<String> {
    let says = match node.kind {
        _ if node.tag.is_empty() || node.tagged => false,
        Kind::Scalar => node.tag == "!!str" || super::meaning(&node.value) == node.tag,
        Kind::List => node.tag == "!!seq",
        _ => node.tag == "!!map",
    };
    (!says && !node.tag.is_empty()).then(|| node.tag.clone())
}

/// Whether a key fits before a colon (`yaml_emitter_check_simple_key`).
fn is_simple_key(key: &Node) -> bool {
    let tag = tag(key).map_or(0, |tag| tag.len());
    match key.kind {
        Kind::Alias => key.value.len() <= MAX_KEY,
        Kind::Scalar => !key.value.contains(is_break) && key.anchor.len() + tag + key.value.len() <= MAX_KEY,
        _ => key.content.is_empty() && key.anchor.len() + tag <= MAX_KEY,
    }
}

/// The end of a tag, what it cannot hold as `%` and two digits.
fn escaped(tag: &str) -> String {
    let mut out = String::with_capacity(tag.len());
    for byte in tag.bytes() {
        if byte.is_ascii_alphanumeric() || b";/?:@&=+$,_.~*'()[]-".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The style in which go-yaml is asked to write a scalar (`encoder.node`).
pub(super) fn asked_style(node: &Node) -> Style {
    let untagged_text = node.tag == "!!str" && !node.tagged;
    match node.style {
        Style::Plain if node.value.contains('\n') => Style::Literal,
        Style::Plain if untagged_text && super::meaning(&node.value) != "!!str" => Style::Double,
        style => style,
    }
}
