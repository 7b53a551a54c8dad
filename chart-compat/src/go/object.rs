//! Values with fields and methods: Helm's context structs, versions, times.
//!
//! Owns their data, fields and printing. Their methods are in `sprig`, because some of them need YAML and time layouts.

use super::value::Value;

/// A struct or method-bearing value.
pub enum Object<'a> {
    /// A struct with exported fields.
    Struct(Struct<'a>),
    /// `common.VersionSet`: a `[]string` with the method `Has`.
    ApiVersions(&'a [&'a str]),
    /// `engine.files`: a `map[string][]byte` with methods; sorted by name.
    Files(&'a [(&'a str, &'a [u8])]),
    /// `*semver.Version`
    Version(Version<'a>),
    /// `time.Time`
    Time(Time<'a>),
    /// `complex128`: real and imaginary part
    Complex(f64, f64),
    /// `time.Duration`, nanoseconds
    Duration(i64),
    /// A named integer that prints as a name, e.g. `time.Month`.
    Enum(Enum),
}

/// A value of an integer type with named constants.
#[derive(Clone, Copy)]
pub struct Enum {
    /// The type as `%T` prints it.
    pub type_name: &'static str,
    /// The number.
    pub value: i64,
    /// The result of its `String` method.
    pub text: &'static str,
}

/// A Go struct with its exported fields in order of declaration.
pub struct Struct<'a> {
    /// The type as `%T` prints it, e.g. `*common.Capabilities`.
    pub type_name: &'a str,
    /// Fields by Go name, in order of declaration. Fields in lower case are only printed.
    pub fields: &'a [(&'a str, Value<'a>)],
    /// The result of the `String` method of a pointer to it, if there is one.
    pub text: Option<&'a str>,
}

impl<'a> Struct<'a> {
    /// The struct that a pointer points to; `None` if this is not a pointer.
    #[must_use]
    pub fn pointed_at(&self) -> Option<Self> {
        let type_name = self.type_name.strip_prefix('*')?;
        Some(Self { type_name, fields: self.fields, text: None })
    }

    /// The exported fields.
    pub fn exported(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'a> {
        self.fields.iter().copied().filter(|(name, _)| is_exported(name))
    }

    /// The struct that an unnamed struct embeds as its first field; its fields are promoted.
    #[must_use]
    pub fn embedded(&self) -> Option<&'a Struct<'a>> {
        match self.fields.first() {
            Some((_, Value::Object(Object::Struct(first)))) if self.type_name.starts_with("struct {") => {
                Some(first)
            }
            _ => None,
        }
    }

    /// The value of a field, its own or a promoted one.
    fn field(&self, name: &[u8]) -> Option<Value<'a>> {
        let own = self.fields.iter().find(|f| f.0.as_bytes() == name).map(|f| f.1);
        own.or_else(|| self.embedded()?.field(name))
    }
}

/// Whether a field of this name is exported.
#[must_use]
pub fn is_exported(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
}

/// A parsed semantic version (`semver.Version` of Masterminds/semver).
#[derive(Clone, Copy)]
pub struct Version<'a> {
    /// Major number.
    pub major: u64,
    /// Minor number.
    pub minor: u64,
    /// Patch number.
    pub patch: u64,
    /// Prerelease without the leading dash.
    pub prerelease: &'a str,
    /// Build metadata without the leading plus.
    pub metadata: &'a str,
    /// The text it was parsed from.
    pub original: &'a str,
    /// Whether this is the struct itself, as its `Inc` methods return it, instead of a pointer.
    pub by_value: bool,
}

/// A point in time with a zone (`time.Time`).
#[derive(Clone, Copy)]
pub struct Time<'a> {
    /// Seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Seconds east of UTC.
    pub offset: i32,
    /// The zone's abbreviation, e.g. `UTC` or `CEST`.
    pub abbreviation: &'a str,
    /// The IANA name of the zone, for arithmetic across its transitions; empty for a fixed offset.
    pub zone: &'a str,
}

impl<'a> Object<'a> {
    /// The value of an exported field.
    #[must_use]
    pub fn field(&self, name: &[u8]) -> Option<Value<'a>> {
        match self {
            Self::Struct(s) if name.first().is_some_and(u8::is_ascii_uppercase) => s.field(name),
            _ => None,
        }
    }

    /// Whether there is an unexported field of this name.
    #[must_use]
    pub fn has_private(&self, name: &str) -> bool {
        match self {
            Self::Struct(s) => !is_exported(name) && s.fields.iter().any(|f| f.0 == name),
            Self::Version(_) => {
                matches!(name, "major" | "minor" | "patch" | "pre" | "metadata" | "original")
            }
            Self::Time(_) => matches!(name, "wall" | "ext" | "loc"),
            Self::ApiVersions(_) | Self::Files(_) | Self::Complex(..) | Self::Duration(_) | Self::Enum(_) => {
                false
            }
        }
    }

    /// Go's truth: structs and pointers are true, collections if not empty, numbers if not zero.
    #[must_use]
    pub fn truth(&self) -> bool {
        match self {
            Self::Struct(_) | Self::Version(_) | Self::Time(_) => true,
            Self::ApiVersions(v) => !v.is_empty(),
            Self::Files(f) => !f.is_empty(),
            Self::Duration(d) => *d != 0,
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::Enum(e) => e.value != 0,
        }
    }

    /// `reflect.Kind.String()`
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Struct(s) if s.type_name.starts_with('*') => "ptr",
            Self::Struct(_) | Self::Time(_) => "struct",
            Self::ApiVersions(_) => "slice",
            Self::Files(_) => "map",
            Self::Version(v) => {
                if v.by_value {
                    "struct"
                } else {
                    "ptr"
                }
            }
            Self::Duration(_) => "int64",
            Self::Complex(..) => "complex128",
            Self::Enum(_) => "int",
        }
    }

    /// The Go type as `%T` prints it.
    #[must_use]
    pub fn type_name(&self) -> &'a str {
        match self {
            Self::Struct(s) => s.type_name,
            Self::ApiVersions(_) => "common.VersionSet",
            Self::Files(_) => "engine.files",
            Self::Version(v) => {
                if v.by_value {
                    "semver.Version"
                } else {
                    "*semver.Version"
                }
            }
            Self::Time(_) => "time.Time",
            Self::Duration(_) => "time.Duration",
            Self::Complex(..) => "complex128",
            Self::Enum(e) => e.type_name,
        }
    }
}
