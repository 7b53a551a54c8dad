//! The rights to install a chart with any values: those of all objects that it renders over a matrix of values.
//!
//! Owns the renders. Which values make a difference, and which of them are tried together, is `windlass-charts`'; what an object takes
//! is `windlass-controller`'s. Kinds in the text of templates that no combination renders are added and reported.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use chart_compat::chart::Chart;
use chart_compat::data::{Data, Map};
use chart_compat::render::{Capabilities, CompiledChart, Options, Rendered, default_api_versions};
use serde_json::{Value, json};

use super::{Defined, Kind, LOOK, LookupScope, Needs, looked_up, made, resource, text_of, written};
use windlass_charts::{Choice, KindNames, Pairwise, Switches};
use windlass_cluster::{Gvk, ObjectMeta, ServedKinds};
use windlass_controller::{
    OBJECT_VERBS, PlacedObject, RBAC_GROUP, RevisionView, object_rights, record_rights,
};
use windlass_render::{RenderBounds, RenderRequest, from_json, to_json};

/// Most renders of one chart.
const MAX_RENDERS: usize = 2000;
/// Most time for them.
const MAX_TIME: Duration = Duration::from_secs(600);
/// Most texts of failed renders.
const MAX_FAILURES: usize = 10;

/// What the rights of a chart depend on.
#[derive(Clone, Copy)]
pub struct ChartSubject<'c> {
    /// The chart.
    pub chart: &'c CompiledChart,
    /// Values over those of the chart, with which each combination starts.
    pub values: &'c Map,
    /// Name of the release.
    pub release: &'c str,
    /// Namespace of the release.
    pub namespace: &'c str,
    /// What the cluster serves, with its version; without one, each API version that a template asks for is tried both ways.
    pub cluster: Option<(&'c ServedKinds, &'c Capabilities)>,
    /// Bounds of one render.
    pub bounds: RenderBounds,
}

/// How the rights of a chart were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatrixSize {
    /// Values and API versions that make a difference.
    pub switches: usize,
    /// Renders.
    pub renders: usize,
    /// Renders that failed.
    pub failed: usize,
}

/// The objects of all renders.
#[derive(Default)]
struct Objects {
    /// Digests of the manifests that were read.
    seen: HashSet<u64>,
    /// One object of each kind and namespace; of roles, bindings and definitions all of them.
    kept: BTreeMap<(Gvk, String, String), Value>,
    /// Whether a placeholder of the matrix names a namespace.
    is_elsewhere: bool,
}

/// The rights to install, upgrade and uninstall releases of a chart, whatever their values.
///
/// # Errors
/// The chart's values or its schema cannot be read, or no combination of values can be rendered.
pub fn chart_needs(subject: &ChartSubject<'_>) -> Result<(Needs, MatrixSize), String> {
    let mut needs = Needs::default();
    let chart = subject.chart.chart();
    let base = to_json(&Data::Map(subject.values.clone()));
    let mut switches =
        Switches::of(chart, &base, subject.chart.profile()).map_err(|error| error.to_string())?;
    if subject.cluster.is_some() {
        switches.all.retain(|switch| matches!(switch, windlass_charts::Switch::Value(..)));
    }
    let mut objects = Objects::default();
    let size = render_all(subject, &base, &mut switches, &mut objects, &mut needs.unknown)?;
    for crd in chart.crds() {
        objects.add(made(&text_of(&crd), subject.namespace));
    }
    report_switches(&switches, &mut needs.unknown);
    objects.add_unrendered(chart, subject.namespace, &mut needs.unknown);
    let defined = objects.defined();
    needs.lookups(subject, chart, &defined);
    needs.objects(subject, &objects, &defined);
    needs.rights.extend(record_rights(subject.namespace));
    needs.unknown.sort();
    needs.unknown.dedup();
    Ok((needs, size))
}

