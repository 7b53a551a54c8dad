//! `windlass repo`: named repositories.

use std::path::PathBuf;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream;
use serde::Serialize;

use super::fetch::{self, TlsFlags};
use super::flags::{Globals, duration};
use super::output::{self, Format, structured};
use super::{Failure, block_on, print, prompt, tell};
use windlass_base::redact::SecretText;
use windlass_fetch::http::Pem;
use windlass_fetch::index::write::NewIndex;
use windlass_fetch::repositories::{Entry, Repositories};
use windlass_fetch::repository;

/// The number of indexes fetched in parallel.
const AT_ONCE: usize = 8;

/// Removed repositories, and their replacements.
const GONE: [(&str, &str); 2] = [
    ("//kubernetes-charts.storage.googleapis.com", "https://charts.helm.sh/stable"),
    ("//kubernetes-charts-incubator.storage.googleapis.com", "https://charts.helm.sh/incubator"),
];

/// Subcommands of `repo`.
#[derive(clap::Subcommand)]
pub(super) enum Command {
    /// Add a chart repository
    Add(Box<Add>),
    /// List chart repositories
    #[command(visible_alias = "ls")]
    List(List),
    /// Update information of available charts locally from chart repositories
    #[command(visible_alias = "up")]
    Update(Update),
    /// Remove one or more chart repositories
    #[command(visible_alias = "rm")]
    Remove(Remove),
    /// Generate an index file given a directory containing packaged charts
    Index(Index),
}

/// Flags of `repo add`.
#[derive(clap::Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct Add {
    /// The repository's name
    name: String,
    /// The repository's URL
    url: String,
    /// Chart repository username
    #[arg(long, default_value = "", hide_default_value = true)]
    username: String,
    /// Chart repository password
    #[arg(long, default_value = "", hide_default_value = true)]
    password: SecretText,
    /// Read chart repository password from stdin
    #[arg(long)]
    password_stdin: bool,
    /// Replace (overwrite) the repo if it already exists
    #[arg(long)]
    force_update: bool,
    #[command(flatten)]
    tls: TlsFlags,
    /// Allow adding official repositories that have been permanently deleted
    #[arg(long)]
    allow_deprecated_repos: bool,
    /// Pass credentials to all domains
    #[arg(long)]
    pass_credentials: bool,
    /// Time to wait for the index file download to complete
    #[arg(long, default_value = "2m", value_parser = duration)]
    timeout: Duration,
}

/// Flags of `repo list`.
#[derive(clap::Args)]
pub(super) struct List {
    /// Suppress headers in the output
    #[arg(long)]
    no_headers: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Flags of `repo update`.
#[derive(clap::Args)]
pub(super) struct Update {
    /// The repositories; without names: all
    names: Vec<String>,
    /// Time to wait for the index file download to complete
    #[arg(long, default_value = "2m", value_parser = duration)]
    timeout: Duration,
}

/// Flags of `repo remove`.
#[derive(clap::Args)]
pub(super) struct Remove {
    /// The repositories
    #[arg(required = true)]
    names: Vec<String>,
}

/// Flags of `repo index`.
#[derive(clap::Args)]
pub(super) struct Index {
    /// The directory of packages
    directory: PathBuf,
    /// URL of the chart repository
    #[arg(long, default_value = "", hide_default_value = true)]
    url: String,
    /// Merge the generated index into the given index
    #[arg(long)]
    merge: Option<PathBuf>,
    /// Output in JSON format
    #[arg(long)]
    json: bool,
}

pub(super) fn run(globals: &Globals, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Add(args) => add(globals, args),
        Command::List(args) => list(globals, args),
        Command::Update(args) => update(globals, args),
        Command::Remove(args) => remove(globals, args),
        Command::Index(args) => index(args),
    }
}

fn add(globals: &Globals, args: &Add) -> Result<(), Failure> {
    let gone = GONE.iter().find(|(old, _)| !args.allow_deprecated_repos && args.url.contains(old));
    if let Some((_, new)) = gone {
        return Err(format!("repo {:?} is no longer available; try {new:?} instead", args.url));
    }
    let home = globals.home();
    let lock = Repositories::lock(&home.repositories).map_err(|e| e.to_string())?;
    let mut all = Repositories::load(&home.repositories).map_err(|e| e.to_string())?.unwrap_or_default();
    let password = match &args.password {
        given if args.username.is_empty() || !given.is_empty() => given.clone(),
        _ if args.password_stdin => prompt::password_from_stdin()?,
        _ => prompt::secret("Password: ")?,
    };
    if args.name.contains('/') {
        return Err(format!(
            "repository name ({}) contains '/', please specify a different name without '/'",
            args.name
        ));
    }
    let tls = args.tls.tls();
    let path = |pem: Option<Pem>| pem.map(|pem| pem.to_string()).unwrap_or_default();
    let entry = Entry {
        name: args.name.clone(),
        url: args.url.clone(),
        username: args.username.clone(),
        password,
        cert_file: path(tls.certificate),
        key_file: path(tls.key),
        ca_file: path(tls.ca),
        insecure_skip_tls_verify: tls.insecure,
        pass_credentials_all: args.pass_credentials,
    };
    if let Some(known) = all.get(&args.name).filter(|_| !args.force_update) {
        if *known != entry {
            return Err(format!(
                "repository name ({}) already exists, please specify a different name",
                args.name
            ));
        }
        let line = format!("{:?} already exists with the same configuration, skipping\n", args.name);
        return print(line.as_bytes());
    }
    let http = fetch::http(globals, args.timeout);
    block_on(repository::update(&http, &home.indexes, &(&entry).into()))?.map_err(|e| {
        format!("looks like {:?} is not a valid chart repository or cannot be reached: {e}", args.url)
    })?;
    all.update(entry);
    all.save(&home.repositories).map_err(|e| e.to_string())?;
    drop(lock);
    print(format!("{:?} has been added to your repositories\n", args.name).as_bytes())
}

