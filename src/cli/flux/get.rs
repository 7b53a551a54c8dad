//! `windlass flux get`: a row an object, those that are not ready first.

use serde::Serialize;
use serde_json::Value;

use super::super::flags::Globals;
use super::super::output::{self, Format};
use super::super::{Failure, print, tell, with_engine};
use super::kinds::{FluxKind, Selection};
use super::{condition, get_watch, namespace_of, revision, shortened_hex, text};
use windlass_cluster::ObjectMeta;

/// Flags of `get`.
#[derive(clap::Args)]
pub(in crate::cli) struct Args {
    /// `helmreleases [NAME]`, `sources helm|chart|oci|git|bucket|external [NAME]`, `sources all` or `all`
    #[arg(required = true, num_args = 1..=3, value_names = ["KIND", "NAME"])]
    pub(super) objects: Vec<String>,
    /// List objects of all namespaces
    #[arg(short = 'A', long)]
    pub(super) all_namespaces: bool,
    /// Only objects with this status of a condition, e.g. ready=false
    #[arg(long, value_name = "TYPE=STATUS")]
    status_selector: Option<String>,
    /// Only objects with these labels
    #[arg(short = 'l', long, default_value = "", hide_default_value = true)]
    pub(super) label_selector: String,
    /// Print no header
    #[arg(long)]
    pub(super) no_header: bool,
    /// Print a row each time that one changes, until the command is stopped
    #[arg(short = 'w', long, conflicts_with = "output")]
    watch: bool,
    /// Prints the output in the specified format
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// An object in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    revision: String,
    suspended: bool,
    /// `True`, `False` or `Unknown`.
    ready: String,
    reason: String,
    message: String,
}

