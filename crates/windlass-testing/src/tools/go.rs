//! Builds with Go into the cache: once for each content of a group's `go.mod`, `go.sum` and recipes, whoever asks first.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use sha2::{Digest as _, Sha256};

use super::{Recipe, Tool};
use crate::progress::say;
use crate::{Error, Result};

/// Static binaries without debug tables, and only what `go.sum` vouches for.
const BUILD: [&str; 3] = ["build", "-buildvcs=false", "-mod=readonly"];
const LINK: &str = "-s -w";

/// Where the tool's binary is in the cache once it is built.
pub(super) fn binary(recipe: &Recipe) -> Result<PathBuf> {
    let group = recipe.group;
    let directory = cache()?.join(format!("{group}-{}", fingerprint(&source(recipe), group)?));
    Ok(directory.join(recipe.name))
}

/// The Go module that pins the tool.
fn source(recipe: &Recipe) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools").join(recipe.group)
}

/// The tool's binary in the cache, built if it is not there.
pub(super) fn build_once(recipe: &Recipe) -> Result<PathBuf> {
    let binary = binary(recipe)?;
    if binary.is_file() {
        return Ok(binary);
    }

    let directory = binary.parent().unwrap_or(&binary);
    fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
    let lock_path = directory.join(".lock");
    let lock = File::create(&lock_path).map_err(Error::io("create", &lock_path))?;
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        say(format_args!("waiting for another process that builds {}", recipe.name));
        lock.lock().map_err(Error::io("lock", &lock_path))?;
    }
    if !binary.is_file() {
        build(recipe, &source(recipe), &binary)?;
    }
    Ok(binary)
}

/// The name that a module's file has beside the binary.
pub(super) fn file_name(file: &str) -> &str {
    file.rsplit_once('/').map_or(file, |(_, name)| name)
}

fn build(recipe: &Recipe, source: &Path, binary: &Path) -> Result<()> {
    let begin = Instant::now();
    // Fetches what is missing, so that the module has a directory and a version.
    go(source, &["mod", "download", recipe.module])?;
    let module = go(source, &["list", "-m", "-f", "{{.Version}}\n{{.Dir}}", recipe.module])?;
    let (version, module_directory) = module.trim().split_once('\n').unwrap_or((module.trim(), ""));
    say(format_args!(
        "building {} {version} in {} (about {} the first time)",
        recipe.name,
        binary.display(),
        recipe.build_time
    ));

    // The binary comes last and whole: a build that was killed is made again.
    let partial = binary.with_extension("partial");
    let output = format!("-o={}", partial.display());
    let link = format!("-ldflags={LINK}{}", stamps(recipe, version));
    let mut arguments = BUILD.to_vec();
    arguments.extend([output.as_str(), link.as_str(), recipe.package]);
    go(source, &arguments)?;
    for file in recipe.files {
        let from = Path::new(module_directory).join(file);
        let to = binary.with_file_name(file_name(file));
        // Read and written, not copied: the module cache is read-only and so would be the copy.
        let text = fs::read(&from).map_err(Error::io("read", &from))?;
        fs::write(&to, text).map_err(Error::io("write", &to))?;
    }
    fs::rename(&partial, binary).map_err(Error::io("rename to", binary))?;
    say(format_args!("built {} in {:.0} s", recipe.name, begin.elapsed().as_secs_f32()));
    Ok(())
}

fn stamps(recipe: &Recipe, version: &str) -> String {
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    recipe.stamps.iter().fold(String::new(), |flags, stamp| {
        let stamp = stamp.replace("{version}", version).replace("{major}", major).replace("{minor}", minor);
        flags + " -X " + &stamp
    })
}

fn go(directory: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new("go")
        .args(arguments)
        .current_dir(directory)
        // No C compiler needed, and no workspace of the user's mixed in.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        // Short-lived compilers need little garbage collection: a sixth less work, for some hundred MiB.
        .env("GOGC", env::var_os("GOGC").unwrap_or_else(|| "400".into()))
        .output()
        .map_err(|source| match source.kind() {
            ErrorKind::NotFound => Error::GoMissing,
            _ => Error::Io { what: "run go".to_owned(), source },
        })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if stderr.contains("requires go >= ") {
        Error::GoTooOld { stderr }
    } else {
        Error::Go {
            command: format!("go {}", arguments.join(" ")),
            directory: directory.to_owned(),
            status: output.status,
            stderr,
        }
    })
}

fn cache() -> Result<PathBuf> {
    let directory = env::var_os("WINDLASS_TOOLS_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/tools"), PathBuf::from);
    fs::create_dir_all(&directory).map_err(Error::io("create", &directory))?;
    // Go runs in the module's folder, so a relative path would lead elsewhere.
    directory.canonicalize().map_err(Error::io("find", &directory))
}

/// Names a group's content: the modules that it is built of, and how.
fn fingerprint(source: &Path, group: &str) -> Result<String> {
    let mut digest = Sha256::new();
    let entries = fs::read_dir(source).map_err(Error::io("list", source))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        digest.update(fs::read(&path).map_err(Error::io("read", &path))?);
    }
    let recipes = Tool::ALL.iter().map(|tool| tool.recipe()).filter(|recipe| recipe.group == group);
    for recipe in recipes {
        digest.update(format!("{BUILD:?} {LINK} {recipe:?} {} {}", env::consts::OS, env::consts::ARCH));
    }
    Ok(digest.finalize()[..6].iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::{Tool, stamps};

    #[test]
    fn stamps_carry_the_pinned_version() {
        assert_eq!(stamps(Tool::Etcd.recipe(), "v3.6.10"), "");
        assert_eq!(
            stamps(Tool::Helm3.recipe(), "v3.22.0"),
            " -X helm.sh/helm/v3/internal/version.version=v3.22.0 \
             -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1 \
             -X helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor=37 \
             -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor=1 \
             -X helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor=37"
        );
        assert_eq!(
            stamps(Tool::Kubectl.recipe(), "v1.36.3"),
            " -X k8s.io/component-base/version.gitVersion=v1.36.3 \
             -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
        );
    }
}
