//! The grammar of `--set`, `--set-string` and similar flags: Helm's `strvals`.
//!
//! Owns how a line such as `a.b[0]=x,c={1,2}` changes a tree of values; does not know flags or files.

mod literal;

pub use literal::{parse_literal, parse_literal_within};

use crate::data::{Data, Map};
use crate::go::strconv::{NumError, parse_int, quote, quote_rune};
use crate::json;
use crate::yaml::Room;

/// The maximal index of a list.
const MAX_INDEX: i64 = 65_536;
/// The maximal number of dots in a name.
const MAX_NAMES: usize = 30;
/// The maximal number of dots and brackets in a name; Helm does not limit brackets.
const MAX_DEPTH: usize = 500;

/// A parse error, with Helm's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Error {
    text: String,
    of_room: bool,
}

impl Error {
    /// Whether indexes fill lists up with more than there is room for, of which earlier lines took some.
    #[must_use]
    pub fn is_of_room(&self) -> bool {
        self.of_room
    }
}

/// Reads the value of `--set-file`.
pub type ReadValue<'r> = dyn FnMut(&str) -> Result<Data, String> + 'r;

/// `--set`: `name=value,name2=value2`, where values are booleans, null, integers, lists in braces, or text.
///
/// ```
/// use chart_compat::{data::Map, json, values::strvals};
///
/// let mut values = Map::new();
/// strvals::parse_into(&mut values, "image.tag=1.29,replicas=3,hosts={a,b},env[0].name=X")?;
/// let text = r#"{"env":[{"name":"X"}],"hosts":["a","b"],"image":{"tag":"1.29"},"replicas":3}"#;
/// assert_eq!(json::to_string(&values.clone().into()).unwrap(), text);
///
/// let error = strvals::parse_into(&mut values, "replicas").err();
/// assert_eq!(error.map(|e| e.to_string()).as_deref(), Some("key \"replicas\" has no value"));
/// # Ok::<(), strvals::Error>(())
/// ```
///
/// # Errors
/// If the line does not follow the grammar, or descends into a value that is not a container. Assignments before the
/// error are applied nevertheless.
pub fn parse_into(values: &mut Map, line: &str) -> Result<(), Error> {
    Parser { text: line, kind: Kind::Typed, room: &Room::default() }.parse(values)
}

/// As [`parse_into`], one of several lines that share room: an index behind the end of a list makes a list of nulls up to there.
///
/// # Errors
/// As for [`parse_into`], or these lists take too much.
pub fn parse_into_within(values: &mut Map, line: &str, room: &Room) -> Result<(), Error> {
    Parser { text: line, kind: Kind::Typed, room }.parse(values)
}

/// `--set-string`: as `--set`, but every value is text.
///
/// # Errors
/// As for `parse_into`.
pub fn parse_into_string(values: &mut Map, line: &str) -> Result<(), Error> {
    Parser { text: line, kind: Kind::Text, room: &Room::default() }.parse(values)
}

/// As [`parse_into_string`], one of several lines that share room: an index behind the end of a list makes a list of nulls up to there.
///
/// # Errors
/// As for [`parse_into_string`], or these lists take too much.
pub fn parse_into_string_within(values: &mut Map, line: &str, room: &Room) -> Result<(), Error> {
    Parser { text: line, kind: Kind::Text, room }.parse(values)
}

/// `--set-json`: as `--set`, but every value is JSON; an empty one is null.
///
/// # Errors
/// As for `parse_into`, and if a value is not valid JSON.
pub fn parse_json(values: &mut Map, line: &str) -> Result<(), Error> {
    Parser { text: line, kind: Kind::Json, room: &Room::default() }.parse(values)
}

/// `--set-file`: as `--set`, but `read` returns the value for the text in the line.
///
/// # Errors
/// As for `parse_into`, and if `read` fails.
pub fn parse_file(values: &mut Map, line: &str, read: &mut ReadValue<'_>) -> Result<(), Error> {
    parse_file_within(values, line, read, &Room::default())
}

/// As [`parse_file`], one of several lines that share room.
///
/// # Errors
/// As for [`parse_file`], or lists of nulls take too much.
pub fn parse_file_within(
    values: &mut Map,
    line: &str,
    read: &mut ReadValue<'_>,
    room: &Room,
) -> Result<(), Error> {
    Parser { text: line, kind: Kind::File(read), room }.parse(values)
}

