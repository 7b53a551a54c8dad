//! Go's `fmt`: `%v` of every value, and `Sprintf` with its verbs, flags and error texts.
//!
//! Owns only printing. Error texts for an invalid verb or a missing argument are Go's, because charts' outputs contain them.

mod number;

use super::object::{Object, Struct, Version};
use super::strconv;
use super::time::{duration_string, time_string};
use super::value::Value;

/// Appends the output of `fmt.Fprint(out, value)`, that is `%v`; nil prints as `<nil>`.
pub fn print(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        // Fast paths for the common values.
        Value::Str(s) => out.extend_from_slice(s),
        Value::Bool(b) => out.extend_from_slice(if b { b"true" } else { b"false" }),
        Value::Int(i) | Value::Int64(i) => integer(out, i),
        Value::Float(f) => match short_integer(f) {
            Some(whole) => integer(out, whole),
            None => Printer::new(out, "common.Values").arg(value, 'v'),
        },
        // A template action prints an addressable value, so Go finds `String` of the pointer. Functions get a copy, which is not
        // addressable.
        Value::Object(Object::Struct(Struct { text: Some(text), .. })) => {
            out.extend_from_slice(text.as_bytes());
        }
        // A template action prints the value that a pointer points to (`printableValue`).
        Value::Object(Object::Struct(s)) if let Some(s) = s.pointed_at() => {
            Printer::new(out, "common.Values").structure(&s, 'v', 0);
        }
        _ => Printer::new(out, "common.Values").arg(value, 'v'),
    }
}

/// Appends the digits of an integer.
fn integer(out: &mut Vec<u8>, n: i64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), n.unsigned_abs());
    while at > 0 {
        at -= 1;
        digits[at] = b"0123456789"[(rest % 10) as usize];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// A float that `%v` prints as an integer; larger ones have an exponent. Numbers of values are floats, so this is common.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn short_integer(f: f64) -> Option<i64> {
    let whole = f as i64;
    (f.abs() < 1e6 && whole as f64 == f && (whole != 0 || f.is_sign_positive())).then_some(whole)
}

/// `fmt.Sprint` of one value.
#[must_use]
pub fn sprint(value: Value<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    argument(&mut out, value);
    out
}

/// Appends `%v` of a function's argument.
fn argument(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Object(_) => Printer::new(out, "common.Values").arg(value, 'v'),
        _ => print(out, value),
    }
}

/// `fmt.Sprint(args...)`: a space between two operands when neither is a string.
#[must_use]
pub fn sprint_all(args: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 && !matches!(arg, Value::Str(_)) && !matches!(args[i - 1], Value::Str(_)) {
            out.push(b' ');
        }
        argument(&mut out, *arg);
    }
    out
}

/// `fmt.Sprintln(args...)`
#[must_use]
pub fn sprintln(args: &[Value<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            out.push(b' ');
        }
        argument(&mut out, *arg);
    }
    out.push(b'\n');
    out
}

