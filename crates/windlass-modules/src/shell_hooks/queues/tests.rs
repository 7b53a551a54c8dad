//! Order, combining and repetition of runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicUsize;

use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

use super::*;
use crate::shell_hooks::binding_context::{ContextKind, Include, Item};
use crate::shell_hooks::config::WatchEvent;
use crate::shell_hooks::{CONFIG_TIMEOUT, HookSource, Scope};

async fn hook(dir: &tempfile::TempDir, name: &str, module: &str) -> Arc<Hook> {
    let path = dir.path().join(name);
    fs::write(&path, "#!/bin/sh\necho 'onStartup: 1'\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let source = HookSource { path: &path, name, module, scope: Scope::Global, limit: CONFIG_TIMEOUT };
    Arc::new(source.parts(&source.ask().await.unwrap()).hooks.remove(0))
}

fn run(hook: &Arc<Hook>, binding: &str, kind: &'static str, queue: &str) -> Run {
    let context = Context {
        binding: binding.into(),
        group: None,
        include: Include::Nothing,
        what: ContextKind::Schedule,
    };
    Run {
        hook: Arc::clone(hook),
        contexts: vec![context],
        kind,
        queue: queue.into(),
        allow_failure: false,
        since: std::time::Instant::now(),
        event: 1,
        failures: 0,
    }
}

fn run_text(run: &Run) -> String {
    let names: Vec<&str> = run.contexts.iter().map(|c| c.binding.as_str()).collect();
    format!("{} {} {}", run.hook.name, run.kind, names.join(","))
}

/// A runner that tells what it runs, and lets a run go on for each permit.
fn gated() -> (Runner, mpsc::UnboundedReceiver<String>, Arc<Semaphore>) {
    let (sender, told) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&gate);
    let runner: Runner = Arc::new(move |run| {
        let (sender, permits) = (sender.clone(), Arc::clone(&permits));
        Box::pin(async move {
            sender.send(run_text(&run)).unwrap();
            permits.acquire().await.unwrap().forget();
            Ok(())
        })
    });
    (runner, told, gate)
}

#[tokio::test]
async fn runs_of_a_hook_in_a_long_queue_are_one() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (hook(&dir, "a", "").await, hook(&dir, "b", "").await);
    let (runner, mut told, gate) = gated();
    let queues = Queues::new(runner);
    let _first = queues.push(run(&b, "first", "schedule", "main"));
    assert_eq!(told.recv().await.unwrap(), "b schedule first");
    let length = || queues.view()[0].tasks.len() - 1;
    let mut waits = Vec::new();
    for number in 0..=50 {
        let mut grouped = run(&a, &format!("a{number}"), "schedule", "main");
        grouped.contexts[0].group = Some("group".into());
        waits.push(queues.push(grouped));
        // The last one makes it long.
        assert_eq!(length(), if number == 50 { 2 } else { number * 2 + 1 });
        if number < 50 {
            waits.push(queues.push(run(&b, &format!("b{number}"), "schedule", "main")));
        }
    }
    gate.add_permits(10);
    assert_eq!(told.recv().await.unwrap(), "a schedule a50", "they are of one group");
    let names: Vec<String> = (0..50).map(|n| format!("b{n}")).collect();
    assert_eq!(told.recv().await.unwrap(), format!("b schedule {}", names.join(",")));
    for wait in waits {
        wait.await.unwrap();
    }
}

/// A run for what befell an object of a kilobyte.
fn event_run(hook: &Arc<Hook>, event: WatchEvent, name: &str) -> Run {
    let object = json!({"kind": "Pod", "metadata": {"name": name}, "data": "x".repeat(1000)});
    let mut run = run(hook, "pods", "kubernetes", "main");
    run.contexts[0].what = ContextKind::Event(event, Arc::new(Item::new(object, None, true)));
    run
}

