//! The objects of a build, in their order.
//!
//! Owns the search by identity, and that no two objects have one identity when they are added. Searches are by hash: a build of
//! thousands of objects takes time in proportion to their number.

use std::collections::HashMap;

use super::{Id, Resource, build_steps, growth};
use crate::error::Error;
use crate::schema::Schemas;

/// The most objects of a build: bases that name each other twice double their number at each level.
const MAX_OBJECTS: usize = 100_000;

/// Objects in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    items: Vec<Resource>,
    /// Valid until the items are changed from outside.
    index: Option<Index>,
}

#[derive(Clone, Debug, Default)]
struct Index {
    present: HashMap<String, usize>,
    any: HashMap<String, Vec<usize>>,
}

impl Index {
    fn add(&mut self, at: usize, object: &Resource, schemas: &Schemas) {
        *self.present.entry(object.id(schemas).key()).or_default() += 1;
        if object.is_empty() {
            return;
        }
        for id in object.all_ids(schemas) {
            let places = self.any.entry(id.key()).or_default();
            if places.last() != Some(&at) {
                places.push(at);
            }
        }
    }
}

impl From<Vec<Resource>> for Objects {
    fn from(items: Vec<Resource>) -> Self {
        Self { items, index: None }
    }
}

impl Objects {
    /// The objects.
    #[must_use]
    pub fn items(&self) -> &[Resource] {
        &self.items
    }

    /// The objects, to be changed in any way.
    pub fn items_mut(&mut self) -> &mut Vec<Resource> {
        self.index = None;
        &mut self.items
    }

    /// The objects, to be changed in a way that leaves all identities.
    pub fn contents_mut(&mut self) -> &mut [Resource] {
        &mut self.items
    }

    /// The objects themselves.
    #[must_use]
    pub fn into_items(self) -> Vec<Resource> {
        self.items
    }

    fn indexed(&mut self, schemas: &Schemas) -> &mut Index {
        let items = &self.items;
        self.index.get_or_insert_with(|| {
            let mut index = Index::default();
            for (at, object) in items.iter().enumerate() {
                index.add(at, object, schemas);
            }
            index
        })
    }

    /// Adds an object.
    ///
    /// # Errors
    /// There is one of its identity.
    pub fn add(&mut self, object: Resource, schemas: &Schemas) -> Result<(), Error> {
        let at = self.items.len();
        if at >= MAX_OBJECTS {
            return Err(Error::Text(format!("a build has at most {MAX_OBJECTS} objects")));
        }
        let index = self.indexed(schemas);
        let id = object.id(schemas);
        if index.present.contains_key(&id.key()) {
            return Err(Error::Duplicate(id.to_string()));
        }
        index.add(at, &object, schemas);
        self.items.push(object);
        Ok(())
    }

    /// Adds objects.
    ///
    /// # Errors
    /// There is one of an identity.
    pub fn add_all(&mut self, objects: Vec<Resource>, schemas: &Schemas) -> Result<(), Error> {
        objects.into_iter().try_for_each(|object| self.add(object, schemas))
    }

    /// The places of the objects that have or had an identity.
    pub fn places(&mut self, id: &Id, schemas: &Schemas) -> Vec<usize> {
        self.indexed(schemas).any.get(&id.key()).cloned().unwrap_or_default()
    }

    /// Changes one object. Other identities are found by the next search.
    ///
    /// # Errors
    /// What the change fails with, or it makes the objects too large, or the build takes too many steps.
    pub fn change(
        &mut self,
        at: usize,
        schemas: &Schemas,
        change: impl FnOnce(&mut Resource) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(object) = self.items.get_mut(at) else { return Ok(()) };
        let keys = |object: &Resource| {
            (object.is_empty(), object.all_ids(schemas).iter().map(Id::key).collect::<Vec<_>>())
        };
        let before = self.index.is_some().then(|| keys(object));
        let (size, made) = (object.node.memory(), growth::made());
        build_steps::count(build_steps::of_memory(size))?;
        let changed = change(object);
        // What the change noted by itself is a part of it.
        growth::forget_since(made);
        growth::change(size, object.node.memory())?;
        if before.is_some_and(|before| before != keys(object)) {
            self.index = None;
        }
        changed
    }

    /// Takes out what patches have deleted.
    pub fn drop_empty(&mut self) {
        if self.items.iter().any(Resource::is_empty) {
            self.items_mut().retain(|object| !object.is_empty());
        }
    }

    /// Checks that each object has an identity of its own.
    ///
    /// # Errors
    /// Two objects have the same identity.
    pub fn check_unique(&self, schemas: &Schemas) -> Result<(), Error> {
        super::check_unique(&self.items, schemas)
    }
}
