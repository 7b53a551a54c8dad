//! Keys for S3 that other keys, a login or a machine's metadata lead to.

use std::fs;
use std::path::Path;

use sha1::{Digest as _, Sha1};

use super::bucket_credentials::{S3, bucket, is_signed};
use super::server::{Answer, Server};
use super::support::{Said, User};

const KEY: &str = "AKIAIOSFODNN7EXAMPLE";

fn show(user: &User, variables: &[(&str, &str)]) -> Said {
    let mut command = user.command(Path::new(env!("CARGO_BIN_EXE_windlass")), &["show", "chart", S3]);
    command.envs(variables.iter().copied()).output().unwrap().into()
}

fn succeeds(user: &User, server: &Server, variables: &[(&str, &str)], secret: &'static str) {
    server.guard(move |asked| is_signed(asked, KEY, secret, "eu-north-1"));
    let said = show(user, variables);
    assert!(said.ok && said.out.contains("name: web"), "{variables:?}\n{}", said.err);
    assert_eq!(server.asked().remove(0).headers["x-amz-security-token"], "lent", "{variables:?}");
    fs::remove_dir_all(user.path(".cache")).unwrap();
}

#[test]
fn a_profile_assumes_a_role_with_the_keys_of_another() {
    let ((user, server), tokens) = (bucket(), Server::plain());
    let answer = format!(
        "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>{KEY}</AccessKeyId><SecretAccessKey>far</SecretAccessKey>\
         <SessionToken>lent</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
    );
    tokens.answer_all(Answer::Body(answer.clone().into()));
    user.write(
        ".aws/config",
        "[default]\nregion = eu-north-1\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = near\nexternal_id = outside\n\
         [profile near]\naws_access_key_id = AKIANEARNEARNEARNEAR\naws_secret_access_key = near\n\
         [profile circle]\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = back\n\
         [profile back]\nrole_arn = arn:aws:iam::123456789012:role/x\nsource_profile = circle\n\
         [profile bare]\nrole_arn = arn:aws:iam::123456789012:role/x\ncredential_source = Environment\n",
    );
    let at = ("AWS_ENDPOINT_URL_S3", server.url.as_str());
    let sts = ("AWS_ENDPOINT_URL_STS", tokens.url.as_str());
    succeeds(&user, &server, &[at, sts], "far");
    let asked = tokens.asked().remove(0);
    assert!(
        asked.path.contains("Action=AssumeRole&") && asked.path.contains("ExternalId=outside"),
        "{asked:?}"
    );
    assert!(asked.headers["authorization"].contains("Credential=AKIANEARNEARNEARNEAR/"), "{asked:?}");
    assert_eq!(asked.headers["host"], "sts.eu-north-1.amazonaws.com");
    for (profile, want) in [
        ("circle", "source_profile leads in a circle"),
        ("bare", "role_arn wants source_profile or web_identity_token_file"),
    ] {
        let said = show(&user, &[at, sts, ("AWS_PROFILE", profile)]);
        assert!(!said.ok && said.err.contains(want), "{}", said.err);
    }
    assert!(tokens.asked().is_empty());
    // What is signed goes to the token service alone.
    let elsewhere = Server::plain();
    elsewhere.answer_all(Answer::Body(answer.into()));
    let moved = vec![("location", format!("{}/", elsewhere.url))];
    tokens.answer_all(Answer::Head(307, moved));
    let said = show(&user, &[at, sts]);
    assert!(!said.ok && said.err.contains("to another server"), "{}", said.err);
    assert!(elsewhere.asked().is_empty());
}

#[test]
fn a_login_by_sso_is_exchanged_for_keys() {
    let ((user, server), portal) = (bucket(), Server::plain());
    let keys = serde_json::json!({"roleCredentials": {"accessKeyId": KEY, "secretAccessKey": "sso", "sessionToken": "lent",
        "expiration": 4_070_908_800_000_i64}});
    portal.body("/keys?role_name=reader&account_id=1", keys.to_string());
    user.write(
        ".aws/config",
        "[default]\nregion = eu-north-1\nsso_session = work\nsso_account_id = 1\nsso_role_name = reader\n\
         [sso-session work]\nsso_region = eu-west-1\nsso_start_url = https://sso.example.test/start\n\
         [profile old]\nregion = eu-north-1\nsso_start_url = https://sso.example.test/start\nsso_region = eu-west-1\nsso_account_id = 1\n\
         sso_role_name = reader\n",
    );
    let token = |name: &str, until: &str| {
        let file: String = Sha1::digest(name).iter().map(|b| format!("{b:02x}")).collect();
        let text = serde_json::json!({"accessToken": format!("token of {name}"), "expiresAt": until});
        user.write(&format!(".aws/sso/cache/{file}.json"), &text.to_string());
    };
    let place = format!("{}/keys", portal.url);
    let variables = [("AWS_ENDPOINT_URL_S3", server.url.as_str()), ("AWS_SSO_ENDPOINT", &place)];
    token("work", "2099-01-01T00:00:00Z");
    token("https://sso.example.test/start", "2099-01-01T00:00:00Z");
    succeeds(&user, &server, &variables, "sso");
    assert_eq!(portal.asked().remove(0).headers["x-amz-sso_bearer_token"], "token of work");
    succeeds(&user, &server, &[&variables[..], &[("AWS_PROFILE", "old")]].concat(), "sso");
    let asked = portal.asked().remove(0);
    assert_eq!(asked.headers["x-amz-sso_bearer_token"], "token of https://sso.example.test/start");
    token("work", "2001-01-01T00:00:00Z");
    let said = show(&user, &variables);
    assert!(!said.ok && said.err.contains("aws sso login"), "{}", said.err);
    assert!(portal.asked().is_empty());
}

#[test]
fn a_machine_is_asked_only_where_the_environment_names_its_metadata() {
    let ((user, server), machine) = (bucket(), Server::plain());
    machine.body("/latest/api/token", "session");
    machine.body("/latest/meta-data/iam/security-credentials/", "role");
    let keys = serde_json::json!({"Code": "Success", "AccessKeyId": KEY, "SecretAccessKey": "machine", "Token": "lent",
        "Expiration": "2099-01-01T00:00:00Z"});
    machine.body("/latest/meta-data/iam/security-credentials/role", keys.to_string());
    let variables = [("AWS_ENDPOINT_URL_S3", server.url.as_str()), ("AWS_REGION", "eu-north-1")];
    let named = [&variables[..], &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine.url.as_str())]].concat();
    succeeds(&user, &server, &named, "machine");
    assert_eq!(machine.asked().len(), 3);
    server.guard(|_| true);
    assert!(show(&user, &variables).ok);
    assert!(!server.asked().remove(0).headers.contains_key("authorization"));
}
