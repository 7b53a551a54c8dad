//! Composition of a HelmRelease's values: `valuesFrom` in order, then `values`.
//!
//! Gives what helm-controller's `ChartValuesFromReferences` gives, aliasing included: a `targetPath` writes into maps that the
//! result shares with the inline `values`, and then survives their last merge; elsewhere the inline value wins. The digest of
//! the values depends on it. Reads nothing: references are resolved by the caller.

use std::collections::BTreeMap;

use chart_compat::chart::merge_maps;
use chart_compat::data::{Data, Map};
use chart_compat::values::strvals;
use chart_compat::yaml::{self, Room};

use super::super::error::FluxError;

/// Marks a map that the result shares with the inline values while a path is set. No key of a values file can have it.
const SHARED: &str = "\u{0}shared";

/// An entry of `valuesFrom` whose object and key exist.
#[derive(Clone, Debug)]
pub(super) struct ValuesSource {
    /// Names it in errors: `Secret ns/name, key k`.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) target_path: Option<String>,
    /// The text is one string, whatever it contains.
    pub(super) literal: bool,
}

/// What of the result is the same object as in the inline values.
enum Shared {
    /// The value itself, with everything in it.
    Whole,
    /// A map of its own, with shared values in it.
    Within(BTreeMap<String, Shared>),
}

/// Composes values. `None` of `inline` is what a HelmRelease without `values` has.
///
/// # Errors
/// A source is not a YAML map, or a path cannot be set; the text names the source, not its content.
pub(super) fn compose(sources: &[ValuesSource], inline: &Map) -> Result<Map, FluxError> {
    let mut inline = inline.clone();
    let mut result = Map::new();
    let room = Room::default();
    for source in sources {
        let Some(path) = source.target_path.as_deref().filter(|path| !path.is_empty()) else {
            let values =
                yaml::from_slice_map_within(source.text.as_bytes(), &room).map_err(|_| {
                    match room.exceeded() {
                        Some(why) => format!("{}: {why}", source.name),
                        None => format!("{} is not a YAML map", source.name),
                    }
                })?;
            merge_maps(&mut result, values);
            continue;
        };
        let shared = shared_after_merge(&result, &inline);
        merge_maps(&mut result, inline.clone());
        mark(&mut result, &shared);
        let set = set_path(&mut result, path, &source.text, source.literal, &room);
        let replaced = (!source.literal && source.text.starts_with('{')).then_some(path);
        write_back(&mut result, &mut inline, &shared, "", replaced);
        set.map_err(|error| {
            // The index may stand in the text, which may be a Secret's.
            let why = match error.is_of_room() {
                true => "lists that indexes fill up take too much memory".to_owned(),
                false => refusal(path, source),
            };
            format!("{} cannot be set at targetPath {path:?}: {why}", source.name)
        })?;
    }
    merge_maps(&mut result, inline);
    Ok(result)
}

/// What is shared once the inline values are merged in: whatever replaces or adds a value.
fn shared_after_merge(result: &Map, inline: &Map) -> BTreeMap<String, Shared> {
    let mut shared = BTreeMap::new();
    for (key, value) in inline {
        let entry = match (result.get(key), value) {
            (Some(Data::Map(old)), Data::Map(new)) => Shared::Within(shared_after_merge(old, new)),
            (_, Data::Map(_) | Data::List(_)) => Shared::Whole,
            _ => continue,
        };
        shared.insert(key.clone(), entry);
    }
    shared
}

/// Marks the shared maps.
fn mark(map: &mut Map, shared: &BTreeMap<String, Shared>) {
    for (key, entry) in shared {
        match (map.get_mut(key), entry) {
            (Some(Data::Map(inner)), Shared::Whole) => {
                inner.insert(SHARED.to_owned(), Data::Null);
            }
            (Some(Data::Map(inner)), Shared::Within(within)) => mark(inner, within),
            _ => {}
        }
    }
}

/// Copies what a path set in shared values to the inline ones, and removes the marks. A value that was replaced is not shared.
/// `replaced`: the path of a list that was set as a whole; `at`: the path of `map`.
fn write_back(
    map: &mut Map,
    inline: &mut Map,
    shared: &BTreeMap<String, Shared>,
    at: &str,
    replaced: Option<&str>,
) {
    for (key, entry) in shared {
        let key_path = format!("{at}{}", key.replace('.', "\\."));
        match (map.get_mut(key), inline.get_mut(key), entry) {
            (Some(Data::Map(inner)), Some(own), Shared::Whole) => {
                let is_same = inner.remove(SHARED).is_some();
                if is_same {
                    *own = Data::Map(inner.clone());
                }
            }
            // Entries of a list are set in place; a longer list is a new one.
            (Some(Data::List(list)), Some(Data::List(own)), Shared::Whole)
                if list.len() == own.len() && replaced != Some(key_path.as_str()) =>
            {
                own.clone_from(list);
            }
            (Some(Data::Map(inner)), Some(Data::Map(own)), Shared::Within(within)) => {
                write_back(inner, own, within, &format!("{key_path}."), replaced);
            }
            _ => {}
        }
    }
}

