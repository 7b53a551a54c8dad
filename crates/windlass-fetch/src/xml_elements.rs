//! Answers in XML: the elements in their order, with their text. Knows nothing of what they mean.

use quick_xml::Reader;
use quick_xml::events::Event;

/// An element's begin or end.
pub(crate) enum Element<'x> {
    /// Its name, and whether an attribute says that its text is percent-encoded.
    Start(&'x str, bool),
    /// Its name and its text.
    End(&'x str, &'x str),
}

/// A document is not XML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MalformedXml(String);

/// Reads a document, element by element.
///
/// # Errors
/// It is not XML, or the visitor's.
pub(crate) fn read<E: From<MalformedXml>>(
    xml: &[u8],
    mut visit: impl FnMut(Element<'_>) -> Result<(), E>,
) -> Result<(), E> {
    let text = std::str::from_utf8(xml).map_err(|e| MalformedXml(e.to_string()))?;
    let mut reader = Reader::from_str(text.trim_start_matches('\u{feff}'));
    let mut value = String::new();
    loop {
        match reader.read_event().map_err(|e| MalformedXml(e.to_string()))? {
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
fn entity(name: &str) -> Result<char, MalformedXml> {
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
    found.ok_or_else(|| MalformedXml(format!("unknown entity {name:?}")))
}
