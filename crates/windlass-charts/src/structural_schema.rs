//! JSON Schema as the structural schemas that CustomResourceDefinitions take.
//!
//! Owns the conversion of one node: references and `allOf` are inlined, what a CRD cannot say is dropped with a warning. A chart's schema
//! checks the chart's values with the user's on top; a CRD sees those of the user alone. So what the chart's values fulfil already is not
//! required here, and `null`, with which Helm removes a value of the chart, is permitted where there is one. What is dropped is still
//! checked when the chart is rendered.

use serde_json::{Value, json};

use crate::schema_alternatives::Enclosing;
use crate::schema_document::Document;
use crate::schema_fold::{ANNOTATIONS, fold};
use crate::{Object, Warning};

/// Let the API server keep what the schema does not name.
pub(crate) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// An integer or a string.
pub(crate) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// How many nodes references may add.
const MAX_NODES: usize = 20_000;
/// How deep a schema may be.
pub(crate) const MAX_DEPTH: usize = 60;
/// How many references and `allOf` of one node may be within each other.
const MAX_INLINED: usize = 64;
/// The most memory of a pattern, in bytes.
const MAX_PATTERN: usize = 1 << 20;

/// The types of JSON.
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Keywords that check something which a CRD cannot check.
const UNCHECKED: [&str; 17] = [
    "$dynamicRef",
    "$recursiveRef",
    "contains",
    "contentEncoding",
    "contentSchema",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "extends",
    "if",
    "maxContains",
    "minContains",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// Keywords that check values and stay as they are, whatever the type.
const NUMBERS: [&str; 2] = ["multipleOf", "maximum"];
const COUNTS: [&str; 6] =
    ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];

/// A schema in which everything is permitted and kept.
pub(crate) fn anything() -> Object {
    object_of([(PRESERVE, json!(true))])
}

pub(crate) fn object_of<const N: usize>(entries: [(&str, Value); N]) -> Object {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Converts a schema. `defaults`: the chart's own values; `at`: where the schema applies, for warnings.
pub(crate) fn structural(
    root: &Value,
    defaults: Option<&Value>,
    at: &str,
    warnings: &mut Vec<Warning>,
) -> Object {
    let mut converter = Converter {
        document: Document::new(root),
        warnings,
        active: Vec::new(),
        nodes: 0,
        depth: 0,
        inlined: 0,
    };
    converter.node(root, defaults, at)
}

pub(crate) struct Converter<'a> {
    document: Document<'a>,
    warnings: &'a mut Vec<Warning>,
    /// References that the current node is below.
    pub(crate) active: Vec<String>,
    pub(crate) nodes: usize,
    pub(crate) depth: usize,
    /// References and `allOf` that the current schema is within, of one node.
    inlined: usize,
}

