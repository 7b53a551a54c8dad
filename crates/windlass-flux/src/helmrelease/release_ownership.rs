//! Which HelmRelease a release is of, where several name it.
//!
//! Owns what is known without reading records: which objects there are, and what they name. Whose a release is, the UID on its newest record
//! says: who has deployed it has it, whatever others ask for. Reading the records is the account's, which shows that it may.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::object::HelmReleaseObject;
use super::release_inputs::{has_uid, is_made_for, object_of_cause, uid_of};
use flux_api::helm_release::HelmReleaseSpec;
use serde_json::Value;
use windlass_cluster::{AccessQuery, ObjectRef};
use windlass_controller::{ReconcileError, ReconcilePass, ReleaseRunner, ReleaseTarget};
use windlass_engine::record::{Record, ReleaseStatus};
use windlass_engine::{History, ReleaseKey};

/// UIDs of objects, and the releases that they name, by `NAMESPACE/NAME`.
#[derive(Default)]
pub(super) struct ReleaseNames(Mutex<BTreeMap<String, (String, ReleaseKey)>>);

impl ReleaseNames {
    /// An object is as it is now.
    pub(super) fn note(&self, key: &str, object: &HelmReleaseObject) {
        // Releases of other clusters share no names with those of this one.
        let spec = object.spec().ok().filter(|spec| spec.kube_config.is_none());
        match spec.map(|spec| object.release_key(spec)) {
            Some(release) => drop(self.lock().insert(key.to_owned(), (object.uid.clone(), release))),
            None => self.forget(key),
        }
    }

    /// An object is gone.
    pub(super) fn forget(&self, key: &str) {
        self.lock().remove(key);
    }

    /// The other object that a record was made for, by its labels, and that names its release still.
    pub(super) fn other_owner(
        &self,
        labels: &BTreeMap<String, String>,
        release: &ReleaseKey,
        object: &HelmReleaseObject,
    ) -> Option<String> {
        let uid = uid_of(labels).filter(|_| !has_uid(labels, object))?;
        let all = self.lock();
        let other = all.iter().find(|(_, (other, named))| other == uid && named == release);
        other.map(|(key, _)| key.clone())
    }

    /// Claims the release of a spec before it is operated on, if its own record says so. Returns the history; `None`: the account cannot read it, which
    /// whatever needs it says.
    ///
    /// # Errors
    /// The release belongs to another object, or one of this name has objects where this one would be installed.
    pub(super) async fn claim(
        &self,
        pass: &ReconcilePass,
        runner: &ReleaseRunner,
        (object, spec): (&HelmReleaseObject, &HelmReleaseSpec),
        target: &ReleaseTarget,
    ) -> Result<Option<History>, ReconcileError> {
        if spec.kube_config.is_some() {
            return Ok(None);
        }
        let release = object.release_key(spec);
        let Ok(history) = runner.engine().history_of(&release.id).await else { return Ok(None) };
        let newest = history.newest().filter(|newest| newest.info.status != ReleaseStatus::Uninstalled);
        let Some(newest) = newest else {
            pass.check_release(&release)?;
            // Asked first, and whether there is a rival or not: the requests tell it as little as the answer.
            let may_know = may_know_rivals(runner, target, &release).await;
            let rival = runner.engine().records().rival_of(&release.id);
            return match rival.and_then(|rival| refusal(&rival, may_know, &pass.object["status"])) {
                Some(text) => Err(ReconcileError::Config(text)),
                None => Ok(Some(history)),
            };
        };
        let known = self.other_owner(&newest.labels, &release, object);
        let other =
            if known.is_some() { known } else { living_owner(pass, newest, &release, object).await? };
        if let Some(owner) = other {
            let text = format!("release {release} belongs to {owner} already: choose another name");
            return Err(ReconcileError::Config(text));
        }
        match is_made_for(newest, object) {
            true => pass.claim_release(&release)?,
            false => pass.check_release(&release)?,
        }
        Ok(Some(history))
    }

