//! The pull secret of an object: which Secret it names, and that Pods of its release get it.
//!
//! ServiceAccounts of the chart have it in the manifest, so that the first Pod has it. The account `default` of the namespace is not the
//! release's: it gets it before the release is applied, and loses it with the object. How that list is written is
//! [`windlass_controller::PullSecretOwner`]'s.

use std::borrow::Cow;

use chart_compat::data::{Data, Map};
use chart_compat::yaml;
use serde_json::{Value, json};

use super::chart_objects::{ChartObjects, ObjectValues};
use super::loaded_chart::LoadedChart;
use super::object_status::Step;
use super::values_object::ChartObject;
use windlass_cluster::{Cluster, Gvk, ObjectMeta};
use windlass_controller::{
    AccountState, PullSecretOwner, PullSecretState, ReconcileError, ReconcilePass, ReleaseRunner, SecretData,
    SecretReadError,
};
use windlass_engine::{Disposition, RenderedRelease};

/// The value that names the pull secret, where the schema of a kind adds it to the chart's.
pub(crate) const DEFAULT_PATH: &str = "image.pullSecret";
/// The ServiceAccount of Pods that name none.
const DEFAULT_ACCOUNT: &str = "default";
/// Field manager of the account's list.
const MANAGER: &str = "windlass-pull-secret";
/// Longest path of a value, in characters and in keys.
const MAX_PATH: (usize, usize) = (256, 16);
/// Longest name of a Secret.
const MAX_NAME: usize = 253;

/// Refuses what is not a path of keys with dots between them.
///
/// # Errors
/// A key is empty, or there are too many; the text says which.
pub(crate) fn check_path(path: &str) -> Result<(), String> {
    let keys = path.split('.').count();
    if path.split('.').any(str::is_empty) {
        return Err(format!(
            "{path:?} has an empty key: write keys with dots between them, such as {DEFAULT_PATH}"
        ));
    }
    if path.chars().count() > MAX_PATH.0 || keys > MAX_PATH.1 {
        return Err(format!(
            "the path has {keys} keys: at most {} and {} characters are possible",
            MAX_PATH.1, MAX_PATH.0
        ));
    }
    Ok(())
}

/// The path of the value that names the pull secret: the one that is set, else the usual one, where an overlay adds it to the schema.
#[must_use]
pub fn pull_secret_path(set: Option<&str>, overlay: &serde_json::Map<String, Value>) -> Option<String> {
    match set {
        Some(path) => Some(path.to_owned()),
        None => {
            let pointer = DEFAULT_PATH.split('.');
            let mut at = Some(overlay);
            for key in pointer {
                at = at?.get("properties")?.get(key)?.as_object();
            }
            at.map(|_| DEFAULT_PATH.to_owned())
        }
    }
}

/// The Secret that an object names: by its annotation, else by a value, which may be one of the chart's own.
///
/// # Errors
/// What names it is not a name; the text says where.
pub(crate) fn named(
    annotation: Option<(&str, &str)>,
    path: Option<&str>,
    layers: &[&Map],
) -> Result<Option<String>, String> {
    let (place, name) = match (annotation, path) {
        (Some((key, name)), _) => (format!("annotation {key}"), name.to_owned()),
        (None, Some(path)) => match value_at(layers, path) {
            None | Some(Data::Null) => return Ok(None),
            Some(value) => {
                let name =
                    value.as_str().ok_or_else(|| format!("spec.{path}: it is not the name of a Secret"))?;
                (format!("spec.{path}"), name.to_owned())
            }
        },
        (None, None) => return Ok(None),
    };
    if name.is_empty() {
        return Ok(None);
    }
    let is_name = name.len() <= MAX_NAME && name.split('.').all(windlass_controller::is_dns_label);
    match is_name {
        true => Ok(Some(name)),
        false => {
            let shown: String = name.chars().take(60).collect();
            Err(format!("{place}: {shown:?} is not the name of a Secret"))
        }
    }
}

