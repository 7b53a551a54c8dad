//! Dependencies between the objects of a release, and the waves in which they are applied. Pure.
//!
//! Starts from the phases of the kinds; references in an object and its annotations move it after the objects that it
//! needs. Knows nothing of the cluster: only objects of the release itself count.

use crate::objects::{
    desired_objects::{DesiredObject, DocumentError, is_crd, kinds_of_crd},
    kind_sorter::{self, KindPhase},
};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use windlass_cluster::{Gvk, ObjectMeta};

/// `Kind/name` or `Kind/namespace/name`, separated by commas: objects of the release that must be ready before this
/// one.
const DEPENDS_ON: &str = "windlass.dev/depends-on";
/// The same as kpt and cli-utils write it: `group/Kind/name`, or `group/namespaces/ns/Kind/name`.
const KPT_DEPENDS_ON: &str = "config.kubernetes.io/depends-on";

/// When an object is applied: the objects of one wave are applied at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Wave {
    pub(crate) phase: KindPhase,
    /// Steps after the first objects of the phase.
    pub(crate) depth: u32,
}

/// The order of a release's objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Order {
    /// The wave of each target.
    pub(crate) waves: Vec<Wave>,
    /// The objects that must be ready before each object, by its annotations.
    pub(crate) awaits: Vec<BTreeSet<usize>>,
}

/// Kind, namespace, name.
type Name<'a> = (&'a str, Option<&'a str>, &'a str);

/// Orders objects. An annotation that names an object outside the release, or that makes a cycle, is an error.
pub(crate) fn order(targets: &[DesiredObject]) -> Result<Order, DocumentError> {
    let names: BTreeMap<Name<'_>, usize> = targets
        .iter()
        .enumerate()
        .map(|(i, t)| {
            ((t.object.gvk.kind.as_str(), t.object.namespace.as_deref(), t.object.name.as_str()), i)
        })
        .collect();
    let awaits = targets.iter().map(|target| asked(target, &names)).collect::<Result<Vec<_>, _>>()?;
    let mut definers: BTreeMap<Gvk, usize> = BTreeMap::new();
    for (i, target) in targets.iter().enumerate().filter(|(_, t)| is_crd(&t.object)) {
        definers.extend(kinds_of_crd(&target.body).into_iter().map(|(gvk, _)| (gvk, i)));
    }
    let mut needs: Vec<BTreeSet<usize>> = targets
        .iter()
        .enumerate()
        .map(|(i, target)| {
            let mut found = BTreeSet::new();
            let own = target.object.namespace.as_deref();
            mentioned(&target.body, &mut |kind, namespace, name| {
                let place = |namespace| names.get(&(kind, namespace, name)).copied();
                found.extend(place(namespace.or(own)).or_else(|| place(None)));
            });
            found.extend(definers.get(&target.object.gvk));
            found.remove(&i);
            found.extend(&awaits[i]);
            found
        })
        .collect();
    let mut waves: Vec<Option<Wave>> = vec![None; targets.len()];
    settle(targets, &needs, &mut waves);
    if waves.iter().any(Option::is_none) {
        // References may form a cycle, as between two Services; annotations may not.
        needs.clone_from(&awaits);
        settle(targets, &needs, &mut waves);
    }
    let circle: Vec<String> = waves
        .iter()
        .zip(targets)
        .filter(|(wave, _)| wave.is_none())
        .map(|(_, target)| target.object.to_string())
        .collect();
    if let Some(first) = targets.iter().zip(&waves).find(|(_, wave)| wave.is_none()) {
        let reason = format!("annotation {DEPENDS_ON}: these wait for each other: {}", circle.join(", "));
        return Err(DocumentError::Manifest { path: first.0.path.clone(), reason });
    }
    Ok(Order { waves: waves.into_iter().flatten().collect(), awaits })
}

