//! Pull secrets of ServiceAccounts: a Secret that a user names is added to `imagePullSecrets`, and removed again.
//!
//! The list of a ServiceAccount is atomic for server-side apply, so it is written whole, unless it was changed since it was read.
//! Annotations tell for which objects Windlass added which Secret: what a user added himself stays, and what two objects need stays until
//! both are gone. Owns neither the field that names the Secret, nor the condition that tells of its absence, nor
//! ServiceAccounts of a release, which have the Secret in their manifest: those are the front end's, which also watches the Secret.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use windlass_base::hex::hex;
use windlass_cluster::{Cluster, ClusterError, Gvk, ObjectMeta, ObjectRef, PatchKind};

/// Annotations of a ServiceAccount: a digest of the object that needs a Secret follows, and the value is the Secret.
const PREFIX: &str = "windlass.dev/pull-secret-";
/// Characters of the digest.
const DIGEST: usize = 16;
/// Writes of one ServiceAccount before another writer's changes are an error.
const TRIES: usize = 5;

/// Who needs a pull secret, and where.
#[derive(Clone, Copy)]
pub struct PullSecretOwner<'o> {
    /// The client that reads and writes: that of the release's account.
    pub client: &'o Cluster,
    /// The namespace of Secret and ServiceAccounts.
    pub namespace: &'o str,
    /// The object that needs it, with its kind: `LibertyApp.liberty.example.com/shop/plants`.
    pub object: &'o str,
    /// The field manager of the writes.
    pub manager: &'o str,
}

/// What became of a pull secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullSecretState {
    /// There is no such Secret; no ServiceAccount was changed.
    Absent,
    /// It is among the pull secrets of these ServiceAccounts.
    Added(BTreeMap<String, AccountState>),
}

/// What became of the pull secrets of one ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountState {
    /// They were written.
    Written,
    /// They had it already.
    Unchanged,
    /// This manager applies the list, and would take the Secret out again: it is left alone.
    Applied(String),
    /// There is no such ServiceAccount, yet.
    Missing,
}

