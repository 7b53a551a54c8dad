//! The generated values of a release in the format of their Secret.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chart_compat::world::{Call, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The number of changes of inputs for which an unused value is kept: the default number of revisions of Helm.
const MAX_IDLE: u32 = 10;

/// The maximal number of unused values.
const MAX_UNUSED: usize = 1_000;

/// The values that a release's renders generated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GeneratedValues {
    /// Digest of chart, values and capabilities of the last render.
    pub inputs: String,
    /// The time that templates see: when the inputs last changed, in seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanos: u32,
    /// Digests of the results of lookups, by the arguments of `lookup`.
    pub lookups: BTreeMap<String, String>,
    /// Values by the digest of their call.
    pub values: BTreeMap<String, Kept>,
}

/// A generated value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The function, for readers of the Secret.
    pub function: String,
    /// The `define` or file that called it.
    pub template: String,
    /// Keys of the loops around the call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub loops: String,
    /// The value, in base64.
    value: String,
    /// When it was generated, in seconds since 1970.
    made: i64,
    /// The validity in days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    days: Option<i64>,
    /// How often the inputs changed since a template last used it.
    #[serde(default)]
    pub idle: u32,
}

/// The key of a call's value.
pub(super) fn key(call: &Call<'_>) -> String {
    let nth = call.nth.to_string();
    let parts = [call.function, &call.arguments, call.file, call.template, &call.context, &call.loops, &nth];
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    super::hex(&hash.finalize())
}

impl Kept {
    pub(super) fn new(call: &Call<'_>, value: &[u8], clock: Timestamp) -> Self {
        Self {
            function: call.function.to_owned(),
            template: call.template.to_owned(),
            loops: call.loops.clone(),
            value: STANDARD.encode(value),
            made: clock.seconds,
            days: call.days,
            idle: 0,
        }
    }

    pub(super) fn value(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.value).ok()
    }

    /// When to renew it: after two thirds of its validity.
    pub(super) fn due(&self) -> Option<i64> {
        let days = self.days.filter(|d| *d > 0)?;
        Some(self.made.saturating_add(days.saturating_mul(86_400 / 3 * 2)))
    }
}

impl GeneratedValues {
    pub(super) fn now(&self) -> Timestamp {
        Timestamp { seconds: self.seconds, nanos: self.nanos }
    }

    /// Records changed inputs: advances the time and ages unused values.
    pub(super) fn turn(&mut self, inputs: &str, clock: Timestamp, used: &BTreeMap<String, Option<Kept>>) {
        inputs.clone_into(&mut self.inputs);
        (self.seconds, self.nanos) = (clock.seconds, clock.nanos);
        for (key, kept) in &mut self.values {
            kept.idle = if used.contains_key(key) { 0 } else { kept.idle + 1 };
        }
        self.values.retain(|_, kept| kept.idle <= MAX_IDLE);
        let mut unused: Vec<(u32, String)> =
            self.values.iter().filter(|(_, k)| k.idle > 0).map(|(key, k)| (k.idle, key.clone())).collect();
        if unused.len() > MAX_UNUSED {
            unused.sort();
            for (_, key) in &unused[MAX_UNUSED..] {
                self.values.remove(key);
            }
        }
    }
}
