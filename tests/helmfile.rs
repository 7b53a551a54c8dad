//! Helmfiles, beside what the real helmfile prints for them.
//!
//! A case is a directory `fixtures/helmfile/NAME` with `files.txt`: the words after `helmfile`, then each file after a line
//! `-- PATH --`. `make fixtures-helmfile` writes `expected.txt`: the exit status, standard output if that is 0, and the files below
//! `out`. `ROOT` stands for the directory of the files. Errors have words of our own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use windlass_testing::{Tool, write_file};

/// Cases, in order.
fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/helmfile");
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

/// Writes the files of a case and returns its words.
fn unpack(case: &Path, root: &Path) -> Vec<String> {
    let text = fs::read_to_string(case.join("files.txt")).unwrap();
    let (command, rest) = text.split_once('\n').unwrap();
    let mut files: Vec<(&str, String)> = Vec::new();
    for line in rest.split_inclusive('\n') {
        let header = line.trim_end().strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"));
        match (header, files.last_mut()) {
            (Some(path), _) => files.push((path, String::new())),
            (None, Some((_, body))) => body.push_str(line),
            (None, None) => panic!("{}: text before the first file", case.display()),
        }
    }
    for (path, body) in files {
        write_file(root.join(path), body);
    }
    command.split_whitespace().map(str::to_owned).collect()
}

/// Appends the files below a folder, in order.
fn append_files(folder: &Path, root: &Path, out: &mut String) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            append_files(&path, root, out);
        } else {
            let name = path.strip_prefix(root).unwrap().display();
            writeln!(out, "-- {name} --").unwrap();
            out.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// What a command makes of a case. Programs are found in `path`.
fn outcome(case: &Path, program: &Path, first: &[&str], path: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (root, home) = (dir.path().join("root"), dir.path().join("home"));
    fs::create_dir_all(&home).unwrap();
    let words = unpack(case, &root);
    let output = Command::new(program)
        .args(first)
        .args(words)
        .current_dir(&root)
        .env_clear()
        .envs([("PATH", path), ("TZ", "UTC"), ("HTTPS_PROXY", "http://127.0.0.1:9")])
        .envs([("HOME", &home), ("TMPDIR", &home)])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let status = output.status.code().unwrap();
    let mut text = format!("exit status {status}\n");
    if status == 0 {
        text.push_str(&String::from_utf8(output.stdout).unwrap());
        append_files(&root.join("out"), &root, &mut text);
    } else {
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.trim().is_empty(), "{}: fails without a word", case.display());
    }
    text.replace(root.canonicalize().unwrap().to_str().unwrap(), "ROOT")
}

