//! Packages: made, taken apart and shown as Helm does it.

use std::fs;
use std::path::Path;

use super::repositories::{repository, serve};
use super::server::Server;
use super::support::{Said, User, chart, helm4, ours, package};
use windlass_testing::write_file;

/// A chart with an unpacked and a packed dependency, and one of the old form.
fn family(user: &User) -> [String; 2] {
    let root = user.path("family");
    let dependencies = "dependencies:\n- name: child\n  version: ^1\n  repository: \"\"\n  import-values: [data, {child: a, parent: b}]\n\
                        - name: packed\n  version: 0.1.0\n  repository: \"\"\n  alias: other\n  tags: [x]\n  condition: other.on\n";
    chart(&root, "family", "1.0.0+build", dependencies);
    chart(&root.join("charts/child"), "child", "1.5.0", "");
    chart(&user.path("packed"), "packed", "0.1.0", "type: library\nannotations: {b: \"2\", a: \"1\"}\n");
    user.helm_ok(&["package", "packed", "-d", root.join("charts").to_str().unwrap()]);
    write_file(
        root.join("Chart.lock"),
        "dependencies:\n- name: child\n  repository: \"\"\n  version: ^1\n- name: packed\n  repository: \"\"\n  version: 0.1.0\n\
         digest: sha256:00\ngenerated: \"2026-01-02T03:04:05.678Z\"\n",
    );
    let old = user.path("old");
    chart(&old, "old", "0.0.1", "");
    let text = fs::read_to_string(old.join("Chart.yaml")).unwrap().replace("apiVersion: v2\n", "");
    write_file(old.join("Chart.yaml"), &text);
    chart(&old.join("charts/child"), "child", "1.5.0", "");
    write_file(
        old.join("requirements.yaml"),
        "dependencies:\n- name: child\n  version: 1.5.0\n  repository: \"\"\n",
    );
    ["family".to_owned(), "old".to_owned()]
}

#[test]
fn packages_have_the_content_of_helms() {
    let user = User::new();
    for name in family(&user) {
        for flags in [&[][..], &["--version", "3.2.1", "--app-version", "x"]] {
            fs::create_dir_all(user.path("theirs")).unwrap();
            let helm = user.helm_ok(&[&["package", &name, "-d", "theirs"], flags].concat());
            let own = user.ok(&[&["package", &name, "-d", "ours"], flags].concat());
            assert_eq!(own, helm.replace("theirs", "ours"));
            let file = helm.trim().rsplit('/').next().unwrap();
            let (ours, theirs) = (
                package(&user.path(&format!("ours/{file}"))),
                package(&user.path(&format!("theirs/{file}"))),
            );
            let names = |p: &[(String, String)]| p.iter().map(|f| f.0.clone()).collect::<Vec<_>>();
            let sorted = |mut p: Vec<(String, String)>| {
                // Helm takes subcharts in random order.
                p.sort();
                p
            };
            assert_eq!(names(&ours).len(), names(&theirs).len());
            assert_eq!(sorted(ours), sorted(theirs));
            let args = ["template", "x", &format!("ours/{file}")];
            assert_eq!(user.helm(&args).out, user.ours(&args).out);
        }
    }
    // The same bytes each time.
    let first = fs::read(user.path("ours/old-0.0.1.tgz")).unwrap();
    user.ok(&["package", "old", "-d", "ours"]);
    assert_eq!(fs::read(user.path("ours/old-0.0.1.tgz")).unwrap(), first);
}

#[test]
fn a_time_for_all_files_stands_in_the_lock_too() {
    let user = User::new();
    let [name, _] = family(&user);
    let run = |program: &Path, to: &str, epoch: &str| -> Said {
        let args = ["package", &name, "-d", to];
        user.command(program, &args).env("SOURCE_DATE_EPOCH", epoch).output().unwrap().into()
    };
    for epoch in ["1700000000", "", "0"] {
        let lock = |program, to| {
            assert!(run(program, to, epoch).ok, "{epoch}");
            let files = package(&user.path(&format!("{to}/family-1.0.0+build.tgz")));
            files.into_iter().find(|f| f.0 == "family/Chart.lock").unwrap().1
        };
        assert_eq!(lock(ours(), "ours"), lock(helm4(), "theirs"), "{epoch}");
    }
    for epoch in ["x", "-1", "1.5", "99999999999999999999"] {
        let (own, theirs) = (run(ours(), "ours", epoch), run(helm4(), "theirs", epoch));
        assert!(!own.ok && !theirs.ok, "{epoch}");
        assert_eq!(own.err, theirs.err, "{epoch}");
    }
}