/// `fmt.Sprintf`. `values_type` is Go's name of the type of `.Values`, for `%T` and error texts.
#[must_use]
pub fn sprintf(format: &[u8], args: &[Value<'_>], values_type: &'static str) -> Vec<u8> {
    let mut out = Vec::with_capacity(format.len() + 16);
    Printer::new(&mut out, values_type).format(format, args);
    out
}

/// Shortest `%g` digits of a float, as `%v` prints it: `1e+06`, `0.1`, `NaN`, `+Inf`.
#[must_use]
pub fn float(f: f64) -> String {
    short_integer(f).map_or_else(|| format_g(f, None), |whole| whole.to_string())
}

/// `strconv.FormatFloat(f, 'g', -1, 32)`: the shortest digits that identify a 32-bit float.
#[must_use]
#[allow(clippy::cast_possible_truncation)]
pub fn float32(f: f64) -> String {
    let narrow = f as f32;
    special(f64::from(narrow)).map_or_else(|| layout_g(&format!("{narrow:e}"), None), str::to_owned)
}

fn special(f: f64) -> Option<&'static str> {
    if f.is_nan() {
        Some("NaN")
    } else if f.is_infinite() {
        Some(if f > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        None
    }
}

/// `strconv.FormatFloat(f, 'g', prec, 64)`, shortest digits when `prec` is `None`.
fn format_g(f: f64, prec: Option<usize>) -> String {
    if let Some(s) = special(f) {
        return s.to_owned();
    }
    match prec {
        None => layout_g(&format!("{f:e}"), None),
        Some(p) => layout_g(&format!("{f:.*e}", p.max(1) - 1), prec),
    }
}

/// Converts a number from Rust's scientific format to Go's `%g`.
fn layout_g(sci: &str, prec: Option<usize>) -> String {
    let (mantissa, exp) = sci.split_once('e').unwrap_or((sci, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let mut digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    while digits.len() > 1 && digits.ends_with('0') {
        digits.pop();
    }
    let point = usize::try_from(exp + 1).unwrap_or(0);
    // For the shortest digits Go assumes a precision of 6 here.
    let limit = match prec {
        None => 6,
        Some(p) if p.max(1) > digits.len() && digits.len() >= point => digits.len(),
        Some(p) => p.max(1),
    };
    if exp < -4 || exp >= i32::try_from(limit).unwrap_or(i32::MAX) {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let esign = if exp < 0 { '-' } else { '+' };
        return format!("{sign}{first}{dot}{rest}e{esign}{:02}", exp.unsigned_abs());
    }
    plain(sign, &digits, exp)
}

fn plain(sign: &str, digits: &str, exp: i32) -> String {
    if exp < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(exp.unsigned_abs() as usize - 1));
    }
    let point = exp.unsigned_abs() as usize + 1;
    if digits.len() <= point {
        format!("{sign}{digits}{}", "0".repeat(point - digits.len()))
    } else {
        format!("{sign}{}.{}", &digits[..point], &digits[point..])
    }
}

/// The text of a value's `String` method, if it has one.
#[must_use]
pub fn stringer(object: &Object<'_>) -> Option<String> {
    match object {
        Object::Version(v) => Some(version_string(v)),
        Object::Time(t) => Some(time_string(t)),
        Object::Complex(re, im) => {
            let sign = if *im < 0.0 { "" } else { "+" };
            Some(format!("({}{sign}{}i)", strconv::format_float(*re), strconv::format_float(*im)))
        }
        Object::Duration(d) => Some(duration_string(*d)),
        Object::Enum(e) => Some(e.text.to_owned()),
        Object::Struct(_) | Object::ApiVersions(_) | Object::Files(_) => None,
    }
}

/// `semver.Version.String`: the normalized version, without a leading `v`.
#[must_use]
pub fn version_string(v: &Version<'_>) -> String {
    let mut s = format!("{}.{}.{}", v.major, v.minor, v.patch);
    if !v.prerelease.is_empty() {
        s.push('-');
        s.push_str(v.prerelease);
    }
    if !v.metadata.is_empty() {
        s.push('+');
        s.push_str(v.metadata);
    }
    s
}

#[derive(Clone, Copy, Default)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`
    plus_v: bool,
    /// `%#v`
    sharp_v: bool,
    width: Option<usize>,
    prec: Option<usize>,
}

/// The maximal width or precision in a format (Go's own limit).
const MAX_NUMBER: usize = 1_000_000;

struct Printer<'o> {
    out: &'o mut Vec<u8>,
    flags: Flags,
    values_type: &'static str,
    /// Whether an error text is being written.
    erroring: bool,
}

impl<'o> Printer<'o> {
    fn new(out: &'o mut Vec<u8>, values_type: &'static str) -> Self {
        Self { out, flags: Flags::default(), values_type, erroring: false }
    }

