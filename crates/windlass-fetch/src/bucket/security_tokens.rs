//! Temporary keys of a Security Token Service with the API of AWS.

use super::super::http::{Http, Request, Tls};
use super::super::location::Location;
use super::{BucketError, S3Keys};

/// Asks for keys; `fields`: those of the request beside its version.
///
/// # Errors
/// The service cannot be reached, refuses, or answers without keys.
pub(super) async fn ask(
    http: &Http,
    tls: &Tls,
    endpoint: &Location,
    fields: &[(&str, &str)],
) -> Result<S3Keys, BucketError> {
    let url = endpoint.with_path(format!("{}/", endpoint.path.trim_end_matches('/')));
    let shown = url.to_string();
    let fields = [&[("Version", "2011-06-15")], fields].concat();
    let answer = http.fetch(Request::form(url, tls, &fields)).await?;
    let text = String::from_utf8_lossy(&answer);
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(value, _)| value.trim().to_owned())
    };
    let keys = part("AccessKeyId").zip(part("SecretAccessKey"));
    let (access, secret) = keys.ok_or_else(|| no_keys(&shown))?;
    Ok(S3Keys { access, secret: secret.into(), session: part("SessionToken").map(Into::into) })
}

/// An answer without keys.
pub(super) fn no_keys(from: &str) -> BucketError {
    BucketError::Answer(format!("{from} answered without credentials for AWS"))
}
