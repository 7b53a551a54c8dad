//! Values that an administrator sets for all objects of a kind: they beat the objects' own.
//!
//! Owns operator-sdk's form of them: dotted keys whose values are text, with environment variables and a template in it. What it reads of
//! the environment is passed in.

use std::collections::BTreeMap;

use chart_compat::Bytes;
use chart_compat::chart::merge_maps;
use chart_compat::data::{Data, Map};
use chart_compat::functions::with_sprig;
use chart_compat::go::{Arena, Value};
use chart_compat::template::{Exec, Limits, Set, TemplateSet, parse};
use chart_compat::values::strvals;
use chart_compat::yaml::Room;
use serde_json::Value as Json;
use windlass_render::{SystemWorld, object_data};

/// Values over those of objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverrideValues {
    /// Keys as `--set-string` takes them, with their values.
    lines: Vec<(String, String)>,
    /// A map that is merged.
    map: Map,
}

impl OverrideValues {
    /// Those of operator-sdk's file. `variable`: an environment variable, `None` if it is not set.
    ///
    /// # Errors
    /// A variable that is not set, a template that fails, or a key that `--set-string` refuses; the text names the key.
    pub fn of_texts(
        texts: &BTreeMap<String, String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let mut own = Self::default();
        for (key, text) in texts {
            let failed = |error: String| format!("{key:?}: {error}");
            let value = rendered(&expanded(text, &variable).map_err(failed)?).map_err(failed)?;
            own.lines.push((key.clone(), value));
        }
        own.over(Map::new())?;
        Ok(own)
    }

    /// Those of a map: it is merged over the values of an object; null removes.
    #[must_use]
    pub fn of_map(map: &serde_json::Map<String, Json>) -> Self {
        let data = map.iter().map(|(key, value)| (key.clone(), object_data(value)));
        Self { lines: Vec::new(), map: data.collect() }
    }

    /// The values of an object with these over them.
    ///
    /// # Errors
    /// A key leads through a value that is not a map; the text names the key.
    pub fn over(&self, mut values: Map) -> Result<Map, String> {
        let room = Room::default();
        for (key, value) in &self.lines {
            let line = format!("{key}={value}");
            strvals::parse_into_string_within(&mut values, &line, &room)
                .map_err(|error| format!("{key:?}: {error}"))?;
        }
        merge_maps(&mut values, self.map.clone());
        Ok(values)
    }

    /// Each key with its value, for people.
    #[must_use]
    pub fn shown(&self) -> Vec<(String, String)> {
        let mut shown = self.lines.clone();
        leaves("", &self.map, &mut shown);
        shown
    }
}

/// The values of a map that are no maps, with their dotted paths. The map's depth is bounded by what it was read from.
fn leaves(path: &str, map: &Map, shown: &mut Vec<(String, String)>) {
    for (key, value) in map {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        match value {
            Data::Map(inner) if !inner.is_empty() => leaves(&path, inner, shown),
            Data::String(text) => shown.push((path, text.clone())),
            other => shown.push((path, windlass_render::to_json(other).to_string())),
        }
    }
}

/// A text with `$NAME` and `${NAME}` replaced by environment variables. `$$` is a dollar sign, as one before anything else is.
fn expanded(text: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, end) = if let Some(braced) = after.strip_prefix('{') {
            let inner =
                braced.split_once('}').filter(|(name, _)| !name.is_empty() && name.chars().all(is_inner));
            inner.ok_or_else(|| {
                format!("{text:?}: write ${{NAME}} for an environment variable, or $$ for a dollar sign")
            })?
        } else {
            let end = after.find(|c: char| !is_inner(c)).unwrap_or(after.len());
            after.split_at(end)
        };
        rest = end;
        if name.is_empty() {
            out.push('$');
            rest = after.strip_prefix('$').unwrap_or(after);
            continue;
        }
        let value = variable(name).ok_or_else(|| {
            format!("the environment variable {name} is not set: set it, if need be to an empty text, or write $$ for a dollar sign")
        })?;
        out.push_str(&value);
    }
    out.push_str(rest);
    Ok(out)
}

