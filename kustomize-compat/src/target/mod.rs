//! One kustomization with all that it names, to manifests.
//!
//! Owns the order of the steps: resources, configuration, generators, components, transformers, validators, vars; and at the root
//! hashes, names, vars, order.

mod accumulator;
mod charts;
mod crds;
mod error_hints;
mod generators;
mod hints;
mod origin;
mod plugins;
mod transformers;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use chart_compat::data::Data;
use chart_compat::yaml::Room;

use crate::error::Error;
use crate::fieldspec::{Config, List};
use crate::format::to_yaml;
use crate::generate::hash::hash;
use crate::kustomization::{FILE_NAMES, KustomizationFile, SortOptions, sort_options, var};
use crate::load::{Loader, Metered, World};
use crate::order::sort;
use crate::refs::{names, vars};
use crate::resource::build_steps::Steps;
use crate::resource::growth::Growth;
use crate::resource::node::set_metadata_text;
use crate::resource::{ORIGIN, Objects, Resource, TRANSFORMATIONS, check_identity, read_within};
use crate::schema::Schemas;
use crate::transform::metadata::set_labels;
use accumulator::Accumulator;
use hints::{Hints, Renamed, not_followed, note_renamed};
use origin::Origin;

/// The version that `buildMetadata: [managedByLabel]` writes.
const MANAGED_BY: &str = "kustomize-v5.8.1";

/// How to build.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether files outside of the root may be read (`--load-restrictor LoadRestrictionsNone`).
    pub unrestricted: bool,
    /// Whether objects stay in the order in which they were read, unless the kustomization has `sortOptions` (`--reorder none`).
    pub keep_order: bool,
}

/// Builds the kustomization of an absolute directory, or of a repository's URL, as `kustomize build` does.
///
/// # Errors
/// What kustomize fails with, in its words.
pub fn build(world: &dyn World, target: &str, options: &Options) -> Result<String, Error> {
    to_yaml(build_target(world, target, options)?.objects.items())
}

/// A built kustomization.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// Its objects, in the order of the output.
    pub objects: Objects,
    /// `metadata.name` of the kustomization, which may be empty.
    pub name: String,
    /// `namespace` of the kustomization, which may be empty.
    pub namespace: String,
}

/// As [`build`], before the objects are printed.
///
/// # Errors
/// What kustomize fails with, in its words.
pub fn build_target(world: &dyn World, target: &str, options: &Options) -> Result<Built, Error> {
    let (_growth, _steps) = (Growth::begin(), Steps::begin());
    let schemas = Schemas::default();
    let world = &Metered::new(world);
    let loaded = Cell::new(0);
    let hints = Hints::default();
    let room = Room::default();
    let session = Session { world, schemas: &schemas, loaded: &loaded, hints: &hints, room: &room };
    let loader = Rc::new(Loader::root(world, target, !options.unrestricted)?);
    let mut target = Kustomization::load(session, loader)?;
    target.choose_schema()?;
    let mut objects = target.make()?;
    match target.file.get("sortOptions") {
        Some(data) => sort(&mut objects, &sort_options(data), &schemas)?,
        None if options.keep_order => {}
        None => sort(&mut objects, &SortOptions::by_kind(), &schemas)?,
    }
    let metadata = target.file.texts("buildMetadata");
    let has = |option: &str| metadata.iter().any(|one| one == option);
    if has("managedByLabel") {
        let label = ("app.kubernetes.io/managed-by".to_owned(), MANAGED_BY.to_owned());
        set_labels(objects.contents_mut(), &BTreeMap::from([label]))?;
    }
    for object in objects.items_mut() {
        object.remove_notes()?;
        if !has("originAnnotations") {
            object.remove_annotation(ORIGIN)?;
        }
        if !has("transformerAnnotations") {
            object.remove_annotation(TRANSFORMATIONS)?;
        }
    }
    let name = target.file.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Data::as_str);
    let namespace = target.file.text("namespace").to_owned();
    Ok(Built { objects, name: name.unwrap_or_default().to_owned(), namespace })
}

/// The most kustomizations that a build reads, each as often as it is named.
const MAX_KUSTOMIZATIONS: usize = 20_000;

/// What all kustomizations of a build share.
#[derive(Clone, Copy)]
struct Session<'b> {
    world: &'b dyn World,
    schemas: &'b Schemas,
    /// How many kustomizations were read.
    loaded: &'b Cell<usize>,
    hints: &'b Hints,
    /// What the aliases of all files may take.
    room: &'b Room,
}

/// A kustomization that is built.
struct Kustomization<'b> {
    session: Session<'b>,
    file: KustomizationFile,
    file_name: &'static str,
    loader: Rc<Loader<'b>>,
    /// Where it comes from, if objects are to tell.
    origin: Option<Origin>,
    /// The options of the root.
    build_metadata: bool,
    /// The namespace of a kustomization above, for charts.
    chart_namespace: String,
}

