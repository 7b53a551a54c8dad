//! Answers to command lines that cannot be run: help, and usage errors.
//!
//! Called as `helm`, usage errors have Helm's words, which are those of cobra and pflag: scripts look for them. Under our own name
//! they are clap's. Both end with the same status.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use chart_compat::go::slog;
use clap::builder::ValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

use super::tell;

/// How many arguments a verb of Helm takes (`require`).
#[derive(Clone, Copy)]
enum Arity {
    /// Groups of verbs, which show their help.
    Any,
    None,
    Exactly(usize),
    AtLeast(usize),
    AtMost(usize),
}

/// The verbs of Helm, with their usage and the number of their arguments.
const VERBS: [(&str, &str, Arity); 48] = [
    ("completion", "", Arity::None),
    ("create", "NAME", Arity::Exactly(1)),
    ("dependency", "update|build|list", Arity::None),
    ("dependency build", "CHART", Arity::AtMost(1)),
    ("dependency list", "CHART", Arity::AtMost(1)),
    ("dependency update", "CHART", Arity::AtMost(1)),
    ("env", "", Arity::AtMost(1)),
    ("get", "", Arity::None),
    ("get all", "RELEASE_NAME", Arity::Exactly(1)),
    ("get hooks", "RELEASE_NAME", Arity::Exactly(1)),
    ("get manifest", "RELEASE_NAME", Arity::Exactly(1)),
    ("get metadata", "RELEASE_NAME", Arity::Exactly(1)),
    ("get notes", "RELEASE_NAME", Arity::Exactly(1)),
    ("get values", "RELEASE_NAME", Arity::Exactly(1)),
    ("history", "RELEASE_NAME", Arity::Exactly(1)),
    ("install", "[NAME] [CHART]", Arity::AtLeast(1)),
    ("lint", "PATH", Arity::AtLeast(1)),
    ("list", "", Arity::None),
    ("package", "[CHART_PATH] [...]", Arity::Any),
    ("plugin", "", Arity::Any),
    ("pull", "[chart URL | repo/chartname] [...]", Arity::AtLeast(1)),
    ("push", "[chart] [remote]", Arity::AtLeast(2)),
    ("registry", "", Arity::Any),
    ("registry login", "[host]", Arity::AtLeast(1)),
    ("registry logout", "[host]", Arity::AtLeast(1)),
    ("repo", "add|remove|list|index|update [ARGS]", Arity::None),
    ("repo add", "[NAME] [URL]", Arity::Exactly(2)),
    ("repo index", "[DIR]", Arity::Exactly(1)),
    ("repo list", "", Arity::None),
    ("repo remove", "[REPO1 [REPO2 ...]]", Arity::AtLeast(1)),
    ("repo update", "[REPO1 [REPO2 ...]]", Arity::Any),
    ("rollback", "<RELEASE> [REVISION]", Arity::AtLeast(1)),
    ("search", "[keyword]", Arity::Any),
    ("search hub", "[KEYWORD]", Arity::Any),
    ("search repo", "[keyword]", Arity::Any),
    ("show", "", Arity::None),
    ("show all", "[CHART]", Arity::Exactly(1)),
    ("show chart", "[CHART]", Arity::Exactly(1)),
    ("show crds", "[CHART]", Arity::Exactly(1)),
    ("show readme", "[CHART]", Arity::Exactly(1)),
    ("show values", "[CHART]", Arity::Exactly(1)),
    ("status", "RELEASE_NAME", Arity::Exactly(1)),
    ("template", "[NAME] [CHART]", Arity::AtLeast(1)),
    ("test", "[RELEASE]", Arity::Exactly(1)),
    ("uninstall", "RELEASE_NAME [...]", Arity::AtLeast(1)),
    ("upgrade", "[RELEASE] [CHART]", Arity::Exactly(2)),
    ("verify", "PATH", Arity::Exactly(1)),
    ("version", "", Arity::None),
];

/// Whether the program is called by Helm's name.
fn is_helm(program: Option<&OsString>) -> bool {
    let name = program.and_then(|program| Path::new(program).file_stem());
    name.is_some_and(|name| name == OsStr::new("helm"))
}

/// Tells why a command line is not run.
pub(super) fn end(root: &Command, args: &[OsString], error: &clap::Error) -> ExitCode {
    // Errors of the terminal are ignored.
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            drop(error.print());
            return ExitCode::SUCCESS;
        }
        // A group of verbs without a verb is asked for help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            drop(write!(std::io::stdout().lock(), "{}", error.render()));
            return ExitCode::SUCCESS;
        }
        kind => {
            let line = Line::read(root, args);
            if kind == ErrorKind::MissingSubcommand || line.asks_helms_group() {
                drop(write!(std::io::stdout().lock(), "{}", line.group().render_help()));
                return ExitCode::SUCCESS;
            }
        }
    }
    match is_helm(args.first()).then(|| words(root, args, error)).flatten() {
        Some(text) => tell(&text),
        None => drop(error.print()),
    }
    ExitCode::FAILURE
}

