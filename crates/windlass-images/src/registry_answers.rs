//! What registries say, asked once for all who ask the same.
//!
//! Owns how long an answer counts, and when a registry that fails or has had enough is asked again. One request for all that have the same
//! image and the same login; the others wait for it.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_base::backoff;
use windlass_base::machine::input_limit;
use windlass_base::redact;
use windlass_fetch::http::{Http, Tls};
use windlass_fetch::oci::artifact_reference::OciReference;
use windlass_fetch::oci::{OciError, Registry, RegistryFault};

use super::image_mirrors::ImageMirrors;
use super::pull_logins::{OriginLogins, PullLogin};

/// The most answers that are kept.
const MAX_ANSWERS: usize = 10_000;
/// The most tags of a repository.
const MAX_TAGS: usize = 50_000;
/// The most memory that the tags and digests of all answers take that are kept, in bytes; with less memory, half of what one input may take.
const MAX_KEPT: u64 = 128 << 20;
/// The memory of a tag beside its text, in bytes.
const TAG: usize = 32;
/// The most failures that are remembered.
const MAX_FAILURES: usize = 10_000;
/// How long a failure is remembered after its time, and how often those that are over are dropped.
const KEPT_AFTER: Duration = Duration::from_secs(10 * 60);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
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
    /// Whether it wants another login.
    is_denied: bool,
}

impl NoAnswer {
    /// With what is wrong with the Secrets of the one who asks: others with the same login have other Secrets.
    fn with_notes(mut self, notes: &[String]) -> Self {
        if self.is_denied && !notes.is_empty() {
            self.text = format!("{}; {}", self.text, notes.join("; "));
        }
        self
    }
}

/// What is asked, and with whose login.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AnswerKey {
    registry: String,
    repository: String,
    /// The tag or digest; empty for the tags of the repository.
    wanted: String,
    question: Question,
    fingerprint: String,
}

#[derive(Clone)]
struct Answer {
    at: Instant,
    result: Result<Arc<Vec<String>>, NoAnswer>,
}

/// What failed: a registry for all, for a login, or of one repository for a login.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FailureKey {
    host: String,
    fingerprint: Option<String>,
    repository: Option<String>,
}

impl FailureKey {
    fn new(fault: RegistryFault, image: &OciReference, login: &PullLogin) -> Self {
        let of_login = fault != RegistryFault::Host;
        Self {
            host: image.host().to_owned(),
            fingerprint: of_login.then(|| login.fingerprint.clone()),
            repository: (fault == RegistryFault::Repository).then(|| image.repository.clone()),
        }
    }

    fn all(image: &OciReference, login: &PullLogin) -> [Self; 3] {
        let faults = [RegistryFault::Host, RegistryFault::Login, RegistryFault::Repository];
        faults.map(|fault| Self::new(fault, image, login))
    }
}

#[derive(Clone, Copy)]
struct Failing {
    failures: u32,
    until: Instant,
}

/// What failed last. An entry is kept for a while after its time, so that the next failure in a row waits longer.
#[derive(Default)]
struct Failures {
    entries: HashMap<FailureKey, Failing>,
    swept: Option<Instant>,
}

impl Failures {
    /// Until when an image is not asked for.
    fn until(&self, image: &OciReference, login: &PullLogin, now: Instant) -> Option<Instant> {
        let all = FailureKey::all(image, login);
        let until = all.iter().filter_map(|key| self.entries.get(key)).map(|failing| failing.until);
        until.filter(|until| *until > now).max()
    }

    fn clear(&mut self, image: &OciReference, login: &PullLogin) {
        for key in FailureKey::all(image, login) {
            self.entries.remove(&key);
        }
    }

    /// Notes a failure. Returns until when the registry is left alone; `asked`: for how long it wants to be.
    fn note(&mut self, key: FailureKey, asked: Option<Duration>, now: Instant) -> Instant {
        if self.swept.is_none_or(|swept| now.duration_since(swept) > SWEEP_INTERVAL) {
            self.swept = Some(now);
            self.entries.retain(|_, failing| failing.until + KEPT_AFTER > now);
        }
        let failures = self.entries.get(&key).map_or(0, |failing| failing.failures).saturating_add(1);
        // Jitter: not all clients that were refused ask at the same moment.
        let asked = asked.map(|wait| wait.min(LONGEST_WAIT) + backoff::delay(1));
        let until = now + backoff::delay(failures).max(asked.unwrap_or_default());
        // Without a place, the answer that is kept says until when.
        if self.entries.len() < MAX_FAILURES || self.entries.contains_key(&key) {
            self.entries.insert(key, Failing { failures, until });
        }
        until
    }
}

