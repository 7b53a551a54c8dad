//! Routes of the debug endpoint: from a path to a query. Pure. The paths are addon-operator's and shell-operator's, except for
//! runs of hooks, which they do not have.

use chart_compat::go::parse_bool;

use super::Request;

/// All paths, for the index page.
pub const ROUTES: &str = "GET /
GET /config/list.{json|yaml|text}
POST /config/set
GET /discovery
GET /global/config.{json|yaml|text}
GET /global/list.{json|yaml|text}
GET /global/patches.{json|yaml|text}
GET /global/snapshots.{json|yaml|text}
GET /global/values.{json|yaml|text}
GET /graph
GET /hook/list.{json|yaml|text}
GET /hook/{name}/runs.{json|yaml|text}
GET /hook/{name}/snapshots.{json|yaml|text}
GET /module/list.{json|yaml|text}
GET /module/resource-monitor.{json|yaml|text}
GET /module/{name}/config.{json|yaml|text}
GET /module/{name}/patches.{json|yaml|text}
GET /module/{name}/render
GET /module/{name}/snapshots.{json|yaml|text}
GET /module/{name}/values.{json|yaml|text}
GET /queue/list.{json|yaml|text}
GET /queue/main.{json|yaml|text}
";

/// The format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Text,
}

/// A part of the data of the global section or of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Values,
    /// The values of the ConfigMap.
    Config,
    Patches,
    Snapshots,
}

/// A parsed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    Alive,
    Routes,
    MainQueue,
    Queues {
        empty: bool,
    },
    Parameters,
    Set {
        name: String,
        value: String,
        duration: String,
    },
    GlobalHooks,
    Global(Part),
    Modules,
    Module {
        name: String,
        part: Part,
        global: bool,
    },
    Render {
        name: String,
        debug: bool,
        diff: bool,
    },
    /// The watched objects of modules.
    Monitors {
        module: Option<String>,
    },
    Hooks,
    HookSnapshots(String),
    /// Results of the hook's last runs.
    HookRuns(String),
    Graph,
}

impl Question {
    /// Whether the response contains values, including secrets.
    pub fn shows_values(&self) -> bool {
        matches!(
            self,
            Self::Global(_) | Self::Module { .. } | Self::Render { diff: false, .. } | Self::HookSnapshots(_)
        )
    }
}

impl Part {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "values" => Self::Values,
            "config" => Self::Config,
            "patches" => Self::Patches,
            "snapshots" => Self::Snapshots,
            _ => return None,
        })
    }
}

/// Parses a request; `None` for an unknown path.
pub fn parse(request: &Request) -> Option<(Question, Format)> {
    let path = request.path.trim_start_matches('/');
    let field = |name: &str| request.fields.get(name).cloned().unwrap_or_default();
    if request.post {
        let (name, value, duration) = (field("name"), field("value"), field("duration"));
        return (path == "config/set").then_some((Question::Set { name, value, duration }, Format::Text));
    }
    // A flag without a value is true.
    let on = |text: &String| text.is_empty() || parse_bool(text) == Some(true);
    let flag = |name: &str| request.fields.get(name).is_some_and(on);
    let question = match path {
        "" => Question::Alive,
        "discovery" => Question::Routes,
        "graph" => Question::Graph,
        _ => {
            if let Some(name) = path.strip_prefix("module/").and_then(|p| p.strip_suffix("/render")) {
                let (debug, diff) = (flag("debug"), flag("diff"));
                return Some((Question::Render { name: name.to_owned(), debug, diff }, Format::Text));
            }
            return formatted(path, request, &flag);
        }
    };
    Some((question, Format::Text))
}

