//! Copies of repositories for one user's run: each reference is looked up once, and each commit copied once.
//!
//! Owns the temporary directory of all copies, which is removed with them. Callers may ask for several at once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::GitError;
use super::checkout_size::measure;
use super::remote::{GitAccess, GitRemote, GitRevision, ResolvedCommit};
use crate::byte_budget::ByteBudget;
use crate::once_map::OnceMap;

/// The copies of one run.
pub struct GitCopies {
    home: TempDir,
    /// By URL and what was asked for.
    commits: OnceMap<(String, GitRevision), ResolvedCommit>,
    /// By URL, commit, and whether with submodules.
    checkouts: OnceMap<(String, String, bool), PathBuf>,
    /// What all copies count against.
    budget: Option<Arc<ByteBudget>>,
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
        Ok(Self { home, commits: OnceMap::default(), checkouts: OnceMap::default(), budget: None })
    }

    /// The same with a budget that all copies count against, with git's own files.
    #[must_use]
    pub fn with_budget(self, budget: Arc<ByteBudget>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// The directory of all copies.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// URL and commit of each copy.
    #[must_use]
    pub fn commits(&self) -> Vec<(String, String)> {
        self.checkouts.keys().into_iter().map(|(url, commit, _)| (url, commit)).collect()
    }

    /// The root of the copy of a commit, without symbolic links in its path.
    ///
    /// # Errors
    /// The repository cannot be read, or has no such commit.
    pub async fn copy(
        &self,
        git: &GitRemote<'_>,
        point: &GitRevision,
        submodules: bool,
    ) -> Result<PathBuf, GitError> {
        let key = (git.url.to_owned(), point.clone());
        let commit = self.commits.get(key, self.resolve(git, point)).await?;
        let key = (git.url.to_owned(), commit.commit.clone(), submodules);
        self.checkouts.get(key, self.check_out(git, &commit, submodules)).await
    }

    async fn resolve(&self, git: &GitRemote<'_>, point: &GitRevision) -> Result<ResolvedCommit, GitError> {
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
        let size_limit = self.budget.as_ref().map(|budget| budget.at_most(u64::MAX));
        let access = GitAccess { size_limit, ..git.access.clone() };
        let git = GitRemote { url: git.url, access: &access };
        let checkout = git.checkout(scratch.path(), commit, submodules, &[]).await?;
        if let Some(budget) = &self.budget {
            budget.take(measure(&checkout).await?).map_err(|error| GitError::Bound {
                verb: "checkout".to_owned(),
                url: git.url.to_owned(),
                reason: error.to_string(),
            })?;
        }
        // Removed with all copies.
        let root = tempfile::tempdir_in(self.home())?.keep().join("checkout");
        std::fs::rename(checkout, &root)?;
        Ok(std::fs::canonicalize(root)?)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[tokio::test]
    async fn copies_count_once_against_the_budget() {
        let repository = tempfile::tempdir().unwrap();
        std::fs::write(repository.path().join("a"), "x".repeat(100_000)).unwrap();
        for words in [&["init", "--quiet"][..], &["add", "a"], &["commit", "--quiet", "--message", "one"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(words);
            assert!(git.current_dir(&repository).env("HOME", repository.path()).status().unwrap().success());
        }
        let url = format!("file://{}", repository.path().display());
        let access = GitAccess { isolated: true, ..GitAccess::default() };
        let git = GitRemote { url: &url, access: &access };
        let copies = |total| {
            let budget = Arc::new(ByteBudget::new(total));
            (GitCopies::new("windlass-test-", None).unwrap().with_budget(Arc::clone(&budget)), budget)
        };
        let (own, budget) = copies(10 << 20);
        own.copy(&git, &GitRevision::Head, false).await.unwrap();
        let left = budget.at_most(u64::MAX);
        assert!(left < (10 << 20) - 100_000, "{left}");
        own.copy(&git, &GitRevision::Head, false).await.unwrap();
        assert_eq!((budget.at_most(u64::MAX), own.commits().len()), (left, 1));
        let (own, _) = copies(50_000);
        let error = own.copy(&git, &GitRevision::Head, false).await.unwrap_err().to_string();
        assert!(error.ends_with("the files of HEAD have 100000 bytes, more than 50000"), "{error}");
        assert!(own.commits().is_empty() && own.home().read_dir().unwrap().next().is_none());
    }
}