    /// Whether the records of a release say that it is another object's; what cannot be read does not say so.
    pub(super) async fn is_of_another(
        &self,
        runner: &ReleaseRunner,
        release: &ReleaseKey,
        object: &HelmReleaseObject,
    ) -> bool {
        let heads = runner.engine().records().heads_of(&release.id).await.unwrap_or_default();
        let newest = heads.last().filter(|newest| newest.status != ReleaseStatus::Uninstalled);
        newest.is_some_and(|newest| self.other_owner(&newest.labels, release, object).is_some())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (String, ReleaseKey)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether who acts for an object may know which releases there are in the namespace of its release: the operator, or an account that may read
/// the records there. What cannot be answered is no.
async fn may_know_rivals(runner: &ReleaseRunner, target: &ReleaseTarget, release: &ReleaseKey) -> bool {
    let namespace = release.id.namespace.as_str();
    if target.service_account(namespace).is_none() {
        return true;
    }
    let query =
        AccessQuery { namespace: Some(namespace), group: "", resource: "secrets", name: None, verb: "get" };
    runner.engine().cluster().has_right(query).await.unwrap_or(false)
}

/// Why a release cannot be installed beside another one of its name and namespace. `None`: it can, or its account is not to know of the other
/// one, and gets what it would get without that: the API server's answers to its requests.
fn refusal(rival: &ReleaseKey, may_know: bool, status: &Value) -> Option<String> {
    // What the object has deployed itself, and moves now, goes before its successor is installed.
    let is_refused = may_know && !is_deployed_by(status, rival);
    // Where its records are is nobody else's to know.
    is_refused.then(|| format!("another release {} has objects there: choose another name", rival.id))
}

/// Whether a status says that its object has deployed a release last.
fn is_deployed_by(status: &Value, release: &ReleaseKey) -> bool {
    let current = &status["history"][0];
    status["storageNamespace"] == release.storage.as_str()
        && current["namespace"] == release.id.namespace.as_str()
        && current["name"] == release.id.name.as_str()
}

/// The other object that a record was made for, if this process does not watch it, or has not seen it yet, and it is there.
async fn living_owner(
    pass: &ReconcilePass,
    newest: &Record,
    release: &ReleaseKey,
    object: &HelmReleaseObject,
) -> Result<Option<String>, ReconcileError> {
    let Some(uid) = uid_of(&newest.labels).filter(|_| !is_made_for(newest, object)) else { return Ok(None) };
    let Some((namespace, name)) = object_of_cause(&newest.extension.cause) else { return Ok(None) };
    let reference = ObjectRef::new(pass.reference.gvk.clone(), Some(namespace), name);
    let Some(found) = pass.client().get(&reference).await? else { return Ok(None) };
    let other = HelmReleaseObject::read(&found);
    let names = |spec: &HelmReleaseSpec| spec.kube_config.is_none() && other.release_key(spec) == *release;
    let is_owner = other.uid == uid && other.spec().is_ok_and(names);
    Ok(is_owner.then(|| format!("{namespace}/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_engine::ReleaseId;

    #[test]
    fn what_an_object_has_deployed_is_no_rival_of_what_it_moves_to() {
        let status = json!({"storageNamespace": "a", "history": [{"namespace": "b", "name": "web"}]});
        let key = |storage: &str, name: &str| ReleaseKey::new(&ReleaseId::new("b", name), storage);
        assert!(is_deployed_by(&status, &key("a", "web")));
        assert!(!is_deployed_by(&status, &key("c", "web")) && !is_deployed_by(&status, &key("a", "db")));
        assert!(!is_deployed_by(&Value::Null, &key("", "")));
    }

    /// Who may not read the records of a namespace gets the same answer for a name that is taken there as for one that is free.
    #[test]
    fn an_account_that_may_not_read_records_learns_of_no_rival() {
        let rival = ReleaseKey::at_home(&ReleaseId::new("victim", "web"));
        let own = json!({"storageNamespace": "victim", "history": [{"namespace": "victim", "name": "web"}]});
        let told = refusal(&rival, true, &Value::Null);
        assert_eq!(
            told.as_deref(),
            Some("another release victim/web has objects there: choose another name")
        );
        assert_eq!(refusal(&rival, true, &own), None);
        assert_eq!(refusal(&rival, false, &Value::Null), None);
    }

    #[test]
    fn a_release_is_of_the_object_that_its_record_was_made_for_and_that_names_it() {
        let object = |namespace: &str, name: &str, uid: &str, release: &str| {
            let metadata = json!({"namespace": namespace, "name": name, "uid": uid});
            let spec = json!({"targetNamespace": "victim", "releaseName": release, "storageNamespace": "flux-system"});
            HelmReleaseObject::read(&json!({"metadata": metadata, "spec": spec}))
        };
        let (own, squat) =
            (object("flux-system", "prom", "u1", "prom"), object("evil", "squat", "u2", "prom"));
        let release = own.release_key(own.spec().unwrap());
        let labels = BTreeMap::from([("windlass.dev/object-uid".to_owned(), "u1".to_owned())]);
        let names = ReleaseNames::default();
        assert_eq!(names.other_owner(&labels, &release, &squat), None, "it is not known that it exists");
        names.note("flux-system/prom", &own);
        names.note("evil/squat", &squat);
        assert_eq!(names.other_owner(&labels, &release, &squat).as_deref(), Some("flux-system/prom"));
        assert_eq!(names.other_owner(&labels, &release, &own), None);
        assert_eq!(names.other_owner(&BTreeMap::new(), &release, &squat), None, "nobody has marked it");
        names.note("flux-system/prom", &object("flux-system", "prom", "u1", "other"));
        assert_eq!(names.other_owner(&labels, &release, &squat), None, "it names another release now");
        names.note("flux-system/prom", &own);
        names.forget("flux-system/prom");
        assert_eq!(names.other_owner(&labels, &release, &squat), None);
    }
}