/// Registries and what they said last.
pub(crate) struct RegistryAnswers {
    http: Http,
    /// Registries that are asked without TLS.
    plain: BTreeSet<String>,
    mirrors: ImageMirrors,
    answers: Mutex<HashMap<AnswerKey, Arc<tokio::sync::Mutex<Option<Answer>>>>>,
    failures: Mutex<Failures>,
    /// Tags and digests of answers since they were dropped last.
    kept: AtomicU64,
}

impl RegistryAnswers {
    pub(crate) fn new(http: Http, plain: BTreeSet<String>, mirrors: ImageMirrors) -> Self {
        Self {
            http,
            plain,
            mirrors,
            answers: Mutex::default(),
            failures: Mutex::default(),
            kept: AtomicU64::new(0),
        }
    }

    /// An image at the mirror of its registry, which is asked first.
    pub(crate) fn mirror_of(&self, image: &OciReference) -> Option<OciReference> {
        self.mirrors.of(image)
    }

    /// The tags of an image's repository, at most `age` old.
    pub(crate) async fn tags(
        &self,
        image: &OciReference,
        logins: &OriginLogins,
        age: Duration,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        self.answer(image, Question::Tags, logins, age).await
    }

    /// The digest of an image's tag, at most `age` old.
    pub(crate) async fn digest(
        &self,
        image: &OciReference,
        logins: &OriginLogins,
        age: Duration,
    ) -> Result<String, NoAnswer> {
        let answer = self.answer(image, Question::Digest, logins, age).await?;
        Ok(answer.first().cloned().unwrap_or_default())
    }

    /// The digests of the platforms of an image that has a digest.
    pub(crate) async fn platforms(
        &self,
        image: &OciReference,
        logins: &OriginLogins,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        self.answer(image, Question::Platforms, logins, Duration::MAX).await
    }

    /// The answer of the mirror, or else of the registry.
    async fn answer(
        &self,
        image: &OciReference,
        question: Question,
        logins: &OriginLogins,
        age: Duration,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        let mut of_mirror = String::new();
        if let (Some(mirror), Some(login)) = (self.mirrors.of(image), &logins.mirror) {
            match self.shared_answer(&mirror, question, login, age).await {
                Ok(answer) => return Ok(answer),
                Err(error) => of_mirror = format!("{}; ", error.with_notes(&login.notes).text),
            }
        }
        let answer = self.shared_answer(image, question, &logins.own, age).await;
        answer.map_err(|error| {
            let error = error.with_notes(&logins.own.notes);
            NoAnswer { text: format!("{of_mirror}{}", error.text), ..error }
        })
    }

    async fn shared_answer(
        &self,
        image: &OciReference,
        question: Question,
        login: &PullLogin,
        age: Duration,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        let wanted = if question == Question::Tags { "" } else { image.wanted() };
        let cell = self.cell(AnswerKey {
            registry: image.registry.clone(),
            repository: image.repository.clone(),
            wanted: wanted.to_owned(),
            question,
            fingerprint: login.fingerprint.clone(),
        });
        // Those who ask the same wait here, and find the answer.
        let mut kept = cell.lock().await;
        if let Some(answer) = kept.as_ref().filter(|answer| is_fresh(answer, age)) {
            return answer.result.clone();
        }
        self.check_failures(image, login)?;
        let known = kept.as_ref().and_then(|answer| answer.result.as_ref().ok()?.first().cloned());
        let asked = self.ask(image, question, login, known.as_deref()).await;
        let result = self.note(image, login, asked);
        let taken =
            |answer: &Arc<Vec<String>>| answer.iter().map(|tag| tag.len() + TAG).sum::<usize>() as u64;
        self.kept.fetch_add(result.as_ref().map_or(0, taken), Ordering::Relaxed);
        *kept = Some(Answer { at: Instant::now(), result: result.clone() });
        result
    }

