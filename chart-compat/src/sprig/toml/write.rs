//! The encoder. In each table plain keys precede nested tables; both are sorted, and nested tables are indented.

use crate::go::object::Struct;
use crate::go::{Object, Value, fmt, layout, strconv, time};

/// The reason why a value cannot be encoded.
pub(super) enum Failure {
    /// An error of the library.
    Error(String),
    /// A panic of the library.
    Panic(String),
}

type Done = Result<(), Failure>;

/// Maximal nesting of tables. A deeper map contains itself.
const MAX_DEPTH: usize = 1000;

/// Encodes a value as a document. `most`: the most bytes that it may have, since each table has its whole path in its header.
pub(super) fn to_toml(value: Value<'_>, most: usize) -> Result<Vec<u8>, Failure> {
    if value.is_nil() {
        return Err(Failure::Panic("reflect: call of reflect.Value.Type on zero Value".to_owned()));
    }
    if let Value::List(l) = value
        && l.nil
    {
        return Ok(b"[]".to_vec());
    }
    let mut out = Writer { out: Vec::new(), most };
    out.encode(&mut Vec::new(), value)?;
    Ok(out.out)
}

/// The kinds of TOML values.
#[derive(PartialEq, Eq)]
enum Kind {
    Nil,
    Table,
    /// A non-empty list of tables.
    Tables,
    Plain,
}

fn is_nil(v: Value<'_>) -> bool {
    match v {
        Value::List(l) => l.nil,
        Value::Map(m) => m.is_nil(),
        other => other.is_nil(),
    }
}

fn kind(v: Value<'_>) -> Result<Kind, Failure> {
    Ok(match v {
        v if is_nil(v) => Kind::Nil,
        Value::Map(_) | Value::Object(Object::Struct(_) | Object::Files(_)) => Kind::Table,
        Value::List(l) if !l.items.is_empty() => {
            let mut all = true;
            for item in l.items {
                match kind(*item)? {
                    Kind::Nil => {
                        return Err(Failure::Error("toml: cannot encode array with nil element".to_owned()));
                    }
                    Kind::Table => {}
                    Kind::Tables | Kind::Plain => all = false,
                }
            }
            if all { Kind::Tables } else { Kind::Plain }
        }
        _ => Kind::Plain,
    })
}

fn quoted(out: &mut Vec<u8>, s: &[u8]) {
    out.push(b'"');
    for b in s {
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..=0x1f | 0x7f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            b => out.push(*b),
        }
    }
    out.push(b'"');
}

/// Writes a key, without quotes if possible.
pub(super) fn push_key(out: &mut Vec<u8>, key: &[u8]) {
    if !key.is_empty() && key.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
        out.extend_from_slice(key);
    } else {
        quoted(out, key);
    }
}

type Entry<'a> = (&'a [u8], Value<'a>);

