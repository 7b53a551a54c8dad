//! A hook: a program with its configuration, and one run of it.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::binding_context::{self, Context, Snapshots};
use super::config::{ConfigError, HookConfig};
use super::hook_file::{FileState, HookSource};
use super::operations::{self, Operation, OperationsError};
use super::process::{self, OutputFile, ProcessError, Program, Scratch, Stdout, Stream, Usage};
use super::rate_limit::RateLimit;
use super::run_history::{RunView, Runs};
use super::{Scope, metrics_file};
use windlass_base::redact;
use windlass_controller::serve::hook_metrics;

/// A hook that does not say its configuration within this time will not say it.
pub const CONFIG_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of the next run: it marks the log lines of one run.
static TASKS: AtomicU64 = AtomicU64::new(1);

/// What all runs have in common.
#[derive(Default, Clone, Debug)]
pub struct HookEnvironment {
    /// Where files of runs are created.
    pub scratch: PathBuf,
    /// Files stay after the run, for debugging.
    pub keep_files: bool,
    /// After this time a run is killed, where the hook says nothing else; `None`: never.
    pub timeout: Option<Duration>,
    /// Metrics without a group get the hook's name for it, as addon-operator does since its version 1.11.
    pub group_metrics: bool,
    /// Lines of JSON are written as they are, with the fields of the hook.
    pub proxy_json: bool,
    /// The kubeconfig that the operator was given: clients in batch programs use it, too.
    pub kubeconfig: Option<PathBuf>,
    /// Hooks run in the directories of their files, as with shell-operator; otherwise where the operator runs.
    pub own_directory: bool,
}

impl HookEnvironment {
    /// The variable that names the kubeconfig.
    pub(super) fn kubeconfig(&self) -> Option<(String, OsString)> {
        self.kubeconfig.as_ref().map(|path| ("KUBECONFIG".to_owned(), path.clone().into_os_string()))
    }
}

/// A hook, ready to run.
#[derive(Debug)]
pub struct Hook {
    /// Path below the directory of hooks; for modules with the module's directory in front. Hooks of a batch program have their own
    /// names and indexes behind it.
    pub name: String,
    /// The path alone, and the index: hooks of equal order run in this order.
    pub place: (String, usize),
    /// Name of its module; empty for a global hook.
    pub module: String,
    pub scope: Scope,
    pub config: HookConfig,
    program: Program,
    /// The state in which its batch program was asked for its hooks; `None`: a plain hook.
    batch: Option<FileState>,
    limit: Mutex<Option<RateLimit>>,
    runs: Arc<Runs>,
}

/// The input of a run.
#[derive(Clone, Debug, Default)]
pub struct Input {
    /// Why it runs.
    pub contexts: Vec<Context>,
    /// The objects that they show.
    pub snapshots: Snapshots,
    pub config_values: Value,
    pub values: Value,
}

/// What hooks in bash source. Images have it; who asks hooks elsewhere may not.
const LIBRARY: &str = "/shell_lib.sh";

/// What to do about a program that failed for want of the library, which its shell says in words of its own.
fn missing_library(reason: &ProcessError, library: &Path) -> &'static str {
    if reason.to_string().contains(LIBRARY) && !library.exists() {
        "\n/shell_lib.sh is in the image of Windlass: run this there, or copy frameworks/shell_lib.sh and frameworks/shell of its \
         sources to /shell_lib.sh and /frameworks/shell"
    } else {
        ""
    }
}

/// What a program that may be a batch one answered besides.
fn of_batch(batch: Option<&str>) -> String {
    batch.map_or_else(String::new, |text| format!("; hook config: {text}"))
}

/// The output of a run. Patches are unparsed, and responses unread: the hook's owner does that.
#[derive(Clone, Debug, Default)]
pub struct Output {
    /// The number of the run.
    pub task: u64,
    pub usage: Usage,
    pub metrics: Vec<hook_metrics::Operation>,
    pub operations: Vec<Operation>,
    pub config_values_patch: String,
    pub values_patch: String,
    pub admission: OutputFile,
    pub conversion: OutputFile,
}

