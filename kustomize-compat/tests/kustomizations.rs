//! The cases of `fixtures/kustomize` beside what kustomize answers (`make fixtures` records it).
//!
//! A case is one text: its first line is the command, and each file follows its name between `--`. The files lie in memory: the
//! crate reads no other ones.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail like the tests"
)]

mod support;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use support::{cases, first_difference};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kustomize_compat::load::{Place, World, join};
use kustomize_compat::target::{Options, build};

/// Where the files of a case lie, in their world and in the recorded answers.
const ROOT: &str = "/{root}";

/// Cases whose errors kustomize words with what nobody can know: an address in memory.
const OTHER_WORDS: [&str; 2] = ["validator-that-changes", "validator-that-marks"];

/// How an error may be worded otherwise: the README's deviations.
const DEVIATIONS: [(&str, &str); 3] = [
    ("merging from generator &{", "addresses in memory"),
    ("panic: ", "crashes of kustomize"),
    ("internal.config.kubernetes.io/refBy", "referrers in an object's annotations"),
];

#[derive(Default)]
struct Memory(BTreeMap<String, Vec<u8>>, RefCell<Vec<String>>);

impl Memory {
    fn is_directory(&self, path: &str) -> bool {
        path == "/"
            || self.0.keys().any(|file| file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/')))
    }
}

impl World for Memory {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).cloned().ok_or_else(|| format!("open {path}: no such file or directory"))
    }

    fn resolve(&self, path: &str) -> Result<Place, String> {
        let path = join(path, ".");
        if self.is_directory(&path) {
            return Ok(Place::Directory(path));
        }
        if self.0.contains_key(&path) {
            let (directory, name) = path.rsplit_once('/').unwrap();
            return Ok(Place::File { directory: directory.to_owned(), name: name.to_owned() });
        }
        // Go names the first part of a path that is missing.
        let mut ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0).chain([path.len()]);
        let missing = ends.find(|at| !self.is_directory(&path[..*at])).unwrap();
        Err(format!("lstat {}: no such file or directory", &path[..missing]))
    }

    fn hint(&self, line: &str) {
        self.1.borrow_mut().push(line.replace(ROOT, "{root}"));
    }
}

/// The command and the files of a case.
fn read_case(text: &str) -> (String, Memory) {
    let (command, rest) = text.split_once('\n').unwrap();
    let mut memory = Memory::default();
    let mut parts: Vec<(String, String)> = Vec::new();
    for line in rest.split_inclusive('\n') {
        let header = line.trim_end().strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
        match (header, parts.last_mut()) {
            (Some(header), _) => parts.push((header.to_owned(), String::new())),
            (None, Some((_, body))) => body.push_str(line),
            (None, None) => panic!("text before the first file"),
        }
    }
    for (header, body) in parts {
        let (name, kind) = header.split_once(' ').unwrap_or((&header, ""));
        let content = match kind {
            "base64" => STANDARD.decode(body.trim()).unwrap(),
            "without-line-feed" => body.strip_suffix('\n').unwrap_or(&body).as_bytes().to_vec(),
            _ => body.into_bytes(),
        };
        memory.0.insert(format!("{ROOT}/{name}"), content);
    }
    (command.to_owned(), memory)
}

fn run(command: &str, memory: &Memory) -> Result<String, String> {
    let mut options = Options::default();
    let mut words = command.split_whitespace().skip(1);
    let mut directory = ".";
    while let Some(word) = words.next() {
        match word {
            "--load-restrictor" => options.unrestricted = words.next() == Some("LoadRestrictionsNone"),
            "--reorder" => options.keep_order = words.next() == Some("none"),
            other => directory = other,
        }
    }
    build(memory, &join(ROOT, directory), &options)
        .map_err(|e| format!("Error: {e}\n").replace(ROOT, "{root}"))
}

/// Which deviation explains that an error has other words.
fn deviation(expected: &str) -> Option<&'static str> {
    DEVIATIONS.iter().find(|(part, _)| expected.contains(part)).map(|(_, name)| *name)
}

