//! `windlass queue`, `config`, `global`, `module`, `hook` and `raw`: requests to a running operator over its debug
//! socket; and `module` for modules on disk.
//!
//! Verbs and flags are addon-operator's and shell-operator's. Responses are printed verbatim.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::failure::Explained;
use super::flags::Globals;
use super::{Failure, module_files, print};
use windlass_base::bounded_read;
use windlass_controller::serve::debug::SOCKET;

/// The maximal size of a response, in bytes.
const LARGEST: u64 = 1 << 30;
/// Time limit of a response. A render sends requests to the API server.
const PATIENCE: Duration = Duration::from_secs(150);
/// Characters that are not escaped in paths and forms.
const KEPT: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b'/');

/// Format of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
    Yaml,
    Text,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Text => "text",
        }
    }
}

/// The operator's debug socket.
#[derive(clap::Args)]
struct Socket {
    /// Unix socket of the operator
    #[arg(long, env = "DEBUG_UNIX_SOCKET", default_value = SOCKET, global = true)]
    debug_unix_socket: PathBuf,
}

/// `queue …`
#[derive(clap::Args)]
pub(super) struct QueueArgs {
    #[command(subcommand)]
    verb: QueueVerb,
    #[command(flatten)]
    socket: Socket,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text", global = true)]
    output: Format,
}

#[derive(clap::Subcommand)]
enum QueueVerb {
    /// Dump tasks in all queues
    List {
        /// Show empty queues
        #[arg(short = 'e', long)]
        show_empty: bool,
        /// Keep watching
        #[arg(short, long)]
        watch: bool,
        /// Watch refresh interval
        #[arg(short = 't', long = "watchInterval", visible_alias = "watch-interval", default_value = "1s", value_parser = super::flags::duration)]
        interval: Duration,
    },
    /// Dump tasks in the main queue
    Main,
}

/// `config …`
#[derive(clap::Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    verb: ConfigVerb,
    #[command(flatten)]
    socket: Socket,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text", global = true)]
    output: Format,
}

#[derive(clap::Subcommand)]
enum ConfigVerb {
    /// List available runtime parameters
    List,
    /// Set a runtime parameter
    Set {
        /// The parameter, e.g. log.level
        name: String,
        /// Its value
        value: String,
        /// Duration, e.g. 10m; without it the value applies until the operator exits
        duration: Option<String>,
    },
}

/// `global …`
#[derive(clap::Args)]
pub(super) struct GlobalArgs {
    #[command(subcommand)]
    verb: GlobalVerb,
    #[command(flatten)]
    socket: Socket,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml", global = true)]
    output: Format,
}

#[derive(clap::Subcommand)]
enum GlobalVerb {
    /// List global hooks
    List,
    /// Dump current global values
    Values,
    /// Dump global config values
    Config,
    /// Dump global value patches
    Patches,
    /// Dump snapshots for all global hooks
    Snapshots,
}

/// `module …`
#[derive(clap::Args)]
pub(super) struct ModuleArgs {
    #[command(subcommand)]
    verb: ModuleVerb,
    #[command(flatten)]
    socket: Socket,
    /// Output format
    #[arg(short, long, value_enum, default_value = "yaml", global = true)]
    output: Format,
}

#[derive(clap::Subcommand)]
enum ModuleVerb {
    /// List modules that are on
    List,
    /// Dump module values by name
    Values {
        module: String,
        /// Also show global values
        #[arg(short, long)]
        global: bool,
    },
    /// Dump module config values by name
    Config {
        module: String,
        /// Also show global config
        #[arg(short, long)]
        global: bool,
    },
    /// Dump module value patches by name
    Patches { module: String },
    /// Dump snapshots for all hooks
    Snapshots { module: String },
    /// Render module manifests
    Render {
        module: String,
        /// Do not validate the values against their schema
        #[arg(long)]
        debug: bool,
        /// Print the differences between the cluster and the chart
        #[arg(long)]
        diff: bool,
    },
    /// Dump the watched objects of modules
    ResourceMonitor {
        /// Only this module
        module: Option<String>,
    },
    /// Render the chart of a module on disk, without an operator: with defaults and x-examples of its schemas, and with your values
    Template(Box<module_files::TemplateArgs>),
    /// Run the cases in openapi/openapi-case-tests.yaml of modules on disk
    Test(module_files::TestArgs),
    /// Check settings of a module on disk by its schema and its programs (hook check), without an operator
    Check(module_files::CheckArgs),
}

/// `hook …`
#[derive(clap::Args)]
pub(super) struct HookArgs {
    #[command(subcommand)]
    verb: HookVerb,
    #[command(flatten)]
    socket: Socket,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text", global = true)]
    output: Format,
}

#[derive(clap::Subcommand)]
enum HookVerb {
    /// List all hooks
    List,
    /// Dump hook snapshots
    #[command(visible_alias = "snapshots")]
    Snapshot { hook: String },
    /// Show the last runs of a hook: start, result, resource usage and output
    Runs { hook: String },
}

/// `raw PATH`
#[derive(clap::Args)]
pub(super) struct RawArgs {
    /// Path with its query, e.g. /queue/main.json
    #[arg(default_value = "/")]
    path: String,
    #[command(flatten)]
    socket: Socket,
}

