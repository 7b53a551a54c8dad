//! What all front ends of a process share: one engine with its watches and caches, Events, metrics.

use std::sync::Arc;

use super::events::{EventRecorder, EventSink};
use super::log_progress::log_progress;
use super::pushed_images::PushedImages;
use super::release_runner::ReleaseRunner;
use super::release_settings::AllReleaseSettings;
use crate::serve::State;
use windlass_cluster::{Cluster, KindWatch};
use windlass_engine::record::Storage;
use windlass_engine::{Engine, EngineOptions};
use windlass_render::{RenderBounds, parse_manifest};

/// Options that all front ends of a process share.
#[derive(Clone, Debug, Default)]
pub struct ContextOptions {
    /// Where releases are recorded.
    pub storage: Storage,
    /// Bounds of one render.
    pub render_bounds: RenderBounds,
    /// CRDs are applied with the operator's own rights, also for releases with a ServiceAccount.
    pub crds_as_operator: bool,
}

/// What all front ends of a process share. Cheap to clone.
#[derive(Clone)]
pub struct ControllerContext {
    /// Runs operations on the one engine.
    pub runner: ReleaseRunner,
    /// Records Events.
    pub events: EventRecorder,
    /// Metrics, probes and what is served beside them.
    pub state: Arc<State>,
    /// What custom resources say of the workloads of their releases.
    pub release_settings: AllReleaseSettings,
    /// Repositories of images that were pushed to, as webhooks say.
    pub pushed_images: PushedImages,
    /// Keeps the served kinds current.
    _kinds: Option<Arc<KindWatch>>,
}

impl ControllerContext {
    /// The context of a process that watches its releases.
    #[must_use]
    pub fn new(cluster: Cluster, options: &ContextOptions, state: Arc<State>) -> Self {
        let holder = format!("windlass-operator-{:x}", jiff::Timestamp::now().as_nanosecond());
        let engine_options =
            EngineOptions { storage: options.storage.clone(), ..EngineOptions::watching(&holder) };
        let engine =
            Engine::new(cluster.clone(), parse_manifest, engine_options).with_progress(log_progress(), true);
        let kinds = engine.watch_kind_definitions().map(Arc::new);
        Self {
            _kinds: kinds,
            runner: ReleaseRunner::new(engine, options.render_bounds, options.crds_as_operator),
            events: EventRecorder::new(cluster),
            release_settings: AllReleaseSettings::default(),
            pushed_images: PushedImages::default(),
            state,
        }
    }

    /// The same context, whose Events on custom resources go to a sink as well.
    #[must_use]
    pub fn with_event_sink(&self, sink: Arc<dyn EventSink>) -> Self {
        Self { events: self.events.with_sink(sink), ..self.clone() }
    }
}
