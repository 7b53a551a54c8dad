//! Execution of templates in Helm's order, on two threads where the output is the same.
//!
//! Owns which thread executes which template. Templates share the maps of their chart's context, and a later template sees what an
//! earlier one sets there. So each thread has its own contexts, and a change of a shared map, which is rare, ends the
//! concurrency: that thread executes all templates that follow.
//!
//! The second thread is kept for its speed: a render takes 16 % longer without it in the median of the corpus bench (14 to
//! 22 %, charts below 64 KiB excepted), on two processors, 2026-11-25.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use super::context::{TemplateTask, keep_last, tasks};
use super::engine::{CompiledChart, Parsed, funcs};
use super::error::Error;
use super::manifest::{self, Documents};
use super::prefetch::WORTH_A_THREAD;
use super::{Options, functions};
use crate::chart::Chart;
use crate::data::Map as DataMap;
use crate::go::{Arena, Map, MapKind, Value};
use crate::template::{Diagnostic, Exec, Set, Template, TemplateSet};
use crate::world::World;
use crate::yaml::Room;

/// The inputs of a run.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub(super) chart: &'r Chart,
    pub(super) values: &'r DataMap,
    pub(super) options: &'r Options,
    pub(super) world: &'r dyn World,
    /// Every template, parsed.
    pub(super) compiled: &'r CompiledChart,
}

/// The memory of one thread: its values, and the templates of its `tpl` calls.
#[derive(Default)]
struct ThreadMemory {
    arena: Arena,
    store: typed_arena::Arena<Vec<Template>>,
}

/// The output: documents in order of path, and the notes' paths and texts.
pub(super) struct RunOutput {
    pub(super) documents: Vec<Documents>,
    pub(super) notes: Vec<(String, String)>,
    /// Whether a template read a field that differs between revisions.
    pub(super) reads_revision: bool,
}

/// State shared by the threads.
struct Shared {
    /// The index of the next template to execute.
    next: AtomicUsize,
    /// Templates from this index on must not be shared.
    end: AtomicUsize,
    /// What the aliases of rendered documents may take.
    room: Room,
}

/// The output of one thread.
#[derive(Default)]
struct ThreadOutput {
    /// Rendered documents, by the indexes of their templates.
    documents: Vec<(usize, Documents)>,
    notes: Vec<(usize, String, String)>,
    /// The template that failed.
    failed: Option<(usize, Error)>,
    /// The index from which the thread executed every template.
    alone: Option<usize>,
    /// Whether one of them read a field that differs between revisions.
    reads_revision: bool,
}

/// The end of a thread's work on shared templates: its sender is dropped, and the other thread's receiver returns.
struct Rendezvous {
    own: Option<Sender<()>>,
    other: Receiver<()>,
}

impl Rendezvous {
    fn pair() -> (Self, Self) {
        let (first, second) = (mpsc::channel(), mpsc::channel());
        (Self { own: Some(first.0), other: second.1 }, Self { own: Some(second.0), other: first.1 })
    }

    /// Signals that this thread has finished, and waits for the other one.
    fn meet(&mut self) {
        self.own = None;
        // Nothing is ever sent.
        while self.other.recv().is_ok() {}
    }
}

