//! `windlass flux events`: Events of HelmReleases and sources.

use jiff::Timestamp;
use serde_json::Value;

use super::super::flags::Globals;
use super::super::output;
use super::super::{Failure, print, tell, with_engine};
use super::kinds::{self, FluxKind};
use super::{namespace_of, read, text};
use windlass_cluster::{Cluster, Gvk, ObjectMeta};

/// Flags of `events`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// Only Events of this object; with a HelmRelease also those of its chart and source
    #[arg(long = "for", value_name = "KIND/NAME")]
    object: Option<String>,
    /// List Events of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Only Events of these types: Normal, Warning
    #[arg(long, value_delimiter = ',')]
    types: Vec<String>,
    /// Print no header
    #[arg(long)]
    no_header: bool,
}

/// Kind, namespace and name of an object.
type Key = (String, String, String);

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let object = args.object.as_deref().map(parse).transpose()?;
    let (events, place) = with_engine(globals, async |s| {
        let (namespace, cluster) = (namespace_of(globals, &s), s.engine.cluster());
        let only = match &object {
            Some((kind, name)) => Some(related(cluster, kind, &namespace, name).await?),
            None => None,
        };
        // Sources may be in other namespaces than the HelmRelease.
        let everywhere =
            args.all_namespaces || only.iter().flatten().any(|(_, within, _)| *within != namespace);
        let within = (!everywhere).then_some(namespace.as_str());
        let mut events =
            cluster.list(&Gvk::new("v1", "Event"), within, "").await.map_err(|e| e.to_string())?;
        events.retain(|event| is_shown(event, only.as_deref(), &args.types));
        Ok((events, if args.all_namespaces { "any".to_owned() } else { format!("{namespace:?}") }))
    })?;
    if events.is_empty() {
        tell(&format!("no events found in {place} namespace"));
        return Ok(());
    }
    print(table(events, args.all_namespaces, !args.no_header, Timestamp::now(), globals.paints()).as_bytes())
}

fn parse(object: &str) -> Result<(&'static FluxKind, &str), Failure> {
    let (kind, name) = object
        .split_once('/')
        .ok_or_else(|| format!("--for: {object:?} is not KIND/NAME, such as HelmRelease/web"))?;
    Ok((kinds::named(kind)?, name))
}

/// The object, and what its chart comes from.
async fn related(
    cluster: &Cluster,
    kind: &FluxKind,
    namespace: &str,
    name: &str,
) -> Result<Vec<Key>, Failure> {
    let mut keys = vec![(kind.kind.to_owned(), namespace.to_owned(), name.to_owned())];
    if kind.is_source() {
        return Ok(keys);
    }
    let live = read(cluster, &kind.object(namespace, name)).await?;
    for reference in [&live["spec"]["chartRef"], &live["spec"]["chart"]["spec"]["sourceRef"]] {
        if !reference.is_null() {
            let within = reference["namespace"].as_str().unwrap_or(namespace);
            keys.push((
                text(&reference["kind"]).to_owned(),
                within.to_owned(),
                text(&reference["name"]).to_owned(),
            ));
        }
    }
    if let Some((within, name)) = text(&live["status"]["helmChart"]).split_once('/') {
        keys.push(("HelmChart".to_owned(), within.to_owned(), name.to_owned()));
    }
    Ok(keys)
}

fn is_shown(event: &Value, only: Option<&[Key]>, types: &[String]) -> bool {
    let object = &event["involvedObject"];
    let group = text(&object["apiVersion"]).split('/').next().unwrap_or_default();
    let key = || {
        let text = |field: &str| text(&object[field]).to_owned();
        (text("kind"), text("namespace"), text("name"))
    };
    group.ends_with(".toolkit.fluxcd.io")
        && only.is_none_or(|keys| keys.contains(&key()))
        && (types.is_empty() || types.iter().any(|wanted| text(&event["type"]).eq_ignore_ascii_case(wanted)))
}

/// When an Event was last seen; Events of the newer API have other fields.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let times = [
        text(&event["series"]["lastObservedTime"]),
        text(&event["lastTimestamp"]),
        text(&event["eventTime"]),
        text(&event["firstTimestamp"]),
        ObjectMeta::of(event).created_at(),
    ];
    times.into_iter().find_map(|time| time.parse().ok())
}

