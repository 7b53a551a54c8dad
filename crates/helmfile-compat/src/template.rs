//! Templates of state files and values files: helmfile's functions on the template engine of charts.
//!
//! Owns the function table, the data that templates see, and the helpers of `_*.tpl` files. What a function asks of the outside
//! goes to the host.

use std::sync::LazyLock;

use chart_compat::data::Data;
use chart_compat::functions;
use chart_compat::go::{Arena, Elem, Map as EngineMap, MapKind, Object, Value as EngineValue};
use chart_compat::template::{self, Error, Exec, Func, Funcs, Limits, Set, Template, TemplateSet, Type};
use chart_compat::world::{KeyKind, Timestamp as WorldTime, World};

use super::document;
use super::environment_values::Environment;
use super::host::{Entry, Forbidden, Host, Program, glob, read_text};
use super::paths;
use super::value::{Map, Value};

use Type::{Any, List, Map as MapType, String as Str};

/// The name of a rendered text in errors.
const NAME: &str = "stringTemplate";
/// The maximal nesting of one template in itself.
const MAX_NESTED: usize = 1000;
/// How deep a value may be nested that a template hands to a function of the state.
const MAX_DEPTH: usize = 1000;
/// Memory of the arguments of one such function, in bytes.
const MAX_ARGUMENTS: usize = 256 << 20;
/// The longest text that variables expand to, in bytes.
const MAX_EXPANDED: usize = 16 << 20;
/// Memory of one value without its text, in bytes.
const NODE: usize = 64;
/// How many keys of a map an error names.
const MAX_KEYS: usize = 20;

/// The data of a template: the fields of its root, in order.
#[derive(Clone, Debug, Default)]
pub struct Root {
    fields: Vec<(&'static str, Field)>,
    type_name: &'static str,
}

/// A field of the root.
#[derive(Clone, Debug)]
pub enum Field {
    /// A text.
    Text(String),
    /// A map of values.
    Values(Map),
    /// The environment.
    Environment(Environment),
    /// A structure with texts and one map of texts: `.Release`.
    Release(ReleaseFields),
    /// A structure of texts.
    Texts(&'static str, Vec<(&'static str, Option<String>)>),
}

/// The fields of `.Release`.
#[derive(Clone, Debug, Default)]
pub struct ReleaseFields {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The labels.
    pub labels: std::collections::BTreeMap<String, String>,
    /// The chart.
    pub chart: String,
    /// The chart's version.
    pub version: String,
    /// The name of the version's field: `ChartVersion` in values, `Version` in hooks.
    pub version_field: &'static str,
    /// The kubeconfig context.
    pub kube_context: String,
}

impl Root {
    /// The data of a state file or an environment's values file (`EnvironmentTemplateData`).
    #[must_use]
    pub fn environment(environment: &Environment, namespace: &str, values: Map) -> Self {
        let mut shown = environment.clone();
        shown.values = super::merge::layered(&shown.values, &shown.overrides, super::merge::Lists::ByItem);
        Self {
            type_name: "*state.EnvironmentTemplateData",
            fields: vec![
                ("Environment", Field::Environment(shown)),
                ("Namespace", Field::Text(namespace.to_owned())),
                ("Values", Field::Values(values)),
            ],
        }
    }

    /// The data of a release's templates (`releaseTemplateData`).
    #[must_use]
    pub fn release(
        environment: &Environment,
        release: ReleaseFields,
        values: Map,
        (kube_context, namespace, chart): (String, String, String),
    ) -> Self {
        Self {
            type_name: "state.releaseTemplateData",
            fields: vec![
                ("Environment", Field::Environment(environment.clone())),
                ("Release", Field::Release(release)),
                ("Values", Field::Values(values)),
                ("KubeContext", Field::Text(kube_context)),
                ("Namespace", Field::Text(namespace)),
                ("Chart", Field::Text(chart)),
            ],
        }
    }

    /// Other data: hooks, output paths.
    #[must_use]
    pub fn other(fields: Vec<(&'static str, Field)>) -> Self {
        Self { type_name: "map[string]interface {}", fields }
    }

    fn build<'a>(&self, arena: &'a Arena) -> EngineValue<'a> {
        let mut fields: Vec<(&'a str, EngineValue<'a>)> = Vec::with_capacity(self.fields.len() + 1);
        for (name, field) in &self.fields {
            let value = field.build(arena);
            fields.push((name, value));
            if *name == "Values" {
                fields.push(("StateValues", value));
            }
        }
        structure(arena, self.type_name, &fields)
    }
}

