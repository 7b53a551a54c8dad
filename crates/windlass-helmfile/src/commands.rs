//! helmfile's reading commands over evaluated states: which releases they take, and their hooks.
//!
//! Owns selection and the order of steps; texts are in `output`. Renders no chart and changes no cluster.

use std::collections::HashSet;

use chart_compat::data::Data;
use chart_compat::go::semver;
use chart_compat::yaml;

use super::output::{self, Row};
use helmfile_compat::hooks::{self, Event};
use helmfile_compat::host::Host;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::needs::{self, Needed, Node};
use helmfile_compat::record::{Record, Slot};
use helmfile_compat::selector::Selector;
use helmfile_compat::value::map_to_yaml;
use helmfile_compat::visit::{self, Query};
use helmfile_compat::{Error, lock, paths, release, release_values};

/// Loads the states of a query and hands each to `each`, with the releases that the selectors choose. `each` answers whether it had
/// something to do.
///
/// # Errors
/// A state cannot be evaluated, two releases have one identity, or nothing had something to do.
pub fn for_each(
    host: &dyn Host,
    query: &Query,
    cwd: &str,
    mut each: impl FnMut(&mut State) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut any = false;
    for mut state in visit::states(host, query, cwd)? {
        let place = format!("in {}", shown_file(&state, cwd));
        any |= each(&mut state).map_err(|error| error.within(&place))?;
    }
    if any { Ok(()) } else { Err(no_match(query)) }
}

/// The error of a run without a release.
#[must_use]
pub fn no_match(query: &Query) -> Error {
    Error::NoMatch(format!(
        "err: no releases found that matches specified selector({}) and environment({}), in any helmfile",
        query.selectors.join(", "),
        query.settings.environment
    ))
}

/// The path of a state file from the folder of the command.
fn shown_file(state: &State, cwd: &str) -> String {
    let full = output::full_path(state);
    match full.strip_prefix(&format!("{}/", cwd.trim_end_matches('/'))) {
        Some(name) if !name.contains('/') => format!("./{name}"),
        Some(path) => path.to_owned(),
        None => full,
    }
}

/// Which releases a command takes (`markExcludedReleases`): those that match a selector and whose condition holds.
///
/// # Errors
/// A selector or condition is malformed.
pub fn selected(state: &State, with_needs: bool) -> Result<Vec<Record>, Error> {
    let selectors: Vec<Selector> =
        state.selectors.iter().map(|text| Selector::parse(text)).collect::<Result<_, _>>()?;
    let releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    let mut chosen = Vec::with_capacity(releases.len());
    for one in &releases {
        let labels = one.text_map(key!("labels"));
        let matches = selectors.is_empty() || selectors.iter().any(|selector| selector.matches(&labels));
        let enabled = release::is_enabled(one, &state.values).map_err(|error| {
            error.within(format!("failed to parse condition in release {}", one.text(key!("name"))))
        })?;
        chosen.push(matches && enabled);
    }
    if with_needs {
        let mut needed = std::collections::BTreeSet::new();
        for one in releases.iter().zip(&chosen).filter(|(_, chosen)| **chosen).map(|(one, _)| one) {
            collect_needs(one, &releases, &mut needed);
        }
        for (one, chosen) in releases.iter().zip(&mut chosen) {
            *chosen |= needed.contains(&release::id(one));
        }
    }
    Ok(releases.into_iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(one, _)| one).collect())
}

/// Adds what a release needs, and what that needs. The name alone leads on, as in helmfile.
fn collect_needs(one: &Record, all: &[Record], needed: &mut std::collections::BTreeSet<String>) {
    for id in one.texts(key!("needs")) {
        if needed.insert(id.clone()) {
            let name = id.rsplit('/').next().unwrap_or_default();
            for other in all.iter().filter(|other| other.text(key!("name")) == name) {
                collect_needs(other, all, needed);
            }
        }
    }
}

/// Refuses two releases with one identity.
///
/// # Errors
/// The identity.
pub fn check_duplicates(releases: &[Record]) -> Result<(), Error> {
    let key =
        |one: &Record| [key!("kubeContext"), key!("namespace"), key!("name")].map(|field| one.text(field));
    for one in releases {
        let count = releases.iter().filter(|other| key(other) == key(one)).count();
        if count > 1 {
            let [context, namespace, name] = key(one);
            let mut place = String::new();
            for (what, value) in [("namespace", namespace), ("kubecontext", context)] {
                if !value.is_empty() {
                    place.push_str(&format!(" in {what} {value:?}"));
                }
            }
            return Err(Error::Invalid(format!(
                "duplicate release {name:?} found{place}: there were {count} releases named \"{name}\" matching specified \
                 selector"
            )));
        }
    }
    Ok(())
}

