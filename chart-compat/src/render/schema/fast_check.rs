//! A fast check that only accepts: whether a schema of common keywords is well formed and values certainly satisfy it.
//!
//! Owns no error text. It is unsure of everything invalid or uncommon and leaves that to the validator. If it accepts, it saves the
//! validator's compilation and its check of the schema against the metaschema.
//!
//! Kept for its speed with large schemas only. On the corpus bench of 2026-11-25 it gains nothing in the median, because four of
//! its six cases have no schema. Without it a render takes 135 % longer for loki, whose schema has half a megabyte (13.5 and
//! 31.8 ms), and 47 % longer for bitnami-airflow (12.8 and 18.8 ms).

use std::cmp::Ordering;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::compile::MAX_PATTERN_MEMORY;
use super::decimal::Decimal;
use super::draft::Draft;
use super::format::Format;
use super::json::{Json, Types};
use super::members::Members;
use super::uri;
use crate::data::Data;
use crate::go::regexp::{self, Regexp};

/// The maximal depth of a value or schema.
const MAX_DEPTH: usize = 200;

/// The maximal number of schemas applied to values before the validator, with its own limit, takes over.
const MAX_STEPS: usize = 500_000;
/// Values of an `enum` that are compared in a step.
const COMPARED: usize = 16;

/// The largest list whose items are compared with each other.
const MAX_DISTINCT: usize = 64;

/// Up to this number of digits, a comparison of floats equals a comparison of the exact numbers.
const EXACT_DIGITS: usize = 15;

/// The validator must decide.
struct Unsure;

type Sure<T> = Result<T, Unsure>;

/// A schema that is well formed and has common keywords only.
pub(super) struct FastCheck {
    schema: Arc<Json>,
    draft: Draft,
    patterns: FxHashMap<String, Arc<Regexp>>,
}

impl FastCheck {
    /// Checks the form of a whole schema; `None` unless it is certainly well formed.
    pub(super) fn new(schema: &Arc<Json>) -> Option<Self> {
        let draft = match schema.get("$schema") {
            None => Draft::default(),
            Some(url) => Draft::from_url(url.as_str()?)?,
        };
        let mut form = Form {
            root: schema,
            draft,
            patterns: FxHashMap::default(),
            pattern_memory: 0,
            targets: FxHashSet::default(),
            waiting: Vec::new(),
        };
        form.schema(schema, 0).ok()?;
        while let Some(target) = form.waiting.pop() {
            form.schema(target, 1).ok()?;
        }
        let patterns = form.patterns;
        Some(Self { schema: Arc::clone(schema), draft, patterns })
    }

    /// Whether values certainly satisfy the schema.
    pub(super) fn accepts(&self, values: &Data) -> bool {
        let mut check = Check { of: self, steps: MAX_STEPS };
        matches!(check.schema(&self.schema, values, 0), Ok(true))
    }
}

/// Checks the form of schemas.
struct Form<'j> {
    root: &'j Json,
    draft: Draft,
    patterns: FxHashMap<String, Arc<Regexp>>,
    /// Memory of the patterns, in bytes.
    pattern_memory: usize,
    /// Addresses of the targets of references.
    targets: FxHashSet<usize>,
    /// Targets that have not been checked yet.
    waiting: Vec<&'j Json>,
}

fn sure(is: bool) -> Sure<()> {
    if is { Ok(()) } else { Err(Unsure) }
}

fn count(value: &Json) -> Sure<()> {
    let number = value.number().ok_or(Unsure)?;
    sure(number.is_integer() && number.as_count().is_some_and(|n| n >= 0))
}

/// Resolves a reference within the document.
fn target<'j>(root: &'j Json, reference: &str) -> Sure<&'j Json> {
    let pointer = reference.strip_prefix('#').ok_or(Unsure)?;
    sure(pointer.is_empty() || pointer.starts_with('/'))?;
    sure(!pointer.contains('%'))?;
    uri::lookup(root, pointer).map_err(|_| Unsure)
}

impl<'j> Form<'j> {
    fn schema(&mut self, schema: &'j Json, depth: usize) -> Sure<()> {
        sure(depth < MAX_DEPTH)?;
        let map = match schema {
            Json::Map(map) => map,
            Json::Bool(_) if self.draft > Draft::D4 => return Ok(()),
            _ => return Err(Unsure),
        };
        for (keyword, value) in map {
            self.keyword(keyword, value, depth)?;
        }
        // The validator has special behaviour for this combination.
        sure(!(map.contains_key("$ref") && map.contains_key("const")))
    }

