//! Rights for webhooks of hooks: their configurations, and the CRDs whose objects hooks convert.
//!
//! A hook's configuration contains its webhooks. If a hook cannot run here, its text is searched for the configuration keys.

use std::fs::File;
use std::path::Path;

use super::{LOOK, OWN};
use windlass_base::bounded_read::first_bytes;
use windlass_controller::RightSet;
use windlass_modules::shell_hooks::Scope;
use windlass_modules::shell_hooks::config::HookConfig;
use windlass_modules::shell_hooks::discover::discover;

/// The maximal number of bytes searched in a hook.
const MAX_HOOK: u64 = 64 * 1024 * 1024;

/// The kinds of webhooks of some hooks.
#[derive(Clone, Default)]
pub(super) struct Kinds {
    admission: bool,
    /// The CRDs with conversions; `None` means unknown ones.
    conversions: Vec<Option<String>>,
}

impl Kinds {
    /// The webhooks in the configuration of a hook.
    pub(super) fn of(config: &HookConfig) -> Self {
        Self {
            admission: !(config.validating.is_empty() && config.mutating.is_empty()),
            conversions: config.conversions.iter().map(|c| Some(c.crd.clone())).collect(),
        }
    }

    /// The webhooks found in the text of the hooks in a directory; `None` if there are no hooks.
    pub(super) fn in_text(directory: &Path, scope: Scope) -> Option<Self> {
        let hooks = discover(directory, scope).hooks;
        let mut kinds = (!hooks.is_empty()).then(Self::default)?;
        for path in hooks {
            let Ok(text) = File::open(&path).and_then(|f| first_bytes(f, MAX_HOOK)) else { continue };
            let has = |key: &str| memchr::memmem::find(&text, key.as_bytes()).is_some();
            kinds.admission |= has("kubernetesValidating") || has("kubernetesMutating");
            if has("kubernetesCustomResourceConversion") {
                kinds.conversions.push(None);
            }
        }
        Some(kinds)
    }
}

/// Adds the rights for webhooks; `configuration` is the prefix of the configurations' names.
pub(super) fn add_rights(rights: &mut RightSet, kinds: &Kinds, configuration: &str) {
    if kinds.admission {
        for resource in ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"] {
            // `check` is only for dry runs.
            for name in ["hooks", "check"] {
                let name = format!("{configuration}-{name}");
                rights.add_to(None, "admissionregistration.k8s.io", resource, Some(&name), &OWN);
            }
        }
    }
    for crd in &kinds.conversions {
        let crds = "customresourcedefinitions";
        rights.add_to(None, "apiextensions.k8s.io", crds, crd.as_deref(), &LOOK);
        rights.add_to(None, "apiextensions.k8s.io", crds, crd.as_deref(), &["patch"]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::summary;
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn kind_names(kinds: &Kinds) -> Vec<String> {
        let mut rights = RightSet::default();
        add_rights(&mut rights, kinds, "own");
        summary(&rights, None).iter().map(|r| r.split_once('/').unwrap().1.to_owned()).collect()
    }

    #[test]
    fn what_hooks_say_asks_for() {
        let of = |text: &str| {
            let text = format!("{{configVersion: v1, {text}}}");
            kind_names(&Kinds::of(&HookConfig::parse(text.as_bytes(), Scope::Module).unwrap()))
        };
        let both = [
            "mutatingwebhookconfigurations own-check 7",
            "mutatingwebhookconfigurations own-hooks 7",
            "validatingwebhookconfigurations own-check 7",
            "validatingwebhookconfigurations own-hooks 7",
        ];
        let rules = "rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}]";
        assert_eq!(of("onStartup: 1"), [""; 0]);
        assert_eq!(of(&format!("kubernetesValidating: [{{name: a.b.c, {rules}}}]")), both);
        assert_eq!(of(&format!("kubernetesMutating: [{{name: a.b.c, {rules}}}]")), both);
        let conversion = "name: a, crdName: x.y.z, conversions: [{fromVersion: v1, toVersion: v2}]";
        let conversion = of(&format!("kubernetesCustomResourceConversion: [{{{conversion}}}]"));
        assert_eq!(conversion, ["customresourcedefinitions x.y.z 4"]);
    }

    #[test]
    fn what_the_text_of_hooks_asks_for() {
        let dir = tempfile::tempdir().unwrap();
        let of = |text: &str| -> Vec<String> {
            let path = dir.path().join("hook");
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            kind_names(&Kinds::in_text(dir.path(), Scope::Module).unwrap())
        };
        assert!(Kinds::in_text(dir.path(), Scope::Module).is_none());
        assert_eq!(of("onStartup: 1"), [""; 0]);
        let both = [
            "mutatingwebhookconfigurations own-check 7",
            "mutatingwebhookconfigurations own-hooks 7",
            "validatingwebhookconfigurations own-check 7",
            "validatingwebhookconfigurations own-hooks 7",
        ];
        assert_eq!(of("kubernetesMutating: []"), both);
        assert_eq!(of("\"kubernetesValidating\": []"), both);
        assert_eq!(of("kubernetesCustomResourceConversion: []"), ["customresourcedefinitions 4"]);
    }
}