#[test]
fn what_cannot_be_packed_is_told_as_helm_tells_it() {
    let user = User::new();
    chart(&user.path("ok"), "ok", "1.0.0", "");
    chart(
        &user.path("missing"),
        "missing",
        "1.0.0",
        "dependencies:\n- {name: gone, version: 1.0.0, repository: \"\"}\n",
    );
    chart(&user.path("schema"), "schema", "1.0.0", "");
    user.write("schema/values.schema.json", "{");
    user.write("file", "");
    for args in [
        &["package", "nowhere"][..],
        &["package", "missing"],
        &["package", "ok", "--version", "x"],
        &["package", "schema"],
    ] {
        let (theirs, own) = (user.helm(args), user.ours(args));
        assert!(!own.ok && !theirs.ok, "{args:?}\n{}", theirs.err);
        assert_eq!(own.err, theirs.err, "{args:?}");
    }
    assert_eq!(user.files("").iter().filter(|f| f.ends_with(".tgz")).count(), 0);
}

#[test]
fn an_index_is_as_helms() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let nested = user.path("repository/more");
    fs::create_dir_all(&nested).unwrap();
    fs::copy(user.path("repository/web-1.2.3.tgz"), nested.join("web-1.2.3.tgz")).unwrap();
    user.write("repository/broken.tgz", "not a package");
    user.write("old.yaml", "apiVersion: v1\nentries:\n  gone:\n  - {name: gone, version: 1.0.0, urls: [x], created: \"2020-01-01T00:00:00Z\"}\n");
    // All but the times at which it was made.
    let index = |user: &User| -> String {
        let text = user.read("repository/index.yaml");
        let keep = |l: &&str| {
            !l.trim_start_matches(['-', ' ']).starts_with("created:") && !l.starts_with("generated:")
        };
        text.lines().filter(keep).collect::<Vec<_>>().join("\n")
    };
    for flags in [&[][..], &["--url", "https://h/x/"], &["--merge", "old.yaml"]] {
        user.helm_ok(&[&["repo", "index", "repository"], flags].concat());
        let theirs = index(&user);
        user.ok(&[&["repo", "index", "repository"], flags].concat());
        assert_eq!(index(&user), theirs, "{flags:?}");
    }
    user.ok(&["repo", "index", "repository", "--json"]);
    serve(&user, &server);
    user.helm_ok(&["repo", "add", "a", &format!("{}/charts", server.url)]);
    assert_eq!(user.ok(&["search", "repo", "-l"]), user.helm_ok(&["search", "repo", "-l"]));
}

#[test]
fn charts_are_shown_as_helm_shows_them() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    family(&user);
    user.ok(&["repo", "add", "a", &format!("{}/charts", server.url)]);
    for reference in ["family", "old", "a/web", "repository/web-1.2.3.tgz"] {
        for what in ["all", "chart", "values", "readme", "crds"] {
            let args = ["show", what, reference];
            assert_eq!(user.ok(&args), user.helm_ok(&args), "{args:?}");
        }
    }
}

