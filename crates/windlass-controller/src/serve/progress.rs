//! Progress of converges, as addon-operator's `/status/converge`.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::json;

/// The progress that the operator's loop reports.
#[derive(Debug, Default)]
pub struct Progress {
    begun: AtomicBool,
    tasks: AtomicUsize,
    head: Mutex<Option<(String, &'static str)>>,
}

impl Progress {
    /// Sets the number of remaining tasks of the current converge. `head` is the module and kind of the first task.
    pub fn set(&self, tasks: usize, head: Option<(String, &'static str)>) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = head;
        self.tasks.store(tasks, Ordering::Release);
        if tasks > 0 {
            self.begun.store(true, Ordering::Release);
        }
    }

    /// The number of remaining tasks.
    pub fn tasks(&self) -> usize {
        self.tasks.load(Ordering::Acquire)
    }

    /// Module and kind of the first remaining task.
    pub fn head(&self) -> Option<(String, &'static str)> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The response, as lines or JSON. `done`: whether the first converge is complete.
    #[must_use]
    pub fn response(&self, done: bool, as_json: bool) -> String {
        let tasks = self.tasks.load(Ordering::Acquire);
        let begun = done || self.begun.load(Ordering::Acquire);
        if as_json {
            let answer = json!({
                "CONVERGE_IN_PROGRESS": if done { tasks } else { 0 },
                "CONVERGE_WAIT_TASK": done && tasks == 0,
                "STARTUP_CONVERGE_DONE": done,
                "STARTUP_CONVERGE_IN_PROGRESS": if done || !begun { 0 } else { tasks.max(1) },
                "STARTUP_CONVERGE_NOT_STARTED": !begun,
            });
            return format!("{answer}\n");
        }
        match (begun, done, tasks) {
            (false, ..) => "STARTUP_CONVERGE_NOT_STARTED\n".to_owned(),
            (true, false, _) => format!("STARTUP_CONVERGE_IN_PROGRESS: {} tasks\n", tasks.max(1)),
            (true, true, 0) => "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n".to_owned(),
            (true, true, _) => format!("STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: {tasks} tasks\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn the_words_of_the_peer() {
        let progress = Progress::default();
        let yes = |done| {
            let all: Value = serde_json::from_str(&progress.response(done, true)).unwrap();
            let all = all.as_object().unwrap().clone();
            all.into_iter().filter(|(_, v)| *v != false && *v != 0).map(|(k, v)| format!("{k} {v}")).collect()
        };
        assert_eq!(progress.response(false, false), "STARTUP_CONVERGE_NOT_STARTED\n");
        let told: Vec<String> = yes(false);
        assert_eq!(told, ["STARTUP_CONVERGE_NOT_STARTED true"]);
        progress.set(3, None);
        assert_eq!(progress.response(false, false), "STARTUP_CONVERGE_IN_PROGRESS: 3 tasks\n");
        progress.set(0, None);
        assert_eq!(progress.response(true, false), "STARTUP_CONVERGE_DONE\nCONVERGE_WAIT_TASK\n");
        progress.set(2, Some(("m".to_owned(), "ModuleRun")));
        assert_eq!(progress.head(), Some(("m".to_owned(), "ModuleRun")));
        assert_eq!(progress.response(true, false), "STARTUP_CONVERGE_DONE\nCONVERGE_IN_PROGRESS: 2 tasks\n");
        let told: Vec<String> = yes(true);
        assert_eq!(told, ["CONVERGE_IN_PROGRESS 2", "STARTUP_CONVERGE_DONE true"]);
    }
}
