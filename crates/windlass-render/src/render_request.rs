//! One render of a chart: what it is rendered with, and what its templates may ask of the outside.
//!
//! Every chart that this process renders goes this way: secrets among its values are noted, and its time is bounded. Owns nothing of
//! what follows from the output.

use chart_compat::chart::Warn;
use chart_compat::data::Map;
use chart_compat::render::{CompiledChart, Error, Options, Rendered};

use super::bounds::Deadline;
use super::replay::{self, GeneratedValues, Replayed};
use super::secrets::note_secrets;
use super::world::{Documents, Lookup, SystemWorld};

/// A chart to render.
#[derive(Clone, Copy)]
pub struct RenderRequest<'r> {
    /// The chart.
    pub chart: &'r CompiledChart,
    /// Values over those of the chart.
    pub values: &'r Map,
    /// Release, capabilities and limits.
    pub options: &'r Options,
    /// When it has to end.
    pub deadline: Deadline,
    /// Implements `lookup`; without one it finds nothing, as in `helm template`.
    pub cluster: Option<&'r dyn Lookup>,
    /// Loads the external documents of schemas; without one, schemas must not refer to any.
    pub documents: Option<&'r dyn Documents>,
    /// Whether `getHostByName` queries DNS (`--enable-dns`).
    pub dns: bool,
}

impl<'r> RenderRequest<'r> {
    /// A chart whose templates and schemas ask nothing of the outside.
    #[must_use]
    pub fn new(chart: &'r CompiledChart, values: &'r Map, options: &'r Options, deadline: Deadline) -> Self {
        Self { chart, values, options, deadline, cluster: None, documents: None, dns: false }
    }

    fn world(&self) -> SystemWorld<'r> {
        let Self { cluster, documents, dns, deadline, .. } = *self;
        SystemWorld { cluster, documents, dns, deadline: Some(deadline) }
    }

    /// Renders the chart.
    ///
    /// # Errors
    /// The values do not fit, a template fails, or a limit is exceeded.
    pub fn render(&self, warn: Warn<'_>) -> Result<Rendered, Error> {
        note_secrets(self.chart.chart(), self.values);
        self.chart.render(self.values, self.options, &self.world(), warn)
    }

    /// Renders with stored values: unchanged inputs give unchanged bytes. `load` is called at most once, and only if the chart
    /// generates values.
    ///
    /// # Errors
    /// As [`Self::render`], or the stored values cannot be loaded.
    pub fn replay(
        &self,
        load: &(dyn Fn() -> Result<GeneratedValues, String> + Sync),
        warn: Warn<'_>,
    ) -> Result<Replayed, replay::Error> {
        note_secrets(self.chart.chart(), self.values);
        replay::render(self.chart, self.values, self.options, &self.world(), load, warn)
    }

    /// The output of each template, as far as it can be rendered: what `--debug` prints of a release that is not valid.
    ///
    /// # Errors
    /// As [`Self::render`].
    pub fn files(&self) -> Result<Vec<(String, String)>, Error> {
        self.chart.render_files(self.values, self.options, &self.world())
    }
}
