//! `oneOf`, `anyOf`, `not` and what is left of `allOf`, as CustomResourceDefinitions permit them: values are checked in them, and every
//! field that they name has its structure outside.
//!
//! What cannot be said only ever widens what is accepted. A user's values are the chart's with some changed, so an alternative that names
//! what the chart sets cannot be told from another one here: then one that matches is enough.

use serde_json::{Value, json};

use crate::Object;
use crate::schema_fold::{ANNOTATIONS, fold};
use crate::structural_schema::{Converter, INT_OR_STRING, MAX_DEPTH, is_unchecked, required_of};

/// Keywords with alternatives.
const ALTERNATIVES: [&str; 2] = ["anyOf", "oneOf"];
/// How often a schema with one alternative may have another one inside.
const MAX_FOLDS: usize = 16;

/// What an alternative stands in.
#[derive(Clone, Copy)]
pub(crate) struct Enclosing<'e> {
    /// The structural schema outside of it.
    pub(crate) structure: &'e Object,
    /// The chart's own value there.
    pub(crate) default: Option<&'e Value>,
    /// The place in the values, for warnings.
    pub(crate) at: &'e str,
}

/// One alternative, and the references that it consists of.
struct Branch {
    flat: Object,
    references: Vec<String>,
}

impl Converter<'_> {
    /// Folds alternatives of which there is only one. Those of null alone are left out: whether there were any.
    pub(crate) fn fold_single_alternatives(&mut self, flat: &mut Object, at: &str) -> bool {
        let mut null = false;
        for _ in 0..MAX_FOLDS {
            let mut changed = false;
            for key in ALTERNATIVES {
                let Some(Value::Array(branches)) = flat.get(key) else { continue };
                let mut rest: Vec<Value> = branches.clone();
                rest.retain(|branch| !is_null(branch));
                if rest.len() < branches.len() {
                    null = true;
                }
                match rest.as_slice() {
                    [] => drop(flat.remove(key)),
                    [one] => {
                        let one = one.clone();
                        flat.remove(key);
                        let branch = self.flatten(&one, at, &mut Vec::new());
                        fold(flat, branch);
                        changed = true;
                    }
                    _ => drop(flat.insert(key.to_owned(), Value::Array(rest))),
                }
            }
            if !changed {
                break;
            }
        }
        null
    }

    /// Declares outside what alternatives declare: the type, and fields that stand nowhere else.
    pub(crate) fn lift_alternatives(&mut self, flat: &mut Object, at: &str) {
        for key in ALTERNATIVES {
            let Some(Value::Array(branches)) = flat.get(key).cloned() else { continue };
            let branches: Vec<Object> =
                branches.iter().map(|branch| self.flatten(branch, at, &mut Vec::new())).collect();
            if !flat.contains_key("type") {
                let all: Vec<Vec<&str>> = branches.iter().map(|branch| self.types(branch, at)).collect();
                if !all.iter().any(Vec::is_empty) && !flat.contains_key("properties") {
                    let mut types = all.concat();
                    types.sort_unstable();
                    types.dedup();
                    flat.insert("type".to_owned(), json!(types));
                }
            }
            self.lift_structure(flat, &branches, at);
        }
    }

    fn lift_structure(&mut self, flat: &mut Object, branches: &[Object], at: &str) {
        let mut lifted = Object::new();
        let declared = |name: &str| flat.get("properties").is_some_and(|all| all.get(name).is_some());
        for branch in branches {
            for name in
                branch.get("properties").and_then(Value::as_object).into_iter().flat_map(|map| map.keys())
            {
                if !declared(name) && !lifted.contains_key(name) {
                    let named =
                        |branch: &Object| branch.get("properties").and_then(|all| all.get(name)).cloned();
                    let candidates: Vec<Option<Value>> = branches.iter().map(named).collect();
                    lifted.insert(name.clone(), self.common_structure(&candidates, &format!("{at}.{name}")));
                }
            }
        }
        if !lifted.is_empty()
            && let Value::Object(properties) = flat.entry("properties").or_insert_with(|| json!({}))
        {
            properties.extend(lifted);
        }
        if !flat.contains_key("items") {
            let candidates: Vec<Option<Value>> =
                branches.iter().map(|branch| branch.get("items").cloned()).collect();
            if candidates.iter().any(Option::is_some) {
                let items = self.common_structure(&candidates, &format!("{at}[]"));
                flat.insert("items".to_owned(), items);
            }
        }
    }

    /// What all alternatives say of a field: its schema if that is everywhere the same, else its type.
    fn common_structure(&mut self, candidates: &[Option<Value>], at: &str) -> Value {
        let mut named = candidates.iter().flatten();
        let Some(first) = named.next() else { return json!({}) };
        if candidates.iter().all(|candidate| candidate.as_ref() == Some(first)) {
            return first.clone();
        }
        let mut types = Vec::new();
        for candidate in candidates.iter().flatten() {
            let flat = self.flatten(candidate, at, &mut Vec::new());
            let own = self.types(&flat, at);
            if own.is_empty() {
                return json!({});
            }
            types.extend(own);
        }
        types.sort_unstable();
        types.dedup();
        json!({ "type": types })
    }

    /// The alternatives of a schema as checks of a structure. Also whether a check was lost.
    pub(crate) fn alternatives(&mut self, flat: &Object, within: Enclosing<'_>) -> (Object, bool) {
        let mut made = Object::new();
        let mut conjuncts = Vec::new();
        let mut lossy = false;
        for key in ALTERNATIVES {
            if let Some(Value::Array(branches)) = flat.get(key) {
                match self.one_of(key, branches, within) {
                    Some((key, list, lost)) => {
                        lossy |= lost;
                        if made.contains_key(key) {
                            conjuncts.push(json!({ key: list }));
                        } else {
                            made.insert(key.to_owned(), Value::Array(list));
                        }
                    }
                    None => lossy = true,
                }
            }
        }
        if let Some(schema) = flat.get("not") {
            match self.negation(schema, within) {
                Some(checks) => drop(made.insert("not".to_owned(), Value::Object(checks))),
                None => lossy = true,
            }
        }
        for part in flat.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            let part = self.branch(part, within.at);
            let (checks, lost) = self.restrict(&part, within);
            lossy |= lost;
            if !checks.is_empty() {
                conjuncts.push(Value::Object(checks));
            }
        }
        if !conjuncts.is_empty() {
            made.insert("allOf".to_owned(), Value::Array(conjuncts));
        }
        (made, lossy)
    }

    /// The branches of `oneOf` or `anyOf`, with the keyword that they can stand under, and whether a check was lost; `None` if all are.
    fn one_of<'k>(
        &mut self,
        key: &'k str,
        branches: &[Value],
        within: Enclosing<'_>,
    ) -> Option<(&'k str, Vec<Value>, bool)> {
        let branches: Vec<Branch> = branches.iter().map(|branch| self.branch(branch, within.at)).collect();
        // The structure says it all: alternatives of types alone.
        if branches.iter().all(|branch| branch.flat.keys().all(|key| key == "type" || is_annotation(key))) {
            return None;
        }
        let (mut list, mut lossy) = (Vec::new(), false);
        for branch in &branches {
            let (checks, lost) = self.restrict(branch, within);
            lossy |= lost;
            list.push(checks);
        }
        if list.iter().any(Object::is_empty) {
            self.warn(within.at, format!("{key} is not checked: a CRD cannot tell its alternatives apart"));
            return None;
        }
        let list = list.into_iter().map(Value::Object).collect();
        if key == "oneOf"
            && (lossy || branches.iter().any(|branch| names_defaults(&branch.flat, within.default)))
        {
            self.warn(
                within.at,
                "oneOf is checked as anyOf: a CRD cannot see that no other alternative matches",
            );
            return Some(("anyOf", list, true));
        }
        if lossy {
            self.warn(within.at, format!("{key} is checked in part: a CRD cannot have types in it"));
        }
        Some((key, list, lossy))
    }

    fn negation(&mut self, schema: &Value, within: Enclosing<'_>) -> Option<Object> {
        let branch = self.branch(schema, within.at);
        let (checks, lossy) = self.restrict(&branch, within);
        if lossy || checks.is_empty() || names_defaults(&branch.flat, within.default) {
            self.warn(within.at, "not is not checked: a CRD cannot, or the chart's own values count for it");
            return None;
        }
        Some(checks)
    }

    fn branch(&mut self, schema: &Value, at: &str) -> Branch {
        let mut references = Vec::new();
        let flat = self.flatten(schema, at, &mut references);
        Branch { flat, references }
    }

    /// A schema as checks of a structure that stands outside of it. Also whether a check was lost.
    fn restrict(&mut self, branch: &Branch, within: Enclosing<'_>) -> (Object, bool) {
        if self.depth >= MAX_DEPTH {
            return (Object::new(), true);
        }
        self.depth += 1;
        self.nodes += 1;
        let before = self.active.len();
        self.active.extend(branch.references.iter().cloned());
        let checks = self.checks(&branch.flat, within);
        self.active.truncate(before);
        self.depth -= 1;
        checks
    }

    fn checks(&mut self, flat: &Object, within: Enclosing<'_>) -> (Object, bool) {
        let Enclosing { structure, default, at } = within;
        let mut out = Object::new();
        let mut lossy = self.validations(&mut out, flat, default, at);
        let required = required_of(flat, default);
        if !required.is_empty() {
            out.insert("required".to_owned(), Value::Array(required));
        }
        if flat.contains_key("type") {
            let types = self.types(flat, at);
            lossy |= !covers(&types, structure);
        }
        let mut properties = Object::new();
        for (name, schema) in flat.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let inside = structure.get("properties").and_then(|all| all.get(name)).and_then(Value::as_object);
            let Some(inside) = inside else {
                lossy = true;
                continue;
            };
            let value = default.and_then(|map| map.get(name));
            let at = format!("{at}.{name}");
            let below = Enclosing { structure: inside, default: value, at: &at };
            let (checks, lost) = self.restrict_below(schema, below);
            lossy |= lost;
            if !checks.is_empty() {
                properties.insert(name.clone(), Value::Object(checks));
            }
        }
        if !properties.is_empty() {
            out.insert("properties".to_owned(), Value::Object(properties));
        }
        if let Some(schema) = flat.get("items") {
            match structure.get("items").and_then(Value::as_object) {
                Some(inside) => {
                    let at = format!("{at}[]");
                    let below = Enclosing { structure: inside, default: None, at: &at };
                    let (checks, lost) = self.restrict_below(schema, below);
                    lossy |= lost;
                    if !checks.is_empty() {
                        out.insert("items".to_owned(), Value::Object(checks));
                    }
                }
                None => lossy = true,
            }
        }
        lossy |= flat.iter().any(|(key, value)| match key.as_str() {
            "additionalProperties" => !matches!(value, Value::Bool(true)) && *value != json!({}),
            _ => is_unchecked(key, value),
        });
        let (alternatives, lost) = self.alternatives(flat, within);
        out.extend(alternatives);
        (out, lossy || lost)
    }

    fn restrict_below(&mut self, schema: &Value, within: Enclosing<'_>) -> (Object, bool) {
        if *schema == json!(false) {
            return (Object::new(), true);
        }
        let branch = self.branch(schema, within.at);
        self.restrict(&branch, within)
    }
}

