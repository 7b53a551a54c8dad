//! `.Capabilities`: the Kubernetes version, API versions and the emulated Helm version (`common.Capabilities`).

/// A Kubernetes version, as charts see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// The full version, e.g. `v1.33.4-gke.1245000`.
    pub version: String,
    /// The version without suffix, for printing and for `kubeVersion` ranges.
    pub normalized: String,
    /// Major number.
    pub major: String,
    /// Minor number.
    pub minor: String,
}

impl KubeVersion {
    /// Parses the argument of `--kube-version`, e.g. `1.31`, `v1.30.4-gke.1129000` (`common.ParseKubeVersion`).
    ///
    /// ```
    /// use chart_compat::render::KubeVersion;
    ///
    /// let version = KubeVersion::parse("v1.30.4-gke.1129000")?;
    /// assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "30"));
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// Go's text for an invalid version.
    pub fn parse(text: &str) -> Result<Self, String> {
        let quoted = || crate::go::strconv::quote(text.as_bytes());
        let body = text.trim().strip_prefix('v').unwrap_or(text.trim());
        let digits = body.bytes().take_while(|c| c.is_ascii_digit() || *c == b'.').count();
        let numbers = body[..digits].trim_end_matches('.');
        if !numbers.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!("could not parse {} as version", quoted()));
        }
        let parts: Vec<&str> = numbers.split('.').collect();
        if parts.len() < 2 {
            return Err(format!("illegal version string {}", quoted()));
        }
        if parts[0].len() > 1 && parts[0].starts_with('0') {
            let component = crate::go::strconv::quote(parts[0].as_bytes());
            return Err(format!("illegal zero-prefixed version component {component} in {}", quoted()));
        }
        let mut values = Vec::new();
        for part in parts {
            let value: u64 = part.parse().map_err(|_| {
                let component = crate::go::strconv::quote(part.as_bytes());
                format!("illegal non-numeric version component {component} in {}", quoted())
            })?;
            values.push(value.to_string());
        }
        let version = if text.starts_with('v') { text.to_owned() } else { format!("v{text}") };
        Ok(Self {
            version,
            normalized: format!("v{}", values.join(".")),
            major: values[0].clone(),
            minor: values[1].clone(),
        })
    }

    /// The version of a live cluster, unchanged from the server.
    #[must_use]
    pub fn of_cluster(git_version: &str, major: &str, minor: &str) -> Self {
        Self {
            version: git_version.to_owned(),
            normalized: git_version.to_owned(),
            major: major.to_owned(),
            minor: minor.to_owned(),
        }
    }
}

/// The properties of cluster and Helm that charts see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The cluster's version.
    pub kube_version: KubeVersion,
    /// `group/version` and, from a live cluster, `group/version/Kind`.
    pub api_versions: Vec<String>,
    /// `.Capabilities.HelmVersion.Version`, e.g. `v4.3.1`.
    pub helm_version: String,
    /// `.Capabilities.HelmVersion.GoVersion`
    pub go_version: String,
    /// `.Capabilities.HelmVersion.KubeClientVersion`
    pub kube_client_version: String,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            kube_version: KubeVersion {
                version: "v1.37.0".to_owned(),
                normalized: "v1.37.0".to_owned(),
                major: "1".to_owned(),
                minor: "37".to_owned(),
            },
            api_versions: default_api_versions(),
            helm_version: "v4.3.1".to_owned(),
            go_version: "go1.26.8".to_owned(),
            kube_client_version: "v1.37".to_owned(),
        }
    }
}

/// The API versions that Helm assumes without a cluster, in its order: all of client-go's scheme.
#[must_use]
pub fn default_api_versions() -> Vec<String> {
    DEFAULT.split_whitespace().map(str::to_owned).collect()
}

const DEFAULT: &str = "
v1
admissionregistration.k8s.io/v1 admissionregistration.k8s.io/v1alpha1 admissionregistration.k8s.io/v1beta1
internal.apiserver.k8s.io/v1alpha1
apps/v1 apps/v1beta1 apps/v1beta2
authentication.k8s.io/v1 authentication.k8s.io/v1alpha1 authentication.k8s.io/v1beta1
authorization.k8s.io/v1 authorization.k8s.io/v1beta1
autoscaling/v1 autoscaling/v2
batch/v1 batch/v1beta1
certificates.k8s.io/v1 certificates.k8s.io/v1beta1 certificates.k8s.io/v1alpha1
coordination.k8s.io/v1alpha2 coordination.k8s.io/v1beta1 coordination.k8s.io/v1
discovery.k8s.io/v1 discovery.k8s.io/v1beta1
events.k8s.io/v1 events.k8s.io/v1beta1
extensions/v1beta1
flowcontrol.apiserver.k8s.io/v1 flowcontrol.apiserver.k8s.io/v1beta1
flowcontrol.apiserver.k8s.io/v1beta2 flowcontrol.apiserver.k8s.io/v1beta3
lifecycle.k8s.io/v1alpha1
networking.k8s.io/v1 networking.k8s.io/v1beta1
node.k8s.io/v1 node.k8s.io/v1alpha1 node.k8s.io/v1beta1
policy/v1 policy/v1beta1
rbac.authorization.k8s.io/v1 rbac.authorization.k8s.io/v1beta1 rbac.authorization.k8s.io/v1alpha1
resource.k8s.io/v1 resource.k8s.io/v1beta2 resource.k8s.io/v1beta1 resource.k8s.io/v1alpha3
scheduling.k8s.io/v1alpha3 scheduling.k8s.io/v1beta1 scheduling.k8s.io/v1
storage.k8s.io/v1beta1 storage.k8s.io/v1 storage.k8s.io/v1alpha1
storagemigration.k8s.io/v1 storagemigration.k8s.io/v1beta1
apiextensions.k8s.io/v1beta1 apiextensions.k8s.io/v1
";
