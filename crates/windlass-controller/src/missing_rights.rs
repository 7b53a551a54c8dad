//! The rights that a release needs and its account has not: all of them at once, with the command that grants them.
//!
//! Owns the comparison. What the condition is called is the front end's.

use std::collections::BTreeMap;
use std::fmt;

use futures::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::error::ReconcileError;
use super::object_rights::{PlacedObject, object_rights, record_rights};
use super::release_runner::{ReleaseRunner, ReleaseSpec};
use super::rights::{Right, RightSet};
use windlass_cluster::{AccessQuery, Cluster, ClusterError, Gvk, ObjectMeta};
use windlass_engine::{Disposition, ReleaseId, RenderedRelease};

/// Most reviews of single rights in one comparison.
const MAX_REVIEWS: usize = 1000;
/// Reviews at once.
const AT_ONCE: usize = 8;
/// Most rights that a message lists.
const MAX_LISTED: usize = 30;

/// The rights that a client has not.
///
/// # Errors
/// The API server does not answer.
pub async fn missing_rights(client: &Cluster, needed: &RightSet) -> Result<RightSet, ClusterError> {
    let mut rules = BTreeMap::new();
    for namespace in needed.namespaces() {
        rules.insert(namespace.to_owned(), client.rules_in(namespace).await?);
    }
    let known = |right: &Right<'_>, verb: &str| {
        let listed = right.scope.and_then(|namespace| rules.get(namespace));
        listed.is_some_and(|rules| rules.iter().any(|rule| grants(rule, right, verb)))
    };
    let verbs = needed.iter().flat_map(|right| right.verbs.iter().map(move |verb| (right, verb)));
    // What is not listed may still be granted.
    let open: Vec<(Right<'_>, &String)> =
        verbs.filter(|(right, verb)| !known(right, verb)).take(MAX_REVIEWS).collect();
    let reviews: Vec<_> = open.into_iter().map(|(right, verb)| review(client, right, verb)).collect();
    let answers: Vec<_> = futures::stream::iter(reviews).buffered(AT_ONCE).try_collect().await?;
    let mut missing = RightSet::default();
    for (right, verb, _) in answers.into_iter().filter(|(_, _, granted)| !granted) {
        missing.add_to(right.scope, right.group, right.resource, right.name, &[verb]);
    }
    Ok(missing)
}

/// A verb of a right, and whether the client has it.
async fn review<'r>(
    client: &Cluster,
    right: Right<'r>,
    verb: &'r str,
) -> Result<(Right<'r>, &'r str, bool), ClusterError> {
    let Right { scope, group, resource, name, .. } = right;
    let query = AccessQuery { namespace: scope, group, resource, name, verb };
    Ok((right, verb, client.has_right(query).await?))
}

/// Whether a rule of a review grants a verb.
fn grants(rule: &Value, right: &Right<'_>, verb: &str) -> bool {
    let has = |key: &str, wanted: &dyn Fn(&str) -> bool| {
        rule[key]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .any(|text| text == "*" || wanted(text))
    };
    let names = rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty());
    has("verbs", &|text| text == verb)
        && has("apiGroups", &|text| text == right.group)
        && has("resources", &|text| text == right.resource)
        && (!names || right.name.is_some_and(|name| has("resourceNames", &|text| text == name)))
}

/// Reason of a condition that lists missing rights.
pub const MISSING_RIGHTS: &str = "MissingRights";
/// What a ServiceAccount's user name begins with.
const ACCOUNT: &str = "system:serviceaccount:";

/// Namespace and name of the ServiceAccount that a user is.
#[must_use]
pub fn account_of(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix(ACCOUNT)?.split_once(':')
}

/// An error that lists rights which a user has not who is no ServiceAccount.
#[must_use]
pub fn user_lacks(user: &str, missing: &RightSet) -> String {
    format!("user {user:?} lacks rights: {}", listed(missing))
}

/// The error of a pass that rights are missing for: they may be granted at any time.
#[must_use]
pub fn missing_rights_error(text: String) -> ReconcileError {
    ReconcileError::Reason { reason: MISSING_RIGHTS, text, disposition: Disposition::Retry }
}

/// A chart as commands take it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChartArguments {
    /// The reference.
    pub chart: String,
    /// `--repo`; empty without one.
    pub repository: String,
    /// `--version`; empty without one.
    pub version: String,
}

