//! From trees to text, with go-yaml v3's layout for kyaml.
//!
//! Owns indentation, indicators, and the position of comments and line breaks; `scalar` decides the style of a scalar.
//! `emitterc.go` uses states between events. Here a walk over the tree does the same: the start of a node, its line comment, and
//! only then its content.

use super::{Kind, Node, Style};

/// Maximal length of a key without `?`, in bytes.
const MAX_KEY: usize = 128;

/// An encoder for one or more documents.
pub struct Writer {
    pub(super) out: String,
    documents: usize,
    pub(super) indent: i32,
    pub(super) column: i32,
    pub(super) whitespace: bool,
    /// Whether the line contains only indentation and indicators that count as indentation.
    pub(super) indention: bool,
    /// The indentation of the last written foot comment. An empty line precedes the next entry with that indentation.
    foot_indent: i32,
    pub(super) flow_level: usize,
    /// Whether a list is indented more than its key, as go-yaml v3 itself does.
    indents_lists: bool,
    waiting: Waiting,
}

/// Pending comments.
#[derive(Default)]
struct Waiting {
    head: String,
    line: String,
    foot: String,
    /// The foot comment of a key, which follows the key's value.
    tail: String,
    /// The line comment of a key, which follows the key's value.
    key_line: String,
}

/// The role of a node in its collection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The root of a document, or an item of a flow list.
    Other,
    /// An item of a block list.
    Item,
    /// A key followed by `:` on the same line.
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
    /// An encoder without documents.
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
            indents_lists: false,
            waiting: Waiting::default(),
        }
    }

    /// An encoder that indents lists more than their keys: go-yaml v3 without kyaml's change.
    #[must_use]
    pub fn with_indented_lists() -> Self {
        Self { indents_lists: true, ..Self::new() }
    }

    /// The encoded text.
    #[must_use]
    pub fn finish(self) -> String {
        self.out
    }

    /// Writes a document, or a node as a document. All but the first begin with `---`.
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
        // An empty line separates the foot comment of a document.
        self.foot_indent = 0;
        self.write_foot();
        self.foot_indent = -1;
        self.write_indent();
    }

    /// Queues the comments of a node's start event (`yaml_emitter_analyze_event`).
    fn load(&mut self, node: &Node, tail: &str, foot: bool) {
        wait(&mut self.waiting.head, &node.head);
        // The line and foot comments of a list or map belong to its end.
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

    /// Whether a pending comment ends the line of a flow entry.
    fn trails(&self) -> bool {
        let Waiting { line, foot, tail, .. } = &self.waiting;
        !line.is_empty() || !foot.is_empty() || !tail.is_empty()
    }

    /// Writes a node with its line and foot comments.
    fn node(&mut self, node: &Node, role: Role) {
        self.start(node, role);
        self.write_line(false);
        self.write_foot();
        self.body(node, role);
    }

    /// Writes a flow entry. Its comma precedes the comments that follow it. Returns whether such comments were pending before.
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

    /// Writes a scalar or an alias, or the properties of a list or map.
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

    /// Writes the content of a list or map.
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
        let compact = value && !self.indents_lists && (self.column == 0 || !self.indention);
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

    /// Writes a key; one that is not a simple key follows `?`.
    fn key(&mut self, key: &Node, simple: bool, block: bool) {
        let role = if simple { Role::SimpleKey } else { Role::Entry };
        if !simple {
            self.indicator("?", true, false, block);
        }
        self.start(key, role);
        self.body(key, role);
    }

    /// Moves the line comment of a key after its value, or writes it before a block value.
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

    /// Writes the comma, comments and indentation before a flow entry.
    fn flow_entry(&mut self, comma: bool) {
        if comma {
            self.indicator(",", false, false, false);
        }
        self.write_head();
        if self.column == 0 {
            self.write_indent();
        }
    }

    /// Increases the indentation for the content of a node. Returns the previous one (`yaml_emitter_increase_indent_compact`).
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

    /// Writes the line comment. `ends`: the line ends here even without a comment.
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

    /// Starts a new indented line, unless the current line is empty.
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

/// Queues a comment, if there is one.
fn wait(place: &mut String, comment: &str) {
    if !comment.is_empty() {
        comment.clone_into(place);
    }
}

/// Whether a character is a line break.
pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The tag to write with a node: only a tag that its text or kind does not imply.
fn tag(node: &Node) -> Option<String> {
    let says = match node.kind {
        _ if node.tag.is_empty() || node.tagged => false,
        Kind::Scalar => node.tag == "!!str" || super::meaning(&node.value) == node.tag,
        Kind::List => node.tag == "!!seq",
        _ => node.tag == "!!map",
    };
    (!says && !node.tag.is_empty()).then(|| node.tag.clone())
}

/// Whether a key can be a simple key (`yaml_emitter_check_simple_key`).
fn is_simple_key(key: &Node) -> bool {
    let tag = tag(key).map_or(0, |tag| tag.len());
    match key.kind {
        Kind::Alias => key.value.len() <= MAX_KEY,
        Kind::Scalar => !key.value.contains(is_break) && key.anchor.len() + tag + key.value.len() <= MAX_KEY,
        _ => key.content.is_empty() && key.anchor.len() + tag <= MAX_KEY,
    }
}

/// The suffix of a tag, percent-encoded where necessary.
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

/// The style that go-yaml's encoder requests for a scalar (`encoder.node`).
pub(super) fn asked_style(node: &Node) -> Style {
    let untagged_text = node.tag == "!!str" && !node.tagged;
    match node.style {
        Style::Plain if node.value.contains('\n') => Style::Literal,
        Style::Plain if untagged_text && super::meaning(&node.value) != "!!str" => Style::Double,
        style => style,
    }
}