impl<'b> Kustomization<'b> {
    fn load(session: Session<'b>, loader: Rc<Loader<'b>>) -> Result<Self, Error> {
        let root = loader.directory();
        session.loaded.set(session.loaded.get() + 1);
        if session.loaded.get() > MAX_KUSTOMIZATIONS {
            return Err(Error::text(format!("a build reads at most {MAX_KUSTOMIZATIONS} kustomizations")));
        }
        let found = FILE_NAMES.iter().filter_map(|name| Some((*name, loader.load(name).ok()?)));
        let mut found = found.collect::<Vec<_>>();
        let (file_name, content) = match (found.pop(), found.is_empty()) {
            (None, _) => {
                return Err(Error::text(format!(
                    "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{root}'"
                )));
            }
            (Some(_), false) => {
                return Err(Error::text(format!("Found multiple kustomization files under: {root}\n")));
            }
            (Some(one), true) => one,
        };
        let file = KustomizationFile::parse(&content, root)?;
        file.warnings.iter().for_each(|line| session.world.warn(line));
        let build_metadata = !file.list("buildMetadata").is_empty();
        let made = Self {
            session,
            file,
            file_name,
            loader,
            origin: None,
            build_metadata,
            chart_namespace: String::new(),
        };
        made.hint_rewrites();
        Ok(made)
    }

    /// Chooses the schema that `openapi` names.
    fn choose_schema(&self) -> Result<(), Error> {
        let field = self.file.get("openapi");
        let text = |key| field.and_then(|field| field.get(key)).and_then(Data::as_str);
        let document = text("path").map(|path| self.loader.load(path)).transpose()?;
        self.session.schemas.choose(text("version"), document.as_deref())
    }

    fn read_file(&self, path: &str) -> Result<String, Error> {
        let content = self.loader.load(path)?;
        String::from_utf8(content)
            .map_err(|_| Error::Malformed("MalformedYAMLError: yaml: invalid leading UTF-8 octet".to_owned()))
    }

    /// The objects of the root.
    fn make(&mut self) -> Result<Objects, Error> {
        self.origin = self.build_metadata.then(Origin::default);
        let schemas = self.session.schemas;
        let Accumulator { mut objects, config, vars } = self.accumulate(Accumulator::default())?;
        let mut renamed = Renamed::new();
        for object in objects.items_mut() {
            if object.needs_hash() {
                add_hash(object, schemas)?;
                note_renamed(object, schemas, &mut renamed);
            }
        }
        names::fix(&mut objects, &config.references, schemas)?;
        let unused = vars::resolve(&mut objects, &vars, config.list(List::VarReference))?;
        if !unused.is_empty() {
            let unused = unused.join(",");
            self.session.world.warn(&format!("well-defined vars that were never replaced: {unused}"));
        }
        let objects = Objects::from(drop_local(objects.into_items())?);
        objects.check_unique(schemas)?;
        let (hints, world) = (self.session.hints, self.session.world);
        not_followed(objects.items(), &renamed, schemas, &mut |hint| hints.tell(world, hint));
        Ok(objects)
    }

    /// Adds what the kustomization makes to what is there: nothing, or what the parent of a component has.
    fn accumulate(&mut self, mut all: Accumulator) -> Result<Accumulator, Error> {
        let schemas = self.session.schemas;
        let resources = self.file.texts("resources");
        all = self.accumulate_resources(all, &resources).map_err(|e| e.within("accumulating resources"))?;
        all.add_config(&self.configuration()?)?;
        let crds = self.file.texts("crds");
        let loaded = crds::load(&crds, &|path| self.loader.load(path));
        let shown = || format!("loading CRDs [{}]", crds.join(" "));
        all.add_config(&loaded.map_err(|e| e.within(shown()))?)?;
        self.run_generators(&mut all)?;
        let components = self.file.texts("components");
        all =
            self.accumulate_components(all, &components).map_err(|e| e.within("accumulating components"))?;
        self.run_transformers(&mut all)?;
        self.run_validators(&mut all)?;
        let found: Vec<_> = self.file.list("vars").iter().map(var).collect();
        let written: Vec<&str> = found.iter().map(|var| var.written.as_str()).collect();
        let merging = format!("merging vars [{}]", written.join(" "));
        vars::mark(&mut all.objects, &found, schemas)
            .and_then(|()| found.into_iter().try_for_each(|var| all.add_var(var)))
            .map_err(|e| e.within(merging))?;
        Ok(all)
    }

    /// The configuration, with the files of `configurations`.
    fn configuration(&self) -> Result<std::sync::Arc<Config>, Error> {
        let mut own = std::sync::Arc::new(Config::default());
        let paths = self.file.texts("configurations");
        for path in &paths {
            let config = Config::parse(&self.loader.load(path)?)?;
            own = own.merge(&std::sync::Arc::new(config))?;
        }
        if paths.is_empty() { Ok(Config::known()) } else { Config::known().merge(&own) }
    }

