//! Registries that are slow, end in the middle, or send elsewhere.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_fetch::http::Http;
use windlass_images::OperatorSecret;

use super::image_registry::{Fault, ScriptedRegistry};
use super::images::{FollowedImages, image_of, policy, record};

/// An answer with tags is whole, or nothing follows from it.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_late_or_cut_is_an_event_and_no_rollout() {
    let registry = ScriptedRegistry::start().await;
    let host = registry.address.to_string();
    let mut own = FollowedImages::prepare(&[&host]).await;
    own.options.http = Http::new(Duration::from_secs(1), false);
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    // Each has a repository of its own: a failure of one stops no other.
    let tags = r#"{"name":"team/web","tags":["1.0.0","1.1.0"]}"#;
    let cases = [
        ("silent", Fault::Silent, tags),
        ("dripping", Fault::Dripping, tags),
        ("truncated", Fault::Truncated, tags),
        ("cut", Fault::None, &tags[..30]),
        ("empty", Fault::None, ""),
        ("list", Fault::None, "[]"),
    ];
    for (name, fault, body) in cases {
        registry.set_body(&format!("/v2/{name}/tags/list"), body, fault);
        let newer = format!("/v2/{name}/manifests/1.1.0");
        registry.set(&newer, 200, &[("docker-content-digest", &digest("b"))]);
        let image = format!("{host}/{name}:1.0.0");
        own.deployment(name, &image, &json!({"windlass.dev/image-policy": "minor"}), &Value::Null);
    }
    own.start();
    for (name, ..) in cases {
        own.wait_event(&format!("{name} ImageCheckFailed: container main:"));
        let found = own.get("deployment", name);
        assert_eq!(image_of(&found), format!("{host}/{name}:1.0.0"));
    }
    for (name, ..) in cases {
        registry.set_body(&format!("/v2/{name}/tags/list"), tags, Fault::None);
    }
    for (name, ..) in cases {
        own.rolled_out(name, &format!("{host}/{name}:1.1.0@{}", digest("b")));
    }
    own.stop().await;
}

/// Neither a redirect nor a next page takes a login to another server, and no digest of an attacker's form is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_login_does_not_follow_to_another_server() {
    let (main, other) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let host = main.address.to_string();
    let mut own = FollowedImages::prepare(&[&host]).await;
    let auths = json!({"auths": {&host: {"auth": STANDARD.encode("me:secret-word")}}});
    own.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": STANDARD.encode(auths.to_string())}}));
    let challenge = ("www-authenticate", "Basic realm=\"images\"");
    let elsewhere = format!("http://{}/v2/page/tags/list?n=2", other.address);
    other.set_body("/v2/page/tags/list", r#"{"name":"page","tags":["1.1.0"]}"#, Fault::None);
    let digest = ("docker-content-digest", format!("sha256:{}", "b".repeat(64)));
    let link = format!("<{elsewhere}>; rel=\"next\"");
    main.set("/v2/page/tags/list", 200, &[("link", &link), challenge]);
    main.set("/v2/redirect/tags/list", 307, &[("location", &elsewhere), challenge]);
    main.set("/v2/redirect/manifests/1.1.0", 200, &[(digest.0, &digest.1), challenge]);
    main.set("/v2/forged/manifests/1", 200, &[(digest.0, "sha256:../../x"), challenge]);
    let pod = json!({"imagePullSecrets": [{"name": "login"}]});
    let minor = json!({"windlass.dev/image-policy": "minor"});
    own.deployment("page", &format!("{host}/page:1.0.0"), &minor, &pod);
    own.deployment("redirect", &format!("{host}/redirect:1.0.0"), &minor, &pod);
    own.deployment("forged", &format!("{host}/forged:1"), &policy("force"), &pod);
    own.start();
    own.rolled_out("redirect", &format!("{host}/redirect:1.1.0@{}", digest.1));
    own.wait_event("forged ImageCheckFailed: container main:");
    own.until("deployment", "page", "is checked", |_| main.count("GET /v2/page/tags/list") > 2);
    assert_eq!(image_of(&own.get("deployment", "page")), format!("{host}/page:1.0.0"));
    assert_eq!(record(&own.get("deployment", "forged")).current.digest, "");
    let seen = other.seen.lock().unwrap().clone();
    assert!(!seen.is_empty() && seen.iter().all(|(_, login)| login.is_empty()), "{seen:?}");
    assert!(!own.events().contains("secret-word"), "no secret is shown");
    own.stop().await;
}

/// The operator's login is for the registry that its Secret names, and for workloads that have none themselves.
#[tokio::test(flavor = "multi_thread")]
async fn the_operators_login_is_for_workloads_without_one() {
    let (main, other) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let (host, elsewhere) = (main.address.to_string(), other.address.to_string());
    let mut own = FollowedImages::prepare(&[&host, &elsewhere]).await;
    for (name, login) in [("operator", "op:correct-horse-8"), ("tenant", "me:word-2")] {
        let auths = json!({"auths": {&host: {"auth": STANDARD.encode(login)}}});
        own.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": STANDARD.encode(auths.to_string())}}));
    }
    let namespace = own.ns.name().to_owned();
    own.options.pull_secret = Some(OperatorSecret { namespace, name: "operator".to_owned() });
    let digest = format!("sha256:{}", "b".repeat(64));
    let answer = [("docker-content-digest", digest.as_str()), ("www-authenticate", "Basic realm=\"images\"")];
    for (registry, name) in [(&main, "plain"), (&main, "own"), (&other, "elsewhere")] {
        registry.set(&format!("/v2/{name}/manifests/1"), 200, &answer);
        let address = registry.address;
        let pod = if name == "own" { json!({"imagePullSecrets": [{"name": "tenant"}]}) } else { json!({}) };
        own.deployment(name, &format!("{address}/{name}:1"), &policy("force"), &pod);
    }
    // A workload that is checked with the operator's login, and whose failure quotes a guess of it.
    own.deployment("guess", &format!("{host}/guess:correct-horse-8"), &policy("force"), &json!({}));
    own.start();
    own.records("plain", &digest);
    own.records("own", &digest);
    own.wait_event("guess ImageCheckFailed: container main:");
    let events = own.events();
    let of_guess = events.lines().find(|line| line.starts_with("guess ImageCheckFailed")).unwrap();
    assert!(of_guess.contains("correct-horse-8") && !of_guess.contains("***"), "{of_guess}");
    own.wait_event("elsewhere ImageCheckFailed: container main:");
    let logins = |registry: &ScriptedRegistry, name: &str| {
        let (seen, asked) = (registry.seen.lock().unwrap(), format!("HEAD /v2/{name}/manifests/1"));
        let of = seen.iter().filter(|(seen, login)| *seen == asked && !login.is_empty());
        of.map(|(_, login)| login.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    let basic = |login: &str| [format!("Basic {}", STANDARD.encode(login))].into();
    assert_eq!(logins(&main, "plain"), basic("op:correct-horse-8"));
    assert_eq!(logins(&main, "own"), basic("me:word-2"), "the workload's own comes first");
    assert_eq!(logins(&other, "elsewhere"), [].into());
    own.stop().await;
}