/// How to interpret a value's text.
enum Kind<'r> {
    Typed,
    Text,
    Json,
    File(&'r mut ReadValue<'r>),
}

/// Why the parser stops.
#[derive(Debug)]
enum Stop {
    /// The line ended, which is the regular end of parsing wherever it happens.
    End,
    Fail(String),
    /// There is no room for the nulls before an index.
    Room(String),
}

impl Stop {
    /// The error of a line, unless this is its end.
    fn outcome(self) -> Result<(), Error> {
        match self {
            Self::End => Ok(()),
            Self::Fail(text) => Err(Error { text, of_room: false }),
            Self::Room(text) => Err(Error { text, of_room: true }),
        }
    }
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Fail(text)
    }
}

struct Parser<'t, 'r> {
    /// The rest of the line.
    text: &'t str,
    kind: Kind<'r>,
    /// What lists may be filled up with.
    room: &'r Room,
}

impl Parser<'_, '_> {
    fn parse(mut self, values: &mut Map) -> Result<(), Error> {
        loop {
            match self.key(values, 0, 0) {
                Ok(()) => {}
                Err(stop) => return stop.outcome(),
            }
        }
    }

    fn read(&mut self) -> Option<char> {
        let mut chars = self.text.chars();
        let next = chars.next()?;
        self.text = chars.as_str();
        Some(next)
    }

    /// Reads up to one of `stops`, which is consumed; returns `None` instead of it at the line's end. A backslash escapes any
    /// character.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut out = String::new();
        while let Some(c) = self.read() {
            match c {
                c if stops.contains(&c) => return (out, Some(c)),
                '\\' => out.extend(self.read()),
                c => out.push(c),
            }
        }
        (out, None)
    }

    fn key(&mut self, data: &mut Map, names: usize, depth: usize) -> Result<(), Stop> {
        let (key, last) = self.until(&['=', '[', ',', '.']);
        match last {
            None if key.is_empty() => Err(Stop::End),
            None => Err(format!("key {} has no value", quote(key.as_bytes())).into()),
            Some('[') => {
                let index = self.index()?;
                in_list(data, key, |list| self.item(list, index, names, depth + 1))
            }
            Some('=') => self.value(data, key),
            Some(',') => {
                let shown = quote(key.as_bytes());
                set(data, key, Data::String(String::new()));
                Err(format!("key {shown} has no value (cannot end with ,)").into())
            }
            Some(_) => {
                check_names(names + 1)?;
                in_map(data, key, |inner| self.key(inner, names + 1, depth + 1))
            }
        }
    }

    /// The value of a key, after its `=`.
    fn value(&mut self, data: &mut Map, key: String) -> Result<(), Stop> {
        if let Kind::Json = self.kind {
            let Some((value, end)) = self.json()? else {
                set(data, key, Data::Null);
                return Ok(());
            };
            set(data, key, value);
            self.after_json(end);
            return Ok(());
        }
        match self.list()? {
            Listed::List(list) => set(data, key, Data::List(list)),
            Listed::End => {
                set(data, key, Data::String(String::new()));
                return Err(Stop::End);
            }
            Listed::No => {
                let (text, _) = self.until(&[',']);
                let read = self.typed(text);
                // A file that cannot be read leaves a null.
                set(data, key, read.as_ref().map_or(Data::Null, Data::clone));
                read?;
            }
        }
        Ok(())
    }

    /// An item of a list, after its index.
    fn item(&mut self, list: &mut Vec<Data>, index: i64, names: usize, depth: usize) -> Result<(), Stop> {
        check_item(index, depth)?;
        let room = self.room;
        let (rest, last) = self.until(&['[', '.', '=']);
        check_rest(&rest)?;
        match last {
            None => Err(Stop::End),
            Some('=') => {
                let value = if let Kind::Json = self.kind {
                    match self.json()? {
                        None => Data::Null,
                        Some((value, end)) => {
                            set_index(list, index, value, room)?;
                            self.after_json(end);
                            return Ok(());
                        }
                    }
                } else {
                    match self.list()? {
                        Listed::List(items) => Data::List(items),
                        Listed::End => Data::String(String::new()),
                        Listed::No => {
                            let (text, _) = self.until(&[',']);
                            self.typed(text)?
                        }
                    }
                };
                set_index(list, index, value, room)
            }
            Some('[') => {
                let next = self.index()?;
                in_item_list(list, index, room, |inner| self.item(inner, next, names, depth + 1))
            }
            Some(_) => in_item_map(list, index, room, |inner| self.key(inner, names, depth + 1)),
        }
    }

    /// A list's index, with its bracket.
    fn index(&mut self) -> Result<i64, Stop> {
        match self.until(&[']']) {
            (_, None) => Err(Stop::End),
            (text, Some(_)) => parse_index(&text),
        }
    }

    /// A list in braces, if one follows.
    fn list(&mut self) -> Result<Listed, Stop> {
        match self.text.chars().next() {
            None => return Ok(Listed::End),
            Some('{') => self.read(),
            Some(_) => return Ok(Listed::No),
        };
        let mut list = Vec::new();
        loop {
            let (text, last) = self.until(&[',', '}']);
            match last {
                None => return Err("list must terminate with '}'".to_owned().into()),
                Some('}') => {
                    self.text = self.text.strip_prefix(',').unwrap_or(self.text);
                    list.push(self.typed(text)?);
                    return Ok(Listed::List(list));
                }
                Some(_) => list.push(self.typed(text)?),
            }
        }
    }

    /// Converts a text to a value.
    fn typed(&mut self, text: String) -> Result<Data, Stop> {
        Ok(match &mut self.kind {
            Kind::Typed => typed(text),
            Kind::Text | Kind::Json => Data::String(text),
            Kind::File(read) => read(&text)?,
        })
    }

    /// The next JSON value and its length; `None` if it is empty.
    fn json(&mut self) -> Result<Option<(Data, usize)>, Stop> {
        if self.skip_empty() {
            return Ok(None);
        }
        json::first_value(self.text.as_bytes()).map(Some).map_err(|error| match error {
            json::Error::Eof => Stop::End,
            other => Stop::Fail(other.to_string()),
        })
    }

    /// Skips a JSON value, and a comma after it.
    fn after_json(&mut self, end: usize) {
        self.text = self.text.get(end..).unwrap_or_default();
        self.skip_empty();
    }

    /// Skips white space and a comma; returns whether nothing else precedes it.
    fn skip_empty(&mut self) -> bool {
        self.text = self.text.trim_start();
        let rest = self.text.strip_prefix(',');
        let empty = rest.is_some() || self.text.is_empty();
        self.text = rest.unwrap_or(self.text);
        empty
    }
}

