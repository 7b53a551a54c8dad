//! The rights that an operator needs for its modules: as few as possible, each in the namespace that needs it.
//!
//! The objects of modules are determined from a render with the values of their files, and from the kinds in their templates,
//! because a template can depend on a missing value. Hooks report with `--config` what they watch and answer; webhooks are also
//! searched for in their text. The writes of hooks cannot be determined: their modules are reported, and users can add rules.

mod added;
mod chart_kind_rights;
mod chart_rights;
mod config_map_source_rights;
mod helm_release_rights;
mod helmchart_rights;
mod helmfile_rights;
mod image_build_rights;
mod image_rights;
mod notification_rights;
mod reload_rights;
mod watches;
mod webhook_rules;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chart_compat::chart::Crd;
use chart_compat::go::regexp;
use chart_compat::render::{Capabilities, Options, Rendered};
use serde_json::{Value, json};

use windlass_cluster::{Gvk, ObjectMeta};
use windlass_controller::{
    NAMED_VERBS as NAMED, OBJECT_VERBS as OWN, RevisionView, RightSet, UNNAMED_VERBS as UNNAMED,
};
use windlass_modules::addon::hooks::global_directory;
use windlass_modules::addon::module::{Module, Modules};
use windlass_modules::addon::values::Values;
use windlass_modules::shell_hooks::config::HookConfig;
use windlass_modules::shell_hooks::{CONFIG_TIMEOUT, HookSet, Scope};
use windlass_render::{RenderBounds, RenderRequest, parse_manifest};

use config_map_source_rights::own_source_needs;

pub use added::Added;
pub use chart_kind_rights::chart_kind_needs;
pub use chart_rights::{ChartSubject, MatrixSize, chart_needs, chart_operator_needs, pull_secret_needs};
pub use config_map_source_rights::config_map_source_needs;
pub use helm_release_rights::helm_release_needs;
pub use helmchart_rights::helmchart_needs;
pub use helmfile_rights::helmfile_needs;
pub use image_build_rights::image_build_needs;
pub use image_rights::image_needs;
pub use notification_rights::notification_needs;
pub use reload_rights::reload_needs;

/// Verbs for objects that templates look up.
const LOOK: [&str; 3] = ["get", "list", "watch"];

/// Cluster-scoped kinds of Kubernetes.
const CLUSTER_WIDE: [&str; 24] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "CustomResourceDefinition",
    "DeviceClass",
    "FlowSchema",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "RuntimeClass",
    "StorageClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
];

/// The rights that an operator needs for its modules.
#[derive(Default)]
pub struct Needs {
    rights: RightSet,
    /// Additional rules from the user.
    added: Added,
    /// Rights that could not be determined. Each text names the module.
    pub unknown: Vec<String>,
}

/// What releases in any namespace need, whose objects their own ServiceAccounts apply.
fn of_tenants_releases() -> Needs {
    let mut needs = Needs::default();
    needs.watch_definitions();
    // Records and generated values, and what custom resources refer to.
    needs.add("", "secrets", &OWN);
    needs.add("", "configmaps", &LOOK);
    // Of releases and controllers.
    needs.add("coordination.k8s.io", "leases", &OWN);
    for group in ["", "events.k8s.io"] {
        needs.add(group, "events", &["create", "patch"]);
    }
    needs.add("", "serviceaccounts", &["impersonate"]);
    needs
}

/// A kind used by a module, with its object if known.
struct Kind {
    gvk: Gvk,
    /// The namespace of the object, by default that of the release.
    namespace: String,
    /// The object; `None` if the kind was only found in the text of a template.
    object: Option<Value>,
}

fn text_of(crd: &Crd) -> String {
    String::from_utf8_lossy(&crd.data).into_owned()
}

/// The objects of manifests, with `home` as the default namespace.
fn made(text: &str, home: &str) -> Vec<Kind> {
    let one = |text: &&str| {
        let object = parse_manifest(text).ok()?;
        let namespace = ObjectMeta::of(&object).namespace().unwrap_or(home).to_owned();
        Some(Kind { gvk: Gvk::of(&object)?, namespace, object: Some(object) })
    };
    chart_compat::render::split_documents(text).iter().filter_map(one).collect()
}