fn structure<'a>(
    arena: &'a Arena,
    type_name: &'static str,
    fields: &[(&'a str, EngineValue<'a>)],
) -> EngineValue<'a> {
    let fields = arena.alloc_slice_copy(fields);
    EngineValue::object(
        arena,
        Object::Struct(chart_compat::go::object::Struct { type_name, fields, text: None }),
    )
}

impl Field {
    fn build<'a>(&self, arena: &'a Arena) -> EngineValue<'a> {
        let text = |text: &str| EngineValue::str(arena, text);
        match self {
            Self::Text(own) => text(own),
            Self::Values(map) => map_value(arena, map),
            Self::Environment(environment) => structure(
                arena,
                "environment.Environment",
                &[
                    ("Name", text(&environment.name)),
                    ("KubeContext", text(&environment.kube_context)),
                    ("Values", map_value(arena, &environment.values)),
                    ("Defaults", map_value(arena, &environment.defaults)),
                    ("CLIOverrides", map_value(arena, &environment.overrides)),
                ],
            ),
            Self::Release(release) => {
                let labels = EngineMap::new(arena, MapKind::Strings);
                for (key, value) in &release.labels {
                    labels.insert(arena.alloc_slice_copy(key.as_bytes()), text(value));
                }
                structure(
                    arena,
                    "state.releaseTemplateDataRelease",
                    &[
                        ("Name", text(&release.name)),
                        ("Namespace", text(&release.namespace)),
                        ("Labels", EngineValue::Map(labels)),
                        ("Chart", text(&release.chart)),
                        (release.version_field, text(&release.version)),
                        ("KubeContext", text(&release.kube_context)),
                    ],
                )
            }
            Self::Texts(type_name, fields) => {
                let fields: Vec<(&'a str, EngineValue<'a>)> = fields
                    .iter()
                    .map(|(name, value)| (*name, value.as_deref().map_or(EngineValue::Nil, text)))
                    .collect();
                structure(arena, type_name, &fields)
            }
        }
    }
}

fn map_value<'a>(arena: &'a Arena, map: &Map) -> EngineValue<'a> {
    let out = EngineMap::with_capacity(arena, MapKind::Any, map.len());
    for (key, value) in map {
        out.insert(arena.alloc_slice_copy(key.as_bytes()), engine_value(arena, value));
    }
    EngineValue::Map(out)
}

/// A value for the engine.
fn engine_value<'a>(arena: &'a Arena, value: &Value) -> EngineValue<'a> {
    match value {
        Value::Null => EngineValue::Nil,
        Value::Bool(value) => EngineValue::Bool(*value),
        Value::Int(n) => EngineValue::Int(*n),
        Value::Uint(n) => EngineValue::Uint64(*n),
        Value::Float(n) => EngineValue::Float(*n),
        Value::Time(time) => {
            let (seconds, nanos, offset) = time.parts();
            let abbreviation = if offset == 0 { "UTC" } else { "" };
            EngineValue::object(
                arena,
                Object::Time(chart_compat::go::object::Time {
                    seconds,
                    nanos,
                    offset,
                    abbreviation,
                    zone: "",
                }),
            )
        }
        Value::String(text) => EngineValue::str(arena, text),
        Value::List(items) => {
            let items: Vec<EngineValue<'a>> = items.iter().map(|item| engine_value(arena, item)).collect();
            EngineValue::list(arena, &items)
        }
        Value::Map(map) => map_value(arena, map),
        Value::AnyMap(entries) => {
            let map: Map = entries.iter().map(|(key, value)| (key.go_text(), value.clone())).collect();
            map_value(arena, &map)
        }
    }
}

