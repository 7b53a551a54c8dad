//! The drafts of JSON Schema, and the keywords of each that contain subschemas.

use super::json::Json;
use super::uri::{append, append_index};

/// A draft, in order of age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    D4,
    D6,
    D7,
    D2019,
    /// The default for a schema without `$schema`.
    #[default]
    D2020,
}

/// The structure of the subschemas of a keyword.
#[derive(Clone, Copy)]
enum Within {
    /// The value is a schema.
    Itself,
    /// Each item of the list is a schema.
    List,
    /// Each entry of the map is a schema.
    Map,
}

use Within::{Itself, List, Map};

/// Keywords with subschemas, each with the first draft that has it.
const SUBSCHEMAS: &[(&str, Within, Draft)] = &[
    ("definitions", Map, Draft::D4),
    ("not", Itself, Draft::D4),
    ("allOf", List, Draft::D4),
    ("anyOf", List, Draft::D4),
    ("oneOf", List, Draft::D4),
    ("properties", Map, Draft::D4),
    ("additionalProperties", Itself, Draft::D4),
    ("patternProperties", Map, Draft::D4),
    ("items", Itself, Draft::D4),
    ("items", List, Draft::D4),
    ("additionalItems", Itself, Draft::D4),
    ("dependencies", Map, Draft::D4),
    ("propertyNames", Itself, Draft::D6),
    ("contains", Itself, Draft::D6),
    ("if", Itself, Draft::D7),
    ("then", Itself, Draft::D7),
    ("else", Itself, Draft::D7),
    ("$defs", Map, Draft::D2019),
    ("dependentSchemas", Map, Draft::D2019),
    ("unevaluatedProperties", Itself, Draft::D2019),
    ("unevaluatedItems", Itself, Draft::D2019),
    ("contentSchema", Itself, Draft::D2019),
    ("prefixItems", List, Draft::D2020),
];

impl Draft {
    pub(super) const ALL: [Self; 5] = [Self::D4, Self::D6, Self::D7, Self::D2019, Self::D2020];

    /// The URL of its metaschema.
    pub(super) fn url(self) -> &'static str {
        match self {
            Self::D4 => "http://json-schema.org/draft-04/schema",
            Self::D6 => "http://json-schema.org/draft-06/schema",
            Self::D7 => "http://json-schema.org/draft-07/schema",
            Self::D2019 => "https://json-schema.org/draft/2019-09/schema",
            Self::D2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    /// The draft whose metaschema has this URL, with either protocol.
    pub(super) fn from_url(url: &str) -> Option<Self> {
        let place = |url: &'static str| url.split_once("://").map_or(url, |(_, place)| place);
        let (url, fragment) = url.split_once('#').unwrap_or((url, ""));
        if !fragment.is_empty() {
            return None;
        }
        let wanted = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")).unwrap_or(url);
        if wanted == "json-schema.org/schema" {
            return Some(Self::default());
        }
        Self::ALL.into_iter().find(|d| place(d.url()) == wanted)
    }

    /// The keyword for the id of a schema.
    pub(super) fn id_keyword(self) -> &'static str {
        if self == Self::D4 { "id" } else { "$id" }
    }

    /// Whether a `$ref` overrides its sibling keywords.
    pub(super) fn ref_stands_alone(self) -> bool {
        self < Self::D2019
    }

    /// The id of a schema, without fragment; empty if it has none.
    pub(super) fn id(self, schema: &Json) -> &str {
        if self.ref_stands_alone() && schema.get("$ref").is_some() {
            return "";
        }
        let id = schema.get(self.id_keyword()).and_then(Json::as_str).unwrap_or_default();
        id.split_once('#').map_or(id, |(before, _)| before)
    }

    /// The direct subschemas of a schema, each with its pointer.
    pub(super) fn subschemas<'s>(self, schema: &'s Json, pointer: &str) -> Vec<(String, &'s Json)> {
        let mut out = Vec::new();
        for (keyword, within, since) in SUBSCHEMAS {
            let Some(value) = schema.get(keyword).filter(|_| self >= *since) else { continue };
            let at = append(pointer, keyword);
            match (within, value) {
                (Itself, value) => out.push((at, value)),
                (List, Json::List(items)) => {
                    out.extend(items.iter().enumerate().map(|(i, item)| (append_index(&at, i), item)));
                }
                (Map, Json::Map(entries)) => {
                    out.extend(entries.iter().map(|(k, v)| (append(&at, k), v)));
                }
                (List | Map, _) => {}
            }
        }
        out
    }
}
