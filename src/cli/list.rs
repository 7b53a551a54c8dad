//! `windlass list`: the newest revision of each release.

use chart_compat::go::regexp;
use chart_compat::profile::Profile;
use serde::Serialize;

use super::flags::Globals;
use super::output::{self, Format, Style, painted};
use super::selector::Selector;
use super::{Failure, print, with_engine};
use windlass_engine::record::{Record, RecordHead, ReleaseStatus};
use windlass_engine::{Engine, EngineError};

/// Flags that select releases by status.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
struct StatusFilter {
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
}

impl StatusFilter {
    /// Whether a status other than superseded is selected.
    fn names_states(&self) -> bool {
        self.deployed || self.failed || self.pending || self.uninstalled || self.uninstalling
    }

    /// Whether a status is shown: without flags Helm 4 shows all, Helm 3 deployed and failed ones.
    fn shows(&self, status: ReleaseStatus, profile: Profile) -> bool {
        if self.all {
            return true;
        }
        let default = !self.names_states() && !self.superseded;
        if default && profile == Profile::Helm4 {
            return true;
        }
        match status {
            ReleaseStatus::Deployed => self.deployed || default,
            ReleaseStatus::Failed => self.failed || default,
            ReleaseStatus::PendingInstall
            | ReleaseStatus::PendingUpgrade
            | ReleaseStatus::PendingRollback => self.pending,
            ReleaseStatus::Superseded => self.superseded,
            ReleaseStatus::Uninstalled => self.uninstalled,
            ReleaseStatus::Uninstalling => self.uninstalling,
            ReleaseStatus::Unknown => false,
        }
    }
}

/// Flags of `list`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// List releases across all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    #[command(flatten)]
    filter_status: StatusFilter,
    /// Format time using golang time formatter. Example: --time-format "2006-01-02 15:04:05Z0700"
    #[arg(long, default_value = "")]
    time_format: String,
    /// Sort by release date
    #[arg(short, long)]
    date: bool,
    /// Reverse the sort order
    #[arg(short, long)]
    reverse: bool,
    /// Maximum number of releases to fetch
    #[arg(short, long, default_value_t = 256)]
    max: usize,
    /// Next release index in the list, used to offset from start value
    #[arg(long, default_value_t = 0)]
    offset: usize,
    /// A regular expression (Perl compatible). Any releases that match the expression will be included in the results
    #[arg(short, long, default_value = "")]
    filter: String,
    /// Selector (label query) to filter on, supports '=', '==', and '!='
    #[arg(short = 'l', long, default_value = "")]
    selector: String,
    /// Output short (quiet) listing format
    #[arg(short = 'q', long)]
    short: bool,
    /// Don't print headers when using the default output format
    #[arg(long)]
    no_headers: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Args {
    /// Selects and orders the releases. Reads whole records only if more than names is printed.
    async fn choose(
        &self,
        engine: &Engine,
        namespace: Option<&str>,
        mut heads: Vec<RecordHead>,
        all: usize,
    ) -> Result<(Vec<String>, Vec<Record>), EngineError> {
        if self.date {
            // Only the record contains the time.
            let mut records = engine.records().read(namespace, &heads, all).await?;
            records.sort_by_cached_key(|r| {
                let time = r.info.last_deployed.parse::<jiff::Timestamp>().unwrap_or_default();
                (time, r.name.clone(), r.namespace.clone())
            });
            self.page(&mut records);
            return Ok((records.iter().map(|r| r.name.clone()).collect(), records));
        }
        heads.sort_by(|a, b| {
            (&a.id.name, &a.id.namespace, a.revision).cmp(&(&b.id.name, &b.id.namespace, b.revision))
        });
        self.page(&mut heads);
        if self.short {
            return Ok((heads.into_iter().map(|head| head.id.name).collect(), Vec::new()));
        }
        Ok((Vec::new(), engine.records().read(namespace, &heads, all).await?))
    }

    fn page<T>(&self, shown: &mut Vec<T>) {
        if self.reverse {
            shown.reverse();
        }
        shown.drain(..self.offset.min(shown.len()));
        shown.truncate(if self.max == 0 { usize::MAX } else { self.max });
    }
}

/// One release in `-o json`.
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
    fn of(r: &Record, time_format: &str) -> Self {
        let time = &r.info.last_deployed;
        Self {
            name: r.name.clone(),
            namespace: r.namespace.clone(),
            revision: r.version.to_string(),
            updated: match time_format {
                _ if time.is_empty() => "-".to_owned(),
                "" => output::go_time(time),
                format => output::formatted_time(time, format),
            },
            status: r.info.status.to_string(),
            chart: output::chart(r),
            app_version: output::app_version(r),
        }
    }
}

fn row(r: &Record, time_format: &str, paints: bool) -> Vec<String> {
    let Row { name, namespace, revision, updated, status, chart, app_version } = Row::of(r, time_format);
    let namespace = painted(&namespace, Some(Style::NAMESPACE), paints);
    let status = painted(&status, Style::of_status(r.info.status), paints);
    vec![name, namespace, revision, updated, status, chart, app_version]
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let selector = Selector::parse(&args.selector)?;
    let filter = match args.filter.as_str() {
        "" => None,
        pattern => Some(regexp::compile(pattern.as_bytes())?),
    };
    let (names, records) = with_engine(globals, async |s| {
        let namespace = (!args.all_namespaces).then_some(s.namespace.as_str());
        // With only `--superseded`, all superseded revisions are listed; otherwise the newest revision of each release.
        let found =
            if args.filter_status.superseded && !args.filter_status.names_states() && !args.filter_status.all
            {
                s.engine.records().superseded(namespace).await
            } else {
                s.engine.records().heads(namespace).await
            };
        let mut heads = found.map_err(|e| e.to_string())?;
        let all = heads.len();
        heads.retain(|head| {
            args.filter_status.shows(head.status, globals.profile())
                && filter.as_ref().is_none_or(|f| f.is_match(head.id.name.as_bytes()))
                && selector.matches(|name| head.labels.get(name).cloned())
        });
        args.choose(&s.engine, namespace, heads, all).await.map_err(|e| e.to_string())
    })?;
    const HEAD: [&str; 7] = ["NAME", "NAMESPACE", "REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION"];
    let text = match args.output {
        Format::Table if args.short => names.iter().map(|name| format!("{name}\n")).collect(),
        Format::Table => {
            let paints = globals.paints();
            let head = HEAD.iter().map(|h| painted(h, Some(Style::HEAD), paints)).collect();
            let rows: Vec<_> = (!args.no_headers)
                .then_some(head)
                .into_iter()
                .chain(records.iter().map(|r| row(r, &args.time_format, paints)))
                .collect();
            output::table(&rows)
        }
        format if args.short => output::structured(&names, format)?,
        format => output::structured(
            &records.iter().map(|r| Row::of(r, &args.time_format)).collect::<Vec<_>>(),
            format,
        )?,
    };
    print(text.as_bytes())
}
