//! Differences from addon-operator that affect a directory of modules, with reasons.
//!
//! Owns the list of differences. Reads files, and asks hooks for their configuration as the operator does. Sends no request to a
//! cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use windlass_base::bounded_read;
use windlass_modules::addon::hooks::{global_directory, has_script};
use windlass_modules::addon::module::{Module, Modules};
use windlass_modules::addon::values::Values;
use windlass_modules::shell_hooks::config::{HookConfig, MAIN_QUEUE};
use windlass_modules::shell_hooks::jq::{self, Filter};
use windlass_modules::shell_hooks::{CONFIG_TIMEOUT, Hook, HookSet, Moment, Scope};

/// Functions with a different result in each call.
const CHANCE: [&str; 18] = [
    "randAlphaNum",
    "randAlpha",
    "randNumeric",
    "randAscii",
    "randBytes",
    "randInt",
    "shuffle",
    "uuidv4",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "htpasswd",
    "bcrypt",
    "now",
];

/// Programs that hooks call and that an image can lack, with the remedy.
const PROGRAMS: [(&str, &str); 5] = [
    (
        "addon-operator",
        "windlass has its commands (queue, module, global, config, raw); link it to that name",
    ),
    ("shell-operator", "windlass has its commands (hook, queue, raw); link it to that name"),
    ("helm", "there is no helm in the image of Windlass; take it out, or add helm to the image"),
    ("kubectl", "use the image with kubectl, or write to KUBERNETES_PATCH_PATH"),
    ("jq", "the image answers jq by windlass jq; elsewhere, link it or install jq"),
];

/// The library of batch programs, as their sources name it.
const LIBRARY: &str = "github.com/deckhouse/module-sdk";

/// The number of modules with one number that addon-operator runs in parallel.
const PARALLEL: usize = 20;

/// The maximal size of an examined file, in bytes.
const LARGEST: u64 = 4 << 20;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Weight {
    /// It does not work here.
    Breaks,
    /// It works differently than with addon-operator.
    Differs,
    /// It needs something that can be missing.
    Needs,
    /// It has this in it.
    Holds,
}

/// A difference from addon-operator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Diagnosis {
    pub weight: Weight,
    /// The module's name; empty for global hooks and the roots.
    pub module: String,
    /// The file or directory.
    pub path: PathBuf,
    pub text: String,
}

/// Examines directories of modules (a colon-separated list) and a directory of global hooks.
pub async fn doctor(roots: &str, global: Option<&Path>, unnumbered: u32) -> Vec<Diagnosis> {
    let modules = Modules::discover(roots, unnumbered, chart_compat::profile::Profile::default());
    let mut found = Found::default();
    for text in &modules.problems {
        found.add(Weight::Breaks, "", Path::new(""), text);
    }
    let (_, broken) = Values::new(&modules, global);
    for (key, text) in &broken {
        let module = modules.modules.iter().find(|m| m.name.key == *key);
        found.add(Weight::Breaks, module.map_or("", |m| &m.name.name), Path::new(""), text);
    }
    for module in &modules.modules {
        found.module(module).await;
    }
    if let Some(directory) = global {
        let directory = global_directory(directory);
        found.hooks("", &directory, "", Scope::Global).await;
    }
    found.numbers(&modules);
    found.shared_queues();
    found.told.into_iter().collect()
}

#[derive(Default)]
struct Found {
    told: BTreeSet<Diagnosis>,
    /// Owners of hooks, by the queue that the hooks use.
    queues: BTreeMap<String, BTreeSet<String>>,
}

impl Found {
    fn add(&mut self, weight: Weight, module: &str, path: &Path, text: &str) {
        let (module, path) = (module.to_owned(), path.to_owned());
        self.told.insert(Diagnosis { weight, module, path, text: text.to_owned() });
    }

    /// Reports numbers with more modules than addon-operator runs in parallel.
    fn numbers(&mut self, modules: &Modules) {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for module in &modules.modules {
            *counts.entry(module.name.order).or_default() += 1;
        }
        for (number, count) in counts.into_iter().filter(|(_, count)| *count > PARALLEL) {
            let text = format!(
                "{count} modules have the number {number} and run side by side here; addon-operator runs {PARALLEL} of them at a \
                 time"
            );
            self.add(Weight::Differs, "", Path::new(""), &text);
        }
    }