impl Row {
    pub(super) fn of(kind: &FluxKind, object: &Value) -> Self {
        let meta = ObjectMeta::of(object);
        let ready = condition(object, "Ready");
        let (status, reason, message) = match ready {
            Some(ready) => (text(&ready["status"]), text(&ready["reason"]), text(&ready["message"])),
            // It is only read by others, and has no status.
            None if kind.kind == "HelmRepository" && object["spec"]["type"] == "oci" => {
                ("True", "", "Helm repository is Ready")
            }
            None => ("False", "", "waiting to be reconciled"),
        };
        Self {
            kind: kind.kind.to_owned(),
            namespace: meta.namespace().unwrap_or_default().to_owned(),
            name: meta.name().to_owned(),
            revision: revision(object).to_owned(),
            suspended: object["spec"]["suspend"] == true,
            ready: status.to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    /// What is wrong comes first.
    fn rank(&self) -> u8 {
        match self.ready.as_str() {
            "False" => 0,
            "Unknown" => 1,
            _ if self.suspended => 2,
            _ => 3,
        }
    }
}

/// Whether an object has a condition with a status, in any case.
pub(super) fn has_status(object: &Value, (condition_type, status): (&str, &str)) -> bool {
    let same = |value: &Value, wanted: &str| text(value).eq_ignore_ascii_case(wanted);
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.filter(|c| same(&c["type"], condition_type)).any(|c| same(&c["status"], status))
}

/// The rows of one kind, in order.
fn rows(kind: &FluxKind, objects: &[Value], selector: Option<(&str, &str)>) -> Vec<Row> {
    let chosen = objects.iter().filter(|object| selector.is_none_or(|wanted| has_status(object, wanted)));
    let mut rows: Vec<Row> = chosen.map(|object| Row::of(kind, object)).collect();
    rows.sort_by(|a, b| (a.rank(), &a.namespace, &a.name).cmp(&(b.rank(), &b.namespace, &b.name)));
    rows
}

/// How a table is printed.
#[derive(Clone, Copy, Default)]
pub(super) struct Shown {
    pub(super) namespaces: bool,
    /// Names are `kind/name`.
    pub(super) kinds: bool,
    pub(super) no_header: bool,
    pub(super) painted: bool,
}

/// The table of one kind.
pub(super) fn table(rows: &[Row], shown: Shown) -> String {
    let mut cells: Vec<Vec<String>> = Vec::new();
    if !shown.no_header {
        let head = ["NAMESPACE", "NAME", "REVISION", "SUSPENDED", "READY", "MESSAGE"];
        cells.push(head.into_iter().skip(usize::from(!shown.namespaces)).map(str::to_owned).collect());
    }
    for row in rows {
        let name = match shown.kinds {
            true => format!("{}/{}", row.kind.to_lowercase(), row.name),
            false => row.name.clone(),
        };
        let message = row.message.split_whitespace().collect::<Vec<_>>().join(" ");
        let suspended = if row.suspended { "True" } else { "False" };
        let all = [
            row.namespace.clone(),
            name,
            shortened_hex(&row.revision),
            suspended.to_owned(),
            row.ready.clone(),
            shortened_hex(&message),
        ];
        cells.push(all.into_iter().skip(usize::from(!shown.namespaces)).collect());
    }
    let text = output::table(&cells);
    let head = usize::from(!shown.no_header);
    let line = |(at, line): (usize, &str)| {
        let row = at.checked_sub(head).and_then(|at| rows.get(at));
        let line = line.trim_end();
        match row.map(Row::rank) {
            Some(0) if shown.painted => format!("\u{1b}[31m{line}\u{1b}[0m\n"),
            Some(1 | 2) if shown.painted => format!("\u{1b}[33m{line}\u{1b}[0m\n"),
            _ => format!("{line}\n"),
        }
    };
    text.lines().enumerate().map(line).collect()
}

pub(super) fn run(globals: &Globals, args: &Args) -> Result<(), Failure> {
    let selection = Selection::parse(&args.objects)?;
    let selector = match &args.status_selector {
        None => None,
        Some(text) => Some(text.split_once('=').ok_or_else(|| {
            format!("--status-selector: {text:?} is not TYPE=STATUS; write e.g. ready=false")
        })?),
    };
    if args.watch {
        return get_watch::run(globals, args, selector);
    }
    let (namespace, found) = with_engine(globals, async |s| {
        let namespace = namespace_of(globals, &s);
        let within = (!args.all_namespaces).then_some(namespace.as_str());
        let cluster = s.engine.cluster();
        let served = cluster.kinds().await.map_err(|e| e.to_string())?;
        let mut found = Vec::new();
        for kind in &selection.kinds {
            // An installation of Flux need not have every kind.
            if selection.kinds.len() > 1 && served.get(&kind.gvk()).is_none() {
                continue;
            }
            let objects = cluster.list(&kind.gvk(), within, &args.label_selector).await;
            found.push((*kind, objects.map_err(|e| e.to_string())?));
        }
        Ok((namespace, found))
    })?;
    let place = if args.all_namespaces { "any".to_owned() } else { format!("{namespace:?}") };
    let mut lists: Vec<Vec<Row>> = Vec::new();
    for (kind, mut objects) in found {
        if let Some(name) = &selection.name {
            objects.retain(|object| ObjectMeta::of(object).name() == name);
            if objects.is_empty() {
                return Err(format!("{} object '{name}' not found in {place} namespace", kind.kind));
            }
        }
        lists.push(rows(kind, &objects, selector));
    }
    lists.retain(|rows| !rows.is_empty());
    if args.output != Format::Table {
        let mut all: Vec<Row> = lists.into_iter().flatten().collect();
        all.sort_by_key(Row::rank);
        return print(output::structured(&all, args.output)?.as_bytes());
    }
    if lists.is_empty() {
        let kinds: Vec<&str> = selection.kinds.iter().map(|kind| kind.kind).collect();
        tell(&format!("no {} objects found in {place} namespace", kinds.join(", ")));
        return Ok(());
    }
    // The kind with the worst object comes first.
    lists.sort_by_key(|rows| rows.first().map_or(u8::MAX, Row::rank));
    let shown = Shown {
        namespaces: args.all_namespaces,
        kinds: selection.kinds.len() > 1,
        no_header: args.no_header,
        painted: globals.paints(),
    };
    let tables: Vec<String> = lists.iter().map(|rows| table(rows, shown)).collect();
    print(tables.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KINDS;
    use super::*;
    use serde_json::json;

    fn release(name: &str, suspend: bool, ready: Option<(&str, &str)>) -> Value {
        let conditions: Vec<Value> = ready
            .iter()
            .map(|(status, message)| json!({"type": "Ready", "status": status, "reason": "R", "message": message}))
            .collect();
        json!({
            "metadata": {"name": name, "namespace": "apps"}, "spec": {"suspend": suspend},
            "status": {"conditions": conditions, "history": [{"chartVersion": "1.0.0"}], "lastAttemptedRevision": "2.0.0"},
        })
    }

    #[test]
    fn what_is_not_ready_comes_first() {
        let objects = [
            release("good", false, Some(("True", "fine"))),
            release("asleep", true, Some(("True", "fine"))),
            release("new", false, None),
            release("busy", false, Some(("Unknown", "Running 'upgrade' action"))),
            release("bad", false, Some(("False", "Helm upgrade failed:\n  boom"))),
        ];
        let found = rows(&KINDS[0], &objects, None);
        let expected = "\
NAME  \tREVISION\tSUSPENDED\tREADY  \tMESSAGE
bad   \t1.0.0   \tFalse    \tFalse  \tHelm upgrade failed: boom
new   \t1.0.0   \tFalse    \tFalse  \twaiting to be reconciled
busy  \t1.0.0   \tFalse    \tUnknown\tRunning 'upgrade' action
asleep\t1.0.0   \tTrue     \tTrue   \tfine
good  \t1.0.0   \tFalse    \tTrue   \tfine
";
        assert_eq!(table(&found, Shown::default()), expected);
        let painted = table(&found, Shown { painted: true, no_header: true, ..Shown::default() });
        assert!(painted.starts_with("\u{1b}[31mbad"), "{painted}");
        assert!(painted.lines().last().unwrap().starts_with("good"), "{painted}");
        let names = |selector| -> Vec<String> {
            rows(&KINDS[0], &objects, Some(selector)).into_iter().map(|row| row.name).collect()
        };
        // An object without the condition matches no status of it.
        assert_eq!(names(("ready", "false")), ["bad"]);
        assert_eq!(names(("Ready", "True")), ["asleep", "good"]);
    }

    #[test]
    fn sources_show_the_revision_of_their_artifact() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let object = json!({
            "metadata": {"name": "repo", "namespace": "apps"}, "spec": {},
            "status": {
                "artifact": {"revision": format!("main@sha1:{commit}")},
                "conditions": [{"type": "Ready", "status": "True", "message": format!("stored artifact for revision 'main@sha1:{commit}'")}],
            },
        });
        let shown = Shown { namespaces: true, kinds: true, ..Shown::default() };
        let text = table(&rows(&KINDS[4], &[object], None), shown);
        assert_eq!(
            text.lines().nth(1).unwrap(),
            "apps     \tgitrepository/repo\tmain@sha1:01234567\tFalse    \tTrue \tstored artifact for revision 'main@sha1:01234567'"
        );
        let oci = json!({"metadata": {"name": "r", "namespace": "apps"}, "spec": {"type": "oci"}});
        assert_eq!(Row::of(&KINDS[1], &oci).ready, "True");
    }
}
