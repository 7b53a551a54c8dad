//! Renders a chart: values, schemas, templates in Helm's order, then sorting of the output.

use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::context::{TemplateTask, texts};
use super::error::Error;
use super::prefetch::Prefetch;
use super::run::{Run, RunOutput};
use super::schema::{self, Schemas};
use super::{Options, Rendered, functions, manifest};
use crate::chart::{Chart, Preparation, Warn, coalesce_values_within, process_dependencies_within};
use crate::data::Map as DataMap;
use crate::go::semver;
use crate::profile::Profile;
use crate::sprig;
use crate::template::{self, BUILTINS, Diagnostic, Func, Funcs, Template, UNNAMED};
use crate::world::World;

/// Rendered files: path and text.
type Files = Vec<(String, String)>;

/// The result of a lenient render.
pub(crate) struct Lenient {
    /// Path and text of every file, in order of path, or the error of a template or a schema.
    pub(crate) files: Result<Files, Error>,
    /// The diagnostics.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Parses one template file with the functions of a Helm version; takes the memory of its tree from what is left.
pub(crate) fn parse_template(name: &str, text: &Bytes, profile: Profile, left: &mut usize) -> Parsed {
    template::parse_within(name, text, funcs(profile), left)
}

/// Renders as lint does: processes dependencies, coalesces values and checks schemas. Missing
/// required values and calls of `fail` become diagnostics and render nothing.
pub(crate) fn render_leniently(
    chart: Chart,
    values: &DataMap,
    options: &Options,
    profile: Profile,
    world: &dyn World,
) -> Lenient {
    let mut diagnostics = Vec::new();
    let valid = if options.skip_schema_validation {
        Ok(())
    } else {
        schema::validate(&chart, values, &Schemas::default(), world, &mut drop)
    };
    let files = valid.and_then(|()| {
        let compiled = CompiledChart::new(chart, profile);
        compiled.parse_templates(&compiled.chart, options.limits.memory)?;
        let run = Run { chart: &compiled.chart, values, options, world, compiled: &compiled };
        let mut files = run.one_by_one(Some(&mut diagnostics))?;
        files.sort();
        Ok(files)
    });
    Lenient { files, diagnostics }
}

/// The result of parsing a text.
pub(super) type Parsed = Result<Vec<Template>, template::Error>;

/// Parsed texts by path. A path can have another text in another render: two subcharts may have the same alias.
#[derive(Default)]
struct Known {
    paths: FxHashMap<String, (Bytes, Arc<Parsed>)>,
    /// Those of each text by its address, without names: copies of a chart have the same.
    texts: FxHashMap<usize, (Bytes, Vec<Template>)>,
    /// The memory of all, in bytes.
    taken: usize,
}

impl Known {
    fn get(&self, path: &str, text: &Bytes) -> Option<&Arc<Parsed>> {
        // Both are alive, so that equal addresses mean the same text.
        let same = |own: &Bytes| std::ptr::eq(own.as_ptr(), text.as_ptr()) && own.len() == text.len();
        self.paths.get(path).filter(|known| same(&known.0)).map(|known| &known.1)
    }
}

/// A chart prepared for many renders: its templates are parsed once, when first needed, and cached.
pub struct CompiledChart {
    chart: Chart,
    profile: Profile,
    parsed: Mutex<Known>,
    prefetch: Mutex<Option<Prefetch>>,
    schemas: Schemas,
}

/// The functions that templates can call.
pub(super) fn funcs(profile: Profile) -> &'static Funcs {
    static HELM4: LazyLock<Funcs> = LazyLock::new(|| table(Profile::Helm4));
    static HELM3: LazyLock<Funcs> = LazyLock::new(|| table(Profile::Helm3));
    match profile {
        Profile::Helm4 => &HELM4,
        Profile::Helm3 => &HELM3,
    }
}

fn groups(profile: Profile) -> Vec<&'static [Func]> {
    let mut groups: Vec<&'static [Func]> = vec![BUILTINS];
    groups.extend(sprig::GROUPS);
    groups.push(functions::HELM);
    if profile == Profile::Helm4 {
        groups.extend(sprig::HELM4_ONLY);
    }
    groups
}

fn table(profile: Profile) -> Funcs {
    Funcs::new(&groups(profile), functions::method, profile.values_type())
}

/// The names of all functions that templates can call, in no particular order.
#[must_use]
pub fn function_names(profile: Profile) -> Vec<&'static str> {
    groups(profile).into_iter().flatten().map(|f| f.name).collect()
}

