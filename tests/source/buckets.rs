//! Packages in buckets, as far as a server on loopback can tell: where they are asked for, and by whom.

use std::fs;
use std::path::Path;

use super::server::{Answer, Server};
use super::support::{User, chart};

#[test]
fn buckets_are_asked_as_their_servers_want_it() {
    let (server, elsewhere, user) = (Server::plain(), Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.0.0", "");
    user.ok(&["package", "web"]);
    let package = fs::read(user.path("web-1.0.0.tgz")).unwrap();
    server.body("/charts/team/web-1.0.0.tgz", package.clone());
    elsewhere.body("/web-1.0.0.tgz", package);
    let show = |reference: &str, variables: &[(&str, &str)]| {
        let mut command =
            user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), &["show", "chart", reference]);
        command.env("AWS_ENDPOINT_URL", &server.url).env("STORAGE_EMULATOR_HOST", &server.url);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        server.asked().remove(0).headers
    };
    let keys =
        [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_SESSION_TOKEN", "token")];
    let s3 = "s3://charts/team/web-1.0.0.tgz";
    assert!(!show(s3, &[]).contains_key("authorization"));
    let headers = show(s3, &keys);
    let said = &headers["authorization"];
    assert!(said.starts_with("AWS4-HMAC-SHA256 Credential=id/") && said.contains("/us-east-1/s3/"), "{said}");
    assert!(
        said.contains("SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"),
        "{said}"
    );
    assert_eq!(headers["x-amz-security-token"], "token");
    let headers = show("gs://charts/team/web-1.0.0.tgz", &[("GOOGLE_OAUTH_ACCESS_TOKEN", "token")]);
    assert_eq!(headers["authorization"], "Bearer token");
    // Who is sent elsewhere says nothing there.
    server.answer("/charts/team/web-1.0.0.tgz", Answer::Redirect(format!("{}/web-1.0.0.tgz", elsewhere.url)));
    show(s3, &keys);
    let asked = elsewhere.asked().remove(0).headers;
    assert!(!asked.contains_key("authorization") && !asked.contains_key("x-amz-security-token"), "{asked:?}");
}
