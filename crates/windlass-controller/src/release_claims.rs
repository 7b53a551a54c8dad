//! Which object each release of a front end belongs to.
//!
//! Owns who gets a release that several objects claim: who has written its record, and nobody by asking for it alone. Knows no cluster:
//! claims last as long as the process; front ends read the marks of records for what was before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::ReconcileError;
use windlass_engine::ReleaseKey;

/// The owners of releases, by the keys of objects (`NAMESPACE/NAME`). Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct ReleaseClaims(Arc<Mutex<Claims>>);

#[derive(Debug, Default)]
struct Claims {
    owners: BTreeMap<ReleaseKey, Owner>,
    /// Objects that lost a release to another one, and were not told yet.
    former: BTreeSet<String>,
}

#[derive(Debug)]
struct Owner {
    key: String,
    /// It has written the record of the release, or could have: it keeps others from it.
    is_proven: bool,
}

impl ReleaseClaims {
    /// Notes that an object asks for a release, whose triggers it gets as long as nobody has more. It keeps nobody from it: who may write
    /// objects in one namespace may name releases of another, without any right there.
    pub(super) fn note_wish(&self, release: &ReleaseKey, key: &str) {
        let wish = || Owner { key: key.to_owned(), is_proven: false };
        self.lock().owners.entry(release.clone()).or_insert_with(wish);
    }

    /// Gives a release to an object that has operated on it, or may: the first one has it, unless it is in another namespace than the
    /// records and this one is not. Who may write objects in one namespace cannot occupy the names of another.
    ///
    /// # Errors
    /// The release belongs to another object.
    pub(super) fn claim(&self, release: &ReleaseKey, key: &str) -> Result<(), ReconcileError> {
        let at_home = |key: &str| key.split_once('/').is_some_and(|(own, _)| own == release.storage);
        let mut claims = self.lock();
        let owner = Owner { key: key.to_owned(), is_proven: true };
        match claims.owners.get(release).filter(|owner| owner.is_proven && owner.key != key) {
            Some(owner) if at_home(&owner.key) || !at_home(key) => return Err(refused(release, &owner.key)),
            Some(former) => {
                let former = former.key.clone();
                claims.former.insert(former);
            }
            None => {}
        }
        claims.owners.insert(release.clone(), owner);
        Ok(())
    }

    /// The object that gets the triggers of a release.
    pub(super) fn owner(&self, release: &ReleaseKey) -> Option<String> {
        self.lock().owners.get(release).map(|owner| owner.key.clone())
    }

    /// The error of an object whose release belongs to another one.
    pub(super) fn refusal(&self, release: &ReleaseKey, key: &str) -> Option<ReconcileError> {
        let claims = self.lock();
        let owner = claims.owners.get(release).filter(|owner| owner.is_proven && owner.key != key)?;
        Some(refused(release, &owner.key))
    }

    /// Ends the claims of an object on all releases but these. Returns those that have no owner any more.
    pub(super) fn keep(&self, key: &str, kept: &BTreeSet<ReleaseKey>) -> Vec<ReleaseKey> {
        let mut claims = self.lock();
        let ended = claims.owners.iter().filter(|(id, owner)| owner.key == key && !kept.contains(*id));
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

    #[test]
    fn who_only_asks_for_a_release_keeps_nobody_from_it() {
        let claims = ReleaseClaims::default();
        let prom = ReleaseId::new("victim", "prom");
        let (own, there) = (ReleaseKey::new(&prom, "flux-system"), ReleaseKey::new(&prom, "apps-evil"));
        claims.note_wish(&own, "apps-evil/squat");
        claims.note_wish(&own, "flux-system/prom");
        assert_eq!(claims.owner(&own).as_deref(), Some("apps-evil/squat"));
        assert!(claims.refusal(&own, "flux-system/prom").is_none());
        assert!(claims.claim(&own, "flux-system/prom").is_ok());
        assert_eq!(
            (claims.owner(&own).as_deref(), claims.take_former_owners()),
            (Some("flux-system/prom"), BTreeSet::new())
        );
        claims.note_wish(&own, "apps-evil/squat");
        let told = claims.refusal(&own, "apps-evil/squat").unwrap().to_string();
        assert_eq!(told, claims.claim(&own, "apps-evil/squat").unwrap_err().to_string());
        assert!(
            told.contains("victim/prom with records in flux-system belongs to flux-system/prom"),
            "{told}"
        );
        // Records in another namespace are another release.
        assert!(claims.claim(&there, "apps-evil/squat").is_ok());
        assert!(claims.refusal(&own, "flux-system/prom").is_none());
    }
}
