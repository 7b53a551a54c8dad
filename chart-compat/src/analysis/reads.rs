//! Static analysis of which values a chart's templates read, and which decide what they write, without running them.
//!
//! Owns the effect of each function on values. Over-approximates: a value passed to an unknown place counts as read, with
//! all values below it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::template::{Expr, Outline, Pipeline};

/// The maximal number of visited nodes.
const MAX_STEPS: usize = 150_000;
/// The maximal number of parts of an abstract value, after which it counts as read: values that contain themselves grow without end.
const MAX_SIZE: usize = 100;
/// The maximal number of steps of a path.
const MAX_PATH: usize = 16;
/// The maximal depth of nested template calls.
const MAX_DEPTH: usize = 100;

/// A path in the root chart's values; `*` matches any key.
pub(crate) type ValuePath = Vec<String>;

/// An abstract value of an expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Abstract {
    /// The context of the chart with this index.
    Context(usize),
    /// `.Subcharts` of the chart with this index.
    Subcharts(usize),
    /// A value, by its path in the root chart's values.
    Value(ValuePath),
    /// A map made by `dict`.
    Dict(BTreeMap<String, Abstract>),
    /// One of several values.
    Any(Vec<Abstract>),
    /// A value that does not come from the chart's values.
    Other,
}

/// A chart in the tree of charts.
pub(crate) struct Scope {
    /// The path to its values.
    pub(crate) value_path: ValuePath,
    /// Subcharts: name and index.
    pub(crate) subcharts: Vec<(String, usize)>,
}

/// Analyzes templates.
pub(crate) struct Reader<'t> {
    scopes: &'t [Scope],
    templates: &'t HashMap<String, Vec<Outline>>,
    seen: HashSet<(String, Abstract, bool)>,
    steps: usize,
    depth: usize,
    /// Whether the expression at hand is a condition.
    in_condition: bool,
    /// Values that are read completely, with all values below them.
    pub(crate) whole: BTreeSet<ValuePath>,
    /// Values of which templates only test existence or kind.
    pub(crate) tested: BTreeSet<ValuePath>,
    /// Values in conditions of `if`, `with`, `range` and `ternary`.
    pub(crate) gates: BTreeSet<ValuePath>,
    /// The constants that templates compare values with.
    pub(crate) compared: BTreeMap<ValuePath, BTreeSet<String>>,
    /// The constants given to `.Capabilities.APIVersions.Has`.
    pub(crate) api_versions: BTreeSet<String>,
}

/// The abstract values of one template's variables.
type Variables = HashMap<String, Abstract>;

impl<'t> Reader<'t> {
    pub(crate) fn new(scopes: &'t [Scope], templates: &'t HashMap<String, Vec<Outline>>) -> Self {
        Self {
            scopes,
            templates,
            seen: HashSet::new(),
            steps: 0,
            depth: 0,
            in_condition: false,
            whole: BTreeSet::new(),
            tested: BTreeSet::new(),
            gates: BTreeSet::new(),
            compared: BTreeMap::new(),
            api_versions: BTreeSet::new(),
        }
    }

    /// Whether all nodes were visited.
    pub(crate) fn is_complete(&self) -> bool {
        self.steps < MAX_STEPS
    }

    /// Analyzes a template file of a chart.
    pub(crate) fn file(&mut self, name: &str, scope: usize) {
        self.template(name, Abstract::Context(scope));
    }

    fn template(&mut self, name: &str, dot: Abstract) {
        let dot = self.bounded(dot);
        let Some(outline) = self.templates.get(name) else { return };
        if self.depth >= MAX_DEPTH {
            self.read(&dot);
            return;
        }
        if !self.seen.insert((name.to_owned(), dot.clone(), self.in_condition)) {
            return;
        }
        self.depth += 1;
        let mut variables = Variables::from([("$".to_owned(), dot.clone())]);
        self.list(outline, &dot, &mut variables);
        self.depth -= 1;
    }

    fn list(&mut self, list: &[Outline], dot: &Abstract, variables: &mut Variables) {
        for node in list {
            self.steps += 1;
            if !self.is_complete() {
                return;
            }
            match node {
                Outline::Action(p) => {
                    let value = self.pipeline(p, dot, variables);
                    if p.variables.is_empty() {
                        self.read(&value);
                    }
                }
                Outline::If(p, then, otherwise) => {
                    self.condition(p, dot, variables);
                    self.list(then, dot, variables);
                    self.list(otherwise, dot, variables);
                }
                Outline::With(p, then, otherwise) => {
                    let value = self.condition(p, dot, variables);
                    self.list(then, &value, variables);
                    self.list(otherwise, dot, variables);
                }
                Outline::Range(p, then, otherwise) => {
                    let value = self.condition(p, dot, variables);
                    let item = element(&value);
                    if let Some(last) = p.variables.last() {
                        variables.insert(last.clone(), item.clone());
                    }
                    if let [key, _] = &p.variables[..] {
                        variables.insert(key.clone(), Abstract::Other);
                    }
                    self.list(then, &item, variables);
                    self.list(otherwise, dot, variables);
                }
                Outline::Template(name, p) => {
                    let value = p.as_ref().map_or(Abstract::Other, |p| self.pipeline(p, dot, variables));
                    self.template(name, value);
                }
            }
        }
    }

