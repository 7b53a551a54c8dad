//! Encoding of values as JSON and YAML: the shared walk, and how Go's encoders treat structs and methods.

use std::borrow::Cow;

use crate::go::object::Struct;
use crate::go::{Arena, Map, Object, Value, layout};
use crate::json::Writer;
use crate::yaml::{self, EmitError, Emitter};

use super::base::encode64;

/// The encoder whose treatment of Go types applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// `encoding/json`: tags name the fields, nil collections are null.
    Json,
    /// go-yaml v3: field names are in lower case, nil collections are empty.
    Yaml,
}

/// The encoder that receives the values of a walk.
trait Output {
    const VIEW: View;
    fn null(&mut self);
    fn bool(&mut self, value: bool);
    fn int(&mut self, value: i64);
    fn uint(&mut self, value: u64);
    fn float(&mut self, value: f64) -> Result<(), String>;
    fn bytes(&mut self, text: &[u8]);
    fn begin_list(&mut self);
    fn end_list(&mut self);
    fn begin_map(&mut self);
    fn end_map(&mut self);
    fn key(&mut self, key: &str);
    /// Sorts entries for the format. A map's entries arrive sorted by bytes, a struct's in order of declaration.
    fn sort(&self, entries: &mut Vec<(Cow<'_, str>, Value<'_>)>);
}

impl Output for Writer<'_> {
    const VIEW: View = View::Json;
    fn null(&mut self) {
        Writer::null(self);
    }
    fn bool(&mut self, value: bool) {
        Writer::bool(self, value);
    }
    fn int(&mut self, value: i64) {
        Writer::int(self, value);
    }
    fn uint(&mut self, value: u64) {
        Writer::uint(self, value);
    }
    fn float(&mut self, value: f64) -> Result<(), String> {
        Writer::float(self, value).map_err(|e| e.to_string())
    }
    fn bytes(&mut self, text: &[u8]) {
        Writer::bytes(self, text);
    }
    fn begin_list(&mut self) {
        Writer::begin_list(self);
    }
    fn end_list(&mut self) {
        Writer::end_list(self);
    }
    fn begin_map(&mut self) {
        Writer::begin_map(self);
    }
    fn end_map(&mut self) {
        Writer::end_map(self);
    }
    fn key(&mut self, key: &str) {
        Writer::key(self, key);
    }
    fn sort(&self, _: &mut Vec<(Cow<'_, str>, Value<'_>)>) {}
}

/// A YAML emitter, plain or pretty.
struct Yaml<'o, const PRETTY: bool>(Emitter<'o>);

impl<const PRETTY: bool> Output for Yaml<'_, PRETTY> {
    const VIEW: View = if PRETTY { View::Yaml } else { View::Json };
    fn null(&mut self) {
        self.0.null();
    }
    fn bool(&mut self, value: bool) {
        self.0.bool(value);
    }
    fn int(&mut self, value: i64) {
        self.0.int(value);
    }
    fn uint(&mut self, value: u64) {
        self.0.uint(value);
    }
    fn float(&mut self, value: f64) -> Result<(), String> {
        self.0.float(value);
        Ok(())
    }
    fn bytes(&mut self, text: &[u8]) {
        self.0.bytes(text);
    }
    fn begin_list(&mut self) {
        self.0.begin_list();
    }
    fn end_list(&mut self) {
        self.0.end_list();
    }
    fn begin_map(&mut self) {
        self.0.begin_map();
    }
    fn end_map(&mut self) {
        self.0.end_map();
    }
    fn key(&mut self, key: &str) {
        self.0.key(key);
    }
    fn sort(&self, entries: &mut Vec<(Cow<'_, str>, Value<'_>)>) {
        yaml::sort_by_key(
            entries,
            |e| &e.0,
            if PRETTY { yaml::compare_keys_pretty } else { yaml::compare_keys },
        );
    }
}

/// The depth from which a walk checks for maps that contain themselves (`encoding/json`'s `startDetectCyclesAfter`).
const SUSPECT: usize = 1000;
/// The maximal depth of a value.
const MAX_DEPTH: usize = 10_000;

