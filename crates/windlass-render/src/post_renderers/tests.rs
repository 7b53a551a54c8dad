//! The charts of `fixtures/post-render`, compared with the manifests that Helm stores (`make fixtures` records them).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use chart_compat::chart::{File, load_files};
use chart_compat::data::{Data, Map};
use chart_compat::profile::Profile;
use chart_compat::render::{Capabilities, CompiledChart, Hook, Options, Release};
use chart_compat::template::Limits;
use chart_compat::yaml;
use kustomize_compat::selector::Selector;

use super::*;
use crate::{RenderBounds, SystemWorld, convert};

fn text(data: &Data, key: &str) -> String {
    data.get(key).and_then(Data::as_str).unwrap_or_default().to_owned()
}

fn pairs(data: &Data, key: &str) -> Option<BTreeMap<String, String>> {
    let map = data.get(key)?.as_map()?;
    Some(map.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap().to_owned())).collect())
}

fn items(data: Option<&Data>, key: &str) -> Vec<Data> {
    data.and_then(|d| d.get(key)).and_then(Data::as_list).unwrap_or_default().to_vec()
}

fn post_renderers(settings: &Data) -> Option<PostRenderers> {
    let patch = |p: &Data| Patch {
        text: text(p, "patch"),
        target: p.get("target").map(|t| Selector { kind: text(t, "kind"), ..Selector::default() }),
    };
    let image = |i: &Data| Image {
        name: text(i, "name"),
        new_name: text(i, "newName"),
        new_tag: text(i, "newTag"),
        digest: text(i, "digest"),
    };
    let kustomize = |r: &Data| KustomizePostRenderer {
        patches: items(r.get("kustomize"), "patches").iter().map(patch).collect(),
        images: items(r.get("kustomize"), "images").iter().map(image).collect(),
    };
    let common =
        |c: &Data| CommonMetadata { labels: pairs(c, "labels"), annotations: pairs(c, "annotations") };
    Some(PostRenderers {
        kustomize: items(Some(settings), "postRenderers").iter().map(kustomize).collect(),
        common_metadata: settings.get("commonMetadata").map(common),
        origin_labels: pairs(settings, "originLabels"),
        strategy: match text(settings, "strategy").as_str() {
            "" | "combined" => PostRenderStrategy::Combined,
            "nohooks" => PostRenderStrategy::NoHooks,
            "separate" => PostRenderStrategy::Separate,
            _ => return None,
        },
    })
}

/// What the chart of a case renders.
fn rendered(dir: &Path) -> Rendered {
    let mut files =
        vec![File::new("Chart.yaml".to_owned(), "{apiVersion: v2, name: c, version: 0.1.0}".as_bytes())];
    for entry in fs::read_dir(dir.join("templates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        files.push(File::new(format!("templates/{name}"), fs::read(&path).unwrap()));
    }
    let chart = load_files(files, Profile::Helm4, &mut |_| {}).unwrap();
    let options = Options {
        release: Release { name: "r".into(), namespace: "ns".into(), revision: 1, is_upgrade: false },
        capabilities: Capabilities::default(),
        skip_schema_validation: false,
        subchart_notes: false,
        limits: Limits::default(),
    };
    let compiled = CompiledChart::new(chart, Profile::Helm4);
    compiled.render(&Map::new(), &options, &SystemWorld::default(), &mut |_| {}).unwrap()
}

#[test]
fn charts_are_stored_as_helm_stores_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/post-render");
    let mut dirs: Vec<_> = fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    dirs.retain(|dir| dir.join("templates").exists());
    dirs.sort();
    let mut wrong = String::new();
    let mut run = 0;
    for dir in &dirs {
        let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
        let settings = yaml::from_slice(read("renderers.yaml").unwrap().as_bytes()).unwrap();
        // A strategy that does not exist has no value here.
        let Some(renderers) = post_renderers(&settings) else { continue };
        run += 1;
        let mut rendered = rendered(dir);
        let outcome = renderers.apply(&mut rendered);
        let ours = outcome.map_err(|error| error.text).map(|()| {
            let release = convert::release(&rendered, &RenderBounds::default()).unwrap();
            let mut hooks = String::new();
            for hook in &release.hooks {
                write!(hooks, "---\n# Source: {}\n{}\n", hook.path, hook.text).unwrap();
            }
            (release.manifest_text, hooks)
        });
        let expected = match read("expected.err") {
            Some(error) => Err(error.strip_suffix('\n').unwrap().to_owned()),
            None => Ok((read("expected.yaml").unwrap(), read("expected.hooks.yaml").unwrap())),
        };
        if ours != expected {
            write!(wrong, "{}\n expected {expected:?}\n   but is {ours:?}\n", dir.display()).unwrap();
        }
    }
    assert!(run > 25, "{run} charts");
    assert!(wrong.is_empty(), "{wrong}");
}

