//! A run of each family that is small enough for every test run; `make differential` is the large one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail like the tests")]

use windlass_differential::{Family, compare};

/// Questions of each family.
const COUNT: usize = 2000;
/// Changed now and then: any seed must do.
const SEED: u64 = 20_261_121;

fn check(family: Family) {
    let report = compare::run(family, COUNT, SEED).unwrap();
    assert!(report.different == 0, "{} of {COUNT} differ:\n{}", report.different, report.shown());
    // A generator that only makes what fails tests little; of templates with many statements most fail in one.
    assert!(report.errors < COUNT * 7 / 8, "{} of {COUNT} fail in Go", report.errors);
}

#[test]
fn template_questions_are_answered_alike() {
    check(Family::Template);
}

#[test]
fn chart_questions_are_answered_alike() {
    check(Family::Chart);
}

#[test]
fn chart_questions_are_answered_as_helm_3_does() {
    check(Family::Chart3);
}

#[test]
fn schema_questions_are_answered_alike() {
    check(Family::Schema);
}

#[test]
fn function_questions_are_answered_alike() {
    check(Family::Function);
}

#[test]
fn codec_questions_are_answered_alike() {
    check(Family::Codec);
}

#[test]
fn yaml_questions_are_answered_alike() {
    check(Family::Yaml);
}

#[test]
fn manifests_questions_are_answered_alike() {
    check(Family::Manifests);
}

#[test]
fn set_questions_are_answered_alike() {
    check(Family::Set);
}

#[test]
fn semver_questions_are_answered_alike() {
    check(Family::Semver);
}

#[test]
fn regexp_questions_are_answered_alike() {
    check(Family::Regexp);
}

#[test]
fn printf_questions_are_answered_alike() {
    check(Family::Printf);
}

#[test]
fn glob_questions_are_answered_alike() {
    check(Family::Glob);
}

#[test]
fn time_questions_are_answered_alike() {
    check(Family::Time);
}
