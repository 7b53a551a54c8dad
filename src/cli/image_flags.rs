//! Flags of the controller that rolls out newer images.

use std::collections::BTreeSet;
use std::time::Duration;

use super::operator_flags::HelmReleaseFlags;
use windlass_controller::is_dns_label;
use windlass_fetch::http::{Http, TIMEOUT};
use windlass_images::ImagesOptions;

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
    /// Registries, with their ports and separated by commas, that are asked without TLS
    #[arg(
        long,
        env = "WINDLASS_IMAGE_PLAIN_REGISTRIES",
        value_name = "HOSTS",
        default_value = "",
        hide_default_value = true
    )]
    image_plain_registries: String,
}

impl ImageFlags {
    /// Which images are followed.
    ///
    /// # Errors
    /// A namespace is no name, or the interval is too short.
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
            http,
        })
    }
}

fn list(text: &str) -> BTreeSet<String> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
