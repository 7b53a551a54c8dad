//! The origin of values: every layer that sets a value, in order of precedence, and which of them is effective.
//!
//! Owns the order in which charts, subcharts, globals, imports and the user's layers are coalesced. The final value comes
//! from the renderer: the effective layer is the highest one that agrees with it.

use std::collections::BTreeSet;
use std::fmt;

use super::layers::Layers;
use super::nearest::nearest;
use crate::chart::{Chart, Error, ValuesLines, coalesce_values, process_dependencies, read_values};
use crate::data::{Data, Map};
use crate::path::{Path, Step};
use crate::profile::Profile;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the `values.yaml` of a chart or subchart.
    Chart {
        /// The file, as render errors name files: `parent/charts/sub/values.yaml`.
        file: String,
        /// The line, from 1.
        line: Option<u32>,
    },
    /// In a subchart's values, from which a chart's `import-values` copies it.
    Import {
        /// The chart that imports.
        chart: String,
        /// Where the value was set.
        from: Box<Origin>,
    },
    /// In one of the user's layers.
    Layer {
        /// The layer's name.
        name: String,
        /// Whether it is a file.
        is_file: bool,
        /// The line, from 1.
        line: Option<u32>,
    },
}

/// A property that Helm adds to the values of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// `global`, in the values of each subchart.
    Global {
        /// The chart's schema file.
        schema: String,
    },
    /// The values of a subchart of the chart.
    Subchart {
        /// The subchart.
        name: String,
        /// The chart's schema file.
        schema: String,
    },
}

/// A layer that sets a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// The layer.
    pub origin: Origin,
    /// The path to the value in the layer: without the subchart's name in the subchart's own file.
    pub path: Path,
    /// Whether it sets the value through the globals, which all subcharts receive.
    pub global: bool,
    /// The value; null deletes what lower layers set.
    pub value: Data,
    /// Whether this layer is the effective one.
    pub wins: bool,
}

/// A value and all layers that set it.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The path to the value in the root chart's values.
    pub path: Path,
    /// The value that templates see; `None` if it is not set.
    pub value: Option<Data>,
    /// The layers that set it, highest precedence first.
    pub settings: Vec<Setting>,
}

impl Explanation {
    /// The nulls that were to delete the value and do not: layers of higher precedence than the effective one.
    #[must_use]
    pub fn ignored_nulls(&self) -> &[Setting] {
        let winner = self.settings.iter().position(|setting| setting.wins);
        let above = winner.filter(|_| self.value.is_some()).map_or(&[][..], |at| &self.settings[..at]);
        match above.iter().all(|setting| setting.value == Data::Null) {
            true => above,
            false => &[],
        }
    }
}

/// A null in a chart's values that does not delete the default of a subchart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredNull {
    /// The path to the value in the root chart's values.
    pub path: Path,
    /// The layer with the null.
    pub null: Origin,
    /// The layer whose value stays.
    pub stays: Option<Origin>,
}

impl fmt::Display for IgnoredNull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, null, stays } = self;
        write!(f, "the null of {null} does not delete {path}")?;
        if let Some(stays) = stays {
            write!(f, ", which stays as {stays} sets it")?;
        }
        write!(
            f,
            ": Helm 4 restores the defaults of a subchart; a null of a values file (-f) or of --set deletes it"
        )
    }
}

/// A chart with all its layers of values.
pub struct Trace {
    root: Node,
    layers: Layers,
    values: Map,
}

/// The values of one chart.
struct Node {
    name: String,
    /// The name of its `values.yaml` in render errors.
    file: String,
    values: Map,
    lines: ValuesLines,
    imports: Vec<Import>,
    subcharts: Vec<Node>,
}

struct Import {
    subchart: String,
    child: Path,
    parent: Path,
}