impl Run<'_> {
    /// Executes every template that is not a partial.
    ///
    /// # Errors
    /// The first template in Helm's order that cannot be parsed or fails.
    pub(super) fn all(&self) -> Result<RunOutput, Error> {
        let shared =
            Shared { next: AtomicUsize::new(0), end: AtomicUsize::new(usize::MAX), room: Room::default() };
        let place = ThreadMemory::default();
        let memory = self.options.limits.memory;
        let order = self.order(&place.arena, memory)?;
        let parsed = self.compiled.parsed(&order);
        let set = set(&order, &parsed)?;
        // Each of two threads has contexts of its own.
        let fits_twice = place.arena.taken_bytes() <= memory / 2;
        let text: usize = order.iter().filter(|j| !is_partial(j)).map(|j| j.text.len()).sum();
        let mut threads = if text < WORTH_A_THREAD || self.world.in_order() || !fits_twice {
            vec![self.worker(&place, &order, &set, &shared, None)]
        } else {
            let (own, other) = Rendezvous::pair();
            std::thread::scope(|scope| {
                let second = || {
                    let place = ThreadMemory::default();
                    match self.order(&place.arena, memory) {
                        Ok(order) => self.worker(&place, &order, &set, &shared, Some(other)),
                        // The other thread executes all templates; those of the same values did fit.
                        Err(_) => ThreadOutput::default(),
                    }
                };
                // If the thread cannot start, its rendezvous is dropped.
                let helper = std::thread::Builder::new().spawn_scoped(scope, second);
                let mut threads = vec![self.worker(&place, &order, &set, &shared, Some(own))];
                if let Ok(helper) = helper {
                    match helper.join() {
                        Ok(done) => threads.push(done),
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                }
                threads
            })
        };
        // Shared templates behind the end saw the maps before the change.
        let end = shared.end.load(Ordering::SeqCst);
        let mut documents = Vec::new();
        let mut notes = Vec::new();
        let reads_revision = threads.iter().any(|done| done.reads_revision);
        for done in &mut threads {
            let holds = |number: usize| number < end || done.alone.is_some_and(|from| number >= from);
            if let Some((_, error)) = done.failed.take_if(|(number, _)| holds(*number)) {
                return Err(error);
            }
            documents.extend(done.documents.drain(..).filter(|d| holds(d.0)).map(|(_, documents)| documents));
            notes.extend(done.notes.drain(..).filter(|n| holds(n.0)).map(|(_, path, text)| (path, text)));
        }
        documents.sort_by(|a, b| a.source.cmp(&b.source));
        Ok(RunOutput { documents, notes, reads_revision })
    }

    /// Executes the templates one after the other; returns paths and texts. With `diagnostics` as lint does: neither an install nor
    /// an upgrade, and continues after missing values.
    ///
    /// # Errors
    /// As [`Run::all`].
    pub(super) fn one_by_one(
        &self,
        diagnostics: Option<&mut Vec<Diagnostic>>,
    ) -> Result<Vec<(String, String)>, Error> {
        let place = ThreadMemory::default();
        let order = self.order(&place.arena, self.options.limits.memory)?;
        if diagnostics.is_some()
            && let Some(Value::Map(release)) = order.first().and_then(|j| j.context.get(b"Release"))
        {
            release.insert(b"IsInstall", Value::Bool(false));
        }
        let parsed = self.compiled.parsed(&order);
        let set = set(&order, &parsed)?;
        let Some(mut exec) = self.exec(&place, &set, 1) else { return Ok(Vec::new()) };
        exec.diagnostics = diagnostics.is_some().then(Vec::new);
        let mut run = || {
            let tasks = order.iter().filter(|j| !is_partial(j));
            tasks.map(|task| Ok((task.name.clone(), to_text(self.run(&mut exec, task)?)))).collect()
        };
        let files = run();
        if let Some(diagnostics) = diagnostics {
            diagnostics.extend(exec.diagnostics.into_iter().flatten());
        }
        files
    }

    /// The templates in the order of parsing and execution: deeper charts first, and the later name first. The last parsed
    /// definition wins, so parents override subcharts.
    fn order<'a>(&'a self, arena: &'a Arena, memory: usize) -> Result<Vec<TemplateTask<'a>>, Error> {
        let tasks = tasks(arena, self.chart, self.values, self.options, self.compiled.profile(), memory)?;
        let depth = |task: &TemplateTask<'_>| memchr::memchr_iter(b'/', task.name.as_bytes()).count();
        let mut tasks: Vec<(usize, TemplateTask<'a>)> =
            tasks.into_iter().map(|task| (depth(&task), task)).collect();
        tasks.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| b.1.name.cmp(&a.1.name)));
        let mut tasks: Vec<TemplateTask<'a>> = tasks.into_iter().map(|(_, task)| task).collect();
        keep_last(&mut tasks, |task| &task.name);
        Ok(tasks)
    }

    fn exec<'a>(
        &'a self,
        place: &'a ThreadMemory,
        set: &'a TemplateSet<'a>,
        threads: usize,
    ) -> Option<Exec<'a>> {
        Exec::new(
            &place.arena,
            &place.store,
            Set::new(set),
            funcs(self.compiled.profile()),
            self.world,
            self.options.limits.shared_by(threads),
        )
    }

    /// Renders one template.
    fn run<'a>(&self, exec: &mut Exec<'a>, task: &TemplateTask<'a>) -> Result<Vec<u8>, Error> {
        place_template(exec.arena, task);
        exec.root = Value::Map(task.context.with_kind(exec.arena, MapKind::Values));
        let text = exec
            .execute(&task.name, exec.root)
            .map_err(|e| Error::exec(task, &e, self.compiled.profile()))?;
        Ok(functions::without_no_value(text))
    }

    fn worker<'a>(
        &'a self,
        place: &'a ThreadMemory,
        tasks: &[TemplateTask<'a>],
        set: &'a TemplateSet<'a>,
        shared: &Shared,
        rendezvous: Option<Rendezvous>,
    ) -> ThreadOutput {
        let mut done = ThreadOutput::default();
        let threads = if rendezvous.is_some() { 2 } else { 1 };
        let Some(mut exec) = self.exec(place, set, threads) else { return done };
        place.arena.share();
        let mut placed = 0;
        let mut step = |number: usize, task: &TemplateTask<'a>, done: &mut ThreadOutput| {
            if is_partial(task) {
                return true;
            }
            // A parent can read its subcharts' `.Template`: that of the last template executed on any thread.
            let others = tasks.iter().take(number).skip(placed).filter(|j| !is_partial(j));
            others.for_each(|other| place_template(&place.arena, other));
            placed = number + 1;
            match self.run(&mut exec, task) {
                Ok(text) if task.name.ends_with("NOTES.txt") => {
                    done.notes.push((number, task.name.clone(), to_text(text)));
                }
                // While the text is still in the processor's caches.
                Ok(text) => {
                    let read = manifest::read(task.name.clone(), text, self.compiled.profile(), &shared.room);
                    done.documents.push((number, read));
                }
                Err(e) => done.failed = Some((number, e)),
            }
            done.failed.is_none()
        };
        let mut changed = None;
        loop {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = tasks.get(number).filter(|_| number < shared.end.load(Ordering::SeqCst)) else {
                break;
            };
            if !step(number, task, &mut done) {
                shared.end.fetch_min(number + 1, Ordering::SeqCst);
                break;
            }
            if rendezvous.is_some() && place.arena.is_changed() {
                shared.end.fetch_min(number + 1, Ordering::SeqCst);
                changed = Some(number + 1);
                break;
            }
        }
        if let Some(mut rendezvous) = rendezvous {
            rendezvous.meet();
            if let Some(from) = changed.filter(|from| *from == shared.end.load(Ordering::SeqCst)) {
                done.alone = Some(from);
                let rest = (from..).zip(tasks.iter().skip(from));
                let _ran = rest.take_while(|(number, task)| step(*number, task, &mut done)).count();
            }
        }
        done.reads_revision = place.arena.has_watched_read();
        done
    }
}

/// Sets the chart's `.Template` before a template is executed.
fn place_template<'a>(arena: &'a Arena, task: &TemplateTask<'a>) {
    let template = Map::new(arena, MapKind::Values);
    template.insert(b"BasePath", Value::str(arena, &task.base_path));
    template.insert(b"Name", Value::str(arena, &task.name));
    task.context.place(b"Template", Value::Map(template));
}

/// Converts to text and replaces invalid UTF-8 with replacement characters.
fn to_text(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

fn is_partial(task: &TemplateTask<'_>) -> bool {
    task.name.rsplit('/').next().is_some_and(|base| base.starts_with('_'))
}

/// All definitions, or the error of the first template in order that cannot be parsed.
fn set<'p>(order: &[TemplateTask<'_>], parsed: &'p [Arc<Parsed>]) -> Result<TemplateSet<'p>, Error> {
    let mut set = TemplateSet::default();
    for (task, result) in order.iter().zip(parsed) {
        match &**result {
            Ok(templates) => set.add(templates),
            Err(e) => return Err(Error::parse(task, e)),
        }
    }
    Ok(set)
}