impl CompiledChart {
    /// Prepares a loaded chart for rendering.
    #[must_use]
    pub fn new(chart: Chart, profile: Profile) -> Self {
        Self {
            chart,
            profile,
            parsed: Mutex::default(),
            prefetch: Mutex::default(),
            schemas: Schemas::default(),
        }
    }

    /// Prepares a loaded chart whose templates are already being parsed.
    #[must_use]
    pub fn with_prefetch(chart: Chart, prefetch: Prefetch, profile: Profile) -> Self {
        Self { prefetch: Mutex::new(Some(prefetch)), ..Self::new(chart, profile) }
    }

    /// The chart as it was loaded.
    #[must_use]
    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// The Helm version to emulate.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Renders the chart with the user's values.
    ///
    /// The first render parses the templates and caches them: later ones, with other values or from other threads, only execute them.
    ///
    /// ```
    /// # use chart_compat::{data::{Data, Map}, world::{KeyKind, Timestamp, World}};
    /// # struct Offline;
    /// # impl World for Offline {
    /// #     fn now(&self) -> Timestamp { Timestamp { seconds: 0, nanos: 0 } }
    /// #     fn local_zone(&self) -> String { "UTC".to_owned() }
    /// #     fn random(&self, bytes: &mut [u8]) { bytes.fill(4) }
    /// #     fn make_key(&self, _: KeyKind) -> Result<Vec<u8>, String> { Err("no keys".to_owned()) }
    /// #     fn sign(&self, _: &[u8], _: &[u8]) -> Result<Vec<u8>, String> { Err("no keys".to_owned()) }
    /// #     fn lookup(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Data, String> { Ok(Data::Map(Map::new())) }
    /// #     fn resolve(&self, _: &str) -> String { String::new() }
    /// # }
    /// use chart_compat::chart::{File, load_files};
    /// use chart_compat::{profile::Profile, template::Limits};
    /// use chart_compat::render::{Capabilities, CompiledChart, Options, Release};
    ///
    /// let file = |name: &str, text: &str| File::new(name.to_owned(), text.as_bytes().to_vec());
    /// let chart = load_files(
    ///     vec![
    ///         file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ///         file("templates/a.yaml", "kind: ConfigMap\ndata: {size: {{ .Values.size | quote }}}\n"),
    ///     ],
    ///     Profile::Helm4,
    ///     &mut drop,
    /// )?;
    /// let options = Options {
    ///     release: Release { name: "demo".into(), namespace: "default".into(), revision: 1, is_upgrade: false },
    ///     capabilities: Capabilities::default(),
    ///     skip_schema_validation: false,
    ///     subchart_notes: false,
    ///     limits: Limits::default(),
    /// };
    /// let compiled = CompiledChart::new(chart, Profile::Helm4);
    /// for size in ["small", "large"] {
    ///     let values = Map::from([("size".to_owned(), size.into())]);
    ///     let rendered = compiled.render(&values, &options, &Offline, &mut drop)?;
    ///     assert_eq!(rendered.manifests[0].source, "web/templates/a.yaml");
    ///     assert!(rendered.manifests[0].text.contains(size));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Invalid values, a violated schema, an incompatible Kubernetes version, a failed template, or output that is not valid YAML.
    pub fn render(
        &self,
        user: &DataMap,
        options: &Options,
        world: &dyn World,
        warn: Warn<'_>,
    ) -> Result<Rendered, Error> {
        let (chart, values) = self.prepare(user, options, world, warn)?;
        if !options.skip_schema_validation {
            schema::validate(&chart, &values, &self.schemas, world, warn)?;
        }
        self.parse_templates(&chart, options.limits.memory)?;
        let kube = &options.capabilities.kube_version;
        let range = &chart.metadata.kube_version;
        if !range.is_empty() && !semver::is_compatible(range, &kube.normalized) {
            return Err(Error::KubeVersion { range: range.clone(), version: kube.version.clone() });
        }
        let run = Run { chart: &chart, values: &values, options, world, compiled: self };
        let RunOutput { documents, notes, reads_revision } = run.all()?;
        let notes = join_notes(notes, &chart, options.subchart_notes);
        let (manifests, hooks) = manifest::sort(documents, self.profile, warn)?;
        let crds = chart.crds();
        Ok(Rendered { crds, chart: chart.metadata, manifests, hooks, notes, values, reads_revision })
    }

