//! Serializes `Chart.yaml` as Helm's structs become JSON and YAML: empty fields are omitted.

use super::metadata::{Dependency, Maintainer, Metadata};
use crate::data::{Data, Map};

/// Adds fields to a map unless they are empty.
#[derive(Default)]
struct Fields(Map);

impl Fields {
    fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.0.insert(key.to_owned(), text.into());
        }
    }

    fn list(&mut self, key: &str, items: impl Iterator<Item = Data>) {
        let items: Vec<Data> = items.collect();
        if !items.is_empty() {
            self.0.insert(key.to_owned(), Data::List(items));
        }
    }

    fn flag(&mut self, key: &str, on: bool) {
        if on {
            self.0.insert(key.to_owned(), true.into());
        }
    }
}

fn strings(list: &Option<Vec<String>>) -> impl Iterator<Item = Data> {
    list.iter().flatten().map(|s| s.as_str().into())
}

impl Metadata {
    /// Serializes the content of `Chart.yaml` (`json.Marshal` of `chart.Metadata`).
    #[must_use]
    pub fn data(&self) -> Data {
        let mut out = Fields::default();
        for (key, text) in [
            ("name", &self.name),
            ("home", &self.home),
            ("version", &self.version),
            ("description", &self.description),
            ("icon", &self.icon),
            ("apiVersion", &self.api_version),
            ("condition", &self.condition),
            ("tags", &self.tags),
            ("appVersion", &self.app_version),
            ("kubeVersion", &self.kube_version),
            ("type", &self.kind),
        ] {
            out.text(key, text);
        }
        out.list("sources", strings(&self.sources));
        out.list("keywords", strings(&self.keywords));
        out.list("maintainers", self.maintainers.iter().flatten().map(Maintainer::data));
        out.flag("deprecated", self.deprecated);
        let annotations = self.annotations.iter().flatten();
        let annotations: Map = annotations.map(|(k, v)| (k.clone(), v.as_str().into())).collect();
        if !annotations.is_empty() {
            out.0.insert("annotations".to_owned(), annotations.into());
        }
        out.list("dependencies", self.dependencies.iter().flatten().map(Dependency::data));
        out.0.into()
    }
}

impl Maintainer {
    fn data(&self) -> Data {
        let mut out = Fields::default();
        out.text("name", &self.name);
        out.text("email", &self.email);
        out.text("url", &self.url);
        out.0.into()
    }
}

impl Dependency {
    /// Serializes an entry of `dependencies` (`json.Marshal` of `chart.Dependency`): name and repository are present even if empty.
    #[must_use]
    pub fn data(&self) -> Data {
        let mut out = Fields::default();
        out.0.insert("name".to_owned(), self.name.as_str().into());
        out.0.insert("repository".to_owned(), self.repository.as_str().into());
        out.text("version", &self.version);
        out.text("condition", &self.condition);
        out.text("alias", &self.alias);
        out.list("tags", strings(&self.tags));
        out.flag("enabled", self.enabled);
        out.list("import-values", self.import_values.iter().flatten().cloned());
        out.0.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::yaml;

    #[test]
    fn what_was_read_is_written() {
        let text = "annotations:\n  a: b\napiVersion: v2\nappVersion: \"1.10\"\ndependencies:\n- alias: x\n  condition: x.on\n  \
                    import-values:\n  - child: a\n    parent: b\n  - data\n  name: sub\n  repository: https://h/c\n  tags:\n  - t\n  \
                    version: ^1\n- name: local\n  repository: \"\"\ndeprecated: true\nkeywords:\n- k\nmaintainers:\n- name: me\nname: web\n\
                    sources:\n- s\ntype: library\nversion: 1.0.0\n";
        let Ok(Data::Map(map)) = yaml::from_slice(text.as_bytes()) else { panic!("a map") };
        let mut metadata = Metadata::default();
        metadata.read(&map, Profile::Helm4).unwrap();
        assert_eq!(yaml::to_string(&metadata.data()).unwrap(), text);
    }
}
