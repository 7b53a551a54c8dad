//! The choice of a tag by Flux's rules: which tags count, what is compared of them, and in which order. Pure.

use std::cmp::Ordering;

use chart_compat::go::semver::{self, Range};
use regex::Regex;
use serde_json::Value;

use super::update_policy::{bounded_expression, numbers};

/// Tags that do not count unless the list says otherwise: signatures.
const SIGNATURES: &str = "^.*\\.sig$";
/// The most expressions of a list, and the longest of them, in bytes.
const MAX_EXCLUSIONS: usize = 25;
const MAX_EXPRESSION: usize = 2048;
/// The longest text with groups, in bytes: each group may be a whole tag.
const MAX_EXTRACT: usize = 256;

/// Which of two values is the later one.
enum TagOrder {
    /// Versions of a range.
    Version(Range),
    Alphabetical {
        descending: bool,
    },
    Numerical {
        descending: bool,
    },
}

/// The tags that count, and their order.
pub(crate) struct TagFilter {
    pattern: Option<Regex>,
    /// What is compared of a tag, with groups of the pattern; empty: the tag.
    extract: String,
    excluded: Vec<Regex>,
    order: TagOrder,
    /// The tag that was chosen is followed when it gets another digest.
    follows_digest: bool,
}

fn expression(field: &str, text: &str) -> Result<Regex, String> {
    if text.len() > MAX_EXPRESSION {
        return Err(format!("{field}: {} bytes, more than {MAX_EXPRESSION}", text.len()));
    }
    bounded_expression(text).map_err(|error| format!("{field}: {text:?}: {error}"))
}

impl TagFilter {
    /// That of the spec of an ImagePolicy.
    ///
    /// # Errors
    /// A field cannot be used; the text names it with its value.
    pub(crate) fn of(spec: &Value) -> Result<Self, String> {
        let filter = &spec["filterTags"];
        let pattern = filter["pattern"].as_str().filter(|text| !text.is_empty());
        let extract = filter["extract"].as_str().unwrap_or_default();
        if extract.len() > MAX_EXTRACT {
            let length = extract.len();
            return Err(format!("spec.filterTags.extract: {length} bytes, more than {MAX_EXTRACT}"));
        }
        Ok(Self {
            pattern: pattern.map(|text| expression("spec.filterTags.pattern", text)).transpose()?,
            extract: extract.to_owned(),
            excluded: Vec::new(),
            order: order_of(&spec["policy"])?,
            follows_digest: spec["digestReflectionPolicy"] == "Always",
        })
    }

    /// The same without the tags that match one of a list; null is Flux's own list.
    ///
    /// # Errors
    /// The list cannot be used; the text says why.
    pub(crate) fn without(mut self, list: &Value) -> Result<Self, String> {
        let field = "spec.exclusionList";
        self.excluded = match list {
            Value::Null => vec![expression(field, SIGNATURES)?],
            Value::Array(list) if list.len() <= MAX_EXCLUSIONS => {
                let text = |item: &Value| {
                    let text = item
                        .as_str()
                        .ok_or_else(|| format!("{field}: it has an entry that is not a text"))?;
                    expression(field, text)
                };
                list.iter().map(text).collect::<Result<_, _>>()?
            }
            _ => return Err(format!("{field}: it is not a list of up to {MAX_EXCLUSIONS} expressions")),
        };
        Ok(self)
    }

