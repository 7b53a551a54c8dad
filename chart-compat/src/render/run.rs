//! Running templates in Helm's order, and on two threads where nobody can tell.
//!
//! Owns who runs which template. Templates share the maps of their chart's context, and what one sets there a later one sees.
//! So each thread has contexts of its own, and a change of a shared map, which is rare, ends the sharing of work: what comes
//! after that template is run by its thread alone.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use super::context::{Job, jobs, keep_last};
use super::crew::WORTH_A_THREAD;
use super::engine::{CompiledChart, Parsed, funcs};
use super::error::Error;
use super::manifest::{self, Documents};
use super::{Options, functions};
use crate::chart::Chart;
use crate::data::Map as DataMap;
use crate::go::{Arena, Map, MapKind, Value};
use crate::template::{Exec, Notice, Set, Template, TemplateSet};
use crate::world::World;

/// All that a run is made of.
#[derive(Clone, Copy)]
pub(super) struct Run<'r> {
    pub(super) chart: &'r Chart,
    pub(super) values: &'r DataMap,
    pub(super) options: &'r Options,
    pub(super) world: &'r dyn World,
    /// Every template, parsed.
    pub(super) compiled: &'r CompiledChart,
}

/// What one thread's values and the templates of its `tpl` calls live in.
#[derive(Default)]
struct Place {
    arena: Arena,
    store: typed_arena::Arena<Vec<Template>>,
}

/// What came out: documents in order of path, and the notes' paths and texts.
pub(super) struct Ran {
    pub(super) documents: Vec<Documents>,
    pub(super) notes: Vec<(String, String)>,
    /// Whether a template read what differs between revisions.
    pub(super) reads_revision: bool,
}

/// Where threads meet.
struct Shared {
    /// The number of the next template that nobody runs yet.
    next: AtomicUsize,
    /// What stands behind this many templates must not be shared.
    end: AtomicUsize,
}

/// What one thread did.
#[derive(Default)]
struct Done {
    /// What templates gave, by their numbers.
    documents: Vec<(usize, Documents)>,
    notes: Vec<(usize, String, String)>,
    /// The template that failed.
    failed: Option<(usize, Error)>,
    /// From where on the thread ran everything.
    alone: Option<usize>,
    /// Whether one of them read what differs between revisions.
    reads_revision: bool,
}

/// One thread's way to know that the other runs no shared template any more: its sender is gone.
struct Signal {
    own: Option<Sender<()>>,
    other: Receiver<()>,
}

impl Signal {
    fn pair() -> (Self, Self) {
        let (first, second) = (mpsc::channel(), mpsc::channel());
        (Self { own: Some(first.0), other: second.1 }, Self { own: Some(second.0), other: first.1 })
    }

    /// Says that this thread has ended, and waits until the other one has.
    fn meet(&mut self) {
        self.own = None;
        // Nothing is ever sent.
        while self.other.recv().is_ok() {}
    }
}