    fn accumulate_resources(&mut self, mut all: Accumulator, paths: &[String]) -> Result<Accumulator, Error> {
        for path in paths {
            let Err(of_file) = self.accumulate_file(&mut all, path) else { continue };
            if matches!(of_file.root(), Error::Http(_)) {
                return Err(of_file);
            }
            let loader = match self.loader.below(path) {
                Err(_) if matches!(of_file.root(), Error::Malformed(_)) => return Err(of_file),
                loader => loader,
            };
            let made = loader.and_then(|loader| self.accumulate_directory(all, path, loader, false));
            all = made.map_err(|directory| Error::Accumulation {
                file: Box::new(of_file),
                directory: Box::new(directory),
            })?;
        }
        Ok(all)
    }

    fn accumulate_components(
        &mut self,
        mut all: Accumulator,
        paths: &[String],
    ) -> Result<Accumulator, Error> {
        let quoted = |e: &Error| chart_compat::go::quote(e.to_string().as_bytes());
        for path in paths {
            let loader = self.loader.below(path);
            let loader = loader.map_err(|e| Error::text(format!("loader.New {}", quoted(&e))))?;
            all = self
                .accumulate_directory(all, path, loader, true)
                .map_err(|e| Error::text(format!("accumulateDirectory: {}", quoted(&e))))?;
        }
        Ok(all)
    }

    fn accumulate_directory(
        &mut self,
        mut all: Accumulator,
        path: &str,
        loader: Loader<'b>,
        is_component: bool,
    ) -> Result<Accumulator, Error> {
        let loader = Rc::new(loader);
        let root = loader.directory().to_owned();
        let mut below = Self::load(self.session, loader)
            .map_err(|e| e.within(format!("couldn't make target for path '{root}'")))?;
        below.origin = self.origin.as_ref().map(|origin| origin.append(path));
        below.build_metadata = self.build_metadata;
        let namespace = self.file.text("namespace");
        below.chart_namespace =
            if namespace.is_empty() { self.chart_namespace.clone() } else { namespace.to_owned() };
        below.choose_schema()?;
        match (is_component, below.file.is_component()) {
            (true, false) => {
                let kind = below.file.text("kind");
                return Err(Error::text(format!(
                    "expected kind 'Component' for path '{root}' but got '{kind}'"
                )));
            }
            (false, true) => {
                return Err(Error::text(format!("expected kind != 'Component' for path '{root}'")));
            }
            _ => {}
        }
        let recursed = |e: Error| e.within(format!("recursed accumulation of path '{root}'"));
        if is_component {
            return below.accumulate(all).map_err(recursed);
        }
        let made = below.accumulate(Accumulator::default()).map_err(recursed)?;
        all.add(made, self.session.schemas)
            .map_err(|e| e.within(format!("recursed merging from path '{root}'")))?;
        Ok(all)
    }

    fn accumulate_file(&self, all: &mut Accumulator, path: &str) -> Result<(), Error> {
        let schemas = self.session.schemas;
        let mut objects = self
            .read_file(path)
            .and_then(|text| {
                let mut objects = Objects::default();
                let read =
                    read_within(&text, self.session.room).and_then(|list| objects.add_all(list, schemas));
                read.map(|()| objects).map_err(|e| in_file(e, path))
            })
            .map_err(|e| e.within(format!("accumulating resources from '{path}'")))?;
        if let Some(origin) = &self.origin {
            let text = origin.append(path).to_yaml();
            crate::transform::metadata::set_annotations(
                objects.contents_mut(),
                &BTreeMap::from([(ORIGIN.to_owned(), text)]),
            )?;
        }
        all.objects
            .add_all(objects.into_items(), schemas)
            .map_err(|e| e.within(format!("merging resources from '{path}'")))
    }
}

/// Adds the hash of its contents to the name of an object that asks for it.
fn add_hash(object: &mut Resource, schemas: &Schemas) -> Result<(), Error> {
    if !object.needs_hash() {
        return Ok(());
    }
    let hash = hash(object)?;
    object.store_id(schemas)?;
    let name = format!("{}-{hash}", object.id(schemas).name);
    set_metadata_text(&mut object.node, "name", &name)
}

/// Leaves out the objects that are not printed.
fn drop_local(objects: Vec<Resource>) -> Result<Vec<Resource>, Error> {
    let mut kept = Vec::with_capacity(objects.len());
    for object in objects {
        if object.is_empty() {
            continue;
        }
        check_identity(&object.node)?;
        if object.annotation("config.kubernetes.io/local-config").is_none_or(|value| value == "false") {
            kept.push(object);
        }
    }
    Ok(kept)
}

/// Names the file of a text that is not YAML.
fn in_file(e: Error, path: &str) -> Error {
    match e {
        Error::Malformed(text) => Error::Malformed(format!("{text} in File: {path}")),
        other => other,
    }
}
