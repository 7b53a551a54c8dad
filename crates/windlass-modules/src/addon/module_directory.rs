//! One module without an operator and a cluster, as its author works on it: its values, the cases of its schemas, its checks.
//!
//! Values are merged as the operator merges them; examples of schemas and files of the author stand for the ConfigMap and the hooks.

use std::path::{Path, PathBuf};

use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use serde_json::{Value, json};

use super::module::{Module, Modules};
use super::values::{GLOBAL, MAX_DEPTH, fixed_of, merge};
use crate::openapi::case_tests::{self, CaseResults};
use crate::openapi::{Schemas, as_map};
use crate::shell_hooks::{CONFIG_TIMEOUT, HookEnvironment, HookSet, Scope};
use windlass_render::to_json;

/// A module and the schemas of its values.
pub struct ModuleDirectory {
    pub module: Module,
    schemas: Schemas,
    global: Schemas,
}

/// What checks of settings said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsReport {
    /// The programs that were asked.
    pub programs: Vec<String>,
    pub warnings: Vec<String>,
    /// Why the settings must not be taken.
    pub objection: Option<String>,
}

impl ModuleDirectory {
    /// Reads a module; `name` replaces that of its directory. `global` is a directory of global hooks, with schemas of global values.
    ///
    /// # Errors
    /// The directory does not hold a module, or a file in it is invalid.
    pub fn read(
        path: &Path,
        name: Option<&str>,
        global: Option<&Path>,
        profile: Profile,
    ) -> Result<Self, String> {
        let module = Modules::one(path, name, profile)?;
        let schemas = Schemas::read(&module.path.join("openapi"))?;
        let global = global.map(|path| Schemas::read(&path.join("openapi"))).transpose()?;
        Ok(Self { module, schemas, global: global.unwrap_or_default() })
    }

    /// The values of its chart: those of its `values.yaml`, defaults and examples of the schemas, and over them a file's, by section.
    /// `example` is the place in lists of examples; `None`: without examples.
    #[must_use]
    pub fn values(&self, given: &Map, example: Option<usize>) -> Map {
        let key = self.module.name.key.as_str();
        let of = |section: &str| given.get(section).map_or_else(|| json!({}), to_json);
        let layers = |fixed: Value, schemas: &Schemas, given: Value| {
            let mut values = fixed;
            schemas.apply_defaults(&mut values);
            for examples in example.map(|index| schemas.examples(index)).unwrap_or_default() {
                values = merge(values, examples, MAX_DEPTH);
            }
            values = merge(values, given, MAX_DEPTH);
            schemas.apply_defaults(&mut values);
            values
        };
        let own = layers(fixed_of(&Modules::default(), &self.module), &self.schemas, of(key));
        let mut values = as_map(&layers(json!({}), &self.global, of(GLOBAL)));
        values = Map::from([(GLOBAL.to_owned(), Data::Map(values))]);
        values.insert(key.to_owned(), windlass_render::from_json(&own));
        values
    }

    /// Holds the values of a chart against the schemas, with what charts cannot be rendered without.
    ///
    /// # Errors
    /// Values that break the schemas.
    pub fn check_values(&self, values: &Map) -> Result<(), String> {
        let sections = [(GLOBAL, &self.global), (self.module.name.key.as_str(), &self.schemas)];
        for (key, schemas) in sections {
            let section = values.get(key).map_or_else(|| json!({}), to_json);
            if let Some(schema) = schemas.helm.as_ref().or(schemas.config.as_ref()) {
                schema.note_secrets(&section);
                schema.check(key, &section, None)?;
            }
        }
        Ok(())
    }

    /// Runs the cases of its schemas.
    ///
    /// # Errors
    /// The file of cases cannot be used.
    pub fn run_cases(&self) -> Result<CaseResults, String> {
        case_tests::run(&self.module.path.join("openapi"), &self.schemas, &self.module.name.key)
    }

    /// The settings in a file: its section of this module, or the whole file if it has neither that nor `global`; over the defaults of
    /// the schema.
    ///
    /// # Errors
    /// They violate the schema.
    pub fn settings(&self, file: &Map) -> Result<Value, String> {
        let key = self.module.name.key.as_str();
        let keyed = [key, GLOBAL].iter().any(|key| file.contains_key(*key));
        let mut settings = match keyed {
            true => file.get(key).map_or_else(|| json!({}), to_json),
            false => to_json(&Data::Map(file.clone())),
        };
        if let Some(schema) = &self.schemas.config {
            schema.note_secrets(&settings);
            schema.apply_defaults(&mut settings);
            schema.check(key, &settings, None)?;
        }
        Ok(settings)
    }

