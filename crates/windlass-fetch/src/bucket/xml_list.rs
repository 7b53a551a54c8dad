//! Lists of objects in XML: the elements, with their text.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::BucketError;

/// An element's begin or end.
pub(super) enum Element<'x> {
    /// Its name, and whether an attribute says that its text is percent-encoded.
    Start(&'x str, bool),
    /// Its name and its text.
    End(&'x str, &'x str),
}

pub(super) fn malformed(why: &str) -> BucketError {
    BucketError::Answer(format!("the list of the bucket is malformed: {why}"))
}

/// Reads a document, element by element.
pub(super) fn read(
    xml: &[u8],
    mut visit: impl FnMut(Element<'_>) -> Result<(), BucketError>,
) -> Result<(), BucketError> {
    let text = std::str::from_utf8(xml).map_err(|e| malformed(&e.to_string()))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut value = String::new();
    loop {
        match reader.read_event().map_err(|e| malformed(&e.to_string()))? {
            Event::Eof => return Ok(()),
            Event::Start(start) => {
                value.clear();
                let encoded = start.try_get_attribute("Encoded").ok().flatten();
                visit(Element::Start(start.name().as_ref(), encoded.is_some_and(|a| &*a.value == "true")))?;
            }
            Event::Text(part) => value.push_str(&part.xml10_content()),
            Event::GeneralRef(name) => value.push(entity(name.as_ref())?),
            Event::End(end) => {
                visit(Element::End(end.name().as_ref(), &value))?;
                value.clear();
            }
            _ => {}
        }
    }
}

/// The character of an entity.
fn entity(name: &str) -> Result<char, BucketError> {
    let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
    let found = match name {
        "quot" => Some('"'),
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "apos" => Some('\''),
        other => other.strip_prefix("#x").map_or_else(
            || other.strip_prefix('#').and_then(|digits| number(digits, 10)),
            |digits| number(digits, 16),
        ),
    };
    found.ok_or_else(|| malformed(&format!("unknown entity {name:?}")))
}