    fn keyword(&mut self, keyword: &str, value: &'j Json, depth: usize) -> Sure<()> {
        match keyword {
            "$schema" => sure(depth == 0),
            // The id of the root does not change references within the document.
            "$id" | "id" if depth == 0 && keyword == self.draft.id_keyword() => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b":/._-".contains(&b);
                sure(value.as_str().is_some_and(|id| id.bytes().all(plain)))
            }
            "id" if self.draft > Draft::D4 => Ok(()),
            "title" | "description" | "$comment" | "format" => sure(value.as_str().is_some()),
            "default" => Ok(()),
            "const" if self.draft > Draft::D4 => Ok(()),
            "examples" => sure(value.as_list().is_some()),
            "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => sure(value.as_bool().is_some()),
            "type" => match value {
                Json::String(name) => sure(!Types::named(name).is_empty()),
                Json::List(names) => {
                    sure(!names.is_empty())?;
                    distinct(names)?;
                    sure(names.iter().all(|n| n.as_str().is_some_and(|name| !Types::named(name).is_empty())))
                }
                _ => Err(Unsure),
            },
            "enum" => {
                let values = value.as_list().ok_or(Unsure)?;
                sure(!values.is_empty())?;
                distinct(values)
            }
            "required" => self.names(value.as_list().ok_or(Unsure)?),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                count(value)
            }
            "minimum" | "maximum" => sure(value.number().is_some()),
            "exclusiveMinimum" | "exclusiveMaximum" if self.draft > Draft::D4 => {
                sure(value.number().is_some())
            }
            "pattern" => self.pattern(value.as_str().ok_or(Unsure)?),
            "$ref" => {
                let reference = value.as_str().ok_or(Unsure)?;
                let found = target(self.root, reference)?;
                // Schemas below keywords are checked anyway; elsewhere only a reference makes a value a schema.
                let mut steps = reference.split('/').skip(1);
                let held = match (steps.next(), steps.next(), steps.next()) {
                    (None, ..) | (Some("definitions"), Some(_), None) => true,
                    (Some("$defs"), Some(_), None) => self.draft >= Draft::D2019,
                    _ => false,
                };
                if !held && self.targets.insert(std::ptr::from_ref(found).addr()) {
                    self.waiting.push(found);
                }
                Ok(())
            }
            "not" => self.schema(value, depth + 1),
            "if" | "then" | "else" if self.draft >= Draft::D7 => {
                sure(value.as_map().is_some())?;
                self.schema(value, depth + 1)
            }
            "items" => self.schema(value, depth + 1),
            "additionalProperties" if value.as_bool().is_some() => Ok(()),
            "additionalProperties" => self.schema(value, depth + 1),
            "allOf" | "anyOf" | "oneOf" => {
                let all = value.as_list().ok_or(Unsure)?;
                sure(!all.is_empty())?;
                all.iter().try_for_each(|s| self.schema(s, depth + 1))
            }
            "properties" | "definitions" => self.schemas(value, depth),
            "$defs" if self.draft >= Draft::D2019 => self.schemas(value, depth),
            "$defs" => Ok(()),
            "patternProperties" => {
                let map = value.as_map().ok_or(Unsure)?;
                map.keys().try_for_each(|k| self.pattern(k))?;
                self.schemas(value, depth)
            }
            "dependencies" => {
                for (_, value) in value.as_map().ok_or(Unsure)? {
                    match value.as_list() {
                        Some(names) => self.names(names)?,
                        None => self.schema(value, depth + 1)?,
                    }
                }
                Ok(())
            }
            _ => sure(!KNOWN.contains(&keyword)),
        }
    }

    /// Names of required properties.
    fn names(&self, names: &[Json]) -> Sure<()> {
        sure(self.draft > Draft::D4 || !names.is_empty())?;
        distinct(names)?;
        sure(names.iter().all(|n| n.as_str().is_some()))
    }

    fn schemas(&mut self, value: &'j Json, depth: usize) -> Sure<()> {
        value.as_map().ok_or(Unsure)?.iter().try_for_each(|(_, schema)| self.schema(schema, depth + 1))
    }

    fn pattern(&mut self, pattern: &str) -> Sure<()> {
        if !self.patterns.contains_key(pattern) {
            let compiled = regexp::compile(pattern.as_bytes()).map_err(|_| Unsure)?;
            self.pattern_memory += compiled.memory();
            sure(self.pattern_memory <= MAX_PATTERN_MEMORY)?;
            self.patterns.insert(pattern.to_owned(), compiled);
        }
        Ok(())
    }
}

