//! Reviews that the API server sends, and the answers that it gets. Pure.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::shell_hooks::webhook_responses::Admitted;

/// A request of the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Review {
    api_version: Value,
    kind: Value,
    uid: Value,
    /// As it came: what a hook sees.
    pub(super) body: Value,
}

impl Review {
    /// Reads a review of a kind: `AdmissionReview` or `ConversionReview`.
    ///
    /// # Errors
    /// It is not JSON, of another kind, or has no request with a UID.
    pub(super) fn read(bytes: &[u8], kind: &str) -> Result<Self, String> {
        #[expect(clippy::disallowed_methods, reason = "within the memory of all requests")]
        let mut body: Value =
            serde_json::from_slice(bytes).map_err(|e| format!("the body is not JSON: {e}"))?;
        if body["kind"] != kind || !body["apiVersion"].is_string() {
            return Err(format!("the body is no {kind}"));
        }
        if body["request"]["uid"].as_str().is_none_or(str::is_empty) {
            return Err("the body has no request with a uid".to_owned());
        }
        if let Some(body) = body.as_object_mut() {
            body.remove("response");
        }
        let (api_version, kind) = (body["apiVersion"].clone(), body["kind"].clone());
        Ok(Self { api_version, kind, uid: body["request"]["uid"].clone(), body })
    }

    fn answer(&self, response: Map<String, Value>) -> Value {
        let mut response = response;
        response.insert("uid".to_owned(), self.uid.clone());
        json!({"apiVersion": self.api_version, "kind": self.kind, "response": response})
    }

    /// The answer to an admission review. Only of a mutating webhook a patch is taken.
    #[must_use]
    pub(super) fn admitted(&self, answer: &Admitted, mutating: bool) -> Value {
        let mut response = Map::new();
        response.insert("allowed".to_owned(), answer.allowed.into());
        if !answer.warnings.is_empty() {
            response.insert("warnings".to_owned(), answer.warnings.clone().into());
        }
        if !answer.allowed {
            response.insert("status".to_owned(), json!({"code": 403, "message": answer.message}));
        } else if let Some(patch) = answer.patch.as_ref().filter(|_| mutating) {
            response.insert("patch".to_owned(), patch.clone().into());
            response.insert("patchType".to_owned(), "JSONPatch".into());
        }
        self.answer(response)
    }

    /// Takes the objects out of a conversion review; returns them with the desired version.
    ///
    /// # Errors
    /// It has none of these.
    pub(super) fn conversion(&mut self) -> Result<(Vec<Value>, String), String> {
        let request = &mut self.body["request"];
        let wanted = request["desiredAPIVersion"].as_str().ok_or("the request has no desiredAPIVersion")?;
        let wanted = wanted.to_owned();
        match request["objects"].take() {
            Value::Array(objects) => Ok((objects, wanted)),
            _ => Err("the request has no objects".to_owned()),
        }
    }

    /// The same review for other objects: what the next step of a chain sees. Nothing is copied: the body is missing here until it
    /// [comes back](Self::take_back).
    #[must_use]
    pub(super) fn with_objects(&mut self, objects: Vec<Value>) -> Arc<Value> {
        let mut body = self.body.take();
        body["request"]["objects"] = objects.into();
        Arc::new(body)
    }

    /// The body comes back without its objects.
    pub(super) fn take_back(&mut self, shown: Arc<Value>) {
        // A run has dropped its own by now.
        self.body = Arc::unwrap_or_clone(shown);
        self.body["request"]["objects"] = Value::Null;
    }

    /// The answer to a conversion review.
    #[must_use]
    pub(super) fn converted(&self, answer: Result<Vec<Value>, String>) -> Value {
        let mut response = Map::new();
        match answer {
            Ok(objects) => {
                response.insert("convertedObjects".to_owned(), objects.into());
                response.insert("result".to_owned(), json!({"status": "Success"}));
            }
            Err(message) => {
                response.insert("convertedObjects".to_owned(), json!([]));
                response.insert("result".to_owned(), json!({"status": "Failure", "message": message}));
            }
        }
        self.answer(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(kind: &str, request: &Value) -> Review {
        let body = json!({"apiVersion": "g/v1", "kind": kind, "request": request});
        Review::read(body.to_string().as_bytes(), kind).unwrap()
    }

    #[test]
    fn reviews_that_are_none() {
        for (text, part) in [
            ("{", "not JSON"),
            ("{}", "no AdmissionReview"),
            (r#"{"apiVersion":"v","kind":"ConversionReview","request":{"uid":"u"}}"#, "no AdmissionReview"),
            (r#"{"apiVersion":"v","kind":"AdmissionReview"}"#, "no request"),
            (r#"{"apiVersion":"v","kind":"AdmissionReview","request":{"uid":""}}"#, "no request"),
        ] {
            let error = Review::read(text.as_bytes(), "AdmissionReview").unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn answers_to_admission() {
        let review = review("AdmissionReview", &json!({"uid": "u"}));
        let patch = Some("W10=".to_owned());
        let yes = Admitted { allowed: true, patch, warnings: vec!["w".into()], ..Admitted::default() };
        let no = Admitted { message: "no".into(), ..yes.clone() };
        let no = Admitted { allowed: false, ..no };
        let table = [
            (
                &yes,
                true,
                json!({"uid": "u", "allowed": true, "warnings": ["w"], "patch": "W10=", "patchType": "JSONPatch"}),
            ),
            (&yes, false, json!({"uid": "u", "allowed": true, "warnings": ["w"]})),
            (
                &no,
                true,
                json!({"uid": "u", "allowed": false, "warnings": ["w"], "status": {"code": 403, "message": "no"}}),
            ),
        ];
        for (answer, mutating, want) in table {
            let answer = review.admitted(answer, mutating);
            assert_eq!(answer, json!({"apiVersion": "g/v1", "kind": "AdmissionReview", "response": want}));
        }
    }

    #[test]
    fn answers_to_conversion() {
        let request = json!({"uid": "u", "desiredAPIVersion": "g/v2", "objects": [{"a": 1}]});
        let mut review = review("ConversionReview", &request);
        assert_eq!(review.conversion(), Ok((vec![json!({"a": 1})], "g/v2".to_owned())));
        let (before, objects) = (review.body.clone(), vec![json!("large")]);
        let place = objects[0].as_str().unwrap().as_ptr();
        let shown = review.with_objects(objects);
        assert_eq!(shown["request"]["objects"], json!(["large"]));
        assert_eq!(
            shown["request"]["objects"][0].as_str().unwrap().as_ptr(),
            place,
            "it is moved, not copied"
        );
        review.take_back(shown);
        assert_eq!(review.body, before);
        let good = review.converted(Ok(vec![json!({"b": 1})]));
        let response = json!({"uid": "u", "convertedObjects": [{"b": 1}], "result": {"status": "Success"}});
        assert_eq!(good["response"], response);
        let bad = review.converted(Err("cannot".to_owned()));
        assert_eq!(bad["response"]["result"], json!({"status": "Failure", "message": "cannot"}));
    }
}
