//! Rights for webhooks of hooks: configurations of our own, and CRDs whose objects hooks convert.
//!
//! A binding is there if its key is in the hook's text: also that of a hook which cannot say so itself where rights are asked for.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::{LOOK, OWN, Rights, add};
use crate::hooks::Scope;
use crate::hooks::discover::discover;

/// Most that is looked through of a hook.
const MAX_HOOK: u64 = 64 * 1024 * 1024;

/// Adds what the webhooks of the hooks below a directory need.
pub(super) fn add_rights(rights: &mut Rights, directory: &Path, scope: Scope) {
    for path in discover(directory, scope).hooks {
        let mut text = Vec::new();
        let read = File::open(&path).and_then(|f| f.take(MAX_HOOK).read_to_end(&mut text));
        if read.is_err() {
            continue;
        }
        let has = |key: &str| memchr::memmem::find(&text, key.as_bytes()).is_some();
        if has("kubernetesValidating") || has("kubernetesMutating") {
            for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
                add(rights, "admissionregistration.k8s.io", resource, &OWN);
            }
        }
        if has("kubernetesCustomResourceConversion") {
            let crds = "customresourcedefinitions";
            add(rights, "apiextensions.k8s.io", crds, &LOOK);
            add(rights, "apiextensions.k8s.io", crds, &["patch"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_the_text_of_hooks_asks_for() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| -> Vec<String> {
            let path = dir.path().join("hook");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let mut rights = Rights::new();
            add_rights(&mut rights, dir.path(), Scope::Module);
            rights.iter().map(|((_, resource, _), verbs)| format!("{resource} {}", verbs.len())).collect()
        };
        assert_eq!(of("onStartup: 1"), [""; 0]);
        let both = ["mutatingwebhookconfigurations 7", "validatingwebhookconfigurations 7"];
        assert_eq!(of("kubernetesMutating: []"), both);
        assert_eq!(of("\"kubernetesValidating\": []"), both);
        assert_eq!(of("kubernetesCustomResourceConversion: []"), ["customresourcedefinitions 4"]);
    }
}