/// Leaves the releases that the selectors choose, before charts are prepared.
///
/// # Errors
/// A selector or condition is malformed, or two releases have one identity.
pub fn filter(state: &mut State, with_needs: bool) -> Result<(), Error> {
    if !state.selectors.is_empty() {
        let chosen = selected(state, with_needs)?;
        state.fields.set_records(key!("releases"), chosen);
    }
    let releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    check_duplicates(&releases)
}

/// Runs the hooks around a command's work on one state, and sets locked versions and chart paths.
///
/// # Errors
/// A hook fails, the lock file is not valid, or the work fails.
pub fn prepared<T>(
    host: &dyn Host,
    state: &mut State,
    command: &str,
    work: impl FnOnce(&mut State) -> Result<T, Error>,
) -> Result<T, Error> {
    hooks::trigger(host, state, None, Event { name: "prepare", error: None, command })?;
    if command != "list" && command != "write-values" {
        lock::apply(host, state)?;
        prepare_charts(host, state, command)?;
    }
    let done = work(state);
    let failure = done.as_ref().err().map(ToString::to_string);
    hooks::trigger(host, state, None, Event { name: "cleanup", error: failure.as_deref(), command })?;
    done
}

/// Runs the `prepare` hooks of releases and sets the paths of local charts.
fn prepare_charts(host: &dyn Host, state: &mut State, command: &str) -> Result<(), Error> {
    let override_chart = state.fields.text(key!("chart"));
    let chosen = selected(state, false)?;
    let mut paths_by_id: Vec<(String, String)> = Vec::new();
    for mut one in chosen.into_iter().filter(release::is_desired) {
        if command == "build" && has_patches(&one) {
            continue;
        }
        if !override_chart.is_empty() {
            one.set(key!("chart"), Slot::Text(override_chart.clone()));
        }
        hooks::trigger(host, state, Some(&one), Event { name: "prepare", error: None, command })?;
        let chart = one.text(key!("chart"));
        check_address(&registry_address(state, &chart))
            .map_err(|error| Error::Invalid(format!("release {:?}: {error}", one.text(key!("name")))))?;
        let local = paths::normalize_chart(&state.base, &chart);
        let path = if host.is_dir(&paths::within(&state.cwd, &local)) == Some(true) { local } else { chart };
        paths_by_id.push((release::id(&one), path));
    }
    let mut releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
    for one in &mut releases {
        let found = paths_by_id.iter().find(|(id, _)| *id == release::id(one)).map(|(_, path)| path.clone());
        if let Some(path) = found
            && path != one.text(key!("chart"))
        {
            one.set(key!("chartPath"), Slot::Text(path));
        }
    }
    if !releases.is_empty() {
        state.fields.set_records(key!("releases"), releases);
    }
    Ok(())
}

/// The address of a chart in a registry that the state names as a repository; other charts as they are.
fn registry_address(state: &State, chart: &str) -> String {
    let found = paths::repository_chart(chart).and_then(|(name, chart)| {
        let is_own = |one: &&Record| one.text(key!("name")) == name && one.flag(key!("oci")) == Some(true);
        let repository = state.fields.records(key!("repositories")).find(is_own)?;
        Some(format!("oci://{}/{chart}", repository.text(key!("url")).trim_end_matches('/')))
    });
    found.unwrap_or_else(|| chart.to_owned())
}

/// Rejects an OCI chart URL with an invalid port.
fn check_address(chart: &str) -> Result<(), Error> {
    let Some(host) = chart.strip_prefix("oci://").and_then(|rest| rest.split('/').next()) else {
        return Ok(());
    };
    match host.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_err() => {
            Err(Error::Invalid(format!("invalid chart URL format: {chart}: {port:?} is not a port number")))
        }
        _ => Ok(()),
    }
}