impl Node {
    fn new(chart: &Chart, path: &str) -> Self {
        // Dependency processing changes the chart's values but not its text.
        let values = chart.values_text.as_deref().and_then(|text| read_values(text, Profile::Helm4).ok());
        let imports = chart.metadata.dependencies.iter().flatten().flat_map(|req| {
            req.import_values.iter().flatten().filter_map(|import| {
                let text = |key| import.get(key).and_then(Data::as_str);
                let (child, parent) = (text("child")?, text("parent")?);
                let parent = if parent == "." { "" } else { parent };
                Some(Import {
                    subchart: req.name.clone(),
                    child: Path::parse(child).ok()?,
                    parent: Path::parse(parent).ok()?,
                })
            })
        });
        Self {
            name: chart.name().to_owned(),
            file: format!("{path}/values.yaml"),
            values: values.unwrap_or_else(|| Map::clone(&chart.values)),
            lines: chart.values_text.as_deref().map(ValuesLines::read).unwrap_or_default(),
            imports: imports.collect(),
            subcharts: chart.dependencies.iter().map(|sub| Self::new(sub, &sub.path_below(path))).collect(),
        }
    }

    fn subchart(&self, name: &str) -> Option<&Self> {
        self.subcharts.iter().find(|s| s.name == name)
    }
}

impl Trace {
    /// Computes the values of a loaded chart with the user's layers.
    ///
    /// # Errors
    /// Values that the renderer refuses.
    pub fn new(chart: &Chart, layers: Layers, profile: Profile) -> Result<Self, Error> {
        let mut chart = chart.clone();
        // The render has already logged the warnings.
        process_dependencies(&mut chart, layers.values(), profile, &mut |_| {})?;
        let values = coalesce_values(&chart, layers.values(), profile, &mut |_| {})?;
        Ok(Self { root: Node::new(&chart, chart.name()), layers, values })
    }

    /// The values that templates see.
    #[must_use]
    pub fn values(&self) -> &Map {
        &self.values
    }