/// The value at a path in the first of the layers that has it.
fn value_at<'m>(layers: &[&'m Map], path: &str) -> Option<&'m Data> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    layers.iter().find_map(|layer| {
        let found = layer.get(first)?;
        rest.map_or(Some(found), |rest| rest.split('.').try_fold(found, |at, key| at.get(key)))
    })
}

/// Adds the pull secret to the ServiceAccounts of a release in its namespace, those of hooks too.
///
/// # Errors
/// A manifest cannot be written again; the text names its template.
pub(crate) fn add_to_release(
    release: &mut RenderedRelease,
    namespace: &str,
    secret: &str,
) -> Result<(), String> {
    for manifest in &mut release.manifests {
        add_to(&mut manifest.object, namespace, secret);
    }
    for hook in &mut release.hooks {
        if add_to(&mut hook.object, namespace, secret) {
            let text = yaml::json_to_yaml(&hook.object.to_string());
            let text = text.map_err(|error| format!("{}: pull secret: {error}", hook.path))?;
            text.trim_end().clone_into(&mut hook.text);
        }
    }
    // Texts of manifests are written, and the digest is taken, when they get their owner.
    release.checksum.push_str(&format!("\npull secret {secret}"));
    Ok(())
}

/// Whether an object is a ServiceAccount without the secret, which it has now.
fn add_to(object: &mut Value, namespace: &str, secret: &str) -> bool {
    if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
        && let Some(items) = object.get_mut("items").and_then(Value::as_array_mut)
    {
        let changed = items.iter_mut().filter_map(|item| add_to(item, namespace, secret).then_some(()));
        return changed.count() > 0;
    }
    let is_own = object["apiVersion"] == "v1"
        && object["kind"] == "ServiceAccount"
        && ObjectMeta::of(object).namespace().is_none_or(|own| own == namespace);
    if !is_own {
        return false;
    }
    let mut list = object["imagePullSecrets"].as_array().cloned().unwrap_or_default();
    if list.iter().any(|item| item["name"] == secret) {
        return false;
    }
    list.push(json!({"name": secret}));
    object["imagePullSecrets"] = list.into();
    true
}

/// An object and the rights that its release is applied with.
pub(crate) struct PullSecret<'p> {
    pub(crate) client: &'p Cluster,
    pub(crate) gvk: &'p Gvk,
    pub(crate) namespace: &'p str,
    pub(crate) object: &'p ChartObject,
}

impl PullSecret<'_> {
    /// The object with its kind: what it added is removed by this name.
    fn key(&self) -> String {
        format!("{}.{}/{}", self.gvk.kind, self.gvk.group, self.object.key())
    }

    /// Gives the account `default` the Secret that the object names now, and takes from it the one before.
    ///
    /// # Errors
    /// The Secret or the account is absent, or may not be read or written; the text names it. Both are looked at again: the Secret is
    /// watched.
    pub(crate) async fn ensure(
        &self,
        pass: &mut ReconcilePass,
        name: Option<&str>,
    ) -> Result<(), (Step, Box<ReconcileError>)> {
        let before = self.object.status.pull_secret.as_deref();
        let Some(name) = name else {
            return match before {
                Some(_) => self.remove().await,
                None => Ok(()),
            };
        };
        pass.set_reader(self.client);
        let place = format!("Secret {}/{name}", self.namespace);
        let read = SecretData::read_watched(self.client, &mut pass.references, self.namespace, name).await;
        match read {
            Ok(_) | Err(SecretReadError::Base64(_)) => {}
            Err(SecretReadError::Request(error)) => return Err((Step::PullSecret, Box::new(error.into()))),
            Err(SecretReadError::NotFound(_) | SecretReadError::EmptyName) => {
                return Err(absent(format!(
                    "{place}, with which images are to be pulled, does not exist: create it; nothing is deployed before"
                )));
            }
        }
        if before != Some(name) {
            // What is added must not be forgotten if the process ends.
            let status = json!({"pullSecret": name});
            pass.write_status(&status).await.map_err(|error| (Step::PullSecret, Box::new(error.into())))?;
        }
        let key = self.key();
        let states = self.owner(&key).add(name, &[DEFAULT_ACCOUNT]).await;
        let states = match states.map_err(|error| (Step::PullSecret, Box::new(error.into())))? {
            PullSecretState::Absent => return Err(absent(format!("{place} was deleted"))),
            PullSecretState::Added(states) => states,
        };
        let account = format!("ServiceAccount {}/{DEFAULT_ACCOUNT}", self.namespace);
        match states.get(DEFAULT_ACCOUNT) {
            Some(AccountState::Missing) => Err(absent(format!("{account} does not exist yet"))),
            Some(AccountState::Applied(manager)) => Err((
                Step::PullSecret,
                Box::new(ReconcileError::Config(format!(
                    "{account}: {manager:?} applies its imagePullSecrets and would take {name:?} out again: add it there"
                ))),
            )),
            _ => Ok(()),
        }
    }

    /// Takes from the account `default` what was added for the object.
    pub(crate) async fn remove(&self) -> Result<(), (Step, Box<ReconcileError>)> {
        let key = self.key();
        let removed = self.owner(&key).remove(&[DEFAULT_ACCOUNT]).await;
        removed.map_err(|error| (Step::PullSecret, Box::new(error.into())))
    }

    fn owner<'o>(&'o self, key: &'o str) -> PullSecretOwner<'o> {
        PullSecretOwner { client: self.client, namespace: self.namespace, object: key, manager: MANAGER }
    }
}

