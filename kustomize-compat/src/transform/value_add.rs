//! A text added to fields, as the built-in `ValueAddTransformer` does.
//!
//! Owns where in a path the text is added.

use chart_compat::yaml::tree::Kind;

use super::namespace::Namespace;
use crate::error::Error;
use crate::fieldspec::lookup::lookup_create;
use crate::fieldspec::{set_scalar, split};
use crate::load::join;
use crate::resource::node::check_kind;
use crate::resource::{Objects, Resource, build_steps};
use crate::schema::Schemas;
use crate::selector::Selector;

/// A field that gets the text.
#[derive(Clone, Debug, Default)]
pub struct ValueTarget {
    /// Its objects; none for all.
    pub selector: Option<Selector>,
    /// Its path, with `/` between names.
    pub field_path: String,
    /// Where in the field's own path the text is added; 0: the text replaces it.
    pub position: i64,
}

/// Adds a text to fields.
#[derive(Clone, Debug, Default)]
pub struct ValueAdd {
    /// The text.
    pub value: String,
    /// The fields.
    pub targets: Vec<ValueTarget>,
}

impl ValueAdd {
    /// Adds the text.
    ///
    /// # Errors
    /// A selector is not valid, or a field is not a scalar.
    pub fn apply(&self, objects: &mut Objects, schemas: &Schemas) -> Result<(), Error> {
        for target in &self.targets {
            let selector = target.selector.as_ref().map(Selector::compile).transpose()?;
            for object in objects.items_mut() {
                build_steps::count(1)?;
                if selector.as_ref().is_none_or(|selector| selector.matches(object, schemas)) {
                    self.set(object, target, schemas)?;
                }
            }
        }
        Ok(())
    }

    fn set(&self, object: &mut Resource, target: &ValueTarget, schemas: &Schemas) -> Result<(), Error> {
        if target.field_path == "metadata/namespace" {
            let namespace = Namespace { namespace: self.value.clone(), ..Namespace::default() };
            return namespace.set(object, schemas);
        }
        let path = split(&target.field_path, "/");
        let Some(field) = lookup_create(&mut object.node, &path, Kind::Scalar)? else { return Ok(()) };
        check_kind(field, Kind::Scalar)?;
        let text = match usize::try_from(target.position) {
            Ok(position) if position > 0 => insert(&field.value, position - 1, &self.value),
            _ => self.value.clone(),
        };
        set_scalar(field, &text, "")
    }
}

/// Inserts a part into a path, which stays absolute or relative.
fn insert(path: &str, position: usize, part: &str) -> String {
    if part.is_empty() {
        return path.to_owned();
    }
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let position = position.min(parts.len());
    parts.insert(position, part);
    let joined = join("", &parts.join("/"));
    if rooted { format!("/{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::insert;

    #[test]
    fn parts_are_inserted() {
        for (path, position, expected) in [
            ("", 3, "X"),
            ("/", 0, "/X"),
            ("a", 0, "X/a"),
            ("/a", 0, "/X/a"),
            ("a", 9, "a/X"),
            ("/a/b/c", 2, "/a/b/X/c"),
        ] {
            assert_eq!(insert(path, position, "X"), expected, "{path}");
        }
    }
}
