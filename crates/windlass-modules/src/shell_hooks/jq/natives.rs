//! Functions that the rewritten filters call: reading, setting and deleting by path as jq does, order of keys.

use jaq_core::box_iter::box_once;
use jaq_core::native::{Fun, bome, run, unary, v};
use jaq_core::{DataT, Exn};
use jaq_json::{Error, Map, Num, Val};

/// An array grows by assignment to this length at most.
const MAX_INDEX: isize = 1 << 20;

pub(super) fn functions<D: for<'a> DataT<V<'a> = Val>>() -> impl Iterator<Item = Fun<D>> {
    let all: [Fun<D>; 4] = [
        run(("_sorted", v(0), |cv| bome(Ok(sorted(cv.1))))),
        run(("_get", v(1), |cv| unary(cv, |value, path| get(value, &steps(path)?)))),
        run(("_set", v(1), |mut cv| {
            let pair = steps(cv.0.pop_var());
            let [path, new] = match pair.as_deref() {
                Ok([path, new]) => [path.clone(), new.clone()],
                _ => return box_once(Err(Exn::from(fail("_set wants a path and a value")))),
            };
            bome(steps(path).and_then(|path| set(cv.1, &path, new)))
        })),
        run(("_delete", v(1), |cv| unary(cv, |value, paths| delete(value, steps(paths)?)))),
    ];
    all.into_iter()
}

fn fail(text: impl ToString) -> Error {
    Error::str(text)
}

fn steps(path: Val) -> Result<Vec<Val>, Error> {
    match path {
        Val::Arr(steps) => Ok(steps.to_vec()),
        other => Err(fail(format_args!("path must be an array, not {other}"))),
    }
}

/// The object with its keys in order; anything else as it is.
fn sorted(value: Val) -> Val {
    match value {
        Val::Obj(map) if !map.keys().is_sorted() => {
            let mut map = Map::clone(&map);
            map.sort_keys();
            Val::obj(map)
        }
        other => other,
    }
}

/// Where a slice begins and ends in something of this length.
fn bounds(step: &Map, length: usize) -> Result<(usize, usize), Error> {
    let bound = |name: &str, absent: usize| match step.get(&Val::from(name.to_owned())) {
        None | Some(Val::Null) => Ok(absent),
        Some(Val::Num(number)) => {
            let at = whole(number);
            let at = if at < 0 { at + length as isize } else { at };
            Ok(at.clamp(0, length as isize) as usize)
        }
        Some(other) => Err(fail(format_args!("start and end of a slice must be numbers, not {other}"))),
    };
    let from = bound("start", 0)?;
    Ok((from, bound("end", length)?.max(from)))
}

/// A number as an index: cut, not rounded.
fn whole(number: &Num) -> isize {
    match number {
        Num::Int(i) => *i,
        Num::Float(f) => f.floor() as isize,
        Num::BigInt(_) | Num::Dec(_) => {
            number.to_string().parse::<f64>().unwrap_or_default().floor() as isize
        }
    }
}

fn get(value: Val, path: &[Val]) -> Result<Val, Error> {
    let Some((step, rest)) = path.split_first() else { return Ok(value) };
    let inner = match (&value, step) {
        (Val::Null, Val::TStr(_) | Val::Num(_) | Val::Obj(_)) => Val::Null,
        (Val::Obj(map), Val::TStr(_)) => map.get(step).cloned().unwrap_or_default(),
        (Val::Arr(items), Val::Num(number)) => {
            let index = whole(number);
            let index = if index < 0 { index + items.len() as isize } else { index };
            usize::try_from(index).ok().and_then(|i| items.get(i)).cloned().unwrap_or_default()
        }
        (Val::Arr(items), Val::Obj(slice)) => {
            let (from, to) = bounds(slice, items.len())?;
            items[from..to].iter().cloned().collect()
        }
        _ => return Err(Error::index(value, step.clone())),
    };
    get(inner, rest)
}

/// Sets what a path leads to, and makes what is missing on the way.
fn set(value: Val, path: &[Val], new: Val) -> Result<Val, Error> {
    let Some((step, rest)) = path.split_first() else { return Ok(new) };
    match (value, step) {
        (Val::Null, Val::TStr(_)) => set(Val::obj(Map::default()), path, new),
        (Val::Null, Val::Num(_) | Val::Obj(_)) => set(Val::Arr(Vec::new().into()), path, new),
        (Val::Obj(mut map), Val::TStr(_)) => {
            let map_mut = jaq_json::Rc::make_mut(&mut map);
            let inner = map_mut.get_mut(step).map(std::mem::take).unwrap_or_default();
            map_mut.insert(step.clone(), set(inner, rest, new)?);
            Ok(sorted(Val::Obj(map)))
        }
        (Val::Arr(mut items), Val::Num(number)) => {
            let index = whole(number);
            let index = if index < 0 { index + items.len() as isize } else { index };
            if !(0..=MAX_INDEX).contains(&index) {
                return Err(fail(format_args!("array index {index} is out of range")));
            }
            let index = index as usize;
            let items_mut = jaq_json::Rc::make_mut(&mut items);
            if items_mut.len() <= index {
                items_mut.resize(index + 1, Val::Null);
            }
            let inner = std::mem::take(&mut items_mut[index]);
            items_mut[index] = set(inner, rest, new)?;
            Ok(Val::Arr(items))
        }
        (Val::Arr(mut items), Val::Obj(slice)) => {
            let (from, to) = bounds(slice, items.len())?;
            let inner = items[from..to].iter().cloned().collect();
            let Val::Arr(replaced) = set(inner, rest, new)? else {
                return Err(fail("a slice of an array can only be assigned another array"));
            };
            jaq_json::Rc::make_mut(&mut items).splice(from..to, replaced.iter().cloned());
            Ok(Val::Arr(items))
        }
        (other, _) => Err(Error::index(other, step.clone())),
    }
}

/// Deletes what paths lead to, the last first, so that indexes keep their meaning.
fn delete(value: Val, mut paths: Vec<Val>) -> Result<Val, Error> {
    paths.sort();
    paths.dedup();
    paths.into_iter().rev().try_fold(value, |value, path| delete_one(value, &steps(path)?))
}

fn delete_one(value: Val, path: &[Val]) -> Result<Val, Error> {
    let Some((step, rest)) = path.split_first() else { return Ok(Val::Null) };
    if !rest.is_empty() {
        let inner = get(value.clone(), std::slice::from_ref(step))?;
        if matches!(inner, Val::Null) {
            return Ok(value);
        }
        let left = delete_one(inner, rest)?;
        return set(value, std::slice::from_ref(step), left);
    }
    match (value, step) {
        (Val::Null, Val::TStr(_) | Val::Num(_) | Val::Obj(_)) => Ok(Val::Null),
        (Val::Obj(mut map), Val::TStr(_)) => {
            jaq_json::Rc::make_mut(&mut map).shift_remove(step);
            Ok(Val::Obj(map))
        }
        (Val::Arr(mut items), Val::Num(number)) => {
            let index = whole(number);
            let index = if index < 0 { index + items.len() as isize } else { index };
            if let Some(index) = usize::try_from(index).ok().filter(|i| *i < items.len()) {
                jaq_json::Rc::make_mut(&mut items).remove(index);
            }
            Ok(Val::Arr(items))
        }
        (Val::Arr(mut items), Val::Obj(slice)) => {
            let (from, to) = bounds(slice, items.len())?;
            jaq_json::Rc::make_mut(&mut items).drain(from..to);
            Ok(Val::Arr(items))
        }
        (other, _) => Err(Error::index(other, step.clone())),
    }
}