/// A value of the engine; what has no form in YAML becomes its text.
///
/// `left`: the bytes that it may still take.
///
/// # Errors
/// It is nested too deep or too large: templates can put a map into itself, and one map into another twice.
fn from_engine(value: EngineValue<'_>, depth: usize, left: &mut usize) -> Result<Value, Error> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::new(format!("the value is nested more than {MAX_DEPTH} times")));
    };
    let size = NODE
        + match value {
            EngineValue::Str(bytes) | EngineValue::Bytes(bytes) => bytes.len(),
            EngineValue::Map(map) => map.entries().iter().map(|(key, _)| key.len()).sum(),
            _ => 0,
        };
    *left = left
        .checked_sub(size)
        .ok_or_else(|| Error::new(format!("the value takes more than {} MiB", MAX_ARGUMENTS >> 20)))?;
    let text = |bytes: &[u8]| Value::String(String::from_utf8_lossy(bytes).into_owned());
    Ok(match value {
        EngineValue::Nil | EngineValue::NilInterface => Value::Null,
        EngineValue::Bool(value) => Value::Bool(value),
        EngineValue::Int(n) | EngineValue::Int64(n) => Value::Int(n),
        EngineValue::Uint64(n) => Value::Uint(n),
        EngineValue::Float(n) => Value::Float(n),
        EngineValue::Str(bytes) | EngineValue::Bytes(bytes) => text(bytes),
        EngineValue::List(list) => Value::List(
            list.items.iter().map(|item| from_engine(*item, depth, left)).collect::<Result<_, _>>()?,
        ),
        EngineValue::Map(map) => Value::Map(
            map.entries()
                .iter()
                .map(|(key, value)| {
                    Ok((String::from_utf8_lossy(key).into_owned(), from_engine(*value, depth, left)?))
                })
                .collect::<Result<_, Error>>()?,
        ),
        EngineValue::Object(_) => text(&chart_compat::go::fmt::sprint(value)),
    })
}

/// Renders a text. `base`: the folder that paths are relative to, absolute.
///
/// # Errors
/// The text cannot be parsed or executed.
pub fn render(host: &dyn Host, base: &str, text: &str, root: &Root) -> Result<String, crate::Error> {
    render_named(host, base, NAME, text, root, true)
}

/// As [`render`], with a name for errors and a choice whether a missing key is an error.
///
/// # Errors
/// As [`render`].
pub fn render_named(
    host: &dyn Host,
    base: &str,
    name: &str,
    text: &str,
    root: &Root,
    missing_key_is_error: bool,
) -> Result<String, crate::Error> {
    if !text.contains("{{") {
        return Ok(text.to_owned());
    }
    let failed = crate::Error::Template;
    let world = TemplateWorld { host, base };
    let mut parsed: Vec<Vec<Template>> = Vec::new();
    for path in
        glob(host, &paths::join(base, "_*.tpl")).map_err(|e| e.within("failed to glob helper templates"))?
    {
        let helpers =
            read_text(host, &path).map_err(|e| e.within(format!("failed to read helper template {path}")))?;
        let templates = template::parse(name, &helpers.into_bytes().into(), &FUNCS)
            .map_err(|e| failed(e.to_string()).within(format!("failed to parse helper template {path}")))?;
        parsed.push(templates);
    }
    let main =
        template::parse(name, &text.as_bytes().to_vec().into(), &FUNCS).map_err(|e| failed(e.to_string()))?;
    let arena = Arena::new();
    let store = typed_arena::Arena::new();
    let mut helpers = TemplateSet::default();
    for templates in &parsed {
        helpers.add(templates);
    }
    let set = Set::new(&helpers).with(&arena, &main);
    let memory = host.render_memory();
    let mut exec = Exec::new(&arena, &store, set, &FUNCS, &world, Limits::within(memory.bytes))
        .ok_or_else(|| failed("the template engine cannot start".to_owned()))?;
    exec.missing_key_is_error = missing_key_is_error;
    let dot = root.build(&arena);
    exec.root = dot;
    if set.get(name).is_none() {
        return Ok(String::new());
    }
    let out = exec.execute(name, dot).map_err(|e| failed(e.to_string()))?;
    String::from_utf8(out).map_err(|_| failed(format!("{name}: the output is not UTF-8 text")))
}

/// The outside of one render.
struct TemplateWorld<'h> {
    host: &'h dyn Host,
    /// The folder that paths are relative to.
    base: &'h str,
}

