//! Template execution: the walk over the nodes (`text/template/exec.go`).

use std::sync::Arc;

use rustc_hash::FxHashMap;
use typed_arena::Arena as Store;

use super::ast::{Arg, Control, Node, Pipe, Template, write_command};
use super::diagnostic::Diagnostic;
use super::error::{Error, Frame, Source};
use super::func::Funcs;
use super::limits::Limits;
use super::set::Set;
use super::site::Site;
use crate::go::regexp::{self, Regexp};
use crate::go::{Arena, Elem, Object, Value, fmt};
use crate::world::World;

/// The maximal number of cached regular expressions. The search caches of each take up to 8 MiB.
const MAX_REGEXPS: usize = 64;

/// The cache of regular expressions is emptied before an insertion when they take more memory than this, in bytes.
const MAX_REGEXP_MEMORY: usize = 64 << 20;

/// The maximal number of output buffers kept for reuse.
const SPARE: usize = 16;

/// The node at which an error is reported.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Node(&'a Node),
    Pipe(&'a Pipe),
    Arg(&'a Arg),
    Command(&'a [Arg]),
}

/// How a walk ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Done,
    Break,
    Continue,
}

/// One render in progress: the state that template functions receive.
pub struct Exec<'a> {
    /// The allocator of values, which live until the render ends.
    pub arena: &'a Arena,
    /// The functions.
    pub funcs: &'a Funcs,
    /// The number of active `include` calls for each template.
    pub including: FxHashMap<&'a [u8], usize>,
    /// The data of the running task; error messages report paths in it.
    pub root: Value<'a>,
    /// Whether a missing key of a map is an error (`missingkey=error`); charts read it as nil.
    pub missing_key_is_error: bool,
    /// Diagnostics of a lenient render; `None` in a normal one.
    pub diagnostics: Option<Vec<Diagnostic>>,
    /// Compiled regular expressions, by pattern.
    regexps: FxHashMap<&'a [u8], Result<Arc<Regexp>, String>>,
    /// Templates that `tpl` parsed, by text.
    pub parsed: FxHashMap<&'a [u8], &'a [Template]>,
    pub(super) world: &'a dyn World,
    store: &'a Store<Vec<Template>>,
    set: Set<'a>,
    pub(super) limits: Limits,
    pub(super) steps: u64,
    /// The number of steps at which `World::stopped` is checked next.
    pub(super) next_stop: u64,
    /// Output bytes of finished templates.
    pub(super) given: usize,
    /// Output bytes of the templates that enclose the running one.
    pub(super) outer: usize,
    /// Estimated bytes of the templates that `tpl` parsed.
    pub(super) syntax: usize,
    depth: usize,
    pub(super) vars: Vec<Value<'a>>,
    pub(super) base: usize,
    /// The active loops, each with whether its items have the static type of their slot, `interface {}`, instead of their own.
    pub(super) loops: Vec<(&'a Control, bool)>,
    /// Indexes in `vars` of the variables that hold such items.
    pub(super) loose: Vec<usize>,
    pub(super) at: At<'a>,
    pub(super) template: &'a Template,
    pub(super) site: Site<'a>,
    pub(super) out: Vec<u8>,
    /// Output buffers of finished executions, for reuse.
    spare: Vec<Vec<u8>>,
}

/// The most bytes of a name or an expression in an error. Each level of `include` repeats both.
const MAX_SHOWN: usize = 2 << 10;

fn shortened(mut text: String) -> String {
    if text.len() > MAX_SHOWN {
        text.truncate(text.floor_char_boundary(MAX_SHOWN));
        text.push_str("...");
    }
    text
}

/// Whether the items of a loop have the static type `interface {}`. Those of typed lists and maps do not.
fn hands_out_slots(value: Value<'_>) -> bool {
    match value {
        Value::List(list) => list.elem == Elem::Any,
        Value::Map(map) => !map.holds_strings(),
        _ => false,
    }
}

/// Item `at` of a loop that counts to `end`, with the type of `end`; `None` after the last one.
fn counted<'a>(arena: &'a Arena, end: Value<'a>, at: u64) -> Option<Value<'a>> {
    let signed = |end: i64| i64::try_from(at).ok().filter(|at| *at < end);
    match end {
        Value::Int(end) => signed(end).map(Value::Int),
        Value::Int64(end) => signed(end).map(Value::Int64),
        Value::Uint64(end) => (at < end).then_some(Value::Uint64(at)),
        Value::Object(Object::Duration(end)) => {
            signed(*end).map(|at| Value::object(arena, Object::Duration(at)))
        }
        _ => None,
    }
}

impl<'a> Exec<'a> {
    /// A render over `set`. Until a template runs, error positions refer to `first`.
    #[must_use]
    pub fn new(
        arena: &'a Arena,
        store: &'a Store<Vec<Template>>,
        set: Set<'a>,
        funcs: &'a Funcs,
        world: &'a dyn World,
        limits: Limits,
    ) -> Option<Self> {
        static IDLE: Node = Node::Break(0);
        let idle = store.alloc(vec![Template {
            name: "".into(),
            file: "".into(),
            text: bytes::Bytes::new(),
            root: std::sync::Arc::default(),
            slots: 1,
            blank: true,
            whole: false,
        }]);
        Some(Self {
            arena,
            world,
            funcs,
            including: FxHashMap::default(),
            root: Value::Nil,
            missing_key_is_error: false,
            diagnostics: None,
            regexps: FxHashMap::default(),
            parsed: FxHashMap::default(),
            store,
            set,
            loops: Vec::new(),
            loose: Vec::new(),
            limits,
            steps: 0,
            next_stop: 0,
            given: 0,
            outer: 0,
            syntax: 0,
            depth: 0,
            vars: Vec::new(),
            base: 0,
            at: At::Node(&IDLE),
            template: idle.first()?,
            site: Site::default(),
            out: Vec::new(),
            spare: Vec::new(),
        })
    }

    /// The environment of the render: clock, randomness, cluster lookups.
    #[must_use]
    pub fn world(&self) -> &'a dyn World {
        self.world
    }

    /// A compiled regular expression, from the cache if possible.
    ///
    /// # Errors
    /// Go's error text.
    pub fn regexp(&mut self, pattern: &'a [u8]) -> Result<Arc<Regexp>, String> {
        if let Some(known) = self.regexps.get(pattern) {
            return known.clone();
        }
        let memory: usize = self.regexps.values().flatten().map(|regexp| regexp.memory()).sum();
        if self.regexps.len() >= MAX_REGEXPS || memory > MAX_REGEXP_MEMORY {
            self.regexps.clear();
        }
        let compiled = regexp::compile(pattern);
        self.regexps.insert(pattern, compiled.clone());
        compiled
    }

    /// The templates that names currently resolve to.
    #[must_use]
    pub fn set(&self) -> Set<'a> {
        self.set
    }

    /// Executes the template named `name` on `dot` and returns its output (`ExecuteTemplate`).
    ///
    /// # Errors
    /// `template: no template "x" associated with template "gotpl"`, or the error of the execution.
    pub fn execute(&mut self, name: &str, dot: Value<'a>) -> Result<Vec<u8>, Error> {
        let template = self.find(name.as_bytes())?;
        let text = self.run(template, dot)?;
        self.given += text.len();
        Ok(text)
    }

    /// Like [`Exec::execute`], but the output is copied into the arena.
    ///
    /// # Errors
    /// Like [`Exec::execute`].
    pub fn include(&mut self, name: &[u8], dot: Value<'a>) -> Result<Value<'a>, Error> {
        let template = self.find(name)?;
        let text = self.run(template, dot)?;
        Ok(self.keep(text))
    }

    fn find(&self, name: &[u8]) -> Result<&'a Template, Error> {
        // No template has a name that is not UTF-8.
        let found = std::str::from_utf8(name).ok().and_then(|n| self.set.get(n));
        found.ok_or_else(|| {
            let quoted = crate::go::strconv::quote(name);
            Error::new(format!("template: no template {quoted} associated with template \"gotpl\""))
        })
    }

    /// Parses `text` under `name` and caches the result by text until the render ends.
    ///
    /// # Errors
    /// Go's parse error.
    pub fn parse(&mut self, name: &str, text: &'a [u8]) -> Result<&'a [Template], Error> {
        if let Some(t) = self.parsed.get(text) {
            return Ok(t);
        }
        self.reserve_syntax(text)?;
        let templates: &'a [Template] =
            self.store.alloc(super::parse(name, &bytes::Bytes::copy_from_slice(text), self.funcs)?);
        self.parsed.insert(text, templates);
        Ok(templates)
    }

    /// Executes `template` with the templates of `set`, as a clone of Go's template set would.
    ///
    /// # Errors
    /// The error of the execution.
    pub fn execute_in(
        &mut self,
        set: Set<'a>,
        template: &'a Template,
        dot: Value<'a>,
    ) -> Result<Vec<u8>, Error> {
        let outer = std::mem::replace(&mut self.set, set);
        let result = self.run(template, dot);
        self.set = outer;
        result
    }

    /// Copies an output into the arena and keeps its buffer for reuse.
    pub fn keep(&mut self, mut output: Vec<u8>) -> Value<'a> {
        let value = Value::str(self.arena, &output);
        if self.spare.len() < SPARE {
            output.clear();
            self.spare.push(output);
        }
        value
    }

    /// Executes a template with a new output buffer (`Template.Execute`).
    fn run(&mut self, template: &'a Template, dot: Value<'a>) -> Result<Vec<u8>, Error> {
        let outer = std::mem::replace(&mut self.out, self.spare.pop().unwrap_or_default());
        self.outer += outer.len();
        let depth = std::mem::take(&mut self.depth);
        let result = stacker::maybe_grow(256 * 1024, 8 * 1024 * 1024, || self.call(template, dot));
        self.depth = depth;
        self.outer -= outer.len();
        let out = std::mem::replace(&mut self.out, outer);
        result.map(|()| out)
    }

    /// Walks a template with new variables, then restores the caller's position and variables.
    fn call(&mut self, template: &'a Template, dot: Value<'a>) -> Result<(), Error> {
        let (base, at, caller) = (self.base, self.at, self.template);
        let site = self.site.enter(template, dot);
        self.base = self.vars.len();
        self.vars.resize(self.base + template.slots, Value::Nil);
        self.vars[self.base] = dot;
        self.template = template;
        let result = self.list(&template.root, dot);
        self.vars.truncate(self.base);
        self.loose.retain(|place| *place < self.base);
        self.base = base;
        self.at = at;
        self.template = caller;
        self.site.leave(site);
        result.map(|_| ())
    }

    /// An execution error at the current position.
    pub(super) fn error(&self, message: &str) -> Error {
        Error::exec(self.frame(), message, None)
    }

    /// An execution error at the current position that wraps the error of a function.
    pub(super) fn error_from(&self, message: &str, source: Error) -> Error {
        Error::exec(self.frame(), message, Some(source))
    }

    pub(super) fn frame(&self) -> Frame {
        self.frame_at(self.at)
    }

    pub(super) fn frame_at(&self, at: At<'a>) -> Frame {
        let mut node = String::new();
        let text = &self.template.text;
        let pos = match at {
            At::Node(n) => {
                n.write(&mut node, text);
                n.pos()
            }
            At::Pipe(p) => {
                p.write(&mut node, text);
                p.pos
            }
            At::Command(c) => {
                write_command(c, &mut node, text);
                c.first().map_or(0, |a| a.pos)
            }
            At::Arg(a) => {
                a.write(&mut node, text);
                a.pos
            }
        };
        let (line, column) = self.template.position(pos);
        Frame {
            file: self.template.file.to_string(),
            line,
            column,
            template: shortened(self.template.name.to_string()),
            node: shortened(node),
            source: Source(self.template.text.clone()),
            message: String::new(),
            used: Vec::new(),
            traced: false,
        }
    }

    pub(super) fn template_here(&self) -> &'a Template {
        self.template
    }

    fn list(&mut self, list: &'a [Node], dot: Value<'a>) -> Result<Flow, Error> {
        for node in list {
            match self.walk(node, dot) {
                Ok(Flow::Done) => {}
                Ok(flow) => return Ok(flow),
                Err(e) => return Err(self.trace_error(e, node, dot)),
            }
        }
        Ok(Flow::Done)
    }

    fn walk(&mut self, node: &'a Node, dot: Value<'a>) -> Result<Flow, Error> {
        match node {
            Node::Text(t) => {
                let text = t.of(&self.template.text);
                self.out.extend_from_slice(text);
                self.check_text(text.len())?;
            }
            Node::Action(pipe) => {
                self.step()?;
                self.at = At::Node(node);
                let value = self.pipeline(dot, pipe)?;
                if pipe.decl().is_empty() {
                    self.at = At::Node(node);
                    self.print(value)?;
                }
            }
            Node::If(c) => {
                self.step()?;
                let value = self.pipeline(dot, &c.pipe)?;
                return self.branch(c, value.truth(), dot, dot);
            }
            Node::With(c) => {
                self.step()?;
                let value = self.pipeline(dot, &c.pipe)?;
                return self.branch(c, value.truth(), value, dot);
            }
            Node::Range(c) => {
                self.at = At::Node(node);
                return self.range(c, dot);
            }
            Node::Template(c) => {
                self.at = At::Node(node);
                self.step()?;
                self.template(&c.name, c.pipe.as_ref(), dot)?;
            }
            Node::Break(_) => return Ok(Flow::Break),
            Node::Continue(_) => return Ok(Flow::Continue),
        }
        Ok(Flow::Done)
    }

    fn branch(
        &mut self,
        c: &'a Control,
        truth: bool,
        inner: Value<'a>,
        dot: Value<'a>,
    ) -> Result<Flow, Error> {
        match (&c.otherwise, truth) {
            (_, true) => self.list(&c.list, inner),
            (Some(list), false) => self.list(list, dot),
            (None, false) => Ok(Flow::Done),
        }
    }

    fn print(&mut self, value: Value<'a>) -> Result<(), Error> {
        if matches!(value, Value::List(_) | Value::Map(_)) {
            let reserved = self.weigh(&[value]).and_then(|bytes| self.reserve(bytes));
            reserved.map_err(|e| self.error(&e.to_string()))?;
        }
        let before = self.out.len();
        if self.diagnostics.is_some() {
            self.report_print(value);
        }
        if value.is_nil() {
            self.out.extend_from_slice(b"<no value>");
        } else {
            fmt::print(&mut self.out, value);
        }
        self.check_text(self.out.len() - before)
    }

    fn template(&mut self, name: &str, pipe: Option<&'a Pipe>, dot: Value<'a>) -> Result<(), Error> {
        let Some(template) = self.set.get(name) else {
            let quoted = crate::go::strconv::quote(name.as_bytes());
            return Err(self.error(&format!("template {quoted} not defined")));
        };
        if self.depth >= self.limits.depth {
            return Err(self.error(&format!("exceeded maximum template depth ({})", self.limits.depth)));
        }
        let dot = match pipe {
            Some(p) => self.pipeline(dot, p)?,
            None => Value::Nil,
        };
        self.depth += 1;
        let result = stacker::maybe_grow(256 * 1024, 8 * 1024 * 1024, || self.call(template, dot));
        self.depth -= 1;
        result
    }

    fn range(&mut self, c: &'a Control, dot: Value<'a>) -> Result<Flow, Error> {
        let value = self.pipeline(dot, &c.pipe)?;
        let loose = hands_out_slots(value);
        self.loops.push((c, loose));
        let ran = self.turns(c, value, loose);
        self.loops.pop();
        let ran = ran?;
        match &c.otherwise {
            // A break in `else` ends this range, although the parser assigns it to an outer one.
            Some(list) if !ran => Ok(match self.list(list, dot)? {
                Flow::Break => Flow::Done,
                flow => flow,
            }),
            _ => Ok(Flow::Done),
        }
    }

    /// Runs a loop's body for each item of a value. `loose`: the items have the type of their slot. Returns whether there was an
    /// item.
    fn turns(&mut self, c: &'a Control, value: Value<'a>, loose: bool) -> Result<bool, Error> {
        let mut ran = false;
        let level = self.site.begin_loop();
        let mut each = |exec: &mut Self, key: Value<'a>, item: Value<'a>| -> Result<bool, Error> {
            ran = true;
            exec.step()?;
            exec.site.turn(level, key, item);
            exec.bind(&c.pipe, key, item, loose)?;
            Ok(exec.list(&c.list, item)? != Flow::Break)
        };
        match value {
            Value::Nil | Value::NilInterface => {}
            Value::Int(_) | Value::Int64(_) | Value::Uint64(_) | Value::Object(Object::Duration(_)) => {
                if c.pipe.decl().len() > 1 {
                    let shown = String::from_utf8_lossy(&fmt::sprint(value)).into_owned();
                    let text = format!("can't use {shown} to iterate over more than one variable");
                    return Err(self.error(&text));
                }
                let (arena, mut at) = (self.arena, 0);
                while let Some(item) = counted(arena, value, at) {
                    if !each(self, Value::Nil, item)? {
                        break;
                    }
                    at += 1;
                }
            }
            Value::List(l) => {
                for (i, item) in (0i64..).zip(l.items) {
                    let item = if item.is_nil() { Value::NilInterface } else { *item };
                    if !each(self, Value::Int(i), item)? {
                        break;
                    }
                }
            }
            Value::Bytes(b) => {
                for (i, item) in (0i64..).zip(b) {
                    if !each(self, Value::Int(i), Value::Int(i64::from(*item)))? {
                        break;
                    }
                }
            }
            Value::Map(m) => {
                for (key, item) in m.snapshot(self.arena) {
                    let item = if item.is_nil() { Value::NilInterface } else { *item };
                    if !each(self, Value::Str(key), item)? {
                        break;
                    }
                }
            }
            Value::Object(Object::ApiVersions(v)) => {
                for (i, item) in (0i64..).zip(v.iter()) {
                    if !each(self, Value::Int(i), Value::Str(item.as_bytes()))? {
                        break;
                    }
                }
            }
            Value::Object(Object::Files(f)) => {
                for (name, data) in *f {
                    if !each(self, Value::Str(name.as_bytes()), Value::Bytes(data))? {
                        break;
                    }
                }
            }
            Value::Bool(_) | Value::Float(_) | Value::Str(_) | Value::Object(_) => {
                let text = String::from_utf8_lossy(&fmt::sprint(value)).into_owned();
                return Err(self.error(&format!("range can't iterate over {text}")));
            }
        }
        self.site.end_loop(level);
        Ok(ran)
    }

    /// Sets a range's variables for one iteration: one variable gets the item, two get key and item.
    fn bind(&mut self, pipe: &'a Pipe, key: Value<'a>, item: Value<'a>, loose: bool) -> Result<(), Error> {
        let holds = match pipe.decl() {
            [] => return Ok(()),
            [one] => one,
            [first, second, ..] => {
                self.set_variable(first, key)?;
                second
            }
        };
        self.set_variable(holds, item)?;
        self.loose.extend(holds.slot.filter(|_| loose).map(|slot| self.base + slot as usize));
        Ok(())
    }
}
