//! OpenAPI schemas of values: the files `config-values.yaml` and `values.yaml` of a directory.
//!
//! Owns how the files become the three schemas that validate values, as in addon-operator's `pkg/values/validation`: expanded
//! references, `x-extend`, `additionalProperties: false` by default, `x-required-for-helm`, rules in CEL, defaults. Knows no modules
//! and no layers of values. The JSON Schema validator of chart-compat gives a schema its meaning (OpenAPI 3.0 is draft 4 with `nullable`).

pub mod case_tests;
mod cel_rules;
mod defaults;
mod examples;

use std::path::{Path, PathBuf};

use chart_compat::data::{Data, Map};
use chart_compat::render::Schema as Checker;
use chart_compat::yaml;
use serde_json::{Map as Object, Value, json};

use cel_rules::Rule;

use windlass_base::bounded_read;
use windlass_base::redact;
use windlass_render::{from_json, to_json};

/// How deep references may lead.
const MAX_DEPTH: usize = 64;
/// How many schemas a file may expand to.
const MAX_NODES: usize = 200_000;
/// The depth of a file with its references.
const MAX_TREE_DEPTH: usize = 500;
/// How many bytes of text a file may expand to.
const MAX_EXPANDED: usize = 64 << 20;
/// The largest file.
const MAX_BYTES: u64 = 4 << 20;

/// One schema, ready for use.
pub struct Schema {
    /// Where it was read from, for messages.
    file: PathBuf,
    tree: Value,
    checker: Checker,
    rules: Vec<Rule>,
}

/// The schemas of one section of values; without a file everything is allowed.
#[derive(Default)]
pub struct Schemas {
    /// Of the section in the ConfigMap.
    pub config: Option<Schema>,
    /// Of the merged values.
    pub values: Option<Schema>,
    /// Of the values that a chart is rendered with.
    pub(crate) helm: Option<Schema>,
}

impl Schemas {
    /// Reads the schemas of a directory `openapi`; files that are not there set no limits.
    ///
    /// # Errors
    /// The file and what is wrong with it.
    pub fn read(directory: &Path) -> Result<Self, String> {
        let config = read_file(&directory.join("config-values.yaml"))?.map(|(file, mut tree)| {
            close(&mut tree);
            (file, tree)
        });
        let values = read_file(&directory.join("values.yaml"))?.map(|(file, mut tree)| {
            if tree.pointer("/x-extend/schema").is_some_and(Value::is_string)
                && let Some((_, parent)) = &config
            {
                extend(&mut tree, parent);
            }
            close(&mut tree);
            (file, tree)
        });
        let helm = values.clone().map(|(file, mut tree)| {
            require_for_helm(&mut tree);
            (file, tree)
        });
        let ready = |source: Option<(PathBuf, Value)>| source.map(|(f, t)| Schema::new(f, t)).transpose();
        Ok(Self { config: ready(config)?, values: ready(values)?, helm: ready(helm)? })
    }

    /// Fills in what is missing and has a default in one of the files.
    pub(crate) fn apply_defaults(&self, section: &mut Value) {
        let schemas = [&self.config, &self.values];
        schemas.into_iter().flatten().for_each(|schema| schema.apply_defaults(section));
    }

    /// The examples of the files at a place in their lists, later ones over earlier ones.
    pub(crate) fn examples(&self, index: usize) -> Vec<Value> {
        let tree = |schema: &Option<Schema>| schema.as_ref().map(|schema| schema.tree.clone());
        let (mut values, config) = (tree(&self.values), tree(&self.config));
        // What `values.yaml` took over says nothing of its own properties.
        if let (Some(Value::Object(own)), Some(config)) = (&mut values, &config)
            && own.get(examples::EXAMPLES) == config.get(examples::EXAMPLES)
        {
            own.remove(examples::EXAMPLES);
        }
        [values, config].into_iter().flatten().filter_map(|tree| examples::collect(&tree, index)).collect()
    }
}

impl Schema {
    fn new(file: PathBuf, tree: Value) -> Result<Self, String> {
        let failed = |e: String| format!("{}: {e}", file.display());
        let mut draft = tree.clone();
        as_draft_4(&mut draft);
        if let Value::Object(root) = &mut draft {
            root.insert("$schema".to_owned(), json!("http://json-schema.org/draft-04/schema#"));
        }
        let checker = Checker::read(draft.to_string().as_bytes()).map_err(failed)?;
        let rules = cel_rules::read(&tree).map_err(failed)?;
        Ok(Self { file, tree, checker, rules })
    }

    /// The file that it was read from.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Fills in what is missing and has a default.
    pub fn apply_defaults(&self, section: &mut Value) {
        defaults::apply(section, &self.tree);
    }

    /// Errors must not show the values of a section that the schema marks as secret.
    pub(crate) fn note_secrets(&self, section: &Value) {
        redact::add_marked(&self.tree, section);
    }

