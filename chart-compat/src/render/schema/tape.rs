//! JSON as one flat list of values, for a single look at a large schema.
//!
//! Owns its reading and how values are found in it. Keys and texts stay where the document has them, so that reading allocates next to
//! nothing; what is no JSON, or out of the ordinary, is left to the reader that has Go's messages.

use bytes::Bytes;

use super::decimal::Decimal;
use super::uri::unescape;
use crate::data::Data;
use crate::json;

/// How deep values may nest.
const MAX_DEPTH: usize = 200;

/// Larger documents are left to the other reader: positions have 32 bits.
const MAX_TEXT: usize = 1 << 30;

/// Up to so many members of an object are looked through one by one; the keys of larger ones are sorted, too.
const FEW: usize = 16;

/// Numbers are no longer than this: their exponents stay such as can be reckoned with.
const MAX_NUMBER: usize = 24;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Null,
    False,
    True,
    Number,
    /// Between its quotes, as it stands in the document.
    String,
    /// Of those with escapes.
    Unescaped,
    List,
    Map,
}

/// A value, followed by what it holds: a list by its items, an object by key, value, key, value.
#[derive(Clone, Copy)]
struct Node {
    kind: Kind,
    /// Where its text is; of a text with escapes the number; of a container how much it holds, and of an object of many where its sorted keys begin.
    start: u32,
    end: u32,
    /// The node behind all that it holds.
    next: u32,
}

/// A document.
pub(super) struct Tape {
    text: Bytes,
    nodes: Vec<Node>,
    /// What texts with escapes stand for.
    unescaped: Vec<Box<str>>,
    /// The keys of objects with many members, in their order.
    sorted: Vec<u32>,
}

impl Tape {
    /// Reads a document; `None` if it is no JSON, or out of the ordinary.
    pub(super) fn read(text: &Bytes) -> Option<Self> {
        if text.len() > MAX_TEXT || std::str::from_utf8(text).is_err() {
            return None;
        }
        // A document with indents has a value every 20 bytes or so.
        let nodes = Vec::with_capacity(text.len() / 16 + 8);
        let tape = Self { text: text.clone(), nodes, unescaped: Vec::new(), sorted: Vec::new() };
        let mut reader = Reader { text, at: 0, tape };
        reader.value(0)?;
        reader.skip_space();
        (reader.at == text.len()).then_some(reader.tape)
    }

    /// The whole document.
    pub(super) fn root(&self) -> View<'_> {
        View { tape: self, at: 0 }
    }

    fn bytes(&self, node: Node) -> &[u8] {
        if node.kind == Kind::Unescaped {
            return self.unescaped.get(node.start as usize).map_or(b"", |text| text.as_bytes());
        }
        self.text.get(node.start as usize..node.end as usize).unwrap_or_default()
    }

    fn str(&self, node: Node) -> &str {
        // All of the document is UTF-8, and a text begins and ends next to an ASCII character.
        std::str::from_utf8(self.bytes(node)).unwrap_or_default()
    }
}

/// A value in a document.
#[derive(Clone, Copy)]
pub(super) struct View<'t> {
    tape: &'t Tape,
    at: u32,
}