/// A hook that cannot be used, or a run that failed.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    #[error("hook {hook}: --config: {reason}")]
    Config { hook: String, reason: ConfigError },
    #[error("hook {hook}: --config: {reason}{}{}", missing_library(reason, Path::new(LIBRARY)), of_batch(batch.as_deref()))]
    AskConfig { hook: String, reason: Box<ProcessError>, batch: Option<String> },
    #[error("hook {hook}: hook config: {reason}")]
    Batch { hook: String, reason: String },
    #[error(
        "hook {hook}: it has a readiness probe, and so has {first}: a module may have one; remove one of them"
    )]
    SeveralProbes { hook: String, first: String },
    #[error("hook {hook}: its file changes while it is asked for its hooks; it is asked again")]
    Changing { hook: String },
    #[error(
        "hook {hook}: its program has changed since it was asked for its hooks; the new one is used after the next scan of the files \
         (--modules-scan-interval)"
    )]
    Changed { hook: String },
    #[error("hook {hook}: {reason}")]
    Run { hook: String, reason: Box<ProcessError>, status_patches: Vec<Operation> },
    #[error("hook {hook}: {reason}")]
    Metrics { hook: String, reason: metrics_file::MetricsError },
    #[error("hook {hook}: {reason}")]
    Operations { hook: String, reason: OperationsError },
}

impl HookError {
    /// The error without the name of the hook.
    #[must_use]
    pub fn in_short(&self) -> String {
        match self {
            Self::Run { reason, .. } if reason.stderr().is_empty() => reason.to_string(),
            Self::Run { reason, .. } => match &**reason {
                ProcessError::Failed { stderr, .. } => stderr.clone(),
                other => other.to_string(),
            },
            other => other.to_string(),
        }
    }
}

impl Hook {
    /// A hook of a file: its name and index, its configuration, its program, and the state of the file if that is a batch program.
    pub(super) fn new(
        source: &HookSource<'_>,
        (name, index): (String, usize),
        config: HookConfig,
        (program, batch): (Program, Option<FileState>),
    ) -> Self {
        let settings = &config.settings;
        let limit = settings.min_interval.map(|interval| RateLimit::new(interval, settings.burst));
        Self {
            name,
            place: (source.name.to_owned(), index),
            module: source.module.to_owned(),
            scope: source.scope,
            config,
            program,
            batch,
            limit: Mutex::new(limit),
            runs: Arc::default(),
        }
    }

    /// Whether it is one of several of a batch program.
    #[must_use]
    pub fn is_batch(&self) -> bool {
        self.batch.is_some()
    }

    /// Its program with the variables of a batch program, if it is one.
    fn prepared(&self, around: &HookEnvironment) -> Result<Program, HookError> {
        let mut program = self.program.clone();
        program.timeout = program.timeout.or(around.timeout);
        if around.own_directory
            && let Ok(path) = std::path::absolute(&program.path)
        {
            program.directory = path.parent().map(Path::to_owned);
            program.path = path;
        }
        let Some(asked) = self.batch else { return Ok(program) };
        // By its index another hook would be run.
        if FileState::of(&program.path).is_ok_and(|now| now != asked) {
            return Err(HookError::Changed { hook: self.name.clone() });
        }
        program.environment.extend(around.kubeconfig());
        let level = self.config.log_level.as_ref();
        program.environment.extend(level.map(|level| ("LOG_LEVEL".to_owned(), level.into())));
        Ok(program)
    }

    /// A failure of a batch program with the message that it gives instead of the end of its log.
    fn with_message(&self, reason: ProcessError, message: Option<String>) -> ProcessError {
        let ProcessError::Failed { stderr, .. } = &reason else { return reason };
        if self.batch.is_none() {
            return reason;
        }
        let message = message.or_else(|| stderr.lines().rev().find_map(error_message));
        match message {
            Some(message) => reason.with_stderr(message),
            None if stderr.is_empty() => reason.with_stderr(SILENT.to_owned()),
            None => reason,
        }
    }

    /// Waits until the hook may run again, and takes the run out of its allowance.
    pub async fn turn(&self) {
        let wait = {
            let mut limit = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
            limit.as_mut().map(|l| l.take(Instant::now()))
        };
        if let Some(wait) = wait.filter(|w| !w.is_zero()) {
            tokio::time::sleep(wait).await;
        }
    }

