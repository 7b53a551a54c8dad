//! The old form of a configuration: no version, no Synchronization, no snapshots.

use super::fields::Fields;
use super::{
    Common, ConfigError, HookConfig, Kubernetes, MAIN_QUEUE, Namespaces, Schedule, Version, WatchEvent,
    moments, selectors, v1,
};
use crate::shell_hooks::Scope;

pub(super) fn read(mut fields: Fields<'_>, scope: Scope) -> Result<HookConfig, ConfigError> {
    let mut config = HookConfig::empty(Version::V0);
    config.moments = moments(&mut fields, scope)?;
    for mut item in fields.maps("schedule")? {
        let cron = v1::cron(&mut item)?;
        let common = common(&mut item, "schedule")?;
        config.schedules.push(Schedule { common, cron });
    }
    for mut item in fields.maps("onKubernetesEvent")? {
        config.kubernetes.push(kubernetes(&mut item)?);
    }
    fields.finish()?;
    Ok(config)
}

fn common(item: &mut Fields<'_>, name: &str) -> Result<Common, ConfigError> {
    Ok(Common {
        name: item.text("name")?.filter(|n| !n.is_empty()).unwrap_or_else(|| name.to_owned()),
        group: None,
        snapshots: Vec::new(),
        queue: MAIN_QUEUE.to_owned(),
        allow_failure: item.flag("allowFailure", false)?,
    })
}

fn kubernetes(item: &mut Fields<'_>) -> Result<Kubernetes, ConfigError> {
    let events = item.words("event", &["add", "update", "delete"])?.unwrap_or_default();
    let events = events.iter().map(|event| match *event {
        "add" => WatchEvent::Added,
        "update" => WatchEvent::Modified,
        _ => WatchEvent::Deleted,
    });
    let events: Vec<WatchEvent> = events.collect();
    let namespaces = match item.map("namespaceSelector")? {
        None => Namespaces::All,
        Some(mut selector) => {
            let names = selector.texts("matchNames")?.unwrap_or_default();
            let any = selector.flag("any", false)?;
            if any || names.is_empty() { Namespaces::All } else { Namespaces::Named(names) }
        }
    };
    Ok(Kubernetes {
        common: common(item, "onKubernetesEvent")?,
        api_version: String::new(),
        kind: item.wanted("kind")?,
        events: if events.is_empty() { v1::ALL_EVENTS.to_vec() } else { events },
        on_synchronization: false,
        wait_for_synchronization: true,
        keep_objects: true,
        names: item.text("objectName")?.filter(|n| !n.is_empty()).into_iter().collect(),
        labels: selectors::labels(item, "selector")?.unwrap_or_default(),
        fields: String::new(),
        namespaces,
        filter: v1::filter(item)?,
    })
}
