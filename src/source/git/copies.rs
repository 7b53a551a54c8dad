//! Copies of repositories for one user's run: each reference is looked up once, and each commit copied once.
//!
//! Owns the temporary directory of all copies, which is removed with them. Callers may ask for several at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;
use tokio::sync::OnceCell;

use super::GitError;
use super::remote::{GitRemote, Point, ResolvedCommit};

/// What one caller finds, and others wait for.
type Shared<K, V> = Mutex<HashMap<K, Arc<OnceCell<V>>>>;

/// The copies of one run.
pub struct GitCopies {
    home: TempDir,
    /// By URL and what was asked for.
    commits: Shared<(String, Point), ResolvedCommit>,
    /// By URL, commit, and whether with submodules.
    checkouts: Shared<(String, String, bool), PathBuf>,
}

impl GitCopies {
    /// No copies yet, below a new temporary directory whose name begins with `prefix`; `within`: where, if not in the system's
    /// directory.
    ///
    /// # Errors
    /// The directory cannot be made.
    pub fn new(prefix: &str, within: Option<&Path>) -> io::Result<Self> {
        let mut home = tempfile::Builder::new();
        home.prefix(prefix);
        let home = match within {
            Some(directory) => home.tempdir_in(directory)?,
            None => home.tempdir()?,
        };
        Ok(Self { home, commits: Mutex::default(), checkouts: Mutex::default() })
    }

    /// The directory of all copies.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// URL and commit of each copy.
    #[must_use]
    pub fn commits(&self) -> Vec<(String, String)> {
        let checkouts = self.checkouts.lock().unwrap_or_else(PoisonError::into_inner);
        checkouts.keys().map(|(url, commit, _)| (url.clone(), commit.clone())).collect()
    }

    /// The root of the copy of a commit, without symbolic links in its path.
    ///
    /// # Errors
    /// The repository cannot be read, or has no such commit.
    pub async fn copy(
        &self,
        git: &GitRemote<'_>,
        point: &Point,
        submodules: bool,
    ) -> Result<PathBuf, GitError> {
        let commit = entry(&self.commits, (git.url.to_owned(), point.clone()));
        let commit = commit.get_or_try_init(|| self.resolve(git, point)).await?;
        let checkout = entry(&self.checkouts, (git.url.to_owned(), commit.commit.clone(), submodules));
        checkout.get_or_try_init(|| self.check_out(git, commit, submodules)).await.cloned()
    }

    async fn resolve(&self, git: &GitRemote<'_>, point: &Point) -> Result<ResolvedCommit, GitError> {
        // Git's own files, such as keys, are not beside the copies, which others may read.
        let scratch = tempfile::tempdir()?;
        git.resolve(scratch.path(), point).await
    }

    async fn check_out(
        &self,
        git: &GitRemote<'_>,
        commit: &ResolvedCommit,
        submodules: bool,
    ) -> Result<PathBuf, GitError> {
        let scratch = tempfile::tempdir()?;
        let checkout = git.checkout(scratch.path(), commit, submodules, &[]).await?;
        // Removed with all copies.
        let root = tempfile::tempdir_in(self.home())?.keep().join("checkout");
        std::fs::rename(checkout, &root)?;
        Ok(std::fs::canonicalize(root)?)
    }
}

fn entry<K: Hash + Eq, V>(all: &Shared<K, V>, key: K) -> Arc<OnceCell<V>> {
    Arc::clone(all.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default())
}