/// The hooks of a module, or the global ones.
pub struct Hooks {
    owner: String,
    /// The names and configurations of the hooks, or the reason why they cannot be read.
    said: Result<Vec<(String, HookConfig)>, String>,
    /// The webhooks found in the text of the hooks.
    in_text: webhook_rules::Kinds,
}

impl Hooks {
    /// Reads the configurations of the hooks in a directory; `None` if there are none.
    async fn of(owner: String, directory: &Path, scope: Scope) -> Option<Self> {
        let in_text = webhook_rules::Kinds::in_text(directory, scope)?;
        let loaded = HookSet::load(directory, "", "", scope, CONFIG_TIMEOUT).await;
        let said = loaded.map_err(|e| e.to_string()).map(|(set, _)| {
            set.hooks().iter().map(|hook| (hook.name.clone(), hook.config.clone())).collect()
        });
        Some(Self { owner, said, in_text })
    }
}

/// A resource defined by a CRD.
struct Defined {
    plural: String,
    everywhere: bool,
}

impl Needs {
    /// Adds rights of the whole cluster.
    fn add(&mut self, group: &str, resource: &str, verbs: &[&'static str]) {
        self.rights.add(None, group, resource, verbs);
    }

    /// Adds what cannot be determined.
    fn add_unknown(&mut self, text: &str) {
        self.unknown.push(text.to_owned());
    }

    /// The watch by which releases that wait for a kind are reconciled as soon as it is served.
    fn watch_definitions(&mut self) {
        for (group, resource) in
            [("apiextensions.k8s.io", "customresourcedefinitions"), ("apiregistration.k8s.io", "apiservices")]
        {
            self.rights.add(None, group, resource, &["list", "watch"]);
        }
    }

    /// Adds the rights to keep `modules.deckhouse.io`, and to write what readiness probes say into their status.
    pub fn keep_deckhouse_modules(&mut self) {
        self.rights.add(None, "deckhouse.io", "modules", &OWN);
        self.rights.add(None, "deckhouse.io", "modules/status", &["get", "patch", "update"]);
        self.rights.add(None, "apiextensions.k8s.io", "customresourcedefinitions", &["create"]);
    }

    /// The needs of modules that run in a namespace.
    #[must_use]
    pub fn of(
        modules: &Modules,
        values: &Values,
        namespace: &str,
        hooks: &[Hooks],
        configuration: &str,
    ) -> Self {
        let mut needs = Self::default();
        let here = Some(namespace);
        for (group, resource) in [
            ("", "secrets"),
            ("", "configmaps"),
            ("coordination.k8s.io", "leases"),
            ("windlass.dev", "modules"),
        ] {
            needs.rights.add(here, group, resource, &OWN);
        }
        for group in ["", "events.k8s.io"] {
            needs.rights.add(here, group, "events", &["create", "patch"]);
        }
        needs.watch_definitions();
        let mut kinds = Vec::new();
        for module in &modules.modules {
            needs.module(module, values, namespace, &mut kinds);
        }
        let defined = defined(&kinds);
        let complete = complete(&kinds);
        for kind in &kinds {
            needs.kind(kind, &defined, &complete);
        }
        for hooks in hooks {
            needs.hooks(hooks, &defined, configuration);
        }
        needs
    }

    /// These needs, and those of another front end of the process.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.rights.extend(other.rights);
        self.unknown.extend(other.unknown);
        self
    }

    /// Adds the user's rules for rights that cannot be detected.
    #[must_use]
    pub fn with(self, added: Added) -> Self {
        Self { added, ..self }
    }

    fn hooks(&mut self, hooks: &Hooks, defined: &BTreeMap<(String, String), Defined>, configuration: &str) {
        let owner = &hooks.owner;
        self.unknown.push(format!(
            "{owner}: what its hooks write in the cluster, and read besides what they watch, is not known; add rules for that with \
             --add-rules FILE"
        ));
        let said = match &hooks.said {
            Ok(said) => said,
            Err(text) => {
                webhook_rules::add_rights(&mut self.rights, &hooks.in_text, configuration);
                return self.unknown.push(format!("{owner}: what its hooks watch is not known: {text}"));
            }
        };
        for (hook, config) in said {
            webhook_rules::add_rights(&mut self.rights, &webhook_rules::Kinds::of(config), configuration);
            for binding in &config.kubernetes {
                if let Err(text) = watches::add_rights(&mut self.rights, binding, defined) {
                    self.unknown.push(format!("{owner}: hook {hook}: {text}"));
                }
            }
        }
    }

