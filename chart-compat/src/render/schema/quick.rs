//! The short way to "yes": whether a schema of everyday keywords is well formed and values keep to it.
//!
//! Owns no message. Whatever is wrong, or out of the ordinary, is left to the whole validator: this one only ever spares its
//! work, which for a large schema and good values is most of the time that a render takes.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::{FxHashMap, FxHashSet};

use super::decimal::Decimal;
use super::draft::Draft;
use super::format::Format;
use super::json::Types;
use super::tape::{Items, Members, Shape, Tape, View};
use crate::data::{Data, Map};
use crate::go::regexp::{self, Regexp};

/// How deep a value or schema is followed.
const MAX_DEPTH: usize = 200;

/// How many schemas are applied to values before the whole validator, with its own bound, takes over.
const MAX_STEPS: usize = 500_000;

/// The largest list whose items are compared with each other.
const MAX_DISTINCT: usize = 64;

/// Up to this many digits a number means the same as a float.
const EXACT_DIGITS: usize = 15;

/// The whole validator must look at it.
struct Unsure;

type Sure<T> = Result<T, Unsure>;

/// A schema that is well formed, and simple enough.
pub(super) struct Quick {
    schema: Tape,
    draft: Draft,
    patterns: FxHashMap<String, Arc<Regexp>>,
}

impl Quick {
    /// Looks a whole schema through; `None` if it is not certainly well formed and simple.
    pub(super) fn read(text: &Bytes) -> Option<Self> {
        let schema = Tape::read(text)?;
        let root = schema.root();
        let draft = match root.get("$schema") {
            None => Draft::default(),
            Some(url) => Draft::from_url(url.as_str()?)?,
        };
        let mut form = Form {
            root,
            draft,
            patterns: FxHashMap::default(),
            seen: FxHashSet::default(),
            waiting: Vec::new(),
        };
        form.schema(root, 0).ok()?;
        while let Some(target) = form.waiting.pop() {
            form.schema(target, 1).ok()?;
        }
        let patterns = form.patterns;
        Some(Self { schema, draft, patterns })
    }

    /// Whether values certainly keep to the schema.
    pub(super) fn accepts(&self, values: &Map) -> bool {
        let mut check = Check { quick: self, steps: MAX_STEPS };
        matches!(check.schema(self.schema.root(), Item::Map(values), 0), Ok(true))
    }
}

/// Looks at the form of schemas.
struct Form<'t> {
    root: View<'t>,
    draft: Draft,
    patterns: FxHashMap<String, Arc<Regexp>>,
    /// The targets of references.
    seen: FxHashSet<u32>,
    /// Those among them that are still to be looked at.
    waiting: Vec<View<'t>>,
}

fn sure(is: bool) -> Sure<()> {
    if is { Ok(()) } else { Err(Unsure) }
}

fn count(value: View<'_>) -> Sure<()> {
    let number = value.number().ok_or(Unsure)?;
    sure(number.is_integer() && number.as_count().is_some_and(|n| n >= 0))
}

/// The value that a reference within the document leads to.
fn target<'t>(root: View<'t>, reference: &str) -> Sure<View<'t>> {
    let pointer = reference.strip_prefix('#').ok_or(Unsure)?;
    sure(pointer.is_empty() || pointer.starts_with('/'))?;
    sure(!pointer.contains('%'))?;
    root.find(pointer).ok_or(Unsure)
}

impl<'t> Form<'t> {
    fn schema(&mut self, schema: View<'t>, depth: usize) -> Sure<()> {
        sure(depth < MAX_DEPTH)?;
        let map = match schema.shape() {
            Shape::Map(map) => map,
            Shape::Bool(_) if self.draft > Draft::D4 => return Ok(()),
            _ => return Err(Unsure),
        };
        for (keyword, value) in map.iter() {
            self.keyword(keyword, value, depth)?;
        }
        // The validator has habits of its own here.
        sure(!(map.contains_key("$ref") && map.contains_key("const")))
    }

