//! Boolean flags with values: pflag accepts `--flag=true` and `--flag=false`, clap does not.

use std::ffi::OsString;

use chart_compat::go::parse_bool;
use clap::{Arg, ArgAction, Command};

/// Removes the values of boolean flags. A true flag is kept; a false one is removed with all earlier ones of its name.
pub(super) fn plain(root: &Command, args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut at = root;
    let mut out: Vec<OsString> = Vec::new();
    let mut args = args.enumerate();
    while let Some((n, arg)) = args.next() {
        let Some(text) = arg.to_str().filter(|_| n > 0) else {
            out.push(arg);
            continue;
        };
        if text == "--" {
            out.push(arg);
            out.extend(args.map(|(_, rest)| rest));
            return out;
        }
        if let Some((name, value)) = text.strip_prefix("--").and_then(|t| t.split_once('=')) {
            let boolean = find(root, at, |a| is_called(a, name)).is_some_and(is_boolean);
            let flag = OsString::from(format!("--{name}"));
            match parse_bool(value).filter(|_| boolean) {
                Some(true) => out.push(flag),
                Some(false) => out.retain(|known| *known != flag),
                None => out.push(arg),
            }
            continue;
        }
        let named = match text.strip_prefix("--") {
            Some(name) => find(root, at, |a| is_called(a, name)),
            None => text
                .strip_prefix('-')
                .and_then(|t| t.chars().next())
                .filter(|_| text.len() == 2)
                .and_then(|letter| find(root, at, |a| a.get_short() == Some(letter))),
        };
        let takes_next = named.is_some_and(|a| !is_boolean(a) && !a.is_require_equals_set());
        if !text.starts_with('-')
            && let Some(verb) = at.find_subcommand(text)
        {
            at = verb;
            // All that follows is for a command line of its own.
            if verb.get_arguments().any(|a| a.is_trailing_var_arg_set() && a.is_allow_hyphen_values_set()) {
                out.extend([arg, OsString::from("--")]);
                out.extend(args.map(|(_, rest)| rest));
                return out;
            }
        }
        out.push(arg);
        if takes_next && let Some((_, value)) = args.next() {
            out.push(value);
        }
    }
    out
}

/// Finds a flag of the verb or of all verbs.
fn find<'c>(root: &'c Command, verb: &'c Command, wanted: impl Fn(&Arg) -> bool) -> Option<&'c Arg> {
    verb.get_arguments().chain(root.get_arguments()).find(|a| wanted(a))
}

fn is_called(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
}

fn is_boolean(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_have_values() {
        let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
        let text = |name: &'static str| Arg::new(name).long(name).short(name.chars().next().unwrap());
        let root = Command::new("x")
            .arg(flag("debug"))
            .arg(text("namespace"))
            .subcommand(Command::new("go").arg(flag("force")).arg(text("set")))
            .subcommand(
                Command::new("own").arg(Arg::new("words").trailing_var_arg(true).allow_hyphen_values(true)),
            );
        for (args, want) in [
            ("go --force=true --debug=1", "go --force --debug"),
            ("go --force --force=false x", "go x"),
            ("go --force=no --set=true", "go --force=no --set=true"),
            ("--namespace go --force=true go --force=true", "--namespace go --force=true go --force"),
            ("-n go go --force=T", "-n go go --force"),
            ("-n a own -n b --debug=true", "-n a own -- -n b --debug=true"),
            ("go own --force=true", "go own --force"),
            ("go --set --force=true -- --force=true", "go --set --force=true -- --force=true"),
        ] {
            let args = std::iter::once("x").chain(args.split(' ')).map(OsString::from);
            let said: Vec<String> =
                plain(&root, args).into_iter().skip(1).map(|a| a.into_string().unwrap()).collect();
            assert_eq!(said.join(" "), want);
        }
    }
}
