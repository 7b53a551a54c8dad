//! The rights that an operator needs for its modules: as few as do.
//!
//! What modules create is read from what they render with the values of their files, and from the kinds that their templates
//! name: a template may be waiting for a value. Hooks say with `--config` what they watch and answer; webhooks are also seen in
//! their text. What hooks write to a cluster is theirs to know: their modules are named, and rules for that can be added.

mod added;
mod watches;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use chart_compat::chart::Crd;
use chart_compat::go::regexp;
use chart_compat::render::{Capabilities, Options, Rendered};
use serde_json::{Value, json};

use super::hooks::global_directory;
use super::module::{Module, Modules};
use super::run::At;
use super::values::Values;
use crate::cluster::Gvk;
use crate::hooks::config::HookConfig;
use crate::hooks::{CONFIG_TIMEOUT, HookSet, Scope};
use crate::render::{RenderBounds, SystemWorld, parse_manifest};

pub use added::Added;

/// What is done to the objects of a release.
const OWN: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];
/// What is done to objects that templates look up.
const LOOK: [&str; 3] = ["get", "list", "watch"];

/// Kinds of Kubernetes itself that belong to no namespace.
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

/// Rights by where they hold: API group, resource and, where they are for one object alone, its name; with verbs.
type Rights = BTreeMap<(String, String, Option<String>), BTreeSet<&'static str>>;

/// What an operator of these modules must be allowed to do.
#[derive(Default)]
pub struct Needs {
    /// In the operator's namespace.
    namespaced: Rights,
    /// Everywhere.
    everywhere: Rights,
    /// Rules of the user's own besides.
    added: Added,
    /// What could not be found out, each text with its module.
    pub unknown: Vec<String>,
}

fn text_of(crd: &Crd) -> String {
    String::from_utf8_lossy(&crd.data).into_owned()
}

/// The objects of manifests, each with its kind, as they are made in a namespace.
fn made(text: &str, home: &str) -> Vec<(Gvk, Option<Value>)> {
    let one = |text: &&str| {
        let mut object = parse_manifest(text).ok()?;
        let gvk = Gvk::of(&object)?;
        if object["metadata"].is_object() && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = home.into();
        }
        Some((gvk, Some(object)))
    };
    chart_compat::render::split_documents(text).iter().filter_map(one).collect()
}

/// The hooks of a module, or the global ones: what they say of themselves, or why they do not.
pub struct Hooks {
    owner: String,
    /// Configurations with the names of their hooks.
    said: Result<Vec<(String, HookConfig)>, String>,
    /// Webhooks that their texts name.
    in_text: webhooks::Kinds,
}

impl Hooks {
    /// Asks the hooks below a directory; `None` where there are none.
    async fn of(owner: String, directory: &Path, scope: Scope) -> Option<Self> {
        let in_text = webhooks::Kinds::in_text(directory, scope)?;
        let loaded = HookSet::load(directory, "", "", scope, CONFIG_TIMEOUT).await;
        let said = loaded.map_err(|e| e.to_string()).map(|(set, _)| {
            set.hooks().iter().map(|hook| (hook.name.clone(), hook.config.clone())).collect()
        });
        Some(Self { owner, said, in_text })
    }
}

/// A resource as a CRD names it.
struct Defined {
    plural: String,
    everywhere: bool,
}

impl Needs {
    /// Looks through modules as they would run in a namespace.
    #[must_use]
    pub fn of(modules: &Modules, values: &Values, namespace: &str, hooks: &[Hooks]) -> Self {
        let mut needs = Self::default();
        for (group, resource) in [
            ("", "secrets"),
            ("", "configmaps"),
            ("coordination.k8s.io", "leases"),
            ("windlass.dev", "modules"),
        ] {
            add(&mut needs.namespaced, group, resource, &OWN);
        }
        for group in ["", "events.k8s.io"] {
            add(&mut needs.namespaced, group, "events", &["create", "patch"]);
        }
        let mut kinds = Vec::new();
        for module in &modules.modules {
            needs.module(module, values, namespace, &mut kinds);
        }
        let defined = defined(&kinds);
        for (gvk, object) in &kinds {
            needs.kind(gvk, object.as_ref(), &defined, namespace);
        }
        for hooks in hooks {
            needs.hooks(hooks, &defined, namespace);
        }
        needs
    }

