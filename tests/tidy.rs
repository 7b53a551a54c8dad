//! House rules that a reader relies on: which module may know which, file sizes, module heads, the code map.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders, each with those that it may use besides itself. What is absent here is forbidden.
const RENDERER: [(&str, &[&str]); 20] = [
    ("data.rs", &[]),
    ("profile.rs", &[]),
    ("memory.rs", &[]),
    ("path.rs", &["data"]),
    ("tar_reader.rs", &[]),
    ("world.rs", &["data"]),
    ("go", &["data"]),
    ("json", &["data", "go"]),
    ("yaml", &["data", "go", "json", "memory", "path"]),
    ("kyaml.rs", &["yaml"]),
    ("values", &["data", "go", "json", "yaml"]),
    ("template", &["data", "go", "path", "world"]),
    ("sprig", &["data", "go", "json", "yaml", "template", "world", "values", "profile"]),
    ("certificate.rs", &["sprig", "world"]),
    ("chart", &["data", "go", "json", "memory", "path", "yaml", "profile", "tar_reader"]),
    (
        "render",
        &[
            "chart", "data", "go", "json", "kyaml", "memory", "path", "yaml", "profile", "sprig", "template",
            "world",
        ],
    ),
    ("functions.rs", &["go", "render", "sprig", "template"]),
    ("analysis", &["chart", "data", "memory", "path", "profile", "render", "template"]),
    (
        "lint",
        &[
            "analysis", "chart", "data", "explain", "go", "json", "path", "profile", "render", "template",
            "world", "yaml",
        ],
    ),
    ("explain", &["chart", "data", "path", "profile", "render", "template"]),
];

/// The same for kustomize's crate.
const KUSTOMIZE: [(&str, &[&str]); 16] = [
    ("error.rs", &[]),
    ("decode.rs", &[]),
    ("schema", &["error"]),
    ("resource", &["error", "schema"]),
    ("format.rs", &["error", "resource"]),
    ("selector", &["error", "resource", "schema"]),
    ("fieldspec", &["decode", "error", "resource"]),
    ("patch", &["error", "resource", "schema", "selector"]),
    ("load", &["error"]),
    ("transform", &["error", "fieldspec", "format", "load", "resource", "schema", "selector"]),
    ("kustomization", &["decode", "error", "fieldspec", "resource", "selector", "transform"]),
    ("generate", &["error", "kustomization", "load", "resource"]),
    ("refs", &["error", "fieldspec", "format", "kustomization", "resource", "schema"]),
    ("order.rs", &["error", "kustomization", "resource", "schema"]),
    (
        "target",
        &[
            "decode",
            "error",
            "fieldspec",
            "format",
            "generate",
            "kustomization",
            "load",
            "order",
            "patch",
            "refs",
            "resource",
            "schema",
            "selector",
            "transform",
        ],
    ),
    (
        "build.rs",
        &["error", "format", "load", "patch", "resource", "schema", "selector", "target", "transform"],
    ),
];

/// The same for the root package.
const ROOT: [(&str, &[&str]); 3] =
    [("preflight", &[]), ("runtime.rs", &[]), ("cli", &["preflight", "runtime"])];