    /// Reports queues that hooks of several owners use.
    fn shared_queues(&mut self) {
        for (queue, owners) in std::mem::take(&mut self.queues).into_iter().filter(|(_, o)| o.len() > 1) {
            let owners: Vec<String> = owners.into_iter().collect();
            let text = format!(
                "hooks of {} name the queue {queue}: each has a queue of its own of that name here, so that their runs do not wait \
                 for each other; with addon-operator they do",
                owners.join(", ")
            );
            self.add(Weight::Differs, "", Path::new(""), &text);
        }
    }

    async fn module(&mut self, module: &Module) {
        let name = module.name.name.as_str();
        if let Err(text) = &module.chart {
            self.add(Weight::Breaks, name, Path::new(""), text);
        }
        if module.flag.is_some() {
            let text = format!(
                "{} says nothing here, as with addon-operator since 1.4; set it in the values.yaml beside the modules or in the \
                 ConfigMap, or name ModuleValues in --applied-module-extenders",
                module.name.enabled_key()
            );
            self.add(Weight::Differs, name, &module.path.join("values.yaml"), &text);
        }
        self.schemas(name, &module.path.join("openapi"));
        if has_script(&module.path) {
            let text = "while it fails its module stays as it is, and the others go on; with addon-operator nothing converges";
            self.add(Weight::Differs, name, &module.path.join("enabled"), text);
        }
        if !module.crds.is_empty() {
            let text = "a change that takes fields or versions from existing objects is refused here unless the CRD has the annotation \
                        windlass.dev/allow-data-loss: \"true\"; addon-operator makes it";
            self.add(Weight::Differs, name, &module.path.join("crds"), text);
        }
        if let Ok(Some(chart)) = &module.chart {
            let mut charts = vec![chart.chart()];
            while let Some(chart) = charts.pop() {
                charts.extend(&chart.dependencies);
                for template in &chart.templates {
                    let path = module.path.join(&template.name);
                    self.template(name, &path, &String::from_utf8_lossy(&template.data));
                }
            }
        }
        let directory = module.path.file_name().unwrap_or_default().to_string_lossy();
        self.hooks(name, &module.path.join("hooks"), &format!("{directory}/hooks/"), Scope::Module).await;
    }

    fn schemas(&mut self, module: &str, directory: &Path) {
        for file in ["config-values.yaml", "values.yaml"] {
            let path = directory.join(file);
            let Some(text) = read(&path) else { continue };
            if text.contains("patternProperties") && text.contains("default:") {
                let text =
                    "defaults below patternProperties are filled in here; addon-operator leaves them out";
                self.add(Weight::Differs, module, &path, text);
            }
        }
    }

    fn template(&mut self, module: &str, path: &Path, text: &str) {
        if text.contains("helm.sh/hook\"") || text.contains("helm.sh/hook:") {
            let text = "a change of a chart hook alone makes a revision here; addon-operator leaves hooks out of its checksum";
            self.add(Weight::Differs, module, path, text);
        }
        if text.contains("kind: ConversionWebhook") {
            let text = "objects of kind ConversionWebhook come with the module's others here, not before its CRDs, and are not acted on; \
                        a hook's binding kubernetesCustomResourceConversion converts";
            self.add(Weight::Differs, module, path, text);
        }
        if text.contains("werf.io/") {
            let text = "annotations of werf.io mean nothing here; order objects with windlass.dev/depends-on or Helm's hooks";
            self.add(Weight::Differs, module, path, text);
        }
        let words = || actions(text).flat_map(words);
        let chance: BTreeSet<&str> = words().filter(|word| CHANCE.contains(word)).collect();
        if !chance.is_empty() {
            let chance: Vec<&str> = chance.into_iter().collect();
            let text = format!(
                "{} answers the same here in every render of the same input, so that it makes no revision by itself; with \
                 addon-operator each run makes one",
                chance.join(", ")
            );
            self.add(Weight::Differs, module, path, &text);
        }
        if words().any(|word| word == "lookup") {
            let text = "what lookup finds is watched here: a change of it renders the module again";
            self.add(Weight::Differs, module, path, text);
        }
    }

