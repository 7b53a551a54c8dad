//! Transformers and validators of a kustomization.
//!
//! Owns their order, and the configuration of those that the file's own fields ask for.

use std::collections::BTreeMap;

use chart_compat::data::{Data, Map};
use chart_compat::go::quote;
use chart_compat::yaml;

use super::Kustomization;
use super::accumulator::Accumulator;
use super::origin::Origin;
use super::plugins::{Transformer, replacements};
use crate::error::Error;
use crate::fieldspec::{Config, FieldSpec, List, merge_all, merge_one};
use crate::kustomization::{LabelItem, PatchSource, image, map_text, patch_source};
use crate::patch::json6902::JsonPatch;
use crate::patch::{Allowed, LoadedPatch};
use crate::resource::build_steps;
use crate::resource::node::{metadata_map, set_metadata_map};
use crate::resource::shared::sync;
use crate::resource::{Objects, Resource, read_within};
use crate::selector::Selector;
use crate::transform::affixes::Affix;
use crate::transform::namespace::{Namespace, Subjects};
use crate::transform::replicas::Replicas;

type Configured = Vec<(Transformer, Option<Origin>)>;

/// Leaves out what Go's encoder leaves out of a configuration.
fn without_empty(data: &Data) -> Data {
    match data {
        Data::Map(map) => {
            let kept = map.iter().filter(|(_, value)| match value {
                Data::Null => false,
                Data::String(text) => !text.is_empty(),
                Data::Bool(value) => *value,
                Data::List(items) => !items.is_empty(),
                _ => true,
            });
            Data::Map(kept.map(|(key, value)| (key.clone(), without_empty(value))).collect())
        }
        Data::List(items) => Data::List(items.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

/// The configuration of a transformer as text.
fn configuration_text(data: &Data) -> Result<String, Error> {
    yaml::to_string(&without_empty(data)).map_err(|e| Error::text(e.to_string()))
}

fn trouble(name: &str, config: &str, e: Error) -> Error {
    e.within(format!("trouble configuring builtin {name} with config: `\n{config}`"))
}

impl Kustomization<'_> {
    pub(super) fn run_transformers(&mut self, all: &mut Accumulator) -> Result<(), Error> {
        let mut transformers = self.own_transformers(&all.config)?;
        let external = self.file.texts("transformers");
        transformers.extend(self.external_transformers(&external)?);
        let mut numbers = BTreeMap::new();
        let schemas = self.session.schemas;
        for (transformer, origin) in &transformers {
            build_steps::count(1 + all.objects.items().len() / 4)?;
            let matched = match transformer {
                Transformer::Replacements(list) => {
                    self.apply_replacements(list, &mut all.objects).map(|()| 0)?
                }
                _ => transformer.apply(&mut all.objects, schemas)?,
            };
            if let Some((field, target)) = transformer.target() {
                let number = numbers.entry(field).or_insert(0);
                if matched == 0 {
                    let name = match *number < self.file.list(field).len() {
                        true => format!("{field}[{number}]"),
                        false => "a patch of 'transformers'".to_owned(),
                    };
                    self.hint_no_match(&name, target, &all.objects);
                }
                *number += 1;
            }
            all.objects.contents_mut().iter_mut().for_each(sync);
            if let Some(origin) = origin {
                let objects = all.objects.contents_mut().iter_mut();
                objects.filter(|object| !object.is_empty()).try_for_each(|o| origin.mark_transformed(o))?;
            }
            all.objects.drop_empty();
        }
        Ok(())
    }

    fn external_transformers(&mut self, entries: &[String]) -> Result<Configured, Error> {
        let configs = self.plugin_objects(entries, "configuring external transformer")?;
        let load = |(config, place): &(Resource, String)| {
            let mut transformer = self.load_transformer(config)?;
            if let Transformer::Replacements(list) = &mut transformer {
                list.iter_mut().for_each(|one| one.place = format!("{place}: {}", one.place));
            }
            Ok((transformer, Origin::of_plugin(config, &config.id(self.session.schemas))?))
        };
        configs.iter().map(load).collect()
    }

    pub(super) fn run_validators(&mut self, all: &mut Accumulator) -> Result<(), Error> {
        let entries = self.file.texts("validators");
        for (validator, _) in self.external_transformers(&entries)? {
            let memory: usize = all.objects.items().iter().map(|object| object.node.memory()).sum();
            build_steps::count(build_steps::of_memory(memory))?;
            let before = all.objects.clone();
            validator.apply(&mut all.objects, self.session.schemas)?;
            let same =
                before.items().len() == all.objects.items().len()
                    && before.items().iter().zip(all.objects.items()).all(|(before, after)| {
                        without_mark(after).is_ok_and(|after| before.node == after.node)
                    });
            if !same {
                return Err(Error::text("validator shouldn't modify the resource map"));
            }
        }
        Ok(())
    }

    /// The transformers of the file's own fields, in the order in which kustomize runs them.
    fn own_transformers(&self, config: &Config) -> Result<Configured, Error> {
        let mut out = Configured::new();
        let origin = |kind| self.origin.as_ref().map(|origin| origin.built_in(self.file_name, kind));
        let mut add = |kind, transformers: Vec<Transformer>| {
            out.extend(transformers.into_iter().map(|transformer| (transformer, origin(kind))));
        };
        add("PatchStrategicMergeTransformer", self.strategic_merge_patches()?);
        add("PatchTransformer", self.patches()?);
        add("NamespaceTransformer", self.namespace(config));
        add("PrefixTransformer", self.affix("namePrefix", false, config.list(List::NamePrefix)));
        add("SuffixTransformer", self.affix("nameSuffix", true, config.list(List::NameSuffix)));
        add("LabelTransformer", self.labels(config)?);
        add("AnnotationsTransformer", self.annotations(config));
        add("PatchJson6902Transformer", self.json_patches()?);
        add("ReplicaCountTransformer", self.replicas(config));
        add("ImageTagTransformer", self.images(config));
        add("ReplacementTransformer", self.replacements()?);
        Ok(out)
    }

    fn strategic_merge_patches(&self) -> Result<Vec<Transformer>, Error> {
        let paths = self.file.texts("patchesStrategicMerge");
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let config = Data::Map(Map::from([(
            "paths".to_owned(),
            Data::List(paths.iter().cloned().map(Data::String).collect()),
        )]));
        let failed = |e| match configuration_text(&config) {
            Ok(config) => trouble("PatchStrategicMergeTransformer", &config, e),
            Err(e) => e,
        };
        Ok(vec![Transformer::StrategicMerge(self.load_merges(&paths, "").map_err(failed)?)])
    }

    /// The patches of texts that are patches themselves, or paths of files.
    pub(super) fn load_merges(&self, paths: &[String], inline: &str) -> Result<Vec<Resource>, Error> {
        if paths.is_empty() && inline.is_empty() {
            return Err(Error::text("empty file path and empty patch content"));
        }
        let mut out = Vec::new();
        let read = |text: &str| read_within(text, self.session.room);
        for path in paths {
            out.extend(match read(path) {
                Ok(patches) => patches,
                Err(_) => read(&self.read_file(path)?).map_err(|e| super::in_file(e, path))?,
            });
        }
        if !inline.is_empty() {
            out.extend(read(inline)?);
        }
        if out.is_empty() {
            let files = paths.join(" ");
            let text = format!("patch appears to be empty; files=[{files}], Patch={inline}");
            return Err(Error::text(text));
        }
        Ok(out)
    }

    fn patches(&self) -> Result<Vec<Transformer>, Error> {
        let patch = |(at, data): (usize, &Data)| {
            let (config, source) = (configuration_text(data)?, patch_source(data));
            let loaded = self.load_patch(&source, &config);
            Ok(Transformer::Patch(loaded.map_err(|e| {
                let error = trouble("PatchTransformer", &config, e);
                self.with_patch_hint(error, &format!("patches[{at}]"), &source)
            })?))
        };
        self.file.list("patches").iter().enumerate().map(patch).collect()
    }

    /// Reads a patch of `patches`.
    pub(super) fn load_patch(&self, source: &PatchSource, config: &str) -> Result<LoadedPatch, Error> {
        let inline = source.patch.trim();
        let allowed = Allowed { name: source.allow_name_change, kind: source.allow_kind_change };
        match (inline.is_empty(), source.path.as_str()) {
            (true, "") => Err(Error::text(format!("must specify one of patch and path in\n{config}"))),
            (true, path) => {
                let failed = |e: Error| e.within(format!("failed to get the patch file from path({path})"));
                let text = self.read_file(path).map_err(failed)?;
                let shown = format!("[path: {}]", quote(path.as_bytes()));
                LoadedPatch::read(&text, shown, source.target.clone(), allowed, self.session.room)
            }
            (false, "") => {
                let shown = format!("[patch: {}]", quote(inline.as_bytes()));
                LoadedPatch::read(inline, shown, source.target.clone(), allowed, self.session.room)
            }
            (false, _) => Err(Error::text(format!("patch and path can't be set at the same time\n{config}"))),
        }
    }

    fn namespace(&self, config: &Config) -> Vec<Transformer> {
        let namespace = self.file.text("namespace");
        if namespace.is_empty() {
            return Vec::new();
        }
        vec![Transformer::Namespace(Namespace {
            namespace: namespace.to_owned(),
            fields: config.list(List::Namespace).to_vec(),
            unset_only: false,
            subjects: Subjects::Default,
        })]
    }

    fn affix(&self, key: &str, is_suffix: bool, fields: &[FieldSpec]) -> Vec<Transformer> {
        let text = self.file.text(key);
        if text.is_empty() {
            return Vec::new();
        }
        vec![Transformer::Affix(Affix { text: text.to_owned(), is_suffix, fields: fields.to_vec() })]
    }

    fn labels(&self, config: &Config) -> Result<Vec<Transformer>, Error> {
        let common = map_text(self.file.get("commonLabels"));
        let items = self.file.list("labels");
        if items.is_empty() && common.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |e: Error| e.within("failed to merge labels");
        let mut out = Vec::new();
        for item in items.iter().map(LabelItem::from) {
            let mut fields = item.fields;
            merge_all(&mut fields, config.list(List::Labels)).map_err(failed)?;
            if item.selectors {
                merge_all(&mut fields, config.list(List::CommonLabels)).map_err(failed)?;
            } else {
                if item.templates {
                    merge_all(&mut fields, config.list(List::TemplateLabels))
                        .map_err(|e| e.within("failed to merge template fieldSpec"))?;
                }
                merge_one(&mut fields, &FieldSpec::of_all("metadata/labels", true)).map_err(failed)?;
            }
            out.push(Transformer::Pairs(item.pairs, fields));
        }
        // Without common labels it changes nothing, but counts as a transformer.
        out.push(Transformer::Pairs(common, config.list(List::CommonLabels).to_vec()));
        Ok(out)
    }

    fn annotations(&self, config: &Config) -> Vec<Transformer> {
        let pairs = map_text(self.file.get("commonAnnotations"));
        if pairs.is_empty() {
            return Vec::new();
        }
        vec![Transformer::Pairs(pairs, config.list(List::CommonAnnotations).to_vec())]
    }

    fn json_patches(&self) -> Result<Vec<Transformer>, Error> {
        let patch = |(at, data): (usize, &Data)| {
            let mut config = data.clone();
            if let Data::Map(map) = &mut config {
                map.remove("options");
                if let Some(patch) = map.remove("patch") {
                    map.insert("jsonOp".to_owned(), patch);
                }
            }
            let config = configuration_text(&config)?;
            let source = patch_source(data);
            self.load_json_patch(&source).map_err(|e| {
                let error = trouble("PatchJson6902Transformer", &config, e);
                self.with_patch_hint(error, &format!("patchesJson6902[{at}]"), &source)
            })
        };
        self.file.list("patchesJson6902").iter().enumerate().map(patch).collect()
    }

    /// Reads a patch of `patchesJson6902`.
    pub(super) fn load_json_patch(&self, source: &PatchSource) -> Result<Transformer, Error> {
        let Some(target) = source.target.clone() else {
            return Err(Error::text("must specify a target for the patch"));
        };
        if target.name.is_empty() {
            return Err(Error::text("must specify the target name"));
        }
        let text = match (source.path.as_str(), source.patch.as_str()) {
            ("", "") => return Err(Error::text("empty file path and empty jsonOp")),
            ("", patch) => patch.to_owned(),
            (_, patch) if !patch.is_empty() => {
                return Err(Error::text("must specify a file path or jsonOp, not both"));
            }
            (path, _) => self.read_file(path)?,
        };
        if text.is_empty() {
            let path = &source.path;
            return Err(Error::text(format!("patch file '{path}' empty seems to be empty")));
        }
        match JsonPatch::parse(&text) {
            None => Err(Error::text(format!("decoding {text}: it is not a list of operations"))),
            Some(patch) if patch.is_empty() => {
                let path = &source.path;
                Err(Error::text(format!("patch appears to be empty; file={path}, JsonOp={text}")))
            }
            Some(patch) => Ok(Transformer::Json(target, patch)),
        }
    }

    fn replicas(&self, config: &Config) -> Vec<Transformer> {
        let replicas = |data: &Data| {
            let fields = config.list(List::Replicas).to_vec();
            Transformer::Replicas(Replicas { fields, ..super::plugins::replicas(data) })
        };
        self.file.list("replicas").iter().map(replicas).collect()
    }

    fn images(&self, config: &Config) -> Vec<Transformer> {
        let images = |data: &Data| {
            let (image, suffix) = image(data);
            Transformer::Image(image, suffix, config.list(List::Images).to_vec())
        };
        self.file.list("images").iter().map(images).collect()
    }

    fn replacements(&self) -> Result<Vec<Transformer>, Error> {
        let list = self.file.list("replacements");
        if list.is_empty() {
            return Ok(Vec::new());
        }
        let list: Vec<Data> = list.iter().map(without_empty_targets).collect();
        let loaded = replacements(&list, &|path| self.loader.load(path));
        Ok(vec![Transformer::Replacements(loaded.map_err(|e| {
            let config = Data::Map(Map::from([("replacements".to_owned(), Data::List(list.clone()))]));
            match configuration_text(&config) {
                Ok(config) => trouble("ReplacementTransformer", &config, e),
                Err(e) => e,
            }
        })?)])
    }
}

/// Targets that are an empty list are none, once they are written and read again.
fn without_empty_targets(data: &Data) -> Data {
    let mut data = data.clone();
    if let Data::Map(map) = &mut data
        && map.get("targets").and_then(Data::as_list).is_some_and(<[Data]>::is_empty)
    {
        map.remove("targets");
    }
    data
}

/// An object without the label that a validator may set.
fn without_mark(object: &Resource) -> Result<Resource, Error> {
    let mut object = object.clone();
    let mut labels = metadata_map(&object.node, "labels");
    if labels.remove("validated-by").is_some() {
        set_metadata_map(&mut object.node, "labels", &labels)?;
    }
    Ok(object)
}

impl Transformer {
    /// The field of a kustomization for patches of this kind, and what the patch is for.
    fn target(&self) -> Option<(&'static str, &Selector)> {
        match self {
            Self::Patch(patch) => patch.target().map(|target| ("patches", target)),
            Self::Json(target, _) => Some(("patchesJson6902", target)),
            _ => None,
        }
    }

    /// Applies it, and returns how many objects a patch has; those of other transformers are not counted.
    pub(super) fn apply(
        &self,
        objects: &mut Objects,
        schemas: &crate::schema::Schemas,
    ) -> Result<usize, Error> {
        match self {
            Self::Patch(patch) => return patch.apply(objects, schemas),
            Self::Json(target, patch) => {
                let selector = target.compile()?;
                let mut count = 0;
                for at in 0..objects.items().len() {
                    build_steps::count(1)?;
                    if objects.items().get(at).is_some_and(|o| selector.matches(o, schemas)) {
                        count += 1;
                        objects.change(at, schemas, |o| crate::patch::apply_json(o, patch))?;
                    }
                }
                return Ok(count);
            }
            _ => {}
        }
        self.transform(objects, schemas).map(|()| 0)
    }

    fn transform(&self, objects: &mut Objects, schemas: &crate::schema::Schemas) -> Result<(), Error> {
        use crate::transform::{images::set_images, metadata::set_pairs};
        match self {
            Self::StrategicMerge(patches) => {
                patches.iter().try_for_each(|patch| crate::patch::merge_adapted(objects, patch, schemas))
            }
            Self::Patch(_) | Self::Json(..) => self.apply(objects, schemas).map(|_| ()),
            Self::Namespace(namespace) => namespace.apply(objects, schemas),
            Self::Affix(affix) => affix.apply(objects, schemas),
            Self::Pairs(pairs, _) if pairs.is_empty() => Ok(()),
            Self::Pairs(pairs, fields) => {
                // Fields of a user may be those of an identity.
                set_pairs(objects.items_mut(), pairs, fields)
            }
            Self::Replicas(replicas) => replicas.apply(objects, schemas),
            Self::Image(image, suffix, fields) => set_images(objects.items_mut(), image, suffix, fields),
            Self::Replacements(list) => list.iter().try_for_each(|one| one.apply(objects, schemas).map(drop)),
            Self::ValueAdd(add) => add.apply(objects, schemas),
            Self::Hash => {
                for object in objects.items_mut() {
                    super::add_hash(object, schemas)?;
                }
                Ok(())
            }
            Self::All(list) => list.iter().try_for_each(|one| one.apply(objects, schemas).map(|_| ())),
        }
    }
}
