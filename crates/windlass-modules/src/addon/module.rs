//! A module on disk: its chart, its static values, and the roots that modules stand in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chart_compat::chart::{self, Chart, Crd, merge_maps};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::CompiledChart;
use chart_compat::yaml;

use super::module_name::{ModuleName, UNNUMBERED_ORDER};
use super::target;
use windlass_base::bounded_read;
use windlass_controller::ReleaseTarget;

/// Version of the chart that a module without `Chart.yaml` gets, as addon-operator gives it.
const SYNTHETIC_VERSION: &str = "0.2.0";

/// Directories that a module without `Chart.yaml` does not take into its chart.
const NOT_CHART: [&str; 4] = ["docs", "hooks", "images", "lib"];

/// A module found in one of the roots.
#[derive(Clone)]
pub struct Module {
    /// Name, order and key.
    pub name: ModuleName,
    /// Its directory.
    pub path: PathBuf,
    /// Section of its own `values.yaml`.
    pub values: Map,
    /// `<module>Enabled` of its own `values.yaml`.
    pub flag: Option<bool>,
    /// Its chart, or why it has none; `None` for a module without chart and templates.
    pub chart: Result<Option<Arc<CompiledChart>>, String>,
    /// The files of its CRDs: of its directory, also where `.helmignore` excludes them, as addon-operator reads them, and of the
    /// subcharts of its chart.
    pub crds: Vec<Crd>,
    /// Where its release lives.
    pub target: ReleaseTarget,
    /// A fingerprint of its hooks.
    pub hooks: u64,
    /// Why it is not as its files are now: they cannot be used, and those before can.
    pub broken_files: Option<String>,
}

/// All that the roots hold.
#[derive(Clone, Default)]
pub struct Modules {
    /// Modules by order, then name.
    pub modules: Vec<Module>,
    /// `values.yaml` of the roots: `global`, sections and enable flags, later roots over earlier ones.
    pub values: Map,
    /// What could not be used; each text names its file.
    pub problems: Vec<String>,
    /// What of that keeps whole roots from being known: modules that seem to be gone or off may not be.
    pub unread: Vec<String>,
}

impl Modules {
    /// Looks through the roots, a colon-separated list. What is wrong with one module or root leaves the others alone.
    #[must_use]
    pub fn discover(roots: &str, unnumbered: u32, profile: Profile) -> Self {
        Self::rediscover(roots, unnumbered, profile, &|_| None)
    }