/// What an operator of a chart's kind needs besides the rights to install the chart.
#[must_use]
pub fn chart_operator_needs(names: &KindNames, namespace: &str) -> Needs {
    let mut needs = Needs::default();
    needs.watch_definitions();
    let rights = &mut needs.rights;
    rights.add(None, "windlass.dev", "chartresources", &["get", "list", "watch", "patch"]);
    rights.add(None, "windlass.dev", "chartresources/status", &["patch"]);
    // The finalizer is a patch of the object. Owner references of its objects need the right to its finalizers on some clusters.
    rights.add(None, &names.group, &names.plural, &["get", "list", "watch", "patch"]);
    rights.add(None, &names.group, &format!("{}/status", names.plural), &["patch"]);
    rights.add(None, &names.group, &format!("{}/finalizers", names.plural), &["update"]);
    let crds = "customresourcedefinitions";
    rights.add(None, "apiextensions.k8s.io", crds, &["create"]);
    for crd in [names.crd().as_str(), "chartresources.windlass.dev"] {
        rights.add_to(None, "apiextensions.k8s.io", crds, Some(crd), &["get", "patch"]);
    }
    // It goes with its ChartResource.
    rights.add_to(None, "apiextensions.k8s.io", crds, Some(&names.crd()), &["delete"]);
    for group in ["", "events.k8s.io"] {
        rights.add(None, group, "events", &["create", "patch"]);
    }
    rights.add(Some(namespace), "coordination.k8s.io", "leases", &OBJECT_VERBS);
    needs
}

/// The rights to add pull secrets to the ServiceAccount `default` of a namespace. Those to read Secrets come with release records.
#[must_use]
pub fn pull_secret_needs(namespace: &str) -> Needs {
    let mut needs = Needs::default();
    needs.rights.add_to(Some(namespace), "", "serviceaccounts", Some("default"), &["get", "patch"]);
    needs
}

/// Renders all combinations of the matrix.
fn render_all(
    subject: &ChartSubject<'_>,
    base: &Value,
    switches: &mut Switches,
    objects: &mut Objects,
    unknown: &mut Vec<String>,
) -> Result<MatrixSize, String> {
    let mut pairs = Pairwise::new(&switches.counts());
    let mut size = MatrixSize { switches: switches.all.len(), ..MatrixSize::default() };
    let mut failures = Vec::new();
    let end = Instant::now() + MAX_TIME;
    while size.renders < MAX_RENDERS && Instant::now() < end {
        let Some(row) = pairs.next_combination() else { break };
        let mut render = |switches: &Switches| {
            size.renders += 1;
            let (values, versions) = switches.combination(base, &row);
            render(subject, &values, &versions)
        };
        let mut result = render(switches);
        if let [choice] = row[..] {
            while result.is_err() && switches.use_next_form(choice) {
                result = render(switches);
            }
        }
        pairs.report(&row, result.is_ok());
        match result {
            Ok(rendered) => {
                for one in &rendered {
                    objects.add_rendered(one, subject.namespace, &row, switches);
                }
            }
            Err(error) => {
                size.failed += 1;
                if row.len() < 2 {
                    failures.push((setting_texts(switches, &row), error));
                }
            }
        }
    }
    if size.failed == size.renders {
        let error = failures.into_iter().next().map(|(_, error)| error).unwrap_or_default();
        return Err(format!(
            "no combination of values can be rendered; give those that the chart requires with --set: {error}"
        ));
    }
    report_failures(&failures, unknown);
    if pairs.uncovered() > 0 {
        unknown.push(format!(
            "{} pairs of values were not rendered together within {MAX_RENDERS} renders or {}s: give fixed values with --set",
            pairs.uncovered(),
            MAX_TIME.as_secs()
        ));
    }
    Ok(size)
}

fn setting_texts(switches: &Switches, row: &[Choice]) -> String {
    let texts = row.iter().filter_map(|(at, n)| Some(switches.all.get(*at)?.setting_text(*n)));
    texts.collect::<Vec<_>>().join(", ")
}

fn report_failures(failures: &[(String, String)], unknown: &mut Vec<String>) {
    for (settings, error) in failures.iter().take(MAX_FAILURES) {
        let with = if settings.is_empty() { "the chart's own values".to_owned() } else { settings.clone() };
        unknown.push(format!(
            "cannot be rendered with {with} alone: {}",
            error.lines().next().unwrap_or_default()
        ));
    }
    if failures.len() > MAX_FAILURES {
        let more = failures[MAX_FAILURES..].iter().map(|(settings, _)| settings.as_str());
        unknown.push(format!(
            "cannot be rendered with one of these alone either: {}",
            more.collect::<Vec<_>>().join(", ")
        ));
    }
}

/// What the matrix leaves out.
fn report_switches(switches: &Switches, unknown: &mut Vec<String>) {
    if !switches.left_out.is_empty() {
        let names = switches.left_out.iter().map(|switch| switch.setting_text(0));
        unknown.push(format!(
            "only the first {} values that decide what templates write are tried, and not {}",
            windlass_charts::MAX_SWITCHES,
            names.collect::<Vec<_>>().join(", ")
        ));
    }
    if !switches.is_complete {
        unknown.push(
            "its templates are too large to be followed: values that decide what they write can be missing"
                .to_owned(),
        );
    }
}

