//! Where a module's release lives and who applies its objects: the operator's namespace and name, or the module's own.
//!
//! Owns the annotations of a module's chart that say so. The engine does the rest.

/// Annotation of a module's chart: namespace of its release, instead of the operator's.
const NAMESPACE: &str = "windlass.dev/namespace";
/// Annotation of a module's chart: the ServiceAccount that reads and writes the objects of its release, and those that its hooks
/// ask for; `name` in the release's namespace or `namespace/name`.
const SERVICE_ACCOUNT: &str = "windlass.dev/service-account";

/// Where a module's release lives and who applies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Namespace of the release; `None`: the operator's.
    pub namespace: Option<String>,
    /// Namespace (`None`: the release's) and name of the ServiceAccount to impersonate; `None`: nobody.
    service_account: Option<(Option<String>, String)>,
}

impl Place {
    /// Reads the annotations of a chart.
    ///
    /// # Errors
    /// A name that Kubernetes would not take, in words.
    pub fn of_chart(annotations: Option<&[(String, String)]>) -> Result<Self, String> {
        let mut place = Self::default();
        for (key, text) in annotations.unwrap_or_default() {
            let wrong = || format!("Chart.yaml: annotation {key}: {text:?} is not");
            match key.as_str() {
                NAMESPACE if is_label(text) => place.namespace = Some(text.clone()),
                NAMESPACE => return Err(format!("{} the name of a namespace", wrong())),
                SERVICE_ACCOUNT => {
                    let (namespace, name) = match text.split_once('/') {
                        Some((namespace, name)) => (Some(namespace), name),
                        None => (None, text.as_str()),
                    };
                    if !namespace.is_none_or(is_label) || !name.split('.').all(is_label) {
                        return Err(format!("{} NAME or NAMESPACE/NAME of a ServiceAccount", wrong()));
                    }
                    place.service_account = Some((namespace.map(str::to_owned), name.to_owned()));
                }
                _ => {}
            }
        }
        Ok(place)
    }

    /// Namespace and name of the ServiceAccount that a release in `namespace` is applied by.
    #[must_use]
    pub fn service_account<'a>(&'a self, namespace: &'a str) -> Option<(&'a str, &'a str)> {
        self.service_account.as_ref().map(|(own, name)| (own.as_deref().unwrap_or(namespace), name.as_str()))
    }
}

/// Whether a text is a label of RFC 1123: what namespaces are called.
fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(annotations: &[(&str, &str)]) -> Result<Place, String> {
        let own: Vec<_> = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Place::of_chart(Some(&own))
    }

    #[test]
    fn annotations_say_where() {
        assert_eq!(Place::of_chart(None).unwrap(), Place::default());
        let both =
            of(&[("windlass.dev/namespace", "web"), ("windlass.dev/service-account", "deployer")]).unwrap();
        assert_eq!(both.namespace.as_deref(), Some("web"));
        assert_eq!(both.service_account("web"), Some(("web", "deployer")));
        let other = of(&[("windlass.dev/service-account", "ops/de.ployer"), ("other", "x")]).unwrap();
        assert_eq!(
            (other.namespace.clone(), other.service_account("web")),
            (None, Some(("ops", "de.ployer")))
        );
        for (key, text) in [
            ("windlass.dev/namespace", "Web"),
            ("windlass.dev/namespace", ""),
            ("windlass.dev/namespace", "a/b"),
            ("windlass.dev/service-account", "a/b/c"),
            ("windlass.dev/service-account", "system:admin"),
            ("windlass.dev/service-account", "/x"),
        ] {
            let error = of(&[(key, text)]).unwrap_err();
            assert!(error.starts_with(&format!("Chart.yaml: annotation {key}: {text:?} is not ")), "{error}");
        }
    }
}