    /// The same; a directory that `known` has a module for is not read again.
    pub(crate) fn rediscover(
        roots: &str,
        unnumbered: u32,
        profile: Profile,
        known: &dyn Fn(&Path) -> Option<Module>,
    ) -> Self {
        let mut found = Self::default();
        for root in roots.split(':').filter(|r| !r.is_empty()) {
            found.root(Path::new(root), unnumbered, profile, known);
        }
        found.modules.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    /// Reads one module alone, without the values of a root; `name` replaces that of its directory.
    ///
    /// # Errors
    /// The directory does not exist or does not hold a module, or its chart is invalid.
    pub(crate) fn one(path: &Path, name: Option<&str>, profile: Profile) -> Result<Module, String> {
        let path = path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?;
        let directory = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let parsed = ModuleName::parse(name.unwrap_or(&directory), UNNUMBERED_ORDER)
            .map_err(|text| format!("{text}; or give it a name with --name"))?;
        let mut found = Self::default();
        found.read_module(path, parsed, profile);
        match found.modules.pop() {
            Some(Module { chart: Err(text), .. }) => Err(text),
            Some(module) => Ok(module),
            None => Err(found.problems.join("; ")),
        }
    }

    /// Names of all modules.
    #[must_use]
    pub fn names(&self) -> Vec<ModuleName> {
        self.modules.iter().map(|m| m.name.clone()).collect()
    }

    /// Names of all modules with the annotations of their charts.
    pub fn annotated(&self) -> impl Iterator<Item = (&str, Option<&[(String, String)]>)> {
        self.modules.iter().map(|m| {
            let chart = m.chart.as_ref().ok().and_then(Option::as_ref);
            let annotations = chart.and_then(|c| c.chart().metadata.annotations.as_deref());
            (m.name.name.as_str(), annotations)
        })
    }

    /// The first `values.yaml` that a root or a module does not have.
    #[must_use]
    pub fn without_values(&self, roots: &str) -> Option<PathBuf> {
        let roots = roots.split(':').filter(|r| !r.is_empty()).map(PathBuf::from);
        let directories = roots.chain(self.modules.iter().map(|m| m.path.clone()));
        directories.map(|d| d.join("values.yaml")).find(|file| !file.is_file())
    }

    fn root(
        &mut self,
        root: &Path,
        unnumbered: u32,
        profile: Profile,
        known: &dyn Fn(&Path) -> Option<Module>,
    ) {
        let entries = match std::fs::read_dir(root) {
            Ok(entries) => entries,
            Err(e) => {
                return self.root_unread(format!("modules directory {}: {e}", root.display()));
            }
        };
        let file = root.join("values.yaml");
        let of_root = values_file(&file).unwrap_or_else(|text| {
            self.root_unread(text);
            Map::new()
        });
        merge_maps(&mut self.values, of_root.clone());
        let mut paths = Vec::new();
        for entry in entries {
            match entry {
                Ok(entry) => paths.push(entry.path()),
                Err(e) => self.root_unread(format!("modules directory {}: {e}", root.display())),
            }
        }
        paths.sort();
        for path in paths {
            match std::fs::metadata(&path) {
                Ok(m) if m.is_dir() => self.module(path, (&file, &of_root), unnumbered, profile, known),
                Ok(_) => {}
                Err(e) => self.problems.push(format!("{}: {e}", path.display())),
            }
        }
    }

    fn root_unread(&mut self, text: String) {
        self.problems.push(text.clone());
        self.unread.push(text);
    }

    /// The error where unreadable roots leave the set of modules unknown.
    pub fn unread(&self) -> Option<String> {
        let and = "nothing is done, since modules would seem to be off or gone; correct that and restart";
        (!self.unread.is_empty()).then(|| format!("{}: {and}", self.unread.join("; ")))
    }

    fn module(
        &mut self,
        path: PathBuf,
        (root_file, of_root): (&Path, &Map),
        unnumbered: u32,
        profile: Profile,
        known: &dyn Fn(&Path) -> Option<Module>,
    ) {
        let directory = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if directory.starts_with('.') {
            return;
        }
        let name = match ModuleName::parse(&directory, unnumbered) {
            Ok(name) => name,
            Err(text) => {
                self.problems.push(text);
                return;
            }
        };
        if let Some(first) = self.modules.iter().find(|m| m.name.name == name.name) {
            self.problems.push(format!(
                "{}: module {} exists already in {}; this one is ignored",
                path.display(),
                name.name,
                first.path.display()
            ));
            return;
        }
        // The root is read again whenever it changes, the module is not.
        if let Err(text) = section(root_file, &name.key, of_root.get(&name.key).cloned()) {
            self.problems.push(text);
        }
        match known(&path) {
            Some(module) => self.modules.push(module),
            None => self.read_module(path, name, profile),
        }
    }

    /// Reads a module's directory.
    fn read_module(&mut self, path: PathBuf, name: ModuleName, profile: Profile) {
        let mut flag = None;
        let file = path.join("values.yaml");
        let section = values_file(&file).and_then(|mut values| {
            flag = values.get(&name.enabled_key()).and_then(Data::as_bool);
            section(&file, &name.key, values.remove(&name.key)).map(Option::unwrap_or_default)
        });
        let (values, chart) = match section {
            Ok(values) => (values, load_chart(&path, &name, profile)),
            Err(text) => (Map::new(), Err(text)),
        };
        let (chart, crds) =
            match chart.and_then(|chart| Ok((crds_of(&path, &name.name, chart.as_deref())?, chart))) {
                Ok((crds, chart)) => (Ok(chart), crds),
                Err(text) => (Err(text), Vec::new()),
            };
        let (chart, target) = match chart.and_then(|chart| Ok((target_of(&path, chart.as_deref())?, chart))) {
            Ok((target, chart)) => (Ok(chart), target),
            Err(text) => (Err(text), ReleaseTarget::default()),
        };
        let (hooks, broken_files) = (0, None);
        self.modules.push(Module { name, path, values, flag, chart, crds, target, hooks, broken_files });
    }
}

/// Where a module's release lives, as its chart says.
fn target_of(path: &Path, chart: Option<&CompiledChart>) -> Result<ReleaseTarget, String> {
    let annotations = chart.and_then(|c| c.chart().metadata.annotations.as_deref());
    target::of_chart(annotations).map_err(|e| format!("{}: {e}", path.display()))
}

/// The section of a module in a values file. Anything but a map ends addon-operator (`fs.getBasicModule`).
fn section(file: &Path, key: &str, section: Option<Data>) -> Result<Option<Map>, String> {
    match section {
        None | Some(Data::Null) => Ok(None),
        Some(Data::Map(map)) => Ok(Some(map)),
        Some(other) => {
            let what = if matches!(other, Data::List(_)) { "a list" } else { "a single value" };
            Err(format!("{}: {key} is {what}: write the module's values as a map below it", file.display()))
        }
    }
}

/// A values file; absent means empty.
fn values_file(path: &Path) -> Result<Map, String> {
    match bounded_read::read_file(path, bounded_read::MAX_TEXT) {
        Ok(bytes) => yaml::from_slice_map(&bytes).map_err(|e| {
            let line = e.line().map_or_else(String::new, |line| format!(":{line}"));
            format!("{}{line}: yaml: {}", path.display(), e.problem())
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Map::new()),
        Err(e) => Err(format!("{}: {e}", path.display())),
    }
}

fn load_chart(
    path: &Path,
    name: &ModuleName,
    profile: Profile,
) -> Result<Option<Arc<CompiledChart>>, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let compiled = if path.join("Chart.yaml").is_file() {
        windlass_fetch::load(path, profile).map_err(|e| failed(&e))?.compile(profile)
    } else if path.join("templates").is_dir() {
        CompiledChart::new(synthetic(path, &name.name)?, profile)
    } else {
        return Ok(None);
    };
    Ok(Some(Arc::new(compiled)))
}

/// The CRDs of a module: the files of its directory, and what its chart has besides.
fn crds_of(path: &Path, name: &str, chart: Option<&CompiledChart>) -> Result<Vec<Crd>, String> {
    let directory = path.join("crds");
    let mut crds = Vec::new();
    if directory.is_dir() {
        let files = windlass_fetch::directory_files(&directory);
        let mut files = files.map_err(|e| format!("{}: {e}", directory.display()))?;
        files.retain(|f| [".yaml", ".yml", ".json"].iter().any(|end| f.name.ends_with(end)));
        crds.extend(files.into_iter().map(|f| Crd { path: format!("{name}/crds/{}", f.name), data: f.data }));
    }
    if let Some(chart) = chart {
        let own = format!("{}/crds/", chart.chart().name());
        crds.extend(chart.chart().crds().into_iter().filter(|crd| !crd.path.starts_with(&own)));
    }
    Ok(crds)
}

/// The chart of a module that has templates and no `Chart.yaml`.
fn synthetic(path: &Path, name: &str) -> Result<Chart, String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut files = windlass_fetch::directory_files(path).map_err(|e| failed(&e))?;
    files.retain(|f| !NOT_CHART.contains(&f.name.split('/').next().unwrap_or_default()));
    let metadata = format!("apiVersion: v2\nname: {name}\nversion: {SYNTHETIC_VERSION}\n");
    files.push(chart::File::new("Chart.yaml".to_owned(), metadata.into_bytes()));
    chart::load_files(files, Profile::Helm4, &mut |_| {}).map_err(|e| failed(&e))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_section_that_is_no_map_is_told_with_file_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("010-own/values.yaml", "own: [a, b]\n");
        put("020-root-list/values.yaml", "");
        put("040-word/values.yaml", "word: yes, please\n");
        put("050-empty/values.yaml", "empty:\n");
        put("values.yaml", "rootList: [1]\nword: {a: 1}\n");
        let found = Modules::discover(&dir.path().display().to_string(), UNNUMBERED_ORDER, Profile::Helm4);
        let short = |text: &String| text.replace(&format!("{}/", dir.path().display()), "");
        let errors = found.modules.iter().map(|m| m.chart.as_ref().err().map(short).unwrap_or_default());
        let end = "write the module's values as a map below it";
        let expected = [
            format!("010-own/values.yaml: own is a list: {end}"),
            String::new(),
            format!("040-word/values.yaml: word is a single value: {end}"),
            String::new(),
        ];
        assert_eq!(errors.collect::<Vec<_>>(), expected);
        // That of a root is reported with its modules, which continue without it.
        let of_root = format!("values.yaml: rootList is a list: {end}");
        assert_eq!(found.problems.iter().map(short).collect::<Vec<_>>(), [of_root]);
    }

    #[test]
    fn what_lies_in_the_roots_is_a_module_or_told_or_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = |path: &str| dir.path().join(path);
        let put = |file: &str, text: &str| {
            fs::create_dir_all(path(file).parent().unwrap()).unwrap();
            fs::write(path(file), text).unwrap();
        };
        put("one/010-web/values.yaml", "web: {from: one}\n");
        put("one/values.yaml", "global: {a: 1, b: {c: 1}}\nwebEnabled: true\n");
        // The same name again, in this root and in another one: the first counts.
        put("one/020-web/values.yaml", "web: {from: again}\n");
        put("two/005-web/values.yaml", "web: {from: two}\n");
        put("two/values.yaml", "global: {b: {d: 2}}\n");
        // No modules: a file, whatever it is called, and what is hidden.
        put("one/030-file", "not a directory\n");
        put("one/.git/config", "");
        // Links to directories are as good as these; a dangling one is reported.
        put("elsewhere/values.yaml", "linked: {x: 1}\n");
        symlink(path("elsewhere"), path("one/040-linked")).unwrap();
        symlink("../one/030-file", path("two/050-to-file")).unwrap();
        symlink(path("nowhere"), path("two/060-dangling")).unwrap();
        put("two/unnumbered/values.yaml", "");
        put("two/07-module-1/values.yaml", "");
        let roots = format!(":{}::{}:", path("one").display(), path("two").display());
        let found = Modules::discover(&roots, UNNUMBERED_ORDER, Profile::Helm4);
        let names: Vec<_> = found.modules.iter().map(|m| (m.name.order, m.name.name.as_str())).collect();
        assert_eq!(names, [(1, "unnumbered"), (10, "web"), (40, "linked")]);
        assert_eq!(found.modules[1].path, path("one/010-web"));
        let global = windlass_render::to_json(&found.values["global"]);
        assert_eq!(global, serde_json::json!({"a": 1, "b": {"c": 1, "d": 2}}));
        let told = |parts: &[&str]| {
            let is = |text: &&String| parts.iter().all(|part| text.contains(part));
            assert_eq!(found.problems.iter().filter(is).count(), 1, "{parts:?}: {:#?}", found.problems);
        };
        told(&["one/020-web: module web exists already in", "one/010-web; this one is ignored"]);
        told(&["two/005-web: module web exists already in", "one/010-web"]);
        told(&["two/060-dangling: No such file"]);
        told(&["07-module-1", "rename the module to"]);
        assert_eq!((found.problems.len(), found.unread.len()), (4, 0));
        let gone = Modules::discover(&path("gone").display().to_string(), UNNUMBERED_ORDER, Profile::Helm4);
        assert!(gone.unread[0].contains("modules directory") && gone.unread().is_some(), "{:?}", gone.unread);
    }
}
