//! `windlass flux get --watch`: a row each time that what it shows changes.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::SelectAll;

use super::super::flags::Globals;
use super::super::{Failure, print, with_engine};
use super::get::{Args, Row, Shown, has_status, table};
use super::kinds::Selection;
use super::namespace_of;
use windlass_cluster::{ObjectEvent, ObjectMeta};

/// The rows that were shown last, by kind, namespace and name.
#[derive(Default)]
struct ShownRows(BTreeMap<(String, String, String), Row>);

impl ShownRows {
    /// Takes a row; returns its line if it shows something new. Columns are as wide as those of all rows so far.
    fn take(&mut self, row: Row, shown: Shown) -> Option<String> {
        let key = (row.kind.clone(), row.namespace.clone(), row.name.clone());
        if self.0.get(&key) == Some(&row) {
            return None;
        }
        self.0.insert(key.clone(), row);
        let all: Vec<Row> = self.0.values().cloned().collect();
        let at = self.0.keys().position(|known| *known == key)?;
        let lines = table(&all, Shown { no_header: true, ..shown });
        lines.lines().nth(at).map(|line| format!("{line}\n"))
    }

    fn forget(&mut self, kind: &str, namespace: &str, name: &str) {
        self.0.remove(&(kind.to_owned(), namespace.to_owned(), name.to_owned()));
    }
}

/// Prints rows until the process is stopped.
pub(super) fn run(globals: &Globals, args: &Args, selector: Option<(&str, &str)>) -> Result<(), Failure> {
    let selection = Selection::parse(&args.objects)?;
    let shown = Shown {
        namespaces: args.all_namespaces,
        kinds: selection.kinds.len() > 1,
        no_header: args.no_header,
        painted: globals.paints(),
    };
    with_engine(globals, async |s| {
        let namespace = namespace_of(globals, &s);
        let within = (!args.all_namespaces).then_some(namespace.as_str());
        let field = selection.name.as_ref().map(|name| format!("metadata.name={name}")).unwrap_or_default();
        let cluster = s.engine.cluster();
        let served = cluster.kinds().await.map_err(|e| e.to_string())?;
        let mut events = SelectAll::new();
        for kind in &selection.kinds {
            if selection.kinds.len() > 1 && served.get(&kind.gvk()).is_none() {
                continue;
            }
            let followed = cluster.follow_selected(&kind.gvk(), within, &args.label_selector, &field).await;
            let followed = followed.map_err(|e| e.to_string())?;
            events.push(followed.map(move |event| (*kind, event)).boxed_local());
        }
        if !shown.no_header {
            print(table(&[], shown).as_bytes())?;
        }
        let mut rows = ShownRows::default();
        while let Some((kind, event)) = events.next().await {
            match event.map_err(|e| e.to_string())? {
                ObjectEvent::Present(object) if selector.is_none_or(|wanted| has_status(&object, wanted)) => {
                    if let Some(line) = rows.take(Row::of(kind, &object), shown) {
                        print(line.as_bytes())?;
                    }
                }
                // It may come back.
                ObjectEvent::Present(object) | ObjectEvent::Gone(object) => {
                    let meta = ObjectMeta::of(&object);
                    rows.forget(kind.kind, meta.namespace().unwrap_or_default(), meta.name());
                }
                ObjectEvent::Listing | ObjectEvent::Listed => {}
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::super::kinds::KINDS;
    use super::*;
    use serde_json::json;

    #[test]
    fn a_row_is_shown_when_it_changes() {
        let row = |name: &str, ready: &str, suspend: bool| {
            Row::of(
                &KINDS[0],
                &json!({
                    "metadata": {"name": name, "namespace": "apps"}, "spec": {"suspend": suspend},
                    "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "m"}]},
                }),
            )
        };
        let (mut rows, shown) = (ShownRows::default(), Shown::default());
        assert_eq!(
            rows.take(row("long-name", "Unknown", false), shown).unwrap(),
            "long-name\t\tFalse\tUnknown\tm\n"
        );
        assert_eq!(rows.take(row("web", "True", false), shown).unwrap(), "web      \t\tFalse\tTrue   \tm\n");
        assert_eq!(rows.take(row("web", "True", false), shown), None);
        assert!(rows.take(row("web", "True", true), shown).unwrap().contains("True \tTrue"));
        rows.forget("HelmRelease", "apps", "web");
        assert!(rows.take(row("web", "True", true), shown).is_some());
    }
}
