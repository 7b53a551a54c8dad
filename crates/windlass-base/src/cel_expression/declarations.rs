//! Which functions expressions have, and whether all names of an expression exist. Pure.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, IdedEntryExpr};

/// What stands before a function like a variable.
const NAMESPACES: [&str; 4] = ["base64", "optional", "sets", "strings"];
/// The functions beside operators.
const FUNCTIONS: [&str; 53] = [
    "base64.decode",
    "base64.encode",
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "first",
    "format",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "has",
    "hasValue",
    "indexOf",
    "int",
    "join",
    "last",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "replace",
    "reverse",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "size",
    "split",
    "startsWith",
    "string",
    "strings.quote",
    "substring",
    "timestamp",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];

/// The first variable or function that does not exist.
pub(super) fn undeclared<'e>(expression: &'e IdedExpr, scope: &mut Vec<&'e str>) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => (!scope.contains(&name.as_str())).then(|| name.clone()),
        Expr::Call(call) => {
            let namespace = call.target.as_deref().and_then(|target| match &target.expr {
                Expr::Ident(name)
                    if NAMESPACES.contains(&name.as_str()) && !scope.contains(&name.as_str()) =>
                {
                    Some(name)
                }
                _ => None,
            });
            let name = namespace
                .map_or_else(|| call.func_name.clone(), |space| format!("{space}.{}", call.func_name));
            let is_operator = name.starts_with(|c: char| !c.is_ascii_alphabetic());
            if !is_operator && !FUNCTIONS.contains(&name.as_str()) {
                return Some(name);
            }
            let target = call.target.as_deref().filter(|_| namespace.is_none());
            target.into_iter().chain(&call.args).find_map(|part| undeclared(part, scope))
        }
        Expr::Comprehension(one) => {
            let outside = undeclared(&one.iter_range, scope).or_else(|| undeclared(&one.accu_init, scope));
            let before = scope.len();
            scope.extend([one.iter_var.as_str(), one.accu_var.as_str()]);
            scope.extend(one.iter_var2.as_deref());
            let found = outside.or_else(|| {
                [&one.loop_cond, &one.loop_step, &one.result]
                    .into_iter()
                    .find_map(|part| undeclared(part, scope))
            });
            scope.truncate(before);
            found
        }
        Expr::List(list) => list.elements.iter().find_map(|part| undeclared(part, scope)),
        Expr::Map(map) => map.entries.iter().find_map(|part| undeclared_entry(part, scope)),
        Expr::Select(select) => undeclared(&select.operand, scope),
        Expr::Struct(one) => Some(one.type_name.clone()),
        Expr::Literal(_) | Expr::Unspecified => None,
    }
}

fn undeclared_entry<'e>(entry: &'e IdedEntryExpr, scope: &mut Vec<&'e str>) -> Option<String> {
    match &entry.expr {
        EntryExpr::StructField(field) => undeclared(&field.value, scope),
        EntryExpr::MapEntry(entry) => {
            undeclared(&entry.key, scope).or_else(|| undeclared(&entry.value, scope))
        }
    }
}