impl Converter<'_> {
    pub(crate) fn warn(&mut self, at: &str, text: impl Into<String>) {
        self.warnings.push(Warning { text: text.into(), path: at.to_owned() });
    }

    fn node(&mut self, schema: &Value, default: Option<&Value>, at: &str) -> Object {
        if self.depth >= MAX_DEPTH {
            self.warn(at, format!("deeper than {MAX_DEPTH} levels: values below are not checked"));
            return anything();
        }
        self.depth += 1;
        self.nodes += 1;
        let before = self.active.len();
        let mut references = Vec::new();
        let mut flat = self.flatten(schema, at, &mut references);
        self.active.append(&mut references);
        let null = self.fold_single_alternatives(&mut flat, at);
        let out = self.convert(flat, null, default, at);
        self.active.truncate(before);
        self.depth -= 1;
        out
    }

    /// A schema without `$ref` and `allOf` at its top; the schemas inside stay as they are. `references`: those that it consists of.
    pub(crate) fn flatten(&mut self, schema: &Value, at: &str, references: &mut Vec<String>) -> Object {
        if self.inlined >= MAX_INLINED {
            self.warn(
                at,
                format!("more than {MAX_INLINED} references and allOf within each other: not checked"),
            );
            return Object::new();
        }
        self.inlined += 1;
        let flat = self.inline(schema, at, references);
        self.inlined -= 1;
        flat
    }

    fn inline(&mut self, schema: &Value, at: &str, references: &mut Vec<String>) -> Object {
        let own = match schema {
            Value::Object(own) => own,
            Value::Bool(true) => return Object::new(),
            Value::Bool(false) => {
                self.warn(at, "no value is permitted here: not checked");
                return Object::new();
            }
            other => {
                self.warn(at, format!("{other} is not a schema: not checked"));
                return Object::new();
            }
        };
        let reference = own.get("$ref").and_then(Value::as_str);
        let mut flat = own.clone();
        flat.remove("$ref");
        if reference.is_some() && !self.document.siblings_count {
            flat.retain(|key, _| ANNOTATIONS.contains(&key.as_str()));
        }
        let parts = match flat.remove("allOf") {
            Some(Value::Array(parts)) => parts,
            _ => Vec::new(),
        };
        constant_to_enum(&mut flat);
        if let Some(reference) = reference
            && !references.iter().any(|known| known == reference)
            && let Some(target) = self.target(reference, at)
        {
            references.push(reference.to_owned());
            let target = self.flatten(&target, at, references);
            fold(&mut flat, target);
        }
        for part in parts {
            let part = self.flatten(&part, at, references);
            fold(&mut flat, part);
        }
        flat
    }

    /// The schema of a reference, unless it is of another document, leads back here, or there are too many.
    fn target(&mut self, reference: &str, at: &str) -> Option<Value> {
        let Some(target) = self.document.resolve(reference) else {
            self.warn(
                at,
                format!("reference {reference} is not in the schema itself: values below are not checked"),
            );
            return None;
        };
        if self.active.iter().any(|known| known == reference) {
            self.warn(
                at,
                format!("reference {reference} leads back to itself: values below are not checked"),
            );
            return None;
        }
        if self.nodes > MAX_NODES {
            self.warn(at, format!("more than {MAX_NODES} nodes: values below are not checked"));
            return None;
        }
        Some(target.clone())
    }

    fn convert(&mut self, mut flat: Object, null: bool, default: Option<&Value>, at: &str) -> Object {
        self.lift_alternatives(&mut flat, at);
        let mut types = self.types(&flat, at);
        let nullable = null || types.contains(&"null");
        types.retain(|name| *name != "null");
        if types.contains(&"number") {
            types.retain(|name| *name != "integer");
        }
        let mut out = Object::new();
        let description = flat.get("description").or_else(|| flat.get("title")).and_then(Value::as_str);
        if let Some(text) = description.map(str::trim).filter(|text| !text.is_empty()) {
            out.insert("description".to_owned(), json!(text));
        }
        match types.as_slice() {
            ["object"] => self.object(&mut out, &flat, default, at),
            ["array"] => self.array(&mut out, &flat, at),
            [one] => drop(out.insert("type".to_owned(), json!(one))),
            ["integer", "string"] => drop(out.insert(INT_OR_STRING.to_owned(), json!(true))),
            several => {
                if !several.is_empty() {
                    self.warn(
                        at,
                        format!("the types {} are not checked: a CRD permits one", several.join(", ")),
                    );
                }
                out.insert(PRESERVE.to_owned(), json!(true));
            }
        }
        self.validations(&mut out, &flat, default, at);
        let (alternatives, _) = self.alternatives(&flat, Enclosing { structure: &out, default, at });
        out.extend(alternatives);
        if nullable {
            permit_null(&mut out);
        }
        self.report_unchecked(&flat, at);
        out
    }

    fn object(&mut self, out: &mut Object, flat: &Object, default: Option<&Value>, at: &str) {
        out.insert("type".to_owned(), json!("object"));
        let none = Object::new();
        let defaults = default.and_then(Value::as_object).unwrap_or(&none);
        let mut properties = Object::new();
        let declared = flat.get("properties").and_then(Value::as_object).unwrap_or(&none);
        for (name, schema) in declared {
            let value = defaults.get(name);
            let mut node = self.node(schema, value, &format!("{at}.{name}"));
            if value.is_some_and(|value| !value.is_null()) {
                permit_null(&mut node);
            }
            properties.insert(name.clone(), Value::Object(node));
        }
        let patterns =
            flat.get("patternProperties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
        let mut open = true;
        match flat.get("additionalProperties") {
            Some(Value::Bool(false)) if !patterns => {
                open = false;
                let text = "additionalProperties: false is not checked: the API server drops unknown fields, and kubectl \
                            refuses them before it sends them";
                self.warn(at, text);
            }
            Some(Value::Object(schema)) if !schema.is_empty() => {
                if properties.is_empty() && !patterns {
                    open = false;
                    let merged = merged_entries(defaults);
                    let schema = Value::Object(schema.clone());
                    let mut node = self.node(&schema, merged.as_ref(), &format!("{at}.*"));
                    if merged.is_some() {
                        permit_null(&mut node);
                    }
                    out.insert("additionalProperties".to_owned(), Value::Object(node));
                } else {
                    let text = "the schema of additionalProperties beside properties is not checked";
                    self.warn(at, text);
                }
            }
            _ => {}
        }
        let required = required_of(flat, default);
        // Of a required field that is not declared the value would be dropped.
        for name in
            required.iter().filter_map(Value::as_str).filter(|_| !out.contains_key("additionalProperties"))
        {
            properties.entry(name).or_insert_with(|| Value::Object(anything()));
        }
        if !required.is_empty() {
            out.insert("required".to_owned(), Value::Array(required));
        }
        if !properties.is_empty() {
            out.insert("properties".to_owned(), Value::Object(properties));
        }
        if open {
            out.insert(PRESERVE.to_owned(), json!(true));
        }
    }

    fn array(&mut self, out: &mut Object, flat: &Object, at: &str) {
        out.insert("type".to_owned(), json!("array"));
        let inside = format!("{at}[]");
        let items = match flat.get("items") {
            Some(schema @ Value::Object(_)) if !flat.contains_key("prefixItems") => {
                self.node(schema, None, &inside)
            }
            Some(Value::Array(_)) => {
                self.warn(at, "a list of schemas in items is not checked: a CRD has one for all items");
                anything()
            }
            Some(Value::Bool(false)) => {
                self.warn(at, "items: false is not checked");
                anything()
            }
            _ => anything(),
        };
        out.insert("items".to_owned(), Value::Object(items));
    }

    /// The types that are declared, or that other keywords imply; empty if no keyword implies one.
    pub(crate) fn types(&mut self, flat: &Object, at: &str) -> Vec<&'static str> {
        let declared: Vec<&str> = match flat.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => return implied_types(flat),
        };
        let mut types = Vec::new();
        for name in declared {
            match TYPES.iter().find(|known| **known == name) {
                Some(known) => types.push(*known),
                None => self.warn(at, format!("{name:?} is not a type of JSON Schema: not checked")),
            }
        }
        types.sort_unstable();
        types.dedup();
        types
    }

    /// Checks of values that both know, for a node or an alternative of one.
    pub(crate) fn validations(
        &mut self,
        out: &mut Object,
        flat: &Object,
        default: Option<&Value>,
        at: &str,
    ) -> bool {
        let mut lossy = false;
        let defaulted = default.and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        for key in COUNTS {
            // The chart's own entries count, too.
            let Some(value) = flat.get(key).filter(|_| key != "minProperties" || !defaulted) else {
                continue;
            };
            match count(value) {
                Some(count) => drop(out.insert(key.to_owned(), json!(count))),
                None => {
                    self.warn(at, format!("{key}: {value} is not a count: not checked"));
                    lossy = true;
                }
            }
        }
        for key in NUMBERS {
            if let Some(value) = flat.get(key).filter(|value| value.is_number()) {
                out.insert(key.to_owned(), value.clone());
            }
        }
        bound(out, flat, "minimum", "exclusiveMinimum", |exclusive, inclusive| exclusive >= inclusive);
        bound(out, flat, "maximum", "exclusiveMaximum", |exclusive, inclusive| exclusive <= inclusive);
        if let Some(Value::String(format)) = flat.get("format") {
            out.insert("format".to_owned(), json!(format));
        }
        if let Some(Value::String(pattern)) = flat.get("pattern") {
            match chart_compat::go::regexp::compile_within(pattern.as_bytes(), MAX_PATTERN) {
                Ok(_) => drop(out.insert("pattern".to_owned(), json!(pattern))),
                Err(error) => {
                    self.warn(at, format!("pattern is not checked: {error}"));
                    lossy = true;
                }
            }
        }
        if let Some(Value::Array(values)) = flat.get("enum") {
            if defaulted && values.iter().any(Value::is_object) {
                self.warn(
                    at,
                    "enum of objects is not checked: the chart's own values are a part of the object",
                );
                lossy = true;
            } else if !values.is_empty() {
                let mut distinct: Vec<Value> = Vec::new();
                for value in values {
                    if !distinct.contains(value) {
                        distinct.push(value.clone());
                    }
                }
                out.insert("enum".to_owned(), Value::Array(distinct));
            }
        }
        lossy
    }

    /// Warns of each keyword that is lost.
    fn report_unchecked(&mut self, flat: &Object, at: &str) {
        for key in UNCHECKED {
            match flat.get(key) {
                None | Some(Value::Bool(true)) => {}
                Some(Value::Object(map)) if map.is_empty() && key != "contains" => {}
                Some(_) => self.warn(at, format!("{key} is not checked: a CRD cannot")),
            }
        }
        if flat.get("uniqueItems") == Some(&json!(true)) {
            self.warn(at, "uniqueItems is not checked: a CRD cannot");
        }
    }
}

