//! Arithmetic, and the conversions to numbers (spf13/cast).
//!
//! Integer functions convert every operand to `int64` first, so floats lose their fraction. Functions with an `f` in their name
//! compute in decimals.

use super::args::{Out, bytes, fail, int};
use super::decimal::Decimal;
use crate::go::{Elem, Object, Value, fmt, strconv};
use crate::template::{Error, Exec, Func, Type};

use Type::{Any, Float64, Int, String as Str};

pub(super) const FUNCS: &[Func] = &[
    Func::new("atoi", &[Str], |_, a| Ok(Value::Int(atoi(bytes(a[0]))))),
    Func::new("int64", &[Any], |_, a| Ok(Value::Int64(to_int64(a[0])))),
    Func::new("int", &[Any], |_, a| Ok(Value::Int(to_int64(a[0])))),
    Func::new("float64", &[Any], |_, a| Ok(Value::Float(to_float64(a[0])))),
    Func::new("toDecimal", &[Any], |_, a| {
        let text = fmt::sprint(a[0]);
        let text = std::str::from_utf8(&text).unwrap_or_default();
        Ok(Value::Int64(strconv::parse_int(text, 8).unwrap_or(0)))
    }),
    Func::new("add1", &[Any], |_, a| Ok(Value::Int64(to_int64(a[0]).wrapping_add(1)))),
    Func::variadic("add", &[Any], |_, a| {
        Ok(Value::Int64(a.iter().fold(0, |sum: i64, v| sum.wrapping_add(to_int64(*v)))))
    }),
    Func::new("sub", &[Any, Any], |_, a| Ok(Value::Int64(to_int64(a[0]).wrapping_sub(to_int64(a[1]))))),
    Func::new("div", &[Any, Any], |_, a| divided(a, i64::wrapping_div)),
    Func::new("mod", &[Any, Any], |_, a| divided(a, i64::wrapping_rem)),
    Func::variadic("mul", &[Any, Any], |_, a| {
        Ok(Value::Int64(a.iter().fold(1, |product: i64, v| product.wrapping_mul(to_int64(*v)))))
    }),
    Func::new("add1f", &[Any], |_, a| decimals(a[0], &[Value::Int(1)], |x, y| Ok(x.add(&y)))),
    Func::variadic("addf", &[Any], |_, a| decimals(Value::Float(0.0), a, |x, y| Ok(x.add(&y)))),
    Func::variadic("subf", &[Any, Any], |_, a| decimals(a[0], &a[1..], |x, y| Ok(x.sub(&y)))),
    Func::variadic("divf", &[Any, Any], |_, a| {
        decimals(a[0], &a[1..], |x, y| x.div(&y).ok_or_else(|| Error::new("decimal division by 0")))
    }),
    Func::variadic("mulf", &[Any, Any], |_, a| decimals(a[0], &a[1..], |x, y| Ok(x.mul(&y)))),
    Func::variadic("max", &[Any, Any], |_, a| Ok(Value::Int64(extreme(a, i64::max)))),
    Func::variadic("biggest", &[Any, Any], |_, a| Ok(Value::Int64(extreme(a, i64::max)))),
    Func::variadic("min", &[Any, Any], |_, a| Ok(Value::Int64(extreme(a, i64::min)))),
    Func::variadic("maxf", &[Any, Any], |_, a| Ok(Value::Float(extreme_float(a, f64::max)))),
    Func::variadic("minf", &[Any, Any], |_, a| Ok(Value::Float(extreme_float(a, f64::min)))),
    Func::new("ceil", &[Any], |_, a| Ok(Value::Float(to_float64(a[0]).ceil()))),
    Func::new("floor", &[Any], |_, a| Ok(Value::Float(to_float64(a[0]).floor()))),
    Func::variadic("round", &[Any, Int, Float64], round),
    Func::new("until", &[Int], |x, a| {
        let count = int(a[0]);
        ints(x, steps(0, count, if count < 0 { -1 } else { 1 }))
    }),
    Func::new("untilStep", &[Int, Int, Int], |x, a| {
        let steps = steps(int(a[0]), int(a[1]), int(a[2]));
        ints(x, steps)
    }),
    Func::variadic("seq", &[Int], seq),
];

fn atoi(s: &[u8]) -> i64 {
    let text = std::str::from_utf8(s).unwrap_or_default();
    match strconv::parse_int(text, 10) {
        Ok(n) => n,
        // `Atoi` returns the nearest number with its error, and sprig ignores the error.
        Err(strconv::NumError::Range) if text.starts_with('-') => i64::MIN,
        Err(strconv::NumError::Range) => i64::MAX,
        Err(strconv::NumError::Syntax) => 0,
    }
}

/// `cast.ToInt64`: strings by base prefix, floats truncated; other values are 0.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
pub(super) fn to_int64(v: Value<'_>) -> i64 {
    match v {
        Value::Int(i) | Value::Int64(i) => i,
        Value::Uint64(u) => u.cast_signed(),
        // Out of range, Go's conversion on amd64 returns the smallest number.
        Value::Float(f) if f >= -(2f64.powi(63)) && f < 2f64.powi(63) => f as i64,
        Value::Float(_) => i64::MIN,
        Value::Str(s) => {
            let text = std::str::from_utf8(s).unwrap_or_default();
            strconv::parse_int(without_zero_decimals(text), 0).unwrap_or(0)
        }
        Value::Bool(b) => i64::from(b),
        Value::Object(Object::Enum(e)) => e.value,
        _ => 0,
    }
}

