//! What was rolled out of a workload's images, and what waits: annotations of the workload itself.
//!
//! A restart of an operator rolls nothing out twice, and commands show what the operator knows without a registry. Bounded: a few containers,
//! and of each a few digests. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use windlass_cluster::ObjectMeta;

/// Annotation of a workload: what was rolled out and what waits, as JSON.
pub const IMAGE_RECORD: &str = "windlass.dev/image-rollouts";
/// Annotation of a workload: who has approved which image, as JSON.
pub const IMAGE_APPROVALS: &str = "windlass.dev/image-approved-by";
/// The most containers of a workload that are followed.
pub(crate) const MAX_CONTAINERS: usize = 10;
/// Digests of a container that are remembered.
const MAX_DIGESTS: usize = 20;
/// The longest annotation that is read, in bytes.
const MAX_ANNOTATION: usize = 64 << 10;
/// The most names of an approval.
const MAX_APPROVERS: usize = 100;

/// An image by tag and digest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TagDigest {
    /// The tag.
    pub tag: String,
    /// The digest, `sha256:…`.
    pub digest: String,
}

/// `TAG@DIGEST`.
impl std::fmt::Display for TagDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.tag, self.digest)
    }
}

/// An image that is newer, and why it is not rolled out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingImage {
    /// The image.
    pub image: TagDigest,
    /// When it was seen first.
    pub since: Timestamp,
    /// Why it waits, for people.
    pub reason: String,
    /// Whether an approval would let it go on.
    pub wants_approval: bool,
}

/// A rollout whose Pods are not ready yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RunningRollout {
    /// When it began.
    pub since: Timestamp,
    /// The image before, as it was written in the container.
    pub before: String,
    /// Its tag and digest.
    pub previous: TagDigest,
}

/// What replaced an image, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LastRollout {
    /// When it began.
    pub at: Timestamp,
    /// The image before, as it was written in the container.
    pub before: String,
    /// It has taken back a rollout that did not become ready.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub took_back: bool,
}

/// What is known of the image of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRecord {
    /// The image that the release asks for.
    pub requested: String,
    /// The image as it was written last.
    pub image: String,
    /// Its tag and digest.
    pub current: TagDigest,
    /// The digest is that of Pods: neither was it written, nor had the registry it under the tag.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_of_pods: bool,
    /// Digests that were rolled out before it, the last one at the end.
    pub known: Vec<String>,
    /// Digests that did not become ready.
    pub failed: Vec<String>,
    /// A newer image that is not rolled out yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingImage>,
    /// The last rollout, until its Pods are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RunningRollout>,
    /// How the image was written that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRollout>,
    /// The policy by which it is followed, if that is an object's that the workload's release is of; else empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release_policy: String,
    /// A rollout has failed, and nothing more is rolled out until the release has another image.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// The record of a workload, by container.
pub type RolloutRecord = BTreeMap<String, ContainerRecord>;

/// Who has approved an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The image, `TAG@DIGEST`.
    pub image: String,
    /// Users.
    pub by: BTreeSet<String>,
}

impl ContainerRecord {
    /// Remembers that the current digest was rolled out. What only Pods have had may be newer than what the registry has.
    pub(crate) fn retire_current(&mut self) {
        if !self.is_of_pods && !self.current.digest.is_empty() {
            remember(&mut self.known, &self.current.digest);
        }
    }

    /// Remembers that a digest did not become ready.
    pub(crate) fn note_failed(&mut self, digest: &str) {
        remember(&mut self.failed, digest);
    }
}

fn remember(digests: &mut Vec<String>, digest: &str) {
    digests.retain(|known| known != digest);
    digests.push(digest.to_owned());
    let surplus = digests.len().saturating_sub(MAX_DIGESTS);
    digests.drain(..surplus);
}

/// The record of a workload; an annotation that is none is read as an empty one, and written anew.
#[must_use]
pub fn read_image_record(workload: ObjectMeta<'_>) -> RolloutRecord {
    let text = workload.annotation(IMAGE_RECORD).filter(|text| text.len() <= MAX_ANNOTATION);
    let mut record: RolloutRecord = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    while record.len() > MAX_CONTAINERS {
        record.pop_last();
    }
    record
}