    fn format(&mut self, format: &[u8], args: &[Value<'_>]) {
        let (mut i, mut next, mut reordered_any) = (0, 0usize, false);
        let last_bracket = memchr::memrchr(b']', format);
        while i < format.len() {
            let lit = format[i..].iter().position(|&c| c == b'%').map_or(format.len(), |n| i + n);
            self.out.extend_from_slice(&format[i..lit]);
            i = lit + 1;
            if lit >= format.len() {
                break;
            }
            self.flags = Flags::default();
            while let Some(c) = format.get(i) {
                match c {
                    b'#' => self.flags.sharp = true,
                    b'0' => self.flags.zero = true,
                    b'+' => self.flags.plus = true,
                    b'-' => self.flags.minus = true,
                    b' ' => self.flags.space = true,
                    _ => break,
                }
                i += 1;
            }
            let (mut good_index, mut after_index) = (true, false);
            let mut reordered = false;
            let index = |i: &mut usize, next: &mut usize, good: &mut bool, reordered: &mut bool| -> bool {
                if format.get(*i) != Some(&b'[') {
                    return false;
                }
                *reordered = true;
                let closed = last_bracket.is_some_and(|last| last > *i);
                let end = closed.then(|| memchr::memchr(b']', &format[*i..])).flatten();
                let Some(end) = end else {
                    *good = false;
                    *i += 1;
                    return false;
                };
                let text = &format[*i + 1..*i + end];
                *i += end + 1;
                let digits = Some(text).filter(|t| t.iter().all(u8::is_ascii_digit));
                let n = digits.and_then(|t| std::str::from_utf8(t).ok()?.parse::<usize>().ok());
                match n {
                    Some(n) if n >= 1 && n <= args.len() => *next = n - 1,
                    _ => *good = false,
                }
                n.is_some_and(|n| n <= MAX_NUMBER)
            };
            after_index |= index(&mut i, &mut next, &mut good_index, &mut reordered);
            if format.get(i) == Some(&b'*') {
                i += 1;
                match int_arg(args.get(next)) {
                    Some(n) if n.unsigned_abs() as usize <= MAX_NUMBER => {
                        self.flags.minus |= n < 0;
                        self.flags.zero &= n >= 0;
                        self.flags.width = Some(n.unsigned_abs() as usize);
                    }
                    _ => self.out.extend_from_slice(b"%!(BADWIDTH)"),
                }
                next += usize::from(next < args.len());
                after_index = false;
            } else {
                self.flags.width = number(format, &mut i);
                if after_index && self.flags.width.is_some() {
                    good_index = false;
                }
            }
            if format.get(i) == Some(&b'.') {
                i += 1;
                if after_index {
                    good_index = false;
                }
                after_index = index(&mut i, &mut next, &mut good_index, &mut reordered);
                if format.get(i) == Some(&b'*') {
                    i += 1;
                    match int_arg(args.get(next)) {
                        Some(n) if (0..=MAX_NUMBER as i64).contains(&n) => self.flags.prec = Some(n as usize),
                        _ => self.out.extend_from_slice(b"%!(BADPREC)"),
                    }
                    next += usize::from(next < args.len());
                    after_index = false;
                } else {
                    self.flags.prec = Some(number(format, &mut i).unwrap_or(0));
                }
            }
            if !after_index {
                index(&mut i, &mut next, &mut good_index, &mut reordered);
            }
            reordered_any |= reordered;
            if i >= format.len() {
                self.out.extend_from_slice(b"%!(NOVERB)");
                break;
            }
            let (verb, size) = decode(&format[i..]);
            i += size;
            if verb == '%' {
                self.out.push(b'%');
            } else if !good_index {
                self.complaint(verb, "BADINDEX");
            } else if let Some(&arg) = args.get(next) {
                if matches!(verb, 'v' | 'w') {
                    self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
                    self.flags.plus_v = std::mem::take(&mut self.flags.plus);
                }
                self.arg(arg, verb);
                next += 1;
            } else {
                self.complaint(verb, "MISSING");
            }
        }
        if !reordered_any && next < args.len() {
            self.flags = Flags::default();
            self.out.extend_from_slice(b"%!(EXTRA ");
            for (n, arg) in args[next..].iter().enumerate() {
                if n > 0 {
                    self.out.extend_from_slice(b", ");
                }
                if arg.is_nil() {
                    self.out.extend_from_slice(b"<nil>");
                } else {
                    self.out.extend_from_slice(arg.type_name(self.values_type).as_bytes());
                    self.out.push(b'=');
                    self.arg(*arg, 'v');
                }
            }
            self.out.push(b')');
        }
    }

    fn complaint(&mut self, verb: char, what: &str) {
        self.out.extend_from_slice(format!("%!{verb}({what})").as_bytes());
    }

    fn bad_verb(&mut self, value: Value<'_>, verb: char) {
        self.out.extend_from_slice(format!("%!{verb}(").as_bytes());
        if value.is_nil() {
            self.out.extend_from_slice(b"<nil>");
        } else {
            self.out.extend_from_slice(value.type_name(self.values_type).as_bytes());
            self.out.push(b'=');
            // The flags still apply, but methods are not called.
            let erroring = std::mem::replace(&mut self.erroring, true);
            self.value(value, 'v', 0);
            self.erroring = erroring;
        }
        self.out.push(b')');
    }

    fn arg(&mut self, value: Value<'_>, verb: char) {
        if verb == 'T' {
            let name = value.plain().type_name(self.values_type);
            if value.is_nil() {
                self.pad(name.as_bytes());
            } else {
                self.string(Value::Nil, name.as_bytes(), 's');
            }
        } else if value.is_nil() {
            if verb == 'v' { self.pad(b"<nil>") } else { self.bad_verb(Value::Nil, verb) }
        } else {
            self.value(value, verb, 0);
        }
    }

    fn value(&mut self, value: Value<'_>, verb: char, depth: usize) {
        if depth > 1000 {
            // Go would overflow its stack on a cyclic map; here the output is cut.
            self.out.extend_from_slice(b"...");
            return;
        }
        if verb == 'w' && !self.erroring {
            // Only `Errorf` supports `%w`.
            return self.bad_verb(value, verb);
        }
        match value {
            Value::Nil | Value::NilInterface if self.flags.sharp_v => {
                self.out.extend_from_slice(b"interface {}(nil)");
            }
            Value::Nil | Value::NilInterface => self.out.extend_from_slice(b"<nil>"),
            Value::Bool(b) => match verb {
                't' | 'v' => self.pad(if b { b"true" } else { b"false" }),
                _ => self.bad_verb(value, verb),
            },
            Value::Int(i) | Value::Int64(i) => self.integer(value, i.unsigned_abs(), i < 0, verb),
            Value::Uint64(u) => self.integer(value, u, false, verb),
            Value::Float(f) => self.float(value, f, verb),
            Value::Str(s) => self.string(value, s, verb),
            Value::Bytes(b) => match verb {
                'v' | 'd' => {
                    let text: Vec<String> = b.iter().map(u8::to_string).collect();
                    self.out.extend_from_slice(format!("[{}]", text.join(" ")).as_bytes());
                }
                _ => self.string(value, b, verb),
            },
            Value::List(l) => {
                if self.flags.sharp_v {
                    self.out.extend_from_slice(value.type_name(self.values_type).as_bytes());
                    if l.nil {
                        return self.out.extend_from_slice(b"(nil)");
                    }
                }
                let items = l.items.iter().copied();
                self.sequence(items, verb, depth);
            }
            Value::Map(m) => {
                let entries: Vec<_> = m.entries().to_vec();
                if self.flags.sharp_v {
                    self.out.extend_from_slice(value.type_name(self.values_type).as_bytes());
                    if m.is_nil() {
                        return self.out.extend_from_slice(b"(nil)");
                    }
                }
                self.map(entries.iter().map(|e| (Value::Str(e.0), e.1)), verb, depth);
            }
            Value::Object(o) => self.object(value, o, verb, depth),
        }
    }

    fn sequence<'v>(&mut self, items: impl Iterator<Item = Value<'v>>, verb: char, depth: usize) {
        let (open, sep, close) = if self.flags.sharp_v { ("{", ", ", "}") } else { ("[", " ", "]") };
        self.out.extend_from_slice(open.as_bytes());
        for (i, item) in items.enumerate() {
            if i > 0 {
                self.out.extend_from_slice(sep.as_bytes());
            }
            self.value(item, verb, depth + 1);
        }
        self.out.extend_from_slice(close.as_bytes());
    }

