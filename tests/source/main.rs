//! Charts from repositories, registries and elsewhere, from real servers on loopback, beside real Helm.

// Helpers outside `#[test]` functions fail like the tests that they serve.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bad_servers;
#[cfg(all(feature = "gcs", feature = "s3"))]
mod bucket_chains;
#[cfg(all(feature = "gcs", feature = "s3"))]
mod bucket_credentials;
#[cfg(all(feature = "gcs", feature = "s3"))]
mod buckets;
mod bundles;
mod client;
mod connections;
#[cfg(feature = "cosign")]
mod cosign;
mod dependencies;
mod features;
mod flags;
mod git;
mod git_servers;
#[cfg(all(feature = "gcs", feature = "s3"))]
mod helmfile_addresses;
mod helmfile_charts;
#[cfg(all(feature = "azure", feature = "gcs", feature = "s3"))]
mod helmfile_secrets;
mod kustomize;
mod maven_images;
#[cfg(all(feature = "azure", feature = "gcs", feature = "s3"))]
mod object_buckets;
mod origins;
mod output_dirs;
mod packages;
mod post_renderers;
mod prompts;
#[cfg(all(feature = "cosign", feature = "pgp"))]
mod provenance;
mod proxies;
mod registries;
mod repositories;
mod schemas;
mod server;
#[cfg(feature = "cosign")]
mod sigstore;
mod support;
#[cfg(feature = "cosign")]
mod timestamps;
mod token_registry;
#[cfg(all(feature = "cosign", feature = "pgp"))]
mod verification;
