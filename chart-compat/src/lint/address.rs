//! Addresses in `Chart.yaml`: Helm's validation of emails, URLs and request URLs (`govalidator`).

use crate::go::url::Url;

/// Whether this is a valid request URL: absolute, or with a path from the root, and with a scheme (`IsRequestURL`).
pub(super) fn is_request_url(text: &str) -> bool {
    // `url.ParseRequestURI` requires the form of an HTTP request: no relative path, no fragment.
    let text = text.as_bytes();
    let Ok(url) = Url::parse(text) else { return false };
    !url.scheme.is_empty() && !text.starts_with(b"#")
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || !c.is_ascii()
}

/// Whether this is a URL, with or without a scheme (`IsURL`).
pub(super) fn is_url(text: &str) -> bool {
    if text.chars().count() >= 2083
        || text.len() <= 3
        || text.starts_with('.')
        || text.contains(char::is_whitespace)
    {
        return false;
    }
    let rest = match text.split_once("://") {
        Some(("ftp" | "tcp" | "udp" | "ws" | "wss" | "http" | "https", rest)) => rest,
        Some((scheme, _)) if !scheme.contains(['/', '?', '#']) => return false,
        _ => text,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') => (host, Some(port)),
        _ => (host, None),
    };
    if port.is_some_and(|p| p.is_empty() || p.len() > 5 || !p.bytes().all(|c| c.is_ascii_digit())) {
        return false;
    }
    if host.starts_with('[') {
        return host.ends_with(']');
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let label = |label: &str| {
        label.starts_with(word)
            && label.ends_with(word)
            && label.chars().all(|c| word(c) || matches!(c, '-' | '_'))
    };
    host.split('.').all(label)
}

/// Whether this is an email address (`IsEmail`).
pub(super) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let atom =
        |part: &str| !part.is_empty() && part.chars().all(|c| word(c) || "!#$%&'*+-/=?^_`{|}~".contains(c));
    let quoted = local.len() > 1 && local.starts_with('"') && local.ends_with('"');
    if !quoted && !local.split('.').all(atom) {
        return false;
    }
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let label = |label: &str| {
        label.starts_with(word)
            && label.ends_with(word)
            && label.chars().all(|c| word(c) || "-._~".contains(c))
    };
    // The last label starts and ends with a letter.
    let letter = |c: char| word(c) && !c.is_ascii_digit();
    let last = domain.rsplit('.').next().unwrap_or_default();
    domain.contains('.') && domain.split('.').all(label) && last.starts_with(letter) && last.ends_with(letter)
}

#[cfg(test)]
mod tests {
    use super::{is_email, is_request_url, is_url};

    #[test]
    fn addresses_are_told_apart() {
        for (text, want) in [
            ("a@b.co", true),
            ("a.b+c@d-e.org", true),
            ("a@b", false),
            ("a b@c.d", false),
            ("@c.de", false),
            ("a@b.1", false),
        ] {
            assert_eq!(is_email(text), want, "{text}");
        }
        for (text, want) in [
            ("https://example.com/a?b#c", true),
            ("example.com", true),
            ("localhost:8080", true),
            ("http://user:pw@host:80/", true),
            // The rule takes the scheme for a user and the rest for a password.
            ("mailto:a@b.c", true),
            ("a b.com", false),
            ("git://x.y", false),
            (".com", false),
        ] {
            assert_eq!(is_url(text), want, "{text}");
        }
        for (text, want) in
            [("https://a.b/c", true), ("a.b/c", false), ("/c", false), ("oci://x", true), ("http://[", false)]
        {
            assert_eq!(is_request_url(text), want, "{text}");
        }
    }
}
