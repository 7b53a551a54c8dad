//! Functions of HCL expressions: those of Terraform that helmfile offers.
//!
//! Owns the table, the functions that need no module of their own, and the bound of what all functions of an evaluation make.

use std::cell::Cell;
use std::collections::HashSet;

use chart_compat::json::ParsedSize;
use chart_compat::memory;
use hcl::eval::{Context, FuncArgs, FuncDef, ParamType};
use hcl::{Map, Number, Value};

use super::arithmetic::OPERATORS;
use super::cidr_functions::Network;
use super::date_functions::{add_time, format_date};
use super::rewritten_expression::{self, COUNTED, READ};
use super::{csv_functions, yaml_functions};

type Out = Result<Value, String>;

/// Declares every function.
pub(super) fn declare(context: &mut Context<'_>) {
    let operators = OPERATORS.iter().map(|(_, name, function)| (name, function));
    for (name, function) in TABLE.iter().map(|(name, function)| (name, function)).chain(operators) {
        let definition =
            FuncDef::builder().variadic_param(ParamType::nullable(ParamType::Any)).build(*function);
        context.declare_func(*name, definition);
    }
}

/// Functions by name. They check their arguments themselves.
const TABLE: &[(&str, hcl::eval::Func)] = &[
    ("abs", |a| number(Args(a).number(0)?.abs())),
    ("can", |a| Ok(Value::Bool(rewritten_expression::first_success(&a).is_ok()))),
    ("ceil", |a| number(Args(a).number(0)?.ceil())),
    ("cidrhost", |a| {
        let args = Args(a);
        text(&Network::parse(&args.text(0)?)?.host(args.whole(1)?)?)
    }),
    ("cidrnetmask", |a| text(&Network::parse(&Args(a).text(0)?)?.mask()?)),
    ("cidrsubnet", |a| {
        let args = Args(a);
        let number =
            args.whole(2)?.try_into().map_err(|_| "the number of a subnet is negative".to_owned())?;
        text(&Network::parse(&args.text(0)?)?.subnet(args.bits(1)?, number)?.text())
    }),
    ("cidrsubnets", |a| {
        let args = Args(a);
        let bits: Vec<u32> = (1..args.all().len()).map(|at| args.bits(at)).collect::<Result<_, _>>()?;
        let found = Network::parse(&args.text(0)?)?.subnets(&bits)?;
        Ok(found.into_iter().map(|network| Value::from(network.text())).collect())
    }),
    ("chomp", |a| text(Args(a).text(0)?.trim_end_matches(['\n', '\r']))),
    ("chunklist", chunklist),
    ("coalesce", |a| {
        let found = Args(a)
            .all()
            .into_iter()
            .find(|value| !matches!(value, Value::Null) && *value != Value::from(""));
        found.ok_or_else(|| "no argument has a value".to_owned())
    }),
    ("coalescelist", |a| {
        let found =
            Args(a).all().into_iter().find(|value| matches!(value, Value::Array(items) if !items.is_empty()));
        found.ok_or_else(|| "no argument is a list with items".to_owned())
    }),
    ("compact", |a| {
        Ok(Args(a)
            .list(0)?
            .into_iter()
            .filter(|v| !matches!(v, Value::Null) && *v != Value::from(""))
            .collect())
    }),
    ("concat", |a| {
        let mut out = Vec::new();
        for value in Args(a).all() {
            out.extend(list(value)?);
        }
        Ok(Value::Array(out))
    }),
    ("contains", |a| {
        let args = Args(a);
        let wanted = args.get(1)?;
        Ok(Value::Bool(args.list(0)?.contains(&wanted)))
    }),
    ("csvdecode", |a| csv_functions::decode(&Args(a).text(0)?)),
    ("distinct", |a| Ok(Value::Array(distinct(Args(a).list(0)?)?))),
    ("element", element),
    ("flatten", |a| Ok(Value::Array(flatten(Args(a).list(0)?)))),
    ("floor", |a| number(Args(a).number(0)?.floor())),
    ("format", |a| {
        let args = Args(a);
        text(&format(&args.text(0)?, args.0.get(1..).unwrap_or_default())?)
    }),
    ("formatdate", |a| {
        let args = Args(a);
        text(&format_date(&args.text(0)?, &args.text(1)?)?)
    }),
    ("formatlist", formatlist),
    ("indent", |a| {
        let args = Args(a);
        let (spaces, whole) = (args.size(0)?, args.text(1)?);
        bounded(whole.len(), whole.matches('\n').count(), spaces)?;
        text(&whole.replace('\n', &format!("\n{}", " ".repeat(spaces))))
    }),
    ("int", |a| number(Args(a).number(0)?.trunc())),
    ("join", |a| {
        let args = Args(a);
        let mut parts = Vec::new();
        for value in args.all().into_iter().skip(1) {
            for item in list(value)? {
                parts.push(format_value(&item)?);
            }
        }
        let between = args.text(0)?;
        bounded(parts.iter().map(String::len).sum(), parts.len(), between.len())?;
        text(&parts.join(&between))
    }),
    ("jsondecode", |a| {
        let json = Args(a).text(0)?;
        // Before it is made: its maps take much more than their text.
        count_made(usize::try_from(ParsedSize::of(json.as_bytes()).parsed).unwrap_or(usize::MAX))?;
        serde_json::from_str(&json).map_err(|error| error.to_string())
    }),
    ("jsonencode", |a| {
        serde_json::to_string(&sorted(Args(a).get(0)?)).map(Value::from).map_err(|e| e.to_string())
    }),
    ("keys", |a| {
        let mut keys: Vec<String> = Args(a).object(0)?.into_iter().map(|(key, _)| key).collect();
        keys.sort();
        Ok(keys.into_iter().collect())
    }),
    ("length", length),
    ("log", |a| {
        let args = Args(a);
        number(args.number(0)?.log(args.number(1)?))
    }),
    ("lookup", lookup),
    ("lower", |a| text(&Args(a).text(0)?.to_lowercase())),
    ("max", |a| extreme(&Args(a), f64::max)),
    ("merge", |a| {
        let mut out = Map::new();
        for value in Args(a).all() {
            match value {
                Value::Null => {}
                Value::Object(map) => out.extend(map),
                other => return Err(format!("{other} is not an object")),
            }
        }
        Ok(Value::Object(out))
    }),
    ("min", |a| extreme(&Args(a), f64::min)),
    ("parseint", parseint),
    ("pow", |a| {
        let args = Args(a);
        number(args.number(0)?.powf(args.number(1)?))
    }),
    ("range", range),
    ("regex", |a| regex(&Args(a), false)),
    ("regexall", |a| regex(&Args(a), true)),
    ("reverselist", |a| {
        let mut items = Args(a).list(0)?;
        items.reverse();
        Ok(Value::Array(items))
    }),
    ("setintersection", |a| sets(&Args(a), |own, other| keep(own, &other, true))),
    ("setproduct", |a| Ok(Value::Array(product(&Args(a))?))),
    ("setsubtract", |a| sets(&Args(a), |own, other| keep(own, &other, false))),
    ("setunion", |a| {
        sets(&Args(a), |own, other| {
            own.extend(other);
            Ok(())
        })
    }),
    ("signum", |a| {
        let n = Args(a).number(0)?;
        number(if n == 0.0 { 0.0 } else { n.signum() })
    }),
    ("slice", |a| {
        let args = Args(a);
        let (from, to) = (args.size(1)?, args.size(2)?);
        let items = args.list(0)?;
        items
            .get(from..to)
            .map(|part| Value::Array(part.to_vec()))
            .ok_or_else(|| format!("no items {from} to {to} in a list of {}", items.len()))
    }),
    ("sort", |a| {
        let mut items: Vec<String> = Args(a).list(0)?.iter().map(format_value).collect::<Result<_, _>>()?;
        items.sort();
        Ok(items.into_iter().collect())
    }),
    ("split", |a| {
        let args = Args(a);
        let (separator, whole) = (args.text(0)?, args.text(1)?);
        if separator.is_empty() {
            return Ok(whole.chars().map(|c| c.to_string()).collect());
        }
        Ok(whole.split(separator.as_str()).map(str::to_owned).collect())
    }),
    ("strlen", |a| count(Args(a).text(0)?.chars().count())),
    ("strrev", |a| text(&Args(a).text(0)?.chars().rev().collect::<String>())),
    ("substr", substr),
    ("timeadd", |a| {
        let args = Args(a);
        text(&add_time(&args.text(0)?, &args.text(1)?)?)
    }),
    ("title", |a| text(&title(&Args(a).text(0)?))),
    ("trim", |a| {
        let args = Args(a);
        let set: Vec<char> = args.text(1)?.chars().collect();
        text(args.text(0)?.trim_matches(set.as_slice()))
    }),
    ("trimprefix", |a| {
        let args = Args(a);
        let (whole, prefix) = (args.text(0)?, args.text(1)?);
        text(whole.strip_prefix(prefix.as_str()).unwrap_or(&whole))
    }),
    ("trimspace", |a| text(Args(a).text(0)?.trim())),
    ("trimsuffix", |a| {
        let args = Args(a);
        let (whole, suffix) = (args.text(0)?, args.text(1)?);
        text(whole.strip_suffix(suffix.as_str()).unwrap_or(&whole))
    }),
    ("try", |a| rewritten_expression::first_success(&a)),
    ("upper", |a| text(&Args(a).text(0)?.to_uppercase())),
    ("values", |a| {
        let mut entries: Vec<(String, Value)> = Args(a).object(0)?.into_iter().collect();
        entries.sort_by(|x, y| x.0.cmp(&y.0));
        Ok(entries.into_iter().map(|(_, value)| value).collect())
    }),
    ("yamldecode", |a| yaml_functions::decode(&Args(a).text(0)?)),
    ("yamlencode", |a| text(&yaml_functions::encode(Args(a).get(0)?)?)),
    (COUNTED, |a| {
        let args = Args(a);
        let (value, of_item) = (args.get(0)?, args.size(1)?);
        let items = match &value {
            Value::Array(items) => items.len(),
            Value::Object(map) => map.len(),
            _ => 0,
        };
        let per_item = of_item.saturating_add(size_of::<Value>());
        count_made(super::size(&value).saturating_add(items.saturating_mul(per_item)))?;
        Ok(value)
    }),
    (READ, |a| {
        let value = Args(a).get(0)?;
        count_read(super::size(&value))?;
        Ok(value)
    }),
    ("zipmap", |a| {
        let args = Args(a);
        let (keys, values) = (args.list(0)?, args.list(1)?);
        if keys.len() != values.len() {
            return Err(format!("{} keys and {} values", keys.len(), values.len()));
        }
        let mut out = Map::new();
        for (key, value) in keys.iter().zip(values) {
            out.insert(format_value(key)?, value);
        }
        Ok(Value::Object(out))
    }),
];

