//! Readiness that an object's annotations define, in the syntax of `kubectl wait --for`. Pure.

use crate::execute::readiness::kstatus::Readiness;
use serde_json::Value;
use windlass_cluster::ObjectMeta;

/// Annotation: terms on separate lines or separated by `;`, all of which must hold.
const READY: &str = "windlass.dev/ready-when";
/// The same for a permanent failure.
const FAILED: &str = "windlass.dev/failed-when";

/// Whether an object defines its readiness.
pub(crate) fn states(object: &Value) -> bool {
    ObjectMeta::of(object).annotation(READY).is_some()
}

/// The result of an object's own terms; `None` without terms.
pub(crate) fn judge(object: &Value) -> Option<Readiness> {
    let annotation = |name: &str| ObjectMeta::of(object).annotation(name);
    let ready = annotation(READY)?;
    if let Some(failed) = annotation(FAILED)
        && terms(failed).next().is_some()
        && terms(failed).all(|term| holds(term, object) == Ok(true))
    {
        return Some(Readiness::Failed(format!("{FAILED}: {failed}")));
    }
    for term in terms(ready) {
        match holds(term, object) {
            Ok(true) => {}
            Ok(false) => return Some(Readiness::Waiting(format!("not yet: {term}"))),
            Err(reason) => return Some(Readiness::Failed(format!("annotation {READY}: {term:?}: {reason}"))),
        }
    }
    Some(Readiness::Ready)
}

fn terms(text: &str) -> impl Iterator<Item = &str> {
    text.split([';', '\n']).map(str::trim).filter(|term| !term.is_empty())
}

/// `condition=Ready`, `condition=Ready=False`, `jsonpath={.status.phase}=Running`, or `jsonpath={.status.phase}` for any
/// value at all.
fn holds(term: &str, object: &Value) -> Result<bool, &'static str> {
    if let Some(condition) = term.strip_prefix("condition=") {
        let (kind, wanted) = condition.split_once('=').unwrap_or((condition, "True"));
        let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        let same = |a: &Value, b: &str| a.as_str().is_some_and(|a| a.eq_ignore_ascii_case(b));
        return Ok(conditions.iter().any(|c| same(&c["type"], kind) && same(&c["status"], wanted)));
    }
    let path = term.strip_prefix("jsonpath=").ok_or("a term is condition=… or jsonpath={…}=…")?;
    let (path, rest) = path.strip_prefix('{').and_then(|p| p.split_once('}')).ok_or("no {path}")?;
    let found = at(object, path)?;
    match rest.strip_prefix('=') {
        Some(wanted) => {
            let text = found.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
            Ok(text.as_deref() == Some(wanted))
        }
        None if rest.is_empty() => Ok(found.is_some_and(|value| !value.is_null())),
        None => Err("after {path} comes =VALUE or nothing"),
    }
}

/// The value at `.a.b[0]['c.d']`.
fn at<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, &'static str> {
    let mut value = Some(object);
    let mut rest = path;
    while !rest.is_empty() {
        let (step, more) = if let Some(inner) = rest.strip_prefix("['") {
            inner.split_once("']").ok_or("a [' without ']")?
        } else if let Some(inner) = rest.strip_prefix('[') {
            inner.split_once(']').ok_or("a [ without ]")?
        } else {
            let inner = rest.strip_prefix('.').ok_or("a step begins with . or [")?;
            inner.split_at(inner.find(['.', '[']).unwrap_or(inner.len()))
        };
        value = value.and_then(|v| match v {
            Value::Array(items) => items.get(step.parse::<usize>().ok()?),
            other => other.get(step),
        });
        rest = more;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn terms_are_kubectls() {
        let object = |ready: &str, failed: &str| {
            json!({"metadata": {"annotations": {READY: ready, FAILED: failed, "a.b/c": "x"}}, "status": {"phase": "Up", "count": 3,
                "list": [{"ip": "1.2.3.4"}], "conditions": [{"type": "Ready", "status": "True"}, {"type": "Bad", "status": "False"}]}})
        };
        let cases = [
            ("condition=ready", "", "ready"),
            ("condition=Bad", "", "not yet: condition=Bad"),
            ("condition=Bad=false; jsonpath={.status.phase}=Up", "", "ready"),
            ("jsonpath={.status.count}=3", "", "ready"),
            ("jsonpath={.status.count}=4\njsonpath={.x}", "", "not yet: jsonpath={.status.count}=4"),
            ("jsonpath={.status.list[0].ip}", "", "ready"),
            ("jsonpath={.status.list[1].ip}", "", "not yet: jsonpath={.status.list[1].ip}"),
            ("jsonpath={.metadata.annotations['a.b/c']}=x", "", "ready"),
            (
                "condition=Bad",
                "jsonpath={.status.phase}=Up",
                "failed: windlass.dev/failed-when: jsonpath={.status.phase}=Up",
            ),
            (
                "phase=Up",
                "",
                "failed: annotation windlass.dev/ready-when: \"phase=Up\": a term is condition=… or jsonpath={…}=…",
            ),
            (
                "jsonpath={status}",
                "",
                "failed: annotation windlass.dev/ready-when: \"jsonpath={status}\": a step begins with . or [",
            ),
        ];
        for (ready, failed, expected) in cases {
            let said = match judge(&object(ready, failed)) {
                Some(Readiness::Ready) => "ready".to_owned(),
                Some(Readiness::Waiting(reason)) => reason,
                Some(Readiness::Failed(reason)) => format!("failed: {reason}"),
                None => "nothing".to_owned(),
            };
            assert_eq!(said, expected, "{ready} {failed}");
        }
        assert_eq!(judge(&json!({"metadata": {}})), None);
    }
}