    /// Puts settings to the programs of its hooks that check them; `scratch` is where their files are created.
    ///
    /// # Errors
    /// The hooks cannot be asked for what they are, or a check itself fails.
    pub async fn check_settings(&self, settings: &Value, scratch: PathBuf) -> Result<SettingsReport, String> {
        let name = &self.module.name.name;
        let directory = self.module.path.join("hooks");
        let loaded = HookSet::load(&directory, name, "hooks/", Scope::Module, CONFIG_TIMEOUT).await;
        let (set, _) = loaded.map_err(|e| e.to_string())?;
        let around = HookEnvironment { scratch, ..HookEnvironment::default() };
        let mut report = SettingsReport::default();
        for check in set.checks() {
            report.programs.push(check.name().to_owned());
            let verdict = check.run(&around, settings).await?;
            report.warnings.extend(verdict.warnings);
            if let Some(objection) = verdict.objection {
                report.objection = Some(format!("{objection} (by hook check, {})", check.name()));
                break;
            }
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn directory() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("010-web-site/values.yaml", "webSite: {fixed: true}\n");
        put("010-web-site/templates/a.yaml", "a: {{ .Values.webSite.size }}\n");
        put(
            "010-web-site/openapi/config-values.yaml",
            "properties: {size: {type: integer, default: 2, maximum: 9}, color: {type: string, x-examples: [red, blue]}}\n",
        );
        put(
            "010-web-site/openapi/values.yaml",
            "x-extend: {schema: config-values.yaml}\nproperties:\n  fixed: {}\n  internal:\n    default: {}\n    x-required-for-helm: \
             [ca]\n    properties: {ca: {type: string, x-examples: [PEM]}, port: {default: 80}}\n",
        );
        put("global/openapi/values.yaml", "properties: {zone: {type: string, x-examples: [west]}}\n");
        dir
    }

    fn read(dir: &tempfile::TempDir) -> ModuleDirectory {
        let global = dir.path().join("global");
        ModuleDirectory::read(&dir.path().join("010-web-site"), None, Some(&global), Profile::Helm4).unwrap()
    }

    fn map(value: &Value) -> Map {
        as_map(value)
    }

    #[test]
    fn examples_stand_over_defaults_and_files_over_both() {
        let dir = directory();
        let module = read(&dir);
        let values = |given: Value, example| to_json(&Data::Map(module.values(&map(&given), example)));
        let own = json!({"fixed": true, "size": 2, "color": "red", "internal": {"ca": "PEM", "port": 80}});
        assert_eq!(values(json!({}), Some(0)), json!({"global": {"zone": "west"}, "webSite": own}));
        assert_eq!(values(json!({}), Some(1))["webSite"]["color"], "blue");
        let given =
            json!({"global": {"zone": "east"}, "webSite": {"color": "grey", "internal": {"port": 1}}});
        let found = values(given, Some(0));
        assert_eq!(found["global"]["zone"], "east");
        assert_eq!(found["webSite"]["internal"], json!({"ca": "PEM", "port": 1}));
        let bare = module.values(&Map::new(), None);
        assert_eq!(to_json(&bare["webSite"]), json!({"fixed": true, "size": 2, "internal": {"port": 80}}));
        let error = module.check_values(&bare).unwrap_err();
        assert!(error.contains("webSite.internal: missing property 'ca'"), "{error}");
        assert!(module.check_values(&module.values(&Map::new(), Some(0))).is_ok());
    }

    #[test]
    fn settings_are_a_section_or_the_whole_file() {
        let dir = directory();
        let module = read(&dir);
        for file in [
            json!({"size": 3}),
            json!({"webSite": {"size": 3}}),
            json!({"webSite": {"size": 3}, "global": {"a": 1}}),
        ] {
            assert_eq!(module.settings(&map(&file)), Ok(json!({"size": 3})), "{file}");
        }
        assert_eq!(module.settings(&map(&json!({"global": {}}))), Ok(json!({"size": 2})));
        let error = module.settings(&map(&json!({"size": 10}))).unwrap_err();
        assert!(error.starts_with("webSite.size: maximum: got 10, want 9"), "{error}");
    }

    #[test]
    fn a_directory_has_a_name_or_is_given_one() {
        let dir = directory();
        let path = dir.path().join("010-web-site");
        let read = |path: &Path, name| ModuleDirectory::read(path, name, None, Profile::Helm4);
        assert_eq!(read(&path, Some("other")).map(|m| m.module.name.key).ok().as_deref(), Some("other"));
        let renamed = dir.path().join("07-module-1");
        fs::rename(&path, &renamed).unwrap();
        let error = read(&renamed, None).err().unwrap();
        assert!(error.contains("07-module-1"), "{error}");
        assert!(read(&renamed, Some("web-site")).is_ok());
        let error = read(&dir.path().join("gone"), None).err().unwrap();
        assert!(error.contains("gone: "), "{error}");
    }
}
