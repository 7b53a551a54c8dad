//! Answers of the debug endpoint, in the formats that scripts for addon-operator read.
//!
//! Owns the content of answers. The operator's loop owns its state and sends a [`View`] of it on request, so that no answer
//! blocks the loop. Answers may contain secrets, which are logged nowhere.

use std::sync::Arc;
use std::time::Duration;

use chart_compat::yaml;
use futures::FutureExt as _;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use super::hooks::{Hooks, ModuleRef};
use super::releases::Releases;
use super::values::GLOBAL;
use crate::shell_hooks::dump_runs;
use crate::shell_hooks::queues::{OperatorTasks, dump_all, dump_main};
use windlass_base::redact;
use windlass_controller::ReleaseTarget;
use windlass_controller::serve::State;
use windlass_controller::serve::debug::route::{self, Format, Part, Question};
use windlass_controller::serve::debug::{Answer, Handler, Request};
use windlass_controller::serve::runtime_config::Error as SetError;
use windlass_render::from_json;

/// How long the loop may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request for the loop's state.
pub(super) type Look = oneshot::Sender<View>;

/// The operator's state at one moment.
pub(super) struct View {
    /// Steps of the converge and jobs of modules, in order.
    pub(super) tasks: OperatorTasks,
    /// All modules, in order.
    pub(super) modules: Vec<ModuleView>,
}

/// A module at one moment.
pub(super) struct ModuleView {
    pub(super) module: ModuleRef,
    pub(super) order: u32,
    pub(super) enabled: bool,
    /// Where its release lives.
    pub(super) target: ReleaseTarget,
    /// Why its chart cannot be rendered.
    pub(super) problem: Option<String>,
    /// Its objects as `namespace/Kind/name`; `None` while nothing of it is watched.
    pub(super) objects: Option<Vec<String>>,
}

/// Answers requests.
struct DebugApi {
    hooks: Arc<Hooks>,
    releases: Releases,
    state: Arc<State>,
    looks: mpsc::UnboundedSender<Look>,
}

/// A desk for an operator; the loop answers what comes out of the other end.
pub(super) fn open(
    hooks: Arc<Hooks>,
    releases: Releases,
    state: Arc<State>,
) -> mpsc::UnboundedReceiver<Look> {
    let (looks, asked) = mpsc::unbounded_channel();
    let of = Arc::clone(&state);
    let desk = Arc::new(DebugApi { hooks, releases, state, looks });
    let handler: Handler = Arc::new(move |request| {
        let desk = Arc::clone(&desk);
        async move { desk.answer(&request).await }.boxed()
    });
    // An operator runs once in a process.
    of.debug.set(handler).unwrap_or_default();
    asked
}

/// What an answer holds.
enum Content {
    Text(String),
    Value(Value),
    /// Text if text is requested, a value otherwise.
    Both(String, Value),
    Nothing,
}

type DebugResult = Result<Content, Answer>;

impl DebugApi {
    async fn answer(&self, request: &Request) -> Answer {
        let Some((question, format)) = route::parse(request) else {
            return Answer::text(404, "404 page not found\n");
        };
        let shows_values = question.shows_values();
        let answer = match redact::own(self.content(question)).await {
            Ok(content) if shows_values => return written(content, format),
            Ok(content) => written(content, format),
            Err(answer) => answer,
        };
        Answer { body: redact::mask(&answer.body).into_owned(), ..answer }
    }

    async fn view(&self) -> Result<View, Answer> {
        let (look, view) = oneshot::channel();
        let stops = |_| Answer::text(503, "the operator stops\n");
        self.looks.send(look).map_err(|_| Answer::text(503, "the operator stops\n"))?;
        match tokio::time::timeout(PATIENCE, view).await {
            Ok(view) => view.map_err(stops),
            Err(_) => {
                Err(Answer::text(504, format!("the operator's loop is busy for {} s\n", PATIENCE.as_secs())))
            }
        }
    }

