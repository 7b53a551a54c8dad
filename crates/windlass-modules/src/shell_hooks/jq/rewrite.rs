//! Filters turned into ones that mean to jaq what they mean to gojq.
//!
//! jaq changes values in place, and refuses what is not there: `{} | .a.b = 1` fails. jq reads, then sets, path by path, and
//! makes what is missing; so updates become calls of functions that do that. Objects of gojq have no order of their own.

use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Def, Pattern, Term};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part, Path};

/// Holds the right-hand side of `+=` and its like.
const RIGHT: &str = "$__right";

pub(super) fn definition(def: Def<&str>) -> Def<&str> {
    Def { name: def.name, args: def.args, body: term(def.body) }
}

#[allow(clippy::boxed_local, reason = "its callers have a box and want one")]
fn boxed(inner: Box<Term<&str>>) -> Box<Term<&str>> {
    Box::new(term(*inner))
}

fn pipe<'s>(left: Term<&'s str>, bound: Option<Pattern<&'s str>>, right: Term<&'s str>) -> Term<&'s str> {
    Term::BinOp(Box::new(left), BinaryOp::Pipe(bound), Box::new(right))
}

fn sorted(inner: Term<&str>) -> Term<&str> {
    pipe(inner, None, Term::Call("_sorted", Vec::new()))
}

/// Rewrites a filter and all of its parts.
pub(super) fn term(of: Term<&str>) -> Term<&str> {
    match of {
        Term::Id | Term::Recurse | Term::Num(_) | Term::Break(_) | Term::Var(_) => of,
        Term::Str(format, parts) => {
            let part = |part| match part {
                StrPart::Term(inner) => StrPart::Term(term(inner)),
                plain @ (StrPart::Str(_) | StrPart::Char(_)) => plain,
            };
            Term::Str(format, parts.into_iter().map(part).collect())
        }
        Term::Arr(inner) => Term::Arr(inner.map(boxed)),
        Term::Obj(entries) => {
            let many = entries.len() > 1;
            let entry = |(key, value): (Term<_>, Option<Term<_>>)| (term(key), value.map(term));
            let object = Term::Obj(entries.into_iter().map(entry).collect());
            if many { sorted(object) } else { object }
        }
        Term::Neg(inner) => Term::Neg(boxed(inner)),
        Term::BinOp(left, operator, right) => operation(term(*left), operator, term(*right)),
        Term::Label(name, inner) => Term::Label(name, boxed(inner)),
        Term::Fold(name, source, pattern, terms) => {
            Term::Fold(name, boxed(source), self::pattern(pattern), terms.into_iter().map(term).collect())
        }
        Term::TryCatch(inner, catch) => Term::TryCatch(boxed(inner), catch.map(boxed)),
        Term::IfThenElse(cases, otherwise) => {
            let cases = cases.into_iter().map(|(when, then)| (term(when), term(then)));
            Term::IfThenElse(cases.collect(), otherwise.map(boxed))
        }
        Term::Def(defs, inner) => Term::Def(defs.into_iter().map(definition).collect(), boxed(inner)),
        Term::Call("env", arguments) if arguments.is_empty() => Term::Var("$ENV"),
        Term::Call(name, arguments) => Term::Call(name, arguments.into_iter().map(term).collect()),
        Term::Path(inner, Path(parts)) => path(term(*inner), parts),
    }
}

fn pattern(of: Pattern<&str>) -> Pattern<&str> {
    match of {
        Pattern::Var(name) => Pattern::Var(name),
        Pattern::Arr(items) => Pattern::Arr(items.into_iter().map(pattern).collect()),
        Pattern::Obj(entries) => {
            Pattern::Obj(entries.into_iter().map(|(key, value)| (term(key), pattern(value))).collect())
        }
    }
}

fn operation<'s>(left: Term<&'s str>, operator: BinaryOp<&'s str>, right: Term<&'s str>) -> Term<&'s str> {
    let update = |left, value| Term::Call("_update", vec![left, value]);
    let with_right = |operator| Term::BinOp(Box::new(Term::Id), operator, Box::new(Term::Var(RIGHT)));
    match operator {
        BinaryOp::Assign => Term::Call("_assign", vec![left, right]),
        BinaryOp::Update => update(left, right),
        BinaryOp::UpdateMath(math) => {
            let value = operation(Term::Id, BinaryOp::Math(math), Term::Var(RIGHT));
            pipe(right, Some(Pattern::Var(RIGHT)), update(left, value))
        }
        BinaryOp::UpdateAlt => {
            pipe(right, Some(Pattern::Var(RIGHT)), update(left, with_right(BinaryOp::Alt)))
        }
        BinaryOp::Math(math @ (Math::Add | Math::Mul)) => {
            sorted(Term::BinOp(Box::new(left), BinaryOp::Math(math), Box::new(right)))
        }
        BinaryOp::Pipe(bound) => pipe(left, bound.map(pattern), right),
        other => Term::BinOp(Box::new(left), other, Box::new(right)),
    }
}

/// Slices of null are null: a path is cut before each, and the slice taken of what is there only.
fn path<'s>(inner: Term<&'s str>, parts: Vec<(Part<Term<&'s str>>, Opt)>) -> Term<&'s str> {
    let literal = |bound: &Option<Term<&str>>| match bound {
        None | Some(Term::Num(_)) => true,
        Some(Term::Neg(inner)) => matches!(**inner, Term::Num(_)),
        Some(_) => false,
    };
    let mut whole = inner;
    let mut open = Vec::new();
    for (part, optional) in parts {
        match part {
            Part::Range(None, None) => open.push((Part::Range(None, None), optional)),
            Part::Range(from, to) if literal(&from) && literal(&to) => {
                if !open.is_empty() {
                    whole = Term::Path(Box::new(whole), Path(std::mem::take(&mut open)));
                }
                let is_null = Term::BinOp(
                    Box::new(Term::Id),
                    BinaryOp::Cmp(jaq_core::ops::Cmp::Eq),
                    Box::new(Term::Call("null", Vec::new())),
                );
                let slice = Term::Path(Box::new(Term::Id), Path(vec![(Part::Range(from, to), optional)]));
                let taken = Term::IfThenElse(vec![(is_null, Term::Id)], Some(Box::new(slice)));
                whole = pipe(whole, None, taken);
            }
            Part::Range(from, to) => open.push((Part::Range(from.map(term), to.map(term)), optional)),
            Part::Index(index) => open.push((Part::Index(term(index)), optional)),
        }
    }
    if open.is_empty() { whole } else { Term::Path(Box::new(whole), Path(open)) }
}
