//! Who asks for a package in a bucket: every place that credentials come from, and servers that check what they get.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_RSA_SHA256, PublicKeyData as _};
use sha2::{Digest as _, Sha256};

use super::server::{Asked, Server};
use super::support::{Said, User, chart};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Whether a request is signed by a secret as Amazon's documentation has it (signature version 4), and when.
pub(crate) fn is_signed(asked: &Asked, id: &str, secret: &str, region: &str) -> bool {
    let said = asked.headers.get("authorization").and_then(|a| a.strip_prefix("AWS4-HMAC-SHA256 "));
    let Some(said) = said else { return false };
    let parts: BTreeMap<&str, &str> = said.split(',').filter_map(|p| p.trim().split_once('=')).collect();
    let date = &asked.headers["x-amz-date"];
    let scope = format!("{}/{region}/s3/aws4_request", &date[..8]);
    let names = parts["SignedHeaders"];
    // What is said of who asks must itself be signed.
    let signs = |name: &str| names.split(';').any(|n| n == name);
    let needed = ["host", "x-amz-content-sha256", "x-amz-date"].iter().all(|n| signs(n))
        && (signs("x-amz-security-token") || !asked.headers.contains_key("x-amz-security-token"));
    let lines: String = names.split(';').map(|n| format!("{n}:{}\n", asked.headers[n])).collect();
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let request =
        format!("GET\n{path}\n{query}\n{lines}\n{names}\n{}", asked.headers["x-amz-content-sha256"]);
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(request)));
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in scope.split('/') {
        key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().to_vec();
    }
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), text.as_bytes());
    needed && parts["Credential"] == format!("{id}/{scope}") && parts["Signature"] == hex(signature.as_ref())
}

/// A user with a package, and a server that has it in a bucket.
pub(crate) fn bucket() -> (User, Server) {
    let (server, user) = (Server::plain(), User::new());
    chart(&user.path("web"), "web", "1.0.0", "");
    user.ok(&["package", "web"]);
    server.body("/charts/team/a%2Bb/web-1.0.0.tgz", fs::read(user.path("web-1.0.0.tgz")).unwrap());
    (user, server)
}

pub(crate) const S3: &str = "s3://charts/team/a+b/web-1.0.0.tgz";
const GS: &str = "gs://charts/team/a+b/web-1.0.0.tgz";

fn show(user: &User, reference: &str, variables: &[(&str, &str)]) -> Said {
    let mut command = user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), &["show", "chart", reference]);
    command.envs(variables.iter().copied()).output().unwrap().into()
}

#[test]
fn keys_come_from_variables_files_and_roles() {
    let (user, server) = bucket();
    let (tokens, url) = (Server::plain(), server.url.clone());
    let answer = "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><SessionToken>lent</SessionToken>\
                  <SecretAccessKey>s5</SecretAccessKey><AccessKeyId>id5</AccessKeyId></Credentials>\
                  </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
    tokens.body("/", answer);
    tokens.body("/agent", "{\"AccessKeyId\": \"id6\", \"SecretAccessKey\": \"s6\", \"Token\": \"lent\"}");
    tokens.body("/empty", "{}");
    user.write(
        ".aws/credentials",
        "[default]\naws_access_key_id = id2\naws_secret_access_key = s2\n\n[two]\naws_access_key_id=id3\naws_secret_access_key=s3\n\
         aws_session_token=lent\n",
    );
    user.write(
        ".aws/config",
        &format!("[default]\nregion = eu-north-1\nendpoint_url = {url}\n[profile two]\nregion = eu-west-3\nendpoint_url = {url}\n\
                  [profile role]\nrole_arn = arn:aws:iam::1:role/x\nweb_identity_token_file = {}\nendpoint_url = {url}\n[profile none]\n",
            user.path("token").display()),
    );
    user.write("other", "[default]\naws_access_key_id = id4\naws_secret_access_key = s4\n");
    user.write("token", "jwt+/=\n");
    let path = |name: &str| user.path(name).display().to_string();
    let (token, other, sts, agent) =
        (path("token"), path("other"), &tokens.url, format!("{}/agent", tokens.url));
    let nothing = path("nothing");
    let at = ("AWS_ENDPOINT_URL_S3", url.as_str());
    let role: &[(&str, &str)] = &[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", &token),
        ("AWS_ROLE_ARN", "arn:aws:iam::1:role/x"),
        ("AWS_ENDPOINT_URL_STS", sts),
        at,
    ];
    let container: &[(&str, &str)] = &[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &agent),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "me"),
        ("AWS_SHARED_CREDENTIALS_FILE", &nothing),
        at,
    ];
    let given: &[(&str, &str)] =
        &[("AWS_ACCESS_KEY_ID", "id1"), ("AWS_SECRET_ACCESS_KEY", "s1"), ("AWS_REGION", "r")];
    for (variables, id, secret, region, session) in [
        (given, "id1", "s1", "r", false),
        (&[][..], "id2", "s2", "eu-north-1", false),
        (&[("AWS_PROFILE", "two")], "id3", "s3", "eu-west-3", true),
        (&[("AWS_SHARED_CREDENTIALS_FILE", &other)], "id4", "s4", "eu-north-1", false),
        (role, "id5", "s5", "eu-north-1", true),
        (&[("AWS_PROFILE", "role"), ("AWS_ENDPOINT_URL_STS", sts)], "id5", "s5", "us-east-1", true),
        (container, "id6", "s6", "eu-north-1", true),
    ] {
        let owned = [id, secret, region].map(str::to_owned);
        server.guard(move |asked| is_signed(asked, &owned[0], &owned[1], &owned[2]));
        let said = show(&user, S3, variables);
        assert!(said.ok && said.out.contains("name: web"), "{variables:?}\n{}", said.err);
        let asked = server.asked().remove(0);
        assert_eq!(asked.headers.contains_key("x-amz-security-token"), session, "{variables:?}");
        assert!(fs::remove_dir_all(user.path(".cache")).is_ok());
    }
    let asked = tokens.asked();
    assert!(
        asked[0].body.contains("WebIdentityToken=jwt%2B%2F%3D") && !asked[0].path.contains("jwt"),
        "{asked:?}"
    );
    assert_eq!(asked[2].headers["authorization"], "me");
    // A server that checks refuses the wrong secret.
    server.guard(|asked| is_signed(asked, "id2", "another", "eu-north-1"));
    let said = show(&user, S3, &[]);
    assert!(!said.ok && said.err.contains("401 Unauthorized"), "{}", said.err);
    let empty = format!("{}/empty", tokens.url);
    for (variables, want) in [
        (&[("AWS_PROFILE", "nobody")][..], "AWS_PROFILE is \"nobody\", which is not a profile of"),
        (
            &[("AWS_WEB_IDENTITY_TOKEN_FILE", &nothing), ("AWS_ROLE_ARN", "a")],
            "nothing: no such file or directory",
        ),
        (
            &[("AWS_PROFILE", "none"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &empty)],
            "answered without credentials for AWS",
        ),
        (
            &[("AWS_PROFILE", "none"), ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.test/x")],
            "is neither HTTPS nor a container's agent",
        ),
    ] {
        let said = show(&user, S3, variables);
        assert!(!said.ok && said.err.contains(want), "{want}: {}", said.err);
    }
}