/// Whether a keyword checks what a CRD cannot, in an alternative.
pub(crate) fn is_unchecked(key: &str, value: &Value) -> bool {
    UNCHECKED.contains(&key) || key == "uniqueItems" && *value == json!(true)
}

/// The names that are required and that the chart's values do not have.
pub(crate) fn required_of(flat: &Object, default: Option<&Value>) -> Vec<Value> {
    let mut names: Vec<Value> = Vec::new();
    for name in flat.get("required").and_then(Value::as_array).into_iter().flatten() {
        let Some(text) = name.as_str() else { continue };
        let has = default.and_then(|map| map.get(text)).is_some_and(|value| !value.is_null());
        if !has && !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Permits null, also where values are listed.
pub(crate) fn permit_null(node: &mut Object) {
    if !node.contains_key("type") && !node.contains_key(INT_OR_STRING) {
        return;
    }
    node.insert("nullable".to_owned(), json!(true));
    if let Some(Value::Array(values)) = node.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}

/// What all the chart's entries of a map have together: none of it can be required of the user.
fn merged_entries(defaults: &Object) -> Option<Value> {
    let mut entries = defaults.values().filter(|value| !value.is_null()).cloned();
    let first = entries.next()?;
    Some(entries.fold(first, |mut all, entry| {
        crate::subchart_values::overlay(&mut all, &entry);
        all
    }))
}

fn constant_to_enum(flat: &mut Object) {
    if let Some(value) = flat.remove("const") {
        let both = matches!(flat.get("enum"), Some(Value::Array(values)) if !values.contains(&value));
        if !both {
            flat.insert("enum".to_owned(), json!([value]));
        }
    }
}

/// A count, which some schemas write as `1.0`.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is whole and in range")]
fn count(value: &Value) -> Option<u64> {
    let whole = |number: &f64| *number >= 0.0 && number.fract() == 0.0 && *number < 9e15;
    value
        .as_u64()
        .filter(|n| *n <= i64::MAX as u64)
        .or_else(|| value.as_f64().filter(whole).map(|n| n as u64))
}

/// A bound of numbers: exclusive ones are booleans beside inclusive ones.
fn bound(out: &mut Object, flat: &Object, inclusive: &str, exclusive: &str, stricter: fn(f64, f64) -> bool) {
    let limit = flat.get(inclusive).filter(|value| value.is_number());
    match flat.get(exclusive) {
        Some(Value::Number(number)) => {
            let number = Value::Number(number.clone());
            let wins = limit.is_none_or(|limit| match (number.as_f64(), limit.as_f64()) {
                (Some(number), Some(limit)) => stricter(number, limit),
                _ => true,
            });
            if wins {
                out.insert(inclusive.to_owned(), number);
                out.insert(exclusive.to_owned(), json!(true));
                return;
            }
        }
        Some(Value::Bool(true)) if limit.is_some() => drop(out.insert(exclusive.to_owned(), json!(true))),
        _ => {}
    }
    if let Some(limit) = limit {
        out.insert(inclusive.to_owned(), limit.clone());
    }
}

/// The types that keywords imply.
fn implied_types(flat: &Object) -> Vec<&'static str> {
    if let Some(Value::Array(values)) = flat.get("enum")
        && !values.is_empty()
    {
        let mut types: Vec<&str> = values.iter().map(type_of).collect();
        types.sort_unstable();
        types.dedup();
        return types;
    }
    let of_objects = ["properties", "required", "additionalProperties", "patternProperties", "propertyNames"];
    if of_objects.iter().any(|key| flat.contains_key(*key)) {
        return vec!["object"];
    }
    if ["items", "prefixItems"].iter().any(|key| flat.contains_key(*key)) {
        return vec!["array"];
    }
    Vec::new()
}

/// The type of a value.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
