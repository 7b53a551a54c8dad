//! The context of each template: `.Values`, `.Release`, `.Chart`, `.Files`, … (`recAllTpls`).

use super::error::Error;
use super::{Capabilities, Options, Release};
use crate::chart::{Chart, Dependency, File, Metadata};
use crate::data::{Data, Map as DataMap};
use crate::go::object::Struct;
use crate::go::{Arena, Elem, Map, MapKind, Object, Value};
use crate::profile::Profile;

/// A template to run, with the context of its chart.
pub(super) struct TemplateTask<'a> {
    /// Full path, e.g. `parent/charts/sub/templates/x.yaml`.
    pub(super) name: String,
    /// Its text.
    pub(super) text: bytes::Bytes,
    /// The chart's `templates` path.
    pub(super) base_path: String,
    /// The chart's context, shared by all its templates.
    pub(super) context: &'a Map<'a>,
}

impl TemplateTask<'_> {
    /// The names of the subcharts from the chart down to this template's own.
    pub(super) fn scope(&self) -> Vec<String> {
        // parent/charts/sub/charts/below/templates
        let mut names = self.base_path.split('/').step_by(2).map(str::to_owned);
        names.next();
        names.collect()
    }
}

/// The templates of a chart and its subcharts: full path and text. Paths take at most so many bytes of memory.
///
/// # Errors
/// They take more.
pub(super) fn texts(chart: &Chart, memory: usize) -> Result<Vec<(String, bytes::Bytes)>, Error> {
    fn collect(
        chart: &Chart,
        path: &str,
        room: &mut PathRoom,
        out: &mut Vec<(String, bytes::Bytes)>,
    ) -> Result<(), Error> {
        for sub in &chart.dependencies {
            collect(sub, &sub.path_below(path), room, out)?;
        }
        for t in templates(chart) {
            room.take(path, t)?;
            out.push((format!("{path}/{}", t.name), t.data.clone()));
        }
        Ok(())
    }
    let mut out = Vec::new();
    collect(chart, chart.name(), &mut PathRoom { memory, taken: 0 }, &mut out)?;
    out.sort_by(|a, b| a.0.cmp(&b.0));
    keep_last(&mut out, |t| &t.0);
    Ok(out)
}

/// The memory for the paths of templates: names of charts may be long, and those of subcharts are in each other.
struct PathRoom {
    memory: usize,
    taken: usize,
}

impl PathRoom {
    fn take(&mut self, path: &str, template: &File) -> Result<(), Error> {
        self.taken += size_of::<TemplateTask<'_>>() + 2 * path.len() + template.name.len();
        if self.taken > self.memory {
            Err(Error::context(path, "paths of templates", self.memory))
        } else {
            Ok(())
        }
    }
}

/// Of several templates with the same path, which are adjacent, keeps the last.
pub(super) fn keep_last<T>(templates: &mut Vec<T>, path: impl Fn(&T) -> &str) {
    templates.dedup_by(|later, kept| {
        let same = path(later) == path(kept);
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
}

/// The templates to render: of a library chart only its partials.
fn templates(chart: &Chart) -> impl Iterator<Item = &File> {
    let library = chart.metadata.is_library();
    chart
        .templates
        .iter()
        .filter(move |t| !library || t.name.rsplit('/').next().unwrap_or(&t.name).starts_with('_'))
}

/// The entries of `.Release` that differ between revisions.
const BY_REVISION: &[&[u8]] = &[b"IsInstall", b"IsUpgrade", b"Revision"];

/// The templates of a chart and its subcharts, each with its chart's context. All contexts take at most so many bytes of memory.
///
/// # Errors
/// They take more.
pub(super) fn tasks<'a>(
    arena: &'a Arena,
    chart: &'a Chart,
    values: &DataMap,
    options: &'a Options,
    profile: Profile,
    memory: usize,
) -> Result<Vec<TemplateTask<'a>>, Error> {
    let release = release(arena, &options.release);
    release.watch(BY_REVISION);
    let mut builder = Builder {
        arena,
        profile,
        release: Value::Map(release),
        capabilities: capabilities(arena, &options.capabilities, profile),
        tasks: Vec::new(),
        memory,
        paths: PathRoom { memory, taken: 0 },
    };
    let values = match Value::from_data_within(arena, &Data::Map(values.clone()), memory) {
        Some(Value::Map(values)) => values,
        Some(_) => Map::new(arena, MapKind::Any),
        None => return Err(Error::context(chart.name(), "values of its charts", memory)),
    };
    builder.chart(chart, chart.name(), values, true)?;
    Ok(builder.tasks)
}

