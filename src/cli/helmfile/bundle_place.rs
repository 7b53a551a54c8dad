//! Where a bundle is: in a file, or at a tag of a registry.
//!
//! Owns reading and writing it there. What is in it is `helmfile::bundle`'s.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use crate::cli::fetch::Login;
use crate::cli::flags::Globals;
use crate::cli::{Failure, block_on, fetch};
use windlass_base::causes::of_the_system;
use windlass_fetch::chart_package;
use windlass_fetch::location::Location;
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::packed_artifact::PackedArtifact;
use windlass_helmfile::bundle::MEDIA_TYPES;
use windlass_helmfile::bundle::opened_bundle::OpenedBundle;
use windlass_helmfile::resource::DefaultBundle;

/// The scheme of registries.
const REGISTRY: &str = "oci://";

/// A login of the command line, for a registry; on loopback without TLS.
fn login(reference: &OciReference, plain_http: bool) -> Login {
    let server = Location::parse(&format!("{REGISTRY}{}", reference.host()));
    let is_loopback = server.is_ok_and(|server| server.is_loopback());
    Login { plain_http: plain_http || is_loopback, ..Login::default() }
}

/// The name of a bundle beside the program, which is used where no other is named.
const SIDE_FILE: &str = "windlass-bundle.tar";

/// The bundle beside the program, if there is one.
pub(in crate::cli) fn side_file() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let path = program.parent()?.join(SIDE_FILE);
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

/// Opens the bundle of an operator, and names its digest.
pub(in crate::cli) fn open(globals: &Globals, place: &str) -> Result<DefaultBundle, Failure> {
    let artifact = read(globals, place, false)?;
    let failed = |error: &dyn std::fmt::Display| format!("bundle {place}: {error}");
    let opened = OpenedBundle::open(&artifact.config, &artifact.layer).map_err(|error| failed(&error))?;
    let digest = artifact.digest(MEDIA_TYPES).map_err(|error| failed(&error))?;
    Ok(DefaultBundle { opened: Arc::new(opened), digest })
}

/// Reads a bundle from `FILE` or `oci://HOST/REPOSITORY:TAG`.
pub(super) fn read(globals: &Globals, place: &str, plain_http: bool) -> Result<PackedArtifact, Failure> {
    let failed = |error: &dyn std::fmt::Display| format!("bundle {place}: {error}");
    if !place.starts_with(REGISTRY) {
        let file = File::open(place).map_err(|error| failed(&of_the_system(&error)))?;
        return PackedArtifact::from_layout(BufReader::new(file), MEDIA_TYPES)
            .map_err(|error| failed(&error));
    }
    let reference = OciReference::parse(place).map_err(|error| failed(&error))?;
    let fetcher = fetch::fetcher(globals);
    let registry = fetcher.registry(&login(&reference, plain_http).options());
    block_on(registry.pull_packed(&reference, MEDIA_TYPES))?.map_err(|error| failed(&error))
}

/// Writes a bundle to `FILE` or `oci://HOST/REPOSITORY:TAG`; returns the digest of its manifest.
pub(super) fn write(
    globals: &Globals,
    place: &str,
    plain_http: bool,
    artifact: &PackedArtifact,
) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| format!("bundle {place}: {error}");
    if !place.starts_with(REGISTRY) {
        let layout = artifact.to_layout(MEDIA_TYPES).map_err(|error| failed(&error))?;
        chart_package::write(Path::new(place), &layout).map_err(|error| failed(&of_the_system(&error)))?;
        return artifact.digest(MEDIA_TYPES).map_err(|error| failed(&error));
    }
    let reference = OciReference::parse(place).map_err(|error| failed(&error))?;
    if reference.tag.is_none() || reference.digest.is_some() {
        return Err(failed(&"write a tag: oci://HOST/REPOSITORY:TAG"));
    }
    let fetcher = fetch::fetcher(globals);
    let registry = fetcher.registry(&login(&reference, plain_http).options());
    block_on(registry.push_packed(&reference, artifact, MEDIA_TYPES))?.map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_spoken_to_without_tls() {
        for (registry, plain) in [
            ("localhost:5000", true),
            ("127.0.0.1:5000", true),
            ("127.9.9.9", true),
            ("[::1]:5000", true),
            ("localhost.example.com", false),
            ("10.0.0.1:5000", false),
            ("registry.example.com", false),
        ] {
            let reference = OciReference::parse(&format!("oci://{registry}/bundles/web:1")).unwrap();
            assert_eq!(login(&reference, false).plain_http, plain, "{registry}");
            assert!(login(&reference, true).plain_http);
        }
    }
}
