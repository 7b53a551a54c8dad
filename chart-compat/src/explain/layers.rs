//! The layers of user values, lowest first: files, flags, and other sources of a front end.
//!
//! Owns what each layer sets and the line numbers of text layers; does not know the chart.

use std::sync::LazyLock;

use crate::chart::{ValuesLines, merge_maps};
use crate::data::{Data, Map};
use crate::path::{Path, Step};

/// User values from one source.
#[derive(Clone, Debug)]
pub struct Layer {
    /// The source's name for users: a file's name, `--set`, `ConfigMap x key y`.
    pub name: String,
    /// Whether it is a file, whose lines are shown as `name:line`.
    pub is_file: bool,
    /// The values of this layer alone.
    own: Map,
    /// All layers up to this one, merged.
    merged: Map,
    lines: ValuesLines,
    /// The key that the values of the text are nested under.
    below: Option<String>,
}

/// All layers of a user's values.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    layers: Vec<Layer>,
}

impl Layers {
    /// Adds a layer over the others. `apply` changes values as the layer does; it is called twice, on the values so
    /// far and on empty ones. `text` is the source, if its line numbers are useful to users.
    ///
    /// # Errors
    /// The error of `apply`.
    pub fn add<E>(
        &mut self,
        name: &str,
        is_file: bool,
        text: Option<&[u8]>,
        mut apply: impl FnMut(&mut Map) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut merged = self.values().clone();
        apply(&mut merged)?;
        let mut own = Map::new();
        apply(&mut own)?;
        let lines = text.map(ValuesLines::read).unwrap_or_default();
        self.layers.push(Layer { name: name.to_owned(), is_file, own, merged, lines, below: None });
        Ok(())
    }

    /// Adds a text as a layer whose values are nested under one key, such as a key of a ConfigMap.
    pub fn add_section(&mut self, name: &str, key: &str, text: &[u8], values: Map) {
        let own = Map::from([(key.to_owned(), Data::Map(values))]);
        let mut merged = self.values().clone();
        merge_maps(&mut merged, own.clone());
        let (lines, below) = (ValuesLines::read(text), Some(key.to_owned()));
        self.layers.push(Layer { name: name.to_owned(), is_file: false, own, merged, lines, below });
    }

    /// The values of all layers.
    #[must_use]
    pub fn values(&self) -> &Map {
        static NONE: LazyLock<Map> = LazyLock::new(Map::new);
        self.layers.last().map_or(&NONE, |layer| &layer.merged)
    }

    /// The layers, lowest first.
    #[must_use]
    pub fn all(&self) -> &[Layer] {
        &self.layers
    }
}

impl Layer {
    /// The value at a path with this layer merged over the lower ones; `None` if the layer does not set it.
    #[must_use]
    pub fn value(&self, path: &Path) -> Option<&Data> {
        let own = path.find(&self.own)?;
        let now = path.find(&self.merged);
        // `--set a[1]=x` does not set the first item, though applied alone it leaves a null there.
        match (own, now) {
            (Data::Null, Some(Data::Null)) => Some(&Data::Null),
            (Data::Null, Some(_)) => None,
            (_, now) => now,
        }
    }

    /// The line, from 1, that sets the value.
    #[must_use]
    pub fn line_of(&self, path: &Path) -> Option<u32> {
        let Some(key) = &self.below else { return self.lines.line_of(path) };
        match path.0.split_first() {
            Some((Step::Key(first), rest)) if first == key => self.lines.line_of(&Path(rest.to_vec())),
            _ => None,
        }
    }

    /// The values of this layer alone.
    #[must_use]
    pub fn own(&self) -> &Map {
        &self.own
    }
}
