//! Records and patches of a check.

use serde_json::json;
use windlass_engine::REQUESTED_IMAGES;

use super::super::checked_workload::{Inherited, UNKNOWN_LIMIT};
use super::super::rollout_record::{IMAGE_RECORD, WaitingImage};
use super::*;

fn digest(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

fn workload(image: &str) -> Checked {
    let object = json!({
        "metadata": {"uid": "u", "resourceVersion": "7", "annotations": {"keel.sh/policy": "force"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}, {"name": "side", "image": "s:1"}]}}},
    });
    let reference = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("n"), "web");
    Checked::of(&reference, object, Inherited::default())
}

fn found(letter: &str, platforms: &[&str]) -> Found {
    let platforms = platforms.iter().map(|letter| digest(letter)).collect();
    Found { image: TagDigest { tag: "1".to_owned(), digest: digest(letter) }, platforms }
}

fn based(image: &str) -> ContainerRecord {
    let mut of = ContainerRecord::default();
    rebase(&mut of, image, &ImageReference::parse(image).unwrap());
    of
}

#[test]
fn what_runs_is_what_the_pods_say() {
    for (recorded, running, platforms, expected) in [
        ("", &[][..], &[][..], "b"),
        ("a", &[][..], &[][..], "a"),
        ("", &["a"][..], &[][..], "a"),
        ("b", &["a"][..], &[][..], "a"),
        ("a", &["b", "b"][..], &[][..], "b"),
        ("", &["p"][..], &["p", "q"][..], "b"),
        ("", &["b", "a"][..], &[][..], "a"),
    ] {
        let mut of = based("web:1");
        of.current.digest = if recorded.is_empty() { String::new() } else { digest(recorded) };
        let running: Vec<String> = running.iter().map(|letter| digest(letter)).collect();
        note_running(&mut of, &running, &found("b", platforms), &[]);
        assert_eq!(of.current.digest, digest(expected), "{recorded} {running:?}");
        let is_of_pods = running.contains(&digest("a"));
        assert_eq!(of.is_of_pods, is_of_pods, "{recorded} {running:?}");
    }
    // Before a tag moves, nothing is known of the digest that runs.
    let mut of = based("web:0");
    note_running(&mut of, &[], &found("b", &[]), &[]);
    assert_eq!(of.current.digest, "");
    // Pods may name a platform of the digest that is recorded: it stays, as that of all platforms.
    let mut of = based("web:1");
    of.current.digest = digest("a");
    note_running(&mut of, &[digest("p")], &found("b", &[]), &[digest("p")]);
    assert_eq!((&of.current.digest, of.is_of_pods), (&digest("a"), false));
}

/// Pods pulled `b` while the answer that was kept said `a`: `b` is not what the registry went back from.
#[test]
fn a_digest_that_only_pods_have_had_is_not_one_that_was_rolled_out() {
    let container = containers(&workload("web:1").object).remove(0);
    let image = ImageReference::parse("web:1").unwrap();
    let mut of = based("web:1");
    note_running(&mut of, &[digest("b")], &found("a", &[]), &[]);
    let old = TagDigest { tag: "1".to_owned(), digest: digest("a") };
    take(&mut of, Decision::RollOut(old), &container, &image, Timestamp::UNIX_EPOCH);
    assert!(of.known.is_empty() && !of.is_of_pods, "{of:?}");
    // The answer of now is what runs.
    let mut of = based("web:1");
    note_running(&mut of, &[digest("b")], &found("b", &[]), &[]);
    assert_eq!((&of.current.digest, of.is_of_pods), (&digest("b"), false));
}

#[test]
fn an_image_that_was_taken_back_by_hand_is_not_tried_again() {
    let container = containers(&workload("web:1").object).remove(0);
    let image = ImageReference::parse("web:1").unwrap();
    let mut of = based("web:1");
    of.current.digest = digest("a");
    let new = TagDigest { tag: "1".to_owned(), digest: digest("b") };
    let text = take(&mut of, Decision::RollOut(new), &container, &image, Timestamp::UNIX_EPOCH).1.unwrap();
    for (now, failed, runs) in [
        (text, 0, true),
        ("web:1".to_owned(), 1, false),
        (format!("web:1@{}", digest("a")), 1, false),
        // Another image of the release.
        ("web:2".to_owned(), 0, false),
    ] {
        let mut record = RolloutRecord::from([("main".to_owned(), of.clone())]);
        let notes = end_replaced(&mut record, &[("main".to_owned(), now.clone())].into());
        let after = &record["main"];
        assert_eq!(
            (after.failed.len(), notes.len(), after.rollout.is_some()),
            (failed, failed, runs),
            "{now}"
        );
    }
}

#[test]
fn an_image_that_the_server_stores_in_another_form_is_recorded_so() {
    let container = containers(&workload("web:1").object).remove(0);
    let image = ImageReference::parse("web:1").unwrap();
    let mut of = based("web:1");
    let new = TagDigest { tag: "1".to_owned(), digest: digest("b") };
    let text = take(&mut of, Decision::RollOut(new), &container, &image, Timestamp::UNIX_EPOCH).1.unwrap();
    let mut record = RolloutRecord::from([("main".to_owned(), of)]);
    let sent = [(container, text.clone())];
    assert!(!note_rewritten(&mut record, &sent, &workload(&text).object));
    let mirrored = format!("mirror.test/{text}");
    assert!(note_rewritten(&mut record, &sent, &workload(&mirrored).object));
    let after = &record["main"];
    assert_eq!((after.image.as_str(), after.requested.as_str()), (mirrored.as_str(), "web:1"));
    assert!(after.rollout.is_some());
}

