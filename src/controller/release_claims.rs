//! Which object each release of a front end belongs to.
//!
//! Owns who gets a release that several objects claim. Knows no cluster: claims last as long as the process; front ends read the
//! marks of records for what was before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::error::ReconcileError;
use crate::release::ReleaseId;

/// The owners of releases, by the keys of objects (`NAMESPACE/NAME`). Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReleaseClaims(Arc<Mutex<BTreeMap<ReleaseId, String>>>);

/// How a claim ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The object has the release.
    Granted,
    /// The object has the release, which this other object had.
    TakenFrom(String),
    /// This other object has it.
    Refused(String),
}

impl ReleaseClaims {
    /// Gives a release to an object: the first one that claims it has it, unless it is in another namespace than the release and
    /// this one is not. Who may write objects in one namespace cannot occupy the names of another.
    pub(super) fn claim(&self, release: &ReleaseId, key: &str) -> Claim {
        let at_home = |key: &str| key.split_once('/').is_some_and(|(own, _)| own == release.namespace);
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match owners.get(release) {
            Some(owner) if owner == key => Claim::Granted,
            Some(owner) if at_home(owner) || !at_home(key) => Claim::Refused(owner.clone()),
            _ => match owners.insert(release.clone(), key.to_owned()) {
                Some(former) => Claim::TakenFrom(former),
                None => Claim::Granted,
            },
        }
    }

    /// The owner of a release.
    pub(super) fn owner(&self, release: &ReleaseId) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(release).cloned()
    }

    /// Ends the claims of an object on all releases but these. Returns those that have no owner any more.
    pub(super) fn keep(&self, key: &str, kept: &BTreeSet<ReleaseId>) -> Vec<ReleaseId> {
        let mut owners = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = owners.iter().filter(|(id, owner)| *owner == key && !kept.contains(*id));
        let ended: Vec<ReleaseId> = ended.map(|(id, _)| id.clone()).collect();
        ended.iter().for_each(|id| drop(owners.remove(id)));
        ended
    }
}

/// The error of an object whose release belongs to another one.
pub(super) fn claim_error(claims: &ReleaseClaims, release: &ReleaseId, key: &str) -> Option<ReconcileError> {
    let owner = claims.owner(release).filter(|owner| owner != key)?;
    Some(ReconcileError::Config(format!("release {release} belongs to {owner} already: choose another name")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_object_has_a_release_unless_another_is_at_home() {
        let claims = ReleaseClaims::default();
        let web = ReleaseId::new("shop", "web");
        assert_eq!(claims.claim(&web, "ops/a"), Claim::Granted);
        assert_eq!(claims.claim(&web, "ops/a"), Claim::Granted);
        assert_eq!(claims.claim(&web, "ops/b"), Claim::Refused("ops/a".to_owned()));
        assert_eq!(claims.claim(&web, "shop/c"), Claim::TakenFrom("ops/a".to_owned()));
        assert_eq!(claims.claim(&web, "shop/d"), Claim::Refused("shop/c".to_owned()));
        assert_eq!(claims.keep("shop/c", &BTreeSet::from([web.clone()])), []);
        assert_eq!(claims.keep("shop/c", &BTreeSet::new()), std::slice::from_ref(&web));
        assert_eq!(claims.owner(&web), None);
    }
}
