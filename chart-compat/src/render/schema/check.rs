//! Validation of a value against a schema.
//!
//! The order of the checks, and which failures end or replace others, are those of Helm's validator:
//! they determine the messages. Where that validator iterates over maps in random order, the order here is by key.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use super::compile::{Id, Program, Schema};
use super::draft::Draft;
use super::failure::{Failure, Form, Unmet, lines};
use super::instance_location::InstanceLocation;
use super::json::Json;
use super::resources::Resource;
use super::{meta, show, uri};

/// The path to a value within the whole document.
#[derive(Clone, Copy)]
pub(super) enum Path<'p> {
    Root,
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl Path<'_> {
    pub(super) fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Key(parent, key) => uri::append(&parent.pointer(), key),
            Self::Index(parent, index) => uri::append_index(&parent.pointer(), *index),
        }
    }
}

/// The schemas around the current one, innermost first.
struct Scope<'s> {
    schema: Id,
    /// The keyword of the reference to this schema, if any.
    keyword: &'static str,
    /// The depth of the value: schemas of one value have the same.
    depth: usize,
    /// How many schemas are around it.
    nesting: usize,
    /// How many of them are for the same value.
    of_value: usize,
    outer: Option<&'s Scope<'s>>,
}

/// The unevaluated parts of a map or list, for `unevaluatedProperties` and `unevaluatedItems`.
#[derive(Debug, Default)]
pub(super) struct Open<'v> {
    pub(super) keys: BTreeSet<&'v str>,
    pub(super) items: BTreeSet<usize>,
}

impl Open<'_> {
    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.items.is_empty()
    }

    /// Keeps what is unevaluated in both.
    fn merge(&mut self, other: &Self) {
        self.keys.retain(|k| other.keys.contains(k));
        self.items.retain(|i| other.items.contains(i));
    }
}

/// The parameters common to all of a check.
#[derive(Clone, Copy)]
pub(super) struct Checker<'s> {
    program: &'s Program,
    /// When a schema is checked against its metaschema: its parts that may be of another draft, by pointer.
    resources: Option<&'s BTreeMap<String, Resource>>,
    work: &'s Work<'s>,
}

/// The maximal number of schemas applied in one check: two schemas with double references to each other take exponential time.
const MAX_STEPS: u32 = 2_000_000;
/// What an error shows of a pattern, in characters.
const SHOWN_PATTERN: usize = 100;
/// The maximal number of schemas within each other. Failures nest as deep, and a chain of references takes the square of its length.
const MAX_NESTING: usize = 2_500;

/// Values of an `enum` that are compared in a step.
const COMPARED: usize = 16;
/// Bytes of a text that is matched or told in a step.
const BYTES_OF_A_STEP: usize = 64;
/// Steps between two questions whether to stop.
const BETWEEN_STOPS: u32 = 256;

/// Why a caller wants a check to stop, if it does.
pub(super) type Stopped<'s> = dyn Fn() -> Option<String> + 's;

/// What a check may still do.
struct Work<'s> {
    /// How many more schemas may be applied.
    steps: Cell<u32>,
    /// Steps to the next question whether to stop.
    unasked: Cell<u32>,
    stopped: &'s Stopped<'s>,
    /// Why the check stopped.
    why: RefCell<Option<String>>,
    /// Whether schemas nest too deep.
    too_deep: Cell<bool>,
}

impl<'s> Work<'s> {
    fn new(steps: u32, stopped: &'s Stopped<'s>) -> Self {
        Self {
            steps: Cell::new(steps),
            unasked: Cell::new(0),
            stopped,
            why: RefCell::default(),
            too_deep: Cell::new(false),
        }
    }

    /// Takes the steps to a schema, which include the search for a cycle; `false` if there are none left.
    fn step(&self, scope: &Scope<'_>, value: &Json) -> bool {
        if scope.nesting > MAX_NESTING {
            self.too_deep.set(true);
            self.steps.set(0);
        }
        let matched = value.as_str().map_or(0, |text| text.len() / BYTES_OF_A_STEP);
        self.spend(1 + scope.of_value / 16 + matched)
    }

    /// Takes steps; `false` if there are none left.
    fn spend(&self, steps: usize) -> bool {
        let (left, steps) = (self.steps.get(), u32::try_from(steps).unwrap_or(u32::MAX));
        self.steps.set(left.saturating_sub(steps));
        match self.unasked.get().checked_sub(steps) {
            Some(unasked) => self.unasked.set(unasked),
            None => {
                self.unasked.set(BETWEEN_STOPS);
                if let Some(why) = (self.stopped)() {
                    self.why.replace(Some(why));
                    self.steps.set(0);
                    return false;
                }
            }
        }
        left > 0
    }