/// The maximal number of items that a function makes.
const MAX_ITEMS: u32 = 100_000;
/// The maximal size of a text, in bytes.
const MAX_TEXT: usize = 64 << 20;
/// The most bytes of all that functions make in one evaluation.
const MAX_MADE: usize = 4 * MAX_TEXT;

/// The most bytes of variables that loops read in one evaluation: the crate copies a variable each time it is named.
const MAX_READ: usize = 1 << 30;

thread_local! {
    /// What functions may still make. They are plain functions for the crate, without a state of their own.
    static LEFT: Cell<usize> = const { Cell::new(MAX_MADE) };
    /// What loops may still read.
    static LEFT_TO_READ: Cell<usize> = const { Cell::new(MAX_READ) };
}

/// The most bytes of all that functions make, where the machine has them: one call may make all of it.
fn most_made() -> usize {
    MAX_MADE.min(memory::of_input().saturating_mul(2))
}

/// Begins an evaluation on this thread, which it does not leave.
pub(super) fn begin_evaluation() {
    LEFT.set(most_made());
    LEFT_TO_READ.set(MAX_READ);
}

/// Counts bytes that a function makes.
pub(super) fn count_made(bytes: usize) -> Result<(), String> {
    let left = LEFT.get().checked_sub(bytes);
    LEFT.set(left.unwrap_or_default());
    left.map(drop).ok_or_else(|| format!("functions make more than {} MiB in all", most_made() >> 20))
}

