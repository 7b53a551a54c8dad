//! The names of a chart's kind, and what the API server permits as such.

use chart_compat::go::regexp;

/// The API group of charts' kinds unless another one is asked for.
pub const DEFAULT_GROUP: &str = "charts.windlass.dev";
/// The version of charts' kinds unless another one is asked for.
pub const DEFAULT_VERSION: &str = "v1alpha1";

/// Longest label of a name (RFC 1123).
const MAX_LABEL: usize = 63;
/// Longest name of a CustomResourceDefinition.
const MAX_NAME: usize = 253;

/// The names of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindNames {
    /// The API group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The resource: lower case, plural.
    pub plural: String,
    /// Its singular.
    pub singular: String,
}

/// A name that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{flag} {value:?}: {rule}")]
pub struct NameError {
    /// The flag that sets it.
    pub flag: &'static str,
    /// The name.
    pub value: String,
    /// What it must be.
    pub rule: &'static str,
}

impl KindNames {
    /// The names for a chart. Those that are not given are made of the chart's name.
    ///
    /// # Errors
    /// A name that the API server refuses.
    pub fn new(
        chart: &str,
        group: Option<&str>,
        version: Option<&str>,
        kind: Option<&str>,
        plural_name: Option<&str>,
    ) -> Result<Self, NameError> {
        let kind = kind.map_or_else(|| upper_camel_case(chart), str::to_owned);
        let names = Self {
            group: group.unwrap_or(DEFAULT_GROUP).to_owned(),
            version: version.unwrap_or(DEFAULT_VERSION).to_owned(),
            plural: plural_name.map_or_else(|| plural(&kind), str::to_owned),
            singular: kind.to_lowercase(),
            kind,
        };
        names.check()?;
        Ok(names)
    }

    /// The name of the CustomResourceDefinition.
    #[must_use]
    pub fn crd(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    fn check(&self) -> Result<(), NameError> {
        let label = |text: &str| text.len() <= MAX_LABEL && matches("^[a-z]([-a-z0-9]*[a-z0-9])?$", text);
        let domain = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
        let is_domain =
            self.group.contains('.') && matches(domain, &self.group) && self.crd().len() <= MAX_NAME;
        let is_own = |own: &str| self.group == own || self.group.ends_with(&format!(".{own}"));
        let is_kind =
            self.kind.starts_with(|c: char| c.is_ascii_uppercase()) && label(&self.kind.to_lowercase());
        // A group is to blame for the length of the whole only where the other names are short enough.
        let rules = [
            (
                label(&self.version),
                "--api-version",
                &self.version,
                "it must be of lower case letters, digits and dashes, such as v1alpha1",
            ),
            (
                is_kind,
                "--kind",
                &self.kind,
                "it must be at most 63 letters and digits that begin with a capital one, such as LibertyApp",
            ),
            (
                label(&self.plural),
                "--plural",
                &self.plural,
                "it must be of lower case letters, digits and dashes, such as libertyapps",
            ),
            (
                is_domain,
                "--group",
                &self.group,
                "it must be a domain name in lower case, such as charts.example.com",
            ),
            (
                !["k8s.io", "kubernetes.io"].into_iter().any(is_own),
                "--group",
                &self.group,
                "the API server keeps such groups for Kubernetes itself: choose another one",
            ),
        ];
        match rules.into_iter().find(|(fits, ..)| !fits) {
            Some((_, flag, value, rule)) => Err(NameError { flag, value: value.clone(), rule }),
            None => Ok(()),
        }
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    regexp::compile(pattern.as_bytes()).is_ok_and(|pattern| pattern.is_match(text.as_bytes()))
}

/// The resource of a kind by Kubernetes' rule (`meta.UnsafeGuessKindToResource`), which is correct for all kinds of Kubernetes.
#[must_use]
pub fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.strip_suffix('y') {
        _ if lower == "endpoints" => lower,
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if lower.ends_with(['s', 'x']) || lower.ends_with("ch") => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

/// A chart's name as a kind: `kube-prometheus-stack` is `KubePrometheusStack`. One that begins with a digit follows `Chart`.
fn upper_camel_case(chart: &str) -> String {
    let words = chart.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut out: String = words.map(|word| word[..1].to_ascii_uppercase() + &word[1..]).collect();
    if !out.starts_with(|c: char| c.is_ascii_uppercase()) {
        out.insert_str(0, "Chart");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_the_charts() {
        for (chart, kind, resource) in [
            ("liberty", "Liberty", "liberties"),
            ("kube-prometheus-stack", "KubePrometheusStack", "kubeprometheusstacks"),
            ("redis", "Redis", "redises"),
            ("3scale_op.v2", "Chart3scaleOpV2", "chart3scaleopv2s"),
            ("gateway", "Gateway", "gateways"),
            ("argocd-apps", "ArgocdApps", "argocdappses"),
        ] {
            let names = KindNames::new(chart, None, None, None, None).unwrap();
            assert_eq!((names.kind.as_str(), names.plural.as_str()), (kind, resource));
            assert_eq!(names.crd(), format!("{resource}.charts.windlass.dev"));
        }
    }

    #[test]
    fn names_that_the_api_server_refuses_are_errors() {
        let (long_kind, long_group) = ("K".repeat(300), "a.".repeat(130) + "a");
        let new = |group, version, kind, plural| {
            KindNames::new("a", group, version, kind, plural).map(|_| ()).unwrap_err().flag
        };
        assert_eq!(new(Some("example"), None, None, None), "--group");
        assert_eq!(new(Some("Example.com"), None, None, None), "--group");
        assert_eq!(new(Some("apps.k8s.io"), None, None, None), "--group");
        assert_eq!(new(None, Some("V1"), None, None), "--api-version");
        assert_eq!(new(None, None, Some("libertyApp"), None), "--kind");
        assert_eq!(new(None, None, Some("Liberty_App"), None), "--kind");
        assert_eq!(new(None, None, Some(&long_kind), None), "--kind");
        assert_eq!(new(Some(&long_group), None, None, None), "--group");
        assert_eq!(new(None, None, None, Some("Apps")), "--plural");
    }
}
