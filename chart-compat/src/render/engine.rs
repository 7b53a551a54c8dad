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
use crate::template::{self, BUILTINS, Exec, Func, Funcs, Set, Template, TemplateSet};
use crate::world::World;

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
            super::schema::validate(&chart, &values, warn)?;
        }
        let kube = &options.capabilities.kube_version;
        let range = &chart.metadata.kube_version;
        if !range.is_empty() && !semver::is_compatible(range, &kube.normalized) {
            return Err(Error::KubeVersion { range: range.clone(), version: kube.version.clone() });
        }
        let files = self.execute(&chart, &values, options, world)?;
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
    ) -> Result<Vec<(String, String)>, Error> {
        let arena = Arena::new();
        let mut jobs = jobs(&arena, chart, values, options, self.profile);
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
                Err(e) => return Err(Error::parse(&job.name, e)),
            }
        }
        let store = typed_arena::Arena::new();
        let set = Set::new(&base);
        let funcs = funcs(self.profile);
        let Some(mut exec) = Exec::new(&arena, &store, set, funcs, world, options.limits) else {
            return Ok(Vec::new());
        };
        let mut out = Vec::with_capacity(jobs.len());
        for job in &jobs {
            if job.name.rsplit('/').next().is_some_and(|base| base.starts_with('_')) {
                continue;
            }
            let template = Map::new(&arena, MapKind::Values);
            template.insert(b"BasePath", Value::str(&arena, &job.base_path));
            template.insert(b"Name", Value::str(&arena, &job.name));
            job.context.insert(b"Template", Value::Map(template));
            let text = exec
                .execute(&job.name, Value::Map(job.context))
                .map_err(|e| Error::exec(&job.name, &e, self.profile))?;
            let text = functions::without_no_value(text);
            let text = String::from_utf8(text)
                .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned());
            out.push((job.name.clone(), text));
        }
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
