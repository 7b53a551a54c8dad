//! Policies beside keel's own (`make fixtures-keel`).
//!
//! Owns the rules by which ours differ on purpose; docs/image-updates.md says them.

use std::path::Path;

use regex::Regex;
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

/// What an expression chooses here where keel chooses otherwise: keel compares the numbers of its group `compare` as texts, and takes the
/// last of these texts although its number comes before the one that runs. Here the highest number is chosen, and nothing if it is not
/// higher than that of the tag that runs. `None`: the group is absent or has other texts than numbers, and keel's answer is right.
fn highest_number<'t>(expression: &str, current: &str, tags: &'t [String]) -> Option<&'t str> {
    let expression = Regex::new(expression).unwrap();
    let number = |tag: &str| expression.captures(tag)?.name("compare")?.as_str().parse::<u64>().ok();
    let matching = tags.iter().filter(|tag| expression.is_match(tag));
    let numbers: Option<Vec<(u64, &str)>> = matching.map(|tag| Some((number(tag)?, tag.as_str()))).collect();
    let (highest, tag) = numbers?.into_iter().max()?;
    Some(if number(current).is_some_and(|running| running >= highest) { "" } else { tag })
}

/// Whether keel's choice by an expression goes back from a tag that is not in the list any more: here nothing is chosen then.
fn goes_back(expression: &str, current: &str, next: &str) -> bool {
    let expression = Regex::new(expression).unwrap();
    let text = |tag: &str| {
        let found = expression.captures(tag)?;
        Some(found.name("compare").map_or(tag, |group| group.as_str()).to_owned())
    };
    text(current).zip(text(next)).is_some_and(|(current, next)| next < current)
}

/// Whether a choice is as the rules say: keel's, but for the differences on purpose.
fn is_right(answer: &Answer, tags: &[String], ours: &str) -> bool {
    let Answer { policy, current, next, .. } = answer;
    if let Some(expression) = policy.strip_prefix("regexp:") {
        let as_keel = if goes_back(expression, current, next) { "" } else { next };
        return ours == highest_number(expression, current, tags).unwrap_or(as_keel);
    }
    let numbers = |tag: &str| tag.split(['-', '+']).next().unwrap_or_default().split('.').count();
    // A version comes after one with as many numbers.
    let is_longer = !next.is_empty() && numbers(next) != numbers(current);
    // No prerelease comes after latest where prereleases are to match.
    let is_unlike = current == "latest" && ours.is_empty() != next.is_empty();
    ours == next || is_longer || is_unlike
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
            if !is_right(&answer, &group.tags, ours) {
                let Answer { policy, current, match_prerelease, next } = &answer;
                wrong.push(format!("{policy} after {current} ({match_prerelease}): {ours:?}, keel {next:?}"));
            }
        }
    }
    assert!(wrong.is_empty() && asked > 250, "{asked} questions\n{}", wrong.join("\n"));
    assert!(answers.next().is_none(), "an answer without a question");
}
