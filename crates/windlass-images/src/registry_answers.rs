//! What registries say, asked once for all who ask the same.
//!
//! Owns how long an answer counts, and when a registry that fails or has had enough is asked again. One request for all that have the same
//! image and the same login; the others wait for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_base::backoff;
use windlass_fetch::http::{Http, Tls};
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::{OciError, Registry};

use super::pull_logins::PullLogin;

/// The most answers that are kept.
const MAX_ANSWERS: usize = 10_000;
/// The most tags of a repository.
const MAX_TAGS: usize = 50_000;
/// The most tags and digests that are kept of all answers.
const MAX_KEPT: usize = 2_000_000;
/// The longest time that a registry may ask to be left alone.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// What is asked of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// The tags of its repository.
    Tags,
    /// The digest of its tag.
    Digest,
    /// The platforms of its digest, which never change.
    Platforms,
}

/// Why a registry has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    /// For people.
    pub(crate) text: String,
    /// When the registry is asked again; `None`: at the next check.
    pub(crate) again: Option<Instant>,
}

/// The image, the question, and whose login it is asked with.
type Key = (String, Question, String);

#[derive(Clone)]
struct Answer {
    at: Instant,
    result: Result<Arc<Vec<String>>, NoAnswer>,
}

/// A registry that failed.
#[derive(Clone, Copy)]
struct Failing {
    failures: u32,
    until: Instant,
}

/// Registries and what they said last.
pub(crate) struct RegistryAnswers {
    http: Http,
    /// Registries that are asked without TLS.
    plain: BTreeSet<String>,
    answers: Mutex<HashMap<Key, Arc<tokio::sync::Mutex<Option<Answer>>>>>,
    failing: Mutex<HashMap<String, Failing>>,
    /// Tags and digests of answers since they were dropped last.
    kept: AtomicUsize,
}

impl RegistryAnswers {
    pub(crate) fn new(http: Http, plain: BTreeSet<String>) -> Self {
        Self { http, plain, answers: Mutex::default(), failing: Mutex::default(), kept: AtomicUsize::new(0) }
    }

    /// The tags of an image's repository, at most `age` old.
    pub(crate) async fn tags(
        &self,
        image: &OciReference,
        login: &PullLogin,
        age: Duration,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        self.answer(image, Question::Tags, login, age).await
    }

    /// The digest of an image's tag, at most `age` old.
    pub(crate) async fn digest(
        &self,
        image: &OciReference,
        login: &PullLogin,
        age: Duration,
    ) -> Result<String, NoAnswer> {
        let answer = self.answer(image, Question::Digest, login, age).await?;
        Ok(answer.first().cloned().unwrap_or_default())
    }

    /// The digests of the platforms of an image that has a digest.
    pub(crate) async fn platforms(
        &self,
        image: &OciReference,
        login: &PullLogin,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        self.answer(image, Question::Platforms, login, Duration::MAX).await
    }

    async fn answer(
        &self,
        image: &OciReference,
        question: Question,
        login: &PullLogin,
        age: Duration,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        let wanted = if question == Question::Tags { "" } else { image.wanted() };
        let name = format!("{}/{}:{wanted}", image.registry, image.repository);
        let cell = self.cell((name, question, login.fingerprint.clone()));
        // Those who ask the same wait here, and find the answer.
        let mut kept = cell.lock().await;
        if let Some(answer) = kept.as_ref().filter(|answer| is_fresh(answer, age)) {
            return answer.result.clone();
        }
        self.check_registry(image.host())?;
        let known = kept.as_ref().and_then(|answer| answer.result.as_ref().ok()?.first().cloned());
        let asked = self.ask(image, question, login, known.as_deref()).await;
        let result = self.note(image.host(), login, asked);
        self.kept.fetch_add(result.as_ref().map_or(0, |answer| answer.len()), Ordering::Relaxed);
        *kept = Some(Answer { at: Instant::now(), result: result.clone() });
        result
    }

    fn cell(&self, key: Key) -> Arc<tokio::sync::Mutex<Option<Answer>>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = answers.len() >= MAX_ANSWERS && !answers.contains_key(&key);
        if is_full || self.kept.load(Ordering::Relaxed) > MAX_KEPT {
            self.kept.store(0, Ordering::Relaxed);
            // Asked again when they are needed; what is being asked now stays.
            answers.retain(|_, cell| Arc::strong_count(cell) > 1);
        }
        Arc::clone(answers.entry(key).or_default())
    }

    async fn ask(
        &self,
        image: &OciReference,
        question: Question,
        login: &PullLogin,
        known: Option<&str>,
    ) -> Result<Vec<String>, OciError> {
        let plain = self.plain.contains(&image.registry);
        let registry = Registry::new(&self.http, Tls::default(), plain, None, login.credentials.clone());
        match question {
            Question::Digest => Ok(vec![registry.image_digest(image, known).await?]),
            Question::Platforms => registry.image_platforms(image).await,
            Question::Tags => {
                let tags = registry.tags(image).await?;
                match tags.len() > MAX_TAGS {
                    true => Err(OciError::Answer(format!(
                        "{}/{} has more than {MAX_TAGS} tags",
                        image.registry, image.repository
                    ))),
                    false => Ok(tags),
                }
            }
        }
    }

    /// Fails while a registry is left alone.
    fn check_registry(&self, host: &str) -> Result<(), NoAnswer> {
        let failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        match failing.get(host).filter(|failing| failing.until > Instant::now()) {
            None => Ok(()),
            Some(failing) => Err(NoAnswer {
                text: format!("{host} has failed, and is asked again later"),
                again: Some(failing.until),
            }),
        }
    }

    /// Notes whether a registry works.
    fn note(
        &self,
        host: &str,
        login: &PullLogin,
        asked: Result<Vec<String>, OciError>,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let error = match asked {
            Ok(answer) => {
                failing.remove(host);
                return Ok(Arc::new(answer));
            }
            Err(error) => error,
        };
        let mut text = error.to_string();
        if error.is_access_denied() && !login.notes.is_empty() {
            text = format!("{text}; {}", login.notes.join("; "));
        }
        if !error.is_of_registry() {
            return Err(NoAnswer { text, again: None });
        }
        let failures = failing.get(host).map_or(0, |failing| failing.failures).saturating_add(1);
        // Not at the very moment that all who were refused were told.
        let asked = error.retry_after().map(|wait| wait.min(LONGEST_WAIT) + backoff::delay(1));
        let pause = backoff::delay(failures).max(asked.unwrap_or_default());
        let until = Instant::now() + pause;
        failing.insert(host.to_owned(), Failing { failures, until });
        Err(NoAnswer { text, again: Some(until) })
    }
}

/// Whether an answer still counts. That a registry failed counts until it is asked again.
fn is_fresh(answer: &Answer, age: Duration) -> bool {
    match &answer.result {
        Ok(_) => answer.at.elapsed() < age,
        Err(NoAnswer { again: Some(again), .. }) => *again > Instant::now(),
        Err(NoAnswer { again: None, .. }) => answer.at.elapsed() < age.min(LONGEST_WAIT),
    }
}
