//! Plans as text.

use serde_json::Value;

use crate::{
    objects::field_diff::FieldChange,
    plan::preview::{ChangeVerb, Preview},
};

/// The style of a verb: its mark, its word in the summary, and its colour.
#[must_use]
pub fn verb_style(verb: ChangeVerb) -> (&'static str, &'static str, &'static str) {
    match verb {
        ChangeVerb::Create => ("+", "create", "32"),
        ChangeVerb::Update => ("~", "update", "33"),
        ChangeVerb::Recreate => ("±", "recreate", "35"),
        ChangeVerb::Adopt => (">", "adopt", "36"),
        ChangeVerb::Delete => ("-", "delete", "31"),
        ChangeVerb::Skip => ("·", "skip", "2"),
        ChangeVerb::Unchanged => ("=", "unchanged", "2"),
        ChangeVerb::Blocked => ("!", "blocked", "31;1"),
    }
}

impl Preview {
    /// The plan as text; with unchanged objects if `unchanged`, in colours if `painted`.
    #[must_use]
    pub fn text(&self, unchanged: bool, painted: bool) -> String {
        let paint = |code: &str, text: &str| {
            if painted { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
        };
        let title = format!("{}/{}: revision {}", self.namespace, self.release, self.revision);
        let mut out = format!("{} ({})\n", paint("1", &title), self.reason);
        for change in self.changes.iter().filter(|c| unchanged || c.verb != ChangeVerb::Unchanged) {
            let (mark, _, color) = verb_style(change.verb);
            let place = change.namespace.as_ref().map_or(String::new(), |n| format!("{n}/"));
            let head = format!("{mark} {} {place}{}", change.kind, change.name);
            out.push_str(&format!("{}  {}\n", paint(color, &head), change.reason));
            if change.verb != ChangeVerb::Create {
                for field in &change.fields {
                    out.push_str(&field_line(field, &paint));
                }
            }
            for conflict in &change.conflicts {
                out.push_str(&format!("    {} is owned by {:?}\n", conflict.field, conflict.manager));
            }
        }
        for hook in &self.hooks {
            out.push_str(&format!("{} {} hook {} {}\n", paint("34", "▸"), hook.event, hook.kind, hook.name));
        }
        for warning in &self.warnings {
            out.push_str(&format!("{} {warning}\n", paint("33", "warning:")));
        }
        let verbs = [
            ChangeVerb::Create,
            ChangeVerb::Update,
            ChangeVerb::Recreate,
            ChangeVerb::Adopt,
            ChangeVerb::Delete,
            ChangeVerb::Skip,
            ChangeVerb::Blocked,
            ChangeVerb::Unchanged,
        ];
        let counts: Vec<String> = verbs
            .iter()
            .map(|verb| (self.count(*verb), verb_style(*verb).1))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        out.push_str(&format!(
            "Plan: {}\n",
            if counts.is_empty() { "no objects".to_owned() } else { counts.join(", ") }
        ));
        out
    }
}

/// The line of a changed field.
pub fn field_line(field: &FieldChange, paint: &impl Fn(&str, &str) -> String) -> String {
    let value = |v: &Value| {
        if field.sensitive { v.as_str().map_or_else(|| v.to_string(), str::to_owned) } else { v.to_string() }
    };
    match (&field.before, &field.after) {
        (Some(before), Some(after)) => {
            let arrow = format!("{} → {}", paint("31", &value(before)), paint("32", &value(after)));
            format!("    {}: {arrow}\n", field.path)
        }
        (None, Some(after)) => {
            format!("    {}: {}\n", paint("32", &format!("+ {}", field.path)), value(after))
        }
        (Some(before), None) => {
            format!("    {}: {}\n", paint("31", &format!("- {}", field.path)), value(before))
        }
        (None, None) => format!("    {}\n", field.path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ReleaseAction;
    use serde_json::json;

    #[test]
    fn plans_are_lines_and_a_sum() {
        let change = |verb, name: &str, fields: Vec<FieldChange>| crate::PlannedChange {
            verb,
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: Some("ns".into()),
            name: name.into(),
            path: String::new(),
            reason: "why".into(),
            option: None,
            objects: None,
            fields,
            writer: None,
            conflicts: vec![],
        };
        let field = |path: &str, before: Option<Value>, after: Option<Value>| FieldChange {
            path: path.into(),
            before,
            after,
            sensitive: false,
        };
        let preview = Preview {
            release: "web".into(),
            namespace: "ns".into(),
            action: ReleaseAction::Upgrade,
            reason: "objects differ".into(),
            revision: 2,
            changes: vec![
                change(ChangeVerb::Create, "a", vec![field("data", None, Some(json!({})))]),
                change(
                    ChangeVerb::Update,
                    "b",
                    vec![
                        field("data.x", Some(json!("1")), Some(json!("2"))),
                        field("data.y", None, Some(json!("3"))),
                        field("data.z", Some(json!("4")), None),
                    ],
                ),
                change(ChangeVerb::Unchanged, "c", vec![]),
            ],
            hooks_differ: false,
            hooks: vec![],
            warnings: vec![],
            digest: String::new(),
        };
        assert_eq!(
            preview.text(false, false),
            "ns/web: revision 2 (objects differ)\n+ ConfigMap ns/a  why\n~ ConfigMap ns/b  why\n    data.x: \"1\" → \"2\"\n    \
             + data.y: \"3\"\n    - data.z: \"4\"\nPlan: 1 create, 1 update, 1 unchanged\n"
        );
        let painted = preview.text(true, true);
        assert!(
            painted.contains("\u{1b}[32m+ ConfigMap ns/a\u{1b}[0m") && painted.contains("= ConfigMap"),
            "{painted}"
        );
    }
}
