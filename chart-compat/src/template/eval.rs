//! Evaluating pipelines, fields and calls (the second half of `text/template/exec.go`).

use smallvec::SmallVec;

use super::ast::{Arg, Decl, Fields, Number, Pipe, Span, Term, Unquoted, name_text};
use super::error::Error;
use super::exec::{At, Exec};
use super::func::{Func, Type};
use super::origin;
use crate::go::object::Struct;
use crate::go::{Map, Object, Value, fmt};

type Args<'a> = SmallVec<[Value<'a>; 6]>;

impl<'a> Exec<'a> {
    /// Evaluates a pipeline and sets its variables.
    pub(super) fn pipeline(&mut self, dot: Value<'a>, pipe: &'a Pipe) -> Result<Value<'a>, Error> {
        let value = self.pipeline_value(dot, pipe)?;
        for decl in pipe.decl() {
            self.set_variable(decl, value)?;
        }
        Ok(value)
    }

    /// Sets a declared or assigned variable (`setVar`).
    pub(super) fn set_variable(&mut self, decl: &Decl, value: Value<'a>) -> Result<(), Error> {
        match decl.slot {
            Some(slot) => {
                let place = self.base + slot as usize;
                self.vars[place] = value;
                self.loose.retain(|loose| *loose != place);
                Ok(())
            }
            None => Err(self.undefined(decl.name)),
        }
    }

    fn undefined(&self, name: Span) -> Error {
        self.error(&format!("undefined variable: {}", self.show_span(name)))
    }

    fn pipeline_value(&mut self, dot: Value<'a>, pipe: &'a Pipe) -> Result<Value<'a>, Error> {
        self.at = At::Pipe(pipe);
        let mut value = None;
        for cmd in pipe.commands() {
            value = Some(self.command(dot, cmd, value)?.plain());
        }
        Ok(value.unwrap_or_default())
    }

    fn command(
        &mut self,
        dot: Value<'a>,
        cmd: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        let Some((first, rest)) = cmd.split_first() else { return Ok(Value::Nil) };
        match &first.term {
            Term::Field(fields) => {
                self.at = At::Arg(first);
                self.fields(dot, dot, first, *fields, rest, last)
            }
            Term::Chain { node, fields } => self.chain(dot, first, node, *fields, rest, last),
            Term::Function(f) => {
                self.at = At::Arg(first);
                self.call_function(dot, f, At::Command(cmd), rest, last)
            }
            Term::Pipe(p) => {
                self.not_a_function(first, rest, last)?;
                self.nested_pipe(dot, p)
            }
            Term::Variable { name, slot, end } => {
                self.at = At::Arg(first);
                let value = self.vars[self.base + *slot as usize];
                let fields = Term::behind(*name, *end);
                if fields.is_empty() {
                    self.not_a_function(first, rest, last)?;
                    return Ok(value);
                }
                self.fields(dot, value, first, fields, rest, last)
            }
            Term::Unset { name, .. } => {
                self.at = At::Arg(first);
                Err(self.undefined(*name))
            }
            Term::Bool(_)
            | Term::Dot
            | Term::Nil
            | Term::Number(_)
            | Term::Small { .. }
            | Term::String { .. } => {
                self.at = At::Arg(first);
                self.not_a_function(first, rest, last)?;
                match &first.term {
                    Term::Bool(b) => Ok(Value::Bool(*b)),
                    Term::Dot => Ok(dot),
                    Term::Number(n) => self.constant(n),
                    Term::Small { value, .. } => Ok(Value::Int(i64::from(*value))),
                    Term::String { quoted, text } => Ok(Value::Str(self.string(*quoted, text.as_deref()))),
                    _ => Err(self.error("nil is not a command")),
                }
            }
        }
    }

    fn nested_pipe(&mut self, dot: Value<'a>, p: &'a Pipe) -> Result<Value<'a>, Error> {
        stacker::maybe_grow(64 * 1024, 4 * 1024 * 1024, || self.pipeline(dot, p))
    }

    fn not_a_function(&self, first: &'a Arg, rest: &[Arg], last: Option<Value<'a>>) -> Result<(), Error> {
        if rest.is_empty() && last.is_none() {
            return Ok(());
        }
        Err(self.error(&format!("can't give argument to non-function {}", first.text(&self.template.text))))
    }

    /// A number where the context requires no particular kind (`idealConstant`).
    fn constant(&self, n: &'a Number) -> Result<Value<'a>, Error> {
        let hex = n.text.len() > 2
            && n.text.starts_with('0')
            && matches!(n.text.as_bytes()[1], b'x' | b'X')
            && !n.text.contains(['p', 'P']);
        if let Some((re, im)) = n.complex {
            return Ok(Value::object(self.arena, Object::Complex(re, im)));
        }
        match n {
            Number { float: Some(f), .. }
                if !hex && !n.text.starts_with('\'') && n.text.contains(['.', 'e', 'E', 'p', 'P']) =>
            {
                Ok(Value::Float(*f))
            }
            Number { int: Some(i), .. } => Ok(Value::Int(*i)),
            _ => Err(self.error(&format!("{} overflows int", n.text))),
        }
    }

    fn chain(
        &mut self,
        dot: Value<'a>,
        arg: &'a Arg,
        node: &'a Arg,
        fields: Fields,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        self.at = At::Arg(arg);
        if matches!(node.term, Term::Nil) {
            return Err(
                self.error(&format!("indirection through explicit nil in {}", arg.text(&self.template.text)))
            );
        }
        let receiver = match &node.term {
            Term::Pipe(p) => self.nested_pipe(dot, p)?,
            Term::Function(f) => {
                self.at = At::Arg(node);
                self.call_function(dot, f, At::Arg(node), &[], None)?
            }
            _ => self.any(dot, node)?,
        };
        self.fields(dot, receiver, arg, fields, rest, last)
    }

    fn fields(
        &mut self,
        dot: Value<'a>,
        receiver: Value<'a>,
        node: &'a Arg,
        fields: Fields,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        let (mut value, mut holder) = (receiver, None);
        let text: &'a [u8] = &self.template.text;
        let mut names = fields.names(text);
        let Some(mut name) = names.next() else { return Ok(value) };
        for after in names {
            let next = self.field(dot, value, holder, name, node, &[], None)?;
            holder = Some(std::mem::replace(&mut value, next));
            name = after;
        }
        self.field(dot, value, holder, name, node, rest, last)
    }

    /// A field, entry or method of `receiver`. `holder` is the value that contains `receiver`; `None` for the first value of a
    /// chain.
    #[allow(clippy::too_many_arguments, reason = "Go's evalField has as many")]
    fn field(
        &mut self,
        dot: Value<'a>,
        receiver: Value<'a>,
        holder: Option<Value<'a>>,
        key: &'a [u8],
        node: &'a Arg,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        let has_args = !rest.is_empty() || last.is_some();
        match receiver {
            Value::Map(m) if m.kind() == crate::go::MapKind::Any && !has_args => {
                return self.entry(m, key);
            }
            Value::Nil => return Ok(Value::Nil),
            Value::NilInterface => {
                let name = name_text(key);
                return Err(self.error(&format!("nil pointer evaluating interface {{}}.{name}")));
            }
            _ => {}
        }
        if let Some(f) = self.funcs.method(receiver, key) {
            return self.call_method(dot, receiver, f, name_text(key), node, rest, last);
        }
        match receiver {
            Value::Map(_) | Value::Object(crate::go::Object::Files(_)) if has_args => {
                Err(self.error(&format!("{} is not a method but has arguments", name_text(key))))
            }
            Value::Map(m) => self.entry(m, key),
            Value::Object(o) => match o.field(key) {
                Some(_) if has_args => {
                    let name = name_text(key);
                    Err(self.error(&format!("{name} has arguments but cannot be invoked as function")))
                }
                Some(v) => Ok(if v.is_nil() { Value::NilInterface } else { v }),
                None => match o {
                    crate::go::Object::Files(f) => {
                        let found = f.iter().find(|e| e.0.as_bytes() == key);
                        Ok(found.map_or(Value::Bytes(&[]), |e| Value::Bytes(e.1)))
                    }
                    _ => Err(self.no_field(receiver, holder, name_text(key), node)),
                },
            },
            _ => Err(self.no_field(receiver, holder, name_text(key), node)),
        }
    }

    /// A map's entry, or the error of a missing one.
    fn entry(&self, map: &Map<'a>, key: &[u8]) -> Result<Value<'a>, Error> {
        if self.missing_key_is_error && map.get(key).is_none() {
            return Err(self.error(&format!("map has no entry for key {}", crate::go::strconv::quote(key))));
        }
        Ok(entry(map, key))
    }

    fn no_field(&self, receiver: Value<'a>, holder: Option<Value<'a>>, name: &str, node: &Arg) -> Error {
        // The static type of a value in a map or list is its slot's, not its own, until a pipeline evaluates it.
        let slot = match (holder, &node.term) {
            (Some(Value::Map(m)), _) => !m.holds_strings(),
            (Some(_), _) => false,
            (None, Term::Field(_)) => origin::dot_is_slot(self.template_here(), node, &self.loops),
            (None, Term::Variable { slot, .. }) => self.loose.contains(&(self.base + *slot as usize)),
            (None, _) => false,
        };
        let type_name = if slot { "interface {}" } else { receiver.type_name(self.funcs.values_type) };
        if let (false, Value::Object(object)) = (slot, receiver)
            && object.has_private(name)
        {
            return self.error(&format!("{name} is an unexported field of struct type {type_name}"));
        }
        self.error(&format!("can't evaluate field {name} in type {type_name}"))
    }

    fn call_function(
        &mut self,
        dot: Value<'a>,
        f: &'static Func,
        site: At<'a>,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        self.check_count(f.name, f.params.len(), f.variadic, rest.len(), last.is_some())?;
        if matches!(f.name, "and" | "or") {
            return self.and_or(dot, f.name == "or", rest, last);
        }
        let mut args = Args::new();
        self.arguments(dot, f.params, f.variadic, rest, last, &mut args)?;
        let result = match f.name {
            "call" => Err(self.not_callable(rest, &args)),
            _ => self.checked_call(f, &args),
        };
        if let (true, Ok(value)) = (self.diagnostics.is_some(), &result) {
            self.report_call(f.name, site, &args, *value);
        }
        result.map_err(|e| {
            self.at = site;
            self.error_from(&format!("error calling {}: ", f.name), e)
        })
    }

    /// The error of `call`: no value of a chart is a function.
    fn not_callable(&self, rest: &[Arg], args: &[Value<'a>]) -> Error {
        let Some(value) = args.first().filter(|v| !v.is_nil()) else { return Error::new("call of nil") };
        let type_name = value.type_name(self.funcs.values_type);
        let name = match (rest.first(), value) {
            (Some(arg), _) => arg.text(&self.template.text),
            // A piped value has no expression, so Go prints the value (`reflect.Value.String`).
            (None, Value::Str(text)) => String::from_utf8_lossy(text).into_owned(),
            (None, _) => format!("<{type_name} Value>"),
        };
        Error::new(format!("non-function {name} of type {type_name}"))
    }

    #[allow(clippy::too_many_arguments)]
    fn call_method(
        &mut self,
        dot: Value<'a>,
        receiver: Value<'a>,
        f: &'static Func,
        name: &str,
        node: &'a Arg,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        let params = f.params.get(1..).unwrap_or(&[]);
        self.check_count(name, params.len(), f.variadic, rest.len(), last.is_some())?;
        let mut args = Args::new();
        args.push(receiver);
        self.arguments(dot, params, f.variadic, rest, last, &mut args)?;
        let result = self.checked_call(f, &args);
        result.map_err(|e| {
            self.at = At::Arg(node);
            self.error_from(&format!("error calling {name}: "), e)
        })
    }

    fn check_count(
        &self,
        name: &str,
        params: usize,
        variadic: bool,
        given: usize,
        last: bool,
    ) -> Result<(), Error> {
        let total = given + usize::from(last);
        if variadic && total < params - 1 {
            let want = params - 1;
            return Err(
                self.error(&format!("wrong number of args for {name}: want at least {want} got {given}"))
            );
        }
        if !variadic && total != params {
            return Err(self.error(&format!("wrong number of args for {name}: want {params} got {total}")));
        }
        Ok(())
    }

    fn and_or(
        &mut self,
        dot: Value<'a>,
        or: bool,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
    ) -> Result<Value<'a>, Error> {
        let mut value = Value::Nil;
        for arg in rest {
            // `and` and `or` return the argument itself, not the interface that holds it.
            value = self.argument(dot, Type::Reflect, arg)?.plain();
            if value.truth() == or {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    fn arguments(
        &mut self,
        dot: Value<'a>,
        params: &'static [Type],
        variadic: bool,
        rest: &'a [Arg],
        last: Option<Value<'a>>,
        args: &mut Args<'a>,
    ) -> Result<(), Error> {
        let fixed = if variadic { params.len() - 1 } else { params.len() };
        let type_of =
            |i: usize| if i < fixed { params.get(i) } else { params.last() }.copied().unwrap_or(Type::Any);
        for (i, arg) in rest.iter().enumerate() {
            let value = self.argument(dot, type_of(i), arg)?;
            args.push(value);
        }
        if let Some(value) = last {
            args.push(self.validate(value, type_of(rest.len()))?);
        }
        Ok(())
    }

    /// Checks a value against a parameter's type (`validateType`). Functions never receive [`Value::NilInterface`], unless the
    /// type is `Reflect`.
    fn validate(&self, value: Value<'a>, ty: Type) -> Result<Value<'a>, Error> {
        match value {
            Value::Nil if ty.takes_nil() => Ok(Value::Nil),
            Value::Nil => Err(self.error(&format!("invalid value; expected {}", ty.name()))),
            Value::NilInterface if ty == Type::Any => Ok(Value::Nil),
            Value::NilInterface if ty == Type::Reflect => Ok(value),
            _ if value.is_nil() || !ty.accepts(value) => {
                let got = value.type_name(self.funcs.values_type);
                Err(self.error(&format!("wrong type for value; expected {}; got {got}", ty.name())))
            }
            // The function receives a copy in an interface. The copy is not addressable, so pointer methods are not available.
            Value::Object(Object::Struct(Struct { type_name, fields, text: Some(_) })) if ty == Type::Any => {
                Ok(Value::object(self.arena, Object::Struct(Struct { type_name, fields, text: None })))
            }
            _ => Ok(value),
        }
    }

    /// The value of an argument of any type.
    fn any(&mut self, dot: Value<'a>, arg: &'a Arg) -> Result<Value<'a>, Error> {
        self.at = At::Arg(arg);
        match &arg.term {
            Term::Dot => Ok(dot),
            Term::Nil => Ok(Value::Nil),
            Term::Field(fields) => self.fields(dot, dot, arg, *fields, &[], None),
            Term::Variable { name, slot, end } => {
                let value = self.vars[self.base + *slot as usize];
                self.fields(dot, value, arg, Term::behind(*name, *end), &[], None)
            }
            Term::Pipe(p) => self.nested_pipe(dot, p),
            Term::Function(f) => self.call_function(dot, f, At::Arg(arg), &[], None),
            Term::Chain { node, fields } => self.chain(dot, arg, node, *fields, &[], None),
            Term::Bool(b) => Ok(Value::Bool(*b)),
            Term::Number(n) => self.constant(n),
            Term::Small { value, .. } => Ok(Value::Int(i64::from(*value))),
            Term::String { quoted, text } => Ok(Value::Str(self.string(*quoted, text.as_deref()))),
            Term::Unset { name, .. } => Err(self.undefined(*name)),
        }
    }

    fn argument(&mut self, dot: Value<'a>, ty: Type, arg: &'a Arg) -> Result<Value<'a>, Error> {
        match &arg.term {
            Term::Nil => {
                self.at = At::Arg(arg);
                if ty.takes_nil() {
                    Ok(Value::Nil)
                } else {
                    Err(self.error(&format!("cannot assign nil to {}", ty.name())))
                }
            }
            Term::Bool(_) | Term::Number(_) | Term::Small { .. } | Term::String { .. }
                if !matches!(ty, Type::Any | Type::Reflect) =>
            {
                self.at = At::Arg(arg);
                self.literal(ty, arg)
            }
            _ => {
                let value = self.any(dot, arg)?;
                self.validate(value, ty)
            }
        }
    }

    /// A constant, with the kind that the parameter's type requires.
    fn literal(&self, ty: Type, arg: &'a Arg) -> Result<Value<'a>, Error> {
        let expected =
            |what: &str| self.error(&format!("expected {what}; found {}", arg.text(&self.template.text)));
        match (ty, &arg.term) {
            (Type::Bool, Term::Bool(b)) => Ok(Value::Bool(*b)),
            (Type::Bool, _) => Err(expected("bool")),
            (Type::String, Term::String { quoted, text }) => {
                Ok(Value::Str(self.string(*quoted, text.as_deref())))
            }
            (Type::String, _) => Err(expected("string")),
            (Type::Int | Type::Int64 | Type::Duration | Type::Uint32, term) => {
                match (ty, term.number().and_then(|n| n.0)) {
                    (Type::Int, Some(i)) => Ok(Value::Int(i)),
                    (Type::Uint32, Some(i)) if i >= 0 => Ok(Value::Int(i & 0xffff_ffff)),
                    (Type::Uint32, _) => Err(expected("unsigned integer")),
                    (_, Some(i)) => Ok(Value::Int64(i)),
                    (_, None) => Err(expected("integer")),
                }
            }
            (Type::Float64, term) => {
                let float = term.number().and_then(|n| n.1);
                float.map(Value::Float).ok_or_else(|| expected("float"))
            }
            _ => Err(self.error(&format!(
                "can't handle {} for arg of type {}",
                arg.text(&self.template.text),
                ty.name()
            ))),
        }
    }

    /// The value of a string constant of the running template.
    fn string(&self, quoted: Span, own: Option<&'a Unquoted>) -> &'a [u8] {
        Term::string(quoted, own, &self.template.text)
    }

    /// A span of the running template's text, for error messages.
    fn show_span(&self, span: Span) -> String {
        String::from_utf8_lossy(span.of(&self.template.text)).into_owned()
    }

    /// A value as `%v` prints it, for error messages.
    #[must_use]
    pub fn show(&self, value: Value<'a>) -> String {
        String::from_utf8_lossy(&fmt::sprint(value)).into_owned()
    }
}

/// A map's entry. A missing or nil entry is the nil of an interface slot.
fn entry<'a>(m: &Map<'a>, key: &[u8]) -> Value<'a> {
    match m.get(key) {
        Some(v) if !v.is_nil() => v,
        None if m.holds_strings() => Value::Str(&[]),
        _ => Value::NilInterface,
    }
}