/// Known keywords that the fast check does not support.
const KNOWN: &[&str] = &[
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "additionalItems",
    "const",
    "contains",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "id",
    "if",
    "maxContains",
    "minContains",
    "multipleOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

fn distinct(values: &[Json]) -> Sure<()> {
    sure(values.len() <= MAX_DISTINCT)?;
    for (i, a) in values.iter().enumerate() {
        for b in &values[..i] {
            sure(!match (a, b) {
                (Json::Null, Json::Null) => true,
                (Json::Bool(a), Json::Bool(b)) => a == b,
                (Json::String(a), Json::String(b)) => a == b,
                (Json::Number(_), Json::Number(_)) => a.number() == b.number(),
                (Json::List(_), Json::List(_)) | (Json::Map(_), Json::Map(_)) => return Err(Unsure),
                _ => false,
            })?;
        }
    }
    Ok(())
}

/// Whether a value equals a value of a schema.
fn same(value: &Data, of_schema: &Json) -> Sure<bool> {
    Ok(match (value, of_schema) {
        (Data::Null, Json::Null) => true,
        (Data::Bool(a), Json::Bool(b)) => a == b,
        (Data::String(a), Json::String(b)) => a == b,
        (Data::Int(_) | Data::Float(_), Json::Number(_)) => compare(value, of_schema)?.is_eq(),
        // Containers are rare; the validator compares them.
        (Data::Map(_), Json::Map(_)) | (Data::List(_), Json::List(_)) => return Err(Unsure),
        _ => false,
    })
}

/// Compares a number of the values with one of the schema.
#[allow(clippy::cast_precision_loss)]
fn compare(value: &Data, of_schema: &Json) -> Sure<Ordering> {
    let number = match value {
        Data::Float(f) => *f,
        Data::Int(i) if i.unsigned_abs() < 1 << 53 => *i as f64,
        _ => return Err(Unsure),
    };
    match of_schema {
        Json::Number(literal) if literal.len() <= EXACT_DIGITS && Decimal::parse(literal).is_some() => {
            let bound: f64 = literal.parse().map_err(|_| Unsure)?;
            number.partial_cmp(&bound).ok_or(Unsure)
        }
        _ => Err(Unsure),
    }
}

struct Check<'j> {
    of: &'j FastCheck,
    steps: usize,
}