/// A command line as cobra reads it.
struct Line<'c> {
    root: &'c Command,
    /// Names of the verb, from the root.
    path: Vec<&'c str>,
    verb: &'c Command,
    positional: Vec<String>,
    /// The first flag that cannot be read.
    wrong: Option<String>,
}

impl<'c> Line<'c> {
    fn read(root: &'c Command, args: &[OsString]) -> Self {
        let mut line = Self { root, path: Vec::new(), verb: root, positional: Vec::new(), wrong: None };
        let mut args = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned());
        while let Some(arg) = args.next() {
            if arg == "--" {
                line.positional.extend(args);
                break;
            }
            if let Some(name) = arg.strip_prefix("--") {
                line.long(name, || args.next());
            } else if let Some(letters) = arg.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                line.letters(letters, || args.next());
            } else {
                line.word(arg);
            }
        }
        line
    }

    fn word(&mut self, word: String) {
        let verb = self.verb.find_subcommand(&word).filter(|_| self.positional.is_empty());
        match verb {
            Some(verb) => {
                self.verb = verb;
                self.path.push(verb.get_name());
            }
            None => self.positional.push(word),
        }
    }

    fn find(&self, wanted: impl Fn(&Arg) -> bool) -> Option<&'c Arg> {
        self.verb.get_arguments().chain(self.root.get_arguments()).find(|arg| wanted(arg))
    }

    fn named(&self, name: &str) -> Option<&'c Arg> {
        self.find(|arg| {
            arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
        })
    }

    fn fail(&mut self, text: String) {
        self.wrong.get_or_insert(text);
    }

    fn long(&mut self, text: &str, mut next: impl FnMut() -> Option<String>) {
        let name = text.split_once('=').map_or(text, |(name, _)| name);
        if name.is_empty() || name.starts_with('-') {
            return self.fail(format!("bad flag syntax: --{text}"));
        }
        match self.named(name) {
            Some(flag) if takes_next(flag) && name == text && next().is_none() => {
                self.fail(format!("flag needs an argument: --{name}"));
            }
            Some(_) => {}
            None if name == "help" => {}
            None => self.fail(format!("unknown flag: --{name}")),
        }
    }

    fn letters(&mut self, all: &str, mut next: impl FnMut() -> Option<String>) {
        let mut rest = all;
        while let Some(letter) = rest.chars().next() {
            let left = &rest[letter.len_utf8()..];
            match self.find(|arg| arg.get_short() == Some(letter)) {
                None if letter == 'h' => {}
                None => return self.fail(format!("unknown shorthand flag: {letter:?} in -{rest}")),
                Some(flag) if takes_next(flag) => {
                    if left.is_empty() && next().is_none() {
                        self.fail(format!("flag needs an argument: {letter:?} in -{rest}"));
                    }
                    return;
                }
                Some(_) if left.starts_with('=') => return,
                Some(_) => {}
            }
            rest = left;
        }
    }

    /// Whether the line names a group of verbs of Helm, with no verb of it. Helm shows its help then.
    fn asks_helms_group(&self) -> bool {
        let path = self.path.join(" ");
        self.wrong.is_none() && self.verb.has_subcommands() && VERBS.iter().any(|(verb, ..)| *verb == path)
    }

    /// The group of verbs that the line names.
    fn group(&self) -> Command {
        let mut root = self.root.clone();
        root.build();
        let verb = self.path.iter().try_fold(&root, |at, name| at.find_subcommand(name));
        verb.cloned().unwrap_or(root)
    }

    /// Too many arguments, or too few.
    fn miscounted(&self) -> Option<String> {
        let path = self.path.join(" ");
        if path == "package" && self.positional.is_empty() {
            return Some("need at least one argument, the path to the chart".to_owned());
        }
        let (_, usage, arity) = VERBS.iter().find(|(verb, ..)| *verb == path)?;
        let count = self.positional.len();
        let arguments = |n: usize| if n == 1 { "argument" } else { "arguments" };
        let text = match *arity {
            Arity::None if count > 0 => "accepts no arguments".to_owned(),
            Arity::Exactly(n) if count != n => format!("requires {n} {}", arguments(n)),
            Arity::AtLeast(n) if count < n => format!("requires at least {n} {}", arguments(n)),
            Arity::AtMost(n) if count > n => format!("accepts at most {n} {}", arguments(n)),
            _ => return None,
        };
        let usage = if usage.is_empty() { String::new() } else { format!(" {usage}") };
        Some(format!("\"helm {path}\" {text}\n\nUsage:  helm {path}{usage} [flags]"))
    }
}

fn takes_next(flag: &Arg) -> bool {
    let valued = matches!(flag.get_action(), ArgAction::Set | ArgAction::Append);
    valued && !flag.is_require_equals_set()
}

