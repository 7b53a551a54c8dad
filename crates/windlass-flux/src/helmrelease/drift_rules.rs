//! Ignore rules of drift detection, for the objects of a release: patterns and selectors of a target become names, indexes of lists
//! become keys of their items, as the engine's rules have them. Pure.

use std::sync::Arc;

use chart_compat::go::regexp::{Regexp, compile};
use serde_json::Value;

use flux_api::helm_release::{IgnoreRule, Selector};
use windlass_cluster::{Gvk, ObjectMeta};
use windlass_controller::{MAX_IGNORE_RULES, ReconcileError};
use windlass_engine::WHOLE_OBJECT;
use windlass_render::post_renderers::LabelSelector;

use super::super::error::FluxError;

/// Fields by which the API server knows the items of lists; the first set that an item has counts.
const KEYS: [&[&str]; 9] = [
    &["name"],
    &["containerPort", "protocol"],
    &["port", "protocol"],
    &["mountPath"],
    &["devicePath"],
    &["topologyKey", "whenUnsatisfiable"],
    &["uid"],
    &["type"],
    &["ip"],
];

/// Most fields that rules select, of each object of a release by itself, and bytes of them.
const MAX_FIELDS: usize = 20_000;
const MAX_FIELD_BYTES: usize = 2 << 20;

/// A target that is compiled.
struct Target {
    group: Option<Arc<Regexp>>,
    version: Option<Arc<Regexp>>,
    kind: Option<Arc<Regexp>>,
    name: Option<Arc<Regexp>>,
    namespace: Option<Arc<Regexp>>,
    labels: LabelSelector,
    annotations: LabelSelector,
}

impl Target {
    fn compile(target: &Selector) -> Result<Self, FluxError> {
        let pattern = |field: &str, text: &str| match text {
            "" => Ok(None),
            text => compile(format!("^(?:{text})$").as_bytes())
                .map(Some)
                .map_err(|e| format!("target.{field}: {text:?}: {e}")),
        };
        let selector = |field: &str, text: &str| {
            LabelSelector::parse(text).map_err(|e| format!("target.{field}: {text:?}: {e}"))
        };
        Ok(Self {
            group: pattern("group", &target.group)?,
            version: pattern("version", &target.version)?,
            kind: pattern("kind", &target.kind)?,
            name: pattern("name", &target.name)?,
            namespace: pattern("namespace", &target.namespace)?,
            labels: selector("labelSelector", &target.label_selector)?,
            annotations: selector("annotationSelector", &target.annotation_selector)?,
        })
    }

    fn matches(&self, gvk: &Gvk, object: &Value, namespace: &str) -> bool {
        let meta = ObjectMeta::of(object);
        let fits = |pattern: &Option<Arc<Regexp>>, text: &str| {
            pattern.as_ref().is_none_or(|pattern| pattern.is_match(text.as_bytes()))
        };
        let map = |all: &mut dyn Iterator<Item = (&str, &str)>| {
            all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        fits(&self.group, &gvk.group)
            && fits(&self.version, &gvk.version)
            && fits(&self.kind, &gvk.kind)
            && fits(&self.name, meta.name())
            && fits(&self.namespace, meta.namespace().unwrap_or(namespace))
            && self.labels.matches(&map(&mut meta.labels()))
            && self.annotations.matches(&map(&mut meta.annotations()))
    }
}

/// The engine's rules for the objects of a release; objects without a namespace are in the release's.
///
/// # Errors
/// A pattern or selector that is not valid, or too many paths.
pub(super) fn rules_for(
    rules: &[IgnoreRule],
    objects: &[Value],
    namespace: &str,
) -> Result<Vec<String>, ReconcileError> {
    let field = "spec.driftDetection.ignore";
    let paths = rules.iter().map(|rule| rule.paths.len().max(1)).sum::<usize>();
    if paths > MAX_IGNORE_RULES {
        return Err(ReconcileError::Config(format!(
            "{field}: {paths} paths, and at most {MAX_IGNORE_RULES} are allowed: name a field above several others"
        )));
    }
    let (mut out, mut bytes) = (Vec::new(), 0);
    for (at, rule) in rules.iter().enumerate() {
        let wrong =
            |why: FluxError| ReconcileError::Config(format!("spec.driftDetection.ignore[{at}].{why}"));
        let target = rule.target.as_ref().map(Target::compile).transpose().map_err(wrong)?;
        for object in objects {
            let Some(gvk) = Gvk::of(object) else { continue };
            if target.as_ref().is_some_and(|target| !target.matches(&gvk, object, namespace)) {
                continue;
            }
            let name = ObjectMeta::of(object).name();
            for path in rule.paths.iter().filter_map(|pointer| path_of(pointer, object)) {
                let field = format!("{}/{name}:{path}", gvk.kind);
                bytes += field.len();
                if bytes > MAX_FIELD_BYTES || out.len() == MAX_FIELDS {
                    return Err(wrong(FluxError::from(
                        "target: it selects more than 20,000 fields, or 2 MiB of their paths and names: select fewer objects",
                    )));
                }
                out.push(field);
            }
        }
    }
    Ok(out)
}

/// The engine's path of a JSON pointer into an object; `None` if it leads through an item that does not exist. An index of a list whose
/// items have no keys stands for the whole list: the API server knows no parts of it.
fn path_of(pointer: &str, object: &Value) -> Option<String> {
    if pointer.is_empty() {
        return Some(WHOLE_OBJECT.to_owned());
    }
    let mut path = String::new();
    let mut value = object;
    for part in pointer.trim_start_matches('/').split('/') {
        let part = part.replace("~1", "/").replace("~0", "~");
        if let Value::Array(list) = value {
            let item = list.get(part.parse::<usize>().ok()?)?;
            let Some(selector) = selector_of(item) else { return Some(path) };
            path.push_str(&selector);
            value = item;
            continue;
        }
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&part);
        value = &value[part.as_str()];
    }
    Some(path)
}

