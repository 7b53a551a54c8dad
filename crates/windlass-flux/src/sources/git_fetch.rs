//! GitRepository: the files of a commit.

use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::super::error::FluxError;
use super::chart_build::inside;
use super::fetch_context::FetchContext;
use super::git_access;
use super::git_includes::{add_includes, check_lists, included_artifacts};
use super::git_signature;
use super::ignore_rules::IgnoreRules;
use super::source_archive::write_archive;
use super::source_secrets;
use super::source_status::{Fetched, SOURCE_VERIFIED, SourceError, SourceStatus};
use flux_api::common::SourceArtifact;
use flux_api::git_repository::{GitRepositoryRef, GitRepositorySpec};
use windlass_fetch::address_guard::Server;
use windlass_fetch::git::remote::{GitRemote, GitRevision, ResolvedCommit, is_reference_name};
use windlass_fetch::location::Location;

fn git_failed(text: String) -> SourceError {
    SourceError::fetch("GitOperationFailed", text)
}

/// Fetches the files unless they are there.
pub(super) async fn fetch(
    context: &mut FetchContext<'_>,
    spec: &GitRepositorySpec,
    status: &SourceStatus,
) -> Result<Fetched, SourceError> {
    let url = url_of(spec, context.allows_local)?;
    check_lists(spec).map_err(|e| SourceError::fetch("InvalidSpec", e.to_string()).stalling())?;
    let access = git_access::access(context, spec, &url).await?;
    let point = point(&spec.reference.clone().unwrap_or_default());
    let point = point.map_err(|e| url_invalid(spec, &e.to_string()))?;
    let included = included_artifacts(context, spec)?;
    let git = GitRemote { url: &spec.url, access: &access };
    let scratch = context.scratch()?;
    let commit = git
        .resolve(scratch.path(), &point)
        .await
        .map_err(|e| git_failed(format!("failed to checkout and determine revision: {e}")))?;
    let revision = revision(&point, spec, &commit);
    let observed = observed(spec, &included);
    let same = |key: &str| status.observed.get(key).unwrap_or(&Value::Null) == &observed[key];
    let known = status.artifact.as_ref().filter(|known| known.revision == revision);
    let verified = known.and_then(|_| verified_before(context, spec, status));
    let is_current = observed.keys().all(|key| same(key)) && (spec.verify.is_none() || verified.is_some());
    let (artifact, verified, title) = match known.filter(|_| is_current) {
        Some(known) => (known.clone(), verified, revision.clone()),
        None => {
            let root = git
                .checkout(scratch.path(), &commit, spec.recurse_submodules, &spec.sparse_checkout)
                .await
                .map_err(|e| git_failed(format!("failed to checkout and determine revision: {e}")))?;
            if let Some(missing) = spec
                .sparse_checkout
                .iter()
                .find(|directory| inside(&root, directory).is_none_or(|path| !path.is_dir()))
            {
                return Err(git_failed(format!(
                    "failed to sparse checkout directories : no directory '{missing}' in the repository"
                )));
            }
            let verified = verify(context, spec, &git, (scratch.path(), &root, &commit)).await?;
            let title = git_signature::title(&git, (scratch.path(), &root, &commit.commit)).await;
            let files = (&*root, &*commit.commit, &*revision);
            let artifact = store(context, spec, files, &included, Arc::clone(&scratch)).await?;
            (artifact, verified, title.unwrap_or_else(|| revision.clone()))
        }
    };
    Ok(Fetched {
        reason: "Succeeded",
        message: format!("stored artifact for revision '{revision}'"),
        note: format!("stored artifact for commit '{title}'"),
        artifact,
        observed,
        verified,
        latest: None,
    })
}

fn url_invalid(spec: &GitRepositorySpec, text: &str) -> SourceError {
    SourceError::fetch("URLInvalid", format!("failed to parse url '{}': {text}", spec.url)).stalling()
}

/// The URL of the repository. `allows_local`: it may be one of this machine.
fn url_of(spec: &GitRepositorySpec, allows_local: bool) -> Result<Location, SourceError> {
    let url = Location::parse(&spec.url).map_err(|e| url_invalid(spec, &e.to_string()))?;
    if !matches!(url.scheme.as_str(), "http" | "https" | "ssh") {
        return Err(url_invalid(spec, "the scheme is not http, https or ssh"));
    }
    if !allows_local {
        let checked = Server::of_url(&spec.url).and_then(|server| server.check_text());
        checked.map_err(|e| url_invalid(spec, &e.to_string()))?;
    }
    Ok(url)
}

