//! GitRepositories whose files are added to those of another.
//!
//! Owns which of their files go where. All of them share the bounds of one source with the checkout that they are added to.

use std::fs;
use std::io;
use std::path::{Component, Path};

use super::super::error::FluxError;
use super::artifact_store::{ArtifactStore, SourceName};
use super::chart_build::inside;
use super::fetch_bounds::{FetchEnd, FileBounds};
use super::fetch_context::FetchContext;
use super::source_archive::unpack_within;
use super::source_object::source_ref;
use super::source_status::{INCLUDE_UNAVAILABLE, STORAGE_OPERATION_FAILED, SourceError};
use flux_api::common::SourceArtifact;
use flux_api::git_repository::{GitRepositoryInclude, GitRepositorySpec};

/// The most entries of `spec.include`.
const MAX_INCLUDES: usize = 32;
/// The most entries of `spec.sparseCheckout`.
const MAX_DIRECTORIES: usize = 100;
/// The most parts of `toPath`.
const MAX_DEPTH: usize = 100;

/// Checks how long the lists of a spec are.
pub(super) fn check_lists(spec: &GitRepositorySpec) -> Result<(), FluxError> {
    for (field, length, most) in [
        ("include", spec.include.len(), MAX_INCLUDES),
        ("sparseCheckout", spec.sparse_checkout.len(), MAX_DIRECTORIES),
    ] {
        if length > most {
            let text = format!("spec.{field} has {length} entries: leave at most {most}");
            return Err(FluxError::from(text));
        }
    }
    Ok(())
}

/// The artifacts of the GitRepositories that are included, in the order of the spec.
pub(super) fn included_artifacts(
    context: &FetchContext<'_>,
    spec: &GitRepositorySpec,
) -> Result<Vec<SourceArtifact>, SourceError> {
    let namespace = context.pass.reference.namespace.as_deref();
    let mut all = Vec::new();
    for include in &spec.include {
        let name = source_ref("GitRepository", namespace, &include.repository.name);
        let found = context.pass.related.get(&name);
        let artifact = found.and_then(|object| {
            serde_json::from_value::<SourceArtifact>(object["status"]["artifact"].clone()).ok()
        });
        let missing = || {
            let text = format!("no artifact available for include '{}'", include.repository.name);
            SourceError::new(INCLUDE_UNAVAILABLE, "NoArtifact", text)
        };
        all.push(artifact.ok_or_else(missing)?);
    }
    Ok(all)
}

/// Adds the files of all includes to a checkout. Together they have the bounds of a source; those of the checkout are git's.
pub(super) fn add_includes(
    store: &ArtifactStore,
    namespace: &str,
    includes: &[(GitRepositoryInclude, SourceArtifact)],
    root: &Path,
    end: &FetchEnd,
) -> Result<(), SourceError> {
    let failed = |text: String| SourceError::new(STORAGE_OPERATION_FAILED, "CopyFailure", text);
    let mut bounds = FileBounds::new(end);
    for (include, artifact) in includes {
        let name = &include.repository.name;
        let to = if include.to_path.is_empty() { name } else { &include.to_path };
        let included = SourceName { kind: "GitRepository", namespace, name };
        add_include(store, (&included, artifact), &include.from_path, (root, to), &mut bounds).map_err(
            |e| failed(format!("failed to copy '{name}' include from {} to {to}: {e}", include.from_path)),
        )?;
    }
    Ok(())
}

