//! A secret as a type: what has it cannot print it by accident.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};

/// A password, a token, or a key. It has no `Display` and is not serialized; [`SecretText::expose`] is the only way to its text. It is known
/// to the masks of the running scope, and of the log, from its creation.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretText(String);

impl SecretText {
    /// Takes a text, and adds it to what is masked ([`super::add`]).
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        super::add(&text);
        Self(text)
    }

    /// The text, for those that it is meant for.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "\"\"" } else { "\"***\"" })
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for SecretText {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl FromStr for SecretText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::{self, SecretScope};

    #[test]
    fn a_secret_is_shown_nowhere() {
        SecretScope::new().run(|| {
            let secret: SecretText = serde_json::from_str("\"a-long-password\"").unwrap();
            assert_eq!(format!("{secret:?} {:?}", SecretText::default()), "\"***\" \"\"");
            assert_eq!(redact::mask("login a-long-password failed"), "login *** failed");
            assert_eq!(secret.expose(), "a-long-password");
        });
    }
}