/// Objects as a template rendered them, each with whether it is a hook.
fn rendered_of(objects: &[(&str, bool)]) -> Rendered {
    let mut rendered = Rendered::default();
    for (number, (text, is_hook)) in objects.iter().enumerate() {
        let (source, head) = ("c/templates/x.yaml".to_owned(), yaml::head(text.as_bytes()).unwrap());
        let manifest = Manifest { source, text: (*text).to_owned(), head, number };
        match is_hook {
            true => rendered.hooks.push(Hook {
                manifest,
                events: Vec::new(),
                weight: 0,
                delete_policies: Vec::new(),
                output_log_policies: Vec::new(),
            }),
            false => rendered.manifests.push(manifest),
        }
    }
    rendered
}

#[test]
fn failures_have_hints_beside_the_text_of_the_tool() {
    let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: app}";
    let hook = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: app, annotations: {helm.sh/hook: pre-install}}";
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: dup}\ndata:\n  a: b\n  a: c";
    let image = KustomizePostRenderer {
        images: vec![Image { name: "x".to_owned(), new_tag: "2".to_owned(), ..Image::default() }],
        ..KustomizePostRenderer::default()
    };
    let patch = KustomizePostRenderer {
        patches: vec![Patch { text: "kind: ServiceAccount".to_owned(), target: None }],
        ..KustomizePostRenderer::default()
    };
    let failed = |objects: &[(&str, bool)], renderer: &KustomizePostRenderer, strategy| {
        let renderers =
            PostRenderers { kustomize: vec![renderer.clone()], strategy, ..PostRenderers::default() };
        renderers.apply(&mut rendered_of(objects)).err()
    };
    let both = [(account, false), (hook, true)];
    let error = failed(&both, &image, PostRenderStrategy::Combined).unwrap();
    assert!(error.text.contains("may not add resource with an already registered id"), "{error:?}");
    assert_eq!(error.hint, Some(PostRenderHint::HookAndManifest("ServiceAccount \"app\"".to_owned())));
    for strategy in [PostRenderStrategy::Separate, PostRenderStrategy::NoHooks] {
        assert_eq!(failed(&both, &image, strategy), None);
    }
    // Twice as a manifest is another mistake.
    let error = failed(&[(account, false), (account, false)], &image, PostRenderStrategy::Combined).unwrap();
    assert_eq!(error.hint, None);
    let error = failed(&[(account, false), (twice, false)], &image, PostRenderStrategy::Combined).unwrap();
    assert!(error.text.contains("already defined at line"), "{error:?}");
    let text = "ConfigMap \"dup\" of c/templates/x.yaml sets a key twice: Helm takes the last value, post-renderers refuse the object";
    assert_eq!(error.hint, Some(PostRenderHint::Text(text.to_owned())));
    let error = failed(&[(account, false)], &patch, PostRenderStrategy::Combined).unwrap();
    assert!(error.text.contains("unable to parse SM or JSON patch"), "{error:?}");
    let text =
        "patches[0] is not a patch: metadata.name is missing; a strategic merge patch names kind and object";
    assert_eq!(error.hint, Some(PostRenderHint::Text(text.to_owned())));
}
