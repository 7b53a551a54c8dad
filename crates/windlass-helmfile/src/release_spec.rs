//! A release of a state file as the engine gets it.
//!
//! Owns the mapping from a release's fields, chart and values to a [`ReleaseSpec`]. Reads charts through [`ReleaseCharts`]; changes
//! no cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use chart_compat::profile::Profile;
use chart_compat::render::{CompiledChart, Manifest, Rendered};

use super::helm_arguments::{self, HelmArgument};
use super::patched_chart::{self, Changes};
use super::release_chart::{ExtraValues, ReleaseCharts, changes};
use super::release_options;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::record::Record;
use helmfile_compat::{Error, release_values};
use windlass_controller::{PostRender, ReconcileError, ReleaseSpec};
use windlass_engine::record::Record as ReleaseRecord;
use windlass_render::{RenderBounds, crds, note_secrets, recorded_values, release as converted};

/// A program that changes what a chart rendered. Returns the manifest as the program printed it, if that is recorded.
pub type PostProgram = Arc<dyn Fn(&mut Rendered) -> Result<Option<Vec<u8>>, Error> + Send + Sync>;

/// What a caller adds to all releases.
pub struct SpecContext<'c> {
    /// Loads charts and values.
    pub charts: &'c ReleaseCharts<'c>,
    /// Further `--set` values.
    pub set: &'c [String],
    /// Arguments for helm before those of the state.
    pub arguments: &'c str,
    /// Further values files.
    pub files: &'c [String],
    /// Receives warnings of renders.
    pub warn: fn(&str),
    /// The namespace of releases that have none.
    pub default_namespace: &'c str,
    /// Mark of the releases; empty for none.
    pub owner: &'c str,
    /// Why releases are reconciled.
    pub cause: &'c str,
    /// Further labels of records.
    pub record_labels: &'c BTreeMap<String, String>,
}

/// The release as the engine gets it. `program` changes what its chart renders.
///
/// # Errors
/// Its chart, values or patches cannot be read, or a field has no meaning for the engine.
pub fn release_spec(
    context: &SpecContext<'_>,
    state: &State,
    release: &Record,
    program: Option<PostProgram>,
) -> Result<ReleaseSpec, Error> {
    let charts = context.charts;
    let entries = release_values::of_release(charts.host, state, release)?;
    let mut options = release_options::options(state, release)?;
    let mut skip_schema_validation = release_options::flag(state, release, key!("skipSchemaValidation"));
    let mut set = context.set.to_vec();
    let own = helm_arguments::own_arguments(state, &[key!("args")]);
    for argument in helm_arguments::helm_arguments(&format!("{} {own}", context.arguments))? {
        match argument {
            HelmArgument::Set(text) => set.push(text),
            HelmArgument::NoHooks => options.run_hooks = false,
            HelmArgument::SkipSchemaValidation => skip_schema_validation = true,
            // Tests are not run, and CRDs are always applied.
            HelmArgument::IncludeCrds | HelmArgument::SkipTests => {}
        }
    }
    let extra = ExtraValues { set: &set, files: context.files };
    let user = charts.user_values(state, release, &entries, extra)?;
    let source = charts.chart(state, release, charts.place(state, release)?, &entries)?;
    let changes = changes(charts.host, state, release, source.made)?;
    note_secrets(&source.chart, &user);
    let compiled = CompiledChart::new(source.chart, charts.profile);
    let files = crds(&compiled.chart().crds()).map_err(Error::host)?;
    let mut labels = match release_options::syncs_labels(state, release) {
        true => release.text_map(key!("labels")),
        false => BTreeMap::new(),
    };
    // Those that tell whose the record is are not the release's to set.
    labels.extend(context.record_labels.clone());
    Ok(ReleaseSpec {
        id: release_options::release_id(release, context.default_namespace),
        chart: Arc::new(compiled),
        values: Arc::new(user),
        skip_schema_validation,
        crds: files,
        owner: context.owner.to_owned(),
        cause: context.cause.to_owned(),
        description: Some(release.text(key!("description"))).filter(|text| !text.is_empty()),
        record_labels: labels,
        checksum_label: None,
        post_render: (!changes.is_empty() || program.is_some())
            .then(|| post_render(changes, program, charts.profile, context.warn)),
        options,
    })
}

/// Makes the values of a recorded revision the defaults under those of the state file: `reuseValues`.
///
/// # Errors
/// The recorded values do not fit together.
pub fn reuse_values(spec: &mut ReleaseSpec, base: &ReleaseRecord) -> Result<(), Error> {
    let profile = spec.chart.profile();
    let (mut chart, mut user) = (spec.chart.chart().clone(), (*spec.values).clone());
    recorded_values::reuse_as_defaults(base, &mut chart, profile).map_err(Error::host)?;
    recorded_values::fill(&mut user, recorded_values::user_values(base));
    note_secrets(&chart, &user);
    spec.chart = Arc::new(CompiledChart::new(chart, profile));
    spec.values = Arc::new(user);
    Ok(())
}

/// Applies patches, then the program, after the real render, so that lookups, revisions and notes stay what the chart makes of them.
fn post_render(
    changes: Changes,
    program: Option<PostProgram>,
    profile: Profile,
    warn: fn(&str),
) -> PostRender {
    Arc::new(move |chart: Rendered, bounds: &RenderBounds| {
        let failed = |error: &dyn std::error::Error| ReconcileError::Chart(error.to_string());
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        let hooks = chart.hooks.iter().map(|hook| &hook.manifest);
        for Manifest { source, text, .. } in chart.manifests.iter().chain(hooks) {
            if changes.is_empty() {
                files.entry(source.clone()).or_default().push_str(&format!("---\n{text}\n"));
                continue;
            }
            // As in the chart that helmfile makes of the output.
            let path = source.split_once('/').map_or(source.as_str(), |(_, path)| path);
            files.entry(path.to_owned()).or_default().push_str(&format!("---\n# Source: {source}\n{text}\n"));
        }
        if !changes.is_empty() {
            files = patched_chart::changed(files, &changes).map_err(|error| failed(&error))?;
        }
        let made =
            Rendered::from_files(files, profile, &mut |line| warn(&line)).map_err(|error| failed(&error))?;
        let mut made = Rendered { manifests: made.manifests, hooks: made.hooks, ..chart };
        let printed = match &program {
            Some(program) => program(&mut made).map_err(|error| failed(&error))?,
            None => None,
        };
        let mut release = converted(&made, bounds).map_err(|error| failed(&error))?;
        if let Some(text) = printed {
            release.manifest_text = String::from_utf8_lossy(&text).into_owned();
        }
        Ok((release, String::new()))
    })
}