    /// Ends the check: a pattern is too large for a text of so many bytes.
    fn exceed(&self, pattern: &str, length: usize) {
        let pattern: String = pattern.chars().take(SHOWN_PATTERN).collect();
        self.why.replace(Some(format!(
            "the pattern {pattern:?} is too large for a value of {length} bytes: repeat less in it"
        )));
        self.steps.set(0);
    }

    /// Why the result does not count.
    fn exceeded(&self) -> Option<String> {
        if self.too_deep.get() {
            return Some(format!(
                "a schema applies more than {MAX_NESTING} others within each other: simplify it\n"
            ));
        }
        if let Some(why) = &*self.why.borrow() {
            return Some(format!("render stopped: {why}\n"));
        }
        let exceeded = self.steps.get() == 0;
        exceeded
            .then(|| format!("the values need more than {MAX_STEPS} steps to check: simplify the schema\n"))
    }
}

/// A value that is checked against one schema.
pub(super) struct Run<'r, 'v> {
    pub(super) checker: Checker<'r>,
    pub(super) schema: &'r Schema,
    scope: &'r Scope<'r>,
    pub(super) value: &'v Json,
    path: &'r Path<'r>,
    way: &'r InstanceLocation,
    /// The turn in which the entries of this value are checked.
    turn: u32,
    /// Whether the caller ignores the failures.
    pub(super) quiet: bool,
    /// The effective metaschema.
    metaschema: Option<Id>,
    pub(super) open: Open<'v>,
    pub(super) failures: Vec<Failure>,
}

/// Validates a value; the error lists its violations.
pub(super) fn value(program: &Program, value: &Json, stopped: &Stopped<'_>) -> Result<(), Unmet> {
    let work = Work::new(MAX_STEPS, stopped);
    let checker = Checker { program, resources: None, work: &work };
    let result = checker.whole(0, value, None, &Path::Root, false);
    if let Some(text) = work.exceeded() {
        return Err(text.into());
    }
    result.map_err(|causes| Unmet::of(&causes))
}

/// Checks the form of a schema; the error also names the metaschema.
pub(super) fn form(
    schema: &Json,
    draft: Draft,
    resources: &BTreeMap<String, Resource>,
) -> Result<(), String> {
    let (program, roots) = meta::program();
    let root = roots[draft as usize];
    // A metaschema needs a number of steps proportional to the schema's size.
    let work = Work::new(u32::MAX, &|| None);
    let checker = Checker { program, resources: Some(resources), work: &work };
    let result = checker.whole(root, schema, Some(root), &Path::Root, false);
    if let Some(text) = work.exceeded() {
        return Err(text);
    }
    result.map_err(|causes| {
        let location = show::quote(&program.schemas[root].location);
        let lines = lines(&causes);
        format!("jsonschema validation failed with {location}\n{}", lines.trim_end_matches('\n'))
    })
}

impl<'s> Checker<'s> {
    /// Validates a value as a document root.
    fn whole(
        self,
        schema: Id,
        value: &Json,
        metaschema: Option<Id>,
        path: &Path<'_>,
        quiet: bool,
    ) -> Result<(), Vec<Failure>> {
        let scope = Scope { schema, keyword: "", depth: 0, nesting: 0, of_value: 0, outer: None };
        let way = InstanceLocation::new();
        let place = Place { scope: &scope, path, way: &way, quiet, metaschema };
        self.run(place, value, false).map(|_| ()).map_err(|failure| {
            let mut causes = failure.into_causes();
            way.settle(&mut causes);
            causes
        })
    }

    /// Validates a value against a schema; returns its unevaluated parts.
    fn run<'v>(self, place: Place<'_>, value: &'v Json, needed: bool) -> Result<Open<'v>, Failure> {
        let Place { scope, path, way, quiet, metaschema } = place;
        if !self.work.step(scope, value) {
            return Err(Failure::default());
        }
        let schema = &self.program.schemas[scope.schema];
        let open = schema.open(value, needed);
        let run = Run {
            checker: self,
            schema,
            scope,
            value,
            path,
            way,
            turn: way.turn(),
            quiet,
            metaschema,
            open,
            failures: Vec::new(),
        };
        stacker::maybe_grow(64 << 10, 1 << 20, || run.finish())
    }

