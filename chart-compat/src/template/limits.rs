//! Limits of one render, against templates that exhaust memory or CPU.
//!
//! Owns the limits, the cost of each function, and the checks before and after a call. Has no clock: the caller implements
//! [`World::stopped`](crate::world::World::stopped).

use super::error::Error;
use super::exec::Exec;
use super::func::Func;
use crate::go::Value;
use crate::go::regexp::Regexp;

/// Limits of one render. Go itself limits only `depth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximal nesting of `{{template}}` (Go: 100000).
    pub depth: usize,
    /// Memory for values and texts, in bytes.
    pub memory: usize,
    /// Number of executed nodes. An expensive function counts as many nodes.
    pub steps: u64,
    /// Output of all templates together, in bytes.
    pub output: usize,
}

impl Limits {
    /// The limits of a render with `memory` bytes. The output limit is much lower, because later forms of the text (parsed
    /// objects, a release record) take several times its size.
    #[must_use]
    pub const fn within(memory: usize) -> Self {
        Self { depth: 100_000, memory, steps: 500_000_000, output: memory / 8 }
    }

    /// The limits of each of `threads` parallel parts of a render.
    pub(crate) fn shared_by(self, threads: usize) -> Self {
        Self { memory: self.memory / threads, output: self.output / threads, ..self }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::within(2 << 30)
    }
}

/// A reservation up to this many bytes is not checked before a call.
const SMALL: usize = 64 << 10;
/// Added text up to this many bytes is not checked at once.
const LITTLE: usize = 4 << 10;
/// Bytes of text in the arguments of a call that count as a step.
const BYTES_OF_A_STEP: usize = 64;
/// The most bytes that an escape makes of one byte beyond it, as `\u0001`.
const ESCAPE: usize = 5;
/// Memory of a text that is not UTF-8 while a regular expression is searched in it, for each of its bytes.
const REPLACED_TEXT: usize = 24;
/// Steps between two calls of `World::stopped`.
const BETWEEN_STOPS: u64 = 1 << 12;
/// Estimated memory of a parsed template for each byte of its text.
const SYNTAX_TREE: usize = 32;
/// The maximal depth to which functions follow values.
const DEEPEST: usize = 10_000;
/// Memory of a map entry or a list item, in bytes.
const NODE: usize = 32;

/// The cost of a function call beyond its own node. One step is about 40 ns.
#[derive(Clone, Copy)]
pub(super) struct Cost {
    /// CPU cost, in steps.
    steps: u64,
    /// Maximal output bytes for each byte of text in the arguments.
    growth: usize,
    /// Walks its arguments as trees: a shared value counts each time it is reached.
    walks: bool,
    /// The size of the result depends on a number or on a short text.
    makes: bool,
}

/// Functions that serialize, copy or compare whole values.
const WALKS: &[&str] = &[
    "toYaml",
    "toYamlPretty",
    "mustToYaml",
    "toJson",
    "mustToJson",
    "toPrettyJson",
    "mustToPrettyJson",
    "toRawJson",
    "mustToRawJson",
    "toToml",
    "mustToToml",
    "print",
    "printf",
    "println",
    "html",
    "js",
    "urlquery",
    "cat",
    "quote",
    "squote",
    "join",
    "toString",
    "toStrings",
    "sortAlpha",
    "deepCopy",
    "mustDeepCopy",
    "merge",
    "mergeOverwrite",
    "mustMerge",
    "mustMergeOverwrite",
    "deepEqual",
    "has",
    "mustHas",
    "without",
    "mustWithout",
    "uniq",
    "mustUniq",
];
/// Functions that create many values from one text.
const PARSES: &[&str] = &[
    "fromYaml",
    "fromYamlArray",
    "fromJson",
    "mustFromJson",
    "fromJsonArray",
    "fromToml",
    "split",
    "splitn",
    "splitList",
    "regexSplit",
    "mustRegexSplit",
    "regexFindAll",
    "mustRegexFindAll",
    "tpl",
];
/// Functions whose result has a size given by a number, or consists of many copies of an argument.
const MAKES: &[&str] = &[
    "repeat",
    "indent",
    "nindent",
    "replace",
    "randAlphaNum",
    "randAlpha",
    "randAscii",
    "randNumeric",
    "randBytes",
    "until",
    "untilStep",
    "seq",
    "join",
    "wrapWith",
    "printf",
];
/// Functions that generate keys: up to half a second each.
const KEYS: &[&str] = &[
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
];
/// Functions with slow password hashes: about a tenth of a second each.
const PASSWORDS: &[&str] = &["bcrypt", "htpasswd", "derivePassword"];