/// The templates of a chart and its subcharts: name of the chart, path, text.
fn templates(chart: &Chart) -> Vec<(&str, &str, String)> {
    let mut found = Vec::new();
    let mut charts = vec![chart];
    while let Some(chart) = charts.pop() {
        charts.extend(&chart.dependencies);
        found.extend(chart.templates.iter().map(|file| {
            (chart.name(), file.name.as_str(), String::from_utf8_lossy(&file.data).into_owned())
        }));
    }
    found
}

/// The render of a combination: that of the first revision, and of a later one if it differs.
fn render(subject: &ChartSubject<'_>, values: &Value, versions: &[String]) -> Result<Vec<Rendered>, String> {
    let Data::Map(values) = from_json(values) else { return Err("values are not a map".to_owned()) };
    let mut capabilities = subject.cluster.map(|(_, own)| own.clone()).unwrap_or_default();
    capabilities.helm_version = subject.chart.profile().helm_version().to_owned();
    capabilities.api_versions.extend(versions.iter().cloned());
    let options = |at: RevisionView| Options {
        release: at.release(subject.release, subject.namespace),
        capabilities: capabilities.clone(),
        skip_schema_validation: true,
        subchart_notes: false,
        limits: subject.bounds.limits(),
    };
    let render = |at| {
        let options = options(at);
        let request = RenderRequest::new(subject.chart, &values, &options, subject.bounds.deadline());
        request.render(&mut drop).map_err(|error| error.to_string())
    };
    let first = render(RevisionView::FIRST)?;
    if !first.reads_revision {
        return Ok(vec![first]);
    }
    // An upgrade can fail without what it looks up.
    let later = render(RevisionView::CANONICAL).ok();
    Ok(std::iter::once(first).chain(later).collect())
}

impl Objects {
    fn add_rendered(&mut self, rendered: &Rendered, home: &str, row: &[Choice], switches: &Switches) {
        let manifests = rendered.manifests.iter().chain(rendered.hooks.iter().map(|hook| &hook.manifest));
        let (values, _) = switches.combination(&json!({}), row);
        for manifest in manifests {
            if !self.seen.insert(digest(&manifest.text)) {
                continue;
            }
            for kind in made(&manifest.text, home) {
                // A placeholder of the matrix names no namespace.
                if kind.namespace != home && has_text(&values, &kind.namespace) {
                    self.is_elsewhere = true;
                    self.add([Kind { namespace: home.to_owned(), ..kind }]);
                } else {
                    self.add([kind]);
                }
            }
        }
    }

    fn add(&mut self, kinds: impl IntoIterator<Item = Kind>) {
        for Kind { gvk, namespace, object } in kinds {
            let Some(mut object) = object else { continue };
            let by_name = gvk.group == RBAC_GROUP || gvk.kind == "CustomResourceDefinition";
            let name = if by_name { ObjectMeta::of(&object).name().to_owned() } else { String::new() };
            if !by_name {
                object = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind});
            }
            match self.kept.get_mut(&(gvk.clone(), namespace.clone(), name.clone())) {
                // A role grants something else with other values.
                Some(kept) if by_name => merge_rules(kept, &object),
                Some(_) => {}
                None => drop(self.kept.insert((gvk, namespace, name), object)),
            }
        }
    }

    /// Adds the kinds in the text of templates that no combination rendered: with some values they are.
    fn add_unrendered(&mut self, chart: &Chart, home: &str, unknown: &mut Vec<String>) {
        for (chart, template, text) in templates(chart) {
            for gvk in written(&text) {
                let rendered =
                    self.kept.keys().any(|(own, ..)| own.group == gvk.group && own.kind == gvk.kind);
                // Of an old cluster.
                let unserved =
                    is_built_in(&gvk.group) && !default_api_versions().contains(&gvk.api_version());
                if rendered || unserved {
                    continue;
                }
                unknown.push(format!(
                    "{chart}/{template}: no combination of values renders {} {}: the rights are those of its text, without what roles grant",
                    gvk.api_version(),
                    gvk.kind
                ));
                let object = json!({"apiVersion": gvk.api_version(), "kind": gvk.kind});
                self.add([Kind { gvk, namespace: home.to_owned(), object: Some(object) }]);
            }
        }
    }

    /// The resources of the definitions among them.
    fn defined(&self) -> BTreeMap<(String, String), Defined> {
        let crds = self.kept.values().filter(|object| object["kind"] == "CustomResourceDefinition");
        let kinds: Vec<Kind> = crds
            .filter_map(|crd| {
                Some(Kind { gvk: Gvk::of(crd)?, namespace: String::new(), object: Some(crd.clone()) })
            })
            .collect();
        super::defined(&kinds)
    }
}