/// What is wrong with a case.
fn differs(dir: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).ok();
    let name = dir.file_name().unwrap().to_str().unwrap();
    let (command, memory) = read_case(&read("files.txt").unwrap());
    match (read("expected.yaml"), read("expected.err"), run(&command, &memory)) {
        (Some(expected), None, Ok(ours)) if ours == expected => None,
        (None, Some(expected), Err(ours)) if ours == expected || OTHER_WORDS.contains(&name) => None,
        (None, Some(expected), Err(_)) if deviation(&expected).is_some() => None,
        (Some(expected), None, Ok(ours)) => Some(format!("{name}: {}", first_difference(&expected, &ours))),
        (Some(expected), None, Err(e)) => Some(format!("{name}: expected\n{expected}\nbut fails: {e}")),
        (None, Some(expected), ours) => Some(format!("{name}: expected error\n{expected}\nbut is\n{ours:?}")),
        _ => Some(format!("{name}: no answer is recorded")),
    }
}

fn check(folder: &str, least: usize) {
    let dirs = cases(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(folder), "files.txt");
    assert!(dirs.len() >= least, "{} cases", dirs.len());
    let wrong: Vec<String> = dirs.iter().filter_map(|dir| differs(dir)).collect();
    assert!(wrong.is_empty(), "{} of {} differ\n{}", wrong.len(), dirs.len(), wrong.join("\n"));
}

#[test]
fn cases_give_what_kustomize_gives() {
    check("kustomize", 80);
}

/// Random cases of a fixed seed.
#[test]
fn generated_cases_give_what_kustomize_gives() {
    check("kustomize-generated", 100);
}

