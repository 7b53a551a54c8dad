//! Questions of which each once found a difference, with Helm's answers: `make fixtures` records them, and no Go is needed here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use std::fs;
use std::path::Path;

use chart_compat::profile::Profile;
use serde_json::Value;
use windlass_differential::{Answer, Case, Kind, Way, ours};

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/answers").join(name);
    let text =
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}: make fixtures records it", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn kind(name: &str) -> Kind {
    match name {
        "template" => Kind::Template,
        "chart" => Kind::Chart(Profile::Helm4),
        "yaml" => Kind::Yaml,
        "manifests" => Kind::Manifests,
        "schema" => Kind::Schema,
        "set" => Kind::Set(Way::Set),
        "string" => Kind::Set(Way::String),
        "json" => Kind::Set(Way::Json),
        "literal" => Kind::Set(Way::Literal),
        other => panic!("{other} is no kind of question"),
    }
}

#[test]
fn questions_are_answered_as_helm_answers() {
    let (questions, answers) = (read("questions.json"), read("answers.json"));
    let answers = answers.as_array().unwrap();
    let mut wrong = String::new();
    for answer in answers {
        let text = answer["text"].as_str().unwrap();
        let kind = kind(answer["kind"].as_str().unwrap());
        let case = Case { kind, text: text.as_bytes().to_vec(), values: questions["values"].clone() };
        let helm = Answer {
            output: answer["output"].as_str().unwrap_or_default().to_owned(),
            error: answer["error"].as_str().map(str::to_owned),
        };
        let ours = ours::answer(&case);
        if ours != helm {
            wrong += &format!("{text:?}\n  Helm {helm:?}\n  ours {ours:?}\n");
        }
    }
    assert!(wrong.is_empty(), "of {}:\n{wrong}", answers.len());
}

#[test]
fn every_question_is_recorded() {
    let (questions, answers) = (read("questions.json"), read("answers.json"));
    let groups = questions["groups"].as_array().unwrap();
    let asked: Vec<(&Value, &Value)> = groups
        .iter()
        .flat_map(|g| g["texts"].as_array().unwrap().iter().map(|text| (&g["kind"], text)))
        .collect();
    let answered: Vec<(&Value, &Value)> =
        answers.as_array().unwrap().iter().map(|a| (&a["kind"], &a["text"])).collect();
    assert_eq!(asked, answered, "the questions changed: make fixtures records anew");
}
