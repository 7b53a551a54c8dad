//! Generators of a kustomization.
//!
//! Owns their order: ConfigMaps, Secrets, charts, and those that are objects.

use chart_compat::data::Data;

use super::Kustomization;
use super::accumulator::Accumulator;
use super::origin::Origin;
use super::plugins::Generator;
use crate::error::Error;
use crate::generate::{config_map, secret};
use crate::kustomization::{generator_args, generator_options};
use crate::resource::{Objects, Resource};

impl Kustomization<'_> {
    pub(super) fn run_generators(&mut self, all: &mut Accumulator) -> Result<(), Error> {
        let mut generators = self.own_generators()?;
        let external = self.file.texts("generators");
        let loaded = self.plugin_objects(&external, "configuring external generator").and_then(|configs| {
            let load = |(config, place): &(Resource, String)| {
                let failed = |e: Error| e.within("failed to load generator");
                let generator = self.load_generator(config).map_err(failed)?;
                let origin = Origin::of_plugin(config, &config.id(self.session.schemas))?;
                Ok((generator, origin, place.clone()))
            };
            configs.iter().map(load).collect::<Result<Vec<_>, Error>>()
        });
        generators.extend(loaded.map_err(|e| e.within("loading generator plugins"))?);
        for (generator, origin, place) in generators {
            let mut objects = Objects::default();
            let (made, name) = self.generate(&generator)?;
            objects.add_all(made, self.session.schemas)?;
            for mut object in objects.into_items() {
                if let Some(origin) = &origin {
                    origin.mark(&mut object)?;
                }
                self.hint_no_base(&place, &object, &mut all.objects);
                all.absorb(object, self.session.schemas)
                    .map_err(|e| e.within(format!("merging from generator {name}")))?;
            }
        }
        Ok(())
    }

    /// The generators that the file's own fields ask for, each with its place in the file.
    fn own_generators(&self) -> Result<Vec<(Generator, Option<Origin>, String)>, Error> {
        let origin = |kind| self.origin.as_ref().map(|origin| origin.built_in(self.file_name, kind));
        let options = self.file.get("generatorOptions").map(generator_options);
        let args = |data: &Data| {
            let mut args = generator_args(data);
            if let Some(all) = &options {
                args.options = args.options.with(all);
            }
            args
        };
        let mut out = Vec::new();
        for (at, data) in self.file.list("configMapGenerator").iter().enumerate() {
            let place = format!("configMapGenerator[{at}]");
            out.push((Generator::ConfigMap(args(data)), origin("ConfigMapGenerator"), place));
        }
        for (at, data) in self.file.list("secretGenerator").iter().enumerate() {
            let place = format!("secretGenerator[{at}]");
            out.push((Generator::Secret(args(data)), origin("SecretGenerator"), place));
        }
        for (at, data) in self.file.list("helmCharts").iter().enumerate() {
            let fields = data.as_map().cloned().unwrap_or_default();
            let chart = self.chart(&fields, self.file.get("helmGlobals"))?;
            out.push((
                Generator::Chart(chart),
                origin("HelmChartInflationGenerator"),
                format!("helmCharts[{at}]"),
            ));
        }
        Ok(out)
    }

    fn generate(&self, generator: &Generator) -> Result<(Vec<Resource>, &'static str), Error> {
        let load = |path: &str| self.loader.load(path);
        Ok(match generator {
            Generator::ConfigMap(args) => (vec![config_map(args, &load)?], "ConfigMapGenerator"),
            Generator::Secret(args) => (vec![secret(args, &load)?], "SecretGenerator"),
            Generator::Chart(chart) => (self.inflate(chart)?, "HelmChartInflationGenerator"),
            Generator::IamPolicy(object) => (vec![object.clone()], "IAMPolicyGenerator"),
        })
    }
}