    /// Forgets the answers on some repositories of all registries, so that they are asked again. What has failed is left alone as before.
    pub(crate) fn forget(&self, repositories: &BTreeSet<String>) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // At a mirror, the path of a repository may come after a prefix.
        let is_one = |repository: &str| {
            let mut ends = repository.match_indices('/').map(|(at, _)| &repository[at + 1..]);
            repositories.contains(repository) || ends.any(|end| repositories.contains(end))
        };
        // What the platforms of a digest are does not change.
        answers
            .retain(|key, _| key.question == Question::Platforms || !is_one(&key.repository.to_lowercase()));
    }

    fn cell(&self, key: AnswerKey) -> Arc<tokio::sync::Mutex<Option<Answer>>> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = answers.len() >= MAX_ANSWERS && !answers.contains_key(&key);
        if is_full || self.kept.load(Ordering::Relaxed) > MAX_KEPT.min(input_limit() / 2) {
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
            Question::Tags => registry.tags_up_to(image, MAX_TAGS).await,
        }
    }

    /// Fails while a registry is left alone.
    fn check_failures(&self, image: &OciReference, login: &PullLogin) -> Result<(), NoAnswer> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        match failures.until(image, login, Instant::now()) {
            None => Ok(()),
            Some(until) => Err(NoAnswer {
                text: format!("{} has failed, and is asked again later", image.host()),
                again: Some(until),
                is_denied: false,
            }),
        }
    }

    /// Notes whether a registry works.
    fn note(
        &self,
        image: &OciReference,
        login: &PullLogin,
        asked: Result<Vec<String>, OciError>,
    ) -> Result<Arc<Vec<String>>, NoAnswer> {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let error = match asked {
            Ok(answer) => {
                failures.clear(image, login);
                return Ok(Arc::new(answer));
            }
            Err(error) => error,
        };
        // Answers are kept for other passes.
        let (text, is_denied) = (redact::mask(&error.to_string()).into_owned(), error.is_access_denied());
        let fault = error.fault(image.host());
        let note =
            |fault| failures.note(FailureKey::new(fault, image, login), error.retry_after(), Instant::now());
        Err(NoAnswer { text, again: fault.map(note), is_denied })
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

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_fetch::oci::credentials::Credentials;

    fn login(fingerprint: &str) -> PullLogin {
        let (credentials, fingerprint) = (Credentials::none(), fingerprint.to_owned());
        PullLogin { credentials, fingerprint, notes: Vec::new() }
    }

    #[test]
    fn a_failure_stops_only_those_whom_it_concerns() {
        let image = |text: &str| OciReference::parse(text).unwrap();
        let (own, now) = (image("r.test/a/web:1"), Instant::now());
        let others = [("r.test/a/web:2", "me"), ("r.test/b/web:1", "me"), ("r.test/a/web:1", "you")];
        for (fault, expected) in [
            (RegistryFault::Host, [true, true, true]),
            (RegistryFault::Login, [true, true, false]),
            (RegistryFault::Repository, [true, false, false]),
        ] {
            let mut failures = Failures::default();
            failures.note(FailureKey::new(fault, &own, &login("me")), None, now);
            let stopped = others.map(|(other, of)| failures.until(&image(other), &login(of), now).is_some());
            assert_eq!(stopped, expected, "{fault:?}");
            assert!(failures.until(&image("s.test/a/web:1"), &login("me"), now).is_none());
            failures.clear(&own, &login("me"));
            assert!(failures.entries.is_empty());
        }
    }

    #[test]
    fn failures_in_a_row_wait_longer_and_old_ones_are_dropped() {
        let image = |text: &str| OciReference::parse(text).unwrap();
        let key = |text: &str| FailureKey::new(RegistryFault::Repository, &image(text), &login(""));
        let (mut failures, now) = (Failures::default(), Instant::now());
        let first = failures.note(key("r.test/a:1"), None, now);
        let second = failures.note(key("r.test/a:1"), None, first);
        assert!(second - first >= Duration::from_secs(2), "{:?}", second - first);
        let asked = failures.note(key("r.test/b:1"), Some(Duration::from_secs(90)), now);
        assert!(asked - now >= Duration::from_secs(90));
        failures.note(key("r.test/c:1"), None, now + 2 * LONGEST_WAIT);
        assert_eq!(failures.entries.len(), 1);
    }

    #[test]
    fn answers_on_a_repository_are_forgotten() {
        let answers = RegistryAnswers::new(
            Http::new(Duration::from_secs(1), false),
            BTreeSet::new(),
            ImageMirrors::default(),
        );
        let key = |registry: &str, repository: &str, question| AnswerKey {
            registry: registry.to_owned(),
            repository: repository.to_owned(),
            wanted: "1".to_owned(),
            question,
            fingerprint: String::new(),
        };
        let all = [
            key("r.test", "team/web", Question::Digest),
            key("s.test", "team/web", Question::Tags),
            key("r.test", "team/web", Question::Platforms),
            key("r.test", "team/web-2", Question::Digest),
            key("m.test", "hub/team/web", Question::Digest),
        ];
        all.iter().for_each(|key| drop(answers.cell(key.clone())));
        answers.forget(&BTreeSet::from(["team/web".to_owned()]));
        let kept = answers.answers.lock().unwrap();
        assert_eq!(all.map(|key| kept.contains_key(&key)), [false, false, true, true, false]);
    }

    #[test]
    fn notes_of_secrets_are_for_those_who_are_refused() {
        let error = |is_denied| NoAnswer { text: "denied".to_owned(), again: None, is_denied };
        let notes = ["Secret a: missing".to_owned()];
        assert_eq!(error(true).with_notes(&notes).text, "denied; Secret a: missing");
        assert_eq!(error(false).with_notes(&notes).text, "denied");
        assert_eq!(error(true).with_notes(&[]).text, "denied");
    }
}
