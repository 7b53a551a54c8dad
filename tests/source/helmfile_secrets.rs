//! Secret references of helmfiles, from servers on loopback with the shapes of their APIs: who asks, how often, and what is refused.

use super::server::{Answer, Certificates, Server};
use super::support::{Said, User, ours};

/// The values of an environment whose entries are references.
fn values(user: &User, references: &[&str], variables: &[(&str, &str)]) -> Said {
    let entries: Vec<String> = references
        .iter()
        .enumerate()
        .map(|(at, reference)| {
            format!("v{at}: {{{{ (expandSecretRefs (dict \"v\" \"ref+{reference}\")).v | toJson }}}}")
        })
        .collect();
    let text = format!("environments: {{default: {{values: [{{{}}}]}}}}\n", entries.join(", "));
    user.write("helmfile.yaml.gotmpl", &text);
    let mut command = user.command(ours(), &["helmfile", "print-env"]);
    command.envs(variables.iter().copied()).output().unwrap().into()
}

fn are_read(user: &User, references: &[&str], variables: &[(&str, &str)], want: &[&str]) {
    let said = values(user, references, variables);
    assert!(said.ok, "{references:?}\n{}", said.err);
    for (at, want) in want.iter().enumerate() {
        assert!(said.out.contains(&format!("v{at}: {want}\n")), "{references:?}\n{}", said.out);
    }
}

fn is_refused(user: &User, reference: &str, variables: &[(&str, &str)], words: &str) {
    let said = values(user, &[reference], variables);
    assert!(
        !said.ok && said.err.contains(words) && !said.err.contains("hunter2"),
        "{reference}\n{}",
        said.err
    );
}