    /// The layers that set the value at a path in the root chart's values.
    ///
    /// ```
    /// use chart_compat::chart::{File, load_files, merge_maps, read_values};
    /// use chart_compat::explain::{Layers, Origin, Trace};
    /// use chart_compat::{path::Path, profile::Profile};
    ///
    /// let file = |name: &str, text: &str| File::new(name.to_owned(), text.as_bytes().to_vec());
    /// let files = vec![
    ///     file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n"),
    ///     file("values.yaml", "replicas: 1\n"),
    /// ];
    /// let chart = load_files(files, Profile::Helm4, &mut drop)?;
    /// let mut layers = Layers::default();
    /// let text = b"# more of them\nreplicas: 3\n";
    /// layers.add("mine.yaml", true, Some(text), |values| {
    ///     read_values(text, Profile::Helm4).map(|own| merge_maps(values, own))
    /// })?;
    /// let explanation = Trace::new(&chart, layers, Profile::Helm4)?.explain(&Path::parse("replicas")?);
    /// assert!(explanation.settings[0].wins);
    /// assert!(matches!(&explanation.settings[0].origin, Origin::Layer { name, line: Some(2), .. } if name == "mine.yaml"));
    /// assert!(matches!(&explanation.settings[1].origin, Origin::Chart { file, .. } if file == "web/values.yaml"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn explain(&self, path: &Path) -> Explanation {
        // The charts along the path: the value belongs to the last of them.
        let mut chain = vec![&self.root];
        let mut rest = &path.0[..];
        while let (Some((Step::Key(name), tail)), Some(last)) = (rest.split_first(), chain.last()) {
            let Some(sub) = last.subchart(name) else { break };
            if tail.is_empty() {
                break;
            }
            chain.push(sub);
            rest = tail;
        }
        let mut settings = Vec::new();
        self.collect(&chain, &Path(rest.to_vec()), true, &mut settings);
        settings.reverse();
        let value = path.find(&self.values).filter(|v| **v != Data::Null).cloned();
        let agrees = |s: &Setting| match &value {
            Some(value) => same(&s.value, value),
            None => s.value == Data::Null,
        };
        if let Some(winner) = settings.iter_mut().find(|s| agrees(s)) {
            winner.wins = true;
        }
        Explanation { path: path.clone(), value, settings }
    }

    /// The nulls of charts' own values below a path that do not delete what they are to delete.
    #[must_use]
    pub fn ignored_nulls(&self, below: &Path) -> Vec<IgnoredNull> {
        let mut found = Vec::new();
        for leaf in self.leaves(below) {
            let e = self.explain(&leaf);
            let stays = e.settings.iter().find(|setting| setting.wins).map(|setting| setting.origin.clone());
            let nulls = e.ignored_nulls().iter().filter(|null| matches!(null.origin, Origin::Chart { .. }));
            found.extend(nulls.map(|null| IgnoredNull {
                path: leaf.clone(),
                null: null.origin.clone(),
                stays: stays.clone(),
            }));
        }
        found
    }

    /// What a property of the values at a path is, if Helm adds it whether a layer sets it or not.
    #[must_use]
    pub fn added_by_helm(&self, path: &Path, property: &str) -> Option<Added> {
        let mut node = &self.root;
        for step in &path.0 {
            let Step::Key(name) = step else { return None };
            node = node.subchart(name)?;
        }
        let schema = || node.file.replace("values.yaml", "values.schema.json");
        if property == "global" && !path.0.is_empty() {
            return Some(Added::Global { schema: schema() });
        }
        node.subchart(property).map(|sub| Added::Subchart { name: sub.name.clone(), schema: schema() })
    }

    /// The paths below a path of all scalars, lists and empty maps, and of the keys deleted by a null.
    #[must_use]
    pub fn leaves(&self, below: &Path) -> Vec<Path> {
        let mut found = BTreeSet::new();
        let at = |map: &Map| {
            if below.0.is_empty() { Some(Data::Map(map.clone())) } else { below.find(map).cloned() }
        };
        if let Some(data) = at(&self.values) {
            leaves(&data, below, false, &mut found);
        }
        for layer in self.layers.all() {
            if let Some(data) = at(layer.own()) {
                leaves(&data, below, true, &mut found);
            }
        }
        found.into_iter().collect()
    }

    /// An existing path that is similar to a missing one, for "did you mean".
    #[must_use]
    pub fn suggest(&self, path: &Path) -> Option<Path> {
        let missing =
            (0..path.0.len()).find(|n| Path(path.0[..=*n].to_vec()).find(&self.values).is_none())?;
        let (known, rest) = path.0.split_at(missing);
        let (Step::Key(wanted), after) = rest.split_first()? else { return None };
        let at = Path(known.to_vec());
        let map = if known.is_empty() { &self.values } else { at.find(&self.values)?.as_map()? };
        if let Some(name) = nearest(wanted, map.keys().map(String::as_str)) {
            let mut better = at.key(name);
            better.0.extend(after.iter().cloned());
            // Later segments may be misspelt, too.
            return Some(match better.find(&self.values) {
                Some(_) => better,
                None => at.key(name),
            });
        }
        elsewhere(map, wanted, &at, 3)
    }

    /// Adds the settings of a value of the last chart of a chain, lowest precedence first.
    fn collect(&self, chain: &[&Node], path: &Path, user: bool, out: &mut Vec<Setting>) {
        let Some((node, parents)) = chain.split_last() else { return };
        imports(node, path, out);
        if let Some(value) = path.find(&node.values) {
            let origin = Origin::Chart { file: node.file.clone(), line: node.lines.line_of(path) };
            out.push(Setting {
                origin,
                path: path.clone(),
                global: false,
                value: value.clone(),
                wins: false,
            });
        } else if let Some(part) = null_above(path, &node.values) {
            let origin = Origin::Chart { file: node.file.clone(), line: node.lines.line_of(&part) };
            out.push(Setting { origin, path: part, global: false, value: Data::Null, wins: false });
        }
        if parents.is_empty() {
            if user {
                self.user(path, out);
            }
            return;
        }
        self.collect(parents, &path.below(&[&node.name]), user, out);
        if path.first() == Some("global") && path.0.len() > 1 {
            let from = out.len();
            self.collect(parents, path, user, out);
            out[from..].iter_mut().for_each(|s| s.global = true);
        }
    }

    fn user(&self, path: &Path, out: &mut Vec<Setting>) {
        for layer in self.layers.all() {
            // A null or another value in place of a map deletes the values below it.
            let whole = (1..=path.0.len()).map(|n| Path(path.0[..n].to_vec()));
            for part in whole {
                let Some(value) = layer.value(&part) else { break };
                let cut = part.0.len() < path.0.len();
                if cut && matches!(value, Data::Map(_) | Data::List(_)) {
                    continue;
                }
                let value = if cut { Data::Null } else { value.clone() };
                let origin = Origin::Layer {
                    name: layer.name.clone(),
                    is_file: layer.is_file,
                    line: layer.line_of(&part),
                };
                out.push(Setting { origin, path: part, global: false, value, wins: false });
                break;
            }
        }
    }
}

