//! Verbs and flags that need no cluster, beside real Helm's.

use std::fs;
use std::path::Path;

use super::server::Server;
use super::support::{User, chart};
use windlass_testing::write_file;

/// Arguments behind a verb.
type Flags<'f> = &'f [&'f str];
/// Names and values of the environment.
type Variables<'v> = &'v [(&'v str, &'v str)];

/// Standard output of ours and of Helm's with the same variables.
fn both(user: &User, args: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let text = |program: &Path| {
        let output = user.command(program, args).envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{args:?}\n{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let helm = windlass_testing::Tool::Helm4.path().unwrap();
    (text(Path::new(env!("CARGO_BIN_EXE_windlass"))), text(&helm))
}

#[test]
fn the_environment_is_helms() {
    let user = User::new();
    let config = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, namespace: there}}]\n\
                  clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n";
    user.write("kube.yaml", config);
    let kubeconfig = user.path("kube.yaml").display().to_string();
    let cases: [(Flags<'_>, Variables<'_>); 5] = [
        (&[], &[]),
        (&["-n", "here", "--debug", "--kube-token", "t", "--kube-as-user", "me"], &[]),
        (&[], &[("KUBECONFIG", &kubeconfig), ("HELM_QPS", "2.5"), ("HELM_BURST_LIMIT", "7")]),
        (
            &["--repository-config", "r.yaml", "--kube-ca-file=c"],
            &[("XDG_DATA_HOME", "/d"), ("HELM_MAX_HISTORY", "3")],
        ),
        (
            &["--registry-config", "x"],
            &[("HELM_CACHE_HOME", "/c"), ("HELM_PLUGINS", "/p:/q"), ("HELM_DEBUG", "1")],
        ),
    ];
    let lines = |text: &str| -> Vec<String> {
        text.lines().filter(|l| !l.starts_with("HELM_BIN=")).map(str::to_owned).collect()
    };
    for (flags, variables) in cases {
        let args: Vec<&str> = ["env"].iter().chain(flags).copied().collect();
        let (own, theirs) = both(&user, &args, variables);
        assert_eq!(lines(&own), lines(&theirs), "{args:?} {variables:?}");
    }
    for name in ["HELM_NAMESPACE", "HELM_PLUGINS", "NOTHING"] {
        let (own, theirs) = both(&user, &["env", name], &[]);
        assert_eq!(own, theirs, "{name}");
    }
}

#[test]
fn the_version_is_told_in_helms_forms() {
    let user = User::new();
    let own = format!("v{}", env!("CARGO_PKG_VERSION"));
    // What scripts parse is Helm's.
    assert_eq!(user.ok(&["version", "--short"]), user.helm_ok(&["version", "--short"]));
    let (long, theirs) = (user.ok(&["version"]), user.helm_ok(&["version"]));
    assert!(long.ends_with(&format!(", WindlassVersion:\"{own}\"}}\n")), "{long}");
    let field = |text: &str, name: &str| {
        text.split_once(&format!("{name}:\"")).and_then(|(_, v)| v.split_once('"')).map(|(v, _)| v.to_owned())
    };
    for name in ["Version", "GitCommit", "GitTreeState", "KubeClientVersion"] {
        assert_eq!(field(&long, name), field(&theirs, name), "{name}");
    }
    let text = user.ok(&["version", "--template", "{{ printf \"%q\" .Version }} by {{.WindlassVersion}}"]);
    assert!(text.starts_with("\"v4.") && text.ends_with(&format!("\" by {own}")), "{text}");
    assert!(user.ok(&["version", "--short", "--compat", "helm3"]).starts_with("v3."));
    let (own, theirs) =
        (user.fails(&["version", "--template", "{{"]), user.helm(&["version", "--template", "{{"]));
    assert_eq!(own, theirs.err);
}

