//! Why a module gets a new revision, in one line for its record: which values changed, and who wrote them. Pure.

use serde_json::Value;
use windlass_cluster::ObjectMeta;

use super::module_name::ModuleName;
use windlass_engine::{FieldChange, value_changes};

/// Changes listed in one line.
const MOST: usize = 3;
/// Longest value that is shown in full, in characters.
const LONGEST: usize = 40;

/// The cause of a release whose values were `before` (`None`: the operator knows of none) and are `after`. `config` is the
/// ConfigMap as it is now; `referred` is what came from Secrets before and now, which is not told.
pub(super) fn cause(
    config: Option<&Value>,
    module: &ModuleName,
    before: Option<&Value>,
    after: &Value,
    referred: [&Value; 2],
) -> String {
    let Some(before) = before else { return "the operator started".to_owned() };
    let open = |values: &Value| {
        let mut values = values.clone();
        referred.iter().for_each(|secret| without(&mut values, secret));
        values
    };
    let changes = value_changes(&open(before), &open(after));
    let Some(first) = changes.first() else {
        let told =
            if before == after { "the module was switched on" } else { "values that it refers to changed" };
        return told.to_owned();
    };
    let mut text = "ConfigMap key ".to_owned();
    text.push_str(&changes.iter().take(MOST).map(format_change).collect::<Vec<_>>().join(", "));
    if changes.len() > MOST {
        text.push_str(&format!(" and {} more", changes.len() - MOST));
    }
    let key = if first.path.starts_with(&module.key) { module.key.as_str() } else { "global" };
    if let Some(manager) = config.and_then(|config| writer(config, key)) {
        text.push_str(&format!(", by field manager {manager}"));
    }
    text
}

/// Takes out of values what others have.
fn without(values: &mut Value, others: &Value) {
    let (Some(values), Some(others)) = (values.as_object_mut(), others.as_object()) else { return };
    for (key, other) in others {
        match values.get_mut(key) {
            Some(value) if value.is_object() && other.is_object() => without(value, other),
            _ => drop(values.remove(key)),
        }
    }
}

fn format_change(change: &FieldChange) -> String {
    let side = |value: &Option<Value>| {
        let Some(value) = value else { return "nothing".to_owned() };
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    };
    format!("{} {} → {}", change.path, side(&change.before), side(&change.after))
}

/// Who wrote a key of the ConfigMap last.
pub fn writer<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    let entries = ObjectMeta::of(config).managed_fields();
    let owner = entries.iter().rev().find(|entry| {
        let data = &entry["fieldsV1"]["f:data"];
        data.get(format!("f:{key}")).is_some()
    });
    owner?["manager"].as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use windlass_render::parse_manifest;

    fn map(text: &str) -> Value {
        parse_manifest(text).unwrap()
    }

    #[test]
    fn says_what_changed_and_by_whom() {
        let module = ModuleName::parse("010-foo-module", 1).unwrap();
        let config = json!({"metadata": {"managedFields": [
            {"manager": "helm", "fieldsV1": {"f:data": {"f:global": {}}}},
            {"manager": "kubectl-edit", "fieldsV1": {"f:data": {"f:fooModule": {}}}}]}});
        let before = map("global: {zone: a}\nfooModule: {replicas: 2, dbPassword: abc}\n");
        let cases = [
            (
                "global: {zone: a}\nfooModule: {replicas: 3, dbPassword: abc}\n",
                "ConfigMap key fooModule.replicas 2 → 3, by field manager kubectl-edit",
            ),
            (
                "global: {zone: b}\nfooModule: {replicas: 2, dbPassword: abc}\n",
                "ConfigMap key global.zone a → b, by field manager helm",
            ),
            (
                "global: {zone: a}\nfooModule: {replicas: 2, dbPassword: xyz}\n",
                "ConfigMap key fooModule.dbPassword (hidden) → (hidden), by field manager kubectl-edit",
            ),
            (
                "global: {zone: a}\nfooModule: {dbPassword: abc}\n",
                "ConfigMap key fooModule.replicas 2 → nothing, by field manager kubectl-edit",
            ),
            ("global: {zone: a}\nfooModule: {replicas: 2, dbPassword: abc}\n", "the module was switched on"),
        ];
        for (after, expected) in cases {
            let none = [&Value::Null; 2];
            assert_eq!(cause(Some(&config), &module, Some(&before), &map(after), none), expected);
        }
        assert_eq!(cause(None, &module, None, &before, [&Value::Null; 2]), "the operator started");
        let (old, new) = (map("fooModule: {token: abc}"), map("fooModule: {token: xyz}"));
        let told = cause(Some(&config), &module, Some(&old), &new, [&old, &new]);
        assert_eq!(told, "values that it refers to changed");
    }
}
