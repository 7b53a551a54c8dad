//! What a kustomization has made so far: objects, configuration, vars.
//!
//! Owns how those of two kustomizations are put together, and how generated objects meet existing ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::Error;
use crate::fieldspec::Config;
use crate::generate::merge_data;
use crate::kustomization::Var;
use crate::resource::{Behavior, ORIGIN, Objects, Resource};
use crate::schema::Schemas;

#[derive(Default)]
pub(super) struct Accumulator {
    pub(super) objects: Objects,
    pub(super) config: Arc<Config>,
    pub(super) vars: BTreeMap<String, Var>,
}

impl Accumulator {
    pub(super) fn add_config(&mut self, config: &Arc<Config>) -> Result<(), Error> {
        self.config = self.config.merge(config)?;
        Ok(())
    }

    pub(super) fn add_var(&mut self, var: Var) -> Result<(), Error> {
        if self.vars.contains_key(&var.name) {
            return Err(Error::text(format!("var '{}' already encountered", var.name)));
        }
        self.vars.insert(var.name.clone(), var);
        Ok(())
    }

    /// Adds what another kustomization has made.
    pub(super) fn add(&mut self, other: Self, schemas: &Schemas) -> Result<(), Error> {
        let Self { objects, config, vars } = other;
        self.objects.add_all(objects.into_items(), schemas)?;
        self.add_config(&config)?;
        vars.into_values().try_for_each(|var| self.add_var(var))
    }

    /// Adds a generated object, or lets it replace or change the one of its identity.
    pub(super) fn absorb(&mut self, mut object: Resource, schemas: &Schemas) -> Result<(), Error> {
        let id = object.id(schemas);
        let behavior = object.behavior();
        let at = match self.objects.places(&id, schemas).as_slice() {
            [] if matches!(behavior, Behavior::Merge | Behavior::Replace) => {
                let id = id.go_syntax();
                return Err(Error::text(format!("id {id} does not exist; cannot merge or replace")));
            }
            [] => return self.objects.add(object, schemas),
            [at] => *at,
            _ => {
                return Err(Error::text(format!("found multiple objects that could accept merge of {id}")));
            }
        };
        let Some(old) = self.objects.items().get(at) else { return Ok(()) };
        match behavior {
            Behavior::Replace => object.take_metadata(old)?,
            Behavior::Merge => {
                let origin = old.annotation(ORIGIN).map(str::to_owned);
                object.take_metadata(old)?;
                merge_data(&mut object, old)?;
                if let Some(origin) = origin {
                    object.set_annotation(ORIGIN, &origin)?;
                }
            }
            Behavior::Unspecified | Behavior::Create => {
                let (id, name) = (id.go_syntax(), behavior.name());
                return Err(Error::text(format!(
                    "id {id} exists; can not use behavior: '{name}', behavior must be merge or replace"
                )));
            }
        }
        self.objects.change(at, schemas, |old| {
            *old = object;
            Ok(())
        })
    }
}