#[test]
fn values_are_shown_by_a_path() {
    let user = User::new();
    chart(&user.path("web"), "web", "1.0.0", "");
    let values = "a: {b: text, n: 3, f: 1.5, big: 1e21, t: true, nil: null, 'x.y': dot}\n\
                  list: [{name: one, n: 1, ok: true}, {name: two, n: 2}, {name: 'a)b', n: 3}]\nplain: [1, 2, 3, 4, 5]\nempty: []\n";
    write_file(user.path("web/values.yaml"), values);
    for path in [
        "{.a.b}",
        "{.a}",
        "a{.a.b}b{.a.n} {.a.f}|{.a.big}|{.a.t}|{.a.nil}",
        "{$.a['b']} {.a['x.y']} {.a.x\\.y}",
        "{.list[0]}",
        "{.list[-1].name}",
        "{.list[*].name}",
        "{.list[0:2].name}",
        "{.plain[::2]} {.plain[1:]} {.plain[-2:]} {.plain[0,2]} {.empty[*]}",
        "{.list[?(@.n==2)].name}",
        "{.list[?(@.name==\"two\")].n}",
        "{.list[?(@.name=='a)b')].n}",
        "{.list[?(@.ok)].name}",
        "{.list[?(@.name>\"one\")].name}",
        "{.list[?(@.name!=\"one\")].name}",
        "{range .list[*]}{.name}={.n}{\"\\n\"}{end}done",
        "{range .list[*]}[{.name}{range .n}]{end}{end}",
        "{..name}",
        "{.list..n}",
        "{['a','plain']}",
        "{.missing}",
        "{.a.missing} {.a.b}",
        "{.plain[9]}",
        "{\"quoted\"} {'single'} {true} {7}",
        "no action",
        "",
        "{.a.b",
        "{.a[x]}",
        "{.list[?(@.n}",
        "{.a....b}",
        "{#}",
    ] {
        let args = ["show", "values", "web", "--jsonpath", path];
        let (own, theirs) = (user.ours(&args), user.helm(&args));
        assert_eq!((own.ok, own.out, own.err), (theirs.ok, theirs.out, theirs.err), "{path}");
    }
}

#[test]
fn booleans_take_values_and_templates_name_releases() {
    let user = User::new();
    chart(&user.path("web"), "web", "1.0.0", "");
    fs::remove_file(user.path("web/crds/thing.yaml")).unwrap();
    for args in [
        &["template", "web", "--include-crds=true", "--skip-tests=false", "--debug=false"][..],
        &["template", "web", "--name-template", "{{ \"made\" | upper | lower }}-up"],
        &["template", "x", "web", "--name-template", "y"],
        &["install", "x", "web", "--name-template", "y"],
        &["install", "web", "--name-template", "{{"],
        &["install", "x", "web", "-g"],
        &["install", "web"],
    ] {
        let (own, theirs) = (user.ours(args), user.helm(args));
        assert_eq!((own.ok, &own.out), (theirs.ok, &theirs.out), "{args:?}\n{}{}", own.err, theirs.err);
    }
    let args = ["install", "web", "--name-template", "{{ \"a\" | repeat 3 }}", "--dry-run=client"];
    let name = |text: String| text.lines().find(|l| l.starts_with("NAME: ")).map(str::to_owned);
    assert_eq!(name(user.ok(&args)), Some("NAME: aaa".to_owned()));
    assert_eq!(name(user.helm_ok(&args)), Some("NAME: aaa".to_owned()));
}

#[test]
fn values_come_from_urls() {
    let (server, user) = (Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.0.0", "");
    server.body("/v.yaml", "size: from afar\n");
    server.body("/note.txt", "a note");
    server.answer("/moved.yaml", super::server::Answer::Redirect(format!("{}/v.yaml", server.url)));
    let url = |path: &str| format!("{}{path}", server.url);
    let file = format!("size={}", url("/note.txt"));
    for args in [
        &["template", "web", "-f", &url("/v.yaml")][..],
        &["template", "web", "-f", &url("/moved.yaml")],
        &["template", "web", "--set-file", &file],
        &["lint", "web", "-f", &url("/v.yaml")],
        &["install", "x", "web", "--dry-run=client", "-f", &url("/v.yaml"), "-o", "json"],
        &["template", "web", "-f", &url("/none.yaml")],
    ] {
        let (own, theirs) = (user.ours(args), user.helm(args));
        assert_eq!(own.ok, theirs.ok, "{args:?}\n{}{}", own.err, theirs.err);
        if args[0] == "template" {
            assert_eq!((&own.out, &own.err), (&theirs.out, &theirs.err), "{args:?}");
        }
        assert_eq!(own.out.contains("from afar"), theirs.out.contains("from afar"), "{args:?}");
    }
    server.answer("/v.yaml", super::server::Answer::Endless);
    let error = user.fails(&["template", "web", "-f", &url("/v.yaml")]);
    assert!(error.contains("the answer is larger than 104857600 bytes"), "{error}");
    let error = user.fails(&["template", "web", "--offline", "-f", &url("/v.yaml")]);
    assert!(error.contains("offline mode forbids"), "{error}");
}
