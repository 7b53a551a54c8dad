//! Conditions of Flux's objects, set as of now. Secrets in messages are masked here.

use flux_api::common::StatusCondition;
use flux_api::status_conditions::{self, Truth};
use windlass_base::redact;
use windlass_cluster::api_now;

/// Sets a condition of an object's generation.
pub(crate) fn set(
    all: &mut Vec<StatusCondition>,
    kind: &str,
    truth: Truth,
    (reason, message): (&str, &str),
    generation: i64,
) {
    status_conditions::set(all, kind, truth, (reason, &redact::mask(message)), generation, &api_now());
}
