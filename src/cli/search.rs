//! `windlass search repo`: finds charts of the named repositories by keyword.

use std::cmp::Ordering;
use std::sync::Arc;

use chart_compat::go::regexp::{self, Regexp};
use chart_compat::go::{semver, slog};
use serde::Serialize;

use super::flags::Globals;
use super::output::{Format, structured, table};
use super::{Failure, print, search_hub, tell};
use windlass_fetch::index::{IndexError, visit};
use windlass_fetch::repositories::Repositories;
use windlass_fetch::repository;

/// Subcommands of `search`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Search repositories for a keyword in charts
    Repo(Args),
    /// Search for charts in the Artifact Hub or your own hub instance
    Hub(search_hub::Args),
}

/// Flags of `search repo`.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct Args {
    /// Keywords; without one, all charts are listed
    words: Vec<String>,
    /// Use regular expressions for searching repositories you have added
    #[arg(short, long)]
    regexp: bool,
    /// Show the long listing, with each version of each chart on its own line
    #[arg(short = 'l', long)]
    versions: bool,
    /// Use development versions, too. Equivalent to version '>0.0.0-0'. If --version is set, this is ignored
    #[arg(long)]
    devel: bool,
    /// Search using semantic versioning constraints on repositories you have added
    #[arg(long, default_value = "", hide_default_value = true)]
    version: String,
    /// Maximum column width for output table
    #[arg(long, default_value_t = 50)]
    max_col_width: usize,
    /// Search fails if no results are found
    #[arg(long)]
    fail_on_no_result: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// A matching version of a chart.
#[derive(Clone, Debug, Serialize)]
struct Found {
    name: String,
    version: String,
    app_version: String,
    description: String,
    /// The index of the first field that matches; lower ones rank first.
    #[serde(skip)]
    score: usize,
}

/// The query.
enum Term {
    All,
    Words(String),
    Pattern(Arc<Regexp>),
}

impl Term {
    /// The first field that matches (`Index.calcScore`).
    fn score(&self, texts: &[&str; 4]) -> Option<usize> {
        // In one line, so that words match across fields as in Helm.
        let line = texts.join("\x0b");
        let before = match self {
            Self::All => return Some(0),
            Self::Words(words) => {
                let mut lower = line.to_lowercase();
                lower.truncate(lower.find(words)?);
                lower
            }
            Self::Pattern(pattern) => {
                let at = pattern.find_all(line.as_bytes(), 1).first()?.start;
                line[..at].to_owned()
            }
        };
        Some(before.bytes().filter(|c| *c == 0x0b).count())
    }
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Failure> {
    let args = match command {
        Command::Repo(args) => args,
        Command::Hub(args) => return search_hub::run(globals, args),
    };
    let home = globals.home();
    let all = Repositories::load(&home.repositories).map_err(|e| e.to_string())?;
    let all = all.filter(|all| !all.entries.is_empty()).ok_or("no repositories configured")?;
    let wish = match (args.version.as_str(), args.devel) {
        ("", true) => ">0.0.0-0",
        ("", false) => ">0.0.0",
        (version, _) => version,
    };
    let words = args.words.join(" ");
    let term = match (words.as_str(), args.regexp) {
        ("", _) if args.words.is_empty() => Ok(Term::All),
        (pattern, true) => regexp::compile(pattern.as_bytes()).map(Term::Pattern),
        (words, false) => Ok(Term::Words(words.to_lowercase())),
    };
    let range = semver::Range::parse(wish).map_err(|e| format!("an invalid version/constraint format: {e}"));
    // Errors of the query come after errors of indexes.
    let query = term.and_then(|term| Ok((term, range?)));
    let mut found: Vec<Found> = Vec::new();
    for repo in &all.entries {
        let path = repository::index_path(&home.indexes, &repo.name);
        let mut each = |chart: &str, versions: Vec<windlass_fetch::index::entry::ChartVersion>| {
            let Ok((term, range)) = &query else { return };
            let before = found.len();
            for version in &versions {
                let meta = &version.metadata;
                if !semver::parse(&meta.version).is_ok_and(|v| range.check(&v)) {
                    continue;
                }
                let (qualified, keywords) = (
                    format!("{}/{}", repo.name, meta.name),
                    meta.keywords.as_deref().unwrap_or_default().join(" "),
                );
                let texts = [&*meta.name, &*qualified, &*meta.description, &*keywords];
                if let Some(score) = term.score(&texts) {
                    found.push(Found {
                        name: format!("{}/{chart}", repo.name),
                        version: meta.version.clone(),
                        app_version: meta.app_version.clone(),
                        description: meta.description.clone(),
                        score,
                    });
                }
            }
            if !args.versions {
                found[before..].sort_by(order);
                found.truncate(before + 1);
            }
        };
        if let Err(e) = visit(&path, &mut |_| true, &mut each, &mut |w| tell(&w)) {
            let reason = match e {
                IndexError::Io(e) if e.kind() == std::io::ErrorKind::NotFound => {
                    format!("open {}: no such file or directory", path.display())
                }
                e => format!("error loading {}: {e}", path.display()),
            };
            let attributes = [("repo", &*repo.name), ("error", &*reason)];
            tell(&slog::line("WARN", "repo is corrupt or missing", &attributes));
        }
    }
    drop(query?);
    found.sort_by(order);
    found.dedup_by(|a, b| a.name == b.name && a.version == b.version);
    show(args, &found)
}

fn order(a: &Found, b: &Found) -> Ordering {
    let versions = || match (semver::parse(&a.version), semver::parse(&b.version)) {
        (Ok(a), Ok(b)) => semver::compare(&b, &a),
        _ => Ordering::Equal,
    };
    a.score.cmp(&b.score).then_with(|| a.name.cmp(&b.name)).then_with(versions)
}

fn show(args: &Args, found: &[Found]) -> Result<(), Failure> {
    if found.is_empty() && args.fail_on_no_result {
        return Err("no results found".to_owned());
    }
    if args.output != Format::Table {
        return print(structured(&found, args.output)?.as_bytes());
    }
    if found.is_empty() {
        return print(b"No results found\n");
    }
    let row = |cells: [&str; 4]| cells.iter().map(|c| cut(c, args.max_col_width)).collect();
    let mut rows = vec![row(["NAME", "CHART VERSION", "APP VERSION", "DESCRIPTION"])];
    rows.extend(found.iter().map(|f| row([&f.name, &f.version, &f.app_version, &f.description])));
    print(table(&rows).as_bytes())
}

/// A cell cut to the column's width; three dots replace the rest (`uitable`).
pub(super) fn cut(text: &str, width: usize) -> String {
    if width == 0 || text.chars().count() <= width {
        return text.to_owned();
    }
    if width <= 3 {
        return text.chars().take(width).collect();
    }
    text.chars().take(width - 3).chain("...".chars()).collect()
}