    /// The value of a condition.
    fn condition(&mut self, p: &Pipeline, dot: &Abstract, variables: &mut Variables) -> Abstract {
        let outer = std::mem::replace(&mut self.in_condition, true);
        let value = self.pipeline(p, dot, variables);
        self.test(&value);
        self.in_condition = outer;
        value
    }

    fn pipeline(&mut self, p: &Pipeline, dot: &Abstract, variables: &mut Variables) -> Abstract {
        let mut value: Option<Abstract> = None;
        for command in &p.commands {
            value = Some(self.command(command, value, dot, variables));
        }
        let value = self.bounded(value.unwrap_or(Abstract::Other));
        for name in &p.variables {
            // The effective assignment depends on the run.
            let both = match variables.remove(name) {
                Some(old) if old != value => self.bounded(any(vec![old, value.clone()])),
                Some(old) => old,
                None => value.clone(),
            };
            variables.insert(name.clone(), both);
        }
        value
    }

    fn command(
        &mut self,
        command: &[Expr],
        last: Option<Abstract>,
        dot: &Abstract,
        variables: &mut Variables,
    ) -> Abstract {
        let Some((first, rest)) = command.split_first() else { return Abstract::Other };
        let Expr::Function(name) = first else {
            // With arguments this is a method call, such as `.Files.Get`.
            if is_api_version_test(first) {
                self.api_versions.extend(rest.iter().flat_map(texts));
            }
            for arg in rest {
                let value = self.expr(arg, dot, variables);
                self.read(&value);
            }
            last.iter().for_each(|v| self.read(v));
            return self.expr(first, dot, variables);
        };
        let mut args: Vec<(Option<String>, Abstract)> = Vec::with_capacity(rest.len() + 1);
        for arg in rest {
            let text = if let Expr::Text(text) = arg { Some(text.clone()) } else { None };
            args.push((text, self.expr(arg, dot, variables)));
        }
        args.extend(last.map(|value| (None, value)));
        if COMPARISONS.contains(name) {
            let constants: Vec<String> = rest.iter().flat_map(texts).collect();
            args.iter().for_each(|(_, value)| self.compare(value, &constants));
        }
        let result = self.call(name, args);
        if let ("set", Some(Expr::Variable(variable, fields))) = (*name, rest.first())
            && fields.is_empty()
            && matches!(result, Abstract::Dict(_))
        {
            variables.insert(variable.clone(), result.clone());
        }
        result
    }

    fn expr(&mut self, expr: &Expr, dot: &Abstract, variables: &mut Variables) -> Abstract {
        match expr {
            Expr::Dot => dot.clone(),
            Expr::Field(fields) => self.fields(dot.clone(), fields),
            Expr::Variable(name, fields) => {
                let value = variables.get(name).cloned().unwrap_or(Abstract::Other);
                self.fields(value, fields)
            }
            Expr::Chain(inner, fields) => {
                let value = self.expr(inner, dot, variables);
                self.fields(value, fields)
            }
            Expr::Pipeline(p) => self.pipeline(p, dot, variables),
            Expr::Function(name) => self.call(name, Vec::new()),
            Expr::Text(_) | Expr::Constant => Abstract::Other,
        }
    }

    fn fields(&self, value: Abstract, fields: &[String]) -> Abstract {
        fields.iter().fold(value, |value, name| self.field(value, name))
    }

    fn field(&self, value: Abstract, name: &str) -> Abstract {
        match value {
            Abstract::Context(scope) => match name {
                "Values" => Abstract::Value(self.scopes[scope].value_path.clone()),
                "Subcharts" => Abstract::Subcharts(scope),
                _ => Abstract::Other,
            },
            Abstract::Subcharts(scope) => {
                let found = self.scopes[scope].subcharts.iter().find(|s| s.0 == name);
                found.map_or(Abstract::Other, |s| Abstract::Context(s.1))
            }
            Abstract::Value(mut value_path) => {
                // All charts share the globals.
                if name == "global" && self.scopes.iter().any(|s| s.value_path == value_path) {
                    value_path.clear();
                }
                value_path.push(name.to_owned());
                Abstract::Value(value_path)
            }
            Abstract::Dict(mut entries) => entries.remove(name).unwrap_or(Abstract::Other),
            Abstract::Any(values) => any(values.into_iter().map(|v| self.field(v, name)).collect()),
            Abstract::Other => Abstract::Other,
        }
    }