impl ChartArguments {
    /// A chart by its addresses, without a login in them: not the user, nor the query of a signed URL.
    #[must_use]
    pub fn without_login(chart: &str, repository: &str, version: &str) -> Self {
        let plain = |text: &str| match text.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split('/').next().unwrap_or_default();
                let login = authority.rfind('@').map_or(0, |at| at + 1);
                let rest = &rest[login..];
                // Of Git it is the branch.
                let is_web = matches!(scheme, "http" | "https");
                let shown = if is_web { rest.split('?').next().unwrap_or_default() } else { rest };
                format!("{scheme}://{shown}")
            }
            None => text.to_owned(),
        };
        Self { chart: plain(chart), repository: plain(repository), version: version.to_owned() }
    }
}

/// A message that lists missing rights and the command that grants them.
#[derive(Debug, Clone)]
pub struct MissingRights<'m> {
    /// The rights.
    pub missing: &'m RightSet,
    /// Namespace and name of the ServiceAccount that has them not.
    pub account: (&'m str, &'m str),
    /// Flags for the kind of the operator whose own account it is; `None`: an account that the operator impersonates.
    pub operator_kind: Option<&'m [(&'static str, String)]>,
    /// The chart, as `windlass rbac` takes it.
    pub chart: &'m ChartArguments,
    /// The namespace of the release.
    pub namespace: &'m str,
    /// Whether objects of the kind name pull secrets.
    pub pull_secrets: bool,
}

impl fmt::Display for MissingRights<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = self.account;
        write!(f, "ServiceAccount {namespace}/{name} lacks rights: {}", listed(self.missing))?;
        write!(f, ". Grant them: {}", self.command())
    }
}

impl MissingRights<'_> {
    /// The command that grants all rights which the chart needs.
    #[must_use]
    pub fn command(&self) -> String {
        let ChartArguments { chart, repository, version } = self.chart;
        let mut words = vec!["windlass".to_owned(), "rbac".to_owned(), quoted(chart)];
        for (flag, value) in [("--repo", repository), ("--version", version)] {
            if !value.is_empty() {
                words.extend([flag.to_owned(), quoted(value)]);
            }
        }
        let (namespace, name) = self.account;
        words.extend([
            "--namespace".to_owned(),
            quoted(namespace),
            "--service-account".to_owned(),
            quoted(name),
        ]);
        if namespace != self.namespace {
            words.extend(["--release-namespace".to_owned(), quoted(self.namespace)]);
        }
        if self.pull_secrets {
            words.push("--pull-secrets".to_owned());
        }
        match self.operator_kind {
            Some(flags) => {
                words.extend(flags.iter().flat_map(|(flag, value)| [(*flag).to_owned(), quoted(value)]));
            }
            None => words.push("--impersonated".to_owned()),
        }
        words.join(" ") + " | kubectl apply -f -"
    }
}