/// The result of parsing an optional list.
enum Listed {
    List(Vec<Data>),
    No,
    End,
}

/// Converts a text to a value by its form.
fn typed(text: String) -> Data {
    let is = |word: &str| {
        // Go folds the long s.
        text.chars().map(|c| if c == '\u{17F}' { 's' } else { c.to_ascii_lowercase() }).eq(word.chars())
    };
    match () {
        () if is("true") => Data::Bool(true),
        () if is("false") => Data::Bool(false),
        () if is("null") => Data::Null,
        () if text == "0" => Data::Int(0),
        () if text.starts_with('0') => Data::String(text),
        () => parse_int(&text, 10).map_or(Data::String(text), Data::Int),
    }
}

/// Sets an entry; ignores an empty key.
fn set(data: &mut Map, key: String, value: Data) {
    if !key.is_empty() {
        data.insert(key, value);
    }
}

fn check_names(names: usize) -> Result<(), Stop> {
    if names > MAX_NAMES {
        let text =
            format!("value name nested level is greater than maximum supported nested level of {MAX_NAMES}");
        return Err(text.into());
    }
    Ok(())
}

fn check_item(index: i64, depth: usize) -> Result<(), Stop> {
    if index < 0 {
        return Err(format!("negative {index} index not allowed").into());
    }
    if depth > MAX_DEPTH {
        let text =
            format!("index nested level is greater than maximum supported nested level of {MAX_DEPTH}");
        return Err(text.into());
    }
    Ok(())
}

fn check_rest(rest: &str) -> Result<(), Stop> {
    if rest.is_empty() {
        return Ok(());
    }
    let shown: Vec<_> = rest.chars().map(quote_rune).collect();
    Err(format!("unexpected data at end of array index: [{}]", shown.join(" ")).into())
}