struct Builder<'a> {
    arena: &'a Arena,
    profile: Profile,
    release: Value<'a>,
    capabilities: Value<'a>,
    tasks: Vec<TemplateTask<'a>>,
    memory: usize,
    paths: PathRoom,
}

fn map<'a>(arena: &'a Arena, entries: &[(&'a str, Value<'a>)]) -> &'a Map<'a> {
    let m = Map::with_capacity(arena, MapKind::Any, entries.len());
    for (key, value) in entries {
        m.insert(key.as_bytes(), *value);
    }
    m
}

fn text<'a>(s: &'a str) -> Value<'a> {
    Value::Str(s.as_bytes())
}

fn release<'a>(arena: &'a Arena, r: &'a Release) -> &'a Map<'a> {
    map(
        arena,
        &[
            ("IsInstall", Value::Bool(!r.is_upgrade)),
            ("IsUpgrade", Value::Bool(r.is_upgrade)),
            ("Name", text(&r.name)),
            ("Namespace", text(&r.namespace)),
            ("Revision", Value::Int(r.revision)),
            ("Service", text("Helm")),
        ],
    )
}

fn structure<'a>(
    arena: &'a Arena,
    type_name: &'a str,
    fields: &[(&'a str, Value<'a>)],
    text: Option<&'a str>,
) -> Value<'a> {
    Value::object(arena, Object::Struct(Struct { type_name, fields: arena.alloc_slice_copy(fields), text }))
}

fn capabilities<'a>(arena: &'a Arena, c: &'a Capabilities, profile: Profile) -> Value<'a> {
    let helm4 = profile == Profile::Helm4;
    let (package, version) = if helm4 {
        ("common", c.kube_version.version.as_str())
    } else {
        ("chartutil", c.kube_version.normalized.as_str())
    };
    let name = |suffix: &str| -> &'a str { arena.alloc_str(&format!("{package}.{suffix}")) };
    let mut fields = vec![("Version", text(version))];
    if helm4 {
        fields.push(("normalizedVersion", text(&c.kube_version.normalized)));
    }
    fields.push(("Major", text(&c.kube_version.major)));
    fields.push(("Minor", text(&c.kube_version.minor)));
    let kube = structure(arena, name("KubeVersion"), &fields, Some(&c.kube_version.normalized));
    let mut helm = vec![
        ("Version", text(&c.helm_version)),
        ("GitCommit", text("")),
        ("GitTreeState", text("")),
        ("GoVersion", text(&c.go_version)),
    ];
    if helm4 {
        helm.push(("KubeClientVersion", text(&c.kube_client_version)));
    }
    let versions: Vec<&'a str> = c.api_versions.iter().map(String::as_str).collect();
    let versions = Value::object(arena, Object::ApiVersions(arena.alloc_slice_copy(&versions)));
    structure(
        arena,
        arena.alloc_str(&format!("*{package}.Capabilities")),
        &[
            ("KubeVersion", kube),
            ("APIVersions", versions),
            ("HelmVersion", structure(arena, "version.BuildInfo", &helm, None)),
        ],
        None,
    )
}

/// How lists of a Go struct appear: Helm 3 keeps their types; Helm 4 converts structs to maps, without types and nil.
#[derive(Clone, Copy)]
struct Lists<'a> {
    arena: &'a Arena,
    typed: bool,
}

impl<'a> Lists<'a> {
    fn of<T>(self, items: &'a Option<Vec<T>>, elem: Elem, item: impl Fn(&'a T) -> Value<'a>) -> Value<'a> {
        let elem = if self.typed { elem } else { Elem::Any };
        match items {
            None if self.typed => Value::nil_list(self.arena, elem),
            items => {
                Value::typed_list(self.arena, elem, &items.iter().flatten().map(item).collect::<Vec<_>>())
            }
        }
    }

