//! Runtime parameters, like shell-operator's `pkg/config`.
//!
//! Owns their values and the expiry of temporary ones. The owner of a parameter applies its changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

/// Duration of the log level `debug`, unless one is given.
const DEBUG_LASTS: Duration = Duration::from_secs(30 * 60);
/// The maximal duration of a temporary value.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The minimum level of log lines.
pub const LOG_LEVEL: &str = "log.level";
/// Whether each event of the operator's ConfigMap is logged.
pub const LOG_CONFIG_MAP: &str = "log.configmap.events";

/// Applies a value. Fails for an invalid value.
pub type OnChange = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

struct Parameter {
    description: String,
    default: String,
    /// The permanent value.
    value: Option<String>,
    temporary: Option<(String, Timestamp)>,
    /// Distinguishes the expiry of this value from that of an earlier one.
    turn: u64,
    on_change: OnChange,
    error: Option<String>,
}

impl Parameter {
    fn value(&self) -> &str {
        let lasting = self.value.as_ref().unwrap_or(&self.default);
        self.temporary.as_ref().map_or(lasting, |(value, _)| value)
    }

    fn lasting(&self) -> &str {
        self.value.as_ref().unwrap_or(&self.default)
    }
}

/// The reason why a parameter cannot be set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    #[error("unknown runtime parameter {0:?}")]
    Unknown(String),
    #[error("'value' parameter is invalid: {0}")]
    Invalid(String),
}

/// All parameters.
#[derive(Default)]
pub struct Runtime {
    parameters: Mutex<BTreeMap<&'static str, Parameter>>,
}

impl Runtime {
    fn parameters(&self) -> MutexGuard<'_, BTreeMap<&'static str, Parameter>> {
        self.parameters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a parameter, whose default is already in effect.
    pub fn register(&self, name: &'static str, description: &str, default: &str, on_change: OnChange) {
        let parameter = Parameter {
            description: description.to_owned(),
            default: default.to_owned(),
            value: None,
            temporary: None,
            turn: 0,
            on_change,
            error: None,
        };
        self.parameters().insert(name, parameter);
    }

    /// The value in effect; empty for an unknown parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> String {
        self.parameters().get(name).map(|p| p.value().to_owned()).unwrap_or_default()
    }

    /// Sets a value, temporarily or permanently. The level `debug` is never permanent.
    ///
    /// # Errors
    /// The parameter is unknown, or the value is invalid: the old value is kept.
    pub fn set(self: &Arc<Self>, name: &str, value: &str, time: Option<Duration>) -> Result<(), Error> {
        let time = time.or((name == LOG_LEVEL && value.eq_ignore_ascii_case("debug")).then_some(DEBUG_LASTS));
        let time = time.map(|t| t.min(LONGEST));
        let mut parameters = self.parameters();
        let Some((name, parameter)) = parameters.iter_mut().find(|(n, _)| **n == name) else {
            return Err(Error::Unknown(name.to_owned()));
        };
        let name = *name;
        (parameter.on_change)(value).map_err(Error::Invalid)?;
        parameter.error = None;
        parameter.turn += 1;
        let turn = parameter.turn;
        let Some(time) = time else {
            parameter.value = Some(value.to_owned());
            parameter.temporary = None;
            return Ok(());
        };
        parameter.temporary = Some((value.to_owned(), Timestamp::now() + time));
        let own = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            own.expire(name, turn);
        });
        Ok(())
    }

    fn expire(&self, name: &str, turn: u64) {
        let mut parameters = self.parameters();
        if let Some(parameter) = parameters.get_mut(name).filter(|p| p.turn == turn) {
            parameter.temporary = None;
            parameter.error = (parameter.on_change)(parameter.lasting()).err();
        }
    }

    /// All parameters, in addon-operator's JSON format.
    #[must_use]
    pub fn list(&self) -> Value {
        let shown = |(name, p): (&&str, &Parameter)| {
            let mut shown = json!({
                "name": name, "description": p.description, "default": p.default, "value": p.value(),
            });
            if let Some((_, until)) = &p.temporary {
                shown["expireAt"] = windlass_cluster::api_time(*until).into();
            }
            if let Some(error) = &p.error {
                shown["lastError"] = error.as_str().into();
            }
            shown
        };
        self.parameters().iter().map(shown).collect()
    }

    /// All parameters as a table.
    #[must_use]
    pub fn table(&self) -> String {
        let row = |name: &str, value: &str, until: &str, text: &str| {
            format!("{name:<30} {value:<20} {until:<20} {text:<40}\n")
        };
        let mut out = row("NAME", "VALUE", "EXPIRE AT", "DESCRIPTION");
        for shown in self.list().as_array().into_iter().flatten() {
            let text = |key: &str| shown[key].as_str().unwrap_or_default();
            let error = Some(text("lastError")).filter(|e| !e.is_empty()).map(|e| format!("Error: {e}"));
            let description = error.unwrap_or_else(|| text("description").to_owned());
            out.push_str(&row(text("name"), text("value"), text("expireAt"), &description));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn runtime() -> (Arc<Runtime>, Arc<AtomicUsize>) {
        let (runtime, changes) = (Arc::new(Runtime::default()), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&changes);
        let on_change = move |value: &str| {
            counted.fetch_add(1, Ordering::Relaxed);
            if value == "bad" { Err("bad is not a level".to_owned()) } else { Ok(()) }
        };
        runtime.register(LOG_LEVEL, "Least level", "info", Box::new(on_change));
        (runtime, changes)
    }

    #[tokio::test]
    async fn debug_ends_by_itself() {
        let (runtime, changes) = runtime();
        runtime.set(LOG_LEVEL, "warn", None).unwrap();
        assert_eq!(runtime.list()[0].get("expireAt"), None);
        runtime.set(LOG_LEVEL, "debug", None).unwrap();
        assert_eq!(runtime.value(LOG_LEVEL), "debug");
        let until: Timestamp = runtime.list()[0]["expireAt"].as_str().unwrap().parse().unwrap();
        let left = until.as_second() - Timestamp::now().as_second();
        assert!((29 * 60..=30 * 60).contains(&left), "{left} s");
        // This is what the task of the second change does.
        runtime.expire(LOG_LEVEL, 2);
        assert_eq!(runtime.value(LOG_LEVEL), "warn", "the value before is back");
        assert_eq!(changes.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn a_newer_value_is_not_ended_by_an_older_one() {
        let (runtime, _) = runtime();
        runtime.set(LOG_LEVEL, "debug", Some(Duration::from_millis(1))).unwrap();
        runtime.set(LOG_LEVEL, "error", Some(Duration::from_secs(60))).unwrap();
        runtime.expire(LOG_LEVEL, 1);
        assert_eq!(runtime.value(LOG_LEVEL), "error");
        runtime.expire(LOG_LEVEL, 2);
        assert_eq!(runtime.value(LOG_LEVEL), "info");
    }

    #[tokio::test]
    async fn what_is_wrong_changes_nothing() {
        let (runtime, _) = runtime();
        assert_eq!(runtime.set("x", "y", None), Err(Error::Unknown("x".into())));
        assert_eq!(runtime.set(LOG_LEVEL, "bad", None), Err(Error::Invalid("bad is not a level".into())));
        assert_eq!(runtime.value(LOG_LEVEL), "info");
        assert_eq!(
            runtime.table().lines().map(str::trim_end).collect::<Vec<_>>()[1],
            "log.level                      info                                      Least level"
        );
    }
}
