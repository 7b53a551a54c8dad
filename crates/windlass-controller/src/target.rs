//! Where a release is installed and on whose behalf.
//!
//! Owns the names of the two and the impersonating client of each ServiceAccount. Where a front end writes them down (a
//! chart's annotation, a field of a spec) is the front end's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::ReconcileError;
use super::tenant_account::{AccountName, TenantAccount};
use windlass_cluster::{Cluster, ClusterError};

/// Namespace of a release, and the ServiceAccount that applies its objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReleaseTarget {
    /// Namespace of the release; `None`: the front end's default.
    pub namespace: Option<String>,
    /// With whose rights its objects are applied.
    pub actor: ReleaseActor,
}

/// With whose rights the objects of a release are applied, and on which cluster. That nobody is named on another cluster does not mean the
/// operator on this one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReleaseActor {
    /// The operator's own rights, on its own cluster.
    #[default]
    Operator,
    /// Those of a ServiceAccount of its own cluster.
    Account(ServiceAccountRef),
    /// Those of the credentials of another cluster, or of a ServiceAccount there. On the operator's own cluster there is nobody who acts.
    OtherCluster(Option<ServiceAccountRef>),
}

/// A ServiceAccount by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceAccountRef {
    /// `None`: the release's namespace.
    pub namespace: Option<String>,
    /// Name of the ServiceAccount.
    pub name: String,
}

impl ServiceAccountRef {
    /// Reads `NAME` or `NAMESPACE/NAME`; `None` if a part is not a name that Kubernetes accepts.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        let valid = namespace.is_none_or(is_dns_label) && name.split('.').all(is_dns_label);
        valid.then(|| Self { namespace: namespace.map(str::to_owned), name: name.to_owned() })
    }
}

impl ReleaseTarget {
    /// That of an object which a tenant wrote ([`TenantAccount::of`]).
    ///
    /// # Errors
    /// As [`TenantAccount::of`].
    pub fn of_tenant(
        object_namespace: Option<&str>,
        wanted: Option<&str>,
        default: Option<&AccountName>,
    ) -> Result<Self, ReconcileError> {
        let account = TenantAccount::of(object_namespace, wanted, default)?;
        let actor = account.map_or(ReleaseActor::Operator, |account| ReleaseActor::Account(account.into()));
        Ok(Self { namespace: None, actor })
    }

    /// The same on another cluster.
    #[must_use]
    pub fn on_other_cluster(self) -> Self {
        let account = self.account().cloned();
        Self { actor: ReleaseActor::OtherCluster(account), ..self }
    }

    /// Whether the release is on another cluster.
    #[must_use]
    pub fn is_on_other_cluster(&self) -> bool {
        matches!(self.actor, ReleaseActor::OtherCluster(_))
    }

    /// The same without impersonation: whoever connects acts.
    #[must_use]
    pub fn without_account(self) -> Self {
        let actor = match self.actor {
            ReleaseActor::Operator | ReleaseActor::Account(_) => ReleaseActor::Operator,
            ReleaseActor::OtherCluster(_) => ReleaseActor::OtherCluster(None),
        };
        Self { actor, ..self }
    }

    fn account(&self) -> Option<&ServiceAccountRef> {
        match &self.actor {
            ReleaseActor::Operator => None,
            ReleaseActor::Account(account) => Some(account),
            ReleaseActor::OtherCluster(account) => account.as_ref(),
        }
    }

    /// Namespace and name of the ServiceAccount that applies a release in `namespace`, on the cluster of the release.
    #[must_use]
    pub fn service_account<'a>(&'a self, namespace: &'a str) -> Option<(&'a str, &'a str)> {
        let account = self.account()?;
        Some((account.namespace.as_deref().unwrap_or(namespace), &account.name))
    }
}

/// Whether a text is a label of RFC 1123, as names of namespaces are.
#[must_use]
pub fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The most clients that act as ServiceAccounts: tenants write the names, and each client has connections and buffers of its own.
const MAX_CLIENTS: usize = 512;