    /// Collects the kinds of a module, with their objects if known.
    fn module(&mut self, module: &Module, values: &Values, namespace: &str, kinds: &mut Vec<Kind>) {
        let name = &module.name.name;
        let home = module.target.namespace.as_deref().unwrap_or(namespace);
        if home != namespace {
            for (group, resource) in [("", "secrets"), ("coordination.k8s.io", "leases")] {
                self.rights.add(Some(home), group, resource, &OWN);
            }
        }
        if let Some((within, account)) = module.target.service_account(home) {
            self.rights.add_to(Some(within), "", "serviceaccounts", Some(account), &["impersonate"]);
        }
        let unknown = &mut self.unknown;
        let mut tell = |text: String| unknown.push(format!("module {name}: {text}"));
        let chart = match &module.chart {
            Ok(Some(chart)) => chart,
            Ok(None) => return kinds.extend(module.crds.iter().flat_map(|c| made(&text_of(c), home))),
            Err(text) => return tell(text.clone()),
        };
        let mut charts = vec![chart.chart()];
        while let Some(chart) = charts.pop() {
            charts.extend(&chart.dependencies);
            for template in &chart.templates {
                let text = String::from_utf8_lossy(&template.data);
                let written = written(&text).into_iter();
                kinds.extend(written.map(|gvk| Kind { gvk, namespace: home.to_owned(), object: None }));
                for lookup in looked_up(&text) {
                    let (group, resource, everywhere) = resource(&lookup.gvk, &BTreeMap::new());
                    let scope = match &lookup.namespace {
                        _ if everywhere => None,
                        LookupScope::Release => Some(home),
                        LookupScope::Named(namespace) => Some(namespace.as_str()),
                        LookupScope::All => None,
                        LookupScope::Unknown if resource == "secrets" && group.is_empty() => {
                            tell(format!(
                                "a template looks up Secrets in a namespace that is not known; add a rule for it with --add-rules \
                                 FILE: {}",
                                lookup.call
                            ));
                            continue;
                        }
                        LookupScope::Unknown => None,
                    };
                    self.rights.add(scope, &group, &resource, &LOOK);
                }
            }
        }
        let options = |at: RevisionView| Options {
            release: at.release(name, home),
            capabilities: Capabilities::default(),
            skip_schema_validation: true,
            subchart_notes: false,
            limits: RenderBounds::default().limits(),
        };
        let rendered = values.for_chart(&module.name.key).and_then(|values| {
            let deadline = RenderBounds::default().deadline();
            let render = |at| RenderRequest::new(chart, &values, &options(at), deadline).render(&mut |_| {});
            match render(RevisionView::FIRST) {
                Ok(first) if !first.reads_revision => Ok(vec![first]),
                // Also include objects that are rendered only in the first or only in later revisions.
                Ok(first) => Ok([first].into_iter().chain(render(RevisionView::CANONICAL)).collect()),
                Err(_) => Ok(vec![render(RevisionView::CANONICAL).map_err(|e| e.to_string())?]),
            }
        });
        let rendered: Vec<Rendered> = match rendered {
            Ok(rendered) => rendered,
            Err(text) => {
                return tell(format!(
                    "it cannot be rendered with the values of its files, so that only the kinds which its templates write out \
             are known (placeholders in its values.yaml help): {text}"
                ));
            }
        };
        let manifests =
            rendered.iter().flat_map(|r| r.manifests.iter().chain(r.hooks.iter().map(|h| &h.manifest)));
        let texts = manifests.map(|m| m.text.clone());
        for text in texts.chain(module.crds.iter().map(text_of)) {
            kinds.extend(made(&text, home));
        }
    }

