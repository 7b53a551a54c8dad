//! Names of objects in fields of others.
//!
//! Owns which object a field names: by its former names, its kind, its namespace, and at last by prefixes and suffixes.

use std::collections::{HashMap, HashSet};

use chart_compat::yaml::tree::{Kind, Node};

use crate::error::Error;
use crate::fieldspec::{BackReference, FieldSpec, set_scalar, visit};
use crate::format::to_yaml;
use crate::resource::build_steps;
use crate::resource::node::{scalar, set};
use crate::resource::shared::sync;
use crate::resource::{Gvk, Id, Objects, Resource, to_data};
use crate::schema::Schemas;

/// An object that may be named.
struct Candidate {
    id: Id,
    former: Vec<Id>,
    /// The effective namespace of its first identity.
    original_namespace: String,
}

/// A field to look at, and the kind of what it names.
type Filter<'r> = (FieldSpec, &'r Gvk);

/// Writes the present names into all fields that hold former ones.
///
/// # Errors
/// A field has no name in it, or stands for more than one object.
pub fn fix(objects: &mut Objects, references: &[BackReference], schemas: &Schemas) -> Result<(), Error> {
    objects.items().iter().try_for_each(Resource::check_former_ids)?;
    let known = Known::of(objects.items(), schemas);
    let mut filters: HashMap<Gvk, Vec<Filter<'_>>> = HashMap::new();
    for at in 0..objects.items().len() {
        let Some(candidate) = known.candidates.get(at) else { continue };
        let original = candidate.former.first().unwrap_or(&candidate.id).gvk.clone();
        let filters = filters.entry(original).or_insert_with_key(|gvk| filters_of(gvk, references));
        if filters.is_empty() {
            continue;
        }
        let Some(object) = objects.items().get(at) else { continue };
        let referrer = Referrer::of(object, &candidate.id)?;
        let mut node = object.node.clone();
        let mut changed = false;
        for (spec, target) in filters.iter() {
            let search =
                Search { known: &known, referrer: &referrer, objects: objects.items(), at, target, spec };
            visit(spec, &mut node, None, &mut |node| search.set(node, &mut changed)).map_err(|e| {
                e.within(format!("updating name reference in '{}' field of '{}'", spec.path, candidate.id))
            })?;
        }
        if changed && let Some(object) = objects.contents_mut().get_mut(at) {
            object.node = node;
            sync(object);
        }
    }
    Ok(())
}

/// The fields of a kind that hold names.
fn filters_of<'r>(gvk: &Gvk, references: &'r [BackReference]) -> Vec<Filter<'r>> {
    let mut out = Vec::new();
    for reference in references {
        build_steps::note(reference.referrers.len() / 2);
        for spec in reference.referrers.iter().filter(|spec| gvk.is_selected(&spec.gvk)) {
            out.push((FieldSpec::of_all(&spec.path, false), &reference.target));
        }
    }
    out
}

struct Known {
    candidates: Vec<Candidate>,
    by_former_name: HashMap<String, Vec<usize>>,
    by_original_namespace: HashMap<String, Vec<usize>>,
}

impl Known {
    fn of(objects: &[Resource], schemas: &Schemas) -> Self {
        let mut known = Self {
            candidates: Vec::with_capacity(objects.len()),
            by_former_name: HashMap::new(),
            by_original_namespace: HashMap::new(),
        };
        for (at, object) in objects.iter().enumerate() {
            let (id, former) = (object.id(schemas), object.former_ids(schemas));
            for name in former.iter().map(|id| &id.name) {
                let places = known.by_former_name.entry(name.clone()).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            }
            let original = former.first().unwrap_or(&id);
            let original_namespace = original.effective_namespace().to_owned();
            if !original.cluster_scoped {
                known.by_original_namespace.entry(original_namespace.clone()).or_default().push(at);
            }
            known.candidates.push(Candidate { id, former, original_namespace });
        }
        known
    }
}