    async fn module(&self, name: &str) -> Result<ModuleView, Answer> {
        let found = self.view().await?.modules.into_iter().find(|m| m.module.name == name);
        found.ok_or_else(|| Answer::text(404, format!("module {name:?} not found\n")))
    }

    async fn content(&self, question: Question) -> DebugResult {
        Ok(match question {
            Question::Alive => Content::Text("debug endpoint is alive".to_owned()),
            Question::Routes => Content::Text(route::ROUTES.to_owned()),
            Question::MainQueue => both(dump_main(&self.view().await?.tasks, &self.hooks.queues())),
            Question::Queues { empty } => {
                both(dump_all(&self.view().await?.tasks, &self.hooks.queues(), empty))
            }
            Question::Parameters => Content::Both(self.state.runtime.table(), self.state.runtime.list()),
            Question::Set { name, value, duration } => {
                return self.set(&name, &value, &duration);
            }
            Question::GlobalHooks => Content::Value(json!({"globalHooks": self.hooks.global_names()})),
            Question::Global(part) => Content::Value(self.part(GLOBAL, "", part)),
            Question::Modules => {
                let on = self.view().await?.modules.into_iter().filter(|m| m.enabled);
                let mut names: Vec<String> = on.map(|m| m.module.name).collect();
                names.sort();
                Content::Value(json!({"enabledModules": names}))
            }
            Question::Module { name, part, global } => {
                let module = self.module(&name).await?.module;
                let own = self.part(&module.key, &name, part);
                match part {
                    Part::Values | Part::Config if global => {
                        let all = [(GLOBAL.to_owned(), self.part(GLOBAL, "", part)), (module.key, own)];
                        Content::Value(Value::Object(Map::from_iter(all)))
                    }
                    _ => Content::Value(own),
                }
            }
            Question::Render { name, debug, diff } => {
                let module = self.module(&name).await?;
                self.render(&module, debug, diff).await?
            }
            Question::Monitors { module } => {
                let asked =
                    |m: &ModuleView| m.enabled && module.as_ref().is_none_or(|name| m.module.name == *name);
                let modules = self.view().await?.modules.into_iter().filter(asked);
                let shown = |m: ModuleView| {
                    (m.module.name, m.objects.map_or_else(|| json!("No monitor"), |ids| json!(ids)))
                };
                Content::Value(Value::Object(modules.map(shown).collect()))
            }
            Question::Hooks => Content::Value(json!(self.hooks.all_names())),
            Question::HookSnapshots(name) => {
                Content::Value(self.hooks.snapshots_of_hook(&name).ok_or_else(|| no_hook(&name))?)
            }
            Question::HookRuns(name) => {
                both(dump_runs(&self.hooks.runs_of_hook(&name).ok_or_else(|| no_hook(&name))?))
            }
            Question::Graph => Content::Text(graph(&self.view().await?)),
        })
    }

    fn part(&self, key: &str, owner: &str, part: Part) -> Value {
        match part {
            Part::Values => self.hooks.store().values.section(key).cloned().unwrap_or_else(|| json!({})),
            Part::Config => self.hooks.store().values.config_section(key),
            Part::Patches => self.hooks.store().values.patches(key),
            Part::Snapshots => self.hooks.snapshots_of(owner),
        }
    }

    fn set(&self, name: &str, value: &str, duration: &str) -> DebugResult {
        let bad = |text: String| Answer::text(400, format!("{text}\n"));
        if name.is_empty() {
            return Err(bad("'name' parameter is required".to_owned()));
        }
        let time = match duration {
            "" => None,
            text => Some(
                chart_compat::go::duration::parse(text)
                    .ok()
                    .and_then(|n| u64::try_from(n).ok())
                    .map(Duration::from_nanos)
                    .ok_or_else(|| bad(format!("parse duration {text:?} failed: write e.g. 30s or 5m")))?,
            )
            .filter(|t| !t.is_zero()),
        };
        match self.state.runtime.set(name, value, time) {
            Ok(()) => {
                tracing::info!(name, value, "a runtime parameter was set");
                Ok(Content::Nothing)
            }
            Err(e @ (SetError::Unknown(_) | SetError::Invalid(_))) => Err(bad(e.to_string())),
        }
    }