/// The commit that a reference asks for.
fn point(reference: &GitRepositoryRef) -> Result<GitRevision, FluxError> {
    let GitRepositoryRef { branch, tag, semver, name, commit } = reference;
    let checked = |field: &str, name: &str| {
        let wrong =
            || FluxError::from(format!("spec.ref.{field}: {name:?} is not a name of a Git reference"));
        if is_reference_name(name) { Ok(name.to_owned()) } else { Err(wrong()) }
    };
    if !commit.is_empty() {
        let digits = commit.len() == 40 && commit.bytes().all(|c| c.is_ascii_hexdigit());
        let wrong = || {
            FluxError::from(format!("spec.ref.commit: {commit:?} is not a commit of 40 hexadecimal digits"))
        };
        return if digits { Ok(GitRevision::Commit(commit.clone())) } else { Err(wrong()) };
    }
    if !name.is_empty() {
        return checked("name", name).map(GitRevision::Name);
    }
    if !semver.is_empty() {
        return Ok(GitRevision::Semver(semver.clone()));
    }
    if !tag.is_empty() {
        return checked("tag", tag).map(GitRevision::Tag);
    }
    checked("branch", if branch.is_empty() { "master" } else { branch }).map(GitRevision::Branch)
}

/// The revision as source-controller writes it: `main@sha1:HEX`.
fn revision(point: &GitRevision, spec: &GitRepositorySpec, commit: &ResolvedCommit) -> String {
    let digest = format!("sha1:{}", commit.commit);
    let branch = spec.reference.as_ref().map(|reference| reference.branch.as_str()).unwrap_or_default();
    match point {
        GitRevision::Name(name) => format!("{name}@{digest}"),
        GitRevision::Commit(_) if branch.is_empty() => digest,
        GitRevision::Commit(_) => format!("{branch}@{digest}"),
        _ => match commit.name.splitn(3, '/').nth(2) {
            Some(short) => format!("{short}@{digest}"),
            None => digest,
        },
    }
}

/// The fields of the spec that the artifact depends on, as the status has them; null for empty ones.
fn observed(spec: &GitRepositorySpec, included: &[SourceArtifact]) -> Map<String, Value> {
    let unless = |empty: bool, value: Value| if empty { Value::Null } else { value };
    let mode = spec.verify.as_ref().map(|verify| mode_of(&verify.mode));
    Map::from_iter([
        ("observedIgnore".to_owned(), json!(spec.ignore)),
        ("observedRecurseSubmodules".to_owned(), unless(!spec.recurse_submodules, json!(true))),
        ("observedInclude".to_owned(), unless(spec.include.is_empty(), json!(spec.include))),
        ("includedArtifacts".to_owned(), unless(included.is_empty(), json!(included))),
        (
            "observedSparseCheckout".to_owned(),
            unless(spec.sparse_checkout.is_empty(), json!(spec.sparse_checkout)),
        ),
        ("sourceVerificationMode".to_owned(), json!(mode)),
    ])
}

/// The name of a mode of verification; `head` is what earlier versions called `HEAD`.
fn mode_of(mode: &str) -> &str {
    if matches!(mode, "" | "head") { "HEAD" } else { mode }
}

/// What was verified with this spec.
fn verified_before(
    context: &FetchContext<'_>,
    spec: &GitRepositorySpec,
    status: &SourceStatus,
) -> Option<String> {
    spec.verify.as_ref()?;
    let before = status.get(SOURCE_VERIFIED)?;
    let current = before.status == "True" && before.observed_generation == context.generation;
    current.then(|| before.message.clone())
}

