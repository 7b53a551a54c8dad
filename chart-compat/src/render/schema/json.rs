//! JSON whose numbers keep their digits, which schemas and their messages need (Go's `json.Number`).

use super::decimal::Decimal;
use super::members::Members;
use crate::data::Data;
use crate::go::fmt;
use crate::json::Tree;

/// A JSON value.
#[derive(Clone, Debug)]
pub(super) enum Json {
    Null,
    Bool(bool),
    /// A number with its original digits.
    Number(Box<str>),
    String(String),
    List(Vec<Json>),
    Map(Members),
}

/// A set of JSON's types, in the order in which messages name them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

const NAMES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

impl Types {
    const NUMBER: Self = Self(1 << 2);
    const INTEGER: Self = Self(1 << 3);

    /// The type with this name; an empty set if there is none.
    pub(super) fn named(name: &str) -> Self {
        NAMES.iter().position(|n| *n == name).map_or(Self(0), |i| Self(1 << i))
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether a value has one of these types.
    pub(super) fn accept(self, value: &Json) -> bool {
        let own = value.types();
        self.has(own)
            || own == Self::NUMBER
                && self.has(Self::INTEGER)
                && value.number().is_some_and(|n| n.is_integer())
    }

    /// Like `accept`, for the values of templates.
    pub(super) fn accept_data(self, value: &Data) -> bool {
        self.has(match value {
            Data::Null => Self(1 << 0),
            Data::Bool(_) => Self(1 << 1),
            Data::Int(_) => Self::NUMBER.with(Self::INTEGER),
            Data::Float(f) if f.fract() == 0.0 => Self::NUMBER.with(Self::INTEGER),
            Data::Float(_) => Self::NUMBER,
            Data::String(_) => Self(1 << 4),
            Data::List(_) => Self(1 << 5),
            Data::Map(_) => Self(1 << 6),
        })
    }

    /// Their names, joined by `or`.
    pub(super) fn names(self) -> String {
        let names: Vec<&str> =
            NAMES.iter().enumerate().filter(|(i, _)| self.0 & 1 << i != 0).map(|(_, n)| *n).collect();
        names.join(" or ")
    }
}

impl Json {
    /// Converts a value for schemas: every number with the digits that Go prints.
    pub(super) fn from_data(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(b) => Self::Bool(*b),
            Data::Int(i) => Self::Number(i.to_string().into()),
            Data::Float(f) => Self::Number(fmt::float(*f).into()),
            Data::String(s) => Self::String(s.clone()),
            Data::List(l) => Self::List(l.iter().map(Self::from_data).collect()),
            Data::Map(m) => Self::Map(m.iter().map(|(k, v)| (k.clone(), Self::from_data(v))).collect()),
        }
    }

    /// The type of this value.
    pub(super) fn types(&self) -> Types {
        Types(
            1 << match self {
                Self::Null => 0,
                Self::Bool(_) => 1,
                Self::Number(_) => 2,
                Self::String(_) => 4,
                Self::List(_) => 5,
                Self::Map(_) => 6,
            },
        )
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(m) => m.get(key),
            _ => None,
        }
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            _ => None,
        }
    }

    pub(super) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub(super) fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(l) => Some(l),
            _ => None,
        }
    }

    pub(super) fn as_map(&self) -> Option<&Members> {
        match self {
            Self::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The number, if this is one.
    pub(super) fn number(&self) -> Option<Decimal> {
        match self {
            Self::Number(n) => Decimal::parse(n),
            _ => None,
        }
    }

    /// Writes the canonical text: the same for equal values only.
    pub(super) fn write_canonical(&self, out: &mut String) {
        match self {
            Self::Null => out.push('n'),
            Self::Bool(b) => out.push(if *b { 't' } else { 'f' }),
            Self::Number(n) => match Decimal::parse(n) {
                Some(number) => out.push_str(&number.canonical()),
                None => out.push_str(n),
            },
            Self::String(s) => {
                out.push('"');
                out.push_str(&s.len().to_string());
                out.push(':');
                out.push_str(s);
            }
            Self::List(l) => {
                out.push('[');
                for item in l {
                    item.write_canonical(out);
                    out.push(',');
                }
                out.push(']');
            }
            Self::Map(m) => {
                out.push('{');
                for (key, value) in m {
                    Self::String(key.clone()).write_canonical(out);
                    value.write_canonical(out);
                    out.push(',');
                }
                out.push('}');
            }
        }
    }

    /// Whether both values are equal; compares numbers by value, not by their digits.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b || self.number() == other.number(),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::List(a), Self::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)),
            (Self::Map(a), Self::Map(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && a.same(b))
            }
            _ => false,
        }
    }
}

impl Tree for Json {
    fn null() -> Self {
        Self::Null
    }

    fn bool(value: bool) -> Self {
        Self::Bool(value)
    }

    fn number(literal: &str) -> Result<Self, Self> {
        let number = Self::Number(literal.into());
        // Arithmetic with a huge exponent would be too expensive.
        if Decimal::parse(literal).is_some() { Ok(number) } else { Err(number) }
    }

    fn string(text: String) -> Self {
        Self::String(text)
    }

    fn list(items: Vec<Self>) -> Self {
        Self::List(items)
    }

    fn map(entries: Vec<(String, Self)>) -> Self {
        Self::Map(entries.into_iter().collect())
    }
}