    /// The rendered chart of a module, or its differences from the cluster. With `debug` its values are not held
    /// against their schema.
    async fn render(&self, view: &ModuleView, debug: bool, diff: bool) -> DebugResult {
        let failed = |text: String| Answer::text(500, format!("failed to render manifests: {text}\n"));
        if let Some(problem) = &view.problem {
            return Err(failed(problem.clone()));
        }
        let Some(chart) = view.module.chart.clone() else { return Ok(Content::Nothing) };
        let values = {
            let store = self.hooks.store();
            match debug {
                true => store.values.unchecked(&view.module.key),
                false => store.values.for_chart(&view.module.key).map_err(failed)?,
            }
        };
        let releases = self.releases.at(&view.target).map_err(|e| failed(e.to_string()))?;
        let request = releases
            .preview(&view.module.name, (chart, &view.module.crds), Arc::new(values))
            .await
            .map_err(|e| failed(e.to_string()))?;
        if !diff {
            let mut text = request.rendered.manifest_text.clone();
            for hook in &request.rendered.hooks {
                text.push_str(&format!("---\n# Source: {}\n{}\n", hook.path, hook.text));
            }
            return Ok(Content::Text(text));
        }
        let preview = releases.engine().plan(&request).await.map_err(|e| failed(e.to_string()))?;
        match preview.changes_anything() {
            true => Ok(Content::Text(preview.text(false, false))),
            false => Ok(Content::Text("No diff found".to_owned())),
        }
    }
}

fn both((text, value): (String, Value)) -> Content {
    Content::Both(text, value)
}

/// In addon-operator's words.
fn no_hook(name: &str) -> Answer {
    Answer::text(400, format!("hook '{name}' does not exist\n"))
}

/// The modules by their numbers, as text for graphviz.
fn graph(view: &View) -> String {
    let mut out = "digraph modules {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    let mut last = None;
    for ModuleView { module, order, enabled, problem, .. } in &view.modules {
        if last != Some(*order) {
            if let Some(last) = last {
                out.push_str(&format!("  \"order {last}\" -> \"order {order}\";\n"));
            }
            out.push_str(&format!("  \"order {order}\" [shape=ellipse];\n"));
            last = Some(*order);
        }
        let color = match (enabled, problem) {
            (false, _) => "gray",
            (true, Some(_)) => "red",
            (true, None) => "green",
        };
        out.push_str(&format!("  \"{0}\" [color={color}];\n  \"order {order}\" -> \"{0}\";\n", module.name));
    }
    out.push_str("}\n");
    out
}

fn written(content: Content, format: Format) -> Answer {
    let (content_type, body) = match (content, format) {
        (Content::Nothing, _) => return Answer::text(200, ""),
        (Content::Text(text) | Content::Both(text, _), Format::Text) => return Answer::text(200, text),
        (Content::Text(text), format) => return written(Content::Value(Value::String(text)), format),
        (Content::Value(value), Format::Text) => return Answer::text(200, format!("{value}\n")),
        (Content::Value(value) | Content::Both(_, value), Format::Json) => {
            ("application/json", format!("{value}\n"))
        }
        (Content::Value(value) | Content::Both(_, value), Format::Yaml) => {
            match yaml::to_string(&from_json(&value)) {
                Ok(text) => ("application/yaml", text),
                Err(e) => return Answer::text(500, format!("Error 'yaml' transform: {e}\n")),
            }
        }
    };
    Answer { status: 200, content_type, body }
}
