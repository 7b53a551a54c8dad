//! Copies what a run reads and fetches into the files of a bundle.
//!
//! Owns which files may be packed: those below one root directory, and those of temporary copies that were fetched. Nothing else of
//! the machine is packed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::bundle_archive::{self, MAX_BYTES, MAX_FILES, is_executable, too_large, write};
use super::bundle_manifest::{BundleManifest, FILES, MachineNeeds, PackedInput, REMOTE};
use crate::error::HelmfileError;
use helmfile_compat::host::Entry;
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_base::hex::hex;
use windlass_fetch::input_store::{InputStore, RemoteInput, StoreError};
use windlass_fetch::oci::packed_artifact::MAX_BLOB;

/// The most folders in each other that are packed.
const MAX_DEPTH: usize = 64;
/// Characters of a key that name a directory: enough to tell inputs apart.
const NAME_LENGTH: usize = 16;

/// A recording.
#[derive(Debug)]
pub struct Recorder {
    root: PathBuf,
    staging: TempDir,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    /// Temporary copies: their roots on disk, and their paths in the bundle.
    copies: Vec<(PathBuf, String)>,
    inputs: BTreeMap<String, PackedInput>,
    folders: BTreeMap<String, BTreeMap<String, bool>>,
    paths: BTreeMap<String, Option<bool>>,
    needs: MachineNeeds,
    files: usize,
    bytes: u64,
}