#[test]
fn another_image_of_the_release_begins_a_record_anew() {
    let mut of = based("web:1");
    of.known.push("k".to_owned());
    of.failed.push("f".to_owned());
    (of.stopped, of.image) = (true, "web:1@x".to_owned());
    let pinned = format!("web:2@{}", digest("c"));
    rebase(&mut of, &pinned, &ImageReference::parse(&pinned).unwrap());
    assert_eq!(
        (of.requested.as_str(), of.current.to_string()),
        (pinned.as_str(), format!("2@{}", digest("c")))
    );
    assert_eq!((of.known.len(), of.failed.len(), of.stopped), (0, 1, false));
    let before = of.clone();
    rebase(&mut of, &pinned, &ImageReference::parse(&pinned).unwrap());
    assert_eq!(of, before);
}

#[test]
fn a_rollout_is_one_patch_with_its_record_and_can_be_taken_back() {
    let mut checked = workload("web:1");
    let container = containers(&checked.object).remove(0);
    let image = ImageReference::parse("web:1").unwrap();
    let mut of = based("web:1");
    of.current.digest = digest("a");
    let new = TagDigest { tag: "1".to_owned(), digest: digest("b") };
    let (note, text) = take(&mut of, Decision::RollOut(new), &container, &image, Timestamp::UNIX_EPOCH);
    let text = text.unwrap();
    assert_eq!((note, text.as_str()), (None, format!("web:1@{}", digest("b")).as_str()));
    assert_eq!((&of.known, of.rollout.is_some()), (&vec![digest("a")], true));
    let mut record = RolloutRecord::from([("main".to_owned(), of)]);
    let patch = checked.patch(&record, &[(container, text.clone())]);
    assert_eq!(
        patch["spec"],
        json!({"template": {"spec": {"containers": [{"name": "main", "image": text}]}}})
    );
    assert_eq!(patch["metadata"]["annotations"][REQUESTED_IMAGES], r#"{"main":"web:1"}"#);
    assert_eq!(
        (&patch["metadata"]["uid"], &patch["metadata"]["resourceVersion"]),
        (&json!("u"), &json!("7"))
    );
    // Its Pods do not become ready.
    checked.object["spec"]["template"]["spec"]["containers"][0]["image"] = text.into();
    let mut result = CheckResult::default();
    let back = fail(&checked, &mut record, "too late", &mut result);
    assert_eq!(
        back.iter().map(|(_, image)| image.as_str()).collect::<Vec<_>>(),
        [format!("web:1@{}", digest("a"))]
    );
    let of = &record["main"];
    assert_eq!((&of.current.digest, &of.failed, of.known.len()), (&digest("a"), &vec![digest("b")], 0));
    assert!(
        result.reports[0].note.contains("did not become ready: too late; web:1@sha256:aaa"),
        "{:?}",
        result.reports
    );
    let asked = &checked.patch(&record, &back)["metadata"]["annotations"][REQUESTED_IMAGES];
    assert_eq!(asked, r#"{"main":"web:1"}"#, "the release leaves it, too");
}

#[test]
fn news_are_said_once() {
    let checked = workload("web:1");
    let container = containers(&checked.object).remove(0);
    let image = ImageReference::parse("web:1").unwrap();
    let mut of = based("web:1");
    let waiting =
        || Decision::Wait(WaitingImage { reason: "it waits".to_owned(), ..WaitingImage::default() });
    let mut say =
        |decision| take(&mut of, decision, &container, &image, Timestamp::UNIX_EPOCH).0.map(|(_, note)| note);
    assert!(say(waiting()).unwrap().contains("it waits"));
    assert_eq!(say(waiting()), None);
    let same = TagDigest { tag: "1.0".to_owned(), digest: digest("a") };
    let note = say(Decision::SameImage(same)).unwrap();
    assert_eq!(note, "the tag 1.0 is the image that runs as 1: nothing is rolled out");
    assert_eq!(say(Decision::UpToDate), None);
}

/// After a restart nobody knows whose release it is until the first pass over its object: what was begun for it goes on.
#[test]
fn a_rollout_of_a_release_waits_for_its_object() {
    let now = Timestamp::now();
    let text = |policy: &str, since: Timestamp| {
        json!({"main": {"releasePolicy": policy, "rollout": {"since": since}}}).to_string()
    };
    let long_ago = later(now, Duration::ZERO) - UNKNOWN_LIMIT;
    for (policy, since, is_known, keel, waits) in [
        ("force of HelmRelease n/web", now, false, None, true),
        ("force of HelmRelease n/web", now, true, None, false),
        ("force of HelmRelease n/web", long_ago, false, None, false),
        ("force of HelmRelease n/web", now, false, Some("force"), false),
        ("", now, false, None, false),
    ] {
        let annotations = json!({IMAGE_RECORD: text(policy, since), "keel.sh/policy": keel});
        let object = json!({"metadata": {"annotations": annotations}});
        let reference = ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("n"), "web");
        let inherited = Inherited { is_known, ..Inherited::default() };
        let checked = Checked::of(&reference, object, inherited);
        assert_eq!(checked.awaits_object(now), waits, "{policy} {since} {is_known} {keel:?}");
    }
}