/// The selector of an item of a list, as the API server writes it in paths.
fn selector_of(item: &Value) -> Option<String> {
    if !(item.is_object() || item.is_array()) {
        return Some(format!("[={item}]"));
    }
    let keys = KEYS.iter().find(|keys| !item[keys[0]].is_null())?;
    let pairs = keys.iter().filter(|key| !item[**key].is_null()).map(|key| format!("{key}={}", item[*key]));
    Some(format!("[{}]", pairs.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn objects() -> Vec<Value> {
        vec![
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "labels": {"app": "web", "tier": "front"}},
                "spec": {"replicas": 1, "template": {"spec": {"containers": [
                    {"name": "main", "image": "a", "args": ["x"], "ports": [{"containerPort": 80, "protocol": "TCP"}]},
                ]}}},
            }),
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "data"},
                "spec": {"replicas": 1},
            }),
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "annotations": {"a": "b"}}}),
        ]
    }

    fn rules(rules: Value) -> Result<Vec<String>, String> {
        let rules: Vec<IgnoreRule> = serde_json::from_value(rules).unwrap();
        rules_for(&rules, &objects(), "ns").map_err(|e| e.to_string())
    }

    #[test]
    fn targets_are_patterns_and_selectors() {
        for (target, expected) in [
            (json!(null), vec!["Deployment/web", "StatefulSet/db", "Service/web"]),
            (json!({"kind": "Deployment|StatefulSet"}), vec!["Deployment/web", "StatefulSet/db"]),
            (json!({"kind": "Deploy"}), vec![]),
            (json!({"group": "apps", "name": "w.*"}), vec!["Deployment/web"]),
            (json!({"version": "v1", "group": "apps"}), vec!["Deployment/web", "StatefulSet/db"]),
            (json!({"namespace": "data"}), vec!["StatefulSet/db"]),
            (json!({"namespace": "ns"}), vec!["Deployment/web", "Service/web"]),
            (json!({"labelSelector": "tier in (front), app=web"}), vec!["Deployment/web"]),
            (json!({"annotationSelector": "a"}), vec!["Service/web"]),
        ] {
            let found = rules(json!([{"paths": ["/spec/replicas"], "target": target}])).unwrap();
            let expected: Vec<String> =
                expected.iter().map(|whose| format!("{whose}:spec.replicas")).collect();
            assert_eq!(found, expected, "{target}");
        }
        for (target, part) in [
            (json!({"kind": "("}), "spec.driftDetection.ignore[0].target.kind: \"(\""),
            (json!({"labelSelector": "a in"}), "spec.driftDetection.ignore[0].target.labelSelector"),
        ] {
            let error = rules(json!([{"paths": [""], "target": target}])).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn many_and_long_rules_are_refused() {
        let many = vec![json!({"paths": ["/spec", "/data"]}); MAX_IGNORE_RULES / 2];
        assert_eq!(rules(json!(many)).unwrap().len(), MAX_IGNORE_RULES * objects().len());
        let more = rules(json!([{"paths": vec!["/spec"; MAX_IGNORE_RULES + 1]}])).unwrap_err();
        assert!(
            more.contains("spec.driftDetection.ignore: 257 paths, and at most 256 are allowed"),
            "{more}"
        );
        let long = rules(json!([{"paths": ["/spec"]}, {"paths": [format!("/{}", "x".repeat(1 << 20))]}]));
        let long = long.unwrap_err();
        assert!(long.contains("spec.driftDetection.ignore[1].target: it selects more than"), "{long}");
    }

    #[test]
    fn pointers_are_paths_of_the_api_server() {
        let deployment = &objects()[0];
        for (pointer, expected) in [
            ("", Some("*")),
            ("/spec/replicas", Some("spec.replicas")),
            ("/metadata/annotations/a.b~1c", Some("metadata.annotations.a.b/c")),
            (
                "/spec/template/spec/containers/0/image",
                Some("spec.template.spec.containers[name=\"main\"].image"),
            ),
            (
                "/spec/template/spec/containers/0/ports/0",
                Some("spec.template.spec.containers[name=\"main\"].ports[containerPort=80,protocol=\"TCP\"]"),
            ),
            (
                "/spec/template/spec/containers/0/args/0",
                Some("spec.template.spec.containers[name=\"main\"].args[=\"x\"]"),
            ),
            ("/spec/template/spec/containers/1/image", None),
            ("/spec/template/spec/containers/-/image", None),
        ] {
            assert_eq!(path_of(pointer, deployment).as_deref(), expected, "{pointer}");
        }
    }
}
