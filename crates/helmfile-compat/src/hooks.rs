//! Hooks: programs that a state file or a release runs at moments of a run.
//!
//! Owns which hooks an event triggers and the data of their templates. The host runs the programs, or refuses to.

use super::error::Error;
use super::host::{Forbidden, Host, Program};
use super::load::State;
use super::paths;
use super::record::Record;
use super::release::hook_release;
use super::template::{Field, Root, render};
use crate::key;

/// A moment at which hooks run.
#[derive(Clone, Copy, Debug)]
pub struct Event<'e> {
    /// Its name: `prepare`, `presync`, `cleanup` and so on.
    pub name: &'e str,
    /// The error of what came before, for `postsync` and `cleanup`.
    pub error: Option<&'e str>,
    /// The command of helmfile that runs.
    pub command: &'e str,
}

/// Runs the hooks of an event: those of a release, or those of the state file.
///
/// # Errors
/// A hook is malformed or fails.
pub fn trigger(
    host: &dyn Host,
    state: &State,
    release: Option<&Record>,
    event: Event<'_>,
) -> Result<(), Error> {
    let hooks: Vec<Record> = match release {
        Some(release) => release.records(key!("hooks")).cloned().collect(),
        None => state.fields.records(key!("hooks")).cloned().collect(),
    };
    if let Some(reason) = host.forbids(Forbidden::Hooks).filter(|_| !hooks.is_empty()) {
        return Err(Error::Invalid(reason));
    }
    let wanted: Vec<&Record> = hooks
        .iter()
        .filter(|hook| hook.texts(key!("events")).iter().any(|name| name == event.name))
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let mut fields = vec![
        ("Environment", Field::Environment(state.environment.clone())),
        ("Namespace", Field::Text(state.fields.text(key!("namespace")))),
        (
            "Event",
            Field::Texts(
                "event.event",
                vec![("Name", Some(event.name.to_owned())), ("Error", event.error.map(str::to_owned))],
            ),
        ),
        ("HelmfileCommand", Field::Text(event.command.to_owned())),
    ];
    if let Some(release) = release {
        fields.push(("Values", Field::Values(state.values.clone())));
        fields.push(("Release", Field::Release(hook_release(release))));
    }
    let root = Root::other(fields);
    for hook in wanted {
        run(host, state, hook, event, &root)?;
    }
    Ok(())
}

fn run(host: &dyn Host, state: &State, hook: &Record, event: Event<'_>, root: &Root) -> Result<(), Error> {
    let kubectl = hook.text_map(key!("kubectlApply"));
    let mut command = hook.text(key!("command"));
    let mut arguments = hook.texts(key!("args"));
    let name = match (hook.text(key!("name")), kubectl.is_empty()) {
        (name, _) if !name.is_empty() => name,
        (_, false) => "kubectlApply".to_owned(),
        (_, true) => command.clone(),
    };
    if !kubectl.is_empty() {
        let (flag, path) = match (kubectl.get("filename"), kubectl.get("kustomize")) {
            (Some(_), Some(_)) => {
                return Err(Error::Invalid(format!(
                    "hook[{name}]: kustomize & filename cannot be used together"
                )));
            }
            (Some(path), None) => ("-f", path),
            (None, Some(path)) => ("-k", path),
            (None, None) => {
                return Err(Error::Invalid(format!(
                    "hook[{name}]: either kustomize or filename must be given"
                )));
            }
        };
        command = "kubectl".to_owned();
        arguments = vec!["apply".to_owned(), flag.to_owned(), path.clone()];
    }
    let base = paths::within(&state.cwd, &state.base);
    let eval =
        |text: &str| render(host, &base, text, root).map_err(|error| error.within(format!("hook[{name}]")));
    let command = eval(&command)?;
    let arguments = arguments.iter().map(|text| eval(text)).collect::<Result<_, _>>()?;
    let program = Program {
        dir: base.clone(),
        command: command.clone(),
        arguments,
        variables: std::collections::BTreeMap::new(),
        input: String::new(),
    };
    let output = host
        .run(&program)
        .map_err(|error| error.within(format!("hook[{name}]: command `{command}` failed")))?;
    if hook.flag(key!("showlogs")) == Some(true) {
        for line in output.lines() {
            host.warn(&format!("hook[{}] logs | {line}", event.name));
        }
    }
    Ok(())
}