/// Sets a path to a text as `--set` does: a quoted text is a string, and so is a literal one.
fn set_path(
    values: &mut Map,
    path: &str,
    text: &str,
    literal: bool,
    room: &Room,
) -> Result<(), strvals::Error> {
    if literal {
        let mut escaped = String::with_capacity(text.len());
        for c in text.chars() {
            if matches!(c, '\\' | ',' | '[' | ']' | '{' | '}') {
                escaped.push('\\');
            }
            escaped.push(c);
        }
        return strvals::parse_into_string_within(values, &format!("{path}={escaped}"), room);
    }
    let quoted = |quote| text.starts_with(quote) && text.ends_with(quote);
    if quoted('\'') || quoted('"') {
        let text = text.trim_matches(['\'', '"']);
        return strvals::parse_into_string_within(values, &format!("{path}={text}"), room);
    }
    strvals::parse_into_within(values, &format!("{path}={text}"), room)
}

/// Why a text cannot be set at a path, and what to do. The parser's error would quote the text, which may be a Secret's: it is shown
/// only where it is about the path.
fn refusal(path: &str, source: &ValuesSource) -> String {
    if let Err(error) = set_path(&mut Map::new(), path, "x", source.literal, &Room::default()) {
        return format!("it is not a path of --set: {error}");
    }
    if set_path(&mut Map::new(), path, &source.text, source.literal, &Room::default()).is_ok() {
        return "a value above it, of an earlier source or of spec.values, is neither a map nor a list"
            .to_owned();
    }
    let remedy = "set literal: true to take the whole text as one string";
    if source.text.starts_with('{') {
        return format!(
            "a text that begins with {{ is a list, as with --set, and must end with }}; {remedy}"
        );
    }
    match has_separator(&source.text) {
        true => format!(
            "a comma in the text separates assignments, as with --set; {remedy}, or write \\, for each comma in it"
        ),
        false => format!("the text is not a value of --set; {remedy}"),
    }
}