/// The same for the engine: bottom-up, a folder knows only what stands above it.
const ENGINE: [(&str, &[&str]); 21] = [
    ("request.rs", &[]),
    ("client_apply", &[]),
    ("progress", &["request"]),
    ("objects", &["request"]),
    ("record", &["objects", "request"]),
    ("error.rs", &["client_apply", "objects", "record", "request"]),
    ("state", &["objects", "record", "request"]),
    ("deadline.rs", &["error"]),
    ("context.rs", &["deadline", "objects", "progress", "record", "request", "state"]),
    ("lock", &["context", "error", "progress", "record", "request"]),
    ("observe", &["context", "error", "lock", "objects", "record", "request", "state"]),
    ("operation.rs", &["context", "deadline", "error", "lock", "observe", "record", "request", "state"]),
    ("decide", &["error", "lock", "observe", "record", "request"]),
    ("plan", &["decide", "error", "objects", "record", "request", "state"]),
    ("outcome", &["decide", "objects", "record"]),
    (
        "prepared_plan.rs",
        &["context", "decide", "error", "lock", "objects", "observe", "outcome", "plan", "record", "request"],
    ),
    (
        "execute",
        &[
            "client_apply",
            "context",
            "deadline",
            "decide",
            "error",
            "objects",
            "observe",
            "operation",
            "outcome",
            "plan",
            "prepared_plan",
            "progress",
            "record",
            "request",
            "state",
        ],
    ),
    (
        "dry_run",
        &[
            "context",
            "decide",
            "error",
            "execute",
            "objects",
            "observe",
            "outcome",
            "plan",
            "prepared_plan",
            "record",
            "request",
        ],
    ),
    (
        "drift",
        &[
            "context",
            "deadline",
            "decide",
            "dry_run",
            "error",
            "execute",
            "objects",
            "observe",
            "operation",
            "outcome",
            "plan",
            "record",
            "request",
            "state",
        ],
    ),
    ("report", &["context", "decide", "error", "objects", "observe", "plan", "record", "request"]),
    (
        "engine",
        &[
            "context",
            "deadline",
            "decide",
            "drift",
            "dry_run",
            "error",
            "execute",
            "lock",
            "objects",
            "observe",
            "operation",
            "outcome",
            "plan",
            "progress",
            "record",
            "report",
            "request",
            "state",
        ],
    ),
];

/// The crate of the tests' helpers, which no other crate may ship.
const TESTING: &str = "windlass-testing";

/// Our crates, each with those of ours that it may depend on. Bottom-up: a crate knows only what stands above it.
const CRATES: [(&str, &[&str]); 22] = [
    ("chart-compat", &[]),
    ("kustomize-compat", &["chart-compat"]),
    ("api-types", &["chart-compat"]),
    ("windlass-base", &["chart-compat"]),
    ("helmfile-compat", &["chart-compat"]),
    ("windlass-charts", &["chart-compat"]),
    ("flux-api", &["api-types"]),
    ("windlass-cluster", &["chart-compat", "windlass-base"]),
    ("windlass-fetch", &["chart-compat", "windlass-base"]),
    ("windlass-engine", &["chart-compat", "windlass-base", "windlass-cluster"]),
    (
        "windlass-render",
        &[
            "chart-compat",
            "kustomize-compat",
            "windlass-base",
            "windlass-cluster",
            "windlass-engine",
            "windlass-fetch",
        ],
    ),
    (
        "windlass-controller",
        &["chart-compat", "windlass-base", "windlass-cluster", "windlass-engine", "windlass-render"],
    ),
    (
        "windlass-artifacts",
        &[
            "chart-compat",
            "flux-api",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
        ],
    ),
    (
        "windlass-configmaps",
        &[
            "api-types",
            "chart-compat",
            "flux-api",
            "windlass-artifacts",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-render",
        ],
    ),
    (
        "windlass-flux",
        &[
            "chart-compat",
            "flux-api",
            "windlass-artifacts",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
            "windlass-render",
        ],
    ),
    (
        "windlass-helmfile",
        &[
            "api-types",
            "chart-compat",
            "helmfile-compat",
            "kustomize-compat",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
            "windlass-render",
        ],
    ),
    (
        "windlass-helmcharts",
        &[
            "api-types",
            "chart-compat",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
            "windlass-render",
        ],
    ),
    (
        "windlass-chartresource",
        &[
            "api-types",
            "chart-compat",
            "windlass-base",
            "windlass-charts",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
            "windlass-render",
        ],
    ),
    ("windlass-reload", &["chart-compat", "windlass-base", "windlass-cluster", "windlass-controller"]),
    (
        "windlass-images",
        &[
            "api-types",
            "chart-compat",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
        ],
    ),
    (
        "windlass-modules",
        &[
            "chart-compat",
            "windlass-base",
            "windlass-cluster",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
            "windlass-render",
        ],
    ),
    (
        "windlass",
        &[
            "chart-compat",
            "flux-api",
            "helmfile-compat",
            "windlass-artifacts",
            "windlass-base",
            "windlass-chartresource",
            "windlass-charts",
            "windlass-cluster",
            "windlass-configmaps",
            "windlass-controller",
            "windlass-engine",
            "windlass-fetch",
            "windlass-flux",
            "windlass-helmcharts",
            "windlass-helmfile",
            "windlass-images",
            "windlass-modules",
            "windlass-reload",
            "windlass-render",
        ],
    ),
];

