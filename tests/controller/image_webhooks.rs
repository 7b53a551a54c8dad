//! Registries that say themselves that something was pushed.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use windlass_controller::serve::State;
use windlass_controller::serve::listen::{self, Limits};
use windlass_controller::{ContextOptions, ControllerContext, ControllerOptions};
use windlass_flux::notifications::{Receivers, WebhookPaths, Webhooks};
use windlass_testing::wait_until;

use super::LIMIT;
use super::image_registry::{ImageRegistry, ScriptedRegistry};
use super::images::{FollowedImages, image_of, policy, record};

const TOKEN: &str = "push-token";

/// The images of a namespace with a Receiver, and where its webhook is served.
struct Receiving {
    own: FollowedImages,
    address: SocketAddr,
    path: String,
    stop: watch::Sender<bool>,
}

impl Receiving {
    async fn started() -> Self {
        let mut own = FollowedImages::prepare(&[]).await;
        let receiver =
            flux_api::crds::all().into_iter().find(|crd| crd["spec"]["names"]["kind"] == "Receiver");
        own.cp.establish(&receiver.unwrap()).unwrap();
        // Only what a registry reports is found in time.
        own.options.interval = Duration::from_secs(3600);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"token": TOKEN}});
        own.apply(&secret);
        own.apply(&json!({"apiVersion": "notification.toolkit.fluxcd.io/v1", "kind": "Receiver", "metadata": {"name": "registry"},
            "spec": {"type": "generic", "secretRef": {"name": "token"}, "resources": []}}));
        let digest = Sha256::digest(format!("{TOKEN}registry{}", own.ns.name()));
        let path = format!("/hook/{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        let state = Arc::new(State::new("test_"));
        let context =
            ControllerContext::new(own.client.clone(), &ContextOptions::default(), Arc::clone(&state));
        own.context = Some(context.clone());
        let paths = Arc::<WebhookPaths>::default();
        let webhooks = Webhooks {
            cluster: own.client.clone(),
            paths: Arc::clone(&paths),
            pushed_images: context.pushed_images.clone(),
            bodies: Arc::clone(&state.bodies),
            no_cross_namespace_refs: true,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = watch::Sender::new(false);
        let stopped = || {
            let mut stop = stop.subscribe();
            async move { drop(stop.wait_for(|stop| *stop).await) }
        };
        tokio::spawn(listen::serve(listener, None, webhooks.routes(), Limits::default(), stopped()));
        let options = ControllerOptions {
            namespace: Some(own.ns.name().to_owned()),
            concurrency: 4,
            ..ControllerOptions::default()
        };
        tokio::spawn(windlass_controller::run(Receivers::new(paths), context, options, stopped()));
        own.until("receiver", "registry", "is ready", |found| {
            found["status"]["webhookPath"] == path.as_str()
        });
        Self { own, address, path, stop }
    }

    /// Posts a body to a path. Returns the status.
    fn post(&self, path: &str, body: &str) -> u16 {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let (host, length) = (self.address, body.len());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A body that is too large is refused before its end.
        drop(stream.write_all(body.as_bytes()));
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        std::str::from_utf8(&answer[9..]).unwrap().parse().unwrap()
    }

    fn pushed(repository: &str) -> String {
        json!({"events": [{"action": "push", "target": {"repository": repository, "tag": "1"}}]}).to_string()
    }

    async fn stop(mut self) {
        self.own.stop().await;
        self.stop.send_replace(true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_that_a_registry_reports_is_rolled_out_at_once() {
    let mut receiving = Receiving::started().await;
    let registry = ImageRegistry::notifying(&format!("http://{}{}", receiving.address, receiving.path));
    let first = registry.push("1", "one").await;
    let own = &mut receiving.own;
    own.options.plain_registries = BTreeSet::from([registry.host().to_owned()]);
    let image = registry.image("1");
    own.deployment("web", &image, &policy("force"), &json!({}));
    own.start();
    own.records("web", &first);
    let second = registry.push("1", "two").await;
    own.rolled_out("web", &format!("{image}@{second}"));
    receiving.stop().await;
}

/// Requests that are forged, huge or many make no registry busy, and roll nothing out.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_a_hint_that_is_bounded() {
    let mut receiving = Receiving::started().await;
    let registry = ScriptedRegistry::start().await;
    let host = registry.address.to_string();
    let digest = format!("sha256:{}", "a".repeat(64));
    let own = &mut receiving.own;
    own.options.plain_registries = BTreeSet::from([host.clone()]);
    for name in ["web", "other"] {
        registry.set(&format!("/v2/team/{name}/manifests/1"), 200, &[("docker-content-digest", &digest)]);
        own.deployment(name, &format!("{host}/team/{name}:1"), &policy("force"), &json!({}));
    }
    own.start();
    own.records("web", &digest);
    own.records("other", &digest);
    let asked = |name: &str| registry.count(&format!("HEAD /v2/team/{name}/manifests/1"));
    let (web, other) = (asked("web"), asked("other"));
    let (path, body) = (receiving.path.clone(), Receiving::pushed("team/web"));
    let wrong = format!("{}{}", &path[..path.len() - 1], if path.ends_with('0') { '1' } else { '0' });
    let large = format!("{}{}", " ".repeat(4 << 20), body);
    let statuses = tokio::task::block_in_place(|| {
        let forged = [receiving.post(&wrong, &body), receiving.post("/hook/", &body)];
        let useless = ["", "{", "[]", &Receiving::pushed("../team/other"), &Receiving::pushed("")];
        let useless = useless.map(|body| receiving.post(&path, body));
        let many: BTreeSet<u16> = (0..100).map(|_| receiving.post(&path, &body)).collect();
        (forged, receiving.post(&path, &large), useless, many)
    });
    let [first, second] = statuses.0;
    assert!(first != 200 && second != 200, "{statuses:?}");
    assert_eq!((statuses.1, statuses.2, statuses.3), (413, [200; 5], BTreeSet::from([200])));
    wait_until("the registry is asked", LIMIT, || Ok((asked("web") > web).then_some(()))).unwrap();
    assert!(asked("web") <= web + 2, "{}", asked("web") - web);
    assert_eq!(asked("other"), other, "nobody has said anything of it");
    assert_eq!(record(&receiving.own.get("deployment", "web")).current.digest, digest);
    assert_eq!(image_of(&receiving.own.get("deployment", "web")), format!("{host}/team/web:1"));
    receiving.stop().await;
}
