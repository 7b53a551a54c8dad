//! The keywords for one type of value: maps, lists, strings, numbers.

use std::collections::HashMap;

use super::check::Run;
use super::compile::{Bound, Dependency, Items, Pattern, Rest, Schema};
use super::draft::Draft;
use super::failure::Failure;
use super::json::Json;
use super::members::Members;
use super::show;

fn as_count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Schema {
    /// The number of leading items that the keywords for items cover.
    pub(super) fn spoken_items(&self, len: usize) -> usize {
        let all = if self.draft >= Draft::D2020 {
            self.rest_items.is_some()
        } else {
            self.additional_items.is_some() || matches!(self.items, Items::Each(_))
        };
        match &self.items {
            _ if all => len,
            Items::Tuple(items) => items.len().min(len),
            _ => self.prefix_items.len().min(len),
        }
    }
}

impl<'v> Run<'_, 'v> {
    fn bounds(&mut self, keyword: &str, got: usize, least: Option<i64>, most: Option<i64>) {
        for (name, want) in [("min", least), ("max", most)] {
            let Some(want) = want else { continue };
            let broken = if name == "min" { as_count(got) < want } else { as_count(got) > want };
            if broken {
                let (got, want) = (show::length(got), show::count(want));
                self.fail(|| format!("{name}{keyword}: got {got}, want {want}"));
            }
        }
    }

    fn missing<'n>(map: &Members, names: &'n [String]) -> Vec<&'n str> {
        names.iter().filter(|n| !map.contains_key(n)).map(String::as_str).collect()
    }

    /// Checks that a property's required properties are present.
    fn needs(&mut self, map: &Members, property: &str, names: &[String]) {
        let missing = Self::missing(map, names);
        if !missing.is_empty() {
            self.fail(|| {
                let (needed, property) = (show::quoted(missing.iter().copied()), show::quote(property));
                format!("properties {needed} required, if {property} exists")
            });
        }
    }

    pub(super) fn object(&mut self, map: &'v Members) {
        let s = self.schema;
        self.bounds("Properties", map.len(), s.min_properties, s.max_properties);
        let missing = Self::missing(map, &s.required);
        match missing[..] {
            [] => {}
            [one] => self.fail(|| format!("missing property {}", show::quote(one))),
            _ => self.fail(|| format!("missing properties {}", show::quoted(missing.iter().copied()))),
        }
        if self.quiet && !self.failures.is_empty() {
            return;
        }
        for (property, dependency) in &s.dependencies {
            if map.contains_key(property) {
                match dependency {
                    Dependency::Properties(names) => self.needs(map, property, names),
                    Dependency::Schema(schema) => self.require(*schema),
                }
            }
        }
        self.properties(map);
        if let Some(schema) = s.property_names {
            for key in map.keys() {
                self.key(schema, key);
            }
        }
        for (property, schema) in &s.dependent_schemas {
            if map.contains_key(property) {
                self.require(*schema);
            }
        }
        for (property, names) in &s.dependent_required {
            if map.contains_key(property) {
                self.needs(map, property, names);
            }
        }
    }

    fn properties(&mut self, map: &'v Members) {
        let s = self.schema;
        let mut excess = Vec::new();
        for (key, value) in map {
            if self.quiet && !self.failures.is_empty() {
                return;
            }
            let mut spoken_of = false;
            if let Some(schema) = s.properties.get(key) {
                spoken_of = true;
                self.entry(*schema, key, value);
            }
            for (pattern, schema) in &s.pattern_properties {
                if self.matches(pattern, key) {
                    spoken_of = true;
                    self.entry(*schema, key, value);
                }
            }
            if !spoken_of && let Some(rest) = &s.additional_properties {
                spoken_of = true;
                match rest {
                    Rest::Allowed(true) => {}
                    Rest::Allowed(false) => excess.push(key.as_str()),
                    Rest::Each(schema) => self.entry(*schema, key, value),
                }
            }
            if spoken_of {
                self.open.keys.remove(key.as_str());
            }
        }
        if !excess.is_empty() {
            let properties = excess.iter().map(|name| (*name).to_owned()).collect();
            let failure =
                self.failure(|| format!("additional properties {} not allowed", show::quoted(excess)));
            self.failures.push(Failure { properties, ..failure });
        }
    }

    pub(super) fn array(&mut self, list: &'v [Json]) {
        let s = self.schema;
        self.bounds("Items", list.len(), s.min_items, s.max_items);
        if s.unique_items
            && let Some((i, j)) = duplicates(list)
        {
            self.fail(|| format!("items at {} and {} are equal", show::length(i), show::length(j)));
        }
        let items: &[usize] = match &s.items {
            Items::Tuple(items) => items,
            Items::Each(_) | Items::Any => &s.prefix_items,
        };
        for (i, (schema, item)) in items.iter().zip(list).enumerate() {
            self.item(*schema, i, item);
        }
        let spoken = items.len().min(list.len());
        let rest = match (&s.items, &s.additional_items) {
            (Items::Each(schema), _) => Some(*schema),
            (_, Some(Rest::Each(schema))) => Some(*schema),
            (_, Some(Rest::Allowed(false))) if spoken < list.len() => {
                let count = show::length(list.len() - spoken);
                self.fail(|| format!("last {count} additionalItem(s) not allowed"));
                None
            }
            _ => s.rest_items,
        };
        if let Some(schema) = rest {
            for (i, item) in list.iter().enumerate().skip(spoken) {
                self.item(schema, i, item);
            }
        }
        self.contains(list);
    }

    fn contains(&mut self, list: &[Json]) {
        let s = self.schema;
        let Some(schema) = s.contains else { return };
        let mut causes = Vec::new();
        let mut matched = Vec::new();
        for (i, item) in list.iter().enumerate() {
            match self.item_result(schema, i, item) {
                Err(failure) => causes.push(failure),
                Ok(()) => {
                    matched.push(i);
                    if s.draft >= Draft::D2020 {
                        self.open.items.remove(&i);
                    }
                }
            }
        }
        let places = || matched.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let found = show::length(matched.len());
        match s.min_contains {
            Some(want) if as_count(matched.len()) < want => {
                let want = show::count(want);
                self.fail_because(causes, || {
                    let start = format!("min {want} items required to match contains schema, but");
                    match matched.is_empty() {
                        true => format!("{start} none matched"),
                        false => format!("{start} matched {found} items at {}", places()),
                    }
                });
            }
            None if matched.is_empty() => {
                self.fail_because(causes, || "no items match contains schema".to_owned());
            }
            _ => {}
        }
        if let Some(want) = s.max_contains.filter(|want| as_count(matched.len()) > *want) {
            let want = show::count(want);
            self.fail(|| {
                let places = places();
                format!("max {want} items required to match contains schema, but matched {found} items at {places}")
            });
        }
    }

    /// Whether a text matches; also if the search takes too long, in which case the result of the check does not count.
    fn matches(&self, pattern: &Pattern, text: &str) -> bool {
        if pattern.regex.is_costly(text.len()) {
            self.exceed(&pattern.text, text.len());
            return true;
        }
        pattern.regex.is_match(text.as_bytes())
    }

    pub(super) fn string(&mut self, text: &str) {
        let s = self.schema;
        if s.min_length.is_some() || s.max_length.is_some() {
            self.bounds("Length", text.chars().count(), s.min_length, s.max_length);
        }
        if let Some(pattern) = &s.pattern
            && !self.matches(pattern, text)
        {
            let (text, pattern) = (show::quote(text), show::quote(&pattern.text));
            self.fail(|| format!("{text} does not match pattern {pattern}"));
        }
    }

    pub(super) fn number(&mut self, literal: &str) {
        let s = self.schema;
        let bounds = [&s.minimum, &s.maximum, &s.exclusive_minimum, &s.exclusive_maximum, &s.multiple_of];
        if bounds.iter().all(|b| b.is_none()) {
            return;
        }
        let Some(value) = self.value.number() else { return };
        let mut hold = |keyword: &str, bound: &Option<Bound>, ok: fn(&_, &_) -> bool| {
            if let Some(bound) = bound
                && !ok(&value, &bound.value)
            {
                let (got, want) = (show::number(literal), show::number(&bound.literal));
                self.fail(|| format!("{keyword}: got {got}, want {want}"));
            }
        };
        hold("minimum", &s.minimum, |v, b| v >= b);
        hold("maximum", &s.maximum, |v, b| v <= b);
        hold("exclusiveMinimum", &s.exclusive_minimum, |v, b| v > b);
        hold("exclusiveMaximum", &s.exclusive_maximum, |v, b| v < b);
        hold("multipleOf", &s.multiple_of, super::decimal::Decimal::is_multiple_of);
    }
}

/// The first item that equals an earlier one: indexes of both, the earlier first.
fn duplicates(list: &[Json]) -> Option<(usize, usize)> {
    let mut seen: HashMap<String, usize> = HashMap::with_capacity(list.len());
    for (i, item) in list.iter().enumerate() {
        let mut text = String::new();
        item.write_canonical(&mut text);
        if let Some(earlier) = seen.insert(text, i) {
            return Some((earlier, i));
        }
    }
    None
}