/// Clients that act as ServiceAccounts, by user name: those that were used last. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Impersonation(Arc<Mutex<LastUsed<Cluster>>>);

impl Impersonation {
    /// The client that acts as a ServiceAccount.
    ///
    /// # Errors
    /// The client cannot be built.
    pub(super) fn client(
        &self,
        operator: &Cluster,
        (namespace, name): (&str, &str),
    ) -> Result<Cluster, ClusterError> {
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.get_or_try_insert(user, |user| operator.acting_as(user))
    }
}

/// Values by name, of which the one that was used least recently makes room for a new one.
struct LastUsed<T> {
    /// Each with the number of its last use.
    values: BTreeMap<String, (u64, T)>,
    uses: u64,
    most: usize,
}

impl<T> Default for LastUsed<T> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), uses: 0, most: MAX_CLIENTS }
    }
}

impl<T: Clone> LastUsed<T> {
    fn get_or_try_insert<E>(
        &mut self,
        name: String,
        make: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        self.uses += 1;
        if let Some((used, value)) = self.values.get_mut(&name) {
            *used = self.uses;
            return Ok(value.clone());
        }
        let value = make(&name)?;
        if self.values.len() >= self.most {
            let oldest = self.values.iter().min_by_key(|(_, (used, _))| *used).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| self.values.remove(&oldest));
        }
        self.values.insert(name, (self.uses, value.clone()));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_are_read() {
        for (text, expected) in [
            ("deployer", Some((None, "deployer"))),
            ("ops/de.ployer", Some((Some("ops"), "de.ployer"))),
            ("a/b/c", None),
            ("system:admin", None),
            ("/x", None),
            ("", None),
        ] {
            let found = ServiceAccountRef::parse(text);
            let found = found.as_ref().map(|a| (a.namespace.as_deref(), a.name.as_str()));
            assert_eq!(found, expected, "{text}");
        }
        let account = ServiceAccountRef::parse("deployer").unwrap();
        let target = ReleaseTarget { namespace: None, actor: ReleaseActor::Account(account) };
        assert_eq!(target.service_account("web"), Some(("web", "deployer")));
    }

    #[test]
    fn nobody_on_another_cluster_is_not_the_operator_on_this_one() {
        let nobody = ReleaseTarget::of_tenant(Some("apps"), None, None).unwrap();
        assert_eq!(nobody, ReleaseTarget::default());
        let elsewhere = nobody.on_other_cluster();
        assert!(elsewhere.is_on_other_cluster() && elsewhere != ReleaseTarget::default());
        assert_eq!(elsewhere.service_account("apps"), None);
        assert_eq!(elsewhere.clone().without_account(), elsewhere);
        let named =
            ReleaseTarget::of_tenant(Some("apps"), Some("deployer"), None).unwrap().on_other_cluster();
        assert_eq!(named.service_account("x"), Some(("apps", "deployer")));
        assert_eq!(named.without_account(), elsewhere);
    }

    #[test]
    fn clients_of_names_that_nobody_uses_go() {
        let mut clients = LastUsed { most: 3, ..LastUsed::default() };
        let mut made = Vec::new();
        let mut used = |name: &str| {
            let value = clients.get_or_try_insert(name.to_owned(), |name| {
                made.push(name.to_owned());
                if name == "bad" { Err("no client") } else { Ok(name.to_uppercase()) }
            });
            (value, clients.values.len())
        };
        for (name, left) in [("a", 1), ("b", 2), ("c", 3), ("a", 3), ("d", 3), ("a", 3), ("c", 3), ("b", 3)] {
            assert_eq!(used(name), (Ok(name.to_uppercase()), left));
        }
        assert_eq!(used("bad"), (Err("no client"), 3));
        // What was used least recently was made again, and nothing else.
        assert_eq!(made, ["a", "b", "c", "d", "b", "bad"]);
    }
}
