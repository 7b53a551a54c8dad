//! Times as the Kubernetes API has them: RFC 3339, in UTC and whole seconds.

use jiff::Timestamp;

/// A time in the API's form.
#[must_use]
pub fn api_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The present in the API's form.
#[must_use]
pub fn api_now() -> String {
    api_time(Timestamp::now())
}
