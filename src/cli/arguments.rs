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
        if let Some(letters) =
            text.strip_prefix('-').filter(|rest| !rest.is_empty() && !rest.starts_with('-'))
        {
            let rest =
                shorthands(letters, |letter| find(root, at, |a| a.get_short() == Some(letter)), &mut out);
            match rest {
                Rest::None => {}
                Rest::Unknown => out.push(arg),
                Rest::TakesNext => take_value(&mut out, args.next()),
            }
            continue;
        }
        let named = text.strip_prefix("--").and_then(|name| find(root, at, |a| is_called(a, name)));
        let takes_next =
            named.is_some_and(|a| !is_boolean(a) && !a.is_require_equals_set() && !may_stand_alone(a));
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
        if takes_next {
            take_value(&mut out, args.next());
        }
    }
    out
}

/// Adds the value of the last flag. As for pflag, it is a value also where it looks like a flag.
fn take_value(out: &mut Vec<OsString>, value: Option<(usize, OsString)>) {
    let Some((_, value)) = value else { return };
    let dashed = value.len() > 1 && value.as_encoded_bytes().starts_with(b"-");
    match out.last_mut().filter(|_| dashed) {
        Some(flag) => {
            flag.push("=");
            flag.push(value);
        }
        None => out.push(value),
    }
}

/// What is left of an argument of flags of one letter.
enum Rest {
    None,
    /// A letter that is no flag.
    Unknown,
    /// The last flag has its value in the next argument.
    TakesNext,
}

/// Splits an argument of flags of one letter: `-qA`, `-q=true`, `-nNAME`, `-n=NAME`. Booleans get their long names.
fn shorthands<'c>(letters: &str, find: impl Fn(char) -> Option<&'c Arg>, out: &mut Vec<OsString>) -> Rest {
    let before = out.len();
    let mut rest = letters;
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let Some(flag) = find(letter) else {
            out.truncate(before);
            return Rest::Unknown;
        };
        let value = rest.strip_prefix('=');
        let long = flag.get_long().map(|name| OsString::from(format!("--{name}")));
        let plain = || OsString::from(format!("-{letter}"));
        if is_boolean(flag) {
            match value.map(parse_bool) {
                Some(Some(false)) => {
                    out.retain(|known| Some(known) != long.as_ref() && *known != plain());
                    return Rest::None;
                }
                Some(None) => {
                    out.truncate(before);
                    return Rest::Unknown;
                }
                set => {
                    out.push(long.unwrap_or_else(plain));
                    if set.is_some() {
                        return Rest::None;
                    }
                }
            }
            continue;
        }
        let valueless =
            matches!(flag.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::Version);
        if valueless || value.is_none() && rest.is_empty() {
            out.push(plain());
            if valueless {
                continue;
            }
            return Rest::TakesNext;
        }
        out.push(OsString::from(format!("-{letter}={}", value.unwrap_or(rest))));
        return Rest::None;
    }
    Rest::None
}

/// Finds a flag of the verb or of all verbs.
fn find<'c>(root: &'c Command, verb: &'c Command, wanted: impl Fn(&Arg) -> bool) -> Option<&'c Arg> {
    verb.get_arguments().chain(root.get_arguments()).find(|a| wanted(a))
}

fn is_called(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || arg.get_all_aliases().is_some_and(|all| all.contains(&name))
}

/// Whether a flag has no value of its own. One that may have a value, such as `--watch-all-namespaces=false`, is clap's to read: its
/// default may be true.
fn is_boolean(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue) && !may_stand_alone(arg)
}

/// Whether a flag has a value only after `=`.
fn may_stand_alone(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|count| count.takes_values() && count.min_values() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_have_values() {
        let flag = |name: &'static str| {
            Arg::new(name).long(name).short(name.chars().next().unwrap()).action(ArgAction::SetTrue)
        };
        let text = |name: &'static str| Arg::new(name).long(name).short(name.chars().next().unwrap());
        // True by default: without its value it would stay so.
        let all =
            Arg::new("all").long("all").action(ArgAction::SetTrue).num_args(0..=1).default_value("true");
        let root = Command::new("x")
            .arg(flag("debug"))
            .arg(text("namespace"))
            .subcommand(Command::new("go").arg(flag("force")).arg(text("set")).arg(all))
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
            ("go --set --force=true -- --force=true", "go --set=--force=true -- --force=true"),
            ("go --set - -s -- x", "go --set - -s=-- x"),
            ("go --all=false --force=true", "go --all=false --force"),
            ("go --all --force=true", "go --all --force"),
            ("go -f=true", "go --force"),
            ("go -f -d -f=false", "go --debug"),
            ("go --force -f=0 x", "go x"),
            ("go -df=1", "go --debug --force"),
            ("go -fd=false", "go --force"),
            ("go -f=no", "go -f=no"),
            ("go -fnx -s=a=b -n=", "go --force -n=x -s=a=b -n="),
            ("go -n -f -fx", "go -n=-f -fx"),
        ] {
            let args = std::iter::once("x").chain(args.split(' ')).map(OsString::from);
            let said: Vec<String> =
                plain(&root, args).into_iter().skip(1).map(|a| a.into_string().unwrap()).collect();
            assert_eq!(said.join(" "), want);
        }
    }
}
