//! Queues as shell-operator's `pkg/task/dump` shows them. Pure.
//!
//! The peer has one main queue; ours is the operator's own work, all jobs of modules and the main queue of the global hooks.
//! Other queues of modules are named with their module, `web/main`.

use serde_json::{Value, json};

use super::{Content, JobView, View};
use crate::shell_hooks::config::MAIN_QUEUE;
use crate::shell_hooks::queues::{QueueView, TaskView};

/// A queue, ready to be shown.
#[derive(Debug, Default, PartialEq)]
struct Queue {
    name: String,
    status: String,
    /// A line for each task.
    tasks: Vec<String>,
}

/// The main queue.
pub(super) fn main(view: &View, hooks: &[QueueView]) -> Content {
    let queue = main_queue(view, hooks);
    Content::Both(text(&queue), value(&queue, true))
}

/// All queues; those without tasks are named if `empty`.
pub(super) fn list(view: &View, hooks: &[QueueView], empty: bool) -> Content {
    let main = main_queue(view, hooks);
    let others = hooks.iter().filter(|q| !is_main(q)).map(|q| Queue {
        name: name(q),
        status: q.status.clone(),
        tasks: q.tasks.iter().map(|t| hook_line(q, t)).collect(),
    });
    let mut others: Vec<Queue> = others.collect();
    others.sort_by(|a, b| a.name.cmp(&b.name));
    let tasks: usize = others.iter().map(|q| q.tasks.len()).sum();
    let summary = Summary { main: main.tasks.len(), others: others.len(), tasks };
    let (busy, idle): (Vec<Queue>, Vec<Queue>) =
        std::iter::once(main).chain(others).partition(|q| !q.tasks.is_empty());
    // A main queue that is alone and empty is not worth a word.
    let empty = empty && summary.others > 0;
    let active = busy.iter().filter(|q| q.name != MAIN_QUEUE).count();
    let mut lists = json!({
        "active": busy.iter().map(|q| value(q, true)).collect::<Vec<Value>>(),
        "summary": {
            "mainQueueTasks": summary.main,
            "otherQueues": {"active": active, "empty": summary.others - active, "tasks": summary.tasks},
            "totalTasks": summary.main + summary.tasks,
        },
    });
    let mut shown = busy.iter().map(text).collect::<Vec<String>>().join("\n");
    if empty {
        lists["empty"] = idle.iter().map(|q| value(q, false)).collect();
        shown.push_str(&format!("\nEmpty queues ({}):\n", idle.len()));
        idle.iter().for_each(|q| shown.push_str(&format!("- {}\n", q.name)));
    }
    if !shown.is_empty() {
        shown.push('\n');
    }
    shown.push_str(&summary.text(active));
    Content::Both(shown, lists)
}

struct Summary {
    main: usize,
    others: usize,
    /// Of the other queues.
    tasks: usize,
}

impl Summary {
    fn text(&self, active: usize) -> String {
        let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let main = if self.main == 0 { "empty".to_owned() } else { count(self.main, "task") };
        let mut out = format!("Summary:\n- '{MAIN_QUEUE}' queue: {main}.\n");
        if self.others > 0 {
            out.push_str(&format!(
                "- {} ({active} active, {} empty): {}.\n",
                count(self.others, "other queue"),
                self.others - active,
                count(self.tasks, "task")
            ));
        }
        match self.main + self.tasks {
            0 => out.push_str("- no tasks to handle.\n"),
            all => out.push_str(&format!("- total {} to handle.\n", count(all, "task"))),
        }
        out
    }
}

fn is_main(queue: &QueueView) -> bool {
    queue.owner.is_empty() && queue.name == MAIN_QUEUE
}

fn name(queue: &QueueView) -> String {
    match queue.owner.as_str() {
        "" => queue.name.clone(),
        owner => format!("{owner}/{}", queue.name),
    }
}

fn main_queue(view: &View, hooks: &[QueueView]) -> Queue {
    let own = hooks.iter().find(|q| is_main(q));
    let mut tasks: Vec<String> =
        view.step.iter().map(|s| format!("ConvergeModules:{MAIN_QUEUE}:{s}")).collect();
    tasks.extend(view.jobs.iter().map(job_line));
    tasks.extend(own.iter().flat_map(|q| q.tasks.iter().map(|t| hook_line(q, t))));
    let works = view.step.is_some() || view.jobs.iter().any(|j| j.running);
    let status = match own {
        _ if works => "run first task".to_owned(),
        Some(queue) if !queue.tasks.is_empty() => queue.status.clone(),
        _ if tasks.is_empty() => "waiting for task".to_owned(),
        _ => "sleep after fail".to_owned(),
    };
    Queue { name: MAIN_QUEUE.to_owned(), status, tasks }
}

fn failed(failures: u32, error: &str) -> String {
    match (failures, error) {
        (0, _) => String::new(),
        (n, "") => format!(":failures {n}"),
        (n, error) => format!(":failures {n}:{error}"),
    }
}

