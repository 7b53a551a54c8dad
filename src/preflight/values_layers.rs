//! The layers of a module's values, for explanations: values files of the directories, the module's own, keys of the ConfigMap,
//! defaults.
//!
//! The result must equal that of `values`, which the operator renders with, except for patches of hooks: only the operator has
//! them.

use std::collections::BTreeMap;
use std::path::Path;

use chart_compat::chart::merge_maps;
use chart_compat::data::{Data, Map};
use chart_compat::explain::Layers;
use chart_compat::yaml;
use serde_json::{Value, json};

use super::referred_values::ReferredValues;
use windlass_base::bounded_read;
use windlass_cluster::ObjectMeta;
use windlass_modules::addon::change_cause::writer;
use windlass_modules::addon::module::Module;
use windlass_modules::addon::module_name::ModuleName;
use windlass_modules::addon::values::GLOBAL;
use windlass_modules::openapi::{Schema, Schemas};
use windlass_render::{from_json, to_json};

/// Merges the layers of a module's values as the operator does, in ascending precedence. `roots` is the colon-separated list of
/// module directories, `global` the directory of global hooks, if any, `config` the live ConfigMap, if any, and `referred` the
/// values that its sections refer to.
///
/// # Errors
/// A file cannot be read, or a key of the ConfigMap is not a YAML map. The operator then uses the last valid values of the
/// module, which only it knows.
pub fn layers(
    roots: &str,
    module: &Module,
    global: Option<&Path>,
    config: Option<&Value>,
    referred: &BTreeMap<String, Vec<ReferredValues>>,
) -> Result<Layers, String> {
    let mut layers = Layers::default();
    let mut files: Vec<_> = roots
        .split(':')
        .filter(|r| !r.is_empty())
        .map(|r| (Path::new(r).join("values.yaml"), true))
        .collect();
    files.push((module.path.join("values.yaml"), false));
    for (path, of_root) in files {
        let text = match bounded_read::read_file(&path, bounded_read::MAX_TEXT) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(format!("{}: {e}", path.display())),
        };
        let name = path.display().to_string();
        layers
            .add(&name, true, Some(&text), |values| {
                yaml::from_slice_map(&text).map(|read| merge_maps(values, seen(read, &module.name, of_root)))
            })
            .map_err(|e| format!("{name}: {e}"))?;
    }
    let schemas = |directory: &Path| Schemas::read(&directory.join("openapi"));
    let sections = [
        (GLOBAL, global.map(schemas).transpose()?.unwrap_or_default()),
        (module.name.key.as_str(), schemas(&module.path)?),
    ];
    for (key, schemas) in &sections {
        add_defaults(&mut layers, key, schemas.config.as_ref());
    }
    for (key, _) in &sections {
        for ReferredValues { name, values } in referred.get(*key).into_iter().flatten() {
            let section = Map::from([((*key).to_owned(), Data::Map(values.clone()))]);
            lay(&mut layers, name, &section);
        }
    }
    for (key, _) in &sections {
        let Some(config) = config else { break };
        let Some(text) = config["data"][key].as_str() else { continue };
        let name = describe_key(config, key);
        let section = yaml::from_slice_map(text.as_bytes()).map_err(|e| {
            format!("{name}: {e}; the operator goes on with the last good values of the module")
        })?;
        layers.add_section(&name, key, text.as_bytes(), section);
    }
    for (key, schemas) in &sections {
        add_defaults(&mut layers, key, schemas.config.as_ref());
        add_defaults(&mut layers, key, schemas.values.as_ref());
    }
    Ok(layers)
}

/// Adds a layer with the defaults of a schema.
fn add_defaults(layers: &mut Layers, key: &str, schema: Option<&Schema>) {
    let Some(schema) = schema else { return };
    let before = layers.values().get(key).map_or_else(|| json!({}), to_json);
    let mut after = before.clone();
    schema.apply_defaults(&mut after);
    let Some(Data::Map(added)) = added(&before, &after).as_ref().map(from_json) else { return };
    let added = Map::from([(key.to_owned(), Data::Map(added))]);
    let name = format!("defaults of {}", schema.file().display());
    lay(layers, &name, &added);
}

/// Adds a layer that is neither a file nor a key of the ConfigMap.
fn lay(layers: &mut Layers, name: &str, added: &Map) {
    let merged: Result<(), std::convert::Infallible> = layers.add(name, false, None, |values| {
        merge_maps(values, added.clone());
        Ok(())
    });
    match merged {
        Ok(()) => {}
    }
}

/// The part of `after` that differs from `before`. A list is compared as a whole.
fn added(before: &Value, after: &Value) -> Option<Value> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let more = after.iter().filter_map(|(key, value)| {
                let value = before.get(key).map_or_else(|| Some(value.clone()), |old| added(old, value));
                Some((key.clone(), value?))
            });
            let more: serde_json::Map<String, Value> = more.collect();
            (!more.is_empty()).then_some(Value::Object(more))
        }
        (before, after) => (before != after).then(|| after.clone()),
    }
}

