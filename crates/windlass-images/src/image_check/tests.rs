//! Records and patches of a check.

use super::*;

fn digest(letter: &str) -> String {
    format!("sha256:{}", letter.repeat(64))
}

fn workload(image: &str) -> Checked {
    let object = json!({
        "metadata": {"uid": "u", "resourceVersion": "7", "annotations": {"keel.sh/policy": "force"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}, {"name": "side", "image": "s:1"}]}}},
    });
    Checked::of(&ObjectRef::new(Gvk::new("apps/v1", "Deployment"), Some("n"), "web"), object)
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
        assert_eq!(
            baseline(&of, &running, &found("b", platforms)),
            digest(expected),
            "{recorded} {running:?}"
        );
    }
    // Before a tag moves, nothing is known of the digest that runs.
    let mut of = based("web:0");
    of.current.digest = String::new();
    assert_eq!(baseline(&of, &[], &found("b", &[])), "");
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
    assert_eq!(back.iter().map(|(_, image)| image.as_str()).collect::<Vec<_>>(), ["web:1"]);
    let of = &record["main"];
    assert_eq!((&of.current.digest, &of.failed, of.known.len()), (&digest("a"), &vec![digest("b")], 0));
    assert!(
        result.reports[0].note.contains("did not become ready: too late; web:1 is back"),
        "{:?}",
        result.reports
    );
    assert_eq!(checked.patch(&record, &back)["metadata"]["annotations"][REQUESTED_IMAGES], Value::Null);
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
