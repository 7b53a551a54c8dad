//! The namespace of all objects.
//!
//! Owns which objects get it, and the subjects of role bindings.

use std::collections::HashMap;

use chart_compat::yaml::tree::{Kind, Node};

use crate::error::Error;
use crate::fieldspec::{Create, FieldSpec, set_scalar, visit_all};
use crate::resource::node::check_kind;
use crate::resource::{Gvk, Objects, Resource};
use crate::schema::Schemas;

/// Which subjects of role bindings get the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Subjects {
    /// Those with the name `default`.
    #[default]
    Default,
    /// All ServiceAccounts.
    ServiceAccounts,
    /// None.
    None,
}

impl Subjects {
    /// Parses `setRoleBindingSubjects`.
    ///
    /// # Errors
    /// It is none of the modes.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" | "defaultOnly" => Ok(Self::Default),
            "allServiceAccounts" => Ok(Self::ServiceAccounts),
            "none" => Ok(Self::None),
            other => Err(Error::text(format!(
                "invalid value {other:?} for setRoleBindingSubjects: must be one of \"defaultOnly\", \"none\" or \"allServiceAccounts\""
            ))),
        }
    }
}

/// Sets the namespace.
#[derive(Clone, Debug, Default)]
pub struct Namespace {
    /// The namespace; an empty one changes nothing.
    pub namespace: String,
    /// Further fields that hold it.
    pub fields: Vec<FieldSpec>,
    /// Whether objects that have one keep it.
    pub unset_only: bool,
    /// The subjects that get it.
    pub subjects: Subjects,
}

impl Namespace {
    /// Sets the namespace of all objects but those from charts.
    ///
    /// # Errors
    /// A field is not a text, or two objects get one identity.
    pub fn apply(&self, objects: &mut Objects, schemas: &Schemas) -> Result<(), Error> {
        if self.namespace.is_empty() {
            return Ok(());
        }
        let items = objects.items_mut();
        let mut known: HashMap<String, usize> = HashMap::new();
        for object in items.iter() {
            *known.entry(object.id(schemas).key()).or_default() += 1;
        }
        for at in 0..items.len() {
            let Some(object) = items.get_mut(at).filter(|o| !o.is_empty() && !o.is_from_chart()) else {
                continue;
            };
            let before = object.id(schemas).key();
            object.store_id(schemas)?;
            self.set(object, schemas)?;
            let after = object.id(schemas).key();
            if let Some(count) = known.get_mut(&before) {
                *count -= 1;
            }
            let count = known.entry(after.clone()).or_default();
            *count += 1;
            if *count != 1 {
                let same = items.iter().filter(|object| object.id(schemas).key() == after);
                let shown: Result<Vec<String>, Error> = same.map(crate::format::to_json).collect();
                let shown = shown?.join(" ");
                let text = format!("namespace transformation produces ID conflict: [{shown}]");
                return Err(Error::text(text));
            }
        }
        Ok(())
    }

    /// Sets the namespace of one object, without its identity in mind.
    pub(crate) fn set(&self, object: &mut Resource, schemas: &Schemas) -> Result<(), Error> {
        let gvk = Gvk::of(&object.node);
        let node = &mut object.node;
        let core = node.get("apiVersion").is_some_and(|v| v.value == "v1");
        let is_binding = |kind: &str| matches!(kind, "RoleBinding" | "ClusterRoleBinding");
        let binding = is_binding(&gvk.kind);
        let used = |spec: &&FieldSpec| {
            spec.path != "metadata/namespace"
                && (core || spec.path != "metadata/name")
                && !(binding && is_binding(&spec.gvk.kind) && spec.path == "subjects/namespace")
        };
        let fields: Vec<FieldSpec> = self.fields.iter().filter(used).cloned().collect();
        if !schemas.is_cluster_scoped(&gvk.group, &gvk.version, &gvk.kind) {
            let create = Create { kind: Kind::Scalar, tag: "" };
            let spec = [FieldSpec::of_all("metadata/namespace", true)];
            visit_all(&spec, node, Some(create), &mut |node| self.set_field(node))?;
        }
        if binding {
            self.set_subjects(node)?;
        }
        let create = Create { kind: Kind::Scalar, tag: "!!str" };
        visit_all(&fields, node, Some(create), &mut |node| self.set_field(node)).map_err(|e| {
            let other_kind = matches!(e.root(), Error::Kind { got, .. } if *got != "ScalarNode");
            e.within(if other_kind {
                "namespace field specs must target scalar nodes"
            } else {
                "namespace transformation failed"
            })
        })
    }

    fn set_field(&self, node: &mut Node) -> Result<(), Error> {
        if self.unset_only && !node.is_null() && !node.value.is_empty() {
            return Ok(());
        }
        set_scalar(node, &self.namespace, "!!str")
    }

    fn set_subjects(&self, node: &mut Node) -> Result<(), Error> {
        let (key, value) = match self.subjects {
            Subjects::None => return Ok(()),
            Subjects::Default => ("name", "default"),
            Subjects::ServiceAccounts => ("kind", "ServiceAccount"),
        };
        let Some(subjects) = node.get_mut("subjects").filter(|subjects| !subjects.is_null()) else {
            return Ok(());
        };
        let set = |subject: &mut Node| {
            check_kind(subject, Kind::Map)?;
            let named = subject.get(key).filter(|found| !found.is_null());
            if let Some(named) = named {
                check_kind(named, Kind::Scalar)?;
                if named.value == value {
                    if subject.place("namespace").is_none() {
                        subject.push("namespace", Node::default());
                    }
                    if let Some(field) = subject.get_mut("namespace") {
                        self.set_field(field)?;
                    }
                }
            }
            Ok(())
        };
        check_kind(subjects, Kind::List)
            .and_then(|()| subjects.content.iter_mut().try_for_each(set))
            .map_err(|e: Error| e.within("setting namespace on (cluster)role binding subjects"))
    }
}