    /// Runs the hook once.
    ///
    /// # Errors
    /// It failed, or wrote files that cannot be read: what it answered counts for nothing then.
    pub async fn run(
        &self,
        around: &HookEnvironment,
        input: &Input,
        about: &About<'_>,
    ) -> Result<Output, HookError> {
        let failed = |reason| HookError::Run {
            hook: self.name.clone(),
            reason: Box::new(reason),
            status_patches: Vec::new(),
        };
        let scratch = Arc::new(Scratch::new(&around.scratch, around.keep_files).map_err(failed)?);
        let mut program = self.prepared(around)?;
        write_files(&mut program, &scratch, &self.config, input).map_err(failed)?;
        let task = TASKS.fetch_add(1, Ordering::Relaxed);
        let running = self.runs.begin((task, about.event), bindings(&input.contexts), about.queue);
        let mut message = None;
        let line = |stream: Stream, line: &str| {
            running.line(stream, line);
            if self.is_batch()
                && stream == Stream::Stderr
                && let Some(text) = error_message(line)
            {
                // It is the error of the run, which is logged as such.
                message = Some(text);
                return;
            }
            self.log(stream, line, (about, task), around.proxy_json);
        };
        let ended = process::run(&program, Stdout::Lines, line).await;
        let ended = ended.map_err(|reason| self.with_message(reason, message));
        running.ended(&ended);
        let ended = match ended {
            Ok(ended) => ended,
            Err(reason) => {
                // Of a failed run only changes of a status that ask for it are done.
                let written = scratch.read("kubernetes-patch").unwrap_or_default();
                let mut status_patches = operations::parse(&written).unwrap_or_default();
                status_patches.retain(|o| {
                    matches!(o, Operation::Patch { target, ignore_hook_error: true, .. } if target.subresource == "status")
                });
                let reason = Box::new(reason);
                return Err(HookError::Run { hook: self.name.clone(), reason, status_patches });
            }
        };
        let answers = self.answers(around, &scratch);
        let answers = answers.inspect_err(|e| self.refused(task, &e.to_string()))?;
        Ok(Output { task, usage: ended.usage, ..answers })
    }

    /// What a run has written into its files.
    fn answers(&self, around: &HookEnvironment, scratch: &Arc<Scratch>) -> Result<Output, HookError> {
        let hook = || self.name.clone();
        let read = |name: &str| {
            scratch.read(name).map_err(|reason| HookError::Run {
                hook: hook(),
                reason: Box::new(reason),
                status_patches: Vec::new(),
            })
        };
        let group = around.group_metrics.then_some(self.name.as_str());
        let metrics = metrics_file::parse(&read("metrics.json")?, group)
            .map_err(|reason| HookError::Metrics { hook: hook(), reason })?;
        let operations = operations::parse(&read("kubernetes-patch")?)
            .map_err(|reason| HookError::Operations { hook: hook(), reason })?;
        Ok(Output {
            metrics,
            operations,
            config_values_patch: read("config-values-patch.json")?,
            values_patch: read("values-patch.json")?,
            admission: OutputFile::new(scratch, "admission-response.json"),
            conversion: OutputFile::new(scratch, "conversion-response.json"),
            ..Output::default()
        })
    }

    /// Its last runs, the oldest first.
    #[must_use]
    pub fn runs(&self) -> Vec<RunView> {
        self.runs.list()
    }

    /// Records that a run's output is invalid, for the run history.
    pub fn refused(&self, task: u64, why: &str) {
        self.runs.refused(task, why);
    }