    async fn hooks(&mut self, module: &str, directory: &Path, prefix: &str, scope: Scope) {
        if !directory.is_dir() {
            return;
        }
        let all = files(directory);
        self.sources(module, directory, &all);
        for path in all {
            if path.extension().is_some_and(|ending| ending == "go") {
                continue;
            }
            let Some(text) = read(&path) else { continue };
            if counts_without_group(&text) {
                let text = "counters of metrics without a group count on here; with addon-operator since 1.11 of shell-operator they \
                            begin anew in each run (--group-hook-metrics)";
                self.add(Weight::Differs, module, &path, text);
            }
            if text.contains("CONFIG_VALUES_JSON_PATCH_PATH") || text.contains("config_values_patch(") {
                let text = "what it writes goes on top of what the ConfigMap says by then, and it runs again if someone edited the same \
                            value meanwhile; addon-operator writes over such edits";
                self.add(Weight::Differs, module, &path, text);
            }
            for (program, advice) in PROGRAMS {
                if text.lines().any(|line| calls(line, program)) {
                    self.add(Weight::Needs, module, &path, &format!("it calls {program}: {advice}"));
                }
            }
            if runs_in_python(&path, &text) {
                let text = "it runs in python3: use the image with kubectl, which has it, or add python3 to the image";
                self.add(Weight::Needs, module, &path, text);
            }
            if text.contains("enabledModules") {
                let text = "global.enabledModules is given to hooks here, as addon-operator's documents say and it itself does not";
                self.add(Weight::Differs, module, &path, text);
            }
        }
        let set = match HookSet::load(directory, module, prefix, scope, CONFIG_TIMEOUT).await {
            Ok((set, problems)) => {
                // Sources in Go are no hooks, whatever their mode, and are reported as such.
                for problem in problems.iter().filter(|p| p.path.extension().is_none_or(|e| e != "go")) {
                    self.add(Weight::Breaks, module, directory, &problem.to_string());
                }
                set
            }
            Err(e) => return self.add(Weight::Breaks, module, directory, &e.to_string()),
        };
        self.programs(module, directory, prefix, &set);
        for hook in set.hooks() {
            let path = file_of(directory, prefix, hook);
            let config = &hook.config;
            let owner =
                if module.is_empty() { "the global hooks".to_owned() } else { format!("module {module}") };
            for queue in queues(config) {
                self.queues.entry(queue.to_owned()).or_default().insert(owner.clone());
            }
            for binding in &config.kubernetes {
                let filter = binding.filter.as_ref().map(Filter::text).unwrap_or_default();
                for (what, otherwise) in jq::differences(filter) {
                    let text = format!("jqFilter of {}: {what}: {otherwise}", binding.common.name);
                    self.add(Weight::Differs, module, &path, &text);
                }
            }
            if [Moment::BeforeHelm, Moment::AfterHelm].iter().any(|m| config.moments.contains_key(m)) {
                let text = "it does not run when a deleted or changed object is put right here; addon-operator runs the whole module \
                            for an object that is absent";
                self.add(Weight::Differs, module, &path, text);
            }
            if !(config.validating.is_empty() && config.mutating.is_empty() && config.conversions.is_empty())
            {
                let text = "its webhooks are served here; addon-operator takes such bindings and does nothing with them";
                self.add(Weight::Differs, module, &path, text);
            }
        }
    }
}