/// Adds files of an artifact to a checkout beside the directories of work.
fn add_include(
    store: &ArtifactStore,
    (source, artifact): (&SourceName<'_>, &SourceArtifact),
    from: &str,
    (root, to): (&Path, &str),
    bounds: &mut FileBounds,
) -> io::Result<()> {
    let wrong = |text: &str| io::Error::new(io::ErrorKind::InvalidInput, text.to_owned());
    if Path::new(to).components().filter(|part| matches!(part, Component::Normal(_))).count() > MAX_DEPTH {
        return Err(wrong(&format!("toPath has more than {MAX_DEPTH} parts")));
    }
    let file = store.file_of(source, artifact).ok_or_else(|| wrong("the artifact has no file"))?;
    let scratch = store.scratch()?;
    let file = fs::File::open(file)?;
    let packed = file.metadata()?.len();
    unpack_within(file, packed, scratch.path(), bounds)?;
    let from = inside(scratch.path(), from).ok_or_else(|| wrong("fromPath leads out of the artifact"))?;
    let to = inside(root, to).ok_or_else(|| wrong("toPath leads out of the repository"))?;
    fs::create_dir_all(&to)?;
    move_tree(&from, &to, bounds.end())
}

/// Moves directories and files, in place of files of the same name; symbolic links are left out.
fn move_tree(from: &Path, to: &Path, end: &FetchEnd) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        end.check()?;
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            fs::create_dir_all(&target)?;
            move_tree(&entry.path(), &target, end)?;
        } else if kind.is_file() {
            fs::rename(entry.path(), &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fetch_bounds::tests::ended;
    use super::super::fetch_bounds::{MAX_BYTES, MAX_FILES};
    use super::super::ignore_rules::IgnoreRules;
    use super::super::source_archive::write_archive;
    use super::*;
    use flux_api::common::LocalObjectReference;

    #[test]
    fn lists_of_a_spec_are_so_long() {
        let spec = |includes, directories| GitRepositorySpec {
            include: vec![GitRepositoryInclude::default(); includes],
            sparse_checkout: vec!["a".to_owned(); directories],
            ..GitRepositorySpec::default()
        };
        assert_eq!(check_lists(&spec(32, 100)), Ok(()));
        let told = |includes, directories| check_lists(&spec(includes, directories)).unwrap_err().to_string();
        assert_eq!(told(33, 0), "spec.include has 33 entries: leave at most 32");
        assert_eq!(told(0, 101), "spec.sparseCheckout has 101 entries: leave at most 100");
    }

    /// A store with an artifact of a GitRepository of two files, and a checkout with one.
    fn stored()
    -> (tempfile::TempDir, ArtifactStore, (GitRepositoryInclude, SourceArtifact), tempfile::TempDir) {
        let home = tempfile::tempdir().unwrap();
        let store = ArtifactStore::new(home.path(), "host:80").unwrap();
        let files = store.scratch().unwrap();
        fs::create_dir(files.path().join("d")).unwrap();
        fs::write(files.path().join("d/x"), "new").unwrap();
        fs::write(files.path().join("y"), "1").unwrap();
        let source = SourceName { kind: "GitRepository", namespace: "ns", name: "other" };
        let write = |out: &mut dyn io::Write| {
            write_archive(files.path(), &IgnoreRules::none(), out, &FetchEnd::default())
        };
        let artifact = store.save(&source, "a.tar.gz", "1", write).unwrap();
        let root = store.scratch().unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        fs::write(root.path().join(".git/HEAD"), "x".repeat(1000)).unwrap();
        fs::write(root.path().join("x"), "old").unwrap();
        let repository = LocalObjectReference { name: "other".to_owned() };
        let include = GitRepositoryInclude { repository, ..GitRepositoryInclude::default() };
        (home, store, (include, artifact), root)
    }

    #[test]
    fn files_of_includes_take_the_place_of_others() {
        let (_home, store, (include, artifact), root) = stored();
        let text = |path: &str| String::from_utf8(fs::read(root.path().join(path)).unwrap()).unwrap();
        let end = FetchEnd::default();
        let into_root =
            GitRepositoryInclude { from_path: "d".into(), to_path: "/".into(), ..include.clone() };
        let all = [(include.clone(), artifact.clone()), (into_root, artifact.clone())];
        add_includes(&store, "ns", &all, root.path(), &end).unwrap();
        assert_eq!([text("x"), text("other/d/x"), text("other/y")], ["new", "new", "1"]);
        let deep = GitRepositoryInclude { to_path: "d/".repeat(101), ..include };
        let told = add_includes(&store, "ns", &[(deep, artifact)], root.path(), &end).unwrap_err().text;
        assert!(told.ends_with(": toPath has more than 100 parts"), "{told}");
    }

    #[test]
    fn includes_share_the_bounds_of_a_source() {
        let (_home, store, (include, artifact), root) = stored();
        let mut bounds = FileBounds::new(&FetchEnd::default());
        // The artifact has two files of 4 bytes, in a directory and beside it.
        let source = SourceName { kind: "GitRepository", namespace: "ns", name: &include.repository.name };
        let add = |bounds: &mut FileBounds| {
            add_include(&store, (&source, &artifact), "", (root.path(), "other"), bounds)
        };
        bounds.take(MAX_BYTES - 2 * 4).unwrap();
        add(&mut bounds).unwrap();
        add(&mut bounds).unwrap();
        let told = add(&mut bounds).unwrap_err().to_string();
        assert_eq!(told, "the files have more than 2147483648 bytes");
        let mut bounds = FileBounds::new(&FetchEnd::default());
        (0..MAX_FILES - 5).for_each(|_| bounds.take(0).unwrap());
        add(&mut bounds).unwrap();
        let told = add(&mut bounds).unwrap_err().to_string();
        assert_eq!(told, "more than 200000 files and directories");
    }

    #[test]
    fn files_are_neither_unpacked_nor_moved_nor_packed_after_the_end() {
        let (_home, store, included, root) = stored();
        let told = add_includes(&store, "ns", std::slice::from_ref(&included), root.path(), &ended());
        let told = told.unwrap_err().text;
        assert!(told.contains("the fetch ended"), "{told}");
        let file = fs::File::open(
            store
                .file_of(&SourceName { kind: "GitRepository", namespace: "ns", name: "other" }, &included.1)
                .unwrap(),
        )
        .unwrap();
        let to = tempfile::tempdir().unwrap();
        assert!(unpack_within(file, 1000, to.path(), &mut FileBounds::new(&ended())).is_err());
        assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
        assert!(!root.path().join("other").exists());
        let to = tempfile::tempdir().unwrap();
        assert!(move_tree(root.path(), to.path(), &ended()).is_err());
        assert!(root.path().join("x").exists());
        assert!(write_archive(root.path(), &IgnoreRules::none(), &mut io::sink(), &ended()).is_err());
    }
}
