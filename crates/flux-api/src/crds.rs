//! The CustomResourceDefinitions of Flux's kinds, made of the types of this module: as Flux's own, but for the texts.
//!
//! Owns names, columns and subresources of the kinds. Writes nothing to a cluster.

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::alert::AlertSpec;
use super::bucket_source::{BucketSpec, BucketStatus};
use super::external_artifact::{ExternalArtifactSpec, ExternalArtifactStatus};
use super::git_repository::{GitRepositorySpec, GitRepositoryStatus};
use super::helm_chart::{HelmChartSpec, HelmChartStatus};
use super::helm_release::HelmReleaseSpec;
use super::helm_release_status::HelmReleaseStatus;
use super::helm_repository::{HelmRepositorySpec, HelmRepositoryStatus};
use super::oci_repository::{OciRepositorySpec, OciRepositoryStatus};
use super::provider::ProviderSpec;
use super::receiver::{ReceiverSpec, ReceiverStatus};
use api_types::openapi_schema;

const HELM: Group = Group { name: "helm.toolkit.fluxcd.io", category: "fluxcd-appliers" };
const SOURCE: Group = Group { name: "source.toolkit.fluxcd.io", category: "fluxcd-sources" };
const NOTIFICATION: Group =
    Group { name: "notification.toolkit.fluxcd.io", category: "fluxcd-notifications" };

/// kustomize-controller leaves `${...}` in the CRD as it is.
const NO_SUBSTITUTION: (&str, &str) = ("kustomize.toolkit.fluxcd.io/substitute", "disabled");