/// What a value is.
pub(super) enum Shape<'t> {
    Null,
    Bool(bool),
    /// A number as it was written.
    Number(&'t str),
    String(&'t str),
    List(Items<'t>),
    Map(Members<'t>),
}

impl<'t> View<'t> {
    fn node(self) -> Node {
        self.tape.nodes[self.at as usize]
    }

    /// What this is.
    pub(super) fn shape(self) -> Shape<'t> {
        let node = self.node();
        match node.kind {
            Kind::Null => Shape::Null,
            Kind::False => Shape::Bool(false),
            Kind::True => Shape::Bool(true),
            Kind::Number => Shape::Number(self.tape.str(node)),
            Kind::String | Kind::Unescaped => Shape::String(self.tape.str(node)),
            Kind::List => Shape::List(Items { tape: self.tape, at: self.at + 1, left: node.start }),
            Kind::Map => Shape::Map(Members { tape: self.tape, at: self.at }),
        }
    }

    /// A number of its own: two values have two.
    pub(super) fn place(self) -> u32 {
        self.at
    }

    pub(super) fn is_str(self) -> bool {
        matches!(self.node().kind, Kind::String | Kind::Unescaped)
    }

    pub(super) fn as_str(self) -> Option<&'t str> {
        match self.shape() {
            Shape::String(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn as_bool(self) -> Option<bool> {
        match self.shape() {
            Shape::Bool(b) => Some(b),
            _ => None,
        }
    }

    pub(super) fn as_list(self) -> Option<Items<'t>> {
        match self.shape() {
            Shape::List(items) => Some(items),
            _ => None,
        }
    }

    pub(super) fn as_map(self) -> Option<Members<'t>> {
        match self.shape() {
            Shape::Map(members) => Some(members),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub(super) fn number(self) -> Option<Decimal> {
        match self.shape() {
            Shape::Number(text) => Decimal::parse(text),
            _ => None,
        }
    }

    /// The value of an object's member.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        self.as_map()?.get(key)
    }

    /// The value that a JSON pointer leads to.
    pub(super) fn find(self, pointer: &str) -> Option<Self> {
        pointer.split('/').skip(1).try_fold(self, |value, token| {
            let token = unescape(token)?;
            match value.shape() {
                Shape::Map(members) => members.get(&token),
                Shape::List(mut items) => items.nth(token.parse().ok()?),
                _ => None,
            }
        })
    }
}

/// The items of a list.
#[derive(Clone, Copy)]
pub(super) struct Items<'t> {
    tape: &'t Tape,
    at: u32,
    left: u32,
}

impl<'t> Iterator for Items<'t> {
    type Item = View<'t>;

    fn next(&mut self) -> Option<View<'t>> {
        self.left = self.left.checked_sub(1)?;
        let item = View { tape: self.tape, at: self.at };
        self.at = item.node().next;
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Items<'_> {}

/// The members of an object.
#[derive(Clone, Copy)]
pub(super) struct Members<'t> {
    tape: &'t Tape,
    at: u32,
}

impl<'t> Members<'t> {
    /// Keys with their values, as they stand in the document.
    pub(super) fn iter(self) -> impl Iterator<Item = (&'t str, View<'t>)> {
        let left = self.tape.nodes[self.at as usize].start;
        let mut at = self.at + 1;
        (0..left).map(move |_| {
            let key = self.tape.str(self.tape.nodes[at as usize]);
            let value = View { tape: self.tape, at: at + 1 };
            at = value.node().next;
            (key, value)
        })
    }

    pub(super) fn keys(self) -> impl Iterator<Item = &'t str> {
        self.iter().map(|(key, _)| key)
    }

    pub(super) fn values(self) -> impl Iterator<Item = View<'t>> {
        self.iter().map(|(_, value)| value)
    }

    pub(super) fn contains_key(self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn get(self, key: &str) -> Option<View<'t>> {
        let node = self.tape.nodes[self.at as usize];
        let of = |at: u32| self.tape.bytes(self.tape.nodes[at as usize]);
        let value = |at: u32| View { tape: self.tape, at: at + 1 };
        if node.start as usize <= FEW {
            let mut at = self.at + 1;
            for _ in 0..node.start {
                if of(at) == key.as_bytes() {
                    return Some(value(at));
                }
                at = value(at).node().next;
            }
            return None;
        }
        let from = node.end as usize;
        let sorted = self.tape.sorted.get(from..from + node.start as usize)?;
        let found = sorted.binary_search_by(|at| of(*at).cmp(key.as_bytes())).ok()?;
        Some(value(sorted[found]))
    }
}

