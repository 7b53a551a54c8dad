//! Secrets in messages: who knows which, and where they are masked.
//!
//! Owns the sets of secrets. Readers of secrets add them; writers of messages mask them. There is one set for each pass over a custom
//! resource ([`SecretScope::new`]): one tenant neither pushes another's secrets out nor learns by a mask what they are. Another one has
//! what the operator reads for itself, and what a command reads ([`SecretScope::own`]): whoever wants it names it. What is read in no scope
//! is masked in the log, and in no text for an object, unless the process serves nobody but its user ([`claim_process`]).
//!
//! The scope of a pass also tells the namespace of its object ([`namespace`]): what the process shares among namespaces is counted by it.
//!
//! How texts are found and masked is [`redactor`]'s; [`SecretText`] is a secret that does not print itself, [`Masked`] a text that may be
//! kept for readers outside of its pass.

mod masked;
mod redactor;
mod secret_text;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::Value;

pub use masked::Masked;
pub use redactor::Redactor;
pub use secret_text::SecretText;

tokio::task_local! {
    /// The scope of the running pass.
    static SCOPE: Arc<Scope>;
}

/// What belongs to one pass.
#[derive(Default)]
struct Scope {
    secrets: Redactor,
    /// The namespace of its object.
    namespace: Option<String>,
}

/// The secrets of the operator itself, or of a command.
static OWN: LazyLock<Arc<Scope>> = LazyLock::new(Arc::default);

/// What was read in no scope. It may be anybody's.
static UNSCOPED: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// Whether what is read in no scope is the process's own.
static CLAIMED: AtomicBool = AtomicBool::new(false);

/// What is read in no scope is the process's own from now on: it has one user, and no objects of others. Commands do that, an operator
/// does not.
pub fn claim_process() {
    CLAIMED.store(true, Ordering::Release);
}

/// Adds to the set of the running task.
fn add_by(add: impl FnOnce(&Redactor)) {
    match SCOPE.try_with(Arc::clone) {
        Ok(scope) => add(&scope.secrets),
        Err(_) => add(&UNSCOPED),
    }
}

/// Adds a secret text: verbatim, each line, as base64, and as JSON and logs quote it.
pub fn add(text: &str) {
    add_by(|secrets| secrets.add(text));
}

/// Adds every text and number in a value.
pub fn add_all(value: &Value) {
    add_by(|secrets| secrets.add_all(value));
}

/// Adds the data of an object that is a Secret, or a list of Secrets.
pub fn add_secret(object: &Value) {
    add_by(|secrets| secrets.add_secret(object));
}

/// Adds the values that a JSON schema marks as secret ([`Redactor::add_marked`]).
pub fn add_marked(schema: &Value, value: &Value) {
    add_by(|secrets| secrets.add_marked(schema, value));
}

/// A message for the readers of an object, with each secret masked: in a scope with those of the scope, elsewhere with the process's own.
#[must_use]
pub fn mask(text: &str) -> Cow<'_, str> {
    match SCOPE.try_with(Arc::clone) {
        Ok(scope) => scope.secrets.mask(text),
        Err(_) if CLAIMED.load(Ordering::Acquire) => {
            and_then(OWN.secrets.mask(text), |text| UNSCOPED.mask(text))
        }
        Err(_) => OWN.secrets.mask(text),
    }
}

/// A line of the log, with each secret masked: those of the process, whosever they are, and of the running scope.
#[must_use]
pub fn mask_log(text: &str) -> Cow<'_, str> {
    let masked = and_then(OWN.secrets.mask(text), |text| UNSCOPED.mask(text));
    match SCOPE.try_with(Arc::clone) {
        Ok(scope) => and_then(masked, |text| scope.secrets.mask(text)),
        Err(_) => masked,
    }
}

/// A masked text, masked once more.
fn and_then<'t>(text: Cow<'t, str>, mask: impl for<'a> FnOnce(&'a str) -> Cow<'a, str>) -> Cow<'t, str> {
    match text {
        Cow::Borrowed(text) => mask(text),
        Cow::Owned(text) => Cow::Owned(mask(&text).into_owned()),
    }
}

/// A set of secrets, and the work that reads and masks them.
#[derive(Clone, Default)]
pub struct SecretScope(Option<Arc<Scope>>);

impl SecretScope {
    /// A new set, without secrets. What does not fit in it is not dropped: then the whole text of a message is masked.
    #[must_use]
    pub fn new() -> Self {
        Self::of_pass(None)
    }

    /// The scope of a pass over an object of a namespace: a new set, as [`Self::new`].
    #[must_use]
    pub fn of_namespace(namespace: &str) -> Self {
        Self::of_pass(Some(namespace.to_owned()))
    }

    fn of_pass(namespace: Option<String>) -> Self {
        Self(Some(Arc::new(Scope { secrets: Redactor::bounded(), namespace })))
    }

    /// The secrets of the operator itself, or of a command. A text for somebody else's object is never masked by them.
    #[must_use]
    pub fn own() -> Self {
        Self(Some(Arc::clone(&OWN)))
    }

    /// That of the running task; without one, a set without secrets: for texts of objects that may be anybody's.
    #[must_use]
    pub fn current_or_empty() -> Self {
        SCOPE.try_with(Arc::clone).map_or_else(|_| Self::new(), |scope| Self(Some(scope)))
    }

    /// That of the running task. Work on another thread or in another task must be run in it.
    #[must_use]
    pub fn current() -> Self {
        Self(SCOPE.try_with(Arc::clone).ok())
    }

    /// Does work that blocks in this scope.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(scope) => SCOPE.sync_scope(Arc::clone(scope), work),
            None => work(),
        }
    }

    /// Does work in this scope.
    pub async fn run_async<T>(self, work: impl Future<Output = T>) -> T {
        match self.0 {
            Some(scope) => SCOPE.scope(scope, work).await,
            None => work.await,
        }
    }
}

/// The namespace whose object the running pass is over; `None`: the work is the operator's own, or a command's.
#[must_use]
pub fn namespace() -> Option<String> {
    SCOPE.try_with(|scope| scope.namespace.clone()).ok().flatten()
}

/// Does work of the operator itself, or of a command: the secrets that it reads are [`SecretScope::own`].
pub fn own<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    SecretScope::own().run_async(work)
}

/// Work for another task, in the scope of the caller.
pub fn in_scope<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    SecretScope::current().run_async(work)
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
        SecretScope::own().run(|| add("password-of-all"));
        add("key-read-by-nobody");
        let (one, other) = (SecretScope::new(), SecretScope::new());
        one.clone()
            .run_async(async {
                add("secret-of-one");
                spawn_blocking(|| add("another-secret-of-one")).await.unwrap();
                assert_eq!(mask("secret-of-one, another-secret-of-one"), "***, ***");
                assert_eq!(mask("password-of-all"), "password-of-all", "a guess in a spec");
                assert_eq!(mask_log("secret-of-one, password-of-all, key-read-by-nobody"), "***, ***, ***");
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

    #[tokio::test]
    async fn nothing_shows_by_a_mask_what_was_read_in_no_scope() {
        add("text-read-in-no-scope");
        own(async { add("secret-of-the-operator") }).await;
        let text = "text-read-in-no-scope, secret-of-the-operator";
        assert_eq!(mask("text-read-in-no-scope"), "text-read-in-no-scope");
        assert_eq!(mask_log(text), "***, ***");
        SecretScope::current_or_empty().run(|| assert_eq!(mask(text), text));
        let shown = own(async { SecretScope::current_or_empty().run(|| mask(text).into_owned()) }).await;
        assert_eq!(shown, "text-read-in-no-scope, ***");
    }
}
