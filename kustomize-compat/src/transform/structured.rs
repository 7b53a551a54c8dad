//! Fields in texts that hold YAML or JSON.
//!
//! Owns how such a text is found on a path, changed, and written again.

use chart_compat::json;
use chart_compat::yaml::tree::{self, Kind, Node, Writer};

use crate::error::Error;
use crate::fieldspec::lookup::{at_mut, places};
use crate::fieldspec::path_match::{Found, find};
use crate::format::value_to_json;
use crate::resource::{build_steps, growth};

/// Sets a field below a text on the path.
///
/// # Errors
/// There is no text with YAML on the path, or no such field in it: the path is then one of the object alone.
pub(super) fn set_in_text(
    object: &mut Node,
    value: &Node,
    path: &[String],
    create: Option<Kind>,
) -> Result<(), Error> {
    let none = || Error::text("no structured data found in path");
    let (at, rest) = text_on(object, path).ok_or_else(none)?;
    let field = at_mut(object, &at).ok_or_else(none)?;
    build_steps::count(2 * build_steps::of_text(&field.value))?;
    let mut document = tree::read(&field.value).ok().flatten().ok_or_else(none)?;
    let root = root(&mut document);
    let found = find(root, rest, create)?;
    if found.is_empty() {
        return Err(Error::text("unable to find field in structured data"));
    }
    for one in found {
        if let Found::Place(places) = one
            && let Some(place) = at_mut(root, &places)
        {
            growth::change(place.memory(), value.memory())?;
            if place.kind == Kind::Scalar {
                place.value.clone_from(&value.value);
            } else {
                *place = value.clone();
            }
        }
    }
    field.value = written(&document, &field.value)?;
    Ok(())
}

fn root(document: &mut Node) -> &mut Node {
    if document.kind == Kind::Document && !document.content.is_empty() {
        &mut document.content[0]
    } else {
        document
    }
}

/// The first scalar on a path that goes on behind it.
fn text_on<'p>(object: &Node, path: &'p [String]) -> Option<(Vec<usize>, &'p [String])> {
    for end in 1..path.len() {
        let (before, rest) = path.split_at(end);
        let Ok(Some(at)) = places(object, before) else { continue };
        let field = crate::fieldspec::lookup::at(object, &at)?;
        build_steps::count(build_steps::of_text(&field.value)).ok()?;
        if field.kind == Kind::Scalar && tree::read(&field.value).is_ok() {
            return Some((at, rest));
        }
    }
    None
}

/// A changed document in the form of the text that it was read from.
fn written(document: &Node, original: &str) -> Result<String, Error> {
    let mut writer = Writer::new();
    writer.document(document);
    let text = writer.finish();
    if !original.trim_start().starts_with(['{', '[']) {
        return Ok(text.trim().to_owned());
    }
    let node = match document.content.first() {
        Some(root) if document.kind == Kind::Document => root,
        _ => document,
    };
    let compact = value_to_json(node)?;
    if !(original.contains('\n') && original.contains("  ")) {
        return Ok(compact);
    }
    let data = json::from_slice(compact.as_bytes()).map_err(|e| Error::Json(e.to_string()))?;
    json::to_string_pretty(&data).map_err(|e| Error::Json(e.0.to_owned()))
}
