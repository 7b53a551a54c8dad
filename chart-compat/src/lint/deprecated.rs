//! Deprecated kinds of Kubernetes (`deprecation.IsDeprecated` over client-go's scheme).
//!
//! `deprecated.txt` has the data of the `zz_generated.prerelease-lifecycle.go` files of k8s.io/api 0.37.1: version, kind, the
//! minor releases of Kubernetes 1 that deprecate and remove it (0: none), and its replacement.

use crate::render::KubeVersion;

/// Checks that an object's kind is not deprecated.
///
/// # Errors
/// Kubernetes' warning.
pub(super) fn check(api_version: &str, kind: &str, kube: &KubeVersion) -> Result<(), String> {
    let (Ok(major), Ok(minor)) = (kube.major.parse::<u32>(), kube.minor.parse::<u32>()) else {
        return Ok(());
    };
    for line in include_str!("deprecated.txt").lines() {
        let mut words = line.split(' ');
        if words.next() != Some(api_version) || words.next() != Some(kind) {
            continue;
        }
        let mut number = || words.next().and_then(|w| w.parse::<u32>().ok()).unwrap_or(0);
        let (deprecated, removed) = (number(), number());
        if major < 1 || major == 1 && minor < deprecated {
            return Ok(());
        }
        let mut text = format!("{api_version} {kind} is deprecated in v1.{deprecated}+");
        if removed > 0 {
            text.push_str(&format!(", unavailable in v1.{removed}+"));
        }
        if let (Some(version), Some(kind)) = (words.next(), words.next()) {
            text.push_str(&format!("; use {version} {kind}"));
        }
        return Err(text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::render::KubeVersion;

    #[test]
    fn the_version_decides() {
        let at = |version: &str| check("batch/v1beta1", "CronJob", &KubeVersion::parse(version).unwrap());
        assert_eq!(at("v1.20.0"), Ok(()));
        let want =
            "batch/v1beta1 CronJob is deprecated in v1.21+, unavailable in v1.25+; use batch/v1 CronJob";
        assert_eq!(at("v1.21.0"), Err(want.to_owned()));
        assert_eq!(check("batch/v1", "CronJob", &KubeVersion::parse("v1.37.0").unwrap()), Ok(()));
    }
}
