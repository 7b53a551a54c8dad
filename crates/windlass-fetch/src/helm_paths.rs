//! The paths of Helm's state: the same files and directories, by the same variables.

use std::env;
use std::path::{Path, PathBuf};

/// The files and directories shared with Helm.
#[derive(Clone, Debug)]
pub struct Home {
    /// The cache directory.
    pub cache: PathBuf,
    /// The configuration directory.
    pub config: PathBuf,
    /// The data directory.
    pub data: PathBuf,
    /// Directories of plugins, as in `PATH`.
    pub plugins: PathBuf,
    /// `repositories.yaml`.
    pub repositories: PathBuf,
    /// Directory of repository indexes.
    pub indexes: PathBuf,
    /// Directory of charts by digest.
    pub content: PathBuf,
    /// Credentials of registries, in Docker's format.
    pub registry: PathBuf,
}

/// A directory by Helm's variable, by XDG's, or below the user's home (`helmpath.lazypath`).
fn base(helm: &str, xdg: &str, below_home: &str) -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(path) = set(helm) {
        return path;
    }
    set(xdg).unwrap_or_else(|| user_home().join(below_home)).join("helm")
}

/// The user's home, or the current directory where there is none, as for Helm.
#[must_use]
pub fn user_home() -> PathBuf {
    known_home().unwrap_or_default()
}

/// The user's home, if there is one: keys and tokens are not looked for in the current directory.
#[must_use]
pub fn known_home() -> Option<PathBuf> {
    env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

impl Home {
    /// All files and directories below one directory, which no Helm shares.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        Self {
            cache: root.join("cache"),
            config: root.join("config"),
            data: root.join("data"),
            plugins: root.join("plugins"),
            repositories: root.join("repositories.yaml"),
            indexes: root.join("indexes"),
            content: root.join("content"),
            registry: root.join("registry.json"),
        }
    }

    /// By Helm's environment.
    #[must_use]
    pub fn from_env() -> Self {
        let cache = base("HELM_CACHE_HOME", "XDG_CACHE_HOME", ".cache");
        let config = base("HELM_CONFIG_HOME", "XDG_CONFIG_HOME", ".config");
        let data = base("HELM_DATA_HOME", "XDG_DATA_HOME", ".local/share");
        let path =
            |name: &str, default: &dyn Fn() -> PathBuf| env::var_os(name).map_or_else(default, PathBuf::from);
        Self {
            plugins: path("HELM_PLUGINS", &|| data.join("plugins")),
            repositories: path("HELM_REPOSITORY_CONFIG", &|| config.join("repositories.yaml")),
            indexes: path("HELM_REPOSITORY_CACHE", &|| cache.join("repository")),
            content: path("HELM_CONTENT_CACHE", &|| cache.join("content")),
            registry: path("HELM_REGISTRY_CONFIG", &|| config.join("registry/config.json")),
            cache,
            config,
            data,
        }
    }
}
