//! Crontabs beside the answers of robfig/cron.

use jiff::Timestamp;
use serde::Deserialize;

use super::Cron;

#[derive(Deserialize)]
struct Questions {
    times: Vec<Timestamp>,
    crontabs: Vec<String>,
}

/// What robfig/cron said, recorded by `make fixtures`.
#[derive(Deserialize)]
struct Answer {
    crontab: String,
    #[serde(default)]
    next: Vec<Vec<Timestamp>>,
    #[serde(default)]
    error: String,
}

#[test]
fn times_are_those_of_robfig_cron() {
    let questions: Questions =
        serde_json::from_str(include_str!("../../../../../fixtures/hooks/cron.json")).unwrap();
    let answers: Vec<Answer> =
        serde_json::from_str(include_str!("../../../../../fixtures/hooks/cron.answers.json")).unwrap();
    let asked: Vec<&String> = answers.iter().map(|a| &a.crontab).collect();
    assert_eq!(questions.crontabs.iter().collect::<Vec<_>>(), asked, "make fixtures");
    let mut wrong = Vec::new();
    for Answer { crontab, next, error } in &answers {
        let cron = match Cron::parse(crontab) {
            Ok(cron) => cron,
            Err(e) if error.is_empty() => {
                wrong.push(format!("{crontab:?} is refused: {e}"));
                continue;
            }
            Err(_) => continue,
        };
        if !error.is_empty() {
            wrong.push(format!("{crontab:?} is taken; robfig/cron says {error}"));
            continue;
        }
        for (at, want) in questions.times.iter().zip(next) {
            let mut ours = Vec::new();
            let mut last = *at;
            while let Some(time) = cron.next(last).filter(|_| ours.len() < 5) {
                ours.push(time);
                last = time;
            }
            if ours != *want {
                wrong.push(format!("{crontab:?} after {at}: {ours:?} instead of {want:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), answers.len(), wrong.join("\n"));
}

#[test]
fn a_step_of_nothing_is_refused() {
    // Go's library counts forever, so that no answer can be recorded.
    let error = Cron::parse("*/0 * * * *").unwrap_err().to_string();
    assert_eq!(error, "\"*/0 * * * *\": no step of \"0\" in \"*/0\"");
}