#[test]
fn every_case_comes_out_as_from_helmfile() {
    let mut wrong = Vec::new();
    for case in cases() {
        let expected = fs::read_to_string(case.join("expected.txt")).unwrap();
        let ours = outcome(&case, Path::new(env!("CARGO_BIN_EXE_windlass")), &["helmfile"], "/usr/bin:/bin");
        if ours != expected {
            let name = case.file_name().unwrap().display();
            let line = expected.lines().zip(ours.lines()).position(|(theirs, ours)| theirs != ours);
            let line = line.unwrap_or_else(|| expected.lines().count().min(ours.lines().count()));
            let at = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
            wrong.push(format!(
                "{name}: line {}: expected {:?}, got {:?}",
                line + 1,
                at(&expected),
                at(&ours)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn states_values_and_charts_come_from_repositories() {
    let dir = tempfile::tempdir().unwrap();
    let (repository, home) = (dir.path().join("repository"), dir.path().join("home"));
    fs::create_dir_all(&home).unwrap();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@example.com"]).args(words);
        command.env("HOME", &home).env("GIT_CONFIG_NOSYSTEM", "1");
        assert!(command.current_dir(&repository).status().unwrap().success(), "git {words:?}");
    };
    let url = format!("git::file://{}", repository.display());
    let write = |path: &str, text: &str| write_file(repository.join(path), text);
    write(
        "apps/helmfile.yaml",
        &format!(
            "releases:\n  - {{name: web, chart: \"{url}@charts/web?ref=v1\", values: [near.yaml, \"{url}@far.yaml?ref=v1\"]}}\n"
        ),
    );
    write("apps/near.yaml", "a: near\n");
    write("far.yaml", "b: far\n");
    write("charts/web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    write("charts/web/templates/one.yaml", "a: {{ .Values.a }}\nb: {{ .Values.b }}\n");
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "one"]);
    git(&["tag", "v1"]);
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.arg("helmfile").args(words).env_clear().env("PATH", "/usr/bin:/bin");
        let output = command.env("HOME", &home).env("TMPDIR", &home).current_dir(&home).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let (status, out, told) = run(&["-f", &format!("{url}@apps/helmfile.yaml?ref=v1"), "template"]);
    assert_eq!((status, told.as_str()), (Some(0), ""));
    assert_eq!(out, "---\n# Source: web/templates/one.yaml\na: near\nb: far\n\n");
    let (status, _, told) = run(&["-f", &format!("{url}@apps/helmfile.yaml?ref=v2"), "list"]);
    assert!(status == Some(1) && told.contains("no branch, tag or commit v2"), "{told}");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0, "copies are removed");
}

/// Exit status and standard error of `windlass helmfile WORD` in a directory with a state file and a kubeconfig.
fn with_cluster(dir: &Path, word: &str, state: &str, kubeconfig: &str) -> (Option<i32>, String) {
    fs::write(dir.join("helmfile.yaml"), state).unwrap();
    fs::write(dir.join("kubeconfig"), kubeconfig).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["helmfile", word]).env_clear().env("HOME", dir).current_dir(dir);
    let output = command.envs([("PATH", "/usr/bin:/bin"), ("KUBECONFIG", "kubeconfig")]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_context_that_cannot_be_reached_ends_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let state = "releases:\n\
                 - {name: first, chart: ./x, kubeContext: gone}\n\
                 - {name: second, chart: ./x, kubeContext: other}\n\
                 - {name: third, chart: ./x, kubeContext: gone}\n";
    let cluster = "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n";
    for word in ["status", "test"] {
        let (status, told) = with_cluster(dir.path(), word, state, cluster);
        assert_eq!(status, Some(1), "{told}");
        for name in ["first", "second", "third"] {
            assert!(told.contains(&format!("release \"{name}\": ")), "{word}: {told}");
        }
        assert!(told.contains("3 release(s) failed: first, second, third"), "{word}: {told}");
    }
}

#[test]
fn a_hook_does_not_stop_the_releases_beside_it() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("meet")).status().unwrap().success());
    // Each hook ends when the other one runs.
    let release = |name: &str, script: &str| {
        format!(
            "- {{name: {name}, chart: ./x, hooks: [{{events: [presync], command: timeout, args: [\"20\", sh, -c, {script}]}}]}}\n"
        )
    };
    let state = format!("releases:\n{}{}", release("first", "echo > meet"), release("second", "cat meet"));
    let cluster = "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                   clusters: [{name: c, cluster: {server: \"http://127.0.0.1:1\"}}]\n\
                   contexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {}}]\n";
    let (_, told) = with_cluster(dir.path(), "sync", &state, cluster);
    for name in ["first", "second"] {
        let words = format!("release \"{name}\" failed: path \"./x\" not found");
        assert!(told.contains(&words), "{told}");
    }
}

/// A directory with `fixtures/sops` at `sops`, and a home.
struct Encrypted {
    dir: tempfile::TempDir,
}