impl Recorder {
    /// A recording of files below a root.
    ///
    /// # Errors
    /// The root is not a directory, or there is no temporary directory.
    pub fn new(root: &Path) -> Result<Self, HelmfileError> {
        let failed = |error: std::io::Error| HelmfileError::file(root.display(), &error);
        let root = fs::canonicalize(root).map_err(failed)?;
        if !root.is_dir() {
            return Err(HelmfileError::Bundle(format!("{} is not a directory", root.display())));
        }
        let staging = tempfile::Builder::new().prefix("windlass-bundle-").tempdir();
        let staging =
            staging.map_err(|error| HelmfileError::cause(error).within("no temporary directory"))?;
        Ok(Self { root, staging, records: Mutex::default() })
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The path in the bundle of a path on disk; `None` if it may not be packed.
    #[must_use]
    pub fn place(&self, path: &Path) -> Option<String> {
        let path = windlass_fetch::absolute(path);
        let known = |path: &Path| {
            let copies = self.records().copies.clone();
            let roots = copies.into_iter().chain([(self.root.clone(), FILES.to_owned())]);
            roots.into_iter().find_map(|(root, name)| {
                let below = path.strip_prefix(root).ok()?.to_string_lossy().into_owned();
                Some(if below.is_empty() { name } else { format!("{name}/{below}") })
            })
        };
        known(&path).or_else(|| known(&fs::canonicalize(&path).ok()?))
    }

    /// Whether a path stays within what may be packed when links are followed.
    fn is_within(&self, path: &Path) -> bool {
        let Ok(path) = fs::canonicalize(path) else { return false };
        path.starts_with(&self.root) || self.records().copies.iter().any(|(copy, _)| path.starts_with(copy))
    }

    /// Packs a file of the disk at its place, unless that was done.
    fn copy(&self, path: &Path, place: &str) -> Result<(), HelmfileError> {
        let failed = |error: std::io::Error| HelmfileError::file(path.display(), &error);
        if self.staged(place).exists() {
            return Ok(());
        }
        if !self.is_within(path) {
            return Err(HelmfileError::Bundle(format!(
                "{} is a link to a file outside of {}, which is not packed: give a directory that has both with --root",
                path.display(),
                self.root.display()
            )));
        }
        let content = bounded_read::read_file(path, MAX_BYTES).map_err(failed)?;
        self.put(place, &content, is_executable(path))
    }

    /// Packs content at a place, unless that was done.
    fn put(&self, place: &str, content: &[u8], executable: bool) -> Result<(), HelmfileError> {
        let staged = self.staged(place);
        if staged.exists() {
            return Ok(());
        }
        let mut records = self.records();
        records.files += 1;
        records.bytes += content.len() as u64;
        if records.files > MAX_FILES || records.bytes > MAX_BYTES {
            return Err(too_large());
        }
        drop(records);
        write(&staged, content, executable).map_err(|error| error.within(&*place))
    }

    fn staged(&self, place: &str) -> PathBuf {
        self.staging.path().join(place)
    }

    /// Packs a file or a directory that the run does not read by itself.
    ///
    /// # Errors
    /// It does not exist, may not be packed, or is too large.
    pub fn include(&self, path: &Path) -> Result<(), HelmfileError> {
        if self.place(path).is_none() {
            return Err(HelmfileError::Bundle(format!(
                "{} is outside of {}",
                path.display(),
                self.root.display()
            )));
        }
        let noted = if path.is_dir() { self.note_directory(path) } else { self.note_file(path) };
        Ok(noted?)
    }

    /// Whether a file is among those that are packed.
    #[must_use]
    pub fn is_packed(&self, path: &Path) -> bool {
        self.place(path).is_some_and(|place| self.staged(&place).is_file())
    }

    /// Notes what a path was: a folder, a file, or missing.
    pub fn note_path(&self, path: &str, is_dir: Option<bool>) {
        if let Some(place) = self.place(Path::new(path)) {
            self.records().paths.insert(place, is_dir);
        }
    }

    /// Notes the entries of a folder.
    pub fn note_entries(&self, path: &str, entries: &[Entry]) {
        if let Some(place) = self.place(Path::new(path)) {
            let entries = entries.iter().map(|entry| (entry.name.clone(), entry.is_dir)).collect();
            self.records().folders.insert(place, entries);
        }
    }

    /// Notes what is taken from the machine of each run.
    pub fn note_need(&self, note: impl FnOnce(&mut MachineNeeds)) {
        note(&mut self.records().needs);
    }

    /// The manifest of what was recorded, and the archive of its files.
    ///
    /// # Errors
    /// A file cannot be read, or the archive is too large for a registry.
    pub fn finish(
        &self,
        directory: String,
        file: String,
    ) -> Result<(BundleManifest, Vec<u8>), HelmfileError> {
        let records = self.records();
        let manifest = BundleManifest {
            inputs: records.inputs.clone(),
            folders: records.folders.clone(),
            paths: records.paths.clone(),
            needs: records.needs.clone(),
            ..BundleManifest::new(directory, file)
        };
        let archive = bundle_archive::pack(self.staging.path())?;
        if archive.len() as u64 > MAX_BLOB {
            return Err(HelmfileError::Bundle(format!(
                "the bundle has {} MiB, more than the maximum {} MiB: bundle fewer environments or releases at a time",
                archive.len() >> 20,
                MAX_BLOB >> 20
            )));
        }
        Ok((manifest, archive))
    }

    fn walk(&self, dir: &Path, depth: usize) -> Result<(), HelmfileError> {
        let failed = |error: std::io::Error| HelmfileError::file(dir.display(), &error);
        if depth > MAX_DEPTH {
            return Err(HelmfileError::Bundle(format!(
                "{}: more than {MAX_DEPTH} folders in each other",
                dir.display()
            )));
        }
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let (path, kind) = (entry.path(), entry.file_type().map_err(failed)?);
            if kind.is_dir() {
                if entry.file_name() != ".git" {
                    self.walk(&path, depth + 1)?;
                }
            } else if path.is_file() {
                self.note_file(&path)?;
            } else if path.is_dir() {
                return Err(HelmfileError::Bundle(format!(
                    "{} is a link to a folder, which is not packed",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

/// The name of an input's directory.
fn directory_of(key: &str) -> String {
    format!("{REMOTE}/{}", key.get(..NAME_LENGTH).unwrap_or(key))
}

impl InputStore for Recorder {
    fn find(&self, _: &RemoteInput) -> Result<Option<PathBuf>, StoreError> {
        Ok(None)
    }

    fn take_files(&self, input: &RemoteInput, files: &[(&str, &[u8])]) -> Result<(), StoreError> {
        let key = input.key();
        let directory = directory_of(&key);
        for (name, content) in files {
            if name.is_empty() || name.contains(['/', '\\']) || matches!(*name, "." | "..") {
                return Err(format!("{input}: {name:?} is not a file name").into());
            }
            self.put(&format!("{directory}/{name}"), content, false)?;
        }
        let Some((name, content)) = files.first() else { return Ok(()) };
        let packed = PackedInput {
            kind: input.kind(),
            name: input.to_string(),
            path: format!("{directory}/{name}"),
            digest: Some(hex(&Sha256::digest(content))),
        };
        self.records().inputs.insert(key, packed);
        Ok(())
    }

    fn take_copy(&self, input: &RemoteInput, copy: &Path, path: &Path) -> Result<(), StoreError> {
        let failed = |error: std::io::Error| format!("{}: {}", copy.display(), of_the_system(&error));
        let key = input.key();
        let real = fs::canonicalize(copy).map_err(failed)?;
        if !self.records().copies.iter().any(|(known, _)| *known == real) {
            let mut records = self.records();
            let name = directory_of(&key);
            // A path is that of the run, or that with links followed.
            for root in [copy.to_owned(), real] {
                if !records.copies.iter().any(|(known, _)| *known == root) {
                    records.copies.push((root, name.clone()));
                }
            }
        }
        let place =
            self.place(path).ok_or_else(|| format!("{input}: {} is not in its copy", path.display()))?;
        let packed = PackedInput { kind: input.kind(), name: input.to_string(), path: place, digest: None };
        self.records().inputs.insert(key, packed);
        Ok(())
    }

    fn note_file(&self, path: &Path) -> Result<(), StoreError> {
        // Files elsewhere are those of the machine, or of the run itself.
        self.place(path).map_or(Ok(()), |place| Ok(self.copy(path, &place)?))
    }

    fn note_chart(&self, path: &Path) -> Result<(), StoreError> {
        if !path.is_dir() {
            return self.note_file(path);
        }
        let Some(place) = self.place(path) else {
            return Err(format!(
                "the chart {} is outside of {}, which is not packed: give a directory that has both with --root",
                path.display(),
                self.root.display()
            )
            .into());
        };
        for file in windlass_fetch::directory_files(path).map_err(|error| error.to_string())? {
            let on_disk = path.join(&file.name);
            if !self.is_within(&on_disk) {
                return Err(format!("{} is a link out of {}", on_disk.display(), self.root.display()).into());
            }
            self.put(&format!("{place}/{}", file.name), &file.data, false)?;
        }
        Ok(())
    }

    fn note_directory(&self, path: &Path) -> Result<(), StoreError> {
        Ok(self.walk(path, 0)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fetch::input_store::InputKind;

    fn folder(files: &[&str]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in files {
            write(&dir.path().join(path), path.as_bytes(), false).unwrap();
        }
        dir
    }

    fn packed(recorder: &Recorder) -> Vec<String> {
        let (_, archive) = recorder.finish(FILES.to_owned(), String::new()).unwrap();
        let out = tempfile::tempdir().unwrap();
        bundle_archive::unpack(&archive, out.path()).unwrap();
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&archive[..]));
        let paths = archive.entries().unwrap().map(|e| e.unwrap().path().unwrap().display().to_string());
        paths.collect()
    }

    #[test]
    fn files_below_the_root_are_packed_once_and_no_others() {
        let (root, other) = (folder(&["a/x.yaml", "a/y.yaml", "a/.git/config"]), folder(&["secret"]));
        let recorder = Recorder::new(root.path()).unwrap();
        recorder.note_file(&root.path().join("a/../a/x.yaml")).unwrap();
        recorder.note_file(&other.path().join("secret")).unwrap();
        assert_eq!(packed(&recorder), ["files/a/x.yaml"]);
        recorder.note_directory(&root.path().join("a")).unwrap();
        assert_eq!(packed(&recorder), ["files/a/x.yaml", "files/a/y.yaml"]);
        assert!(recorder.include(&other.path().join("secret")).unwrap_err().to_string().contains("outside"));
    }

    #[cfg(unix)]
    #[test]
    fn links_out_of_the_root_are_refused() {
        let (root, other) = (folder(&["chart/Chart.yaml", "dir/x"]), folder(&["secret"]));
        let recorder = Recorder::new(root.path()).unwrap();
        let link = |name: &str, to: &Path| std::os::unix::fs::symlink(to, root.path().join(name)).unwrap();
        link("link", &other.path().join("secret"));
        link("chart/values.yaml", &other.path().join("secret"));
        assert!(recorder.note_file(&root.path().join("link")).unwrap_err().0.contains("--root"));
        assert!(recorder.note_chart(&root.path().join("chart")).unwrap_err().0.contains("link out of"));
        link("inside", &root.path().join("dir/x"));
        recorder.note_file(&root.path().join("inside")).unwrap();
        assert!(packed(&recorder).contains(&"files/inside".to_owned()));
        link("dir/folder", other.path());
        assert!(
            recorder.note_directory(&root.path().join("dir")).unwrap_err().0.contains("link to a folder")
        );
    }

    #[test]
    fn copies_are_packed_under_the_name_of_their_first_input() {
        let (root, copy) = (folder(&["x"]), folder(&["checkout/a", "checkout/b"]));
        let recorder = Recorder::new(root.path()).unwrap();
        let input = |address: &str| RemoteInput::new(InputKind::Address, address, "");
        let file = |name: &str| copy.path().join("checkout").join(name);
        for name in ["a", "b"] {
            recorder.take_copy(&input(name), copy.path(), &file(name)).unwrap();
            recorder.note_file(&file(name)).unwrap();
        }
        let directory = directory_of(&input("a").key());
        assert_eq!(packed(&recorder), ["a", "b"].map(|name| format!("{directory}/checkout/{name}")));
        let told = recorder.take_copy(&input("c"), copy.path(), &root.path().join("..")).unwrap_err().0;
        assert!(told.contains("not in its copy"), "{told}");
        let told = recorder.take_files(&input("d"), &[("../x", b"")]).unwrap_err().0;
        assert!(told.contains("not a file name"), "{told}");
    }
}