    /// Checks a section; `old` is what it was before, if it was.
    ///
    /// # Errors
    /// Every value that breaks the schema, by its path from `key`; secrets are not shown.
    pub(crate) fn check(&self, key: &str, section: &Value, old: Option<&Value>) -> Result<(), String> {
        let breaches = self.checker.check(&from_json(section)).err().unwrap_or_default();
        let mut wrong: Vec<String> =
            breaches.iter().map(|b| format!("{}: {}", b.path.below(&[key]), b.text)).collect();
        if wrong.is_empty() {
            wrong.extend(cel_rules::check(&self.rules, key, section, old));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(format!("{} (by {})", wrong.join("; "), self.file.display())),
        }
    }
}

/// A schema file as one tree without references; `None` if there is no such file.
fn read_file(path: &Path) -> Result<Option<(PathBuf, Value)>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let bytes = match bounded_read::read_file(path, MAX_BYTES) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|e| failed(&e))?,
    };
    let data = yaml::from_slice(&bytes).map_err(|e| {
        let line = e.line().map_or_else(String::new, |line| format!(":{line}"));
        format!("{}{line}: yaml: {}", path.display(), e.problem())
    })?;
    let root = match to_json(&data) {
        Value::Null => return Ok(None),
        root @ Value::Object(_) => root,
        _ => return Err(failed(&"a schema is a map like {type: object, properties: {…}}")),
    };
    let mut expansion = Expansion { root: &root, open: Vec::new(), nodes: MAX_NODES, bytes: MAX_EXPANDED };
    let tree = expansion.of(&root, 0).map_err(|e| failed(&e))?;
    Ok(Some((path.to_owned(), tree)))
}

/// The copy of a schema with each reference replaced by its target.
struct Expansion<'s> {
    root: &'s Value,
    /// The references around the current node.
    open: Vec<String>,
    /// How many nodes and bytes of text may still be added.
    nodes: usize,
    bytes: usize,
}

impl Expansion<'_> {
    /// The copy of a node. A recursive reference stays.
    fn of(&mut self, node: &Value, depth: usize) -> Result<Value, String> {
        self.take(node, depth)?;
        match node {
            Value::Object(map) => {
                if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                    return self.target(node, reference, depth);
                }
                let copied: Result<Object<String, Value>, String> = map
                    .iter()
                    .map(|(k, v)| {
                        // Data is not a schema.
                        let literal = matches!(k.as_str(), "default" | "enum" | "example" | "x-examples");
                        let copied = if literal { self.literal(v, depth + 1) } else { self.of(v, depth + 1) };
                        Ok((k.clone(), copied?))
                    })
                    .collect();
                copied.map(Value::Object)
            }
            Value::Array(list) => {
                list.iter().map(|v| self.of(v, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
            }
            other => Ok(other.clone()),
        }
    }

    fn target(&mut self, node: &Value, reference: &str, depth: usize) -> Result<Value, String> {
        if self.open.iter().any(|r| r == reference) {
            return Ok(node.clone());
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(format!("$ref {reference:?} is nested too deep"));
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let target = target.ok_or_else(|| {
            format!("$ref {reference:?} leads nowhere; it must be a path within this file, like #/definitions/name")
        })?;
        self.open.push(reference.to_owned());
        let expanded = self.of(target, depth);
        self.open.pop();
        expanded
    }

    /// The copy of data.
    fn literal(&mut self, data: &Value, depth: usize) -> Result<Value, String> {
        self.take(data, depth)?;
        match data {
            Value::Object(map) => {
                let copied = map.iter().map(|(k, v)| Ok((k.clone(), self.literal(v, depth + 1)?)));
                copied.collect::<Result<_, String>>().map(Value::Object)
            }
            Value::Array(list) => {
                list.iter().map(|v| self.literal(v, depth + 1)).collect::<Result<_, _>>().map(Value::Array)
            }
            other => Ok(other.clone()),
        }
    }

    /// Takes what a node needs without those below it.
    fn take(&mut self, node: &Value, depth: usize) -> Result<(), String> {
        if depth > MAX_TREE_DEPTH {
            return Err(format!("with its references it is deeper than {MAX_TREE_DEPTH}"));
        }
        let bytes = match node {
            Value::String(text) => text.len(),
            Value::Object(map) => map.keys().map(String::len).sum(),
            _ => 0,
        };
        self.nodes = self.nodes.checked_sub(1).ok_or("references make it too large")?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or("references make it too large")?;
        Ok(())
    }
}

/// Takes over from the schema of config values what `values.yaml` does not say itself (`ExtendTransformer`).
fn extend(tree: &mut Value, parent: &Value) {
    let (Value::Object(own), Value::Object(parent)) = (tree, parent) else { return };
    for (key, theirs) in parent {
        match key.as_str() {
            "definitions" | "properties" | "patternProperties" => {
                let ours = own.entry(key.clone()).or_insert_with(|| json!({}));
                if let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) {
                    for (name, schema) in theirs {
                        ours.entry(name.clone()).or_insert_with(|| schema.clone());
                    }
                }
            }
            "required" => {
                let names = theirs.as_array().into_iter().flatten();
                let more = own.get("required").and_then(Value::as_array).into_iter().flatten();
                let mut all: Vec<Value> = names.cloned().collect();
                all.extend(more.filter(|n| !theirs.as_array().is_some_and(|t| t.contains(n))).cloned());
                own.insert("required".to_owned(), Value::Array(all));
            }
            "title" | "description" => {
                own.entry(key.clone()).or_insert_with(|| theirs.clone());
            }
            extension if extension.starts_with("x-") => {
                own.entry(key.clone()).or_insert_with(|| theirs.clone());
            }
            _ => {}
        }
    }
}

