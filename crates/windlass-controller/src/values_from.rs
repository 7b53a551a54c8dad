//! Values that stand in Secrets and ConfigMaps, as Flux's `valuesFrom` refers to them.
//!
//! Owns the form of a reference and the reading of what it refers to. Values of Secrets appear in no error.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::chart::merge_maps;
use chart_compat::data::{Data, Map};
use chart_compat::values::strvals;
use chart_compat::yaml::{self, Room};

use windlass_cluster::Cluster;
use windlass_render::lookup_object;
use windlass_render::replay::{LookupQuery, answer_digest};

/// The key of an object's data that holds values, unless another is named.
const DEFAULT_KEY: &str = "values.yaml";

/// References of one list at most.
const MAX_REFERENCES: usize = 50;

/// A key of a Secret or ConfigMap that holds values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesReference {
    /// Kind of the object: `Secret` or `ConfigMap`.
    pub kind: String,
    /// The object's name, in the namespace of who refers to it.
    pub name: String,
    /// The key of its data; `values.yaml` by default.
    pub values_key: String,
    /// Where the text goes, as `--set-literal` takes a path; absent: the text is a map of values.
    pub target_path: Option<String>,
    /// The object or its key may be absent.
    pub optional: bool,
}

impl Default for ValuesReference {
    fn default() -> Self {
        Self {
            kind: String::new(),
            name: String::new(),
            values_key: DEFAULT_KEY.to_owned(),
            target_path: None,
            optional: false,
        }
    }
}

/// Why a reference has no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingText {
    /// The object does not exist.
    Object,
    /// The object has no such key.
    Key,
    /// The key of the Secret is not valid base64.
    Base64,
    /// The key of the Secret is not valid UTF-8.
    Utf8,
}

impl ValuesReference {
    /// Reads a YAML list of references.
    ///
    /// # Errors
    /// What is wrong with which entry, in words.
    pub fn list(text: &str) -> Result<Vec<Self>, String> {
        let items = yaml::from_slice_list(text.as_bytes()).map_err(|e| e.to_string())?;
        if items.len() > MAX_REFERENCES {
            return Err(format!("{} references; no more than {MAX_REFERENCES} are read", items.len()));
        }
        let entry =
            |(at, item): (usize, &Data)| Self::entry(item).map_err(|e| format!("entry {}: {e}", at + 1));
        items.iter().enumerate().map(entry).collect()
    }

    fn entry(item: &Data) -> Result<Self, String> {
        let Data::Map(map) = item else { return Err("it is not a map of kind and name".to_owned()) };
        let mut text = BTreeMap::new();
        let mut optional = false;
        for (key, value) in map {
            match (key.as_str(), value) {
                ("kind" | "name" | "valuesKey" | "targetPath", Data::String(value)) if !value.is_empty() => {
                    text.insert(key.as_str(), value.clone());
                }
                ("optional", Data::Bool(value)) => optional = *value,
                ("kind" | "name" | "valuesKey" | "targetPath" | "optional", _) => {
                    return Err(format!("{key} has a value of the wrong type"));
                }
                _ => {
                    return Err(format!(
                        "{key} is unknown; there are kind, name, valuesKey, targetPath and optional"
                    ));
                }
            }
        }
        let kind = text.remove("kind").ok_or("kind is missing: Secret or ConfigMap")?;
        check_kind(&kind)?;
        Ok(Self {
            kind,
            name: text.remove("name").ok_or("name is missing")?,
            values_key: text.remove("valuesKey").unwrap_or_else(|| DEFAULT_KEY.to_owned()),
            target_path: text.remove("targetPath"),
            optional,
        })
    }

    /// The object as a query to the API server.
    #[must_use]
    pub fn query(&self, namespace: &str) -> LookupQuery {
        LookupQuery::new("v1", &self.kind, namespace, &self.name)
    }

    /// The text that an object (`None`: it does not exist) has at the key.
    ///
    /// # Errors
    /// There is none.
    pub fn text_of(&self, object: Option<&Data>) -> Result<String, MissingText> {
        let object = object.ok_or(MissingText::Object)?;
        let data = object.as_map().and_then(|object| object.get("data")?.as_map());
        let Some(Data::String(held)) = data.and_then(|data| data.get(&self.values_key)) else {
            return Err(MissingText::Key);
        };
        if self.kind != "Secret" {
            return Ok(held.clone());
        }
        let bytes = STANDARD.decode(held).map_err(|_| MissingText::Base64)?;
        String::from_utf8(bytes).map_err(|_| MissingText::Utf8)
    }

    /// Merges what the object (`None`: it does not exist) holds into values, within the room of all references.
    ///
    /// # Errors
    /// The object or its key is missing or holds no values: the text names it, and no value.
    pub fn merge_into(&self, object: Option<&Data>, values: &mut Map, room: &Room) -> Result<(), String> {
        let Self { kind, name, values_key, .. } = self;
        let text = match self.text_of(object) {
            Ok(text) => text,
            Err(MissingText::Object | MissingText::Key) if self.optional => return Ok(()),
            Err(MissingText::Object) => return Err(format!("{kind} {name} is missing")),
            Err(MissingText::Key) => return Err(format!("{kind} {name} has no key {values_key}")),
            Err(MissingText::Base64) => {
                return Err(format!("{kind} {name}: key {values_key} is not valid base64"));
            }
            Err(MissingText::Utf8) => {
                return Err(format!("{kind} {name}: key {values_key} is not valid UTF-8"));
            }
        };
        match &self.target_path {
            // The text of another error would show what stands in the Secret.
            Some(path) => {
                strvals::parse_literal_within(values, &format!("{path}={text}"), room).map_err(|error| {
                    match error.is_of_room() {
                        true => format!("{kind} {name}: targetPath {path:?}: {error}"),
                        false => format!(
                            "{kind} {name}: targetPath {path:?} is not a path into values{}",
                            fault(path)
                        ),
                    }
                })
            }
            // The text of the error would show what stands in the Secret.
            None => {
                let read = yaml::from_slice_map_within(text.as_bytes(), room).map_err(|_| {
                    match room.exceeded() {
                        Some(why) => format!("{kind} {name}: key {values_key}: {why}"),
                        None => format!("{kind} {name}: key {values_key} is not a YAML map"),
                    }
                })?;
                merge_maps(values, read);
                Ok(())
            }
        }
    }
}