struct Walk<'a> {
    arena: &'a Arena,
    open: Vec<&'a Map<'a>>,
    depth: usize,
}

impl<'a> Walk<'a> {
    fn value<O: Output>(&mut self, out: &mut O, value: Value<'a>) -> Result<(), String> {
        match value {
            Value::Nil | Value::NilInterface => out.null(),
            Value::Bool(b) => out.bool(b),
            Value::Int(i) | Value::Int64(i) => out.int(i),
            Value::Uint64(u) => out.uint(u),
            Value::Float(f) => out.float(f)?,
            Value::Str(s) => out.bytes(s),
            Value::Bytes(b) if O::VIEW == View::Json => out.bytes(&encode64(b)),
            Value::Bytes(b) => {
                out.begin_list();
                for byte in b {
                    out.int(i64::from(*byte));
                }
                out.end_list();
            }
            Value::List(l) if l.nil && O::VIEW == View::Json => out.null(),
            Value::List(l) => {
                out.begin_list();
                for item in l.items {
                    self.deeper(out, *item)?;
                }
                out.end_list();
            }
            Value::Map(m) if m.is_nil() && O::VIEW == View::Json => out.null(),
            Value::Map(m) => {
                if self.open.len() > SUSPECT && self.open.iter().any(|o| o.same(m)) {
                    return Err(
                        "json: unsupported value: encountered a cycle via map[string]interface {}".to_owned()
                    );
                }
                self.open.push(m);
                let entries =
                    m.snapshot(self.arena).iter().map(|(k, v)| (crate::json::replace_invalid(k), *v));
                self.entries(out, entries.collect())?;
                self.open.pop();
            }
            Value::Object(o) => self.object(out, o)?,
        }
        Ok(())
    }