fn is_annotation(key: &str) -> bool {
    ANNOTATIONS.contains(&key)
}

fn is_null(branch: &Value) -> bool {
    branch.get("type") == Some(&json!("null"))
        || branch.get("enum") == Some(&json!([null]))
        || branch.get("const") == Some(&Value::Null)
}

/// Whether a schema names fields that the chart's values have.
fn names_defaults(flat: &Object, default: Option<&Value>) -> bool {
    let has = |name: &str| default.and_then(|map| map.get(name)).is_some_and(|value| !value.is_null());
    let properties = flat.get("properties").and_then(Value::as_object);
    let required = flat.get("required").and_then(Value::as_array);
    properties.is_some_and(|all| all.keys().any(|name| has(name)))
        || required.is_some_and(|all| all.iter().filter_map(Value::as_str).any(has))
        || ["anyOf", "oneOf", "allOf", "not"].iter().any(|key| {
            let nested = match flat.get(*key) {
                Some(Value::Array(all)) => all.as_slice(),
                Some(one) => std::slice::from_ref(one),
                None => &[],
            };
            nested.iter().filter_map(Value::as_object).any(|branch| names_defaults(branch, default))
        })
}

/// Whether a structure permits no other types than these.
fn covers(types: &[&str], structure: &Object) -> bool {
    let own: &[&str] = match structure.get("type").and_then(Value::as_str) {
        Some(one) => &[one],
        None if structure.contains_key(INT_OR_STRING) => &["integer", "string"],
        None => return false,
    };
    own.iter().all(|name| types.contains(name) || *name == "integer" && types.contains(&"number"))
}