#[test]
fn tokens_of_google_come_from_accounts_logins_and_machines() {
    let (user, server) = bucket();
    let tokens = Server::plain();
    tokens.body("/token", "{\"access_token\": \"lent\"}");
    tokens
        .body("/computeMetadata/v1/instance/service-accounts/default/token", "{\"access_token\": \"lent\"}");
    server.require("Bearer lent");
    let key = KeyPair::generate_for(&PKCS_RSA_SHA256).unwrap();
    let place = format!("{}/token", tokens.url);
    let account = serde_json::json!({"type": "service_account", "client_email": "me@example.test", "private_key": key.serialize_pem(),
        "private_key_id": "k1", "token_uri": place});
    user.write("account.json", &account.to_string());
    let login = serde_json::json!({"type": "authorized_user", "client_id": "c", "client_secret": "s&", "refresh_token": "r", "token_uri": place});
    user.write("login.json", &login.to_string());
    user.write("odd.json", "{\"type\": \"external_account\"}");
    user.write("broken.json", "{\"private_key\": \"secret");
    let at = ("STORAGE_EMULATOR_HOST", server.url.as_str());
    let path = |name: &str| user.path(name).display().to_string();
    let host = tokens.url.trim_start_matches("http://");
    let (account, login) = (path("account.json"), path("login.json"));
    let ask = |variables: &[(&str, &str)]| {
        let said = show(&user, GS, variables);
        assert!(said.ok && said.out.contains("name: web"), "{variables:?}\n{}", said.err);
        fs::remove_dir_all(user.path(".cache")).unwrap();
        tokens.asked().remove(0)
    };
    let asked = ask(&[at, ("GOOGLE_APPLICATION_CREDENTIALS", &account)]);
    let (_, assertion) = asked.body.split_once("assertion=").unwrap();
    let assertion = percent_encoding::percent_decode_str(assertion).decode_utf8().unwrap().into_owned();
    let parts: Vec<&str> = assertion.split('.').collect();
    let json = |part: &str| -> serde_json::Value {
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    assert_eq!(json(parts[0]), serde_json::json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
    assert_eq!(
        (&json(parts[1])["iss"], &json(parts[1])["aud"]),
        (&"me@example.test".into(), &place.as_str().into())
    );
    let public = aws_lc_rs::signature::UnparsedPublicKey::new(
        &aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256,
        key.subject_public_key_info(),
    );
    let signed = format!("{}.{}", parts[0], parts[1]);
    public
        .verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(parts[2]).unwrap())
        .expect("the account's signature");
    let asked = ask(&[at, ("GOOGLE_APPLICATION_CREDENTIALS", &login)]);
    assert!(asked.body.contains("client_secret=s%26&refresh_token=r"), "{}", asked.body);
    let asked = ask(&[at, ("GCE_METADATA_HOST", host)]);
    assert_eq!(asked.headers["metadata-flavor"], "Google");
    fs::create_dir_all(user.path(".config/gcloud")).unwrap();
    fs::copy(user.path("login.json"), user.path(".config/gcloud/application_default_credentials.json"))
        .unwrap();
    ask(&[at]);
    for (file, want) in [
        ("odd.json", "credentials of type \"external_account\" are not understood"),
        ("broken.json", "not credentials as JSON"),
        ("none.json", "no such file"),
    ] {
        let said = show(&user, GS, &[at, ("GOOGLE_APPLICATION_CREDENTIALS", &path(file))]);
        assert!(!said.ok && said.err.contains(want) && !said.err.contains("secret"), "{want}: {}", said.err);
    }
}