    /// The effective metaschema of a part of a schema: its own draft's if it is a schema with an id and the general one applies.
    /// to be applied.
    fn in_force(self, schema: Id, path: &Path<'_>, metaschema: Option<Id>) -> (Id, Option<Id>) {
        if metaschema == Some(schema)
            && let Some(resources) = self.resources
            && resources.len() > 1
            && let Some(resource) = resources.get(&path.pointer())
        {
            let (_, roots) = meta::program();
            let own = roots[resource.draft as usize];
            return (own, Some(own));
        }
        (schema, metaschema)
    }
}

/// The position of a check.
#[derive(Clone, Copy)]
struct Place<'p> {
    scope: &'p Scope<'p>,
    path: &'p Path<'p>,
    way: &'p InstanceLocation,
    quiet: bool,
    metaschema: Option<Id>,
}

impl Schema {
    /// The parts of a value that this schema has not evaluated.
    fn open<'v>(&self, value: &'v Json, needed: bool) -> Open<'v> {
        let mut open = Open::default();
        match value {
            Json::Map(m)
                if self.additional_properties.is_none()
                    && (needed || self.unevaluated_properties.is_some()) =>
            {
                open.keys = m.keys().map(String::as_str).collect();
            }
            Json::List(l) if needed || self.unevaluated_items.is_some() => {
                open.items = (self.spoken_items(l.len())..l.len()).collect();
            }
            _ => {}
        }
        open
    }
}