    /// The tag that is later than all others, unless it comes before the one that runs.
    ///
    /// # Errors
    /// A tag cannot be compared; the text names it.
    pub(crate) fn choose<'t>(
        &self,
        current: &str,
        tags: impl Iterator<Item = &'t str>,
    ) -> Result<Option<&'t str>, String> {
        let mut latest: Option<(String, &'t str)> = None;
        for tag in tags {
            let Some(value) = self.value(tag) else { continue };
            if !self.counts(&value, tag)? {
                continue;
            }
            let is_later = match &latest {
                Some((before, _)) => self.order(&value, before) == Ordering::Greater,
                None => true,
            };
            if is_later {
                latest = Some((value, tag));
            }
        }
        let Some((value, tag)) = latest else { return Ok(None) };
        if tag == current {
            return Ok(self.follows_digest.then_some(tag));
        }
        let before = self.value(current).filter(|before| self.has_order(before));
        let goes_back = before.is_some_and(|before| self.order(&value, &before) != Ordering::Greater);
        Ok((!goes_back).then_some(tag))
    }

    /// What is compared of a tag; `None` if it does not count.
    fn value(&self, tag: &str) -> Option<String> {
        if self.excluded.iter().any(|excluded| excluded.is_match(tag)) {
            return None;
        }
        let Some(pattern) = &self.pattern else { return Some(tag.to_owned()) };
        let found = pattern.captures(tag)?;
        if self.extract.is_empty() {
            return Some(tag.to_owned());
        }
        let mut value = String::new();
        found.expand(&self.extract, &mut value);
        Some(value)
    }

    /// Whether a value can be compared: versions of the range do.
    ///
    /// # Errors
    /// It is not a number, and all have to be.
    fn counts(&self, value: &str, tag: &str) -> Result<bool, String> {
        match &self.order {
            TagOrder::Version(range) => {
                Ok(numbers(value) == 3 && semver::parse(value).is_ok_and(|version| range.check(&version)))
            }
            TagOrder::Alphabetical { .. } => Ok(true),
            TagOrder::Numerical { .. } if number(value).is_some() => Ok(true),
            TagOrder::Numerical { .. } => {
                let value: String = value.chars().take(100).collect();
                Err(format!("the tag {tag:?} has the value {value:?}, which is not a number: filter it out"))
            }
        }
    }

    /// Whether a value comes before or after others: also a version that is not of the range.
    fn has_order(&self, value: &str) -> bool {
        match self.order {
            TagOrder::Version(_) => semver::parse(value).is_ok(),
            TagOrder::Alphabetical { .. } => true,
            TagOrder::Numerical { .. } => number(value).is_some(),
        }
    }

    /// The order of two values that have one.
    fn order(&self, one: &str, other: &str) -> Ordering {
        let (order, descending) = match &self.order {
            TagOrder::Version(_) => match (semver::parse(one), semver::parse(other)) {
                (Ok(one), Ok(other)) => (semver::compare(&one, &other), false),
                _ => (Ordering::Equal, false),
            },
            TagOrder::Alphabetical { descending } => (one.cmp(other), *descending),
            TagOrder::Numerical { descending } => {
                let (one, other) = (number(one).unwrap_or_default(), number(other).unwrap_or_default());
                (one.total_cmp(&other), *descending)
            }
        };
        if descending { order.reverse() } else { order }
    }
}

fn number(value: &str) -> Option<f64> {
    value.parse().ok().filter(|number: &f64| number.is_finite())
}