impl World for TemplateWorld<'_> {
    fn now(&self) -> WorldTime {
        self.host.world().now()
    }

    fn local_zone(&self) -> String {
        self.host.world().local_zone()
    }

    fn stopped(&self) -> Option<String> {
        self.host.world().stopped()
    }

    fn random(&self, bytes: &mut [u8]) {
        self.host.world().random(bytes);
    }

    fn make_key(&self, kind: KeyKind) -> Result<Vec<u8>, String> {
        self.host.world().make_key(kind)
    }

    fn public_key(&self, pkcs8: &[u8]) -> Result<Vec<u8>, String> {
        self.host.world().public_key(pkcs8)
    }

    fn sign(&self, pkcs8: &[u8], message: &[u8]) -> Result<Vec<u8>, String> {
        self.host.world().sign(pkcs8, message)
    }

    fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> {
        Err("state files do not look up objects".to_owned())
    }

    fn resolve(&self, host: &str) -> String {
        self.host.world().resolve(host)
    }

    fn derived_key(&self, digest: [u8; 32], derive: &mut dyn FnMut() -> Vec<u8>) -> Vec<u8> {
        self.host.derived_key(digest, derive)
    }

    fn host_function(&self, name: &str, arguments: &[Data]) -> Result<Data, String> {
        let text = |at: usize| arguments.get(at).and_then(Data::as_str).unwrap_or_default();
        let path = || paths::within(self.base, text(0));
        if matches!(name, "exec" | "envExec" | "readFile" | "readDir" | "readDirEntries")
            && let Some(reason) = self.host.forbids(Forbidden::TemplateFunctions)
        {
            return Err(reason);
        }
        match name {
            "env" => Ok(self.host.variable(text(0)).unwrap_or_default().into()),
            "requiredEnv" => match self.host.variable(text(0)) {
                Some(value) if !value.is_empty() => Ok(value.into()),
                _ => Err(format!("required env var `{}` is not set", text(0))),
            },
            "expandenv" => expand(&|name| self.host.variable(name), text(0)).map(Data::from),
            "exec" | "envExec" => self.run(name, arguments).map(Data::from),
            "isFile" => Ok((self.host.is_dir(&path()) == Some(false)).into()),
            "isDir" => Ok((self.host.is_dir(&path()) == Some(true)).into()),
            "readFile" => {
                let whole = path();
                let read = read_text(self.host, &whole).map(Data::from);
                read.map_err(|error| error.to_string().replacen(&whole, text(0), 1))
            }
            "readDir" => {
                let shown = text(0);
                let entries = self.entries("ReadDir", &path())?;
                let files = entries.into_iter().filter(|entry| !entry.is_dir);
                Ok(Data::List(files.map(|entry| paths::join(shown, &entry.name).into()).collect()))
            }
            "readDirEntries" => {
                let entries = self.entries("ReadDirEntries", &path())?;
                let item = |entry: Entry| Data::List(vec![entry.name.into(), entry.is_dir.into()]);
                Ok(Data::List(entries.into_iter().map(item).collect()))
            }
            "fetchSecretValue" => {
                match super::secret_references::expand(
                    self.host,
                    self.base,
                    Value::String(text(0).to_owned()),
                )
                .map_err(|error| error.to_string())?
                {
                    Value::String(secret) => Ok(secret.into()),
                    _ => Err("fetchSecretValue: the secret is not a string".to_owned()),
                }
            }
            "expandSecretRefs" => {
                let map = arguments.first().map_or(Value::Null, Value::from_data);
                let expanded = super::secret_references::expand(self.host, self.base, map);
                expanded.map(|expanded| expanded.to_data()).map_err(|error| error.to_string())
            }
            other => Err(format!("the function {other} does not exist here")),
        }
    }
}

