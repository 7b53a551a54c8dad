//! Which lists of which kinds a strategic merge patch merges, and by which keys; which kinds have no namespace.
//!
//! Owns the built-in schema and the one of a user. Knows no object: a place in one is a [`Schema`] that the caller carries along.

mod custom;
mod names;
mod schemas;
mod tables;

use custom::Place;
pub use schemas::Schemas;
use tables::{CLUSTER_SCOPED, KINDS, TYPES};

/// A field that is, or leads to, a merged list. Types are numbers in the table of types.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// An object of this type.
    Object(usize),
    /// A list merged by these keys; without keys, a set of scalars.
    List {
        /// Names of the items' fields.
        keys: &'static [&'static str],
        /// The items' type, if it leads to merged lists.
        item: Option<usize>,
    },
}

/// The place of a node in a schema.
#[derive(Clone, Copy, Debug)]
pub struct Schema<'s>(Source<'s>);

#[derive(Clone, Copy, Debug)]
enum Source<'s> {
    BuiltIn(Field),
    Custom(Place<'s>),
}

impl<'s> Schema<'s> {
    /// The built-in schema of a kind, if it has lists that are merged.
    fn built_in(api_version: &str, kind: &str) -> Option<Self> {
        let found = KINDS.binary_search_by(|(version, name, _)| (*version, *name).cmp(&(api_version, kind)));
        let (_, _, number) = KINDS.get(found.ok()?)?;
        Some(Self(Source::BuiltIn(Field::Object(*number))))
    }

    /// The schema of a field.
    #[must_use]
    pub fn field(self, name: &str) -> Option<Self> {
        match self.0 {
            Source::BuiltIn(Field::Object(number)) => {
                let fields = TYPES.get(number)?;
                let found = fields.iter().find(|(field, _)| *field == name);
                found.map(|(_, field)| Self(Source::BuiltIn(*field)))
            }
            Source::BuiltIn(Field::List { .. }) => None,
            Source::Custom(place) => place.field(name).map(Self),
        }
    }

    /// The schema of a list's items.
    #[must_use]
    pub fn items(self) -> Option<Self> {
        match self.0 {
            Source::BuiltIn(Field::List { item, .. }) => {
                item.map(|number| Self(Source::BuiltIn(Field::Object(number))))
            }
            Source::BuiltIn(Field::Object(_)) => None,
            Source::Custom(place) => place.items().map(Self),
        }
    }

    /// The keys by which a list is merged; none for a list that is replaced, and for what is not a list.
    #[must_use]
    pub fn merge_keys(self) -> Option<Vec<&'s str>> {
        match self.0 {
            Source::BuiltIn(Field::List { keys, .. }) => Some(keys.to_vec()),
            Source::BuiltIn(Field::Object(_)) => None,
            Source::Custom(place) => place.merge_keys(),
        }
    }
}

/// Whether the built-in schema has a kind without a namespace.
fn is_cluster_scoped(api_version: &(impl Iterator<Item = u8> + Clone), kind: &str) -> bool {
    let wanted = || api_version.clone().chain([b' ']).chain(kind.bytes());
    CLUSTER_SCOPED.binary_search_by(|known| known.bytes().cmp(wanted())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_keys_of_the_built_in_schema() {
        let table: [(&str, &str, &str, Option<&[&str]>); 12] = [
            ("apps/v1", "Deployment", "spec.template.spec.containers", Some(&["name"])),
            (
                "apps/v1",
                "Deployment",
                "spec.template.spec.containers.[].ports",
                Some(&["containerPort", "protocol"]),
            ),
            ("apps/v1", "Deployment", "spec.template.spec.containers.[].volumeMounts", Some(&["mountPath"])),
            ("apps/v1", "Deployment", "spec.template.spec.containers.[].args", None),
            ("apps/v1", "Deployment", "spec.template.spec.tolerations", None),
            ("v1", "Service", "spec.ports", Some(&["port", "protocol"])),
            ("v1", "Pod", "spec.topologySpreadConstraints", Some(&["topologyKey", "whenUnsatisfiable"])),
            ("v1", "Pod", "spec.hostAliases", Some(&["ip"])),
            ("v1", "ConfigMap", "metadata.finalizers", Some(&[])),
            ("batch/v1", "CronJob", "spec.jobTemplate.spec.template.spec.volumes", Some(&["name"])),
            ("apps/v1", "Widget", "spec", None),
            ("networking.k8s.io/v1", "Ingress", "spec.rules", None),
        ];
        for (api_version, kind, path, keys) in table {
            let step = |schema: Option<Schema<'static>>, name: &str| match name {
                "[]" => schema?.items(),
                _ => schema?.field(name),
            };
            let schema = path.split('.').fold(Schema::built_in(api_version, kind), step);
            assert_eq!(schema.and_then(Schema::merge_keys), keys.map(<[&str]>::to_vec), "{kind} {path}");
        }
        assert!(is_cluster_scoped(&"v1".bytes(), "Namespace") && !is_cluster_scoped(&"v1".bytes(), "Pod"));
    }
}