#[tokio::test]
async fn what_waits_for_a_hook_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (hook(&dir, "a", "").await, hook(&dir, "b", "").await);
    let (runner, mut told, gate) = gated();
    let most = 100_000;
    let queues = Queues { most, ..Queues::new(runner) };
    let _first = queues.push(run(&b, "first", "schedule", "main"));
    assert_eq!(told.recv().await.unwrap(), "b schedule first");
    let waiting = || {
        let lines = queues.lines.lock().unwrap();
        let content = lines.values().next().unwrap().content.lock().unwrap();
        assert!(size(&content.waiting) <= most);
        let of_a = content.waiting.iter().find(|task| task.run.hook.name == a.name).unwrap();
        assert_eq!(of_a.size, context_bounds::size(&of_a.run.contexts));
        assert!(of_a.done.len() < 10, "nobody waits for them");
        (of_a.run.contexts.clone(), content.was_bounded)
    };
    drop(queues.push(event_run(&a, WatchEvent::Added, "web")));
    for _ in 0..10 {
        drop(queues.push(event_run(&a, WatchEvent::Modified, "web")));
    }
    let (contexts, was_bounded) = waiting();
    assert!(contexts.len() == 11 && !was_bounded, "in ordinary cases the hook gets all events");
    for _ in 0..200 {
        drop(queues.push(event_run(&a, WatchEvent::Modified, "web")));
        // Also where others are between them.
        drop(queues.push(run(&b, "tick", "schedule", "main")));
        let (contexts, _) = waiting();
        assert!(matches!(contexts[0].what, ContextKind::Event(WatchEvent::Added, _)));
    }
    assert!(waiting().1);
    for number in 0..200 {
        drop(queues.push(event_run(&a, WatchEvent::Deleted, &number.to_string())));
    }
    let (contexts, _) = waiting();
    assert_eq!(contexts[0].what, ContextKind::Synchronization, "it stands for the events before it");
    gate.add_permits(10);
    let names = told.recv().await.unwrap();
    assert!(names.starts_with("a kubernetes pods"), "{names}");
}

#[tokio::test]
async fn runs_of_one_queue_follow_each_other_and_are_combined() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (hook(&dir, "a", "").await, hook(&dir, "b", "").await);
    let (runner, mut told, gate) = gated();
    let queues = Queues::new(runner);
    let first = queues.push(run(&a, "1", "schedule", "main"));
    assert_eq!(told.recv().await.unwrap(), "a schedule 1");
    for (hook, binding, kind) in [
        (&a, "2", "schedule"),
        (&a, "3", "schedule"),
        (&a, "4", "kubernetes"),
        (&b, "5", "schedule"),
        (&b, "6", "schedule"),
    ] {
        drop(queues.push(run(hook, binding, kind, "main")));
    }
    let lengths: Vec<usize> = queues.view().iter().map(|q| q.tasks.len()).collect();
    assert_eq!(lengths, [4], "with the one under way");
    let other = queues.push(run(&a, "x", "schedule", "other"));
    assert_eq!(told.recv().await.unwrap(), "a schedule x", "another queue does not wait");
    gate.add_permits(10);
    for want in ["a schedule 2,3", "a kubernetes 4", "b schedule 5,6"] {
        assert_eq!(told.recv().await.unwrap(), want);
    }
    first.await.unwrap();
    other.await.unwrap();
}

#[tokio::test]
async fn a_failure_is_repeated_at_the_head_with_what_came_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (hook(&dir, "a", "").await, hook(&dir, "b", "").await);
    let (sender, mut told) = mpsc::unbounded_channel();
    let failures = Arc::new(AtomicUsize::new(2));
    let runner: Runner = Arc::new(move |run| {
        let (sender, failures) = (sender.clone(), Arc::clone(&failures));
        Box::pin(async move {
            sender.send(run_text(&run)).unwrap();
            let failed = failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
            if failed.is_ok() { Err("no".to_owned()) } else { Ok(()) }
        })
    });
    // The runs that come meanwhile must be there before the pause is over.
    let queues = Queues { pause: |_| Duration::from_millis(300), ..Queues::new(runner) };
    drop(queues.push(run(&a, "1", "schedule", "main")));
    assert_eq!(told.recv().await.unwrap(), "a schedule 1");
    drop(queues.push(run(&a, "2", "schedule", "main")));
    let last = queues.push(run(&b, "3", "schedule", "main"));
    assert_eq!(told.recv().await.unwrap(), "a schedule 1,2");
    assert_eq!(told.recv().await.unwrap(), "a schedule 1,2");
    assert_eq!(told.recv().await.unwrap(), "b schedule 3");
    last.await.unwrap();
}

#[tokio::test]
async fn a_failure_that_is_allowed_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let a = hook(&dir, "a", "").await;
    let runner: Runner = Arc::new(|_| Box::pin(async { Err("no".to_owned()) }));
    let queues = Queues { pause: |_| panic!("it is tried again"), ..Queues::new(runner) };
    let allowed = Run { allow_failure: true, ..run(&a, "1", "schedule", "main") };
    queues.push(allowed).await.unwrap();
}

#[tokio::test]
async fn the_queues_of_an_owner_go_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (hook(&dir, "a", "one").await, hook(&dir, "b", "two").await);
    let (runner, mut told, gate) = gated();
    let queues = Queues::new(runner);
    let (first, second) =
        (queues.push(run(&a, "1", "schedule", "main")), queues.push(run(&b, "2", "schedule", "main")));
    told.recv().await.unwrap();
    told.recv().await.unwrap();
    queues.drop_owner("one");
    assert!(first.await.is_err(), "it will never be done");
    gate.add_permits(1);
    second.await.unwrap();
}
