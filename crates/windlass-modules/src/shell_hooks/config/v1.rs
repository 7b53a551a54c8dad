//! The form of a configuration that says `configVersion: v1`. Unknown keys are refused.

use std::time::Duration;

use super::fields::Fields;
use super::{
    Common, ConfigError, HookConfig, Kubernetes, MAIN_QUEUE, Schedule, Settings, Version, WatchEvent,
    moments, selectors, webhooks,
};
use crate::shell_hooks::Scope;
use crate::shell_hooks::jq::Filter;
use windlass_base::cron::Cron;

pub(super) const ALL_EVENTS: [WatchEvent; 3] = [WatchEvent::Added, WatchEvent::Modified, WatchEvent::Deleted];

pub(super) fn read(mut fields: Fields<'_>, scope: Scope) -> Result<HookConfig, ConfigError> {
    let mut config = HookConfig::empty(Version::V1);
    config.moments = moments(&mut fields, scope)?;
    if let Some(settings) = fields.map("settings")? {
        config.settings = read_settings(settings)?;
    }
    for mut item in fields.maps("kubernetes")? {
        config.kubernetes.push(kubernetes(&mut item)?);
        item.finish()?;
    }
    for mut item in fields.maps("schedule")? {
        let common = common(&mut item, "schedule")?;
        config.schedules.push(Schedule { common, cron: cron(&mut item)? });
        item.finish()?;
    }
    config.validating = webhooks::admissions(&mut fields, "kubernetesValidating")?;
    config.mutating = webhooks::admissions(&mut fields, "kubernetesMutating")?;
    config.conversions = webhooks::conversions(&mut fields)?;
    fields.finish()?;
    add_snapshots(&mut config)?;
    Ok(config)
}

fn read_settings(mut fields: Fields<'_>) -> Result<Settings, ConfigError> {
    let settings = Settings {
        min_interval: duration(&mut fields, "executionMinInterval")?,
        burst: burst(&mut fields)?,
        timeout: duration(&mut fields, "timeout")?,
        schedules_on_startup: false,
    };
    fields.finish()?;
    Ok(settings)
}

/// `executionBurst`: at least one run.
pub(super) fn burst(fields: &mut Fields<'_>) -> Result<u32, ConfigError> {
    let burst = match fields.any("executionBurst") {
        // Written as text in the wild: addon-operator's own type for it is text.
        Some(serde_json::Value::String(text)) => match text.parse() {
            Ok(number) => Some(number),
            Err(_) => return fields.fail("executionBurst", format!("{text:?} is not a whole number")),
        },
        _ => fields.whole("executionBurst")?,
    };
    Ok(u32::try_from(burst.unwrap_or(1)).unwrap_or(1).max(1))
}

pub(super) fn duration(fields: &mut Fields<'_>, key: &'static str) -> Result<Option<Duration>, ConfigError> {
    let Some(text) = fields.text(key)? else { return Ok(None) };
    match chart_compat::go::duration::parse(&text).ok().and_then(|n| u64::try_from(n).ok()) {
        Some(nanoseconds) => Ok(Some(Duration::from_nanos(nanoseconds)).filter(|d| !d.is_zero())),
        None => fields.fail(key, format!("{text:?} is not a duration; write e.g. 30s or 5m")),
    }
}

/// Name, group, snapshots, queue and `allowFailure` of a binding; `absent` is the name of one that has none.
pub(super) fn common(item: &mut Fields<'_>, absent: &str) -> Result<Common, ConfigError> {
    let filled = |text: Option<String>| text.filter(|t| !t.is_empty());
    Ok(Common {
        name: filled(item.text("name")?).unwrap_or_else(|| absent.to_owned()),
        group: filled(item.text("group")?),
        snapshots: item.texts("includeSnapshotsFrom")?.unwrap_or_default(),
        queue: filled(item.text("queue")?).unwrap_or_else(|| MAIN_QUEUE.to_owned()),
        allow_failure: item.flag("allowFailure", false)?,
    })
}

pub(super) fn cron(item: &mut Fields<'_>) -> Result<Cron, ConfigError> {
    let text = item.wanted("crontab")?;
    Cron::parse(&text).or_else(|e| item.fail("crontab", e.to_string()))
}

