//! Arguments for helm that state files have: those with a meaning here, and the refusal of the others.

use helmfile_compat::Error;
use helmfile_compat::key;
use helmfile_compat::load::State;
use helmfile_compat::schema::Key;

/// An argument for helm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelmArgument {
    /// `--set`, with its value.
    Set(String),
    /// `--include-crds`
    IncludeCrds,
    /// `--no-hooks`
    NoHooks,
    /// `--skip-tests`
    SkipTests,
    /// `--skip-schema-validation`
    SkipSchemaValidation,
}

/// Arguments for helm in lists of `helmDefaults`.
#[must_use]
pub fn own_arguments(state: &State, keys: &[Key]) -> String {
    let defaults = state.fields.record(key!("helmDefaults"));
    let all = keys.iter().flat_map(|key| defaults.as_ref().map(|own| own.texts(*key)).unwrap_or_default());
    all.collect::<Vec<_>>().join(" ")
}

/// Takes arguments for helm apart.
///
/// # Errors
/// An argument is not supported.
pub fn helm_arguments(text: &str) -> Result<Vec<HelmArgument>, Error> {
    let mut words = text.split_whitespace();
    let mut out = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        out.push(match name {
            "--set" => {
                let value = value
                    .or_else(|| words.next())
                    .ok_or_else(|| Error::Invalid("args: --set needs a value".to_owned()))?;
                HelmArgument::Set(value.to_owned())
            }
            "--include-crds" => HelmArgument::IncludeCrds,
            "--no-hooks" => HelmArgument::NoHooks,
            "--skip-tests" => HelmArgument::SkipTests,
            "--skip-schema-validation" => HelmArgument::SkipSchemaValidation,
            other => {
                return Err(Error::Invalid(format!(
                    "args: {other} is not supported: use --set, --include-crds, --no-hooks, --skip-tests or \
                     --skip-schema-validation"
                )));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_apart() {
        let set = |text: &str| HelmArgument::Set(text.to_owned());
        let found = helm_arguments("--set a=1 --set=b=2 --no-hooks").unwrap();
        assert_eq!(found, [set("a=1"), set("b=2"), HelmArgument::NoHooks]);
        let told = |text: &str| helm_arguments(text).unwrap_err().to_string();
        assert!(told("--debug").starts_with("args: --debug is not supported"));
        assert_eq!(told("--set"), "args: --set needs a value");
    }
}