/// A text as a template of sprig, without data.
fn rendered(text: &str) -> Result<String, String> {
    const NAME: &str = "override";
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let funcs = with_sprig(&[]);
    let parsed = parse(NAME, &Bytes::copy_from_slice(text.as_bytes()), &funcs).map_err(|e| e.to_string())?;
    let (arena, store) = (Arena::new(), typed_arena::Arena::new());
    let mut set = TemplateSet::default();
    set.add(&parsed);
    let world = SystemWorld::default();
    let dot = Value::from_data(&arena, &Data::Map(Map::new()));
    let exec = Exec::new(&arena, &store, Set::new(&set), &funcs, &world, Limits::default());
    let out = exec.ok_or("the template cannot be run")?.execute(NAME, dot).map_err(|e| e.to_string())?;
    String::from_utf8(out).map_err(|_| "the template renders text that is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn variable(name: &str) -> Option<String> {
        match name {
            "IMAGE" => Some("r.example.com/web:1".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    fn over(values: &Json, pairs: &[(&str, &str)]) -> Result<Json, String> {
        let Data::Map(values) = object_data(values) else { panic!("a map") };
        let made = OverrideValues::of_texts(&texts(pairs), variable)?.over(values)?;
        Ok(windlass_render::to_json(&Data::Map(made)))
    }

    #[test]
    fn texts_beat_the_values_of_an_object() {
        let own = json!({"image": {"name": "x", "tag": "y"}, "replicas": 3, "hosts": ["a", "b"]});
        for (pairs, path, expected) in [
            (&[("image.name", "$IMAGE")], "/image/name", json!("r.example.com/web:1")),
            (&[("image.name", "${IMAGE}-x")], "/image/name", json!("r.example.com/web:1-x")),
            (&[("image.name", "${EMPTY}")], "/image/name", json!("")),
            (&[("image.name", "$$IMAGE a$")], "/image/name", json!("$IMAGE a$")),
            (&[("image.name", "{{ `a` | upper }}")], "/image/name", json!("A")),
            (&[("replicas", "5")], "/replicas", json!("5")),
            (&[("hosts[1]", "c")], "/hosts", json!(["a", "c"])),
            (&[("new.key", "v")], "/image/tag", json!("y")),
        ] {
            assert_eq!(over(&own, pairs).unwrap().pointer(path), Some(&expected), "{pairs:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_an_error_that_names_the_key() {
        for (pairs, part) in [
            (&[("image", "$MISSING")], "\"image\": the environment variable MISSING is not set"),
            (&[("image", "${MISSING")], "\"image\": \"${MISSING\": write ${NAME}"),
            (&[("image", "{{ fail `no` }}")], "\"image\": "),
            (&[("image", "{{ .x")], "\"image\": "),
            (&[("a[x]", "1")], "\"a[x]\": "),
        ] {
            let error = OverrideValues::of_texts(&texts(pairs), variable).unwrap_err();
            assert!(error.starts_with(part), "{error}");
        }
        let through = over(&json!({"image": "text"}), &[("image.tag", "1")]);
        assert!(through.is_err() || through.unwrap()["image"]["tag"] == "1");
    }

    #[test]
    fn a_map_is_merged_and_shown_by_its_leaves() {
        let map = json!({"image": {"tag": "2", "pull": true}, "gone": null});
        let own = OverrideValues::of_map(map.as_object().unwrap());
        let Data::Map(values) = object_data(&json!({"image": {"name": "x", "tag": "1"}, "port": 9080}))
        else {
            panic!("a map")
        };
        let merged = windlass_render::to_json(&Data::Map(own.over(values).unwrap()));
        assert_eq!(merged["image"], json!({"name": "x", "tag": "2", "pull": true}));
        let mut shown = own.shown();
        shown.sort();
        let shown: Vec<String> = shown.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(shown, ["gone=null", "image.pull=true", "image.tag=2"]);
    }
}
