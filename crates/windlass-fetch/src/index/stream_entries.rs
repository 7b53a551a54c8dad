//! Streams repository indexes in YAML by their lines: one version of one chart at a time.
//!
//! Owns the layout that tools write: `entries:` in block style, charts as its keys, versions as items. Any other
//! layout is reported as irregular, and the whole document is parsed then. Knows no field of an entry.

use std::io::{self, BufRead, Read as _};

use chart_compat::data::Data;
use chart_compat::yaml;

/// The largest piece: one line, one version of a chart, or all text outside of `entries`.
const MAX_PIECE: usize = 4 << 20;

/// Why a scan ended early.
pub(super) enum Stop<E> {
    /// The layout is irregular.
    Irregular,
    /// It cannot be read.
    Io(io::Error),
    /// The visitor stopped.
    Visitor(E),
}

impl<E> From<io::Error> for Stop<E> {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

/// Receives the pieces.
pub(super) trait Visitor {
    /// Its error.
    type Error;
    /// A chart begins; returns whether its versions are wanted.
    fn chart(&mut self, name: String) -> bool;
    /// A version of the last chart that was wanted: a YAML list of one item.
    fn version(&mut self, text: &[u8]) -> Result<(), Self::Error>;
}

/// The position in the text.
enum Place {
    Top,
    /// Below `entries`; charts have this indent, once one was seen.
    Entries(Option<usize>),
}

struct Scan<'v, V> {
    visitor: &'v mut V,
    place: Place,
    /// All text outside of `entries`.
    rest: Vec<u8>,
    /// The version in progress, if its chart is wanted.
    piece: Vec<u8>,
    wanted: bool,
    /// The indent of the items of the chart.
    items: Option<usize>,
    /// Whether a chart was seen, and so versions may follow.
    in_chart: bool,
}

/// Reads a text from its start. Returns the text outside of `entries`.
pub(super) fn scan<V: Visitor>(mut text: impl BufRead, visitor: &mut V) -> Result<Vec<u8>, Stop<V::Error>> {
    let mut scan = Scan {
        visitor,
        place: Place::Top,
        rest: Vec::new(),
        piece: Vec::new(),
        wanted: false,
        items: None,
        in_chart: false,
    };
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut text).take(MAX_PIECE as u64 + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() > MAX_PIECE {
            return Err(Stop::Irregular);
        }
        scan.line(&line)?;
    }
    scan.flush()?;
    Ok(scan.rest)
}