pub(super) fn queue(args: &QueueArgs) -> Result<(), Failure> {
    let format = args.output.name();
    let (show_empty, watch, interval) = match &args.verb {
        QueueVerb::Main => return args.socket.show(&format!("/queue/main.{format}")),
        QueueVerb::List { show_empty, watch, interval } => (show_empty, watch, interval),
    };
    let path = format!("/queue/list.{format}?showEmpty={show_empty}");
    if !watch {
        return args.socket.show(&path);
    }
    loop {
        let answer = args.socket.ask(&path, None)?;
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ");
        print(format!("\u{1b}[2J\u{1b}[H{now}\n\n{answer}").as_bytes())?;
        std::thread::sleep((*interval).max(Duration::from_millis(100)));
    }
}

pub(super) fn config(args: &ConfigArgs) -> Result<(), Failure> {
    match &args.verb {
        ConfigVerb::List => args.socket.show(&format!("/config/list.{}", args.output.name())),
        ConfigVerb::Set { name, value, duration } => {
            let mut form = format!("name={}&value={}", escaped(name), escaped(value));
            if let Some(duration) = duration {
                form.push_str(&format!("&duration={}", escaped(duration)));
            }
            args.socket.ask("/config/set", Some(&form)).map(drop)
        }
    }
}

pub(super) fn global(args: &GlobalArgs) -> Result<(), Failure> {
    let part = match args.verb {
        GlobalVerb::List => "list",
        GlobalVerb::Values => "values",
        GlobalVerb::Config => "config",
        GlobalVerb::Patches => "patches",
        GlobalVerb::Snapshots => "snapshots",
    };
    args.socket.show(&format!("/global/{part}.{}", args.output.name()))
}

pub(super) fn module(globals: &Globals, args: &ModuleArgs) -> Result<(), Explained> {
    match &args.verb {
        ModuleVerb::Template(template) => module_files::template(globals, template),
        ModuleVerb::Test(test) => Ok(module_files::test(globals, test)?),
        ModuleVerb::Check(check) => Ok(module_files::check(globals, check)?),
        _ => Ok(show_module(args)?),
    }
}

fn show_module(args: &ModuleArgs) -> Result<(), Failure> {
    let format = args.output.name();
    let part = |module: &str, part: &str, query: &str| {
        args.socket.show(&format!("/module/{}/{part}.{format}{query}", escaped(module)))
    };
    match &args.verb {
        ModuleVerb::List => args.socket.show(&format!("/module/list.{format}")),
        ModuleVerb::Values { module, global } => part(module, "values", &format!("?global={global}")),
        ModuleVerb::Config { module, global } => part(module, "config", &format!("?global={global}")),
        ModuleVerb::Patches { module } => part(module, "patches", ""),
        ModuleVerb::Snapshots { module } => part(module, "snapshots", ""),
        ModuleVerb::Render { module, debug, diff } => {
            args.socket.show(&format!("/module/{}/render?debug={debug}&diff={diff}", escaped(module)))
        }
        ModuleVerb::ResourceMonitor { module } => {
            let query = module.as_ref().map_or_else(String::new, |m| format!("?module={}", escaped(m)));
            args.socket.show(&format!("/module/resource-monitor.{format}{query}"))
        }
        // They ask no operator.
        ModuleVerb::Template(_) | ModuleVerb::Test(_) | ModuleVerb::Check(_) => Ok(()),
    }
}

pub(super) fn hook(args: &HookArgs) -> Result<(), Failure> {
    let format = args.output.name();
    match &args.verb {
        HookVerb::List => args.socket.show(&format!("/hook/list.{format}")),
        HookVerb::Snapshot { hook } => {
            args.socket.show(&format!("/hook/{}/snapshots.{format}", escaped(hook)))
        }
        HookVerb::Runs { hook } => args.socket.show(&format!("/hook/{}/runs.{format}", escaped(hook))),
    }
}

pub(super) fn raw(args: &RawArgs) -> Result<(), Failure> {
    if !args.path.starts_with('/') || args.path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(format!("{:?} is not a path: write e.g. /queue/main.json", args.path));
    }
    args.socket.show(&args.path)
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, &KEPT).to_string()
}

impl Socket {
    /// Sends a request and prints the response.
    fn show(&self, path: &str) -> Result<(), Failure> {
        let mut answer = self.ask(path, None)?;
        if !answer.ends_with('\n') {
            answer.push('\n');
        }
        print(answer.as_bytes())
    }

    /// The response for a path. A form is sent as POST.
    fn ask(&self, path: &str, form: Option<&str>) -> Result<String, Failure> {
        let socket = self.debug_unix_socket.display();
        let mut stream = UnixStream::connect(&self.debug_unix_socket).map_err(|e| {
            format!(
                "no operator listens at {socket}: {e}; run this beside it (kubectl exec), or name its socket with \
                 --debug-unix-socket"
            )
        })?;
        let lost = |e: std::io::Error| format!("{socket}: {e}");
        stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
        let method = if form.is_some() { "POST" } else { "GET" };
        let form = form.unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: unix\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
            form.len()
        );
        stream.write_all(head.as_bytes()).map_err(lost)?;
        let bytes = bounded_read::first_bytes(stream, LARGEST).map_err(lost)?;
        let answer = String::from_utf8_lossy(&bytes);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            Some(_) if !body.trim().is_empty() => Err(body.trim().to_owned()),
            Some(status) => Err(format!("{socket}: HTTP status {status} to {path}")),
            None => Err(format!("{socket}: what listens there does not speak HTTP")),
        }
    }
}