    fn strings(self, items: &'a Option<Vec<String>>) -> Value<'a> {
        self.of(items, Elem::String, |s| text(s))
    }
}

fn annotations<'a>(arena: &'a Arena, m: &'a Metadata) -> Value<'a> {
    let Some(annotations) = &m.annotations else { return Value::Map(Map::new(arena, MapKind::NilStrings)) };
    let map = Map::with_capacity(arena, MapKind::Strings, annotations.len());
    for (key, value) in annotations {
        map.insert(key.as_bytes(), text(value));
    }
    Value::Map(map)
}

type Fields<'a> = Vec<(&'a str, Value<'a>)>;

fn dependency<'a>(lists: Lists<'a>, d: &'a Dependency) -> Fields<'a> {
    vec![
        ("Name", text(&d.name)),
        ("Version", text(&d.version)),
        ("Repository", text(&d.repository)),
        ("Condition", text(&d.condition)),
        ("Tags", lists.strings(&d.tags)),
        ("Enabled", Value::Bool(d.enabled)),
        ("ImportValues", lists.of(&d.import_values, Elem::Any, |v| Value::from_data(lists.arena, v))),
        ("Alias", text(&d.alias)),
    ]
}

/// The fields of `Metadata` in order of declaration; `inner` converts the fields of a nested struct.
fn metadata<'a>(
    lists: Lists<'a>,
    m: &'a Metadata,
    inner: &dyn Fn(&'static str, Fields<'a>) -> Value<'a>,
) -> Fields<'a> {
    let maintainers = lists.of(&m.maintainers, Elem::Named("[]*chart.Maintainer"), |p| {
        let fields = vec![("Name", text(&p.name)), ("Email", text(&p.email)), ("URL", text(&p.url))];
        inner("*chart.Maintainer", fields)
    });
    let dependencies = lists.of(&m.dependencies, Elem::Named("[]*chart.Dependency"), |d| {
        inner("*chart.Dependency", dependency(lists, d))
    });
    vec![
        ("Name", text(&m.name)),
        ("Home", text(&m.home)),
        ("Sources", lists.strings(&m.sources)),
        ("Version", text(&m.version)),
        ("Description", text(&m.description)),
        ("Keywords", lists.strings(&m.keywords)),
        ("Maintainers", maintainers),
        ("Icon", text(&m.icon)),
        ("APIVersion", text(&m.api_version)),
        ("Condition", text(&m.condition)),
        ("Tags", text(&m.tags)),
        ("AppVersion", text(&m.app_version)),
        ("Deprecated", Value::Bool(m.deprecated)),
        ("Annotations", annotations(lists.arena, m)),
        ("KubeVersion", text(&m.kube_version)),
        ("Dependencies", dependencies),
        ("Type", text(&m.kind)),
    ]
}

impl<'a> Builder<'a> {
    /// Helm 4 passes metadata as a map with Go's field names, Helm 3 as the struct itself.
    fn metadata(&self, m: &'a Metadata, is_root: bool) -> Value<'a> {
        let arena = self.arena;
        match self.profile {
            Profile::Helm4 => {
                let lists = Lists { arena, typed: false };
                let mut fields = metadata(lists, m, &|_, fields| Value::Map(map(arena, &fields)));
                fields.push(("IsRoot", Value::Bool(is_root)));
                Value::Map(map(arena, &fields))
            }
            Profile::Helm3 => {
                let lists = Lists { arena, typed: true };
                let fields = metadata(lists, m, &|name, fields| structure(arena, name, &fields, None));
                let fields = [
                    ("Metadata", structure(arena, "chart.Metadata", &fields, None)),
                    ("IsRoot", Value::Bool(is_root)),
                ];
                structure(arena, "struct { chart.Metadata; IsRoot bool }", &fields, None)
            }
        }
    }

    fn files(&self, chart: &'a Chart) -> Value<'a> {
        let mut files: Vec<(&'a str, &'a [u8])> =
            chart.files.iter().map(|f| (f.name.as_str(), &*f.data)).collect();
        files.sort_by_key(|f| f.0);
        // Of two files with the same name, Go's map keeps the later.
        files.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        Value::object(self.arena, Object::Files(self.arena.alloc_slice_copy(&files)))
    }

    fn chart(
        &mut self,
        chart: &'a Chart,
        path: &str,
        values: &'a Map<'a>,
        is_root: bool,
    ) -> Result<&'a Map<'a>, Error> {
        let arena = self.arena;
        let values = values.with_kind(arena, MapKind::Values);
        let subcharts = Map::new(arena, MapKind::Any);
        let context = map(
            arena,
            &[
                ("Capabilities", self.capabilities),
                ("Chart", self.metadata(&chart.metadata, is_root)),
                ("Files", self.files(chart)),
                ("Release", self.release),
                ("Subcharts", Value::Map(subcharts)),
                ("Values", Value::Map(values)),
            ],
        );
        for sub in &chart.dependencies {
            let sub_values = match values.get(sub.name().as_bytes()) {
                Some(Value::Map(m)) => m,
                _ => Map::new(arena, MapKind::Values),
            };
            let sub_context = self.chart(sub, &sub.path_below(path), sub_values, false)?;
            subcharts.insert(sub.name().as_bytes(), Value::Map(sub_context));
        }
        if arena.taken_bytes() > self.memory {
            return Err(Error::context(path, "contexts of its templates", self.memory));
        }
        for t in templates(chart) {
            self.paths.take(path, t)?;
            self.tasks.push(TemplateTask {
                name: format!("{path}/{}", t.name),
                text: t.data.clone(),
                base_path: format!("{path}/templates"),
                context,
            });
        }
        Ok(context)
    }
}
