//! Which objects a request to a webhook is about, as `resourceFilter` and `filter` of its Receiver say in CEL. Pure.

use serde_json::{Map, Value};

use flux_api::receiver::ReceiverSpec;
use windlass_base::bounded_json;
use windlass_base::cel_expression::{SharedVariables, check_over};
use windlass_cluster::ObjectRef;

use super::super::error::FluxError;

/// What expressions see: the metadata of an object, and the request's body.
const VARIABLES: [&str; 2] = ["res", "req"];

/// What is wrong with the expressions of a Receiver.
pub(super) fn invalid_filter(spec: &ReceiverSpec) -> Option<String> {
    if !spec.resource_filter.is_empty()
        && let Err(error) = check_over(&spec.resource_filter, &VARIABLES)
    {
        return Some(format!("invalid resourceFilter expression: {error}"));
    }
    spec.resources.iter().enumerate().filter(|(_, resource)| !resource.filter.is_empty()).find_map(
        |(at, resource)| {
            let error = check_over(&resource.filter, &VARIABLES).err()?;
            let (kind, name) = (&resource.reference.kind, &resource.reference.name);
            Some(format!(
                "invalid filter expression for resources[{at}] (kind={kind:?}, name={name:?}): {error}"
            ))
        },
    )
}

/// The expressions for one request.
pub(super) struct Filters {
    /// Those for the objects of each reference.
    expressions: Vec<Vec<String>>,
    /// The body of the request; `None`: no expression may look at it.
    request: Option<SharedVariables>,
}

impl Filters {
    /// Whether a Receiver has expressions for its objects.
    pub(super) fn are_used(spec: &ReceiverSpec) -> bool {
        let mut resources = spec.resources.iter();
        resources.any(|resource| !spec.resource_filter.is_empty() || !resource.filter.is_empty())
    }

    /// Whether the body of a request is read for expressions: only JSON can be looked at. It takes [`SharedVariables::CONVERTED`] times as
    /// much as its values then, and [`SharedVariables::KEPT`] times as long as there are filters.
    pub(super) fn read_body(spec: &ReceiverSpec, content_type: &str) -> bool {
        Self::are_used(spec) && is_json(content_type)
    }

