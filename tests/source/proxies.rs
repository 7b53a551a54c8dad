//! Proxies of the environment: asked for servers elsewhere, never for this machine.

use std::path::Path;

use super::server::Server;
use super::support::{Said, User, chart, helm4, ours};

#[test]
fn proxies_are_asked_as_helm_asks_them() {
    let (proxy, server, user) = (Server::plain(), Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.0.0", "");
    user.ok(&["package", "web"]);
    let package = std::fs::read(user.path("web-1.0.0.tgz")).unwrap();
    let far = "http://charts.example.test/web-1.0.0.tgz";
    proxy.body(far, package.clone());
    server.body("/web-1.0.0.tgz", package);
    let near = format!("{}/web-1.0.0.tgz", server.url);
    let place = proxy.url.replace("http://", "http://me:secret@");
    let show = |program: &Path, url: &str| -> Said {
        let mut command = user.command(program, &["show", "chart", url]);
        command.env("HTTP_PROXY", &place).output().unwrap().into()
    };
    for program in [helm4(), ours()] {
        let said = show(program, far);
        assert!(said.ok && said.out.contains("name: web"), "{}", said.err);
        let asked = proxy.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0].path, far);
        assert_eq!(asked[0].headers["proxy-authorization"], "Basic bWU6c2VjcmV0");
        let said = show(program, &near);
        assert!(said.ok && said.out.contains("name: web"), "{}", said.err);
        assert!(proxy.asked().is_empty());
        let asked = server.asked();
        assert!(asked.len() == 1 && !asked[0].headers.contains_key("proxy-authorization"), "{asked:?}");
    }
}
