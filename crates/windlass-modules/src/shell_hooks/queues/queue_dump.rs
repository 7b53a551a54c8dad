//! Queues as shell-operator's `pkg/task/dump` prints them. Pure.
//!
//! shell-operator has one main queue. Here it consists of the operator's own tasks and the main queue of the global hooks; queues
//! of modules are named with their module, `web/main`.

use serde_json::{Value, json};

use super::{QueueView, TaskView};
use crate::shell_hooks::config::MAIN_QUEUE;

/// Tasks of the operator itself, which come first in the main queue.
#[derive(Clone, Debug, Default)]
pub struct OperatorTasks {
    descriptions: Vec<String>,
    running: bool,
}

impl OperatorTasks {
    /// Adds a task that runs for the whole operator.
    pub fn add_step(&mut self, step: &str) {
        self.descriptions.push(format!("ConvergeModules:{MAIN_QUEUE}:{step}"));
        self.running = true;
    }

    /// Adds a task of a module: its type and cause, how often it failed in a row, and its last error.
    pub fn add_job(
        &mut self,
        (task_type, module, cause): (&str, &str, &str),
        running: bool,
        failures: u32,
        error: &str,
    ) {
        let end = failed(failures, error);
        self.descriptions.push(format!("{task_type}:{MAIN_QUEUE}:{module}:{cause}{end}"));
        self.running |= running;
    }
}

/// A queue, ready to be shown.
#[derive(Debug, Default, PartialEq)]
struct Queue {
    name: String,
    status: String,
    /// A line for each task.
    tasks: Vec<String>,
}

/// The main queue, as text and as JSON.
#[must_use]
pub fn dump_main(tasks: &OperatorTasks, hooks: &[QueueView]) -> (String, Value) {
    let queue = main_queue(tasks, hooks);
    (text(&queue), value(&queue, true))
}

/// All queues, as text and as JSON; with the names of those without tasks if `empty`.
#[must_use]
pub fn dump_all(tasks: &OperatorTasks, hooks: &[QueueView], empty: bool) -> (String, Value) {
    let main = main_queue(tasks, hooks);
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
    // A main queue that is alone and empty is not listed.
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
    (shown, lists)
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

fn main_queue(operator: &OperatorTasks, hooks: &[QueueView]) -> Queue {
    let own = hooks.iter().find(|q| is_main(q));
    let mut tasks = operator.descriptions.clone();
    tasks.extend(own.iter().flat_map(|q| q.tasks.iter().map(|t| hook_line(q, t))));
    let status = match own {
        _ if operator.running => "run first task".to_owned(),
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

fn hook_line(queue: &QueueView, task: &TaskView) -> String {
    let mut bindings = task.bindings.join(",");
    if task.contexts > 1 {
        bindings.push_str(&format!(" in {} contexts", task.contexts));
    }
    let end = failed(task.failures, &task.error);
    format!("{}:{}:{}:{}:{bindings}{end}", queue.task_type(), name(queue), task.kind, task.hook)
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

    fn tasks(step: Option<&str>, jobs: &[(&str, bool, u32)]) -> OperatorTasks {
        let mut tasks = OperatorTasks::default();
        step.into_iter().for_each(|step| tasks.add_step(step));
        for (module, running, failures) in jobs {
            let error = if *failures > 0 { "render: no" } else { "" };
            tasks.add_job(("ModuleRun", module, "its values changed"), *running, *failures, error);
        }
        tasks
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

    #[test]
    fn the_main_queue() {
        let (text, value) =
            dump_main(&tasks(Some("beforeAll"), &[("a", true, 0), ("b", false, 2)]), &hooks());
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
        let (_, idle) = dump_main(&tasks(None, &[]), &hooks());
        assert_eq!(idle, json!({"name": "main", "tasksCount": 0, "status": "waiting for task"}));
        let (_, resting) = dump_main(&tasks(None, &[("b", false, 2)]), &hooks());
        assert_eq!(resting["status"], "sleep after fail");
    }

    #[test]
    fn all_queues_and_their_sum() {
        let (text, value) = dump_all(&tasks(None, &[]), &hooks(), true);
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
        let (text, value) = dump_all(&tasks(None, &[]), &[], true);
        assert_eq!(text, "Summary:\n- 'main' queue: empty.\n- no tasks to handle.\n");
        assert_eq!(value.get("empty"), None);
    }
}