    fn deeper<O: Output>(&mut self, out: &mut O, value: Value<'a>) -> Result<(), String> {
        if self.depth > MAX_DEPTH {
            return Err(format!("json: unsupported value: it is nested deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        let done = stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.value(out, value));
        self.depth -= 1;
        done
    }

    fn entries<O: Output>(
        &mut self,
        out: &mut O,
        mut entries: Vec<(Cow<'a, str>, Value<'a>)>,
    ) -> Result<(), String> {
        out.sort(&mut entries);
        out.begin_map();
        for (key, value) in &entries {
            out.key(key);
            self.deeper(out, *value)?;
        }
        out.end_map();
        Ok(())
    }

    fn object<O: Output>(&mut self, out: &mut O, object: &'a Object<'a>) -> Result<(), String> {
        match object {
            Object::Struct(s) => self.entries(out, fields(s, O::VIEW)),
            Object::ApiVersions(v) => {
                out.begin_list();
                for version in *v {
                    out.bytes(version.as_bytes());
                }
                out.end_list();
                Ok(())
            }
            Object::Files(f) => {
                let entries = f.iter().map(|(name, data)| (Cow::Borrowed(*name), Value::Bytes(data)));
                self.entries(out, entries.collect())
            }
            Object::Version(v) => {
                out.bytes(crate::go::fmt::version_string(v).as_bytes());
                Ok(())
            }
            Object::Time(t) => {
                out.bytes(layout::format(t, layout::RFC3339_NANO.as_bytes()).as_slice());
                Ok(())
            }
            Object::Duration(d) if O::VIEW == View::Yaml => {
                out.bytes(crate::go::time::duration_string(*d).as_bytes());
                Ok(())
            }
            Object::Duration(d) => {
                out.int(*d);
                Ok(())
            }
            Object::Enum(e) => {
                out.int(e.value);
                Ok(())
            }
            Object::Complex(..) => Err("json: unsupported type: complex128".to_owned()),
        }
    }
}

/// The JSON name of a field and its `omitempty`. Most of Helm's structs have no tags.
fn tag<'a>(type_name: &str, field: &'a str) -> (Cow<'a, str>, bool) {
    let (_, name) = type_name.rsplit_once('.').unwrap_or(("", type_name));
    match (name, field) {
        ("BuildInfo", "KubeClientVersion") => (Cow::Borrowed("kube_client_version"), false),
        ("BuildInfo", "Version") => (Cow::Borrowed("version"), true),
        ("BuildInfo", "GitCommit") => (Cow::Borrowed("git_commit"), true),
        ("BuildInfo", "GitTreeState") => (Cow::Borrowed("git_tree_state"), true),
        ("BuildInfo", "GoVersion") => (Cow::Borrowed("go_version"), true),
        ("Dependency", "Repository" | "Name") => (Cow::Owned(camel(field)), false),
        ("Metadata" | "Maintainer" | "Dependency", _) => (Cow::Owned(camel(field)), true),
        _ => (Cow::Borrowed(field), false),
    }
}

/// The JSON name of a field of the chart's metadata.
fn camel(field: &str) -> String {
    match field {
        "APIVersion" => "apiVersion".to_owned(),
        "URL" => "url".to_owned(),
        "ImportValues" => "import-values".to_owned(),
        _ => {
            let mut chars = field.chars();
            chars.next().map_or_else(String::new, |c| c.to_lowercase().chain(chars).collect())
        }
    }
}

fn fields<'a>(s: &Struct<'a>, view: View) -> Vec<(Cow<'a, str>, Value<'a>)> {
    // The fields of an embedded struct come first.
    let mut all = s.embedded().map_or_else(Vec::new, |embedded| fields(embedded, view));
    let own = s.exported().skip(usize::from(s.embedded().is_some()));
    all.extend(own.filter_map(|(name, value)| match view {
        View::Yaml => Some((Cow::Owned(name.to_lowercase()), value)),
        View::Json => {
            let (key, omit_empty) = tag(s.type_name, name);
            (value.truth() || !omit_empty).then_some((key, value))
        }
    }));
    all
}

fn walk<'a, O: Output>(arena: &'a Arena, out: &mut O, value: Value<'a>) -> Result<(), String> {
    Walk { arena, open: Vec::new(), depth: 0 }.value(out, value)
}

/// The format of JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonStyle {
    /// Compact, with HTML characters escaped.
    Compact,
    /// Indented by two spaces, with HTML characters escaped.
    Pretty,
    /// Compact, with only the escapes that JSON requires.
    Raw,
}

/// `json.Marshal` and similar functions.
pub(super) fn json<'a>(arena: &'a Arena, value: Value<'a>, style: JsonStyle) -> Result<String, String> {
    let mut out = String::new();
    let mut writer = match style {
        JsonStyle::Compact => Writer::new(&mut out),
        JsonStyle::Pretty => Writer::new(&mut out).indented(),
        JsonStyle::Raw => Writer::new(&mut out).raw(),
    };
    walk(arena, &mut writer, value)?;
    Ok(out)
}

/// `Marshal` of `sigs.k8s.io/yaml`, which converts to JSON first.
pub(super) fn yaml<'a>(arena: &'a Arena, value: Value<'a>) -> Result<String, String> {
    let mut out = String::new();
    let mut emitter = Yaml::<false>(Emitter::new(&mut out));
    walk(arena, &mut emitter, value).map_err(|e| format!("error marshaling into JSON: {e}"))?;
    match emitter.0.finish() {
        Ok(()) => Ok(out),
        Err(EmitError::Detour) => {
            yaml::json_to_yaml(&json(arena, value, JsonStyle::Compact)?).map_err(|e| e.to_string())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// go-yaml v3's encoder with an indentation of 2.
pub(super) fn yaml_pretty<'a>(arena: &'a Arena, value: Value<'a>) -> Result<String, String> {
    let mut out = String::new();
    let mut emitter = Yaml::<true>(Emitter::pretty(&mut out));
    walk(arena, &mut emitter, value)?;
    emitter.0.finish().map_err(|e| e.to_string())?;
    Ok(out)
}