/// Assigns waves to objects whose dependencies have one, until nothing changes.
fn settle(targets: &[DesiredObject], needs: &[BTreeSet<usize>], waves: &mut [Option<Wave>]) {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); targets.len()];
    let mut open: Vec<usize> = vec![0; targets.len()];
    for (i, needed) in needs.iter().enumerate() {
        for need in needed.iter().filter(|need| waves[**need].is_none()) {
            users[*need].push(i);
            open[i] += 1;
        }
    }
    let mut free: VecDeque<usize> =
        (0..targets.len()).filter(|i| waves[*i].is_none() && open[*i] == 0).collect();
    while let Some(i) = free.pop_front() {
        let gvk = &targets[i].object.gvk;
        let mut wave = Wave { phase: kind_sorter::phase(&gvk.group, &gvk.kind), depth: 0 };
        for needed in needs[i].iter().filter_map(|need| waves[*need]) {
            if needed.phase >= wave.phase {
                wave = wave.max(Wave { phase: needed.phase, depth: needed.depth + 1 });
            }
        }
        waves[i] = Some(wave);
        for user in &users[i] {
            open[*user] -= 1;
            if open[*user] == 0 && waves[*user].is_none() {
                free.push_back(*user);
            }
        }
    }
}

/// The dependencies in an object's annotations.
fn asked(
    target: &DesiredObject,
    names: &BTreeMap<Name<'_>, usize>,
) -> Result<BTreeSet<usize>, DocumentError> {
    let mut found = BTreeSet::new();
    for annotation in [DEPENDS_ON, KPT_DEPENDS_ON] {
        let text = ObjectMeta::of(&target.body).annotation(annotation).unwrap_or_default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let parts: Vec<&str> = entry.split('/').collect();
            let (kind, namespace, name) = match parts[..] {
                [kind, name] => (kind, None, name),
                [_, kind, name] if annotation == KPT_DEPENDS_ON => (kind, None, name),
                [kind, namespace, name] => (kind, Some(namespace), name),
                [.., "namespaces", namespace, kind, name] => (kind, Some(namespace), name),
                _ => ("", None, ""),
            };
            let own = target.object.namespace.as_deref();
            let place = |namespace| names.get(&(kind, namespace, name)).copied();
            let Some(place) = place(namespace.or(own)).or_else(|| place(None)) else {
                let reason = format!(
                    "annotation {annotation}: {entry:?} is not an object of this release (Kind/name)"
                );
                return Err(DocumentError::Manifest { path: target.path.clone(), reason });
            };
            found.insert(place);
        }
    }
    Ok(found)
}

/// Reports each object that a body references in a form that Kubernetes has: kind, namespace, name.
fn mentioned<'v>(body: &'v Value, tell: &mut impl FnMut(&'v str, Option<&'v str>, &'v str)) {
    match body {
        Value::Array(items) => items.iter().for_each(|item| mentioned(item, tell)),
        Value::Object(map) => {
            for (key, value) in map.iter().filter(|(key, _)| *key != "metadata" && *key != "status") {
                let text = |name: &str| value.get(name).and_then(Value::as_str);
                let named = match key.as_str() {
                    "configMap" | "configMapRef" | "configMapKeyRef" => {
                        text("name").map(|n| ("ConfigMap", n))
                    }
                    "secret" => text("secretName").or_else(|| text("name")).map(|n| ("Secret", n)),
                    "secretRef" | "secretKeyRef" => text("name").map(|n| ("Secret", n)),
                    "persistentVolumeClaim" => text("claimName").map(|n| ("PersistentVolumeClaim", n)),
                    "serviceAccountName" => value.as_str().map(|n| ("ServiceAccount", n)),
                    "priorityClassName" => value.as_str().map(|n| ("PriorityClass", n)),
                    "service" => text("name").map(|n| ("Service", n)),
                    _ if key.ends_with("Ref") => text("kind").zip(text("name")),
                    _ => None,
                };
                if let Some((kind, name)) = named {
                    tell(kind, text("namespace"), name);
                }
                let listed = value.as_array().map_or(&[][..], Vec::as_slice);
                for item in listed.iter().filter(|_| key == "subjects" || key == "imagePullSecrets") {
                    let kind = if key == "subjects" { item["kind"].as_str() } else { Some("Secret") };
                    if let Some((kind, name)) = kind.zip(item["name"].as_str()) {
                        tell(kind, item["namespace"].as_str(), name);
                    }
                }
                mentioned(value, tell);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