fn job_line(job: &JobView) -> String {
    let JobView { module, kind, cause, failures, error, .. } = job;
    format!("{kind}:{MAIN_QUEUE}:{module}:{cause}{}", failed(*failures, error))
}

fn hook_line(queue: &QueueView, task: &TaskView) -> String {
    let kind = if queue.owner.is_empty() { "GlobalHookRun" } else { "ModuleHookRun" };
    let mut bindings = task.bindings.join(",");
    if task.contexts > 1 {
        bindings.push_str(&format!(" in {} contexts", task.contexts));
    }
    let end = failed(task.failures, &task.error);
    format!("{kind}:{}:{}:{}:{bindings}{end}", name(queue), task.kind, task.hook)
}

fn value(queue: &Queue, with_tasks: bool) -> Value {
    let mut value = json!({"name": queue.name, "tasksCount": queue.tasks.len()});
    if with_tasks {
        value["status"] = queue.status.as_str().into();
    }
    if !queue.tasks.is_empty() {
        let task = |(i, text): (usize, &String)| json!({"index": i + 1, "description": text});
        value["tasks"] = queue.tasks.iter().enumerate().map(task).collect();
    }
    value
}

fn text(queue: &Queue) -> String {
    let Queue { name, status, tasks } = queue;
    let mut out = format!("Queue '{name}': length {}, status: '{status}'\n\n", tasks.len());
    for (i, task) in tasks.iter().enumerate() {
        out.push_str(&format!("{:2}. {task}\n", i + 1));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(step: Option<&'static str>, jobs: &[(&str, bool, u32)]) -> View {
        let job = |(module, running, failures): &(&str, bool, u32)| JobView {
            module: (*module).to_owned(),
            kind: "ModuleRun",
            cause: "its values changed".to_owned(),
            running: *running,
            failures: *failures,
            error: if *failures > 0 { "render: no".to_owned() } else { String::new() },
        };
        View { step, jobs: jobs.iter().map(job).collect(), modules: Vec::new() }
    }

    fn hooks() -> Vec<QueueView> {
        let task = |hook: &str, bindings: &[&str], contexts| TaskView {
            hook: hook.to_owned(),
            kind: "kubernetes",
            bindings: bindings.iter().map(|b| (*b).to_owned()).collect(),
            contexts,
            ..TaskView::default()
        };
        let queue = |owner: &str, name: &str, status: &str, tasks| QueueView {
            owner: owner.to_owned(),
            name: name.to_owned(),
            status: status.to_owned(),
            tasks,
        };
        vec![
            queue("", "main", "waiting for task", vec![]),
            queue("web", "main", "run first task", vec![task("010-web/hooks/a", &["pods", "x"], 3)]),
            queue("web", "slow", "waiting for task", vec![]),
        ]
    }

    fn both(content: Content) -> (String, Value) {
        match content {
            Content::Both(text, value) => (text, value),
            _ => panic!("text and value"),
        }
    }

    #[test]
    fn the_main_queue() {
        let (text, value) =
            both(main(&view(Some("beforeAll"), &[("a", true, 0), ("b", false, 2)]), &hooks()));
        assert_eq!(
            text,
            "Queue 'main': length 3, status: 'run first task'\n\n 1. ConvergeModules:main:beforeAll\n \
             2. ModuleRun:main:a:its values changed\n 3. ModuleRun:main:b:its values changed:failures 2:render: no\n"
        );
        assert_eq!(value["tasksCount"], 3);
        assert_eq!(
            value["tasks"][1],
            json!({"index": 2, "description": "ModuleRun:main:a:its values changed"})
        );
        let (_, idle) = both(main(&view(None, &[]), &hooks()));
        assert_eq!(idle, json!({"name": "main", "tasksCount": 0, "status": "waiting for task"}));
        let (_, resting) = both(main(&view(None, &[("b", false, 2)]), &hooks()));
        assert_eq!(resting["status"], "sleep after fail");
    }

    #[test]
    fn all_queues_and_their_sum() {
        let (text, value) = both(list(&view(None, &[]), &hooks(), true));
        assert_eq!(
            text,
            "Queue 'web/main': length 1, status: 'run first task'\n\n \
             1. ModuleHookRun:web/main:kubernetes:010-web/hooks/a:pods,x in 3 contexts\n\nEmpty queues (2):\n- main\n- web/slow\n\n\
             Summary:\n- 'main' queue: empty.\n- 2 other queues (1 active, 1 empty): 1 task.\n- total 1 task to handle.\n"
        );
        assert_eq!(
            value["summary"],
            json!({"mainQueueTasks": 0, "otherQueues": {"active": 1, "empty": 1, "tasks": 1}, "totalTasks": 1})
        );
        assert_eq!(
            value["empty"],
            json!([{"name": "main", "tasksCount": 0}, {"name": "web/slow", "tasksCount": 0}])
        );
        let (text, value) = both(list(&view(None, &[]), &[], true));
        assert_eq!(text, "Summary:\n- 'main' queue: empty.\n- no tasks to handle.\n");
        assert_eq!(value.get("empty"), None);
    }
}