    fn kind(
        &mut self,
        kind: &Kind,
        defined: &BTreeMap<(String, String), Defined>,
        complete: &BTreeSet<(String, String)>,
    ) {
        let Kind { gvk, namespace, object } = kind;
        let object = object.as_ref();
        let (group, resource, everywhere) = resource(gvk, defined);
        let scope = Some(namespace.as_str()).filter(|_| !everywhere);
        let name = object.map(|o| ObjectMeta::of(o).name()).filter(|name| !name.is_empty());
        let by_name = everywhere && complete.contains(&(gvk.group.clone(), gvk.kind.clone()));
        let rights = &mut self.rights;
        for group in ["", "events.k8s.io"] {
            // Drift is reported as an event of the object.
            if scope.is_some() {
                rights.add(scope, group, "events", &["create", "patch"]);
            }
        }
        match name {
            Some(_) if by_name => {
                rights.add(scope, &group, &resource, &UNNAMED);
                rights.add_to(scope, &group, &resource, name, &NAMED);
            }
            None if by_name => {}
            _ => rights.add(scope, &group, &resource, &OWN),
        }
        // To grant rights a subject needs the rights themselves, or `escalate` and `bind`. Limit these to names if the names are
        // known.
        let role = object
            .map(|o| (o["roleRef"]["kind"].as_str().unwrap_or_default(), o["roleRef"]["name"].as_str()));
        match (group.as_str(), resource.as_str()) {
            ("rbac.authorization.k8s.io", "roles" | "clusterroles") if name.is_some() => {
                rights.add_to(scope, &group, &resource, name, &["escalate"]);
            }
            ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => match role {
                Some(("ClusterRole", role)) => {
                    rights.add_to(None, &group, "clusterroles", role, &["bind"]);
                }
                Some((_, role)) => rights.add_to(scope, &group, "roles", role, &["bind"]),
                // Found only in the text of a template that does not render with these values: the name is unknown.
                None => {}
            },
            // The operator can have to remove versions from `status.storedVersions`.
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                let name = name.filter(|_| by_name);
                if name.is_some() || !by_name {
                    rights.add_to(None, &group, "customresourcedefinitions/status", name, &["patch"]);
                }
            }
            _ => {}
        }
    }

    /// Roles called `role`, and their bindings for the ServiceAccount `account` in `namespace`.
    #[must_use]
    pub fn manifests(&self, role: &str, account: &str, namespace: &str) -> Vec<Value> {
        let api = "rbac.authorization.k8s.io/v1";
        let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
        let mut out = Vec::new();
        let mut grant = |scope: Option<&str>, rules: Vec<Value>| {
            if rules.is_empty() {
                return;
            }
            // In other scopes the name of the role includes the operator's namespace.
            let own = if scope == Some(namespace) { role.to_owned() } else { format!("{namespace}-{role}") };
            let prefix = if scope.is_none() { "Cluster" } else { "" };
            let mut metadata = json!({"name": own});
            if let Some(scope) = scope {
                metadata["namespace"] = scope.into();
            }
            out.push(json!({"apiVersion": api, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules}));
            out.push(json!({
                "apiVersion": api, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": own},
                "subjects": subject,
            }));
        };
        grant(None, self.everywhere());
        grant(Some(namespace), self.within(namespace));
        for (other, rules) in self.elsewhere(namespace) {
            grant(Some(other.as_str()), rules);
        }
        out
    }

    /// The rights as values of Windlass's own chart.
    #[must_use]
    pub fn values(&self, namespace: &str) -> Value {
        json!({"rbac": {
            "rules": self.within(namespace),
            "namespaceRules": self.elsewhere(namespace),
            "clusterRules": self.everywhere(),
        }})
    }

    fn within(&self, namespace: &str) -> Vec<Value> {
        let added = self.added.namespace_rules.get(namespace).into_iter().flatten().chain(&self.added.rules);
        self.rights.rules(Some(namespace)).into_iter().chain(added.cloned()).collect()
    }

    /// Rules in namespaces other than the operator's.
    fn elsewhere(&self, namespace: &str) -> BTreeMap<String, Vec<Value>> {
        let names: BTreeSet<&str> =
            self.rights.namespaces().chain(self.added.namespace_rules.keys().map(String::as_str)).collect();
        let rules = |name: &str| {
            let added = self.added.namespace_rules.get(name).into_iter().flatten();
            self.rights.rules(Some(name)).into_iter().chain(added.cloned()).collect()
        };
        names.into_iter().filter(|n| *n != namespace).map(|n| (n.to_owned(), rules(n))).collect()
    }

    fn everywhere(&self) -> Vec<Value> {
        self.rights.rules(None).into_iter().chain(self.added.cluster_rules.iter().cloned()).collect()
    }
}