impl PullSecretOwner<'_> {
    /// Adds a Secret to the pull secrets of ServiceAccounts, in place of another one that was added for this object.
    ///
    /// # Errors
    /// A request is refused, or a ServiceAccount is changed by others all the time.
    pub async fn add(&self, secret: &str, accounts: &[&str]) -> Result<PullSecretState, ClusterError> {
        let reference = self.reference("Secret", secret);
        if self.client.get_metadata(&reference).await?.is_none() {
            return Ok(PullSecretState::Absent);
        }
        let mut states = BTreeMap::new();
        for account in accounts {
            states.insert((*account).to_owned(), self.write(account, Some(secret)).await?);
        }
        Ok(PullSecretState::Added(states))
    }

    /// Removes what was added for this object from ServiceAccounts. Those that are gone are fine.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub async fn remove(&self, accounts: &[&str]) -> Result<(), ClusterError> {
        for account in accounts {
            self.write(account, None).await?;
        }
        Ok(())
    }

    fn reference(&self, kind: &str, name: &str) -> ObjectRef {
        ObjectRef::new(Gvk::new("v1", kind), Some(self.namespace), name)
    }

    async fn write(&self, account: &str, secret: Option<&str>) -> Result<AccountState, ClusterError> {
        let reference = self.reference("ServiceAccount", account);
        let mut tries = 0;
        loop {
            let Some(live) = self.client.get(&reference).await? else { return Ok(AccountState::Missing) };
            let patch = match change(&live, self.object, secret, self.manager) {
                Change::None => return Ok(AccountState::Unchanged),
                Change::Applied(manager) => return Ok(AccountState::Applied(manager)),
                Change::Patch(patch) => patch,
            };
            tries += 1;
            let kind = PatchKind::Merge;
            match self.client.patch_subresource(&reference, "", kind, &patch, self.manager).await {
                Ok(_) => return Ok(AccountState::Written),
                Err(error) if error.is_conflict() && tries < TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What to write.
#[derive(Debug, PartialEq)]
enum Change {
    None,
    Applied(String),
    Patch(Value),
}

/// The annotation of an object.
fn annotation(object: &str) -> String {
    let digest = Sha256::digest(object.as_bytes());
    format!("{PREFIX}{}", &hex(&digest)[..DIGEST])
}

/// What gives a ServiceAccount the pull secret of an object; `None` takes it away.
fn change(live: &Value, object: &str, secret: Option<&str>, manager: &str) -> Change {
    let key = annotation(object);
    let added: BTreeMap<&str, &str> =
        ObjectMeta::of(live).annotations().filter(|(name, _)| name.starts_with(PREFIX)).collect();
    let mut list: Vec<Value> = live["imagePullSecrets"].as_array().cloned().unwrap_or_default();
    let had = list.clone();
    let before = added.get(key.as_str()).copied();
    let others = |name: &str| added.iter().any(|(other, value)| *other != key && *value == name);
    if let Some(old) = before.filter(|old| Some(*old) != secret && !others(old)) {
        list.retain(|item| item["name"] != old);
    }
    let mut after = None;
    if let Some(name) = secret {
        let listed = list.iter().any(|item| item["name"] == name);
        // What is listed and was added for nobody is a user's own.
        if !listed || before == Some(name) || others(name) {
            after = Some(name);
        }
        if !listed {
            list.push(json!({"name": name}));
        }
    }
    if list == had && after == before {
        return Change::None;
    }
    if list != had
        && let Some(other) = applier(live).filter(|other| *other != manager)
    {
        return Change::Applied(other.to_owned());
    }
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), json!(ObjectMeta::of(live).resource_version()));
    metadata.insert("annotations".to_owned(), json!({key: after}));
    let mut patch = json!({"metadata": metadata});
    if list != had {
        patch["imagePullSecrets"] = json!(list);
    }
    Change::Patch(patch)
}

/// Who applies the list of pull secrets by server-side apply.
fn applier(live: &Value) -> Option<&str> {
    let applies = |entry: &&Value| {
        entry["operation"] == "Apply" && entry["fieldsV1"].get("f:imagePullSecrets").is_some()
    };
    ObjectMeta::of(live).managed_fields().iter().find(applies)?["manager"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ServiceAccount with pull secrets, added for objects.
    fn account(secrets: &[&str], added: &[(&str, &str)]) -> Value {
        let list: Vec<Value> = secrets.iter().map(|name| json!({"name": name})).collect();
        let annotations: Map<String, Value> =
            added.iter().map(|(object, secret)| (annotation(object), json!(secret))).collect();
        json!({"metadata": {"name": "default", "resourceVersion": "7", "annotations": annotations}, "imagePullSecrets": list})
    }

    /// The account after a write: pull secrets, and the objects of `a` and `b` that have some.
    fn after(mut live: Value, secret: Option<&str>) -> (Vec<String>, Vec<String>) {
        match change(&live, "a", secret, "mine") {
            Change::None => {}
            Change::Applied(manager) => panic!("{manager}"),
            Change::Patch(patch) => {
                assert_eq!(patch["metadata"]["resourceVersion"], "7");
                if let Some(list) = patch.get("imagePullSecrets") {
                    live["imagePullSecrets"] = list.clone();
                }
                for (key, value) in patch["metadata"]["annotations"].as_object().unwrap() {
                    let annotations = live["metadata"]["annotations"].as_object_mut().unwrap();
                    annotations.remove(key);
                    annotations.extend((!value.is_null()).then(|| (key.clone(), value.clone())));
                }
                assert_eq!(change(&live, "a", secret, "mine"), Change::None, "a second time");
            }
        }
        let names = live["imagePullSecrets"].as_array().unwrap().iter();
        let names = names.map(|item| item["name"].as_str().unwrap().to_owned()).collect();
        let of = |object: &str| {
            let secret = live["metadata"]["annotations"].get(annotation(object))?;
            Some(format!("{object}={}", secret.as_str().unwrap()))
        };
        (names, ["a", "b"].into_iter().filter_map(of).collect())
    }

    #[test]
    fn what_is_added_is_removed_and_nothing_else() {
        for (live, secret, list, added) in [
            (account(&[], &[]), Some("x"), &["x"][..], &["a=x"][..]),
            (account(&["u"], &[]), Some("x"), &["u", "x"], &["a=x"]),
            // A user's own.
            (account(&["x"], &[]), Some("x"), &["x"], &[]),
            (account(&["x"], &[]), None, &["x"], &[]),
            (account(&["u", "x"], &[("a", "x")]), Some("x"), &["u", "x"], &["a=x"]),
            (account(&["u", "x"], &[("a", "x")]), None, &["u"], &[]),
            // Another object needs it too.
            (account(&["x"], &[("b", "x")]), Some("x"), &["x"], &["a=x", "b=x"]),
            (account(&["x"], &[("a", "x"), ("b", "x")]), None, &["x"], &["b=x"]),
            (account(&["x"], &[("a", "x"), ("b", "x")]), Some("y"), &["x", "y"], &["a=y", "b=x"]),
            // Another Secret.
            (account(&["x"], &[("a", "x")]), Some("y"), &["y"], &["a=y"]),
            // Somebody removed it.
            (account(&[], &[("a", "x")]), Some("x"), &["x"], &["a=x"]),
            (account(&[], &[("a", "x")]), None, &[], &[]),
        ] {
            let shown = live.to_string();
            let (names, objects) = after(live, secret);
            assert_eq!(
                (&names[..], &objects[..]),
                (
                    &list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..],
                    &added.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>()[..]
                ),
                "{shown} {secret:?}"
            );
        }
    }

    #[test]
    fn a_list_that_another_manager_applies_is_left_alone() {
        let mut live = account(&["u"], &[]);
        live["metadata"]["managedFields"] = json!([
            {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:imagePullSecrets": {}}},
            {"manager": "helm", "operation": "Apply", "fieldsV1": {"f:imagePullSecrets": {}}},
        ]);
        assert_eq!(change(&live, "a", Some("x"), "mine"), Change::Applied("helm".to_owned()));
        assert_eq!(change(&live, "a", Some("u"), "mine"), Change::None);
        live["metadata"]["managedFields"].as_array_mut().unwrap().pop();
        assert!(matches!(change(&live, "a", Some("x"), "mine"), Change::Patch(_)));
    }
}
