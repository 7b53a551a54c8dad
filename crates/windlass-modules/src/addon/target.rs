//! Where a module's release is installed and on whose behalf: the annotations of its chart that say so.

use windlass_controller::{ReleaseActor, ReleaseTarget, ServiceAccountRef, is_dns_label};

/// Annotation of a module's chart: namespace of its release, instead of the operator's.
const NAMESPACE: &str = "windlass.dev/namespace";
/// Annotation of a module's chart: the ServiceAccount that reads and writes the objects of its release, and those that its hooks
/// ask for; `name` in the release's namespace or `namespace/name`.
const SERVICE_ACCOUNT: &str = "windlass.dev/service-account";

/// Reads the annotations of a chart.
///
/// # Errors
/// A name that Kubernetes does not accept: the text names the annotation and its value.
pub(super) fn of_chart(annotations: Option<&[(String, String)]>) -> Result<ReleaseTarget, String> {
    let mut target = ReleaseTarget::default();
    for (key, text) in annotations.unwrap_or_default() {
        let wrong = || format!("Chart.yaml: annotation {key}: {text:?} is not");
        match key.as_str() {
            NAMESPACE if is_dns_label(text) => target.namespace = Some(text.clone()),
            NAMESPACE => return Err(format!("{} the name of a namespace", wrong())),
            SERVICE_ACCOUNT => {
                let account = ServiceAccountRef::parse(text);
                let wrong = || format!("{} NAME or NAMESPACE/NAME of a ServiceAccount", wrong());
                target.actor = ReleaseActor::Account(account.ok_or_else(wrong)?);
            }
            _ => {}
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(annotations: &[(&str, &str)]) -> Result<ReleaseTarget, String> {
        let own: Vec<_> = annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        of_chart(Some(&own))
    }

    #[test]
    fn annotations_say_where() {
        assert_eq!(of_chart(None).unwrap(), ReleaseTarget::default());
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
