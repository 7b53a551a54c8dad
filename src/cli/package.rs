//! `windlass package`: packs chart directories.

use std::path::{Path, PathBuf};

use chart_compat::go::semver;

use super::dependency;
use super::failure::Explained;
use super::fetch::Login;
use super::flags::Globals;
use super::hints;
use super::prompt::password_from_stdin;
use super::verify::Keyring;
use super::{Failure, print, tell};
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_fetch::chart_package::{self, Times};
use windlass_fetch::installable::missing_dependencies;
use windlass_fetch::{absolute, provenance};

/// Flags of `package`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The chart directories
    #[arg(required = true)]
    charts: Vec<PathBuf>,
    /// Set the version on the chart to this semver version
    #[arg(long, default_value = "", hide_default_value = true)]
    version: String,
    /// Set the appVersion on the chart to this version
    #[arg(long, default_value = "", hide_default_value = true)]
    app_version: String,
    /// Location to write the chart
    #[arg(short, long, default_value = ".")]
    destination: PathBuf,
    /// Use a PGP private key to sign this package
    #[arg(long)]
    sign: bool,
    /// Name of the key to use when signing. Used if --sign is true
    #[arg(long, default_value = "", hide_default_value = true)]
    key: String,
    #[command(flatten)]
    keyring: Keyring,
    /// Location of a file which contains the passphrase for the signing key. Use "-" in order to read from stdin
    #[arg(long)]
    passphrase_file: Option<PathBuf>,
    /// Update dependencies from "Chart.yaml" to dir "charts/" before packaging
    #[arg(short = 'u', long)]
    dependency_update: bool,
    #[command(flatten)]
    login: Login,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Explained> {
    if args.sign && args.key.is_empty() {
        return Err("--key is required for signing a package".to_owned().into());
    }
    if args.sign && args.keyring.path().as_os_str().is_empty() {
        return Err("--keyring is required for signing a package".to_owned().into());
    }
    let mut passphrase = Passphrase { file: args.passphrase_file.as_deref(), read: None };
    for directory in &args.charts {
        let path = pack(globals, args, directory, &mut passphrase)?;
        print(format!("Successfully packaged chart and saved it to: {}\n", path.display()).as_bytes())?;
    }
    Ok(())
}

/// The first line of a passphrase file, read once.
struct Passphrase<'f> {
    file: Option<&'f Path>,
    read: Option<Vec<u8>>,
}

impl Passphrase<'_> {
    fn get(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let Some(file) = self.file else { return Ok(None) };
        if self.read.is_none() {
            let text = if file == Path::new("-") {
                password_from_stdin()?.expose().to_owned()
            } else {
                bounded_read::read_text(file, bounded_read::MAX_TEXT)
                    .map_err(|e| format!("open {}: {}", file.display(), of_the_system(&e)))?
            };
            self.read = Some(text.lines().next().unwrap_or_default().as_bytes().to_vec());
        }
        Ok(self.read.clone())
    }
}

fn pack(
    globals: &Globals,
    args: &Args,
    directory: &Path,
    passphrase: &mut Passphrase<'_>,
) -> Result<PathBuf, Explained> {
    if !directory.exists() {
        return Err(format!("stat {}: no such file or directory", directory.display()).into());
    }
    if !directory.is_dir() {
        return Err(format!("{} is not a directory", directory.display()).into());
    }
    if args.dependency_update {
        dependency::bring(globals, directory, &args.login.options(), &mut |_| {})?;
    }
    let mut loaded = windlass_fetch::load(directory, globals.profile())?;
    loaded.warnings.iter().for_each(|w| tell(w));
    let metadata = &mut loaded.chart.metadata;
    if !args.version.is_empty() {
        metadata.version.clone_from(&args.version);
    }
    semver::parse(&metadata.version)?;
    if !args.app_version.is_empty() {
        metadata.app_version.clone_from(&args.app_version);
    }
    let missing = missing_dependencies(&loaded.chart);
    if !missing.is_empty() {
        let names = missing.join(", ");
        return Err(format!("found in Chart.yaml, but missing in charts/ directory: {names}").into());
    }
    let times = Times::of_directory(directory).map_err(|e| e.to_string())?;
    let destination =
        if args.destination == Path::new(".") { absolute(Path::new(".")) } else { args.destination.clone() };
    let file = chart_package::file_name(&loaded.chart);
    let bytes = chart_package::pack(&loaded.chart, &times).map_err(|e| format!("failed to save: {e}"))?;
    let path = destination.join(&file);
    let mut files = vec![(path.clone(), bytes)];
    if args.sign {
        let metadata = &loaded.chart.metadata;
        let (ring, key) = (args.keyring.path(), &args.key);
        // Read also where the key needs none: a wrong path is an error.
        passphrase.get()?;
        let signed = provenance::sign(&files[0].1, &file, metadata, &ring, key, &mut || passphrase.get());
        let mut beside = path.clone().into_os_string();
        beside.push(".prov");
        files.push((beside.into(), signed.map_err(|e| hints::signing_text(&e))?.into_bytes()));
    }
    for (path, bytes) in files {
        chart_package::write(&path, &bytes)
            .map_err(|e| format!("failed to save: {}: {e}", path.display()))?;
    }
    Ok(path)
}
