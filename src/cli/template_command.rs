//! A separate command line for `template`.
//!
//! Adds no features. Building all verbs with all their flags takes as long as rendering a small chart, and scripts run `template`
//! in loops. All other verbs use the full command line.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser};

use super::flags::Globals;
use super::{Cli, Command, addon_operator_env, arguments, shell_operator, template};

/// `template`, with the flags of every command as its own flags.
#[derive(Parser)]
#[command(
    name = "windlass",
    bin_name = "windlass template",
    about = "Render a chart's templates and print them",
    args_override_self = true
)]
struct Short {
    #[command(flatten)]
    args: Box<template::Args>,
    #[command(flatten)]
    globals: Globals,
}

/// Parses the arguments of this process.
pub(super) fn parse(mut args: Vec<OsString>) -> Result<Cli, clap::Error> {
    if args.get(1).is_none_or(|verb| verb != "template") {
        return parse_as(args);
    }
    args.remove(1);
    let Short { globals, args } = read(Short::command(), args)?;
    Ok(Cli { globals, command: Command::Template(args) })
}

fn parse_as<C: CommandFactory + FromArgMatches>(args: Vec<OsString>) -> Result<C, clap::Error> {
    let mut command = C::command();
    // The verb can follow flags of every command.
    if args.iter().skip(1).any(|word| word == "operator" || word == "start") {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_modules = Path::new("modules").is_dir();
        let hooks_only = shell_operator::stands_in(&args, &is_set, has_modules);
        command =
            addon_operator_env::with_environment(command, &is_set).mut_subcommand("operator", |operator| {
                let operator = addon_operator_env::with_environment(operator, &is_set);
                if hooks_only { shell_operator::with_defaults(operator, &Path::is_file) } else { operator }
            });
    }
    read(command, args)
}

fn read<C: FromArgMatches>(mut command: clap::Command, args: Vec<OsString>) -> Result<C, clap::Error> {
    let args = arguments::plain(&command, args.into_iter());
    let mut matches = command.try_get_matches_from_mut(args)?;
    C::from_arg_matches_mut(&mut matches).map_err(|e| e.format(&mut command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_text(parse: impl Fn(Vec<OsString>) -> Result<Cli, clap::Error>, args: &str) -> Option<String> {
        let words = ["windlass", "template"].into_iter().chain(args.split_whitespace());
        parse(words.map(OsString::from).collect()).err().map(|e| e.to_string())
    }

    #[test]
    fn it_says_what_the_whole_command_line_says() {
        let refused = [
            "",
            "--help",
            "-h",
            "a b --no-such",
            "a --names",
            "a --color=x",
            "a -f",
            "a --validate --dry-run=client",
            "a --kube-versio=1",
            "a b --version=1 --help=maybe",
            "a b -V",
            "a b --include-crds=maybe",
        ];
        for args in refused {
            let whole = error_text(parse_as, args);
            assert!(whole.is_some(), "{args}");
            assert_eq!(error_text(parse, args), whole, "{args}");
        }
        for args in [
            "a",
            "a b -n c --debug=false --set x=1",
            "-n c a b --include-crds=true -a v1,v2 -s x",
            "operator b",
            "template b",
        ] {
            assert_eq!((error_text(parse, args), error_text(parse_as, args)), (None, None), "{args}");
        }
    }

    #[test]
    fn template_is_read_with_its_flags_and_other_verbs_are_read_too() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect();
        let cli = parse(words("windlass template a b -n c")).ok().unwrap();
        assert_eq!(cli.globals.namespace.as_deref(), Some("c"));
        assert!(matches!(cli.command, Command::Template(_)));
        assert!(matches!(parse(words("windlass version")).ok().unwrap().command, Command::Version(_)));
        assert!(parse(words("windlass templat a")).is_err());
    }
}