    fn call(&mut self, name: &str, args: Vec<(Option<String>, Abstract)>) -> Abstract {
        let values = |args: Vec<(Option<String>, Abstract)>| any(args.into_iter().map(|a| a.1).collect());
        match name {
            "dict" => {
                let mut entries = BTreeMap::new();
                for pair in args.chunks(2) {
                    match pair {
                        [(Some(key), _), (_, value)] => drop(entries.insert(key.clone(), value.clone())),
                        other => other.iter().for_each(|a| self.read(&a.1)),
                    }
                }
                self.bounded(Abstract::Dict(entries))
            }
            "include" => {
                let mut args = args.into_iter();
                let (name, value) = (args.next(), args.next());
                let value = value.map_or(Abstract::Other, |v| v.1);
                match name {
                    Some((Some(name), _)) => self.template(&name, value),
                    // Any of the templates may be called.
                    _ => {
                        let templates = self.templates;
                        let mut names: Vec<&String> = templates.keys().collect();
                        names.sort();
                        names.into_iter().for_each(|n| self.template(n, value.clone()));
                    }
                }
                Abstract::Other
            }
            // `unread.rs` finds what the text reads of a chart's context; of another value it may read everything.
            "tpl" => {
                for (_, value) in &args {
                    match value {
                        Abstract::Context(_) => {}
                        Abstract::Dict(entries) => {
                            let made = entries.values().filter(|v| !matches!(v, Abstract::Context(_)));
                            made.for_each(|v| self.read(v));
                        }
                        other => self.read(other),
                    }
                }
                Abstract::Other
            }
            "ternary" => {
                args.last().iter().for_each(|condition| self.gate(&condition.1));
                args.iter().for_each(|a| self.test(&a.1));
                values(args)
            }
            "and" | "or" | "default" | "coalesce" | "merge" | "mergeOverwrite" | "mustMerge"
            | "mustMergeOverwrite" | "deepCopy" | "mustDeepCopy" | "required" => {
                args.iter().for_each(|a| self.test(&a.1));
                values(args)
            }
            "set" | "unset" => {
                let mut args = args.into_iter();
                let (map, key, value) = (args.next(), args.next(), args.next());
                let map = map.map_or(Abstract::Other, |m| m.1);
                match (map, key, value) {
                    (Abstract::Dict(mut entries), Some((Some(key), _)), Some((_, value))) => {
                        entries.insert(key, value);
                        self.bounded(Abstract::Dict(entries))
                    }
                    (map, _, value) => {
                        value.iter().for_each(|v| self.read(&v.1));
                        map
                    }
                }
            }
            "not" | "empty" | "kindIs" | "kindOf" | "typeIs" | "typeOf" | "typeIsLike" | "len" => {
                args.iter().for_each(|a| self.test(&a.1));
                Abstract::Other
            }
            "index" | "get" => {
                let mut args = args.into_iter();
                let Some((_, mut value)) = args.next() else { return Abstract::Other };
                for (key, key_value) in args {
                    self.read(&key_value);
                    value = match key {
                        Some(key) => self.field(value, &key),
                        None => element(&value),
                    };
                }
                value
            }
            "hasKey" => {
                if let [(_, map), (Some(key), _)] = &args[..] {
                    let value = self.field(map.clone(), key);
                    self.test(&value);
                } else {
                    args.iter().for_each(|a| self.read(&a.1));
                }
                Abstract::Other
            }
            "dig" => {
                let mut args = args;
                let Some((_, mut value)) = args.pop() else { return Abstract::Other };
                let fallback = args.pop().map_or(Abstract::Other, |f| f.1);
                for (key, _) in args {
                    value = match key {
                        Some(key) => self.field(value, &key),
                        None => element(&value),
                    };
                }
                any(vec![value, fallback])
            }
            "first" | "last" | "values" => element(&values(args)),
            "list" | "tuple" | "append" | "prepend" | "concat" | "mustAppend" | "compact" | "uniq"
            | "reverse" | "pluck" | "keys" | "pick" | "omit" | "fail" => {
                args.iter().for_each(|a| self.read(&a.1));
                Abstract::Other
            }
            _ => {
                args.iter().for_each(|a| self.read(&a.1));
                // A condition that a variable holds.
                if COMPARISONS.contains(&name) || CONVERSIONS.contains(&name) {
                    values(args)
                } else {
                    Abstract::Other
                }
            }
        }
    }