/// The kinds for which every object in the text of templates is also rendered, so all names are known.
fn complete(kinds: &[Kind]) -> BTreeSet<(String, String)> {
    let mut counts: BTreeMap<(String, String), (usize, BTreeSet<&str>)> = BTreeMap::new();
    for Kind { gvk, object, .. } in kinds {
        let (written, names) = counts.entry((gvk.group.clone(), gvk.kind.clone())).or_default();
        match object {
            None => *written += 1,
            Some(object) => names.extend(Some(ObjectMeta::of(object).name()).filter(|name| !name.is_empty())),
        }
    }
    counts.into_iter().filter(|(_, (written, names))| names.len() >= *written).map(|(kind, _)| kind).collect()
}

/// Group, resource, and whether the resource is cluster-scoped.
fn resource(gvk: &Gvk, defined: &BTreeMap<(String, String), Defined>) -> (String, String, bool) {
    if let Some(found) = defined.get(&(gvk.group.clone(), gvk.kind.clone())) {
        return (gvk.group.clone(), found.plural.clone(), found.everywhere);
    }
    let built_in = !gvk.group.contains('.') || gvk.group.ends_with(".k8s.io");
    (
        gvk.group.clone(),
        windlass_charts::plural(&gvk.kind),
        built_in && CLUSTER_WIDE.contains(&gvk.kind.as_str()),
    )
}

/// The resources that the CRDs among the objects define.
fn defined(kinds: &[Kind]) -> BTreeMap<(String, String), Defined> {
    let crds =
        kinds.iter().filter(|k| k.gvk.kind == "CustomResourceDefinition").filter_map(|k| k.object.as_ref());
    crds.map(|crd| {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let names = &crd["spec"]["names"];
        let defined =
            Defined { plural: text(&names["plural"]), everywhere: crd["spec"]["scope"] == "Cluster" };
        ((text(&crd["spec"]["group"]), text(&names["kind"])), defined)
    })
    .collect()
}

/// The kinds in the text of a template.
fn written(text: &str) -> Vec<Gvk> {
    let mut found = Vec::new();
    let mut api_version = None;
    for line in text.lines() {
        let value = |key: &str| {
            let value = line.strip_prefix(key)?.trim().trim_matches(['"', '\'']);
            (!value.is_empty() && !value.contains("{{")).then(|| value.to_owned())
        };
        if line.starts_with("---") {
            api_version = None;
        } else if let Some(found) = value("apiVersion:") {
            api_version = Some(found);
        } else if let (Some(kind), Some(api_version)) = (value("kind:"), &api_version) {
            found.push(Gvk::new(api_version, &kind));
        }
    }
    found
}

/// The namespaces of a `lookup` in a template.
#[derive(Debug, PartialEq, Eq)]
enum LookupScope {
    /// The namespace of the release.
    Release,
    Named(String),
    /// All namespaces.
    All,
    /// Known only after a render.
    Unknown,
}

/// A call of `lookup` in a template.
struct Lookup {
    gvk: Gvk,
    namespace: LookupScope,
    call: String,
}

