//! Runs programs, `helm` and this one, with limits on time and output. Detects the version and assumptions of a `helm`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use chart_compat::profile::Profile;
use chart_compat::render::default_api_versions;

use super::super::Failure;
use super::answer::Answer;
use super::note;
use windlass_base::child_process::{self, ChildError, Group, Limits};

/// Maximal output of a program, in bytes.
const MAX_OUTPUT: u64 = 256 * 1024 * 1024;

/// A working `helm`.
pub(super) struct Helm {
    /// Its path or name.
    pub(super) path: String,
    /// Its version, e.g. `v4.3.1`.
    pub(super) version: String,
    /// The profile for its version.
    pub(super) profile: Profile,
    /// The Kubernetes version that it assumes without a cluster.
    pub(super) kube_version: String,
    /// API versions that only one of the two assumes without a cluster.
    pub(super) uncommon: Vec<String>,
}

/// A chart that prints Helm's assumptions.
const PROBE: &str = "kubernetes: {{ .Capabilities.KubeVersion.Version }}\n{{ range .Capabilities.APIVersions }}api: {{ . }}\n{{ \
                     end }}";

/// Runs a program to its end. Returns its output and duration.
///
/// # Errors
/// It cannot be started, exceeds its time limit or prints too much.
pub(super) async fn run(
    program: &Path,
    arguments: &[OsString],
    limit: Duration,
) -> Result<(Answer, Duration), String> {
    let start = Instant::now();
    let mut command = Command::new(program);
    // With this variable Helm prints debug output, too.
    command.args(arguments).env_remove("HELM_DEBUG");
    let limits = Limits { output: MAX_OUTPUT, time: Some(limit), memory: None, group: Group::Shared };
    let ended = child_process::run_async(command, Vec::new(), limits).await.map_err(|error| match error {
        ChildError::Start(error) => format!("cannot be run: {error}"),
        ChildError::Output(limit) => format!("printed more than {limit} bytes"),
        ChildError::Time(limit) => format!("took longer than {} s", limit.as_secs_f64()),
        ChildError::Wait(error) => format!("cannot be waited for: {error}"),
    })?;
    let answer = Answer { code: ended.status.code(), stdout: ended.stdout, stderr: ended.stderr };
    Ok((answer, start.elapsed()))
}

/// Detects the version and the assumed Kubernetes of a `helm` by running it.
///
/// # Errors
/// It cannot be run, or is neither Helm 3 nor Helm 4.
pub(super) async fn probe(program: &Path, scratch: &Path, limit: Duration) -> Result<Helm, Failure> {
    let path = program.display().to_string();
    let failed = |e: String| format!("{path} {e}; give the helm to compare with by --helm PATH");
    let (answer, _) = run(program, &["version".into(), "--short".into()], limit).await.map_err(failed)?;
    let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    let profile = match (answer.code, major(&version)) {
        (Some(0), Some(4)) => Profile::Helm4,
        (Some(0), Some(3)) => Profile::Helm3,
        _ => {
            return Err(failed(format!("is neither Helm 3 nor Helm 4: `version --short` gives {version:?}")));
        }
    };
    let chart = scratch.join("probe");
    let write = |name: &str, text: &str| std::fs::write(chart.join(name), text);
    std::fs::create_dir_all(chart.join("templates"))
        .and_then(|()| write("Chart.yaml", "apiVersion: v2\nname: probe\nversion: 0.1.0\n"))
        .and_then(|()| write("templates/probe.yaml", PROBE))
        .map_err(|e| format!("cannot write to a scratch directory: {e}"))?;
    let arguments = ["template".into(), "probe".into(), chart.into()];
    let (answer, _) = run(program, &arguments, limit).await.map_err(failed)?;
    let text = String::from_utf8_lossy(&answer.stdout).into_owned();
    let said = |key: &'static str| text.lines().filter_map(move |l| l.strip_prefix(key)).map(str::to_owned);
    let Some(kube_version) = said("kubernetes: ").next().filter(|_| answer.code == Some(0)) else {
        let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
        return Err(failed(format!("cannot render a chart of one line: {said}")));
    };
    let theirs: BTreeSet<String> = said("api: ").collect();
    let ours: BTreeSet<String> = default_api_versions().into_iter().collect();
    let uncommon: Vec<String> = theirs.symmetric_difference(&ours).cloned().collect();
    if !uncommon.is_empty() {
        note(&format!(
            "this helm and windlass assume different API versions without a cluster; both get all: {}",
            uncommon.join(" ")
        ));
    }
    let stands_for = profile.helm_version();
    if version.split('+').next() != Some(stands_for) {
        note(&format!(
            "this is helm {version}, and {profile} stands for {stands_for}: what Helm changed between both shows as a \
             difference"
        ));
    }
    Ok(Helm { path, version, profile, kube_version, uncommon })
}

/// The major version in the output of `helm version --short`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major;

    #[test]
    fn versions_tell_the_profile() {
        for (text, number) in [
            ("v4.3.1", Some(4)),
            ("v3.12.0+gc9f554d", Some(3)),
            ("Client: v2.16.1+gbbdfe5e", None),
            ("", None),
        ] {
            assert_eq!(major(text), number, "{text}");
        }
    }
}
