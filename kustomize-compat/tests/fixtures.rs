//! The cases of `fixtures/post-render` beside what kustomize answers (`make fixtures` records it).

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use support::{cases, first_difference};

use chart_compat::data::Data;
use chart_compat::yaml;
use kustomize_compat::Error;
use kustomize_compat::build::{Kustomization, add_metadata};
use kustomize_compat::patch::Patch;
use kustomize_compat::selector::Selector;
use kustomize_compat::transform::images::Image;

fn text(data: &Data, key: &str) -> String {
    data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned()
}

fn items<'d>(data: &'d Data, key: &str) -> &'d [Data] {
    data.get(key).and_then(Data::as_list).unwrap_or_default()
}

fn pairs(data: &Data, key: &str) -> BTreeMap<String, String> {
    let map = data.get(key).and_then(Data::as_map).cloned().unwrap_or_default();
    map.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())).collect()
}

fn patch(data: &Data) -> Patch {
    let selector = |target: &Data| Selector {
        group: text(target, "group"),
        version: text(target, "version"),
        kind: text(target, "kind"),
        name: text(target, "name"),
        namespace: text(target, "namespace"),
        label_selector: text(target, "labelSelector"),
        annotation_selector: text(target, "annotationSelector"),
    };
    Patch { text: text(data, "patch"), target: data.get("target").map(selector) }
}

fn image(data: &Data) -> Image {
    Image {
        name: text(data, "name"),
        new_name: text(data, "newName"),
        new_tag: text(data, "newTag"),
        digest: text(data, "digest"),
    }
}

fn run(settings: &Data, input: &str) -> Result<String, Error> {
    let mut stream = input.to_owned();
    for renderer in items(settings, "postRenderers") {
        let kustomize = renderer.get("kustomize").cloned().unwrap_or_default();
        let kustomization = Kustomization {
            file: "helm-output.yaml".to_owned(),
            patches: items(&kustomize, "patches").iter().map(patch).collect(),
            images: items(&kustomize, "images").iter().map(image).collect(),
        };
        stream = kustomization.build(&stream)?;
    }
    if let Some(common) = settings.get("commonMetadata") {
        stream = add_metadata(&stream, &pairs(common, "labels"), &pairs(common, "annotations"))?;
    }
    if settings.get("originLabels").is_some() {
        stream = add_metadata(&stream, &pairs(settings, "originLabels"), &BTreeMap::new())?;
    }
    Ok(stream)
}

/// What is wrong with a case.
fn differs(dir: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
    let settings = yaml::from_slice(read("renderers.yaml").unwrap().as_bytes()).unwrap();
    let ours = run(&settings, &read("input.yaml")?);
    let name = dir.file_name().unwrap().to_str().unwrap();
    match (read("expected.yaml"), read("expected.err"), ours) {
        (Some(expected), None, Ok(ours)) if ours == expected => None,
        (Some(expected), None, Ok(ours)) => Some(format!("{name}: {}", first_difference(&expected, &ours))),
        (Some(expected), None, Err(e)) => Some(format!("{name}: expected\n{expected}\nbut fails: {e}")),
        (None, Some(expected), Err(ours)) => {
            let ours = format!("{ours}\n");
            // An object that has no form in JSON is shown as Go's value before the reason.
            let same = expected == ours
                || expected.starts_with("map[string]interface {}{") && expected.ends_with(&ours);
            (!same).then(|| format!("{name}: expected error\n{expected}\nbut is\n{ours}"))
        }
        (None, Some(expected), Ok(ours)) => {
            Some(format!("{name}: expected error\n{expected}\nbut is\n{ours}"))
        }
        _ => Some(format!("{name}: no answer is recorded")),
    }
}

#[test]
fn cases_give_what_kustomize_gives() {
    let dirs = cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/post-render"), "input.yaml");
    assert!(dirs.len() > 130, "{} cases", dirs.len());
    let wrong: Vec<String> = dirs.iter().filter_map(|dir| differs(dir)).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), dirs.len(), wrong.join("\n"));
}

/// More cases, such as generated ones, in the folder that `CASES` names: their answers are recorded by tests/tools/postrender.
#[test]
#[ignore = "needs cases that are recorded"]
fn cases_of_a_folder_give_what_kustomize_gives() {
    let dirs = cases(Path::new(&std::env::var("CASES").unwrap()), "input.yaml");
    let wrong: Vec<String> = dirs.iter().filter_map(|dir| differs(dir)).collect();
    println!("{} of {} differ", wrong.len(), dirs.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