    /// The text of every template by its path, except notes and blank ones, before parsing: for finding errors in the output.
    /// Does not check schemas.
    ///
    /// # Errors
    /// As [`CompiledChart::render`].
    pub fn render_files(
        &self,
        user: &DataMap,
        options: &Options,
        world: &dyn World,
    ) -> Result<Vec<(String, String)>, Error> {
        let (chart, values) = self.prepare(user, options, world, &mut drop)?;
        self.parse_templates(&chart, options.limits.memory)?;
        let run = Run { chart: &chart, values: &values, options, world, compiled: self };
        let mut files = run.one_by_one(None)?;
        files.retain(|(path, text)| !path.ends_with("NOTES.txt") && !text.trim().is_empty());
        files.sort();
        Ok(files)
    }

    /// The chart with its enabled subcharts, and all values.
    fn prepare(
        &self,
        user: &DataMap,
        options: &Options,
        world: &dyn World,
        warn: Warn<'_>,
    ) -> Result<(Chart, DataMap), Error> {
        let stopped = || world.stopped();
        let bounds = Preparation::within(options.limits.memory, options.limits.steps, &stopped);
        let mut chart = self.chart.clone();
        process_dependencies_within(&mut chart, user, self.profile, &bounds, warn)
            .map_err(Error::Dependencies)?;
        let values = coalesce_values_within(&chart, user, self.profile, &bounds, warn)?;
        Ok((chart, values))
    }

    /// Parses the templates that earlier renders did not need. All that the chart has take at most so many bytes of memory.
    fn parse_templates(&self, chart: &Chart, memory: usize) -> Result<(), Error> {
        let prefetch = self.prefetch.lock().unwrap_or_else(PoisonError::into_inner).take();
        let prefetched = prefetch.map(Prefetch::finish).unwrap_or_default();
        let mut known = self.known();
        for (text, templates, taken) in prefetched {
            known.taken = known.taken.saturating_add(taken);
            known.texts.insert(text.as_ptr().addr(), (text, templates));
        }
        drop(known);
        for (path, text) in texts(chart, memory)? {
            let known = self.known();
            if known.get(&path, &text).is_some() {
                continue;
            }
            let mut left = memory.saturating_sub(known.taken);
            let same = known.texts.get(&text.as_ptr().addr()).filter(|(own, _)| own.len() == text.len());
            let templates = same.map(|(_, templates)| templates.clone());
            drop(known);
            let before = left;
            let parsed = self.parse(&path, &text, templates, &mut left);
            let mut known = self.known();
            known.taken = known.taken.saturating_add(before - left);
            if left == 0 {
                return Err(Error::context(&path, "syntax trees of all templates", memory));
            }
            known.paths.insert(path, (text, Arc::new(parsed)));
        }
        Ok(())
    }

    /// Parses a text, unless the templates of the same text are at hand: takes their memory, and that of their names, from what is
    /// left.
    fn parse(&self, path: &str, text: &Bytes, templates: Option<Vec<Template>>, left: &mut usize) -> Parsed {
        let funcs = funcs(self.profile);
        let templates = match templates {
            Some(templates) => templates,
            // A text that does not parse is parsed again, for an error with its name.
            None => match template::parse_within(UNNAMED, text, funcs, left) {
                Ok(templates) => {
                    self.known().texts.insert(text.as_ptr().addr(), (text.clone(), templates.clone()));
                    templates
                }
                Err(error) if *left == 0 => return Err(error),
                Err(_) => return template::parse_within(path, text, funcs, left),
            },
        };
        if templates.iter().any(|t| t.name() == path) {
            return template::parse_within(path, text, funcs, left);
        }
        let names: usize = templates.iter().map(|t| size_of::<Template>() + t.name().len()).sum();
        *left = left.saturating_sub(names + path.len());
        if *left == 0 { Ok(Vec::new()) } else { Ok(template::named(templates, path)) }
    }

    /// The parsed templates, without texts that are not parsed yet.
    pub(super) fn parsed(&self, order: &[TemplateTask<'_>]) -> Vec<Arc<Parsed>> {
        let known = self.known();
        order.iter().filter_map(|j| known.get(&j.name, &j.text).map(Arc::clone)).collect()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Joins the notes of the chart, and of its subcharts if requested, in order of path.
fn join_notes(mut files: Vec<(String, String)>, chart: &Chart, subcharts: bool) -> String {
    let own = format!("{}/templates/NOTES.txt", chart.name());
    files.sort();
    let wanted: Vec<String> =
        files.into_iter().filter(|(path, _)| subcharts || *path == own).map(|(_, text)| text).collect();
    let mut notes = String::new();
    for text in wanted {
        if !notes.is_empty() {
            notes.push('\n');
        }
        notes.push_str(&text);
    }
    notes
}