    fn map<'v>(&mut self, entries: impl Iterator<Item = (Value<'v>, Value<'v>)>, verb: char, depth: usize) {
        let (open, sep, close) = if self.flags.sharp_v { ("{", ", ", "}") } else { ("map[", " ", "]") };
        self.out.extend_from_slice(open.as_bytes());
        for (i, (key, item)) in entries.enumerate() {
            if i > 0 {
                self.out.extend_from_slice(sep.as_bytes());
            }
            self.value(key, verb, depth + 1);
            self.out.push(b':');
            self.value(item, verb, depth + 1);
        }
        self.out.extend_from_slice(close.as_bytes());
    }

    fn object(&mut self, value: Value<'_>, object: &Object<'_>, verb: char, depth: usize) {
        if !self.flags.sharp_v
            && !self.erroring
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
            && let Some(text) = stringer(object)
        {
            return self.string(Value::Nil, text.as_bytes(), verb);
        }
        match object {
            Object::Struct(s) => self.structure(s, verb, depth),
            Object::ApiVersions(v) => self.sequence(v.iter().map(|s| Value::Str(s.as_bytes())), verb, depth),
            Object::Files(f) => {
                self.map(f.iter().map(|e| (Value::Str(e.0.as_bytes()), Value::Bytes(e.1))), verb, depth);
            }
            Object::Complex(..) => {
                let text = stringer(object).unwrap_or_default();
                self.pad(text.as_bytes());
            }
            Object::Duration(d) => self.integer(value, d.unsigned_abs(), *d < 0, verb),
            Object::Enum(e) => self.integer(value, e.value.unsigned_abs(), e.value < 0, verb),
            // A pointer inside another value prints as its address, or as an invalid verb.
            Object::Version(_) if depth > 0 && !self.erroring && !self.flags.sharp_v => {
                self.bad_verb(value, verb);
            }
            Object::Version(v) => {
                let text = |s| Value::Str(str::as_bytes(s));
                let fields = [
                    ("major", Value::Uint64(v.major)),
                    ("minor", Value::Uint64(v.minor)),
                    ("patch", Value::Uint64(v.patch)),
                    ("pre", text(v.prerelease)),
                    ("metadata", text(v.metadata)),
                    ("original", text(v.original)),
                ];
                self.structure(
                    &Struct { type_name: "*semver.Version", fields: &fields, text: None },
                    verb,
                    depth,
                );
            }
            Object::Time(t) => self.string(value, time_string(t).as_bytes(), verb),
        }
    }

    fn structure(&mut self, s: &Struct<'_>, verb: char, depth: usize) {
        let name = s.type_name.trim_start_matches('*');
        if s.type_name.starts_with('*') {
            self.out.push(b'&');
        }
        if self.flags.sharp_v {
            self.out.extend_from_slice(name.as_bytes());
        }
        self.out.push(b'{');
        for (i, (field, value)) in s.fields.iter().enumerate() {
            if i > 0 {
                self.out.extend_from_slice(if self.flags.sharp_v { b", " } else { b" " });
            }
            if self.flags.sharp_v || self.flags.plus_v {
                self.out.extend_from_slice(field.as_bytes());
                self.out.push(b':');
            }
            self.value(*value, verb, depth + 1);
        }
        self.out.push(b'}');
    }

    fn string(&mut self, value: Value<'_>, s: &[u8], verb: char) {
        let cut = |s: &'_ [u8], prec: Option<usize>| -> usize {
            let Some(n) = prec else { return s.len() };
            let mut at = 0;
            for _ in 0..n {
                if at >= s.len() {
                    break;
                }
                at += decode(&s[at..]).1;
            }
            at
        };
        match verb {
            'v' if self.flags.sharp_v => self.pad(strconv::quote(&s[..cut(s, self.flags.prec)]).as_bytes()),
            'v' | 's' => self.pad(&s[..cut(s, self.flags.prec)]),
            'q' => {
                let s = &s[..cut(s, self.flags.prec)];
                let text = match std::str::from_utf8(s) {
                    Ok(t) if self.flags.sharp && strconv::can_backquote(t) => format!("`{t}`"),
                    _ if self.flags.plus => strconv::quote_to_ascii(s),
                    _ => strconv::quote(s),
                };
                self.pad(text.as_bytes());
            }
            'x' | 'X' => {
                let s = &s[..self.flags.prec.unwrap_or(s.len()).min(s.len())];
                let mut text = String::new();
                let prefix = if verb == 'x' { "0x" } else { "0X" };
                for (i, b) in s.iter().enumerate() {
                    if self.flags.space && i > 0 {
                        text.push(' ');
                    }
                    if self.flags.sharp && (self.flags.space || i == 0) {
                        text.push_str(prefix);
                    }
                    text.push_str(&if verb == 'x' { format!("{b:02x}") } else { format!("{b:02X}") });
                }
                self.pad(text.as_bytes());
            }
            _ => self.bad_verb(if value.is_nil() { Value::Str(&[]) } else { value }, verb),
        }
    }

    /// Appends text padded to the width flag, counted in runes.
    fn pad(&mut self, text: &[u8]) {
        let width = self.flags.width.unwrap_or(0);
        let runes = if width == 0 { 0 } else { count(text) };
        let fill = width.saturating_sub(runes);
        if self.flags.minus {
            self.out.extend_from_slice(text);
            self.out.resize(self.out.len() + fill, b' ');
        } else {
            self.out.resize(self.out.len() + fill, if self.flags.zero { b'0' } else { b' ' });
            self.out.extend_from_slice(text);
        }
    }
}

