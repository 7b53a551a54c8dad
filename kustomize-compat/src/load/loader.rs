//! The directory of one kustomization, and the way to it.
//!
//! Owns the restriction to files below the root, and the search for cycles.

use std::rc::Rc;

use super::path::{is_within, join};
use super::repository::is_remote_file;
use super::{FetchError, Place, Repository, World};
use crate::error::Error;

/// Reads the files of one kustomization.
pub struct Loader<'w> {
    world: &'w dyn World,
    root: String,
    /// The kustomization that names this one.
    referrer: Option<Rc<Self>>,
    restricted: bool,
    /// The repository whose copy the root lies in, if this kustomization was fetched, and the directory of the copy.
    repository: Option<(Repository, String)>,
}

/// The directory that a path leads to.
fn confirm_directory(world: &dyn World, path: &str) -> Result<String, Error> {
    let failed = |e: Error| e.within("must build at directory");
    if path.is_empty() {
        return Err(failed(Error::text("directory path cannot be empty")));
    }
    match world.resolve(path) {
        Ok(Place::Directory(directory)) => Ok(directory),
        Ok(Place::File { .. }) => Err(failed(Error::text(format!("'{path}': file is not directory")))),
        Err(e) => {
            Err(failed(Error::text(format!("not a valid directory: evalsymlink failure on '{path}' : {e}"))))
        }
    }
}

impl<'w> Loader<'w> {
    /// The loader of the kustomization that is built: an absolute directory, or a repository.
    ///
    /// # Errors
    /// There is no such directory or repository.
    pub fn root(world: &'w dyn World, target: &str, restricted: bool) -> Result<Self, Error> {
        if let Ok(repository) = Repository::parse(target) {
            return Self::of_repository(world, repository, None);
        }
        let root = confirm_directory(world, target)?;
        Ok(Self { world, root, referrer: None, restricted, repository: None })
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &str {
        &self.root
    }

    fn of_repository(
        world: &'w dyn World,
        repository: Repository,
        referrer: Option<Rc<Self>>,
    ) -> Result<Self, Error> {
        if let Some(warning) = repository.warning() {
            world.warn(warning);
        }
        let copy = world.clone_repository(&repository).map_err(Error::Text)?;
        let path = join(&copy, &repository.directory);
        let root = match world.resolve(&path) {
            Ok(Place::Directory(root)) => root,
            Ok(Place::File { name, .. }) => {
                let text = format!("'{path}' refers to file '{name}'; expecting directory");
                return Err(Error::text(text));
            }
            Err(e) => return Err(Error::text(format!("evalsymlink failure on '{path}' : {e}"))),
        };
        if !is_within(&root, &copy) {
            let text = format!("{path:?} refers to directory outside of repo {copy:?}");
            return Err(Error::text(text));
        }
        Ok(Self { world, root, referrer, restricted: true, repository: Some((repository, copy)) })
    }

    /// The loader of a kustomization that this one names.
    ///
    /// # Errors
    /// The path leads to no directory, to one that contains this one, or out of a repository.
    pub fn below(self: &Rc<Self>, path: &str) -> Result<Self, Error> {
        if path.is_empty() {
            return Err(Error::text("new root cannot be empty"));
        }
        if let Ok(repository) = Repository::parse(path) {
            self.check_repository_cycle(&repository)?;
            return Self::of_repository(self.world, repository, Some(self.clone()));
        }
        if path.starts_with('/') {
            return Err(Error::text(format!("new root '{path}' cannot be absolute")));
        }
        let root = confirm_directory(self.world, &join(&self.root, path))?;
        if let Some(copy) = self.copy()
            && !is_within(&root, copy)
        {
            return Err(Error::text(format!(
                "security; bases in kustomizations found in cloned git repos must be within the repo, but base '{root}' is outside '{copy}'"
            )));
        }
        self.check_cycle(&root)?;
        Ok(Self {
            world: self.world,
            root,
            referrer: Some(self.clone()),
            restricted: self.restricted,
            repository: None,
        })
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |loader| loader.referrer.as_deref())
    }

    /// The copy of the repository that the kustomization lies in.
    fn copy(&self) -> Option<&str> {
        self.chain().find_map(|loader| loader.repository.as_ref()).map(|(_, copy)| copy.as_str())
    }

    fn check_cycle(&self, candidate: &str) -> Result<(), Error> {
        match self.chain().find(|loader| is_within(&loader.root, candidate)) {
            None => Ok(()),
            Some(loader) => Err(Error::text(format!(
                "cycle detected: candidate root '{candidate}' contains visited root '{}'",
                loader.root
            ))),
        }
    }

    fn check_repository_cycle(&self, repository: &Repository) -> Result<(), Error> {
        let known = self.chain().filter_map(|loader| loader.repository.as_ref());
        match known.map(|(known, _)| known).find(|known| known.raw.starts_with(&repository.raw)) {
            None => Ok(()),
            Some(known) => Err(Error::text(format!(
                "cycle detected: URI '{}' referenced by previous URI '{}'",
                repository.raw, known.raw
            ))),
        }
    }

    /// Reads a file of the kustomization.
    ///
    /// # Errors
    /// There is no such file, or it lies outside of the root.
    pub fn load(&self, path: &str) -> Result<Vec<u8>, Error> {
        if is_remote_file(path) {
            return self.world.fetch(path).map_err(|e| match e {
                FetchError::Status(text) => Error::Http(text),
                FetchError::Other(text) => Error::Text(text),
            });
        }
        let mut path = if path.starts_with('/') { path.to_owned() } else { join(&self.root, path) };
        if self.restricted {
            path = match self.world.resolve(&path) {
                Err(e) => return Err(Error::text(format!("evalsymlink failure on '{path}' : {e}"))),
                Ok(Place::Directory(_)) => {
                    return Err(Error::text(format!("'{path}' must resolve to a file")));
                }
                Ok(Place::File { directory, name }) => {
                    if !is_within(&directory, &self.root) {
                        return Err(Error::text(format!(
                            "security; file '{path}' is not in or below '{}'",
                            self.root
                        )));
                    }
                    join(&directory, &name)
                }
            };
        }
        self.world.read(&path).map_err(Error::Text)
    }
}
