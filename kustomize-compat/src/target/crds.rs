//! Fields that OpenAPI definitions of `crds` mark.
//!
//! Owns the marks: annotations, selectors, identities and references.

use std::sync::Arc;

use chart_compat::data::{Data, Map};
use chart_compat::{json, yaml};

use crate::error::Error;
use crate::fieldspec::{BackReference, Config, FieldSpec, List};
use crate::generate::Load;
use crate::resource::Gvk;

/// How deep definitions name each other.
const MAX_DEPTH: usize = 100;

pub(super) fn load(paths: &[String], load: Load<'_>) -> Result<Arc<Config>, Error> {
    let mut all = Config::default();
    for path in paths {
        let content = load(path)?;
        let failed =
            |e: String| Error::text(format!("unable to parse open API definition from '{path}': {e}"));
        let definitions = parse(&content).map_err(failed)?;
        for (name, definition) in &definitions {
            if !is_kind(definition) {
                continue;
            }
            let kind = name.rsplit('.').next().unwrap_or_default().to_owned();
            let reader = Reader { definitions: &definitions, gvk: Gvk { kind, ..Gvk::default() } };
            let mut config = Config::default();
            reader.read(&mut config, name, &mut Vec::new())?;
            all = Arc::unwrap_or_clone(Arc::new(all).merge(&Arc::new(config))?);
        }
    }
    Ok(Arc::new(all))
}

fn parse(content: &[u8]) -> Result<Map, String> {
    let data = match content.first() {
        Some(b'{') => json::from_slice(content).map_err(|e| e.to_string())?,
        _ => yaml::from_slice(content).map_err(|e| format!("error converting YAML to JSON: {e}"))?,
    };
    let wrong = |data: &Data, of: &str| {
        let found = match data {
            Data::List(_) => "array",
            Data::String(_) => "string",
            Data::Bool(_) => "bool",
            _ => "number",
        };
        format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type {of}"
        )
    };
    let mut out = Map::new();
    match &data {
        Data::Null => {}
        Data::Map(map) => {
            for (name, definition) in map {
                match definition {
                    Data::Map(fields) => {
                        let is_schema = |key: &&String| key.eq_ignore_ascii_case("schema");
                        let schema = fields.keys().find(is_schema).and_then(|key| fields.get(key));
                        out.insert(name.clone(), schema.cloned().unwrap_or_default());
                    }
                    Data::Null => {}
                    other => return Err(wrong(other, "accumulator.OpenAPIDefinition")),
                }
            }
        }
        other => return Err(wrong(other, "accumulator.nameToApiMap")),
    }
    Ok(out)
}

fn properties(schema: &Data) -> Option<&Map> {
    schema.get("properties").and_then(Data::as_map)
}

fn is_kind(schema: &Data) -> bool {
    properties(schema)
        .is_some_and(|fields| ["kind", "apiVersion", "metadata"].iter().all(|key| fields.contains_key(*key)))
}

struct Reader<'d> {
    definitions: &'d Map,
    gvk: Gvk,
}

impl Reader<'_> {
    fn read(&self, config: &mut Config, name: &str, path: &mut Vec<String>) -> Result<(), Error> {
        let Some(fields) = self.definitions.get(name).and_then(properties) else { return Ok(()) };
        if path.len() > MAX_DEPTH {
            return Err(Error::text(format!("the definition {name} contains itself")));
        }
        for (field, property) in fields {
            path.push(field.clone());
            self.read_field(config, property, path)?;
            path.pop();
        }
        Ok(())
    }

    fn spec(&self, path: &[String]) -> FieldSpec {
        FieldSpec::new(self.gvk.clone(), &path.join("/"), false)
    }

    fn read_field(&self, config: &mut Config, property: &Data, path: &mut Vec<String>) -> Result<(), Error> {
        let mark = |key: &str| property.get(key).and_then(Data::as_str);
        for (key, list) in [
            ("x-kubernetes-annotation", List::CommonAnnotations),
            ("x-kubernetes-label-selector", List::CommonLabels),
            ("x-kubernetes-identity", List::NamePrefix),
        ] {
            if mark(key).is_some() {
                config.add(list, &self.spec(path))?;
            }
        }
        if let (Some(version), Some(kind)) =
            (mark("x-kubernetes-object-ref-api-version"), mark("x-kubernetes-object-ref-kind"))
        {
            let name = mark("x-kubernetes-object-ref-name-key").unwrap_or("name");
            path.push(name.to_owned());
            let target = Gvk { group: String::new(), version: version.to_owned(), kind: kind.to_owned() };
            config.add_reference(&BackReference { target, referrers: vec![self.spec(path)] })?;
            path.pop();
        }
        match mark("$ref") {
            Some(name) => self.read(config, name, path),
            None => Ok(()),
        }
    }
}
