//! `repos`: asks the repositories and registries of all state files whether they can be reached. Nothing is added to Helm's state.

use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::print;
use helmfile_compat::Error;
use helmfile_compat::key;
use windlass_helmfile::commands;

/// Flags of `repos`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// No effect: helm is not run
    #[arg(long, default_value = "", hide_default_value = true, allow_hyphen_values = true)]
    args: String,
}

pub(super) fn run(globals: &Globals, options: &Options) -> Result<(), Error> {
    let (host, store) = (options.host(globals), options.store(globals));
    commands::for_each(&*host, &options.query()?, &options.cwd(), |state| {
        commands::filter(state, false)?;
        let charts = options.charts(globals, &*host, &store);
        for repository in state.fields.records(key!("repositories")) {
            let (name, url) = (repository.text(key!("name")), repository.text(key!("url")));
            let access = charts.repository_access(state, repository);
            let reached = if repository.flag(key!("oci")) == Some(true) {
                store.check_registry(url.split('/').next().unwrap_or_default(), &access)
            } else {
                store.check_repository(&url, &access)
            };
            reached.map_err(|error| format!("repository {name:?}: {error}"))?;
            print(format!("repository {name:?} is reachable\n").as_bytes())?;
        }
        Ok(!state.fields.list(key!("releases")).is_empty())
    })
}