impl Found {
    /// Reports hooks in Go, which are sources of a program here.
    fn sources(&mut self, module: &str, directory: &Path, files: &[PathBuf]) {
        let go = || files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "go"));
        if go().any(|path| read(path).is_some_and(|text| text.contains(LIBRARY))) {
            let text =
                "sources of a program of hooks in Go: build it, and put the program into the directory";
            return self.add(Weight::Needs, module, directory, text);
        }
        for path in go() {
            let text = "hooks in Go are compiled into addon-operator; write it as a program that answers --config, or with module-sdk";
            self.add(Weight::Breaks, module, path, text);
        }
    }

    /// Reports what is in batch programs.
    fn programs(&mut self, module: &str, directory: &Path, prefix: &str, set: &HookSet) {
        for text in set.notes() {
            self.add(Weight::Differs, module, directory, text);
        }
        let mut programs: BTreeMap<&str, Vec<&Hook>> = BTreeMap::new();
        for hook in set.hooks().iter().filter(|hook| hook.is_batch()) {
            programs.entry(&hook.place.0).or_default().push(hook);
        }
        for check in set.checks() {
            programs.entry(check.name()).or_default();
        }
        for (name, hooks) in programs {
            let path = directory.join(name.strip_prefix(prefix).unwrap_or(name));
            let probe = set.readiness().filter(|probe| probe.hook.place.0 == name);
            let is_hook = |hook: &&&Hook| probe.is_none_or(|probe| probe.hook.name != hook.name);
            let mut parts: Vec<String> = hooks.iter().filter(is_hook).map(|hook| hook_text(hook)).collect();
            if parts.is_empty() {
                let text = "it has no hooks, and works here; addon-operator does not find such a program";
                self.add(Weight::Differs, module, &path, text);
            }
            if probe.is_some() {
                parts.push("a readiness probe".to_owned());
                let text = "the readiness probe of module-sdk reads modules.deckhouse.io, which --module-status=deckhouse.io keeps";
                self.add(Weight::Needs, module, &path, text);
            }
            if set.checks().iter().any(|check| check.name() == name) {
                parts.push("a check of settings".to_owned());
                let text = "its check of settings (hook check) is asked before settings are taken; addon-operator itself does not ask it";
                self.add(Weight::Differs, module, &path, text);
            }
            self.add(Weight::Holds, module, &path, &parts.join(", "));
            for hook in hooks {
                self.flags_of(module, &path, hook);
            }
        }
    }

    fn flags_of(&mut self, module: &str, path: &Path, hook: &Hook) {
        let name = &hook.name;
        if hook.config.allow_failure {
            let text = format!("{name} may fail (allowFailure); addon-operator does not read that");
            self.add(Weight::Differs, module, path, &text);
        }
        if hook.config.settings.schedules_on_startup {
            let text = format!(
                "schedules of {name} begin with its module (enableSchedulesOnStartup); addon-operator does not read that"
            );
            self.add(Weight::Differs, module, path, &text);
        }
    }
}

/// The file of a hook.
fn file_of(directory: &Path, prefix: &str, hook: &Hook) -> PathBuf {
    let file = hook.place.0.as_str();
    directory.join(file.strip_prefix(prefix).unwrap_or(file))
}

/// A hook of a program with its bindings.
fn hook_text(hook: &Hook) -> String {
    let config = &hook.config;
    let moments = config.moments.iter().map(|(moment, order)| format!("{moment} {order}"));
    let schedules = config.schedules.iter().map(|s| format!("schedule {}", s.common.name));
    let kubernetes = config.kubernetes.iter().map(|k| format!("kubernetes {}", k.common.name));
    let bindings: Vec<String> = moments.chain(schedules).chain(kubernetes).collect();
    format!("{} ({})", hook.name, bindings.join(", "))
}

/// The queues of a hook's bindings, except the main queue.
fn queues(config: &HookConfig) -> impl Iterator<Item = &str> {
    let schedules = config.schedules.iter().map(|s| &s.common);
    let all = schedules.chain(config.kubernetes.iter().map(|k| &k.common));
    all.map(|common| common.queue.as_str()).filter(|queue| *queue != MAIN_QUEUE)
}

/// Whether a hook probably adds to metrics without a group.
fn counts_without_group(text: &str) -> bool {
    let measures = text.contains("METRICS_PATH") || text.contains(".metric(");
    let adds = ["\"add\"", "\\\"add\\\"", "'add'", "add:", "add="].iter().any(|form| text.contains(form));
    measures && adds && !text.contains("group")
}

/// Whether a file is a Python program: by its first line, or by its name if it is executable.
fn runs_in_python(path: &Path, text: &str) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    let first = text.lines().next().unwrap_or_default();
    let executable = || std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    first.starts_with("#!") && first.contains("python")
        || path.extension().is_some_and(|e| e == "py") && executable()
}

/// The text of a file; `None` if it is too large or not text.
fn read(path: &Path) -> Option<String> {
    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    bounded_read::read_text(path, LARGEST).ok()
}

/// All files in a directory, recursively, without following symlinks.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in entries {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

/// The actions of a template: the text between its delimiters.
fn actions(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{")
        .skip(1)
        .filter_map(|rest| rest.split_once("}}").map(|(action, _)| action))
        .filter(|action| !action.trim_start_matches('-').trim_start().starts_with("/*"))
}

/// The function names in an action, without fields and variables.
fn words(action: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '"'));
    action.split(part).filter(|word| !word.starts_with(['.', '$', '"']))
}

