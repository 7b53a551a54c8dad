//! The plan of a deployment: which releases of all state files are installed or uninstalled, and in which order.
//!
//! Owns the way to it, for the command line and for the Helmfile resource: locked versions, the choice of releases, and the `prepare` hooks.
//! What is done with a release is the caller's.

use std::collections::BTreeSet;

use super::commands::{self, NeedsRule};
use super::deploy_order::{self, Item, Scope};
use super::release_options;
use helmfile_compat::hooks::{self, Event};
use helmfile_compat::host::Host;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::{Record, Slot};
use helmfile_compat::{Error, lock, release};

/// A release that is chosen.
#[derive(Clone, Debug)]
pub struct PlannedRelease {
    /// The number of its state.
    pub state: usize,
    /// All its fields.
    pub release: Record,
    /// Its name.
    pub name: String,
    /// Its namespace; empty for the one that the caller has.
    pub namespace: String,
    /// Its identity among `needs`.
    pub key: String,
    /// Identities of what it waits for.
    pub needs: Vec<String>,
    /// Whether it is to be installed, and not uninstalled.
    pub installed: bool,
    /// Whether its newest record's values are the defaults of the next revision.
    pub reuses_values: bool,
}

/// Which releases, and how they are changed before.
pub struct PlanOptions<'o> {
    /// The command of helmfile, for hooks.
    pub command: &'o str,
    /// What happens to releases that chosen ones need.
    pub rule: NeedsRule,
    /// Where `needs` lead.
    pub scope: Scope,
    /// Whether releases that are to be uninstalled run their `prepare` hooks, too: who refuses hooks refuses those.
    pub prepares_uninstalled: bool,
    /// The most releases.
    pub most: usize,
    /// Changes fields of each release.
    pub change: &'o dyn Fn(&mut Record),
}

/// The plan. One that fails on its way tells which hooks have run.
#[derive(Debug, Default)]
pub struct DeployPlan {
    /// The releases, in the order of the state files.
    pub releases: Vec<PlannedRelease>,
    /// Their indexes: each step after all that its releases need.
    pub steps: Vec<Vec<usize>>,
    /// How many states have run their `prepare` hooks.
    pub prepared_states: usize,
    /// Releases that have run `prepare`.
    pub prepared: BTreeSet<usize>,
}

impl DeployPlan {
    /// Runs the `prepare` hooks, chooses the releases and puts them in order.
    ///
    /// # Errors
    /// A hook fails, a lock file is not valid, two releases have one identity, or `needs` have no order.
    pub fn prepare(
        &mut self,
        host: &dyn Host,
        states: &mut [State],
        options: &PlanOptions<'_>,
    ) -> Result<(), Error> {
        let event = Event { name: "prepare", error: None, command: options.command };
        for state in states.iter_mut() {
            self.prepared_states += 1;
            hooks::trigger(host, state, None, event)?;
            lock::apply(host, state)?;
        }
        let chosen_releases = chosen(states, options)?;
        if chosen_releases.len() > options.most {
            return Err(Error::Invalid(format!("the state files have more than {} releases", options.most)));
        }
        for (number, release) in chosen_releases {
            let Some(state) = states.get(number) else { continue };
            let planned = planned(state, (number, release), options);
            let runs_hooks = planned.installed || options.prepares_uninstalled;
            if planned.installed {
                self.prepared.insert(self.releases.len());
            }
            self.releases.push(planned.clone());
            if runs_hooks {
                hooks::trigger(host, state, Some(&planned.release), event)?;
            }
        }
        let releases: Vec<Record> = self.releases.iter().map(|one| one.release.clone()).collect();
        commands::check_duplicates(&releases)?;
        if options.rule == NeedsRule::Skip {
            // What is not chosen is left alone, and does not count.
            let chosen: BTreeSet<String> = self.releases.iter().map(|one| one.key.clone()).collect();
            self.releases.iter_mut().for_each(|one| one.needs.retain(|need| chosen.contains(need)));
        }
        let item =
            |one: &PlannedRelease| Item { file: one.state, id: one.key.clone(), needs: one.needs.clone() };
        let items: Vec<Item> = self.releases.iter().map(item).collect();
        self.steps = deploy_order::steps(&items, options.scope)?;
        Ok(())
    }

    /// What is to be uninstalled, in this order: what needs comes before what it needs.
    pub fn uninstalls(&self) -> impl Iterator<Item = usize> {
        self.backwards().filter(|at| self.releases.get(*at).is_some_and(|one| !one.installed))
    }

    /// All releases, what needs before what it needs.
    pub fn backwards(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().rev().flat_map(|step| step.iter().rev()).copied()
    }
}

/// The chosen releases of all states, in the order of the states.
fn chosen(states: &[State], options: &PlanOptions<'_>) -> Result<Vec<(usize, Record)>, Error> {
    if options.scope == Scope::All {
        return commands::chosen_across(states, options.rule);
    }
    let mut chosen = Vec::new();
    for (number, state) in states.iter().enumerate() {
        let own = commands::chosen_with_needs(state, options.rule)?;
        chosen.extend(own.into_iter().map(|one| (number, one)));
    }
    Ok(chosen)
}

fn planned(
    state: &State,
    (number, mut release): (usize, Record),
    options: &PlanOptions<'_>,
) -> PlannedRelease {
    let installed = release::is_desired(&release);
    let chart = state.fields.text(key!("chart"));
    if !chart.is_empty() {
        release.set(key!("chart"), Slot::Text(chart));
    }
    (options.change)(&mut release);
    PlannedRelease {
        state: number,
        name: release.text(key!("name")),
        namespace: release.text(key!("namespace")),
        key: release::id(&release),
        needs: release.texts(key!("needs")),
        installed,
        reuses_values: release_options::flag(state, &release, key!("reuseValues")),
        release,
    }
}