    fn keyword(&mut self, keyword: &str, value: View<'t>, depth: usize) -> Sure<()> {
        match keyword {
            "$schema" => sure(depth == 0),
            // A name for the whole changes nothing for references within it.
            "$id" | "id" if depth == 0 && keyword == self.draft.id_keyword() => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b":/._-".contains(&b);
                sure(value.as_str().is_some_and(|id| id.bytes().all(plain)))
            }
            "id" if self.draft > Draft::D4 => Ok(()),
            "title" | "description" | "$comment" | "format" => sure(value.is_str()),
            "default" => Ok(()),
            "const" if self.draft > Draft::D4 => Ok(()),
            "examples" => sure(value.as_list().is_some()),
            "deprecated" | "readOnly" | "writeOnly" | "uniqueItems" => sure(value.as_bool().is_some()),
            "type" => match value.shape() {
                Shape::String(name) => sure(!Types::named(name).is_empty()),
                Shape::List(mut names) => {
                    sure(names.len() > 0)?;
                    distinct(names)?;
                    sure(names.all(|n| n.as_str().is_some_and(|name| !Types::named(name).is_empty())))
                }
                _ => Err(Unsure),
            },
            "enum" => {
                let values = value.as_list().ok_or(Unsure)?;
                sure(values.len() > 0)?;
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
                // What keywords hold is looked at anyway; elsewhere only a reference makes a value a schema.
                let mut steps = reference.split('/').skip(1);
                let held = match (steps.next(), steps.next(), steps.next()) {
                    (None, ..) | (Some("definitions"), Some(_), None) => true,
                    (Some("$defs"), Some(_), None) => self.draft >= Draft::D2019,
                    _ => false,
                };
                if !held && self.seen.insert(found.place()) {
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
                let mut all = value.as_list().ok_or(Unsure)?;
                sure(all.len() > 0)?;
                all.try_for_each(|s| self.schema(s, depth + 1))
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
                for value in value.as_map().ok_or(Unsure)?.values() {
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

    /// Names of properties that must be there.
    fn names(&self, mut names: Items<'t>) -> Sure<()> {
        sure(self.draft > Draft::D4 || names.len() > 0)?;
        distinct(names)?;
        sure(names.all(View::is_str))
    }

    fn schemas(&mut self, value: View<'t>, depth: usize) -> Sure<()> {
        value.as_map().ok_or(Unsure)?.values().try_for_each(|s| self.schema(s, depth + 1))
    }

    fn pattern(&mut self, pattern: &str) -> Sure<()> {
        if !self.patterns.contains_key(pattern) {
            let compiled = regexp::compile(pattern.as_bytes()).map_err(|_| Unsure)?;
            self.patterns.insert(pattern.to_owned(), compiled);
        }
        Ok(())
    }
}

/// Keywords that mean something and are not handled here.
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

fn distinct(values: Items<'_>) -> Sure<()> {
    sure(values.len() <= MAX_DISTINCT)?;
    for (i, a) in values.enumerate() {
        for b in values.take(i) {
            sure(!match (a.shape(), b.shape()) {
                (Shape::Null, Shape::Null) => true,
                (Shape::Bool(a), Shape::Bool(b)) => a == b,
                (Shape::String(a), Shape::String(b)) => a == b,
                (Shape::Number(_), Shape::Number(_)) => a.number() == b.number(),
                (Shape::List(_), Shape::List(_)) | (Shape::Map(_), Shape::Map(_)) => return Err(Unsure),
                _ => false,
            })?;
        }
    }
    Ok(())
}

/// A value that is looked at.
#[derive(Clone, Copy)]
enum Item<'v> {
    Map(&'v Map),
    Other(&'v Data),
}

impl<'v> Item<'v> {
    fn of(data: &'v Data) -> Self {
        match data {
            Data::Map(m) => Self::Map(m),
            other => Self::Other(other),
        }
    }

    fn is(self, types: Types) -> bool {
        match self {
            Self::Map(_) => types.accept_objects(),
            Self::Other(data) => types.accept_data(data),
        }
    }
}

/// Whether a value is the one that a schema tells.
fn same(value: Item<'_>, told: View<'_>) -> Sure<bool> {
    Ok(match (value, told.shape()) {
        (Item::Other(Data::Null), Shape::Null) => true,
        (Item::Other(Data::Bool(a)), Shape::Bool(b)) => *a == b,
        (Item::Other(Data::String(a)), Shape::String(b)) => a == b,
        (Item::Other(v @ (Data::Int(_) | Data::Float(_))), Shape::Number(_)) => compare(v, told)?.is_eq(),
        // Containers are rare, and the whole validator knows how to compare them.
        (Item::Map(_), Shape::Map(_)) | (Item::Other(Data::List(_)), Shape::List(_)) => return Err(Unsure),
        _ => false,
    })
}

/// A number of the values beside one of the schema.
#[allow(clippy::cast_precision_loss)]
fn compare(value: &Data, told: View<'_>) -> Sure<std::cmp::Ordering> {
    let number = match value {
        Data::Float(f) => *f,
        Data::Int(i) if i.unsigned_abs() < 1 << 53 => *i as f64,
        _ => return Err(Unsure),
    };
    match told.shape() {
        Shape::Number(literal) if literal.len() <= EXACT_DIGITS && Decimal::parse(literal).is_some() => {
            let bound: f64 = literal.parse().map_err(|_| Unsure)?;
            number.partial_cmp(&bound).ok_or(Unsure)
        }
        _ => Err(Unsure),
    }
}

struct Check<'t> {
    quick: &'t Quick,
    steps: usize,
}

impl<'t> Check<'t> {
    fn schema(&mut self, schema: View<'t>, value: Item<'_>, depth: usize) -> Sure<bool> {
        sure(depth < MAX_DEPTH && self.steps > 0)?;
        self.steps -= 1;
        let map = match schema.shape() {
            Shape::Map(map) => map,
            Shape::Bool(b) => return Ok(b),
            _ => return Err(Unsure),
        };
        if let Some(reference) = map.get("$ref").and_then(View::as_str) {
            let good = self.schema(target(self.quick.schema.root(), reference)?, value, depth + 1)?;
            if !good || self.quick.draft.ref_stands_alone() {
                return Ok(good);
            }
        }
        for (keyword, rule) in map.iter() {
            if !self.keyword(map, keyword, rule, value, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn keyword(
        &mut self,
        map: Members<'t>,
        keyword: &str,
        rule: View<'t>,
        value: Item<'_>,
        depth: usize,
    ) -> Sure<bool> {
        let depth = depth + 1;
        Ok(match (keyword, value) {
            ("type", _) => value.is(match rule.as_str() {
                Some(name) => Types::named(name),
                None => {
                    let names = rule.as_list().into_iter().flatten().filter_map(View::as_str);
                    names.fold(Types::default(), |all, name| all.with(Types::named(name)))
                }
            }),
            ("const", _) => same(value, rule)?,
            ("enum", _) => {
                for allowed in rule.as_list().into_iter().flatten() {
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
            ("if", _) if self.quick.draft >= Draft::D7 => {
                let branch = if self.schema(rule, value, depth)? { "then" } else { "else" };
                match map.get(branch) {
                    Some(part) => self.schema(part, value, depth)?,
                    None => true,
                }
            }
            ("properties", Item::Map(values)) => {
                for (name, part) in rule.as_map().into_iter().flat_map(Members::iter) {
                    if let Some(value) = values.get(name)
                        && !self.schema(part, Item::of(value), depth)?
                    {
                        return Ok(false);
                    }
                }
                true
            }
            ("required", Item::Map(values)) => {
                let names = rule.as_list().into_iter().flatten().filter_map(View::as_str);
                { names }.all(|n| values.contains_key(n))
            }
            ("patternProperties", Item::Map(values)) => {
                for (pattern, part) in rule.as_map().into_iter().flat_map(Members::iter) {
                    for (name, value) in values {
                        if self.matches(pattern, name)? && !self.schema(part, Item::of(value), depth)? {
                            return Ok(false);
                        }
                    }
                }
                true
            }
            ("additionalProperties", Item::Map(values)) => {
                let properties = map.get("properties").and_then(View::as_map);
                let patterns = map.get("patternProperties").and_then(View::as_map);
                for (name, value) in values {
                    let mut told = properties.is_some_and(|p| p.contains_key(name));
                    for pattern in patterns.into_iter().flat_map(Members::keys) {
                        told = told || self.matches(pattern, name)?;
                    }
                    if !told && !self.schema(rule, Item::of(value), depth)? {
                        return Ok(false);
                    }
                }
                true
            }
            ("dependencies", Item::Map(values)) => {
                for (name, rule) in rule.as_map().into_iter().flat_map(Members::iter) {
                    if values.contains_key(name) {
                        let good = match rule.as_list() {
                            Some(names) => names.filter_map(View::as_str).all(|n| values.contains_key(n)),
                            None => self.schema(rule, value, depth)?,
                        };
                        if !good {
                            return Ok(false);
                        }
                    }
                }
                true
            }
            ("minProperties", Item::Map(values)) => size(rule, values.len())?.is_ge(),
            ("maxProperties", Item::Map(values)) => size(rule, values.len())?.is_le(),
            ("items", Item::Other(Data::List(items))) => {
                for item in items {
                    if !self.schema(rule, Item::of(item), depth)? {
                        return Ok(false);
                    }
                }
                true
            }
            ("minItems", Item::Other(Data::List(items))) => size(rule, items.len())?.is_ge(),
            ("maxItems", Item::Other(Data::List(items))) => size(rule, items.len())?.is_le(),
            ("uniqueItems", Item::Other(Data::List(items))) => {
                sure(items.len() <= 1 || rule.as_bool() == Some(false))?;
                true
            }
            ("minLength", Item::Other(Data::String(s))) => size(rule, s.chars().count())?.is_ge(),
            ("maxLength", Item::Other(Data::String(s))) => size(rule, s.chars().count())?.is_le(),
            ("pattern", Item::Other(Data::String(s))) => {
                self.matches(rule.as_str().unwrap_or_default(), s)?
            }
            ("format", Item::Other(data)) if self.quick.draft < Draft::D2019 => {
                match (rule.as_str().and_then(Format::named), data) {
                    (Some(format), Data::String(s)) => format.check(s).is_ok(),
                    _ => true,
                }
            }
            ("minimum", Item::Other(v @ (Data::Int(_) | Data::Float(_)))) => compare(v, rule)?.is_ge(),
            ("maximum", Item::Other(v @ (Data::Int(_) | Data::Float(_)))) => compare(v, rule)?.is_le(),
            ("exclusiveMinimum", Item::Other(v @ (Data::Int(_) | Data::Float(_)))) => {
                compare(v, rule)?.is_gt()
            }
            ("exclusiveMaximum", Item::Other(v @ (Data::Int(_) | Data::Float(_)))) => {
                compare(v, rule)?.is_lt()
            }
            _ => true,
        })
    }

    fn matches(&self, pattern: &str, text: &str) -> Sure<bool> {
        self.quick.patterns.get(pattern).map(|p| p.is_match(text.as_bytes())).ok_or(Unsure)
    }
}

/// A size beside a schema's bound.
fn size(bound: View<'_>, size: usize) -> Sure<std::cmp::Ordering> {
    let bound =
        bound.number().and_then(|n| n.as_count()).and_then(|n| usize::try_from(n).ok()).ok_or(Unsure)?;
    Ok(size.cmp(&bound))
}