/// The number of characters of a text; each invalid byte counts as one.
fn count(text: &[u8]) -> usize {
    let (mut at, mut runes) = (0, 0);
    while at < text.len() {
        at += decode(&text[at..]).1.max(1);
        runes += 1;
    }
    runes
}

fn int_arg(arg: Option<&Value<'_>>) -> Option<i64> {
    match arg {
        Some(Value::Int(i) | Value::Int64(i)) => Some(*i),
        Some(Value::Uint64(u)) => i64::try_from(*u).ok(),
        Some(Value::Object(Object::Duration(d))) => Some(*d),
        Some(Value::Object(Object::Enum(e))) => Some(e.value),
        _ => None,
    }
}

fn number(format: &[u8], i: &mut usize) -> Option<usize> {
    let start = *i;
    let mut n = 0usize;
    while let Some(d) = format.get(*i).filter(|c| c.is_ascii_digit()) {
        n = (n * 10 + usize::from(d - b'0')).min(MAX_NUMBER + 1);
        *i += 1;
    }
    (*i > start && n <= MAX_NUMBER).then_some(n)
}

/// The first rune and its length in bytes; U+FFFD and 1 for invalid UTF-8 (`utf8.DecodeRune`).
pub(crate) fn decode(s: &[u8]) -> (char, usize) {
    match s.first() {
        None => (char::REPLACEMENT_CHARACTER, 0),
        Some(b) if b.is_ascii() => (char::from(*b), 1),
        Some(_) => match s[..s.len().min(4)].utf8_chunks().next() {
            Some(chunk) => {
                chunk.valid().chars().next().map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8()))
            }
            None => (char::REPLACEMENT_CHARACTER, 1),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_prints_numbers_as_the_long_one_does() {
        let floats = [
            0.0,
            1.0,
            9.0,
            10.0,
            80.0,
            8080.0,
            99_999.0,
            999_999.0,
            1e6,
            1e7,
            0.5,
            1.5,
            1e-5,
            1e300,
            f64::MIN,
        ];
        for f in floats.into_iter().chain([f64::NAN, f64::INFINITY]).flat_map(|f| [f, -f]) {
            let want = format_g(f, None);
            assert_eq!(float(f), want);
            assert_eq!(sprint(Value::Float(f)), want.as_bytes());
        }
        for n in [0, 1, -1, 10, -10, 8080, i64::MAX, i64::MIN] {
            assert_eq!(sprint(Value::Int(n)), n.to_string().as_bytes());
            assert_eq!(sprint(Value::Int64(n)), n.to_string().as_bytes());
        }
    }
}