pub(super) fn filter(item: &mut Fields<'_>) -> Result<Option<Filter>, ConfigError> {
    match item.text("jqFilter")?.filter(|t| !t.is_empty()) {
        None => Ok(None),
        Some(text) => {
            Filter::new(&text).map(Some).or_else(|e| item.fail("jqFilter", format!("{text:?}: {e}")))
        }
    }
}

fn kubernetes(item: &mut Fields<'_>) -> Result<Kubernetes, ConfigError> {
    let common = common(item, "kubernetes")?;
    let names = ["Added", "Modified", "Deleted"];
    let older = item.words("watchEvent", &names)?;
    let events = match item.words("executeHookOnEvent", &names)?.or(older) {
        None => ALL_EVENTS.to_vec(),
        Some(words) => ALL_EVENTS.into_iter().filter(|e| words.contains(&e.name())).collect(),
    };
    watched(item, common, events, true)
}

/// What a kubernetes binding watches; `keep` is whether objects are kept where it does not say.
pub(super) fn watched(
    item: &mut Fields<'_>,
    common: Common,
    events: Vec<WatchEvent>,
    keep: bool,
) -> Result<Kubernetes, ConfigError> {
    // Told to be of no use in addon-operator, too.
    item.text("resynchronizationPeriod")?;
    let names = selectors::names(item, "nameSelector")?.unwrap_or_default();
    let (fields, named) = selectors::field_selector(item, "fieldSelector")?;
    if !names.is_empty() && named.iter().any(|f| f == "metadata.name") {
        return item.fail("fieldSelector", "metadata.name and nameSelector exclude each other");
    }
    let api_version = item.text("apiVersion")?.unwrap_or_default();
    if api_version.matches('/').count() > 1 {
        return item.fail("apiVersion", format!("{api_version:?} is neither a version nor group/version"));
    }
    let wait = item.flag("waitForSynchronization", true)?;
    Ok(Kubernetes {
        // Only a queue of its own may be behind: the main one runs in order anyway.
        wait_for_synchronization: wait || item.text("queue")?.is_none_or(|q| q.is_empty()),
        common,
        api_version,
        kind: item.wanted("kind")?,
        events,
        on_synchronization: item.flag("executeHookOnSynchronization", true)?,
        keep_objects: item.flag("keepFullObjectsInMemory", keep)?,
        names,
        labels: selectors::labels(item, "labelSelector")?.unwrap_or_default(),
        fields,
        namespaces: selectors::namespaces(item)?,
        filter: filter(item)?,
    })
}

/// Checks `includeSnapshotsFrom` and adds the bindings of each binding's group.
pub(super) fn add_snapshots(config: &mut HookConfig) -> Result<(), ConfigError> {
    let names: Vec<(String, Option<String>)> =
        config.kubernetes.iter().map(|k| (k.common.name.clone(), k.common.group.clone())).collect();
    let check = |path: String, common: &mut Common| {
        for wanted in &common.snapshots {
            let path = format!("{path}.includeSnapshotsFrom");
            match names.iter().filter(|(name, _)| name == wanted).count() {
                1 => {}
                0 => {
                    let text = format!("there is no kubernetes binding of the name {wanted:?}");
                    return Err(ConfigError::new(&path, text));
                }
                _ => {
                    let text = format!("there are several kubernetes bindings of the name {wanted:?}");
                    return Err(ConfigError::new(&path, text));
                }
            }
        }
        let members = names.iter().filter(|(_, group)| group.is_some() && *group == common.group);
        for (name, _) in members {
            if !common.snapshots.contains(name) {
                common.snapshots.push(name.clone());
            }
        }
        Ok(())
    };
    for (i, binding) in config.kubernetes.iter_mut().enumerate() {
        check(format!("kubernetes[{i}]"), &mut binding.common)?;
    }
    for (i, binding) in config.schedules.iter_mut().enumerate() {
        check(format!("schedule[{i}]"), &mut binding.common)?;
    }
    for (i, binding) in config.validating.iter_mut().enumerate() {
        check(format!("kubernetesValidating[{i}]"), &mut binding.common)?;
    }
    for (i, binding) in config.mutating.iter_mut().enumerate() {
        check(format!("kubernetesMutating[{i}]"), &mut binding.common)?;
    }
    for (i, binding) in config.conversions.iter_mut().enumerate() {
        check(format!("kubernetesCustomResourceConversion[{i}]"), &mut binding.common)?;
    }
    Ok(())
}