    /// A line of a hook's output. Lines of JSON keep their level and message; their other fields begin with `hook_`.
    fn log(&self, stream: Stream, line: &str, (about, task): (&About<'_>, u64), proxy: bool) {
        let (module, hook, output) = (self.module.as_str(), self.name.as_str(), stream.name());
        let About { binding, queue, event } = *about;
        let of = match self.scope {
            Scope::Global => "global",
            Scope::Module => "module",
        };
        let parsed: Option<Value> = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten();
        if proxy && let Some(Value::Object(mut fields)) = parsed {
            let own = [
                ("module", module.into()),
                ("hook", hook.into()),
                ("hook.type", of.into()),
                ("binding", binding.into()),
                ("queue", queue.into()),
                ("event.id", event.into()),
                ("task.id", task.into()),
                ("output", output.into()),
            ];
            for (key, value) in own {
                fields.entry(key).or_insert(value);
            }
            fields.insert("proxyJsonLog".to_owned(), true.into());
            // Nothing can be done when logs cannot be written.
            drop(writeln!(std::io::stderr(), "{}", redact::mask_log(&Value::Object(fields).to_string())));
            return;
        }
        macro_rules! tell {
            ($level:ident, $fields:expr, $message:expr) => {
                tracing::$level!(
                    module,
                    hook,
                    "hook.type" = of,
                    binding,
                    queue,
                    "event.id" = event,
                    "task.id" = task,
                    output,
                    hook_fields = $fields,
                    "{}",
                    $message
                )
            };
        }
        if let Some(Value::Object(mut fields)) = parsed
            && let Some(Value::String(message)) = fields.remove("msg").or_else(|| fields.remove("message"))
        {
            let level = fields.remove("level");
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().map(|(key, value)| (format!("hook_{key}"), value)).collect();
            let fields = (!fields.is_empty()).then(|| Value::Object(fields).to_string());
            match level.as_ref().and_then(Value::as_str).unwrap_or("info") {
                "error" | "fatal" | "panic" => tell!(error, fields, message),
                "warn" | "warning" => tell!(warn, fields, message),
                "debug" | "trace" => tell!(debug, fields, message),
                _ => tell!(info, fields, message),
            }
            return;
        }
        tell!(info, None::<String>, line);
    }
}

/// Writes the files of a run, and names them in the environment of its program.
fn write_files(
    program: &mut Program,
    scratch: &Scratch,
    config: &HookConfig,
    input: &Input,
) -> Result<(), ProcessError> {
    let contexts = scratch.write_with("binding-context.json", |out| {
        binding_context::write(out, &input.contexts, config, &input.snapshots)
    })?;
    let mut paths = vec![("BINDING_CONTEXT_PATH", contexts)];
    for (variable, name, values) in [
        ("CONFIG_VALUES_PATH", "config-values.json", &input.config_values),
        ("VALUES_PATH", "values.json", &input.values),
    ] {
        let path =
            scratch.write_with(name, |out| serde_json::to_writer(out, values).map_err(io::Error::from))?;
        paths.push((variable, path));
    }
    for (variable, name) in [
        ("CONFIG_VALUES_JSON_PATCH_PATH", "config-values-patch.json"),
        ("VALUES_JSON_PATCH_PATH", "values-patch.json"),
        ("METRICS_PATH", "metrics.json"),
        ("KUBERNETES_PATCH_PATH", "kubernetes-patch"),
        ("ADMISSION_RESPONSE_PATH", "admission-response.json"),
        ("VALIDATING_RESPONSE_PATH", "admission-response.json"),
        ("CONVERSION_RESPONSE_PATH", "conversion-response.json"),
    ] {
        paths.push((variable, scratch.write(name, b"")?));
    }
    let named = paths.into_iter().map(|(variable, path)| (variable.to_owned(), OsString::from(path)));
    program.environment.extend(named);
    Ok(())
}

/// What a batch program that fails without a word needs.
const SILENT: &str =
    "it printed no error; LOG_LEVEL=info in the operator's environment shows the log of its library";

/// The message of a batch program's failure, where a line is one: lines of its log have other keys.
fn error_message(line: &str) -> Option<String> {
    let error: Value = line.starts_with('{').then(|| serde_json::from_str(line).ok()).flatten()?;
    let message = error["message"].as_str().filter(|text| !text.trim().is_empty())?;
    (error.get("level").is_none()).then(|| message.to_owned())
}

/// Names of the bindings of a run, each once.
fn bindings(contexts: &[Context]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for context in contexts {
        if !names.contains(&context.binding) {
            names.push(context.binding.clone());
        }
    }
    names
}

/// What the lines of a run say besides the hook and the number of the run.
pub struct About<'r> {
    pub binding: &'r str,
    pub queue: &'r str,
    /// The number of the run's cause: the same in each of its tries.
    pub event: u64,
}

#[cfg(test)]
mod tests;