/// What is far larger or deeper than its text ends in an error, and not in memory or on the stack.
#[test]
fn builds_are_bounded() {
    let path = |delimiter: &str| vec!["a"; 20_000].join(delimiter);
    let config = "-- o.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {x: {y: z}}\n";
    let transformer = |kind: &str, fields: &str| {
        let head = format!("apiVersion: builtin\nkind: {kind}\nmetadata: {{name: t}}\n");
        ("transformers: [t.yaml]\n".to_owned(), format!("-- t.yaml --\n{head}{fields}\n"))
    };
    let copies = "{source: {kind: ConfigMap, fieldPath: data}, targets: [{select: {kind: ConfigMap}, fieldPaths: [PATH], options: \
                  {create: true}}]}"
        .replace("PATH", &format!("data{}", ".b".repeat(100)));
    let alias = |name: &str| {
        let text = "x".repeat(50_000);
        let list = vec!["*a"; 400].join(", ");
        format!(
            "-- {name} --\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\na: &a {text}\nb: [{list}]\n"
        )
    };
    let long_path = "a path of 20000 parts; one has at most 500";
    let many: String = (0..1_000)
        .map(|at| format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s{at}}}\n"))
        .collect();
    let patch = format!("data: {{k: {}}}\n", "x".repeat(1 << 20));
    let long = "x".repeat(1 << 20);
    let large = "patches and transformers make objects larger by more than 512 MiB";
    let of_many = |fields: String| {
        ((format!("resources: [m.yaml]\n{fields}\n"), format!("-- m.yaml --\n{many}")), large)
    };
    let containers = "{image: a}, ".repeat(1_000);
    let pods = format!(
        "-- p.yaml --\napiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{containers}]}}\n"
    );
    // No base makes too much by itself.
    let base = |at: usize| {
        let text = format!("namePrefix: {}\nnameSuffix: -s{at}\nresources: [m.yaml]\n", &long[..200 << 10]);
        format!("-- b{at}/m.yaml --\n{many}-- b{at}/kustomization.yaml --\n{text}")
    };
    let bases: String = (0..4).map(base).collect();
    // Each doubles what was there; a text of 200 kB goes to 20,000 places.
    let copied: String = (0..15).map(|n| format!("- {{op: copy, from: /m, path: /m/c{n}}}\n")).collect();
    let text = "x".repeat(200_000);
    let doubled = format!(
        "-- m.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\nm: {{t: {text}}}\n-- p.yaml --\n{copied}"
    );
    let places = "{v: 1}, ".repeat(20_000);
    let json = "{\"v\": 1}, ".repeat(20_000);
    let spread = |path: &str, target: &str| {
        let source = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: s}}\ndata: {{t: {text}}}\n");
        let target = format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: t}}\n{target}");
        (
            format!(
                "resources: [m.yaml]\nreplacements: [{{source: {{kind: ConfigMap, fieldPath: data.t}}, targets: [{{select: {{kind: \
                 Secret}}, fieldPaths: [{path}]}}]}}]\n"
            ),
            format!("-- m.yaml --\n{source}---\n{target}"),
        )
    };
    let table: [((String, String), &str); 17] = [
        (
            (
                "resources: [m.yaml]\npatches: [{path: p.yaml, target: {kind: ConfigMap}}]\n".to_owned(),
                doubled,
            ),
            "copy operations add more than 32 MiB of text",
        ),
        (spread("spec.l.*.v", &format!("spec: {{l: [{places}]}}\n")), large),
        (
            spread("spec.j.l.*.v", &format!("spec: {{j: '{{\"l\": [{}]}}'}}\n", json.trim_end_matches(", "))),
            large,
        ),
        of_many(format!("namePrefix: {long}")),
        of_many(format!("commonLabels: {{a: {long}}}")),
        of_many(format!("commonAnnotations: {{a: {long}}}")),
        of_many(format!("namespace: {long}")),
        ((format!("resources: [p.yaml]\nimages: [{{name: a, newName: {long}}}]\n"), pods), large),
        (("resources: [b0, b1, b2, b3]\n".to_owned(), bases), large),
        (
            (
                format!(
                    "replacements: [{{sourceValue: v, targets: [{{select: {{kind: ConfigMap}}, fieldPaths: [{}], options: {{create: \
                     true}}}}]}}]\n",
                    path(".")
                ),
                String::new(),
            ),
            long_path,
        ),
        (
            (
                format!("labels: [{{pairs: {{l: v}}, fields: [{{path: {}, create: true}}]}}]\n", path("/")),
                String::new(),
            ),
            long_path,
        ),
        (
            transformer(
                "PrefixTransformer",
                &format!("prefix: p\nfieldSpecs: [{{path: {}, create: true}}]", path("/")),
            ),
            long_path,
        ),
        (
            transformer("ValueAddTransformer", &format!("value: v\ntargets: [{{fieldPath: {}}}]", path("/"))),
            long_path,
        ),
        (
            (format!("replacements: [{}]\n", vec![copies; 8].join(", ")), String::new()),
            "replacements make an object that is deeper than 500",
        ),
        (
            ("resources: [a.yaml, b.yaml]\n".to_owned(), alias("a.yaml") + &alias("b.yaml")),
            "accumulating resources from 'b.yaml': the aliases add more than 32 MiB to the document",
        ),
        (
            (
                "resources: [m.yaml]\npatches: [{target: {kind: Secret}, path: p.yaml}]\n".to_owned(),
                format!(
                    "-- m.yaml --\n{many}-- p.yaml --\napiVersion: v1\nkind: Secret\nmetadata: {{name: x}}\n{patch}"
                ),
            ),
            large,
        ),
        (
            ("patches: [{path: a.yaml}, {path: b.yaml}]\n".to_owned(), alias("a.yaml") + &alias("b.yaml")),
            "[path: \"b.yaml\"]: the aliases add more than 32 MiB to the document",
        ),
    ];
    for ((text, files), expected) in table {
        let resources = if text.starts_with("resources") { "" } else { "resources: [o.yaml]\n" };
        let case = format!("build .\n{config}{files}-- kustomization.yaml --\n{resources}{text}");
        let told = run("build .", &read_case(&case).1).unwrap_err();
        assert!(
            told.contains(expected),
            "{}: {}",
            &text[..text.len().min(80)],
            &told[..told.len().min(2000)]
        );
    }
}

