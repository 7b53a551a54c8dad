//! Starting a thread on a processor that has nothing to do.
//!
//! Owns that choice for the moment of the start; afterwards the system moves threads as it likes. Where processors are real,
//! Linux starts threads on idle ones by itself. An idle processor of a virtual machine has been given back to the host, though, and counts as taken
//! then (`vcpu_is_preempted`): a new thread waits behind the one that started it, for 1 ms in the median and up to 4, which is as
//! long as a render takes. Naming the others costs 0.1 ms.

/// What a thread has to do first.
pub(super) struct Arrived(Option<Processors>);

impl Arrived {
    /// Lets the thread go wherever the one that started it may.
    pub(super) fn run_anywhere(&self) {
        if let Some(all) = &self.0 {
            allow(all);
        }
    }
}

/// Runs `start`, which starts a thread beside this one; this one stays on its processor.
pub(super) fn start<T>(start: impl FnOnce(Arrived) -> T) -> T {
    let Some((all, here, others)) = here_and_others() else { return start(Arrived(None)) };
    // A thread begins with the choice of the one that starts it.
    allow(&others);
    let started = start(Arrived(Some(all)));
    allow(&here);
    allow(&all);
    started
}

#[cfg(target_os = "linux")]
type Processors = rustix::thread::CpuSet;

/// Where this thread may run, where it does, and the rest of the former, if there is any.
#[cfg(target_os = "linux")]
fn here_and_others() -> Option<(Processors, Processors, Processors)> {
    let all = rustix::thread::sched_getaffinity(None).ok()?;
    let cpu = rustix::thread::sched_getcpu();
    let (mut here, mut others) = (Processors::new(), all);
    if cpu >= Processors::MAX_CPU {
        return None;
    }
    here.set(cpu);
    others.unset(cpu);
    (others.count() > 0).then_some((all, here, others))
}

/// Says where this thread may run; it goes there at once. A system that forbids to choose leaves it where it is.
#[cfg(target_os = "linux")]
fn allow(processors: &Processors) {
    _ = rustix::thread::sched_setaffinity(None, processors);
}

#[cfg(not(target_os = "linux"))]
type Processors = ();

#[cfg(not(target_os = "linux"))]
fn here_and_others() -> Option<(Processors, Processors, Processors)> {
    None
}

#[cfg(not(target_os = "linux"))]
fn allow((): &Processors) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{sched_getaffinity, sched_getcpu};

    use super::*;

    #[test]
    fn a_thread_begins_where_its_parent_is_not_and_then_both_may_go_anywhere() {
        let all = sched_getaffinity(None).unwrap();
        let (begun, parent) = start(|arrived| {
            let thread = std::thread::spawn(move || {
                let begun = sched_getaffinity(None).unwrap();
                arrived.run_anywhere();
                (begun, sched_getaffinity(None).unwrap())
            });
            (thread, sched_getcpu())
        });
        let (begun, then) = begun.join().unwrap();
        assert_eq!([then, sched_getaffinity(None).unwrap()], [all, all]);
        if all.count() > 1 {
            // The parent has stepped aside for that moment: both were on the others.
            assert_eq!(begun.count(), all.count() - 1);
            assert!(begun.is_set(parent));
        }
    }
}