const MAX_LINES: usize = 1000;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of a crate of ours.
fn folder_of(name: &str) -> PathBuf {
    match name {
        "windlass" => root(),
        "chart-compat" | "kustomize-compat" => root().join(name),
        _ => root().join("crates").join(name),
    }
}

/// The source folders of all that is shipped, relative to the root.
fn shipped() -> Vec<String> {
    let folders = CRATES.iter().map(|(name, _)| folder_of(name).join("src"));
    folders.map(|path| relative(&path)).collect()
}

/// A path relative to the root.
fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned()
}

/// Whether a file holds tests alone.
fn is_tests(file: &Path) -> bool {
    file.ends_with("tests.rs") || file.parent().is_some_and(|parent| parent.ends_with("tests"))
}

/// The code of a file without its unit tests, which stand in `mod tests` blocks: a line of `}` ends each.
fn without_tests(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("#[cfg(test)]\nmod tests {") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        rest = rest.find("\n}\n").map_or("", |end| &rest[end + 3..]);
    }
    out + rest
}

/// All Rust files below a path, in order.
fn sources(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path).unwrap().map(|e| e.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|e| e == "rs") {
            found.push(entry);
        }
    }
    found
}

/// The top-level modules that a file uses by `crate::`: those of one path, or of each path in braces.
fn used(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for part in text.split("crate::").skip(1) {
        let Some(group) = part.strip_prefix('{') else {
            out.push(first_word(part));
            continue;
        };
        let (mut depth, mut start) = (0, 0);
        for (at, c) in group.char_indices() {
            match c {
                ',' | '}' if depth == 0 => {
                    out.push(first_word(group[start..at].trim_start()));
                    start = at + 1;
                    if c == '}' {
                        break;
                    }
                }
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
        }
    }
    out.retain(|name| name.starts_with(|c: char| c.is_lowercase()));
    out
}

fn first_word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn check_layers(base: &Path, layers: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (folder, allowed) in layers {
        let own = folder.trim_end_matches(".rs");
        for file in sources(&base.join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            // Tests may look further than the code that they test.
            if is_tests(&file) {
                continue;
            }
            for name in used(&without_tests(&text)) {
                if name != own && !allowed.contains(&name.as_str()) {
                    wrong.push(format!("{}: {own} must not know {name}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_renderer_keeps_its_layers() {
    check_layers(&root().join("chart-compat/src"), &RENDERER);
}

#[test]
fn kustomize_compat_keeps_its_layers() {
    check_layers(&root().join("kustomize-compat/src"), &KUSTOMIZE);
}

#[test]
fn the_root_package_keeps_its_layers() {
    check_layers(&root().join("src"), &ROOT);
}

#[test]
fn the_engine_keeps_its_layers() {
    let base = root().join("crates/windlass-engine/src");
    check_layers(&base, &ENGINE);
    for (at, (folder, allowed)) in ENGINE.iter().enumerate() {
        let below =
            |name: &&str| ENGINE[..at].iter().any(|(other, _)| other.trim_end_matches(".rs") == *name);
        assert!(allowed.iter().all(below), "{folder} may know only what stands above it");
    }
    let mut wrong = Vec::new();
    let mut methods = 0;
    for file in sources(&base).iter().filter(|file| !is_tests(file)) {
        let code = without_tests(&fs::read_to_string(file).unwrap());
        let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let text = code.join("\n");
        // Through the crate's root a folder would reach all others.
        let by_root = text.split("crate::").skip(1).any(|part| part.starts_with(|c: char| c.is_uppercase()));
        if by_root && !file.ends_with("lib.rs") {
            wrong.push(format!("{}: crate::Name", file.display()));
        }
        let pure = ["decide", "plan", "objects"].iter().any(|folder| file.starts_with(base.join(folder)));
        for word in ["now()", "std::env", "std::time", "tokio", "async "] {
            if pure && text.contains(word) {
                wrong.push(format!("{}: {word} in pure code", file.display()));
            }
        }
        for block in text.split("\nimpl Engine {").skip(1) {
            let block = block.split("\n}").next().unwrap_or_default();
            methods += block.lines().filter(|line| line.starts_with("    ") && line.contains(" fn ")).count();
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!((20..=40).contains(&methods), "Engine has {methods} methods: at most 40");
}

#[test]
fn every_folder_has_its_layer() {
    for (base, layers) in [
        ("chart-compat/src", &RENDERER[..]),
        ("kustomize-compat/src", &KUSTOMIZE[..]),
        ("crates/windlass-engine/src", &ENGINE[..]),
        ("src", &ROOT[..]),
    ] {
        for entry in fs::read_dir(root().join(base)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let known = layers.iter().any(|(folder, _)| {
                *folder == name || format!("{}.rs", folder.trim_end_matches(".rs")) == name
            });
            let known = known || format!("{name}.rs") == "runtime.rs";
            assert!(known || matches!(name.as_str(), "lib.rs" | "main.rs"), "{base}/{name} is in no layer");
        }
    }
}

/// The dependencies of a manifest, without those of its tests.
fn dependencies(manifest: &str) -> Vec<String> {
    let sections = manifest.split("\n[").filter(|section| {
        let head = section.split(']').next().unwrap_or_default();
        head == "dependencies" || head.starts_with("target.") && head.ends_with(".dependencies")
    });
    let lines = sections.flat_map(|section| section.lines().skip(1));
    let names = lines.filter_map(|line| line.split_once(['.', ' ', '=']).map(|(name, _)| name.to_owned()));
    names.filter(|name| !name.is_empty() && !name.starts_with('#')).collect()
}

#[test]
fn crates_depend_on_those_below_them_alone() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (name, allowed) in CRATES {
        let manifest = fs::read_to_string(folder_of(name).join("Cargo.toml")).unwrap();
        for used in dependencies(&manifest) {
            seen += 1;
            let ours = CRATES.iter().any(|(other, _)| *other == used);
            if ours && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{name} must not depend on {used}"));
            }
            if used == TESTING {
                wrong.push(format!("{name}: {TESTING} is for tests"));
            }
            if used == "kube" && name != "windlass-cluster" {
                wrong.push(format!("{name}: only windlass-cluster depends on kube"));
            }
            if used == "tokio" && name.ends_with("-compat") {
                wrong.push(format!("{name} is pure: it needs no tokio"));
            }
        }
    }
    assert!(wrong.is_empty() && seen > 100, "{seen}: {}", wrong.join("\n"));
    let known: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(known.contains(&name.as_str()) || name == TESTING, "crates/{name} is not in the table");
        let readme = fs::read_to_string(folder_of(&name).join("README.md")).unwrap();
        assert!(readme.contains("Owns") && readme.contains("Refuses to know"), "crates/{name}/README.md");
    }
}

#[test]
fn the_renderer_asks_nothing_of_the_outside() {
    let pure = [
        "chart-compat/src",
        "kustomize-compat/src",
        "crates/helmfile-compat/src",
        "crates/windlass-charts/src",
    ];
    for file in pure.iter().flat_map(|dir| sources(&root().join(dir))) {
        let text = fs::read_to_string(&file).unwrap();
        let code = without_tests(&text);
        for word in [
            "std::fs",
            "std::env",
            "TcpStream",
            "UdpSocket",
            "ToSocketAddrs",
            "std::process",
            "SystemTime",
            "Instant::now",
            "tokio",
        ] {
            let told = code.lines().any(|l| l.contains(word) && !l.trim_start().starts_with("//"));
            assert!(is_tests(&file) || !told, "{}: {word} in pure code", file.display());
        }
    }
}

#[test]
fn programs_are_started_in_few_places() {
    // One file starts them. The others say which: the operator's hooks and scripts, and of commands git, Docker's helpers,
    // post-renderers, hooks and templates of helmfiles, your Helm.
    let known = [
        "crates/windlass-base/src/child_process.rs",
        "crates/windlass-modules/src/shell_hooks/process.rs",
        "crates/windlass-fetch/src/git/remote.rs",
        "crates/windlass-fetch/src/git/ssh_signature.rs",
        "crates/windlass-fetch/src/oci/credentials.rs",
        "src/cli/post_render.rs",
        "src/cli/compare/program.rs",
        "crates/windlass-helmfile/src/local_host.rs",
    ];
    let starts = |line: &str| {
        let words: Vec<&str> = line.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        words.contains(&"process") && words.contains(&"Command")
            || line.contains("posix_spawn")
            || line.contains("execve")
    };
    let mut found = Vec::new();
    for file in shipped().iter().flat_map(|base| sources(&root().join(base))) {
        let code = without_tests(&fs::read_to_string(&file).unwrap());
        if !is_tests(&file) && code.lines().any(|l| !l.trim_start().starts_with("//") && starts(l)) {
            found.push(relative(&file));
        }
    }
    found.sort();
    let mut known = known.map(str::to_owned);
    known.sort();
    assert_eq!(found, known);
}

#[test]
fn files_are_small_and_open_with_what_they_own() {
    let mut sizes = Vec::new();
    let of_tests = ["crates/windlass-testing/src", "tests/differential/src", "tests/fuzz", "tests/peers/src"]
        .map(str::to_owned);
    for base in shipped().into_iter().chain(of_tests) {
        for file in sources(&root().join(base)) {
            let text = fs::read_to_string(&file).unwrap();
            let lines = text.lines().count();
            let generated = text.lines().take(3).any(|l| l.contains("Generated"));
            assert!(lines <= MAX_LINES || generated, "{} has {lines} lines", file.display());
            assert!(text.starts_with("//!"), "{} does not say what it owns", file.display());
            sizes.push(lines);
        }
    }
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    assert!(median <= 200, "the median file has {median} lines");
}

#[test]
fn the_code_map_names_every_crate_and_folder() {
    let map = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    for (folder, _) in ROOT {
        let folder = folder.trim_end_matches(".rs");
        assert!(map.contains(&format!("[`{folder}`]")), "src/lib.rs does not name {folder}");
    }
    for (name, _) in CRATES {
        assert!(map.contains(&format!("`{name}`")) || name == "windlass", "src/lib.rs does not name {name}");
    }
}

/// Fixtures are only the tests' own; all else that the build reads has to be copied into the image that it runs in.
#[test]
fn the_container_file_copies_what_the_build_reads() {
    let text = fs::read_to_string(root().join("deploy/Containerfile")).unwrap();
    let build = text.split("\nFROM ").nth(1).unwrap();
    let copied: Vec<PathBuf> = build
        .lines()
        .filter_map(|line| line.strip_prefix("COPY "))
        .flat_map(|line| line.split(' ').rev().skip(1).map(|path| root().join(path)).collect::<Vec<_>>())
        .collect();
    let there = |path: &Path| copied.iter().any(|copied| path.starts_with(copied));
    for path in ["Cargo.toml", "Cargo.lock", ".cargo/config.toml", "src/main.rs"] {
        assert!(there(&root().join(path)), "{path} is not copied");
    }
    let mut seen = 0;
    for file in shipped().iter().flat_map(|dir| sources(&root().join(dir))) {
        let code = fs::read_to_string(&file).unwrap();
        for included in code.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let path = file.parent().unwrap().join(included).canonicalize().unwrap();
            if !path.starts_with(root().join("fixtures")) {
                seen += 1;
                assert!(there(&path), "{} is not copied, and {} includes it", path.display(), file.display());
            }
        }
    }
    assert!(seen > 2, "{seen}");
}

/// Words that are no names for a file: metaphors that nobody would search for.
const METAPHORS: [&str; 34] = [
    "ahead",
    "ask",
    "attention",
    "beside",
    "blame",
    "brought",
    "carry",
    "crew",
    "everyday",
    "evidence",
    "glimpse",
    "ground",
    "keep",
    "keeper",
    "kin",
    "laid",
    "look",
    "marked",
    "mend",
    "notice",
    "past",
    "patience",
    "peer",
    "quiet",
    "quick",
    "seen",
    "tape",
    "tell",
    "teller",
    "told",
    "touched",
    "way",
    "work",
    "written",
];

/// Types and functions that have another name now.
const OLD_NAMES: [&str; 20] = [
    "Asker",
    "Attention",
    "Carry",
    "CarryOut",
    "Glimpse",
    "Ground",
    "Keeper",
    "Material",
    "Past",
    "Prints",
    "Teller",
    "Told",
    "Touched",
    "Wanted",
    "Which",
    "carry_out",
    "door",
    "judge_touched",
    "look_again",
    "past_of",
];

#[test]
fn files_are_named_in_the_words_of_the_field() {
    let mut wrong = Vec::new();
    for base in shipped() {
        for file in sources(&root().join(base)) {
            let relative = file.strip_prefix(root()).unwrap().with_extension("");
            let names = relative.iter().map(|part| part.to_string_lossy().into_owned());
            for name in names.filter(|name| name != "work_queue") {
                let words = name.split('_').map(str::to_owned);
                wrong.extend(
                    words
                        .filter(|w| METAPHORS.contains(&w.as_str()))
                        .map(|w| format!("{}: {w}", file.display())),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Names of files that stand in several folders of the root package, for the same part: commands in src/cli are named as what they
/// run, and the concepts of a front end as those of the controller.
const SHARED_NAMES: [&str; 11] = [
    "crds",
    "debug",
    "dependencies",
    "error",
    "events",
    "lib",
    "mod",
    "observe",
    "target",
    "tests",
    "unavailable",
];

#[test]
fn a_file_name_stands_for_one_thing() {
    let mut names = BTreeMap::<String, Vec<PathBuf>>::new();
    for file in shipped().iter().skip(2).flat_map(|base| sources(&root().join(base))) {
        let name = file.file_stem().unwrap().to_string_lossy().into_owned();
        if !SHARED_NAMES.contains(&name.as_str()) && !file.starts_with(root().join("src/cli")) {
            names.entry(name).or_default().push(file);
        }
    }
    names.retain(|_, files| files.len() > 1);
    assert!(names.is_empty(), "{names:#?}");
}

#[test]
fn old_names_do_not_come_back() {
    let mut wrong = Vec::new();
    for base in shipped() {
        for file in sources(&root().join(base)) {
            let text = fs::read_to_string(&file).unwrap();
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
            for word in words.filter(|word| OLD_NAMES.contains(word)) {
                wrong.push(format!("{}: {word}", file.display()));
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What docs/architecture.md sends a reader to exists.
#[test]
fn the_architecture_names_files_that_exist() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let named: Vec<&str> = text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| {
            ["src/", "chart-compat/", "crates/", "tests/"].iter().any(|start| name.starts_with(start))
        })
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        assert!(root().join(name).exists(), "docs/architecture.md names {name}, which does not exist");
    }
}

/// Whether a path of modules leads from a folder to a module or a test.
fn is_defined(folder: &Path, path: &str) -> bool {
    let (mut folder, mut file) = (folder.to_owned(), None::<PathBuf>);
    path.split("::").all(|part| {
        let files = [format!("{part}.rs"), format!("{part}/mod.rs"), format!("{part}/main.rs")];
        if let Some(found) = files.iter().map(|name| folder.join(name)).find(|path| path.is_file()) {
            (folder, file) = (folder.join(part), Some(found));
            return true;
        }
        let text = file.as_ref().map(|file| fs::read_to_string(file).unwrap()).unwrap_or_default();
        [format!("mod {part} {{"), format!("fn {part}(")].iter().any(|item| text.contains(item))
    })
}

/// The tests that docs/security.md names exist: in a crate, in its test binaries, or in those of the root package.
#[test]
fn the_security_page_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, table) = text.split_once("\n## Tests\n").unwrap();
    let names: Vec<&str> = table.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
    assert!(names.len() > 60, "{names:?}");
    for name in names {
        let (first, path) = name.split_once("::").unwrap();
        let folder = match first {
            "windlass_fuzz" => root().join("tests/fuzz"),
            _ => folder_of(&first.replace('_', "-")),
        };
        let is_there = is_defined(&root().join("tests"), name)
            || is_defined(&folder, path)
            || ["src", "tests"].iter().any(|part| is_defined(&folder.join(part), path));
        assert!(is_there, "docs/security.md names {name}, which does not exist");
    }
}