impl Check<'_> {
    fn schema(&mut self, schema: &Json, value: &Data, depth: usize) -> Sure<bool> {
        sure(depth < MAX_DEPTH && self.steps > 0)?;
        self.steps -= 1;
        let map = match schema {
            Json::Map(map) => map,
            Json::Bool(b) => return Ok(*b),
            _ => return Err(Unsure),
        };
        let of = self.of;
        if let Some(reference) = map.get("$ref").and_then(Json::as_str) {
            let good = self.schema(target(&of.schema, reference)?, value, depth + 1)?;
            if !good || of.draft.ref_stands_alone() {
                return Ok(good);
            }
        }
        for (keyword, rule) in map {
            if !self.keyword(map, keyword, rule, value, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn keyword(
        &mut self,
        map: &Members,
        keyword: &str,
        rule: &Json,
        value: &Data,
        depth: usize,
    ) -> Sure<bool> {
        let depth = depth + 1;
        Ok(match (keyword, value) {
            ("type", _) => match rule.as_str() {
                Some(name) => Types::named(name),
                None => {
                    let names = rule.as_list().into_iter().flatten().filter_map(Json::as_str);
                    names.fold(Types::default(), |all, name| all.with(Types::named(name)))
                }
            }
            .accept_data(value),
            ("const", _) => same(value, rule)?,
            ("enum", _) => {
                let allowed = rule.as_list().unwrap_or_default();
                self.steps = self.steps.saturating_sub(allowed.len() / COMPARED);
                for allowed in allowed {
                    if same(value, allowed)? {
                        return Ok(true);
                    }
                }
                false
            }
            ("allOf", _) => {
                for part in rule.as_list().into_iter().flatten() {
                    if !self.schema(part, value, depth)? {
                        return Ok(false);
                    }
                }
                true
            }
            ("anyOf" | "oneOf", _) => {
                let mut good = 0;
                for part in rule.as_list().into_iter().flatten() {
                    good += usize::from(self.schema(part, value, depth)?);
                }
                if keyword == "anyOf" { good > 0 } else { good == 1 }
            }
            ("not", _) => !self.schema(rule, value, depth)?,
            ("if", _) if self.of.draft >= Draft::D7 => {
                let branch = if self.schema(rule, value, depth)? { "then" } else { "else" };
                match map.get(branch) {
                    Some(part) => self.schema(part, value, depth)?,
                    None => true,
                }
            }
            ("properties", Data::Map(values)) => {
                for (name, part) in rule.as_map().into_iter().flatten() {
                    if let Some(value) = values.get(name)
                        && !self.schema(part, value, depth)?
                    {
                        return Ok(false);
                    }
                }
                true
            }
            ("required", Data::Map(values)) => {
                let names = rule.as_list().into_iter().flatten().filter_map(Json::as_str);
                { names }.all(|n| values.contains_key(n))
            }
            ("patternProperties", Data::Map(values)) => {
                for (pattern, part) in rule.as_map().into_iter().flatten() {
                    for (name, value) in values {
                        if self.matches(pattern, name)? && !self.schema(part, value, depth)? {
                            return Ok(false);
                        }
                    }
                }
                true
            }
            ("additionalProperties", Data::Map(values)) => {
                let properties = map.get("properties").and_then(Json::as_map);
                let patterns = map.get("patternProperties").and_then(Json::as_map);
                for (name, value) in values {
                    let mut told = properties.is_some_and(|p| p.contains_key(name));
                    for pattern in patterns.into_iter().flat_map(Members::keys) {
                        told = told || self.matches(pattern, name)?;
                    }
                    if !told && !self.schema(rule, value, depth)? {
                        return Ok(false);
                    }
                }
                true
            }
            ("dependencies", Data::Map(values)) => {
                for (name, rule) in rule.as_map().into_iter().flatten() {
                    if values.contains_key(name) {
                        let good = match rule.as_list() {
                            Some(names) => {
                                names.iter().filter_map(Json::as_str).all(|n| values.contains_key(n))
                            }
                            None => self.schema(rule, value, depth)?,
                        };
                        if !good {
                            return Ok(false);
                        }
                    }
                }
                true
            }
            ("minProperties", Data::Map(values)) => size(rule, values.len())?.is_ge(),
            ("maxProperties", Data::Map(values)) => size(rule, values.len())?.is_le(),
            ("items", Data::List(items)) => {
                for item in items {
                    if !self.schema(rule, item, depth)? {
                        return Ok(false);
                    }
                }
                true
            }
            ("minItems", Data::List(items)) => size(rule, items.len())?.is_ge(),
            ("maxItems", Data::List(items)) => size(rule, items.len())?.is_le(),
            ("uniqueItems", Data::List(items)) => {
                sure(items.len() <= 1 || rule.as_bool() == Some(false))?;
                true
            }
            ("minLength", Data::String(s)) => size(rule, s.chars().count())?.is_ge(),
            ("maxLength", Data::String(s)) => size(rule, s.chars().count())?.is_le(),
            ("pattern", Data::String(s)) => self.matches(rule.as_str().unwrap_or_default(), s)?,
            ("format", _) if self.of.draft < Draft::D2019 => {
                match (rule.as_str().and_then(Format::named), value) {
                    (Some(format), Data::String(s)) => format.check(s).is_ok(),
                    _ => true,
                }
            }
            ("minimum", Data::Int(_) | Data::Float(_)) => compare(value, rule)?.is_ge(),
            ("maximum", Data::Int(_) | Data::Float(_)) => compare(value, rule)?.is_le(),
            ("exclusiveMinimum", Data::Int(_) | Data::Float(_)) => compare(value, rule)?.is_gt(),
            ("exclusiveMaximum", Data::Int(_) | Data::Float(_)) => compare(value, rule)?.is_lt(),
            _ => true,
        })
    }

    fn matches(&self, pattern: &str, text: &str) -> Sure<bool> {
        let pattern = self.of.patterns.get(pattern).ok_or(Unsure)?;
        sure(!pattern.is_costly(text.len()))?;
        Ok(pattern.is_match(text.as_bytes()))
    }
}

/// Compares a size with a schema's bound.
fn size(bound: &Json, size: usize) -> Sure<Ordering> {
    let bound =
        bound.number().and_then(|n| n.as_count()).and_then(|n| usize::try_from(n).ok()).ok_or(Unsure)?;
    Ok(size.cmp(&bound))
}
