//! Validation of names of Kubernetes objects (`validateMetadataName`): the rule of each kind, and the error texts.

use crate::go::strconv::quote;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
                         must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation \
                         is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                     and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
                       alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex \
                       used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_label(name: &str) -> bool {
    let ends = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    ends(name.bytes().next())
        && ends(name.bytes().next_back())
        && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
}

fn is_subdomain(name: &str) -> bool {
    name.split('.').all(is_label)
}

fn too_long(name: &str, most: usize) -> Option<String> {
    (name.len() > most).then(|| format!("must be no more than {most} characters"))
}

/// The violations of an object's name.
fn breaches(kind: &str, name: &str) -> Vec<String> {
    let one = |broken: bool, text: &str| broken.then(|| text.to_owned());
    match kind.to_lowercase().as_str() {
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => {
            if matches!(name, "." | "..") {
                return vec![format!("may not be '{name}'")];
            }
            let has = |part: &str| name.contains(part).then(|| format!("may not contain '{part}'"));
            has("/").into_iter().chain(has("%")).collect()
        }
        "service" => {
            let starts = name.bytes().next().is_some_and(|c| c.is_ascii_lowercase());
            too_long(name, 63).into_iter().chain(one(!is_label(name) || !starts, SERVICE)).collect()
        }
        "namespace" => {
            let text = if is_subdomain(name) { "must not contain dots" } else { LABEL };
            too_long(name, 63).into_iter().chain(one(!is_label(name), text)).collect()
        }
        _ => too_long(name, 253).into_iter().chain(one(!is_subdomain(name), SUBDOMAIN)).collect(),
    }
}

/// Whether an object's name follows the rules of its kind.
///
/// # Errors
/// Helm's text.
pub(super) fn check(kind: &str, name: &str) -> Result<(), String> {
    let quoted = quote(name.as_bytes());
    let mut told: Vec<String> = breaches(kind, name)
        .iter()
        .map(|text| format!("metadata.name: Invalid value: {quoted}: {text}"))
        .collect();
    let told = match told.len() {
        0 => return Ok(()),
        1 => told.remove(0),
        _ => format!("[{}]", told.join(", ")),
    };
    Err(format!("object name does not conform to Kubernetes naming requirements: {quoted}: {told}"))
}

#[cfg(test)]
mod tests {
    use super::breaches;

    #[test]
    fn kinds_have_their_rules() {
        let table = [
            ("Pod", "a.b", 0),
            ("Pod", "", 1),
            ("Pod", "A", 1),
            ("ConfigMap", "a_b", 1),
            ("Service", "1a", 1),
            ("Service", "a-1", 0),
            ("Namespace", "a.b", 1),
            ("Role", "System:x", 0),
            ("Role", "a/b%c", 2),
            ("CertificateSigningRequest", "%", 0),
        ];
        for (kind, name, count) in table {
            assert_eq!(breaches(kind, name).len(), count, "{kind} {name}");
        }
        assert_eq!(breaches("Service", &"a".repeat(64)).len(), 1);
    }
}