/// Checks that the chart of a release with own `dependencies` and these can be: helmfile puts them together even for `build`. What only
/// a server tells is not asked.
fn check_own_dependencies(
    host: &dyn Host,
    state: &State,
    one: &Record,
    is_repository: &dyn Fn(&str) -> bool,
) -> Result<(), Error> {
    let dependencies: Vec<(String, Option<String>)> = one
        .records(key!("dependencies"))
        .map(|own| (own.text(key!("chart")), Some(own.text(key!("version")))))
        .collect();
    if dependencies.is_empty() || has_patches(one) {
        return Ok(());
    }
    let override_chart = state.fields.text(key!("chart"));
    let own = if override_chart.is_empty() { one.text(key!("chart")) } else { override_chart };
    for (chart, dependency) in std::iter::once((own, None)).chain(dependencies) {
        // helmfile joins the errors of releases in Go's form of a list.
        let failed = |reason: String| Error::Invalid(format!("[{reason}]"));
        let local = paths::within(&state.cwd, &paths::normalize_chart(&state.base, &chart));
        match host.is_dir(&local) {
            Some(true) => {
                if let Some(wanted) = dependency {
                    check_local_dependency(host, &local, &wanted).map_err(|error| failed(framed(&error)))?;
                }
                continue;
            }
            Some(false) => continue,
            None => {}
        }
        let address = registry_address(state, &chart);
        if address.starts_with("oci://") {
            check_address(&address).map_err(|error| failed(error.to_string()))?;
        } else if paths::is_remote(&chart) {
            let fetched = host.fetch(&chart, "charts");
            fetched.map_err(|error| failed(format!("ad-hoc dependency {chart:?}: {error}")))?;
        } else {
            let (repository, rest) = chart.split_once('/').unwrap_or((&chart, ""));
            if rest.is_empty() {
                return Err(failed(format!("chart {chart:?} is neither a folder nor REPOSITORY/CHART")));
            }
            if !is_repository(repository) {
                return Err(failed(format!(
                    "failed reading adhoc dependencies: no helm list entry found for repository \"{repository}\". please \
                     `helm repo add` it!"
                )));
            }
        }
    }
    Ok(())
}

/// An error of Helm in the frame in which helmfile shows it.
fn framed(error: &Error) -> String {
    format!("exit status 1\n\nCOMMAND:\n  helm dependency up\n\nOUTPUT:\n  Error: {error}")
}

/// Checks that a folder is a chart of a version.
fn check_local_dependency(host: &dyn Host, folder: &str, wanted: &str) -> Result<(), Error> {
    let path = paths::within(folder, "Chart.yaml");
    if host.is_dir(&path).is_none() {
        return Err(Error::Invalid("Chart.yaml file is missing".to_owned()));
    }
    let metadata = yaml::from_slice(&host.read(&path)?).map_err(|error| Error::host(error).within(path))?;
    let version = metadata.get("version").and_then(Data::as_str).unwrap_or_default();
    let name = paths::base(folder);
    if let Err(error) = semver::Range::parse(wanted) {
        return Err(Error::Invalid(format!(
            "dependency {name:?} has an invalid version/constraint format: {error}"
        )));
    }
    match semver::is_compatible(wanted, version) {
        true => Ok(()),
        false => Err(Error::Invalid(format!(
            "can't get a valid version for 1 subchart(s): {name:?} (repository \"file://{folder}\", version {wanted:?}). Make sure a \
             matching chart version exists in the repo, or change the version constraint in Chart.yaml"
        ))),
    }
}

/// Whether the manifests of a release are patched: `build` leaves such releases alone.
fn has_patches(one: &Record) -> bool {
    [key!("jsonPatches"), key!("strategicMergePatches"), key!("transformers")]
        .into_iter()
        .any(|key| !one.list(key).is_empty())
}

/// `build`: the merged states. `is_repository`: whether Helm has a repository of this name.
///
/// # Errors
/// As [`for_each`], and a release with own dependencies that cannot be.
pub fn build(
    host: &dyn Host,
    query: &Query,
    cwd: &str,
    embed: bool,
    is_repository: &dyn Fn(&str) -> bool,
) -> Result<String, Error> {
    let mut text = String::new();
    for_each(host, query, cwd, |state| {
        filter(state, false)?;
        prepared(host, state, "build", |state| {
            for one in selected(state, false)?.iter().filter(|one| release::is_desired(one)) {
                check_own_dependencies(host, state, one, is_repository)?;
            }
            if embed {
                let mut releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
                for one in &mut releases {
                    for key in [key!("values"), key!("secrets")] {
                        let embedded = release_values::embedded(host, state, one, key)?;
                        one.set_values(key, embedded);
                    }
                }
                state.fields.set_records(key!("releases"), releases);
            }
            text.push_str(&output::build(state));
            Ok(!state.fields.list(key!("releases")).is_empty())
        })
    })?;
    Ok(text)
}