/// The approvals of a workload, by container.
#[must_use]
pub fn read_approvals(workload: ObjectMeta<'_>) -> BTreeMap<String, Approval> {
    let text = workload.annotation(IMAGE_APPROVALS).filter(|text| text.len() <= MAX_ANNOTATION);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// The approvals with one more: of the image that waits in a container. Those of images that do not wait any more are dropped.
///
/// # Errors
/// Nothing waits for an approval there, or there are too many names.
pub fn approve(
    record: &RolloutRecord,
    mut approvals: BTreeMap<String, Approval>,
    container: &str,
    user: &str,
) -> Result<BTreeMap<String, Approval>, String> {
    let waits = |name: &str| {
        record.get(name).and_then(|of| of.waiting.as_ref()).filter(|waiting| waiting.wants_approval)
    };
    let waiting =
        waits(container).ok_or_else(|| format!("container {container:?}: no image waits for approval"))?;
    // Also of one that waits for its window only: it was approved before.
    approvals.retain(|name, approval| {
        let waiting = record.get(name).and_then(|of| of.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.image.to_string() == approval.image)
    });
    let image = waiting.image.to_string();
    let approval = approvals.entry(container.to_owned()).or_default();
    if approval.image != image {
        *approval = Approval { image, by: BTreeSet::new() };
    }
    approval.by.insert(user.to_owned());
    match approval.by.len() > MAX_APPROVERS {
        true => Err(format!("container {container:?}: more than {MAX_APPROVERS} users have approved it")),
        false => Ok(approvals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_bounded_and_read_as_it_was_written() {
        let mut record = ContainerRecord::default();
        for number in 0..100 {
            record.note_failed(&format!("sha256:{number}"));
        }
        record.note_failed("sha256:90");
        assert_eq!((record.failed.len(), record.failed.last().map(String::as_str)), (20, Some("sha256:90")));
        let all = RolloutRecord::from([("main".to_owned(), record)]);
        let text = serde_json::to_string(&all).unwrap();
        let object = json!({"metadata": {"annotations": {IMAGE_RECORD: text}}});
        assert_eq!(read_image_record(ObjectMeta::of(&object)), all);
        for text in ["", "[]", "{\"main\":1}", &" ".repeat(70_000)] {
            let object = json!({"metadata": {"annotations": {IMAGE_RECORD: text}}});
            assert_eq!(read_image_record(ObjectMeta::of(&object)), RolloutRecord::new());
        }
    }

    #[test]
    fn users_approve_the_image_that_waits() {
        let image = |digest: &str| TagDigest { tag: "2".to_owned(), digest: digest.to_owned() };
        let record = |digest: &str, wants_approval| {
            let waiting = WaitingImage { image: image(digest), wants_approval, ..WaitingImage::default() };
            let of = ContainerRecord { waiting: Some(waiting), ..ContainerRecord::default() };
            RolloutRecord::from([("main".to_owned(), of)])
        };
        let once = approve(&record("a", true), BTreeMap::new(), "main", "ann").unwrap();
        let twice = approve(&record("a", true), once.clone(), "main", "bob").unwrap();
        assert_eq!((twice["main"].image.as_str(), twice["main"].by.len()), ("2@a", 2));
        assert_eq!(approve(&record("a", true), once.clone(), "main", "ann"), Ok(once));
        let another = approve(&record("b", true), twice, "main", "ann").unwrap();
        assert_eq!((another["main"].image.as_str(), another["main"].by.len()), ("2@b", 1));
        // Of another container that waits for its window, the approval stays; of what does not wait any more, none.
        for (waiting, stays) in [("w", true), ("x", false)] {
            let mut both = record("a", true);
            both.extend(record(waiting, false).remove("main").map(|of| ("side".to_owned(), of)));
            let side = Approval { image: "2@w".to_owned(), by: ["bob".to_owned()].into() };
            let given = approve(&both, [("side".to_owned(), side)].into(), "main", "ann").unwrap();
            assert_eq!((given.contains_key("side"), given["main"].by.len()), (stays, 1), "{waiting}");
        }
        for (record, container) in [(record("a", false), "main"), (record("a", true), "side")] {
            assert!(
                approve(&record, BTreeMap::new(), container, "ann").unwrap_err().contains("no image waits")
            );
        }
    }
}