/// Verifies the signatures of commit and tag.
async fn verify(
    context: &mut FetchContext<'_>,
    spec: &GitRepositorySpec,
    git: &GitRemote<'_>,
    (scratch, root, commit): (&Path, &Path, &ResolvedCommit),
) -> Result<Option<String>, SourceError> {
    let Some(verification) = &spec.verify else { return Ok(None) };
    let failed = |reason, text: String| SourceError::new(SOURCE_VERIFIED, reason, text);
    let keys = source_secrets::read(context.pass, &verification.secret_ref)
        .await
        .map_err(|e| failed("VerificationError", e.text))?;
    let mode = mode_of(&verification.mode);
    let mut said = Vec::new();
    if mode.starts_with("Tag") {
        if !commit.name.starts_with("refs/tags/") {
            let text = "cannot verify tag object's signature if a tag reference is not specified";
            return Err(failed("InvalidVerificationMode", text.to_owned()).stalling());
        }
        let name = commit.name.trim_start_matches("refs/tags/");
        let key =
            git_signature::verify_tag(git, (scratch, root, &commit.name), &keys).await.map_err(|e| {
                failed("InvalidTagSignature", format!("signature verification of tag '{name}' failed: {e}"))
            })?;
        said.push(format!("tag '{name}' with key '{key}'"));
    }
    if mode.ends_with("HEAD") {
        let hash = &commit.commit;
        let key = git_signature::verify_commit(git, (scratch, root, hash), &keys).await.map_err(|e| {
            failed("InvalidCommitSignature", format!("signature verification of commit '{hash}' failed: {e}"))
        })?;
        said.push(format!("commit '{hash}' with key '{key}'"));
    }
    Ok(Some(format!("verified signature of\n\t- {}", said.join("\n\t- "))))
}

/// Adds the included files, and stores the archive of all. `scratch`: the directory that has the checkout.
async fn store(
    context: &FetchContext<'_>,
    spec: &GitRepositorySpec,
    (root, commit, revision): (&Path, &str, &str),
    included: &[SourceArtifact],
    scratch: Arc<TempDir>,
) -> Result<SourceArtifact, SourceError> {
    let (root, file, revision) = (root.to_owned(), format!("{commit}.tar.gz"), revision.to_owned());
    let includes: Vec<_> = spec.include.iter().cloned().zip(included.iter().cloned()).collect();
    let ignore = spec.ignore.clone();
    context
        .blocking(move |store, source, end| {
            let stored = |e: io::Error| SourceError::storage("ArchiveOperationFailed", &e);
            add_includes(store, source.namespace, &includes, &root, end)?;
            let ignore = IgnoreRules::load(&root, ignore.as_deref()).map_err(stored)?;
            let saved = store.save(source, &file, &revision, |out| write_archive(&root, &ignore, out, end));
            // The thread may outlive the fetch, and its files must not.
            drop(scratch);
            saved.map_err(stored)
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_revisions_as_source_controller_writes_them() {
        let commit = "a".repeat(40);
        let reference = |fields: Value| -> GitRepositoryRef { serde_json::from_value(fields).unwrap() };
        for (fields, name, expected) in [
            (json!({}), "refs/heads/master", format!("master@sha1:{commit}")),
            (json!({"branch": "feature/x"}), "refs/heads/feature/x", format!("feature/x@sha1:{commit}")),
            (json!({"tag": "v1"}), "refs/tags/v1", format!("v1@sha1:{commit}")),
            (json!({"semver": "1.x", "tag": "v2"}), "refs/tags/v1.2.0", format!("v1.2.0@sha1:{commit}")),
            (
                json!({"name": "refs/pull/1/head"}),
                "refs/pull/1/head",
                format!("refs/pull/1/head@sha1:{commit}"),
            ),
            (json!({"commit": commit}), commit.as_str(), format!("sha1:{commit}")),
            (json!({"commit": commit, "branch": "main"}), commit.as_str(), format!("main@sha1:{commit}")),
        ] {
            let reference = reference(fields);
            let point = point(&reference).unwrap();
            let spec = GitRepositorySpec { reference: Some(reference), ..GitRepositorySpec::default() };
            let resolved = ResolvedCommit { commit: commit.clone(), name: name.to_owned() };
            assert_eq!(revision(&point, &spec, &resolved), expected);
        }
        for wrong in [
            json!({"branch": "--upload-pack=x"}),
            json!({"tag": "a..b"}),
            json!({"name": "/x"}),
            json!({"commit": "abc"}),
            json!({"branch": "a b"}),
        ] {
            assert!(point(&reference(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