/// What is wrong with a path, if its grammar is: the parser's error with another text than a Secret's.
fn fault(path: &str) -> String {
    let parsed = strvals::parse_literal(&mut Map::new(), &format!("{path}=x"));
    parsed.err().map_or_else(String::new, |error| format!(": {error}"))
}

/// Refuses kinds that hold no values.
///
/// # Errors
/// The kind is neither `Secret` nor `ConfigMap`.
pub fn check_kind(kind: &str) -> Result<(), String> {
    match kind {
        "Secret" | "ConfigMap" => Ok(()),
        _ => Err(format!("kind {kind:?} is neither Secret nor ConfigMap")),
    }
}

/// What lists of references resolve to.
#[derive(Default)]
pub struct ResolvedValues {
    /// Values by list, later references over earlier ones; or why there are none.
    pub lists: BTreeMap<String, Result<Map, String>>,
    /// Digests of what was read, for an [`super::AnswerWatch`].
    pub seen: BTreeMap<LookupQuery, String>,
}

/// Reads everything that lists of references refer to.
pub async fn resolve(
    cluster: &Cluster,
    namespace: &str,
    references: &BTreeMap<String, Vec<ValuesReference>>,
) -> ResolvedValues {
    let mut resolved = ResolvedValues::default();
    let room = Room::default();
    for (key, list) in references {
        let mut values = Ok(Map::new());
        for reference in list {
            let query = reference.query(namespace);
            let object = match lookup_object(cluster, &query).await {
                Ok(object) => object,
                Err(e) => {
                    values = Err(format!("{} {}: {e}", reference.kind, reference.name));
                    continue;
                }
            };
            let digest = answer_digest(object.as_ref().unwrap_or(&Data::Map(Map::new())));
            resolved.seen.insert(query, digest);
            if let Ok(map) = &mut values
                && let Err(text) = reference.merge_into(object.as_ref(), map, &room)
            {
                values = Err(text);
            }
        }
        resolved.lists.insert(key.clone(), values);
    }
    resolved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let text = "- {kind: Secret, name: db}\n- {kind: ConfigMap, name: c, valuesKey: k, targetPath: a.b, optional: true}\n";
        let list = ValuesReference::list(text).unwrap();
        assert_eq!((list[0].values_key.as_str(), list[0].optional), ("values.yaml", false));
        assert_eq!((list[1].target_path.as_deref(), list[1].optional), (Some("a.b"), true));
        for (text, part) in [
            ("a: 1", "cannot unmarshal"),
            ("- x", "entry 1: it is not a map"),
            ("- {kind: Secret, name: x}\n- {kind: Pod, name: x}", "entry 2: kind \"Pod\" is neither"),
            ("- {name: x}", "kind is missing"),
            ("- {kind: Secret}", "name is missing"),
            ("- {kind: Secret, name: 1}", "name has a value of the wrong type"),
            ("- {kind: Secret, name: a, namespace: b}", "namespace is unknown"),
        ] {
            let error = ValuesReference::list(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn what_is_referred_to_is_laid_over_and_never_told() {
        let object = |text: &str| windlass_render::from_json(&windlass_render::parse_manifest(text).unwrap());
        let secret = object(
            "data: {values.yaml: YTogMQpiOiB7YzogMn0=, word: czNjcjN0LGE9Yg==, bad: '%%', odd: czNjcjN0}",
        );
        let laid = |list: &str| {
            let mut values = Map::new();
            for reference in ValuesReference::list(list).unwrap() {
                reference.merge_into(Some(&secret), &mut values, &Room::default())?;
            }
            Ok::<_, String>(windlass_render::to_json(&Data::Map(values)).to_string())
        };
        assert_eq!(
            laid("[{kind: Secret, name: s}, {kind: Secret, name: s, valuesKey: word, targetPath: b.d}]")
                .unwrap(),
            r#"{"a":1,"b":{"c":2,"d":"s3cr3t,a=b"}}"#
        );
        assert_eq!(laid("[{kind: Secret, name: s, valuesKey: none, optional: true}]").unwrap(), "{}");
        for (list, text) in [
            ("[{kind: Secret, name: s, valuesKey: none}]", "Secret s has no key none"),
            ("[{kind: Secret, name: s, valuesKey: bad}]", "Secret s: key bad is not valid base64"),
            ("[{kind: Secret, name: s, valuesKey: odd}]", "Secret s: key odd is not a YAML map"),
        ] {
            assert_eq!(laid(list).unwrap_err(), text);
        }
        let mut values = Map::new();
        let gone = ValuesReference::list("[{kind: Secret, name: s}]").unwrap().remove(0).merge_into(
            None,
            &mut values,
            &Room::default(),
        );
        assert_eq!(gone.unwrap_err(), "Secret s is missing");
    }
}
