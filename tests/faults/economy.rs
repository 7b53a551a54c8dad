//! What commands ask of the API server: no more requests than they need, and no more at a time than it is to be asked for.

use crate::proxy::{Ended, Fault, Proxy};
use std::path::Path;
use windlass_testing::control_plane;

const OBJECTS: usize = 102;
/// As many writes as the engine has under way.
const AT_ONCE: usize = 16;

/// The one that the benches measure.
const CHART: &str = include_str!("../bench/mixed.yaml");

fn write_chart(directory: &Path) {
    std::fs::create_dir_all(directory.join("templates")).unwrap();
    std::fs::write(directory.join("Chart.yaml"), "apiVersion: v2\nname: many\nversion: 1.0.0\n").unwrap();
    std::fs::write(directory.join("values.yaml"), "value: a\n").unwrap();
    std::fs::write(directory.join("templates/all.yaml"), CHART).unwrap();
}

/// The commands of a release's life, and how many requests each may make.
const LIFE: [(&[&str], usize); 4] =
    [(&["install"], 120), (&["upgrade"], 17), (&["upgrade", "--set", "value=b"], 120), (&["uninstall"], 122)];

/// Goes through the life of a release of 102 objects; each command must succeed.
fn live(mut check: impl FnMut(&[&str], usize, Ended), script: fn(&str, &str) -> Option<Fault>) {
    let plane = control_plane();
    let proxy = Proxy::start(plane.kubeconfig(), plane.directory());
    let namespace = plane.namespace("economy").unwrap();
    let chart = tempfile::tempdir().unwrap();
    write_chart(chart.path());
    for (words, most) in LIFE {
        let mut args = vec![words[0], "many"];
        args.extend((words[0] != "uninstall").then(|| chart.path().to_str().unwrap()));
        args.extend(words[1..].iter().chain(&["-n", namespace.name()]));
        let ended = proxy.run(&args, move |_, method, path| script(method, path));
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        check(words, most, ended);
    }
}

#[test]
fn requests_are_few() {
    live(
        |words, most, ended| {
            println!("{}: {} requests", words.join(" "), ended.asked.len());
            let asked = ended.asked.join("\n");
            assert!(ended.asked.len() <= most, "{words:?}: {} requests:\n{asked}", ended.asked.len());
            // As few are impossible: nothing was counted.
            let least = if most > OBJECTS { OBJECTS } else { 5 };
            assert!(ended.asked.len() > least, "{words:?}: {} requests:\n{asked}", ended.asked.len());
        },
        |_, _| None,
    );
}

#[test]
fn writes_are_no_more_at_a_time_than_the_bound() {
    live(
        |words, most, ended| {
            let expected = if most > OBJECTS { AT_ONCE } else { 0 };
            assert_eq!(ended.most, expected, "{words:?}");
        },
        |method, path| {
            let object =
                ["/configmaps/", "/services/", "/deployments/"].iter().any(|kind| path.contains(kind));
            (object && matches!(method, "PATCH" | "DELETE")).then_some(Fault::Gather(AT_ONCE + 1))
        },
    );
}
