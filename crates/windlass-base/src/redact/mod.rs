//! Secrets in messages: who knows which, and where they are masked.
//!
//! Owns the set of secrets of the process and those of passes. Readers of secrets add them; writers of messages mask them. A pass over
//! a custom resource has a set of its own ([`SecretScope`]): one tenant neither pushes another's secrets out nor learns by a mask what
//! they are. How texts are found and masked is [`redactor`]'s; [`SecretText`] is a secret that does not print itself, [`Masked`] a text that
//! may be kept for readers outside of its pass.

mod masked;
mod redactor;
mod secret_text;

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

pub use masked::Masked;
pub use redactor::Redactor;
pub use secret_text::SecretText;

tokio::task_local! {
    /// The secrets of the running pass.
    static SCOPE: Arc<Redactor>;
}

/// The secrets outside of passes: of commands, and of what the operator reads for itself.
static PROCESS: LazyLock<Arc<Redactor>> = LazyLock::new(Arc::default);

fn current() -> Arc<Redactor> {
    SCOPE.try_with(Arc::clone).unwrap_or_else(|_| Arc::clone(&PROCESS))
}

/// Adds a secret text: verbatim, each line, as base64, and as JSON and logs quote it.
pub fn add(text: &str) {
    current().add(text);
}

/// Adds every text and number in a value.
pub fn add_all(value: &Value) {
    current().add_all(value);
}

/// Adds the data of an object that is a Secret, or a list of Secrets.
pub fn add_secret(object: &Value) {
    current().add_secret(object);
}

/// Adds the values that a JSON schema marks as secret ([`Redactor::add_marked`]).
pub fn add_marked(schema: &Value, value: &Value) {
    current().add_marked(schema, value);
}

/// A message for the readers of an object, with each secret masked: in a pass with those of the pass, elsewhere with those of the
/// process.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    match SCOPE.try_with(Arc::clone) {
        Ok(scope) => Cow::Owned(scope.mask(text).into_owned()),
        Err(_) => PROCESS.mask(text),
    }
}

/// A line of the log, with each secret masked: those of the process, and of the running pass.
#[must_use]
pub fn mask_log(text: &str) -> Cow<'_, str> {
    let masked = PROCESS.mask(text);
    match SCOPE.try_with(Arc::clone) {
        Ok(scope) => Cow::Owned(scope.mask(&masked).into_owned()),
        Err(_) => masked,
    }
}

/// A set of secrets, and the work that reads and masks them.
#[derive(Clone, Default)]
pub struct SecretScope(Option<Arc<Redactor>>);

impl SecretScope {
    /// A new set, without secrets. What does not fit in it is not dropped: then the whole text of a message is masked.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::new(Redactor::bounded())))
    }

    /// That of the running task. Work on another thread or in another task must be run in it.
    #[must_use]
    pub fn current() -> Self {
        Self(SCOPE.try_with(Arc::clone).ok())
    }

    /// Does work that blocks in this scope.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(secrets) => SCOPE.sync_scope(Arc::clone(secrets), work),
            None => work(),
        }
    }

    /// Does work in this scope.
    pub async fn run_async<T>(self, work: impl Future<Output = T>) -> T {
        match self.0 {
            Some(secrets) => SCOPE.scope(secrets, work).await,
            None => work.await,
        }
    }
}

/// Does work that blocks on a thread for that, in the scope of the caller.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    let scope = SecretScope::current();
    tokio::task::spawn_blocking(move || scope.run(work))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pass_knows_its_own_secrets_only() {
        add("password-of-all");
        let (one, other) = (SecretScope::new(), SecretScope::new());
        one.clone()
            .run_async(async {
                add("secret-of-one");
                spawn_blocking(|| add("another-secret-of-one")).await.unwrap();
                assert_eq!(mask("secret-of-one, another-secret-of-one"), "***, ***");
                assert_eq!(mask("password-of-all"), "password-of-all", "a guess in a spec");
                assert_eq!(mask_log("secret-of-one, password-of-all"), "***, ***");
            })
            .await;
        other
            .run_async(async {
                assert_eq!(mask("secret-of-one"), "secret-of-one");
                (0..5_000).for_each(|number| add(&format!("{number} {}", "of a flood ".repeat(100))));
                let told = mask("a message");
                assert!(told.starts_with("*** (the text is hidden"), "{told}");
            })
            .await;
        one.run(|| assert_eq!(mask("secret-of-one"), "***"));
        assert_eq!(mask("password-of-all secret-of-one"), "*** secret-of-one");
    }
}
