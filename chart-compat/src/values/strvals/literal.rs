//! `--set-literal`: one name, and the rest of the line as its value.

use super::{
    Error, Stop, check_item, check_names, check_rest, in_item_list, in_item_map, in_list, in_map,
    parse_index, set, set_index,
};
use crate::data::{Data, Map};
use crate::go::strconv::quote;
use crate::yaml::Room;

/// `--set-literal`: `name=text`, with no special characters in the text and no escapes in the name.
///
/// # Errors
/// If the name does not follow the grammar, or descends into a value that is not a container.
pub fn parse_literal(values: &mut Map, line: &str) -> Result<(), Error> {
    parse_literal_within(values, line, &Room::default())
}

/// As [`parse_literal`], one of several lines that share room.
///
/// # Errors
/// As for [`parse_literal`], or lists of nulls take too much.
pub fn parse_literal_within(values: &mut Map, line: &str, room: &Room) -> Result<(), Error> {
    let mut text = line;
    loop {
        match (Literal { text: &mut text, room }).key(values, 0, 0) {
            Ok(()) => {}
            Err(stop) => return stop.outcome(),
        }
    }
}

/// Reads up to one of `stops`, which is consumed; returns `None` instead of it at the line's end.
fn until<'t>(text: &mut &'t str, stops: &[char]) -> (&'t str, Option<char>) {
    match text.find(stops) {
        None => (std::mem::take(text), None),
        Some(at) => {
            let (head, tail) = text.split_at(at);
            let mut chars = tail.chars();
            let stop = chars.next();
            *text = chars.as_str();
            (head, stop)
        }
    }
}

struct Literal<'r, 't> {
    /// The rest of the line.
    text: &'r mut &'t str,
    room: &'r Room,
}

impl Literal<'_, '_> {
    fn key(&mut self, data: &mut Map, names: usize, depth: usize) -> Result<(), Stop> {
        let (name, last) = until(self.text, &['=', '[', '.']);
        match last {
            None if name.is_empty() => Err(Stop::End),
            None => Err(format!("key {} has no value", quote(name.as_bytes())).into()),
            Some('=') => {
                set(data, name.to_owned(), Data::from(std::mem::take(self.text)));
                Ok(())
            }
            Some('[') => {
                let at = self.index()?;
                in_list(data, name.to_owned(), |list| self.item(list, at, names, depth + 1))
            }
            Some(_) => {
                check_names(names + 1)?;
                in_map(data, name.to_owned(), |inner| self.key(inner, names + 1, depth + 1))
            }
        }
    }

    fn item(&mut self, list: &mut Vec<Data>, at: i64, names: usize, depth: usize) -> Result<(), Stop> {
        check_item(at, depth)?;
        let room = self.room;
        let (rest, last) = until(self.text, &['[', '.', '=']);
        check_rest(rest)?;
        match last {
            None => Err(Stop::End),
            Some('=') => set_index(list, at, Data::from(std::mem::take(self.text)), room),
            Some('[') => {
                let next = self.index()?;
                in_item_list(list, at, room, |inner| self.item(inner, next, names, depth + 1))
            }
            Some(_) => in_item_map(list, at, room, |inner| self.key(inner, names, depth + 1)),
        }
    }

    fn index(&mut self) -> Result<i64, Stop> {
        match until(self.text, &[']']) {
            (_, None) => Err(Stop::End),
            (digits, Some(_)) => parse_index(digits),
        }
    }
}