impl<'r, 'v> Run<'r, 'v> {
    fn finish(mut self) -> Result<Open<'v>, Failure> {
        if let Some(always) = self.schema.always {
            return if always { Ok(self.open) } else { Err(self.failure(|| "false schema".to_owned())) };
        }
        if let Some(earlier) = self.scope.cycle() {
            let place = crate::go::strconv::quote(self.schema.location.as_bytes());
            let (a, b) = (self.keywords(self.scope), self.keywords(earlier));
            return Err(
                self.failure(|| format!("both {a} and {b} resolve to {place} causing reference cycle"))
            );
        }
        if let Some(text) = self.kind() {
            return Err(self.failure(|| text));
        }
        if let Some(target) = self.schema.reference {
            let result = self.reference(target, "$ref");
            if self.schema.draft.ref_stands_alone() {
                return result.map(|()| self.open);
            }
            self.failures.extend(result.err());
        }
        match self.value {
            Json::Map(m) => self.object(m),
            Json::List(l) => self.array(l),
            Json::String(s) => self.string(s),
            Json::Number(n) => self.number(n),
            Json::Null | Json::Bool(_) => {}
        }
        if self.failures.is_empty() || !self.quiet {
            if self.schema.draft >= Draft::D2019 {
                self.late_references();
            }
            self.combinations();
            if self.schema.draft >= Draft::D2019 {
                self.unevaluated();
            }
        }
        let path = self.path;
        match Failure::join(self.failures, || path.pointer()) {
            None => Ok(self.open),
            Some(failure) => Err(failure),
        }
    }

    /// The checks whose failure ends validation: type, const, enum, format.
    fn kind(&self) -> Option<String> {
        let s = self.schema;
        if !s.types.is_empty() && !s.types.accept(self.value) {
            return Some(format!("got {}, want {}", self.value.types().names(), s.types.names()));
        }
        if let Some(constant) = &s.constant
            && !self.value.same(constant)
        {
            return Some(match constant {
                Json::List(_) | Json::Map(_) => "'const' failed".to_owned(),
                other => format!("value must be {}", show::value(other)),
            });
        }
        if let Some(values) = &s.enumeration
            && self.checker.work.spend(values.len() / COMPARED)
            && !values.iter().any(|v| self.value.same(v))
        {
            return Some(if values.iter().any(|v| matches!(v, Json::List(_) | Json::Map(_))) {
                "'enum' failed".to_owned()
            } else {
                let shown: Vec<String> = values.iter().map(show::value).collect();
                match &shown[..] {
                    [one] => format!("value must be {one}"),
                    all => format!("value must be one of {}", all.join(", ")),
                }
            });
        }
        if let (Some(format), Json::String(text)) = (&s.format, self.value)
            && let Err(why) = format.check(text)
        {
            return Some(format!("{} is not valid {}: {why}", show::quote(text), format.name()));
        }
        None
    }

    /// Ends the check: a pattern is too large for a text of so many bytes.
    pub(super) fn exceed(&self, pattern: &str, length: usize) {
        self.checker.work.exceed(pattern, length);
    }

    /// A failure of this value; formats the text only if the caller needs it.
    pub(super) fn failure(&self, text: impl FnOnce() -> String) -> Failure {
        if self.quiet {
            return Failure::default();
        }
        let text = text();
        // Many values may break one long rule.
        self.checker.work.spend(text.len() / BYTES_OF_A_STEP);
        Failure { at: self.path.pointer(), text, ..Failure::default() }
    }

    pub(super) fn fail(&mut self, text: impl FnOnce() -> String) {
        let failure = self.failure(text);
        self.failures.push(failure);
    }

    pub(super) fn fail_because(&mut self, causes: Vec<Failure>, text: impl FnOnce() -> String) {
        let failure = Failure { causes, ..self.failure(text) };
        self.failures.push(failure);
    }

    /// Validates this value against another schema as well, and takes over its evaluated parts.
    fn also(&mut self, schema: Id, keyword: &'static str, quiet: bool) -> Result<(), Failure> {
        let (schema, metaschema) = self.checker.in_force(schema, self.path, self.metaschema);
        let scope = self.scope.within(schema, keyword, self.scope.depth);
        let place =
            Place { scope: &scope, path: self.path, way: self.way, quiet: self.quiet || quiet, metaschema };
        let open = self.checker.run(place, self.value, !self.open.is_empty())?;
        self.open.merge(&open);
        Ok(())
    }

    /// Like [`Run::also`], and records the failure as this schema's, too.
    pub(super) fn require(&mut self, schema: Id) {
        if let Err(failure) = self.also(schema, "", false) {
            self.failures.push(failure);
        }
    }

    /// Validates a part of this value.
    fn part(&self, schema: Id, value: &Json, path: &Path<'_>) -> Result<(), Failure> {
        let (schema, metaschema) = self.checker.in_force(schema, path, self.metaschema);
        let scope = self.scope.within(schema, "", self.scope.depth + 1);
        let grown = self.way.grown(self.scope.depth);
        let way = grown.as_ref().unwrap_or(self.way);
        let place = Place { scope: &scope, path, way, quiet: self.quiet, metaschema };
        let result = self.checker.run(place, value, false).map(|_| ());
        result.map_err(|mut failure| {
            if let Some(own) = &grown {
                own.settle(std::slice::from_mut(&mut failure));
            }
            failure
        })
    }

    pub(super) fn entry(&mut self, schema: Id, key: &str, value: &Json) {
        self.way.write(self.scope.depth, key, self.turn);
        let result = self.part(schema, value, &Path::Key(self.path, key));
        self.failures.extend(result.err());
    }

    pub(super) fn item(&mut self, schema: Id, index: usize, value: &Json) {
        self.failures.extend(self.item_result(schema, index, value).err());
    }

    pub(super) fn item_result(&self, schema: Id, index: usize, value: &Json) -> Result<(), Failure> {
        self.way.write(self.scope.depth, &index.to_string(), self.way.turn());
        self.part(schema, value, &Path::Index(self.path, index))
    }

    /// Validates a key as a value.
    pub(super) fn key(&mut self, schema: Id, key: &str) {
        let (schema, metaschema) = self.checker.in_force(schema, self.path, self.metaschema);
        let key_value = Json::String(key.to_owned());
        if let Err(causes) = self.checker.whole(schema, &key_value, metaschema, &Path::Root, self.quiet) {
            let failure = self.failure(|| format!("invalid propertyName {}", show::quote(key)));
            let properties = vec![key.to_owned()];
            self.failures.push(Failure { form: Form::Name, causes, properties, ..failure });
        }
    }

    fn reference(&mut self, target: Id, keyword: &'static str) -> Result<(), Failure> {
        self.also(target, keyword, false).map_err(|failure| Failure {
            form: Form::Reference,
            causes: failure.into_causes(),
            ..self.failure(|| "validation failed".to_owned())
        })
    }

    fn late_references(&mut self) {
        let schemas = &self.checker.program.schemas;
        if let Some(mut target) = self.schema.recursive_reference {
            if schemas[target].recursive_anchor {
                // The outermost schema whose resource allows it.
                for scope in self.scope.outward() {
                    if schemas[schemas[scope.schema].resource].recursive_anchor {
                        target = scope.schema;
                    }
                }
            }
            let result = self.reference(target, "$recursiveRef");
            self.failures.extend(result.err());
        }
        if let Some((first, anchor)) = &self.schema.dynamic_reference {
            let mut target = *first;
            if let Some(name) = anchor.as_ref().filter(|a| schemas[target].dynamic_anchor.as_ref() == Some(a))
            {
                for scope in self.scope.outward() {
                    if let Some(id) = schemas[schemas[scope.schema].resource].dynamic_anchors.get(name) {
                        target = *id;
                    }
                }
            }
            let result = self.reference(target, "$dynamicRef");
            self.failures.extend(result.err());
        }
    }

    /// not, allOf, anyOf, oneOf, if.
    fn combinations(&mut self) {
        let s = self.schema;
        if let Some(not) = s.not
            && self.also(not, "", true).is_ok()
        {
            self.fail(|| "'not' failed".to_owned());
        }
        let mut causes = Vec::new();
        for schema in &s.all_of {
            if let Err(failure) = self.also(*schema, "", false) {
                causes.push(failure);
                if self.quiet {
                    break;
                }
            }
        }
        if !causes.is_empty() {
            self.fail_because(causes, || "'allOf' failed".to_owned());
        }
        self.any_of();
        self.one_of();
        if let Some(condition) = s.condition {
            let branch = if self.also(condition, "", true).is_ok() { s.then } else { s.otherwise };
            if let Some(branch) = branch {
                self.require(branch);
            }
        }
    }

    fn any_of(&mut self) {
        let mut causes = Vec::new();
        let mut matched = self.schema.any_of.is_empty();
        for schema in &self.schema.any_of {
            match self.also(*schema, "", false) {
                Err(failure) => causes.push(failure),
                Ok(()) => {
                    matched = true;
                    // While parts are unevaluated, each schema may evaluate them.
                    if self.open.is_empty() {
                        break;
                    }
                }
            }
        }
        if !matched {
            self.fail_because(causes, || "'anyOf' failed".to_owned());
        }
    }

    fn one_of(&mut self) {
        let mut causes = Vec::new();
        let mut matched = None;
        for (i, schema) in self.schema.one_of.iter().enumerate() {
            match (self.also(*schema, "", matched.is_some()), matched) {
                (Err(failure), None) => causes.push(failure),
                (Err(_), Some(_)) => {}
                (Ok(()), None) => matched = Some(i),
                (Ok(()), Some(first)) => {
                    let (first, second) = (show::length(first), show::length(i));
                    self.fail(|| format!("'oneOf' failed, subschemas {first}, {second} matched"));
                    break;
                }
            }
        }
        if matched.is_none() && !self.schema.one_of.is_empty() {
            self.fail_because(causes, || "'oneOf' failed, none matched".to_owned());
        }
    }

    fn unevaluated(&mut self) {
        if let (Json::Map(map), Some(schema)) = (self.value, self.schema.unevaluated_properties) {
            self.turn = self.way.turn();
            for key in std::mem::take(&mut self.open.keys) {
                if let Some(value) = map.get(key) {
                    self.entry(schema, key, value);
                }
            }
        }
        if let (Json::List(list), Some(schema)) = (self.value, self.schema.unevaluated_items) {
            for index in std::mem::take(&mut self.open.items) {
                self.item(schema, index, &list[index]);
            }
        }
    }

    /// The keywords from the root to a schema, as a pointer.
    fn keywords(&self, scope: &Scope<'_>) -> String {
        let schemas = &self.checker.program.schemas;
        let mut out = String::new();
        let mut at = scope;
        while let Some(outer) = at.outer {
            let step = if at.keyword.is_empty() {
                let (own, from) = (&schemas[at.schema].location, &schemas[outer.schema].location);
                own.get(from.len()..).unwrap_or_default().to_owned()
            } else {
                format!("/{}", uri::escape(at.keyword))
            };
            out.insert_str(0, &step);
            at = outer;
        }
        out
    }
}

impl<'s> Scope<'s> {
    /// The scope of a schema that this one applies.
    fn within(&'s self, schema: Id, keyword: &'static str, depth: usize) -> Self {
        let of_value = if depth == self.depth { self.of_value + 1 } else { 0 };
        Self { schema, keyword, depth, nesting: self.nesting + 1, of_value, outer: Some(self) }
    }

    /// This scope and those around it.
    fn outward(&'s self) -> impl Iterator<Item = &'s Scope<'s>> {
        std::iter::successors(Some(self), |s| s.outer)
    }

    /// An earlier scope with the same schema for the same value: validation would never end.
    fn cycle(&'s self) -> Option<&'s Scope<'s>> {
        self.outward().skip(1).take_while(|s| s.depth == self.depth).find(|s| s.schema == self.schema)
    }
}
