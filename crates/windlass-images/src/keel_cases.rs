//! Policies beside keel's own (`make fixtures-keel`).
//!
//! Owns the rules by which ours differ on purpose; docs/image-updates.md says them.

use std::path::Path;

use serde::Deserialize;

use crate::update_policy::{CHOICE_LIMIT, Policy};

/// Tags, and who is asked about them.
#[derive(Deserialize)]
struct Questions {
    tags: Vec<String>,
    policies: Vec<String>,
    currents: Vec<String>,
}

/// What keel chooses; empty: nothing.
#[derive(Deserialize)]
struct Answer {
    policy: String,
    current: String,
    match_prerelease: bool,
    next: String,
}

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/keel").join(name);
    std::fs::read_to_string(path).unwrap()
}

/// Why ours may choose otherwise.
fn difference(answer: &Answer, ours: &str) -> Option<&'static str> {
    let numbers = |tag: &str| tag.split(['-', '+']).next().unwrap_or_default().split('.').count();
    if answer.policy.starts_with("regexp:") {
        // keel's expressions go back, and compare numbers as texts.
        return Some("an expression chooses what comes after, and numbers by their value");
    }
    if !answer.next.is_empty() && numbers(&answer.next) != numbers(&answer.current) {
        return Some("a version comes after one with as many numbers");
    }
    if answer.current == "latest" && ours.is_empty() != answer.next.is_empty() {
        return Some("no prerelease comes after latest where prereleases are to match");
    }
    None
}

#[test]
fn policies_choose_as_keel_does() {
    let groups: Vec<Questions> = serde_json::from_str(&fixture("cases.json")).unwrap();
    let results = fixture("results.jsonl");
    let mut answers = results.lines().map(|line| serde_json::from_str::<Answer>(line).unwrap());
    let (mut asked, mut wrong) = (0, Vec::new());
    for group in &groups {
        for _ in 0..group.policies.len() * 2 * group.currents.len() {
            let answer = answers.next().expect("an answer to each question");
            asked += 1;
            let policy = Policy::parse(&answer.policy).unwrap();
            let ours = policy.next(&answer.current, &group.tags, answer.match_prerelease, CHOICE_LIMIT);
            let ours = ours.ok().flatten().unwrap_or_default();
            if ours != answer.next && difference(&answer, ours).is_none() {
                let Answer { policy, current, match_prerelease, next } = &answer;
                wrong.push(format!("{policy} after {current} ({match_prerelease}): {ours:?}, keel {next:?}"));
            }
        }
    }
    assert!(wrong.is_empty() && asked > 250, "{asked} questions\n{}", wrong.join("\n"));
    assert!(answers.next().is_none(), "an answer without a question");
}