/// Counts bytes that a loop reads.
fn count_read(bytes: usize) -> Result<(), String> {
    let left = LEFT_TO_READ.get().checked_sub(bytes);
    LEFT_TO_READ.set(left.unwrap_or_default());
    left.map(drop).ok_or_else(|| format!("loops read more than {} MiB of variables in all", MAX_READ >> 20))
}

/// Arguments with checked access.
struct Args(FuncArgs);

impl Args {
    fn all(&self) -> Vec<Value> {
        self.0.iter().cloned().collect()
    }

    fn get(&self, at: usize) -> Out {
        self.0.get(at).cloned().ok_or_else(|| format!("argument {} is missing", at + 1))
    }

    fn text(&self, at: usize) -> Result<String, String> {
        format_value(&self.get(at)?)
    }

    fn number(&self, at: usize) -> Result<f64, String> {
        to_number(&self.get(at)?)
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked")]
    fn size(&self, at: usize) -> Result<usize, String> {
        let n = self.number(at)?;
        if n.fract() == 0.0 && (0.0..=f64::from(MAX_ITEMS)).contains(&n) {
            Ok(n as usize)
        } else {
            Err(format!("{n} is not a count"))
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "the bounds are checked")]
    fn whole(&self, at: usize) -> Result<i64, String> {
        let n = self.number(at)?;
        if n.fract() == 0.0 && n.abs() < 9e15 {
            Ok(n as i64)
        } else {
            Err(format!("{n} is not a whole number"))
        }
    }

    fn bits(&self, at: usize) -> Result<u32, String> {
        u32::try_from(self.size(at)?).map_err(|error| error.to_string())
    }

    fn list(&self, at: usize) -> Result<Vec<Value>, String> {
        list(self.get(at)?)
    }

    fn object(&self, at: usize) -> Result<Map<String, Value>, String> {
        match self.get(at)? {
            Value::Object(map) => Ok(map),
            other => Err(format!("{other} is not an object")),
        }
    }
}

/// Refuses a text of more than [`MAX_TEXT`] bytes: `own` ones, and `count` parts of `length`.
fn bounded(own: usize, count: usize, length: usize) -> Result<(), String> {
    match count.checked_mul(length).and_then(|bytes| bytes.checked_add(own)) {
        Some(bytes) if bytes <= MAX_TEXT => Ok(()),
        _ => Err(format!("the text would have more than {} MiB", MAX_TEXT >> 20)),
    }
}

fn text(text: &str) -> Out {
    count_made(text.len())?;
    Ok(Value::from(text))
}

fn number(n: f64) -> Out {
    #[allow(clippy::cast_possible_truncation, reason = "whole and in range")]
    if n.fract() == 0.0 && n.abs() < 9e15 {
        return Ok(Value::from(n as i64));
    }
    Number::from_f64(n).map(Value::Number).ok_or_else(|| format!("{n} is not a number"))
}

fn count(n: usize) -> Out {
    Ok(Value::from(n))
}

fn to_number(value: &Value) -> Result<f64, String> {
    let parsed = match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| format!("{value} is not a number"))
}

