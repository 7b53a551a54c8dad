//! Module directories that appear, change or vanish while the operator runs.
//!
//! Owns the detection of changes and what is read again: only what has changed, and only complete states. Files are scanned every few
//! seconds by time and size. inotify does not report changes of network file systems and of symlink targets (ConfigMaps and git-sync
//! swap symlinks), and needs a watch for each directory out of a number that all containers of a user share.

mod module_scan;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chart_compat::profile::Profile;
use tokio::sync::mpsc;

use super::module::{Module, Modules};
use super::values::GLOBAL;
use crate::openapi::Schemas;
pub(super) use module_scan::Scan;
use module_scan::Walker;

/// After a change the files must be still for this time: a copy that is under way is not read.
const STILL: Duration = Duration::from_millis(300);
/// Files that keep changing are read after this many scans.
const MOST_LOOKS: u32 = 40;

/// Where modules are, and how they are read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) roots: String,
    /// Directory of global hooks, if there is one.
    pub(super) global: Option<PathBuf>,
    pub(super) unnumbered: u32,
    pub(super) profile: Profile,
}

/// What is on disk now, with what could not be used as it was before.
pub(super) struct Found {
    pub(super) modules: Modules,
    /// Schemas of modules that are new or have changed, by key.
    pub(super) schemas: BTreeMap<String, Schemas>,
    /// Names of modules that are new or have changed, without those that stay as they were because they are broken.
    pub(super) changed: BTreeSet<String>,
    /// Global hooks have changed.
    pub(super) global: bool,
}

/// Checks the files every `interval` and sends what is new; ends when the receiver is gone.
pub(super) fn watch(
    source: Source,
    interval: Duration,
    scan: Scan,
    modules: &Modules,
) -> mpsc::Receiver<Found> {
    let (sender, receiver) = mpsc::channel(1);
    let mut known = Known { source, scan, modules: modules.clone() };
    let mut walker = Walker::default();
    tokio::spawn(async move {
        while !sender.is_closed() {
            tokio::time::sleep(interval).await;
            let Some(scan) = look(&known, &mut walker).await else { continue };
            let read = tokio::task::spawn_blocking(move || {
                let found = known.read(scan);
                (known, found)
            });
            // It ends only when the process does.
            let Ok((read, found)) = read.await else { return };
            known = read;
            if sender.send(found).await.is_err() {
                return;
            }
        }
    });
    receiver
}

/// A scan of the files once they no longer change; `None` if they are as before.
async fn look(known: &Known, walker: &mut Walker) -> Option<Scan> {
    let scan = async |walker: &mut Walker, all: bool| {
        let source = known.source.clone();
        let mut own = std::mem::take(walker);
        let looked = tokio::task::spawn_blocking(move || {
            let scan = own.take(&source.roots, source.global.as_deref(), all);
            (own, scan)
        });
        let (own, scan) = looked.await.ok()?;
        *walker = own;
        Some(scan)
    };
    let mut last = scan(walker, false).await?;
    if last == known.scan {
        return None;
    }
    for _ in 0..MOST_LOOKS {
        tokio::time::sleep(STILL).await;
        let next = scan(walker, true).await?;
        if next == last {
            break;
        }
        last = next;
    }
    (last != known.scan).then_some(last)
}

/// What was read last.
struct Known {
    source: Source,
    scan: Scan,
    modules: Modules,
}

impl Known {
    /// Reads what a scan shows to be others.
    fn read(&mut self, scan: Scan) -> Found {
        let old: BTreeMap<&Path, &Module> =
            self.modules.modules.iter().map(|m| (m.path.as_path(), m)).collect();
        let same = |path: &Path| {
            let unchanged = scan.modules.get(path).is_some_and(|p| self.scan.modules.get(path) == Some(p));
            old.get(path).filter(|_| unchanged).map(|m| (*m).clone())
        };
        let Source { roots, unnumbered, profile, .. } = &self.source;
        let mut modules = Modules::rediscover(roots, *unnumbered, *profile, &same);
        scan.stamp(&mut modules);
        let (mut schemas, mut changed) = (BTreeMap::new(), BTreeSet::new());
        for module in &mut modules.modules {
            if same(&module.path).is_some() {
                continue;
            }
            let name = module.name.name.clone();
            let before = self.modules.modules.iter().find(|m| m.name.name == name);
            let read = Schemas::read(&module.path.join("openapi"));
            let problem = module.chart.as_ref().err().cloned().or_else(|| read.as_ref().err().cloned());
            match (problem, before) {
                (Some(text), Some(before)) if before.chart.is_ok() => {
                    *module = Module { broken_files: Some(text), ..before.clone() };
                }
                (_, _) => {
                    if let Ok(read) = read {
                        schemas.insert(module.name.key.clone(), read);
                    }
                    changed.insert(name);
                }
            }
        }
        // A root that cannot be read says nothing: its modules stay, and so do the values of all roots.
        if !modules.unread.is_empty() {
            modules.values = self.modules.values.clone();
            for module in &self.modules.modules {
                let lost = module.path.parent().is_some_and(|root| scan.roots.get(root) == Some(&None));
                if lost && !modules.modules.iter().any(|m| m.name.name == module.name.name) {
                    modules.modules.push(module.clone());
                }
            }
            modules.modules.sort_by(|a, b| a.name.cmp(&b.name));
        }
        let (before, now) = (self.scan.global, scan.global);
        let hooks = self.source.global.as_ref().zip(now).filter(|_| before != now);
        if let Some((directory, _)) = hooks {
            match Schemas::read(&directory.join("openapi")) {
                Ok(read) => drop(schemas.insert(GLOBAL.to_owned(), read)),
                Err(text) => tracing::error!("schemas of global values stay as they were: {text}"),
            }
        }
        // A directory that is gone leaves its hooks as they are: a mount that fails must not end them.
        let global = hooks.is_some();
        self.scan = Scan { global: now.or(before), ..scan };
        self.modules = modules.clone();
        Found { modules, schemas, changed, global }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Disk(tempfile::TempDir);

    impl Disk {
        fn new() -> Self {
            let disk = Self(tempfile::tempdir().unwrap());
            disk.write("m/values.yaml", "aEnabled: true\n");
            disk.module("001-a").module("002-b")
        }

        fn module(self, directory: &str) -> Self {
            let name = directory.split_once('-').unwrap().1;
            self.write(
                &format!("m/{directory}/Chart.yaml"),
                &format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n"),
            );
            self.write(&format!("m/{directory}/templates/x.yaml"), "a: b\n");
            self
        }

        /// Written under another name and moved, so that each write has another inode.
        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path.with_extension("tmp"), text).unwrap();
            fs::rename(path.with_extension("tmp"), path).unwrap();
        }

