//! What has changed since a workload was rolled out last: digests that were recorded, and those of now. Pure.
//!
//! The record is an annotation of the workload itself, so that a change while no operator runs is noticed by the next one, and that no
//! restart of an operator rolls anything out.

use std::collections::BTreeMap;

use super::pod_references::{Configuration, ConfigurationKind};

/// Digests by the name of the configuration; empty for what does not exist.
pub(crate) type Digests = BTreeMap<Configuration, String>;

/// What of a workload's configuration is known now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Current {
    /// Its digest. `used`: by the workload's Pods, and not only named by an annotation.
    Present {
        /// Of its data.
        digest: String,
        /// Whether the Pods use it.
        used: bool,
    },
    /// It does not exist.
    Absent,
    /// Its kind cannot be read.
    Unknown,
}

/// When configuration that comes or goes counts as changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Triggers {
    /// Roll out when it is created.
    pub(crate) on_create: bool,
    /// Roll out when it is deleted.
    pub(crate) on_delete: bool,
}

/// What follows for a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// What is to be recorded.
    pub(crate) digests: Digests,
    /// What has changed, if the workload is to be rolled out.
    pub(crate) changed: Vec<Configuration>,
}

/// Compares what a workload follows with its record; `None`: it has none, and nothing is rolled out.
pub(crate) fn decide(
    recorded: Option<&Digests>,
    current: &BTreeMap<Configuration, Current>,
    triggers: Triggers,
) -> Decision {
    let mut out = Decision::default();
    for (object, now) in current {
        let before = recorded.and_then(|recorded| recorded.get(object));
        let (digest, changed) = match (before, now) {
            (before, Current::Unknown) => match before {
                Some(before) => (before.clone(), false),
                None => continue,
            },
            // Another template rolls the workload out by itself.
            (None, Current::Present { digest, used }) => {
                (digest.clone(), recorded.is_some() && !used && triggers.on_create)
            }
            (None, Current::Absent) => (String::new(), false),
            (Some(before), Current::Present { digest, .. })
                if object.kind == ConfigurationKind::SecretProviderClass =>
            {
                mounted(before, digest)
            }
            (Some(before), Current::Present { digest, .. }) if before.is_empty() => {
                (digest.clone(), triggers.on_create)
            }
            (Some(before), Current::Present { digest, .. }) => (digest.clone(), digest != before),
            // The driver deletes the status with the last Pod.
            (Some(before), Current::Absent) if object.kind == ConfigurationKind::SecretProviderClass => {
                (before.clone(), false)
            }
            (Some(before), Current::Absent) => match triggers.on_delete && !before.is_empty() {
                true => (String::new(), true),
                // What comes again with the same data has not changed.
                false => (before.clone(), false),
            },
        };
        out.digests.insert(object.clone(), digest);
        out.changed.extend(changed.then(|| object.clone()));
    }
    out
}

/// What is recorded of a SecretProviderClass: `VERSION:DIGEST` of the status that a Pod wrote last, and whether that is a change. The
/// first mount is none, and neither is what an older Pod shows once a newer one has ended.
fn mounted(before: &str, now: &str) -> (String, bool) {
    let parts = |text: &str| {
        let (version, digest) = text.split_once(':')?;
        Some((version.parse::<u64>().ok()?, digest.to_owned()))
    };
    match (parts(before), parts(now)) {
        (Some((recorded, _)), Some((version, _))) if version <= recorded => (before.to_owned(), false),
        // Its version grows with each Pod: what has not changed is not written.
        (Some((_, old)), Some((_, digest))) if old == digest => (before.to_owned(), false),
        (Some(_), _) => (now.to_owned(), true),
        (None, _) => (now.to_owned(), false),
    }
}

/// Reads a record; `None` if it is none: then it is made anew.
pub(crate) fn read_record(text: &str) -> Option<Digests> {
    let read: BTreeMap<String, String> = serde_json::from_str(text).ok()?;
    read.into_iter().map(|(object, digest)| Some((Configuration::parse(&object)?, digest))).collect()
}

/// The text of a record.
pub(crate) fn record_text(digests: &Digests) -> String {
    let named: BTreeMap<String, &String> =
        digests.iter().map(|(object, digest)| (object.to_string(), digest)).collect();
    serde_json::to_string(&named).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Triggers = Triggers { on_create: false, on_delete: false };
    const ALL: Triggers = Triggers { on_create: true, on_delete: true };

    fn object(name: &str) -> Configuration {
        Configuration::parse(name).unwrap()
    }

    #[test]
    fn a_change_is_told_from_what_is_new() {
        let present = |digest: &str, used| Current::Present { digest: digest.to_owned(), used };
        let record = |digest: &str| Some(Digests::from([(object("ConfigMap/a"), digest.to_owned())]));
        let empty = || Some(Digests::new());
        for (recorded, now, triggers, digest, changed) in [
            (None, present("1", true), ALL, Some("1"), false),
            (None, Current::Absent, ALL, Some(""), false),
            (None, Current::Unknown, ALL, None, false),
            (record("1"), present("1", true), ALL, Some("1"), false),
            (record("1"), present("2", true), QUIET, Some("2"), true),
            (record("1"), Current::Absent, QUIET, Some("1"), false),
            (record("1"), Current::Absent, ALL, Some(""), true),
            (record("1"), Current::Unknown, ALL, Some("1"), false),
            (record(""), present("1", true), QUIET, Some("1"), false),
            (record(""), present("1", true), ALL, Some("1"), true),
            (record(""), Current::Absent, ALL, Some(""), false),
            (empty(), present("1", true), ALL, Some("1"), false),
            (empty(), present("1", false), ALL, Some("1"), true),
            (empty(), present("1", false), QUIET, Some("1"), false),
        ] {
            let current = BTreeMap::from([(object("ConfigMap/a"), now.clone())]);
            let decision = decide(recorded.as_ref(), &current, triggers);
            let case = format!("{recorded:?} {now:?} {triggers:?}");
            assert_eq!(decision.digests.get(&object("ConfigMap/a")).map(String::as_str), digest, "{case}");
            assert_eq!(
                decision.changed,
                if changed { vec![object("ConfigMap/a")] } else { vec![] },
                "{case}"
            );
        }
        let class = object("SecretProviderClass/a");
        let recorded = Digests::from([(class.clone(), "1".to_owned())]);
        let decision = decide(Some(&recorded), &BTreeMap::from([(class, Current::Absent)]), ALL);
        assert_eq!(decision, Decision { digests: recorded, changed: vec![] });
        for (before, now, after, changed) in [
            ("", "5:a", "5:a", false),
            ("5:a", "7:a", "5:a", false),
            ("5:a", "7:b", "7:b", true),
            ("7:b", "5:a", "7:b", false),
        ] {
            assert_eq!(mounted(before, now), (after.to_owned(), changed), "{before} {now}");
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let digests =
            Digests::from([(object("Secret/a"), "1".to_owned()), (object("ConfigMap/b"), String::new())]);
        assert_eq!(record_text(&digests), r#"{"ConfigMap/b":"","Secret/a":"1"}"#);
        assert_eq!(read_record(&record_text(&digests)), Some(digests));
        for text in ["", "[]", "{\"Pod/a\":\"1\"}", "{\"ConfigMap/a\":1}"] {
            assert_eq!(read_record(text), None, "{text}");
        }
    }
}
