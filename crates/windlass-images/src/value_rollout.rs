//! What becomes of images that are set over the values of a release: through, taken back, or ended by other values. Pure.
//!
//! Owns the meaning of the noted images: those that a pass over the object has composed that was through. An override whose base the values
//! do not name any more has ended; one that the object does not have any more was taken back by somebody.

use jiff::Timestamp;
use windlass_controller::{EventType, ImageOverride, ImageOverrides, ImageValue, ImageValues, MAX_IMAGES};

use super::image_annotations::{ImageRequest, OnFailure};
use super::image_decision::later;
use super::image_reference::ImageReference;
use super::rollout_record::{ContainerRecord, LastRollout, RolloutRecord, RunningRollout, TagDigest};

/// An Event on the object.
type Said = (EventType, &'static str, String);

/// The state of an object, as it is changed by a check.
#[derive(Debug)]
pub(crate) struct ValueState<'s> {
    /// The images of the last pass that was through; `None`: none was through in this process.
    pub(crate) images: Option<&'s ImageValues>,
    pub(crate) record: RolloutRecord,
    pub(crate) overrides: ImageOverrides,
}

/// The override of the image of a value by another one, and how the values name it then.
///
/// # Errors
/// The values name no image.
pub(crate) fn overriding(value: &ImageValue, image: &TagDigest) -> Result<(ImageOverride, String), String> {
    let base = ImageReference::parse(&value.base)?;
    let (name, TagDigest { tag, digest }) = (base.name(), image);
    let one = ImageOverride::new(&value.paths, &value.base, (name, tag, digest));
    let text = match value.paths.has_digest() && !digest.is_empty() {
        true => base.pinned(tag, digest),
        false => format!("{name}:{tag}"),
    };
    Ok((one, text))
}

impl ValueState<'_> {
    /// Drops the overrides that do not count any more: the values name another image than the one that they were decided on.
    pub(crate) fn end_overrides(&mut self) {
        let Some(images) = self.images else { return };
        let counts = |path: &String, one: &ImageOverride| {
            images.images.get(path).is_none_or(|value| value.base == one.base)
        };
        self.overrides.retain(|path, one| counts(path, one));
    }

    /// Whether an override of another path may be written. Those of paths that are not followed any more make room for it.
    pub(crate) fn has_room_for(&mut self, path: &str) -> bool {
        if self.overrides.contains_key(path) || self.overrides.len() < MAX_IMAGES {
            return true;
        }
        if let Some(images) = self.images {
            self.overrides.retain(|path, _| images.images.contains_key(path));
        }
        self.overrides.len() < MAX_IMAGES
    }

    /// Looks at the rollouts that have begun. `found`: the overrides as the object has them. Returns whether one runs on, and what is said.
    pub(crate) fn settle(
        &mut self,
        request: Option<&ImageRequest>,
        found: &ImageOverrides,
        now: Timestamp,
    ) -> (bool, Vec<Said>) {
        let (mut runs, mut said) = (false, Vec::new());
        let paths: Vec<String> = self.record.keys().cloned().collect();
        for path in paths {
            let Some(of) = self.record.get_mut(&path) else { continue };
            let Some(rollout) = of.rollout.clone() else { continue };
            let value = self.images.and_then(|images| images.images.get(&path));
            let is_left = self.images.is_some() && value.is_none();
            let Some(request) = request.filter(|_| !is_left) else {
                // It is not followed any more.
                of.rollout = None;
                continue;
            };
            if !self.overrides.contains_key(&path) {
                of.rollout = None;
                if !found.contains_key(&path) {
                    let failed = of.current.clone();
                    of.note_failed(&failed.digest);
                    let note = format!(
                        "value {path}: {failed} was taken back while it was rolled out: this digest is not tried again"
                    );
                    said.push((EventType::Warning, "ImageUpdateFailed", note));
                }
                continue;
            }
            if value.is_some_and(|value| value.image == of.image) {
                of.rollout = None;
                said.push((EventType::Normal, "ImageUpdateReady", format!("{} is ready", of.current)));
            } else if later(rollout.since, request.rollout_deadline) <= now {
                let why = format!("its revision is not ready after {} s", request.rollout_deadline.as_secs());
                let note = fail((&path, of), &mut self.overrides, (request.on_failure, &why), now);
                said.push((EventType::Warning, "ImageUpdateFailed", note));
            } else {
                runs = true;
            }
        }
        (runs, said)
    }
}

