//! `windlass build-image`: an image of an artifact of a Maven repository, without Docker.

use std::time::Duration;

use serde::Serialize;

use super::fetch::{self, TlsFlags};
use super::flags::{self, Globals};
use super::output::Format;
use super::{Failure, block_on, output, print, prompt};
use windlass_base::redact::SecretText;
use windlass_fetch::fetch::{Fetcher, Options};
use windlass_fetch::helm_paths::Home;
use windlass_fetch::http::{Credentials, Http};
use windlass_fetch::location::Location;
use windlass_fetch::maven::{MavenCoordinates, MavenRepository};
use windlass_fetch::maven_image::{MavenImage, MavenImageError, path_in_image};
use windlass_fetch::oci::MAX_LAYER_BYTES;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_images::image_location;

/// Flags of `build-image`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The artifact: GROUP:ARTIFACT[:EXTENSION[:CLASSIFIER]]; the extension is war if it is not given
    artifact: String,
    /// URL of the Maven repository
    #[arg(long)]
    repository: String,
    /// Version of the artifact: 1.2, 1.3-SNAPSHOT, a range such as [1.2,2.0), LATEST or RELEASE
    #[arg(long = "artifact-version", value_name = "VERSION", default_value = "RELEASE")]
    version: String,
    /// The image that the file is added to
    #[arg(long)]
    base: String,
    /// Path of the file in the image; with a slash at the end, of its directory
    #[arg(long)]
    path: String,
    /// The image that is pushed
    #[arg(short, long)]
    tag: String,
    /// User name at the Maven repository
    #[arg(long, default_value = "", hide_default_value = true)]
    username: String,
    /// Password at the Maven repository
    #[arg(
        long,
        env = "WINDLASS_MAVEN_PASSWORD",
        default_value = "",
        hide_default_value = true,
        hide_env_values = true
    )]
    password: SecretText,
    /// Read the password from stdin
    #[arg(long)]
    password_stdin: bool,
    #[command(flatten)]
    tls: TlsFlags,
    /// Use insecure HTTP connections to the registries
    #[arg(long)]
    plain_http: bool,
    /// The largest file
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = flags::size)]
    max_size: usize,
    /// How long one download or one part of an upload may take
    #[arg(long, default_value = "10m", value_parser = flags::duration)]
    request_timeout: Duration,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// What was pushed.
#[derive(Serialize)]
struct Built {
    image: String,
    digest: String,
    base: String,
    artifact: String,
    version: String,
    file: String,
    checksum: String,
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let artifact = MavenCoordinates::parse(&args.artifact).map_err(|e| e.to_string())?;
    let base = image_location(&args.base).map_err(|e| format!("--base: {e}"))?;
    let target = image_location(&args.tag).map_err(|e| format!("--tag: {e}"))?;
    if target.digest.is_some() {
        return Err(format!("--tag: {:?} has a digest: name the tag that the image gets", args.tag));
    }
    let url = Location::parse(&args.repository).map_err(|e| format!("--repository: {e}"))?;
    if !matches!(url.scheme.as_str(), "http" | "https") {
        return Err(format!("--repository: {url}: write an http:// or https:// URL"));
    }
    let http = fetch::http(globals, args.request_timeout);
    let tls = args.tls.tls();
    let repository = MavenRepository { http: &http, url, credentials: login(args)?, tls: &tls, cache: None };
    let built = block_on(build(globals, args, &repository, &artifact, (&base, &target)))??;
    let text = match args.output {
        Format::Table => format!("Pushed: {}@{}\n", built.image, built.digest),
        format => output::structured(&built, format)?,
    };
    print(text.as_bytes())
}

fn login(args: &Args) -> Result<Option<Credentials>, Failure> {
    let password = if args.password_stdin { prompt::password_from_stdin()? } else { args.password.clone() };
    match (args.username.is_empty(), password.is_empty()) {
        (true, true) => Ok(None),
        (true, false) => Err("the password of a Maven repository needs --username".to_owned()),
        (false, _) => Ok(Some(Credentials::Basic(args.username.clone(), password))),
    }
}

async fn build(
    globals: &Globals,
    args: &Args,
    repository: &MavenRepository<'_>,
    artifact: &MavenCoordinates,
    (base, target): (&OciReference, &OciReference),
) -> Result<Built, Failure> {
    let file = repository.find(artifact, &args.version).await.map_err(|e| e.to_string())?;
    let fetcher = fetcher(globals.home(), repository.http);
    let options = Options { tls: args.tls.tls(), plain_http: args.plain_http, ..Options::default() };
    let registry = fetcher.registry(&options);
    let path = path_in_image(&args.path, artifact);
    let image = MavenImage {
        repository,
        artifact,
        file: &file,
        path: &path,
        max_bytes: args.max_size as u64,
        max_base_layer: MAX_LAYER_BYTES,
    };
    let pushed = image.push((&registry, base), (&registry, target)).await.map_err(|error| match error {
        MavenImageError::Layer(error) => format!("--path: {error}"),
        error => error.to_string(),
    })?;
    Ok(Built {
        image: target.to_string(),
        digest: pushed.digest,
        base: base.to_string(),
        artifact: artifact.to_string(),
        version: file.version,
        file: file.url.file_name().to_owned(),
        checksum: file.checksum.to_string(),
    })
}

fn fetcher(home: Home, http: &Http) -> Fetcher {
    Fetcher::new(home, http.clone())
}
