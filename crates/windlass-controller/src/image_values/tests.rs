//! Paths of images, their overrides and where those count, as tables.

use super::*;
use chart_compat::chart::Chart;
use chart_compat::profile::Profile;
use chart_compat::yaml::from_slice_map;
use serde_json::json;

fn map(text: &str) -> Map {
    from_slice_map(text.as_bytes()).unwrap()
}

/// A chart with default values.
fn chart(values: &str) -> CompiledChart {
    let mut chart = Chart { values: std::sync::Arc::new(map(values)), ..Chart::default() };
    (chart.metadata.name, chart.metadata.app_version) = ("web".to_owned(), "7".to_owned());
    CompiledChart::new(chart, Profile::Helm4)
}

fn annotations(values: &str, overrides: Option<&ImageOverrides>) -> ImageAnnotations {
    let mut all = json!({});
    if !values.is_empty() {
        all[IMAGE_VALUES] = values.into();
    }
    if let Some(overrides) = overrides {
        all[IMAGE_OVERRIDES] = json!(overrides).to_string().into();
    }
    ImageAnnotations::of(ObjectMeta::of(&json!({"metadata": {"annotations": all}})))
}

fn json_text(values: &Map) -> String {
    windlass_render::to_json(&Data::Map(values.clone())).to_string()
}

#[test]
fn paths_are_read() {
    let of = |tag: &str, repository: Option<&str>, digest: Option<&str>| ImagePaths {
        tag: tag.to_owned(),
        repository: repository.map(str::to_owned),
        digest: digest.map(str::to_owned),
    };
    let list = ImagePaths::list("image.tag, a.version=a.name , tag@digest, side.image, x.tag=y@z.d").unwrap();
    let expected = [
        of("image.tag", Some("image.repository"), None),
        of("a.version", Some("a.name"), None),
        of("tag", Some("repository"), Some("digest")),
        of("side.image", None, None),
        of("x.tag", Some("y"), Some("z.d")),
    ];
    assert_eq!(list, expected);
    for (text, part) in [
        ("", "it names no path"),
        (" , ", "it names no path"),
        ("a..b", "\"a..b\" is not a path"),
        ("a[0].tag", "\"a[0].tag\" is not a path"),
        ("image.tag=", "\"\" is not a path"),
        ("a.tag, a.tag", "the same path twice"),
        (&"a".repeat(300), "is not a path"),
        (&"a.".repeat(21), "is not a path"),
        (&(0..11).map(|n| format!("a{n},")).collect::<String>(), "11 images, more than 10"),
        (&"a, ".repeat(10_000), "bytes, more than"),
    ] {
        let error = ImagePaths::list(text).unwrap_err();
        assert!(error.contains(part), "{text:.40}: {error}");
    }
}

#[test]
fn images_are_read_of_computed_values() {
    let defaults = "{image: {registry: r.test, repository: team/web, tag: ''}, side: {image: 's:1'}, num: {repository: num, tag: 1.5}, \
                    d: {repository: d, tag: t, digest: 'sha256:0'}, list: {repository: l, tag: [1]}}";
    let chart = chart(defaults);
    for (paths, user, expected) in [
        ("image.tag", "{}", Ok("r.test/team/web:7")),
        ("image.tag", "{image: {tag: 3, registry: ''}}", Ok("team/web:3")),
        ("side.image", "{}", Ok("s:1")),
        ("num.tag", "{}", Ok("num:1.5")),
        ("d.tag@d.digest", "{}", Ok("d:t@sha256:0")),
        (
            "d.tag",
            "{d: {repository: null}}",
            Err("d.tag: the values name no image: d.repository is empty or absent"),
        ),
        ("gone", "{}", Err("gone: the values name no image: gone is empty or absent")),
        ("list.tag", "{}", Err("list.tag: the value list.tag is neither a text nor a number")),
        (
            "image..tag",
            "{}",
            Err(
                "windlass.dev/image-values: \"image..tag\" is not a path of keys in values, such as image.tag",
            ),
        ),
    ] {
        let mut values = map(user);
        let found = annotations(paths, None).apply(&mut values, &chart).unwrap();
        let image = found.images.values().next().map(|one| one.image.as_str());
        assert_eq!(image.ok_or_else(|| found.errors[0].as_str()), expected, "{paths} {user}");
        assert_eq!(values, map(user), "nothing is set");
        assert!(!found.is_empty());
    }
    let nothing = annotations("", None).apply(&mut map("{image: {tag: 1}}"), &chart).unwrap();
    assert!(nothing.is_empty());
}

#[test]
fn who_composes_no_values_refuses_images_in_them() {
    let refused = |paths| annotations(paths, None).refused("not here: do that");
    assert_eq!(refused("image.tag").errors, ["windlass.dev/image-values: not here: do that"]);
    assert!(refused("").is_empty());
}