/// Go's `strconv.Atoi`.
fn parse_index(text: &str) -> Result<i64, Stop> {
    parse_int(text, 10).map_err(|error: NumError| {
        let shown = quote(text.as_bytes());
        Stop::Fail(format!("error parsing index: strconv.Atoi: parsing {shown}: {error}"))
    })
}

/// Sets an item. A list that ends before is filled up with nulls: two bytes of text can name 65,535 of them.
fn set_index(list: &mut Vec<Data>, index: i64, value: Data, room: &Room) -> Result<(), Stop> {
    let at = usize::try_from(index).unwrap_or(usize::MAX);
    if index > MAX_INDEX {
        let text = format!("index of {index} is greater than maximum supported index of {MAX_INDEX}");
        return Err(text.into());
    }
    if list.len() <= at {
        let bytes = (at - list.len()).saturating_mul(size_of::<Data>());
        room.take(bytes).map_err(|_| {
            let mib = room.limit() >> 20;
            Stop::Room(format!(
                "index of {index}: lists that indexes fill up take more than {mib} MiB in all"
            ))
        })?;
        list.resize(at + 1, Data::Null);
    }
    if let Some(slot) = list.get_mut(at) {
        *slot = value;
    }
    Ok(())
}

/// Go's error text of a failed type assertion.
fn conversion(value: &Data, wanted: &str) -> Stop {
    let found = match value {
        Data::Null => "nil",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int64",
        Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::List(_) => "[]interface {}",
        Data::Map(_) => "map[string]interface {}",
    };
    Stop::Fail(format!("unable to parse key: interface conversion: interface {{}} is {found}, not {wanted}"))
}

/// Calls `work` on the map under a key. A new map is kept only if it is not empty.
fn in_map(data: &mut Map, key: String, work: impl FnOnce(&mut Map) -> Result<(), Stop>) -> Result<(), Stop> {
    let no_value = || Stop::Fail(format!("key map {} has no value", quote(key.as_bytes())));
    match data.get_mut(&key) {
        Some(Data::Map(inner)) => {
            work(inner)?;
            if inner.is_empty() { Err(no_value()) } else { Ok(()) }
        }
        Some(other) => Err(conversion(other, "map[string]interface {}")),
        None => {
            let mut inner = Map::new();
            let done = work(&mut inner);
            if inner.is_empty() {
                return if done.is_ok() { Err(no_value()) } else { done };
            }
            set(data, key, Data::Map(inner));
            done
        }
    }
}

/// Calls `work` on the list under a key. A new list is kept even after an error.
fn in_list(
    data: &mut Map,
    key: String,
    work: impl FnOnce(&mut Vec<Data>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    match data.get_mut(&key) {
        Some(Data::List(list)) => work(list),
        Some(other) => Err(conversion(other, "[]interface {}")),
        None => {
            let mut list = Vec::new();
            let done = work(&mut list);
            set(data, key, Data::List(list));
            done
        }
    }
}

/// Calls `work` on the list in a list's item.
fn in_item_list(
    list: &mut Vec<Data>,
    index: i64,
    room: &Room,
    work: impl FnOnce(&mut Vec<Data>) -> Result<(), Stop>,
) -> Result<(), Stop> {
    match usize::try_from(index).ok().and_then(|at| list.get_mut(at)) {
        Some(Data::List(inner)) => work(inner),
        Some(Data::Null) | None => {
            let mut inner = Vec::new();
            work(&mut inner)?;
            set_index(list, index, Data::List(inner), room)
        }
        Some(other) => Err(conversion(other, "[]interface {}")),
    }
}

/// Calls `work` on the map in a list's item. An item of another type is replaced by an empty map.
fn in_item_map(
    list: &mut Vec<Data>,
    index: i64,
    room: &Room,
    work: impl FnOnce(&mut Map) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let Some(item) = usize::try_from(index).ok().and_then(|at| list.get_mut(at)) else {
        let mut inner = Map::new();
        work(&mut inner)?;
        return set_index(list, index, Data::Map(inner), room);
    };
    if item.as_map().is_none() {
        *item = Data::Map(Map::new());
    }
    item.as_map_mut().map_or(Ok(()), work)
}

#[cfg(test)]
mod tests;