#[test]
fn pulled_is_what_helm_pulls() {
    let (server, user) = (Server::plain(), User::new());
    repository(&user, &server);
    let url = format!("{}/charts", server.url);
    user.ok(&["repo", "add", "a", &url]);
    let cases: [&[&str]; 7] = [
        &["a/web"],
        &["a/web", "--version", "~1.2"],
        &["a/web", "--devel"],
        &["a/web", "a/database"],
        &["web", "--repo", &url, "--version", "1.2.3"],
        &["a/web", "--untar"],
        &["a/web", "--untar", "--untardir", "inner", "--version", "1.2.3"],
    ];
    for case in cases {
        for dir in ["theirs", "ours"] {
            fs::create_dir_all(user.path(dir)).unwrap();
        }
        let (theirs, own) = (
            user.helm(&[&["pull", "-d", "theirs"], case].concat()),
            user.ours(&[&["pull", "-d", "ours"], case].concat()),
        );
        assert_eq!((own.ok, own.out, own.err), (theirs.ok, theirs.out, theirs.err), "{case:?}");
        let files = user.files("theirs");
        assert!(!files.is_empty() && user.files("ours") == files, "{case:?} {files:?}");
        for file in files {
            let read = |dir: &str| fs::read(user.path(&format!("{dir}/{file}"))).unwrap();
            assert_eq!(read("ours"), read("theirs"), "{file}");
        }
        if case.contains(&"--untar") {
            let again = user.fails(&[&["pull", "-d", "ours"], case].concat());
            assert!(again.contains("failed to untar: a file or directory with the name"), "{again}");
        }
        fs::remove_dir_all(user.path("theirs")).unwrap();
        fs::remove_dir_all(user.path("ours")).unwrap();
    }
}

#[test]
fn nothing_leaves_the_directory_that_it_is_unpacked_in() {
    let (server, user) = (Server::plain(), User::new());
    for (n, name) in ["../../evil", "web/../../evil", "web//evil", "web/C:/evil"].into_iter().enumerate() {
        let mut out =
            tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        for (path, data) in [("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"), (name, "x")] {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            header.set_cksum();
            out.append(&header, data.as_bytes()).unwrap();
        }
        let path = format!("/web{n}.tgz");
        server.body(&path, out.into_inner().unwrap().finish().unwrap());
        let reference = format!("{}{path}", server.url);
        let said = user.ours(&["pull", "--untar", "-d", "d", &reference]);
        assert!(!said.ok, "{name}\n{}", said.out);
        assert!(user.files("").iter().all(|f| !f.contains("evil")), "{name}");
        assert!(user.files("d").is_empty(), "{name}: {:?}", user.files("d"));
    }
}

#[test]
fn a_new_chart_is_one_for_helm() {
    let user = User::new();
    assert_eq!(user.ok(&["create", "shop-web"]), "Creating shop-web\n");
    for (program, args) in
        [(helm4(), ["lint", "--strict", "shop-web"]), (ours(), ["lint", "--strict", "shop-web"])]
    {
        let said = Said::from(user.command(program, &args).output().unwrap());
        assert!(said.ok && !said.out.contains("WARNING"), "{}{}", said.out, said.err);
    }
    for flags in [
        &[][..],
        &["--set", "ingress.enabled=true,ingress.tlsSecret=t,ingress.className=c,replicas=3"],
        &["--set", "serviceAccount.create=false,nameOverride=n,podLabels.a=b,tolerations[0].key=k"],
    ] {
        let args = [&["template", "r", "shop-web"], flags].concat();
        let rendered = user.ok(&args);
        assert_eq!(rendered, user.helm_ok(&args));
        assert!(rendered.contains("image: \"nginx:stable\""), "{rendered}");
    }
    // A chart as a starter, by both.
    chart(&user.path(".local/share/helm/starters/mine"), "mine", "3.0.0", "");
    write_file(user.path(".local/share/helm/starters/mine/templates/name.yaml"), "name: <CHARTNAME>\n");
    write_file(
        user.path(".local/share/helm/starters/mine/values.yaml"),
        "# For <CHARTNAME>\na: <CHARTNAME>\n",
    );
    let own = user.ok(&["create", "own/it", "-p", "mine"]);
    fs::create_dir_all(user.path("theirs")).unwrap();
    let theirs = user.helm_ok(&["create", "theirs/it", "-p", "mine"]);
    assert_eq!(own, theirs.replace("theirs", "own"));
    for file in ["Chart.yaml", "values.yaml", "templates/name.yaml"] {
        assert_eq!(user.read(&format!("own/it/{file}")), user.read(&format!("theirs/it/{file}")), "{file}");
    }
}