impl<V: Visitor> Scan<'_, V> {
    fn line(&mut self, line: &[u8]) -> Result<(), Stop<V::Error>> {
        let indent = line.iter().take_while(|c| **c == b' ').count();
        let content = line[indent..].trim_ascii_end();
        if content.first() == Some(&b'\t') {
            return Err(Stop::Irregular);
        }
        let blank = content.is_empty() || content[0] == b'#';
        match self.place {
            Place::Entries(charts) if indent > 0 || blank => self.entry(line, indent, content, blank, charts),
            Place::Entries(_) => {
                self.flush()?;
                self.in_chart = false;
                self.place = Place::Top;
                self.top(line, indent, content)
            }
            Place::Top => self.top(line, indent, content),
        }
    }

    fn top(&mut self, line: &[u8], indent: usize, content: &[u8]) -> Result<(), Stop<V::Error>> {
        let document = indent == 0 && (content.starts_with(b"---") || content.starts_with(b"..."));
        let directive = indent == 0 && content.starts_with(b"%");
        if directive || document && (content != b"---" || self.rest.iter().any(|c| !c.is_ascii_whitespace()))
        {
            return Err(Stop::Irregular);
        }
        let key = content.strip_prefix(b"entries:").map(<[u8]>::trim_ascii_start);
        if let Some(after) = key.filter(|_| indent == 0)
            && (after.is_empty() || after[0] == b'#')
        {
            self.place = Place::Entries(None);
            return Ok(());
        }
        self.rest.extend_from_slice(line);
        if self.rest.len() > MAX_PIECE {
            return Err(Stop::Irregular);
        }
        Ok(())
    }

    fn entry(
        &mut self,
        line: &[u8],
        indent: usize,
        content: &[u8],
        blank: bool,
        charts: Option<usize>,
    ) -> Result<(), Stop<V::Error>> {
        if blank {
            return self.gather(line);
        }
        let item = content == b"-" || content.starts_with(b"- ");
        if item
            && self.in_chart
            && self.items.is_none_or(|i| i == indent)
            && charts.is_some_and(|c| indent >= c)
        {
            self.flush()?;
            self.items = Some(indent);
            return self.gather(line);
        }
        if charts.is_none_or(|c| c == indent) {
            if item {
                return Err(Stop::Irregular);
            }
            self.flush()?;
            self.place = Place::Entries(Some(indent));
            self.items = None;
            self.in_chart = true;
            let name = chart_name(content).ok_or(Stop::Irregular)?;
            self.wanted = self.visitor.chart(name);
            return Ok(());
        }
        match self.items {
            Some(items) if indent > items => self.gather(line),
            _ => Err(Stop::Irregular),
        }
    }

    fn gather(&mut self, line: &[u8]) -> Result<(), Stop<V::Error>> {
        if self.wanted && self.items.is_some() {
            self.piece.extend_from_slice(line);
            if self.piece.len() > MAX_PIECE {
                return Err(Stop::Irregular);
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Stop<V::Error>> {
        if !self.piece.is_empty() {
            self.visitor.version(&self.piece).map_err(Stop::Visitor)?;
            self.piece.clear();
        }
        Ok(())
    }
}

/// The name of a line that begins a chart: `name:`, or `name: []` for one without versions.
fn chart_name(content: &[u8]) -> Option<String> {
    let simple = |name: &[u8]| {
        // Longer than any special word of YAML.
        name.len() > 5
            && name[0].is_ascii_alphabetic()
            && name.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.'))
    };
    if let Some(name) = content.strip_suffix(b":").filter(|name| simple(name)) {
        return String::from_utf8(name.to_vec()).ok();
    }
    let Ok(Data::Map(map)) = yaml::from_slice(content) else { return None };
    let mut entries = map.into_iter();
    match (entries.next(), entries.next()) {
        (Some((name, Data::Null)), None) => Some(name),
        (Some((name, Data::List(l))), None) if l.is_empty() => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Visitor for Seen {
        type Error = ();

        fn chart(&mut self, name: String) -> bool {
            let wanted = name != "skipped";
            self.0.push(name);
            wanted
        }

        fn version(&mut self, text: &[u8]) -> Result<(), ()> {
            assert!(yaml::from_slice(text).is_ok(), "{}", String::from_utf8_lossy(text));
            self.0.push(String::from_utf8_lossy(text).into_owned());
            Ok(())
        }
    }

    fn seen(text: &str) -> Option<(Vec<String>, String)> {
        let mut seen = Seen::default();
        let rest = scan(text.as_bytes(), &mut seen).ok()?;
        Some((seen.0, String::from_utf8(rest).unwrap()))
    }

    #[test]
    fn pieces_of_an_index_as_helm_writes_it() {
        let text = "apiVersion: v1\nentries:\n  alpine:\n  - name: alpine\n    description: |-\n      entries:\n\n      - no item\n\
                    \x20   urls:\n    - a\n  - name: alpine\n  skipped:\n  - x: 1\n  none: []\n  \"yes\":\n    - name: z\ngenerated: \"2020\"\n";
        let (pieces, rest) = seen(text).unwrap();
        let first =
            "  - name: alpine\n    description: |-\n      entries:\n\n      - no item\n    urls:\n    - a\n";
        let want = ["alpine", first, "  - name: alpine\n", "skipped", "none", "yes", "    - name: z\n"];
        assert_eq!(pieces, want);
        assert_eq!(rest, "apiVersion: v1\ngenerated: \"2020\"\n");
    }

    #[test]
    fn another_layout_is_told() {
        let odd = [
            "entries:\n  a: {}\n",
            "entries:\n  a: [{name: x}]\n",
            "entries:\n  ? a\n  : - b: 1\n",
            "entries:\n\ta: 1\n",
            "%YAML 1.1\n---\nentries:\n",
            "a: 1\n---\nentries:\n",
            "entries:\n  a:\n  - b: \"x\n   y\"\n c: 1\n",
        ];
        for text in odd {
            assert!(seen(text).is_none(), "{text}");
        }
        // These are not below `entries` in this layout, so that the parser of the rest finds them.
        for text in ["entries: {a: []}\n", "\"entries\":\n  a:\n  - b: 1\n"] {
            assert_eq!(seen(text).unwrap().1, text);
        }
    }
}
