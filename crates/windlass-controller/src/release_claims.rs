//! Which object each release of a front end belongs to.
//!
//! Owns who gets a release that several objects claim. Knows no cluster: claims last as long as the process; front ends read the
//! marks of records for what was before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ReconcileError;
use windlass_engine::ReleaseKey;

/// The owners of releases, by the keys of objects (`NAMESPACE/NAME`). Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReleaseClaims(Arc<Mutex<Claims>>);

#[derive(Debug, Default)]
struct Claims {
    owners: BTreeMap<ReleaseKey, String>,
    /// Objects that lost a release to another one, and were not told yet.
    former: BTreeSet<String>,
}

impl ReleaseClaims {
    /// Gives a release to an object: the first one that claims it has it, unless it is in another namespace than the release and
    /// this one is not. Who may write objects in one namespace cannot occupy the names of another.
    ///
    /// # Errors
    /// The release belongs to another object.
    pub(super) fn claim(&self, release: &ReleaseKey, key: &str) -> Result<(), ReconcileError> {
        let at_home = |key: &str| key.split_once('/').is_some_and(|(own, _)| own == release.storage);
        let mut claims = self.lock();
        match claims.owners.get(release) {
            Some(owner) if owner == key => return Ok(()),
            Some(owner) if at_home(owner) || !at_home(key) => return Err(refused(release, owner)),
            _ => {}
        }
        if let Some(former) = claims.owners.insert(release.clone(), key.to_owned()) {
            claims.former.insert(former);
        }
        Ok(())
    }

    /// The owner of a release.
    pub(super) fn owner(&self, release: &ReleaseKey) -> Option<String> {
        self.lock().owners.get(release).cloned()
    }

    /// The error of an object whose release belongs to another one.
    pub(super) fn refusal(&self, release: &ReleaseKey, key: &str) -> Option<ReconcileError> {
        let owner = self.owner(release).filter(|owner| owner != key)?;
        Some(refused(release, &owner))
    }

    /// Ends the claims of an object on all releases but these. Returns those that have no owner any more.
    pub(super) fn keep(&self, key: &str, kept: &BTreeSet<ReleaseKey>) -> Vec<ReleaseKey> {
        let mut claims = self.lock();
        let ended = claims.owners.iter().filter(|(id, owner)| *owner == key && !kept.contains(*id));
        let ended: Vec<ReleaseKey> = ended.map(|(id, _)| id.clone()).collect();
        ended.iter().for_each(|id| drop(claims.owners.remove(id)));
        ended
    }

    /// The objects that lost a release to another one since the last call.
    pub(super) fn take_former_owners(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.lock().former)
    }

    fn lock(&self) -> MutexGuard<'_, Claims> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(release: &ReleaseKey, owner: &str) -> ReconcileError {
    ReconcileError::Config(format!("release {release} belongs to {owner} already: choose another name"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::ReleaseId;

    #[test]
    fn the_first_object_has_a_release_unless_another_is_at_home() {
        let claims = ReleaseClaims::default();
        let web = ReleaseKey::at_home(&ReleaseId::new("shop", "web"));
        assert!(claims.claim(&web, "ops/a").is_ok());
        assert!(claims.claim(&web, "ops/a").is_ok());
        let told = claims.claim(&web, "ops/b").unwrap_err().to_string();
        assert_eq!(told, "release shop/web belongs to ops/a already: choose another name");
        assert_eq!(claims.refusal(&web, "ops/b").unwrap().to_string(), told);
        assert_eq!(claims.take_former_owners(), BTreeSet::new());
        assert!(claims.claim(&web, "shop/c").is_ok());
        assert_eq!(claims.take_former_owners(), BTreeSet::from(["ops/a".to_owned()]));
        assert_eq!(claims.take_former_owners(), BTreeSet::new());
        assert!(claims.claim(&web, "shop/d").unwrap_err().to_string().contains("belongs to shop/c"));
        assert_eq!(claims.keep("shop/c", &BTreeSet::from([web.clone()])), []);
        assert_eq!(claims.keep("shop/c", &BTreeSet::new()), std::slice::from_ref(&web));
        assert_eq!(claims.owner(&web), None);
    }
}