/// The object whose fields are looked at.
struct Referrer<'o> {
    id: &'o Id,
    /// The namespaces of the ServiceAccounts that a RoleBinding names.
    binding_namespaces: HashSet<String>,
    role: Option<Gvk>,
}

impl<'o> Referrer<'o> {
    fn of(object: &Resource, id: &'o Id) -> Result<Self, Error> {
        let mut binding_namespaces = HashSet::new();
        if id.gvk.kind == "RoleBinding"
            && let Some(subjects) = object.node.get("subjects").filter(|s| s.kind == Kind::List)
        {
            for subject in &subjects.content {
                let is_account = subject.get("kind").is_some_and(|kind| kind.value == "ServiceAccount");
                let Some(namespace) = subject.get("namespace").filter(|_| is_account) else { continue };
                if !matches!(to_data(namespace), Ok(chart_compat::data::Data::String(_))) {
                    return Err(Error::text(format!(
                        "Invalid Input: namespace is blank for resource \"{id}\"\n"
                    )));
                }
                binding_namespaces.insert(namespace.value.clone());
            }
        }
        let role = object.node.get("roleRef").and_then(|role| {
            let (group, kind) = (role.get("apiGroup")?, role.get("kind")?);
            Some(Gvk { group: group.value.clone(), version: String::new(), kind: kind.value.clone() })
        });
        Ok(Self { id, binding_namespaces, role })
    }

    /// Whether it may name an object at all.
    fn sees(&self, candidate: &Candidate) -> bool {
        self.id.cluster_scoped
            || candidate.id.cluster_scoped
            || candidate.id.effective_namespace() == self.id.effective_namespace()
            || self.binding_namespaces.contains(&candidate.id.namespace)
    }

    /// Whether it may name an object of this namespace.
    fn reaches(&self, candidate: &Candidate) -> bool {
        self.id.cluster_scoped
            || candidate.id.cluster_scoped
            || candidate.id.gvk.kind == "ServiceAccount"
            || candidate.id.effective_namespace() == self.id.effective_namespace()
    }
}

/// The search for what one field names.
struct Search<'s> {
    known: &'s Known,
    referrer: &'s Referrer<'s>,
    objects: &'s [Resource],
    at: usize,
    target: &'s Gvk,
    spec: &'s FieldSpec,
}

