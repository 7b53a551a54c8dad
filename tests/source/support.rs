//! A user's home, the two programs in it, and small charts.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use windlass_testing::{Tool, write_file};

/// What a program said.
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Said {
    fn from(o: Output) -> Self {
        let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
        Self { ok: o.status.success(), out: text(o.stdout), err: text(o.stderr) }
    }
}

/// A user with no state of Helm's yet.
pub(crate) struct User {
    dir: tempfile::TempDir,
}

pub(crate) fn helm4() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| Tool::Helm4.path().expect("helm 4 builds"))
}

pub(crate) fn ours() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_windlass"))
}

impl User {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A path in the user's home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        command
    }

    /// Runs ours.
    pub(crate) fn ours(&self, args: &[&str]) -> Said {
        self.command(ours(), args).output().unwrap().into()
    }

    /// Runs Helm 4.
    pub(crate) fn helm(&self, args: &[&str]) -> Said {
        self.command(helm4(), args).output().unwrap().into()
    }

    /// Standard output of ours, which must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let said = self.ours(args);
        assert!(said.ok, "windlass {args:?}\n{}{}", said.out, said.err);
        said.out
    }

    /// Standard output of Helm's, which must succeed.
    pub(crate) fn helm_ok(&self, args: &[&str]) -> String {
        let said = self.helm(args);
        assert!(said.ok, "helm {args:?}\n{}{}", said.out, said.err);
        said.out
    }

    /// Standard error of ours, which must fail.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let said = self.ours(args);
        assert!(!said.ok, "windlass {args:?} must fail\n{}", said.out);
        said.err
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        write_file(self.path(name), text);
    }

    /// All files below a directory of the home, in order; none if it is not there.
    pub(crate) fn files(&self, name: &str) -> Vec<String> {
        let mut out = Vec::new();
        collect(&self.path(name), "", &mut out);
        out.sort();
        out
    }
}

fn collect(directory: &Path, prefix: &str, out: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{name}/"), out);
        } else {
            out.push(name);
        }
    }
}

/// A chart directory with a bit of everything.
pub(crate) fn chart(directory: &Path, name: &str, version: &str, more: &str) {
    let chart = format!(
        "apiVersion: v2\nname: {name}\nversion: {version}\nappVersion: \"1.10\"\ndescription: A chart of {name}s\n\
         keywords: [{name}ish, test]\nmaintainers:\n- name: me\n  email: me@example.test\n{more}"
    );
    write_file(directory.join("Chart.yaml"), &chart);
    write_file(directory.join("values.yaml"), "# How many\nsize: 1\n");
    write_file(directory.join("values.schema.json"), "{\"type\": \"object\"}");
    write_file(directory.join("README.md"), "Read me.\n");
    write_file(directory.join("crds/thing.yaml"), "kind: CustomResourceDefinition\n");
    write_file(directory.join(".helmignore"), "*.bak\n");
    write_file(directory.join("ignored.bak"), "no\n");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\"}\ndata: {size: \"{{ .Values.size }}\"}\n";
    write_file(directory.join("templates/all.yaml"), text);
}

/// The files of a package with their contents, in the order of the archive.
pub(crate) fn package(path: &Path) -> Vec<(String, String)> {
    let file = fs::File::open(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(file));
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        (name, text)
    };
    archive.entries().unwrap().map(read).collect()
}