fn list(value: Value) -> Result<Vec<Value>, String> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(format!("{other} is not a list")),
    }
}

/// A plain value as text.
fn format_value(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(n) => Ok(n.to_string()),
        other => Err(format!("{other} is not a string")),
    }
}

/// A value with objects in order of their keys, as Go's encoder writes them.
pub(super) fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(map) => {
            let mut entries: Vec<(String, Value)> =
                map.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().collect())
        }
        other => other,
    }
}

/// A text that equal values have in common, and no others.
fn identity(value: &Value) -> Result<String, String> {
    serde_json::to_string(&sorted(value.clone())).map_err(|error| error.to_string())
}

/// The items without those that are equal to an earlier one.
fn distinct(items: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut known = HashSet::with_capacity(items.len());
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        if known.insert(identity(&item)?) {
            out.push(item);
        }
    }
    Ok(out)
}

/// Keeps the items that are among others, or those that are not.
fn keep(own: &mut Vec<Value>, others: &[Value], present: bool) -> Result<(), String> {
    let others: HashSet<String> = others.iter().map(identity).collect::<Result<_, _>>()?;
    let mut kept = Vec::with_capacity(own.len());
    for item in std::mem::take(own) {
        if others.contains(&identity(&item)?) == present {
            kept.push(item);
        }
    }
    *own = kept;
    Ok(())
}

fn flatten(items: Vec<Value>) -> Vec<Value> {
    let each = |item| match item {
        Value::Array(items) => flatten(items),
        other => vec![other],
    };
    items.into_iter().flat_map(each).collect()
}

