//! Wires one operator process: which controllers run, on which context, and whether this process leads.
//!
//! Knows every front end, so that nothing else has to.

mod chart_process;
mod flux;
mod flux_notifications;
mod helmchart_process;
mod helmfile_process;
mod image_build_process;
#[cfg(test)]
mod retry_table;
mod stop_signal;

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use windlass_cluster::{Cluster, ClusterError, Election};
use windlass_controller::serve::State;
use windlass_controller::{ContextOptions, ControllerContext};
use windlass_images::ImagesOptions;
use windlass_modules::addon;
use windlass_reload::ReloadOptions;

pub use chart_process::ChartProcess;
pub use flux::{ControllerMode, FluxElection, FluxProcess, register_config_map_sources, register_flux_kinds};
pub use flux_notifications::NotifyProcess;
pub use helmchart_process::{HelmChartProcess, register_helmcharts};
pub use helmfile_process::{HelmfileProcess, register_helmfiles};
pub use image_build_process::ImageBuildProcess;

use flux::SourceUsers;
use stop_signal::StopSignal;

/// A front end that a process can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// addon-operator's modules and their hooks.
    Modules,
    /// Flux's HelmReleases, and the sources and notifications where no controller of Flux does their work.
    HelmReleases,
    /// Helmfiles, and kinds of users that stand for them.
    Helmfiles,
    /// k3s' HelmCharts.
    HelmCharts,
    /// Kinds whose objects are releases of a chart.
    Charts,
    /// Workloads that are rolled out when their configuration changes.
    Reload,
    /// Workloads that are rolled out when their images are newer.
    Images,
    /// ConfigMaps of the files of sources, and the sources where no controller of Flux does their work.
    ConfigMapSources,
    /// Images of files of Maven repositories.
    ImageBuilds,
}

impl Controller {
    const ALL: [(&str, Self); 9] = [
        ("modules", Self::Modules),
        ("helmreleases", Self::HelmReleases),
        ("helmfiles", Self::Helmfiles),
        ("helmcharts", Self::HelmCharts),
        ("charts", Self::Charts),
        ("reload", Self::Reload),
        ("images", Self::Images),
        ("configmapsources", Self::ConfigMapSources),
        ("imagebuilds", Self::ImageBuilds),
    ];
    /// Those for which clusters have a controller of their own, which who has switched it off names; and those that came later than `*`,
    /// for whose kinds an operator may lack rights.
    const NAMED_ONLY: [Self; 5] =
        [Self::HelmCharts, Self::Reload, Self::Images, Self::ConfigMapSources, Self::ImageBuilds];
}

/// The front ends of a process: names separated by commas, or `*` for all but [`Controller::NAMED_ONLY`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers(BTreeSet<Controller>);

impl FromStr for Controllers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut chosen = BTreeSet::new();
        for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if name == "*" {
                let all = Controller::ALL.map(|(_, controller)| controller);
                chosen.extend(
                    all.into_iter().filter(|controller| !Controller::NAMED_ONLY.contains(controller)),
                );
                continue;
            }
            let known = Controller::ALL.iter().find(|(known, _)| *known == name);
            let Some((_, controller)) = known else {
                let names = Controller::ALL.map(|(name, _)| name).join(", ");
                return Err(format!("there is no controller {name:?}; there are {names}, and * for all"));
            };
            chosen.insert(*controller);
        }
        if chosen.is_empty() {
            return Err("name at least one controller, or * for all".to_owned());
        }
        Ok(Self(chosen))
    }
}

impl Controllers {
    /// Whether a front end is among them.
    #[must_use]
    pub fn has(&self, controller: Controller) -> bool {
        self.0.contains(&controller)
    }
}

/// What a process runs.
pub struct Options {
    /// Which front ends.
    pub controllers: Controllers,
    /// The Lease to hold while they run; `None`: no leader election.
    pub election: Option<Election>,
    /// What they share.
    pub context: ContextOptions,
    /// Options of the modules.
    pub modules: addon::Options,
    /// How Flux's objects are reconciled.
    pub flux: FluxProcess,
    /// How Helmfiles are reconciled.
    pub helmfiles: HelmfileProcess,
    /// How HelmCharts are reconciled.
    pub helmcharts: HelmChartProcess,
    /// How objects of charts' kinds are reconciled.
    pub charts: ChartProcess,
    /// Which workloads follow their configuration.
    pub reload: ReloadOptions,
    /// Which images are followed.
    pub images: ImagesOptions,
    /// How ImageBuilds are reconciled.
    pub image_builds: ImageBuildProcess,
}