#[test]
fn an_override_counts_while_the_values_name_its_base() {
    let paths = ImagePaths::list("image.tag@image.digest").unwrap().remove(0);
    let base = "team/web:1";
    let one = ImageOverride::new(&paths, base, ("team/web", "2", "sha256:2"));
    let all = ImageOverrides::from([("image.tag".to_owned(), one)]);
    let old = chart("{image: {repository: team/web, tag: 1}, port: 80}");
    let new = chart("{image: {repository: team/web, tag: 3}, port: 80}");
    let set = r#"{"image":{"digest":"sha256:2","tag":"2"}}"#;
    for (chart, user, expected, image) in [
        (&old, "{}", set, "team/web:2@sha256:2"),
        (&old, "{image: {tag: 1}}", set, "team/web:2@sha256:2"),
        // The user, or another chart, asks for another image.
        (&old, "{image: {tag: 5}}", r#"{"image":{"tag":5}}"#, "team/web:5"),
        (&old, "{image: {repository: other}}", r#"{"image":{"repository":"other"}}"#, "other:1"),
        (&new, "{}", "{}", "team/web:3"),
        (&new, "{image: {tag: '1'}}", set, "team/web:2@sha256:2"),
    ] {
        for followed in ["image.tag@image.digest", ""] {
            let mut values = map(user);
            let found = annotations(followed, Some(&all)).apply(&mut values, chart).unwrap();
            assert_eq!(json_text(&values), expected, "{user}");
            let read = found.images.get("image.tag").map(|one| one.image.as_str());
            assert_eq!(read, (!followed.is_empty()).then_some(image), "{user}");
        }
    }
}

#[test]
fn an_override_of_a_whole_image_is_pinned() {
    let paths = ImagePaths::list("side.image").unwrap().remove(0);
    assert!(paths.has_digest());
    let one = ImageOverride::new(&paths, "s:1", ("s", "2", "sha256:2"));
    let all = ImageOverrides::from([("side.image".to_owned(), one)]);
    let mut values = map("{}");
    let found =
        annotations("side.image", Some(&all)).apply(&mut values, &chart("{side: {image: 's:1'}}")).unwrap();
    assert_eq!(json_text(&values), r#"{"side":{"image":"s:2@sha256:2"}}"#);
    let value = &found.images["side.image"];
    assert_eq!((value.base.as_str(), value.image.as_str()), ("s:1", "s:2@sha256:2"));
    assert!(!ImagePaths::list("image.tag").unwrap()[0].has_digest());
}

#[test]
fn the_block_of_the_chart_names_images() {
    let chart = chart(
        "{image: {repository: team/web, tag: 1}, keel: {policy: minor, images: [{repository: image.repository, tag: image.tag}]}}",
    );
    let found = annotations("", None).apply(&mut map("{image: {tag: 2}}"), &chart).unwrap();
    assert_eq!(found.images["image.tag"].image, "team/web:2");
    assert_eq!(found.settings["keel.sh/policy"], "minor");
    // The user's values turn it off.
    assert!(annotations("", None).apply(&mut map("{keel: null}"), &chart).unwrap().is_empty());
}

/// What is written is read again, whatever the paths and images.
#[test]
fn as_many_overrides_as_there_may_be_are_read() {
    let path = |number: usize, name: &str| format!("{}{number}{name}", "a".repeat(MAX_PATH - 20));
    let name = format!("registry.example.com/{}", "b".repeat(200));
    let one = |number: usize| {
        let paths = ImagePaths {
            tag: path(number, "tag"),
            repository: Some(path(number, "repository")),
            digest: Some(path(number, "digest")),
        };
        let image = (name.as_str(), &*"t".repeat(128), &*format!("sha256:{}", "0".repeat(64)));
        let base = format!("{name}:{}", "s".repeat(128));
        (paths.tag.clone(), ImageOverride::new(&paths, &base, image))
    };
    let all: ImageOverrides = (0..MAX_IMAGES).map(one).collect();
    assert_eq!(annotations("", Some(&all)).overrides().unwrap(), all);
}

#[test]
fn overrides_that_cannot_be_read_are_errors() {
    let many: BTreeMap<String, serde_json::Value> =
        (0..11).map(|n| (format!("a{n}"), json!({"base": "x:1", "set": {}}))).collect();
    for (text, part) in [
        ("x", "expected value"),
        (r#"{"image.tag": {"base": "x:1", "set": {"other": "1"}}}"#, "image.tag: set: \"other\" is neither"),
        (r#"{"image.tag": {"base": "x:1", "set": {}, "more": 1}}"#, "unknown field"),
        (r#"{"a[0]": {"base": "x:1", "set": {}}}"#, "is not a path"),
        (&json!(many).to_string(), "11 images, more than 10"),
        (&" ".repeat(70_000), "bytes, more than"),
    ] {
        let object = json!({"metadata": {"annotations": {IMAGE_OVERRIDES: text}}});
        let error = ImageAnnotations::of(ObjectMeta::of(&object)).overrides().unwrap_err().to_string();
        assert!(
            error.contains(part) && error.contains("annotation windlass.dev/image-overrides: "),
            "{error}"
        );
    }
}