#[derive(Serialize)]
struct Shown<'e> {
    name: &'e str,
    url: &'e str,
}

fn list(globals: &Globals, args: &List) -> Result<(), Failure> {
    // As in Helm, a missing or unreadable file has no repositories.
    let all = Repositories::load(&globals.home().repositories).ok().flatten().unwrap_or_default();
    if args.output != Format::Table {
        let shown: Vec<Shown<'_>> =
            all.entries.iter().map(|e| Shown { name: &e.name, url: &e.url }).collect();
        return print(structured(&shown, args.output)?.as_bytes());
    }
    if all.entries.is_empty() {
        tell("no repositories to show");
        return Ok(());
    }
    let head = (!args.no_headers).then(|| vec!["NAME".to_owned(), "URL".to_owned()]);
    let rows = all.entries.iter().map(|e| vec![e.name.clone(), e.url.clone()]);
    let rows: Vec<Vec<String>> = head.into_iter().chain(rows).collect();
    print(output::table(&rows).as_bytes())
}

fn update(globals: &Globals, args: &Update) -> Result<(), Failure> {
    const NONE: &str = "no repositories found. You must add one before updating";
    let home = globals.home();
    let all = Repositories::load(&home.repositories)
        .map_err(|e| format!("failed loading file: {}: {e}", home.repositories.display()))?
        .filter(|all| !all.entries.is_empty())
        .ok_or(NONE)?;
    if let Some(unknown) = args.names.iter().find(|name| all.get(name).is_none()) {
        return Err(format!("no repositories found matching '{unknown}'.  Nothing will be updated"));
    }
    let wanted = all.entries.into_iter().filter(|e| args.names.is_empty() || args.names.contains(&e.name));
    let http = fetch::http(globals, args.timeout);
    print(b"Hang tight while we grab the latest from your chart repositories...\n")?;
    let failed =
        block_on(update_all(&http, &home.indexes, wanted.collect(), |line| print(line.as_bytes())))??;
    if !failed.is_empty() {
        return Err(format!("failed to update the following repositories: [{}]", failed.join(" ")));
    }
    print("Update Complete. ⎈Happy Helming!⎈\n".as_bytes())
}

/// Updates indexes in parallel, and reports each. Returns the URLs of those that failed.
async fn update_all(
    http: &windlass_fetch::http::Http,
    indexes: &std::path::Path,
    entries: Vec<Entry>,
    mut say: impl FnMut(String) -> Result<(), Failure>,
) -> Result<Vec<String>, Failure> {
    let work = stream::iter(entries).map(async |entry| {
        let result = repository::update(http, indexes, &(&entry).into()).await;
        (entry, result)
    });
    let mut done = work.buffer_unordered(AT_ONCE).boxed_local();
    let mut failed = Vec::new();
    while let Some((entry, result)) = done.next().await {
        let line = match result {
            Ok(_) => format!("...Successfully got an update from the {:?} chart repository\n", entry.name),
            Err(e) => {
                let (name, url) = (entry.name, entry.url);
                let line = format!(
                    "...Unable to get an update from the {name:?} chart repository ({url}):\n\t{e}\n"
                );
                failed.push(url);
                line
            }
        };
        say(line)?;
    }
    Ok(failed)
}

fn remove(globals: &Globals, args: &Remove) -> Result<(), Failure> {
    let home = globals.home();
    let lock = Repositories::lock(&home.repositories).map_err(|e| e.to_string())?;
    let all = Repositories::load(&home.repositories).map_err(|e| e.to_string())?;
    let mut all = all.filter(|all| !all.entries.is_empty()).ok_or("no repositories configured")?;
    for name in &args.names {
        if !all.remove(name) {
            return Err(format!("no repo named {name:?} found"));
        }
        all.save(&home.repositories).map_err(|e| e.to_string())?;
        repository::forget(&home.indexes, name).map_err(|e| format!("can't remove index file: {e}"))?;
        print(format!("{name:?} has been removed from your repositories\n").as_bytes())?;
    }
    drop(lock);
    Ok(())
}

fn index(args: &Index) -> Result<(), Failure> {
    let path = args.directory.join("index.yaml");
    let mut index = NewIndex::of_directory(&args.directory, &args.url)
        .map_err(|e| format!("{}: {e}", args.directory.display()))?;
    if let Some(other) = &args.merge {
        if other.exists() {
            index.merge(other, &mut |w| tell(&w)).map_err(|e| format!("merge failed: {e}"))?;
        } else {
            NewIndex::default().write(other, args.json).map_err(|e| format!("{}: {e}", other.display()))?;
        }
    }
    index.write(&path, args.json).map_err(|e| format!("{}: {e}", path.display()))
}
