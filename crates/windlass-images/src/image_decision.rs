//! What follows from what runs, what the registry has, and what was rolled out before. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::image_annotations::ImageRequest;
use super::rollout_record::{Approval, ContainerRecord, TagDigest, WaitingImage};

/// What the registry has.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The image that the policy chooses.
    pub(crate) image: TagDigest,
    /// The digests of its platforms: a runtime may name one of them.
    pub(crate) platforms: Vec<String>,
}

/// What follows for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// What runs is what the policy chooses.
    UpToDate,
    /// What runs has another tag, too.
    SameImage(TagDigest),
    /// It is rolled out.
    RollOut(TagDigest),
    /// It waits, or is refused.
    Wait(WaitingImage),
}

/// Everything that a decision depends on.
pub(crate) struct Situation<'a> {
    pub(crate) request: &'a ImageRequest,
    pub(crate) record: &'a ContainerRecord,
    pub(crate) approval: Option<&'a Approval>,
    pub(crate) found: &'a Found,
    pub(crate) now: Timestamp,
}

impl Situation<'_> {
    /// What follows.
    pub(crate) fn decide(&self) -> Decision {
        let (new, current) = (&self.found.image, &self.record.current);
        let is_same = new.digest == current.digest || self.found.platforms.contains(&current.digest);
        if is_same {
            return match new.tag == current.tag {
                true => Decision::UpToDate,
                false => Decision::SameImage(new.clone()),
            };
        }
        match self.obstacle() {
            None => Decision::RollOut(new.clone()),
            Some((reason, wants_approval)) => Decision::Wait(WaitingImage {
                image: new.clone(),
                since: self.since(),
                reason,
                wants_approval,
            }),
        }
    }

    /// When the image was seen first.
    fn since(&self) -> Timestamp {
        let waiting = self.record.waiting.as_ref();
        waiting.filter(|waiting| waiting.image == self.found.image).map_or(self.now, |waiting| waiting.since)
    }

    /// Why an image is not rolled out now, and whether an approval would change that.
    fn obstacle(&self) -> Option<(String, bool)> {
        let (request, record) = (self.request, self.record);
        let digest = &self.found.image.digest;
        if record.stopped {
            return Some(("a rollout has failed, and image-on-failure is stop".to_owned(), false));
        }
        if record.failed.contains(digest) {
            return Some((
                "this digest was rolled out and did not become ready: it is not tried again".to_owned(),
                false,
            ));
        }
        if record.known.contains(digest) && !request.policy.goes_back() {
            let text = "the registry went back to a digest that was rolled out before: only the policy force follows";
            return Some((text.to_owned(), false));
        }
        self.approval_obstacle().or_else(|| self.window_obstacle())
    }

    fn approval_obstacle(&self) -> Option<(String, bool)> {
        let needed = self.request.approvals;
        let image = self.found.image.to_string();
        let given = self.approval.filter(|approval| approval.image == image).map_or(0, |of| of.by.len());
        if given >= needed {
            return None;
        }
        let deadline = later(self.since(), self.request.approval_deadline);
        Some(match self.now < deadline {
            true => (format!("it waits for approval until {deadline:.0}: {given} of {needed}"), true),
            false => (format!("it was not approved until {deadline:.0}: {given} of {needed}"), false),
        })
    }

    fn window_obstacle(&self) -> Option<(String, bool)> {
        if self.request.windows.is_open(self.now) {
            return None;
        }
        let opens = self.request.windows.opens(self.now);
        let opens = opens
            .map_or("and none opens within a week".to_owned(), |at| format!("the next one opens at {at}"));
        Some((format!("no window is open: {opens}"), false))
    }
}

