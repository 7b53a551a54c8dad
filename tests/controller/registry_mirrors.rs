//! Mirrors are asked before their registries, each with its own login, and the image keeps its name.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use windlass_images::ImageMirrors;

use super::image_registry::ScriptedRegistry;
use super::images::{FollowedImages, image_of, policy};

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_asked_first_and_the_registry_when_it_fails() {
    let (main, mirror) = (ScriptedRegistry::start().await, ScriptedRegistry::start().await);
    let (host, mirror_host) = (main.address.to_string(), mirror.address.to_string());
    let challenge = ("www-authenticate", "Basic realm=\"images\"");
    let in_registry = main.serve("team/web", "c", &[challenge]);
    let first = mirror.serve("hub/team/web", "a", &[challenge]);
    let mut own = FollowedImages::prepare(&[&host, &mirror_host]).await;
    own.options.mirrors = ImageMirrors::parse(&format!("{host}={mirror_host}/hub")).unwrap();
    let auth = |login: &str| json!({"auth": STANDARD.encode(login)});
    for (name, server, login) in [("main", &host, "me:pw"), ("mirror", &mirror_host, "you:px")] {
        let auths = json!({"auths": {server: auth(login)}}).to_string();
        own.apply(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": STANDARD.encode(auths)}}));
    }
    let image = format!("{host}/team/web:1");
    let pod = json!({"imagePullSecrets": [{"name": "main"}, {"name": "mirror"}]});
    own.deployment("web", &image, &policy("digest"), &pod);
    own.start();
    own.records("web", &first);
    assert!(main.seen.lock().unwrap().is_empty(), "the registry is not asked");
    let second = mirror.serve("hub/team/web", "b", &[challenge]);
    own.rolled_out("web", &format!("{image}@{second}"));
    // Without its mirror, the registry counts.
    mirror.script.lock().unwrap().clear();
    own.rolled_out("web", &format!("{image}@{in_registry}"));
    let logins = |server: &ScriptedRegistry| -> BTreeSet<String> {
        server.seen.lock().unwrap().iter().map(|(_, login)| login.clone()).collect()
    };
    let basic = |login: &str| BTreeSet::from([String::new(), format!("Basic {}", STANDARD.encode(login))]);
    assert_eq!(logins(&main), basic("me:pw"));
    assert_eq!(logins(&mirror), basic("you:px"));
    // Both fail: both are named.
    main.script.lock().unwrap().clear();
    own.wait_event("web ImageCheckFailed: container main:");
    assert_eq!(image_of(&own.get("deployment", "web")), format!("{image}@{in_registry}"));
    own.stop().await;
}
