//! `windlass operator` in the place of `shell-operator start`: hooks alone, without modules and a ConfigMap.
//!
//! Owns when a process stands in for shell-operator, and which defaults are shell-operator's then. Its variables are declared on the
//! flags of `operator`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The program's name.
const PROGRAM: &str = "shell-operator";
/// The flag that names a directory of hooks.
const HOOKS_FLAG: &str = "--hooks-dir";
/// Variables and flags that name directories of modules: with one of them it is addon-operator that is stood in for.
const MODULE_VARIABLES: [&str; 4] =
    ["ADDON_OPERATOR_MODULES_DIR", "MODULES_DIR", "ADDON_OPERATOR_GLOBAL_HOOKS_DIR", "GLOBAL_HOOKS_DIR"];
const MODULE_FLAGS: [&str; 2] = ["--modules-dir", "--global-hooks-dir"];
/// Files of certificates, where shell-operator looks for them, by the flag of `operator`: all of a server, or none.
const CERTIFICATES: [[(&str, &str); 3]; 2] = [
    [
        ("validating_webhook_server_cert", "/validating-certs/tls.crt"),
        ("validating_webhook_server_key", "/validating-certs/tls.key"),
        ("validating_webhook_ca", "/validating-certs/ca.crt"),
    ],
    [
        ("conversion_webhook_server_cert", "/conversion-certs/tls.crt"),
        ("conversion_webhook_server_key", "/conversion-certs/tls.key"),
        ("conversion_webhook_ca", "/conversion-certs/ca.crt"),
    ],
];

/// shell-operator's defaults, by the flag of `operator`.
const DEFAULTS: [(&str, &str); 8] = [
    ("hooks_only", "true"),
    ("listen_port", "9115"),
    ("prometheus_metrics_prefix", "shell_operator_"),
    ("tmp_dir", "/var/tmp/shell-operator"),
    ("webhook_listen_port", "9680"),
    ("webhook_service_name", "shell-operator-validating-svc"),
    ("webhook_configuration_name", "shell-operator-hooks"),
    ("conversion_webhook_service_name", "shell-operator-conversion-svc"),
];

/// Whether the arguments and the environment of a process are those of a shell-operator. `has_modules` is whether the default directory
/// of modules is there.
pub(super) fn stands_in(arguments: &[OsString], is_set: &dyn Fn(&str) -> bool, has_modules: bool) -> bool {
    let is_flag = |word: &OsString, flag: &str| {
        let word = word.to_string_lossy();
        word == flag || word.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
    };
    let given = |flags: &[&str]| arguments.iter().any(|word| flags.iter().any(|flag| is_flag(word, flag)));
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name == Some(OsStr::new(PROGRAM)) || given(&[HOOKS_FLAG]) {
        return true;
    }
    let modules = has_modules || given(&MODULE_FLAGS) || MODULE_VARIABLES.iter().any(|name| is_set(name));
    is_set("SHELL_OPERATOR_HOOKS_DIR") && !modules
}

/// The command `operator` with shell-operator's defaults. `is_file` reports whether there is a file.
pub(super) fn with_defaults(command: clap::Command, is_file: &dyn Fn(&Path) -> bool) -> clap::Command {
    command.mut_args(|argument| {
        let id = argument.get_id().as_str().to_owned();
        if let Some((_, value)) = DEFAULTS.iter().find(|(of, _)| *of == id) {
            return argument.default_value(*value);
        }
        let whole = |files: &&[(&str, &str); 3]| files.iter().all(|(_, file)| is_file(Path::new(file)));
        let file = CERTIFICATES.iter().filter(whole).flatten().find(|(of, _)| *of == id);
        if let Some((_, file)) = file {
            return argument.default_value(*file);
        }
        argument
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_process_is_told_by_its_name_its_flags_and_its_environment() {
        let table: [(&str, &[&str], bool, bool); 9] = [
            ("windlass operator", &[], false, false),
            ("/shell-operator start", &[], false, true),
            ("windlass start --hooks-dir /h", &["MODULES_DIR"], true, true),
            ("windlass start --hooks-dir=/h", &[], false, true),
            ("windlass start --hooks-directory=/h", &[], false, false),
            ("windlass start", &["SHELL_OPERATOR_HOOKS_DIR"], false, true),
            // With modules these are addon-operator's global hooks.
            ("windlass start", &["SHELL_OPERATOR_HOOKS_DIR"], true, false),
            ("windlass start", &["SHELL_OPERATOR_HOOKS_DIR", "MODULES_DIR"], false, false),
            ("windlass start --modules-dir=/m", &["SHELL_OPERATOR_HOOKS_DIR"], false, false),
        ];
        for (line, variables, modules, expected) in table {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let is_set = |name: &str| variables.contains(&name);
            assert_eq!(stands_in(&words, &is_set, modules), expected, "{line} {variables:?} {modules}");
        }
    }

    #[test]
    fn every_default_is_that_of_a_flag() {
        let operator = Cli::command().find_subcommand("operator").unwrap().clone();
        let default = |command: &clap::Command, id: &str| {
            let argument =
                command.get_arguments().find(|a| a.get_id().as_str() == id).unwrap_or_else(|| panic!("{id}"));
            argument.get_default_values().iter().map(|v| v.to_string_lossy().into_owned()).collect::<String>()
        };
        let bare = with_defaults(operator.clone(), &|_| false);
        for (id, value) in DEFAULTS {
            assert_eq!(default(&bare, id), value);
        }
        assert_eq!(default(&bare, "validating_webhook_server_cert"), "");
        let there = with_defaults(operator, &|path| path.starts_with("/conversion-certs"));
        assert_eq!(default(&there, "conversion_webhook_server_key"), "/conversion-certs/tls.key");
        assert_eq!(default(&there, "conversion_webhook_ca"), "/conversion-certs/ca.crt");
        assert_eq!(default(&there, "validating_webhook_ca"), "");
    }
}
