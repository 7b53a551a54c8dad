//! Helm's parsing, merging and lookup of values outside a render.

use std::borrow::Cow;

use super::error::Error;
use crate::data::{Data, Map};
use crate::path::Path;
use crate::profile::Profile;
use crate::yaml::{self, Room};

/// The documents of a values text, separated by lines that begin with `---` (`yaml.YAMLReader` of apimachinery), each with the number
/// of lines before it. A first line of dashes belongs to the document that it begins.
struct Documents<'t> {
    text: &'t [u8],
    /// Lines before the next document.
    before: u32,
}

impl<'t> Documents<'t> {
    fn of(text: &'t [u8]) -> Self {
        Self { text, before: 0 }
    }

    /// Takes the text up to `end`; the next document begins at `next`.
    fn take(&mut self, end: usize, next: usize) -> (u32, &'t [u8]) {
        let (document, lines) = (&self.text[..end], memchr::memchr_iter(b'\n', &self.text[..next]).count());
        let before = self.before;
        self.before = before.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.text = &self.text[next..];
        (before, document)
    }
}

impl<'t> Iterator for Documents<'t> {
    type Item = Result<(u32, &'t [u8]), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.text;
        for at in memchr::memmem::find_iter(text, b"---").filter(|at| *at == 0 || text[at - 1] == b'\n') {
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |n| at + n + 1);
            let rest = String::from_utf8_lossy(&text[at + 3..end]);
            let rest = rest.trim();
            if !rest.is_empty() && !rest.starts_with('#') {
                let (before, _) = self.take(text.len(), text.len());
                let lines = memchr::memchr_iter(b'\n', &text[..at]).count();
                let line = before.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX)).saturating_add(1);
                return Some(Err(Error::Separator { rest: rest.to_owned(), line }));
            }
            if at > 0 {
                return Some(Ok(self.take(at, end)));
            }
        }
        (!text.is_empty()).then(|| Ok(self.take(text.len(), text.len())))
    }
}

/// Parses a values file, numbers as floats: Helm 4 merges its documents (`loader.LoadValues`), Helm 3 reads the first.
///
/// ```
/// use chart_compat::chart::{merge_maps, read_values};
/// use chart_compat::{json, profile::Profile};
///
/// let mut values = read_values(b"image: {repository: nginx, tag: '1.28'}\n", Profile::Helm4)?;
/// merge_maps(&mut values, read_values(b"image: {tag: '1.29'}\n", Profile::Helm4)?);
/// assert_eq!(json::to_string(&values.into()).unwrap(), r#"{"image":{"repository":"nginx","tag":"1.29"}}"#);
/// # Ok::<(), chart_compat::chart::Error>(())
/// ```
///
/// # Errors
/// The YAML error, with its line.
pub fn read_values(text: &[u8], profile: Profile) -> Result<Map, Error> {
    read_values_within(text, profile, &Room::default())
}

/// Parses one of several values files that share room, as [`read_values`].
///
/// # Errors
/// As [`read_values`], or the files' aliases add too much.
pub fn read_values_within(text: &[u8], profile: Profile, room: &Room) -> Result<Map, Error> {
    if profile == Profile::Helm3 {
        return yaml::from_slice_map_within(text, room).map_err(Error::Unmarshal);
    }
    // Helm adds a missing line feed at the end.
    let text = match text.last() {
        None | Some(b'\n') => Cow::Borrowed(text),
        Some(_) => Cow::Owned([text, b"\n"].concat()),
    };
    let mut values = Map::new();
    for document in Documents::of(&text) {
        let (before, doc) = document?;
        let map = yaml::from_slice_map_within(doc, room).map_err(|source| Error::Yaml { source, before })?;
        merge_maps(&mut values, map);
    }
    Ok(values)
}

/// The line numbers of a values file with merged documents.
#[derive(Clone, Debug, Default)]
pub struct ValuesLines(Vec<(u32, yaml::Node)>);

impl ValuesLines {
    /// Parses a values file again, for its lines; an invalid document has none.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let read = |(before, doc)| yaml::spanned(doc).ok().map(|node| (before, node));
        Self(Documents::of(text).map_while(Result::ok).filter_map(read).collect())
    }

    /// The line, from 1, on which the value at a path is set.
    #[must_use]
    pub fn line_of(&self, path: &Path) -> Option<u32> {
        self.0.iter().rev().find_map(|(before, node)| node.line_of(&path.0).map(|line| before + line))
    }

    /// The documents, each with the number of lines before it.
    #[must_use]
    pub fn documents(&self) -> &[(u32, yaml::Node)] {
        &self.0
    }
}

/// Merges `over` into `base`: merges maps deeply, replaces all other values, stores nulls (`loader.MergeMaps`).
pub fn merge_maps(base: &mut Map, over: Map) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Data::Map(old)), Data::Map(new)) => merge_maps(old, new),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// The table at a dotted path (`Values.Table`).
#[must_use]
pub(crate) fn table<'v>(values: &'v Map, path: &str) -> Option<&'v Map> {
    find_table(values, path).ok()
}

/// The table at a dotted path, or the part of the path that is not a table.
pub(super) fn find_table<'v, 'p>(values: &'v Map, path: &'p str) -> Result<&'v Map, &'p str> {
    path.split('.').try_fold(values, |at, name| at.get(name).and_then(Data::as_map).ok_or(name))
}

/// The value at a dotted path, unless it is a table (`Values.PathValue`).
#[must_use]
pub(crate) fn path_value<'v>(values: &'v Map, path: &str) -> Option<&'v Data> {
    let (parent, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent)?, key),
        None => (values, path),
    };
    parent.get(key).filter(|v| v.as_map().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_end_at_lines_of_three_dashes() {
        let table: &[(&str, &[(u32, &str)])] = &[
            ("", &[]),
            ("a: 1", &[(0, "a: 1")]),
            ("---\na: 1\n", &[(0, "---\na: 1\n")]),
            ("---\n---\na: 1\n", &[(0, "---\n"), (2, "a: 1\n")]),
            ("a: 1\n---\nb: 2", &[(0, "a: 1\n"), (2, "b: 2")]),
            ("a: 1\n--- # next\n\n---  \r\nb: 2\n---", &[(0, "a: 1\n"), (2, "\n"), (4, "b: 2\n")]),
            ("a: b---\n ---\n", &[(0, "a: b---\n ---\n")]),
        ];
        for (text, want) in table {
            let got: Vec<(u32, &[u8])> = Documents::of(text.as_bytes()).map(Result::unwrap).collect();
            let want: Vec<(u32, &[u8])> = want.iter().map(|(n, t)| (*n, t.as_bytes())).collect();
            assert_eq!(got, want, "{text:?}");
        }
    }

    #[test]
    fn nothing_but_a_comment_stands_behind_the_dashes() {
        for (text, line, rest) in [("--- foo\n", 1, "foo"), ("a: 1\n---\nb: 2\n-----\r\n", 4, "--")] {
            let mut documents = Documents::of(text.as_bytes());
            let wrong = documents.find_map(Result::err).unwrap();
            assert_eq!(wrong.line(), Some(line), "{text:?}");
            let told = format!("error reading yaml document: invalid Yaml document separator: {rest}");
            assert_eq!(wrong.to_string(), told, "{text:?}");
            assert!(documents.next().is_none(), "{text:?}");
        }
    }
}