    /// Notes that a value decides what is written.
    fn gate(&mut self, value: &Abstract) {
        match value {
            Abstract::Value(value_path) => drop(self.gates.insert(value_path.clone())),
            Abstract::Any(values) => values.iter().for_each(|v| self.gate(v)),
            _ => {}
        }
    }

    fn compare(&mut self, value: &Abstract, constants: &[String]) {
        match value {
            Abstract::Value(value_path) => {
                self.compared.entry(value_path.clone()).or_default().extend(constants.iter().cloned());
            }
            Abstract::Any(values) => values.iter().for_each(|v| self.compare(v, constants)),
            _ => {}
        }
    }

    /// Returns the value unless it is too large to follow: then marks it as read.
    fn bounded(&mut self, value: Abstract) -> Abstract {
        if size(&value, MAX_SIZE) < MAX_SIZE {
            return value;
        }
        self.read(&value);
        Abstract::Other
    }

    /// Marks a value as read, with all values below it.
    fn read(&mut self, value: &Abstract) {
        if self.in_condition {
            self.gate(value);
        }
        match value {
            Abstract::Value(value_path) => drop(self.whole.insert(value_path.clone())),
            Abstract::Context(scope) => drop(self.whole.insert(self.scopes[*scope].value_path.clone())),
            Abstract::Subcharts(scope) => {
                for (_, sub) in &self.scopes[*scope].subcharts {
                    self.whole.insert(self.scopes[*sub].value_path.clone());
                }
            }
            Abstract::Dict(entries) => entries.values().for_each(|v| self.read(v)),
            Abstract::Any(values) => values.iter().for_each(|v| self.read(v)),
            Abstract::Other => {}
        }
    }

    /// Marks a value as tested for existence.
    fn test(&mut self, value: &Abstract) {
        if self.in_condition {
            self.gate(value);
        }
        match value {
            Abstract::Value(value_path) => drop(self.tested.insert(value_path.clone())),
            Abstract::Any(values) => values.iter().for_each(|v| self.test(v)),
            _ => {}
        }
    }
}

/// Functions that compare a value with constants.
const COMPARISONS: [&str; 6] = ["eq", "ne", "has", "contains", "hasPrefix", "hasSuffix"];
/// Functions that keep what a condition makes of a value.
const CONVERSIONS: [&str; 8] = ["toString", "lower", "upper", "trim", "int", "int64", "quote", "squote"];

/// The constants of an expression: a text, or a list of texts.
fn texts(expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Text(text) => vec![text.clone()],
        Expr::Pipeline(p) => match &p.commands[..] {
            [command] if command.first() == Some(&Expr::Function("list")) => {
                command[1..].iter().flat_map(texts).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Whether it is `.Capabilities.APIVersions.Has`.
fn is_api_version_test(expr: &Expr) -> bool {
    let (Expr::Field(fields) | Expr::Variable(_, fields)) = expr else { return false };
    fields.ends_with(&["Capabilities".to_owned(), "APIVersions".to_owned(), "Has".to_owned()])
}

/// The number of parts of a value, counted up to `most`.
fn size(value: &Abstract, most: usize) -> usize {
    let sum = |values: &mut dyn Iterator<Item = &Abstract>| {
        values.fold(1, |sum, v| if sum >= most { sum } else { sum + size(v, most - sum) })
    };
    match value {
        Abstract::Value(value_path) if value_path.len() > MAX_PATH => most,
        Abstract::Dict(entries) => sum(&mut entries.values()),
        Abstract::Any(values) => sum(&mut values.iter()),
        _ => 1,
    }
}

/// An item of a list or an entry of a map.
fn element(value: &Abstract) -> Abstract {
    match value {
        Abstract::Value(value_path) => {
            let mut value_path = value_path.clone();
            value_path.push("*".to_owned());
            Abstract::Value(value_path)
        }
        Abstract::Dict(entries) => any(entries.values().cloned().collect()),
        Abstract::Any(values) => any(values.iter().map(element).collect()),
        _ => Abstract::Other,
    }
}

/// One of several, without repetitions.
fn any(values: Vec<Abstract>) -> Abstract {
    let mut flat: Vec<Abstract> = Vec::new();
    for value in values {
        let inner = if let Abstract::Any(inner) = value { inner } else { vec![value] };
        for value in inner {
            if value != Abstract::Other && !flat.contains(&value) {
                flat.push(value);
            }
        }
    }
    match flat.len() {
        0 => Abstract::Other,
        1 => flat.remove(0),
        _ => Abstract::Any(flat),
    }
}