impl Run<'_> {
    /// Runs every template that is not a partial.
    ///
    /// # Errors
    /// The first template in Helm's order that does not parse or fails.
    pub(super) fn all(&self) -> Result<Ran, Error> {
        let shared = Shared { next: AtomicUsize::new(0), end: AtomicUsize::new(usize::MAX) };
        let place = Place::default();
        let order = self.order(&place.arena);
        let parsed = self.compiled.parsed(&order);
        let set = set(&order, &parsed)?;
        let text: usize = order.iter().filter(|j| !is_partial(j)).map(|j| j.text.len()).sum();
        let mut threads = if text < WORTH_A_THREAD || self.world.in_order() {
            vec![self.worker(&place, &order, &set, &shared, None)]
        } else {
            let (own, other) = Signal::pair();
            std::thread::scope(|scope| {
                let second = || {
                    let place = Place::default();
                    let order = self.order(&place.arena);
                    self.worker(&place, &order, &set, &shared, Some(other))
                };
                // Without a second thread its signal is gone.
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
        // Shared templates behind the end saw maps as they were before.
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
        Ok(Ran { documents, notes, reads_revision })
    }

    /// Runs every template one after the other; gives path and text. With `notices` as lint does, which neither installs nor
    /// upgrades, and goes on where values are missing.
    ///
    /// # Errors
    /// As [`Run::all`].
    pub(super) fn one_by_one(
        &self,
        notices: Option<&mut Vec<Notice>>,
    ) -> Result<Vec<(String, String)>, Error> {
        let place = Place::default();
        let order = self.order(&place.arena);
        if notices.is_some()
            && let Some(Value::Map(release)) = order.first().and_then(|j| j.context.get(b"Release"))
        {
            release.insert(b"IsInstall", Value::Bool(false));
        }
        let parsed = self.compiled.parsed(&order);
        let set = set(&order, &parsed)?;
        let Some(mut exec) = self.exec(&place, &set, 1) else { return Ok(Vec::new()) };
        exec.notices = notices.is_some().then(Vec::new);
        let mut run = || {
            let jobs = order.iter().filter(|j| !is_partial(j));
            jobs.map(|job| Ok((job.name.clone(), shown(self.run(&mut exec, job)?)))).collect()
        };
        let files = run();
        if let Some(notices) = notices {
            notices.extend(exec.notices.into_iter().flatten());
        }
        files
    }

    /// The templates in the order in which they are parsed and run: deeper charts first, and the later name first. What is parsed
    /// last wins, so parents override subcharts.
    fn order<'a>(&'a self, arena: &'a Arena) -> Vec<Job<'a>> {
        let jobs = jobs(arena, self.chart, self.values, self.options, self.compiled.profile());
        let depth = |job: &Job<'_>| memchr::memchr_iter(b'/', job.name.as_bytes()).count();
        let mut jobs: Vec<(usize, Job<'a>)> = jobs.into_iter().map(|job| (depth(&job), job)).collect();
        jobs.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| b.1.name.cmp(&a.1.name)));
        let mut jobs: Vec<Job<'a>> = jobs.into_iter().map(|(_, job)| job).collect();
        keep_last(&mut jobs, |job| &job.name);
        jobs
    }

    fn exec<'a>(&'a self, place: &'a Place, set: &'a TemplateSet<'a>, threads: usize) -> Option<Exec<'a>> {
        Exec::new(
            &place.arena,
            &place.store,
            Set::new(set),
            funcs(self.compiled.profile()),
            self.world,
            self.options.limits.shared_by(threads),
        )
    }

    /// One template's text.
    fn run<'a>(&self, exec: &mut Exec<'a>, job: &Job<'a>) -> Result<Vec<u8>, Error> {
        place_template(exec.arena, job);
        exec.root = Value::Map(job.context.with_kind(exec.arena, MapKind::Values));
        let text =
            exec.execute(&job.name, exec.root).map_err(|e| Error::exec(job, &e, self.compiled.profile()))?;
        Ok(functions::without_no_value(text))
    }

    fn worker<'a>(
        &'a self,
        place: &'a Place,
        jobs: &[Job<'a>],
        set: &'a TemplateSet<'a>,
        shared: &Shared,
        signal: Option<Signal>,
    ) -> Done {
        let mut done = Done::default();
        let threads = if signal.is_some() { 2 } else { 1 };
        let Some(mut exec) = self.exec(place, set, threads) else { return done };
        place.arena.share();
        let mut placed = 0;
        let mut step = |number: usize, job: &Job<'a>, done: &mut Done| {
            if is_partial(job) {
                return true;
            }
            // A parent can look at its subcharts' `.Template`, which is that of the last one that ran on any thread.
            let others = jobs.iter().take(number).skip(placed).filter(|j| !is_partial(j));
            others.for_each(|other| place_template(&place.arena, other));
            placed = number + 1;
            match self.run(&mut exec, job) {
                Ok(text) if job.name.ends_with("NOTES.txt") => {
                    done.notes.push((number, job.name.clone(), shown(text)));
                }
                // While the text is still in the processor's caches.
                Ok(text) => {
                    let read = manifest::read(job.name.clone(), text, self.compiled.profile());
                    done.documents.push((number, read));
                }
                Err(e) => done.failed = Some((number, e)),
            }
            done.failed.is_none()
        };
        let mut changed = None;
        loop {
            let number = shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number).filter(|_| number < shared.end.load(Ordering::SeqCst)) else {
                break;
            };
            if !step(number, job, &mut done) {
                shared.end.fetch_min(number + 1, Ordering::SeqCst);
                break;
            }
            if signal.is_some() && place.arena.is_changed() {
                shared.end.fetch_min(number + 1, Ordering::SeqCst);
                changed = Some(number + 1);
                break;
            }
        }
        if let Some(mut signal) = signal {
            signal.meet();
            if let Some(from) = changed.filter(|from| *from == shared.end.load(Ordering::SeqCst)) {
                done.alone = Some(from);
                let rest = (from..).zip(jobs.iter().skip(from));
                let _ran = rest.take_while(|(number, job)| step(*number, job, &mut done)).count();
            }
        }
        done.reads_revision = place.arena.has_watched_read();
        done
    }
}

/// Sets the chart's `.Template` for a template that is about to run.
fn place_template<'a>(arena: &'a Arena, job: &Job<'a>) {
    let template = Map::new(arena, MapKind::Values);
    template.insert(b"BasePath", Value::str(arena, &job.base_path));
    template.insert(b"Name", Value::str(arena, &job.name));
    job.context.place(b"Template", Value::Map(template));
}

/// Text that people read.
fn shown(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

fn is_partial(job: &Job<'_>) -> bool {
    job.name.rsplit('/').next().is_some_and(|base| base.starts_with('_'))
}

/// All definitions, or the first template in order that does not parse.
fn set<'p>(order: &[Job<'_>], parsed: &'p [Arc<Parsed>]) -> Result<TemplateSet<'p>, Error> {
    let mut set = TemplateSet::default();
    for (job, result) in order.iter().zip(parsed) {
        match &**result {
            Ok(templates) => set.add(templates),
            Err(e) => return Err(Error::parse(job, e)),
        }
    }
    Ok(set)
}
