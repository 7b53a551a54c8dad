//! Selectors of a configuration, to the API's notation.

use super::fields::Fields;
use super::{ConfigError, Namespaces};

/// `matchNames` of a name selector.
pub(super) fn names(fields: &mut Fields<'_>, key: &'static str) -> Result<Option<Vec<String>>, ConfigError> {
    let Some(mut selector) = fields.map(key)? else { return Ok(None) };
    let names = match selector.texts("matchNames")? {
        Some(names) => names,
        None if selector.is_tolerant() => Vec::new(),
        None => return selector.fail("matchNames", "it is missing"),
    };
    selector.finish()?;
    Ok(Some(names))
}

/// A label selector as the API takes it in a query, e.g. `app=x,tier in (a,b),!old`.
pub(super) fn labels(fields: &mut Fields<'_>, key: &'static str) -> Result<Option<String>, ConfigError> {
    let Some(mut selector) = fields.map(key)? else { return Ok(None) };
    let mut parts = Vec::new();
    if let Some(wanted) = selector.any("matchLabels") {
        let Some(wanted) = wanted.as_object() else { return selector.fail("matchLabels", "it is not a map") };
        for (label, value) in wanted {
            let Some(value) = value.as_str() else {
                return selector.fail("matchLabels", format!("the value of {label:?} is not a string"));
            };
            parts.push(format!("{label}={value}"));
        }
    }
    for mut expression in selector.maps("matchExpressions")? {
        let label = expression.wanted("key")?;
        let Some(operator) = expression.word("operator", &["In", "NotIn", "Exists", "DoesNotExist"])? else {
            return expression.fail("operator", "it is missing");
        };
        let values = expression.texts("values")?.unwrap_or_default();
        let sets = matches!(operator, "In" | "NotIn");
        if sets == values.is_empty() {
            let text = if sets { "it needs at least one value" } else { "the operator takes no values" };
            return expression.fail("values", text);
        }
        let values = values.join(",");
        parts.push(match operator {
            "In" => format!("{label} in ({values})"),
            "NotIn" => format!("{label} notin ({values})"),
            "Exists" => label,
            _ => format!("!{label}"),
        });
        expression.finish()?;
    }
    selector.finish()?;
    Ok(Some(parts.join(",")))
}

/// A field selector, e.g. `metadata.name!=x,spec.nodeName=y`, with the fields that it names.
pub(super) fn field_selector(
    fields: &mut Fields<'_>,
    key: &'static str,
) -> Result<(String, Vec<String>), ConfigError> {
    let Some(mut selector) = fields.map(key)? else { return Ok((String::new(), Vec::new())) };
    let (mut parts, mut named) = (Vec::new(), Vec::new());
    for mut expression in selector.maps("matchExpressions")? {
        let field = expression.wanted("field")?;
        let operators = ["=", "==", "Equals", "!=", "NotEquals"];
        let Some(operator) = expression.word("operator", &operators)? else {
            return expression.fail("operator", "it is missing");
        };
        let value = expression.text("value")?.unwrap_or_default();
        let sign = if matches!(operator, "!=" | "NotEquals") { "!=" } else { "=" };
        parts.push(format!("{field}{sign}{value}"));
        named.push(field);
        expression.finish()?;
    }
    selector.finish()?;
    Ok((parts.join(","), named))
}

/// `namespace` of a kubernetes binding: labels win over names.
pub(super) fn namespaces(fields: &mut Fields<'_>) -> Result<Namespaces, ConfigError> {
    let Some(mut selector) = fields.map("namespace")? else { return Ok(Namespaces::All) };
    let named = names(&mut selector, "nameSelector")?;
    let labelled = labels(&mut selector, "labelSelector")?;
    let found = match (labelled, named) {
        (Some(labels), _) => Namespaces::Labelled(labels),
        (None, Some(names)) if !names.is_empty() => Namespaces::Named(names),
        _ => Namespaces::All,
    };
    selector.finish()?;
    Ok(found)
}