/// The schemas of a schema's properties and items, as deep as addon-operator's transformations go.
fn inner<'t>(map: &'t mut Object<String, Value>) -> impl Iterator<Item = &'t mut Value> {
    let mut found: Vec<&'t mut Value> = Vec::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => found.extend(properties.values_mut()),
            ("items", Value::Array(list)) => found.extend(list),
            ("items", one) => found.push(one),
            _ => {}
        }
    }
    found.into_iter()
}

/// Forbids keys that a schema of maps does not name, unless it says otherwise (`AdditionalPropertiesTransformer`).
fn close(tree: &mut Value) {
    let Value::Object(map) = tree else { return };
    let open = ["allOf", "anyOf", "oneOf", "$ref"].iter().any(|k| map.contains_key(*k))
        && !map.contains_key("properties");
    if !open {
        map.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    inner(map).for_each(close);
}

/// Makes required what charts cannot be rendered without (`RequiredForHelmTransformer`).
fn require_for_helm(tree: &mut Value) {
    let Value::Object(map) = tree else { return };
    let more = match map.get("x-required-for-helm") {
        Some(Value::String(name)) => vec![Value::String(name.clone())],
        Some(Value::Array(names)) => names.iter().filter(|n| n.is_string()).cloned().collect(),
        _ => Vec::new(),
    };
    if !more.is_empty() {
        let required = map.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            for name in more {
                if !required.contains(&name) {
                    required.push(name);
                }
            }
        }
    }
    inner(map).for_each(require_for_helm);
}

/// OpenAPI 3.0's own words in those of draft 4.
fn as_draft_4(tree: &mut Value) {
    match tree {
        Value::Object(map) => {
            if map.remove("nullable") == Some(Value::Bool(true)) {
                if let Some(Value::String(kind)) = map.get("type") {
                    let both = json!([kind, "null"]);
                    map.insert("type".to_owned(), both);
                }
                if let Some(Value::Array(values)) = map.get_mut("enum")
                    && !values.contains(&Value::Null)
                {
                    values.push(Value::Null);
                }
            }
            // Draft 4 forbids the empty list, which says nothing.
            map.retain(|key, value| key != "required" || value.as_array().is_none_or(|l| !l.is_empty()));
            map.retain(|key, _| !key.starts_with("x-") && key != "example");
            map.values_mut().for_each(as_draft_4);
        }
        Value::Array(list) => list.iter_mut().for_each(as_draft_4),
        _ => {}
    }
}

/// A section as the map that charts see.
pub(crate) fn as_map(section: &Value) -> Map {
    match from_json(section) {
        Data::Map(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_references_make_is_bounded() {
        let expanded = |root: &Value| {
            Expansion { root, open: Vec::new(), nodes: MAX_NODES, bytes: MAX_EXPANDED }.of(root, 0)
        };
        let to = |name: usize| json!({"$ref": format!("#/definitions/d{name}")});
        // Each definition leads 100 levels down to the next one.
        let deep = |at: usize| (0..50).fold(to(at + 1), |below, _| json!({"properties": {"a": below}}));
        let chain = |count: usize| {
            let all: Object<String, Value> = (0..count).map(|at| (format!("d{at}"), deep(at))).collect();
            let mut root = json!({"properties": {"a": to(0)}, "definitions": all});
            root["definitions"][format!("d{count}")] = json!({});
            root
        };
        assert!(expanded(&chain(2)).is_ok());
        assert_eq!(expanded(&chain(20)).unwrap_err(), "with its references it is deeper than 500");
        for keyword in ["description", "default"] {
            let many: Object<String, Value> = (0..100).map(|at| (format!("p{at}"), to(0))).collect();
            let large = json!({"properties": many, "definitions": {"d0": {keyword: "x".repeat(1 << 20)}}});
            assert_eq!(expanded(&large).unwrap_err(), "references make it too large", "{keyword}");
        }
    }
}
