//! How the record of a container changes: by another image, by what Pods run, by decisions and by rollouts that end. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::image_decision::{Decision, Found};
use super::image_reference::ImageReference;
use super::image_workload::{FollowedContainer, containers};
use super::rollout_record::{
    ContainerRecord, LastRollout, RolloutRecord, RunningRollout, TagDigest, WaitingImage,
};

/// Begins a record anew if the container has another image than the one that was written last: the release has changed it, or somebody.
pub(crate) fn rebase(of: &mut ContainerRecord, text: &str, image: &ImageReference) {
    if of.image == text {
        return;
    }
    *of = ContainerRecord {
        requested: text.to_owned(),
        image: text.to_owned(),
        current: TagDigest {
            tag: image.tag().unwrap_or_default().to_owned(),
            digest: image.location.digest.clone().unwrap_or_default(),
        },
        // What did not become ready does not do so because the release names it.
        failed: std::mem::take(&mut of.failed),
        ..ContainerRecord::default()
    };
}

/// The digest that runs where the image names none: that of the Pods. Without Pods it is the one that was recorded, or the first one seen
/// under the tag. `platforms`: those of the recorded digest, of which Pods may name one.
pub(crate) fn note_running(
    of: &mut ContainerRecord,
    running: &[String],
    found: &Found,
    platforms: &[String],
) {
    let is_new = |digest: &&String| **digest == found.image.digest || found.platforms.contains(digest);
    match running.iter().find(|digest| !is_new(digest)) {
        Some(old) if *old == of.current.digest || platforms.contains(old) => {}
        Some(old) => (of.current.digest, of.is_of_pods) = (old.clone(), true),
        None if !running.is_empty()
            || (of.current.digest.is_empty() && of.current.tag == found.image.tag) =>
        {
            (of.current.digest, of.is_of_pods) = (found.image.digest.clone(), false);
        }
        None => {}
    }
}

/// Takes a decision into the record. Returns what is said, and the image that is to be written.
pub(crate) fn take(
    of: &mut ContainerRecord,
    decision: Decision,
    container: &FollowedContainer,
    image: &ImageReference,
    now: Timestamp,
) -> (Option<(&'static str, String)>, Option<String>) {
    match decision {
        Decision::UpToDate => {
            of.waiting = None;
            (None, None)
        }
        Decision::SameImage(same) => {
            let note = format!(
                "the tag {} is the image that runs as {}: nothing is rolled out",
                same.tag, of.current.tag
            );
            (of.waiting, of.current.tag) = (None, same.tag);
            (Some(("SameImage", note)), None)
        }
        Decision::Wait(waiting) => {
            let is_news = of.waiting.as_ref() != Some(&waiting);
            let WaitingImage { image, reason, wants_approval, .. } = &waiting;
            let word = if *wants_approval { "ImageWaitsForApproval" } else { "ImageWaits" };
            let note = is_news.then(|| (word, format!("{image} is newer than {}: {reason}", of.current)));
            of.waiting = Some(waiting);
            (note, None)
        }
        Decision::RollOut(new) => {
            of.retire_current();
            of.known.retain(|known| *known != new.digest);
            let text = image.pinned(&new.tag, &new.digest);
            let previous = std::mem::replace(&mut of.current, new);
            let before = container.image.clone();
            of.last = Some(LastRollout { at: now, before: before.clone(), took_back: false });
            of.rollout = Some(RunningRollout { since: now, before, previous });
            (of.waiting, of.image, of.is_of_pods) = (None, text.clone(), false);
            (None, Some(text))
        }
    }
}

/// Takes the image before a rollout back into the record. Returns its text: by its digest if that is known, because the tag may point at what
/// has failed.
pub(crate) fn take_back(
    of: &mut ContainerRecord,
    rollout: RunningRollout,
    image: &str,
    now: Timestamp,
) -> String {
    of.last = Some(LastRollout { at: now, before: image.to_owned(), took_back: true });
    let RunningRollout { before, previous, .. } = rollout;
    of.known.retain(|known| *known != previous.digest);
    let text = match ImageReference::parse(image) {
        Ok(image) if !previous.digest.is_empty() => image.pinned(&previous.tag, &previous.digest),
        _ => before,
    };
    (of.current, of.image, of.is_of_pods) = (previous, text.clone(), false);
    text
}

/// Ends the rollouts of containers that have another image by now. Returns what is said: of an image that somebody has taken back, whose
/// digest is not tried again.
pub(crate) fn end_replaced(record: &mut RolloutRecord, images: &BTreeMap<String, String>) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, of) in record.iter_mut() {
        let image = images.get(name);
        if image == Some(&of.image) {
            continue;
        }
        let Some(rollout) = of.rollout.take() else { continue };
        if image.is_some_and(|image| is_earlier(of, &rollout, image)) {
            let failed = of.current.clone();
            of.note_failed(&failed.digest);
            notes.push(format!(
                "container {name}: {failed} was taken back while it was rolled out: this digest is not tried again"
            ));
        }
    }
    notes
}

/// Whether an image is the one before a rollout, or was rolled out earlier.
fn is_earlier(of: &ContainerRecord, rollout: &RunningRollout, image: &str) -> bool {
    let digest = ImageReference::parse(image).ok().and_then(|image| image.location.digest);
    image == rollout.before || digest.is_some_and(|digest| of.known.contains(&digest))
}

/// Records images that the server has stored in another form than they were sent, as webhooks for mirrors write them. Returns whether there
/// are some.
pub(crate) fn note_rewritten(
    record: &mut RolloutRecord,
    sent: &[(FollowedContainer, String)],
    stored: &Value,
) -> bool {
    let mut is_other = false;
    for now in containers(stored) {
        let was_sent =
            sent.iter().any(|(container, image)| container.name == now.name && *image != now.image);
        if let Some(of) = record.get_mut(&now.name).filter(|_| was_sent) {
            of.image = now.image;
            is_other = true;
        }
    }
    is_other
}
