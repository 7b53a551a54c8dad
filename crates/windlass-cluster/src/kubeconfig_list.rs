//! The kubeconfigs that `KUBECONFIG` lists, merged as kubectl and Helm merge them.

use kube::config::{Kubeconfig, KubeconfigError};
use std::{
    env, io,
    path::{Path, PathBuf},
};

/// The merged kubeconfigs of `KUBECONFIG`; `None` where it lists none that is there.
///
/// # Errors
/// A file cannot be read or parsed.
pub(super) fn from_environment() -> Result<Option<Kubeconfig>, KubeconfigError> {
    let list = env::var_os("KUBECONFIG").unwrap_or_default();
    merged(env::split_paths(&list))
}

/// A file that is not there is skipped. Of clusters, users and contexts of one name the first counts, and the first context that is
/// named as the current one.
fn merged(paths: impl Iterator<Item = PathBuf>) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut all: Option<Kubeconfig> = None;
    for path in paths.filter(|path| !path.as_os_str().is_empty()) {
        let Some(mut next) = read(&path)? else { continue };
        next.current_context.take_if(|name| name.is_empty());
        all = Some(match all {
            Some(before) => before.merge(next)?,
            None => next,
        });
    }
    Ok(all)
}

fn read(path: &Path) -> Result<Option<Kubeconfig>, KubeconfigError> {
    match Kubeconfig::read_from(path) {
        Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_merged_and_files_that_are_not_there_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, current: &str, server: &str| {
            let path = dir.path().join(name);
            let text = format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: \"{current}\"\nclusters:\n- name: c\n  cluster: {{server: \"https://{server}\"}}\n\
                 contexts:\n- name: {name}\n  context: {{cluster: c, user: u}}\n"
            );
            std::fs::write(&path, text).unwrap();
            path
        };
        let (a, b) = (file("a", "", "first"), file("b", "b", "second"));
        let gone = dir.path().join("gone");
        let of = |paths: &[&PathBuf]| merged(paths.iter().copied().cloned()).unwrap();
        let both = of(&[&PathBuf::new(), &gone, &a, &b]).unwrap();
        assert_eq!(both.current_context.as_deref(), Some("b"));
        let contexts: Vec<&str> = both.contexts.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(contexts, ["a", "b"]);
        let server = both.clusters[0].cluster.as_ref().unwrap().server.as_deref();
        assert_eq!((both.clusters.len(), server), (1, Some("https://first")));
        assert!(of(&[&gone]).is_none() && of(&[]).is_none());
        std::fs::write(&gone, "clusters: 5").unwrap();
        assert!(merged([a, gone].into_iter()).is_err());
    }
}
