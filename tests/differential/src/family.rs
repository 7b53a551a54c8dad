//! Families of questions, and one question.

use chart_compat::profile::Profile;
use serde_json::{Value, json};

use crate::choices::Choices;
use crate::make;

/// A family of generated questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Whole templates: control structures, variables, nested templates, and functions within them.
    Template,
    /// Whole charts: metadata, dependencies, values on every level, resources and hooks.
    Chart,
    /// The same, answered by Helm 3.
    Chart3,
    /// One call of a function with plausible and implausible arguments.
    Function,
    /// Values written as YAML, JSON and TOML, and texts read back by functions.
    Codec,
    /// YAML documents, also broken ones.
    Yaml,
    /// Streams of manifests with comments, also broken ones, as post-renderers get them.
    Manifests,
    /// Schemas of every draft, also broken ones, and values to be judged by them.
    Schema,
    /// Lines of `--set` and its kin over existing values.
    Set,
    /// Version ranges.
    Semver,
    /// Regular expressions.
    Regexp,
    /// Verbs of `printf` over all kinds of values.
    Printf,
    /// `.Files.Glob`.
    Glob,
    /// Time layouts, zones and durations.
    Time,
}

/// What a question asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// To render a template.
    Template,
    /// To render a chart, whose files are a map in JSON.
    Chart(Profile),
    /// To read and write a YAML document.
    Yaml,
    /// To write a stream of manifests anew, and with labels.
    Manifests,
    /// To judge values by a schema.
    Schema,
    /// To change values by a line.
    Set(Way),
}

/// How a line that changes values is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `--set`
    Set,
    /// `--set-string`
    String,
    /// `--set-json`
    Json,
    /// `--set-literal`
    Literal,
}

/// A question.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it asks for.
    pub kind: Kind,
    /// The template, document or line.
    pub text: Vec<u8>,
    /// The values.
    pub values: Value,
}

/// Files of the chart whose template is rendered.
pub(crate) const FILES: &[(&str, &[u8])] = &[
    ("a.txt", b"one\ntwo\r\nthree"),
    ("conf/b.yaml", b"k: v\n"),
    ("conf/deep/c.json", b"{\"k\": [1, 2]}"),
    ("conf/[x].txt", b"brackets"),
    ("conf/{y}.txt", b"braces\n\n"),
    ("conf/deep/er/d.txt", b"\xC3\xA9"),
    ("bin/data", b"\x00\xFF\xFEab"),
    ("empty", b""),
];

impl Family {
    /// All families.
    pub const ALL: [Self; 14] = [
        Self::Template,
        Self::Chart,
        Self::Chart3,
        Self::Function,
        Self::Codec,
        Self::Yaml,
        Self::Manifests,
        Self::Schema,
        Self::Set,
        Self::Semver,
        Self::Regexp,
        Self::Printf,
        Self::Glob,
        Self::Time,
    ];

    /// The name, in lower case.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// Whose answers count.
    #[must_use]
    pub fn profile(self) -> Profile {
        if self == Self::Chart3 { Profile::Helm3 } else { Profile::Helm4 }
    }

    /// A question of the family.
    #[must_use]
    pub fn make(self, c: &mut Choices) -> Case {
        let (kind, text) = match self {
            Self::Template => (Kind::Template, make::template::template(c)),
            Self::Chart => (Kind::Chart(Profile::Helm4), make::charts::chart(c)),
            Self::Chart3 => (Kind::Chart(Profile::Helm3), make::charts::chart(c)),
            Self::Function => (Kind::Template, make::template::function(c)),
            Self::Codec => (Kind::Template, make::template::codec(c)),
            Self::Yaml => (Kind::Yaml, make::yaml::document(c)),
            Self::Manifests => (Kind::Manifests, make::manifests::stream(c)),
            Self::Schema => (Kind::Schema, make::schema::schema(c)),
            Self::Set => {
                let way = c.of(&[Way::Set, Way::String, Way::Json, Way::Literal]);
                (Kind::Set(way), make::set::line(c, way))
            }
            Self::Semver => (Kind::Template, make::versions::template(c)),
            Self::Regexp => (Kind::Template, make::patterns::regexp_template(c)),
            Self::Printf => (Kind::Template, make::formats::printf_template(c)),
            Self::Glob => (Kind::Template, make::patterns::glob_template(c)),
            Self::Time => (Kind::Template, make::formats::time_template(c)),
        };
        let values = match self {
            Self::Chart | Self::Chart3 => make::charts::user_values(c),
            Self::Yaml | Self::Manifests => Value::Null,
            Self::Schema => make::schema::values(c),
            Self::Set => make::tree::existing(c),
            Self::Template | Self::Function | Self::Codec | Self::Printf => make::tree::chart_values(c),
            _ => json!({}),
        };
        Case { kind, text, values }
    }
}

impl Case {
    /// Whether the chart's files play a part.
    pub(crate) fn wants_files(&self) -> bool {
        self.kind == Kind::Template && self.text.windows(6).any(|w| w == b".Files")
    }

    /// The text for people.
    #[must_use]
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}
