//! Servers that die or stand still while a release is worked on.

use crate::{
    life::{self, STEPS, look},
    proxy::Proxy,
};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use windlass_testing::{ControlPlane, Options, Tool};

/// As long as etcd stands still: past the API server's own time limit for single requests it would answer by itself.
const PAUSE: Duration = Duration::from_secs(3);

/// Goes through a life for each server and the number of the request at which it is hit.
fn hit(hits: &[(Tool, usize)]) {
    // Controllers do not outlive their server, and are not what is looked at.
    let options = Options { controllers: false, nodes: false, ..Options::default() };
    let plane = Arc::new(Mutex::new(ControlPlane::start_with(&options).unwrap()));
    let (kubeconfig, directory) = {
        let plane = plane.lock().unwrap();
        (plane.kubeconfig().to_owned(), plane.directory().to_owned())
    };
    let proxy = Proxy::start(&kubeconfig, &directory);
    let charts = tempfile::tempdir().unwrap();
    life::write_charts(charts.path());
    for state in ["v1", "v2"] {
        std::fs::remove_file(charts.path().join(state).join("templates").join(life::JOB_FILE)).unwrap();
    }
    let mut at_first = 0;
    for &(server, point) in hits {
        let what = server.name();
        let ns = {
            let plane = plane.lock().unwrap();
            plane.namespace("servers").unwrap().name().to_owned()
        };
        let mut revisions = 0;
        for step in 0..STEPS {
            let words = life::command(step, charts.path(), &ns);
            let args: Vec<&str> = words.iter().map(String::as_str).collect();
            let (servers, hit) = (Arc::clone(&plane), Arc::new(AtomicBool::new(false)));
            let met = Arc::clone(&hit);
            let first = proxy.run(&args, move |number, _, _| {
                if number == point {
                    met.store(true, Ordering::SeqCst);
                    let mut servers = servers.lock().unwrap();
                    match server {
                        Tool::Etcd => servers.pause(server, PAUSE).unwrap(),
                        _ => servers.restart(server).unwrap(),
                    }
                }
                None
            });
            let plane = plane.lock().unwrap();
            plane.wait_ready().unwrap();
            assert!(hit.load(Ordering::SeqCst), "{what}: {words:?} made only {} requests", first.asked.len());
            let mut more = 0;
            if first.code == Some(0) {
                at_first += 1;
            } else {
                let done = look(&plane, &ns).is_done(step);
                more = 1 + usize::from(done && step == 2);
                let again = proxy.run(&args, |_, _, _| None);
                assert!(
                    done || again.code == Some(0),
                    "{what}: {words:?}: {}\nat first: {}",
                    again.text,
                    first.text
                );
            }
            let end = look(&plane, &ns);
            assert_eq!(end.wrong(step, revisions, more), None, "{what}: {words:?}: {}", first.text);
            revisions = end.history.len();
        }
    }
    println!("{at_first} of {} commands came through at the first try", hits.len() * STEPS);
}

#[test]
fn they_die_or_pause() {
    hit(&[(Tool::KubeApiserver, 8), (Tool::Etcd, 11)]);
}

#[test]
#[ignore = "takes minutes: make crash"]
fn they_die_or_pause_at_many_points_and_again() {
    let hits = (2..18).map(|point| (if point % 2 == 0 { Tool::KubeApiserver } else { Tool::Etcd }, point));
    hit(&hits.collect::<Vec<_>>());
}