fn chunklist(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let size = args.size(1)?;
    let items = args.list(0)?;
    if size == 0 {
        return Ok(Value::Array(vec![Value::Array(items)]));
    }
    Ok(items.chunks(size).map(|chunk| Value::Array(chunk.to_vec())).collect())
}

fn element(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let at = args.size(1)?;
    let items = args.list(0)?;
    items.get(at % items.len().max(1)).cloned().ok_or_else(|| "the list is empty".to_owned())
}

fn length(arguments: FuncArgs) -> Out {
    match Args(arguments).get(0)? {
        Value::Array(items) => count(items.len()),
        Value::Object(map) => count(map.len()),
        Value::String(text) => count(text.chars().count()),
        other => Err(format!("{other} has no length")),
    }
}

fn lookup(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let key = args.text(1)?;
    match args.object(0)?.get(&key) {
        Some(value) => Ok(value.clone()),
        None => args.get(2).map_err(|_| format!("there is no {key:?}, and no default")),
    }
}

fn extreme(args: &Args, choose: fn(f64, f64) -> f64) -> Out {
    let numbers: Vec<f64> = args.all().iter().map(to_number).collect::<Result<_, _>>()?;
    number(numbers.into_iter().reduce(choose).ok_or_else(|| "at least one number is needed".to_owned())?)
}

fn parseint(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let digits = args.text(0)?;
    let radix = u32::try_from(args.size(1)?).ok().filter(|radix| (2..=36).contains(radix));
    let radix = radix.ok_or_else(|| "the base is a number from 2 to 36".to_owned())?;
    i64::from_str_radix(&digits, radix).map(Value::from).map_err(|error| format!("{digits:?}: {error}"))
}

fn range(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let (from, to, step) = match args.all().len() {
        1 => (0.0, args.number(0)?, None),
        2 => (args.number(0)?, args.number(1)?, None),
        _ => (args.number(0)?, args.number(1)?, Some(args.number(2)?)),
    };
    let step = step.unwrap_or(if from > to { -1.0 } else { 1.0 });
    let count = ((to - from) / step).ceil().max(0.0);
    if step == 0.0 || count.is_nan() || count > f64::from(MAX_ITEMS) {
        return Err(format!("a range from {from} to {to} by {step} has too many items"));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bounds are checked")]
    count_made(count as usize * size_of::<Value>())?;
    let mut out = Vec::new();
    let mut at = 0.0;
    while at < count {
        out.push(number(from + at * step)?);
        at += 1.0;
    }
    Ok(Value::Array(out))
}

fn sets(args: &Args, combine: fn(&mut Vec<Value>, Vec<Value>) -> Result<(), String>) -> Out {
    let mut all = args.all().into_iter();
    let mut own = list(all.next().unwrap_or_default())?;
    for other in all {
        combine(&mut own, list(other)?)?;
    }
    let mut own = distinct(own)?;
    own.sort_by_cached_key(|value| format_value(value).unwrap_or_default());
    Ok(Value::Array(own))
}

fn substr(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let whole: Vec<char> = args.text(0)?.chars().collect();
    let from = args.number(1)?;
    #[allow(clippy::cast_precision_loss, reason = "a text's length")]
    let from = if from < 0.0 { (whole.len() as f64 + from).max(0.0) } else { from };
    let length = args.number(2)?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and only skips"
    )]
    let rest = whole.into_iter().skip(from as usize);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and only takes"
    )]
    let part: String = if length < 0.0 { rest.collect() } else { rest.take(length as usize).collect() };
    text(&part)
}

fn title(whole: &str) -> String {
    let mut out = String::with_capacity(whole.len());
    let mut first = true;
    for c in whole.chars() {
        if first {
            out.extend(c.to_uppercase());
        } else {
            out.push(c);
        }
        first = !c.is_alphanumeric();
    }
    out
}

/// `%s`, `%d`, `%v`, `%q`, `%%` and `%t`.
fn format(pattern: &str, values: &[Value]) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = pattern.chars();
    let mut values = values.iter();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('%') => out.push('%'),
            Some(verb @ ('s' | 'd' | 'v' | 't' | 'q')) => {
                let value = values.next().ok_or_else(|| format!("%{verb} has no value"))?;
                match (verb, value) {
                    ('d', value) => out.push_str(&format_value(&number(to_number(value)?.trunc())?)?),
                    ('q', value) => out.push_str(&format!("{:?}", format_value(value)?)),
                    ('v', Value::Array(_) | Value::Object(_) | Value::Null) => {
                        out.push_str(
                            &serde_json::to_string(&sorted(value.clone()))
                                .map_err(|error| error.to_string())?,
                        );
                    }
                    (_, value) => out.push_str(&format_value(value)?),
                }
            }
            other => {
                return Err(format!(
                    "%{} is not supported; there are %s %d %v %t %q %%",
                    other.map_or_else(String::new, |c| c.to_string())
                ));
            }
        }
    }
    Ok(out)
}