#[test]
fn vault_is_asked_once_for_each_secret() {
    let (server, user) = (Server::plain(), User::new());
    let mount = |path: &str, version: &str| {
        format!("{{\"data\": {{\"path\": \"{path}/\", \"options\": {{\"version\": \"{version}\"}}}}}}")
    };
    server.body("/v1/sys/internal/ui/mounts/kv2/app/web", mount("kv2", "2"));
    server.body("/v1/sys/internal/ui/mounts/old/app", mount("old", "1"));
    server.body(
        "/v1/kv2/data/app/web",
        r#"{"data": {"data": {"password": "hunter2", "port": 5432, "b": "aHVudGVyMg=="}, "metadata": {"version": 3}}}"#,
    );
    server.body("/v1/kv2/data/app/web?version=1", r#"{"data": {"data": {"password": "older"}}}"#);
    server.body("/v1/old/app", r#"{"data": {"password": "plain"}}"#);
    server.guard(|asked| {
        asked.headers.get("x-vault-token").map(String::as_str) == Some("token")
            && asked.headers.get("x-vault-namespace").map(String::as_str) == Some("team")
            && asked.headers.contains_key("x-vault-request")
    });
    let own = [("VAULT_ADDR", server.url.as_str()), ("VAULT_TOKEN", "token"), ("VAULT_NAMESPACE", "team")];
    are_read(
        &user,
        &[
            "vault://kv2/app/web#/password",
            "vault://kv2/app/web#/port",
            "vault://kv2/app/web/password",
            "vault://kv2/app/web/b?decode=base64",
            "vault://old/app#/password",
        ],
        &own,
        &["hunter2", "5432", "hunter2", "hunter2", "plain"],
    );
    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    assert_eq!(
        asked.iter().filter(|path| path.starts_with("/v1/sys")).count(),
        2,
        "each engine is looked up once: {asked:?}"
    );
    are_read(&user, &["vault://kv2/app/web?version=1#/password"], &own, &["older"]);
    user.write("token", "token\n");
    let address = format!("address={}&namespace=team", server.url);
    let other = [("VAULT_ADDR", "http://127.0.0.1:1"), ("VAULT_TOKEN", "hunter2")];
    are_read(&user, &[&format!("vault://old/app?{address}&token_file=token#/password")], &other, &["plain"]);
    server.asked();
    is_refused(
        &user,
        &format!("vault://old/app?{address}#/password"),
        &other,
        "your credentials are for VAULT_ADDR",
    );
    assert!(server.asked().is_empty());
    is_refused(&user, "vault://old/app#/none", &own, "no value found for key none");
    is_refused(&user, "vault://old/none#/x", &own, "no secret found");
    is_refused(&user, "vault://old/app#/password", &[own[0], own[2], ("VAULT_TOKEN", "hunter2")], "401");
}

#[test]
fn logins_of_vault_give_tokens() {
    let (server, user) = (Server::plain(), User::new());
    let login = r#"{"auth": {"client_token": "issued"}}"#;
    for path in ["approle/login", "kubernetes/login", "people/login/me"] {
        server.body(&format!("/v1/auth/{path}"), login);
    }
    server.body("/v1/old/app", r#"{"data": {"password": "plain"}}"#);
    server.guard(|asked| match asked.path.as_str() {
        "/v1/auth/approle/login" => asked.body == r#"{"role_id":"r","secret_id":"s"}"#,
        "/v1/auth/kubernetes/login" => asked.body == r#"{"jwt":"pod","role":"r"}"#,
        "/v1/auth/people/login/me" => asked.body == r#"{"password":"hunter2"}"#,
        _ => asked.headers.get("x-vault-token").map(String::as_str) == Some("issued"),
    });
    user.write("jwt", "pod\n");
    let address = ("VAULT_ADDR", server.url.as_str());
    let reference = |parameters: &str| format!("vault://old/app?{parameters}#/password");
    for (parameters, variables) in [
        ("auth_method=approle&role_id=r&secret_id=s", vec![address]),
        ("role_id=r", vec![address, ("VAULT_AUTH_METHOD", "approle"), ("VAULT_SECRET_ID", "s")]),
        ("auth_method=kubernetes&role_id=r", vec![address, ("VAULT_KUBERNETES_JWT_TOKEN_PATH", "jwt")]),
        (
            "auth_method=userpass&username=me&password_env=PW",
            vec![address, ("PW", "hunter2"), ("VAULT_LOGIN_MOUNT_POINT", "/people")],
        ),
    ] {
        are_read(&user, &[&reference(parameters)], &variables, &["plain"]);
    }
    let wrong = [address, ("VAULT_SECRET_ID", "hunter2")];
    is_refused(&user, &reference("auth_method=approle&role_id=r"), &wrong, "401");
}

#[test]
fn secrets_and_parameters_of_aws_are_asked_for_with_signatures() {
    let (server, user) = (Server::plain(), User::new());
    let own = [
        ("AWS_ENDPOINT_URL", server.url.as_str()),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "eu-north-1"),
    ];
    let asked = |target: &str, region: &str, service: &str, body: &str| {
        let asked = server.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!((asked[0].headers["x-amz-target"].as_str(), asked[0].body.as_str()), (target, body));
        let signature = &asked[0].headers["authorization"];
        assert!(signature.contains(&format!("/{region}/{service}/aws4_request")), "{signature}");
    };
    server.answer_all(Answer::Body(br#"{"SecretString": "{\"user\": \"me\", \"n\": 3}"}"#.to_vec()));
    are_read(&user, &["awssecrets://app/db#/user", "awssecrets://app/db#/n"], &own, &["me", "3"]);
    asked("secretsmanager.GetSecretValue", "eu-north-1", "secretsmanager", r#"{"SecretId":"app/db"}"#);
    let arn = "arn:aws:secretsmanager:us-east-1:1:secret:x";
    let reference = format!("awssecrets://{arn}?region=us-west-2&version_id=1&version_stage=S#/user");
    are_read(&user, &[&reference], &own, &["me"]);
    let body = format!(r#"{{"SecretId":"{arn}","VersionId":"1","VersionStage":"S"}}"#);
    asked("secretsmanager.GetSecretValue", "us-west-2", "secretsmanager", &body);
    server.answer_all(Answer::Body(br#"{"SecretBinary": "Ymlu"}"#.to_vec()));
    are_read(&user, &["awssecrets://app/bin"], &own, &["bin"]);
    server.asked();
    server.answer_all(Answer::Body(br#"{"Parameter": {"Value": "a: {b: deep}"}}"#.to_vec()));
    are_read(&user, &["awsssm://app/one?mode=singleparam&version=2#/a/b"], &own, &["deep"]);
    asked("AmazonSSM.GetParameter", "eu-north-1", "ssm", r#"{"Name":"/app/one:2","WithDecryption":true}"#);
    let parameters =
        r#"{"Parameters": [{"Name": "/app/db/user", "Value": "me"}, {"Name": "/app/port", "Value": "1"}]}"#;
    server.answer_all(Answer::Body(parameters.as_bytes().to_vec()));
    let references = ["awsssm:///app?recursive=true#/db/user", "awsssm:///app?recursive=true#/port"];
    are_read(&user, &references, &own, &["me", "\"1\""]);
    asked(
        "AmazonSSM.GetParametersByPath",
        "eu-north-1",
        "ssm",
        r#"{"Path":"/app","Recursive":true,"WithDecryption":true}"#,
    );
    server.answer_all(Answer::Status(400));
    is_refused(&user, "awssecrets://app/none", &own, "400");
    // A path stands for several secrets only if none has the name.
    for (kind, count) in [("ResourceNotFoundException", 2), ("AccessDeniedException", 1)] {
        server.asked();
        server.answer_all(Answer::Refusal(400, format!("{{\"__type\": \"com.amazonaws#{kind}\"}}")));
        is_refused(
            &user,
            "awssecrets://ResourceNotFoundException#/x",
            &own,
            &format!("400 Bad Request: {kind}"),
        );
        assert_eq!(server.asked().len(), count, "{kind}");
    }
    server.answer_all(Answer::Body(b"hunter2".to_vec()));
    is_refused(&user, "awssecrets://app/none", &own, "did not answer with JSON");
    is_refused(&user, "awssecrets://app/none?region=evil.example/", &own[1..], "is not the name of a region");
}

#[test]
fn secrets_of_google_are_asked_for_with_a_token() {
    let (server, user) = (Server::plain(), User::new());
    server.require("Bearer token");
    let own = [
        ("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", server.url.as_str()),
        ("GOOGLE_OAUTH_ACCESS_TOKEN", "token"),
        ("GCP_PROJECT", "mine"),
    ];
    // `user: me` and a line feed.
    let answer = r#"{"payload": {"data": "dXNlcjogbWUK"}}"#;
    server.body("/v1/projects/p/secrets/db/versions/latest:access", answer);
    server.body("/v1/projects/mine/secrets/db/versions/2:access", answer);
    are_read(
        &user,
        &["gcpsecrets://p/db#/user", "gcpsecrets://p/db?trim_nl=true"],
        &own,
        &["me", "'user: me'"],
    );
    are_read(&user, &["gcpsecrets://db?version=2#/user"], &own, &["me"]);
    are_read(
        &user,
        &["gcpsecrets://p/none?fallback_value=f", "gcpsecrets://p/none?optional=true"],
        &own,
        &["f", "\"\""],
    );
    is_refused(&user, "gcpsecrets://p/none", &own, "does not exist");
    is_refused(
        &user,
        "gcpsecrets://p/db?fallback_value=f",
        &[own[0], ("GOOGLE_OAUTH_ACCESS_TOKEN", "hunter2")],
        "401",
    );
}

#[test]
fn secrets_of_azure_are_asked_for_with_a_token() {
    let (server, tokens, user) = (Server::tls(Certificates::new(false), false), Server::plain(), User::new());
    user.write("authority.pem", &server.certificates().authority);
    tokens.body("/tenant/oauth2/v2.0/token", r#"{"access_token": "token"}"#);
    server.require("Bearer token");
    server.body("/secrets/db?api-version=7.4", r#"{"value": "user: me"}"#);
    server.body("/secrets/db/2?api-version=7.4", r#"{"value": "older"}"#);
    let authority = user.path("authority.pem").display().to_string();
    let own = [
        ("SSL_CERT_FILE", authority.as_str()),
        ("WINDLASS_AZURE_KEYVAULT_URL", server.url.as_str()),
        ("AZURE_AUTHORITY_HOST", tokens.url.as_str()),
        ("AZURE_TENANT_ID", "tenant"),
        ("AZURE_CLIENT_ID", "client"),
        ("AZURE_CLIENT_SECRET", "hunter2"),
    ];
    let reference = |rest: &str| format!("azurekeyvault://team/{rest}");
    are_read(&user, &[&reference("db#/user"), &reference("db/2")], &own, &["me", "older"]);
    let asked = tokens.asked();
    assert!(asked[0].body.contains("vault%2Eazure%2Enet"), "the token is for key vaults");
    assert_eq!(asked.len(), 1, "a token is for all secrets of a run");
    is_refused(&user, &reference("none"), &own, "404");
    is_refused(&user, "azurekeyvault://evil.example/db", &own, "not a host of a key vault");
}
