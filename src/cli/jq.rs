//! `windlass jq`: jq for hooks, so that an image needs no jq program.
//!
//! Supports the flags of jq that hooks use.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;
use serde_json::{Deserializer, Value, json};

use super::Failure;
use windlass_base::bounded_read;
use windlass_base::causes::of_the_system;
use windlass_modules::shell_hooks::jq::Filter;

/// The maximal size of the input, in bytes.
const MAX_INPUT: u64 = 1024 * 1024 * 1024;

/// Exit status for a filter that cannot be compiled, as jq's.
const SYNTAX: u8 = 3;
/// Exit status for an input that fails.
const FAILED: u8 = 5;

/// The arguments of `jq`, for the list of commands. [`asked`] handles `jq` before clap parses the command line, because jq's
/// short flags differ from ours.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(super) struct Raw {
    /// jq's flags, a filter, and files
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _arguments: Vec<OsString>,
}

/// Runs `jq` if it is the verb.
pub(super) fn asked() -> Option<ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_none_or(|first| first != "jq") {
        return None;
    }
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(e) => {
            // The output may be closed.
            e.print().unwrap_or_default();
            return Some(if e.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS });
        }
    };
    Some(run(&args).unwrap_or_else(|text| {
        super::tell(&format!("windlass jq: {text}"));
        ExitCode::from(2)
    }))
}

/// Filters JSON as jq does, for hooks
#[derive(clap::Parser)]
#[command(name = "jq")]
struct Args {
    /// Print strings without quotes
    #[arg(short = 'r', long)]
    raw_output: bool,
    /// Print strings without quotes and without a newline
    #[arg(short = 'j', long)]
    join_output: bool,
    /// Print each result in one line
    #[arg(short = 'c', long)]
    compact_output: bool,
    /// Read nothing; the input is null
    #[arg(short = 'n', long)]
    null_input: bool,
    /// Read all inputs into one list
    #[arg(short = 's', long)]
    slurp: bool,
    /// Read lines of text
    #[arg(short = 'R', long)]
    raw_input: bool,
    /// Exit with status 1 if the last result is false or null, with 4 if there is none
    #[arg(short = 'e', long)]
    exit_status: bool,
    /// Sort keys; keys are always sorted
    #[arg(short = 'S', long)]
    sort_keys: bool,
    /// A variable with text
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], action = clap::ArgAction::Append, allow_hyphen_values = true)]
    arg: Vec<String>,
    /// A variable with JSON
    #[arg(long, num_args = 2, value_names = ["NAME", "JSON"], action = clap::ArgAction::Append, allow_hyphen_values = true)]
    argjson: Vec<String>,
    /// The filter
    #[arg(default_value = ".", allow_hyphen_values = true)]
    filter: String,
    /// Files to read instead of the standard input
    files: Vec<PathBuf>,
}

fn run(args: &Args) -> Result<ExitCode, Failure> {
    let environment =
        std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?.into())));
    let mut variables =
        serde_json::Map::from_iter([("ENV".to_owned(), Value::Object(environment.collect()))]);
    for pair in args.arg.chunks_exact(2) {
        variables.insert(pair[0].clone(), pair[1].clone().into());
    }
    for pair in args.argjson.chunks_exact(2) {
        let value = serde_json::from_str(&pair[1]).map_err(|e| format!("--argjson {}: {e}", pair[0]))?;
        variables.insert(pair[0].clone(), value);
    }
    let complain = |text: &str| super::tell(&format!("windlass jq: {text}"));
    let filter = match Filter::with_variables(&args.filter, &variables) {
        Ok(filter) => filter,
        Err(e) => {
            complain(&format!("{e}"));
            return Ok(ExitCode::from(SYNTAX));
        }
    };
    let mut out = std::io::stdout().lock();
    let mut last = None;
    let mut failed = false;
    for input in inputs(args)? {
        match filter.run(&input) {
            Ok(results) => {
                for result in results {
                    // The output may be closed.
                    if out.write_all(format_result(args, &result).as_bytes()).is_err() {
                        return Ok(ExitCode::FAILURE);
                    }
                    last = Some(result);
                }
            }
            Err(e) => {
                complain(&e.to_string());
                failed = true;
            }
        }
    }
    Ok(match last {
        _ if failed => ExitCode::from(FAILED),
        None if args.exit_status => ExitCode::from(4),
        Some(Value::Null | Value::Bool(false)) if args.exit_status => ExitCode::from(1),
        _ => ExitCode::SUCCESS,
    })
}

fn inputs(args: &Args) -> Result<Vec<Value>, Failure> {
    if args.null_input {
        return Ok(vec![Value::Null]);
    }
    let mut text = String::new();
    if args.files.is_empty() {
        text = utf8(bounded_read::read_to_end(std::io::stdin().lock(), MAX_INPUT))
            .map_err(|e| format!("standard input: {e}"))?;
    }
    for path in &args.files {
        let read = utf8(bounded_read::read_file(path, MAX_INPUT));
        text.push_str(&read.map_err(|e| format!("{}: {e}", path.display()))?);
    }
    if args.raw_input {
        return Ok(if args.slurp { vec![text.into()] } else { text.lines().map(Value::from).collect() });
    }
    let values: Result<Vec<Value>, _> = Deserializer::from_str(&text).into_iter().collect();
    let values = values.map_err(|e| e.to_string())?;
    Ok(if args.slurp { vec![json!(values)] } else { values })
}

fn utf8(read: std::io::Result<Vec<u8>>) -> Result<String, String> {
    String::from_utf8(read.map_err(|e| of_the_system(&e))?).map_err(|_| "not UTF-8 text".to_owned())
}

fn format_result(args: &Args, result: &Value) -> String {
    let raw = args.raw_output || args.join_output;
    let mut text = match result {
        Value::String(text) if raw => text.clone(),
        other if args.compact_output => other.to_string(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    if !args.join_output {
        text.push('\n');
    }
    text
}
