//! The number of replicas of an object.
//!
//! Owns which objects a name stands for.

use chart_compat::yaml::tree::Kind;

use crate::error::Error;
use crate::fieldspec::{Create, FieldSpec, set_scalar, visit};
use crate::resource::{Objects, build_steps};
use crate::schema::Schemas;

/// Sets a number of replicas.
#[derive(Clone, Debug, Default)]
pub struct Replicas {
    /// The present name of the object, or a former one.
    pub name: String,
    /// How many.
    pub count: i64,
    /// The fields that hold the number.
    pub fields: Vec<FieldSpec>,
}

impl Replicas {
    /// Sets the number.
    ///
    /// # Errors
    /// There is no such object, or its field is not a scalar.
    pub fn apply(&self, objects: &mut Objects, schemas: &Schemas) -> Result<(), Error> {
        let mut found = false;
        let create = Create { kind: Kind::Scalar, tag: "!!int" };
        let named: Vec<(usize, Vec<crate::resource::Id>)> = (objects.items().iter().enumerate())
            .filter(|(_, object)| !object.is_empty())
            .map(|(at, object)| {
                let ids = object.all_ids(schemas).into_iter().filter(|id| id.name == self.name);
                (at, ids.collect::<Vec<_>>())
            })
            .filter(|(_, ids)| !ids.is_empty())
            .collect();
        for spec in &self.fields {
            build_steps::count(1 + named.len() / 2)?;
            for (at, _) in named.iter().filter(|(_, ids)| ids.iter().any(|id| id.gvk.is_selected(&spec.gvk)))
            {
                found = true;
                let Some(object) = objects.contents_mut().get_mut(*at) else { continue };
                let count = self.count.to_string();
                visit(spec, &mut object.node, Some(create), &mut |node| set_scalar(node, &count, "!!int"))?;
            }
        }
        if found {
            return Ok(());
        }
        let kinds: Vec<String> = self.fields.iter().map(|spec| spec.gvk.to_string()).collect();
        Err(Error::text(format!(
            "resource with name {} does not match a config with the following GVK [{}]",
            self.name,
            kinds.join(" ")
        )))
    }
}