/// The part of a values file that the module's templates use: its section, and in files of the directories the global section.
fn seen(file: Map, module: &ModuleName, of_root: bool) -> Map {
    let wanted = |key: &str| key == module.key || of_root && key == "global";
    file.into_iter().filter(|(key, value)| wanted(key) && matches!(value, Data::Map(_))).collect()
}

/// A key of the ConfigMap for a message, with its last field manager.
fn describe_key(config: &Value, key: &str) -> String {
    let name = format!("ConfigMap {} key {key}", ObjectMeta::of(config).namespaced_name());
    match writer(config, key) {
        Some(manager) => format!("{name} by {manager}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chart_compat::explain::Trace;
    use chart_compat::path::Path as Way;

    use chart_compat::profile::Profile;
    use windlass_modules::addon::values::Values;
    use windlass_modules::addon::{Config, Modules, UNNUMBERED_ORDER};

    use super::*;

    fn modules() -> (tempfile::TempDir, Modules) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "a/values.yaml",
            "global: {zone: a, name: x}\nwebSite:\n  size: 1\n  list: [1]\nwebSiteEnabled: true\nother: {x: 1}\n",
        );
        write("b/values.yaml", "global: {zone: b}\nwebSite: {extra: 1}\n");
        write("b/010-web-site/Chart.yaml", "apiVersion: v2\nname: web-site\nversion: 0.1.0\n");
        write(
            "b/010-web-site/values.yaml",
            "webSite:\n  # more\n  size: 2\n  deep: {a: 1}\nglobal: {ignored: 1}\n",
        );
        write(
            "b/010-web-site/openapi/config-values.yaml",
            "properties:\n  size: {type: number, default: 9}\n  color: {type: string, default: red}\n  extra: {}\n  list: {}\n  deep: {additionalProperties: true}\n",
        );
        write(
            "b/010-web-site/openapi/values.yaml",
            "x-extend: {schema: config-values.yaml}\nproperties:\n  internal: {default: {}}\n",
        );
        let roots = format!("{0}/a:{0}/b", dir.path().display());
        let modules = Modules::discover(&roots, UNNUMBERED_ORDER, Profile::Helm4);
        (dir, modules)
    }

    #[test]
    fn layers_come_to_what_the_operator_renders_with() {
        let (dir, modules) = modules();
        let roots = format!("{0}/a:{0}/b", dir.path().display());
        let data = json!({"global": "zone: live\n", "webSite": "# by hand\nsize: 3\ndeep:\n  b: 2\n", "other": "x: 2"});
        let config = json!({
            "metadata": {
                "namespace": "ns",
                "name": "addon-operator",
                "managedFields": [{"manager": "kubectl-edit", "fieldsV1": {"f:data": {".": {}, "f:webSite": {}}}}],
            },
            "data": data,
        });
        let module = &modules.modules[0];
        let layers = layers(&roots, module, None, Some(&config), &BTreeMap::new()).unwrap();
        let read = Config::parse(&serde_json::from_value(data).unwrap(), &modules.names());
        let (mut values, problems) = Values::new(&modules, None);
        assert!(problems.is_empty(), "{problems:?}");
        let global = Data::Map(read.global.clone());
        for (key, section) in [("global", &global), ("webSite", &read.sections["webSite"])] {
            values.set_config(key, Some(to_json(section))).unwrap();
        }
        assert_eq!(layers.values(), &values.for_chart("webSite").unwrap());
        let chart = module.chart.as_ref().unwrap().as_ref().unwrap();
        let trace = Trace::new(chart.chart(), layers, Profile::Helm4).unwrap();
        let told = |path: &str| -> Vec<String> {
            let explained = trace.explain(&Way::parse(path).unwrap());
            explained
                .settings
                .iter()
                .map(|s| s.origin.to_string().replace(&*dir.path().to_string_lossy(), ""))
                .collect()
        };
        assert_eq!(
            told("webSite.size"),
            [
                "ConfigMap ns/addon-operator key webSite by kubectl-edit line 2",
                "/b/010-web-site/values.yaml:3",
                "/a/values.yaml:3",
                "web-site/values.yaml:3"
            ]
        );
        assert_eq!(
            told("webSite.deep.b"),
            ["ConfigMap ns/addon-operator key webSite by kubectl-edit line 4"]
        );
        assert_eq!(told("webSite.color"), ["defaults of /b/010-web-site/openapi/config-values.yaml"]);
        assert_eq!(told("webSite.internal"), ["defaults of /b/010-web-site/openapi/values.yaml"]);
        assert_eq!(
            told("global.zone"),
            ["ConfigMap ns/addon-operator key global line 1", "/b/values.yaml:1", "/a/values.yaml:1"]
        );
    }

    #[test]
    fn a_key_that_is_no_yaml_is_told_of() {
        let (dir, modules) = modules();
        let config = json!({"metadata": {"namespace": "n", "name": "c"}, "data": {"webSite": "a: b: c"}});
        let error = layers(
            &dir.path().display().to_string(),
            &modules.modules[0],
            None,
            Some(&config),
            &BTreeMap::new(),
        )
        .unwrap_err();
        assert!(error.starts_with("ConfigMap n/c key webSite: ") && error.contains("last good"), "{error}");
    }
}
