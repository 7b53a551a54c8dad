//! Values of a HelmChart and its HelmChartConfig in their precedence. Pure.
//!
//! Owns the order of the layers and what `set` means. Texts out of Secrets stand in no error.

use std::collections::BTreeMap;

use chart_compat::chart::{merge_maps, read_values_within};
use chart_compat::data::Map;
use chart_compat::profile::Profile;
use chart_compat::values::strvals;
use chart_compat::yaml::Room;
use serde_json::Value;

/// The text of a values file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ValuesText {
    /// Where it is from, for errors.
    pub(crate) name: String,
    pub(crate) text: Vec<u8>,
    /// It is a Secret's: errors do not quote it.
    pub(crate) secret: bool,
}

impl ValuesText {
    /// The text of a field; `None` if it is empty.
    pub(crate) fn field(name: &str, text: &str) -> Option<Self> {
        let text = Self { name: name.to_owned(), text: text.as_bytes().to_vec(), secret: false };
        (!text.text.is_empty()).then_some(text)
    }

    /// The fields of an object as JSON; `None` if there are none.
    pub(crate) fn fields(name: &str, values: &serde_json::Map<String, Value>) -> Option<Self> {
        let text = serde_json::to_vec(values).unwrap_or_default();
        (!values.is_empty()).then(|| Self { name: name.to_owned(), text, secret: false })
    }

    fn read(&self, room: &Room) -> Result<Map, String> {
        read_values_within(&self.text, Profile::Helm4, room).map_err(|error| match room.exceeded() {
            Some(why) => format!("{}: {why}", self.name),
            None if self.secret => format!("{}: it is not a YAML map", self.name),
            None => format!("{}: {error}", self.name),
        })
    }
}

/// Merges the layers in ascending precedence, and `set` over them.
///
/// # Errors
/// A layer is not a YAML map, or a path of `set` is invalid. The text names it.
pub(crate) fn merged(layers: &[ValuesText], set: &BTreeMap<String, Value>) -> Result<Map, String> {
    let room = Room::default();
    let mut values = Map::new();
    for layer in layers {
        merge_maps(&mut values, layer.read(&room)?);
    }
    let failed = |path: &str, error: strvals::Error| format!("spec.set: {path:?}: {error}");
    // Helm takes all --set before the first --set-string.
    for (path, text) in typed(set) {
        strvals::parse_into_within(&mut values, &format!("{path}={text}"), &room)
            .map_err(|e| failed(path, e))?;
    }
    for (path, text) in texts(set) {
        let line = format!("{path}={}", with_escaped_commas(text));
        strvals::parse_into_string_within(&mut values, &line, &room).map_err(|e| failed(path, e))?;
    }
    Ok(values)
}

/// Integers and the words of booleans and null: values of `--set`.
fn typed(set: &BTreeMap<String, Value>) -> impl Iterator<Item = (&str, String)> {
    set.iter().filter_map(|(path, value)| match value {
        Value::String(text) if is_word(text) => Some((path.as_str(), text.clone())),
        Value::String(_) => None,
        other => Some((path.as_str(), other.to_string())),
    })
}

/// All else: values of `--set-string`.
fn texts(set: &BTreeMap<String, Value>) -> impl Iterator<Item = (&str, &str)> {
    set.iter().filter_map(|(path, value)| {
        let text = value.as_str().filter(|text| !is_word(text))?;
        Some((path.as_str(), text))
    })
}

fn is_word(text: &str) -> bool {
    ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The text with a backslash before each comma that none escapes.
fn with_escaped_commas(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escaped = false;
    for c in text.chars() {
        if c == ',' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use chart_compat::json;
    use serde_json::json;

    fn of(layers: &[(&str, &str)], set: Value) -> Result<String, String> {
        let text = |(name, text): &(&str, &str)| ValuesText {
            name: (*name).to_owned(),
            text: text.as_bytes().to_vec(),
            secret: name.starts_with("Secret"),
        };
        let layers: Vec<ValuesText> = layers.iter().map(text).collect();
        let set: BTreeMap<String, Value> = serde_json::from_value(set).unwrap();
        merged(&layers, &set).map(|values| json::to_string(&values.into()).unwrap())
    }

    #[test]
    fn later_layers_and_set_win() {
        type Row<'a> = (&'a [(&'a str, &'a str)], Value, &'a str);
        let rows: [Row<'_>; 12] = [
            (&[], json!({}), "{}"),
            (&[("a", "x: {b: 1, z: 1}"), ("b", "x: {b: 2}")], json!({}), r#"{"x":{"b":2,"z":1}}"#),
            (&[("a", "x: [1, 2]"), ("b", "x: [3]")], json!({}), r#"{"x":[3]}"#),
            // A null of a later file stays, for the merge with the chart's values.
            (&[("a", "x: 1"), ("b", "x: null")], json!({}), r#"{"x":null}"#),
            (&[("a", "x: 1")], json!({"x": 2}), r#"{"x":2}"#),
            (&[("a", "# nothing")], json!({"a.b": "1"}), r#"{"a":{"b":"1"}}"#),
            (
                &[],
                json!({"a": "true", "b": "TRUE", "c": "null", "d": "yes"}),
                r#"{"a":true,"b":true,"c":null,"d":"yes"}"#,
            ),
            (&[], json!({"a": "1,2"}), r#"{"a":"1,2"}"#),
            (&[], json!({"a": "1\\,2"}), r#"{"a":"1,2"}"#),
            (&[], json!({"a": "007", "b": "1e3"}), r#"{"a":"007","b":"1e3"}"#),
            (&[("a", "l: [{m: 1}]")], json!({"l[0].m": 5, "l[1].m": "x"}), r#"{"l":[{"m":5},{"m":"x"}]}"#),
            (&[], json!({"a": "{x,y}"}), r#"{"a":["x,y"]}"#),
        ];
        for (text, typed) in [
            ("", false),
            (" ", false),
            ("1.0", false),
            ("0", false),
            ("TrUe", true),
            ("FaLsE", true),
            ("NuLl", true),
        ] {
            assert_eq!(is_word(text), typed, "{text:?}");
        }
        for (layers, set, expected) in rows {
            assert_eq!(of(layers, set.clone()).as_deref(), Ok(expected), "{layers:?} {set}");
        }
    }

    #[test]
    fn errors_name_the_layer_and_quote_no_secret() {
        let error = of(&[("spec.valuesContent", "a: [")], json!({})).unwrap_err();
        assert!(error.starts_with("spec.valuesContent: "), "{error}");
        let error = of(&[("Secret web/x, key v", "password: hunter2: x")], json!({})).unwrap_err();
        assert_eq!(error, "Secret web/x, key v: it is not a YAML map");
        let error = of(&[("a", "x: 1")], json!({"l[-1]": 1})).unwrap_err();
        assert!(error.starts_with("spec.set: \"l[-1]\": "), "{error}");
    }

    #[test]
    fn commas_are_escaped_once() {
        for (text, expected) in [
            ("a,b", r"a\,b"),
            (r"a\,b", r"a\,b"),
            (r"a\\,b", r"a\\\,b"),
            (",", r"\,"),
            ("", ""),
            (r"a\", r"a\"),
        ] {
            assert_eq!(with_escaped_commas(text), expected);
        }
    }
}
