//! How the commands of a life are given, by chance: with waits, with failures undone or cleaned up, without hooks, and with a
//! write that the server refuses.

use crate::{Chance, life::STEPS, proxy::Fault};
use std::sync::atomic::{AtomicBool, Ordering};

/// The flags of a life.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Temper {
    wait: bool,
    undo: bool,
    cleanup: bool,
    no_hooks: bool,
}

/// The objects that writes are refused of: among the first that are applied, and the last.
const REFUSED: [&str; 2] = ["/configmaps/life-both", "/deployments/life-app"];

impl Temper {
    /// One life in four has no flags at all.
    pub(crate) fn new(chance: &mut Chance) -> Self {
        if chance.below(4) == 0 {
            return Self::default();
        }
        Self {
            wait: chance.below(3) == 0,
            undo: chance.below(3) != 0,
            cleanup: chance.below(2) == 0,
            no_hooks: chance.below(4) == 0,
        }
    }

    /// The flags of a step, with Helm 4's names or those of Helm 3.
    pub(crate) fn flags(self, step: usize) -> Vec<&'static str> {
        let undo = if step == 0 { "--atomic" } else { "--rollback-on-failure" };
        let given = [
            ("--wait", self.wait),
            (undo, self.undoes(step)),
            ("--cleanup-on-fail", self.cleans(step)),
            ("--no-hooks", self.no_hooks),
        ];
        given.into_iter().filter_map(|(flag, on)| on.then_some(flag)).collect()
    }

    /// Whether a failure of a step is undone: by uninstalling, or by a rollback.
    pub(crate) fn undoes(self, step: usize) -> bool {
        self.undo && step < 2
    }

    /// Whether what a failed step made anew is deleted again.
    pub(crate) fn cleans(self, step: usize) -> bool {
        self.cleanup && (1..STEPS - 1).contains(&step)
    }

    /// An object of which a write is refused in this step, if it is to fail.
    pub(crate) fn refused(self, chance: &mut Chance) -> Option<&'static str> {
        let calm = !(self.wait || self.undo || self.cleanup || self.no_hooks);
        (!calm && chance.below(3) != 0).then(|| REFUSED[chance.below(REFUSED.len())])
    }
}

/// Refuses the first write or deletion of an object, in a way that is not tried again.
pub(crate) fn refuse(object: Option<&'static str>) -> impl Fn(&str, &str) -> Option<Fault> + Send + Sync {
    let met = AtomicBool::new(false);
    move |method, path| {
        let its = object.is_some_and(|object| path.contains(object));
        let due = its && matches!(method, "PATCH" | "DELETE") && !met.swap(true, Ordering::SeqCst);
        due.then_some(Fault::Answer(500, None))
    }
}
