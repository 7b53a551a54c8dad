//! Bundles: all that a helmfile reads and fetches, as one OCI artifact that runs without a network.
//!
//! Owns what is recorded, its form, and the answers from it. Does not evaluate state files, and knows no registries.
//!
//! - [`recorder`], [`recording_host`]: what a run reads and fetches, copied
//! - [`bundle_manifest`]: what a bundle says of itself; [`bundle_archive`]: its files
//! - [`opened_bundle`], [`bundled_host`]: a run from a bundle
//! - [`images`]: the images of manifests

pub mod bundle_archive;
pub mod bundle_manifest;
pub mod bundled_host;
pub mod images;
pub mod opened_bundle;
pub mod recorder;
pub mod recording_host;

use windlass_fetch::oci::packed_artifact::MediaTypes;

/// The media types of a bundle.
pub const MEDIA_TYPES: MediaTypes = MediaTypes {
    config: "application/vnd.windlass.helmfile.bundle.v1+json",
    layer: "application/vnd.windlass.helmfile.bundle.layer.v1.tar+gzip",
};
