//! Kustomizations on disk and in repositories, built to manifests.
//!
//! Owns what the pure builder asks of the outside: files (`disk_world`), repositories and files of the network (`remote_base`),
//! charts (`chart_inflation`). Knows no release and no cluster.

mod chart_inflation;
mod disk_world;
mod remote_base;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kustomize_compat::format::to_yaml;
use kustomize_compat::load::Repository;
use kustomize_compat::resource::{Id, Objects};
use kustomize_compat::schema::Schemas;
use kustomize_compat::target;

pub use chart_inflation::{ChartSettings, Fetched};
use disk_world::DiskWorld;
use remote_base::RemoteBases;

use crate::RenderPermit;
use windlass_fetch::absolute;
use windlass_fetch::byte_budget::ByteBudget;
use windlass_fetch::http::Http;
use windlass_fetch::input_store::InputStore;

/// Most bytes of all repositories of a build without a budget.
const MAX_REPOSITORY_BYTES: u64 = 8 << 30;

/// How a kustomization is built.
pub struct Settings<'s> {
    /// Whether files outside of the root may be read (`--load-restrictor LoadRestrictionsNone`).
    pub unrestricted: bool,
    /// Whether objects stay in the order in which they were read (`--reorder none`).
    pub keep_order: bool,
    /// How charts are rendered; `None` refuses `helmCharts` (no `--enable-helm`).
    pub charts: Option<ChartSettings<'s>>,
    /// The client for files of the network. Offline, repositories are refused too.
    pub http: Http,
    /// What copies of repositories count against; `None`: a budget of this build, of 8 GiB.
    pub budget: Option<Arc<ByteBudget>>,
    /// The directory that files on disk must be in, without symbolic links in its path; copies of repositories are elsewhere. With one,
    /// nothing of this process' user is used for repositories. `None`: any.
    pub root: Option<PathBuf>,
    /// Keeps what is read and fetched, or has it in place of servers.
    pub inputs: Option<Arc<dyn InputStore>>,
    /// The permit of the build.
    pub permit: RenderPermit,
    /// Takes lines for the user.
    pub warn: &'s dyn Fn(&str),
}

/// A built kustomization.
pub struct Built {
    objects: Objects,
    /// `namespace` of the kustomization, which may be empty.
    pub namespace: String,
    /// Its name: `metadata.name`, else that of its directory.
    pub name: String,
}

/// Builds the kustomization of a directory or of a repository's URL. Blocks; must not run on a thread that drives a runtime.
///
/// # Errors
/// What kustomize fails with, in its words.
pub fn build(target: &str, settings: Settings<'_>) -> Result<Built, String> {
    let options = target::Options { unrestricted: settings.unrestricted, keep_order: settings.keep_order };
    let place = match Repository::parse(target) {
        Ok(_) => target.to_owned(),
        Err(_) => absolute(Path::new(target)).to_string_lossy().into_owned(),
    };
    let budget = settings.budget.unwrap_or_else(|| Arc::new(ByteBudget::new(MAX_REPOSITORY_BYTES)));
    let world = DiskWorld {
        remote: RemoteBases::new(settings.http, settings.root.is_some(), budget),
        charts: settings.charts,
        root: settings.root,
        inputs: settings.inputs.as_deref(),
        permit: settings.permit,
        warn: settings.warn,
    };
    let target::Built { objects, name, namespace } =
        target::build_target(&world, &place, &options).map_err(|e| e.to_string())?;
    let name = if name.is_empty() { directory_name(&place) } else { name };
    Ok(Built { objects, namespace, name })
}

/// The name of the directory of a path or a repository's URL.
fn directory_name(place: &str) -> String {
    let path = match Repository::parse(place) {
        Ok(repository) if !repository.directory.is_empty() => repository.directory,
        Ok(repository) => repository.path,
        Err(_) => place.to_owned(),
    };
    let path = path.trim_end_matches('/');
    let name = path.rsplit(['/', ':']).next().unwrap_or(path);
    name.strip_suffix(".git").unwrap_or(name).to_owned()
}

impl Built {
    /// All objects as `kustomize build` prints them.
    ///
    /// # Errors
    /// An object has no form in JSON.
    pub fn text(&self) -> Result<String, String> {
        to_yaml(self.objects.items()).map_err(|e| e.to_string())
    }

    /// Each object as a document of its own.
    ///
    /// # Errors
    /// An object has no form in JSON.
    pub fn documents(&self) -> Result<Vec<String>, String> {
        let one = |object| to_yaml(std::slice::from_ref(object)).map_err(|e| e.to_string());
        self.objects.items().iter().map(one).collect()
    }

    /// The name and content of one file for each object, as `kustomize build -o DIRECTORY` writes them.
    ///
    /// # Errors
    /// An object has no form in JSON.
    pub fn files(&self) -> Result<Vec<(String, String)>, String> {
        let schemas = Schemas::default();
        let ids: Vec<_> = self.objects.items().iter().map(|object| object.id(&schemas)).collect();
        let mut namespaces: Vec<&str> =
            ids.iter().filter(|id| !id.cluster_scoped).map(|id| id.effective_namespace()).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let name = |id: &Id| {
            let gvk = [&id.gvk.group, &id.gvk.version, &id.gvk.kind];
            let gvk: Vec<&str> =
                gvk.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            // A name may have slashes, which must not leave the directory.
            let file = format!("{}_{}.yaml", gvk.join("_"), id.name).to_lowercase().replace('/', "_");
            match namespaces.len() > 1 && !id.cluster_scoped {
                true => format!("{}_{file}", id.effective_namespace().to_lowercase().replace('/', "_")),
                false => file,
            }
        };
        Ok(ids.iter().map(name).zip(self.documents()?).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::directory_name;

    #[test]
    fn names_are_those_of_directories() {
        let table = [
            ("/srv/apps/web", "web"),
            ("/srv/apps/web/", "web"),
            ("https://example.com/org/repository.git//deploy/production?ref=v1", "production"),
            ("https://example.com/org/repository.git?ref=v1", "repository"),
            ("https://github.com/org/repository//?timeout=30s", "repository"),
            ("git@example.com:org/repository.git//deploy/staging", "staging"),
            ("/", ""),
        ];
        for (place, expected) in table {
            assert_eq!(directory_name(place), expected, "{place}");
        }
    }
}
