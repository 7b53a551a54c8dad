//! Flags of the controller that rolls out workloads when their configuration changes, with Reloader's names where it has the flag.

use std::collections::BTreeSet;

use super::operator_flags::HelmReleaseFlags;
use windlass_controller::is_dns_label;
use windlass_reload::ReloadOptions;

/// Flags of the controller of workloads.
#[derive(clap::Args)]
pub(super) struct ReloadFlags {
    /// Namespaces, separated by commas, whose workloads are rolled out although they are of no release; * for all
    #[arg(
        long,
        env = "WINDLASS_RELOAD_NAMESPACES",
        value_name = "NAMESPACES",
        default_value = "",
        hide_default_value = true
    )]
    reload_namespaces: String,
    /// Roll out workloads without an annotation, too, when a ConfigMap, Secret or SecretProviderClass that they use changes
    #[arg(long, env = "WINDLASS_AUTO_RELOAD_ALL", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    auto_reload_all: bool,
    /// Roll out workloads when an object that they follow is created
    #[arg(long, env = "WINDLASS_RELOAD_ON_CREATE", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    reload_on_create: bool,
    /// Roll out workloads when an object that they follow is deleted
    #[arg(long, env = "WINDLASS_RELOAD_ON_DELETE", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0..=1, default_value = "false", default_missing_value = "true")]
    reload_on_delete: bool,
}

impl ReloadFlags {
    /// Which workloads are rolled out.
    ///
    /// # Errors
    /// A namespace is no name.
    pub(super) fn options(&self, shared: &HelmReleaseFlags) -> Result<ReloadOptions, String> {
        let names = self.reload_namespaces.split(',').map(str::trim).filter(|name| !name.is_empty());
        let foreign_namespaces: BTreeSet<String> = names.map(str::to_owned).collect();
        if let Some(bad) = foreign_namespaces.iter().find(|name| *name != "*" && !is_dns_label(name)) {
            return Err(format!(
                "--reload-namespaces: {bad:?} is not the name of a namespace: write names, separated by commas, or *"
            ));
        }
        Ok(ReloadOptions {
            namespace: shared.watched_namespace()?,
            foreign_namespaces,
            auto_reload_all: self.auto_reload_all,
            on_create: self.reload_on_create,
            on_delete: self.reload_on_delete,
        })
    }
}
