//! A world whose bytes are counted.
//!
//! Owns the bound on what one build reads: a file counts as often as it is named.

use std::cell::Cell;

use super::{Chart, FetchError, Place, ReadFile, Repository, World};

/// The most bytes that a build reads.
const MAX_BYTES: usize = 512 << 20;

/// A world that stops when a build has read too much.
pub(crate) struct Metered<'w> {
    world: &'w dyn World,
    read: Cell<usize>,
}

impl<'w> Metered<'w> {
    pub(crate) fn new(world: &'w dyn World) -> Self {
        Self { world, read: Cell::new(0) }
    }

    fn count(&self, bytes: usize) -> Result<(), String> {
        self.read.set(self.read.get().saturating_add(bytes));
        if self.read.get() > MAX_BYTES {
            return Err(format!("a build reads at most {MAX_BYTES} bytes"));
        }
        Ok(())
    }
}

impl World for Metered<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let content = self.world.read(path)?;
        self.count(content.len()).map(|()| content)
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        self.world.resolve(path)
    }

    fn fetch(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let content = self.world.fetch(url)?;
        self.count(content.len()).map_err(FetchError::Other).map(|()| content)
    }

    fn clone_repository(&self, repository: &Repository) -> Result<String, String> {
        self.world.clone_repository(repository)
    }

    fn charts_enabled(&self) -> bool {
        self.world.charts_enabled()
    }

    fn inflate(&self, chart: &Chart, read: &ReadFile<'_>) -> Result<String, String> {
        let text = self.world.inflate(chart, read)?;
        self.count(text.len()).map(|()| text)
    }

    fn warn(&self, line: &str) {
        self.world.warn(line);
    }

    fn hint(&self, line: &str) {
        self.world.hint(line);
    }
}