/// Rights as a text, as many as a message may have.
fn listed(missing: &RightSet) -> String {
    let all: Vec<String> = missing.iter().map(|right| right.to_string()).collect();
    let mut text = all[..all.len().min(MAX_LISTED)].join("; ");
    if all.len() > MAX_LISTED {
        text.push_str(&format!("; and {} more", all.len() - MAX_LISTED));
    }
    text
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@+,%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The rights that applying and recording a release takes, with the resources that the cluster serves. Objects of kinds that it does
/// not serve need none yet. `crds`: whether the files of `crds/` are among them.
///
/// # Errors
/// Discovery cannot be read.
pub async fn release_rights(
    client: &Cluster,
    id: &ReleaseId,
    release: &RenderedRelease,
    crds: bool,
) -> Result<RightSet, ClusterError> {
    let kinds = client.kinds().await?;
    let files = release.crds.iter().filter(|_| crds).flat_map(|file| &file.objects);
    let objects = release.manifests.iter().map(|manifest| &manifest.object);
    let objects = objects.chain(release.hooks.iter().map(|hook| &hook.object)).chain(files);
    let placed: Vec<PlacedObject<'_>> = objects
        .filter_map(|object| {
            let served = kinds.get(&Gvk::of(object)?)?;
            let namespace = ObjectMeta::of(object).namespace().unwrap_or(&id.namespace);
            let scope = Some(namespace).filter(|_| served.namespaced);
            Some(PlacedObject { object, resource: &served.plural, scope })
        })
        .collect();
    let mut rights = object_rights(&placed);
    rights.extend(record_rights(&id.namespace));
    Ok(rights)
}

impl ReleaseRunner {
    /// The rights for a release that the account which applies it has not. For releases that the API server refused: it renders again,
    /// and asks the server some ten times. Writes nothing.
    ///
    /// # Errors
    /// The chart cannot be rendered, or the API server does not answer.
    pub async fn missing_rights(&self, spec: ReleaseSpec) -> Result<RightSet, ReconcileError> {
        let crds = !self.applies_crds_as_operator();
        let request = self.preview(spec).await?;
        let client = self.engine().cluster();
        let needed = release_rights(client, &request.id, &request.rendered, crds).await?;
        Ok(missing_rights(client, &needed).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_of_a_review_grant_what_they_name() {
        let mut needed = RightSet::default();
        needed.add(Some("ns"), "apps", "deployments", &["get"]);
        needed.add_to(Some("ns"), "", "secrets", Some("a"), &["get"]);
        let rights: Vec<Right<'_>> = needed.iter().collect();
        let (secret, deployments) = (rights[0], rights[1]);
        let rule = |group: &str, resource: &str, verb: &str, names: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names});
        for (rule, right, expected) in [
            (rule("apps", "deployments", "get", &[]), deployments, true),
            (rule("*", "*", "*", &[]), deployments, true),
            (rule("apps", "deployments", "list", &[]), deployments, false),
            (rule("", "deployments", "get", &[]), deployments, false),
            (rule("apps", "deployments/scale", "get", &[]), deployments, false),
            (rule("apps", "deployments", "get", &["a"]), deployments, false),
            (rule("", "secrets", "get", &["a"]), secret, true),
            (rule("", "secrets", "get", &["b"]), secret, false),
            (rule("", "secrets", "get", &[]), secret, true),
        ] {
            assert_eq!(grants(&rule, &right, "get"), expected, "{rule}");
        }
    }

    #[test]
    fn commands_name_no_login() {
        for (chart, repository, expected) in [
            ("web", "https://me:secret@r.example.com/a@b", "web https://r.example.com/a@b 1.x"),
            ("oci://r.example.com/web", "", "oci://r.example.com/web  1.x"),
            ("https://b.example.com/web.tgz?sig=secret", "", "https://b.example.com/web.tgz  1.x"),
            ("git+https://g.example.com/a@web?ref=v1", "", "git+https://g.example.com/a@web?ref=v1  1.x"),
        ] {
            let ChartArguments { chart, repository, version } =
                ChartArguments::without_login(chart, repository, "1.x");
            assert_eq!(format!("{chart} {repository} {version}"), expected);
        }
    }

    #[test]
    fn users_are_service_accounts_or_not() {
        assert_eq!(account_of("system:serviceaccount:shop:web"), Some(("shop", "web")));
        assert_eq!(account_of("kubernetes-admin"), None);
    }

    #[test]
    fn a_message_lists_rights_and_the_command() {
        let mut missing = RightSet::default();
        missing.add(Some("shop"), "apps", "deployments", &["patch", "create"]);
        missing.add(None, "", "namespaces", &["get"]);
        let chart = |chart: &str, repository: &str, version: &str| ChartArguments {
            chart: chart.to_owned(),
            repository: repository.to_owned(),
            version: version.to_owned(),
        };
        let message = MissingRights {
            missing: &missing,
            account: ("shop", "deployer"),
            operator_kind: None,
            chart: &chart("oci://charts.example.com/liberty", "", ">=1.2 <2"),
            namespace: "shop",
            pull_secrets: false,
        };
        assert_eq!(
            message.to_string(),
            "ServiceAccount shop/deployer lacks rights: get namespaces in the cluster; create, patch deployments.apps in namespace \
             shop. Grant them: windlass rbac oci://charts.example.com/liberty --version '>=1.2 <2' --namespace shop \
             --service-account deployer --impersonated | kubectl apply -f -"
        );
        let account = ("windlass", "windlass");
        let flags = [("--group", "example.com".to_owned()), ("--kind", "Web".to_owned())];
        let chart = chart("it's", "https://charts.example.com", "");
        let own = MissingRights {
            account,
            operator_kind: Some(&flags),
            chart: &chart,
            pull_secrets: true,
            ..message
        };
        let command = r"windlass rbac 'it'\''s' --repo https://charts.example.com --namespace windlass --service-account windlass --release-namespace shop --pull-secrets --group example.com --kind Web | kubectl apply -f -";
        assert_eq!(own.command(), command);
        let mut all = missing.clone();
        for n in 0..40 {
            all.add(None, "", &format!("r{n:02}"), &["get"]);
        }
        let many = MissingRights { missing: &all, ..own };
        assert!(many.to_string().contains("; and 12 more. Grant"), "{many}");
    }
}