struct Reader<'b> {
    text: &'b [u8],
    at: usize,
    tape: Tape,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        loop {
            // Indents are long: eight bytes at once, up to the first that is no space.
            while let Some(bytes) = self.text.get(self.at..).and_then(<[u8]>::first_chunk::<8>) {
                let others = u64::from_le_bytes(*bytes) ^ u64::from_le_bytes([b' '; 8]);
                self.at += others.trailing_zeros() as usize / 8;
                if others != 0 {
                    break;
                }
            }
            match self.text.get(self.at) {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                _ => return,
            }
        }
    }

    /// The next character after white space.
    fn mark(&mut self) -> Option<u8> {
        self.skip_space();
        let mark = self.text.get(self.at).copied();
        self.at += 1;
        mark
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) -> Option<()> {
        let pos = |n: usize| u32::try_from(n).ok();
        let next = pos(self.tape.nodes.len() + 1)?;
        self.tape.nodes.push(Node { kind, start: pos(start)?, end: pos(end)?, next });
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        match self.mark()? {
            b'"' => self.string(),
            b'{' if depth < MAX_DEPTH => self.map(depth + 1),
            b'[' if depth < MAX_DEPTH => self.list(depth + 1),
            b't' => self.word(b"rue", Kind::True),
            b'f' => self.word(b"alse", Kind::False),
            b'n' => self.word(b"ull", Kind::Null),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        }
    }

    fn word(&mut self, rest: &[u8], kind: Kind) -> Option<()> {
        self.text[self.at..].starts_with(rest).then_some(())?;
        self.at += rest.len();
        self.push(kind, 0, 0)
    }

    fn number(&mut self) -> Option<()> {
        let from = self.at - 1;
        let rest = &self.text[from..];
        let end = rest.iter().position(|b| !b"+-.0123456789Ee".contains(b)).unwrap_or(rest.len());
        self.at = from + end;
        // Whether its form is right is asked of the reader that knows it.
        (end <= MAX_NUMBER && json::from_slice(&rest[..end]).is_ok()).then_some(())?;
        self.push(Kind::Number, from, self.at)
    }

    fn string(&mut self) -> Option<()> {
        let from = self.at;
        let mut escapes = false;
        loop {
            let rest = &self.text[self.at..];
            let end = memchr::memchr2(b'"', b'\\', rest)?;
            // The least of all bytes, which the compiler makes of many at once.
            (rest[..end].iter().fold(u8::MAX, |least, b| least.min(*b)) >= 0x20).then_some(())?;
            self.at += end + 1;
            if rest[end] == b'"' {
                break;
            }
            escapes = true;
            self.at += 1;
        }
        if !escapes {
            return self.push(Kind::String, from, self.at - 1);
        }
        let Ok(Data::String(text)) = json::from_slice(self.text.get(from - 1..self.at)?) else { return None };
        self.tape.unescaped.push(text.into());
        self.push(Kind::Unescaped, self.tape.unescaped.len() - 1, 0)
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        let own = self.tape.nodes.len();
        self.push(Kind::List, 0, 0)?;
        self.skip_space();
        let mut count = 0;
        if self.text.get(self.at) == Some(&b']') {
            self.at += 1;
        } else {
            loop {
                self.value(depth)?;
                count += 1;
                match self.mark()? {
                    b',' => {}
                    b']' => break,
                    _ => return None,
                }
            }
        }
        self.close(own, count, 0)
    }

    fn map(&mut self, depth: usize) -> Option<()> {
        let own = self.tape.nodes.len();
        self.push(Kind::Map, 0, 0)?;
        let mut count = 0;
        let mut next = self.mark()?;
        if next != b'}' {
            loop {
                (next == b'"').then_some(())?;
                self.string()?;
                (self.mark()? == b':').then_some(())?;
                self.value(depth)?;
                count += 1;
                match self.mark()? {
                    b',' => next = self.mark()?,
                    b'}' => break,
                    _ => return None,
                }
            }
        }
        let sorted = self.tape.sorted.len();
        self.close(own, count, u32::try_from(sorted).ok()?)?;
        self.distinct(own, count as usize)
    }

    fn close(&mut self, own: usize, count: u32, end: u32) -> Option<()> {
        let next = u32::try_from(self.tape.nodes.len()).ok()?;
        let node = self.tape.nodes.get_mut(own)?;
        (node.start, node.end, node.next) = (count, end, next);
        Some(())
    }

    /// Sorts the keys of an object with many; of two that are alike the later would count, which is out of the ordinary.
    fn distinct(&mut self, own: usize, count: usize) -> Option<()> {
        let nodes = &self.tape.nodes;
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let keys = if count > FEW {
            many.resize(count, 0);
            &mut many[..]
        } else {
            &mut few[..count]
        };
        let mut at = own + 1;
        for key in keys.iter_mut() {
            *key = u32::try_from(at).ok()?;
            at = nodes[at + 1].next as usize;
        }
        let of = |at: u32| self.tape.bytes(nodes[at as usize]);
        if count <= FEW {
            let twice = keys.iter().enumerate().any(|(i, a)| keys[..i].iter().any(|b| of(*a) == of(*b)));
            return (!twice).then_some(());
        }
        keys.sort_unstable_by(|a, b| of(*a).cmp(of(*b)));
        keys.windows(2).all(|pair| of(pair[0]) != of(pair[1])).then_some(())?;
        self.tape.sorted.extend_from_slice(&many);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(view: View<'_>) -> String {
        match view.shape() {
            Shape::Null => "null".to_owned(),
            Shape::Bool(b) => b.to_string(),
            Shape::Number(text) => text.to_owned(),
            Shape::String(text) => format!("{text:?}"),
            Shape::List(items) => format!("[{}]", items.map(shown).collect::<Vec<_>>().join(",")),
            Shape::Map(members) => {
                let each = members.iter().map(|(key, value)| {
                    assert_eq!(members.get(key).map(View::place), Some(value.place()), "{key}");
                    format!("{key:?}:{}", shown(value))
                });
                format!("{{{}}}", each.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn read(text: &str) -> Option<String> {
        Tape::read(&Bytes::copy_from_slice(text.as_bytes())).map(|tape| shown(tape.root()))
    }

    #[test]
    fn documents_are_read_as_they_stand() {
        let many: Vec<String> = (0..40).rev().map(|n| format!("\"k{n}\":[{n}]")).collect();
        let table = [
            "null",
            "{\"a\":[],\"b\":{},\"\":[1,-2.50,3e4,{\"a\":true}],\"c\":[false,[null]]}",
            "\"é\"",
            &format!("{{{}}}", many.join(",")),
        ];
        for text in table {
            assert_eq!(read(text).as_deref(), Some(text));
        }
        let spaced = " {\r\n         \"a\" :\t[ 1 ,\n\n                  2 ] ,  \"b\" : { } }         \n ";
        assert_eq!(read(spaced).unwrap(), "{\"a\":[1,2],\"b\":{}}");
        assert_eq!(read(r#"{"a\"b\\":"\u00e9\n"}"#).unwrap(), "{\"a\\\"b\\\\\":\"é\\n\"}");
    }

    #[test]
    fn what_is_no_json_or_out_of_the_ordinary_is_left_alone() {
        let deep = "[".repeat(201) + &"]".repeat(201);
        let many: Vec<String> = (0..40).map(|n| format!("\"k{}\":0", n % 39)).collect();
        let table = [
            "",
            " ",
            "nul",
            "nulll",
            "truefalse",
            "1 2",
            "01",
            "1.",
            "-",
            "+1",
            "1e999",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\" 1}",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[1 2]",
            "]",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\n\"",
            "\"\u{1}\"",
            "{\"a\":1,\"a\":2}",
            "1234567890123456789012345",
            &deep,
            &format!("{{{}}}", many.join(",")),
        ];
        for text in table {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(Tape::read(&Bytes::from_static(b"\"\xff\"")).is_none());
    }

    #[test]
    fn pointers_lead_into_maps_and_lists() {
        let tape = Tape::read(&Bytes::from_static(br#"{"a":[{"b/c~":1}],"d":{"":2}}"#)).unwrap();
        let found = |pointer: &str| tape.root().find(pointer).map(shown);
        let table = [
            ("/a/0/b~1c~0", Some("1")),
            ("/d/", Some("2")),
            ("/a/1", None),
            ("/a/x", None),
            ("/a/0/b~2", None),
            ("/d//x", None),
        ];
        for (pointer, want) in table {
            assert_eq!(found(pointer).as_deref(), want, "{pointer}");
        }
        assert_eq!(tape.root().find("").map(View::place), Some(0));
    }
}