impl TemplateWorld<'_> {
    fn entries(&self, what: &str, path: &str) -> Result<Vec<Entry>, String> {
        self.host.read_dir(path).map_err(|e| format!("{what} {path:?}: {e}"))
    }

    /// `exec COMMAND ARGUMENTS [INPUT]`, or `envExec VARIABLES COMMAND ARGUMENTS [INPUT]`.
    fn run(&self, name: &str, arguments: &[Data]) -> Result<String, String> {
        let (variables, rest) = match name {
            "envExec" => (arguments.first().and_then(Data::as_map), arguments.get(1..).unwrap_or_default()),
            _ => (None, arguments),
        };
        let command = rest.first().and_then(Data::as_str).unwrap_or_default();
        let list = rest.get(1).and_then(Data::as_list).unwrap_or_default();
        let mut program = Program {
            dir: self.base.to_owned(),
            command: command.to_owned(),
            arguments: Vec::with_capacity(list.len()),
            variables: std::collections::BTreeMap::new(),
            input: rest.get(2).and_then(Data::as_str).unwrap_or_default().to_owned(),
        };
        for (at, argument) in list.iter().enumerate() {
            let Some(argument) = argument.as_str() else {
                let kind = Value::from_data(argument).go_type();
                return Err(format!("unexpected type of arg \"{kind}\" in args of {command} at index {at}"));
            };
            program.arguments.push(argument.to_owned());
        }
        for (key, value) in variables.into_iter().flatten() {
            let Some(value) = value.as_str() else {
                let kind = Value::from_data(value).go_type();
                return Err(format!("unexpected type of env \"{kind}\" in envs of {command} at index {key}"));
            };
            program.variables.insert(key.clone(), value.to_owned());
        }
        self.host.run(&program).map_err(|error| error.to_string())
    }
}

/// Replaces `$NAME` and `${NAME}` (`os.ExpandEnv`), as long as the text is not longer than [`MAX_EXPANDED`].
fn expand(variable: &dyn Fn(&str) -> Option<String>, text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        let (name, tail) = match rest.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
            Some((name, tail)) => (name, tail),
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                rest.split_at_checked(end).unwrap_or((rest, ""))
            }
        };
        if name.is_empty() {
            out.push('$');
        }
        out.push_str(&variable(name).unwrap_or_default());
        if out.len() > MAX_EXPANDED {
            return Err(format!("expandenv: the text is longer than {} MiB", MAX_EXPANDED >> 20));
        }
        rest = tail;
    }
    out.push_str(rest);
    Ok(out)
}

type Result2<'a> = Result<EngineValue<'a>, Error>;

/// The functions of state files.
static FUNCS: LazyLock<Funcs> = LazyLock::new(|| functions::with_sprig(&[OWN]));

const OWN: &[Func] = &[
    Func::new("env", &[Str], |x, a| ask(x, "env", a)),
    Func::new("expandenv", &[Str], |x, a| ask(x, "expandenv", a)),
    Func::new("requiredEnv", &[Str], |x, a| ask(x, "requiredEnv", a)),
    Func::variadic("exec", &[Str, List, Str], |x, a| ask(x, "exec", a)),
    Func::variadic("envExec", &[MapType, Str, List, Str], |x, a| ask(x, "envExec", a)),
    Func::new("isFile", &[Str], |x, a| ask(x, "isFile", a)),
    Func::new("isDir", &[Str], |x, a| ask(x, "isDir", a)),
    Func::new("readFile", &[Str], |x, a| ask(x, "readFile", a)),
    Func::new("readDir", &[Str], |x, a| {
        let found = ask(x, "readDir", a)?;
        Ok(EngineValue::typed_list(x.arena, Elem::String, found.as_items().unwrap_or_default()))
    }),
    Func::new("readDirEntries", &[Str], read_dir_entries),
    Func::new("fetchSecretValue", &[Str], |x, a| ask(x, "fetchSecretValue", a)),
    Func::new("expandSecretRefs", &[MapType], |x, a| ask(x, "expandSecretRefs", a)),
    Func::new("getHostByName", &[Str], |x, a| {
        let host = text(a, 0);
        Ok(EngineValue::str(x.arena, x.world().resolve(&host)))
    }),
    Func::new("fail", &[Str], |_, a| Err(Error::new(text(a, 0)))),
    Func::new("toYaml", &[Any], |x, a| {
        let value = a.first().copied().unwrap_or_default();
        functions::yaml_v3(x.arena, value).map(|out| EngineValue::str(x.arena, out)).map_err(Error::new)
    }),
    Func::new("fromYaml", &[Str], |x, a| {
        let source = text(a, 0);
        let read = functions::within_memory(x, |room| {
            document::value_within(&source, room).map_err(crate::Error::from).and_then(Value::with_text_keys)
        })?;
        // helmfile prints the text, which may have secrets.
        let value = read.map_err(|error| Error::new(error.to_string()))?;
        Ok(engine_value(x.arena, &value))
    }),
    Func::new("fromJson", &[Str], |x, a| {
        let read = chart_compat::json::from_slice(text(a, 0).as_bytes());
        Ok(read.map_or(EngineValue::Nil, |data| EngineValue::from_data(x.arena, &data)))
    }),
    Func::variadic("get", &[Str, Any], |_, a| ValuePath::of_arguments(a)?.value()),
    Func::new("getOrNil", &[Str, Any], |_, a| Ok(ValuePath::of_arguments(a)?.value().unwrap_or_default())),
    Func::new("sprigGet", &[MapType, Str], |_, a| match a {
        [EngineValue::Map(map), key] => {
            Ok(map.get(key.as_bytes().unwrap_or_default()).unwrap_or(EngineValue::Str(b"")))
        }
        _ => Ok(EngineValue::Str(b"")),
    }),
    Func::new("setValueAtPath", &[Str, Any, MapType], set_value_at_path),
    Func::new("required", &[Str, Any], |_, a| match a {
        [_, EngineValue::Nil | EngineValue::Str([])] => Err(Error::new(text(a, 0))),
        [_, value] => Ok(*value),
        _ => Ok(EngineValue::Nil),
    }),
    Func::new("include", &[Str, Any], include),
    Func::new("tpl", &[Str, Any], tpl),
];