impl Encrypted {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/sops");
        for folder in ["encrypted", "decrypted", "keys"] {
            let target = dir.path().join("sops").join(folder);
            fs::create_dir_all(&target).unwrap();
            for entry in fs::read_dir(fixtures.join(folder)).unwrap() {
                let entry = entry.unwrap();
                fs::copy(entry.path(), target.join(entry.file_name())).unwrap();
            }
        }
        Self { dir }
    }

    fn key(&self, name: &str) -> String {
        self.dir.path().join("sops/keys").join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// Status, standard output and standard error of `windlass helmfile -f FILE WORD`.
    fn run(&self, file: &str, word: &str, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["helmfile", "-f", file, word]).env_clear().env("PATH", "/usr/bin:/bin");
        command.env("HOME", self.dir.path().join("home")).envs(variables.iter().copied());
        let output = command.current_dir(self.dir.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The values of an environment that has a file.
    fn values(&self, kind: &str, file: &str, variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
        self.write("helmfile.yaml", &format!("environments: {{default: {{{kind}: [sops/{file}]}}}}\n"));
        self.run("helmfile.yaml", "print-env", variables)
    }
}

#[test]
fn encrypted_files_come_out_as_from_sops() {
    let encrypted = Encrypted::new();
    let (age, ssh) = (encrypted.key("age.txt"), encrypted.key("id_ed25519"));
    let (age, ssh) = (("SOPS_AGE_KEY_FILE", age.as_str()), ("SOPS_AGE_SSH_PRIVATE_KEY_FILE", ssh.as_str()));
    let text = fs::read_to_string(age.1).unwrap();
    let identity = text.lines().last().unwrap();
    let keys = encrypted.dir.path().join("sops/keys").display().to_string();
    let mut files = vec![
        ("values.yaml", age),
        ("values.yaml", ("SOPS_AGE_KEY", identity)),
        ("values.json", age),
        ("regex.yaml", age),
        ("mac-only.yaml", age),
        ("ssh.yaml", ssh),
    ];
    if cfg!(feature = "pgp") {
        files.push(("pgp.yaml", ("GNUPGHOME", &keys)));
    }
    for (name, variable) in files {
        let (status, ours, told) = encrypted.values("secrets", &format!("encrypted/{name}"), &[variable]);
        assert_eq!((status, told.as_str()), (Some(0), ""), "{name}");
        let (_, expected, _) = encrypted.values("values", &format!("decrypted/{name}"), &[]);
        assert_eq!(ours, expected, "{name}");
        assert!(ours.contains("ss"), "{name}: {ours}");
    }
    // Whole files, and one key of a file.
    encrypted.write(
        "helmfile.yaml.gotmpl",
        "environments: {default: {values: [{\n\
         json: {{ fetchSecretValue \"ref+sops://sops/encrypted/values.json\" | quote }},\n\
         env: {{ fetchSecretValue \"ref+sops://sops/encrypted/values.env\" | quote }},\n\
         bin: {{ fetchSecretValue \"ref+sops://sops/encrypted/values.bin\" | b64enc }},\n\
         key: {{ (expandSecretRefs (dict \"v\" \"ref+sops://sops/encrypted/values.yaml#/nested/list\")).v | toJson }}}]}}\n",
    );
    let (status, ours, told) = encrypted.run("helmfile.yaml.gotmpl", "print-env", &[age]);
    assert_eq!((status, told.as_str()), (Some(0), ""));
    let decrypted =
        |name: &str| fs::read_to_string(encrypted.dir.path().join("sops/decrypted").join(name)).unwrap();
    // Comments are left out.
    let env = decrypted("values.env").replace("# A comment.\n", "");
    encrypted.write(
        "expected.yaml.gotmpl",
        "environments: {default: {values: [{json: {{ readFile \"json\" | quote }}, env: {{ readFile \"env\" | quote }}, \
         bin: {{ readFile \"bin\" | b64enc }}, key: [a, 2, {key: value}]}]}}\n",
    );
    encrypted.write("json", &decrypted("values.json"));
    encrypted.write("env", &env);
    encrypted.write("bin", &decrypted("values.bin"));
    let (_, expected, told) = encrypted.run("expected.yaml.gotmpl", "print-env", &[]);
    assert_eq!(told, "");
    // The first line is the path of the state file.
    let values = |text: &str| text.split_once('\n').unwrap().1.to_owned();
    assert_eq!(values(&ours), values(&expected));
}

#[test]
fn files_that_were_changed_or_have_no_key_are_refused() {
    let encrypted = Encrypted::new();
    let (age, ssh) = (encrypted.key("age.txt"), encrypted.key("id_ed25519"));
    let (age, ssh) = (("SOPS_AGE_KEY_FILE", age.as_str()), ("SOPS_AGE_SSH_PRIVATE_KEY_FILE", ssh.as_str()));
    let text = fs::read_to_string(encrypted.dir.path().join("sops/encrypted/values.yaml")).unwrap();
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).unwrap().to_owned();
    let value = |key: &str| line(key).split_once(": ").unwrap().1.to_owned();
    for (changed, words) in [
        (text.replace("readable", "hunter2"), "changed after it was encrypted"),
        (text.replace(&format!("{}\n", line("port")), ""), "changed after it was encrypted"),
        // A value is bound to its key.
        (text.replace(&value("password"), &value("number")), "password: the value was changed"),
        (text.replace(&value("password"), "hunter2"), "password: the value is not in the format"),
        ("password: hunter2\n".to_owned(), "not encrypted by sops"),
        ("{ password: hunter2".to_owned(), "is not YAML"),
    ] {
        encrypted.write("sops/encrypted/changed.yaml", &changed);
        let (status, _, told) = encrypted.values("secrets", "encrypted/changed.yaml", &[age]);
        assert!(status == Some(1) && told.contains(words) && !told.contains("hunter2"), "{words}: {told}");
    }
    for (name, variables, words) in [
        ("values.yaml", vec![], "set SOPS_AGE_KEY or SOPS_AGE_KEY_FILE"),
        ("values.yaml", vec![ssh], "no identity of age is a recipient"),
        ("values.yaml", vec![("SOPS_AGE_KEY", "hunter2")], "SOPS_AGE_KEY, line 1: not an identity"),
        #[cfg(feature = "pgp")]
        ("pgp.yaml", vec![age], "gpg-agent is not asked"),
    ] {
        let (status, _, told) = encrypted.values("secrets", &format!("encrypted/{name}"), &variables);
        assert!(status == Some(1) && told.contains(words) && !told.contains("hunter2"), "{words}: {told}");
    }
    let kms = "a: ENC[AES256_GCM,data:eA==,iv:eA==,tag:eA==,type:str]\nsops:\n  kms: [{arn: x, enc: y}]\n  mac: x\n  lastmodified: x\n";
    encrypted.write("sops/encrypted/kms.yaml", kms);
    let (_, _, told) = encrypted.values("secrets", "encrypted/kms.yaml", &[age]);
    assert!(told.contains("keys of kms are not supported"), "{told}");
}