const AGE: Column = ("Age", "date", ".metadata.creationTimestamp");
const READY: Column = ("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#);
const MESSAGE: Column = ("Status", "string", r#".status.conditions[?(@.type=="Ready")].message"#);
const URL: Column = ("URL", "string", ".spec.url");

/// Name, type and JSONPath of a column of `kubectl get`.
type Column = (&'static str, &'static str, &'static str);

/// An API group, and the category of its kinds beside `all` and `fluxcd`.
#[derive(Clone, Copy)]
struct Group {
    name: &'static str,
    category: &'static str,
}

/// A kind, but for its schemas.
struct Kind {
    group: Group,
    version: &'static str,
    name: &'static str,
    plural: &'static str,
    short_name: Option<&'static str>,
    columns: &'static [Column],
}

/// What a kind has below `spec`.
enum Status {
    /// Nothing.
    None,
    /// A status that is absent at first.
    Plain(Value),
    /// A status that says at first that no generation was observed.
    Observed(Value),
}

/// The definitions of all kinds, in the order of their names.
#[must_use]
pub fn all() -> Vec<Value> {
    vec![
        alert(),
        bucket(),
        external_artifact(),
        git_repository(),
        helm_chart(),
        helm_release(),
        helm_repository(),
        oci_repository(),
        provider(),
        receiver(),
    ]
}

/// The definition of HelmReleases.
#[must_use]
pub fn helm_release() -> Value {
    let kind = Kind {
        group: HELM,
        version: "v2",
        name: "HelmRelease",
        plural: "helmreleases",
        short_name: Some("hr"),
        columns: &[AGE, READY, MESSAGE],
    };
    kind.crd::<HelmReleaseSpec>("A chart that is kept released.", observed::<HelmReleaseStatus>())
}

fn alert() -> Value {
    let kind = Kind {
        group: NOTIFICATION,
        version: "v1beta3",
        name: "Alert",
        plural: "alerts",
        short_name: None,
        columns: &[AGE],
    };
    kind.crd::<AlertSpec>("Events of objects that go to a Provider.", Status::None)
}

fn provider() -> Value {
    let kind = Kind {
        group: NOTIFICATION,
        version: "v1beta3",
        name: "Provider",
        plural: "providers",
        short_name: None,
        columns: &[AGE],
    };
    kind.crd::<ProviderSpec>("A service that takes the events of Alerts.", Status::None)
}

fn receiver() -> Value {
    let kind = Kind {
        group: NOTIFICATION,
        version: "v1",
        name: "Receiver",
        plural: "receivers",
        short_name: None,
        columns: &[AGE, READY, MESSAGE],
    };
    let about = "A webhook that lets objects be reconciled at once.";
    kind.crd::<ReceiverSpec>(about, observed::<ReceiverStatus>())
}

fn source(
    name: &'static str,
    plural: &'static str,
    short_name: Option<&'static str>,
    columns: &'static [Column],
) -> Kind {
    Kind { group: SOURCE, version: "v1", name, plural, short_name, columns }
}

fn bucket() -> Value {
    let columns = &[("Endpoint", "string", ".spec.endpoint"), AGE, READY, MESSAGE];
    let kind = source("Bucket", "buckets", None, columns);
    kind.crd::<BucketSpec>("Files of an object storage.", observed::<BucketStatus>())
}

fn external_artifact() -> Value {
    let columns = &[AGE, READY, MESSAGE, ("Source", "string", ".spec.sourceRef.name")];
    let kind = source("ExternalArtifact", "externalartifacts", Some("ea"), columns);
    let status = Status::Plain(openapi_schema::of::<ExternalArtifactStatus>());
    kind.crd::<ExternalArtifactSpec>("An artifact that another controller has made.", status)
}

fn git_repository() -> Value {
    let kind = source("GitRepository", "gitrepositories", Some("gitrepo"), &[URL, AGE, READY, MESSAGE]);
    kind.crd::<GitRepositorySpec>("Files of a Git repository.", observed::<GitRepositoryStatus>())
}

fn helm_chart() -> Value {
    let columns = &[
        ("Chart", "string", ".spec.chart"),
        ("Version", "string", ".spec.version"),
        ("Source Kind", "string", ".spec.sourceRef.kind"),
        ("Source Name", "string", ".spec.sourceRef.name"),
        AGE,
        READY,
        MESSAGE,
    ];
    let kind = source("HelmChart", "helmcharts", Some("hc"), columns);
    kind.crd::<HelmChartSpec>("A chart of a source, as a package.", observed::<HelmChartStatus>())
}

fn helm_repository() -> Value {
    let kind = source("HelmRepository", "helmrepositories", Some("helmrepo"), &[URL, AGE, READY, MESSAGE]);
    kind.crd::<HelmRepositorySpec>("A server of charts.", observed::<HelmRepositoryStatus>())
}

fn oci_repository() -> Value {
    let kind = source("OCIRepository", "ocirepositories", Some("ocirepo"), &[URL, READY, MESSAGE, AGE]);
    kind.crd::<OciRepositorySpec>("An artifact of a registry.", observed::<OciRepositoryStatus>())
}

fn observed<T: JsonSchema>() -> Status {
    Status::Observed(openapi_schema::of::<T>())
}

impl Kind {
    fn crd<Spec: JsonSchema>(&self, about: &str, status: Status) -> Value {
        let Kind { group, version, name, plural, short_name, columns } = self;
        let mut names = json!({
            "categories": ["all", "fluxcd", group.category],
            "kind": name,
            "listKind": format!("{name}List"),
            "plural": plural,
            "singular": name.to_lowercase(),
        });
        if let Some(short_name) = short_name {
            names["shortNames"] = json!([short_name]);
        }
        let columns = columns
            .iter()
            .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
            .collect::<Vec<_>>();
        let (schema, subresources) = root_schema(about, openapi_schema::of::<Spec>(), status);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.{}", group.name),
                "annotations": {NO_SUBSTITUTION.0: NO_SUBSTITUTION.1},
            },
            "spec": {
                "group": group.name,
                "names": names,
                "scope": "Namespaced",
                "versions": [{
                    "name": version,
                    "served": true,
                    "storage": true,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                }],
            },
        })
    }
}

/// The schema of a whole object, and its subresources.
fn root_schema(about: &str, spec: Value, status: Status) -> (Value, Value) {
    let mut schema = openapi_schema::of_object(about, [("spec", spec)]);
    let status = match status {
        Status::None => return (schema, json!({})),
        Status::Plain(status) => status,
        Status::Observed(mut status) => {
            status["default"] = json!({"observedGeneration": -1});
            status
        }
    };
    schema["properties"]["status"] = status;
    (schema, json!({"status": {}}))
}

#[cfg(test)]
mod tests;