impl Search<'_> {
    fn set(&self, node: &mut Node, changed: &mut bool) -> Result<(), Error> {
        if node.is_null() {
            return Ok(());
        }
        match node.kind {
            Kind::Scalar => self.set_name(node, changed),
            Kind::Map => self.set_map(node, changed),
            Kind::List => node.content.iter_mut().try_for_each(|item| match item.kind {
                _ if item.is_null() => Ok(()),
                Kind::Scalar => self.set_name(item, changed),
                Kind::Map => self.set_map(item, changed),
                Kind::List | Kind::Document | Kind::Alias => {
                    Err(Error::text("an item is expected to be either a string or a map of string"))
                }
            }),
            Kind::Document | Kind::Alias => Err(Error::text("node must be a scalar, sequence or map")),
        }
    }

    fn set_name(&self, node: &mut Node, changed: &mut bool) -> Result<(), Error> {
        let Some(found) = self.find(&node.value, None)? else { return Ok(()) };
        if found.id.name != node.value {
            set_scalar(node, &found.id.name, "")?;
            *changed = true;
        }
        Ok(())
    }

    fn set_map(&self, node: &mut Node, changed: &mut bool) -> Result<(), Error> {
        let Some(name) = node.get("name") else {
            return Err(Error::text("path config error; no 'name' field in node"));
        };
        let namespace = node.get("namespace").map(|namespace| namespace.value.clone());
        let old = name.value.clone();
        let Some(found) = self.find(&old, Some(namespace.as_deref()))? else { return Ok(()) };
        if found.id.name == old && found.id.namespace.is_empty() {
            return Ok(());
        }
        *changed = true;
        set(node, "name", scalar(&found.id.name))?;
        if found.id.namespace.is_empty() {
            return Ok(());
        }
        set(node, "namespace", scalar(&found.id.namespace))
    }

    /// Whether a candidate is in the namespace that a field names: the original one, if any object was in it.
    fn in_namespace(&self, namespace: &str) -> impl Fn(&Candidate) -> bool {
        let before = self.known.by_original_namespace.get(namespace);
        build_steps::note(before.map_or(0, Vec::len) / 4);
        let original = before.is_some_and(|places| {
            places.iter().filter_map(|at| self.known.candidates.get(*at)).any(|c| self.referrer.sees(c))
        });
        move |candidate| {
            if original {
                candidate.original_namespace == namespace
            } else {
                !candidate.id.cluster_scoped && candidate.id.effective_namespace() == namespace
            }
        }
    }

    /// The object that a former name stands for. `namespace` is that of a field with name and namespace.
    fn find(&self, name: &str, namespace: Option<Option<&str>>) -> Result<Option<&Candidate>, Error> {
        let Some(places) = self.known.by_former_name.get(name) else { return Ok(None) };
        let former =
            |at: &usize| self.known.candidates.get(*at).map_or(0, |candidate| candidate.former.len());
        build_steps::count(places.iter().map(|at| 1 + former(at)).sum())?;
        let in_namespace = namespace.flatten().map(|namespace| self.in_namespace(namespace));
        let role = self.referrer.role.as_ref().filter(|_| self.spec.path.ends_with("roleRef/name"));
        let was =
            |candidate: &Candidate, gvk: &Gvk| candidate.former.iter().any(|id| id.gvk.is_selected(gvk));
        let fits = |candidate: &Candidate| {
            self.referrer.sees(candidate)
                && in_namespace.as_ref().is_none_or(|fits| fits(candidate))
                && was(candidate, self.target)
                && role.is_none_or(|role| was(candidate, role))
                && self.referrer.reaches(candidate)
        };
        let get = |at: &usize| self.known.candidates.get(*at);
        let mut found: Vec<usize> = places.iter().filter(|at| get(at).is_some_and(fits)).copied().collect();
        if let [one] = found.as_slice() {
            return Ok(get(one));
        }
        for lenient in [true, false] {
            if lenient || found.len() > 1 {
                found.retain(|at| self.same_affixes(*at, lenient));
            }
        }
        let Some(first) = found.first().and_then(get) else { return Ok(None) };
        let same = |at: &usize| {
            get(at).is_some_and(|other| {
                other.id.name == first.id.name
                    && (namespace.is_none() || other.id.namespace == first.id.namespace)
            })
        };
        if found.iter().all(same) {
            return Ok(Some(first));
        }
        Err(self.too_many(&found))
    }

    fn same_affixes(&self, at: usize, lenient: bool) -> bool {
        match (self.objects.get(at), self.objects.get(self.at)) {
            (Some(candidate), Some(referrer)) => candidate.same_affixes(referrer, lenient),
            _ => false,
        }
    }

    fn too_many(&self, found: &[usize]) -> Error {
        let yaml = |at: usize| {
            let object = self.objects.get(at).cloned();
            object.and_then(|object| to_yaml(&[object]).ok()).unwrap_or_default()
        };
        let ids: Vec<String> = found
            .iter()
            .filter_map(|at| self.known.candidates.get(*at))
            .map(|candidate| candidate.id.to_string())
            .collect();
        let mut text = format!(
            "found multiple possible referrals: {}\n\n**** Too many possible referral targets to referrer:\n{}\n",
            ids.join(", "),
            yaml(self.at)
        );
        for (number, at) in found.iter().enumerate() {
            text.push_str(&format!("--- possible referral {number}:\n{}\n", yaml(*at)));
        }
        Error::Text(text)
    }
}
