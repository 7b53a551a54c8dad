//! The render itself: values, schema, templates in Helm's order, then the sorting of what came out.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::context::{Job, jobs};
use super::error::Error;
use super::{Options, Rendered, functions, manifest};
use crate::chart::{Chart, Warn, coalesce_values, process_dependencies};
use crate::data::Map as DataMap;
use crate::go::{Arena, Map, MapKind, Value, semver};
use crate::profile::Profile;
use crate::sprig;
use crate::template::{self, BUILTINS, Exec, Func, Funcs, Notice, Set, Template, TemplateSet};
use crate::world::World;

/// Rendered files: path and text.
type Files = Vec<(String, String)>;

/// What a lenient render gives.
pub(crate) struct Lenient {
    /// Path and text of every file, in order of path, or why a template or a schema fails.
    pub(crate) files: Result<Files, Error>,
    /// What was noticed.
    pub(crate) notices: Vec<Notice>,
}

/// Parses one file of templates with a Helm's functions in reach.
pub(crate) fn parse_template(name: &str, text: Arc<[u8]>, profile: Profile) -> Parsed {
    template::parse(name, text, funcs(profile))
}

/// Renders as lint does: the chart's dependencies are processed and its values complete, schemas are checked, missing
/// required values and calls of `fail` are noticed and render nothing.
pub(crate) fn render_leniently(
    chart: Chart,
    values: &DataMap,
    options: &Options,
    profile: Profile,
    world: &dyn World,
) -> Lenient {
    let mut notices = Vec::new();
    let valid = if options.skip_schema_validation { Ok(()) } else { super::schema::validate(&chart, values) };
    let files = valid.and_then(|()| {
        let compiled = CompiledChart::new(chart, profile);
        compiled.execute(&compiled.chart, values, options, world, Some(&mut notices))
    });
    Lenient { files, notices }
}

/// What a text parsed to.
type Parsed = Result<Vec<Template>, template::Error>;

/// A chart ready to render many times: its templates are parsed once, when first needed, and kept.
pub struct CompiledChart {
    chart: Chart,
    profile: Profile,
    parsed: Mutex<HashMap<String, Arc<Parsed>>>,
}

fn funcs(profile: Profile) -> &'static Funcs {
    static HELM4: LazyLock<Funcs> = LazyLock::new(|| table(Profile::Helm4));
    static HELM3: LazyLock<Funcs> = LazyLock::new(|| table(Profile::Helm3));
    match profile {
        Profile::Helm4 => &HELM4,
        Profile::Helm3 => &HELM3,
    }
}

fn table(profile: Profile) -> Funcs {
    let mut groups: Vec<&'static [Func]> = vec![BUILTINS];
    groups.extend(sprig::GROUPS);
    groups.push(functions::HELM);
    if profile == Profile::Helm4 {
        groups.extend(sprig::HELM4_ONLY);
    }
    Funcs::new(&groups, functions::method, profile.values_type())
}

impl CompiledChart {
    /// Keeps a loaded chart for rendering.
    #[must_use]
    pub fn new(chart: Chart, profile: Profile) -> Self {
        Self { chart, profile, parsed: Mutex::new(HashMap::new()) }
    }

    /// The chart as it was loaded.
    #[must_use]
    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// The Helm that renders are to be equal to.
    #[must_use]
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// Renders the chart with the user's values.
    ///
    /// # Errors
    /// Values, schema, Kubernetes version, a template, or YAML that came out of one.
    pub fn render(
        &self,
        user: &DataMap,
        options: &Options,
        world: &dyn World,
        warn: Warn<'_>,
    ) -> Result<Rendered, Error> {
        let mut chart = self.chart.clone();
        process_dependencies(&mut chart, user, self.profile, warn).map_err(Error::Dependencies)?;
        let values = coalesce_values(&chart, user, self.profile, warn)?;
        if !options.skip_schema_validation {
            super::schema::validate(&chart, &values)?;
        }
        let kube = &options.capabilities.kube_version;
        let range = &chart.metadata.kube_version;
        if !range.is_empty() && !semver::is_compatible(range, &kube.normalized) {
            return Err(Error::KubeVersion { range: range.clone(), version: kube.version.clone() });
        }
        let files = self.execute(&chart, &values, options, world, None)?;
        let (notes, files) = notes(files, &chart, options.subchart_notes);
        let (manifests, hooks) = manifest::sort(files, self.profile, warn)?;
        Ok(Rendered { crds: chart.crds(), chart: chart.metadata, manifests, hooks, notes, values })
    }