/// The calls of `lookup` in a template.
fn looked_up(text: &str) -> Vec<Lookup> {
    let Ok(pattern) = regexp::compile(br#"lookup\s+"[^"\s]+"\s+"[^"\s]+"\s+\S+"#) else { return Vec::new() };
    let spans = pattern.find_all(text.as_bytes(), -1);
    let calls = spans.iter().filter_map(|span| text.get(span.start..span.end));
    calls
        .filter_map(|call| {
            let mut words = call.split_whitespace().skip(1);
            let mut quoted = || words.next().map(|w| w.trim_matches('"'));
            let gvk = Gvk::new(quoted()?, quoted()?);
            let namespace = match words.next()? {
                ".Release.Namespace" | "$.Release.Namespace" => LookupScope::Release,
                "\"\"" | "``" => LookupScope::All,
                word => match word.strip_prefix('"').and_then(|w| w.strip_suffix('"')) {
                    Some(name) => LookupScope::Named(name.to_owned()),
                    None => LookupScope::Unknown,
                },
            };
            Some(Lookup { gvk, namespace, call: call.to_owned() })
        })
        .collect()
}

/// Determines the needs of the modules and values on disk, and of their hooks' `--config`. `configuration` is the prefix of the
/// operator's webhook configuration names; by default the operator's own.
pub async fn needs(
    roots: &str,
    global: Option<&Path>,
    namespace: &str,
    unnumbered: u32,
    configuration: Option<&str>,
) -> (Needs, Vec<String>) {
    let modules = Modules::discover(roots, unnumbered, chart_compat::profile::Profile::default());
    let (values, broken) = Values::new(&modules, global);
    let problems = modules.problems.iter().cloned().chain(broken.into_values()).collect();
    let mut hooks = Vec::new();
    for module in &modules.modules {
        let owner = format!("module {}", module.name.name);
        hooks.extend(Hooks::of(owner, &module.path.join("hooks"), Scope::Module).await);
    }
    if let Some(directory) = global {
        let directory = global_directory(directory);
        hooks.extend(Hooks::of("global hooks".to_owned(), &directory, Scope::Global).await);
    }
    let own = format!("windlass-{namespace}");
    let needs = Needs::of(&modules, &values, namespace, &hooks, configuration.unwrap_or(&own));
    (needs, problems)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// The rights of a scope in a short form: `GROUP/RESOURCE [NAME] COUNT-OF-VERBS`.
    pub(super) fn summary(rights: &RightSet, scope: Option<&str>) -> Vec<String> {
        let here = rights.iter().filter(|right| right.scope == scope);
        let shown = here.map(|right| {
            let name = right.name.map_or_else(String::new, |name| format!("{name} "));
            format!("{}/{} {name}{}", right.group, right.resource, right.verbs.len())
        });
        shown.collect()
    }

    /// The needs have rights of the whole cluster, in the form of [`summary`].
    pub(super) fn assert_has(needs: &Needs, expected: &[&str]) {
        let shown = summary(&needs.rights, None);
        for expected in expected {
            assert!(shown.iter().any(|right| right == expected), "{expected}: {shown:?}");
        }
    }

    #[test]
    fn resources_are_named_as_kubernetes_names_them() {
        let table = [
            ("NetworkPolicy", "networkpolicies"),
            ("Ingress", "ingresses"),
            ("Endpoints", "endpoints"),
            ("EndpointSlice", "endpointslices"),
            ("Gateway", "gateways"),
            ("StorageClass", "storageclasses"),
            ("Pod", "pods"),
        ];
        for (kind, want) in table {
            assert_eq!(windlass_charts::plural(kind), want);
        }
    }

    #[tokio::test]
    async fn rights_follow_from_what_modules_render_write_out_and_look_up() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "001-web/templates/a.yaml",
            "apiVersion: v1\nkind: {{ \"Service\" }}\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: other}\n",
        );
        write(
            "001-web/templates/b.yaml",
            "{{ if .Values.web.more }}\napiVersion: apps/v1\nkind: Deployment\n{{ end }}\n{{ $x := lookup \"v1\" \"Node\" \"\" \"\" }}{{ $y := lookup \"v1\" \"Pod\" .Release.Namespace \"\" }}",
        );
        write(
            "001-web/templates/c.yaml",
            "apiVersion: t.test/v1\nkind: Policy\nmetadata: {name: p}\n---\napiVersion: t.test/v1\nkind: Quota\nmetadata: {name: q}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: b}\nroleRef: {kind: ClusterRole, name: view}\n",
        );
        write(
            "001-web/templates/d.yaml",
            "apiVersion: apps/v1\nkind: {{ ternary \"StatefulSet\" \"DaemonSet\" .Release.IsUpgrade }}\nmetadata: {name: d}\n",
        );
        write("001-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n");
        // A CRD of a chart, and one of a module without a chart.
        for (path, kind, plural) in
            [("001-web/crds/q.yaml", "Quota", "quotas"), ("002-hooked/crds/p.yaml", "Policy", "policys")]
        {
            let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition";
            let names = format!("names: {{kind: {kind}, plural: {plural}}}");
            let spec = format!("spec: {{group: t.test, scope: Cluster, {names}}}");
            write(path, &format!("{crd}\nmetadata: {{name: {plural}.t.test}}\n{spec}\n"));
        }
        let hook = |path: &str, binding: &str| {
            write(path, &format!("#!/bin/sh\necho '{{configVersion: v1, kubernetes: [{binding}]}}'\n"));
            fs::set_permissions(dir.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
        };
        hook("002-hooked/hooks/a.sh", "{kind: job, namespace: {nameSelector: {matchNames: [ns]}}}");
        hook("global/b.sh", "{kind: Quota}, {name: odd, kind: Nobody}");
        // What cannot be checked is reported.
        write("003-mute/hooks/c.sh", "#!/bin/sh\nexit 3\n");
        fs::set_permissions(dir.path().join("003-mute/hooks/c.sh"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let global = dir.path().join("global");
        let roots = dir.path().join("modules");
        fs::create_dir(&roots).unwrap();
        for module in ["001-web", "002-hooked", "003-mute"] {
            fs::rename(dir.path().join(module), roots.join(module)).unwrap();
        }
        let (needs, problems) = needs(&roots.to_string_lossy(), Some(&global), "ns", 1, None).await;
        assert_eq!(problems, [""; 0]);
        let starts = [
            "module hooked: what its hooks write",
            "module mute: what its hooks write",
            "module mute: what its hooks watch is not known: hook c.sh: --config: exit status 3",
            "global hooks: what its hooks write",
            "global hooks: hook b.sh: binding odd: the group of Nobody",
        ];
        assert_eq!(needs.unknown.len(), starts.len(), "{:?}", needs.unknown);
        for (text, start) in needs.unknown.iter().zip(starts) {
            assert!(text.starts_with(start), "{text}");
        }
        assert_eq!(
            summary(&needs.rights, Some("ns")),
            [
                "/configmaps 7",
                "/events 2",
                "/pods 3",
                "/secrets 7",
                "/services 7",
                "apps/daemonsets 7",
                "apps/deployments 7",
                "apps/statefulsets 7",
                "batch/jobs 3",
                "coordination.k8s.io/leases 7",
                "events.k8s.io/events 2",
                "rbac.authorization.k8s.io/rolebindings 7",
                "rbac.authorization.k8s.io/roles 7",
                "rbac.authorization.k8s.io/roles r 1",
                "windlass.dev/modules 7",
            ]
        );
        assert_eq!(
            summary(&needs.rights, None),
            [
                "/nodes 3",
                "apiextensions.k8s.io/customresourcedefinitions 3",
                "apiextensions.k8s.io/customresourcedefinitions policys.t.test 4",
                "apiextensions.k8s.io/customresourcedefinitions quotas.t.test 4",
                "apiextensions.k8s.io/customresourcedefinitions/status policys.t.test 1",
                "apiextensions.k8s.io/customresourcedefinitions/status quotas.t.test 1",
                "apiregistration.k8s.io/apiservices 2",
                "rbac.authorization.k8s.io/clusterroles view 1",
                "t.test/policys 3",
                "t.test/policys p 4",
                "t.test/quotas 4",
                "t.test/quotas q 4"
            ]
        );
        assert_eq!(
            summary(&needs.rights, Some("other")),
            ["/events 2", "/secrets 7", "events.k8s.io/events 2"]
        );
        let kinds: Vec<Value> =
            needs.manifests("windlass", "windlass", "ns").iter().map(|m| m["kind"].clone()).collect();
        assert_eq!(
            kinds,
            ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Role", "RoleBinding"]
        );
        let elsewhere = &needs.values("ns")["rbac"]["namespaceRules"];
        assert_eq!(elsewhere["other"][0]["resources"], json!(["secrets"]), "{elsewhere}");
    }
    #[test]
    fn lookups_hold_where_they_look() {
        let table = [
            (r#"lookup "v1" "Secret" .Release.Namespace "a""#, LookupScope::Release),
            (r#"lookup "v1" "Secret" $.Release.Namespace "a""#, LookupScope::Release),
            (r#"lookup "v1" "Secret" "other" "a""#, LookupScope::Named("other".to_owned())),
            (r#"lookup "v1" "Secret" "" """#, LookupScope::All),
            (r#"lookup "v1" "Secret" .Values.where "a""#, LookupScope::Unknown),
            (r#"lookup "v1" "Secret" (include "x" .) "a""#, LookupScope::Unknown),
        ];
        for (text, expected) in table {
            let found = looked_up(&format!("{{{{ $x := {text} }}}}"));
            assert_eq!(found.iter().map(|l| &l.namespace).collect::<Vec<_>>(), [&expected], "{text}");
            assert_eq!(found[0].gvk, Gvk::new("v1", "Secret"));
        }
    }
}
