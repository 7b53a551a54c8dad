//! The functions that Helm adds to sprig's and that need the engine: include, tpl, required, fail, lookup.
//!
//! Conversions (toYaml and similar functions) are among sprig's encoders.

use super::error::{MARK_END, MARK_START};
use crate::go::{MapKind, Object, Value, strconv};
use crate::sprig;
use crate::template::{DiagnosticKind, Error, Exec, Func, TPL, Type};

use Type::{Any, String as Str};

type Result<'a> = std::result::Result<Value<'a>, Error>;

/// Functions of both Helm versions.
pub(super) const HELM: &[Func] = &[
    Func::new("include", &[Str, Any], include),
    Func::new("tpl", &[Str, Any], tpl),
    Func::new("required", &[Str, Any], required),
    Func::new("fail", &[Str], fail),
    Func::new("lookup", &[Str, Str, Str, Str], lookup),
    Func::new("getHostByName", &[Str], |x, a| {
        let host = String::from_utf8_lossy(a[0].as_bytes().unwrap_or_default()).into_owned();
        Ok(Value::str(x.arena, x.world().resolve(&host)))
    }),
];

/// The maximal nesting of one template in itself (`recursionMaxNums`).
const MAX_NESTED: usize = 1000;

/// An error whose text is printed alone in Helm's output.
fn marked(message: &[u8]) -> Error {
    Error::new(format!("{MARK_START}{}{MARK_END}", String::from_utf8_lossy(message)))
}

fn include<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let name = args[0].as_bytes().unwrap_or_default();
    let count = x.including.entry(name).or_default();
    if *count > MAX_NESTED {
        let name = String::from_utf8_lossy(name);
        return Err(Error::new(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    *count += 1;
    let result = x.include(name, args[1]);
    if let Some(count) = x.including.get_mut(name) {
        *count -= 1;
    }
    result
}

/// Removes every `<no value>`, as Helm does from each file and each `tpl` result.
pub(super) fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    const NO_VALUE: &[u8] = b"<no value>";
    let finder = memchr::memmem::Finder::new(NO_VALUE);
    if finder.find(&text).is_none() {
        return text;
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(n) = finder.find(rest) {
        out.extend_from_slice(&rest[..n]);
        rest = &rest[n + NO_VALUE.len()..];
    }
    out.extend_from_slice(rest);
    out
}

fn tpl<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let text = args[0].as_bytes().unwrap_or_default();
    if memchr::memmem::find(text, b"{{").is_none() {
        // A text without actions is its own output.
        return Ok(match memchr::memmem::find(text, b"<no value>") {
            None => args[0],
            Some(_) => Value::str(x.arena, without_no_value(text.to_vec())),
        });
    }
    let quoted = || strconv::quote(text);
    let templates = match x.parse(TPL, text) {
        Ok(t) => t,
        Err(e) => return Err(Error::wrap(format!("cannot parse template {}: ", quoted()), e)),
    };
    let Some(main) = templates.iter().find(|t| t.name() == TPL) else {
        return Err(Error::new("template: \"gotpl\" is an incomplete or empty template"));
    };
    let set = x.set().with(x.arena, templates);
    match x.execute_in(set, main, args[1]) {
        Ok(out) => Ok(x.keep(without_no_value(out))),
        Err(e) => Err(Error::wrap(format!("error during tpl function execution for {}: ", quoted()), e)),
    }
}

fn text(value: Value<'_>) -> String {
    String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned()
}

fn fail<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    if x.diagnostics.is_some() && x.report(DiagnosticKind::Failed(text(args[0]))) {
        return Ok(Value::Str(&[]));
    }
    Err(marked(args[0].as_bytes().unwrap_or_default()))
}

fn required<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let notice = match args[1] {
        Value::Nil => DiagnosticKind::Missing,
        Value::Str([]) => DiagnosticKind::Empty,
        value => return Ok(value),
    };
    if x.diagnostics.is_some() && x.report(notice(text(args[0]))) {
        return Ok(Value::Str(&[]));
    }
    Err(marked(args[0].as_bytes().unwrap_or_default()))
}

fn lookup<'a>(x: &mut Exec<'a>, args: &[Value<'a>]) -> Result<'a> {
    let text = |i: usize| String::from_utf8_lossy(args[i].as_bytes().unwrap_or_default()).into_owned();
    let found = x.world().lookup(&text(0), &text(1), &text(2), &text(3)).map_err(Error::new)?;
    Ok(Value::from_data(x.arena, &found))
}

/// Finds a method of a value by name; the function takes the receiver first.
pub(crate) fn method(value: Value<'_>, name: &[u8]) -> Option<&'static Func> {
    let table: &'static [Func] = match value {
        Value::Map(m) if m.kind() == MapKind::Values => sprig::VALUES_METHODS,
        Value::Object(Object::Files(_)) => sprig::FILES_METHODS,
        Value::Object(Object::ApiVersions(_)) => API_VERSIONS,
        // Methods with a pointer receiver.
        Value::Object(Object::Struct(s)) if s.text.is_some() && s.type_name.ends_with(".KubeVersion") => {
            KUBE_VERSION
        }
        Value::Object(o) => return sprig::object_method(o, name),
        _ => return None,
    };
    table.iter().find(|f| f.name.as_bytes() == name)
}

const API_VERSIONS: &[Func] = &[Func::new("Has", &[Any, Str], |_, a| {
    let wanted = a[1].as_bytes().unwrap_or_default();
    Ok(match a[0] {
        Value::Object(Object::ApiVersions(v)) => Value::Bool(v.iter().any(|s| s.as_bytes() == wanted)),
        _ => Value::Bool(false),
    })
})];

const KUBE_VERSION: &[Func] = &[
    Func::new("String", &[Any], |_, a| {
        Ok(match a[0] {
            Value::Object(Object::Struct(s)) => Value::Str(s.text.unwrap_or_default().as_bytes()),
            _ => Value::Nil,
        })
    }),
    Func::new("GitVersion", &[Any], |_, a| {
        Ok(match a[0] {
            Value::Object(o) => o.field(b"Version").unwrap_or_default(),
            _ => Value::Nil,
        })
    }),
];
