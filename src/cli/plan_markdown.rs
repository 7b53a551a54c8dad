//! Plans as Markdown, for comments of merge requests. Pure.

use serde_json::Value;

use windlass_engine::{ChangeVerb, FieldChange, PlannedChange, Preview, verb_style};

/// Most characters of field changes: a comment has room for some 65,000.
const LARGEST: usize = 50_000;

/// A plan: a table of its objects, and their fields as a diff that is folded.
pub(super) fn of_preview(preview: &Preview, unchanged: bool) -> String {
    let mut out = format!(
        "### Release `{}/{}`: revision {}\n\n{}\n\n",
        preview.namespace,
        preview.release,
        preview.revision,
        plain(&preview.reason)
    );
    let shown = |change: &&PlannedChange| unchanged || change.verb != ChangeVerb::Unchanged;
    let changes: Vec<&PlannedChange> = preview.changes.iter().filter(shown).collect();
    if !changes.is_empty() {
        out.push_str("| | Object | Reason |\n| --- | --- | --- |\n");
    }
    for change in &changes {
        let (_, word, _) = verb_style(change.verb);
        out.push_str(&format!("| {word} | `{}` | {} |\n", name(change), plain(&change.reason)));
    }
    let fields = fields(&changes);
    if !fields.is_empty() {
        out.push_str(&format!("\n<details><summary>Fields</summary>\n\n{}\n</details>\n", fenced(&fields)));
    }
    for hook in &preview.hooks {
        out.push_str(&format!("\n- hook {}: `{} {}`", hook.event, hook.kind, hook.name));
    }
    for warning in &preview.warnings {
        out.push_str(&format!("\n- **warning**: {}", plain(warning)));
    }
    if !(preview.hooks.is_empty() && preview.warnings.is_empty()) {
        out.push('\n');
    }
    out.push_str(&format!("\n**{}**\n", summary(preview)));
    out
}

/// The counts of a plan in one line.
pub(super) fn summary(preview: &Preview) -> String {
    // The last line of the text has them.
    preview.text(false, false).lines().last().unwrap_or_default().to_owned()
}

fn name(change: &PlannedChange) -> String {
    let place = change.namespace.as_ref().map_or(String::new(), |namespace| format!("{namespace}/"));
    format!("{} {place}{}", change.kind, change.name).replace('`', "")
}

/// The changed fields of all objects, as lines of a diff.
fn fields(changes: &[&PlannedChange]) -> String {
    let mut out = String::new();
    for change in changes.iter().filter(|c| c.verb != ChangeVerb::Create && !c.fields.is_empty()) {
        let mut part = format!("# {}\n", name(change));
        for field in &change.fields {
            let mut line = |mark: char, value: &Value| {
                part.push_str(&format!("{mark} {}: {}\n", field.path, format_field_value(field, value)));
            };
            if let Some(before) = &field.before {
                line('-', before);
            }
            if let Some(after) = &field.after {
                line('+', after);
            }
        }
        if out.len() + part.len() > LARGEST {
            out.push_str("# more fields change than fit here\n");
            break;
        }
        out.push_str(&part);
    }
    out
}

fn format_field_value(field: &FieldChange, value: &Value) -> String {
    match value.as_str() {
        Some(masked) if field.sensitive => masked.to_owned(),
        _ => value.to_string(),
    }
}

/// A code block whose fence is longer than any in the text.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}diff\n{text}{fence}\n")
}

/// A text that stays in its cell and is no markup.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '|' | '`' | '*' | '_' | '<' | '[' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn preview(changes: &Value) -> Preview {
        serde_json::from_value(json!({
            "release": "web", "namespace": "apps", "action": "upgrade", "reason": "values <changed>", "revision": 3,
            "changes": changes, "hooks": [{"event": "pre-upgrade", "kind": "Job", "name": "migrate"}],
            "warnings": ["a|b"], "digest": "",
        }))
        .unwrap()
    }

    #[test]
    fn a_plan_is_a_table_and_a_diff() {
        let changes = json!([
            {"verb": "create", "apiVersion": "v1", "kind": "ConfigMap", "namespace": "apps", "name": "a", "reason": "it is not there",
             "fields": [{"path": "data", "after": {}, "sensitive": false}]},
            {"verb": "update", "apiVersion": "v1", "kind": "Secret", "namespace": "apps", "name": "b", "reason": "it differs",
             "fields": [{"path": "data.x", "before": "(3 bytes)", "after": "(4 bytes)", "sensitive": true}]},
            {"verb": "unchanged", "apiVersion": "v1", "kind": "ClusterRole", "name": "c", "reason": "same"},
        ]);
        let expected = "\
### Release `apps/web`: revision 3

values \\<changed>

| | Object | Reason |
| --- | --- | --- |
| create | `ConfigMap apps/a` | it is not there |
| update | `Secret apps/b` | it differs |

<details><summary>Fields</summary>

```diff
# Secret apps/b
- data.x: (3 bytes)
+ data.x: (4 bytes)
```

</details>

- hook pre-upgrade: `Job migrate`
- **warning**: a\\|b

**Plan: 1 create, 1 update, 1 unchanged**
";
        assert_eq!(of_preview(&preview(&changes), false), expected);
    }

    #[test]
    fn values_cannot_end_the_block_and_large_plans_end() {
        let field = json!({"path": "data.x", "before": "```", "after": "y".repeat(600), "sensitive": false});
        let change = |n: usize| {
            json!({"verb": "update", "apiVersion": "v1", "kind": "ConfigMap", "name": format!("c{n}"),
            "reason": "it differs", "fields": [field]})
        };
        let text = of_preview(&preview(&(0..200).map(change).collect()), false);
        assert!(text.contains("````diff\n") && text.contains("# more fields change than fit here"), "{text}");
        assert!(text.len() < 65_000, "{}", text.len());
    }
}