/// `list`: the releases, sorted by namespace and name.
///
/// # Errors
/// As [`for_each`].
pub fn list(host: &dyn Host, query: &Query, cwd: &str, skip_charts: bool) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for_each(host, query, cwd, |state| {
        filter(state, false)?;
        let any = !state.fields.list(key!("releases")).is_empty();
        let mut work = |state: &mut State| -> Result<(), Error> {
            lock::apply(host, state)?;
            rows.extend(output::rows(state)?);
            Ok(())
        };
        if skip_charts {
            work(state)?;
        } else {
            prepared(host, state, "list", work)?;
        }
        Ok(any)
    })?;
    rows.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Ok(rows)
}

/// The graph of some releases.
#[must_use]
pub fn graph(releases: &[Record]) -> Vec<Node> {
    releases.iter().map(|one| Node { id: release::id(one), needs: one.texts(key!("needs")) }).collect()
}

/// `show-dag`: the waves of each state.
///
/// # Errors
/// As [`for_each`], and a graph without order.
pub fn show_dag(host: &dyn Host, query: &Query, cwd: &str) -> Result<String, Error> {
    let mut text = String::new();
    for_each(host, query, cwd, |state| {
        filter(state, false)?;
        prepared(host, state, "show-dag", |state| {
            let releases: Vec<Record> = state.fields.records(key!("releases")).cloned().collect();
            let nodes = graph(&releases);
            let chosen: Vec<String> = nodes.iter().map(|node| node.id.clone()).collect();
            let waves = needs::waves(&nodes, &chosen, Needed::Include)?;
            text.push_str(&output::dag(&nodes, &waves));
            Ok(!releases.is_empty())
        })
    })?;
    Ok(text)
}

/// `print-env`: the environment of each state. No release is needed.
///
/// # Errors
/// A state cannot be evaluated.
pub fn print_env(host: &dyn Host, query: &Query, cwd: &str, as_json: bool) -> Result<String, Error> {
    let states = visit::states(host, query, cwd)?;
    output::environments(&states, as_json)
}

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputFile {
    /// Its path, absolute or relative to the command's folder.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// `write-values`: the merged values of each release. `extra`: values files of the command line. `dir`: the folder of relative
/// paths of the files; `None` for that of each state file.
///
/// # Errors
/// As [`for_each`], and values that cannot be merged.
pub fn write_values(
    host: &dyn Host,
    query: &Query,
    cwd: &str,
    template: &str,
    dir: Option<&str>,
    extra: &[String],
    with_needs: bool,
) -> Result<Vec<OutputFile>, Error> {
    let template = if template.is_empty() { output::VALUES_FILE } else { template };
    let mut files = Vec::new();
    for_each(host, query, cwd, |state| {
        filter(state, with_needs)?;
        prepared(host, state, "write-values", |state| {
            for one in selected(state, false)?.iter().filter(|one| release::is_desired(one)) {
                let mut entries = release_values::of_release(host, state, one)?;
                for path in extra {
                    let text = helmfile_compat::host::read_text(host, &paths::within(&state.cwd, path))
                        .map_err(|error| error.within(format!("reading {path}")))?;
                    entries.push(release_values::Entry::File { path: path.clone(), text });
                }
                let merged = release_values::merged(&entries)?;
                let path = output::path_of(host, state, one, template, None)?;
                let path = paths::within(dir.unwrap_or(&state.cwd), &path);
                files.push(OutputFile { path, text: map_to_yaml(&merged) });
                hooks::trigger(
                    host,
                    state,
                    Some(one),
                    Event { name: "cleanup", error: None, command: "write-values" },
                )?;
            }
            Ok(!state.fields.list(key!("releases")).is_empty())
        })
    })?;
    Ok(files)
}

/// The rule for releases that chosen ones need and that are not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsRule {
    /// They are left out.
    Skip,
    /// They are taken, too.
    Include,
    /// They are an error.
    Refuse,
}