/// Adds the rules of another form of a role.
fn merge_rules(kept: &mut Value, other: &Value) {
    let Some(rules) = other["rules"].as_array() else { return };
    match kept["rules"].as_array_mut() {
        Some(own) => {
            let new: Vec<Value> = rules.iter().filter(|rule| !own.contains(rule)).cloned().collect();
            own.extend(new);
        }
        None => kept["rules"] = json!(rules),
    }
}

fn digest(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

fn has_text(values: &Value, text: &str) -> bool {
    match values {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| has_text(item, text)),
        Value::Object(map) => map.values().any(|value| has_text(value, text)),
        _ => false,
    }
}

impl Needs {
    /// What templates look up.
    fn lookups(
        &mut self,
        subject: &ChartSubject<'_>,
        chart: &Chart,
        defined: &BTreeMap<(String, String), Defined>,
    ) {
        for (name, template, text) in templates(chart) {
            for lookup in looked_up(&text) {
                let (group, resource, everywhere) = place(subject, &lookup.gvk, defined);
                let scope = match &lookup.namespace {
                    _ if everywhere => None,
                    LookupScope::Release => Some(subject.namespace),
                    LookupScope::Named(namespace) => Some(namespace.as_str()),
                    LookupScope::All => None,
                    LookupScope::Unknown => {
                        self.unknown.push(format!(
                            "{name}/{template}: the namespace of a lookup is not known, only the release's own is read: {}",
                            lookup.call
                        ));
                        Some(subject.namespace)
                    }
                };
                self.rights.add(scope, &group, &resource, &LOOK);
            }
        }
    }

    /// What the objects of all renders take.
    fn objects(
        &mut self,
        subject: &ChartSubject<'_>,
        objects: &Objects,
        defined: &BTreeMap<(String, String), Defined>,
    ) {
        let mut placed = Vec::new();
        for ((gvk, namespace, name), object) in &objects.kept {
            let (_, resource, everywhere) = place(subject, gvk, defined);
            let known = defined.contains_key(&(gvk.group.clone(), gvk.kind.clone()));
            let served = subject.cluster.is_some_and(|(kinds, _)| kinds.get(gvk).is_some());
            if !known && !served && !is_built_in(&gvk.group) {
                self.unknown.push(format!(
                    "{} {} is not of Kubernetes or of the chart: taken for the resource {resource} in a namespace; --cluster reads it from the \
                     API server",
                    gvk.api_version(),
                    gvk.kind
                ));
            }
            if object.get("aggregationRule").is_some_and(|rule| !rule.is_null()) {
                self.unknown.push(format!(
                    "ClusterRole {name} aggregates others: it is written with the right to escalate, by the name that it has for the release {}",
                    subject.release
                ));
            }
            placed.push((object, resource, Some(namespace.as_str()).filter(|_| !everywhere)));
        }
        let placed: Vec<PlacedObject<'_>> = placed
            .iter()
            .map(|(object, resource, scope)| PlacedObject { object, resource, scope: *scope })
            .collect();
        self.rights.extend(object_rights(&placed));
        if objects.is_elsewhere {
            self.unknown.push(
                "a value names the namespace of objects: the rights are those of the release's own; set it with --set for another one"
                    .to_owned(),
            );
        }
    }
}

/// Whether Kubernetes itself serves kinds of a group.
fn is_built_in(group: &str) -> bool {
    !group.contains('.')
        || chart_compat::render::default_api_versions().iter().any(|own| own.split('/').next() == Some(group))
}

/// Group, resource, and whether the resource is cluster-scoped: as the cluster serves it, or without one as its name tells.
fn place(
    subject: &ChartSubject<'_>,
    gvk: &Gvk,
    defined: &BTreeMap<(String, String), Defined>,
) -> (String, String, bool) {
    match subject.cluster.and_then(|(kinds, _)| kinds.get(gvk)) {
        Some(served) => (gvk.group.clone(), served.plural.clone(), !served.namespaced),
        None => resource(gvk, defined),
    }
}
