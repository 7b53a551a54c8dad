//! `diff`, `apply`, `sync` and `destroy`.
//!
//! Owns what happens to each release, what is printed and exit statuses. The walk is `deploy_session`'s, each operation the engine's.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use super::deploy_session::{Session, Shared, failures, newest, run, with_hook};
use super::flags::Options;
use crate::cli::flags::Globals;
use crate::cli::{Connected, hints, print, prompt, tell};
use helmfile_compat::Error;
use helmfile_compat::hooks::{self, Event};
use helmfile_compat::key;
use windlass_engine::{ChangeVerb, Preview};
use windlass_helmfile::release_options;

/// Exit status of `--detailed-exitcode` if something differs.
const DIFFERS: u8 = 2;

/// Flags of `diff` and `apply`.
#[derive(clap::Args)]
pub(super) struct ChangeArgs {
    #[command(flatten)]
    shared: Shared,
    /// Exit with status 2 if something differs
    #[arg(long)]
    detailed_exitcode: bool,
    /// Print the table of releases alone
    #[arg(long)]
    suppress_diff: bool,
}

/// What happens to a release.
struct Change {
    target: usize,
    verb: &'static str,
    preview: Option<Preview>,
}

pub(super) fn diff(globals: &Globals, options: &Options, args: &ChangeArgs) -> Result<ExitCode, Error> {
    run(globals, options, &args.shared, "diff", async |session| {
        session.warn_of_ignored_fields()?;
        let changes = session.changes().await?;
        session.show(&changes, args.suppress_diff)?;
        let differs = args.detailed_exitcode && !changes.is_empty();
        Ok(if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
    })
}

pub(super) fn apply(globals: &Globals, options: &Options, args: &ChangeArgs) -> Result<ExitCode, Error> {
    run(globals, options, &args.shared, "apply", async |session| {
        session.warn_of_ignored_fields()?;
        let changes = session.changes().await?;
        session.show(&changes, args.suppress_diff)?;
        if changes.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        session.confirm("apply")?;
        let changed: Vec<usize> = changes.iter().map(|change| change.target).collect();
        session.each_hook(&changed, "preapply")?;
        session.deploy_releases(&changed).await?;
        Ok(if args.detailed_exitcode { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
    })
}

pub(super) fn sync(globals: &Globals, options: &Options, shared: &Shared) -> Result<ExitCode, Error> {
    run(globals, options, shared, "sync", async |session| {
        session.warn_of_ignored_fields()?;
        session.confirm("sync")?;
        let all: Vec<usize> = (0..session.plan.releases.len()).collect();
        session.deploy_releases(&all).await?;
        Ok(ExitCode::SUCCESS)
    })
}

pub(super) fn destroy(globals: &Globals, options: &Options, shared: &Shared) -> Result<ExitCode, Error> {
    run(globals, options, shared, "destroy", async |session| {
        session.confirm("destroy")?;
        for at in session.plan.backwards().collect::<Vec<_>>() {
            session.uninstall(at).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

impl Session<'_> {
    /// Tells which fields of the releases change nothing.
    fn warn_of_ignored_fields(&self) -> Result<(), Error> {
        for target in &self.plan.releases {
            let lines = release_options::ignored_fields(self.state(target)?, &target.release);
            lines.iter().for_each(|line| tell(line));
        }
        Ok(())
    }

    /// What would change, in order.
    async fn changes(&mut self) -> Result<Vec<Change>, Error> {
        let all: Vec<usize> = self.plan.steps.iter().flatten().copied().collect();
        let all = self.connected(&all).await?;
        let (session, is_failed) = (&*self, AtomicBool::new(false));
        let changes = session.side_by_side(
            &all,
            session.shared.compared_at_once(),
            async |at, connected: &Connected| {
                // An error ends the run.
                if is_failed.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let change = session.change(at, connected).await;
                is_failed.fetch_or(change.is_err(), Ordering::Relaxed);
                change
            },
        );
        let changes: Vec<Option<Change>> = changes.into_iter().collect::<Result<_, Error>>()?;
        Ok(changes.into_iter().flatten().collect())
    }

    /// What would change in a release.
    async fn change(&self, at: usize, connected: &Connected) -> Result<Option<Change>, Error> {
        self.check_interrupted()?;
        let target = self.target(at)?;
        let id = release_options::release_id(&target.release, &connected.namespace);
        let place = |error: String| Error::Command(format!("release {:?}: {error}", target.name));
        if !target.installed {
            let is_there = newest(connected, &id).await.map_err(|error| place(error.to_string()))?.is_some();
            return Ok(is_there.then_some(Change { target: at, verb: "uninstall", preview: None }));
        }
        let spec =
            self.spec_of_next_revision(at, connected).await.map_err(|error| place(error.to_string()))?;
        let request = self.runner(connected).preview(spec).await.map_err(|error| place(error.to_string()))?;
        let preview = connected.run(connected.engine.plan(&request)).await.map_err(place)?;
        let verb = if preview.revision == 1 { "install" } else { "upgrade" };
        let differs = preview.changes_anything() || preview.revision == 1;
        Ok(differs.then_some(Change { target: at, verb, preview: Some(preview) }))
    }

    /// Prints what would change: a table of releases, and each object unless suppressed.
    fn show(&self, changes: &[Change], table_only: bool) -> Result<(), Error> {
        let mut rows =
            vec![["RELEASE", "NAMESPACE", "ACTION", "CREATE", "UPDATE", "DELETE"].map(str::to_owned)];
        for change in changes {
            let target = self.target(change.target)?;
            let count = |verbs: &[ChangeVerb]| match &change.preview {
                Some(preview) => verbs.iter().map(|verb| preview.count(*verb)).sum::<usize>().to_string(),
                None => "-".to_owned(),
            };
            rows.push([
                target.name.clone(),
                target.namespace.clone(),
                change.verb.to_owned(),
                count(&[ChangeVerb::Create]),
                count(&[ChangeVerb::Update, ChangeVerb::Recreate]),
                count(&[ChangeVerb::Delete]),
            ]);
        }
        if changes.is_empty() {
            print(b"No release would change.\n")?;
            return Ok(());
        }
        print(table(&rows).as_bytes())?;
        for change in changes {
            let suppressed =
                table_only || self.target(change.target)?.release.flag(key!("suppressDiff")) == Some(true);
            if let Some(preview) = change.preview.as_ref().filter(|_| !suppressed) {
                let preview = hints::with_flags(preview, hints::RELEASE_FLAGS);
                print(format!("\n{}", preview.text(false, self.globals.paints())).as_bytes())?;
            }
        }
        Ok(())
    }

    fn confirm(&self, what: &str) -> Result<(), Error> {
        if !self.options.interactive {
            return Ok(());
        }
        let answer = prompt::line(&format!("Do you really want to {what}? [y/n]: "))?;
        match answer.trim() {
            "y" | "yes" => Ok(()),
            _ => Err(Error::Command(format!("{what} was not confirmed"))),
        }
    }

    /// Uninstalls and upgrades some releases: first what is to go, backwards; then the rest, step by step. An error ends the run
    /// after its step.
    async fn deploy_releases(&mut self, chosen: &[usize]) -> Result<(), Error> {
        let gone: Vec<usize> = self.plan.uninstalls().filter(|at| chosen.contains(at)).collect();
        for at in gone {
            self.uninstall(at).await?;
        }
        for step in &self.plan.steps.clone() {
            let installed = |at: &&usize| self.plan.releases.get(**at).is_some_and(|one| one.installed);
            let due: Vec<usize> =
                step.iter().filter(|at| chosen.contains(at)).filter(installed).copied().collect();
            let due = self.connected(&due).await?;
            let session = &*self;
            let failed = session.side_by_side(
                &due,
                session.shared.deployed_at_once(),
                async |at, connected: &Connected| {
                    let error = session.upgrade(at, connected).await.err()?;
                    tell(&error.to_string());
                    session.target(at).ok().map(|target| target.name.clone())
                },
            );
            failures(&failed.into_iter().flatten().collect::<Vec<_>>())?;
        }
        Ok(())
    }

    async fn upgrade(&self, at: usize, connected: &Connected) -> Result<(), Error> {
        self.check_interrupted()?;
        self.each_hook(&[at], "presync")?;
        let target = self.target(at)?;
        let (name, state) = (&target.name, self.state(target)?);
        let spec = self.spec_of_next_revision(at, connected).await;
        let spec = spec.map_err(|error| Error::Command(format!("release {name:?} failed: {error}")))?;
        let done =
            connected.try_run(self.runner(connected).run(spec)).await.map_err(|error| error.to_string());
        let failure = done.as_ref().err().cloned();
        let hooks = ["postsync", "cleanup"].map(|event| {
            let event = Event { name: event, error: failure.as_deref(), command: self.command };
            hooks::trigger(self.charts.host, state, Some(&target.release), event)
        });
        let done = done.map_err(|error| Error::Command(format!("release {name:?} failed: {error}")));
        self.uncleaned().remove(&at);
        let done = hooks.into_iter().fold(done, with_hook)?;
        for warning in &done.outcome.warnings {
            tell(&format!("release {name:?}: {warning}"));
        }
        let revision = done.outcome.record.as_ref().map(|record| record.version);
        let line = match revision {
            Some(revision) => format!("release {name:?}: revision {revision} is deployed\n"),
            None => format!("release {name:?}: unchanged\n"),
        };
        Ok(print(line.as_bytes())?)
    }

    async fn uninstall(&mut self, at: usize) -> Result<(), Error> {
        let connected = self.connection(at).await?;
        let target = self.target(at)?;
        let (release, state) = (&target.release, self.state(target)?);
        let id = release_options::release_id(release, &connected.namespace);
        let name = target.name.clone();
        let failed = |error: String| Error::Command(format!("release {name:?} failed: {error}"));
        if newest(&connected, &id).await.map_err(|error| failed(error.to_string()))?.is_none() {
            return Ok(());
        }
        self.each_hook(&[at], "preuninstall")?;
        let request = release_options::uninstall(state, release, id);
        let done = connected.try_run(self.runner(&connected).uninstall(&request)).await;
        let done = done.map_err(|error| failed(error.to_string()))?;
        if !done.errors.is_empty() {
            return Err(failed(done.errors.join("; ")));
        }
        self.each_hook(&[at], "postuninstall")?;
        if self.uncleaned().remove(&at) {
            self.each_hook(&[at], "cleanup")?;
        }
        Ok(print(format!("release {name:?}: uninstalled\n").as_bytes())?)
    }
}

/// Rows with aligned columns.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            let width =
                rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
