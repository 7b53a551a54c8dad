//! Helm's environment variables, read as Helm reads them (`cli.New`).
//!
//! Owns what a variable means that is empty or that cannot be read: Helm's default. The paths of Helm's state are in
//! `source::helm_paths`, and the list of kubeconfigs is in `cluster`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use chart_compat::go::parse_bool;
use clap::ValueEnum as _;

use super::Failure;
use super::flags::When;

/// Helm's limit of the history of a release, without a variable.
const MAX_HISTORY: i64 = 10;

/// The variables of the process, or others in their place.
pub(super) struct Variables<'a>(pub(super) &'a dyn Fn(&str) -> Option<OsString>);

/// The variables of the process.
pub(super) fn process() -> Variables<'static> {
    Variables(&|name| env::var_os(name))
}

impl Variables<'_> {
    /// A text; an empty one counts as none.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let value = (self.0)(name).filter(|value| !value.is_empty())?;
        Some(value.to_string_lossy().into_owned())
    }

    pub(super) fn path(&self, name: &str) -> Option<PathBuf> {
        (self.0)(name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }

    /// True only for what Go's `ParseBool` reads as true.
    pub(super) fn boolean(&self, name: &str) -> bool {
        self.text(name).and_then(|text| parse_bool(&text)).unwrap_or_default()
    }

    /// A list with commas between its entries. Commas and blanks around it do not count.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        match text.trim_matches([',', ' ']) {
            "" => Vec::new(),
            list => list.split(',').map(str::to_owned).collect(),
        }
    }

    pub(super) fn whole(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn fraction(&self, name: &str) -> Option<f32> {
        self.text(name)?.parse().ok()
    }

    /// `NO_COLOR` comes before `HELM_COLOR`.
    pub(super) fn color(&self) -> Option<When> {
        if self.text("NO_COLOR").is_some() {
            return Some(When::Never);
        }
        When::from_str(&self.text("HELM_COLOR")?, true).ok()
    }

    /// The number of revisions that a release keeps: `HELM_MAX_HISTORY`.
    pub(super) fn max_history(&self) -> i64 {
        self.whole("HELM_MAX_HISTORY").unwrap_or(MAX_HISTORY)
    }
}

/// The default of `--history-max`.
pub(super) fn max_history() -> i64 {
    process().max_history()
}

/// Whether an experimental feature of Helm is switched on.
///
/// # Errors
/// It is not, in Helm's words.
pub(super) fn feature(name: &str) -> Result<(), Failure> {
    match process().text(name) {
        Some(_) => Ok(()),
        None => Err(format!(
            "this feature has been marked as experimental and is not enabled by default. Please set {name}=1 in your environment to \
             use this feature"
        )),
    }
}

/// Whether colours are shown at all, whatever the flag says.
pub(super) fn allows_colors() -> bool {
    process().text("NO_COLOR").is_none()
}

/// Whether a terminal may be sent colours.
pub(super) fn terminal_has_colors() -> bool {
    env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_means_what_it_means_to_helm() {
        let known = |pairs: &'static [(&'static str, &'static str)]| {
            move |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v))
        };
        for (value, wanted) in [
            ("1", true),
            ("t", true),
            ("TRUE", true),
            ("True", true),
            ("tRUE", false),
            ("yes", false),
            ("on", false),
            ("0", false),
            ("", false),
            (" true", false),
        ] {
            let get = |_: &str| Some(OsString::from(value));
            assert_eq!(Variables(&get).boolean("X"), wanted, "{value:?}");
        }
        for (value, wanted) in [
            ("", &[][..]),
            (" , ", &[]),
            ("a", &["a"]),
            (" a,b c,", &["a", "b c"]),
            ("a,,b", &["a", "", "b"]),
        ] {
            let get = |_: &str| Some(OsString::from(value));
            assert_eq!(Variables(&get).list("X"), wanted, "{value:?}");
        }
        for (value, wanted) in [("", 10), ("x", 10), ("1.5", 10), ("0", 0), ("-1", -1), ("3", 3)] {
            let get = |_: &str| Some(OsString::from(value));
            assert_eq!(Variables(&get).max_history(), wanted, "{value:?}");
        }
        for (pairs, wanted) in [
            (&[("HELM_COLOR", "ALWAYS")][..], Some(When::Always)),
            (&[("HELM_COLOR", "")], None),
            (&[("HELM_COLOR", "blue")], None),
            (&[("HELM_COLOR", "always"), ("NO_COLOR", "1")], Some(When::Never)),
            (&[("HELM_COLOR", "always"), ("NO_COLOR", "")], Some(When::Always)),
        ] {
            assert_eq!(Variables(&known(pairs)).color(), wanted, "{pairs:?}");
        }
    }
}