impl NeedsRule {
    fn needed(self) -> Needed {
        match self {
            Self::Skip => Needed::Skip,
            Self::Include => Needed::Include,
            Self::Refuse => Needed::Refuse,
        }
    }
}

/// Hands each state to `work` with the releases to install, in the order of their needs (`App.withNeeds`).
///
/// # Errors
/// As [`for_each`], and a graph without order.
pub fn with_needs(
    host: &dyn Host,
    query: &Query,
    cwd: &str,
    command: &str,
    rule: NeedsRule,
    mut work: impl FnMut(&State, &[Record]) -> Result<(), Error>,
) -> Result<(), Error> {
    for_each(host, query, cwd, |state| {
        prepared(host, state, command, |state| {
            let chosen = chosen_with_needs(state, rule)?;
            if chosen.is_empty() {
                return Ok(false);
            }
            let desired: Vec<Record> = chosen.into_iter().filter(release::is_desired).collect();
            work(state, &desired)?;
            Ok(true)
        })
    })
}

/// The releases that a command takes from a state, in the order of their needs.
///
/// # Errors
/// A selector or condition is malformed, or the needs have no order.
pub fn chosen_with_needs(state: &State, rule: NeedsRule) -> Result<Vec<Record>, Error> {
    let chosen = selected(state, false)?;
    if chosen.is_empty() {
        return Ok(chosen);
    }
    let all = without_duplicates(state, &chosen)?;
    let ids: Vec<String> = chosen.iter().map(release::id).collect();
    let waves = needs::waves(&graph(&all), &ids, rule.needed())?;
    Ok(waves.iter().flatten().filter_map(|at| all.get(*at)).cloned().collect())
}

/// The releases that a command takes from all states, where needs lead from one file to another: with the number of their state, in
/// the order of the files.
///
/// # Errors
/// As [`chosen_with_needs`], and two releases of different files with one identity.
pub fn chosen_across(states: &[State], rule: NeedsRule) -> Result<Vec<(usize, Record)>, Error> {
    let (mut chosen, mut all): (Vec<Record>, Vec<(usize, Record)>) = (Vec::new(), Vec::new());
    let mut chosen_at: HashSet<(usize, String)> = HashSet::new();
    for (number, state) in states.iter().enumerate() {
        let own = selected(state, false)?;
        chosen_at.extend(own.iter().map(|one| (number, release::id(one))));
        all.extend(without_duplicates(state, &own)?.into_iter().map(|one| (number, one)));
        chosen.extend(own);
    }
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    check_duplicates(&chosen)?;
    // A file that is included twice has each of its releases twice: the chosen one counts.
    let ids: Vec<String> = chosen.iter().map(release::id).collect();
    let mut known: HashSet<String> = ids.iter().cloned().collect();
    all.retain(|(number, one)| {
        let id = release::id(one);
        chosen_at.contains(&(*number, id.clone())) || known.insert(id)
    });
    let releases: Vec<Record> = all.iter().map(|(_, one)| one.clone()).collect();
    let waves = needs::waves(&graph(&releases), &ids, rule.needed())?;
    let mut wanted: Vec<usize> = waves.into_iter().flatten().collect();
    wanted.sort_unstable();
    Ok(wanted.into_iter().filter_map(|at| all.get(at).cloned()).collect())
}

/// All releases, where of several with one identity only a chosen one stays.
fn without_duplicates(state: &State, chosen: &[Record]) -> Result<Vec<Record>, Error> {
    let ids: Vec<String> = chosen.iter().map(release::id).collect();
    for (at, id) in ids.iter().enumerate() {
        if ids.iter().take(at).any(|other| other == id) {
            return Err(Error::Invalid(format!("found 2 duplicate releases with ID {id:?}")));
        }
    }
    let all: Vec<&Record> = state.fields.records(key!("releases")).collect();
    let mut out: Vec<Record> = Vec::with_capacity(all.len());
    for one in &all {
        let id = release::id(one);
        if all.iter().filter(|other| release::id(other) == id).count() == 1 {
            out.push((*one).clone());
        } else if !out.iter().any(|other| release::id(other) == id)
            && let Some(chosen) = chosen.iter().find(|other| release::id(other) == id)
        {
            out.push(chosen.clone());
        }
    }
    check_duplicates(&out)?;
    Ok(out)
}
