//! `windlass list`: the newest revision of each release.

use serde::Serialize;

use super::flags::Globals;
use super::output::{self, Format};
use super::{Failure, print, with_engine};
use crate::release::record::{Record, Status};

/// Flags of `list`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// List releases across all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show all releases without any filter applied
    #[arg(short, long)]
    all: bool,
    /// Show deployed releases
    #[arg(long)]
    deployed: bool,
    /// Show failed releases
    #[arg(long)]
    failed: bool,
    /// Show pending releases
    #[arg(long)]
    pending: bool,
    /// Show superseded releases
    #[arg(long)]
    superseded: bool,
    /// Show uninstalled releases (if 'helm uninstall --keep-history' was used)
    #[arg(long)]
    uninstalled: bool,
    /// Show releases that are currently being uninstalled
    #[arg(long)]
    uninstalling: bool,
    /// Selector (label query) to filter on, supports '=', '==', and '!='
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Output short (quiet) listing format
    #[arg(short, long)]
    short: bool,
    /// Don't print headers when using the default output format
    #[arg(long)]
    no_headers: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    fn shows(&self, status: Status) -> bool {
        let named = self.deployed
            || self.failed
            || self.pending
            || self.superseded
            || self.uninstalled
            || self.uninstalling;
        if self.all {
            return true;
        }
        match status {
            Status::Deployed => self.deployed || !named,
            Status::Failed => self.failed || !named,
            Status::PendingInstall | Status::PendingUpgrade | Status::PendingRollback => {
                self.pending || !named
            }
            Status::Superseded => self.superseded,
            Status::Uninstalled => self.uninstalled,
            Status::Uninstalling => self.uninstalling || !named,
            Status::Unknown => !named,
        }
    }
}

/// One release as `-o json` has it.
#[derive(Serialize)]
struct Row {
    name: String,
    namespace: String,
    revision: String,
    updated: String,
    status: String,
    chart: String,
    app_version: String,
}

impl Row {
    fn of(r: &Record) -> Self {
        Self {
            name: r.name.clone(),
            namespace: r.namespace.clone(),
            revision: r.version.to_string(),
            updated: output::go_time(&r.info.last_deployed),
            status: r.info.status.to_string(),
            chart: output::chart(r),
            app_version: output::app_version(r),
        }
    }
}

fn row(r: &Record) -> Vec<String> {
    let Row { name, namespace, revision, updated, status, chart, app_version } = Row::of(r);
    vec![name, namespace, revision, updated, status, chart, app_version]
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let mut records = with_engine(globals, async |s| {
        let namespace = (!args.all_namespaces).then_some(s.namespace.as_str());
        s.engine.list(namespace, &args.selector).await.map_err(|e| e.to_string())
    })?;
    records.retain(|r| args.shows(r.info.status));
    records.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
    const HEAD: [&str; 7] = ["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"];
    let text = match args.output {
        Format::Table if args.short => records.iter().map(|r| format!("{}\n", r.name)).collect(),
        Format::Table => {
            let head = HEAD.iter().map(|h| (*h).to_owned()).collect();
            let rows: Vec<_> =
                (!args.no_headers).then_some(head).into_iter().chain(records.iter().map(row)).collect();
            output::table(&rows)
        }
        format if args.short => {
            output::structured(&records.iter().map(|r| &r.name).collect::<Vec<_>>(), format)?
        }
        format => output::structured(&records.iter().map(Row::of).collect::<Vec<_>>(), format)?,
    };
    print(text.as_bytes())
}