/// [`format`] once for each item of the lists among the values.
fn formatlist(arguments: FuncArgs) -> Out {
    let args = Args(arguments);
    let pattern = args.text(0)?;
    let values = args.0.get(1..).unwrap_or_default();
    let mut lengths = values.iter().filter_map(Value::as_array).map(Vec::len);
    let length = lengths.next().unwrap_or(1);
    if let Some(other) = lengths.find(|other| *other != length) {
        return Err(format!("the lists have different lengths: {length} and {other}"));
    }
    let of_round = |round: usize| -> Vec<Value> {
        let item = |value: &Value| match value {
            Value::Array(items) => items.get(round).cloned().unwrap_or_default(),
            single => single.clone(),
        };
        values.iter().map(item).collect()
    };
    (0..length).map(|round| text(&format(&pattern, &of_round(round))?)).collect()
}

/// Each combination of an item of each list, the last list's items in turn first.
fn product(args: &Args) -> Result<Vec<Value>, String> {
    let lists: Vec<Vec<Value>> =
        args.all().into_iter().map(|value| of_one_type(list(value)?)).collect::<Result<_, String>>()?;
    if lists.len() < 2 {
        return Err("at least two lists are needed".to_owned());
    }
    let count = lists.iter().try_fold(1_usize, |count, list| count.checked_mul(list.len()));
    if count.and_then(|count| u32::try_from(count).ok()).is_none_or(|count| count > MAX_ITEMS) {
        return Err(format!("the product of the lists has more than {MAX_ITEMS} items"));
    }
    let sizes = lists.iter().flatten().map(super::size).max().unwrap_or_default();
    count_made(count.unwrap_or_default().saturating_mul(lists.len()).saturating_mul(sizes))?;
    let mut rows: Vec<Vec<Value>> = vec![Vec::new()];
    for list in &lists {
        let extended = |row: &Vec<Value>, item: &Value| row.iter().chain([item]).cloned().collect();
        rows = rows.iter().flat_map(|row| list.iter().map(move |item| extended(row, item))).collect();
    }
    Ok(rows.into_iter().map(Value::Array).collect())
}

/// Items of one type: plain values of several types become texts.
fn of_one_type(items: Vec<Value>) -> Result<Vec<Value>, String> {
    let differ =
        |pair: &[Value]| pair.first().map(std::mem::discriminant) != pair.last().map(std::mem::discriminant);
    if !items.windows(2).any(differ) {
        return Ok(items);
    }
    items.iter().map(|item| format_value(item).map(Value::from)).collect()
}

/// The groups of the first match, or of all.
fn regex(args: &Args, all: bool) -> Out {
    let pattern = args.text(0)?;
    let whole = args.text(1)?;
    let regex = regex_lite(&pattern)?;
    let names: Vec<Option<String>> = regex.capture_names().map(|name| name.map(str::to_owned)).collect();
    let groups = |found: &regex::Captures<'_>| -> Value {
        let group = |at: usize| found.get(at).map_or(Value::Null, |group| Value::from(group.as_str()));
        if names.len() == 1 {
            return group(0);
        }
        if names.iter().any(Option::is_some) {
            return Value::Object(
                names.iter().enumerate().filter_map(|(at, name)| Some((name.clone()?, group(at)))).collect(),
            );
        }
        (1..names.len()).map(group).collect()
    };
    if all {
        return Ok(regex.captures_iter(&whole).map(|found| groups(&found)).collect());
    }
    regex
        .captures(&whole)
        .map(|found| groups(&found))
        .ok_or_else(|| format!("{pattern:?} matches nothing in {whole:?}"))
}

fn regex_lite(pattern: &str) -> Result<regex::Regex, String> {
    regex::Regex::new(pattern).map_err(|error| error.to_string())
}