/// Runs the controllers until `stop` resolves, if need be only while this process leads.
///
/// # Errors
/// The cluster cannot be reached, or a controller ends with an error: the others are stopped then.
pub async fn run(
    cluster: Cluster,
    options: Options,
    state: Arc<State>,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    let Options {
        controllers,
        election,
        context,
        modules,
        flux,
        helmfiles,
        helmcharts,
        charts,
        reload,
        images,
        image_builds,
    } = options;
    let start = |gone, stop| {
        let context = ControllerContext::new(cluster.clone(), &context, Arc::clone(&state));
        let election = FluxElection { gone, ..flux.election.clone() };
        let flux = FluxProcess { election, ..flux };
        let workloads = (reload, images, image_builds);
        run_controllers(controllers, (modules, flux, helmfiles, helmcharts, charts, workloads), context, stop)
    };
    let Some(election) = election else { return start(None, Box::pin(stop)).await };
    let mut stop = Box::pin(stop);
    let follow = |leader: &str| {
        tracing::info!(leader, identity = election.identity, "another process leads");
        *state.leader.lock().unwrap_or_else(PoisonError::into_inner) = Some(leader.to_owned());
    };
    let set = |leads: f64| {
        state.metrics.set("windlass_leader", "Whether this process leads.", &[], leads);
    };
    set(0.0);
    let leadership = tokio::select! {
        () = &mut stop => return Ok(()),
        leadership = cluster.lead(&election, follow) => leadership?,
    };
    *state.leader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    set(1.0);
    tracing::info!(identity = election.identity, "this process leads");
    let gone = leadership.predecessor().map(str::to_owned);
    let result = tokio::select! {
        result = start(gone, stop) => result,
        () = leadership.lost() => {
            // As addon-operator: the process ends, and its Pod is restarted.
            tracing::error!(identity = election.identity, "the Lease is lost: another process leads, or it could not be renewed in time");
            return Ok(());
        }
    };
    leadership.resign().await;
    result
}

/// Runs controllers side by side; when one ends, the others are stopped.
async fn run_controllers(
    Controllers(mut controllers): Controllers,
    (modules, flux, helmfiles, helmcharts, charts, (reload, images, image_builds)): (
        addon::Options,
        FluxProcess,
        HelmfileProcess,
        HelmChartProcess,
        ChartProcess,
        (ReloadOptions, ImagesOptions, ImageBuildProcess),
    ),
    context: ControllerContext,
    stop: impl Future<Output = ()>,
) -> Result<(), ClusterError> {
    if !controllers.contains(&Controller::Modules) {
        // Nothing has to converge before the process is ready.
        context.state.converged.store(true, Ordering::Release);
    }
    let source_users = SourceUsers {
        helm_releases: controllers.contains(&Controller::HelmReleases),
        config_map_sources: controllers.contains(&Controller::ConfigMapSources),
    };
    if source_users.helm_releases {
        // They share the sources, so that one process of Flux's runs both.
        controllers.remove(&Controller::ConfigMapSources);
    }
    let stopping = StopSignal::new();
    let one = async |controller: Controller| {
        let result = match controller {
            Controller::Modules => addon::run(context.clone(), modules.clone(), stopping.stopped()).await,
            Controller::HelmReleases | Controller::ConfigMapSources => {
                flux::run(context.clone(), flux.clone(), source_users, stopping.stopped()).await
            }
            Controller::Helmfiles => {
                helmfile_process::run(context.clone(), helmfiles.clone(), stopping.stopped()).await
            }
            Controller::HelmCharts => {
                helmchart_process::run(context.clone(), helmcharts.clone(), stopping.stopped()).await
            }
            Controller::Charts => {
                chart_process::run(context.clone(), charts.clone(), stopping.stopped()).await
            }
            Controller::Reload => {
                windlass_reload::run(context.clone(), reload.clone(), stopping.stopped()).await
            }
            Controller::Images => {
                windlass_images::run(context.clone(), images.clone(), stopping.stopped()).await
            }
            Controller::ImageBuilds => {
                image_build_process::run(context.clone(), image_builds.clone(), stopping.stopped()).await
            }
        };
        stopping.stop();
        result
    };
    let all = futures::future::join_all(controllers.into_iter().map(one));
    let results = stopping.run(stop, all).await;
    results.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine hands a trigger to the first front end that asks by the name in the record.
    #[test]
    fn no_two_front_ends_have_one_name() {
        use windlass_flux::sources::SourceKind;
        let sources = SourceKind::ALL.map(SourceKind::controller);
        let others = [windlass_helmcharts::NAME, "helmreleases", "helmfiles", "charts", "receivers"];
        let names: BTreeSet<&str> = sources.into_iter().chain(others).collect();
        assert_eq!(names.len(), sources.len() + others.len(), "{names:?}");
    }

    #[test]
    fn controllers_are_chosen_by_name() {
        let modules = Controllers([Controller::Modules].into());
        assert_eq!("modules".parse(), Ok(modules));
        let all = [Controller::Modules, Controller::HelmReleases, Controller::Helmfiles, Controller::Charts];
        let all = Controllers(all.into());
        assert_eq!("modules, helmreleases,helmfiles,charts".parse(), Ok(all.clone()));
        assert_eq!("helmcharts".parse(), Ok(Controllers([Controller::HelmCharts].into())));
        assert_eq!("*".parse(), Ok(all));
        for (text, part) in [
            (
                "modules,helm",
                "there is no controller \"helm\"; there are modules, helmreleases, helmfiles, helmcharts, charts, reload, images, configmapsources, imagebuilds",
            ),
            ("", "name at least one controller"),
            (" , ", "name at least one controller"),
        ] {
            let error = text.parse::<Controllers>().unwrap_err();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }
}