fn order_of(policy: &Value) -> Result<TagOrder, String> {
    let descending = |name: &str| match policy[name]["order"].as_str() {
        None | Some("" | "asc") => Ok(false),
        Some("desc") => Ok(true),
        Some(other) => Err(format!("spec.policy.{name}.order: {other:?} is neither asc nor desc")),
    };
    let has = |name: &str| policy[name].is_object();
    match (has("semver"), has("alphabetical"), has("numerical")) {
        (true, false, false) => {
            let range = policy["semver"]["range"].as_str().unwrap_or_default();
            let read = Range::parse(range.trim());
            read.map(TagOrder::Version)
                .map_err(|error| format!("spec.policy.semver.range: {range:?}: {error}"))
        }
        (false, true, false) => Ok(TagOrder::Alphabetical { descending: descending("alphabetical")? }),
        (false, false, true) => Ok(TagOrder::Numerical { descending: descending("numerical")? }),
        _ => Err("spec.policy: it has not one of semver, alphabetical and numerical".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn choose(
        spec: &Value,
        exclusions: &Value,
        current: &str,
        tags: &[&str],
    ) -> Result<Option<String>, String> {
        let filter = TagFilter::of(spec).unwrap().without(exclusions).unwrap();
        Ok(filter.choose(current, tags.iter().copied())?.map(str::to_owned))
    }

    #[test]
    fn the_last_tag_of_an_order_is_chosen() {
        let tags = [
            "1.0.0",
            "v1.2.0",
            "1.10.0",
            "2.0.0-rc.1",
            "1.11",
            "latest",
            "sha256-1.sig",
            "b-7",
            "b-12",
            "b-9x",
        ];
        let semver = |range: &str| json!({"policy": {"semver": {"range": range}}});
        let builds = |order: &str, kind: &str| {
            let filter = json!({"pattern": "^b-(?P<n>[0-9]+)$", "extract": "$n"});
            json!({"policy": {kind: {"order": order}}, "filterTags": filter})
        };
        for (spec, current, expected) in [
            (semver("^1.0"), "1.0.0", Some("1.10.0")),
            (semver("^1.0"), "1.10.0", None),
            (semver("~1.2"), "1.0.0", Some("v1.2.0")),
            (semver(">=1.0.0-0"), "1.0.0", Some("2.0.0-rc.1")),
            (semver("^3"), "1.0.0", None),
            // Never back, also where the range would.
            (semver("<1.5"), "1.4.9", None),
            (semver("<1.5"), "2.0.0", None),
            (semver("^1.0"), "main", Some("1.10.0")),
            (builds("asc", "numerical"), "b-7", Some("b-12")),
            (builds("", "numerical"), "b-12", None),
            (builds("desc", "numerical"), "main", Some("b-7")),
            (builds("asc", "alphabetical"), "main", Some("b-7")),
            (json!({"policy": {"alphabetical": {}}}), "1.0.0", Some("v1.2.0")),
        ] {
            assert_eq!(
                choose(&spec, &Value::Null, current, &tags),
                Ok(expected.map(str::to_owned)),
                "{spec} {current}"
            );
        }
        let mut follows = semver("^1.0");
        follows["digestReflectionPolicy"] = "Always".into();
        assert_eq!(choose(&follows, &Value::Null, "1.10.0", &tags), Ok(Some("1.10.0".to_owned())));
        let last = json!({"policy": {"alphabetical": {}}});
        assert_eq!(choose(&last, &json!(["^v"]), "1.0.0", &tags), Ok(Some("sha256-1.sig".to_owned())));
        let error = choose(&json!({"policy": {"numerical": {}}}), &json!([]), "1", &["1", "x"]).unwrap_err();
        assert_eq!(error, "the tag \"x\" has the value \"x\", which is not a number: filter it out");
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (spec, part) in [
            (json!({}), "spec.policy: it has not one of"),
            (json!({"policy": {"semver": {}, "numerical": {}}}), "spec.policy: it has not one of"),
            (json!({"policy": {"semver": {"range": "x.y"}}}), "spec.policy.semver.range: \"x.y\": "),
            (
                json!({"policy": {"numerical": {"order": "up"}}}),
                "spec.policy.numerical.order: \"up\" is neither",
            ),
            (
                json!({"policy": {"numerical": {}}, "filterTags": {"pattern": "("}}),
                "spec.filterTags.pattern: \"(\": ",
            ),
            (
                json!({"policy": {"numerical": {}}, "filterTags": {"extract": "x".repeat(MAX_EXTRACT + 1)}}),
                "spec.filterTags.extract: 257 bytes, more than 256",
            ),
        ] {
            let error = TagFilter::of(&spec).err().unwrap();
            assert!(error.starts_with(part), "{spec}: {error}");
        }
        let filter = || TagFilter::of(&json!({"policy": {"alphabetical": {}}})).unwrap();
        for list in [json!("x"), json!([1]), json!(vec!["x"; 26]), json!(["x".repeat(3000)])] {
            assert!(filter().without(&list).err().unwrap().starts_with("spec.exclusionList: "), "{list}");
        }
    }
}