fn text(arguments: &[EngineValue<'_>], at: usize) -> String {
    let bytes = arguments.get(at).and_then(|value| value.as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// Calls a function of the host.
fn ask<'a>(x: &mut Exec<'a>, name: &str, arguments: &[EngineValue<'a>]) -> Result2<'a> {
    let mut left = MAX_ARGUMENTS;
    let arguments: Vec<Data> = arguments
        .iter()
        .map(|value| Ok(from_engine(*value, MAX_DEPTH, &mut left)?.to_data()))
        .collect::<Result<_, Error>>()?;
    let answer = x.world().host_function(name, &arguments).map_err(Error::new)?;
    Ok(engine_value(x.arena, &Value::from_data(&answer)))
}

/// `readDirEntries DIR`: structures with `Name` and `IsDir`.
fn read_dir_entries<'a>(x: &mut Exec<'a>, arguments: &[EngineValue<'a>]) -> Result2<'a> {
    let found = ask(x, "readDirEntries", arguments)?;
    let mut entries = Vec::new();
    for pair in found.as_items().unwrap_or_default() {
        if let Some([name, is_dir]) = pair.as_items() {
            entries.push(structure(x.arena, "fs.DirEntry", &[("Name", *name), ("IsDir", *is_dir)]));
        }
    }
    Ok(EngineValue::list(x.arena, &entries))
}

/// The arguments of `get PATH [DEFAULT] OBJECT`: the value at a dotted path.
struct ValuePath<'a> {
    path: &'a [u8],
    default: Option<EngineValue<'a>>,
    object: EngineValue<'a>,
}

impl<'a> ValuePath<'a> {
    fn of_arguments(arguments: &[EngineValue<'a>]) -> Result<Self, Error> {
        let (path, default, object) = match arguments {
            [path, object] => (path, None, *object),
            [path, default, object] => (path, Some(*default), *object),
            _ => {
                return Err(Error::new(format!(
                    "unexpected number of args passed to the template function get(path, [def, ]obj): expected 1 or 2, got {}",
                    arguments.len().saturating_sub(1)
                )));
            }
        };
        Ok(Self { path: path.as_bytes().unwrap_or_default(), default, object })
    }

    fn value(&self) -> Result2<'a> {
        let Self { path, default, object } = *self;
        let mut value = object;
        for key in path.split(|b| *b == b'.') {
            if path.is_empty() {
                break;
            }
            let name = String::from_utf8_lossy(key);
            let found = match value {
                EngineValue::Map(map) => {
                    // helmfile prints the map, which may have secrets.
                    let keys = || {
                        let entries = map.entries();
                        let keys = entries.iter().map(|(key, _)| String::from_utf8_lossy(key));
                        keys.take(MAX_KEYS).collect::<Vec<_>>().join(", ")
                    };
                    map.get(key)
                        .ok_or_else(|| format!("no value exist for key \"{name}\" in a map of {}", keys()))
                }
                EngineValue::Object(object @ Object::Struct(_)) => object.field(key).ok_or_else(|| {
                    format!("no field named \"{name}\" exist in {}", value.type_name("struct"))
                }),
                other => {
                    let kind = other.type_name("map[string]interface {}");
                    // A default does not help here.
                    return Err(Error::new(format!(
                        "unexpected type({kind}) of value for key \"{name}\": it must be either map[string]any or any struct"
                    )));
                }
            };
            value = match (found, default) {
                (Ok(found), _) => found.plain(),
                (Err(_), Some(default)) => return Ok(default),
                (Err(error), None) => return Err(Error::new(error)),
            };
        }
        Ok(value)
    }
}

/// `setValueAtPath PATH VALUE MAP`: sets a value in the map itself, whose parents exist.
fn set_value_at_path<'a>(x: &mut Exec<'a>, arguments: &[EngineValue<'a>]) -> Result2<'a> {
    let [path, value, EngineValue::Map(root)] = arguments else { return Ok(EngineValue::Nil) };
    let path = path.as_bytes().unwrap_or_default();
    let shown = String::from_utf8_lossy(path).into_owned();
    let mut keys: Vec<&[u8]> = path.split(|b| *b == b'.').collect();
    let last = keys.pop().unwrap_or_default();
    let mut current = *root;
    for key in keys {
        let name = String::from_utf8_lossy(key);
        current = match current.get(key) {
            None => {
                return Err(Error::new(format!(
                    "failed to set value at path \"{shown}\": value for key \"{name}\" does not exist"
                )));
            }
            Some(EngineValue::Map(map)) => map,
            Some(_) => {
                return Err(Error::new(format!(
                    "failed to set value at path \"{shown}\": value for key \"{name}\" was not a map"
                )));
            }
        };
    }
    current.insert(x.arena.alloc_slice_copy(last), *value);
    Ok(EngineValue::Map(root))
}

fn include<'a>(x: &mut Exec<'a>, arguments: &[EngineValue<'a>]) -> Result2<'a> {
    let [name, dot] = arguments else { return Ok(EngineValue::Nil) };
    let name = name.as_bytes().unwrap_or_default();
    let count = x.including.entry(name).or_default();
    if *count > MAX_NESTED {
        let name = String::from_utf8_lossy(name);
        return Err(Error::new(format!(
            "rendering template has a nested reference name: {name}: unable to execute template"
        )));
    }
    *count += 1;
    let result = x.include(name, *dot);
    if let Some(count) = x.including.get_mut(name) {
        *count -= 1;
    }
    result
}

/// Renders a text with the helper templates alone: what the calling file defines is not in scope.
fn tpl<'a>(x: &mut Exec<'a>, arguments: &[EngineValue<'a>]) -> Result2<'a> {
    let [source, dot] = arguments else { return Ok(EngineValue::Nil) };
    let source = source.as_bytes().unwrap_or_default();
    if !source.windows(2).any(|pair| pair == b"{{") {
        return Ok(EngineValue::Str(source));
    }
    let templates = x.parse(NAME, source)?;
    let Some(main) = templates.iter().find(|template| template.name() == NAME) else {
        return Ok(EngineValue::Str(b""));
    };
    let set = x.set().base().with(x.arena, templates);
    let out = x.execute_in(set, main, *dot)?;
    Ok(x.keep(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expanded_texts_are_bounded() {
        let big = "x".repeat(1 << 20);
        let variable = |name: &str| match name {
            "A" => Some("a".to_owned()),
            "BIG" => Some(big.clone()),
            _ => None,
        };
        assert_eq!(expand(&variable, "$A-${A}b-$NONE-$-${A").unwrap(), "a-ab--$-${A");
        assert_eq!(expand(&variable, &"$BIG".repeat(16)).unwrap().len(), MAX_EXPANDED);
        let told = expand(&variable, &"$BIG".repeat(100_000)).unwrap_err();
        assert_eq!(told, "expandenv: the text is longer than 16 MiB");
    }
}