impl Cost {
    /// The cost of the function of that name; evaluated when the crate is compiled.
    pub(super) const fn of(name: &str) -> Self {
        let steps = if is_one_of(name, KEYS) {
            5_000_000
        } else if is_one_of(name, PASSWORDS) {
            2_500_000
        } else {
            0
        };
        let growth = if is_one_of(name, PARSES) { 48 } else { 8 };
        Self { steps, growth, walks: is_one_of(name, WALKS), makes: is_one_of(name, MAKES) }
    }
}

const fn is_one_of(name: &str, names: &[&str]) -> bool {
    let mut at = 0;
    while at < names.len() {
        if is_same(name.as_bytes(), names[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut at = 0;
    while at < a.len() {
        if a[at] != b[at] {
            return false;
        }
        at += 1;
    }
    true
}

fn text_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::Str(s) | Value::Bytes(s) => s,
        _ => b"",
    }
}

/// How many bytes of a text have escapes in JSON, YAML or TOML, or belong to an invalid character.
fn escaped_bytes(text: &[u8]) -> usize {
    text.iter()
        .filter(|b| **b < 0x20 || **b >= 0x7f || matches!(b, b'"' | b'\\' | b'<' | b'>' | b'&'))
        .count()
}

fn number_of(value: Value<'_>) -> i128 {
    match value {
        Value::Int(n) | Value::Int64(n) => n.into(),
        _ => 0,
    }
}

/// The size of a result that exceeds its arguments; 0 if it is no larger than they are.
fn result_size(name: &str, args: &[Value<'_>]) -> usize {
    let count = |at: usize| args.get(at).map_or(0, |v| usize::try_from(number_of(*v)).unwrap_or(0));
    let text = |at: usize| args.get(at).map_or(&b""[..], |v| text_of(*v));
    match name {
        "repeat" => count(0).saturating_mul(text(1).len()),
        "indent" | "nindent" => {
            let lines = 1 + memchr::memchr_iter(b'\n', text(1)).count();
            count(0).saturating_mul(lines)
        }
        "replace" => {
            let (old, new, all) = (text(0), text(1), text(2));
            let found = match old {
                b"" => all.len() + 1,
                _ if new.len() <= old.len() => 0,
                _ => memchr::memmem::find_iter(all, old).count(),
            };
            found.saturating_mul(new.len())
        }
        "randAlphaNum" | "randAlpha" | "randAscii" | "randNumeric" | "randBytes" => {
            count(0).saturating_mul(2)
        }
        "until" | "untilStep" | "seq" => {
            let numbers: Vec<i128> = args.iter().map(|v| number_of(*v)).collect();
            let (span, step) = match (name, &numbers[..]) {
                (_, [end]) => (*end, 1),
                ("seq", [start, step, end]) | (_, [start, end, step]) => (end - start, *step),
                (_, [start, end]) => (end - start, 1),
                _ => (0, 1),
            };
            let items = span.unsigned_abs() / step.unsigned_abs().max(1);
            usize::try_from(items).unwrap_or(usize::MAX).saturating_mul(NODE)
        }
        "join" => {
            let items = match args.get(1) {
                Some(Value::List(list)) => list.items.len(),
                _ => 0,
            };
            items.saturating_mul(text(0).len())
        }
        "wrapWith" => (text(2).len() / count(0).max(1) + 1).saturating_mul(text(1).len()),
        // Widths and precisions are in the format or are numeric arguments.
        "printf" => {
            let (mut width, mut widths) = (0usize, 0usize);
            for byte in text(0) {
                if byte.is_ascii_digit() {
                    width = width.saturating_mul(10).saturating_add(usize::from(byte - b'0')).min(1_000_000);
                } else {
                    widths = widths.saturating_add(std::mem::take(&mut width));
                }
            }
            let stars = if text(0).contains(&b'*') { args.len() } else { 0 };
            (0..stars).map(|at| count(at).min(1_000_000)).fold(widths, usize::saturating_add)
        }
        _ => 0,
    }
}

impl<'a> Exec<'a> {
    /// Counts an executed node.
    #[inline]
    pub(super) fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.steps.is_multiple_of(256) { self.check() } else { Ok(()) }
    }

    /// Counts the work of a function that takes more time than its arguments are long.
    ///
    /// # Errors
    /// The render executed more nodes than its limit allows, or is to stop.
    pub fn count_steps(&mut self, steps: usize) -> Result<(), Error> {
        self.steps = self.steps.saturating_add(u64::try_from(steps).unwrap_or(u64::MAX));
        if self.steps >= self.next_stop { self.check_work() } else { Ok(()) }
    }

    /// Counts a search in a text, which may read so many bytes. Whether it does is not known: they are no steps, but whether
    /// the render is to stop is asked earlier.
    ///
    /// # Errors
    /// As [`Self::count_steps`]; also if the search may take too long by itself.
    pub fn count_search(&mut self, regexp: &Regexp, left: usize) -> Result<(), Error> {
        if regexp.is_costly(left) {
            return Err(Error::new(format!(
                "render stopped: a regular expression of {} KiB, compiled, is too large for a text of {left} bytes: repeat less in it",
                regexp.memory() >> 10
            )));
        }
        let read = u64::try_from(left / BYTES_OF_A_STEP).unwrap_or(u64::MAX);
        self.next_stop = self.next_stop.saturating_sub(read);
        self.count_steps(1)
    }

    /// Checks the limits after `added` bytes of text. Small additions wait for the next check in [`Self::step`].
    #[inline]
    pub(super) fn check_text(&mut self, added: usize) -> Result<(), Error> {
        if added > LITTLE { self.check() } else { Ok(()) }
    }

    /// Checks all limits; an error has the current position.
    fn check(&mut self) -> Result<(), Error> {
        let checked = self.check_work().and_then(|()| self.check_memory(0));
        checked.map_err(|e| self.error(&e.to_string()))
    }

    fn check_work(&mut self) -> Result<(), Error> {
        if self.steps > self.limits.steps {
            return Err(Error::new("render stopped: it executed more nodes than the limit allows"));
        }
        if self.steps >= self.next_stop {
            self.next_stop = self.steps + BETWEEN_STOPS;
            if let Some(why) = self.world.stopped() {
                return Err(Error::new(format!("render stopped: {why}")));
            }
        }
        let text = self.given + self.outer + self.out.len();
        if text > self.limits.output {
            let mib = self.limits.output >> 20;
            return Err(Error::new(format!("render stopped: its text is longer than {mib} MiB")));
        }
        Ok(())
    }

    /// The error of a render that exceeds its memory limit.
    #[must_use]
    pub fn out_of_memory(&self) -> Error {
        let mib = self.limits.memory >> 20;
        Error::new(format!("render stopped: its values take more than {mib} MiB"))
    }

    fn check_memory(&self, further: usize) -> Result<(), Error> {
        let lists = self.loose.len() * size_of::<usize>() + self.vars.len() * size_of::<Value<'_>>();
        let texts = self.given + self.outer + self.out.len();
        let taken = self.arena.taken_bytes() + self.syntax + lists + texts;
        if taken.saturating_add(further) > self.limits.memory { Err(self.out_of_memory()) } else { Ok(()) }
    }

    /// Fails if `bytes` more would exceed the memory limit.
    ///
    /// # Errors
    /// The error of the memory limit.
    pub fn reserve(&self, bytes: usize) -> Result<(), Error> {
        if bytes > SMALL { self.check_memory(bytes) } else { Ok(()) }
    }

    /// Reserves memory for the parsed template of `text`, which lives until the render ends.
    pub(super) fn reserve_syntax(&mut self, text: &[u8]) -> Result<(), Error> {
        let bytes = 1024 + text.len().saturating_mul(SYNTAX_TREE);
        self.check_memory(bytes)?;
        self.syntax += bytes;
        Ok(())
    }

    /// The remaining memory, in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        self.limits.memory.saturating_sub(self.arena.taken_bytes() + self.syntax + self.given + self.outer)
    }

    /// Calls a function and checks the limits before and after.
    pub(super) fn checked_call(&mut self, f: &Func, args: &[Value<'a>]) -> Result<Value<'a>, Error> {
        self.before_call(f, args)?;
        let result = (f.call)(self, args)?;
        self.after_call()?;
        Ok(result)
    }

    /// Adds the cost of a call and reserves its memory.
    fn before_call(&mut self, f: &Func, args: &[Value<'a>]) -> Result<(), Error> {
        let Cost { steps, growth, walks, makes } = f.cost;
        if steps > 0 {
            self.steps += steps;
            self.next_stop = self.steps;
            self.check_work()?;
        }
        let texts: usize = args.iter().map(|v| text_of(*v).len()).sum();
        // A call takes at least the time to read its texts.
        self.count_steps(texts / BYTES_OF_A_STEP)?;
        let mut bytes = texts.saturating_mul(growth);
        let tree = if walks { self.weigh(args)? } else { 0 };
        bytes = bytes.saturating_add(tree);
        if f.name == "printf" && args.first().is_some_and(|format| text_of(*format).contains(&b'[')) {
            // Each verb may print any argument.
            let verbs = memchr::memchr_iter(b'%', text_of(args[0])).count();
            let each = args[1..].iter().map(|v| text_of(*v).len()).max().unwrap_or(0).saturating_add(tree);
            bytes = bytes.saturating_add(verbs.saturating_mul(each.saturating_mul(2)));
        }
        let is_text = |v: &Value<'_>| std::str::from_utf8(text_of(*v)).is_ok();
        if texts.saturating_mul(REPLACED_TEXT) > SMALL && f.name.contains("egex") && !args.iter().all(is_text)
        {
            bytes = bytes.saturating_add(texts.saturating_mul(REPLACED_TEXT));
        }
        if makes {
            bytes = bytes.saturating_add(result_size(f.name, args).saturating_mul(2));
        }
        self.reserve(bytes)
    }

    /// Checks the memory after a call.
    #[inline]
    fn after_call(&self) -> Result<(), Error> {
        if self.arena.taken_bytes() > self.limits.memory { self.check_memory(0) } else { Ok(()) }
    }

    /// The size of values serialized as indented trees, in bytes. Shared or cyclic values can form a tree larger than memory: the
    /// walk then stops with an error.
    pub(super) fn weigh(&mut self, values: &[Value<'a>]) -> Result<usize, Error> {
        if values.iter().all(|v| !matches!(v, Value::List(_) | Value::Map(_))) {
            return Ok(0);
        }
        let room = self.room();
        let (mut bytes, mut nodes) = (0usize, 0u64);
        let mut left: Vec<(Value<'a>, usize)> = values.iter().map(|v| (*v, 0)).collect();
        while let Some((value, indent)) = left.pop() {
            let text = text_of(value);
            // A text of several lines is indented at each.
            let lines = if text.is_empty() { 1 } else { 1 + memchr::memchr_iter(b'\n', text).count() };
            bytes = bytes.saturating_add(NODE / 2 + text.len() + ESCAPE * escaped_bytes(text));
            bytes = bytes.saturating_add(lines.saturating_mul(2 * indent));
            nodes += 1;
            if bytes > room {
                self.check_memory(bytes)?;
            }
            match value {
                _ if indent > 2 * DEEPEST => {}
                Value::List(list) => left.extend(list.items.iter().map(|item| (*item, indent + 2))),
                Value::Map(map) => {
                    for (key, item) in &*map.entries() {
                        bytes = bytes.saturating_add(key.len() + ESCAPE * escaped_bytes(key));
                        left.push((*item, indent + 2));
                    }
                }
                _ => {}
            }
        }
        self.steps += nodes / 8;
        Ok(bytes)
    }
}
