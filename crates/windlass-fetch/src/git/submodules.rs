//! Submodules of a checkout, and theirs.
//!
//! Owns what is checked before git goes to the server of a submodule, and before it unpacks what came from there. Git reads which
//! submodules there are, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use super::GitError;
use super::checkout_size::CheckoutSize;
use super::pinned_servers::PinnedServers;
use super::remote::GitRemote;

/// Most submodules of a repository, with those of its submodules.
const MAX_SUBMODULES: usize = 500;
/// What `git submodule update` does with the commit of a submodule in place of a checkout: `HEAD` is that commit then.
const NO_CHECKOUT: &str = "!git update-ref --no-deref HEAD";

/// A submodule as the settings of a repository have it.
#[derive(Default)]
struct Submodule {
    url: String,
    update: String,
}

impl GitRemote<'_> {
    /// Checks submodules out, and those that they have: addresses are checked before git goes there, and trees before they are
    /// unpacked, together with those before. `name`: what the commit of `root` was found by; `size`: that of its tree.
    ///
    /// # Errors
    /// One cannot be fetched or is not allowed, or there is too much.
    pub(super) async fn check_out_submodules(
        &self,
        scratch: &Path,
        root: &Path,
        name: &str,
        mut size: CheckoutSize,
    ) -> Result<(), GitError> {
        let none = PinnedServers::default();
        let mut count = 0;
        let mut directories = vec![root.to_owned()];
        while let Some(directory) = directories.pop() {
            if !directory.join(".gitmodules").is_file() {
                continue;
            }
            let submodules = self.submodules(scratch, &directory).await?;
            count += submodules.len();
            if count > MAX_SUBMODULES {
                let reason = format!("the repository has more than {MAX_SUBMODULES} submodules");
                return Err(GitError::Bound {
                    verb: "submodule".to_owned(),
                    url: self.url.to_owned(),
                    reason,
                });
            }
            self.fetch_submodules(scratch, &directory, &submodules).await?;
            for path in self.submodule_paths(scratch, &directory).await? {
                let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
                let below = directory.join(&path);
                if !inside || !below.join(".git").is_file() {
                    continue;
                }
                let shown: String = path.to_string_lossy().chars().take(60).collect();
                let name = format!("{name} up to its submodule {shown:?}");
                size = self.check_tree(scratch, &below, ("HEAD", &name), &[], size).await?;
                let checkout = ["checkout", "--quiet", "--force", "--detach", "HEAD"];
                self.run(scratch, &below, &none, &checkout).await?;
                directories.push(below);
            }
        }
        Ok(())
    }

    /// The submodules of a checkout by their names.
    async fn submodules(
        &self,
        scratch: &Path,
        directory: &Path,
    ) -> Result<BTreeMap<String, Submodule>, GitError> {
        let none = PinnedServers::default();
        self.run(scratch, directory, &none, &["submodule", "--quiet", "init"]).await?;
        let listed = ["config", "--local", "-z", "--get-regexp", r"^submodule\..*\.(url|update)$"];
        let mut all: BTreeMap<String, Submodule> = BTreeMap::new();
        for (key, value) in self.settings(scratch, directory, &listed).await? {
            let Some((name, field)) = key.strip_prefix("submodule.").and_then(|key| key.rsplit_once('.'))
            else {
                continue;
            };
            let submodule = all.entry(name.to_owned()).or_default();
            match field {
                "url" => submodule.url = value,
                _ => submodule.update = value,
            }
        }
        all.retain(|_, submodule| !submodule.url.is_empty());
        Ok(all)
    }

    /// Fetches the commits of submodules, without their files; `update = none` is left out, as git does.
    async fn fetch_submodules(
        &self,
        scratch: &Path,
        directory: &Path,
        submodules: &BTreeMap<String, Submodule>,
    ) -> Result<(), GitError> {
        let urls: Vec<&str> = submodules.values().map(|submodule| submodule.url.as_str()).collect();
        let servers = self.pin(&urls).await?;
        let settings: Vec<(String, OsString)> = submodules
            .iter()
            .filter(|(_, submodule)| submodule.update != "none")
            .map(|(name, _)| (format!("submodule.{name}.update"), NO_CHECKOUT.into()))
            .collect();
        let update = ["submodule", "--quiet", "update"];
        // As for the repository itself: the server of a submodule need not serve shallow clones.
        let shallow = [&update[..], &["--depth=1"]].concat();
        if self.run_with(scratch, directory, (&servers, &settings), &shallow).await.is_err() {
            self.run_with(scratch, directory, (&servers, &settings), &update).await?;
        }
        Ok(())
    }

    /// The paths that the files of a checkout tell of its submodules.
    async fn submodule_paths(&self, scratch: &Path, directory: &Path) -> Result<BTreeSet<PathBuf>, GitError> {
        let listed = ["config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"];
        let paths = self.settings(scratch, directory, &listed).await?;
        // A path with further slashes is the same one.
        Ok(paths.into_iter().map(|(_, path)| PathBuf::from(path)).collect())
    }

    /// Keys and values that a call of `git config` with `-z` lists.
    async fn settings(
        &self,
        scratch: &Path,
        directory: &Path,
        args: &[&str],
    ) -> Result<Vec<(String, String)>, GitError> {
        let listed = match self.run(scratch, directory, &PinnedServers::default(), args).await {
            Ok(listed) => String::from_utf8_lossy(&listed).into_owned(),
            // There is none.
            Err(GitError::Failed { code: Some(1), .. }) => String::new(),
            Err(error) => return Err(error),
        };
        let pairs = listed.split('\0').filter_map(|one| one.split_once('\n'));
        Ok(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::remote::tests::{git, isolated, repository_of_trees};
    use super::super::remote::{GitAccess, GitRevision};
    use super::*;

    /// A repository with submodules at paths, each at the head of another repository.
    fn repository_with(submodules: &[(&str, &Path)], further: &str) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        git(home.path(), &["init", "--quiet", "--initial-branch=main"], "");
        let mut modules = String::new();
        for (path, of) in submodules {
            modules += &format!(
                "[submodule \"the {path}\"]\n\tpath = {path}\n\turl = file://{}\n{further}",
                of.display()
            );
            let link = format!("160000,{},{path}", git(of, &["rev-parse", "main"], ""));
            git(home.path(), &["update-index", "--add", "--cacheinfo", &link], "");
        }
        std::fs::write(home.path().join(".gitmodules"), modules).unwrap();
        git(home.path(), &["add", ".gitmodules"], "");
        git(home.path(), &["commit", "--quiet", "-m", "x"], "");
        home
    }

    async fn check_out(home: &Path, limit: u64) -> Result<Vec<String>, String> {
        let url = format!("file://{}", home.display());
        let access = GitAccess { size_limit: Some(limit), ..isolated(false) };
        let git = GitRemote { url: &url, access: &access };
        let scratch = tempfile::tempdir().unwrap();
        let commit = git.resolve(scratch.path(), &GitRevision::Head).await.unwrap();
        let root = git.checkout(scratch.path(), &commit, true, &[]).await.map_err(|e| e.to_string())?;
        let files = ["a/0", "b/0", "b/0/0", "b/c/0"];
        Ok(files.into_iter().filter(|file| root.join(file).is_file()).map(str::to_owned).collect())
    }

    #[tokio::test]
    async fn submodules_and_theirs_are_checked_out() {
        let small = repository_of_trees(1, 1, "x");
        let middle = repository_with(&[("c", small.path())], "");
        let home = repository_with(&[("a", small.path()), ("b", middle.path())], "");
        assert_eq!(check_out(home.path(), 10 << 20).await.unwrap(), ["a/0", "b/c/0"]);
        let again = "[submodule \"again\"]\n\tpath = a//\n\turl = none\n";
        let home = repository_with(&[("a", small.path())], again);
        assert_eq!(check_out(home.path(), 10 << 20).await.unwrap(), ["a/0"]);
        let home = repository_with(&[("a", small.path())], "\tupdate = none\n");
        assert!(check_out(home.path(), 10 << 20).await.unwrap().is_empty());
    }

    /// 3^8 files of 200 kB in a repository of one; and two submodules, each of which may be unpacked alone.
    #[tokio::test]
    async fn trees_of_submodules_are_counted_before_they_are_checked_out() {
        let content = "0123456789".repeat(20_000);
        let hostile = repository_of_trees(8, 3, &content);
        let home = repository_with(&[("a", hostile.path())], "");
        let told = check_out(home.path(), 10 << 20).await.unwrap_err();
        let expected = "the files of HEAD up to its submodule \"a\" have 1312200";
        assert!(told.contains(expected) && told.ends_with(" bytes, more than 10485760"), "{told}");
        let half = repository_of_trees(3, 3, &content);
        let home = repository_with(&[("a", half.path()), ("b", half.path())], "");
        let told = check_out(home.path(), 10 << 20).await.unwrap_err();
        assert!(told.contains("up to its submodule \"b\" have 10800"), "{told}");
    }

    /// Submodules are read from files of the repository.
    #[tokio::test]
    async fn submodules_lead_to_no_address_of_this_machine() {
        for (url, told) in [
            ("http://127.0.0.1:1/r.git", "of this machine or of its cloud"),
            ("http://localhos%74:1/r.git", "not a plain URL"),
            ("ssh://evil?x@127.0.0.1/r.git", "not a plain URL"),
            ("ssh://git@localhost/r.git", "of this machine or of its cloud"),
            ("file:///etc", "not a plain URL"),
            ("../other", "not a plain URL"),
        ] {
            let scratch = tempfile::tempdir().unwrap();
            let root = scratch.path().join("checkout");
            std::fs::create_dir(&root).unwrap();
            git(&root, &["init", "--quiet"], "");
            let modules = format!("[submodule \"sub\"]\n\tpath = sub\n\turl = \"{url}\"\n");
            std::fs::write(root.join(".gitmodules"), modules).unwrap();
            let link = format!("160000,{},sub", "a".repeat(40));
            git(&root, &["update-index", "--add", "--cacheinfo", &link], "");
            let access = isolated(true);
            let git = GitRemote { url: "https://192.0.2.1/r.git", access: &access };
            let error = git.check_out_submodules(scratch.path(), &root, "HEAD", CheckoutSize::default());
            let error = error.await.unwrap_err().to_string();
            assert!(error.contains(told), "{url}: {error}");
        }
    }
}