/// What kustomize says nothing of: the output is the same.
#[test]
fn silent_mistakes_are_hinted_at() {
    let web = "-- objects.yaml --\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n---\napiVersion: example.com/v1\nkind: \
               Gateway\nmetadata: {name: gate}\nspec: {tls: {secretName: key}, config: {configMapRef: {name: settings}}}\n";
    let table: [(&str, &[&str]); 6] = [
        (
            "resources: [objects.yaml]\npatches: [{target: {kind: Deployment, name: wbe}, patch: '[{\"op\":\"add\",\"path\":\"/a\",\"value\":\"b\"}]'}]\n",
            &[
                "{root}/kustomization.yaml: patches[0] changes nothing: no object matches {kind: Deployment, name: wbe}; Deployment \"web\" is \
               the nearest, but for its name",
            ],
        ),
        (
            "resources: [objects.yaml]\npatches: [{target: {kind: Deployment, labelSelector: a=b}, patch: '{kind: A, apiVersion: v1, \
             metadata: {name: x}}'}]\n",
            &[
                "{root}/kustomization.yaml: patches[0] changes nothing: no object matches {kind: Deployment, labelSelector: a=b}; Deployment \
               \"web\" is the nearest, but for its labels",
            ],
        ),
        (
            "resources: [objects.yaml]\nsecretGenerator: [{name: key, literals: [a=b]}, {name: other}]\nconfigMapGenerator: [{name: settings, \
             options: {disableNameSuffixHash: true}}]\n",
            &[
                "Gateway \"gate\": spec/tls/secretName names Secret \"key\", which is \"key-k695gkmbtk\" in the output; a file of \
               'configurations' makes it follow: nameReference: [{kind: Secret, version: v1, fieldSpecs: [{kind: Gateway, path: \
               spec/tls/secretName}]}]",
            ],
        ),
        (
            "bases: [objects.yaml]\n",
            &["{root}/kustomization.yaml: write 'bases' as resources: [\"objects.yaml\"]"],
        ),
        (
            "resources: [objects.yaml]\npatches: [{target: {kind: Deployment}, patch: '[{\"op\":\"add\",\"path\":\"/a\",\"value\":\"b\"}]'}]\n",
            &[],
        ),
        ("resources: [objects.yaml]\nnameSuffix: -x\nconfigMapGenerator: [{name: unused}]\n", &[]),
    ];
    for (text, expected) in table {
        let (_, memory) = read_case(&format!("build .\n{web}-- kustomization.yaml --\n{text}"));
        run("build .", &memory).unwrap();
        assert_eq!(*memory.1.borrow(), expected, "{text}");
    }
}