/// A later time; what lies beyond the calendar never comes.
pub(crate) fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::ObjectMeta;

    const NOW: &str = "2026-01-05T12:00:00Z";

    fn image(tag: &str, digest: &str) -> TagDigest {
        TagDigest { tag: tag.to_owned(), digest: digest.to_owned() }
    }

    fn request(settings: &[(&str, &str)]) -> ImageRequest {
        let annotations: serde_json::Map<_, _> =
            settings.iter().map(|(name, text)| ((*name).to_owned(), json!(text))).collect();
        ImageRequest::of(ObjectMeta::of(&json!({"metadata": {"annotations": annotations}})), None)
            .unwrap()
            .unwrap()
    }

    fn decide(settings: &[(&str, &str)], record: &ContainerRecord, found: TagDigest, now: &str) -> Decision {
        let found = Found { image: found, platforms: vec!["p".to_owned()] };
        let approval = Approval { image: "2@b".to_owned(), by: ["ann".to_owned()].into() };
        let now = now.parse().unwrap();
        let request = &request(settings);
        Situation { request, record, approval: Some(&approval), found: &found, now }.decide()
    }

    #[test]
    fn a_newer_image_is_rolled_out_and_an_older_one_is_not() {
        let running =
            |digest: &str| ContainerRecord { current: image("1", digest), ..ContainerRecord::default() };
        let digest = [("windlass.dev/image-policy", "digest")];
        let force = [("windlass.dev/image-policy", "force")];
        let new = image("1", "b");
        assert_eq!(decide(&digest, &running("a"), new.clone(), NOW), Decision::RollOut(new.clone()));
        assert_eq!(decide(&digest, &running("b"), new.clone(), NOW), Decision::UpToDate);
        assert_eq!(decide(&digest, &running("p"), new.clone(), NOW), Decision::UpToDate, "a platform of it");
        assert_eq!(
            decide(&digest, &running("b"), image("2", "b"), NOW),
            Decision::SameImage(image("2", "b"))
        );
        let mut back = running("a");
        back.known.push("b".to_owned());
        assert_eq!(decide(&force, &back, new.clone(), NOW), Decision::RollOut(new));
        let reason = |record: &ContainerRecord, settings: &[(&str, &str)], now: &str| match decide(
            settings,
            record,
            image("2", "b"),
            now,
        ) {
            Decision::Wait(waiting) => (waiting.reason, waiting.wants_approval),
            other => panic!("{other:?}"),
        };
        let mut failed = running("a");
        failed.failed.push("b".to_owned());
        let mut stopped = running("a");
        stopped.stopped = true;
        let mut seen = running("a");
        let since = "2026-01-04T00:00:00Z".parse().unwrap();
        seen.waiting = Some(WaitingImage { image: image("2", "b"), since, ..WaitingImage::default() });
        let approvals = [("keel.sh/policy", "all"), ("keel.sh/approvals", "2")];
        let window = [("keel.sh/policy", "all"), ("windlass.dev/image-window", "Mon 13:00-14:00")];
        for (record, settings, part, wants_approval) in [
            (&back, &digest[..], "went back to a digest", false),
            (&failed, &force[..], "did not become ready", false),
            (&stopped, &digest[..], "image-on-failure is stop", false),
            (&running("a"), &approvals[..], "waits for approval until 2026-01-06T12:00:00Z: 1 of 2", true),
            (&seen, &approvals[..], "was not approved until 2026-01-05T00:00:00Z: 1 of 2", false),
            (&running("a"), &window[..], "the next one opens at 2026-01-05T13:00:00Z", false),
        ] {
            let (found, wants) = reason(record, settings, NOW);
            assert!(found.contains(part) && wants == wants_approval, "{part}: {found}");
        }
        let approved = [("keel.sh/policy", "all"), ("keel.sh/approvals", "1")];
        let new = image("2", "b");
        assert_eq!(decide(&approved, &running("a"), new.clone(), NOW), Decision::RollOut(new.clone()));
        // An approval is for one digest.
        assert!(matches!(decide(&approved, &running("a"), image("2", "c"), NOW), Decision::Wait(_)));
        assert_eq!(
            decide(&window, &running("a"), new.clone(), "2026-01-05T13:30:00Z"),
            Decision::RollOut(new)
        );
    }
}
