//! From text to trees, as go-yaml v3's parser builds its nodes.

use super::{Kind, MAX_DEPTH, Node, Style, meaning};
use crate::yaml::error::Error;
use crate::yaml::input::Input;
use crate::yaml::parse::{Event, Look, Parser};
use crate::yaml::room::Room;

/// The prefix of YAML's own tags.
const LONG: &str = "tag:yaml.org,2002:";

/// Decodes the first document; `None` if the text has none.
///
/// # Errors
/// If the text is not valid YAML, refers to an unknown anchor, or is deeper than [`MAX_DEPTH`].
pub fn read(text: &str) -> Result<Option<Node>, Error> {
    read_within(text, &Room::default())
}

/// Decodes the first document, as [`read`], as one of several documents that share room.
///
/// # Errors
/// As [`read`], or if there is not enough room.
pub fn read_within(text: &str, room: &Room) -> Result<Option<Node>, Error> {
    let input = Input::new(text.as_bytes());
    Reader { parser: Parser::with_looks(&input), anchors: Vec::new(), room }.document()
}

/// Decodes every document of a stream.
///
/// # Errors
/// As [`read`].
pub fn read_all(text: &str) -> Result<Vec<Node>, Error> {
    read_all_within(text, &Room::default())
}

/// Decodes every document of a stream, as [`read_all`], within room: trees have aliases themselves, so what those add is no matter.
///
/// # Errors
/// As [`read`], or if there is not enough room.
pub fn read_all_within(text: &str, room: &Room) -> Result<Vec<Node>, Error> {
    let input = Input::new(text.as_bytes());
    let mut reader = Reader { parser: Parser::with_looks(&input), anchors: Vec::new(), room };
    let mut documents = Vec::new();
    while let Some(document) = reader.document()? {
        documents.push(document);
    }
    Ok(documents)
}

struct Reader<'a> {
    parser: Parser<'a>,
    anchors: Vec<String>,
    room: &'a Room,
}

impl<'a> Reader<'a> {
    /// The next document of the stream.
    fn document(&mut self) -> Result<Option<Node>, Error> {
        self.anchors.clear();
        let (event, look) = self.parser.next_with_look()?;
        if !matches!(event, Event::DocumentStart) {
            return Ok(None);
        }
        let mut document = Node { kind: Kind::Document, head: look.notes.head, ..Node::default() };
        let (event, look) = self.parser.next_with_look()?;
        document.content.push(self.node(event, look, 0)?);
        let (_, end) = self.parser.next_with_look()?;
        document.foot = end.notes.foot;
        Ok(Some(document))
    }

    fn node(&mut self, event: Event<'a>, look: Look, depth: usize) -> Result<Node, Error> {
        if depth > MAX_DEPTH {
            let line = match &event {
                Event::Scalar { props, .. } | Event::ListStart(props) | Event::MapStart(props) => props.line,
                Event::Alias { line, .. } => *line,
                _ => 0,
            };
            return Err(Error::plain(line + 1, format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let Look { notes, tag, flow, first } = look;
        let mut node = Node { head: notes.head, line: notes.line, foot: notes.foot, flow, ..Node::default() };
        let props = match event {
            Event::Alias { name, line } => {
                if !self.anchors.iter().any(|known| *known == name) {
                    return Err(Error::plain(line + 1, format!("unknown anchor '{name}' referenced")));
                }
                node.kind = Kind::Alias;
                node.value = name.into_owned();
                return Ok(node);
            }
            Event::Scalar { value, props, .. } => {
                node.value = value.into_owned();
                node.style = match first {
                    b'\'' => Style::Single,
                    b'"' => Style::Double,
                    b'|' => Style::Literal,
                    b'>' => Style::Folded,
                    _ => Style::Plain,
                };
                props
            }
            Event::ListStart(props) => {
                node.kind = Kind::List;
                props
            }
            Event::MapStart(props) => {
                node.kind = Kind::Map;
                props
            }
            // The parser emits no other event here.
            Event::StreamEnd | Event::DocumentStart | Event::DocumentEnd | Event::ListEnd | Event::MapEnd => {
                return Err(Error::plain(0, "did not find expected node content"));
            }
        };
        node.tagged = !tag.is_empty() && tag != "!";
        node.tag = match node.kind {
            _ if node.tagged => tag.strip_prefix(LONG).map_or_else(|| tag.clone(), |own| format!("!!{own}")),
            Kind::List => "!!seq".to_owned(),
            Kind::Map => "!!map".to_owned(),
            _ if node.style != Style::Plain => "!!str".to_owned(),
            _ if node.value == "<<" => "!!merge".to_owned(),
            _ => meaning(&node.value).to_owned(),
        };
        let taken = self.room.take_node(size_of::<Node>() + node.texts());
        taken.map_err(|error| Error::plain(props.line + 1, error.to_string()))?;
        if let Some(name) = props.anchor {
            node.anchor = name.into_owned();
            self.anchors.push(node.anchor.clone());
        }
        match node.kind {
            Kind::List => self.list(&mut node, depth)?,
            Kind::Map => self.map(&mut node, depth)?,
            _ => {}
        }
        Ok(node)
    }

    fn list(&mut self, node: &mut Node, depth: usize) -> Result<(), Error> {
        loop {
            let (event, look) = self.parser.next_with_look()?;
            if matches!(event, Event::ListEnd) {
                (node.line, node.foot) = (look.notes.line, look.notes.foot);
                return Ok(());
            }
            node.content.push(self.node(event, look, depth + 1)?);
        }
    }

    fn map(&mut self, node: &mut Node, depth: usize) -> Result<(), Error> {
        loop {
            let (event, look) = self.parser.next_with_look()?;
            if matches!(event, Event::MapEnd) {
                (node.line, node.foot) = (look.notes.line, look.notes.foot);
                let last = node.content.len().wrapping_sub(2);
                if !node.flow
                    && !node.foot.is_empty()
                    && let Some(key) = node.content.get_mut(last)
                {
                    key.foot = std::mem::take(&mut node.foot);
                }
                return Ok(());
            }
            let mut key = self.node(event, look, depth + 1)?;
            // A foot comment with less indentation belongs to the previous entry.
            let before = node.content.len().wrapping_sub(2);
            if !node.flow
                && !key.foot.is_empty()
                && let Some(before) = node.content.get_mut(before)
            {
                before.foot = std::mem::take(&mut key.foot);
            }
            let (event, look) = self.parser.next_with_look()?;
            let mut value = self.node(event, look, depth + 1)?;
            if key.foot.is_empty() {
                key.foot = std::mem::take(&mut value.foot);
            }
            node.content.push(key);
            node.content.push(value);
        }
    }
}