/// The entries of a value that is written as a table. A struct's entries keep their order of declaration.
fn entries(v: Value<'_>) -> Vec<Entry<'_>> {
    match v {
        Value::Map(m) => m.entries().to_vec(),
        Value::Object(Object::Struct(s)) => {
            let embedded = s.embedded().into_iter().flat_map(Struct::exported);
            let own = s.exported().skip(usize::from(s.embedded().is_some()));
            embedded.chain(own).map(|f| (f.0.as_bytes(), f.1)).collect()
        }
        Value::Object(Object::Files(f)) => f.iter().map(|f| (f.0.as_bytes(), Value::Bytes(f.1))).collect(),
        _ => Vec::new(),
    }
}

struct Writer {
    out: Vec<u8>,
    most: usize,
}

impl Writer {
    fn newline(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }

    fn indent(&mut self, depth: usize) {
        self.out.resize(self.out.len() + 2 * depth.saturating_sub(1), b' ');
    }

    fn header(&mut self, key: &[&[u8]], open: &str, close: &str) {
        self.indent(key.len());
        self.out.extend_from_slice(open.as_bytes());
        for (i, part) in key.iter().enumerate() {
            if i > 0 {
                self.out.push(b'.');
            }
            push_key(&mut self.out, part);
        }
        self.out.extend_from_slice(close.as_bytes());
        self.newline();
    }

    fn encode<'a>(&mut self, key: &mut Vec<&'a [u8]>, value: Value<'a>) -> Done {
        if self.out.len() > self.most {
            let mib = self.most >> 20;
            return Err(Failure::Error(format!("toml: the document takes more than {mib} MiB")));
        }
        if key.len() > MAX_DEPTH {
            return Err(Failure::Error(format!("toml: tables are nested deeper than {MAX_DEPTH}")));
        }
        match kind(value)? {
            Kind::Nil => Ok(()),
            Kind::Table => {
                if key.len() == 1 {
                    self.newline();
                }
                if !key.is_empty() {
                    self.header(key, "[", "]");
                }
                self.table(key, value)
            }
            Kind::Tables if key.is_empty() => {
                Err(Failure::Error("toml: top-level values must be Go maps or structs".to_owned()))
            }
            Kind::Tables => {
                for item in value.as_items().unwrap_or_default() {
                    self.newline();
                    self.header(key, "[[", "]]");
                    self.table(key, *item)?;
                }
                Ok(())
            }
            Kind::Plain => {
                if let Some(last) = key.last() {
                    self.indent(key.len());
                    push_key(&mut self.out, last);
                    self.out.extend_from_slice(b" = ");
                }
                self.element(value, 0)?;
                if !key.is_empty() {
                    self.newline();
                }
                Ok(())
            }
        }
    }

    fn table<'a>(&mut self, key: &mut Vec<&'a [u8]>, value: Value<'a>) -> Done {
        let (plain, tables) = split(value)?;
        for (name, v) in plain.into_iter().chain(tables) {
            key.push(name);
            stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.encode(key, v))?;
            key.pop();
        }
        Ok(())
    }

    /// A value in a list or inline table, or after a key.
    fn element(&mut self, value: Value<'_>, depth: usize) -> Done {
        if depth > MAX_DEPTH {
            return Err(Failure::Error(format!("toml: values are nested deeper than {MAX_DEPTH}")));
        }
        match value {
            Value::Nil | Value::NilInterface => {
                return Err(Failure::Panic(
                    "reflect: call of reflect.Value.Interface on zero Value".to_owned(),
                ));
            }
            Value::Bool(b) => self.out.extend_from_slice(if b { b"true" } else { b"false" }),
            Value::Int(i) | Value::Int64(i) => self.out.extend_from_slice(i.to_string().as_bytes()),
            Value::Uint64(u) => self.out.extend_from_slice(u.to_string().as_bytes()),
            Value::Float(f) => self.out.extend_from_slice(float(f).as_bytes()),
            Value::Str(s) => quoted(&mut self.out, s),
            Value::Bytes(b) => {
                let items: Vec<String> = b.iter().map(u8::to_string).collect();
                self.out.extend_from_slice(format!("[{}]", items.join(", ")).as_bytes());
            }
            Value::List(l) => self.list(l.items.iter().copied(), depth)?,
            Value::Object(Object::ApiVersions(v)) => {
                self.list(v.iter().map(|s| Value::Str(s.as_bytes())), depth)?;
            }
            Value::Object(Object::Version(v)) => quoted(&mut self.out, fmt::version_string(v).as_bytes()),
            Value::Object(Object::Duration(d)) => quoted(&mut self.out, time::duration_string(*d).as_bytes()),
            Value::Object(Object::Enum(e)) => self.out.extend_from_slice(e.value.to_string().as_bytes()),
            Value::Object(Object::Time(t)) => {
                let form = match t.abbreviation {
                    super::read::LOCAL_DATETIME => "2006-01-02T15:04:05.999999999",
                    super::read::LOCAL_DATE => "2006-01-02",
                    super::read::LOCAL_TIME => "15:04:05.999999999",
                    _ => layout::RFC3339_NANO,
                };
                self.out.extend(layout::format(t, form.as_bytes()));
            }
            Value::Object(Object::Complex(..)) => {
                return Err(Failure::Error("unsupported type: complex128".to_owned()));
            }
            Value::Map(_) | Value::Object(Object::Struct(_) | Object::Files(_)) => {
                self.inline(value, depth)?;
            }
        }
        Ok(())
    }

    fn list<'a>(&mut self, items: impl Iterator<Item = Value<'a>>, depth: usize) -> Done {
        self.out.push(b'[');
        for (i, item) in items.enumerate() {
            if i > 0 {
                self.out.extend_from_slice(b", ");
            }
            stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.element(item, depth + 1))?;
        }
        self.out.push(b']');
        Ok(())
    }

    fn inline(&mut self, value: Value<'_>, depth: usize) -> Done {
        self.out.push(b'{');
        let (plain, tables) = split(value)?;
        let (first, count) = (plain.len(), plain.len() + tables.len());
        for (i, (name, v)) in plain.into_iter().chain(tables).enumerate() {
            // Nil entries are omitted, but the comma before one is not.
            if is_nil(v) {
                continue;
            }
            push_key(&mut self.out, name);
            self.out.extend_from_slice(b" = ");
            stacker::maybe_grow(128 * 1024, 1024 * 1024, || self.element(v, depth + 1))?;
            if i + 1 != count && (i + 1 != first || count > first) {
                self.out.extend_from_slice(b", ");
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// Splits the entries into plain values and tables.
fn split(value: Value<'_>) -> Result<(Vec<Entry<'_>>, Vec<Entry<'_>>), Failure> {
    let (mut plain, mut tables) = (Vec::new(), Vec::new());
    for entry in entries(value) {
        match kind(entry.1)? {
            Kind::Table | Kind::Tables => tables.push(entry),
            Kind::Nil | Kind::Plain => plain.push(entry),
        }
    }
    Ok((plain, tables))
}

/// A float, always recognizable as one.
fn float(f: f64) -> String {
    if f.is_nan() {
        return if f.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if f.is_infinite() {
        return if f < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    let text = strconv::format_float(f);
    if text.contains(['e', '.']) { text } else { format!("{text}.0") }
}