    fn parse(&self, job: &Job<'_>) -> Arc<Parsed> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(p) = parsed.get(&job.name) {
            return Arc::clone(p);
        }
        let result = Arc::new(template::parse(&job.name, Arc::clone(&job.text), funcs(self.profile)));
        parsed.insert(job.name.clone(), Arc::clone(&result));
        result
    }

    /// Runs every template that is not a partial; gives path and text, in order of path.
    fn execute(
        &self,
        chart: &Chart,
        values: &DataMap,
        options: &Options,
        world: &dyn World,
        notices: Option<&mut Vec<Notice>>,
    ) -> Result<Files, Error> {
        let arena = Arena::new();
        let mut jobs = jobs(&arena, chart, values, options, self.profile);
        let first = jobs.first().filter(|_| notices.is_some());
        if let Some(Value::Map(release)) = first.and_then(|j| j.context.get(b"Release")) {
            // Lint neither installs nor upgrades.
            release.insert(b"IsInstall", Value::Bool(false));
        }
        // Deeper charts first, and the later name first: what is parsed last wins, so parents override subcharts.
        jobs.sort_by(|a, b| {
            let depth = |j: &Job<'_>| j.name.matches('/').count();
            depth(b).cmp(&depth(a)).then_with(|| b.name.cmp(&a.name))
        });
        jobs.dedup_by(|later, kept| later.name == kept.name);
        let parsed: Vec<Arc<Parsed>> = jobs.iter().map(|j| self.parse(j)).collect();
        let mut base = TemplateSet::default();
        for (job, result) in jobs.iter().zip(&parsed) {
            match &**result {
                Ok(templates) => base.add(templates),
                Err(e) => return Err(Error::parse(job, e)),
            }
        }
        let store = typed_arena::Arena::new();
        let set = Set::new(&base);
        let funcs = funcs(self.profile);
        let Some(mut exec) = Exec::new(&arena, &store, set, funcs, world, options.limits) else {
            return Ok(Vec::new());
        };
        exec.notices = notices.is_some().then(Vec::new);
        let mut out = Vec::with_capacity(jobs.len());
        let mut result = Ok(());
        for job in &jobs {
            if job.name.rsplit('/').next().is_some_and(|base| base.starts_with('_')) {
                continue;
            }
            let template = Map::new(&arena, MapKind::Values);
            template.insert(b"BasePath", Value::str(&arena, &job.base_path));
            template.insert(b"Name", Value::str(&arena, &job.name));
            job.context.insert(b"Template", Value::Map(template));
            exec.root = Value::Map(job.context);
            let text = match exec.execute(&job.name, Value::Map(job.context)) {
                Ok(text) => text,
                Err(e) => {
                    result = Err(Error::exec(job, &e, self.profile));
                    break;
                }
            };
            let text = functions::without_no_value(text);
            let text = String::from_utf8(text)
                .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
            out.push((job.name.clone(), text));
        }
        if let (Some(notices), Some(found)) = (notices, exec.notices) {
            *notices = found;
        }
        result?;
        out.sort();
        Ok(out)
    }
}

/// Takes the notes out of the rendered files.
fn notes(files: Vec<(String, String)>, chart: &Chart, subcharts: bool) -> (String, Vec<(String, String)>) {
    let own = format!("{}/templates/NOTES.txt", chart.name());
    let mut notes = String::new();
    let mut rest = Vec::with_capacity(files.len());
    for (name, text) in files {
        if !name.ends_with("NOTES.txt") {
            rest.push((name, text));
        } else if subcharts || name == own {
            if !notes.is_empty() {
                notes.push('\n');
            }
            notes.push_str(&text);
        }
    }
    (notes, rest)
}