/// cast's `trimZeroDecimal`: `1.00` is `1`.
fn without_zero_decimals(text: &str) -> &str {
    let trimmed = text.trim_end_matches('0');
    if trimmed.len() == text.len() { text } else { trimmed.strip_suffix('.').unwrap_or(text) }
}

/// `cast.ToFloat64`
#[allow(clippy::cast_precision_loss)]
pub(super) fn to_float64(v: Value<'_>) -> f64 {
    match v {
        Value::Int(i) | Value::Int64(i) => i as f64,
        Value::Uint64(u) => u as f64,
        Value::Float(f) => f,
        Value::Str(s) => {
            std::str::from_utf8(s).ok().and_then(|t| strconv::parse_float(t).ok()).unwrap_or(0.0)
        }
        Value::Bool(b) => f64::from(u8::from(b)),
        Value::Object(Object::Enum(e)) => e.value as f64,
        _ => 0.0,
    }
}

fn divided<'a>(a: &[Value<'a>], f: fn(i64, i64) -> i64) -> Out<'a> {
    match to_int64(a[1]) {
        0 => fail("runtime error: integer divide by zero"),
        by => Ok(Value::Int64(f(to_int64(a[0]), by))),
    }
}

fn decimals<'a>(
    first: Value<'a>,
    rest: &[Value<'a>],
    f: impl Fn(Decimal, Decimal) -> Result<Decimal, Error>,
) -> Out<'a> {
    let decimal = |v: Value<'a>| {
        let n = to_float64(v);
        Decimal::from_f64(n).ok_or_else(|| {
            let shown = String::from_utf8_lossy(&fmt::sprint(Value::Float(n))).into_owned();
            Error::new(format!("Cannot create a Decimal from {shown}"))
        })
    };
    let mut result = decimal(first)?;
    for v in rest {
        result = f(result, decimal(*v)?)?;
    }
    Ok(Value::Float(result.to_f64()))
}

fn extreme(a: &[Value<'_>], f: fn(i64, i64) -> i64) -> i64 {
    a.iter().map(|v| to_int64(*v)).reduce(f).unwrap_or(0)
}

/// In Go's `math.Max` and `math.Min` a NaN operand makes the result NaN.
fn extreme_float(a: &[Value<'_>], f: fn(f64, f64) -> f64) -> f64 {
    let numbers = a.iter().map(|v| to_float64(*v));
    numbers.reduce(|x, y| if x.is_nan() || y.is_nan() { f64::NAN } else { f(x, y) }).unwrap_or(0.0)
}

/// Rounds to a number of places, as sprig does: its comparison is wrong for negative numbers, which it always rounds down.
fn round<'a>(_: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let on = match a.get(2) {
        Some(Value::Float(f)) => *f,
        _ => 0.5,
    };
    let power = match i32::try_from(int(a[1])) {
        Ok(places) if places < 0 => 1.0 / 10f64.powi(places.saturating_neg()),
        Ok(places) => 10f64.powi(places),
        Err(_) => f64::NAN,
    };
    let digits = power * to_float64(a[0]);
    let rounded = if digits.fract() >= on { digits.ceil() } else { digits.floor() };
    Ok(Value::Float(rounded / power))
}

/// sprig's `untilStep`: from `start` to `stop`, which is excluded.
fn steps(start: i64, stop: i64, step: i64) -> Vec<i64> {
    if stop < start && step >= 0 || stop >= start && step <= 0 {
        return Vec::new();
    }
    let next = |i: &i64| i.checked_add(step);
    let numbers = std::iter::successors(Some(start), next);
    numbers.take_while(|i| if step > 0 { *i < stop } else { *i > stop }).collect()
}

fn ints<'a>(x: &mut Exec<'a>, numbers: Vec<i64>) -> Out<'a> {
    let items = x.arena.alloc_slice_fill_iter(numbers.into_iter().map(Value::Int));
    Ok(Value::list_of(x.arena, Elem::Int, items))
}

fn seq<'a>(x: &mut Exec<'a>, a: &[Value<'a>]) -> Out<'a> {
    let params: Vec<i64> = a.iter().map(|v| int(*v)).collect();
    let (start, end, step) = match params[..] {
        [end] => (1, end, if end < 1 { -1 } else { 1 }),
        [start, end] => (start, end, if end < start { -1 } else { 1 }),
        [start, step, end] => {
            if end < start && step > 0 {
                return Ok(Value::Str(b""));
            }
            (start, end, step)
        }
        _ => return Ok(Value::Str(b"")),
    };
    let towards = if end < start { -1 } else { 1 };
    let numbers = steps(start, end.saturating_add(towards), step);
    let shown: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::str(x.arena, shown.join(" ")))
}