/// Whether a text has a comma that no backslash escapes.
fn has_separator(text: &str) -> bool {
    let mut escaped = false;
    text.chars().any(|c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chart_compat::json;

    fn source(text: &str, path: &str, literal: bool) -> ValuesSource {
        let target_path = (!path.is_empty()).then(|| path.to_owned());
        ValuesSource { name: "Secret ns/s, key k".to_owned(), text: text.to_owned(), target_path, literal }
    }

    /// Each row: sources as (text, path), inline values, result: as helm-controller 1.6.3 gives it.
    #[test]
    fn values_are_composed_as_by_flux() {
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);
        let rows: [Row<'_>; 12] = [
            (&[], "{a: 1}", r#"{"a":1}"#),
            (
                &[("a: {b: 1, c: 2}\nl: [1]", ""), ("a: {b: 3}\nl: [2]", "")],
                "{a: {d: 4}}",
                r#"{"a":{"b":3,"c":2,"d":4},"l":[2]}"#,
            ),
            // The map is shared: the path wins.
            (&[("x", "a.b")], "{a: {b: 1, c: 2}}", r#"{"a":{"b":"x","c":2}}"#),
            // The root is not: the inline value wins.
            (&[("x", "a")], "{a: 1}", r#"{"a":1}"#),
            // An earlier source created the parent: the inline value wins.
            (&[("a: {z: 0}", ""), ("x", "a.b")], "{a: {b: 1}}", r#"{"a":{"b":1,"z":0}}"#),
            // A second path merges once more, which copies the map: only the first survives.
            (&[("x", "a.b"), ("y", "a.c")], "{a: {b: 1, c: 2}}", r#"{"a":{"b":"x","c":2}}"#),
            (&[("x", "a.b.c")], "{a: {b: {c: 1}}}", r#"{"a":{"b":{"c":"x"}}}"#),
            // A path that replaces the shared map itself does not change the inline one.
            (&[("x", "a")], "{a: {b: 1}}", r#"{"a":{"b":1}}"#),
            (&[("x", "n.m")], "{a: 1}", r#"{"a":1,"n":{"m":"x"}}"#),
            (&[("x", "l[0]")], "{l: [1, 2]}", r#"{"l":["x",2]}"#),
            (&[("'5'", "a.b")], "{a: {}}", r#"{"a":{"b":"5"}}"#),
            (&[("1,a.c=2", "a.b")], "{a: {}}", r#"{"a":{"b":1,"c":2}}"#),
        ];
        for (sources, inline, expected) in rows {
            let list: Vec<ValuesSource> =
                sources.iter().map(|(text, path)| source(text, path, false)).collect();
            let inline = yaml::from_slice_map(inline.as_bytes()).unwrap();
            let values = compose(&list, &inline).unwrap();
            assert_eq!(json::to_string(&values.into()).unwrap(), expected, "{sources:?}");
        }
    }

    /// Generated cases with the answers of Flux's own code (`tests/tools/flux-values`).
    #[test]
    fn generated_values_are_composed_as_by_flux() {
        let path =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/flux-values/cases.jsonl");
        let mut wrong = Vec::new();
        let mut composed = 0;
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let case: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |v: &serde_json::Value| v.as_str().unwrap_or_default().to_owned();
            let sources: Vec<ValuesSource> = case["sources"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|s| source(&text(&s["text"]), &text(&s["targetPath"]), s["literal"] == true))
                .collect();
            let Data::Map(inline) = windlass_render::from_json(&case["values"]) else { panic!("{line}") };
            let found = compose(&sources, &inline).ok();
            let digest = found.as_ref().map(crate::helmrelease::digest::config_digest).unwrap_or_default();
            composed += usize::from(found.is_some());
            if digest != text(&case["digest"]) {
                wrong.push(format!("{line}\n  found {:?}", found.map(|map| json::to_string(&map.into()))));
            }
        }
        assert!(composed > 200, "{composed}");
        assert!(
            wrong.is_empty(),
            "{}: {}",
            wrong.len(),
            wrong.iter().take(8).cloned().collect::<Vec<_>>().join("\n")
        );
    }

    #[test]
    fn literal_texts_are_set_whole_and_errors_do_not_quote_them() {
        let text = "a,b={c}[0]\\n\nline";
        let values = compose(&[source(text, "file.cfg\\.ini", true)], &Map::new()).unwrap();
        let expected = format!(r#"{{"file":{{"cfg.ini":{}}}}}"#, serde_json::Value::from(text));
        assert_eq!(json::to_string(&values.into()).unwrap(), expected);
        for (source, expected) in [
            (source("- s3cr3t", "", false), "Secret ns/s, key k is not a YAML map"),
            (
                source("s3cr3t", "a[x]", false),
                "Secret ns/s, key k cannot be set at targetPath \"a[x]\": it is not a path of --set: error parsing index: \
                 strconv.Atoi: parsing \"x\": invalid syntax",
            ),
        ] {
            assert_eq!(compose(&[source], &Map::new()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn errors_say_why_a_text_cannot_be_set() {
        let comma = "a comma in the text separates assignments, as with --set; set literal: true to take the whole text as one \
                     string, or write \\, for each comma in it";
        let list = "a text that begins with { is a list, as with --set, and must end with }; set literal: true to take the whole \
                    text as one string";
        let above = "a value above it, of an earlier source or of spec.values, is neither a map nor a list";
        for (text, path, expected) in [
            ("s3:1,s3:2", "a.b", comma),
            ("s\\,3,x", "a", comma),
            ("\"s3,x\"", "a[0]", comma),
            ("{s3", "a", list),
            ("{s3,x", "a", list),
            ("{s3}x", "a", list),
            ("s3", "num.x", above),
            ("s3", "num[0]", above),
        ] {
            let inline = yaml::from_slice_map(b"num: 1").unwrap();
            let error = compose(&[source(text, path, false)], &inline).unwrap_err().to_string();
            let start = format!("Secret ns/s, key k cannot be set at targetPath {path:?}: ");
            assert_eq!(error.strip_prefix(&start), Some(expected), "{text}");
        }
        // As Flux: each part is an assignment of its own.
        let values = compose(&[source("s3:1,x=s3:2", "a", false)], &Map::new()).unwrap();
        assert_eq!(json::to_string(&values.into()).unwrap(), r#"{"a":"s3:1","x":"s3:2"}"#);
        // With literal: true none of these texts is refused.
        for text in ["s3:1,s3:2", "s3,", "{s3", "{s3}x"] {
            compose(&[source(text, "a.b", true)], &Map::new()).unwrap();
        }
    }
}
