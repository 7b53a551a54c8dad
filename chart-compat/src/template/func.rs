//! The definition of a template function: name, parameter types and Rust code.

use rustc_hash::FxHashMap;

use super::error::Error;
use super::exec::Exec;
use super::limits::Cost;
use crate::go::{Object, Value};

/// The static type of a function's parameter. It decides the engine's checks and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`
    Any,
    /// `reflect.Value`: any value, with both nils kept apart; for built-in functions.
    Reflect,
    /// `string`
    String,
    /// `int`
    Int,
    /// `int64`
    Int64,
    /// `uint32`: no value has this type, so only a constant fits.
    Uint32,
    /// `float64`
    Float64,
    /// `bool`
    Bool,
    /// `map[string]interface {}`
    Map,
    /// `[]interface {}`
    List,
    /// `[]string`
    Strings,
    /// `time.Time`
    Time,
    /// `time.Duration`
    Duration,
    /// A struct or pointer type by its Go name, e.g. `sprig.certificate`.
    Struct(&'static str),
}

impl Type {
    /// The type as Go prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::String => "string",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Float64 => "float64",
            Self::Bool => "bool",
            Self::Map => "map[string]interface {}",
            Self::List => "[]interface {}",
            Self::Strings => "[]string",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Struct(name) => name,
        }
    }

    /// Whether nil can be passed (`canBeNil`).
    #[must_use]
    pub fn takes_nil(self) -> bool {
        matches!(self, Self::Any | Self::Reflect | Self::Map | Self::List | Self::Strings)
    }

    /// Whether a value other than nil is assignable to this type.
    #[must_use]
    pub fn accepts(self, value: Value<'_>) -> bool {
        match (self, value) {
            (Self::Any | Self::Reflect, _)
            | (Self::String, Value::Str(_))
            | (Self::Int, Value::Int(_))
            | (Self::Int64, Value::Int64(_))
            | (Self::Float64, Value::Float(_))
            | (Self::Bool, Value::Bool(_))
            | (Self::Time, Value::Object(Object::Time(_)))
            | (Self::Duration, Value::Object(Object::Duration(_))) => true,
            (Self::Map, Value::Map(m)) => !m.holds_strings(),
            (Self::List, Value::List(l)) => l.elem == crate::go::Elem::Any,
            (Self::Strings, Value::List(l)) => l.elem == crate::go::Elem::String,
            (Self::Strings, Value::Object(Object::ApiVersions(_))) => true,
            // Go dereferences a pointer if the parameter is the struct itself.
            (Self::Struct(name), Value::Object(o)) => {
                o.type_name() == name || o.type_name().strip_prefix('*') == Some(name)
            }
            _ => false,
        }
    }
}

/// The code of a function. The engine has already checked the number and types of the arguments.
pub(super) type Call = for<'a> fn(&mut Exec<'a>, &[Value<'a>]) -> Result<Value<'a>, Error>;

/// A function that templates can call.
pub struct Func {
    /// The name in templates.
    pub name: &'static str,
    /// Parameter types. The last one of a variadic function is the type of every further argument.
    pub params: &'static [Type],
    /// Whether the last parameter takes any number of arguments.
    pub variadic: bool,
    /// The code.
    pub call: Call,
    pub(super) cost: Cost,
}

impl Func {
    /// A function with a fixed number of parameters.
    #[must_use]
    pub const fn new(name: &'static str, params: &'static [Type], call: Call) -> Self {
        Self { name, params, variadic: false, call, cost: Cost::of(name) }
    }

    /// A variadic function: its last parameter repeats.
    #[must_use]
    pub const fn variadic(name: &'static str, params: &'static [Type], call: Call) -> Self {
        Self { name, params, variadic: true, call, cost: Cost::of(name) }
    }
}

/// All functions and methods that a set of templates may call.
pub struct Funcs {
    by_name: FxHashMap<&'static str, &'static Func>,
    methods: fn(Value<'_>, &[u8]) -> Option<&'static Func>,
    /// Go's name of the type of `.Values`.
    pub values_type: &'static str,
}

impl Funcs {
    /// Builds the table. Of two functions with one name the later one wins. `methods` finds a method of a value by name; the
    /// method's function takes the receiver as first argument.
    #[must_use]
    pub fn new(
        groups: &[&'static [Func]],
        methods: fn(Value<'_>, &[u8]) -> Option<&'static Func>,
        values_type: &'static str,
    ) -> Self {
        let by_name = groups.iter().flat_map(|g| g.iter()).map(|f| (f.name, f)).collect();
        Self { by_name, methods, values_type }
    }

    /// The table without the functions of these names.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.by_name.retain(|name, _| !names.contains(name));
        self
    }

    /// The function named `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'static Func> {
        self.by_name.get(name).copied()
    }

    pub(super) fn method(&self, value: Value<'_>, name: &[u8]) -> Option<&'static Func> {
        (self.methods)(value, name)
    }
}