        fn roots(&self) -> String {
            self.0.path().join("m").display().to_string()
        }

        fn known(&self) -> Known {
            let source = Source { roots: self.roots(), global: None, unnumbered: 1, profile: Profile::Helm4 };
            let scan = Scan::take(&source.roots, None);
            let mut modules = Modules::discover(&source.roots, 1, source.profile);
            scan.stamp(&mut modules);
            Known { source, scan, modules }
        }

        fn changed(&self, known: &mut Known) -> (Vec<String>, Vec<String>) {
            let found = known.read(Scan::take(&known.source.roots, None));
            let names = found.modules.modules.iter().map(|m| {
                format!("{}{}", m.name.name, if m.broken_files.is_some() { " (broken)" } else { "" })
            });
            (names.collect(), found.changed.into_iter().collect())
        }
    }

    #[test]
    fn only_what_changed_is_read_again() {
        let disk = Disk::new();
        let mut known = disk.known();
        assert_eq!(Scan::take(&disk.roots(), None), known.scan, "nothing moves by itself");
        let (a, b) = (known.modules.modules[0].clone(), known.modules.modules[1].clone());
        disk.write("m/001-a/templates/x.yaml", "a: c\n");
        assert_eq!(disk.changed(&mut known), (vec!["a".into(), "b".into()], vec!["a".into()]));
        let chart = |m: &Module| m.chart.clone().unwrap().unwrap();
        assert!(!std::sync::Arc::ptr_eq(&chart(&known.modules.modules[0]), &chart(&a)));
        assert!(std::sync::Arc::ptr_eq(&chart(&known.modules.modules[1]), &chart(&b)));
        assert_eq!(known.modules.modules[0].hooks, a.hooks, "its hooks are as they were");
        disk.write("m/001-a/hooks/h", "x");
        assert_eq!(disk.changed(&mut known).1, ["a"]);
        assert_ne!(known.modules.modules[0].hooks, a.hooks);
        let disk = disk.module("003-c");
        assert_eq!(disk.changed(&mut known), (vec!["a".into(), "b".into(), "c".into()], vec!["c".into()]));
        fs::remove_dir_all(disk.0.path().join("m/002-b")).unwrap();
        assert_eq!(disk.changed(&mut known), (vec!["a".into(), "c".into()], vec![]));
        fs::rename(disk.0.path().join("m/001-a"), disk.0.path().join("m/009-a")).unwrap();
        assert_eq!(disk.changed(&mut known), (vec!["c".into(), "a".into()], vec!["a".into()]));
    }

    #[test]
    fn what_is_broken_leaves_the_last_good() {
        let disk = Disk::new();
        let mut known = disk.known();
        disk.write("m/001-a/Chart.yaml", "apiVersion: [\n");
        assert_eq!(disk.changed(&mut known), (vec!["a (broken)".into(), "b".into()], vec![]));
        assert!(known.modules.modules[0].chart.is_ok());
        disk.write("m/001-a/Chart.yaml", "apiVersion: v2\nname: a\nversion: 2.0.0\n");
        disk.write("m/001-a/openapi/values.yaml", "type: [\n");
        assert_eq!(disk.changed(&mut known), (vec!["a (broken)".into(), "b".into()], vec![]));
        disk.write("m/001-a/openapi/values.yaml", "type: object\n");
        assert_eq!(disk.changed(&mut known), (vec!["a".into(), "b".into()], vec!["a".into()]));
        // The flags of all modules do not go with a slip in a file, nor all modules with a mount.
        disk.write("m/values.yaml", "aEnabled: [\n");
        disk.changed(&mut known);
        assert!(known.modules.values.get("aEnabled").is_some());
        fs::rename(disk.0.path().join("m"), disk.0.path().join("away")).unwrap();
        assert_eq!(disk.changed(&mut known), (vec!["a".into(), "b".into()], vec![]));
        fs::rename(disk.0.path().join("away"), disk.0.path().join("m")).unwrap();
        disk.write("m/values.yaml", "{}\n");
        disk.changed(&mut known);
        assert!(known.modules.values.get("aEnabled").is_none());
    }

    #[test]
    fn a_symlink_that_is_swapped_is_a_change() {
        let disk = Disk::new();
        let root = disk.0.path();
        fs::rename(root.join("m"), root.join("one")).unwrap();
        disk.write("two/001-a/templates/x.yaml", "a: other\n");
        std::os::unix::fs::symlink(root.join("one"), root.join("m")).unwrap();
        let mut known = disk.known();
        std::os::unix::fs::symlink(root.join("two"), root.join("next")).unwrap();
        fs::rename(root.join("next"), root.join("m")).unwrap();
        assert_eq!(disk.changed(&mut known), (vec!["a".into()], vec!["a".into()]));
    }
}
