//! `windlass bundle`: all that a helmfile reads and fetches, as one artifact.
//!
//! Owns which files are packed, and the proof that the bundle is whole: its releases are rendered again from it, without a network.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{ArgAction, CommandFactory, FromArgMatches, Parser};

use super::flags::{Options, cwd};
use super::{RawArgs, bundle_place, template};
use crate::cli::flags::Globals;
use crate::cli::{Failure, arguments, print, tell};
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use helmfile_compat::{Error, paths};
use windlass_base::causes::of_the_system;
use windlass_fetch::oci::packed_artifact::PackedArtifact;
use windlass_helmfile::bundle::bundle_manifest::{FILES, MachineNeeds};
use windlass_helmfile::bundle::images::add_images;
use windlass_helmfile::bundle::opened_bundle::OpenedBundle;
use windlass_helmfile::bundle::recorder::Recorder;
use windlass_helmfile::bundle::recording_host::RecordingHost;

/// Pack a helmfile with all that it reads and fetches into one OCI artifact, for `windlass helmfile --bundle`.
///
/// It has state files, bases, nested helmfiles, values, patches, charts with their dependencies and kustomizations with their remote
/// bases. Variables, programs and secrets are not packed; those that a run needs are listed.
#[derive(Parser)]
#[command(name = "bundle", bin_name = "windlass bundle", version, disable_help_subcommand = true)]
struct CommandLine {
    #[command(flatten)]
    options: Options,
    /// Where to write the bundle: a file (an OCI image layout as tar), or oci://HOST/REPOSITORY:TAG
    #[arg(short, long, value_name = "FILE|oci://…")]
    output: Option<String>,
    /// Print the images of the releases
    #[arg(long)]
    images: bool,
    /// The directory whose files may be packed [default: that of the Git repository, else that of the state file]
    #[arg(long, value_name = "DIRECTORY")]
    root: Option<PathBuf>,
    /// Also pack a file or directory that programs read (can specify multiple)
    #[arg(long, value_name = "PATH")]
    include: Vec<PathBuf>,
}

pub(in crate::cli) fn run(globals: &Globals, words: &RawArgs) -> Result<ExitCode, Failure> {
    let words = std::iter::once(OsString::from("windlass bundle")).chain(words.words.iter().cloned());
    let command = CommandLine::command().mut_arg("environment", |argument| {
        argument.action(ArgAction::Append).help("An environment to pack (can specify multiple)")
    });
    let words = arguments::plain(&command, words);
    let parsed = command.try_get_matches_from(words).and_then(|matches| {
        let environments = matches.get_many::<String>("environment").unwrap_or_default().cloned().collect();
        Ok((CommandLine::from_arg_matches(&matches)?, environments))
    });
    let (line, environments) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help goes to standard output and is not a failure.
            drop(error.print());
            return Ok(ExitCode::from(u8::from(error.use_stderr())));
        }
    };
    match bundle(globals, &line, &environments) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            tell(&error.to_string());
            Ok(ExitCode::FAILURE)
        }
    }
}

fn bundle(globals: &Globals, line: &CommandLine, environments: &BTreeSet<String>) -> Result<(), Error> {
    if line.output.is_none() && !line.images {
        return Err("give --output FILE, --output oci://HOST/REPOSITORY:TAG, or --images".to_owned().into());
    }
    let scope = Scope::new(line.options.file()?, line.root.as_deref())?;
    let recorder = Arc::new(Recorder::new(&scope.root)?);
    for path in &line.include {
        recorder.include(path)?;
    }
    let mut recorded = globals.clone();
    recorded.inputs = Some(Arc::<Recorder>::clone(&recorder));
    let mut images = BTreeSet::new();
    for environment in environments {
        let options = line.options.in_environment(environment);
        let host = RecordingHost::new(options.host(&recorded), Arc::clone(&recorder));
        template::each_rendered(&recorded, &options, &host, &mut |state, release, rendered| {
            note_programs(&host, state, release)?;
            let hooks = rendered.hooks.iter().map(|hook| &hook.manifest);
            for manifest in rendered.manifests.iter().chain(hooks) {
                add_images(&manifest.text, &mut images)
                    .map_err(|error| format!("{}: {error}", manifest.source))?;
            }
            Ok(())
        })?;
    }
    if line.images {
        let text: String = images.iter().map(|image| format!("{image}\n")).collect();
        print(text.as_bytes())?;
    }
    let Some(output) = &line.output else { return Ok(()) };
    let (mut manifest, layer) = recorder.finish(scope.directory, scope.file)?;
    (manifest.environments, manifest.images) = (environments.clone(), images);
    let artifact = PackedArtifact { config: manifest.to_json()?.into(), layer: layer.into() };
    prove(globals, &line.options, environments, &artifact)?;
    tell_needs(&manifest.needs);
    let digest = bundle_place::write(globals, output, line.options.plain_http, &artifact)?;
    let text = format!("Bundled: {output}\nDigest: {digest}\n");
    if line.images {
        tell(text.trim_end());
        return Ok(());
    }
    Ok(print(text.as_bytes())?)
}

