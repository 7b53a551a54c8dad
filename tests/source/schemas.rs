//! Documents that a `values.schema.json` refers to outside the chart: from files and a server, beside Helm 4.

use super::server::{Answer, Server};
use super::support::User;

/// A chart whose schema is a reference, rendered by Helm and by us: equal in all that they say.
fn same(user: &User, reference: &str, verb: &[&str]) -> String {
    user.write("demo/values.schema.json", &format!("{{\"$ref\": \"{reference}\"}}"));
    let args = [verb, &["demo"]].concat();
    let (helm, ours) = (user.helm(&args), user.ours(&args));
    assert_eq!((ours.ok, &ours.out, &ours.err), (helm.ok, &helm.out, &helm.err), "{verb:?} {reference}");
    ours.out + &ours.err
}

fn user() -> User {
    let user = User::new();
    user.write("demo/Chart.yaml", "apiVersion: v2\nname: demo\nversion: 1.0.0\nicon: x.svg\n");
    user.write("demo/values.yaml", "size: many\n");
    user.write("demo/templates/a.yaml", "kind: List\nsize: {{ .Values.size }}\n");
    user
}

#[test]
fn schemas_come_from_servers_as_helm_fetches_them() {
    let (user, server) = (user(), Server::plain());
    let wants = |kind: &str| format!("{{\"properties\": {{\"size\": {{\"type\": \"{kind}\"}}}}}}");
    server.body("/text.json", wants("string"));
    server.body("/number.json", wants("number"));
    server.body("/deep/far.json", "{\"$ref\": \"../number.json\"}");
    server.body("/parts.json", format!("{{\"$defs\": {{\"part\": {}}}}}", wants("number")));
    server.body("/page.json", "<html>");
    server.body("/empty.json", "");
    server.body("/two.json", "{} {}");
    server.body("/wrong.json", "{\"type\": 3}");
    server.answer("/gone.json", Answer::Status(404));
    server.answer("/moved.json", Answer::Redirect("/number.json".to_owned()));
    let at = |path: &str| format!("{}{path}", server.url);
    let template = ["template", "x"];
    assert!(same(&user, &at("/text.json"), &template).contains("size: many"));
    for path in ["/number.json", "/deep/far.json", "/moved.json", "/parts.json#/$defs/part"] {
        assert!(same(&user, &at(path), &template).contains("got string, want number"), "{path}");
    }
    assert!(same(&user, &at("/parts.json#/$defs/none"), &template).contains("not found"));
    assert!(same(&user, &at("/gone.json"), &template).contains("returned status 404 (Not Found)"));
    for path in ["/page.json", "/empty.json", "/two.json", "/wrong.json"] {
        assert!(same(&user, &at(path), &template).contains("Error: "), "{path}");
    }
    assert!(same(&user, "http://127.0.0.1:1/s.json", &template).contains("connection refused"));
    assert!(same(&user, "ftp://127.0.0.1:1/s.json", &template).contains("no URLLoader"));
    assert!(same(&user, &at("/number.json"), &["lint"]).contains("got string, want number"));
    server.asked();
    same(&user, &at("/number.json"), &["template", "x", "--skip-schema-validation"]);
    assert!(server.asked().is_empty());
    let offline = user.fails(&["template", "--offline", "x", "demo"]);
    assert!(offline.contains("offline mode forbids fetching it") && server.asked().is_empty(), "{offline}");
}

#[test]
fn schemas_come_from_files_as_helm_reads_them() {
    let user = user();
    user.write("a b/s.json", "{\"required\": [\"colour\"]}");
    let home = user.path("");
    let at = |path: &str| format!("file://{}/{path}", home.display());
    let template = ["template", "x"];
    assert!(same(&user, &at("a%20b/s.json"), &template).contains("missing property 'colour'"));
    assert!(same(&user, &at("none.json"), &template).contains("no such file or directory"));
    assert!(same(&user, &at("demo"), &template).contains("is a directory"));
    assert!(same(&user, "../other.json", &template).contains("open /other.json"));
}
