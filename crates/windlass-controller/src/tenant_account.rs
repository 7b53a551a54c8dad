//! The ServiceAccount that acts for an object which a tenant wrote.
//!
//! Owns the one rule by which a front end gets from `spec.serviceAccountName` and `--default-service-account` to an identity. What
//! the account may do is the API server's business.

use std::fmt;
use std::str::FromStr;

use super::error::ReconcileError;
use super::target::{ServiceAccountRef, is_dns_label};

/// Characters of a name that Kubernetes accepts.
const MAX_NAME: usize = 253;

/// The name of a ServiceAccount: never empty, always one that Kubernetes accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountName(String);

impl AccountName {
    /// Reads a name; `None` if Kubernetes accepts no such name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let valid = text.len() <= MAX_NAME && text.split('.').all(is_dns_label);
        valid.then(|| Self(text.to_owned()))
    }

    /// The name as Kubernetes has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AccountName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text).ok_or_else(|| {
            format!("{text:?} is not the name of a ServiceAccount: leave the setting out, or give a name")
        })
    }
}

/// An account of the namespace of the object that it acts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TenantAccount {
    namespace: String,
    name: AccountName,
}

impl TenantAccount {
    /// The account of an object in `namespace`. `wanted` is what its spec names: absent and empty are the same, as in Flux. `default`
    /// is what the operator's flag names. `None` if neither names one: the operator's own rights.
    ///
    /// # Errors
    /// `wanted` is not a name, or the object has no namespace.
    pub fn of(
        namespace: Option<&str>,
        wanted: Option<&str>,
        default: Option<&AccountName>,
    ) -> Result<Option<Self>, ReconcileError> {
        let wrong =
            |name: &str| ReconcileError::Config(format!("spec.serviceAccountName: {name:?} is not a name"));
        let name = match wanted.filter(|wanted| !wanted.is_empty()) {
            Some(wanted) => AccountName::parse(wanted).ok_or_else(|| wrong(wanted))?,
            None => match default {
                Some(default) => default.clone(),
                None => return Ok(None),
            },
        };
        let namespace = namespace.filter(|namespace| is_dns_label(namespace)).ok_or_else(|| {
            ReconcileError::Config(format!("ServiceAccount {name:?}: the object is in no namespace"))
        })?;
        Ok(Some(Self { namespace: namespace.to_owned(), name }))
    }
}

impl From<TenantAccount> for ServiceAccountRef {
    fn from(account: TenantAccount) -> Self {
        Self { namespace: Some(account.namespace), name: account.name.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_rights_need_that_nobody_names_an_account() {
        let default = AccountName::parse("tenant").unwrap();
        for (namespace, wanted, default, expected) in [
            (Some("apps"), None, None, Ok(None)),
            (Some("apps"), Some(""), None, Ok(None)),
            (Some("apps"), None, Some(&default), Ok(Some("apps/tenant"))),
            (Some("apps"), Some(""), Some(&default), Ok(Some("apps/tenant"))),
            (Some("apps"), Some("de.ployer"), Some(&default), Ok(Some("apps/de.ployer"))),
            (Some("apps"), Some("ops/deployer"), Some(&default), Err("\"ops/deployer\" is not a name")),
            (Some("apps"), Some("../x"), Some(&default), Err("is not a name")),
            (Some("apps"), Some(" "), Some(&default), Err("\" \" is not a name")),
            (Some("apps"), Some("system:admin"), None, Err("is not a name")),
            (Some(""), None, Some(&default), Err("in no namespace")),
            (None, Some("deployer"), None, Err("in no namespace")),
        ] {
            let found = TenantAccount::of(namespace, wanted, default);
            let found = found
                .map_err(|error| error.to_string())
                .map(|account| account.map(|account| format!("{}/{}", account.namespace, account.name)));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{wanted:?}"),
                (Err(text), Err(part)) => assert!(text.contains(part), "{text}"),
                other => panic!("{wanted:?}: {other:?}"),
            }
        }
        assert!("".parse::<AccountName>().unwrap_err().contains("leave the setting out"));
        assert!(AccountName::parse(&"a".repeat(64)).is_none());
    }
}
