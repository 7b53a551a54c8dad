//! `GitRepository`, `source.toolkit.fluxcd.io/v1`: files of a commit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::common::{LocalObjectReference, SHORT_DURATION, SourceArtifact, StatusCondition, is_default};

/// Which files of which commit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!has(self.serviceAccountName) || (has(self.provider) && (self.provider == 'azure' || self.provider == 'aws'))",
    "message": "serviceAccountName needs the provider azure or aws",
}]))]
pub struct GitRepositorySpec {
    /// URL of the repository, over HTTP, HTTPS or SSH.
    #[schemars(regex(pattern = "^(http|https|ssh)://.*$"))]
    pub url: String,
    /// Secret with credentials. HTTPS: `username` and `password`, or `bearerToken`. SSH: `identity` and `known_hosts`.
    #[serde(skip_serializing_if = "is_default")]
    pub secret_ref: Option<LocalObjectReference>,
    /// Whose credentials the server takes; `generic`, the default, are those of `secretRef`.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["generic", "aws", "azure", "github"]))]
    pub provider: String,
    /// ServiceAccount whose identity the providers `aws` and `azure` take.
    #[serde(skip_serializing_if = "is_default")]
    pub service_account_name: String,
    /// How often the repository is looked at. Jitter may be added.
    pub interval: Option<GoDuration>,
    /// Time limit of a Git operation.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("pattern" = SHORT_DURATION, "x-default" = "60s"))]
    pub timeout: Option<GoDuration>,
    /// Which commit; the newest of the branch `master` by default.
    #[serde(rename = "ref", skip_serializing_if = "is_default")]
    pub reference: Option<GitRepositoryRef>,
    /// Signatures that the commit, the tag or both must have.
    #[serde(skip_serializing_if = "is_default")]
    pub verify: Option<GitRepositoryVerification>,
    /// Secret with the proxy to go through: `address`, and `username` and `password` if it wants them.
    #[serde(skip_serializing_if = "is_default")]
    pub proxy_secret_ref: Option<LocalObjectReference>,
    /// Files to leave out, in the form of `.gitignore`, in place of the defaults.
    #[serde(skip_serializing_if = "is_default")]
    pub ignore: Option<String>,
    /// Stop looking at the repository.
    #[serde(skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Check out submodules, and theirs.
    #[serde(skip_serializing_if = "is_default")]
    pub recurse_submodules: bool,
    /// Other GitRepositories whose files are added to these.
    #[serde(skip_serializing_if = "is_default")]
    pub include: Vec<GitRepositoryInclude>,
    /// The only directories to check out.
    #[serde(skip_serializing_if = "is_default")]
    pub sparse_checkout: Vec<String>,
}

/// Files of another GitRepository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitRepositoryInclude {
    /// The GitRepository.
    pub repository: LocalObjectReference,
    /// Which of its directories; its root by default.
    #[serde(skip_serializing_if = "is_default")]
    pub from_path: String,
    /// Where the files go; a directory of the GitRepository's name by default.
    #[serde(skip_serializing_if = "is_default")]
    pub to_path: String,
}

/// A commit. Of several fields the first of these wins: commit, name, semver, tag, branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitRepositoryRef {
    /// Branch; `master` if no other field is set.
    #[serde(skip_serializing_if = "is_default")]
    pub branch: String,
    /// Tag. It wins over a branch.
    #[serde(skip_serializing_if = "is_default")]
    pub tag: String,
    /// Range of versions, of which the newest tag is taken. It wins over a tag.
    #[serde(skip_serializing_if = "is_default")]
    pub semver: String,
    /// Full name of a Git reference, such as `refs/heads/main` or `refs/pull/420/head`. It wins over a range.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Hash of a commit. It wins over all others; with a branch, only that branch is fetched.
    #[serde(skip_serializing_if = "is_default")]
    pub commit: String,
}

/// Signatures of commits and tags.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitRepositoryVerification {
    /// What must be signed: the commit (`HEAD`, or `head` as earlier versions wrote it), the tag, or both.
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(extend("enum" = ["head", "HEAD", "Tag", "TagAndHEAD"], "x-default" = "HEAD"))]
    pub mode: String,
    /// Secret with the keys of trusted authors: OpenPGP keys in entries `*.asc`, SSH keys in entries `*.sshpub`.
    pub secret_ref: LocalObjectReference,
}

/// Status of the repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct GitRepositoryStatus {
    /// The `metadata.generation` that was reconciled last.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_generation: i64,
    /// Conditions of the repository.
    #[serde(skip_serializing_if = "is_default")]
    pub conditions: Vec<StatusCondition>,
    /// The files that were fetched last.
    #[serde(skip_serializing_if = "is_default")]
    pub artifact: Option<SourceArtifact>,
    /// Artifacts of other GitRepositories that were added last.
    #[serde(skip_serializing_if = "is_default")]
    pub included_artifacts: Vec<SourceArtifact>,
    /// `spec.ignore` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_ignore: Option<String>,
    /// `spec.recurseSubmodules` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_recurse_submodules: bool,
    /// `spec.include` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_include: Vec<GitRepositoryInclude>,
    /// `spec.sparseCheckout` of the artifact.
    #[serde(skip_serializing_if = "is_default")]
    pub observed_sparse_checkout: Vec<String>,
    /// What was verified last: `spec.verify.mode` of that time.
    #[serde(skip_serializing_if = "is_default")]
    pub source_verification_mode: Option<String>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was handled last.
    #[serde(skip_serializing_if = "is_default")]
    pub last_handled_reconcile_at: String,
}
