//! Authentication to registries: by name and password, or by a token of a token server.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::super::http::{Credentials as Header, Http, MAX_CREDENTIALS, Request, Tls};
use super::super::location::Location;
use super::OciError;
use super::credentials::Login;
use windlass_base::bounded_json;
use windlass_base::redact::SecretText;

/// A registry's challenge (`WWW-Authenticate`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: String, scope: String },
}

impl Challenge {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters(rest);
        let of = |name: &str| parameters.get(name).cloned().unwrap_or_default();
        Some(Self::Bearer { realm: of("realm"), service: of("service"), scope: of("scope") })
    }
}

/// `name="value", …`.
fn parameters(mut rest: &str) -> HashMap<String, String> {
    let mut out = HashMap::new();
    while let Some((name, after)) = rest.split_once('=') {
        let name = name.trim_matches([' ', ',']).to_ascii_lowercase();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').unwrap_or((after, "")),
        };
        out.insert(name, value.to_owned());
        rest = next;
    }
    out
}

/// Tokens of one command, by origin and scope.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<(String, String), Header>>);

impl Tokens {
    pub(super) fn get(&self, origin: &str, scope: &str) -> Option<Header> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&(origin.to_owned(), scope.to_owned())).cloned()
    }

    pub(super) fn keep(&self, origin: &str, scope: &str, header: &Header) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert((origin.to_owned(), scope.to_owned()), header.clone());
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    token: SecretText,
    #[serde(default)]
    access_token: SecretText,
}

/// The answer to a server's challenge. A token server that refuses gives an error with its status.
pub(super) async fn answer(
    http: &Http,
    tls: &Tls,
    server: &Location,
    challenge: &Challenge,
    scope: &str,
    login: Option<&Login>,
) -> Result<Option<Header>, OciError> {
    let (realm, service, asked) = match challenge {
        Challenge::Basic => {
            return Ok(match login {
                Some(Login::Basic(user, password)) => Some(Header::Basic(user.clone(), password.clone())),
                _ => None,
            });
        }
        Challenge::Bearer { realm, service, scope } => (realm, service, scope),
    };
    let realm = Location::parse(realm)
        .map_err(|_| OciError::Answer("the realm of its challenge is not a URL".into()))?;
    if server.scheme == "https" && realm.scheme != "https" {
        return Err(OciError::Answer(format!("it wants credentials to go to {realm} in plain text")));
    }
    // The client certificate is for the registry; a redirect must not receive the login.
    let tls = &if realm.same_origin(server) { tls.clone() } else { tls.without_identity() };
    // The scope that we need, and those that the registry names.
    let scope = if scope.is_empty() { asked } else { scope };
    let escape = |s: &str| utf8_percent_encode(s, NON_ALPHANUMERIC).to_string();
    let bytes = match login {
        Some(Login::Identity(token)) => {
            let fields = [
                ("grant_type", "refresh_token"),
                ("refresh_token", token.expose()),
                ("service", service),
                ("scope", scope),
                ("client_id", "windlass"),
            ];
            http.fetch(Request::form(realm, tls, &fields)).await
        }
        _ => {
            let mut query: Vec<String> = realm.query.clone().into_iter().filter(|q| !q.is_empty()).collect();
            if !service.is_empty() {
                query.push(format!("service={}", escape(service)));
            }
            for one in scope.split(' ').filter(|s| !s.is_empty()) {
                query.push(format!("scope={}", escape(one)));
            }
            let mut request = Request::get(realm.with_query(query.join("&")), tls, MAX_CREDENTIALS);
            if let Some(Login::Basic(user, password)) = login {
                request.credentials = Some(Header::Basic(user.clone(), password.clone()));
                request.confined = true;
            }
            http.fetch(request).await
        }
    };
    let answer: Answer = bounded_json::from_slice(&bytes?)
        .map_err(|_| OciError::Answer("its token server sent no token".into()))?;
    let token = if answer.token.is_empty() { answer.access_token } else { answer.token };
    if token.is_empty() {
        return Err(OciError::Answer("its token server sent an empty token".into()));
    }
    Ok(Some(Header::Bearer(token)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let text =
            r#"Bearer realm="https://auth.h/token?x=1",service="reg, one", scope="repository:a/b:pull,push""#;
        let want = Challenge::Bearer {
            realm: "https://auth.h/token?x=1".into(),
            service: "reg, one".into(),
            scope: "repository:a/b:pull,push".into(),
        };
        assert_eq!(Challenge::parse(text), Some(want));
        assert_eq!(Challenge::parse("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("Negotiate"), None);
    }
}