/// Whether a line of a script probably runs a program.
fn calls(line: &str, program: &str) -> bool {
    let line = line.trim_start();
    if line.starts_with('#') {
        return false;
    }
    line.match_indices(program).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + program.len()..]);
        let starts = before.is_empty() || before.ends_with(['|', ';', '(', '`', '&', ' ', '\'', '"', '/']);
        let place = before.trim_end();
        let command = place.is_empty()
            || place.ends_with(['|', ';', '(', '`', '&', '[', '\'', '"', '/'])
            || ["then", "do", "else", "if", "while", "!", "exec"].iter().any(|word| place.ends_with(word));
        starts && command && (after.is_empty() || after.starts_with([' ', '"', '\'', ')', '\\']))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn calls_are_told_from_words() {
        let table = [
            ("jq -r .x <<< \"$y\"", "jq", true),
            ("x=$(kubectl get pods)", "kubectl", true),
            ("subprocess.run(['kubectl', 'get'])", "kubectl", true),
            ("cat x | jq .", "jq", true),
            ("if helm list; then", "helm", true),
            ("# jq is not needed", "jq", false),
            ("context::jq -r .x", "jq", false),
            ("echo the helm chart", "helm", false),
            ("helmet --on", "helm", false),
        ];
        for (line, program, is) in table {
            assert_eq!(calls(line, program), is, "{line}");
        }
    }

    #[test]
    fn counters_are_told_from_other_metrics() {
        let table = [
            (r#"echo '{"name":"a","action":"add","value":1}' > $METRICS_PATH"#, true),
            (r#"echo "{\"name\":\"a\",\"add\":1}" > $METRICS_PATH"#, true),
            ("context.metric('a', add=1)", true),
            (r#"echo '{"group":"g","name":"a","add":1}' > $METRICS_PATH"#, false),
            (r#"echo '{"name":"address","set":1}' > $METRICS_PATH"#, false),
            (r#"echo '[{"op":"add"}]' > $VALUES_JSON_PATCH_PATH"#, false),
        ];
        for (text, is) in table {
            assert_eq!(counts_without_group(text), is, "{text}");
        }
    }

    #[tokio::test]
    async fn differences_are_found_where_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            if path.extension().is_some_and(|e| e == "sh") {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
        };
        put("001-fine/Chart.yaml", "apiVersion: v2\nname: fine\nversion: 0.1.0\n");
        put("001-fine/templates/a.yaml", "a: {{ .Values.now | quote }}\n{{/* genCA */}}\n");
        put("002-odd/Chart.yaml", "apiVersion: v2\nname: odd\nversion: 0.1.0\n");
        put("002-odd/values.yaml", "oddEnabled: true\n");
        put(
            "002-odd/templates/b.yaml",
            "a: {{ randAlphaNum 5 }}\nb: {{ (lookup \"v1\" \"Pod\" \"\" \"\") }}\nannotations:\n  helm.sh/hook: pre-install\n  werf.io/weight: \"1\"\n",
        );
        put("002-odd/openapi/values.yaml", "patternProperties: {x: {properties: {a: {default: 1}}}}\n");
        put("002-odd/hooks/main.go", "package main\n");
        put(
            "002-odd/hooks/a.sh",
            "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, kubernetesValidating: [{name: a.b.c, rules: []}]}'; exit; fi\nhelm list\n",
        );
        put("002-odd/hooks/d.py", "#!/usr/bin/env python3\n");
        put("002-odd/hooks/lib/e.py", "x = 1\n");
        put("1-module-1/Chart.yaml", "apiVersion: v2\nname: x\nversion: 0.1.0\n");
        let bound = |name: &str, binding: &str, body: &str| {
            let config = format!("{{configVersion: v1, {binding}}}");
            let text =
                format!("#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{config}'; exit; fi\n{body}\n");
            put(&format!("{name}/hooks/b.sh"), &text);
        };
        bound(
            "003-one",
            "afterHelm: 1",
            "addon-operator module list\necho '{name: a, add: 1}' > $METRICS_PATH",
        );
        bound("004-two", "schedule: [{crontab: \"* * * * *\", queue: slow}]", "");
        bound(
            "005-three",
            "kubernetes: [{kind: Pod, queue: slow}]",
            "echo '{name: a, add: 1, group: g}' > $METRICS_PATH",
        );
        put("006-four/crds/c.yaml", "kind: CustomResourceDefinition\n");
        bound("006-four", "onStartup: 1", "echo [] > $CONFIG_VALUES_JSON_PATCH_PATH");
        put("006-four/enabled", "#!/bin/sh\n");
        fs::set_permissions(dir.path().join("006-four/enabled"), fs::Permissions::from_mode(0o755)).unwrap();
        put("005-three/templates/c.yaml", "apiVersion: deckhouse.io/v1\nkind: ConversionWebhook\n");
        put(
            "007-sources/hooks/go/main.go",
            "package main\nimport \"github.com/deckhouse/module-sdk/pkg/app\"\n",
        );
        put("007-sources/hooks/go/other.go", "package main\n");
        let batch = r#"{"version":"v1","hooks":[{"metadata":{"name":"one"},"beforeHelm":5,"allowFailure":true,"color":1}],
            "readiness":{"schedule":[{"crontab":"@daily"}]},"has_settings_check":true}"#;
        for (name, document) in
            [("008-batch", batch), ("008-bare", r#"{"version":"v1","has_settings_check":true}"#)]
        {
            put(
                &format!("{name}/hooks/program"),
                &format!(
                    "#!/bin/sh\nif [ \"$2\" = config ]; then cat <<'END'\n{document}\nEND\nexit; fi\nexit 1\n"
                ),
            );
            let path = dir.path().join(name).join("hooks/program");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for number in 0..21 {
            put(&format!("009-many-{}/values.yaml", char::from(b'a' + number)), "");
        }
        let found = doctor(&dir.path().to_string_lossy(), None, 1).await;
        assert!(found.iter().all(|d| d.module != "fine"), "{found:#?}");
        let has = |weight: Weight, path: &str, part: &str| {
            let is = |d: &&Diagnosis| d.weight == weight && d.path.ends_with(path) && d.text.contains(part);
            assert!(found.iter().any(|d| is(&d)), "{path} {part}: {found:#?}");
        };
        has(Weight::Breaks, "", "module-1");
        has(Weight::Differs, "002-odd/values.yaml", "oddEnabled says nothing");
        has(Weight::Differs, "002-odd/templates/b.yaml", "randAlphaNum answers the same");
        has(Weight::Differs, "002-odd/templates/b.yaml", "lookup finds is watched");
        has(Weight::Differs, "002-odd/templates/b.yaml", "chart hook alone");
        has(Weight::Differs, "002-odd/templates/b.yaml", "werf.io");
        has(Weight::Differs, "002-odd/openapi/values.yaml", "patternProperties");
        has(Weight::Breaks, "002-odd/hooks/main.go", "hooks in Go");
        has(Weight::Differs, "002-odd/hooks/a.sh", "webhooks are served");
        has(Weight::Needs, "002-odd/hooks/a.sh", "it calls helm");
        has(Weight::Needs, "007-sources/hooks", "sources of a program");
        assert!(!found.iter().any(|d| d.module == "sources" && d.weight == Weight::Breaks), "{found:#?}");
        let program = "008-batch/hooks/program";
        let text = "008-batch/hooks/program:one:0 (beforeHelm 5), a readiness probe, a check of settings";
        has(Weight::Holds, program, text);
        has(Weight::Differs, program, "008-batch/hooks/program:one:0 may fail");
        has(Weight::Differs, "008-batch/hooks", "hooks[0].color: no such key is known here");
        has(Weight::Needs, program, "--module-status=deckhouse.io");
        has(Weight::Differs, "008-bare/hooks/program", "it has no hooks");
        has(Weight::Needs, "002-odd/hooks/d.py", "it runs in python3");
        assert!(!found.iter().any(|d| d.path.ends_with("e.py")), "{found:#?}");
        has(Weight::Needs, "003-one/hooks/b.sh", "it calls addon-operator");
        has(Weight::Differs, "003-one/hooks/b.sh", "does not run when a deleted");
        has(Weight::Differs, "003-one/hooks/b.sh", "counters of metrics without a group");
        assert!(!found.iter().any(|d| d.module == "three" && d.text.contains("counters")), "{found:#?}");
        has(Weight::Differs, "", "hooks of module three, module two name the queue slow");
        has(Weight::Differs, "005-three/templates/c.yaml", "ConversionWebhook");
        has(Weight::Differs, "006-four/enabled", "while it fails");
        has(Weight::Differs, "006-four/crds", "allow-data-loss");
        has(Weight::Differs, "006-four/hooks/b.sh", "goes on top of what the ConfigMap says");
        has(Weight::Differs, "", "21 modules have the number 9");
    }
}