#[test]
fn key_files_that_nobody_named_are_used_if_they_can_be() {
    let encrypted = Encrypted::new();
    let text = fs::read_to_string(encrypted.key("age.txt")).unwrap();
    let own = ("SOPS_AGE_KEY", text.lines().last().unwrap());
    // A directory cannot be read, and the other file has no identity.
    for folder in ["home/.ssh/id_rsa", "home/.config/sops/age", ".ssh"] {
        fs::create_dir_all(encrypted.dir.path().join(folder)).unwrap();
    }
    encrypted.write("home/.config/sops/age/keys.txt", "hunter2\n");
    let (status, _, told) = encrypted.values("secrets", "encrypted/values.yaml", &[own]);
    assert_eq!((status, told.as_str()), (Some(0), ""));
    let (status, _, told) = encrypted.values("secrets", "encrypted/values.yaml", &[]);
    assert!(status == Some(1) && !told.contains("hunter2"), "{told}");
    assert!(told.contains("id_rsa: is a directory") && told.contains("keys.txt, line 1: not an"), "{told}");
    // Without a home the current directory is not taken for it.
    fs::copy(encrypted.key("id_ed25519"), encrypted.dir.path().join(".ssh/id_ed25519")).unwrap();
    let (status, _, told) = encrypted.values("secrets", "encrypted/ssh.yaml", &[("HOME", "")]);
    assert!(status == Some(1) && told.contains("there is no identity of age"), "{told}");
    fs::copy(encrypted.key("id_ed25519"), encrypted.dir.path().join("home/.ssh/id_ed25519")).unwrap();
    let (status, _, told) = encrypted.values("secrets", "encrypted/ssh.yaml", &[]);
    assert_eq!((status, told.as_str()), (Some(0), ""));
}

/// `HELMFILE` and `KUSTOMIZE` are the paths of the real programs.
#[test]
#[ignore = "writes the recordings: make fixtures-helmfile"]
fn record() {
    let program = |name: &str| PathBuf::from(std::env::var_os(name).unwrap_or_else(|| panic!("set {name}")));
    let programs = tempfile::tempdir().unwrap();
    let link = |name: &str, target: &Path| std::os::unix::fs::symlink(target, programs.path().join(name));
    link("helm", &Tool::Helm4.path().unwrap()).unwrap();
    link("kustomize", &program("KUSTOMIZE")).unwrap();
    let path = format!("{}:/usr/bin:/bin", programs.path().display());
    for case in cases() {
        fs::write(case.join("expected.txt"), outcome(&case, &program("HELMFILE"), &[], &path)).unwrap();
    }
}