/// Notes that a rollout has failed, and takes its override back if that is to follow. Returns what is said.
fn fail(
    (path, of): (&str, &mut ContainerRecord),
    overrides: &mut ImageOverrides,
    (on_failure, why): (OnFailure, &str),
    now: Timestamp,
) -> String {
    let failed = of.current.clone();
    of.note_failed(&failed.digest);
    let rollout = of.rollout.take().unwrap_or_default();
    let next = match on_failure {
        OnFailure::Ignore => "it is left as it is".to_owned(),
        OnFailure::Stop => {
            of.stopped = true;
            "it is left as it is, and nothing more is rolled out until the release has another image"
                .to_owned()
        }
        OnFailure::Rollback => {
            let text = take_back((path, of), overrides, rollout, now);
            format!("{text} is back, and this digest is not tried again")
        }
    };
    format!("value {path}: {failed} did not become ready: {why}; {next}")
}

/// Takes the image before a rollout back. Returns its text: by its digest where the tag is the same, because that points at what has failed.
fn take_back(
    (path, of): (&str, &mut ContainerRecord),
    overrides: &mut ImageOverrides,
    rollout: RunningRollout,
    now: Timestamp,
) -> String {
    let RunningRollout { before, previous, .. } = rollout;
    of.last = Some(LastRollout { at: now, before: of.image.clone(), took_back: true });
    of.known.retain(|known| *known != previous.digest);
    let base = overrides.remove(path).map(|one| (one.base.clone(), one));
    let is_base = base.as_ref().is_none_or(|(base, _)| *base == before) && previous.tag != of.current.tag;
    let again = base.filter(|_| !is_base).and_then(|(base, one)| {
        let value = ImageValue { paths: one.paths(path), base, ..ImageValue::default() };
        overriding(&value, &previous).ok()
    });
    let text = match again {
        Some((one, text)) => {
            overrides.insert(path.to_owned(), one);
            text
        }
        None => before,
    };
    (of.current, of.image, of.is_of_pods) = (previous, text.clone(), false);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_cluster::ObjectMeta;
    use windlass_controller::ImagePaths;

    const NOW: &str = "2026-01-05T12:00:00Z";

    fn digest(letter: &str) -> String {
        format!("sha256:{}", letter.repeat(64))
    }

    fn image(tag: &str, letter: &str) -> TagDigest {
        TagDigest { tag: tag.to_owned(), digest: digest(letter) }
    }

    fn value(paths: &str, base: &str, image: &str) -> ImageValue {
        let paths = ImagePaths::list(paths).unwrap().remove(0);
        ImageValue { paths, base: base.to_owned(), image: image.to_owned(), ..ImageValue::default() }
    }

    fn values(value: ImageValue) -> ImageValues {
        let images = [(value.paths.tag.clone(), value)].into();
        ImageValues { images, ..ImageValues::default() }
    }

    fn request(settings: &[(&str, &str)]) -> ImageRequest {
        let mut annotations = json!({"keel.sh/policy": "all"});
        settings
            .iter()
            .for_each(|(name, text)| annotations[format!("windlass.dev/image-{name}")] = (*text).into());
        let object = json!({"metadata": {"annotations": annotations}});
        ImageRequest::of(ObjectMeta::of(&object), None).unwrap().unwrap()
    }

    /// A rollout of version 2 in place of an image.
    fn rolling(
        value: &ImageValue,
        before: &str,
        previous: TagDigest,
        new: TagDigest,
    ) -> (RolloutRecord, ImageOverrides) {
        let (one, text) = overriding(value, &new).unwrap();
        let since = "2026-01-05T11:59:00Z".parse().unwrap();
        let rollout = RunningRollout { since, before: before.to_owned(), previous };
        let of = ContainerRecord {
            image: text,
            current: new,
            rollout: Some(rollout),
            ..ContainerRecord::default()
        };
        let path = value.paths.tag.clone();
        ([(path.clone(), of)].into(), [(path, one)].into())
    }

    #[test]
    fn a_rollout_is_through_when_a_pass_was() {
        let before = value("image.tag", "web:1", "web:1");
        let (record, overrides) = rolling(&before, "web:1", image("1", "a"), image("2", "b"));
        let settle = |images: Option<&ImageValues>, found: &ImageOverrides, settings: &[(&str, &str)]| {
            let mut state = ValueState { images, record: record.clone(), overrides: found.clone() };
            state.end_overrides();
            let (runs, said) = state.settle(Some(&request(settings)), found, NOW.parse().unwrap());
            let of = state.record.remove("image.tag").unwrap();
            assert_eq!(runs, of.rollout.is_some());
            (
                runs,
                said.into_iter().map(|(_, reason, _)| reason).collect::<Vec<_>>(),
                state.overrides.len(),
                of,
            )
        };
        let (old, new) = (values(before), values(value("image.tag", "web:1", "web:2")));
        let (runs, said, left, _) = settle(Some(&old), &overrides, &[]);
        assert!(runs && said.is_empty() && left == 1);
        // After a restart, before a pass was through.
        let (runs, said, left, _) = settle(None, &overrides, &[]);
        assert!(runs && said.is_empty() && left == 1);
        let (runs, said, left, _) = settle(Some(&new), &overrides, &[]);
        assert!(!runs && said == ["ImageUpdateReady"] && left == 1);
        // Also if the deadline is over by then.
        let late = [("rollout-deadline", "30s")];
        assert_eq!(settle(Some(&new), &overrides, &late).1, ["ImageUpdateReady"]);
        // Other values end it, and nothing has failed.
        let (runs, said, left, of) =
            settle(Some(&values(value("image.tag", "web:5", "web:5"))), &overrides, &[]);
        assert!(!runs && said.is_empty() && left == 0 && of.failed.is_empty());
        // Somebody has removed the annotation.
        let (runs, said, _, of) = settle(Some(&old), &ImageOverrides::new(), &[]);
        assert!(!runs && said == ["ImageUpdateFailed"] && of.failed == [digest("b")]);
        // It is not followed any more: it stays.
        let (runs, said, left, _) = settle(Some(&ImageValues::default()), &overrides, &[]);
        assert!(!runs && said.is_empty() && left == 1);
        for images in [Some(&old), None] {
            let (runs, said, left, of) = settle(images, &overrides, &late);
            assert!(!runs && said == ["ImageUpdateFailed"] && left == 0);
            assert_eq!(
                (of.image.as_str(), of.current, of.failed),
                ("web:1", image("1", "a"), vec![digest("b")])
            );
        }
        for (on_failure, stopped) in [("stop", true), ("ignore", false)] {
            let settings = [late[0], ("on-failure", on_failure)];
            let (runs, said, left, of) = settle(Some(&old), &overrides, &settings);
            assert!(!runs && said == ["ImageUpdateFailed"] && left == 1 && of.stopped == stopped);
            assert_eq!(of.image, "web:2");
        }
    }

    #[test]
    fn overrides_that_nobody_follows_make_room_for_others() {
        let followed = |number: usize| value(&format!("a{number}.tag"), "web:1", "web:1");
        let (one, _) = overriding(&followed(0), &image("2", "b")).unwrap();
        for (set, of_values, path, has_room, left) in [
            (MAX_IMAGES - 1, MAX_IMAGES, "new.tag", true, MAX_IMAGES - 1),
            (MAX_IMAGES, MAX_IMAGES, "a3.tag", true, MAX_IMAGES),
            (MAX_IMAGES, MAX_IMAGES, "new.tag", false, MAX_IMAGES),
            (MAX_IMAGES, 4, "new.tag", true, 4),
        ] {
            let images = ImageValues {
                images: (0..of_values).map(followed).map(|value| (value.paths.tag.clone(), value)).collect(),
                ..ImageValues::default()
            };
            let overrides = (0..set).map(|number| (format!("a{number}.tag"), one.clone())).collect();
            let mut state = ValueState { images: Some(&images), record: RolloutRecord::new(), overrides };
            assert_eq!(state.has_room_for(path), has_room, "{set} {of_values} {path}");
            assert_eq!(state.overrides.len(), left, "{set} {of_values} {path}");
        }
    }

    #[test]
    fn what_is_taken_back_is_what_was_there() {
        let late = request(&[("rollout-deadline", "30s")]);
        for (paths, base, before, previous, set, text) in [
            // The base: no override is left.
            ("image.tag", "web:1", "web:1", image("1", "a"), None, "web:1".to_owned()),
            ("image", "web:1", "web:1", image("1", "a"), None, "web:1".to_owned()),
            // An earlier override.
            (
                "image.tag",
                "web:0",
                "web:1",
                image("1", "a"),
                Some(json!({"image.tag": "1"})),
                "web:1".to_owned(),
            ),
            // The same tag points at what has failed: its digest counts.
            (
                "image",
                "web:2",
                "web:2",
                image("2", "a"),
                Some(json!({"image": format!("web:2@{}", digest("a"))})),
                format!("web:2@{}", digest("a")),
            ),
            (
                "image.tag@image.digest",
                "web:2",
                "web:2",
                image("2", "a"),
                Some(json!({"image.tag": "2", "image.digest": digest("a")})),
                format!("web:2@{}", digest("a")),
            ),
        ] {
            let value = value(paths, base, before);
            let (record, overrides) = rolling(&value, before, previous.clone(), image("2", "b"));
            let images = values(value.clone());
            let mut state = ValueState { images: Some(&images), record, overrides };
            let found = state.overrides.clone();
            let (runs, said) = state.settle(Some(&late), &found, NOW.parse().unwrap());
            let of = &state.record[&value.paths.tag];
            assert!(
                !runs && said[0].2.contains("did not become ready: its revision is not ready after 30 s")
            );
            assert_eq!((&of.image, &of.current), (&text, &previous), "{paths} {base}");
            let left = state.overrides.get(&value.paths.tag).map(|one| json!(one.set));
            assert_eq!(left, set, "{paths} {base}");
        }
    }
}
