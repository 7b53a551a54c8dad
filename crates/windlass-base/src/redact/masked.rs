//! A text whose secrets are masked: what may be kept for readers outside of the pass that made it.

use std::fmt;

/// A text that was masked where it was made. What one pass leaves for another, or for a later line of the log, is of this type: there
/// nobody knows the secrets of the pass any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Masked(String);

impl Masked {
    /// A text for the readers of objects ([`super::mask`]).
    #[must_use]
    pub fn for_objects(text: &str) -> Self {
        Self(super::mask(text).into_owned())
    }

    /// A text for the log ([`super::mask_log`]).
    #[must_use]
    pub fn for_log(text: &str) -> Self {
        Self(super::mask_log(text).into_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::{self, SecretScope};

    #[test]
    fn a_text_is_masked_by_the_scope_that_made_it() {
        let kept = SecretScope::new().run(|| {
            redact::add("password-of-a-pass");
            [Masked::for_objects("no password-of-a-pass"), Masked::for_log("no password-of-a-pass")]
        });
        assert_eq!(kept.map(|text| text.to_string()), ["no ***", "no ***"]);
    }
}