/// What kustomize's errors and replacements leave out: the errors and the output are the same.
#[test]
fn failures_are_hinted_at() {
    let map = "-- cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: config, namespace: prod}\n";
    let table: [(&str, &str, &[&str]); 10] = [
        (
            "resources: [cm.yaml]\nreplacements: [{path: good.yaml}, {path: bad.yaml}]\n",
            "-- good.yaml --\nsourceValue: x\ntargets: [{select: {kind: ConfigMap}, fieldPaths: [data.x], options: {create: true}}]\n\
             -- bad.yaml --\n- source: {value: team-a, kind: Secret}\n  target: []\n  targets: [{select: {kind: ConfigMap, nmae: x}}]\n",
            &[
                "{root}/kustomization.yaml: replacements[1] (bad.yaml, item 0) is the replacement that fails: nothing selected by \
               Secret.[noVer].[noGrp]/[noName].[noNs]; source.value is unknown: there are group, version, kind, name, namespace, \
               fieldPath, options; target is unknown: there are source, targets, sourceValue, path; targets[0].select.nmae is unknown: \
               there are group, version, kind, name, namespace, annotationSelector, labelSelector",
            ],
        ),
        (
            "resources: [cm.yaml]\nreplacements: [{source: {kind: ConfigMap, name: nope}, targets: [{select: {kind: ConfigMap}}]}]\n",
            "",
            &[
                "{root}/kustomization.yaml: replacements[0] is the replacement that fails: nothing selected by \
               ConfigMap.[noVer].[noGrp]/nope.[noNs]",
            ],
        ),
        (
            "resources: [cm.yaml]\ntransformers: [t.yaml]\n",
            "-- t.yaml --\napiVersion: builtin\nkind: ReplacementTransformer\nmetadata: {name: ns}\nreplacements:\n- source: {value: a}\n  \
             targets: [{select: {kind: Secret}}, {}]\n",
            &[
                "{root}/kustomization.yaml: t.yaml: ReplacementTransformer \"ns\": replacements[0] is the replacement that fails: target must \
               specify resources to select; source.value is unknown: there are group, version, kind, name, namespace, fieldPath, options",
            ],
        ),
        (
            "configMapGenerator: [{name: s, options: {disableNameSuffixHash: true}, literals: ['app.yaml=image: a/b', 'p=a/b']}]\n\
             replacements: [{sourceValue: x, targets: [{select: {kind: ConfigMap}, fieldPaths: [data.app\\.yaml.image, data.p], options: \
             {delimiter: /, index: 1}}]}]\n",
            "",
            &[
                "{root}/kustomization.yaml: replacements[0]: delimiter and index of options do not count for \"data.app\\\\.yaml.image\", a \
               field inside of a text: its whole value is replaced",
            ],
        ),
        (
            "namespace: prod\nresources: [cm.yaml]\nconfigMapGenerator: [{name: other}, {name: conf, behavior: replace}]\n",
            "",
            &[
                "{root}/kustomization.yaml: configMapGenerator[1] with behavior replace needs ConfigMap \"conf\" among the resources; \
               ConfigMap \"config\" of namespace \"prod\" is the nearest, but for its name and namespace; a generator gets its namespace \
               by a field of its own, before that of the kustomization counts",
            ],
        ),
        (
            "resources: [cm.yaml]\nsecretGenerator: [{name: conf, behavior: merge}]\n",
            "",
            &[
                "{root}/kustomization.yaml: secretGenerator[0] with behavior merge needs Secret \"conf\" among the resources; there is no \
               Secret among them",
            ],
        ),
        (
            "resources: [cm.yaml]\npatches: [{path: p.yaml}]\n",
            "-- p.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: config\ndata:\n\ta: b\n",
            &[
                "{root}/kustomization.yaml: patches[0] (p.yaml) is not a patch: line 6 is indented with a tab, which YAML does not allow",
            ],
        ),
        (
            "resources: [cm.yaml]\npatches: [{path: p.yaml}]\n",
            "-- p.yaml --\nkind: ConfigMap\ndata: {}\n",
            &[
                "{root}/kustomization.yaml: patches[0] (p.yaml) is not a patch: metadata.name is missing; a strategic merge patch names kind \
               and object",
            ],
        ),
        (
            "resources: [cm.yaml]\npatches: [{target: {kind: ConfigMap}, patch: '[\"a\"]'}]\n",
            "",
            &[
                "{root}/kustomization.yaml: patches[0] is not a patch: item 0 of the list is not an operation, which is a map of op and path",
            ],
        ),
        (
            "resources: [cm.yaml]\npatchesJson6902: [{target: {version: v1, kind: ConfigMap, name: config}, patch: '[\"a\"]'}]\n",
            "",
            &[
                "{root}/kustomization.yaml: patchesJson6902[0] is not a patch: item 0 of the list is not an operation, which is a map of \
               op and path",
            ],
        ),
    ];
    for (text, files, expected) in table {
        let (_, memory) = read_case(&format!("build .\n-- kustomization.yaml --\n{text}{map}{files}"));
        let built = run("build .", &memory);
        assert_eq!(built.is_ok(), text.contains("disableNameSuffixHash"), "{text}");
        let hints = memory.1.borrow();
        // Rewrites of deprecated fields have hints of their own.
        let ours: Vec<&String> = hints.iter().filter(|hint| !hint.contains("'patchesJson6902'")).collect();
        assert_eq!(ours, expected, "{text}");
    }
}

/// More cases, such as generated ones, in the folder that `CASES` names: their answers are recorded by tests/tools/kustomize.
#[test]
#[ignore = "needs cases that are recorded"]
fn cases_of_a_folder_give_what_kustomize_gives() {
    let dirs = cases(Path::new(&std::env::var("CASES").unwrap()), "files.txt");
    let wrong: Vec<String> = dirs.iter().filter_map(|dir| differs(dir)).collect();
    let errors: Vec<String> =
        dirs.iter().filter_map(|dir| fs::read_to_string(dir.join("expected.err")).ok()).collect();
    println!(
        "{} of {} differ; {} outputs, {} errors",
        wrong.len(),
        dirs.len(),
        dirs.len() - errors.len(),
        errors.len()
    );
    for (_, name) in DEVIATIONS {
        println!(
            "{} errors in other words: {name}",
            errors.iter().filter(|e| deviation(e) == Some(name)).count()
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