/// What may be there later.
fn absent(text: String) -> (Step, Box<ReconcileError>) {
    (
        Step::PullSecret,
        Box::new(ReconcileError::Reason {
            reason: "PullSecretUnavailable",
            text,
            disposition: Disposition::Retry,
        }),
    )
}

impl ChartObjects {
    /// The object with the pull secret that it names now, which the account `default` has; or why it cannot be deployed.
    pub(crate) async fn with_pull_secret<'o>(
        &self,
        pass: &mut ReconcilePass,
        object: &'o ChartObject,
        runner: &ReleaseRunner,
        (chart, values): (Option<&LoadedChart>, ObjectValues),
    ) -> (Cow<'o, ChartObject>, ObjectValues) {
        let Ok(values) = values else { return (Cow::Borrowed(object), values) };
        let name = match self.pull_secret_of(object, chart, &values) {
            Ok(name) => name,
            Err(text) => {
                let error = ReconcileError::Config(text);
                return (Cow::Borrowed(object), Err((Step::PullSecret, Box::new(error))));
            }
        };
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let own =
            PullSecret { client: runner.engine().cluster(), gvk: &self.settings().gvk, namespace, object };
        match own.ensure(pass, name.as_deref()).await {
            Err(failure) => (Cow::Borrowed(object), Err(failure)),
            Ok(()) if name == object.status.pull_secret => (Cow::Borrowed(object), Ok(values)),
            Ok(()) => {
                let mut object = object.clone();
                object.status.pull_secret = name;
                (Cow::Owned(object), Ok(values))
            }
        }
    }

    pub(crate) fn pull_secret_of(
        &self,
        object: &ChartObject,
        chart: Option<&LoadedChart>,
        values: &Map,
    ) -> Result<Option<String>, String> {
        let own = chart.map(|chart| &*chart.chart.chart().values);
        let layers: Vec<&Map> = std::iter::once(values).chain(own).collect();
        named(object.pull_secret(), self.settings().pull_secret_path.as_deref(), &layers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::{ChartHook, Manifest};

    fn map(value: &Value) -> Map {
        match windlass_render::object_data(value) {
            Data::Map(map) => map,
            _ => Map::new(),
        }
    }

    #[test]
    fn a_secret_is_named_by_an_annotation_or_a_value() {
        let key = "windlass.dev/pull-secret";
        let chart = json!({"image": {"pullSecret": "of-the-chart"}, "list": ["a"]});
        for (annotation, path, spec, expected) in [
            (None, None, json!({"image": {"pullSecret": "x"}}), Ok(None)),
            (None, Some("image.pullSecret"), json!({"image": {"pullSecret": "x"}}), Ok(Some("x"))),
            (None, Some("image.pullSecret"), json!({}), Ok(Some("of-the-chart"))),
            (None, Some("image.pullSecret"), json!({"image": {"tag": "1"}}), Ok(Some("of-the-chart"))),
            (None, Some("image.pullSecret"), json!({"image": {"pullSecret": null}}), Ok(None)),
            (None, Some("image.pullSecret"), json!({"image": {"pullSecret": ""}}), Ok(None)),
            (None, Some("other"), json!({}), Ok(None)),
            (Some("y"), Some("image.pullSecret"), json!({"image": {"pullSecret": "x"}}), Ok(Some("y"))),
            (Some(""), Some("image.pullSecret"), json!({"image": {"pullSecret": "x"}}), Ok(None)),
            (None, Some("list"), json!({}), Err("spec.list: it is not the name of a Secret")),
            (
                None,
                Some("image.pullSecret"),
                json!({"image": {"pullSecret": "a/b"}}),
                Err("spec.image.pullSecret: \"a/b\" is not the name of a Secret"),
            ),
            (
                Some("A"),
                None,
                json!({}),
                Err("annotation windlass.dev/pull-secret: \"A\" is not the name of a Secret"),
            ),
        ] {
            let (spec, chart) = (map(&spec), map(&chart));
            let found = named(annotation.map(|name| (key, name)), path, &[&spec, &chart]);
            let expected = expected.map(|name| name.map(str::to_owned)).map_err(str::to_owned);
            assert_eq!(found, expected, "{annotation:?} {path:?} {spec:?}");
        }
    }

    #[test]
    fn the_usual_path_holds_where_the_overlay_adds_it() {
        let overlay = json!({"properties": {"image": {"properties": {"pullSecret": {"type": "string"}}}}});
        let overlay = overlay.as_object().unwrap();
        let none = serde_json::Map::new();
        assert_eq!(pull_secret_path(None, overlay).as_deref(), Some(DEFAULT_PATH));
        assert_eq!(pull_secret_path(None, &none), None);
        assert_eq!(pull_secret_path(Some("a.b"), &none).as_deref(), Some("a.b"));
        for (path, part) in
            [("a..b", "has an empty key"), ("", "has an empty key"), (&["a"; 17].join("."), "17 keys")]
        {
            assert!(check_path(path).unwrap_err().contains(part), "{path}");
        }
        assert_eq!(check_path("image.pullSecret"), Ok(()));
    }

    #[test]
    fn accounts_of_the_release_have_the_secret_in_their_manifest() {
        let account = |name: &str, more: &Value| {
            let mut object =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
            chart_merge(&mut object, more);
            object
        };
        let manifest = |object: Value| Manifest { object, ..Manifest::default() };
        let mut release = RenderedRelease {
            manifests: vec![
                manifest(account("own", &json!({}))),
                manifest(account("has", &json!({"imagePullSecrets": [{"name": "x"}]}))),
                manifest(account("more", &json!({"imagePullSecrets": [{"name": "y"}]}))),
                manifest(account("elsewhere", &json!({"metadata": {"name": "e", "namespace": "other"}}))),
                manifest(
                    json!({"apiVersion": "v1", "kind": "ServiceAccountList", "items": [account("item", &json!({}))]}),
                ),
                manifest(Value::Null),
            ],
            hooks: vec![ChartHook { object: account("hook", &json!({})), ..ChartHook::default() }],
            ..RenderedRelease::default()
        };
        add_to_release(&mut release, "ns", "x").unwrap();
        let secrets: Vec<String> = release
            .manifests
            .iter()
            .map(|manifest| manifest.object["imagePullSecrets"].to_string())
            .collect();
        assert_eq!(
            secrets,
            [
                r#"[{"name":"x"}]"#,
                r#"[{"name":"x"}]"#,
                r#"[{"name":"y"},{"name":"x"}]"#,
                "null",
                "null",
                "null"
            ]
        );
        assert_eq!(release.manifests[4].object["items"][0]["imagePullSecrets"], json!([{"name": "x"}]));
        assert!(release.hooks[0].text.contains("imagePullSecrets:\n- name: x"), "{}", release.hooks[0].text);
        assert!(release.checksum.ends_with("pull secret x"));
    }

    fn chart_merge(object: &mut Value, more: &Value) {
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
}
