//! `windlass flux` and `plan --helmrelease` as scripts see their mistakes: exit status and text, without a cluster.

use std::process::Command;

/// Exit status and standard error, with no cluster to reach.
fn answer(words: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(words.split_whitespace()).env("KUBECONFIG", "/nonexistent").env_remove("MODULES_DIR");
    let done = command.output().unwrap();
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

#[test]
fn mistakes_are_told_before_a_cluster_is_asked() {
    for (words, text) in [
        ("flux get tape", "unknown kind \"tape\"; there are helmrelease, helmrepository, helmchart"),
        ("flux get sources", "name a kind of source, or all"),
        ("flux get hr --status-selector ready", "--status-selector: \"ready\" is not TYPE=STATUS"),
        ("flux suspend hr", "name a HelmRelease, or give --all"),
        ("flux suspend hr web --all", "give a name or --all, not both"),
        ("flux export all", "give a name, or --all"),
        ("flux reconcile source git repo --force", "--force is for HelmReleases, not for a GitRepository"),
        ("flux tree source git repo", "2 values required"),
        ("flux tree gitrepo repo", "only HelmReleases have a tree of objects"),
        ("flux events --for web", "--for: \"web\" is not KIND/NAME"),
        ("flux trace web", "either KIND/NAME or KIND NAME is required"),
        ("plan --helmrelease web", "--helmrelease: \"web\" is not NAMESPACE/NAME"),
        ("plan --helmrelease apps/web web ./chart", "cannot be used with"),
        ("plan --helmrelease apps/web -f /nonexistent.yaml", "/nonexistent.yaml: No such file"),
        ("plan --helmrelease apps/web --set a=b", "cannot be used with"),
        ("plan --helmrelease apps/web --create-namespace", "cannot be used with"),
        ("plan web", "required arguments were not provided"),
        ("plan web ./chart --no-impersonation", "cannot be used with"),
        ("rbac", "name the directories of modules, or leave modules out of --controllers"),
        ("rbac --controllers=none", "there is no controller \"none\""),
    ] {
        let (status, err) = answer(words);
        assert!(matches!(status, Some(1 | 2)) && err.contains(text), "{words}: {status:?} {err}");
    }
}

#[test]
fn rights_for_helm_releases_need_no_directory() {
    let done = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["rbac", "--controllers=helmreleases", "--default-service-account=tenant", "-n", "ops"])
        .env_remove("MODULES_DIR")
        .output()
        .unwrap();
    let out = String::from_utf8(done.stdout).unwrap();
    assert!(done.status.success());
    assert!(out.contains("kind: ClusterRole\n") && out.contains("- helmreleases/status"), "{out}");
    assert!(!out.contains("cluster-admin"), "{out}");
}
