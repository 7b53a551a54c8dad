//! Flags of the controller that rolls out newer images.

use std::collections::BTreeSet;
use std::time::Duration;

use super::operator_flags::HelmReleaseFlags;
use crate::runtime::ImageBuildProcess;
use windlass_controller::{ControllerOptions, is_dns_label};
use windlass_fetch::http::{Http, TIMEOUT};
use windlass_images::{CloudRegistries, ImageBuildOptions, ImageMirrors, ImagesOptions, OperatorSecret};

/// The shortest interval of the operator: a registry is asked once an interval for each image.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Flags of the controller of images.
#[derive(clap::Args)]
pub(super) struct ImageFlags {
    /// Namespaces, separated by commas, whose images are followed although they are of no release; * for all
    #[arg(
        long,
        env = "WINDLASS_IMAGE_NAMESPACES",
        value_name = "NAMESPACES",
        default_value = "",
        hide_default_value = true
    )]
    image_namespaces: String,
    /// How often registries are asked for newer images, where a workload does not say it
    #[arg(long, env = "WINDLASS_IMAGE_INTERVAL", default_value = "1m", value_parser = super::flags::duration)]
    image_interval: Duration,
    /// Registries, with their ports and separated by commas, that are asked without TLS; of ImageBuilds, too
    #[arg(
        long,
        env = "WINDLASS_IMAGE_PLAIN_REGISTRIES",
        value_name = "HOSTS",
        default_value = "",
        hide_default_value = true
    )]
    image_plain_registries: String,
    /// Mirrors that are asked before their registries, as REGISTRY=HOST[/PREFIX] and separated by commas
    #[arg(
        long,
        env = "WINDLASS_IMAGE_MIRRORS",
        value_name = "MIRRORS",
        default_value = "",
        hide_default_value = true
    )]
    image_mirrors: String,
    /// Registries that take this process' identity in its cloud, as REGISTRY=PROVIDER (aws, azure, gcp) and separated by commas
    #[arg(
        long,
        env = "WINDLASS_IMAGE_PROVIDER",
        value_name = "REGISTRIES",
        default_value = "",
        hide_default_value = true
    )]
    image_provider: String,
    /// Secret, as NAMESPACE/NAME, with logins for the registries of all workloads that have none for them
    #[arg(long, env = "WINDLASS_IMAGE_PULL_SECRET", value_name = "SECRET")]
    image_pull_secret: Option<String>,
}

impl ImageFlags {
    /// Which images are followed.
    ///
    /// # Errors
    /// A namespace is no name, the interval is too short, or mirrors and registries of clouds are none.
    pub(super) fn options(&self, shared: &HelmReleaseFlags) -> Result<ImagesOptions, String> {
        let foreign_namespaces = list(&self.image_namespaces);
        if let Some(bad) = foreign_namespaces.iter().find(|name| *name != "*" && !is_dns_label(name)) {
            return Err(format!(
                "--image-namespaces: {bad:?} is not the name of a namespace: write names, separated by commas, or *"
            ));
        }
        if self.image_interval < SHORTEST_INTERVAL {
            return Err(format!(
                "--image-interval: {:?} is shorter than {} second",
                self.image_interval,
                SHORTEST_INTERVAL.as_secs()
            ));
        }
        let http = Http::new(TIMEOUT, false);
        let http = if shared.allow_local_sources { http } else { http.without_local_addresses() };
        Ok(ImagesOptions {
            namespace: shared.watched_namespace()?,
            foreign_namespaces,
            interval: self.image_interval,
            plain_registries: list(&self.image_plain_registries),
            pull_secret: self.image_pull_secret.as_deref().map(operator_secret).transpose()?,
            mirrors: ImageMirrors::parse(&self.image_mirrors).map_err(|e| format!("--image-mirrors: {e}"))?,
            cloud_registries: CloudRegistries::parse(&self.image_provider)
                .map_err(|e| format!("--image-provider: {e}"))?,
            http,
        })
    }

    /// How ImageBuilds are reconciled.
    ///
    /// # Errors
    /// There is no namespace to watch.
    pub(super) fn builds(&self, shared: &HelmReleaseFlags) -> Result<ImageBuildProcess, String> {
        Ok(ImageBuildProcess {
            options: ImageBuildOptions {
                default_service_account: shared.default_service_account.clone(),
                allow_local_addresses: shared.allow_local_sources,
                plain_registries: list(&self.image_plain_registries),
            },
            controller: ControllerOptions {
                namespace: shared.watched_namespace()?,
                selector: shared.watch_label_selector.clone(),
                concurrency: shared.concurrent,
                ..ControllerOptions::default()
            },
        })
    }
}

fn operator_secret(text: &str) -> Result<OperatorSecret, String> {
    let is_name = |name: &str| name.len() <= 253 && name.split('.').all(is_dns_label);
    match text.split_once('/') {
        Some((namespace, name)) if is_dns_label(namespace) && is_name(name) => {
            Ok(OperatorSecret { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err(format!("--image-pull-secret: {text:?} is not a Secret: write NAMESPACE/NAME")),
    }
}

fn list(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_named_with_its_namespace() {
        let found = operator_secret("ops/registry.login").unwrap();
        assert_eq!((found.namespace.as_str(), found.name.as_str()), ("ops", "registry.login"));
        for text in [
            "",
            "login",
            "/login",
            "ops/",
            "ops/a/b",
            "ops/A",
            "../login",
            &format!("ops/{}", "a".repeat(300)),
        ] {
            let error = operator_secret(text).unwrap_err();
            assert!(error.ends_with("is not a Secret: write NAMESPACE/NAME"), "{error}");
        }
    }
}