/// The text of a usage error in Helm's words; `None` if Helm knows no such error.
fn words(root: &Command, args: &[OsString], error: &clap::Error) -> Option<String> {
    let line = Line::read(root, args);
    if line.path.is_empty()
        && let Some(word) = line.positional.first()
    {
        let said = suggestions(word);
        return Some(format!(
            "Error: unknown command {word:?} for \"helm\"{said}\nRun 'helm --help' for usage."
        ));
    }
    if let Some(wrong) = &line.wrong {
        return Some(format!("Error: {wrong}"));
    }
    if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) {
        return value_error(&line, error);
    }
    Some(format!("Error: {}", line.miscounted()?))
}

/// A value that a flag does not take.
fn value_error(line: &Line<'_>, error: &clap::Error) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let value = context(ContextKind::InvalidValue).unwrap_or_default();
    let name = context(ContextKind::InvalidArg)?.strip_prefix("--")?;
    let name = name.split([' ', '[', '=']).next().unwrap_or_default();
    let flag = line.named(name)?;
    let own = || std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    let cause = match (name, kind(flag.get_value_parser())) {
        ("color" | "colour", _) => {
            let text = format!("invalid color mode {value:?}: must be one of: never, auto, always");
            return Some(slog::line("WARN", "command failed", &[("error", &text)]));
        }
        ("cascade", _) => {
            return Some(format!(
                "Error: invalid cascade value ({value}). Must be \"background\", \"foreground\", or \"orphan\""
            ));
        }
        ("server-side", _) => match line.path.first() {
            Some(&verb) if verb == "upgrade" || verb == "rollback" => {
                let failed = if verb == "upgrade" { "UPGRADE FAILED: " } else { "" };
                return Some(format!(
                    "Error: {failed}invalid/unknown release server-side apply method: {value}"
                ));
            }
            _ => format!("strconv.ParseBool: parsing {value:?}: invalid syntax"),
        },
        ("output", _) => "invalid format type".to_owned(),
        (_, Kind::Whole) => format!("strconv.ParseInt: parsing {value:?}: invalid syntax"),
        (_, Kind::Fraction) => format!("strconv.ParseFloat: parsing {value:?}: invalid syntax"),
        (_, Kind::Duration) => duration_error(value),
        (_, Kind::Boolean) => format!("strconv.ParseBool: parsing {value:?}: invalid syntax"),
        (_, Kind::Other) => own(),
    };
    let shown = match flag.get_short() {
        Some(letter) => format!("-{letter}, --{name}"),
        None => format!("--{name}"),
    };
    Some(format!("Error: invalid argument {value:?} for {shown:?} flag: {cause}"))
}

/// Go's error of a duration (`time.ParseDuration`).
fn duration_error(text: &str) -> String {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let unit = text.trim_start_matches(['+', '-']).trim_start_matches(number);
    let has_number = text.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit());
    match unit.split(number).next().unwrap_or_default() {
        "" if has_number && unit.is_empty() => format!("time: missing unit in duration {text:?}"),
        unit if has_number && !unit.is_empty() => format!("time: unknown unit {unit:?} in duration {text:?}"),
        _ => format!("time: invalid duration {text:?}"),
    }
}

/// What a flag takes.
enum Kind {
    Whole,
    Fraction,
    Duration,
    Boolean,
    Other,
}

fn kind(parser: &ValueParser) -> Kind {
    let is = |of: &ValueParser| parser.type_id() == of.type_id();
    if [clap::value_parser!(i64).into(), clap::value_parser!(u64).into()].iter().any(is)
        || is(&ValueParser::new(usize_of))
    {
        Kind::Whole
    } else if is(&clap::value_parser!(f32).into()) {
        Kind::Fraction
    } else if is(&ValueParser::new(duration_of)) {
        Kind::Duration
    } else if is(&ValueParser::bool()) {
        Kind::Boolean
    } else {
        Kind::Other
    }
}

fn usize_of(text: &str) -> Result<usize, std::num::ParseIntError> {
    text.parse()
}

fn duration_of(text: &str) -> Result<Duration, String> {
    super::flags::duration(text)
}

/// What cobra suggests in place of an unknown verb.
fn suggestions(typed: &str) -> String {
    let typed = typed.to_lowercase();
    let near = |verb: &str| {
        distance(&typed, verb) <= 2
            || verb.starts_with(&typed)
            || verb == "uninstall" && matches!(typed.as_str(), "remove" | "rm")
    };
    let verbs = VERBS.iter().map(|(verb, ..)| *verb).filter(|verb| !verb.contains(' ') && near(verb));
    let verbs: String = verbs.map(|verb| format!("\t{verb}\n")).collect();
    if verbs.is_empty() { verbs } else { format!("\n\nDid you mean this?\n{verbs}") }
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = before + usize::from(from != *to);
            before = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(before + 1);
        }
    }
    row[b.len()]
}