/// The null in place of a map, which is to delete the value below it.
fn null_above(path: &Path, values: &Map) -> Option<Path> {
    let parts = (1..path.0.len()).map(|n| Path(path.0[..n].to_vec()));
    parts.into_iter().find(|part| matches!(part.find(values), Some(Data::Null)))
}

/// Adds the settings from a chart's `import-values`, lowest precedence first: of several imports the first one has precedence.
fn imports(node: &Node, path: &Path, out: &mut Vec<Setting>) {
    for import in node.imports.iter().rev() {
        let Some(rest) = path.0.strip_prefix(&import.parent.0[..]) else { continue };
        let Some(sub) = node.subchart(&import.subchart) else { continue };
        let mut inner = import.child.clone();
        inner.0.extend(rest.iter().cloned());
        let mut found = Vec::new();
        // The importing chart's own values for the subchart are effective, those of its parents and users are not.
        imports(sub, &inner, &mut found);
        if let Some(value) = inner.find(&sub.values) {
            let origin = Origin::Chart { file: sub.file.clone(), line: sub.lines.line_of(&inner) };
            found.push(Setting {
                origin,
                path: inner.clone(),
                global: false,
                value: value.clone(),
                wins: false,
            });
        }
        let outer = inner.below(&[&sub.name]);
        if let Some(value) = outer.find(&node.values) {
            let origin = Origin::Chart { file: node.file.clone(), line: node.lines.line_of(&outer) };
            found.push(Setting { origin, path: outer, global: false, value: value.clone(), wins: false });
        }
        out.extend(found.into_iter().map(|setting| Setting {
            origin: Origin::Import { chart: node.name.clone(), from: Box::new(setting.origin) },
            ..setting
        }));
    }
}

/// Whether both are equal except for nulls in maps, which templates do not see.
fn same(set: &Data, seen: &Data) -> bool {
    let (Data::Map(set), Data::Map(seen)) = (set, seen) else { return set == seen };
    let kept = set.iter().filter(|(_, v)| **v != Data::Null);
    kept.clone().count() == seen.len() && kept.zip(seen).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
}

fn leaves(data: &Data, at: &Path, only_nulls: bool, out: &mut BTreeSet<Path>) {
    match data {
        Data::Map(map) if !map.is_empty() => {
            for (key, value) in map {
                leaves(value, &at.key(key), only_nulls, out);
            }
        }
        Data::Null => drop(out.insert(at.clone())),
        _ if only_nulls => {}
        _ => drop(out.insert(at.clone())),
    }
}

/// Searches the maps below for a key.
fn elsewhere(map: &Map, wanted: &str, at: &Path, depth: usize) -> Option<Path> {
    let depth = depth.checked_sub(1)?;
    let inner = || map.iter().filter_map(|(key, value)| value.as_map().map(|m| (key, m)));
    if let Some((key, _)) = inner().find(|(_, m)| m.contains_key(wanted)) {
        return Some(at.key(key).key(wanted));
    }
    inner().find_map(|(key, m)| elsewhere(m, wanted, &at.key(key), depth))
}

impl fmt::Display for Origin {
    /// `demo/values.yaml:3`, `prod.yaml:7`, `--set`, or `ConfigMap x key y line 3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chart { file: name, line } | Self::Layer { name, line, is_file: true } => {
                f.write_str(name)?;
                line.map_or(Ok(()), |line| write!(f, ":{line}"))
            }
            Self::Layer { name, line, is_file: false } => {
                f.write_str(name)?;
                line.map_or(Ok(()), |line| write!(f, " line {line}"))
            }
            Self::Import { chart, from } => write!(f, "{from} (import-values of {chart})"),
        }
    }
}