/// Renders the releases from the bundle: an error here is one of each run.
fn prove(
    globals: &Globals,
    options: &Options,
    environments: &BTreeSet<String>,
    artifact: &PackedArtifact,
) -> Result<(), Error> {
    let bundle = Arc::new(OpenedBundle::open(&artifact.config, &artifact.layer)?);
    for environment in environments {
        let (globals, options) = options.in_environment(environment).with_bundle(globals, &bundle)?;
        let host = options.host(&globals);
        template::each_rendered(&globals, &options, &*host, &mut |_, _, _| Ok(()))
            .map_err(|error| error.within("the bundle is not whole"))?;
    }
    Ok(())
}

/// Packs programs of hooks and post-renderers that lie beside the state file: rendering alone does not run them all.
fn note_programs(host: &RecordingHost, state: &State, release: &Record) -> Result<(), Error> {
    let base = paths::within(&state.cwd, &state.base);
    let hooks = state.fields.records(key!("hooks")).chain(release.records(key!("hooks")));
    for command in hooks.map(|hook| hook.text(key!("command"))) {
        // What a template makes of it is known when it runs.
        if !command.is_empty() && !command.contains("{{") {
            host.note_program(&base, &command)?;
        }
    }
    let defaults = state.fields.record(key!("helmDefaults"));
    let default = defaults.and_then(|defaults| defaults.optional_text(key!("postRenderer")));
    let program =
        release.optional_text(key!("postRenderer")).or(default).filter(|program| !program.is_empty());
    if let Some(program) = program {
        host.note_program(&state.cwd, &program)?;
    }
    Ok(())
}

fn tell_needs(needs: &MachineNeeds) {
    let all = [
        ("variables", &needs.variables),
        ("programs", &needs.programs),
        ("secrets", &needs.secrets),
        ("files", &needs.files),
    ];
    for (what, names) in all.into_iter().filter(|(_, names)| !names.is_empty()) {
        let names = names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        tell(&format!("not packed, taken from the machine of each run: {what}: {names}"));
    }
}

/// Which files may be packed, and where the state file is among them.
struct Scope {
    root: PathBuf,
    directory: String,
    file: String,
}

impl Scope {
    fn new(file: &str, root: Option<&Path>) -> Result<Self, Error> {
        let real = |path: &Path| -> Result<PathBuf, Error> {
            fs::canonicalize(path)
                .map_err(|error| format!("{}: {}", path.display(), of_the_system(&error)).into())
        };
        let cwd = real(Path::new(&cwd()))?;
        let given = cwd.join(file);
        let start = match file {
            "" => cwd.clone(),
            address if paths::is_remote(address) => cwd.clone(),
            _ if given.is_dir() => real(&given)?,
            _ => real(given.parent().unwrap_or(&cwd))?,
        };
        let root = match root {
            Some(root) => real(root)?,
            None => start.ancestors().find(|dir| dir.join(".git").exists()).unwrap_or(&start).to_owned(),
        };
        let place = |dir: &Path| -> Option<String> {
            let below = dir.strip_prefix(&root).ok()?.to_string_lossy().into_owned();
            Some(if below.is_empty() { FILES.to_owned() } else { format!("{FILES}/{below}") })
        };
        if let Some(directory) = place(&cwd).filter(|_| !Path::new(file).is_absolute()) {
            return Ok(Self { directory, file: file.to_owned(), root });
        }
        let directory =
            place(&start).ok_or_else(|| format!("{} is outside of {}", start.display(), root.display()))?;
        let file = if given.is_dir() { ".".to_owned() } else { paths::base(file) };
        Ok(Self { directory, file, root })
    }
}