    /// Reads the body of a request, if an expression may look at it. It is converted once, for all objects.
    ///
    /// # Errors
    /// The body is not the JSON that its type promises.
    pub(super) fn new(spec: &ReceiverSpec, content_type: &str, body: &[u8]) -> Result<Self, FluxError> {
        let mut request = Value::Object(Map::new());
        let of = |own: &str| {
            let both = [spec.resource_filter.as_str(), own].into_iter();
            both.filter(|text| !text.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let expressions: Vec<_> = spec.resources.iter().map(|resource| of(&resource.filter)).collect();
        if Self::read_body(spec, content_type) {
            let failed = |why: String| FluxError::within("failed to parse request body as JSON", why);
            match bounded_json::from_slice(body).map_err(|e| failed(e.to_string()))? {
                Value::Null => {}
                object @ Value::Object(_) => request = object,
                _ => return Err(failed("it is not an object".to_owned())),
            }
        }
        let shared = || SharedVariables::new(vec![("req", request)]).map_err(FluxError::from);
        let request = Self::are_used(spec).then(shared).transpose()?;
        Ok(Self { expressions, request })
    }

    fn expressions(&self, at: usize) -> &[String] {
        self.expressions.get(at).map_or(&[], Vec::as_slice)
    }

    /// Whether objects of a reference are looked at.
    pub(super) fn are_for(&self, at: usize) -> bool {
        !self.expressions(at).is_empty()
    }

    /// Whether an object of a reference is reconciled. `object`: its metadata.
    ///
    /// # Errors
    /// An expression cannot be evaluated.
    pub(super) fn admit(&self, at: usize, reference: &ObjectRef, object: &Value) -> Result<bool, FluxError> {
        let Some(request) = &self.request else { return Ok(true) };
        let mut object = object.clone();
        // An object that was asked for as metadata has the kind of that form.
        object["kind"] = reference.gvk.kind.as_str().into();
        object["apiVersion"] = reference.gvk.api_version().into();
        for expression in self.expressions(at) {
            let failed = |e| format!("failed to evaluate the CEL expression '{expression}': {e}");
            if !request.holds(expression, &[("res", &object)]).map_err(failed)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether one of the media types of a header is that of JSON.
fn is_json(content_type: &str) -> bool {
    content_type.split(',').any(|part| {
        part.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use windlass_cluster::Gvk;

    fn spec(filter: &str, own: &str) -> ReceiverSpec {
        let resources =
            json!([{"kind": "Bucket", "name": "a"}, {"kind": "Bucket", "name": "b", "filter": own}]);
        serde_json::from_value(json!({"type": "generic", "resourceFilter": filter, "resources": resources}))
            .unwrap()
    }

    #[test]
    fn objects_are_admitted_by_both_expressions() {
        let body = br#"{"tag": "example.org/web:v1"}"#;
        let object =
            json!({"kind": "PartialObjectMetadata", "metadata": {"name": "web", "labels": {"env": "prod"}}});
        let reference =
            ObjectRef::new(Gvk::new("source.toolkit.fluxcd.io/v1", "Bucket"), Some("apps"), "web");
        let admit = |filter: &str, own: &str, at: usize, media: &str| {
            let spec = spec(filter, own);
            let filters = Filters::new(&spec, media, body)?;
            if !filters.are_for(at) {
                return Ok(true);
            }
            filters.admit(at, &reference, &object)
        };
        let media = "application/json; charset=utf-8";
        for (filter, own, at, media, expected) in [
            ("", "", 1, media, Ok(true)),
            ("req.tag.contains(res.metadata.name)", "", 0, media, Ok(true)),
            (
                "req.tag.contains(res.metadata.name)",
                "res.metadata.labels['env'] == 'test'",
                0,
                media,
                Ok(true),
            ),
            (
                "req.tag.contains(res.metadata.name)",
                "res.metadata.labels['env'] == 'test'",
                1,
                media,
                Ok(false),
            ),
            ("req.tag == 'x'", "res.none", 1, media, Ok(false)),
            ("", "res.kind == 'Bucket'", 1, media, Ok(true)),
            ("has(res.metadata.annotations)", "", 0, media, Ok(false)),
            ("has(req.tag)", "", 0, "text/plain", Ok(false)),
            ("has(req.tag)", "", 0, "text/plain,application/json", Ok(true)),
            ("req.none == 'a'", "", 0, media, Err("No such key: none")),
            ("req.tag", "", 0, media, Err("neither true nor false")),
        ] {
            let found = admit(filter, own, at, media);
            match expected {
                Ok(expected) => assert_eq!(found, Ok(expected), "{filter} {own} {at}"),
                Err(why) => {
                    assert!(
                        found.as_ref().is_err_and(|e| e.to_string().contains(why)),
                        "{filter}: {found:?}"
                    );
                }
            }
        }
        for body in ["[1]", "{", "1"] {
            let spec = spec("true", "");
            assert!(Filters::new(&spec, media, body.as_bytes()).is_err(), "{body}");
        }
        assert!(Filters::new(&spec("", ""), media, b"{").is_ok(), "nothing looks at it");
        assert!(Filters::new(&spec("true", ""), media, b"null").is_ok());
    }

    #[test]
    fn wrong_expressions_are_named() {
        assert_eq!(invalid_filter(&spec("req.tag == res.metadata.name", "true")), None);
        let said = |filter: &str, own: &str| invalid_filter(&spec(filter, own)).unwrap();
        assert_eq!(
            said("claims.a", ""),
            "invalid resourceFilter expression: undeclared reference to 'claims'"
        );
        assert!(said("req.", "").starts_with("invalid resourceFilter expression: "));
        assert!(said("", "x").starts_with(
            "invalid filter expression for resources[1] (kind=\"Bucket\", name=\"b\"): undeclared"
        ));
    }
}