/// The rows, the oldest first.
fn table(mut events: Vec<Value>, namespaces: bool, header: bool, now: Timestamp, painted: bool) -> String {
    events.sort_by_cached_key(last_seen);
    let mut rows: Vec<Vec<String>> = Vec::new();
    if header {
        let head = ["NAMESPACE", "LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
        rows.push(head.into_iter().skip(usize::from(!namespaces)).map(str::to_owned).collect());
    }
    for event in &events {
        let object = &event["involvedObject"];
        let message = text(&event["message"]).split_whitespace().collect::<Vec<_>>().join(" ");
        let cells = [
            ObjectMeta::of(event).namespace().unwrap_or_default().to_owned(),
            last_seen(event).map_or_else(|| "<unknown>".to_owned(), |seen| age(now, seen)),
            text(&event["type"]).to_owned(),
            text(&event["reason"]).to_owned(),
            format!("{}/{}", text(&object["kind"]), text(&object["name"])),
            message,
        ];
        rows.push(cells.into_iter().skip(usize::from(!namespaces)).collect());
    }
    let text = output::table(&rows);
    let lines = text.lines().enumerate().map(|(at, line)| {
        let event = at.checked_sub(usize::from(header)).and_then(|at| events.get(at));
        let line = line.trim_end();
        match event.is_some_and(|event| event["type"] == "Warning") && painted {
            true => format!("\u{1b}[31m{line}\u{1b}[0m\n"),
            false => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// How long ago something was, as kubectl prints it: its two largest units.
fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = (now.as_second() - then.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match () {
        () if minutes < 2 => format!("{seconds}s"),
        () if minutes < 10 => format!("{minutes}m{}s", seconds % 60),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => format!("{hours}h{}m", minutes % 60),
        () if days < 2 => format!("{hours}h"),
        () => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(kind: &str, group: &str, event_type: &str, at: &str) -> Value {
        json!({
            "metadata": {"namespace": "apps"}, "type": event_type, "reason": "R", "message": "m\n n", "lastTimestamp": at,
            "involvedObject": {"apiVersion": format!("{group}/v2"), "kind": kind, "namespace": "apps", "name": "web"},
        })
    }

    #[test]
    fn events_are_those_of_flux_in_order() {
        let flux = "helm.toolkit.fluxcd.io";
        let events = [
            event("HelmRelease", flux, "Warning", "2026-01-02T03:04:05Z"),
            event("HelmRelease", flux, "Normal", "2026-01-02T03:03:00Z"),
            event("Deployment", "apps", "Normal", "2026-01-02T03:03:00Z"),
        ];
        let shown = |only: Option<&[Key]>, types: &[&str]| -> Vec<Value> {
            let types: Vec<String> = types.iter().map(|t| (*t).to_owned()).collect();
            events.iter().filter(|event| is_shown(event, only, &types)).cloned().collect()
        };
        assert_eq!(shown(None, &[]).len(), 2);
        assert_eq!(shown(None, &["warning"]).len(), 1);
        let other = [("HelmRelease".to_owned(), "apps".to_owned(), "other".to_owned())];
        assert_eq!(shown(Some(&other), &[]).len(), 0);
        let now: Timestamp = "2026-01-02T03:05:00Z".parse().unwrap();
        let expected = "\
LAST SEEN\tTYPE   \tREASON\tOBJECT         \tMESSAGE
2m0s     \tNormal \tR     \tHelmRelease/web\tm n
55s      \tWarning\tR     \tHelmRelease/web\tm n
";
        assert_eq!(table(shown(None, &[]), false, true, now, false), expected);
    }

    #[test]
    fn ages_have_two_units_at_most() {
        let now: Timestamp = "2026-01-10T00:00:00Z".parse().unwrap();
        for (seconds, expected) in [
            (5, "5s"),
            (119, "119s"),
            (125, "2m5s"),
            (3600, "60m"),
            (4 * 3600 + 60, "4h1m"),
            (86400, "24h"),
            (300_000, "3d"),
        ] {
            let then = Timestamp::from_second(now.as_second() - seconds).unwrap();
            assert_eq!(age(now, then), expected);
        }
        let newer =
            json!({"series": null, "lastTimestamp": null, "eventTime": "2026-01-02T03:04:05.123456Z"});
        assert!(last_seen(&newer).is_some());
    }
}
