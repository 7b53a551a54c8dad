//! Many digests at once, and an operator that is killed meanwhile.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use futures::StreamExt as _;
use serde_json::json;
use windlass_cluster::{Cluster, Gvk, ObjectEvent, ObjectMeta};
use windlass_testing::wait_until;

use super::LIMIT;
use super::image_registry::ImageRegistry;
use super::images::{FollowedImages, image_of, policy, record};

const WORKLOADS: usize = 20;
const ROUNDS: usize = 5;
/// The rounds in the middle of which the operator is killed.
const KILLED_IN: [usize; 2] = [2, 4];

/// The program itself; a drop kills it.
struct Operator {
    child: Child,
    /// Of its socket.
    _directory: tempfile::TempDir,
}

impl Operator {
    fn start(own: &FollowedImages, registry: &str) -> Self {
        let (namespace, kubeconfig) = (own.ns.name(), own.cp.kubeconfig());
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_windlass"))
            .args(["operator", "--controllers=images", "--listen-port=0", "--debug-unix-socket=debug.socket"])
            .args(["--watch-all-namespaces=false", "--image-interval=1s", "--allow-local-sources"])
            .args(["-n", namespace, "--image-namespaces", namespace, "--image-plain-registries", registry])
            .current_dir(directory.path())
            .env("KUBECONFIG", kubeconfig)
            .env("RUNTIME_NAMESPACE", namespace)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self { child: child.unwrap(), _directory: directory }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The images that each Deployment of a namespace has had, one after the other.
#[derive(Clone, Default)]
struct ImageHistory(Arc<Mutex<BTreeMap<String, Vec<String>>>>);

impl ImageHistory {
    async fn follow(client: &Cluster, namespace: &str) -> Self {
        let history = Self::default();
        let kind = Gvk::new("apps/v1", "Deployment");
        let mut events = client.follow_selected(&kind, Some(namespace), "", "").await.unwrap();
        let own = history.clone();
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                let Ok(ObjectEvent::Present(object)) = event else { continue };
                let (name, image) = (ObjectMeta::of(&object).name().to_owned(), image_of(&object).to_owned());
                let mut histories = own.0.lock().unwrap();
                let images = histories.entry(name).or_default();
                if images.last() != Some(&image) {
                    images.push(image);
                }
            }
        });
        history
    }

    fn of(&self, name: &str) -> Vec<String> {
        self.0.lock().unwrap().get(name).cloned().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_last_digest_of_a_hundred_is_rolled_out_once_also_when_the_operator_is_killed() {
    let registry = ImageRegistry::start();
    let own = FollowedImages::prepare(&[registry.host()]).await;
    let names: Vec<String> = (0..WORKLOADS).map(|number| format!("web-{number}")).collect();
    // The images that each tag has pointed at.
    let mut pushed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut objects = Vec::new();
    for name in &names {
        let image = registry.image(name);
        registry.push(name, &format!("{name}, 0")).await;
        pushed.insert(name, vec![image.clone()]);
        objects.push(own.deployment_object(name, &image, &policy("digest"), &json!({})));
    }
    let history = ImageHistory::follow(&own.client, own.ns.name()).await;
    own.apply(&json!({"apiVersion": "v1", "kind": "List", "items": objects}));
    let mut operator = Operator::start(&own, registry.host());
    for name in &names {
        own.until("deployment", name, "has a record", |found| !record(found).current.digest.is_empty());
    }
    for round in 1..=ROUNDS {
        let push =
            async |name: &String| (name.clone(), registry.push(name, &format!("{name}, {round}")).await);
        for (name, digest) in futures::future::join_all(names.iter().map(push)).await {
            pushed.get_mut(name.as_str()).unwrap().push(format!("{}@{digest}", registry.image(&name)));
        }
        let newest = || names.iter().filter(|name| history.of(name).last() == pushed[name.as_str()].last());
        let some = || Ok((newest().count() >= WORKLOADS / 3).then_some(()));
        wait_until(&format!("some workloads have the digests of round {round}"), LIMIT, some).unwrap();
        if KILLED_IN.contains(&round) {
            drop(operator);
            operator = Operator::start(&own, registry.host());
        }
    }
    for name in &names {
        let (images, last) = (&pushed[name.as_str()], pushed[name.as_str()].last().unwrap());
        let found = own.until("deployment", name, last, |found| {
            image_of(found) == last && record(found).rollout.is_none()
        });
        assert_eq!(record(&found).failed, Vec::<String>::new(), "{name}");
        wait_until(&format!("{name}: the watch is through"), LIMIT, || {
            Ok((history.of(name).last() == Some(last)).then_some(()))
        })
        .unwrap();
        // In the order of the pushes, and none twice.
        let places: Vec<_> =
            history.of(name).iter().map(|image| images.iter().position(|one| one == image)).collect();
        let in_order = places.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(in_order && places.iter().all(Option::is_some), "{name}: {places:?}");
    }
    drop(operator);
}