fn formatted(path: &str, request: &Request, flag: &dyn Fn(&str) -> bool) -> Option<(Question, Format)> {
    let (path, format) = match path.rsplit_once('.') {
        Some((path, "json")) => (path, Format::Json),
        Some((path, "yaml")) => (path, Format::Yaml),
        Some((path, "text")) => (path, Format::Text),
        // shell-operator also has hook routes without an extension.
        _ if path.starts_with("hook/") => (path, Format::Text),
        _ => return None,
    };
    let question = match path.split_once('/')? {
        ("queue", "main") => Question::MainQueue,
        ("queue", "list") => Question::Queues { empty: flag("showEmpty") },
        ("config", "list") => Question::Parameters,
        ("global", "list") => Question::GlobalHooks,
        ("global", part) => Question::Global(Part::named(part)?),
        ("module", "list") => Question::Modules,
        ("module", "resource-monitor") => {
            Question::Monitors { module: request.fields.get("module").cloned() }
        }
        ("module", rest) => {
            let (name, part) = rest.rsplit_once('/')?;
            let (name, part, global) = (name.to_owned(), Part::named(part)?, flag("global"));
            Question::Module { name, part, global }
        }
        ("hook", "list") => Question::Hooks,
        // Names of hooks contain slashes.
        ("hook", rest) => match rest.rsplit_once('/')? {
            (name, "snapshots") => Question::HookSnapshots(name.to_owned()),
            (name, "runs") => Question::HookRuns(name.to_owned()),
            _ => return None,
        },
        _ => return None,
    };
    Some((question, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str) -> Option<(Question, Format)> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs = query.split('&').filter(|p| !p.is_empty());
        let fields = pairs.map(|p| p.split_once('=').unwrap_or((p, ""))).map(|(k, v)| (k.into(), v.into()));
        parse(&Request { post: false, path: path.into(), fields: fields.collect() })
    }

    #[test]
    fn every_path_of_the_peer() {
        let module = |part, global| Question::Module { name: "a-b".into(), part, global };
        let render = |debug, diff| Question::Render { name: "a-b".into(), debug, diff };
        let table = [
            ("/", Question::Alive, Format::Text),
            ("/discovery", Question::Routes, Format::Text),
            ("/graph?format=text", Question::Graph, Format::Text),
            ("/queue/main.json", Question::MainQueue, Format::Json),
            ("/queue/list.text?showEmpty=true", Question::Queues { empty: true }, Format::Text),
            ("/queue/list.yaml?showEmpty=false", Question::Queues { empty: false }, Format::Yaml),
            ("/config/list.json", Question::Parameters, Format::Json),
            ("/global/list.yaml", Question::GlobalHooks, Format::Yaml),
            ("/global/values.yaml", Question::Global(Part::Values), Format::Yaml),
            ("/global/config.json", Question::Global(Part::Config), Format::Json),
            ("/global/patches.json", Question::Global(Part::Patches), Format::Json),
            ("/global/snapshots.yaml", Question::Global(Part::Snapshots), Format::Yaml),
            ("/module/list.text", Question::Modules, Format::Text),
            ("/module/resource-monitor.json", Question::Monitors { module: None }, Format::Json),
            (
                "/module/resource-monitor.yaml?module=a",
                Question::Monitors { module: Some("a".into()) },
                Format::Yaml,
            ),
            ("/module/a-b/values.yaml?global=true", module(Part::Values, true), Format::Yaml),
            ("/module/a-b/config.json?global=false", module(Part::Config, false), Format::Json),
            ("/module/a-b/patches.json", module(Part::Patches, false), Format::Json),
            ("/module/a-b/snapshots.yaml", module(Part::Snapshots, false), Format::Yaml),
            ("/module/a-b/render", render(false, false), Format::Text),
            ("/module/a-b/render?debug&diff=true", render(true, true), Format::Text),
            ("/hook/list.text", Question::Hooks, Format::Text),
            ("/hook/x/y.sh/snapshots.json", Question::HookSnapshots("x/y.sh".into()), Format::Json),
            ("/hook/y.sh/snapshots", Question::HookSnapshots("y.sh".into()), Format::Text),
            ("/hook/x/y.sh/runs.yaml", Question::HookRuns("x/y.sh".into()), Format::Yaml),
        ];
        for (path, question, format) in table {
            assert_eq!(get(path), Some((question, format)), "{path}");
        }
    }

    #[test]
    fn other_paths_are_not_there() {
        for path in ["/queue", "/queue/main", "/queue/main.xml", "/module/a/x.json", "/config/set", "/x.json"]
        {
            assert_eq!(get(path), None, "{path}");
        }
        let set = Request { post: true, path: "/config/set".into(), ..Request::default() };
        assert!(matches!(parse(&set), Some((Question::Set { .. }, Format::Text))));
        let other = Request { post: true, path: "/queue/main.json".into(), ..Request::default() };
        assert_eq!(parse(&other), None);
    }
}