    /// Rules that nobody can find out, as the user knows them.
    #[must_use]
    pub fn with(self, added: Added) -> Self {
        Self { added, ..self }
    }

    fn hooks(&mut self, hooks: &Hooks, defined: &BTreeMap<(String, String), Defined>, namespace: &str) {
        let owner = &hooks.owner;
        self.unknown.push(format!(
            "{owner}: what its hooks write in the cluster, and read besides what they watch, is not known; add rules for that with \
             --add-rules FILE"
        ));
        webhooks::add_rights(&mut self.everywhere, hooks.in_text);
        let said = match &hooks.said {
            Ok(said) => said,
            Err(text) => {
                return self.unknown.push(format!("{owner}: what its hooks watch is not known: {text}"));
            }
        };
        for (hook, config) in said {
            webhooks::add_rights(&mut self.everywhere, webhooks::Kinds::of(config));
            for binding in &config.kubernetes {
                let rights = (&mut self.namespaced, &mut self.everywhere);
                if let Err(text) = watches::add_rights(rights, binding, defined, namespace) {
                    self.unknown.push(format!("{owner}: hook {hook}: {text}"));
                }
            }
        }
    }

    /// The kinds of a module, with the objects where they are known.
    fn module(
        &mut self,
        module: &Module,
        values: &Values,
        namespace: &str,
        kinds: &mut Vec<(Gvk, Option<Value>)>,
    ) {
        let name = &module.name.name;
        let home = module.place.namespace.as_deref().unwrap_or(namespace);
        if home != namespace {
            for (group, resource) in [("", "secrets"), ("coordination.k8s.io", "leases")] {
                add(&mut self.everywhere, group, resource, &OWN);
            }
        }
        if let Some((within, account)) = module.place.service_account(home) {
            let rights = if within == namespace { &mut self.namespaced } else { &mut self.everywhere };
            add_named(rights, "", "serviceaccounts", Some(account), &["impersonate"]);
        }
        let mut tell = |text: String| self.unknown.push(format!("module {name}: {text}"));
        let chart = match &module.chart {
            Ok(Some(chart)) => chart,
            Ok(None) => return kinds.extend(module.crds().iter().flat_map(|c| made(&text_of(c), home))),
            Err(text) => return tell(text.clone()),
        };
        let mut charts = vec![chart.chart()];
        while let Some(chart) = charts.pop() {
            charts.extend(&chart.dependencies);
            for template in &chart.templates {
                let text = String::from_utf8_lossy(&template.data);
                let elsewhere = (home != namespace).then(|| json!({"metadata": {"namespace": home}}));
                kinds.extend(written(&text).into_iter().map(|gvk| (gvk, elsewhere.clone())));
                for (gvk, own) in looked_up(&text) {
                    let defined = BTreeMap::new();
                    let (group, resource, everywhere) = resource(&gvk, &defined);
                    let rights = if own && !everywhere && home == namespace {
                        &mut self.namespaced
                    } else {
                        &mut self.everywhere
                    };
                    add(rights, &group, &resource, &LOOK);
                }
            }
        }
        let options = |at: At| Options {
            release: at.release(name, home),
            capabilities: Capabilities::default(),
            skip_schema_validation: true,
            subchart_notes: false,
            limits: RenderBounds::default().limits(),
        };
        let rendered = values.for_chart(&module.name.key).and_then(|values| {
            let deadline = Some(RenderBounds::default().deadline());
            let world = SystemWorld { deadline, ..SystemWorld::default() };
            let render = |at| chart.render(&values, &options(at), &world, &mut |_| {});
            match render(At::FIRST) {
                Ok(first) if !first.reads_revision => Ok(vec![first]),
                // What is made at one revision only is made all the same.
                Ok(first) => Ok([first].into_iter().chain(render(At::PEERS)).collect()),
                Err(_) => Ok(vec![render(At::PEERS).map_err(|e| e.to_string())?]),
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
        for text in texts.chain(module.crds().iter().map(text_of)) {
            kinds.extend(made(&text, home));
        }
    }

    fn kind(
        &mut self,
        gvk: &Gvk,
        object: Option<&Value>,
        defined: &BTreeMap<(String, String), Defined>,
        namespace: &str,
    ) {
        let (group, resource, everywhere) = resource(gvk, defined);
        let elsewhere =
            object.and_then(|o| o["metadata"]["namespace"].as_str()).is_some_and(|n| n != namespace);
        let rights = if everywhere || elsewhere { &mut self.everywhere } else { &mut self.namespaced };
        add(rights, &group, &resource, &OWN);
        // Whoever hands out rights must have them, or be allowed to hand them out without: by name, where names are known.
        let name = object.and_then(|o| o["metadata"]["name"].as_str());
        let role = object
            .map(|o| (o["roleRef"]["kind"].as_str().unwrap_or_default(), o["roleRef"]["name"].as_str()));
        match (group.as_str(), resource.as_str()) {
            ("rbac.authorization.k8s.io", "roles" | "clusterroles") if name.is_some() => {
                add_named(rights, &group, &resource, name, &["escalate"]);
            }
            ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => match role {
                Some(("ClusterRole", role)) => {
                    add_named(&mut self.everywhere, &group, "clusterroles", role, &["bind"]);
                }
                Some((_, role)) => add_named(rights, &group, "roles", role, &["bind"]),
                // Written out in a template that does not render with these values: its name is not known.
                None => {}
            },
            // Which versions objects were stored in, it may have to forget.
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                add(rights, &group, "customresourcedefinitions/status", &["patch"]);
            }
            _ => {}
        }
    }

    /// Roles and bindings for the ServiceAccount `name` of a namespace.
    #[must_use]
    pub fn manifests(&self, name: &str, namespace: &str) -> Vec<Value> {
        let api = "rbac.authorization.k8s.io/v1";
        let subject = json!([{"kind": "ServiceAccount", "name": name, "namespace": namespace}]);
        let mut out = Vec::new();
        for (prefix, rules, within) in [("Cluster", self.everywhere(), false), ("", self.namespaced(), true)]
        {
            if rules.is_empty() {
                continue;
            }
            let metadata = if within {
                json!({"name": name, "namespace": namespace})
            } else {
                json!({"name": format!("{namespace}-{name}")})
            };
            let role = metadata["name"].clone();
            out.push(json!({"apiVersion": api, "kind": format!("{prefix}Role"), "metadata": metadata, "rules": rules}));
            out.push(json!({
                "apiVersion": api, "kind": format!("{prefix}RoleBinding"), "metadata": metadata,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": format!("{prefix}Role"), "name": role},
                "subjects": subject,
            }));
        }
        out
    }

    /// The same as values of Windlass's own chart.
    #[must_use]
    pub fn values(&self) -> Value {
        json!({"rbac": {"rules": self.namespaced(), "clusterRules": self.everywhere()}})
    }

    fn namespaced(&self) -> Vec<Value> {
        rules(&self.namespaced, &self.added.rules)
    }

    fn everywhere(&self) -> Vec<Value> {
        rules(&self.everywhere, &self.added.cluster_rules)
    }
}

fn add(rights: &mut Rights, group: &str, resource: &str, verbs: &[&'static str]) {
    add_named(rights, group, resource, None, verbs);
}

fn add_named(rights: &mut Rights, group: &str, resource: &str, name: Option<&str>, verbs: &[&'static str]) {
    let key = (group.to_owned(), resource.to_owned(), name.map(str::to_owned));
    rights.entry(key).or_default().extend(verbs);
}

/// Rules of a role: resources of one group with the same verbs share one. Those that were added stay as they are.
fn rules(rights: &Rights, added: &[Value]) -> Vec<Value> {
    type Alike<'r> = (&'r str, &'r BTreeSet<&'static str>, Option<&'r str>);
    let mut alike: BTreeMap<Alike<'_>, Vec<&str>> = BTreeMap::new();
    for ((group, resource, name), verbs) in rights {
        alike.entry((group, verbs, name.as_deref())).or_default().push(resource);
    }
    alike
        .into_iter()
        .map(|((group, verbs, name), resources)| {
            let mut rule = json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
            if let Some(name) = name {
                rule["resourceNames"] = json!([name]);
            }
            rule
        })
        .chain(added.iter().cloned())
        .collect()
}

/// Group, resource, and whether it belongs to no namespace.
fn resource(gvk: &Gvk, defined: &BTreeMap<(String, String), Defined>) -> (String, String, bool) {
    if let Some(found) = defined.get(&(gvk.group.clone(), gvk.kind.clone())) {
        return (gvk.group.clone(), found.plural.clone(), found.everywhere);
    }
    let built_in = !gvk.group.contains('.') || gvk.group.ends_with(".k8s.io");
    (gvk.group.clone(), plural(&gvk.kind), built_in && CLUSTER_WIDE.contains(&gvk.kind.as_str()))
}

/// The resource of a kind by Kubernetes' own rule (`meta.UnsafeGuessKindToResource`), which holds for all kinds of its own.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        _ if lower == "endpoints" => lower,
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if lower.ends_with(['s', 'x']) || lower.ends_with("ch") => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

/// What the CRDs among objects define.
fn defined(kinds: &[(Gvk, Option<Value>)]) -> BTreeMap<(String, String), Defined> {
    let crds = kinds
        .iter()
        .filter(|(gvk, _)| gvk.kind == "CustomResourceDefinition")
        .filter_map(|(_, o)| o.as_ref());
    crds.map(|crd| {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let names = &crd["spec"]["names"];
        let defined =
            Defined { plural: text(&names["plural"]), everywhere: crd["spec"]["scope"] == "Cluster" };
        ((text(&crd["spec"]["group"]), text(&names["kind"])), defined)
    })
    .collect()
}

/// The kinds that a template writes out.
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

/// The kinds that a template looks up, and whether in the release's namespace alone.
fn looked_up(text: &str) -> Vec<(Gvk, bool)> {
    let Ok(pattern) = regexp::compile(br#"lookup\s+"[^"\s]+"\s+"[^"\s]+"\s+\S+"#) else { return Vec::new() };
    let spans = pattern.find_all(text.as_bytes(), -1);
    let calls = spans.iter().filter_map(|span| text.get(span.start..span.end));
    calls
        .filter_map(|call| {
            let mut words = call.split_whitespace().skip(1).map(|w| w.trim_matches('"'));
            let gvk = Gvk::new(words.next()?, words.next()?);
            let namespace = words.next()?;
            Some((gvk, matches!(namespace, ".Release.Namespace" | "$.Release.Namespace")))
        })
        .collect()
}

/// Modules and their values as they are on disk, with what their hooks say on `--config`.
pub async fn needs(
    roots: &str,
    global: Option<&Path>,
    namespace: &str,
    unnumbered: u32,
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
    let needs = Needs::of(&modules, &values, namespace, &hooks);
    (needs, problems)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

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
            assert_eq!(plural(kind), want);
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
        // One of a chart, and one of a module without.
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
        // What cannot be asked is told.
        write("003-mute/hooks/c.sh", "#!/bin/sh\nexit 3\n");
        fs::set_permissions(dir.path().join("003-mute/hooks/c.sh"), fs::Permissions::from_mode(0o755))
            .unwrap();
        let global = dir.path().join("global");
        let roots = dir.path().join("modules");
        fs::create_dir(&roots).unwrap();
        for module in ["001-web", "002-hooked", "003-mute"] {
            fs::rename(dir.path().join(module), roots.join(module)).unwrap();
        }
        let (needs, problems) = needs(&roots.to_string_lossy(), Some(&global), "ns", 1).await;
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
        let all = |rights: &Rights| -> Vec<String> {
            let shown = |((g, r, name), v): (&(String, String, Option<String>), &BTreeSet<&str>)| {
                format!("{g}/{r} {}{}", name.as_ref().map_or_else(String::new, |n| format!("{n} ")), v.len())
            };
            rights.iter().map(shown).collect()
        };
        assert_eq!(
            all(&needs.namespaced),
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
            all(&needs.everywhere),
            [
                "/nodes 3",
                "/secrets 7",
                "apiextensions.k8s.io/customresourcedefinitions 7",
                "apiextensions.k8s.io/customresourcedefinitions/status 1",
                "rbac.authorization.k8s.io/clusterroles view 1",
                "t.test/policys 7",
                "t.test/quotas 7"
            ]
        );
        let kinds: Vec<Value> = needs.manifests("windlass", "ns").iter().map(|m| m["kind"].clone()).collect();
        assert_eq!(kinds, ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]);
    }
}
